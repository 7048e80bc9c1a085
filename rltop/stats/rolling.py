"""Rolling statistics: medians, spreads, windows, moving averages.

The median is our own: the module `statistics` brings fractions, decimals and random
numbers along, a tenth of what is imported before the first frame.
"""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Self

from rltop.structs import Cloned

MAD_TO_SIGMA = 1.4826
"""Scales a median absolute deviation to the standard deviation of a normal distribution (Rousseeuw & Croux 1993)."""

Stepped = Sequence[tuple[int, float]]
"""Values with their steps, oldest first."""
_LATELY = 12


def median_of(values: Iterable[float]) -> float:
    """The value in the middle, or the mean of the two that are; there must be one."""
    return middle_of(sorted(values))


def middle_of(ordered: Sequence[float]) -> float:
    """Median of values in order; O(1)."""
    half = len(ordered) >> 1
    return ordered[half] if len(ordered) & 1 else 0.5 * (ordered[half - 1] + ordered[half])


def mad_of(values: Sequence[float]) -> float:
    """Median absolute deviation of `values` from their median, unscaled."""
    centre = median_of(values)
    return median_of([abs(value - centre) for value in values])


def least_mad_of(ordered: Sequence[float], centre: float) -> float:
    """No more than the median absolute deviation from `centre`: half of the values, or more, deviate by this; O(1)."""
    low = len(ordered) >> 2
    below, above = centre - ordered[low], ordered[low + (len(ordered) >> 1)] - centre
    return below if below < above else above


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean of two `values` or more, and its standard error s / sqrt(n); O(n), and not exact as `statistics` is."""
    count = len(values)
    mean = sum(values) / count
    squares = sum([(apart := value - mean) * apart for value in values])  # as powers, huge numbers would raise
    return mean, math.sqrt(squares / ((count - 1) * count))


def rise_and_error(values: Sequence[float]) -> tuple[float, float]:
    """How far the mean of the later half of four values or more is above that of the earlier; its standard error."""
    half = len(values) // 2
    (before, before_error), (now, now_error) = mean_and_error(values[:half]), mean_and_error(values[half:])
    return now - before, math.hypot(before_error, now_error)


def log_spread_of(values: Sequence[float]) -> float:
    """1.4826 * MAD of the logarithms of those above 0; 0.0 where there are none."""
    logs = [math.log(one) for one in values if one > 0.0]
    return MAD_TO_SIGMA * mad_of(logs) if logs else 0.0


class Window(Cloned):
    """The last `size` values of a series.

    Their order is kept as values come and go while somebody asks for the median after each of them, else worked out.

    Attributes:
        least, most: no value that is held is below or above these. Most records are ruled out by them alone, so that
            nobody asks; they are those of all values since somebody did, or before.
    """

    __slots__ = ("_is_asked", "_median", "_order", "_values", "least", "most", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.least, self.most = math.inf, -math.inf
        self._values: deque[float] = deque(maxlen=size)
        self._order: list[float] | None = []
        self._median = 0.0
        self._is_asked = True

    def push(self, value: float) -> None:
        """Take a finite value in, and the oldest out when full."""
        order, values = self._order, self._values
        if order is not None:
            if self._is_asked:  # for the order, since the last value: somebody may be again
                self._is_asked = False
                if len(values) == self.size:
                    del order[bisect_left(order, values[0])]
                insort(order, value)
            else:
                self._order = None
        values.append(value)
        if value < self.least:  # noqa: PLR1730 - twice as fast as min(), and this is on the path of every record
            self.least = value
        if value > self.most:  # noqa: PLR1730
            self.most = value

    def _in_order(self) -> list[float]:
        order = self._order
        if order is None:
            self._order = order = sorted(self._values)
        if not self._is_asked:
            self._is_asked = True
            self.least, self.most, self._median = order[0], order[-1], middle_of(order)
        return order

    @property
    def median(self) -> float:
        """Exact; 0.0 when empty."""
        if not self._is_asked:
            self._in_order()
        return self._median

    def is_above(self, line: float) -> bool:
        """Whether the median is, which is worked out only where a value is."""
        return self.most > line and self.median > line

    @property
    def count(self) -> int:
        return len(self._values)

    @property
    def values(self) -> list[float]:
        return list(self._values)

    def behind(self, base: float, values: Stepped) -> Stepped:
        """Which of the newest of a series a median of it was of, a moment ago; none where that is of another one."""
        ends = range(len(values), max(0, len(values) - _LATELY), -1)
        held = (values[max(0, end - self.size) : end] for end in ends)
        return next((one for one in held if median_of([value for _, value in one]) == base), ())

    @property
    def low(self) -> float:
        """Smallest value held; raises `IndexError` when there is none."""
        return self._in_order()[0]

    @property
    def high(self) -> float:
        """Largest value held; raises `IndexError` when there is none."""
        return self._in_order()[-1]

    @property
    def mad(self) -> float:
        """Median absolute deviation from the median, unscaled; 0.0 when empty."""
        order, centre = self._in_order(), self.median
        return median_of([abs(value - centre) for value in order]) if order else 0.0

    @property
    def least_mad(self) -> float:
        """The median absolute deviation is no less; O(1)."""
        return least_mad_of(self._in_order(), self.median)

    def last(self, count: int) -> float:
        """Median of the newest `count` values (of all, when fewer are held); raises `IndexError` when empty."""
        values = self._values
        return median_of([values[-i] for i in range(1, min(count, len(values)) + 1)])


class Frozen(Cloned):
    """What a series was at the start: the median of records [skip, skip + size).

    From `minimum` values on there is a provisional median; after `size` values
    it never moves again. The first `skip` values are compile and warm-up.

    Attributes:
        value: the baseline, or None while fewer than `minimum` values were seen.
        steps: the first and the last that it is of, where they came with the values.
    """

    __slots__ = ("_held", "_left", "_log_spread", "_passed", "_skip", "is_final", "minimum", "size", "steps", "value")

    def __init__(self, skip: int = 3, size: int = 30, minimum: int = 10) -> None:
        self.size = size
        self.minimum = minimum
        self.value: float | None = None
        self.steps: tuple[int, int] | None = None
        self.is_final = False
        self._skip = self._left = skip
        self._held: list[float] = []
        self._passed = 0
        self._log_spread: float | None = None

    def push(self, value: float, step: int | None = None) -> float | None:
        """Take a finite value in, unless the baseline is final; what it is to be compared with: the baseline before."""
        before = self.value
        if self.is_final:
            return before
        if self._left:
            self._left -= 1
            return before
        held = self._held
        insort(held, value)
        if step is not None:
            self.steps = (step if self.steps is None else self.steps[0]), step
        if len(held) >= self.minimum:
            self.value = median_of(held)
            self.is_final = len(held) >= self.size
        return before

    def pass_over(self) -> None:
        """Count a value without learning from it: a bad value must not move the baseline."""
        if not self.is_final:
            self._passed += 1
            self.size = max(self.size - 1, self.minimum)
            self.is_final = len(self._held) >= self.size

    def behind(self, base: float, values: Stepped) -> Stepped:
        """As of a `Window`; of the whole series, without its newest value too, as that is compared before it counts."""
        whole = values[self._skip : self._skip + len(self._held) + self._passed]
        found = (one for one in (whole, whole[:-1]) if one and median_of([value for _, value in one]) == base)
        return next(found, whole if self._passed and self.value == base else ())

    @property
    def spread(self) -> float:
        """1.4826 * MAD of the values behind the baseline; 0.0 while there are none. O(size)."""
        return MAD_TO_SIGMA * mad_of(self._held) if self._held else 0.0

    @property
    def log_spread(self) -> float:
        """The same of their logarithms, positive values only. O(size), once the baseline is final O(1)."""
        if self._log_spread is not None:
            return self._log_spread
        spread = log_spread_of(self._held)
        if self.is_final:
            self._log_spread = spread
        return spread

    def factor(self, sigmas: float) -> float:
        """By what a value differs that is so many of those spreads above; infinite where that is no float."""
        try:
            return math.exp(sigmas * self.log_spread)
        except OverflowError:
            return math.inf

    def clone(self) -> Self:
        return self if self.is_final else super().clone()


class Ema(Cloned):
    """Exponential moving average: `value += (x - value) / span`, started at the first value."""

    __slots__ = ("count", "span", "value")

    def __init__(self, span: float) -> None:
        self.span = span
        self.count = 0
        self.value = 0.0

    def push(self, value: float) -> float:
        """Take a value in and return the average; the first `span` values are averaged evenly."""
        if self.count < self.span:
            self.count += 1
            self.value += (value - self.value) / min(self.count, self.span)
        else:
            self.value += (value - self.value) / self.span
        return self.value
