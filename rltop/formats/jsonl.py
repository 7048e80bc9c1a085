"""JSON lines → records, with the parser that suits the amount.

orjson is four times as fast as the standard library, but importing it, with the
`inspect`, `dataclasses` and `uuid` that it asks for, takes as long as parsing 130
rows of 300 keys: worth it for a history, not for a short file or the rows of a first frame.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, cast

from rltop.formats.decoder import CONFLICT, Decoder, DecoderOptions, LineFramer
from rltop.formats.rows import WRITER_STEP, RecordBuilder, Row, number_of, take_time, total_of, unwrapped, widened
from rltop.model import Counts, FilePosition, Record
from rltop.regex import regex

if TYPE_CHECKING:
    from rltop.formats.tracker_steps import ExportedRows

Loads = Callable[[bytes], object]
"""Parses strict JSON; raises `ValueError` for anything else, NaN and Infinity included."""

_BROKEN = regex("[\udc80-\udcff]")
"""How Python stands in for a byte that is no UTF-8."""
_BROKEN_STRING = regex('[\udc80-\udcff][^"]*')

_MOST_DIGITS = 400
"""A longer integer is beyond what a float holds (1.8e308), and past 4,300 digits Python refuses to read it."""


def fast_loads() -> Loads:
    import orjson  # noqa: PLC0415 - see the head of this file

    return orjson.loads


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is not valid JSON")


_DECODE = json.JSONDecoder(parse_constant=_refuse).decode


def ready_loads(text: bytes) -> object:
    """Parse by the standard library, as strict as orjson.

    Raises:
        ValueError: the text is no JSON, or nested too deeply.
    """
    try:
        return cast(object, _DECODE(text.decode()))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def patient_loads(text: bytes) -> tuple[object, int]:
    r"""Parse what strict parsers refuse as a whole for the sake of one value.

    NaN and Infinity are read; an integer too large for a float is infinite; tabs and other control characters may stand
    in a text; a byte that is no UTF-8 is written out in its key or text (`\xe9`), so that keys stay apart.

    Returns:
        The value, and how many keys and texts held bytes that are no UTF-8.

    Raises:
        ValueError: it is no JSON even so.
    """
    readable, broken = readable_text(text)
    try:
        return json.loads(readable, parse_int=whole_number, strict=False), broken
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def readable_text(text: bytes | bytearray) -> tuple[str, int]:
    """JSON as text, bytes that are no UTF-8 written out as they stand in a string; and how many strings have any."""
    try:
        return text.decode(), 0
    except UnicodeDecodeError:
        decoded = text.decode("utf-8", "surrogateescape")
        spelled = _BROKEN.sub(lambda byte: f"\\\\x{ord(byte[0]) & 0xFF:02x}", decoded)
        return spelled, len(_BROKEN_STRING.findall(decoded))


def whole_number(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)


def tolerant_loads(text: bytes) -> tuple[object, int]:
    """As `patient_loads`, and as fast as can be where the text is strict JSON."""
    try:
        return fast_loads()(text), 0
    except ValueError:
        return patient_loads(text)


NAMELESS = "numbers without the name of a metric"


def why_no_row(value: object) -> str:
    is_of_numbers = isinstance(value, list) and value and all(isinstance(each, int | float) for each in value)
    return NAMELESS if is_of_numbers else "not a JSON object"


def object_of(line: bytes) -> dict[str, object] | None:
    """A line as an object, NaN and Infinity in it taken for what they are; None where it is none."""
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
"""So much, ten rows of 300 keys, is parsed by the standard library sooner than orjson is imported."""
_STEP_KEY_SETTLED = 4
"""Rows with the same step key until no other is looked for: the first rows may be a header or a summary."""
_MOST_INDENTED = 100_000
"""Lines that one object may have."""
_IMPLICIT_AFTER = 3
"""Rows without a step, in a row, before their number is taken for the step."""


PHASE = b'{"rltop_phase":'
"""How a line of `JsonlWriter.phase` begins: no row, `live.traces` reads it."""
_END = PHASE + b'"",'
"""How the line begins by which it says that the run is over."""
_VALUE = "value"
"""The key of a row that holds one value, the name of its metric beside it."""


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
        self._given: tuple[bytes, int] | None = None
        self._open: list[bytes] = []
        self._open_start = 0
        self._generation = 0
        self._over_at: int | None = None
        """How many lines there were when the writer said that the run was over."""

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
            # A file of line ends alone is not to cost an error each.
            if line and (self._given is None or not self._is_given(line, start)):
                self._decode(line, start, records)
        return records

    def flush(self) -> list[Record]:
        """The last line if it is an object, which nothing but its line end can follow; a torn one waits."""
        records: list[Record] = []
        last = self._framer.pending
        if last is not None and last != self._given and last[0].rstrip().endswith(b"}") and _is_object(last[0]):
            given, self._given = self._given, last
            # Of a line end that has two parts the first may have come.
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
        """A new file begins: forget the half line, and count rows anew if the writer does."""
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
        """The object over several lines, as `indent` writes it, that this line closes at the margin; None before that.

        A line that begins another object is given back: what was open is none.
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

    # -- lines that are not strict -----------------------------------------------------------------------------

    def _loads_tolerant(self, line: bytes) -> object | None:
        """A line with a value in it that is no JSON, see `patient_loads`; None (and a count) if all of it is none."""
        if not line.strip():
            return None
        try:
            row, broken = patient_loads(line)
        except ValueError:
            try:
                # What is deeply nested it may read, and it says best what is wrong.
                return fast_loads()(line)
            except ValueError as error:
                reason = str(error).split(":", maxsplit=1)[0]
            self.counts.lines += 1
            is_conflict = line.startswith(CONFLICT)
            self._refuse("git conflict markers" if is_conflict else reason)
            return None
        self.counts.broken_texts += broken
        return row
