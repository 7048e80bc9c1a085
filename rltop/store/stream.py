"""One writer's step axis: rows merged by step, split into segments at restarts.

The single place that decides what a row that goes back in time means. It knows
keys, not their meaning, save for one question that it asks of `metrics.keys`:
is this key written by training or by an evaluation that may come late?
"""

from __future__ import annotations

from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

from rltop.metrics.keys import is_bookkeeping_key, is_evaluation_key
from rltop.model import GAP, Counts, NonFinite, Place, Record, Shape
from rltop.store.blocks import Block
from rltop.store.query import StreamQueries
from rltop.store.segment import Segment
from rltop.store.series import Mark, StoreOptions

_SHAPES_KEPT = 1024
_MARKS_KEPT = 64
_RECALLED_KEPT = 64
_SEGMENTS_KEPT = 64
"""Segments kept apart; the oldest ones are joined: two writers in one file make a restart of every row."""
_REFUSED_KEPT = 20_000
"""Refused keys told apart; past that the count stands for "at least"."""


class ClosedRow(NamedTuple):
    """A row to be judged: its step will not change any more.

    Attributes:
        segment: number of the segment, from 0.
        step: the trainer's step.
        columns: for a late row, the columns that came late; else None (all).
    """

    segment: int
    step: int
    columns: tuple[int, ...] | None = None


class RawRow(NamedTuple):
    """What a row holds now.

    Attributes:
        cells: value by column, NaN = gap; shorter than the stream's keys if later keys came since.
        marks: (column, kind) of cells that were not finite.
        time_s: seconds since the epoch, or None.
        is_training: it carries a key of training, not of an evaluation alone.
    """

    cells: array[float]
    marks: Sequence[tuple[int, NonFinite]]
    time_s: float | None
    is_training: bool


@dataclass(slots=True)
class _Layout:
    """Where the cells of one shape go: worked out once per shape."""

    columns: tuple[int, ...]
    is_prefix: bool
    gather: Callable[[array[float]], tuple[float, ...]] | None
    width: int
    is_training: bool
    has_numbers: bool = False


@dataclass(slots=True)
class _KeyMarks:
    """Places where one key was not finite: the first ones and the newest ones."""

    first: list[Mark]
    newest: deque[Mark]
    count: int = 0

    def add(self, mark: Mark) -> None:
        self.count += 1
        if len(self.first) < _MARKS_KEPT:
            self.first.append(mark)
        else:
            self.newest.append(mark)

    def all(self) -> list[Mark]:
        return [*self.first, *self.newest]


