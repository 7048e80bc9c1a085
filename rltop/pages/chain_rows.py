"""The rows of a chain of diagnosis: one link in each, their charts under one another.

Owns the columns; what the links say was read in `chain`.
"""

from __future__ import annotations

import math

from rltop import units
from rltop.model import Label, Unit
from rltop.pages.chain import LEAST_CELLS, MOST_CELLS, ChainLink, ChainView, add_axis, aligned_line
from rltop.pages.changes import sigma_text
from rltop.pages.chart import add_rail, paint_marker_legend
from rltop.rows.cells import RowBuilder, clip_middle, text_row, wrap
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Row, Target, TargetKind
from rltop.rows.widths import cell_width
from rltop.structs import Struct

_NUMBER = 4
_LEVEL = 9
_LEVELS = 21


class ChainColumns(Struct):
    """Where things stand in a row.

    Attributes:
        title: cells of the title.
        key: cells of the trainer's key; 0 where there is no room.
        has_levels: from where to where is shown.
        has_sigma: how far that is.
        word: cells of the word on the order.
        line: the column in which the charts begin.
        cells: their width; 0 where there is no room.
    """

    title: int
    key: int
    has_levels: bool
    has_sigma: bool
    word: int
    line: int
    cells: int


def columns_of(width: int) -> ChainColumns:
    """The columns for a width: titles and words first, then charts, numbers and keys."""
    title, word = (15, 14) if width < 60 else (19, 16)
    has_sigma, has_levels = width >= 56, width >= 104
    key = 34 if width >= 150 else 0
    line = _NUMBER + title + key + (_LEVELS if has_levels else 0) + (7 if has_sigma else 0) + 1 + word
    cells = min(MOST_CELLS, width - line - 1)
    return ChainColumns(title, key, has_levels, has_sigma, word, line, cells if cells >= LEAST_CELLS else 0)


def paint_chain(view: ChainView, width: int, glyphs: Glyphs) -> list[Row]:
    """The head, the conclusion, then the links, each with its chart."""
    columns = columns_of(width)
    rows = [Row(()), _paint_head(view, columns, width, glyphs)]
    if view.subject is not None:
        rows.append(_paint_link(view.subject, "", view, columns, width, glyphs, is_subject=True))
    for i, link in enumerate(view.links):
        rows.append(_paint_link(link, str(i + 1), view, columns, width, glyphs, is_first=i == view.first))
    if view.markers and view.frame is not None and columns.cells:
        builder = RowBuilder(width, glyphs).left("    meanwhile", columns.line, "dim")
        rows.append(add_rail(builder, view.markers, view.frame.cells, view.frame.cell, glyphs).row())
        rows.append(paint_marker_legend(view.markers, 4, width, glyphs))
    if view.missing:
        text = f"not logged by this run: {', '.join(view.missing)}"
        rows += [RowBuilder(width, glyphs).add("    ").add(line, "dim").row() for line in wrap(text, width - 5, 3)]
    rows += [text_row(line, width, glyphs, "strong") for line in wrap(view.conclusion, width - 2, 3)]
    return rows


def _paint_head(view: ChainView, columns: ChainColumns, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" ").add("look next", "title").add("  ")
    room = columns.line - 1 if columns.cells else width
    builder.left(f"when {view.symptom}", max(0, room - builder.column), "dim")
    if view.frame is not None and columns.cells:
        add_axis(builder.to(columns.line), view.frame, glyphs, "restart")
    return builder.row()


def _paint_link(
    link: ChainLink,
    number: str,
    view: ChainView,
    columns: ChainColumns,
    width: int,
    glyphs: Glyphs,
    *,
    is_first: bool = False,
    is_subject: bool = False,
) -> Row:
    has_moved = link.moved.step is not None or link.moved.is_drift
    role = "strong" if has_moved else "dim"
    builder = RowBuilder(width, glyphs).add(f" {number:>2} ", "strong" if has_moved else "dim")
    builder.left(
        clip_middle(Label.of(link.title).display, columns.title - 1), columns.title, "text" if has_moved else "dim"
    )
    if columns.key:
        key = "" if link.signal is None else Label.of(link.signal.key).display
        builder.left(clip_middle(key, columns.key - 1), columns.key, "key")
    if columns.has_levels:
        _add_levels(builder, link, glyphs, has_key=bool(columns.key))
    if columns.has_sigma:
        far = sigma_text(link.moved.score) if link.moved.score else ""
        builder.right(f"{far}{'sd' if glyphs.is_ascii else 'σ'}" if far else "", 7, role)
    builder.add(" ").left(
        moved_text(link, is_first=is_first, is_subject=is_subject), columns.word, "note" if has_moved else "dim"
    )
    if link.line is not None and view.frame is not None and columns.cells:
        builder.to(columns.line).line(aligned_line(link.line, view.frame, glyphs, "restart"))
    if link.signal is None:
        return builder.row(Target(TargetKind.STEP, step=link.moved.step))
    return builder.row(Target(TargetKind.METRIC, link.signal.key))


def _add_levels(builder: RowBuilder, link: ChainLink, glyphs: Glyphs, *, has_key: bool) -> None:
    """From where to where it moved; where it did not, its usual level; of what has no level, its key."""
    moved, signal = link.moved, link.signal
    if signal is None:
        builder.left("", _LEVELS)
        return
    if math.isnan(moved.before) and math.isinf(moved.score) and not has_key:
        builder.left(f"  {clip_middle(Label.of(signal.key).display, _LEVELS - 3)}", _LEVELS, "key")
        return
    unit = signal.metric.unit
    has_moved = moved.step is not None or moved.is_drift
    builder.right(_level(moved.before, unit), 9, "value" if has_moved else "dim")
    if not has_moved:
        builder.left("", 12)
        return
    after = "NaN/Inf" if math.isinf(moved.score) else _level(moved.after, unit)
    builder.add(f" {glyphs.arrow} ", "dim").right(after, 9, "crit" if math.isinf(moved.score) else "value")


def _level(value: float, unit: Unit) -> str:
    if math.isnan(value):
        return ""
    text = units.measure(value, unit)
    return text if cell_width(text) <= _LEVEL else units.quantity(value, unit)[0]


def moved_text(link: ChainLink, *, is_first: bool = False, is_subject: bool = False) -> str:
    """When it moved against the onset, counted in records; of the symptom itself never that it did not change."""
    if link.moved.is_drift:
        return "drifting"
    if link.moved.step is None:
        unmoved = "no clear move" if is_subject else "no change"
        return unmoved if link.moved.is_known else "too few before"
    records = link.records or 0
    sign = units.MINUS if records < 0 else "+"
    gap = f" ({sign}{units.step(abs(records))})" if records else ""
    if is_first:
        return f"first{gap}"
    if abs(records) <= 1:
        return f"with it{gap}"
    return f"{'before' if records < 0 else 'after'}{gap}"
