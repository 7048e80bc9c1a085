"""What an alert remembers of the time before it, and where its metric stands now.

Owns the frozen level, the noise bands of reward and evaluation, and the level at
which a metric has settled; when an alert ends is `alert_state`'s business.
"""

from __future__ import annotations

from rltop.catalog.metrics import CATALOG
from rltop.model import Level, Observation, Settled, Unit
from rltop.rules.baseline import NO_GOALS, Goals, Judged, freeze, goals_before, judged_in
from rltop.rules.context import RuleContext
from rltop.rules.departure import Departure
from rltop.rules.rule import INFO, WARN, Detector, Finding, RuleSpec
from rltop.stats.persistence import NOfMCounter
from rltop.units import measure


class Standing:
    """Where the metric of an alert stands, relative to what it was before.

    Attributes:
        judged: the number that the alert is about; None where it is none that is logged.
        settled: the levels, while the alert is settled.
    """

    __slots__ = ("_departure", "_goals", "_leaving", "judged", "settled")

    def __init__(
        self,
        leaving: NOfMCounter,
        judged: Judged | None = None,
        departure: Departure | None = None,
        goals: Goals = NO_GOALS,
    ) -> None:
        """Begin at the record at which an alert is raised.

        Args:
            leaving: how long a metric must have left the level at which it had settled.
            judged: the number that the alert is about.
            departure: from the level before, where one is known.
            goals: the noise bands of reward and evaluation before.
        """
        self.judged = judged
        self.settled: Settled | None = None
        self._departure = departure
        self._goals = goals
        self._leaving = leaving

    def observe(self, observation: Observation) -> None:
        """Take a record in."""
        if self._departure is not None:
            self._departure.observe(observation)

    @property
    def has_level(self) -> bool:
        """A level before the onset is known."""
        return self._departure is not None

    @property
    def is_back(self) -> bool:
        """The newest value is back inside half of the way; also where no level before is known."""
        return self._departure is None or self._departure.is_back

    @property
    def is_mostly_back(self) -> bool:
        """Three quarters of the newest twenty values are back."""
        return self._departure is not None and self._departure.is_mostly_back

    @property
    def is_flat(self) -> bool:
        """The metric stays at another level."""
        return self._departure is not None and self._departure.is_flat

    def settle(self, since_step: int) -> None:
        """Note the level at which the metric stays; only while `is_flat`."""
        departure = self._departure
        assert departure is not None
        sign = departure.judged.sign
        unit = _unit(departure.judged)
        self.settled = Settled(sign * departure.level, sign * departure.before.value, since_step, unit)
        self._leaving.clear()

    def remaining(self, detector: Detector, context: RuleContext) -> Level:
        """What is left of a settled alert: an absolute line, or a reward or an evaluation below what it was."""
        departure = self._departure
        found = INFO if departure is None else max(INFO, detector.absolute_level(departure.level))
        return max(found, WARN) if self._goals.is_missed(context.recent) else found

    def leaves(self) -> bool:
        """Take note of the newest value; whether the metric has left the level at which it had settled."""
        departure, settled = self._departure, self.settled
        if departure is None or settled is None:
            return False
        return self._leaving.push(departure.leaves(departure.judged.sign * settled.value))

    @property
    def settled_words(self) -> str:
        """The levels of a settled alert; empty for any other."""
        settled = self.settled
        if settled is None:
            return ""
        now, before = measure(settled.value, settled.unit), measure(settled.before, settled.unit)
        return f"{self._name} settled at {now}, was {before}, since {settled.since_step:,}"

    @property
    def _name(self) -> str:
        judged = self.judged
        if judged is None:
            return ""
        metric = CATALOG.get(judged.metric)
        return judged.instance or (judged.metric if metric is None else metric.title)

    def now_words(self, observation: Observation) -> str:
        """The value in a record, as the end of a sentence; empty where it is not logged."""
        judged = self.judged
        value = None if judged is None else judged._replace(sign=1).read(observation)
        return "" if judged is None or value is None else f"; now {measure(value, _unit(judged))}"

    def clone(self) -> Standing:
        """An independent copy."""
        twin = Standing.__new__(Standing)
        twin.judged, twin.settled, twin._goals = self.judged, self.settled, self._goals
        twin._leaving = self._leaving.clone()
        twin._departure = None if self._departure is None else self._departure.clone()
        return twin


NOWHERE = Standing(NOfMCounter(1, 1))
"""Of an alert that is not active: nothing is known before, nothing ever changes."""


def stand(spec: RuleSpec, detector: Detector, finding: Finding, context: RuleContext, since: int) -> Standing:
    """Keep what was before the record `since`, at which an alert begins.

    Args:
        spec: the rule.
        detector: its detector.
        finding: the finding that raises the alert.
        context: the record of that.
        since: the record of the onset.
    """
    recent = context.recent
    judged = judged_in(spec, detector, finding, recent)
    before = freeze(spec, judged, finding, recent, since)
    leaving = NOfMCounter(*spec.n_of_m_for(WARN))
    if judged is None or before is None:
        return Standing(leaving, judged)
    return Standing(leaving, judged, Departure(judged, before, finding), goals_before(recent, since))


def _unit(judged: Judged) -> Unit:
    metric = CATALOG.get(judged.metric)
    return Unit.NONE if metric is None else metric.unit
