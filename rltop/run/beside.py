"""Ranges of metrics, steps of checkpoints and console logs, from the files beside a run.

Three files declare ranges: `ranges.json`, a file for this alone; the settings that W&B
keeps as `config.yaml`, of which only the list of environments is read; and W&B's
`wandb-summary.json`, in which Telescope puts what environments declare.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from rltop.catalog.ranges import MAX_DECLARED, NONE, Range, Ranges, of_environments, range_of
from rltop.files import names_in, open_regular
from rltop.model.table_rows import is_log, split_member
from rltop.regex import regex
from rltop.run.found import LOG_FOLDERS

SIDECAR = "ranges.json"
MAX_BYTES = 4 * 1024 * 1024
_SETTING = regex(r"(name|reward_min|reward_max)\s*:\s*(.*?)\s*(?:\s#.*)?$")
_ENVIRONMENTS = regex(r"(\s*)environments\s*:\s*(?:#.*)?$")


def read_ranges(path: str, note: Callable[[str, str], None]) -> Ranges:
    """What is declared beside a run; nothing, where nothing is.

    Args:
        path: the run's file, or the folder that is followed as one.
        note: told the path and the reason of a file that cannot be used.
    """
    where = Path(path)
    home = where if where.is_dir() else where.parent
    found: dict[str, Range] = {}
    inner = home / "files"
    for folder in (home, inner) if inner.is_dir() else (home,):
        for name, read in _READERS:
            file = folder / name
            try:
                if not file.is_file():
                    continue
                if file.stat().st_size > MAX_BYTES:
                    raise ValueError(f"larger than {MAX_BYTES} bytes")
                found |= read(file.read_text("utf-8", errors="replace"))
            except OSError as error:
                note(str(file), error.strerror or "cannot be read")
            except (ValueError, RecursionError) as error:
                note(str(file), f"ranges not read: {error}")
    return Ranges(found) if found else NONE


def _sidecar(text: str) -> dict[str, Range]:
    """`{"key or pattern": [low, high], …}`, and `environments` as in Telescope's settings."""
    declared = json.loads(text)
    if not isinstance(declared, dict):
        raise ValueError('expected {"key": [low, high], …}')
    found = of_environments(_listed(declared.pop("environments", None)))
    for key, value in list(declared.items())[:MAX_DECLARED]:
        each = range_of(value)
        if each is None:
            raise ValueError(f"{key!r} is not [low, high] with low below high")
        found[key] = each
    return found


def _summary(text: str) -> dict[str, Range]:
    """What environments declare, as text within the summary."""
    summary = json.loads(text)
    details = summary.get("env_details") if isinstance(summary, Mapping) else None
    return of_environments(_listed(json.loads(details) if isinstance(details, str) else details))


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _settings(text: str) -> dict[str, Range]:
    """The environments of a settings file, by its indentation: a list of names and numbers needs no more of YAML."""
    return of_environments(_environments(text.splitlines()))


def _environments(lines: Iterable[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    indent = item_indent = -1
    for line in lines:
        begin = _ENVIRONMENTS.match(line)
        if begin is not None and indent < 0:
            indent = len(begin[1])
            continue
        if indent < 0 or not line.strip() or line.lstrip().startswith("#"):
            continue
        depth, text = len(line) - len(line.lstrip()), line.strip()
        if depth < indent or (depth == indent and not text.startswith("- ")):
            indent = item_indent = -1
            continue
        if text.startswith("- ") and item_indent in (-1, depth):
            item_indent = depth
            found.append({})
            depth, text = depth + 2, text[2:].strip()
        setting = _SETTING.match(text)
        if setting is not None and found and depth == item_indent + 2:
            found[-1][setting[1]] = _scalar(setting[2])
    return found


def _scalar(text: str) -> object:
    text = text.strip("\"'")
    try:
        return float(text)
    except ValueError:
        return text


_READERS: tuple[tuple[str, Callable[[str], dict[str, Range]]], ...] = (
    ("config.yaml", _settings),
    ("wandb-summary.json", _summary),
    (SIDECAR, _sidecar),
)
"""By name; what comes later wins."""


_NAME = regex(r"^(?:checkpoint|ckpt|global_?step|step|iter|iteration)[-_=]?0*(\d{1,12})(?:$|[-_.])", re.IGNORECASE)
_FOLDERS = ("checkpoints", "checkpoint", "ckpts", "ckpt", "weights")
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
        for place in (root, *(root / name for name in _FOLDERS)):
            found.update(_steps_in(place))
    return tuple(sorted(found))


def _steps_in(folder: Path) -> list[int]:
    names = names_in(folder)
    found = [int(match[1]) for name in names if not name.endswith(_NO_WEIGHTS) and (match := _NAME.match(name))]
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
_INNER = ("files", "logs", "log")


def logs_beside(path: str) -> list[str]:
    """Files beside a run that look like its console log, the likeliest first; only regular files.

    The run's own file, if it is one; then a file of its name; then the newest. At most `MOST_LOGS`.
    """
    member = split_member(path)
    own = Path(path if member is None else member[0]).absolute()
    home = own if own.is_dir() else own.parent
    folders = [home, *(home / name for name in _INNER)]
    if home.name.lower() in LOG_FOLDERS:
        folders.append(home.parent)
    elif home.parent.name.lower() in LOG_FOLDERS:
        folders.append(home.parent.parent)
    found = {str(file): seen for folder in folders for file, seen in _candidates(folder)}
    stem = own.name.split(".")[0]

    def unlikely(file: str) -> tuple[bool, bool, int]:
        return file != str(own), Path(file).name.split(".")[0] != stem, -found[file].st_mtime_ns

    return sorted(found, key=unlikely)[:MOST_LOGS]


def _candidates(folder: Path) -> Iterable[tuple[Path, os.stat_result]]:
    for name in names_in(folder):
        if is_log(name) and not _NO_LOG.fullmatch(name):
            try:
                seen = (folder / name).stat()
            except OSError:
                continue
            if stat.S_ISREG(seen.st_mode) and seen.st_size:
                yield folder / name, seen
