"""Queries on a stream: newest values, series, buckets.

Owns the joining of segments: a segment is seen up to the first step of any later
one, so that after a restart the old part stays visible up to the restart.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter, methodcaller

from rltop.model import GAP, FilePosition
from rltop.store.ring import Block
from rltop.store.segment import ReadBlock, Segment
from rltop.store.series import Bucket, Mark, MarkRegister, Point, Series, Stretch


class _OpenBucket:
    """A bucket being filled."""

    __slots__ = ("approximate", "count", "first", "high", "last", "low", "nonfinite", "total")

    def __init__(self) -> None:
        self.first: int | None = None
        self.last = -1
        self.low, self.high, self.total, self.count = math.inf, -math.inf, 0.0, 0
        self.nonfinite = self.approximate = False

    def see_steps(self, first: int, last: int) -> None:
        # Steps may be negative: some runs evaluate at step -1 before they begin.
        self.last = last if self.first is None else max(self.last, last)
        self.first = first if self.first is None else min(self.first, first)

    def add_values(self, values: Sequence[float]) -> None:
        total = sum(values)
        if total != total:
            values = [value for value in values if value == value]
            total = sum(values)
        if values:
            self.low = min(self.low, *values)
            self.high = max(self.high, *values)
            self.total += total
            self.count += len(values)

    def add_bucket(self, bucket: Bucket, is_cut: bool) -> None:
        self.see_steps(bucket.first_step, bucket.last_step)
        self.nonfinite = self.nonfinite or bucket.has_nonfinite
        self.approximate = self.approximate or is_cut
        if bucket.count:
            self.low, self.high = min(self.low, bucket.low), max(self.high, bucket.high)
            self.total += bucket.mean * bucket.count
            self.count += bucket.count

    def closed(self) -> Bucket:
        first = -1 if self.first is None else self.first
        if not self.count:
            return Bucket(first, self.last, GAP, GAP, GAP, 0, self.nonfinite, self.approximate)
        mean = self.total / self.count
        if not math.isfinite(mean):
            mean = self.low / 2 + self.high / 2
        return Bucket(first, self.last, self.low, self.high, mean, self.count, self.nonfinite, self.approximate)


class StreamQueries:
    """The reading half of a `Stream`; never changes anything."""

    keys: list[str]
    segments: list[Segment]
    _columns: dict[str, int]
    _recalled: OrderedDict[int, Mapping[str, float]]
    _joined_restarts: array[int]
    _marks: MarkRegister

    def has(self, key: str) -> bool:
        return key in self._columns

    @property
    def has_values(self) -> bool:
        """Has a number been logged, be it of evaluations alone, which are no records?"""
        return bool(self.keys)

    @property
    def first_step(self) -> int | None:
        """The oldest step of the run that is still visible."""
        return next((s.first_step for s, clip in self._visible() if _starts_before(s, clip)), None)

    @property
    def last_step(self) -> int | None:
        return self.segments[-1].last_step if self.segments else None

    @property
    def restarts(self) -> tuple[int, ...]:
        """The first step of every segment but the first, oldest first."""
        return (*self._joined_restarts, *(s.first_step for s in self.segments[1:] if s.first_step is not None))

    @property
    def seen_restarts(self) -> tuple[int, ...]:
        """The visible `restarts`: one that went back further hides earlier ones."""
        seen: list[int] = []
        for step in reversed(self.restarts):
            if not seen or step < seen[-1]:
                seen.append(step)
        return tuple(reversed(seen))

    def latest(self, key: str, at_step: int | None = None) -> Point | None:
        """The newest finite value of a key, at or before `at_step` if given."""
        column = self._columns.get(key)
        if column is None:
            return None
        recalled = self._recalled.get(at_step) if at_step is not None else None
        if recalled is not None and at_step is not None and key in recalled:
            return Point(at_step, recalled[key])
        for segment, clip in reversed(list(self._visible())):
            at = at_step if clip is None else clip - 1 if at_step is None else min(at_step, clip - 1)
            point = segment.latest(column, at)
            if point is not None:
                return point
        return None

    def value(self, key: str, step: int) -> float | None:
        """The finite value of a key on exactly this step, if the row is held or was recalled."""
        if step in self._recalled:
            return self._recalled[step].get(key)
        column = self._columns.get(key)
        segment = self._segment_of(step)
        found = None if segment is None or column is None else segment.find(step)
        if found is None or column is None:
            return None
        value = found[0].cell(found[1], column)
        return value if value == value else None

    def row(self, step: int) -> dict[str, float]:
        """Every finite value of a step that is held or was recalled, by key; else empty."""
        if step in self._recalled:
            return dict(self._recalled[step])
        segment = self._segment_of(step)
        found = None if segment is None else segment.find(step)
        if found is None:
            return {}
        cells = found[0].cells(found[1])
        total = sum(cells)
        if total == total:
            return dict(zip(self.keys, cells, strict=False))
        return {key: value for key, value in zip(self.keys, cells, strict=False) if value == value}

    def downsampled_range(self, step: int) -> tuple[int, int] | None:
        """The first and last step of the bucket that stands for a downsampled step; None if the row itself is held."""
        segment = self._segment_of(step)
        if step in self._recalled or segment is None or segment.pyramid is None:
            return None
        first_raw = segment.first_raw_step
        if first_raw is not None and step >= first_raw:
            return None
        return segment.pyramid.range_of(step)

    def steps(self, last: int | None = None) -> array[int]:
        """Raw steps still held, oldest first, at most the `last` newest."""
        return self._join(_no_values, last).steps

    def series(self, key: str, last: int | None = None) -> Series:
        """Raw points still held, oldest first; NaN where the step did not log the key.

        Args:
            last: at most so many points, the newest ones; None: all.
        """
        column = self._columns.get(key)
        return self._join(_no_values if column is None else methodcaller("column", column), last)

    def times(self, last: int | None = None) -> Series:
        """Seconds since the epoch of each raw row, NaN where the row does not say."""
        return self._join(attrgetter("times"), last)

    def head(self, key: str, at_step: int | None = None) -> Series:
        """The first rows (64 by default) of a segment: of the newest whatever was downsampled since, else if still raw.

        Args:
            at_step: of the newest segment that reaches back to this step, and no row after it; None is the newest.
        """
        column = self._columns.get(key)
        segment = None if not self.segments else self.segments[-1] if at_step is None else self._segment_of(at_step)
        head: Block | None = None if segment is None else segment.first_rows
        if head is None or column is None:
            return Series(array("q"), array("d"))
        values = head.column(column) or array("d", [GAP]) * len(head)
        stop = len(head) if at_step is None else bisect_right(head.steps, at_step)
        return Series(head.steps[:stop], values[:stop])

    def raw_from(self) -> int | None:
        """The oldest step still held raw; what is older comes from buckets."""
        return next((s.first_raw_step for s, clip in self._visible() if _starts_before(s, clip)), None)

    def around(self, step: int, before: int, after: int) -> Stretch:
        """Every key over `before` rows before a step and `after` rows from it on.

        Stays inside the segment that is visible at the step: rows before a restart are no
        baseline for rows after it. The cost depends on the rows returned, not on the
        length of the run.
        """
        segment, clip = None, None
        for one, its_clip in self._visible():
            first = one.first_step
            if first is not None and (segment is None or first <= step):
                segment, clip = one, its_clip
        if segment is None:
            return Stretch((), (), 0)
        return segment.around(step, before, after, clip)

    def buckets(self, key: str, stride: int, start: int, stop: int) -> list[Bucket]:
        """Downsample a key over steps [start, stop) into buckets of `stride` steps.

        Bucket i covers steps [start + i * stride, start + (i + 1) * stride). A
        bucket without rows has `first_step` -1; one whose rows do not log the key
        has count 0. Downsampled history that straddles an edge is counted in the bucket
        of its middle and marked approximate.

        Args:
            start: first step of the first bucket.

        Raises:
            ValueError: if `stride` is not positive.
        """
        if stride <= 0:
            msg = f"stride must be positive, not {stride}"
            raise ValueError(msg)
        count = max(0, -(-(stop - start) // stride))
        buckets = [_OpenBucket() for _ in range(count)]
        column = self._columns.get(key)
        if column is None or not count:
            return [bucket.closed() for bucket in buckets]
        for segment, clip in self._visible():
            end = stop if clip is None else min(stop, clip)
            if segment.pyramid is not None:
                _add_pyramid(buckets, segment, column, stride, start, end)
            for block in _between(segment.blocks, start, end):
                _add_block(buckets, block, column, stride, start, end)
        return [bucket.closed() for bucket in buckets]

    def position(self, step: int) -> FilePosition | None:
        """Where in the file to start reading to meet the row of `step`."""
        segment = self._segment_of(step)
        return None if segment is None else segment.position(step)

    def mark_count(self, key: str) -> int:
        """How many values of a key were not finite."""
        column = self._columns.get(key)
        return 0 if column is None else self._marks.count(column)

    def marks(self, key: str) -> Sequence[Mark]:
        """Where a key was not finite: the first 64 places and the newest 64."""
        column = self._columns.get(key)
        return [] if column is None else self._marks.of(column)

    def _visible(self) -> Iterator[tuple[Segment, int | None]]:
        """Each segment with the step before which it ends (None: not cut), oldest first."""
        if len(self.segments) == 1:
            return iter(((self.segments[0], None),))
        clips: list[int | None] = []
        clip: int | None = None
        for segment in reversed(self.segments):
            clips.append(clip)
            first = segment.first_step
            if first is not None:
                clip = first if clip is None else min(clip, first)
        return zip(self.segments, reversed(clips), strict=True)

    def _segment_of(self, step: int) -> Segment | None:
        for segment in reversed(self.segments):
            first = segment.first_step
            if first is not None and first <= step:
                return segment
        return None

    def _join(self, read: ReadBlock, last: int | None) -> Series:
        """Raw rows of all segments, clipped; gaps where a block has no values."""
        parts: list[tuple[array[int], array[float] | None]] = []
        rows = 0
        for segment, clip in reversed(list(self._visible())):
            for part in segment.raw_values(read, clip):
                parts.append(part)
                rows += len(part[0])
                if last is not None and rows >= last:
                    break
            if last is not None and rows >= last:
                break
        steps: array[int] = array("q")
        values: array[float] = array("d")
        for part_steps, part_values in reversed(parts):
            steps.extend(part_steps)
            values.extend(array("d", [GAP]) * len(part_steps) if part_values is None else part_values)
        return Series(steps, values) if last is None else Series(steps[-last:], values[-last:])


def _no_values(block: Block) -> None:
    """What a block holds of a key that was never seen."""
    del block


def _starts_before(segment: Segment, clip: int | None) -> bool:
    first = segment.first_step
    return first is not None and (clip is None or first < clip)


def _add_pyramid(buckets: list[_OpenBucket], segment: Segment, column: int, stride: int, start: int, end: int) -> None:
    assert segment.pyramid is not None
    for bucket in segment.pyramid.buckets(column):
        if bucket.first_step >= end:
            return
        if bucket.last_step < start:
            continue
        is_cut = bucket.last_step >= end or bucket.first_step < start
        middle = min(max((bucket.first_step + bucket.last_step) // 2, start), end - 1)
        is_cut = is_cut or (bucket.first_step - start) // stride != (bucket.last_step - start) // stride
        i = (middle - start) // stride
        if 0 <= i < len(buckets):
            buckets[i].add_bucket(bucket, is_cut)


def _between(blocks: Sequence[Block], start: int, end: int) -> Iterator[Block]:
    """The blocks with rows from step `start` to before `end`, oldest first."""
    for number in range(max(0, bisect_right(blocks, float(start), key=_first_step) - 1), len(blocks)):
        if not len(blocks[number]) or blocks[number].steps[0] >= end:
            return
        yield blocks[number]


def _first_step(block: Block) -> float:
    return block.steps[0] if len(block) else math.inf


def _add_block(buckets: list[_OpenBucket], block: Block, column: int, stride: int, start: int, end: int) -> None:
    steps = block.steps
    row, stop = bisect_left(steps, start), bisect_left(steps, end)
    values = block.column(column)
    while row < stop:
        i = (steps[row] - start) // stride
        after = bisect_left(steps, start + (i + 1) * stride, row, stop)
        bucket = buckets[i]
        bucket.see_steps(steps[row], steps[after - 1])
        if values is not None:
            bucket.add_values(values[row:after])
        row = after
    if block.marks and values is not None:
        for step in block.marks:
            if start <= step < end and any(marked == column for marked, _ in block.row_marks(step)):
                buckets[(step - start) // stride].nonfinite = True
