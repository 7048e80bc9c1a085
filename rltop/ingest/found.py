"""One metric stream that was found, and what it is called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rltop.decode.kinds import Kind, bare_name
from rltop.metrics.ranges import NONE, Ranges
from rltop.model import Label
from rltop.structs import NamedTuple


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
        awaits: there is no file yet: what is waited for, in words; `path` is where. Empty for what is there.
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
    awaits: str = ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of this stream, oldest first."""
        return (*self.earlier, self.path)


_COMMON_NAMES = frozenset(
    {"metrics", "training_history", "trainer_log", "logging", "history", "log", "train", "metric", "trainer_state",
     "progress", "output", "result", "stdout", "events"}
)  # fmt: skip
_COMMON_FOLDERS = frozenset({"logs", "log", "metrics", "tb", "tensorboard", "files", "runs"})
_DATED = re.compile(r"[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_")
"""What transformers calls the folder of an event file: date and machine, below `runs`."""


def name_of(path: str) -> Label:
    """What a run is called: its file, or its folder where every run's file has that name."""
    where = Path(path)
    stem = Path(bare_name(where.name)).stem
    if stem.lower() not in _COMMON_NAMES and "tfevents" not in where.name:
        return Label.of(stem)
    folder = where.absolute().parent
    while _says_nothing(folder):
        if not folder.parent.name:
            break
        folder = folder.parent
    return Label.of(folder.name or stem)


def _says_nothing(folder: Path) -> bool:
    """Does every run of a trainer have a folder of this name?"""
    if folder.name.startswith("checkpoint-"):
        return True
    return folder.name.lower() in _COMMON_FOLDERS or (folder.parent.name == "runs" and bool(_DATED.match(folder.name)))


def told_apart(found: Sequence[Found]) -> list[Found]:
    """The same runs; those of one name with the nearest part of their paths besides that no two of them share."""
    by_name: dict[str, list[Found]] = {}
    for each in found:
        by_name.setdefault(each.name.raw, []).append(each)
    names: dict[str, Label] = {}
    for name, same in by_name.items():
        columns = zip(*(_parts(each.path) for each in same), strict=False) if len(same) > 1 else ()
        parts = next((parts for parts in columns if len(set(parts)) == len(same)), ())
        names.update(
            {each.path: Label.of(_with(name, part, each.path)) for each, part in zip(same, parts, strict=False)}
        )
    return [each._replace(name=names.get(each.path, each.name)) for each in found]


def _parts(path: str) -> Iterable[str]:
    """Folders from the inside out, then the file."""
    where = Path(path).absolute()
    return *(folder.name for folder in where.parents), where.name


def _with(name: str, part: str, path: str) -> str:
    """A name and a part of its path, in the order in which they stand there."""
    parts = Path(path).absolute().parts
    is_inside = name in parts and part in parts and parts.index(part) > parts.index(name)
    return f"{name}/{part}" if is_inside else f"{part}/{name}"
