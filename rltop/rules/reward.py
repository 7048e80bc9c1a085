"""Reward: does it fall, and does it still carry a signal?

Thresholds are fractions of the range that the run itself has covered, never absolute levels: rewards may be negative,
unbounded or rescaled. The noise floor is the spread of single records, as a batch of eight moves in eighths.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import deque
from collections.abc import Mapping
from itertools import islice

from rltop.catalog.metrics import CATALOG
from rltop.model import Unit
from rltop.rules.context import HELD_RECORDS, ILL, LEVEL, REWARD, LeftMetric, RewardTrack, RuleContext, earn_the_same
from rltop.rules.evaluations import RETURN
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding, State
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import MAD_TO_SIGMA, Ema, Window, mad_of, median_of, middle_of, swings_of
from rltop.units import measure, number

_RECENT = 3
_EARLY = 10
_SETTLED = 20
_STRIDE = 5
_ALIKE = 1.25
_LITTLE, _MOST = 0.25, 0.8
"""Shares of the deepest loss so far: a fall from the first to the second within five records is sudden."""
_TOP, _CLIFF, _AT_ONCE = 0.1, 0.5, 2
"""So is one that begins within the first share of the learned range and loses the second within so many records."""
_OFTEN, _TIMES = 5, 2.0
"""After this many recoveries from a loss of half of what was learned, further ones are expected."""
_WRONG, _MULTIPLE = 30, 3
"""If each record is one answer: wrong answers in a row that count, also as a multiple of the longest row so far."""
_HELD = 20
_FEW = 8
_AGAIN = 2
"""Constant records before the streak: this many came by chance, so batches are small."""
_NOISE_TO_SIGMA = 1.2533
"""Factor from mean absolute deviation to standard deviation of a normal distribution: sqrt(pi / 2)."""
_WANDER_TO_SIGMA = _NOISE_TO_SIGMA / math.sqrt(6.0)
"""Factor from mean absolute second difference to standard deviation: its variance is 1 + 4 + 1 times that of one."""
_OF_RHO = {"sigmas": 5.0, "slow_sigmas": 5.0, "streak_sigmas": 7.0}
"""Deviations added to those of a threshold for an autocorrelation of 1; set on 120 made AR(1) rewards."""
_HELD_OUT = 30
"""A loss that has lasted this many records is no swing."""
_NOISES, _HARDLY = 3.0, 0.02
"""How far an evaluation may be below the best: in robust standard deviations, and as a share of the best."""
_ANOTHER_LENGTH = 0.1
"""Relative difference in episode length from which on the task counts as another."""
_SCORES = ("val_score", "val_acc", "val_best", RETURN)


class _Evaluation(State):
    """Evaluations before and after the reward fell.

    Attributes:
        is_after: the reward is down, so evaluations now come after the onset.
        is_fine: the newest evaluation after the onset is no worse than the best before, within noise.
    """

    name = ""
    before, length_before, length = Window(LEVEL), Window(LEVEL), Window(LEVEL)
    is_after = is_fine = False

    def observe(self, context: RuleContext) -> None:
        values = context.values
        if not self.name:
            if values.keys().isdisjoint(_SCORES):
                return
            self.name = next(name for name in _SCORES if name in values)
        value, length = values.get(self.name), values.get("episode_len")
        if not self.is_after:
            self.is_fine = False
            if value is not None:
                self.before.push(value)
            if length is not None:
                self.length_before.push(length)
            if self.length.count:
                self.length = Window(LEVEL)
            return
        if length is not None and self.length.count < LEVEL:
            self.length.push(length)
        if value is not None and self.before.count >= 2 and self.before.low < self.before.high:
            high = self.before.high
            if self.name != RETURN:
                self.is_fine = value >= high - max(_NOISES * MAD_TO_SIGMA * self.before.mad, _HARDLY * abs(high))
                return
            # Returns rise all along, so their spread is no noise; episodes of another length show another task.
            before, now = self.length_before.median, self.length.median
            is_other = self.length.count > 0 and abs(now - before) > _ANOTHER_LENGTH * before > 0.0
            self.is_fine = value >= high and is_other


class _Dips(State):
    """The dips that a run has recovered from by itself: how deep, as a share of the learned range, and how long.

    Sudden dips count only if single records are noisy (`is_noisy`) or the run has recovered from several: the more
    often it has, the longer the next may last.
    """

    deepest = loss = 0.0
    longest = bad = good = falling = healed = 0
    began, is_sudden, is_noisy = (0, 0), False, False

    def note_calm(self) -> None:
        """Count a record without a loss; ten in a row end a dip."""
        self.good, self.falling = self.good + 1, 0
        if self.good >= LEVEL:
            self.healed += self.loss >= _CLIFF and not self.is_noisy
            if not self.is_sudden or self.healed >= _OFTEN:
                self.deepest, self.longest = max(self.deepest, self.loss), max(self.longest, self.bad)
            self.loss, self.bad = 0.0, 0

    def is_known(self, loss: float, place: tuple[int, int], *, is_of_top: bool) -> bool:
        """Take in a loss; returns whether the run has recovered from one about as deep and as long as this so far."""
        if not self.bad:
            self.began, self.is_sudden, self.is_of_top = place, False, is_of_top and not self.is_noisy
        self.good, self.bad = 0, self.bad + 1
        self.loss = max(self.loss, loss)
        self.falling = self.falling + 1 if loss > _LITTLE * self.deepest else 0
        if self.bad <= _AT_ONCE and self.is_of_top and loss >= _CLIFF:
            self.is_sudden = True
        elif self.falling <= _STRIDE and self.deepest and not self.is_noisy:
            self.is_sudden = loss >= _MOST * min(1.0, self.deepest)
        longest = self.longest * (_TIMES if (is_often := self.healed >= _OFTEN) else _ALIKE)
        return (is_often or not self.is_sudden) and self.loss <= _ALIKE * self.deepest and self.bad <= longest


class RewardCrash(Detector):
    """R1: the reward drops out of the learned range: in its last three records, its median of ten, or a streak.

    The noise of a median of ten is two fifths of that of records. Five in a row, each below all of the twenty before
    them, come by chance once in C(25, 5), about 2e-5, whatever the noise distribution.
    """

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.recent: deque[float] = deque(maxlen=_RECENT)
        self.noise, self.wander = Ema(30), Ema(30 / _STRIDE)
        self.best, self.worst, self.floor = -math.inf, math.inf, -math.inf
        self.initial = self.noise_at_best = self.wander_at_best = 0.0
        self.down = self.wrong = self.longest = 0
        self.best_steps: tuple[int, int] | None = None
        self.levels: deque[float] = deque(maxlen=2 * LEVEL // _STRIDE + 1)
        self.single_line = self.level_line = self.reach = self.least = 0.0
        self.is_young = self.is_single = True
        self.held: deque[float] = deque(maxlen=_HELD)
        self.below: list[float] = []  # sorted; the newest also in arrival order, as a run may stay there for good
        self.newest_below: deque[float] = deque(maxlen=_HELD)
        lasts = int(thresholds["lasts"])
        self.often = NOfMCounter(max(1, 3 * lasts // 4), lasts)
        out = min(lasts, int(thresholds["out_lasts"]))
        self.out = NOfMCounter(max(1, 3 * out // 4), out)
        self.is_ill = self.is_success = False
        self.swings, self.swung, self.fired = (0.0, 0.0), 0, -HELD_RECORDS
        self.evaluation, self.dips = _Evaluation(), _Dips()
        self.dips.is_noisy = lasts > 1

    def detect(self, context: RuleContext) -> Finding | None:
        self.evaluation.observe(context)
        if (finding := self._judge(context)) is None:
            return None
        finding = self._beyond_swings(finding, context)
        if finding is QUIET and self.is_young:
            finding = self._judge_stay(context.reward.usual)
        self.is_single = self.is_single and context.reward.value in (0.0, 1.0)
        is_wrong = self.is_single and self._is_wrong_for_long(context.reward.value or 0.0)
        if finding is QUIET:
            if self.often.bits or self.out.bits:
                self.often.push(False)
                self.out.push(False)
            self.evaluation.is_after = self.is_ill = False
            if self.dips.bad:
                self.dips.note_calm()
                if not self.dips.bad:
                    self.is_known, self.since = False, None
            return QUIET
        loss = (finding.baseline or 0.0) - finding.value
        reached = max(self.best - self.initial, self.thresholds["share"] * abs(self.best))
        is_out = loss > max(self.thresholds["out"] * reached, self._noise("sigmas")[1])
        lasts = self.often.push(True), self.out.push(is_out)
        has_lasted = is_wrong if self.is_single else any(lasts)
        learned = self._learned or 1.0
        is_of_top = self.best - context.reward.before <= max(_TOP * learned, 2.0 * self._noise("sigmas")[0])
        self.is_known = self.dips.is_known(loss / learned, context.place, is_of_top=is_of_top)
        self.since = self.dips.began if self.dips.is_noisy or self.is_known or self.since else None
        self.evaluation.is_after = True
        self.is_ill = self.is_ill or not ILL.isdisjoint(context.onsets)
        if self.evaluation.is_fine and not self.is_ill and not self.is_firing:
            self._begin_anew(context.reward.usual)
            return QUIET
        if (self.is_known and not self.is_ill) or (self.is_single and not has_lasted):
            return QUIET
        steps = None if finding.words else self.best_steps
        return finding._replace(level=finding.level if has_lasted else INFO, steps=steps)

    def _is_wrong_for_long(self, value: float) -> bool:
        """With one answer per record, a median of three is chance: count wrong answers in a row instead."""
        if value:
            self.longest, self.wrong = max(self.longest, self.wrong), 0
        else:
            self.wrong += 1
        return self.wrong >= max(_WRONG, _MULTIPLE * self.longest)

    def _begin_anew(self, level: float) -> None:
        evaluation, is_success = self.evaluation, self.is_success
        self.__init__(self.thresholds)  # type: ignore[misc]
        evaluation.is_after = evaluation.is_fine = False
        self.evaluation, self.is_success = evaluation, is_success
        self.initial = level

    def _judge(self, context: RuleContext) -> Finding | None:
        reward = context.reward
        if (value := reward.value) is None:
            return None
        if self.is_success and reward.is_reward:
            self.__init__(self.thresholds)  # type: ignore[misc]
        self.is_success = not reward.is_reward
        # A cliff, and the recovery from it, are not noise.
        is_cliff = self.dips.bad > 0 and self.dips.is_sudden
        if reward.count > 1 and not is_cliff:
            self.noise.push(abs(value - reward.before))
        self.recent.append(value)
        held = self.held
        if value < self.floor:
            insort(self.below, value)
            self.newest_below.append(value)
        elif self.below or len(held) < _HELD or held[0] <= self.floor:
            self._hold(value)
        else:
            held.append(value)
        level = reward.usual
        if reward.count % _STRIDE == 0 and not is_cliff:
            self._note_level(level)
        if reward.count < _EARLY:
            self.initial = level
            return QUIET
        self._note_range(context.values)
        if level > self.best:
            self.is_young = reward.count <= 2 * _SETTLED
            rewarded = (one.step for one in reversed(context.recent) if reward.read(one.values) is not None)
            self.best_steps = list(islice(rewarded, LEVEL))[-1], context.observation.step
            self._note_best(level)
        elif level < self.worst:
            self.worst = level
        if self.best - value <= self.single_line and self.best - level <= self.level_line and not self.is_firing:
            return self._judge_below() if len(self.below) >= self.thresholds["streak"] else QUIET
        finding = self._judge_drop(reward.count)
        if finding is QUIET:
            finding = self._judge_level(level, reward.count)
        return self._judge_below() if finding is QUIET else finding

    def _note_range(self, values: Mapping[str, float]) -> None:
        """Allow the mean to vary by a share of the range of single episodes in a batch."""
        share = self.thresholds["range"]
        if share and "reward_max" in values and "reward_min" in values:
            self.reach = share * (values["reward_max"] - values["reward_min"])

    def _note_level(self, level: float) -> None:
        levels = self.levels
        levels.append(level)
        if len(levels) == levels.maxlen:
            self.wander.push(abs(level - 2.0 * levels[len(levels) // 2] + levels[0]))

    def _note_best(self, level: float) -> None:
        self.best, self.noise_at_best, self.wander_at_best = level, self.noise.value, self.wander.value
        self.worst = min(self.worst, level)
        has_risen = level - self.initial > self.thresholds["sigmas"] * _NOISE_TO_SIGMA * self.noise_at_best
        self.least = 0.0 if has_risen else _floor(level, self.thresholds)
        self.single_line, self.level_line = self._noise("sigmas")[1], self._noise("slow_sigmas")[1]

    @property
    def _learned(self) -> float:
        return max(self.best - min(self.worst, self.initial), self.thresholds["share"] * abs(self.best))

    def _beyond_swings(self, finding: Finding, context: RuleContext) -> Finding:
        """The finding, unless an autocorrelated reward swings that far by itself, and has not stayed there for long."""
        if finding is QUIET or self.is_firing or self.dips.is_noisy:
            self.swung, self.fired = 0, context.record if self.is_firing else self.fired
            return finding
        if not self.swung and context.record >= self.fired + _HELD_OUT:  # a crash is no swing
            held = [one for row in context.recent if (one := context.reward.read(row.values)) is not None]
            self.swings = swings_of(held[:-_STRIDE])
        self.swung += 1
        (sigma, rho), loss = self.swings, (finding.baseline or 0.0) - finding.value
        kind = "slow_sigmas" if finding.value == context.reward.usual else "sigmas"
        kind = "streak_sigmas" if finding.words else kind
        least = self.thresholds[kind] * min(sigma, finding.extra[0]) + _OF_RHO[kind] * rho * sigma
        return QUIET if loss <= least and self.swung < _HELD_OUT else finding

    def _judge_stay(self, level: float) -> Finding:
        self.down = self.down + 1 if self.best - level > self.thresholds["slow"] * self._learned else 0
        if self.down < self.thresholds["stays"]:
            return QUIET
        sigma = _NOISE_TO_SIGMA * min(self.noise_at_best, self.noise.value)
        line = max(self.thresholds["slow"] * self._learned, self.thresholds["sigmas"] * sigma, self.reach, self.least)
        return QUIET if self.best - level <= line else Finding(WARN, level, self.best, self.best - line, (sigma,))

    def _judge_drop(self, count: int) -> Finding:
        thresholds, best, learned = self.thresholds, self.best, self._learned
        recent = median_of(self.recent)
        drop = best - recent
        sigma, noise = self._noise("sigmas")
        part = thresholds["warn"] * learned if count >= _SETTLED else thresholds["early"] * abs(self.initial)
        line = max(part, noise)
        if line <= 0.0 or drop <= line:
            return QUIET
        # A young run has not shown its slow swings yet, so its noise counts double.
        beyond = thresholds["beyond"] if count >= 2 * _SETTLED else 2.0
        is_deep = count >= _SETTLED and drop > max(thresholds["crit"] * learned, beyond * noise)
        return Finding(CRIT if is_deep else WARN, recent, best, best - line, (sigma,))

    def _judge_level(self, level: float, count: int) -> Finding:
        """Compare the loss of the median of ten with that median's uncertainty."""
        thresholds, best = self.thresholds, self.best
        sigma, noise = self._noise("slow_sigmas")
        line = max(thresholds["slow"] * self._learned, noise)
        if count < 2 * _SETTLED or line <= 0.0 or best - level <= line:
            return QUIET
        return Finding(WARN, level, best, best - line, (sigma,))

    def _hold(self, value: float) -> None:
        """Add an ordinary record to the baseline, with the few before it that seemed to leave it."""
        held, below = self.held, self.below
        leaves = held[0] if len(held) == _HELD else None
        if below:
            held.extend(self.newest_below)
            below.clear()
            self.newest_below.clear()
            leaves = self.floor
        held.append(value)
        # There is no floor before there are enough records. Records in the window are not below the floor, so only
        # those that drop out of it can move it.
        if len(held) == _FEW or (leaves is not None and leaves <= self.floor):
            self.floor = min(held)

    def _judge_below(self) -> Finding:
        below, thresholds = self.below, self.thresholds
        if len(below) < thresholds["streak"] or len(self.held) < _FEW:
            return QUIET
        held = list(self.held)
        usual, recent = median_of(held), middle_of(below)
        line = max(thresholds["warn"] * self._learned, self.reach, self.least)
        if usual - recent <= line:
            return QUIET  # too small, whatever the spread
        sigma = MAD_TO_SIGMA * mad_of(held)
        line = max(line, thresholds["streak_sigmas"] * sigma)
        found = Finding(WARN, recent, usual, usual - line, (sigma, float(len(held))), ("streak",))
        return QUIET if usual - recent <= line else found

    def _noise(self, sigmas: str) -> tuple[float, float]:
        sigma = _NOISE_TO_SIGMA * self.noise_at_best
        wander = _WANDER_TO_SIGMA * self.wander_at_best
        return sigma, max(self.thresholds[sigmas] * sigma, self.thresholds["wander"] * wander, self.reach, self.least)

    def headline(self, finding: Finding) -> str:
        what = "success rate" if self.is_success else "reward"
        if finding.words or finding.steps is None:
            before = f"median of the {finding.extra[1]:.0f} records before"
        else:
            before = f"best median of ten, by step {finding.steps[1]:,}"
        return f"{what} {number(finding.baseline or 0)} → {number(finding.value)} ({before})"


