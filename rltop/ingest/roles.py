"""Which stream of which run a file is, by where it stands.

Trainers whose parts count their own steps give each part a file of its own: a
folder or a file named after the part, one folder per rank, a W&B run called
`<name>_<part>`. Owns these conventions; opens nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from rltop.decode.kinds import TENSORBOARD, bare_name
from rltop.ingest.found import Found
from rltop.structs import NamedTuple

INNER_FOLDERS = frozenset(
    {"tb", "tensorboard", "runs", "logs", "log", "wandb", "files", "latest", "worker_logs", "monitor", "trace"}
)
INNER_PATTERN = re.compile(
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
_RANK_FOLDER = re.compile(r"rank[_-]?(\d+)$", re.IGNORECASE)
_BEGUN = re.compile(r"tfevents\.(\d{9,11})\.")
_SLACK_S = 60
_RANK_STEM = re.compile(r"(.*?)[._-]?rank[_-]?(\d+)$", re.IGNORECASE)


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
        if sure is not None:
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
