"""What one look at a path has shown, in words for a person."""

from __future__ import annotations

import errno
from typing import NamedTuple

from rltop.errors import SourceError
from rltop.sources.cursor import Outcome
from rltop.sources.events import TailState, TailStatus
from rltop.sources.filesystem import FileStat


class Sight(NamedTuple):
    """State, remark and size as one look has left them."""

    state: TailState
    message: str = ""
    size: int = 0

    @classmethod
    def of(cls, outcome: Outcome, size: int, note: Sight | None = None) -> Sight:
        """How a turn of reading ended; a remark about the path counts once all is read."""
        if outcome in (Outcome.MORE, Outcome.HELD):
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


def gone(*, was_seen: bool, size: int) -> Sight:
    """Nothing stands at the path, no longer or not yet."""
    if was_seen:
        return Sight(TailState.LOST, "the file is gone; waiting for it to come back", size)
    return Sight(TailState.WAITING, "the file does not exist yet", size)


def unreachable(error: OSError, size: int) -> Sight:
    """The file system refuses to show the file."""
    return Sight(TailState.LOST, f"lost sight of the file: {error.strerror or error}; still trying", size)
