"""A SQLite file as of its last commit, read without affecting a writer: pages, tables, rows.

Reads the database, its write-ahead log and its rollback journal. Even when it only reads, SQLite itself takes locks,
which make a writer without a busy timeout fail; in WAL mode it also leaves a log and an index next to the file that
the next writer may not have permission to touch. Here every file is opened read-only, with no locks and no new files;
instead, each read is checked afterwards for pages that have changed. Rows are decoded lazily, and their overflow
pages are read only for the columns asked for. Source: the SQLite file format (https://sqlite.org/fileformat2.html).
"""

from __future__ import annotations

import itertools
import os
import re
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, TypeVar

from rltop.errors import DecodeError, refusing
from rltop.files import open_regular
from rltop.model.table_rows import SQLITE_MAGIC
from rltop.regex import regex
from rltop.structs import NamedTuple

HEADER_BYTES = 100
_TRIES = 12
_PAUSE_S = 0.004
_WAL_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}
_WAL_HEADER_BYTES, _FRAME_BYTES = 32, 24
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_HEADER_BYTES = 28
_MAX_RECORDS = 4_000_000
"""Page limit when scanning a log or journal: 16 GB at 4 KiB pages."""
_COMMIT_COUNTERS = (slice(24, 32), slice(92, HEADER_BYTES))
"""Bytes of the first page that every commit changes: change counter, database size, and its last eight bytes."""

Result = TypeVar("Result")


