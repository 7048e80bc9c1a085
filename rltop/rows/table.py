"""One table for everything tabular: columns never collide, numbers are never truncated.

Decides the width of each column, which columns are dropped for lack of room, and what rows and heads link to. The
column defines the text of its cells; `rows.clip_distinct` clips names.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from rltop.rows.glyphs import Glyphs, cell_width
from rltop.rows.rows import Line, Piece, Row, RowBuilder, Target, TargetKind, clip, clip_distinct, wrap
from rltop.structs import NamedTuple

T = TypeVar("T")
Cell = Line | tuple[str, str]
"""A cell: a text and its role, or pieces."""


class Fit(enum.Enum):
    """How a column may shrink."""

    NUMBER = enum.auto()
    """Not at all: it is shown whole or its column is dropped. Right-aligned by default."""
    NAME = enum.auto()
    """Clipped so that the names of the column stay distinguishable."""
    TEXT = enum.auto()
    """Clipped at its end."""
    DRAWN = enum.auto()
    """Drawn to the available width, only when its row is painted: lines, bars, remarks."""


class Column(NamedTuple, Generic[T]):
    """One column.

    Attributes:
        head: its heading; for a drawn column, possibly a function that draws it.
        cell: the content for a row; for a `DRAWN` column it is also passed the width.
        least: minimum width; the column is dropped if it does not fit. Numbers are padded to it, so that a longer one
            moves nothing.
        most: maximum width, 0 for no limit.
        priority: the column with the highest one is dropped first; 0 is never dropped but narrowed instead.
        is_right: right-aligned; None: the default of the kind.
        sort: sort key of the column; None if the table cannot be sorted by it.
        drawn_width: preferred width of a drawn cell; without it the column takes all remaining width.
        shorten: replaces `cut`, given the rows instead of the names.
        cut: clips the names of the column to a width.
        is_steady: takes `least` cells even if all its names or texts are shorter.
        lines: maximum rows that a text wraps into; for the last column only.
        wanted_width: width above `least` for which columns with a higher priority are dropped.
    """

    head: str | Callable[[int], Line]
    cell: Callable[..., Cell]
    kind: Fit = Fit.NUMBER
    least: int = 1
    most: int = 0
    priority: int = 0
    is_right: bool | None = None
    sort: Callable[[T], float | str | None] | None = None
    gap: int = 2
    drawn_width: Callable[[T], int] | None = None
    shorten: Callable[[Sequence[T], int], Sequence[str]] | None = None
    cut: Callable[[Sequence[str], int], Sequence[str]] = clip_distinct
    is_steady: bool = False
    lines: int = 1
    wanted_width: int = 0

    @property
    def is_right_aligned(self) -> bool:
        return self.kind is Fit.NUMBER if self.is_right is None else self.is_right


class Sorting(NamedTuple):
    """The head that a table is sorted by, and whether the largest come first."""

    head: str
    is_falling: bool = True

    @property
    def name(self) -> str:
        """The order as the name of a head's target, which `of` parses."""
        return f"{self.head} {'falling' if self.is_falling else 'rising'}"

    @classmethod
    def of(cls, name: str) -> Self:
        head, _, direction = name.rpartition(" ")
        return cls(head, direction == "falling")


def sort_items(items: Sequence[T], columns: Sequence[Column[T]], sorting: Sorting | None) -> list[T]:
    """Sort the rows of a table.

    Args:
        columns: their heads include that of `sorting`.
        sorting: None, or a head that no column has, leaves the order unchanged.

    Returns:
        The rows in stable order; those without a value in the column come last in either direction.
    """
    by = None if sorting is None else next((one.sort for one in columns if one.head == sorting.head), None)
    if by is None or sorting is None:
        return list(items)
    keyed = [(by(item), item) for item in items]
    known = [(key, item) for key, item in keyed if key is not None and key == key]
    known.sort(key=lambda one: one[0], reverse=sorting.is_falling)
    return [*(item for _, item in known), *(item for key, item in keyed if key is None or key != key)]


def amount(
    head: str,
    value: Callable[[T], float | None],
    say: Callable[[Any], str],
    role: str = "value",
    *,
    least: int = 1,
    priority: int = 0,
    gap: int = 2,
) -> Column[T]:
    """A sortable column of numbers; `say` formats one."""
    return Column(
        head, lambda item: (say(value(item)), role), least=least, priority=priority, gap=gap, sort=value
    )  # fmt: skip


def _order_behind(column: Column[T], sorting: Sorting | None) -> Sorting:
    head = str(column.head)
    if sorting is not None and sorting.head == head:
        return Sorting(head, not sorting.is_falling)
    # Names sort from A to Z; numbers and drawn columns from the largest.
    return Sorting(head, is_falling=column.kind in (Fit.NUMBER, Fit.DRAWN))


