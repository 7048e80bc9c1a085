"""Preference training, in detail: runaway and collapsing margins, KTO, the score scale of a reward model.

A margin is a mean over a batch of pairs and swings by as much as its size; a loss
on pairs is the one objective whose value at chance is known.
"""

from __future__ import annotations

import math
from collections import deque

from rltop.model import Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, Finding
from rltop.stats.rolling import Window, mean_and_error, median_of
from rltop.units import number

_LEVEL = 10
_MIN_SAMPLES = 10


class MarginRunsAway(Detector):
    """D4: the margin on training pairs grows far beyond what evaluation pairs show."""

    window = Window(_LEVEL)
    evaluated: float | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of ten against the newest evaluation, and against an INFO threshold."""
        values, thresholds = context.values, self.thresholds
        self.evaluated = values.get("val_margin", self.evaluated)
        value = values.get("dpo_margin")
        if value is None:
            return None
        self.window.push(value)
        if self.window.median <= thresholds["floor"] or self.window.count < _LEVEL:
            return QUIET
        level, evaluated = self.window.median, self.evaluated
        if evaluated is not None and level > thresholds["floor"] and level > thresholds["warn"] * max(evaluated, 0.0):
            return Finding(WARN, level, evaluated, thresholds["warn"] * max(evaluated, 0.0))
        return Finding(INFO, level, evaluated, thresholds["info"]) if level > thresholds["info"] else QUIET

    def headline(self, finding: Finding) -> str:
        if finding.baseline is None:
            return f"reward margin {number(finding.value)} on training pairs; no evaluation margin logged"
        return (
            f"reward margin {number(finding.value)} on training pairs, {number(finding.baseline)} on evaluation pairs"
        )


_HELD, _RECENT, _IN_A_ROW = 20, 5, 3
_FEW = 8
_LEARNED = 4.0
"""Standard errors above 0 that a margin must have been: what was never learned cannot be lost."""


class PreferenceLost(Detector):
    """D8 and RM4: the margin drops from its level from one record to the next.

    The median of the newest five records against the mean of the twenty before them: near 0
    is left of it, and Welch's test with the spread of the twenty says `sigmas`. Or three in a row with
    the rejected completions ahead, where the twenty together were well above 0.
    """

    further = (("noise of one record", Unit.NONE),)

    metric = "dpo_margin"
    held: deque[float] = deque(maxlen=_HELD)
    recent: deque[float] = deque(maxlen=_RECENT)
    usual = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        """One comparison on a record like those before it."""
        value = context.values.get(self.metric)
        if value is None:
            return None
        held, recent, lost = self.held, self.recent, self.thresholds["lost"]
        if len(recent) == _RECENT and not self.is_firing:
            held.append(recent[0])
            self.usual += (recent[0] - self.usual) / len(held)
        recent.append(value)
        if value >= lost * self.usual or len(held) < _FEW or self.usual <= 0.0:
            return QUIET
        usual, error = mean_and_error(held)
        if usual < _LEARNED * error:
            return QUIET
        sigma = error * math.sqrt(len(held))
        few = [recent[-i] for i in range(1, _IN_A_ROW + 1)]
        now_at = median_of(recent)
        is_gone = now_at < lost * usual and usual - now_at > self.thresholds["sigmas"] * math.hypot(
            error, sigma / math.sqrt(_RECENT)
        )
        if not is_gone:
            now_at = max(few)
            if now_at > 0.0 or usual < self.thresholds["reversed"] * sigma:
                return QUIET
        return Finding(WARN, now_at, usual, lost * usual, (sigma,))

    def headline(self, finding: Finding) -> str:
        what = "rejected preferred" if finding.value <= 0.0 else "chosen and rejected hardly separated"
        return f"reward margin {number(finding.baseline or 0)} → {number(finding.value)}: {what}"


class RewardModelLost(PreferenceLost):
    """RM4."""

    metric = "rm_margin"
