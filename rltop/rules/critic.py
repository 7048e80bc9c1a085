"""The critic: does the value function explain the returns?

Critics start badly on every run: no rule here fires before they have had time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.rules import applicability
from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding, Group, NOfM, RuleSpec
from rltop.stats.rolling import Frozen, Window, median_of
from rltop.units import number, percent

_MIN_SAMPLES = 20
_FEW = 8
_EVERY = 5


class ExplainedVariance(Detector):
    """C1: worse than predicting the mean, or lost after having been good."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(10)
        self.best = float("-inf")

    def detect(self, context: RuleContext) -> Finding | None:
        """After the critic's first `wait` records."""
        value = context.values.get("explained_var")
        if value is None:
            return None
        window, thresholds = self.window, self.thresholds
        window.push(value)
        if context.record <= thresholds["wait"]:
            return QUIET
        usual = window.median
        is_fine = value >= thresholds["warn"] and usual >= thresholds["lost"]
        if is_fine and (usual <= self.best or context.record % _EVERY):
            return QUIET
        self.best = max(self.best, usual)
        if value < thresholds["warn"]:
            return Finding(CRIT if value < thresholds["crit"] else WARN, value, self.best, thresholds["warn"])
        if self.best > thresholds["good"] and usual < thresholds["lost"]:
            return Finding(WARN, value, self.best, thresholds["lost"])
        return QUIET

    def headline(self, finding: Finding) -> str:
        """The value and what it was."""
        return f"explained variance {number(finding.value)} (best {number(finding.baseline or 0)})"


class ValueLossJump(Detector):
    """C3: value loss a multiple of what it has been."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.window = Window(50)
        self.start = Frozen(skip=0, size=5, minimum=3)

    def detect(self, context: RuleContext) -> Finding | None:
        """Against the 50 records before, and never below a part of the start."""
        value = context.values.get("value_loss")
        if value is None:
            return None
        window = self.window
        self.start.push(value)
        base, known = window.median, window.count
        window.push(value)
        # In its first records a critic only gets better: the early median is above the present level.
        base = max(base, self.thresholds["start_share"] * (self.start.value or 0.0))
        if known < _FEW or base <= 0.0 or value <= self.thresholds["warn"] * base:
            return QUIET
        level = CRIT if value > self.thresholds["crit"] * base else WARN
        return Finding(level, value, base, self.thresholds["warn"] * base)

    def headline(self, finding: Finding) -> str:
        """Now and baseline."""
        return f"value loss {number(finding.value)} (baseline {number(finding.baseline or 0)})"


class NotLearning(Detector):
    """C2: value loss where it was at the start, long after it should have fallen."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.start = Frozen(skip=3, size=20)
        self.recent: deque[float] = deque(maxlen=_MIN_SAMPLES)

    def detect(self, context: RuleContext) -> Finding | None:
        """A critic that explains the returns is done learning."""
        value = context.values.get("value_loss")
        if value is None:
            return None
        if not self.start.is_final:
            self.start.push(value)
        self.recent.append(value)
        base = self.start.value
        if context.record < self.thresholds["wait"] or context.record % _EVERY or base is None:
            return None
        line = self.thresholds["share"] * base
        level = median_of(list(self.recent))
        if level < line:
            return QUIET
        explained = context.values.get("explained_var")
        if explained is None:
            return Finding(INFO, level, base, line)
        return Finding(WARN, level, base, line) if explained < self.thresholds["explained"] else QUIET

    def headline(self, finding: Finding) -> str:
        """Level and start."""
        return f"value loss {number(finding.value)} ({number(finding.baseline or 0)} at run start): critic not learning"


class ValueDrift(Detector):
    """C4: predicted values and returns are on different scales."""

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.returns = Window(50)

    def detect(self, context: RuleContext) -> Finding | None:
        """Distance of the means against the recent range of the returns."""
        value, returned = context.values.get("value_mean"), context.values.get("return_mean")
        if value is None or returned is None:
            return None
        window, thresholds = self.returns, self.thresholds
        window.push(returned)
        gap = abs(value - returned)
        if context.record <= thresholds["wait"] or gap <= thresholds["floor"]:
            return QUIET
        reach = max(window.high - window.low, thresholds["floor"], 0.5 * abs(window.median))
        if gap <= thresholds["warn"] * reach:
            return QUIET
        return Finding(WARN, value, returned, returned + thresholds["warn"] * (reach if value > returned else -reach))

    def headline(self, finding: Finding) -> str:
        """Both means."""
        return f"mean value {number(finding.value)} vs mean return {number(finding.baseline or 0)}"


class ValueClipping(Detector):
    """C5: value updates are clipped persistently; WARN where the critic also explains little."""

    def detect(self, context: RuleContext) -> Finding | None:
        """High in the first records of every run."""
        value = context.values.get("clip_frac_value")
        if value is None:
            return None
        if value <= self.thresholds["info"]:
            return QUIET
        if context.record <= self.thresholds["wait"]:
            return QUIET
        explained = context.values.get("explained_var")
        is_held_back = explained is not None and explained < self.thresholds["explained"]
        return Finding(WARN if is_held_back else INFO, value, None, self.thresholds["info"])

    def headline(self, finding: Finding) -> str:
        """The share."""
        return f"value clip fraction {percent(finding.value)} (threshold {percent(finding.threshold or 0)})"


