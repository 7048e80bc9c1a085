"""Clipping: how often an update hits the trust-region bound.

There are four regimes, and no threshold fits two of them: nothing is clipped
with one update per rollout, a few in a thousand tokens of a language model, a
tenth of all sequences under sequence-level clipping, a quarter of the actions of
a robot policy. Each regime has its own rule.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.detectors import Above
from rltop.rules.rule import (
    CRIT,
    INFO,
    QUIET,
    RELEASE,
    WARN,
    Detector,
    EvidenceNames,
    Finding,
    Group,
    NOfM,
    RuleSpec,
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


class _Consequences:
    """Whether clipping comes with anything that a large update does.

    A share alone says little: healthy runs clip 5 % at a step KL of 0.01 while they learn.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        self.kl, self.gradient = thresholds["kl"], thresholds["gradient"]
        self.start = Frozen(skip=0, size=10, minimum=5)
        self.lately = NOfMCounter(1, _LATELY)

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

    def clone(self) -> _Consequences:
        """An independent copy."""
        twin = _Consequences.__new__(_Consequences)
        twin.kl, twin.gradient, twin.start = self.kl, self.gradient, self.start.clone()
        twin.lately = self.lately.clone()
        return twin


class _Clipped(Detector):
    """The headline of the clip-fraction rules."""

    def headline(self, finding: Finding) -> str:
        """Share, baseline and threshold."""
        usual = f"baseline {percent(finding.baseline)}, " if finding.baseline is not None else ""
        return f"clip fraction {percent(finding.value)} ({usual}threshold {percent(finding.threshold or 0)})"


class TokenClip(_Clipped):
    """O6: share of tokens of a language model whose update was clipped."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_WINDOW)
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
        return self._against_lines(value, usual, known, is_harmful)

    def _against_lines(self, value: float, usual: float, known: int, is_harmful: bool) -> Finding:
        for level, name, alone in ((CRIT, "crit", "alone_crit"), (WARN, "warn", "alone_warn")):
            factor = self.held_part(level)
            if value > self.thresholds[alone] * factor:
                return Finding(level, value, usual, self.thresholds[alone])
            if is_harmful and value > self.thresholds[name] * factor:
                return Finding(level, value, usual, self.thresholds[name])
        rise, warn = self.thresholds["rise"] * usual, self.thresholds["warn"]
        if known >= _MIN_SAMPLES and 0.0 < rise < value and value > self.thresholds["rise_floor"]:
            return Finding(WARN, value, usual, rise)
        return Finding(INFO, value, usual, warn) if value > warn * self.held_part(INFO) else QUIET


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
        is_harmful = self.consequences.observe(context)
        for level, name, alone in ((CRIT, "crit", "alone_crit"), (WARN, "warn", "alone_warn")):
            factor = self.held_part(level)
            if value > self.thresholds[alone] * factor:
                return Finding(level, value, None, self.thresholds[alone])
            if is_harmful and value > self.thresholds[name] * factor:
                return Finding(level, value, None, self.thresholds[name])
        warn = self.thresholds["warn"]
        return Finding(INFO, value, None, warn) if value > warn * self.held_part(INFO) else QUIET


class SequenceClip(_Clipped):
    """O6g: sequence-level clipping, against the run-start baseline.

    It clips two orders of magnitude more than token-level clipping, at a step KL
    near 0, so that no absolute threshold below "nearly all" means anything.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()

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
        """A start that is not known yet counts as 0."""
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
        """The side that clips more."""
        return Subject("clip_frac_high" if finding.words[0] == "upper" else "clip_frac_low")

    def headline(self, finding: Finding) -> str:
        """Both sides."""
        side = finding.words[0]
        other = "lower" if side == "upper" else "upper"
        less = percent(finding.baseline or 0.0)
        return f"the {side} edge clips {percent(finding.value)} of the tokens, the {other} {less}"


