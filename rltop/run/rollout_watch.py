"""Group ratios worked out from dumped completions, judged like those that a trainer logs.

Owns which steps have been judged, in order, each once. Imported only where a dump is
looked at for a run that logs no group ratio itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltop.model import Algorithm, Event, Observation, Traits, Verdict
from rltop.rules.advice import advise
from rltop.rules.alert_state import AlertState, verdict_of
from rltop.rules.context import RuleContext
from rltop.rules.options import EngineOptions
from rltop.rules.parts import Told, shown
from rltop.rules.registry import BY_ID, PARTS
from rltop.stats.rollouts import StepSummary

_RULE = "P5"
METRIC, LONGEST = "group_len_ratio", "response_len_max"
_CHARS_PER_TOKEN = 4.0
_JUDGED_BY = tuple(spec for spec in (BY_ID[_RULE], *PARTS[_RULE]) if METRIC in spec.metrics)


class RolloutWatch:
    """P5 over the steps of a dump.

    Attributes:
        records: steps judged so far that are written to their end.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.records = 0
        self._options = options
        self._events: list[Event] = []
        self._last: int | None = None
        self._unit = ""
        self._now = RuleContext(Algorithm.UNKNOWN, Traits(), None)
        self._states = [
            AlertState(spec, options.thresholds(spec.id)) for spec in _JUDGED_BY if options.is_enabled(spec.id)
        ]
        self._told = Told()
        self._newest: StepSummary | None = None
        self._ahead = self

    def take(self, summaries: Sequence[StepSummary], newest: StepSummary | None) -> None:
        """Judge every step behind the last one that was judged.

        Args:
            summaries: of steps that are written to their end, in ascending order.
            newest: of the step after these, which may change: what comes of it is provisional.
        """
        if not self._options.is_enabled(_RULE):
            return
        records = self.records
        for one in summaries:
            self._judge(one)
        if newest is not self._newest or records != self.records:
            self._newest, self._ahead = newest, self
            if newest is not None:
                self._ahead = self._clone()
                self._ahead._judge(newest, is_provisional=True)

    def _judge(self, one: StepSummary, *, is_provisional: bool = False) -> None:
        if one.ratio_mean is None or (self._last is not None and one.step <= self._last):
            return
        self._last = one.step
        self._unit = "" if one.has_tokens else "; lengths in characters"
        self.records += 1
        self._now.group_size = self._options.group_size or one.group_size
        self._now.advance(_observation(self.records, one))
        for state in self._states:
            event = state.observe(self._now)
            told = None if event is None else self._told.tell(event, state, self._beside(state), self._now)
            if told is not None:
                message = told[0].message + self._unit
                self._events.append(told[0]._replace(message=message, is_provisional=is_provisional))

    def _beside(self, state: AlertState) -> list[AlertState]:
        return [one for one in self._states if one is not state and one.is_firing]

    def _clone(self) -> RolloutWatch:
        twin = RolloutWatch(self._options)
        twin.records, twin._last, twin._events = self.records, self._last, self._events.copy()
        twin._now, twin._told = self._now.clone(), self._told.clone()
        twin._states = [each.clone() for each in self._states]
        return twin

    @property
    def events(self) -> Sequence[Event]:
        """Its transitions, that of the newest step included."""
        return self._ahead._events

    @property
    def event_times(self) -> Sequence[float | None]:
        """Nones: a dump says no times."""
        return [None] * len(self.events)

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """What fires, or recovered lately."""
        one = self._ahead
        states = shown([each for each in one._states if each.is_shown(one.records)])
        verdicts = [verdict_of(each, METRIC, "", one._now) for each in states]
        return [advise(each._replace(headline=each.headline + one._unit)) for each in verdicts]


def _observation(record: int, one: StepSummary) -> Observation:
    """The step as rules see it: each group's ratio and its longest completion in tokens, of those that were counted."""
    tokens = 1.0 if one.has_tokens else 1.0 / _CHARS_PER_TOKEN
    counted = [group for group in one.groups if group.ratio is not None]
    groups = {
        METRIC: {group.name: group.ratio or 0.0 for group in counted},
        LONGEST: {group.name: tokens * group.lengths[0] for group in counted},
    }
    return Observation(record, one.step, 0, None, {METRIC: one.ratio_mean or 0.0}, groups, {}, {})
