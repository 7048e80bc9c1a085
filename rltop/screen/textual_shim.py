"""Everything that relies on undocumented parts of Textual, except for `driver`.

An application that parses its style sheets once, handles keys strictly one after the other, and passes its error on
instead of printing it; screens with key bindings per instance; and updates of changed cells only, with minimal escape
codes. Written for Textual 8.2; every entry lists what it relies on, to be checked on an update.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Iterable
from functools import lru_cache
from itertools import islice, takewhile
from typing import Any

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App
from textual.binding import Binding, BindingsMap
from textual.driver import Driver
from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.theme import Theme
from textual.widgets import Input
from textual.worker import WorkerFailed

from rltop.clock import Clock
from rltop.rows.themes import PLAIN, SgrState

_MOST_TURNS = 8
"""Maximum wheel turns pending for a page; more are dropped, as the user has not seen their effect yet."""

_CLOCK = Clock()

_MOST_WAITING, _BEHIND_S, _KEPT_KEYS = 64, 1.0, 16
"""If more keys are pending for this long than a person types ahead, all but the last few are dropped."""

_TAKEN_S = 1.0
"""Timeout for a page to handle a key."""

_MOST_AT_ONCE = 4096
"""Maximum characters inserted into a text field at once."""

_RIGHT_OF_WAY_S = 0.25
"""Timeout for reading data to wait for the effect of a key."""


def bind(screen: Screen[Any], bindings: Iterable[Binding]) -> None:
    """Give one screen instance key bindings that precede those of its class; call it before it is shown.

    Relies on: a node keeps its bindings in `_bindings`, where a key maps to the bindings given here instead of the
    inherited ones.
    """
    own = BindingsMap(bindings).key_to_bindings
    screen._bindings = BindingsMap.from_keys({**screen._bindings.key_to_bindings, **own})


def _is_text(event: events.Key | events.Paste) -> bool:
    return isinstance(event, events.Key) and event.is_printable


class PatchedApp(App[int]):
    """Textual's application, patched for a monitor over a slow link.

    **Style sheets** are parsed once, in the initial theme. Textual would parse them all again when the theme is first
    set and when the first page of a mode is shown, even without a change: half of the work between its import and the
    first picture. Relies on: `App.__init__` creates `App.stylesheet` with the variables of the current theme, kept in
    `_variables`; `_require_parse` means that a sheet was added since; `App.refresh_css` parses, and a screen with the
    application's `_css_update_count` is not restyled when shown. Apart from that, `set_first_theme` does what
    `App._watch_theme` does for a later theme.

    **An error** ends the application and is kept for the caller to report. Relies on: `App._handle_exception` keeps the
    first one in `_exception` and then calls `_fatal_error`, which would print a traceback with all local variables;
    `_close_messages_no_wait` ends the application.

    **The next key** is handled when the previous one has taken effect. Textual sends a key to the focused widget and
    looks for its binding when it bubbles up: if a slow link delivers several keys in one packet, the second would go to
    the page that the first was about to leave. Here the binding is looked up at once, unless a text field takes the
    key, and the next key waits until all consequences of the last one have reached the application. Keys typed before
    there is a page are kept until `take_keys`. Characters for a text field that have arrived meanwhile are inserted
    together, because an unbracketed paste is up to 50,000 keys; a bracketed paste waits in line with the keys. In a
    flood of keys outside a field, the last ones are handled, and those that were handled before it was noticed. Relies
    on: `App.on_event` receives every key first, `App._check_bindings` runs the binding of a key, `_message_queue` holds
    the application's pending messages, no widget here except `Input` handles keys or a paste in any other way, and
    `_exit` means that the program is ending: keys after the one that ended it are dropped.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._typed: deque[events.Key | events.Paste] = deque()
        self._kept_up_s = _CLOCK.monotonic()
        self._is_shown = asyncio.Event()
        self._is_shown.set()
        self._takes_keys = False
        self._leaves_rest = False

    def set_first_theme(self, theme: Theme) -> None:
        self.register_theme(theme)
        self.set_reactive(App.theme, theme.name)
        classes = {f"-theme-{theme.name}": True, "-dark-mode": theme.dark, "-light-mode": not theme.dark}
        self.update_classes(classes, update=False)
        self._refresh_truecolor_filter(self.ansi_theme)
        self.stylesheet.set_variables(self.get_css_variables())

    def refresh_css(self, animate: bool = True) -> None:
        """Restyle everything; parse only if the theme or a sheet has changed."""
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

    def _fatal_error(self) -> None:
        self._close_messages_no_wait()

    @property
    def driver(self) -> Driver | None:
        return self._driver

    @property
    def fault(self) -> Exception | None:
        error = self._exception
        if isinstance(error, WorkerFailed) and isinstance(error.error, Exception):
            return error.error
        return error

    def take_keys(self) -> None:
        """Start handling keys: there is a page for them now."""
        if not self._takes_keys:
            self._takes_keys = True
            self._kept_up_s = _CLOCK.monotonic()
            if self._typed:
                self.call_later(self._take_key)

    def expect_key(self) -> None:
        """A key is about to arrive; may be called on the key thread."""
        self._is_shown.clear()

    async def keys_shown(self) -> None:
        """Wait, with a short timeout, until the screen shows the effect of all keys so far."""
        if not self._is_shown.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RIGHT_OF_WAY_S):
                    await self._is_shown.wait()
            self._is_shown.set()

    def can_skip_drawing(self) -> bool:
        """Whether the current key is immediately repeated, so that drawing can be left to the next one.

        Holding a key down sends it faster than pages can be painted. For actions that the next key continues: if True,
        the result is neither drawn nor waited for.
        """
        pressed = [event.key for event in islice(self._typed, 2) if isinstance(event, events.Key)]
        self._leaves_rest = len(pressed) > 1 and pressed[0] == pressed[1]
        return self._leaves_rest

    async def on_event(self, event: events.Event) -> None:
        """Queue keys and pastes as described above; handle everything else as Textual does."""
        if not isinstance(event, (events.Key, events.Paste)) or event.is_forwarded:
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
                # Let keys that arrived together queue up first.
                self.call_later(self._take_key)

    def _leave_flood(self) -> None:
        """Drop keys of a flood that nobody typed, so that the last ones, and `q`, are still handled."""
        now = _CLOCK.monotonic()
        if len(self._typed) <= _MOST_WAITING:
            self._kept_up_s = now
        elif now - self._kept_up_s > _BEHIND_S:
            while len(self._typed) > _KEPT_KEYS:
                self._typed.popleft()
            self._kept_up_s = now

    async def _take_key(self) -> None:
        if self._exit:
            self._typed.clear()
            return
        if not (isinstance(self.focused, Input) and _is_text(self._typed[0])):
            self._leave_flood()
        self.app_focus = True
        focused, screen, event = self.focused, self.screen, self._typed[0]
        taken, self._leaves_rest = 1, False
        try:
            if isinstance(event, events.Paste):
                await super().on_event(event)
            elif not await self._check_bindings(event.key, priority=True):
                if isinstance(focused, Input) and event.is_printable:
                    text = self._text_ahead()
                    taken = len(text)
                    focused._forward_event(event if taken == 1 else events.Paste(text))
                else:
                    await self._check_bindings(event.key)
            # The action, the messages it posts, and the page's reaction to them.
            pumps = (screen,) if focused is None else (focused, focused, screen)
            for pump in pumps if not self._leaves_rest else ():
                await _drained(pump)
            if self.screen_stack and self.screen is not screen:
                # Mount the widgets of a newly opened page before the next key.
                await _drained(self.screen)
        finally:
            for _ in range(taken):
                self._typed.popleft()
        if self._typed:
            self.call_later(self._take_key)
        elif self.screen_stack:
            # The key may have ended the program with all its pages.
            self.screen.call_after_refresh(self._is_shown.set)

    def _text_ahead(self) -> str:
        ahead = takewhile(_is_text, islice(self._typed, _MOST_AT_ONCE))
        return "".join(event.character or "" for event in ahead if isinstance(event, events.Key))


