"""Draws the newest steps as bars, one above the other's stages: which took long, and of what.

Owns the picture only; the numbers come from `timings`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from rltop import units
from rltop.model import Label, SpanKind, Unit
from rltop.pages.stages import (
    OTHER,
    STRIP_STEPS,
    StageReading,
    StripStep,
    TimingView,
    outlier_of,
    share_text,
)
from rltop.rows.cells import RowBuilder, clip, clip_distinct
from rltop.rows.glyphs import UNICODE, Glyphs
from rltop.rows.rows import Piece, Row, RowLink, Target, TargetKind
from rltop.rows.sparkline import block_bars
from rltop.rows.widths import cell_width
from rltop.stats.rolling import median

_MOST_COLUMNS = 512
_TOP_LABEL = 11
"""Cells of what stands behind the upper edge of the strip: `╌ 1 h 20 m`."""
_HIGHEST = 3.0
"""Times the median step, where the strip ends if a step takes more than twice as long as that."""


def paint_strip(view: TimingView, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    if height <= 0 or len(view.strip) < 2:
        return []
    if len(view.top) < 2:
        height = 1
    room = max(8, width - STRIP_LABEL - 2 - (_TOP_LABEL if height > 1 else 0))
    least = min(len(view.strip), room * 2 // 3)
    notes, target = _outlier_notes(view.strip[-least:], has_stages=len(view.top) > 1)
    note = next((text for text in notes if cell_width(text) + 4 + least <= room), "")
    steps = view.strip[-(room - (cell_width(note) + 4 if note else 0)) :]
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
            cut = ", clipped" if top < max(step.total_s for step in steps) else ""
            edge = f"  {glyphs.baseline} {units.duration(top)}"
            builder.add(edge + cut if cell_width(edge + cut) <= builder.room else edge, "dim")
        row = builder.row(Target(TargetKind.TIMING, "", view.step, view.stream.raw))
        rows.append(Row(row.line, (*row.links, *_bars(steps))))
    return rows


def _bars(steps: Sequence[StripStep]) -> Iterator[RowLink]:
    for x, step in enumerate(steps, STRIP_LABEL + 1):
        yield RowLink(x, x + 1, Target(TargetKind.BAR, "", step.step))


def strip_height(view: TimingView, width: int, height: int) -> int:
    if height <= 0 or len(view.strip) < 2:
        return 0
    if height == 1 or len(view.top) < 2:
        return 1
    is_plain = all(0.0 < step.total_s < math.inf for step in view.strip)
    return height if is_plain else len(paint_strip(view, width, height, UNICODE))


def _outlier_notes(steps: Sequence[StripStep], *, has_stages: bool) -> tuple[list[str], Target | None]:
    """What there is to say about the slowest of these steps, the long form first."""
    outlier = outlier_of(steps)
    if outlier is None:
        return [], None
    step, stage = outlier
    why = f" ({Label.of(stage)})" if stage and stage != OTHER and has_stages else ""
    number, took = units.step(step.step), units.duration(step.total_s)
    texts = [f"slowest: step {number}, {took}{why}", f"step {number}, {took}{why}", f"step {number}{why}"]
    texts += [f"step {number}, {took}", f"@{number}, {took}"]
    return texts, Target(TargetKind.STEP, "", step.step)


def _top(steps: Sequence[StripStep]) -> float:
    """The time at the upper edge of the strip; one step that took far longer must not flatten the others."""
    totals = [step.total_s for step in steps]
    usual = median(totals)
    return _HIGHEST * usual if max(totals) > 2 * _HIGHEST * usual > 0 else max(totals)


def _heights(steps: Sequence[StripStep], glyphs: Glyphs) -> list[Piece]:
    return [Piece(block_bars([step.total_s for step in steps], glyphs, _top(steps)), "spark")]


def _stacked(steps: Sequence[StripStep], view: TimingView, height: int, glyphs: Glyphs) -> list[list[Piece]]:
    top = _top(steps)
    if not top > 0 or not math.isfinite(top):
        return [_heights(steps, glyphs)]
    fills = stage_fills(view, glyphs)
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
    return _ColumnCache()


class _ColumnCache(dict[StripStep, list[Piece]]):
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
    at = 0.0
    for name, duration in step.parts:
        at += duration
        if seconds < at:
            return name
    return step.parts[-1][0] if step.parts else OTHER


ASSUMED = "order guessed"
MEASURED = "start and end measured"
MEASURED_SHORT = "measured"
BESIDE = "‖"
BESIDE_GENERATION = "generation overlaps"
LONGER = "stages overlap"
LONGER_SHORT = "overlap"

_LEAST_WIDTH = 64
_SHORT_NAME, _NAME, _MIDDLE_NAME, _LONG_NAME = 11, 17, 24, 31
_NUMBERS = 9 + 6
STRIP_LABEL = 17
NAMED = 3


def full_height(view: TimingView, width: int) -> int:
    """Rows that every stage of the step needs with its title; 0 if there is no room for bars."""
    return 0 if width < _LEAST_WIDTH else 1 + len(view.stages)


def least_full_height(view: TimingView, width: int) -> int:
    """Rows below which the stages are better shown as one stacked bar."""
    return 0 if width < _LEAST_WIDTH else 1 + min(len(view.top), 6)


def paint_title(view: TimingView, width: int, glyphs: Glyphs, columns: Sequence[tuple[int, str]] = ()) -> Row:
    builder = RowBuilder(width, glyphs)
    builder.add(" STEP ", "title").add(units.step(view.step), "strong")
    if view.stream.raw:
        builder.add(f" of the {view.stream}", "note")
    builder.add(f"   {units.duration(view.total_s)}", "value").add("" if view.is_measured else " logged", "note")
    stop = min((column for column, _ in columns), default=width)
    # That the order is inferred is said wherever stages are drawn; the comparison takes what that leaves.
    is_said = view.is_assumed or view.is_measured or view.longer is not None
    reserved = min(map(len, _assumptions(view)), default=0) + 5 if columns and is_said and width >= _LEAST_WIDTH else 0
    for text in _comparisons(view):
        if text and builder.column + 3 + cell_width(text) <= stop - reserved:
            builder.add("   ").add(text, "note")
            break
    note = _assumption(view, stop - builder.column - 5)
    if note and columns:
        builder.to(stop - len(note) - 2).add(note, "dim")
    for column, name in columns:
        builder.to(column).add(name, "dim")
    return builder.row(Target(TargetKind.TIMING, "", view.step, view.stream.raw))


def _comparisons(view: TimingView) -> list[str]:
    older = "newest step with timing" if view.is_older else ""
    if view.median_s is None:
        return [older]
    usual = f"median {units.duration(view.median_s)}"
    shorter = _compared(view, view.median_s, usual)
    if abs(view.pace_s - view.median_s) < 0.02 * view.median_s:
        return shorter
    # The header says what a step takes now: that the two rest on different steps must be seen.
    pace = f"last {len(view.paced)}: {units.duration(view.pace_s)}"
    return [*_compared(view, view.median_s, f"{pace}; {usual}")[:1], f"({pace}; {usual})", f"({pace})", *shorter]


def _compared(view: TimingView, median_s: float, usual: str) -> list[str]:
    delta = view.total_s - median_s
    if abs(delta) < 0.02 * median_s:
        return [f"({usual})"]
    moved = units.difference(view.total_s, median_s, Unit.SECONDS)
    grown = view.most_grown
    texts = []
    if delta > 0 and grown is not None and len(view.top) > 1 and (grown.delta_s or 0.0) > 0.3 * delta:
        texts.append(f"({usual}, {moved}: {grown.name} +{units.duration(grown.delta_s or 0.0)})")
    elif delta > 0 and (rare := _rarest_cost(view)) is not None and rare.duration_s > 0.3 * delta:
        texts.append(f"({usual}, {moved}: {rare.name} {units.duration(rare.duration_s)})")
        texts.append(f"({usual}, {moved}: {rare.name})")
    return [*texts, f"({usual}, {moved})", f"({moved})"]


def _rarest_cost(view: TimingView) -> StageReading | None:
    """The largest stage of the step that most steps do not have, such as a checkpoint."""
    seen = [dict(step.parts) for step in view.strip]
    rare = [
        stage
        for stage in view.top
        if stage.kind is not SpanKind.OTHER and 2 * sum(stage.name.raw in parts for parts in seen) < len(seen)
    ]
    return max(rare, key=lambda stage: stage.duration_s, default=None)


def _assumption(view: TimingView, room: int) -> str:
    return next((text for text in _assumptions(view) if len(text) <= room), "")


def _assumptions(view: TimingView) -> list[str]:
    if view.longer is not None:
        texts = [LONGER, LONGER_SHORT]
    elif view.is_measured:
        texts = [f"{MEASURED}, some overlap", MEASURED] if view.is_overlapping else [MEASURED]
        texts.append(MEASURED_SHORT)
    elif view.is_assumed:
        texts = [f"stages overlap, {ASSUMED}", ASSUMED] if view.is_overlapping else [ASSUMED]
    elif view.is_overlapping:
        texts = ["stages overlap: shares do not add up", "stages overlap"]
    else:
        texts = []
    if view.is_async and not view.is_overlapping:
        # Both long and short: what is dropped first is how well the positions are known.
        texts = [*(f"{BESIDE_GENERATION}, {text}" for text in texts), BESIDE_GENERATION, *texts]
    return texts


def paint_stages(view: TimingView, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    if height <= 0:
        return []
    stages, left_out = _chosen(view, height - 1)
    has_tokens = width >= _LEAST_WIDTH and any(stage.ms_per_token is not None for stage in stages)
    has_delta = width >= 100 and any(stage.median_s is not None for stage in stages)
    right = (10 if has_delta else 0) + (10 if has_tokens else 0)
    bar_at = bars_at(stages, width)
    name = bar_at - 2 - 2 - _NUMBERS - 2
    bar_width = max(1, width - bar_at - right - 1)
    columns = []
    if has_delta:
        columns.append((bar_at + bar_width + 1, "vs median"))
    if has_tokens:
        columns.append((bar_at + bar_width + 1 + (10 if has_delta else 0) + 1, "ms/token"))
    rows = [paint_title(view, width, glyphs, columns or [(width, "")])]
    axis = max([view.total_s, *(s.start_s + s.duration_s for s in view.stages if not s.is_outside)])
    fills = _fills_within(view, glyphs)
    for stage, shown in zip(stages, _names(stages, name - 1), strict=True):
        builder = RowBuilder(width, glyphs)
        _paint_name(builder, stage, shown, name, glyphs)
        if stage.is_outside:
            builder.to(bar_at).add(clip("between steps", bar_width), "dim")
        else:
            _paint_bar(builder.to(bar_at), stage, axis, bar_width, fills[stage], glyphs)
        builder.to(bar_at + bar_width)
        if has_delta:
            text = "" if stage.median_s is None else units.difference(stage.duration_s, stage.median_s, Unit.SECONDS)
            is_still = stage.delta_s is not None and abs(stage.delta_s) < 0.02 * max(view.total_s, 1e-9)
            builder.right("" if is_still else text, 10, "warn" if stage.is_risen else "dim")
        if has_tokens:
            builder.right("" if stage.ms_per_token is None else units.number(stage.ms_per_token), 10, "dim")
        rows.append(builder.row(_target(stage, view)))
    if left_out:
        rows.append(_paint_left_out(left_out, view, width, glyphs))
    return rows


def bars_at(stages: Sequence[StageReading], width: int) -> int:
    longest = max((2 * stage.depth + 3 + cell_width(stage.name.display) for stage in stages), default=_NAME)
    most = _LONG_NAME if width >= 110 else _MIDDLE_NAME if width >= 76 else _NAME
    name = min(max(_NAME, longest), most) if width >= 56 else _SHORT_NAME
    return 2 + name + 2 + _NUMBERS + 2


def _target(stage: StageReading, view: TimingView) -> Target:
    return Target(TargetKind.TIMING, stage.key, view.step, view.stream.raw)


def _chosen(view: TimingView, room: int) -> tuple[list[StageReading], list[StageReading]]:
    """Which stages are drawn in `room` rows, in order, and which are summed up in the last one."""
    stages = list(view.stages)
    if len(stages) <= room:
        return stages, []
    outer = [stage for stage in stages if stage.depth == 0]
    if len(outer) > room:
        kept = sorted(outer, key=lambda stage: -stage.duration_s)[: max(0, room - 1)]
        ids = {id(stage) for stage in kept}
        return [stage for stage in outer if id(stage) in ids], [stage for stage in outer if id(stage) not in ids]
    inner = sorted((stage for stage in stages if stage.depth), key=lambda stage: (stage.depth, -stage.duration_s))
    kept_inner = inner[: room - len(outer)]
    # By identity: comparing two stages field by field, for each pair of them, took longer than painting.
    kept_ids = {id(stage) for stage in kept_inner}
    return [stage for stage in stages if stage.depth == 0 or id(stage) in kept_ids], []


def _names(stages: Sequence[StageReading], cells: int) -> list[str]:
    """The names of stages, indented by depth; what tells two of one depth apart survives where they are cut."""
    before = ["  " * min(one.depth, 3) + (f"{BESIDE} " if one.kind is SpanKind.OVERLAPPING else "") for one in stages]
    fitted = {}
    for indent in set(before):
        names = [one.name.display for one, its in zip(stages, before, strict=True) if its == indent]
        fitted[indent] = iter(clip_distinct(names, max(1, cells - cell_width(indent))))
    return [indent + next(fitted[indent]) for indent in before]


def _paint_name(builder: RowBuilder, stage: StageReading, name: str, width: int, glyphs: Glyphs) -> None:
    role = "dim" if stage.kind is SpanKind.OTHER or stage.depth or stage.is_outside else "text"
    builder.add("   ").left(name, width - 1, role).add(" ")
    builder.add(glyphs.rise if stage.is_risen else " ", "warn")
    builder.right(units.duration(stage.duration_s), 9, "value" if not stage.depth else "dim")
    builder.right("" if stage.is_outside else share_text(stage.share), 6, "unit")


def _fills_within(view: TimingView, glyphs: Glyphs) -> dict[StageReading, str]:
    fills, found, own = stage_fills(view, glyphs), dict[StageReading, str](), glyphs.bar
    for stage in view.stages:
        own = own if stage.depth else fills[_name(stage)]
        found[stage] = own
    return found


def _paint_bar(builder: RowBuilder, stage: StageReading, axis: float, width: int, fill: str, glyphs: Glyphs) -> None:
    if axis <= 0:
        return
    if stage.parts:
        _paint_parts(builder, stage, axis, width, fill, glyphs)
        return
    start = min(width - 1, max(0, int(stage.start_s / axis * width + 1e-6)))
    stop = min(float(width), (stage.start_s + stage.duration_s) / axis * width)
    length = max(0.0, stop - start)
    whole = int(length + 1e-6)
    ends = glyphs.bar_ends
    part = int((length - whole) * len(ends) + 0.5)
    if part >= len(ends):
        whole, part = whole + 1, 0
    text = fill * whole + (ends[part - 1] if part else "")
    if not text and stage.duration_s > 0:
        text = ends[0]
    builder.add(" " * start).add(text[: width - start], stage.role)


def _paint_parts(builder: RowBuilder, stage: StageReading, axis: float, width: int, fill: str, glyphs: Glyphs) -> None:
    """A bar with its gaps: a cell is filled where the stage runs for half of it, and marked where it runs at all."""
    covered = [0.0] * width
    for start_s, end_s in stage.parts:
        start, stop = max(0.0, start_s / axis * width), min(float(width), end_s / axis * width)
        for cell in range(int(start), min(width, int(stop) + 1)):
            covered[cell] += max(0.0, min(stop, cell + 1.0) - max(start, float(cell)))
    if stage.duration_s > 0 and not any(covered):
        covered[min(width - 1, int(stage.start_s / axis * width))] = 1.0
    little = glyphs.bar_ends[0]
    text = "".join(fill if part >= 0.5 else little if part > 0.0 else " " for part in covered).rstrip()
    builder.add(text, stage.role)


def _paint_left_out(stages: Sequence[StageReading], view: TimingView, width: int, glyphs: Glyphs) -> Row:
    total = sum(stage.duration_s for stage in stages)
    builder = RowBuilder(width, glyphs).add("   ").left(f"{len(stages)} more", _NAME, "dim").add(" ")
    builder.right(units.duration(total), 9, "dim")
    builder.right(share_text(total / view.total_s) if view.total_s > 0 else "", 6, "dim")
    return builder.row(Target(TargetKind.TIMING, "", view.step, view.stream.raw))


def paint_stacked(view: TimingView, width: int, glyphs: Glyphs) -> list[Row]:
    fills = stage_fills(view, glyphs)
    bar = RowBuilder(width, glyphs).add(" ")
    room = width - 2
    at = 0.0
    total = sum(stage.duration_s for stage in view.top)
    for stage in view.top:
        begin = round(at / total * room) if total > 0 else 0
        at += stage.duration_s
        stop = round(at / total * room) if total > 0 else 0
        bar.add(fills[_name(stage)] * (stop - begin), stage.role)
    target = Target(TargetKind.TIMING, "", view.step, view.stream.raw)
    return [paint_title(view, width, glyphs), bar.row(target), paint_legend(view, width, glyphs)]


def stage_fills(view: TimingView, glyphs: Glyphs) -> dict[str, str]:
    """A fill for each stage, the same wherever it is drawn, so that stages differ without colour too.

    The stages that took most of the last steps have one of their own; the others share one.
    """
    sums: dict[str, float] = {}
    for step in view.strip[-STRIP_STEPS:]:
        for name, seconds in step.parts:
            sums[name] = sums.get(name, 0.0) + seconds
    ranked = sorted(sums, key=lambda name: -sums[name])
    fills = {name: glyphs.fills[min(rank, NAMED)] for rank, name in enumerate(ranked)}
    return {**{_name(stage): glyphs.fills[NAMED] for stage in view.stages if not stage.depth}, **fills}


def _name(stage: StageReading) -> str:
    return OTHER if stage.kind is SpanKind.OTHER else stage.name.raw


def paint_legend(view: TimingView, width: int, glyphs: Glyphs) -> Row:
    ranked = sorted(view.top, key=lambda stage: -stage.duration_s)
    fills = stage_fills(view, glyphs)
    builder = RowBuilder(width, glyphs).add(" ")
    shown = 0
    for stage in ranked[:NAMED]:
        name = clip(stage.name.display, 16)
        text = f" {name} {units.duration(stage.duration_s)} {share_text(stage.share)}"
        if builder.room < cell_width(text) + 3 and shown:
            text = f" {name} {share_text(stage.share)}"
            if builder.room < cell_width(text) + 3:
                break
        target = _target(stage, view)
        builder.add("  " if shown else "").add(fills[_name(stage)], stage.role, target).add(text, "text")
        if stage.is_risen:
            builder.add(f" {glyphs.rise}", "warn")
        shown += 1
    rest = len(ranked) - shown
    if rest > 0 and builder.room > 12:
        builder.add(f"  {fills[_name(ranked[shown])]} {rest} more", "dim")
    note = _assumption(view, builder.room - 3)
    if note:
        builder.add(f"  {note}", "dim")
    return builder.row()


def paint_line(view: TimingView, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs)
    builder.add(" STEP ", "title").add(units.step(view.step), "strong")
    if view.stream.raw:
        builder.add(f" of the {view.stream}", "note")
    builder.add(f"  {units.duration(view.total_s)}", "value").add("" if view.is_measured else " logged", "note")
    largest = view.largest
    if largest is not None and len(view.top) > 1:
        builder.add(f"  {largest.name} {share_text(largest.share)}", "note")
    for text in _comparisons(view):
        if text and builder.room >= cell_width(text) + 2:
            builder.add("  ").add(text, "dim")
            break
    return builder.row(Target(TargetKind.TIMING, "", view.step, view.stream.raw))
