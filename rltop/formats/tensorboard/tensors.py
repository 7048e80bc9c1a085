"""The one number in a tensor message, if it holds exactly one.

Source: tensorflow/core/framework/tensor.proto, types.proto, tensor_shape.proto.
"""

from __future__ import annotations

import struct

from rltop.formats.protobuf import FIXED32, FIXED64, SPAN, VARINT, fields, signed, varint

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
    """Is every dimension of the shape 1?"""
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
