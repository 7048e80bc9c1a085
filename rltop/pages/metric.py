"""The page of one metric: chart, statistics, meaning and related metrics.

Owns which statistics are shown, over which steps, and where the extremes were; the screen draws the chart from
`PlotData`.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice
from typing import ClassVar

from rltop import units
from rltop.catalog.aliases import spelling_of
from rltop.catalog.metrics import text_of
from rltop.model import Direction, Label, Level, Metric, Signal, Unit
from rltop.pages.chart import (
    LABEL_CELLS,
    SMOOTHING,
    Axis,
    ChartPage,
    PlotData,
    Zoom,
    build_plot,
    name_or_key,
    with_readout,
)
from rltop.pages.chart_axes import read_markers
from rltop.pages.key_metrics import change_text, value_text
from rltop.pages.page import Effect, Moment, Redraw, Say, baseline_of
from rltop.pages.run_entry import REWARDS, VALIDATIONS
from rltop.pages.signals import (
    SignalReading,
    band_around,
    evidence_parts,
    extreme,
    formula,
    guess_of,
    primary,
    read_signal,
    signal_of,
    steps_text,
)
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.keys import Scope
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, clip_middle, side_by_side, text_rows
from rltop.rows.sparkline import fitted, sparkline
from rltop.run.snapshot import Snapshot
from rltop.stats.rolling import median_of
from rltop.store.series import Point

_RELATED = 8
_DIRECTIONS = {
    Direction.UP: "higher is better",
    Direction.DOWN: "lower is better",
    Direction.TARGET: "no preferred direction",
    Direction.NONE: "",
}


@dataclass(frozen=True, slots=True)
class MetricView:
    """Everything the page of one metric shows.

    Attributes:
        help: what the metric means, or that its meaning is unknown.
        siblings: the other statistics of the same quantity, as (trainer's word, reading).
        family: name of that quantity; empty without other statistics.
    """

    reading: SignalReading
    statistics: tuple[StatisticRow, ...]
    help: str
    related: tuple[SignalReading, ...]
    plot: PlotData
    siblings: tuple[tuple[str, SignalReading], ...] = ()
    family: str = ""


def build_metric(
    snapshot: Snapshot,
    key: str,
    *,
    columns: int = 160,
    zoom: Zoom | None = None,
    is_log: bool = False,
    smoothing: float = SMOOTHING,
) -> MetricView:
    signal = signal_of(snapshot, key)
    reading = read_signal(snapshot, signal, columns)
    family = snapshot.part.memo.families().get(key)
    members = () if family is None else tuple(member for member in family.members if member.key != key)
    siblings = tuple(
        (member.word or member.statistic.value, read_signal(snapshot, signal_of(snapshot, member.key), 64))
        for member in members
    )
    shown = {key, *(member.key for member in members)}
    related = []
    text = text_of(signal.metric)
    for name in text.related:
        other = primary(snapshot, name)
        if other is not None and other.key not in shown:
            related.append(read_signal(snapshot, other, 64))
    return MetricView(
        reading=reading,
        statistics=tuple(read_statistics(snapshot, reading, zoom)),
        help=text.help or _unknown(snapshot, key),
        related=tuple(related[:_RELATED]),
        plot=build_plot(
            snapshot,
            reading,
            columns=columns,
            zoom=zoom,
            is_log=is_log,
            smoothing=smoothing,
            band=None if family is None else band_around(snapshot, signal, family),
        ),
        siblings=siblings,
        family="" if family is None else family.name,
    )


def _unknown(snapshot: Snapshot, key: str) -> str:
    guess = None if snapshot.identity is None else guess_of(snapshot.identity, key)
    if guess is not None:
        known = guess.metric.title.removesuffix("?")
        return f"Guessed from its name: {known}. Shown as logged, and judged by its shape only, until it is confirmed."
    told = "" if snapshot.identity is None else spelling_of(snapshot.identity.dialect).caution(key)
    return told or "Not in the catalogue: shown as logged."


def _bounds(metric: Metric) -> str:
    """The range of a metric, in the unit of its values: a share is shown in percent."""
    say = units.share if metric.unit is Unit.FRACTION else units.number
    low, high = ("" if end is None else say(end) for end in (metric.low, metric.high))
    if low and high:
        return f"always between {low} and {high}"
    return f"never below {low}" if low else f"never above {high}" if high else ""


def paint_metric_title(view: MetricView, width: int, glyphs: Glyphs) -> Row:
    reading = view.reading
    role = LEVEL_ROLES[reading.level]
    builder = RowBuilder(width, glyphs).add(" ").add(f"{glyphs.levels[reading.level]} ", role)
    builder.add(Label.of(reading.title).display, "strong")
    # Without room for a legible key the value takes precedence.
    if reading.key.display != reading.title and builder.room >= 52:
        builder.add("  ").add(clip_middle(reading.key.display, max(8, builder.room - 40)), "key")
    text, unit = value_text(reading)
    builder.add("   ").add(text, "crit" if reading.is_nonfinite_now else "value").add(
        f" {unit}" if unit else "", "unit"
    )
    change = change_text(reading)
    if change != units.UNKNOWN and builder.room >= len(change) + 3:
        builder.add(f"   {change}", "note")
    if reading.verdict is not None:
        text = f"{Label.of(reading.verdict.title)} since {units.step(reading.verdict.since_step)}"
        target = Target(TargetKind.VERDICT, reading.verdict.rule, stream=reading.stream)
        builder.add("   ").add(text, role, target)
    if reading.stream and builder.room >= len(reading.stream) + 12:
        builder.add(f"   steps of {Label.of(reading.stream)}", "note")
    return builder.row()


def paint_metric_details(view: MetricView, width: int, glyphs: Glyphs) -> list[Row]:
    if width < 90:
        return [*_paint_statistics(view, width, glyphs), *_paint_meaning(view, width, glyphs)]
    cells = min(48, max(46, width * 2 // 5))
    meaning = _paint_meaning(view, width - cells - 2, glyphs)
    return side_by_side((_paint_statistics(view, cells, glyphs), meaning), cells + 2)


def _paint_statistics(view: MetricView, width: int, glyphs: Glyphs) -> list[Row]:
    rows = []
    for one in view.statistics:
        builder = RowBuilder(width, glyphs).add("  ").left(one.name, 12, "dim")
        builder.right(one.value, 9, one.role).left(f" {one.unit}" if one.unit else "", 6, "unit")
        builder.add(" ").add(one.remark, "dim")
        rows.append(builder.row())
    return rows


def _paint_meaning(view: MetricView, width: int, glyphs: Glyphs) -> list[Row]:
    rows = text_rows(view.help, width, glyphs, lines=6)
    reading = view.reading
    if formula(reading.signal, "") and width > 20:
        key = clip_middle(reading.key.display, width - 18)
        rows.append(RowBuilder(width, glyphs).add(" shown: ", "dim").add(formula(reading.signal, key), "key").row())
    metric = reading.signal.metric
    facts = ", ".join(filter(None, (_DIRECTIONS[metric.direction], _bounds(metric))))
    if facts:
        rows.append(RowBuilder(width, glyphs).add(" ").add(facts, "dim").row())
    if view.siblings:
        name = clip_middle(Label.of(view.family).display, max(8, width - 16))
        rows += [Row(()), RowBuilder(width, glyphs).add(" statistics of ", "dim").add(name, "key").row()]
    relatives = [
        *((Label.of(word).display, reading) for word, reading in view.siblings),
        *((Label.of(reading.title).display, reading) for reading in view.related),
    ]
    longest = max((cell_width(title) for title, _ in relatives), default=0)
    cells = max(_LEAST_NAME, min(longest, width - _RELATIVE))
    painted = [paint_relative(title, cells, reading, width, glyphs) for title, reading in relatives]
    rows += painted[: len(view.siblings)]
    if view.related:
        rows += [Row(()), RowBuilder(width, glyphs).add(" related", "dim").row()]
    return rows + painted[len(view.siblings) :]


_LEAST_NAME, _RELATIVE = 19, 60
"""Least width of a related metric's name, and width of the rest of its row with a sparkline of full length."""


def paint_relative(title: str, name_cells: int, reading: SignalReading, width: int, glyphs: Glyphs) -> Row:
    role = LEVEL_ROLES[reading.level]
    sign = glyphs.levels[reading.level] if reading.level is not Level.OK else " "
    builder = RowBuilder(width, glyphs).add(f" {sign} ", role)
    builder.left(title, name_cells, "text")
    text, unit = value_text(reading)
    builder.right(text, 8, "crit" if reading.is_nonfinite_now else "value").left(f" {unit}" if unit else "", 6, "unit")
    builder.right(change_text(reading), 8, "note").add("  ")
    cells = min(32, builder.room - 1)
    if cells >= 6:
        builder.line(sparkline(fitted(reading.line(), cells * 2), glyphs))
    return builder.row(Target(TargetKind.METRIC, reading.signal.key, stream=reading.stream))


CHART_SHARE = 0.58
"""Least share of the height for the chart; details that do not fit below it are scrolled to."""


class MetricPage(ChartPage):
    where = (Scope.CHART, Scope.AXES, Scope.OVERLAY)
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on")

    def __init__(self, key: str, stream: str = "") -> None:
        super().__init__(stream)
        self.key = key
        self._has_band = True
        self._had_band = True

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        self.begin()
        view = build_metric(
            moment.snapshot,
            self.key,
            columns=width - LABEL_CELLS,
            zoom=self.shown(moment),
            is_log=self.is_log,
            smoothing=self.smoothing,
        )
        self._had_band = bool(view.plot.band)
        details = paint_metric_details(view, width, moment.glyphs)
        chart_height = max(round(height * CHART_SHARE), height - 1 - len(details))
        chart = self._chart(view, moment, width, chart_height)
        title = paint_metric_title(view, width, moment.glyphs)
        builder = RowBuilder(width, moment.glyphs).line(title.line)
        is_pinned = self.key in moment.snapshot.run.arrangement.pinned
        for note in (self._against(moment, view.reading.signal), "pinned" if is_pinned else "", self.axis_text):
            builder.add(f"   {note}" if note else "", "note")
        return [Row(builder.row().line, title.links), *chart, *details]

    def _against(self, moment: Moment, signal: Signal) -> str:
        other = None if self.stream else baseline_of(moment)
        if other is None:
            return ""
        from rltop.pages.compare import baseline_delta  # noqa: PLC0415 - few sessions compare anything

        found = baseline_delta(moment.snapshot, Snapshot(other), signal)
        return f"{'' if found.text == units.UNKNOWN else found.text} vs {found.why}".strip()

    def _chart(self, view: MetricView, moment: Moment, width: int, height: int) -> Sequence[Row]:
        shown, metric = view.plot.zoom, view.reading.signal.metric.name
        plot = with_readout(view.plot, moment.snapshot, view.reading)
        if moment.marked and not self.stream:
            from rltop.pages.compare import compared_runs, overlays  # noqa: PLC0415 - few sessions compare anything

            axis, _ = self.axis_in(moment.snapshot)
            others = [one for one in compared_runs(moment) if one.snapshot.run is not moment.snapshot.run]
            named = name_or_key(view.reading.signal)
            zoom = shown if axis is Axis.STEP else self.shown(moment)
            at = moment.snapshot.at_step if axis is Axis.STEP else None
            curves = overlays(others, named, axis, columns=width, zoom=zoom, smoothing=self.smoothing, at=at)
            plot = replace(plot, series=curves)
        return self.draw(
            plot,
            moment.snapshot,
            moment,
            width,
            height,
            at=(1, 0),
            unit=view.reading.signal.metric.unit,
            has_band=self._has_band,
            markers=read_markers(moment.snapshot, shown.first, shown.last, metric or self.key),
        )

    def idle(self, moment: Moment) -> Set[str]:
        return super().idle(moment) | ({"band"} if not self._had_band else set())

    def on(self, key: str, moment: Moment) -> Effect | None:
        if key != "band":
            return super().on(key, moment)
        if not self._had_band:
            return Say("no band: neither minimum and maximum nor a spread of this metric is logged")
        self._has_band = not self._has_band
        return Redraw()


_RECENT = 50
_PLACES = 6
_ROOM = 18
"""Cells for the remark after a number."""
LAST_SHOWN = "last shown"
"""The last value of a window before the newest step; what the metric is now stands above the chart."""
_BUCKETS = 400
"""Most buckets in which a long history is searched for its extremes."""


@dataclass(frozen=True, slots=True)
class StatisticRow:
    name: str
    value: str
    unit: str = ""
    remark: str = ""
    role: str = "value"


def read_statistics(snapshot: Snapshot, reading: SignalReading, window: Zoom | None = None) -> list[StatisticRow]:
    newest, reading = reading, in_window(snapshot, reading, window)
    stream, signal, last = snapshot.stream, reading.signal, "last" if reading is newest else LAST_SHOWN
    text, unit = value_text(reading)
    role = "crit" if reading.is_nonfinite_now else "value"
    where = "" if reading.point is None else f"step {units.step(reading.point.step)}"
    if reading.is_nonfinite_now and reading.mark is not None:
        where = f"step {units.step(reading.mark.step)}"
    table = [StatisticRow(last, text, unit, where, role)]

    def add(name: str, value: float, remark: str, role: str = "value") -> None:
        table.append(StatisticRow(name, *units.quantity(value, signal.metric.unit), remark, role))

    if formula(signal, "") and reading.point is not None:
        raw = stream.value(signal.key, reading.point.step)
        table += [] if raw is None else [StatisticRow("logged", units.number(raw), "", "in the file")]
    table += _extremes(snapshot, reading, window)
    if reading.declared is not None:
        ends = [units.measure(end, reading.signal.metric.unit) for end in reading.declared]
        table.append(StatisticRow("range", " – ".join(ends), "", "declared"))
    table += _median(snapshot, reading, window)
    if reading.baseline is not None:
        remark = "" if reading.baseline_steps is None else steps_text(reading.baseline_steps)
        add("baseline", reading.baseline, remark)
        role = LEVEL_ROLES[reading.level] if reading.level >= Level.INFO else "value"
        table.append(StatisticRow("change", change_text(reading), "", "vs baseline", role))
    verdict = reading.verdict
    if reading.compared is not None:
        ((name, _),) = evidence_parts((reading.compared,))
        add("alert", reading.compared.value, name)
    if reading.judged is not None:
        add("alert", reading.judged.value, f"value at {units.step(reading.judged.step)}")
    if reading.threshold is not None:
        add("threshold", reading.threshold, f"rule {verdict.rule}" if verdict is not None else "", "threshold")
    table.append(_nonfinite(snapshot, reading))
    return table


def in_window(snapshot: Snapshot, reading: SignalReading, window: Zoom | None) -> SignalReading:
    """The reading, at the last value of the window if its own point lies outside."""
    if window is None or (reading.point is not None and window.first <= reading.point.step <= window.last):
        return reading
    raw = snapshot.stream.latest(reading.signal.key, window.last)
    is_inside = raw is not None and raw.step >= window.first
    point = Point(raw.step, reading.signal.read(raw.value)) if raw is not None and is_inside else None
    return reading._replace(point=point, step=window.last, level=Level.OK, mark=None, judged=None)


def _extremes(snapshot: Snapshot, reading: SignalReading, window: Zoom | None) -> list[StatisticRow]:
    signal, unit = reading.signal, reading.signal.metric.unit
    first, last = (snapshot.stream.first_step, snapshot.step) if window is None else (window.first, window.last)
    if first is None or last is None or first > last:
        return []
    stride = max(1, -(-(last - first + 1) // _BUCKETS))
    # The whole run is read again for every step and memoized; a window is rarely read twice.
    read = snapshot.part.memo if window is None else snapshot.stream
    found = [one for one in read.buckets(signal.key, stride, first, last + 1) if one.count]
    if not found:
        return []
    total = sum(one.count for one in found)
    mean = sum(signal.read(one.mean) * (one.count / total) for one in found)
    ends = [extreme(snapshot, signal, found, is_top=is_top) for is_top in (False, True)]
    table = [
        StatisticRow(name, *units.quantity(value, unit), steps_text(steps))
        for name, (value, steps) in zip(("min", "max"), ends, strict=True)
    ]
    direction = signal.metric.direction
    if signal.metric.name in (*REWARDS, *VALIDATIONS) and direction in (Direction.UP, Direction.DOWN):
        value, steps = ends[direction is Direction.UP]
        table.append(StatisticRow("best", *units.quantity(value, unit), steps_text(steps), "ok"))
    if window is not None:
        table.insert(0, StatisticRow("values", units.count(total), "", _of_steps(window)))
    remark = f"of {units.counted(total, 'value')}" if window is None else _of_steps(window)
    table.append(StatisticRow("mean", *units.quantity(mean, unit), remark))
    return table


def _of_steps(window: Zoom) -> str:
    steps = f"{units.step(window.first)}–{units.step(window.last)}"
    return f"of steps {steps}" if len(steps) <= _ROOM - len("of steps ") else f"of {steps}"


def _median(snapshot: Snapshot, reading: SignalReading, window: Zoom | None) -> list[StatisticRow]:
    series, at, signal = snapshot.stream.series(reading.signal.key), snapshot.at_step, reading.signal
    if window is not None:
        if snapshot.stream.downsampled_range(window.first) is not None:
            return []
        between = bisect_left(series.steps, window.first), bisect_right(series.steps, window.last)
        known = [value for value in series.values[slice(*between)] if not math.isnan(value)]
        remark = _of_steps(window)
    else:
        end = len(series.steps) if at is None else bisect_right(series.steps, at)
        newest = (value for value in reversed(series.values[:end]) if not math.isnan(value))
        known = list(islice(newest, _RECENT))
        remark = f"of the last {len(known)}" if len(known) > 1 else "of 1 value"
    values = [signal.read(value) for value in known]
    return [StatisticRow("median", *units.quantity(median_of(values), signal.metric.unit), remark)] if values else []


def _nonfinite(snapshot: Snapshot, reading: SignalReading) -> StatisticRow:
    at = snapshot.at_step
    marks = [mark for mark in snapshot.stream.marks(reading.signal.key) if at is None or mark.step <= at]
    if not marks:
        return StatisticRow("NaN/Inf", "0")
    places = ", ".join(f"{units.nonfinite(mark.kind)} {units.step(mark.step)}" for mark in marks[:_PLACES])
    more = ", …" if reading.mark_count > _PLACES else ""
    return StatisticRow("NaN/Inf", units.count(reading.mark_count), "", f"at {places}{more}", "crit")
