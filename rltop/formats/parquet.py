"""Tables in parquet files: flat columns of numbers and strings, without a parquet package.

Reads what trainers write with the defaults of pyarrow and pandas: plain and dictionary pages, uncompressed or with
snappy, gzip or zstd. Columns are read separately, so the long texts in a table of samples cost nothing unless they are
requested. Nested columns are not supported and not listed in `columns`.

Sources: Encodings.md of the Apache Parquet project; the compact protocol of Thrift as far as headers need it; the
description of the raw snappy format.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any

from rltop.errors import DecodeError, refusing
from rltop.formats.decoder import CELL_BYTES, Allowance, unpack

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
Value = bool | int | float | bytes | str | None

_FORMATS = {INT32: ("i", 4), INT64: ("q", 8), FLOAT: ("f", 4), DOUBLE: ("d", 8)}
_MAX_BITS = 32


def plain(data: bytes, kind: int, count: int, size: int = 0) -> list[Value]:
    """Decode `count` plain values; `size` is the length of fixed-length byte arrays.

    Raises:
        ValueError: the data ends early, or the type is not supported.
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
    """Decode `count` numbers of `bits` bits each, in the RLE/bit-packing hybrid encoding.

    Raises:
        ValueError: the data ends early, or the bit width is not supported.
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


def _varint(data: bytes, at: int, most_bytes: int = 10) -> tuple[int, int]:
    """Decode the varint at `at`; returns it and the position after it."""
    value = 0
    for i, byte in enumerate(data[at : at + most_bytes]):
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError("unterminated number")


def _unpack(data: bytes, bits: int, count: int, found: list[int]) -> None:
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


_MAX_DEPTH = 16
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_SIZES = {_TRUE: 1, _FALSE: 1, _BYTE: 1, _DOUBLE: 8}
"""Sizes of types that parquet headers do not use on their own; in a list a boolean takes a byte."""

ThriftStruct = dict[int, Any]


class ThriftReader:
    """Reads values of the Thrift compact protocol one by one."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self._data = data
        self.at = at

    def struct(self, depth: int = 0) -> ThriftStruct:
        """Read the struct at the current position.

        Raises:
            ValueError: the bytes are not a struct, or end too early.
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
        # Every element takes at least one byte, so a count beyond the remaining data must be wrong.
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
        value, self.at = _varint(self._data, self.at)
        return value

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)


_MAX_RATIO = 24
"""Limit for expansion: a copy of 64 bytes takes three, so no valid stream expands further."""
_MAX_HEADER_BYTES = 5
_MAX_SNAPPY_BYTES = 2**32 - 1
"""The length is a 32-bit number."""


def decompress_snappy(data: bytes, most: int = _MAX_SNAPPY_BYTES) -> bytes:
    """Decompress raw snappy data.

    Raises:
        ValueError: it is invalid or incomplete, or expands to more than `most` bytes.
    """
    length, at = _varint(data, 0, _MAX_HEADER_BYTES)
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


def _literal(data: bytes, tag: int, at: int) -> tuple[int, int]:
    size = tag >> 2
    if size < 60:
        return size + 1, at
    extra = size - 59
    return int.from_bytes(data[at : at + extra], "little") + 1, at + extra


def _copy(data: bytes, tag: int, at: int) -> tuple[int, int, int]:
    """Length of the copy, distance back to its source, and position of the next element."""
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


MAGIC = b"PAR1"
MAX_ROWS = 4_000_000
"""Row limit, beyond the samples of any step; a header can claim any number in a few bytes."""
MAX_PAGE_BYTES = 256 * 1024 * 1024

_UNCOMPRESSED, _SNAPPY, _GZIP, _ZSTD = 0, 1, 2, 6
_CODECS = {3: "LZO", 4: "brotli", 5: "LZ4", 7: "LZ4"}
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_OPTIONAL, _REPEATED = 1, 2
_UTF8 = 0
_STRING_TYPE = 1


@dataclass(frozen=True, slots=True)
class _FlatColumn:
    """A flat column: its physical type, whether cells may be empty, and whether bytes are text."""

    name: str
    kind: int
    size: int
    is_optional: bool
    is_text: bool


class ParquetTable:
    """One file, held in memory.

    Attributes:
        columns: the names of the readable columns, in order.

    Raises:
        DecodeError: the data is not a parquet file, or incomplete.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        with refusing("unreadable parquet header"):
            meta = _footer(data)
            self._columns = _columns(meta.get(2, ()))
            self._groups: list[ThriftStruct] = meta.get(4, [])
            self.rows = sum(int(group.get(3, 0)) for group in self._groups)
        if not 0 <= self.rows <= MAX_ROWS:
            raise DecodeError(f"parquet file with {self.rows} rows, limit {MAX_ROWS}")
        self.columns = tuple(self._columns)

    def read(self, names: Iterable[str]) -> dict[str, list[Value]]:
        """Columns by name, None in empty cells; unknown names are ignored.

        Raises:
            DecodeError: a column is damaged or in an unsupported form, or the columns exceed the memory budget.
            SourceError: a column is compressed with zstd and its package cannot be imported.
        """
        allowance = Allowance()
        return {name: self._read(self._columns[name], allowance) for name in names if name in self._columns}

    def _read(self, column: _FlatColumn, allowance: Allowance) -> list[Value]:
        found: list[Value] = []
        with refusing(f"parquet column {column.name} cannot be read"):
            for group in self._groups:
                if not group.get(3):
                    continue
                chunk = next((each for each in group[1] if _path(each) == column.name), None)
                rows = int(group.get(3, 0))
                if chunk is None or rows < 0:
                    raise ValueError("column is incomplete")
                found += _ChunkReader(self._data, column, chunk[3], rows, allowance).read()
        return found


