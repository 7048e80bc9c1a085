"""TensorBoard event files → records, without any of TensorBoard.

Tags of one step arrive one by one or many in an event; they are gathered until the
step changes. The fast paths: a stretch of events that looks like an earlier one is read
as a whole (`templates.py`); a single event that differs from an earlier one only in wall
time and value is recognised by its other bytes, which costs one slice and one look-up:
without that, a file of one tag per event takes 1.3 times as long (156 instead of 119 µs a
row of 300 tags), because at the edges of a piece of the file no whole template fits.
Source of the messages: tensorflow/core/util/event.proto, framework/summary.proto,
framework/tensor.proto.
"""

from __future__ import annotations

import struct
from itertools import chain

from rltop.formats.decoder import Envelope, FramedDecoder
from rltop.formats.protobuf import (
    FIXED32,
    FIXED64,
    SPAN,
    VARINT,
    MalformedMessageError,
    encode_varint,
    fields,
    signed,
    varint,
)
from rltop.formats.rows import MAX_STEP, RecordBuilder, clipped_key, time_of
from rltop.formats.tensorboard.framing import HEADER_BYTES, TfRecordFramer
from rltop.formats.tensorboard.templates import STEP_AT, Template, TemplateMatch, Templates
from rltop.model import Counts, FilePosition, Record, Schema
from rltop.structs import NamedTuple

_TAGS_KEPT = 20_000
_SCHEMAS_KEPT = 64

_DOUBLE = struct.Struct("<d")
_FLOAT = struct.Struct("<f")


class _Event(NamedTuple):
    """The fields of an event that matter here; `summary` is a span of the payload."""

    wall_time_s: float | None
    step: int
    summary: tuple[int, int] | None


