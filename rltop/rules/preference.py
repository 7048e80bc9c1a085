"""Preference optimisation and reward models: is a difference being learned?

At run start the loss is ln 2, the accuracy 0.5 and the margin 0: that is normal,
and only staying there is not.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from itertools import islice, pairwise

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.memorisation import LearnedByHeart
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.rules.validation import LN2
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, Window, mean_and_error, median_of
from rltop.units import number, percent

_SIGMAS = 2.0
_MOST = 4


class RandomLabels:
    """The newest records of a run on pairs, against accuracy 0.5 and margin 0.

    Being indistinguishable from chance is not enough, as everything is with few
    pairs: the records must also rule out an accuracy noticeably above 0.5. A
    margin that starts to grow shows in the newer half of them.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self.accuracy: deque[float] = deque(maxlen=_MOST * size)
        self.margin: deque[float] = deque(maxlen=_MOST * size)

    def observe(self, accuracy: float | None, margin: float | None) -> None:
        """Take in one record; one that lacks either says nothing.

        Args:
            accuracy: share of pairs ranked correctly, 0 to 1, or None.
            margin: mean margin of the pairs, or None.
        """
        if accuracy is not None and margin is not None:
            self.accuracy.append(accuracy)
            self.margin.append(margin)

    def is_certain(self, below: float) -> bool:
        """Whether the records look like chance, and exclude an accuracy (0..1) of `below` or more.

        `size` of them at least, and as many more (four times as many are kept) as it takes
        for the error to be smaller than the distance from 0.5 to `below`: with
        fewer pairs only an unlucky draw would exclude it. Two standard errors of the
        mean, from the spread of the records themselves. O(size). Source: Student's t,
        rounded; judgement for `below`.
        """
        if len(self.accuracy) < self.size:
            return False
        right, one = mean_and_error(self.accuracy)
        error = _SIGMAS * one
        if abs(right - 0.5) > error or right + error >= below or error > below - 0.5:
            return False
        half = len(self.margin) // 2
        for held in (self.margin, tuple(islice(self.margin, half, None))):
            margin, one = mean_and_error(held)
            if abs(margin) > _SIGMAS * one:
                return False
        return True

    def clone(self) -> RandomLabels:
        """An independent copy."""
        twin = RandomLabels(self.size)
        twin.accuracy, twin.margin = self.accuracy.copy(), self.margin.copy()
        return twin


_LEVEL = 10
_SHORT, _LONG = 15, 50
_LIKELY, _SURE, _REAL = 2.0, 3.0, 7.0
"""Standard errors: to be expected occasionally, beyond luck, obvious at a glance."""
_TRIFLE = 0.1
_FEW = 5


class AfterWarmUp:
    """Counts records since the learning rate stopped rising; 0 while it rises."""

    def __init__(self) -> None:
        self.records = 0

    def observe(self, context: RuleContext) -> int:
        """Records since the end of the warm-up, this one included."""
        self.records = 0 if context.is_lr_rising or context.lr == 0.0 else self.records + 1
        return self.records

    def clone(self) -> AfterWarmUp:
        """An independent copy."""
        twin = AfterWarmUp()
        twin.records = self.records
        return twin


class StuckAtChance(Detector):
    """D1 and K1: loss still at its start value, with no margin, long after it should have moved."""

    def __init__(self, thresholds: Mapping[str, float], start: float = LN2, word: str = "ln 2") -> None:
        """Watch a loss on pairs.

        Args:
            thresholds: by name.
            start: the loss of chance.
            word: that loss as written in the headline.
        """
        super().__init__(thresholds)
        self.loss_at_start, self.word = start, word
        self.loss = Window(_LEVEL)
        self.margin = Window(_LEVEL)
        self.sure_wait = int(thresholds.get("sure_wait", thresholds["wait"]))
        self.margins: deque[float] = deque(maxlen=_LONG)
        self.losses: deque[float] = deque(maxlen=_LONG)
        self.coin = RandomLabels(self.sure_wait)
        self.settled = AfterWarmUp()

    def detect(self, context: RuleContext) -> Finding | None:
        """Medians of ten, because small batches jump; sooner where accuracy and margin leave no doubt."""
        loss, margin = context.values.get("loss"), context.values.get("dpo_margin")
        if loss is None or margin is None:
            return None
        self.loss.push(loss)
        self.margin.push(margin)
        self.margins.append(margin)
        self.losses.append(loss)
        settled = self.settled.observe(context)
        is_early = settled < self.thresholds["wait"]
        if is_early:
            self.coin.observe(context.values.get("dpo_accuracy"), margin)
            if settled < self.sure_wait:
                return QUIET
        if (
            abs(self.loss.median - self.loss_at_start) >= self.thresholds["loss"]
            or abs(self.margin.median) >= self.thresholds["margin"]
        ):
            return QUIET
        if not self._is_certain(is_early):
            return QUIET
        return Finding(WARN, self.loss.median, self.loss_at_start, None, (self.margin.median,))

    def _is_certain(self, is_early: bool) -> bool:
        if is_early:
            return self.coin.is_certain(self.thresholds["sure"])
        # A small but moving margin is a low learning rate, not uninformative labels.
        margin, margin_error = mean_and_error(self.margins)
        loss, loss_error = mean_and_error(self.losses)
        is_growing = margin > max(_LIKELY * margin_error, _TRIFLE * self.thresholds["margin"])
        is_falling = loss < self.loss_at_start - max(_LIKELY * loss_error, _TRIFLE * self.thresholds["loss"])
        return not (is_growing or is_falling)

    def headline(self, finding: Finding) -> str:
        """Loss and margin."""
        return f"loss still at {self.word} ({number(finding.value)}), margin {number(finding.extra[0])}: not learning"


