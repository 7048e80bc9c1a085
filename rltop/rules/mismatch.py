"""Rollout/train mismatch: do sampler and trainer give a token the same probability?

The earliest warning of a collapse, and the trend matters more than single
spikes. Maxima are ignored: one token near 1 is ordinary. Trainers that correct
for the mismatch log importance weights: weights that leave 1, spread, or are
discarded mean that training depends on the correction.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Level, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import Above, Below
from rltop.rules.rule import (
    CRIT,
    INFO,
    QUIET,
    RELEASE,
    WARN,
    Detector,
    EvidenceNames,
    Finding,
    Group,
    NOfM,
    RuleSpec,
    Subject,
)
from rltop.stats.persistence import BlockTrend
from rltop.stats.rolling import Ema, Frozen, Window
from rltop.units import number

_MEDIAN_OF = 5
_FIRST_RECORDS = 2
_DISTANCES = ("off_policy_kl", "rollout_logp_diff_mean", "rollout_prob_diff_mean")


class MismatchKl(Detector):
    """M1: KL between the sampler's and the trainer's log-probabilities.

    Estimates may be signed: the absolute median of five counts. A run with a
    higher level from the start (mixture of experts, low precision) is judged
    against three times that level.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_MEDIAN_OF)
        self.small = 0
        self.start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """Absolute thresholds, raised by the run-start baseline."""
        value = context.values.get("off_policy_kl")
        if value is None:
            return None
        window, start, thresholds = self.window, self.start, self.thresholds
        window.push(value)
        start.push(abs(value))
        self.small = self.small + 1 if abs(value) <= thresholds["warn"] * RELEASE else 0
        if self.small > _MEDIAN_OF // 2 or window.count < _MEDIAN_OF:
            return QUIET
        return self._against_start(abs(window.median), start.value)

    def _against_start(self, size: float, base: float | None) -> Finding:
        thresholds = self.thresholds
        if size > thresholds["absolute"]:
            return Finding(CRIT, size, base, thresholds["absolute"])
        ordinary = thresholds["rise"] * base if base is not None else thresholds["absolute"]
        warn = max(thresholds["warn"], ordinary) * (RELEASE if self.is_firing else 1.0)
        crit = max(thresholds["crit"], ordinary)
        if size > crit:
            return Finding(CRIT, size, base, crit)
        if size > warn:
            return Finding(WARN, size, base, warn)
        return Finding(INFO, size, base, thresholds["warn"]) if size > thresholds["warn"] else QUIET

    def headline(self, finding: Finding) -> str:
        """Level and baseline."""
        start = f" ({number(finding.baseline)} at run start)" if finding.baseline is not None else ""
        return f"rollout/train mismatch {number(finding.value)} nats/token{start}"


class MismatchTrend(Detector):
    """M2: the mismatch rises steadily: the KL, else the mean log-probability difference."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.trend = BlockTrend(block=5, count=10)
        self.metric = ""

    def detect(self, context: RuleContext) -> Finding | None:
        """Gives a finding once per block of five records."""
        values = context.values
        if not self.metric:
            self.metric = next((name for name in _DISTANCES if name in values), "")
        value = values.get(self.metric)
        if value is None:
            return None
        if not self.trend.push(abs(value)) or not self.trend.is_full:
            return None
        trend = self.trend
        if trend.growth < self.thresholds["warn"] or trend.monotony < self.thresholds["monotony"]:
            return QUIET
        if trend.medians[-1] < self.thresholds["floor"]:
            return QUIET
        return Finding(WARN, trend.medians[-1], trend.medians[0], None, (trend.growth,))

    def headline(self, finding: Finding) -> str:
        """How much in how long."""
        return f"rollout/train mismatch {number(finding.extra[0])}× in 50 records"


class ProbabilityError(Detector):
    """M5: mean ratio between sampler and trainer token probabilities.

    A single spike that recovers is acceptable, the average is what counts.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.average = Ema(10)

    def detect(self, context: RuleContext) -> Finding | None:
        """Average of ten against the thresholds; a lone spike is INFO."""
        value = context.values.get("mult_prob_error")
        if value is None:
            return None
        thresholds = self.thresholds
        usual = self.average.value
        # One huge record must not dominate the average for the rest of the run.
        average = self.average.push(min(value, usual + thresholds["reach"]) if self.average.count else value)
        warn = 1.0 + (thresholds["warn"] - 1.0) * (RELEASE if self.is_firing else 1.0)
        if self.average.count >= _MEDIAN_OF and average > warn:
            is_far = average > thresholds["crit"]
            return Finding(CRIT if is_far else WARN, average, usual, thresholds["crit" if is_far else "warn"])
        return Finding(INFO, value, usual, thresholds["warn"]) if value > thresholds["warn"] else QUIET

    def headline(self, finding: Finding) -> str:
        """The factor."""
        how = "in one record" if finding.level is INFO else "on average"
        return f"sampler and trainer token probabilities differ by {number(finding.value)}× {how}"


