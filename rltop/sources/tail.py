"""Where the last lines of a file begin, found from its end."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from rltop.clock import Clock, SystemClock
from rltop.errors import cannot_read
from rltop.sources.cursor import READ_BYTES, Cursor, leading_nuls
from rltop.sources.events import ONE_SHOT, Chunk, Reset, ResetReason, TailOptions, TailState, TailStatus
from rltop.sources.file import FileSystem, LocalFileSystem, read_fully
from rltop.sources.local_tail import HeldFile
from rltop.sources.network_tail import ReopenedFile
from rltop.sources.status_text import Refused, Sight, unreachable

FIRST_BLOCK = 256 * 1024
"""First block read from the end; each further one is twice as long. Any first block from 64 KiB to 1 MiB is as fast."""

MOST_BLOCK = 16 * 1024 * 1024
"""No block is longer: a hole of any size is not to be held in memory."""

HOLE_BYTES = 4096
"""So many NUL bytes in a row are a hole; what stands behind one is the beginning of a line."""

MAX_BYTES = 64 * 1024 * 1024
"""Enough of the file: beyond this, fewer lines than asked for will do."""


def find_tail_start(fs: FileSystem, path: str, lines: int, max_bytes: int = MAX_BYTES) -> int:
    """Find where the last `lines` complete lines of a file begin.

    Reads backwards in blocks, so the cost does not depend on the length of the
    file. An unfinished last line comes on top of the `lines`.

    Args:
        fs: where the file lives.
        path: the file.
        lines: how many line ends to go back.
        max_bytes: past this distance from the end the earliest line start seen so far is taken.

    Returns:
        Byte offset of the beginning of a line; 0 if the file has no more lines, its end
        if there is none in its last `MAX_BYTES`.

    Raises:
        OSError: the file cannot be opened or read.
    """
    handle = fs.open(path)
    try:
        end = fs.stat(handle).size
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
    finally:
        fs.close(handle)


def _nth_from_end(data: bytes, count: int) -> int:
    at = len(data)
    for _ in range(count):
        at = data.rfind(b"\n", 0, at)
    return at


__all__ = [
    "ONE_SHOT",
    "Chunk",
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
EMPTIED_NOTE = "the file was truncated and is empty; waiting for rows"
DEFAULT_OPTIONS = TailOptions()


class Tail:
    """Follows the bytes of one path.

    Promise: no byte that was visible at a poll and asked for is lost or given out
    twice within a generation. Not to be polled by two threads; `status` may be
    read by any.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        options: TailOptions = DEFAULT_OPTIONS,
        start: int = 0,
    ) -> None:
        """Touches nothing yet.

        Args:
            path: the file, which need not exist.
            fs: the local file system if None.
            clock: for waits between attempts; the system's if None.
            options: see `TailOptions`.
            start: offset to begin at, the beginning of a line; it holds for the first generation only.
        """
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
        """The path as given, made absolute."""
        return self._path

    @property
    def status(self) -> TailStatus:
        """How it stood after the last poll; an immutable snapshot."""
        return self._status

    def poll(self, max_bytes: int = READ_BYTES) -> list[Chunk | Reset]:
        """Look once and read at most `max_bytes`.

        Never raises for what a file system does: that is in `status`. After an
        error it waits, longer each time, before the file system is asked again.

        Returns:
            What is new, in order; empty if nothing is.
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
        """Let go of the file; later polls bring nothing."""
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
