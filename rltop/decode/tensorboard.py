"""TensorBoard event files → records, without any of TensorBoard.

Tags of one step arrive one by one; they are gathered until the step changes. The
fast path: an event that differs from an earlier one only in wall time and value is
recognised by its other bytes, which costs one slice and one look-up.
Source of the messages: tensorflow/core/util/event.proto, framework/summary.proto,
framework/tensor.proto.
"""

from __future__ import annotations

import struct

from rltop.decode.decoder import Envelope
from rltop.decode.protobuf import FIXED32, FIXED64, SPAN, VARINT, MalformedMessageError, encode_varint, fields, signed
from rltop.decode.shaping import Shapes, cells_of, shortened
from rltop.decode.tensors import scalar_of
from rltop.decode.tfrecord import TfRecordFramer
from rltop.model import Counts, Place, Record
from rltop.structs import NamedTuple

_TAGS_KEPT = 20_000
_EXAMPLES_KEPT = 8
_EXAMPLE_CHARS = 80
_MAX_STEP = 2**53
_EPOCH_S = (1e9, 1e11)
"""A wall time between 2001 and 5138, as in JSON rows."""

_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")
_HEAD_BYTES = 9
"""An event begins with its wall time: one byte of key, eight of value."""


class _Event(NamedTuple):
    """The fields of an event that matter here; `summary` is a span of the payload."""

    wall_time_s: float | None
    step: int
    summary: tuple[int, int] | None


