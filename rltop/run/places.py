"""Where the files of a run lie, by the names that trainers and people give to them: the one list of such names.

Its own folder above those that a trainer makes in it; its logs, checkpoints, settings and dumped completions in these
and in the folders beside. Everything is looked for in a bounded number of folders, and nothing but a note of the
newest checkpoint is opened here.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from rltop.files import names_in, open_regular
from rltop.model.table_rows import is_log, split_member
from rltop.regex import regex

LOG_FOLDERS = frozenset({"log", "logs", "metrics", "tb", "tensorboard", "runs"})
"""Folders that a run keeps its metrics in, with checkpoints and its console log one level up."""
INNER_FOLDERS = frozenset(
    {"tb", "tensorboard", "runs", "logs", "log", "wandb", "files", "latest", "worker_logs", "monitor", "trace"}
)
_DATED = regex(r"[A-Z][a-z]{2}\d{2}_\d{2}-\d{2}-\d{2}_")
"""What transformers calls the folder of an event file: date and machine, below `runs`."""
_INNER_PATTERN = regex(
    rf"checkpoint-\d+$|(offline-)?run-\d{{8}}_\d{{6}}-.+$|{_DATED.pattern}|latest-run$|\d{{1,3}}(\.\d{{1,3}}){{3}}$"
)
"""Folders that trainers make inside a run's own: checkpoints, W&B runs, dated ones (transformers), nodes (Trinity)."""
_CHECKPOINT_FOLDERS = ("checkpoints", "checkpoint", "ckpts", "ckpt", "weights")
_SILENT_FOLDERS = LOG_FOLDERS | {"files"}
"""Folders whose names say nothing of the run."""


def home_of(folder: Path) -> Path:
    """The run's own folder, above those that a trainer makes in it."""
    while folder.name and (
        folder.name in INNER_FOLDERS
        or _INNER_PATTERN.match(folder.name)
        or (folder.name == "all" and folder.parent.name in INNER_FOLDERS)
    ):
        folder = folder.parent
    return folder


def says_nothing(folder: Path) -> bool:
    if folder.name.startswith("checkpoint-"):
        return True
    is_silent = folder.name.lower() in _SILENT_FOLDERS or folder.name.lower() in _CHECKPOINT_FOLDERS
    return is_silent or (folder.parent.name == "runs" and bool(_DATED.match(folder.name)))


_CHECKPOINT = regex(
    r"^(?:checkpoint|ckpt|global_?step|step|iter|iteration)[-_=]?0*(\d{1,12})(?:$|[-_.])", re.IGNORECASE
)
_NO_WEIGHTS = (".json", ".jsonl", ".csv", ".txt", ".log", ".md", ".yaml", ".parquet", ".png", ".html", ".gz", ".tmp")
"""Ends of names of what is dumped by step and nobody can go back to."""
_STATUS, _LARGEST_STATUS = "latest_checkpoint_status.json", 64 * 1024
"""What NeMo-RL writes for a watchdog once a checkpoint is complete, wherever that lies."""


def checkpoint_steps(path: str) -> tuple[int, ...]:
    """Steps of the checkpoints that lie beside the metric file `path`, ascending.

    Looks in its folder, in the usual folders for checkpoints there, and one level
    up where the folder is one for logs. What cannot be listed has none.
    """
    folder = Path(path).absolute().parent
    roots = [folder, folder.parent] if folder.name.lower() in LOG_FOLDERS else [folder]
    found: set[int] = set()
    for root in roots:
        for place in (root, *(root / name for name in _CHECKPOINT_FOLDERS)):
            found.update(_steps_in(place))
    return tuple(sorted(found))


_STATE = "trainer_state.json"


def state_beside(path: str) -> Path | None:
    """What transformers keeps with its newest checkpoint beside a metric file, found as `checkpoint_steps` are."""
    folder = Path(path).absolute().parent
    for root in [folder, folder.parent] if folder.name.lower() in LOG_FOLDERS else [folder]:
        names = names_in(root)
        steps = [int(name[11:]) for name in names if name.startswith("checkpoint-") and name[11:].isdecimal()]
        if steps or _STATE in names:
            return root / f"checkpoint-{max(steps)}" / _STATE if steps else root / _STATE
    return None


def _steps_in(folder: Path) -> list[int]:
    names = names_in(folder)
    found = [int(match[1]) for name in names if not name.endswith(_NO_WEIGHTS) and (match := _CHECKPOINT.match(name))]
    if _STATUS in names:
        try:
            with open_regular(folder / _STATUS) as file:
                told = json.loads(file.read(_LARGEST_STATUS) or b"")["last_checkpoint_step"]
        except (OSError, ValueError, KeyError, TypeError):
            return found
        found += [told] if isinstance(told, int) and not isinstance(told, bool) else []
    return found


MOST_LOGS = 8
_NO_LOG = regex(r"debug(?:-[\w-]+|\.[\w-]+)?\.log|events\.out.*|.*\.tfevents\..*", re.IGNORECASE)
"""What W&B writes for itself, and event files of TensorBoard."""
_INNER_LOGS = ("files", "logs", "log")


