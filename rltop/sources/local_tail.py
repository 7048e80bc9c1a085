"""Following a file on a local file system: the handle stays open.

While it is open, the inode cannot be reused, a renamed file can be read to its end, and
the number of links tells a rename from a deletion.
"""

from __future__ import annotations

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
from rltop.sources.file import FileSystem
from rltop.structs import NamedTuple

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


class HeldFile:
    """Follows one path; every file that was seen there is read to its end, in order."""

    def __init__(self, path: str, fs: FileSystem, clock: Clock, cursor: Cursor, options: TailOptions) -> None:
        self._path = path
        self._fs = fs
        self._clock = clock
        self._cursor = cursor
        self._options = options
        self._current: _Life | None = None
        self._successors: deque[_Life] = deque()
        self._quiet_polls = 0
        self._stillness = Stillness(options)
        self._seen: tuple[int, int] | None = None
        self._size = 0
        self._was_seen = False

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
            return gone(self._size) if self._was_seen else not_yet(self._path, self._fs)
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
            _close(self._fs, self._current.handle)
            self._current = None

    def __del__(self) -> None:
        """A tail that nobody has closed keeps no handle either."""
        self.drop()

    def close(self) -> None:
        """Let go of everything."""
        self.drop()
        while self._successors:
            _close(self._fs, self._successors.popleft().handle)

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
        if not seen.is_regular:
            raise Refused(self._path, seen)
        newest = self._successors[-1] if self._successors else self._current
        if newest is None or newest.identity != seen.identity:
            self._admit(newest)
        return None

    def _admit(self, newest: _Life | None) -> None:
        handle = self._fs.open(self._path)
        try:
            seen = self._fs.stat(handle)
            if not seen.is_regular:
                raise Refused(self._path, seen)
            if newest is not None and newest.identity == seen.identity:
                _close(self._fs, handle)
                return
            real_path = self._fs.realpath(self._path)
            life = _Life(handle, seen.identity, real_path, self._reason(newest, real_path))
            is_same_text = self._is_longer_copy(handle, seen.size)
        except (OSError, Refused):
            _close(self._fs, handle)
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


def _close(fs: FileSystem, handle: int) -> None:
    # A handle that went stale cannot be closed cleanly, and nothing is lost by that.
    with suppress(OSError):
        fs.close(handle)
