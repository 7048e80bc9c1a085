"""KL to the reference policy: how far the policy has walked, and what holds it back.

One name, two units: per token, or summed over the sequence; the detectors choose
first. Rising from 0 while learning is what it must do. The two ends of the leash:
a coefficient that runs away, and a KL that never begins because nothing moves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm, Level, Traits, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.persistence import BlockTrend, NOfMCounter
from rltop.stats.rolling import Frozen, Window, median_of
from rltop.units import number

_WINDOW = 50
_MEDIAN_OF = 5


class ReferenceKlSpike(Detector):
    """O11: KL to the reference policy, by unit.

    Per token: an absolute line that holds from the first record (no policy that
    writes language is ten nats per token away), and a jump against the 50
    records before. Summed over the sequence: lines of its own.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_WINDOW)
        self.huge = NOfMCounter(2, 5)
        self.floor = thresholds["floor"]
        self.jump = min(thresholds["warn"], thresholds["crit"])

    def detect(self, context: RuleContext) -> Finding | None:
        """CRIT on the absolute line at once; WARN and CRIT on jumps, the detector counts n of m itself."""
        value = context.values.get("kl_ref")
        if value is None:
            return None
        if context.traits.kl_is_sequence_sum:
            return self._sequence_sum(value)
        window = self.window
        if value <= self.floor or self.jump * window.median >= value <= self.thresholds["absolute"]:
            window.push(value)
            self.huge.push(False)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if value > self.thresholds["absolute"]:
            return Finding(CRIT, value, usual if known else None, self.thresholds["absolute"])
        return QUIET if known < self.thresholds["young"] or usual <= 0.0 else self._jump(value, usual, known)

    def _jump(self, value: float, usual: float, known: int) -> Finding:
        thresholds = self.thresholds
        if known < thresholds["wait"]:
            return self._young_jump(value, usual)
        is_huge = value > thresholds["crit"] * usual and value > thresholds["crit_floor"]
        if self.huge.push(is_huge) and is_huge:
            return Finding(CRIT, value, usual, thresholds["crit"] * usual)
        if value > thresholds["warn"] * usual:
            return Finding(WARN, value, usual, thresholds["warn"] * usual)
        return QUIET

    def _young_jump(self, value: float, usual: float) -> Finding:
        """A young run walks away from 0 as it learns, but not by that much within a few records."""
        line = max(self.thresholds["crit"] * usual, self.thresholds["crit_floor"])
        return Finding(WARN, value, usual, line) if value > line else QUIET

    def _sequence_sum(self, value: float) -> Finding:
        factor = RELEASE if self.is_firing else 1.0
        if value > self.thresholds["sum_crit"] * factor:
            return Finding(CRIT, value, None, self.thresholds["sum_crit"])
        if value > self.thresholds["sum_warn"] * factor:
            return Finding(WARN, value, None, self.thresholds["sum_warn"])
        return QUIET

    def headline(self, finding: Finding) -> str:
        """Distance, and what it usually is."""
        usual = f", usually {number(finding.baseline)}" if finding.baseline is not None else ""
        return f"KL to the reference is {number(finding.value)} nats{usual} (line {number(finding.threshold or 0)})"


class ReferenceKlDrift(Detector):
    """O12: the policy walks away from the reference without earning reward for it."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.base = Frozen(skip=50, size=30, minimum=30)
        self.trend = BlockTrend()
        self.reward_then: float | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Speaks once per block of ten records; the base is records 50 to 80."""
        value = context.values.get("kl_ref")
        if value is None:
            return None
        base = self.base
        if not base.is_final:
            base.push(value)
            if base.is_final:
                self.reward_then = context.reward.usual if context.reward.count else None
        if not self.trend.push(value) or base.value is None or not self.trend.is_full:
            return None
        newest = self.trend.medians[-1]
        floor = self.thresholds["sum_floor"] if context.traits.kl_is_sequence_sum else self.thresholds["floor"]
        if (
            newest < self.thresholds["warn"] * base.value
            or newest < floor
            or self.trend.monotony < self.thresholds["monotony"]
        ):
            return QUIET
        return Finding(self._level(context), newest, base.value, self.thresholds["warn"] * base.value)

    def _level(self, context: RuleContext) -> Level:
        then = self.reward_then
        if then is None:
            return WARN
        reach = context.reward.top - context.reward.bottom
        return INFO if context.reward.usual > then + 0.02 * reach or context.reward.is_high else WARN

    def headline(self, finding: Finding) -> str:
        """How much farther than after the start."""
        factor = finding.value / finding.baseline if finding.baseline else 0.0
        what = "" if finding.level is INFO else ", and the reward has not risen"
        return (
            f"policy is {number(factor)}× farther from the reference than at the start "
            f"({number(finding.value)} nats){what}"
        )


