"""The compact protocol of Thrift, as far as the headers of parquet need it.

Structs become dictionaries by field number; knows nothing of what they mean.
"""

from __future__ import annotations

from typing import Any

_MAX_DEPTH = 16
_MAX_VARINT_BYTES = 10
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_SIZES = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}
"""Bytes of what no parquet header has by itself; within a list a boolean is a byte."""

ThriftStruct = dict[int, Any]


class ThriftReader:
    """Reads one value after the other.

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
        raise ValueError(f"a field of unknown type {kind}")

    def _list(self, depth: int) -> list[Any]:
        if depth > _MAX_DEPTH:
            raise ValueError("lists nested too deeply")
        head = self._byte()
        count, kind = head >> 4, head & 0x0F
        if count == 15:
            count = self._varint()
        # Every element takes at least a byte: a count that the rest cannot hold is a lie.
        if count > len(self._data) - self.at:
            raise ValueError("a list that is longer than the data")
        return [self._value(kind, depth) for _ in range(count)]

    def _map(self, depth: int) -> list[tuple[Any, Any]]:
        count = self._varint()
        if not count:
            return []
        if depth > _MAX_DEPTH or count > len(self._data) - self.at:
            raise ValueError("a map that is longer than the data")
        kinds = self._byte()
        return [(self._value(kinds >> 4, depth), self._value(kinds & 0x0F, depth)) for _ in range(count)]

    def _byte(self) -> int:
        if not 0 <= self.at < len(self._data):
            raise ValueError("the data ends within a header")
        self.at += 1
        return self._data[self.at - 1]

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.at:
            raise ValueError("the data ends within a header")
        self.at += count
        return self._data[self.at - count : self.at]

    def _varint(self) -> int:
        value = 0
        for i in range(_MAX_VARINT_BYTES):
            byte = self._byte()
            value |= (byte & 0x7F) << (7 * i)
            if byte < 0x80:
                return value
        raise ValueError("a number without end")

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)