class TensorBoardDecoder(FramedDecoder[TfRecordFramer]):
    """Scalars of an event file as rows, one per step.

    Simple values and tensors of one number are values; histograms, pictures, sound,
    text and tensors of several numbers are counted. Tags are kept as written.
    A row is given out when the step changes, or by `flush`, which may be called
    whenever no bytes are left: what still comes for that step is a further record.
    """

    def __init__(self) -> None:
        self.counts = Counts()
        self.envelope: Envelope = ""
        self._framer = TfRecordFramer(self.counts)
        self._builder = RecordBuilder(self.counts)
        self._tags: dict[bytes, str] = {}
        self._names: dict[bytes, str] = {}
        self._templates = Templates()
        self._cells: dict[str, float] = {}
        self._matches: list[TemplateMatch] = []
        self._matched_schemas: dict[tuple[Template, ...], Schema | None] = {}
        self._in_row = 0
        self._records: list[Record] = []
        self._step: int | None = None
        self._step_field = b""
        self._time_s: float | None = None
        self._position = FilePosition(0, 0)
        self._generation = 0

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode every event that `data` completes; rows whose step is over are given out."""
        self._generation = generation
        self._framer.feed_to(self, data, offset)
        return self._given_out()

    def take(self, payload: bytes, at: int) -> None:
        """An event, from the framer, that no template has read.

        Args:
            at: its offset in the file.
        """
        if self._in_row and payload.startswith(self._step_field, STEP_AT) and payload[0] == 9:
            tag = self._tags.get(payload[STEP_AT + len(self._step_field) : -4])
            if tag is not None:
                self._unpack_matches()
                self._cells[tag] = _FLOAT.unpack_from(payload, len(payload) - 4)[0]
                self._templates.add(payload, self._in_row, 1)
                self._in_row += 1
                return
        self._decode(payload, at)

    def read_ahead(self, data: bytes, pos: int, at: int) -> int:
        """As many events at `data[pos]` as a template reads at once, in bytes; 0 if none fits.

        Args:
            at: the same as an offset in the file.
        """
        is_same_row = data.startswith(self._step_field, pos + HEADER_BYTES + STEP_AT)
        if is_same_row and self._templates.run:
            return 0
        match = self._templates.match(data, pos, self._in_row if is_same_row else 0)
        if match is None:
            return 0
        if match.step_field != self._step_field or self._step is None:
            step = _step_of(match.step_field)
            if step is None:
                return 0
            if step != self._step:
                self._begin_row(step)
        if not self._in_row:
            self._begin_with(match.wall_time_s, at)
        if self._cells:
            self._cells.update(zip(match.template.tags, match.numbers, strict=True))
        else:
            self._matches.append(match)
        self._in_row += len(match.numbers)
        self.counts.lines += match.template.events
        return match.template.size

    def flush(self) -> list[Record]:
        """The row gathered so far, although its step may go on."""
        self._give_out()
        return self._given_out()

    def finish(self) -> list[Record]:
        """The last row. A torn last event is normal: it is not counted."""
        return self.flush()

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins: forget the torn event and the row that was never given out."""
        del is_restart
        self._framer.reset()
        self._templates.clear()
        self._cells, self._step, self._step_field = {}, None, b""
        self._matches, self._in_row = [], 0

    # -- one event -------------------------------------------------------------------------------------------------

    def _decode(self, payload: bytes, at: int) -> None:
        try:
            event = _event(payload)
            if event.summary is None:
                self._templates.close()
                return
            values = self._values(payload, *event.summary)
        except MalformedMessageError as error:
            self.counts.refuse(self.counts.lines, str(error))
            return
        if not values:
            self._templates.close()
            return
        if not -MAX_STEP < event.step < MAX_STEP:
            self.counts.no_step_lines += 1
            return
        if event.step != self._step:
            self._begin_row(event.step)
        if not self._in_row:
            self._begin_with(event.wall_time_s, at)
        self._unpack_matches()
        self._cells.update(values)
        self._templates.add(payload, self._in_row, len(values))
        self._in_row += len(values)
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
                self._count_other(kind)
        return found

    def _name(self, raw: bytes) -> str:
        name = self._names.get(raw)
        if name is None:
            if len(self._names) >= _TAGS_KEPT:
                self._names.clear()
            name = self._names[raw] = clipped_key(raw.decode("utf-8", "replace"))
        return name

    def _remember(self, payload: bytes, tag: str) -> None:
        raw = tag.encode("utf-8", "replace")
        value = b"\x0a" + encode_varint(len(raw)) + raw + b"\x15"
        summary = b"\x0a" + encode_varint(len(value) + 4) + value
        expected = b"\x2a" + encode_varint(len(summary) + 4) + summary
        begin = STEP_AT + len(self._step_field)
        if payload[0] == 9 and payload.startswith(self._step_field, STEP_AT) and payload[begin:-4] == expected:
            if len(self._tags) >= _TAGS_KEPT:
                self._tags.clear()
            self._tags[expected] = tag

    def _count_other(self, kind: str) -> None:
        if kind == "text":
            self.counts.text_values += 1
        else:
            self.counts.nested_values += 1

    # -- rows --------------------------------------------------------------------------------------------------------

    def _begin_row(self, step: int) -> None:
        self._templates.close()
        self._give_out()
        self._step = step
        self._step_field = b"\x10" + encode_varint(step % (1 << 64)) if step else b""

    def _begin_with(self, wall_time_s: float | None, at: int) -> None:
        """The first event of a row, or of what comes of it after it was given out, says when it was."""
        self._time_s = time_of(wall_time_s)
        self._position = FilePosition(self._generation, at)

    def _unpack_matches(self) -> None:
        for match in self._matches:
            self._cells.update(zip(match.template.tags, match.numbers, strict=True))
        self._matches.clear()

    def _give_out(self) -> None:
        if not self._in_row or self._step is None:
            return
        schema = self._matched_schema() if self._matches else None
        if schema is not None:
            numbers = tuple(chain.from_iterable(match.numbers for match in self._matches))
            self._matches.clear()
        else:
            self._unpack_matches()
            schema, numbers = self._builder.schemas.of(list(self._cells)), tuple(self._cells.values())
        self._records.append(self._builder.of_numbers(self._step, self._time_s, schema, numbers, self._position))
        self.envelope = "flat"
        self._cells, self._in_row = {}, 0

    def _given_out(self) -> list[Record]:
        records, self._records = self._records, []
        return records

    def _matched_schema(self) -> Schema | None:
        """The schema of a row that templates alone have read; None if a tag is in it twice."""
        templates = tuple(match.template for match in self._matches)
        if templates not in self._matched_schemas:
            if len(self._matched_schemas) >= _SCHEMAS_KEPT:
                self._matched_schemas.clear()
            tags = [tag for template in templates for tag in template.tags]
            self._matched_schemas[templates] = self._builder.schemas.of(tags) if len(set(tags)) == len(tags) else None
        return self._matched_schemas[templates]


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
    return _Event(wall_time, step, summary)


