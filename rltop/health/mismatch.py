"""Training against inference: do both give the sampled text the same probability?

The earliest warning of a collapse there is, and the trend matters more than
single spikes. Largest values are ignored: one token near 1 is ordinary.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.derive.detectors import BlockTrend
from rltop.derive.rolling import Frozen, Window
from rltop.health import scope
from rltop.health.judges import Above
from rltop.health.moment import Moment
from rltop.health.rule import CRIT, INFO, QUIET, RELEASE, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.model import Evidence, Level, Unit
from rltop.units import number

_MEDIAN_OF = 5


class MismatchKl(Judge):
    """M1: KL between the sampler's and the trainer's log-probabilities.

    Estimates may be signed: the median of five counts, in size. A run that has
    a higher level from the start (mixture of experts, low precision) is judged
    against three times that level.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(_MEDIAN_OF)
        self.small = 0
        self.start = Frozen()

    def read(self, now: Moment) -> Reading | None:
        """Absolute lines, raised by what is ordinary for this run."""
        value = now.values.get("off_policy_kl")
        if value is None:
            return None
        window, start, limits = self.window, self.start, self.limits
        window.push(value)
        if not start.is_final:
            start.push(abs(value))
        self.small = self.small + 1 if abs(value) <= limits["warn"] * RELEASE else 0
        if self.small > _MEDIAN_OF // 2 or window.count < _MEDIAN_OF:
            return QUIET
        return self._against_start(abs(window.median), start.value)

    def _against_start(self, size: float, base: float | None) -> Reading:
        limits = self.limits
        if size > limits["absolute"]:
            return Reading(CRIT, size, base, limits["absolute"])
        ordinary = limits["rise"] * base if base is not None else limits["absolute"]
        warn = max(limits["warn"], ordinary) * (RELEASE if self.is_firing else 1.0)
        crit = max(limits["crit"], ordinary)
        if size > crit:
            return Reading(CRIT, size, base, crit)
        if size > warn:
            return Reading(WARN, size, base, warn)
        return Reading(INFO, size, base, limits["warn"]) if size > limits["warn"] else QUIET

    def headline(self, reading: Reading) -> str:
        """Level and ordinary level."""
        start = f", {number(reading.baseline)} at the start" if reading.baseline is not None else ""
        return f"sampler and trainer disagree by {number(reading.value)} nats per token{start}"


class MismatchTrend(Judge):
    """M2: the disagreement climbs steadily."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.trend = BlockTrend(block=5, count=10)

    def read(self, now: Moment) -> Reading | None:
        """Speaks once per block of five records."""
        value = now.values.get("off_policy_kl")
        if value is None or not self.trend.push(abs(value)) or not self.trend.is_full:
            return None
        trend = self.trend
        if trend.growth < self.limits["warn"] or trend.monotony < self.limits["monotony"]:
            return QUIET
        if trend.medians[-1] < self.limits["floor"]:
            return QUIET
        return Reading(WARN, trend.medians[-1], trend.medians[0], None, (trend.growth,))

    def headline(self, reading: Reading) -> str:
        """How much in how long."""
        return f"disagreement of sampler and trainer has grown {number(reading.extra[0])}× in 50 records"


class WeightsOffOne(Judge):
    """M6: mean importance weight of the correction between sampler and trainer."""

    def read(self, now: Moment) -> Reading | None:
        """Band around 1."""
        value = now.values.get("is_ratio_mean")
        if value is None:
            return None
        limits = self.limits
        if 1.0 - limits["warn"] <= value <= 1.0 + limits["warn"]:
            return QUIET
        level = CRIT if value > limits["crit"] or value < 1.0 / limits["crit"] else WARN
        return Reading(level, value, 1.0, 1.0 + (limits["warn"] if value > 1.0 else -limits["warn"]))

    def headline(self, reading: Reading) -> str:
        """The weight."""
        return f"mean importance weight {number(reading.value)}: sampler and trainer disagree"


class PearsonLow(Judge):
    """M4: correlation of the probabilities of sampler and trainer.

    Says nothing where entropy is next to nothing: all probabilities are 1 then.
    """

    def read(self, now: Moment) -> Reading | None:
        """Below the lines."""
        value = now.values.get("rollout_prob_corr")
        if value is None or now.values.get("entropy", 1.0) < self.limits["entropy"]:
            return None
        if value >= self.limits["warn"]:
            return QUIET
        level: Level = CRIT if value < self.limits["crit"] else WARN
        return Reading(level, value, None, self.limits["crit" if level is CRIT else "warn"])

    def headline(self, reading: Reading) -> str:
        """The correlation."""
        return f"probabilities of sampler and trainer correlate at {number(reading.value)} only"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Correlation and line."""
        return (
            Evidence("rollout_prob_corr", reading.value),
            Evidence("threshold", reading.threshold or 0.0),
        )


