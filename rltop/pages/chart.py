"""What the large chart of a metric is drawn from, as plain data.

Owns the reduction of a run to at most two points per column and the smoothing;
how it is drawn is the chart's business. Owns too what the x axis counts (steps, time, tokens, samples, epochs) and
where a step is on it. Every number that leaves here is finite.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from typing import Protocol

from rltop import units
from rltop.model import Level, Signal, Unit, Verdict, VerdictState
from rltop.pages.bands import Band, edge_points
from rltop.pages.markers import Marker
from rltop.pages.signals import SignalReading, primary, signal_of
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row
from rltop.run.snapshot import Snapshot
from rltop.store.series import Bucket

LABEL_CELLS = 10
"""About what the labels of the value axis take of the width."""

SMOOTHING = 0.9
"""Weight of the past in the smoothed curve: about ten records long."""

_REMEMBERED = 3
"""How many times its length an average looks back before the window: what lies before weighs less than 5 %."""

WHEEL = 1.5
"""How much shorter or longer the stretch of steps gets with each turn of the wheel."""


@dataclass(frozen=True, slots=True)
class Zoom:
    """The stretch of steps that a chart shows; both ends are inside."""

    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1

    def scaled(self, factor: float, whole: Zoom, anchor: int | None = None) -> Zoom:
        """`factor` times as long, `anchor` (its end by default) at the same place of it, inside `whole`."""
        length = max(8, min(whole.length, round(self.length * factor)))
        if anchor is None:
            anchor = self.last
        before = (anchor - self.first) / max(1, self.length - 1)
        first = round(anchor - before * (length - 1))
        return Zoom(first, first + length - 1).within(whole)

    def centred(self, factor: float, whole: Zoom, middle: int) -> Zoom:
        """`factor` times as long with `middle` in its middle, as far as it lies inside `whole`."""
        length = max(8, min(whole.length, round(self.length * factor)))
        first = middle - length // 2
        return Zoom(first, first + length - 1).within(whole)

    def moved(self, share: float, whole: Zoom) -> Zoom:
        by = round(self.length * share) or (1 if share > 0 else -1)
        return Zoom(self.first + by, self.last + by).within(whole)

    def within(self, whole: Zoom) -> Zoom:
        if self.length >= whole.length:
            return whole
        shift = max(0, whole.first - self.first) - max(0, self.last - whole.last)
        return Zoom(self.first + shift, self.last + shift)


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one curve; steps rise, values are finite, lengths are equal."""

    steps: tuple[float, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, points: Sequence[tuple[float, float]]) -> Curve:
        return cls(tuple(x for x, _ in points), tuple(y for _, y in points))


NO_CURVE = Curve((), ())


@dataclass(frozen=True, slots=True)
class PlotLevel:
    """A horizontal line: a threshold or a baseline."""

    value: float
    role: str
    label: str


@dataclass(frozen=True, slots=True)
class PlotMark:
    """A vertical line: a restart, the beginning of a verdict, the time cursor, a value not finite.

    Attributes:
        role: of its colour; those of the role "cursor" lie over the chart, so that it is not drawn anew for them.
        value: which value it crosses there, if that is to be seen.
    """

    step: float
    role: str
    label: str
    value: float | None = None


class Axis(enum.Enum):
    """What the x axis of a chart counts."""

    STEP = "step"
    TIME = "time since the start"
    TOKENS = "tokens"
    SAMPLES = "samples"
    EPOCH = "epoch"
    CLOCK = "wall time (UTC)"

    def label(self, x: float) -> str:
        match self:
            case Axis.TIME:
                return units.duration(x)
            case Axis.TOKENS | Axis.SAMPLES | Axis.EPOCH:
                return units.number(x)
            case Axis.CLOCK:
                return datetime.fromtimestamp(x, UTC).strftime("%d %b %H:%M")
            case _:
                return units.step(int(x))


@dataclass(frozen=True, slots=True)
class Places:
    """Where steps are on an axis; both rise, and without any a step is its own place."""

    steps: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, step: float) -> float:
        """The place of a step; before the first one known none is below 0."""
        return max(0.0, _between(step, self.steps, self.values)) if self.steps else step

    def step_at(self, place: float) -> float:
        return _between(place, self.values, self.steps) if self.steps else place


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    at = max(1, min(bisect_left(xs, x), len(xs) - 1))
    share = (x - xs[at - 1]) / (xs[at] - xs[at - 1])
    return ys[at - 1] + share * (ys[at] - ys[at - 1])


