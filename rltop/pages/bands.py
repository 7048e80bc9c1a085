"""The statistics of one metric together: the band that its extremes or its spread draw, and their keys in one name."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import takewhile

from rltop import units
from rltop.catalog.families import Family, Member
from rltop.model import Signal, Unit
from rltop.pages.signals import signal_of
from rltop.run.snapshot import Snapshot
from rltop.store.series import Bucket
from rltop.structs import NamedTuple

_BOUNDARIES = "/_@"


class Band(NamedTuple):
    """What lies around a signal: its extremes, or its spread.

    Attributes:
        spread: its standard deviation, drawn where an extreme is not logged.
        label: what the edges are, in the trainer's own words.
    """

    main: Signal
    low: Signal | None
    high: Signal | None
    spread: Signal | None
    label: str

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(signal.key for signal in (self.low, self.high, self.spread) if signal is not None)


def families_of(snapshot: Snapshot) -> Mapping[str, Family]:
    """Every key of the run that is one statistic of several → its family; made anew when a key is new."""
    return snapshot.part.memo.families()


def band_around(snapshot: Snapshot, main: Signal, family: Family) -> Band | None:
    """The band around `main`, if it stands for the family and something bounds it."""
    if family.main.key != main.key:
        return None
    low, high = _edge(snapshot, main, family.low), _edge(snapshot, main, family.high)
    spread = None if low and high else _edge(snapshot, main, family.spread)
    if not (low or high or spread):
        return None
    words = [member.word for member in (family.low, family.high) if member]
    if spread and family.spread:
        words.append(f"± {family.spread.word}")
    return Band(main, low, high, spread, " … ".join(words))


def _edge(snapshot: Snapshot, main: Signal, member: Member | None) -> Signal | None:
    if member is None:
        return None
    own = signal_of(snapshot, member.key)
    if own.metric.name and own.metric.unit is main.metric.unit:
        return own
    return Signal(main.metric, member.key, main.scale, main.shift)


def edges_at(snapshot: Snapshot, band: Band) -> tuple[float | None, float | None]:
    """Both edges as of the newest value of the main signal at or before a step; None where not logged then.

    Returns:
        Low and high, in the unit of the main signal.
    """
    middle = snapshot.stream.latest(band.main.key, snapshot.at_step)
    if middle is None:
        return None, None
    value = band.main.read(middle.value)

    def read(signal: Signal | None) -> float | None:
        raw = None if signal is None else snapshot.stream.value(signal.key, middle.step)
        return None if raw is None or signal is None else signal.read(raw)

    low, high = read(band.low), read(band.high)
    if low is not None and high is not None:
        return min(low, high), max(low, high)
    raw = None if band.spread is None else snapshot.stream.value(band.spread.key, middle.step)
    if raw is not None:
        reach = abs(band.main.scale * raw)
        low = low if low is not None else _bounded(value - reach, band.main)
        high = high if high is not None else _bounded(value + reach, band.main)
    return low, high


def _bounded(value: float, signal: Signal) -> float:
    low, high = signal.metric.low, signal.metric.high
    return min(max(value, -math.inf if low is None else low), math.inf if high is None else high)


def band_text(snapshot: Snapshot, band: Band) -> str:
    """The band at a step in a few cells: `12…2,048`, `max 2,048` of one edge alone, `±0.31` for a spread."""
    unit = band.main.metric.unit
    if band.low is None and band.high is None and band.spread is not None:
        middle = snapshot.stream.latest(band.main.key, snapshot.at_step)
        raw = None if middle is None else snapshot.stream.value(band.spread.key, middle.step)
        return "" if raw is None else f"±{units.quantity(abs(band.main.scale * raw), unit)[0]}"
    low, high = edges_at(snapshot, band)
    if low is None and high is None:
        return ""
    return _span_text(low, high, unit)


def text_around(snapshot: Snapshot, main: Signal) -> str:
    """The band around a signal in a few cells; empty where there is none."""
    family = families_of(snapshot).get(main.key)
    band = None if family is None else band_around(snapshot, main, family)
    return "" if band is None else band_text(snapshot, band)


def _span_text(low: float | None, high: float | None, unit: Unit) -> str:
    first = ("", "") if low is None else units.quantity(low, unit)
    last = ("", "") if high is None else units.quantity(high, unit)
    if first == last:
        return ""
    if first[1] and last[1] and first[1] != last[1]:
        return f"{' '.join(first)}…{' '.join(last)}"
    if low is None or high is None:
        return f"min {first[0]}" if high is None else f"max {last[0]}"
    return f"{first[0]}…{last[0]}"


def edge_points(
    band: Band, buckets: Mapping[str, Sequence[Bucket]]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    lower = _extreme_points(band.low, buckets, is_high=False)
    upper = _extreme_points(band.high, buckets, is_high=True)
    if band.spread is not None:
        pairs = zip(buckets[band.main.key], buckets[band.spread.key], strict=False)
        wide = [
            (_middle(one), band.main.read(one.mean), abs(band.main.scale * other.mean))
            for one, other in pairs
            if one.count and other.count
        ]
        if band.low is None:
            lower = [(step, _bounded(value - reach, band.main)) for step, value, reach in wide]
        if band.high is None:
            upper = [(step, _bounded(value + reach, band.main)) for step, value, reach in wide]
    return _finite(lower), _finite(upper)


def _extreme_points(
    signal: Signal | None, buckets: Mapping[str, Sequence[Bucket]], *, is_high: bool
) -> list[tuple[float, float]]:
    if signal is None:
        return []
    choose = max if is_high else min
    found = [bucket for bucket in buckets[signal.key] if bucket.count]
    return [(_middle(bucket), choose(signal.read(bucket.low), signal.read(bucket.high))) for bucket in found]


def _middle(bucket: Bucket) -> float:
    return (bucket.first_step + bucket.last_step) / 2


def _finite(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    return [(step, value) for step, value in points if math.isfinite(value)]


def braces(keys: Sequence[str]) -> str:
    """Several keys as one text, as a shell would take them apart: `score/{mean,max,min}`."""
    if len(keys) < 2:
        return "".join(keys)
    start = _shared(keys)
    while start and start[-1] not in _BOUNDARIES and start not in keys:
        start = start[:-1]
    rests = [key[len(start) :] for key in keys]
    end = _shared([rest[::-1] for rest in rests])[::-1]
    while end and end[0] not in _BOUNDARIES:
        end = end[1:]
    return f"{start}{{{','.join(rest[: len(rest) - len(end)] for rest in rests)}}}{end}"


def _shared(texts: Sequence[str]) -> str:
    columns = takewhile(lambda column: len(set(column)) == 1, zip(*texts, strict=False))
    return "".join(column[0] for column in columns)