_CAUSES = (
    "weights not synchronised, or only in part",
    "sampling parameters that falsify log-probabilities (temperature, top-p)",
    "an inference kernel that computes something else",
    "expert routing that differs",
    "low precision",
    "stale rollouts",
)
_NEXT = ("grad_norm", "staleness_mean", "time_weight_sync", "entropy", "clip_frac", "reward_mean")
_SLOW = {level: Patience(5, 10) for level in (INFO, WARN)} | {CRIT: Patience(3, 5)}

RULES = (
    RuleSpec(
        id="M1",
        title="mismatch",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("off_policy_kl",),
        judge=MismatchKl,
        condition="Median of five above `warn` and above `rise`× the run's start, 5 of 10 records: WARN; above "
        "`crit` likewise, 3 of 5: CRIT. Above `absolute`: CRIT without asking for the start. High from the "
        "start: INFO.",
        limits={"warn": 0.01, "crit": 0.1, "rise": 3.0, "absolute": 1.0},
        patience=_SLOW,
        applies=scope.has_rollouts,
        why="The policy is trained on text that, by its own probabilities, another model wrote.",
        causes=_CAUSES,
        next=_NEXT,
        sources="tinker-cookbook hyperparams (0.01), prime-rl docs (0.015), NeMo-RL docs (1e-3 ideal), Liu & Li 2025.",
    ),
    RuleSpec(
        id="M2",
        title="mismatch growing",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("off_policy_kl",),
        judge=MismatchTrend,
        condition="Medians of five records rise monotonically (Kendall's tau above `monotony`) by more than "
        "`warn`× over 50 records, to above `floor`.",
        limits={"warn": 2.0, "floor": 0.003, "monotony": 0.55},
        warm_up=50,
        applies=scope.has_rollouts,
        why="A climb of the disagreement is the earliest sign of an off-policy collapse.",
        causes=_CAUSES,
        next=_NEXT,
        sources="NeMo-RL docs: spikes that return are acceptable, an upward average is not; open-instruct issue 1473.",
    ),
    RuleSpec(
        id="M3",
        title="probability gap",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_prob_diff_mean",),
        judge=lambda limits: Above(
            limits,
            metric="rollout_prob_diff_mean",
            text="token probabilities of sampler and trainer differ by {value} on average, line {line}",
        ),
        condition="Above `info` or `warn` in 5 of 10 records, above `crit` in 3 of 5.",
        limits={"info": 0.005, "warn": 0.01, "crit": 0.05},
        patience=_SLOW,
        applies=scope.has_rollouts,
        why="Differences of more than a hundredth on average are a fault, not rounding.",
        causes=_CAUSES,
        next=_NEXT,
        sources="veRL FAQ: below 0.005 normal, above 0.01 a bug.",
    ),
    RuleSpec(
        id="M4",
        title="probability correlation",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_prob_corr",),
        judge=PearsonLow,
        condition="Below `warn` in 5 of 10 records: WARN; below `crit` in 3 of 5: CRIT; silent below `entropy` nats.",
        limits={"warn": 0.98, "crit": 0.9, "entropy": 0.05},
        patience=_SLOW,
        applies=scope.has_rollouts,
        why="Probabilities that do not even correlate belong to different inputs.",
        causes=_CAUSES,
        next=_NEXT,
        sources="veRL issue 4162 (temperature other than 1 falsifies it); verl-omni issue 254 (0.13 was "
        "misaligned input).",
    ),
    RuleSpec(
        id="M6",
        title="importance weights",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_ratio_mean",),
        judge=WeightsOffOne,
        condition="Farther than `warn` from 1 in 5 of 10 records: WARN; beyond a factor of `crit` in 3 of 5: CRIT.",
        limits={"warn": 0.1, "crit": 2.0},
        patience=_SLOW,
        applies=scope.has_rollouts,
        why="Weights that are not 1 on average mean that the correction carries the training.",
        causes=_CAUSES,
        next=_NEXT,
        sources="veRL docs/algo/rollout_corr.md (0.5 to 2); AReaL algo_perf (about 1).",
    ),
    RuleSpec(
        id="M7",
        title="masked rollouts",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_masked_frac",),
        judge=lambda limits: Above(
            limits,
            metric="rollout_masked_frac",
            text="{value} of the rollout is rejected as too far off policy, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Above `warn` in 5 of 10 records.",
        limits={"warn": 0.3},
        patience=_SLOW,
        applies=scope.has_rollouts,
        why="What is rejected was generated for nothing, and what remains is biased.",
        causes=_CAUSES,
        next=_NEXT,
        sources="judgement.",
    ),
)
