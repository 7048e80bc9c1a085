"""Length: completions that are truncated, explode, or vanish.

A mean that moves slowly is learning: reasoning lengthens completions, saturated tasks shorten them. The maximum equals
the cap on nearly every healthy step and says nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.rules.context import RuleContext
from rltop.rules.rule import BEFORE, CRIT, INFO, MIN_SAMPLES, QUIET, RELEASE, WARN, WINDOW, Detector, Finding
from rltop.stats.rolling import MAD_TO_SIGMA, Ema, Window

_YOUNG = 30
_HURT = 0.25
_BETTER = 0.1
"""Relative rise of an evaluation that counts."""
_MOVE_TO_SIGMA = math.sqrt(math.pi) / 2.0
"""Factor from mean absolute successive difference to standard deviation, for independent normal values."""


class Truncation(Detector):
    """T1: share of completions truncated at the maximum length; some runs learn even at a share of 1."""

    moves = Ema(30)
    before: float | None = None
    first = least = 0.0

    def look(self, value: float, context: RuleContext) -> Finding | None:
        thresholds = self.thresholds
        if self.before is None:
            self.first = self.least = value
        else:
            self.moves.push(abs(value - self.before))
        self.before = value
        if value < self.least:  # noqa: PLR1730 - as in `RewardTrack.observe`
            self.least = value
        if value <= thresholds["warn"] * RELEASE and value <= thresholds["rise"] * RELEASE:
            return QUIET
        base = context.baselines["truncated_frac"].value
        if value > thresholds["crit"]:
            reward = context.reward
            is_learning = reward.count and reward.is_improving and self.holds < CRIT
            return Finding(WARN if is_learning else CRIT, value, base, thresholds["crit"])
        return self._against_lines(value, base, is_young=context.record <= _YOUNG)

    def _against_lines(self, value: float, base: float | None, *, is_young: bool) -> Finding:
        thresholds, warn, rise = self.thresholds, self.thresholds["warn"], self.thresholds["rise"]
        if value > thresholds["high"] * self.hysteresis:
            # Completions learn to end: a share that has fallen since the start and is near its lowest may still fall.
            is_falling = is_young and value <= min(self.first - rise / 2.0, self.least + rise / 2.0)
            return Finding(INFO if is_falling else WARN, value, base, thresholds["high"])
        if base is not None and value > base + rise * self.hysteresis:
            # With few completions per batch, the share moves by more than that between records.
            rise = max(rise, thresholds["sigmas"] * _MOVE_TO_SIGMA * self.moves.value)
            if value > base + rise * self.hysteresis:
                return Finding(WARN, value, base, base + rise)
        return Finding(INFO, value, base, warn) if value > warn * self.hysteresis else QUIET


class LengthExplosion(Detector):
    """T2: mean length more than doubles within 50 records, or far outgrows its baseline without gain.

    The mean of a few completions may double by chance; that is never CRIT, and no alarm for short ones.
    """

    window = Window(WINDOW)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        window, warn = self.window, self.thresholds["warn"]
        is_long = value > warn * window.least and window.count >= MIN_SAMPLES
        usual, noise = (window.median, MAD_TO_SIGMA * window.mad) if is_long else (0.0, 0.0)
        window.push(value)
        is_beyond = value > usual + self.thresholds["sigmas"] * noise
        if not is_long or usual <= 0.0 or value <= warn * usual or not (is_beyond or value > self.thresholds["short"]):
            return self._against_baseline(value, context)
        reward = context.reward
        is_cut = context.values.get("truncated_frac", 0.0) > self.thresholds["truncated"]
        # Even pure noise gives a reward a range, so a reward alarm is required as well.
        lost, reach = reward.best - reward.usual, reward.top - reward.bottom
        is_hurt = lost > _HURT * reach > 0.0 and "reward" in context.alarms
        level = CRIT if is_beyond and (is_cut or is_hurt) else WARN
        if value <= self.thresholds["short"] and "truncated_frac" in context.values and not (is_cut or is_hurt):
            level = INFO  # such completions cost little, and end
        return Finding(level, value, usual, warn * usual, words=(BEFORE,))

    def _against_baseline(self, value: float, context: RuleContext) -> Finding:
        base = context.baselines["response_len_mean"].value
        if base is None or base <= 0.0 or value <= self.thresholds["grown"] * base:
            return QUIET
        reward = context.reward
        if reward.count == 0 or reward.is_constant or reward.is_improving or reward.is_high:
            return QUIET
        return Finding(WARN, value, base, self.thresholds["grown"] * base)


class NoEndOfText(Detector):
    """T9: no completion emits EOS any more, or none ever has; if all have one length, that may be by design."""

    has_ended, never = False, 0

    def detect(self, context: RuleContext) -> Finding | None:
        metric = "stop_count" if "stop_count" in context.values else "terminated_len_mean"
        if (value := context.values.get(metric)) is None:
            return None
        # A completion that ends refutes that none ever has.
        self.is_excused = value > 0.0 and not self.has_ended
        if value > 0.0:
            self.has_ended, self.since = True, None
            return QUIET
        if self.since is None and (self.has_ended or self._should_end(context.values)):
            self.since = context.place
        if self.has_ended:
            return Finding(WARN, 0.0)
        self.never += 1
        if self.never < self.thresholds["never"]:
            return QUIET
        return Finding(WARN if self._should_end(context.values) else INFO, 0.0, None, None, (float(self.never),))

    def _should_end(self, values: Mapping[str, float]) -> bool:
        differ = values.get("response_len_max", 0.0) > values.get("response_len_min", math.inf)
        return differ or values.get("truncated_frac", 0.0) > self.thresholds["truncated"]


class LengthCollapse(Detector):
    """T3: mean length less than half of its baseline; INFO if reward and evaluations have risen."""

    def look(self, value: float, context: RuleContext) -> Finding | None:
        if (base := context.baselines["response_len_mean"].value) is None:
            return QUIET
        line, nothing = self.thresholds["warn"] * base, self.thresholds["crit"] * base
        if value >= line / self.hysteresis:
            return QUIET
        is_nothing, reward = value < nothing, context.reward
        gained = (reward.start, reward.usual) if reward.is_improving and "R1" not in context.standing else ()
        # On saturated tasks, and for long-winded models, shorter and better is what is to be learned.
        is_better = reward.has_gained and any(
            one.level > one.first + max(one.noise, _BETTER * abs(one.first)) for one in context.histories.values()
        )
        level = INFO if is_better else CRIT if is_nothing else WARN
        return Finding(level, value, base, nothing if is_nothing else line, gained)
