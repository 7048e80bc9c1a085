"""Stragglers: slow completions in a block of the overview; slow ranks in a line of it and on a page.

Owns the choice of the step and the wording; `stats.groups` decides what counts as a straggler and what is usual for a
group size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rltop import units
from rltop.model import Label, Level, Signal, Unit, VerdictState
from rltop.pages.numbered import paint_numbered
from rltop.pages.page import Moment, Page
from rltop.pages.signals import primary, read_spark, worst_verdict
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.keys import Scope
from rltop.rows.rows import Line, Piece, Row, RowBuilder, Target, TargetKind, rule_row, signed_rows, text_row, text_rows
from rltop.rows.sparkline import SparkData, fitted, sparkline
from rltop.rows.table import Column, Fit, Sorting, Table, amount, paint_table, sorted_table
from rltop.run.snapshot import Snapshot
from rltop.stats.groups import StragglerKind, StragglerReading, straggler_reading
from rltop.stats.rolling import Frozen
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.stats.ranks import RankHistory, StageSummary

_ANCHORS = ("group_len_ratio", "time_gen_sample_max", "response_len_max")
_NAMES = (
    "group_len_ratio", "group_len_gini", "time_gen_sample_max", "time_gen_sample_mean", "response_len_max",
    "response_len_mean", "slowest_gen", "slowest_tool", "time_tool_sample_max",
    "time_tool_sample_mean", "seqlen_mean", "seqlen_balanced_max",
    "seqlen_balanced_min", "seqlen_minmax_diff", "truncated_frac",
)  # fmt: skip
_TYPICAL = {"time_gen_sample_max": "time_gen_sample_mean", "response_len_max": "response_len_mean"}
_WHAT = {
    StragglerKind.GROUP: "group max/median",
    StragglerKind.ROLLOUT: "slowest/mean rollout",
    StragglerKind.LENGTH: "longest/mean completion",
}
_COLUMNS = 64
_LATE_STEPS = 20
"""A dump more than this many steps behind says less about the step shown than what is logged on it."""


class StragglerView(NamedTuple):
    """Stragglers at a step.

    Attributes:
        is_older: `step` is not the step shown.
        start: the same measure at the start of the run, or None.
        group_size: completions per prompt, or None if unknown.
        truncated: share of truncated completions, or None.
        spark: sparkline of the whole run; None for a quotient of two keys.
        is_from_rollouts: computed from the completions, because the trainer logs no group ratio.
        unit: unit of the lengths behind the ratio, if not tokens.
    """

    reading: StragglerReading
    step: int
    is_older: bool
    level: Level
    since_step: int | None
    group_size: int | None
    truncated: float | None
    start: float | None = None
    key: str = ""
    spark: SparkData | None = None
    is_from_rollouts: bool = False
    unit: str = ""
    has_rollouts: bool = False


def build_stragglers(snapshot: Snapshot) -> StragglerView | None:
    """Read the best measure of stragglers at a step; None if the run logs none.

    If the trainer logs at most the longest completion of the batch, and no rule fires on that, the completions
    themselves are used if there are any.
    """
    logged = _logged(snapshot)
    shelf = snapshot.rollouts
    if shelf is None or not shelf.state.steps:
        return logged
    if logged is None or (logged.reading.kind is StragglerKind.LENGTH and logged.level <= Level.OK):
        logged = _from_rollouts(snapshot, logged) or logged
    elif logged.reading.kind is StragglerKind.GROUP and logged.group_size is None:
        logged = _of_known_size(snapshot, logged)
    return logged and logged._replace(has_rollouts=True)


def _of_known_size(snapshot: Snapshot, logged: StragglerView) -> StragglerView:
    """The logged ratio, with the usual range for the group size found in the completions."""
    from rltop.pages.rollouts import build_rollouts  # noqa: PLC0415 - only if there are rollouts

    view = build_rollouts(snapshot)
    if view.shelved is None or view.usual is None:
        return logged
    return logged._replace(
        reading=logged.reading._replace(usual=view.usual), group_size=view.shelved.summary.group_size
    )


def _from_rollouts(snapshot: Snapshot, logged: StragglerView | None) -> StragglerView | None:
    """The ratio of the groups of the step; None until they are read."""
    from rltop.pages.rollouts import build_rollouts  # noqa: PLC0415 - only if there are rollouts

    view = build_rollouts(snapshot)
    summary = view.shelved.summary if view.shelved is not None else None
    is_late = summary is not None and logged is not None and summary.step < logged.step - _LATE_STEPS
    if summary is None or summary.ratio_mean is None or is_late:
        return None
    details = logged.reading if logged is not None else None
    reading = StragglerReading(
        kind=StragglerKind.GROUP,
        metric="group_len_ratio",
        ratio=summary.ratio_mean,
        usual=view.usual,
        tool_share=None if details is None else details.tool_share,
        gini=summary.gini_mean,
        balance=None if details is None else details.balance,
    )
    truncated = summary.cut_fraction if logged is None or logged.truncated is None else logged.truncated
    found = _view(snapshot, reading, summary.step, summary.group_size, truncated)
    return found._replace(is_from_rollouts=True, unit="" if summary.has_tokens else view.unit)


def _view(
    snapshot: Snapshot, reading: StragglerReading, step: int, group_size: int | None, truncated: float | None
) -> StragglerView:
    worst = worst_verdict(snapshot, reading.metric)
    level, since_step = (Level.OK, None) if worst is None else (worst.level, worst.since_step)
    return StragglerView(reading, step, step != snapshot.step, level, since_step, group_size, truncated)


def _logged(snapshot: Snapshot) -> StragglerView | None:
    signals = {name: signal for name in _NAMES if (signal := primary(snapshot, name)) is not None}
    for anchor in _ANCHORS:
        if anchor not in signals or (anchor in _TYPICAL and _TYPICAL[anchor] not in signals):
            continue
        raw = snapshot.stream.latest(signals[anchor].key, snapshot.at_step)
        if raw is None:
            continue
        values = _values(snapshot, signals, raw.step)
        if anchor == "group_len_ratio":
            values.setdefault(anchor, signals[anchor].read(raw.value))
        reading = straggler_reading(values, snapshot.part.group_size)
        if reading is not None:
            found = _view(snapshot, reading, raw.step, snapshot.part.group_size, values.get("truncated_frac"))
            signal, start = signals[reading.metric], _start(snapshot, reading.kind, signals)
            is_group = reading.kind is StragglerKind.GROUP
            spark = read_spark(snapshot, signal, _COLUMNS, reference=start) if is_group else None
            return found._replace(key=signal.key, start=start, spark=spark)
    return None


def _values(snapshot: Snapshot, signals: dict[str, Signal], step: int) -> dict[str, float]:
    row = snapshot.stream.row(step)
    return {name: signal.read(row[signal.key]) for name, signal in signals.items() if signal.key in row}


def _start(snapshot: Snapshot, kind: StragglerKind, signals: dict[str, Signal]) -> float | None:
    what = ("stragglers", kind, tuple((s.key, s.scale, s.shift) for s in signals.values()), snapshot.part.group_size)
    return snapshot.part.memo.of_start(what, lambda: _measured_start(snapshot, kind, signals))


def _measured_start(snapshot: Snapshot, kind: StragglerKind, signals: dict[str, Signal]) -> float | None:
    heads = {name: (signal, snapshot.stream.head(signal.key).values) for name, signal in signals.items()}
    frozen = Frozen()
    for i in range(max(len(values) for _, values in heads.values())):
        row = {name: signal.read(raw[i]) for name, (signal, raw) in heads.items() if raw[i] == raw[i]}
        reading = straggler_reading(row, snapshot.part.group_size)
        if reading is not None and reading.kind is kind and math.isfinite(reading.ratio):
            frozen.push(reading.ratio)
    return frozen.value


def _usual_text(view: StragglerView) -> str:
    parts = []
    if view.reading.kind is StragglerKind.GROUP:
        usual = view.reading.usual
        if usual is not None:
            low, high = units.number(usual.low), units.number(usual.high)
            parts.append(f"typical for group size {view.group_size}: {_short(low)}–{_short(high)}")
        elif view.group_size is None and not view.is_from_rollouts:
            parts.append("set group_size for a fixed limit")
    if view.is_from_rollouts:
        parts.insert(0, f"from rollouts in {view.unit}" if view.unit else "from rollouts")
    if view.start is not None:
        parts.append(f"{_short(units.number(view.start))} at start")
    return ", ".join(parts)


def _short(number: str) -> str:
    return number[:-1] if len(number) == 4 and number[1] == "." else number


def _details(view: StragglerView) -> list[str]:
    reading = view.reading
    parts = []
    if reading.worst is not None and reading.typical is not None:
        unit = Unit.SECONDS if reading.kind is StragglerKind.ROLLOUT else Unit.TOKENS
        what = "slowest rollout" if reading.kind is StragglerKind.ROLLOUT else "longest completion"
        text = f"{what} {units.measure(reading.worst, unit)}, mean {units.measure(reading.typical, unit)}"
        if reading.kind is StragglerKind.ROLLOUT and reading.tool_share is not None:
            text += f" · tool calls {units.share(reading.tool_share)} of it"
        parts.append(text)
    elif reading.tool_share is not None:
        parts.append(f"tool calls {units.share(reading.tool_share)} of the slowest rollout")
    if view.truncated is not None:
        parts.append(f"truncated {units.percent(view.truncated)}")
    if reading.balance is not None:
        parts.append(f"sequence-length imbalance {units.percent(reading.balance)}")
    if reading.gini is not None:
        parts.append(f"length Gini {units.percent(reading.gini)}")
    return parts


def paint_stragglers(view: StragglerView, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    if height <= 0:
        return []
    rollouts = Target(TargetKind.STRAGGLERS)
    target = rollouts if view.has_rollouts or not view.key else Target(TargetKind.METRIC, view.key)
    builder = _paint_measure(view, width, glyphs)
    details = _details(view)
    if height == 1:
        _add_parts(builder, ["", *details], " · ")
        return [builder.row(target)]
    if view.spark is not None and builder.room >= 24:
        cells = min(32, builder.room - 4)
        builder.pad_to(width - cells - 1).line(sparkline(fitted(view.spark, cells * 2), glyphs))
    rows = [builder.row(target)]
    if details:
        below = RowBuilder(width, glyphs).add("   ")
        _add_parts(below, details, "      " if width >= 100 else " · ")
        rows.append(below.row(rollouts))
    return rows[:height]


def _paint_measure(view: StragglerView, width: int, glyphs: Glyphs) -> RowBuilder:
    role = LEVEL_ROLES[view.level]
    gap = "   " if width >= 100 else "  "
    builder = RowBuilder(width, glyphs).add(" STRAGGLERS", "title").add(gap)
    builder.add(f"{_WHAT[view.reading.kind]} ", "text")
    builder.add(_short(units.number(view.reading.ratio)), role if view.level > Level.OK else "value")
    if view.level > Level.OK:
        builder.add(f" {glyphs.levels[view.level]}", role)
        since = "" if view.since_step is None else f" since {units.step(view.since_step)}"
        builder.add(since if len(since) <= builder.room else "", role)
    if view.is_older:
        builder.add(f" @{units.step(view.step)}", "note")
    usual = _usual_text(view)
    for text in (usual, usual.split(", ", 1)[0], f"in {view.unit}" if view.unit else ""):
        if text and cell_width(text) + len(gap) + 2 <= builder.room:
            return builder.add(f"{gap}({text})", "note")
    return builder


def _add_parts(builder: RowBuilder, parts: Sequence[str], gap: str) -> None:
    for i, part in enumerate(parts):
        if i and builder.room < cell_width(part) + len(gap):
            return
        builder.add(gap if i else "", "dim").add(part, "note")


RULE = "P15"


def rank_stages(snapshot: Snapshot) -> Sequence[StageSummary]:
    """The stages in which ranks are compared, the one with the largest lag of its slowest rank first."""
    return snapshot.source.ranks.summary(snapshot.at_step) if snapshot.source.ranks is not None else ()


def paint_rank_line(stage: StageSummary, width: int, glyphs: Glyphs) -> Row:
    parts = (
        (f"{Label.of(stage.slowest).display} ", "strong"),
        (f"{_seconds(stage.behind_s)} behind ", "value"),
        (f"the median of {units.count(len(stage.ranks))} in ", "note"),
        (Label.of(stage.stage).display, "key"),
        (f"   slowest in {units.share(stage.often)} of steps", "note"),
    )
    return RowBuilder(width, glyphs).add(" RANKS", "title").add("  ").whole(parts).row(Target(TargetKind.RANKS))


def _seconds(value: float) -> str:
    return units.measure(value, Unit.SECONDS)


def paint_ranks(
    snapshot: Snapshot, stages: Sequence[StageSummary], width: int, glyphs: Glyphs, sorting: Sorting | None = None
) -> list[Row]:
    history, at = snapshot.source.ranks, snapshot.at_step
    builder = RowBuilder(width, glyphs).add(" RANKS", "title")
    if history is not None and (steps := [step for step in history.steps if at is None or step <= at]):
        from rltop.stats.ranks import SUMMED_STEPS  # noqa: PLC0415 - most runs have no ranks

        builder.add(f"  step {units.step(steps[-1])}", "value")
        builder.add(f"   medians of {units.counted(len(steps[-SUMMED_STEPS:]), 'step')}", "dim")
        builder.add(", start and end measured" if history.is_measured else ", durations as logged", "dim")
    rows = [builder.row()]
    if at is None:
        rows += [text_row(f"{glyphs.levels[Level.WARN]} {one}", width, glyphs, "warn") for one in snapshot.run.lagging]
    if history is None or not stages:
        text = "No per-rank timing in this run. It takes one stream per rank, or spans with start and end times."
        return [*rows, *text_rows(text, width, glyphs, "dim")]
    verdict = next((one for one in snapshot.standing if one.rule == RULE and one.state is VerdictState.FIRING), None)
    if verdict is not None:
        words, target = Label.of(verdict.headline).display, Target(TargetKind.VERDICT, verdict.rule)
        level = verdict.level
        rows += signed_rows(glyphs.levels[level], words, LEVEL_ROLES[level], width, glyphs, lines=5, target=target)
    elif not history.is_measured:
        rows.append(text_row(f"{glyphs.levels[Level.OK]} no persistent straggler", width, glyphs, "ok"))
    rows.append(rule_row(width, glyphs))

    def sign(stage: StageSummary) -> tuple[str, str]:
        is_raised = verdict is not None and f"in {stage.stage}:" in verdict.headline
        return glyphs.levels[Level.WARN] if is_raised else "", "warn"

    table = sorted_table(
        stage_columns(width), stages, sorting, lambda one: _target(history, one.slowest, one.stage), sign
    )
    return [*rows, *paint_table(table, width, glyphs), *_paint_stage_ranks(history, stages[0], width, glyphs)]


def stage_columns(width: int) -> Sequence[Column[StageSummary]]:
    def name(stage: StageSummary) -> tuple[str, str]:
        label = stage.stage if not stage.group or width < 100 else f"{stage.group} · {stage.stage}"
        return Label.of(label).display, "key"

    return (
        Column("stage", name, Fit.NAME, least=12, sort=lambda one: one.stage),
        Column(
            "slowest", lambda one: (Label.of(one.slowest).display, "text"), Fit.NAME, least=10,
            sort=lambda one: one.slowest,
        ),
        amount("behind", lambda one: one.behind_s, _seconds, least=8),
        amount("of step", lambda one: one.share, units.share, least=7, priority=1),
        amount("median", lambda one: one.usual_s, _seconds, "note", least=8, priority=2),
        amount("slowest in", lambda one: one.often, units.share, "note", priority=3),
    )  # fmt: skip


def _target(history: RankHistory, rank: str, stage: str) -> Target | None:
    key = history.keys.get((rank, stage), "")
    return Target(TargetKind.METRIC, key, stream=rank) if key else None


def _paint_stage_ranks(history: RankHistory, stage: StageSummary, width: int, glyphs: Glyphs) -> list[Row]:
    title = RowBuilder(width, glyphs).add(" ").add(Label.of(stage.stage).display, "title")
    title.add(f"  by rank, median {_seconds(stage.usual_s)}", "dim")
    longest = max(stage.ranks.values(), default=0.0)

    def late(rank: tuple[str, float]) -> tuple[str, str]:
        behind = rank[1] - stage.usual_s
        return f"+{_seconds(behind)}" if behind > 0.0 else "", "note"

    def bar(rank: tuple[str, float], cells: int) -> Line:
        if longest <= 0.0:
            return ()
        full = round(cells * rank[1] / longest)
        usual = min(full, round(cells * stage.usual_s / longest))
        return Piece(glyphs.bar * usual, "stage-0"), Piece(glyphs.fills[1] * (full - usual), "warn")

    columns: Sequence[Column[tuple[str, float]]] = (
        Column("rank", lambda one: (Label.of(one[0]).display, "text"), Fit.NAME, least=10, most=max(24, width // 4)),
        Column("time", lambda one: (_seconds(one[1]), "value"), least=8),
        Column("behind", late, least=9, priority=1),
        Column("", bar, Fit.DRAWN, least=4, priority=2),
    )
    table = Table(
        columns,
        tuple(stage.ranks.items()),
        target=lambda one: _target(history, one[0], stage.stage),
        sign=lambda one: ("", "text"),
    )
    return [Row(()), title.row(), *paint_table(table, width, glyphs, has_head=False)]


class RanksPage(Page):
    where = (Scope.TABLE,)
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on")
    search_hint = "a rank, a stage or a key"

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        stages = rank_stages(moment.snapshot)
        numbered = paint_numbered(moment.snapshot, width, moment.glyphs, self.sorting)
        rows: list[Row] = []
        if stages or not numbered:
            rows = paint_ranks(moment.snapshot, stages, width, moment.glyphs, self.sorting)
        return [*rows, *([Row(())] if rows and numbered else []), *numbered]
