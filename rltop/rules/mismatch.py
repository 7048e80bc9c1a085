"""Training against inference: do both give the sampled text the same probability?

The earliest warning of a collapse there is, and the trend matters more than
single spikes. Largest values are ignored: one token near 1 is ordinary.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Level
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.detectors import Above
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, About, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.persistence import BlockTrend
from rltop.stats.rolling import Ema, Frozen, Window
from rltop.units import number

_MEDIAN_OF = 5
_FIRST_RECORDS = 2
_DISTANCES = ("off_policy_kl", "rollout_logp_diff_mean", "rollout_prob_diff_mean")


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
    """M2: the disagreement climbs steadily: the KL, else the mean difference of log-probabilities."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.trend = BlockTrend(block=5, count=10)
        self.metric = ""

    def read(self, now: Moment) -> Reading | None:
        """Speaks once per block of five records."""
        values = now.values
        if not self.metric:
            self.metric = next((name for name in _DISTANCES if name in values), "")
        value = values.get(self.metric)
        if value is None:
            return None
        if not self.trend.push(abs(value)) or not self.trend.is_full:
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


class ProbabilityError(Judge):
    """M5: mean factor between the probabilities of sampler and trainer.

    A single spike that comes back is acceptable, the average is what counts.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.average = Ema(10)

    def read(self, now: Moment) -> Reading | None:
        """Average of ten against the lines; a lone spike is information."""
        value = now.values.get("mult_prob_error")
        if value is None:
            return None
        limits = self.limits
        usual = self.average.value
        # One infinite-looking record must not hold the average up for the rest of the run.
        average = self.average.push(min(value, usual + limits["reach"]) if self.average.count else value)
        warn = 1.0 + (limits["warn"] - 1.0) * (RELEASE if self.is_firing else 1.0)
        if self.average.count >= _MEDIAN_OF and average > warn:
            is_far = average > limits["crit"]
            return Reading(CRIT if is_far else WARN, average, usual, limits["crit" if is_far else "warn"])
        return Reading(INFO, value, usual, limits["warn"]) if value > limits["warn"] else QUIET

    def headline(self, reading: Reading) -> str:
        """The factor."""
        how = "in one record" if reading.level is INFO else "on average"
        return f"token probabilities of sampler and trainer differ by a factor of {number(reading.value)} {how}"


class FirstUpdate(Judge):
    """M9: the policy differs from itself before it has been trained.

    Only where the first rows of a run are seen: a resumed policy has every right
    to be away from its reference, and an asynchronous one from its sampler.
    """

    def read(self, now: Moment) -> Reading | None:
        """The first two records, and both must show it."""
        if now.record > _FIRST_RECORDS:
            return None
        if now.observation.step > _FIRST_RECORDS or now.observation.segment:
            return None
        reference = now.values.get("kl_ref")
        if reference is not None and not now.traits.kl_is_sequence_sum and abs(reference) > self.limits["reference"]:
            level = WARN if abs(reference) > self.limits["warn"] else INFO
            return Reading(level, reference, 0.0, self.limits["reference"], words=("reference",))
        step = now.values.get("kl_old")
        if step is not None and not now.traits.is_async and abs(step) > self.limits["step"]:
            return Reading(INFO, step, 0.0, self.limits["step"], words=("sampler",))
        return QUIET if reference is not None or step is not None else None

    def about(self, reading: Reading) -> About:
        """The distance that should be 0."""
        return About("kl_ref" if reading.words[0] == "reference" else "kl_old")

    def headline(self, reading: Reading) -> str:
        """How far, and from what."""
        return (
            f"first updates are already {number(reading.value)} nats per token away from the {reading.words[0]}: "
            "log-probabilities are computed differently"
        )


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


CAUSES = (
    "weights not synchronised, or only in part",
    "sampling parameters that falsify log-probabilities (temperature, top-p)",
    "an inference kernel that computes something else",
    "expert routing that differs",
    "low precision",
    "stale rollouts",
)
NEXT = ("grad_norm", "staleness_mean", "time_weight_sync", "entropy", "clip_frac", "reward_mean")
SLOW = {level: Patience(5, 10) for level in (INFO, WARN)} | {CRIT: Patience(3, 5)}

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
        patience=SLOW,
        applies=applicability.has_rollouts,
        why="The policy is trained on text that, by its own probabilities, another model wrote.",
        causes=CAUSES,
        next=NEXT,
        sources="tinker-cookbook hyperparams (0.01), prime-rl docs (0.015), NeMo-RL docs (1e-3 ideal), Liu & Li 2025.",
    ),
    RuleSpec(
        id="M2",
        title="mismatch growing",
        family="mismatch",
        group=Group.LEARNING,
        metrics=_DISTANCES,
        judge=MismatchTrend,
        condition="Medians of five records rise monotonically (Kendall's tau above `monotony`) by more than "
        "`warn`× over 50 records, to above `floor`.",
        limits={"warn": 2.0, "floor": 0.003, "monotony": 0.55},
        warm_up=50,
        applies=applicability.has_rollouts,
        why="A climb of the disagreement is the earliest sign of an off-policy collapse.",
        causes=CAUSES,
        next=NEXT,
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
        patience=SLOW,
        applies=applicability.has_rollouts,
        why="Differences of more than a hundredth on average are a fault, not rounding.",
        causes=CAUSES,
        next=NEXT,
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
        patience=SLOW,
        applies=applicability.has_rollouts,
        why="Probabilities that do not even correlate belong to different inputs.",
        causes=CAUSES,
        next=NEXT,
        sources="veRL issue 4162 (temperature other than 1 falsifies it); verl-omni issue 254 (0.13 was "
        "misaligned input).",
    ),
    RuleSpec(
        id="M5",
        title="probability error",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("mult_prob_error",),
        judge=ProbabilityError,
        condition="Average of ten records above `warn`, 3 of 5 records: WARN; above `crit`: CRIT. One record above "
        "`warn`: INFO. A record counts for `reach` above the average at most.",
        limits={"warn": 1.05, "crit": 1.2, "reach": 0.2},
        patience={WARN: Patience(3, 5), CRIT: Patience(3, 5), INFO: Patience(1, 1)},
        warm_up=_MEDIAN_OF,
        applies=applicability.has_rollouts,
        why="Probabilities that are off by more than a few hundredths come from different inputs or weights.",
        causes=CAUSES,
        next=NEXT,
        sources="NeMo-RL docs/guides/grpo.md (1 to 2 % is drift) and dtensor-tp-accuracy.md (1.05).",
    ),
    RuleSpec(
        id="M9",
        title="first update",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("kl_ref", "kl_old"),
        judge=FirstUpdate,
        condition="Both of the first two records of a run that starts at step 0 to 2: KL to the reference per token "
        "above `reference`, or step KL above `step` (not in asynchronous training): INFO; the former above `warn`: "
        "WARN.",
        limits={"reference": 0.05, "step": 0.01, "warn": 0.3},
        patience={WARN: Patience(2, 2), INFO: Patience(2, 2)},
        applies=applicability.has_rollouts,
        why="Policy, sampler and reference are the same weights then: a difference is a fault in how they are read.",
        causes=(
            "a reference or sampler loaded from another checkpoint",
            "dropout left on",
            "log-probabilities recomputed in another precision or with another temperature",
        ),
        next=("off_policy_kl", "rollout_prob_diff_mean", "ratio_mean", "lr"),
        sources="slime asserts a step KL below 1e-8 on the first update; TRL PPO docs.",
    ),
)
