"""The overview: what a person wants to know in one glance, what matters first.

Owns which blocks there are and how they share the height; each block is painted
by its own module. Read from the top: is it alive, is anything wrong, is it
learning, where does the time go, who is slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from rltop import units
from rltop.model import Counts, Event, RunState, Verdict
from rltop.structs import NamedTuple, Struct
from rltop.view.badges import BadgeGroup, build_badges, paint_badges, verdicts_at
from rltop.view.bands import text_around
from rltop.view.banner import Banner, build_banner, paint_banner
from rltop.view.cells import RowBuilder, fill, rule_row, too_small
from rltop.view.choice import choose_key_metrics, choose_others
from rltop.view.event_row import paint_event
from rltop.view.glyphs import Glyphs
from rltop.view.header import HeaderView, build_header, freshness, paint_counts, paint_header
from rltop.view.key_metrics import (
    Columns,
    MetricRow,
    columns_for,
    longest_key,
    longest_note,
    paint_metric_row,
    paint_metric_rows,
)
from rltop.view.lines import Row
from rltop.view.sentence import Sentence, build_sentence, nothing_yet, paint_sentence, sentence_lines
from rltop.view.signals import SignalReading, cadence_of, line_of, read_signal, row_name
from rltop.view.source import RunSource, part_of, step_in
from rltop.view.stragglers import StragglerView, build_stragglers, paint_stragglers
from rltop.view.timings import TimingView, build_timing
from rltop.view.waterfall import (
    full_height,
    least_full_height,
    paint_line,
    paint_stacked,
    paint_stages,
    paint_strip,
    strip_height,
)
from rltop.view.widths import cell_width

if TYPE_CHECKING:
    from rltop.derive.ranks import StageSummary
    from rltop.view.streams import StreamsView

LEAST = (40, 12)
"""Columns and rows below which nothing useful can be shown."""

_GOALS = ("val_score", "val_acc", "success_frac", "reward_mean", "dpo_margin", "rm_accuracy", "val_loss", "loss")
_EVENTS = 8
_INNER_SPANS = 16
"""More unclaimed durations than this are never painted here."""
_FIXED_ROWS = 26
_UNKNOWN_ROWS = 12


class OverviewView(NamedTuple):
    """Everything the overview shows.

    Attributes:
        header: the top line.
        banner: the collapse that stands, dated; None without one.
        sentence: the line below it.
        badges: what fires, by group.
        rows: key metrics, in the order of the algorithm's row set.
        more: further metrics, for tall screens.
        timing: where the newest step's time went, or None.
        stragglers: who is slow, or None where nothing tells.
        events: the newest transitions, newest first.
        counts: what was not understood.
        freshness: what to know about how fresh the rows are; empty if they are.
        span: what the lines cover.
        end: what the newest column is called.
        is_empty: there is not a single number yet.
        is_awaited: nor is there a file.
        streams: the streams of the run, where there are several.
        ranks: who makes the other ranks wait, where ranks say what they do.
    """

    header: HeaderView
    banner: Banner | None
    sentence: Sentence
    badges: tuple[BadgeGroup, ...]
    rows: tuple[MetricRow, ...]
    more: tuple[MetricRow, ...]
    timing: TimingView | None
    stragglers: StragglerView | None
    events: tuple[Event, ...]
    counts: Counts
    freshness: str
    span: str
    end: str = "now"
    is_empty: bool = False
    is_awaited: bool = False
    streams: StreamsView | None = None
    ranks: StageSummary | None = None


def build_overview(
    run: RunSource,
    at: int | None = None,
    *,
    width: int = 200,
    height: int = 60,
    row: Mapping[str, float] | None = None,
) -> OverviewView:
    """Read a run for the overview.

    Args:
        run: the run.
        at: the step of the time cursor; None is the newest one.
        width: cells that it will be painted in; lines are read no finer than that.
        height: rows that it will be painted in; no more metrics are read than fit.
        row: the row at the cursor, where memory has thinned it and the caller has
            read it again.
    """
    verdicts = verdicts_at(run, at)
    timing = build_timing(run, at, row, inner=_INNER_SPANS)
    is_empty = nothing_yet(run) is not None
    rows, more = ((), ()) if is_empty else _read_rows(run, at, verdicts, width, height)
    banner = build_banner(verdicts)
    # What the banner says need not be said twice.
    told = verdicts if banner is None else [verdict for verdict in verdicts if verdict.rule != banner.rule]
    return OverviewView(
        header=build_header(run, timing, at),
        banner=banner,
        sentence=build_sentence(run, told, timing, _goal(rows), at),
        badges=build_badges(run, verdicts),
        rows=rows,
        more=more,
        timing=timing,
        stragglers=build_stragglers(run, at, verdicts),
        events=_newest_events(run, at),
        counts=run.counts,
        freshness=freshness(run),
        span="newest rows" if run.is_preview else "whole run" if at is None else "up to",
        end=_end_word(run, at),
        is_empty=is_empty,
        is_awaited=run.is_awaited,
        streams=_streams(run, at),
        ranks=_worst_rank(run, at),
    )


def _streams(run: RunSource, at: int | None) -> StreamsView | None:
    if not run.beside:
        return None
    # Most runs have one stream, and the first frame waits for every import.
    from rltop.view.streams import build_streams  # noqa: PLC0415

    return build_streams(run, at)


def _worst_rank(run: RunSource, at: int | None) -> StageSummary | None:
    if run.ranks is None:
        return None
    from rltop.view.ranks import worst_stage  # noqa: PLC0415

    return worst_stage(run, at)


def _end_word(run: RunSource, at: int | None) -> str:
    """What the right end of the lines stands for."""
    if at is not None:
        return units.step(at)
    return "end" if run.state in (RunState.ENDED, RunState.FINISHED, RunState.DIED) else "now"


def _read_rows(
    run: RunSource, at: int | None, verdicts: Sequence[Verdict], width: int, height: int
) -> tuple[tuple[MetricRow, ...], tuple[MetricRow, ...]]:
    """The key metrics, and as many further ones as there may be room for."""
    key_metrics = choose_key_metrics(run, at)
    room = max(0, height - _FIXED_ROWS) if key_metrics else max(_UNKNOWN_ROWS, height - _FIXED_ROWS)
    chosen = [*key_metrics, *islice(choose_others(run, key_metrics), room)]
    longest = max((cell_width(row_name(choice.signal)) for choice in chosen), default=0)
    columns = max(20, columns_for(width, longest).spark * 2)
    own = (run, at, verdicts, cadence_of(run.stream))
    parts = {choice.stream: own if not choice.stream else _part(run, choice.stream, at) for choice in chosen}
    rows = []
    count = len(key_metrics) or _UNKNOWN_ROWS
    for number, choice in enumerate(chosen):
        part, here, there, cadence = parts[choice.stream]
        # Whether there is room for the further ones is known when they are painted, and most of a reading is its line.
        is_late = number >= count
        reading = read_signal(
            part,
            choice.signal,
            0 if is_late else columns,
            at=here,
            verdicts=there,
            others=choice.others,
            cadence=cadence,
        )
        line = partial(line_of, part, reading, columns, at=here, cadence=cadence) if is_late else None
        rows.append(MetricRow(choice.title, reading, choice.remark, text_around(part, choice.signal, here), line))
    return tuple(rows[:count]), tuple(rows[count:])


def _part(run: RunSource, stream: str, at: int | None) -> tuple[RunSource, int | None, Sequence[Verdict], int]:
    """Another stream of the run: its own step at the cursor, its verdicts, its cadence."""
    part = part_of(run, stream)
    here = step_in(part, run, at)
    return part, here, verdicts_at(part, here), cadence_of(part.stream)


def _goal(rows: Sequence[MetricRow]) -> SignalReading | None:
    """What the run is for, as far as the table shows it."""
    by_name = {row.reading.signal.metric.name: row.reading for row in rows}
    return next((by_name[name] for name in _GOALS if name in by_name), None)


def _newest_events(run: RunSource, at: int | None) -> tuple[Event, ...]:
    events = [event for event in run.events if at is None or (not event.stream and event.step <= at)]
    # What explains must not crowd out what happened: an evaluation every few steps would.
    told = [i for i, event in enumerate(events) if event.family != "facts"][-_EVENTS:]
    facts = [i for i, event in enumerate(events) if event.family == "facts"][-max(0, _EVENTS - len(told)) :]
    shown = sorted({*told, *facts[: _EVENTS - len(told)]}, reverse=True)
    return tuple(events[i] for i in shown)


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


def paint_overview(
    view: OverviewView, width: int, height: int | None, glyphs: Glyphs, *, has_counts: bool = True
) -> list[Row]:
    """Paint the overview in `width` cells and exactly `height` rows (None: as many as it takes).

    `has_counts` is off where what was not understood is shown elsewhere.
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
        from rltop.view.howto import paint_howto  # noqa: PLC0415 - only where there is no file yet

        return [*rows, Row(()), *paint_howto(width, glyphs)]
    return [*rows, Row(()), *counts] if counts else rows


