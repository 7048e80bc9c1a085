"""Tables of a SQLite file: which there are, and their rows in the order of their identifiers.

Owns trees, cells and records. A row is taken apart when it is met, and of what
stands outside its page only what is asked for is read.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

from rltop.errors import DecodeError
from rltop.formats.rollouts.sqlite_pages import HEADER_BYTES, Pages
from rltop.structs import NamedTuple

MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""Of a longer row only what stands in its page is read."""
_LEAF, _INTERIOR = 0x0D, 0x05
_MAX_DEPTH = 24
_MAX_TABLES = 10_000
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_ENCODINGS = {2: "utf-16-le", 3: "utf-16-be"}
_TOKEN = re.compile(
    r"""--[^\n]*|/\*.*?(?:\*/|$)|'(?:[^']|'')*'|"(?:[^"]|"")*"|`(?:[^`]|``)*`|\[[^\]]*\]|[(),]|[^\s(),'"`\[\]]+""",
    re.DOTALL,
)
_CONSTRAINTS = frozenset({"PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"})

Value = int | float | str | bytes | None


class Table(NamedTuple):
    """One table.

    Attributes:
        name: as it was created.
        root: the page that its tree begins with.
        columns: names in lower case, in the order in which a row holds them.
        alias: the column that stands for the identifier of a row; empty where none does.
    """

    name: str
    root: int
    columns: tuple[str, ...]
    alias: str = ""


class TableRow:
    """A row whose cell has been found.

    Attributes:
        number: its identifier.
    """

    def __init__(self, pages: Pages, table: Table, page: bytes, at: int) -> None:
        size, at = _varint(page, at)
        number, at = _varint(page, at)
        self.number = number - (1 << 64) if number >> 63 else number
        self._pages = pages
        self._table = table
        self._size = size
        held = _local_bytes(size, pages.usable)
        self._local = page[at : at + held]
        self._next = int.from_bytes(page[at + held : at + held + 4]) if held < size else 0
        self._places = self._laid_out()

    def _laid_out(self) -> list[tuple[int, int, int]]:
        """Serial type, start and stop of every column."""
        found: list[tuple[int, int, int]] = []
        header = self._local
        stop, at = _varint(header, 0)
        if stop > len(header):
            header = self._bytes(0, stop)
        start = stop
        while at < stop and len(found) < len(self._table.columns):
            kind, at = _varint(header, at)
            length = _INTEGER_BYTES[kind] if kind <= 6 else 8 if kind == 7 else max(0, kind - 12) // 2
            found.append((kind, start, start + length))
            start += length
        return found

    def value(self, column: str, most: int = MAX_PAYLOAD_BYTES) -> Value:
        """The value of a column; None where it is null, the row has none, or it is longer than `most` bytes."""
        if column == self._table.alias:
            return self.number
        try:
            kind, start, stop = self._places[self._table.columns.index(column)]
        except (ValueError, IndexError):
            return None
        if stop - start > most or (stop > len(self._local) and self._size > MAX_PAYLOAD_BYTES):
            return None
        return _value(kind, self._bytes(start, stop), int.from_bytes(self._pages.header[56:60]))

    def _bytes(self, start: int, stop: int) -> bytes:
        """A part of the row, from its page and those on which it goes on."""
        if stop > self._size:
            raise DecodeError("a row ends early")
        found = [self._local[start:stop]]
        at, page = len(self._local), self._next
        while at < stop:
            data = self._pages.page(page)[: self._pages.usable]
            page = int.from_bytes(data[:4])
            found.append(data[4 + max(0, start - at) : 4 + max(0, stop - at)])
            at += len(data) - 4
        return b"".join(found)


def _value(kind: int, data: bytes, encoding: int) -> Value:
    """A value from its serial type and its bytes."""
    if kind >= 12:
        return data.decode(_ENCODINGS.get(encoding, "utf-8"), "replace") if kind & 1 else data
    if kind == 7:
        return float(struct.unpack(">d", data)[0])
    if kind in (8, 9):
        return kind - 8
    return int.from_bytes(data, signed=True) if 0 < kind < 7 else None


def tables(pages: Pages) -> Iterator[Table]:
    """The tables that a person created, in that order."""
    schema = Table("sqlite_schema", 1, ("type", "name", "tbl_name", "rootpage", "sql"))
    for i, row in enumerate(rows(pages, schema)):
        name, root, sql = row.value("name"), row.value("rootpage"), row.value("sql")
        if i >= _MAX_TABLES:
            return
        if row.value("type") == "table" and isinstance(name, str) and isinstance(root, int) and isinstance(sql, str):
            columns, alias = columns_of(sql)
            yield Table(name, root, columns, alias)


