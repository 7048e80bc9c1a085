"""KL to the reference policy: how far the policy has walked from where it started.

One name, two units: per token, or summed over the sequence; the judges choose
first. Rising from 0 while learning is what it must do.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Evidence, Level, Unit
from rltop.rules import applicability
from rltop.rules.context import Moment
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.persistence import BlockTrend, OfLast
from rltop.stats.rolling import Frozen, Window, median_of
from rltop.units import number

_WINDOW = 50
_MEDIAN_OF = 5


class ReferenceKlSpike(Judge):
    """O11: KL to the reference policy, by unit.

    Per token: an absolute line that holds from the first record (no policy that
    writes language is ten nats per token away), and a jump against the 50
    records before. Summed over the sequence: lines of its own.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.window = Window(_WINDOW)
        self.huge = OfLast(2, 5)
        self.floor = limits["floor"]
        self.jump = min(limits["warn"], limits["crit"])

    def read(self, now: Moment) -> Reading | None:
        """CRIT on the absolute line at once; WARN and CRIT on jumps, the judge keeps its own patience."""
        value = now.values.get("kl_ref")
        if value is None:
            return None
        if now.traits.kl_is_sequence_sum:
            return self._sequence_sum(value)
        window = self.window
        if value <= self.floor or self.jump * window.median >= value <= self.limits["absolute"]:
            window.push(value)
            self.huge.push(False)
            return QUIET
        usual, known = window.median, window.count
        window.push(value)
        if value > self.limits["absolute"]:
            return Reading(CRIT, value, usual if known else None, self.limits["absolute"])
        return QUIET if known < self.limits["young"] or usual <= 0.0 else self._jump(value, usual, known)

    def _jump(self, value: float, usual: float, known: int) -> Reading:
        limits = self.limits
        if known < limits["wait"]:
            return self._young_jump(value, usual)
        is_huge = value > limits["crit"] * usual and value > limits["crit_floor"]
        if self.huge.push(is_huge) and is_huge:
            return Reading(CRIT, value, usual, limits["crit"] * usual)
        if value > limits["warn"] * usual:
            return Reading(WARN, value, usual, limits["warn"] * usual)
        return QUIET

    def _young_jump(self, value: float, usual: float) -> Reading:
        """A young run walks away from 0 as it learns, but not by that much within a few records."""
        line = max(self.limits["crit"] * usual, self.limits["crit_floor"])
        return Reading(WARN, value, usual, line) if value > line else QUIET

    def _sequence_sum(self, value: float) -> Reading:
        factor = RELEASE if self.is_firing else 1.0
        if value > self.limits["sum_crit"] * factor:
            return Reading(CRIT, value, None, self.limits["sum_crit"])
        if value > self.limits["sum_warn"] * factor:
            return Reading(WARN, value, None, self.limits["sum_warn"])
        return QUIET

    def headline(self, reading: Reading) -> str:
        """Distance, and what it usually is."""
        usual = f", usually {number(reading.baseline)}" if reading.baseline is not None else ""
        return f"KL to the reference is {number(reading.value)} nats{usual} (line {number(reading.threshold or 0)})"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Distance, usual distance, line."""
        return (
            Evidence("kl_ref", reading.value, Unit.NATS),
            *((Evidence("usual", reading.baseline, Unit.NATS),) if reading.baseline is not None else ()),
            Evidence("threshold", reading.threshold or 0.0, Unit.NATS),
        )


class ReferenceKlDrift(Judge):
    """O12: the policy walks away from the reference without earning reward for it."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.base = Frozen(skip=50, size=30, minimum=30)
        self.trend = BlockTrend()
        self.reward_then: float | None = None

    def read(self, now: Moment) -> Reading | None:
        """Speaks once per block of ten records; the base is records 50 to 80."""
        value = now.values.get("kl_ref")
        if value is None:
            return None
        base = self.base
        if not base.is_final:
            base.push(value)
            if base.is_final:
                self.reward_then = now.reward.usual if now.reward.count else None
        if not self.trend.push(value) or base.value is None or not self.trend.is_full:
            return None
        newest = self.trend.medians[-1]
        floor = self.limits["sum_floor"] if now.traits.kl_is_sequence_sum else self.limits["floor"]
        if newest < self.limits["warn"] * base.value or newest < floor or self.trend.monotony < self.limits["monotony"]:
            return QUIET
        return Reading(self._level(now), newest, base.value, self.limits["warn"] * base.value)

    def _level(self, now: Moment) -> Level:
        then = self.reward_then
        if then is None:
            return WARN
        reach = now.reward.top - now.reward.bottom
        return INFO if now.reward.usual > then + 0.02 * reach or now.reward.is_high else WARN

    def headline(self, reading: Reading) -> str:
        """How much farther than after the start."""
        factor = reading.value / reading.baseline if reading.baseline else 0.0
        what = "" if reading.level is INFO else ", and the reward has not risen"
        return (
            f"policy is {number(factor)}× farther from the reference than at the start "
            f"({number(reading.value)} nats){what}"
        )

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Distance now and after the start."""
        return (
            Evidence("kl_ref", reading.value, Unit.NATS),
            Evidence("records 50 to 80", reading.baseline or 0.0, Unit.NATS),
        )


class FarWithoutReward(Judge):
    """O17: far from the reference in short runs, with nothing gained since the first records.

    O12 needs a hundred records; a run that logs every ten steps may end before.
    """

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.lately: deque[float] = deque(maxlen=10)
        self.base = Frozen(skip=5, size=10, minimum=10)
        self.reward_then: float | None = None
        self.floor = limits["warn"]

    def read(self, now: Moment) -> Reading | None:
        """Median of ten against records 6 to 15; with a high line that needs no comparison."""
        value = now.values.get("kl_ref")
        if value is None or now.traits.kl_is_sequence_sum:
            return None
        lately, base = self.lately, self.base
        lately.append(value)
        if not base.is_final:
            base.push(value)
            if base.is_final and now.reward.count:
                self.reward_then = now.reward.usual
        if value <= self.floor or len(lately) < _MEDIAN_OF:
            return QUIET
        level = median_of(list(lately))
        if level > self.limits["high"]:
            return Reading(WARN, level, base.value, self.limits["high"])
        line = max(self.floor, self.limits["rise"] * (base.value or 0.0))
        if not base.is_final or level <= line or self._has_gained(now):
            return QUIET
        return Reading(WARN, level, base.value, line)

    def _has_gained(self, now: Moment) -> bool:
        reward = now.reward
        if self.reward_then is None or reward.is_constant:
            return True
        return reward.is_high or reward.usual > self.reward_then + 0.05 * (reward.top - reward.bottom)

    def headline(self, reading: Reading) -> str:
        """Distance now and at the start."""
        start = f", {number(reading.baseline)} in the first records" if reading.baseline is not None else ""
        return f"policy stands {number(reading.value)} nats per token from the reference{start}"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Distance, start, line."""
        return (
            Evidence("kl_ref", reading.value, Unit.NATS),
            *((Evidence("records 6 to 15", reading.baseline, Unit.NATS),) if reading.baseline is not None else ()),
            Evidence("threshold", reading.threshold or 0.0, Unit.NATS),
        )


