"""Following a file: on a local file system the handle stays open, on a network's it is reopened at each poll.

While a handle is open, the inode cannot be reused, a renamed file can be read to its end, and the number of links tells
a rename from a deletion. Where another machine writes, an open handle may show data that is a minute old, while a new
open sees it at once (close-to-open consistency), and a handle on a deleted file leaves a `.nfs…` file behind. Changes
must be seen more than once there: sizes lag, inodes migrate, names are cached.
"""

from __future__ import annotations

import posixpath
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from rltop.clock import Clock
from rltop.sources.cursor import (
    UNREAD,
    Cursor,
    Outcome,
    Refused,
    Sight,
    Stillness,
    gone,
    is_missing,
    not_yet,
    unreachable,
)
from rltop.sources.events import ResetReason, TailOptions, TailState
from rltop.sources.file import ANCHOR_BYTES, HEAD_BYTES, FileStat, FileSystem
from rltop.structs import NamedTuple, Struct

DOUBT_NOTE = "file content changed; checking again"
STALE_NAME_NOTE = "the directory lists a newer file, but this machine still sees the old one (stale cache)"

DRAIN_RETRIES = 5
"""Errors after which the rest of a renamed file is given up, so that the new one is not kept waiting for ever."""

SURE_BYTES = HEAD_BYTES + ANCHOR_BYTES
"""From here on another file cannot agree with what was read by chance."""


class _Drain(Struct, frozen=False):
    """The old file under its new name, to be read to its end."""

    path: str
    reason: ResetReason
    stillness: Stillness
    quiet_polls: int = 0
    failures: int = 0


class _Follower:
    """Follows one path and reads on with a cursor, whatever file stands there."""

    def __init__(self, path: str, fs: FileSystem, clock: Clock, cursor: Cursor, options: TailOptions) -> None:
        self._path = path
        self._fs = fs
        self._clock = clock
        self._cursor = cursor
        self._options = options
        self._size = 0
        self._was_seen = False

    def _nothing_there(self) -> Sight:
        return gone(self._size) if self._was_seen else not_yet(self._path, self._fs)

    def _require_regular(self, seen: FileStat) -> None:
        if not seen.is_regular:
            raise Refused(self._path, seen)

    def _close(self, handle: int) -> None:
        # What closing reports, the writes of others or a handle that went stale, loses nothing that was read.
        with suppress(OSError):
            self._fs.close(handle)


