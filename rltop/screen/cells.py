"""Rows as cells: which cells of a row changed, and where its text ends.

Pure; `RowView` asks it so that only changed cells are sent to the terminal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import compress, count
from operator import ne

from rich.cells import cell_len

from rltop.rows.rows import Line
from rltop.rows.widths import cell_width, char_width, is_single

GAP_CELLS = 8
"""Spans closer than this are one: moving the cursor costs about as many bytes."""

Cell = tuple[str, str]

_ROLE_SIGNS: dict[str, str] = {}
"""A character for each role; there are a few dozen of them."""

_NO_CELL: Cell = (" ", "text")


def cells_of(line: Line) -> list[Cell]:
    """One (character, role) per screen cell; the second half of a wide one is empty.

    A combining character belongs to the cell before it.
    """
    cells: list[Cell] = []
    for text, role in line:
        if is_single(text):
            cells += [(character, role) for character in text]
            continue
        for character in text:
            width = char_width(character)
            if width == 0 and cells:
                before, its_role = cells[-1]
                cells[-1] = (before + character, its_role)
            elif width:
                cells.append((character, role))
                cells += [("", role)] * (width - 1)
    return cells


def has_certain_cells(line: Line) -> bool:
    """Whether Rich, which cuts strips, places every character where we do."""
    text = "".join([piece.text for piece in line])
    return is_single(text) or cell_len(text) == cell_width(text)


def changed_spans(old: Line, new: Line, width: int) -> list[tuple[int, int]]:
    """Cell ranges (start, stop exclusive) in which two lines look different.

    A line that is shorter than the other counts as blank beyond its end. A range
    never begins in the middle of a wide character; where nobody can be sure of the
    places (emoji sequences), it is the whole line.
    """
    if old == new:
        return []
    if _has_single_cells(old) and _has_single_cells(new):
        return _joined_spans(_differing_cells(old, new, width))
    if not (has_certain_cells(old) and has_certain_cells(new)):
        return [(0, width)]
    same = _same_pieces(old, new)
    x = sum([cell_width(piece.text) for piece in old[:same]])
    room = max(0, width - x)
    before, after = cells_of(old[same:])[:room], cells_of(new[same:])[:room]
    length = max(len(before), len(after))
    before += [_NO_CELL] * (length - len(before))
    after += [_NO_CELL] * (length - len(after))
    return [(x + start, x + stop) for start, stop in _differing(before, after)]


def _has_single_cells(line: Line) -> bool:
    return is_single("".join([text for text, _ in line]))


def _differing_cells(old: Line, new: Line, width: int) -> Iterator[int]:
    (before, its_roles), (after, roles) = _as_text(old, width), _as_text(new, width)
    if its_roles == roles:
        return compress(count(), map(ne, before, after))
    return compress(count(), map(ne, zip(before, its_roles, strict=True), zip(after, roles, strict=True)))


def _as_text(line: Line, width: int) -> tuple[str, str]:
    """The characters of `width` cells, and a sign for the role of each."""
    text = "".join([text for text, _ in line])
    roles = "".join([_role_sign(role) * len(text) for text, role in line])
    missing = width - len(text)
    return text[:width] + " " * missing, roles[:width] + _role_sign("text") * missing


def _role_sign(role: str) -> str:
    sign = _ROLE_SIGNS.get(role)
    if sign is None:
        sign = _ROLE_SIGNS[role] = chr(len(_ROLE_SIGNS))
    return sign


def _joined_spans(cells: Iterable[int]) -> list[tuple[int, int]]:
    """Single cells as spans; what is nearly together is one."""
    spans: list[tuple[int, int]] = []
    for x in cells:
        if spans and x - spans[-1][1] < GAP_CELLS:
            spans[-1] = (spans[-1][0], x + 1)
        else:
            spans.append((x, x + 1))
    return spans


def _same_pieces(old: Line, new: Line) -> int:
    """How many pieces at the front are the same and surely end where a character ends."""
    same = 0
    for mine, its in zip(old, new, strict=False):
        if mine != its or not is_single(mine.text):
            break
        same += 1
    return max(0, same - 1)


def _differing(before: list[Cell], after: list[Cell]) -> list[tuple[int, int]]:
    """Where two rows of as many cells differ; what is nearly together is one span."""
    length = len(after)
    spans: list[tuple[int, int]] = []
    for x in [x for x, (mine, its) in enumerate(zip(before, after, strict=True)) if mine != its]:
        start = x
        while start and (not before[start][0] or not after[start][0]):
            start -= 1
        stop = x + 1
        while stop < length and (not before[stop][0] or not after[stop][0]):
            stop += 1
        if spans and start - spans[-1][1] < GAP_CELLS:
            spans[-1] = (spans[-1][0], max(stop, spans[-1][1]))
        else:
            spans.append((start, stop))
    return spans