class PinnedGradient(Detector):
    """O3: gradient norm logged at one maximum value: it is logged after clipping."""

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
        """The value, and how often it was reached."""
        of = int(self.thresholds["m"])
        return (
            f"gradient norm at its maximum {number(finding.value)} in {finding.extra[0]:.0f} of {of} records: "
            f"nearly every step is clipped"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """The value, and how often."""
        return (*names.of(finding), Evidence("records at maximum", finding.extra[0], Unit.COUNT))


UPDATE_CAUSES = (
    "learning rate too high",
    "too many minibatches or epochs per rollout",
    "stale rollouts",
    "very small batch",
)
"""Likely causes of an update that is too large, likeliest first."""
_NEXT = ("kl_old", "ratio_mean", "lr", "off_policy_kl", "staleness_mean", "grad_norm")
_FIVE_OF_TEN = {level: NOfM(5, 10) for level in (INFO, WARN, CRIT)}
_FOUR_OF_EIGHT = {level: NOfM(4, 8) for level in (INFO, WARN, CRIT)}
_WHY = (
    "How often the update hits the trust-region bound; language models usually clip 0.1 to 1 % of tokens, "
    "not the textbook 10 to 30 %."
)
_SOURCES = (
    "TRL issue 3120 (0 by construction); published veRL runs: median 0.001 to 0.004, maximum 0.009; "
    "Stable-Baselines3 docs: 0.24 for classic PPO; GSPO paper: two orders of magnitude above GRPO."
)

RULES = (
    RuleSpec(
        id="O3",
        title="gradient clipping",
        family="gradient",
        group=Group.LEARNING,
        metrics=("grad_norm",),
        detector=PinnedGradient,
        condition="Within `reach` of the largest value so far in `n` of the last `m` records: INFO.",
        thresholds={"n": 27, "m": 30, "reach": 0.01},
        clear_after=10,
        warm_up=27,
        evidence=EvidenceNames("grad_norm", "", threshold=""),
        why="Where the norm is logged after clipping, a norm at the limit on every step hides the real norm, "
        "and the step size is set by the limit.",
        causes=("clipping limit far below the typical norm", "growing gradients", "batch too small"),
        next=("lr", "loss", "kl_old", "entropy"),
        sources="judgement; the norm before clipping is never that constant.",
    ),
    RuleSpec(
        id="O6",
        title="clip fraction",
        family="clip",
        group=Group.LEARNING,
        metrics=("clip_frac",),
        detector=TokenClip,
        condition="4 of 8 records: above `rise`× the baseline and `rise_floor`, or above `alone_warn`, or above `warn` "
        "with a consequence on this record or one of the two before (step KL above `kl`, three times that in "
        "asynchronous training; gradient norm above `gradient`× run start; a verdict on KL, reward or entropy): WARN; "
        "above `alone_crit`, or above `crit` with a consequence: CRIT; above `warn` alone: INFO. Off with one update "
        "per rollout, where it is 0 by construction; records with sequence-level clipping are left to O6g.",
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
        why=_WHY,
        causes=UPDATE_CAUSES,
        next=_NEXT,
        sources=_SOURCES,
    ),
    RuleSpec(
        id="O6g",
        title="sequence clipping",
        family="clip",
        group=Group.LEARNING,
        metrics=("clip_frac",),
        detector=SequenceClip,
        condition="Where more than 3 % is clipped at a step KL below 1e-3, 5 of 10 records: above `rise`× run start, "
        "or above `warn`: WARN.",
        thresholds={"rise": 2.0, "warn": 0.7},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("clip_frac", "baseline", Unit.FRACTION),
        why="Sequence-level clipping clips a tenth of all sequences on a healthy run; only a change is a sign.",
        causes=UPDATE_CAUSES,
        next=_NEXT,
        sources=_SOURCES,
    ),
    RuleSpec(
        id="O6e",
        title="clip fraction",
        family="clip",
        group=Group.LEARNING,
        metrics=("clip_frac",),
        detector=ActionClip,
        condition="Embodied policies, 4 of 8 records: above `alone_warn`, or above `warn` with a consequence as of O6 "
        "(`kl`, `gradient`): WARN; above `alone_crit`, or above `crit` with a consequence: CRIT; above `warn` alone: "
        "INFO.",
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
        why="Classic PPO clips a tenth to a quarter of its actions; beyond that most of the batch has no effect.",
        causes=UPDATE_CAUSES,
        next=_NEXT,
        sources=_SOURCES,
    ),
    RuleSpec(
        id="O7",
        title="one-sided clipping",
        family="clip",
        group=Group.LEARNING,
        metrics=("clip_frac_low", "clip_frac_high"),
        measures="the larger of both sides",
        detector=ClipAsymmetry,
        condition="One bound clips more than `info` times the other and more than `floor`, 20 records in a row: INFO.",
        thresholds={"info": 5.0, "floor": 0.02},
        n_of_m={INFO: NOfM(20, 20)},
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("larger side", "smaller side", Unit.FRACTION),
        why="Clipping only at the upper bound keeps rare good tokens from gaining probability, and entropy falls; "
        "clipping only at the lower bound means that the policy mostly unlearns.",
        causes=("symmetric clip range", "advantages mostly of one sign", "too many updates per rollout"),
        next=("entropy", "clip_frac", "adv_mean", "kl_old"),
        sources="DAPO (clip-higher, a raised upper bound); the factor is judgement.",
    ),
    RuleSpec(
        id="O8",
        title="dual clip",
        family="clip",
        group=Group.LEARNING,
        metrics=("clip_frac_lower",),
        detector=lambda thresholds: Above(
            thresholds,
            metric="clip_frac_lower",
            text="{value} of tokens hit the dual-clip bound for negative advantages (threshold {threshold})",
            unit=Unit.FRACTION,
        ),
        condition="Above `warn` in 3 of 5 records.",
        thresholds={"warn": 0.005},
        n_of_m={WARN: NOfM(3, 5), INFO: NOfM(3, 5)},
        applies=applicability.has_token_clip,
        why="Dual clip only acts on extreme ratios of bad completions; it is practically 0 on a healthy run.",
        causes=UPDATE_CAUSES,
        next=_NEXT,
        sources="veRL issue 7412: 6e-7 on a healthy run.",
    ),
)
