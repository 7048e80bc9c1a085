"""Timing tree of a step from measured spans; seconds per rank and stage, and rank stragglers.

If a trainer logs when each stage began and ended, nothing is assumed: bars have their true position, gaps stay gaps,
and concurrent stages are side by side; only the newest steps are kept. Ranks are compared by seconds per stage, from
logged durations or from measured spans: ranks of one worker group, stage by stage, with robust statistics (medians and
median deviations) that a single slow rank does not move.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from rltop.model import Span, SpanKind, StepTiming, TimedSpan
from rltop.regex import regex
from rltop.stats.rolling import MAD_TO_SIGMA, least_mad_of, median_of
from rltop.structs import NamedTuple, Struct, field

MAX_STEPS = 256
"""Steps to keep: more than any page compares with."""
LEAST_STEPS = 8
MAX_HELD_PARTS = 1_000_000
"""Limit of intervals over all steps, about 150 MiB; beyond it the oldest steps are dropped, down to `LEAST_STEPS`."""
MAX_PARTS = 512
"""Maximum intervals per stage; beyond it the closest ones are merged."""
SEAM_S = 1e-4
"""Intervals closer than this are merged: the timing resolution of GPU events."""
LEADERS = ("runner", "driver", "trainer", "learner", "actor")
"""Roles with a first rank that defines the step, most trusted first: it waits for all the others."""
OTHER = "other"

Parts = tuple[tuple[float, float], ...]


class _SpannedStep(Struct, frozen=False):
    """Spans of one step by worker, and the timing tree built from them."""

    by_worker: dict[tuple[str, int], dict[str, list[tuple[float, float]]]] = field(default_factory=dict)
    keys: dict[tuple[str, str], str] = field(default_factory=dict)
    timing: StepTiming | None = None
    is_compact: bool = False

    @property
    def size(self) -> int:
        return sum(len(parts) for names in self.by_worker.values() for parts in names.values())


class SpanBook:
    """The measured spans of a run's newest steps."""

    def __init__(self, max_steps: int = MAX_STEPS) -> None:
        self.version = 0
        self._max_steps = max_steps
        self._steps: dict[int, _SpannedStep] = {}

    def add(self, spans: Iterable[TimedSpan]) -> None:
        """Add spans; beyond the maximum number of steps, the oldest are dropped."""
        for span in spans:
            step = self._steps.setdefault(span.step, _SpannedStep())
            step.timing, step.is_compact = None, False
            names = step.by_worker.setdefault((span.role, span.rank), {})
            names.setdefault(span.name, []).append((span.start_s, span.end_s))
            if span.key:
                step.keys[span.role, span.name] = span.key
            self.version += 1
        self._compact()

    def _compact(self) -> None:
        """Merge the intervals of all steps but the newest; drop the oldest steps beyond the limits."""
        newest = max(self._steps, default=0)
        for number, step in self._steps.items():
            if number < newest and not step.is_compact:
                step.is_compact = True
                for names in step.by_worker.values():
                    names.update({name: list(_joined(parts)) for name, parts in names.items()})
        held = {number: step.size for number, step in self._steps.items()}
        while len(held) > self._max_steps or (len(held) > LEAST_STEPS and sum(held.values()) > MAX_HELD_PARTS):
            oldest = min(held)
            del held[oldest], self._steps[oldest]

    @property
    def steps(self) -> Sequence[int]:
        return sorted(self._steps)

    def timing(self, step: int) -> StepTiming | None:
        """The timing tree of a step with true positions; None if the step is not kept.

        The step lasts from the first to the last moment of the leading worker. Its stages are on the first lane, unless
        they overlap. Concurrent work of other roles is on further lanes, clipped to the step; each role is represented
        by the rank that was busy longest.
        """
        held = self._steps.get(step)
        if held is None:
            return None
        if held.timing is None:
            held.timing = _Tree(held).timing(step)
        return held.timing

    def by_rank(self, step: int) -> Mapping[str, Mapping[int, Mapping[str, float]]]:
        """Seconds of each top-level stage: role → rank → stage → seconds; empty if the step is not kept."""
        held = self._steps.get(step)
        found: dict[str, dict[int, dict[str, float]]] = {}
        for (role, rank), names in ({} if held is None else held.by_worker).items():
            seconds = {name: _seconds(_joined(parts)) for name, parts in names.items() if "/" not in name}
            found.setdefault(role, {})[rank] = seconds
        return found


def _trust(role: str) -> int:
    name = role.lower().removesuffix("group")
    return LEADERS.index(name) if name in LEADERS else len(LEADERS)


