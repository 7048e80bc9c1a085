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
        first, last: records of its earliest and its latest onset.
    """

    incident: Incident
    first: int
    last: int


class Incidents:
    """The incidents of a stream so far; only the newest can still grow."""

    __slots__ = ("_count", "_known", "_open")

    def __init__(self) -> None:
        """Start with none."""
        self._count = 0
        self._open: list[_Together] = []
        self._known: dict[int, Incident] = {}

    def join(self, rule: str, record: int, step: int) -> int:
        """Put an alarm into the incident that it belongs to, or into a new one.

        Args:
            rule: its id.
            record: the record of its onset.
            step: the step of its onset.

        Returns:
            The number of the incident, from 1.
        """
        for i, one in enumerate(self._open):
            if one.first - TOGETHER_RECORDS <= record <= one.last + TOGETHER_RECORDS:
                incident = one.incident
                if record < one.first:
                    incident = Incident(incident.number, rule, step)
                self._open[i] = one._replace(
                    incident=incident, first=min(one.first, record), last=max(one.last, record)
                )
                self._known[incident.number] = incident
                return incident.number
        self._count += 1
        incident = Incident(self._count, rule, step)
        self._open = [*self._open[1 - _HELD :], _Together(incident, record, record)]
        self._known[self._count] = incident
        return self._count

    def get(self, number: int) -> Incident | None:
        """The incident of a number; None for 0."""
        return self._known.get(number)

    def clone(self) -> Incidents:
        twin = Incidents.__new__(Incidents)
        twin._count, twin._open, twin._known = self._count, self._open.copy(), self._known.copy()
        return twin
