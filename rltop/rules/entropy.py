"""Entropy: the exploration budget, and what a sudden change of it means.

No absolute level is valid across models, and every run that learns from
verifiable rewards spends most of its entropy: only a discontinuity, or a fall
that buys no reward, is a fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.rolling import Frozen, Window, median_of
from rltop.units import number, percent

_MIN_SAMPLES = 10


class EntropyCrash(Judge):
    """E1: entropy falls off a cliff against the 20 records before."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(20)
        self.warn, self.crit, self.floor = limits["warn"], limits["crit"], limits["floor"]

    def read(self, now: Moment) -> Reading | None:
        """A ratio; on a solved task, and where there is nothing to explore, only information."""
        value = now.values.get("entropy")
        if value is None:
            return None
        window = self.window
        usual, known = window.median, window.count
        window.push(value)
        if known < _MIN_SAMPLES or value >= self.warn * usual or usual <= self.floor:
            return QUIET
        level = CRIT if value < self.crit * usual else WARN
        if now.reward.is_solved or not applicability.has_rollouts(now.algorithm, now.traits):
            level = INFO
        return Reading(level, value, usual, self.warn * usual)

    def headline(self, reading: Reading) -> str:
        """Before and after."""
        return f"entropy {number(reading.baseline or 0)} → {number(reading.value)} nats within a few records"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Before, after, line."""
        return levels(reading)


class EarlyCollapse(Judge):
    """E2: most of the entropy is gone early: it bought no reward, or it went too fast."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.spread_start = Frozen(skip=0, size=10, minimum=10)
        self.first_step: int | None = None

    def read(self, now: Moment) -> Reading | None:
        """Against the first five records, within the first 200."""
        value = now.values.get("entropy")
        if now.record > self.limits["until"]:
            return None
        if value is None:
            return None
        if self.first_step is None:
            self.first_step = now.observation.step
        spread = now.values.get("reward_std")
        if spread is not None:
            self.spread_start.push(spread)
        start = self.start
        base = start.value
        if not start.is_final:
            start.push(value)
        if base is None or base < self.limits["floor"]:
            return QUIET
        line = self.limits["warn"] * base
        if value >= line:
            return QUIET
        is_fast = now.observation.step - self.first_step <= self.limits["fast"]
        if now.reward.is_solved or not (is_fast or self._has_bought_nothing(now, spread)):
            return QUIET
        return Reading(WARN, value, base, line)

    def _has_bought_nothing(self, now: Moment, spread: float | None) -> bool:
        """The reward has not improved, and the contrast between answers is going."""
        reward = now.reward
        if reward.count == 0 or reward.is_improving:
            return False
        if reward.zero_share is not None and reward.zero_share > self.limits["zero_share"]:
            return True
        base = self.spread_start.value
        return spread is not None and base is not None and spread < 0.5 * base

    def headline(self, reading: Reading) -> str:
        """How much is gone."""
        gone = 1.0 - reading.value / reading.baseline if reading.baseline else 0.0
        return (
            f"{percent(gone)} of the entropy is gone early: {number(reading.baseline or 0)} → {number(reading.value)}"
        )

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Start, now, line."""
        return levels(reading)


class EntropySurge(Judge):
    """E4: entropy jumps upwards against the 50 records before."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(50)
        self.lengths: deque[float] = deque(maxlen=50)
        self.jump, self.floor = limits["jump"], limits["jump_floor"]

    def read(self, now: Moment) -> Reading | None:
        """CRIT where answers grow with it or are cut off."""
        value = now.values.get("entropy")
        if value is None:
            return None
        window, length = self.window, now.values.get("response_len_mean")
        usual = window.median
        is_jump = window.count >= _MIN_SAMPLES and value > self.floor and value > self.jump * usual
        usual_length = median_of(list(self.lengths)) if is_jump and self.lengths else 0.0
        window.push(value)
        if length is not None:
            self.lengths.append(length)
        if not is_jump:
            return QUIET
        is_longer = length is not None and usual_length > 0.0 and length > self.limits["longer"] * usual_length
        is_cut = now.values.get("truncated_frac", 0.0) > self.limits["truncated"]
        return Reading(CRIT if is_longer or is_cut else WARN, value, usual, self.jump * usual)

    def headline(self, reading: Reading) -> str:
        """Before and after."""
        more = ", and answers grow longer or are cut off" if reading.level is CRIT else ""
        return f"entropy {number(reading.baseline or 0)} → {number(reading.value)} nats per token{more}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Before, after, line."""
        return levels(reading)


