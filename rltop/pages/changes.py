"""What changed around a step: the keys that moved most, in the catalogue or not.

Owns the ranking of all keys by how far they left their usual range at the step, and its page. Reads only the rows
around the step, so the cost does not depend on the length of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from rltop import units
from rltop.model import Label, Signal
from rltop.model.keys import is_bookkeeping_key
from rltop.pages.chain import LEAST_CELLS, Frame, aligned_line, axis_line, frame_around, read_aligned, sigma_text
from rltop.pages.page import Effect, Moment, Page, ShowStep
from rltop.pages.signals import generic_signal, instance_title, narrowest_signals, signals_of, whole_of
from rltop.rows.glyphs import UNICODE, Glyphs
from rltop.rows.keys import Scope
from rltop.rows.rows import Line, Row, RowBuilder, Target, TargetKind, rule_row, text_row, text_rows
from rltop.rows.sparkline import SparkData
from rltop.rows.table import Column, Fit, Sorting, TablePainter, lay_out, sorted_table
from rltop.run.snapshot import Snapshot
from rltop.stats.change import SIGMAS, Shift, shift_between
from rltop.store.series import Stretch

BEFORE_VALUES = 32
"""Baseline: the values of a key right before the step."""
AFTER_VALUES = 5
"""Records from the step on that are compared with the baseline: the window."""

_BEFORE_ROWS = 160
_MOST_CELLS_READ = 60_000
_SHOWN = 60
_ALWAYS_SHOWN = 5
_SIGN, _NUMBER = 3, 8
_LEAST_LINE = LEAST_CELLS + 2
_WITH_REMARKS, _WITH_KEYS = 96, 110


@dataclass(frozen=True, slots=True)
class Changed:
    """One key and how it moved.

    Attributes:
        shift: levels before and after, in the signal's unit.
        here: the value at the step itself, in the signal's unit; NaN if not logged there.
        is_nonfinite: a value in the window is not finite.
        line: data of its chart around the step; None without room.
        is_one_of_several: the run logs the metric under other keys too.
    """

    signal: Signal
    shift: Shift
    here: float = math.nan
    is_nonfinite: bool = False
    line: SparkData | None = None
    is_one_of_several: bool = False

    @property
    def is_outside(self) -> bool:
        return self.is_nonfinite or abs(self.shift.score) >= SIGMAS


@dataclass(frozen=True, slots=True)
class ChangeView:
    """What changed around a step.

    Attributes:
        step: the step; None while there is no row.
        rows: the keys that moved most, largest move first.
        unknown: number of keys with values in the window but too few before it.
        still_bad: number of keys that are not finite both before and in the window, which is no change.
        before: number of baseline records, at most `BEFORE_VALUES`.
        until: last step of the window; None if it holds one row only or is downsampled.
    """

    step: int | None
    rows: tuple[Changed, ...] = ()
    moved: int = 0
    judged: int = 0
    unknown: int = 0
    still_bad: int = 0
    before: int = 0
    is_approximate: bool = False
    frame: Frame | None = None
    until: int | None = None


def build_change(snapshot: Snapshot, *, width: int = 120) -> ChangeView:
    step = snapshot.step
    keys = snapshot.stream.keys
    if step is None or not keys:
        return ChangeView(None)
    rows = max(BEFORE_VALUES + 8, min(_BEFORE_ROWS, _MOST_CELLS_READ // len(keys)))
    stretch = snapshot.stream.around(step, rows, AFTER_VALUES)
    found, unknown, still_bad = _rank(snapshot, stretch, step)
    moved = sum(one.is_outside for one in found)
    # The charts continue past the step: what follows distinguishes a level shift from a spike.
    newest = snapshot.at(None)
    frame = frame_around(newest, step, line_cells(width))
    shown = found[: min(_SHOWN, max(moved, _ALWAYS_SHOWN))]
    if frame is not None:
        shown = [replace(one, line=read_aligned(newest, one.signal, frame)) for one in shown]
    return ChangeView(
        step=step,
        rows=tuple(shown),
        moved=moved,
        judged=len(found),
        unknown=unknown,
        still_bad=still_bad,
        before=min(stretch.split, BEFORE_VALUES),
        is_approximate=stretch.is_approximate,
        frame=frame,
        until=_until(stretch),
    )


def _until(stretch: Stretch) -> int | None:
    after = stretch.steps[stretch.split : stretch.split + AFTER_VALUES]
    return after[-1] if len(after) > 1 and not stretch.is_approximate else None


def _rank(snapshot: Snapshot, stretch: Stretch, step: int) -> tuple[list[Changed], int, int]:
    known = narrowest_signals(snapshot)
    found, unknown, still_bad = [], 0, 0
    before, after = stretch.rows[: stretch.split], stretch.rows[stretch.split :][:AFTER_VALUES]
    window = stretch.steps[stretch.split :][:AFTER_VALUES]
    first, last = stretch.steps[0] if stretch.split else step, window[-1] if window else step
    own = after[:1] if window and window[0] == step else []
    for column, key in enumerate(snapshot.stream.keys):
        if is_bookkeeping_key(key):
            continue
        then = _finite(after, column)
        marks = snapshot.stream.marks(key)
        is_bad = any(step <= mark.step <= last for mark in marks)
        if not then and not is_bad:
            continue
        signal = known.get(key) or generic_signal(key)
        here = next((signal.read(value) for value in _finite(own, column)), math.nan)
        shift = shift_between(_finite(before, column)[-BEFORE_VALUES:], then, whole_of(signal))
        if shift is not None:
            read = Shift(
                signal.read(shift.before),
                signal.read(shift.after),
                math.copysign(shift.score, shift.score * signal.scale),
                shift.is_spike,
            )
            found.append(Changed(signal, read, here, is_bad, is_one_of_several=_has_others(snapshot, signal)))
        elif is_bad and any(first <= mark.step < step for mark in marks):
            still_bad += 1
        elif is_bad:
            unlike = Shift(math.nan, math.nan, math.inf)
            found.append(Changed(signal, unlike, here, is_bad, is_one_of_several=_has_others(snapshot, signal)))
        else:
            unknown += 1
    found.sort(key=lambda one: (not one.is_nonfinite, -abs(one.shift.score), one.signal.key))
    return found, unknown, still_bad


def _has_others(snapshot: Snapshot, signal: Signal) -> bool:
    return len(signals_of(snapshot).get(signal.metric.name, ())) > 1


def _finite(rows: Sequence[Sequence[float]], column: int) -> list[float]:
    # Rows of older blocks are shorter if keys were added later.
    return [row[column] for row in rows if column < len(row) and math.isfinite(row[column])]


def change_columns(
    width: int, glyphs: Glyphs, frame: Frame | None = None, window: tuple[int, int] | None = None, *,
    is_estimate: bool = False,
) -> Sequence[Column[Changed]]:  # fmt: skip
    name, line = (43 if width >= _WITH_KEYS else 17), (0 if frame is None else frame.cells)

    def head(cells: int) -> Line:
        return () if frame is None else axis_line(frame, glyphs, "note")

    def draw(one: Changed, cells: int) -> Line:
        return () if frame is None or one.line is None else aligned_line(one.line, frame, glyphs, "note")

    here: Column[Changed] = Column(
        "at step" if window is None else f"at {units.step(window[0])}", lambda one: (_number(one.here, one), "value"),
        least=_NUMBER, priority=4, gap=1, sort=lambda one: one.here,
    )  # fmt: skip
    return (
        Column(
            "key" if width >= _WITH_KEYS else "metric", lambda one: _name(one, width), Fit.NAME,
            least=name if is_estimate else min(name, 15), is_steady=is_estimate, sort=lambda one: one.signal.key,
        ),
        Column(
            "before", lambda one: (_number(one.shift.before, one), "value"), least=_NUMBER, priority=2,
            sort=lambda one: one.shift.before,
        ),
        Column(" ", lambda one: (glyphs.becomes, "dim"), priority=2, gap=1),
        Column(
            "after" if window is None else "median",
            lambda one: ("NaN/Inf", "crit") if one.is_nonfinite else (_number(one.shift.after, one), "value"),
            least=_NUMBER, gap=1, sort=lambda one: one.shift.after,
        ),
        *((here,) if window is not None or is_estimate else ()),
        Column(
            "sigma", lambda one: (sigma_text(one.shift.score), "strong" if one.is_outside else "dim"), least=5,
            sort=lambda one: abs(one.shift.score),
        ),
        Column(
            "", lambda one: ("one step" if one.shift.is_spike else "", "dim"), least=9, priority=4, is_right=False,
            gap=1,
        ),
        Column(head, draw, Fit.DRAWN, least=line or _LEAST_LINE, most=line, priority=0 if line else 3, gap=3),
    )  # fmt: skip


def line_cells(width: int) -> int:
    columns = change_columns(width, UNICODE, is_estimate=True)
    # On narrow screens the charts take the room of the remark.
    wanted = [0 if column.head == "" and width < _WITH_REMARKS else column.least for column in columns]
    return lay_out(wanted, columns, width - _SIGN - 1).of(len(columns) - 1)


def paint_change(view: ChangeView, width: int, glyphs: Glyphs, sorting: Sorting | None = None) -> list[Row]:
    if view.step is None:
        return [text_row("no metrics yet: waiting for the first row", width, glyphs, "dim")]
    title = RowBuilder(width, glyphs).add(" ").add(f"WHAT CHANGED AT STEP {units.step(view.step)}", "title")
    rows = [title.row()]
    rows += text_rows(_summary(view), width, glyphs, "dim")
    rows.append(rule_row(width, glyphs))
    window = None if view.until is None or view.step is None else (view.step, view.until)
    columns = change_columns(width, glyphs, view.frame, window)
    table = sorted_table(
        columns,
        view.rows,
        sorting,
        lambda one: Target(TargetKind.METRIC, one.signal.key),
        lambda one: _sign(one, glyphs),
    )
    painter = TablePainter(table, width, glyphs)
    rows += [painter.head()] if view.rows else []
    # In any other order keys within their range are mixed with the others, distinguished by the sign.
    is_quiet = sorting is not None
    for number, one in enumerate(table.items):
        if not one.is_outside and not is_quiet:
            is_quiet = True
            rows += [Row(()), text_row("within usual range, largest change first", width, glyphs, "dim")]
        rows.append(painter.row(number))
    left_out = view.moved - sum(one.is_outside for one in view.rows)
    if left_out > 0:
        rows.append(text_row(f"and {units.count(left_out)} more with smaller changes", width, glyphs, "dim"))
    return rows


def _summary(view: ChangeView) -> str:
    if not view.judged and not view.still_bad:
        records = units.counted(view.before, "record")
        return f"not enough history: no key has the 8 values that are needed in the {records} before this step"
    text = f"{units.count(view.moved)} of {units.counted(view.judged, 'key')} outside the usual range"
    text += f" ({units.count(SIGMAS)} sigma) of the {view.before} records before"
    if view.still_bad:
        text += f"; {units.count(view.still_bad)} NaN/Inf there and before"
    if view.unknown:
        text += f"; {units.count(view.unknown)} logged too rarely to tell"
    if view.until is not None and view.step is not None:
        text += f"; judged: the median of steps {units.step(view.step)}–{units.step(view.until)}, or one step alone"
    if view.is_approximate:
        text += "; older rows are downsampled (means)"
    return text


def _name(one: Changed, width: int) -> tuple[str, str]:
    if width >= _WITH_KEYS:
        return Label.of(one.signal.key).display, "key"
    metric = one.signal.metric
    if not one.is_one_of_several:
        return Label.of(metric.title).display, "text"
    # A part is named by its instance, which its spread has too.
    return instance_title(one.signal) + (" std" if metric.name.endswith("_std") else ""), "text"


def _sign(one: Changed, glyphs: Glyphs) -> tuple[str, str]:
    sign = glyphs.nonfinite if one.is_nonfinite else glyphs.rise if one.shift.score > 0 else glyphs.fall
    return sign if one.is_outside else "", "crit" if one.is_nonfinite else "strong" if one.is_outside else "dim"


def _number(value: float, one: Changed) -> str:
    return units.UNKNOWN if math.isnan(value) else units.measure(value, one.signal.metric.unit)


class ChangePage(Page):
    details = frozenset({TargetKind.METRIC})
    where = (Scope.TABLE,)
    search_hint = "a part of a key or a title"
    footer: ClassVar[Sequence[str]] = ("step-back", "step-on", "find")

    def __init__(
        self, stream: str = "", step: int | None = None, *, returns_to: int | None = None, has_travelled: bool = False
    ) -> None:
        """The page at the step of the time cursor.

        Args:
            stream: the stream to show; "" is the main one.
            step: the step to show in that stream while no time cursor is set.
            returns_to: the cursor's step before it was moved for this page; None is live.
            has_travelled: the cursor was moved for this page, and is restored when the page closes.
        """
        super().__init__(stream)
        self._step = step
        self._returns_to = returns_to
        self._has_travelled = has_travelled

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        snapshot = moment.snapshot
        view = build_change(snapshot.at(self._step) if snapshot.at_step is None else snapshot, width=width)
        return paint_change(view, width, moment.glyphs, self.sorting)

    def left(self) -> Effect | None:
        return ShowStep(self._returns_to) if self._has_travelled else None