def heads_of(rows: Sequence[Row]) -> list[Sorting]:
    """The orders that the heads in some painted rows link to, from left to right."""
    return [Sorting.of(link.target.name) for row in rows for link in row.links if link.target.kind is TargetKind.HEAD]


def next_sorting(heads: Sequence[Sorting], sorting: Sorting | None) -> Sorting | None:
    """The next order in the cycle: each head from left to right, then unsorted (None)."""
    names = [one.head for one in heads]
    if sorting is not None and sorting.head not in names:
        return None
    to = names.index(sorting.head) + 1 if sorting is not None else 0
    return heads[to] if to < len(heads) else None


class ColumnLayout(NamedTuple):
    """The columns that are shown and the width of each, without gaps."""

    columns: tuple[int, ...]
    cells: tuple[int, ...]

    def of(self, number: int) -> int:
        return self.cells[self.columns.index(number)] if number in self.columns else 0


def lay_out(wanted: Sequence[int], columns: Sequence[Column[T]], width: int) -> ColumnLayout:
    """Divide a width among columns.

    Columns are dropped, highest priority first, until the minimum widths of the others fit. Of those with priority 0,
    drawn columns are narrowed first, then texts, then names. Remaining width goes to the columns that want more,
    narrowest first, and finally to drawn ones.

    Args:
        wanted: width of the widest cell or head of each column; a column with 0 has only empty cells and is dropped.
    """
    kept = [one for one in range(len(columns)) if wanted[one]]
    needed = [_needed(each, column) for each, column in zip(wanted, columns, strict=True)]
    cells = [
        max(one, min(each, column.wanted_width)) for one, each, column in zip(needed, wanted, columns, strict=True)
    ]

    spare = width - sum(cells[one] + columns[one].gap for one in kept) + (columns[kept[0]].gap if kept else 0)

    def leave(one: int) -> int:
        """Drop a column; returns the cells it frees, with a gap: its own or, for the first, the next one's."""
        first = kept[0]
        kept.remove(one)
        gap = columns[one].gap if one != first else columns[kept[0]].gap if kept else 0
        return cells[one] + gap

    while spare < 0:
        leaving = max(kept, key=lambda one: (columns[one].priority, one), default=None)
        if leaving is None or not columns[leaving].priority:
            break
        if cells[leaving] > needed[leaving]:
            spare, cells[leaving] = spare + cells[leaving] - needed[leaving], needed[leaving]
        else:
            spare += leave(leaving)
    for kind, floor in _NARROWED if spare < 0 else ():
        for one in [one for one in reversed(kept) if columns[one].kind is kind]:
            if spare < 0:
                # A number keeps all of its cells or none.
                less = cells[one] if floor is None else min(-spare, max(0, cells[one] - floor))
                cells[one], spare = cells[one] - less, spare + less
                spare += 0 if cells[one] else leave(one)
    _share(cells, wanted, columns, kept, spare)
    return ColumnLayout(tuple(kept), tuple(cells[one] for one in kept))


_LEAST_NAME, _LEAST_WRAPPED = 4, 12
_NARROWED = ((Fit.DRAWN, 0), (Fit.TEXT, 0), (Fit.NAME, _LEAST_NAME), (Fit.NUMBER, None), (Fit.NAME, 0))
"""What is narrowed if no more columns can be dropped, in order, and to how many cells."""


def _needed(wanted: int, column: Column[T]) -> int:
    if column.kind is Fit.NUMBER:
        return max(wanted, column.least)
    if column.is_steady or (column.kind is Fit.DRAWN and column.drawn_width is None):
        return column.least
    return min(column.least, wanted)


