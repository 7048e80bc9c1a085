"""The timing trees of the newest steps: true spans where the run has them, else those that its rows allow."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from operator import itemgetter
from types import MappingProxyType

from rltop import units
from rltop.model import Label, Span, SpanKind, StepTiming
from rltop.run.snapshot import Snapshot
from rltop.stats.rolling import median
from rltop.stats.timing import OVERLAP
from rltop.store.stream import Stream
from rltop.structs import NamedTuple

HISTORY_STEPS = 200
"""How many steps medians rest on, on every page."""

PACE_STEPS = 50
_MOST_SHARE = 10
_NEWEST, _STRAYS, _OTHER = 9, 1, 0.1
"""So many steps make a pace of their own where all but so many are beyond the quartile of those before and the medians
are so far apart: of steps that vary by chance alone they do once in some ten thousand times."""
"""How many of them say what a step takes now."""

STRIP_STEPS = 60
"""How many of them the strip of a report shows, and how many say which stages are large."""

_MIN_FOR_MEDIAN = 5
_RISE_FACTOR = 1.5
_RISE_SHARE = 0.02
_OUTLIER = 1.5
OTHER = "other"
_NO_COLOR = 7
"""The colour of what belongs to no stage of the step."""


def at_present_pace(values: Sequence[float]) -> Sequence[float]:
    """Of what the newest steps took, those since the pace last changed; all of them where it has not.

    The median of all goes on saying the pace of before until half of them are newer.
    """
    if len(values) <= _NEWEST or abs(median(values[-_NEWEST:]) / (median(values) or math.inf) - 1.0) <= _OTHER:
        return values
    for number in range(_NEWEST, len(values)):
        before, after = sorted(values[:-number]), values[-number:]
        low, usual, high = (before[len(before) * part // 4] for part in (1, 2, 3))
        strays = min(sum(value <= high for value in after), sum(value >= low for value in after))
        if strays <= _STRAYS * number // _NEWEST and abs(median(after) - usual) > _OTHER * usual:
            return after
    return values


class StageReading(NamedTuple):
    """One span of the step, compared with what is usual.

    Attributes:
        key: the trainer's key; empty for what no stage explains.
        depth: 0 for a stage, 1 and more for what is inside one.
        lane: 0 is the sequential lane.
        median_s: of the same span over the last steps, or None.
        color: number of the stage among the stages of the run.
        parts: where positions are measured: each stretch, (start, end) from the start of the step.
    """

    name: Label
    key: str
    depth: int
    kind: SpanKind
    lane: int
    start_s: float
    duration_s: float
    share: float
    median_s: float | None
    ms_per_token: float | None
    is_outside: bool
    color: int
    parts: tuple[tuple[float, float], ...] = ()

    @property
    def delta_s(self) -> float | None:
        return None if self.median_s is None else self.duration_s - self.median_s

    @property
    def is_risen(self) -> bool:
        """Well above what is usual, and enough of the step to matter."""
        if self.median_s is None or self.share <= 0:
            return False
        step_s = self.duration_s / self.share
        return self.duration_s > _RISE_FACTOR * self.median_s and self.duration_s - self.median_s > _RISE_SHARE * step_s

    @property
    def is_longer(self) -> bool:
        """Took longer than the step, beyond rounding: it did not run within it."""
        return not self.is_outside and self.share > OVERLAP

    @property
    def role(self) -> str:
        return "other" if self.kind is SpanKind.OTHER else f"stage-{self.color % 8}"


def share_text(share: float) -> str:
    """A stage's part of the step; more than all of it is said to be that, and no percentage of it."""
    return units.share(share) if share < _MOST_SHARE else f">{_MOST_SHARE}×"


class StripStep(NamedTuple):
    """One step of the strip: its time and what it was made of.

    `is_whole` is true where no stage is logged: its one part is the step itself.
    """

    step: int
    total_s: float
    parts: tuple[tuple[str, float], ...]
    is_whole: bool = False


