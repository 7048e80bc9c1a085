"""What was logged but was not a finite number, in bounded memory.

A null counts only where the key held a number before: a key that is always null
is not broken, it is empty.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from rltop.model import Counts, NonFinite
from rltop.store.series import Mark

_KEPT = 64


class _KeyMarks:
    """Places where one key was not finite: the first ones and the newest ones."""

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


class MarkRegister:
    """Marks by column, and which columns have ever held a number."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._numeric: set[int] = set()
        self._by_column: dict[int, _KeyMarks] = {}

    def saw_numbers(self, columns: Iterable[int]) -> None:
        """These columns hold numbers."""
        self._numeric.update(columns)

    def accept(self, step: int, column: int, kind: NonFinite) -> bool:
        """Count what stood in a cell, and remember it if it counts; False for the null of an empty key."""
        if kind is NonFinite.NULL and column not in self._numeric:
            self._counts.null_values += 1
            return False
        self._counts.nonfinite_values += 1
        if kind is not NonFinite.NULL:
            self._numeric.add(column)
        self.remember(column, Mark(step, kind))
        return True

    def remember(self, column: int, mark: Mark) -> None:
        """Keep the place."""
        known = self._by_column.get(column)
        if known is None:
            known = self._by_column[column] = _KeyMarks()
        known.add(mark)

    def count(self, column: int) -> int:
        """How many values of a column were not finite."""
        known = self._by_column.get(column)
        return 0 if known is None else known.count

    def of(self, column: int) -> list[Mark]:
        """The first 64 places and the newest 64."""
        known = self._by_column.get(column)
        return [] if known is None else [*known.first, *known.newest]
