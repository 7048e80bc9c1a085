"""Series reduced to the columns of a row of cells: what a sparkline draws.

A column has the whole range of its bucket, so that a spike is never lost. Buckets
are anchored to steps: one more record changes one column, until the row is full
and every two columns become one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from operator import sub

from rltop.model import Signal
from rltop.store.series import Bucket
from rltop.structs import NamedTuple

_SPIKE = 2.5


class Window(NamedTuple):
    """A stretch of steps cut into columns: column i covers [start + i·stride, …).

    Where columns are drawn apart, `up` and `down` say how far: what is read into
    column i is drawn at i·up/down.
    """

    start: int
    stride: int
    columns: int
    up: int = 1
    down: int = 1

    @property
    def stop(self) -> int:
        """The first step behind the window."""
        return self.start + self.stride * self.columns

    def column(self, step: int) -> int:
        """The column of a step; outside the window it is negative or too large."""
        return (step - self.start) // self.stride * self.up // self.down


_STRETCHES = ((4, 1), (3, 1), (5, 2), (2, 1), (3, 2), (4, 3), (6, 5))
"""How far columns are drawn apart where there are fewer of them than there is room, widest first.

Few and fixed, so that a new record seldom moves the whole line.
"""


def anchored_window(first: int, last: int, cadence: int, columns: int) -> Window:
    """The window over a whole run in at most `columns` columns.

    The stride is the cadence times 1, 2, 3, 4, 6, 8, 12 … (powers of two and what
    lies between them, so that a long line fills two thirds of its place or more)
    and the start a multiple of the stride: both stay where they are while records come
    in, and folded history divides evenly.

    Args:
        first: the oldest step.
        last: the newest step.
        cadence: steps between two records.
        columns: how many there are; at least 2.
    """
    cadence, columns = max(1, cadence), max(2, columns)
    for factor in _strides():
        stride = cadence * factor
        start = first - first % stride
        if (last - start) // stride < columns:
            break
    return Window(start, stride, columns)


def _strides() -> Iterator[int]:
    """Factors of the cadence: 1, 2, 3, 4, 6, 8, 12, 16 and so on."""
    yield 1
    power = 2
    while True:
        yield power
        yield power + power // 2
        power *= 2


class SparkData(NamedTuple):
    """What a sparkline is drawn from: one entry per column.

    Attributes:
        lows, highs: what is drawn of each column, usually its mean twice; NaN where
            it has no value.
        window: which steps the columns are.
        nonfinite: columns that hold a value that was not finite.
        restarts: columns in which the run was begun anew.
        reference: a threshold or baseline to be drawn as a dotted line, or None.
        is_threshold: what the reference is.
        newest: column of the newest step; the reference ends there.
        scale: the least that the line's height stands for, where a range was declared.
    """

    lows: Sequence[float]
    highs: Sequence[float]
    window: Window
    nonfinite: frozenset[int] = frozenset()
    restarts: frozenset[int] = frozenset()
    reference: float | None = None
    is_threshold: bool = False
    newest: int = 1 << 30
    scale: tuple[float, float] | None = None


def spark_data(
    buckets: Iterable[Bucket],
    window: Window,
    signal: Signal | None = None,
    *,
    marks: Iterable[int] = (),
    restarts: Iterable[int] = (),
    reference: float | None = None,
    is_threshold: bool = False,
    last: int | None = None,
    scale: tuple[float, float] | None = None,
) -> SparkData:
    """Put buckets into the columns of a window, in the unit of the signal.

    Args:
        buckets: from `Stream.buckets(key, window.stride, window.start, window.stop)`.
        window: the columns to fill.
        signal: how raw values are read; None takes them as they are.
        marks: steps on which the value was not finite.
        restarts: first steps of later segments.
        reference: in the metric's own unit.
        is_threshold: the reference is a threshold, not a baseline.
        last: the newest step of the run.
        scale: the declared range of the values, in the metric's own unit.
    """
    nan = math.nan
    lows, means, highs = [nan] * window.columns, [nan] * window.columns, [nan] * window.columns
    bad = {window.column(step) for step in marks}
    factor, shift = (signal.scale, signal.shift) if signal is not None else (1.0, 0.0)
    start, stride, columns = window.start, window.stride, window.columns
    for bucket in buckets:
        column = (bucket.first_step - start) // stride
        if not 0 <= column < columns:
            continue
        if bucket.has_nonfinite:
            bad.add(column)
        if bucket.count:
            lows[column] = bucket.low * factor + shift
            highs[column] = bucket.high * factor + shift
            means[column] = bucket.mean * factor + shift
    if factor < 0:
        lows, highs = highs, lows
    lows, highs = _calm(lows, means, highs)
    again = frozenset(window.column(step) for step in restarts)
    newest = window.columns if last is None else window.column(last)
    return SparkData(lows, highs, window, frozenset(bad), again, reference, is_threshold, newest, scale)


def _calm(lows: list[float], means: list[float], highs: list[float]) -> tuple[list[float], list[float]]:
    """Ranges as drawn: the mean, stretched to an extreme that stands out.

    A bucket of many noisy records would fill its column from top to bottom and
    hide the trend. An extreme that lies more than `_SPIKE` times as far from its
    mean as is usual for this line is drawn, so that no spike is lost.
    """
    above, below = _distances(highs, means), _distances(means, lows)
    up, down = _spike_limit(above), _spike_limit(below)
    calm_lows, calm_highs = means, means
    if below and below[-1] > down:
        calm_lows = [low if mean - low > down else mean for low, mean in zip(lows, means, strict=True)]
    if above and above[-1] > up:
        calm_highs = [high if high - mean > up else mean for high, mean in zip(highs, means, strict=True)]
    return calm_lows, calm_highs


def _distances(upper: list[float], lower: list[float]) -> list[float]:
    """By how much one lies above the other, where it does, in order; loops of C."""
    return sorted(filter((0.0).__lt__, map(sub, upper, lower)))


def _spike_limit(distances: list[float]) -> float:
    return _SPIKE * distances[(len(distances) - 1) // 2] if len(distances) > 1 else 0.0


def fitted(data: SparkData, columns: int) -> SparkData:
    """The same line in exactly `columns` columns, filling two thirds of them or more.

    Columns are merged and anchored to steps as in `anchored_window`; a short line is
    drawn out instead, up to four columns to a record.
    """
    return _stretched(_merged(data, columns))


def _merged(data: SparkData, columns: int) -> SparkData:
    if len(data.lows) == columns:
        return data
    window = data.window
    highs = data.highs
    used = next((i for i in range(len(highs) - 1, 0, -1) if highs[i] == highs[i]), 0)
    used = max(used, *data.nonfinite, *data.restarts) if data.nonfinite or data.restarts else used
    last = window.start + used * window.stride
    for merge in _strides():
        start = window.start - window.start % (window.stride * merge)
        if (last - start) // (window.stride * merge) < max(2, columns):
            break
    if merge == 1:
        return _cut(data, columns)
    shift = (window.start - start) // window.stride
    nan = math.nan
    lows, sums, highs, counts = [nan] * columns, [0.0] * columns, [nan] * columns, [0] * columns
    for i, (low, high) in enumerate(zip(data.lows, data.highs, strict=True)):
        to = (i + shift) // merge
        if math.isnan(high) or to >= columns:
            continue
        lows[to] = low if not counts[to] else min(lows[to], low)
        highs[to] = high if not counts[to] else max(highs[to], high)
        sums[to] += low / 2 + high / 2
        counts[to] += 1
    means = [total / count if count else nan for total, count in zip(sums, counts, strict=True)]
    calm_lows, calm_highs = _calm(lows, means, highs)
    # What the axis reaches to is drawn, whether it stands out or not.
    bottom, top = min(lows, default=nan, key=_last_if_gap), max(highs, default=nan, key=lambda v: -_last_if_gap(-v))
    lows = [bottom if low == bottom else calm for low, calm in zip(lows, calm_lows, strict=True)]
    highs = [top if high == top else calm for high, calm in zip(highs, calm_highs, strict=True)]
    return data._replace(
        lows=lows,
        highs=highs,
        window=Window(start, window.stride * merge, columns),
        nonfinite=frozenset((i + shift) // merge for i in data.nonfinite),
        restarts=frozenset((i + shift) // merge for i in data.restarts),
        newest=(data.newest + shift) // merge,
    )


def _stretched(data: SparkData) -> SparkData:
    """The line drawn over more of its place, where its columns fill little of it; the gaps are bridged."""
    room = len(data.lows)
    used = min(room, data.newest + 1)
    found = next(((up, down) for up, down in _STRETCHES if (used - 1) * up // down < room), None)
    if found is None or used < 2:
        return data
    up, down = found
    lows, highs = [math.nan] * room, [math.nan] * room
    for to, low, high in zip(_apart(used, up, down), data.lows, data.highs, strict=False):
        lows[to], highs[to] = low, high
    return data._replace(
        lows=lows,
        highs=highs,
        window=data.window._replace(up=up, down=down),
        nonfinite=frozenset(i * up // down for i in data.nonfinite),
        restarts=frozenset(i * up // down for i in data.restarts),
        newest=data.newest * up // down,
    )


@lru_cache(maxsize=64)
def _apart(count: int, up: int, down: int) -> Sequence[int]:
    """Where `count` columns stand when they are drawn apart."""
    return [i * up // down for i in range(count)]


def _last_if_gap(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _cut(data: SparkData, columns: int) -> SparkData:
    """Exactly `columns` columns, the unused ones at the end cut off or added."""
    gaps = [math.nan] * max(0, columns - len(data.lows))
    window = data.window._replace(columns=columns)
    return data._replace(lows=[*data.lows[:columns], *gaps], highs=[*data.highs[:columns], *gaps], window=window)