@dataclass(frozen=True, slots=True)
class PlottedSeries:
    """One of several curves in a chart: another run, or another metric.

    Attributes:
        sign: one character that stands on the curve and in the legend, so that colour is not needed.
        newest: place and value of the newest one in the chart, which no average hides.
        is_right: its values stand on the axis on the right.
        shorter: what it is in fewer words, for a legend without room for `name`.
        range: least and greatest value in the chart before they are smoothed: what the axis has to hold in any case.
    """

    sign: str
    name: str
    role: str
    curve: Curve
    newest: tuple[float, float] | None = None
    is_right: bool = False
    shorter: tuple[str, ...] = ()
    range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class PlotData:
    """One chart.

    Attributes:
        unit: how values are written behind their number; may be empty.
        raw: at most two points per column, lowest and highest.
        band: the lower and the upper edge of what lies around the values; empty without one.
        declared: the range that was declared for the values; the axis covers it.
        series: curves with a sign of their own, over it.
        span: the ends of that axis, where it counts something else; `zoom` is in steps nevertheless.
        is_log_x: the steps of the curves, and `span`, are decadic logarithms.
        locked: the ends of the value axes, left and right, where they are not to follow the values.
        right: unit of the values on the right; None without an axis there.
    """

    title: str
    unit: str
    raw: Curve
    smooth: Curve
    levels: tuple[PlotLevel, ...]
    marks: tuple[PlotMark, ...]
    zoom: Zoom
    whole: Zoom
    is_log: bool = False
    can_log: bool = False
    is_approximate: bool = False
    band: tuple[Curve, ...] = ()
    band_label: str = ""
    declared: tuple[float, float] | None = None
    series: tuple[PlottedSeries, ...] = ()
    axis: Axis = Axis.STEP
    places: Places = Places((), ())
    span: tuple[float, float] | None = None
    is_log_x: bool = False
    locked: tuple[tuple[float, float] | None, ...] = ()
    smoothing: float = SMOOTHING
    right: Unit | None = None


def value_ranges(plot: PlotData) -> tuple[tuple[float, float] | None, ...]:
    """Least and greatest value that the chart shows on the left, and on the right; None without a value."""
    left = (plot.raw, plot.smooth, *plot.band, *(one.curve for one in plot.series if not one.is_right))
    right = tuple(one.curve for one in plot.series if one.is_right)
    ends = {
        side: [end for one in plot.series if one.is_right is side for end in one.range or ()] for side in (False, True)
    }
    return _range(left, (*(plot.declared or ()), *ends[False]), plot.is_log), _range(right, ends[True], plot.is_log)


def _range(curves: Sequence[Curve], ends: Sequence[float], is_log: bool) -> tuple[float, float] | None:
    values = [*ends, *(value for curve in curves for value in curve.values)]
    values = [value for value in values if value > 0] if is_log else values
    if not values:
        return None
    low, high = min(values), max(values)
    if low < high:
        return low, high
    return (low / 2, high * 2) if is_log else (low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10)


