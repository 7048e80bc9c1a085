"""Memorisation: near-perfect training accuracy, contradicted by an evaluation.

For preference pairs (D2) and for reward models (RM1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.model import Evidence
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, EvidenceNames, Finding
from rltop.stats.rolling import Window
from rltop.units import number, percent

_LEVEL = 10
"""Records that a training level is the median of."""
_FALLEN = 0.9
_NOT_BETTER, _RISEN = 2, 1.02
"""Evaluations without a new best, and how far above the best a loss has risen and not merely wobbled."""


class _Best:
    """The newest of some evaluations, the best, and how many came since that; `sign` 1.0 where less is better."""

    def __init__(self, sign: float) -> None:
        self.sign = sign
        self.newest: float | None = None
        self.best: float | None = None
        self.since = 0

    def clone(self) -> _Best:
        """An independent copy."""
        twin = _Best(self.sign)
        twin.newest, twin.best, twin.since = self.newest, self.best, self.since
        return twin

    def observe(self, value: float | None) -> None:
        """Take an evaluation in, if there was one."""
        if value is None:
            return
        self.newest = value
        self.since += 1
        if self.best is None or self.sign * value < self.sign * self.best:
            self.best, self.since = value, 0


class LearnedByHeart(Detector):
    """D2 and RM1: training accuracy near 1, contradicted by an evaluation.

    The sign is a lower evaluation accuracy, or an evaluation loss that rises from its
    best and is a multiple of the training loss: the ranking of easy pairs outlasts their
    margin. A much lower accuracy counts before training is perfect. Where nothing is
    evaluated, several passes over the same pairs are sign enough.
    """

    def __init__(self, thresholds: Mapping[str, float], *, metric: str, not_better: int) -> None:
        """Watch one accuracy.

        Args:
            thresholds: by name.
            metric: canonical name of the training accuracy.
            not_better: evaluations since the best one, at least; 0 asks for none.
        """
        super().__init__(thresholds)
        self.metric, self.not_better = metric, not_better
        self.window = Window(_LEVEL)
        self.losses = Window(_LEVEL)
        self.first_loss: float | None = None
        self.accuracy, self.loss = _Best(-1.0), _Best(1.0)

    def clone(self) -> LearnedByHeart:
        """An independent copy."""
        twin = super().clone()
        twin.accuracy, twin.loss = self.accuracy.clone(), self.loss.clone()
        return twin

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of ten records against the newest evaluation."""
        values = context.values
        self.accuracy.observe(values.get("val_acc"))
        self.loss.observe(values.get("val_loss"))
        loss, value = values.get("loss"), values.get(self.metric)
        if loss is not None:
            self.losses.push(loss)
            if self.first_loss is None:
                self.first_loss = loss
        if value is None or values.get("grad_norm") == 0.0:
            # Where nothing moves nothing is memorised.
            return None
        self.window.push(value)
        if self.window.count < _LEVEL:
            return QUIET
        usual = self.window.median
        if usual < self.thresholds["warn"] and not self._is_far_apart(usual):
            return QUIET
        is_known = usual >= self.thresholds["warn"] and (self._is_worse(usual) or self._is_dearer())
        level = WARN if is_known or self._is_far_apart(usual) or self._is_worn_out(values.get("epoch")) else INFO
        loss_now = math.nan if self.loss.newest is None else self.loss.newest
        return Finding(
            level, usual, self.accuracy.newest, self.thresholds["warn"], (loss_now, values.get("epoch", 0.0))
        )

    def _is_worse(self, accuracy: float) -> bool:
        newest = self.accuracy.newest
        return (
            newest is not None and newest < accuracy - self.thresholds["gap"] and self.accuracy.since >= self.not_better
        )

    def _is_far_apart(self, accuracy: float) -> bool:
        """The distance is beyond the noise of an evaluation of fifty pairs (four of its standard errors are 0.28)."""
        return self.accuracy.newest is not None and self.accuracy.newest < accuracy - self.thresholds["apart"]

    def _is_worn_out(self, epoch: float | None) -> bool:
        is_unchecked = self.accuracy.newest is None and self.loss.newest is None
        return is_unchecked and epoch is not None and epoch >= self.thresholds["epochs"] and self._has_learned()

    def _has_learned(self) -> bool:
        """The loss has fallen: what was right from the first record on has not been learned here."""
        return self.first_loss is None or self.losses.median < _FALLEN * self.first_loss

    def _is_dearer(self) -> bool:
        newest, best = self.loss.newest, self.loss.best
        if newest is None or best is None or self.losses.count < _LEVEL or self.loss.since < _NOT_BETTER:
            return False
        return newest > _RISEN * best and newest > self.thresholds["behind"] * self.losses.median

    def headline(self, finding: Finding) -> str:
        """Training and evaluation."""
        text = f"training accuracy {percent(finding.value)}"
        loss = finding.extra[0]
        if finding.level >= WARN and self._is_dearer():
            return f"{text}; evaluation loss {number(loss)} (best {number(self.loss.best or 0.0)})"
        if finding.baseline is not None:
            return f"{text}, evaluation accuracy {percent(finding.baseline)}"
        if not math.isnan(loss):
            return f"{text}; evaluation loss {number(loss)} (best {number(self.loss.best or 0.0)})"
        seen = f" after {number(finding.extra[1])} epochs" if finding.level >= WARN else ""
        return f"{text}{seen}; no evaluation to compare with"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Training and evaluation."""
        loss = finding.extra[0]
        return (*names.of(finding), *(() if math.isnan(loss) else (Evidence("evaluation loss", loss),)))
