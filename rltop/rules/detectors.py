"""Judges that several families share: one value against fixed lines.

Owns nothing but the comparison; which metric and which lines is said by the
rule that uses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rltop.model import Evidence, Level, Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding
from rltop.units import measure


class Above(Detector):
    """A value above a line: limits `info`, `warn` and `crit`, whichever are given.

    While the rule fires the line is 0.8 of itself, so that a value at the line
    does not flicker.
    """

    def __init__(
        self,
        thresholds: Mapping[str, float],
        *,
        metric: str,
        text: str,
        unit: Unit = Unit.NONE,
        transform: Callable[[float], float] | None = None,
    ) -> None:
        super().__init__(thresholds)
        self.metric = metric
        self.text = text
        self.unit = unit
        self.transform = transform
        lines = [(CRIT, "crit"), (WARN, "warn"), (INFO, "info")]
        self.lines: tuple[tuple[Level, float], ...] = tuple(
            (level, thresholds[name]) for level, name in lines if name in thresholds
        )
        self.lowest = min(line for _, line in self.lines)

    def detect(self, context: RuleContext) -> Finding | None:
        """Compare this record's value with the lines, worst first."""
        value = context.values.get(self.metric)
        if value is None:
            return None
        if self.transform is not None:
            value = self.transform(value)
        factor = RELEASE if self.is_firing else 1.0
        if value <= self.lowest * factor:
            return QUIET
        for level, line in self.lines:
            if value > line * factor:
                return Finding(level, value, None, line)
        return QUIET

    def headline(self, finding: Finding) -> str:
        """The rule's sentence with value and line in it."""
        line = measure(finding.threshold or 0.0, self.unit)
        return self.text.format(value=measure(finding.value, self.unit), line=line)

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Value and line."""
        return EvidenceNames(self.metric, "", self.unit).of(finding)


class Below(Detector):
    """A value below a line: limits `info`, `warn` and `crit`, whichever are given.

    While the rule fires the line is 1.25 of itself, the mirror of `Above`.
    """

    def __init__(self, thresholds: Mapping[str, float], *, metric: str, text: str, unit: Unit = Unit.NONE) -> None:
        super().__init__(thresholds)
        self.metric = metric
        self.text = text
        self.unit = unit
        lines = [(CRIT, "crit"), (WARN, "warn"), (INFO, "info")]
        self.lines: tuple[tuple[Level, float], ...] = tuple(
            (level, thresholds[name]) for level, name in lines if name in thresholds
        )
        self.highest = max(line for _, line in self.lines)

    def detect(self, context: RuleContext) -> Finding | None:
        """Compare this record's value with the lines, worst first."""
        value = context.values.get(self.metric)
        if value is None:
            return None
        factor = 1.0 / RELEASE if self.is_firing else 1.0
        if value >= self.highest * factor:
            return QUIET
        for level, line in self.lines:
            if value < line * factor:
                return Finding(level, value, None, line)
        return QUIET

    def headline(self, finding: Finding) -> str:
        """The rule's sentence with value and line in it."""
        line = measure(finding.threshold or 0.0, self.unit)
        return self.text.format(value=measure(finding.value, self.unit), line=line)

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Value and line."""
        return EvidenceNames(self.metric, "", self.unit).of(finding)
