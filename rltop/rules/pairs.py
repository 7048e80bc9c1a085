"""Preference training, the finer print: margins that run away, KTO, the scale of a reward model."""

from __future__ import annotations

from collections.abc import Mapping

from rltop.model import Evidence
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.preference import StuckAtChance
from rltop.rules.rule import INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec, Subject
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Frozen, Window
from rltop.units import number

_LEVEL = 10
_MIN_SAMPLES = 10


class MarginRunsAway(Detector):
    """D4: the margin on training pairs grows far beyond what evaluation pairs show."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(_LEVEL)
        self.evaluated: float | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of ten against the newest evaluation, and against a line that only informs."""
        values, thresholds = context.values, self.thresholds
        self.evaluated = values.get("val_margin", self.evaluated)
        value = values.get("dpo_margin")
        if value is None:
            return None
        self.window.push(value)
        if self.window.median <= thresholds["floor"] or self.window.count < _LEVEL:
            return QUIET
        level, evaluated = self.window.median, self.evaluated
        if evaluated is not None and level > thresholds["floor"] and level > thresholds["warn"] * max(evaluated, 0.0):
            return Finding(WARN, level, evaluated, thresholds["warn"] * max(evaluated, 0.0))
        return Finding(INFO, level, evaluated, thresholds["info"]) if level > thresholds["info"] else QUIET

    def headline(self, finding: Finding) -> str:
        """Training margin and evaluation margin."""
        if finding.baseline is None:
            return f"reward margin {number(finding.value)} on training pairs, and no evaluation to compare it with"
        return (
            f"reward margin {number(finding.value)} on training pairs, {number(finding.baseline)} on evaluation pairs"
        )


class UnpairedKl(Detector):
    """K2: the batch estimate of the KL jumps; on most healthy records it is 0."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(50)

    def detect(self, context: RuleContext) -> Finding | None:
        """A ratio with an absolute floor, because the usual value may be 0."""
        value = context.values.get("kl_ref")
        if value is None:
            return None
        window, thresholds = self.window, self.thresholds
        if value <= thresholds["floor"]:
            window.push(value)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if known < _MIN_SAMPLES or value <= thresholds["warn"] * usual:
            return QUIET
        return Finding(WARN, value, usual, max(thresholds["floor"], thresholds["warn"] * usual))

    def headline(self, finding: Finding) -> str:
        """Now and usual."""
        return f"KL estimate {number(finding.value)}, usually {number(finding.baseline or 0)}"


class ClassMissing(Detector):
    """K3: batches without a single chosen, or a single rejected, answer.

    Small batches lack one class or the other by chance. That it is nearly always the
    same one is the proportion of the data: the loss weighs what it never gets to see.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.lasting = NOfMCounter(int(thresholds["n"]), int(thresholds["m"]))
        self.chosen, self.rejected = (NOfMCounter(int(thresholds["most"]), int(thresholds["of"])) for _ in range(2))

    def detect(self, context: RuleContext) -> Finding | None:
        """One of the two rewards is there, the other is not, or is not a number."""
        values = context.values
        has_chosen, has_rejected = "dpo_chosen" in values, "dpo_rejected" in values
        if not (has_chosen or has_rejected):
            return None
        is_often = self.lasting.push(has_chosen is not has_rejected)
        lacks_chosen, lacks_rejected = self.chosen.push(not has_chosen), self.rejected.push(not has_rejected)
        if lacks_chosen or lacks_rejected:
            name, lacking, other = (
                ("chosen", self.chosen, self.rejected) if lacks_chosen else ("rejected", self.rejected, self.chosen)
            )
            if other.bits.bit_count() <= self.thresholds["other"]:
                return Finding(WARN, float(lacking.bits.bit_count()), self.thresholds["of"], words=(name,))
        if not is_often or has_chosen is has_rejected:
            return QUIET
        name = "rejected" if has_chosen else "chosen"
        return Finding(INFO, float(self.lasting.bits.bit_count()), self.thresholds["m"], words=(name,))

    def subject(self, finding: Finding) -> Subject:
        """The class that is missing."""
        return Subject(f"dpo_{finding.words[0]}")

    def headline(self, finding: Finding) -> str:
        """Which class, how often."""
        many = "most" if finding.level >= WARN else "some"
        return (
            f"no {finding.words[0]} answer in {many} batches ({finding.value:.0f} of the last "
            f"{finding.baseline or 0.0:.0f} lack {'it' if finding.level >= WARN else 'a class'})"
        )