def _share(
    cells: list[int], wanted: Sequence[int], columns: Sequence[Column[T]], kept: Sequence[int], spare: int
) -> None:
    """Distribute spare cells: to the narrowest columns that want more, then to drawn ones."""
    limit = {one: min(wanted[one], columns[one].most or wanted[one]) for one in kept}
    growing = [
        one
        for one in kept
        if columns[one].kind in (Fit.NAME, Fit.TEXT) or (columns[one].kind is Fit.DRAWN and columns[one].drawn_width)
    ]
    while spare > 0 and (growing := [one for one in growing if cells[one] < limit[one]]):
        lowest = min(cells[one] for one in growing)
        least = [one for one in growing if cells[one] == lowest]
        above = min([limit[one] for one in least] + [cells[one] for one in growing if cells[one] > lowest]) - lowest
        rise = min(above, max(1, spare // len(least)))
        for one in least[:spare]:
            cells[one] += rise
            spare -= rise
    for one in kept:
        if columns[one].kind is Fit.DRAWN and columns[one].drawn_width is None:
            more = max(0, min(spare, columns[one].most - cells[one] if columns[one].most else spare))
            cells[one] += more
            spare -= more


class Table(NamedTuple, Generic[T]):
    """Rows under heads.

    Attributes:
        items: the rows, in order; column widths suit all of them, whichever are painted.
        target: what a row links to; None for nothing.
        sorting: the order shown in the heads; the rows are already sorted.
        is_sortable: sortable heads link to the table sorted by them.
        sign: the sign in front of a row, with its role.
    """

    columns: Sequence[Column[T]]
    items: Sequence[T]
    target: Callable[[T], Target | None] = lambda item: None
    sorting: Sorting | None = None
    is_sortable: bool = False
    sign: Callable[[T], tuple[str, str]] | None = None
    sign_head: str = ""


def sorted_table(
    columns: Sequence[Column[T]],
    items: Sequence[T],
    sorting: Sorting | None,
    target: Callable[[T], Target | None],
    sign: Callable[[T], tuple[str, str]] | None = None,
) -> Table[T]:
    return Table(columns, sort_items(items, columns, sorting), target, sorting, is_sortable=True, sign=sign)


class _Placed(NamedTuple, Generic[T]):
    """A column with its position.

    Attributes:
        names: its clipped names, keyed by the width of the rest of the cell behind them; empty if none is clipped.
    """

    column: Column[T]
    head: str
    start: int
    cells: int
    texts: Sequence[Cell]
    widths: Sequence[int]
    is_right: bool
    names: Mapping[int, Sequence[str]]

    def cell(self, number: int) -> Cell:
        cell = self.texts[number]
        if cell and isinstance(cell[0], str):
            return self.names[0][number] if self.names else clip(cell[0], self.cells), str(cell[1])
        line = _line(cell)
        if self.names and line:
            line = (Piece(self.names[_behind(line)][number], line[0].role), *line[1:])
        return _within(line, self.cells)


class _Measured(NamedTuple):
    """The cells of a column, their widths, and the width it wants; 0 if all are empty."""

    texts: Sequence[Cell] = ()
    widths: Sequence[int] = ()
    wanted: int = 0


def _measure(table: Table[T], heads: Sequence[str], width: int) -> list[_Measured]:
    """Compute the cells of every column, except those that are dropped anyway, which on a narrow screen are most."""
    measured = [_Measured()] * len(table.columns)
    used = 0
    for number in sorted(range(len(table.columns)), key=lambda one: (table.columns[one].priority, one)):
        column, head = table.columns[number], cell_width(heads[number])
        gap = column.gap if number else 0
        if column.priority and column.kind is Fit.NUMBER and used + gap + max(column.least, head) > width:
            break
        found = _measured(column, table.items, head)
        used += gap + _needed(found.wanted, column) if found.wanted else 0
        if column.priority and used > width:
            break
        measured[number] = found
    return measured


def _measured(column: Column[T], items: Sequence[T], head: int) -> _Measured:
    if column.kind is Fit.DRAWN:
        if column.drawn_width is None:
            return _Measured(wanted=max(head, 1))
        wants = max([column.drawn_width(item) for item in items], default=1)
        return _Measured(wanted=max(head, wants) if wants else 0)
    cell = column.cell
    texts = [cell(item) for item in items]
    widths = [_cells(each) for each in texts]
    widest = max(widths, default=1)
    return _Measured(texts, widths, max(head, widest) if widest else 0)


class TablePainter(Generic[T]):
    """A table laid out for a width; heads and rows are painted one at a time, so that other rows can go between."""

    def __init__(self, table: Table[T], width: int, glyphs: Glyphs) -> None:
        self._table, self._width, self._glyphs = table, width, glyphs
        self.items = table.items
        front = max(3, cell_width(table.sign_head) + 2) if table.sign is not None else 1
        heads = [_head(column, table.sorting, glyphs) for column in table.columns]
        measured = _measure(table, heads, width - front)
        wanted = [one.wanted for one in measured]
        layout = lay_out(wanted, table.columns, width - front)
        self._shown: list[_Placed[T]] = []
        start = front
        for place, (one, cells) in enumerate(zip(layout.columns, layout.cells, strict=True)):
            column = table.columns[one]
            start += column.gap if place else 0
            is_cut = column.kind is Fit.NAME and wanted[one] > cells
            texts, widths, _ = measured[one]
            names = self._names(column, texts, cells) if is_cut else {}
            self._shown.append(_Placed(column, heads[one], start, cells, texts, widths, column.is_right_aligned, names))
            start += cells

    def _names(self, column: Column[T], texts: Sequence[Cell], cells: int) -> Mapping[int, Sequence[str]]:
        """The clipped names of a column, keyed by the width of the rest of the cell, which stays whole."""
        if column.shorten is not None:
            return {0: column.shorten(self._table.items, cells)}
        names = [each[0] if each and isinstance(each[0], str) else _text(each[:1]) for each in texts]
        return {rest: column.cut(names, max(1, cells - rest)) for rest in {_behind(each) for each in texts}}

    def place(self, number: int) -> tuple[int, int]:
        column = self._table.columns[number]
        return next(((one.start, one.cells) for one in self._shown if one.column is column), (self._width, 0))

    def head(self) -> Row:
        """The heads; in a sortable table each links to the table sorted by it."""
        table, builder = self._table, RowBuilder(self._width, self._glyphs)
        if table.sign_head:
            builder.add(f" {table.sign_head}", "dim")
        for column, head, start, cells, *_ in self._shown:
            if not isinstance(column.head, str):
                builder.pad_to(start).line(column.head(cells))
                continue
            text = clip(head, cells)
            is_hot = table.is_sortable and column.sort is not None and column.head
            target = Target(TargetKind.HEAD, _order_behind(column, table.sorting).name) if is_hot else None
            builder.pad_to(start + (cells - cell_width(text) if column.is_right_aligned else 0)).add(
                text, "dim", target
            )
        return builder.row()

    def row(self, number: int) -> Row:
        return self._begun(number).row(self._table.target(self._table.items[number]))

    def rows(self, number: int) -> list[Row]:
        """All rows of an item: the last column may wrap into further rows."""
        last = self._shown[-1] if self._shown else None
        if last is None or last.column.lines == 1 or last.widths[number] <= last.cells:
            return [self.row(number)]
        line = _line(last.texts[number])
        indent = last.start + _cells(line[:-1])
        first, *rest = wrap(line[-1].text, max(_LEAST_WRAPPED, self._width - indent - 1), last.column.lines) or [""]
        builder = self._begun(number, last).pad_to(last.start).line(line[:-1]).add(first, line[-1].role)
        rows = [builder.row(self._table.target(self._table.items[number]))]
        return rows + [
            RowBuilder(self._width, self._glyphs).pad_to(indent).add(each, line[-1].role).row() for each in rest
        ]

    def _begun(self, number: int, before: _Placed[T] | None = None) -> RowBuilder:
        table = self._table
        item = table.items[number]
        builder = RowBuilder(self._width, self._glyphs)
        if table.sign is not None:
            sign, role = table.sign(item)
            builder.add(" ").add(f"{sign or ' '} ", role)
        for shown in self._shown:
            if shown is before:
                break
            at, cells = shown.start, shown.cells
            if shown.column.kind is Fit.DRAWN:
                cell = shown.column.cell(item, cells)
            else:
                cell = shown.cell(number) if shown.names or shown.widths[number] > cells else shown.texts[number]
                at += cells - _cells(cell) if shown.is_right else 0
            line = _line(cell)
            if _text(line):
                builder.pad_to(at).line(line)
        return builder


def paint_table(table: Table[T], width: int, glyphs: Glyphs, *, has_head: bool = True) -> list[Row]:
    painter = TablePainter(table, width, glyphs)
    rows = [row for number in range(len(table.items)) for row in painter.rows(number)]
    return [painter.head(), *rows] if has_head else rows


def _head(column: Column[T], sorting: Sorting | None, glyphs: Glyphs) -> str:
    if not isinstance(column.head, str):
        return ""
    if sorting is None or sorting.head != column.head:
        return column.head
    return f"{glyphs.fall if sorting.is_falling else glyphs.rise}{column.head}"


def _line(cell: Cell) -> Line:
    if cell and isinstance(cell[0], str):
        return (Piece(cell[0], cell[1] if isinstance(cell[1], str) else "text"),)
    return cell


def _text(line: Sequence[object]) -> str:
    return "".join(piece[0] for piece in line if isinstance(piece, tuple))


def _cells(cell: Cell) -> int:
    first = cell[0] if cell else ""
    if isinstance(first, str):
        return len(first) if first.isascii() else cell_width(first)
    if len(cell) == 1:
        return cell_width(first[0])
    return sum([cell_width(piece[0]) for piece in cell])


def _behind(cell: Cell) -> int:
    return 0 if len(cell) < 2 or isinstance(cell[0], str) else _cells(_line(cell)[1:])


def _within(line: Line, cells: int) -> Line:
    if _cells(line) <= cells:
        return line
    kept = []
    for text, role in line:
        shown = clip(text, cells)
        kept.append(Piece(shown, role))
        cells -= cell_width(shown)
        if shown != text:
            break
    return tuple(kept)
