"""Which column a key has, and where the cells of a row go.

Owns the columns of a stream: a key gets the next free one when it first appears,
and keeps it. Knows keys, not what they mean, save whether training writes them.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from operator import itemgetter

from rltop.metrics.keys import is_bookkeeping_key, is_evaluation_key
from rltop.model import GAP, Counts, Shape
from rltop.structs import Struct

_SHAPES_KEPT = 1024
_REFUSED_KEPT = 20_000
"""Refused keys told apart; past that the count stands for "at least"."""

Gather = Callable[["array[float]"], tuple[float, ...]]


class Layout(Struct, frozen=False):
    """Where the cells of one shape go: worked out once per shape.

    Attributes:
        columns: column of each cell; -1 where the key was refused.
        is_training: a key of training is among them.
        has_numbers: its columns are known to hold numbers.
    """

    columns: tuple[int, ...]
    is_training: bool
    has_numbers: bool = False
    _is_prefix: bool = False
    _width: int = -1
    _gather: Gather | None = None

    def __post_init__(self) -> None:
        known = [column for column in self.columns if column >= 0]
        self._is_prefix = list(self.columns[: len(known)]) == list(range(len(known)))
        if self._is_prefix:
            self._width = len(known)

    def arrange(self, values: array[float], width: int) -> array[float]:
        """The cells of a row in column order, padded with gaps to `width`."""
        if self._is_prefix:
            missing = width - self._width
            cells = values[: self._width] if len(values) > self._width else values
            return cells + array("d", [GAP]) * missing if missing else cells
        if self._gather is None or self._width != width:
            self._gather, self._width = _gatherer(self.columns, width), width
        return array("d", self._gather(values + array("d", [GAP])))


class Columns:
    """The columns of one stream.

    Attributes:
        keys: by column, in order of first appearance.
        by_key: column of each key.
        is_training: by column: training writes it, not an evaluation or bookkeeping alone.
    """

    def __init__(self, max_keys: int, counts: Counts) -> None:
        self.keys: list[str] = []
        self.by_key: dict[str, int] = {}
        self.is_training = bytearray()
        self._max_keys = max_keys
        self._counts = counts
        self._layouts: dict[Shape, Layout] = {}
        self._refused: set[str] = set()

    def layout(self, shape: Shape) -> Layout:
        """Where the cells of `shape` go; its new keys get columns."""
        layout = self._layouts.get(shape)
        if layout is None:
            columns = tuple(self._column(key) for key in shape.keys)
            layout = Layout(columns, any(self.is_training[column] for column in columns if column >= 0))
            if len(self._layouts) >= _SHAPES_KEPT:
                self._layouts.clear()
            self._layouts[shape] = layout
        return layout

    def _column(self, key: str) -> int:
        column = self.by_key.get(key)
        if column is not None:
            return column
        if len(self.keys) >= self._max_keys:
            if len(self._refused) < _REFUSED_KEPT and key not in self._refused:
                self._refused.add(key)
                self._counts.keys_over_cap += 1
            return -1
        column = self.by_key[key] = len(self.keys)
        self.keys.append(key)
        self.is_training.append(not (is_evaluation_key(key) or is_bookkeeping_key(key)))
        return column


def _gatherer(columns: tuple[int, ...], width: int) -> Gather:
    """A function that puts the cells of a shape, and a gap behind them, in column order."""
    gap = len(columns)
    source = [gap] * width
    for cell, column in enumerate(columns):
        if column >= 0:
            source[column] = cell
    if width == 1:
        only = source[0]
        return lambda values: (values[only],)
    return itemgetter(*source)
