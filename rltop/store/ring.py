"""The columns of a stream, and blocks of rows.

A key gets the next free column when it first appears, and keeps it. Knows nothing of a key's
meaning, except whether training writes it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Sequence
from operator import itemgetter
from typing import Any

from rltop.model import GAP, Counts, FilePosition, NonFinite, Schema
from rltop.model.keys import is_training_key, is_training_row
from rltop.structs import Struct

_SCHEMAS_KEPT = 1024
_REFUSED_KEPT = 20_000
"""Most refused keys that are remembered; beyond that, their count is a lower bound."""

NO_STEP = -(2**63)

Gather = Callable[["array[float]"], tuple[float, ...]]


class Layout(Struct, frozen=False):
    """The target columns of a schema's cells, computed once per schema.

    Attributes:
        columns: column of each cell; -1 if the key was refused.
        last_step: highest step of a row with this schema since the last restart; `NO_STEP` if there is none.
    """

    columns: tuple[int, ...]
    is_training: bool
    has_numbers: bool = False
    last_step: int = NO_STEP
    _is_prefix: bool = False
    _width: int = -1
    _gather: Gather | None = None

    def __post_init__(self) -> None:
        known = [column for column in self.columns if column >= 0]
        self._is_prefix = list(self.columns[: len(known)]) == list(range(len(known)))
        if self._is_prefix:
            self._width = len(known)

    def arrange(self, values: array[float], width: int) -> array[float]:
        """The cells of a row in column order, padded with gaps to `width`."""
        if self._is_prefix:
            missing = width - self._width
            cells = values[: self._width] if len(values) > self._width else values
            return cells + array("d", [GAP]) * missing if missing else cells
        if self._gather is None or self._width != width:
            self._gather, self._width = _gatherer(self.columns, width), width
        return array("d", self._gather(values + array("d", [GAP])))


class Columns:
    """The columns of one stream.

    Args:
        max_keys: number of keys that get a column; later ones are only counted.

    Attributes:
        keys: by column, in order of first appearance.
        is_training: by column: training writes it, not only evaluation or bookkeeping.
    """

    def __init__(self, max_keys: int, counts: Counts) -> None:
        self.keys: list[str] = []
        self.by_key: dict[str, int] = {}
        self.is_training = bytearray()
        self._max_keys = max_keys
        self._counts = counts
        self._layouts: dict[Schema, Layout] = {}
        self._refused: set[str] = set()
        self._forgotten_step = NO_STEP

    def layout(self, schema: Schema) -> Layout:
        """The layout of `schema`; adds columns for new keys."""
        layout = self._layouts.get(schema)
        if layout is None:
            columns = tuple(self._column(key) for key in schema.keys)
            kept = [key for key, column in zip(schema.keys, columns, strict=True) if column >= 0]
            layout = Layout(columns, is_training_row(kept))
            if len(self._layouts) >= _SCHEMAS_KEPT:
                self._forgotten_step = max(other.last_step for other in self._layouts.values())
                self._layouts.clear()
            self._layouts[schema] = layout
        return layout

    def has_logged_since(self, layout: Layout, step: int) -> bool:
        """Has a training key of these rows been logged at or after `step` since the last restart?"""
        columns = {column for column in layout.columns if column >= 0 and self.is_training[column]}
        return self._forgotten_step >= step or any(
            other.last_step >= step and not columns.isdisjoint(other.columns) for other in self._layouts.values()
        )

    def forget_steps(self) -> None:
        """After a restart, any key may be logged at lower steps again."""
        self._forgotten_step = NO_STEP
        for layout in self._layouts.values():
            layout.last_step = NO_STEP

    def _column(self, key: str) -> int:
        column = self.by_key.get(key)
        if column is not None:
            return column
        if len(self.keys) >= self._max_keys:
            if len(self._refused) < _REFUSED_KEPT and key not in self._refused:
                self._refused.add(key)
                self._counts.keys_over_cap += 1
            return -1
        column = self.by_key[key] = len(self.keys)
        self.keys.append(key)
        self.is_training.append(is_training_key(key))
        return column


def _gatherer(columns: tuple[int, ...], width: int) -> Gather:
    """A function that puts the cells of a schema, followed by one gap, in column order."""
    gap = len(columns)
    source = [gap] * width
    for cell, column in enumerate(columns):
        if column >= 0:
            source[column] = cell
    if width == 1:
        only = source[0]
        return lambda values: (values[only],)
    return itemgetter(*source)


_KIND_BITS = 3
NO_TIME = GAP


class Block:
    """Up to a few hundred rows of the same width, in step order.

    Takes `rows * width * 8` bytes plus a little bookkeeping; a column is a
    strided slice, as fast as a copy.
    """

    __slots__ = ("data", "generations", "marks", "offsets", "steps", "times", "training", "width")

    def __init__(self, width: int) -> None:
        self.width = width
        self.steps: array[int] = array("q")
        self.times: array[float] = array("d")
        self.offsets: array[int] = array("q")
        self.generations: array[int] = array("i")
        self.training = bytearray()
        self.data: array[float] = array("d")
        self.marks: dict[int, array[int]] = {}

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.steps, self.times, self.offsets, self.generations, self.training

    def insert(
        self, row: int, step: int, time_s: float | None, position: FilePosition, cells: array[float], is_training: bool
    ) -> None:
        """Insert a row of exactly `width` cells before row `row`, or append it if there is no such row."""
        self.steps.insert(row, step)
        self.times.insert(row, NO_TIME if time_s is None else time_s)
        self.offsets.insert(row, position.offset)
        self.generations.insert(row, position.generation)
        self.training.insert(row, is_training)
        self.data[row * self.width : row * self.width] = cells

    def overwrite(self, row: int, columns: Sequence[int], values: Sequence[float], marked: Container[int]) -> None:
        """Overwrite cells of a row; a gap keeps the old value, unless its column is in `marked`.

        Args:
            columns: of the cells; -1 if the key was refused.
            marked: columns with a non-finite value.
        """
        step, start = self.steps[row], row * self.width
        for column, value in zip(columns, values, strict=True):
            if column < 0 or (value != value and column not in marked):
                continue
            if self.marks:
                self.unmark(step, column)
            self.data[start + column] = value

    def position(self, row: int) -> FilePosition:
        return FilePosition(self.generations[row], self.offsets[row])

    def widen(self, width: int) -> None:
        """Add columns for new keys; existing rows get gaps."""
        old, pad = self.width, array("d", [GAP]) * (width - self.width)
        data: array[float] = array("d")
        for row in range(len(self)):
            data.extend(self.data[row * old : (row + 1) * old])
            data.extend(pad)
        self.data, self.width = data, width

    @property
    def size_bytes(self) -> int:
        return len(self.data) * 8 + len(self) * 32

    def cut(self, rows: int) -> None:
        for step in self.steps[rows:]:
            self.marks.pop(step, None)
        for part in self._parts:
            del part[rows:]
        del self.data[rows * self.width :]

    def extend(self, later: Block) -> None:
        """Append the rows of a block whose steps are all later; that block must not be used afterwards."""
        width = max(self.width, later.width)
        for block in (self, later):
            if block.width < width:
                block.widen(width)
        for part, more in zip(self._parts, later._parts, strict=True):
            part.extend(more)
        self.data.extend(later.data)
        self.marks.update(later.marks)

    def find(self, step: int) -> int | None:
        row = bisect_left(self.steps, step)
        return row if row < len(self.steps) and self.steps[row] == step else None

    def cell(self, row: int, column: int) -> float:
        return self.data[row * self.width + column] if column < self.width else GAP

    def cells(self, row: int) -> array[float]:
        return self.data[row * self.width : (row + 1) * self.width]

    def column(self, column: int) -> array[float] | None:
        """One value per row, or None if the column is newer than the block."""
        return self.data[column :: self.width] if column < self.width else None

    def mark(self, step: int, column: int, kind: NonFinite) -> None:
        self.marks.setdefault(step, array("i")).append(column << _KIND_BITS | kind)

    def unmark(self, step: int, column: int) -> None:
        packed = self.marks.get(step)
        if packed is not None:
            kept = array("i", (mark for mark in packed if mark >> _KIND_BITS != column))
            if kept:
                self.marks[step] = kept
            else:
                del self.marks[step]

    def row_marks(self, step: int) -> Sequence[tuple[int, NonFinite]]:
        """(column, kind) of every non-finite cell of a step."""
        packed = self.marks.get(step)
        if packed is None:
            return ()
        return [(mark >> _KIND_BITS, NonFinite(mark & (1 << _KIND_BITS) - 1)) for mark in packed]
