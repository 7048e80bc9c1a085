"""Detectors that several families share: a number against fixed lines, or slowly away from the start.

Owns nothing but the comparison; metric and thresholds come from the rule that
uses it. What creeps names a line (a multiple of the start, with a floor below which it does not matter) and
an end: halfway back, on a log scale; what would explain it is looked at before anything is raised.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, Finding, State
from rltop.stats.rolling import Frozen


class Line(Detector):
    """A number above a line, or below one: the thresholds `info`, `warn` and `crit`, whichever are given, worst first.

    While the rule fires the line is 0.8 of itself (1.25 where a number must not be below it), so that a value at the
    line does not flicker, unless `is_held` is False.
    """

    metric = ""
    is_held = True

    def __init__(
        self, thresholds: Mapping[str, float], metric: str = "", text: str = "", *, is_below: bool = False
    ) -> None:
        """`thresholds`: at least one of `info`, `warn`, `crit`; `is_below`: what is below a line is bad, not above."""
        super().__init__(thresholds)
        self.metric, self.text = metric or self.metric, text or self.text
        self.is_below = is_below
        names = ((CRIT, "crit"), (WARN, "warn"), (INFO, "info"))
        self.lines = tuple([(level, thresholds[name]) for level, name in names if name in thresholds])
        lines = [line for _, line in self.lines]
        # Nothing on the good side of this can cross a line.
        self.edge = max(lines) / RELEASE if is_below else min(lines) * RELEASE

    def says_nothing(self, context: RuleContext) -> bool:
        """Whether a record is passed over although it logs the metric."""
        return False

    def detect(self, context: RuleContext) -> Finding | None:
        value = context.values.get(self.metric)
        if value is None or self.says_nothing(context):
            return None
        if value >= self.edge if self.is_below else value <= self.edge:
            return QUIET
        for level, line in self.lines:
            held = self.held_part(level) if self.is_held else 1.0
            if value < line / held if self.is_below else value > line * held:
                return Finding(level, value, None, line)
        return QUIET


START_VALUES, _MINIMUM = 8, 5
"""Values behind what something was at the start: few, because a slow rise is in them too."""
BEFORE = "median before"
"""Of the records just before, where a rule compares with these."""


class Creep(Detector):
    """A level that is a multiple of the start; subclasses say what it is, and what would explain it."""

    start = Frozen(skip=0, size=START_VALUES, minimum=_MINIMUM)
    line = math.inf
    release = math.inf

    def read(self, context: RuleContext) -> float | None:
        """The level in this record, or None where it is not logged."""
        raise NotImplementedError

    def is_explained(self, context: RuleContext, factor: float) -> bool:
        """Whether something else grew as well, so that a rise by `factor` (infinite from 0) is expected."""
        return False

    def detect(self, context: RuleContext) -> Finding | None:
        value = self.read(context)
        if value is None:
            return None
        if value <= (self.release if self.is_firing else self.line) and self.start.is_final:
            return QUIET
        if not self.start.is_final:
            self._learn(value)
            return QUIET
        base = self.start.value or 0.0
        if self.is_explained(context, value / base if base > 0.0 else math.inf):
            return QUIET
        return Finding(WARN, value, base, self.line)

    def _learn(self, value: float) -> None:
        start, thresholds = self.start, self.thresholds
        start.push(value)
        base = start.value
        if base is None or not start.is_final:
            return
        noise = base + thresholds["sigmas"] * start.spread
        self.line = max(thresholds["warn"] * base, thresholds["floor"], noise)
        self.release = self.line / math.sqrt(thresholds["warn"])


class Grown(State):
    """How many times its start something is, where it is logged."""

    start = Frozen(skip=0, size=START_VALUES, minimum=_MINIMUM)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def note(self, values: Mapping[str, float]) -> None:
        """Take the baseline in; free of charge once it is final."""
        if not self.start.is_final and self.name in values:
            self.start.push(values[self.name])

    def factor(self, values: Mapping[str, float]) -> float | None:
        """Now over the start; None where either is not known or not positive."""
        value, base = values.get(self.name), self.start.value
        return None if value is None or base is None or base <= 0.0 else value / base
