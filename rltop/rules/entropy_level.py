"""Entropy levels: next to none, far too much, or in another unit.

No level is right for every model: what stands here is information, unless a
second sign says that it costs something.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.entropy import FALL_CAUSES, NEXT, RISE_CAUSES, SOURCES, levels
from rltop.rules.rule import INFO, QUIET, RELEASE, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.rolling import Frozen
from rltop.units import number

_SEQUENCE_SUM = 15.0
_HARDLY_BETTER = 0.005


class Exhausted(Judge):
    """E3: next to no entropy for long, and validation that no longer moves."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.info = limits["info"]
        self.best: float | None = None
        self.flat_for = 0

    def read(self, now: Moment) -> Reading | None:
        """Information; WARN once enough evaluations in a row have brought nothing."""
        value, score = now.values.get("entropy"), now.values.get("val_score")
        is_low = value is not None and value < self.info
        if score is not None:
            is_better = self.best is None or score > self.best + _HARDLY_BETTER
            self.flat_for = 0 if is_better or not is_low else self.flat_for + 1
            self.best = score if self.best is None else max(self.best, score)
        if value is None:
            return None
        if not is_low:
            self.flat_for = 0
            return QUIET
        reward = now.reward
        is_stuck = self.flat_for >= self.limits["evaluations"] and not (reward.is_high or reward.is_solved)
        return Reading(WARN if is_stuck else INFO, value, None, self.info)

    def headline(self, reading: Reading) -> str:
        """The level."""
        stuck = f", and {self.flat_for} evaluations in a row are no better" if reading.level >= WARN else ""
        return f"entropy {number(reading.value)} nats per token: little exploration is left{stuck}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Level and line."""
        return levels(reading)


class HighEntropy(Judge):
    """E5: entropy far above the start, and high in itself, for long."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.start = Frozen()
        self.high, self.rise = limits["warn"], limits["rise"]

    def read(self, now: Moment) -> Reading | None:
        """Both an absolute line and the run's own start; what looks like a sum over the sequence is left alone."""
        value = now.values.get("entropy")
        if value is None:
            return None
        start = self.start
        base = start.value
        if not start.is_final:
            start.push(value)
        factor = RELEASE if self.is_firing else 1.0
        if base is None or not self.high * factor < value < _SEQUENCE_SUM or value <= self.rise * factor * base:
            return QUIET
        return Reading(WARN, value, base, self.rise * base)

    def headline(self, reading: Reading) -> str:
        """Start and now."""
        return f"entropy {number(reading.baseline or 0)} → {number(reading.value)} nats per token since the start"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Now, start, line."""
        return levels(reading)


class SpentForNothing(Judge):
    """E7: most of the entropy is gone, whenever and however slowly, and the reward never rose for it."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.teacher = Frozen(skip=0, size=5, minimum=3)

    def read(self, now: Moment) -> Reading | None:
        """Against the first five records."""
        value = now.values.get("entropy")
        if value is None:
            return None
        start = self.start
        distance = now.values.get("kl_teacher")
        if distance is not None and not self.teacher.is_final:
            self.teacher.push(distance)
        if not start.is_final:
            start.push(value)
            return QUIET
        line = self.limits["warn"] * (start.value or 0.0)
        if value >= line:
            return QUIET
        if (start.value or 0.0) < self.limits["floor"] or now.record < self.limits["records"]:
            return QUIET
        if self._has_bought_something(now, distance):
            return QUIET
        return Reading(WARN, value, start.value, line)

    def _has_bought_something(self, now: Moment, distance: float | None) -> bool:
        reward = now.reward
        if reward.count and not reward.is_constant:
            return reward.has_gained or reward.is_high or reward.is_solved
        # Without a reward there is only the teacher to come closer to; without one logged, nothing can be said.
        base = self.teacher.value
        return distance is None or base is None or distance < self.limits["closer"] * base

    def headline(self, reading: Reading) -> str:
        """How much is gone."""
        return f"entropy {number(reading.baseline or 0)} → {number(reading.value)} nats, and nothing was gained for it"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Now, start, line."""
        return levels(reading)


class SequenceSum(Judge):
    """E6: an entropy that no vocabulary allows per token: a sum over the sequence."""

    def read(self, now: Moment) -> Reading | None:
        """An absolute line: 15 nats per token would be three million equally likely tokens."""
        if now.record > self.limits["records"]:
            return None
        value = now.values.get("entropy")
        if value is None:
            return None
        return Reading(INFO, value, None, self.limits["info"]) if value > self.limits["info"] else QUIET

    def headline(self, reading: Reading) -> str:
        """What the level means."""
        return f"entropy {number(reading.value)} looks like a sum over the sequence: only its changes are judged"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Level and line."""
        return levels(reading)


RULES = (
    RuleSpec(
        id="E3",
        title="entropy exhausted",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=Exhausted,
        condition="Below `info` nats per token in 20 records in a row: INFO; WARN where meanwhile `evaluations` "
        "evaluations in a row were no better than the best and the reward is not at its top.",
        limits={"info": 0.02, "evaluations": 3},
        patience={INFO: Patience(20, 20), WARN: Patience(20, 20)},
        applies=applicability.has_rollouts,
        why="Little exploration is left; some runs go on learning there, so it is information.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E5",
        title="entropy high",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=HighEntropy,
        condition="Above `warn` nats per token and above `rise`× the start in 10 of 15 records: WARN.",
        limits={"warn": 1.0, "rise": 2.0},
        patience={INFO: Patience(10, 15), WARN: Patience(10, 15)},
        warm_up=10,
        applies=applicability.has_rollouts,
        why="A policy that becomes less certain of every token is learning noise, however slowly.",
        causes=RISE_CAUSES,
        next=("off_policy_kl", "clip_frac_high", "staleness_mean", "reward_mean", "response_len_mean"),
        sources="rLLM issue 116 (rising is fine below 1, degraded at 2); base models start above 1, hence the start.",
    ),
    RuleSpec(
        id="E7",
        title="entropy for nothing",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=SpentForNothing,
        condition="Below `warn` of the first five records (which must be above `floor`) in 5 of 8, after `records` "
        "records, while the reward stands above the start by less than a quarter of its range; without a reward, while "
        "the KL to the teacher is above `closer` of its start: WARN.",
        limits={"warn": 0.15, "floor": 0.02, "records": 20, "closer": 0.7},
        patience={INFO: Patience(5, 8), WARN: Patience(5, 8)},
        warm_up=20,
        applies=applicability.has_rollouts,
        why="Entropy is what reward is bought with. A run that has spent it and has nothing to show cannot explore any "
        "more to find out why.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E6",
        title="entropy unit",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        judge=SequenceSum,
        condition="Above `info` in 5 of 5 records among the first `records`: INFO. Rules on levels leave such a run "
        "alone, rules on changes do not.",
        limits={"info": _SEQUENCE_SUM, "records": 50},
        patience={INFO: Patience(5, 5)},
        applies=applicability.has_rollouts,
        why="Some aggregations of the loss sum entropy over the answer; read as per token it would mean pure noise.",
        causes=("a loss that is aggregated as a sum over tokens", "a trainer that logs the entropy of the sequence"),
        next=("response_len_mean", "loss"),
        sources="veRL: entropy follows loss_agg_mode (ray_trainer.py); rLLM issue 391.",
    ),
)
