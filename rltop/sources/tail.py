"""Follows one path: a file, from its beginning or from its last rows, or a folder of archives.

A folder of archives is one stream, in which a rewritten file is emitted again as a whole.
The archives of a run overlap and are one folder below; a `Reset` before each tells the decoder
where it begins. Knows nothing of what is in a file.
"""

from __future__ import annotations

import errno
import os
import posixpath
import stat
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from rltop.clock import Clock
from rltop.errors import cannot_read, reason_of
from rltop.model.table_rows import DESCRIPTION, METRICS_FOLDER, log_of, split_member
from rltop.sources.events import (
    READ_BYTES,
    Chunk,
    Cursor,
    NotRegularFile,
    Outcome,
    Reset,
    ResetReason,
    Stillness,
    TailOptions,
    TailState,
    TailStatus,
    UnheldTail,
    deleted_file_status,
    is_missing,
    leading_nuls,
    missing_file_status,
    unreachable,
)
from rltop.sources.file import ANCHOR_BYTES, HEAD_BYTES, FileStat, FileSystem, read_fully
from rltop.structs import NamedTuple, Struct

if TYPE_CHECKING:
    from rltop.sources.tables import DatabaseTail, MetricFolderTail

FIRST_BLOCK = 256 * 1024
"""First block read from the end; each further one is twice as long. Sizes of 64 KiB to 1 MiB are equally fast."""

MOST_BLOCK = 16 * 1024 * 1024
"""Longest block, so that a hole of any size is not held in memory."""

HOLE_BYTES = 4096
"""This many consecutive NUL bytes are a hole; a line is assumed to begin after it."""

MAX_BYTES = 64 * 1024 * 1024
"""How far back is searched; beyond that, fewer lines than requested are accepted."""


FEW_ROWS = 4
"""Rows needed to estimate the row length, and from it where more rows begin."""


class LastRows(NamedTuple):
    """How much of a file's end is needed to show its newest rows before its history has been read.

    Attributes:
        rows: how many; only approximate if rows are not lines.
        row_starts: takes (a piece of the file cut anywhere, its offset) and returns the offsets at which rows begin,
            ascending. None: every line is a row.
        head_bytes: size of the head that is emitted first, with column names or the run's settings.
    """

    rows: int
    row_starts: Callable[[bytes, int], Sequence[int]] | None = None
    head_bytes: int = 0


def find_tail_start(fs: FileSystem, path: str, last: LastRows) -> tuple[int, bytes]:
    """Find where the last rows of a file begin, and read the head that they need.

    Reads backwards in blocks, so the cost does not depend on the file size. A partial last row is not counted.
    Beyond `MAX_BYTES` from the end, the earliest line start found so far is used.

    Returns:
        Offset of the beginning of a row: 0 if the file has no more rows, its end if no row begins in its last
        `MAX_BYTES`; and the first bytes of the file, as far as they precede that offset.

    Raises:
        OSError: the file cannot be opened or read.
    """
    handle = fs.open(log_of(path)[0])
    try:
        end = fs.stat(handle).size
        if last.row_starts is None:
            start = _line_start(fs, handle, end, last.rows)
        else:
            start = _row_start(fs, handle, end, last.rows, last.row_starts)
        return start, read_fully(fs, handle, min(start, last.head_bytes), 0)
    finally:
        fs.close(handle)


def _line_start(fs: FileSystem, handle: int, end: int, lines: int) -> int:
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
        if earliest is not None and end - lower >= MAX_BYTES:
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
    """Where about `count` rows begin, estimated from the length of the last few, so that only two places are read."""
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


# -- files: on a local file system the handle stays open, on a network it is reopened at each poll ----------------
# While a handle is open, the inode cannot be reused, a renamed file can be read to its end, and the link count
# tells a rename from a deletion. If another machine writes, an open handle may show data that is a minute old, while
# a new open sees it at once (close-to-open consistency), and a handle on a deleted file leaves a `.nfs…` file behind.
# There, changes must be seen more than once: sizes lag, inodes migrate, names are cached.

