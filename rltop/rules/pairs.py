"""Preference training, in detail: runaway and collapsing margins, KTO, the score scale of a reward model.

A margin is a mean over a batch of pairs and swings by as much as its size; a loss
on pairs is the one objective whose value at chance is known.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm, Evidence, Traits, Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.preference import StuckAtChance
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, NOfM, RuleSpec, Subject
from rltop.rules.validation import LN2
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import Frozen, Window, mean_and_error, median_of
from rltop.units import number

_LEVEL = 10
_MIN_SAMPLES = 10


class MarginRunsAway(Detector):
    """D4: the margin on training pairs grows far beyond what evaluation pairs show."""

    window = Window(_LEVEL)
    evaluated: float | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of ten against the newest evaluation, and against an INFO threshold."""
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
        if finding.baseline is None:
            return f"reward margin {number(finding.value)} on training pairs; no evaluation margin logged"
        return (
            f"reward margin {number(finding.value)} on training pairs, {number(finding.baseline)} on evaluation pairs"
        )


class ClassMissing(Detector):
    """K3: batches without a single chosen, or a single rejected, completion.

    Small batches lack one class or the other by chance. Nearly always the same one means
    imbalanced data: the loss weighs a class that it never sees.
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
        return Subject(f"dpo_{finding.words[0]}")

    def headline(self, finding: Finding) -> str:
        many = "most" if finding.level >= WARN else "some"
        return (
            f"no {finding.words[0]} completion in {many} batches ({finding.value:.0f} of the last "
            f"{finding.baseline or 0.0:.0f} lack {'it' if finding.level >= WARN else 'a class'})"
        )


class ScoreScale(Detector):
    """RM3: the scores of a reward model drift or spread: INFO, as only differences are trained."""

    text = "{words[0]} {value}{start}: scores not comparable with earlier ones"
    start = Frozen()

    def detect(self, context: RuleContext) -> Finding | None:
        """Level against half the range, and the range against run start."""
        values, thresholds = context.values, self.thresholds
        low, high, mean = (values.get(name) for name in ("rm_reward_min", "rm_reward_max", "rm_reward_mean"))
        if low is None or high is None or mean is None:
            return None
        reach = high - low
        base = self.start.push(reach)
        if base is not None and base > 0.0 and reach > thresholds["spread"] * base:
            return Finding(INFO, reach, base, thresholds["spread"] * base, words=("score range",))
        if reach > 0.0 and abs(mean) > thresholds["level"] * reach / 2.0:
            return Finding(INFO, mean, None, thresholds["level"] * reach / 2.0, words=("mean score",))
        return QUIET

    def evidence(self, finding: Finding, names: EvidenceNames) -> tuple[Evidence, ...]:
        return names._replace(value=finding.words[0]).of(finding)


_SLOW = {level: NOfM(10, 15) for level in (INFO, WARN)}


_HELD, _RECENT, _IN_A_ROW = 20, 5, 3
_FEW = 8
_LEARNED = 4.0
"""Standard errors above 0 that a margin must have been: what was never learned cannot be lost."""
_NEAR_LN2 = 0.1


class PreferenceLost(Detector):
    """D8 and RM4: the margin drops from its level from one record to the next.

    The median of the newest five records against the mean of the twenty before them: near 0
    is left of it, and Welch's test with the spread of the twenty says `sigmas`. Or three in a row with
    the rejected completions ahead, where the twenty together were well above 0.
    """

    further = (("noise of one record", Unit.NONE),)

    def __init__(self, thresholds: Mapping[str, float], *, metric: str) -> None:
        """Watch one margin.

        Args:
            thresholds: by name.
            metric: canonical name of the margin.
        """
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
        what = "rejected preferred" if finding.value <= 0.0 else "chosen and rejected hardly separated"
        return f"reward margin {number(finding.baseline or 0)} → {number(finding.value)}: {what}"


class WorseThanChance(Detector):
    """D9: a loss that starts at ln 2, the loss of chance, and is above it; any other at a multiple of its first."""

    level = Window(_LEVEL)
    is_logistic: bool | None = None
    first = 0.0

    def detect(self, context: RuleContext) -> Finding | None:
        """Median of ten, because a batch of two jumps; losses on pairs that do not start at ln 2 are excluded."""
        value = context.values.get("loss")
        if value is None:
            return None
        if self.is_logistic is None:
            on_pairs = _has_logistic_loss(context.algorithm, context.traits)
            self.is_logistic = on_pairs and abs(value - LN2) < _NEAR_LN2
            self.first = LN2 if self.is_logistic else 0.0 if on_pairs else value
        if self.first <= 0.0:
            return None
        self.level.push(value)
        usual, line = self.level.median, self.thresholds["warn" if self.is_logistic else "times"] * self.first
        if self.level.count < self.thresholds["records"] or usual <= line or value <= self.first:
            return QUIET
        return Finding(WARN, usual, self.first, line)

    def headline(self, finding: Finding) -> str:
        if not self.is_logistic:
            return f"loss {number(finding.baseline or 0)} in the first record → {number(finding.value)} (median of ten)"
        return f"loss {number(finding.value)} (median of ten): worse than chance (ln 2 = {number(LN2)})"


def _has_logistic_loss(algorithm: Algorithm, traits: Traits) -> bool:
    return applicability.is_preference(algorithm, traits) or applicability.is_reward_model(algorithm, traits)


_LOST = {"lost": 0.3, "sigmas": 5.0, "reversed": 2.0}


RULES = (
    RuleSpec(
        id="D4",
        title="runaway margin",
        family="preference",
        metrics=("dpo_margin",),
        detector=MarginRunsAway,
        thresholds={"info": 10.0, "warn": 5.0, "floor": 1.0},
        n_of_m=_SLOW,
        warm_up=_LEVEL,
        applies=applicability.is_pairwise,
    ),
    RuleSpec(
        id="K1",
        part_of="D1",
        title="stuck at 0.5",
        family="preference",
        metrics=("loss", "dpo_margin"),
        detector=lambda thresholds: StuckAtChance(thresholds, start=0.5, word="0.5"),
        thresholds={"wait": 50, "loss": 0.005, "margin": 0.02},
        n_of_m={WARN: NOfM(5, 5), INFO: NOfM(5, 5)},
        clear_after=5,
        warm_up=50,
        applies=applicability.is_kto,
    ),
    RuleSpec(
        id="K3",
        title="missing class",
        family="preference",
        metrics=("dpo_chosen", "dpo_rejected"),
        detector=ClassMissing,
        thresholds={"n": 3, "m": 10, "most": 8, "of": 10, "other": 1},
        clear_after=10,
        applies=applicability.is_kto,
    ),
    RuleSpec(
        id="RM3",
        part_of="D4",
        title="score drift",
        family="rm",
        metrics=("rm_reward_mean", "rm_reward_min", "rm_reward_max"),
        measures="score range",
        detector=ScoreScale,
        thresholds={"spread": 5.0, "level": 5.0},
        n_of_m=_SLOW,
        applies=applicability.is_reward_model,
        evidence=EvidenceNames("", ""),
    ),
    RuleSpec(
        id="D8",
        title="margin collapse",
        family="preference",
        metrics=("dpo_margin",),
        detector=lambda thresholds: PreferenceLost(thresholds, metric="dpo_margin"),
        thresholds=_LOST,
        applies=applicability.is_pairwise,
        evidence=EvidenceNames("dpo_margin", "baseline"),
    ),
    RuleSpec(
        id="RM4",
        part_of="D8",
        title="margin collapse",
        family="rm",
        metrics=("rm_margin",),
        detector=lambda thresholds: PreferenceLost(thresholds, metric="rm_margin"),
        thresholds=_LOST,
        applies=applicability.is_reward_model,
        evidence=EvidenceNames("rm_margin", "baseline"),
    ),
    RuleSpec(
        id="D9",
        part_of="O16",
        title="loss above its first",
        family="loss",
        metrics=("loss",),
        detector=WorseThanChance,
        thresholds={"warn": 1.3, "records": 5, "times": 2.0},
        n_of_m={level: NOfM(3, 5) for level in (INFO, WARN, CRIT)},
        warm_up=5,
        applies=applicability.has_loss_to_minimise,
    ),
)
