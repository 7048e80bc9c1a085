"""The one place that touches what Textual does not document.

Five things: a driver that leaves the terminal to the guard and tells when it has
answered, an update that sends the changed cells instead of everything to the left
of them, an application that parses its style sheets once and hands on what went wrong
instead of printing it, and keys that are taken one after the other however fast they come.
Written against Textual 8.2; every entry says what it leans on, so that an update of
Textual has one file to check.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import islice, takewhile
from typing import Any, Protocol, cast

from rich.console import Console
from textual import events
from textual._compositor import ChopsUpdate, Compositor
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message
from textual.message_pump import MessagePump
from textual.messages import TerminalSupportsSynchronizedOutput
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Input
from textual.worker import WorkerFailed

from rltop.app.pen import Pen
from rltop.clock import SystemClock

_ALTERNATE_SCREEN = frozenset({"\x1b[?1049h", "\x1b[?1049l"})

_FLUSH_CHARACTERS = 1 << 16

_MOST_TURNS = 8
"""Turns of the wheel that wait for a page; more are left out: what it has not shown yet is nobody's answer to it."""

_CLOCK = SystemClock()

_MOST_WAITING, _BEHIND_S, _KEPT_KEYS = 64, 1.0, 16
"""Where more keys than a person types ahead have waited for so long, only the last few are taken."""

_TAKEN_S = 1.0
"""A page that has not dealt with a key after so long is not waited for."""

_MOST_AT_ONCE = 4096
"""Characters that go into a text field together."""

_RIGHT_OF_WAY_S = 0.25
"""Reading waits for the effect of a key, but not for longer than that."""


class ScreenGuard(Protocol):
    """Whoever holds the terminal; see `terminal.guard`, which is a room beside this one."""

    @property
    def input_fd(self) -> int:
        """Where keys come from."""
        ...

    @property
    def output_fd(self) -> int:
        """Where the picture goes."""
        ...

    @property
    def size(self) -> tuple[int, int]:
        """Width and height in cells."""
        ...

    def enter(self) -> None:
        """Show the alternate screen, if it is not shown."""
        ...

    def hand_over(self) -> bytes:
        """Draw and read nothing more by itself: that is Textual's from here on; what was typed so far."""
        ...

    def write(self, data: bytes) -> bool:
        """Send `data`; False when there is no screen any more."""
        ...

    def restore(self) -> None:
        """Put the terminal back as it was, if that has not been done."""
        ...

    def on_leave(self, leave: Callable[[], None] | None) -> None:
        """Call `leave` on a signal or when the terminal is gone; it must only schedule."""
        ...

    def on_stop(self, stop: Callable[[], None] | None, resume: Callable[[], None] | None) -> None:
        """Call `stop` when the job is to stop, `resume` after a stop that nobody announced; they must only schedule."""
        ...

    def stop_job(self) -> None:
        """Stop until the job is continued in the foreground; the terminal has been restored."""
        ...


