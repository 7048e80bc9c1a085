"""Everything around the curves of a chart: limits, ticks, labels, legend, and the row of event markers below.

Pure: only finite numbers that fit the axis leave this module, because the plotting library fails on others. Charts on
the screen and in reports use the same axes.
"""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rltop import units
from rltop.model import EventState, Level, Unit
from rltop.pages.alerts import rule_name
from rltop.pages.chart import (
    NO_CURVE,
    SMOOTHING,
    Axis,
    Curve,
    Marker,
    MarkerKind,
    PlotData,
    PlotLevel,
    PlotMark,
    PlottedSeries,
)
from rltop.pages.signals import primary
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.rows import Row, RowBuilder
from rltop.run.past import overwritten_events
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

FAR = 3.0
"""A level more than this many data ranges away is not drawn: it would flatten the curve."""

FAR_DECADES = 1.0
"""The same on a logarithmic axis, in decades."""

_LEAST_TICKS = 3
"""Bottom, middle and top: with fewer ticks no value can be read off the axis."""

_DIGITS, _MOST_DIGITS = 3, 12
_SPANS = 1e-300, 1e300  # beyond these, a fraction or a multiple may underflow or overflow
_LEAST_BETWEEN, _BETWEEN, _SPARSE_COST = 2, 4, 0.03
"""Rows between ticks: least, preferred, and the cost of each row off the preferred, as a fraction of the height."""

_NOISE = 1e-9
"""Relative difference up to which values are equal except for rounding."""


class RightAxis(NamedTuple):
    """A second value axis: its limits, tick positions and unit."""

    low: float
    high: float
    ticks: tuple[float, ...]
    unit: Unit


@dataclass(frozen=True, slots=True)
class Axes:
    """A chart that can be drawn: finite, with limits and ticks.

    Attributes:
        levels, marks: those inside the chart.
        first, last: limits of the step axis, never equal.
        low, high: limits of the value axis, never equal.
        x_ticks, y_ticks: positions on the axes, inside the limits.
        band: the drawable points of the band's edges.
        series: the curves with signs of their own, reduced to drawable points.
        right: the value axis on the right; None without one.
    """

    raw: Curve
    smooth: Curve
    levels: tuple[PlotLevel, ...]
    marks: tuple[PlotMark, ...]
    first: float
    last: float
    low: float
    high: float
    x_ticks: tuple[float, ...]
    y_ticks: tuple[float, ...]
    is_log: bool
    hidden: int
    far: tuple[PlotLevel, ...]
    band: tuple[Curve, ...] = ()
    series: tuple[PlottedSeries, ...] = ()
    x_labels: tuple[str, ...] = ()
    right: RightAxis | None = None

    def cell(self, x: float, cells: int) -> int | None:
        if not self.first <= x <= self.last:
            return None
        return round((x - self.first) * (cells - 1) / (self.last - self.first))


def axes_of(plot: PlotData, columns: int, rows: int, *, has_smooth: bool = True, has_band: bool = True) -> Axes | None:
    raw, hidden = _drawable(plot.raw, is_log=plot.is_log)
    smooth, _ = _drawable(plot.smooth if has_smooth else NO_CURVE, is_log=plot.is_log)
    series = []
    for each in plot.series:
        curve, left_out = _drawable(each.curve, is_log=plot.is_log)
        hidden += left_out
        series += [replace(each, curve=curve)] if curve.values else []
    if not raw.values and not series:
        return None
    band = tuple(_drawable(edge, is_log=plot.is_log)[0] for edge in plot.band) if has_band else ()
    around = [value for edge in band for value in edge.values] + _values(series, plot, is_right=False)
    around += [end for end in plot.declared or () if end > 0 or not plot.is_log]
    low, high, far = _limits((*raw.values, *smooth.values, *around), plot.levels, is_log=plot.is_log)
    locked = plot.locked[:1]
    if locked and locked[0] is not None:
        low, high = locked[0]
        far = tuple(level for level in plot.levels if not low <= level.value <= high)
    first, last = plot.span or (plot.zoom.first, max(plot.zoom.last, plot.zoom.first + 1))
    x_ticks, x_labels = _x_ticks(plot, first, last, columns)
    return Axes(
        raw=raw,
        smooth=smooth,
        levels=tuple(level for level in plot.levels if level not in far),
        marks=tuple(mark for mark in plot.marks if first <= mark.step <= last),
        first=first,
        last=last,
        low=low,
        high=high,
        x_ticks=x_ticks,
        x_labels=x_labels,
        y_ticks=log_ticks(low, high, rows) if plot.is_log else value_ticks(low, high, rows),
        is_log=plot.is_log,
        hidden=hidden,
        far=far,
        band=band,
        series=tuple(series),
        right=_right(series, plot, rows),
    )


