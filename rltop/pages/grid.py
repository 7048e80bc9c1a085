"""Many small charts on one page: the metrics of the overview, one cursor for all.

Owns how many fit and which are shown; a chart is drawn as on the page of its metric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import replace

from rltop import units
from rltop.model import Label, Level, Signal
from rltop.pages.chart import LABEL_CELLS, build_plot, name_or_key, signal_in
from rltop.pages.compare import (
    ComparedRun,
    RunsChartPage,
    compared_metrics,
    compared_runs,
    metric_title,
    numbered,
    shown_runs,
)
from rltop.pages.key_metrics import change_text, choose_key_metrics, value_text
from rltop.pages.moment import Moment
from rltop.pages.page import Effect, Redraw, Say
from rltop.pages.signals import SignalReading, cadence_of, read_signal, signal_of
from rltop.rows.cells import RowBuilder, fill, side_by_side, text_row, without_shared
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.keys import Scope
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

_SMALLEST = (30, 8)
"""Columns and rows below which a chart is no more than its axes."""

_USUAL = (38, 10)
"""The least size of a chart until somebody wants more or fewer of them."""

_USUALLY = 4
"""Nor are there more than this many beside or below each other until then."""


class Charted(NamedTuple):
    """A metric that has a chart: what it is called, its signal, and the stream that logs it."""

    title: str
    signal: Signal
    stream: str


class Shape(NamedTuple):
    """How many charts are beside each other, and below each other."""

    columns: int
    rows: int


def charted(snapshot: Snapshot) -> list[Charted]:
    """The metrics of the overview, pinned ones first; of a run without any, every key."""
    chosen = [Charted(one.title, one.signal, one.stream) for one in choose_key_metrics(snapshot)]
    placed = {*snapshot.run.arrangement.pinned, *snapshot.run.arrangement.hidden}
    if any(one.signal.key not in placed for one in chosen):
        return chosen
    keys = [key for key in sorted(snapshot.stream.keys) if key not in placed]
    return [*chosen, *(Charted(Label.of(key).display, signal_of(snapshot, key), "") for key in keys)]


def _shared(runs: Sequence[ComparedRun]) -> list[Charted]:
    found = []
    for metric in compared_metrics(runs):
        signal = next((one for run in runs if (one := signal_in(run.snapshot, metric)) is not None), None)
        found += [] if signal is None else [Charted(metric_title(metric), signal, "")]
    return found


class GridPage(RunsChartPage):
    """Charts beside and below each other."""

    where = (Scope.GRID, Scope.AXES, Scope.MARKS, Scope.OVERLAY)
    footer = ("step-back", "step-on")

    def __init__(self, *, of_runs: bool = False) -> None:
        super().__init__()
        self._of_runs = of_runs
        self._columns: int | None = None
        self._rows: int | None = None
        self._most = self._shape = Shape(1, 1)
        self._at = 0
        self._number = 0

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        runs = self.runs(moment)
        metrics = _shared(runs) if runs else charted(moment.snapshot)
        if not metrics:
            text = "the runs have no metric in common" if runs else "no metrics yet: waiting for the first row"
            return fill([text_row(text, width, moment.glyphs, "dim")], height)
        legend = _legend(runs, width, moment.glyphs) if runs else []
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
        # No more rows than there are charts for: the others are taller instead.
        rows = max(1, min(_USUALLY, height // _USUAL[1], math.ceil(self._number / columns)))
        self._shape = Shape(columns, rows if self._rows is None else min(self._rows, self._most.rows))

    def _title(self, moment: Moment, shown: int, width: int) -> Row:
        builder = RowBuilder(width, moment.glyphs).add(" CHARTS", "title")
        builder.add(f"  {self._at + 1}–{self._at + shown} of {self._number}", "value")
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
        metric: Charted,
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
            value = one.shorter[1]
            if builder.room > cell_width(value) + 4:
                builder.add(f"  {one.sign} ", one.role).add(value, "value")
        signal = signal_in(moment.snapshot, name_or_key(metric.signal))
        target = None if signal is None else Target(TargetKind.METRIC, signal.key)
        return [builder.row(target), *self.draw(plot, self.counted(runs, moment), moment, *size, at=at, unit=unit)[1:]]

    def _chart(self, one: Charted, moment: Moment, size: tuple[int, int], at: tuple[int, int]) -> Sequence[Row]:
        part, width = moment.snapshot.within(one.stream), size[0]
        verdicts = part.verdicts.standing
        reading = read_signal(part, one.signal, 0, verdicts=verdicts, cadence=cadence_of(part.stream))
        columns = max(8, width - LABEL_CELLS)
        # A window is of the main stream's steps: another one is shown whole.
        zoom = None if one.stream else self.shown(moment)
        plot = build_plot(
            part, reading, verdicts, columns=columns, zoom=zoom, is_log=self.is_log, smoothing=self.smoothing
        )
        plot = replace(plot, marks=tuple(mark for mark in plot.marks if mark.role in ("cursor", "restart")))
        # The legend would be the same for all of them: its row is the title's.
        chart = self.draw(plot, part, moment, *size, at=at, unit=reading.unit)[1:]
        if one.stream and self._drawn:
            # Its steps are not those that the cursor counts.
            self._drawn.pop()
        return [_head(one, reading, width, moment.glyphs), *chart]

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
                return super().on("reset" if key == "whole" else key, moment)
        return Redraw()


_MOST_LEGEND = 3


def _legend(runs: Sequence[ComparedRun], width: int, glyphs: Glyphs) -> list[Row]:
    builders = [RowBuilder(width, glyphs)]
    names = tuple(one.entry.name.display for one in runs)
    if sum(cell_width(name) + 4 for name in names) > width:
        names = without_shared(names)
    for number, name in enumerate(names):
        if builders[-1].column and builders[-1].room < cell_width(name) + 4:
            if len(builders) == _MOST_LEGEND:
                builders[-1].add(f"  +{len(runs) - number}", "dim")
                break
            builders.append(RowBuilder(width, glyphs))
        builders[-1].add(f" {runs[number].sign} ", runs[number].role).add(f"{name} ", "text")
    return [builder.row() for builder in builders]


def _head(one: Charted, reading: SignalReading, width: int, glyphs: Glyphs) -> Row:
    sign = glyphs.level(reading.level) if reading.level >= Level.INFO else " "
    builder = RowBuilder(width, glyphs).add(f" {sign} ", LEVEL_ROLES[reading.level])
    builder.add(Label.of(one.title).display, "strong")
    value, unit = value_text(reading)
    builder.add(f"  {value}", "crit" if reading.is_nonfinite_now else "value").add(f" {unit}" if unit else "", "unit")
    change = change_text(reading)
    if change != units.UNKNOWN and builder.room > len(change) + 2:
        builder.add(f"  {change}", "note")
    return builder.row(Target(TargetKind.METRIC, one.signal.key, stream=one.stream))