class TimingView(NamedTuple):
    """The timing of one step.

    Attributes:
        median_s: of the last steps, or None while there are too few.
        is_assumed: positions follow from the order, they are not logged.
        stream: whose step it is, where another stream of the run measures; empty for the run's own.
        is_overlapping: stages run beside each other; shares do not add up.
        strip: the last steps, oldest first; the last one is this step.
        is_older: the newest step has no timing; this is an earlier one.
    """

    step: int
    total_s: float
    median_s: float | None
    stages: tuple[StageReading, ...]
    is_assumed: bool
    is_overlapping: bool
    is_async: bool
    strip: tuple[StripStep, ...]
    colors: Mapping[str, int] = MappingProxyType({})
    is_older: bool = False
    is_measured: bool = False
    stream: Label = Label("", "")

    @property
    def pace_s(self) -> float:
        return median(self.paced)

    @property
    def paced(self) -> Sequence[float]:
        return at_present_pace([step.total_s for step in self.strip[-PACE_STEPS:]])

    @property
    def top(self) -> tuple[StageReading, ...]:
        return tuple(stage for stage in self.stages if stage.depth == 0 and not stage.is_outside)

    @property
    def largest(self) -> StageReading | None:
        """The stage that takes most of the step; not what is unexplained."""
        named = [stage for stage in self.top if stage.kind is not SpanKind.OTHER]
        return max(named, key=lambda stage: stage.duration_s, default=None)

    @property
    def longer(self) -> StageReading | None:
        largest = self.largest
        return largest if largest is not None and largest.is_longer else None

    @property
    def most_grown(self) -> StageReading | None:
        """The stage that took the most time beyond what is usual."""
        grown = [stage for stage in self.top if (stage.delta_s or 0.0) > 0]
        return max(grown, key=lambda stage: stage.delta_s or 0.0, default=None)


def build_timing(
    snapshot: Snapshot,
    row: Mapping[str, float] | None = None,
    count: int = HISTORY_STEPS,
    inner: int | None = None,
) -> TimingView | None:
    """The timing of a step, compared with the steps before it.

    Args:
        row: the row of that step, where memory has downsampled it and the caller has read it again.
        inner: of the durations that no stage claims, only so many of the longest are there: a trainer may log hundreds,
            and a page may show a few; None is all.

    Returns:
        None if the trainer logs no timing, or not on any step still held.
    """
    measured = snapshot.measured
    at = measured.at_step
    history = measured.timing.history(count, inner)
    is_measured = bool(history) and history[-1].step == at and measured.part.spans is not None
    if not is_measured and (row or not history or history[-1].step != at):
        exact = measured.timing.exact(row, inner)
        if exact is not None:
            history = [timing for timing in history if timing.step < exact.step] + [exact]
    if not history:
        return None
    timing = history[-1]
    known = [_known(one) for one in history]
    colors = _colors(known)
    medians = _medians(measured.stream, known)
    strip = tuple(one.strip for one in known)
    totals = [one.total_s for one in history]
    return TimingView(
        step=timing.step,
        total_s=timing.total_s,
        median_s=median(totals) if len(totals) >= _MIN_FOR_MEDIAN else None,
        stages=tuple(_stage(*place, timing.total_s, medians, colors) for place in _flat(timing)),
        is_assumed=any(not span.is_start_logged for span in timing.spans if span.kind is not SpanKind.OTHER),
        is_overlapping=timing.is_overlapping,
        is_async=measured.identity is not None and measured.identity.traits.is_async,
        strip=strip,
        colors=colors,
        is_older=timing.step != measured.step,
        is_measured=any(span.parts for span in timing.spans),
        stream=Label.of(measured.role),
    )


def _flat(timing: StepTiming) -> list[tuple[Span, Span, int, bool]]:
    """Every span with its top-level span and its depth, parents first; what is between steps comes last."""
    found: list[tuple[Span, Span, int, bool]] = []

    def walk(top: Span, span: Span, depth: int, is_outside: bool) -> None:
        found.append((span, top, depth, is_outside))
        for child in span.children:
            walk(top, child, depth + 1, is_outside)

    for span in timing.spans:
        walk(span, span, 0, False)
    for span in timing.outside:
        walk(span, span, 0, True)
    return found


def _span_id(span: Span) -> str:
    return span.key or (OTHER if span.kind is SpanKind.OTHER else span.name)


def _medians(stream: Stream, history: Sequence[_Known]) -> dict[str, float]:
    """Median duration of each span of the newest step over the steps that have it, by `_span_id`.

    A span that is only now and then there, such as a checkpoint, is compared with itself, not with its absence.
    """
    each = [known.durations for known in history]
    unclaimed = {
        span.key
        for span, top, depth, _ in _flat(history[-1].timing)
        if depth and top.kind is SpanKind.OTHER and not span.is_start_logged
    }
    held = stream.steps()
    first = bisect_left(held, history[0].timing.step)
    times = None if len(held) - first == len(history) else {known.timing.step for known in history}
    medians: dict[str, float] = {}
    for name in each[-1]:
        values = _logged(stream, name, held, first, times) if name in unclaimed else _column(each, name)
        if len(values) >= _MIN_FOR_MEDIAN:
            medians[name] = median(values)
    return medians