class _Outlet:
    """The file that Textual's writer thread writes to: the guard's terminal.

    Textual writes to standard error, which may be a log file, and its writer
    thread dies of the first error, after which the full queue blocks the event
    loop. The guard does neither, and stops writing the moment it has restored.
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


class Ping(Protocol):
    """Whoever wants to know that the terminal has answered; see `pace`."""

    def answered(self) -> None:
        """The terminal has answered; called on the thread that reads keys."""
        ...

    def settle(self) -> None:
        """Wait for an answer under way, but not long."""
        ...


def driver_for(guard: ScreenGuard, ping: Ping) -> type[Driver]:
    """A driver that draws on the alternate screen which `guard` already shows.

    Leans on: `LinuxDriver` (module `textual.drivers.linux_driver`), its attributes
    `_file`, `fileno` and `input_tty`, its methods `_get_terminal_size` and
    `run_input_thread`, which parses keys with `XTermParser`, and the fact
    that it switches screens by writing exactly `CSI ?1049h` and `CSI ?1049l`.
    Also on `process_message`, which sees on its own thread every key and the message
    `TerminalSupportsSynchronizedOutput` for each answer to `CSI ?2026$p`, on `_app`,
    and on `disable_input`, after which nobody reads such an answer.
    Also on `suspend_application_mode` and `resume_application_mode`, which end and
    begin both threads, and on `attrs_before`, the settings that it would restore.
    Its own answers to SIGTSTP and SIGCONT, set when it is made, end in an empty
    screen, and in a second thread that reads keys where nobody announced the stop.
    What was typed before it came is put before what its input thread reads.
    Entering a second time would clear the early frame and, in some terminals,
    overwrite the saved cursor; leaving is the guard's, so that it comes last.
    """

    class GuardedDriver(LinuxDriver):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self._file = cast("Any", _Outlet(guard))
            self.fileno = guard.input_fd
            self.input_tty = True
            guard.on_stop(partial(self._loop_soon, self.stop_job), partial(self._loop_soon, self.draw_again))

        def _loop_soon(self, call: Callable[[], None]) -> None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(call)

        def _get_terminal_size(self) -> tuple[int, int]:
            return guard.size

        def write(self, data: str) -> None:
            if data not in _ALTERNATE_SCREEN:
                super().write(data)

        def start_application_mode(self) -> None:
            guard.enter()
            self._typed = guard.hand_over()
            super().start_application_mode()  # type: ignore[no-untyped-call]
            self.attrs_before = None

        def stop_job(self) -> None:
            """Give the terminal back and stop; when the job goes on, take it again."""
            self._go_on_after(guard.stop_job)

        def draw_again(self) -> None:
            """Take a terminal again that somebody else has used meanwhile: every mode, and every cell."""
            self._go_on_after(lambda: None)

        def _go_on_after(self, stop: Callable[[], None]) -> None:
            if not self._app._running:
                # About to end, or not begun: there is nothing to stop or to draw again.
                return
            self.suspend_application_mode()
            stop()
            self.resume_application_mode()
            self._app.refresh(layout=True)

        def run_input_thread(self) -> None:
            if self._typed:
                for event in XTermParser(self._debug).feed(self._typed.decode("utf-8", "replace")):
                    self.process_message(event)
            super().run_input_thread()

        def process_message(self, message: Message) -> None:
            if isinstance(message, TerminalSupportsSynchronizedOutput):
                ping.answered()
            elif isinstance(message, events.Key) and isinstance(self._app, KeysInOrder):
                self._app.expect_key()
            super().process_message(message)

        def disable_input(self) -> None:
            ping.settle()
            super().disable_input()

        def close(self) -> None:
            # The writer thread has been joined when this returns; a traceback is printed after it, on the main screen.
            super().close()
            guard.restore()

    return GuardedDriver


class _CellUpdate(ChopsUpdate):
    """Writes the changed cells of a line and nothing else.

    Leans on: `ChopsUpdate` keeps `chops` (per line: start of a strip → strip),
    `chop_ends` (where each of them ends) and `spans` (line, first cell, end). Its
    own method begins every line at the start of the strip. Also on `_color_system`
    of a Rich console, the colours of the terminal.
    """

    def render_segments(self, console: Console) -> str:
        """The escape codes and the text that bring the screen up to date."""
        pen = Pen(console._color_system)
        for y, start, stop in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                left, right = max(x, start), min(end, stop)
                if strip is not None and left < right:
                    pen.move_to(left, y)
                    for segment in strip.crop(left - x, right - x):
                        pen.write(segment)
        return pen.finish()


class _CellCompositor(Compositor):
    """A compositor whose partial updates are made of cells."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Whatever has changed since the last update, if anything has."""
        update = super().render_partial_update()
        return None if update is None else _CellUpdate(update.chops, update.spans, update.chop_ends)


def update_by_cells(screen: Screen[Any]) -> None:
    """Have `screen` send only the cells that were refreshed; call it before it is shown.

    Leans on: a screen draws through its attribute `_compositor`.
    """
    screen._compositor = _CellCompositor()


