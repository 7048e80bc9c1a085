"""Draws the newest steps as bars, one above the other's stages: which took long, and of what.

Owns the picture only; the numbers come from `timings`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from rltop import units
from rltop.derive.middle import median
from rltop.model import Label
from rltop.view.cells import RowBuilder
from rltop.view.glyphs import UNICODE, Glyphs
from rltop.view.lines import Piece, Row, Target, TargetKind
from rltop.view.spark import block_bars
from rltop.view.timings import OTHER, STRIP_STEPS, StripStep, TimingView
from rltop.view.waterfall import NAMED, STRIP_LABEL, stage_fills
from rltop.view.widths import cell_width

_MOST_COLUMNS = 512
_HIGHEST = 3.0
"""Times the median step, where the strip ends if a step takes more than twice as long as that."""


def paint_strip(view: TimingView, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    """The last steps side by side: one row of heights, or stacked stages in several rows."""
    if height <= 0 or len(view.strip) < 2:
        return []
    room = max(8, width - STRIP_LABEL - 2)
    if len(view.top) < 2:
        height = 1
    notes, target = _outlier_notes(view)
    least = min(len(view.strip), room * 2 // 3)
    fitting = [text for text in notes if cell_width(text) + 4 + least <= room and _is_drawn(view, room, text)]
    note = fitting[0] if fitting else ""
    steps = view.strip[-_bars_beside(room, note) :]
    label = f"last {len(steps)} steps"
    grid = _stacked(steps, view, height, glyphs) if height > 1 else [_heights(steps, glyphs)]
    rows = []
    for y, cells in enumerate(grid):
        is_last = y == len(grid) - 1
        builder = RowBuilder(width, glyphs).left(f"   {label}" if is_last else "", STRIP_LABEL + 1, "dim")
        for piece in cells:
            builder.add(piece.text, piece.role)
        if is_last and note and builder.room > 12:
            builder.add("   ").add(note, "note", target)
        if y == 0 and not is_last:
            top = _top(steps)
            cut = ", cut off" if top < max(step.total_s for step in steps) else ""
            builder.add(f"   {glyphs.baseline} {units.duration(top)}{cut}", "dim")
        rows.append(builder.row(Target(TargetKind.TIMING, "", view.step)))
    return rows


def strip_height(view: TimingView, width: int, height: int) -> int:
    """How many rows `paint_strip` makes."""
    if height <= 0 or len(view.strip) < 2:
        return 0
    if height == 1 or len(view.top) < 2:
        return 1
    is_plain = all(0.0 < step.total_s < math.inf for step in view.strip)
    return height if is_plain else len(paint_strip(view, width, height, UNICODE))


def _bars_beside(room: int, note: str) -> int:
    """How many steps have a bar when `note` stands on their right."""
    return min(room - (cell_width(note) + 4 if note else 0), STRIP_STEPS)


def _is_drawn(view: TimingView, room: int, note: str) -> bool:
    """Whether the slowest step has a bar beside the note that speaks of it."""
    return view.outlier is not None and view.outlier[0] in view.strip[-_bars_beside(room, note) :]


def _outlier_notes(view: TimingView) -> tuple[list[str], Target | None]:
    """What there is to say about the slowest step, the long form first."""
    if view.outlier is None:
        return [], None
    step, stage = view.outlier
    why = f": {Label.of(stage)}" if stage and stage != OTHER and len(view.top) > 1 else ""
    where, took = units.step(step.step), units.duration(step.total_s)
    texts = [f"slowest {where}, {took}{why}", f"{where}, {took}{why}", f"{where}{why}", f"{where}, {took}"]
    return texts, Target(TargetKind.STEP, "", step.step)


def _top(steps: Sequence[StripStep]) -> float:
    """The time at the upper edge of the strip; one step that took far longer must not flatten the others."""
    totals = [step.total_s for step in steps]
    usual = median(totals)
    return _HIGHEST * usual if max(totals) > 2 * _HIGHEST * usual > 0 else max(totals)


def _heights(steps: Sequence[StripStep], glyphs: Glyphs) -> list[Piece]:
    return [Piece(block_bars([step.total_s for step in steps], glyphs, _top(steps)), "spark")]


def _stacked(steps: Sequence[StripStep], view: TimingView, height: int, glyphs: Glyphs) -> list[list[Piece]]:
    """Columns of stacked stages, as rows from the top."""
    top = _top(steps)
    if not top > 0 or not math.isfinite(top):
        return [_heights(steps, glyphs)]
    sums: dict[str, float] = {}
    for step in steps:
        for name, seconds in step.parts:
            sums[name] = sums.get(name, 0.0) + seconds
    fills = stage_fills(sorted(sums, key=lambda name: -sums[name]), glyphs)
    grid: list[list[Piece]] = [[] for _ in range(height)]
    known = _columns_known(height, top, tuple(view.colors.items()), tuple(fills.items()), glyphs.name)
    for step in steps:
        column = known.get(step)
        if column is None:
            column = known[step] = _column(step, view, height, top, fills, glyphs)
        for y, piece in enumerate(column):
            row = grid[height - 1 - y]
            if row and row[-1].role == piece.role:
                row[-1] = Piece(row[-1].text + piece.text, piece.role)
            else:
                row.append(piece)
    return grid


@lru_cache(maxsize=8)
def _columns_known(
    height: int, top: float, colors: tuple[tuple[str, int], ...], fills: tuple[tuple[str, str], ...], signs: str
) -> dict[StripStep, list[Piece]]:
    """The columns of steps drawn so far on this scale and in these colours: a record brings one more."""
    return _Columns()


class _Columns(dict[StripStep, list[Piece]]):
    """So many, and not more."""

    def __setitem__(self, step: StripStep, column: list[Piece]) -> None:
        if len(self) >= _MOST_COLUMNS:
            self.clear()
        super().__setitem__(step, column)


def _column(
    step: StripStep, view: TimingView, height: int, top: float, fills: dict[str, str], glyphs: Glyphs
) -> list[Piece]:
    """The cells of one step from the bottom up: each shows the stage that covers its middle."""
    eighths = len(glyphs.columns)
    filled = step.total_s / top * height
    cells = []
    for y in range(height):
        rest = filled - y
        if rest <= 0.5 / eighths:
            cells.append(Piece(" ", "text"))
            continue
        name = _covering(step, (y + min(rest, 1.0) / 2) / height * top)
        role = "other" if name == OTHER else f"stage-{view.colors.get(name, 7) % 8}"
        if rest < 1.0 - 0.5 / eighths:
            cells.append(Piece(glyphs.columns[max(0, min(eighths - 1, round(rest * eighths) - 1))], role))
        else:
            cells.append(Piece(fills.get(name, glyphs.fills[NAMED]), role))
    return cells


def _covering(step: StripStep, seconds: float) -> str:
    """The stage that is under way `seconds` after the start."""
    at = 0.0
    for name, duration in step.parts:
        at += duration
        if seconds < at:
            return name
    return step.parts[-1][0] if step.parts else OTHER