class _Tree:
    def __init__(self, step: _SpannedStep) -> None:
        self._workers = step.by_worker
        self._keys = step.keys
        # The worker that defines the step: the lowest rank of the most trusted role.
        self._leader = min(step.by_worker, key=lambda worker: (_trust(worker[0]), worker[1], worker[0]))
        self._own = {name: _joined(parts) for name, parts in step.by_worker[self._leader].items()}
        self._origin = min(parts[0][0] for parts in self._own.values())
        self._end = max(parts[-1][1] for parts in self._own.values())

    def timing(self, step: int) -> StepTiming:
        total_s = self._end - self._origin
        whole = self._own.pop("step", None)
        spans = self._below("")
        if whole is not None and not spans:
            spans = (self._span("step", "step", whole, ()),)
        is_beside = _overlap(spans)
        if is_beside:
            spans = _in_lanes(spans)
        gaps = _gaps(_joined([part for span in spans for part in span.parts]), total_s)
        others = tuple(self._others(1 + max((span.lane for span in spans), default=0)))
        rest = (Span(OTHER, "", gaps[0][0], _seconds(gaps), SpanKind.OTHER, parts=gaps),) if gaps else ()
        return StepTiming(step, total_s, (*spans, *others, *rest), (), is_beside or bool(others))

    def _below(self, above: str) -> tuple[Span, ...]:
        """Spans named `above/…`, one level deep, by start time."""
        found = []
        for name in _children(self._own, above):
            inner = self._below(name)
            covered = [(start + self._origin, end + self._origin) for span in inner for start, end in span.parts]
            parts = self._own.get(name) or _joined(covered)
            found.append(self._span(name.removeprefix(f"{above}/") if above else name, name, parts, inner))
        return tuple(sorted(found, key=lambda span: span.start_s))

    def _span(self, shown: str, name: str, parts: Parts, inner: tuple[Span, ...]) -> Span:
        key = self._keys.get((self._leader[0], name), "")
        start_s, shifted = parts[0][0] - self._origin, _shifted(parts, self._origin)
        return Span(shown, key, start_s, _seconds(parts), is_start_logged=True, children=inner, parts=shifted)

    def _others(self, lane: int) -> Iterable[Span]:
        busiest: dict[str, tuple[float, dict[str, Parts]]] = {}
        for (role, _), names in self._workers.items():
            if role == self._leader[0]:
                continue
            clipped = {name: self._clipped(parts) for name, parts in names.items() if "/" not in name}
            stages = {name: parts for name, parts in clipped.items() if parts}
            busy = sum(map(_seconds, stages.values()))
            if stages and busy > busiest.get(role, (-1.0, {}))[0]:
                busiest[role] = (busy, stages)
        for role, (_, shown) in sorted(busiest.items()):
            for name, parts in sorted(shown.items(), key=lambda item: item[1][0]):
                yield Span(
                    f"{role} {name}", self._keys.get((role, name), ""), parts[0][0] - self._origin, _seconds(parts),
                    SpanKind.OVERLAPPING, lane, True, parts=_shifted(parts, self._origin),
                )  # fmt: skip
                lane += 1

    def _clipped(self, parts: Iterable[tuple[float, float]]) -> Parts:
        return tuple(
            (max(start, self._origin), min(end, self._end))
            for start, end in _joined(parts)
            if end > self._origin and start < self._end
        )


def _children(names: Iterable[str], above: str) -> list[str]:
    """The names directly below `above`; a parent without a timing of its own represents its children."""
    prefix = f"{above}/" if above else ""
    return list(
        dict.fromkeys(
            prefix + name[len(prefix) :].split("/", 1)[0] for name in names if name.startswith(prefix) and name != above
        )
    )


def _overlap(spans: Sequence[Span]) -> bool:
    total = sum(span.duration_s for span in spans)
    covered = _seconds(_joined([part for span in spans for part in span.parts]))
    return total - covered > max(SEAM_S, 0.01 * covered)


def _in_lanes(spans: Sequence[Span]) -> tuple[Span, ...]:
    """Place each stage on the first lane that is free for its duration."""
    lanes: list[Parts] = []
    found = []
    for span in spans:
        # The lane is free if the union with its intervals grows by the full duration of the span.
        free = (
            _seconds(_joined([*taken, *span.parts])) > _seconds(taken) + span.duration_s - SEAM_S for taken in lanes
        )
        lane = next((at for at, is_free in enumerate(free) if is_free), len(lanes))
        lanes[lane : lane + 1] = [_joined([*(lanes[lane] if lane < len(lanes) else ()), *span.parts])]
        found.append(span._replace(kind=SpanKind.OVERLAPPING, lane=lane))
    return tuple(found)


