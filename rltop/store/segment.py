"""The part of a run between two restarts: its ring, its pyramid, its file index.

Owns which rows are raw and which are downsampled; the stream above owns the meaning
of columns and decides when a segment ends.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

from rltop.model import GAP, FilePosition
from rltop.store.pyramid import Pyramid
from rltop.store.ring import Block
from rltop.store.series import Point, Stretch

MAX_BLOCK_ROWS = 128
CELLS_PER_BLOCK = 40_000
"""A block is downsampled in one go: its size bounds that pause (about 3 ms)."""
WIDEN_ROWS = 32
"""A block with fewer rows is widened for a new key; a larger one is closed."""
INDEX_POSITIONS = 4096
"""Positions of downsampled rows kept for re-reading; every second one is dropped when full."""


ReadBlock: TypeAlias = "Callable[[Block], array[float] | None]"
"""What to read of a block: a value for each of its rows, or None where it has none."""


class _PositionIndex:
    """Where in the file downsampled rows stand: of every second one, every fourth, … as they become many."""

    def __init__(self) -> None:
        self._steps: array[int] = array("q")
        self._positions: list[FilePosition] = []
        self._stride = 1

    def add(self, block: Block) -> None:
        for row in range(0, len(block), self._stride):
            self._steps.append(block.steps[row])
            self._positions.append(block.position(row))
        self._thin()

    def cut(self, clip: int) -> None:
        kept = bisect_left(self._steps, clip)
        del self._steps[kept:], self._positions[kept:]

    def prepend(self, older: _PositionIndex) -> None:
        self._steps = older._steps + self._steps
        self._positions = older._positions + self._positions
        self._stride = max(self._stride, older._stride)
        self._thin()

    def before(self, step: int) -> FilePosition | None:
        i = bisect_right(self._steps, step) - 1
        return self._positions[i] if i >= 0 else None

    def _thin(self) -> None:
        while len(self._positions) > INDEX_POSITIONS:
            self._steps = self._steps[::2]
            self._positions = self._positions[::2]
            self._stride *= 2


class Segment:
    """Rows in strictly increasing step order, the newest and the first `head_rows` raw; `number` counts from 0."""

    def __init__(self, number: int, head_rows: int) -> None:
        self.number = number
        self.blocks: list[Block] = []
        self.head: Block | None = None
        self.pyramid: Pyramid | None = None
        self._head_rows = head_rows
        self._positions = _PositionIndex()
        self._downsampled_rows = 0
        self._settled: deque[int] = deque()
        self._settled_bytes = 0

    @property
    def rows(self) -> int:
        return self._downsampled_rows + sum(map(len, self.blocks))

    @property
    def first_step(self) -> int | None:
        """The oldest step, raw or downsampled."""
        if self.pyramid is not None:
            return self.pyramid.first_step
        return self.blocks[0].steps[0] if self.blocks else None

    @property
    def first_rows(self) -> Block | None:
        """Its first rows; None where they are not held any more, after a later segment has begun."""
        if self.head is None and self.blocks and self.pyramid is None:
            return self.blocks[0]
        return self.head

    @property
    def has_whole_head(self) -> bool:
        """Are the first rows complete, so that only late rows can change them?"""
        return self.head is not None and bool(self.blocks) and self.blocks[-1] is not self.head

    @property
    def first_raw_step(self) -> int | None:
        """The oldest step whose row is still held as it came."""
        return self.blocks[0].steps[0] if self.blocks else None

    @property
    def last_step(self) -> int | None:
        return self.blocks[-1].steps[-1] if self.blocks else None

    def raw_bytes(self) -> int:
        """What the raw rows take; blocks but the last are as large as when the next one was begun."""
        return self._settled_bytes + (self.blocks[-1].size_bytes if self.blocks else 0)

    def block_for_append(self, width: int) -> Block:
        """The block that takes the next row of at least `width` columns."""
        last = self.blocks[-1] if self.blocks else None
        if last is not None:
            limit = self._head_rows if last is self.head else _row_limit(last.width)
            if len(last) < limit:
                if last.width >= width:
                    return last
                if len(last) < WIDEN_ROWS or last is self.head:
                    last.widen(width)
                    return last
            self._settle(last)
        block = Block(width)
        self.blocks.append(block)
        if self.head is None:
            self.head = block
        return block

    def find(self, step: int) -> tuple[Block, int] | None:
        """The raw row of exactly this step."""
        i = self._block_at(step)
        if i is None:
            return None
        row = self.blocks[i].find(step)
        return None if row is None else (self.blocks[i], row)

    def _block_at(self, step: int) -> int | None:
        low, high = 0, len(self.blocks)
        while low < high:
            middle = (low + high) // 2
            if self.blocks[middle].steps[0] <= step:
                low = middle + 1
            else:
                high = middle
        return low - 1 if low else None

    def around(self, step: int, before: int, after: int, clip: int | None) -> Stretch:
        """Rows on both sides of a step, all before step `clip`; downsampled ones as the means of their buckets.

        Args:
            clip: the step behind the last one that may be given; None: no limit.
        """
        rows: list[tuple[int, array[float]]] = []
        later: list[tuple[int, array[float]]] = []
        i = self._block_at(step)
        for block in self.blocks[i or 0 :]:
            start = bisect_left(block.steps, step)
            stop = len(block) if clip is None else bisect_left(block.steps, clip)
            later += [
                (block.steps[row], block.cells(row)) for row in range(start, min(stop, start + after - len(later)))
            ]
            if len(later) >= after:
                break
        for block in reversed(self.blocks[: (i or 0) + 1]):
            stop = bisect_left(block.steps, step)
            wanted = before - len(rows)
            rows[:0] = [(block.steps[row], block.cells(row)) for row in range(max(0, stop - wanted), stop)]
            if len(rows) >= before:
                break
        raw = len(rows) + len(later)
        if self.pyramid is not None and len(rows) < before:
            earlier, covering = self.pyramid.around(step, before - len(rows), after)
            rows[:0] = earlier
            later = [*covering, *later][:after]
        both = [*rows, *later]
        return Stretch([at for at, _ in both], [cells for _, cells in both], len(rows), len(both) > raw)

    def neighbours(self, step: int) -> tuple[int | None, int | None]:
        """The raw steps just before and just after a step that has no row."""
        i = self._block_at(step)
        if i is None:
            return None, self.first_raw_step
        block = self.blocks[i]
        row = bisect_left(block.steps, step)
        after = (
            block.steps[row] if row < len(block) else self.blocks[i + 1].steps[0] if i + 1 < len(self.blocks) else None
        )
        return (block.steps[row - 1] if row else None), after

    def insert(
        self, step: int, time_s: float | None, position: FilePosition, cells: array[float], is_training: bool
    ) -> Block:
        """Put a late row where it belongs among the raw rows."""
        block = self.blocks[self._block_at(step) or 0]
        if len(cells) > block.width:
            block.widen(len(cells))
        elif len(cells) < block.width:
            cells = cells + array("d", [GAP]) * (block.width - len(cells))
        block.insert(bisect_left(block.steps, step), step, time_s, position, cells, is_training)
        return block

    def downsample_oldest(self) -> None:
        """Move the oldest raw block into the pyramid."""
        block = self.blocks.pop(0)
        self._settled_bytes -= self._settled.popleft() if self._settled else 0
        if self.pyramid is None:
            self.pyramid = Pyramid()
        self.pyramid.downsample(block)
        self._downsampled_rows += len(block)
        self._positions.add(block)

    def _settle(self, block: Block) -> None:
        self._settled.append(block.size_bytes)
        self._settled_bytes += block.size_bytes

    def end(self) -> None:
        """A later segment has begun: the first rows are of interest for the newest one only."""
        self.head = None

    def cut(self, clip: int) -> None:
        """Forget every row from step `clip` on."""
        while self.blocks and self.blocks[-1].steps[0] >= clip:
            self.blocks.pop()
        if self.blocks:
            self.blocks[-1].cut(bisect_left(self.blocks[-1].steps, clip))
        if self.pyramid is not None:
            self.pyramid.cut(clip)
            if self.pyramid.first_step is None:
                self.pyramid = None
        self._positions.cut(clip)

    def prepend(self, older: Segment) -> None:
        """Take in an older segment, all of whose steps come before the ones here; it is used up.

        Both must have ended.
        """
        if self.pyramid is None:
            self.pyramid = older.pyramid
        else:
            while older.blocks:
                older.downsample_oldest()
            if older.pyramid is not None:
                older.pyramid.extend(self.pyramid)
                self.pyramid = older.pyramid
        blocks = older.blocks
        for block in self.blocks:
            if blocks and len(blocks[-1]) + len(block) <= _row_limit(max(block.width, blocks[-1].width)):
                blocks[-1].extend(block)
            else:
                blocks.append(block)
        self.blocks = blocks
        self._settled, self._settled_bytes = deque(), 0
        for block in blocks[:-1]:
            self._settle(block)
        self._downsampled_rows += older._downsampled_rows
        self._positions.prepend(older._positions)

    def untouched(self, steps: Collection[int]) -> list[object]:
        """What rows of these steps, and of steps behind the newest one, leave as it is."""
        last = len(self.blocks) - 1
        changed = {last, *(self._block_at(step) or 0 for step in steps)}
        kept: list[object] = [block for i, block in enumerate(self.blocks) if i not in changed]
        first = self.first_raw_step
        if self.pyramid is not None and all(first is not None and step >= first for step in steps):
            kept.append(self.pyramid)
        return [*kept, self._positions]

    def position(self, step: int) -> FilePosition | None:
        """Where to start reading the file to meet the row of `step`."""
        found = self.find(step)
        return self._positions.before(step) if found is None else found[0].position(found[1])

    def raw_values(self, read: ReadBlock, clip: int | None) -> Iterator[tuple[array[int], array[float] | None]]:
        """(steps, values) of each raw block below step `clip`, newest first.

        Args:
            read: the values of a block, a row each; None where it has none.
            clip: the step behind the last one that may be given; None: no limit.
        """
        for block in reversed(self.blocks):
            if clip is not None and block.steps[0] >= clip:
                continue
            steps, values = block.steps, read(block)
            if clip is not None and steps[-1] >= clip:
                stop = bisect_left(steps, clip)
                steps, values = steps[:stop], None if values is None else values[:stop]
            yield steps, values

    def latest(self, column: int, at: int | None) -> Point | None:
        """The newest finite value at or before step `at`."""
        for block in reversed(self.blocks):
            if column >= block.width or (at is not None and block.steps[0] > at):
                continue
            row = len(block) - 1 if at is None else bisect_right(block.steps, at) - 1
            width, data = block.width, block.data
            for i in range(row, -1, -1):
                value = data[i * width + column]
                if value == value:
                    return Point(block.steps[i], value)
        return None if self.pyramid is None else self.pyramid.latest(column, at)


def _row_limit(width: int) -> int:
    return max(16, min(MAX_BLOCK_ROWS, CELLS_PER_BLOCK // (width or 1)))
