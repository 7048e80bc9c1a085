"""Entropy: the exploration budget, and what a sudden change of it means.

No absolute level is valid across models, and every run that learns from
verifiable rewards spends most of its entropy: only a discontinuity, or a fall
that buys no reward, is a fault.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.derive.detectors import OfLast
from rltop.derive.rolling import Frozen, Window
from rltop.health import scope
from rltop.health.moment import Moment
from rltop.health.rule import CRIT, INFO, QUIET, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.model import Evidence, Unit
from rltop.units import number, percent

_MIN_SAMPLES = 10
_SEQUENCE_SUM = 15.0


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
        if value >= self.warn * window.ceiling:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if known < _MIN_SAMPLES or value >= self.warn * usual or usual <= self.floor:
            return QUIET
        level = CRIT if value < self.crit * usual else WARN
        if now.reward.is_solved or not scope.has_rollouts(now.algorithm, now.traits):
            level = INFO
        return Reading(level, value, usual, self.warn * usual)

    def headline(self, reading: Reading) -> str:
        """Before and after."""
        return f"entropy {number(reading.baseline or 0)} → {number(reading.value)} nats within a few records"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Before, after, line."""
        return _evidence(reading)


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
        if value is None or now.record > self.limits["until"]:
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
        if base is None or base < self.limits["floor"] or value >= self.limits["warn"] * base or now.reward.is_solved:
            return QUIET
        is_fast = now.observation.step - self.first_step <= self.limits["fast"]
        if not is_fast and not self._has_bought_nothing(now, spread):
            return QUIET
        return Reading(WARN, value, base, self.limits["warn"] * base)

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
        return _evidence(reading)


class Exhausted(Judge):
    """E3: next to no entropy for long: information, because runs go on learning there."""

    def read(self, now: Moment) -> Reading | None:
        """An absolute line, as information only."""
        value = now.values.get("entropy")
        if value is None:
            return None
        return Reading(INFO, value, None, self.limits["info"]) if value < self.limits["info"] else QUIET

    def headline(self, reading: Reading) -> str:
        """The level."""
        return f"entropy {number(reading.value)} nats per token: little exploration is left"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Level and line."""
        return _evidence(reading)


class EntropySurge(Judge):
    """E4 and E5: entropy runs away upwards, suddenly or for good."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(50)
        self.start = Frozen()
        self.length = Window(50)
        self.jump, self.jump_floor, self.high = limits["jump"], limits["jump_floor"], limits["high"]
        self.sudden = OfLast(3, 5)
        self.lasting = OfLast(10, 15)

    def read(self, now: Moment) -> Reading | None:
        """Keeps its own patience, because the two ways differ in theirs."""
        value = now.values.get("entropy")
        if value is None:
            return None
        window, start, limits = self.window, self.start, self.limits
        length = now.values.get("response_len_mean")
        base, is_ready = start.value, window.count >= _MIN_SAMPLES
        is_jump = is_ready and value > self.jump_floor and value > self.jump * window.floor
        usual = window.median if is_jump else 0.0
        is_jump = is_jump and value > self.jump * usual
        is_high = base is not None and self.high < value < _SEQUENCE_SUM and value > limits["rise"] * base
        window.push(value)
        if base is None or not start.is_final:
            start.push(value)
        is_calm = not (is_jump or is_high or self.sudden.bits or self.lasting.bits)
        usual_length = 0.0 if is_calm else self.length.median
        if length is not None:
            self.length.push(length)
        if is_calm:
            return QUIET
        jumped, stays = self.sudden.push(is_jump), self.lasting.push(is_high)
        if is_jump and jumped:
            is_longer = length is not None and usual_length > 0.0 and length > 1.5 * usual_length
            is_cut = now.values.get("truncated_frac", 0.0) > limits["truncated"]
            return Reading(CRIT if is_longer or is_cut else WARN, value, usual, limits["jump"] * usual)
        if is_high and stays and base is not None:
            return Reading(WARN, value, base, limits["rise"] * base)
        return QUIET

    def headline(self, reading: Reading) -> str:
        """Before and after."""
        more = ", and answers grow longer or are cut off" if reading.level is CRIT else ""
        return f"entropy {number(reading.baseline or 0)} → {number(reading.value)} nats per token{more}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Before, after, line."""
        return _evidence(reading)


def _evidence(reading: Reading) -> tuple[Evidence, ...]:
    parts = [Evidence("entropy", reading.value, Unit.NATS)]
    if reading.baseline is not None:
        parts.append(Evidence("usual", reading.baseline, Unit.NATS))
    if reading.threshold is not None:
        parts.append(Evidence("threshold", reading.threshold, Unit.NATS))
    return tuple(parts)


_FALL_CAUSES = (
    "no entropy or KL term",
    "learning rate too high",
    "symmetric clipping",
    "a reward with a trivial maximum",
    "groups too small",
)
_RISE_CAUSES = (
    "training and inference that disagree",
    "stale rollouts",
    "negative samples that dominate",
    "sampling temperature",
)
_NEXT = ("reward_mean", "zero_std_frac", "clip_frac", "off_policy_kl", "response_len_mean", "truncated_frac", "lr")
_SOURCES = "Cui et al. 2025 (reward bought with entropy); ranges measured on published runs: 0.02 to 1.2 nats healthy."
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
        causes=_FALL_CAUSES,
        next=_NEXT,
        sources=_SOURCES,
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
        applies=scope.has_rollouts,
        why="Entropy is what reward is bought with; a healthy run spends three quarters of it in some 200 steps. "
        "Spent in "
        "a fraction of that, or without any reward, there is nothing left to buy with.",
        causes=_FALL_CAUSES,
        next=_NEXT,
        sources=_SOURCES,
    ),
    RuleSpec(
        id="E3",
        title="entropy exhausted",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=Exhausted,
        condition="Below `info` nats per token in 20 records in a row: INFO.",
        limits={"info": 0.02},
        patience={INFO: Patience(20, 20)},
        applies=scope.has_rollouts,
        why="Little exploration is left; some runs go on learning there, so it is information.",
        causes=_FALL_CAUSES,
        next=_NEXT,
        sources=_SOURCES,
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
        "answers half as long again or more than `truncated` cut off. Above `high` and `rise`× the start in 10 "
        "of 15: WARN.",
        limits={"jump": 2.0, "jump_floor": 0.3, "high": 1.0, "rise": 2.0, "truncated": 0.2},
        calm=5,
        warm_up=_MIN_SAMPLES,
        applies=scope.has_rollouts,
        why="Rising entropy is noise taking over: off-policy data, routing noise, or answers that no longer end.",
        causes=_RISE_CAUSES,
        next=(
            "off_policy_kl",
            "response_len_mean",
            "truncated_frac",
            "reward_mean",
            "clip_frac_high",
            "staleness_mean",
        ),
        sources="rLLM issue 116 (rising is fine below 1, degraded at 2); " + _SOURCES,
    ),
)
