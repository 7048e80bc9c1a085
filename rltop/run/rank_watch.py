"""Compares and judges ranks: combines their rows into steps of all ranks.

Rows wait until all ranks have reached their step, so that results do not depend on the order of arrival. Also decides
which keys are stages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy, deepcopy

from rltop.catalog.dialect import Identity
from rltop.model import Algorithm, Event, Observation, TimedSpan, Traits, Unit, Verdict
from rltop.rules.advice import advise
from rltop.rules.alert_state import AlertState, verdict_of
from rltop.rules.context import RuleContext
from rltop.rules.options import EngineOptions
from rltop.rules.registry import SPECS
from rltop.stats.ranks import RankHistory, by_stage
from rltop.stats.timing import stage_keys
from rltop.store.stream import Stream

_NAMESPACES = ("time/", "timing/", "timing_s/", "timing_raw/", "perf/timing/")
_TOTALS = frozenset({"step", "total", "step_time", "total_time"})
_MAX_WAITING = 10_000
"""Maximum rows of one rank waiting for the others; beyond it the oldest are dropped."""

_GIVEN_UP = 16
"""Rows the others may be ahead before a silent rank, for instance one of an earlier, larger job, is ignored."""

_Waiting = tuple[int, int, float | None, Mapping[str, float]]
"""Segment, step, time, stage → seconds."""


class RankTap:
    sees_open_row = False

    def __init__(self, watch: RankWatch, rank: str) -> None:
        self.rank = rank
        self.waiting: deque[_Waiting] = deque(maxlen=_MAX_WAITING)
        self.has_caught_up: Callable[[], bool] = bool
        self.is_gone = False
        self._watch = watch
        self._known: tuple[int, Identity] | None = None
        self._columns: list[tuple[int, str, float]] = []

    def take(self, stream: Stream, identity: Identity, arrived_s: float | None = None) -> None:
        """Append the stages of every closed row to those waiting."""
        if self._known is None or self._known[0] != len(stream.keys) or self._known[1] is not identity:
            self._known = (len(stream.keys), identity)
            self._look_up(stream, identity)
        while stream.closed:
            row = stream.closed.popleft()
            if row.columns is not None:
                continue
            raw = stream.raw_row(row)
            cells = raw.cells
            stages = {
                stage: cells[column] * scale
                for column, stage, scale in self._columns
                if column < len(cells) and cells[column] == cells[column]
            }
            if stages:
                self.waiting.append((row.segment, row.step, raw.time_s, stages))

    def fork(self, stream: Stream) -> RankTap:
        """A copy that receives its own rows, for `RankWatch.at_end`."""
        twin = copy(self)
        twin.waiting = self.waiting.copy()
        return twin

    def _look_up(self, stream: Stream, identity: Identity) -> None:
        self._columns = []
        for stage, key, scale in rank_stages(stream.keys, identity):
            column = stream.column(key)
            if column is not None:
                self._columns.append((column, stage, scale))
                self._watch.history.keys[self.rank, stage] = key


def rank_stages(keys: Iterable[str], identity: Identity) -> list[tuple[str, str, float]]:
    """The keys of a rank that are stages: (stage, key, seconds per logged unit), without totals of a step."""
    keys = list(keys)
    plan = identity.dialect.timing
    found = {key: (stage, key, scale) for stage, key, scale in (stage_keys(plan, keys) if plan is not None else ())}
    for signals in identity.signals.values():
        for signal in signals:
            if signal.metric.unit is Unit.SECONDS and signal.metric.name != "time_step":
                found.setdefault(signal.key, (_bare(signal.key), signal.key, signal.scale))
    for key in keys:
        name = _bare(key)
        if name != key and name not in _TOTALS:
            found.setdefault(key, (name, key, 1.0))
    return list(found.values())


def _bare(key: str) -> str:
    return next((key[len(space) :] for space in _NAMESPACES if key.startswith(space)), key)


class RankWatch:
    def __init__(self, options: EngineOptions) -> None:
        self.history = RankHistory()
        self.events: list[Event] = []
        self.event_times: list[float | None] = []
        self.records = 0
        self._taps: list[RankTap] = []
        self._options = options
        self._segment = 0
        self._last = (-1, -1)
        self._now = RuleContext(Algorithm.UNKNOWN, Traits(), None)
        self._rules = self._fresh()

    def _fresh(self) -> list[AlertState]:
        options = self._options
        return [
            AlertState(spec, options.thresholds(spec.id))
            for spec in SPECS
            if spec.needs_ranks and options.rules.get(spec.id, {}).get("enabled", True)
        ]

    def tap(self, rank: str) -> RankTap:
        tap = RankTap(self, rank)
        self._taps.append(tap)
        return tap

    def at_end(self, taps: Sequence[RankTap], spans: Sequence[TimedSpan]) -> RankWatch:
        """A copy as if the input had ended."""
        twin = copy(self)
        twin._taps, twin.history = list(taps), deepcopy(self.history)
        twin.events, twin.event_times = self.events.copy(), self.event_times.copy()
        twin._now, twin._rules = self._now.clone(), [rule.clone() for rule in self._rules]
        twin.take_spans(spans)
        twin.advance(is_end=True)
        return twin

    def take_spans(self, spans: Sequence[TimedSpan]) -> None:
        """Judge the steps of measured spans, in order; each step is complete."""
        steps: dict[int, dict[str, dict[str, float]]] = {}
        ends: dict[int, float] = {}
        for span in spans:
            if "/" not in span.name:
                rank = f"{span.role} rank {span.rank}"
                stages = steps.setdefault(span.step, {}).setdefault(rank, {})
                stages[span.name] = stages.get(span.name, 0.0) + span.end_s - span.start_s
                ends[span.step] = max(ends.get(span.step, 0.0), span.end_s)
                if span.key:
                    self.history.keys[rank, span.name] = span.key
        for step, times in sorted(steps.items()):
            if len(times) > 1:
                self.history.is_measured = True
                self._judge((0, step), ends[step], times)

    def advance(self, *, is_end: bool = False) -> bool:
        """Judge every step that all ranks have passed, at the end all waiting ones; returns whether there were any."""
        before = self.records
        while heads := [tap for tap in self._taps if tap.waiting]:
            if not is_end and len(heads) < len(self._taps) and self._must_wait():
                break
            at = min(tap.waiting[0][:2] for tap in heads)
            times: dict[str, Mapping[str, float]] = {}
            written: list[float] = []
            for tap in heads:
                if tap.waiting[0][:2] == at:
                    _, _, time_s, times[tap.rank] = tap.waiting.popleft()
                    written += [] if time_s is None else [time_s]
            if at > self._last:
                self._last = at
                self._judge(at, max(written, default=None), times)
        return self.records != before

    def _must_wait(self) -> bool:
        """Whether to wait for a rank without rows; one that has long been silent is ignored."""
        furthest = max(len(tap.waiting) for tap in self._taps)
        must_wait = False
        for tap in self._taps:
            tap.is_gone = not tap.waiting and (tap.is_gone or (furthest >= _GIVEN_UP and tap.has_caught_up()))
            must_wait = must_wait or not (tap.waiting or tap.is_gone)
        return must_wait

    def _judge(self, at: tuple[int, int], time_s: float | None, times: Mapping[str, Mapping[str, float]]) -> None:
        segment, step = at
        if segment != self._segment:
            self._segment = segment
            self._rules = self._fresh()
        self.records += 1
        self.history.push(step, times)
        self._now.advance(Observation(self.records, step, segment, time_s, {}, {}, {}, {}, ranks=by_stage(times)))
        for rule in self._rules:
            event = rule.observe(self._now)
            if event is not None:
                self.events.append(event)
                self.event_times.append(time_s)

    @property
    def verdicts(self) -> Sequence[Verdict]:
        return [advise(verdict_of(rule, "", "", self._now)) for rule in self._rules if rule.is_shown(self.records)]
