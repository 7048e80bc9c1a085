"""The application: carries out what keys and pages ask for, with cursor, navigation, marks and main loop.

Knows no metric and paints nothing itself: pages do. `pages.directory` lists the pages, `rows.keys` the keys;
`run.Session` brings in the data.
"""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from textual.actions import parse
from textual.binding import Binding, BindingType

from rltop.app.commands import KeyAction, OpenIn, PaletteEntry, RltopPalette, SetTheme, commands, provider_of
from rltop.app.main_loop import MainLoop, set_title
from rltop.app.navigation import PLACES, Navigation, TimeCursor
from rltop.app.options import TERMINAL, TERMINAL_LIGHT, ThemeChoice, UiOptions
from rltop.app.page_screen import DETAIL_CELLS, PageScreen
from rltop.app.plot_pane import paint_chart
from rltop.app.rule_keys import Reread, RuleKeys
from rltop.app.takeaway import Takeaway
from rltop.clock import Clock
from rltop.errors import ConfigError, ThemeError
from rltop.model import Label, Level
from rltop.pages.changes import ChangePage
from rltop.pages.chart import ChartPage, axes_logged
from rltop.pages.directory import FIRST, OPENED, STANDING, HelpPage
from rltop.pages.header import BROKEN_OFF
from rltop.pages.metric import MetricPage
from rltop.pages.page import (
    Acknowledge,
    Arrange,
    Ask,
    Effect,
    MarkRun,
    Mean,
    Moment,
    Open,
    Page,
    Push,
    Say,
    SetRule,
    ShowStep,
    Travel,
)
from rltop.pages.verdict import VerdictPage
from rltop.resources import DETAILS, HINTED, save_state
from rltop.rows.glyphs import glyph_set
from rltop.rows.keys import KeyNames, Scope
from rltop.rows.rows import Target, TargetKind
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.screen.bindings import BINDINGS as KEY_BINDINGS
from rltop.screen.bindings import binding_ids, normal_keymap, spell, with_alt
from rltop.screen.driver import (
    GuardedDriver,
    LinkPing,
    Pace,
    TerminalBackground,
    driver_for,
    is_multiplexed,
)
from rltop.screen.guard import TerminalGuard
from rltop.screen.row_view import textual_theme
from rltop.screen.textual_shim import PatchedApp
from rltop.settings import BY_NAME
from rltop.structs import replace

if TYPE_CHECKING:
    from rltop.pages.overlay import OverlayPage


HINTS = "first start: {open} opens what is selected, {back} goes back, {help} lists all keys"
"""Shown once, until the next key."""

_OF_ONE_RUN = ("show(", "alerts", "change", "rollouts", "console")
"""Prefixes of the actions that open a page about one run."""

_WHY: Mapping[str, str] = MappingProxyType(
    {
        "runs": "this is the only run: name several files, or a folder, to see a list",
        "alerts": "no alert at this step",
        "acknowledge": "no alert is selected: select one to acknowledge it",
        "mute": "no alert is selected: select one to mute its rule",
        "unmute": "no rule is muted",
        "mark-metric": "no metric is selected: select one to mark it",
        "meaning": "no metric is selected: select one to say what it means",
        "flow": "this run does not look asynchronous: its stages are on the timing page",
        "live": "the newest step is shown already",
        "back": "already on the first page; q quits",
        **dict.fromkeys(("change", "step-back", "step-on", "leap-back", "leap-on"), "no step has been read yet"),
    }
)
"""Why a key has no effect now, by id; the footer omits it meanwhile."""

_OF_STEPS = frozenset({"timing", "metrics", "timeline", "grid", "arrange", "overlay", "find", "go"})
"""Ids of keys that show nothing before the first step."""

_WHY_NOT = {key.action: why for keys in KEY_BINDINGS.values() for key in keys if (why := _WHY.get(key.id or ""))}
"""The same by action."""

_UNSEEN = frozenset({"back", "quit", "suspend_process", "help"})
"""Actions in a window that is too small for the page; what others would do there, nobody could see."""


