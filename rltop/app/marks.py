"""Which metrics are marked to be drawn in one chart, and the names that are typed to draw others with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltop.pages.chart_page import ChartPage
from rltop.pages.metric import MetricPage
from rltop.pages.moment import Moment
from rltop.pages.page import Page
from rltop.rows.keys import KeyNames
from rltop.rows.rows import Target, TargetKind

if TYPE_CHECKING:
    from rltop.pages.overlay import OverlayPage

NAMES = "metrics in one chart: reward, entropy by tokens"


class MetricMarks:
    """The marked metrics, in the order in which they were marked."""

    def __init__(self) -> None:
        self.targets: tuple[Target, ...] = ()

    def toggle(self, target: Target, keys: KeyNames) -> str:
        """Mark a metric, or unmark it."""
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
        """The chart of the metrics that were named, with those that are in the chart on the page or marked already.

        Returns:
            The chart, None where the text names too few; and what there is to say, which may be empty.
        """
        from rltop.pages.chart import axes_logged  # noqa: PLC0415 - few sessions draw several
        from rltop.pages.overlay import MOST_METRICS, OverlayPage, read_asked  # noqa: PLC0415

        if not text.strip() or moment.snapshot.run.stream.last_step is None:
            return None, ""
        snapshot = moment.snapshot
        try:
            asked = read_asked(text, snapshot)
        except ValueError as error:
            return None, str(error)
        targets = list(dict.fromkeys((*(drawn_on(page) or self.targets), *asked.targets)))
        said = ""
        if asked.axis is not None and asked.axis not in axes_logged(snapshot):
            said = f"this run does not log {asked.axis.value}: the chart is by step"
        elif len(targets) > MOST_METRICS:
            said = f"a chart holds {MOST_METRICS} metrics: the first {MOST_METRICS} are drawn"
        if len(targets) < 2:
            return None, f"name two metrics or more: {NAMES.partition(': ')[2]}"
        axis = page.axis if asked.axis is None and isinstance(page, ChartPage) else asked.axis
        return OverlayPage(targets, axis), said


def drawn_on(page: Page | None) -> Sequence[Target]:
    """The metrics in the chart of a page; none where it has no such chart."""
    from rltop.pages.overlay import OverlayPage  # noqa: PLC0415 - few sessions draw several

    if isinstance(page, OverlayPage):
        return page.targets
    if isinstance(page, MetricPage):
        return (Target(TargetKind.METRIC, page.key, stream=page.stream),)
    return ()
