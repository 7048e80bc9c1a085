"""Goodput: of everything that was generated, how much was trained on, and what became of the rest.

Owns the classes, which exclude one another in the order of `CLASSES`: what failed is not also stale, what is stale is
not also filtered. A share that is logged of the batch alone (zero-variance, truncated) counts for what is left of it.
What is not logged stays unknown, and what was trained on is then known as *at most* only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from rltop.structs import NamedTuple

LATELY = 20
"""Records that the counts and shares are of."""
_TOTAL_FROM = 4
"""Fewer records do not tell a running total from counts of single steps."""

CLASSES = ("failed", "stale", "filtered", "zero-variance", "truncated")
"""What becomes of a completion that is not trained on, first what comes first; `trained` is the rest."""

_COUNTS = {
    "failed": (("rollout_failures", True),),
    "stale": (("dropped_stale", False), ("evicted_samples", True)),
    "filtered": (("dropped_surplus", False), ("dropped_oversize", False)),
    "zero-variance": (("zero_std_count", True),),
}
"""Metrics that count what is thrown away, each with whether it counts groups."""
_OF_ALL = {"failed": ("aborted_frac", False), "stale": ("cancelled_frac", False)}
"""Shares of everything that was generated, each with whether it is the share of what is kept."""
_OF_REST = {
    "filtered": (("kept_frac", True),),
    "zero-variance": (("filter_pass_rate", True), ("zero_std_frac", False)),
    "truncated": (("truncated_frac", False),),
}
"""The same, of what is left: the first that is logged."""
METRICS = (
    *("sample_count", "generated_count", "aborted_frac", "cancelled_frac", "kept_frac", "filter_pass_rate"),
    *("zero_std_frac", "truncated_frac"),
    *(name for names in _COUNTS.values() for name, _ in names),
)
"""All that is asked for."""

Recent: TypeAlias = "Callable[[str], Sequence[float]]"
"""The last values of a metric, oldest first; empty where it is not logged."""


class Goodput(NamedTuple):
    """What became of the completions of the last records.

    Attributes:
        shares: of everything generated, by class; a class that is not logged is missing.
        trained: the share that was trained on; no more than that where a class is missing.
        counted: classes that are counted as thrown away, not known as a share.
    """

    shares: dict[str, float]
    trained: float
    records: int
    counted: frozenset[str] = frozenset()

    @property
    def unknown(self) -> tuple[str, ...]:
        return tuple(name for name in CLASSES if name not in self.shares)

    @property
    def sentence(self) -> str:
        most = "at most " if self.unknown else ""
        told = [f"{hundredth(self.trained)} trained on"]
        told += [f"{hundredth(share)} {name}" for name, share in self.shares.items()]
        text = f"of 100 generated completions {most}{', '.join(told)}"
        return text + (f"; not logged: {', '.join(self.unknown)}" if self.unknown else "")


def hundredth(share: float) -> str:
    """A share as so many of 100; with a digit more where it is small."""
    return f"{100.0 * share:.1f}" if 0.0 < share < 0.1 else f"{100.0 * share:.0f}"


def measure(recent: Recent, group_size: int | None, records: int) -> Goodput | None:
    """What became of the completions of the last records; None where nothing that tells is logged."""
    drops, counted = _drops(recent, group_size)
    shares: dict[str, float] = {}
    rest = 1.0
    for name in CLASSES:
        share = drops.get(name)
        if share is None and name in _OF_ALL:
            share = _mean(recent, *_OF_ALL[name])
        if share is None:
            found = [mean for each in _OF_REST.get(name, ()) if (mean := _mean(recent, *each)) is not None]
            share = found[0] * rest if found else None
        if share is not None:
            shares[name] = min(rest, max(0.0, share))
            rest -= shares[name]
    if not shares:
        return None
    return Goodput(shares, rest, counted or records, frozenset(drops))


def _drops(recent: Recent, group_size: int | None) -> tuple[dict[str, float], int]:
    """Shares of what is counted as thrown away of everything generated, and over how many records."""
    generated, batches = recent("generated_count"), recent("sample_count")
    counted: dict[str, float] = {}
    for name, metrics in _COUNTS.items():
        found = [_dropped(recent(metric), group_size if has_groups else 1) for metric, has_groups in metrics]
        known = [number for number in found if number is not None]
        if known:
            counted[name] = sum(known)
    everything = sum(generated) if generated else sum(batches) + sum(counted.values())
    if not (generated or batches) or everything <= 0.0:
        return {}, 0
    return {name: number / everything for name, number in counted.items()}, len(generated or batches)


def _dropped(values: Sequence[float], size: int | None) -> float | None:
    """Completions thrown away over the last records; None where that is not logged, or a group's size is not known."""
    if not values or size is None:
        return None
    pairs = list(itertools.pairwise(values))
    is_total = len(values) >= _TOTAL_FROM and values[-1] > values[0] and all(a <= b for a, b in pairs)
    # Of a running total the first record says nothing: as many steps as there are differences are scaled to all.
    number = (values[-1] - values[0]) * len(values) / len(pairs) if is_total else sum(values)
    return number * size


def _mean(recent: Recent, metric: str, is_kept: bool) -> float | None:
    values = recent(metric)
    if not values:
        return None
    mean = sum(values) / len(values)
    return 1.0 - mean if is_kept else mean