class Inverted(Detector):
    """D6: the rejected completion is preferred, beyond batch noise."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.margins: deque[float] = deque(maxlen=_SHORT)

    def detect(self, context: RuleContext) -> Finding | None:
        """A margin below zero after the first records, and the mean of fifteen below it by its error."""
        margin = context.values.get("dpo_margin")
        if margin is None:
            return None
        self.margins.append(margin)
        if margin >= self.thresholds["warn"] or context.record <= self.thresholds["wait"] or len(self.margins) < _SHORT:
            return QUIET
        mean, error = mean_and_error(self.margins)
        return (
            QUIET
            if mean + _SURE * error >= self.thresholds["warn"]
            else Finding(WARN, margin, None, self.thresholds["warn"])
        )

    def headline(self, finding: Finding) -> str:
        """The margin."""
        return f"reward margin {number(finding.value)}: rejected completions preferred; labels swapped?"


class ChosenFalls(Detector):
    """D5: the likelihood of the chosen completions falls far below its start.

    The start is the first five records: a learning rate that is far too high moves the
    next fifteen. The noise from varying lengths counts too, taken from one record to the
    next, so that the fall itself does not: a median of five against one of ten is off by
    0.7 of one record's deviation.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=_FEW, minimum=_FEW)
        self.first: tuple[float, ...] = ()
        self.noise = 0.0
        self.window = Window(_LEVEL)

    def detect(self, context: RuleContext) -> Finding | None:
        """Relative to the start; log-probabilities are negative."""
        value = context.values.get("logps_chosen")
        if value is None:
            return None
        self.window.push(value)
        self.start.push(value)
        if len(self.first) <= _LEVEL:
            self.first = (*self.first, value)
            steps = [abs(after - before) for before, after in pairwise(self.first)]
            self.noise = MAD_TO_SIGMA * median_of(steps) / math.sqrt(2.0) if steps else 0.0
        base, level = self.start.value, self.window.median
        if base is None or base >= 0.0 or level >= base * (1.0 + self.thresholds["warn"]):
            return QUIET
        line = base * (1.0 + self.thresholds["warn"]) - self.thresholds["sigmas"] * self.noise
        return QUIET if level >= line else Finding(WARN, level, base, line)

    def headline(self, finding: Finding) -> str:
        """Start and now."""
        return (
            f"chosen log-probability {number(finding.baseline or 0)} → {number(finding.value)}: "
            "likelihood falling for both completions"
        )