def _column(each: Sequence[Mapping[str, float]], name: str) -> list[float]:
    try:
        return list(map(itemgetter(name), each))
    except KeyError:
        return [durations[name] for durations in each if name in durations]


def _logged(stream: Stream, key: str, held: Sequence[int], first: int, only: Set[int] | None) -> list[float]:
    """A duration on the steps from the `first` of those `held`, from its column; `only` of these steps, if given.

    The older trees leave out what no stage claims.
    """
    series = stream.series(key, last=len(held) - first)
    if only is None:
        total = sum(series.values)
        if total == total and min(series.values, default=0.0) >= 0.0:
            return list(series.values)
        return [value for value in series.values if value >= 0.0]
    return [value for step, value in zip(series.steps, series.values, strict=True) if value >= 0.0 and step in only]


class _Known(NamedTuple):
    """What every paint asks of a tree, worked out once: trees do not change.

    Attributes:
        timing: the tree; held, so that its `id` stays its own.
        names: of the stages of the step, in the order of execution.
    """

    timing: StepTiming
    durations: Mapping[str, float]
    names: tuple[str, ...]
    strip: StripStep


_MAX_KNOWN = 5 * HISTORY_STEPS
_KNOWN: dict[int, _Known] = {}


def _known(timing: StepTiming) -> _Known:
    known = _KNOWN.get(id(timing))
    if known is None:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        durations = {_span_id(span): span.duration_s for span, _, _, _ in _flat(timing)}
        names = tuple(span.name if span.kind is not SpanKind.OTHER else "" for span in timing.spans)
        known = _KNOWN[id(timing)] = _Known(timing, durations, names, _strip_step(timing))
    return known


def _colors(history: Sequence[_Known]) -> dict[str, int]:
    times: dict[str, int] = {}
    order: dict[str, float] = {}
    # Steps run the same stages, mostly: those that do are counted together.
    for names, count in Counter(known.names for known in history).items():
        for at, name in enumerate(names):
            if name:
                times[name] = times.get(name, 0) + count
                order.setdefault(name, at)
    often = len(history) / 2
    ranked = sorted(order, key=lambda name: (times[name] < often, order[name], name))
    return {name: i for i, name in enumerate(ranked)}


def _stage(
    span: Span,
    top: Span,
    depth: int,
    is_outside: bool,
    total_s: float,
    medians: Mapping[str, float],
    colors: Mapping[str, int],
) -> StageReading:
    color_of_top = _NO_COLOR if is_outside else colors.get(top.name, _NO_COLOR)
    return StageReading(
        name=Label.of(span.name),
        key=span.key,
        depth=depth,
        kind=span.kind,
        lane=span.lane,
        start_s=span.start_s,
        duration_s=span.duration_s,
        share=span.duration_s / total_s if total_s > 0 else 0.0,
        median_s=medians.get(_span_id(span)),
        ms_per_token=span.ms_per_token,
        is_outside=is_outside,
        color=colors.get(span.name, color_of_top),
        parts=span.parts,
    )


def _strip_step(timing: StepTiming) -> StripStep:
    parts = [(span.name if span.kind is not SpanKind.OTHER else OTHER, span.duration_s) for span in timing.spans]
    only = timing.spans[0] if len(timing.spans) == 1 else None
    # A stage that fills the step has a key of its own beside that of the step.
    is_whole = only is not None and only.is_start_logged and not only.parts and not only.children
    return StripStep(timing.step, timing.total_s, tuple(parts), is_whole)


def outlier_of(strip: Sequence[StripStep]) -> tuple[StripStep, str] | None:
    """The slowest of some steps, if it stands out, and the stage that grew most against its median."""
    if len(strip) < _MIN_FOR_MEDIAN:
        return None
    usual = median(step.total_s for step in strip)
    worst = max(strip, key=lambda step: step.total_s)
    if not worst.total_s > _OUTLIER * usual or not math.isfinite(worst.total_s):
        return None
    parts = [dict(step.parts) for step in strip]
    typical = {name: median(one.get(name, 0.0) for one in parts) for name, _ in worst.parts}
    grown = max(worst.parts, key=lambda part: part[1] - typical[part[0]], default=("", 0.0))
    return worst, grown[0]
