"""Rank stragglers: seconds of each stage, rank against rank.

Takes `rank -> stage -> seconds` of one step, from logged durations or from measured spans alike. Owns what is compared
with what (ranks of one worker group, stage by stage) and the statistics, which one slow rank must not move: medians and
median deviations. Knows neither files nor rules.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from rltop.regex import regex
from rltop.stats.rolling import MAD_TO_SIGMA, median
from rltop.structs import NamedTuple, Struct

if TYPE_CHECKING:
    from rltop.stats.spans import SpanBook

RankTimes = Mapping[str, Mapping[str, float]]
"""Rank → stage → seconds, of one step."""
StageTimes = Mapping[tuple[str, str], Mapping[str, float]]
"""Group of ranks and stage → rank → seconds, of one step."""

_NUMBER = regex(r"[\s:/._-]*(?:rank)?[\s:/._-]*\d+$", re.IGNORECASE)
_HELD_STEPS = 64
_HELD_CELLS = 200_000
_LEAST_STEPS = 8
SUMMED_STEPS = 16
"""Steps behind a summary: enough for medians, few enough to show what has begun lately."""


@lru_cache(maxsize=4096)
def group_of(rank: str) -> str:
    """The worker group of a rank, by its name without its number; ranks of one group do the same work."""
    return _NUMBER.sub("", rank)


class Lag(NamedTuple):
    """One rank behind the others in one stage of one step.

    Attributes:
        usual_s: the median over the ranks of its group; of two, the faster one.
        sigma_s: spread over the other ranks, as a standard deviation.
        step_s: what the median rank of the group spends in all stages.
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
    """Every rank in every stage against the ranks of its group; stages of a single rank are left out.

    The baseline is the lower median, so that of two ranks the slower one is behind.

    Args:
        least: seconds behind from which a rank counts, by the median, the spread and the step of its group, and no
            less with a larger spread; None: all count.
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
        low = count // 4
        # The deviation of half of the values or more is no less: mostly no rank is far behind, and no more is needed.
        nearest = min(middle - values[low], values[low + count // 2] - middle) if count > 2 else 0.0
        if count < 2 or (least is not None and furthest <= least(middle, MAD_TO_SIGMA * nearest, whole)):
            continue
        if count > 2:
            sigma = MAD_TO_SIGMA * median(map(abs, map((-middle).__add__, values)))
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
        usual_s: median over the ranks.
        slowest: the rank that is slowest by its median.
        behind_s: its median minus `usual_s`.
        often: share of the steps in which it was the slowest of all, 0 to 1.
        last_s: what it took in the newest step that has it.
        history: by how many seconds it was behind, step by step, oldest first.
        step_s: what the median rank of the group spends in all stages.
    """

    group: str
    stage: str
    ranks: Mapping[str, float]
    usual_s: float
    slowest: str
    behind_s: float
    often: float
    last_s: float
    history: tuple[float, ...]
    step_s: float

    @property
    def share(self) -> float:
        """How far behind, as a part of what the group's step takes."""
        return self.behind_s / self.step_s if self.step_s > 0.0 else 0.0


class RankHistory:
    """The newest steps of all ranks; bounded, whatever their number.

    Attributes:
        keys: (rank, stage) → the trainer's key behind it, where there is one.
        is_measured: from spans with start and end rather than from logged durations.
    """

    def __init__(self) -> None:
        self.keys: dict[tuple[str, str], str] = {}
        self.version = 0
        self.is_measured = False
        self._steps: deque[tuple[int, RankTimes]] = deque()

    def push(self, step: int, times: RankTimes) -> None:
        """Take the times of a step in; a step that goes back begins anew."""
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
            step_s[group] = step_s.get(group, 0.0) + median(values)
        found = [
            _summary(place, ranks, median(usual[place]), slowest[place], behind[place], step_s[place[0]])
            for place, ranks in seconds.items()
        ]
        return sorted(found, key=lambda one: (-one.share, -one.behind_s, one.group, one.stage))


def measured_ranks(book: SpanBook) -> RankHistory | None:
    """The ranks of a run's newest steps by their true spans; None where no role has two of them."""
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
    medians = {rank: median(values) for rank, values in seconds.items()}
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
        last_s=seconds[worst][-1],
        history=tuple(row[worst] for row in behind if worst in row),
        step_s=step_s,
    )
