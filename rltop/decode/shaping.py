"""Cells by key → records whose shapes are shared.

For readers whose rows come as a mapping: the shape of equal keys is one object.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from math import isnan

from rltop.decode.values import MAX_KEY_CHARS
from rltop.model import GAP, CellMark, NonFinite, Shape

_SHAPES_KEPT = 1024


class Shapes:
    """Hands out one `Shape` per distinct order of keys."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._last_keys: list[str] = []
        self._last_shape = Shape(())

    def of(self, keys: list[str]) -> Shape:
        """The shape of these keys; remembers the last one, which is usually asked for again."""
        if keys == self._last_keys:
            return self._last_shape
        as_tuple = tuple(keys)
        shape = self._shapes.get(as_tuple)
        if shape is None:
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            shape = self._shapes[as_tuple] = Shape(as_tuple)
        self._last_keys, self._last_shape = keys, shape
        return shape


def cells_of(numbers: Sequence[float]) -> tuple[array[float], tuple[CellMark, ...]]:
    """Values and marks: what is not finite becomes a gap and a mark."""
    # A fifth of what `array("d", numbers)` takes, which looks at the numbers one by one.
    values = array("d", struct.pack(f"{len(numbers)}d", *numbers))
    total = sum(numbers)
    if total - total == 0.0:
        return values, ()
    marks = []
    for cell, value in enumerate(values):
        if value - value != 0.0:
            kind = NonFinite.NAN if isnan(value) else NonFinite.POS_INF if value > 0 else NonFinite.NEG_INF
            marks.append(CellMark(cell, kind))
            values[cell] = GAP
    return values, tuple(marks)


def shortened(key: str) -> str:
    """A key of at most 512 characters and an ellipsis."""
    return key if len(key) <= MAX_KEY_CHARS else key[:MAX_KEY_CHARS] + "…"