class ReopenedFile(_Follower):
    """Follows one path without holding anything open between two polls."""

    def __init__(self, path: str, fs: FileSystem, clock: Clock, cursor: Cursor, options: TailOptions) -> None:
        super().__init__(path, fs, clock, cursor, options)
        self._identity: tuple[int, int] | None = None
        self._real_path = path
        self._seen: tuple[tuple[int, int], int, int] | None = None
        self._doubt_since: float | None = None
        self._drain: _Drain | None = None
        self._left: ResetReason | None = None
        self._may_owe_bytes = False
        self._listed_inode: int | None = None
        self._next_rescan = clock.monotonic() + options.rescan_s

    def go_on(self, identity: tuple[int, int], real_path: str) -> None:
        """Take over a file that has been read by its handle so far."""
        self._identity, self._real_path = identity, real_path
        self._was_seen = self._may_owe_bytes = True

    def poll(self) -> Sight:
        """Open, look, read on, close.

        Raises:
            OSError: the file cannot be reached.
            Refused: what stands there is not a regular file.
        """
        if self._drain is not None and not self._is_drained(self._drain):
            return Sight(TailState.READING, "", self._size)
        if self._clock.monotonic() >= self._next_rescan:
            self._rescan()
        try:
            if self._identity is None:
                # Opening a pipe would wake up its writer, so the first look is from outside.
                self._require_regular(self._fs.stat(self._path))
            handle = self._fs.open(self._path)
        except OSError as error:
            if is_missing(error):
                return self._nothing_there()
            raise
        try:
            return self._read(handle)
        finally:
            self._close(handle)

    def drop(self) -> None:
        """Nothing is held, so there is nothing to let go of."""

    def close(self) -> None:
        """Nothing is held between polls."""

    def _read(self, handle: int) -> Sight:
        seen = self._fs.stat(handle)
        self._require_regular(seen)
        self._size = seen.size
        is_other = self._identity not in (None, seen.identity)
        if is_other and self._may_owe_bytes and not self._has_left_old_file():
            return Sight(TailState.READING, "", seen.size)
        if self._identity is None:
            self._adopt(handle, seen)
        outcome = self._try_to_read(handle, seen)
        if outcome in (Outcome.DIFFERENT, Outcome.SHORT):
            if not self._is_certain(outcome, seen):
                return Sight(TailState.AT_END, DOUBT_NOTE, seen.size)
            if not self._begin_anew(handle, seen):
                return Sight(TailState.READING, "", seen.size)
            outcome = self._cursor.read(handle, seen.size)
        else:
            self._identity = seen.identity
        self._doubt_since = None
        self._seen = (seen.identity, seen.size, seen.mtime_ns)
        self._may_owe_bytes = outcome is not Outcome.END or self._cursor.offset < SURE_BYTES
        is_stale_name = self._listed_inode not in (None, seen.inode)
        note = Sight(TailState.AT_END, STALE_NAME_NOTE, seen.size) if is_stale_name else None
        return Sight.of(outcome, seen.size, note)

    def _adopt(self, handle: int, seen: FileStat) -> None:
        self._identity = seen.identity
        self._real_path = self._fs.realpath(self._path)
        self._was_seen = True
        if self._left is not None:
            if seen.size < self._cursor.offset or self._cursor.matches(handle) is not True:
                self._cursor.reset(self._left, is_restart=self._left is not ResetReason.ROTATED)
            self._left = None

    def _try_to_read(self, handle: int, seen: FileStat) -> Outcome:
        cursor = self._cursor
        if cursor.needs_anchor and not cursor.anchor(handle):
            return Outcome.SHORT
        if seen.size < cursor.offset:
            return Outcome.DIFFERENT if cursor.matches(handle) is False else Outcome.SHORT
        look = (seen.identity, seen.size, seen.mtime_ns)
        return cursor.read(handle, seen.size, verify_end=look != self._seen)

    def _is_certain(self, outcome: Outcome, seen: FileStat) -> bool:
        """Whether the doubt has lasted long enough.

        A file that merely looks shorter but begins as before is most likely an old
        size; one that is also another file, or of which nothing is known, is not.
        """
        now = self._clock.monotonic()
        is_first = self._doubt_since is None
        since = now if self._doubt_since is None else self._doubt_since
        self._doubt_since = since
        is_old_size = outcome is Outcome.SHORT and seen.identity == self._identity and not self._cursor.needs_anchor
        patience = self._options.shrink_s if is_old_size else self._options.confirm_s
        return now - since >= patience and (not is_first or patience == 0)

    def _begin_anew(self, handle: int, seen: FileStat) -> bool:
        """Start on the new content; False if the old file must be drained first."""
        if seen.identity != self._identity:
            if not self._has_left_old_file():
                return False
            self._left = self._left or ResetReason.REPLACED
            self._adopt(handle, seen)
        elif seen.size < self._cursor.offset:
            self._cursor.reset(ResetReason.TRUNCATED, is_restart=True)
        else:
            self._cursor.reset(ResetReason.REWRITTEN, is_restart=True)
        return True

    def _has_left_old_file(self) -> bool:
        self._drain = self._find_old_file()
        return self._drain is None or self._is_drained(self._drain)

    def _find_old_file(self) -> _Drain | None:
        real_path = self._fs.realpath(self._path)
        if real_path != self._real_path:
            return _Drain(self._real_path, ResetReason.RETARGETED, Stillness(self._options))
        folder, name = posixpath.split(real_path)
        old_inode = self._identity[1] if self._identity else None
        with suppress(OSError):
            for entry in self._fs.scandir(folder):
                if entry.inode == old_inode and entry.name != name:
                    return _Drain(posixpath.join(folder, entry.name), ResetReason.ROTATED, Stillness(self._options))
        return None

    def _is_drained(self, drain: _Drain) -> bool:
        """Read the old file; True once it has nothing more."""
        try:
            outcome = self._read_old(drain.path)
        except OSError as error:
            drain.failures += 1
            if not is_missing(error) and drain.failures <= DRAIN_RETRIES:
                raise
            outcome = Outcome.DIFFERENT
        if outcome in UNREAD:
            drain.quiet_polls = 0
            return False
        drain.quiet_polls += 1
        if outcome is Outcome.END and not self._is_still(drain):
            return False
        self._left = drain.reason
        self._drain = self._identity = self._seen = None
        return True

    def _is_still(self, drain: _Drain) -> bool:
        if drain.reason is not ResetReason.ROTATED:
            return drain.quiet_polls >= self._options.drain_polls
        is_awaited = True
        with suppress(OSError):
            is_awaited = self._fs.stat(self._path).size > 0
        return drain.stillness.is_long_enough(self._clock.monotonic(), self._cursor.offset, is_awaited=is_awaited)

    def _read_old(self, path: str) -> Outcome:
        handle = self._fs.open(path)
        try:
            seen = self._fs.stat(handle)
            if seen.identity != self._identity or seen.size < self._cursor.offset:
                return Outcome.DIFFERENT
            return self._cursor.read(handle, seen.size, is_ending=True)
        finally:
            self._close(handle)

    def _rescan(self) -> None:
        """Ask the directory itself which file the name stands for.

        An open at each poll can keep an out-of-date name alive for as long as it
        goes on; reading the directory makes the client look again.
        """
        self._next_rescan = self._clock.monotonic() + self._options.rescan_s
        self._listed_inode = None
        # A folder that may be entered but not listed is no reason to stop reading the file.
        with suppress(OSError):
            folder, name = posixpath.split(self._fs.realpath(self._path))
            listed = [entry.inode for entry in self._fs.scandir(folder) if entry.name == name]
            self._listed_inode = listed[0] if listed else None


