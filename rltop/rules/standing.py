"""What an alert remembers of the time before it, and where its metric stands now.

Owns the frozen level, the loads of a step before, what "back" and "flat" mean, and the level at which a metric has
settled; when an alert ends is `alert_state`'s business. Detectors with rolling baselines learn a new level in some
thirty records: the frozen one is kept so that "recovered" can be said of what has come back only.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import islice, takewhile
from typing import Self

from rltop.catalog.metrics import CATALOG, spoken_title
from rltop.model import Level, Observation, Settled, Unit
from rltop.rules.context import RuleContext
from rltop.rules.rule import OK, WARN, Detector, Finding, RuleSpec, alike, medians_of
from rltop.stats.change import usual_of
from rltop.stats.persistence import NOfMCounter
from rltop.stats.rolling import MAD_TO_SIGMA, Frozen, mad_of, median_of
from rltop.structs import Cloned, NamedTuple
from rltop.units import measure, measure_like

LEVEL_RECORDS = 50
"""Values behind a frozen level at most."""
LEAST_VALUES = 5
"""With fewer values before the onset the level is the baseline of the rule."""
_HEALTHY_VALUES = 10
"""With fewer values before the onset there is no healthy baseline for an absolute line."""
_NEAR = 0.5
_DEPARTED = 2.0
"""Spreads from the level before that are no departure."""
_FITS = 1.02
EXTRA_STAGES = ("time_save", "time_eval")


def own_time(observation: Observation) -> float | None:
    """Seconds of the step without checkpoint and validation, or None when not logged.

    Whether these lie inside the step differs by trainer and version; they are taken out only where they fit: the other
    stages leave room for them within 102 % of the step.
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
        instance: which of its keys, where a run logs it under several; "" for the first.
        sign: -1 where the size of a negative number is judged.
    """

    metric: str
    instance: str = ""
    sign: int = 1

    def read(self, observation: Observation) -> float | None:
        """The number in a record; None where it is not logged."""
        if self.instance:
            value = observation.instances.get(self.metric, {}).get(self.instance)
        else:
            value = own_time(observation) if self.metric == "time_step" else observation.values.get(self.metric)
        return None if value is None else self.sign * value

    def split(self, recent: Sequence[Observation], record: int) -> tuple[list[float], list[float]]:
        """The values before a record (`LEVEL_RECORDS` at most), and those from it on; both oldest first."""
        before: list[float] = []
        since: list[float] = []
        for each in reversed(recent):
            if (value := self.read(each)) is not None:
                (since if each.record >= record else before).append(value)
            if len(before) == LEVEL_RECORDS:
                break
        return before[::-1], since[::-1]

    def newest(self, recent: Sequence[Observation], record: int, most: int) -> list[float]:
        """The newest values from a record on, `most` at most, oldest first."""
        since = takewhile(lambda one: one.record >= record, reversed(recent))
        found = (value for one in since if (value := self.read(one)) is not None)
        return list(islice(found, most))[::-1]


class Before(NamedTuple):
    """A frozen level.

    Attributes:
        value: the median of the values before the onset, or the rule's baseline where that lies farther off.
        spread: 1.4826 × median absolute deviation of those values; 0.0 for fewer than five.
        is_positive: it is compared by ratio: all of the values are above 0.
        since: the values from the onset on, oldest first.
    """

    value: float
    spread: float
    is_positive: bool
    since: tuple[float, ...]


def judged_in(
    spec: RuleSpec, detector: Detector, finding: Finding, recent: Sequence[Observation]
) -> JudgedValue | None:
    """Which logged number a finding is about; None where none of the rule's metrics is.

    The value of a finding is a number of the record itself or a median of a few of it (`recent`, oldest first). What is
    neither (a slope, a share, a count) has no level to come back to.
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
    """The level before an alert; None where the rule compares with an absolute line, or nothing is known before."""
    base = finding.baseline
    if judged is None or base is None or is_absolute(detector, finding):
        return None
    before, held = judged.split(recent, since)
    spread, level = 0.0, base
    if len(before) >= LEAST_VALUES:
        spread, level = MAD_TO_SIGMA * mad_of(before), median_of(before)
        # A slow change is in the records before its alert too: then the rule's own baseline is the older one.
        if abs(finding.value - base) > abs(finding.value - level):
            level = base
    is_positive = level > 0.0 and finding.value > 0.0 and min(before, default=level) > 0.0
    is_within = abs(finding.value - level) <= _DEPARTED * spread
    if is_within and is_positive and spread:
        # What is noisy by factors is near 0 within two spreads, however far it has fallen.
        noise = MAD_TO_SIGMA * mad_of([math.log(one) for one in before])
        is_within = _log_distance(finding.value, level) <= _DEPARTED * noise
    if is_within or level == finding.value:
        # What is wrong is not that it left its level: there is none to come back to.
        return None
    return Before(level, spread, is_positive, tuple(held))


