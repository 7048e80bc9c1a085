"""Progress: has the reward stopped moving, as a plateau or at its maximum?

A plateau is where most runs end: INFO. WARN is for what costs: a reward that has
not moved in a thousand records, and hundreds of them on a solved task.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from rltop.model import Unit
from rltop.rules.conditions import has_teacher, is_paused
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, Finding, State
from rltop.stats.persistence import DatedNOfMCounter
from rltop.stats.rolling import mean_and_error, median_of
from rltop.units import number, percent

_MIN_RECORDS = 10
_FIRST_BLOCK, _BLOCKS = 50, 20
_BY_CHANCE, _WANDERS = 2.0, 0.1
"""A rise in standard errors that is none, and the part of the range of single records that blocks of them differ by."""
_NEW_BEST = 0.01
_STILL = 0.1
_STILL_LATER = 0.5
_STRIDE = 5
_NEARLY, _TOP_TENTH = 0.9, 0.1


class _Blocks(State):
    """Means of blocks of a reward from its first record on, of which there are `_BLOCKS` at most."""

    means: list[float] = []
    held: list[float] = []
    size = _FIRST_BLOCK

    def push(self, value: float) -> None:
        """Take a reward in; when there are too many blocks, each two are made one."""
        self.held.append(value)
        if len(self.held) < self.size:
            return
        self.means.append(sum(self.held) / self.size)
        self.held = []
        if len(self.means) == _BLOCKS:
            pairs = zip(self.means[::2], self.means[1::2], strict=True)
            self.means = [(one + other) / 2.0 for one, other in pairs]
            self.size *= 2

    def rise(self) -> tuple[float, float]:
        """How far the newer half of the blocks is above the older, and the standard error of that."""
        middle = len(self.means) // 2
        old, old_error = mean_and_error(self.means[:middle])
        new, new_error = mean_and_error(self.means[middle:])
        return new - old, math.hypot(old_error, new_error)


class Plateau(Detector):
    """R3: no new best level for a hundred records or a quarter of the run; WARN where it has never moved at all."""

    further = (("records since best", Unit.COUNT),)
    text = "plateau: best {baseline}, none better in {extra[0]:,.0f} records; now {value}"
    best = float("-inf")
    since = 0
    first = at_best = (0, 0)
    is_told = has_moved = False
    blocks = _Blocks()

    def detect(self, context: RuleContext) -> Finding | None:
        """Looks at every fifth reward; silent on a saturated task and at the end of a schedule."""
        reward = context.reward
        if reward.value is not None:
            self.blocks.push(reward.value)
        seen = context.observation
        if reward.count == 1 and reward.value is not None:
            self.first = seen.record, seen.step
        if reward.count % _STRIDE or reward.value is None or reward.count < _MIN_RECORDS:
            return None
        self.has_moved = not self._has_never_moved(context)
        if not self.has_moved:
            rise, _ = self.blocks.rise()
            return Finding(WARN, reward.usual, None, None, (float(reward.count), rise))
        if reward.usual > self.best:
            if reward.usual > self.best + _NEW_BEST * (reward.top - reward.bottom):
                self.since, self.at_best = reward.count, (seen.record, seen.step)
                self.best = reward.usual
                self.is_told = False
            return QUIET
        waited = reward.count - self.since
        if waited < max(self.thresholds["records"], self.thresholds["share"] * reward.count):
            return QUIET
        reach = reward.top - reward.bottom
        is_still = self.best - reward.usual <= (_STILL_LATER if self.is_told else _STILL) * reach
        if reward.is_constant or reward.is_solved or context.is_ending or not is_still:
            return QUIET
        self.is_told = True
        return Finding(INFO, reward.usual, self.best, None, (float(waited),))

    def began(self) -> tuple[int, int]:
        """The record of the best, or the first of a reward that has never moved."""
        return self.at_best if self.has_moved else self.first

    def _has_never_moved(self, context: RuleContext) -> bool:
        """Neither the reward nor an evaluation is above its first ones by more than chance, over `never` records."""
        reward, means = context.reward, self.blocks.means
        if reward.count < self.thresholds["never"] or reward.is_constant or reward.is_solved:
            return False
        if max(means) - min(means) > _WANDERS * (reward.top - reward.bottom):
            return False
        rise, error = self.blocks.rise()
        if rise > _BY_CHANCE * error or is_paused(context) or has_teacher(context):
            return False
        return not any(one.level > one.first + one.noise for one in context.histories.values())

    def headline(self, finding: Finding) -> str:
        if finding.level is WARN:
            records, rise = finding.extra
            sign = "+" if rise >= 0.0 else ""
            return (
                f"reward {number(finding.value)}: not moved in {records:,.0f} records "
                f"(their newer half {sign}{number(rise)})"
            )
        return super().headline(finding)


class Saturated(Detector):
    """R4: the reward is at its top and nearly all groups have zero variance; and what they cost.

    WARN where that has been so for `long` records, within the top tenth, and most of the compute of the run is lost.
    """

    further = (("reward", Unit.NONE), ("compute without a learning signal", Unit.FRACTION))
    cost = ""
    wasted = whole = 0.0
    is_long = False

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        long = int(thresholds["long"])
        self.lately = DatedNOfMCounter(math.ceil(_NEARLY * long), long)

    def detect(self, context: RuleContext) -> Finding | None:
        reward = context.reward
        share = reward.zero_share
        if reward.value is None or share is None:
            return None
        values = context.values
        if not self.whole:
            self.cost = next((name for name in _COSTS if values.get(name, 0.0) > 0.0), "")
        cost = values.get(self.cost, 0.0) if self.cost else 1.0
        self.whole += cost
        self.wasted += share * cost
        is_flat = share > self.thresholds["info"]
        is_at_top = reward.usual >= reward.top - _TOP_TENTH * (reward.top - reward.bottom)
        spent = self.wasted / self.whole if self.whole else share
        seen = context.observation
        self.is_long = self.lately.push_at(is_flat and is_at_top, seen.record, seen.step)
        if self.is_long and is_flat and spent > self.thresholds["warn"] * self.held_part(WARN):
            return Finding(WARN, share, None, self.thresholds["info"], (reward.usual, spent))
        if is_flat and reward.is_solved:
            return Finding(INFO, share, None, self.thresholds["info"], (reward.usual, spent))
        return QUIET

    def began(self) -> tuple[int, int] | None:
        """The first of the many records that a WARN counts."""
        return self.lately.began if self.is_long else None

    def headline(self, finding: Finding) -> str:
        share = "all groups" if finding.value >= 1.0 else f"{percent(finding.value)} of groups"
        reward, spent = finding.extra
        return (
            f"task saturated: reward {number(reward)}, {share} have zero reward variance; "
            f"{percent(spent)} of the {_COSTS.get(self.cost, 'batches')} so far taught nothing"
        )


class ScaleJump(Detector):
    """R12: the reward leaves its whole previous range, by several times that range."""

    further = (("lowest before", Unit.NONE), ("highest before", Unit.NONE))
    text = "reward {value} (range before: {extra[0]} to {extra[1]}): did the reward function change?"
    low, high = float("inf"), float("-inf")
    known = 0
    outside: tuple[float, ...] = ()

    def detect(self, context: RuleContext) -> Finding | None:
        """Three records outside in a row, each far out; one is an outlier."""
        value = context.reward.value
        if value is None:
            return None
        if self.low <= value <= self.high:
            if self.outside:
                self._take(self.outside)
            self.known += 1
            return QUIET
        if self.known < _MIN_RECORDS:
            self._take((value,))
            return QUIET
        reach = self.thresholds["info"] * (self.high - self.low)
        if reach <= 0.0 or self.low - reach <= value <= self.high + reach:
            self._take((*self.outside, value))
            return QUIET
        self.outside = (*self.outside, value)
        if len(self.outside) < 3:
            return QUIET
        before = self.low, self.high
        level = median_of(self.outside)
        self._take(self.outside)
        return Finding(INFO, level, None, None, before)

    def _take(self, values: tuple[float, ...]) -> None:
        self.low, self.high = min(self.low, *values), max(self.high, *values)
        self.known += len(values)
        self.outside = ()


_METRICS = ("score_mean", "reward_mean")
_COSTS = {"time_step": "step time", "total_tokens": "tokens"}
"""What measures the compute of a step, best first; else every batch costs the same."""
