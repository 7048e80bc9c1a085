"""Who makes the others wait: the straggler block of the overview.

Owns the choice of the step it speaks of and the words; what counts as a
straggler, and what is usual for a group size, is `stats.groups`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rltop import units
from rltop.model import Level, Signal, Unit, Verdict
from rltop.pages.signals import read_spark
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.sparkline import SparkData, fitted, sparkline
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.stats.groups import StragglerKind, StragglerReading, straggler_reading
from rltop.stats.rolling import Frozen
from rltop.structs import NamedTuple

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
"""A dump that is further behind than this says less of the step on the screen than what is logged on it."""


class StragglerView(NamedTuple):
    """What there is to say about stragglers at a step.

    Attributes:
        reading: the measure and its details.
        step: the step it was logged on.
        is_older: that step is not the one on the screen.
        start: the same measure at the run's own start, or None.
        group_size: completions per prompt, or None where unknown.
        level: the worst that a rule says of it.
        since_step: since when, where a rule fires.
        truncated: share of completions that were truncated, or None.
        key: the trainer's key behind the measure.
        spark: its line over the whole run; None for a quotient of two keys.
        is_from_rollouts: worked out from the completions, because the trainer logs no group ratio.
        unit: what the lengths behind the ratio are, where they are not tokens.
        has_rollouts: there are completions to open.
    """

    reading: StragglerReading
    step: int
    is_older: bool
    start: float | None
    group_size: int | None
    level: Level
    since_step: int | None
    truncated: float | None
    key: str
    spark: SparkData | None
    is_from_rollouts: bool = False
    unit: str = ""
    has_rollouts: bool = False


def build_stragglers(snapshot: Snapshot, verdicts: Sequence[Verdict]) -> StragglerView | None:
    """Read the best measure of stragglers at a step; None where the run logs nothing that tells.

    Where the trainer logs no more than the longest completion of the whole batch, and no
    rule fires on that, the completions themselves say more, if there are any.
    """
    logged = _logged(snapshot, verdicts)
    shelf = snapshot.rollouts
    has_rollouts = shelf is not None and bool(shelf.state.steps)
    if has_rollouts and (logged is None or (logged.reading.kind is StragglerKind.LENGTH and logged.level <= Level.OK)):
        return _from_rollouts(snapshot, logged, verdicts) or logged
    return logged._replace(has_rollouts=has_rollouts) if logged is not None and has_rollouts else logged


def _from_rollouts(
    snapshot: Snapshot, logged: StragglerView | None, verdicts: Sequence[Verdict]
) -> StragglerView | None:
    """The ratio of the groups of the step; None until they are read."""
    from rltop.pages.rollouts import build_rollouts  # noqa: PLC0415 - only where there are any

    view = build_rollouts(snapshot)
    summary = view.shelved.summary if view.shelved is not None else None
    is_late = summary is not None and logged is not None and summary.step < logged.step - _LATE_STEPS
    if summary is None or summary.ratio_mean is None or is_late:
        return logged._replace(has_rollouts=True) if logged is not None else None
    details = logged.reading if logged is not None else None
    worst = _worst(verdicts, "group_len_ratio")
    reading = StragglerReading(
        kind=StragglerKind.GROUP,
        metric="group_len_ratio",
        ratio=summary.ratio_mean,
        usual=view.usual,
        tool_share=None if details is None else details.tool_share,
        gini=summary.gini_mean,
        balance=None if details is None else details.balance,
    )
    return StragglerView(
        reading=reading,
        step=summary.step,
        is_older=summary.step != snapshot.step,
        start=None,
        group_size=summary.group_size,
        level=worst.level if worst is not None else Level.OK,
        since_step=worst.since_step if worst is not None else None,
        truncated=summary.cut_fraction if logged is None or logged.truncated is None else logged.truncated,
        key="",
        spark=None,
        is_from_rollouts=True,
        unit="" if summary.has_tokens else view.unit,
        has_rollouts=True,
    )


def _logged(snapshot: Snapshot, verdicts: Sequence[Verdict]) -> StragglerView | None:
    """The best measure that the trainer logs."""
    identity = snapshot.identity
    if identity is None:
        return None
    signals = {name: signal for name in _NAMES if (signal := identity.primary(name)) is not None}
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
            return _view(snapshot, reading, signals, raw.step, values, verdicts)
    return None


def _values(snapshot: Snapshot, signals: dict[str, Signal], step: int) -> dict[str, float]:
    """Canonical values of one step."""
    row = snapshot.stream.row(step)
    return {name: signal.read(row[signal.key]) for name, signal in signals.items() if signal.key in row}


def _view(
    snapshot: Snapshot,
    reading: StragglerReading,
    signals: dict[str, Signal],
    step: int,
    values: dict[str, float],
    verdicts: Sequence[Verdict],
) -> StragglerView:
    worst = _worst(verdicts, reading.metric)
    signal = signals[reading.metric]
    is_group = reading.kind is StragglerKind.GROUP
    start = _start(snapshot, reading.kind, signals)
    return StragglerView(
        reading=reading,
        step=step,
        is_older=step != snapshot.step,
        start=start,
        group_size=snapshot.part.group_size,
        level=worst.level if worst is not None else Level.OK,
        since_step=worst.since_step if worst is not None else None,
        truncated=values.get("truncated_frac"),
        key=signal.key,
        spark=read_spark(snapshot, signal, _COLUMNS, reference=start) if is_group else None,
    )


def _worst(verdicts: Sequence[Verdict], metric: str) -> Verdict | None:
    """The worst that fires of a metric."""
    firing = [verdict for verdict in verdicts if verdict.is_active and verdict.metric == metric]
    return max(firing, key=lambda verdict: verdict.level, default=None)


def _start(snapshot: Snapshot, kind: StragglerKind, signals: dict[str, Signal]) -> float | None:
    """The measure at the start of the newest segment, like every other baseline."""
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
    """What the measure is held against; says so where the group size is not known."""
    parts = []
    if view.reading.kind is StragglerKind.GROUP:
        usual = view.reading.usual
        if usual is not None:
            low, high = units.number(usual.low), units.number(usual.high)
            parts.append(f"typical for group size {view.group_size}: {_short(low)}–{_short(high)}")
        elif view.group_size is None and not view.is_from_rollouts:
            parts.append("group size unknown")
    if view.is_from_rollouts:
        parts.insert(0, f"from rollouts in {view.unit}" if view.unit else "from rollouts")
    if view.start is not None:
        parts.append(f"this run's start {_short(units.number(view.start))}")
    return ", ".join(parts)


def _short(number: str) -> str:
    """Two digits are enough for a ratio near one."""
    return number[:-1] if len(number) == 4 and number[1] == "." else number


def _details(view: StragglerView) -> list[str]:
    """What is behind the measure, most telling first."""
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
        parts.append(f"length Gini {units.number(reading.gini)}")
    return parts


def paint_stragglers(view: StragglerView, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """One row with the measure, and with more height one with its details.

    Args:
        view: from `build_stragglers`.
    """
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
        builder.to(width - cells - 1).line(sparkline(fitted(view.spark, cells * 2), glyphs))
    rows = [builder.row(target)]
    if details:
        below = RowBuilder(width, glyphs).add("   ")
        _add_parts(below, details, "      " if width >= 100 else " · ")
        rows.append(below.row(rollouts))
    return rows[:height]


def _paint_measure(view: StragglerView, width: int, glyphs: Glyphs) -> RowBuilder:
    """The measure, since when it fires, and what it is held against."""
    role = LEVEL_ROLES[view.level]
    gap = "   " if width >= 100 else "  "
    builder = RowBuilder(width, glyphs).add(" STRAGGLERS", "title").add(gap)
    builder.add(f"{_WHAT[view.reading.kind]} ", "text")
    builder.add(_short(units.number(view.reading.ratio)), role if view.level > Level.OK else "value")
    if view.level > Level.OK:
        builder.add(f" {glyphs.level(view.level)}", role)
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
    """Parts one after the other, as long as they fit whole."""
    for i, part in enumerate(parts):
        if i and builder.room < cell_width(part) + len(gap):
            return
        builder.add(gap if i else "", "dim").add(part, "note")
