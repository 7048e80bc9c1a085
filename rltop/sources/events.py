"""What a source gives out: chunks and resets, its status, and its options."""

from __future__ import annotations

import enum

from rltop.errors import SourceError
from rltop.sources.file import MountRules
from rltop.structs import NamedTuple


class Chunk(NamedTuple):
    """Bytes of a file, cut anywhere: a line may go on in the next chunk.

    Chunks of one generation follow each other without gap or overlap. Only a byte
    order mark at the beginning and NUL bytes that never became data are left out;
    `offset` stays the true one across both.

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
    """The state of a source."""

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


_BINARY_MAGIC = (b":W&B", b":SWL", b"\x1f\x8b", b"BZh", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ", b"PAR1", b"SQLite")
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
    mounts: MountRules = MountRules()
    tail: TailOptions = TailOptions()
