"""Progress: a reward that never moved, or hardly ever, and one that has stopped moving.

Rules with a baseline need a healthy one; these cover runs that never had it. Most runs end in a plateau, which is INFO;
WARN is for waste, a reward that has not moved in a thousand records.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping

from rltop.rules.context import ALL_FLAT, FLAT_REWARD_STD, RewardTrack, RuleContext, earn_the_same
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, START_VALUES, WARN, Detector, Finding
from rltop.stats.rolling import Frozen, rise_and_error
from rltop.units import number


class NoLearningSignal(Detector):
    """R13: the reward has never moved, and there is no gradient, no spread or no entropy either.

    A gradient without a reference policy comes from something that is not logged. A reward above 0 that is the same
    everywhere means that the task was solved before.
    """

    has_lived = False
    what = "reward"
    dead = still = alike = 0
    level = 0.0
    left: float | None = None
    shortest, longest = float("inf"), float("-inf")

    def detect(self, context: RuleContext) -> Finding | None:
        if self.has_lived:
            return QUIET
        reward, values = context.reward, context.values
        if reward.value is None:
            return None
        # A teacher stands in for the reward, which then never moves.
        if "kl_teacher" in values or not (reward.is_constant or self._is_stuck_again(reward.value)):
            self.has_lived = True
            return QUIET
        self.level, self.alike = reward.value, self.alike + 1
        if not (context.lr if context.lr is not None else "grad_norm" in values):
            return None
        self.since = self.since or context.place
        self.still += 1
        self.what = "reward" if reward.is_reward else "success rate"
        return self._judge(reward.value, context)

    def _is_stuck_again(self, value: float) -> bool:
        """Whether an active alert's reward has moved once only, from one constant value down to another."""
        if value < self.level and self.is_firing and self.left is None:
            self.left, self.alike = self.level, 0
            return True
        return value == self.level and self.left is not None

    def _judge(self, value: float, context: RuleContext) -> Finding:
        thresholds, values = self.thresholds, context.values
        if (length := values.get("episode_len")) is not None:
            self.shortest, self.longest = min(self.shortest, length), max(self.longest, length)
        gradient, share = values.get("grad_norm"), context.reward.zero_share
        has_no_gradient = gradient is not None and gradient < thresholds["gradient"]
        has_no_spread = values.get("reward_std", 1.0) < FLAT_REWARD_STD or (share is not None and share >= ALL_FLAT)
        is_alive = gradient is not None and gradient >= thresholds["alive"] and "kl_ref" not in values
        entropy = values.get("entropy", values.get("action_entropy"))
        certain = thresholds["certain"]
        is_certain = entropy is not None and abs(entropy) < certain and abs(values.get("kl_old", 1.0)) < certain
        is_dead = value <= 0.0 and (has_no_gradient or is_certain or (has_no_spread and not is_alive))
        self.dead = self.dead + 1 if is_dead else 0
        lacks = ((has_no_gradient, "gradient"), (has_no_spread, "spread within groups"), (is_certain, "entropy"))
        words = tuple([f"no {what}" for holds, what in lacks if holds])
        if self.dead >= thresholds["flat" if has_no_spread else "warn"]:
            level = CRIT if self.dead >= thresholds["crit"] else WARN
            return Finding(level, value, None, None, (float(self.dead),), words)
        is_of_language = "response_len_mean" in values or share is not None or "kl_ref" in values
        if self.still < thresholds["unmoved" if is_of_language else "classic"] and not self.is_firing:
            return QUIET
        # In classic RL: a return of 1, the top of a task with one goal, or episodes of one length.
        is_solved = has_no_spread if is_of_language else value == 1.0 or self.shortest >= self.longest
        if value > 0.0 and is_solved:
            return Finding(INFO, value, None, None, (float(self.still),), words) if is_of_language else QUIET
        # All that moves such a policy is its KL penalty.
        is_wasted = is_of_language and value <= 0.0 and not is_alive and self.still >= thresholds["wasted"]
        return Finding(CRIT if is_wasted else WARN, value, None, None, (float(self.still),), words)

    def headline(self, finding: Finding) -> str:
        rest = f", {' and '.join(finding.words)}" if finding.words else ""
        # Records with a learning rate of 0 do not count.
        first = "the first " if self.since is None or self.since[0] <= 1 else ""
        if self.left is not None:
            return (
                f"{self.what} {number(self.left)}, then {number(finding.value)} on each of {self.alike} records{rest}"
            )
        return f"{self.what} {number(finding.value)} on each of {first}{finding.extra[0]:.0f} records{rest}"


