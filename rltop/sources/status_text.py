"""What one look at a path has shown, in words for a person."""

from __future__ import annotations

import errno
import posixpath
import stat

from rltop.errors import SourceError, reason_of
from rltop.sources.cursor import Outcome
from rltop.sources.events import TailState, TailStatus
from rltop.sources.file import FileStat, FileSystem
from rltop.structs import NamedTuple

UNREAD = frozenset({Outcome.MORE, Outcome.HELD, Outcome.SEARCHING})
"""A look that ended so has not come to the end of what is there."""


class Sight(NamedTuple):
    """State, remark and size as one look has left them."""

    state: TailState
    message: str = ""
    size: int = 0

    @classmethod
    def of(cls, outcome: Outcome, size: int, note: Sight | None = None) -> Sight:
        """How a turn of reading ended; a remark about the path counts once all is read."""
        if outcome in UNREAD:
            return cls(TailState.READING, "", size)
        if note is not None:
            return note
        return cls(TailState.AT_END, "", size)

    def as_status(self) -> TailStatus:
        """The same for a file of which nothing has been read."""
        return TailStatus(self.state, self.message, self.size)


class Refused(Exception):  # noqa: N818 - not an error here: it ends one look
    """What stands at the path can never be followed."""

    def __init__(self, path: str, seen: FileStat) -> None:
        super().__init__(path)
        self.error = SourceError(
            f"{path} is a {seen.kind_word}, not a regular file",
            "name a file that is written to, for example logs/metrics.jsonl",
        )


def is_missing(error: OSError) -> bool:
    """Whether the error says that nothing is there."""
    return error.errno in (errno.ENOENT, errno.ENOTDIR)


def gone(size: int) -> Sight:
    """Nothing stands at the path any longer."""
    return Sight(TailState.LOST, "the file is gone; waiting for it to come back", size)


def not_yet(path: str, fs: FileSystem) -> Sight:
    """Nothing has stood at the path so far; where the way to it ends tells a late file from a mistyped one.

    Args:
        path: absolute.
        fs: asked for the folders above, as far up as it takes.

    Raises:
        OSError: a folder above does not say whether it is there.
    """
    folder = posixpath.dirname(path)
    near = folder
    while near != posixpath.dirname(near) and not _is_folder(near, fs):
        near = posixpath.dirname(near)
    if near == folder:
        return Sight(TailState.WAITING, f"the file does not exist yet in {folder}")
    return Sight(TailState.WAITING, f"there is no folder {folder}; the nearest that exists is {near}")


def _is_folder(path: str, fs: FileSystem) -> bool:
    try:
        return stat.S_ISDIR(fs.stat(path).mode)
    except OSError as error:
        if is_missing(error):
            return False
        raise


def unreachable(error: OSError, size: int) -> Sight:
    """The file system refuses to show the file."""
    return Sight(TailState.LOST, f"lost sight of the file: {reason_of(error)}; still trying", size)
