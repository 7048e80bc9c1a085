"""The application: drives the session in slices, decides when to draw, wires keys to pages.

Knows no metric and paints nothing itself. What is drawn, and from what, is the pages';
when data come in is `run.Session`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from rltop.app.bell import Bell
from rltop.app.commands import Act, Command, OpenIn, RltopPalette, SetTheme, commands, provider_of
from rltop.app.marking import Marking
from rltop.app.options import UiOptions
from rltop.app.page_screen import PageScreen
from rltop.app.plot_pane import paint_chart
from rltop.app.themes import TERMINAL, TERMINAL_LIGHT, Themes
from rltop.clock import Clock, SystemClock
from rltop.errors import ConfigError
from rltop.model import Verdict
from rltop.pages.moment import Moment
from rltop.rows.glyphs import glyph_set
from rltop.rows.keys import Where
from rltop.run.session import Session
from rltop.screen.bindings import BINDINGS as KEY_BINDINGS
from rltop.screen.bindings import binding_ids, normal_keymap, spell, with_alt
from rltop.screen.driver import GuardedDriver, ScreenGuard, TerminalBackground, driver_for
from rltop.screen.pace import LinkPing, Pace, is_multiplexed
from rltop.screen.styles import textual_theme
from rltop.screen.textual_shim import KeysInOrder

SLICE_MS = 4.0
"""Longest time that reading and judging keep the keys waiting."""

OPENING_MS = 100.0
"""How long the newest rows may take before the first picture; it is no use to wait for longer."""

IDLE_S = 0.25
"""How often the session is asked when nothing wakes it."""

SETTLED_S = 1.0
"""How long after the start the rollouts of the run on the screen are looked for."""

TICK_S = 1.0
"""How often ages and the state word are brought up to date without new data."""


ASK_GAP = 1000.0
"""What asking takes is left to others so many times over: the ages of a thousand runs take a while to work out."""


class RltopApp(KeysInOrder, Marking, Themes, inherit_bindings=False):
    """`top` for one run or several."""

    TITLE = "rltop"
    ALLOW_SELECT = False
    """Rows are no text to Textual, which stumbles over a page that is closed while the mouse begins to select on it."""
    CSS_PATH = "page.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*KEY_BINDINGS[Where.EVERYWHERE]]

    def __init__(
        self,
        session: Session,
        options: UiOptions | None = None,
        *,
        guard: ScreenGuard | None = None,
        clock: Clock | None = None,
    ) -> None:
        """An application over `session`; nothing is read or drawn before it runs.

        Raises:
            ThemeError: the theme of the options cannot be used.
            ConfigError: the keymap names a binding that does not exist.
        """
        self.options = options or UiOptions()
        self.palette = self._load_theme(self.options.theme)
        check_keymap(self.options)
        self._clock = clock or SystemClock()
        is_behind = is_multiplexed(os.environ)
        self._ping = LinkPing(self._clock, is_on=not is_behind)
        self._pace = Pace(self._clock, self.options.refresh_hz, self._ping, is_multiplexed=is_behind)
        super().__init__(
            driver_class=None if guard is None else driver_for(guard, self._ping, with_alt(self.options.keymap)),
            ansi_color=None if self.options.has_colour else True,
        )
        self.add_standing_pages()
        self.set_first_theme(textual_theme(self.palette))
        self.animation_level = "none"
        self.session = session
        self._guard = guard
        self._glyphs = glyph_set(is_ascii=self.options.is_ascii)
        self._followed = session.runs[0]
        self.has_details = self.options.has_details
        self.marked = self.options.marked
        self._bell = Bell(session, self.options, self._clock, os.environ)
        self._drawn_version: Hashable = None
        self._drawn_face: Hashable = None
        self._asks_at_s = 0.0
        self._wake = asyncio.Event()
        self._footer_state: tuple[bool, ...] = ()
        self._is_awaiting = True

    # -- what is shown -------------------------------------------------------------------------------------------

    @property
    def moment(self) -> Moment:
        """The run, the step and the signs that every page paints with."""
        run = self.followed
        return Moment(
            run,
            self._glyphs,
            self.at_step,
            self._is_paused,
            self.session.left_out(),
            runs=self.session.runs,
            picked=self.picked,
            marked=tuple(self.marked),
            marked_metrics=tuple(self.marked_metrics),
            baseline=self.options.baseline,
            draw_chart=paint_chart,
            version=run.version,
        )

    @property
    def shown_verdicts(self) -> Sequence[Verdict]:
        """What stands at the step that is shown, worst first."""
        return self.moment.snapshot.verdicts.standing

    # -- running -------------------------------------------------------------------------------------------------

    async def on_mount(self) -> None:
        """Take the keymap, start reading; of several runs, show which there are."""
        self.set_keymap(dict(normal_keymap(self.options.keymap)))
        self.session.recall()
        self.session.read_newest(OPENING_MS)
        loop = asyncio.get_running_loop()
        if self._guard is not None:
            self._guard.on_leave(lambda: _soon(loop, self.exit))
        self.session.notifier.listen(lambda: _soon(loop, self._wake.set))
        self._ping.listen(lambda: _soon(loop, self._wake.set))
        self.run_worker(self._follow(), name="ingest", exit_on_error=True)
        self.set_timer(SETTLED_S, self._settle)
        await self._list_runs()
        self.hint()

    async def _list_runs(self) -> None:
        """Of several runs show which there are, at the start or when they have come, unless a page has been opened."""
        if self._is_awaiting and not self.session.runs[0].main.is_awaited:
            self._is_awaiting = False
            is_at_start = self.current_mode == self.DEFAULT_MODE and len(self.screen_stack) == 1
            if len(self.session.runs) > 1 and is_at_start and self.options.lists_first:
                await self.switch_mode("runs")

    def _settle(self) -> None:
        """The screen stands: now there is time for what no first frame needs."""
        self._has_settled = True
        if self._guard is not None:
            # What stands now stays: to look through it for garbage again and again would hold up rows and keys.
            gc.freeze()
        self.hinted()
        if self._is_paused:
            self.look_beside()
        else:
            self.draw()

    def on_unmount(self) -> None:
        """From here on a signal ends the program at once, and nothing wakes it."""
        self.session.notifier.listen(None)
        self._ping.listen(None)
        if self._guard is not None:
            self._guard.on_leave(None)
            self._guard.on_stop(None, None)

    async def _follow(self) -> None:
        """Drive the session in slices for as long as the application runs."""
        self._draw_when_due()
        self.take_keys()
        await self._has_shown()
        if self.palette.name == TERMINAL and isinstance(self._driver, GuardedDriver):
            self._driver.ask_background()
        while True:
            while self.session.step(SLICE_MS):
                await self._list_runs()
                self._draw_when_due()
                await asyncio.sleep(0)
                await self.keys_shown()
            await self._list_runs()
            wait_s = self._draw_when_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            self._wake.clear()

    async def _has_shown(self) -> None:
        """Wait for the first picture, and for what the keys meanwhile have done: the history comes after them."""
        shown = asyncio.Event()
        if self.shown is not None and self.shown.call_after_refresh(shown.set):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(shown.wait(), SETTLED_S)

    def on_terminal_background(self, message: TerminalBackground) -> None:
        """On a light ground draw with those of the terminal's colours that can be read there."""
        if message.is_light and self.palette.name == TERMINAL:
            self._take_theme(TERMINAL_LIGHT)

    def _draw_when_due(self) -> float:
        """Draw if there is something new and the pace allows it.

        Time alone changes little: without new data the page is asked once a second
        whether it would say anything else. A paused picture stays as it is.

        Returns:
            Seconds to wait for the next chance.
        """
        screen = self.shown
        self._tell_beyond_the_screen()
        if screen is None or (self._is_paused and not self._has_recalled()):
            return IDLE_S
        if self.followed.main.is_opening:
            # What is on the screen is newer than what has been read again so far.
            return IDLE_S
        is_old = self.session.version == self._drawn_version
        if is_old and (self._clock.monotonic() < self._asks_at_s or not self._has_aged(screen)):
            return IDLE_S
        wait_s = self._pace.wait_s(is_loading=self.followed.loading is not None)
        if wait_s > 0.0:
            return min(IDLE_S, wait_s)
        # A second that has gone by must not keep the row waiting that comes right behind it.
        self.draw(is_paced=not is_old)
        screen.call_after_refresh(self._sent, is_paced=not is_old)
        return IDLE_S

    def _has_aged(self, screen: PageScreen) -> bool:
        """Would the page say anything else by now, without new data? To be asked now and then."""
        return self._read_face(screen) != self._drawn_face

    def _read_face(self, screen: PageScreen) -> Hashable:
        """What the page shows that changes with time, and when to ask for it again by what asking took."""
        began_s = self._clock.worked()
        face = screen.face()
        self._asks_at_s = self._clock.monotonic() + max(TICK_S, ASK_GAP * (self._clock.worked() - began_s))
        return face

    def draw(self, *, is_paced: bool = True) -> None:
        """Paint the page on top, whatever has or has not changed.

        After a picture that `is_paced`, the next one of new data keeps its distance.
        """
        if is_paced:
            self._pace.begin()
        self.look_beside()
        self._drawn_version = self.session.version
        if self.shown is not None:
            self._drawn_face = self._read_face(self.shown)
            self.shown.draw()
        if is_paced:
            self._pace.end()
        self.offer()

    def offer(self) -> None:
        """Bring the footer up to date where other keys do something now."""
        offered = (
            self.is_live,
            self.followed.stream.last_step is None,
            not self.shown_verdicts,
            bool(self._rule_at_hand),
            bool(self.key_at_hand[0]),
            len(self.session.runs) > 1,
        )
        # At the very end, when there is no screen any more, a timer may still come here.
        if offered != self._footer_state and self.screen_stack:
            self._footer_state = offered
            self.refresh_bindings()

    def _sent(self, *, is_paced: bool) -> None:
        """A picture is on its way: have the terminal say when it has shown it."""
        if is_paced:
            self._pace.end()
        if self._driver is not None:
            self._ping.ask(self._driver.write)

    def action_command_palette(self) -> None:
        """Find a metric, a verdict, a theme or an action by name."""
        if self.shown is not None:
            self.push_screen(RltopPalette(provider_of(self.offered, self.pick), is_ascii=self.options.is_ascii))

    def offered(self) -> Iterable[Command]:
        """Everything that the palette finds."""
        # The palette itself is on top by now.
        pages = [screen for screen in self.screen_stack if isinstance(screen, PageScreen)]
        return commands(pages[-1].moment if pages else self.moment, self.theme_names, self.palette.name)

    async def pick(self, command: Command) -> None:
        """Do what was picked in the palette."""
        match command.does:
            case SetTheme(name):
                self.set_theme(name)
            case Act(action):
                await self.run_action(action)
            case OpenIn(path, target):
                await self.follow(path)
                self.open(target)
            case effect:
                self.carry_out(effect)

    def get_key_display(self, binding: Binding) -> str:
        """A key as the footer spells it, with signs that may be drawn."""
        shown = binding.key_display or spell(binding.key)[0].replace("Ctrl-", "^")
        if self.options.is_ascii and not shown.isascii():
            return self._glyphs.to_ascii(" ".join(spell(binding.key)))
        return shown


def check_keymap(options: UiOptions) -> None:
    """Make sure that a keymap names only bindings that exist.

    Raises:
        ConfigError: naming the unknown id and listing the known ones.
    """
    unknown = sorted(set(options.keymap) - binding_ids())
    if unknown:
        raise ConfigError(f"[keys] {unknown[0]}: no such action", f"there are: {', '.join(sorted(binding_ids()))}")


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Have the event loop make a call, from a signal handler or a thread; a closed loop needs none."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def run(session: Session, options: UiOptions | None = None, guard: ScreenGuard | None = None) -> int:
    """Show `session` on the terminal until the user quits.

    Args:
        session: what is followed; it is driven from here and closed by the caller.
        options: looks and keys.
        guard: holds the terminal already and restores it afterwards; without one,
            Textual takes and returns the terminal by itself.

    Returns:
        The exit code, 0 unless Textual says otherwise.

    Raises:
        ThemeError, ConfigError: the options cannot be used.
        Exception: whatever ended the application, once the terminal is free.
    """
    app = RltopApp(session, options, guard=guard)
    app.run(mouse=app.options.has_mouse)
    if app.fault is not None:
        raise app.fault
    return app.return_code or 0
