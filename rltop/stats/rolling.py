"""Rolling statistics: medians, spreads, windows, moving averages.

Has its own median because importing `statistics` also imports fractions, decimals and random numbers, a tenth of all
imports before the first frame.
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

StepValues = Sequence[tuple[int, float]]
"""(step, value) pairs, oldest first."""
_LATELY = 12


def median_of(values: Iterable[float]) -> float:
    """Median of at least one value; for an even number, the mean of the two in the middle."""
    return middle_of(sorted(values))


def middle_of(ordered: Sequence[float]) -> float:
    """Median of sorted values; O(1)."""
    half = len(ordered) >> 1
    return ordered[half] if len(ordered) & 1 else 0.5 * (ordered[half - 1] + ordered[half])


def mad_of(values: Sequence[float]) -> float:
    """Median absolute deviation of `values` from their median, unscaled."""
    centre = median_of(values)
    return median_of([abs(value - centre) for value in values])


def least_mad_of(ordered: Sequence[float], centre: float) -> float:
    """A lower bound for the median absolute deviation from `centre`; O(1).

    At least half of the sorted values deviate by this much or more.
    """
    low = len(ordered) >> 2
    below, above = centre - ordered[low], ordered[low + (len(ordered) >> 1)] - centre
    return below if below < above else above


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard error s / sqrt(n) of at least two `values`; O(n), and less exact than `statistics`."""
    count = len(values)
    mean = sum(values) / count
    squares = sum([(apart := value - mean) * apart for value in values])  # not `** 2`, which raises on huge numbers
    return mean, math.sqrt(squares / ((count - 1) * count))


def rise_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean of the later half of at least four values minus that of the earlier half, and its standard error."""
    half = len(values) // 2
    (before, before_error), (now, now_error) = mean_and_error(values[:half]), mean_and_error(values[half:])
    return now - before, math.hypot(before_error, now_error)


def log_spread_of(values: Sequence[float]) -> float:
    """1.4826 * MAD of the logarithms of the positive values; 0.0 if there are none."""
    logs = [math.log(one) for one in values if one > 0.0]
    return MAD_TO_SIGMA * mad_of(logs) if logs else 0.0


_CHANCE, _TRIMMED_TO_SIGMA = 2.5, 1.943
"""Standard errors of an autocorrelation that may be chance; from the mean of the lower three quarters of absolute
normal values to their standard deviation."""
_FEW, _FAR = 8, 10


def swings_of(values: list[float]) -> tuple[float, float]:
    """Standard deviation and lag-one autocorrelation of a series, the latter less what is chance; a trend is not in it.

    From second differences over one and ten values; (0.0, 0.0) for fewer than eight values.
    """
    if len(values) < _FEW:
        return 0.0, 0.0
    near, far = (_second_difference(values, lag) for lag in (1, min(_FAR, len(values) // 3)))
    if far <= 0.0:
        return 0.0, 0.0
    rho = 1.0 - (near / far) ** 2 - _CHANCE / math.sqrt(len(values))
    return far * _TRIMMED_TO_SIGMA / math.sqrt(6.0), max(0.0, rho)


def _second_difference(values: list[float], lag: int) -> float:
    """Mean absolute difference without the largest quarter, which may be crashes."""
    apart = sorted([abs(a - 2.0 * b + c) for a, b, c in zip(values, values[lag:], values[2 * lag :], strict=False)])
    held = apart[: len(apart) - len(apart) // 4]
    return sum(held) / len(held)


def lower_half_of(values: Sequence[float], least: float) -> float:
    """The highest of the lower of two clusters of positive values, each of two fifths at least; else of all values.

    They are clusters if a gap between them is larger than the lower one is wide, and than `least`, as ratios.
    """
    ordered = sorted(values)
    middle = range(len(ordered) * 2 // 5 + 1, len(ordered) * 3 // 5 + 1)
    at = max(middle, key=lambda i: ordered[i] / ordered[i - 1], default=0)
    is_apart = at > 0 and ordered[at] / ordered[at - 1] > max(least, ordered[at - 1] / ordered[0])
    return ordered[at - 1] if is_apart else ordered[-1]


class Window(Cloned):
    """The last `size` values of a series.

    A sorted copy is maintained as long as the median is read after every push; otherwise it is rebuilt on demand.

    Attributes:
        least, most: bounds for all values in the window, which settle most comparisons without the median. They may be
        wider than the window's range: they are only tightened when an ordered statistic is read.
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
        """Append a finite value; when full, the oldest is dropped."""
        order, values = self._order, self._values
        if order is not None:
            if self._is_asked:  # the order was used since the last push, so it may be used again
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
        """Whether the median is above `line`; it is computed only if some value is."""
        return self.most > line and self.median > line

    @property
    def count(self) -> int:
        return len(self._values)

    @property
    def values(self) -> list[float]:
        return list(self._values)

    def values_of_median(self, base: float, values: StepValues) -> StepValues:
        """Values of the series with the median `base`, within the last pushes; empty if it is of another series."""
        ends = range(len(values), max(0, len(values) - _LATELY), -1)
        held = (values[max(0, end - self.size) : end] for end in ends)
        return next((one for one in held if median_of([value for _, value in one]) == base), ())

    @property
    def low(self) -> float:
        """Smallest value held; raises `IndexError` when empty."""
        return self._in_order()[0]

    @property
    def high(self) -> float:
        """Largest value held; raises `IndexError` when empty."""
        return self._in_order()[-1]

    @property
    def mad(self) -> float:
        """Median absolute deviation from the median, unscaled; 0.0 when empty."""
        order, centre = self._in_order(), self.median
        return median_of([abs(value - centre) for value in order]) if order else 0.0

    @property
    def least_mad(self) -> float:
        """A lower bound for `mad`; O(1)."""
        return least_mad_of(self._in_order(), self.median)

    def last(self, count: int) -> float:
        """Median of the newest `count` values (of all, if fewer are held); raises `IndexError` when empty."""
        values = self._values
        return median_of([values[-i] for i in range(1, min(count, len(values)) + 1)])


