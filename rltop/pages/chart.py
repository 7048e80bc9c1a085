"""What the large chart of a metric is drawn from, as plain data.

Owns the reduction of a run to at most two points per column and the smoothing;
how it is drawn is the chart's business. Every number that leaves here is finite.
"""

from __future__ import annotations

import enum
import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Protocol

from rltop import units
from rltop.model import EventState, Level, Signal, Unit, Verdict, VerdictState
from rltop.pages.bands import Band, edge_points
from rltop.pages.signals import SignalReading
from rltop.rows.cells import RowBuilder
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Row
from rltop.rows.widths import cell_width
from rltop.run.past import outlived
from rltop.run.snapshot import Snapshot
from rltop.store.series import Bucket
from rltop.structs import Struct

LABEL_CELLS = 10
"""About what the labels of the value axis take of the width."""

SMOOTHING = 0.9
"""Weight of the past in the smoothed curve: about ten records long."""

WHEEL = 1.5
"""How much shorter or longer the stretch of steps gets with each turn of the wheel."""


class Zoom(Struct):
    """The stretch of steps that a chart shows; both ends are inside."""

    first: int
    last: int

    @property
    def length(self) -> int:
        """How many steps it spans."""
        return self.last - self.first + 1

    def scaled(self, factor: float, whole: Zoom, anchor: int | None = None) -> Zoom:
        """`factor` times as long, `anchor` (its end by default) at the same place of it, inside `whole`.

        Args:
            factor: below 1 shows fewer steps.
            whole: all steps there are.
            anchor: the step that stays where it is.
        """
        length = max(8, min(whole.length, round(self.length * factor)))
        if anchor is None:
            anchor = self.last
        before = (anchor - self.first) / max(1, self.length - 1)
        first = round(anchor - before * (length - 1))
        return Zoom(first, first + length - 1).within(whole)

    def centred(self, factor: float, whole: Zoom, middle: int) -> Zoom:
        """`factor` times as long with `middle` in its middle, as far as it lies inside `whole`.

        Args:
            factor: below 1 shows fewer steps.
            whole: all steps there are.
            middle: the step.
        """
        length = max(8, min(whole.length, round(self.length * factor)))
        first = middle - length // 2
        return Zoom(first, first + length - 1).within(whole)

    def moved(self, share: float, whole: Zoom) -> Zoom:
        """Moved by a share of its own length, inside `whole`.

        Args:
            share: of its length; negative to earlier steps.
            whole: all steps there are.
        """
        by = round(self.length * share) or (1 if share > 0 else -1)
        return Zoom(self.first + by, self.last + by).within(whole)

    def within(self, whole: Zoom) -> Zoom:
        """Moved, and cut if need be, so that it lies inside `whole`."""
        if self.length >= whole.length:
            return whole
        shift = max(0, whole.first - self.first) - max(0, self.last - whole.last)
        return Zoom(self.first + shift, self.last + shift)


class Curve(Struct):
    """Points of one curve; steps rise, values are finite, lengths are equal."""

    steps: tuple[float, ...]
    values: tuple[float, ...]


class PlotLevel(Struct):
    """A horizontal line: a threshold or a baseline."""

    value: float
    role: str
    label: str


class PlotMark(Struct):
    """A vertical line: a restart, the beginning of a verdict, the time cursor, a value not finite."""

    step: float
    role: str
    label: str


class Axis(enum.Enum):
    """What the x axis of a chart counts."""

    STEP = "step"
    TIME = "time since the start"
    TOKENS = "tokens"
    EPOCH = "epoch"
    CLOCK = "wall time (UTC)"

    def label(self, x: float) -> str:
        """A place on the axis, as it is written below it."""
        match self:
            case Axis.TIME:
                return units.duration(x)
            case Axis.TOKENS | Axis.EPOCH:
                return units.number(x)
            case Axis.CLOCK:
                return datetime.fromtimestamp(x, UTC).strftime("%d %b %H:%M")
            case _:
                return units.step(int(x))


class Places(Struct):
    """Where steps are on an axis; both rise, and without any a step is its own place.

    Attributes:
        steps: those of which it is known.
        values: where they are.
    """

    steps: tuple[float, ...]
    values: tuple[float, ...]

    def at(self, step: float) -> float:
        """The place of a step; before the first one known none is below 0."""
        return max(0.0, _between(step, self.steps, self.values)) if self.steps else step

    def step_at(self, place: float) -> float:
        """The step at a place."""
        return _between(place, self.values, self.steps) if self.steps else place


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    at = max(1, min(bisect_left(xs, x), len(xs) - 1))
    share = (x - xs[at - 1]) / (xs[at] - xs[at - 1])
    return ys[at - 1] + share * (ys[at] - ys[at - 1])


