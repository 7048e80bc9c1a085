"""The median without the module `statistics`.

That module brings fractions, decimals and random numbers along, a tenth of what
is imported before the first frame.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterable, Sequence


def median(values: Iterable[float]) -> float:
    """The value in the middle, or the mean of the two that are; as `statistics.median`.

    Raises:
        ValueError: there are no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no median of nothing")
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2


MAD_TO_SIGMA = 1.4826
"""Scales a median absolute deviation to the standard deviation of a normal distribution (Rousseeuw & Croux 1993)."""

_ROUNDING = 4e-16
"""A width below this share of the median is lost when it is added to it."""


def median_of(values: list[float]) -> float:
    """The median of unsorted `values`; raises `IndexError` when there are none."""
    return _middle(sorted(values))


def mad_of(values: list[float]) -> float:
    """Median absolute deviation of `values` from their median, unscaled."""
    centre = median_of(values)
    return median_of([abs(value - centre) for value in values])


def mean_and_error(values: Sequence[float]) -> tuple[float, float]:
    """Mean of two `values` or more, and its standard error s / sqrt(n); O(n), and not exact as `statistics` is."""
    count = len(values)
    mean = sum(values) / count
    squares = sum([(value - mean) ** 2 for value in values])
    return mean, math.sqrt(squares / ((count - 1) * count))


def _middle(ordered: list[float]) -> float:
    half = len(ordered) >> 1
    return ordered[half] if len(ordered) & 1 else 0.5 * (ordered[half - 1] + ordered[half])