def is_absolute(detector: Detector, finding: Finding) -> bool:
    """Whether the line that was crossed is a number of the rule's own, whatever the run was like before.

    A floor is none: what is below it does not matter, and above it the baseline decides.
    """
    line = finding.threshold
    return line is not None and any(line == own for name, own in detector.thresholds.items() if "floor" not in name)


def healthy(
    detector: Detector, judged: JudgedValue | None, finding: Finding, recent: Sequence[Observation], since: int
) -> float | None:
    """The baseline that an alert may quote; None where the run was as bad before, or is too young to tell."""
    base, line = finding.baseline, finding.threshold
    if base is None or line is None or not is_absolute(detector, finding):
        return base
    if judged is not None and len(judged.split(recent, since)[0]) < _HEALTHY_VALUES:
        return None
    is_ill = base <= line if finding.value < line else base >= line
    return None if is_ill else base


Behind = tuple[float | None, float | None, tuple[int, int] | None]
"""The baseline of a rule, the one that is told instead, and the first and the last step of that, where known."""


def behind(detector: Detector, standing: Standing, base: float | None, context: RuleContext, since: int) -> Behind:
    """What is told for a baseline: where its values reach to the onset at `since`, the median of as many before it."""
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
    if isinstance(standing, Departure):
        standing.told = told
    return base, told, (found[0][0], found[-1][0])


_HOME_SPREADS, _HOME_SHARE = 3.0, 0.25
_FAR_BELOW = 4.0
LOADS = {"total_tokens": "tokens a step", "response_len_mean": "completion length", "prompt_len_mean": "prompt length"}
"""What makes a step take longer without anything being wrong, and what it is called."""
Loads = tuple[tuple[str, float], ...]


