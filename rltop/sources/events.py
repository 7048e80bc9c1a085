"""Events and status of a source, its options, and the read cursor of a file.

The cursor has offset, generation and fingerprint. It decides which of the bytes it has read can be passed on. This
module also decides when a renamed file can be abandoned, and has the messages for the outcome of a poll.
"""

from __future__ import annotations

import enum
import errno
import posixpath
import stat

from rltop.clock import Clock
from rltop.errors import SourceError, cannot_read, reason_of
from rltop.files import has_wide_characters
from rltop.sources.file import FileFingerprint, FileStat, FileSystem, read_fully
from rltop.structs import NamedTuple, Struct


class Chunk(NamedTuple):
    """Bytes of a file, split anywhere: a line may continue in the next chunk.

    Chunks of one generation are contiguous. The only bytes left out are a byte order mark at the beginning and NUL
    bytes that never became data; `offset` counts both.

    Attributes:
        data: at least one byte.
        is_head: the beginning of a file whose end follows after a gap; never split.
    """

    data: bytes
    offset: int
    generation: int
    is_head: bool = False


class ResetReason(enum.StrEnum):
    """Why reading starts again at offset 0."""

    TRUNCATED = "truncated"
    REWRITTEN = "rewritten in place"
    REPLACED = "replaced by another file"
    ROTATED = "continued in a new file"
    RETARGETED = "the link points to another file"
    PART = "another file of the same run"


class Reset(NamedTuple):
    """The following chunks come from another file, or from new content of the same file.

    Attributes:
        is_restart: the writer started over; False if the stream continues in a new file.
    """

    reason: ResetReason
    generation: int
    is_restart: bool


class TailState(enum.StrEnum):
    WAITING = "waiting"
    """Nothing has been seen yet."""
    READING = "reading"
    """More can be read."""
    AT_END = "at end"
    """Everything visible has been read."""
    LOST = "lost"
    """The file existed and cannot be reached now; retrying."""
    REFUSED = "refused"
    """The path is not a file that can be followed."""
    STUCK = "stuck"
    """The file system does not respond."""


class TailStatus(NamedTuple):
    """A snapshot for the status line and for progress (`offset / size`).

    Attributes:
        message: reason for the user; may be empty.
        nul_bytes: NUL bytes read but not passed on: skipped holes, and those at the current end of the file.
        error: exception to raise if the state is REFUSED or the last poll failed.
        left_out: files of the same stream that could not be read, each with the reason.
        searched: offset up to which a hole of NUL bytes has been searched; poll again at once to continue.
            0 if no search is under way.
        unread: bytes that the last poll saw but did not read.
        is_emptied: the content that was read is gone, and nothing has replaced it.
    """

    state: TailState
    message: str = ""
    size: int = 0
    offset: int = 0
    nul_bytes: int = 0
    error: SourceError | None = None
    left_out: tuple[str, ...] = ()
    searched: int = 0
    unread: int = 0
    is_emptied: bool = False


_BINARY_MAGIC = (b":W&B", b":SWL", b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PAR1", b"SQLite",
                 b"\xff\xfe", b"\xfe\xff")  # fmt: skip
_BINARY_NAMES = ("tfevents", ".wandb", ".swanlab", ".gz", ".bz2", ".zst")


def is_binary(head: bytes = b"", name: str = "") -> bool:
    """Can NUL be data in this file, as in any format but text?

    Decided by the magic bytes of formats that trainers and trackers write, the 64-bit
    length at the start of a TensorBoard file, the zeros of UTF-16, or the file's name.
    """
    is_event_file = len(head) >= 8 and head[0] != 0 and head[1:8] == bytes(7)
    return (
        is_event_file
        or has_wide_characters(head)
        or head.startswith(_BINARY_MAGIC)
        or any(part in name for part in _BINARY_NAMES)
    )


