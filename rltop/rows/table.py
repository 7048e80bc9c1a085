"""One table for everything that is tabular: columns that never collide, numbers that are never cut.

Owns how wide each column is, which columns leave where there is no room, how names
are cut so that they can still be told apart, and what a row and a head lead to. What
a cell says is its column's.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Generic, NamedTuple, TypeVar

from rltop.rows.cells import ELLIPSIS, RowBuilder, clip, clip_middle
from rltop.rows.glyphs import Glyphs
from rltop.rows.rows import Line, Piece, Row, Target
from rltop.rows.widths import cell_width, char_width, plain

T = TypeVar("T")


class Kind(enum.Enum):
    """What may be done to the cells of a column where there is no room for all of it."""

    NUMBER = enum.auto()
    """Nothing: a number is whole or its column is not there. At the right edge, unless said otherwise."""
    NAME = enum.auto()
    """Cut where the names of the column are the same, so that what tells them apart stays."""
    TEXT = enum.auto()
    """Cut at its end."""
    DRAWN = enum.auto()
    """Drawn anew for the cells that there are: bars, lines."""


class Column(NamedTuple, Generic[T]):
    """One column.

    Attributes:
        head: what stands above it.
        cell: what stands in a row: text and role, or pieces; of a `DRAWN` column called with the cells that it has.
        kind: what may be cut.
        least: cells that it needs, else it leaves (a `NUMBER` needs its widest cell).
        most: cells that it takes at the most; 0 is as many as its widest cell.
        priority: the column with the highest one leaves first; 0 never leaves.
        is_right: cells stand at the right edge; None is what the kind says.
        sort: by what the table can be sorted in this column; None where it cannot.
        gap: blanks in front of it.
    """

    head: str
    cell: Callable[..., Line | tuple[str, str]]
    kind: Kind = Kind.NUMBER
    least: int = 1
    most: int = 0
    priority: int = 0
    is_right: bool | None = None
    sort: Callable[[T], float | str | None] | None = None
    gap: int = 2

    @property
    def stands_right(self) -> bool:
        """Do its cells stand at the right edge?"""
        return self.kind is Kind.NUMBER if self.is_right is None else self.is_right


class Sorting(NamedTuple):
    """By which head a table is sorted, and whether the largest come first."""

    head: str
    is_falling: bool = True


def in_order(items: Sequence[T], columns: Sequence[Column[T]], sorting: Sorting | None) -> list[T]:
    """The rows in the order that was asked for.

    Args:
        items: the rows.
        columns: the columns, of which one has the head that `sorting` names.
        sorting: the order; None leaves it, and so does a head that no column has.

    Returns:
        The rows, stable; those without a value in the column stand last either way.
    """
    by = None if sorting is None else next((one.sort for one in columns if one.head == sorting.head), None)
    if by is None or sorting is None:
        return list(items)
    keyed = [(by(item), item) for item in items]
    known = [(key, item) for key, item in keyed if key is not None and key == key]
    known.sort(key=lambda one: one[0], reverse=sorting.is_falling)
    return [*(item for _, item in known), *(item for key, item in keyed if key is None or key != key)]


class Layout(NamedTuple):
    """Which columns there are, and how many cells each has, gap aside."""

    columns: tuple[int, ...]
    cells: tuple[int, ...]


def lay_out(wanted: Sequence[int], columns: Sequence[Column[T]], width: int) -> Layout:
    """Divide a width among columns.

    Columns leave, the highest priority first, until what the others need at the least
    has room. What is then left over goes to those that want more, in the order of
    priority; drawn columns share what nobody else wants.

    Args:
        wanted: cells of the widest cell or head of each column.
        columns: the columns.
        width: cells for all of them, the first gap included.
    """
    kept = list(range(len(columns)))

    def needed(number: int) -> int:
        column = columns[number]
        whole = max(wanted[number], column.least) if column.kind is Kind.NUMBER else column.least
        return whole if not column.most or column.kind is Kind.NUMBER else min(whole, column.most)

    while sum(needed(one) + columns[one].gap for one in kept) > width:
        leaving = max(kept, key=lambda one: (columns[one].priority, one), default=None)
        if leaving is None or not columns[leaving].priority:
            break
        kept.remove(leaving)
    cells = {one: needed(one) for one in kept}
    spare = width - sum(cells[one] + columns[one].gap for one in kept)
    for one in sorted(kept, key=lambda each: (columns[each].kind is Kind.DRAWN, columns[each].priority)):
        column = columns[one]
        wants = column.most or width if column.kind is Kind.DRAWN else min(wanted[one], column.most or width)
        more = max(0, min(spare, wants - cells[one]))
        cells[one] += more
        spare -= more
    return Layout(tuple(kept), tuple(cells[one] for one in kept))


class Table(NamedTuple, Generic[T]):
    """Rows under heads.

    Attributes:
        columns: from left to right.
        items: the rows, in order.
        target: what a row leads to; None where it leads nowhere.
        sorting: the order that the heads show; the rows are in it already.
        head_target: what a head leads to, for those that can be sorted by.
        sign: what stands in front of a row, with its role.
    """

    columns: Sequence[Column[T]]
    items: Sequence[T]
    target: Callable[[T], Target | None] = lambda item: None
    sorting: Sorting | None = None
    head_target: Callable[[str], Target] | None = None
    sign: Callable[[T], tuple[str, str]] | None = None


def paint_table(table: Table[T], width: int, glyphs: Glyphs, *, has_head: bool = True) -> list[Row]:
    """The head and a row for each item.

    Args:
        table: what to paint.
        width: cells; no row is wider.
        glyphs: the signs to draw with.
        has_head: paint the heads too.

    Returns:
        One row, then one for each item.
    """
    front = 3 if table.sign is not None else 1
    texts = [
        [column.cell(item) if column.kind is not Kind.DRAWN else ("", "") for item in table.items]
        for column in table.columns
    ]
    heads = [_head(column, table.sorting, glyphs) for column in table.columns]
    wanted = [
        max([cell_width(head), *(_cells(cell) for cell in cells)]) for head, cells in zip(heads, texts, strict=True)
    ]
    layout = lay_out(wanted, table.columns, width - front + (table.columns[0].gap if table.columns else 0))
    names = {
        one: told_apart([_text(cell) for cell in texts[one]], cells)
        for one, cells in zip(layout.columns, layout.cells, strict=True)
        if table.columns[one].kind is Kind.NAME
    }
    rows = [_paint_head(table, heads, layout, front, width, glyphs)] if has_head else []
    for number, item in enumerate(table.items):
        builder = RowBuilder(width, glyphs)
        sign, role = ("", "text") if table.sign is None else table.sign(item)
        builder.add(" ").add(sign, role).to(front)
        for place, (one, cells) in enumerate(zip(layout.columns, layout.cells, strict=True)):
            column = table.columns[one]
            line = _line(column.cell(item, cells) if column.kind is Kind.DRAWN else texts[one][number])
            if one in names and line:
                line = (Piece(names[one][number], line[0].role),)
            _put(builder, line, cells, column, is_first=not place)
        rows.append(builder.row(table.target(item)))
    return rows


def _put(builder: RowBuilder, line: Line, cells: int, column: Column[T], *, is_first: bool) -> None:
    start = builder.column + (0 if is_first else column.gap)
    used = sum(cell_width(piece.text) for piece in line)
    builder.to(start + max(0, cells - used) if column.stands_right else start)
    room = cells
    for piece in line:
        text = clip(piece.text, room)
        builder.add(text, piece.role)
        room -= cell_width(text)
    builder.to(start + cells)


def _paint_head(table: Table[T], heads: Sequence[str], layout: Layout, front: int, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).to(front)
    for place, (one, cells) in enumerate(zip(layout.columns, layout.cells, strict=True)):
        column = table.columns[one]
        start = builder.column + (column.gap if place else 0)
        text = clip(heads[one], cells)
        builder.to(start + (cells - cell_width(text) if column.stands_right else 0))
        target = table.head_target(column.head) if table.head_target is not None and column.sort is not None else None
        builder.add(text, "dim", target).to(start + cells)
    return builder.row()


def _head(column: Column[T], sorting: Sorting | None, glyphs: Glyphs) -> str:
    if sorting is None or sorting.head != column.head:
        return column.head
    return f"{glyphs.fall if sorting.is_falling else glyphs.rise}{column.head}"


def _line(cell: Line | tuple[str, str]) -> Line:
    if cell and isinstance(cell[0], str):
        return (Piece(cell[0], cell[1] if isinstance(cell[1], str) else "text"),)
    return cell


def _text(cell: Line | tuple[str, str]) -> str:
    return "".join(piece.text for piece in _line(cell))


def _cells(cell: Line | tuple[str, str]) -> int:
    return cell_width(_text(cell))


def told_apart(names: Sequence[str], width: int) -> list[str]:
    """Names in at most `width` cells each, cut where they are the same as their neighbours.

    A name that fits stays whole. Of one that does not, the part from where it differs
    from the name most like it is kept, with as much before and behind as there is
    room for; two names that differ look the same only where `width` is too small for
    the difference itself.

    Args:
        names: the names of a column.
        width: cells for each.

    Returns:
        The names as they are shown, in the same order.
    """
    whole = [plain(name) for name in names]
    if all(cell_width(name) <= width for name in whole):
        return whole
    spans = _differences(set(whole))
    shown = {name: name if cell_width(name) <= width else _kept(name, *spans[name], width) for name in spans}
    seen = Counter(shown.values())
    for cut in (clip, clip_middle):
        # Names that are alike in pairs can still come out the same: then the other end is shown.
        for name, text in shown.items():
            if seen[text] > 1 and cut(name, width) not in seen:
                shown[name] = cut(name, width)
                seen[shown[name]] += 1
    return [shown[name] for name in whole]


def _differences(names: set[str]) -> dict[str, tuple[int, int]]:
    """Where each name differs from those most like it: from its first unlike character to behind its last one."""
    starts = dict.fromkeys(names, 0)
    for first, second in pairwise(sorted(names)):
        same = _common(first, second)
        starts[first], starts[second] = max(starts[first], same), max(starts[second], same)
    ends = dict.fromkeys(names, 0)
    for first, second in pairwise(sorted(names, key=lambda name: name[::-1])):
        same = _common(first[::-1], second[::-1])
        ends[first], ends[second] = max(ends[first], same), max(ends[second], same)
    return {name: (starts[name], max(starts[name] + 1, len(name) - ends[name])) for name in names}


def _common(first: str, second: str) -> int:
    """How many characters the two begin with alike."""
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return number
    return min(len(first), len(second))


def _kept(name: str, start: int, stop: int, width: int) -> str:
    """A name with its characters `start` to `stop` in view, as far as there is room.

    What is left over goes to the end before the beginning: the end of a key tells most.
    """
    if width < 4:
        return clip(name[start:], width)
    if not start:
        head = _begin(name, max(1, min(stop, width - 1), (width - 1) // 3))
        return clip(name, width) if stop > width - 1 else f"{head}{ELLIPSIS}{_end(name, width - 1 - cell_width(head))}"
    tail = name[start:]
    if cell_width(tail) > width - 1:
        return f"{ELLIPSIS}{clip(tail, width - 1)}"
    tail = _end(name, max(cell_width(tail), (width - 1) * 2 // 3))
    return f"{_begin(name, width - 1 - cell_width(tail))}{ELLIPSIS}{tail}"


def _begin(text: str, cells: int) -> str:
    """As many characters from the beginning as `cells` hold."""
    taken = 0
    for number, char in enumerate(text):
        taken += char_width(char)
        if taken > cells:
            return text[:number]
    return text


def _end(text: str, cells: int) -> str:
    """As many characters from the end as `cells` hold."""
    taken = 0
    for number in range(len(text) - 1, -1, -1):
        taken += char_width(text[number])
        if taken > cells:
            return text[number + 1 :]
    return text
