"""Pairs, against the run's own past: what was told apart is so no longer, or never was and costs more than guessing.

A margin is a mean over a batch of pairs and swings by as much as it is; a loss on
pairs is the one objective whose value without any knowledge is known.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm, Evidence, Traits
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.rules.validation import LN2
from rltop.stats.rolling import Window, mean_and_error, median_of
from rltop.units import number

_HELD, _RECENT, _IN_A_ROW = 20, 5, 3
_FEW = 8
_LEARNED = 4.0
"""Standard errors above 0 that a margin must have stood: what was never learned cannot be lost."""
_LEVEL = 10
_NEAR_LN2 = 0.1


class PreferenceLost(Detector):
    """D8 and RM4: the margin leaves, from one record to the next, the level that it had.

    The median of the newest five records against the mean of the twenty before them: next to
    nothing is left of it, and Welch's test with the spread of the twenty says `sigmas`. Or three in a row with
    the rejected answers ahead, where all of the twenty together stood well above 0.
    """

    def __init__(self, thresholds: Mapping[str, float], *, metric: str) -> None:
        super().__init__(thresholds)
        self.metric = metric
        self.held: deque[float] = deque(maxlen=_HELD)
        self.recent: deque[float] = deque(maxlen=_RECENT)
        self.usual = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        """One comparison on a record like those before it."""
        value = context.values.get(self.metric)
        if value is None:
            return None
        held, recent, lost = self.held, self.recent, self.thresholds["lost"]
        if len(recent) == _RECENT and not self.is_firing:
            held.append(recent[0])
            self.usual += (recent[0] - self.usual) / len(held)
        recent.append(value)
        if value >= lost * self.usual or len(held) < _FEW or self.usual <= 0.0:
            return QUIET
        usual, error = mean_and_error(held)
        if usual < _LEARNED * error:
            return QUIET
        sigma = error * math.sqrt(len(held))
        few = [recent[-i] for i in range(1, _IN_A_ROW + 1)]
        now_at = median_of(list(recent))
        is_gone = now_at < lost * usual and usual - now_at > self.thresholds["sigmas"] * math.hypot(
            error, sigma / math.sqrt(_RECENT)
        )
        if not is_gone:
            now_at = max(few)
            if now_at > 0.0 or usual < self.thresholds["reversed"] * sigma:
                return QUIET
        return Finding(WARN, now_at, usual, lost * usual, (sigma,))

    def headline(self, finding: Finding) -> str:
        """Level and now."""
        what = "the rejected answers are preferred" if finding.value <= 0.0 else "next to nothing is told apart"
        return f"reward margin {number(finding.baseline or 0)} → {number(finding.value)} at once: {what}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Level, now, line, noise."""
        return (*names.of(finding), Evidence("noise of one record", finding.extra[0]))


class WorseThanChance(Detector):
    """D9: a loss that begins at ln 2, where nothing is known yet, and stands above it."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.level = Window(_LEVEL)
        self.is_logistic: bool | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of ten, because a batch of two jumps; other losses do not begin there and mean something else."""
        value = context.values.get("loss")
        if value is None or self.is_logistic is False:
            return None
        if self.is_logistic is None:
            self.is_logistic = abs(value - LN2) < _NEAR_LN2
        self.level.push(value)
        usual, line = self.level.median, self.thresholds["warn"] * LN2
        if self.level.count < self.thresholds["records"] or usual <= line or value <= LN2:
            return QUIET
        return Finding(WARN, usual, LN2, line)

    def headline(self, finding: Finding) -> str:
        """Now, and what guessing costs."""
        return f"loss {number(finding.value)} (median of ten): guessing would cost {number(LN2)}"


def _has_logistic_loss(algorithm: Algorithm, traits: Traits) -> bool:
    return applicability.is_preference(algorithm, traits) or applicability.is_reward_model(algorithm, traits)


_LOST = {"lost": 0.3, "sigmas": 5.0, "reversed": 2.0}
_LOST_CONDITION = (
    "Median of the newest five below `lost` of the mean of the 20 records (at least 8) before them, by more than "
    "`sigmas` standard errors; or three in a row below 0 after a mean of `reversed` standard deviations; the mean "
    "itself at least four standard errors above 0: WARN."
)
_LOST_WHY = "What pairs have taught does not go by itself within a few updates: the pairs have changed, or the model."
_LOST_CAUSES = ("labels or columns swapped in a part of the data", "another data set", "learning rate too high")

RULES = (
    RuleSpec(
        id="D8",
        title="preference lost",
        family="preference",
        group=Group.LEARNING,
        metrics=("dpo_margin",),
        detector=lambda thresholds: PreferenceLost(thresholds, metric="dpo_margin"),
        condition=_LOST_CONDITION,
        thresholds=_LOST,
        applies=applicability.is_pairwise,
        evidence=EvidenceNames("dpo_margin", "usual"),
        why=_LOST_WHY,
        causes=_LOST_CAUSES,
        next=("dpo_accuracy", "loss", "dpo_chosen", "dpo_rejected", "lr"),
        sources="Welch 1947 for the distance of two means; direct-preference-optimization issue 32: only the margin "
        "matters.",
    ),
    RuleSpec(
        id="RM4",
        title="preference lost",
        family="rm",
        group=Group.LEARNING,
        metrics=("rm_margin",),
        detector=lambda thresholds: PreferenceLost(thresholds, metric="rm_margin"),
        condition=_LOST_CONDITION,
        thresholds=_LOST,
        applies=applicability.is_reward_model,
        evidence=EvidenceNames("rm_margin", "usual"),
        why=_LOST_WHY,
        causes=_LOST_CAUSES,
        next=("rm_accuracy", "loss", "lr", "val_acc"),
        sources="Welch 1947 for the distance of two means.",
    ),
    RuleSpec(
        id="D9",
        title="worse than chance",
        family="loss",
        group=Group.LEARNING,
        metrics=("loss",),
        detector=WorseThanChance,
        condition="A loss whose first record lies within 0.1 of ln 2, and then (median of ten, of `records` at least) "
        "above `warn` times that, in 3 of 5 records: WARN.",
        thresholds={"warn": 1.3, "records": 5},
        n_of_m={level: NOfM(3, 5) for level in (INFO, WARN, CRIT)},
        warm_up=5,
        applies=_has_logistic_loss,
        why="A model that knew nothing would do better: what is learned in one batch is unlearned in the next.",
        causes=("learning rate too high", "labels swapped in a part of the data", "beta too large"),
        next=("lr", "grad_norm", "dpo_margin", "rm_margin", "dpo_accuracy", "rm_accuracy"),
        sources="ln 2 is the logistic loss of a margin of 0 (Bradley-Terry); the line is judgement.",
    ),
)