class TailOptions(NamedTuple):
    """How cautious and patient a tail is.

    Attributes:
        is_network: another machine may write: no handle stays open, and changes must be confirmed.
        nul_polls: polls in which a hole must be seen before it is skipped, in local files.
        careful_nul_polls: the same on a network, where data can arrive out of order; `confirm_s` applies as well.
        confirm_s: how long other content must be seen on a network; 3 s is the minimum
            attribute cache time of an NFS client (acregmin, nfs(5)).
        shrink_s: how long a file on a network must look shorter with the same beginning;
            longer than the maximum attribute cache time (acregmax, 60 s).
        rescan_s: how often the directory is read to see which inode the name has; network only.
        drain_polls: polls without new data before a renamed file is abandoned.
        linger_s: how long a renamed file must have had no writes, while the new one has data: its writer may not have
            switched yet, or there may be another one.
        linger_max_s: how long the new file waits for that at most.
        is_once: only content present at the first poll is read, not what is appended or replaces it.
    """

    is_network: bool = False
    nul_polls: int = 2
    careful_nul_polls: int = 5
    confirm_s: float = 3.0
    shrink_s: float = 90.0
    rescan_s: float = 60.0
    drain_polls: int = 2
    linger_s: float = 5.0
    linger_max_s: float = 30.0
    retry_max_s: float = 5.0
    is_once: bool = False


ONE_SHOT = TailOptions(nul_polls=1, careful_nul_polls=1, confirm_s=0.0, shrink_s=0.0, drain_polls=1, linger_s=0.0)
"""For reading once what is there: waiting would gain nothing."""

ONCE = ONE_SHOT._replace(is_once=True)
"""The same, but a growing file is read only up to its size at the first poll."""


class ReaderOptions(NamedTuple):
    """How files are read in the background.

    Attributes:
        network_poll_s: polling interval on a network while data arrives; by default not below 1 s,
            because login nodes are shared.
        network_poll_max_s: longest interval while nothing arrives; reached through `network_backoff`.
        queue_bytes: limit for data of one file waiting to be taken.
        stuck_after_s: a call that takes longer is reported as no answer.
        use_watcher: use inotify to shorten the wait where it is reliable.
        watch_delay_s: delay before that, because watchdog must be imported first.
    """

    local_poll_s: float = 0.25
    network_poll_s: float = 1.0
    network_poll_max_s: float = 5.0
    network_backoff: float = 1.5
    queue_bytes: int = 8 * 1024 * 1024
    read_bytes: int = 1024 * 1024
    stuck_after_s: float = 3.0
    use_watcher: bool = True
    watch_delay_s: float = 1.0
    tail: TailOptions = TailOptions()


READ_BYTES = 1024 * 1024
"""Size of one read; larger ones are not faster."""

PROBE_BYTES = 4096
"""Bytes requested beyond the known size, which may be out of date; a read is not."""

SEARCH_BYTES = 16 * 1024 * 1024
"""NUL bytes searched in one poll, so that other files on the mount get their turn."""

UNSIZED_BYTES = 64 * 1024 * 1024
"""Read limit for a file that reports size 0 but has content, like those in /proc: some never end."""

MOST_LIVES = 4
"""Most versions that are read, in one-shot mode, of a file that keeps being rewritten."""

BOM = b"\xef\xbb\xbf"
_NULS = bytes(READ_BYTES)


class Outcome(enum.Enum):
    """How a turn of reading ended."""

    END = "nothing more"
    MORE = "as many bytes as were asked for"
    HELD = "there is more, but not to be trusted yet"
    SEARCHING = "nothing but NUL so far; there is more to look through"
    DIFFERENT = "another content"
    SHORT = "less than was read before"


class Hole(Struct, frozen=False):
    """NUL bytes at the read position, which may still become data.

    Attributes:
        since: when they were first seen.
        seen_to: end of what was read then.
        data_at: offset of a non-NUL byte after them, or None.
    """

    offset: int
    since: float
    seen_to: int
    polls: int = 0
    scanned: int = 0
    data_at: int | None = None


