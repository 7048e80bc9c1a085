"""What the x axis of a chart counts: from a step to its place on the axis and the screen, and back.

Owns where time, tokens, samples and epochs of a run come from; what is drawn there is the chart's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rltop.model import Signal
from rltop.pages.chart import Axis, Curve, Places, PlotData
from rltop.pages.signals import signal_of
from rltop.rows.rows import Row
from rltop.run.snapshot import Snapshot

_COUNTED = {Axis.TOKENS: ("num_tokens", "total_tokens"), Axis.SAMPLES: ("episode", "sample_count")}
"""Metrics of the catalogue: how many since the start, and how many in a step."""


def signal_in(snapshot: Snapshot, metric: tuple[str, str]) -> Signal | None:
    """The signal of a metric in a run; None where it does not log it."""
    name, key = metric
    if name:
        return None if snapshot.identity is None else snapshot.identity.primary(name)
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
        known = _values(snapshot, signal_in(snapshot, ("epoch", "")))
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


def _so_far(snapshot: Snapshot, total: str, part: str) -> list[tuple[int, float]]:
    """Step → how many so far: as logged, else the sum of those in each step."""
    counted = signal_in(snapshot, (total, ""))
    if counted is not None:
        return _values(snapshot, counted)
    sums, so_far = [], 0.0
    for step, value in _values(snapshot, signal_in(snapshot, (part, ""))):
        so_far += value
        sums.append((step, so_far))
    return sums


def axes_logged(snapshot: Snapshot) -> Sequence[Axis]:
    """What the axis can count for this run; steps come first."""
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
        kept = [(math.log10(x) if is_log else x, y) for x, y in pairs if x > 0 or not is_log]
        return Curve(tuple(x for x, _ in kept), tuple(y for _, y in kept))

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
    """The step at a share of the width of a chart.

    Args:
        share: 0 is its left end, 1 its right end.
    """
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
        """How far to the right a cell of the page is, from 0 to 1; None beside the chart.

        Args:
            x: cell from the left.
            y: row from the first one of the page.
        """
        if not (self.top <= y < self.top + self.rows and self.left <= x < self.left + self.cells):
            return None
        return (x - self.left) / max(1, self.cells - 1)


def canvas_of(chart: Sequence[Row], top: int, left: int = 0, *, has_right: bool = False) -> Canvas | None:
    """Where there is something to point at in a chart that was drawn; None without axes.

    Args:
        top: the row of the page that it begins with.
        left: the cell of the page that it begins with.
        has_right: there is a value axis on the right.
    """
    for y in range(len(chart) - 1, 0, -1):
        text = "".join(piece.text for piece in chart[y].line).rstrip()
        axis = text.lstrip()
        if axis[:1] == "└" or axis[:2] in ("+-", "++"):
            start = len(text) - len(axis) + 1
            return Canvas(top + 1, y - 1, left + start, len(text) - start - has_right)
    return None
