"""One metric stream that was found, and what it is called."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from rltop.catalog.ranges import NONE, Ranges
from rltop.formats.kinds import Kind, bare_name
from rltop.model import Label
from rltop.run.places import says_nothing
from rltop.structs import NamedTuple


class Found(NamedTuple):
    """One metric stream.

    Attributes:
        name: as shown: the file's name, with its folder where the name is a common one.
        size: bytes when looked at, 0 if it did not exist.
        modified_s: when it was last written, or None.
        kind: what its first bytes say it is; None if they were not looked at or do not tell.
        earlier: files that hold what came before, oldest first.
        role: which stream of its run it is (trainer, explorer, actor rank 3); empty where the run has only one.
        is_rank: it is what one of many ranks wrote, to be compared with the others.
        beside: the other streams of the same run, each with a step axis of its own.
        awaits: there is no file yet: what is waited for, in words; `path` is where. Empty for what is there.
        copies: other records of the same run, which are not followed.
        total_steps: how many steps the run is to make, where one of these says so.
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
    copies: tuple[str, ...] = ()
    total_steps: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of this stream, oldest first."""
        return (*self.earlier, self.path)


_COMMON_NAMES = frozenset(
    {"metrics", "training_history", "trainer_log", "logging", "history", "log", "train", "metric", "trainer_state",
     "progress", "output", "result", "stdout", "events"}
)  # fmt: skip


def name_of(path: str) -> Label:
    """What a run is called: its file, or its folder where every run's file has that name."""
    where = whole_path(path)
    stem = Path(bare_name(where.name)).stem
    if stem.strip(".") and stem.lower() not in _COMMON_NAMES and "tfevents" not in where.name:
        return Label.of(stem)
    folder = where.parent
    while says_nothing(folder):
        if not folder.parent.name:
            break
        folder = folder.parent
    return Label.of(folder.name or stem)


def titled(title: str, path: str) -> Label:
    """What a run calls itself; what its path calls it where that is nothing, or only a place, such as `.`."""
    return Label.of(title) if title.strip("./ ") else name_of(path)


def whole_path(path: str | Path) -> Path:
    """An absolute path without `.` and `..`, in which every folder has its name; links stay as they are named."""
    return Path(os.path.abspath(path))  # noqa: PTH100 - `Path.absolute` keeps `..`


def with_distinct_names(found: Sequence[Found]) -> list[Found]:
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
    where = whole_path(path)
    return *(folder.name for folder in where.parents), where.name


def _with(name: str, part: str, path: str) -> str:
    parts = whole_path(path).parts
    is_inside = name in parts and part in parts and parts.index(part) > parts.index(name)
    return f"{name}/{part}" if is_inside else f"{part}/{name}"


WANDB_PARTS = frozenset({"explorer", "trainer"})
"""Parts whose steps stand under `<part>/step` where they share one W&B run (Trinity's `shared_run`)."""
