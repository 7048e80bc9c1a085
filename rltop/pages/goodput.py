"""Goodput on pages: what became of the completions that a run generated, and what it cost.

The classes and how they exclude one another are `stats.goodput`'s, which the rule on discards reads too.
"""

from __future__ import annotations

from rltop import units
from rltop.pages.header import pace_of
from rltop.pages.signals import cadence_of, lately
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row
from rltop.run.snapshot import Snapshot
from rltop.stats.goodput import CLASSES, LATELY, Goodput, hundredth, measure
from rltop.structs import NamedTuple


def build_goodput(snapshot: Snapshot) -> Goodput | None:
    """What became of the completions of the last records; None where nothing that tells is logged."""

    def recent(metric: str) -> list[float]:
        signal = None if snapshot.identity is None else snapshot.identity.primary(metric)
        return [] if signal is None else lately(snapshot, signal, LATELY)

    return measure(recent, snapshot.part.group_size, min(LATELY, snapshot.stream.rows))


class Spent(NamedTuple):
    """What the records behind a goodput cost."""

    gpus: int
    hours: float

    def words(self, found: Goodput) -> str:
        """With what went into completions that were not trained on, taken by their number."""
        lost = self.hours * (1.0 - found.trained)
        least = "at least " if found.unknown else ""
        return (
            f"{units.count(self.gpus)} GPUs, {units.number(self.hours)} GPU-hours over these records: "
            f"{least}{units.number(lost)} for what was not trained on"
        )


def spent_on(snapshot: Snapshot, found: Goodput) -> Spent | None:
    """The GPU-hours; None where the number of GPUs or the pace is not known."""
    gpus = None if snapshot.identity is None else snapshot.identity.gpus
    step_s = pace_of(snapshot)
    if gpus is None or step_s is None:
        return None
    return Spent(gpus, gpus * step_s * found.records * cadence_of(snapshot.stream) / 3600.0)


def paint_goodput(found: Goodput, spent: Spent | None, width: int, glyphs: Glyphs) -> list[Row]:
    """A bar for each class, and for what was trained on."""
    head = RowBuilder(width, glyphs).add(" GOODPUT", "title")
    records = "record" if found.records == 1 else "records"
    head.add(f"  of 100 generated completions, over the last {found.records} {records}", "dim")
    rows = [head.row()]
    bar = max(8, min(40, width - 40))
    for name, share in (("trained on", found.trained), *((one, found.shares.get(one)) for one in CLASSES)):
        builder = RowBuilder(width, glyphs).add("   ").left(name, 14, "text")
        if share is None:
            rows.append(builder.right(units.UNKNOWN, 8, "dim").add("  not logged", "nodata").row())
            continue
        number = f"{glyphs.to_ascii('≤') if name == 'trained on' and found.unknown else ''}{hundredth(share)}"
        role = "ok" if name == "trained on" else "other"
        rows.append(builder.right(number, 8, "value").add("  ").add(glyphs.partly(share, bar), role).row())
    if spent is not None:
        rows.append(RowBuilder(width, glyphs).add("   ").add(spent.words(found), "note").row())
    return rows