class RltopApp(PatchedApp, inherit_bindings=False):
    """`top` for one run or several.

    Attributes:
        rules: acknowledges and mutes rules, and sets their thresholds.
        marked: paths of the runs marked for comparison.
        has_details: show what is selected next to lists, if there is room.
        picked: path of the run picked from the list; None until then.
        message: the text shown above the footer; may be empty.

    Raises:
        ThemeError: the theme of the options cannot be used.
        ConfigError: the keymap names a binding that does not exist.
    """

    TITLE = "rltop"
    DEFAULT_MODE = FIRST
    ALLOW_SELECT = False
    """Off: rows are not text to Textual, and it fails if a page is closed while the mouse begins to select on it."""
    CSS_PATH = "page.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*KEY_BINDINGS[Scope.EVERYWHERE]]

    def __init__(
        self,
        session: Session,
        options: UiOptions | None = None,
        *,
        guard: TerminalGuard | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.options = options or UiOptions()
        self.themes = ThemeChoice(self.options)
        check_keymap(self.options)
        clock, is_behind = clock or Clock(), is_multiplexed(os.environ)
        ping = LinkPing(clock, is_on=not is_behind)
        super().__init__(
            driver_class=None if guard is None else driver_for(guard, ping, with_alt(self.options.keymap)),
            ansi_color=None if self.options.has_colour else True,
        )
        for name, make in STANDING.items():
            self.add_mode(name, partial(self._screen_of, make))
        self.set_first_theme(textual_theme(self.themes.palette))
        self.animation_level = "none"
        self.session = session
        self.cursor = TimeCursor(self, clock)
        self.navigation = Navigation(self)
        self.metric_marks = MetricMarks()
        self.takeaway = Takeaway(self)
        self.rules = RuleKeys(self)
        # Actions that parts of the application implement: Textual looks them up here.
        self.action_travel, self.action_live = self.cursor.travel, self.cursor.go_live
        self.action_pause, self.action_event = self.cursor.toggle_pause, self.cursor.go_to_event
        self.action_go_to = self.cursor.go_to
        self.action_show, self.action_visit = self.navigation.show, self.navigation.visit
        self.action_find = self.navigation.find
        self.action_copy_value, self.action_copy_row = self.takeaway.copy_value, self.takeaway.copy_row
        self.action_report, self.action_unmute = self.takeaway.report, self.rules.unmute
        self.marked = self.options.marked
        self.has_details = self.options.has_details
        self.picked: str | None = None
        self.message, self._told_of = "", dict[str, Level]()
        pace = Pace(clock, self.options.refresh_hz, ping, is_multiplexed=is_behind)
        self.main_loop = MainLoop(self, clock, ping, pace, guard)
        self._glyphs = glyph_set(is_ascii=self.options.is_ascii)
        self._followed = session.runs[0]
        self._footer_state: tuple[object, ...] = ()
        self._is_awaiting = True

    # -- what is shown -------------------------------------------------------------------------------------------

    @property
    def followed(self) -> Run:
        """The run on the screen; stays the same when runs are reordered or it is read again."""
        while self._followed.replaced_by is not None:
            self._followed = self._followed.replaced_by
        return self._followed

    @property
    def moment(self) -> Moment:
        run = self.followed
        return Moment(
            Snapshot(run, self.cursor.at_step),
            self._glyphs,
            self.cursor.is_paused,
            self.session.left_out(),
            runs=self.session.runs,
            dropped=self.session.dropped,
            picked=self.picked,
            marked=tuple(self.marked),
            marked_metrics=self.metric_marks.targets,
            baseline=self.options.baseline,
            played=self.options.played,
            draw_chart=paint_chart,
            version=run.version,
        )

    @property
    def shown(self) -> PageScreen | None:
        """The screen on top; None while a dialogue covers it, and at shutdown."""
        stack = self.screen_stack if self.is_running else []
        return stack[-1] if stack and isinstance(stack[-1], PageScreen) else None

    @property
    def page(self) -> Page | None:
        return self.shown.page if self.shown is not None else None

    @property
    def _rule_at_hand(self) -> str:
        shown = self.shown
        if shown is None or shown.page.rule:
            return shown.page.rule if shown is not None else ""
        target = shown.selected
        return target.name if target is not None and target.kind is TargetKind.VERDICT else ""

    @property
    def _metric_at_hand(self) -> Target | None:
        shown = self.shown
        if shown is None:
            return None
        if isinstance(shown.page, MetricPage):
            return Target(TargetKind.METRIC, shown.page.key, stream=shown.page.stream)
        target = shown.selected
        if target is None or target.kind is not TargetKind.METRIC or not target.name:
            return None
        return Target(TargetKind.METRIC, target.name, stream=target.stream)

    @property
    def _alerts(self) -> dict[str, Level]:
        return {one.rule: one.level for one in self.moment.snapshot.firing}

    # -- running -------------------------------------------------------------------------------------------------

    async def on_mount(self) -> None:
        """Apply the keymap, start reading, and list the runs if there are several."""
        self.set_keymap(dict(normal_keymap(self.options.keymap)))
        self.main_loop.start()
        await self.list_runs()
        if self.options.has_hints and self.shown is not None:
            self.show_message(self.shown.keys.with_keys_named(HINTS))

    def on_unmount(self) -> None:
        self.main_loop.stop()

    async def list_runs(self) -> None:
        """Show the list of runs if there are several, at the start or once they appear, unless a page is open."""
        if self._is_awaiting and not self.session.runs[0].main.is_awaited:
            self._is_awaiting = False
            is_at_start = self.current_mode == self.DEFAULT_MODE and len(self.screen_stack) == 1
            if len(self.session.runs) > 1 and is_at_start and self.options.lists_first:
                await self.switch_mode("runs")

    def settled(self) -> None:
        if self.options.has_hints:
            # If this cannot be saved, the hints are shown again next time.
            with contextlib.suppress(OSError):
                save_state(HINTED, "\n")
        if self.cursor.is_paused:
            self._look_beside()
        else:
            self.draw()

    def draw(self, *, is_paced: bool = True) -> None:
        """Paint the page on top, changed or not.

        After a frame with `is_paced`, the next frame of new data is delayed by the pace.
        """
        if self.message and self._told_of != self._alerts:
            self.message = ""
        self._look_beside()
        self.main_loop.paint(is_paced=is_paced)

    def _look_beside(self) -> None:
        """Look for files next to the metrics: most of them after startup, the console log once its page is shown."""
        if self.main_loop.has_settled and self.followed.loading is None:
            self.session.look_for_rollouts(self.followed)
            self.session.look_for_settings()
        if self.main_loop.has_settled:
            self.session.look_for_endings()
            if self.followed.loading is None:
                self.session.follow_job(self.followed)
        if self.page is not None and Scope.LOG in self.page.where:
            self.session.look_for_console(self.followed)

    def send(self, codes: str, title: str) -> None:
        if isinstance(self.driver, GuardedDriver):
            self.driver.title = set_title(title) if title else ""
            self.driver.write(codes)

    # -- keys, and what is said of them --------------------------------------------------------------------------

    def show_message(self, text: str) -> None:
        """Show a message above the footer until the next key or a change of alerts."""
        self.message, self._told_of = Label.of(text).display, self._alerts
        if self.shown is not None:
            self.shown.draw_status()

    async def run_action(self, *arguments: object, **options: object) -> bool:
        """Run the action of a key; the previous message is cleared."""
        action = str(arguments[0]).removeprefix("app.") if arguments else ""
        if self.shown is not None and self.shown.is_too_small and action not in _UNSEEN:
            return False
        had, self.message = self.message, ""
        is_of_run = action.startswith(_OF_ONE_RUN)
        is_there = not is_of_run or await self._follow_chosen(str(arguments[0]))
        is_done = is_there and await super().run_action(*arguments, **options)  # type: ignore[arg-type]
        if not is_done and arguments and arguments[0] in _WHY_NOT:
            self.show_message(_WHY_NOT[str(arguments[0])])
        if had and not self.message and self.shown is not None:
            self.shown.draw_status()
        return is_done

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey out (None) or hide (False) the keys that would do nothing here."""
        is_allowed: bool | None = True
        shown, run = self.shown, self.followed
        is_typing = shown is not None and shown.is_typing
        if shown is not None and shown.is_too_small and action not in _UNSEEN:
            return False
        match action:
            case "live":
                is_allowed = not self.cursor.is_live and not is_typing
            case "find" | "help":
                is_allowed = not is_typing and (shown is not None or action == "help")
            case "show" if parameters == ("flow",):
                is_allowed = run.main.identity is not None and run.main.identity.traits.is_async
            case "change":
                is_allowed = run.main.stream.last_step is not None
            case "acknowledge" | "mute":
                is_allowed = bool(self._rule_at_hand)
            case "mark_metric" | "meaning":
                # Without a selected metric Space keeps its other function.
                has_metric = self._metric_at_hand is not None
                is_allowed = has_metric and (action == "mark_metric" or self.session.may_mean(run))
            case "unmute":
                is_allowed = bool(run.main.judging.muted)
            case "travel":
                is_allowed = run.main.stream.last_step is not None
            case "alerts":
                is_allowed = bool(self.moment.snapshot.standing)
            case "runs":
                is_allowed = len(self.session.runs) > 1
            case "back":
                is_deep = len(self.screen_stack) > 1 or self.current_mode != self.navigation.root
                is_allowed = is_deep or (shown is not None and shown.has_something_to_close)
        return is_allowed

    @property
    def absent(self) -> frozenset[str]:
        """Ids of keys without effect on the page or, as far as known, for this run; pressed, they still say why."""
        run, shown = self.followed, self.shown
        idle = shown.idle if shown is not None else frozenset()
        if run.main.stream.last_step is None:
            idle |= _OF_STEPS
        is_there = {
            "pin": self._metric_at_hand is not None,
            "rollouts": run.rollouts is not None and bool(run.rollouts.state.steps),
            "console": run.is_in_log
            or bool(run.failure_log)
            or (run.console is not None and bool(run.console.state.path)),
            "settings": run.settings is not None and bool(run.settings.values),
        }
        return idle.union(id for id, is_found in is_there.items() if not is_found)

    @property
    def urgent(self) -> Sequence[str]:
        """Ids of the keys that the footer names before all others."""
        run = self.followed
        return ("console",) if run.state in BROKEN_OFF and (run.is_in_log or run.failure_log) else ()

    def offer(self) -> None:
        """Update the footer if other keys have an effect now."""
        offered = (
            self.shown,
            self.shown is not None and self.shown.is_too_small,
            self.absent,
            self.urgent,
            self.cursor.is_live,
            self.followed.main.stream.last_step is None,
            not self.moment.snapshot.standing,
            bool(self._rule_at_hand),
            self._metric_at_hand is not None,
            len(self.session.runs) > 1,
        )
        # A timer may still fire at shutdown, when there is no screen any more.
        if offered != self._footer_state and self.screen_stack:
            self._footer_state = offered
            self.refresh_bindings()

    def get_key_display(self, binding: Binding) -> str:
        shown = binding.key_display or spell(binding.key)[0].replace("Ctrl-", "^")
        if self.options.is_ascii and not shown.isascii():
            return self._glyphs.to_ascii(" ".join(spell(binding.key)))
        return shown

    def action_command_palette(self) -> None:
        if self.shown is not None:
            self.push_screen(RltopPalette(provider_of(self.offered, self.pick), is_ascii=self.options.is_ascii))

    def offered(self) -> Iterable[PaletteEntry]:
        # The palette itself is on top by now.
        pages = [screen for screen in self.screen_stack if isinstance(screen, PageScreen)]
        moment, own = (pages[-1].moment, pages[-1].page.where) if pages else (self.moment, ())
        return commands(moment, own, self.themes.names, self.themes.palette.name)

    async def pick(self, command: PaletteEntry) -> None:
        match command.does:
            case SetTheme(name):
                self.set_theme(name)
            case KeyAction(action):
                await self.run_action(action)
            case OpenIn(path, target):
                await self.follow(path)
                self.open(target)
            case effect:
                self.carry_out(effect)

    # -- pages ---------------------------------------------------------------------------------------------------

    def _screen_of(self, make: Callable[[], Page]) -> PageScreen:
        return PageScreen(make(), self)

    def push(self, page: Page) -> None:
        self.push_screen(PageScreen(page, self))

    def open(self, target: Target) -> None:
        if target.kind is TargetKind.RUN:
            self.call_later(self.follow, target.name)
        elif target.kind in OPENED:
            if target.kind is TargetKind.STEP:
                self.cursor.show(target.step)
            elif target.kind is TargetKind.STRAGGLERS:
                self.session.look_for_rollouts(self.followed)
            self.push(OPENED[target.kind](target, self.moment))

    def preview_page(self, effect: Open | Push, moment: Moment) -> tuple[Page, Moment] | None:
        """The page to show next to a list and its moment; for a run its overview; None if there is no page."""
        if isinstance(effect, Push):
            return effect.page, moment
        target = effect.target
        if target.kind is TargetKind.RUN:
            run = next((run for run in self.session.runs if run.path.raw == target.name), None)
            return None if run is None else (STANDING[FIRST](), replace(moment, snapshot=Snapshot(run)))
        return (OPENED[target.kind](target, moment), moment) if target.kind in OPENED else None

    def action_details(self) -> None:
        """Show or hide the selection next to lists and save the choice; refused if there is no room."""
        if self.shown is None or not self.shown.has_class("-wide"):
            self.show_message(f"from {DETAIL_CELLS} columns on there is room for what is selected beside lists")
            return
        self.has_details = not self.has_details
        with contextlib.suppress(OSError):
            save_state(DETAILS, "shown\n" if self.has_details else "hidden\n")
        self.call_later(self.shown.draw_detail)
        self.show_message(f"{'what is selected' if self.has_details else 'nothing'} stands beside lists")

    async def _toggle(self, is_shown: bool, show: Callable[[], object]) -> None:
        if is_shown:
            await self.action_back()
        else:
            show()

    async def follow(self, path: str) -> None:
        run = next((run for run in self.session.runs if run.path.raw == path), None)
        if run is not None:
            self.picked = path
            self._followed = self.session.first = run
            # Pages opened for another run may refer to keys that this one lacks.
            await self.switch_mode(self.DEFAULT_MODE)
            while len(self.screen_stack) > 1:
                self.pop_screen()
            self.action_live()

    async def _follow_chosen(self, action: str) -> bool:
        """In the list of runs, follow the selected run before an action on one run; False if it has nothing to show."""
        target = None if self.shown is None else self.shown.selected
        if target is None or target.kind is not TargetKind.RUN:
            return True
        before, (_, name, parameters) = self.followed, parse(action)
        self._followed = next((run for run in self.session.runs if run.path.raw == target.name), before)
        is_there = bool(self.check_action(name, parameters))
        self._followed = before
        if is_there:
            await self.follow(target.name)
        return is_there

    async def action_runs(self) -> None:
        await self.switch_mode(self.DEFAULT_MODE if self.current_mode == "runs" else "runs")

    def action_compare(self) -> None:
        self.open(Target(TargetKind.COMPARE))

    async def action_grid(self) -> None:
        from rltop.pages.overlay import GridPage  # noqa: PLC0415 - loads what compares runs

        target = Target(
            TargetKind.GRID, "runs" if self.page and {Scope.RUNS, Scope.COMPARE} & {*self.page.where} else ""
        )
        await self._toggle(isinstance(self.page, GridPage), lambda: self.open(target))

    async def action_rollouts(self) -> None:
        from rltop.pages.rollouts import RolloutPage  # noqa: PLC0415 - few runs have any

        await self._toggle(isinstance(self.page, RolloutPage), lambda: self.open(Target(TargetKind.STRAGGLERS)))

    def action_console(self) -> None:
        from rltop.pages.log import LogPage  # noqa: PLC0415 - few sessions look at one

        if isinstance(self.page, LogPage):
            self.pop_screen()
        else:
            self.session.look_for_console(self.followed)
            self.push(LogPage())

    async def action_help(self) -> None:
        shown = self.shown
        if shown is not None:
            await self._toggle(
                isinstance(self.page, HelpPage),
                lambda: self.push(HelpPage(shown.page.about(), shown.keys, shown.page.where)),
            )

    async def action_back(self) -> None:
        await self.navigation.back()

    # -- steps ---------------------------------------------------------------------------------------------------

    async def action_go(self, text: str = "") -> None:
        if self.shown is not None:
            await self.shown.ask(PLACES, self.cursor.go_to, text)

    async def action_change(self) -> None:
        await self._toggle(isinstance(self.page, ChangePage), self._push_change)

    def _push_change(self) -> None:
        shown = self.shown
        stream = shown.page.stream if shown is not None else ""
        since = shown.page.since_step(shown.moment) if shown is not None else None
        if since is None or stream:
            self.push(ChangePage(stream, since))
            return
        before = self.cursor.step
        self.cursor.show(since)
        self.push(ChangePage(returns_to=before, has_travelled=True))

    # -- alerts --------------------------------------------------------------------------------------------------

    def action_alerts(self) -> None:
        standing = [(verdict.rule, verdict.stream) for verdict in self.moment.snapshot.standing]
        if not standing:
            return
        shown = self.shown
        if shown is not None and isinstance(shown.page, VerdictPage):
            now = (shown.page.rule, shown.page.stream)
            rule, stream = standing[(standing.index(now) + 1) % len(standing) if now in standing else 0]
            shown.show(VerdictPage(rule, stream=stream))
        else:
            rule, stream = standing[0]
            self.push(VerdictPage(rule, stream=stream))

    def action_acknowledge(self) -> None:
        if self._rule_at_hand:
            self.rules.acknowledge(self._rule_at_hand)

    def action_mute(self) -> None:
        if self._rule_at_hand:
            self.rules.mute(self._rule_at_hand)

    # -- metrics -------------------------------------------------------------------------------------------------

    def action_mark_metric(self) -> None:
        target, shown = self._metric_at_hand, self.shown
        if target is not None and shown is not None:
            self.show_message(self.metric_marks.toggle(target, shown.keys))
            self.draw()

    async def action_overlay(self) -> None:
        from rltop.pages.overlay import OverlayPage  # noqa: PLC0415 - few sessions draw several

        if len(self.metric_marks.targets) > 1 and not drawn_on(self.page):
            self.push(OverlayPage(self.metric_marks.targets))
        elif self.shown is not None:
            await self.shown.ask(NAMES, self.draw_named)

    def draw_named(self, text: str) -> None:
        shown = self.shown
        chart, said = self.metric_marks.chart_of_named(text, self.page, self.moment)
        if said:
            self.show_message(said)
        if chart is not None and shown is not None and type(shown.page) is type(chart):
            shown.show(chart)
        elif chart is not None:
            self.push(chart)

    def action_meaning(self) -> None:
        target = self._metric_at_hand
        if target is not None and self.session.may_mean(self.followed):
            from rltop.pages.arrange import MeaningPage  # noqa: PLC0415 - rarely opened

            self.push(MeaningPage(target.name, target.stream))

    def _mean(self, effect: Mean) -> None:
        if self.tries_to_keep(lambda: self.session.mean(self.followed, effect.key, effect.metric)):
            self.pop_screen()
            self.draw()

    def tries_to_keep(self, keep: Callable[[], object]) -> bool:
        """Save something, or show why it cannot be saved."""
        try:
            keep()
        except OSError as error:
            self.show_message(f"cannot be kept: {error.strerror or error}")
            return False
        return True

    def action_pin(self) -> None:
        target, before = self._metric_at_hand, self.followed.arrangement
        if target is None:
            self.show_message("no metric is selected: select one to pin it")
        elif before.is_full and target.name not in before.pinned:
            self.show_message(f"{len(before.pinned)} metrics are pinned already")
        elif self._arrange(Arrange(before.with_pin_toggled(target.name))):
            is_pinned = target.name in self.followed.arrangement.pinned
            how = "pinned to the top of the overview" if is_pinned else "no longer pinned"
            self.show_message(f"{how}: {Label.of(target.name)}")

    def action_arrange(self) -> None:
        from rltop.pages.arrange import ArrangePage  # noqa: PLC0415 - rarely opened

        if isinstance(self.page, ArrangePage):
            self.pop_screen()
        else:
            self.push(ArrangePage())

    def _arrange(self, wanted: Arrange) -> bool:
        is_kept = self.tries_to_keep(lambda: self.session.arrange(self.followed, wanted.arrangement))
        if is_kept:
            self.draw()
        return is_kept

    # -- what pages ask for --------------------------------------------------------------------------------------

    def _mark_run(self, effect: MarkRun) -> None:
        path, marked = effect.path, self.marked
        self.marked = [one for one in marked if one != path] if path in marked else [*marked, path]
        self.draw()

    def _ask(self, effect: Ask) -> None:
        shown = self.shown
        if shown is not None:
            self.call_later(
                shown.ask, effect.hint, lambda said: shown.carry_out(shown.page.answer(said, shown.moment)), effect.text
            )

    CARRIED_OUT: ClassVar[Mapping[type, Callable[[RltopApp, Any], object]]] = MappingProxyType(
        {
            Acknowledge: lambda app, effect: app.rules.acknowledge(effect.rule),
            Arrange: _arrange,
            Ask: _ask,
            MarkRun: _mark_run,
            Mean: _mean,
            Open: lambda app, effect: app.open(effect.target),
            Push: lambda app, effect: app.push(effect.page),
            Say: lambda app, effect: app.show_message(effect.text),
            SetRule: lambda app, effect: app.rules.set(effect),
            ShowStep: lambda app, effect: app.cursor.show(effect.step),
            Travel: lambda app, effect: app.action_travel(effect.by),
        }
    )
    """What carries out each effect of `pages/page.py`; `PageScreen` carries out `Redraw`."""

    def carry_out(self, effect: Effect) -> None:
        self.CARRIED_OUT[type(effect)](self, effect)

    # -- taking something along ----------------------------------------------------------------------------------

    def action_copy_command(self) -> None:
        self.takeaway.copy(f"rltop {shlex.quote(self.followed.path.raw)}", "the command")

    # -- themes and settings -------------------------------------------------------------------------------------

    def action_next_theme(self) -> None:
        self.set_theme(self.themes.next_name)

    def set_theme(self, name: str) -> None:
        try:
            self.take_theme(name)
        except ThemeError as error:
            self.notify(str(error), title="theme", severity="error", markup=False)
            return
        self.options = self.options._replace(theme=name)
        self.show_message(f"theme {self.themes.palette.name}: {self.themes.palette.summary}   ({self.themes.save()})")

    def on_terminal_background(self, message: TerminalBackground) -> None:
        """On a light background replace the terminal theme by its light variant."""
        if message.is_light and self.themes.palette.name == TERMINAL:
            self.take_theme(TERMINAL_LIGHT)

    def take_theme(self, name: str) -> None:
        self.themes.take(name)
        self.register_theme(textual_theme(self.themes.palette))
        self.theme = self.themes.palette.name
        for screen in self.screen_stack:
            if isinstance(screen, PageScreen) and screen.is_mounted:
                screen.set_palette()

    def use(self, ui: UiOptions) -> bool:
        """Apply new settings of appearance and keys; returns whether they differ.

        Raises:
            ConfigError: the keymap names a binding that does not exist.
            ThemeError: the theme cannot be used.
        """
        now = self.options
        new = now._replace(
            theme=ui.theme, keymap=ui.keymap, is_ascii=ui.is_ascii, refresh_hz=ui.refresh_hz, has_mouse=ui.has_mouse,
            has_bell=ui.has_bell, has_title=ui.has_title,
        )  # fmt: skip
        if new == now:
            return False
        check_keymap(new)
        if new.theme != now.theme:
            self.take_theme(new.theme)
        self.options, self._glyphs = new, glyph_set(is_ascii=new.is_ascii)
        self.main_loop.use(new)
        if isinstance(self.driver, GuardedDriver):
            self.driver.use(with_alt(new.keymap), has_mouse=new.has_mouse)
        for screen in self.screen_stack:
            if isinstance(screen, PageScreen):
                screen.known_keys.clear()
        self.set_keymap(dict(normal_keymap(new.keymap)))
        return True

    def action_tell_setting(self, name: str) -> None:
        setting = BY_NAME[name]
        self.show_message(f"{setting.flag}, {setting.variable}, or {name} in config.toml: {setting.help}")

    def action_tell_config(self) -> None:
        folder = self.options.themes_folder
        self.show_message(f"the config file is {'~/.config/rltop' if folder is None else folder.parent}/config.toml")


def check_keymap(options: UiOptions) -> None:
    """Make sure that a keymap names only bindings that exist.

    Raises:
        ConfigError: naming the unknown id and listing the known ones.
    """
    unknown = sorted(set(options.keymap) - binding_ids())
    if unknown:
        raise ConfigError(f"[keys] {unknown[0]}: no such action", f"there are: {', '.join(sorted(binding_ids()))}")


def run(
    session: Session,
    options: UiOptions | None = None,
    guard: TerminalGuard | None = None,
    reread: Callable[[], Reread | str | None] = lambda: None,
) -> int:
    """Show `session` on the terminal until the user quits.

    Raises:
        ThemeError, ConfigError: the options cannot be used.
        Exception: whatever ended the application, raised after the terminal is restored.
    """
    app = RltopApp(session, options, guard=guard)
    app.rules.reread = reread
    app.run(mouse=app.options.has_mouse)
    if app.fault is not None:
        raise app.fault
    return app.return_code or 0


NAMES = "metrics in one chart: reward, entropy by tokens"


class MetricMarks:
    def __init__(self) -> None:
        self.targets: tuple[Target, ...] = ()

    def toggle(self, target: Target, keys: KeyNames) -> str:
        from rltop.pages.overlay import MOST_METRICS, sign_of  # noqa: PLC0415 - few sessions draw several

        others = tuple(one for one in self.targets if one != target)
        if len(others) < len(self.targets):
            self.targets = others
            return f"unmarked; {len(others)} still marked" if others else "unmarked; no metric is marked now"
        if len(others) >= MOST_METRICS:
            return f"{MOST_METRICS} metrics are marked already: unmark one first"
        self.targets = (*others, target)
        sign, _ = sign_of(len(others))
        then = "draws them in one chart" if others else "draws it with metrics you name; or mark another"
        return f"marked as {sign}{keys.clause('overlay', f'; {{}} {then}')}"

    def chart_of_named(self, text: str, page: Page | None, moment: Moment) -> tuple[OverlayPage | None, str]:
        """The chart of the named metrics together with those in the page's chart, else with the marked ones.

        Returns:
            The chart, None if the text names too few; and a message, which may be empty.
        """
        from rltop.pages.overlay import MOST_METRICS, OverlayPage, read_asked  # noqa: PLC0415 - few sessions draw several

        if not text.strip() or moment.snapshot.run.main.stream.last_step is None:
            return None, ""
        snapshot = moment.snapshot
        try:
            named, asked = read_asked(text, snapshot)
        except ValueError as error:
            return None, str(error)
        targets = list(dict.fromkeys((*(drawn_on(page) or self.targets), *named)))
        said = ""
        if asked is not None and asked not in axes_logged(snapshot):
            said = f"this run does not log {asked.value}: the chart is by step"
        elif len(targets) > MOST_METRICS:
            said = f"a chart holds {MOST_METRICS} metrics: the first {MOST_METRICS} are drawn"
        if len(targets) < 2:
            return None, f"name two metrics or more: {NAMES.partition(': ')[2]}"
        axis = page.axis if asked is None and isinstance(page, ChartPage) else asked
        return OverlayPage(targets, axis), said


def drawn_on(page: Page | None) -> Sequence[Target]:
    """The metrics in the chart of a page; empty without such a chart."""
    from rltop.pages.overlay import OverlayPage  # noqa: PLC0415 - few sessions draw several

    if isinstance(page, OverlayPage):
        return page.targets
    if isinstance(page, MetricPage):
        return (Target(TargetKind.METRIC, page.key, stream=page.stream),)
    return ()
