"""The axes of a chart: limits, ticks, labels and legend for what `pages.chart` has read.

Pure: only finite numbers that fit the axis leave this module, because the plotting library stops on others. Whoever
draws a chart, on the screen or in a report, draws it on these axes.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rltop import units
from rltop.model import Unit
from rltop.pages.chart import NO_CURVE, SMOOTHING, Axis, Curve, PlotData, PlotLevel, PlotMark, PlottedSeries
from rltop.structs import NamedTuple

FAR = 3.0
"""A level farther away than this many spreads of the data would flatten the line."""

FAR_DECADES = 1.0
"""The same on a logarithmic axis, where a spread is in decades."""

_LEAST_TICKS = 3
"""Bottom, middle and top: with fewer nobody can read a value off the axis."""

_DIGITS, _MOST_DIGITS = 3, 12
_LEAST_BETWEEN, _BETWEEN, _SPARSE_COST = 2, 4, 0.03
"""Rows from tick to tick, at the least and as they are liked; each row more or less is worth so much of the height."""

_NOISE = 1e-9
"""Values that are no further apart, as a part of themselves, are one value and its rounding."""
MINUS = "\N{MINUS SIGN}"


class RightAxis(NamedTuple):
    """A second value axis: its limits, its places, and the unit of what stands there."""

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
        x_ticks, y_ticks: places on the axes, inside the limits.
        band: what there is to draw of the edges around the values.
        series: what there is to draw of the curves with a sign of their own.
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
    # One number alone is no scale.
    while len(ticks) < 2 and wanted < columns // 4:
        wanted += 1
        ticks = nice_ticks(first, last, wanted)
    if plot.axis is Axis.STEP:
        ticks = tuple(step for step in ticks if step == int(step)) or (float(first),)
    return ticks, tuple(plot.axis.label(tick) for tick in ticks)


def _drawable(curve: Curve, *, is_log: bool) -> tuple[Curve, int]:
    points = zip(curve.steps, curve.values, strict=True)
    kept = Curve.of([(x, y) for x, y in points if math.isfinite(y) and (y > 0 or not is_log)])
    return kept, len(curve.steps) - len(kept.steps)


DASHED_ROLE = "threshold"
"""The level that is drawn in dashes: without colour a baseline beside it would look the same."""


class LineKind(enum.Enum):
    """How a line of a chart runs."""

    CURVE = enum.auto()
    SIGNED = enum.auto()
    """A curve that carries a sign here and there."""
    EDGE = enum.auto()
    """A curve around the values, with another sign."""
    ACROSS = enum.auto()
    DASHED = enum.auto()
    """Across too, in dashes."""
    DOWN = enum.auto()
    NONE = enum.auto()
    """There is none: something is said of the chart."""


class LegendEntry(NamedTuple):
    """What one line of a chart is: how it runs, its role, and its name."""

    kind: LineKind
    role: str
    label: str


def legend_of(plot: PlotData, axes: Axes) -> list[LegendEntry]:
    curve, none = LineKind.CURVE, LineKind.NONE
    has_smooth = bool(axes.smooth.steps)
    entries = [LegendEntry(LineKind.DOWN, mark.role, mark.label) for mark in axes.marks if mark.role == "cursor"]
    entries += [LegendEntry(curve, "dim" if has_smooth else "spark", "raw")] if axes.raw.steps else []
    span = "" if plot.smoothing == SMOOTHING else f" over {round(1 / (1 - plot.smoothing))}"
    entries += [LegendEntry(LineKind.SIGNED, "spark", f"smoothed{span}")] if has_smooth else []
    if any(edge.steps for edge in axes.band):
        entries.append(LegendEntry(LineKind.EDGE, "note", plot.band_label))
    for level in axes.levels:
        kind = LineKind.DASHED if level.role == DASHED_ROLE else LineKind.ACROSS
        entries.append(LegendEntry(kind, level.role, level.label))
    entries += [LegendEntry(LineKind.DOWN, mark.role, mark.label) for mark in axes.marks if mark.role != "cursor"]
    entries += [LegendEntry(none, "dim", _far(level, axes)) for level in axes.far]
    if axes.is_log:
        hidden = f", {axes.hidden} values ≤ 0 not shown" if axes.hidden else ""
        entries.append(LegendEntry(none, "dim", f"log scale{hidden}"))
    if any(plot.locked):
        entries.append(LegendEntry(none, "dim", "range locked"))
    if plot.is_approximate:
        entries.append(LegendEntry(none, "dim", "older steps downsampled"))
    return entries


def _far(level: PlotLevel, axes: Axes) -> str:
    return f"{level.label} {'above' if level.value > axes.high else 'below'} the chart"


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
    if not span > 0 or not math.isfinite(span):
        return (low,)
    raw = span / max(1, wanted)
    power = 10.0 ** math.floor(math.log10(raw))
    distance = next((factor * power for factor in (1, 2, 5) if factor * power >= raw), 10 * power)
    first = math.ceil(low / distance - 1e-9)
    last = math.floor(high / distance + 1e-9)
    return tuple(i * distance for i in range(first, last + 1)) or (low,)


def value_ticks(low: float, high: float, rows: int) -> tuple[float, ...]:
    """Round numbers beside `rows` cells: one in three of them, but three at least where they have room."""
    ticks: tuple[float, ...] = ()
    for wanted in range(max(2, rows // 3), max(3, rows) + 1):
        ticks = nice_ticks(low, high, wanted)
        if len(ticks) >= _LEAST_TICKS:
            break
    return ticks


def on_rows(axes: Axes, rows: int) -> Axes:
    """The axes with their limits moved apart, by as little as it takes for ticks that stand the same rows apart."""
    if axes.is_log or rows < 2 * _LEAST_TICKS:
        return axes
    right = axes.right
    if right is not None:
        low, high, ticks = _regular(right.low, right.high, rows)
        right = right._replace(low=low, high=high, ticks=ticks or right.ticks)
    low, high, ticks = _regular(axes.low, axes.high, rows)
    return replace(axes, low=low, high=high, y_ticks=ticks or axes.y_ticks, right=right)


def _regular(low: float, high: float, rows: int) -> tuple[float, float, tuple[float, ...]]:
    """Limits around `low` and `high` such that round numbers stand on rows the same number apart; no ticks for none."""
    span = high - low
    if not (span > 0 and math.isfinite(span)) or span < _NOISE * max(abs(low), abs(high)):
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
    # What is drawn at the very end must not lie outside by the rounding of a sum.
    low, high = min(low, bottom), max(high, top)
    first, last = math.ceil(low / distance - 1e-6), math.floor(high / distance + 1e-6)
    return low, high, tuple(number * distance for number in range(first, last + 1))


def log_ticks(low: float, high: float, rows: int) -> tuple[float, ...]:
    """Powers of ten, thinned out to the rows; 2 and 5 between them where they are few."""
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
    """Labels with as many decimals as it takes to tell neighbours apart."""
    distance = min((abs(b - a) for a, b in pairwise(ticks)), default=0.0)
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if distance <= 0 or largest >= 1e6 or distance < 1e-5:
        labels = [units.number(tick) for tick in ticks]
        digits = _DIGITS
        while len(set(labels)) < len(ticks) and digits < _MOST_DIGITS:
            digits += 1
            labels = [
                f"{tick:.{digits}g}".replace("-", MINUS, 1) if tick < 0 else f"{tick:.{digits}g}" for tick in ticks
            ]
        return labels
    decimals = max(0, -math.floor(math.log10(distance) + 1e-9))
    return [f"{tick:,.{decimals}f}".replace("-", MINUS) if abs(tick) > 1e-12 else "0" for tick in ticks]
