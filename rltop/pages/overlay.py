"""Several metrics of a run in one chart: a curve, a letter and a row of numbers for each.

Owns which of them share an axis, and how metrics are named by hand.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence, Set
from dataclasses import replace
from typing import ClassVar

from rltop import units
from rltop.model import Label, Signal, Unit
from rltop.pages.chart import LABEL_CELLS, NO_CURVE, Axis, PlotData, PlotMark, PlottedSeries, Zoom, series_of
from rltop.pages.chart_page import ChartPage, with_readout
from rltop.pages.key_metrics import choose_key_metrics, value_text
from rltop.pages.markers import read_markers
from rltop.pages.metric import StatisticRow, in_window, read_statistics
from rltop.pages.metrics import index_tree, match_keys
from rltop.pages.moment import Moment
from rltop.pages.page import Effect, Say
from rltop.pages.signals import SignalReading, cadence_of, read_signal, signal_of
from rltop.rows.cells import RowBuilder, fill, text_row
from rltop.rows.glyphs import Glyphs
from rltop.rows.keys import Scope
from rltop.rows.rows import Piece, Row, Target, TargetKind
from rltop.rows.table import Column, Fit, paint_table, sorted_table
from rltop.rows.widths import cell_width
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

MOST_METRICS = 8
"""Curves that one chart can tell apart."""

_LEAST_CHART = 10
_APART = 5.0
"""A curve that would have less than one of so many parts of the height is pressed flat."""


class DrawnMetric(NamedTuple):
    """One metric of the chart.

    Attributes:
        sign, role: the letter that stands for it, and the role of its colour.
        series: its curve; None where the chart has no value of it, or no axis for it.
    """

    sign: str
    role: str
    signal: Signal
    snapshot: Snapshot
    reading: SignalReading
    series: PlottedSeries | None
    title: str


def _names(metrics: Sequence[tuple[Snapshot, str]]) -> list[str]:
    """What metrics are called: their titles; behind the same title the parts of the keys that differ."""
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
    for link in row.links:
        if link.target in letters:
            row = Row(_with_letter(row, link.start, *letters[link.target]), row.links)
    return row


def _with_letter(row: Row, x: int, letter: str, role: str) -> tuple[Piece, ...]:
    pieces, at = [], 0
    for piece in row.line:
        stop = at + cell_width(piece.text)
        if at <= x < stop and len(piece.text) == stop - at and piece.text[x - at] == " ":
            parts = (piece.text[: x - at], piece.role), (letter, role), (piece.text[x - at + 1 :], piece.role)
            pieces += [Piece(*part) for part in parts if part[0]]
        else:
            pieces.append(piece)
        at = stop
    return tuple(pieces)


# -- by name -------------------------------------------------------------------------------------------------------

_AXES = {
    "step": Axis.STEP, "steps": Axis.STEP, "time": Axis.TIME, "token": Axis.TOKENS, "tokens": Axis.TOKENS,
    "sample": Axis.SAMPLES, "samples": Axis.SAMPLES, "episodes": Axis.SAMPLES,
    "epoch": Axis.EPOCH, "epochs": Axis.EPOCH, "clock": Axis.CLOCK, "wall": Axis.CLOCK,
}  # fmt: skip


class OverlayRequest(NamedTuple):
    """What was asked for by name: metrics, and what the x axis is to count; None where that was not said."""

    targets: tuple[Target, ...]
    axis: Axis | None


def read_asked(text: str, snapshot: Snapshot) -> OverlayRequest:
    """Understand `reward, entropy by tokens`.

    Raises:
        ValueError: a name fits no metric, or the axis is none; the message says what would do.
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
        # `reward entropy` is two names where it is not one.
        words = name.split() if target is None else []
        several = [_target_of(word, snapshot) for word in words] if len(words) > 1 else [target]
        if any(one is None for one in several):
            raise ValueError(_unknown(name, snapshot))
        targets += [one for one in several if one is not None and one not in targets]
    return OverlayRequest(tuple(targets), axis)


