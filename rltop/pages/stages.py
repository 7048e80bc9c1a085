"""The timing trees of the newest steps, from recorded spans if the run has them, else from its rows; drawn as bars."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType

from rltop import units
from rltop.model import Label, Span, SpanKind, StepTiming, Unit
from rltop.rows.glyphs import UNICODE, Glyphs, cell_width, glyph_set
from rltop.rows.rows import Piece, Row, RowBuilder, RowLink, Target, TargetKind, clip, clip_distinct
from rltop.rows.sparkline import block_bars
from rltop.run.snapshot import Snapshot
from rltop.stats.rolling import median_of
from rltop.stats.timing import OVERLAP
from rltop.store.stream import Stream
from rltop.structs import NamedTuple

HISTORY_STEPS = 200
"""Number of steps that medians are taken over, on every page."""

PACE_STEPS = 50
"""Number of the newest ones that give the current pace, which the header shows."""
_MOST_SHARE = 10
_NEWEST, _STRAYS, _OTHER = 9, 1, 0.1
"""A change of pace: at least `_NEWEST` steps, all but `_STRAYS` in nine of them beyond a quartile of the steps before,
with medians that differ by more than `_OTHER`. Random variation does this about once in ten thousand times."""

STRIP_STEPS = 60
"""Number of steps in the strip of a report, and of those that rank stages by size."""

_MIN_FOR_MEDIAN = 5
_RISE_FACTOR = 1.5
_RISE_SHARE = 0.02
_OUTLIER = 1.5
OTHER = "other"
_NO_COLOR = 7
"""The colour of spans that belong to no stage of the step."""


def at_present_pace(values: Sequence[float]) -> Sequence[float]:
    """The step times since the pace last changed; all of them if it has not.

    A median over all would show the old pace until half of the steps are newer.
    """
    if len(values) <= _NEWEST or abs(median_of(values[-_NEWEST:]) / (median_of(values) or math.inf) - 1.0) <= _OTHER:
        return values
    for number in range(_NEWEST, len(values)):
        before, after = sorted(values[:-number]), values[-number:]
        low, usual, high = (before[len(before) * part // 4] for part in (1, 2, 3))
        strays = min(sum(value <= high for value in after), sum(value >= low for value in after))
        if strays <= _STRAYS * number // _NEWEST and abs(median_of(after) - usual) > _OTHER * usual:
            return after
    return values


class StageReading(NamedTuple):
    """One span of the step, compared with its median.

    Attributes:
        key: the trainer's key; empty for time that no stage accounts for.
        depth: 0 for a stage, 1 and more for spans inside one.
        median_s: median of the same span over the last steps, or None.
        color: index of the stage among the stages of the run.
        parts: intervals (start, end) in seconds from the start of the step, if measured.
    """

    name: Label
    key: str
    depth: int
    kind: SpanKind
    start_s: float
    duration_s: float
    share: float
    median_s: float | None
    ms_per_token: float | None
    is_outside: bool
    color: int
    parts: tuple[tuple[float, float], ...] = ()

    @property
    def delta_s(self) -> float | None:
        return None if self.median_s is None else self.duration_s - self.median_s

    @property
    def is_risen(self) -> bool:
        """Well above its median, by enough of the step to matter."""
        if self.median_s is None or self.share <= 0:
            return False
        step_s = self.duration_s / self.share
        return self.duration_s > _RISE_FACTOR * self.median_s and self.duration_s - self.median_s > _RISE_SHARE * step_s

    @property
    def is_longer(self) -> bool:
        """Took longer than the step, beyond rounding, so it cannot have run within it."""
        return not self.is_outside and self.share > OVERLAP

    @property
    def role(self) -> str:
        return "other" if self.kind is SpanKind.OTHER else f"stage-{self.color % 8}"


def share_text(share: float) -> str:
    """A stage's share of the step, capped at >10×."""
    return units.share(share) if share < _MOST_SHARE else f">{_MOST_SHARE}×"


class StripStep(NamedTuple):
    """One step of the strip, with its stages; `is_whole`: no stage is logged, so the only part is the step itself."""

    step: int
    total_s: float
    parts: tuple[tuple[str, float], ...]
    is_whole: bool = False


