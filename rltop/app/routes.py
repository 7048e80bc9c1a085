"""Going places: which page opens, which run is shown, and what a page wants done.

Owns what the keys that lead somewhere do; which keys they are is in `rows.keys`, which
pages there are in `pages.directory`.
"""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rltop.app.options import UiOptions
from rltop.app.page_screen import DETAIL_CELLS, PageScreen
from rltop.app.travel import TimeTravel
from rltop.model import Verdict
from rltop.pages.changes import ChangePage
from rltop.pages.directory import FIRST, OPENED, STANDING
from rltop.pages.help import HelpPage
from rltop.pages.moment import Moment
from rltop.pages.page import Effect, Mark, Open, Page, Push, Say, ShowStep, Travel
from rltop.pages.verdict import VerdictPage
from rltop.resources import DETAILS, keep
from rltop.rows.rows import Target, TargetKind
from rltop.rows.themes import Palette
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.structs import replace


class Routes(TimeTravel):
    """An application whose pages lead to each other."""

    DEFAULT_MODE = FIRST

    options: UiOptions
    palette: Palette
    session: Session
    picked: str | None = None
    told: str = ""
    has_details = True
    marked: Sequence[str] = ()
    _followed: Run

    def add_standing_pages(self) -> None:
        """Have a mode for each page of which there is one."""
        for name, make in STANDING.items():
            self.add_mode(name, partial(self._screen_of, make))

    def _screen_of(self, make: Callable[[], Page]) -> PageScreen:
        return PageScreen(make(), self)

    @property
    def keymap(self) -> Mapping[str, str]:
        """Binding id → keys that were given to it."""
        return self.options.keymap

    @property
    def followed(self) -> Run:
        """The run on the screen: the same one wherever it stands among others, and when it is read anew."""
        while self._followed.replaced_by is not None:
            self._followed = self._followed.replaced_by
        return self._followed

    @property
    @abstractmethod
    def moment(self) -> Moment:
        """The run, the step and the signs that every page paints with."""

    @property
    @abstractmethod
    def shown_verdicts(self) -> Sequence[Verdict]:
        """What stands at the step that is shown, worst first."""

    @abstractmethod
    def tell(self, text: str) -> None:
        """Say something in the line above the footer, until the next key."""

    @abstractmethod
    def go_to(self, text: str) -> None:
        """Go to the step or the window that was typed."""

    @abstractmethod
    def visited(self, page: Page) -> None:
        """A page is shown, for the first time or again."""

    @abstractmethod
    def offer(self) -> None:
        """Bring the footer up to date where other keys do something now."""

    @property
    def shown(self) -> PageScreen | None:
        """The screen on top; None while a dialogue lies over it, and at the very end."""
        stack = self.screen_stack if self.is_running else []
        return stack[-1] if stack and isinstance(stack[-1], PageScreen) else None

    @property
    def page(self) -> Page | None:
        """The page on top, likewise."""
        return self.shown.page if self.shown is not None else None

    def push(self, page: Page) -> None:
        """Show a page on top of the others."""
        self.push_screen(PageScreen(page, self))

    def open(self, target: Target) -> None:
        """Go to the page that a target stands for."""
        if target.kind is TargetKind.RUN:
            self.call_later(self.follow, target.name)
        elif target.kind in OPENED:
            if target.kind is TargetKind.STEP:
                self.show_step(target.step)
            elif target.kind is TargetKind.STRAGGLERS:
                self.session.look_for_rollouts(self.followed)
            self.push(OPENED[target.kind](target, self.moment))

    def beside(self, effect: Open | Push, moment: Moment) -> tuple[Page, Moment] | None:
        """The page that is opened, and what it shows: of a run its overview; None where there is none."""
        if isinstance(effect, Push):
            return effect.page, moment
        target = effect.target
        if target.kind is TargetKind.RUN:
            run = next((run for run in self.session.runs if run.path.raw == target.name), None)
            return None if run is None else (STANDING[FIRST](), replace(moment, run=run, at_step=None, stream=""))
        return (OPENED[target.kind](target, moment), moment) if target.kind in OPENED else None

    def action_details(self) -> None:
        """Show or hide what is selected beside the lists, and keep that for the next time."""
        self.has_details = not self.has_details
        with contextlib.suppress(OSError):
            keep(DETAILS, "shown\n" if self.has_details else "hidden\n")
        if self.shown is not None:
            self.call_later(self.shown.draw_detail)
            is_wide = self.shown.has_class("-wide")
            self.tell(
                f"from {DETAIL_CELLS} columns on, what is selected stands beside lists"
                if not is_wide
                else "what is selected stands beside lists"
                if self.has_details
                else "nothing stands beside lists"
            )

    def carry_out(self, effect: Effect) -> None:
        """Do what a page wants."""
        match effect:
            case Open(target):
                self.open(target)
            case Push(page):
                self.push(page)
            case ShowStep(step):
                self.show_step(step)
            case Travel(by):
                self.action_travel(by)
            case Say(text):
                self.tell(text)
            case Mark(path):
                self.marked = [one for one in self.marked if one != path] + [path] * (path not in self.marked)
                self.draw()

    @property
    def _root(self) -> str:
        """Where Escape ends: the overview, of several runs their list."""
        return "runs" if len(self.session.runs) > 1 else self.DEFAULT_MODE

    async def action_back(self) -> None:
        """Leave the page on top; from the bottom of a mode go to the overview, from there to the list of runs."""
        if self.shown is not None and self.shown.has_something_to_close:
            self.shown.close_something()
        elif len(self.screen_stack) > 1:
            self.pop_screen()
        elif self.current_mode != self._root:
            await self.switch_mode(self._root if self.current_mode == self.DEFAULT_MODE else self.DEFAULT_MODE)

    async def action_show(self, name: str) -> None:
        """Show a page of which there is one; from a page that was opened there the page itself; once more, go back."""
        if self.current_mode != name:
            await self.switch_mode(name)
        elif len(self.screen_stack) == 1:
            await self.action_back()
        while len(self.screen_stack) > 1 and self.current_mode == name:
            await self.pop_screen()

    async def action_runs(self) -> None:
        """Show every run; once more, the one that was shown before."""
        await self.switch_mode(self.DEFAULT_MODE if self.current_mode == "runs" else "runs")

    def action_compare(self) -> None:
        """Show the marked runs beside each other."""
        self.open(Target(TargetKind.COMPARE))

    async def action_grid(self) -> None:
        """Show the metrics of the overview as charts; once more, go back."""
        from rltop.pages.grid import GridPage  # noqa: PLC0415 - loads what compares runs

        if isinstance(self.page, GridPage):
            await self.action_back()
        else:
            self.open(Target(TargetKind.GRID))

    async def action_rollouts(self) -> None:
        """Show the completions of the step on the screen, group by group; once more, go back."""
        from rltop.pages.rollouts import RolloutPage  # noqa: PLC0415 - few runs have any

        if isinstance(self.page, RolloutPage):
            await self.action_back()
        else:
            self.open(Target(TargetKind.STRAGGLERS))

    async def action_find(self) -> None:
        """Filter or search the page; where neither can be done, put the cursor into the filter of all metrics."""
        if self.shown is None or not self.shown.can_find:
            await self.switch_mode("metrics")
            # A page that was opened from the list lies over it.
            while len(self.screen_stack) > 1:
                await self.pop_screen()
        if self.shown is not None:
            await self.shown.find()

    def action_alerts(self) -> None:
        """Open the worst verdict of the step that is shown, or the one after the one that is open."""
        standing = [(verdict.rule, verdict.stream) for verdict in self.shown_verdicts]
        if not standing:
            return
        shown = self.shown
        if shown is not None and shown.page.rule:
            now = (shown.page.rule, shown.page.stream)
            rule, stream = standing[(standing.index(now) + 1) % len(standing) if now in standing else 0]
            shown.show(VerdictPage(rule, stream=stream))
        else:
            rule, stream = standing[0]
            self.push(VerdictPage(rule, stream=stream))

    async def action_change(self) -> None:
        """Rank the metrics by how far they moved at the step shown, from an alert at its start; once more, go back."""
        shown = self.shown
        if shown is not None and isinstance(shown.page, ChangePage):
            await self.action_back()
            return
        stream = shown.page.stream if shown is not None else ""
        since = shown.page.since_step(shown.moment) if shown is not None else None
        if since is None or stream:
            self.push(ChangePage(stream, since))
            return
        before = self._cursor
        self.show_step(since)
        self.push(ChangePage(returns_to=before, has_travelled=True))

    @property
    def _rule_at_hand(self) -> str:
        """The rule of the verdict on the page, or of the one that is selected; else empty."""
        shown = self.shown
        if shown is None or shown.page.rule:
            return shown.page.rule if shown is not None else ""
        target = shown.board.target if shown.is_mounted else None
        return target.name if target is not None and target.kind is TargetKind.VERDICT else ""

    def action_acknowledge(self) -> None:
        """Quiet the alert at hand until it gets worse, or take that back; where it cannot be kept say why."""
        rule = self._rule_at_hand
        if not rule:
            return
        try:
            is_quiet = self.session.acknowledge(self.followed, rule)
        except OSError as error:
            self.tell(f"cannot be kept: {error.strerror or error}")
            return
        if is_quiet is None:
            self.tell(f"no alert of {rule} stands now")
            return
        self.draw()
        self.tell(f"{rule} is acknowledged: quiet until it gets worse" if is_quiet else f"{rule} is no longer quiet")

    def action_mute(self) -> None:
        """Leave the verdicts of the rule at hand out for this run, or take them in again."""
        rule, run = self._rule_at_hand, self.followed
        if rule:
            run.mute(rule, rule not in run.muted)
            self.draw()

    def action_unmute(self) -> None:
        """Take in again what was muted."""
        run = self.followed
        for rule in run.muted:
            run.mute(rule, False)
        self.draw()

    async def action_help(self) -> None:
        """Say what the page shows and which keys it takes; once more, go back."""
        if self.shown is not None and isinstance(self.shown.page, HelpPage):
            await self.action_back()
        elif self.shown is not None:
            page = self.shown.page
            self.push(HelpPage(page.help, self.shown.keys, page.where))

    async def follow(self, path: str) -> None:
        """Show the run that is read from `path`, live."""
        run = next((run for run in self.session.runs if run.path.raw == path), None)
        if run is not None:
            self.picked = path
            self._followed = run
            # Pages of another run that lie over a mode's own would speak of keys that this one has not.
            await self.switch_mode(self.DEFAULT_MODE)
            while len(self.screen_stack) > 1:
                self.pop_screen()
            self.action_live()
