"""Which metrics the overview shows for each algorithm, in which order, and the user's changes to it.

The rows come from `row_sets.txt`: each names a metric and its substitutes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rltop.model import Algorithm
from rltop.structs import NamedTuple


class OverviewRow(NamedTuple):
    """One row of the overview.

    Attributes:
        metrics: canonical names; the row shows the first one that the run logs.
        trailing_metrics: likewise, shown at the end of the row.
    """

    metrics: tuple[str, ...]
    trailing_metrics: tuple[str, ...] = ()


def _read_row_sets() -> Mapping[Algorithm, tuple[OverviewRow, ...]]:
    """Parse `row_sets.txt`.

    Raises:
        KeyError: it names an unknown algorithm.
    """
    head, *sections = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").split("\n[")
    named = {}
    for line in head.splitlines():
        name, is_row, metrics = line.partition(" = ")
        if is_row and not name.startswith("#"):
            first, _, beside = metrics.partition("|")
            named[name] = OverviewRow(tuple(first.split()), tuple(beside.split()))
    found = {}
    for section in sections:
        algorithms, _, names = section.partition("]")
        rows = tuple(named.get(name) or OverviewRow(tuple(name.split(","))) for name in names.split())
        found.update({Algorithm[name]: rows for name in algorithms.split()})
    return found


ROW_SETS: Mapping[Algorithm, tuple[OverviewRow, ...]] = _read_row_sets()
"""Rows of each algorithm, most important first."""


class Arrangement(NamedTuple):
    """The user's arrangement of a run's metrics.

    Attributes:
        pinned: the trainer's own keys that come first, in order.
        names: (key, custom title) pairs.
    """

    pinned: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()

    @property
    def is_as_found(self) -> bool:
        return not (self.pinned or self.hidden or self.names)

    @property
    def is_full(self) -> bool:
        return len(self.pinned) >= MOST_ROWS

    def name_of(self, key: str) -> str:
        return next((name for named, name in self.names if named == key), "") if self.names else ""

    def with_pin_toggled(self, key: str) -> Arrangement:
        """A copy with the key pinned after the others, or unpinned; pinning a key unhides it."""
        if key in self.pinned:
            return self._replace(pinned=tuple(one for one in self.pinned if one != key))
        hidden = tuple(one for one in self.hidden if one != key)
        return self._replace(pinned=(*self.pinned, key)[:MOST_ROWS], hidden=hidden)

    def with_pin_moved(self, key: str, by: int) -> Arrangement:
        rest = [one for one in self.pinned if one != key]
        rest.insert(max(0, self.pinned.index(key) + by), key)
        return self._replace(pinned=tuple(rest))

    def with_hiding_toggled(self, key: str) -> Arrangement:
        """A copy with the key hidden, or shown again; hiding a key unpins it."""
        if key in self.hidden:
            return self._replace(hidden=tuple(one for one in self.hidden if one != key))
        pinned = tuple(one for one in self.pinned if one != key)
        return self._replace(pinned=pinned, hidden=(*self.hidden, key)[:MOST_ROWS])

    def with_name(self, key: str, name: str) -> Arrangement:
        names = tuple(one for one in self.names if one[0] != key)
        name = " ".join(name.split())[:LONGEST_NAME]
        return self._replace(names=(*names, (key, name))[-MOST_ROWS:] if name else names)

    def merged(self, before: Arrangement, other: Arrangement) -> Arrangement:
        """Three-way merge: apply the changes from `before` to `self` to `other`, a concurrent edit of `before`.

        Args:
            before: the common ancestor of both.
        """
        was, now, own = dict(before.names), dict(other.names), dict(self.names)
        newly_hidden = set(self.hidden) - set(before.hidden)
        pinned = _merged(before.pinned, self.pinned, other.pinned)
        pinned = [key for key in pinned if key not in newly_hidden][:MOST_ROWS]
        hidden = [key for key in _merged(before.hidden, self.hidden, other.hidden) if key not in pinned]
        names = {key: name for key, name in now.items() if key in own or key not in was}
        names.update((key, name) for key, name in own.items() if name != was.get(key))
        return Arrangement(tuple(pinned), tuple(hidden[:MOST_ROWS]), tuple(names.items())[-MOST_ROWS:])


def _merged(before: Sequence[str], mine: Sequence[str], theirs: Sequence[str]) -> list[str]:
    kept = [key for key in mine if key in theirs or key not in before]
    return kept + [key for key in theirs if key not in before and key not in mine]


MOST_ROWS = 200
"""Limit for each of pinned, hidden and renamed keys."""
LONGEST_NAME = 40
AS_FOUND = Arrangement()
