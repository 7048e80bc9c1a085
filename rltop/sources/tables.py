"""Follows one run of a tracker: rows in a database, or a folder with one file per metric.

Every row becomes a line (`model/table_rows.py`); lines of several tables or files are merged
by time. Knows which tables there are, but not the meaning of their rows.
"""

from __future__ import annotations

import posixpath
import re
import stat
from collections import deque
from collections.abc import Collection, Sequence
from functools import partial
from heapq import heapify, heappop, heapreplace

from rltop.clock import Clock
from rltop.errors import DecodeError, SourceError
from rltop.model.table_rows import (
    DESCRIPTION,
    FOLLOWED,
    METRICS_FOLDER,
    ROWS_MAGIC,
    RUN_COLUMNS,
    SETTINGS_FOLDER,
    STATE_COLUMN,
    line_of,
)
from rltop.regex import regex
from rltop.sources.events import Chunk, Reset, ResetReason, TailState, TailStatus, UnheldTail, is_missing
from rltop.sources.file import FileSystem, read_part
from rltop.sqlite_file import DatabaseFile, DatabaseTable, Pages, TableRow, newest, rows, tables
from rltop.structs import Struct, field

PIECE_ROWS = 500
"""Rows of each table per poll, which must be short because a writer may be changing the file."""
_TIME = "timestamp"
_MAX_VALUE_BYTES = 16 * 1024 * 1024
_MAX_NAME_BYTES = 64 * 1024

Line = tuple[str, bytes]
"""The time as a comparable string, and the line."""


class _Lines:
    """Merges the lines of several tables or files by time.

    Each of them keeps its own order. While one may still have earlier lines than those waiting, nothing is released.
    """

    def __init__(self) -> None:
        self.waiting: dict[str, deque[Line]] = {}
        self._latest: dict[str, str] = {}

    def add(self, name: str, lines: Sequence[Line]) -> None:
        held = self.waiting.setdefault(name, deque())
        for time, line in lines:
            latest = self._latest[name] = max(self._latest.get(name, ""), time)
            held.append((latest, line))

    def take(self, unread: Collection[str]) -> bytes:
        """Remove and return the lines that can be released; `unread` names inputs with lines not added yet."""
        taken: list[bytes] = []
        order = {name: at for at, name in enumerate(self.waiting)}
        heads = [(held[0][0], order[name], name) for name, held in self.waiting.items() if held]
        heapify(heads)
        is_open = all(self.waiting.get(name) for name in unread)
        while heads and is_open:
            _, at, name = heads[0]
            held = self.waiting[name]
            taken.append(held.popleft()[1])
            if held:
                heapreplace(heads, (held[0][0], at, name))
            else:
                heappop(heads)
                is_open = name not in unread
        return b"".join(taken)


def _time_of(row: TableRow, table: DatabaseTable) -> str:
    """The time of a row, as a string that sorts by time; empty for settings, which come first."""
    value = row.value(_TIME, _MAX_NAME_BYTES) if _TIME in table.columns else None
    return value if isinstance(value, str) else f"{value:024.3f}" if isinstance(value, int | float) else ""


class _Part(Struct, frozen=False):
    """Read position in one table.

    `after` is the rowid of the last row that was read, `newest` the highest rowid in the table.
    """

    root: int
    after: int | None = None
    newest: int | None = None

    @property
    def has_more(self) -> bool:
        return self.newest is not None and (self.after is None or self.after < self.newest)


class _Look(Struct, frozen=False):
    parts: dict[str, _Part] = field(default_factory=dict)
    lines: dict[str, list[Line]] = field(default_factory=dict)
    states: list[bytes] = field(default_factory=list)
    is_new: bool = False