def _step_of(field: bytes) -> int | None:
    """The step in a whole field of an event; None if it is not one, or too large."""
    try:
        number, stop = varint(field, 1, len(field))
    except MalformedMessageError:
        return None
    step = signed(number)
    return step if field[:1] == b"\x10" and stop == len(field) and -MAX_STEP < step < MAX_STEP else None


_TEXT = 7
_BFLOAT16 = 14
_HALF = 19
_CONTENT = {
    1: "<f", 2: "<d", 3: "<i", 4: "<B", 5: "<h", 6: "<b", 9: "<q", 10: "<?", 17: "<H", _HALF: "<e", 22: "<I", 23: "<Q",
}  # fmt: skip
"""Data type → how one element stands in `tensor_content`."""

_FLOATS, _DOUBLES = 5, 6
_INTEGERS = frozenset({7, 10, 11, 16, 17})
_HALVES = 13
_STRINGS = 8


def scalar_of(data: bytes, start: int, stop: int) -> tuple[float | None, str]:
    """The number of the tensor in `data[start:stop]`, or None and what it is instead.

    Returns:
        (number, "") for one element; (None, "text") for strings; (None, "tensor")
        for several elements, none, or a type that is no number.

    Raises:
        MalformedMessageError: the span is no message.
    """
    dtype, content, is_text, is_single = 0, b"", False, True
    found: list[float] = []
    for number, wire, a, b in fields(data, start, stop):
        if number == 1 and wire == VARINT:
            dtype = a
        elif number == 2 and wire == SPAN:
            is_single = _is_single(data, a, b)
        elif number == 4 and wire == SPAN:
            content = data[a:b]
        elif number == _STRINGS:
            is_text = True
        elif len(found) < 2:
            _take(data, number, wire, (a, b), dtype, found)
    if dtype == _TEXT or is_text:
        return None, "text"
    if not found and content:
        found = _of_content(content, dtype)
    return (found[0], "") if len(found) == 1 and is_single else (None, "tensor")


def _is_single(data: bytes, start: int, stop: int) -> bool:
    for number, wire, a, b in fields(data, start, stop):
        if number == 2 and wire == SPAN:
            size = next((c for inner, kind, c, _ in fields(data, a, b) if inner == 1 and kind == VARINT), 0)
            if size != 1:
                return False
    return True


def _take(data: bytes, number: int, wire: int, span: tuple[int, int], dtype: int, found: list[float]) -> None:
    """Append what a value field holds: one number, or a packed run of which two are enough."""
    a, b = span
    if number == _FLOATS and wire in (SPAN, FIXED32):
        found.extend(_packed("<f", data, a, b))
    elif number == _DOUBLES and wire in (SPAN, FIXED64):
        found.extend(_packed("<d", data, a, b))
    elif number in _INTEGERS or number == _HALVES:
        numbers = [a] if wire == VARINT else []
        while wire == SPAN and a < b and len(numbers) < 2:
            value, a = varint(data, a, b)
            numbers.append(value)
        found.extend(_half(value, dtype) if number == _HALVES else float(signed(value)) for value in numbers)


def _packed(code: str, data: bytes, start: int, stop: int) -> list[float]:
    """Up to two packed numbers of one kind; what is left of the span is ignored."""
    size = struct.calcsize(code)
    return [float(struct.unpack_from(code, data, at)[0]) for at in range(start, stop - size + 1, size)[:2]]


def _half(bits: int, dtype: int) -> float:
    """Sixteen bits as a number: IEEE half, or the upper half of a float32."""
    if dtype == _BFLOAT16:
        return float(struct.unpack("<f", struct.pack("<I", (bits & 0xFFFF) << 16))[0])
    return float(struct.unpack("<e", struct.pack("<H", bits & 0xFFFF))[0])


def _of_content(content: bytes, dtype: int) -> list[float]:
    if dtype == _BFLOAT16:
        return [_half(value, dtype) for (value,) in struct.iter_unpack("<H", content[:4])] if len(content) > 1 else []
    code = _CONTENT.get(dtype)
    if code is None or len(content) != struct.calcsize(code):
        return []
    return [float(struct.unpack(code, content)[0])]
