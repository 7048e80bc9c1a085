"""The critic: does the value function explain the returns?

Critics start badly on every run: no rule here speaks before they have had time.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.derive.rolling import Frozen, Window
from rltop.health import scope
from rltop.health.moment import Moment
from rltop.health.rule import CRIT, INFO, QUIET, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.units import number

_MIN_SAMPLES = 20


class ExplainedVariance(Judge):
    """C1: worse than predicting the mean, or lost after having been good."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(10)
        self.best = float("-inf")

    def read(self, now: Moment) -> Reading | None:
        """After the critic's first `wait` records."""
        value = now.values.get("explained_var")
        if value is None:
            return None
        window, limits = self.window, self.limits
        window.push(value)
        if now.record <= limits["wait"]:
            return QUIET
        usual = window.median
        self.best = max(self.best, usual)
        if value < limits["warn"]:
            return Reading(CRIT if value < limits["crit"] else WARN, value, self.best, limits["warn"])
        if self.best > limits["good"] and usual < limits["lost"]:
            return Reading(WARN, value, self.best, limits["lost"])
        return QUIET

    def headline(self, reading: Reading) -> str:
        """The value and what it was."""
        return (
            f"the critic explains {number(reading.value)} of the returns' variance (best "
            f"{number(reading.baseline or 0)})"
        )


class ValueLossJump(Judge):
    """C3: value loss a multiple of what it has been."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(50)
        self.start = Frozen(skip=0, size=5, minimum=3)

    def read(self, now: Moment) -> Reading | None:
        """Against the 50 records before, and never below a part of the start."""
        value = now.values.get("value_loss")
        if value is None:
            return None
        window = self.window
        self.start.push(value)
        if value <= self.limits["warn"] * window.floor:
            window.push(value)
            return QUIET
        base, known = window.median, window.count
        window.push(value)
        base = max(base, self.limits["start_share"] * (self.start.value or 0.0))
        if known < _MIN_SAMPLES or base <= 0.0 or value <= self.limits["warn"] * base:
            return QUIET
        level = CRIT if value > self.limits["crit"] * base else WARN
        return Reading(level, value, base, self.limits["warn"] * base)

    def headline(self, reading: Reading) -> str:
        """Now and usual."""
        return f"value loss {number(reading.value)}, usually {number(reading.baseline or 0)}"


_CAUSES = (
    "reward scale",
    "learning rate of the critic",
    "a mask that is off",
    "a policy that jumped away",
    "no warm-up",
)

RULES = (
    RuleSpec(
        id="C1",
        title="explained variance",
        family="critic",
        group=Group.LEARNING,
        metrics=("explained_var",),
        judge=ExplainedVariance,
        condition="After `wait` records: below `warn` in 10 of 15: WARN; below `crit` in 5 of 10: CRIT; from "
        "above `good` to below "
        "`lost`: WARN.",
        limits={"wait": 30, "warn": 0.0, "crit": -1.0, "good": 0.5, "lost": 0.2},
        patience={INFO: Patience(10, 15), WARN: Patience(10, 15), CRIT: Patience(5, 10)},
        warm_up=30,
        applies=scope.has_critic,
        why="Below 0 the critic is worse than a constant, and advantages are mostly its noise.",
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
        judge=ValueLossJump,
        condition="Above `warn`× the median of the 50 records before (at least `start_share` of the start) in 3 "
        "of 5: WARN; above "
        "`crit`×: CRIT.",
        limits={"warn": 10.0, "crit": 100.0, "start_share": 0.05},
        patience={INFO: Patience(3, 5), WARN: Patience(3, 5), CRIT: Patience(3, 5)},
        warm_up=_MIN_SAMPLES,
        applies=scope.has_critic,
        why="The critic has lost the returns: the advantages of this batch and the next are noise.",
        causes=_CAUSES,
        next=("reward_mean", "kl_ref", "kl_old", "lr", "response_len_mean", "explained_var"),
        sources="published veRL PPO runs: 1.3 to 16 at the start, 0.06 to 0.14 from step 50 on.",
    ),
)
