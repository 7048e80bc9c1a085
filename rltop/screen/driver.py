"""A driver of Textual's that leaves the terminal to the guard, and how often the screen follows new data.

The first change is drawn at once. After it, never more often than was asked for, never so often that drawing takes more
than a share of the time, and never before the terminal has shown the last picture, where the terminal tells.

With `textual_shim` one of the two places that touch what Textual does not document.
Written against Textual 8.2; `driver_for` says what it leans on.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import threading
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from typing import Any, ClassVar, cast

from textual import events
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.messages import TerminalSupportsSynchronizedOutput

from rltop.clock import Clock
from rltop.regex import regex
from rltop.screen.guard import TerminalGuard
from rltop.screen.textual_shim import PatchedApp

MOST_HZ = 4.0
MULTIPLEXER_HZ = 2.0
"""Inside tmux and its like nobody tells how fast the link to the person is."""

IDLE_GAP = 15.0
"""After a picture, this many times its processor time is left to others: the login node has two hundred users."""

LEAST_GAP, PATIENT_S = 8.0, 0.5
"""So many times are enough where a row would wait for longer than so many seconds, as on a busy machine."""

_COSTS = 3
"""Pictures that are remembered by what they took; the cheapest of them counts."""

LOADING_S = 1.0
"""While history is read, reading it is worth more than showing how far it has come."""

QUERY = "\x1b[?2026$p"
"""Asks the terminal whether it knows synchronised output. It answers when it has drawn all that came before."""

PATIENCE_S = 3.0
"""An answer that takes longer is not waited for."""

MISSES = 2
"""So many missing answers in a row, and the terminal is not asked again."""

LAST_ANSWER_S = 0.25
"""How long leaving waits for an answer under way, which would otherwise be typed into the shell."""

_MULTIPLEXERS = ("TMUX", "STY", "ZELLIJ")


def is_multiplexed(environment: Mapping[str, str]) -> bool:
    """Whether tmux, screen or zellij lies between the program and the terminal."""
    return any(environment.get(name) for name in _MULTIPLEXERS)


class LinkPing:
    """Finds out when a picture has arrived: a question after it, answered in order.

    `answered` may be called from any thread; everything else is the event loop's.
    """

    def __init__(self, clock: Clock, *, is_on: bool = True) -> None:
        """Asks nothing before the terminal has answered once by itself."""
        self._clock = clock
        self._is_on = is_on
        self._is_able = False
        self._asked_s: float | None = None
        self._misses = 0
        self._wake: Callable[[], None] | None = None
        self._is_settled = threading.Event()
        self._is_settled.set()

    def listen(self, wake: Callable[[], None] | None) -> None:
        """Call `wake` when an answer has come, from whatever thread sees it."""
        self._wake = wake

    def answered(self) -> None:
        self._is_able = self._is_on and self._misses < MISSES
        was_waited_for, self._asked_s = self._asked_s is not None, None
        self._misses = 0
        self._is_settled.set()
        if was_waited_for and self._wake is not None:
            self._wake()

    def ask(self, send: Callable[[str], object]) -> None:
        if self._is_able and self._asked_s is None:
            self._asked_s = self._clock.monotonic()
            self._is_settled.clear()
            send(QUERY)

    @property
    def is_clear(self) -> bool:
        """Nothing that was sent is known to be still on its way."""
        asked_s = self._asked_s
        if asked_s is None:
            return True
        if self._clock.monotonic() - asked_s < PATIENCE_S:
            return False
        self._asked_s = None
        self._misses += 1
        self._is_able = self._misses < MISSES
        return True

    def settle(self) -> None:
        self._is_settled.wait(LAST_ANSWER_S)


class Pace:
    """When the next picture of new data may be drawn."""

    def __init__(self, clock: Clock, hz: float, ping: LinkPing, *, is_multiplexed: bool = False) -> None:
        self._clock = clock
        self._ping = ping
        self._most_hz = MULTIPLEXER_HZ if is_multiplexed else MOST_HZ
        self.limit(hz)
        self._drawn_s = float("-inf")
        self._began_s = 0.0
        self._costs_s: deque[float] = deque(maxlen=_COSTS)

    def limit(self, hz: float) -> None:
        """At most `hz` pictures a second, from 1 to `MOST_HZ`; inside a multiplexer at most `MULTIPLEXER_HZ`."""
        self._least_s = 1.0 / min(self._most_hz, max(1.0, hz))

    def wait_s(self, *, is_loading: bool = False) -> float:
        """How long new data must wait; 0 where they may be drawn now, infinite where an answer will say."""
        # One picture may have taken longer for a reason of its own, such as a collection of garbage.
        cost_s = min(self._costs_s, default=0.0)
        idle_s = min(IDLE_GAP * cost_s, max(PATIENT_S, LEAST_GAP * cost_s))
        gap_s = max(self._least_s, idle_s, LOADING_S if is_loading else 0.0)
        left_s = gap_s - (self._clock.monotonic() - self._drawn_s)
        if left_s > 0.0:
            return left_s
        return 0.0 if self._ping.is_clear else float("inf")

    def begin(self) -> None:
        self._drawn_s = self._clock.monotonic()
        self._began_s = self._clock.worked()
        self._costs_s.append(0.0)

    def end(self) -> None:
        """It is done: what the last ones took decides when the next one may come.

        To be called once more when it has been sent, which is the smaller part of its cost.
        """
        if self._costs_s:
            self._costs_s[-1] = self._clock.worked() - self._began_s


_ALTERNATE_SCREEN = frozenset({"\x1b[?1049h", "\x1b[?1049l"})

_FLUSH_CHARACTERS = 1 << 16

_ESCAPE = "\x1b"
_INTRODUCERS = frozenset({_ESCAPE, "[", "O", "]", "P", "_", "^", "X"})
"""What makes a sequence of what follows an escape (ECMA-48: CSI, SS3, OSC, DCS, APC, PM, SOS)."""
_TWO_KEYS = frozenset({"\x1b[", "\x1bO"})
_IN_A_FIELD = frozenset({"b", "f", "\x7f", "\t"})
"""What Alt makes of these in a text field: a word back, a word on, a word deleted; and Shift-Tab."""

_KEYS_S, _CALM_S = 0.1, 1.0
"""How often whoever reads keys looks whether an escape has stood alone for long enough; and where none stands, whether
it is to end, of which it is told as well."""

_BLOCK_BYTES = 4096


class _Outlet:
    """The file that Textual's writer thread writes to: the guard's terminal.

    Textual writes to standard error, which may be a log file, and its writer thread dies of the first error, after
    which the full queue blocks the event loop. The guard does neither, and stops writing the moment it has restored.
    """

    def __init__(self, guard: TerminalGuard) -> None:
        self._guard = guard
        self._pending: list[str] = []
        self._size = 0

    def write(self, text: str) -> int:
        self._pending.append(text)
        self._size += len(text)
        if self._size > _FLUSH_CHARACTERS:
            self.flush()
        return len(text)

    def flush(self) -> None:
        data, self._pending, self._size = "".join(self._pending), [], 0
        self._guard.write(data.encode("utf-8", "replace"))

    def fileno(self) -> int:
        return self._guard.output_fd


_BACKGROUND = "\x1b]11;?\x1b\\"
"""Asks a terminal for its background (xterm's control sequences, OSC 11)."""
_REPLY = "]11;rgb"
_CHANNELS = regex(r"11;rgba?:([0-9a-f]{1,4})/([0-9a-f]{1,4})/([0-9a-f]{1,4})", re.IGNORECASE)
_MOST_REPLY = 64
_REPLY_S = 2.0
"""How long the rest of a reply may be late whose first two characters could be keys as well."""
_NO_REPORT = "[?0;0$y"
"""Ends an escape sequence that has begun, and means nothing: the report of a mode that there is not."""
_LUMA = (0.299, 0.587, 0.114)
"""What red, green and blue add to how light a colour looks (ITU-R BT.601)."""


class TerminalBackground(Message):
    """The terminal has said what its background is."""

    def __init__(self, is_light: bool) -> None:
        super().__init__()
        self.is_light = is_light


def _background_of(reply: str) -> TerminalBackground | None:
    found = _CHANNELS.match(reply)
    if found is None:
        return None
    shares = [int(channel, 16) / (16 ** len(channel) - 1) for channel in found.groups()]
    return TerminalBackground(sum(part * share for part, share in zip(_LUMA, shares, strict=True)) > 0.5)


class KeyParser(XTermParser):
    """Reads keys; a key right behind Escape is that key, not one with Alt, unless that means something.

    A terminal sends the same bytes for both. Textual waits a tenth of a second and then takes them for one key, which
    nothing is bound to: Escape and `q` typed one after the other would both be lost.

    The reply to a question for the background is no keys either, however late it comes and in however many parts.

    Leans on: `tick` ends the wait for the rest of an escape sequence when `_timeout_time` is over, and
    `_sequence_to_key_events` names the key of a character.
    """

    def __init__(self, with_alt: Collection[str]) -> None:
        super().__init__()
        self.use(with_alt)
        self._is_escaped = False
        self._last = ""
        self.awaits_reply = False
        self._reply = ""
        self._replies_since_s = 0.0
        self._has_begun = False

    def use(self, with_alt: Collection[str]) -> None:
        self._whole = _IN_A_FIELD | frozenset(with_alt)

    def feed(self, data: str) -> Iterator[Message]:
        for i, character in enumerate(data):
            if self._reply or (self.awaits_reply and character == _REPLY[0]):
                yield from self._take_reply(character)
                continue
            # What comes by itself behind an escape has been typed behind it.
            is_alone = character not in _INTRODUCERS and not (i > 0 and character in self._whole)
            if self._is_escaped and is_alone and self._timeout_time is not None:
                self._timeout_time = 0.0
                yield from self.tick()
            self._is_escaped = character == _ESCAPE
            self._last = self._last[-1:] + character
            yield from super().feed(character)

    def _take_reply(self, character: str) -> Iterator[Message]:
        """A character of the reply; what turns out to be none goes where it would have gone."""
        if not self._reply:
            self._replies_since_s = get_time()
            # An escape that has waited for long has become a key before this came.
            self._has_begun, self._timeout_time = self._timeout_time is not None and self._is_escaped, None
        self._reply += character
        length = len(self._reply)
        if self._reply[: len(_REPLY)].lower() != _REPLY[:length] or length > _MOST_REPLY:
            yield from self._give_back()
        elif character == "\x07" or self._reply.endswith("\x1b\\"):
            reply, self._reply, self.awaits_reply, self._is_escaped = self._reply[1:], "", False, False
            if self._has_begun:
                yield from super().feed(_NO_REPORT)
            found = _background_of(reply)
            if found is not None:
                yield found

    def _give_back(self) -> Iterator[Message]:
        text, self._reply, self.awaits_reply = self._reply, "", False
        yield from self.feed(text)
        self.awaits_reply = True

    @property
    def is_waiting(self) -> bool:
        """May what has come be over by time alone?"""
        return bool(self._reply) or self._timeout_time is not None

    def tick(self) -> Iterator[Message]:
        """What has come to an end by itself: an escape, or the beginning of a sequence that was two keys."""
        if self._reply:
            # The beginning of the reply may be keys as well; the rest of it is waited for.
            patience_s = _REPLY_S if self._has_begun else _KEYS_S
            if len(self._reply) < 4 and get_time() - self._replies_since_s > patience_s:
                yield from self._give_back()
            return
        messages = list(super().tick())
        if messages and self._last in _TWO_KEYS:
            messages = [events.Key("escape", _ESCAPE), *self._sequence_to_key_events(self._last[-1])]
        yield from messages


class GuardedDriver(LinuxDriver):
    """A driver that draws on the alternate screen which a guard already shows.

    Leans on: `LinuxDriver` (module `textual.drivers.linux_driver`), its attributes `_file`, `fileno` and `input_tty`,
    its methods `_get_terminal_size` and `run_input_thread`, which parses keys with `XTermParser` on a thread of its own
    until `exit_event` is set, and the fact that it switches screens by writing exactly `CSI ?1049h` and `CSI ?1049l`.
    Also on `process_message`, which sees on its own thread every key and the message
    `TerminalSupportsSynchronizedOutput` for each answer to `CSI ?2026$p`, on `_app`, and on `disable_input`, after
    which nobody reads such an answer: it joins `_key_thread`, and throws away what is typed behind that. Also on the
    `_queue` of `_writer_thread`, which holds 30 writes, after which the event loop would wait.
    Also on `suspend_application_mode` and `resume_application_mode`, which end and begin both threads, and on
    `attrs_before`, the settings that it would restore. Its own answers to SIGTSTP and SIGCONT, set when it is made, end
    in an empty screen, and in a second thread that reads keys where nobody announced the stop. What was typed before it
    came is put before what its input thread reads. Entering a second time would clear the early frame and, in some
    terminals, overwrite the saved cursor; leaving is the guard's, so that it comes last.
    """

    guard: ClassVar[TerminalGuard]
    ping: ClassVar[LinkPing]
    with_alt: ClassVar[Collection[str]] = ()
    title = ""
    """What sets the title of the window."""
    _keeps_keys = False
    _typed = b""
    _parser: KeyParser | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._file = cast("Any", _Outlet(self.guard))
        self.fileno = self.guard.input_fd
        self.input_tty = True
        self._told_to_end, self._tells_to_end = os.pipe()
        os.set_blocking(self._told_to_end, False)
        self.guard.on_stop(partial(self._loop_soon, self.stop_job), partial(self._loop_soon, self.draw_again))

    def _loop_soon(self, call: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call)

    def _get_terminal_size(self) -> tuple[int, int]:
        return self.guard.size

    def ask_background(self) -> None:
        """Ask what the background is; the application is sent a `TerminalBackground` if the terminal answers."""
        if self._parser is not None:
            self._parser.awaits_reply = True
            self.write(_BACKGROUND)

    def use(self, with_alt: Collection[str], *, has_mouse: bool) -> None:
        """Read keys with Alt, and the mouse, by other settings; `_mouse` says whether it is asked for."""
        self.with_alt = with_alt  # type: ignore[misc]
        if self._parser is not None:
            self._parser.use(with_alt)
        if has_mouse != self._mouse:
            self._disable_mouse_support()
            self._mouse = has_mouse
            self._enable_mouse_support()

    def write(self, data: str) -> None:
        """Send all but what would switch screens: that is the guard's."""
        if data not in _ALTERNATE_SCREEN:
            super().write(data)

    def start_application_mode(self) -> None:
        """Take over the screen of the early frame, and what was typed on it."""
        self.guard.enter()
        self._typed = self.guard.hand_over()
        super().start_application_mode()  # type: ignore[no-untyped-call]
        if self._writer_thread is not None:
            # While the terminal reads nothing, keys go on being answered: that of leaving above all.
            self._writer_thread._queue.maxsize = 0
        self.attrs_before = None
        if self.title:
            # After a stop: the guard has put back the title from before.
            self.write(self.title)

    def stop_job(self) -> None:
        """Give the terminal back and stop; when the job goes on, take it again."""
        self._go_on_after(self.guard.signals.stop_job)

    def draw_again(self) -> None:
        """Take a terminal again that somebody else has used meanwhile: every mode, and every cell."""
        self._keeps_keys = True
        try:
            self._go_on_after(lambda: None)
        finally:
            self._keeps_keys = False

    def _go_on_after(self, stop: Callable[[], None]) -> None:
        if not self._app._running:
            # About to end, or not begun: there is nothing to stop or to draw again.
            return
        self.suspend_application_mode()
        stop()
        self.resume_application_mode()
        self._app.refresh(layout=True)

    def run_input_thread(self) -> None:
        """Read keys, those first that were typed before; bytes that are no text cost themselves alone."""
        parser = self._parser = KeyParser(self.with_alt)
        decode = getincrementaldecoder("utf-8")("replace").decode
        for message in parser.feed(decode(self._typed)):
            self.process_message(message)
        with contextlib.suppress(BlockingIOError):
            os.read(self._told_to_end, _BLOCK_BYTES)  # what told the thread before
        is_told = False
        while True:
            is_last = is_told or self.exit_event.is_set()
            wait_s = 0.0 if is_last else _KEYS_S if parser.is_waiting else _CALM_S
            ready = select.select([self.fileno, self._told_to_end], [], [], wait_s)[0]
            is_told = self._told_to_end in ready
            if self.fileno in ready:
                data = os.read(self.fileno, _BLOCK_BYTES)
                for message in parser.feed(decode(data)):
                    self.process_message(message)
                if not data:
                    self.exit_event.wait(_KEYS_S)
            for message in parser.tick():
                self.process_message(message)
            if is_last:
                return

    def process_message(self, message: Message) -> None:
        if isinstance(message, TerminalSupportsSynchronizedOutput):
            self.ping.answered()
        elif isinstance(message, events.Key) and isinstance(self._app, PatchedApp):
            self._app.expect_key()
        super().process_message(message)

    def disable_input(self) -> None:
        """Wait for the last answer of the terminal: nobody reads it later."""
        self.guard.hurry()
        self.ping.settle()
        os.write(self._tells_to_end, b"\0")
        thread = self._key_thread
        if self._keeps_keys and thread is not None:
            self._disable_mouse_support()
            self.exit_event.set()
            thread.join()
            self.exit_event.clear()
            return
        super().disable_input()

    def close(self) -> None:
        """End the writer thread, then give the terminal back."""
        # The writer thread has been joined when this returns; a traceback is printed after it, on the main screen.
        super().close()
        self.guard.restore(keeps_keys=self._keeps_keys)


def driver_for(guard: TerminalGuard, ping: LinkPing, with_alt: Collection[str] = ()) -> type[Driver]:
    return type("DriverOfGuard", (GuardedDriver,), {"guard": guard, "ping": ping, "with_alt": with_alt})
