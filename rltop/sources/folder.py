"""A folder of archives as one stream: every file that is written anew is given out again, whole.

Owns which file has changed and when it is worth reading again; knows nothing of
what is in it. The archives of one run overlap and stand one folder below; each of
them follows a `Reset`, so that a decoder knows where one ends.
"""

from __future__ import annotations

import posixpath
import stat
from collections.abc import Callable

from rltop.clock import Clock
from rltop.errors import cannot_read, reason_of
from rltop.sources.events import Chunk, Reset, ResetReason, TailState, TailStatus
from rltop.sources.file import FileStat, FileSystem
from rltop.sources.status_text import is_missing, unreachable
from rltop.structs import Struct

SUFFIX = ".zip"
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
        """Touches nothing yet.

        Args:
            path: the folder, absolute.
            fs: where it is.
            clock: for the time between two looks.
        """
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
        """Let go of the file that is being read."""
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
        self._left_out[path] = "a link to nothing" if is_missing(error) else reason_of(error)

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
        folder: where the folders of archives are.
        fs: the file system.
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
        found += [posixpath.join(below, name) for name in names if name.endswith(SUFFIX)]
    return sorted(found)


def folder_at(path: str, fs: FileSystem, clock: Clock) -> FolderTail | None:
    """What follows the archives of a folder; None where `path` is no folder that holds any."""
    try:
        is_folder = stat.S_ISDIR(fs.stat(path).mode) and bool(archives_in(path, fs))
    except OSError:
        return None
    return FolderTail(path, fs, clock) if is_folder else None
