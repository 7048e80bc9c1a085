"""What leans on Textual beyond its documentation, but for `driver`.

An application whose style sheets are parsed once, whose keys are taken one after the other however fast they come, and
whose error is handed on instead of printed; a screen with keys of its own that its class does not have; and updates of
the cells that changed, each escape code only where it changes something. Written against Textual 8.2; every entry says
what it leans on, to be checked on an update.
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
from rltop.rows.themes import PLAIN, Look

_MOST_TURNS = 8
"""Turns of the wheel that wait for a page; more are left out: what it has not shown yet is nobody's answer to it."""

_CLOCK = Clock()

_MOST_WAITING, _BEHIND_S, _KEPT_KEYS = 64, 1.0, 16
"""Where more keys than a person types ahead have waited for so long, only the last few are taken."""

_TAKEN_S = 1.0
"""A page that has not dealt with a key after so long is not waited for."""

_MOST_AT_ONCE = 4096
"""Characters that go into a text field together."""

_RIGHT_OF_WAY_S = 0.25
"""Reading waits for the effect of a key, but not for longer than that."""


def bind(screen: Screen[Any], bindings: Iterable[Binding]) -> None:
    """Give one screen keys of its own, before those of its class; call it before it is shown.

    Leans on: a node keeps its bindings in `_bindings`, of which one of a subclass takes a key for itself.
    """
    own = BindingsMap(bindings).key_to_bindings
    screen._bindings = BindingsMap.from_keys({**screen._bindings.key_to_bindings, **own})


def _is_text(event: events.Key | events.Paste) -> bool:
    return isinstance(event, events.Key) and event.is_printable


class PatchedApp(App[int]):
    """Textual's application, patched where a monitor over a slow link needs other ways.

    **Style sheets** are parsed once, in the theme that it starts in. Textual parses them all again when the theme is
    first set and when the first page of a mode comes up, whether or not that changes anything: half of what there is to
    do between its import and the first picture. Leans on: `App.stylesheet` is made by `App.__init__` with the variables
    of the theme of that moment, which it keeps in `_variables`; `_require_parse` says that a sheet was added since;
    `App.refresh_css` is what parses, and a screen whose `_css_update_count` is that of the application is not styled
    again when it is shown. What `set_first_theme` does beside is what `App._watch_theme` does for a later theme.

    **An error** ends the application and is kept, for its caller to tell. Leans on: `App._handle_exception` keeps the
    first one in `_exception` and then calls `_fatal_error`, whose own version prints a traceback with every local
    variable; `_close_messages_no_wait` is how it ends the application.

    **The next key** is looked at when the last one has done its work. Textual sends a key to the widget that has the
    focus, and looks for its binding when it comes back: of the keys of one packet, which a link that lags delivers
    together, the second would go where the first was to lead away from. Here a binding is looked for at once, unless a
    text field takes the key, and the next key waits until what the last one caused has come as far as the application.
    Keys that are typed before there is a page are kept until `take_keys`: they would find nothing that they are for.
    Characters for a text field that have come meanwhile go there together: a paste into a terminal that does not
    bracket it is 50,000 keys; one that is bracketed waits its turn behind the keys before it. Of as many that are for
    no field the last are taken, and those that came first. Leans on: `App.on_event` gets every key first,
    `App._check_bindings` runs what one is bound to, what waits for the application is in its `_message_queue`, and no
    widget here but `Input` takes keys in any other way, nor a paste, and `_exit` says that the program ends: what was
    typed behind the key that ended it is left out.
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

    def leave_to_next(self) -> bool:
        """Is the key that is dealt with typed again right behind itself, and can so leave the picture to that one?

        A key that is held down brings more of them than pages can be painted. Asked by what moves something that the
        next key moves on; what is true is then neither drawn nor waited for.
        """
        pressed = [event.key for event in islice(self._typed, 2) if isinstance(event, events.Key)]
        self._leaves_rest = len(pressed) > 1 and pressed[0] == pressed[1]
        return self._leaves_rest

    async def on_event(self, event: events.Event) -> None:
        """Take a key, and what is pasted behind one, as described; everything else as Textual does."""
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
            # What it does, what it says of that, and what the page makes of it.
            pumps = (screen,) if focused is None else (focused, focused, screen)
            for pump in pumps if not self._leaves_rest else ():
                await _drained(pump)
            if self.screen_stack and self.screen is not screen:
                # A page that is opened has its parts before the next key.
                await _drained(self.screen)
        finally:
            for _ in range(taken):
                self._typed.popleft()
        if self._typed:
            self.call_later(self._take_key)
        elif self.screen_stack:
            # A key may have ended the program, pages and all.
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
    """Writes segments one after the other and remembers how the last one looked."""

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
            # Hyperlinks are rare here, and Rich knows how to open and close them.
            self._go(PLAIN)
            self._written.append(style.render(text, color_system=self._system))
            return
        look = PLAIN if style is None or self._system is None else _look(style, self._system)
        self._go(look.of_blanks(self._look) if text.isspace() else look)
        self._written.append(text)

    def _go(self, look: Look) -> None:
        self._written.append(look.after(self._look))
        self._look = look

    def finish(self) -> str:
        self._go(PLAIN)
        written, self._written = "".join(self._written), []
        return written


@lru_cache(maxsize=1024)
def _look(style: Style, system: ColorSystem) -> Look:
    attributes = style.without_color.render("x", color_system=system)
    codes = attributes[2 : attributes.index("m")].split(";") if attributes.startswith("\x1b[") else []
    foreground = ";".join(style.color.downgrade(system).get_ansi_codes(foreground=True)) if style.color else ""
    background = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(foreground=False)) if style.bgcolor else ""
    default = {"39": "", "49": ""}
    return Look(frozenset(codes), default.get(foreground, foreground), default.get(background, background))


class _CellUpdate(ChopsUpdate):
    """Writes the changed cells of a line and nothing else.

    Leans on: `ChopsUpdate` keeps `chops` (per line: start of a strip → strip), `chop_ends` (where each of them ends)
    and `spans` (line, first cell, end). Its own method begins every line at the start of the strip. Also on
    `_color_system` of a Rich console, the colours of the terminal.
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
    """Have `screen` send only the cells that were refreshed; call it before it is shown.

    Leans on: a screen draws through its attribute `_compositor`.
    """
    screen._compositor = _CellCompositor()