def _floor(level: float, thresholds: Mapping[str, float]) -> float:
    """The smallest loss that counts, for a reward of about 0 that never rose and so has no range."""
    least = thresholds["zero"]
    return least if abs(level) < least else 0.0


class ConstantReward(Detector):
    """R2: every completion of the batch earns the same; quiet if that was so from the start, or at the top.

    A batch of one hard prompt has equal scores now and then. The probability of a streak by chance is the earlier share
    of such batches, by Laplace's rule of succession (same + 1) / (seen + 2), to the power of the streak's length.
    """

    covered_by: frozenset[str] = frozenset()
    """While an alert of these rules is active, it finds nothing."""
    varied = same = streak = 0
    highest = -math.inf

    def detect(self, context: RuleContext) -> Finding | None:
        reward, values, is_same = context.reward, context.values, self.is_same(context.values)
        if is_same is None or reward.value is None:
            return None
        if (high := values.get("reward_max", self.highest)) > self.highest:
            self.highest = high
        if not is_same:
            self.varied, self.same, self.streak, self.since = self.varied + 1, self.same + self.streak, 0, None
            return QUIET
        self.since = self.since or context.place
        self.streak += 1
        if not (self._is_beyond_chance(reward) and context.standing.isdisjoint(self.covered_by)):
            return QUIET
        # A mean can be at its own top although single completions have earned far more.
        is_best = self.highest - reward.value <= self.thresholds["short"] * (reward.top - reward.bottom)
        if context.is_at_top and is_best:
            self.since = None
            return QUIET
        has_fallen = reward.is_low and reward.best - reward.value > 0.5 * (reward.top - reward.bottom)
        return Finding(CRIT if has_fallen and self.varied else WARN, reward.value, reward.best)

    def is_same(self, values: Mapping[str, float]) -> bool | None:
        return earn_the_same(values)

    def _is_beyond_chance(self, reward: RewardTrack) -> bool:
        thresholds, streak, same, varied = self.thresholds, self.streak, self.same, self.varied
        if streak < thresholds["least"] or not varied:
            return False
        has_few = reward.has_few_groups or (same >= _AGAIN and not reward.has_many_groups)
        # Small batches have a chance on every record of a long run.
        chance = (2.0 if has_few else 1.0) * math.log(thresholds["chance"])
        is_long = streak >= thresholds["few_most" if has_few else "most"]
        return is_long or streak * math.log((same + 1) / (varied + same + 2)) < chance