class FrozenLevel(Cloned):
    """A level that an alert, active up to `record` of the run, has frozen: as other rules of the metric see it."""

    def __init__(self, before: Before, trigger: float) -> None:
        self.before, self.trigger, self.record = before, trigger, 0

    def is_way_back(self, finding: Finding, base: float) -> bool:
        """Whether its value lies between where the metric went and what it was before, coming from `base`.

        Beyond that by what the rule bears, where it compares with a multiple.
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
        # What is nearly gone is not at home, however noisy that was.
        least = max(level - reach, level / _FAR_BELOW) if level > 0.0 else level - reach
        return least < value < high


def _log_distance(value: float, level: float) -> float:
    """Of two positive numbers; infinite where their ratio is no float."""
    return abs(math.log(ratio)) if (ratio := value / level) else math.inf


SETTLED_AFTER = 30
"""Values from the onset on before a level can be called settled."""
FLAT_VALUES = 20
"""So many of the newest must be flat."""
_LONG = 2 * FLAT_VALUES
_DRIFT = 0.15
"""The halves of what is flat differ by less than this part of the way from the level before."""
_GROWTH = math.log(1.25)
"""And of what is positive by less than a quarter, unless it is noisier: slow growth is not flat."""
_WOBBLE = 0.5
_CREEP = 0.025
"""A trend clearer than the noise carries what is flat no farther than this part of the way."""
_CLEARLY = 3.5
"""Medians of halves differ clearly: by two standard errors, each 1.25 spreads by the root of their number."""
SPREADS = 3.0
"""A number with a sign is back within so many spreads of the level before."""
_NOISY = 1.0001 * SPREADS * MAD_TO_SIGMA
_FAR = math.log(16.0)
_FARTHER = 0.1
"""Part of the way gone by which a settled metric must go farther to be a new alarm."""
_OF_LEAVING = 3
"""Newest values whose median leaves a settled level: one of them alone may be noise."""
_EARLY = 5
"""Values from the onset on that say whether it stays where it went at once."""
_TWICE = math.log(2.0)
_PART_BACK = 0.1
"""Part of the way that has been come back by, from where it had settled: both are told."""
_ABOUT = 0.05
"""Two estimates of one level that differ by no more are told as one."""
_MOSTLY, _NEARLY, _ELSEWHERE, _NEWEST, _NEW = 15, 0.8, 0.25, 10, 5
_RETURNED, _AWAY = 0b111, 0b1111111111
"""The newest values, one bit each: so many back in a row are a return, so many away a departure."""
_NEWEST_FLAGS, _ALL_FLAGS = (1 << FLAT_VALUES) - 1, (1 << SETTLED_AFTER + 1) - 1
_MOST_OF_IT = 2 / 3
"""Part of the way, in logs, that a load must have grown by to be the cause of it."""


class Standing(Cloned):
    """Where the metric of an alert stands; here of one for which no level before the onset is known.

    Attributes:
        judged: the number that the alert is about; None where it is none that is logged.
        usual: the baseline that may be quoted beside an absolute line.
        side: 1 where an absolute line was crossed upward, -1 downward, 0 where there is none.
        settled: the level at which it stays; None where it is not known to stay anywhere.
        is_back: the newest value is back inside half of the way; also where no level before is known.
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
        """Take note of the absolute line that was crossed."""
        self.side, self._line = (value > line) - (value < line), line

    def is_within(self, finding: Finding, *, or_alike: bool = False) -> bool:
        """Whether a finding is inside the absolute line that was crossed, and only held by hysteresis."""
        line = finding.threshold
        part = 0.0 if line is None or not or_alike else alike(line)
        return line is not None and self.side * (finding.value - line) < part * abs(line)

    def is_beyond(self, value: float) -> bool:
        return self.side * (value - self._line) > 0.0

    def onset(self, recent: Sequence[Observation], since: int, after: int) -> tuple[int, int] | None:
        """(Record, step) from which on the values are beyond what was crossed, up to the record `since`.

        Later than the record `after`, at which an alert before it ended. A finding may be a median, or have waited:
        what it speaks of began some records before. None where it did not.
        """
        found = None
        for each in reversed(recent):
            value = None if self.judged is None or each.record >= since else self.judged.read(each)
            if value is None:
                continue
            if each.record <= after or not self.is_beyond(value):
                break
            found = each.record, each.step
        return found

    @property
    def name(self) -> str:
        """What the number is called; empty where it is none that is logged."""
        return "" if (judged := self.judged) is None else judged.instance or spoken_title(judged.metric)

    def now(self, observation: Observation) -> float | None:
        """The value in a record; None where it is not logged."""
        return None if self.judged is None else self.judged._replace(sign=1).read(observation)

    def lately(self, recent: Sequence[Observation]) -> float | None:
        """Median of its newest values; None where none of the newest records logs it."""
        found = [now for one in islice(reversed(recent), _NEW) if (now := self.now(one)) is not None]
        return median_of(found) if found else None

    def worded(self, value: float, told: float) -> str:
        return measure_like(value, Unit.NONE if self.judged is None else _unit(self.judged), told)

    def clone(self) -> Self:
        return self if self is NOWHERE else super().clone()


NOWHERE = Standing()
"""The standing of an inactive alert: nothing is known, nothing changes."""