def levels(reading: Reading) -> tuple[Evidence, ...]:
    """Entropy now, what was usual, and the line, as far as the reading has them."""
    parts = [Evidence("entropy", reading.value, Unit.NATS)]
    if reading.baseline is not None:
        parts.append(Evidence("usual", reading.baseline, Unit.NATS))
    if reading.threshold is not None:
        parts.append(Evidence("threshold", reading.threshold, Unit.NATS))
    return tuple(parts)


FALL_CAUSES = (
    "no entropy or KL term",
    "learning rate too high",
    "symmetric clipping",
    "a reward with a trivial maximum",
    "groups too small",
)
RISE_CAUSES = (
    "training and inference that disagree",
    "stale rollouts",
    "negative samples that dominate",
    "sampling temperature",
)
NEXT = ("reward_mean", "zero_std_frac", "clip_frac", "off_policy_kl", "response_len_mean", "truncated_frac", "lr")
SOURCES = "Cui et al. 2025 (reward bought with entropy); ranges measured on published runs: 0.02 to 1.2 nats healthy."
_TWO_OF_THREE = {level: Patience(2, 3) for level in (INFO, WARN, CRIT)}

RULES = (
    RuleSpec(
        id="E1",
        title="entropy crash",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=EntropyCrash,
        condition="Below `warn` of the median of the 20 records before in 2 of 3: WARN; below `crit`: CRIT. The "
        "median must be "
        "above `floor`. INFO only on a solved task and without rollouts.",
        limits={"warn": 0.25, "crit": 0.15, "floor": 0.005},
        patience=_TWO_OF_THREE,
        warm_up=_MIN_SAMPLES,
        why="Losing entropy at once, not gradually, is a policy that has collapsed onto one answer; it rarely "
        "comes back.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E2",
        title="early collapse",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=EarlyCollapse,
        condition="Below `warn` of the first five records (which must be above `floor`) in 5 of 8, within the "
        "first `fast` steps; or within "
        "the first "
        "`until` records while the reward has not improved and contrast is lost (flat groups above `zero_share`, or "
        "the reward's deviation halved). Silent on a solved task.",
        limits={"warn": 0.15, "floor": 0.02, "fast": 60, "until": 200, "zero_share": 0.5},
        patience={INFO: Patience(5, 8), WARN: Patience(5, 8)},
        warm_up=3,
        applies=applicability.has_rollouts,
        why="Entropy is what reward is bought with; a healthy run spends three quarters of it in some 200 steps. "
        "Spent in "
        "a fraction of that, or without any reward, there is nothing left to buy with.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E4",
        title="entropy surge",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=EntropySurge,
        condition="Above `jump`× the median of the 50 records before and above `jump_floor`, 3 of 5 records: "
        "WARN, and CRIT with "
        "answers `longer` times the usual or more than `truncated` cut off.",
        limits={"jump": 2.0, "jump_floor": 0.3, "longer": 1.5, "truncated": 0.2},
        patience={level: Patience(3, 5) for level in (INFO, WARN, CRIT)},
        warm_up=_MIN_SAMPLES,
        applies=applicability.has_rollouts,
        why="Rising entropy is noise taking over: off-policy data, routing noise, or answers that no longer end.",
        causes=RISE_CAUSES,
        next=(
            "off_policy_kl",
            "response_len_mean",
            "truncated_frac",
            "reward_mean",
            "clip_frac_high",
            "staleness_mean",
        ),
        sources="rLLM issue 116 (rising is fine below 1, degraded at 2); " + SOURCES,
    ),
)