class DatabaseTail(UnheldTail):
    """Follows one run in a database that its tracker may be writing; polled like `Tail`.

    Takes no locks and creates no files. Rows that were read are expected to stay; if they are
    deleted, the whole run is read again.
    """

    def __init__(self, path: str, member: str, fs: FileSystem) -> None:
        super().__init__(path, fs)
        self._member = member
        self._file = DatabaseFile(path)
        self._parts: dict[str, _Part] = {}
        self._lines = _Lines()
        self._states: list[bytes] = []
        self._seen: object = None
        self._generation = -1
        self._offset = 0

    def poll(self, max_bytes: int) -> list[Chunk | Reset]:
        """Poll the next rows of each table once; file system errors are reported in `status`, not raised."""
        if self._is_closed:
            return []
        try:
            seen = self._stamp()
            if seen == self._seen and not self._has_more:
                self.status = self.status._replace(state=TailState.AT_END, message="", error=None)
                return []
            found = self._file.look(partial(self._look, max_bytes))
        except DecodeError as error:
            said = SourceError(f"{self.path}: {error.message}", error.hint or "see that it is a whole database")
            self.status = self.status._replace(
                state=TailState.LOST, message=f"{error.message}; retrying", error=said, searched=0
            )
            return []
        except OSError as error:
            self._lose(error)
            if is_missing(error) and self._seen is None:
                self.status = TailStatus(TailState.WAITING, "the database is not there yet")
            return []
        self._seen = seen
        return self._take(found)

    @property
    def _has_more(self) -> bool:
        return any(part.has_more for part in self._parts.values())

    def _stamp(self) -> object:
        """Changes with every commit: size and time of the database, its log and its journal."""
        found: list[tuple[int, int, int] | None] = []
        for suffix in ("", "-wal", "-journal"):
            try:
                seen = self._fs.stat(self.path + suffix)
            except FileNotFoundError:
                if not suffix:
                    raise
                found.append(None)
            else:
                found.append(seen.stamp)
        return found

    def _look(self, max_bytes: int, pages: Pages) -> _Look:
        look = _Look()
        room = max_bytes
        for table in tables(pages):
            key = next((name for name in RUN_COLUMNS if name in table.columns), "")
            if table.name not in FOLLOWED or not key:
                continue
            if STATE_COLUMN in table.columns:
                look.states += [line for row in rows(pages, table) if (line := self._line(row, table))]
                continue
            known = self._parts.get(table.name)
            last = newest(pages, table)
            if known is not None and ((last or 0) < (known.after or 0) or known.root != table.root):
                return _Look(is_new=True)
            part = look.parts[table.name] = _Part(table.root, known.after if known is not None else None, last)
            lines = look.lines[table.name] = []
            for count, row in enumerate(rows(pages, table, part.after)):
                if count >= PIECE_ROWS or room <= 0:
                    break
                part.after = row.number
                line = self._line(row, table)
                if line:
                    lines.append((_time_of(row, table), line))
                    room -= len(line)
        return look

    def _line(self, row: TableRow, table: DatabaseTable) -> bytes:
        if not any(row.value(name, _MAX_NAME_BYTES) == self._member for name in RUN_COLUMNS if name in table.columns):
            return b""
        return line_of(table.name, ((name, row.value(name, _MAX_VALUE_BYTES)) for name in table.columns))

    def _take(self, look: _Look) -> list[Chunk | Reset]:
        events: list[Chunk | Reset] = []
        if look.is_new:
            self._parts, self._lines, self._states, self._offset = {}, _Lines(), [], 0
            self._generation += 1
            self.status = self.status._replace(state=TailState.READING, searched=1)
            self._seen = None
            return [Reset(ResetReason.REWRITTEN, self._generation, is_restart=True)]
        self._parts = look.parts
        for name in FOLLOWED:
            self._lines.add(name, look.lines.get(name, ()))
        data = self._lines.take({name for name, part in look.parts.items() if part.has_more})
        if not self._has_more:
            data += b"".join(line for line in look.states if line not in self._states)
            self._states = look.states
        if data:
            if self._offset == 0:
                data = ROWS_MAGIC + data
                self._generation = max(0, self._generation)
            events.append(Chunk(data, self._offset, self._generation))
            self._offset += len(data)
        self._tell()
        return events

    def _tell(self) -> None:
        passed = sum(part.after or 0 for part in self._parts.values())
        total = sum(part.newest or 0 for part in self._parts.values())
        size = self._fs.stat(self.path).size if self._has_more else self._offset
        state = TailState.READING if self._has_more else TailState.AT_END
        searched = max(1, size * passed // max(1, total)) if self._has_more else 0
        message = "" if self._has_more or self._offset else "no row of this run yet"
        self.status = TailStatus(state, message, size, self._offset, searched=searched)


SCAN_S = 1.0
"""How often the folder is listed and the files' sizes are read."""
BLOCK_BYTES = 16 * 1024
"""Read size per file; a run has hundreds of files."""
_MAX_FILES = 20_000
_MAX_SETTINGS = 1_000
_MAX_DEPTH = 8
_PARTS_OF_LINE = 3
_MOST_OF_TEXT = 64 * 1024
_STATUS = regex(rb"^status:[ \t]*(\w+)", re.MULTILINE)


class _MetricFile(Struct, frozen=False):
    """One file: what has been read of it, and its size at the last scan."""

    path: str
    offset: int = 0
    size: int = 0
    rest: bytes = b""

    @property
    def has_more(self) -> bool:
        return self.offset < self.size


class MetricFolderTail(UnheldTail):
    """Follows a run in MLflow's file store: `metrics/<key>`, lines of time, value and step; polled like `Tail`."""

    def __init__(self, path: str, fs: FileSystem, clock: Clock) -> None:
        super().__init__(path, fs)
        self._clock = clock
        self._generation = 0
        self._begin_anew()
        self._next_scan = float("-inf")

    def _begin_anew(self) -> None:
        self._files: dict[str, _MetricFile] = {}
        self._lines = _Lines()
        self._states = b""
        self._offset = 0

    def poll(self, max_bytes: int) -> list[Chunk | Reset]:
        """Read about `max_bytes`, to the end of a block; file system errors are reported in `status`, not raised."""
        if self._is_closed:
            return []
        try:
            if not self._has_more:
                if self._clock.monotonic() < self._next_scan:
                    return []
                if self._scan():
                    self._begin_anew()
                    self._generation += 1
                    self._next_scan = float("-inf")
                    self.status = self.status._replace(state=TailState.READING, searched=1)
                    return [Reset(ResetReason.REWRITTEN, self._generation, is_restart=True)]
            return self._give_out(self._read(max_bytes))
        except OSError as error:
            self._next_scan = self._clock.monotonic() + SCAN_S
            self._lose(error)
            return []

    @property
    def _has_more(self) -> bool:
        return any(file.has_more for file in self._files.values())

    def _scan(self) -> bool:
        """Read the size of every file; True if one is shorter than what was read of it."""
        self._next_scan = self._clock.monotonic() + SCAN_S
        folder = posixpath.join(self.path, METRICS_FOLDER)
        for key, size in sorted(self._listed(folder, "", 0)):
            file = self._files.setdefault(key, _MetricFile(posixpath.join(folder, key)))
            if size < file.offset:
                return True
            file.size = size
        return False

    def _listed(self, folder: str, prefix: str, depth: int) -> list[tuple[str, int]]:
        found: list[tuple[str, int]] = []
        for entry in self._fs.scandir(folder):
            path = posixpath.join(folder, entry.name)
            try:
                seen = self._fs.stat(path)
            except FileNotFoundError:
                continue
            if stat.S_ISREG(seen.mode):
                found.append((prefix + entry.name, seen.size))
            elif stat.S_ISDIR(seen.mode) and depth < _MAX_DEPTH:
                found += self._listed(path, f"{prefix}{entry.name}/", depth + 1)
        return found[:_MAX_FILES]

    def _read(self, max_bytes: int) -> bytes:
        """The next lines, merged by time; needs at least one line of every file that has more."""
        taken: list[bytes] = []
        left = max_bytes
        while left > 0:
            for key, file in self._files.items():
                while file.has_more and not self._lines.waiting.get(key):
                    self._lines.add(key, self._block(key, file))
            data = self._lines.take({key for key, file in self._files.items() if file.has_more})
            if not data:
                break
            taken.append(data)
            left -= len(data)
        return b"".join(taken)

    def _block(self, key: str, file: _MetricFile) -> list[Line]:
        """The complete lines in the next block of a file; a partial last line is kept for the next block."""
        data = read_part(self._fs, file.path, min(BLOCK_BYTES, file.size - file.offset), file.offset)
        if not data:
            file.size = file.offset
            return []
        file.offset += len(data)
        *whole, file.rest = (file.rest + data).split(b"\n")
        return [_metric_line(key, line) for line in whole if line]

    def _give_out(self, data: bytes) -> list[Chunk | Reset]:
        events: list[Chunk | Reset] = []
        if not self._has_more and (data or self._offset):
            data += self._state()
        if data:
            data = data if self._offset else ROWS_MAGIC + self._settings() + data
            events.append(Chunk(data, self._offset, self._generation))
            self._offset += len(data)
        size = sum(file.size for file in self._files.values())
        read = sum(file.offset for file in self._files.values())
        state = TailState.READING if self._has_more else TailState.AT_END
        self.status = TailStatus(state, "", size, self._offset, searched=max(1, read) if self._has_more else 0)
        return events

    def _settings(self) -> bytes:
        folder = posixpath.join(self.path, SETTINGS_FOLDER)
        try:
            listed = sorted(self._listed(folder, "", 0))[:_MAX_SETTINGS]
            lines = [line_of("params", [("key", key), ("value", self._text(f"{folder}/{key}"))]) for key, _ in listed]
        except OSError:
            return b""
        return b"".join(lines)

    def _text(self, path: str) -> bytes:
        return read_part(self._fs, path, _MOST_OF_TEXT, 0)

    def _state(self) -> bytes:
        try:
            said = _STATUS.search(self._text(posixpath.join(self.path, DESCRIPTION)))
        except FileNotFoundError:
            return b""
        line = line_of("runs", [(STATE_COLUMN, said[1])]) if said is not None else b""
        is_news = line != self._states
        self._states = line
        return line if is_news else b""


def _metric_line(key: str, line: bytes) -> Line:
    """`time value step …` as a row of MLflow's database table; several steps may share a time."""
    parts = line.decode("utf-8", "surrogateescape").split()
    time, _, step = parts[:_PARTS_OF_LINE] if len(parts) >= _PARTS_OF_LINE else ("", "", "")
    names = ("timestamp", "value", "step")
    return time.zfill(24) + step.zfill(20), line_of("metrics", [("key", key), *zip(names, parts, strict=False)])
