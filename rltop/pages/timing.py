"""The page of step timing: any step's waterfall, and a table of its stages.

Owns the table (last, median, p95, share, trend) and the sentence that names the stage behind a slowdown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rltop import units
from rltop.model import Label, Unit
from rltop.pages.header import pace_of
from rltop.pages.overview import longer_words
from rltop.pages.page import Effect, Moment, Open, Page, ShowStep
from rltop.pages.stages import (
    NAMED,
    OTHER,
    TimingView,
    build_timing,
    longer_by,
    paint_stages,
    paint_strip,
    share_text,
    stage_fills,
)
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import Scope
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, fill, rule_row, text_row, text_rows
from rltop.rows.sparkline import block_bars
from rltop.rows.table import Column, Fit, Sorting, Table, amount, paint_table, sort_items
from rltop.run.snapshot import Snapshot
from rltop.stats.rolling import median_of

_MIN_FOR_TREND = 8
_SLOWER = 0.05
_BARS = 40
_STEP = "step"
"""The name of the row of the whole step, above its stages."""


@dataclass(frozen=True, slots=True)
class StageStatistic:
    """One stage over the last steps.

    Attributes:
        last_s: seconds on the step shown; NaN if it did not run.
        median_s, p95_s: over the steps on which it ran.
        trend: median of the newest quarter over that of the oldest, minus 1; None while unknown.
        history: seconds on the newest steps, oldest first; NaN if it did not run.
    """

    name: Label
    role: str
    last_s: float
    median_s: float
    p95_s: float
    share: float
    trend: float | None
    history: tuple[float, ...]
    runs: int


@dataclass(frozen=True, slots=True)
class TimingPageView:
    """Everything the timing page shows.

    Attributes:
        timing: the step shown, or None if nothing is logged.
        table: the whole step first, then its stages, largest first.
        explanation: which stage explains a slowdown, or that there is none.
        note: why there is no timing; empty if there is.
        other_streams: timing of the other streams of the run, by their own steps.
    """

    timing: TimingView | None
    table: tuple[StageStatistic, ...]
    steps: int
    explanation: Label
    note: str = ""
    has_rollouts: bool = False
    other_streams: tuple[TimingView, ...] = ()


def build_timing_page(snapshot: Snapshot) -> TimingPageView:
    timing, measured = build_timing(snapshot), snapshot.measured.role
    others = [part for part in snapshot.streams if part.role != measured and not part.source.is_rank]
    beside = tuple(view for part in others if (view := build_timing(part)) is not None)
    if timing is None:
        return TimingPageView(None, (), 0, Label.of(""), _why_nothing(snapshot), other_streams=beside)
    table = _table(timing)
    has_rollouts = snapshot.rollouts is not None and bool(snapshot.rollouts.state.steps)
    explanation = Label.of(_explain(timing, table))
    return TimingPageView(timing, table, len(timing.strip), explanation, "", has_rollouts, beside)


def _why_nothing(snapshot: Snapshot) -> str:
    if snapshot.identity is None:
        return "not enough records to detect how this trainer logs timing"
    plan = snapshot.identity.dialect.timing
    log = "log the seconds of each step as"
    if plan is None:
        return f"{snapshot.identity.dialect.name} logs no timing that rltop recognises: {log} step_time"
    stages = [f"{space}NAME" for space in plan.namespace if space.endswith("/")]
    step = next(iter(plan.step_keys), f"{stages[0]}" if stages else "step_time")
    also = f", those of each stage as {stages[0]}" if stages and step != stages[0] else ""
    pace_s = pace_of(snapshot)
    paced = "" if pace_s is None else f" (by the times of its rows a step takes {units.duration(pace_s)})"
    return f"this run logs no durations{paced}: {log} {step}{also}"


def _table(timing: TimingView) -> tuple[StageStatistic, ...]:
    totals = [step.total_s for step in timing.strip]
    whole_s = sum(totals)
    by_name: dict[str, list[float]] = {}
    for at, step in enumerate(timing.strip):
        for name, seconds in step.parts:
            if step.is_whole:
                continue
            history = by_name.setdefault(name, [math.nan] * len(totals))
            history[at] = seconds if math.isnan(history[at]) else history[at] + seconds
    rows = [_statistic(name, timing, history, whole_s) for name, history in by_name.items()]
    rows.sort(key=lambda row: (row.name.raw == OTHER, -row.median_s * row.runs))
    return (_statistic("step", timing, totals, whole_s), *rows)


def _statistic(name: str, timing: TimingView, history: Sequence[float], whole_s: float) -> StageStatistic:
    ran = [seconds for seconds in history if not math.isnan(seconds)]
    ordered = sorted(ran)
    role = "value" if name == "step" else "other" if name == OTHER else f"stage-{timing.colors.get(name, 7) % 8}"
    quarter = len(ran) // 4
    trend = None
    if len(ran) >= _MIN_FOR_TREND:
        before, after = median_of(ran[:quarter]), median_of(ran[-quarter:])
        trend = after / before - 1 if before > 0 else None
    return StageStatistic(
        name=Label.of(name),
        role=role,
        last_s=history[-1],
        median_s=median_of(ran),
        p95_s=ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)],
        share=sum(ran) / whole_s if whole_s > 0 else 0.0,
        trend=trend,
        history=tuple(history),
        runs=len(ran),
    )


def _explain(timing: TimingView, table: Sequence[StageStatistic]) -> str:
    parts = []
    longer = timing.longer
    if longer is not None:
        parts.append(f"{longer_words(longer, timing)}: they were measured over different intervals")
    if timing.median_s is not None:
        delta = timing.total_s - timing.median_s
        if delta > _SLOWER * timing.median_s:
            text = f"this step +{units.duration(delta)} vs median {units.duration(timing.median_s)}"
            parts.append(", ".join([text, *longer_by(timing, delta)[:1]]))
        elif delta < -_SLOWER * timing.median_s:
            parts.append(f"this step −{units.duration(-delta)} vs median {units.duration(timing.median_s)}")
        else:
            parts.append(f"this step is close to the median of {units.duration(timing.median_s)}")
    whole = table[0]
    if whole.trend is not None and len(timing.strip) >= _MIN_FOR_TREND:
        quarter = max(1, len(timing.strip) // 4)
        oldest, newest = timing.strip[0].step, timing.strip[-quarter].step
        between = median_of([step.total_s for step in timing.strip[quarter:-quarter]])
        is_other = abs(between - whole.median_s) > _SLOWER * whole.median_s
        if abs(whole.trend) < _SLOWER and not is_other:
            parts.append(f"steady since step {units.step(oldest)}")
        elif abs(whole.trend) < _SLOWER:
            parts.append(
                f"steps from {units.step(newest)} on take as long as around step {units.step(oldest)}"
                f", those between {units.duration(between)} (median)"
            )
        else:
            by, word = units.share(abs(whole.trend)), "longer" if whole.trend > 0 else "less time"
            how = f"{by} {word} (median) than" if whole.trend < 1 else f"{units.number(1 + whole.trend)}× as long as"
            text = f"steps from {units.step(newest)} on take {how} around step {units.step(oldest)}"
            cause = _behind(table, quarter)
            parts.append(text + (f", mostly {cause.name.raw}" if cause is not None else ""))
    if len(table) == 1:
        parts.append("no stages logged, so no breakdown of step time")
    return "; ".join(parts)


def _behind(table: Sequence[StageStatistic], quarter: int) -> StageStatistic | None:
    """The stage that accounts for more than half of the change in step time, if any."""

    def moved(stage: StageStatistic) -> float:
        seconds = [0.0 if math.isnan(s) else s for s in stage.history]
        return median_of(seconds[-quarter:]) - median_of(seconds[:quarter])

    whole = moved(table[0])
    best = max(table[1:], key=lambda stage: moved(stage) * whole, default=None)
    return best if best is not None and moved(best) * whole > 0.5 * whole * whole else None


def paint_timing(
    view: TimingPageView, width: int, height: int | None, glyphs: Glyphs, sorting: Sorting | None = None
) -> list[Row]:
    timing = view.timing
    if timing is None:
        note = text_rows(view.note, width, glyphs, lines=4)
        rows = [text_row("STEP TIMING", width, glyphs, "title"), Row(()), *note]
        return fill([*rows, *_paint_beside(view, width, glyphs)], height)
    text = text_rows(view.explanation.display, width, glyphs, "strong")
    table = [rule_row(width, glyphs), *_paint_table(view, timing, width, glyphs, sorting)]
    room = 60 if height is None else height
    least = min(4, len(table))
    strip_rows = 1 if room < 24 else 3 if room < 40 else 5
    stage_room = max(3, min(1 + len(timing.stages), room - len(text) - least - strip_rows))
    rows = paint_stages(timing, width, stage_room, glyphs)
    rows += paint_strip(timing, width, strip_rows, glyphs)
    if view.has_rollouts:
        builder = RowBuilder(width, glyphs).add(f" {glyphs.arrow} ", "dim").add("completions of this step", "text")
        table.append(builder.row(Target(TargetKind.STRAGGLERS)))
    return fill([*rows, *text, *table, *_paint_beside(view, width, glyphs)], height)


def _paint_beside(view: TimingPageView, width: int, glyphs: Glyphs) -> list[Row]:
    rows = []
    for timing in view.other_streams:
        rows += [rule_row(width, glyphs), *paint_stages(timing, width, 1 + len(timing.stages), glyphs)]
    return rows


def stage_columns(view: TimingPageView, width: int, glyphs: Glyphs) -> Sequence[Column[StageStatistic]]:
    name = 18 if width >= 70 else 13 if width >= 44 else 10
    steps = units.counted(view.steps, "step")
    return (
        Column(
            "stage", lambda one: (one.name.display, "strong" if one.name.raw == _STEP else "text"), Fit.NAME,
            least=name, most=name, sort=lambda one: one.name.raw,
        ),
        amount("last", lambda one: one.last_s, units.duration, least=8),
        amount("median", lambda one: one.median_s, units.duration, least=8),
        amount("p95", lambda one: one.p95_s, units.duration, "note", least=8, priority=2),
        Column(
            "mean share", lambda one: ("" if one.name.raw == _STEP else share_text(one.share), "unit"), least=6,
            priority=1, sort=lambda one: one.share,
        ),
        Column("trend", _trend, least=6, sort=lambda one: one.trend),
        Column(
            steps, lambda one, cells: _bars(one, cells, glyphs), Fit.DRAWN, least=len(steps),
            most=_BARS, priority=4, gap=3, drawn_width=lambda one: min(_BARS, view.steps),
        ),
        Column(
            "", lambda one: (f"on {units.counted(one.runs, 'step')}" if one.runs < view.steps else "", "dim"), Fit.TEXT,
            least=10, priority=3,
        ),
    )  # fmt: skip


def _paint_table(
    view: TimingPageView, timing: TimingView, width: int, glyphs: Glyphs, sorting: Sorting | None
) -> list[Row]:
    keys = {stage.name.raw: stage.key for stage in reversed(timing.top) if stage.name.raw != _STEP}

    def target(one: StageStatistic) -> Target:
        return Target(TargetKind.TIMING, keys.get(one.name.raw, ""), timing.step, timing.stream.raw)

    columns, fills = stage_columns(view, width, glyphs), stage_fills(timing, glyphs)
    table = Table(
        columns,
        # The whole step comes first in any order.
        [*view.table[:1], *sort_items(view.table[1:], columns, sorting)],
        target=target,
        sorting=sorting,
        is_sortable=True,
        sign=lambda one: ("" if one.name.raw == _STEP else fills.get(one.name.raw, glyphs.fills[NAMED]), one.role),
    )
    return paint_table(table, width, glyphs)


def _trend(one: StageStatistic) -> tuple[str, str]:
    if one.trend is None:
        return units.UNKNOWN, "dim"
    role = "warn" if one.trend > 0.2 and one.share > 0.02 else "note"
    return units.change(1 + one.trend, 1.0, Unit.NONE), role


def _bars(one: StageStatistic, cells: int, glyphs: Glyphs) -> tuple[str, str]:
    history = one.history
    per = max(1, -(-len(history) // cells))
    merged = []
    for start in range(0, len(history), per):
        part = [seconds for seconds in history[start : start + per] if not math.isnan(seconds)]
        merged.append(max(part) if part else math.nan)
    return block_bars(merged, glyphs), one.role


_BESIDES = 9
"""Rows of the page besides the stages and the table."""


class TimingPage(Page):
    where = (Scope.TABLE,)
    search_hint = "a part of a stage's name"
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on", "flow", "find")

    def __init__(self, stage: Target | None = None) -> None:
        super().__init__()
        self.begins_at = stage

    def open(self, target: Target, moment: Moment) -> Effect | None:
        """A stage opens its chart; a step of the strip is shown on this page."""
        if target.kind is TargetKind.STEP:
            return ShowStep(target.step)
        if target.kind is not TargetKind.TIMING:
            return super().open(target, moment)
        return Open(Target(TargetKind.METRIC, target.name, stream=target.stream)) if target.name else None

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        view = build_timing_page(moment.snapshot)
        stages = len(view.timing.stages) if view.timing is not None else 0
        beside = sum(2 + len(timing.stages) for timing in view.other_streams)
        height = max(height, stages + len(view.table) + _BESIDES + beside)
        return paint_timing(view, width, height, moment.glyphs, self.sorting)
