"""The large chart; the only module that uses plotext.

plotext provides characters only: every curve gets a colour number that stands for a role, and the output is parsed into
rows of pieces. So themes, NO_COLOR and the refresh of changed cells work as everywhere else, and a change of theme
redraws no chart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from rltop.model import Unit
from rltop.pages.chart import LABEL_CELLS, Curve, Marker, PlotData, PlotMark, PlottedSeries
from rltop.pages.chart_axes import (
    DASHED_ROLE,
    Axes,
    LineKind,
    add_rail,
    axes_of,
    legend_of,
    on_rows,
    paint_marker_legend,
    value_labels,
)
from rltop.regex import regex
from rltop.rows.glyphs import Glyphs, cell_width, glyph_set
from rltop.rows.rows import ROLES, Line, Piece, Row, RowBuilder, text_row, with_sign
from rltop.structs import NamedTuple

LEAST = (24, 6)
"""Least columns and rows with room for axes."""

_SIGNS = 4
"""Number of signs on a curve."""

_OVER = "cursor"
"""The role of marks that are overlaid on a chart."""

_MOST_PICTURES = 64
"""Most cached pictures: more than one page has."""

_RAIL_ROWS = 2
_CORNERS = ("└", "+")

_FIRST_NUMBER = 16
"""Colour numbers below this are in plotext's own table."""

_CODE = regex(r"\x1b\[([0-9;]*)m")

_ASCII_AXES = str.maketrans("─│┌┐└┘┤├┬┴┼", "-|++++||++|")

