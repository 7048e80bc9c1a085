"""The rules at work on one stream: closed rows → verdicts, and the gaps between them.

Owns the number that each training row gets, and the copy of the rules' state
that a look at the open row needs. Imported only where something is judged: the
rules are the largest part of the program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy

from rltop.catalog.dialect import Identity
from rltop.model import Counts, Event, Observation, Verdict
from rltop.rules.advice import advise
from rltop.rules.engine import Engine
from rltop.rules.input_health import (
    FIRST_RECORD,
    TWO_WRITERS,
    UNREADABLE,
    first_record_late,
    two_writers,
    unreadable,
)
from rltop.rules.liveness import Liveness, Silence
from rltop.rules.options import EngineOptions
from rltop.rules.profiles import ActiveProfile
from rltop.rules.registry import NAMED
from rltop.run.observe import Observer
from rltop.run.past import LIVENESS_RULE
from rltop.store.stream import ClosedRow, Stream
from rltop.structs import NamedTuple

WARM_UP_RECORDS = 30
COLLAPSE_RULE = "X1"


class Peek(NamedTuple):
    """What a look at the open row shows.

    Attributes:
        verdicts: as if it were closed.
        events: what closing it now would add to the events, marked as provisional.
        event_times: of these, as those of a `RuleRunner`.
        muted: verdicts that are left out because their rule is muted.
        profiles: names of those whose thresholds hold.
        warm_up: (records seen, records wanted) while rules warm up; None when they have.
    """

    verdicts: Sequence[Verdict]
    events: Sequence[Event] = ()
    event_times: Sequence[float | None] = ()
    muted: Sequence[Verdict] = ()
    profiles: Sequence[str] = ()
    warm_up: tuple[int, int] | None = None


class RuleRunner:
    """The rules at work on one stream: takes its closed rows, in the order of the file.

    Attributes:
        options: thresholds, and which rules are off.
        records: training rows judged so far.
        liveness: the gaps between rows.
        collapses: how often a collapse began, got worse or ended.
        event_times: when the row behind each event was written, seconds since the epoch,
            or None where it does not say.
    """

    sees_open_row = True

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self.records = 0
        self.liveness = Liveness(options.thresholds(LIVENESS_RULE))
        self._engine: Engine | None = None
        self._observer: Observer | None = None
        self._known_keys = 0
        self._segment = 0
        self._muted: set[str] = set()
        self._checkpoints: tuple[int, ...] = ()
        self.collapses = 0
        self.event_times: list[float | None] = []
        self._last_time_s: float | None = None

    def take(self, stream: Stream, identity: Identity, arrived_s: float | None = None) -> None:
        """Judge every closed row, in the order of the file.

        Args:
            stream: whose queue of closed rows is worked off.
            identity: who wrote it, and which metrics its keys are.
            arrived_s: when the rows were seen to arrive, seconds since the epoch; None for history.
        """
        if self._engine is None or self._observer is None:
            self._engine = self._new_engine(identity)
            self._observer = Observer(stream, identity)
        elif len(stream.keys) != self._known_keys or identity is not self._engine.rules.identity:
            self._observer.use(identity)
            self._engine.identified(identity)
            self._date_events(self._last_time_s)
        self._known_keys = len(stream.keys)
        while stream.closed:
            observation = self._observe(stream, stream.closed.popleft())
            if observation is None:
                continue
            if observation.segment != self._segment and not observation.is_late:
                self._segment = observation.segment
                self.liveness.restart()
            self.liveness.observe(observation, arrived_s)
            happened = self._engine.observe(observation)
            self.collapses += any(event.rule == COLLAPSE_RULE for event in happened)
            self._last_time_s = observation.time_s
            self._date_events(observation.time_s)

    def twin(self, stream: Stream) -> RuleRunner:
        """An independent copy, for a twin of the stream; the events that it adds are provisional."""
        twin = copy(self)
        twin.liveness, twin._muted = self.liveness.clone(), self._muted.copy()
        twin.event_times = self.event_times.copy()
        if self._engine is not None:
            twin._engine = self._engine.clone()
            twin._engine.events = self._engine.events.copy()
            twin._observer = Observer(stream, self._engine.rules.identity)
        return twin

    def _new_engine(self, identity: Identity) -> Engine:
        engine = Engine(identity, self.options)
        for rule in self._muted:
            engine.mute(rule)
        engine.take_checkpoints(self._checkpoints)
        return engine

    def _date_events(self, time_s: float | None) -> None:
        """Note when the row was written that the newest events come from."""
        assert self._engine is not None
        new = len(self._engine.events) - len(self.event_times)
        if new:
            self.event_times += [time_s] * new

    def _observe(self, stream: Stream, row: ClosedRow) -> Observation | None:
        raw = stream.raw_row(row)
        if raw is None:
            return None
        if raw.is_training and row.columns is None:
            self.records += 1
        assert self._observer is not None
        return self._observer.observation(row, raw, self.records)

    @property
    def profiles(self) -> Sequence[ActiveProfile]:
        """Whose thresholds hold, and why."""
        return () if self._engine is None else self._engine.rules.profiles

    @property
    def events(self) -> Sequence[Event]:
        """Every transition so far, in the order of the file."""
        return () if self._engine is None else self._engine.events

    def mute(self, rule: str, is_muted: bool = True) -> None:
        """Take a rule's verdicts out of what is shown, or put them back.

        Args:
            rule: its id, which stands for all of its parts, or that of a part.
            is_muted: True takes them out, False puts them back.

        Raises:
            KeyError: there is no such rule.
        """
        if rule not in NAMED:
            raise KeyError(rule)
        if self._engine is not None:
            self._engine.mute(rule, is_muted)
        (self._muted.add if is_muted else self._muted.discard)(rule)

    def take_checkpoints(self, steps: Sequence[int]) -> None:
        """Steps of which a checkpoint lies on disk; a collapse names the last one before it."""
        self._checkpoints = tuple(steps)
        if self._engine is not None:
            self._engine.take_checkpoints(self._checkpoints)

    @property
    def muted(self) -> frozenset[str]:
        """Ids of the rules that are muted for this run."""
        return frozenset(self._muted)

    def is_silent(self, rule: str) -> bool:
        """Is a rule, or a part of one, muted, from the screen or by the settings?"""
        is_muted = rule in self._muted or NAMED[rule].rule in self._muted
        return is_muted or not self.options.is_enabled(rule, self._names())

    def limits(self, rule: str) -> Mapping[str, float]:
        """Thresholds of a rule by name, as they hold in this run."""
        return self.options.thresholds(rule, self._names())

    def _names(self) -> list[str]:
        return [profile.name for profile in self.profiles]

    def silence_limits(self, lag_s: float) -> Silence:
        """How long is too long without a row, where rows are seen `lag_s` seconds late at most."""
        return self.liveness.silence(lag_s)

    def silence_verdict(self, age_s: float, lag_s: float, identity: Identity | None) -> Verdict | None:
        """The verdict on a stream whose newest row is `age_s` seconds old; None while that is no silence.

        Args:
            age_s: seconds since the newest row.
            lag_s: how late a row may be seen, seconds.
            identity: names the key of the step time.
        """
        if self.is_silent(LIVENESS_RULE):
            return None
        step_time = None if identity is None else identity.primary("time_step")
        found = self.liveness.verdict(age_s, lag_s, "" if step_time is None else step_time.key)
        return None if found is None else advise(found)

    def input_verdict(
        self, counts: Counts, steps: Sequence[int], waited_s: float | None, overwritten: int = 0
    ) -> Verdict | None:
        """The verdict on lines that cannot be read, or on a file that has no record yet.

        Args:
            counts: what was read.
            steps: the steps that are held, oldest first.
            waited_s: seconds that the first record has been waited for; None where there is one.
            overwritten: rows that gave a step other values than it had.
        """
        found = None
        if waited_s is not None:
            found = first_record_late(waited_s, self.limits(FIRST_RECORD))
        else:
            found = unreadable(counts, steps, self.limits(UNREADABLE)) or two_writers(
                counts, self.limits(TWO_WRITERS), len(steps), overwritten
            )
        return None if found is None or self.is_silent(found.said_by) else advise(found)

    def warm_up(self, stream: Stream) -> tuple[int, int] | None:
        """As `Peek.warm_up`, of closed rows only."""
        return (stream.rows, WARM_UP_RECORDS) if self._engine is None else self._engine.warm_up

    def peek(self, stream: Stream, identity: Identity) -> Peek:
        """Verdicts as if the open row were closed, and the events that this would make; nothing is changed by looking.

        Args:
            stream: whose newest row is looked at.
            identity: whose keys these are.
        """
        if self._engine is None or self._observer is None:
            return self._peek_unsettled(stream, identity)
        open_row = stream.open_row()
        raw = None if open_row is None else stream.raw_row(open_row)
        if open_row is None or raw is None:
            return _seen(self._engine, [], [])
        observation = self._observer.observation(open_row, raw, self.records + raw.is_training)
        after = self._engine.after(observation)
        return _seen(after, after.events, [observation.time_s] * len(after.events))

    def _peek_unsettled(self, stream: Stream, identity: Identity) -> Peek:
        """Judge the few rows that there are with rules that are thrown away."""
        engine, observer, records = self._new_engine(identity), Observer(stream, identity), 0
        times: list[float | None] = []
        open_row = stream.open_row()
        for row in [*stream.closed, *([] if open_row is None else [open_row])]:
            raw = stream.raw_row(row)
            if raw is not None:
                records += raw.is_training and row.columns is None
                observation = observer.observation(row, raw, records)
                engine.observe(observation)
                times += [observation.time_s] * (len(engine.events) - len(times))
        return _seen(engine, engine.events, times)


def _seen(engine: Engine, events: Sequence[Event], times: Sequence[float | None]) -> Peek:
    provisional = [event._replace(is_provisional=True) for event in events]
    names = [profile.name for profile in engine.rules.profiles]
    return Peek(engine.verdicts, provisional, times, engine.muted_verdicts, names, engine.warm_up)
