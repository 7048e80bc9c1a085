"""What an alert remembers from before its onset, and where its metric stands now.

Owns the frozen level, the earlier loads of a step, the definitions of "back" and "flat", and the level at which a
metric has settled; `alert_state` decides when an alert ends. A rolling baseline learns a new level within some thirty
records, so the earlier one is frozen: only a metric that has really come back is reported as recovered.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice, takewhile
from typing import Self

from rltop.catalog.metrics import CATALOG, spoken_title
from rltop.model import Level, Observation, Settled, Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import OK, WARN, Detector, Finding, RuleSpec, alike, medians_of
from rltop.stats.change import before_drift, usual_of
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, mad_of, median_of
from rltop.structs import Cloned, NamedTuple
from rltop.units import measure, measure_like

LEVEL_RECORDS = 50
"""Maximum number of values behind a frozen level."""
LEAST_VALUES = 5
"""With fewer values before the onset, the rule's own baseline is the frozen level."""
_HEALTHY_VALUES = 10
"""With fewer values before the onset, no healthy baseline is quoted next to an absolute line."""
_NEAR = 0.5
_DEPARTED = 2.0
"""A value within this many spreads of the earlier level has not departed from it."""
_FITS = 1.02
EXTRA_STAGES = ("time_save", "time_eval")


def own_time(observation: Observation) -> float | None:
    """Seconds of the step without checkpoint and validation, or None when not logged.

    Trainers and versions differ in whether the step includes these; each is subtracted only if it fits into the step
    together with the other stages (within 102 %).
    """
    values = observation.values
    if (total := values.get("time_step")) is None:
        return None
    extras = [values[name] for name in EXTRA_STAGES if values.get(name, 0.0) > 0.0]
    if not extras:
        return total
    stages = observation.stages.values()
    others = sum(stages) - sum([extra for extra in extras if extra in stages])
    for extra in extras:
        if others + extra <= _FITS * total:
            total -= extra
    return total


class JudgedValue(NamedTuple):
    """Which number of a record an alert is about.

    Attributes:
        instance: which of the metric's keys, if a run logs it under several; "" for the first.
        sign: -1 if the magnitude of a negative number is judged.
    """

    metric: str
    instance: str = ""
    sign: int = 1

    def read(self, observation: Observation) -> float | None:
        """The number in a record; None if it is not logged."""
        if self.instance:
            value = observation.instances.get(self.metric, {}).get(self.instance)
        else:
            value = own_time(observation) if self.metric == "time_step" else observation.values.get(self.metric)
        return None if value is None else self.sign * value

    def split(self, recent: Sequence[Observation], record: int) -> tuple[list[float], list[float]]:
        """The values before a record (at most `LEVEL_RECORDS`) and those from it on; both oldest first."""
        before: list[float] = []
        since: list[float] = []
        for each in reversed(recent):
            if (value := self.read(each)) is not None:
                (since if each.record >= record else before).append(value)
            if len(before) == LEVEL_RECORDS:
                break
        return before[::-1], since[::-1]

    def newest(self, recent: Sequence[Observation], record: int, most: int) -> list[float]:
        """Up to `most` of the newest values since a record, oldest first."""
        since = takewhile(lambda one: one.record >= record, reversed(recent))
        found = (value for one in since if (value := self.read(one)) is not None)
        return list(islice(found, most))[::-1]


class Before(NamedTuple):
    """A frozen level.

    Attributes:
        value: the median of the values before the onset, or the rule's baseline if that is farther from the finding.
        spread: 1.4826 × median absolute deviation of those values; 0.0 for fewer than five.
        is_positive: all of the values are above 0, so they are compared by ratio.
        since: the values from the onset on, oldest first.
    """

    value: float
    spread: float
    is_positive: bool
    since: tuple[float, ...]


