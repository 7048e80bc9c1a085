"""The schedule: facts about steps and learning rate that explain what comes after.

A change of the learning rate is what to check first when loss, KL and gradient
jump together; on its own it is information.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding
from rltop.units import number

_STEADY = 1.5
_STRAIGHT = 0.05
"""A step of a straight line differs from the one before by no more than this share of it: rates are rounded."""
_UNSTABLE = ("gradient", "loss", "kl", "clip", "ratio", "entropy", "nonfinite", "collapse")


class LearningRateChange(Detector):
    """L8: the learning rate jumps where no smooth schedule explains it."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.last: float | None = None
        self.last_ratio = inf
        """Unknown: two records are no schedule yet, and those of a warm-up may be far apart."""
        self.last_change = 0.0
        self.highest = 0.0
        self.settled = 0
        self.jumped: Finding | None = None
        self.jumped_for = 0
        self.raised: Finding | None = None
        self.raised_at = 0
        self.place: tuple[int, int] | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        value = context.values.get("lr")
        if value is None:
            return None
        before = self.last
        if self.raised is not None:
            self._look_for_consequences(context)
        if value == before and self.jumped is None:
            self.settled += value > 0.0
            self.last_ratio, self.last_change = 1.0, 0.0
            return QUIET
        finding = self._compare(value, before)
        if finding.level == INFO and finding.extra[0] > 1.0:
            self.raised, self.raised_at = finding, context.record
            self.place = context.observation.record, context.observation.step
        self.last = value
        # A rate that still rises is warming up; one that has stopped has reached its peak.
        self.settled = 0 if before is None or value > before else self.settled + (value > 0.0)
        self.highest = max(self.highest, value)
        return finding

    def _look_for_consequences(self, context: RuleContext) -> None:
        near = self.thresholds["near"]
        assert self.raised is not None
        if any(abs(context.alarms.get(family, -inf) - self.raised_at) <= near for family in _UNSTABLE):
            self.jumped, self.jumped_for, self.raised = self.raised._replace(level=WARN, words=("shaken",)), 0, None
        elif context.record - self.raised_at > near:
            self.raised = None

    def _compare(self, value: float, before: float | None) -> Finding:
        if self.jumped is not None:
            self.jumped_for += 1
            if self.jumped_for < self.thresholds["shown"]:
                self.last_ratio = 1.0
                return self.jumped
            self.jumped, self.jumped_for = None, 0
        if before is None or before <= 0.0 or value <= 0.0:
            self.last_ratio, self.last_change = inf, 0.0 if before is None else value - before
            return QUIET
        ratio, change = value / before, value - before
        was_steady = 1.0 / _STEADY <= self.last_ratio <= _STEADY
        is_straight = abs(change - self.last_change) <= _STRAIGHT * abs(self.last_change)
        self.last_ratio, self.last_change = ratio, change
        if not was_steady or is_straight or 1.0 / self.thresholds["info"] <= ratio <= self.thresholds["info"]:
            return QUIET
        is_new_height = value >= self.thresholds["warn"] * self.highest and self.settled >= self.thresholds["settled"]
        finding = Finding(WARN if is_new_height else INFO, value, before, None, (ratio,))
        self.jumped = finding if is_new_height else None
        return finding

    def began(self) -> tuple[int, int] | None:
        return self.place if self.jumped is not None and self.jumped.words else None

    def headline(self, finding: Finding) -> str:
        ratio = finding.extra[0]
        how = f"{number(ratio)}× higher" if ratio > 1 else f"{number(1 / ratio)}× lower"
        unseen = ", highest in this run" if finding.level >= WARN else ""
        if finding.words:
            unseen = "; optimiser unstable within a few records"
        return f"learning rate {finding.baseline:.3g} → {finding.value:.3g}: {how}{unseen}"


class StuckLearningRate(Detector):
    """L9: the learning rate stays 0 while gradients flow, or dropped to 0 off schedule."""

    last = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        value = context.values.get("lr")
        if value is None:
            return None
        if value != 0.0:
            self.last = value
            return QUIET
        is_skipping = context.record <= self.thresholds["until"] and "grad_norm" in context.observation.nonfinite
        if is_skipping:
            return Finding(CRIT, 0.0)
        if self.last > self.thresholds["height"] * context.top_lr:
            return Finding(WARN, 0.0, self.last)
        return QUIET if context.record > self.thresholds["until"] else Finding(INFO, 0.0)

    def headline(self, finding: Finding) -> str:
        if finding.level >= CRIT:
            return "learning rate stuck at 0 with NaN/Inf gradients: every update is skipped"
        if finding.level >= WARN:
            return f"learning rate {finding.baseline or 0.0:.3g} → 0 within one record: no more updates"
        return "learning rate still 0: warm-up has not started"
