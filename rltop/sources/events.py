"""What a source gives out (chunks and resets, its status), its options, and the reading position in a file.

The position owns offset, generation and fingerprint; decides which of the bytes that were read may be given out, and
when a renamed file may be left; has the messages for the outcome of a poll.
"""

from __future__ import annotations

import enum
import errno
import posixpath
import stat

from rltop.clock import Clock
from rltop.errors import SourceError, cannot_read, reason_of
from rltop.sources.file import FileFingerprint, FileStat, FileSystem, read_fully
from rltop.structs import NamedTuple, Struct


class Chunk(NamedTuple):
    """Bytes of a file, cut anywhere: a line may go on in the next chunk.

    Chunks of one generation follow each other without gap or overlap. Only a byte order mark at the beginning and NUL
    bytes that never became data are left out; `offset` stays the true one across both.

    Attributes:
        data: at least one byte.
        is_head: the beginning of a file of which only the end follows, behind a gap; always in one piece.
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
    """The following chunks come from another file, or from new content of the same one.

    Attributes:
        is_restart: the writer restarted; False if the stream only continues in a new file.
    """

    reason: ResetReason
    generation: int
    is_restart: bool


class TailState(enum.StrEnum):
    WAITING = "waiting"
    """Nothing has been seen yet."""
    READING = "reading"
    """There is more than has been read."""
    AT_END = "at end"
    """Everything visible has been read."""
    LOST = "lost"
    """It existed and cannot be reached now; retrying."""
    REFUSED = "refused"
    """The path is not a file that can be followed."""
    STUCK = "stuck"
    """The file system does not respond."""


class TailStatus(NamedTuple):
    """A snapshot for the status line and for progress (`offset / size`).

    Attributes:
        message: why, for a person; empty where there is nothing to say.
        nul_bytes: NUL bytes seen and not given out: holes passed over, and those the file ends with now.
        error: where the state is REFUSED, or the last look has failed: the same as something to raise.
        left_out: files of the same stream that could not be read, each with the reason.
        searched: up to where a hole of NUL bytes has been looked through; asked again at once, it goes on from there.
            0 where none is being looked through: there is nothing to be had at once.
        unread: bytes that the last look saw and did not read.
        is_emptied: what was read stands there no longer, and nothing has taken its place.
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
    """Is NUL data in this file, as in every format but text?

    By the magic bytes of the formats that trainers and trackers write, by the
    64-bit length that a TensorBoard file begins with, or by the file's name.
    """
    is_event_file = len(head) >= 8 and head[0] != 0 and head[1:8] == bytes(7)
    return is_event_file or head.startswith(_BINARY_MAGIC) or any(part in name for part in _BINARY_NAMES)


class TailOptions(NamedTuple):
    """How patient a tail is.

    Attributes:
        is_network: another machine may write: nothing is held open, nothing is believed at first sight.
        nul_polls: on how many polls a hole must be seen before it is passed over, local files.
        careful_nul_polls: the same on a network, where data can arrive out of order; it also takes `confirm_s`.
        confirm_s: how long another content must be seen on a network; 3 s is the
            least time an NFS client keeps attributes (acregmin, nfs(5)).
        shrink_s: how long a file on a network must look shorter although it begins
            as before; beyond the longest time attributes are kept (acregmax, 60 s).
        rescan_s: how often the directory is asked which file the name stands for, network only.
        drain_polls: polls without news before a file that was renamed away is left.
        linger_s: for how long nothing must have been written to a file that was renamed away, while the new one holds
            data: the writer may not have moved on, or another one has not.
        linger_max_s: how long the new one waits for that at most.
        is_once: only what is there at the first look is read; what is appended, or put in its place, is not.
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
"""For reading once what is there: nothing gains from waiting."""

ONCE = ONE_SHOT._replace(is_once=True)
"""The same for what is judged as a whole: a file that grows meanwhile is not chased."""


class ReaderOptions(NamedTuple):
    """How files are read in the background.

    Attributes:
        network_poll_s: the same on a network, while data comes; never below 1 s
            by default, because a login node counts as everybody's.
        network_poll_max_s: the longest it grows to, by `network_backoff`, while nothing comes.
        queue_bytes: how much of one file may wait to be taken.
        stuck_after_s: a call that takes longer is reported as no answer.
        use_watcher: let the kernel shorten the wait where it can be trusted.
        watch_delay_s: wait before that, because it has to be imported first.
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
"""One read; larger ones are not faster."""

PROBE_BYTES = 4096
"""Asked for at the end of the file: the size may be out of date, a read is not."""