def logs_beside(path: str) -> list[str]:
    """Files beside a run that look like its console log, the likeliest first; only regular files.

    The run's own file, if it is one; then a file of its name; then the newest. At most `MOST_LOGS`.
    """
    member = split_member(path)
    own = Path(path if member is None else member[0]).absolute()
    home = own if own.is_dir() else own.parent
    folders = [home, *(home / name for name in _INNER_LOGS)]
    if home.name.lower() in LOG_FOLDERS:
        folders.append(home.parent)
    elif home.parent.name.lower() in LOG_FOLDERS:
        folders.append(home.parent.parent)
    found = {str(file): seen for folder in folders for file, seen in _log_files(folder)}
    stem = own.name.split(".")[0]

    def unlikely(file: str) -> tuple[bool, bool, int]:
        return file != str(own), Path(file).name.split(".")[0] != stem, -found[file].st_mtime_ns

    return sorted(found, key=unlikely)[:MOST_LOGS]


def _log_files(folder: Path) -> Iterable[tuple[Path, os.stat_result]]:
    for name in names_in(folder):
        if is_log(name) and not _NO_LOG.fullmatch(name):
            try:
                seen = (folder / name).stat()
            except OSError:
                continue
            if stat.S_ISREG(seen.st_mode) and seen.st_size:
                yield folder / name, seen


_SETTINGS = (
    ".hydra/config.yaml", ".hydra/overrides.yaml", "config.yaml", "config.yml", "config.json", "config.toml",
    "training_args.json", "training_args.yaml", "args.json", "args.yaml", "args.yml", "params.json", "hparams.yaml",
    "torchtune_config.yaml", "trainer_state.json", "ranges.json", "files/config.yaml",
)  # fmt: skip
"""What is looked for in a folder; what comes first wins where two files set the same."""
NO_RUNS = frozenset(_SETTINGS) - {"trainer_state.json"}
"""Names of settings alone: on one line they look like a row of metrics."""
CONSOLE_LOGS = (".log", ".out", ".err", ".txt")
"""The run's own file, if it is one: veRL prints its settings there."""
_EVENT_FOLDERS = ("", "tb", "tensorboard", "runs", "logs")
_MOST_UP = 4


def settings_files(where: Path) -> Iterator[Path]:
    """The files that may hold settings, the nearest first."""
    if where.suffix == ".wandb":
        yield where
    folder = where if where.is_dir() else where.absolute().parent
    home = home_of(folder)
    for each in islice(_upward(folder, home), _MOST_UP):
        there = set(names_in(each))
        yield from (each / name for name in _SETTINGS if name.partition("/")[0] in there)
    if where.suffix in CONSOLE_LOGS:
        yield where
    yield from _of_wandb(home / "wandb")
    for name in _EVENT_FOLDERS:
        events = [one for one in names_in(home / name) if "tfevents" in one]
        if events:
            yield home / name / min(events)
            return


def _upward(folder: Path, home: Path) -> Iterator[Path]:
    yield folder
    while folder not in (home, folder.parent):
        folder = folder.parent
        yield folder


def _of_wandb(folder: Path) -> Iterator[Path]:
    """The only run that W&B keeps here; of several none can be said to be the one."""
    runs = [name for name in names_in(folder) if name.startswith(("run-", "offline-run-"))]
    if len(runs) == 1:
        yield folder / runs[0] / "files" / "config.yaml"
        yield from (folder / runs[0] / name for name in names_in(folder / runs[0]) if name.endswith(".wandb"))


_DUMP = regex(
    r"^(?:\w+[-_])?(?:rollouts?|completions?|samples|generations|experiences?|trajectories|explorer_output)"
    r"(?:[-_.].*)?\.(?:jsonl|ndjson|db|sqlite3?)$"
)
_STEP_DUMP = regex(r"train_data_step\d+\.jsonl$")
"""NeMo-RL's, which lie beside the folder of the metrics."""
_DUMP_FOLDERS = (
    "rollouts", "rollout", "rollout_data", "rollout_data_dir", "rollout_dump", "rollout_dumps", "completions",
    "generations", "buffer",
)  # fmt: skip
_DUMP_LOG_FOLDERS = _SILENT_FOLDERS | {"monitor", "explorer", "trainer", "wandb", "trackio"}
"""Folders that a run keeps its logs in, with what else it writes one level up."""
_DUMP_INNER = regex(rf"checkpoint-|run-|{_INNER_PATTERN.pattern}")


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises where it may not look


def homes_of(path: Path) -> Iterator[Path]:
    """The folder of a run and those above it for as long as they are only there for logs."""
    home = path if is_folder(path) else path.parent
    for _ in range(_MOST_UP):
        yield home
        if home.name.lower() not in _DUMP_LOG_FOLDERS and not _DUMP_INNER.match(home.name):
            return
        home = home.parent


def dump_places(path: Path) -> Iterator[Path]:
    """Files and folders in which dumped completions of a run may lie, the likeliest first."""
    if path.name in _DUMP_FOLDERS and is_folder(path):
        yield path
    for home in homes_of(path):
        for archives in (home, home / "files"):
            if is_folder(archives / "steps"):
                yield archives
        names = names_in(home)
        if any(_STEP_DUMP.match(name) for name in names):
            yield home
        own = [name for name in names if _DUMP.match(name) and home / name != path]
        # Of several runs in one folder each has a dump that begins with its name.
        yield from (home / name for name in sorted(own, key=lambda name: not name.startswith(path.stem)))
        yield from (home / name for name in _DUMP_FOLDERS if name in names)
