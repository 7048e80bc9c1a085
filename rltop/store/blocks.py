"""Rows as they came: row-major blocks of doubles.

Owns the layout of raw rows; knows nothing of restarts or of meaning. A block has
a fixed width; a key that appears later is a gap in it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence

from rltop.model import GAP, NonFinite, Place

_KIND_BITS = 3
NO_TIME = GAP


class Block:
    """Up to a few hundred rows of one width, in step order.

    A block is `rows * width * 8` bytes and a little bookkeeping; one column is a
    strided slice, which runs at the speed of a copy.
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

    def append(self, step: int, time_s: float | None, place: Place, cells: array[float], is_training: bool) -> None:
        """Add a row of exactly `width` cells behind the last one."""
        self.steps.append(step)
        self.times.append(NO_TIME if time_s is None else time_s)
        self.offsets.append(place.offset)
        self.generations.append(place.generation)
        self.training.append(is_training)
        self.data.extend(cells)

    def insert(
        self, row: int, step: int, time_s: float | None, place: Place, cells: array[float], is_training: bool
    ) -> None:
        """Add a row of exactly `width` cells before row `row`."""
        self.steps.insert(row, step)
        self.times.insert(row, NO_TIME if time_s is None else time_s)
        self.offsets.insert(row, place.offset)
        self.generations.insert(row, place.generation)
        self.training.insert(row, is_training)
        self.data[row * self.width : row * self.width] = cells

    def widen(self, width: int) -> None:
        """Make room for keys that have just appeared; existing rows get gaps."""
        old, pad = self.width, array("d", [GAP]) * (width - self.width)
        data: array[float] = array("d")
        for row in range(len(self)):
            data.extend(self.data[row * old : (row + 1) * old])
            data.extend(pad)
        self.data, self.width = data, width

    @property
    def size_bytes(self) -> int:
        """What its rows take."""
        return len(self.data) * 8 + len(self) * 32

    def cut(self, rows: int) -> None:
        """Keep the first `rows` rows only."""
        for step in self.steps[rows:]:
            self.marks.pop(step, None)
        for column in (self.steps, self.times, self.offsets, self.generations, self.training):
            del column[rows:]
        del self.data[rows * self.width :]

    def extend(self, later: Block) -> None:
        """Take in the rows of a block whose steps all come after these; that block is used up."""
        width = max(self.width, later.width)
        for block in (self, later):
            if block.width < width:
                block.widen(width)
        self.steps.extend(later.steps)
        self.times.extend(later.times)
        self.offsets.extend(later.offsets)
        self.generations.extend(later.generations)
        self.training.extend(later.training)
        self.data.extend(later.data)
        self.marks.update(later.marks)

    def find(self, step: int) -> int | None:
        """The row of exactly this step, or None."""
        row = bisect_left(self.steps, step)
        return row if row < len(self.steps) and self.steps[row] == step else None

    def cell(self, row: int, column: int) -> float:
        """One value; a gap where the column came later than the block."""
        return self.data[row * self.width + column] if column < self.width else GAP

    def cells(self, row: int) -> array[float]:
        """All values of a row."""
        return self.data[row * self.width : (row + 1) * self.width]

    def column(self, column: int) -> array[float] | None:
        """One value per row, or None where the column came later than the block."""
        return self.data[column :: self.width] if column < self.width else None

    def mark(self, step: int, column: int, kind: NonFinite) -> None:
        """Remember that a cell held something that was not finite."""
        self.marks.setdefault(step, array("i")).append(column << _KIND_BITS | kind)

    def unmark(self, step: int, column: int) -> None:
        """Forget the mark of a cell that was written again."""
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
