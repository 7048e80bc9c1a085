"""Rank stragglers: does one rank persistently hold up the others?

A collective waits for its slowest rank, so one slow rank costs its delay on every
step. Single slow steps are ordinary and move from rank to rank; what counts is the
same rank in the same stage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, RuleSpec
from rltop.stats.ranks import Lag, compare
from rltop.units import duration, percent

_WANTED, _OF = 5, 10
_MASK = (1 << _OF) - 1


class RankStraggler(Detector):
    """P15: the same rank behind the median of its group in the same stage.

    Counts n of m itself, for each rank and stage that was recently behind.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.behind: dict[tuple[str, str], int] = {}
        self.newest: deque[tuple[int, int]] = deque(maxlen=_OF)
        self.since: tuple[int, int] | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """The rank that is furthest behind of those that have been for 5 of 10 steps."""
        times = context.observation.ranks
        if not times:
            return None
        self.newest.append((context.observation.record, context.observation.step))
        lags = {(lag.rank, lag.stage): lag for lag in compare(times)}
        is_behind = {place for place, lag in lags.items() if lag.behind_s > self._line(lag)}
        for place in is_behind | self.behind.keys():
            self.behind[place] = (self.behind.get(place, 0) << 1 | (place in is_behind)) & _MASK
        self.behind = {place: bits for place, bits in self.behind.items() if bits}
        lasting = [
            lags[place] for place, bits in self.behind.items() if place in is_behind and bits.bit_count() >= _WANTED
        ]
        if not lasting:
            return QUIET
        worst = max(lasting, key=lambda lag: (lag.behind_s, lag.stage, lag.rank))
        self.since = self.newest[-self.behind[worst.rank, worst.stage].bit_length()]
        extra = (worst.seconds, float(worst.ranks), worst.step_s)
        return Finding(WARN, worst.behind_s, worst.usual_s, self._line(worst), extra, (worst.rank, worst.stage))

    def began(self) -> tuple[int, int] | None:
        """The first of the steps in which the rank was behind."""
        return self.since

    def _line(self, lag: Lag) -> float:
        """Seconds behind from which a rank is a straggler: each of three reasons must hold."""
        thresholds = self.thresholds
        line = max(
            thresholds["rise"] * lag.usual_s, thresholds["sigmas"] * lag.sigma_s, thresholds["share"] * lag.step_s
        )
        return line * (RELEASE if self.is_firing else 1.0)

    def headline(self, finding: Finding) -> str:
        """Which rank, which stage, how far behind."""
        rank, stage = finding.words
        seconds, ranks, step_s = finding.extra
        usual = finding.baseline or 0.0
        others = "the other rank" if ranks == 2 else f"the other {ranks - 1:.0f} ranks"
        part = f"; {percent(finding.value / step_s)} of step time" if step_s > 0.0 else ""
        return (
            f"{rank} {duration(finding.value)} behind {others} in {stage}: {duration(seconds)} "
            f"vs median {duration(usual)}{part}"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Delay, its time, median, threshold."""
        return (
            Evidence("behind", finding.value, Unit.SECONDS),
            Evidence("slowest rank", finding.extra[0], Unit.SECONDS),
            Evidence("median", finding.baseline or 0.0, Unit.SECONDS),
            Evidence("ranks", finding.extra[1], Unit.COUNT),
            Evidence("threshold", finding.threshold or 0.0, Unit.SECONDS),
        )


RULES = (
    RuleSpec(
        id="P15",
        title="rank straggler",
        family="straggler",
        group=Group.SYSTEM,
        metrics=(),
        detector=RankStraggler,
        condition="The same rank behind the median of its worker group in the same stage by more than `rise` of that "
        "median, `sigmas` robust standard deviations of the ranks, and `share` of the group's step time, in 5 of "
        "10 steps: WARN. Only where each rank writes its own stream.",
        thresholds={"rise": 0.2, "sigmas": 4.0, "share": 0.05},
        clear_after=10,
        runs_always=True,
        needs_ranks=True,
        why="A collective waits for its slowest rank: all other ranks idle for its delay, on every step.",
        causes=(
            "a throttled, shared or failing GPU",
            "a slow node: disk, network, processor",
            "uneven work: longer sequences, heavier environments",
        ),
        next=("time_step", "seqlen_balanced_max", "time_gen_sample_max", "mfu"),
        sources="Thresholds are judgement: 20 % slower is visible, 5 % of the step is worth fixing; median and median "
        "absolute deviation as in Rousseeuw & Croux 1993.",
    ),
)
