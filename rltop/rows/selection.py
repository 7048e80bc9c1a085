"""Which of the selectable cells is selected, and how keys move the selection.

Table heads and step bars are for the mouse only and are skipped. Pure; knows rows and targets, not the screen.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, pairwise

from rltop import units
from rltop.model import Label
from rltop.rows.glyphs import cell_width, char_width
from rltop.rows.rows import POINTED, Line, Piece, Row, RowLink, Target, TargetKind
from rltop.structs import NamedTuple


class Spot(NamedTuple):
    """A selectable range of cells and its row."""

    y: int
    link: RowLink

    @property
    def middle(self) -> int:
        """Twice the middle cell, which keeps it an integer."""
        return self.link.start + self.link.stop


class Selection:
    """The selected spot; stays on its target when the rows are repainted."""

    def __init__(self) -> None:
        self._spots: list[Spot] = []
        self._at = 0
        self._aim: int | None = None

    @property
    def spot(self) -> Spot | None:
        return self._spots[self._at] if self._spots else None

    @property
    def target(self) -> Target | None:
        return self.spot.link.target if self.spot else None

    @property
    def first(self) -> Spot | None:
        return self._spots[0] if self._spots else None

    def update(self, rows: Sequence[Row]) -> None:
        """Find the old target among the new rows, else the nearest spot to its old position, one of its kind if any."""
        old = self.spot
        self._spots = [
            Spot(y, link) for y, row in enumerate(rows) for link in row.links if link.target.kind not in POINTED
        ]
        self._at = 0
        if old is not None and self._spots:
            self._at = min(
                range(len(self._spots)),
                key=lambda i: (
                    self._spots[i].link.target != old.link.target,
                    self._spots[i].link.target.kind is not old.link.target.kind,
                    abs(self._spots[i].y - old.y),
                    abs(self._spots[i].middle - old.middle),
                ),
            )

    def select(self, target: Target) -> bool:
        return self._go(lambda spot: spot.link.target == target)

    def at(self, x: int, y: int) -> bool:
        return self._go(lambda spot: spot.y == y and spot.link.start <= x < spot.link.stop)

    def in_row(self, y: int) -> bool:
        return self._go(lambda spot: spot.y == y)

    def _go(self, is_wanted: Callable[[Spot], bool]) -> bool:
        at = next((number for number, spot in enumerate(self._spots) if is_wanted(spot)), None)
        if at is not None:
            self._at, self._aim = at, None
        return at is not None

    def next_row(self, by: int) -> int | None:
        here = self.spot
        if here is None:
            return None
        rows = [spot.y for spot in self._spots if (spot.y - here.y) * by > 0]
        return (min(rows) if by > 0 else max(rows)) if rows else None

    def vertical(self, rows: int) -> bool:
        """Move `rows` down, or up if negative, keeping the original column.

        Moves to the last row if `rows` goes beyond it.
        """
        here = self.spot
        if here is None or not rows:
            return False
        if self._aim is None:
            self._aim = here.middle
        aim, wanted = self._aim, here.y + rows
        beyond = [spot.y for spot in self._spots if (spot.y > here.y if rows > 0 else spot.y < here.y)]
        if not beyond:
            return False
        inside = [y for y in beyond if (y >= wanted if rows > 0 else y <= wanted)]
        y = (min(inside) if rows > 0 else max(inside)) if inside else (max(beyond) if rows > 0 else min(beyond))
        self._at = min(
            (i for i, spot in enumerate(self._spots) if spot.y == y), key=lambda i: abs(self._spots[i].middle - aim)
        )
        return True

    def horizontal(self, by: int) -> bool:
        """Move within the row; returns False at its end, where the caller may scroll or pan."""
        if not self.can_move(by):
            return False
        self._at, self._aim = self._at + by, None
        return True

    def can_move(self, by: int) -> bool:
        here = self.spot
        to = self._at + by
        return here is not None and 0 <= to < len(self._spots) and self._spots[to].y == here.y

    def block(self, by: int, rows: Sequence[Row]) -> bool:
        """Go to the first spot of the next block, wrapping around; returns False if there is only one.

        Blocks are separated by rules, blank rows, and titles at the start of a row.
        """
        here, first = self.spot, dict[int, int]()
        numbers = list(accumulate(_parts_blocks(row) for row in rows))
        for at, spot in enumerate(self._spots):
            first.setdefault(numbers[spot.y], at)
        if here is None or len(first) < 2:
            return False
        blocks = list(first)
        self._at, self._aim = first[blocks[(blocks.index(numbers[here.y]) + by) % len(blocks)]], None
        return True

    def edge(self, is_last: bool) -> bool:
        to = len(self._spots) - 1 if is_last else 0
        self._aim = None
        if not self._spots or to == self._at:
            return False
        self._at = to
        return True


def _parts_blocks(row: Row) -> bool:
    piece = next((piece for piece in row.line if piece.text.strip()), None)
    return piece is None or piece.role in ("rule", "title")


_TARGET_TEXTS = {
    TargetKind.FLOW: "who waits for whom",
    TargetKind.LOG: "the console log",
    TargetKind.STRAGGLERS: "completions of this step, by group",
    TargetKind.RANKS: "all ranks, by stage",
    TargetKind.COMPLETION: "text of this completion",
    TargetKind.COMPARE: "the marked runs beside each other",
    TargetKind.LINE: "step of this line",
    TargetKind.WHERE: "where the job is, and since when",
    TargetKind.TIMING: "timing of {}",
    TargetKind.EVENT: "event of {}",
    TargetKind.VERDICT: "alert {}",
    TargetKind.RULE: "thresholds of {}; mute",
    TargetKind.HEAD: "sorted by {}",
    TargetKind.MEANING: "say that it is {}",
    TargetKind.SECTION: "section {}",
    TargetKind.GROUP: "group {}",
    TargetKind.SYMPTOM: "symptom {}",
}
"""Descriptions of targets that are not simply their name; `{}` is replaced by the name."""


def target_text(target: Target | None) -> str:
    """What Enter would open, in words; names from outside are escaped."""
    if target is None:
        return ""
    if target.kind in (TargetKind.STEP, TargetKind.BAR):
        return f"step {units.step(target.step)}" if target.step is not None else "step"
    if target.kind is TargetKind.TIMING and not target.name:
        return "step timing"
    if target.kind is TargetKind.MEANING and not target.name.strip("*"):
        return "leave it as it was found"
    return _TARGET_TEXTS.get(target.kind, "{}").replace("{}", Label.of(target.name).display, 1)


def highlighted(line: Line, link: RowLink) -> Iterator[tuple[str, str, bool]]:
    """Split a line into (text, role, is in `link`); the link may extend beyond the text."""
    x = 0
    for text, role in line:
        for part, is_lit in _cut(text, link.start - x, link.stop - x):
            yield part, role, is_lit
        x += cell_width(text)
    if x < link.stop:
        yield " " * (link.stop - max(x, link.start)), "text", True


def _cut(text: str, start: int, stop: int) -> list[tuple[str, bool]]:
    if stop <= 0 or not text:
        return [(text, False)]
    parts: list[tuple[str, bool]] = []
    x = 0
    for character in text:
        is_inside = start <= x < stop
        if parts and parts[-1][1] == is_inside:
            parts[-1] = (parts[-1][0] + character, is_inside)
        else:
            parts.append((character, is_inside))
        x += char_width(character)
    return parts


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(map(re.escape, text.split())), re.IGNORECASE)


def matching_rows(rows: Sequence[Row], text: str, more: Callable[[Target], str]) -> list[int]:
    """Indices of the rows that contain `text`; a match across two rows counts for the first. Skips table heads."""
    pattern = _pattern(text)
    texts = [row.text.strip() for row in rows]
    found = []
    for y, row in enumerate(rows):
        if any(link.target.kind is TargetKind.HEAD for link in row.links):
            continue
        match = pattern.search("\n".join(texts[y : y + 2]))
        is_here = match is not None and match.start() < len(texts[y])
        if is_here or any(pattern.search(more(link.target)) for link in row.links):
            found.append(y)
    return found


def with_matches(rows: Sequence[Row], text: str, at: int | None) -> Sequence[Row]:
    """Highlight every match; those in row `at` as the current ones."""
    pattern = _pattern(text)
    return [Row(_marked(row.line, pattern, "cursor" if y == at else "strong"), row.links) for y, row in enumerate(rows)]


def _marked(line: Line, pattern: re.Pattern[str], role: str) -> Line:
    spans = [match.span() for match in pattern.finditer("".join(piece.text for piece in line))]
    if not spans:
        return line
    pieces, x = [], 0
    for piece in line:
        ends = sorted(
            {0, len(piece.text), *(end - x for span in spans for end in span if 0 < end - x < len(piece.text))}
        )
        for start, stop in pairwise(ends):
            is_match = any(first <= x + start and x + stop <= last for first, last in spans)
            pieces.append(Piece(piece.text[start:stop], role if is_match else piece.role))
        x += len(piece.text)
    return tuple(pieces)
