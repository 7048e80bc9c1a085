"""Tables of a parquet file: flat columns of numbers and text, without a package.

Reads what trainers write with the defaults of pyarrow and pandas: plain and
dictionary pages, uncompressed or in snappy, gzip or zstd. Columns are read one by
one, so the long texts of a table of samples cost nothing unless they are asked
for. Nested columns are not read; they are not among `columns`.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from rltop.errors import DecodeError, refusing
from rltop.formats.allowance import CELL_BYTES, Allowance
from rltop.formats.parquet.encodings import (
    BOOLEAN,
    BYTE_ARRAY,
    ThriftReader,
    ThriftStruct,
    Value,
    decompress_snappy,
    hybrid,
    plain,
    spread,
)
from rltop.formats.zstd import unpack

MAGIC = b"PAR1"
MAX_ROWS = 4_000_000
"""More rows than a step of any trainer has samples; a header can promise any number in a few bytes."""
MAX_PAGE_BYTES = 256 * 1024 * 1024

_UNCOMPRESSED, _SNAPPY, _GZIP, _ZSTD = 0, 1, 2, 6
_CODECS = {3: "LZO", 4: "brotli", 5: "LZ4", 7: "LZ4"}
_PLAIN, _PLAIN_DICTIONARY, _RLE, _RLE_DICTIONARY = 0, 2, 3, 8
_DATA_PAGE, _DICTIONARY_PAGE, _DATA_PAGE_V2 = 0, 2, 3
_OPTIONAL, _REPEATED = 1, 2
_UTF8 = 0
_STRING_TYPE = 1


@dataclass(frozen=True, slots=True)
class _Column:
    """A flat column: its physical type, whether cells may be empty, and whether bytes are text."""

    name: str
    kind: int
    size: int
    is_optional: bool
    is_text: bool


class ParquetTable:
    """One file, held in memory.

    Attributes:
        columns: the names of the columns that can be read, in order.
        rows: how many rows there are.

    Raises:
        DecodeError: the bytes are no parquet file, or not all of it.
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
        """Columns by name, None in empty cells; names that the file does not have are left out.

        Raises:
            DecodeError: a column is damaged, in a form that is not read, or the columns are too large together.
            SourceError: a column is compressed with zstd and no package for it is installed.
        """
        allowance = Allowance()
        return {name: self._read(self._columns[name], allowance) for name in names if name in self._columns}

    def _read(self, column: _Column, allowance: Allowance) -> list[Value]:
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


def _columns(schema: list[ThriftStruct]) -> dict[str, _Column]:
    """The flat columns; a nested one is passed over with everything in it."""
    found: dict[str, _Column] = {}
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
        found[name] = _Column(name, kind, int(element.get(2, 0)), repetition == _OPTIONAL, is_text)
    return found


def _behind(schema: list[ThriftStruct], at: int) -> int:
    """Where the element after a nested one stands."""
    waiting = 1
    while waiting and at < len(schema):
        waiting += int(schema[at].get(5, 0)) - 1
        at += 1
    return at


def _path(chunk: ThriftStruct) -> str:
    path = chunk[3][3]
    return path[0].decode("utf-8", "replace") if len(path) == 1 else ""


class _ChunkReader:
    """The pages of one column in one row group."""

    def __init__(self, data: bytes, column: _Column, meta: ThriftStruct, rows: int, allowance: Allowance) -> None:
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
            if header[1] in (_DATA_PAGE, _DATA_PAGE_V2):
                self._spend(size, min(int(header[5 if header[1] == _DATA_PAGE else 8][1]), self._rows))
            if header[1] == _DATA_PAGE:
                count, cells = int(header[5][1]), self._page(page, size, header[5])
            elif header[1] == _DATA_PAGE_V2:
                count, cells = int(header[8][1]), self._page_v2(page, size, header[8])
            else:
                continue
            if count <= 0:
                raise ValueError("page without values")
            found += cells
        return found[: self._rows]

    def _spend(self, size: int, cells: int) -> None:
        self._allowance.spend(size + CELL_BYTES * cells, f"column {self._column.name}")

    def _page(self, page: bytes, size: int, header: ThriftStruct) -> list[Value]:
        page = self._inflate(page, size)
        count = min(int(header[1]), self._rows)
        if not self._column.is_optional:
            return self._values(page, int(header[2]), count)
        length = int.from_bytes(page[:4], "little")
        levels = hybrid(page[4 : 4 + length], 1, count)
        return spread(self._values(page[4 + length :], int(header[2]), sum(levels)), levels)

    def _page_v2(self, page: bytes, size: int, header: ThriftStruct) -> list[Value]:
        level_bytes, repeat_bytes = int(header.get(5, 0)), int(header.get(6, 0))
        head = level_bytes + repeat_bytes
        if level_bytes < 0 or repeat_bytes < 0:
            raise ValueError("negative length of levels")
        body = page[head:]
        if header.get(7, True):
            body = self._inflate(body, max(0, size - head))
        count = min(int(header[1]), self._rows)
        if not self._column.is_optional:
            return self._values(body, int(header[4]), count)
        levels = hybrid(page[repeat_bytes:head], 1, count)
        return spread(self._values(body, int(header[4]), sum(levels)), levels)

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
