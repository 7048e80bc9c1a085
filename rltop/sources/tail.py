"""Following one path: a file, from its beginning or its last lines, or a folder of archives.

A folder of archives is one stream: a rewritten file in it is given out again as a whole.
The archives of one run overlap and are one folder below; each follows a `Reset`, so that
a decoder knows where one ends. Does not know what is in a file.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rltop.clock import Clock, SystemClock
from rltop.errors import cannot_read, reason_of
from rltop.model.table_rows import DESCRIPTION, METRICS_FOLDER, log_of, split_member
from rltop.sources.cursor import READ_BYTES, Cursor, Refused, Sight, is_missing, leading_nuls, unreachable
from rltop.sources.events import ONE_SHOT, Chunk, Reset, ResetReason, TailOptions, TailState, TailStatus
from rltop.sources.file import FileStat, FileSystem, LocalFileSystem, read_fully
from rltop.sources.handles import HeldFile, ReopenedFile
from rltop.structs import NamedTuple, Struct

if TYPE_CHECKING:
    from rltop.sources.tables import DatabaseTail, MetricFolderTail

FIRST_BLOCK = 256 * 1024
"""First block read from the end; each further one is twice as long. Any first block from 64 KiB to 1 MiB is as fast."""

MOST_BLOCK = 16 * 1024 * 1024
"""No block is longer: a hole of any size is not to be held in memory."""

HOLE_BYTES = 4096
"""So many NUL bytes in a row are a hole; what stands behind one is the beginning of a line."""

MAX_BYTES = 64 * 1024 * 1024
"""Enough of the file: beyond this, fewer lines than asked for will do."""


FEW_ROWS = 4
"""So many rows tell how long a row is, and so where many more of them begin."""


class LastRows(NamedTuple):
    """Which end of a file is wanted, to show its newest rows before its history has been read.

    Attributes:
        rows: how many; about as many, where they are no lines.
        row_starts: offsets at which a row begins in a piece of the file, oldest first; the piece is cut
            anywhere, `(bytes, their offset)`. None: every line is a row.
        head_bytes: how much of the beginning is given out first: what names the columns, or the run.
    """

    rows: int
    row_starts: Callable[[bytes, int], Sequence[int]] | None = None
    head_bytes: int = 0


def find_tail_start(fs: FileSystem, path: str, last: LastRows, max_bytes: int = MAX_BYTES) -> tuple[int, bytes]:
    """Find where the last rows of a file begin, and read the head that is wanted with them.

    Reads backwards in blocks, so the cost does not depend on the length of the
    file. An unfinished last row comes on top of the others.

    Args:
        max_bytes: past this distance from the end the earliest line start seen so far is taken.

    Returns:
        Byte offset of the beginning of a row: 0 if the file has no more rows, its end if none begins in its last
        `MAX_BYTES`; and the first bytes of the file, as far as they stand before it.

    Raises:
        OSError: the file cannot be opened or read.
    """
    handle = fs.open(log_of(path)[0])
    try:
        end = fs.stat(handle).size
        if last.row_starts is None:
            start = _line_start(fs, handle, end, last.rows, max_bytes)
        else:
            start = _row_start(fs, handle, end, last.rows, last.row_starts)
        return start, read_fully(fs, handle, min(start, last.head_bytes), 0)
    finally:
        fs.close(handle)


def _line_start(fs: FileSystem, handle: int, end: int, lines: int, max_bytes: int) -> int:
    missing = lines + 1
    earliest = None
    upper, block = end, FIRST_BLOCK
    while upper > 0:
        lower = max(0, upper - block)
        data = read_fully(fs, handle, upper - lower, lower)
        found = data.count(b"\n")
        if found >= missing:
            return lower + _nth_from_end(data, missing) + 1
        if found and (first := lower + data.index(b"\n") + 1) < end:
            earliest = first
        if earliest is not None and end - lower >= max_bytes:
            return earliest
        nuls = leading_nuls(data)
        if HOLE_BYTES <= nuls < len(data):
            return lower + nuls
        if end - lower >= MAX_BYTES:
            return end
        missing -= found
        upper, block = lower, min(block * 2, MOST_BLOCK)
    return 0


def _row_start(
    fs: FileSystem, handle: int, end: int, count: int, row_starts: Callable[[bytes, int], Sequence[int]]
) -> int:
    """Where about `count` rows begin: the last few tell how long a row is, so only two places are looked at."""
    lower, block, data = end, FIRST_BLOCK, b""
    starts: Sequence[int] = ()
    while len(starts) < min(count, FEW_ROWS) and lower > 0 and end - lower < MAX_BYTES:
        upper, lower = lower, max(0, lower - block)
        data = read_fully(fs, handle, upper - lower, lower) + data
        starts = row_starts(data, lower)
        block = min(block * 2, MOST_BLOCK)
    if len(starts) >= count:
        return starts[-count]
    if not lower:
        return 0
    if not starts:
        return end
    guess = max(end - (end - starts[0]) * count // len(starts), end - MAX_BYTES)
    if guess <= 0:
        return 0
    block = FIRST_BLOCK
    while guess + block < starts[0]:
        found = row_starts(read_fully(fs, handle, block, guess), guess)
        if found:
            return found[0]
        block = min(block * 2, MAX_BYTES)
    return starts[0]


def _nth_from_end(data: bytes, count: int) -> int:
    at = len(data)
    for _ in range(count):
        at = data.rfind(b"\n", 0, at)
    return at


__all__ = [
    "ONE_SHOT",
    "Chunk",
    "LastRows",
    "Reset",
    "ResetReason",
    "Tail",
    "TailOptions",
    "TailState",
    "TailStatus",
    "find_tail_start",
]

FIRST_RETRY_S = 0.25
_OUT_OF_HANDLES = (errno.EMFILE, errno.ENFILE)
EMPTIED_NOTE = "file truncated to zero bytes; waiting for rows"
DEFAULT_OPTIONS = TailOptions()


class Tail:
    """Follows the bytes of one path.

    Guarantee: no byte that was visible at a poll is lost or given out twice within a generation. Not to be polled by
    two threads; `status` may be read by any.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        options: TailOptions = DEFAULT_OPTIONS,
        start: int = 0,
    ) -> None:
        self._path = os.path.abspath(path)  # noqa: PTH100 - must not resolve symlinks
        self._fs = fs or LocalFileSystem()
        self._clock = clock or SystemClock()
        self._options = options
        self._cursor = Cursor(self._fs, self._clock, options, start, Path(self._path).name)
        self._file = self._follower(is_network=options.is_network)
        self._failures = 0
        self._retry_at = 0.0
        self._is_closed = False
        self._status = TailStatus(TailState.WAITING, "not looked at yet", offset=start)

    @property
    def path(self) -> str:
        return self._path

    @property
    def status(self) -> TailStatus:
        return self._status

    def poll(self, max_bytes: int = READ_BYTES) -> list[Chunk | Reset]:
        """Look once and read at most `max_bytes`.

        Never raises for what a file system does: that is in `status`. After an
        error it waits, longer each time, before the file system is asked again.
        """
        if self._is_closed or self._clock.monotonic() < self._retry_at:
            return []
        self._cursor.begin_poll(max_bytes)
        refusal = None
        try:
            sight = self._file.poll()
            self._failures = 0
            if isinstance(self._file, HeldFile) and not self._file.may_stay_open:
                self._open_each_time(self._file)
        except Refused as refused:
            refusal = refused.error
            sight = Sight(TailState.REFUSED, refusal.message)
        except OSError as error:
            sight, refusal = self._fail(error), cannot_read(self._path, error)
            if error.errno in _OUT_OF_HANDLES and isinstance(self._file, HeldFile):
                self._open_each_time(self._file)
        cursor = self._cursor
        is_emptied = (
            sight.state is TailState.AT_END and cursor.generation > 0 and cursor.is_untouched and not sight.size
        )
        has_more = sight.state is TailState.READING or self._options.is_once
        self._status = TailStatus(
            sight.state,
            EMPTIED_NOTE if is_emptied else sight.message,
            sight.size,
            cursor.offset,
            cursor.nul_bytes,
            refusal,
            searched=cursor.searched,
            unread=max(0, sight.size - cursor.offset) if has_more else 0,
            is_emptied=is_emptied,
        )
        return cursor.take_events()

    def follow_as(self, *, is_network: bool) -> None:
        """Change the way of following, because the path leads to another mount now; the position stays."""
        self._file.close()
        self._cursor.is_careful = is_network
        self._file = self._follower(is_network=is_network)

    def _open_each_time(self, held: HeldFile) -> None:
        """There are too few handles to keep one: from now on the file is opened for each look; the position stays."""
        reading = held.reading
        held.close()
        # This kernel's own file systems are believed at first sight, other than those of a network.
        options = self._options._replace(confirm_s=0.0, shrink_s=0.0)
        self._file = ReopenedFile(self._path, self._fs, self._clock, self._cursor, options)
        if reading is not None:
            self._file.go_on(*reading)

    def close(self) -> None:
        self._is_closed = True
        self._file.close()

    def _follower(self, *, is_network: bool) -> HeldFile | ReopenedFile:
        if is_network:
            return ReopenedFile(self._path, self._fs, self._clock, self._cursor, self._options)
        return HeldFile(self._path, self._fs, self._clock, self._cursor, self._options)

    def _fail(self, error: OSError) -> Sight:
        self._file.drop()
        wait_s = min(self._options.retry_max_s, FIRST_RETRY_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._retry_at = self._clock.monotonic() + wait_s
        return unreachable(error, self._status.size)


ARCHIVE_SUFFIX = ".zip"
SCAN_S = 1.0
"""How often the folders are listed: such files are written every few seconds."""
REREAD_BYTES_PER_S = 4 * 1024 * 1024
"""A file that grows with the run is read again the less often the larger it is: never more than this on average."""
MAX_ENTRIES = 4096
_READ_BYTES = 1024 * 1024


class _Reading(Struct, frozen=False):
    """A file being read: its handle, what it looked like at the start, and how far it has been read."""

    path: str
    handle: int
    seen: FileStat
    offset: int = 0


class FolderTail:
    """Follows the archives below one folder; polled as `Tail` is."""

    def __init__(self, path: str, fs: FileSystem, clock: Clock) -> None:
        self.path = path
        self._fs = fs
        self._clock = clock
        self._reading: _Reading | None = None
        self._waiting: list[str] = []
        self._known: dict[str, tuple[int, int, int]] = {}
        self._left_out: dict[str, str] = {}
        self._not_before: dict[str, float] = {}
        self._next_scan = float("-inf")
        self._generation = -1
        self._is_closed = False
        self.status = TailStatus(TailState.WAITING, "not looked at yet")

    def poll(self, max_bytes: int = _READ_BYTES) -> list[Chunk | Reset]:
        """Look once and read at most `max_bytes` of one file; never raises for what a file system does."""
        if self._is_closed:
            return []
        try:
            if self._reading is None and not self._waiting and self._clock.monotonic() >= self._next_scan:
                self._scan()
            events = self._begin() if self._reading is None and self._waiting else []
            if self._reading is not None:
                events += self._read(self._reading, max_bytes)
        except OSError as error:
            self._drop()
            self._waiting.clear()
            self._next_scan = self._clock.monotonic() + SCAN_S
            status = unreachable(error, self.status.size).as_status()
            self.status = status._replace(error=cannot_read(self.path, error))
            return []
        is_busy = self._reading is not None or self._waiting
        self.status = self.status._replace(
            state=TailState.READING if is_busy else TailState.AT_END,
            message="",
            error=None,
            left_out=tuple(f"{posixpath.basename(path)}: {reason}" for path, reason in self._left_out.items()),
        )
        return events

    def follow_as(self, *, is_network: bool) -> None:
        """Nothing is held open between two files: every mount is followed alike."""

    def close(self) -> None:
        self._is_closed = True
        self._drop()

    def _scan(self) -> None:
        now = self._clock.monotonic()
        self._next_scan = now + SCAN_S
        changed = []
        self._left_out.clear()
        for path in archives_in(self.path, self._fs, self._leave_out):
            try:
                seen = self._fs.stat(path)
            except OSError as error:
                self._leave_out(path, error)
                continue
            if self._known.get(path) != _stamp(seen) and now >= self._not_before.get(path, now):
                changed.append((seen.mtime_ns, path))
        # Oldest first: finished blocks come before the ones that are still written.
        self._waiting = [path for _, path in sorted(changed)]

    def _leave_out(self, path: str, error: OSError) -> None:
        """One archive that cannot be read must not keep the others from being read; it is tried again."""
        self._left_out[path] = "broken symlink" if is_missing(error) else reason_of(error)

    def _begin(self) -> list[Chunk | Reset]:
        path = self._waiting.pop(0)
        try:
            handle = self._fs.open(path)
        except OSError as error:
            # One that has been listed a moment ago and is gone has been written anew, or done with.
            if not is_missing(error):
                self._leave_out(path, error)
            return []
        self._reading = _Reading(path, handle, self._fs.stat(handle))
        return [self._reset()]

    def _reset(self) -> Reset:
        self._generation += 1
        return Reset(ResetReason.PART, self._generation, is_restart=False)

    def _read(self, reading: _Reading, max_bytes: int) -> list[Chunk | Reset]:
        data = self._fs.read_at(reading.handle, min(max_bytes, _READ_BYTES), reading.offset)
        events: list[Chunk | Reset] = [Chunk(data, reading.offset, self._generation)] if data else []
        reading.offset += len(data)
        self.status = self.status._replace(size=max(reading.seen.size, reading.offset), offset=reading.offset)
        if data and reading.offset < reading.seen.size:
            return events
        # What was written while it was read may be in pieces of two versions: its stamp is that of the beginning,
        # so that the next look finds it changed.
        self._known[reading.path] = _stamp(reading.seen)
        self._not_before[reading.path] = self._clock.monotonic() + reading.seen.size / REREAD_BYTES_PER_S
        self._drop()
        return events

    def _drop(self) -> None:
        if self._reading is not None:
            self._fs.close(self._reading.handle)
            self._reading = None


def _stamp(seen: FileStat) -> tuple[int, int, int]:
    return seen.inode, seen.size, seen.mtime_ns


def archives_in(
    folder: str, fs: FileSystem, leave_out: Callable[[str, OSError], None] = lambda _path, _error: None
) -> list[str]:
    """The archives one folder below `folder`.

    Args:
        leave_out: told of a folder below it that cannot be looked into, and why.

    Raises:
        OSError: the folder cannot be listed.
    """
    found: list[str] = []
    for entry in fs.scandir(folder)[:MAX_ENTRIES]:
        below = posixpath.join(folder, entry.name)
        try:
            if not stat.S_ISDIR(fs.stat(below).mode):
                continue
            names = [each.name for each in fs.scandir(below)[:MAX_ENTRIES]]
        except OSError as error:
            if not is_missing(error):
                leave_out(below, error)
            continue
        found += [posixpath.join(below, name) for name in names if name.endswith(ARCHIVE_SUFFIX)]
    return sorted(found)


AnyTail: TypeAlias = "Tail | FolderTail | DatabaseTail | MetricFolderTail"
"""Whatever follows a path; all are polled alike."""


def open_tail(
    path: str, fs: FileSystem, clock: Clock, options: TailOptions = DEFAULT_OPTIONS, start: int = 0
) -> AnyTail:
    """What follows a path: a run of a database by what the path is called, else a file; touches nothing yet."""
    path, _ = log_of(path)
    found = split_member(path)
    if found is None:
        return Tail(path, fs, clock, options, start)
    from rltop.sources.tables import DatabaseTail  # noqa: PLC0415 - few runs stand in a database

    return DatabaseTail(*found, fs)


def is_metric_folder(path: str, fs: FileSystem) -> bool:
    """Whether a folder is a run in MLflow's file store."""
    try:
        return stat.S_ISDIR(fs.stat(posixpath.join(path, METRICS_FOLDER)).mode) and stat.S_ISREG(
            fs.stat(posixpath.join(path, DESCRIPTION)).mode
        )
    except OSError:
        return False


def folder_at(path: str, fs: FileSystem, clock: Clock) -> FolderTail | MetricFolderTail | None:
    """What follows the archives or the metric files of a folder; None where `path` is no folder that holds any."""
    if is_metric_folder(path, fs):
        from rltop.sources.tables import MetricFolderTail  # noqa: PLC0415 - few runs are such folders

        return MetricFolderTail(path, fs, clock)
    try:
        is_folder = stat.S_ISDIR(fs.stat(path).mode) and bool(archives_in(path, fs))
    except OSError:
        return None
    return FolderTail(path, fs, clock) if is_folder else None
