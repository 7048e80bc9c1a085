"""Detectors that several families share: one value against fixed thresholds.

Owns nothing but the comparison; metric and thresholds come from the rule that
uses it.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Level, Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding
from rltop.units import measure


class _AgainstLines(Detector):
    """A value against the thresholds `info`, `warn` and `crit`, whichever are given."""

    def __init__(
        self,
        thresholds: Mapping[str, float],
        *,
        metric: str,
        text: str,
        unit: Unit = Unit.NONE,
    ) -> None:
        """Compare one metric.

        Args:
            thresholds: `info`, `warn`, `crit`, at least one of them.
            metric: canonical name of what is compared.
            text: the headline, with {value} and {threshold} in it.
            unit: of value and thresholds.
        """
        super().__init__(thresholds)
        self.metric = metric
        self.text = text
        self.unit = unit
        names = ((CRIT, "crit"), (WARN, "warn"), (INFO, "info"))
        self.lines: tuple[tuple[Level, float], ...] = tuple(
            (level, thresholds[name]) for level, name in names if name in thresholds
        )

    def headline(self, finding: Finding) -> str:
        """The rule's headline with value and threshold in it."""
        threshold = measure(finding.threshold or 0.0, self.unit)
        return self.text.format(value=measure(finding.value, self.unit), threshold=threshold)

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Value and threshold, under the name of the metric."""
        return EvidenceNames(self.metric, "", self.unit).of(finding)


class Above(_AgainstLines):
    """A value above a threshold.

    While the rule fires the threshold is 0.8 of itself, so that a value at the
    threshold does not flicker.
    """

    def detect(self, context: RuleContext) -> Finding | None:
        """Compare this record's value with the thresholds, worst first."""
        value = context.values.get(self.metric)
        if value is None:
            return None
        for level, line in self.lines:
            if value > line * self.held_part(level):
                return Finding(level, value, None, line)
        return QUIET


class Below(_AgainstLines):
    """A value below a threshold.

    While the rule fires the threshold is 1.25 of itself, the mirror of `Above`.
    """

    def detect(self, context: RuleContext) -> Finding | None:
        """Compare this record's value with the thresholds, worst first."""
        value = context.values.get(self.metric)
        if value is None:
            return None
        for level, line in self.lines:
            if value < line / self.held_part(level):
                return Finding(level, value, None, line)
        return QUIET
