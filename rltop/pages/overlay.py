"""Several metrics in one chart, each with a letter and a row of statistics; and many small charts on one page.

Owns which metrics share an axis, how typed names are resolved, how many small charts fit and which are shown.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import ClassVar

from rltop import units
from rltop.model import Label, Level, Signal, Unit
from rltop.pages.chart import (
    LABEL_CELLS,
    Axis,
    ChartPage,
    PlotData,
    PlotMark,
    PlottedSeries,
    Zoom,
    build_plot,
    name_or_key,
    series_of,
    signal_in,
    with_readout,
)
from rltop.pages.chart_axes import read_markers
from rltop.pages.compare import (
    ComparedRun,
    RunsChartPage,
    compared_metrics,
    compared_runs,
    metric_title,
    numbered,
    shown_runs,
)
from rltop.pages.key_metrics import Choice, change_text, choose_key_metrics, value_text
from rltop.pages.metric import LAST_SHOWN, StatisticRow, in_window, read_statistics
from rltop.pages.metrics import index_tree, match_keys
from rltop.pages.page import Effect, Moment, Redraw, Say
from rltop.pages.signals import SignalReading, read_signal, signal_of
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, cell_width
from rltop.rows.keys import Scope
from rltop.rows.rows import (
    Row,
    RowBuilder,
    Target,
    TargetKind,
    fill,
    side_by_side,
    text_row,
    with_sign,
    without_shared,
)
from rltop.rows.table import Column, Fit, paint_table, sorted_table
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

MOST_METRICS = 8
"""Most curves that can be told apart in one chart."""

_LEAST_CHART = 10
_APART = 5.0
"""A curve that would take less than 1/`_APART` of the height counts as flattened."""


class DrawnMetric(NamedTuple):
    """One metric of the chart.

    Attributes:
        sign, role: its letter and colour role.
        series: its curve; None if the chart has no value or no axis for it.
    """

    sign: str
    role: str
    signal: Signal
    snapshot: Snapshot
    reading: SignalReading
    series: PlottedSeries | None
    title: str


def _names(metrics: Sequence[tuple[Snapshot, str]]) -> list[str]:
    """Titles of the metrics; equal titles are followed by the parts of the keys that differ."""
    titles = [signal_of(part, key).metric.title for part, key in metrics]
    found = []
    for (_, key), title in zip(metrics, titles, strict=True):
        others = [set(other.split("/")) for (_, other), same in zip(metrics, titles, strict=True) if same == title]
        apart = [part for part in key.split("/") if not all(part in other for other in others)]
        found.append(Label.of(f"{title} {'/'.join(apart)}" if len(others) > 1 and apart else title).display)
    return found


def sign_of(number: int) -> tuple[str, str]:
    return chr(ord("A") + number % MOST_METRICS), f"stage-{number % MOST_METRICS}"


def with_marks(rows: Sequence[Row], marked: Sequence[Target]) -> Sequence[Row]:
    letters = {target: sign_of(number) for number, target in enumerate(marked)}
    return [_lettered(row, letters) if row.links else row for row in rows]


def _lettered(row: Row, letters: dict[Target, tuple[str, str]]) -> Row:
    text = "".join(piece for piece, _ in row.line)
    for link in row.links:
        # Only one blank precedes a heading: a letter there would merge with the word.
        if link.target in letters and not text[link.start + 1 : link.start + 2].isalpha():
            letter, role = letters[link.target]
            row = row._replace(line=with_sign(row.line, link.start, {" ": letter}.get, role))
    return row


# -- by name -------------------------------------------------------------------------------------------------------

_AXES = {
    "step": Axis.STEP, "steps": Axis.STEP, "time": Axis.TIME, "token": Axis.TOKENS, "tokens": Axis.TOKENS,
    "sample": Axis.SAMPLES, "samples": Axis.SAMPLES, "episodes": Axis.SAMPLES,
    "epoch": Axis.EPOCH, "epochs": Axis.EPOCH, "clock": Axis.CLOCK, "wall": Axis.CLOCK,
}  # fmt: skip


def read_asked(text: str, snapshot: Snapshot) -> tuple[list[Target], Axis | None]:
    """Parse `reward, entropy by tokens` into metrics and x axis, None if that is not given.

    Raises:
        ValueError: unknown metric or axis; the message suggests what is possible.
    """
    axis = None
    found = re.fullmatch(r"(.*?)\s*\bby\s+(\w+)\s*", text)
    if found is not None:
        text, word = found[1], found[2].casefold()
        if word not in _AXES:
            raise ValueError(f"by {Label.of(word).display}? There are step, time, tokens, samples, epoch and clock")
        axis = _AXES[word]
    names = [name.strip() for name in re.split(r"[,;+&]|\band\b", text) if name.strip()]
    targets: list[Target] = []
    for name in names:
        target = _target_of(name, snapshot)
        # `reward entropy` is two names unless it is one.
        words = name.split() if target is None else []
        several = [_target_of(word, snapshot) for word in words] if len(words) > 1 else [target]
        if any(one is None for one in several):
            raise ValueError(_unknown(name, snapshot))
        targets += [one for one in several if one is not None and one not in targets]
    return targets, axis


def _target_of(name: str, snapshot: Snapshot) -> Target | None:
    """Resolve a name: whole names (the overview's first), then parts of the overview's names, then the shortest key."""
    wanted = name.casefold()
    rows = choose_key_metrics(snapshot)
    for choice in rows:
        metric = choice.signal.metric
        if wanted in (choice.title.casefold(), metric.title.casefold(), metric.name, choice.signal.key.casefold()):
            return Target(TargetKind.METRIC, choice.signal.key, stream=choice.stream)
    keys = index_tree(snapshot).leaves
    for one in keys:
        metric = one.signal.metric
        names = {one.key.casefold(), metric.title.casefold(), metric.name, one.key.casefold().rpartition("/")[2]}
        if wanted in names:
            return Target(TargetKind.METRIC, one.key, stream=one.stream)
    words = wanted.split()
    for choice in rows:
        if all(word in f"{choice.title} {choice.signal.key}".casefold() for word in words):
            return Target(TargetKind.METRIC, choice.signal.key, stream=choice.stream)
    matching = [each for one in match_keys(index_tree(snapshot), name) for each in one.members or (one,)]
    found = min(matching, key=lambda one: len(one.key), default=None)
    return None if found is None else Target(TargetKind.METRIC, found.key, stream=found.stream)


def _unknown(name: str, snapshot: Snapshot) -> str:
    names = {choice.title.casefold() for choice in choose_key_metrics(snapshot)} | set(snapshot.stream.keys)
    near = difflib.get_close_matches(name.casefold(), sorted(names), 1)
    hint = f": did you mean {Label.of(near[0]).display}?" if near else ""
    return f"no metric is called “{Label.of(name).display}”{hint}"


# -- the chart -----------------------------------------------------------------------------------------------------


def sides_of(units_of: Sequence[Unit], ranges: Sequence[tuple[float, float]]) -> list[bool | None]:
    """The value axis of each metric: False is left, True is right, None is neither.

    Metrics of one unit share an axis, unless that would flatten one of them to less than a fifth of the height;
    constant metrics do not count, being flat on any axis.

    Args:
        ranges: least and greatest value of each metric.
    """
    if len(set(units_of)) == 1:
        left: list[tuple[float, float]] = []
        sides: list[bool | None] = []
        for one in ranges:
            both = [*left, one]
            whole = max(high for _, high in both) - min(low for low, _ in both)
            is_pressed = any(0.0 < high - low < whole / _APART for low, high in both)
            sides.append(is_pressed)
            left += [] if is_pressed else [one]
        return sides
    order = list(dict.fromkeys(units_of))
    return [bool(order.index(unit)) if order.index(unit) < 2 else None for unit in units_of]


class OverlayPage(ChartPage):
    where = (Scope.CHART, Scope.AXES, Scope.OVERLAY)
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on")
    without_band = "no band is drawn around several metrics: open one"

    def __init__(self, targets: Sequence[Target], axis: Axis | None = None) -> None:
        super().__init__()
        self.targets = tuple(targets)[:MOST_METRICS]
        self.axis = axis or Axis.STEP

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        self.begin()
        metrics = self._metrics(moment, width - 2 * LABEL_CELLS)
        table = self._table(metrics, moment, width)
        chart = self._chart(metrics, moment, width, max(_LEAST_CHART, height - 2 - len(table)))
        title = RowBuilder(width, moment.glyphs).add(" CHART", "title").add(f"  {len(metrics)} metrics", "value")
        title.add(f"   {self.axis_text}" if self.axis_text else "", "note")
        # In the title, because the curves may leave no room in the legend.
        title.add("   range locked" if self.is_locked else "", "note")
        left_out = [one for one in metrics if one.series is None]
        if left_out:
            title.add(f"   {_why(left_out, metrics)}", "warn")
        rows = [title.row(), *chart, Row(()), *table]
        return rows if len(rows) > height else fill(rows, height)

    def _metrics(self, moment: Moment, columns: int) -> list[DrawnMetric]:
        found = []
        names = _names([(moment.snapshot.within(one.stream), one.name) for one in self.targets])
        for number, target in enumerate(self.targets):
            part = moment.snapshot.within(target.stream)
            if not part.stream.has(target.name) or (target.stream and part.role != target.stream):
                continue
            sign, role = sign_of(number)
            signal = signal_of(part, target.name)
            reading = in_window(part, read_signal(part, signal, 0), self.shown(moment))
            _, place = self.axis_in(part)
            value, unit = value_text(reading)
            name = f"{names[number]} {value}{f' {unit}' if unit else ''}"
            series = series_of(
                part, signal, place, sign=sign, name=name, role=role, columns=columns, zoom=self.shown(moment),
                smoothing=self.smoothing if self.has_smooth else 0.0,
            )  # fmt: skip
            found.append(DrawnMetric(sign, role, signal, part, reading, series, names[number]))
        values = [one.series.curve.values if one.series is not None else (0.0,) for one in found]
        sides = sides_of([one.signal.metric.unit for one in found], [(min(each), max(each)) for each in values])
        return [
            one._replace(series=None if side is None or one.series is None else replace(one.series, is_right=side))
            for one, side in zip(found, sides, strict=True)
        ]

    def _chart(self, metrics: Sequence[DrawnMetric], moment: Moment, width: int, height: int) -> Sequence[Row]:
        series = tuple(one.series for one in metrics if one.series is not None)
        if not series:
            return [text_row("none of these metrics has a value in this window", width, moment.glyphs, "dim")]
        shown = self.shown(moment) or self.whole(moment)
        marks = [PlotMark(step, "restart", "restart") for step in moment.snapshot.stream.seen_restarts]
        at = moment.snapshot.at_step
        marks += [] if at is None else [PlotMark(at, "cursor", "")]
        unit = next((one.signal.metric.unit for one in metrics if one.series and not one.series.is_right), Unit.NONE)
        right = next((one.signal.metric.unit for one in metrics if one.series and one.series.is_right), None)
        can_log = any(value > 0 for one in series for value in one.curve.values)
        plot = PlotData(
            zoom=shown, marks=tuple(mark for mark in marks if shown.first <= mark.step <= shown.last),
            is_log=self.is_log and can_log, can_log=can_log, series=series, right=right, smoothing=self.smoothing,
        )  # fmt: skip
        markers = read_markers(moment.snapshot, shown.first, shown.last)
        plot = with_readout(plot, moment.snapshot)
        return self.draw(plot, moment.snapshot, moment, width, height, at=(1, 0), unit=unit, markers=markers)

    def _table(self, metrics: Sequence[DrawnMetric], moment: Moment, width: int) -> list[Row]:
        window, at = self.shown(moment), moment.snapshot.at_step
        numbers = {
            one.sign: {each.name: each for each in read_statistics(one.snapshot, one.reading, window)}
            for one in metrics
        }
        has_right = any(one.series is not None and one.series.is_right for one in metrics)
        last = LAST_SHOWN if window is not None and window.last < (moment.snapshot.step or 0) else "last"

        def number(name: str, priority: int) -> Column[DrawnMetric]:
            return Column(name, lambda one: (_number(numbers[one.sign].get(name)), "value"), priority=priority)

        columns: list[Column[DrawnMetric]] = [
            Column("", lambda one: (one.sign, one.role), is_right=False),
            Column(
                "metric", lambda one: (one.title, "strong"), Fit.NAME, least=12, sort=lambda one: one.title.casefold()
            ),
            Column("axis", lambda one: (_axis_of(one, has_right), "note"), is_right=False, priority=3),
            Column(
                last if at is None else f"@{units.step(at)}",
                lambda one: (" ".join(value_text(one.reading)).strip(), "value"), least=8,
                sort=lambda one: None if one.reading.point is None else one.reading.point.value,
            ),
            number("min", 2),
            number("max", 1),
            number("mean", 4),
            number("median", 5),
            Column("key", lambda one: (one.reading.key.display, "key"), Fit.NAME, least=8, priority=6),
        ]  # fmt: skip
        table = sorted_table(
            columns,
            metrics,
            self.sorting,
            lambda one: Target(TargetKind.METRIC, one.signal.key, stream=one.snapshot.role),
        )
        return [_span_row(window, moment, width, moment.glyphs), *paint_table(table, width, moment.glyphs)]


def _number(found: StatisticRow | None) -> str:
    if found is None:
        return ""
    at = f" @{found.remark.partition(' ')[2]}" if found.remark.startswith("step") else ""
    return f"{found.value}{f' {found.unit}' if found.unit else ''}{at}"


def _axis_of(one: DrawnMetric, has_right: bool) -> str:
    if one.series is None:
        return "not drawn"
    return ("right" if one.series.is_right else "left") if has_right else ""


def _span_row(window: Zoom | None, moment: Moment, width: int, glyphs: Glyphs) -> Row:
    if window is not None:
        text = f"of steps {units.step(window.first)}–{units.step(window.last)}"
    else:
        at = moment.snapshot.at_step
        text = "of the whole run" if at is None else f"of all steps to {units.step(at)}"
    return RowBuilder(width, glyphs).add(" NUMBERS", "title").add(f"  {text}", "note").row()


def _why(left_out: Sequence[DrawnMetric], metrics: Sequence[DrawnMetric]) -> str:
    kinds = list(dict.fromkeys(one.signal.metric.unit for one in metrics))
    if len(kinds) > 2:
        names = ", ".join(unit_name(kind) for kind in kinds)
        return f"not drawn: {', '.join(one.sign for one in left_out)}: two axes for {len(kinds)} units ({names})"
    return f"no value here: {', '.join(one.sign for one in left_out)}"


def unit_name(unit: Unit) -> str:
    """A unit's name when no number precedes it."""
    if unit is Unit.NONE:
        return "plain numbers"
    return units.unit_suffix(unit) or unit.value


_SMALLEST = (30, 8)
"""Least columns and rows of a chart; a smaller one would be nothing but axes."""

_USUAL = (38, 10)
"""Least columns and rows by default, until the user asks for more or fewer charts."""

_USUALLY = 4
"""Most charts per row and per column by default."""


class Shape(NamedTuple):
    columns: int
    rows: int


def charted(snapshot: Snapshot) -> list[Choice]:
    """The metrics of the overview, pinned ones first; with every other key if there are no others."""
    chosen = choose_key_metrics(snapshot)
    placed = {*snapshot.run.arrangement.pinned, *snapshot.run.arrangement.hidden}
    if any(one.signal.key not in placed for one in chosen):
        return chosen
    keys = [key for key in sorted(snapshot.stream.keys) if key not in placed]
    return [*chosen, *(Choice(Label.of(key).display, signal_of(snapshot, key)) for key in keys)]


def _shared_metrics(runs: Sequence[ComparedRun]) -> list[Choice]:
    found = []
    for metric in compared_metrics(runs):
        signal = next((one for run in runs if (one := signal_in(run.snapshot, metric)) is not None), None)
        found += [] if signal is None else [Choice(metric_title(metric), signal)]
    return found


class GridPage(RunsChartPage):
    where = (Scope.GRID, Scope.AXES, Scope.MARKS, Scope.OVERLAY)
    footer = ("step-back", "step-on")

    def __init__(self, *, of_runs: bool = False) -> None:
        super().__init__()
        self._of_runs = self.names_runs = of_runs
        self._columns: int | None = None
        self._rows: int | None = None
        self._most = self._shape = Shape(1, 1)
        self._at = 0
        self._number = 0

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        runs = self.runs(moment)
        metrics = _shared_metrics(runs) if runs else charted(moment.snapshot)
        if not metrics:
            text = "the runs have no metric in common" if runs else "no metrics yet: waiting for the first row"
            return fill([text_row(text, width, moment.glyphs, "dim")], height)
        legend = _legend(runs, moment.snapshot.at_step, width, moment.glyphs) if runs else []
        height -= len(legend)
        self._number = len(metrics)
        self._lay_out(width, height - 1)
        shape, room = self._shape, self._shape.columns * self._shape.rows
        self._at = min(self._at, (len(metrics) - 1) // room * room)
        shown = metrics[self._at : self._at + room]
        self.begin()
        rows: list[Row] = [Row(()), *legend]
        cells, lines = width // shape.columns, (height - 1) // shape.rows
        for first in range(0, len(shown), shape.columns):
            top = len(rows)
            charts = [
                self._chart_of_runs(one, runs, moment, (cells - 1, lines), (top, number * cells))
                if runs
                else self._chart(one, moment, (cells - 1, lines), (top, number * cells))
                for number, one in enumerate(shown[first : first + shape.columns])
            ]
            rows += side_by_side(charts, cells)
        rows[0] = self._title(moment, len(shown), width)
        return fill(rows, height + len(legend))

    def runs(self, moment: Moment) -> list[ComparedRun]:
        if self._of_runs:
            runs = shown_runs(moment)
            return runs if len(runs) > 1 else []
        runs = compared_runs(moment)
        if runs and all(one.entry.path.raw != moment.snapshot.run.path.raw for one in runs):
            runs = numbered([*(one.snapshot for one in runs), Snapshot(moment.snapshot.run)])
        return runs if len(runs) > 1 else []

    def _lay_out(self, width: int, height: int) -> None:
        self._most = Shape(max(1, width // _SMALLEST[0]), max(1, height // _SMALLEST[1]))
        columns = max(1, min(_USUALLY, width // _USUAL[0])) if self._columns is None else self._columns
        columns = min(columns, self._most.columns)
        # No empty rows of charts: the others are taller instead.
        rows = max(1, min(_USUALLY, height // _USUAL[1], math.ceil(self._number / columns)))
        self._shape = Shape(columns, rows if self._rows is None else min(self._rows, self._most.rows))

    def _title(self, moment: Moment, shown: int, width: int) -> Row:
        builder = RowBuilder(width, moment.glyphs).add(" CHARTS", "title")
        to = f"–{self._at + shown}" if shown > 1 else ""
        builder.add(f"  {self._at + 1}{to} of {self._number}", "value")
        builder.add(f"   {self._shape.columns} × {self._shape.rows}", "dim")
        zoom = self.shown(moment)
        if zoom is not None:
            builder.add(f"   steps {units.step(zoom.first)}–{units.step(zoom.last)}", "note")
        builder.add(f"   {self.axis_text}" if self.axis_text else "", "note")
        if moment.snapshot.at_step is not None:
            builder.add(f"   step {units.step(moment.snapshot.at_step)}", "cursor")
        return builder.row()

    def _chart_of_runs(
        self,
        metric: Choice,
        runs: Sequence[ComparedRun],
        moment: Moment,
        size: tuple[int, int],
        at: tuple[int, int],
    ) -> Sequence[Row]:
        builder = RowBuilder(size[0], moment.glyphs).add("   ").add(metric.title, "strong")
        zoom = self.shown(moment) or self.whole(moment)
        built = self.overlay(runs, name_or_key(metric.signal), moment, max(8, size[0] - LABEL_CELLS), zoom)
        if built is None:
            return [builder.row(), text_row("no value in this window", size[0], moment.glyphs, "dim")]
        plot, unit = built
        for one in plot.series:
            value = one.shorter[2]
            if builder.room > cell_width(value) + 4:
                builder.add(f"  {one.sign} ", one.role).add(value, "value")
        signal = signal_in(moment.snapshot, name_or_key(metric.signal))
        target = None if signal is None else Target(TargetKind.METRIC, signal.key)
        return [builder.row(target), *self.draw(plot, self.counted(runs, moment), moment, *size, at=at, unit=unit)[1:]]

    def _chart(self, one: Choice, moment: Moment, size: tuple[int, int], at: tuple[int, int]) -> Sequence[Row]:
        part, width = moment.snapshot.within(one.stream), size[0]
        reading = read_signal(part, one.signal, 0)
        columns = max(8, width - LABEL_CELLS)
        # A window is in steps of the main stream: other streams are shown whole.
        zoom = None if one.stream else self.shown(moment)
        plot = build_plot(part, reading, columns=columns, zoom=zoom, is_log=self.is_log, smoothing=self.smoothing)
        plot = replace(plot, marks=tuple(mark for mark in plot.marks if mark.role in ("cursor", "restart")))
        # The legend would be the same for all charts: a title takes its row.
        chart = self.draw(plot, part, moment, *size, at=at, unit=reading.signal.metric.unit)[1:]
        if one.stream and self._drawn:
            # Its steps are not the cursor's: the mouse must not point at them.
            self._drawn.pop()
        return [_chart_head(one, reading, width, moment.glyphs), *chart]

    def idle(self, moment: Moment) -> Set[str]:
        has_more = self._number > self._shape.columns * self._shape.rows
        return super().idle(moment) | (set() if has_more else {"charts-before", "charts-after"})

    def on(self, key: str, moment: Moment) -> Effect | None:
        shape, room = self._shape, self._shape.columns * self._shape.rows
        match key:
            case "charts-after" | "charts-before":
                at = self._at + (room if key == "charts-after" else -room)
                if at >= self._number or not (at >= 0 or self._at):
                    return Say(f"these are the {'last' if key == 'charts-after' else 'first'} charts")
                self._at = max(0, at)
                return Redraw(from_top=True)
            case "more-charts" | "fewer-charts":
                columns = shape.columns + (1 if key == "more-charts" else -1)
                if not 1 <= columns <= self._most.columns:
                    return Say(f"there is room for 1 to {self._most.columns} beside each other")
                self._columns = columns
            case "chart-rows":
                if self._most.rows == 1:
                    return Say("there is room for one row of charts")
                self._rows = shape.rows % self._most.rows + 1
            case _:
                return super().on(key, moment)
        return Redraw()


_MOST_LEGEND = 3


def _legend(runs: Sequence[ComparedRun], at: int | None, width: int, glyphs: Glyphs) -> list[Row]:
    builders = [RowBuilder(width, glyphs)]
    names = tuple(one.entry.name.display for one in runs)
    last = [one.entry.step or 0 for one in runs]
    ends = [f" @{units.step(step)}" if step < (max(last) if at is None else at) else "" for step in last]
    if sum(cell_width(name + end) + 4 for name, end in zip(names, ends, strict=True)) > width:
        names = without_shared(names)
    names = tuple(name + end for name, end in zip(names, ends, strict=True))
    for number, name in enumerate(names):
        if builders[-1].column and builders[-1].room < cell_width(name) + 4:
            if len(builders) == _MOST_LEGEND:
                builders[-1].add(f"  +{len(runs) - number}", "dim")
                break
            builders.append(RowBuilder(width, glyphs))
        builders[-1].add(f" {runs[number].sign} ", runs[number].role).add(f"{name} ", "text")
    return [builder.row() for builder in builders]


def _chart_head(one: Choice, reading: SignalReading, width: int, glyphs: Glyphs) -> Row:
    sign = glyphs.levels[reading.level] if reading.level >= Level.INFO else " "
    builder = RowBuilder(width, glyphs).add(f" {sign} ", LEVEL_ROLES[reading.level])
    builder.add(Label.of(one.title).display, "strong")
    value, unit = value_text(reading)
    builder.add(f"  {value}", "crit" if reading.is_nonfinite_now else "value").add(f" {unit}" if unit else "", "unit")
    change = change_text(reading)
    if change != units.UNKNOWN and builder.room > len(change) + 2:
        builder.add(f"  {change}", "note")
    return builder.row(Target(TargetKind.METRIC, one.signal.key, stream=one.stream))