_LIBRARY_ERRORS = (ValueError, IndexError, KeyError, TypeError, ZeroDivisionError, OverflowError, AttributeError)
"""plotext has no exception class of its own: unexpected sizes or values raise these."""


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
        markers: events for a row of signs below the chart and a row that names them.
    """
    if width < LEAST[0] or height < LEAST[1]:
        return _message(f"too small for a chart: {width}×{height}, {LEAST[0]}×{LEAST[1]} needed", width, height, glyphs)
    has_rail = bool(markers) and height >= LEAST[1] + _RAIL_ROWS
    below = _RAIL_ROWS if has_rail else 0
    columns = width - LABEL_CELLS * (2 if plot.right is not None else 1)
    axes = axes_of(plot, columns, height - 3 - below, has_smooth=has_smooth, has_band=has_band)
    if axes is None:
        return _message("no values yet", width, height, glyphs)
    axes = on_rows(axes, height - 3 - below)
    cursors = [mark for mark in axes.marks if mark.role == _OVER]
    lines = replace(
        axes,
        marks=tuple(replace(mark, label="") for mark in axes.marks if mark.role != _OVER),
        levels=tuple(replace(level, label="") for level in axes.levels),
        # A curve's name contains its value at the cursor.
        series=tuple(replace(one, name="", shorter=()) for one in axes.series),
    )
    try:
        picture = _picture(lines, width, height - 1 - below, unit, is_ascii=glyphs.is_ascii)
    except _LIBRARY_ERRORS as error:
        return _message(f"this chart cannot be drawn at {width}×{height}: {error}", width, height, glyphs)
    rows = [_legend(plot, axes, width, glyphs), *(Row(line) for line in _with_cursors(picture, cursors, axes, glyphs))]
    if has_rail:
        rows += _rail(markers, plot, axes, picture, width, glyphs)
    return (rows + [Row(())] * height)[:height]


class _Picture(NamedTuple):
    """A chart drawn by plotext.

    Attributes:
        top: number of lines above the x axis.
        left: the first cell between the value axes.
    """

    lines: tuple[Line, ...]
    top: int
    left: int
    cells: int


@lru_cache(maxsize=_MOST_PICTURES)
def _picture(axes: Axes, width: int, height: int, unit: Unit, *, is_ascii: bool) -> _Picture:
    """The chart without overlaid marks, cached by data and axes."""
    glyphs = glyph_set(is_ascii=is_ascii)
    lines = tuple(_pieces(line, glyphs) for line in _draw(axes, width, height, glyphs, unit).rstrip("\n").split("\n"))
    texts = ["".join(piece.text for piece in line) for line in lines]
    top = next((y for y in range(len(texts) - 1, 0, -1) if texts[y].lstrip()[:1] in _CORNERS), len(texts))
    axis = texts[top] if top < len(texts) else ""
    left = len(axis) - len(axis.lstrip()) + 1
    return _Picture(lines, top, left, max(0, len(axis.rstrip()) - left - (axes.right is not None)))


def _with_cursors(picture: _Picture, cursors: Sequence[PlotMark], axes: Axes, glyphs: Glyphs) -> Sequence[Line]:
    lines = list(picture.lines)
    down, over = ("|", "+") if glyphs.is_ascii else ("│", "┼")
    for mark in cursors:
        cell = axes.cell(mark.step, picture.cells)
        if cell is None:
            continue
        crossed = _row_of(mark.value, axes, picture.top)
        for y in range(picture.top):
            lines[y] = _over(lines[y], picture.left + cell, down, over if y == crossed else "")
    return lines


def _row_of(value: float | None, axes: Axes, rows: int) -> int | None:
    if value is None or rows < 2 or not axes.low <= value <= axes.high:
        return None
    low, high, at = (math.log10(one) if axes.is_log else one for one in (axes.low, axes.high, value))
    return round((high - at) * (rows - 1) / (high - low)) if high > low else None


def _over(line: Line, x: int, down: str, crossing: str) -> Line:
    """A line of the chart with the cursor in cell `x`: behind the curves, except where it crosses its value."""
    beyond = x + 1 - sum(len(piece.text) for piece in line)
    line = (*line, Piece(" " * beyond)) if beyond > 0 else line
    return with_sign(line, x, lambda was: crossing or {" ": down, "─": "┼"}.get(was), _OVER)


def _rail(
    markers: Sequence[Marker], plot: PlotData, axes: Axes, picture: _Picture, width: int, glyphs: Glyphs
) -> list[Row]:
    if picture.cells < 1:
        return []

    def cell_of(step: int) -> int | None:
        x = plot.places.at(step)
        if plot.is_log_x and x <= 0:
            return None
        return axes.cell(math.log10(x) if plot.is_log_x else x, picture.cells)

    builder = RowBuilder(width, glyphs).add(" " * picture.left)
    return [
        add_rail(builder, markers, picture.cells, cell_of, glyphs).row(),
        paint_marker_legend(markers, picture.left, width, glyphs),
    ]


def _message(text: str, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    above = [Row(())] * (max(0, height - 1) // 2)
    return [*above, text_row(text, width, glyphs, "dim"), *[Row(())] * height][: max(0, height)]


def _number(role: str) -> int:
    return _FIRST_NUMBER + ROLES.index(role)


@lru_cache(1)
def _figure_class() -> Callable[[], Any]:
    """The figure class of plotext, because its functions share one figure; imported with the first chart."""
    from plotext._figure import _figure_class as figure_class  # noqa: PLC0415

    return figure_class  # type: ignore[no-any-return]


def _draw(axes: Axes, width: int, height: int, glyphs: Glyphs, unit: Unit) -> str:
    """Draw with plotext, as text with one colour number per role."""
    figure = _figure_class()()
    figure._limit_size(False, False)
    figure.plot_size(width, height)
    figure.theme("clear")
    figure.ticks_color(_number("dim"))
    figure.xaxes(True, False)
    figure.yaxes(True, axes.right is not None)
    marker = "." if glyphs.is_ascii else "braille"

    def scaled(values: Sequence[float]) -> list[float]:
        return [math.log10(value) for value in values] if axes.is_log else list(values)

    def plot(curve: Curve, role: str, side: str = "left") -> None:
        figure.plot(list(curve.steps), scaled(curve.values), marker=marker, color=_number(role), yside=side)

    for level in axes.levels:
        figure.horizontal_line(*scaled([level.value]), color=_number(level.role))
    for mark in axes.marks:
        figure.vertical_line(mark.step, color=_number(mark.role))
    # The smoothed curve comes last, so that it is visible where several curves share a cell.
    edges = ((edge, "note") for edge in axes.band)
    for curve, role in (*edges, (axes.raw, "dim" if axes.smooth.steps else "spark"), (axes.smooth, "spark")):
        if curve.steps:
            plot(curve, role)
    for curve, role, sign in (*((edge, "note", _EDGE) for edge in axes.band), (axes.smooth, "spark", glyphs.average)):
        if curve.steps:
            every = max(1, len(curve.steps) // _SIGNS)
            signed = slice(every // 2, None, every)
            values = scaled(curve.values[signed])
            figure.scatter(list(curve.steps[signed]), values, marker=sign, color=_number(role))
    if axes.smooth.steps and axes.raw.steps:
        # The average lags behind, so it must not hide the newest value.
        newest = scaled(axes.raw.values[-1:])
        figure.scatter(axes.raw.steps[-1:], newest, marker=glyphs.newest, color=_number("value"))
    sides = {False: "left", True: "right"}
    for one in axes.series:
        plot(one.curve, one.role, sides[one.is_right])
    # After all lines, so that no line overwrites a sign.
    for one in axes.series:
        signs = _signed(one, is_log=axes.is_log)
        figure.scatter(
            list(signs.steps), scaled(signs.values), marker=one.sign, color=_number(one.role), yside=sides[one.is_right]
        )
    # Otherwise plotext widens the axis of a constant and puts the labels in the middle.
    figure.ylim(*scaled((axes.low, axes.high)), yside="left")
    figure.xlim(axes.first, axes.last)
    figure.yticks(scaled(axes.y_ticks), _labels(axes.y_ticks, unit, glyphs), yside="left")
    if axes.right is not None:
        figure.ylim(*scaled((axes.right.low, axes.right.high)), yside="right")
        figure.yticks(scaled(axes.right.ticks), _labels(axes.right.ticks, axes.right.unit, glyphs), yside="right")
    figure.xticks(list(axes.x_ticks), [glyphs.to_ascii(label) for label in axes.x_labels])
    return str(figure.build())


def _labels(ticks: Sequence[float], unit: Unit, glyphs: Glyphs) -> list[str]:
    return [glyphs.to_ascii(label) for label in value_labels(ticks, unit)]


def _named(axes: Axes, cells: int) -> list[str]:
    """Names of the curves, as long as all fit into `cells`; with two value axes each says which one it uses."""
    sides = [f" ({'right' if one.is_right else 'left'})" if axes.right is not None else "" for one in axes.series]
    most = max((len(one.shorter) for one in axes.series), default=0)
    names = [""] * len(axes.series)
    for number in range(-1, most):
        forms = [(one.name, *one.shorter)[min(number + 1, len(one.shorter))] for one in axes.series]
        names = [f"{form}{side}" for form, side in zip(forms, sides, strict=True)]
        if sum(cell_width(f"{name}{one.sign}") + 4 for name, one in zip(names, axes.series, strict=True)) <= cells:
            break
    return names


_EDGE = "+"
"""The sign on the edges of a band."""


def _signed(series: PlottedSeries, *, is_log: bool) -> Curve:
    """The points that carry a curve's sign: a few along the curve, and the newest value."""
    curve = series.curve
    every = max(1, len(curve.steps) // _SIGNS)
    at = list(range(every // 2, len(curve.steps) - every // 2, every))
    last = series.newest if series.newest is not None and (series.newest[1] > 0 or not is_log) else None
    x, y = last or (curve.steps[-1], curve.values[-1])
    return Curve((*(curve.steps[one] for one in at), x), (*(curve.values[one] for one in at), y))


def _pieces(line: str, glyphs: Glyphs) -> Line:
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
    if role == DASHED_ROLE:
        text = text.replace("─", glyphs.dash)
    return Piece(glyphs.to_ascii(text.translate(_ASCII_AXES)) if glyphs.is_ascii else text, role)


def _role(code: str, before: str) -> str:
    numbers = code.split(";")
    if numbers in ([""], ["0"]):
        return "text"
    if numbers[:2] == ["38", "5"] and len(numbers) == 3:
        index = int(numbers[2]) - _FIRST_NUMBER
        if 0 <= index < len(ROLES):
            return ROLES[index]
    return before


def _legend(plot: PlotData, axes: Axes, width: int, glyphs: Glyphs) -> Row:
    curve, across, down = ("..", "--", "|") if glyphs.is_ascii else ("⣀⠤", "──", "│")
    signs = {
        LineKind.CURVE: curve,
        LineKind.SIGNED: curve[0] + glyphs.average,
        LineKind.EDGE: curve[0] + _EDGE,
        LineKind.ACROSS: across,
        LineKind.DASHED: 2 * glyphs.dash,
        LineKind.DOWN: down,
        LineKind.NONE: "",
    }
    names = _named(axes, width - 1)
    entries = [(one.sign, one.role, name) for one, name in zip(axes.series, names, strict=True)]
    entries += [(signs[kind], role, label) for kind, role, label in legend_of(plot, axes)]
    if axes.smooth.steps:
        entries.append((glyphs.newest, "value", "last"))
    row = RowBuilder(width, glyphs).add(" ")
    for sign, role, label in entries:
        if cell_width(label) + len(sign) + 1 > row.room:
            continue
        if sign:
            row.add(f"{sign} ", role)
        row.add(label, role if not sign else "dim").add("   ")
    return row.row()