class FarWithoutReward(Detector):
    """O17: far from the reference in short runs, with nothing gained since the first records.

    O12 needs a hundred records; a run that logs every ten steps may end before.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.lately: deque[float] = deque(maxlen=10)
        self.base = Frozen(skip=5, size=10, minimum=10)
        self.reward_then: float | None = None
        self.floor = thresholds["warn"]

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of ten against records 6 to 15; with a high line that needs no comparison."""
        value = context.values.get("kl_ref")
        if value is None or context.traits.kl_is_sequence_sum:
            return None
        lately, base = self.lately, self.base
        lately.append(value)
        if not base.is_final:
            base.push(value)
            if base.is_final and context.reward.count:
                self.reward_then = context.reward.usual
        if value <= self.floor or len(lately) < _MEDIAN_OF:
            return QUIET
        level = median_of(list(lately))
        if level > self.thresholds["high"]:
            return Finding(WARN, level, base.value, self.thresholds["high"])
        line = max(self.floor, self.thresholds["rise"] * (base.value or 0.0))
        if not base.is_final or level <= line or self._has_gained(context):
            return QUIET
        return Finding(WARN, level, base.value, line)

    def _has_gained(self, context: RuleContext) -> bool:
        reward = context.reward
        if self.reward_then is None or reward.is_constant:
            return True
        return reward.is_high or reward.usual > self.reward_then + 0.05 * (reward.top - reward.bottom)

    def headline(self, finding: Finding) -> str:
        """Distance now and at the start."""
        start = f", {number(finding.baseline)} in the first records" if finding.baseline is not None else ""
        return f"policy stands {number(finding.value)} nats per token from the reference{start}"


class NegativeKl(Detector):
    """O13: a KL estimate that stays below zero: sampling and scoring differ."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.lately: deque[float] = deque(maxlen=_MEDIAN_OF)

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of the last five records."""
        value = context.values.get("kl_ref")
        if value is None:
            return None
        self.lately.append(value)
        if value >= 0.0:
            return QUIET
        if len(self.lately) < _MEDIAN_OF:
            return QUIET
        is_sum = context.traits.kl_is_sequence_sum
        line = self.thresholds["sum_warn" if is_sum else "warn"]
        median = median_of(list(self.lately))
        if median >= line:
            return QUIET
        return Finding(CRIT if median < self.thresholds["crit"] else WARN, median, None, line)

    def headline(self, finding: Finding) -> str:
        """The estimate and what it means."""
        return (
            f"KL estimate {number(finding.value)} over five records: log-probabilities come from another distribution"
        )


_SETTLED = 20


def _has_loaded_reference(algorithm: Algorithm, traits: Traits) -> bool:
    """A reference model is there: a column of zeros says that there is none."""
    return applicability.has_reference_kl(algorithm, traits) and traits.has_reference


class NothingMoves(Detector):
    """O14: the KL to the reference stays at nothing although the learning rate is not 0."""

    def detect(self, context: RuleContext) -> Finding | None:
        """Information; WARN where the reward does not move either."""
        value = context.values.get("kl_ref")
        if value is None:
            return None
        line = self.thresholds["info"]
        if abs(value) >= line:
            return QUIET
        if not context.lr:
            return QUIET
        reward = context.reward
        is_flat = reward.count >= _SETTLED and not (reward.is_improving or reward.is_high or reward.is_constant)
        return Finding(WARN if is_flat else INFO, value, None, self.thresholds["info"])

    def headline(self, finding: Finding) -> str:
        """The level and what it means."""
        flat = ", and the reward does not rise" if finding.level >= WARN else ""
        return f"KL to the reference stays at {number(finding.value)}: the weights may not be changing{flat}"