class FirstUpdate(Detector):
    """M9: log-probabilities differ before the policy has been trained.

    Only where the first rows of a run are seen: a resumed policy may differ from
    its reference, and an asynchronous one from its sampler.
    """

    def detect(self, context: RuleContext) -> Finding | None:
        """The first two records, and both must show it."""
        if context.record > _FIRST_RECORDS:
            return None
        seen = context.observation
        if seen.step > _FIRST_RECORDS or (seen.segment and not seen.other_run):
            return None
        reference = context.values.get("kl_ref")
        if (
            reference is not None
            and not context.traits.kl_is_sequence_sum
            and abs(reference) > self.thresholds["reference"]
        ):
            # Under a generic name the KL may be a sum, or of another policy.
            is_bad = abs(reference) > self.thresholds["warn"] and not context.traits.is_generic
            level = WARN if is_bad else INFO
            unit = "nats" if context.traits.is_generic else "nats/token"
            return Finding(level, reference, None, self.thresholds["reference"], words=("reference", unit))
        step = context.values.get("kl_old")
        if not applicability.OF_ACTIONS.isdisjoint(context.values):
            # Classic loops log the mean over many updates of one rollout.
            step = None
        if step is not None and not context.traits.is_async and abs(step) > self.thresholds["step"]:
            return Finding(INFO, step, None, self.thresholds["step"], words=("sampler", "nats/token"))
        return QUIET if reference is not None or step is not None else None

    def subject(self, finding: Finding) -> Subject:
        """The distance that should be 0."""
        return Subject("kl_ref" if finding.words[0] == "reference" else "kl_old")

    def headline(self, finding: Finding) -> str:
        """How far, and from what."""
        return (
            f"{number(finding.value)} {finding.words[1]} from the {finding.words[0]} at the first update, expected 0: "
            "other weights, or log-probabilities computed differently"
        )


class PearsonLow(Detector):
    """M4: correlation of sampler and trainer token probabilities.

    Meaningless where entropy is near 0: all probabilities are 1 then.
    """

    def detect(self, context: RuleContext) -> Finding | None:
        """Below the thresholds."""
        value = context.values.get("rollout_prob_corr")
        if value is None or context.values.get("entropy", 1.0) < self.thresholds["entropy"]:
            return None
        if value >= self.thresholds["warn"]:
            return QUIET
        level: Level = CRIT if value < self.thresholds["crit"] else WARN
        return Finding(level, value, None, self.thresholds["crit" if level is CRIT else "warn"])

    def headline(self, finding: Finding) -> str:
        """The correlation."""
        return f"sampler/trainer probability correlation only {number(finding.value)}"


CAUSES = (
    "weights not synced, or only in part",
    "sampling parameters not applied to log-probabilities (temperature, top-p)",
    "different numerics in the inference kernels",
    "different expert routing",
    "low precision",
    "stale rollouts",
)
NEXT = ("grad_norm", "staleness_mean", "time_weight_sync", "entropy", "clip_frac", "reward_mean")
SLOW = {level: NOfM(5, 10) for level in (INFO, WARN)} | {CRIT: NOfM(3, 5)}


