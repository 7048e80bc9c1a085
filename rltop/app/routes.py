"""Going places: which page opens, and which run is shown.

Owns what the keys that lead somewhere do; which keys they are is in `bindings`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

from rltop.app.filtered import FilteredPage
from rltop.app.page import Page
from rltop.app.screens.change import ChangeScreen
from rltop.app.screens.help import HelpScreen
from rltop.app.screens.metric import MetricScreen
from rltop.app.screens.ranks import RanksScreen
from rltop.app.screens.timing import TimingScreen
from rltop.app.screens.tree import TreeScreen
from rltop.app.screens.verdict import VerdictScreen
from rltop.app.travel import TimeTravel
from rltop.model import Verdict
from rltop.rows.rows import Target, TargetKind
from rltop.run.run import Run
from rltop.run.session import Session


class Routes(TimeTravel):
    """An application whose pages lead to each other."""

    session: Session
    picked: str | None = None
    _followed: Run

    @property
    def followed(self) -> Run:
        """The run on the screen: the same one wherever it stands among others, and when it is read anew."""
        while self._followed.replaced_by is not None:
            self._followed = self._followed.replaced_by
        return self._followed

    @property
    @abstractmethod
    def shown_verdicts(self) -> Sequence[Verdict]:
        """What stands at the step that is shown, worst first."""

    @property
    def page(self) -> Page | None:
        """The page on top; None while a dialogue lies over it, and at the very end."""
        stack = self.screen_stack
        return stack[-1] if stack and isinstance(stack[-1], Page) else None

    def open(self, target: Target) -> None:
        """Go to the page that a target stands for."""
        match target.kind:
            case TargetKind.METRIC:
                self.push_screen(MetricScreen(target.name, target.stream))
            case TargetKind.VERDICT:
                self.push_screen(VerdictScreen(target.name, target.step, target.stream))
            case TargetKind.STEP:
                self.show_step(target.step)
                self.push_screen(TimingScreen())
            case TargetKind.TIMING:
                self.push_screen(TimingScreen(target))
            case TargetKind.STRAGGLERS:
                self.action_rollouts()
            case TargetKind.EVENT:
                event = self.followed.events[target.step or 0]
                self.push_screen(VerdictScreen(event.rule, event.step, event.stream))
            case TargetKind.RANKS:
                self.push_screen(RanksScreen())
            case TargetKind.SECTION:
                self.push_screen(TreeScreen(target.name))
            case TargetKind.RUN:
                self.call_later(self.follow, target.name)

    async def action_back(self) -> None:
        """Leave the page on top; from the bottom of a mode, go to the overview."""
        if self.page is not None and self.page.has_something_to_close:
            self.page.close_something()
        elif len(self.screen_stack) > 1:
            self.pop_screen()
        elif self.current_mode != self.DEFAULT_MODE:
            await self.switch_mode(self.DEFAULT_MODE)

    async def action_timing(self) -> None:
        """Show where the time of a step goes."""
        await self.switch_mode("timing")

    def action_rollouts(self) -> None:
        """Show the completions of the step on the screen, group by group."""
        from rltop.app.screens.rollouts import RolloutPage, RolloutsScreen  # noqa: PLC0415 - few runs have any

        if not isinstance(self.page, RolloutPage):
            self.session.look_for_rollouts(self.followed)
            self.push_screen(RolloutsScreen())

    async def action_metrics(self) -> None:
        """Show every metric."""
        await self.switch_mode("metrics")

    async def action_find(self) -> None:
        """Put the cursor into the filter of the page; where it has none, into that of all metrics."""
        if not isinstance(self.screen, FilteredPage):
            await self.switch_mode("metrics")
        if isinstance(self.screen, FilteredPage):
            self.screen.find()

    async def action_timeline(self) -> None:
        """Show every event of the run."""
        await self.switch_mode("timeline")

    def action_alerts(self) -> None:
        """Open the worst verdict of the step that is shown, or the one after the one that is open."""
        standing = [(verdict.rule, verdict.stream) for verdict in self.shown_verdicts]
        if not standing:
            return
        if isinstance(self.screen, VerdictScreen):
            now = (self.screen.rule, self.screen.stream)
            self.screen.show(*standing[(standing.index(now) + 1) % len(standing) if now in standing else 0])
        else:
            rule, stream = standing[0]
            self.push_screen(VerdictScreen(rule, stream=stream))

    def action_change(self) -> None:
        """Rank the metrics by how far they moved at the step on the screen; from a verdict, at its beginning."""
        page = self.page
        if isinstance(page, ChangeScreen):
            return
        stream = page.stream if page is not None else ""
        since = page.since_step if isinstance(page, VerdictScreen) else None
        if since is None or stream:
            self.push_screen(ChangeScreen(stream, since))
            return
        before = self._cursor
        self.show_step(since)
        self.push_screen(ChangeScreen(returns_to=before, has_travelled=True))

    @property
    def _rule_at_hand(self) -> str:
        """The rule of the verdict on the page, or of the one that is selected; else empty."""
        page = self.page
        if isinstance(page, VerdictScreen):
            return page.rule
        target = page.board.target if page is not None and page.is_mounted else None
        return target.name if target is not None and target.kind is TargetKind.VERDICT else ""

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

    def action_help(self) -> None:
        """Say what the page shows and which keys it takes."""
        if self.page is not None and not isinstance(self.page, HelpScreen):
            self.push_screen(HelpScreen(self.page.HELP, self.page.keys))

    async def action_runs(self) -> None:
        """Show every run; once more, the one that was shown before."""
        await self.switch_mode(self.DEFAULT_MODE if self.current_mode == "runs" else "runs")

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
