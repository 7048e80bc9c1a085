"""JSON lines → records, with a parser chosen by the amount of data.

orjson is four times as fast as the standard library. But importing it, along with
`inspect`, `dataclasses` and `uuid`, takes as long as parsing 130 rows of 300 keys with the
standard library: worth it for a history, not for a short file or the rows of a first frame.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, cast

from rltop.formats.decoder import CONFLICT, Decoder, DecoderOptions, LineFramer
from rltop.formats.rows import (
    WRITER_STEP,
    RecordBuilder,
    Row,
    flat_items,
    number_of,
    step_of,
    take_time,
    total_of,
    unwrapped,
    widened,
)
from rltop.model import Counts, FilePosition, Record
from rltop.model.keys import STEP_KEYS, TIMING_PREFIXES
from rltop.regex import regex

if TYPE_CHECKING:
    from rltop.formats.tracker_steps import ExportedRows

Loads = Callable[[bytes], object]
"""Parses strict JSON; raises `ValueError` for anything else, including NaN and Infinity."""

_BROKEN = regex("[\udc80-\udcff]")
"""Surrogates that Python decodes invalid UTF-8 bytes to."""
_BROKEN_STRING = regex('[\udc80-\udcff][^"]*')

_MOST_DIGITS = 400
"""A longer integer exceeds the range of a float (1.8e308), and Python refuses to parse more than 4,300 digits."""


def fast_loads() -> Loads:
    import orjson  # noqa: PLC0415 - see the head of this file

    return orjson.loads


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


_DECODE = json.JSONDecoder(parse_constant=_refuse).decode


def ready_loads(text: bytes) -> object:
    """Parse with the standard library, as strictly as orjson.

    Raises:
        ValueError: it is not valid JSON, or nested too deeply.
    """
    try:
        return cast(object, _DECODE(text.decode()))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def patient_loads(text: bytes) -> tuple[object, int]:
    r"""Parse JSON that strict parsers reject because of a single value.

    Accepts NaN, Infinity and control characters in strings; an integer too large for a float becomes infinite; an
    invalid UTF-8 byte in a key or string becomes an escape (`\xe9`), so that keys stay distinct.

    Returns:
        The value, and the number of keys and strings with invalid UTF-8.

    Raises:
        ValueError: it is not valid JSON even so.
    """
    readable, broken = readable_text(text)
    try:
        return json.loads(readable, parse_int=whole_number, strict=False), broken
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def readable_text(text: bytes | bytearray) -> tuple[str, int]:
    """JSON as text, with invalid UTF-8 bytes in strings escaped; and the number of such strings."""
    try:
        return text.decode(), 0
    except UnicodeDecodeError:
        decoded = text.decode("utf-8", "surrogateescape")
        spelled = _BROKEN.sub(lambda byte: f"\\\\x{ord(byte[0]) & 0xFF:02x}", decoded)
        return spelled, len(_BROKEN_STRING.findall(decoded))


def whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def tolerant_loads(text: bytes) -> tuple[object, int]:
    """Like `patient_loads`, but fast for strict JSON."""
    try:
        return fast_loads()(text), 0
    except ValueError:
        return patient_loads(text)


NAMELESS = "numbers without the name of a metric"


def why_no_row(value: object) -> str:
    is_of_numbers = isinstance(value, list) and value and all(isinstance(each, int | float) for each in value)
    return NAMELESS if is_of_numbers else "not a JSON object"


def object_of(line: bytes) -> dict[str, object] | None:
    """A line as an object, accepting NaN and Infinity; None if it is not one."""
    try:
        row, _ = tolerant_loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(patient_loads(line)[0], dict)
    except ValueError:
        return False


FEW_BYTES = 1 << 17
"""Up to this size (ten rows of 300 keys), the standard library is faster than importing orjson."""
_STEP_KEY_SETTLED = 4
"""Rows with the same step key before no other key is considered: the first rows may be a header or a summary."""
_MOST_INDENTED = 100_000
"""Most lines of a single object."""
_IMPLICIT_AFTER = 3
"""Consecutive rows without a step before rows are numbered."""


PHASE = b'{"rltop_phase":'
"""Start of a line written by `JsonlWriter.phase`; not a row, but read by `live.traces`."""
_END = PHASE + b'"",'
"""Start of the line that marks the end of the run."""
_VALUE = "value"
"""The key of a row with a single value, whose metric is named by another key."""


_COUNTERS = tuple(key for key in STEP_KEYS if key not in ("steps", "update"))


def _has_step(name: str, inner: Row) -> bool:
    is_timing = f"{name}/".startswith(TIMING_PREFIXES)
    return not is_timing and any(step_of(inner[key]) is not None for key in _COUNTERS if key in inner)


class JsonlDecoder(Decoder):
    """Rows of `{"step": N, "data": {…}}` or of flat objects."""

    def __init__(self, options: DecoderOptions | None = None) -> None:
        self.options = options or DecoderOptions()
        self.counts = Counts()
        self._loads: Loads = ready_loads
        self._left = math.inf if self.options.is_hurried else FEW_BYTES
        self._framer = LineFramer(self.counts)
        self._builder = RecordBuilder(self.counts, self.options.step_key, _STEP_KEY_SETTLED)
        self._stepless: list[tuple[Row, FilePosition]] = []
        self._exported: ExportedRows | None = None
        self._row_number: int | None = None
        self._wrapper = ""
        self._given: tuple[bytes, int] | None = None
        self._open: list[bytes] = []
        self._open_start = 0
        self._generation = 0
        self._over_at: int | None = None
        """Number of lines when the writer marked the end of the run."""

    @property
    def is_finished(self) -> bool:
        return self._over_at == self.counts.lines

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        self._generation = generation
        if self._left > 0:
            self._left -= len(data)
            if self._left <= 0:
                self._loads = fast_loads()
        records: list[Record] = []
        for line, start in self._framer.feed(data, offset):
            # Skips empty lines, which would otherwise cost an exception each.
            if line and (self._given is None or not self._is_given(line, start)):
                self._decode(line, start, records)
        return records

    def flush(self) -> list[Record]:
        """Decode a last line without line end if it is a complete object; a partial one waits."""
        records: list[Record] = []
        last = self._framer.pending
        if last is not None and last != self._given and last[0].rstrip().endswith(b"}") and _is_object(last[0]):
            given, self._given = self._given, last
            # Of a two-byte line end (CR LF), only the first byte may have come.
            if given is None or (given[0].rstrip(), given[1]) != (last[0].rstrip(), last[1]):
                self._decode(*last, records)
        return records if self._exported is None else [*records, *self._exported.release(is_end=False)]

    @property
    def holds_back(self) -> bool:
        has_held = self._exported is not None and self._exported.is_holding
        is_waiting = bool(self._stepless or self._open) or has_held
        return is_waiting or self._framer.pending != self._given

    def finish(self) -> list[Record]:
        records: list[Record] = []
        last = self._framer.finish()
        if last is not None and not self._is_given(*last):
            self._decode(*last, records)
        self._give_up_open()
        if len(self._stepless) > 1 and self._row_number is None and not self._builder.step_key:
            self._number_rows(records)
        self._drop_stepless()
        return records if self._exported is None else [*records, *self._exported.release(is_end=True)]

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file starts: forget the partial line; if the writer restarted, number rows from 1 again."""
        self._framer.reset()
        self._given = self._over_at = None
        self._open.clear()
        self._drop_stepless()
        if is_restart:
            self._row_number = self._exported = None
            self._builder.begin_anew()

    def _is_given(self, line: bytes, start: int) -> bool:
        given, self._given = self._given, None
        if given is None or given[1] != start:
            return False
        is_same = given[0].rstrip() == line.rstrip()
        self.counts.lines -= not is_same
        return is_same

    def _decode(self, line: bytes, start: int, records: list[Record]) -> None:
        counts = self.counts
        if line.startswith(PHASE):
            is_over = line.startswith(_END) and line.rstrip().endswith(b"}")
            self._over_at = counts.lines if is_over else None
            return
        if self._open:
            whole = self._closed(line)
            if whole is None:
                return
            line, start = whole, self._open_start if whole is not line else start
        try:
            row = self._loads(line)
        except ValueError:
            if line.rstrip() == b"{":
                self._open, self._open_start = [line], start
                return
            row = self._loads_tolerant(line)
            if row is None:
                return
        counts.lines += 1
        if type(row) is not dict:
            self._refuse(why_no_row(row))
            return
        record = self._record(row, FilePosition(self._generation, start), records)
        if record is not None:
            records.append(record)

    def _closed(self, line: bytes) -> bytes | None:
        """The whole object, if this line closes an indented one with `}` in the first column; else None.

        If the line begins another object, that line is returned, and the open one is counted as incomplete.
        """
        if line.startswith(b"{") or len(self._open) > _MOST_INDENTED:
            self._give_up_open()
            return line
        self._open.append(line)
        if line.rstrip(b", \t\r") != b"}":
            return None
        whole, self._open = b"\n".join(self._open).rstrip(b", \t\r"), []
        return whole

    def _give_up_open(self) -> None:
        if self._open:
            self._open.clear()
            self.counts.lines += 1
            self._refuse("incomplete JSON object over several lines")

    def _record(self, row: Row, position: FilePosition, records: list[Record]) -> Record | None:
        row = unwrapped(row)
        if _VALUE in row:
            row = widened(row) or row
        data = row.get("data")
        outer: Row | None = None
        if type(data) is dict:
            outer, row = row, data
            del outer["data"]
        builder = self._builder
        if WRITER_STEP in row and outer is None and not (builder.step_key or self.options.step_key):
            self._begin_export()
        if self._exported is not None:
            records += self._exported.take(row, position)
            return None
        step = builder.take_step(row if outer is None else outer)
        if step is None and outer is not None:
            step = builder.take_step(row)
        elif step is None and (spread := self._spread(row)) is not row:
            row = unwrapped(spread)
            step = builder.take_step(row)
        if step is None:
            return self._without_step({**outer, **row} if outer else row, position, records)
        self._drop_stepless()
        if outer is None:
            return builder.build(step, row, position)
        step, total = step if isinstance(step, tuple) else (step, None)
        time_s = take_time(outer)
        if outer:
            row = {**outer, **row}
        return builder.of_cells(step, time_s, row, position, total_of(row) if total is None else total)

    def _spread(self, row: Row) -> Row:
        # The object that holds the step of a row without one is spread out: `{"meta": {"iter": 3}, …}`.
        if self.options.step_key:
            return dict(flat_items(row))
        if not self._builder.step_key:
            inner = (key for key, value in row.items() if type(value) is dict and _has_step(key, value))
            self._wrapper = next(inner, "")
        wrapped = row.pop(self._wrapper, None)
        return row if wrapped is None else {**row, **(wrapped if type(wrapped) is dict else {self._wrapper: wrapped})}

    def _begin_export(self) -> None:
        if self._exported is None:
            from rltop.formats.tracker_steps import ExportedRows  # noqa: PLC0415 - few files are an export

            self._drop_stepless()
            self._exported = ExportedRows(self.counts, self._builder)

    def _without_step(self, row: Row, position: FilePosition, records: list[Record]) -> Record | None:
        if self._builder.step_key or self.options.step_key or not self.options.may_count_rows:
            self.counts.miss_step(row, self.counts.lines, self.options.step_key)
            return None
        if self._row_number is not None:
            self._row_number += 1
            return self._numbered(self._row_number, row, position)
        if not any(isinstance(number_of(value), float) for value in row.values()):
            self.counts.miss_step(row, self.counts.lines)
            return None
        self._stepless.append((row, position))
        if len(self._stepless) >= _IMPLICIT_AFTER:
            self._number_rows(records)
        return None

    def _number_rows(self, records: list[Record]) -> None:
        for number, (row, position) in enumerate(self._stepless, 1):
            self._row_number = number
            records.append(self._numbered(number, row, position))
        self._stepless.clear()

    def _numbered(self, number: int, row: Row, position: FilePosition) -> Record:
        self.counts.numbered_rows += 1
        return self._builder.of_cells(number, take_time(row), row, position)

    def _drop_stepless(self) -> None:
        if self._stepless:
            for row, _ in self._stepless:
                self.counts.miss_step(row)
            self._stepless.clear()

    # -- lines that are not strict JSON ------------------------------------------------------------------------

    def _loads_tolerant(self, line: bytes) -> object | None:
        """Parse a line that is not strict JSON, see `patient_loads`; None, and counted, if that fails as well."""
        if not line.strip():
            return None
        try:
            row, broken = patient_loads(line)
        except ValueError:
            try:
                # orjson may parse what is nested too deeply, and its error message is the best.
                return fast_loads()(line)
            except ValueError as error:
                reason = str(error).split(":", maxsplit=1)[0]
            self.counts.lines += 1
            is_conflict = line.startswith(CONFLICT)
            self._refuse("git conflict markers" if is_conflict else reason)
            return None
        self.counts.broken_texts += broken
        return row