UNREAD = frozenset({Outcome.MORE, Outcome.HELD, Outcome.SEARCHING})
"""Outcomes after which there is more to read."""

DOUBT_NOTE = "file content changed; checking again"
STALE_NAME_NOTE = "the directory lists a newer file, but this machine still sees the old one (stale cache)"
RENAMED_NOTE = "file renamed; switching to the new one once writes to the old one stop"
EMPTIED_NOTE = "file truncated to zero bytes; waiting for rows"

DRAIN_RETRIES = 5
"""After this many errors the rest of a renamed file is given up, so that the new one does not wait forever."""

SURE_BYTES = HEAD_BYTES + ANCHOR_BYTES
"""From this offset on, another file cannot match what was read by chance."""

FIRST_RETRY_S = 0.25
_OUT_OF_HANDLES = (errno.EMFILE, errno.ENFILE)
DEFAULT_OPTIONS = TailOptions()


class _FileLife(Struct, frozen=False):
    """A file that is, or was, at the path, and how it got there.

    Attributes:
        handle: None if it is not open: between two polls, or because it has no name any more.
        seen: the stat result of this poll, if it was already read.
    """

    handle: int | None
    identity: tuple[int, int]
    real_path: str
    reason: ResetReason
    seen: FileStat | None = None


class Tail:
    """Follows the bytes of one path; every file that was seen there is read to its end, in order.

    Guarantee: no byte that was visible at a poll is lost or emitted twice within a generation. Must not be polled by
    two threads; `status` may be read from any.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        options: TailOptions = DEFAULT_OPTIONS,
        start: int = 0,
    ) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100 - must not resolve symlinks
        self._fs = fs or FileSystem()
        self._clock = clock or Clock()
        self._options = options
        self._cursor = Cursor(self._fs, self._clock, options, start, Path(self.path).name)
        self._holds = not options.is_network
        self._current: _FileLife | None = None
        self._successors: deque[_FileLife] = deque()
        self._quiet_polls = 0
        self._stillness = Stillness(options)
        self._seen: tuple[tuple[int, int], int, int] | None = None
        self._doubt_since: float | None = None
        self._listed_inode: int | None = None
        self._next_rescan = self._clock.monotonic() + options.rescan_s
        self._size = 0
        self._was_seen = False
        self._failures = 0
        self._retry_at = 0.0
        self._is_closed = False
        self.status = TailStatus(TailState.WAITING, "not looked at yet", offset=start)

    def poll(self, max_bytes: int = READ_BYTES) -> list[Chunk | Reset]:
        """Poll once and read at most `max_bytes`.

        File system errors are reported in `status`, not raised. After an error,
        the file system is not accessed for a while, longer each time.
        """
        if self._is_closed or self._clock.monotonic() < self._retry_at:
            return []
        self._cursor.begin_poll(max_bytes)
        try:
            sight = self._look_and_read()
            self._failures = 0
            current = self._current
            # A renamed file can be read only through its open handle.
            if current is not None and current.handle is not None and not self._successors:
                self._holds = self._holds and self._fs.may_keep(current.handle)
        except NotRegularFile as refused:
            sight = TailStatus(TailState.REFUSED, refused.error.message, error=refused.error)
        except OSError as error:
            sight = self._fail(error)._replace(error=cannot_read(self.path, error))
        if not self._holds:
            self._let_go()
        cursor = self._cursor
        is_emptied = (
            sight.state is TailState.AT_END and cursor.generation > 0 and cursor.is_untouched and not sight.size
        )
        has_more = sight.state is TailState.READING or self._options.is_once
        self.status = sight._replace(
            message=EMPTIED_NOTE if is_emptied else sight.message,
            offset=cursor.offset,
            nul_bytes=cursor.nul_bytes,
            searched=cursor.searched,
            unread=max(0, sight.size - cursor.offset) if has_more else 0,
            is_emptied=is_emptied,
        )
        return cursor.take_events()

    def follow_as(self, *, is_network: bool) -> None:
        """Switch between local and network mode, because the path now leads to another mount; the position stays."""
        self._let_go()
        self._current = None
        self._cursor.is_careful = is_network
        self._holds = not is_network

    def close(self) -> None:
        self._is_closed = True
        self._let_go()

    def __del__(self) -> None:
        """Close the handles of a tail that was not closed."""
        self._let_go()

    def _let_go(self) -> None:
        """Close every handle; the read position stays."""
        self._drop()
        while self._successors:
            self._close(self._successors.popleft().handle)

    def _drop(self) -> None:
        if self._current is not None:
            self._close(self._current.handle)
            self._current.handle = self._current.seen = None

    def _close(self, handle: int | None) -> None:
        # Errors at closing (another process's writes, a stale handle) lose nothing that was read.
        if handle is not None:
            with suppress(OSError):
                self._fs.close(handle)

    def _fail(self, error: OSError) -> TailStatus:
        if error.errno in _OUT_OF_HANDLES:
            self._holds = False
        self._drop()
        wait_s = min(self._options.retry_max_s, FIRST_RETRY_S * 2.0 ** min(self._failures, 10))
        self._failures += 1
        self._retry_at = self._clock.monotonic() + wait_s
        return unreachable(error, self.status.size)

    def _look_and_read(self) -> TailStatus:
        """Check the path once and read on.

        Raises:
            OSError: the file cannot be reached at all.
            NotRegularFile: the path is not a regular file.
        """
        current = self._current
        # In one-shot mode only the first file is read, even if another replaces it.
        is_settled = self._options.is_once and current is not None and current.handle is not None
        note = None if is_settled else self._look()
        if self._current is None and self._successors:
            self._advance()
        if self._current is None or (self._current.handle is None and not self._successors):
            return deleted_file_status(self._size) if self._was_seen else missing_file_status(self.path, self._fs)
        outcome = self._follow(self._current)
        while self._successors and self._is_drained(self._current, outcome):
            self._advance()
            outcome = self._follow(self._current)
        if self._successors and outcome is Outcome.END and self._has_data(self._successors):
            return TailStatus(TailState.READING, RENAMED_NOTE, self._size)
        if outcome in UNREAD:
            return TailStatus(TailState.READING, "", self._size)
        if note is not None:
            return note._replace(size=self._size)
        return TailStatus(TailState.AT_END, "" if outcome is Outcome.END else DOUBT_NOTE, self._size)

    def _look(self) -> TailStatus | None:
        """Check which file is at the path and open it; returns a status if there is none or it cannot be determined."""
        newest = self._successors[-1] if self._successors else self._current
        is_held = newest is not None and newest.handle is not None
        try:
            # Opening a pipe would wake its writer, so it is checked with stat first.
            if newest is None or is_held:
                seen = self._fs.stat(self.path)
                self._require_regular(seen)
                if newest is not None and newest.identity == seen.identity:
                    newest.seen = seen if newest is self._current else None
                    return None
            handle = self._fs.open(self.path)
        except OSError as error:
            if is_missing(error):
                return deleted_file_status(self._size) if is_held else None
            if not is_held or error.errno in _OUT_OF_HANDLES:
                raise
            return unreachable(error, self._size)
        return self._admit(handle, newest)

    def _require_regular(self, seen: FileStat) -> None:
        if not seen.is_regular:
            raise NotRegularFile(self.path, seen)

    def _admit(self, handle: int, newest: _FileLife | None) -> TailStatus | None:
        """Register the file now at the path: as the newest one, reopened, or as its successor."""
        try:
            seen = self._fs.stat(handle)
            self._require_regular(seen)
            is_same = newest is not None and newest.identity == seen.identity
            real_path = "" if is_same else self._fs.realpath(self.path)
        except (OSError, NotRegularFile):
            self._close(handle)
            raise
        self._was_seen = True
        if newest is not None and is_same:
            self._close(newest.handle)
            newest.handle, newest.seen = handle, seen
            self._quiet_polls, self._stillness = 0, Stillness(self._options)
            return self._stale_name(seen.inode)
        life = _FileLife(handle, seen.identity, real_path, ResetReason.REPLACED)
        self._successors.append(life)
        if newest is not None:
            has_name = self._reopen(newest, real_path) if newest.handle is None else self._has_name(newest.handle)
            if newest.real_path != real_path:
                life.reason = ResetReason.RETARGETED
            elif has_name:
                life.reason = ResetReason.ROTATED
        if self._is_same_text(handle, seen.size):
            self._advance()
        return None

    def _stale_name(self, inode: int) -> TailStatus | None:
        """On a network, read the directory now and then to see which file has the name.

        Opening the file at each poll can keep an outdated name in the client's cache;
        reading the directory makes the client check again.
        """
        if not self._cursor.is_careful:
            return None
        if self._clock.monotonic() >= self._next_rescan:
            self._next_rescan = self._clock.monotonic() + self._options.rescan_s
            self._listed_inode = None
            # A folder that can be entered but not listed is no reason to stop reading the file.
            with suppress(OSError):
                folder, name = posixpath.split(self._fs.realpath(self.path))
                listed = [entry.inode for entry in self._fs.scandir(folder) if entry.name == name]
                self._listed_inode = listed[0] if listed else None
        if self._listed_inode in (None, inode):
            return None
        return TailStatus(TailState.AT_END, STALE_NAME_NOTE)

    def _has_name(self, handle: int) -> bool:
        return self._fs.stat(handle).nlink > 0

    def _reopen(self, life: _FileLife, real_path: str) -> bool:
        """Open a file that is no longer at the path under its new name; False if it has none."""
        path = life.real_path if life.real_path != real_path else self._renamed(life, real_path)
        if path is None:
            return False
        try:
            life.handle = self._fs.open(path)
            if self._fs.stat(life.handle).identity != life.identity:
                self._drop()
        except OSError as error:
            if not is_missing(error) and self._failures < DRAIN_RETRIES:
                raise
        return True

    def _renamed(self, life: _FileLife, real_path: str) -> str | None:
        folder, name = posixpath.split(real_path)
        with suppress(OSError):
            for entry in self._fs.scandir(folder):
                if entry.inode == life.identity[1] and entry.name != name:
                    return posixpath.join(folder, entry.name)
        return None

    def _is_same_text(self, handle: int, size: int) -> bool:
        """Does the newest file continue the one being read, as a longer copy or after its inode migrated?"""
        if self._current is None or len(self._successors) > 1 or self._cursor.is_untouched:
            return False
        if self._current.handle is not None:
            is_sure = not self._cursor.is_careful or self._cursor.offset >= SURE_BYTES
            if not is_sure or self._fs.stat(self._current.handle).size > self._cursor.offset:
                return False
        return size >= self._cursor.offset and self._cursor.matches(handle) is True

    def _advance(self) -> None:
        is_first = self._current is None
        self._drop()
        life = self._current = self._successors.popleft()
        self._quiet_polls, self._stillness = 0, Stillness(self._options)
        self._seen = self._doubt_since = None
        assert life.handle is not None
        life.seen = self._fs.stat(life.handle)
        size = life.seen.size
        cursor = self._cursor
        cursor.begin_life(size)
        if not is_first and (size < cursor.offset or cursor.matches(life.handle) is not True):
            cursor.reset(life.reason, is_restart=life.reason is not ResetReason.ROTATED)

    def _follow(self, life: _FileLife) -> Outcome:
        if life.handle is None:
            return Outcome.DIFFERENT
        cursor = self._cursor
        seen, life.seen = life.seen or self._fs.stat(life.handle), None
        self._size = seen.size
        is_ending = bool(self._successors)
        look = (seen.identity, seen.size, seen.mtime_ns)
        is_cut = seen.size < cursor.offset and not cursor.is_unsized
        if is_cut and is_ending:
            return Outcome.END
        if is_cut:
            outcome = Outcome.DIFFERENT if cursor.matches(life.handle) is False else Outcome.SHORT
        elif cursor.needs_anchor and not cursor.anchor(life.handle):
            outcome = Outcome.SHORT
        else:
            outcome = cursor.read(life.handle, seen.size, verify_end=look != self._seen, is_ending=is_ending)
        if outcome in (Outcome.DIFFERENT, Outcome.SHORT):
            # A file that only looks shorter, with the same beginning, most likely has an outdated size.
            is_old_size = outcome is Outcome.SHORT and not cursor.needs_anchor
            if is_ending or not self._is_certain(is_old_size=is_old_size):
                return outcome
            cursor.reset(ResetReason.TRUNCATED if is_cut else ResetReason.REWRITTEN, is_restart=True)
            cursor.begin_life(seen.size)
            outcome = cursor.read(life.handle, seen.size)
        self._doubt_since = None
        self._seen = look
        return outcome

    def _is_certain(self, *, is_old_size: bool = False) -> bool:
        """Has other content been seen for long enough? On local file systems the first sight is enough."""
        if not self._cursor.is_careful:
            return True
        now = self._clock.monotonic()
        if self._doubt_since is None:
            self._doubt_since = now
        return now - self._doubt_since >= (self._options.shrink_s if is_old_size else self._options.confirm_s)

    def _is_drained(self, life: _FileLife, outcome: Outcome) -> bool:
        """Has the file that left the path been read to its end, and is it no longer written?"""
        reason = self._successors[0].reason
        if life.handle is None:
            return reason is ResetReason.ROTATED or self._is_certain()
        if outcome in UNREAD:
            self._quiet_polls = 0
            return False
        self._quiet_polls += 1
        if outcome is not Outcome.END:
            return True
        if reason is ResetReason.ROTATED and self._has_name(life.handle):
            is_awaited = self._has_data(self._successors)
            return self._stillness.is_long_enough(self._clock.monotonic(), self._cursor.offset, is_awaited=is_awaited)
        return self._quiet_polls >= (self._options.drain_polls if reason is ResetReason.RETARGETED else 1)

    def _has_data(self, lives: Iterable[_FileLife]) -> bool:
        return any(life.handle is not None and self._fs.stat(life.handle).size > 0 for life in lives)


ARCHIVE_SUFFIX = ".zip"
SCAN_S = 1.0
"""How often the folders are listed; such archives are written every few seconds."""
REREAD_BYTES_PER_S = 4 * 1024 * 1024
"""Limit for rereading on average: the larger a growing file, the less often it is read again."""
MAX_ENTRIES = 4096
_READ_BYTES = 1024 * 1024


class _Reading(Struct, frozen=False):
    """A file being read: its handle, its stat result at the start, and the current offset."""

    path: str
    handle: int
    seen: FileStat
    offset: int = 0


class FolderTail(UnheldTail):
    """Follows the archives below one folder; polled like `Tail`."""

    def __init__(self, path: str, fs: FileSystem, clock: Clock) -> None:
        super().__init__(path, fs)
        self._clock = clock
        self._reading: _Reading | None = None
        self._waiting: list[str] = []
        self._known: dict[str, tuple[int, int, int]] = {}
        self._left_out: dict[str, str] = {}
        self._not_before: dict[str, float] = {}
        self._next_scan = float("-inf")
        self._generation = -1

    def poll(self, max_bytes: int = _READ_BYTES) -> list[Chunk | Reset]:
        """Poll once and read at most `max_bytes` of one file; file system errors are put into `status`, not raised."""
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
            self._lose(error)
            return []
        is_busy = self._reading is not None or self._waiting
        self.status = self.status._replace(
            state=TailState.READING if is_busy else TailState.AT_END,
            message="",
            error=None,
            left_out=tuple(f"{posixpath.basename(path)}: {reason}" for path, reason in self._left_out.items()),
        )
        return events

    def close(self) -> None:
        super().close()
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
            if self._known.get(path) != seen.stamp and now >= self._not_before.get(path, now):
                changed.append((seen.mtime_ns, path))
        # Oldest first: finished archives come before those still being written.
        self._waiting = [path for _, path in sorted(changed)]

    def _leave_out(self, path: str, error: OSError) -> None:
        """Note an archive that cannot be read; the others are still read, and it is tried again."""
        self._left_out[path] = "broken symlink" if is_missing(error) else reason_of(error)

    def _begin(self) -> list[Chunk | Reset]:
        path = self._waiting.pop(0)
        try:
            handle = self._fs.open(path)
        except OSError as error:
            # An archive that disappeared after the listing was replaced or removed.
            if not is_missing(error):
                self._leave_out(path, error)
            return []
        self._reading = _Reading(path, handle, self._fs.stat(handle))
        self._generation += 1
        return [Reset(ResetReason.PART, self._generation, is_restart=False)]

    def _read(self, reading: _Reading, max_bytes: int) -> list[Chunk | Reset]:
        data = self._fs.read_at(reading.handle, min(max_bytes, _READ_BYTES), reading.offset)
        events: list[Chunk | Reset] = [Chunk(data, reading.offset, self._generation)] if data else []
        reading.offset += len(data)
        self.status = self.status._replace(size=max(reading.seen.size, reading.offset), offset=reading.offset)
        if data and reading.offset < reading.seen.size:
            return events
        # A file written while it was read may be a mix of two versions. Its recorded stamp is that of the beginning,
        # so that the next poll finds it changed.
        self._known[reading.path] = reading.seen.stamp
        self._not_before[reading.path] = self._clock.monotonic() + reading.seen.size / REREAD_BYTES_PER_S
        self._drop()
        return events

    def _drop(self) -> None:
        if self._reading is not None:
            self._fs.close(self._reading.handle)
            self._reading = None


def archives_in(
    folder: str, fs: FileSystem, leave_out: Callable[[str, OSError], None] = lambda _path, _error: None
) -> list[str]:
    """The archives exactly one folder below `folder`.

    Args:
        leave_out: called with each subfolder that cannot be read, and the error.

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
"""Anything that follows a path; all are polled alike."""