def judged_in(
    spec: RuleSpec, detector: Detector, finding: Finding, recent: Sequence[Observation]
) -> JudgedValue | None:
    """The logged number that a finding is about; None if it is not one of the rule's metrics.

    The value of a finding is the number in the newest record or a median over a few records (`recent`, oldest first).
    Anything else (a slope, a share, a count) has no level to come back to.
    """
    if spec.measures or not recent:
        return None
    newest = recent[-1]
    subject = detector.subject(finding)
    candidates = [] if subject is None else [JudgedValue(subject.metric, subject.instance), JudgedValue(subject.metric)]
    candidates += [JudgedValue(name) for name in spec.metrics]
    logged = [(one, value) for one in candidates if (value := one.read(newest)) is not None]
    for one, value in logged:
        if value == finding.value:
            return one
        if value == -finding.value:
            return one._replace(sign=-1)
    if finding.baseline is None:
        return None
    reach = _NEAR * abs(finding.value - finding.baseline)
    found = ((one, near) for one, value in logged for near in (value, median_of(one.newest(recent, 0, _NEWEST))))
    return next((one for one, near in found if abs(near - finding.value) < reach), None)


def freeze(
    detector: Detector, judged: JudgedValue | None, finding: Finding, recent: Sequence[Observation], since: int
) -> Before | None:
    """The level before an alert; None if the line is absolute, or no departure from an earlier level is known."""
    base = finding.baseline
    if judged is None or base is None or is_absolute(detector, finding):
        return None
    before, held = judged.split(recent, since)
    spread, level = 0.0, base
    if len(before) >= LEAST_VALUES:
        spread, level = MAD_TO_SIGMA * mad_of(before), median_of(before)
        # A slow change already affects the records before its alert; the rule's own baseline is then the older one.
        if abs(finding.value - base) > abs(finding.value - level):
            level = base
    is_positive = level > 0.0 and finding.value > 0.0 and min(before, default=level) > 0.0
    is_within = abs(finding.value - level) <= _DEPARTED * spread
    if is_within and is_positive and spread:
        # With multiplicative noise, two spreads can reach down to 0: compare the ratio too.
        noise = MAD_TO_SIGMA * mad_of([math.log(one) for one in before])
        is_within = _log_distance(finding.value, level) <= _DEPARTED * noise
    if is_within or level == finding.value:
        # The metric did not leave its level, so there is none to come back to.
        return None
    return Before(level, spread, is_positive, tuple(held))


def is_absolute(detector: Detector, finding: Finding) -> bool:
    """Whether the line that was crossed is a fixed threshold of the rule, independent of the run's past.

    Floors do not count: values below a floor do not matter, and above it the baseline decides.
    """
    line = finding.threshold
    return line is not None and any(line == own for name, own in detector.thresholds.items() if "floor" not in name)


def healthy(
    detector: Detector, judged: JudgedValue | None, finding: Finding, recent: Sequence[Observation], since: int
) -> float | None:
    """The baseline that an alert may quote; None if the run was already as bad before, or is too young to tell."""
    base, line = finding.baseline, finding.threshold
    if base is None or line is None or not is_absolute(detector, finding):
        return base
    if judged is not None and len(judged.split(recent, since)[0]) < _HEALTHY_VALUES:
        return None
    is_ill = base <= line if finding.value < line else base >= line
    return None if is_ill else base


Behind = tuple[float | None, float | None, tuple[int, int] | None]
"""The baseline of a rule, the one quoted instead, and the first and last step of the latter, where known."""


def behind(detector: Detector, standing: Standing, base: float | None, context: RuleContext, since: int) -> Behind:
    """The baseline to quote: if the rule's own has values from `since` on, the median of as many from before."""
    judged = standing.judged
    if judged is None or base is None:
        return base, base, None
    first, newest = (
        [(one.step, value) for one in rows if one.record >= detector.begun and (value := judged.read(one)) is not None]
        for rows in (context.first, context.recent)
    )
    before = newest[: len(newest) - len(judged.newest(context.recent, since, len(newest)))]
    held = (*medians_of(detector), *context.baselines.values())
    unlike = {one if isinstance(one, Frozen) else one.size: one for one in held}.values()
    series = ((one, each) for one in unlike for each in ((first,) if isinstance(one, Frozen) else (before, newest)))
    found = next((found for one, each in series if (found := one.values_of_median(base, each))), ())
    if not found:
        return base, base, None
    told = base
    if len(before) >= LEAST_VALUES and found[-1] > before[-1]:
        found = before[-len(found) :]
        told = median_of([value for _, value in found])
    if isinstance(standing, Departure) and found[-1] in before and found[0] in before:
        found = before_drift(before[: before.index(found[-1]) + 1], found, standing.trigger)
        told = median_of([value for _, value in found])
    if isinstance(standing, Departure):
        standing.told = told
    return base, told, (found[0][0], found[-1][0])


