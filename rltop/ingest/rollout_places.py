"""Where the rollouts of a run lie: beside its metrics, or where its settings say.

A bounded look: the run's folder and those above it that only hold logs, by the
names that trainers and people give to such files. Nothing is indexed here.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from rltop.decode.rollout_kinds import dumps_in, holds_answers
from rltop.decode.rollouts import RolloutSource
from rltop.errors import SourceError
from rltop.sources.filesystem import open_regular

MOST_NAMES = 4096
"""Names looked at in one folder."""
MAX_DUMPS = 64
MOST_PATH_CHARS = 4096
"""What the system takes for a path at most; of a pattern that is longer nothing can come either."""
_SHOWN_CHARS = 80
_HEAD_BYTES = 256 * 1024
_MOST_UP = 4
_FILE = re.compile(
    r"^(?:\w+[-_])?(?:rollouts?|completions?|samples|generations|experiences?|trajectories|explorer_output)"
    r"(?:[-_.].*)?\.(?:jsonl|ndjson|db|sqlite3?)$"
)
_FOLDERS = (
    "rollouts", "rollout", "rollout_data", "rollout_data_dir", "rollout_dump", "rollout_dumps", "completions",
    "generations", "buffer",
)  # fmt: skip
_LOG_FOLDERS = frozenset({"log", "logs", "metrics", "tb", "tensorboard", "monitor", "explorer", "trainer", "files"})
"""Folders that a run keeps its logs in, with what else it writes one level up."""
_SETTINGS = (".hydra/config.yaml", "config.yaml")
_SAID = re.compile(rb"rollout_data_dir['\"]?\s*[:=]\s*['\"]?([^'\",\s}\]]+)")
_NOTHING = frozenset({"null", "none", ""})


def given_dumps(pattern: str) -> tuple[list[RolloutSource], list[str]]:
    """The dumps that a person named: a file, a folder or a glob; and why a part of it is none."""
    if len(pattern) > MOST_PATH_CHARS:
        return [], [f"a path of {len(pattern):,} characters: {pattern[:_SHOWN_CHARS]}…"]
    path = os.path.expanduser(pattern)  # noqa: PTH111 - a pattern is no path
    is_one = os.path.exists(path) or not glob.has_magic(path)  # noqa: PTH110 - a Path raises where it may not look
    paths = [path] if is_one else sorted(glob.glob(path, recursive=True))  # noqa: PTH207
    if not paths:
        return [], [f"nothing matches {pattern}"]
    found: list[RolloutSource] = []
    notes: list[str] = []
    for each in paths[:MAX_DUMPS]:
        try:
            found += dumps_in(each)
        except SourceError as error:
            notes.append(f"{error.message}: {error.hint}")
        except OSError as error:
            notes.append(f"{each}: {error.strerror or 'cannot be read'}")
    known = {source.path + str(getattr(source, "prefix", "")): source for source in found}
    return list(known.values()), notes


def dumps_beside(path: str) -> list[RolloutSource]:
    """The dumps that belong to a run by where they lie: the first place that has any.

    Args:
        path: the run's file, or the folder that is followed as one.
    """
    if path == "-":
        return []
    said = _said_by(Path(path))
    candidates = [*([said] if said is not None else []), *_candidates(Path(path).absolute())]
    for each in candidates:
        try:
            found = dumps_in(str(each)) if _is_folder(each) or holds_answers(each) else []
        except (OSError, SourceError):
            continue
        if found:
            return found
    return []


def _is_folder(path: Path) -> bool:
    """Is it a folder, as far as we may know?"""
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises where it may not look


def _homes(path: Path) -> Iterator[Path]:
    """The folder of a run and those above it for as long as they are only there for logs."""
    home = path if _is_folder(path) else path.parent
    for _ in range(_MOST_UP):
        yield home
        if home.name.lower() not in _LOG_FOLDERS and not home.name.startswith(("checkpoint-", "run-")):
            return
        home = home.parent


def _candidates(path: Path) -> Iterator[Path]:
    for home in _homes(path):
        for archives in (home, home / "files"):
            if _is_folder(archives / "steps"):
                yield archives
        names = _names(home)
        own = [name for name in names if _FILE.match(name) and home / name != path]
        # Of several runs in one folder each has a dump that begins with its name.
        yield from (home / name for name in sorted(own, key=lambda name: not name.startswith(path.stem)))
        yield from (home / name for name in _FOLDERS if name in names)


def _names(folder: Path) -> set[str]:
    try:
        with os.scandir(folder) as entries:
            return {entry.name for entry in islice(entries, MOST_NAMES)}
    except OSError:
        return set()


def _said_by(path: Path) -> Path | None:
    """The folder that the run's log or its settings name as the place for its rollouts."""
    for home in _homes(path.absolute()):
        is_file = os.path.isfile(path)  # noqa: PTH113 - as above
        for file in (path, *(home / name for name in _SETTINGS)) if is_file else ():
            if file.suffix not in (".log", ".out", ".txt", ".yaml", ""):
                continue
            try:
                with open_regular(file) as opened:
                    match = _SAID.search(opened.read(_HEAD_BYTES))
            except OSError:
                continue
            if match is None or match[1].decode("utf-8", "replace").lower() in _NOTHING:
                continue
            folder = Path(match[1].decode("utf-8", "replace"))
            for place in (folder, home / folder, home.parent / folder):
                if _is_folder(place):
                    return place
    return None
