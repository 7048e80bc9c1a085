"""The rows of a chain of diagnosis: one link in each, their charts below one another.

Owns the columns; what the links say was read in `chain`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from rltop import units
from rltop.model import Label
from rltop.pages.chain import LEAST_CELLS, MOST_CELLS, ChainLink, ChainView, Frame, aligned_line, axis_line
from rltop.pages.changes import sigma_text
from rltop.pages.markers import add_rail, paint_marker_legend
from rltop.rows.cells import RowBuilder, text_row, wrap
from rltop.rows.glyphs import UNICODE, Glyphs
from rltop.rows.rows import Line, Piece, Row, Target, TargetKind
from rltop.rows.table import Column, Kind, Table, TablePainter, lay_out
from rltop.rows.widths import cell_width
from rltop.structs import NamedTuple

_FRONT, _LEVEL = 1, 9
_LINE_FROM_LEVELS, _LINE_FROM_KEYS = 34, 46
_TITLE, _SHORT_TITLE = "related metrics, in the order to check", "related metrics"


class _Row(NamedTuple):
    """A link in its place."""

    link: ChainLink
    number: str = ""
    is_subject: bool = False

    @property
    def has_moved(self) -> bool:
        return self.link.moved.step is not None or self.link.moved.is_drift


def _columns(
    rows: Sequence[_Row], width: int, glyphs: Glyphs, frame: Frame | None = None, *, is_sought: bool = False
) -> Sequence[Column[_Row]]:
    """The columns of a chain: titles and words first, then lines, distances, levels and keys.

    Args:
        rows: the links.
        width: cells of the screen.
        glyphs: the signs to draw with.
        frame: what the lines cover; None without lines.
        is_sought: it is sought how many cells there are for the lines; titles then have what they usually need.
    """
    title, word = (14, 13) if width < 60 else (18, 15)
    sought = LEAST_CELLS if width < 104 else min(_LINE_FROM_KEYS, max(_LINE_FROM_LEVELS, width - 70))
    line = sought if is_sought else 0 if frame is None else frame.cells

    def draw(row: _Row, cells: int) -> Line:
        return () if frame is None or row.link.line is None else aligned_line(row.link.line, frame, glyphs, "restart")

    return (
        Column("", lambda row: (row.number, "strong" if row.has_moved else "dim"), least=2),
        Column(
            "", _title, Kind.NAME, least=title if is_sought else min(12, title), most=24, is_steady=is_sought, gap=1
        ),
        Column("", _key, Kind.NAME, least=33, priority=5, gap=1, is_steady=True),
        Column("", _levels(rows, glyphs), least=2 * _LEVEL + 3, priority=4, gap=1),
        Column("", lambda row: _distance(row, glyphs), least=6, priority=2, gap=1),
        Column("", _word, least=word, is_right=False, gap=1),
        Column(
            "", draw, Kind.DRAWN, least=line, most=MOST_CELLS if is_sought else line, priority=3, gap=2,
            wants=None if line else lambda row: 0,
        ),
    )  # fmt: skip


def line_cells(width: int) -> int:
    """How many cells there are for the lines on a screen of so many; 0 where there is no room."""
    columns = _columns((), width, UNICODE, is_sought=True)
    return lay_out([column.least for column in columns], columns, width - _FRONT - 1).of(len(columns) - 1)


def chain_table(view: ChainView, width: int, glyphs: Glyphs, frame: Frame | None = None) -> Table[_Row]:
    """The symptom and the links in rows; each leads to its metric.

    Args:
        view: the chain.
        width: cells of the screen.
        glyphs: the signs to draw with.
        frame: what the lines cover; None without lines.
    """
    links = [_Row(link, str(i + 1)) for i, link in enumerate(view.links)]
    subject = [] if view.subject is None else [_Row(view.subject, is_subject=True)]
    return Table(_columns([*subject, *links], width, glyphs, frame), [*subject, *links], target=_target)


def paint_chain(view: ChainView, width: int, glyphs: Glyphs) -> list[Row]:
    """The head, the conclusion, then the links, each with its chart.

    Args:
        view: what the page shows.
        width: cells.
        glyphs: the signs to draw with.
    """
    table = chain_table(view, width, glyphs, view.frame)
    painter = TablePainter(table, width, glyphs)
    line, cells = painter.place(len(table.columns) - 1)
    rows = [Row(()), _paint_head(view, line if cells else width, width, glyphs)]
    rows += [painter.row(number) for number in range(len(painter.items))]
    if view.markers and view.frame is not None and cells:
        builder = RowBuilder(width, glyphs).left("    other events", line, "dim")
        rows.append(add_rail(builder, view.markers, view.frame.cells, view.frame.cell, glyphs).row())
        rows.append(paint_marker_legend(view.markers, 4, width, glyphs))
    if view.missing:
        text = f"not logged by this run: {', '.join(view.missing)}"
        rows += [RowBuilder(width, glyphs).add("    ").add(line, "dim").row() for line in wrap(text, width - 5, 3)]
    rows += [text_row(line, width, glyphs, "strong") for line in wrap(view.conclusion, width - 2, 3)]
    return rows


def _paint_head(view: ChainView, line: int, width: int, glyphs: Glyphs) -> Row:
    """What the chain is for, up to where the lines begin."""
    stop = line - (line < width)
    builder = RowBuilder(width, glyphs).add(" ")
    builder.add(_TITLE if len(_TITLE) < stop - builder.column else _SHORT_TITLE, "title").add("  ")
    symptom = f"when {view.symptom}"
    builder.add(symptom if cell_width(symptom) <= stop - builder.column else "", "dim")
    if view.frame is not None and line < width:
        builder.to(line).line(axis_line(view.frame, glyphs, "restart"))
    return builder.row()


def _target(row: _Row) -> Target:
    signal = row.link.signal
    if signal is None:
        return Target(TargetKind.STEP, step=row.link.moved.step)
    return Target(TargetKind.METRIC, signal.key)


def _title(row: _Row) -> tuple[str, str]:
    return Label.of(row.link.title).display, "text" if row.has_moved else "dim"


def _key(row: _Row) -> tuple[str, str]:
    return "" if row.link.signal is None else Label.of(row.link.signal.key).display, "key"


def _levels(rows: Sequence[_Row], glyphs: Glyphs) -> Callable[[_Row], Line]:
    """From where to where each of the rows moved, arrows under one another; where one did not, its usual level."""
    known: dict[int, Line] = {}

    def read() -> None:
        told = [(row, _level(row.link.moved.before, row), _after(row)) for row in rows]
        left = max(_LEVEL, *(len(before) for _, before, _ in told))
        right = max(_LEVEL, *(len(after) for _, _, after in told))
        for row, before, after in told:
            role = "crit" if math.isinf(row.link.moved.score) else "value"
            known[id(row)] = (
                Piece(f"{before:>{left}}", "value" if row.has_moved else "dim"),
                Piece(f" {glyphs.arrow} " if after else "   ", "dim"),
                Piece(f"{after:>{right}}", role if after else "text"),
            )

    def cell(row: _Row) -> Line:
        if not known:
            # Only a wide screen has room for them.
            read()
        return known[id(row)]

    return cell


def _after(row: _Row) -> str:
    if not row.has_moved or row.link.signal is None:
        return ""
    return "NaN/Inf" if math.isinf(row.link.moved.score) else _level(row.link.moved.after, row)


def _distance(row: _Row, glyphs: Glyphs) -> tuple[str, str]:
    far = sigma_text(row.link.moved.score) if row.link.moved.score else ""
    return f"{far}{'sd' if glyphs.is_ascii else 'σ'}" if far else "", "strong" if row.has_moved else "dim"


def _word(row: _Row) -> tuple[str, str]:
    text = moved_text(row.link, is_subject=row.is_subject)
    return text, "note" if row.has_moved else "dim"


def _level(value: float, row: _Row) -> str:
    if math.isnan(value) or row.link.signal is None:
        return ""
    return units.measure(value, row.link.signal.metric.unit)


def moved_text(link: ChainLink, *, is_subject: bool = False) -> str:
    """When it moved against the onset, counted in records; of the symptom itself never that it did not change.

    Args:
        link: the metric.
        is_subject: it is the symptom itself.
    """
    if link.moved.is_drift:
        return "drifting"
    if link.moved.step is None:
        unmoved = "no clear change" if is_subject else "no change"
        return unmoved if link.moved.is_known else "short history"
    records = link.records or 0
    sign = units.MINUS if records < 0 else "+"
    gap = f" ({sign}{units.step(abs(records))})" if records else ""
    if abs(records) <= 1:
        return f"together{gap}"
    return f"{'before' if records < 0 else 'after'}{gap}"