class ScoreScale(Detector):
    """RM3: the scores of a reward model wander off, or spread: information, only differences are trained."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """Level against half the range, and the range against the run's start."""
        values, thresholds = context.values, self.thresholds
        low, high, mean = (values.get(name) for name in ("rm_reward_min", "rm_reward_max", "rm_reward_mean"))
        if low is None or high is None or mean is None:
            return None
        reach = high - low
        base = self.start.value
        if not self.start.is_final:
            self.start.push(reach)
        if base is not None and base > 0.0 and reach > thresholds["spread"] * base:
            return Finding(INFO, reach, base, thresholds["spread"] * base, words=("range of scores",))
        if reach > 0.0 and abs(mean) > thresholds["level"] * reach / 2.0:
            return Finding(INFO, mean, None, thresholds["level"] * reach / 2.0, words=("mean score",))
        return QUIET

    def headline(self, finding: Finding) -> str:
        """What, and against what."""
        start = f", {number(finding.baseline)} at the start" if finding.baseline is not None else ""
        return f"{finding.words[0]} {number(finding.value)}{start}: scores are hard to compare with earlier ones"

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        """Number and line."""
        return names._replace(value=finding.words[0]).of(finding)


_SLOW = {level: NOfM(10, 15) for level in (INFO, WARN)}

RULES = (
    RuleSpec(
        id="D4",
        title="margin runs away",
        family="preference",
        group=Group.LEARNING,
        metrics=("dpo_margin",),
        detector=MarginRunsAway,
        condition="Margin (median of ten) above `floor` and `warn`× that of the newest evaluation in 10 of 15 records: "
        "WARN; above `info`: INFO.",
        thresholds={"info": 10.0, "warn": 5.0, "floor": 1.0},
        n_of_m=_SLOW,
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
        detector=lambda thresholds: StuckAtChance(thresholds, start=0.5, word="one half"),
        condition="`wait` records after the learning rate's warm-up: loss (median of ten) within `loss` of one half "
        "and margin within `margin` of 0, neither of which (means of 50) has moved by more than two standard errors.",
        thresholds={"wait": 50, "loss": 0.005, "margin": 0.02},
        n_of_m={WARN: NOfM(5, 5), INFO: NOfM(5, 5)},
        clear_after=5,
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
        detector=UnpairedKl,
        condition="Above `floor` and above `warn`× the median of the 50 records before in 3 of 5.",
        thresholds={"warn": 5.0, "floor": 1.0},
        n_of_m={WARN: NOfM(3, 5), INFO: NOfM(3, 5)},
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
        detector=ClassMissing,
        condition="`n` of the last `m` records log a reward for one of chosen and rejected only: INFO. The same class "
        "is missing in `most` of the last `of`, and the other in `other` at most: WARN.",
        thresholds={"n": 3, "m": 10, "most": 8, "of": 10, "other": 1},
        clear_after=10,
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
        detector=ScoreScale,
        condition="Range of scores above `spread`× the run's start, or mean farther from 0 than `level`× half the "
        "range, in 10 of 15 records: INFO.",
        thresholds={"spread": 5.0, "level": 5.0},
        n_of_m=_SLOW,
        applies=applicability.is_reward_model,
        evidence=EvidenceNames("", ""),
        why="Pairs fix differences only; a level or spread that wanders makes thresholds and KL terms meaningless.",
        causes=("no centring term", "too many epochs", "learning rate too high"),
        next=("rm_margin", "rm_accuracy", "val_acc", "lr"),
        sources="judgement; TRL offers a centring coefficient for it.",
    ),
)