_HOME_SPREADS, _HOME_SHARE = 3.0, 0.25
_FAR_BELOW = 4.0
LOADS = {"total_tokens": "tokens a step", "response_len_mean": "completion length", "prompt_len_mean": "prompt length"}
"""Loads that make a step take longer although nothing is wrong, and how they are called."""
Loads = tuple[tuple[str, float], ...]


class FrozenLevel(Cloned):
    """The level frozen by an alert that was active up to `record` of the run, for other rules on the same metric."""

    def __init__(self, before: Before, trigger: float) -> None:
        self.before, self.trigger, self.record = before, trigger, 0

    def is_way_back(self, finding: Finding, base: float) -> bool:
        """Whether the value, coming from `base`, lies between where the metric went and its earlier level.

        It may overshoot that level by three spreads, a quarter of the level, or the multiple that the rule tolerates.
        """
        value, level, line = finding.value, self.before.value, finding.threshold
        if (value > base) != (level > self.trigger):
            return False
        reach = max(_HOME_SPREADS * self.before.spread, _HOME_SHARE * abs(level))
        if line is not None and min(base, line, level) > 0.0:
            reach = max(reach, abs(level * line / base - level))
        low, high = sorted((self.trigger, level))
        if high == level:
            return low < value < high + reach
        # A value near 0 is not a return, however noisy the earlier level was.
        least = max(level - reach, level / _FAR_BELOW) if level > 0.0 else level - reach
        return least < value < high


def _log_distance(value: float, level: float) -> float:
    """Absolute logarithm of the ratio of two positive numbers; infinite if the ratio underflows."""
    return abs(math.log(ratio)) if (ratio := value / level) else math.inf


SETTLED_AFTER = 30
"""Values needed since the onset before a level can count as settled."""
FLAT_VALUES = 20
"""How many of the newest values must be flat."""
_LONG = 2 * FLAT_VALUES
_DRIFT = 0.15
"""The medians of the two halves of a flat stretch differ by less than this share of the way from the earlier level."""
_GROWTH = math.log(1.25)
"""For positive metrics also by less than a quarter, unless they are noisier: slow growth is not flat."""
_WOBBLE = 0.5
_CREEP = 0.025
"""A trend that stands out from the noise carries a flat stretch no farther than this share of the way."""
_CLEARLY = 3.5
"""Two standard errors of the difference between the medians of two halves, in spreads / √size: 2 × 1.25 × √2."""
SPREADS = 3.0
"""A metric that may be negative is back within this many spreads of the earlier level."""
_NOISY = 1.0001 * SPREADS * MAD_TO_SIGMA
_FAR = math.log(16.0)
_FARTHER = 0.1
"""A settled metric must move on by this share of the way it has already gone to raise a new alarm."""
_AGAIN = math.log(2.5)
"""A positive metric that has moved on by this ratio has left its settled level, however far its line (judgement)."""
_OF_LEAVING = 3
"""How many newest values' median must leave a settled level: a single value may be noise."""
_EARLY = 5
"""First values after the onset, which show whether the metric jumped to its new level at once."""
_TWICE = math.log(2.0)
_PART_BACK = 0.1
"""If a metric has come back by this share of the way from its farthest level, both levels are quoted."""
_ABOUT = 0.05
"""Two estimates of one level that differ by no more than this share are quoted as one."""
_MOSTLY, _NEARLY, _ELSEWHERE, _NEWEST, _NEW = 15, 0.8, 0.25, 10, 5
_RETURNED, _AWAY = 0b111, 0b1111111111
"""Bit masks over the newest values: three in a row inside are a return, ten in a row outside a departure."""
_NEWEST_FLAGS, _ALL_FLAGS = (1 << FLAT_VALUES) - 1, (1 << SETTLED_AFTER + 1) - 1
_MOST_OF_IT = 2 / 3
"""A load must have grown by this share of the metric's change, in logs, to count as its cause."""