class _Painter:
    """Chooses a plan for the height and puts the blocks together."""

    def __init__(self, view: OverviewView, width: int, glyphs: Glyphs, has_counts: bool) -> None:
        self.view = view
        self.width = width
        self.glyphs = glyphs
        self._painted: dict[tuple[str, bool], list[Row]] = {}
        self.banner = [] if view.banner is None else [paint_banner(view.banner, width, glyphs)]
        self.badges = paint_badges(view.badges, width, glyphs)
        if view.streams is not None:
            from rltop.view.streams import paint_streams  # noqa: PLC0415

            self.badges = [*self.badges, paint_streams(view.streams, width, glyphs)]
        self.counts = paint_counts(view.counts, width, glyphs, view.freshness) if has_counts else []
        self.sentence_rows = len(sentence_lines(view.sentence, width, 2)) or 1

    def paint(self, height: int | None) -> list[Row]:
        plan, spare = self._choose(height)
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
        view, width, glyphs = self.view, self.width, self.glyphs
        columns = self._columns()
        table = paint_metric_rows(
            view.rows, width, room, glyphs, has_head=plan.has_head, span=(view.span, view.end), columns=columns
        )
        blocks = [top, table, self._timing(plan), self._stragglers(plan), events, more]
        rows: list[Row] = []
        for block in blocks:
            if block:
                rows += [*(rule if rows else []), *block]
        if height is not None:
            rows += [Row(())] * (height - len(rows) - len(self.counts))
        return rows + self.counts

    def _columns(self) -> Columns:
        """The columns of both tables of metrics."""
        rows = (*self.view.rows, *self.view.more)
        return columns_for(self.width, longest_key(rows), longest_note(rows, self.glyphs))

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
        if self.view.stragglers is not None:
            rows += paint_stragglers(self.view.stragglers, self.width, plan.stragglers, self.glyphs)
        if self.view.ranks is not None:
            from rltop.view.ranks import paint_rank_line  # noqa: PLC0415

            rows.append(paint_rank_line(self.view.ranks, self.width, self.glyphs))
        return rows

    def _events(self, room: int | None) -> list[Row]:
        """The newest transitions, under a title."""
        events = self.view.events if room is None else self.view.events[: max(0, room - 3)]
        if not events:
            return []
        rows = [RowBuilder(self.width, self.glyphs).add(" EVENTS", "title").row()]
        rows += [paint_event(event, self.width, self.glyphs) for event in events]
        return rows

    def _more(self, room: int | None) -> list[Row]:
        if room is None or room < 4 or not self.view.more:
            return []
        columns = self._columns()
        rows = [RowBuilder(self.width, self.glyphs).add(" MORE METRICS", "title").row()]
        return rows + [paint_metric_row(row, columns, self.width, self.glyphs) for row in self.view.more[: room - 2]]