def _footer(data: bytes) -> ThriftStruct:
    if len(data) < 12 or not data.startswith(MAGIC) or not data.endswith(MAGIC):
        raise ValueError("incomplete file")
    size = int.from_bytes(data[-8:-4], "little")
    if size > len(data) - 12:
        raise ValueError("footer longer than the file")
    return ThriftReader(data, len(data) - 8 - size).struct()


def _columns(schema: list[ThriftStruct]) -> dict[str, _FlatColumn]:
    found: dict[str, _FlatColumn] = {}
    at = 1
    while at < len(schema):
        element = schema[at]
        if element.get(5):
            at = _behind(schema, at)
            continue
        at += 1
        repetition = element.get(3, 0)
        if repetition == _REPEATED or 1 not in element:
            continue
        name = element[4].decode("utf-8")
        is_text = element.get(6) == _UTF8 or _STRING_TYPE in element.get(10, {})
        kind = int(element[1])
        found[name] = _FlatColumn(name, kind, int(element.get(2, 0)), repetition == _OPTIONAL, is_text)
    return found


def _behind(schema: list[ThriftStruct], at: int) -> int:
    waiting = 1
    while waiting and at < len(schema):
        waiting += int(schema[at].get(5, 0)) - 1
        at += 1
    return at


def _path(chunk: ThriftStruct) -> str:
    path = chunk[3][3]
    return path[0].decode("utf-8", "replace") if len(path) == 1 else ""


class _ChunkReader:
    def __init__(self, data: bytes, column: _FlatColumn, meta: ThriftStruct, rows: int, allowance: Allowance) -> None:
        self._data = data
        self._allowance = allowance
        self._column = column
        self._codec = int(meta.get(4, 0))
        self._rows = rows
        starts = [int(meta[number]) for number in (9, 11) if meta.get(number)]
        self._at = min(starts, default=-1)
        if self._at < 0:
            raise ValueError("no data page")
        self._dictionary: list[Value] = []

    def read(self) -> list[Value]:
        found: list[Value] = []
        while len(found) < self._rows:
            reader = ThriftReader(self._data, self._at)
            header = reader.struct()
            stored, size = int(header[3]), int(header[2])
            if stored < 0 or not 0 <= size <= MAX_PAGE_BYTES or reader.at + stored > len(self._data):
                raise ValueError("truncated page")
            page = self._data[reader.at : reader.at + stored]
            self._at = reader.at + stored
            if header[1] == _DICTIONARY_PAGE:
                count = int(header[7][1])
                self._spend(size, count)
                values = plain(self._inflate(page, size), self._column.kind, count, self._column.size)
                self._dictionary = self._as_text(values)
                continue
            if header[1] not in (_DATA_PAGE, _DATA_PAGE_V2):
                continue
            own, read = (header[5], self._page) if header[1] == _DATA_PAGE else (header[8], self._page_v2)
            count = min(int(own[1]), self._rows)
            self._spend(size, count)
            if count <= 0:
                raise ValueError("page without values")
            found += read(page, size, own, count)
        return found[: self._rows]

    def _spend(self, size: int, cells: int) -> None:
        self._allowance.spend(size + CELL_BYTES * cells, f"column {self._column.name}")

    def _page(self, page: bytes, size: int, header: ThriftStruct, count: int) -> list[Value]:
        page = self._inflate(page, size)
        stop = 4 + int.from_bytes(page[:4], "little") if self._column.is_optional else 0
        return self._cells(page[stop:], page[4:stop], int(header[2]), count)

    def _page_v2(self, page: bytes, size: int, header: ThriftStruct, count: int) -> list[Value]:
        level_bytes, repeat_bytes = int(header.get(5, 0)), int(header.get(6, 0))
        head = level_bytes + repeat_bytes
        if level_bytes < 0 or repeat_bytes < 0:
            raise ValueError("negative length of levels")
        body = page[head:]
        if header.get(7, True):
            body = self._inflate(body, max(0, size - head))
        return self._cells(body, page[repeat_bytes:head], int(header[4]), count)

    def _cells(self, body: bytes, levels: bytes, encoding: int, count: int) -> list[Value]:
        if not self._column.is_optional:
            return self._values(body, encoding, count)
        filled = hybrid(levels, 1, count)
        values = iter(self._values(body, encoding, sum(filled)))
        return [next(values) if level else None for level in filled]

    def _values(self, data: bytes, encoding: int, count: int) -> list[Value]:
        if encoding == _PLAIN:
            return self._as_text(plain(data, self._column.kind, count, self._column.size))
        if encoding in (_PLAIN_DICTIONARY, _RLE_DICTIONARY):
            if not count:
                return []
            dictionary = self._dictionary
            return [dictionary[index] for index in hybrid(data[1:], data[0], count)]
        if encoding == _RLE and self._column.kind == BOOLEAN:
            length = int.from_bytes(data[:4], "little")
            return [bool(bit) for bit in hybrid(data[4 : 4 + length], 1, count)]
        raise ValueError(f"unsupported encoding {encoding}")

    def _as_text(self, values: list[Value]) -> list[Value]:
        if self._column.kind != BYTE_ARRAY or not self._column.is_text:
            return values
        return [value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in values]

    def _inflate(self, page: bytes, size: int) -> bytes:
        if self._codec == _UNCOMPRESSED:
            return page
        if self._codec == _SNAPPY:
            return decompress_snappy(page, size)
        if self._codec == _GZIP:
            try:
                return zlib.decompressobj(wbits=47).decompress(page, max(1, size))
            except zlib.error as error:
                raise ValueError(str(error)) from error
        if self._codec == _ZSTD:
            return unpack(page, max(1, size))
        raise ValueError(f"compressed with {_CODECS.get(self._codec, f'codec {self._codec}')}, which is not supported")