class Standing(Cloned):
    """Where the metric of an alert stands; this base class is for alerts without a known level before the onset.

    Attributes:
        judged: the number that the alert is about; None if it is not a logged one.
        usual: the baseline that may be quoted next to an absolute line.
        side: 1 if an absolute line was crossed upward, -1 if downward, 0 if there is none.
        settled: the level at which it stays; None if it is not known to stay anywhere.
        is_back: the newest value has come more than halfway back; also true if no earlier level is known.
    """

    def __init__(self, judged: JudgedValue | None = None, usual: float | None = None) -> None:
        self.judged = judged
        self.usual = usual
        self.side = 0
        self._line = 0.0
        self.settled: Settled | None = None
        self.is_back = True

    @property
    def is_settled(self) -> bool:
        return False

    def cross(self, value: float, line: float) -> None:
        """Remember the absolute line that was crossed."""
        self.side, self._line = (value > line) - (value < line), line

    def is_within(self, finding: Finding, *, or_alike: bool = False) -> bool:
        """Whether a finding is back inside the absolute line that was crossed and held by hysteresis only."""
        line = finding.threshold
        part = 0.0 if line is None or not or_alike else alike(line)
        return line is not None and self.side * (finding.value - line) < part * abs(line)

    def is_beyond(self, value: float) -> bool:
        return self.side * (value - self._line) > 0.0

    def onset(self, recent: Sequence[Observation], since: int, after: int) -> tuple[int, int] | None:
        """(Record, step) of the first of the unbroken run of values beyond the line just before `since`; None if none.

        A finding may be a median, or subject to persistence, so the condition may have begun earlier; but not before
        `after`, the record at which the previous alert ended.
        """
        earlier = takewhile(lambda one: one.record < since, recent)
        return self._unbroken(tuple(earlier), lambda record, value: record > after and self.is_beyond(value))

    def _unbroken(self, rows: Sequence[Observation], holds: Callable[[int, float], bool]) -> tuple[int, int] | None:
        """(Record, step) of the first of the newest rows, of those that log the number, for all of which it holds."""
        found = None
        for each in reversed(rows):
            if (value := None if self.judged is None else self.judged.read(each)) is None:
                continue
            if not holds(each.record, value):
                break
            found = each.record, each.step
        return found

    @property
    def name(self) -> str:
        """What the number is called; empty if it is not a logged one."""
        return "" if (judged := self.judged) is None else judged.instance or spoken_title(judged.metric)

    def now(self, observation: Observation) -> float | None:
        """The value in a record with its own sign; None if it is not logged."""
        return None if self.judged is None else self.judged._replace(sign=1).read(observation)

    def lately(self, recent: Sequence[Observation]) -> float | None:
        """Median of the values in the five newest records; None if none of them logs it."""
        found = [now for one in islice(reversed(recent), _NEW) if (now := self.now(one)) is not None]
        return median_of(found) if found else None

    def worded(self, value: float, told: float) -> str:
        return measure_like(value, Unit.NONE if self.judged is None else _unit(self.judged), told)

    def clone(self) -> Self:
        return self if self is NOWHERE else super().clone()


NOWHERE = Standing()
"""The standing of an inactive alert; never changes."""


