"""Clipping: how often an update hits the edge of the trust region.

There are four regimes, and no line holds for two of them: nothing is clipped
with one update per rollout, a few in a thousand tokens of a language model, a
tenth of all sequences where whole sequences are clipped, a quarter of the
actions of a robot. Each regime has a rule of its own.
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


def _is_sequence_level(value: float, values: Mapping[str, float]) -> bool:
    """Much is clipped although the policy has hardly moved: whole sequences are clipped (GSPO)."""
    step_kl = values.get("kl_old")
    return value > _SEQUENCE_CLIP and step_kl is not None and abs(step_kl) < _SEQUENCE_KL


class _Clipped(Detector):
    """What the rules on the clip fraction say about it."""

    def headline(self, finding: Finding) -> str:
        """Share and usual share."""
        usual = f" (usually {percent(finding.baseline)})" if finding.baseline is not None else ""
        return f"{percent(finding.value)} of the update is clipped, line {percent(finding.threshold or 0)}{usual}"


class TokenClip(_Clipped):
    """O6: share of tokens of a language model whose update was clipped."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_WINDOW)
        self.lowest = min(thresholds["rise_floor"], thresholds["warn"]) * RELEASE

    def detect(self, context: RuleContext) -> Finding | None:
        """Absolute lines from the first record; the ratio once ten are known."""
        value = context.values.get("clip_frac")
        if value is None:
            return None
        window = self.window
        if value <= self.lowest:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        return QUIET if _is_sequence_level(value, context.values) else self._against_lines(value, usual, known)

    def _against_lines(self, value: float, usual: float, known: int) -> Finding:
        factor = RELEASE if self.is_firing else 1.0
        warn, crit = self.thresholds["warn"], self.thresholds["crit"]
        if value > crit * factor:
            return Finding(CRIT, value, usual, crit)
        if value > warn * factor:
            return Finding(WARN, value, usual, warn)
        rise = self.thresholds["rise"] * usual
        if known < _MIN_SAMPLES or not 0.0 < rise < value or value <= self.thresholds["rise_floor"]:
            return QUIET
        return Finding(WARN, value, usual, rise)


class SequenceClip(_Clipped):
    """O6g: clipping of whole sequences, against the run's own start.

    It cuts two orders of magnitude more than clipping by token, with a step KL
    of almost nothing, so that no absolute line below "nearly all" means anything.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """Only records that look like clipping by sequence are judged."""
        value = context.values.get("clip_frac")
        if value is None:
            return None
        if not self.start.is_final:
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
    """O7: one edge of the trust region cuts far more than the other."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.floor, self.factor = thresholds["floor"], thresholds["info"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Which side cuts more, and by what factor."""
        low, high = context.values.get("clip_frac_low"), context.values.get("clip_frac_high")
        if low is None or high is None:
            return None
        more, less = (high, low) if high >= low else (low, high)
        if more <= self.floor or more <= self.factor * less:
            return QUIET
        return Finding(INFO, more, less, self.floor, words=("upper" if high >= low else "lower",))

    def subject(self, finding: Finding) -> Subject:
        """The side that cuts more."""
        return Subject("clip_frac_high" if finding.words[0] == "upper" else "clip_frac_low")

    def headline(self, finding: Finding) -> str:
        """Both sides."""
        side = finding.words[0]
        other = "lower" if side == "upper" else "upper"
        less = percent(finding.baseline or 0.0)
        return f"the {side} edge clips {percent(finding.value)} of the tokens, the {other} {less}"


