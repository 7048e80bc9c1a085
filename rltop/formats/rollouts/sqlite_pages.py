"""Pages of a SQLite file as its last commit left them, read so that no writer can notice.

Owns the three files: the database, its write-ahead log and its rollback journal.
SQLite itself, asked to read only, takes locks that a writer without patience fails
at, and leaves a log and an index beside a file in WAL mode, which their next writer
may not be allowed to touch. Here everything is opened for reading, nothing is locked
and nothing created; what a lock would promise is found out instead, by looking after
a read whether anything that it used has changed meanwhile. Source: the description
of the file format by the SQLite project (fileformat2.html).
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO, TypeVar

from rltop.errors import DecodeError, refusing
from rltop.files import open_regular

MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100
_TRIES = 12
_PAUSE_S = 0.004
_WAL_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}
_WAL_HEADER_BYTES, _FRAME_BYTES = 32, 24
_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
_JOURNAL_HEADER_BYTES = 28
_MAX_RECORDS = 4_000_000
"""Pages that a log or a journal is looked through for; 16 GB of them."""
_COMMIT_COUNTERS = (slice(24, 32), slice(92, HEADER_BYTES))
"""What every commit changes on the first page without changing what is in it."""

Result = TypeVar("Result")


class _WriteAheadLog:
    """The log of a database in WAL mode: which of its frames is the newest of a page.

    A transaction counts when its last frame is whole; frames are written in order.

    Attributes:
        header: its first bytes, which change when it is begun anew; empty without a log.
        frames: page → where its newest committed content stands.
        page_size: as the header says; 0 without a log.
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
        """Take in what has been committed since the last look."""
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
        """The checksum of a frame, which goes on from that of the frame before it."""
        first, second = struct.unpack(">II", before)
        words = struct.unpack(f"{self._order}{len(data) // 4}I", data)
        for i in range(0, len(words), 2):
            first = (first + words[i] + second) & 0xFFFFFFFF
            second = (second + words[i + 1] + first) & 0xFFFFFFFF
        return struct.pack(">II", first, second)


class _Journal:
    """The rollback journal: pages as they were before a transaction that has not ended, or never will.

    Attributes:
        pages: page → where its former content stands; empty where no transaction is under way.
        mark: changes when the journal does.
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
            # Written last: without it nothing of the database has been changed yet.
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
    """What one look at a database may read; what every page was is remembered until the look is over.

    Attributes:
        header: the first bytes of the first page.
        size: bytes of a page.
        usable: bytes of a page that hold content.
    """

    def __init__(self, path: str, log: _WriteAheadLog) -> None:
        self._path = path
        self._log = log
        self._files: dict[str, BinaryIO] = {}
        self._used: dict[int, tuple[str, int, int]] = {}
        log.refresh()
        self._log_header = log.header
        self._journal = _Journal(f"{path}-journal")
        self.size = self.usable = 0
        self.header = b""

    def begin(self) -> None:
        """Read the header.

        Raises:
            DecodeError: it is no database, or its header is damaged.
            OSError: it cannot be read.
        """
        self.size = self._page_size()
        self.header = self.page(1)[:HEADER_BYTES]
        self.usable = self.size - self.header[20]
        if self.usable < 480:
            raise DecodeError("its header is damaged")

    def _page_size(self) -> int:
        head = self._bytes("", HEADER_BYTES, 0)
        if not head and self._log.page_size:
            return self._log.page_size
        if not head.startswith(MAGIC):
            raise DecodeError("it is no SQLite database" if head else "it is empty")
        size = int.from_bytes(head[16:18])
        size = 65536 if size == 1 else size
        if not _is_page_size(size) or self._log.page_size not in (0, size):
            raise DecodeError("its header is damaged")
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
            raise DecodeError(f"its page {number} is missing")
        self._used.setdefault(number, (suffix, at, _mark(number, data)))
        return data

    def _bytes(self, suffix: str, size: int, at: int) -> bytes:
        if suffix not in self._files:
            self._files[suffix] = open_regular(self._path + suffix)
        return os.pread(self._files[suffix].fileno(), size, at)

    @property
    def is_current(self) -> bool:
        """Is all that was read what one commit left: has nothing of it changed since it was first read?

        Nothing may be read after this has been asked.
        """
        if _Journal(f"{self._path}-journal").mark != self._journal.mark:
            return False
        same = all(
            _mark(number, self._bytes(suffix, self.size, at)) == seen
            for number, (suffix, at, seen) in self._used.items()
        )
        self._log.refresh()
        # What has come into the log since may have been copied into the database before it was read there.
        return (
            same
            and self._log.header == self._log_header
            and not any(not suffix and number in self._log.frames for number, (suffix, *_) in self._used.items())
        )

    def close(self) -> None:
        """Give the files back."""
        for file in self._files.values():
            file.close()
        self._files = {}


class DatabaseFile:
    """A database that somebody else may be writing."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._log = _WriteAheadLog(f"{path}-wal")

    def look(self, read: Callable[[Pages], Result]) -> Result:
        """What `read` makes of the pages, done again while a writer changes them beneath it; it must be short.

        Raises:
            DecodeError: the database is damaged, or changes without a pause.
            OSError: it cannot be read.
        """
        for _ in range(_TRIES):
            pages = Pages(self.path, self._log)
            try:
                with refusing("it is damaged"):
                    pages.begin()
                    found = read(pages)
                if pages.is_current:
                    return found
            except (DecodeError, OSError):
                # Pages of two commits may make no sense together.
                if pages.is_current:
                    raise
            finally:
                pages.close()
            time.sleep(_PAUSE_S)
        raise DecodeError("it is being written without a pause; it is looked at again")


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    """A handle to a file beside the database; None where there is none."""
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
