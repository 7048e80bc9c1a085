"""Which metrics are marked to be drawn in one chart, and the line in which others are named.

Owns the marks; the chart is a page's.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltop.app.visits import Visits
from rltop.rows.rows import Target, TargetKind

NAMES = "metrics in one chart: reward, entropy by tokens"


class Marking(Visits):
    """An application in which metrics are marked, and drawn in one chart."""

    marked_metrics: Sequence[Target] = ()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Space marks where a metric is selected; elsewhere it is left to what else it does.

        Args:
            action: its name, without `action_`.
            parameters: its own.
        """
        if action == "mark_metric":
            return bool(self.key_at_hand[0])
        return super().check_action(action, parameters)

    def action_mark_metric(self) -> None:
        """Mark the selected metric to be drawn with others, or unmark it."""
        from rltop.pages.overlay import MOST_METRICS, sign_of  # noqa: PLC0415 - few sessions draw several

        key, stream = self.key_at_hand
        target = Target(TargetKind.METRIC, key, stream=stream)
        marked = [one for one in self.marked_metrics if one != target]
        if len(marked) == len(self.marked_metrics) and len(marked) >= MOST_METRICS:
            self.tell(f"{MOST_METRICS} metrics are marked already: unmark one first")
            return
        if len(marked) == len(self.marked_metrics):
            marked.append(target)
            sign, _ = sign_of(len(marked) - 1)
            then = "draws them in one chart" if len(marked) > 1 else "draws it with metrics you name; or mark another"
            keys = "" if self.shown is None else self.shown.keys.clause("overlay", f"; {{}} {then}")
            self.tell(f"marked as {sign}{keys}")
        else:
            self.tell(f"unmarked; {len(marked)} still marked" if marked else "unmarked; no metric is marked now")
        self.marked_metrics = tuple(marked)
        self.draw()

    async def action_overlay(self) -> None:
        """Draw the marked metrics in one chart; with fewer than two, or on a chart, ask for names."""
        from rltop.pages.overlay import OverlayPage  # noqa: PLC0415 - few sessions draw several

        is_chart = bool(self._drawn_now)
        if len(self.marked_metrics) > 1 and not is_chart:
            self.push(OverlayPage(self.marked_metrics))
        elif self.shown is not None:
            await self.shown.ask(NAMES, self.draw_named)

    @property
    def _drawn_now(self) -> Sequence[Target]:
        """The metrics in the chart of the page on top; none where it has no such chart."""
        from rltop.pages.metric import MetricPage  # noqa: PLC0415 - loaded with the pages
        from rltop.pages.overlay import OverlayPage  # noqa: PLC0415 - few sessions draw several

        if isinstance(self.page, OverlayPage):
            return self.page.targets
        if isinstance(self.page, MetricPage):
            return (Target(TargetKind.METRIC, self.page.key, stream=self.page.stream),)
        return ()

    def draw_named(self, text: str) -> None:
        """Draw the metrics that were named, with those that are in the chart or marked already.

        Args:
            text: as typed; says what would do where it names none.
        """
        from rltop.pages.chart import axes_logged  # noqa: PLC0415 - few sessions draw several
        from rltop.pages.chart_page import ChartPage  # noqa: PLC0415
        from rltop.pages.overlay import MOST_METRICS, OverlayPage, read_asked  # noqa: PLC0415

        if not text.strip() or self.followed.stream.last_step is None:
            return
        snapshot = self.moment.snapshot
        try:
            asked = read_asked(text, snapshot)
        except ValueError as error:
            self.tell(str(error))
            return
        targets = list(dict.fromkeys((*(self._drawn_now or self.marked_metrics), *asked.targets)))
        if asked.axis is not None and asked.axis not in axes_logged(snapshot):
            self.tell(f"this run does not log {asked.axis.value}: the chart is by step")
        elif len(targets) > MOST_METRICS:
            self.tell(f"a chart holds {MOST_METRICS} metrics: the first {MOST_METRICS} are drawn")
        if len(targets) < 2:
            self.tell("name two metrics or more: reward, entropy by tokens")
            return
        axis = asked.axis
        if axis is None and isinstance(self.page, ChartPage):
            axis = self.page.axis
        page, is_there = OverlayPage(targets, axis), isinstance(self.page, OverlayPage)
        if is_there and self.shown is not None:
            self.shown.show(page)
        else:
            self.push(page)
