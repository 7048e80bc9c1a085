"""A driver of Textual's that leaves the terminal to the guard, and tells when it has answered.

With `textual_shim` one of the two places that touch what Textual does not document.
Written against Textual 8.2; `driver_for` says what it leans on.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
from codecs import getincrementaldecoder
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any, ClassVar, Protocol, cast

from textual import events
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.messages import TerminalSupportsSynchronizedOutput

from rltop.regex import regex
from rltop.screen.textual_shim import PatchedApp

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


class ScreenGuard(Protocol):
    """Whoever holds the terminal; see `terminal.guard`, which is a room beside this one."""

    @property
    def input_fd(self) -> int: ...

    @property
    def output_fd(self) -> int: ...

    @property
    def size(self) -> tuple[int, int]: ...

    def enter(self) -> None: ...

    def hand_over(self) -> bytes:
        """Draw and read nothing more by itself: that is Textual's from here on; what was typed so far."""
        ...

    def write(self, data: bytes) -> bool:
        """Send `data`; False when there is no screen any more."""
        ...

    def restore(self, *, keeps_keys: bool = False) -> None: ...

    def on_leave(self, leave: Callable[[], None] | None) -> None:
        """Call `leave` on a signal or when the terminal is gone; it must only schedule."""
        ...

    def on_stop(self, stop: Callable[[], None] | None, resume: Callable[[], None] | None) -> None:
        """Call `stop` when the job is to stop, `resume` after a stop that nobody announced; they must only schedule.

        Args:
            stop: what to call; None takes the registration back.
        """
        ...

    def stop_job(self) -> None:
        """Stop until the job is continued in the foreground; the terminal has been restored."""
        ...


class _Outlet:
    """The file that Textual's writer thread writes to: the guard's terminal.

    Textual writes to standard error, which may be a log file, and its writer thread dies of the first error, after
    which the full queue blocks the event loop. The guard does neither, and stops writing the moment it has restored.
    """

    def __init__(self, guard: ScreenGuard) -> None:
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


class Ping(Protocol):
    """Whoever wants to know that the terminal has answered; see `pace`."""

    def answered(self) -> None: ...

    def settle(self) -> None: ...


class GuardedDriver(LinuxDriver):
    """A driver that draws on the alternate screen which a guard already shows.

    Leans on: `LinuxDriver` (module `textual.drivers.linux_driver`), its attributes
    `_file`, `fileno` and `input_tty`, its methods `_get_terminal_size` and
    `run_input_thread`, which parses keys with `XTermParser` on a thread of its own until
    `exit_event` is set, and the fact
    that it switches screens by writing exactly `CSI ?1049h` and `CSI ?1049l`. Also on `process_message`, which sees on
    its own thread every key and the message
    `TerminalSupportsSynchronizedOutput` for each answer to `CSI ?2026$p`, on `_app`,
    and on `disable_input`, after which nobody reads such an answer: it joins
    `_key_thread`, and throws away what is typed behind that.
    Also on `suspend_application_mode` and `resume_application_mode`, which end and begin both threads, and on
    `attrs_before`, the settings that it would restore. Its own answers to SIGTSTP and SIGCONT, set when it is made, end
    in an empty screen, and in a second thread that reads keys where nobody announced the stop. What was typed before it
    came is put before what its input thread reads. Entering a second time would clear the early frame and, in some
    terminals, overwrite the saved cursor; leaving is the guard's, so that it comes last.
    """

    guard: ClassVar[ScreenGuard]
    ping: ClassVar[Ping]
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
        self.attrs_before = None
        if self.title:
            # After a stop: the guard has put back the title from before.
            self.write(self.title)

    def stop_job(self) -> None:
        """Give the terminal back and stop; when the job goes on, take it again."""
        self._go_on_after(self.guard.stop_job)

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


def driver_for(guard: ScreenGuard, ping: Ping, with_alt: Collection[str] = ()) -> type[Driver]:
    return type("DriverOfGuard", (GuardedDriver,), {"guard": guard, "ping": ping, "with_alt": with_alt})
