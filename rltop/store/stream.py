"""One writer's step axis: rows merged by step, split into segments at restarts; newest values, series and buckets.

The only place that decides what a row with a lower step means. It knows nothing of a key's meaning, except whether
training writes it or an evaluation, which may come late. A segment is visible up to the first step of any later one, so
after a restart the old part stays visible up to the restart.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import chain
from operator import attrgetter, methodcaller

from rltop.model import GAP, Counts, FilePosition, NonFinite, Record
from rltop.stats.persistence import Crossing
from rltop.store.ring import Block, Columns, Layout
from rltop.store.segment import Pyramid, ReadBlock, Segment
from rltop.store.series import Bucket, Mark, MarkRegister, Point, Series, StoreOptions, Stretch, bucket_of
from rltop.structs import NamedTuple, replace


class _OpenBucket:
    __slots__ = ("approximate", "count", "first", "high", "last", "low", "nonfinite", "total")

    def __init__(self) -> None:
        self.first: int | None = None
        self.last = -1
        self.low, self.high, self.total, self.count = math.inf, -math.inf, 0.0, 0
        self.nonfinite = self.approximate = False

    def see_steps(self, first: int, last: int) -> None:
        # Steps may be negative: some runs evaluate at step -1 before training.
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
        found = bucket_of(first, self.last, self.low, self.high, self.total, self.count, self.nonfinite)
        return replace(found, is_approximate=True) if self.approximate else found


def _no_values(block: Block) -> None:
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
    """The blocks with rows in steps [start, end), oldest first."""
    for number in range(
        max(0, bisect_right(blocks, float(start), key=lambda block: block.steps[0] if len(block) else math.inf) - 1),
        len(blocks),
    ):
        if not len(blocks[number]) or blocks[number].steps[0] >= end:
            return
        yield blocks[number]


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


_RECALLED_KEPT = 64
_ALERTS_KEPT = 256
SEGMENTS_KEPT = 64
"""Segments kept apart; the oldest are merged, because two writers of one file cause a restart with every row."""


class ClosedRow(NamedTuple):
    """A row for the rules whose step is final.

    Attributes:
        segment: number of the segment, from 0.
        columns: the columns of a late row that came late; None means all.
        script_alerts: alerts of the training script that came with the row.
    """

    segment: int
    step: int
    columns: tuple[int, ...] | None = None
    script_alerts: tuple[str, ...] = ()


class RawRow(NamedTuple):
    """The current content of a row.

    Attributes:
        cells: value by column, NaN for a gap; shorter than the stream's keys if keys were added since.
        marks: (column, kind) of non-finite cells.
        is_training: it has a training key, not only evaluation keys.
    """

    cells: array[float]
    marks: Sequence[tuple[int, NonFinite]]
    time_s: float | None
    is_training: bool


class Stream:
    """All rows of one writer.

    Rows enter only through `append`. The rules take rows from `closed`, in file order: a row is closed when a later
    step arrives or `finish` is called. `name` is empty for the main stream of a run.

    Attributes:
        overwritten_rows: training rows that changed most values of a step that was already logged, without rows that
            are parts of a step.
        other_runs: number of a segment → `Record.other_run` of its first row.
    """

    def __init__(self, name: str = "", options: StoreOptions | None = None) -> None:
        self.name = name
        self.options = options or StoreOptions()
        self.segments: list[Segment] = []
        self.other_runs: dict[int, str] = {}
        self.version = self.rows = self.overwritten_rows = 0
        self.first_time_s: float | None = None
        self.last_time_s: float | None = None
        self.total_steps: int | None = None
        self.counts = Counts()
        self.closed: deque[ClosedRow] = deque()
        self._space = Columns(self.options.max_keys, self.counts)
        self.keys = self._space.keys
        self._columns = self._space.by_key
        self._marks = MarkRegister(self.counts, self._space.keys, self._space.is_training)
        self._recalled: OrderedDict[int, Mapping[str, float]] = OrderedDict()
        self._joined_restarts: array[int] = array("q")
        self._must_restart = self._is_open = self._is_new_file = False
        self._is_bounded = True
        self._crossing = Crossing()
        self._rows_at_return = 0
        self._open_step: int | None = None
        self._open_alerts: tuple[str, ...] = ()

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """Add a row: as a new step, a merge, a late row or a restart."""
        self.version += 1
        total = self.total_steps if record.total_steps is None else record.total_steps
        # A progress bar that restarts in every epoch gives the steps of one epoch first.
        self.total_steps = None if total is None or total < record.step else total
        if record.time_s is not None and (self.last_time_s is None or record.time_s > self.last_time_s):
            self.last_time_s = record.time_s
            if self.first_time_s is None:
                self.first_time_s = record.time_s
        layout = self._space.layout(record.schema)
        segment = self.segments[-1] if self.segments else None
        last = self._open_step
        if segment is None or last is None:
            self._start_segment()
            self._add_row(record, layout)
        elif (self._must_restart or record.is_new_end) and layout.is_training:
            self._restart(record, layout)
        elif record.step > last:
            self.finish()
            self._add_row(record, layout)
        elif record.step == last:
            self.overwritten_rows += not record.is_part and _is_overwriting(segment, record, layout)
            self._merge(segment, record, layout, is_late=False)
            self._open_alerts = (*self._open_alerts, *record.script_alerts)[:_ALERTS_KEPT]
        else:
            self._go_back(segment, record, layout)
        layout.last_step = max(layout.last_step, record.step)
        self._is_new_file = self._is_new_file and not layout.is_training

    def expect_restart(self) -> None:
        """The file was rewritten: the next training row starts a segment."""
        if self.segments:
            self._must_restart = True

    def expect_new_file(self) -> None:
        """The writer has opened another file; its first training row shows whether it continues or starts over."""
        self._is_new_file = bool(self.segments)

    def finish(self) -> None:
        if self._is_open and self._open_step is not None:
            self.closed.append(ClosedRow(self.segments[-1].number, self._open_step, script_alerts=self._open_alerts))
            self._is_open = False

    def fork(self, steps: Collection[int]) -> Stream:
        """A copy that takes rows of these steps only, while this stream stays unchanged.

        It shares the parts that those rows cannot change, and has no memory limit.
        """
        shared = [self.options, *(part for segment in self.segments for part in segment.parts_unchanged_by(steps))]
        twin = deepcopy(self, {id(part): part for part in shared})
        twin._is_bounded = False
        return twin

    def _start_segment(self) -> None:
        self._must_restart = False
        self._space.forget_steps()
        self._recalled.clear()
        number = 0
        if self.segments:
            self.segments[-1].end()
            number = self.segments[-1].number + 1
        self.segments.append(Segment(number, self.options.head_rows))
        if self._is_bounded and len(self.segments) > SEGMENTS_KEPT:
            self._join_oldest()

    def _join_oldest(self) -> None:
        """Merge the two oldest segments; of the older one only the visible part is kept."""
        oldest, second = self.segments[:2]
        first = second.first_step
        if first is None or (self.closed and self.closed[0].segment <= second.number):
            return
        while self._joined_restarts and self._joined_restarts[-1] >= first:
            self._joined_restarts.pop()
        self._joined_restarts.append(first)
        oldest.cut(min(s.first_step for s in self.segments[1:] if s.first_step is not None))
        second.prepend(oldest)
        del self.segments[0]

    def _restart(self, record: Record, layout: Layout) -> None:
        self.finish()
        self._start_segment()
        self._marks.forget_from(record.step)
        self.other_runs[self.segments[-1].number] = record.other_run
        self._add_row(record, layout)

    def _add_row(self, record: Record, layout: Layout) -> None:
        segment = self.segments[-1]
        width = len(self.keys)
        block = segment.block_for_append(width)
        cells = layout.arrange(record.values, block.width)
        block.insert(len(block), record.step, record.time_s, record.position, cells, layout.is_training)
        self.rows += layout.is_training
        self._open_step, self._is_open, self._open_alerts = record.step, True, record.script_alerts
        self._note_cells(block, record, layout)
        if len(block) == 1 and self._is_bounded:
            self._keep_budget()

    def _note_cells(self, block: Block, record: Record, layout: Layout) -> None:
        if not layout.has_numbers:
            marked = {layout.columns[mark.cell] for mark in record.marks}
            self._marks.numeric.update(column for column in layout.columns if column >= 0 and column not in marked)
            layout.has_numbers = not marked
        for mark in record.marks:
            column = layout.columns[mark.cell]
            if column >= 0 and self._marks.accept(record.step, column, mark.kind):
                block.mark(record.step, column, mark.kind)

    def _keep_budget(self) -> None:
        """Downsample the oldest rows while the raw ones exceed the memory budget.

        A row in `closed` is never downsampled, because the rules still need it.
        """
        while sum(segment.raw_bytes() for segment in self.segments) > self.options.memory_bytes:
            oldest = next((segment for segment in self.segments if len(segment.blocks) > 1), None)
            if oldest is None:
                return
            if self.closed and (oldest.number, oldest.blocks[0].steps[-1]) >= self.closed[0][:2]:
                return
            oldest.downsample_oldest()

    # -- rows that do not come in order ----------------------------------------------------------------------

    def _go_back(self, segment: Segment, record: Record, layout: Layout) -> None:
        if not layout.is_training:
            # An evaluation from before a restart is late, and must not move the restart back.
            segment = self._segment_of(record.step) or self.segments[0]
        found = segment.find(record.step)
        if found is not None:
            block, row = found
            clashes = _clashes(block, row, record, layout)
            if clashes is None and self._is_new_file and layout.is_training and record.step == segment.first_step:
                # A new file that repeats the rows of the former one from the first step on: training started over.
                self._restart(record, layout)
            elif clashes is None:
                self.counts.repeated_rows += 1
            elif any(self._space.is_training[column] for column in clashes):
                self._restart_or_cross(segment, record, layout, found)
            else:
                self._merge(segment, record, layout, is_late=True)
        elif layout.is_training and self._has_gone_back(segment, record, layout):
            self._restart_or_cross(segment, record, layout, None)
        else:
            self._insert_late(segment, record, layout)

    def _has_gone_back(self, segment: Segment, record: Record, layout: Layout) -> bool:
        """Is a row at an unknown step a restart? It repeats keys of later steps, or follows one row with fewer keys."""
        is_behind_one = segment.first_step == segment.last_step and len(layout.columns) > segment.blocks[0].width
        return (is_behind_one or self._space.has_logged_since(layout, record.step)) and not _fills_a_hole(
            segment, record.step
        )

    def _restart_or_cross(
        self, segment: Segment, record: Record, layout: Layout, found: tuple[Block, int] | None
    ) -> None:
        """Start a segment, unless the row is from a second writer of the file: such rows are sorted in by step.

        Otherwise each of them would start a segment and reset the baselines.
        """
        was_certain = self._crossing.is_certain
        is_other = self._crossing.note(record.step, self.rows - self._rows_at_return)
        if not (was_certain and is_other):
            self._restart(record, layout)
        else:
            self.counts.crossed_rows += 1
            if found is not None:
                self._merge(segment, record, layout, is_late=True)
            else:
                self._insert_late(segment, record, layout)
        self._rows_at_return = self.rows

    def _merge(self, segment: Segment, record: Record, layout: Layout, *, is_late: bool) -> None:
        found = segment.find(record.step)
        assert found is not None
        block, row = found
        if len(self.keys) > block.width:
            block.widen(len(self.keys))
        marked = {layout.columns[mark.cell] for mark in record.marks}
        block.overwrite(row, layout.columns, record.values, marked)
        if layout.is_training and not block.training[row]:
            block.training[row] = 1
            self.rows += 1
        if record.time_s is not None and block.times[row] != block.times[row]:
            block.times[row] = record.time_s
        self._note_cells(block, record, layout)
        if is_late:
            self._close_late(segment, record, layout)

    def _insert_late(self, segment: Segment, record: Record, layout: Layout) -> None:
        first_raw = segment.first_raw_step
        if segment.pyramid is not None and first_raw is not None and record.step < first_raw:
            _downsample_late(segment.pyramid, self._marks, record, layout)
            self.counts.late_rows += 1
            return
        cells = layout.arrange(record.values, len(self.keys))
        block = segment.insert(record.step, record.time_s, record.position, cells, layout.is_training)
        self.rows += layout.is_training
        if record.marks:
            self._note_cells(block, record, layout)
        self._close_late(segment, record, layout)

    def _close_late(self, segment: Segment, record: Record, layout: Layout) -> None:
        self.counts.late_rows += 1
        self._recalled.pop(record.step, None)
        # A row still in the queue will be evaluated with the late values.
        if record.script_alerts or all(row[:3] != (segment.number, record.step, None) for row in self.closed):
            self.closed.append(ClosedRow(segment.number, record.step, layout.columns, record.script_alerts))

    # -- for the rules and the reader of the file --------------------------------------------------------------

    def column(self, key: str) -> int | None:
        return self._columns.get(key)

    def raw_row(self, row: ClosedRow) -> RawRow:
        """The row as it is now."""
        found = self.segments[row.segment - self.segments[0].number].find(row.step)
        assert found is not None
        block, i = found
        time_s = None if block.times[i] != block.times[i] else block.times[i]
        return RawRow(block.cells(i), block.row_marks(row.step), time_s, bool(block.training[i]))

    def recall(self, step: int, row: Mapping[str, float]) -> None:
        """Cache a downsampled row that was reread from the file."""
        self._recalled[step] = row
        while len(self._recalled) > _RECALLED_KEPT:
            self._recalled.popitem(last=False)
        self.version += 1

    def open_row(self) -> ClosedRow | None:
        """The newest row, which may still change."""
        if not self._is_open or self._open_step is None:
            return None
        return ClosedRow(self.segments[-1].number, self._open_step, script_alerts=self._open_alerts)

    def has(self, key: str) -> bool:
        return key in self._columns

    @property
    def has_values(self) -> bool:
        """Has any key been logged, even if only by evaluations, which are no records?"""
        return bool(self.keys)

    @property
    def first_step(self) -> int | None:
        """The oldest step that is still visible."""
        return next((s.first_step for s, clip in self._visible() if _starts_before(s, clip)), None)

    @property
    def last_step(self) -> int | None:
        return self.segments[-1].last_step if self.segments else None

    @property
    def stride(self) -> int:
        """Distance of the newest two rows in steps; one more if steps begin at 0: the last is then below the total."""
        newest = self.steps(last=2)
        return max(1, newest[-1] - newest[0] if newest else 0) + (self.first_step == 0)

    @property
    def restarts(self) -> tuple[int, ...]:
        """The first step of every segment but the first, oldest first."""
        return (*self._joined_restarts, *(s.first_step for s in self.segments[1:] if s.first_step is not None))

    @property
    def seen_restarts(self) -> tuple[int, ...]:
        """The visible `restarts`: a restart at a lower step hides earlier ones."""
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
        """The finite value of a key at exactly this step, if the row is held or was recalled."""
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
        """All finite values of a step by key; empty if it is neither held nor recalled."""
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
        """The first and last step of the bucket that holds a downsampled step; None if the row itself is held."""
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
        """Raw points still held, oldest first; NaN where the key was not logged."""
        column = self._columns.get(key)
        return self._join(_no_values if column is None else methodcaller("column", column), last)

    def times(self, last: int | None = None) -> Series:
        """Seconds since the epoch of each raw row, NaN if it has no time."""
        return self._join(attrgetter("times"), last)

    def head(self, key: str, at_step: int | None = None) -> Series:
        """The first rows of a segment (64 by default), always kept for the newest segment, else while still raw.

        Args:
            at_step: the newest segment that begins at or before it, without later rows; None for the newest segment.
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
        """The oldest step still held raw; older ones exist only in buckets."""
        return next((s.first_raw_step for s, clip in self._visible() if _starts_before(s, clip)), None)

    def around(self, step: int, before: int, after: int) -> Stretch:
        """All keys over `before` rows before a step and `after` rows from it on.

        Stays within the segment visible at the step: rows before a restart are no baseline for rows after it.
        The cost depends on the rows returned, not on the length of the run.
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

        Bucket i covers steps [start + i * stride, start + (i + 1) * stride). A bucket without rows has `first_step` -1;
        if its rows do not log the key, its count is 0. A stored bucket that straddles an edge is counted where its
        middle lies, and the result is marked approximate.

        Args:
            start: first step of the first bucket.
        """
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
        """The file position to read from in order to find the row of `step`."""
        segment = self._segment_of(step)
        return None if segment is None else segment.position(step)

    def mark_count(self, key: str) -> int:
        column = self._columns.get(key)
        return 0 if column is None else self._marks.count(column)

    def marks(self, key: str) -> Sequence[Mark]:
        """Where a key was not finite: the first 64 marks and the newest 64."""
        column = self._columns.get(key)
        return [] if column is None else self._marks.of(column)

    def _visible(self) -> Iterator[tuple[Segment, int | None]]:
        """Each segment with the step from which a later one hides it (None: not hidden), oldest first."""
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
        newest_first = reversed(list(self._visible()))
        for part in chain.from_iterable(segment.raw_values(read, clip) for segment, clip in newest_first):
            parts.append(part)
            rows += len(part[0])
            if last is not None and rows >= last:
                break
        steps: array[int] = array("q")
        values: array[float] = array("d")
        for part_steps, part_values in reversed(parts):
            steps.extend(part_steps)
            values.extend(array("d", [GAP]) * len(part_steps) if part_values is None else part_values)
        return Series(steps, values) if last is None else Series(steps[-last:], values[-last:])


