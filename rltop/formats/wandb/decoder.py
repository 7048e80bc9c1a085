"""W&B's own run file (`run-<id>.wandb`) → records, without any of W&B.

A row of history is a row; samples of the machine become keys under `system/` of
the row that follows them. Source of the messages: wandb/proto/wandb_internal.proto.
An item whose key was seen before is recognised by the bytes of its key, which makes reading
four times as fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import orjson

from rltop.formats.decoder import Envelope, FramedDecoder
from rltop.formats.protobuf import SPAN, VARINT, MalformedMessageError, encode_varint, fields, signed
from rltop.formats.rows import (
    ROWS_AT_ZERO,
    RecordBuilder,
    Row,
    alert_line,
    clipped_key,
    count_other,
    flat_items,
    number_of,
    step_of,
    time_of,
)
from rltop.formats.wandb.framing import MAGIC, BlockLogFramer
from rltop.formats.wandb.run import RunInfo, read_config
from rltop.model import Counts, FilePosition, Record
from rltop.model.keys import STEP_KEYS, is_bookkeeping_key

_KEY, _NESTED, _VALUE = 1, 2, 16
_VALUE_FIELD = b"\x82\x01"
"""Key of field 16 with a span: the JSON text."""
_KEYS_KEPT = 20_000
_ONE_BYTE = 0x80
"""Lengths below it take one byte."""


class ItemReader:
    """Reads items and remembers the bytes of their keys."""

    def __init__(self) -> None:
        self._keys: dict[bytes, str] = {}

    def items(self, payload: bytes, pos: int, stop: int, number: int) -> Iterator[tuple[str, bytes]]:
        """Key and JSON text of every field `number` of the message in `payload[pos:stop]`.

        Several parts of a key are joined with `/`.

        Args:
            payload: a record of the file.
            pos: where the message begins in it.
            stop: where it ends.
            number: of the field that holds an item.

        Raises:
            MalformedMessageError: the span is no message; the items before were given.
        """
        keys, lead = self._keys, number << 3 | SPAN
        while pos < stop:
            while stop - pos > 6 and payload[pos] == lead:
                end = pos + 2 + payload[pos + 1]
                middle = pos + 4 + payload[pos + 3]
                key = keys.get(payload[pos + 2 : middle])
                # A known key is as long as it says, so only what follows it is to be checked.
                if key is None or middle + 3 > end or end > stop or payload[pos + 1] >= _ONE_BYTE:
                    break
                if payload[middle : middle + 2] != _VALUE_FIELD or middle + 3 + payload[middle + 2] != end:
                    break
                yield key, payload[middle + 3 : end]
                pos = end
            for field, wire, a, b in fields(payload, pos, stop):
                if field == number and wire == SPAN:
                    yield self._read(payload, a, b)
                if wire == SPAN:
                    pos = b
                    break
            else:
                return

    def _read(self, payload: bytes, start: int, stop: int) -> tuple[str, bytes]:
        """An item of any form; the bytes of its key are remembered if it is of the usual one."""
        parts: list[bytes] = []
        field_of_key, text = 0, b""
        for field, wire, a, b in fields(payload, start, stop):
            if wire != SPAN:
                continue
            if field == _VALUE:
                text = payload[a:b]
            elif field in (_KEY, _NESTED):
                field_of_key = field
                parts.append(payload[a:b])
        key = clipped_key("/".join(part.decode("utf-8", "replace") for part in parts))
        if len(parts) == 1 and len(parts[0]) < _ONE_BYTE:
            key_bytes = bytes((field_of_key << 3 | SPAN, len(parts[0]))) + parts[0]
            usual = key_bytes + _VALUE_FIELD + encode_varint(len(text)) + text
            if payload[start:stop] == usual:
                if len(self._keys) >= _KEYS_KEPT:
                    self._keys.clear()
                self._keys[key_bytes] = key
        return key, text


SYSTEM = "system/"
ALERTS = "alerts/"

_HISTORY, _CONFIG, _STATS, _ALERT, _OUTPUT, _RUN, _EXIT = 2, 5, 7, 10, 13, 17, 18
_HISTORY_ITEM, _HISTORY_STEP, _STATS_ITEM = 1, 2, 3

_OUTPUT_TEXT = 3
_OUTPUTS_KEPT = 64
"""Newest pieces of what the process wrote on its terminal: a failure stands at the end."""

_OWN_STEP_KEYS = tuple(key for key in STEP_KEYS if key != "_step")
_ROW_NUMBER = "_step"
_ROW_TIME = "_timestamp"
_TIMINGS = ("profiling/", "timing", "time/", "system/")
_ROWS_HELD = 3
"""Rows without a step of the trainer's own, from the first on, before W&B's is taken for good."""


class _Row(NamedTuple):
    """One row of history before it is known what its step is."""

    cells: Row
    number: int | None
    position: FilePosition


class WandbDecoder(FramedDecoder[BlockLogFramer]):
    """History of a `.wandb` file as rows, with system samples and the end of the run.

    The step is the trainer's own where a row holds one under a known key; a row
    without it belongs to the newest step before it, as in W&B's charts. Only where
    no row holds one is it W&B's `_step`. Samples of the machine are averaged over
    the time since the row before, so that they never look like progress.

    Attributes:
        run: what the file says of the run.
        exit_code: of the process, once it has ended; None before.
    """

    is_rewritten = False

    def __init__(self) -> None:
        self.counts = Counts()
        self.envelope: Envelope = ""
        self.run = RunInfo()
        self.exit_code: int | None = None
        self._outputs: deque[bytes] = deque(maxlen=_OUTPUTS_KEPT)
        self._last_error = ""
        self._framer = BlockLogFramer(self.counts, MAGIC)
        self._builder = RecordBuilder(self.counts)
        self._items = ItemReader()
        self._last_keys: dict[str, None] = {}
        self._samples: dict[str, list[float]] = {}
        self._step_key = ""
        self._last_step: int | None = None
        self._held: list[_Row] = []
        self._alerts: list[tuple[str, str]] = []
        self._logged_at_zero: dict[str, int] = {}
        self._generation = 0

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, as the settings of the run say."""
        return self.run.group_size

    @property
    def step_key(self) -> str:
        """The key that the steps are read from; empty until a row has told."""
        return self._step_key

    @property
    def is_finished(self) -> bool:
        """Has the run said that it is over?"""
        return self.exit_code is not None

    @property
    def failure(self) -> str:
        """The last error that the process wrote, else the exit code in words, if it was not 0."""
        if not self.exit_code:
            return ""
        if self._last_error:
            return f"{self._last_error} (exit code {self.exit_code})"
        return f"the process ended with exit code {self.exit_code}"

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode every record that `data` completes."""
        self._generation = generation
        records: list[Record] = []
        payloads = self._framer.feed(data, offset)
        for line, (payload, at) in enumerate(payloads, self.counts.lines - len(payloads) + 1):
            try:
                self._decode(payload, at, records)
            except MalformedMessageError as error:
                self._refuse(str(error), line)
        return records

    def take_head(self, data: bytes) -> None:
        """Learn the settings of the run, and which key has its steps; what follows stands later in the file."""
        self.feed(data, 0, 0)
        self._framer.reset()
        self._held.clear()
        self._alerts.clear()
        self._samples.clear()
        self._last_step = None

    def flush(self) -> list[Record]:
        """Nothing: rows are given out as they come."""
        return []

    def finish(self) -> list[Record]:
        """Rows that still waited for a step. A torn last block is normal: it is not counted."""
        records: list[Record] = []
        if self._held:
            self._take_row_numbers(records)
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins: forget the torn block, the samples and how the run ended."""
        del is_restart
        self._framer.reset()
        self._held.clear()
        self._alerts.clear()
        self._samples.clear()
        self.run, self.exit_code = RunInfo(), None
        self._outputs.clear()
        self._last_error = ""
        self._step_key, self._last_step = "", None
        self._logged_at_zero.clear()

    # -- records -----------------------------------------------------------------------------------------------------

    def _decode(self, payload: bytes, at: int, records: list[Record]) -> None:
        for number, wire, a, b in fields(payload, 0, len(payload)):
            if wire != SPAN:
                continue
            if number == _HISTORY:
                self._place_row(self._history(payload, a, b, FilePosition(self._generation, at)), records)
            elif number == _STATS:
                self._sample(payload, a, b)
            elif number == _ALERT:
                self._take_alert(payload, a, b, FilePosition(self._generation, at), records)
            elif number == _OUTPUT:
                self._outputs.append(payload[a:b])
            elif number == _RUN:
                self.run = self.run.with_run(payload, a, b)
            elif number == _CONFIG:
                self.run = self.run.with_config(read_config(payload, a, b))
            elif number == _EXIT:
                code = next((c for inner, kind, c, _ in fields(payload, a, b) if inner == 1 and kind == VARINT), 0)
                self.exit_code = signed(code)
                self._last_error = _error_in(self._outputs) if self.exit_code else ""

    def _history(self, payload: bytes, start: int, stop: int, position: FilePosition) -> _Row:
        cells: Row = {}
        self._take_texts(self._items.items(payload, start, stop, _HISTORY_ITEM), cells)
        number = _step_in(cells.pop(_ROW_NUMBER, None))
        if number is None:
            number = _outer_step(payload, start, stop)
        # Also of a row that waits for its step: a sample is of the time before the row that it stands before.
        for key, (total, count) in self._samples.items():
            cells[SYSTEM + key] = total / count
        self._samples.clear()
        return _Row(cells, number, position)

    def _take_texts(self, items: Iterable[tuple[str, bytes]], cells: Row) -> None:
        for key, text in items:
            try:
                cells[key] = float(text)
            except ValueError:
                self._take_json(key, text, cells)

    def _take_json(self, key: str, text: bytes, cells: Row) -> None:
        """A value that is no bare number: null, a boolean, text, or an object of numbers."""
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            self.counts.text_values += 1
            return
        for name, leaf in flat_items({key: value}):
            if number_of(leaf) is None:  # left out at once: a row of numbers alone is built in half the time
                count_other(leaf, self.counts)
            else:
                cells[name] = leaf

    def _sample(self, payload: bytes, start: int, stop: int) -> None:
        """Samples of the machine, kept until a row comes."""
        for key, text in self._items.items(payload, start, stop, _STATS_ITEM):
            try:
                value = float(text)
            except ValueError:
                self.counts.text_values += 1
                continue
            if value - value == 0.0:
                sample = self._samples.get(key)
                if sample is None:
                    self._samples[key] = [value, 1.0]
                else:
                    sample[0] += value
                    sample[1] += 1.0

    def _take_alert(self, payload: bytes, start: int, stop: int, position: FilePosition, records: list[Record]) -> None:
        """An alert that the training script raised: part of the newest row, or of the first one where there is none."""
        texts = {number: payload[a:b] for number, wire, a, b in fields(payload, start, stop) if wire == SPAN}
        title, text, level = (texts.get(number, b"").decode("utf-8", "replace") for number in (1, 2, 3))
        level = clipped_key(level.lower() or "info")
        self._alerts.append((level, alert_line(level, title, text)))
        if self._last_step is not None:
            self._give_out(_Row({}, None, position), self._last_step, records)

    # -- steps -------------------------------------------------------------------------------------------------------

    def _place_row(self, row: _Row, records: list[Record]) -> None:
        """Give a row its step, or hold it until it is known which key has the steps."""
        if not self._step_key:
            own = next((key for key in _OWN_STEP_KEYS if _step_in(row.cells.get(key)) is not None), None)
            if own is None:
                self._held.append(row)
                if len(self._held) >= _ROWS_HELD:
                    self._take_row_numbers(records)
                return
            self._step_key = own
            first = _step_in(row.cells[own])
            for held in self._held:
                self._give_out(held, _least(held.number, first), records)
            self._held.clear()
        if self._step_key == _ROW_NUMBER:
            self._give_out(row, row.number, records)
            return
        step = _step_in(row.cells.get(self._step_key))
        if step == 0 and self._stays_at_zero(row.cells):
            self._step_key = _ROW_NUMBER
            self._give_out(row, row.number, records)
            return
        if step is not None:
            del row.cells[self._step_key]
        self._give_out(row, self._last_step if step is None else step, records)

    def _stays_at_zero(self, cells: Row) -> bool:
        """Has some metric been logged so often at step 0 that nobody can be counting? Timings repeat within a step."""
        for key in cells:
            if not (key.startswith(_TIMINGS) or is_bookkeeping_key(key)):
                self._logged_at_zero[key] = self._logged_at_zero.get(key, 0) + 1
        return max(self._logged_at_zero.values(), default=0) > ROWS_AT_ZERO

    def _take_row_numbers(self, records: list[Record]) -> None:
        self._step_key = _ROW_NUMBER
        for row in self._held:
            self._give_out(row, row.number, records)
        self._held.clear()

    def _give_out(self, row: _Row, step: int | None, records: list[Record]) -> None:
        if step is None:
            self.counts.no_step_lines += 1
            return
        cells = row.cells
        time_s = time_of(cells.pop(_ROW_TIME, None))
        self._last_step = step
        said = tuple(line for _, line in self._alerts)
        for level, _ in self._alerts:
            cells[ALERTS + level] = cells.get(ALERTS + level, 0.0) + 1.0
        self._alerts.clear()
        record = self._builder.of_cells(step, time_s, self._in_order(cells), row.position, self.run.total_steps)
        records.append(record._replace(said=said) if said else record)
        self.envelope = "flat"

    def _in_order(self, cells: Row) -> Row:
        """The cells by key: W&B writes the items of a row in any order, another one each time."""
        if cells.keys() != self._last_keys.keys():
            self._last_keys = dict.fromkeys(sorted(cells))
        return {key: cells[key] for key in self._last_keys}

    def _refuse(self, reason: str, line: int) -> None:
        self.counts.refuse(line, reason)