class NegativeKl(Judge):
    """O13: a KL estimate that stays below zero: sampling and scoring differ."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.lately: deque[float] = deque(maxlen=_MEDIAN_OF)

    def read(self, now: Moment) -> Reading | None:
        """Median of the last five records."""
        value = now.values.get("kl_ref")
        if value is None:
            return None
        self.lately.append(value)
        if value >= 0.0:
            return QUIET
        if len(self.lately) < _MEDIAN_OF:
            return QUIET
        is_sum = now.traits.kl_is_sequence_sum
        line = self.limits["sum_warn" if is_sum else "warn"]
        median = median_of(list(self.lately))
        if median >= line:
            return QUIET
        return Reading(CRIT if median < self.limits["crit"] else WARN, median, None, line)

    def headline(self, reading: Reading) -> str:
        """The estimate and what it means."""
        return (
            f"KL estimate {number(reading.value)} over five records: log-probabilities come from another distribution"
        )


RULES = (
    RuleSpec(
        id="O11",
        title="KL to reference",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        judge=ReferenceKlSpike,
        condition="Per token: above `absolute`: CRIT from the first record on. After `wait` records: above `warn`× the "
        "usual and above `floor` in 3 of 5: WARN; above `crit`× and `crit_floor` in 2 of 5: CRIT, WARN between "
        "`young` and `wait` records. Summed over the sequence: above `sum_warn` WARN, above `sum_crit` CRIT.",
        limits={
            "absolute": 10.0,
            "wait": 50,
            "young": 10,
            "warn": 5.0,
            "floor": 0.3,
            "crit": 20.0,
            "crit_floor": 0.5,
            "sum_warn": 30.0,
            "sum_crit": 100.0,
        },
        patience={WARN: Patience(3, 5)},
        calm=5,
        applies=applicability.has_reference_kl,
        why="A policy that far from where it started usually writes garbage; and where KL is part of the "
        "objective, the "
        "penalty now outweighs everything else.",
        causes=(
            "learning rate too high",
            "wrong template or checkpoint",
            "no KL term",
            "a reference that was not loaded",
        ),
        next=("lr", "grad_norm", "truncated_frac", "entropy", "off_policy_kl", "reward_mean"),
        sources="open-r1 issue 257; TRL issues 1098 and 204; TRL's objective/kl is a sum over the sequence "
        "(9 to 12 on a healthy run).",
    ),
    RuleSpec(
        id="O12",
        title="KL drift",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        judge=ReferenceKlDrift,
        condition="Medians of ten records rise monotonically (Kendall's tau above `monotony`) to more than `warn`× "
        "records 50 to 80, and above `floor` per token (`sum_floor` summed): WARN while the reward stays "
        "flat, INFO while it rises.",
        limits={"warn": 3.0, "floor": 0.2, "sum_floor": 15.0, "monotony": 0.55},
        warm_up=100,
        applies=applicability.has_reference_kl,
        why="KL is what reward costs; spent without reward it is only distance.",
        causes=("learning rate too high for the KL coefficient", "reward noise", "no KL term"),
        next=("reward_mean", "val_score", "entropy", "lr", "response_len_mean"),
        sources="Gao et al. on reward over-optimisation: gold reward falls past a KL budget.",
    ),
    RuleSpec(
        id="O17",
        title="far from reference",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        judge=FarWithoutReward,
        condition="Per token, 5 of 8 records: median of ten above `warn` and above `rise`× records 6 to 15 while the "
        "reward stands no higher than then, or above `high`: WARN.",
        limits={"warn": 0.3, "rise": 5.0, "high": 2.0},
        patience={INFO: Patience(5, 8), WARN: Patience(5, 8)},
        warm_up=15,
        applies=applicability.has_reference_kl,
        why="KL is what reward costs; spent without reward it is only distance.",
        causes=("learning rate too high", "no KL term", "reward noise", "wrong template or checkpoint"),
        next=("reward_mean", "val_score", "lr", "entropy", "truncated_frac"),
        sources="Gao et al. on reward over-optimisation; healthy group methods stay between 1e-4 and 0.1 per token.",
    ),
    RuleSpec(
        id="O13",
        title="negative KL",
        family="kl",
        group=Group.LEARNING,
        metrics=("kl_ref",),
        judge=NegativeKl,
        condition="Median of five records below `warn` per token, or below `sum_warn` summed over the sequence: "
        "WARN; below "
        "`crit`: CRIT.",
        limits={"warn": -0.01, "sum_warn": -0.5, "crit": -5.0},
        patience={INFO: Patience(3, 5), WARN: Patience(3, 5), CRIT: Patience(3, 5)},
        applies=applicability.has_reference_kl,
        why="A KL cannot be negative; its estimate is when the text was not sampled from the policy that scores it.",
        causes=(
            "top-p or temperature differ between sampling and scoring",
            "masked tokens in the sum",
            "wrong padding",
        ),
        next=("off_policy_kl", "reward_mean", "truncated_frac"),
        sources="TRL issues 1098 and 204.",
    ),
)