_CAUSES = (
    "reward scale",
    "critic learning rate",
    "a wrong mask",
    "a sudden policy change",
    "no critic warm-up",
)

RULES = (
    RuleSpec(
        id="C1",
        title="explained variance",
        family="critic",
        group=Group.LEARNING,
        metrics=("explained_var",),
        detector=ExplainedVariance,
        condition="After `wait` records: below `warn` in 10 of 15: WARN; below `crit` in 5 of 10: CRIT; from "
        "above `good` to below "
        "`lost`: WARN.",
        thresholds={"wait": 30, "warn": 0.0, "crit": -1.0, "good": 0.5, "lost": 0.2},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(10, 15), CRIT: NOfM(5, 10)},
        warm_up=30,
        applies=applicability.has_critic,
        why="Below 0 the critic is worse than predicting the mean, and advantages are mostly its noise.",
        causes=_CAUSES,
        next=("value_loss", "return_mean", "value_mean", "reward_mean", "clip_frac_value"),
        sources="Stable-Baselines3 docs/common/logger.md.",
    ),
    RuleSpec(
        id="C3",
        title="value loss",
        family="critic",
        group=Group.LEARNING,
        metrics=("value_loss",),
        detector=ValueLossJump,
        condition="Above `warn`× the median of the 50 records before (at least `start_share` of run start) in 3 "
        "of 5: WARN; above "
        "`crit`×: CRIT.",
        thresholds={"warn": 10.0, "crit": 100.0, "start_share": 0.05},
        n_of_m={INFO: NOfM(3, 5), WARN: NOfM(3, 5), CRIT: NOfM(3, 5)},
        warm_up=_FEW,
        applies=applicability.has_critic,
        why="The critic no longer fits the returns: the advantages of this batch and the next are noise.",
        causes=_CAUSES,
        next=("reward_mean", "kl_ref", "kl_old", "lr", "response_len_mean", "explained_var"),
        sources="published veRL PPO runs: 1.3 to 16 at the start, 0.06 to 0.14 from step 50 on.",
    ),
    RuleSpec(
        id="C2",
        title="critic not learning",
        family="critic",
        group=Group.LEARNING,
        metrics=("value_loss",),
        detector=NotLearning,
        condition="After `wait` records: median of 20 at `share` of run start (records 4 to 23) or above, while the "
        "explained variance is below `explained`, in 3 of 4 checks, one every five records: WARN; INFO where that is "
        "not logged.",
        thresholds={"wait": 100, "share": 0.9, "explained": 0.2},
        n_of_m={INFO: NOfM(3, 4), WARN: NOfM(3, 4)},
        warm_up=100,
        applies=applicability.has_critic,
        why="Advantages from an untrained critic are mostly noise.",
        causes=("critic learning rate too low", "reward scale", "a wrong mask", "critic too small"),
        next=("explained_var", "lr_critic", "return_mean", "value_mean", "clip_frac_value"),
        sources="published veRL PPO runs fall from 1.3 to 16 to about 0.1 within 50 steps; the share is judgement.",
    ),
    RuleSpec(
        id="C4",
        title="value drift",
        family="critic",
        group=Group.LEARNING,
        metrics=("value_mean", "return_mean"),
        detector=ValueDrift,
        condition="Mean value farther from the mean return than `warn`× the range of the last 50 returns (at least "
        "half their level and `floor`), after `wait` records, in 10 of 15.",
        thresholds={"warn": 2.0, "wait": 30, "floor": 0.2},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(10, 15)},
        warm_up=30,
        applies=applicability.has_critic,
        why="Every advantage then has the same sign, however good the completion.",
        causes=_CAUSES,
        next=("value_loss", "explained_var", "return_mean", "adv_mean", "reward_mean"),
        sources="judgement; values swing by a few units in the first records of healthy runs.",
    ),
    RuleSpec(
        id="C5",
        title="value clipping",
        family="critic",
        group=Group.LEARNING,
        metrics=("clip_frac_value",),
        detector=ValueClipping,
        condition="Above `info` in 10 of 15 records after the first `wait`: INFO; with an explained variance below "
        "`explained`: WARN.",
        thresholds={"info": 0.4, "explained": 0.2, "wait": 30},
        n_of_m={INFO: NOfM(10, 15), WARN: NOfM(10, 15)},
        warm_up=30,
        applies=applicability.has_critic,
        why="Value clipping keeps the critic from following the returns.",
        causes=("value clip range too small for the returns", "jumping returns", "too many epochs per batch"),
        next=("explained_var", "value_loss", "return_mean", "lr_critic"),
        sources="published veRL PPO runs: 0.2 to 0.43 in the first steps, then 0.",
    ),
)