def _outer_step(payload: bytes, start: int, stop: int) -> int | None:
    """W&B's own number of a row where it is no item: field 2, whose number is left out when it is 0."""
    for field, wire, a, b in fields(payload, start, stop):
        if field == _HISTORY_STEP and wire == SPAN:
            return next((c for inner, kind, c, _ in fields(payload, a, b) if inner == 1 and kind == VARINT), 0)
    return None


def _step_in(value: object) -> int | None:
    """A whole number; a step with its total behind it is no step here."""
    step = step_of(value)
    return step if isinstance(step, int) else None


def _least(number: int | None, first: int | None) -> int | None:
    """A row from before the first step of the trainer: W&B's number, unless it would lie behind that step."""
    if number is None or first is None:
        return first if number is None else number
    return min(number, first)


def _error_in(outputs: Iterable[bytes]) -> str:
    """The newest line of a process's output that tells of a failure; empty where none does."""
    from rltop.formats.console.failures import read_error  # noqa: PLC0415 - only for a run that failed

    pieces = []
    for payload in outputs:
        inner = fields(payload, 0, len(payload))
        pieces += [payload[a:b] for number, wire, a, b in inner if number == _OUTPUT_TEXT and wire == SPAN]
    lines = b"".join(pieces).decode("utf-8", "replace").splitlines()
    return next((found[0] for line in reversed(lines) if (found := read_error(line))), "")