class Departure(Standing):
    """A metric on its way from a frozen level.

    Half of the way is the square root of the ratio for numbers that are positive, else the middle; a number with a sign
    is back within three spreads too. Where the ratio was above 16, half of it may still be beyond the rule's line: then
    the line counts.

    Attributes:
        told: the baseline that the alert quotes, where that is about the level before.
        when: what is said of that: `before`, or before what.
        has_line: the rule has a line between that and where the metric went.
        edge: what is beyond it is not back; `nearer`: that, or the line where it is nearer to the level before.
    """

    judged: JudgedValue

    def __init__(
        self, spec: RuleSpec, judged: JudgedValue, before: Before, finding: Finding, loads: Loads, usual: float | None
    ) -> None:
        """Begin at the finding that raised the alert."""
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
        """How far it is from a level to a value: in logs of positive numbers, else in its unit."""
        start = self.before.value if start is None else start
        if not self.before.is_positive:
            return abs(value - start)
        return _log_distance(value, start) if value > 0.0 < start else math.inf

    def observe(self, context: RuleContext) -> None:
        """Take a record in, and keep the frozen level known to the other rules."""
        self.look(context.observation)
        if (home := context.homes.get(self.judged)) is None:
            context.homes[self.judged] = home = FrozenLevel(self.before, self.trigger)
        home.record = context.observation.record

    def look(self, observation: Observation) -> None:
        """Take a record in, if it logs the number, for this alert alone."""
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
        """Three quarters of the newest twenty are back: the others are noise."""
        return len(self._values) == FLAT_VALUES and (self._inside & _NEWEST_FLAGS).bit_count() >= _MOSTLY

    @property
    def is_gone(self) -> bool:
        """None of the newest values is back: thirty, and one more."""
        return self._count > SETTLED_AFTER and not self._inside

    def watch_again(self) -> None:
        """Begin to watch whether it leaves again: only values from now on count."""
        self._inside = _ALL_FLAGS
        self.settled = None

    def leaves_again(self, level: Level) -> Level:
        """How bad it is that it is away for ten values, beyond the line that it had crossed; OK where it is not.

        `level` where it has gone nearly as far as the value that raised the alert, else WARN.
        """
        if not self.has_line or self._count < _AWAY.bit_length() or self._inside & _AWAY:
            return OK
        way = self._way(median_of(self._newest(_AWAY.bit_length())))
        if way < self.reach:
            return OK
        return level if way >= _NEARLY * self._way(self.trigger) else WARN

    def settle_again(self, since_step: int) -> float:
        """Note where it is by now, as its level: forgotten is what was before the newest ten values."""
        self._begin(tuple(self._newest(_AWAY.bit_length())))
        self.settle(since_step)
        return self.level

    def date(self, recent: Sequence[Observation], record: int) -> None:
        """Take note that it left at an earlier record than was thought."""
        since = self.judged.split(recent, record)[1]
        self._count, self._early = len(since), tuple(since[:_EARLY])

    def stays(self, recent: Sequence[Observation], record: int) -> bool:
        """It stays at another level, as far as the values since the record of its onset tell.

        Those are 30 at least, of which the newest 20 are flat, and more of them too: twenty hide a slope.
        """
        if not self._is_flat:
            return False
        first = SETTLED_AFTER - FLAT_VALUES
        held = self.judged.newest(recent, record, first + _LONG)[first:]
        has_stayed = self._has_stayed(self.level)
        # What has not jumped to its level at once must have been there for forty.
        if len(held) <= FLAT_VALUES or (len(held) < _LONG and not has_stayed):
            return has_stayed
        # What is nearly gone may fall for ever, by less and less.
        half, gone = len(held) // 2, _CREEP * abs(self.level - self.before.value)
        return abs(median_of(held[:half]) - median_of(held[half:])) <= gone or self._is_level(held)

    def _has_stayed(self, level: float) -> bool:
        """Whether it has been about there from the onset on, and still is; not what went on, or goes on, from there."""
        if self._has_moved:
            return False
        most = _DRIFT * abs(level - self.before.value)
        early = median_of(self._early)
        # What is nearly gone is near 0 by its distance, however far it still falls.
        is_near = not self.before.is_positive or self._way(early, level) <= _TWICE
        return is_near and max(abs(early - level), abs(self.level - level)) <= most

    @property
    def _is_flat(self) -> bool:
        if self._count < SETTLED_AFTER or len(self._values) < FLAT_VALUES or self.is_back:
            return False
        return self.is_beyond(self.level) and self._is_level(list(self._values))

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
        """Note the level at which it stays; only where it `stays`."""
        sign, level = self.judged.sign, self.level
        self._left, self._nearest, self._has_moved = level, level, not self._has_stayed(level)
        self._far = max(level, median_of(self._early), key=self._distance) if self._has_moved else level
        self.settled = Settled(sign * level, sign * self.told, since_step, _unit(self.judged))
        self._leaving.clear()

    def _distance(self, value: float) -> float:
        return abs(value - self.before.value)

    def follow(self) -> bool:
        """Note the level at which it stays by now, where it had settled and is flat again; whether that is nearer.

        It is by a quarter of the way, or more, from the nearest that was told.
        """
        if (settled := self.settled) is None:
            return False
        level, told = self.level, self.judged.sign * settled.value
        self._has_moved = not self._has_stayed(told)
        if not self._is_level(list(self._values)):
            return False
        self.settled = settled._replace(value=self.judged.sign * level)
        self._far = max(self._far, level, key=self._distance)
        # What creeps outward has still left the level at which it first settled; what wobbles has not moved.
        if self._distance(level) < self._distance(self._left) and not self._is_noise(self._left, level):
            self._left = level
        nearest, self._nearest = self._nearest, min(self._nearest, level, key=self._distance)
        return self._is_nearer(level, nearest)

    def _is_nearer(self, level: float, told: float) -> bool:
        return self._distance(level) < (1.0 - _ELSEWHERE) * self._distance(told)

    def leaves(self) -> bool:
        """Take note of the newest value; whether it has left the level at which it had settled.

        It has where it lies as far beyond that as the alert's line lay from the level before.
        """
        value, level = median_of(self._newest(_OF_LEAVING)), self._left
        is_outward = (value > level) == (level > self.before.value)
        # By ratio alone, what has nearly gone would leave its level again and again.
        is_far = abs(value - level) >= _FARTHER * abs(level - self.before.value)
        is_beyond = is_outward and is_far and self._way(value, level) >= self.reach
        return self._leaving.push(is_beyond and not self._is_noise(value, level))

    def _is_noise(self, value: float, level: float) -> bool:
        """A value is within the scatter of the newest around a settled level: by its distance, or by its ratio."""
        held = sorted(self._values)
        distance, is_ratio = abs(value - level), self.before.is_positive and held[0] > 0.0 < level
        # More than half of the values lie within the middle half, so that no deviation is above its width.
        low, high = held[len(held) // 4], held[len(held) // 4 + len(held) // 2]
        apart = _log_distance(value, level) if is_ratio else math.inf
        if distance > _NOISY * (high - low) and not (is_ratio and apart <= _NOISY * _log_distance(high, low)):
            return False
        if distance <= SPREADS * MAD_TO_SIGMA * mad_of(held):
            return True
        return is_ratio and apart <= SPREADS * MAD_TO_SIGMA * mad_of(list(map(math.log, held)))

    def goes_on(self, earlier: Standing) -> bool:
        """Take over where an earlier alert began, if what that was compared with still counts, not where it settled."""
        if not isinstance(earlier, Departure) or self.judged != earlier.judged:
            return False
        level = self.before.value
        if abs(level - earlier.before.value) >= abs(level - earlier._left):
            return False
        self._early, self._has_moved = earlier._early, earlier._has_moved
        return True

    def load_words(self, recent: Sequence[Observation]) -> str:
        """The load that has grown with a time, or as a throughput fell, by most of the way; empty where none has."""
        if not self._loads or not self.before.is_positive or self.level <= 0.0:
            return ""
        way = _log_distance(self.level, self.before.value)
        for name, before in self._loads:
            now = [one.values[name] for one in islice(reversed(recent), _NEWEST) if name in one.values]
            usual = median_of(now) if now else 0.0
            if usual > before > 0.0 and _log_distance(usual, before) >= _MOST_OF_IT * way:
                return f"; {LOADS[name]} {usual / before:.3g}×"
        return ""

    @property
    def settled_words(self) -> str:
        """The levels of a settled alert; empty for any other."""
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
        """It stays at another level, and has not come back from there by a quarter of the way, or more."""
        return self.settled is not None and not self._is_nearer(self.level, self.judged.sign * self.settled.value)

    def is_elsewhere(self, now: float) -> bool:
        """Whether a value is as far as a quarter of the departure from where a settled alert says that it is."""
        one = self.settled
        return one is not None and abs(now - one.value) > _ELSEWHERE * abs(one.value - one.before)


def stand(spec: RuleSpec, detector: Detector, finding: Finding, context: RuleContext, since: int) -> Standing:
    """Keep what was before the record `since`, at which an alert begins."""
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
    """Whether a finding compares a metric with an illness, and the metric is on its way back from that."""
    if finding.baseline is None or not context.homes or is_absolute(detector, finding):
        return False
    judged = judged_in(spec, detector, finding, context.recent)
    home = None if judged is None else context.homes.get(judged)
    if home is None or judged is None:
        return False
    # Counted are records that log the metric.
    since = judged.newest(context.recent, home.record + 1, LEVEL_RECORDS + 1)
    return len(since) <= LEVEL_RECORDS and home.is_way_back(finding, finding.baseline)


def quoted(detector: Detector, finding: Finding, usual: float | None, known: Behind = (None, None, None)) -> Finding:
    """The finding as it is worded: beside an absolute line only the baseline from before the alert."""
    if finding.baseline is not None and is_absolute(detector, finding):
        finding = finding._replace(baseline=usual)
    (base, told, steps), value, line = known, finding.value, finding.threshold
    if finding.baseline is None or finding.baseline != base:
        return finding
    extra = finding.extra
    if told and base and told != base:
        is_past = line is not None and (value - line) * (value - line * told / base) > 0.0
        if line is not None and is_past and any(math.isclose(line, own * base) for own in detector.thresholds.values()):
            line *= told / base
        extra = tuple([value / told if one == value / base else one for one in extra])
    return finding._replace(baseline=told, threshold=line, steps=finding.steps or steps, extra=extra)


def _unit(judged: JudgedValue) -> Unit:
    metric = CATALOG.get(judged.metric)
    return Unit.NONE if metric is None else metric.unit
