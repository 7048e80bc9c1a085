"""CSV files → records: `progress.csv`, `metrics.csv`, and handmade tables.

The first row is the header. A quoted cell may contain line feeds (printed arrays do), so a row ends at a line feed
outside quotes. Some trainers rewrite the whole file with another header when a new key appears: repeated rows are not
emitted again.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rltop.formats.decoder import Decoder, LineFramer
from rltop.formats.rows import (
    VALUE,
    WRITER_STEP,
    LongTable,
    RecordBuilder,
    RepeatedRows,
    Row,
    is_long,
    number_of,
    step_of,
)
from rltop.model import Counts, FilePosition, Record
from rltop.model.keys import STEP_KEYS
from rltop.regex import regex

if TYPE_CHECKING:
    from rltop.formats.tracker_steps import ExportedRows

MAX_RECORD_BYTES = 4 * 1024 * 1024
"""Limit for one row, so that an unclosed quote does not swallow the rest of the file."""
MAX_COLUMNS = 20_000
STRAY_LINES = 20
"""A quote is stray, and costs its own line only, if so many lines behind it are each certainly a whole row."""
_DELIMITERS = (",", "\t", ";")
_DECIMAL_COMMA = regex(r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*")


_EXPORTED = {"Step": "step", "Wall time": "wall_time"}
"""Names of step and time in chart downloads of W&B and TensorBoard."""
_LEAST, _MOST, _OF_RUN = "__MIN", "__MAX", " - "
_LEFT_OUT = "\0"
"""Replaces the name of a column that duplicates another or holds row numbers."""


class CsvDecoder(Decoder):
    """Rows under a header; an empty cell means "not logged".

    The step is the first documented step key in the header; without one, rows are
    numbered. A later line of names only is a new header.

    Args:
        step_key: the column that holds the step; empty for the documented list.
        may_count_rows: number the rows of a table without a step; off if reading starts in the middle of the file.
            There, lines may be inside quotes, so they are skipped until one is certainly a row.
    """

    is_rewritten = True

    def __init__(self, step_key: str = "", *, may_count_rows: bool = True) -> None:
        self.counts = Counts()
        self._step_key = step_key
        self._framer = LineFramer(self.counts)
        self._builder = RecordBuilder(self.counts, step_key)
        self._repeated = RepeatedRows()
        self._open: list[bytes] = []
        self._open_bytes = 0
        self._open_start = 0
        self._is_quoted = self._may_be_stray = False
        self._header: list[str] = []
        self._delimiter = ","
        self._has_step = False
        self._gathered: LongTable | ExportedRows | None = None
        self._row_number = 0
        self._may_count_rows = may_count_rows
        self._is_in_the_middle = False
        self._generation = 0

    def take_head(self, data: bytes) -> None:
        self.feed(data, 0, 0)
        self._framer.reset()
        self._open.clear()
        self._repeated.rewind()
        self._gathered = self._gatherer()
        self._is_in_the_middle = True

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        self._generation = generation
        records: list[Record] = []
        for line, start in self._framer.feed(data, offset):
            records.extend(self._take_line(line, start))
        is_full = isinstance(self._gathered, LongTable) and self._gathered.is_full
        return [*records, *self.flush()] if is_full else records

    def flush(self) -> list[Record]:
        """The rows of a long table so far, and those waiting for a step; other rows are emitted at once."""
        return self._release(is_end=False)

    @property
    def has_more(self) -> bool:
        return isinstance(self._gathered, LongTable) and self._gathered.has_more

    def decode_more(self) -> list[Record]:
        return self._new_ones(self._gathered.decode_more()) if isinstance(self._gathered, LongTable) else []

    @property
    def holds_back(self) -> bool:
        """Is there a partial line or an unclosed quoted cell, or does a row wait for its step?"""
        is_waiting = self._gathered is not None and self._gathered.is_holding
        return is_waiting or self._framer.pending is not None or bool(self._open)

    def finish(self) -> list[Record]:
        """Decode the last row if it has a cell for every column; a shorter one was cut off."""
        records: list[Record] = []
        last = self._framer.finish()
        if last is not None:
            records.extend(self._take_line(*last, is_ended=False))
        records.extend(self._release(is_end=True))
        if len(self._open) > 1 and self._may_be_stray:
            records.extend(self._take_anew(is_ended=last is None))
        elif self._open:
            self._open.clear()
            self._refuse("incomplete row")
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        """The file starts over with a header, whether or not the writer restarted."""
        self._framer.reset()
        self._open.clear()
        self._header, self._gathered = [], None
        self._row_number = 0
        self._is_in_the_middle = False
        self._repeated.rewind()

    def _take_line(self, line: bytes, start: int, *, is_ended: bool = True) -> Iterator[Record]:
        self.counts.lines += 1
        if self._is_in_the_middle:
            if line.count(b'"') % 2 or not self._is_row(line):
                return
            self._is_in_the_middle = False
        if not self._open:
            self._open_start, self._open_bytes, self._is_quoted, self._may_be_stray = start, 0, False, True
        has_rows_only, is_odd = self._may_be_stray, line.count(b'"') % 2 == 1
        if self._open and has_rows_only:
            self._may_be_stray = not is_odd and self._is_row(line)
        self._open.append(line)
        self._open_bytes += len(line)
        if self._open_bytes > MAX_RECORD_BYTES:
            self._open.clear()
            self._refuse("unclosed quote")
            return
        self._is_quoted ^= is_odd
        if self._is_quoted:
            if self._may_be_stray and len(self._open) > STRAY_LINES:
                yield from self._take_anew()
            return
        text = b"\n".join(self._open).decode("utf-8", "replace").removesuffix("\r")
        if len(self._open) > 1 and has_rows_only and self._is_row(line) and self._cells(text, is_strict=True) is None:
            yield from self._take_anew(is_ended=is_ended)  # text behind the quote: it opens a cell and closes none
            return
        self._open.clear()
        yield from self._take_record(text, is_ended=is_ended)

    def _take_anew(self, *, is_ended: bool = True) -> Iterator[Record]:
        """Refuse the line with the stray quote, and take each line behind it as a row."""
        (stray, *lines), self._open = self._open, []
        self.counts.refuse(self.counts.lines - len(lines), "unclosed quote")
        self._open_start += len(stray) + 1
        for number, line in enumerate(lines, 1):
            text = line.decode("utf-8", "replace").removesuffix("\r")
            yield from self._take_record(text, is_ended=is_ended or number < len(lines))
            self._open_start += len(line) + 1

    def _take_record(self, text: str, *, is_ended: bool) -> Iterator[Record]:
        is_comment = not self._header and text.startswith("#")  # some monitors write one above the header
        if is_comment or not text.strip():
            return
        cells = self._cells(text) if self._header else None
        if not self._header or (cells is not None and self._is_new_header(cells)):
            yield from self._release(is_end=True)
            self._take_header(text)
            return
        reason = self._why_not(cells, is_ended=is_ended)
        if cells is None or reason:
            self._refuse(reason)
            return
        whole = zip(self._header, cells if is_ended else cells[:-1], strict=False)
        row: Row = {key: cell for key, cell in whole if cell and key != _LEFT_OUT}
        position = FilePosition(self._generation, self._open_start)
        gathered = self._gathered
        if isinstance(gathered, LongTable):
            if VALUE not in row or gathered.take(row, position):
                return
        elif gathered is not None:
            yield from self._new_ones(gathered.take(row, position))
            return
        record = self._record(row, position)
        yield from self._new_ones([record] if record is not None else [])

    def _release(self, *, is_end: bool) -> list[Record]:
        return [] if self._gathered is None else self._new_ones(self._gathered.release(is_end=is_end))

    def _new_ones(self, records: list[Record]) -> list[Record]:
        new = [record for record in records if self._repeated.is_new(record)]
        self.counts.rows -= len(records) - len(new)
        return new

    def _is_row(self, line: bytes) -> bool:
        """Is the line, if it is not part of a quoted cell, certainly a whole row?"""
        cells = self._cells(line.decode("utf-8", "replace").removesuffix("\r"))
        if cells is None or len(cells) != len(self._header) or not self._has_step:
            return False
        row = dict(zip(self._header, cells, strict=True))
        return any(step_of(row[key]) is not None for key in self._step_keys if key in row)

    def _is_new_header(self, cells: list[str]) -> bool:
        is_like = len(cells) == len(self._header) > 1 and len(set(cells)) == len(cells)
        return is_like and all(cell.strip() and number_of(cell) is None and step_of(cell) is None for cell in cells)

    def _why_not(self, cells: list[str] | None, *, is_ended: bool) -> str:
        if cells is None:
            return "not a CSV row"
        if len(cells) > len(self._header):
            return "more cells than the header"
        return "incomplete row" if len(cells) < len(self._header) and not is_ended else ""

    def _record(self, row: Row, position: FilePosition) -> Record | None:
        self._row_number += 1
        if self._has_step:
            return self._builder.from_row(row, position)
        if not self._may_count_rows:
            self.counts.no_step_lines += 1
            return None
        self.counts.numbered_rows += 1
        return self._builder.build(self._row_number, row, position)

    def _take_header(self, text: str) -> None:
        self._delimiter = max(_DELIMITERS, key=text.count)
        names = self._cells(text)
        if names is None or len(names) > MAX_COLUMNS:
            self._refuse("not a CSV header")
            return
        stripped = [name.strip() or f"column {i}" for i, name in enumerate(names, 1)]
        self._header = _as_logged([_EXPORTED.get(name, name) for name in stripped])
        if not names[0] and len(names) > 1:
            self._header[0] = _LEFT_OUT  # row numbers, as pandas writes them
        self._builder = RecordBuilder(self.counts, self._step_key)
        self._gathered = self._gatherer()
        self._has_step = any(self._builder.may_hold_step(key, self._header) for key in self._step_keys)

    def _gatherer(self) -> LongTable | ExportedRows | None:
        """The object that collects long-table or exported rows; None for any other table."""
        if is_long(self._header):
            return LongTable(self._builder)
        if WRITER_STEP in self._header and not self._step_key:
            from rltop.formats.tracker_steps import ExportedRows  # noqa: PLC0415 - few files are an export

            return ExportedRows(self.counts, self._builder)
        return None

    @property
    def _step_keys(self) -> Sequence[str]:
        return (self._step_key,) if self._step_key else STEP_KEYS

    def _cells(self, text: str, *, is_strict: bool = False) -> list[str] | None:
        try:
            cells = next(csv.reader([text], delimiter=self._delimiter, strict=is_strict), [])
        except csv.Error:
            return None
        if self._delimiter == "," or "," not in text:
            return cells
        return [cell.replace(",", ".") if _DECIMAL_COMMA.fullmatch(cell) else cell for cell in cells]


def _as_logged(names: list[str]) -> list[str]:
    """Column names of a W&B chart (`run - metric`, with its minimum and maximum) as the run logged them.

    If the columns belong to several runs, the run names are kept as prefixes.
    """
    charted = {name for name in names if f"{name}{_LEAST}" in names and f"{name}{_MOST}" in names}
    if not charted:
        return names
    runs = {name.rpartition(_OF_RUN)[0] for name in charted}
    is_one = len(runs) == 1 and "" not in runs
    copies = {f"{name}{end}" for name in charted for end in (_LEAST, _MOST)}
    return [
        _LEFT_OUT if name in copies else name.rpartition(_OF_RUN)[2] if is_one and name in charted else name
        for name in names
    ]