class TensorBoardDecoder:
    """Scalars of an event file as rows, one per step.

    Simple values and tensors of one number are values; histograms, pictures, sound,
    text and tensors of several numbers are counted. Tags are kept as written.
    A row is given out when the step changes, or by `flush`, which may be called
    whenever no bytes are left: what still comes for that step is a further record.
    """

    is_rewritten = False
    is_finished = False
    failure = ""

    def __init__(self) -> None:
        self.counts = Counts()
        self.envelope: Envelope = ""
        self._framer = TfRecordFramer(self.counts)
        self._shapes = Shapes()
        self._tags: dict[bytes, str] = {}
        self._names: dict[bytes, str] = {}
        self._cells: dict[str, float] = {}
        self._step: int | None = None
        self._step_field = b""
        self._time_s: float | None = None
        self._place = Place(0, 0)
        self._generation = 0

    @property
    def stopped(self) -> str:
        """Why the rest of the file cannot be read; empty while all is well."""
        return self._framer.stopped

    @property
    def bad_bytes(self) -> int:
        """Bytes that belong to no record."""
        return self._framer.bad_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of a record, or of a region of zeros, whose rest has not come."""
        return self._framer.held_bytes

    @property
    def resume_offset(self) -> int:
        """From here on bytes may be given again, where they were zeros or torn before."""
        return self._framer.resume_offset

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode every event that `data` completes; rows whose step is over are given out."""
        self._generation = generation
        records: list[Record] = []
        payloads = self._framer.feed(data, offset)
        first_line = self.counts.lines - len(payloads) + 1
        tags, unpack = self._tags, _FLOAT.unpack_from
        cells, step_field = self._cells, self._step_field
        values_from = _HEAD_BYTES + len(step_field)
        for line, (payload, at) in enumerate(payloads, first_line):
            if payload.startswith(step_field, _HEAD_BYTES):
                tag = tags.get(payload[values_from:-4])
                if tag is not None and cells and payload[0] == 9:
                    cells[tag] = unpack(payload, len(payload) - 4)[0]
                    continue
            self._decode(payload, at, line, records)
            cells, step_field = self._cells, self._step_field
            values_from = _HEAD_BYTES + len(step_field)
        return records

    def flush(self) -> list[Record]:
        """The row gathered so far, although its step may go on."""
        records: list[Record] = []
        self._give_out(records)
        return records

    def finish(self) -> list[Record]:
        """The last row. A torn last event is normal: it is not counted."""
        return self.flush()

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins: forget the torn event and the row that was never given out."""
        del is_restart
        self._framer.reset()
        self._cells, self._step, self._step_field = {}, None, b""

    # -- one event -------------------------------------------------------------------------------------------------

    def _decode(self, payload: bytes, at: int, line: int, records: list[Record]) -> None:
        try:
            event = _event(payload)
            if event.summary is None:
                return
            values = self._values(payload, *event.summary)
        except MalformedMessageError as error:
            self._refuse(str(error), line)
            return
        if not values:
            return
        if not -_MAX_STEP < event.step < _MAX_STEP:
            self.counts.no_step_lines += 1
            return
        if event.step != self._step:
            self._give_out(records)
            self._step = event.step
            self._step_field = b"\x10" + encode_varint(event.step % (1 << 64)) if event.step else b""
        if not self._cells:
            self._time_s, self._place = event.wall_time_s, Place(self._generation, at)
        for tag, value in values:
            self._cells[tag] = value
        if len(values) == 1:
            self._remember(payload, values[0][0])

    def _values(self, payload: bytes, start: int, stop: int) -> list[tuple[str, float]]:
        """Tag and number of every scalar in a summary; the rest is counted."""
        found: list[tuple[str, float]] = []
        for number, wire, a, b in fields(payload, start, stop):
            if number != 1 or wire != SPAN:
                continue
            tag, value = "", None
            kind = ""
            for inner, inner_wire, c, d in fields(payload, a, b):
                if inner == 1 and inner_wire == SPAN:
                    tag = self._name(payload[c:d])
                elif inner == 2 and inner_wire == FIXED32:
                    value = float(_FLOAT.unpack_from(payload, c)[0])
                elif inner == 8 and inner_wire == SPAN:
                    value, kind = scalar_of(payload, c, d)
                elif inner in _OTHER_VALUES:
                    kind = _OTHER_VALUES[inner]
            if value is not None:
                found.append((tag, value))
            elif kind:
                self._count_other(tag, kind)
        return found

    def _name(self, raw: bytes) -> str:
        name = self._names.get(raw)
        if name is None:
            if len(self._names) >= _TAGS_KEPT:
                self._names.clear()
            name = self._names[raw] = shortened(raw.decode("utf-8", "replace"))
        return name

    def _remember(self, payload: bytes, tag: str) -> None:
        """Learn how events of this tag look, if this one has the plainest of forms."""
        raw = tag.encode("utf-8", "replace")
        value = b"\x0a" + encode_varint(len(raw)) + raw + b"\x15"
        summary = b"\x0a" + encode_varint(len(value) + 4) + value
        expected = b"\x2a" + encode_varint(len(summary) + 4) + summary
        begin = _HEAD_BYTES + len(self._step_field)
        if payload[0] == 9 and payload.startswith(self._step_field, _HEAD_BYTES) and payload[begin:-4] == expected:
            if len(self._tags) >= _TAGS_KEPT:
                self._tags.clear()
            self._tags[expected] = tag

    def _count_other(self, tag: str, kind: str) -> None:
        if kind == "text":
            self.counts.text_values += 1
        else:
            self.counts.nested_values += 1
        if len(self.counts.examples) < _EXAMPLES_KEPT:
            self.counts.examples.setdefault(tag[:_EXAMPLE_CHARS], kind)

    def _give_out(self, records: list[Record]) -> None:
        if not self._cells or self._step is None:
            return
        values, marks = cells_of(self._cells.values())
        shape = self._shapes.of(list(self._cells))
        records.append(Record(self._step, self._time_s, shape, values, marks, self._place))
        self.counts.rows += 1
        self.envelope = "flat"
        self._cells = {}

    def _refuse(self, reason: str, line: int) -> None:
        self.counts.refuse(line, reason)


_OTHER_VALUES = {3: "histogram", 4: "image", 5: "histogram", 6: "audio"}


def _event(payload: bytes) -> _Event:
    wall_time: float | None = None
    step, summary = 0, None
    for number, wire, a, b in fields(payload, 0, len(payload)):
        if number == 1 and wire == FIXED64:
            wall_time = _DOUBLE.unpack_from(payload, a)[0]
        elif number == 2 and wire == VARINT:
            step = signed(a)
        elif number == 5 and wire == SPAN:
            summary = (a, b)
    if wall_time is not None and not _EPOCH_S[0] < wall_time < _EPOCH_S[1]:
        wall_time = None
    return _Event(wall_time, step, summary)
