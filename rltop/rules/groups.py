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
from functools import partial

from rltop.model import Algorithm, Evidence, Traits, Unit
from rltop.rules import applicability
from rltop.rules.conditions import has_teacher, is_paused
from rltop.rules.context import RuleContext
from rltop.rules.detectors import BEFORE, EIGHT_OF_TEN, RUN_START, Creep, Grown, Line
from rltop.rules.rule import (
    CRIT,
    INFO,
    QUIET,
    RELEASE,
    WARN,
    Detector,
    EvidenceNames,
    Finding,
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

    further = (("reward", Unit.NONE),)

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
        if share < self.crit or has_teacher(context) or context.algorithm is Algorithm.DISTILL:
            return QUIET
        if is_paused(context) or (gradient or 0.0) >= self.thresholds["gradient"]:
            return QUIET
        is_dead = bool(context.lr) and reward.usual <= 0.0 and reward.count >= self.thresholds["dead"]
        if gradient is None and not is_dead:
            return QUIET
        return Finding(CRIT if is_dead else WARN, share, None, self.warn, (reward.usual,))

    def headline(self, finding: Finding) -> str:
        where = "task saturated" if finding.level is INFO else f"reward {number(finding.extra[0])}"
        return f"zero-variance groups {percent(finding.value)} ({where}): no gradient from them"


class Discarded(Detector):
    """G2: share of generated completions discarded, for zero variance or staleness."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.flat, self.stale = thresholds["warn"], thresholds["stale"]
        self.count = Frozen(skip=0, size=10, minimum=5)

    def detect(self, context: RuleContext) -> Finding | None:
        """Of both shares the one that is farther beyond its threshold."""
        passed, cancelled = context.values.get("filter_pass_rate"), context.values.get("cancelled_frac")
        count = context.values.get("discarded_count")
        if passed is None and cancelled is None:
            return None if count is None else self._against_start(count, context.values)
        factor = RELEASE if self.is_firing else 1.0
        flat = 0.0 if passed is None else 1.0 - passed
        stale = cancelled or 0.0
        if flat <= self.flat * factor and stale <= self.stale * factor:
            return QUIET
        if flat / self.flat >= stale / self.stale:
            return Finding(WARN, flat, None, self.flat, words=("zero-variance groups",))
        return Finding(WARN, stale, None, self.stale, words=("cancelled, mostly stale",))

    def _against_start(self, count: float, values: Mapping[str, float]) -> Finding:
        """Many times as many as at the start, and as many as are trained on, where that is logged."""
        base = self.count.value
        if not self.count.is_final:
            self.count.push(count)
            return QUIET
        line = max(self.thresholds["grown"] * (base or 0.0), self.thresholds["least"], values.get("sample_count", 0.0))
        if count <= line * (RELEASE if self.is_firing else 1.0):
            return QUIET
        return Finding(WARN, count, base, line, words=("count",))

    def subject(self, finding: Finding) -> Subject:
        if finding.words[0] == "count":
            return Subject("discarded_count")
        return Subject("cancelled_frac" if finding.words[0].startswith("cancelled") else "filter_pass_rate")

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        return (EvidenceNames("discarded", unit=Unit.COUNT) if finding.words[0] == "count" else names).of(finding)

    def headline(self, finding: Finding) -> str:
        if finding.words[0] == "count":
            return (
                f"{number(finding.baseline or 0)} → {number(finding.value)} rollouts discarded a step since the start"
            )
        return f"{percent(finding.value)} of rollouts discarded: {finding.words[0]}"


class FewSamples(Detector):
    """G6: an update is made of a fraction of the samples that it had at the start."""

    text = "samples a step {baseline} → {value} since the start"
    start = Frozen(skip=0, size=10, minimum=5)

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the start; a last, shorter batch of an epoch comes alone."""
        value = context.values.get("sample_count")
        if value is None:
            return None
        if not self.start.is_final:
            self.start.push(value)
            return QUIET
        base = self.start.value or 0.0
        line = self.thresholds["warn"] * base
        return Finding(WARN, value, base, line) if value < line / self.held_part(WARN) else QUIET


class StaleDiscards(Detector):
    """G5: generated rollouts are thrown away because they are too old by the time they are read."""

    text = "{value:%} of {words[0]} rollouts were too stale to train on"
    start = Frozen(skip=0, size=8, minimum=5)

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

    sizes = Window(_WINDOW)
    extreme = NOfMCounter(3, 10)
    beyond = NOfMCounter(5, 10)
    off = NOfMCounter(5, 10)
    is_centred = False

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
        return Subject("adv_mean") if finding.words[0] == "mean" else None

    def headline(self, finding: Finding) -> str:
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
        return f"largest advantage {number(finding.value)} (median before: {number(finding.baseline or 0)})"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        return EvidenceNames(f"advantage, {finding.words[0]}", BEFORE).of(finding)


class NoAdvantage(Detector):
    """A2: every advantage of the batch is zero, where zero-variance groups are not logged."""

    further = (("reward", Unit.NONE),)
    text = "all advantages are 0 (reward {extra[0]}): no gradient from this batch"
    has_varied = False
    before: deque[bool] = deque(maxlen=_WINDOW)
    streak = 0

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


class AdvantageCreep(Creep):
    """A3: the spread of advantages is a multiple of the start, the rewards' is not."""

    text = "advantage spread {baseline} → {value} since the start; rewards are no wider"
    reward = Grown("reward_std")

    def read(self, context: RuleContext) -> float | None:
        """Largest minus smallest, else their standard deviation."""
        values = context.values
        self.reward.note(values)
        high, low = values.get("adv_max"), values.get("adv_min")
        return values.get("adv_std") if high is None or low is None else high - low

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Rewards that are larger, or spread wider, spread unnormalised advantages wider too."""
        part, reward = self.thresholds["reward"], context.reward
        grown = self.reward.factor(context.values)
        if grown is not None and grown > part * factor:
            return True
        reach = max(abs(reward.start), abs(reward.usual), reward.top - reward.bottom if reward.count else 0.0)
        return abs(reward.start) > 0.0 and reach > part * factor * abs(reward.start)


def _has_groups_or_critic(algorithm: Algorithm, traits: Traits) -> bool:
    """Advantages of language models; those of classic control grow with the returns."""
    return applicability.has_rollouts(algorithm, traits) and algorithm is not Algorithm.EMBODIED


_row = partial(RuleSpec, family="groups")

RULES = (
    _row(
        id="G1",
        title="zero-variance groups",
        metrics=("zero_std_frac", "reward_std"),
        detector=ZeroVariance,
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
    ),
    _row(
        id="G2",
        title="discarded rollouts",
        metrics=("filter_pass_rate", "cancelled_frac", "discarded_count"),
        detector=Discarded,
        thresholds={"warn": 0.5, "stale": 0.1, "grown": 10.0, "least": 16},
        n_of_m={INFO: NOfM(5, 10), WARN: NOfM(5, 10)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("discarded", "", Unit.FRACTION),
    ),
    _row(
        id="G6",
        title="few samples",
        metrics=("sample_count",),
        detector=FewSamples,
        thresholds={"warn": 0.25},
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=10,
        applies=applicability.has_rollouts,
        resets_on_phase=True,
        evidence=EvidenceNames("samples", RUN_START, Unit.COUNT),
    ),
    _row(
        id="G3",
        title="concentrated reward",
        metrics=("reward_gini",),
        detector=partial(
            Line,
            metric="reward_gini",
            text="reward Gini within groups {value:%} (threshold {threshold:%})",
            unit=Unit.FRACTION,
        ),
        thresholds={"info": 0.9},
        n_of_m={INFO: NOfM(10, 15)},
        applies=applicability.compares_groups,
    ),
    _row(
        id="G5",
        part_of="G2",
        title="stale discards",
        metrics=("discarded_stale_frac", "discarded_count"),
        measures="rollouts discarded as stale",
        detector=StaleDiscards,
        thresholds={"stale": 0.5, "warn": 0.2, "count": 1.0},
        n_of_m={INFO: NOfM(8, 10), WARN: NOfM(8, 10)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("stale discards", RUN_START, Unit.FRACTION),
    ),
    _row(
        id="A1",
        title="advantage scale",
        family="advantage",
        metrics=("adv_max", "adv_min", "adv_mean"),
        detector=AdvantageScale,
        thresholds={"warn": 10.0, "floor": 3.0, "slack": 0.1, "mean": 0.3, "critic_mean": 0.1},
        clear_after=10,
        warm_up=5,
        applies=applicability.has_rollouts,
    ),
    _row(
        id="A2",
        part_of="R2",
        title="zero advantages",
        family="advantage",
        metrics=("adv_max", "adv_min"),
        detector=NoAdvantage,
        thresholds={"spread": 1e-9, "chance": 1e-5},
        n_of_m={INFO: NOfM(_IN_A_ROW, _IN_A_ROW), WARN: NOfM(_IN_A_ROW, _IN_A_ROW), CRIT: NOfM(5, 5)},
        applies=applicability.has_reward,
        evidence=EvidenceNames("advantage spread", "", threshold=""),
    ),
    _row(
        id="A3",
        part_of="A1",
        title="advantage spread",
        family="advantage",
        metrics=("adv_max", "adv_min", "adv_std"),
        measures="largest minus smallest advantage",
        detector=AdvantageCreep,
        thresholds={"warn": 8.0, "floor": 20.0, "sigmas": 4.0, "reward": 0.25},
        n_of_m=EIGHT_OF_TEN,
        applies=_has_groups_or_critic,
        evidence=EvidenceNames("advantage spread", RUN_START),
    ),
)
