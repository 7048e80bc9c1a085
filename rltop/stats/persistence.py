"""Persistence, trend and two-writer detectors, fed value by value.

Persistence (n of the last m), slow trends, and rows that go back because a second process writes the same file.
Cloneable and without a clock; the caller decides what is measured and what counts as bad.
"""

from __future__ import annotations

import math
from collections import deque

from rltop.stats.rolling import median_of
from rltop.structs import Cloned


class NOfMCounter(Cloned):
    """True while at least `n` of the last `m` pushes were true."""

    __slots__ = ("_mask", "bits", "m", "n")

    def __init__(self, n: int, m: int) -> None:
        self.n = n
        self.m = m
        self.bits = 0
        self._mask = (1 << m) - 1

    def push(self, is_true: bool) -> bool:
        """Push a value and return whether at least `n` of the last `m` are true."""
        self.bits = bits = ((self.bits << 1) | is_true) & self._mask
        return bits.bit_count() >= self.n

    def clear(self) -> None:
        self.bits = 0

    @property
    def oldest(self) -> int:
        """How many pushes ago the oldest true value in the window was; -1 if there is none."""
        return self.bits.bit_length() - 1


class DatedNOfMCounter(NOfMCounter):
    """An `NOfMCounter` that records where each push was made.

    Attributes:
        places: (record, step) of the last `m` pushes, oldest first.
    """

    __slots__ = ("places",)

    def __init__(self, n: int, m: int) -> None:
        super().__init__(n, m)
        self.places: deque[tuple[int, int]] = deque(maxlen=m)

    def push_at(self, is_true: bool, record: int, step: int) -> bool:
        self.places.append((record, step))
        return self.push(is_true)

    @property
    def began(self) -> tuple[int, int] | None:
        """(Record, step) of the oldest true push in the window, or None."""
        return self.places[-1 - self.oldest] if self.bits else None


class BlockTrend(Cloned):
    """A slow trend: Mann-Kendall over medians of consecutive blocks.

    Blocks make the test robust to single spikes and cost one sort per `block` records. With 10 blocks |S| >= 25 of 45
    is significant at p < 0.03 two-sided (Kendall's exact distribution); as a ratio, S / pairs >= 0.55.

    Attributes:
        medians: block medians, oldest first, at most `count`.
    """

    __slots__ = ("_open", "block", "count", "medians")

    def __init__(self, block: int = 10, count: int = 10) -> None:
        self.block = block
        self.count = count
        self.medians: list[float] = []
        self._open: list[float] = []

    def push(self, value: float) -> bool:
        """Push a finite value; returns True if it completed a block."""
        self._open.append(value)
        if len(self._open) < self.block:
            return False
        self.medians.append(median_of(self._open))
        self._open = []
        if len(self.medians) > self.count:
            del self.medians[0]
        return True

    @property
    def is_full(self) -> bool:
        return len(self.medians) == self.count

    @property
    def monotony(self) -> float:
        """Kendall's tau of the block medians against time, -1 … 1; 0.0 below three blocks."""
        held = self.medians
        n = len(held)
        if n < 3:
            return 0.0
        score = sum(
            math.copysign(1.0, later - earlier) if later != earlier else 0.0
            for i, earlier in enumerate(held)
            for later in held[i + 1 :]
        )
        return score / (n * (n - 1) / 2)

    @property
    def growth(self) -> float:
        """Median of the last three blocks over that of the first three; 0.0 if undefined."""
        if len(self.medians) < 6:
            return 0.0
        first = median_of(self.medians[:3])
        return median_of(self.medians[-3:]) / first if first > 0.0 else 0.0


SHORT_ROWS = 8
"""Maximum rows between two steps back: two writers that write up to four rows at once."""
MOST_WRITERS = 5
"""Maximum number of writers that are told apart."""
CERTAIN_AFTER = 12
"""This many short returns in a row prove two writers."""
QUICK_ROWS, QUICK_TIMES = 3, 3
"""So do this many in a row within so few rows each: no run crashes, restarts and logs that fast."""


class Crossing(Cloned):
    """Detects two writers of one file from rows with decreasing steps.

    A restarted run goes back to a checkpoint, logs for a while, and if it dies early, goes back to the same one. If two
    processes write one file, it goes back every few rows, each time to a later step.

    Attributes:
        is_certain: the newest row that went back came from another writer.
    """

    def __init__(self) -> None:
        self.is_certain = False
        self._heads: list[int] = []
        self._count = self._quick = 0

    def note(self, step: int, rows: int) -> bool:
        """Record a row that went back to `step`, `rows` after the last such row; are two writers certain now?"""
        behind = [head for head in self._heads if head < step]
        if behind:
            # This row continues the nearest writer behind it.
            self._heads.remove(max(behind))
        self._heads = [*self._heads, step][-MOST_WRITERS + 1 :]
        self._count = self._count + 1 if behind and rows <= SHORT_ROWS else 0
        self._quick = self._quick + 1 if behind and rows <= QUICK_ROWS else 0
        self.is_certain = self._count >= CERTAIN_AFTER or self._quick >= QUICK_TIMES
        return self.is_certain