class DressedOnce(App[int]):
    """An application whose style sheets are parsed once, in the theme that it starts in.

    Textual parses them all again when the theme is first set and when the first page
    of a mode comes up, whether or not that changes anything: half of what there is to
    do between its import and the first picture.

    Leans on: `App.stylesheet` is made by `App.__init__` with the variables of the theme
    of that moment, which it keeps in `_variables`; `_require_parse` says that a sheet
    was added since; `App.refresh_css` is what parses, and a screen whose
    `_css_update_count` is that of the application is not styled again when it is shown.
    What `wear` does beside is what `App._watch_theme` does when a theme is set later.
    """

    def wear(self, theme: Theme) -> None:
        """Take a theme before the application runs."""
        self.register_theme(theme)
        self.set_reactive(App.theme, theme.name)
        worn = {f"-theme-{theme.name}": True, "-dark-mode": theme.dark, "-light-mode": not theme.dark}
        self.update_classes(worn, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def refresh_css(self, animate: bool = True) -> None:
        """Style everything anew; parse only where the theme or a sheet is another one."""
        sheet = self.stylesheet
        if sheet._require_parse or sheet._variables != self.get_css_variables():
            super().refresh_css(animate)
            return
        sheet.update(self, animate=animate)
        for screen in self.screen_stack:
            if screen is not self.screen:
                sheet.update(screen, animate=animate)
            screen._css_update_count = self._css_update_count
        if self.screen_stack and self.screen.is_mounted:
            self.screen._refresh_layout(self.size)


class FaultKeeper(App[int]):
    """An application that ends on an error and keeps it, for its caller to tell.

    Leans on: `App._handle_exception` keeps the first error in `_exception` and then
    calls `_fatal_error`, whose own version prints a traceback with every local
    variable; `_close_messages_no_wait` is how it ends the application.
    """

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    @property
    def fault(self) -> Exception | None:
        """The error that ended the application, or None."""
        error = self._exception
        if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            return error.error
        return error


class KeysInOrder(App[int]):
    """An application whose next key is looked at when the last one has done its work.

    Textual sends a key to the widget that has the focus, and looks for its binding
    when it comes back: of the keys of one packet, which a link that lags delivers
    together, the second would go where the first was to lead away from. Here a
    binding is looked for at once, unless a text field takes the key, and the next
    key waits until what the last one caused has come as far as the application.
    Keys that are typed before there is a page are kept until `take_keys`: they would
    find nothing that they are for. Characters for a text field that have come meanwhile
    go there together: a paste into a terminal that does not bracket it is 50,000 keys. Of
    as many that are for no field the last are taken, and those that came first.

    Leans on: `App.on_event` gets every key first, `App._check_bindings` runs what one
    is bound to, what waits for the application is in its `_message_queue`, and no widget
    here but `Input` takes keys in any other way, nor a paste.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._typed: deque[events.Key] = deque()
        self._kept_up_s = _CLOCK.monotonic()
        self._is_shown = asyncio.Event()
        self._is_shown.set()
        self._takes_keys = False

    def take_keys(self) -> None:
        """From now on there is something for keys to act on."""
        if not self._takes_keys:
            self._takes_keys = True
            self._kept_up_s = _CLOCK.monotonic()
            if self._typed:
                self.call_later(self._take_key)

    def expect_key(self) -> None:
        """A key is on its way; may be called on the thread that reads keys."""
        self._is_shown.clear()

    async def keys_shown(self) -> None:
        """Wait until the screen shows what the keys so far do, but not long."""
        if not self._is_shown.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RIGHT_OF_WAY_S):
                    await self._is_shown.wait()
            self._is_shown.set()

    async def on_event(self, event: events.Event) -> None:
        """Take a key as described, everything else as Textual does."""
        if not isinstance(event, events.Key) or event.is_forwarded:
            is_wheel = isinstance(event, (events.MouseScrollDown, events.MouseScrollUp))
            if not (is_wheel and self.focused is not None and self.focused.message_queue_size > _MOST_TURNS):
                await super().on_event(event)
            return
        self.expect_key()
        if not self._typed:
            self._kept_up_s = _CLOCK.monotonic()
        self._typed.append(event)
        if self._takes_keys and len(self._typed) == 1:
            if self._message_queue.empty():
                await self._take_key()
            else:
                # What has come together with it is put behind it first.
                self.call_later(self._take_key)

    def _leave_flood(self) -> None:
        """Leave keys out that nobody typed one by one, so that the last of them, and `q`, are still answered."""
        now = _CLOCK.monotonic()
        if len(self._typed) <= _MOST_WAITING:
            self._kept_up_s = now
        elif now - self._kept_up_s > _BEHIND_S:
            while len(self._typed) > _KEPT_KEYS:
                self._typed.popleft()
            self._kept_up_s = now

    async def _take_key(self) -> None:
        if not (isinstance(self.focused, Input) and self._typed[0].is_printable):
            self._leave_flood()
        self.app_focus = True
        focused, screen, event = self.focused, self.screen, self._typed[0]
        taken = 1
        try:
            if not await self._check_bindings(event.key, priority=True):
                if isinstance(focused, Input) and event.is_printable:
                    text = self._text_ahead()
                    taken = len(text)
                    focused._forward_event(event if taken == 1 else events.Paste(text))
                else:
                    await self._check_bindings(event.key)
            # What it does, what it says of that, and what the page makes of it.
            for pump in (focused, focused, screen):
                if pump is not None:
                    await _drained(pump)
        finally:
            for _ in range(taken):
                self._typed.popleft()
        if self._typed:
            self.call_later(self._take_key)
        elif self.screen_stack:
            # A key may have ended the program, pages and all.
            self.screen.call_after_refresh(self._is_shown.set)

    def _text_ahead(self) -> str:
        """The characters at the front of the queue, one at least."""
        ahead = takewhile(lambda event: event.is_printable, islice(self._typed, _MOST_AT_ONCE))
        return "".join(event.character or "" for event in ahead)


async def _drained(pump: MessagePump) -> None:
    """Wait until `pump` has dealt with what is in its queue now."""
    done = asyncio.Event()
    if pump.call_later(done.set):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _TAKEN_S)