class TimingView(NamedTuple):
    """The timing of one step.

    Attributes:
        median_s: median of the last steps, or None while there are too few.
        is_assumed: positions are guessed from the order of stages, not logged.
        stream: the stream that measures the step; empty for the main one.
        is_overlapping: stages run concurrently, so shares do not add up.
        strip: the last steps, oldest first, ending with this step.
        is_older: the newest step has no timing; this is an earlier one.
        ranked: names of the stages, by their time over the strip, largest first.
    """

    step: int
    total_s: float
    median_s: float | None
    stages: tuple[StageReading, ...]
    is_assumed: bool
    is_overlapping: bool
    is_async: bool
    strip: tuple[StripStep, ...]
    colors: Mapping[str, int] = MappingProxyType({})
    is_older: bool = False
    is_measured: bool = False
    stream: Label = Label("", "")
    ranked: Sequence[str] = ()

    @property
    def target(self) -> Target:
        return Target(TargetKind.TIMING, "", self.step, self.stream.raw)

    @property
    def pace_s(self) -> float:
        return median_of(at_present_pace([step.total_s for step in self.strip[-PACE_STEPS:]]))

    @property
    def top(self) -> tuple[StageReading, ...]:
        return tuple(stage for stage in self.stages if stage.depth == 0 and not stage.is_outside)

    @property
    def largest(self) -> StageReading | None:
        """The stage that takes most of the step, not counting unexplained time."""
        named = [stage for stage in self.top if stage.kind is not SpanKind.OTHER]
        return max(named, key=lambda stage: stage.duration_s, default=None)

    @property
    def longer(self) -> StageReading | None:
        largest = self.largest
        return largest if largest is not None and largest.is_longer else None

    @property
    def most_grown(self) -> StageReading | None:
        """The stage that exceeds its median by the most time."""
        grown = [stage for stage in self.top if (stage.delta_s or 0.0) > 0]
        return max(grown, key=lambda stage: stage.delta_s or 0.0, default=None)


def build_timing(snapshot: Snapshot, *, count: int = HISTORY_STEPS, inner: int | None = None) -> TimingView | None:
    """The timing of a step, compared with the steps before it.

    Args:
        inner: most durations kept that belong to no stage, longest first, because a trainer may log hundreds; None
        keeps all.

    Returns:
        None if the trainer logs no timing, or not on any step still held.
    """
    measured = snapshot.measured
    at = measured.at_step
    history = measured.timing.history(count, inner)
    is_measured = bool(history) and history[-1].step == at and measured.part.known.pipeline.spans is not None
    if not is_measured and (not history or history[-1].step != at):
        exact = measured.timing.exact(inner)
        if exact is not None:
            history = [timing for timing in history if timing.step < exact.step] + [exact]
    if not history:
        return None
    timing = history[-1]
    known = [_known(one) for one in history]
    colors = _colors(known)
    medians = _medians(measured.stream, known)
    strip = tuple(one.strip for one in known)
    totals = [one.total_s for one in history]
    return TimingView(
        step=timing.step,
        total_s=timing.total_s,
        median_s=median_of(totals) if len(totals) >= _MIN_FOR_MEDIAN else None,
        stages=tuple(_stage(*place, timing.total_s, medians, colors) for place in _flat(timing)),
        is_assumed=any(not span.is_start_logged for span in timing.spans if span.kind is not SpanKind.OTHER),
        is_overlapping=timing.is_overlapping,
        is_async=measured.identity is not None and measured.identity.traits.is_async,
        strip=strip,
        colors=colors,
        is_older=timing.step != measured.step,
        is_measured=any(span.parts for span in timing.spans),
        stream=Label.of(measured.role),
        ranked=_ranked(strip),
    )


def _ranked(strip: Sequence[StripStep]) -> list[str]:
    sums: dict[str, float] = {}
    for step in strip[-STRIP_STEPS:]:
        for name, seconds in step.parts:
            sums[name] = sums.get(name, 0.0) + seconds
    return sorted(sums, key=lambda name: -sums[name])


