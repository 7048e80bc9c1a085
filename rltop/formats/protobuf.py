"""Reader for the wire format of protocol buffers.

Knows no message types; callers iterate over the fields and pick those they know. Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator

from rltop.errors import DecodeError

VARINT, FIXED64, SPAN, FIXED32 = 0, 1, 2, 5
"""Wire types. Groups (3, 4) are not used by any metric writer."""

_MAX_VARINT_BYTES = 10
_SIGN = 1 << 63


class MalformedMessageError(DecodeError):
    """Bytes that are not a protobuf message."""


def varint(data: bytes, pos: int, stop: int) -> tuple[int, int]:
    """The unsigned number at `pos` and the position after it.

    Raises:
        MalformedMessageError: it does not end before `stop` or within 10 bytes.
    """
    result = shift = 0
    for at in range(pos, min(stop, pos + _MAX_VARINT_BYTES)):
        byte = data[at]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFF_FFFF_FFFF_FFFF, at + 1
        shift += 7
    raise MalformedMessageError("unterminated number")


def encode_varint(number: int) -> bytes:
    """The shortest encoding of a non-negative number."""
    result = bytearray()
    while number > 0x7F:
        result.append(number & 0x7F | 0x80)
        number >>= 7
    result.append(number)
    return bytes(result)


def signed(number: int) -> int:
    """Convert an unsigned 64-bit number to the int64 or int32 that was written."""
    return number - (1 << 64) if number >= _SIGN else number


def fields(data: bytes, pos: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Every field of the message in `data[pos:stop]`: (number, wire type, a, b).

    For VARINT, `a` is the number; for the other types the value is `data[a:b]`.

    Raises:
        MalformedMessageError: invalid data; the fields before it have been yielded.
    """
    while pos < stop:
        key = data[pos]
        pos += 1
        if key > 0x7F:
            key, pos = varint(data, pos - 1, stop)
        wire = key & 7
        if wire == SPAN:
            length = data[pos] if pos < stop else 0x80
            if length < 0x80:
                pos += 1
            else:
                length, pos = varint(data, pos, stop)
            end = pos + length
        elif wire == VARINT:
            number, pos = varint(data, pos, stop)
            if key < 8:
                raise MalformedMessageError("field number 0")
            yield key >> 3, VARINT, number, 0
            continue
        elif wire == FIXED32:
            end = pos + 4
        elif wire == FIXED64:
            end = pos + 8
        else:
            raise MalformedMessageError(f"wire type {wire}")
        if end > stop:
            raise MalformedMessageError("field longer than its message")
        if key < 8:
            raise MalformedMessageError("field number 0")
        yield key >> 3, wire, pos, end
        pos = end


def message(data: bytes, start: int = 0, stop: int | None = None) -> tuple[dict[int, int], dict[int, bytes]]:
    """The numbers and the spans of the message in `data[start:stop]`, by field; the last value of a repeated field.

    Raises:
        MalformedMessageError: it is not a message.
    """
    numbers: dict[int, int] = {}
    spans: dict[int, bytes] = {}
    for number, wire, a, b in fields(data, start, len(data) if stop is None else stop):
        if wire == SPAN:
            spans[number] = data[a:b]
        elif wire == VARINT:
            numbers[number] = a
    return numbers, spans
