"""Advantages: what the update is weighted with.

Where they are normalised inside groups they have a bound that only a fault
breaks; where they are whitened their mean is zero by construction.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.model import Evidence
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, About, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.persistence import OfLast
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


class AdvantageScale(Judge):
    """A1: advantages beyond their bound, off centre, or suddenly far larger than usual."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.sizes = Window(_WINDOW)
        self.extreme = OfLast(3, 10)
        self.beyond = OfLast(5, 10)
        self.off = OfLast(5, 10)

    def read(self, now: Moment) -> Reading | None:
        """Keeps its own patience, because the three ways differ in theirs."""
        values = now.values
        high, low, mean = values.get("adv_max"), values.get("adv_min"), values.get("adv_mean")
        if high is None and low is None and mean is None:
            return None
        size = max(abs(high or 0.0), abs(low or 0.0))
        return self._extreme(size) or self._beyond(size, now) or self._off_centre(mean, now) or QUIET

    def _extreme(self, size: float) -> Reading | None:
        sizes, factor = self.sizes, self.limits["warn"]
        usual = sizes.median
        is_far = sizes.count >= _MIN_SAMPLES and size > self.limits["floor"] and size > factor * usual > 0.0
        if size > 0.0:
            sizes.push(size)
        if self.extreme.push(is_far) and is_far:
            return Reading(WARN, size, usual, factor * usual, words=("largest",))
        return None

    def _beyond(self, size: float, now: Moment) -> Reading | None:
        if now.group_size is None or now.traits.has_critic:
            return None
        bound = largest_advantage(now.group_size) + self.limits["slack"]
        is_beyond = size > bound
        if self.beyond.push(is_beyond) and is_beyond:
            return Reading(INFO, size, None, bound, words=("bound",))
        return None

    def _off_centre(self, mean: float | None, now: Moment) -> Reading | None:
        if mean is None:
            return None
        line = self.limits["critic_mean" if now.traits.has_critic else "mean"]
        is_off = abs(mean) > line
        if self.off.push(is_off) and is_off:
            return Reading(INFO, mean, 0.0, line, words=("mean",))
        return None

    def about(self, reading: Reading) -> About | None:
        """The mean, or whichever of the extremes is logged."""
        return About("adv_mean") if reading.words[0] == "mean" else None

    def headline(self, reading: Reading) -> str:
        """Which of the three, with its numbers."""
        kind = reading.words[0]
        if kind == "mean":
            return f"mean advantage {number(reading.value)}, should be near 0 (line {number(reading.threshold or 0)})"
        if kind == "bound":
            return (
                f"largest advantage {number(reading.value)}: beyond {number(reading.threshold or 0)}, which a group "
                f"of this size cannot exceed"
            )
        return f"largest advantage {number(reading.value)}, usually {number(reading.baseline or 0)}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Value, usual value, line."""
        return (
            Evidence(f"advantage, {reading.words[0]}", reading.value),
            *((Evidence("usual", reading.baseline),) if reading.baseline is not None else ()),
            Evidence("threshold", reading.threshold or 0.0),
        )


class NoAdvantage(Judge):
    """A2: every advantage of the batch is zero, where nothing else says that the groups are flat."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.has_varied = False

    def read(self, now: Moment) -> Reading | None:
        """Largest and smallest are both zero; information on a solved task, silent where it was always so."""
        high, low = now.values.get("adv_max"), now.values.get("adv_min")
        if high is None or low is None:
            return None
        if high - low > self.limits["spread"]:
            self.has_varied = True
            return QUIET
        reward = now.reward
        if not self.has_varied:
            return QUIET
        is_solved = reward.is_high and not reward.is_low
        level = INFO if is_solved else CRIT if reward.count and reward.is_low else WARN
        return Reading(level, high - low, None, None, (reward.usual,))

    def headline(self, reading: Reading) -> str:
        """Where the reward stands meanwhile."""
        return f"every advantage is 0 (reward {number(reading.extra[0])}): no gradient comes from this batch"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Spread and reward."""
        return (Evidence("spread of advantages", reading.value), Evidence("reward", reading.extra[0]))


RULES = (
    RuleSpec(
        id="A1",
        title="advantage scale",
        family="advantage",
        group=Group.LEARNING,
        metrics=("adv_max", "adv_min", "adv_mean"),
        judge=AdvantageScale,
        condition="Largest advantage (of either sign) above `floor` and above `warn` times its usual size in 3 of 10 "
        "records: WARN. Beyond the bound of its group, (n-1)/sqrt(n) + `slack`, or a mean farther from 0 than `mean` "
        "(`critic_mean` where a critic is trained), in 5 of 10: INFO.",
        limits={"warn": 10.0, "floor": 3.0, "slack": 0.1, "mean": 0.3, "critic_mean": 0.1},
        calm=10,
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
        judge=NoAdvantage,
        condition="Largest and smallest advantage less than `spread` apart after they had differed, 3 records in a "
        "row: WARN; 5 in a row with the reward at its lowest: CRIT. INFO where the reward is at its top.",
        limits={"spread": 1e-9},
        patience={INFO: Patience(3, 3), WARN: Patience(3, 3), CRIT: Patience(5, 5)},
        applies=applicability.has_reward,
        why="All groups agree: the update consists of the regularisers alone.",
        causes=("a task that is solved or far too hard", "a policy that writes one text", "a reward that is constant"),
        next=("reward_max", "reward_mean", "entropy", "truncated_frac", "grad_norm"),
        sources="a transcribed SDPO run: score 0, gradient 0, and fifty more steps; veRL logs no share of flat groups.",
    ),
)
