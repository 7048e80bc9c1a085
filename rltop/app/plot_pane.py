"""The large chart of a drill-down; the only place that knows plotext.

The library is asked for characters alone: every curve is given a colour number
that stands for a role, and what comes back is read as rows of pieces. So the
theme, NO_COLOR and the refresh of changed cells work as everywhere else, and a
change of theme draws nothing anew.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from rltop.model import Unit
from rltop.pages.chart import LABEL_CELLS, Curve, PlotData
from rltop.pages.chart_axes import Axes, LineKind, axes_of, legend_of, value_labels
from rltop.pages.markers import Marker, add_rail, paint_marker_legend
from rltop.rows.cells import RowBuilder, text_row
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import ROLES, Line, Piece, Row
from rltop.rows.widths import cell_width

LEAST = (24, 6)
"""Below this many columns and rows there is no room for axes."""

_SIGNS = 4
"""How often a curve carries its sign."""

_RAIL_ROWS = 2
_CORNER = "└"

_FIRST_NUMBER = 16
"""Colour numbers below are named by the library's own table."""

_CODE = re.compile(r"\x1b\[([0-9;]*)m")

_ASCII_AXES = str.maketrans("─│┌┐└┘┤├┬┴┼", "-|++++||++|")

_LIBRARY_ERRORS = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, AttributeError)
"""plotext has no error of its own: these are what it runs into on a size or a value it did not expect."""


def paint_chart(
    plot: PlotData,
    width: int,
    height: int,
    glyphs: Glyphs,
    *,
    unit: Unit = Unit.NONE,
    has_smooth: bool = True,
    has_band: bool = True,
    markers: Sequence[Marker] = (),
) -> list[Row]:
    """A legend and the chart, as exactly `height` rows of at most `width` cells.

    A chart that cannot be drawn says why in one row; it never raises.

    Args:
        plot: what to draw.
        width: cells.
        height: cells, the legend included.
        glyphs: braille, or dots where only ASCII may be written.
        unit: of the values.
        has_smooth: draw the smoothed curve over the raw one.
        has_band: draw the edges around the values.
        markers: what happened meanwhile, for a row of signs below the steps and one that names them.
    """
    if width < LEAST[0] or height < LEAST[1]:
        return _message(f"too small for a chart: {width}×{height}, needs {LEAST[0]}×{LEAST[1]}", width, height, glyphs)
    has_rail = bool(markers) and height >= LEAST[1] + _RAIL_ROWS
    below = _RAIL_ROWS if has_rail else 0
    axes = axes_of(plot, width - LABEL_CELLS, height - 3 - below, has_smooth=has_smooth, has_band=has_band)
    if axes is None:
        return _message("no values yet", width, height, glyphs)
    try:
        text = _draw(axes, width, height - 1 - below, glyphs, unit)
    except _LIBRARY_ERRORS as error:
        return _message(f"this chart cannot be drawn at {width}×{height}: {error}", width, height, glyphs)
    lines = text.rstrip("\n").split("\n")
    rows = [_legend(plot, axes, width, glyphs), *(Row(_pieces(line, glyphs)) for line in lines)]
    if has_rail:
        rows += _rail(markers, plot, axes, lines, width, glyphs)
    return (rows + [Row(())] * height)[:height]


def _rail(
    markers: Sequence[Marker], plot: PlotData, axes: Axes, lines: Sequence[str], width: int, glyphs: Glyphs
) -> list[Row]:
    """The signs under their steps, and what they are."""
    axis = next((plain for plain in (_CODE.sub("", line) for line in reversed(lines)) if _CORNER in plain), "")
    start = axis.find(_CORNER) + 1
    cells = min(len(axis), width) - start
    if not axis or cells < 1:
        return []

    def cell_of(step: int) -> int | None:
        x = plot.places.at(step)
        if plot.is_log_x and x <= 0:
            return None
        return axes.cell(math.log10(x) if plot.is_log_x else x, cells)

    builder = RowBuilder(width, glyphs).add(" " * start)
    return [
        add_rail(builder, markers, cells, cell_of, glyphs).row(),
        paint_marker_legend(markers, start, width, glyphs),
    ]