def columns_of(sql: str) -> tuple[tuple[str, ...], str]:
    """Columns that rows hold, from the statement that created a table, and which of them stands for the identifier."""
    tokens = [token for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*"))]
    if "(" not in tokens:
        return (), ""
    pieces: list[list[str]] = [[]]
    depth = 0
    for token in tokens[tokens.index("(") :]:
        depth += (token == "(") - (token == ")")
        if depth == 0:
            break
        if token == "," and depth == 1:
            pieces.append([])
        elif token != "(" or depth > 1:
            pieces[-1].append(token)
    names, whole, keys = [], set(), set()
    for piece in filter(None, pieces):
        words = [word.upper() for word in piece]
        if words[0] in _CONSTRAINTS:
            if "PRIMARY" in words and (key := _unquoted(piece[words.index("PRIMARY") + 3 :])) and "," not in words:
                keys.add(key)
            continue
        name = _unquoted(piece)
        is_computed = any(words[i : i + 2] == ["AS", "("] for i in range(len(words)))
        if is_computed and "STORED" not in words:
            continue
        names.append(name)
        if words[1:2] == ["INTEGER"]:
            whole.add(name)
            keys.update({name} if "PRIMARY" in words else ())
    return tuple(names), next(iter(keys & whole), "")


def _unquoted(piece: Sequence[str]) -> str:
    word = piece[0] if piece else ""
    quote = word[:1]
    if quote in ('"', "`", "'", "["):
        word = word[1:-1].replace(quote * 2, quote)
    return word.lower()


def newest(pages: Pages, table: Table) -> int | None:
    """The highest identifier; None in an empty table."""
    number = table.root
    for _ in range(_MAX_DEPTH):
        page, at = _tree_page(pages, number)
        count = int.from_bytes(page[at + 3 : at + 5])
        if page[at] == _LEAF:
            return TableRow(pages, table, page, _cells(page, at, count)[-1]).number if count else None
        number = int.from_bytes(page[at + 8 : at + 12])
    raise DecodeError("its tree is too deep")


def rows(pages: Pages, table: Table, after: int | None = None) -> Iterator[TableRow]:
    """Rows whose identifier is higher than `after`, ascending."""
    met: set[int] = set()
    yield from _below(pages, table, table.root, after, met)


def _below(
    pages: Pages, table: Table, number: int, after: int | None, met: set[int], depth: int = 0
) -> Iterator[TableRow]:
    if number in met or depth > _MAX_DEPTH:
        raise DecodeError("its tree runs in a circle")
    met.add(number)
    page, at = _tree_page(pages, number)
    count = int.from_bytes(page[at + 3 : at + 5])
    cells = _cells(page, at, count)
    if page[at] == _LEAF:
        for cell in cells:
            row = TableRow(pages, table, page, cell)
            if after is None or row.number > after:
                yield row
        return
    for cell in cells:
        key, _ = _varint(page, cell + 4)
        key = key - (1 << 64) if key >> 63 else key
        if after is None or key > after:
            yield from _below(pages, table, int.from_bytes(page[cell : cell + 4]), after, met, depth + 1)
    yield from _below(pages, table, int.from_bytes(page[at + 8 : at + 12]), after, met, depth + 1)


def _tree_page(pages: Pages, number: int) -> tuple[bytes, int]:
    """A page of a tree of rows, and where its header stands: on the first page behind that of the file."""
    page = pages.page(number)
    at = HEADER_BYTES if number == 1 else 0
    if page[at] not in (_LEAF, _INTERIOR):
        raise DecodeError("a table in a form that is not read" if page[at] in (0x0A, 0x02) else "its tree is damaged")
    return page, at


def _cells(page: bytes, at: int, count: int) -> list[int]:
    start = at + (8 if page[at] == _LEAF else 12)
    if start + 2 * count > len(page):
        raise DecodeError("its tree is damaged")
    return list(struct.unpack_from(f">{count}H", page, start))


def _local_bytes(size: int, usable: int) -> int:
    """How much of a row stands in its own page."""
    if size <= usable - 35:
        return size
    least = (usable - 12) * 32 // 255 - 23
    held = least + (size - least) % (usable - 4)
    return held if held <= usable - 35 else least


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = 0
    for i, byte in enumerate(data[at : at + 9]):
        if i == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    raise DecodeError("a row ends early")