class Cursor:
    """Reads a file from its current position and collects events.

    Args:
        clock: measures how long NUL bytes have been there.
        name: of the file; it identifies some formats in which NUL is data.
    """

    def __init__(self, fs: FileSystem, clock: Clock, options: TailOptions, start: int, name: str = "") -> None:
        self.offset = start
        self.generation = 0
        self.budget = 0
        self.is_careful = options.is_network
        self._fs = fs
        self._clock = clock
        self._options = options
        self._events: list[Chunk | Reset] = []
        self._fingerprint = FileFingerprint()
        self._hole: Hole | None = None
        self._old_to = 0
        self._is_binary = is_binary(name=name)
        self._nul_passed = 0
        self._stop: int | None = None
        self._lives = 0
        self.is_unsized = False
        self._search_budget = 0
        self._is_searching = False

    def begin_poll(self, max_bytes: int) -> None:
        self.budget = max_bytes
        self._search_budget = SEARCH_BYTES
        self._is_searching = False

    def take_events(self) -> list[Chunk | Reset]:
        events, self._events = self._events, []
        return events

    @property
    def nul_bytes(self) -> int:
        return self._nul_passed + self._pending_nuls

    @property
    def _pending_nuls(self) -> int:
        return max(0, self._hole.scanned - self._hole.offset) if self._hole else 0

    @property
    def searched(self) -> int:
        """How far a hole has been searched if the last poll did not reach its end; else 0."""
        return max(self._hole.scanned, self.offset) if self._hole is not None and self._is_searching else 0

    def begin_life(self, size: int) -> None:
        """Note the size of new content; in one-shot mode, this limits what is read."""
        if self._options.is_once:
            self._lives += 1
            self.is_unsized = size == 0
            self._stop = 0 if self._lives > MOST_LIVES else size or UNSIZED_BYTES

    @property
    def _left(self) -> int:
        return READ_BYTES if self._stop is None else self._stop - self.offset

    @property
    def is_untouched(self) -> bool:
        """Has nothing of this generation been read or skipped yet?"""
        return self.offset == 0

    @property
    def needs_anchor(self) -> bool:
        """Does reading start inside a file that has no fingerprint yet?"""
        return self.offset > 0 and not self._fingerprint.head

    def anchor(self, handle: int) -> bool:
        """Take the fingerprint at the start offset; False if the file is shorter."""
        is_known = self._fingerprint.load(self._fs, handle, self.offset)
        self._is_binary = self._is_binary or is_binary(self._fingerprint.head)
        return is_known

    def reset(self, reason: ResetReason, *, is_restart: bool) -> None:
        """Start at offset 0 of other content; no event if nothing had been read."""
        self._nul_passed += self._pending_nuls
        self._hole, self._old_to = None, 0
        self._fingerprint.clear()
        if not self.is_untouched:
            self.offset = 0
            self.generation += 1
            self._events.append(Reset(reason, self.generation, is_restart))

    def matches(self, handle: int) -> bool | None:
        """Does an open file match what was read? See `FileFingerprint.matches`."""
        return self._fingerprint.matches(self._fs, handle, self.offset)

    def read(self, handle: int, size: int, *, verify_end: bool = True, is_ending: bool = False) -> Outcome:
        """Read on until the budget is used up or no more data comes.

        The fingerprint is compared *after* each read, so that bytes of a file
        that has just been rewritten are never passed on.

        Args:
            size: the reported size; it only guides how much is requested.
            is_ending: nothing will be appended any more, so nothing is held back.

        Raises:
            OSError: from the file system; the events so far stay valid.
        """
        size = size if self._stop is None else self._stop
        while self.budget > 0:
            # A hole yields no data, so the remaining budget does not limit it.
            most = READ_BYTES if self._hole is not None else min(self.budget, READ_BYTES)
            want = min(most, max(size - self.offset, PROBE_BYTES), self._left)
            if want <= 0:
                return Outcome.END
            data = self._fs.read_at(handle, want, self.offset)
            if self.offset == 0 and data and len(data) < len(BOM):
                data = read_fully(self._fs, handle, len(BOM), 0)
            # A file without a size is generated at each read, so there is nothing to compare.
            if (data or verify_end) and not self.is_unsized:
                same = self.matches(handle)
                if same is not True:
                    return Outcome.SHORT if same is None else Outcome.DIFFERENT
            if not data:
                return Outcome.END
            self._is_binary = self._is_binary or (self.offset == 0 and is_binary(data))
            if self._is_binary:
                self._give(data[: self.budget])
            elif outcome := self._take_text(handle, data, size, is_ending=is_ending):
                self._is_searching = outcome is Outcome.SEARCHING
                return outcome
        return Outcome.MORE

    def _take_text(self, handle: int, data: bytes, size: int, *, is_ending: bool) -> Outcome | None:
        """Pass on text without NUL bytes and byte order mark; returns an outcome if the poll ends here."""
        start = self.offset
        while (at := self.offset - start) < len(data) and self.budget > 0:
            if data[at] == 0:
                if outcome := self._meet_hole(handle, data, at, size):
                    return outcome
                continue
            self._hole = None
            nul = data.find(0, at)
            if self.offset == 0:
                if data.startswith(BOM):
                    self._pass(BOM)
                    at = len(BOM)
                elif nul < 0 and not is_ending and BOM.startswith(data):
                    return Outcome.END
            self._give(data[at : min(len(data) if nul < 0 else nul, at + self.budget)])
        return None

    def _give(self, data: bytes) -> None:
        if data:
            self._events.append(Chunk(data, self.offset, self.generation))
            self.budget -= len(data)
            self._pass(data)

    def _pass(self, data: bytes) -> None:
        self._fingerprint.extend(data)
        self.offset += len(data)

    def _meet_hole(self, handle: int, data: bytes, at: int, size: int) -> Outcome | None:
        """Handle NUL bytes at the read position, `data[at:]`; None if some were skipped and reading can go on.

        They are skipped only if data follows: at the end of the file they block nothing and may still become data. Only
        bytes just read are skipped, because any part of the hole may have been filled since the last poll. What was
        read together with a hole that has been waited for has been waited for as well.
        """
        now = self._clock.monotonic()
        hole, seen_to = self._hole, self.offset - at + len(data)
        if hole is None or hole.offset != self.offset:
            hole = self._hole = Hole(self.offset, now, seen_to, scanned=self.offset)
        nuls = leading_nuls(data[at : at + PROBE_BYTES])
        if nuls == PROBE_BYTES:
            nuls = leading_nuls(data[at:])
        has_data = at + nuls < len(data)
        if has_data:
            hole.data_at = self.offset + nuls
        elif hole.data_at is None or hole.data_at <= self.offset:
            hole.data_at = None
            hole.scanned = max(hole.scanned, self.offset + nuls)
            if not self._search(handle, hole, size):
                return Outcome.SEARCHING
        hole.polls += 1
        if hole.data_at is None:
            return Outcome.END
        if self.offset + nuls > self._old_to:
            if not self._is_old(hole, now):
                return Outcome.HELD
            self._old_to = max(self._old_to, hole.seen_to)
        self._search_budget -= nuls
        if not has_data:
            nuls = self._unwritten(handle, nuls, hole.data_at)
        self._fingerprint.skip(nuls)
        self._nul_passed += nuls
        self.offset += nuls
        hole.offset = self.offset
        return None if self._search_budget > 0 or has_data else Outcome.SEARCHING

    def _unwritten(self, handle: int, nuls: int, stop: int | None) -> int:
        """Number of NUL bytes at the read position: those just read, plus the unallocated range after them."""
        data_at = self._fs.seek_data(handle, self.offset + nuls)
        if data_at is None or stop is None:
            return nuls
        return max(nuls, min(data_at, stop) - self.offset)

    def _is_old(self, hole: Hole, now: float) -> bool:
        if self.is_careful:
            return hole.polls >= self._options.careful_nul_polls and now - hole.since >= self._options.confirm_s
        return hole.polls >= self._options.nul_polls

    def _search(self, handle: int, hole: Hole, size: int) -> bool:
        """Search for data after the hole; False if the search is unfinished."""
        end_at = max(hole.scanned, size - PROBE_BYTES)
        end = read_fully(self._fs, handle, PROBE_BYTES, end_at)
        if (nuls := leading_nuls(end)) < len(end):
            hole.data_at = end_at + nuls
            return True
        while self._search_budget > 0:
            if self._stop is not None and hole.scanned >= self._stop:
                return True
            data_at = self._fs.seek_data(handle, hole.scanned)
            if data_at is not None or not self.is_unsized:
                hole.scanned = max(hole.scanned, size if data_at is None else data_at)
            data = self._fs.read_at(handle, READ_BYTES, hole.scanned)
            if not data:
                return True
            self._search_budget -= len(data)
            if (nuls := leading_nuls(data)) < len(data):
                hole.data_at = hole.scanned + nuls
                return True
            hole.scanned += nuls
        return False


