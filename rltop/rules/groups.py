"""Prompt groups: is there reward variance left inside them, and what advantages result?

A zero-variance group gives no gradient in GRPO and its variants. If all are correct, the task is saturated; if all are
wrong, the run is dead. Advantages normalised within groups have a bound that only a fault exceeds; whitened ones have a
mean of 0 by construction.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from rltop.rules.context import HELD_RECORDS, RewardTrack, RuleContext
from rltop.rules.levels import NO_SIGNAL
from rltop.rules.reward import ConstantReward
from rltop.rules.rule import CRIT, INFO, MIN_SAMPLES, QUIET, WARN, WINDOW, Detector, Finding, State, Subject, worst
from rltop.stats import goodput
from rltop.stats.persistence import DatedNOfMCounter, NOfMCounter
from rltop.stats.rolling import Frozen, Window, median_of, rise_and_error
from rltop.units import percent

_HALF, _GAP, _FEW = 0.5, 0.1, 5
_LATELY, _OFTEN = 20, (8, 10)
_NEARLY, _TOP_TENTH = 0.9, 0.1
_COSTS = {"time_step": "step time", "total_tokens": "tokens"}
"""Measures of the compute of a step, best first; without any, every batch counts the same."""


class ZeroVariance(Detector):
    """G1: share of zero-variance groups, and what they cost; R13 covers a reward that never moved."""

    cost = ""
    lost = spent = 0.0
    is_long = is_at_top = has_parts = False
    seen = whole = whole_before = 0
    lately: deque[float] = deque(maxlen=_LATELY)
    high = DatedNOfMCounter(*_OFTEN)
    in_vain_since: tuple[int, int] | None = None
    high_since: tuple[int, int] | None = None

    def __init__(self, thresholds: Mapping[str, float]) -> None:
        super().__init__(thresholds)
        self.warn, self.crit = thresholds["warn"], thresholds["crit"]
        long = int(thresholds["long"])
        self.vain = DatedNOfMCounter(math.ceil(_NEARLY * long), long)
        self.costs: deque[tuple[float, float]] = deque(maxlen=long)
        self.rewards: deque[float] = deque(maxlen=long)

    def detect(self, context: RuleContext) -> Finding | None:
        reward = context.reward
        if reward.value is None or reward.zero_share is None:
            return None
        share = reward.zero_share
        spent = self._spent(share, context)
        # A batch of one or two groups is flat by chance, most of the time once nearly everything is solved.
        line = _NEARLY if self.is_at_top and reward.has_few_groups else self.thresholds["wasted"]
        is_much = self.is_long and spent > line * self.hysteresis
        self.since = None
        # A reward that rises steadily is always at its top, and noise can hide its rise since the start.
        rises = is_much and _rises(list(self.rewards), 2.0 if self.is_firing else 1.0)
        if is_much and not rises and not (share >= self.crit and reward.is_low):
            # The waste began once both the reward was where it is and groups had lost their contrast.
            self.since = max(filter(None, (self.in_vain_since, self.high_since)), default=None)
            return Finding(WARN, spent, None, line, (reward.usual, share), ("in vain", *self._in_vain(share, spent)))
        is_constant = reward.is_constant and reward.count > 1
        if self._is_one_group(share) or is_constant or share <= self.warn * self.hysteresis:
            return QUIET
        if reward.is_high or reward.is_coming_up:
            words = ("at top", *self._in_vain(share, spent)) if self.is_at_top else ()
            return Finding(INFO, share, None, self.warn, (reward.usual,), words)
        level = CRIT if share >= self.crit and reward.is_low else WARN
        is_young = share < self.crit and context.record <= self.thresholds["young"]
        return Finding(INFO if is_young else level, share, None, self.warn, (reward.usual,))

    def _spent(self, share: float, context: RuleContext) -> float:
        """The share of recent compute spent on zero-variance groups; also tracks how long it has been wasted.

        It is wasted if the reward is at its top, or no better than at the start.
        """
        values, reward, seen, costs = context.values, context.reward, context.observation, self.costs
        if not costs:
            self.cost = next((name for name in _COSTS if values.get(name, 0.0) > 0.0), "")
        if len(costs) == costs.maxlen:
            lost, cost = costs[0]
            self.lost, self.spent = self.lost - lost, self.spent - cost
        cost = values.get(self.cost, 0.0) if self.cost else 1.0
        costs.append((share * cost, cost))
        self.lost, self.spent = self.lost + share * cost, self.spent + cost
        is_dead = reward.is_constant and reward.usual <= 0.0
        self.is_at_top = not is_dead and reward.usual >= reward.top - _TOP_TENTH * (reward.top - reward.bottom)
        is_vain = self.is_at_top or not (is_dead or reward.has_gained)
        is_long = self.vain.push_at(is_vain, seen.record, seen.step) and len(costs) == costs.maxlen
        self.in_vain_since = (self.in_vain_since or self.vain.began) if is_long else None
        is_high = self.high.push_at(share > _HALF * self.thresholds["wasted"], seen.record, seen.step)
        self.high_since = (self.high_since or self.high.began) if is_high else None
        self.is_long = is_long
        self.rewards.append(reward.usual if reward.value is None else reward.value)
        return self.lost / self.spent if self.spent > 0.0 else share

    def _is_one_group(self, share: float) -> bool:
        """Whether batches hold so few groups that whole ones are often flat by chance, and this streak is short."""
        self.lately.append(share)
        self.seen += 1
        if share >= 1.0:
            self.whole += 1
        else:
            self.whole_before += self.whole
            self.whole = 0
            # With two groups a share of one half occurs too, and both may be flat by chance.
            self.has_parts = self.has_parts or (share > 0.0 and share != _HALF)
        if share >= 1.0 and _HALF in self.lately and sum(self.lately) > self.thresholds["most"] * _LATELY:
            return False
        is_usual = self.whole_before > self.thresholds["rare"] * (self.seen - self.whole)
        return is_usual and not self.has_parts and self.whole < self.thresholds["alone"]

    def _in_vain(self, share: float, spent: float) -> tuple[str, ...]:
        why = "task saturated" if self.is_at_top else "no better than at the start"
        what = _COSTS.get(self.cost, "batches")
        return percent(share), why, f"{percent(spent)} of the {what} of the last {len(self.costs)} records"


def _rises(values: Sequence[float], errors: float) -> bool:
    """Whether the mean of the later half exceeds that of the earlier half by so many standard errors."""
    if len(values) < 2 * _FEW:
        return False
    rise, error = rise_and_error(values)
    return rise > errors * error


class EmptyBatches(Detector):
    """G8: batches without a gradient among others that have one: none of their groups had contrast.

    A gradient that is small for another reason takes values in between; one rounded to 0 has many equal neighbours.
    Where the KL or a console's rounding leaves a gradient, advantages that are all 0 show that no reward is in it.
    """

    newest = -math.inf

    def detect(self, context: RuleContext) -> Finding | None:
        norm = _of_rewards(context.values)
        if norm is None or context.reward.value is None:
            return None
        if norm == 0.0:
            self.newest = context.record
        if context.record - self.newest >= HELD_RECORDS:
            return QUIET
        most = min(int(self.thresholds["records"]), HELD_RECORDS)
        read = context.reward.read
        rows = [one for one in context.recent if "grad_norm" in one.values and read(one.values) is not None]
        seen = rows[-most:]
        norms = [_of_rewards(one.values) or 0.0 for one in seen]
        share = norms.count(0.0) / len(norms)
        least = self.thresholds["info"] * self.held_part(INFO)
        if len(norms) < most or share < least or not _are_mixed(norms):
            self.since = None
            return QUIET
        if self.since is None:  # the first from which on there are as many
            empty = [_of_rewards(one.values) == 0.0 for one in rows]
            first = next(i for i in range(len(rows)) if empty[i] and sum(empty[i:]) >= least * len(empty[i:]))
            self.since = rows[first].record, rows[first].step
        rewards = [read(one.values) or 0.0 for one in seen]
        is_much = share >= self.thresholds["warn"] * self.held_part(WARN)
        level = WARN if is_much and not _rises(rewards, 3.0 if self.is_firing else 2.0) else INFO
        return Finding(level, share, None, self.thresholds["warn"], (float(norms.count(0.0)), float(len(norms))))


def _of_rewards(row: Mapping[str, float]) -> float | None:
    return 0.0 if "grad_norm" in row and row.get("adv_max") == row.get("adv_min", 1.0) else row.get("grad_norm")


def _are_mixed(norms: Sequence[float]) -> bool:
    """Whether gradients of 0 come and go, and the smallest other is far from 0."""
    others, half = [norm for norm in norms if norm], len(norms) // 2
    is_throughout = 4 * min(norms[:half].count(0.0), norms[half:].count(0.0)) >= norms.count(0.0)
    is_fine = 2 * len(set(others)) > len(others) > 0
    return is_fine and is_throughout and min(others) > _GAP * median_of(others)


class _Counted(State):
    start = Frozen(skip=0, size=10, minimum=5)
    values: deque[float] = deque(maxlen=goodput.LATELY)


_COUNTS = ("discarded_count", "evicted_samples", "dropped_stale")


class Discarded(Detector):
    """G2: share or number per step of generated completions discarded for zero variance or staleness."""

    is_about_word = True
    counts: dict[str, _Counted] = {}

    def detect(self, context: RuleContext) -> Finding | None:
        values, thresholds = context.values, self.thresholds
        passed, cancelled = values.get("filter_pass_rate"), values.get("cancelled_frac")
        counts = _COUNTS if passed is None else _COUNTS[1:]  # the pass rate already covers the first count
        found = [self._against_start(name, context) for name in counts if name in values]
        if passed is None and cancelled is None:
            return worst(*found)
        flat = "filter_pass_rate", 0.0 if passed is None else 1.0 - passed, thresholds["warn"]
        stale = "cancelled_frac", cancelled or 0.0, thresholds["stale"]
        name, share, line = max(flat, stale, key=lambda one: one[1] / one[2])
        own = Finding(WARN, share, None, line, words=(name,)) if share > line * self.hysteresis else QUIET
        return worst(own, *found)

    def _against_start(self, name: str, context: RuleContext) -> Finding:
        if (known := self.counts.get(name)) is None:
            known = self.counts[name] = _Counted()
            for _ in range(min(context.record - 1, known.start.size)):  # veRL does not log zeros
                known.start.push(0.0)
        known.values.append(count := context.values[name])
        if goodput.is_total(name, known.values):
            count -= known.values[-2] if len(known.values) > 1 else count
        if not known.start.is_final:
            known.start.push(count)
            return QUIET
        base, trained = known.start.value or 0.0, context.values.get("sample_count", 0.0)
        if name == "evicted_samples":  # these are groups
            trained /= context.group_size or 1
        line = max(self.thresholds["grown"] * base, self.thresholds["least"], trained)
        return Finding(WARN, count, base, line, words=(name,)) if count > line * self.hysteresis else QUIET


class FewSamples(Detector):
    """G6: an update uses a fraction of the samples that it had at the start."""

    start = Frozen(skip=0, size=10, minimum=5)

    def look(self, value: float, context: RuleContext) -> Finding | None:
        """Compare with the start; persistence filters out the single shorter batch at the end of an epoch."""
        base = (self.start.value if self.start.is_final else self.start.push(value)) or 0.0
        line = self.thresholds["warn"] * base
        return Finding(WARN, value, base, line) if value < line / self.hysteresis else QUIET


class NoAdvantage(ConstantReward):
    """A1: every advantage of the batch is 0, whatever the completions earn; silent under graver alerts."""

    covered_by = NO_SIGNAL

    def is_same(self, values: Mapping[str, float]) -> bool | None:
        high, low = values.get("adv_max"), values.get("adv_min")
        return None if high is None or low is None else max(high, -low) <= self.thresholds["spread"]

    def _is_beyond_chance(self, reward: RewardTrack) -> bool:
        """From the first record on, chance is unknown, but a reward that moves should have given some advantage."""
        is_first = not self.varied and self.streak >= self.thresholds["few_most"]
        return super()._is_beyond_chance(reward) or (is_first and not (reward.is_constant or reward.is_improving))


class AdvantageScale(Detector):
    """A1: advantages beyond their bound, off centre, or suddenly far above their baseline."""

    sizes = Window(WINDOW)
    extreme, beyond, off = NOfMCounter(3, 10), NOfMCounter(5, 10), NOfMCounter(5, 10)
    is_centred = False

    def detect(self, context: RuleContext) -> Finding | None:
        """Counts n of m itself, because the three conditions differ in persistence."""
        values = context.values
        high, low, mean = values.get("adv_max"), values.get("adv_min"), values.get("adv_mean")
        if high is None and low is None and mean is None:
            return None
        size = max(abs(high or 0.0), abs(low or 0.0))
        found = self._extreme(size)
        if found is None and context.group_size is not None and not context.traits.has_critic:
            found = self._beyond(size, context.group_size)
        if found is None and mean is not None:
            found = self._off_centre(mean, context)
        return QUIET if found is None else found

    def _extreme(self, size: float) -> Finding | None:
        sizes, factor, usual, is_far = self.sizes, self.thresholds["warn"], 0.0, False
        if size > self.thresholds["floor"] and size > factor * sizes.least and sizes.count >= MIN_SAMPLES:
            usual = sizes.median
            is_far = size > factor * usual > 0.0
        if size > 0.0:
            sizes.push(size)
        lasts = (is_far or self.extreme.bits) and self.extreme.push(is_far) and is_far
        return Finding(WARN, size, usual, factor * usual, words=("largest",)) if lasts else None

    def _beyond(self, size: float, group_size: int) -> Finding | None:
        # Samuelson's inequality for the unbiased standard deviation; reached if a single completion differs.
        bound = (group_size - 1) / math.sqrt(group_size) + self.thresholds["slack"]
        is_beyond = size > bound
        lasts = (is_beyond or self.beyond.bits) and self.beyond.push(is_beyond) and is_beyond
        return Finding(INFO, size, None, bound, words=("bound",)) if lasts else None

    def _off_centre(self, mean: float, context: RuleContext) -> Finding | None:
        line = self.thresholds["critic_mean" if context.traits.has_critic else "mean"]
        is_off = abs(mean) > line
        # Without a critic or a group baseline, advantages are the returns themselves, and any mean is possible.
        self.is_centred = self.is_centred or not is_off or context.traits.has_critic
        if not self.is_centred:
            return None
        lasts = (is_off or self.off.bits) and self.off.push(is_off) and is_off
        return Finding(INFO, mean, None, line, words=("mean",)) if lasts else None

    def subject(self, finding: Finding) -> Subject | None:
        return Subject("adv_mean") if finding.words[0] == "mean" else None