class CoinToss(Detector):
    """RM1b: a reward model at chance accuracy for long."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window: deque[float] = deque(maxlen=int(thresholds["wait"]))
        self.coin = RandomLabels(int(thresholds["sure_wait"]))
        self.settled = AfterWarmUp()

    def detect(self, context: RuleContext) -> Finding | None:
        """Mean of all records of the waiting time, as eight pairs say little; sooner where there is no doubt."""
        value = context.values.get("rm_accuracy")
        if value is None:
            return None
        self.window.append(value)
        if context.record < self.thresholds["wait"]:
            self.coin.observe(value, context.values.get("rm_margin"))
            is_settled = self.settled.observe(context) >= self.thresholds["sure_wait"]
            if not is_settled or not self.coin.is_certain(self.thresholds["sure"]):
                return QUIET
        right = sum(self.window) / len(self.window)
        if context.record >= self.thresholds["wait"] and right > self.thresholds["warn"]:
            return QUIET
        return Finding(WARN, right, 0.5, self.thresholds["warn"])

    def headline(self, finding: Finding) -> str:
        """Accuracy."""
        return f"reward model accuracy {percent(finding.value)}: no better than chance"


class MarginGone(Detector):
    """RM2: margin between chosen and rejected near 0, or mostly lost."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_LEVEL)
        self.margins: deque[float] = deque(maxlen=2 * _SHORT)
        self.best = 0.0
        self.settled = AfterWarmUp()

    def detect(self, context: RuleContext) -> Finding | None:
        """Once the learning rate has stopped rising."""
        value = context.values.get("rm_margin")
        if value is None:
            return None
        window = self.window
        window.push(value)
        self.margins.append(value)
        if window.count == _LEVEL and window.median > self.best and self._is_above_noise():
            self.best = window.median
        if self.settled.observe(context) <= self.thresholds["wait"]:
            return QUIET
        # A margin that swings by more than the threshold says nothing by being below it.
        if abs(value) < self.thresholds["warn"] or (value < 0.0 and self._is_inverted()):
            return Finding(WARN, value, self.best, self.thresholds["warn"])
        line = self.thresholds["lost"] * self.best
        if self.best > 0.0 and window.median < line:
            return Finding(WARN, value, self.best, line)
        return QUIET

    def _is_above_noise(self) -> bool:
        mean, error = mean_and_error(self.margins)
        return mean > _REAL * error

    def _is_inverted(self) -> bool:
        if len(self.margins) < _SHORT:
            return False
        mean, error = mean_and_error(list(self.margins)[-_SHORT:])
        return mean + _SURE * error < 0.0

    def headline(self, finding: Finding) -> str:
        """Margin and best."""
        return (
            f"reward margin {number(finding.value)} (best {number(finding.baseline or 0)}): chosen and "
            f"rejected not separated"
        )


_LABELS = ("uninformative labels", "chosen and rejected mixed up", "learning rate too low", "a frozen head")
_SLOW = {level: NOfM(10, 15) for level in (INFO, WARN, CRIT)}