def _flat(timing: StepTiming) -> list[tuple[Span, Span, int, bool]]:
    """Every span with its top-level span, depth and whether it is between steps; parents first, between steps last."""
    found: list[tuple[Span, Span, int, bool]] = []

    def walk(top: Span, span: Span, depth: int, is_outside: bool) -> None:
        found.append((span, top, depth, is_outside))
        for child in span.children:
            walk(top, child, depth + 1, is_outside)

    for span in timing.spans:
        walk(span, span, 0, False)
    for span in timing.outside:
        walk(span, span, 0, True)
    return found


def _span_id(span: Span) -> str:
    return span.key or (OTHER if span.kind is SpanKind.OTHER else span.name)


def _medians(stream: Stream, history: Sequence[_Known]) -> dict[str, float]:
    """Median duration of each span of the newest step, by `_span_id`.

    Only steps with the span count, so that a rare one, such as a checkpoint, is not compared with its absence.
    """
    each = [known.durations for known in history]
    unclaimed = {
        span.key
        for span, top, depth, _ in _flat(history[-1].timing)
        if depth and top.kind is SpanKind.OTHER and not span.is_start_logged
    }
    held = stream.steps()
    first = bisect_left(held, history[0].timing.step)
    times = None if len(held) - first == len(history) else {known.timing.step for known in history}
    medians: dict[str, float] = {}
    for name in each[-1]:
        values = _logged(stream, name, held, first, times) if name in unclaimed else _column(each, name)
        if len(values) >= _MIN_FOR_MEDIAN:
            medians[name] = median_of(values)
    return medians


def _column(each: Sequence[Mapping[str, float]], name: str) -> list[float]:
    try:
        return list(map(itemgetter(name), each))
    except KeyError:
        return [durations[name] for durations in each if name in durations]


def _logged(stream: Stream, key: str, held: Sequence[int], first: int, only: Set[int] | None) -> list[float]:
    """A duration from its column, on the steps from `held[first]` on, limited to the steps `only` if given.

    Older trees omit durations that belong to no stage.
    """
    series = stream.series(key, last=len(held) - first)
    if only is None:
        total = sum(series.values)
        if total == total and min(series.values, default=0.0) >= 0.0:
            return list(series.values)
        return [value for value in series.values if value >= 0.0]
    return [value for step, value in zip(series.steps, series.values, strict=True) if value >= 0.0 and step in only]


class _Known(NamedTuple):
    """Values of a timing tree that every repaint needs, computed once because trees do not change.

    Attributes:
        timing: the tree; kept alive so that its `id` is not reused.
        names: names of the step's stages, in the order of execution.
    """

    timing: StepTiming
    durations: Mapping[str, float]
    names: tuple[str, ...]
    strip: StripStep


_MAX_KNOWN = 5 * HISTORY_STEPS
_KNOWN: dict[int, _Known] = {}


def _known(timing: StepTiming) -> _Known:
    known = _KNOWN.get(id(timing))
    if known is None:
        if len(_KNOWN) >= _MAX_KNOWN:
            _KNOWN.clear()
        durations = {_span_id(span): span.duration_s for span, _, _, _ in _flat(timing)}
        names = tuple(span.name if span.kind is not SpanKind.OTHER else "" for span in timing.spans)
        known = _KNOWN[id(timing)] = _Known(timing, durations, names, _strip_step(timing))
    return known


def _colors(history: Sequence[_Known]) -> dict[str, int]:
    times: dict[str, int] = {}
    order: dict[str, float] = {}
    # Most steps have the same stages, so equal ones are counted together.
    for names, count in Counter(known.names for known in history).items():
        for at, name in enumerate(names):
            if name:
                times[name] = times.get(name, 0) + count
                order.setdefault(name, at)
    often = len(history) / 2
    ranked = sorted(order, key=lambda name: (times[name] < often, order[name], name))
    return {name: i for i, name in enumerate(ranked)}


def _stage(
    span: Span,
    top: Span,
    depth: int,
    is_outside: bool,
    total_s: float,
    medians: Mapping[str, float],
    colors: Mapping[str, int],
) -> StageReading:
    color_of_top = _NO_COLOR if is_outside else colors.get(top.name, _NO_COLOR)
    return StageReading(
        name=Label.of(span.name),
        key=span.key,
        depth=depth,
        kind=span.kind,
        start_s=span.start_s,
        duration_s=span.duration_s,
        share=span.duration_s / total_s if total_s > 0 else 0.0,
        median_s=medians.get(_span_id(span)),
        ms_per_token=span.ms_per_token,
        is_outside=is_outside,
        color=colors.get(span.name, color_of_top),
        parts=span.parts,
    )