def leading_nuls(data: bytes) -> int:
    """Number of NUL bytes at the start of `data`; fast if there is nothing else."""
    if len(data) <= READ_BYTES and _NULS.startswith(data):
        return len(data)
    return len(data) - len(data.lstrip(b"\0"))


class NotRegularFile(Exception):  # noqa: N818 - not an error here: it ends one poll
    """The path is not a regular file and can never be followed."""

    def __init__(self, path: str, seen: FileStat) -> None:
        super().__init__(path)
        self.error = SourceError(
            f"{path} is a {seen.kind_word}, not a regular file",
            "name a metric file, for example logs/metrics.jsonl",
        )


def is_missing(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ENOTDIR)


def deleted_file_status(size: int) -> TailStatus:
    return TailStatus(TailState.LOST, "file deleted; waiting for it to come back", size)


def missing_file_status(path: str, fs: FileSystem) -> TailStatus:
    """The status for a missing file; names the nearest existing folder, to tell a late file from a typo.

    Raises:
        OSError: it cannot be found out whether a parent folder exists.
    """
    folder = posixpath.dirname(path)
    near = folder
    while near != posixpath.dirname(near) and not _is_folder(near, fs):
        near = posixpath.dirname(near)
    if near == folder:
        target = fs.realpath(path)
        if target != posixpath.join(fs.realpath(folder), posixpath.basename(path)):
            return TailStatus(TailState.WAITING, f"broken symlink: it leads to {target}, which does not exist yet")
        return TailStatus(TailState.WAITING, f"no such file in {folder} yet")
    return TailStatus(TailState.WAITING, f"no such folder: {folder}; the nearest existing one is {near}")