def open_tail(
    path: str, fs: FileSystem, clock: Clock, options: TailOptions = DEFAULT_OPTIONS, start: int = 0
) -> AnyTail:
    """The tail for a path: a run in a database if the path names one, else a file; opens nothing yet."""
    path, _ = log_of(path)
    found = split_member(path)
    if found is None:
        return Tail(path, fs, clock, options, start)
    from rltop.sources.tables import DatabaseTail  # noqa: PLC0415 - few runs are in a database

    return DatabaseTail(*found, fs)


def is_metric_folder(path: str, fs: FileSystem) -> bool:
    """Is the folder a run in MLflow's file store?"""
    try:
        return stat.S_ISDIR(fs.stat(posixpath.join(path, METRICS_FOLDER)).mode) and stat.S_ISREG(
            fs.stat(posixpath.join(path, DESCRIPTION)).mode
        )
    except OSError:
        return False


def folder_at(path: str, fs: FileSystem, clock: Clock) -> FolderTail | MetricFolderTail | None:
    """The tail for a folder of archives or metric files; None if `path` is no such folder."""
    if is_metric_folder(path, fs):
        from rltop.sources.tables import MetricFolderTail  # noqa: PLC0415 - few runs are such folders

        return MetricFolderTail(path, fs, clock)
    try:
        is_folder = stat.S_ISDIR(fs.stat(path).mode) and bool(archives_in(path, fs))
    except OSError:
        return None
    return FolderTail(path, fs, clock) if is_folder else None
