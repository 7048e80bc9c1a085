"""Sparklines: a series in one row of cells, two braille columns to a cell.

Owns how the columns of `reduction` become dots. A column shows the whole range of
its bucket; columns without a value are bridged, because a metric that is not logged
on every step is still one line.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import filterfalse

from rltop.view.glyphs import Glyphs, glyph_set
from rltop.view.lines import Line, Piece
from rltop.view.reduction import SparkData

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
    """One block per value, from zero to the largest (or `top`); a blank is a gap."""
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
            out.append(signs[min(len(signs) - 1, max(0, int(value / ceiling * len(signs) - 0.5)))])
    return "".join(out)
