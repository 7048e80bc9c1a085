"""Incremental statistics of one series: what is usual, and what was at the start.

Owns medians, spreads, averages and baselines that are fed value by value; a
push costs O(log W) comparisons and one O(W) memory move at W <= 64. Everything
here takes finite values, keeps no clock and clones cheaply, so that an open
step can be judged on a copy. Knows nothing of metrics or rules.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque

MAD_TO_SIGMA = 1.4826
"""Scales a median absolute deviation to the standard deviation of a normal distribution (Rousseeuw & Croux 1993)."""


def median_of(values: list[float]) -> float:
    """The median of unsorted `values`; raises `IndexError` when there are none."""
    return _middle(sorted(values))


def mad_of(values: list[float]) -> float:
    """Median absolute deviation of `values` from their median, unscaled."""
    centre = median_of(values)
    return median_of([abs(value - centre) for value in values])


def _middle(ordered: list[float]) -> float:
    half = len(ordered) >> 1
    return ordered[half] if len(ordered) & 1 else 0.5 * (ordered[half - 1] + ordered[half])


class Window:
    """The last `size` values of a series, with their median at hand.

    Attributes:
        count: values held, at most `size`.
        median: median of the values held; 0.0 while there are none.
    """

    __slots__ = ("_order", "_sorted", "count", "median", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.count = 0
        self.median = 0.0
        self._order: deque[float] = deque()
        self._sorted: list[float] = []

    def push(self, value: float) -> None:
        """Take a finite value in, and the oldest out when full."""
        ordered = self._sorted
        if self.count == self.size:
            del ordered[bisect_left(ordered, self._order.popleft())]
        else:
            self.count += 1
        self._order.append(value)
        insort(ordered, value)
        half = self.count >> 1
        self.median = ordered[half] if self.count & 1 else 0.5 * (ordered[half - 1] + ordered[half])

    @property
    def values(self) -> list[float]:
        """The values held, oldest first."""
        return list(self._order)

    @property
    def low(self) -> float:
        """Smallest value held; raises `IndexError` when there is none."""
        return self._sorted[0]

    @property
    def high(self) -> float:
        """Largest value held; raises `IndexError` when there is none."""
        return self._sorted[-1]

    @property
    def mad(self) -> float:
        """Median absolute deviation from the median, unscaled; 0.0 when empty."""
        centre = self.median
        return _middle(sorted(abs(value - centre) for value in self._sorted)) if self._sorted else 0.0

    def last(self, count: int) -> float:
        """Median of the newest `count` values (of all, when fewer are held)."""
        order = self._order
        return median_of([order[-i] for i in range(1, min(count, self.count) + 1)])

    def ratio(self, value: float) -> float:
        """`value` over the median; 0.0 when the median is not positive."""
        return value / self.median if self.median > 0.0 else 0.0

    def log_z(self, value: float, floor: float = 0.10) -> float:
        """Robust z of `value` in log space, for positive heavy-tailed series.

        `(ln value - med) / max(1.4826 * MAD, floor)` over the logarithms of the
        positive values held; the floor keeps a quiet series from turning a
        10 % wobble into an outlier. 0.0 when nothing positive is held.
        """
        logs = [math.log(held) for held in self._sorted if held > 0.0]
        if not logs or value <= 0.0:
            return 0.0
        return (math.log(value) - median_of(logs)) / max(MAD_TO_SIGMA * mad_of(logs), floor)

    def clone(self) -> Window:
        """An independent copy, O(size)."""
        twin = Window.__new__(Window)
        twin.size, twin.count, twin.median = self.size, self.count, self.median
        twin._order, twin._sorted = self._order.copy(), self._sorted.copy()
        return twin


class Frozen:
    """What a series was at the start: the median of records [skip, skip + size).

    From `minimum` values on there is a provisional median; after `size` values
    it never moves again. The first `skip` values are compile and warm-up.

    Attributes:
        value: the baseline, or None while fewer than `minimum` values were seen.
        spread: 1.4826 * MAD of the values behind it; 0.0 while there is none.
        log_spread: the same of their logarithms (positive values only).
        is_final: the baseline will not move any more.
    """

    __slots__ = ("_held", "_left", "is_final", "log_spread", "minimum", "size", "spread", "value")

    def __init__(self, skip: int = 3, size: int = 30, minimum: int = 10) -> None:
        self.size = size
        self.minimum = minimum
        self.value: float | None = None
        self.spread = 0.0
        self.log_spread = 0.0
        self.is_final = False
        self._left = skip
        self._held: list[float] = []

    def push(self, value: float) -> None:
        """Take a finite value in; free of charge once the baseline is final."""
        if self.is_final:
            return
        if self._left:
            self._left -= 1
            return
        held = self._held
        insort(held, value)
        if len(held) < self.minimum:
            return
        self.value = _middle(held)
        self.spread = MAD_TO_SIGMA * mad_of(held)
        logs = [math.log(one) for one in held if one > 0.0]
        self.log_spread = MAD_TO_SIGMA * mad_of(logs) if logs else 0.0
        self.is_final = len(held) == self.size

    def clone(self) -> Frozen:
        """An independent copy; O(1) once final."""
        twin = Frozen.__new__(Frozen)
        for name in Frozen.__slots__:
            setattr(twin, name, getattr(self, name))
        if not self.is_final:
            twin._held = self._held.copy()
        return twin


class Ema:
    """Exponential moving average: `value += (x - value) / span`, started at the first value."""

    __slots__ = ("count", "span", "value")

    def __init__(self, span: float) -> None:
        self.span = span
        self.count = 0
        self.value = 0.0

    def push(self, value: float) -> float:
        """Take a value in and return the average.

        The first `span` values are averaged evenly, so that the start does not
        hang on the first value alone.
        """
        self.count += 1
        self.value += (value - self.value) / min(self.count, self.span)
        return self.value

    def clone(self) -> Ema:
        """An independent copy."""
        twin = Ema(self.span)
        twin.count, twin.value = self.count, self.value
        return twin


class Slope:
    """Least-squares slope of the last `size` values against their index.

    O(1) per push: the sums move along with the window; the error of moving
    sums stays below 1e-9 of the values' scale over millions of pushes because
    they are rebuilt once per window.
    """

    __slots__ = ("_since", "_sum", "_values", "_weighted", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._values: deque[float] = deque()
        self._sum = 0.0
        self._weighted = 0.0
        self._since = 0

    def push(self, value: float) -> None:
        """Take a finite value in, and the oldest out when full."""
        values = self._values
        if len(values) == self.size:
            self._sum -= values.popleft()
            self._weighted -= self._sum
        self._weighted += len(values) * value
        self._sum += value
        values.append(value)
        self._since += 1
        if self._since >= self.size:
            self._since = 0
            self._sum = math.fsum(values)
            self._weighted = math.fsum(i * held for i, held in enumerate(values))

    @property
    def value(self) -> float:
        """Change per record; 0.0 below two values."""
        n = len(self._values)
        if n < 2:
            return 0.0
        centre = (n - 1) / 2
        return (self._weighted - centre * self._sum) / (n * (n * n - 1) / 12)

    def clone(self) -> Slope:
        """An independent copy, O(size)."""
        twin = Slope(self.size)
        twin._values = self._values.copy()
        twin._sum, twin._weighted, twin._since = self._sum, self._weighted, self._since
        return twin