class Stream(StreamQueries):
    """All rows of one writer.

    `append` is the only way in. Whoever judges rows takes them from `closed`, in
    the order of the file: a row is closed when a later step arrives or `finish`
    is called.
    """

    def __init__(self, name: str = "", options: StoreOptions | None = None) -> None:
        self.name = name
        self.options = options or StoreOptions()
        self.keys: list[str] = []
        self.segments: list[Segment] = []
        self.version = 0
        self.rows = 0
        self.last_time_s: float | None = None
        self.total_steps: int | None = None
        self.counts = Counts()
        self.closed: deque[ClosedRow] = deque()
        self._columns: dict[str, int] = {}
        self._is_training_column = bytearray()
        self._layouts: dict[Shape, _Layout] = {}
        self._numeric: set[int] = set()
        self._marks: dict[int, _KeyMarks] = {}
        self._refused: set[str] = set()
        self._recalled: OrderedDict[int, Mapping[str, float]] = OrderedDict()
        self._joined_restarts: array[int] = array("q")
        self._must_restart = False
        self._open_step: int | None = None
        self._is_open = False

    # -- writing ---------------------------------------------------------------------------------------------

    def append(self, record: Record) -> None:
        """Take in one row; decides between a new step, a merge, a late row and a restart."""
        self.version += 1
        if record.total_steps is not None:
            self.total_steps = record.total_steps
        if record.time_s is not None and (self.last_time_s is None or record.time_s > self.last_time_s):
            self.last_time_s = record.time_s
        layout = self._layouts.get(record.shape) or self._layout(record.shape)
        segment = self.segments[-1] if self.segments else None
        last = self._open_step
        if segment is None or last is None:
            self._start_segment()
            self._add_row(record, layout)
        elif self._must_restart and layout.is_training:
            self._restart(record, layout)
        elif record.step > last:
            self._close()
            self._add_row(record, layout)
        elif record.step == last:
            self._merge(segment, record, layout, is_late=False)
        else:
            self._go_back(segment, record, layout)

    def expect_restart(self) -> None:
        """The file was begun anew: the next training row opens a segment."""
        if self.segments:
            self._must_restart = True

    def finish(self) -> None:
        """Close the open step: nothing more will come."""
        self._close()

    def _close(self) -> None:
        if self._is_open and self._open_step is not None:
            self.closed.append(ClosedRow(self.segments[-1].number, self._open_step))
            self._is_open = False

    def _start_segment(self) -> None:
        self._must_restart = False
        self._recalled.clear()
        number = 0
        if self.segments:
            self.segments[-1].end()
            number = self.segments[-1].number + 1
        self.segments.append(Segment(number, self.options.head_rows))
        if len(self.segments) > _SEGMENTS_KEPT:
            self._join_oldest()

    def _join_oldest(self) -> None:
        """Make one segment of the two oldest: of the older one nothing but what a query can see."""
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

    def _segment_numbered(self, number: int) -> Segment:
        return self.segments[number - self.segments[0].number]

    def _restart(self, record: Record, layout: _Layout) -> None:
        self._close()
        self._start_segment()
        self._add_row(record, layout)

    def _add_row(self, record: Record, layout: _Layout) -> None:
        segment = self.segments[-1]
        width = len(self.keys)
        block = segment.block_for_append(width)
        cells = self._arrange(record.values, layout, block.width)
        block.append(record.step, record.time_s, record.place, cells, layout.is_training)
        self.rows += layout.is_training
        self._open_step, self._is_open = record.step, True
        if record.marks:
            self._add_marks(block, record, layout)
        elif not layout.has_numbers:
            self._numeric.update(layout.columns)
            layout.has_numbers = True
        if len(block) == 1:
            self._keep_budget()

    def _arrange(self, values: array[float], layout: _Layout, width: int) -> array[float]:
        """The cells of a row in column order, padded with gaps to `width`."""
        if layout.is_prefix:
            missing = width - layout.width
            cells = values[: layout.width] if len(values) > layout.width else values
            return cells + array("d", [GAP]) * missing if missing else cells
        if layout.gather is None or layout.width != width:
            layout.gather, layout.width = _gatherer(layout.columns, width), width
        return array("d", layout.gather(values + array("d", [GAP])))

    def _layout(self, shape: Shape) -> _Layout:
        columns = []
        for key in shape.keys:
            column = self._columns.get(key)
            if column is None:
                column = self._new_column(key)
            columns.append(column)
        known = [column for column in columns if column >= 0]
        is_prefix = columns[: len(known)] == list(range(len(known)))
        layout = _Layout(
            columns=tuple(columns),
            is_prefix=is_prefix,
            gather=None,
            width=len(known) if is_prefix else -1,
            is_training=any(self._is_training_column[column] for column in known),
        )
        if len(self._layouts) >= _SHAPES_KEPT:
            self._layouts.clear()
        self._layouts[shape] = layout
        return layout

    def _new_column(self, key: str) -> int:
        if len(self.keys) >= self.options.max_keys:
            if len(self._refused) < _REFUSED_KEPT and key not in self._refused:
                self._refused.add(key)
                self.counts.keys_over_cap += 1
            return -1
        column = len(self.keys)
        self._columns[key] = column
        self.keys.append(key)
        self._is_training_column.append(not (is_evaluation_key(key) or is_bookkeeping_key(key)))
        return column

    def _add_marks(self, block: Block, record: Record, layout: _Layout) -> None:
        marked = {layout.columns[mark.cell] for mark in record.marks}
        if not layout.has_numbers:
            self._numeric.update(column for column in layout.columns if column not in marked)
        for mark in record.marks:
            column = layout.columns[mark.cell]
            if column < 0:
                continue
            if mark.kind is NonFinite.NULL and column not in self._numeric:
                self.counts.null_values += 1
                continue
            self.counts.nonfinite_values += 1
            if mark.kind is not NonFinite.NULL:
                self._numeric.add(column)
            block.mark(record.step, column, mark.kind)
            self._remember_mark(column, Mark(record.step, mark.kind))

    def _remember_mark(self, column: int, mark: Mark) -> None:
        known = self._marks.get(column)
        if known is None:
            known = self._marks[column] = _KeyMarks([], deque(maxlen=_MARKS_KEPT))
        known.add(mark)

    def _keep_budget(self) -> None:
        """Fold the oldest rows while the raw ones exceed the memory budget.

        A row that waits in `closed` to be judged is never folded: whoever judges
        must keep up.
        """
        while sum(segment.raw_bytes() for segment in self.segments) > self.options.memory_bytes:
            oldest = next((segment for segment in self.segments if len(segment.blocks) > 1), None)
            if oldest is None:
                return
            if self.closed and (oldest.number, oldest.blocks[0].steps[-1]) >= self.closed[0][:2]:
                return
            oldest.fold_oldest()

    # -- rows that do not come in order ----------------------------------------------------------------------

    def _go_back(self, segment: Segment, record: Record, layout: _Layout) -> None:
        """A row of a step already passed: late, repeated, or a restart."""
        if not layout.is_training:
            # An evaluation of the part before a restart is late, and must not pull the restart back.
            segment = self._segment_of(record.step) or self.segments[0]
        found = segment.find(record.step)
        if found is not None:
            block, row = found
            clashes = self._clashes(block, row, record, layout)
            if clashes is None:
                self.counts.repeated_rows += 1
            elif any(self._is_training_column[column] for column in clashes):
                self._restart(record, layout)
            else:
                self._merge(segment, record, layout, is_late=True)
        elif layout.is_training and not self._fills_a_hole(segment, record.step):
            self._restart(record, layout)
        else:
            self._insert_late(segment, record, layout)

    def _clashes(self, block: Block, row: int, record: Record, layout: _Layout) -> list[int] | None:
        """Columns that hold another value already; None if the row is a mere repetition."""
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

    @staticmethod
    def _fills_a_hole(segment: Segment, step: int) -> bool:
        """Is `step` the one step missing between its neighbours at the usual distance?"""
        before, after = segment.neighbours(step)
        return before is not None and after is not None and step - before == after - step

    def _merge(self, segment: Segment, record: Record, layout: _Layout, *, is_late: bool) -> None:
        """Write the row's cells over the row of the same step: the last write wins."""
        found = segment.find(record.step)
        assert found is not None
        block, row = found
        width = len(self.keys)
        if width > block.width:
            block.widen(width)
        marked = {layout.columns[mark.cell] for mark in record.marks}
        data, start = block.data, row * block.width
        for column, value in zip(layout.columns, record.values, strict=True):
            if column < 0 or (value != value and column not in marked):
                continue
            if block.marks:
                block.unmark(record.step, column)
            data[start + column] = value
        if layout.is_training and not block.training[row]:
            block.training[row] = 1
            self.rows += 1
        if record.time_s is not None and block.times[row] != block.times[row]:
            block.times[row] = record.time_s
        if record.marks:
            self._add_marks(block, record, layout)
        elif not layout.has_numbers:
            self._numeric.update(column for column in layout.columns if column >= 0)
            layout.has_numbers = True
        if is_late:
            self._close_late(segment, record.step, layout)

    def _insert_late(self, segment: Segment, record: Record, layout: _Layout) -> None:
        first_raw = segment.first_raw_step
        if segment.pyramid is not None and first_raw is not None and record.step < first_raw:
            marked = {layout.columns[mark.cell]: mark.kind for mark in record.marks}
            for column, value in zip(layout.columns, record.values, strict=True):
                if column >= 0 and (value == value or column in marked):
                    segment.pyramid.add_late(record.step, column, value, column in marked)
                    if column in marked:
                        self._remember_mark(column, Mark(record.step, marked[column]))
            self.counts.late_rows += 1
            return
        cells = self._arrange(record.values, layout, len(self.keys))
        block = segment.insert(record.step, record.time_s, record.place, cells, layout.is_training)
        self.rows += layout.is_training
        if record.marks:
            self._add_marks(block, record, layout)
        self._close_late(segment, record.step, layout)

    def _close_late(self, segment: Segment, step: int, layout: _Layout) -> None:
        self.counts.late_rows += 1
        self._recalled.pop(step, None)
        self.closed.append(ClosedRow(segment.number, step, layout.columns))

    # -- what the judge and the reader of the file need --------------------------------------------------------

    def column(self, key: str) -> int | None:
        """The column of a key; columns never move."""
        return self._columns.get(key)

    def raw_row(self, row: ClosedRow) -> RawRow | None:
        """The row as it stands; None if it has been folded."""
        found = self._segment_numbered(row.segment).find(row.step)
        if found is None:
            return None
        block, i = found
        time_s = block.times[i]
        return RawRow(
            block.cells(i), block.row_marks(row.step), None if time_s != time_s else time_s, bool(block.training[i])
        )

    def place(self, step: int) -> Place | None:
        """Where in the file to start reading to meet the row of `step`."""
        segment = self._segment_of(step)
        return None if segment is None else segment.place(step)

    def recall(self, step: int, row: Mapping[str, float]) -> None:
        """Hold a folded row again for a while, as read anew from the file."""
        self._recalled[step] = row
        while len(self._recalled) > _RECALLED_KEPT:
            self._recalled.popitem(last=False)
        self.version += 1

    def open_row(self) -> ClosedRow | None:
        """The newest row, which may still change."""
        if not self._is_open or self._open_step is None:
            return None
        return ClosedRow(self.segments[-1].number, self._open_step)

    def mark_count(self, key: str) -> int:
        """How many values of a key were not finite."""
        column = self._columns.get(key)
        known = None if column is None else self._marks.get(column)
        return 0 if known is None else known.count

    def marks(self, key: str) -> Sequence[Mark]:
        """Where a key was not finite: the first 64 places and the newest 64."""
        column = self._columns.get(key)
        known = None if column is None else self._marks.get(column)
        return [] if known is None else known.all()


def _gatherer(columns: tuple[int, ...], width: int) -> Callable[[array[float]], tuple[float, ...]]:
    """A function that puts the cells of a shape, and a gap behind them, in column order."""
    gap = len(columns)
    source = [gap] * width
    for cell, column in enumerate(columns):
        if column >= 0:
            source[column] = cell
    if width == 1:
        only = source[0]
        return lambda values: (values[only],)
    return itemgetter(*source)
