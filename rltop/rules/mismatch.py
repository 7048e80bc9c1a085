"""Rollout/train mismatch: do sampler and trainer give a token the same probability?

The earliest warning of a collapse; the trend matters more than single spikes. Maxima are ignored, as one token near 1
is ordinary. Trainers that correct for the mismatch log importance weights; if these leave 1, spread or are discarded,
training depends on the correction.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Creep, Detector, Finding, Line, Subject, worst
from rltop.stats.persistence import BlockTrend
from rltop.stats.rolling import Frozen, Window

_MEDIAN_OF = 5
_FIRST_RECORDS = 2
_UNTRAINED = 3
"""Most records before the first update takes effect: the learning rate starts at 0, or the first batch is extra."""
_DISTANCES = ("off_policy_kl", "rollout_logp_diff_mean", "rollout_prob_diff_mean")


class MismatchKl(Detector):
    """M1: KL between the sampler's and the trainer's log-probabilities; estimates may be signed."""

    window, start, small = Window(_MEDIAN_OF), Frozen(), 0

    def look(self, value: float, context: RuleContext) -> Finding | None:
        window, start, thresholds = self.window, self.start, self.thresholds
        window.push(value)
        start.push(abs(value))
        self.small = self.small + 1 if abs(value) <= thresholds["warn"] * RELEASE else 0
        if self.small > _MEDIAN_OF // 2 or window.count < _MEDIAN_OF:
            return QUIET
        size, base = abs(window.median), start.value
        ordinary = thresholds["rise"] * base if base is not None else thresholds["absolute"]
        warn, crit = max(thresholds["warn"], ordinary), max(thresholds["crit"], ordinary)
        if size > crit:
            return Finding(CRIT, size, base, crit)
        if size > warn * self.hysteresis:
            return Finding(WARN, size, base, warn)
        return Finding(INFO, size, base, thresholds["warn"]) if size > thresholds["warn"] else QUIET


class MismatchTrend(Detector):
    """M2: the mismatch rises steadily: the KL, else the mean log-probability difference."""

    trend, distance = BlockTrend(block=5, count=10), ""

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        if not self.distance:
            self.distance = next((name for name in _DISTANCES if name in values), "")
        if (value := values.get(self.distance)) is None:
            return None
        trend, thresholds = self.trend, self.thresholds
        if not trend.push(abs(value)) or not trend.is_full:
            return None
        is_steep = trend.growth >= thresholds["warn"] and trend.monotony >= thresholds["monotony"]
        if not is_steep or trend.medians[-1] < thresholds["floor"]:
            return QUIET
        seen = [one.step for one in context.recent if self.distance in one.values][-trend.block * trend.count :]
        steps = seen[0], seen[trend.block - 1]
        return Finding(WARN, trend.medians[-1], trend.medians[0], None, (trend.growth,), steps=steps)


class ProbabilityCorrelation(Line):
    """M1: correlation of the sampler's and the trainer's probabilities; meaningless if all are 1."""

    is_held = False

    def look(self, value: float, context: RuleContext) -> Finding | None:
        is_told = context.values.get("entropy", 1.0) >= self.thresholds["entropy"]
        return super().look(value, context) if is_told else None


class FirstUpdate(Detector):
    """M9: log-probabilities differ before the first update; those of a resumed or asynchronous run may."""

    is_about_word = True

    def detect(self, context: RuleContext) -> Finding | None:
        if context.record > _FIRST_RECORDS:
            return None
        seen = context.observation
        if seen.step > _FIRST_RECORDS or (seen.segment and not seen.other_run):
            return None
        reference, line = context.values.get("kl_ref"), self.thresholds["reference"]
        if reference is not None and not context.traits.kl_is_sequence_sum and abs(reference) > line:
            # Under a generic name, the KL may be a sum or refer to another policy.
            is_bad = abs(reference) > self.thresholds["warn"] and not context.traits.is_generic
            level = WARN if is_bad else INFO
            unit = "nats" if context.traits.is_generic else "nats/token"
            return Finding(level, reference, None, line, words=("kl_ref", "reference", unit))
        # Classic RL loops log the mean over many updates per rollout.
        is_of_text = applicability.OF_ACTIONS.isdisjoint(context.values)
        step = context.values.get("kl_old") if is_of_text else None
        if step is not None and not context.traits.is_async and abs(step) > self.thresholds["step"]:
            return Finding(INFO, step, None, self.thresholds["step"], words=("kl_old", "sampler", "nats/token"))
        return QUIET if reference is not None or step is not None else None


class WeightsOffOne(Detector):
    """M6: mean importance weight of the correction for the sampler/trainer mismatch."""

    window = Window(_MEDIAN_OF)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        """Compare the median of five with a band around 1, because one large weight moves the mean."""
        thresholds = self.thresholds
        self.window.push(value)
        if self.window.count < _MEDIAN_OF:
            return QUIET
        value = self.window.median
        if 1.0 - thresholds["warn"] <= value <= 1.0 + thresholds["warn"]:
            return QUIET
        level = CRIT if value > thresholds["crit"] or value < 1.0 / thresholds["crit"] else WARN
        return Finding(level, value, 1.0, 1.0 + (thresholds["warn"] if value > 1.0 else -thresholds["warn"]))


class Staleness(Detector):
    """M8: policy versions between sampling and training: beyond the run's own bound (AReaL #1388), or far and rising.

    Trainers that limit the amount generated, not the age of rollouts, let single slow ones pass: those are INFO.
    """

    start = Frozen(skip=5, size=20, minimum=5)

    def detect(self, context: RuleContext) -> Finding | None:
        return worst(self._beyond_bound(context.values, context.staleness_bound), self._risen(context.values))

    def _risen(self, values: Mapping[str, float]) -> Finding | None:
        thresholds, mean, oldest = self.thresholds, values.get("staleness_mean"), values.get("staleness_max")
        if mean is None and oldest is None:
            return None
        dropped = values.get("cancelled_frac", 0.0)
        if oldest is not None and oldest >= thresholds["limit"] and dropped > thresholds["dropped"]:
            return Finding(CRIT, oldest, None, thresholds["limit"], (dropped,), ("staleness_max",))
        if mean is None:
            return QUIET
        base = self.start.push(mean)
        if mean <= thresholds["warn"] * self.hysteresis:
            return QUIET
        has_risen = base is not None and mean > thresholds["rise"] * max(base, 1.0)
        return Finding(WARN if has_risen else INFO, mean, base, thresholds["warn"])

    def _beyond_bound(self, values: Mapping[str, float], bound: float | None) -> Finding | None:
        held, limit = values.get("stale_held"), values.get("stale_held_limit")
        if held is not None and limit is not None and held > limit:
            return Finding(WARN, held, None, limit, words=("stale_held",))
        mean, oldest = values.get("staleness_mean"), values.get("staleness_max")
        bound = self.thresholds["bound"] if self.thresholds["bound"] >= 0.0 else bound
        if bound is None:
            return None if held is None or limit is None else QUIET
        if mean is not None and mean > bound:
            return Finding(WARN, mean, None, bound, words=("staleness_mean",))
        if oldest is not None and oldest > bound:
            return Finding(INFO, oldest, None, bound, words=("oldest",))
        return QUIET if mean is not None or oldest is not None else None

    def subject(self, finding: Finding) -> Subject:
        about = finding.words[0] if finding.words else "staleness_mean"
        return Subject("staleness_max" if about == "oldest" else about)


class MismatchCreep(Creep):
    """M10: mean log-probability difference, against the start or the first records before any update took effect."""

    first: list[float] = []
    untrained: float | None = None

    def look(self, value: float, context: RuleContext) -> Finding | None:
        """Judge the absolute value, as some trainers log it signed."""
        found = super().look(abs(value), context)
        if found is None or found is QUIET:
            return found
        if self.untrained is None:
            return found._replace(words=("since the baseline",))
        return found._replace(baseline=self.untrained, words=("since the first update: do new weights arrive?",))

    def _learn(self, value: float) -> None:
        super()._learn(value)
        first, thresholds = self.first, self.thresholds
        first.append(value)
        if not self.start.is_final:
            return
        for count in range(1, _UNTRAINED + 1):
            line = thresholds["at_once"] * max(*first[:count], thresholds["agrees"])
            if min(first[count:]) > line:
                self.untrained, self.line, self.release = max(first[:count]), line, line
