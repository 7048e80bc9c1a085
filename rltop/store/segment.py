"""The part of a run between two restarts, in bounded memory: ring of raw rows, pyramid of buckets, file index.

Decides which rows stay raw and which are downsampled, more coarsely with age; the stream decides what columns mean and
when a segment ends. The buckets of a level hold twice as many rows as those of the level below. A full level merges
its oldest buckets in pairs into the next one, so a run of any length has a few thousand buckets, no level is ever
rebuilt as a whole, and the minimum and maximum of every key survive downsampling.
"""

from __future__ import annotations

import itertools
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, TypeAlias

from rltop.model import GAP, FilePosition
from rltop.store.ring import Block
from rltop.store.series import Bucket, Point, Stretch, bucket_of
from rltop.structs import NamedTuple

BASE_ROWS = 16
"""Rows per bucket of the finest level."""
LEVEL_BUCKETS = 320
"""Most buckets of a level."""
HANDED_UP = 32
"""Buckets moved to the next level at a time; bounds the longest pause."""


class Means(NamedTuple):
    """The first step of a bucket and the mean of every column in it."""

    step: int
    cells: array[float]


class _Column:
    """One key's downsampled values in one level: parallel arrays with an entry per bucket."""

    __slots__ = ("counts", "highs", "lows", "nonfinite", "sums")

    def __init__(self, buckets: int) -> None:
        self.lows = array("d", [math.inf]) * buckets
        self.highs = array("d", [-math.inf]) * buckets
        self.sums = array("d", [0.0]) * buckets
        self.counts = array("L", [0]) * buckets
        self.nonfinite = bytearray(buckets)

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self.lows, self.highs, self.sums, self.counts, self.nonfinite

    def append(self, low: float, high: float, total: float, count: int) -> None:
        self.lows.append(low)
        self.highs.append(high)
        self.sums.append(total)
        self.counts.append(count)
        self.nonfinite.append(0)

    def joined_pairs(self, buckets: int) -> _Column:
        """The first `buckets` entries, merged in pairs."""
        pairs = _Column(0)
        pairs.lows = array("d", map(min, self.lows[0:buckets:2], self.lows[1:buckets:2]))
        pairs.highs = array("d", map(max, self.highs[0:buckets:2], self.highs[1:buckets:2]))
        pairs.sums = array("d", map(float.__add__, self.sums[0:buckets:2], self.sums[1:buckets:2]))
        pairs.counts = array("L", map(int.__add__, self.counts[0:buckets:2], self.counts[1:buckets:2]))
        pairs.nonfinite = bytearray(map(int.__or__, self.nonfinite[0:buckets:2], self.nonfinite[1:buckets:2]))
        return pairs

    def extend(self, other: _Column) -> None:
        for part, more in zip(self._parts, other._parts, strict=True):
            part.extend(more)

    def drop(self, start: int | None, stop: int | None) -> None:
        for part in self._parts:
            del part[start:stop]

    def mean(self, i: int) -> float:
        if i >= len(self.counts) or not self.counts[i]:
            return math.nan
        return self.sums[i] / self.counts[i]

    def bucket(self, i: int, first_step: int, last_step: int) -> Bucket:
        low, high, total = self.lows[i], self.highs[i], self.sums[i]
        return bucket_of(first_step, last_step, low, high, total, self.counts[i], bool(self.nonfinite[i]))


class _Level:
    """All buckets of one size, oldest first."""

    __slots__ = ("columns", "first_steps", "last_steps")

    def __init__(self) -> None:
        self.first_steps: array[int] = array("q")
        self.last_steps: array[int] = array("q")
        self.columns: list[_Column] = []

    def __len__(self) -> int:
        return len(self.first_steps)

    def extend(self, later: _Level) -> None:
        for i in range(max(len(self.columns), len(later.columns))):
            self.column(i).extend(later.column(i))
        self.first_steps.extend(later.first_steps)
        self.last_steps.extend(later.last_steps)

    def joined(self) -> _Level:
        """The buckets merged in pairs; an odd last one stays unmerged."""
        found, pairs = _Level(), len(self) - len(self) % 2
        for i in range(len(self.columns)):
            column = self.column(i)
            joined = column.joined_pairs(pairs)
            column.drop(None, pairs)
            joined.extend(column)
            found.columns.append(joined)
        found.first_steps = self.first_steps[::2]
        found.last_steps = self.last_steps[1::2] + self.last_steps[pairs:]
        return found

    def column(self, column: int) -> _Column:
        """The column, padded with empty buckets for rows before its first."""
        while len(self.columns) <= column:
            self.columns.append(_Column(0))
        found = self.columns[column]
        missing = len(self.first_steps) - len(found)
        if missing:
            found.extend(_Column(missing))
        return found


