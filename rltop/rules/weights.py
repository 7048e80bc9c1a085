"""Correction weights: how much of the batch survives the disagreement of sampler and trainer.

Trainers that correct for the difference log how hard they had to: weights that
leave 1, that spread, or that are thrown away mean that the correction carries
the training.
"""

from __future__ import annotations

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import Above, Below
from rltop.rules.mismatch import CAUSES, NEXT, SLOW
from rltop.rules.rule import CRIT, QUIET, WARN, Detector, Finding, Group, RuleSpec
from rltop.units import number


class WeightsOffOne(Detector):
    """M6: mean importance weight of the correction between sampler and trainer."""

    def detect(self, context: RuleContext) -> Finding | None:
        """Band around 1."""
        value = context.values.get("is_ratio_mean")
        if value is None:
            return None
        thresholds = self.thresholds
        if 1.0 - thresholds["warn"] <= value <= 1.0 + thresholds["warn"]:
            return QUIET
        level = CRIT if value > thresholds["crit"] or value < 1.0 / thresholds["crit"] else WARN
        return Finding(level, value, 1.0, 1.0 + (thresholds["warn"] if value > 1.0 else -thresholds["warn"]))

    def headline(self, finding: Finding) -> str:
        """The weight."""
        return f"mean importance weight {number(finding.value)}: sampler and trainer disagree"


RULES = (
    RuleSpec(
        id="M6",
        title="importance weights",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_ratio_mean",),
        detector=WeightsOffOne,
        condition="Farther than `warn` from 1 in 5 of 10 records: WARN; beyond a factor of `crit` in 3 of 5: CRIT.",
        thresholds={"warn": 0.1, "crit": 2.0},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="Weights that are not 1 on average mean that the correction carries the training.",
        causes=CAUSES,
        next=NEXT,
        sources="veRL docs/algo/rollout_corr.md (0.5 to 2); AReaL algo_perf (about 1).",
    ),
    RuleSpec(
        id="M6b",
        title="effective samples",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_ess",),
        detector=lambda thresholds: Below(
            thresholds,
            metric="is_ess",
            text="only {value} of the batch still counts after correction weights, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Below `warn` in 5 of 10 records: WARN; below `crit` in 3 of 5: CRIT.",
        thresholds={"warn": 0.5, "crit": 0.3},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="The update rests on a few tokens; the rest was generated for nothing.",
        causes=CAUSES,
        next=("is_ratio_mean", "is_ratio_std", *NEXT),
        sources="veRL docs/algo/rollout_corr.md (0.5 to watch, 0.3 to stop).",
    ),
    RuleSpec(
        id="M6c",
        title="weight spread",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("is_ratio_std",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="is_ratio_std",
            text="importance weights spread by {value}, line {line}: few tokens dominate the update",
        ),
        condition="Above `warn` in 5 of 10 records.",
        thresholds={"warn": 1.0},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="Weights that spread by more than their mean leave the direction of the update to chance.",
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
            text="chi-square distance of sampler and trainer {value} per token, line {line}",
        ),
        condition="Above `crit` in 3 of 5 records.",
        thresholds={"crit": 1.0},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="Rare tokens on which both disagree widely decide the update.",
        causes=CAUSES,
        next=("is_ess", "off_policy_kl", *NEXT),
        sources="veRL docs/algo/rollout_corr.md.",
    ),
    RuleSpec(
        id="M7",
        title="masked rollouts",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_masked_frac",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="rollout_masked_frac",
            text="{value} of the rollout is rejected as too far off policy, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Share of tokens above `warn` in 5 of 10 records.",
        thresholds={"warn": 0.1},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="What is rejected was generated for nothing, and what remains is biased.",
        causes=CAUSES,
        next=NEXT,
        sources="judgement.",
    ),
    RuleSpec(
        id="M7b",
        title="masked answers",
        family="mismatch",
        group=Group.LEARNING,
        metrics=("rollout_masked_seq_frac",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="rollout_masked_seq_frac",
            text="{value} of the answers are rejected as too far off policy, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Share of answers above `warn` in 5 of 10 records.",
        thresholds={"warn": 0.3},
        n_of_m=SLOW,
        applies=applicability.has_rollouts,
        why="What is rejected was generated for nothing, and what remains is biased towards short answers.",
        causes=CAUSES,
        next=NEXT,
        sources="judgement.",
    ),
)
