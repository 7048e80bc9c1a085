"""Entropy levels: next to none, far too much, or in another unit.

No level is right for every model: what stands here is information, unless a
second sign says that it costs something.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.entropy import FALL_CAUSES, NEXT, RISE_CAUSES, SOURCES
from rltop.rules.rule import INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen
from rltop.units import number

_SEQUENCE_SUM = 15.0
_HARDLY_BETTER = 0.005


class Exhausted(Detector):
    """E3: next to no entropy for long, and validation that no longer moves."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.info = thresholds["info"]
        self.best: float | None = None
        self.flat_for = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """Information; WARN once enough evaluations in a row have brought nothing."""
        value, score = context.values.get("entropy"), context.values.get("val_score")
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
        reward = context.reward
        is_stuck = self.flat_for >= self.thresholds["evaluations"] and not (reward.is_high or reward.is_solved)
        return Finding(WARN if is_stuck else INFO, value, None, self.info)

    def headline(self, finding: Finding) -> str:
        """The level."""
        stuck = f", and {self.flat_for} evaluations in a row are no better" if finding.level >= WARN else ""
        return f"entropy {number(finding.value)} nats per token: little exploration is left{stuck}"


class HighEntropy(Detector):
    """E5: entropy far above the start, and high in itself, for long."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()
        self.high, self.rise = thresholds["warn"], thresholds["rise"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Both an absolute line and the run's own start; what looks like a sum over the sequence is left alone."""
        value = context.values.get("entropy")
        if value is None:
            return None
        start = self.start
        base = start.value
        if not start.is_final:
            start.push(value)
        factor = RELEASE if self.is_firing else 1.0
        if base is None or not self.high * factor < value < _SEQUENCE_SUM or value <= self.rise * factor * base:
            return QUIET
        return Finding(WARN, value, base, self.rise * base)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats per token since the start"


class SpentForNothing(Detector):
    """E7: most of the entropy is gone, whenever and however slowly, and the reward never rose for it."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.teacher = Frozen(skip=0, size=5, minimum=3)

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the first five records."""
        value = context.values.get("entropy")
        if value is None:
            return None
        start = self.start
        distance = context.values.get("kl_teacher")
        if distance is not None and not self.teacher.is_final:
            self.teacher.push(distance)
        if not start.is_final:
            start.push(value)
            return QUIET
        line = self.thresholds["warn"] * (start.value or 0.0)
        if value >= line:
            return QUIET
        if (start.value or 0.0) < self.thresholds["floor"] or context.record < self.thresholds["records"]:
            return QUIET
        if self._has_bought_something(context, distance):
            return QUIET
        return Finding(WARN, value, start.value, line)

    def _has_bought_something(self, context: RuleContext, distance: float | None) -> bool:
        reward = context.reward
        if reward.count and not reward.is_constant:
            return reward.has_gained or reward.is_high or reward.is_solved
        # Without a reward there is only the teacher to come closer to; without one logged, nothing can be said.
        base = self.teacher.value
        return distance is None or base is None or distance < self.thresholds["closer"] * base

    def headline(self, finding: Finding) -> str:
        """How much is gone."""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats, and nothing was gained for it"


class SequenceSum(Detector):
    """E6: an entropy that no vocabulary allows per token: a sum over the sequence."""

    def detect(self, context: RuleContext) -> Finding | None:
        """An absolute line: 15 nats per token would be three million equally likely tokens."""
        if context.record > self.thresholds["records"]:
            return None
        value = context.values.get("entropy")
        if value is None:
            return None
        return Finding(INFO, value, None, self.thresholds["info"]) if value > self.thresholds["info"] else QUIET

    def headline(self, finding: Finding) -> str:
        """What the level means."""
        return f"entropy {number(finding.value)} looks like a sum over the sequence: only its changes are judged"


RULES = (
    RuleSpec(
        id="E3",
        title="entropy exhausted",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=Exhausted,
        condition="Below `info` nats per token in 20 records in a row: INFO; WARN where meanwhile `evaluations` "
        "evaluations in a row were no better than the best and the reward is not at its top.",
        thresholds={"info": 0.02, "evaluations": 3},
        n_of_m={INFO: NOfM(20, 20), WARN: NOfM(20, 20)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "usual", Unit.NATS),
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
        detector=HighEntropy,
        condition="Above `warn` nats per token and above `rise`× the start in 10 of 15 records: WARN.",
        thresholds={"warn": 1.0, "rise": 2.0},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(10, 15)},
        warm_up=10,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "usual", Unit.NATS),
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
        detector=SpentForNothing,
        condition="Below `warn` of the first five records (which must be above `floor`) in 5 of 8, after `records` "
        "records, while the reward stands above the start by less than a quarter of its range; without a reward, while "
        "the KL to the teacher is above `closer` of its start: WARN.",
        thresholds={"warn": 0.15, "floor": 0.02, "records": 20, "closer": 0.7},
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=20,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "usual", Unit.NATS),
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
        detector=SequenceSum,
        condition="Above `info` in 5 of 5 records among the first `records`: INFO. Rules on levels leave such a run "
        "alone, rules on changes do not.",
        thresholds={"info": _SEQUENCE_SUM, "records": 50},
        n_of_m={INFO: NOfM(5, 5)},
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "usual", Unit.NATS),
        why="Some aggregations of the loss sum entropy over the answer; read as per token it would mean pure noise.",
        causes=("a loss that is aggregated as a sum over tokens", "a trainer that logs the entropy of the sequence"),
        next=("response_len_mean", "loss"),
        sources="veRL: entropy follows loss_agg_mode (ray_trainer.py); rLLM issue 391.",
    ),
)