class _WriteAheadLog:
    """The log of a database in WAL mode: maps each page to its newest committed frame.

    A transaction counts once its commit frame is complete; frames are written in order.

    Attributes:
        header: the header of the log, which changes when the log is reset; empty without a log.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._begin_anew(b"")

    def _begin_anew(self, header: bytes) -> None:
        self.header = header
        self.frames: dict[int, int] = {}
        self.page_size = 0
        self._at = _WAL_HEADER_BYTES
        self._sums = header[24:32]
        if header:
            magic, version, self.page_size = struct.unpack_from(">III", header)
            if magic not in _WAL_MAGICS or version != 3007000 or not _is_page_size(self.page_size):
                self.header, self.page_size = b"", 0
            else:
                self._order = _WAL_MAGICS[magic]

    def refresh(self) -> None:
        """Take in what was committed since the last call."""
        with _opened(self._path) as handle:
            header = b"" if handle is None else os.pread(handle, _WAL_HEADER_BYTES, 0)
            if header != self.header:
                self._begin_anew(header if len(header) == _WAL_HEADER_BYTES else b"")
            if handle is not None and self.header:
                self._take(handle)

    def _take(self, handle: int) -> None:
        waiting: dict[int, int] = {}
        at, sums = self._at, self._sums
        while len(self.frames) + len(waiting) < _MAX_RECORDS:
            head = os.pread(handle, _FRAME_BYTES, at)
            if len(head) < _FRAME_BYTES or head[8:16] != self.header[16:24]:
                return
            page, is_commit = int.from_bytes(head[:4]), any(head[4:8])
            if is_commit:
                data = os.pread(handle, self.page_size, at + _FRAME_BYTES)
                if len(data) < self.page_size or self._summed(head[:8] + data, sums) != head[16:24]:
                    return
            waiting[page] = at + _FRAME_BYTES
            at, sums = at + _FRAME_BYTES + self.page_size, head[16:24]
            if is_commit:
                self.frames.update(waiting)
                waiting.clear()
                self._at, self._sums = at, sums

    def _summed(self, data: bytes, before: bytes) -> bytes:
        first, second = struct.unpack(">II", before)
        words = struct.unpack(f"{self._order}{len(data) // 4}I", data)
        for i in range(0, len(words), 2):
            first = (first + words[i] + second) & 0xFFFFFFFF
            second = (second + words[i + 1] + first) & 0xFFFFFFFF
        return struct.pack(">II", first, second)


class _Journal:
    """The rollback journal: pages as they were before a transaction that is unfinished or will never finish.

    Attributes:
        pages: page → offset of its former content; empty without a transaction.
    """

    def __init__(self, path: str) -> None:
        self.pages: dict[int, int] = {}
        self.mark: tuple[bytes, int] = (b"", 0)
        with _opened(path) as handle:
            if handle is not None:
                self._read(handle)

    def _read(self, handle: int) -> None:
        at, first = 0, b""
        while len(self.pages) < _MAX_RECORDS:
            head = os.pread(handle, _JOURNAL_HEADER_BYTES, at)
            # The magic is written last: without it the database file has not been changed yet.
            if len(head) < _JOURNAL_HEADER_BYTES or head[:8] != _JOURNAL_MAGIC:
                break
            count, nonce, _, sector, page_size = struct.unpack(">IIIII", head[8:])
            if not _is_page_size(page_size) or not sector:
                break
            first = first or head
            start = at + sector
            length = page_size + 8
            if count == 0xFFFFFFFF:
                count = max(0, os.fstat(handle).st_size - start) // length
            for place in range(start, start + min(count, _MAX_RECORDS) * length, length):
                record = os.pread(handle, length, place)
                if len(record) < length or _journal_sum(record[4:-4], nonce) != record[-4:]:
                    count = 0
                    break
                self.pages.setdefault(int.from_bytes(record[:4]), place + 4)
            if not count:
                break
            at = -(-(start + count * length) // sector) * sector
        self.mark = (first, len(self.pages))


def _journal_sum(data: bytes, nonce: int) -> bytes:
    return ((nonce + sum(data[i] for i in range(len(data) - 200, 0, -200))) & 0xFFFFFFFF).to_bytes(4)


class Pages:
    """The pages that one read of a database uses; a hash of each is kept to detect later changes.

    Attributes:
        header: the database header, the first 100 bytes of page 1.
    """

    def __init__(self, path: str, log: _WriteAheadLog) -> None:
        self._path = path
        self._log = log
        self._files: dict[str, BinaryIO] = {}
        self._used: dict[int, tuple[str, int, int]] = {}
        log.refresh()
        self._log_header = log.header
        self._journal = _Journal(f"{path}-journal")
        self.size = self.usable = self.most_bytes = 0
        self.header = b""

    def begin(self) -> None:
        """Read the header.

        Raises:
            DecodeError: not a database, or its header is damaged.
            OSError: it cannot be read.
        """
        self.size = self._page_size()
        self.header = self.page(1)[:HEADER_BYTES]
        self.usable = self.size - self.header[20]
        if self.usable < 480:
            raise DecodeError("damaged header")
        elsewhere = len(self._log.frames) + len(self._journal.pages)
        self.most_bytes = os.fstat(self._files[""].fileno()).st_size + elsewhere * self.size

    def _page_size(self) -> int:
        head = self._bytes("", HEADER_BYTES, 0)
        if not head and self._log.page_size:
            return self._log.page_size
        if not head.startswith(SQLITE_MAGIC):
            raise DecodeError("not a SQLite database" if head else "empty file")
        size = int.from_bytes(head[16:18])
        size = 65536 if size == 1 else size
        if not _is_page_size(size) or self._log.page_size not in (0, size):
            raise DecodeError("damaged header")
        return size

    def page(self, number: int) -> bytes:
        """The content of a page as of the last commit.

        Raises:
            DecodeError: the database has no such page.
            OSError: it cannot be read.
        """
        suffix, at = "", (number - 1) * self.size
        if number in self._log.frames:
            suffix, at = "-wal", self._log.frames[number]
        elif number in self._journal.pages:
            suffix, at = "-journal", self._journal.pages[number]
        data = self._bytes(suffix, self.size, at) if number > 0 else b""
        if len(data) < self.size:
            raise DecodeError(f"page {number} is missing")
        self._used.setdefault(number, (suffix, at, _mark(number, data)))
        return data

    def _bytes(self, suffix: str, size: int, at: int) -> bytes:
        if suffix not in self._files:
            self._files[suffix] = open_regular(self._path + suffix)
        return os.pread(self._files[suffix].fileno(), size, at)

    @property
    def is_current(self) -> bool:
        """Does everything read belong to one commit, that is, has none of it changed since?

        Nothing may be read after this check.
        """
        if _Journal(f"{self._path}-journal").mark != self._journal.mark:
            return False
        same = all(
            _mark(number, self._bytes(suffix, self.size, at)) == seen
            for number, (suffix, at, seen) in self._used.items()
        )
        self._log.refresh()
        # A page committed to the log since then may have been checkpointed into the database before it was read there.
        return (
            same
            and self._log.header == self._log_header
            and not any(not suffix and number in self._log.frames for number, (suffix, *_) in self._used.items())
        )

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files = {}


class DatabaseFile:
    """A database that another process may be writing."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._log = _WriteAheadLog(f"{path}-wal")

    def look(self, read: Callable[[Pages], Result]) -> Result:
        """The result of `read`, which is repeated if pages change during it; it must be short.

        Raises:
            DecodeError: the database is damaged, or changes too often.
            OSError: it cannot be read.
        """
        for _ in range(_TRIES):
            pages = Pages(self.path, self._log)
            try:
                with refusing("damaged database"):
                    pages.begin()
                    found = read(pages)
                if pages.is_current:
                    return found
            except (DecodeError, OSError):
                # An error may come from mixing pages of two commits.
                if pages.is_current:
                    raise
            finally:
                pages.close()
            time.sleep(_PAUSE_S)
        raise DecodeError("being written without a pause; retrying")


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    """A descriptor of a companion file; None if it does not exist."""
    try:
        file = open_regular(path)
    except FileNotFoundError:
        yield None
        return
    with file:
        yield file.fileno()


