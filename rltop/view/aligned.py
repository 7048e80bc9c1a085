"""Small charts of several metrics under one another, aligned at one step.

Owns which steps they cover and how they are put on either side of a line that
stands for the step; the dots are `spark`'s.
"""

from __future__ import annotations

from rltop import units
from rltop.derive.change import LOOKBACK_RECORDS
from rltop.model import Signal
from rltop.structs import Struct
from rltop.view.cells import RowBuilder
from rltop.view.glyphs import Glyphs
from rltop.view.lines import Line, Piece
from rltop.view.reduction import SparkData, Window, spark_data
from rltop.view.signals import cadence_of, shown_step
from rltop.view.source import RunSource
from rltop.view.spark import sparkline

LEAST_CELLS = 14
"""Below this a line says nothing on either side."""
MOST_CELLS = 100

_LEAST_RECORDS = 8
_AFTER_TIMES = 1.5


class Frame(Struct):
    """The steps that the charts share.

    Attributes:
        step: where they are aligned: the first step to the right of the line.
        stride: steps in half a cell.
        left, right: cells on either side of the line.
        first, last: the oldest and the newest step in the picture.
        is_newest: the picture ends with the newest step of the run.
    """

    step: int
    stride: int
    left: int
    right: int
    first: int
    last: int
    is_newest: bool

    @property
    def cells(self) -> int:
        """Width of a chart, the line included."""
        return self.left + 1 + self.right

    def cell(self, step: int) -> int:
        """The cell of a step, the line being the cell between both sides; outside, negative or too large."""
        cell = self.window.column(step) // 2
        return cell if step < self.step else cell + 1

    @property
    def window(self) -> Window:
        """The columns to read, two to a cell; the line stands between two of them."""
        return Window(self.step - 2 * self.left * self.stride, self.stride, 2 * (self.left + self.right))


def frame_around(run: RunSource, step: int, cells: int, at: int | None = None) -> Frame | None:
    """Choose what charts around `step` cover in at most `cells` cells.

    Up to 64 records before the step, as many as are judged, and half as many again
    after it; less where the run has less. None without room, or without a row.
    """
    first, last = run.stream.first_step, shown_step(run, at)
    cells = min(cells, MOST_CELLS)
    if first is None or last is None or cells < LEAST_CELLS:
        return None
    cadence = cadence_of(run.stream)
    before = min(LOOKBACK_RECORDS * cadence, max(step - first, _LEAST_RECORDS * cadence))
    after = min(max(last - step + 1, _LEAST_RECORDS * cadence), round(_AFTER_TIMES * before))
    stride = max(1, -(-(before + after) // (2 * (cells - 1))))
    left, right = -(-before // (2 * stride)), -(-after // (2 * stride))
    while left + right + 1 > cells:
        left, right = (left - 1, right) if left >= right else (left, right - 1)
    start, stop = max(first, step - 2 * left * stride), min(last, step + 2 * right * stride - 1)
    return Frame(step, stride, left, right, start, stop, last <= stop)


def read_aligned(run: RunSource, signal: Signal, frame: Frame, at: int | None = None) -> SparkData:
    """The line of a signal over the frame, in the unit of the signal."""
    window, stream = frame.window, run.stream
    stop = window.stop if at is None else min(window.stop, at + 1)
    return spark_data(
        stream.buckets(signal.key, window.stride, window.start, max(window.start, stop)),
        window,
        signal,
        marks=[mark.step for mark in stream.marks(signal.key) if window.start <= mark.step < stop],
        restarts=[step for step in stream.seen_restarts if window.start < step < stop],
    )


def aligned_line(data: SparkData, frame: Frame, glyphs: Glyphs, role: str) -> Line:
    """The chart with the line of the step in its place, in `role`."""
    pieces: list[Piece] = []
    cell = 0
    for text, piece_role in sparkline(data, glyphs):
        for part in (text[: max(0, frame.left - cell)], text[max(0, frame.left - cell) :]):
            if cell == frame.left and part:
                pieces.append(Piece(glyphs.upright, role))
                cell += 1
            if part:
                pieces.append(Piece(part, piece_role))
                cell += len(part)
    return tuple(pieces)


def add_axis(builder: RowBuilder, frame: Frame, glyphs: Glyphs, role: str) -> RowBuilder:
    """The axis above the charts: first step, the step of the line in `role`, last step."""
    start = builder.column
    first, step = units.step(frame.first), units.step(frame.step)
    at = start + frame.left
    if frame.left > len(first) + 2:
        builder.add(first, "dim").add(" ").add(glyphs.rule * (at - builder.column - 1), "rule").add(" ")
    builder.to(at).add(step, role)
    end = "now" if frame.is_newest else units.step(frame.last)
    rest = start + frame.cells - builder.column - len(end) - 2
    if rest > 0:
        builder.add(" ").add(glyphs.rule * rest, "rule").add(f" {end}", "dim")
    return builder
