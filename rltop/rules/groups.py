"""Prompt groups: is there any contrast left inside them?

A group whose answers all score the same gives no gradient in GRPO and its
relatives. All right is a solved task; all wrong is a dead run.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import Above
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
from rltop.units import number, percent


class ZeroVariance(Detector):
    """G1: share of groups without any difference in reward.

    Muted where the reward has been one constant since the start (distillation
    logs 0), and information where the groups agree because the task is solved.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.warn, self.crit = thresholds["warn"], thresholds["crit"]
        self.seen = self.whole = self.whole_before = 0
        self.has_parts = False

    def detect(self, context: RuleContext) -> Finding | None:
        """A standard deviation of nothing counts as every group; batches of one group count only in long rows."""
        reward = context.reward
        if reward.value is None or reward.zero_share is None:
            return None
        share = reward.zero_share
        if self._is_one_group(share):
            return QUIET
        if share <= (self.warn * RELEASE if self.is_firing else self.warn):
            return QUIET
        if reward.is_constant:
            return self._constant(share, context)
        if reward.is_high or reward.is_coming_up:
            return Finding(INFO, share, None, self.warn, (reward.usual,))
        level = CRIT if share >= self.crit and reward.is_low else WARN
        return Finding(level, share, None, self.warn, (reward.usual,))

    def _is_one_group(self, share: float) -> bool:
        """Batches that were flat or not flat all along, never in part, and this row of flat ones is no long one."""
        self.seen += 1
        if share >= 1.0:
            self.whole += 1
        else:
            self.whole_before += self.whole
            self.whole = 0
            self.has_parts = self.has_parts or share > 0.0
        is_usual = self.whole_before > self.thresholds["rare"] * (self.seen - self.whole)
        return is_usual and not self.has_parts and self.whole < self.thresholds["alone"]

    def _constant(self, share: float, context: RuleContext) -> Finding:
        """A reward that never moved is distillation's, unless nothing else moves the weights either."""
        gradient = context.values.get("grad_norm")
        if (
            gradient is None
            or share < self.crit
            or gradient >= self.thresholds["gradient"]
            or "kl_teacher" in context.values
        ):
            return QUIET
        return Finding(WARN, share, None, self.warn, (context.reward.usual,))

    def headline(self, finding: Finding) -> str:
        """The share, and where the reward stands."""
        where = "all solved" if finding.level is INFO else f"reward {number(finding.extra[0])}"
        return f"{percent(finding.value)} of the prompt groups have no difference in reward ({where}): no gradient"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Share, line, reward."""
        return (*names.of(finding), Evidence("reward", finding.extra[0]))


class Discarded(Detector):
    """G2: how much of what was generated is thrown away, for want of contrast or for age."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.flat, self.stale = thresholds["warn"], thresholds["stale"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Of both shares the one that is farther beyond its line."""
        passed, cancelled = context.values.get("filter_pass_rate"), context.values.get("cancelled_frac")
        if passed is None and cancelled is None:
            return None
        factor = RELEASE if self.is_firing else 1.0
        flat = 0.0 if passed is None else 1.0 - passed
        stale = cancelled or 0.0
        if flat <= self.flat * factor and stale <= self.stale * factor:
            return QUIET
        if flat / self.flat >= stale / self.stale:
            return Finding(WARN, flat, None, self.flat, words=("have no difference in reward",))
        return Finding(WARN, stale, None, self.stale, words=("were cancelled, mostly for age",))

    def subject(self, finding: Finding) -> Subject:
        """Whichever of both shares is farther beyond its line."""
        return Subject("cancelled_frac" if finding.words[0].startswith("were cancelled") else "filter_pass_rate")

    def headline(self, finding: Finding) -> str:
        """The share and why."""
        return f"{percent(finding.value)} of what is generated is thrown away: they {finding.words[0]}"


RULES = (
    RuleSpec(
        id="G1",
        title="flat groups",
        family="groups",
        group=Group.LEARNING,
        metrics=("zero_std_frac", "reward_std"),
        detector=ZeroVariance,
        condition="Share of groups without difference above `warn` in 10 of 15 records: WARN; at least `crit` in "
        "5 records in a row with the reward at its floor: CRIT. INFO where the reward is at its top; silent where it "
        "never moved, unless the gradient norm is below `gradient` and there is no teacher. A standard deviation "
        "below 1e-6 counts as a share of 1. Where it has only ever been 0 or 1, and 1 in more than `rare` of the "
        "records, the batch is one group: `alone` in a row must be 1.",
        thresholds={"warn": 0.8, "crit": 0.99, "gradient": 1e-3, "rare": 0.2, "alone": 10},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(10, 15), CRIT: NOfM(5, 5)},
        applies=applicability.compares_groups,
        evidence=EvidenceNames("groups without difference", "", Unit.FRACTION),
        why="Groups that agree contribute nothing to the update: the batch is smaller than it looks, or empty.",
        causes=(
            "prompts far too hard or too easy",
            "a policy that has collapsed onto one answer",
            "answers cut off before they score",
            "a reward function that returns a constant",
            "groups too small",
        ),
        next=("reward_mean", "truncated_frac", "entropy", "grad_norm", "response_len_mean"),
        sources="TRL frac_reward_zero_std; DAPO removes such groups; tinker-cookbook tracks all-good and all-bad "
        "apart.",
    ),
    RuleSpec(
        id="G2",
        title="thrown away",
        family="groups",
        group=Group.LEARNING,
        metrics=("filter_pass_rate", "cancelled_frac"),
        detector=Discarded,
        condition="More than `warn` of the groups filtered out for want of contrast, or more than `stale` of the "
        "rollouts cancelled, in 5 of 10 records: WARN.",
        thresholds={"warn": 0.5, "stale": 0.1},
        n_of_m={INFO: NOfM(5, 10), WARN: NOfM(5, 10)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("thrown away", "", Unit.FRACTION),
        why="What is generated and not trained on costs as much as the rest.",
        causes=("prompts far too hard or too easy", "generation that is too slow for the trainer", "groups too small"),
        next=("zero_std_frac", "all_bad_frac", "all_good_frac", "staleness_max", "time_gen"),
        sources="DAPO dynamic sampling; the lines are judgement.",
    ),
    RuleSpec(
        id="G3",
        title="reward in few hands",
        family="groups",
        group=Group.LEARNING,
        metrics=("reward_gini",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="reward_gini",
            text="Gini of the rewards in a group {value}, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Above `info` in 10 of 15 records: INFO.",
        thresholds={"info": 0.9},
        n_of_m={INFO: NOfM(10, 15)},
        applies=applicability.compares_groups,
        why="A few answers earn nearly everything: the update rests on them alone.",
        causes=("prompts far too hard", "a sparse reward", "groups too small"),
        next=("reward_mean", "zero_std_frac", "adv_max", "reward_std"),
        sources="judgement.",
    ),
)