RENAMED_NOTE = "file renamed; switching to the new one once writes to the old one stop"


class _Life(NamedTuple):
    """A file that has stood at the path, and how it came there."""

    handle: int
    identity: tuple[int, int]
    real_path: str
    reason: ResetReason

    @property
    def is_restart(self) -> bool:
        return self.reason is not ResetReason.ROTATED


class HeldFile(_Follower):
    """Follows one path; every file that was seen there is read to its end, in order."""

    def __init__(self, path: str, fs: FileSystem, clock: Clock, cursor: Cursor, options: TailOptions) -> None:
        super().__init__(path, fs, clock, cursor, options)
        self._current: _Life | None = None
        self._successors: deque[_Life] = deque()
        self._quiet_polls = 0
        self._stillness = Stillness(options)
        self._seen: tuple[int, int] | None = None

    def poll(self) -> Sight:
        """Look at the path once and read on.

        Raises:
            OSError: the file cannot be reached at all.
            Refused: what stands there is not a regular file.
        """
        # Read once, a file is what was there first, whatever takes its place.
        note = None if self._options.is_once and self._current is not None else self._look()
        while self._current is None and self._successors:
            self._advance()
        if self._current is None:
            return self._nothing_there()
        outcome = self._follow(self._current)
        while self._successors and self._is_drained(outcome):
            self._advance()
            outcome = self._follow(self._current)
        if self._successors and outcome is Outcome.END and self._has_data(self._successors):
            return Sight(TailState.READING, RENAMED_NOTE, self._size)
        return Sight.of(outcome, self._size, note)

    @property
    def may_stay_open(self) -> bool:
        """Are there enough handles to keep this one? A file that was renamed away can be read by its handle alone."""
        return self._current is None or bool(self._successors) or self._fs.may_keep(self._current.handle)

    @property
    def reading(self) -> tuple[tuple[int, int], str] | None:
        return None if self._current is None else (self._current.identity, self._current.real_path)

    def drop(self) -> None:
        """Let go of the file that is being read, after an error; the position stays."""
        if self._current is not None:
            self._close(self._current.handle)
            self._current = None

    def __del__(self) -> None:
        """A tail that nobody has closed keeps no handle either."""
        self.drop()

    def close(self) -> None:
        self.drop()
        while self._successors:
            self._close(self._successors.popleft().handle)

    def _look(self) -> Sight | None:
        """Notice another file at the path; a remark if there is none or it cannot be told."""
        try:
            seen = self._fs.stat(self._path)
        except OSError as error:
            if is_missing(error):
                return gone(self._size) if self._current else None
            if self._current is None:
                raise
            return unreachable(error, self._size)
        self._require_regular(seen)
        newest = self._successors[-1] if self._successors else self._current
        if newest is None or newest.identity != seen.identity:
            self._admit(newest)
        return None

    def _admit(self, newest: _Life | None) -> None:
        handle = self._fs.open(self._path)
        try:
            seen = self._fs.stat(handle)
            self._require_regular(seen)
            if newest is not None and newest.identity == seen.identity:
                self._close(handle)
                return
            real_path = self._fs.realpath(self._path)
            life = _Life(handle, seen.identity, real_path, self._reason(newest, real_path))
            is_same_text = self._is_longer_copy(handle, seen.size)
        except (OSError, Refused):
            self._close(handle)
            raise
        self._was_seen = True
        self._successors.append(life)
        if is_same_text:
            self._advance()

    def _reason(self, newest: _Life | None, real_path: str) -> ResetReason:
        if newest is None:
            return ResetReason.REPLACED
        if newest.real_path != real_path:
            return ResetReason.RETARGETED
        is_kept = self._fs.stat(newest.handle).nlink > 0
        return ResetReason.ROTATED if is_kept else ResetReason.REPLACED

    def _is_longer_copy(self, handle: int, size: int) -> bool:
        if self._current is None or self._successors or self._cursor.is_untouched:
            return False
        owed = self._fs.stat(self._current.handle).size > self._cursor.offset
        return not owed and size >= self._cursor.offset and self._cursor.matches(handle) is True

    def _advance(self) -> None:
        life = self._successors.popleft()
        self.drop()
        self._current = life
        self._quiet_polls = 0
        self._stillness = Stillness(self._options)
        self._seen = None
        cursor = self._cursor
        cursor.begin_life(self._fs.stat(life.handle).size)
        if cursor.needs_anchor:
            if not cursor.anchor(life.handle):
                cursor.reset(ResetReason.TRUNCATED, is_restart=True)
        elif self._fs.stat(life.handle).size < cursor.offset or cursor.matches(life.handle) is not True:
            cursor.reset(life.reason, is_restart=life.is_restart)

    def _follow(self, life: _Life) -> Outcome:
        cursor = self._cursor
        seen = self._fs.stat(life.handle)
        self._size = seen.size
        is_ending = bool(self._successors)
        if seen.size < cursor.offset and not cursor.is_unsized:
            if is_ending:
                return Outcome.END
            cursor.reset(ResetReason.TRUNCATED, is_restart=True)
            cursor.begin_life(seen.size)
        look = (seen.size, seen.mtime_ns)
        outcome = cursor.read(life.handle, seen.size, verify_end=look != self._seen, is_ending=is_ending)
        if outcome in (Outcome.DIFFERENT, Outcome.SHORT) and not is_ending:
            cursor.reset(ResetReason.REWRITTEN, is_restart=True)
            cursor.begin_life(seen.size)
            outcome = cursor.read(life.handle, seen.size)
        self._seen = look
        return outcome

    def _is_drained(self, outcome: Outcome) -> bool:
        """Whether the file that no longer stands at the path has been read to its end, and is not written any more."""
        if self._current is None or outcome in UNREAD:
            self._quiet_polls = 0
            return False
        self._quiet_polls += 1
        if self._successors[0].reason is not ResetReason.ROTATED or not self._fs.stat(self._current.handle).nlink:
            is_deleted = self._successors[0].reason is not ResetReason.RETARGETED
            return self._quiet_polls >= (1 if is_deleted else self._options.drain_polls)
        is_awaited = self._has_data(self._successors)
        return self._stillness.is_long_enough(self._clock.monotonic(), self._cursor.offset, is_awaited=is_awaited)

    def _has_data(self, lives: Iterable[_Life]) -> bool:
        return any(self._fs.stat(life.handle).size > 0 for life in lives)
