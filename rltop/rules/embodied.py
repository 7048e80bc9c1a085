"""Embodied policies: success is the reward, and PPO runs at its classic settings.

The shaped reward and the return of the environment are on scales of their own
and no measure of progress; what counts is the share of episodes that succeed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.rolling import MAD_TO_SIGMA, Window, median_of
from rltop.units import number, percent

_RECENT = 3
_LEVEL = 10


class SuccessCrash(Judge):
    """B1: success falls out of the range that it had learned.

    Best: largest median of ten. Now: median of the last three. The drop must
    exceed `share` of the learned range and four deviations of single records.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(_LEVEL)
        self.recent: deque[float] = deque(maxlen=_RECENT)
        self.best = float("-inf")
        self.worst = float("inf")
        self.noise = 0.0
        self.seen = 0

    def read(self, now: Moment) -> Reading | None:
        """After the first `wait` records that log it."""
        value = now.values.get("success_frac")
        if value is None:
            return None
        window = self.window
        window.push(value)
        self.recent.append(value)
        self.seen += 1
        if self.seen < _LEVEL:
            return QUIET
        level = window.median
        if level > self.best:
            self.best, self.noise = level, MAD_TO_SIGMA * window.mad
        self.worst = min(self.worst, level)
        if self.seen <= self.limits["wait"] or value >= self.best:
            return QUIET
        latest = median_of(list(self.recent))
        line = self.best - max(
            self.limits["share"] * (self.best - min(self.worst, self.window.low)), self.limits["sigmas"] * self.noise
        )
        if latest >= line or self.best <= 0.0:
            return QUIET
        is_gone = latest <= self.limits["crit"] * self.best
        return Reading(CRIT if is_gone else WARN, latest, self.best, line)

    def headline(self, reading: Reading) -> str:
        """Best and now."""
        return (
            f"success {percent(reading.baseline or 0)} → {percent(reading.value)} (median of three, best level of ten)"
        )

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Best, now, line."""
        return (
            Evidence("success, last three", reading.value, Unit.FRACTION),
            Evidence("best level", reading.baseline or 0.0, Unit.FRACTION),
            Evidence("threshold", reading.threshold or 0.0, Unit.FRACTION),
        )


class TimidUpdates(Judge):
    """B3: updates so small that success no longer moves."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.success = Window(50)

    def read(self, now: Moment) -> Reading | None:
        """Step KL and clip fraction next to nothing, on a plateau that is not the top."""
        values, limits = now.values, self.limits
        success = values.get("success_frac")
        if success is not None:
            self.success.push(success)
        step_kl, clipped = values.get("kl_old"), values.get("clip_frac")
        if step_kl is None or clipped is None or self.success.count < self.success.size:
            return None
        if abs(step_kl) > limits["step_kl"] or clipped > limits["clipped"] or now.lr == 0.0:
            return QUIET
        held = self.success.values
        half = len(held) // 2
        before, after = median_of(held[:half]), median_of(held[half:])
        if abs(after - before) > limits["moves"] or after > limits["top"]:
            return QUIET
        return Reading(INFO, step_kl, None, limits["step_kl"], (clipped, after))

    def headline(self, reading: Reading) -> str:
        """How small, and the plateau."""
        clipped, success = reading.extra
        return (
            f"success stands at {percent(success)} while updates move the policy by {number(reading.value)} nats and "
            f"{percent(clipped)} are clipped: too timid?"
        )


RULES = (
    RuleSpec(
        id="B1",
        title="success crash",
        family="embodied",
        group=Group.LEARNING,
        metrics=("success_frac",),
        judge=SuccessCrash,
        condition="After `wait` records: median of three below the best level of ten by more than `share` of the "
        "learned range and `sigmas` deviations, 2 of 3: WARN; at `crit` of the best or less: CRIT.",
        limits={"wait": 15, "share": 0.25, "sigmas": 4.0, "crit": 0.2},
        patience={WARN: Patience(2, 3), CRIT: Patience(2, 3), INFO: Patience(2, 3)},
        applies=applicability.is_embodied,
        why="The policy has lost a skill that it had.",
        causes=(
            "an update that was too large",
            "a critic that lost the returns",
            "rewards that changed",
            "simulators that fail",
        ),
        next=("kl_old", "clip_frac", "explained_var", "value_loss", "entropy", "grad_norm", "lr"),
        sources="RLinf issue 133: success of 0.5 to 0 within a few steps.",
    ),
    RuleSpec(
        id="B3",
        title="timid updates",
        family="embodied",
        group=Group.LEARNING,
        metrics=("kl_old", "clip_frac"),
        judge=TimidUpdates,
        condition="Step KL below `step_kl` and clip fraction below `clipped` in 10 of 15 records, while success has "
        "moved by less than `moves` over 50 records and is below `top`: INFO.",
        limits={"step_kl": 0.0015, "clipped": 0.004, "moves": 0.02, "top": 0.95},
        patience={INFO: Patience(10, 15)},
        warm_up=50,
        applies=applicability.is_embodied,
        why="Classic PPO clips a tenth of its samples and more; at a hundredth of that it hardly moves.",
        causes=("learning rate too low", "too few epochs per batch", "advantages that are next to zero"),
        next=("lr", "adv_max", "reward_std", "success_frac", "entropy"),
        sources="RLinf issue 1086; Stable-Baselines3 logs 0.24 in its example.",
    ),
)
