"""Tells rows that a rewritten file repeats from rows that are new.

A file that is written whole again (a CSV with one more column, a state file at the
next checkpoint) begins with the rows that it had before. They are not a restart.
"""

from __future__ import annotations

from array import array

from rltop.model import Record


class RepeatedRows:
    """Remembers 8 bytes of every row given out and skips the same rows after `rewind`.

    The first row that differs ends the repetition: from there on everything is new,
    and whether it is a restart is for the store to say.
    """

    def __init__(self) -> None:
        self._known: array[int] = array("q")
        self._next = 0

    def rewind(self) -> None:
        """The file begins anew."""
        self._next = 0

    def repeat(self) -> None:
        """The next row is known to be the one that was given out at this place before."""
        self._next += 1

    def is_new(self, record: Record) -> bool:
        """Whether the next row of the file is one that was not given out at this place before."""
        mark = _mark_of(record)
        known, at = self._known, self._next
        self._next += 1
        if at < len(known):
            if known[at] == mark:
                return False
            del known[at:]
        known.append(mark)
        return True


def _mark_of(record: Record) -> int:
    """A hash of step and cells, whatever the order of the columns; gaps compare by their bits."""
    bits = memoryview(record.values).cast("B").cast("q")
    return hash((record.step, frozenset(zip(record.shape.keys, bits, strict=True)), record.marks and len(record.marks)))
