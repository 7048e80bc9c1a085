"""The loss: a level that jumps and stays.

Never "the loss does not fall": a policy-gradient surrogate is about 0 by
construction, changes sign freely, and may rise while the policy learns.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, Window
from rltop.units import number

_WINDOW = 50
_MIN_SAMPLES = 10


class LossJump(Detector):
    """O5: the loss far outside what it has been, in units of its own spread."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.loss = Window(_WINDOW)
        self.reach = thresholds["warn"] * thresholds["floor"]

    def detect(self, context: RuleContext) -> Finding | None:
        """The median of 50 records before; the spread is only computed when the distance could count."""
        value = context.values.get("loss")
        if value is None:
            value = context.values.get("policy_loss")
            if value is None:
                return None
        window = self.loss
        median = window.median
        distance = value - median
        if abs(distance) <= self.reach or window.count < _MIN_SAMPLES or abs(value) <= abs(median):
            window.push(value)
            return QUIET
        spread = window.mad * MAD_TO_SIGMA
        window.push(value)
        line = self.thresholds["warn"] * max(spread, self.thresholds["floor"])
        if abs(distance) <= line:
            return QUIET
        level = INFO if context.is_lr_rising else WARN
        if abs(value) > self.thresholds["crit"] * max(abs(median), spread, self.thresholds["floor"]) and level is WARN:
            level = CRIT
        return Finding(level, value, median, median + (line if distance > 0 else -line))

    def headline(self, finding: Finding) -> str:
        """Now and usual."""
        return f"loss {number(finding.value)}, usually {number(finding.baseline or 0)}"


class LossDiverging(Detector):
    """O16: a loss that is to fall stands well above everything: its best level and its start."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.level = Window(10)
        self.start = Frozen(skip=0, size=20, minimum=5)
        self.best = float("inf")

    def detect(self, context: RuleContext) -> Finding | None:
        """Medians of ten against the best of them; only for objectives that should fall."""
        value = context.values.get("loss")
        if value is None:
            return None
        level = self.level
        level.push(value)
        if not self.start.is_final:
            self.start.push(value)
        start = self.start.value
        if start is None or start <= 0.0 or value <= self.thresholds["warn"] * start:
            self._note_best()
            return QUIET
        usual = level.median
        line = max(
            self.thresholds["warn"] * start,
            self.best + max(self.thresholds["floor"], abs(self.best)),
            start + self.thresholds["sigmas"] * self.start.spread,
        )
        self._note_best()
        return Finding(WARN, usual, self.best, line) if usual > line else QUIET

    def _note_best(self) -> None:
        level = self.level
        if level.count == level.size:
            self.best = min(self.best, level.median)

    def headline(self, finding: Finding) -> str:
        """Best level and now."""
        return f"loss {number(finding.value)} (median of ten), its best was {number(finding.baseline or 0)}"


RULES = (
    RuleSpec(
        id="O5",
        title="loss blow-up",
        family="loss",
        group=Group.LEARNING,
        metrics=("loss", "policy_loss"),
        detector=LossJump,
        condition="Farther than `warn` × max(1.4826 MAD, `floor`) from the median of the 50 records before, and "
        "larger, in 3 "
        "of 5 records: WARN. More than `crit`× its usual size in 3 of 5: CRIT. INFO only while the learning rate "
        "warms up.",
        thresholds={"warn": 10.0, "floor": 0.02, "crit": 100.0},
        n_of_m={WARN: NOfM(3, 5), CRIT: NOfM(3, 5), INFO: NOfM(3, 5)},
        warm_up=_MIN_SAMPLES,
        evidence=EvidenceNames("loss", "usual"),
        why="A loss that leaves its range and stays there is an update that went wrong; its level as such says little.",
        causes=("learning rate too high", "a KL term that blows up", "a change of data"),
        next=("grad_norm", "kl_ref", "lr", "entropy", "reward_mean"),
        sources="judgement; TRL issue 2703 and open-r1 issue 239 on losses that rise while the policy learns.",
    ),
    RuleSpec(
        id="O16",
        title="loss diverging",
        family="loss",
        group=Group.LEARNING,
        metrics=("loss",),
        detector=LossDiverging,
        condition="Objectives that should fall: median of ten above `warn` times the start, above its best by as much "
        "again (at least `floor`), and out of the start by `sigmas` robust deviations, in 3 of 5 records: WARN.",
        thresholds={"warn": 2.0, "floor": 0.2, "sigmas": 4.0},
        n_of_m={INFO: NOfM(3, 5), WARN: NOfM(3, 5)},
        warm_up=10,
        applies=applicability.has_loss_to_minimise,
        evidence=EvidenceNames("loss", "best level"),
        why="A supervised loss above where it began has lost what the model knew before.",
        causes=("learning rate too high", "a change of data", "half precision that overflows"),
        next=("grad_norm", "lr", "val_loss", "token_accuracy"),
        sources="judgement; never for policy gradients, whose surrogate means nothing by its level.",
    ),
)
