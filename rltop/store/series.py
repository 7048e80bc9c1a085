"""Results of queries on the store: small frozen values.

NaN in a series is a gap: the key was not logged at that step. A logged value that is not finite is a `Mark`.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Sequence
from math import isfinite

from rltop.model import GAP, Counts, NonFinite
from rltop.model.keys import is_gradient_norm
from rltop.structs import NamedTuple, Struct


class Point(NamedTuple):
    """One finite value and the step at which it was logged."""

    step: int
    value: float


class Mark(NamedTuple):
    """A value that was logged but is not finite."""

    step: int
    kind: NonFinite


class Series(NamedTuple):
    """Raw points, oldest first; `values` has NaN where the key was not logged."""

    steps: array[int]
    values: array[float]


class Stretch(NamedTuple):
    """All keys over a few rows on both sides of a step.

    Attributes:
        steps: of the rows; for downsampled history, the first step of each bucket.
        rows: cells by column, maybe fewer than the stream has keys now; NaN where
            the key was not logged. The row of a bucket is its mean.
        split: index of the first row at or after the step.
    """

    steps: Sequence[int]
    rows: Sequence[array[float]]
    split: int
    is_approximate: bool = False


class Bucket(Struct):
    """All points in a range of steps, downsampled.

    Attributes:
        first_step, last_step: of the rows in it (inclusive).
        low, high, mean: of its finite values; NaN if there are none.
        count: number of its finite values.
        has_nonfinite: at least one value is not finite.
        is_approximate: a coarser bucket that straddles an edge was counted here.
    """

    first_step: int
    last_step: int
    low: float
    high: float
    mean: float
    count: int
    has_nonfinite: bool = False
    is_approximate: bool = False


def bucket_of(
    first_step: int, last_step: int, low: float, high: float, total: float, count: int, has_nonfinite: bool
) -> Bucket:
    """A bucket of `count` finite values whose sum `total` may have overflowed."""
    if not count:
        return Bucket(first_step, last_step, GAP, GAP, GAP, 0, has_nonfinite)
    mean = total / count
    if not isfinite(mean):
        mean = low / 2 + high / 2
    return Bucket(first_step, last_step, low, high, mean, count, has_nonfinite)


class StoreOptions(NamedTuple):
    """Limits of the store.

    Attributes:
        memory_bytes: budget for the raw rows of a stream; older rows are downsampled.
            The default holds 20,000 rows of 300 keys.
        max_keys: distinct keys per stream; later ones are counted, not kept.
        head_rows: rows at the start of each segment that always stay raw.
    """

    memory_bytes: int = 48 * 1024 * 1024
    max_keys: int = 4096
    head_rows: int = 64


_KEPT = 64


class _KeyMarks:
    """Steps at which one key was not finite: the first and the newest ones."""

    __slots__ = ("count", "first", "newest")

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Mark] = []
        self.newest: deque[Mark] = deque(maxlen=_KEPT)

    def add(self, mark: Mark) -> None:
        self.count += 1
        if len(self.first) < _KEPT:
            self.first.append(mark)
        else:
            self.newest.append(mark)

    def forget_from(self, step: int) -> None:
        self.first = [mark for mark in self.first if mark.step < step]
        self.newest = deque((mark for mark in self.newest if mark.step < step), maxlen=_KEPT)


class MarkRegister:
    """Marks by column, and which columns have ever held a number.

    Args:
        keys: by column.
        is_training: by column; a null in an evaluation column only means that no evaluation ran at that step.
    """

    def __init__(self, counts: Counts, keys: Sequence[str], is_training: Sequence[int]) -> None:
        self._counts, self._keys, self._is_training = counts, keys, is_training
        self.numeric: set[int] = set()
        self._by_column: dict[int, _KeyMarks] = {}

    def accept(self, step: int, column: int, kind: NonFinite) -> bool:
        """Count a non-finite value, and remember it; False for a null that means only "not measured"."""
        is_measured = column in self.numeric and self._is_training[column]
        if kind is NonFinite.NULL and not (is_measured or is_gradient_norm(self._keys[column])):
            self._counts.null_values += 1
            return False
        self._counts.nonfinite_values += 1
        if kind is not NonFinite.NULL:
            self.numeric.add(column)
        self.remember(column, Mark(step, kind))
        return True

    def remember(self, column: int, mark: Mark) -> None:
        known = self._by_column.get(column)
        if known is None:
            known = self._by_column[column] = _KeyMarks()
        known.add(mark)

    def forget_from(self, step: int) -> None:
        """Drop the marks that a restart at this step hides; they remain counted."""
        for known in self._by_column.values():
            known.forget_from(step)

    def count(self, column: int) -> int:
        known = self._by_column.get(column)
        return 0 if known is None else known.count

    def of(self, column: int) -> list[Mark]:
        known = self._by_column.get(column)
        return [] if known is None else [*known.first, *known.newest]
