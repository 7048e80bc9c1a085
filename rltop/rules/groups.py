"""Prompt groups: is there reward variance left inside them, and what advantages result?

A zero-variance group gives no gradient in GRPO and its variants. All correct is a
saturated task; all wrong is a dead run. Advantages that are normalised within
groups have a bound that only a fault breaks; where they are whitened their mean
is zero by construction.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm, Evidence, Unit
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
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Frozen, Window
from rltop.units import number, percent

_HALF = 0.5
_LATELY = 20


class ZeroVariance(Detector):
    """G1: share of zero-variance groups.

    Muted where the reward has been constant since the start (distillation logs 0),
    and INFO where the task is saturated.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.warn, self.crit = thresholds["warn"], thresholds["crit"]
        self.seen = self.whole = self.whole_before = 0
        self.has_parts = False
        self.lately: deque[float] = deque(maxlen=_LATELY)

    def detect(self, context: RuleContext) -> Finding | None:
        """A standard deviation of 0 counts as all groups; batches of one group count only in long rows."""
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
        if share < self.crit and context.record <= self.thresholds["young"]:
            level = INFO
        return Finding(level, share, None, self.warn, (reward.usual,))

    def _is_one_group(self, share: float) -> bool:
        """Batches were all, half or nothing zero-variance so far, and this streak of them is not long."""
        self.lately.append(share)
        self.seen += 1
        if share >= 1.0:
            self.whole += 1
        else:
            self.whole_before += self.whole
            self.whole = 0
            # Two groups know one more share, and are flat by chance as well.
            self.has_parts = self.has_parts or (share > 0.0 and share != _HALF)
        if share >= 1.0 and _HALF in self.lately and sum(self.lately) > self.thresholds["most"] * _LATELY:
            return False
        is_usual = self.whole_before > self.thresholds["rare"] * (self.seen - self.whole)
        return is_usual and not self.has_parts and self.whole < self.thresholds["alone"]

    def _constant(self, share: float, context: RuleContext) -> Finding:
        """A reward that never moved is distillation's, unless nothing else moves the weights either."""
        gradient, reward = context.values.get("grad_norm"), context.reward
        if share < self.crit or "kl_teacher" in context.values or context.algorithm is Algorithm.DISTILL:
            return QUIET
        if context.lr == 0.0 or (gradient or 0.0) >= self.thresholds["gradient"]:
            return QUIET
        is_dead = bool(context.lr) and reward.usual <= 0.0 and reward.count >= self.thresholds["dead"]
        if gradient is None and not is_dead:
            return QUIET
        return Finding(CRIT if is_dead else WARN, share, None, self.warn, (reward.usual,))

    def headline(self, finding: Finding) -> str:
        """The share, and the reward level."""
        where = "task saturated" if finding.level is INFO else f"reward {number(finding.extra[0])}"
        return f"zero-variance groups {percent(finding.value)} ({where}): no gradient from them"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Share, threshold, reward."""
        return (*names.of(finding), Evidence("reward", finding.extra[0]))


class Discarded(Detector):
    """G2: share of generated completions discarded, for zero variance or staleness."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.flat, self.stale = thresholds["warn"], thresholds["stale"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Of both shares the one that is farther beyond its threshold."""
        passed, cancelled = context.values.get("filter_pass_rate"), context.values.get("cancelled_frac")
        if passed is None and cancelled is None:
            return None
        factor = RELEASE if self.is_firing else 1.0
        flat = 0.0 if passed is None else 1.0 - passed
        stale = cancelled or 0.0
        if flat <= self.flat * factor and stale <= self.stale * factor:
            return QUIET
        if flat / self.flat >= stale / self.stale:
            return Finding(WARN, flat, None, self.flat, words=("zero-variance groups",))
        return Finding(WARN, stale, None, self.stale, words=("cancelled, mostly stale",))

    def subject(self, finding: Finding) -> Subject:
        """Whichever of both shares is farther beyond its threshold."""
        return Subject("cancelled_frac" if finding.words[0].startswith("cancelled") else "filter_pass_rate")

    def headline(self, finding: Finding) -> str:
        """The share and why."""
        return f"{percent(finding.value)} of rollouts discarded: {finding.words[0]}"