class Pyramid:
    """All rows that no longer fit into the ring, per key, as min, max, sum and count."""

    def __init__(self) -> None:
        self._levels: list[_Level] = [_Level()]
        self._last_points: dict[int, Point] = {}

    @property
    def first_step(self) -> int | None:
        return next((level.first_steps[0] for level in reversed(self._levels) if len(level)), None)

    def downsample(self, block: Block) -> None:
        """Add a block whose rows are later than everything downsampled before."""
        finest, rows = self._levels[0], len(block)
        edges = [*range(0, rows, BASE_ROWS), rows]
        for column in range(block.width):
            cells = block.column(column)
            assert cells is not None
            self._downsample_column(finest.column(column), cells, edges)
            self._remember_last(column, block, cells)
        for start, stop in itertools.pairwise(edges):
            finest.first_steps.append(block.steps[start])
            finest.last_steps.append(block.steps[stop - 1])
        for step in block.marks:
            row = block.find(step)
            assert row is not None
            bucket = len(finest) - len(edges) + 1 + row // BASE_ROWS
            for column, _ in block.row_marks(step):
                finest.column(column).nonfinite[bucket] = 1
        self._hand_up()

    @staticmethod
    def _downsample_column(into: _Column, cells: array[float], edges: list[int]) -> None:
        total = sum(cells)
        has_gaps = total != total
        for start, stop in itertools.pairwise(edges):
            part: list[float] | array[float] = cells[start:stop]
            if has_gaps:
                part = [value for value in part if value == value]
                if not part:
                    into.append(math.inf, -math.inf, 0.0, 0)
                    continue
            into.append(min(part), max(part), sum(part), len(part))

    def _remember_last(self, column: int, block: Block, cells: array[float]) -> None:
        for row in range(len(cells) - 1, -1, -1):
            if cells[row] == cells[row]:
                self._last_points[column] = Point(block.steps[row], cells[row])
                return

    def _hand_up(self) -> None:
        for depth in range(len(self._levels)):
            level = self._levels[depth]
            while len(level) > LEVEL_BUCKETS:
                if depth + 1 == len(self._levels):
                    self._levels.append(_Level())
                above = self._levels[depth + 1]
                for i in range(len(level.columns)):
                    column = level.column(i)
                    above.column(i).extend(column.joined_pairs(HANDED_UP))
                    column.drop(None, HANDED_UP)
                above.first_steps.extend(level.first_steps[0:HANDED_UP:2])
                above.last_steps.extend(level.last_steps[1:HANDED_UP:2])
                del level.first_steps[:HANDED_UP], level.last_steps[:HANDED_UP]

    def cut(self, clip: int) -> None:
        """Remove every bucket that begins at or after step `clip`; one that straddles it keeps all its values."""
        for level in self._levels:
            kept = bisect_left(level.first_steps, clip)
            for column in level.columns:
                column.drop(kept, None)
            del level.first_steps[kept:], level.last_steps[kept:]
            if kept:
                level.last_steps[-1] = min(level.last_steps[-1], clip - 1)
        for key, point in list(self._last_points.items()):
            if point.step >= clip:
                del self._last_points[key]
                newest = deque((bucket for bucket in self.buckets(key) if bucket.count), maxlen=1)
                if newest:
                    self._last_points[key] = Point(newest[0].last_step, newest[0].mean)

    def extend(self, later: Pyramid) -> None:
        """Append a pyramid whose steps are all later; that one must not be used afterwards.

        The buckets here become as coarse as the coarsest level of the later one,
        because levels are in chronological order.
        """
        depth = len(later._levels) - 1
        while len(self._levels) <= depth:
            self._levels.append(_Level())
        for finer, coarser in itertools.pairwise(self._levels[: depth + 1]):
            coarser.extend(finer.joined())
        self._levels[:depth] = [_Level() for _ in range(depth)]
        for mine, other in zip(self._levels, later._levels, strict=False):
            mine.extend(other)
        self._last_points.update(later._last_points)
        self._hand_up()

    def add_late(self, step: int, column: int, value: float, is_nonfinite: bool) -> None:
        """Add a late value, at a step that is already downsampled or precedes all others.

        Args:
            value: `GAP` if it is not finite.
            is_nonfinite: the value was logged and is not finite.
        """
        oldest = next(level for level in reversed(self._levels) if len(level))
        oldest.first_steps[0] = min(oldest.first_steps[0], step)
        for level in self._levels:
            if not len(level) or not level.first_steps[0] <= step:
                continue
            bucket = next((i for i, last in enumerate(level.last_steps) if step <= last), len(level) - 1)
            cells = level.column(column)
            if is_nonfinite:
                cells.nonfinite[bucket] = 1
            else:
                cells.lows[bucket] = min(cells.lows[bucket], value)
                cells.highs[bucket] = max(cells.highs[bucket], value)
                cells.sums[bucket] += value
                cells.counts[bucket] += 1
                known = self._last_points.get(column)
                if known is None or known.step <= step:
                    self._last_points[column] = Point(step, value)
            return

    def range_of(self, step: int) -> tuple[int, int] | None:
        """First and last step of the bucket that holds `step`, else of the one before it."""
        for level in self._levels:
            if len(level) and level.first_steps[0] <= step:
                bucket = bisect_right(level.first_steps, step) - 1
                return level.first_steps[bucket], level.last_steps[bucket]
        return None

    def around(self, step: int, before: int, after: int) -> tuple[list[Means], list[Means]]:
        """Buckets before a step, and from the one that covers it on; each with first step and column means."""
        places = [(level, i) for level in reversed(self._levels) for i in range(len(level))]
        at = bisect_right(places, step, key=lambda place: place[0].first_steps[place[1]])
        if at and places[at - 1][0].last_steps[places[at - 1][1]] >= step:
            at -= 1
        found = [
            Means(level.first_steps[i], array("d", (column.mean(i) for column in level.columns)))
            for level, i in places[max(0, at - before) : at + after]
        ]
        split = min(at, before)
        return found[:split], found[split:]

    def latest(self, column: int, at: int | None) -> Point | None:
        """The newest finite value of a column: exact if it is the last one, else its bucket's mean."""
        point = self._last_points.get(column)
        if point is None or at is None or point.step <= at:
            return point
        best = None
        for bucket in self.buckets(column):
            if bucket.first_step > at:
                break
            if bucket.count:
                best = Point(min(bucket.last_step, at), bucket.mean)
        return best

    def buckets(self, column: int) -> Iterator[Bucket]:
        """Every bucket of a column, oldest first."""
        for level in reversed(self._levels):
            cells = level.column(column)
            for i, (first, last) in enumerate(zip(level.first_steps, level.last_steps, strict=True)):
                yield cells.bucket(i, first, last)


