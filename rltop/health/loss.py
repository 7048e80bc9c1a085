"""The loss: a level that jumps and stays.

Never "the loss does not fall": a policy-gradient surrogate is about 0 by
construction, changes sign freely, and may rise while the policy learns.
"""

from __future__ import annotations

from collections.abc import Mapping

from rltop.derive.rolling import MAD_TO_SIGMA, Window
from rltop.health.moment import Moment
from rltop.health.rule import CRIT, INFO, QUIET, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.model import Evidence
from rltop.units import number

_WINDOW = 50
_MIN_SAMPLES = 10


class LossJump(Judge):
    """O5: the loss far outside what it has been, in units of its own spread."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.loss = Window(_WINDOW)
        self.reach = limits["warn"] * limits["floor"]
        self.sigmas = limits["warn"] * MAD_TO_SIGMA

    def read(self, now: Moment) -> Reading | None:
        """The median of 50 records before; the spread is only computed when the distance could count."""
        value = now.values.get("loss")
        if value is None:
            value = now.values.get("policy_loss")
            if value is None:
                return None
        window = self.loss
        is_near = window.ceiling - self.reach <= value <= window.floor + self.reach
        if is_near or window.count < _MIN_SAMPLES:
            window.push(value)
            return QUIET
        median = window.median
        distance = value - median
        if abs(value) <= abs(median) or (self.sigmas > 0.0 and window.has_spread(abs(distance) / self.sigmas)):
            window.push(value)
            return QUIET
        spread = window.mad * MAD_TO_SIGMA
        window.push(value)
        line = self.limits["warn"] * max(spread, self.limits["floor"])
        if abs(distance) <= line:
            return QUIET
        level = INFO if now.is_lr_rising else WARN
        if abs(value) > self.limits["crit"] * max(abs(median), spread, self.limits["floor"]) and level is WARN:
            level = CRIT
        return Reading(level, value, median, median + (line if distance > 0 else -line))

    def headline(self, reading: Reading) -> str:
        """Now and usual."""
        return f"loss {number(reading.value)}, usually {number(reading.baseline or 0)}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Value, usual value, line."""
        return (
            Evidence("loss", reading.value),
            Evidence("usual", reading.baseline or 0.0),
            Evidence("threshold", reading.threshold or 0.0),
        )


RULES = (
    RuleSpec(
        id="O5",
        title="loss blow-up",
        family="loss",
        group=Group.LEARNING,
        metrics=("loss", "policy_loss"),
        judge=LossJump,
        condition="Farther than `warn` × max(1.4826 MAD, `floor`) from the median of the 50 records before, and "
        "larger, in 3 "
        "of 5 records: WARN. More than `crit`× its usual size in 3 of 5: CRIT. INFO only while the learning rate "
        "warms up.",
        limits={"warn": 10.0, "floor": 0.02, "crit": 100.0},
        patience={WARN: Patience(3, 5), CRIT: Patience(3, 5), INFO: Patience(3, 5)},
        warm_up=_MIN_SAMPLES,
        why="A loss that leaves its range and stays there is an update that went wrong; its level as such says little.",
        causes=("learning rate too high", "a KL term that blows up", "a change of data"),
        next=("grad_norm", "kl_ref", "lr", "entropy", "reward_mean"),
        sources="judgement; TRL issue 2703 and open-r1 issue 239 on losses that rise while the policy learns.",
    ),
)
