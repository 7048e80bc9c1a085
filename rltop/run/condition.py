"""How a run is doing by the clock: how old its newest row is, whether it has fallen silent, and its state word.

Owns the words of `RunState`; what silence means for a run of its pace is the judge's
liveness. Reads no file and no clock but the one that it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from rltop.catalog.dialect import Identity
from rltop.clock import Clock
from rltop.errors import DecodeError, SourceError, cannot_read
from rltop.model import Label, RunState, Verdict
from rltop.rules.input_health import FIRST_RECORD, UNREADABLE, first_record_late, unreadable
from rltop.run.pipeline import Intake, Pipeline
from rltop.sources.events import TailState, TailStatus
from rltop.store.stream import Stream

NETWORK_LAG_S = 60.0
"""How late a row may be seen on a network file system: the attribute cache of NFS (acregmax)."""
UNJUDGED_LIVE_S = 60.0
"""A run is called live for so long where its usual gap has not been worked out: the floor of rule L4."""
BEHIND_FROM_BYTES = 512 * 1024
"""Less that has been written and not read yet is a moment's work, and is not spoken of."""
LIVENESS_RULE = "L4"
_SILENT = frozenset({RunState.STALLED, RunState.ENDED})
_OUT_OF_SIGHT = frozenset({TailState.LOST, TailState.STUCK, TailState.REFUSED})


class Condition(ABC):
    """The part of a run that is asked with a time."""

    _clock: Clock
    _main: Intake
    _modified_s: float | None
    _arrived_s: float | None
    _moved_s: float | None
    _has_caught_up: bool
    _is_finished: bool

    @property
    @abstractmethod
    def stream(self) -> Stream:
        """The stream to show."""

    @property
    @abstractmethod
    def identity(self) -> Identity | None:
        """Dialect, algorithm and signals, as far as known."""

    @property
    @abstractmethod
    def _shown(self) -> Pipeline:
        """The pipeline to show."""

    @property
    def failure(self) -> Label:
        """What the writer says that it died of, as the newest thing it said; empty where it says nothing."""
        return Label.of(self._main.pipeline.decoder.failure)

    @property
    def newest_s(self) -> float | None:
        """When the newest row came: its arrival, else the time in it, else the file's time when it was opened.

        What was seen to arrive is timed by the clock that asks. The trainer's may run
        ahead of it, and would hide a silence for as long: a time that has not been yet
        is not believed.
        """
        if self._arrived_s is not None:
            return self._arrived_s
        written = self.stream.last_time_s
        return written if written is not None and written <= self._clock.now() else self._modified_s

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest row; None if there is none, no way to tell, or nothing more to come."""
        newest = self.newest_s
        if newest is None or self._is_finished or not self.stream.rows:
            return None
        return max(0.0, self._clock.now() - newest)

    def _silence(self, age_s: float | None) -> Verdict | None:
        """The verdict on a run that wrote while it was watched and has stopped."""
        judge = self._shown.judge
        if judge is None or age_s is None or self._arrived_s is None or self._shown.is_finished:
            return None
        if judge.is_silent(LIVENESS_RULE):
            return None
        identity = self.identity
        step_time = None if identity is None else identity.primary("time_step")
        return judge.liveness.verdict(age_s, self.lag_s, "" if step_time is None else step_time.key)

    def _reception_verdict(self) -> Verdict | None:
        """The verdict on lines that cannot be read, or on a file that has no record yet."""
        judge = self._main.pipeline.judge
        if judge is None:
            return None
        found = None
        if self.stream.rows:
            counts = self._main.pipeline.decoder.counts
            if counts.recent_bad:
                found = unreadable(counts, self.stream.steps(), judge.limits(UNREADABLE))
        elif self._modified_s is not None and not self._is_finished:
            found = first_record_late(self._clock.now() - self._modified_s, judge.limits(FIRST_RECORD))
        return None if found is None or judge.is_silent(found.rule) else found

    @property
    def behind_bytes(self) -> int:
        """How much is there that was written since and has not been read; 0 while it is little, or history is read."""
        if not self._has_caught_up:
            return 0
        status = self._main.feed.status
        behind = status.unread + max(0, status.offset - self._main.pipeline.offset)
        return behind if behind >= BEHIND_FROM_BYTES else 0

    @property
    def lag_s(self) -> float:
        """How late a row may be seen: the file lies on a network file system, or 0."""
        return NETWORK_LAG_S if self._main.feed.is_network else 0.0

    @property
    def state(self) -> RunState:
        """The state word.

        A run that was silent already when it was opened has ended, or stalled
        before anyone looked: that is a word, not an alarm.
        """
        status = self._main.feed.status
        if not self.stream.rows:
            return self._state_without_rows(status)
        if status.state in _OUT_OF_SIGHT:
            return RunState.LOST
        if self._shown.is_finished:
            has_said_so = self._main.pipeline.decoder.is_finished
            return RunState.DIED if has_said_so and self.failure.raw else RunState.FINISHED
        state = RunState.ENDED if self._is_finished else self._state_by_age(self.age_s)
        if status.is_emptied and state in (RunState.LIVE, RunState.QUIET):
            return RunState.WAITING
        # An error that was logged may be one that the trainer survives: only silence after it tells.
        return RunState.DIED if state in _SILENT and self.failure.raw else state

    def _state_by_age(self, age_s: float | None) -> RunState:
        judge = self._shown.judge
        if age_s is None:
            return RunState.LIVE
        if judge is None:
            return RunState.LIVE if age_s < UNJUDGED_LIVE_S else RunState.QUIET
        lines = judge.liveness.silence(self.lag_s)
        if age_s > lines.warn_s:
            return RunState.STALLED if self._arrived_s is not None else RunState.ENDED
        return RunState.QUIET if age_s > lines.quiet_s else RunState.LIVE

    def _state_without_rows(self, status: TailStatus) -> RunState:
        if status.state in _OUT_OF_SIGHT:
            return RunState.LOST
        if self.failure.raw and (self._is_finished or self._is_mute()):
            return RunState.DIED
        return RunState.WAITING if status.state is TailState.WAITING or self._has_caught_up else RunState.LOADING

    def _is_mute(self) -> bool:
        """Has nothing at all, row or not, come for so long that a run at its beginning would be called quiet?"""
        moments = [moment for moment in (self._moved_s, self._modified_s) if moment is not None]
        return self._has_caught_up and bool(moments) and self._clock.now() - max(moments) > UNJUDGED_LIVE_S

    @property
    def trouble(self) -> SourceError | None:
        """Why nothing, or nothing more, can be read, as something to raise; None where all is well."""
        error, stopped = self._main.feed.status.error, self._main.pipeline.decoder.stopped
        if error is None and stopped and not self.stream.rows:
            return cannot_read(self.path.raw, DecodeError(stopped))
        return error

    @property
    @abstractmethod
    def path(self) -> Label:
        """Where it is read from."""

    @property
    def state_note(self) -> str:
        """What is being waited for, or what is wrong with the file; empty when all is well."""
        return self._main.feed.status.message or self._main.pipeline.decoder.stopped