MAX_BLOCK_ROWS = 128
CELLS_PER_BLOCK = 40_000
"""Limit for the cells of a block, which is downsampled without a pause (about 3 ms)."""
WIDEN_ROWS = 32
"""A block with fewer rows is widened for a new key; a larger one is closed."""
INDEX_POSITIONS = 4096
"""File positions kept for rereading downsampled rows; when full, every second one is dropped."""


ReadBlock: TypeAlias = "Callable[[Block], array[float] | None]"
"""Reads a column of a block: a value per row, or None if the block has none."""


class _PositionIndex:
    """File positions of downsampled rows: of every row, then of every second, fourth, … as their number grows."""

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
        self._settled: deque[int] = deque()
        self._settled_bytes = 0

    @property
    def first_step(self) -> int | None:
        """The oldest step, raw or downsampled."""
        if self.pyramid is not None:
            return self.pyramid.first_step
        return self.blocks[0].steps[0] if self.blocks else None

    @property
    def first_rows(self) -> Block | None:
        """The first rows of the segment; None if they are no longer held because a later segment has begun."""
        if self.head is None and self.blocks and self.pyramid is None:
            return self.blocks[0]
        return self.head

    @property
    def has_whole_head(self) -> bool:
        """Are the first rows complete, so that only late rows can change them?"""
        return self.head is not None and bool(self.blocks) and self.blocks[-1] is not self.head

    @property
    def first_raw_step(self) -> int | None:
        return self.blocks[0].steps[0] if self.blocks else None

    @property
    def last_step(self) -> int | None:
        return self.blocks[-1].steps[-1] if self.blocks else None

    def raw_bytes(self) -> int:
        """Memory of the raw rows; blocks before the last count with their size when the next one was begun."""
        return self._settled_bytes + (self.blocks[-1].size_bytes if self.blocks else 0)

    @property
    def has_room(self) -> bool:
        """Can the newest block take another row of its own width?"""
        last = self.blocks[-1] if self.blocks else None
        return last is not None and len(last) < (self._head_rows if last is self.head else _row_limit(last.width))

    def block_for_append(self, width: int) -> Block:
        """The block for the next row of at least `width` columns."""
        if self.blocks:
            last = self.blocks[-1]
            if self.has_room:
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
        blocks = self.blocks
        if blocks and blocks[-1].steps[0] <= step:
            return len(blocks) - 1  # the usual case: a row that has just been written
        at = bisect_right(blocks, step, key=lambda block: block.steps[0])
        return at - 1 if at else None

    def around(self, step: int, before: int, after: int, clip: int | None) -> Stretch:
        """Rows on both sides of a step, all before step `clip`; downsampled ones as the means of their buckets.

        Args:
            clip: exclusive upper limit for steps; None for no limit.
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
        block = self.blocks[self._block_at(step) or 0]
        if len(cells) > block.width:
            block.widen(len(cells))
        elif len(cells) < block.width:
            cells = cells + array("d", [GAP]) * (block.width - len(cells))
        block.insert(bisect_left(block.steps, step), step, time_s, position, cells, is_training)
        return block

    def downsample_oldest(self) -> None:
        block = self.blocks.pop(0)
        self._settled_bytes -= self._settled.popleft() if self._settled else 0
        if self.pyramid is None:
            self.pyramid = Pyramid()
        self.pyramid.downsample(block)
        self._positions.add(block)

    def _settle(self, block: Block) -> None:
        self._settled.append(block.size_bytes)
        self._settled_bytes += block.size_bytes

    def end(self) -> None:
        """A later segment has begun: first rows are needed only of the newest segment."""
        self.head = None

    def cut(self, clip: int) -> None:
        """Remove every row from step `clip` on."""
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
        """Merge an older segment that ends before this one begins; both must have ended, and `older` is used up."""
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
        self._positions.prepend(older._positions)

    def parts_unchanged_by(self, steps: Collection[int]) -> list[object]:
        """The parts that rows at these steps, and at steps after the newest one, do not change."""
        last = len(self.blocks) - 1
        changed = {last, *(self._block_at(step) or 0 for step in steps)}
        kept: list[object] = [block for i, block in enumerate(self.blocks) if i not in changed]
        first = self.first_raw_step
        if self.pyramid is not None and all(first is not None and step >= first for step in steps):
            kept.append(self.pyramid)
        return [*kept, self._positions]

    def position(self, step: int) -> FilePosition | None:
        """The position to read from in order to find the row of `step`."""
        found = self.find(step)
        return self._positions.before(step) if found is None else found[0].position(found[1])

    def raw_values(self, read: ReadBlock, clip: int | None) -> Iterator[tuple[array[int], array[float] | None]]:
        """(steps, values) of each raw block below step `clip`, newest first.

        Args:
            read: reads the values of a block, one per row; None if it has none.
            clip: exclusive upper limit for steps; None for no limit.
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