def build_plot(
    snapshot: Snapshot,
    reading: SignalReading,
    verdicts: Sequence[Verdict],
    *,
    columns: int = 160,
    zoom: Zoom | None = None,
    is_log: bool = False,
    smoothing: float = SMOOTHING,
    band: Band | None = None,
) -> PlotData:
    """Reduce a signal to what a chart of `columns` columns can show.

    Args:
        snapshot: the run, and its step; that is marked, and the chart goes on behind it.
        is_log: draw on a logarithmic axis; ignored where no value is above zero.
        band: what lies around the signal, if that is to be drawn.
    """
    stream, signal = snapshot.stream, reading.signal
    first, last = stream.first_step or 0, stream.last_step or 0
    whole = Zoom(first, max(first, last))
    shown = whole if zoom is None else zoom.within(whole)
    stride = max(1, -(-shown.length // max(2, columns)))
    start = shown.first - shown.first % stride
    read = snapshot.part.memo if shown.first == whole.first else stream
    buckets = read.buckets(signal.key, stride, start, shown.last + 1)
    before = _before(snapshot, signal, stride, start, smoothing)
    raw = _extremes(buckets, signal, shown)
    levels = [
        PlotLevel(value, what, f"{what} {units.measure(value, reading.unit)}")
        for what, value in (("threshold", reading.threshold), ("baseline", reading.baseline))
        if value is not None
    ]
    can_log = any(value > 0 for value in raw.values)
    return PlotData(
        title=signal.metric.title,
        unit=units.unit_suffix(reading.unit),
        raw=raw,
        smooth=smoothed([*before, *buckets], signal, shown, smoothing),
        levels=tuple(levels),
        marks=tuple(_marks(snapshot, reading, verdicts, shown)),
        zoom=shown,
        whole=whole,
        is_log=is_log and can_log,
        can_log=can_log,
        is_approximate=any(bucket.is_approximate for bucket in buckets),
        band=() if band is None else _edges(snapshot, band, buckets, (stride, start, shown.last + 1)),
        band_label="" if band is None else band.label,
        declared=reading.declared,
        smoothing=smoothing,
    )


def series_of(
    snapshot: Snapshot,
    signal: Signal,
    place: Places,
    *,
    sign: str,
    name: str,
    role: str,
    columns: int,
    shorter: tuple[str, ...] = (),
    zoom: Zoom | None = None,
    smoothing: float = SMOOTHING,
) -> PlottedSeries | None:
    """A signal as one of several curves in a chart of `columns` columns; None without a value in it."""
    stream = snapshot.stream
    if stream.first_step is None or stream.last_step is None:
        return None
    first, last = stream.first_step, stream.last_step
    if zoom is not None:
        first, last = max(first, zoom.first), min(last, zoom.last)
    if last < first:
        return None
    stride = max(1, -(-(last - first + 1) // max(2, columns)))
    start = first - first % stride
    # What begins with the run is asked for with every picture, another window rarely twice.
    read = snapshot.part.memo if first == stream.first_step else stream
    buckets = read.buckets(signal.key, stride, start, last + 1)
    before = _before(snapshot, signal, stride, start, smoothing)
    curve = smoothed([*before, *buckets], signal, Zoom(first, last), smoothing)
    if not curve.steps:
        return None
    point = stream.latest(signal.key, last)
    newest = None if point is None or point.step < first else (place.at(point.step), signal.read(point.value))
    means = [signal.read(one.mean) for one in buckets if one.count and one.last_step >= first]
    means = [value for value in means if math.isfinite(value)]
    ends = (min(means), max(means)) if means else None
    drawn = Curve(tuple(place.at(x) for x in curve.steps), curve.values)
    return PlottedSeries(sign, name, role, drawn, newest, shorter=shorter, range=ends)


def _before(snapshot: Snapshot, signal: Signal, stride: int, start: int, smoothing: float) -> list[Bucket]:
    """What an average at `start` remembers of the steps before: it is the same in every window."""
    length = -(-_REMEMBERED // (1 - smoothing) // stride) * stride
    first = max((snapshot.stream.first_step or 0) // stride * stride, start - round(length))
    return snapshot.stream.buckets(signal.key, stride, first, start) if first < start else []


def _edges(snapshot: Snapshot, band: Band, middle: Sequence[Bucket], where: tuple[int, int, int]) -> tuple[Curve, ...]:
    buckets = {band.main.key: middle, **{key: snapshot.stream.buckets(key, *where) for key in band.keys}}
    return tuple(Curve.of(side) for side in edge_points(band, buckets) if side)


def _extremes(buckets: Sequence[Bucket], signal: Signal, zoom: Zoom) -> Curve:
    points: list[tuple[float, float]] = []
    for bucket in buckets:
        if not bucket.count or bucket.last_step < zoom.first:
            continue
        low, high = signal.read(bucket.low), signal.read(bucket.high)
        is_rising = not points or abs(low - points[-1][1]) <= abs(high - points[-1][1])
        first = max(bucket.first_step, zoom.first)
        points.append((first, low if is_rising else high))
        if bucket.count > 1 and low != high:
            points.append((max(first, bucket.last_step), high if is_rising else low))
    return Curve.of([point for point in points if math.isfinite(point[1])])


def smoothed(buckets: Sequence[Bucket], signal: Signal, zoom: Zoom, smoothing: float = SMOOTHING) -> Curve:
    """EMA over bucket means, each weighted by its number of records, started without bias.

    Args:
        buckets: of the values as logged, from left to right, with those before the window that it remembers.
        zoom: the steps that are shown; what ends before them is averaged, and not shown.
    """
    points: list[tuple[float, float]] = []
    total = weight = 0.0
    for bucket in buckets:
        if not bucket.count:
            continue
        keep: float = smoothing**bucket.count
        total = total * keep + signal.read(bucket.mean) * (1 - keep)
        weight = weight * keep + (1 - keep)
        value = total / weight if weight > 0 else signal.read(bucket.mean)
        if math.isfinite(value) and bucket.last_step >= zoom.first:
            points.append(((max(bucket.first_step, zoom.first) + bucket.last_step) / 2, value))
    return Curve.of(points)


def _marks(snapshot: Snapshot, reading: SignalReading, verdicts: Sequence[Verdict], zoom: Zoom) -> list[PlotMark]:
    marks = [PlotMark(step, "restart", f"restart at {units.step(step)}") for step in snapshot.stream.seen_restarts]
    for verdict in verdicts:
        if verdict.metric != reading.signal.metric.name and verdict.key != reading.signal.key:
            continue
        if verdict.level >= Level.INFO and (verdict.metric or verdict.key):
            text = f"{verdict.rule} since {units.step(verdict.since_step)}"
            if verdict.state is VerdictState.RECOVERED and verdict.recovered_step is not None:
                text += f", recovered {units.step(verdict.recovered_step)}"
            marks.append(PlotMark(verdict.since_step, LEVEL_ROLES[verdict.level], text))
    newest = snapshot.stream.marks(reading.signal.key)[-8:]
    marks += [PlotMark(m.step, "spark-mark", f"{units.nonfinite(m.kind)} at {units.step(m.step)}") for m in newest]
    at = snapshot.at_step
    if at is not None:
        marks.append(PlotMark(at, "cursor", f"step {units.step(at)}"))
    return [mark for mark in marks if zoom.first <= mark.step <= zoom.last]


class ChartPainter(Protocol):
    """Whoever draws charts; see `app.plot_pane`: no page knows a library for it."""

    def __call__(
        self,
        plot: PlotData,
        width: int,
        height: int,
        glyphs: Glyphs,
        *,
        unit: Unit,
        has_smooth: bool,
        has_band: bool,
        markers: Sequence[Marker],
    ) -> Sequence[Row]: ...


_COUNTED = {Axis.TOKENS: ("num_tokens", "total_tokens"), Axis.SAMPLES: ("episode", "sample_count", "generated_count")}
"""Metrics of the catalogue: how many since the start, and how many in a step."""


def signal_in(snapshot: Snapshot, metric: tuple[str, str]) -> Signal | None:
    name, key = metric
    if name:
        return primary(snapshot, name)
    return signal_of(snapshot, key) if snapshot.stream.has(key) else None


def name_or_key(signal: Signal) -> tuple[str, str]:
    """How other runs are asked for the same metric (`signal_in`): by its name, else by its key."""
    return signal.metric.name, "" if signal.metric.name else signal.key


def places(snapshot: Snapshot, axis: Axis) -> Places | None:
    """Where the steps of the run are on the axis; None where the run does not log what it counts.

    Args:
        axis: what the axis counts; relative time, tokens and samples begin at 0 with the run's first row in memory.
    """
    if axis is Axis.STEP:
        return Places((), ())
    return snapshot.part.memo.of_rows((axis, snapshot.identity is None), lambda: _places(snapshot, axis))


def _places(snapshot: Snapshot, axis: Axis) -> Places | None:
    if axis in (Axis.TIME, Axis.CLOCK):
        series = snapshot.stream.times()
        known = [(s, t) for s, t in zip(series.steps, series.values, strict=True) if math.isfinite(t)]
    elif axis is Axis.EPOCH:
        known = _values(snapshot, primary(snapshot, "epoch"))
    else:
        known = _so_far(snapshot, *_COUNTED[axis])
    rising: list[tuple[int, float]] = []
    for step, value in known:
        # Between two changes of a number that is not counted on every step, steps are spread evenly.
        if not rising or value > rising[-1][1]:
            rising.append((step, value))
    if len(rising) < 2:
        return None
    start = rising[0][1] if axis is Axis.TIME or axis in _COUNTED else 0.0
    return Places(tuple(float(step) for step, _ in rising), tuple(value - start for _, value in rising))


def _values(snapshot: Snapshot, signal: Signal | None) -> list[tuple[int, float]]:
    if signal is None:
        return []
    series = snapshot.stream.series(signal.key)
    return [(s, signal.read(v)) for s, v in zip(series.steps, series.values, strict=True) if math.isfinite(v)]


def _so_far(snapshot: Snapshot, total: str, *parts: str) -> list[tuple[int, float]]:
    """Step → how many so far: as logged, else the sum of those in each step, by the first of `parts` that is logged."""
    counted = primary(snapshot, total)
    if counted is not None:
        return _values(snapshot, counted)
    each = _values(snapshot, primary(snapshot, *parts))
    return list(zip((step for step, _ in each), accumulate(value for _, value in each), strict=True))


def axes_logged(snapshot: Snapshot) -> Sequence[Axis]:
    return [axis for axis in Axis if places(snapshot, axis) is not None]


def placed(plot: PlotData, found: Places, axis: Axis, *, is_log: bool = False) -> PlotData:
    """A chart over steps, drawn over something else.

    Args:
        plot: over steps, but for its series: those are on the axis already.
        is_log: the x axis is logarithmic; what is not above zero is left out.
    """
    if axis is Axis.STEP and not is_log:
        return plot

    def moved(curve: Curve, is_moved: bool = True) -> Curve:
        pairs = [(found.at(x) if is_moved else x, y) for x, y in zip(curve.steps, curve.values, strict=True)]
        return Curve.of([(math.log10(x) if is_log else x, y) for x, y in pairs if x > 0 or not is_log])

    raw = moved(plot.raw)
    series = tuple(
        replace(one, curve=moved(one.curve, is_moved=False), newest=_moved_point(one.newest, is_log))
        for one in plot.series
    )
    ends = list(plot.span or (found.at(plot.zoom.first), found.at(plot.zoom.last)))
    if is_log:
        least = min((curve.steps[0] for curve in (raw, *(one.curve for one in series)) if curve.steps), default=0.0)
        ends = [math.log10(ends[0]) if ends[0] > 0 else least, math.log10(max(ends[1], 10.0**least))]
    marks = [replace(mark, step=found.at(mark.step)) for mark in plot.marks]
    if is_log:
        marks = [replace(mark, step=math.log10(mark.step)) for mark in marks if mark.step > 0]
    return replace(
        plot, raw=raw, smooth=moved(plot.smooth), band=tuple(moved(edge) for edge in plot.band), marks=tuple(marks),
        series=series, axis=axis, places=found, is_log_x=is_log, span=(ends[0], max(ends[1], ends[0] + 1e-9)),
    )  # fmt: skip


def _moved_point(point: tuple[float, float] | None, is_log: bool) -> tuple[float, float] | None:
    if point is None or (is_log and point[0] <= 0):
        return None
    return (math.log10(point[0]) if is_log else point[0]), point[1]


def step_at(plot: PlotData, share: float) -> int:
    share = max(0.0, min(1.0, share))
    if plot.span is None:
        return round(plot.zoom.first + share * (plot.zoom.last - plot.zoom.first))
    x = plot.span[0] + share * (plot.span[1] - plot.span[0])
    step = plot.places.step_at(10.0**x if plot.is_log_x else x)
    return max(plot.zoom.first, min(plot.zoom.last, round(step)))


@dataclass(frozen=True, slots=True)
class Canvas:
    """Where a chart is on its page: rows from `top` on, and cells from `left` on between its axes."""

    top: int
    rows: int
    left: int
    cells: int

    def share(self, x: int, y: int) -> float | None:
        if not (self.top <= y < self.top + self.rows and self.left <= x < self.left + self.cells):
            return None
        return (x - self.left) / max(1, self.cells - 1)


def canvas_of(chart: Sequence[Row], top: int, left: int = 0, *, has_right: bool = False) -> Canvas | None:
    for y in range(len(chart) - 1, 0, -1):
        text = "".join(piece.text for piece in chart[y].line).rstrip()
        axis = text.lstrip()
        if axis[:1] == "└" or axis[:2] in ("+-", "++"):
            start = len(text) - len(axis) + 1
            return Canvas(top + 1, y - 1, left + start, len(text) - start - has_right)
    return None