def _values(series: Iterable[PlottedSeries], plot: PlotData, *, is_right: bool) -> list[float]:
    sides = [one for one in series if one.is_right is is_right]
    ends = [end for one in sides for end in one.range or () if end > 0 or not plot.is_log]
    newest = [one.newest[1] for one in sides if one.newest is not None and (one.newest[1] > 0 or not plot.is_log)]
    return [*newest, *ends, *(value for one in sides for value in one.curve.values)]


def _right(series: Iterable[PlottedSeries], plot: PlotData, rows: int) -> RightAxis | None:
    values = _values(series, plot, is_right=True)
    if plot.right is None or not values:
        return None
    low, high, _ = _limits(values, (), is_log=plot.is_log)
    low, high = next((locked for locked in plot.locked[1:] if locked is not None), (low, high))
    return RightAxis(low, high, (log_ticks if plot.is_log else value_ticks)(low, high, rows), plot.right)


def _x_ticks(plot: PlotData, first: float, last: float, columns: int) -> tuple[tuple[float, ...], tuple[str, ...]]:
    if plot.is_log_x:
        ticks = tuple(tick for tick in log_ticks(10.0**first, 10.0**last, max(4, columns // 8)) if tick > 0)
        places = tuple(math.log10(tick) for tick in ticks)
        kept = [(at, tick) for at, tick in zip(places, ticks, strict=True) if first <= at <= last]
        return tuple(at for at, _ in kept), tuple(plot.axis.label(tick) for _, tick in kept)
    wanted = max(2, columns // 16)
    ticks = nice_ticks(first, last, wanted)
    # A single tick is no scale.
    while len(ticks) < 2 and wanted < columns // 4:
        wanted += 1
        ticks = nice_ticks(first, last, wanted)
    if plot.axis is Axis.STEP:
        ticks = tuple(step for step in ticks if step == int(step)) or (float(first),)
    # In a narrow window ticks may share a label (same minute, or same digits): keep the first of each.
    labelled = {plot.axis.label(tick): tick for tick in reversed(ticks)}
    return tuple(reversed(labelled.values())), tuple(reversed(labelled))


def _drawable(curve: Curve, *, is_log: bool) -> tuple[Curve, int]:
    points = zip(curve.steps, curve.values, strict=True)
    kept = Curve.of([(x, y) for x, y in points if math.isfinite(y) and (y > 0 or not is_log)])
    return kept, len(curve.steps) - len(kept.steps)


DASHED_ROLE = "threshold"
"""Role of the level that is drawn dashed, to differ from a baseline even without colour."""


class LineKind(enum.Enum):
    CURVE = enum.auto()
    SIGNED = enum.auto()
    """A curve with a sign at intervals."""
    EDGE = enum.auto()
    """An edge of the band, with another sign."""
    ACROSS = enum.auto()
    DASHED = enum.auto()
    """Horizontal too, but dashed."""
    DOWN = enum.auto()
    NONE = enum.auto()
    """No line: a remark on the chart."""


def legend_of(plot: PlotData, axes: Axes) -> list[tuple[LineKind, str, str]]:
    """Kind, colour role and label of each legend entry."""
    curve, none = LineKind.CURVE, LineKind.NONE
    has_smooth = bool(axes.smooth.steps)
    entries = [(LineKind.DOWN, mark.role, mark.label) for mark in axes.marks if mark.role == "cursor"]
    entries += [(curve, "dim" if has_smooth else "spark", "raw")] if axes.raw.steps else []
    span = "" if plot.smoothing == SMOOTHING else f" over {round(1 / (1 - plot.smoothing))}"
    entries += [(LineKind.SIGNED, "spark", f"smoothed{span}")] if has_smooth else []
    if any(edge.steps for edge in axes.band):
        entries.append((LineKind.EDGE, "note", plot.band_label))
    for level in axes.levels:
        kind = LineKind.DASHED if level.role == DASHED_ROLE else LineKind.ACROSS
        entries.append((kind, level.role, level.label))
    entries += [(LineKind.DOWN, mark.role, mark.label) for mark in axes.marks if mark.role != "cursor"]
    for level in axes.far:
        side = "above" if level.value > axes.high else "below"
        entries.append((none, "dim", f"{level.label} {side} the chart"))
    if axes.is_log:
        hidden = f", {axes.hidden} values ≤ 0 not shown" if axes.hidden else ""
        entries.append((none, "dim", f"log scale{hidden}"))
    if any(plot.locked):
        entries.append((none, "dim", "range locked"))
    if plot.is_approximate:
        entries.append((none, "dim", "older steps downsampled"))
    return entries


def _limits(
    values: Iterable[float], levels: Iterable[PlotLevel], *, is_log: bool
) -> tuple[float, float, tuple[PlotLevel, ...]]:
    scaled = [math.log10(value) if is_log else value for value in values]
    low, high = min(scaled, default=0.0), max(scaled, default=1.0)
    reach = FAR_DECADES if is_log else FAR * ((high - low) or abs(high) or 1.0)
    far = []
    for level in levels:
        if not math.isfinite(level.value) or (is_log and level.value <= 0):
            far.append(level)
            continue
        at = math.log10(level.value) if is_log else level.value
        if low - reach <= at <= high + reach:
            low, high = min(low, at), max(high, at)
        else:
            far.append(level)
    if high - low <= _NOISE * max(abs(high), abs(low)):
        margin = 0.5 if is_log else abs(high) * 0.1
        low, high = (low - margin, high + margin) if margin else (0.0, 1.0)
    return (10.0**low, 10.0**high, tuple(far)) if is_log else (low, high, tuple(far))


def nice_ticks(low: float, high: float, wanted: int) -> tuple[float, ...]:
    """Round numbers (1, 2 or 5 times a power of ten) between `low` and `high`."""
    span = high - low
    if not _SPANS[0] < span < _SPANS[1]:
        return (low,)
    raw = span / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(raw))
    distance = next((factor * power for factor in (1, 2, 5) if factor * power >= raw), 10 * power)
    first = math.ceil(low / distance - 1e-9)
    last = math.floor(high / distance + 1e-9)
    return tuple(i * distance for i in range(first, last + 1)) or (low,)


def value_ticks(low: float, high: float, rows: int) -> tuple[float, ...]:
    """Round tick values for `rows` rows: about one per three rows, but at least three if they fit."""
    ticks: tuple[float, ...] = ()
    for wanted in range(max(2, rows // 3), max(3, rows) + 1):
        ticks = nice_ticks(low, high, wanted)
        if len(ticks) >= _LEAST_TICKS:
            break
    return ticks


def on_rows(axes: Axes, rows: int) -> Axes:
    """The axes with limits widened by as little as puts all ticks the same number of rows apart."""
    if axes.is_log or rows < 2 * _LEAST_TICKS:
        return axes
    right = axes.right
    if right is not None:
        low, high, ticks = _regular(right.low, right.high, rows)
        right = right._replace(low=low, high=high, ticks=ticks or right.ticks)
    low, high, ticks = _regular(axes.low, axes.high, rows)
    return replace(axes, low=low, high=high, y_ticks=ticks or axes.y_ticks, right=right)


def _regular(low: float, high: float, rows: int) -> tuple[float, float, tuple[float, ...]]:
    """Limits around `low` and `high` that put round numbers the same number of rows apart; without ticks if none do."""
    span = high - low
    if not _SPANS[0] < span < _SPANS[1] or span < _NOISE * max(abs(low), abs(high)):
        return low, high, ()
    best: tuple[float, float, float, float] | None = None
    power = 10.0 ** math.floor(math.log10(span))
    for distance in (factor * scale for scale in (power / 10, power) for factor in (1, 2, 5)):
        between = int((rows - 1) * distance / span + _NOISE)
        while between >= _LEAST_BETWEEN:
            cell = distance / between
            bottom = math.floor(low / cell + _NOISE) * cell
            top = bottom + (rows - 1) * cell
            if top >= high - _NOISE * span:
                count = math.floor(top / distance + _NOISE) - math.ceil(bottom / distance - _NOISE) + 1
                waste = (top - bottom) / span - 1.0 + (0.0 if count >= _LEAST_TICKS else 1.0)
                waste += _SPARSE_COST * abs(between - _BETWEEN)
                if best is None or waste < best[0]:
                    best = waste, bottom, top, distance
                break
            between -= 1
    if best is None or best[0] > 1.0:
        return low, high, ()
    _, bottom, top, distance = best
    # Rounding must not put points at the very ends outside.
    low, high = min(low, bottom), max(high, top)
    first, last = math.ceil(low / distance - 1e-6), math.floor(high / distance + 1e-6)
    return low, high, tuple(number * distance for number in range(first, last + 1))


def log_ticks(low: float, high: float, rows: int) -> tuple[float, ...]:
    """Powers of ten, thinned to fit the rows, with 2 and 5 in between if they span at most two decades."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if high <= 100 * low else (1,)
    every = max(1, math.ceil((last - first + 1) / max(2, rows // 2)))
    ticks = tuple(
        factor * 10.0**power
        for power in range(first, last + 1, every)
        for factor in factors
        if low * 0.999 <= factor * 10.0**power <= high * 1.001
    )
    return ticks if len(ticks) > 1 else value_ticks(low, high, rows)


def value_labels(ticks: Sequence[float], unit: Unit) -> list[str]:
    if unit is Unit.FRACTION:
        return [f"{label} %" for label in tick_labels([tick * 100 for tick in ticks])]
    return tick_labels(ticks)


def tick_labels(ticks: Sequence[float]) -> list[str]:
    """Labels with as many decimals as neighbouring ticks need to differ."""
    distance = min((abs(b - a) for a, b in pairwise(ticks)), default=0.0)
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if distance <= 0 or largest >= 1e6 or distance < 1e-5:
        labels = [units.number(tick) for tick in ticks]
        digits = _DIGITS
        while len(set(labels)) < len(ticks) and digits < _MOST_DIGITS:
            digits += 1
            labels = [
                f"{tick:.{digits}g}".replace("-", units.MINUS, 1) if tick < 0 else f"{tick:.{digits}g}"
                for tick in ticks
            ]
        return labels
    decimals = max(0, -math.floor(math.log10(distance) + 1e-9))
    return [f"{tick:,.{decimals}f}".replace("-", units.MINUS) if abs(tick) > 1e-12 else "0" for tick in ticks]


_CHECKPOINTS = ("time_save",)
_VALIDATIONS = ("val_score", "val_acc", "val_loss", "val_aux", "time_eval")
_MOST_COLUMNS = 200
_CROWDED = 0.4
_LEAST_SAVE_SHARE, _LEAST_SAVE_S = 0.01, 1.0
_NAMED = 3


def read_markers(snapshot: Snapshot, first: int, last: int, metric: str = "") -> tuple[Marker, ...]:
    """Events on the steps `first` to `last`, in order; alerts only from WARN up."""
    found = [Marker(step, MarkerKind.RESTART) for step in snapshot.stream.seen_restarts]
    own = _rules_about(snapshot, metric) if metric else frozenset()
    muted = snapshot.part.judging.muted
    old = overwritten_events(snapshot.source.events)
    for number, event in enumerate(snapshot.source.events):
        if event.stream or event.level < Level.WARN or event.is_of(muted) or number in old:
            continue
        if not event.is_alarm and event.state not in (EventState.RECOVERED, EventState.RESUMED):
            continue
        kind = MarkerKind.RECOVERY if event.state is EventState.RECOVERED else MarkerKind.ONSET
        found.append(Marker(event.step, kind, event.level, event.raised_by, event.raised_by in own))
    found = [marker for marker in found if first <= marker.step <= last]
    found += _logged_on(snapshot, _CHECKPOINTS, first, last, MarkerKind.CHECKPOINT)
    found += _logged_on(snapshot, _VALIDATIONS, first, last, MarkerKind.VALIDATION)
    return tuple(sorted(found, key=lambda marker: (marker.step, marker.kind)))


def _rules_about(snapshot: Snapshot, metric: str) -> frozenset[str]:
    # Current verdicts: the chart continues past the step.
    standing = snapshot.at(None).standing
    rules = {verdict.raised_by for verdict in standing if metric in (verdict.metric, verdict.key)}
    if not snapshot.source.events:
        return frozenset(rules)
    # Events come from rules, so these are imported already.
    from rltop.rules import registry  # noqa: PLC0415

    return frozenset(rules | {spec.id for spec in registry.ALL_SPECS if spec.metrics and spec.metrics[0] == metric})


def _logged_on(snapshot: Snapshot, names: Sequence[str], first: int, last: int, kind: MarkerKind) -> list[Marker]:
    """Markers on the steps at which the first known metric of `names` was logged."""
    signal = primary(snapshot, *names)
    if signal is None or last < first:
        return []
    steps, values = snapshot.stream.series(signal.key)
    held = steps[0] if steps else last + 1
    points = [(s, signal.read(v)) for s, v in zip(steps, values, strict=True) if first <= s <= last and v == v]
    if first < held:
        # Of downsampled steps only buckets are known.
        stop = min(held, last + 1)
        stride = max(1, -(-(stop - first) // _MOST_COLUMNS))
        buckets = snapshot.stream.buckets(signal.key, stride, first, stop)
        points[:0] = [(one.first_step, signal.read(one.high)) for one in buckets if one.count]
    least = 0.0
    if kind is MarkerKind.CHECKPOINT:
        # Some trainers log the checkpoint time on every step, near zero if none was saved.
        longest = max([signal.read(v) for v in values if v == v] + [value for _, value in points], default=0.0)
        # Or a second: the longest one may have waited for minutes.
        least = min(_LEAST_SAVE_SHARE * longest, _LEAST_SAVE_S)
    return [Marker(step, kind) for step, value in points if kind is MarkerKind.VALIDATION or value > least]


def sign_of(marker: Marker, glyphs: Glyphs) -> tuple[str, str]:
    match marker.kind:
        case MarkerKind.ONSET:
            return glyphs.levels[marker.level], LEVEL_ROLES[marker.level]
        case MarkerKind.RECOVERY:
            return glyphs.recovered, "ok"
        case MarkerKind.RESTART:
            return glyphs.restart, "restart"
        case MarkerKind.CHECKPOINT:
            return "c", "note"
        case MarkerKind.VALIDATION:
            return "v", "dim"


def add_rail(
    builder: RowBuilder, markers: Sequence[Marker], cells: int, cell_of: Callable[[int], int | None], glyphs: Glyphs
) -> RowBuilder:
    """Add a row of signs, `cells` wide; kinds that are too frequent are left to the legend."""
    rail: list[Marker | None] = [None] * cells
    counts = Counter(marker.kind for marker in markers)
    crowded = [kind for kind in (MarkerKind.VALIDATION, MarkerKind.CHECKPOINT) if counts[kind] > _CROWDED * cells]
    for marker in markers:
        cell = cell_of(marker.step)
        if cell is None or not 0 <= cell < cells or marker.kind in crowded:
            continue
        held = rail[cell]
        if held is None or (marker.kind, marker.level) > (held.kind, held.level):
            rail[cell] = marker
    for shown in rail:
        builder.add(*((" ", "text") if shown is None else sign_of(shown, glyphs)))
    return builder


def paint_marker_legend(markers: Sequence[Marker], indent: int, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" " * indent)
    ruled = [marker for marker in markers if marker.rule]
    # The chart's own metric first, then the newest.
    ruled.sort(key=lambda marker: (not marker.is_own, -marker.step))
    entries = [(*sign_of(one, glyphs), f"{rule_name(one.rule)} {units.step(one.step)}") for one in ruled]
    rest = [
        _summary(kind, word, markers, glyphs)
        for kind, word in (
            (MarkerKind.RESTART, "restart"),
            (MarkerKind.CHECKPOINT, "checkpoint"),
            (MarkerKind.VALIDATION, "validation"),
        )
        if any(marker.kind is kind for marker in markers)
    ]
    reserved = sum(cell_width(sign) + cell_width(text) + 3 for sign, _, text in rest)
    if entries and reserved > builder.room * 2 // 3:
        rest = [(sign, role, text.split(" ", 1)[0]) for sign, role, text in rest]
        reserved = sum(cell_width(sign) + cell_width(text) + 3 for sign, _, text in rest)
    left_out = 0
    for sign, role, text in entries:
        if cell_width(text) + 4 + reserved + 6 > builder.room:
            left_out += 1
            continue
        builder.add(sign, role).add(f" {text}  ", "dim")
    if left_out:
        builder.add(f"+{left_out}  ", "dim")
    for sign, role, text in rest:
        if cell_width(text) + 4 <= builder.room:
            builder.add(sign, role).add(f" {text}  ", "dim")
    return builder.row()


def _summary(kind: MarkerKind, word: str, markers: Sequence[Marker], glyphs: Glyphs) -> tuple[str, str, str]:
    found = [marker for marker in markers if marker.kind is kind]
    sign, role = sign_of(found[0], glyphs)
    steps = [marker.step for marker in found]
    if len(steps) <= _NAMED:
        return sign, role, f"{word} {', '.join(map(units.step, steps))}"
    gaps = sorted(b - a for a, b in pairwise(steps))
    return sign, role, f"{word} every {units.step(gaps[len(gaps) // 2])}, last {units.step(steps[-1])}"