class MostlyOneReward(Detector):
    """R22: nearly all batches earn one and the same reward; the few that differ keep resetting R2's streak."""

    flat: deque[int] = deque()
    levels: deque[float] = deque()
    seen = 0

    def detect(self, context: RuleContext) -> Finding | None:
        reward, values = context.reward, context.values
        if reward.value is None or (is_flat := self._is_flat(values, reward.zero_share)) is None:
            return None
        flat, levels, size, thresholds = self.flat, self.levels, self.thresholds["records"], self.thresholds
        self.seen += 1
        if is_flat:
            flat.append(self.seen)
            levels.append(round(reward.value, 9))
        while flat and flat[0] <= self.seen - size:
            flat.popleft()
            levels.popleft()
        known = min(self.seen, size)
        least = RELEASE * min(thresholds["warn"], thresholds["floor"]) * known
        if known < thresholds["least"] or len(flat) < least or reward.is_constant:
            return QUIET
        if len(levels) - len(set(levels)) + 1 < least:
            return QUIET
        level, count = Counter(levels).most_common(1)[0]
        share = count / known
        line = thresholds["floor" if level <= reward.bottom else "warn"]
        if share < line * self.hysteresis or level >= reward.top:
            return QUIET
        return Finding(WARN, share, None, line, (level, float(known)))

    def _is_flat(self, values: Mapping[str, float], zero_share: float | None) -> bool | None:
        """No spread of rewards or, if not logged, a policy-gradient loss of exactly 0; None if nothing tells."""
        if (is_same := earn_the_same(values)) is not None:
            return is_same
        if zero_share is not None:
            return zero_share >= ALL_FLAT
        return values["loss"] == 0.0 and values.get("grad_norm", 0.0) == 0.0 if "loss" in values else None


_MOVING = ("entropy", "response_len_mean", "episode_len")
_FEW = 5
_SAME = 1e-6


class StuckAtFloor(Detector):
    """R21: the reward has been at its minimum nearly all along, and nothing else moves either."""

    starts = {name: Frozen(skip=0, size=START_VALUES, minimum=_FEW) for name in _MOVING}
    floor = math.inf
    at_floor = seen = streak = 0

    def detect(self, context: RuleContext) -> Finding | None:
        reward, values, thresholds = context.reward, context.values, self.thresholds
        if (value := reward.value) is None:
            return None
        self.seen += 1
        if self.seen <= START_VALUES:
            for name in self.starts.keys() & values.keys():
                self.starts[name].push(values[name])
        reach = _SAME * abs(value) if abs(value) > 1.0 else _SAME
        if value < self.floor - reach:
            self.floor, self.at_floor, self.streak = value, 0, 0
        is_at_floor = value <= self.floor + reach
        self.at_floor += is_at_floor
        self.streak = self.streak + 1 if is_at_floor else 0
        if (not is_at_floor and self.floor >= 0.0) or self.seen < thresholds["records"] or reward.is_constant:
            return QUIET
        is_there = self.streak >= thresholds["records"] and self.at_floor >= thresholds["share"] * self.seen
        if not (self._is_flat(values) if is_there else self._is_near(reward)):
            return QUIET
        return Finding(WARN, value, self.floor, None, (float(self.at_floor), float(self.seen)))

    def _is_near(self, reward: RewardTrack) -> bool:
        """No record was ever far above the minimum, which is below 0 and which several records hit exactly."""
        near = self.thresholds["near"] * abs(self.floor)
        is_hit = self.floor < 0.0 and self.at_floor >= self.thresholds["hits"]
        return is_hit and reward.top <= self.floor + near and not reward.has_gained

    def _is_flat(self, values: Mapping[str, float]) -> bool:
        """At least one other metric is logged, and all that are logged have not moved since the start."""
        starts = [(name, start.value or 0.0) for name, start in self.starts.items()]
        known = [(values[name], base) for name, base in starts if name in values and base > 0.0]
        reach = self.thresholds["flat"]
        return bool(known) and all(base / reach <= value <= base * reach for value, base in known)


