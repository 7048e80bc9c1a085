"""The critic: does the value function explain the returns? All critics start badly, so no rule here fires at once."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from rltop.rules.context import RewardTrack, RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding
from rltop.stats.rolling import Frozen, Window, median_of

_TINY, _TRIFLE, _HELD = 1e-5, 1e-3, 0.5
_MIN_SAMPLES = 20
_FEW = 8
_EVERY = 5
_ROUNDING = 1e-3
"""An explained variance this near 0 counts as 0: the critic predicts the same for every state."""


class ExplainedVariance(Detector):
    """C1: worse than predicting the mean, or lost after having been good."""

    window, best, seen = Window(10), float("-inf"), 0
    first: tuple[int, int] | None = None
    loss = Frozen(skip=0, size=5, minimum=3)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        window, thresholds = self.window, self.thresholds
        window.push(value)
        self.seen += 1
        self.first = self.first or context.place
        if (loss := context.values.get("value_loss")) is not None:
            self.loss.push(loss)
        if context.record <= thresholds["wait"]:
            return QUIET
        usual = window.median
        is_fine = value >= thresholds["warn"] and usual >= thresholds["lost"]
        if is_fine and (usual <= self.best or context.record % _EVERY):
            return QUIET
        self.best = max(self.best, usual)
        # Returns that hardly vary any more leave nothing to explain.
        is_trifle = loss is not None and (loss < _TINY or loss < _TRIFLE * (self.loss.value or 0.0))
        is_fine = is_trifle or context.reward.is_solved or context.reward.is_high
        return QUIET if is_fine else self._judge(value, usual, context)

    def _judge(self, value: float, usual: float, context: RuleContext) -> Finding:
        thresholds = self.thresholds
        is_blind = self.best <= thresholds["blind"]
        self.since = self.first if is_blind else None
        # If the policy learns, its critic is good enough, unless it is far worse than none, or the alert is active.
        gained = max(WARN if usual <= thresholds["far"] else INFO, self.holds)
        worst = gained if context.reward.has_gained else CRIT
        level = CRIT if value < thresholds["crit"] * (_HELD if self.holds == CRIT else 1.0) else WARN
        if is_blind and self.seen >= thresholds["never"]:
            return Finding(max(WARN, min(level, worst)), value, None, thresholds["blind"], (float(self.seen),))
        if value < thresholds["warn"]:
            return Finding(min(level, worst), value, self.best, thresholds["warn"])
        if self.best > thresholds["good"] and usual < thresholds["lost"]:
            return Finding(min(WARN, worst), value, self.best, thresholds["lost"])
        return QUIET


class ValueLossJump(Detector):
    """C3: value loss a multiple of its rolling baseline."""

    window, explained, returns = Window(50), Window(50), Window(_MIN_SAMPLES)
    start = Frozen(skip=0, size=5, minimum=3)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        window = self.window
        if (returned := context.values.get("return_mean", context.reward.value)) is not None:
            self.returns.push(returned)
        is_worse = self._explains_less(context.values.get("explained_var"))
        self.start.push(value)
        base, known = window.median, window.count
        window.push(value)
        # Early value losses are high and only fall, so a share of the start bounds the baseline from below.
        base = max(base, self.thresholds["start_share"] * (self.start.value or 0.0))
        if known < _FEW or base <= 0.0 or value <= self.thresholds["warn"] * base:
            return QUIET
        most = self._largest_variance(context.values, context.reward)
        if is_worse is False and (self.explained.median < self.thresholds["fall"] or most <= 0.0):
            return QUIET  # it explains as little as ever, or the variance of the returns is unknown
        if not is_worse and value <= most:
            return QUIET
        level = CRIT if value > self.thresholds["crit"] * base else WARN
        return Finding(level, value, base, self.thresholds["warn"] * base)

    def _largest_variance(self, values: Mapping[str, float], reward: RewardTrack) -> float:
        """An upper bound: the square of the widest range seen; rewards stand in if no returns are logged."""
        reach = max(self.returns.high - self.returns.low if self.returns.count else 0.0, values.get("reward_std", 0.0))
        if reward.count:
            reach = max(reach, reward.top - reward.bottom)
        return reach * reach

    def _explains_less(self, value: float | None) -> bool | None:
        """Whether the explained variance has fallen by `fall`, or below 0; None if it is not logged."""
        if value is None:
            return None
        usual = self.explained.median
        self.explained.push(value)
        return value < min(0.0, usual) - _ROUNDING or value < usual - self.thresholds["fall"]


class NotLearning(Detector):
    """C2: value loss still at its start level, long after it should have fallen."""

    start = Frozen(skip=3, size=20)
    recent: deque[float] = deque(maxlen=_MIN_SAMPLES)
    explained, has_learned = Window(_MIN_SAMPLES), False

    def detect(self, context: RuleContext) -> Finding | None:
        value, explained = context.values.get("value_loss"), context.values.get("explained_var")
        if explained is not None:
            self.explained.push(explained)
        if value is None:
            return None
        self.start.push(value)
        self.recent.append(value)
        base = self.start.value
        if context.record < self.thresholds["wait"] or context.record % _EVERY or base is None:
            return None
        line = self.thresholds["share"] * base
        level = median_of(self.recent)
        self.has_learned = self.has_learned or level < self.thresholds["learned"] * base
        if self.has_learned or level < line or level < _TINY:
            return QUIET
        if explained is not None and self.explained.median >= self.thresholds["explained"]:
            return QUIET
        reward = context.reward
        is_blind = self.explained.count == _MIN_SAMPLES and abs(self.explained.median) < self.thresholds["blind"]
        if explained is None or ((reward.has_gained or reward.is_high) and not is_blind):
            # Growing returns leave more to explain.
            return Finding(INFO, level, base, line)
        return Finding(WARN, level, base, line) if explained < self.thresholds["explained"] else QUIET


class ValueLossVanished(Detector):
    """C6: value loss near 0 although the returns still vary: the critic is no longer trained on them."""

    start, line = Frozen(skip=3, size=20), 0.0

    def look(self, value: float, context: RuleContext) -> Finding | None:
        if not self.start.is_final:
            self.start.push(abs(value))
            self.line = self.thresholds["warn"] * (self.start.value or 0.0)
            return QUIET
        line = self.line / math.sqrt(self.thresholds["warn"]) if self.is_firing else self.line
        reward, explained = context.reward, context.values.get("explained_var", 0.0)
        is_done = not reward.count or reward.is_constant or context.is_at_top or explained >= self.thresholds["good"]
        if abs(value) >= line or is_done:
            return QUIET
        # An error of exactly 0 is not a fit: every batch leaves some.
        is_wrong = value == 0.0 or self._returns_vary(abs(value), context)
        return Finding(WARN if is_wrong else INFO, value, self.start.value, self.line)

    def _returns_vary(self, value: float, context: RuleContext) -> bool:
        """Whether the explained variance denies the fit or, if not logged, the reward spread far exceeds the error."""
        values = context.values
        if "explained_var" in values:
            return values["explained_var"] < self.thresholds["explained"]
        spread = values.get("reward_std", 0.0)
        return value < self.thresholds["part"] * spread * spread


class ValueDrift(Detector):
    """C4: predicted values and returns are on different scales."""

    returns = Window(50)

    def detect(self, context: RuleContext) -> Finding | None:
        value, returned = context.values.get("value_mean"), context.values.get("return_mean")
        if value is None or returned is None:
            return None
        window, thresholds = self.returns, self.thresholds
        window.push(returned)
        gap = abs(value - returned)
        if context.record <= thresholds["wait"] or gap <= thresholds["floor"]:
            return QUIET
        reach = max(window.high - window.low, thresholds["floor"], 0.5 * abs(window.median))
        if gap <= thresholds["warn"] * reach:
            return QUIET
        return Finding(WARN, value, returned, returned + thresholds["warn"] * (reach if value > returned else -reach))
