"""One metric stream that was found, and what it is called."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rltop.decode.kinds import Kind, bare_name
from rltop.metrics.ranges import NONE, Ranges
from rltop.model import Label


class Found(NamedTuple):
    """One metric stream.

    Attributes:
        path: where it is; it may not exist yet.
        name: as shown: the file's name, with its folder where the name is a common one.
        size: bytes when looked at, 0 if it did not exist.
        modified_s: when it was last written, or None.
        kind: what its first bytes say it is; None if they were not looked at or do not tell.
        earlier: files that hold what came before, oldest first.
        role: which stream of its run it is (trainer, explorer, actor rank 3); empty where
            the run has only one.
        is_rank: it is what one of many ranks wrote, to be compared with the others.
        ranges: what values its metrics were declared to have.
        beside: the other streams of the same run, each with a step axis of its own.
    """

    path: str
    name: Label
    size: int = 0
    modified_s: float | None = None
    kind: Kind | None = None
    earlier: tuple[str, ...] = ()
    role: str = ""
    is_rank: bool = False
    beside: tuple[Found, ...] = ()
    ranges: Ranges = NONE

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of this stream, oldest first."""
        return (*self.earlier, self.path)


_COMMON_NAMES = frozenset(
    {"metrics", "training_history", "trainer_log", "logging", "history", "log", "train", "metric", "trainer_state",
     "progress", "output", "result", "stdout", "events"}
)  # fmt: skip
_COMMON_FOLDERS = frozenset({"logs", "log", "metrics", "tb", "tensorboard", "files", "runs"})


def name_of(path: str) -> Label:
    """What a run is called: its file, or its folder where every run's file has that name."""
    where = Path(path)
    stem = Path(bare_name(where.name)).stem
    if stem.lower() not in _COMMON_NAMES and "tfevents" not in where.name:
        return Label.of(stem)
    folder = where.absolute().parent
    while folder.name.lower() in _COMMON_FOLDERS or folder.name.startswith("checkpoint-"):
        if not folder.parent.name:
            break
        folder = folder.parent
    return Label.of(folder.name or stem)
