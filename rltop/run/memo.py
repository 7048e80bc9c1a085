"""What has been worked out of a stream and need not be again: downsampled columns, timing trees, baselines.

Owns nothing that shows: every function gives what the store would give. A record changes the newest step; what lies
before it is kept until a late row, a restart or the downsampling of old rows changes the past.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar, cast

from rltop.catalog.dialect import Identity, TimingPlan
from rltop.catalog.families import Family, Numbered, family_index, numbered_index
from rltop.model import Signal, StepTiming
from rltop.stats.timing import step_timing
from rltop.store.series import Bucket
from rltop.store.stream import Stream

_MAX_LINES = 1024
_MAX_STEPS = 1024
_MAX_STARTS = 4096

_Read = TypeVar("_Read")


class Memo:
    """What has been worked out of one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._state: Hashable = None
        self._lines: dict[tuple[str, int, int], list[Bucket]] = {}
        self._timings: dict[tuple[int, int], StepTiming | None] = {}
        self._starts: dict[Hashable, object] = {}
        self._of_rows: tuple[int, dict[Hashable, object]] = (-1, {})
        self._families: tuple[int, dict[str, Family]] = (-1, {})
        self._numbered: tuple[int, dict[str, Numbered]] = (-1, {})
        self._signals: tuple[Identity | None, dict[str, Signal]] = (None, {})

    def _check(self) -> None:
        stream = self.stream
        number = stream.segments[-1].number if stream.segments else -1
        state = (len(stream.segments), number, stream.counts.late_rows, stream.first_step, stream.raw_from())
        if state != self._state:
            self._state = state
            self._lines, self._timings, self._starts = {}, {}, {}

    def buckets(self, key: str, stride: int, start: int, stop: int) -> list[Bucket]:
        """`stream.buckets(key, stride, start, stop)`, the past from memory.

        Columns before the one with the newest step are read once.

        Args:
            start: first step of the first bucket.

        Returns:
            Bucket i covers the steps from `start + i * stride` on; values as logged.
        """
        stream = self.stream
        last = stream.last_step
        if last is None or stop <= start or not stream.has(key):
            return stream.buckets(key, stride, start, stop)
        self._check()
        if len(self._lines) > _MAX_LINES:
            self._lines.clear()
        known = self._lines.setdefault((key, start, stride), [])
        whole = max(0, min(last - start, stop - start) // stride)
        if len(known) < whole:
            known += stream.buckets(key, stride, start + len(known) * stride, start + whole * stride)
        return known[:whole] + stream.buckets(key, stride, start + whole * stride, stop)

    def timings(self, plan: TimingPlan, steps: Sequence[int]) -> Iterator[StepTiming | None]:
        """The timing trees of steps, without what no stage claims.

        Args:
            steps: those wanted, ascending; all of them still held raw.

        Returns:
            The tree of each step, the last step first; None where a step logs no timing.
        """
        self._check()
        stream, timings, plan_id = self.stream, self._timings, id(plan)
        last = stream.last_step
        if len(timings) > _MAX_STEPS:
            timings.clear()
        for step in reversed(steps):
            if step == last:
                yield step_timing(plan, step, stream.row(step), 0)
                continue
            at = (step, plan_id)
            if at not in timings:
                timings[at] = step_timing(plan, step, stream.row(step), 0)
            yield timings[at]

    def of_start(self, what: Hashable, read: Callable[[], _Read]) -> _Read:
        """Something that follows from the first rows of the newest segment; worked out once when those are settled."""
        stream = self.stream
        if not stream.segments or not stream.segments[-1].has_whole_head:
            return read()
        self._check()
        if what not in self._starts:
            if len(self._starts) > _MAX_STARTS:
                self._starts.clear()
            self._starts[what] = read()
        return cast("_Read", self._starts[what])

    def of_rows(self, what: Hashable, read: Callable[[], _Read]) -> _Read:
        """Something that follows from all rows; worked out anew when one has come."""
        if self._of_rows[0] != self.stream.version:
            self._of_rows = (self.stream.version, {})
        known = self._of_rows[1]
        if what not in known:
            known[what] = read()
        return cast("_Read", known[what])

    def families(self) -> dict[str, Family]:
        """Every key that is one statistic of several → its family; made anew when a key is new."""
        keys = self.stream.keys
        if self._families[0] != len(keys):
            self._families = (len(keys), dict(family_index(tuple(keys))))
        return self._families[1]

    def numbered(self) -> dict[str, Numbered]:
        """Every key of many that differ in a number alone → these; made anew when a key is new."""
        keys = self.stream.keys
        if self._numbered[0] != len(keys):
            self._numbered = (len(keys), numbered_index(tuple(keys)))
        return self._numbered[1]

    def signal(self, identity: Identity, key: str) -> Signal | None:
        """The signal of the catalogue that a key belongs to."""
        if self._signals[0] is not identity:
            by_key: dict[str, Signal] = {}
            for signals in identity.signals.values():
                for signal in signals:
                    by_key.setdefault(signal.key, signal)
            self._signals = (identity, by_key)
        return self._signals[1].get(key)