class StaleDiscards(Detector):
    """G5: generated rollouts are thrown away because they are too old by the time they are read."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=8, minimum=5)

    def detect(self, context: RuleContext) -> Finding | None:
        """As a share of what was generated; INFO where only the share of the discards is known, and always high."""
        values, thresholds = context.values, self.thresholds
        share = values.get("discarded_stale_frac")
        if share is None:
            return None
        usual = self.start.push(share)
        if share <= thresholds["stale"] or values.get("discarded_count", 1.0) < thresholds["count"]:
            return QUIET
        lost = self._lost(values, share)
        if lost is not None:
            line = thresholds["warn"] * (0.5 if self.is_firing else 1.0)
            return Finding(WARN, lost, usual, thresholds["warn"], words=("generated",)) if lost > line else QUIET
        has_risen = usual is not None and usual < 0.5 * share
        return Finding(WARN if has_risen else INFO, share, usual, thresholds["stale"], words=("discarded",))

    @staticmethod
    def _lost(values: Mapping[str, float], share: float) -> float | None:
        """Stale ones over all that were generated, or None where these are not counted."""
        count, trained = values.get("discarded_count"), values.get("sample_count")
        return None if count is None or not trained else share * count / (count + trained)

    def headline(self, finding: Finding) -> str:
        """The share, and of what."""
        return f"{percent(finding.value)} of {finding.words[0]} rollouts were too stale to train on"


_WINDOW = 50
_MIN_SAMPLES = 10
_IN_A_ROW = 3


def largest_advantage(group_size: int) -> float:
    """The bound of an advantage normalised in a group of `group_size` completions: (n - 1)/sqrt(n).

    Samuelson's inequality for the unbiased standard deviation; reached where
    exactly one completion of the group differs.
    """
    return (group_size - 1) / math.sqrt(group_size)


class AdvantageScale(Detector):
    """A1: advantages beyond their bound, off centre, or suddenly far above baseline."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.sizes = Window(_WINDOW)
        self.extreme = NOfMCounter(3, 10)
        self.beyond = NOfMCounter(5, 10)
        self.off = NOfMCounter(5, 10)
        self.is_centred = False

    def detect(self, context: RuleContext) -> Finding | None:
        """Counts n of m itself, because each of the three ways has its own."""
        values = context.values
        high, low, mean = values.get("adv_max"), values.get("adv_min"), values.get("adv_mean")
        if high is None and low is None and mean is None:
            return None
        size = max(abs(high or 0.0), abs(low or 0.0))
        return self._extreme(size) or self._beyond(size, context) or self._off_centre(mean, context) or QUIET

    def _extreme(self, size: float) -> Finding | None:
        sizes, factor = self.sizes, self.thresholds["warn"]
        usual = sizes.median
        is_far = sizes.count >= _MIN_SAMPLES and size > self.thresholds["floor"] and size > factor * usual > 0.0
        if size > 0.0:
            sizes.push(size)
        if self.extreme.push(is_far) and is_far:
            return Finding(WARN, size, usual, factor * usual, words=("largest",))
        return None

    def _beyond(self, size: float, context: RuleContext) -> Finding | None:
        if context.group_size is None or context.traits.has_critic:
            return None
        bound = largest_advantage(context.group_size) + self.thresholds["slack"]
        is_beyond = size > bound
        if self.beyond.push(is_beyond) and is_beyond:
            return Finding(INFO, size, None, bound, words=("bound",))
        return None

    def _off_centre(self, mean: float | None, context: RuleContext) -> Finding | None:
        if mean is None:
            return None
        line = self.thresholds["critic_mean" if context.traits.has_critic else "mean"]
        is_off = abs(mean) > line
        # Without a critic and a baseline of the group, advantages are the returns themselves and have any mean.
        self.is_centred = self.is_centred or not is_off or context.traits.has_critic
        if not self.is_centred:
            return None
        if self.off.push(is_off) and is_off:
            return Finding(INFO, mean, None, line, words=("mean",))
        return None

    def subject(self, finding: Finding) -> Subject | None:
        """The mean, or whichever of the extremes is logged."""
        return Subject("adv_mean") if finding.words[0] == "mean" else None

    def headline(self, finding: Finding) -> str:
        """Which of the three, with its numbers."""
        kind = finding.words[0]
        if kind == "mean":
            return (
                f"mean advantage {number(finding.value)}, expected near 0 (threshold {number(finding.threshold or 0)})"
            )
        if kind == "bound":
            return (
                f"largest advantage {number(finding.value)} exceeds {number(finding.threshold or 0)}, the bound for "
                f"this group size"
            )
        return f"largest advantage {number(finding.value)} (baseline {number(finding.baseline or 0)})"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Value, baseline, threshold."""
        return EvidenceNames(f"advantage, {finding.words[0]}", "baseline").of(finding)


class NoAdvantage(Detector):
    """A2: every advantage of the batch is zero, where zero-variance groups are not logged."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.has_varied = False
        self.before: deque[bool] = deque(maxlen=_WINDOW)
        self.streak = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """Largest and smallest are both zero; INFO on a saturated task, silent where it was always so."""
        high, low = context.values.get("adv_max"), context.values.get("adv_min")
        if high is None or low is None:
            return None
        if high - low > self.thresholds["spread"]:
            self.has_varied = True
            self.before.extend([True] * self.streak)
            self.before.append(False)
            self.streak = 0
            return QUIET
        reward = context.reward
        if not self.has_varied:
            return QUIET
        self.streak += 1
        if self._is_chance():
            return QUIET
        is_solved = reward.is_high and not reward.is_low
        level = INFO if is_solved else CRIT if reward.count and reward.is_low else WARN
        return Finding(level, high - low, None, None, (reward.usual,))

    def _is_chance(self) -> bool:
        """Batches of one or two groups are now and then all zero: so many in a row may follow from how often."""
        usual = (sum(self.before) + 1) / (len(self.before) + 2)
        return any(self.before) and usual ** (self.streak + _IN_A_ROW - 1) > self.thresholds["chance"]

    def headline(self, finding: Finding) -> str:
        """The reward level."""
        return f"all advantages are 0 (reward {number(finding.extra[0])}): no gradient from this batch"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Spread and reward."""
        return (*names.of(finding), Evidence("reward", finding.extra[0]))


RULES = (
    RuleSpec(
        id="G1",
        title="zero-variance groups",
        family="groups",
        group=Group.LEARNING,
        metrics=("zero_std_frac", "reward_std"),
        detector=ZeroVariance,
        condition="Share of zero-variance groups above `warn` in 10 of 15 records: WARN; at least `crit` in 5 "
        "records in a row with the reward at its minimum: CRIT. INFO where the reward is at its top; silent where it "
        "never moved, unless the gradient norm is below `gradient` and there is no teacher, which is CRIT after "
        "`dead` records with a learning rate above 0, also where no gradient is logged. A standard deviation "
        "below 1e-6 counts as a share of 1. Where it has only ever been 0, a half or 1, and 1 in more than `rare` "
        "of the records, the batch is one or two groups: `alone` in a row must be 1, or the mean of 20 above `most`. "
        "INFO in the first `young` records where some groups have variance.",
        thresholds={
            "most": 0.75,
            "warn": 0.8,
            "crit": 0.99,
            "gradient": 1e-3,
            "rare": 0.2,
            "alone": 10,
            "dead": 45,
            "young": 20,
        },
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(10, 15), CRIT: NOfM(5, 5)},
        applies=applicability.compares_groups,
        evidence=EvidenceNames("zero-variance groups", "", Unit.FRACTION),
        why="Zero-variance groups contribute nothing to the update: the batch is smaller than it looks, or empty.",
        causes=(
            "prompts far too hard or too easy",
            "a policy that has collapsed onto one completion",
            "completions truncated before they can score",
            "a reward function that returns a constant",
            "groups too small",
        ),
        next=("reward_mean", "truncated_frac", "entropy", "grad_norm", "response_len_mean"),
        sources="TRL frac_reward_zero_std; DAPO removes such groups; tinker-cookbook tracks all-good and all-bad "
        "apart.",
    ),
    RuleSpec(
        id="G2",
        title="discarded rollouts",
        family="groups",
        group=Group.LEARNING,
        metrics=("filter_pass_rate", "cancelled_frac"),
        detector=Discarded,
        condition="More than `warn` of the groups filtered out for zero variance, or more than `stale` of the "
        "rollouts cancelled, in 5 of 10 records: WARN.",
        thresholds={"warn": 0.5, "stale": 0.1},
        n_of_m={INFO: NOfM(5, 10), WARN: NOfM(5, 10)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("discarded", "", Unit.FRACTION),
        why="Discarded rollouts cost as much compute as the rest.",
        causes=("prompts far too hard or too easy", "generation too slow for the trainer", "groups too small"),
        next=("zero_std_frac", "all_bad_frac", "all_good_frac", "staleness_max", "time_gen"),
        sources="DAPO dynamic sampling; thresholds are judgement.",
    ),
    RuleSpec(
        id="G3",
        title="concentrated reward",
        family="groups",
        group=Group.LEARNING,
        metrics=("reward_gini",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="reward_gini",
            text="reward Gini within groups {value} (threshold {threshold})",
            unit=Unit.FRACTION,
        ),
        condition="Above `info` in 10 of 15 records: INFO.",
        thresholds={"info": 0.9},
        n_of_m={INFO: NOfM(10, 15)},
        applies=applicability.compares_groups,
        why="Reward is concentrated in a few completions: the update depends on them alone.",
        causes=("prompts far too hard", "a sparse reward", "groups too small"),
        next=("reward_mean", "zero_std_frac", "adv_max", "reward_std"),
        sources="judgement.",
    ),
    RuleSpec(
        id="G5",
        title="stale discards",
        family="groups",
        group=Group.SYSTEM,
        metrics=("discarded_stale_frac", "discarded_count"),
        measures="rollouts discarded as stale",
        detector=StaleDiscards,
        condition="More than `stale` of at least `count` discarded rollouts were too stale, and these are more than "
        "`warn` of all that were generated, in 8 of 10 records: WARN; it ends below half of that. Where trained "
        "samples are not counted: WARN if that share was less than half at run start, else INFO.",
        thresholds={"stale": 0.5, "warn": 0.2, "count": 1.0},
        n_of_m={INFO: NOfM(8, 10), WARN: NOfM(8, 10)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("stale discards", "baseline (run start)", Unit.FRACTION),
        why="Their generation is paid for and nothing is learned from it.",
        causes=("generation too slow for the trainer", "a few very long rollouts", "a limit on staleness too tight"),
        next=("staleness_max", "queue_size", "time_gen", "response_len_max"),
        sources="judgement.",
    ),
    RuleSpec(
        id="A1",
        title="advantage scale",
        family="advantage",
        group=Group.LEARNING,
        metrics=("adv_max", "adv_min", "adv_mean"),
        detector=AdvantageScale,
        condition="Largest advantage (of either sign) above `floor` and above `warn` times its baseline in 3 of 10 "
        "records: WARN. Beyond the bound of its group, (n-1)/sqrt(n) + `slack`, or a mean farther from 0 than `mean` "
        "(`critic_mean` where a critic is trained), in 5 of 10: INFO; without a critic only after it had been near 0.",
        thresholds={"warn": 10.0, "floor": 3.0, "slack": 0.1, "mean": 0.3, "critic_mean": 0.1},
        clear_after=10,
        warm_up=5,
        applies=applicability.has_rollouts,
        why="One huge advantage dominates the update; a frequent source of gradient spikes.",
        causes=("unbounded rewards", "wrong normalisation", "length correlated with reward", "very small groups"),
        next=("reward_std", "reward_max", "grad_norm", "clip_frac"),
        sources="Samuelson's inequality; veRL issues 7412 and 4303 reach the bound exactly (1.789 for 5, 1.5 for 4).",
    ),
    RuleSpec(
        id="A2",
        title="zero advantages",
        family="advantage",
        group=Group.LEARNING,
        metrics=("adv_max", "adv_min"),
        detector=NoAdvantage,
        condition="Largest and smallest advantage less than `spread` apart after they had differed, 3 records in a "
        "row: WARN; 5 in a row with the reward at its minimum: CRIT. INFO where the reward is at its top. Where such "
        "records came before, as many in a row as have a probability below `chance`, by their share of the last 50.",
        thresholds={"spread": 1e-9, "chance": 1e-5},
        n_of_m={INFO: NOfM(_IN_A_ROW, _IN_A_ROW), WARN: NOfM(_IN_A_ROW, _IN_A_ROW), CRIT: NOfM(5, 5)},
        applies=applicability.has_reward,
        evidence=EvidenceNames("advantage spread", "", threshold=""),
        why="All groups have zero reward variance: only regularisers are left in the update.",
        causes=("a saturated or far too hard task", "identical completions", "a constant reward"),
        next=("reward_max", "reward_mean", "entropy", "truncated_frac", "grad_norm"),
        sources="a transcribed SDPO run: score 0, gradient 0, 50 more steps; veRL does not log zero-variance groups.",
    ),
)
