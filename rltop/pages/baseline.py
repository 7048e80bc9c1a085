"""A run beside the baseline run: how each metric differs at the same step, and where they first diverge."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rltop import units
from rltop.catalog.metrics import CATALOG
from rltop.model import Signal
from rltop.pages.axes import name_or_key, signal_in
from rltop.pages.compare import Comparison, common_metrics, compare, divergence_text
from rltop.pages.key_metrics import MetricRow, is_difference
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

_RECORDS = 8
"""So many new records of either run before it is worked out again where they diverge."""


class Beside(NamedTuple):
    """One metric at the same step of both runs.

    Attributes:
        text: how this run differs; a dash where that cannot be said.
        why: the other value and step, or why it cannot be said.
    """

    text: str
    why: str


def beside(snapshot: Snapshot, other: Snapshot, signal: Signal) -> Beside:
    """How a metric differs from that of the baseline run at the same step."""
    theirs = signal_in(other, name_or_key(signal))
    if theirs is None:
        return Beside(units.UNKNOWN, f"{other.name.display} does not log it")
    if theirs.metric.unit is not signal.metric.unit:
        return Beside(units.UNKNOWN, f"{other.name.display} logs it in another unit")
    ours = snapshot.stream.latest(signal.key, snapshot.at_step)
    last = other.stream.last_step
    if ours is None or last is None:
        return Beside(units.UNKNOWN, "no value yet")
    point = other.stream.latest(theirs.key, ours.step)
    if point is None:
        return Beside(units.UNKNOWN, f"{other.name.display} has no value up to step {units.step(ours.step)}")
    value = f"{units.measure(theirs.read(point.value), theirs.metric.unit)} @{units.step(point.step)}"
    if last < ours.step:
        return Beside(units.UNKNOWN, f"{other.name.display} ends at step {units.step(last)}: {value}")
    text = units.change(
        signal.read(ours.value),
        theirs.read(point.value),
        signal.metric.unit,
        is_difference=is_difference(signal.metric),
    )
    return Beside(text, f"{other.name.display} {value}")


def with_baseline(rows: Sequence[MetricRow], snapshot: Snapshot, other: Snapshot) -> tuple[MetricRow, ...]:
    """The rows of the overview, those of the main stream with what each differs by.

    Args:
        rows: as they were read.
    """
    return tuple(
        row if row.reading.stream else row._replace(against=beside(snapshot, other, row.reading.signal).text)
        for row in rows
    )


class FirstDivergence:
    """Where a run first diverges from the baseline run; looked for anew only where some records have come."""

    def __init__(self) -> None:
        self._known: tuple[Hashable, str] = (None, "")

    def text(self, run: Run, other: Run) -> str:
        """The sentence."""
        at = (id(run), id(other), run.stream.rows // _RECORDS, other.stream.rows // _RECORDS, run.loading is None)
        if self._known[0] != at:
            self._known = (at, divergence_text(_compared(Snapshot(run), Snapshot(other))))
        return self._known[1]


def _compared(ours: Snapshot, theirs: Snapshot) -> Comparison:
    return compare(ours, theirs, [one for one in common_metrics((ours, theirs)) if one[0] in CATALOG])
