"""The step of a row from a tracker: the trainer's own if rows contain one, else the tracker's row count.

A tracker counts log calls: between two rows of the trainer, TRL logs timings and tables one by one, each with a number
of its own. Such a row belongs to the newest trainer step before it, as in the trackers' charts.
"""

from __future__ import annotations

from collections.abc import Iterable

from rltop.formats.rows import (
    RecordBuilder,
    Row,
    Step,
    bare_step,
    is_out_of_range,
    step_of,
    take_time,
    total_of,
)
from rltop.model import Counts, FilePosition, Record
from rltop.model.keys import STEP_KEYS, TIMING_PREFIXES, TRAINER_STEP_KEYS, is_bookkeeping_key
from rltop.structs import NamedTuple

TRACKER_STEP = "_step"
"""The tracker's own count, where a step key is expected."""
_KEYS = tuple(key for key in STEP_KEYS if key != TRACKER_STEP)
_LOOSE_ROWS = 3
"""Rows of metrics without a trainer step, at the start, after which the tracker's count is used for good."""
_ROWS_AT_ZERO = 3
"""Rows at step 0 after which the trainer's step counter is taken to be unused."""
_SURE_KEYS = ("train/global_step", "trainer/global_step")
"""Trainers that log these do so in every row, so they are used whatever came before."""
_MOST_HELD = 4_096
"""Most rows that wait for the trainer's first step: some hundred per step of a run that logs every tenth step."""


class TrackerRow(NamedTuple):
    """A row before its step is known; `number` is the tracker's own step."""

    cells: Row
    number: int | None
    time_s: float | None
    position: FilePosition
    script_alerts: tuple[str, ...] = ()


class PlacedRow(NamedTuple):
    """A row with its step, if known, and the total logged with it. `is_part` is that of `Record`."""

    row: TrackerRow
    step: int | None
    total: int | None = None
    is_part: bool = False


class TrackerSteps:
    """Assigns steps to rows in the order in which they come.

    Attributes:
        key: the key that steps are read from, `TRACKER_STEP` for the tracker's count; empty until it is known.
        last: the newest step assigned; None before the first.
        is_awaited: the run's settings show that its trainer logs steps: rows before the first step wait for it.

    Args:
        named: the step key that the user has set, if any.
    """

    def __init__(self, counts: Counts, named: str = "") -> None:
        self.key = ""
        self.last: int | None = None
        self.is_awaited = bool(named)
        self._counts = counts
        self._keys = (named,) if named else _KEYS
        self._sure_keys = () if named else _SURE_KEYS
        self._held: list[TrackerRow] = []
        self._loose = 0
        self._logged_at_zero: dict[str, int] = {}

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    def forget_rows(self) -> None:
        """Rows from another part of the file follow; the step key that was found remains valid."""
        self._held.clear()
        self.last = None

    def place(self, row: TrackerRow) -> list[PlacedRow]:
        """The rows whose steps are now known, in order; the step of `row`, the next one, is removed from its cells."""
        if self.key == TRACKER_STEP:
            if not any(key in row.cells for key in self._sure_keys):
                return [self._placed(row, row.number)]
            self.key = ""
        key, step = self._named(row.cells)
        if step is None:
            return self._without_step(row)
        found = self._before(step) if not self.key else []
        self.key = key
        if step == 0 and len(self._keys) > 1 and row.number is not None and self._stays_at_zero(row.cells):
            self.key, self._sure_keys, step = TRACKER_STEP, (), row.number
        else:
            del row.cells[key]
        return [*found, self._placed(row, step)]

    def release(self, *, is_end: bool) -> list[PlacedRow]:
        """Give waiting rows the tracker's step, because nothing has come for a while.

        Args:
            is_end: nothing more will come, so this includes rows for which the trainer's first step was expected.
        """
        if not is_end and (self.is_awaited or not self._loose):
            return []
        held, self._held = self._held, []
        return [self._placed(row, row.number) for row in held]

    def _named(self, cells: Row) -> tuple[str, Step | None]:
        """The key and value of the step in a row.

        The key changes only to a trainer's own, and only if its steps continue the previous ones.
        """
        if self.key in cells:
            return self.key, step_of(cells[self.key])
        for key in self._keys if not self.key else TRAINER_STEP_KEYS if self.key not in TRAINER_STEP_KEYS else ():
            step = step_of(cells[key]) if key in cells else None
            if step is None:
                self._counts.unusable_steps += key in cells and is_out_of_range(cells[key])
            elif not self.key or (len(self._keys) > 1 and isinstance(step, int) and step >= (self.last or 0)):
                return key, step
        return "", None

    def _without_step(self, row: TrackerRow) -> list[PlacedRow]:
        if self.key:
            return [self._placed(row, self.last)]
        self._held.append(row)
        self._loose += not all(key.startswith(TIMING_PREFIXES) or type(cell) is dict for key, cell in row.cells.items())
        if (self._loose < _LOOSE_ROWS or self.is_awaited) and len(self._held) < _MOST_HELD:
            return []
        self.key = TRACKER_STEP
        return self.release(is_end=True)

    def _before(self, first: Step) -> list[PlacedRow]:
        """The rows that waited, at the tracker's number but not after the trainer's first step."""
        most = first[0] if isinstance(first, tuple) else first
        held, self._held = self._held, []
        return [self._placed(row, most if row.number is None else min(row.number, most)) for row in held]

    def _placed(self, row: TrackerRow, step: Step | None) -> PlacedRow:
        at, total = step if isinstance(step, tuple) else (step, None)
        before, self.last = self.last, self.last if at is None else at
        return PlacedRow(row, at, total, is_part=before is not None and before == self.last)

    def _stays_at_zero(self, cells: Row) -> bool:
        """Has a metric been logged at step 0 too often for a real step? Timings may repeat within a step."""
        for key in cells:
            if not (key.startswith(TIMING_PREFIXES) or is_bookkeeping_key(key)):
                self._logged_at_zero[key] = self._logged_at_zero.get(key, 0) + 1
        return max(self._logged_at_zero.values(), default=0) > _ROWS_AT_ZERO


class ExportedRows:
    """Exported rows of a tracker's history, with `_step` among their cells → records."""

    def __init__(self, counts: Counts, builder: RecordBuilder) -> None:
        self._counts, self._builder = counts, builder
        self._steps = TrackerSteps(counts)

    @property
    def is_holding(self) -> bool:
        return self._steps.is_holding

    def take(self, row: Row, position: FilePosition) -> list[Record]:
        """The records whose steps are now known, in order."""
        number = bare_step(row.pop(TRACKER_STEP, None))
        return self._records_of(self._steps.place(TrackerRow(row, number, take_time(row), position)))

    def release(self, *, is_end: bool) -> list[Record]:
        """The records of waiting rows: nothing has come for a while, or nothing more will (`is_end`)."""
        return self._records_of(self._steps.release(is_end=is_end))

    def _records_of(self, rows: Iterable[PlacedRow]) -> list[Record]:
        records = []
        for (cells, _, time_s, position, _), step, total, is_part in rows:
            if step is None:
                self._counts.miss_step(cells)
                continue
            record = self._builder.of_cells(step, time_s, cells, position, total or total_of(cells))
            records.append(record._replace(is_part=True) if is_part else record)
        return records