def _strip_step(timing: StepTiming) -> StripStep:
    parts = [(span.name if span.kind is not SpanKind.OTHER else OTHER, span.duration_s) for span in timing.spans]
    only = timing.spans[0] if len(timing.spans) == 1 else None
    # A real stage that fills the step would have a key of its own.
    is_whole = only is not None and only.is_start_logged and not only.parts and not only.children
    return StripStep(timing.step, timing.total_s, tuple(parts), is_whole)


def outlier_of(strip: Sequence[StripStep]) -> tuple[StripStep, str] | None:
    """The slowest of some steps, if it stands out, and the stage that exceeds its median the most."""
    if len(strip) < _MIN_FOR_MEDIAN:
        return None
    usual = median_of(step.total_s for step in strip)
    worst = max(strip, key=lambda step: step.total_s)
    if not worst.total_s > _OUTLIER * usual or not math.isfinite(worst.total_s):
        return None
    parts = [dict(step.parts) for step in strip]
    typical = {name: median_of(one.get(name, 0.0) for one in parts) for name, _ in worst.parts}
    grown = max(worst.parts, key=lambda part: part[1] - typical[part[0]], default=("", 0.0))
    return worst, grown[0]


_TOP_LABEL = 11
"""Cells of the label of the strip's upper edge: `╌ 1 h 20 m`."""
_HIGHEST = 3.0
"""Upper edge of the strip in median steps, if a step takes more than twice as long as that."""


