"""Entropy: the exploration budget, and what a sudden change of it means.

No absolute level is valid across models, and every run that learns from
verifiable rewards spends most of its entropy: only a discontinuity, or a fall
that buys no reward, is a fault.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, EvidenceNames, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen, Window, median_of
from rltop.units import number, percent

_MIN_SAMPLES = 10


class EntropyCrash(Detector):
    """E1: entropy falls off a cliff against the 20 records before."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(20)
        self.warn, self.crit, self.floor = thresholds["warn"], thresholds["crit"], thresholds["floor"]

    def detect(self, context: RuleContext) -> Finding | None:
        """A ratio; on a solved task, and where there is nothing to explore, only information."""
        value = context.values.get("entropy")
        if value is None:
            return None
        window = self.window
        usual, known = window.median, window.count
        window.push(value)
        if known < _MIN_SAMPLES or value >= self.warn * usual or usual <= self.floor:
            return QUIET
        level = CRIT if value < self.crit * usual else WARN
        if context.reward.is_solved or not applicability.has_rollouts(context.algorithm, context.traits):
            level = INFO
        return Finding(level, value, usual, self.warn * usual)

    def headline(self, finding: Finding) -> str:
        """Before and after."""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats within a few records"


class EarlyCollapse(Detector):
    """E2: most of the entropy is gone early: it bought no reward, or it went too fast."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=0, size=5, minimum=3)
        self.spread_start = Frozen(skip=0, size=10, minimum=10)
        self.first_step: int | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the first five records, within the first 200."""
        value = context.values.get("entropy")
        if context.record > self.thresholds["until"]:
            return None
        if value is None:
            return None
        if self.first_step is None:
            self.first_step = context.observation.step
        spread = context.values.get("reward_std")
        if spread is not None:
            self.spread_start.push(spread)
        start = self.start
        base = start.value
        if not start.is_final:
            start.push(value)
        if base is None or base < self.thresholds["floor"]:
            return QUIET
        line = self.thresholds["warn"] * base
        if value >= line:
            return QUIET
        is_fast = context.observation.step - self.first_step <= self.thresholds["fast"]
        if context.reward.is_solved or not (is_fast or self._has_bought_nothing(context, spread)):
            return QUIET
        return Finding(WARN, value, base, line)

    def _has_bought_nothing(self, context: RuleContext, spread: float | None) -> bool:
        """The reward has not improved, and the contrast between answers is going."""
        reward = context.reward
        if reward.count == 0 or reward.is_improving:
            return False
        if reward.zero_share is not None and reward.zero_share > self.thresholds["zero_share"]:
            return True
        base = self.spread_start.value
        return spread is not None and base is not None and spread < 0.5 * base

    def headline(self, finding: Finding) -> str:
        """How much is gone."""
        gone = 1.0 - finding.value / finding.baseline if finding.baseline else 0.0
        return (
            f"{percent(gone)} of the entropy is gone early: {number(finding.baseline or 0)} → {number(finding.value)}"
        )