class Departure(Standing):
    """A metric that has left its frozen level.

    Halfway back is the geometric mean for positive metrics, else the midpoint; a metric that may be negative is also
    back within three spreads. If the ratio was above 16, the halfway point may still be beyond the rule's line: then
    the line decides.

    Attributes:
        told: the rule's baseline if that is close to the frozen level, else the frozen level; for quoting.
        when: how the quoted level is introduced: `before`, or before what.
        has_line: the rule has a line between the frozen level and where the metric went.
        edge: values beyond it are not back; `nearer`: the edge or the line, whichever is nearer to the frozen level.
    """

    judged: JudgedValue

    def __init__(
        self, spec: RuleSpec, judged: JudgedValue, before: Before, finding: Finding, loads: Loads, usual: float | None
    ) -> None:
        super().__init__(judged, usual)
        self.before = before
        self.trigger = trigger = finding.value
        self.is_back = False
        self._loads, self._left, self._nearest, self._far = loads, 0.0, 0.0, 0.0
        self._leaving = NOfMCounter(*spec.n_of_m_for(WARN))
        line, base = finding.threshold, finding.baseline
        is_told = base is not None and abs(base - before.value) <= max(before.spread, _ABOUT * abs(before.value))
        self.told = base if base is not None and is_told else before.value
        self.edge = math.sqrt(before.value * trigger) if before.is_positive else (before.value + trigger) / 2.0
        is_between = line is not None and min(before.value, trigger) < line < max(before.value, trigger)
        self.nearer = self.edge
        if line is not None and is_between:
            self.nearer = min(self.edge, line) if trigger > before.value else max(self.edge, line)
        if before.is_positive and self._way(trigger) > _FAR:
            self.edge = self.nearer
        self.reach = self._way(line if line is not None and is_between else trigger)
        self.has_line, name = is_between, spec.evidence.baseline
        self.when = name if name.startswith("before ") else "before"
        self._inside = 0
        self._begin(before.since)

    def _begin(self, since: tuple[float, ...]) -> None:
        self._values: deque[float] = deque(since, maxlen=FLAT_VALUES)
        self._count, self._early, self._has_moved = len(since), since[:_EARLY], False
        for one in self._values:
            self._hold(one)

    def _way(self, value: float, start: float | None = None) -> float:
        """Distance from `start` (default: the frozen level); in logs for positive metrics, else in their unit."""
        start = self.before.value if start is None else start
        if not self.before.is_positive:
            return abs(value - start)
        return _log_distance(value, start) if value > 0.0 < start else math.inf

    def observe(self, context: RuleContext) -> None:
        """Take in a record, and publish the frozen level to the other rules."""
        self.look(context.observation)
        if (home := context.homes.get(self.judged)) is None:
            context.homes[self.judged] = home = FrozenLevel(self.before, self.trigger)
        home.record = context.observation.record

    def look(self, observation: Observation) -> None:
        """Take in a record, if it logs the number, for this alert alone."""
        if (value := self.judged.read(observation)) is None:
            return
        self._values.append(value)
        self._count += 1
        if len(self._early) < _EARLY:
            self._early = (*self._early, value)
        self._hold(value)
        self.is_back = bool(self._inside & 1)
        self._has_moved = self._has_moved or self._inside & _RETURNED == _RETURNED

    def _hold(self, value: float) -> None:
        self._inside = (self._inside << 1 | (not self.is_beyond(value))) & _ALL_FLAGS

    def is_beyond(self, value: float) -> bool:
        before = self.before
        if value <= self.edge if self.edge > before.value else value >= self.edge:
            return False
        return before.is_positive or abs(value - before.value) > SPREADS * before.spread

    @property
    def level(self) -> float:
        return median_of(self._values)

    def _newest(self, count: int) -> list[float]:
        return list(self._values)[-count:]

    @property
    def is_mostly_back(self) -> bool:
        """At least three quarters of the newest twenty values are back; the others count as noise."""
        return len(self._values) == FLAT_VALUES and (self._inside & _NEWEST_FLAGS).bit_count() >= _MOSTLY

    def watch_again(self) -> None:
        """Start watching whether it leaves again; only values from now on count."""
        self._inside = _ALL_FLAGS
        self.settled = None

    def leaves_again(self, level: Level) -> Level:
        """The level to raise if the newest ten values are away again, beyond the line once crossed; OK if not.

        That is `level` if it has gone nearly as far as the value that raised the alert, else WARN.
        """
        if not self.has_line or self._count < _AWAY.bit_length() or self._inside & _AWAY:
            return OK
        way = self._way(median_of(self._newest(_AWAY.bit_length())))
        if way < self.reach:
            return OK
        return level if way >= _NEARLY * self._way(self.trigger) else WARN

    def settle_again(self, since_step: int) -> float:
        """Settle at the median of the newest ten values, forget those before, and return it."""
        self._begin(tuple(self._newest(_AWAY.bit_length())))
        self.settle(since_step)
        return self.level

    def date(self, recent: Sequence[Observation], record: int) -> None:
        """Correct the onset to `record`: earlier, or where it left its level again."""
        since = self.judged.split(recent, record)[1]
        self._count, self._early, self._has_moved, self.settled = len(since), tuple(since[:_EARLY]), False, None

    def stays(self, recent: Sequence[Observation], record: int) -> bool:
        """Whether it stays at another level, judging by the values since the onset at `record`.

        At least 30 values are needed; the newest 20 must be flat, and a longer stretch too, as 20 can hide a slope.
        """
        if self._count < SETTLED_AFTER or len(self._values) < FLAT_VALUES or self.is_back:
            return False
        if not (self.is_beyond(self.level) and self._is_level(list(self._values))):
            return False
        first = SETTLED_AFTER - FLAT_VALUES
        held = self.judged.newest(recent, record, first + _LONG)[first:]
        has_stayed = self._has_stayed(self.level)
        # Unless it jumped to its level at once, it must have stayed there for forty values.
        if len(held) <= FLAT_VALUES or (len(held) < _LONG and not has_stayed):
            return has_stayed
        # A metric close to 0 may keep falling by less and less.
        half, gone = len(held) // 2, _CREEP * abs(self.level - self.before.value)
        return abs(median_of(held[:half]) - median_of(held[half:])) <= gone or self._is_level(held)

    def _has_stayed(self, level: float) -> bool:
        """Whether it has been near `level` since the onset and still is, instead of moving on from there."""
        if self._has_moved:
            return False
        most = _DRIFT * abs(level - self.before.value)
        early = median_of(self._early)
        # Close to 0 every distance is small, however far it still falls: compare the ratio too.
        is_near = not self.before.is_positive or self._way(early, level) <= _TWICE
        return is_near and max(abs(early - level), abs(self.level - level)) <= most

    def _is_level(self, held: list[float]) -> bool:
        level, half = median_of(held), len(held) // 2
        way = self._way(level)
        if not 0.0 < way < math.inf:
            return level == held[0] == max(held) == min(held)
        drift, most = self._way(median_of(held[:half]), median_of(held[half:])), _DRIFT * way
        if drift > most:
            return False
        if self.before.is_positive:
            held = [math.log(one) if one > 0.0 else -math.inf for one in held]
        wobble = MAD_TO_SIGMA * mad_of(held)
        if self.before.is_positive:
            most = min(most, max(_GROWTH, wobble))
        is_clear = drift > 2.0 * _CREEP * way and drift > _CLEARLY * wobble / math.sqrt(half)
        if drift > most or wobble > _WOBBLE * way or is_clear:
            return False
        usual = usual_of(held)
        return usual is None or abs(usual.slope) * len(held) <= _CREEP * way

    def settle(self, since_step: int) -> None:
        """Record the current median as the settled level."""
        sign, level = self.judged.sign, self.level
        self._left, self._nearest, self._has_moved = level, level, not self._has_stayed(level)
        self._far = max(level, median_of(self._early), key=self._distance) if self._has_moved else level
        self.settled = Settled(sign * level, sign * self.told, since_step, _unit(self.judged))
        self._leaving.clear()

    def _distance(self, value: float) -> float:
        return abs(value - self.before.value)

    def follow(self, recent: Sequence[Observation]) -> str | None:
        """Update the settled level if the metric is flat again; returns what else to say if it has moved, else None.

        It has if it is nearer to the frozen one by more than a quarter of the way from the nearest settled level so
        far, or has left the farthest one as in `leaves`.
        """
        if (settled := self.settled) is None:
            return None
        level, told = self.level, self.judged.sign * settled.value
        self._has_moved = not self._has_stayed(told)
        if not self._is_level(list(self._values)):
            return None
        self.settled = settled._replace(value=self.judged.sign * level)
        if self._has_left(level, self._far):
            self._far, moved = level, self.moved_at(recent, told)
            return "" if moved is None else f"; {measure(settled.value, settled.unit)} before step {moved[1]:,}"
        self._far = max(self._far, level, key=self._distance)
        # An outward creep still counts from the first settled level; a wobble within the noise is no move.
        if self._distance(level) < self._distance(self._left) and not self._is_noise(self._left, level):
            self._left = level
        nearest, self._nearest = self._nearest, min(self._nearest, level, key=self._distance)
        return "" if self._is_nearer(level, nearest) else None

    def moved_at(self, recent: Sequence[Observation], told: float | None = None) -> tuple[int, int] | None:
        """(Record, step) since which it is nearer to where it is now than to `told` (default: its settled level)."""
        told, now = self._left if told is None else told, median_of(self._newest(_OF_LEAVING))
        return self._unbroken(recent, lambda _, value: self._way(value, now) <= self._way(value, told))

    def _is_nearer(self, level: float, told: float) -> bool:
        return self._distance(level) < (1.0 - _ELSEWHERE) * self._distance(told)

    def leaves(self) -> bool:
        """Take in the newest value; returns whether the metric has left its settled level.

        It has if it lies as far beyond that as the alert's line lies from the frozen level, or 2.5 times as high.
        """
        return self._leaving.push(self._has_left(median_of(self._newest(_OF_LEAVING)), self._left))

    def _has_left(self, value: float, level: float) -> bool:
        is_outward = (value > level) == (level > self.before.value)
        # By ratio alone, a metric close to 0 would leave its level again and again.
        is_far = abs(value - level) >= _FARTHER * abs(level - self.before.value)
        reach = min(self.reach, _AGAIN) if self.before.is_positive else self.reach
        return is_outward and is_far and self._way(value, level) >= reach and not self._is_noise(value, level)

    def _is_noise(self, value: float, level: float) -> bool:
        """Whether a value is within the scatter of the newest ones around a level, by distance or by ratio."""
        held = sorted(self._values)
        distance, is_ratio = abs(value - level), self.before.is_positive and held[0] > 0.0 < level
        # More than half of the values lie between these quartiles, so their MAD is at most the width between them.
        low, high = held[len(held) // 4], held[len(held) // 4 + len(held) // 2]
        apart = _log_distance(value, level) if is_ratio else math.inf
        if distance > _NOISY * (high - low) and not (is_ratio and apart <= _NOISY * _log_distance(high, low)):
            return False
        sigmas = SPREADS * MAD_TO_SIGMA
        return distance <= sigmas * mad_of(held) or (is_ratio and apart <= sigmas * mad_of(list(map(math.log, held))))

    def goes_on(self, earlier: Standing) -> bool:
        """Take over an earlier alert's onset if its frozen level, not its settled one, is still the reference."""
        if not isinstance(earlier, Departure) or self.judged != earlier.judged:
            return False
        level = self.before.value
        if abs(level - earlier.before.value) >= abs(level - earlier._left):
            return False
        self._early, self._has_moved = earlier._early, earlier._has_moved
        return True

    def load_words(self, recent: Sequence[Observation]) -> str:
        """Text on a load whose growth explains most of a longer time or lower throughput; empty if there is none."""
        if not self._loads or not self.before.is_positive or self.level <= 0.0:
            return ""
        if (way := _log_distance(self.level, self.before.value)) < _GROWTH:
            return ""  # it is back
        for name, before in self._loads:
            now = [one.values[name] for one in islice(reversed(recent), _NEWEST) if name in one.values]
            usual = median_of(now) if now else 0.0
            if usual > before > 0.0 and _log_distance(usual, before) >= _MOST_OF_IT * way:
                return f"; {LOADS[name]} {usual / before:.3g}×"
        return ""

    @property
    def settled_words(self) -> str:
        """Text on the levels of a settled alert; empty for any other."""
        if (settled := self.settled) is None:
            return ""
        since, sign = f"since step {settled.since_step:,}", self.judged.sign
        before, level, far = (measure(one, settled.unit) for one in (settled.before, settled.value, sign * self._far))
        if not self._has_moved:
            return f"{self.name} has stayed at {level} {since} ({self.when}: {before})"
        was = before if self.when == "before" else f"{before} ({self.when})"
        if self._distance(sign * settled.value) < (1.0 - _PART_BACK) * self._distance(self._far):
            return f"{self.name} {was} → {far} {since}; lately {level}"
        return f"{self.name} {was} → {level} {since}"

    @property
    def is_settled(self) -> bool:
        """It stays at another level, and has not come back from there by more than a quarter of the way."""
        return self.settled is not None and not self._is_nearer(self.level, self.judged.sign * self.settled.value)

    def is_elsewhere(self, now: float) -> bool:
        """Whether a value is more than a quarter of the departure away from the settled level."""
        one = self.settled
        return one is not None and abs(now - one.value) > _ELSEWHERE * abs(one.value - one.before)


def stand(spec: RuleSpec, detector: Detector, finding: Finding, context: RuleContext, since: int) -> Standing:
    """Freeze what is known from before `since`, the record at which an alert begins."""
    recent = [one for one in context.recent if one.record >= detector.begun]
    judged = judged_in(spec, detector, finding, recent)
    usual = healthy(detector, judged, finding, recent, since)
    before = freeze(detector, judged, finding, recent, since)
    if judged is not None and before is not None:
        named = LOADS if spec.family == "performance" else ()
        befores = ((name, JudgedValue(name).split(recent, since)[0]) for name in named)
        loads = tuple([(name, median_of(before)) for name, before in befores if len(before) >= LEAST_VALUES])
        return Departure(spec, judged, before, finding, loads, usual)
    known = Standing(judged, usual)
    if finding.threshold is not None and is_absolute(detector, finding):
        known.cross(finding.value, finding.threshold)
    return known


def is_returning(spec: RuleSpec, detector: Detector, finding: Finding, context: RuleContext) -> bool:
    """Whether a metric is only on its way back from another alert that the finding's baseline has learned."""
    if finding.baseline is None or not context.homes or is_absolute(detector, finding):
        return False
    judged = judged_in(spec, detector, finding, context.recent)
    home = None if judged is None else context.homes.get(judged)
    if home is None or judged is None:
        return False
    # Only records that log the metric count.
    since = judged.newest(context.recent, home.record + 1, LEVEL_RECORDS + 1)
    return len(since) <= LEVEL_RECORDS and home.is_way_back(finding, finding.baseline)


def quoted(detector: Detector, finding: Finding, usual: float | None, known: Behind = (None, None, None)) -> Finding:
    """The finding with the baseline to quote: next to an absolute line, only the one from before the alert."""
    if finding.baseline is not None and is_absolute(detector, finding):
        finding = finding._replace(baseline=usual)
    (base, told, steps), value, line = known, finding.value, finding.threshold
    if finding.baseline is None or finding.baseline != base:
        return finding
    extra = finding.extra
    if told and base and told != base:
        if line is not None and any(math.isclose(line, own * base) for own in detector.thresholds.values()):
            line *= told / base
        extra = tuple([value / told if one == value / base else one for one in extra])
    return finding._replace(baseline=told, threshold=line, steps=finding.steps or steps, extra=extra)


def _unit(judged: JudgedValue) -> Unit:
    metric = CATALOG.get(judged.metric)
    return Unit.NONE if metric is None else metric.unit
