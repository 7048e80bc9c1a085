"""Prompt groups: is there any contrast left inside them?

A group whose answers all score the same gives no gradient in GRPO and its
relatives. All right is a solved task; all wrong is a dead run.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.detectors import Above
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, About, Group, Judge, Patience, Reading, RuleSpec
from rltop.units import number, percent


class ZeroVariance(Judge):
    """G1: share of groups without any difference in reward.

    Muted where the reward has been one constant since the start (distillation
    logs 0), and information where the groups agree because the task is solved.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.warn, self.crit = limits["warn"], limits["crit"]
        self.seen = self.whole = self.whole_before = 0
        self.has_parts = False

    def read(self, now: Moment) -> Reading | None:
        """A standard deviation of nothing counts as every group; batches of one group count only in long rows."""
        reward = now.reward
        if reward.value is None or reward.zero_share is None:
            return None
        share = reward.zero_share
        if self._is_one_group(share):
            return QUIET
        if share <= (self.warn * RELEASE if self.is_firing else self.warn):
            return QUIET
        if reward.is_constant:
            return self._constant(share, now)
        if reward.is_high or reward.is_coming_up:
            return Reading(INFO, share, None, self.warn, (reward.usual,))
        level = CRIT if share >= self.crit and reward.is_low else WARN
        return Reading(level, share, None, self.warn, (reward.usual,))

    def _is_one_group(self, share: float) -> bool:
        """Batches that were flat or not flat all along, never in part, and this row of flat ones is no long one."""
        self.seen += 1
        if share >= 1.0:
            self.whole += 1
        else:
            self.whole_before += self.whole
            self.whole = 0
            self.has_parts = self.has_parts or share > 0.0
        is_usual = self.whole_before > self.limits["rare"] * (self.seen - self.whole)
        return is_usual and not self.has_parts and self.whole < self.limits["alone"]

    def _constant(self, share: float, now: Moment) -> Reading:
        """A reward that never moved is distillation's, unless nothing else moves the weights either."""
        gradient = now.values.get("grad_norm")
        if gradient is None or share < self.crit or gradient >= self.limits["gradient"] or "kl_teacher" in now.values:
            return QUIET
        return Reading(WARN, share, None, self.warn, (now.reward.usual,))

    def headline(self, reading: Reading) -> str:
        """The share, and where the reward stands."""
        where = "all solved" if reading.level is INFO else f"reward {number(reading.extra[0])}"
        return f"{percent(reading.value)} of the prompt groups have no difference in reward ({where}): no gradient"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Share, line, reward."""
        return (
            Evidence("groups without difference", reading.value, Unit.FRACTION),
            Evidence("threshold", reading.threshold or 0.0, Unit.FRACTION),
            Evidence("reward", reading.extra[0]),
        )


class Discarded(Judge):
    """G2: how much of what was generated is thrown away, for want of contrast or for age."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.flat, self.stale = limits["warn"], limits["stale"]

    def read(self, now: Moment) -> Reading | None:
        """Of both shares the one that is farther beyond its line."""
        passed, cancelled = now.values.get("filter_pass_rate"), now.values.get("cancelled_frac")
        if passed is None and cancelled is None:
            return None
        factor = RELEASE if self.is_firing else 1.0
        flat = 0.0 if passed is None else 1.0 - passed
        stale = cancelled or 0.0
        if flat <= self.flat * factor and stale <= self.stale * factor:
            return QUIET
        if flat / self.flat >= stale / self.stale:
            return Reading(WARN, flat, None, self.flat, words=("have no difference in reward",))
        return Reading(WARN, stale, None, self.stale, words=("were cancelled, mostly for age",))

    def about(self, reading: Reading) -> About:
        """Whichever of both shares is farther beyond its line."""
        return About("cancelled_frac" if reading.words[0].startswith("were cancelled") else "filter_pass_rate")

    def headline(self, reading: Reading) -> str:
        """The share and why."""
        return f"{percent(reading.value)} of what is generated is thrown away: they {reading.words[0]}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Share and line."""
        return (
            Evidence("thrown away", reading.value, Unit.FRACTION),
            Evidence("threshold", reading.threshold or 0.0, Unit.FRACTION),
        )


RULES = (
    RuleSpec(
        id="G1",
        title="flat groups",
        family="groups",
        group=Group.LEARNING,
        metrics=("zero_std_frac", "reward_std"),
        judge=ZeroVariance,
        condition="Share of groups without difference above `warn` in 10 of 15 records: WARN; at least `crit` in "
        "5 records in a row with the reward at its floor: CRIT. INFO where the reward is at its top; silent where it "
        "never moved, unless the gradient norm is below `gradient` and there is no teacher. A standard deviation "
        "below 1e-6 counts as a share of 1. Where it has only ever been 0 or 1, and 1 in more than `rare` of the "
        "records, the batch is one group: `alone` in a row must be 1.",
        limits={"warn": 0.8, "crit": 0.99, "gradient": 1e-3, "rare": 0.2, "alone": 10},
        patience={INFO: Patience(10, 15), WARN: Patience(10, 15), CRIT: Patience(5, 5)},
        applies=applicability.compares_groups,
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
        judge=Discarded,
        condition="More than `warn` of the groups filtered out for want of contrast, or more than `stale` of the "
        "rollouts cancelled, in 5 of 10 records: WARN.",
        limits={"warn": 0.5, "stale": 0.1},
        patience={INFO: Patience(5, 10), WARN: Patience(5, 10)},
        applies=applicability.has_rollouts,
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
        judge=lambda limits: Above(
            limits, metric="reward_gini", text="Gini of the rewards in a group {value}, line {line}", unit=Unit.FRACTION
        ),
        condition="Above `info` in 10 of 15 records: INFO.",
        limits={"info": 0.9},
        patience={INFO: Patience(10, 15)},
        applies=applicability.compares_groups,
        why="A few answers earn nearly everything: the update rests on them alone.",
        causes=("prompts far too hard", "a sparse reward", "groups too small"),
        next=("reward_mean", "zero_std_frac", "adv_max", "reward_std"),
        sources="judgement.",
    ),
)
