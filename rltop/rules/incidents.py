"""Incidents: alarms that began within a few records of one another are one event of the run."""

from __future__ import annotations

from rltop.model import Incident
from rltop.structs import NamedTuple

TOGETHER_RECORDS = 5
"""Onsets this close belong together, as in a collapse (X1)."""
_HELD = 8


class _Together(NamedTuple):
    """An incident and how far it reaches.

    Attributes:
        incident: with its first mover so far.
        group: learning or system: what costs time alone is no cause of what is learned, nor a consequence.
        first, last: records of its earliest and its latest onset.
        is_dated: a collapse is in it, whose sentence names the onset: nothing moves that any more.
    """

    incident: Incident
    group: str
    first: int
    last: int
    is_dated: bool = False


class Incidents:
    """The incidents of a stream so far; only the newest can still grow."""

    __slots__ = ("_count", "_known", "_open")

    def __init__(self) -> None:
        self._count = 0
        self._open: list[_Together] = []
        self._known: dict[int, Incident] = {}

    def join(self, rule: str, group: str, record: int, step: int, *, is_dated: bool) -> tuple[Incident, int]:
        """Put an alarm into the incident that it belongs to, or into a new one.

        Returns:
            The incident, and the record of its onset.
        """
        for i, one in enumerate(self._open):
            earliest = one.first - (0 if one.is_dated else TOGETHER_RECORDS)
            if one.group != group or not earliest <= record <= one.last + TOGETHER_RECORDS:
                continue
            incident, first = one.incident, min(one.first, record)
            if record < one.first:
                incident = Incident(incident.number, rule, step)
            self._open[i] = _Together(incident, group, first, max(one.last, record), one.is_dated or is_dated)
            self._known[incident.number] = incident
            return incident, first
        self._count += 1
        incident = Incident(self._count, rule, step)
        self._open = [*self._open[1 - _HELD :], _Together(incident, group, record, record, is_dated)]
        self._known[self._count] = incident
        return incident, record

    def get(self, number: int) -> Incident | None:
        return self._known.get(number)

    def clone(self) -> Incidents:
        twin = Incidents.__new__(Incidents)
        twin._count, twin._open, twin._known = self._count, self._open.copy(), self._known.copy()
        return twin
