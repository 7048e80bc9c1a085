"""W&B's own run file (`run-<id>.wandb`) → records, without any of W&B.

A row of history is a row; samples of the machine become keys under `system/` of the row that follows them. Source of
the messages: wandb/proto/wandb_internal.proto. An item whose key was seen before is recognised by the bytes of its key,
which makes reading four times as fast.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import orjson

from rltop.formats.decoder import Envelope, FramedDecoder
from rltop.formats.protobuf import SPAN, VARINT, MalformedMessageError, encode_varint, fields, signed
from rltop.formats.rows import (
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
from rltop.formats.tracker_steps import TRACKER_STEP, PlacedRow, TrackerRow, TrackerSteps
from rltop.formats.wandb.framing import MAGIC, BlockLogFramer
from rltop.formats.wandb.run import RunInfo, read_config
from rltop.model import Counts, FilePosition, Record

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

_ROW_TIME = "_timestamp"


class WandbDecoder(FramedDecoder[BlockLogFramer]):
    """History of a `.wandb` file as rows, with system samples and the end of the run.

    Samples of the machine are averaged over the time since the row before, so that they never look like progress.

    Attributes:
        exit_code: of the process, once it has ended; None before.
    """

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
        self._steps = TrackerSteps(self.counts)
        self._alerts: list[tuple[str, str]] = []
        self._generation = 0

    @property
    def group_size(self) -> int | None:
        return self.run.group_size

    @property
    def step_key(self) -> str:
        return self._steps.key

    @property
    def is_finished(self) -> bool:
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
        self._generation = generation
        records: list[Record] = []
        payloads = self._framer.feed(data, offset)
        for line, (payload, at) in enumerate(payloads, self.counts.lines - len(payloads) + 1):
            try:
                self._decode(payload, at, records)
            except MalformedMessageError as error:
                self.counts.refuse(line, str(error))
        return records

    def take_head(self, data: bytes) -> None:
        """Learn the settings of the run, and which key has its steps; what follows stands later in the file."""
        self.feed(data, 0, 0)
        self._framer.reset()
        self._steps.forget_rows()
        self._alerts.clear()
        self._samples.clear()

    def flush(self) -> list[Record]:
        """Rows that wait for the trainer's first step, where none is known to come."""
        return self._records_of(self._steps.release(is_end=False))

    @property
    def holds_back(self) -> bool:
        return self._steps.is_holding

    def finish(self) -> list[Record]:
        """Rows that still waited for a step. A torn last block is normal: it is not counted."""
        return self._records_of(self._steps.release(is_end=True))

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins: forget the torn block, the samples and how the run ended."""
        del is_restart
        self._framer.reset()
        self._steps = TrackerSteps(self.counts)
        self._alerts.clear()
        self._samples.clear()
        self.run, self.exit_code = RunInfo(), None
        self._outputs.clear()
        self._last_error = ""

    # -- records -----------------------------------------------------------------------------------------------------

    def _decode(self, payload: bytes, at: int, records: list[Record]) -> None:
        for number, wire, a, b in fields(payload, 0, len(payload)):
            if wire != SPAN:
                continue
            if number == _HISTORY:
                self._steps.is_awaited = self.run.names_steps
                row = self._history(payload, a, b, FilePosition(self._generation, at))
                records += self._records_of(self._steps.place(row))
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

    def _history(self, payload: bytes, start: int, stop: int, position: FilePosition) -> TrackerRow:
        cells: Row = {}
        self._take_texts(self._items.items(payload, start, stop, _HISTORY_ITEM), cells)
        number = _whole(cells.pop(TRACKER_STEP, None))
        if number is None:
            number = _outer_step(payload, start, stop)
        # Also of a row that waits for its step: a sample is of the time before the row that it stands before.
        for key, (total, count) in self._samples.items():
            cells[SYSTEM + key] = total / count
        self._samples.clear()
        return TrackerRow(cells, number, time_of(cells.pop(_ROW_TIME, None)), position)

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
        if self._steps.last is not None:
            records += self._records_of([PlacedRow(TrackerRow({}, None, None, position), self._steps.last)])

    def _records_of(self, rows: Iterable[PlacedRow]) -> list[Record]:
        records: list[Record] = []
        for (cells, _, time_s, position, _), step, is_part in rows:
            if not isinstance(step, int):
                self.counts.no_step_lines += 1
                continue
            said = tuple(line for _, line in self._alerts)
            for level, _ in self._alerts:
                cells[ALERTS + level] = cells.get(ALERTS + level, 0.0) + 1.0
            self._alerts.clear()
            record = self._builder.of_cells(step, time_s, self._in_order(cells), position, self.run.total_steps)
            records.append(record._replace(said=said, is_part=is_part) if said or is_part else record)
            self.envelope = "flat"
        return records

    def _in_order(self, cells: Row) -> Row:
        """The cells by key: W&B writes the items of a row in any order, another one each time."""
        if cells.keys() != self._last_keys.keys():
            self._last_keys = dict.fromkeys(sorted(cells))
        return {key: cells[key] for key in self._last_keys}


def _outer_step(payload: bytes, start: int, stop: int) -> int | None:
    """W&B's own number of a row where it is no item: field 2, whose number is left out when it is 0."""
    for field, wire, a, b in fields(payload, start, stop):
        if field == _HISTORY_STEP and wire == SPAN:
            return next((c for inner, kind, c, _ in fields(payload, a, b) if inner == 1 and kind == VARINT), 0)
    return None


def _whole(value: object) -> int | None:
    step = step_of(value)
    return step if isinstance(step, int) else None


def _error_in(outputs: Iterable[bytes]) -> str:
    """The newest line of a process's output that tells of a failure; empty where none does."""
    from rltop.formats.console.failures import read_error  # noqa: PLC0415 - only for a run that failed

    pieces = []
    for payload in outputs:
        inner = fields(payload, 0, len(payload))
        pieces += [payload[a:b] for number, wire, a, b in inner if number == _OUTPUT_TEXT and wire == SPAN]
    lines = b"".join(pieces).decode("utf-8", "replace").splitlines()
    return next((found[0] for line in reversed(lines) if (found := read_error(line))), "")
