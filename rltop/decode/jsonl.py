"""JSON lines → records, at little more than the cost of parsing them.

The fast path: orjson parses the line, the keys are those of the line before
(compared by identity, key by key, in C), the values go into an array in one
call. Everything else (NaN literals, nulls, strings, nesting, a new shape) falls
back on an error, never on a check, and is counted where it loses anything.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any

from rltop.decode.decoder import Envelope
from rltop.decode.framing import LineFramer
from rltop.decode.json_text import fast_loads, patient_loads, ready_loads
from rltop.decode.records import MAX_STEP, is_out_of_range, step_of, time_of
from rltop.decode.values import INF_SENTINEL, NAN_SENTINEL, clipped_key, number_of, read_cells
from rltop.metrics.keys import STEP_KEYS, TIME_KEYS, TOTAL_KEYS
from rltop.model import CellMark, Counts, Place, Record, Shape
from rltop.structs import NamedTuple

_SHAPES_KEPT = 1024
_STEP_KEY_SETTLED = 4
"""Rows with the same step key until no other is looked for: the first rows may be a header or a summary."""
_IMPLICIT_AFTER = 3
"""Rows without a step, in a row, before their number is taken for the step."""
_NAN_TEXT = repr(NAN_SENTINEL).encode()
_INF_TEXT = repr(INF_SENTINEL).encode()

_TOTAL_KEYS = tuple(key for key in TOTAL_KEYS if key not in STEP_KEYS)

Row = dict[str, Any]


class JsonlOptions(NamedTuple):
    """How rows are read.

    Attributes:
        step_key: the key that holds the step; empty: the documented list.
        may_count_rows: a file whose rows have no step is numbered by row; off
            where reading begins in the middle.
        is_hurried: a few rows are read, and somebody waits for them: see `json_text`.
    """

    step_key: str = ""
    may_count_rows: bool = True
    is_hurried: bool = False


class JsonlDecoder:
    """Rows of `{"step": N, "data": {…}}` or of flat objects."""

    is_rewritten = False
    is_finished = False
    failure = ""
    stopped = ""

    def __init__(self, options: JsonlOptions | None = None) -> None:
        self.options = options or JsonlOptions()
        self.counts = Counts()
        self.envelope: Envelope = ""
        self._loads = ready_loads() if self.options.is_hurried else fast_loads()
        self._framer = LineFramer(self.counts)
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._last_keys: list[str] = []
        self._last_shape = Shape(())
        self._step_keys = (self.options.step_key,) if self.options.step_key else STEP_KEYS
        self._step_key = ""
        self._step_rows = 0
        self._stepless: list[tuple[Row, Place]] = []
        self._row_number: int | None = None
        self._generation = 0
        self._may_hold_nonfinite = False

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode every line that `data` completes."""
        self._generation = generation
        records: list[Record] = []
        for line, start in self._framer.feed(data, offset):
            if line:  # a file of line ends alone is not to cost an error each
                self._decode(line, start, records)
        return records

    def flush(self) -> list[Record]:
        """Nothing: a row is given out when a line is whole."""
        return []

    def finish(self) -> list[Record]:
        """Decode the last line, whole or torn, and rows that waited for a step."""
        records: list[Record] = []
        last = self._framer.finish()
        if last is not None:
            self._decode(*last, records)
        if len(self._stepless) > 1 and self._row_number is None and not self._step_key:
            self._number_rows(records)
        self._drop_stepless()
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins: forget the half line, and count rows anew if the writer does."""
        self._framer.reset()
        self._drop_stepless()
        if is_restart:
            self._row_number, self._step_rows = None, 0

    def _decode(self, line: bytes, start: int, records: list[Record]) -> None:
        counts = self.counts
        try:
            row = self._loads(line)
            self._may_hold_nonfinite = False
        except ValueError as error:
            self._may_hold_nonfinite = True
            row = self._loads_tolerant(line, error)
            if row is None:
                return
        counts.lines += 1
        if type(row) is not dict:
            self._refuse("a JSON value that is no object")
            return
        record = self._record(row, Place(self._generation, start), records)
        if record is not None:
            counts.rows += 1
            records.append(record)

    def _record(self, row: Row, place: Place, records: list[Record]) -> Record | None:
        data = row.get("data")
        outer: Row | None = None
        if type(data) is dict:
            outer, row, self.envelope = row, data, "nested"
            del outer["data"]
        elif not self.envelope:
            self.envelope = "flat"
        total: int | None = None
        step = self._take_step(row if outer is None else outer)
        if step is None and outer is not None:
            step = self._take_step(row)
        if step is None:
            return self._without_step({**outer, **row} if outer else row, place, records)
        if isinstance(step, tuple):
            step, total = step
        self._drop_stepless()
        time_s = self._take_time(row if outer is None else outer)
        if outer:
            row = {**outer, **row}
        if total is None:
            total = self._read_total(row)
        return self._build(step, time_s, row, place, total)

    def _build(self, step: int, time_s: float | None, row: Row, place: Place, total: int | None) -> Record:
        keys = list(row)
        marks: tuple[CellMark, ...] = ()
        try:
            # Packed and taken over as bytes: a quarter of what an array costs that is filled value by value.
            values = array("d", struct.pack(f"{len(keys)}d", *row.values()))
        except (TypeError, OverflowError, struct.error):
            keys, values, marks = read_cells(row, self.counts)
        else:
            if self._may_hold_nonfinite:
                keys, values, marks = read_cells(row, self.counts)
        shape = self._last_shape if keys == self._last_keys else self._shape(keys)
        return Record(step, time_s, shape, values, marks, place, total)

    def _shape(self, keys: list[str]) -> Shape:
        as_tuple = tuple(map(clipped_key, keys))
        shape = self._shapes.get(as_tuple)
        if shape is None:
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            shape = self._shapes[as_tuple] = Shape(as_tuple)
        self._last_keys, self._last_shape = keys, shape
        return shape

    # -- step and time -----------------------------------------------------------------------------------------

    def _take_step(self, row: Row) -> int | tuple[int, int] | None:
        """Remove the step from a row; None if it has none."""
        if self._step_key and self._step_key in row:
            value = row.pop(self._step_key)
            if type(value) is int:
                found: int | tuple[int, int] | None = value if -MAX_STEP < value < MAX_STEP else None
            else:
                found = step_of(value)
            self._step_rows += found is not None
            if found is None:
                self.counts.unusable_steps += is_out_of_range(value)
            return found
        beyond = False
        for key in self._step_keys if self._step_rows < _STEP_KEY_SETTLED else ():
            if key in row:
                if (found := step_of(row[key])) is not None:
                    del row[key]
                    self._step_key, self._step_rows = key, 1
                    return found
                beyond = beyond or is_out_of_range(row[key])
        self.counts.unusable_steps += beyond
        return None

    def _take_time(self, row: Row) -> float | None:
        for key in TIME_KEYS:
            if key in row:
                time_s = time_of(row[key])
                if time_s is not None:
                    del row[key]
                    return time_s
        return None

    @staticmethod
    def _read_total(row: Row) -> int | None:
        for key in _TOTAL_KEYS:
            value = row.get(key)
            if isinstance(value, int | float) and 0 < value < MAX_STEP:
                return int(value)
        return None

    def _without_step(self, row: Row, place: Place, records: list[Record]) -> Record | None:
        """A row that names no step: numbered if no row of this file ever does."""
        if self._step_key or self.options.step_key or not self.options.may_count_rows:
            self.counts.no_step_lines += 1
            return None
        if self._row_number is not None:
            self._row_number += 1
            self.counts.numbered_rows += 1
            return self._build(self._row_number, self._take_time(row), row, place, None)
        if not any(isinstance(number_of(value), float) for value in row.values()):
            self.counts.no_step_lines += 1
            return None
        self._stepless.append((row, place))
        if len(self._stepless) >= _IMPLICIT_AFTER:
            self._number_rows(records)
        return None

    def _number_rows(self, records: list[Record]) -> None:
        """Take the number of a row for its step, from the first row on."""
        for number, (row, place) in enumerate(self._stepless, 1):
            self._row_number = number
            self.counts.rows += 1
            self.counts.numbered_rows += 1
            records.append(self._build(number, self._take_time(row), row, place, None))
        self._stepless.clear()

    def _drop_stepless(self) -> None:
        if self._stepless:
            self.counts.no_step_lines += len(self._stepless)
            self._stepless.clear()

    # -- lines that are not strict -----------------------------------------------------------------------------

    def _loads_tolerant(self, line: bytes, error: ValueError) -> object | None:
        """A line with a value in it that is no JSON, see `patient_loads`; None (and a count) if all of it is none."""
        if not line.strip():
            return None
        if b"NaN" in line or b"Infinity" in line:
            replaced = line
            for before in (b":", b": ", b",", b", ", b"["):
                replaced = replaced.replace(before + b"NaN", before + _NAN_TEXT)
                replaced = replaced.replace(before + b"Infinity", before + _INF_TEXT)
                replaced = replaced.replace(before + b"-Infinity", before + b"-" + _INF_TEXT)
            try:
                return self._loads(replaced)
            except ValueError:
                pass
        try:
            row, broken = patient_loads(line)
        except ValueError:
            self.counts.lines += 1
            self._refuse(str(error).split(":", maxsplit=1)[0])
            return None
        self.counts.broken_texts += broken
        return row

    def _refuse(self, reason: str) -> None:
        self.counts.refuse(self.counts.lines, reason)
