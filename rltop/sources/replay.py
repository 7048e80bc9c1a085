"""Plays back a recorded run as if it were live.

Reads the file like any other source and holds each line back until it is due. Of a
line it knows only one number: its time, found by key.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from rltop.clock import Clock
from rltop.errors import SourceError
from rltop.regex import regex
from rltop.sources.events import ONE_SHOT, Chunk, NotRegularFile, Reset, TailState, TailStatus
from rltop.sources.feed import Feed
from rltop.sources.file import FileSystem, read_part
from rltop.sources.tail import Tail

READ_BYTES = 256 * 1024
SNIFF_BYTES = 1024 * 1024
"""How much of the beginning is searched for a time key."""

_NUMBER = rb"\s*:\s*(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
WALL_TIME = regex(rb'"(?:time|timestamp|_timestamp|wall_time|time/wall_clock_sec)"' + _NUMBER)
"""Keys under which trainers and trackers log the time of a row."""
STEP_TIME = regex(rb'"(?:timing_s/step|perf/time_per_step)"' + _NUMBER)
"""Keys under which they log the duration of the row's step."""

MILLISECONDS_FROM = 1e11
"""Epoch times above this must be milliseconds."""


ROWS_PER_TIME = 8
"""Most rows per logged time for which times are used; rows without a time come together with the row before."""

FIXED_GAP_S = 1.0
"""Gap between two lines if the recording has no times."""
LONGEST_GAP_S = 3600.0
"""Longer gaps are cut to this: the run was resumed later."""


class _Pacing:
    """Recorded seconds between a line and the one before it."""

    def __init__(self, sample: bytes) -> None:
        times = len(WALL_TIME.findall(sample))
        # A header or summary may contain a time, too; only repeated times belong to rows.
        self._has_wall_time = times > 0 and times * ROWS_PER_TIME >= sample.count(b"\n")
        self._has_step_time = STEP_TIME.search(sample) is not None
        self._last: float | None = None

    def gap_s(self, line: bytes) -> float:
        if self._has_wall_time:
            found = WALL_TIME.search(line)
            if found is None:
                return 0.0
            now = float(found[1])
            if now > MILLISECONDS_FROM:
                now /= 1000
            before, self._last = self._last, now
            gap = 0.0 if before is None else now - before
        elif self._has_step_time:
            found = STEP_TIME.search(line)
            gap = float(found[1]) if found else 0.0
        else:
            gap = FIXED_GAP_S
        return min(max(gap, 0.0), LONGEST_GAP_S)


class ReplayFeed(Feed):
    """A recorded file, released line by line.

    The gap before a line is the difference of the rows' wall times, else the row's
    step time, else a constant, divided by `speed`. The clock starts with the first
    `take`. Lines with a gap of 0 come together with the line before.
    """

    is_exhausted = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        speed: float = 1.0,
        clock: Clock | None = None,
        warm_start: float = 0.0,
    ) -> None:
        """Open the recording.

        Args:
            speed: recorded seconds per second; infinity releases everything at once.
            warm_start: fraction of the file, 0 to 1, that is released immediately.

        Raises:
            SourceError: the file does not exist or cannot be read.
            ValueError: the speed is not positive.
        """
        if not speed > 0:
            raise ValueError(f"speed must be greater than 0, not {speed}")
        fs = FileSystem()
        self._clock = clock or Clock()
        self._speed = speed
        self._size, sample = _glance(fs, os.fspath(path))
        self._pacing = _Pacing(sample)
        self._warm_bytes = warm_start * self._size
        self._tail = Tail(path, fs, self._clock, ONE_SHOT)
        self._lines = self._read_lines()
        self._next: Chunk | Reset | None = None
        self._due_at: float | None = None
        self._offset = 0

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        """The lines that are due, at most `max_bytes`; the rest comes with the next call."""
        now = self._clock.monotonic()
        if self._due_at is None:
            self._due_at = now
            self._advance()
        out: list[Chunk | Reset] = []
        run: list[Chunk] = []
        left = max_bytes
        while self._next is not None and self._due_at <= now and left > 0:
            event = self._next
            if isinstance(event, Reset):
                _join(run, out)
                out.append(event)
                self._advance()
                continue
            if run and run[-1].offset + len(run[-1].data) != event.offset:
                _join(run, out)
            if len(event.data) <= left:
                run.append(event)
                left -= len(event.data)
                self._advance()
            else:
                run.append(event._replace(data=event.data[:left]))
                self._next = event._replace(data=event.data[left:], offset=event.offset + left)
                left = 0
            self._offset = run[-1].offset + len(run[-1].data)
        _join(run, out)
        return out

    @property
    def status(self) -> TailStatus:
        """The status of a file that contains only the lines due so far."""
        is_waiting = self._due_at is not None and (self.is_exhausted or self._due_at > self._clock.monotonic())
        state, size = (TailState.AT_END, self._offset) if is_waiting else (TailState.READING, self._size)
        return TailStatus(state, "", size, self._offset, self._tail.status.nul_bytes)

    @property
    def is_over(self) -> bool:
        return self.is_exhausted

    @property
    def wait_s(self) -> float | None:
        if self.is_exhausted:
            return None
        if self._due_at is None:
            return 0.0
        return max(0.0, self._due_at - self._clock.monotonic())

    def close(self) -> None:
        self._tail.close()
        self._next = None
        self.is_exhausted = True

    def _advance(self) -> None:
        self._next = next(self._lines, None)
        if self._next is None:
            self.is_exhausted = True
        elif isinstance(self._next, Chunk) and self._due_at is not None:
            gap_s = self._pacing.gap_s(self._next.data)
            if self._next.offset >= self._warm_bytes:
                self._due_at += gap_s / self._speed

    def _read_lines(self) -> Iterator[Chunk | Reset]:
        """Each line as a chunk with its line feed, which the last line may lack."""
        held: Chunk | None = None
        while True:
            for event in self._tail.poll(READ_BYTES):
                if isinstance(event, Chunk) and held and held.offset + len(held.data) == event.offset:
                    event, held = event._replace(data=held.data + event.data, offset=held.offset), None  # noqa: PLW2901
                if held:
                    yield held
                    held = None
                if isinstance(event, Reset):
                    yield event
                    continue
                at = event.offset
                for line in event.data.split(b"\n"):
                    held = Chunk(line + b"\n", at, event.generation)
                    if at + len(line) == event.offset + len(event.data):
                        held = held._replace(data=line) if line else None
                        break
                    yield held
                    at += len(line) + 1
            if self._tail.status.state is not TailState.READING:
                break
        if held:
            yield held


def _join(run: list[Chunk], out: list[Chunk | Reset]) -> None:
    if run:
        out.append(run[0]._replace(data=b"".join(chunk.data for chunk in run)))
        run.clear()


def _glance(fs: FileSystem, path: str) -> tuple[int, bytes]:
    """Size and beginning of a file.

    Raises:
        SourceError: it is not a file, or cannot be read.
    """
    try:
        seen = fs.stat(path)
        if not seen.is_regular:
            raise NotRegularFile(path, seen).error
        return seen.size, read_part(fs, path, SNIFF_BYTES, 0)
    except OSError as error:
        raise SourceError(
            f"cannot replay {path}: {error.strerror or error}", "name the metric file of a recorded run"
        ) from error