class PinnedGradient(Detector):
    """O3: a gradient norm that stands at one largest value, which is what clipping leaves of it."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.top = 0.0
        self.line = 0.0
        self.often = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))

    def detect(self, context: RuleContext) -> Finding | None:
        """Keeps its own count: what is counted is how often the largest value so far was reached."""
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
            f"gradient norm stands at {number(finding.value)} in {finding.extra[0]:.0f} of {of} records: "
            f"every step is clipped"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """The value, and how often."""
        return (*names.of(finding), Evidence("records at this value", finding.extra[0], Unit.COUNT))


UPDATE_CAUSES = (
    "learning rate too high",
    "too many minibatches or epochs per rollout",
    "stale rollouts",
    "a tiny batch",
)
"""Likely causes of an update that goes too far, likeliest first."""
_NEXT = ("kl_old", "ratio_mean", "lr", "off_policy_kl", "staleness_mean", "grad_norm")
_FIVE_OF_TEN = {level: NOfM(5, 10) for level in (INFO, WARN, CRIT)}
_WHY = (
    "It shows how often the update hits the edge of the trust region; language models usually clip 0.1 to 1 % of "
    "tokens, not the 10 to 30 % of textbooks."
)
_SOURCES = (
    "TRL issue 3120 (0 by construction); published veRL runs: median 0.001 to 0.004, maximum 0.009; "
    "Stable-Baselines3 docs: 0.24 for classic PPO; GSPO paper: two orders of magnitude above GRPO."
)

RULES = (
    RuleSpec(
        id="O3",
        title="gradient clipped",
        family="gradient",
        group=Group.LEARNING,
        metrics=("grad_norm",),
        detector=PinnedGradient,
        condition="Within `reach` of the largest value so far in `n` of the last `m` records: INFO.",
        thresholds={"n": 27, "m": 30, "reach": 0.01},
        clear_after=10,
        warm_up=27,
        evidence=EvidenceNames("grad_norm", "", threshold=""),
        why="Where the norm is logged after clipping, a norm at the limit on every step says that its real size is "
        "not seen, and that the step size is set by the limit.",
        causes=("a clipping limit far below the usual norm", "gradients that grow", "a batch that is too small"),
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
        condition="5 of 10 records: above `warn`, or above `rise`× the usual and `rise_floor`: WARN; above `crit`: "
        "CRIT. Off with one update per rollout, where it is 0 by construction; records that clip by sequence are "
        "O6g's.",
        thresholds={"warn": 0.05, "crit": 0.2, "rise": 10.0, "rise_floor": 0.02},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("clip_frac", "usual", Unit.FRACTION),
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
        condition="Where more than 3 % is clipped at a step KL below 1e-3, 5 of 10 records: above `rise`× the start, "
        "or above `warn`: WARN.",
        thresholds={"rise": 2.0, "warn": 0.7},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("clip_frac", "usual", Unit.FRACTION),
        why="Clipping by sequence cuts a tenth of everything on a healthy run; only its change says something.",
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
        detector=lambda thresholds: Above(
            thresholds,
            metric="clip_frac",
            text="{value} of the update is clipped, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Embodied policies, 5 of 10 records: above `warn`: WARN; above `crit`: CRIT.",
        thresholds={"warn": 0.3, "crit": 0.5},
        n_of_m=_FIVE_OF_TEN,
        applies=applicability.is_embodied,
        why="Classic PPO clips a tenth to a quarter of its actions; beyond that most of a batch no longer counts.",
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
        measures="the larger of the two edges",
        detector=ClipAsymmetry,
        condition="One edge clips more than `info` times the other and more than `floor`, 20 records in a row: INFO.",
        thresholds={"info": 5.0, "floor": 0.02},
        n_of_m={INFO: NOfM(20, 20)},
        applies=applicability.has_token_clip,
        evidence=EvidenceNames("clipped more", "clipped less", Unit.FRACTION),
        why="An upper edge that does all the cutting keeps rare good tokens from growing, and entropy goes with them; "
        "a lower edge that does means that the policy mostly unlearns.",
        causes=("symmetric limits", "advantages that are mostly of one sign", "too many updates per rollout"),
        next=("entropy", "clip_frac", "adv_mean", "kl_old"),
        sources="DAPO (a raised upper limit, clip-higher); the factor is judgement.",
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
            text="{value} of tokens hit the lower bound for negative advantages, line {line}",
            unit=Unit.FRACTION,
        ),
        condition="Above `warn` in 3 of 5 records.",
        thresholds={"warn": 0.005},
        n_of_m={WARN: NOfM(3, 5), INFO: NOfM(3, 5)},
        applies=applicability.has_token_clip,
        why="The lower bound only cuts ratios that are far off on bad answers; it is practically 0 on a healthy run.",
        causes=UPDATE_CAUSES,
        next=_NEXT,
        sources="veRL issue 7412: 6e-7 on a healthy run.",
    ),
)