def paint_strip(view: TimingView, width: int, height: int, glyphs: Glyphs) -> list[Row]:
    if height <= 0 or len(view.strip) < 2:
        return []
    if len(view.top) < 2:
        height = 1
    room = max(8, width - STRIP_LABEL - 2 - (_TOP_LABEL if height > 1 else 0))
    least = min(len(view.strip), room // 2)
    notes, target = _outlier_notes(view.strip[-least:], has_stages=len(view.top) > 1)
    note = next((text for text in notes if cell_width(text) + 4 + least <= room), "")
    steps = view.strip[-(room - (cell_width(note) + 4 if note else 0)) :]
    label = f"last {len(steps)} steps"
    grid = _stacked(steps, view, height, glyphs) if height > 1 else [_heights(steps, glyphs)]
    bars = [RowLink(x, x + 1, Target(TargetKind.BAR, "", step.step)) for x, step in enumerate(steps, STRIP_LABEL + 1)]
    rows = []
    for y, cells in enumerate(grid):
        is_last = y == len(grid) - 1
        builder = RowBuilder(width, glyphs).left(f"   {label}" if is_last else "", STRIP_LABEL + 1, "dim")
        builder.line(cells)
        if is_last and note and builder.room > 12:
            builder.add("   ").add(note, "note", target)
        if y == 0 and not is_last:
            top = _top(steps)
            cut = ", clipped" if top < max(step.total_s for step in steps) else ""
            edge = f"  {glyphs.baseline} {units.duration(top)}"
            builder.add(edge + cut if cell_width(edge + cut) <= builder.room else edge, "dim")
        row = builder.row(view.target)
        rows.append(Row(row.line, (*row.links, *bars)))
    return rows


def strip_height(view: TimingView, width: int, height: int) -> int:
    if height <= 0 or len(view.strip) < 2:
        return 0
    if height == 1 or len(view.top) < 2:
        return 1
    is_plain = all(0.0 < step.total_s < math.inf for step in view.strip)
    return height if is_plain else len(paint_strip(view, width, height, UNICODE))


def _outlier_notes(steps: Sequence[StripStep], *, has_stages: bool) -> tuple[list[str], Target | None]:
    outlier = outlier_of(steps)
    if outlier is None:
        return [], None
    step, stage = outlier
    why = f" ({Label.of(stage)})" if stage and stage != OTHER and has_stages else ""
    number, took = units.step(step.step), units.duration(step.total_s)
    texts = [f"slowest: step {number}{said}" for said in (f", {took}{why}", why, f", {took}", "")]
    return texts, Target(TargetKind.STEP, "", step.step)


def _top(steps: Sequence[StripStep]) -> float:
    """The time at the upper edge of the strip; a single very slow step must not flatten the others."""
    totals = [step.total_s for step in steps]
    usual = median_of(totals)
    return _HIGHEST * usual if max(totals) > 2 * _HIGHEST * usual > 0 else max(totals)


def _heights(steps: Sequence[StripStep], glyphs: Glyphs) -> list[Piece]:
    return [Piece(block_bars([step.total_s for step in steps], glyphs, _top(steps)), "spark")]


def _stacked(steps: Sequence[StripStep], view: TimingView, height: int, glyphs: Glyphs) -> list[list[Piece]]:
    top = _top(steps)
    if not top > 0 or not math.isfinite(top):
        return [_heights(steps, glyphs)]
    looks = tuple(view.colors.items()), tuple(stage_fills(view, glyphs).items())
    grid: list[list[Piece]] = [[] for _ in range(height)]
    for step in steps:
        for y, piece in enumerate(_bar_column(step, height, top, *looks, glyphs.is_ascii)):
            row = grid[height - 1 - y]
            if row and row[-1].role == piece.role:
                row[-1] = Piece(row[-1].text + piece.text, piece.role)
            else:
                row.append(piece)
    return grid


@lru_cache(maxsize=512)
def _bar_column(
    step: StripStep,
    height: int,
    top: float,
    of_colors: tuple[tuple[str, int], ...],
    of_fills: tuple[tuple[str, str], ...],
    is_ascii: bool,
) -> list[Piece]:
    """The cells of one step from the bottom up; each shows the stage at its middle."""
    colors, fills, glyphs = dict(of_colors), dict(of_fills), glyph_set(is_ascii=is_ascii)
    eighths = len(glyphs.columns)
    filled = step.total_s / top * height
    cells = []
    for y in range(height):
        rest = filled - y
        if rest <= 0.5 / eighths:
            cells.append(Piece(" ", "text"))
            continue
        name = _covering(step, (y + min(rest, 1.0) / 2) / height * top)
        role = "other" if name == OTHER else f"stage-{colors.get(name, 7) % 8}"
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


def least_full_height(view: TimingView, width: int) -> int:
    """Least rows for one bar per stage instead of a stacked bar; 0 if the screen is too narrow for bars."""
    return 0 if width < _LEAST_WIDTH else 1 + min(len(view.top), 6)


def _begun(view: TimingView, gap: str, width: int, glyphs: Glyphs) -> RowBuilder:
    builder = RowBuilder(width, glyphs).add(" STEP ", "title").add(units.step(view.step), "strong")
    builder.add(f" of the {view.stream}" if view.stream.raw else "", "note")
    builder.add(", the newest with a time" if view.is_older else "", "note")
    builder.add(f"{gap}{units.duration(view.total_s)}", "value")
    return builder.add("" if view.is_measured else " logged", "note")


def paint_title(view: TimingView, width: int, glyphs: Glyphs, columns: Sequence[tuple[int, str]] = ()) -> Row:
    builder = _begun(view, "   ", width, glyphs)
    stop = min((column for column, _ in columns), default=width)
    # The note on a guessed order goes wherever stages are drawn; the comparison takes the remaining room.
    is_said = view.is_assumed or view.is_measured or view.longer is not None
    reserved = min(map(len, _assumptions(view)), default=0) + 5 if columns and is_said and width >= _LEAST_WIDTH else 0
    for text in _comparisons(view):
        if text and builder.column + 3 + cell_width(text) <= stop - reserved:
            builder.add("   ").add(text, "note")
            break
    note = _assumption(view, stop - builder.column - 5)
    if note and columns:
        builder.pad_to(stop - len(note) - 2).add(note, "dim")
    for column, name in columns:
        builder.pad_to(column).add(name, "dim")
    return builder.row(view.target)


def _comparisons(view: TimingView) -> list[str]:
    if view.median_s is None:
        return []
    count, median = len(view.strip), units.duration(view.median_s)
    return [*_compared(view, view.median_s, f"median of last {count}: {median}"), f"(median of {count}: {median})"]


def _compared(view: TimingView, median_s: float, usual: str) -> list[str]:
    delta = view.total_s - median_s
    if abs(delta) < 0.02 * median_s:
        return [f"({usual})"]
    moved = units.difference(view.total_s, median_s, Unit.SECONDS)
    return [*(f"({usual}, {moved}: {cause})" for cause in longer_by(view, delta)), f"({usual}, {moved})", f"({usual})"]


def longer_by(view: TimingView, delta_s: float) -> list[str]:
    """The stage behind a step that took `delta_s` longer than usual, in words, longest first; empty if none is."""
    grown, rare = view.most_grown, _rarest_cost(view)
    if delta_s > 0 and grown is not None and len(view.top) > 1 and (grown.delta_s or 0.0) > 0.3 * delta_s:
        return [f"{grown.name} +{units.duration(grown.delta_s or 0.0)}"]
    if delta_s > 0 and rare is not None and rare.duration_s > 0.3 * delta_s:
        return [f"{rare.name} {units.duration(rare.duration_s)}", f"{rare.name}"]
    return []


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
        # When space is short, the note on the positions is dropped first.
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
            builder.pad_to(bar_at).add(clip("between steps", bar_width), "dim")
        else:
            _paint_bar(builder.pad_to(bar_at), stage, axis, bar_width, fills[stage], glyphs)
        builder.pad_to(bar_at + bar_width)
        if has_delta:
            text = "" if stage.median_s is None else units.difference(stage.duration_s, stage.median_s, Unit.SECONDS)
            is_still = stage.delta_s is not None and abs(stage.delta_s) < 0.02 * max(view.total_s, 1e-9)
            builder.right("" if is_still else text, 10, "warn" if stage.is_risen else "dim")
        if has_tokens:
            builder.right("" if stage.ms_per_token is None else units.number(stage.ms_per_token), 10, "dim")
        rows.append(builder.row(view.target._replace(name=stage.key)))
    if left_out:
        rows.append(_paint_left_out(left_out, view, width, glyphs))
    return rows


def bars_at(stages: Sequence[StageReading], width: int) -> int:
    longest = max((2 * stage.depth + 3 + cell_width(stage.name.display) for stage in stages), default=_NAME)
    most = _LONG_NAME if width >= 110 else _MIDDLE_NAME if width >= 76 else _NAME
    name = min(max(_NAME, longest), most) if width >= 56 else _SHORT_NAME
    return 2 + name + 2 + _NUMBERS + 2


def _chosen(view: TimingView, room: int) -> tuple[list[StageReading], list[StageReading]]:
    """The stages drawn in `room` rows, in order, and those summed up in the last row."""
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
    # By identity: comparing all pairs of stages field by field took longer than painting.
    kept_ids = {id(stage) for stage in kept_inner}
    return [stage for stage in stages if stage.depth == 0 or id(stage) in kept_ids], []


def _names(stages: Sequence[StageReading], cells: int) -> list[str]:
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
    """A bar with gaps: a cell is filled if the stage runs for at least half of it, marked if it runs at all."""
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
    return builder.row(view.target)


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
    return [paint_title(view, width, glyphs), bar.row(view.target), paint_legend(view, width, glyphs)]


def stage_fills(view: TimingView, glyphs: Glyphs) -> dict[str, str]:
    """A fill for each stage, the same wherever it is drawn, so that stages differ even without colour.

    The largest stages of the last steps have fills of their own; the others share one.
    """
    fills = {name: glyphs.fills[min(rank, NAMED)] for rank, name in enumerate(view.ranked)}
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
        builder.add("  " if shown else "")
        builder.add(fills[_name(stage)], stage.role, view.target._replace(name=stage.key)).add(text, "text")
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
    builder = _begun(view, "  ", width, glyphs)
    largest = view.largest
    if largest is not None and len(view.top) > 1:
        builder.add(f"  {largest.name} {share_text(largest.share)}", "note")
    for text in _comparisons(view):
        if text and builder.room >= cell_width(text) + 2:
            builder.add("  ").add(text, "dim")
            break
    return builder.row(view.target)
