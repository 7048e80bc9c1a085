"""A whole segment in bounded memory: downsampled rows, coarser with age.

Each level holds buckets of twice the rows of the level below it. A full level hands its oldest buckets, joined in
pairs, to the next one: a run of any length is a few thousand buckets, no level is ever rebuilt at once, and the lowest
and highest value of every key survive every downsampling.
"""

from __future__ import annotations

import itertools
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator

from rltop.store.ring import Block
from rltop.store.series import Bucket, Point
from rltop.structs import NamedTuple

BASE_ROWS = 16
"""Rows in a bucket of the finest level."""
LEVEL_BUCKETS = 320
"""Buckets a level may hold."""
HANDED_UP = 32
"""Buckets handed to the next level at a time: bounds the longest pause."""


class Means(NamedTuple):
    """The first step of a bucket and the mean of every column in it."""

    step: int
    cells: array[float]


class _Column:
    """One key's downsampled values in one level: parallel arrays, one entry a bucket."""

    __slots__ = ("counts", "highs", "lows", "nonfinite", "sums")

    def __init__(self, buckets: int) -> None:
        self.lows = array("d", [math.inf]) * buckets
        self.highs = array("d", [-math.inf]) * buckets
        self.sums = array("d", [0.0]) * buckets
        self.counts = array("L", [0]) * buckets
        self.nonfinite = bytearray(buckets)

    def __len__(self) -> int:
        return len(self.counts)

    def extend_empty(self, buckets: int) -> None:
        self.lows.extend([math.inf] * buckets)
        self.highs.extend([-math.inf] * buckets)
        self.sums.extend([0.0] * buckets)
        self.counts.extend([0] * buckets)
        self.nonfinite.extend(bytes(buckets))

    def append(self, low: float, high: float, total: float, count: int) -> None:
        self.lows.append(low)
        self.highs.append(high)
        self.sums.append(total)
        self.counts.append(count)
        self.nonfinite.append(0)

    def joined_pairs(self, buckets: int) -> _Column:
        """The first `buckets` entries, joined in pairs."""
        pairs = _Column(0)
        pairs.lows = array("d", map(min, self.lows[0:buckets:2], self.lows[1:buckets:2]))
        pairs.highs = array("d", map(max, self.highs[0:buckets:2], self.highs[1:buckets:2]))
        pairs.sums = array("d", map(float.__add__, self.sums[0:buckets:2], self.sums[1:buckets:2]))
        pairs.counts = array("L", map(int.__add__, self.counts[0:buckets:2], self.counts[1:buckets:2]))
        pairs.nonfinite = bytearray(map(int.__or__, self.nonfinite[0:buckets:2], self.nonfinite[1:buckets:2]))
        return pairs

    def extend(self, other: _Column) -> None:
        self.lows.extend(other.lows)
        self.highs.extend(other.highs)
        self.sums.extend(other.sums)
        self.counts.extend(other.counts)
        self.nonfinite.extend(other.nonfinite)

    def drop_first(self, buckets: int) -> None:
        del self.lows[:buckets], self.highs[:buckets], self.sums[:buckets], self.counts[:buckets]
        del self.nonfinite[:buckets]

    def keep_first(self, buckets: int) -> None:
        del self.lows[buckets:], self.highs[buckets:], self.sums[buckets:], self.counts[buckets:]
        del self.nonfinite[buckets:]

    def mean(self, i: int) -> float:
        if i >= len(self.counts) or not self.counts[i]:
            return math.nan
        return self.sums[i] / self.counts[i]

    def bucket(self, i: int, first_step: int, last_step: int) -> Bucket:
        count = self.counts[i]
        if not count:
            return Bucket(first_step, last_step, math.nan, math.nan, math.nan, 0, bool(self.nonfinite[i]))
        mean = self.sums[i] / count
        if not math.isfinite(mean):
            mean = self.lows[i] / 2 + self.highs[i] / 2
        return Bucket(first_step, last_step, self.lows[i], self.highs[i], mean, count, bool(self.nonfinite[i]))


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
        """Take in buckets that all come after the ones here."""
        for i in range(max(len(self.columns), len(later.columns))):
            self.column(i).extend(later.column(i))
        self.first_steps.extend(later.first_steps)
        self.last_steps.extend(later.last_steps)

    def joined(self) -> _Level:
        """Its buckets joined in pairs; the last one of an odd number stays as it is."""
        found, pairs = _Level(), len(self) - len(self) % 2
        for i in range(len(self.columns)):
            column = self.column(i)
            joined = column.joined_pairs(pairs)
            column.drop_first(pairs)
            joined.extend(column)
            found.columns.append(joined)
        found.first_steps = self.first_steps[::2]
        found.last_steps = self.last_steps[1::2] + self.last_steps[pairs:]
        return found

    def column(self, column: int) -> _Column:
        """The column, created with empty buckets where it came late."""
        while len(self.columns) <= column:
            self.columns.append(_Column(0))
        found = self.columns[column]
        missing = len(self.first_steps) - len(found)
        if missing:
            found.extend_empty(missing)
        return found


class Pyramid:
    """Everything that no longer fits the ring, per key, as min, max, sum and count."""

    def __init__(self) -> None:
        self._levels: list[_Level] = [_Level()]
        self._last_points: dict[int, Point] = {}
        self.rows = 0

    @property
    def first_step(self) -> int | None:
        for level in reversed(self._levels):
            if len(level):
                return level.first_steps[0]
        return None

    @property
    def last_step(self) -> int | None:
        for level in self._levels:
            if len(level):
                return level.last_steps[-1]
        return None

    def downsample(self, block: Block) -> None:
        """Take in a block whose rows all come after everything downsampled before."""
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
        self.rows += rows
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
                    column.drop_first(HANDED_UP)
                above.first_steps.extend(level.first_steps[0:HANDED_UP:2])
                above.last_steps.extend(level.last_steps[1:HANDED_UP:2])
                del level.first_steps[:HANDED_UP], level.last_steps[:HANDED_UP]

    def cut(self, clip: int) -> None:
        """Forget every bucket that begins at step `clip` or later; one across it keeps all that it has."""
        for level in self._levels:
            kept = bisect_left(level.first_steps, clip)
            for column in level.columns:
                column.keep_first(kept)
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
        """Take in a pyramid whose steps all come after the ones here; that one is used up.

        What is here becomes as coarse as the coarsest level of the later one, because
        levels stand in the order of time.
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
        self.rows += later.rows
        self._hand_up()

    def add_late(self, step: int, column: int, value: float, is_nonfinite: bool) -> None:
        """Take in one value of a step that has been downsampled already, or that lies before all of them.

        Args:
            value: `GAP` where it was not finite.
            is_nonfinite: it was logged and is not finite.
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
        """First and last step of the bucket that holds `step`, or of the last one before it."""
        for level in self._levels:
            if len(level) and level.first_steps[0] <= step:
                bucket = bisect_right(level.first_steps, step) - 1
                return level.first_steps[bucket], level.last_steps[bucket]
        return None

    def around(self, step: int, before: int, after: int) -> tuple[list[Means], list[Means]]:
        """The buckets before a step, and those from the one that covers it on: first step, and every column's mean."""
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
        """The newest finite value of a column: as logged where it is the last one, else the mean of its bucket."""
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
