"""Clipping: how often an update hits the trust-region bound.

There are four regimes, and no threshold fits two of them: nothing is clipped
with one update per rollout, a few in a thousand tokens of a language model, a
tenth of all sequences under sequence-level clipping, a quarter of the actions of
a robot policy. Each regime has its own rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import Line
from rltop.rules.rule import (
    CRIT,
    INFO,
    QUIET,
    RELEASE,
    WARN,
    Detector,
    EvidenceNames,
    Finding,
    NOfM,
    RuleSpec,
    State,
    Subject,
)
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Frozen, Window
from rltop.units import number, percent

_MIN_SAMPLES = 10
_WINDOW = 50
_SEQUENCE_CLIP = 0.03
_SEQUENCE_KL = 1e-3
_LATELY = 3
_ASYNC = 3.0
_FAMILIES = frozenset({"kl", "reward", "entropy"})
"""Verdicts of these make clipping more than a number."""


def _is_sequence_level(value: float, values: Mapping[str, float]) -> bool:
    """Much is clipped although the policy has hardly moved: sequence-level clipping (GSPO)."""
    step_kl = values.get("kl_old")
    return value > _SEQUENCE_CLIP and step_kl is not None and abs(step_kl) < _SEQUENCE_KL


class _Consequences(State):
    """Whether clipping comes with anything that a large update does.

    A share alone says little: healthy runs clip 5 % at a step KL of 0.01 while they learn.
    """

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


class _Clipped(Detector):
    """A clip fraction against absolute thresholds, lower ones where the update shows consequences."""

    text = "clip fraction {value:%} ({usual:%}threshold {threshold:%})"

    def _beyond(self, value: float, usual: float | None, is_harmful: bool) -> Finding:
        for level, name, alone in ((CRIT, "crit", "alone_crit"), (WARN, "warn", "alone_warn")):
            factor = self.held_part(level)
            if value > self.thresholds[alone] * factor:
                return Finding(level, value, usual, self.thresholds[alone])
            if is_harmful and value > self.thresholds[name] * factor:
                return Finding(level, value, usual, self.thresholds[name])
        return QUIET

    def _noted(self, value: float, usual: float | None) -> Finding:
        warn = self.thresholds["warn"]
        return Finding(INFO, value, usual, warn) if value > warn * self.held_part(INFO) else QUIET


class TokenClip(_Clipped):
    """O6: share of tokens of a language model whose update was clipped."""

    window = Window(_WINDOW)

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.lowest = min(thresholds["rise_floor"], thresholds["warn"]) * RELEASE
        self.consequences = _Consequences(thresholds)

    def detect(self, context: RuleContext) -> Finding | None:
        """Absolute thresholds from the first record; the ratio once ten are known."""
        value = context.values.get("clip_frac")
        if value is None:
            return None
        window, is_harmful = self.window, self.consequences.observe(context)
        if value <= self.lowest:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if _is_sequence_level(value, context.values):
            return QUIET
        beyond, rise = self._beyond(value, usual, is_harmful), self.thresholds["rise"] * usual
        if beyond is not QUIET:
            return beyond
        if known >= _MIN_SAMPLES and 0.0 < rise < value and value > self.thresholds["rise_floor"]:
            return Finding(WARN, value, usual, rise)
        return self._noted(value, usual)


class ActionClip(_Clipped):
    """O6e: share of a robot policy's actions whose update was clipped."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.consequences = _Consequences(thresholds)

    def detect(self, context: RuleContext) -> Finding | None:
        """Absolute thresholds, lower ones where the update shows consequences."""
        value = context.values.get("clip_frac")
        if value is None:
            return None
        beyond = self._beyond(value, None, self.consequences.observe(context))
        return self._noted(value, None) if beyond is QUIET else beyond


class SequenceClip(_Clipped):
    """O6g: sequence-level clipping, against the run-start baseline.

    It clips two orders of magnitude more than token-level clipping, at a step KL
    near 0, so that no absolute threshold below "nearly all" means anything.
    """

    start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """Only records that look like sequence-level clipping are judged."""
        value = context.values.get("clip_frac")
        if value is None:
            return None
        self.start.push(value)
        if not _is_sequence_level(value, context.values):
            return QUIET
        base, warn = self.start.value, self.thresholds["warn"]
        if value > warn:
            return Finding(WARN, value, base, warn)
        if base is not None and base > 0.0 and value > self.thresholds["rise"] * base:
            return Finding(WARN, value, base, self.thresholds["rise"] * base)
        return QUIET

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        return names.of(finding if finding.baseline is not None else finding._replace(baseline=0.0))