def _is_overwriting(segment: Segment, record: Record, layout: Layout) -> bool:
    found = segment.find(record.step) if layout.is_training else None
    clashes = None if found is None else _clashes(*found, record, layout)
    return clashes is not None and 2 * len(clashes) > len(layout.columns)


def _downsample_late(pyramid: Pyramid, marks: MarkRegister, record: Record, layout: Layout) -> None:
    marked = {layout.columns[mark.cell]: mark.kind for mark in record.marks}
    for column, value in zip(layout.columns, record.values, strict=True):
        if column >= 0 and (value == value or column in marked):
            pyramid.add_late(record.step, column, value, column in marked)
            if column in marked:
                marks.remember(column, Mark(record.step, marked[column]))


def _clashes(block: Block, row: int, record: Record, layout: Layout) -> list[int] | None:
    """Columns that already hold another value; None if the row only repeats values."""
    clashes, is_new = [], False
    marked = {layout.columns[mark.cell] for mark in record.marks}
    row_marks = {column for column, _ in block.row_marks(block.steps[row])}
    for column, value in zip(layout.columns, record.values, strict=True):
        if column < 0:
            continue
        held = block.cell(row, column)
        was_set = held == held or column in row_marks
        if not was_set:
            is_new = is_new or value == value or column in marked
        elif held != value and not (column in marked and column in row_marks):
            clashes.append(column)
    return clashes if clashes or is_new else None


def _fills_a_hole(segment: Segment, step: int) -> bool:
    before, after = segment.neighbours(step)
    return before is not None and after is not None and step - before == after - step