async def _drained(pump: MessagePump) -> None:
    done = asyncio.Event()
    if pump.call_later(done.set):
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), _TAKEN_S)


class Pen:
    """Writes segments one after the other and tracks the current style."""

    def __init__(self, system: ColorSystem | None) -> None:
        self._system = system
        self._look = PLAIN
        self._written: list[str] = []

    def move_to(self, x: int, y: int) -> None:
        self._written.append(f"\x1b[{y + 1};{x + 1}H")

    def write(self, segment: Segment) -> None:
        text, style, control = segment
        if control:
            self._written.append(text)
            return
        if not text:
            return
        if style is not None and style.link:
            # Hyperlinks are rare here, and Rich can open and close them.
            self._go(PLAIN)
            self._written.append(style.render(text, color_system=self._system))
            return
        look = PLAIN if style is None or self._system is None else _look(style, self._system)
        self._go(look.of_blanks(self._look) if text.isspace() else look)
        self._written.append(text)

    def _go(self, look: SgrState) -> None:
        self._written.append(look.after(self._look))
        self._look = look

    def finish(self) -> str:
        self._go(PLAIN)
        written, self._written = "".join(self._written), []
        return written


@lru_cache(maxsize=1024)
def _look(style: Style, system: ColorSystem) -> SgrState:
    attributes = style.without_color.render("x", color_system=system)
    codes = attributes[2 : attributes.index("m")].split(";") if attributes.startswith("\x1b[") else []
    foreground = ";".join(style.color.downgrade(system).get_ansi_codes(foreground=True)) if style.color else ""
    background = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(foreground=False)) if style.bgcolor else ""
    default = {"39": "", "49": ""}
    return SgrState(frozenset(codes), default.get(foreground, foreground), default.get(background, background))


class _CellUpdate(ChopsUpdate):
    """Writes only the changed cells of a line.

    Relies on: `ChopsUpdate` has `chops` (per line: start of a strip → strip), `chop_ends` (the end of each strip) and
    `spans` (line, first cell, end). Its own method starts every line at the start of the strip. Also on `_color_system`
    of a Rich console, the colours of the terminal.
    """

    def render_segments(self, console: Console) -> str:
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
    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return None if update is None else _CellUpdate(update.chops, update.spans, update.chop_ends)


def update_by_cells(screen: Screen[Any]) -> None:
    """Make `screen` send only refreshed cells; call it before it is shown.

    Relies on: a screen draws through its attribute `_compositor`.
    """
    screen._compositor = _CellCompositor()