class ClipAsymmetry(Detector):
    """O7: one bound of the trust region clips far more than the other."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.floor, self.factor = thresholds["floor"], thresholds["info"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Which side clips more, and by what factor."""
        low, high = context.values.get("clip_frac_low"), context.values.get("clip_frac_high")
        if low is None or high is None:
            return None
        more, less = (high, low) if high >= low else (low, high)
        if more <= self.floor or more <= self.factor * less:
            return QUIET
        return Finding(INFO, more, less, self.floor, words=("upper" if high >= low else "lower",))

    def subject(self, finding: Finding) -> Subject:
        return Subject("clip_frac_high" if finding.words[0] == "upper" else "clip_frac_low")

    def headline(self, finding: Finding) -> str:
        side = finding.words[0]
        other = "lower" if side == "upper" else "upper"
        less = percent(finding.baseline or 0.0)
        return f"the {side} edge clips {percent(finding.value)} of the tokens, the {other} {less}"


class PinnedGradient(Detector):
    """O3: gradient norm logged at one maximum value: it is logged after clipping."""

    further = (("records at maximum", Unit.COUNT),)

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.top = 0.0
        self.line = 0.0
        self.often = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))

    def detect(self, context: RuleContext) -> Finding | None:
        """Keeps its own count of how often the largest value so far was reached."""
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


_FIVE_OF_TEN = {level: NOfM(5, 10) for level in (INFO, WARN, CRIT)}
_FOUR_OF_EIGHT = {level: NOfM(4, 8) for level in (INFO, WARN, CRIT)}

_row = partial(RuleSpec, family="clip")

RULES = (
    _row(
        id="O3",
        title="gradient clipping",
        family="gradient",
        metrics=("grad_norm",),
        detector=PinnedGradient,
        thresholds={"n": 27, "m": 30, "reach": 0.01},
        clear_after=10,
        warm_up=27,
        evidence=EvidenceNames("grad_norm", "", threshold=""),
    ),
    _row(
        id="O6",
        title="clip fraction",
        metrics=("clip_frac",),
        detector=TokenClip,
        thresholds={
            "warn": 0.05,
            "crit": 0.2,
            "rise": 10.0,
            "rise_floor": 0.02,
            "alone_warn": 0.2,
            "alone_crit": 0.4,
            "kl": 0.02,
            "gradient": 3.0,
        },
        n_of_m=_FOUR_OF_EIGHT,
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("clip_frac", "baseline", Unit.FRACTION),
    ),
    _row(
        id="O6g",
        part_of="O6",
        title="sequence clipping",
        metrics=("clip_frac",),
        detector=SequenceClip,
        thresholds={"rise": 2.0, "warn": 0.7},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("clip_frac", "baseline", Unit.FRACTION),
    ),
    _row(
        id="O6e",
        part_of="O6",
        title="clip fraction",
        metrics=("clip_frac",),
        detector=ActionClip,
        thresholds={
            "warn": 0.3,
            "crit": 0.5,
            "alone_warn": 0.6,
            "alone_crit": 0.8,
            "kl": 0.045,
            "gradient": 3.0,
        },
        n_of_m=_FOUR_OF_EIGHT,
        evidence=EvidenceNames("clip_frac", "", Unit.FRACTION),
        applies=applicability.is_embodied,
    ),
    _row(
        id="O7",
        title="one-sided clipping",
        metrics=("clip_frac_low", "clip_frac_high"),
        measures="the larger of both sides",
        detector=ClipAsymmetry,
        thresholds={"info": 5.0, "floor": 0.02},
        n_of_m={INFO: NOfM(20, 20)},
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("larger side", "smaller side", Unit.FRACTION),
    ),
    _row(
        id="O8",
        part_of="O7",
        title="dual clip",
        metrics=("clip_frac_lower",),
        detector=partial(
            Line,
            metric="clip_frac_lower",
            text="{value:%} of tokens hit the dual-clip bound for negative advantages (threshold {threshold:%})",
            unit=Unit.FRACTION,
        ),
        thresholds={"warn": 0.005},
        n_of_m={WARN: NOfM(3, 5), INFO: NOfM(3, 5)},
        applies=applicability.has_token_clip,
    ),
)
