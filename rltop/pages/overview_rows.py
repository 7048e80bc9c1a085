"""Paints the overview: which of its blocks there is room for, and how they share the height.

Each block is painted by its own module.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, ClassVar

from rltop.model import RunState
from rltop.pages.badges import paint_badges
from rltop.pages.banner import paint_banner
from rltop.pages.events import paint_events
from rltop.pages.header import BROKEN_OFF, build_header, header_clock, paint_counts, paint_header
from rltop.pages.key_metrics import MetricTable
from rltop.pages.moment import Moment, baseline_of
from rltop.pages.overview import OverviewView, build_overview, paint_sentence, sentence_lines
from rltop.pages.page import Page
from rltop.pages.stages import TimingView
from rltop.pages.stragglers import paint_stragglers
from rltop.pages.waterfall import (
    full_height,
    least_full_height,
    paint_line,
    paint_stacked,
    paint_stages,
    paint_strip,
    strip_height,
)
from rltop.rows.cells import RowBuilder, fill, rule_row, too_small
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import Where
from rltop.rows.rows import Row
from rltop.run.past import LIVENESS_RULE
from rltop.run.snapshot import Snapshot
from rltop.structs import Struct

if TYPE_CHECKING:
    from rltop.pages.baseline import FirstDivergence

LEAST = (40, 12)
"""Columns and rows below which nothing useful can be shown."""


class _Plan(Struct, frozen=False):
    """How the height is shared out; later plans ask for less."""

    sentence: int
    has_rules: bool
    has_head: bool
    metrics: int
    timing: str
    strip: int
    stragglers: int


_PLANS = (
    (2, True, True, 10, "full", 3, 3),
    (2, True, True, 8, "full", 2, 2),
    (1, True, True, 8, "full", 1, 2),
    (1, True, True, 8, "stacked", 1, 1),
    (1, True, True, 6, "stacked", 1, 1),
    (1, True, True, 6, "stacked", 0, 1),
    (1, False, True, 6, "stacked", 0, 1),
    (1, False, True, 4, "stacked", 0, 1),
    (1, False, False, 4, "line", 0, 1),
)


_BELOW_TALL = 8
"""Rows that must be left for events and further metrics where each metric gets a second row for its line."""


def paint_overview(
    view: OverviewView, width: int, height: int | None, glyphs: Glyphs, *, has_counts: bool = True
) -> list[Row]:
    """Paint the overview in `width` cells and exactly `height` rows (None: as many as it takes).

    Args:
        view: what to paint.
        width: cells.
        height: rows; None: as many as it takes.
        glyphs: the signs to draw with.
        has_counts: say what was not understood; off where that is shown elsewhere.
    """
    if width < LEAST[0] or (height is not None and height < LEAST[1]):
        return too_small(width, height if height is not None else 1, glyphs, LEAST)
    if view.is_empty:
        return fill(_paint_empty(view, width, glyphs), height)
    return fill(_Painter(view, width, glyphs, has_counts).paint(height), height)


def _paint_empty(view: OverviewView, width: int, glyphs: Glyphs) -> list[Row]:
    rows = [paint_header(view.header, width, glyphs), Row(())]
    rows += paint_sentence(view.sentence, width, 4, glyphs)
    counts = paint_counts(view.counts, width, glyphs, view.freshness)
    if view.is_awaited:
        from rltop.pages.setup_hints import paint_setup_hints  # noqa: PLC0415 - only where there is no file yet

        return [*rows, Row(()), *paint_setup_hints(width, glyphs)]
    if view.counts.lines and view.header.state not in BROKEN_OFF:
        from rltop.pages.setup_hints import paint_layout  # noqa: PLC0415 - only where nothing could be read

        rows += [Row(()), *paint_layout(view.counts, view.layout, width, glyphs)]
    return [*rows, Row(()), *counts] if counts else rows


class _Painter:
    """Chooses a plan for the height and puts the blocks together."""

    def __init__(self, view: OverviewView, width: int, glyphs: Glyphs, has_counts: bool) -> None:
        self.view = view
        self.width = width
        self.glyphs = glyphs
        self._painted: dict[tuple[str, bool], list[Row]] = {}
        self._metrics = MetricTable(view.rows, width, glyphs, view.more, (view.span, view.end))
        self.banner = [] if view.banner is None else [paint_banner(view.banner, width, glyphs)]
        self.badges = paint_badges(view.badges, width, glyphs)
        if view.streams is not None:
            from rltop.pages.streams import paint_streams  # noqa: PLC0415

            self.badges = [*self.badges, paint_streams(view.streams, width, glyphs)]
        if view.divergence:
            self.badges = [*self.badges, RowBuilder(width, glyphs).add(" ").add(view.divergence, "note").row()]
        self.counts = paint_counts(view.counts, width, glyphs, view.freshness) if has_counts else []
        self.sentence_rows = len(sentence_lines(view.sentence, width, 2)) or 1

    def paint(self, height: int | None) -> list[Row]:
        plan, spare = self._choose(height)
        is_tall = spare is not None and 0 < plan.metrics <= spare - _BELOW_TALL
        if spare is not None:
            spare -= plan.metrics * is_tall
        events = self._events(spare) if spare is None or spare > 3 else []
        if spare is not None:
            spare -= len(events)
        more = self._more(spare)
        rule = [rule_row(self.width, self.glyphs)] if plan.has_rules else []
        top = [
            paint_header(self.view.header, self.width, self.glyphs),
            *self.banner,
            *paint_sentence(self.view.sentence, self.width, plan.sentence, self.glyphs),
            *self.badges,
        ]
        room = plan.metrics + plan.has_head
        table = self._metrics.paint(room, has_head=plan.has_head, is_tall=is_tall)
        blocks = [top, table, self._timing(plan), self._stragglers(plan), events, more]
        rows: list[Row] = []
        for block in blocks:
            if block:
                rows += [*(rule if rows else []), *block]
        if height is not None:
            rows += [Row(())] * (height - len(rows) - len(self.counts))
        return rows + self.counts

    def _choose(self, height: int | None) -> tuple[_Plan, int | None]:
        """The first plan that fits, grown into the rows that it leaves; and what is left even then."""
        if height is None:
            plan = _Plan(*_PLANS[0])
            plan.metrics = len(self.view.rows)
            return plan, None
        for numbers in _PLANS:
            plan = _Plan(*numbers)
            plan.sentence = min(plan.sentence, self.sentence_rows)
            plan.metrics = min(plan.metrics, len(self.view.rows))
            spare = height - self._height(plan)
            if spare >= 0:
                break
        while spare < 0 and plan.metrics > 1:
            plan.metrics -= 1
            spare += 1
        if spare < 0:
            self.badges = self.badges[:1]
            plan.stragglers = 0
            spare = height - self._height(plan)
        if spare and plan.sentence < self.sentence_rows:
            plan.sentence, spare = plan.sentence + 1, spare - 1
        grown = max(0, min(spare, len(self.view.rows) - plan.metrics))
        plan.metrics += grown
        return plan, spare - grown

    def _height(self, plan: _Plan) -> int:
        blocks = [
            1 + len(self.banner) + plan.sentence + len(self.badges),
            plan.metrics + plan.has_head if plan.metrics else 0,
            self._timing_height(plan),
            len(self._stragglers(plan)),
        ]
        rules = plan.has_rules * (sum(1 for block in blocks if block) - 1)
        return sum(blocks) + rules + len(self.counts)

    def _timing_height(self, plan: _Plan) -> int:
        """Rows of the block; its strip is not painted before it is known which one is shown."""
        timing = self.view.timing
        return 0 if timing is None else len(self._stages(plan, timing)) + strip_height(timing, self.width, plan.strip)

    def _timing(self, plan: _Plan) -> list[Row]:
        timing = self.view.timing
        if timing is None:
            return []
        return [*self._stages(plan, timing), *paint_strip(timing, self.width, plan.strip, self.glyphs)]

    def _stages(self, plan: _Plan, timing: TimingView) -> list[Row]:
        """The rows above the strip."""
        form = (plan.timing, plan.strip > 2)
        if form not in self._painted:
            self._painted[form] = self._paint_stages(plan, timing)
        return self._painted[form]

    def _paint_stages(self, plan: _Plan, timing: TimingView) -> list[Row]:
        width, glyphs = self.width, self.glyphs
        if len(timing.top) < 2 or plan.timing == "line":
            return [paint_line(timing, width, glyphs)]
        if plan.timing == "full" and least_full_height(timing, width):
            room = min(full_height(timing, width), 12 if plan.strip > 2 else least_full_height(timing, width))
            return paint_stages(timing, width, room, glyphs)
        return paint_stacked(timing, width, glyphs)

    def _stragglers(self, plan: _Plan) -> list[Row]:
        if not plan.stragglers:
            return []
        rows = []
        if self.view.flow is not None:
            from rltop.pages.flow import paint_in_overview  # noqa: PLC0415 - most runs generate and train in turn

            rows += paint_in_overview(self.view.flow, self.width, plan.stragglers, self.glyphs)
        elif self.view.stragglers is not None:
            rows += paint_stragglers(self.view.stragglers, self.width, plan.stragglers, self.glyphs)
        if self.view.ranks is not None:
            from rltop.pages.ranks import paint_rank_line  # noqa: PLC0415

            rows.append(paint_rank_line(self.view.ranks, self.width, self.glyphs))
        return rows

    def _events(self, room: int | None) -> list[Row]:
        """The newest transitions, under a title."""
        events = self.view.events if room is None else self.view.events[: max(0, room - 3)]
        if not events:
            return []
        rows = [RowBuilder(self.width, self.glyphs).add(" EVENTS", "title").row()]
        return rows + paint_events(events, self.width, self.glyphs, muted=self.view.muted)

    def _more(self, room: int | None) -> list[Row]:
        if room is None or room < 4 or not self.view.more:
            return []
        title = RowBuilder(self.width, self.glyphs).add(" MORE METRICS", "title").row()
        return [title, *self._metrics.paint_more(room - 2)]


class OverviewPage(Page):
    """The first page: is it alive, is anything wrong, is it learning, where does the time go."""

    where = (Where.MARKS, Where.OVERLAY)
    footer: ClassVar[Sequence[str]] = (
        "alerts",
        "flow",
        "timing",
        "metrics",
        "timeline",
        "acknowledge",
        "change",
        "runs",
    )
    tells_counts = True
    help = (
        "One run, from the top: its trainer, progress, speed and state; a one-line summary; active alerts, learning "
        "and system; the key metrics of its algorithm, each with its change against this run's baseline and its whole "
        "history; where the time of the newest step went; and how far the longest completions lag behind. Select "
        "anything; {open} opens it. {pin} pins a metric to the top, {arrange} orders, names and hides rows. "
        "{mark-metric} marks a metric, {overlay} draws the marked ones in one chart."
    )

    def __init__(self) -> None:
        """The overview, not painted yet."""
        super().__init__()
        self._last: tuple[Hashable, OverviewView, list[Row]] | None = None
        self._divergence: FirstDivergence | None = None

    def face(self, moment: Moment) -> Hashable:
        """The age of the newest row and how much of the file has been read, as they are shown."""
        return super().face(moment), header_clock(moment.snapshot)

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        """The overview of the run and the step that are shown; where only time has gone by, only its header is new."""
        # The words of a verdict on silence change with every second.
        run, glyphs = moment.run, moment.glyphs
        other = baseline_of(moment)
        beside = None if other is None else other.version
        at = (id(run), moment.at_step, moment.is_paused, width, height, beside)
        now = (moment.version, *at, run.loading, run.muted, super().face(moment))
        if (
            self._last is not None
            and self._last[0] == now
            and not any(one.rule == LIVENESS_RULE for one in run.verdicts)
        ):
            return self._with_new_header(moment, width, height)
        view = self._beside(build_overview(moment.snapshot, width=width, height=height), moment)
        if moment.is_paused:
            view = view._replace(header=view.header._replace(state=RunState.PAUSED, age_s=None))
        rows = paint_overview(view, width, height, glyphs)
        self._last = (now, view, rows)
        return rows

    def _beside(self, view: OverviewView, moment: Moment) -> OverviewView:
        """The view with what differs from the baseline run, where there is one."""
        other = baseline_of(moment)
        if other is None or view.is_empty:
            return view
        from rltop.pages.baseline import FirstDivergence, with_baseline  # noqa: PLC0415 - few sessions compare anything

        self._divergence = self._divergence or FirstDivergence()
        ours, theirs = moment.snapshot, Snapshot(other)
        return view._replace(
            rows=with_baseline(view.rows, ours, theirs),
            more=with_baseline(view.more, ours, theirs),
            divergence=f"vs {other.name.display}: {self._divergence.text(moment.run, other)}",
        )

    def _with_new_header(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        assert self._last is not None
        _, view, rows = self._last
        if moment.is_paused:
            return rows
        header = build_header(moment.snapshot, view.timing)
        if rows[:1] == [paint_header(view.header, width, moment.glyphs)] and not view.is_empty:
            return [paint_header(header, width, moment.glyphs), *rows[1:]]
        return paint_overview(view._replace(header=header), width, height, moment.glyphs)
