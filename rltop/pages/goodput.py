"""Goodput: of 100 generated completions, how many were trained on, and what became of the others.

Owns the classes, which exclude one another in the order of `CLASSES`: what failed is not
also stale, what is stale is not also filtered. A share that is logged of the batch alone
(no contrast, cut) counts for what is left of it. What is not logged stays unknown, and
what was trained on is then known as *at most* only.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from rltop import units
from rltop.pages.signals import lately
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

_LATELY = 20
"""Records that the counts and shares are of."""
_TOTAL_FROM = 4
"""Fewer records do not tell a running total from counts of single steps."""

CLASSES = ("failed", "stale", "filtered", "no contrast", "cut")
"""What becomes of a completion that is not trained on, first what comes first; `trained` is the rest."""

_OF_ALL = {"failed": "aborted_frac", "stale": "cancelled_frac"}
"""Shares of everything that was generated."""
_OF_BATCH = {"no contrast": "zero_std_frac", "cut": "truncated_frac"}
"""Shares of what comes into the batch."""
_COUNTS = {
    "failed": (("rollout_failures", True),),
    "stale": (("dropped_stale", False), ("evicted_samples", True)),
    "filtered": (("dropped_surplus", False), ("dropped_oversize", False)),
    "no contrast": (("zero_std_count", True),),
}
"""Metrics that count what is thrown away, each with whether it counts groups."""


class Goodput(NamedTuple):
    """What became of the completions of the last records.

    Attributes:
        shares: of everything generated, by class; a class that is not logged is missing.
        trained: the share that was trained on; no more than that where a class is missing.
        records: how many they are of.
    """

    shares: dict[str, float]
    trained: float
    records: int

    @property
    def unknown(self) -> tuple[str, ...]:
        """Classes that are not logged."""
        return tuple(name for name in CLASSES if name not in self.shares)

    @property
    def sentence(self) -> str:
        """Of 100 completions."""
        most = "at most " if self.unknown else ""
        told = [f"{_hundredth(self.trained)} trained on"]
        told += [f"{_hundredth(share)} {name}" for name, share in self.shares.items()]
        text = f"of 100 generated completions {most}{', '.join(told)}"
        return text + (f"; not logged: {', '.join(self.unknown)}" if self.unknown else "")

    def paint(self, width: int, glyphs: Glyphs) -> list[Row]:
        """A bar for each class, and for what was trained on."""
        head = RowBuilder(width, glyphs).add(" GOODPUT", "title")
        records = "record" if self.records == 1 else "records"
        head.add(f"  of 100 generated completions, over the last {self.records} {records}", "dim")
        rows = [head.row()]
        bar = max(8, min(40, width - 40))
        for name, share in (("trained on", self.trained), *((one, self.shares.get(one)) for one in CLASSES)):
            builder = RowBuilder(width, glyphs).add("   ").left(name, 14, "text")
            if share is None:
                rows.append(builder.right(units.UNKNOWN, 8, "dim").add("  not logged", "nodata").row())
                continue
            number = f"{glyphs.to_ascii('≤') if name == 'trained on' and self.unknown else ''}{_hundredth(share)}"
            role = "ok" if name == "trained on" else "other"
            rows.append(builder.right(number, 8, "value").add("  ").add(glyphs.partly(share, bar), role).row())
        return rows


def _hundredth(share: float) -> str:
    return f"{100.0 * share:.1f}" if 0.0 < share < 0.1 else f"{100.0 * share:.0f}"


def build_goodput(snapshot: Snapshot) -> Goodput | None:
    """What became of the completions of the last records; None where nothing that tells is logged."""
    drops, records = _drops(snapshot)
    shares: dict[str, float] = {}
    rest = 1.0
    for name in CLASSES:
        share = drops.get(name)
        if share is None and name in _OF_ALL:
            share = _mean(snapshot, _OF_ALL[name])
        if share is None and name == "filtered":
            kept = _mean(snapshot, "kept_frac")
            share = None if kept is None else (1.0 - kept) * rest
        if share is None and name in _OF_BATCH:
            logged = _mean(snapshot, _OF_BATCH[name])
            share = None if logged is None else logged * rest
        if share is not None:
            shares[name] = min(rest, max(0.0, share))
            rest -= shares[name]
    if not shares:
        return None
    return Goodput(shares, rest, records or min(_LATELY, snapshot.stream.rows))


def _drops(snapshot: Snapshot) -> tuple[dict[str, float], int]:
    """Shares of what is counted as thrown away of everything generated, and over how many records."""
    batches = _values(snapshot, "sample_count")
    if not batches:
        return {}, 0
    counted: dict[str, float] = {}
    for name, metrics in _COUNTS.items():
        found = [_dropped(snapshot, metric, has_groups) for metric, has_groups in metrics]
        known = [number for number in found if number is not None]
        if known:
            counted[name] = sum(known)
    identity = snapshot.identity
    signal = None if identity is None else identity.primary("sample_count")
    is_generated = signal is not None and "generated" in signal.key
    everything = sum(batches) + (0.0 if is_generated else sum(counted.values()))
    if everything <= 0.0:
        return {}, 0
    return {name: number / everything for name, number in counted.items()}, len(batches)


def _dropped(snapshot: Snapshot, metric: str, has_groups: bool) -> float | None:
    """Completions thrown away over the last records; None where that is not logged, or a group's size is not known."""
    values = _values(snapshot, metric)
    size = snapshot.part.group_size if has_groups else 1
    if not values or size is None:
        return None
    pairs = list(itertools.pairwise(values))
    is_total = len(values) >= _TOTAL_FROM and values[-1] > values[0] and all(a <= b for a, b in pairs)
    # Of a running total the first record says nothing: as many steps as there are differences are scaled to all.
    number = (values[-1] - values[0]) * len(values) / len(pairs) if is_total else sum(values)
    return number * size


def _mean(snapshot: Snapshot, metric: str) -> float | None:
    values = _values(snapshot, metric)
    return sum(values) / len(values) if values else None


def _values(snapshot: Snapshot, metric: str) -> Sequence[float]:
    """The last finite values of a metric up to the step that is shown, oldest first."""
    signal = None if snapshot.identity is None else snapshot.identity.primary(metric)
    if signal is None:
        return ()
    return lately(snapshot, signal, _LATELY)
