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
from rltop.rules.registry import BY_ID
from rltop.stats.rollouts import StepSummary

_RULE = "P5"
METRIC = "group_len_ratio"


class RolloutWatch:
    """P5 over the steps of a dump.

    Attributes:
        events, event_times: as of a `RuleRunner`; a dump says no times.
        records: steps judged so far.
    """

    def __init__(self, options: EngineOptions) -> None:
        self.events: list[Event] = []
        self.event_times: list[float | None] = []
        self.records = 0
        self._options = options
        self._last: int | None = None
        self._now = RuleContext(Algorithm.UNKNOWN, Traits(), None)
        self._state = AlertState(BY_ID[_RULE], options.thresholds(_RULE))

    def take(self, summaries: Sequence[StepSummary]) -> None:
        """Judge every step behind the last one that was judged.

        Args:
            summaries: of steps that are written to their end, in ascending order.
        """
        if not self._options.is_enabled(_RULE):
            return
        for one in summaries:
            if one.ratio_mean is None or (self._last is not None and one.step <= self._last):
                continue
            self._last = one.step
            self.records += 1
            self._now.group_size = self._options.group_size or one.group_size
            self._now.advance(Observation(self.records, one.step, 0, None, {METRIC: one.ratio_mean}, {}, {}, {}))
            event = self._state.observe(self._now)
            if event is not None:
                self.events.append(event)
                self.event_times.append(None)

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """What fires, or recovered lately."""
        return [advise(verdict_of(self._state, METRIC, "", self._now))] if self._state.is_shown(self.records) else []
