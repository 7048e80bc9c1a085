"""How a stream is doing by the clock: how old its newest row is, whether it has fallen silent, and its state word.

Owns the words of `RunState` and the times they follow from; what silence means for
a stream of its pace is the rules' liveness. Reads no file and no clock but the one
that it is given, and imports no rule: the first frame needs it.
"""

from __future__ import annotations

from rltop.clock import Clock
from rltop.errors import DecodeError, SourceError, cannot_read
from rltop.model import Label, RunState, Verdict
from rltop.run.stream_reader import ReadPath, StreamReader
from rltop.sources.events import TailState, TailStatus
from rltop.store.stream import Stream

UNJUDGED_LIVE_S = 60.0
"""A run is called live for so long where its usual gap has not been worked out: the floor of rule L4."""
BEHIND_FROM_BYTES = 512 * 1024
"""Less that has been written and not read yet is a moment's work, and is not spoken of."""
_SILENT = frozenset({RunState.STALLED, RunState.ENDED})
_OUT_OF_SIGHT = frozenset({TailState.LOST, TailState.STUCK, TailState.REFUSED})


class StreamStatus:
    """The part of a stream that is asked with a time.

    Args:
        reader: how it is read.
        clock: for ages.
        modified_s: when the file was last written to as it was opened, seconds since the epoch, or None.
    """

    def __init__(self, reader: StreamReader, clock: Clock, modified_s: float | None) -> None:
        self._reader = reader
        self._clock = clock
        self._modified_s = modified_s

    @property
    def _whole(self) -> ReadPath:
        return self._reader.known

    @property
    def _stream(self) -> Stream:
        return self._reader.shown.pipeline.stream

    @property
    def newest_s(self) -> float | None:
        """When the newest row came: its arrival, else the time in it, else the file's time when it was opened.

        What was seen to arrive is timed by the clock that asks. The trainer's may run
        ahead of it, and would hide a silence for as long: a time that has not been yet
        is not believed.
        """
        if self._reader.arrived_s is not None:
            return self._reader.arrived_s
        written = self._stream.last_time_s
        return written if written is not None and written <= self._clock.now() else self._modified_s

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest row; None if there is none, no way to tell, or nothing more to come."""
        newest = self.newest_s
        if newest is None or self._reader.is_finished or not self._stream.rows:
            return None
        return max(0.0, self._clock.now() - newest)

    def _age_when_read(self) -> float | None:
        """Seconds since the newest row of a file that has been read to its end; None if that was the end of the run."""
        newest, now = self.newest_s, self._clock.now()
        return None if self._modified_s is None or newest is None or newest > now else now - newest

    @property
    def verdicts(self) -> list[Verdict]:
        """What can be said of a stream by the clock and by its counts: silence, unreadable lines, no record yet."""
        return [one for one in (self._silence(), self._input_verdict()) if one is not None]

    def _silence(self) -> Verdict | None:
        """The verdict on a run that wrote while it was watched and has stopped."""
        shown, age_s = self._reader.shown, self.age_s
        if shown.rules is None or age_s is None or self._reader.arrived_s is None or shown.pipeline.is_finished:
            return None
        return shown.rules.silence_verdict(age_s, self._reader.lag_s, shown.pipeline.current_identity())

    def _input_verdict(self) -> Verdict | None:
        """The verdict on lines that cannot be read, or on a file that has no record yet."""
        stream, rules, counts = self._stream, self._whole.rules, self._whole.pipeline.decoder.counts
        if rules is None:
            return None
        if stream.rows:
            overwritten = stream.overwritten_rows
            is_odd = counts.bad_lines or counts.interleaved_rows or overwritten
            return rules.input_verdict(counts, stream.steps(), None, overwritten) if is_odd else None
        if self._modified_s is None or self._reader.is_finished or not self._reader.has_caught_up:
            return None
        return rules.input_verdict(counts, (), self._clock.now() - self._modified_s)

    @property
    def behind_bytes(self) -> int:
        """How much is there that was written since and has not been read; 0 while it is little, or history is read."""
        if not self._reader.has_caught_up:
            return 0
        status = self._whole.feed.status
        behind = status.unread + max(0, status.offset - self._whole.pipeline.offset)
        return behind if behind >= BEHIND_FROM_BYTES else 0

    @property
    def failure(self) -> Label:
        """What the writer says that it died of, as the newest thing it said; empty where it says nothing."""
        return Label.of(self._whole.pipeline.decoder.failure)

    def state(self, failure: Label) -> RunState:
        """The state word.

        A run that was silent already when it was opened has ended, or stalled
        before anyone looked: that is a word, not an alarm.

        Args:
            failure: what the writer, or that of another stream of the run, says that it died of.
        """
        status, shown = self._whole.feed.status, self._reader.shown
        if not shown.pipeline.stream.rows:
            return self._state_without_rows(status, failure)
        if status.state in _OUT_OF_SIGHT:
            return RunState.LOST
        if shown.pipeline.is_finished:
            has_said_so = self._whole.pipeline.decoder.is_finished
            return broken_off(failure) if has_said_so and failure.raw else RunState.FINISHED
        state = self._state_by_age()
        if status.is_emptied and state in (RunState.LIVE, RunState.QUIET):
            return RunState.WAITING
        if self.failure.raw:  # the last thing that its own file says; what comes after takes it back
            return broken_off(failure)
        is_over = state in _SILENT or self._reader.is_finished
        return broken_off(failure) if is_over and failure.raw else state

    @property
    def is_silent(self) -> bool:
        """Is it read to its end, or has nothing come for longer than between two of its rows?"""
        return self._reader.is_finished or self._state_by_age() is not RunState.LIVE

    def _state_by_age(self) -> RunState:
        """The state by how long nothing has come, whether the file is being followed or has been read once."""
        shown, age_s = self._reader.shown, self._age_when_read() if self._reader.is_finished else self.age_s
        if age_s is None:
            return RunState.ENDED if self._reader.is_finished else RunState.LIVE
        if shown.rules is None:
            return RunState.LIVE if age_s < UNJUDGED_LIVE_S else RunState.QUIET
        if self._reader.arrived_s is None and self._stream.last_time_s is None and not shown.rules.liveness.gaps:
            # Neither when a row was written is known, nor how far apart they are: all there is is the file's time.
            return RunState.LIVE if age_s < UNJUDGED_LIVE_S + self._reader.lag_s else RunState.ENDED
        lines = shown.rules.silence_limits(self._reader.lag_s)
        if age_s > lines.warn_s:
            return RunState.STALLED if self._reader.arrived_s is not None else RunState.ENDED
        return RunState.QUIET if age_s > lines.quiet_s else RunState.LIVE

    def _state_without_rows(self, status: TailStatus, failure: Label) -> RunState:
        if status.state in _OUT_OF_SIGHT:
            return RunState.LOST
        if failure.raw and (self._reader.is_finished or self._is_mute()):
            return broken_off(failure)
        return RunState.WAITING if status.state is TailState.WAITING or self._reader.has_caught_up else RunState.LOADING

    def _is_mute(self) -> bool:
        """Has nothing at all, row or not, come for so long that a run at its beginning would be called quiet?"""
        times = [time_s for time_s in (self._reader.moved_s, self._modified_s) if time_s is not None]
        return self._reader.has_caught_up and bool(times) and self._clock.now() - max(times) > UNJUDGED_LIVE_S

    @property
    def note(self) -> str:
        """What is being waited for, or what is wrong with the file; empty when all is well."""
        return self._whole.feed.status.message or self._whole.pipeline.decoder.stopped

    def trouble(self, path: str) -> SourceError | None:
        """Why nothing, or nothing more, of the file at `path` can be read, to be raised; None where all is well."""
        error, stopped = self._whole.feed.status.error, self._whole.pipeline.decoder.stopped
        if error is None and stopped and not self._stream.rows:
            return cannot_read(path, DecodeError(stopped))
        return error


def broken_off(failure: Label) -> RunState:
    """How a run ended that says of what: by itself, or by the hand of whoever started it.

    Args:
        failure: what it says.
    """
    from rltop.formats.console.failures import is_interruption  # noqa: PLC0415 - only for a run that failed

    return RunState.INTERRUPTED if is_interruption(failure.raw) else RunState.DIED
