"""How far the policy moves: step KL and importance ratio, clipping, and the KL to the reference policy.

No threshold fits all estimators and regimes, so detectors determine the regime first. The share clipped is 0 with one
update per rollout, a few per mille of a language model's tokens, a tenth of sequences under sequence-level clipping, a
quarter of a robot policy's actions. KL to the reference is per token, or summed over the sequence; it should rise from
0 while the policy learns, and faults are at both extremes.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, MIN_SAMPLES, QUIET, RELEASE, WARN, WINDOW, Detector, Finding
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, Window, median_of

_MEDIAN_OF, _HALFWAY = 5, 0.5
_LATELY = 8


def _began(metric: str, level: float, context: RuleContext) -> tuple[int, int]:
    """Place of the first of the newest five values that is more than halfway from 0 to their median, `level`."""
    newest = [one for one in reversed(context.recent) if metric in one.values][:_MEDIAN_OF]
    return min([(one.record, one.step) for one in newest if one.values[metric] / level > _HALFWAY])


class StepKl(Detector):
    """O9: how far one batch of updates moved the policy, in nats per token.

    A signed (k1) estimate is noise around zero, so the median of five is used. k2 and k3 estimates cannot be negative
    and are used as they are.
    """

    lately: deque[float] = deque(maxlen=_MEDIAN_OF)
    small = 0

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.often = NOfMCounter(int(thresholds["often"]), _LATELY)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        finding = self._judge(value, context)
        self.since = None if finding is QUIET else self.since
        if finding is QUIET and not self.often.bits:
            return finding
        thresholds, is_often = self.thresholds, self.often.push(finding.level >= WARN)
        if finding is QUIET:
            return finding
        if context.traits.kl_is_signed:
            self.since = self.since or _began("kl_old", median_of(self.lately), context)
        is_told = is_often or finding.value > thresholds["far"] * (finding.threshold or math.inf)
        return finding if is_told and context.record > thresholds["wait"] else finding._replace(level=INFO)

    def _judge(self, value: float, context: RuleContext) -> Finding:
        thresholds = self.thresholds
        warn = thresholds["warn"]
        if context.traits.kl_is_signed:
            warn = thresholds["signed_warn"]
            self.lately.append(value)
            self.small = self.small + 1 if abs(value) <= warn * RELEASE else 0
            if self.small > _MEDIAN_OF // 2 or len(self.lately) < _MEDIAN_OF:
                return QUIET
            value = abs(median_of(self.lately))
        if value <= warn * RELEASE:
            return QUIET
        crit = thresholds["crit"]
        if context.algorithm is Algorithm.EMBODIED:
            warn = thresholds["signed_warn"]
        if context.traits.is_async:
            warn, crit = warn * thresholds["async_factor"], crit * thresholds["async_factor"]
        if value > crit * self.held_part(CRIT):
            return Finding(CRIT, value, None, crit)
        return Finding(WARN, value, None, warn) if value > warn * self.held_part(WARN) else QUIET


class ImportanceRatio(Detector):
    """O10: mean importance ratio against run start.

    Not against 1, because some trainers log 0.5 or 0.97 throughout by construction (averages over skipped minibatches,
    precision offsets).
    """

    start = Frozen()

    def look(self, value: float, context: RuleContext) -> Finding | None:
        thresholds, warn = self.thresholds, self.thresholds["warn"]
        # In a run of unknown kind, it may be any ratio.
        is_known = context.algorithm is not Algorithm.UNKNOWN
        if not thresholds["low"] <= value <= thresholds["high"] and value > 0.0 and is_known:
            return Finding(WARN, value, None, thresholds["low" if value < 1.0 else "high"])
        base = self.start.push(value)
        if base is None or base <= 0.0:
            return QUIET
        relative, reach = value / base, warn * self.hysteresis
        if 1.0 - reach <= relative <= 1.0 + reach:
            return QUIET
        return Finding(WARN, value, base, base * (1.0 + (warn if relative > 1 else -warn)))


_SETTLED = 20
_SEQUENCE_CLIP = 0.03
_SEQUENCE_KL = 1e-3
_BEFORE = 3
_ASYNC = 3.0
_FAMILIES = frozenset({"kl", "reward", "entropy"})
"""Verdicts of these families make clipping harmful."""


class TokenClip(Detector):
    """O6: share of tokens, sequences or robot actions whose update was clipped."""

    window, start = Window(WINDOW), Frozen()
    gradient = Frozen(skip=0, size=10, minimum=5)
    harmful = NOfMCounter(1, _BEFORE)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        window, is_harmful, thresholds = self.window, self._is_harmful(context), self.thresholds
        self.start.push(value)
        if value <= thresholds["rise_floor"] * RELEASE and value <= thresholds["warn"] * RELEASE:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if value > _SEQUENCE_CLIP and abs(context.values.get("kl_old", math.inf)) < _SEQUENCE_KL:
            base, line = self.start.value, thresholds["sequences"]
            if value <= line and base is not None and base > 0.0:
                line = min(line, thresholds["sequences_rise"] * base)
            return Finding(WARN, value, base, line) if value > line else QUIET
        lines = ((CRIT, "alone_crit"), (CRIT, "crit"), (WARN, "alone_warn"), (WARN, "warn"))
        beyond, rise = self.crossed(value, lines if is_harmful else lines[::2], usual), thresholds["rise"] * usual
        if beyond is not QUIET:
            return beyond
        if known >= MIN_SAMPLES and 0.0 < rise < value and value > thresholds["rise_floor"]:
            return Finding(WARN, value, usual, rise)
        return self.crossed(value, ((INFO, "warn"),), usual)

    def _is_harmful(self, context: RuleContext) -> bool:
        """Whether this record, or one of the two before, shows another effect of an update that is too large.

        Healthy runs clip 5 % while they learn.
        """
        norm, step_kl = context.values.get("grad_norm"), context.values.get("kl_old", 0.0)
        base = None if norm is None else self.gradient.push(norm)
        is_steep = norm is not None and base is not None and norm > self.thresholds["gradient"] * base > 0.0
        is_far = abs(step_kl) > self.thresholds["kl"] * (_ASYNC if context.traits.is_async else 1.0)
        return self.harmful.push(is_steep or is_far or not _FAMILIES.isdisjoint(context.onsets))


_NO_BOUND = 1e-6
"""No gradient is clipped to less than this: a norm that stays there is no gradient."""


class PinnedGradient(Detector):
    """O3: gradient norm pinned at one maximum value, so it is logged after clipping."""

    top = line = 0.0

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.often = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))

    def look(self, value: float, context: RuleContext) -> Finding | None:
        if value < self.line:
            self.often.push(False)
            return QUIET
        reach = self.thresholds["reach"]
        if value > self.top * (1.0 + reach):
            self.often.clear()
        if value > self.top:
            self.top, self.line = value, value * (1.0 - reach)
        if not self.often.push(value > _NO_BOUND):
            return QUIET
        return Finding(INFO, self.top, None, None, (float(self.often.bits.bit_count()), float(self.often.m)))


class ReferenceKlSpike(Detector):
    """O11: KL to the reference policy, per token or summed; no sane language model is ten nats per token away."""

    window = Window(WINDOW)
    high, far, lasting = NOfMCounter(2, 3), NOfMCounter(2, 3), NOfMCounter(5, 8)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        if context.traits.kl_is_sequence_sum:
            return self.crossed(value, ((CRIT, "sum_crit"), (WARN, "sum_warn")))
        window, thresholds = self.window, self.thresholds
        is_near = value <= thresholds["floor"]
        if not is_near and window.count and value <= thresholds["absolute"]:
            jump = min(thresholds["warn"], thresholds["crit"])
            is_near = value <= jump * window.least or value <= jump * window.median
        if is_near:
            window.push(value)
            if self.lasting.bits or self.high.bits:
                for one in (self.high, self.far, self.lasting):
                    one.push(False)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        is_young, is_far = known < thresholds["young"], value > thresholds["at_once"]
        # Under a generic name, the KL may be a sum: it must also be a multiple of its median, or too large for a sum.
        is_known = not context.traits.is_generic or (known >= _MEDIAN_OF and value > thresholds["warn"] * usual)
        is_absolute = value > thresholds["absolute"] and (is_known or (is_young and is_far))
        huge = max(thresholds["crit"] * usual, thresholds["crit_floor"])
        is_huge = known >= thresholds["wait"] and value > huge
        is_often, is_often_far = self.high.push(is_absolute or is_huge), self.far.push(is_absolute and is_far)
        # A KL that is high at first may fall again, unless it is far too high.
        is_critical = self.lasting.push(is_absolute) or is_often_far or (is_often and not is_young)
        line = thresholds["absolute"] if is_absolute else huge
        if is_absolute or (is_critical and is_huge):
            level = CRIT if is_critical and is_known else WARN
            return Finding(level, value, usual if known else None, line)
        if is_young or usual <= 0.0:
            return QUIET
        # In a young run the KL rises from 0 as the policy learns, but not by that much within a few records.
        line = huge if known < thresholds["wait"] else max(thresholds["warn"] * usual, thresholds["floor"])
        return Finding(WARN, value, usual, line) if value > line else QUIET


_GAIN = 0.05
"""Gain that counts, as a share of the range of single rewards."""


class FarWithoutReward(Detector):
    """O12: far from the reference, and farther than early in the run, although the reward has not risen."""

    lately, base = Window(10), Frozen(skip=5, size=10, minimum=10)
    later = Frozen(skip=20, size=10, minimum=10)
    reward_then: float | None = None

    def look(self, value: float, context: RuleContext) -> Finding | None:
        lately, base, thresholds, is_sum = self.lately, self.base, self.thresholds, context.traits.kl_is_sequence_sum
        lately.push(value)
        if not base.is_final:
            base.push(value)
            if base.is_final and context.reward.count:
                self.reward_then = context.reward.usual
        self.later.push(value)
        floor = thresholds["sum_warn" if is_sum else "warn"]
        if value <= floor or lately.count < _MEDIAN_OF:
            return QUIET
        line = max(floor, thresholds["rise"] * (base.value or 0.0))
        if not self.is_firing:
            # KL starts at 0, so the first records are below the normal level of a healthy run.
            line = max(line, thresholds["again"] * (self.later.value or 0.0))
        level = lately.median
        if level > thresholds["high"] and not (is_sum or context.traits.is_generic):
            return Finding(WARN, level, base.value, thresholds["high"])
        if not base.is_final or level <= line:
            return QUIET
        has_gained, fall = self._has_gained(context), context.onsets.get("reward")
        # A KL that drifts during a reward crash is the same incident.
        at = context.observation.record - context.record
        self.since = None if has_gained or fall is None else (at + fall.record, fall.step)
        words = () if has_gained or line == thresholds["high"] else ("in vain",)
        return Finding(INFO if has_gained else WARN, level, base.value, line, words=words)

    def _has_gained(self, context: RuleContext) -> bool:
        reward = context.reward
        if self.reward_then is None or reward.is_constant:
            return True
        # A reward that merely wanders around that line has not gained, so an active alert needs three times as much.
        least = (3.0 if self.is_firing else 1.0) * _GAIN * (reward.top - reward.bottom)
        return reward.is_high or reward.usual > self.reward_then + least


class NegativeKl(Detector):
    """O13: a KL estimate stays below zero, so sampling and scoring differ."""

    window = Window(WINDOW)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        self.window.push(value)
        if (value >= 0.0 and not self.is_firing) or self.window.count < _MEDIAN_OF:
            return QUIET
        line = self.thresholds["sum_warn" if context.traits.kl_is_sequence_sum else "warn"] * self.hysteresis
        median = self.window.last(_MEDIAN_OF)
        # A signed estimate is noise around 0 unless beyond its own spread, which the fall itself widens.
        noise = 0.0 if self.is_firing else self.thresholds["sigmas"] * MAD_TO_SIGMA * self.window.mad
        if median >= line or -median <= noise:
            self.since = None
            return QUIET
        self.since = self.since or _began("kl_ref", median, context)
        return Finding(CRIT if median < self.thresholds["crit"] else WARN, median, None, line)


class NothingMoves(Detector):
    """O14: KL to reference stays at 0 although the learning rate is not 0."""

    has_moved = False

    def look(self, value: float, context: RuleContext) -> Finding | None:
        line = self.thresholds["info"]
        if abs(value) >= line:
            self.has_moved = self.has_moved or abs(value) > self.thresholds["moved"]
            return QUIET
        if not context.lr:
            return QUIET
        reward = context.reward
        is_flat = reward.count >= _SETTLED and not (reward.is_improving or reward.is_high or reward.is_constant)
        return Finding(WARN if is_flat or self.has_moved else INFO, value, None, line)