def _joined(parts: Iterable[tuple[float, float]]) -> Parts:
    """Sort intervals and merge those that touch or overlap; at most `MAX_PARTS`."""
    found: list[tuple[float, float]] = []
    for start, end in sorted(parts):
        if found and start <= found[-1][1] + SEAM_S:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    if len(found) > MAX_PARTS:
        gaps = sorted(found[i + 1][0] - found[i][1] for i in range(len(found) - 1))
        least = gaps[len(found) - MAX_PARTS - 1]
        kept = [found[0]]
        for start, end in found[1:]:
            if start - kept[-1][1] <= least:
                kept[-1] = (kept[-1][0], end)
            else:
                kept.append((start, end))
        found = kept
    return tuple(found)


def _seconds(parts: Iterable[tuple[float, float]]) -> float:
    return sum(end - start for start, end in parts)


def _gaps(covered: Parts, total_s: float) -> Parts:
    ends = [0.0, *(end for _, end in covered)]
    starts = [*(start for start, _ in covered), total_s]
    return tuple((end, start) for end, start in zip(ends, starts, strict=True) if start - end > SEAM_S)


def _shifted(parts: Parts, origin: float) -> Parts:
    return tuple((start - origin, end - origin) for start, end in parts)


RankTimes = Mapping[str, Mapping[str, float]]
"""Rank → stage → seconds, of one step."""
StageTimes = Mapping[tuple[str, str], Mapping[str, float]]
"""(group of ranks, stage) → rank → seconds, of one step."""

_NUMBER = regex(r"[\s:/._-]*(?:rank)?[\s:/._-]*\d+$", re.IGNORECASE)
_HELD_STEPS = 64
_HELD_CELLS = 200_000
_LEAST_STEPS = 8
SUMMED_STEPS = 16
"""Number of steps in a summary: enough for medians, few enough to show recent changes."""


@lru_cache(maxsize=4096)
def group_of(rank: str) -> str:
    """The worker group of a rank: its name without the number; ranks of one group do the same work."""
    return _NUMBER.sub("", rank)


class Lag(NamedTuple):
    """One rank behind the others in one stage of one step.

    Attributes:
        usual_s: the median over the ranks of its group; of two, the faster one.
        sigma_s: robust standard deviation over the ranks; 0 for two.
        step_s: total over all stages for the group's median rank.
    """

    rank: str
    stage: str
    seconds: float
    usual_s: float
    sigma_s: float
    step_s: float
    ranks: int

    @property
    def behind_s(self) -> float:
        return self.seconds - self.usual_s


def by_stage(times: RankTimes) -> StageTimes:
    columns: dict[tuple[str, str], dict[str, float]] = {}
    for rank, stages in times.items():
        group = group_of(rank)
        for stage, seconds in stages.items():
            columns.setdefault((group, stage), {})[rank] = seconds
    return columns


