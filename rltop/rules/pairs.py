"""Preference training, the finer print: margins that run away, KTO, the scale of a reward model."""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.preference import StuckAtChance
from rltop.rules.rule import INFO, QUIET, WARN, About, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.persistence import OfLast
from rltop.stats.rolling import Frozen, Window
from rltop.units import number

_LEVEL = 10
_MIN_SAMPLES = 10


class MarginRunsAway(Judge):
    """D4: the margin on training pairs grows far beyond what evaluation pairs show."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(_LEVEL)
        self.evaluated: float | None = None

    def read(self, now: Moment) -> Reading | None:
        """Median of ten against the newest evaluation, and against a line that only informs."""
        values, limits = now.values, self.limits
        self.evaluated = values.get("val_margin", self.evaluated)
        value = values.get("dpo_margin")
        if value is None:
            return None
        self.window.push(value)
        if self.window.median <= limits["floor"] or self.window.count < _LEVEL:
            return QUIET
        level, evaluated = self.window.median, self.evaluated
        if evaluated is not None and level > limits["floor"] and level > limits["warn"] * max(evaluated, 0.0):
            return Reading(WARN, level, evaluated, limits["warn"] * max(evaluated, 0.0))
        return Reading(INFO, level, evaluated, limits["info"]) if level > limits["info"] else QUIET

    def headline(self, reading: Reading) -> str:
        """Training margin and evaluation margin."""
        if reading.baseline is None:
            return f"reward margin {number(reading.value)} on training pairs, and no evaluation to compare it with"
        return (
            f"reward margin {number(reading.value)} on training pairs, {number(reading.baseline)} on evaluation pairs"
        )


class UnpairedKl(Judge):
    """K2: the batch estimate of the KL jumps; on most healthy records it is 0."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(50)

    def read(self, now: Moment) -> Reading | None:
        """A ratio with an absolute floor, because the usual value may be 0."""
        value = now.values.get("kl_ref")
        if value is None:
            return None
        window, limits = self.window, self.limits
        if value <= limits["floor"]:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if known < _MIN_SAMPLES or value <= limits["warn"] * usual:
            return QUIET
        return Reading(WARN, value, usual, max(limits["floor"], limits["warn"] * usual))

    def headline(self, reading: Reading) -> str:
        """Now and usual."""
        return f"KL estimate {number(reading.value)}, usually {number(reading.baseline or 0)}"


