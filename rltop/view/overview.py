"""The overview: what a person wants to know in one glance, what matters first.

Owns which blocks there are; `overview_rows` paints them. Read from the top: is it
alive, is anything wrong, is it learning, where does the time go, who is slow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from rltop import units
from rltop.model import Counts, Event, RunState, Verdict
from rltop.structs import NamedTuple
from rltop.view.badges import BadgeGroup, build_badges, verdicts_at
from rltop.view.bands import text_around
from rltop.view.banner import Banner, build_banner
from rltop.view.choice import choose_key_metrics, choose_others
from rltop.view.header import HeaderView, build_header, freshness
from rltop.view.key_metrics import (
    MetricRow,
    columns_for,
)
from rltop.view.sentence import Sentence, build_sentence, nothing_yet
from rltop.view.signals import SignalReading, cadence_of, line_of, read_signal, row_name
from rltop.view.source import RunSource, part_of, step_in
from rltop.view.stragglers import StragglerView, build_stragglers
from rltop.view.timings import TimingView, build_timing
from rltop.view.widths import cell_width

if TYPE_CHECKING:
    from rltop.derive.ranks import StageSummary
    from rltop.view.streams import StreamsView

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
