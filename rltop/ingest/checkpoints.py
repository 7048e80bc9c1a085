"""Checkpoints beside a metric file: of which steps there is something to go back to.

Names alone are read, never contents; a checkpoint is a file or folder that
trainers call `checkpoint-250`, `global_step_250`, `step_250`, `iter_0000250` and the like.
"""

from __future__ import annotations

import os
import re
from itertools import islice
from pathlib import Path

MOST_NAMES = 4096
"""Names looked at in one folder: a rollout dump of a million files is no place for checkpoints."""
_NAME = re.compile(r"^(?:checkpoint|ckpt|global_?step|step|iter|iteration)[-_=]?0*(\d{1,12})(?:$|[-_.])", re.IGNORECASE)
_FOLDERS = ("checkpoints", "checkpoint", "ckpts", "ckpt", "weights")
_NO_WEIGHTS = (".json", ".jsonl", ".csv", ".txt", ".log", ".md", ".yaml", ".parquet", ".png", ".html", ".gz", ".tmp")
"""Ends of names of what is dumped by step and nobody can go back to."""
_LOG_FOLDERS = frozenset({"log", "logs", "metrics", "tb", "tensorboard", "runs"})
"""Folders that a run keeps its logs in, with the checkpoints one level up."""


def checkpoint_steps(path: str) -> tuple[int, ...]:
    """Steps of the checkpoints that lie beside the metric file `path`, ascending.

    Looks in its folder, in the usual folders for checkpoints there, and one level
    up where the folder is one for logs. What cannot be listed has none.
    """
    folder = Path(path).absolute().parent
    roots = [folder, folder.parent] if folder.name.lower() in _LOG_FOLDERS else [folder]
    found: set[int] = set()
    for root in roots:
        for place in (root, *(root / name for name in _FOLDERS)):
            found.update(_steps_in(place))
    return tuple(sorted(found))


def _steps_in(folder: Path) -> list[int]:
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in islice(entries, MOST_NAMES)]
    except OSError:
        return []
    return [int(match[1]) for name in names if not name.endswith(_NO_WEIGHTS) and (match := _NAME.match(name))]