class ClassMissing(Judge):
    """K3: batches without a single chosen, or a single rejected, answer.

    Small batches lack one class or the other by chance. That it is nearly always the
    same one is the proportion of the data: the loss weighs what it never gets to see.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.lasting = OfLast(int(limits["n"]), int(limits["m"]))
        self.chosen, self.rejected = (OfLast(int(limits["most"]), int(limits["of"])) for _ in range(2))

    def read(self, now: Moment) -> Reading | None:
        """One of the two rewards is there, the other is not, or is not a number."""
        values = now.values
        has_chosen, has_rejected = "dpo_chosen" in values, "dpo_rejected" in values
        if not (has_chosen or has_rejected):
            return None
        is_often = self.lasting.push(has_chosen is not has_rejected)
        lacks_chosen, lacks_rejected = self.chosen.push(not has_chosen), self.rejected.push(not has_rejected)
        if lacks_chosen or lacks_rejected:
            name, lacking, other = (
                ("chosen", self.chosen, self.rejected) if lacks_chosen else ("rejected", self.rejected, self.chosen)
            )
            if other.bits.bit_count() <= self.limits["other"]:
                return Reading(WARN, float(lacking.bits.bit_count()), self.limits["of"], words=(name,))
        if not is_often or has_chosen is has_rejected:
            return QUIET
        name = "rejected" if has_chosen else "chosen"
        return Reading(INFO, float(self.lasting.bits.bit_count()), self.limits["m"], words=(name,))

    def about(self, reading: Reading) -> About:
        """The class that is missing."""
        return About(f"dpo_{reading.words[0]}")

    def headline(self, reading: Reading) -> str:
        """Which class, how often."""
        many = "most" if reading.level >= WARN else "some"
        return (
            f"no {reading.words[0]} answer in {many} batches ({reading.value:.0f} of the last "
            f"{reading.baseline or 0.0:.0f} lack {'it' if reading.level >= WARN else 'a class'})"
        )


class ScoreScale(Judge):
    """RM3: the scores of a reward model wander off, or spread: information, only differences are trained."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.start = Frozen()

    def read(self, now: Moment) -> Reading | None:
        """Level against half the range, and the range against the run's start."""
        values, limits = now.values, self.limits
        low, high, mean = (values.get(name) for name in ("rm_reward_min", "rm_reward_max", "rm_reward_mean"))
        if low is None or high is None or mean is None:
            return None
        reach = high - low
        base = self.start.value
        if not self.start.is_final:
            self.start.push(reach)
        if base is not None and base > 0.0 and reach > limits["spread"] * base:
            return Reading(INFO, reach, base, limits["spread"] * base, words=("range of scores",))
        if reach > 0.0 and abs(mean) > limits["level"] * reach / 2.0:
            return Reading(INFO, mean, None, limits["level"] * reach / 2.0, words=("mean score",))
        return QUIET

    def headline(self, reading: Reading) -> str:
        """What, and against what."""
        start = f", {number(reading.baseline)} at the start" if reading.baseline is not None else ""
        return f"{reading.words[0]} {number(reading.value)}{start}: scores are hard to compare with earlier ones"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Number and line."""
        return (Evidence(reading.words[0], reading.value), Evidence("threshold", reading.threshold or 0.0))


_SLOW = {level: Patience(10, 15) for level in (INFO, WARN)}

RULES = (
    RuleSpec(
        id="D4",
        title="margin runs away",
        family="preference",
        group=Group.LEARNING,
        metrics=("dpo_margin",),
        judge=MarginRunsAway,
        condition="Margin (median of ten) above `floor` and `warn`× that of the newest evaluation in 10 of 15 records: "
        "WARN; above `info`: INFO.",
        limits={"info": 10.0, "warn": 5.0, "floor": 1.0},
        patience=_SLOW,
        warm_up=_LEVEL,
        applies=applicability.is_pairwise,
        why="What grows is the distance on these very pairs, and with it the distance from the reference.",
        causes=("too many epochs", "too few pairs", "beta too small", "learning rate too high"),
        next=("val_margin", "val_loss", "val_acc", "logps_chosen", "dpo_accuracy"),
        sources="judgement, for a beta of about 0.1.",
    ),
    RuleSpec(
        id="K1",
        title="stuck at one half",
        family="preference",
        group=Group.LEARNING,
        metrics=("loss", "dpo_margin"),
        judge=lambda limits: StuckAtChance(limits, start=0.5, word="one half"),
        condition="`wait` records after the learning rate's warm-up: loss (median of ten) within `loss` of one half "
        "and margin within `margin` of 0, neither of which (means of 50) has moved by more than two standard errors.",
        limits={"wait": 50, "loss": 0.005, "margin": 0.02},
        patience={WARN: Patience(5, 5), INFO: Patience(5, 5)},
        calm=5,
        warm_up=50,
        applies=applicability.is_kto,
        why="That is where training begins; staying there, the model learns no preference.",
        causes=("labels that carry no information", "learning rate too low", "frozen parameters"),
        next=("lr", "grad_norm", "dpo_margin", "kl_ref"),
        sources="KTO starts at one half by construction: policy and reference are equal.",
    ),
    RuleSpec(
        id="K2",
        title="KTO KL",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        judge=UnpairedKl,
        condition="Above `floor` and above `warn`× the median of the 50 records before in 3 of 5.",
        limits={"warn": 5.0, "floor": 1.0},
        patience={WARN: Patience(3, 5), INFO: Patience(3, 5)},
        warm_up=_MIN_SAMPLES,
        applies=applicability.is_kto,
        why="The estimate is the zero point of the loss: where it jumps, good answers count as bad.",
        causes=("learning rate too high", "batches that are too small for the estimate", "beta too small"),
        next=("lr", "grad_norm", "dpo_margin", "logps_chosen"),
        sources="judgement; TRL logs an estimate that is never negative, mostly 0.",
    ),
    RuleSpec(
        id="K3",
        title="class missing",
        family="preference",
        group=Group.LEARNING,
        metrics=("dpo_chosen", "dpo_rejected"),
        judge=ClassMissing,
        condition="`n` of the last `m` records log a reward for one of chosen and rejected only: INFO. The same class "
        "is missing in `most` of the last `of`, and the other in `other` at most: WARN.",
        limits={"n": 3, "m": 10, "most": 8, "of": 10, "other": 1},
        calm=10,
        applies=applicability.is_kto,
        why="Without both classes in a batch its statistics are undefined, and its gradient pulls one way.",
        causes=("classes that are far from balanced", "batches that are too small"),
        next=("dpo_chosen", "dpo_rejected", "loss", "grad_norm"),
        sources="TRL's KTO trainer leaves out the reward of a class that is not in the batch.",
    ),
    RuleSpec(
        id="RM3",
        title="score scale",
        family="rm",
        group=Group.LEARNING,
        metrics=("rm_reward_mean", "rm_reward_min", "rm_reward_max"),
        measures="range of scores",
        judge=ScoreScale,
        condition="Range of scores above `spread`× the run's start, or mean farther from 0 than `level`× half the "
        "range, in 10 of 15 records: INFO.",
        limits={"spread": 5.0, "level": 5.0},
        patience=_SLOW,
        applies=applicability.is_reward_model,
        why="Pairs fix differences only; a level or spread that wanders makes thresholds and KL terms meaningless.",
        causes=("no centring term", "too many epochs", "learning rate too high"),
        next=("rm_margin", "rm_accuracy", "val_acc", "lr"),
        sources="judgement; TRL offers a centring coefficient for it.",
    ),
)