RULES = (
    RuleSpec(
        id="D1",
        title="stuck at ln 2",
        family="preference",
        group=Group.LEARNING,
        metrics=("loss", "dpo_margin"),
        detector=StuckAtChance,
        condition="`wait` records after the learning rate's warm-up: loss (median of ten) within `loss` of ln 2 "
        "and margin within "
        "`margin` of 0, neither of which (means of 50) has moved by more than two standard errors; "
        "`sure_wait` records are enough where accuracy and margin are within two standard errors of "
        "0.5 and 0 and exclude an accuracy of `sure`.",
        thresholds={"wait": 50, "loss": 0.005, "margin": 0.02, "sure_wait": 25, "sure": 0.55},
        n_of_m={WARN: NOfM(5, 5), INFO: NOfM(5, 5)},
        clear_after=5,
        warm_up=25,
        applies=applicability.is_preference,
        why="Training starts at this loss; staying there means that no preference is learned.",
        causes=_LABELS,
        next=("lr", "grad_norm", "dpo_accuracy", "dpo_margin"),
        sources="DPO starts at ln 2 by construction; tinker-cookbook README: 0.6907 after 50 steps of a decayed "
        "rate is fine.",
    ),
    RuleSpec(
        id="D2",
        title="memorisation",
        family="preference",
        group=Group.LEARNING,
        metrics=("dpo_accuracy",),
        detector=lambda thresholds: LearnedByHeart(thresholds, metric="dpo_accuracy", not_better=2),
        condition="Training accuracy (median of ten) above `warn` while evaluation accuracy is `gap` lower and "
        "has not improved "
        "for two evaluations, or evaluation loss 2 % above its best for as long and more than `behind` of the training "
        "loss, or no evaluation in `epochs` epochs: WARN; else INFO. At any training accuracy, an "
        "evaluation accuracy `apart` below it: WARN.",
        thresholds={"warn": 0.99, "gap": 0.1, "behind": 2.0, "apart": 0.3, "epochs": 4.0},
        n_of_m={INFO: NOfM(5, 5), WARN: NOfM(3, 3)},
        applies=applicability.is_pairwise,
        evidence=EvidenceNames("training accuracy", "evaluation accuracy", Unit.FRACTION, threshold=""),
        why="Fully separated pairs have no gradient left; only the margin on these pairs still grows.",
        causes=("too many epochs", "too few pairs", "pairs with only surface differences"),
        next=("val_loss", "val_acc", "dpo_margin", "logps_chosen"),
        sources="OpenAssistant reward model card: 59 to 72 % on human pairs, 99.9 % on synthetic ones. Published "
        "recipes take one to three passes (Zephyr, Tulu).",
    ),
    RuleSpec(
        id="D5",
        title="chosen likelihood falls",
        family="preference",
        group=Group.LEARNING,
        metrics=("logps_chosen", "dpo_chosen"),
        detector=ChosenFalls,
        condition="Log-probability of the chosen completions (median of ten) more than `warn` of the first five "
        "records, and `sigmas` deviations of one record, below these, 5 of 8. Falling rewards of both completions "
        "alone are normal.",
        thresholds={"warn": 0.3, "sigmas": 2.0},
        n_of_m={level: NOfM(5, 8) for level in (INFO, WARN, CRIT)},
        warm_up=_LEVEL,
        applies=applicability.is_preference,
        why="Likelihood moves to completions that were never ranked (likelihood displacement).",
        causes=("learning rate too high", "beta too small", "pairs too similar"),
        next=("dpo_margin", "logps_rejected", "lr", "entropy", "val_loss"),
        sources="direct-preference-optimization issues 8 and 32: only the margin matters, until likelihood is gone.",
    ),
    RuleSpec(
        id="D6",
        title="inverted",
        family="preference",
        group=Group.LEARNING,
        metrics=("dpo_margin",),
        detector=Inverted,
        condition="Margin below `warn`, and the mean of fifteen below it by more than three standard errors, in 10 of "
        "15 records after the first `wait`.",
        thresholds={"warn": 0.0, "wait": 50},
        n_of_m=_SLOW,
        warm_up=50,
        applies=applicability.is_pairwise,
        why="The model learns to prefer rejected completions.",
        causes=("labels swapped", "columns mixed up in the data set"),
        next=("dpo_accuracy", "loss", "dpo_chosen", "dpo_rejected"),
        sources="judgement.",
    ),
    RuleSpec(
        id="RM1",
        title="overfit reward model",
        family="rm",
        group=Group.LEARNING,
        metrics=("rm_accuracy",),
        detector=lambda thresholds: LearnedByHeart(thresholds, metric="rm_accuracy", not_better=0),
        condition="Training accuracy (median of ten) above `warn` while evaluation accuracy is `gap` lower, or "
        "evaluation loss 2 % above its best for two evaluations and more than `behind` of the training loss, or "
        "nothing evaluated in `epochs` passes over the pairs: WARN; else INFO. At any training accuracy, an evaluation "
        "accuracy `apart` below it: WARN.",
        thresholds={"warn": 0.98, "gap": 0.15, "behind": 2.0, "apart": 0.3, "epochs": 2.0},
        n_of_m={INFO: NOfM(5, 5), WARN: NOfM(3, 3)},
        applies=applicability.is_reward_model,
        evidence=EvidenceNames("training accuracy", "evaluation accuracy", Unit.FRACTION, threshold=""),
        why="A reward model that has memorised its pairs scores surface features, not quality.",
        causes=("too many epochs", "too few pairs", "pairs with only surface differences"),
        next=("val_acc", "val_loss", "rm_margin", "lr"),
        sources="OpenAssistant reward model card; reward models are trained for one pass because a second one overfits "
        "(InstructGPT, Llama 2).",
    ),
    RuleSpec(
        id="RM1b",
        title="no better than chance",
        family="rm",
        group=Group.LEARNING,
        metrics=("rm_accuracy",),
        detector=CoinToss,
        condition="Accuracy (mean of `wait` records) at or below `warn` after `wait` records; `sure_wait` records "
        "after the learning rate's warm-up are enough where accuracy and margin are within two standard errors of "
        "0.5 and 0 and exclude an accuracy of `sure`.",
        thresholds={"warn": 0.52, "wait": 200, "sure_wait": 25, "sure": 0.55},
        n_of_m={INFO: NOfM(5, 5), WARN: NOfM(5, 5)},
        warm_up=25,
        applies=applicability.is_reward_model,
        why="Rewards from such a model are noise.",
        causes=_LABELS,
        next=("rm_margin", "loss", "lr", "grad_norm"),
        sources="judgement; human pairs give 59 to 72 %.",
    ),
    RuleSpec(
        id="RM2",
        title="no margin",
        family="rm",
        group=Group.LEARNING,
        metrics=("rm_margin",),
        detector=MarginGone,
        condition="Margin within `warn` of 0, or below it with the mean of fifteen by three standard errors, in 10 of "
        "15 records, from `wait` records after the learning rate's warm-up on, or its median of ten below `lost` of "
        "the best, if that was seven standard errors above 0.",
        thresholds={"warn": 0.02, "lost": 0.2, "wait": 20},
        n_of_m=_SLOW,
        applies=applicability.is_reward_model,
        why="Chosen and rejected completions score alike: the model does not discriminate.",
        causes=_LABELS,
        next=("rm_accuracy", "loss", "lr", "grad_norm", "val_acc"),
        sources="judgement; a margin of 0.02 is the noise of an untrained head.",
    ),
)