def _target_of(name: str, snapshot: Snapshot) -> Target | None:
    """The metric that a name means: the overview's own first, then whole names, then the shortest key with it."""
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
    """On which axis each metric stands: False on the left, True on the right, None on neither.

    Metrics of one unit share an axis, unless that would press one of them into a fifth of the height; a level one is
    level on any axis.

    Args:
        ranges: the least and the greatest value of each.
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
    """Several metrics in one chart."""

    where = (Scope.CHART, Scope.AXES, Scope.OVERLAY)
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on")

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
        # The curves may leave no room for it in the legend.
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
            reading = read_signal(part, signal, 0, verdicts=part.verdicts.standing, cadence=cadence_of(part.stream))
            reading = in_window(part, reading, self.shown(moment))
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
        whole = self.whole(moment)
        shown = self.shown(moment) or whole
        marks = [PlotMark(step, "restart", "restart") for step in moment.snapshot.stream.seen_restarts]
        at = moment.snapshot.at_step
        marks += [] if at is None else [PlotMark(at, "cursor", "")]
        unit = next((one.signal.metric.unit for one in metrics if one.series and not one.series.is_right), Unit.NONE)
        right = next((one.signal.metric.unit for one in metrics if one.series and one.series.is_right), None)
        can_log = any(value > 0 for one in series for value in one.curve.values)
        plot = PlotData(
            title="", unit="", raw=NO_CURVE, smooth=NO_CURVE, levels=(),
            marks=tuple(mark for mark in marks if shown.first <= mark.step <= shown.last),
            zoom=shown, whole=whole, is_log=self.is_log and can_log, can_log=can_log, series=series, right=right,
            smoothing=self.smoothing,
        )  # fmt: skip
        markers = read_markers(moment.snapshot, shown.first, shown.last)
        plot = with_readout(plot, moment.snapshot)
        return self.draw(plot, moment.snapshot, moment, width, height, at=(1, 0), unit=unit, markers=markers)

    def _table(self, metrics: Sequence[DrawnMetric], moment: Moment, width: int) -> list[Row]:
        window = self.shown(moment)
        numbers = {
            one.sign: {each.name: each for each in read_statistics(one.snapshot, one.reading, window)}
            for one in metrics
        }
        has_right = any(one.series is not None and one.series.is_right for one in metrics)

        def number(name: str, priority: int) -> Column[DrawnMetric]:
            return Column(name, lambda one: (_number(numbers[one.sign].get(name)), "value"), priority=priority)

        columns: list[Column[DrawnMetric]] = [
            Column("", lambda one: (one.sign, one.role), is_right=False),
            Column(
                "metric", lambda one: (one.title, "strong"), Fit.NAME, least=12, sort=lambda one: one.title.casefold()
            ),
            Column("axis", lambda one: (_axis_of(one, has_right), "note"), is_right=False, priority=3),
            Column(
                _head(moment), lambda one: (" ".join(value_text(one.reading)).strip(), "value"), least=8, sort=_value_of
            ),
            number("min", 2),
            number("max", 1),
            number("mean", 4),
            number("median", 5),
            Column("key", lambda one: (one.reading.key.display, "key"), Fit.NAME, least=8, priority=6),
        ]
        table = sorted_table(
            columns,
            metrics,
            self.sorting,
            lambda one: Target(TargetKind.METRIC, one.signal.key, stream=one.snapshot.role),
        )
        return [_span_row(window, moment, width, moment.glyphs), *paint_table(table, width, moment.glyphs)]

    def idle(self, moment: Moment) -> Set[str]:
        return super().idle(moment) | {"band"}

    def on(self, key: str, moment: Moment) -> Effect | None:
        if key == "band":
            return Say("no band is drawn around several metrics: open one")
        return super().on(key, moment)


def _number(found: StatisticRow | None) -> str:
    if found is None:
        return ""
    at = f" @{found.remark.partition(' ')[2]}" if found.remark.startswith("step") else ""
    return f"{found.value}{f' {found.unit}' if found.unit else ''}{at}"


def _value_of(one: DrawnMetric) -> float | None:
    return None if one.reading.point is None else one.reading.point.value


def _axis_of(one: DrawnMetric, has_right: bool) -> str:
    if one.series is None:
        return "not drawn"
    return ("right" if one.series.is_right else "left") if has_right else ""


def _head(moment: Moment) -> str:
    return "last" if moment.snapshot.at_step is None else f"@{units.step(moment.snapshot.at_step)}"


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
    """What a unit is called where nothing stands in front of it."""
    if unit is Unit.NONE:
        return "plain numbers"
    return units.unit_suffix(unit) or unit.value