class WeightsOffOne(Detector):
    """M6: mean importance weight of the correction between sampler and trainer."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_MEDIAN_OF)

    def detect(self, context: RuleContext) -> Finding | None:
        """Band around 1, for the median of five: one large weight moves a mean."""
        value = context.values.get("is_ratio_mean")
        if value is None:
            return None
        thresholds = self.thresholds
        self.window.push(value)
        if self.window.count < _MEDIAN_OF:
            return QUIET
        value = self.window.median
        if 1.0 - thresholds["warn"] <= value <= 1.0 + thresholds["warn"]:
            return QUIET
        level = CRIT if value > thresholds["crit"] or value < 1.0 / thresholds["crit"] else WARN
        return Finding(level, value, 1.0, 1.0 + (thresholds["warn"] if value > 1.0 else -thresholds["warn"]))

    def headline(self, finding: Finding) -> str:
        """The weight."""
        return f"mean importance weight {number(finding.value)}, expected near 1"


RULES = (
    RuleSpec(
        id="M1",
        title="rollout/train mismatch",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("off_policy_kl",),
        detector=MismatchKl,
        condition="Median of five above `warn` and above `rise`× run start, 5 of 10 records: WARN; above "
        "`crit` likewise, 3 of 5: CRIT. Above `absolute`: CRIT whatever the baseline. High from run "
        "start: INFO.",
        thresholds={"warn": 0.01, "crit": 0.1, "rise": 3.0, "absolute": 1.0},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="By the trainer's probabilities the samples come from a different policy: training is off-policy.",
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
        detector=MismatchTrend,
        condition="Medians of five records rise monotonically (Kendall's tau above `monotony`) by more than "
        "`warn`× over 50 records, to above `floor`.",
        thresholds={"warn": 2.0, "floor": 0.003, "monotony": 0.55},
        warm_up=50,
        applies=applicability.has_rollouts,
        why="A rising mismatch is the earliest sign of an off-policy collapse.",
        causes=CAUSES,
        next=NEXT,
        sources="NeMo-RL docs: spikes that recover are acceptable, an upward average is not; open-instruct issue 1473.",
    ),
    RuleSpec(
        id="M3",
        title="probability gap",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_prob_diff_mean",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="rollout_prob_diff_mean",
            text="mean token-probability difference {value} between sampler and trainer (threshold {threshold})",
        ),
        condition="Above `info` or `warn` in 5 of 10 records, above `crit` in 3 of 5.",
        thresholds={"info": 0.005, "warn": 0.01, "crit": 0.05},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="A mean difference above 0.01 is a bug, not rounding.",
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
        detector=PearsonLow,
        condition="Below `warn` in 5 of 10 records: WARN; below `crit` in 3 of 5: CRIT; silent below `entropy` nats.",
        thresholds={"warn": 0.98, "crit": 0.9, "entropy": 0.05},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("rollout_prob_corr", ""),
        why="Uncorrelated probabilities come from different inputs.",
        causes=CAUSES,
        next=NEXT,
        sources="veRL issue 4162 (invalid at temperatures other than 1); verl-omni issue 254 (0.13 was "
        "misaligned input).",
    ),
    RuleSpec(
        id="M5",
        title="probability error",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("mult_prob_error",),
        detector=ProbabilityError,
        condition="Average of ten records above `warn`, 3 of 5 records: WARN; above `crit`: CRIT. One record above "
        "`warn`: INFO. A record counts for `reach` above the average at most.",
        thresholds={"warn": 1.05, "crit": 1.2, "reach": 0.2},
        n_of_m={WARN: NOfM(3, 5), CRIT: NOfM(3, 5), INFO: NOfM(1, 1)},
        warm_up=_MEDIAN_OF,
        applies=applicability.has_rollouts,
        why="Probabilities that differ by more than a few hundredths come from different inputs or weights.",
        causes=CAUSES,
        next=NEXT,
        sources="NeMo-RL docs/guides/grpo.md (1 to 2 % is drift) and dtensor-tp-accuracy.md (1.05).",
    ),
    RuleSpec(
        id="M9",
        title="mismatch at first update",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("kl_ref", "kl_old"),
        detector=FirstUpdate,
        condition="Both of the first two records of a run that starts at step 0 to 2, be it the second of a file: "
        "KL to the reference per token above `reference`, or step KL above `step` (not in asynchronous training, nor "
        "of actions): INFO; the former above `warn`: WARN (INFO under a generic name, which may be a sum).",
        thresholds={"reference": 0.05, "step": 0.01, "warn": 2.0},
        n_of_m={WARN: NOfM(2, 2), INFO: NOfM(2, 2)},
        applies=applicability.has_rollouts,
        why="Policy, sampler and reference have the same weights then: any difference is a bug in computing them.",
        causes=(
            "a reference or sampler loaded from another checkpoint",
            "dropout left on",
            "log-probabilities recomputed in another precision or with another temperature",
        ),
        next=("off_policy_kl", "rollout_prob_diff_mean", "ratio_mean", "lr"),
        sources="slime asserts a step KL below 1e-8 on the first update; TRL PPO docs.",
    ),
    RuleSpec(
        id="M6",
        title="importance weights",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_ratio_mean",),
        detector=WeightsOffOne,
        condition="Median of five farther than `warn` from 1 in 5 of 10 records: WARN; beyond a factor of `crit` in 3 "
        "of 5: CRIT.",
        thresholds={"warn": 0.1, "crit": 2.0},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="Weights that are not 1 on average mean that training depends on the correction.",
        causes=CAUSES,
        next=NEXT,
        sources="veRL docs/algo/rollout_corr.md (0.5 to 2); AReaL algo_perf (about 1).",
    ),
    RuleSpec(
        id="M6b",
        title="effective sample size",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_ess",),
        detector=lambda thresholds: Below(
            thresholds,
            metric="is_ess",
            text="effective sample size {value} of the batch after importance weights (threshold {threshold})",
            unit=Unit.FRACTION,
        ),
        condition="Below `warn` in 5 of 10 records: WARN; below `crit` in 3 of 5: CRIT.",
        thresholds={"warn": 0.5, "crit": 0.3},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="The update depends on a few tokens; the rest of the batch is wasted.",
        causes=CAUSES,
        next=("is_ratio_mean", "is_ratio_std", *NEXT),
        sources="veRL docs/algo/rollout_corr.md (0.5 to watch, 0.3 to stop).",
    ),
    RuleSpec(
        id="M6c",
        title="importance-weight spread",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_ratio_std",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="is_ratio_std",
            text="importance-weight std {value} (threshold {threshold}): few tokens dominate the update",
        ),
        condition="Above `warn` in 5 of 10 records.",
        thresholds={"warn": 1.0},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="When the spread exceeds the mean, the update direction is noise.",
        causes=CAUSES,
        next=("is_ess", "is_ratio_max", *NEXT),
        sources="veRL docs/algo/rollout_corr.md.",
    ),
    RuleSpec(
        id="M6d",
        title="chi-square",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_chi2",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="is_chi2",
            text="chi-square divergence sampler/trainer {value} per token (threshold {threshold})",
        ),
        condition="Above `crit` in 3 of 5 records.",
        thresholds={"crit": 1.0},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="Rare tokens with a large mismatch dominate the update.",
        causes=CAUSES,
        next=("is_ess", "off_policy_kl", *NEXT),
        sources="veRL docs/algo/rollout_corr.md.",
    ),
    RuleSpec(
        id="M7",
        title="masked tokens",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_masked_frac",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="rollout_masked_frac",
            text="{value} of tokens masked as too far off-policy (threshold {threshold})",
            unit=Unit.FRACTION,
        ),
        condition="Share of tokens above `warn` in 5 of 10 records.",
        thresholds={"warn": 0.1},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="Masked tokens are wasted compute, and the rest is biased.",
        causes=CAUSES,
        next=NEXT,
        sources="judgement.",
    ),
    RuleSpec(
        id="M7b",
        title="masked completions",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_masked_seq_frac",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="rollout_masked_seq_frac",
            text="{value} of completions masked as too far off-policy (threshold {threshold})",
            unit=Unit.FRACTION,
        ),
        condition="Share of completions above `warn` in 5 of 10 records.",
        thresholds={"warn": 0.3},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="Masked completions are wasted compute, and the rest is biased towards short ones.",
        causes=CAUSES,
        next=NEXT,
        sources="judgement.",
    ),
)
