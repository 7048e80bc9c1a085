"""The level that a metric had before an alert, frozen when the alert is raised.

Detectors with rolling baselines learn a new level in some thirty records. What was
before is kept here, so that "recovered" can be said of what has come back only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from rltop.model import Observation
from rltop.rules.rule import Detector, Finding, RuleSpec
from rltop.stats.rolling import MAD_TO_SIGMA, mad_of, median_of
from rltop.structs import NamedTuple

LEVEL_RECORDS = 50
"""Values behind a frozen level at most."""
LEAST_VALUES = 5
"""With fewer values before the onset the level is the baseline of the rule."""
_HEALTHY_VALUES = 10
"""With fewer values before the onset there is no healthy baseline for an absolute line."""
_NEAR = 0.5
_DEPARTED = 2.0
"""Spreads from the level before that are no departure."""


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
            value = observation.values.get(self.metric)
        return None if value is None else self.sign * value

    def split(self, recent: Sequence[Observation], record: int) -> tuple[list[float], list[float]]:
        """The values before a record (`LEVEL_RECORDS` at most), and those from it on; both oldest first."""
        before: list[float] = []
        since: list[float] = []
        for each in reversed(recent):
            value = self.read(each)
            if value is not None:
                (since if each.record >= record else before).append(value)
            if len(before) == LEVEL_RECORDS:
                break
        return before[::-1], since[::-1]


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
    if spec.measures:
        return None
    newest = next(reversed(recent), None)
    if newest is None:
        return None
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
    return next((one for one, value in logged if abs(value - finding.value) < reach), None)


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
        is_within = abs(math.log(finding.value / level)) <= _DEPARTED * noise
    if is_within or level == finding.value:
        # What is wrong is not that it left its level: there is none to come back to.
        return None
    return Before(level, spread, is_positive, tuple(held))


def is_absolute(detector: Detector, finding: Finding) -> bool:
    """Whether the line that was crossed is a number of the rule's own, whatever the run was like before."""
    return finding.threshold is not None and finding.threshold in detector.thresholds.values()


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


_HOME_SPREADS, _HOME_SHARE = 3.0, 0.25
LOADS = {"total_tokens": "tokens a step", "response_len_mean": "completion length", "prompt_len_mean": "prompt length"}
"""What makes a step take longer without anything being wrong, and what it is called."""


class Home(NamedTuple):
    """A level that an alert, active up to `record` of the segment, has frozen: as other rules of the metric see it."""

    before: Before
    trigger: float
    record: int

    def is_way_back(self, value: float, base: float) -> bool:
        """Whether a value lies between where the metric went and what it was before, coming from `base`."""
        level = self.before.value
        if (value > base) != (level > self.trigger):
            return False
        reach = max(_HOME_SPREADS * self.before.spread, _HOME_SHARE * abs(level))
        low, high = sorted((self.trigger, level))
        return (low - reach if low == level else low) < value < (high + reach if high == level else high)


def loads_before(recent: Sequence[Observation], since: int) -> tuple[tuple[str, float], ...]:
    """What a step had to do before an alert: the median of each load that is logged, by canonical name."""
    found = []
    for name in LOADS:
        before, _ = JudgedValue(name).split(recent, since)
        if len(before) >= LEAST_VALUES:
            found.append((name, median_of(before)))
    return tuple(found)
