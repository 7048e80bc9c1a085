"""One metric stream that was found, and what it is called."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rltop.catalog.ranges import NONE, Ranges
from rltop.formats.kinds import TABLES, TENSORBOARD, Kind, bare_name
from rltop.model import Label
from rltop.model.table_rows import split_member
from rltop.regex import regex
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
        copies: other records of the same run, which are not followed.
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

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of this stream, oldest first."""
        return (*self.earlier, self.path)


_COMMON_NAMES = frozenset(
    {"metrics", "training_history", "trainer_log", "logging", "history", "log", "train", "metric", "trainer_state",
     "progress", "output", "result", "stdout", "events"}
)  # fmt: skip
_COMMON_FOLDERS = frozenset({"logs", "log", "metrics", "tb", "tensorboard", "files", "runs"})
_DATED = regex(r"[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_")
"""What transformers calls the folder of an event file: date and machine, below `runs`."""


def name_of(path: str) -> Label:
    """What a run is called: its file, or its folder where every run's file has that name."""
    where = whole_path(path)
    stem = Path(bare_name(where.name)).stem
    if stem.strip(".") and stem.lower() not in _COMMON_NAMES and "tfevents" not in where.name:
        return Label.of(stem)
    folder = where.parent
    while _says_nothing(folder):
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


def _says_nothing(folder: Path) -> bool:
    """Does every run of a trainer have a folder of this name?"""
    if folder.name.startswith("checkpoint-"):
        return True
    return folder.name.lower() in _COMMON_FOLDERS or (folder.parent.name == "runs" and bool(_DATED.match(folder.name)))


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
    """Folders from the inside out, then the file."""
    where = whole_path(path)
    return *(folder.name for folder in where.parents), where.name


def _with(name: str, part: str, path: str) -> str:
    """A name and a part of its path, in the order in which they stand there."""
    parts = whole_path(path).parts
    is_inside = name in parts and part in parts and parts.index(part) > parts.index(name)
    return f"{name}/{part}" if is_inside else f"{part}/{name}"


LOG_FOLDERS = frozenset({"log", "logs", "metrics", "tb", "tensorboard", "runs"})
"""Folders that a run keeps its metrics in, with checkpoints and its console log one level up."""
INNER_FOLDERS = frozenset(
    {"tb", "tensorboard", "runs", "logs", "log", "wandb", "files", "latest", "worker_logs", "monitor", "trace"}
)
INNER_PATTERN = regex(
    r"checkpoint-\d+$|(offline-)?run-\d{8}_\d{6}-.+$|[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_|latest-run$"
    r"|\d{1,3}(\.\d{1,3}){3}$"
)
"""Folders that trainers make inside a run's own: checkpoints, W&B runs, dated ones (transformers), nodes (Trinity)."""

MAIN_ROLES = ("trainer", "train", "learner", "actor", "all")
"""The parts whose steps are the run's, most trusted first: they make the optimiser's updates."""
_ROLES = frozenset(
    {*MAIN_ROLES, "explorer", "rollout", "rollouter", "generator", "sampler", "orchestrator", "inference", "env",
     "critic", "reward", "eval", "evaluator", "val", "valid", "validation", "test", "bench"}
)  # fmt: skip
WANDB_PARTS = frozenset({"explorer", "trainer"})
"""Parts whose steps stand under `<part>/step` where they share one W&B run (Trinity's `shared_run`)."""
_RANK_FOLDER = regex(r"rank[_-]?(\d+)$", re.IGNORECASE)
_BEGUN = regex(r"tfevents\.(\d{9,11})\.")
_SLACK_S = 60
_RANK_STEM = regex(r"(.*?)[._-]?rank[_-]?(\d+)$", re.IGNORECASE)


class Spot(NamedTuple):
    """Where a file belongs.

    Attributes:
        home: the run's own folder, above those that a trainer makes in it.
        role: the part that wrote it; empty for the whole trainer.
        is_rank: the part is one of many ranks.
    """

    home: Path
    role: str = ""
    is_rank: bool = False


def home_of(folder: Path) -> Path:
    """The run's own folder, above those that a trainer makes in it."""
    while folder.name and (
        folder.name in INNER_FOLDERS
        or INNER_PATTERN.match(folder.name)
        or (folder.name == "all" and folder.parent.name in INNER_FOLDERS)
    ):
        folder = folder.parent
    return folder