def compare(columns: StageTimes, least: Callable[[float, float, float], float] | None = None) -> list[Lag]:
    """Compare every rank with the ranks of its group, stage by stage; stages with a single rank are skipped.

    The baseline is the lower median, so that of two ranks the slower one is behind.

    Args:
        least: (median, spread, step time of the group) → seconds behind at which a rank counts; must not decrease with
            the spread; None: all count.
    """
    ordered = {place: sorted(column.values()) for place, column in columns.items() if column}
    usual = {place: values[(len(values) - 1) // 2] for place, values in ordered.items()}
    step_s: dict[str, float] = {}
    for (group, _), middle in usual.items():
        step_s[group] = step_s.get(group, 0.0) + middle
    found: list[Lag] = []
    for place, values in ordered.items():
        (group, stage), middle, count = place, usual[place], len(values)
        whole, furthest, sigma, line = step_s[group], values[-1] - middle, 0.0, -math.inf
        # Usually no rank is far behind, and a lower bound of the spread is enough to know.
        nearest = least_mad_of(values, middle) if count > 2 else 0.0
        if count < 2 or (least is not None and furthest <= least(middle, MAD_TO_SIGMA * nearest, whole)):
            continue
        if count > 2:
            sigma = MAD_TO_SIGMA * median_of(map(abs, map((-middle).__add__, values)))
        if least is not None and furthest <= (line := least(middle, sigma, whole)):
            continue
        found += [
            Lag(rank, stage, seconds, middle, sigma, whole, count)
            for rank, seconds in columns[place].items()
            if seconds - middle > line
        ]
    return found


class StageSummary(Struct):
    """One stage over the newest steps.

    Attributes:
        ranks: rank → its median seconds, slowest first.
        slowest: the rank with the largest median.
        behind_s: its median minus `usual_s`.
        often: fraction of the steps in which it was the slowest of all, 0 to 1.
        history: seconds it was behind, step by step, oldest first.
        step_s: total over all stages for the group's median rank.
    """

    group: str
    stage: str
    ranks: Mapping[str, float]
    usual_s: float
    slowest: str
    behind_s: float
    often: float
    history: tuple[float, ...]
    step_s: float

    @property
    def share(self) -> float:
        """How far behind, as a fraction of the group's step time."""
        return self.behind_s / self.step_s if self.step_s > 0.0 else 0.0


class RankHistory:
    """The newest steps of all ranks; bounded for any number of ranks.

    Attributes:
        keys: (rank, stage) → the trainer's key, if there is one.
        is_measured: from spans with start and end rather than from logged durations.
    """

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], str] = {}
        self.version = 0
        self.is_measured = False
        self._steps: deque[tuple[int, RankTimes]] = deque()

    def push(self, step: int, times: RankTimes) -> None:
        """Add the times of a step; a step that goes back clears the history."""
        if self._steps and step <= self._steps[-1][0]:
            self._steps.clear()
        self._steps.append((step, times))
        cells = sum(map(len, times.values()))
        while len(self._steps) > max(_LEAST_STEPS, min(_HELD_STEPS, _HELD_CELLS // max(1, cells))):
            self._steps.popleft()
        self.version += 1

    @property
    def last_step(self) -> int | None:
        return self._steps[-1][0] if self._steps else None

    @property
    def steps(self) -> tuple[int, ...]:
        return tuple(step for step, _ in self._steps)

    def summary(self, at: int | None = None) -> list[StageSummary]:
        """Every stage of every group over the newest steps up to `at` (at most 16), furthest behind first."""
        seconds: dict[tuple[str, str], dict[str, list[float]]] = {}
        slowest: dict[tuple[str, str], list[str]] = {}
        usual: dict[tuple[str, str], list[float]] = {}
        behind: dict[tuple[str, str], list[dict[str, float]]] = {}
        for times in [times for step, times in self._steps if at is None or step <= at][-SUMMED_STEPS:]:
            row: dict[tuple[str, str], dict[str, Lag]] = {}
            for lag in compare(by_stage(times)):
                row.setdefault((group_of(lag.rank), lag.stage), {})[lag.rank] = lag
            for place, by_rank in row.items():
                for rank, lag in by_rank.items():
                    seconds.setdefault(place, {}).setdefault(rank, []).append(lag.seconds)
                worst = max(by_rank.values(), key=lambda lag: lag.seconds)
                slowest.setdefault(place, []).append(worst.rank if worst.behind_s > 0.0 else "")
                usual.setdefault(place, []).append(worst.usual_s)
                behind.setdefault(place, []).append({rank: lag.behind_s for rank, lag in by_rank.items()})
        step_s: dict[str, float] = {}
        for (group, _), values in usual.items():
            step_s[group] = step_s.get(group, 0.0) + median_of(values)
        found = [
            _summary(place, ranks, median_of(usual[place]), slowest[place], behind[place], step_s[place[0]])
            for place, ranks in seconds.items()
        ]
        return sorted(found, key=lambda one: (-one.share, -one.behind_s, one.group, one.stage))


def measured_ranks(book: SpanBook) -> RankHistory | None:
    """Rank times of a run's newest steps from measured spans; None if no role has two ranks."""
    history = RankHistory()
    history.is_measured = True
    for step in book.steps[-SUMMED_STEPS:]:
        roles = book.by_rank(step)
        if any(len(ranks) > 1 for ranks in roles.values()):
            times = {f"{role} rank {rank}": stages for role, ranks in roles.items() for rank, stages in ranks.items()}
            history.push(step, times)
    return history if history.last_step is not None else None


def _summary(
    place: tuple[str, str],
    seconds: Mapping[str, list[float]],
    usual_s: float,
    slowest: list[str],
    behind: list[dict[str, float]],
    step_s: float,
) -> StageSummary:
    medians = {rank: median_of(values) for rank, values in seconds.items()}
    ordered = dict(sorted(medians.items(), key=lambda one: -one[1]))
    worst = next(iter(ordered))
    return StageSummary(
        group=place[0],
        stage=place[1],
        ranks=ordered,
        usual_s=usual_s,
        slowest=worst,
        behind_s=max(0.0, ordered[worst] - usual_s),
        often=sum(rank == worst for rank in slowest) / len(slowest),
        history=tuple(row[worst] for row in behind if worst in row),
        step_s=step_s,
    )
