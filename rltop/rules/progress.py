"""Progress: has the reward stopped moving, as a plateau or at its maximum?

A plateau is where most runs end: INFO. WARN is for what costs: a reward that has
not moved in a thousand records, and hundreds of them on a solved task.
"""

from __future__ import annotations

import math

from rltop.model import Unit
from rltop.rules.conditions import has_teacher, is_paused
from rltop.rules.context import RuleContext
from rltop.rules.rule import INFO, QUIET, WARN, Detector, Finding, State
from rltop.stats.rolling import mean_and_error
from rltop.units import number

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
