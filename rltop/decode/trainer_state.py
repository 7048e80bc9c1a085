"""Whole JSON documents → records: `trainer_state.json`, and lists or tables of rows.

Such a file is written anew each time, and not atomically: half a document is not
an error but "not yet". Rows that were there before are not given out twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import cast

import orjson

from rltop.decode.decoder import Envelope
from rltop.decode.framing import BOM
from rltop.decode.records import MAX_STEP, RecordBuilder
from rltop.decode.repeated import RepeatedRows
from rltop.decode.values import number_of
from rltop.model import Counts, Place, Record

MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
_MAX_EARLY_ATTEMPTS = 64
_ROW_LISTS = ("log_history", "history", "metrics", "logs", "rows", "records", "data")
"""Where the rows of a document may stand, most trusted first; else under the only list of objects."""

_TOLD, _LONGEST_KEY = 4, 40

Row = Mapping[str, object]


class DocumentDecoder:
    """Rows of a document that is only readable as a whole.

    Bytes of one generation are collected until they are a document; `reset` begins
    the next. A document that begins with the rows of the one before yields only
    the rest, so whoever follows the file need not expect a restart at a rewrite.

    Attributes:
        is_waiting: there are bytes, but no whole document yet.
    """

    is_rewritten = True
    is_finished = False
    failure = ""
    stopped = ""

    def __init__(self, step_key: str = "") -> None:
        self.counts = Counts()
        self.envelope: Envelope = ""
        self._builder = RecordBuilder(self.counts, step_key)
        self._repeated = RepeatedRows()
        self._bytes = bytearray()
        self._attempts = 0
        self._is_done = False
        self._is_too_large = False
        self._is_overfull = False
        self._place = Place(0, 0)

    @property
    def is_waiting(self) -> bool:
        """Has something come, but no whole document?"""
        return bool(self._bytes) and not self._is_done

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Collect; decode once what has come is a whole document."""
        if self._is_done:
            self._look_behind(data)
        if self._is_done or self._is_too_large:
            return []
        if len(self._bytes) + len(data) > MAX_DOCUMENT_BYTES:
            self._is_too_large = True
            self._bytes = bytearray()
            self.counts.oversize_lines += 1
            return []
        if not self._bytes:
            self._place = Place(generation, offset)
        self._bytes += data
        if self._attempts >= _MAX_EARLY_ATTEMPTS or not self._may_be_whole():
            return []
        self._attempts += 1
        return self._decode()

    def flush(self) -> list[Record]:
        """Nothing: a row is given out when a document is whole."""
        return []

    def finish(self) -> list[Record]:
        """Decode what has come, if it is a document; count it as bad if it is none."""
        if self._is_done or not self._bytes.strip():
            return []
        records = self._decode()
        if not self._is_done:
            self._refuse("a JSON document that is not whole")
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        """The file begins anew; whether the run does, its rows tell."""
        self._bytes = bytearray()
        self._attempts = 0
        self._is_done = self._is_too_large = self._is_overfull = False
        self._repeated.rewind()

    def _look_behind(self, data: bytes) -> None:
        """Only white space may follow a document; anything else is counted, once."""
        if not self._is_overfull and data.strip():
            self._is_overfull = True
            self._refuse("text behind the JSON document")

    def _may_be_whole(self) -> bool:
        """Does it end as a document ends: a bracket at the margin, or on the only line?"""
        end = self._bytes[-256:].rstrip()
        if not end.endswith((b"}", b"]")):
            return False
        return len(end) < 2 or end[-2:-1] == b"\n" or b"\n" not in self._bytes.strip()

    def _decode(self) -> list[Record]:
        parsed = _parse(self._bytes)
        if parsed is None:
            return []
        self._is_done = True
        self.counts.lines += self._bytes.count(b"\n") + (not self._bytes.endswith(b"\n"))
        self._bytes = bytearray()
        rows, total = _rows_of(parsed)
        if not rows:
            self._refuse(f"a JSON document without rows: {_found_in(parsed)}")
        self.envelope = self.envelope or "flat"
        return list(self._records(rows, total))

    def _records(self, rows: Iterable[object], total: int | None) -> Iterator[Record]:
        for row in rows:
            if not isinstance(row, dict):
                self._refuse("an entry that is no object")
                continue
            record = self._builder.from_row(row, self._place)
            if record is None:
                continue
            if total is not None and record.total_steps is None:
                record = record._replace(total_steps=total)
            if self._repeated.is_new(record):
                yield record
            else:
                self.counts.rows -= 1

    def _refuse(self, reason: str) -> None:
        self.counts.refuse(1, reason)


def _parse(data: bytearray) -> object | None:
    """The document, or None if it is not whole. Literal NaN and Infinity are read."""
    raw = data[len(BOM) :] if data.startswith(BOM) else data
    try:
        return cast(object, orjson.loads(raw))
    except orjson.JSONDecodeError:
        pass
    try:
        return cast(object, json.loads(raw.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _found_in(document: object) -> str:
    """What a document holds that has no rows, in words."""
    if not isinstance(document, dict):
        return "an empty list" if document == [] else "neither a list nor an object"
    columns = {key: len(value) for key, value in document.items() if isinstance(value, list)}
    if len(columns) > 1:
        told = ", ".join(f"{key[:_LONGEST_KEY]} {size:,}" for key, size in list(columns.items())[:_TOLD])
        return f"{len(columns)} lists that are not of one length ({told}{', …' if len(columns) > _TOLD else ''})"
    told = ", ".join(key[:_LONGEST_KEY] for key in list(document)[:_TOLD])
    return f"an object of {told}{', …' if len(document) > _TOLD else ''}" if told else "an empty object"


def _rows_of(document: object) -> tuple[Sequence[object], int | None]:
    """The rows of a document, and how many steps the run wants to make."""
    if isinstance(document, list):
        return document, None
    if not isinstance(document, dict):
        return (), None
    total = number_of(document.get("max_steps"))
    steps = int(total) if isinstance(total, float) and 0 < total < MAX_STEP else None
    for key in _ROW_LISTS:
        if _is_row_list(document.get(key)):
            return cast(list[object], document[key]), steps
    lists = [value for value in document.values() if _is_row_list(value)]
    if len(lists) == 1:
        return cast(list[object], lists[0]), steps
    inner = [document[key] for key in _ROW_LISTS if isinstance(document.get(key), dict)]
    for each in (document, *cast(list[Row], inner)):
        rows = _by_step(each) or _by_column(each)
        if rows:
            return rows, steps
    return (), steps


def _is_row_list(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)


def _by_step(document: Row) -> list[Row]:
    """Rows of `{"10": {…}, "20": {…}}`: the key is the step."""
    rows: list[Row] = []
    for key, value in document.items():
        if not key.isdecimal() or not isinstance(value, dict):
            return []
        rows.append({"step": key, **value})
    return rows


def _by_column(document: Row) -> list[Row]:
    """Rows of `{"step": […], "loss": […]}`; without a step column the row's number is the step."""
    columns = {key: value for key, value in document.items() if isinstance(value, list)}
    lengths = {len(column) for column in columns.values()}
    if len(columns) < 2 or len(lengths) != 1:
        return []
    count = lengths.pop()
    return [{"step": at + 1, **{key: column[at] for key, column in columns.items()}} for at in range(count)]


TrainerStateDecoder = DocumentDecoder
"""`trainer_state.json` is a document whose rows stand in `log_history`."""