_MIN_RECORDS = 10
_FIRST_BLOCK, _BLOCKS, _FEWEST = 50, 20, 4
_BY_CHANCE, _WANDERS = 2.0, 0.1
"""A rise within this many standard errors is chance; blocks must differ by this share of the single records' range."""
_AT_ONCE = 0.5
"""If the median reward has risen by more than this share of the single records' range, it has moved."""
_NEW_BEST = 0.01
_STILL = 0.1
_STRIDE = 5


class Plateau(Detector):
    """R3: plateau: no new best in a hundred records or a quarter of the run; WARN if it has never moved at all."""

    best = float("-inf")
    best_at = 0
    first = at_best = (0, 0)
    is_told = False
    means: list[float] = []
    block: list[float] = []
    size, rise = _FIRST_BLOCK, (0.0, 0.0)

    def detect(self, context: RuleContext) -> Finding | None:
        reward = context.reward
        if reward.value is not None:
            self._take(reward.value)
            if reward.count == 1:
                self.first = context.place
        if reward.count % _STRIDE or reward.value is None or reward.count < _MIN_RECORDS:
            return None
        self.is_excused = False
        if self._has_never_moved(context):
            self.since = self.first
            return Finding(WARN, reward.usual, None, None, (float(reward.count), self.rise[0]))
        if reward.usual > self.best:
            if reward.usual > self.best + _NEW_BEST * (reward.top - reward.bottom):
                self.best_at, self.at_best, self.best, self.is_told = reward.count, context.place, reward.usual, False
                self.is_excused = True
            return None if self.is_told else QUIET  # hardly better: neither a new best nor the end of the plateau
        waited = reward.count - self.best_at
        if waited < max(self.thresholds["records"], self.thresholds["share"] * reward.count):
            return QUIET
        reach = reward.top - reward.bottom
        # A reported plateau lasts until there is a new best, even if the reward has fallen.
        is_still = self.is_told or self.best - reward.usual <= _STILL * reach
        if reward.is_constant or reward.is_solved or context.is_ending or not is_still:
            return QUIET
        self.is_told, self.since = True, self.at_best
        return Finding(INFO, reward.usual, self.best, None, (float(waited),))

    def _take(self, value: float) -> None:
        """Add a reward; when there are too many blocks, neighbours are merged in pairs."""
        self.block.append(value)
        if len(self.block) < self.size:
            return
        self.means.append(sum(self.block) / self.size)
        self.block = []
        if len(self.means) == _BLOCKS:
            pairs = zip(self.means[::2], self.means[1::2], strict=True)
            self.means = [(one + other) / 2.0 for one, other in pairs]
            self.size *= 2
        if len(self.means) >= _FEWEST:
            self.rise = rise_and_error(self.means)

    def _has_never_moved(self, context: RuleContext) -> bool:
        """Over `never` records, neither the reward nor any evaluation rose above its start by more than chance."""
        reward, means = context.reward, self.means
        if reward.count < self.thresholds["never"] or reward.is_constant or reward.is_solved:
            return False
        if len(means) < _FEWEST or max(means) - min(means) > _WANDERS * (reward.top - reward.bottom):
            return False
        rise, error = self.rise
        if rise > _BY_CHANCE * error or context.is_paused:
            return False
        # It rose early, within the first block.
        if reward.best - reward.start > _AT_ONCE * (reward.top - reward.bottom):
            return False
        return not any(one.level > one.first + one.noise for one in context.histories.values())
