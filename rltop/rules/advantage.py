"""Advantages: what the update is weighted with.

Where they are normalised inside groups they have a bound that only a fault
breaks; where they are whitened their mean is zero by construction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.model import Evidence
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec, Subject
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Window
from rltop.units import number

_WINDOW = 50
_MIN_SAMPLES = 10


def largest_advantage(group_size: int) -> float:
    """The bound of an advantage normalised in a group of `group_size` answers: (n - 1)/sqrt(n).

    Samuelson's inequality for the unbiased standard deviation; reached where
    exactly one answer of the group stands out.
    """
    return (group_size - 1) / math.sqrt(group_size)


class AdvantageScale(Detector):
    """A1: advantages beyond their bound, off centre, or suddenly far larger than usual."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.sizes = Window(_WINDOW)
        self.extreme = NOfMCounter(3, 10)
        self.beyond = NOfMCounter(5, 10)
        self.off = NOfMCounter(5, 10)

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
        if self.off.push(is_off) and is_off:
            return Finding(INFO, mean, 0.0, line, words=("mean",))
        return None

    def subject(self, finding: Finding) -> Subject | None:
        """The mean, or whichever of the extremes is logged."""
        return Subject("adv_mean") if finding.words[0] == "mean" else None

    def headline(self, finding: Finding) -> str:
        """Which of the three, with its numbers."""
        kind = finding.words[0]
        if kind == "mean":
            return f"mean advantage {number(finding.value)}, should be near 0 (line {number(finding.threshold or 0)})"
        if kind == "bound":
            return (
                f"largest advantage {number(finding.value)}: beyond {number(finding.threshold or 0)}, which a group "
                f"of this size cannot exceed"
            )
        return f"largest advantage {number(finding.value)}, usually {number(finding.baseline or 0)}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Value, usual value, line."""
        return EvidenceNames(f"advantage, {finding.words[0]}", "usual").of(finding)


class NoAdvantage(Detector):
    """A2: every advantage of the batch is zero, where nothing else says that the groups are flat."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.has_varied = False

    def detect(self, context: RuleContext) -> Finding | None:
        """Largest and smallest are both zero; information on a solved task, silent where it was always so."""
        high, low = context.values.get("adv_max"), context.values.get("adv_min")
        if high is None or low is None:
            return None
        if high - low > self.thresholds["spread"]:
            self.has_varied = True
            return QUIET
        reward = context.reward
        if not self.has_varied:
            return QUIET
        is_solved = reward.is_high and not reward.is_low
        level = INFO if is_solved else CRIT if reward.count and reward.is_low else WARN
        return Finding(level, high - low, None, None, (reward.usual,))

    def headline(self, finding: Finding) -> str:
        """Where the reward stands meanwhile."""
        return f"every advantage is 0 (reward {number(finding.extra[0])}): no gradient comes from this batch"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Spread and reward."""
        return (*names.of(finding), Evidence("reward", finding.extra[0]))


RULES = (
    RuleSpec(
        id="A1",
        title="advantage scale",
        family="advantage",
        group=Group.LEARNING,
        metrics=("adv_max", "adv_min", "adv_mean"),
        detector=AdvantageScale,
        condition="Largest advantage (of either sign) above `floor` and above `warn` times its usual size in 3 of 10 "
        "records: WARN. Beyond the bound of its group, (n-1)/sqrt(n) + `slack`, or a mean farther from 0 than `mean` "
        "(`critic_mean` where a critic is trained), in 5 of 10: INFO.",
        thresholds={"warn": 10.0, "floor": 3.0, "slack": 0.1, "mean": 0.3, "critic_mean": 0.1},
        clear_after=10,
        warm_up=5,
        applies=applicability.has_rollouts,
        why="Single huge advantages push single answers hard and are a frequent source of gradient spikes.",
        causes=("rewards without a bound", "normalisation that is off", "lengths that go with rewards", "tiny groups"),
        next=("reward_std", "reward_max", "grad_norm", "clip_frac"),
        sources="Samuelson's inequality; veRL issues 7412 and 4303 reach the bound exactly (1.789 for 5, 1.5 for 4).",
    ),
    RuleSpec(
        id="A2",
        title="no advantage",
        family="advantage",
        group=Group.LEARNING,
        metrics=("adv_max", "adv_min"),
        detector=NoAdvantage,
        condition="Largest and smallest advantage less than `spread` apart after they had differed, 3 records in a "
        "row: WARN; 5 in a row with the reward at its lowest: CRIT. INFO where the reward is at its top.",
        thresholds={"spread": 1e-9},
        n_of_m={INFO: NOfM(3, 3), WARN: NOfM(3, 3), CRIT: NOfM(5, 5)},
        applies=applicability.has_reward,
        evidence=EvidenceNames("spread of advantages", "", threshold=""),
        why="All groups agree: the update consists of the regularisers alone.",
        causes=("a task that is solved or far too hard", "a policy that writes one text", "a reward that is constant"),
        next=("reward_max", "reward_mean", "entropy", "truncated_frac", "grad_norm"),
        sources="a transcribed SDPO run: score 0, gradient 0, and fifty more steps; veRL logs no share of flat groups.",
    ),
)