def _message(text: str, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    above = [Row(())] * (max(0, height - 1) // 2)
    return [*above, text_row(text, width, glyphs, "dim"), *[Row(())] * height][: max(0, height)]


def _number(role: str) -> int:
    """The colour number that stands for a role in the library's output."""
    return _FIRST_NUMBER + ROLES.index(role)


@lru_cache(1)
def _figure_class() -> Callable[[], Any]:
    """The library's figure, imported when the first chart is drawn.

    A figure of our own: the module's functions draw on one that all share.
    """
    from plotext._figure import _figure_class as figure_class  # noqa: PLC0415

    return figure_class  # type: ignore[no-any-return]


def _draw(axes: Axes, width: int, height: int, glyphs: Glyphs, unit: Unit) -> str:
    """Ask plotext for the picture, as text with one colour number per role."""
    figure = _figure_class()()
    figure._limit_size(False, False)
    figure.plot_size(width, height)
    figure.theme("clear")
    figure.ticks_color(_number("dim"))
    figure.xaxes(True, False)
    figure.yaxes(True, False)
    for level in axes.levels:
        figure.horizontal_line(level.value, color=_number(level.role))
    for mark in axes.marks:
        figure.vertical_line(mark.step, color=_number(mark.role))
    marker = "." if glyphs.is_ascii else "braille"
    # The smoothed curve comes last: where several share a cell, it is the one to be seen.
    edges = ((edge, "note") for edge in axes.band)
    for curve, role in (*edges, (axes.raw, "dim" if axes.smooth.steps else "spark"), (axes.smooth, "spark")):
        if curve.steps:
            figure.plot(list(curve.steps), list(curve.values), marker=marker, color=_number(role))
    if axes.smooth.steps and axes.raw.steps:
        # An average lags behind: the newest value is never hidden under it.
        figure.scatter([axes.raw.steps[-1]], [axes.raw.values[-1]], marker=_newest(glyphs), color=_number("value"))
    for other in axes.others:
        curve = other.curve
        figure.plot(list(curve.steps), list(curve.values), marker=marker, color=_number(other.role))
    # Behind all the lines, so that no line crosses out a sign.
    for other in axes.others:
        steps, values = _signed(other.curve)
        figure.scatter(steps, values, marker=other.sign, color=_number(other.role))
    if axes.is_log:
        figure.yscale("log")
    else:
        # Left to itself the library widens the axis of a constant, and the values beside it stand in the middle.
        figure.ylim(axes.low, axes.high)
    figure.xlim(axes.first, axes.last)
    figure.yticks(list(axes.y_ticks), [glyphs.to_ascii(label) for label in value_labels(axes.y_ticks, unit)])
    figure.xticks(list(axes.x_ticks), [glyphs.to_ascii(label) for label in axes.x_labels])
    return str(figure.build())


def _newest(glyphs: Glyphs) -> str:
    return "o" if glyphs.is_ascii else "●"


def _signed(curve: Curve) -> tuple[list[float], list[float]]:
    """The points of a curve that carry its sign: a few, and the newest."""
    every = max(1, len(curve.steps) // _SIGNS)
    at = [*range(every // 2, len(curve.steps) - every // 2, every), len(curve.steps) - 1]
    return [curve.steps[one] for one in at], [curve.values[one] for one in at]


def _pieces(line: str, glyphs: Glyphs) -> Line:
    """A line of the library's coloured text as pieces."""
    pieces: list[Piece] = []
    role = "text"
    at = 0
    for code in _CODE.finditer(line):
        if code.start() > at:
            pieces.append(_piece(line[at : code.start()], role, glyphs))
        role = _role(code.group(1), role)
        at = code.end()
    if at < len(line):
        pieces.append(_piece(line[at:], role, glyphs))
    return tuple(pieces)


def _piece(text: str, role: str, glyphs: Glyphs) -> Piece:
    return Piece(glyphs.to_ascii(text.translate(_ASCII_AXES)) if glyphs.is_ascii else text, role)


def _role(code: str, before: str) -> str:
    """The role that a colour number stands for; 0 ends it."""
    numbers = code.split(";")
    if numbers in ([""], ["0"]):
        return "text"
    if numbers[:2] == ["38", "5"] and len(numbers) == 3:
        index = int(numbers[2]) - _FIRST_NUMBER
        if 0 <= index < len(ROLES):
            return ROLES[index]
    return before


def _legend(plot: PlotData, axes: Axes, width: int, glyphs: Glyphs) -> Row:
    """What each line is, in its own colour and with its own sign."""
    curve, across, down = ("..", "--", "|") if glyphs.is_ascii else ("⣀⠤", "──", "│")
    signs = {LineKind.CURVE: curve, LineKind.ACROSS: across, LineKind.DOWN: down, LineKind.NONE: ""}
    entries = [(one.sign, one.role, one.name) for one in axes.others]
    entries += [(signs[kind], role, label) for kind, role, label in legend_of(plot, axes)]
    if axes.smooth.steps:
        entries.append((_newest(glyphs), "value", "newest"))
    row = RowBuilder(width, glyphs).add(" ")
    for sign, role, label in entries:
        if cell_width(label) + len(sign) + 1 > row.room:
            continue
        if sign:
            row.add(f"{sign} ", role)
        row.add(label, role if not sign else "dim").add("   ")
    return row.row()
