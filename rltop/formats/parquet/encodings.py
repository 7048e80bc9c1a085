"""How a parquet file is written: values, the headers of pages, and the usual compression.

Owns plain values, dictionary indices and levels (Encodings.md of the Apache Parquet project), the
compact protocol of Thrift as far as headers need it, and Snappy in its raw format (the description
of the snappy project). Knows nothing of files and tables.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain
from typing import Any

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
Value = bool | int | float | bytes | str | None

_FORMATS = {INT32: ("i", 4), INT64: ("q", 8), FLOAT: ("f", 4), DOUBLE: ("d", 8)}
_MAX_BITS = 32


def plain(data: bytes, kind: int, count: int, size: int = 0) -> list[Value]:
    """`count` values one after the other; `size` is the length of each where it is fixed.

    Args:
        kind: physical type: see `BOOLEAN` and the following.
        size: bytes of a value of fixed length.

    Returns:
        The values, and how many bytes they took.

    Raises:
        ValueError: the data ends early, or the type is not read.
    """
    if kind in _FORMATS:
        letter, width = _FORMATS[kind]
        if count * width > len(data):
            raise ValueError("truncated page")
        return list(struct.unpack_from(f"<{count}{letter}", data))
    if kind == BYTE_ARRAY:
        return _byte_arrays(data, count)
    if kind == BOOLEAN:
        if count > 8 * len(data):
            raise ValueError("truncated page")
        return [bool(data[i >> 3] >> (i & 7) & 1) for i in range(count)]
    if kind == FIXED and size > 0 and count * size <= len(data):
        return [data[i * size : (i + 1) * size] for i in range(count)]
    raise ValueError(f"unsupported value type {kind}")


def _byte_arrays(data: bytes, count: int) -> list[Value]:
    found: list[Value] = []
    at, end = 0, len(data)
    for _ in range(count):
        if at + 4 > end:
            raise ValueError("truncated page")
        size = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if at + size > end:
            raise ValueError("truncated page")
        found.append(data[at : at + size])
        at += size
    return found


def hybrid(data: bytes, bits: int, count: int) -> list[int]:
    """`count` numbers of `bits` bits each, as runs and packed groups of eight.

    Args:
        bits: width of a number.

    Raises:
        ValueError: the data ends early, or numbers that wide are not read.
    """
    if not 0 <= bits <= _MAX_BITS:
        raise ValueError(f"unsupported bit width {bits}")
    found: list[int] = []
    at, width = 0, (bits + 7) // 8
    while len(found) < count:
        head, at = _varint(data, at)
        if head & 1:
            groups = head >> 1
            stop = at + groups * bits
            if not groups or stop > len(data) + 8 * bits:
                raise ValueError("truncated page")
            _unpack(data[at:stop], bits, min(8 * groups, count - len(found)), found)
            at = stop
        else:
            run = min(head >> 1, count - len(found))
            if not run or at + width > len(data):
                raise ValueError("truncated page")
            found += [int.from_bytes(data[at : at + width], "little")] * run
            at += width
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("truncated page")


def _unpack(data: bytes, bits: int, count: int, found: list[int]) -> None:
    """Append `count` numbers of `bits` bits, the lowest bits first."""
    if not bits:
        found += [0] * count
        return
    if count * bits > 8 * len(data):
        raise ValueError("truncated page")
    mask = (1 << bits) - 1
    shifts = range(0, 8 * bits, bits)
    groups = (int.from_bytes(data[at : at + bits], "little") for at in range(0, len(data), bits))
    numbers = list(chain.from_iterable([group >> shift & mask for shift in shifts] for group in groups))
    found += numbers[:count]


def spread(values: Sequence[Value], levels: Sequence[int]) -> list[Value]:
    """Values at the places whose level is 1; None at the others.

    Args:
        values: in order, those that are not null.
        levels: 1 for a value, 0 for a null.

    Returns:
        One value or None for each level.

    Raises:
        ValueError: there are fewer values than such places.
    """
    if sum(levels) > len(values):
        raise ValueError("truncated page")
    each = iter(values)
    return [next(each) if level else None for level in levels]


_MAX_DEPTH = 16
_MAX_VARINT_BYTES = 10
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_SIZES = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}
"""Bytes of what no parquet header has by itself; within a list a boolean is a byte."""

ThriftStruct = dict[int, Any]


class ThriftReader:
    """Reads one value after the other.

    Args:
        data: bytes of the compact protocol.
        at: offset in them of the first value.

    Attributes:
        at: offset of the next byte.
    """

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def struct(self, depth: int = 0) -> ThriftStruct:
        """The struct that begins here.

        Raises:
            ValueError: the bytes are no struct, or end too early.
        """
        if depth > _MAX_DEPTH:
            raise ValueError("structs nested too deeply")
        fields: ThriftStruct = {}
        number = 0
        while True:
            head = self._byte()
            if not head:
                return fields
            kind, delta = head & 0x0F, head >> 4
            number = number + delta if delta else self._zigzag()
            fields[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)

    def _value(self, kind: int, depth: int) -> Any:
        if kind == _BINARY:
            return self._take(self._varint())
        if kind in (_I16, _I32, _I64):
            return self._zigzag()
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth + 1)
        if kind == _MAP:
            return self._map(depth + 1)
        if kind in _SIZES:
            return self._take(_SIZES[kind])
        raise ValueError(f"field of unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("lists nested too deeply")
        head = self._byte()
        count, kind = head >> 4, head & 0x0F
        if count == 15:
            count = self._varint()
        # Every element takes at least a byte: a count that the rest cannot hold is a lie.
        if count > len(self._data) - self.at:
            raise ValueError("list longer than the data")
        return [self._value(kind, depth) for _ in range(count)]

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        count = self._varint()
        if not count:
            return []
        if depth > _MAX_DEPTH or count > len(self._data) - self.at:
            raise ValueError("map longer than the data")
        kinds = self._byte()
        return [(self._value(kinds >> 4, depth), self._value(kinds & 0x0F, depth)) for _ in range(count)]

    def _byte(self) -> int:
        if not 0 <= self.at < len(self._data):
            raise ValueError("truncated header")
        self.at += 1
        return self._data[self.at - 1]

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.at:
            raise ValueError("truncated header")
        self.at += count
        return self._data[self.at - count : self.at]

    def _varint(self) -> int:
        value = 0
        for i in range(_MAX_VARINT_BYTES):
            byte = self._byte()
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value
        raise ValueError("unterminated number")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


_MAX_RATIO = 24
"""A copy of 64 bytes takes three, so that no honest stream grows by more than this factor."""
_MAX_HEADER_BYTES = 5
_MAX_SNAPPY_BYTES = 2**32 - 1
"""The length is a number of 32 bits."""


def decompress_snappy(data: bytes, most: int = _MAX_SNAPPY_BYTES) -> bytes:
    """The bytes that were compressed.

    Args:
        most: bytes that it may give.

    Raises:
        ValueError: these are no snappy bytes, not all of them, or more than `most` when decompressed.
    """
    length, at = _length(data)
    if length > min(most, _MAX_RATIO * len(data)):
        raise ValueError("snappy stream declares an impossible length")
    out = bytearray()
    end = len(data)
    while at < end:
        tag = data[at]
        at += 1
        if not tag & 3:
            size, at = _literal(data, tag, at)
            if at + size > end:
                raise ValueError("truncated snappy stream")
            out += data[at : at + size]
            at += size
        else:
            size, back, at = _copy(data, tag, at)
            _repeat(out, back, size)
        if len(out) > length:
            raise ValueError("snappy stream longer than declared")
    if len(out) != length:
        raise ValueError("truncated snappy stream")
    return bytes(out)


def _length(data: bytes) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(data[:_MAX_HEADER_BYTES]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value, at + 1
    raise ValueError("not a snappy stream")


def _literal(data: bytes, tag: int, at: int) -> tuple[int, int]:
    """Length of the literal, and where it begins."""
    size = tag >> 2
    if size < 60:
        return size + 1, at
    extra = size - 59
    return int.from_bytes(data[at : at + extra], "little") + 1, at + extra


def _copy(data: bytes, tag: int, at: int) -> tuple[int, int, int]:
    """Length of the copy, how far back it begins, and where the next element begins."""
    kind = tag & 3
    width = (1, 2, 4)[kind - 1]
    if at + width > len(data):
        raise ValueError("truncated snappy stream")
    back = int.from_bytes(data[at : at + width], "little")
    if kind == 1:
        return 4 + ((tag >> 2) & 7), back | (tag >> 5) << 8, at + width
    return 1 + (tag >> 2), back, at + width


def _repeat(out: bytearray, back: int, size: int) -> None:
    start = len(out) - back
    if back <= 0 or start < 0:
        raise ValueError("snappy copy before the start of the data")
    if back >= size:
        out += out[start : start + size]
    else:
        piece = bytes(out[start:])
        out += (piece * (size // back + 1))[:size]
