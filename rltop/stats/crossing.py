"""Two writers in one file, told apart from a run that restarts repeatedly."""

from __future__ import annotations

from rltop.structs import Cloned

SHORT_ROWS = 8
"""Rows between two that go back, at most: two writers that write up to four at once."""
MOST_WRITERS = 5
"""So many writers are told from one."""
CERTAIN_AFTER = 12
"""So many rows in a row that go back are not restarts."""
QUICK_ROWS, QUICK_TIMES = 3, 3
"""Nor is so many times in a row within so few rows each: no run dies, restarts and writes that fast."""


class Crossing(Cloned):
    """Watches the rows that go back.

    A restarted run goes back to a checkpoint, writes for a while, and if it dies early goes back to the same one. Where
    two processes write one file, it goes back every few rows, each time to a later step.

    Attributes:
        is_certain: the newest row that went back is another writer's.
    """

    def __init__(self) -> None:
        self.is_certain = False
        self._heads: list[int] = []
        self._count = self._quick = 0

    def note(self, step: int, rows: int) -> bool:
        """A row has gone back to `step`, `rows` after the last one that did; is it another writer's?

        Returns:
            Whether two writers are certain by now.
        """
        behind = [head for head in self._heads if head < step]
        if behind:
            # The nearest writer behind has come this far.
            self._heads.remove(max(behind))
        self._heads = [*self._heads, step][-MOST_WRITERS + 1 :]
        self._count = self._count + 1 if behind and rows <= SHORT_ROWS else 0
        self._quick = self._quick + 1 if behind and rows <= QUICK_ROWS else 0
        self.is_certain = self._count >= CERTAIN_AFTER or self._quick >= QUICK_TIMES
        return self.is_certain
