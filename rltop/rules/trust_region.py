"""The trust region: step KL and importance ratio.

Both have more than one estimator or regime, and no line holds for all of them:
the judges choose the regime first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Algorithm, Evidence, Unit
from rltop.rules import applicability
from rltop.rules.clip import UPDATE_CAUSES
from rltop.rules.context import Moment
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.rolling import Frozen, median_of
from rltop.units import number

_MEDIAN_OF = 5


class StepKl(Judge):
    """O9: how far one batch of updates moved the policy, in nats per token.

    A signed (k1) estimate is noise around zero: the median of five counts. k2
    and k3 estimates cannot be negative and count as they are.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.lately: deque[float] = deque(maxlen=_MEDIAN_OF)
        self.small = 0

    def read(self, now: Moment) -> Reading | None:
        """Lines by estimator, by scale (embodied) and by what the ratio is taken against (async)."""
        value = now.values.get("kl_old")
        if value is None:
            return None
        limits = self.limits
        warn = limits["warn"]
        if now.traits.kl_is_signed:
            warn = limits["signed_warn"]
            self.lately.append(value)
            self.small = self.small + 1 if abs(value) <= warn * RELEASE else 0
            if self.small > _MEDIAN_OF // 2:
                return QUIET
            if len(self.lately) < _MEDIAN_OF:
                return QUIET
            value = abs(median_of(list(self.lately)))
        if value <= warn * RELEASE:
            return QUIET
        crit = limits["crit"]
        if now.algorithm is Algorithm.EMBODIED:
            warn = limits["signed_warn"]
        if now.traits.is_async:
            warn, crit = warn * limits["async_factor"], crit * limits["async_factor"]
        if self.is_firing:
            warn, crit = warn * RELEASE, crit * RELEASE
        if value > crit:
            return Reading(CRIT, value, None, crit)
        return Reading(WARN, value, None, warn) if value > warn else QUIET

    def headline(self, reading: Reading) -> str:
        """Distance and line."""
        return (
            f"one batch of updates moved the policy by {number(reading.value)} nats per token, line "
            f"{number(reading.threshold or 0)}"
        )

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Distance and line."""
        return (
            Evidence("kl_old", reading.value, Unit.NATS),
            Evidence("threshold", reading.threshold or 0.0, Unit.NATS),
        )


class ImportanceRatio(Judge):
    """O10: mean importance ratio against the run's own start.

    Not against 1: some trainers read 0.5 or 0.97 all along by construction
    (averages over minibatches that were skipped, precision offsets).
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.start = Frozen()
        self.warn = limits["warn"]

    def read(self, now: Moment) -> Reading | None:
        """Relative deviation from the frozen baseline."""
        value = now.values.get("ratio_mean")
        if value is None:
            return None
        start = self.start
        base = start.value
        if not start.is_final:
            start.push(value)
        if base is None or base <= 0.0:
            return QUIET
        relative = value / base
        warn = self.warn * RELEASE if self.is_firing else self.warn
        if 1.0 - warn <= relative <= 1.0 + warn:
            return QUIET
        crit = self.limits["crit"]
        level = CRIT if relative > crit or relative < 1.0 / crit else WARN
        return Reading(level, value, base, base * (1.0 + (self.warn if relative > 1 else -self.warn)))

    def headline(self, reading: Reading) -> str:
        """Ratio now and at the start."""
        return f"importance ratio {number(reading.value)}, was {number(reading.baseline or 0)} at the start"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Ratio, baseline, line."""
        return (
            Evidence("ratio_mean", reading.value),
            Evidence("baseline", reading.baseline or 0.0),
            Evidence("threshold", reading.threshold or 0.0),
        )


RULES = (
    RuleSpec(
        id="O9",
        title="step KL",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_old",),
        judge=StepKl,
        condition="2 of 5 records. Estimates that cannot be negative: above `warn`; signed estimates: median of "
        "five above "
        "`signed_warn` in size; both: CRIT above `crit`. Asynchronous training, where it is measured against the "
        "rollout "
        "policy: lines × `async_factor`.",
        limits={"warn": 0.02, "signed_warn": 0.03, "crit": 0.1, "async_factor": 3.0},
        patience={INFO: Patience(2, 5), WARN: Patience(2, 5), CRIT: Patience(2, 5)},
        applies=applicability.has_trust_region,
        why="The policy moved too far within one batch: what was sampled no longer says much about it.",
        causes=(*UPDATE_CAUSES, "dropout left on", "log-probabilities recomputed in another precision"),
        next=("clip_frac", "ratio_mean", "grad_norm", "lr", "entropy"),
        sources="spinningup ppo.py stops at 1.5 × 0.01; Stable-Baselines3 ppo.py likewise; TRL PPO docs.",
    ),
    RuleSpec(
        id="O10",
        title="importance ratio",
        family="ratio",
        group=Group.LEARNING,
        metrics=("ratio_mean",),
        judge=ImportanceRatio,
        condition="Farther than `warn` (relative) from the run's own start in 3 of 5 records: WARN; beyond a "
        "factor of `crit`: "
        "CRIT.",
        limits={"warn": 0.1, "crit": 2.0},
        patience={INFO: Patience(3, 5), WARN: Patience(3, 5), CRIT: Patience(3, 5)},
        warm_up=13,
        applies=applicability.has_trust_region,
        why="The mean ratio is near its starting value as long as new and old policy agree on what was sampled.",
        causes=UPDATE_CAUSES,
        next=("clip_frac", "kl_old", "lr", "off_policy_kl"),
        sources="TRL issues 454 and 1857; the baseline instead of 1 because TRL PPO reads 0.97 or 0.5 on healthy runs.",
    ),
)
