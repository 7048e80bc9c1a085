"""SwanLab's own run file (`run-<id>.swanlab`) → records, without any of SwanLab.

A log of blocks as W&B's, with a record for each value. Values of one step are a row; samples of the machine become keys
under `system/` of the row that follows them. Source of the messages: swanlab/proto/swanlab/record/v1 of swanlab 0.10.
"""

from __future__ import annotations

import struct

from rltop.formats.decoder import Envelope
from rltop.formats.protobuf import FIXED64, SPAN, VARINT, fields, signed
from rltop.formats.rows import MAX_STEP, Gatherer, RecordBuilder, clipped_key
from rltop.formats.wandb import BlockLogDecoder, BlockLogFramer
from rltop.model import Counts, FilePosition, Record

MAGIC = b":SWL\xd6\xe1\x02"
"""Name, magic number 0xE1D6 little-endian, version 2."""
SYSTEM = "system/"

_START, _FINISH, _COLUMN, _SCALAR = 10, 11, 12, 13
_NAME = 4
_STATE, _ERROR = 1, 2
_CLASS, _COLUMN_KEY, _SYSTEM_CLASS = 1, 3, 2
_KEY, _STEP, _TIME, _VALUE = 1, 2, 4, 5
_SECONDS, _NANOS = 1, 2
_FAILURES = {2: "SwanLab has the run as crashed", 3: "SwanLab has the run as aborted"}
_LONGEST_ERROR = 200
_DOUBLE = struct.Struct("<d")


class SwanLabDecoder(BlockLogDecoder):
    """Values of a `.swanlab` file as rows, with samples of the machine and the end of the run.

    Attributes:
        name: what the run is called; empty until the file says it.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self.envelope: Envelope = ""
        self._framer = BlockLogFramer(self.counts, MAGIC)
        self._builder = RecordBuilder(self.counts)
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.name = ""
        self._rows = Gatherer(self._builder)
        self._of_machine: set[str] = set()
        self._state = 0
        self._error = ""

    @property
    def is_finished(self) -> bool:
        return self._state > 0

    @property
    def failure(self) -> str:
        """How the run ended, if not well: the last line of its error."""
        return self._error if self._error and self._state in _FAILURES else _FAILURES.get(self._state, "")

    def flush(self) -> list[Record]:
        row = self._rows.give_out()
        return [row] if row is not None else []

    def finish(self) -> list[Record]:
        """The last row. A torn last block is normal: it is not counted."""
        return self.flush()

    def reset(self, *, is_restart: bool = True) -> None:
        del is_restart
        self._framer.reset()
        self._begin_anew()

    def _decode(self, payload: bytes, at: int, records: list[Record]) -> None:
        for number, wire, a, b in fields(payload, 0, len(payload)):
            if wire != SPAN:
                continue
            if number == _SCALAR:
                self._scalar(payload, a, b, FilePosition(self._generation, at), records)
            elif number == _COLUMN:
                numbers, texts = _read(payload, a, b)
                if numbers.get(_CLASS) == _SYSTEM_CLASS and _COLUMN_KEY in texts:
                    self._of_machine.add(texts[_COLUMN_KEY].decode("utf-8", "replace"))
            elif number == _START:
                self.name = _read(payload, a, b)[1].get(_NAME, b"").decode("utf-8", "replace")
            elif number == _FINISH:
                numbers, texts = _read(payload, a, b)
                self._state = numbers.get(_STATE, 0)
                lines = texts.get(_ERROR, b"").decode("utf-8", "replace").strip().splitlines()
                self._error = lines[-1][:_LONGEST_ERROR] if lines else ""

    def _scalar(self, payload: bytes, start: int, stop: int, position: FilePosition, records: list[Record]) -> None:
        numbers, texts = _read(payload, start, stop)
        name = texts.get(_KEY, b"").decode("utf-8", "replace")
        value = _double(texts.get(_VALUE, b""))
        if name in self._of_machine:
            self._rows.sample(SYSTEM + name, value)
            return
        step = signed(numbers.get(_STEP, 0))
        if not name or abs(step) >= MAX_STEP:
            self.counts.no_step_lines += 1
            return
        row = self._rows.add(step, clipped_key(name), value, _seconds(texts.get(_TIME, b"")), position)
        if row is not None:
            records.append(row)


def _read(payload: bytes, start: int, stop: int) -> tuple[dict[int, int], dict[int, bytes]]:
    """The numbers and the texts of a message, by the numbers of their fields.

    Raises:
        MalformedMessageError: the span is no message.
    """
    numbers: dict[int, int] = {}
    texts: dict[int, bytes] = {}
    for number, wire, a, b in fields(payload, start, stop):
        if wire == SPAN:
            texts[number] = payload[a:b]
        elif wire == VARINT:
            numbers[number] = a
    return numbers, texts


def _double(message: bytes) -> float:
    for number, wire, a, _ in fields(message, 0, len(message)):
        if number == 1 and wire == FIXED64:
            return float(_DOUBLE.unpack_from(message, a)[0])
    return 0.0


def _seconds(message: bytes) -> float | None:
    """A time in seconds since the epoch; None where there is none."""
    numbers, _ = _read(message, 0, len(message))
    return numbers[_SECONDS] + numbers.get(_NANOS, 0) / 1e9 if _SECONDS in numbers else None