class Window:
    """The last `size` values of a series; order is made when it is asked for.

    `median` is exact and sorts when values have come since. `floor` and
    `ceiling` bound it without sorting: k values exchanged move the median by at
    most k ranks, so two values of an older order hold it for a quarter of the
    window's length. A caller that asks for the bounds first keeps a quiet
    series at one sort per `size / 4` pushes.

    Attributes:
        floor, ceiling: the median is not below, not above; 0.0 while there are no values.
    """

    __slots__ = ("_behind", "_fresh", "_order", "_values", "ceiling", "floor", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.floor = self.ceiling = 0.0
        # One more than is in the window: the value that has just left it.
        self._values: deque[float] = deque(maxlen=size + 1)
        self._order: list[float] = []
        self._behind = 0
        self._fresh = 0

    def push(self, value: float) -> None:
        """Take a finite value in, and the oldest out when full."""
        self._values.append(value)
        self._behind += 1
        if self._fresh:
            self._fresh -= 1
        else:
            self._bound()

    def extend(self, values: list[float]) -> None:
        """Push all of these, oldest first."""
        self._values.extend(values)
        self._behind += len(values)
        if len(values) <= self._fresh:
            self._fresh -= len(values)
        else:
            self._bound()

    def reach(self) -> tuple[int, float, float]:
        """(pushes, low, high): for so many pushes, of 50 at most 18, the median stays between the two."""
        if not self._behind or self._fresh < self.count >> 3:
            self._bound(self.count * 3 >> 3)
        return self._fresh, self.floor, self.ceiling

    def _bound(self, pushes: int = 0) -> None:
        order = self._sorted()
        size = len(order)
        self._fresh = fresh = pushes or size >> 2
        self.floor = order[((size - 1) >> 1) - fresh]
        self.ceiling = order[(size >> 1) + fresh]

    def _sorted(self) -> list[float]:
        if self._behind:
            # A series that is asked on every push exchanges one value, which is cheaper than to sort them all.
            if self._behind == 1:
                order = self._order.copy()
                if len(self._values) > self.size:
                    del order[bisect_left(order, self._values[0])]
                insort(order, self._values[-1])
                self._order = order
            else:
                self._order = sorted(self.values)
            self._behind = 0
        return self._order

    @property
    def count(self) -> int:
        """Values held, at most `size`."""
        return min(len(self._values), self.size)

    @property
    def median(self) -> float:
        """Median of the values held; 0.0 while there are none."""
        order = self._sorted()
        return _middle(order) if order else 0.0

    @property
    def values(self) -> list[float]:
        """The values held, oldest first."""
        held = list(self._values)
        return held[1:] if len(held) > self.size else held

    @property
    def low(self) -> float:
        """Smallest value held; raises `IndexError` when there is none."""
        return self._sorted()[0]

    @property
    def high(self) -> float:
        """Largest value held; raises `IndexError` when there is none."""
        return self._sorted()[-1]

    @property
    def mad(self) -> float:
        """Median absolute deviation from the median, unscaled; 0.0 when empty."""
        order = self._sorted()
        if not order:
            return 0.0
        centre = _middle(order)
        return _middle(sorted(abs(value - centre) for value in order))

    def has_spread(self, width: float) -> bool:
        """Whether `mad` is certainly at least `width`; cheaper than `mad`, False where it is a matter of rounding."""
        order = self._sorted()
        reach = width * (1.0 + 1e-9)
        centre = _middle(order) if order else 0.0
        if reach <= abs(centre) * _ROUNDING:
            return False
        nearer = bisect_left(order, centre + reach) - bisect_right(order, centre - reach)
        return nearer <= (len(order) - 1) >> 1 and bool(order)

    def last(self, count: int) -> float:
        """Median of the newest `count` values (of all, when fewer are held); raises `IndexError` when empty."""
        values = self._values
        return median_of([values[-i] for i in range(1, min(count, self.count) + 1)])

    def ratio(self, value: float) -> float:
        """`value` over the median; 0.0 when the median is not positive."""
        median = self.median
        return value / median if median > 0.0 else 0.0

    def log_z(self, value: float, floor: float = 0.10) -> float:
        """Robust z of `value` in log space, for positive heavy-tailed series.

        `(ln value - med) / max(1.4826 * MAD, floor)` over the logarithms of the
        positive values held; the floor keeps a quiet series from turning a
        10 % wobble into an outlier. 0.0 when nothing positive is held.
        """
        logs = [math.log(held) for held in self.values if held > 0.0]
        if not logs or value <= 0.0:
            return 0.0
        return (math.log(value) - median_of(logs)) / max(MAD_TO_SIGMA * mad_of(logs), floor)

    def clone(self) -> Window:
        """An independent copy, O(size)."""
        twin = Window(self.size)
        twin._values = self._values.copy()
        # The order is replaced, never changed in place: both may hold it.
        twin._order, twin._behind, twin._fresh = self._order, self._behind, self._fresh
        twin.floor, twin.ceiling = self.floor, self.ceiling
        return twin


class AskedWindow(Window):
    """A window whose median is asked on every push: one value is exchanged, none are sorted.

    `floor` and `ceiling` are the median itself.
    """

    __slots__ = ()

    def push(self, value: float) -> None:
        """Take a finite value in, and the oldest out when full."""
        values, order = self._values, self._order
        values.append(value)
        if len(values) > self.size:
            del order[bisect_left(order, values[0])]
        insort(order, value)
        size = len(order)
        half = size >> 1
        self.floor = self.ceiling = order[half] if size & 1 else 0.5 * (order[half - 1] + order[half])

    def extend(self, values: list[float]) -> None:
        """Push all of these, oldest first."""
        self._values.extend(values)
        self._order = sorted(self.values)
        self.floor = self.ceiling = _middle(self._order) if self._order else 0.0

    def reach(self) -> tuple[int, float, float]:
        """(pushes, low, high): for so many pushes, a quarter of what is held, the median stays between the two."""
        order = self._order
        size = len(order)
        pushes = size >> 2
        return (pushes, order[((size - 1) >> 1) - pushes], order[(size >> 1) + pushes]) if size else (0, 0.0, 0.0)

    @property
    def median(self) -> float:
        """Median of the values held; 0.0 while there are none."""
        return self.floor

    def clone(self) -> AskedWindow:
        """An independent copy, O(size)."""
        twin = AskedWindow(self.size)
        twin._values, twin._order = self._values.copy(), self._order.copy()
        twin.floor = twin.ceiling = self.floor
        return twin


class Frozen:
    """What a series was at the start: the median of records [skip, skip + size).

    From `minimum` values on there is a provisional median; after `size` values
    it never moves again. The first `skip` values are compile and warm-up.

    Attributes:
        value: the baseline, or None while fewer than `minimum` values were seen.
        is_final: the baseline will not move any more.
    """

    __slots__ = ("_held", "_left", "_log_spread", "is_final", "minimum", "size", "value")

    def __init__(self, skip: int = 3, size: int = 30, minimum: int = 10) -> None:
        self.size = size
        self.minimum = minimum
        self.value: float | None = None
        self.is_final = False
        self._left = skip
        self._held: list[float] = []
        self._log_spread: float | None = None

    def push(self, value: float) -> None:
        """Take a finite value in; free of charge once the baseline is final."""
        if self.is_final:
            return
        if self._left:
            self._left -= 1
            return
        held = self._held
        insort(held, value)
        if len(held) >= self.minimum:
            self.value = _middle(held)
            self.is_final = len(held) >= self.size

    def pass_over(self) -> None:
        """Learn nothing from a value, but count it: what is bad already says nothing of what is usual."""
        if not self.is_final:
            self.size = max(self.size - 1, self.minimum)
            self.is_final = len(self._held) >= self.size

    @property
    def spread(self) -> float:
        """1.4826 * MAD of the values behind the baseline; 0.0 while there are none. O(size)."""
        return MAD_TO_SIGMA * mad_of(self._held) if self._held else 0.0

    @property
    def log_spread(self) -> float:
        """The same of their logarithms, positive values only. O(size), once the baseline is final O(1)."""
        if self._log_spread is not None:
            return self._log_spread
        logs = [math.log(one) for one in self._held if one > 0.0]
        spread = MAD_TO_SIGMA * mad_of(logs) if logs else 0.0
        if self.is_final:
            self._log_spread = spread
        return spread

    def clone(self) -> Frozen:
        """An independent copy; O(1) once final."""
        twin = Frozen.__new__(Frozen)
        twin.size, twin.minimum, twin.value = self.size, self.minimum, self.value
        twin.is_final, twin._left = self.is_final, self._left
        twin._held = self._held if self.is_final else self._held.copy()
        twin._log_spread = self._log_spread
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
        if self.count < self.span:
            self.count += 1
            self.value += (value - self.value) / min(self.count, self.span)
        else:
            self.value += (value - self.value) / self.span
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