def place(files: Iterable[Found], titles: dict[str, str]) -> list[tuple[Found, Spot]]:
    """Every file with its place; a part is believed only where another part of the same run stands beside it.

    Args:
        files: the streams below one directory.
        titles: path → what the run calls itself in the file, where it does.
    """
    files = list(files)
    event_folders = {Path(each.path).parent: each for each in files if each.kind is TENSORBOARD}
    spots = [
        (each, _rank_spot(each.path) or _below_spot(each, event_folders), _role_spot(each.path, titles))
        for each in files
    ]
    parts: dict[Path, set[str]] = {}
    for _, sure, guess in spots:
        if sure is None and guess is not None:
            parts.setdefault(guess.home, set()).add(guess.role)
    placed = []
    for each, sure, guess in spots:
        if each.kind is TABLES or split_member(each.path) is not None:
            # A tracker keeps the runs of many trainers: each is one of its own, whatever stands beside it.
            placed.append((each, Spot(Path(each.path))))
        elif sure is not None:
            placed.append((each, sure))
        elif guess is not None and len(parts[guess.home]) > 1:
            placed.append((each, guess))
        else:
            placed.append((each, Spot(home_of(Path(each.path).parent))))
    return placed


def _rank_spot(path: str) -> Spot | None:
    """One of many ranks: `worker_logs/<group>/rank_3/…`, `rank3/…`, `metrics_rank3.jsonl`."""
    where = Path(path)
    stem = _RANK_STEM.fullmatch(Path(bare_name(where.name)).stem)
    if stem is not None and "tfevents" not in where.name:
        return Spot(home_of(where.parent), f"rank {int(stem[2])}", is_rank=True)
    if not any(map(_RANK_FOLDER.fullmatch, where.parts)):
        return None
    for folder in where.parents:
        found = _RANK_FOLDER.fullmatch(folder.name)
        if found is None:
            continue
        above = folder.parent
        if above.parent.name in INNER_FOLDERS and above.name not in INNER_FOLDERS:
            return Spot(home_of(above.parent), f"{above.name} rank {int(found[1])}", is_rank=True)
        return Spot(home_of(above), f"rank {int(found[1])}", is_rank=True)
    return None


def _below_spot(found: Found, event_folders: dict[Path, Found]) -> Spot | None:
    """Event files begun below other event files while those were written: what `add_scalars` makes."""
    folder = Path(found.path).parent
    if found.kind is not TENSORBOARD:
        return None
    for above in folder.parents:
        parent = event_folders.get(above)
        if parent is not None and _is_begun_during(found, parent):
            return Spot(home_of(above), str(folder.relative_to(above)))
    return None


def _is_begun_during(inner: Found, outer: Found) -> bool:
    """Was the first file of one stream begun while the other was written, as the names of event files say?"""
    begun_s, from_s = _begun_s(inner.paths[0]), _begun_s(outer.paths[0])
    if begun_s is None or from_s is None:
        return True
    return from_s - _SLACK_S <= begun_s <= (outer.modified_s or begun_s) + _SLACK_S


def _begun_s(path: str) -> int | None:
    """When an event file was begun: seconds since the epoch in its name."""
    found = _BEGUN.search(Path(path).name)
    return int(found[1]) if found else None


def titled_part(title: str) -> str:
    """The part that a W&B run is called after, as in `grpo_trainer`; empty for a whole run."""
    name, _, last = title.rpartition("_")
    return last if name and last in _ROLES else ""


def _role_spot(path: str, titles: dict[str, str]) -> Spot | None:
    """A part by the name of its file, its folder, or its W&B run."""
    where = Path(path)
    title = titles.get(path, "")
    if part := titled_part(title):
        return Spot(home_of(where.parent) / title.removesuffix(f"_{part}"), part)
    stem = Path(bare_name(where.name)).stem
    if stem in _ROLES and "tfevents" not in where.name:
        return Spot(home_of(where.parent), stem)
    folder = where.parent
    if folder.name in _ROLES or (folder.parent.name == "tensorboard" and folder.parent.parent.name == "monitor"):
        return Spot(home_of(folder.parent), folder.name)
    return None