class CoefficientRunaway(Detector):
    """O15: the controller of the KL coefficient pulls harder and harder."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.last = 0.0
        self.risen = 0

    def detect(self, context: RuleContext) -> Finding | None:
        """Several times the start, without having come down for a while."""
        value = context.values.get("kl_coef")
        if value is None:
            return None
        if not self.start.is_final:
            self.start.push(value)
        self.risen = 0 if value < self.last else self.risen + 1
        self.last = value
        base = self.start.value
        if not base or value <= self.thresholds["info"] * base or self.risen < self.thresholds["records"]:
            return QUIET
        return Finding(INFO, value, base, self.thresholds["info"] * base)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return f"KL coefficient {number(finding.baseline or 0)} → {number(finding.value)}, and still rising"


RULES = (
    RuleSpec(
        id="O11",
        title="KL to reference",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        detector=ReferenceKlSpike,
        condition="Per token: above `absolute`: CRIT from the first record on. After `wait` records: above `warn`× the "
        "usual and above `floor` in 3 of 5: WARN; above `crit`× and `crit_floor` in 2 of 5: CRIT, WARN between "
        "`young` and `wait` records. Summed over the sequence: above `sum_warn` WARN, above `sum_crit` CRIT.",
        thresholds={
            "absolute": 10.0,
            "wait": 50,
            "young": 10,
            "warn": 5.0,
            "floor": 0.3,
            "crit": 20.0,
            "crit_floor": 0.5,
            "sum_warn": 30.0,
            "sum_crit": 100.0,
        },
        n_of_m={WARN: NOfM(3, 5)},
        clear_after=5,
        applies=applicability.has_reference_kl,
        evidence=EvidenceNames("kl_ref", "usual", Unit.NATS),
        why="A policy that far from where it started usually writes garbage; and where KL is part of the "
        "objective, the "
        "penalty now outweighs everything else.",
        causes=(
            "learning rate too high",
            "wrong template or checkpoint",
            "no KL term",
            "a reference that was not loaded",
        ),
        next=("lr", "grad_norm", "truncated_frac", "entropy", "off_policy_kl", "reward_mean"),
        sources="open-r1 issue 257; TRL issues 1098 and 204; TRL's objective/kl is a sum over the sequence "
        "(9 to 12 on a healthy run).",
    ),
    RuleSpec(
        id="O12",
        title="KL drift",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        detector=ReferenceKlDrift,
        condition="Medians of ten records rise monotonically (Kendall's tau above `monotony`) to more than `warn`× "
        "records 50 to 80, and above `floor` per token (`sum_floor` summed): WARN while the reward stays "
        "flat, INFO while it rises.",
        thresholds={"warn": 3.0, "floor": 0.2, "sum_floor": 15.0, "monotony": 0.55},
        warm_up=100,
        applies=applicability.has_reference_kl,
        evidence=EvidenceNames("kl_ref", "records 50 to 80", Unit.NATS, threshold=""),
        why="KL is what reward costs; spent without reward it is only distance.",
        causes=("learning rate too high for the KL coefficient", "reward noise", "no KL term"),
        next=("reward_mean", "val_score", "entropy", "lr", "response_len_mean"),
        sources="Gao et al. on reward over-optimisation: gold reward falls past a KL budget.",
    ),
    RuleSpec(
        id="O17",
        title="far from reference",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        detector=FarWithoutReward,
        condition="Per token, 5 of 8 records: median of ten above `warn` and above `rise`× records 6 to 15 while the "
        "reward stands no higher than then, or above `high`: WARN.",
        thresholds={"warn": 0.3, "rise": 5.0, "high": 2.0},
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=15,
        applies=applicability.has_reference_kl,
        evidence=EvidenceNames("kl_ref", "records 6 to 15", Unit.NATS),
        why="KL is what reward costs; spent without reward it is only distance.",
        causes=("learning rate too high", "no KL term", "reward noise", "wrong template or checkpoint"),
        next=("reward_mean", "val_score", "lr", "entropy", "truncated_frac"),
        sources="Gao et al. on reward over-optimisation; healthy group methods stay between 1e-4 and 0.1 per token.",
    ),
    RuleSpec(
        id="O13",
        title="negative KL",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        detector=NegativeKl,
        condition="Median of five records below `warn` per token, or below `sum_warn` summed over the sequence: "
        "WARN; below "
        "`crit`: CRIT.",
        thresholds={"warn": -0.01, "sum_warn": -0.5, "crit": -5.0},
        n_of_m={INFO: NOfM(3, 5), WARN: NOfM(3, 5), CRIT: NOfM(3, 5)},
        applies=applicability.has_reference_kl,
        why="A KL cannot be negative; its estimate is when the text was not sampled from the policy that scores it.",
        causes=(
            "top-p or temperature differ between sampling and scoring",
            "masked tokens in the sum",
            "wrong padding",
        ),
        next=("off_policy_kl", "reward_mean", "truncated_frac"),
        sources="TRL issues 1098 and 204.",
    ),
    RuleSpec(
        id="O14",
        title="KL stays at 0",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        detector=NothingMoves,
        condition="Below `info` in 50 records in a row at a learning rate above 0, with a reference model: INFO; WARN "
        "where the reward has not risen either.",
        thresholds={"info": 1e-6},
        n_of_m={INFO: NOfM(50, 50), WARN: NOfM(50, 50)},
        warm_up=50,
        applies=_has_loaded_reference,
        evidence=EvidenceNames("kl_ref", "", Unit.NATS),
        why="A policy that learns leaves its reference; one that stays on it may not be updated at all.",
        causes=(
            "learning rate far too low",
            "frozen parameters or an adapter that is not attached",
            "gradients that are zero",
            "weights that are compared with themselves",
        ),
        next=("grad_norm", "lr", "zero_std_frac", "reward_mean", "clip_frac"),
        sources="judgement; exactly 0 throughout means that no reference is loaded (OpenRLHF experience_maker.py).",
    ),
    RuleSpec(
        id="O15",
        title="KL coefficient",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_coef",),
        detector=CoefficientRunaway,
        condition="Above `info` times the start and not lower than before for `records` records: INFO.",
        thresholds={"info": 5.0, "records": 10},
        applies=applicability.has_reference_kl,
        why="The controller no longer holds the policy where it should be; soon the penalty is the objective.",
        causes=(
            "a KL target far below what the task needs",
            "learning rate too high",
            "a controller that steps too far",
        ),
        next=("kl_ref", "reward_final", "score_mean", "lr"),
        sources="judgement; adaptive controllers of veRL and TRL.",
    ),
)
