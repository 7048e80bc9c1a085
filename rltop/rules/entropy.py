"""Entropy: the exploration budget, its level and what a sudden change means.

No absolute level is valid across models, and every run that learns from verifiable rewards loses most of its entropy:
only a discontinuity, or a fall without reward gain, is a fault. A low or high level is INFO, unless a second sign shows
that it does harm.
"""

from __future__ import annotations

import math
from collections import deque

from rltop.rules import applicability
from rltop.rules.context import LEVEL, RuleContext
from rltop.rules.evaluations import noise_of
from rltop.rules.levels import NO_SIGNAL
from rltop.rules.rule import CRIT, INFO, MIN_SAMPLES, QUIET, RELEASE, WARN, Detector, Finding
from rltop.stats.rolling import Frozen, Window, log_spread_of, median_of

_SPREAD_OVER = 51
"""Records held: the current one and the fifty before it."""


class EntropyCrash(Detector):
    """E1: entropy falls off a cliff compared with the 20 records before, per token, per completion or per action."""

    window = Window(20)
    before: deque[float] = deque(maxlen=_SPREAD_OVER)

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        if (value := values.get("entropy", values.get("entropy_seq", values.get("action_entropy")))) is None:
            return None
        window, warn, floor = self.window, self.thresholds["warn"], self.thresholds["floor"]
        is_low = value < warn * window.most and window.count >= MIN_SAMPLES
        usual = window.median if is_low else 0.0
        window.push(value)
        self.before.append(value)
        if not is_low or value >= warn * usual or usual <= floor:
            return QUIET
        if context.reward.has_few_groups:
            held = list(self.before)
            earlier = sorted(held[:-LEVEL]) or [0.0]
            usual, value, low = median_of(earlier), median_of(held[-LEVEL:]), earlier[len(earlier) // 10]
            if value >= min(warn * usual, low) or usual <= floor:
                return QUIET
        if not self._is_beyond_noise(value, usual) or ("action_entropy" in values and self._falls_as_always()):
            return QUIET
        level = CRIT if value < self.thresholds["crit"] * usual else WARN
        if context.reward.is_solved or not applicability.has_rollouts(context.algorithm, context.traits):
            level = INFO
        return Finding(level, value, usual, warn * usual)

    def _is_beyond_noise(self, value: float, usual: float) -> bool:
        if value <= 0.0:
            return min(self.before) >= 0.0
        return math.log(usual / value) > self.thresholds["sigmas"] * log_spread_of(list(self.before)[:-1])

    def _falls_as_always(self) -> bool:
        """In ten records it falls by less than `pace` times its fastest earlier fall (a density's may go below 0)."""
        held = list(self.before)
        falls = [old - new for old, new in zip(held, held[LEVEL:], strict=False)]
        earlier = falls[:-LEVEL]
        return bool(earlier) and falls[-1] < self.thresholds["pace"] * max(earlier)


def _is_beyond_jumps(context: RuleContext, value: float, base: float, sigmas: float) -> bool:
    """Whether the fall of ln entropy exceeds its jumps between records; batches of one prompt differ by 100 times."""
    if value <= 0.0:
        return True
    held = [math.log(one) for row in context.recent if (one := row.values.get("entropy", 0.0)) > 0.0]
    return math.log(base / value) > sigmas * noise_of(held)


class EntropyLost(Detector):
    """E2: most of the entropy is lost: too fast, early without reward gain, or at any pace without any gain."""

    start = Frozen(skip=0, size=5, minimum=3)
    spread_start = Frozen(skip=0, size=10, minimum=10)
    first_step: int | None = None

    def look(self, value: float, context: RuleContext) -> Finding | None:
        values, thresholds = context.values, self.thresholds
        self.first_step = context.observation.step if self.first_step is None else self.first_step
        if "reward_std" in values:
            self.spread_start.push(values["reward_std"])
        base = self.start.push(value)
        if base is None or value >= thresholds["warn"] * base or base < thresholds["floor"]:
            return QUIET
        is_early = context.record <= thresholds["until"] and self._is_lost_early(context)
        if not is_early and not self._is_spent(context):
            return QUIET
        is_real = _is_beyond_jumps(context, value, base, thresholds["sigmas"])
        words = ("early",) if is_early else ()
        return Finding(WARN, value, base, thresholds["warn"] * base, words=words) if is_real else QUIET

    def _is_lost_early(self, context: RuleContext) -> bool:
        reward, spread = context.reward, context.values.get("reward_std")
        if reward.is_solved:
            return False
        if context.observation.step - (self.first_step or 0) <= self.thresholds["fast"]:
            return True
        if reward.count == 0 or reward.is_improving:
            return False
        if reward.zero_share is not None and reward.zero_share > self.thresholds["zero_share"]:
            return True
        base = self.spread_start.value
        return spread is not None and base is not None and spread < 0.5 * base

    def _is_spent(self, context: RuleContext) -> bool:
        """Whether the reward never rose; False under a graver alert that implies this one."""
        reward = context.reward
        if context.record < self.thresholds["records"] or not context.standing.isdisjoint(NO_SIGNAL):
            return False
        is_rewarded = reward.count > 0 and not reward.is_constant
        return is_rewarded and not (reward.has_gained or context.is_at_top)


_SEQUENCE_SUM = 15.0
_BEFORE = 50
_HIGH, _OF_HIGH = 8, 13
"""n of m high records for a slow rise; the rules table adds further persistence."""


class EntropySurge(Detector):
    """E4: entropy jumps up compared with the 50 records before, or is high and a multiple of its baseline."""

    window = Window(_BEFORE)
    high: deque[bool] = deque(maxlen=_OF_HIGH)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        window, thresholds = self.window, self.thresholds
        is_jump, usual, jump = False, 0.0, thresholds["jump"]
        if value > thresholds["jump_floor"] and value > jump * window.least and window.count >= MIN_SAMPLES:
            usual = window.median
            is_jump = value > jump * usual
            if is_jump and usual > 0.0:
                is_jump = math.log(value / usual) > thresholds["sigmas"] * log_spread_of(window.values)
        window.push(value)
        base, is_high = context.baselines["entropy"].value, False
        if base is not None and thresholds["high"] * RELEASE < value < _SEQUENCE_SUM:
            held = self.held_part(WARN)
            is_high = value > thresholds["high"] * held and value > thresholds["rise"] * held * base
        self.high.append(is_high)
        if not is_jump:
            is_of_text = applicability.has_rollouts(context.algorithm, context.traits)
            is_of_text = is_of_text and applicability.nats_of(context) == "nats/token"
            # Training from scratch starts with the entropy of any text.
            if thresholds["random"] * self.hysteresis < value < _SEQUENCE_SUM and is_of_text:
                return Finding(WARN, value, None, thresholds["random"], words=("random",))
            if base is None or not is_high or sum(self.high) < _HIGH:
                return QUIET
            return Finding(WARN, value, base, thresholds["rise"] * base, words=("baseline",))
        return Finding(WARN, value, usual, jump * usual)


HARDLY_BETTER = 0.005
_STRAY = 0.05
"""Share of records that may have a negative reward if all others have a reward of 0."""


class Exhausted(Detector):
    """E3: entropy near 0 for long, with validation no longer improving, or a reward that was never above 0.

    An entropy that is constantly 0 is not measured.
    """

    is_measured, best, flat_for, highest = False, -math.inf, 0, 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        value, score = context.values.get("entropy"), context.values.get("val_score")
        is_low = value is not None and value < self.thresholds["info"]
        if score is not None:
            is_better = score > self.best + HARDLY_BETTER
            self.flat_for = 0 if is_better or not is_low else self.flat_for + 1
            self.best = max(self.best, score)
        if value is None:
            return None
        self.is_measured = self.is_measured or value != 0.0
        if not is_low or not self.is_measured:
            self.flat_for = 0
            return QUIET
        if value < self.thresholds["lost"] and self._is_without_reward(context):
            return Finding(WARN, value, None, self.thresholds["lost"], (context.reward.usual,), ("lost",))
        is_stuck = self.flat_for >= self.thresholds["evaluations"] and not context.is_at_top
        return Finding(WARN if is_stuck else INFO, value, None, self.thresholds["info"], (float(self.flat_for),))

    def _is_without_reward(self, context: RuleContext) -> bool:
        """The reward is near 0, hardly ever below, and no higher than at the start; R13 covers one that never moves."""
        reward, values = context.reward, context.values
        is_rewarded = reward.is_reward and applicability.has_reward(context.algorithm, context.traits)
        if reward.is_constant or not is_rewarded:
            return False
        self.highest = max(self.highest, values.get("reward_max", 0.0))
        line = max(self.thresholds["zero"], self.thresholds["reward"] * self.highest)
        lows = [min(one.values.get("reward_min", 0.0), reward.read(one.values) or 0.0) for one in context.recent]
        is_below = reward.worst < -line or sum([low < -line for low in lows]) > _STRAY * len(lows)
        return reward.count > 0 and not is_below and reward.usual <= min(line, reward.start + line)