class EntropySurge(Detector):
    """E4: entropy jumps upwards against the 50 records before."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(50)
        self.lengths: deque[float] = deque(maxlen=50)
        self.jump, self.floor = thresholds["jump"], thresholds["jump_floor"]

    def detect(self, context: RuleContext) -> Finding | None:
        """CRIT where answers grow with it or are cut off."""
        value = context.values.get("entropy")
        if value is None:
            return None
        window, length = self.window, context.values.get("response_len_mean")
        usual = window.median
        is_jump = window.count >= _MIN_SAMPLES and value > self.floor and value > self.jump * usual
        usual_length = median_of(list(self.lengths)) if is_jump and self.lengths else 0.0
        window.push(value)
        if length is not None:
            self.lengths.append(length)
        if not is_jump:
            return QUIET
        is_longer = length is not None and usual_length > 0.0 and length > self.thresholds["longer"] * usual_length
        is_cut = context.values.get("truncated_frac", 0.0) > self.thresholds["truncated"]
        return Finding(CRIT if is_longer or is_cut else WARN, value, usual, self.jump * usual)

    def headline(self, finding: Finding) -> str:
        """Before and after."""
        more = ", and answers grow longer or are cut off" if finding.level is CRIT else ""
        return f"entropy {number(finding.baseline or 0)} → {number(finding.value)} nats per token{more}"


FALL_CAUSES = (
    "no entropy or KL term",
    "learning rate too high",
    "symmetric clipping",
    "a reward with a trivial maximum",
    "groups too small",
)
RISE_CAUSES = (
    "training and inference that disagree",
    "stale rollouts",
    "negative samples that dominate",
    "sampling temperature",
)
NEXT = ("reward_mean", "zero_std_frac", "clip_frac", "off_policy_kl", "response_len_mean", "truncated_frac", "lr")
SOURCES = "Cui et al. 2025 (reward bought with entropy); ranges measured on published runs: 0.02 to 1.2 nats healthy."
_TWO_OF_THREE = {level: NOfM(2, 3) for level in (INFO, WARN, CRIT)}

RULES = (
    RuleSpec(
        id="E1",
        title="entropy crash",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=EntropyCrash,
        condition="Below `warn` of the median of the 20 records before in 2 of 3: WARN; below `crit`: CRIT. The "
        "median must be "
        "above `floor`. INFO only on a solved task and without rollouts.",
        thresholds={"warn": 0.25, "crit": 0.15, "floor": 0.005},
        n_of_m=_TWO_OF_THREE,
        warm_up=_MIN_SAMPLES,
        evidence=EvidenceNames("entropy", "usual", Unit.NATS),
        why="Losing entropy at once, not gradually, is a policy that has collapsed onto one answer; it rarely "
        "comes back.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E2",
        title="early collapse",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=EarlyCollapse,
        condition="Below `warn` of the first five records (which must be above `floor`) in 5 of 8, within the "
        "first `fast` steps; or within "
        "the first "
        "`until` records while the reward has not improved and contrast is lost (flat groups above `zero_share`, or "
        "the reward's deviation halved). Silent on a solved task.",
        thresholds={"warn": 0.15, "floor": 0.02, "fast": 60, "until": 200, "zero_share": 0.5},
        n_of_m={INFO: NOfM(5, 8), WARN: NOfM(5, 8)},
        warm_up=3,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "usual", Unit.NATS),
        why="Entropy is what reward is bought with; a healthy run spends three quarters of it in some 200 steps. "
        "Spent in "
        "a fraction of that, or without any reward, there is nothing left to buy with.",
        causes=FALL_CAUSES,
        next=NEXT,
        sources=SOURCES,
    ),
    RuleSpec(
        id="E4",
        title="entropy surge",
        family="entropy",
        group=Group.LEARNING,
        metrics=("entropy",),
        detector=EntropySurge,
        condition="Above `jump`× the median of the 50 records before and above `jump_floor`, 3 of 5 records: "
        "WARN, and CRIT with "
        "answers `longer` times the usual or more than `truncated` cut off.",
        thresholds={"jump": 2.0, "jump_floor": 0.3, "longer": 1.5, "truncated": 0.2},
        n_of_m={level: NOfM(3, 5) for level in (INFO, WARN, CRIT)},
        warm_up=_MIN_SAMPLES,
        applies=applicability.has_rollouts,
        evidence=EvidenceNames("entropy", "usual", Unit.NATS),
        why="Rising entropy is noise taking over: off-policy data, routing noise, or answers that no longer end.",
        causes=RISE_CAUSES,
        next=(
            "off_policy_kl",
            "response_len_mean",
            "truncated_frac",
            "reward_mean",
            "clip_frac_high",
            "staleness_mean",
        ),
        sources="rLLM issue 116 (rising is fine below 1, degraded at 2); " + SOURCES,
    ),
)
