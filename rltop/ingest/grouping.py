"""Files → runs: which files of a directory are one and the same run.

A run directory often holds a run several times over: rows as JSON lines, the
same as TensorBoard events, and a checkpoint's `trainer_state.json`. It is shown
once, from the file that says most and soonest; the others are named as passed
over. Rotated history and one event file per start are one stream.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from rltop.decode.kinds import CONSOLE, CSV, JSONL, TELESCOPE, TENSORBOARD, WANDB, WHOLE_JSON, bare_name
from rltop.ingest.found import Found, name_of

_RANK = {kind.name: rank for rank, kind in enumerate((JSONL, TELESCOPE, TENSORBOARD, CSV, WANDB, CONSOLE, WHOLE_JSON))}
_INNER_FOLDERS = frozenset({"tb", "tensorboard", "runs", "logs", "log", "wandb", "files", "latest", "worker_logs"})
_INNER_PATTERN = re.compile(r"checkpoint-\d+$|(offline-)?run-\d{8}_\d{6}-\w+$|[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_")
"""Folders that trainers make inside a run's own: checkpoints, W&B runs, the dated ones of transformers."""


@dataclass(slots=True)
class Grouped:
    """Runs, newest first, and the files that say the same again."""

    runs: list[Found] = field(default_factory=list)
    repeated: list[tuple[str, str]] = field(default_factory=list)


def group(files: Iterable[Found]) -> Grouped:
    """Make runs of the metric files below one directory."""
    grouped = Grouped()
    by_home: dict[Path, list[Found]] = {}
    for each in _sequences(files):
        by_home.setdefault(_home(Path(each.path).parent), []).append(each)
    for streams in by_home.values():
        best = min(_rank(each) for each in streams)
        kept = [each for each in streams if _rank(each) == best]
        if best == _RANK[WHOLE_JSON.name]:
            kept = [max(kept, key=lambda each: (each.modified_s or 0.0, each.path))]
        grouped.runs += kept
        grouped.repeated += [(each.path, f"the same run as {kept[0].path}") for each in streams if each not in kept]
    grouped.runs.sort(key=lambda found: (-(found.modified_s or 0.0), found.path))
    return grouped


def _rank(found: Found) -> int:
    return _RANK[found.kind.name] if found.kind is not None else len(_RANK)


def _home(folder: Path) -> Path:
    """The run's own folder, above those that a trainer makes in it."""
    while folder.name in _INNER_FOLDERS or _INNER_PATTERN.match(folder.name):
        folder = folder.parent
    return folder


def _sequences(files: Iterable[Found]) -> list[Found]:
    """Join the files of one stream; the newest one comes last and is followed."""
    parts: dict[tuple[Path, str], list[Found]] = {}
    archives: dict[Path, list[Found]] = {}
    for each in files:
        path = Path(each.path)
        if each.kind is TELESCOPE:
            archives.setdefault(path.parent.parent, []).append(each)
            continue
        name = "tfevents" if each.kind is TENSORBOARD else bare_name(path.name)
        parts.setdefault((path.parent, name), []).append(each)
    return [*map(join, parts.values()), *(_folder(folder, found) for folder, found in archives.items())]


def _folder(folder: Path, files: list[Found]) -> Found:
    """The folder above archives that are written anew: it is followed as one stream."""
    size = sum(each.size for each in files)
    modified_s = max((each.modified_s or 0.0 for each in files), default=None)
    return Found(str(folder), name_of(str(folder / "metrics")), size, modified_s, TELESCOPE)


def join(files: list[Found]) -> Found:
    """One stream of the files of one name: event files by name, rotated ones by number."""
    ordered = sorted(files, key=lambda each: (-_rotation(each.path), Path(each.path).name))
    *earlier, last = ordered
    if not earlier:
        return last
    name = name_of(last.path) if last.kind is not TENSORBOARD else name_of(str(Path(last.path).parent / "metrics"))
    return replace(last, name=name, earlier=tuple(each.path for each in earlier))


def _rotation(path: str) -> int:
    """How often a file was moved out of the way: 2 for `x.jsonl.2.gz`, 0 for the one that is written."""
    name = Path(path).name
    number = re.search(r"\.(\d+)(\.(gz|bz2|zst))?$", name)
    return int(number[1]) if number and "tfevents" not in name else 0