def _is_folder(path: str, fs: FileSystem) -> bool:
    try:
        return stat.S_ISDIR(fs.stat(path).mode)
    except OSError as error:
        if is_missing(error):
            return False
        raise


def unreachable(error: OSError, size: int) -> TailStatus:
    return TailStatus(TailState.LOST, f"cannot read the file: {reason_of(error)}; retrying", size)


class UnheldTail:
    """Base of tails that hold no handle open between polls and so work alike on every mount.

    Polled like `tail.Tail`; after `close` it gives no more events.
    """

    def __init__(self, path: str, fs: FileSystem) -> None:
        self.path = path
        self._fs = fs
        self._is_closed = False
        self.status = TailStatus(TailState.WAITING, "not looked at yet")

    def follow_as(self, *, is_network: bool) -> None:
        """The path now leads to another mount."""

    def close(self) -> None:
        self._is_closed = True

    def _lose(self, error: OSError) -> None:
        status = unreachable(error, self.status.size)
        self.status = status._replace(error=cannot_read(self.path, error))


class Stillness:
    """Tells when a renamed file can be abandoned because it is no longer written to."""

    def __init__(self, options: TailOptions) -> None:
        self._options = options
        self._offset = -1
        self._polls = 0
        self._still_since = self._waited_since = float("inf")

    def is_long_enough(self, now: float, offset: int, *, is_awaited: bool) -> bool:
        """Note that the file has been read to its end, at `offset`; can it be abandoned?

        Args:
            now: seconds of a monotonic clock.
            is_awaited: its successor already has data, which has to wait. Until then the old file is kept,
                however long that takes: only writing to the new file shows that the writer has switched.
        """
        if offset != self._offset:
            self._offset, self._polls, self._still_since = offset, 0, now
        self._polls += 1
        if not is_awaited:
            return False
        self._waited_since = min(now, self._waited_since)
        if now - self._waited_since >= self._options.linger_max_s:
            return True
        # One more read after the new file got its first data sees everything written to the old file before.
        is_still = now - max(self._still_since, self._waited_since) >= self._options.linger_s
        return is_still and self._polls >= self._options.drain_polls