class Overlay(Struct):
    """The curve of another run over the same chart.

    Attributes:
        sign: one character that stands on the curve and in the legend, so that colour is not needed.
        name: of the run, with its newest value.
        role: the role of its colour.
        curve: smoothed.
    """

    sign: str
    name: str
    role: str
    curve: Curve


class PlotData(Struct):
    """One chart.

    Attributes:
        title: of the metric.
        unit: how values are written behind their number; may be empty.
        raw: at most two points per column, lowest and highest.
        smooth: an exponential moving average over records.
        levels, marks: lines across the chart.
        zoom: the steps that it spans.
        whole: the steps that there are.
        is_log: the value axis is logarithmic.
        can_log: there is a value above zero.
        is_approximate: some points are edges of downsampled history.
        band: the lower and the upper edge of what lies around the values; empty without one.
        band_label: what the edges are.
        declared: the range that was declared for the values; the axis covers it.
        others: other runs, over it.
        axis: what the steps of the curves count.
        places: where steps are on that axis.
        span: the ends of that axis, where it counts something else; `zoom` is in steps nevertheless.
        is_log_x: the steps of the curves, and `span`, are decadic logarithms.
        locked: the ends of the value axis, where they are not to follow the values.
        smoothing: weight of the past per record in `smooth`.
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
    others: tuple[Overlay, ...] = ()
    axis: Axis = Axis.STEP
    places: Places = Places((), ())
    span: tuple[float, float] | None = None
    is_log_x: bool = False
    locked: tuple[float, float] | None = None
    smoothing: float = SMOOTHING


def value_range(plot: PlotData) -> tuple[float, float] | None:
    """Least and greatest value that the chart shows; None without a value."""
    curves = (plot.raw, plot.smooth, *plot.band, *(one.curve for one in plot.others))
    values = [value for curve in curves for value in curve.values] + list(plot.declared or ())
    if not values:
        return None
    low, high = min(values), max(values)
    return (low, high) if low < high else (low - (abs(low) or 1.0) / 10, high + (abs(high) or 1.0) / 10)


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
        reading: of the signal at the step on the screen.
        verdicts: those whose beginning is marked.
        columns: columns of the canvas.
        zoom: the stretch of steps; None is all of it.
        is_log: draw on a logarithmic axis; ignored where no value is above zero.
        smoothing: weight of the past per record, 0 to below 1.
        band: what lies around the signal, if that is to be drawn.
    """
    stream, signal = snapshot.stream, reading.signal
    first, last = stream.first_step or 0, stream.last_step or 0
    whole = Zoom(first, max(first, last))
    shown = whole if zoom is None else zoom.within(whole)
    stride = max(1, -(-shown.length // max(2, columns)))
    start = shown.first - shown.first % stride
    buckets = stream.buckets(signal.key, stride, start, shown.last + 1)
    raw = _extremes(buckets, signal, shown)
    levels = []
    if reading.threshold is not None:
        text = f"threshold {units.measure(reading.threshold, reading.unit)}"
        levels.append(PlotLevel(reading.threshold, "threshold", text))
    if reading.baseline is not None:
        text = f"baseline {units.measure(reading.baseline, reading.unit)}"
        levels.append(PlotLevel(reading.baseline, "baseline", text))
    can_log = any(value > 0 for value in raw.values)
    return PlotData(
        title=signal.metric.title,
        unit=units.unit_suffix(reading.unit),
        raw=raw,
        smooth=smoothed(buckets, signal, shown, smoothing),
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


def _edges(snapshot: Snapshot, band: Band, middle: Sequence[Bucket], where: tuple[int, int, int]) -> tuple[Curve, ...]:
    """Both edges of a band over the same buckets as the values; those without a point are left out."""
    buckets = {band.main.key: middle, **{key: snapshot.stream.buckets(key, *where) for key in band.keys}}
    sides = (Curve(tuple(x for x, _ in side), tuple(y for _, y in side)) for side in edge_points(band, buckets))
    return tuple(side for side in sides if side.steps)


def _extremes(buckets: Sequence[Bucket], signal: Signal, zoom: Zoom) -> Curve:
    """Lowest and highest value of each bucket, at its first and last step."""
    steps: list[float] = []
    values: list[float] = []
    for bucket in buckets:
        if not bucket.count or bucket.last_step < zoom.first:
            continue
        low, high = signal.read(bucket.low), signal.read(bucket.high)
        rising = not values or abs(low - values[-1]) <= abs(high - values[-1])
        steps.append(max(bucket.first_step, zoom.first))
        values.append(low if rising else high)
        if bucket.count > 1 and low != high:
            steps.append(bucket.last_step if bucket.last_step > steps[-1] else steps[-1])
            values.append(high if rising else low)
    finite = [(x, y) for x, y in zip(steps, values, strict=True) if math.isfinite(y)]
    return Curve(tuple(x for x, _ in finite), tuple(y for _, y in finite))


def smoothed(buckets: Sequence[Bucket], signal: Signal, zoom: Zoom, smoothing: float = SMOOTHING) -> Curve:
    """EMA over bucket means, each weighted by its number of records, started without bias.

    Args:
        buckets: of the values as logged, from left to right.
        signal: how they are read.
        zoom: the steps that are shown; what ends before them is left out.
        smoothing: weight of the past per record, 0 to below 1.
    """
    steps: list[float] = []
    values: list[float] = []
    total = weight = 0.0
    for bucket in buckets:
        if not bucket.count or bucket.last_step < zoom.first:
            continue
        keep: float = smoothing**bucket.count
        total = total * keep + signal.read(bucket.mean) * (1 - keep)
        weight = weight * keep + (1 - keep)
        value = total / weight if weight > 0 else signal.read(bucket.mean)
        if math.isfinite(value):
            steps.append((max(bucket.first_step, zoom.first) + bucket.last_step) / 2)
            values.append(value)
    return Curve(tuple(steps), tuple(values))


def _marks(snapshot: Snapshot, reading: SignalReading, verdicts: Sequence[Verdict], zoom: Zoom) -> list[PlotMark]:
    """Restarts, beginnings of this metric's verdicts, values not finite, and the cursor."""
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


_CHECKPOINTS = ("time_save",)
_VALIDATIONS = ("val_score", "val_acc", "val_loss", "val_aux", "time_eval")
_MOST_COLUMNS = 200
_CROWDED = 0.4
_LEAST_SAVE_SHARE = 0.01
_NAMED = 3


class MarkerKind(enum.IntEnum):
    """What is marked; where several share a cell, the highest is seen."""

    VALIDATION = 1
    CHECKPOINT = 2
    RECOVERY = 3
    RESTART = 4
    ONSET = 5


class Marker(Struct):
    """One thing that happened.

    Attributes:
        step: where; of a downsampled validation or checkpoint, the first step of its bucket.
        kind: what.
        level: of the rule, for an onset.
        rule: its id, for an onset and a recovery.
        is_own: the rule speaks of the metric of the chart.
    """

    step: int
    kind: MarkerKind
    level: Level = Level.OK
    rule: str = ""
    is_own: bool = False


def read_markers(snapshot: Snapshot, first: int, last: int, metric: str = "") -> tuple[Marker, ...]:
    """What happened on the steps `first` to `last`, in order; of rules what was WARN or worse.

    Args:
        snapshot: the run.
        first: the first step.
        last: the last one.
        metric: canonical name; the rules about it are marked as its own.
    """
    found = [Marker(step, MarkerKind.RESTART) for step in snapshot.stream.seen_restarts]
    own = _rules_about(snapshot, metric) if metric else frozenset()
    muted = snapshot.verdicts.muted
    old = outlived(snapshot.events)
    for number, event in enumerate(snapshot.events):
        if event.stream or event.level < Level.WARN or event.rule in muted or number in old:
            continue
        if not event.is_alarm and event.state is not EventState.RECOVERED:
            continue
        kind = MarkerKind.RECOVERY if event.state is EventState.RECOVERED else MarkerKind.ONSET
        found.append(Marker(event.step, kind, event.level, event.rule, event.rule in own))
    found = [marker for marker in found if first <= marker.step <= last]
    found += _logged_on(snapshot, _CHECKPOINTS, first, last, MarkerKind.CHECKPOINT)
    found += _logged_on(snapshot, _VALIDATIONS, first, last, MarkerKind.VALIDATION)
    return tuple(sorted(found, key=lambda marker: (marker.step, marker.kind)))


def _rules_about(snapshot: Snapshot, metric: str) -> frozenset[str]:
    # What stands now: the chart goes on behind the step.
    standing = snapshot.at(None).verdicts.standing
    rules = {verdict.rule for verdict in standing if verdict.metric == metric}
    if not snapshot.events:
        return frozenset(rules)
    # Whoever has events has been judged: the rules are imported already.
    from rltop.rules import registry  # noqa: PLC0415

    return frozenset(rules | {spec.id for spec in registry.ALL_SPECS if spec.metrics and spec.metrics[0] == metric})


def _logged_on(snapshot: Snapshot, names: Sequence[str], first: int, last: int, kind: MarkerKind) -> list[Marker]:
    """The steps on which one of the metrics was logged, the first of them that the run knows."""
    identity = snapshot.identity
    signal = None if identity is None else next((s for s in map(identity.primary, names) if s is not None), None)
    if signal is None or last < first:
        return []
    steps, values = snapshot.stream.series(signal.key)
    held = steps[0] if steps else last + 1
    points = [(s, signal.read(v)) for s, v in zip(steps, values, strict=True) if first <= s <= last and v == v]
    if first < held:
        # What memory has downsampled is known by its buckets only.
        stop = min(held, last + 1)
        stride = max(1, -(-(stop - first) // _MOST_COLUMNS))
        buckets = snapshot.stream.buckets(signal.key, stride, first, stop)
        points[:0] = [(one.first_step, signal.read(one.high)) for one in buckets if one.count]
    least = 0.0
    if kind is MarkerKind.CHECKPOINT:
        # Some trainers log a checkpoint's time on every step, next to nothing where there was none.
        least = _LEAST_SAVE_SHARE * max((value for _, value in points), default=0.0)
    return [Marker(step, kind) for step, value in points if kind is MarkerKind.VALIDATION or value > least]


def sign_of(marker: Marker, glyphs: Glyphs) -> tuple[str, str]:
    """The sign of a marker and its role.

    Args:
        marker: what happened.
        glyphs: the signs to draw with.
    """
    match marker.kind:
        case MarkerKind.ONSET:
            return glyphs.level(marker.level), LEVEL_ROLES[marker.level]
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
    """Write the signs into `cells` cells; what happens all the time is left to the legend.

    Args:
        builder: the row, as far as it is written.
        markers: what happened.
        cells: of the rail.
        cell_of: the cell of a step; None outside.
        glyphs: the signs to draw with.
    """
    rail: list[Marker | None] = [None] * cells
    crowded = _crowded(markers, cells)
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


def _crowded(markers: Sequence[Marker], cells: int) -> frozenset[MarkerKind]:
    """Kinds of which there are too many for signs."""
    return frozenset(
        kind
        for kind in (MarkerKind.VALIDATION, MarkerKind.CHECKPOINT)
        if sum(marker.kind is kind for marker in markers) > _CROWDED * cells
    )


def paint_marker_legend(markers: Sequence[Marker], indent: int, width: int, glyphs: Glyphs) -> Row:
    """What the signs are, with their steps: rules first, those about the metric of the chart before others.

    Args:
        markers: those in the chart.
        indent: blanks in front, as wide as the axis.
        width: cells.
        glyphs: the signs to draw with.
    """
    builder = RowBuilder(width, glyphs).add(" " * indent)
    ruled = [marker for marker in markers if marker.rule]
    # The newest are the ones that are asked for.
    ruled.sort(key=lambda marker: (not marker.is_own, -marker.step))
    entries = [(*sign_of(one, glyphs), f"{one.rule} @{units.step(one.step)}") for one in ruled]
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
    """All markers of a kind in a few words: their steps, or how often where there are many."""
    found = [marker for marker in markers if marker.kind is kind]
    sign, role = sign_of(found[0], glyphs)
    steps = [marker.step for marker in found]
    if len(steps) <= _NAMED:
        return sign, role, f"{word} {', '.join(map(units.step, steps))}"
    gaps = sorted(b - a for a, b in pairwise(steps))
    return sign, role, f"{word} every {units.step(gaps[len(gaps) // 2])}, last {units.step(steps[-1])}"


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
    ) -> Sequence[Row]:
        """A legend and the chart, as exactly `height` rows of at most `width` cells."""
        ...