_BAD_DOWN = frozenset({"entropy", "response_len_mean", "kl_ref"})
"""Metrics as suspicious far below their level as far above: another policy or another reference was loaded."""
_OF_MEDIANS = math.sqrt(2.0 / 10) * 1.2533
"""Standard error of the difference between two medians of ten, in standard deviations of one value."""


class WorseAfterRestart(Detector):
    """R23: a resumed run is not at the level that it had before the step at which it resumed."""

    is_about_word = True
    resumed: tuple[int, int] | None = None

    def detect(self, context: RuleContext) -> Finding | None:
        if not context.left:
            return None
        self.resumed = self.resumed or context.place
        if context.record < _FEW or (context.record > self.thresholds["records"] and not self.is_firing):
            return QUIET
        moved = {name: one for name, left in context.left.items() if (one := self._moved(name, left, context))}
        if not moved:
            self.since = None
            return QUIET
        if context.record == _FEW:
            self.since = self.resumed
        extra = tuple(number for value, level, _ in moved.values() for number in (value, level))
        return Finding(WARN, *next(iter(moved.values())), extra, tuple(moved))

    def _moved(self, name: str, left: LeftMetric, context: RuleContext) -> tuple[float, float, float] | None:
        """(Median of its newest ten values, level before, line between), or None if it is within the line."""
        noise = self.thresholds["sigmas"] * left.sigma
        if name == REWARD:
            learned = max(left.learned, self.thresholds["share"] * abs(left.level))
            least = 0.0 if left.learned > 0.0 else _floor(left.level, self.thresholds)
            line = left.level - max(self.thresholds["warn"] * learned, least, noise)
            usual, count = context.reward.usual, context.reward.count
            return (usual, left.level, line) if count >= _FEW and usual < line else None
        newest = [one.values[name] for one in islice(reversed(context.recent), LEVEL) if name in one.values]
        if len(newest) < _FEW or left.least <= 0.0:
            return None
        usual, times = median_of(newest), max(self.thresholds["times"], math.exp(_OF_MEDIANS * noise))
        line = max(times * left.level, left.most)
        if usual < left.level and name in _BAD_DOWN:
            line = min(left.level / times, left.least)
        return (usual, left.level, line) if (usual - line) * (line - left.level) > 0.0 else None

    def headline(self, finding: Finding) -> str:
        told: list[str] = []
        for name, value, level in zip(finding.words, finding.extra[::2], finding.extra[1::2], strict=True):
            metric = CATALOG.get(name)
            title, unit = ("the reward", Unit.NONE) if metric is None else (metric.title, metric.unit)
            how = "" if told else "continues at " if self.since == self.resumed else "is at "
            before = "" if told or self.resumed is None else f" before step {self.resumed[1]:,}"
            told.append(f"{title} {how}{measure(value, unit)}, was {measure(level, unit)}{before}")
        return f"after the restart {'; '.join(told)}"
