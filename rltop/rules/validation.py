"""Validation: the objective of the run, measured rarely and with noise.

Never a verdict on one evaluation: thirty questions move by nine points by chance.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from itertools import pairwise

from rltop.model import Algorithm, Evidence, Level
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import AT_ONCE, CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import MAD_TO_SIGMA, Window, mad_of
from rltop.units import number

_MIN_EVALUATIONS = 4
_HELD = 12
_LEVEL = 3
_FEW = 5
_FELL = 0.9
LN2 = math.log(2.0)
_NEAR_LN2 = 0.1
_ON_PAIRS = frozenset({Algorithm.DPO, Algorithm.REWARD})


def _noise(held: Window) -> float:
    """Standard deviation of one evaluation, from how unevenly the evaluations moved so far.

    Differences take the trend of learning out: the deviation of a difference is
    sqrt(2) times that of one evaluation. Estimated when a best is reached, so
    that the fall after it does not count as noise.
    """
    values = held.values
    moves = [after - before for before, after in pairwise(values)]
    return MAD_TO_SIGMA * mad_of(moves) / math.sqrt(2.0) if moves else 0.0


class _Held(Detector):
    """Evaluations so far, and how far this one is below the best median of three of them."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.held = Window(_HELD)
        self.best = self.top = float("-inf")
        self.noise = 0.0
        self.first: float | None = None
        self.reward_at_best = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        """Gives a finding only on records with an evaluation."""
        value = context.values.get("val_score")
        if value is None:
            return None
        held, thresholds = self.held, self.thresholds
        known = held.count
        held.push(value)
        if self.first is None:
            self.first = value
        level = held.last(_LEVEL)
        if level > self.best:
            # A median, because the single best of many evaluations is luck.
            self.best, self.reward_at_best = level, context.reward.usual
        if value > self.top:
            self.top, self.noise = value, _noise(held)
        line = self.best - max(
            thresholds["sigmas"] * self.noise, thresholds["floor"], thresholds["warn"] * abs(self.best)
        )
        if known < _MIN_EVALUATIONS - 1 or value >= line:
            return QUIET
        is_gaming = context.reward.count > 0 and context.reward.usual >= self.reward_at_best
        found = self._level(value, is_gaming)
        return Finding(found, value, self.best, line, (float(is_gaming), context.reward.usual)) if found else QUIET

    @abstractmethod
    def _level(self, value: float, is_gaming: bool) -> Level:
        """How bad an evaluation below the threshold is for this rule; `Level.NO_DATA` where another rule covers it."""

    def headline(self, finding: Finding) -> str:
        """Best and now, and whether the training reward disagrees."""
        gaming = " while training reward holds or rises" if finding.extra[0] else ""
        return f"validation {number(finding.baseline or 0)} → {number(finding.value)}{gaming}"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Best, now, threshold, training reward."""
        return (*names.of(finding), Evidence("training reward", finding.extra[1]))


class ValidationAgainstReward(_Held):
    """R5: validation falls while the training reward holds: overfitting, or reward hacking."""

    def _level(self, value: float, is_gaming: bool) -> Level:
        if not is_gaming:
            return Level.NO_DATA
        return CRIT if self.first is not None and value < self.first - self.thresholds["floor"] else WARN


class ValidationDrop(_Held):
    """R6: validation falls, and the training reward with it."""

    def _level(self, value: float, is_gaming: bool) -> Level:
        return Level.NO_DATA if is_gaming else WARN


class ValidationCollapse(_Held):
    """R7: validation at a fraction of its best."""

    def _level(self, value: float, is_gaming: bool) -> Level:
        is_worth_losing = self.best > self.thresholds["worth"] * max(
            self.thresholds["floor"], self.thresholds["sigmas"] * self.noise
        )
        return CRIT if is_worth_losing and value <= self.thresholds["crit"] * self.best else Level.NO_DATA


class EvaluationLossUp(Detector):
    """D3: evaluation loss above its best by more than its noise while the training loss falls.

    Two evaluations are needed, or one where the training loss is far below it:
    memorisation shows in that gap before the second evaluation does. A loss on
    pairs starts at ln 2, whatever the model: an evaluation above it, while training
    is well below, is worse than chance, and needs no best to compare with.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.held = Window(_HELD)
        self.best = float("inf")
        self.noise = 0.0
        self.train = Window(20)
        self.train_at_best = float("inf")
        self.since: tuple[int, int] | None = None
        self.first: float | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """At the second in a row, or immediately; the training loss is the median of 20 records."""
        loss = context.values.get("loss")
        if loss is not None:
            self.train.push(loss)
            self.first = loss if self.first is None else self.first
        value = context.values.get("val_loss")
        if value is None:
            return None
        held, thresholds = self.held, self.thresholds
        held.push(value)
        if context.algorithm in _ON_PAIRS and self._is_worse_than_chance(value):
            self.best = min(self.best, value)
            self.since = self.since or (context.observation.record, context.observation.step)
            return Finding(WARN, value, LN2, thresholds["chance"] * LN2, (self.train.last(_FEW),))
        if value < self.best:
            self.best, self.train_at_best, self.noise = value, self.train.median, _noise(held)
            self.since = None
            return QUIET
        line = self.best + max(
            thresholds["sigmas"] * self.noise, thresholds["floor"], thresholds["warn"] * abs(self.best)
        )
        if value <= line or self.train.count == 0 or self.train.median > self.train_at_best:
            self.since = None
            return QUIET
        newest = self.train.last(_FEW) if self.train.count >= _FEW else math.inf
        # Losses that are averaged differently are far apart from the start: the gap must have grown.
        is_left_behind = newest <= min(thresholds["behind"] * value, _FELL * self.train_at_best) and value > 0.0
        is_second = self.since is not None
        if self.since is None:
            self.since = (context.observation.record, context.observation.step)
        level = WARN if is_second or is_left_behind else INFO
        return Finding(level, value, self.best, line, (self.train.median,))

    def _is_worse_than_chance(self, value: float) -> bool:
        thresholds = self.thresholds
        return (
            value > thresholds["chance"] * LN2
            and self.first is not None
            and abs(self.first - LN2) < _NEAR_LN2
            and self.train.count >= _FEW
            and max(self.train.last(_FEW), self.train.median) < thresholds["learned"] * LN2
        )

    def began(self) -> tuple[int, int] | None:
        """The first of the evaluations in a row."""
        return self.since

    def headline(self, finding: Finding) -> str:
        """Best, now, and the training loss."""
        if finding.baseline == LN2:
            return (
                f"evaluation loss {number(finding.value)}, worse than chance (ln 2), "
                f"while training loss fell to {number(finding.extra[0])}"
            )
        return (
            f"evaluation loss {number(finding.baseline or 0)} → {number(finding.value)} "
            f"while training loss fell to {number(finding.extra[0])}"
        )

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Best, now, threshold, training loss."""
        return (*names.of(finding), Evidence("training loss", finding.extra[0]))


_TWICE = {level: NOfM(2, 2) for level in (INFO, WARN, CRIT)}

_BELOW = (
    "Two evaluations in a row below the best median of three by more than `sigmas` of their noise, `floor` and "
    "`warn` of the best, with four evaluations or more,"
)
_LINES = {"sigmas": 3.0, "floor": 0.02, "warn": 0.1}
_NEXT = ("reward_mean", "response_len_mean", "reward_component", "zero_std_frac", "kl_ref", "val_aux")
_SOURCES = "Gao et al. on reward over-optimisation; noise of accuracy: sqrt(p(1-p)/N)."

RULES = (
    RuleSpec(
        id="R5",
        title="validation vs reward",
        family="validation",
        group=Group.LEARNING,
        metrics=("val_score",),
        detector=ValidationAgainstReward,
        condition=f"{_BELOW} while the training reward is no lower than it was at the best: WARN; below the first "
        "evaluation: CRIT.",
        thresholds=_LINES,
        n_of_m=_TWICE,
        applies=applicability.has_rollouts,
        accepts_late=True,
        evidence=EvidenceNames("val_score", "best"),
        why="Validation that falls while training reward holds is overfitting or reward hacking.",
        causes=("reward hacking", "overfitting to the prompts", "KL budget exceeded"),
        next=_NEXT,
        sources=_SOURCES,
    ),
    RuleSpec(
        id="R6",
        title="validation drop",
        family="validation",
        group=Group.LEARNING,
        metrics=("val_score",),
        detector=ValidationDrop,
        condition=f"{_BELOW} while the training reward is lower as well: WARN.",
        thresholds=_LINES,
        n_of_m=_TWICE,
        applies=applicability.has_rollouts,
        accepts_late=True,
        evidence=EvidenceNames("val_score", "best"),
        why="The objective of the run gets worse, beyond evaluation noise.",
        causes=("a collapse", "overfitting to the prompts", "learning rate too high"),
        next=_NEXT,
        sources=_SOURCES,
    ),
    RuleSpec(
        id="R7",
        title="validation collapse",
        family="validation",
        group=Group.LEARNING,
        metrics=("val_score",),
        detector=ValidationCollapse,
        condition=f"{_BELOW}, and not above `crit` of the best, which must have been above `worth` times that: CRIT.",
        thresholds={**_LINES, "crit": 0.2, "worth": 3.0},
        n_of_m=_TWICE,
        applies=applicability.has_rollouts,
        accepts_late=True,
        evidence=EvidenceNames("val_score", "best"),
        why="The policy has lost its learned skill.",
        causes=(
            "a collapse of the policy (see entropy, gradient, KL)",
            "all completions truncated",
            "reward hacking",
        ),
        next=("entropy", "truncated_frac", *_NEXT),
        sources=_SOURCES,
    ),
    RuleSpec(
        id="D3",
        title="overfitting",
        family="validation",
        group=Group.LEARNING,
        metrics=("val_loss", "loss"),
        detector=EvaluationLossUp,
        condition="Two evaluations in a row above the best by more than `sigmas` of their noise, `floor` and "
        "`warn` of the best, "
        "while the training loss (median of 20) has fallen since; one is enough where the training loss (median of "
        "five) is at most `behind` of it. On pairs, whose loss starts at ln 2: one above `chance` times that, while "
        "the training loss (medians of 5 and 20) is below `learned` times that.",
        thresholds={"sigmas": 3.0, "floor": 0.01, "warn": 0.05, "behind": 0.5, "chance": 1.05, "learned": 0.85},
        n_of_m={INFO: NOfM(2, 2), WARN: AT_ONCE},
        applies=applicability.has_loss_to_minimise,
        accepts_late=True,
        evidence=EvidenceNames("val_loss", "best"),
        why="From here on the model memorises its training data.",
        causes=("too many epochs", "too few pairs", "learning rate too high"),
        next=("loss", "dpo_accuracy", "dpo_margin", "rm_accuracy", "lr"),
        sources="judgement; the shape is that of any overfit. ln 2 is the loss of a margin of 0 (Bradley-Terry).",
    ),
)
