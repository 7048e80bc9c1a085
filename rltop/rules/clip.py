"""Clipping: how often an update hits the trust-region bound.

There are four regimes, and no threshold fits two of them: nothing is clipped with one update per rollout, a few in a
thousand tokens of a language model, a tenth of all sequences under sequence-level clipping, a quarter of the actions of
a robot policy. Profiles and, for sequences, thresholds of their own tell them apart.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, Finding, State
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Frozen, Window
from rltop.units import number

_MIN_SAMPLES = 10
_WINDOW = 50
_SEQUENCE_CLIP = 0.03
_SEQUENCE_KL = 1e-3
_LATELY = 3
_ASYNC = 3.0
_FAMILIES = frozenset({"kl", "reward", "entropy"})
"""Verdicts of these make clipping more than a number."""


def _is_sequence_level(value: float, values: Mapping[str, float]) -> bool:
    step_kl = values.get("kl_old")
    return value > _SEQUENCE_CLIP and step_kl is not None and abs(step_kl) < _SEQUENCE_KL


class _Consequences(State):
    """Whether clipping comes with anything that a large update does: healthy runs clip 5 % while they learn."""

    start = Frozen(skip=0, size=10, minimum=5)
    lately = NOfMCounter(1, _LATELY)

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__()
        self.kl, self.gradient = thresholds["kl"], thresholds["gradient"]

    def observe(self, context: RuleContext) -> bool:
        """Take a record in; says whether it, or one of the two before, shows a consequence."""
        values = context.values
        norm, step_kl = values.get("grad_norm"), values.get("kl_old")
        base = self.start.value
        if norm is not None:
            self.start.push(norm)
        is_steep = norm is not None and base is not None and norm > self.gradient * base > 0.0
        line = self.kl * (_ASYNC if context.traits.is_async else 1.0)
        is_far = step_kl is not None and abs(step_kl) > line
        onsets = context.onsets
        has_verdict = bool(onsets) and not _FAMILIES.isdisjoint(onsets)
        return self.lately.push(is_steep or is_far or has_verdict)


class TokenClip(Detector):
    """O6: share of tokens, sequences, or actions of a robot, whose update was clipped."""

    text = "clip fraction {value:%} ({usual:%}threshold {threshold:%})"
    window = Window(_WINDOW)

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.lowest = min(thresholds["rise_floor"], thresholds["warn"]) * RELEASE
        self.consequences = _Consequences(thresholds)
        self.start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        value = context.values.get("clip_frac")
        if value is None:
            return None
        window, is_harmful = self.window, self.consequences.observe(context)
        self.start.push(value)
        if value <= self.lowest:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if _is_sequence_level(value, context.values):
            return self._of_sequences(value)
        beyond, rise = self._beyond(value, usual, is_harmful), self.thresholds["rise"] * usual
        if beyond is not QUIET:
            return beyond
        if known >= _MIN_SAMPLES and 0.0 < rise < value and value > self.thresholds["rise_floor"]:
            return Finding(WARN, value, usual, rise)
        warn = self.thresholds["warn"]
        return Finding(INFO, value, usual, warn) if value > warn * self.held_part(INFO) else QUIET

    def _of_sequences(self, value: float) -> Finding:
        base, line = self.start.value, self.thresholds["sequences"]
        if value <= line and base is not None:
            line = min(line, self.thresholds["sequences_rise"] * base) if base > 0.0 else line
        return Finding(WARN, value, base, line) if value > line else QUIET

    def _beyond(self, value: float, usual: float | None, is_harmful: bool) -> Finding:
        for level, name, alone in ((CRIT, "crit", "alone_crit"), (WARN, "warn", "alone_warn")):
            factor = self.held_part(level)
            if value > self.thresholds[alone] * factor:
                return Finding(level, value, usual, self.thresholds[alone])
            if is_harmful and value > self.thresholds[name] * factor:
                return Finding(level, value, usual, self.thresholds[name])
        return QUIET


class PinnedGradient(Detector):
    """O3: gradient norm logged at one maximum value: it is logged after clipping."""

    further = (("records at maximum", Unit.COUNT),)

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.top = 0.0
        self.line = 0.0
        self.often = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))

    def detect(self, context: RuleContext) -> Finding | None:
        value = context.values.get("grad_norm")
        if value is None:
            return None
        if value < self.line:
            self.often.push(False)
            return QUIET
        reach = self.thresholds["reach"]
        if value > self.top * (1.0 + reach):
            self.often = NOfMCounter(self.often.n, self.often.m)
        if value > self.top:
            self.top, self.line = value, value * (1.0 - reach)
        if not self.often.push(value > 0.0):
            return QUIET
        return Finding(INFO, self.top, None, None, (float(self.often.bits.bit_count()),))

    def headline(self, finding: Finding) -> str:
        of = int(self.thresholds["m"])
        return (
            f"gradient norm at its maximum {number(finding.value)} in {finding.extra[0]:.0f} of {of} records: "
            f"nearly every step is clipped"
        )