def _is_page_size(size: int) -> bool:
    return 512 <= size <= 65536 and not size & (size - 1)


def _mark(number: int, data: bytes) -> int:
    if number == 1:
        changing = bytearray(data)
        for part in _COMMIT_COUNTERS:
            changing[part] = b""
        data = bytes(changing)
    return hash(data)


MAX_PAYLOAD_BYTES = 64 * 1024 * 1024
"""A longer row is read only as far as it is stored on its own page."""
_LEAF, _INTERIOR = 0x0D, 0x05
_MAX_DEPTH = 24
_MAX_TABLES = 10_000
_MAX_HEADER_BYTES = 98_307
"""Limit for a row's header: 32,767 columns, the most that SQLite can be built for."""
_MAX_SCHEMA_CHARS = 4_000_000
"""Limit for all CREATE TABLE statements together."""
_INTEGER_BYTES = (0, 1, 2, 3, 4, 6, 8)
_ENCODINGS = {2: "utf-16-le", 3: "utf-16-be"}
_TOKEN = regex(
    r"""--[^\n]*|/\*.*?(?:\*/|$)|'(?:[^']|'')*+'?|"(?:[^"]|"")*+"?|`(?:[^`]|``)*+`?|\[[^\]]*+\]?|[(),]|[^\s(),'"`\[\]]+""",
    re.DOTALL,
)
_CONSTRAINTS = frozenset({"PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "CONSTRAINT"})
_BEHIND_TYPE = _CONSTRAINTS | {"NOT", "NULL", "DEFAULT", "COLLATE", "REFERENCES", "GENERATED", "AS"}
_NUMBER = regex(r"\s*[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?\s*", re.ASCII)
_DIGITS_OF_INTEGER = 19
_HEXADECIMAL = regex(r"'(?:[0-9a-fA-F]{2})*'")

Value = int | float | str | bytes | None


class DatabaseTable(NamedTuple):
    """One table.

    Attributes:
        columns: names in lower case, in storage order.
        alias: the column that is an alias of the rowid (INTEGER PRIMARY KEY); empty if there is none.
        defaults: values of columns that older rows, written before ALTER TABLE, lack.
    """

    name: str
    root: int
    columns: tuple[str, ...]
    alias: str = ""
    defaults: tuple[Value, ...] = ()


class TableRow:
    """A row, decoded on demand from its cell.

    Raises:
        DecodeError: it is longer than the file, or has too many columns.
    """

    def __init__(self, pages: Pages, table: DatabaseTable, page: bytes, at: int) -> None:
        size, at = _varint(page, at)
        if size > pages.most_bytes:
            raise DecodeError("damaged: a row longer than the file")
        number, at = _varint(page, at)
        self.number = number - (1 << 64) if number >> 63 else number
        self._pages = pages
        self._table = table
        self.size = size
        held = _local_bytes(size, pages.usable)
        self._local = page[at : at + held]
        self._further = [int.from_bytes(page[at + held : at + held + 4])] if held < size else []
        self._places = self._laid_out()

    def _laid_out(self) -> list[tuple[int, int, int]]:
        """Serial type, start and stop of every column."""
        found: list[tuple[int, int, int]] = []
        header = self._local
        stop, at = _varint(header, 0)
        if stop > _MAX_HEADER_BYTES:
            raise DecodeError("damaged: a row with too many columns")
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
        """The value of a column; None if it is null, missing, or longer than `most` bytes."""
        if column == self._table.alias:
            return self.number
        table = self._table
        if column not in table.columns:
            return None
        place = table.columns.index(column)
        if place >= len(self._places):
            return table.defaults[place] if place < len(table.defaults) else None
        kind, start, stop = self._places[place]
        if stop - start > most or (stop > len(self._local) and self.size > MAX_PAYLOAD_BYTES):
            return None
        return _value(kind, self._bytes(start, stop), int.from_bytes(self._pages.header[56:60]))

    def _bytes(self, start: int, stop: int) -> bytes:
        if stop > self.size:
            raise DecodeError("truncated row")
        found = [self._local[start:stop]]
        held, room = len(self._local), self._pages.usable - 4
        for i in range(max(0, start - held) // room, -(-max(0, stop - held) // room)):
            at = held + i * room
            found.append(self._further_page(i)[4 + max(0, start - at) : 4 + min(room, stop - at)])
        return b"".join(found)

    def _further_page(self, number: int) -> bytes:
        while len(self._further) <= number:
            self._further.append(int.from_bytes(self._pages.page(self._further[-1])[:4]))
            if len(self._further) & (len(self._further) - 1) == 0 and len(set(self._further)) < len(self._further):
                raise DecodeError("damaged: a row that goes on in itself")
        return self._pages.page(self._further[number])


def _value(kind: int, data: bytes, encoding: int) -> Value:
    if kind >= 12:
        return data.decode(_ENCODINGS.get(encoding, "utf-8"), "replace") if kind & 1 else data
    if kind == 7:
        return float(struct.unpack(">d", data)[0])
    if kind in (8, 9):
        return kind - 8
    return int.from_bytes(data, signed=True) if 0 < kind < 7 else None


def tables(pages: Pages) -> Iterator[DatabaseTable]:
    """The tables, in order of creation."""
    schema = DatabaseTable("sqlite_schema", 1, ("type", "name", "tbl_name", "rootpage", "sql"))
    met: set[str] = set()
    left = _MAX_SCHEMA_CHARS
    for i, row in enumerate(rows(pages, schema)):
        name, root, sql = row.value("name"), row.value("rootpage"), row.value("sql", left)
        if i >= _MAX_TABLES:
            return
        if row.value("type") == "table" and isinstance(name, str) and isinstance(root, int) and isinstance(sql, str):
            if name in met:
                raise DecodeError("damaged: two tables of one name")
            met.add(name)
            left -= len(sql)
            yield DatabaseTable(name, root, *columns_of(sql))


def columns_of(sql: str) -> tuple[tuple[str, ...], str, tuple[Value, ...]]:
    """From a CREATE TABLE statement: the stored columns, the rowid alias or "", and the defaults."""
    tokens = [token for token in _TOKEN.findall(sql) if not token.startswith(("--", "/*"))]
    if "(" not in tokens:
        return (), "", ()
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
    names, whole, keys, defaults = [], set(), set(), []
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
        kind = " ".join(itertools.takewhile(lambda word: word not in _BEHIND_TYPE, words[1:]))
        defaults.append(_default(piece[words.index("DEFAULT") + 1 :], kind) if "DEFAULT" in words else None)
        if kind.strip("\"'`[]") == "INTEGER":
            whole.add(name)
            # INTEGER PRIMARY KEY DESC is no rowid alias: a bug that SQLite keeps for compatibility.
            keys.update({name} if "PRIMARY" in words and words[words.index("PRIMARY") + 2 :][:1] != ["DESC"] else ())
    return tuple(names), next(iter(keys & whole), ""), tuple(defaults)


def _default(words: Sequence[str], kind: str) -> Value:
    """The constant after DEFAULT, converted as the column type demands; None if it is an expression."""
    first, second, *_ = [*(word for word in words if word not in ("(", ")")), "", ""]
    if first.upper() == "X" and second.startswith("'"):
        return bytes.fromhex(second.strip("'")) if _HEXADECIMAL.fullmatch(second) else None
    word = (first + _without_quotes(second) if first in ("+", "-") else first).removeprefix("+")
    text = _without_quotes(word)
    said = {"NULL": None, "TRUE": 1, "FALSE": 0}
    if word.upper() in said:
        return said[word.upper()]
    is_bare = not kind or "BLOB" in kind
    if (is_bare and text != word) or any(part in kind for part in ("CHAR", "CLOB", "TEXT") if "INT" not in kind):
        return text
    if not _NUMBER.fullmatch(text):
        return text
    return int(text) if text.strip(" +-").isdecimal() and len(text) < _DIGITS_OF_INTEGER else float(text)


def _unquoted(piece: Sequence[str]) -> str:
    return _without_quotes(piece[0] if piece else "").lower()


def _without_quotes(word: str) -> str:
    quote = word[:1]
    return word[1:-1].replace(quote * 2, quote) if quote in ('"', "`", "'", "[") and quote else word


def newest(pages: Pages, table: DatabaseTable) -> int | None:
    """The highest rowid; None for an empty table.

    Raises:
        DecodeError: the table's b-tree is damaged.
    """
    number = table.root
    for _ in range(_MAX_DEPTH):
        page, at = _tree_page(pages, number)
        count = int.from_bytes(page[at + 3 : at + 5])
        if page[at] == _LEAF:
            return TableRow(pages, table, page, _cells(page, at, count)[-1]).number if count else None
        number = int.from_bytes(page[at + 8 : at + 12])
    raise DecodeError("damaged: tree too deep")


def rows(pages: Pages, table: DatabaseTable, after: int | None = None) -> Iterator[TableRow]:
    """Rows with a rowid above `after`, ascending.

    Raises:
        DecodeError: the table's b-tree is damaged.
    """
    left = pages.most_bytes
    for row in _below(pages, table, table.root, after, set()):
        left -= row.size
        if left < 0:
            raise DecodeError("damaged: rows in each other's place")
        if after is None or row.number > after:
            yield row


def _below(
    pages: Pages, table: DatabaseTable, number: int, after: int | None, met: set[int], depth: int = 0
) -> Iterator[TableRow]:
    if number in met or depth > _MAX_DEPTH:
        raise DecodeError("damaged: loop in the tree")
    met.add(number)
    page, at = _tree_page(pages, number)
    count = int.from_bytes(page[at + 3 : at + 5])
    cells = _cells(page, at, count)
    if page[at] == _LEAF:
        yield from (TableRow(pages, table, page, cell) for cell in cells)
        return
    for cell in cells:
        key, _ = _varint(page, cell + 4)
        key = key - (1 << 64) if key >> 63 else key
        if after is None or key > after:
            yield from _below(pages, table, int.from_bytes(page[cell : cell + 4]), after, met, depth + 1)
    yield from _below(pages, table, int.from_bytes(page[at + 8 : at + 12]), after, met, depth + 1)


def _tree_page(pages: Pages, number: int) -> tuple[bytes, int]:
    """A b-tree page and the offset of its header, which on page 1 follows the database header."""
    page = pages.page(number)
    at = HEADER_BYTES if number == 1 else 0
    if page[at] not in (_LEAF, _INTERIOR):
        raise DecodeError("unsupported table format" if page[at] in (0x0A, 0x02) else "damaged: invalid tree")
    return page, at


def _cells(page: bytes, at: int, count: int) -> list[int]:
    start = at + (8 if page[at] == _LEAF else 12)
    if start + 2 * count > len(page):
        raise DecodeError("damaged: invalid tree")
    return list(struct.unpack_from(f">{count}H", page, start))


def _local_bytes(size: int, usable: int) -> int:
    if size <= usable - 35:
        return size
    least = (usable - 12) * 32 // 255 - 23
    held = least + (size - least) % (usable - 4)
    return held if held <= usable - 35 else least


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(data[at : at + 9]):
        if i == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + i + 1
    raise DecodeError("truncated row")
