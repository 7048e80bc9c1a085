"""Series reduced to the columns of a row of cells: what a sparkline draws.

A column has the whole range of its bucket, so that a spike is never lost. Buckets
are anchored to steps: one more record changes one column, until the row is full
and every two columns become one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import filterfalse
from operator import sub
from typing import NamedTuple

from rltop.model import Signal
from rltop.rows.glyphs import Glyphs, glyph_set
from rltop.rows.rows import Line, Piece
from rltop.store.series import Bucket

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
    in, and downsampled history divides evenly.

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
        restarts: columns in which the run restarted.
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

    Args:
        data: a line.
        columns: how many, two to a cell.
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


_DOTS = 4
_TOP = _DOTS - 1
_LEFT_BITS = (0x40, 0x04, 0x02, 0x01)
_RIGHT_BITS = (0x80, 0x20, 0x10, 0x08)
_ASCII_LEVELS = "_.-'"
_FLAT = 1e-9
_SAFE_SMALL, _SAFE_LARGE = 1e-280, 1e290


def _masks(bits: tuple[int, ...]) -> tuple[int, ...]:
    """The mask of every code of a column; the last one, `_EMPTY`, is no dot."""
    return (*(sum(bits[low : high + 1]) for low in range(_DOTS) for high in range(_DOTS)), 0)


_EMPTY = _DOTS * _DOTS
_PAIRS = tuple(
    tuple(chr(0x2800 | left | right) if left | right else " " for right in _masks(_RIGHT_BITS))
    for left in _masks(_LEFT_BITS)
)
"""The cell for the codes of its left and right column."""


def _heights(data: SparkData) -> tuple[bytes, int | None]:
    """A code per column (see `_code`), not yet joined to its neighbours, and the dot row of the reference."""
    highs = list(filterfalse(math.isnan, data.highs))
    if not highs:
        return bytes([_EMPTY]) * len(data.highs), None
    low, high = min(filterfalse(math.isnan, data.lows)), max(highs)
    if data.scale is not None:
        low, high = min(low, data.scale[0]), max(high, data.scale[1])
    reference = data.reference
    if reference is not None and data.is_threshold:
        low, high = min(low, reference), max(high, reference)
    size = max(abs(low), abs(high))
    if size and not _SAFE_SMALL < size < _SAFE_LARGE:
        return _heights(_rescaled(data, size))
    spread = high - low
    if spread <= _FLAT * size:
        low, spread, reference = low - 1.0, float(_TOP), None
    factor = _TOP / spread
    codes = bytes(
        [
            _EMPTY if b != b else int((a - low) * factor + 0.5) * _DOTS + int((b - low) * factor + 0.5)
            for a, b in zip(data.lows, data.highs, strict=True)
        ]
    )
    if reference is None or not low <= reference <= high:
        return codes, None
    return codes, int((reference - low) * factor + 0.5)


def _rescaled(data: SparkData, size: float) -> SparkData:
    """The same shape in numbers whose differences neither overflow nor vanish."""
    return data._replace(
        lows=[value / size for value in data.lows],
        highs=[value / size for value in data.highs],
        reference=None if data.reference is None else data.reference / size,
        scale=None if data.scale is None else (data.scale[0] / size, data.scale[1] / size),
    )


def _code(low: int, high: int) -> int:
    """Dots from row `low` to row `high` of one column as one number."""
    return low * _DOTS + high


def _joined(dots: bytes, breaks: frozenset[int]) -> list[int]:
    """Stretch columns to touch their neighbours, bridge the empty ones.

    One loop with nothing but arithmetic: this runs for every cell of a sparkline.
    """
    codes = [_EMPTY] * len(dots)
    before_low = before_high = before_at = -1
    for at, code in enumerate(dots):
        if code == _EMPTY:
            continue
        low, high = divmod(code, _DOTS)
        shown_low, shown_high = low, high
        if before_at >= 0 and not (breaks and any(before_at < cut <= at for cut in breaks)):
            if at - before_at > 1:
                before_low, before_high = _bridge(codes, before_at, before_low + before_high, at, low + high)
            if low > before_high + 1:
                shown_low = before_high + 1
            elif high < before_low - 1:
                shown_high = before_low - 1
        codes[at] = shown_low * _DOTS + shown_high
        before_low, before_high, before_at = low, high, at
    return codes


def _bridge(codes: list[int], start: int, begin: int, stop: int, end: int) -> tuple[int, int]:
    """Fill the columns between two logged ones with a straight line.

    `begin` and `end` are twice the middle dot row of the columns `start` and
    `stop`. Returns the lowest and highest dot row of the last column filled.
    """
    slope = (end - begin) / 2 / (stop - start)
    before = (begin + 1) // 2
    low = high = before
    for at in range(start + 1, stop):
        level = int(begin / 2 + slope * (at - start) + 0.5)
        low, high = min(level, before + 1), max(level, before - 1)
        codes[at] = _code(low, high)
        before = level
    return before, before


def sparkline(data: SparkData, glyphs: Glyphs) -> Line:
    """Draw one row of len(columns) / 2 cells; in ASCII every cell shows its extreme.

    Args:
        data: a line.
        glyphs: the signs to draw with.

    Returns:
        Pieces of roles spark, spark-mark, restart, threshold or baseline; exactly
        len(data.lows) // 2 cells wide.
    """
    dots, reference = _heights(data)
    newest = 0 if reference is None else data.newest
    return _drawn(dots, reference, data.restarts, data.nonfinite, newest, data.is_threshold, glyphs.is_ascii)


@lru_cache(maxsize=512)
def _drawn(
    dots: bytes,
    reference: int | None,
    restarts: frozenset[int],
    nonfinite: frozenset[int],
    newest: int,
    is_threshold: bool,
    is_ascii: bool,
) -> Line:
    """The line of a sparkline; a new value that moves no dot is the same line."""
    glyphs = glyph_set(is_ascii=is_ascii)
    codes = _joined(dots, restarts)
    cells = len(codes) // 2
    if glyphs.is_ascii:
        chars = _ascii_cells(codes)
    else:
        pairs = _PAIRS
        chars = [pairs[a][b] for a, b in zip(codes[0::2], codes[1::2], strict=False)]
    marked = {column // 2 for column in nonfinite}
    again = {column // 2 for column in restarts}
    if not marked and not again and reference is None:
        return (Piece("".join(chars), "spark"),)
    line_role = "threshold" if is_threshold else "baseline"
    empty = (glyphs.threshold if is_threshold else glyphs.baseline) if glyphs.is_ascii else ""
    pieces: list[Piece] = []
    for at in range(cells):
        char, role = chars[at], "spark"
        if at in marked:
            char, role = glyphs.nonfinite, "spark-mark"
        elif at in again:
            char, role = glyphs.restart, "restart"
        elif reference is not None and at <= newest // 2 and not (glyphs.is_ascii and char != " "):
            role = line_role if char == " " else "spark"
            char = empty or chr((ord(char) if char != " " else 0x2800) | _LEFT_BITS[reference])
        if pieces and pieces[-1].role == role:
            pieces[-1] = Piece(pieces[-1].text + char, role)
        else:
            pieces.append(Piece(char, role))
    return tuple(pieces)


def _ascii_cells(codes: list[int]) -> list[str]:
    """One sign per cell: the height farthest from where the line was before."""
    chars = []
    before: float | None = None
    for pair in zip(codes[0::2], codes[1::2], strict=False):
        heights = [height for code in pair if code != _EMPTY for height in divmod(code, _DOTS)]
        if not heights:
            chars.append(" ")
            continue
        middle = before if before is not None else sum(heights) / len(heights)
        low, high = min(heights), max(heights)
        chars.append(_ASCII_LEVELS[high if high - middle >= middle - low else low])
        before = heights[-1]
    return chars


def block_bars(values: Sequence[float], glyphs: Glyphs, top: float | None = None) -> str:
    """One block per value, from zero to the largest (or `top`); a blank is a gap.

    Args:
        values: NaN is a gap.
        glyphs: the signs to draw with.
        top: the value of a full block; None is the largest.
    """
    finite = [value for value in values if not math.isnan(value)]
    ceiling = top if top is not None else max(finite, default=0.0)
    signs = glyphs.columns
    out = []
    for value in values:
        if math.isnan(value):
            out.append(" ")
        elif ceiling <= 0:
            out.append(signs[0])
        else:
            # What lies far above the ceiling is a full block, however far: the quotient may be infinite.
            share = min(1.0, max(0.0, value / ceiling))
            out.append(signs[min(len(signs) - 1, max(0, int(share * len(signs) - 0.5)))])
    return "".join(out)
