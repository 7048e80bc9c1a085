"""What holds the policy to its reference: a coefficient that runs away, a KL that never begins.

The two ends of the same leash: pulled ever harder, or not pulled at all
because nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Algorithm, Traits, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen
from rltop.units import number

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