SEARCH_BYTES = 16 * 1024 * 1024
"""How many NUL bytes are looked through in one poll: other files of the mount have their turn then."""

UNSIZED_BYTES = 64 * 1024 * 1024
"""How much is read once of a file that says it is empty and is not, as those of /proc do: some never end."""

MOST_LIVES = 4
"""How many contents are read once of a file that is rewritten all the while it is read."""

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
    """NUL bytes at the reading position, so far neither data nor nothing.

    Attributes:
        since: when they were first seen.
        data_at: a byte beyond them that is not NUL, or None.
    """

    offset: int
    since: float
    polls: int = 0
    scanned: int = 0
    data_at: int | None = None


class Cursor:
    """Reads on from where it stands and collects events.

    Args:
        clock: for how long NUL bytes have stood where more is to come.
        name: of the file; some formats, in which NUL is data, are told by it.
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
        """How far a hole has been searched if the last look did not reach its end; else 0."""
        return max(self._hole.scanned, self.offset) if self._hole is not None and self._is_searching else 0

    def begin_life(self, size: int) -> None:
        """Note what a file holds when its content is first looked at: all that is read of it, if it is read once."""
        if self._options.is_once:
            self._lives += 1
            self.is_unsized = size == 0
            self._stop = 0 if self._lives > MOST_LIVES else size or UNSIZED_BYTES

    @property
    def _left(self) -> int:
        return READ_BYTES if self._stop is None else self._stop - self.offset

    @property
    def is_untouched(self) -> bool:
        """Nothing of this generation has been passed yet."""
        return self.offset == 0

    @property
    def needs_anchor(self) -> bool:
        """It begins inside a file of which nothing is known yet."""
        return self.offset > 0 and not self._fingerprint.head

    def anchor(self, handle: int) -> bool:
        """Learn the file it begins in; False if that does not reach so far."""
        is_known = self._fingerprint.load(self._fs, handle, self.offset)
        self._is_binary = self._is_binary or is_binary(self._fingerprint.head)
        return is_known

    def reset(self, reason: ResetReason, *, is_restart: bool) -> None:
        """Begin at offset 0 of another file; silent if nothing had been passed."""
        self._nul_passed += self._pending_nuls
        self._hole = None
        self._fingerprint.clear()
        if not self.is_untouched:
            self.offset = 0
            self.generation += 1
            self._events.append(Reset(reason, self.generation, is_restart))

    def matches(self, handle: int) -> bool | None:
        """Whether an open file agrees with what was read: see `FileFingerprint.matches`."""
        return self._fingerprint.matches(self._fs, handle, self.offset)

    def read(self, handle: int, size: int, *, verify_end: bool = True, is_ending: bool = False) -> Outcome:
        """Read on until the budget is used up or nothing more comes.

        The fingerprint is compared *after* each read, so that bytes read from a
        file that was rewritten a moment ago are never given out.

        Args:
            size: what it is said to hold; only guides how much is asked for.
            is_ending: nothing will be appended any more, so nothing is held back.

        Raises:
            OSError: whatever the file system says; the events so far stay valid.
        """
        size = size if self._stop is None else self._stop
        while self.budget > 0:
            # What is left of the budget says nothing about a hole, of which nothing is given out.
            most = READ_BYTES if self._hole is not None else min(self.budget, READ_BYTES)
            want = min(most, max(size - self.offset, PROBE_BYTES), self._left)
            if want <= 0:
                return Outcome.END
            data = self._fs.read_at(handle, want, self.offset)
            if self.offset == 0 and data and len(data) < len(BOM):
                data = read_fully(self._fs, handle, len(BOM), 0)
            # What has no size is made up at each read: nothing is to be compared.
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
        """Give out text up to the first NUL, without a byte order mark; an outcome ends the look."""
        if data[0] == 0:
            return self._meet_hole(handle, data, size)
        self._hole = None
        nul = data.find(0)
        if nul > 0:
            data = data[:nul]
        if self.offset == 0:
            if data.startswith(BOM):
                self._pass(BOM)
                data = data[len(BOM) :]
            elif nul < 0 and not is_ending and BOM.startswith(data):
                return Outcome.END
        self._give(data[: self.budget])
        return None

    def _give(self, data: bytes) -> None:
        if data:
            self._events.append(Chunk(data, self.offset, self.generation))
            self.budget -= len(data)
            self._pass(data)

    def _pass(self, data: bytes) -> None:
        self._fingerprint.extend(data)
        self.offset += len(data)

    def _meet_hole(self, handle: int, data: bytes, size: int) -> Outcome | None:
        """Deal with NUL at the reading position; None: some were passed over, read on.

        They are passed over only where data lies beyond, because at the end they hold up nothing and may yet become
        data; and only those seen just now, because any part of the hole may have been filled since the last look.
        """
        now = self._clock.monotonic()
        hole = self._hole
        if hole is None or hole.offset != self.offset:
            hole = self._hole = Hole(self.offset, now, scanned=self.offset)
        nuls = leading_nuls(data)
        if nuls < len(data):
            hole.data_at = self.offset + nuls
        elif hole.data_at is None or hole.data_at <= self.offset:
            hole.data_at = None
            hole.scanned = max(hole.scanned, self.offset + nuls)
            if not self._search(handle, hole, size):
                return Outcome.SEARCHING
        hole.polls += 1
        if hole.data_at is None:
            return Outcome.END
        if not self._is_old(hole, now):
            return Outcome.HELD
        self._search_budget -= nuls
        if nuls == len(data):
            nuls = self._unwritten(handle, nuls, hole.data_at)
        self._fingerprint.skip(nuls)
        self._nul_passed += nuls
        self.offset += nuls
        hole.offset = self.offset
        return None if self._search_budget > 0 or nuls < len(data) else Outcome.SEARCHING

    def _unwritten(self, handle: int, nuls: int, stop: int | None) -> int:
        """How many NUL bytes stand at the reading position: those just read, and what was never written behind them."""
        data_at = self._fs.seek_data(handle, self.offset + nuls)
        if data_at is None or stop is None:
            return nuls
        return max(nuls, min(data_at, stop) - self.offset)

    def _is_old(self, hole: Hole, now: float) -> bool:
        if self.is_careful:
            return hole.polls >= self._options.careful_nul_polls and now - hole.since >= self._options.confirm_s
        return hole.polls >= self._options.nul_polls

    def _search(self, handle: int, hole: Hole, size: int) -> bool:
        """Look for data beyond the hole; False if there is more to look through."""
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
    """How many NUL bytes `data` begins with; fast where it holds nothing else."""
    if len(data) <= READ_BYTES and _NULS.startswith(data):
        return len(data)
    return len(data) - len(data.lstrip(b"\0"))


class Refused(Exception):  # noqa: N818 - not an error here: it ends one look
    """The path is not a regular file and can never be followed."""

    def __init__(self, path: str, seen: FileStat) -> None:
        super().__init__(path)
        self.error = SourceError(
            f"{path} is a {seen.kind_word}, not a regular file",
            "name a metric file, for example logs/metrics.jsonl",
        )


def is_missing(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ENOTDIR)


def gone(size: int) -> TailStatus:
    return TailStatus(TailState.LOST, "file deleted; waiting for it to come back", size)


def not_yet(path: str, fs: FileSystem) -> TailStatus:
    """No file at the path so far; the nearest existing folder tells a late file from a typo.

    Raises:
        OSError: a folder above does not say whether it is there.
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
    """What follows something of which nothing is held open between two polls: every mount is followed alike.

    Polled as `tail.Tail` is; closed, it brings nothing more.
    """

    def __init__(self, path: str, fs: FileSystem) -> None:
        self.path = path
        self._fs = fs
        self._is_closed = False
        self.status = TailStatus(TailState.WAITING, "not looked at yet")

    def follow_as(self, *, is_network: bool) -> None:
        """The path leads to another mount now."""

    def close(self) -> None:
        self._is_closed = True

    def _lose(self, error: OSError) -> None:
        status = unreachable(error, self.status.size)
        self.status = status._replace(error=cannot_read(self.path, error))


class Stillness:
    """Whether a file that was renamed away may be left: nothing is written to it any more."""

    def __init__(self, options: TailOptions) -> None:
        self._options = options
        self._offset = -1
        self._polls = 0
        self._still_since = self._waited_since = float("inf")

    def is_long_enough(self, now: float, offset: int, *, is_awaited: bool) -> bool:
        """Take in that it has been read up to `offset`, its end.

        Args:
            now: the time, in seconds of any clock that goes on evenly.
            is_awaited: the file that has taken its place holds data, which wait meanwhile. While it holds
                none the old one is kept, however long that is: a writer moves on by writing.
        """
        if offset != self._offset:
            self._offset, self._polls, self._still_since = offset, 0, now
        self._polls += 1
        if not is_awaited:
            return False
        self._waited_since = min(now, self._waited_since)
        if now - self._waited_since >= self._options.linger_max_s:
            return True
        # What was written before the new file got its first data is seen by reading once more behind that.
        is_still = now - max(self._still_since, self._waited_since) >= self._options.linger_s
        return is_still and self._polls >= self._options.drain_polls