class Frozen(Cloned):
    """Baseline from the start of a series: the median of records [skip, skip + size).

    Provisional from `minimum` values on; fixed after `size` values. The first `skip` values are compilation and
    warm-up.

    Attributes:
        value: the baseline, or None while fewer than `minimum` values were seen.
        steps: the first and last step that it covers, if steps were pushed with the values.
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
        """Push a finite value unless the baseline is final; returns the baseline before, to compare the value with."""
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

    def skip_value(self) -> None:
        """Count a value without learning from it: a bad value must not move the baseline."""
        if not self.is_final:
            self._passed += 1
            self.size = max(self.size - 1, self.minimum)
            self.is_final = len(self._held) >= self.size

    def values_of_median(self, base: float, values: StepValues) -> StepValues:
        """As in `Window`, for the whole baseline or without its newest value, compared before it counted."""
        whole = values[self._skip : self._skip + len(self._held) + self._passed]
        found = (one for one in (whole, whole[:-1]) if one and median_of([value for _, value in one]) == base)
        return next(found, whole if self._passed and self.value == base else ())

    @property
    def spread(self) -> float:
        """1.4826 * MAD of the values behind the baseline; 0.0 while there are none. O(size)."""
        return MAD_TO_SIGMA * mad_of(self._held) if self._held else 0.0

    @property
    def log_spread(self) -> float:
        """The same for their logarithms, positive values only. O(size), once the baseline is final O(1)."""
        if self._log_spread is not None:
            return self._log_spread
        spread = log_spread_of(self._held)
        if self.is_final:
            self._log_spread = spread
        return spread

    def factor(self, sigmas: float) -> float:
        """Ratio to the baseline of a value `sigmas` log spreads above it; infinite on overflow."""
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
        """Push a value and return the average; the first `span` values are weighted equally."""
        if self.count < self.span:
            self.count += 1
            self.value += (value - self.value) / min(self.count, self.span)
        else:
            self.value += (value - self.value) / self.span
        return self.value
