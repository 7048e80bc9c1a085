"""Learned by heart: everything told apart in training, and an evaluation that says otherwise.

For preference pairs (D2) and for reward models (RM1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.derive.rolling import AskedWindow
from rltop.health.moment import Moment
from rltop.health.rule import INFO, QUIET, WARN, Judge, Reading
from rltop.model import Evidence, Unit
from rltop.units import number, percent

_LEVEL = 10
"""Records that a training level is the median of."""
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


class LearnedByHeart(Judge):
    """D2 and RM1: training accuracy of nearly 1, with an evaluation that says otherwise.

    It says so by an accuracy that is lower, or by a loss that rises from its best and
    is a multiple of the training loss: the ranking of easy pairs outlasts their margin.
    """

    def __init__(self, limits: Mapping[str, float], *, metric: str) -> None:
        super().__init__(limits)
        self.metric = metric
        self.window = AskedWindow(_LEVEL)
        self.losses = AskedWindow(_LEVEL)
        self.accuracy, self.loss = _Best(-1.0), _Best(1.0)

    def clone(self) -> LearnedByHeart:
        """An independent copy."""
        twin = super().clone()
        twin.accuracy, twin.loss = self.accuracy.clone(), self.loss.clone()
        return twin

    def read(self, now: Moment) -> Reading | None:
        """Median of ten records against the newest evaluation."""
        values = now.values
        self.accuracy.observe(values.get("val_acc"))
        self.loss.observe(values.get("val_loss"))
        loss, value = values.get("loss"), values.get(self.metric)
        if loss is not None:
            self.losses.push(loss)
        if value is None:
            return None
        self.window.push(value)
        if self.window.count < _LEVEL or self.window.median < self.limits["warn"]:
            return QUIET
        level = WARN if self._is_worse(self.window.median) or self._is_dearer() else INFO
        loss_now = math.nan if self.loss.newest is None else self.loss.newest
        return Reading(level, self.window.median, self.accuracy.newest, self.limits["warn"], (loss_now,))

    def _is_worse(self, accuracy: float) -> bool:
        newest = self.accuracy.newest
        return newest is not None and newest < accuracy - self.limits["gap"] and self.accuracy.since >= _NOT_BETTER

    def _is_dearer(self) -> bool:
        newest, best = self.loss.newest, self.loss.best
        if newest is None or best is None or self.losses.count < _LEVEL or self.loss.since < _NOT_BETTER:
            return False
        return newest > _RISEN * best and newest > self.limits["behind"] * self.losses.median

    def headline(self, reading: Reading) -> str:
        """Training and evaluation."""
        text = f"training accuracy {percent(reading.value)}"
        loss = reading.extra[0]
        if reading.level >= WARN and self._is_dearer():
            return f"{text}, evaluation loss {number(loss)}, best {number(self.loss.best or 0.0)}"
        if reading.baseline is not None:
            return f"{text}, evaluation {percent(reading.baseline)}"
        if not math.isnan(loss):
            return f"{text}, evaluation loss {number(loss)}, best {number(self.loss.best or 0.0)}"
        return f"{text} and no evaluation to compare it with"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Training and evaluation."""
        parts = [Evidence("training accuracy", reading.value, Unit.FRACTION)]
        if reading.baseline is not None:
            parts.append(Evidence("evaluation accuracy", reading.baseline, Unit.FRACTION))
        if not math.isnan(reading.extra[0]):
            parts.append(Evidence("evaluation loss", reading.extra[0]))
        return tuple(parts)
