"""What is found of a run, and where its files lie, by the names that trainers and people give to them.

Its own folder above those that a trainer makes in it; its logs, checkpoints, settings and dumped completions in these
and in the folders beside. Everything is looked for in a bounded number of folders, and nothing but a note of the
newest checkpoint is opened here.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from rltop.catalog.metrics import MAX_DECLARED, NO_RANGES, Range, Ranges, of_environments, range_of
from rltop.files import first_bytes, names_in
from rltop.formats.kinds import Kind, bare_name
from rltop.model import Label
from rltop.model.table_rows import is_log, split_member
from rltop.regex import regex
from rltop.structs import NamedTuple

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


def own_file(path: str) -> Path:
    """The file or folder that a run is read from, without the name of the run in it."""
    member = split_member(path)
    return Path(path if member is None else member[0])


def is_folder(path: Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 - a Path raises where it may not look


def folder_of(path: str | Path) -> Path:
    """The folder in which a run's own file lies, or which it is itself."""
    own = own_file(path) if isinstance(path, str) else path
    return own if is_folder(own) else own.absolute().parent


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
    if folder.name.startswith("checkpoint-") or _CHECKPOINT.fullmatch(folder.name):
        return True
    is_silent = folder.name.lower() in _SILENT_FOLDERS or folder.name.lower() in _CHECKPOINT_FOLDERS
    return is_silent or (folder.parent.name == "runs" and bool(_DATED.match(folder.name)))


_CHECKPOINT = regex(
    r"^(?:checkpoint|ckpt|global_?step|step|iter|iteration)[-_=]?0*(\d{1,12})(?:$|[-_.])", re.IGNORECASE
)
_NO_WEIGHTS = (".json", ".jsonl", ".csv", ".txt", ".log", ".md", ".yaml", ".parquet", ".png", ".html", ".gz", ".tmp")
"""Ends of names of what is dumped by step and nobody can go back to."""


def checkpointed_in(folder: Path) -> Path | None:
    """The folder of the run of whose checkpoints `folder` is one by its name; None where it is none."""
    if not _CHECKPOINT.fullmatch(folder.name):
        return None
    above = folder.parent
    return above.parent if above.name.lower() in _CHECKPOINT_FOLDERS else above


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


STATE = "trainer_state.json"


def state_beside(path: str) -> Path | None:
    """What transformers keeps with its newest checkpoint beside a metric file, found as `checkpoint_steps` are."""
    folder = Path(path).absolute().parent
    for root in [folder, folder.parent] if folder.name.lower() in LOG_FOLDERS else [folder]:
        names = names_in(root)
        steps = [int(name[11:]) for name in names if name.startswith("checkpoint-") and name[11:].isdecimal()]
        if steps or STATE in names:
            return root / f"checkpoint-{max(steps)}" / STATE if steps else root / STATE
    return None


def _steps_in(folder: Path) -> list[int]:
    names = names_in(folder)
    found = [int(match[1]) for name in names if not name.endswith(_NO_WEIGHTS) and (match := _CHECKPOINT.match(name))]
    if _STATUS in names:
        try:
            told = json.loads(first_bytes(folder / _STATUS, _LARGEST_STATUS))["last_checkpoint_step"]
        except (OSError, ValueError, KeyError, TypeError):
            return found
        found += [told] if isinstance(told, int) and not isinstance(told, bool) else []
    return found


MOST_LOGS = 8
_NO_LOG = regex(r"debug(?:-[\w-]+|\.[\w-]+)?\.log|events\.out.*|.*\.tfevents\..*", re.IGNORECASE)
"""What W&B writes for itself, and event files of TensorBoard."""
_OF_OTHERS = regex(
    r"(?:pytest|tests?(?![-_.]?(?:run|train))|build|make|cmake|pip|conda|install|setup|download|convert|eval\w*"
    r"|tensorboard|jupyter)(?:[-_.\d].*)?\.(?:log|out|err|txt)",
    re.IGNORECASE,
)
"""What other programs print, by what it is called, unless it is called as the run is; `test_run.log` is of a run."""
_INNER_LOGS = ("files", "logs", "log")


def logs_beside(path: str) -> list[str]:
    """Files beside a run that look like its console log, the likeliest first; only regular files.

    The run's own file, if it is one; then a file of its name; then the newest. At most `MOST_LOGS`.
    """
    own, home = own_file(path).absolute(), folder_of(path)
    folders = [home, *(home / name for name in _INNER_LOGS)]
    if home.name.lower() in LOG_FOLDERS:
        folders.append(home.parent)
    elif home.parent.name.lower() in LOG_FOLDERS:
        folders.append(home.parent.parent)
    stem = own.name.split(".")[0]
    found = {str(file): seen for folder in folders for file, seen in _log_files(folder, stem)}

    def unlikely(file: str) -> tuple[bool, bool, int]:
        return file != str(own), Path(file).name.split(".")[0] != stem, -found[file].st_mtime_ns

    return sorted(found, key=unlikely)[:MOST_LOGS]


def _log_files(folder: Path, stem: str) -> Iterable[tuple[Path, os.stat_result]]:
    for name in names_in(folder):
        is_of_other = _OF_OTHERS.fullmatch(name) and name.split(".")[0] != stem
        if is_log(name) and not (is_of_other or _NO_LOG.fullmatch(name)):
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
    folder = folder_of(where)
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


def homes_of(path: Path) -> Iterator[Path]:
    """The folder of a run and those above it for as long as they are only there for logs."""
    home = folder_of(path)
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
    ranges: Ranges = NO_RANGES
    awaits: str = ""
    copies: tuple[str, ...] = ()
    total_steps: int | None = None

    @property
    def paths(self) -> tuple[str, ...]:
        """Every file of this stream, oldest first."""
        return (*self.earlier, self.path)


_COMMON_NAMES = frozenset(
    {"metrics", "training_history", "train_history", "trainer_log", "logging", "history", "log", "train", "metric",
     "trainer_state", "progress", "output", "result", "stdout", "events"}
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
    """The same runs; those of one name with the nearest part of their paths besides that no two of them share.

    Where two share every single one, with as many of the nearest folders as it takes.
    """
    by_name: dict[str, list[Found]] = {}
    for each in found:
        by_name.setdefault(each.name.raw, []).append(each)
    names: dict[str, Label] = {}
    for name, same in by_name.items():
        columns = zip(*(_parts(each.path) for each in same), strict=False) if len(same) > 1 else ()
        parts = next((parts for parts in columns if len(set(parts)) == len(same)), ())
        told = [_with(name, part, each.path) for each, part in zip(same, parts, strict=False)]
        for depth in range(2, _DEEPEST_NAME) if len(same) > 1 and not told else ():
            told = [_below(name, each.path, depth) for each in same]
            if len(set(told)) == len(same):
                break
        names.update({each.path: Label.of(words) for each, words in zip(same, told, strict=False)})
    return [each._replace(name=names.get(each.path, each.name)) for each in found]


_DEEPEST_NAME = 6


def _below(name: str, path: str, depth: int) -> str:
    folders = [folder.name for folder in whole_path(path).parents][:depth]
    return "/".join([*reversed(folders), *([] if folders[0] == name else [name])])


def _parts(path: str) -> Iterable[str]:
    where = whole_path(path)
    return *(folder.name for folder in where.parents), where.name


def _with(name: str, part: str, path: str) -> str:
    parts = whole_path(path).parts
    is_inside = name in parts and part in parts and parts.index(part) > parts.index(name)
    return f"{name}/{part}" if is_inside else f"{part}/{name}"


WANDB_PARTS = frozenset({"explorer", "trainer"})
"""Parts whose steps stand under `<part>/step` where they share one W&B run (Trinity's `shared_run`)."""


_RANGES_FILE = "ranges.json"
_MOST_RANGE_BYTES = 4 * 1024 * 1024
_SETTING = regex(r"(name|reward_min|reward_max)\s*:\s*(.*?)\s*(?:\s#.*)?$")
_ENVIRONMENTS = regex(r"(\s*)environments\s*:\s*(?:#.*)?$")


def read_ranges(path: str, note: Callable[[str, str], None]) -> Ranges:
    """What is declared beside a run; nothing, where nothing is.

    Args:
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
                if file.stat().st_size > _MOST_RANGE_BYTES:
                    raise ValueError(f"larger than {_MOST_RANGE_BYTES} bytes")
                found |= read(file.read_text("utf-8", errors="replace"))
            except OSError as error:
                note(str(file), error.strerror or "cannot be read")
            except (ValueError, RecursionError) as error:
                note(str(file), f"ranges not read: {error}")
    return Ranges(found) if found else NO_RANGES


def _sidecar(text: str) -> dict[str, Range]:
    declared = json.loads(text)
    if not isinstance(declared, dict):
        raise ValueError('expected {"key": [low, high], …}')
    found = of_environments(_as_list(declared.pop("environments", None)))
    for key, value in list(declared.items())[:MAX_DECLARED]:
        each = range_of(value)
        if each is None:
            raise ValueError(f"{key!r} is not [low, high] with low below high")
        found[key] = each
    return found


def _summary(text: str) -> dict[str, Range]:
    summary = json.loads(text)
    details = summary.get("env_details") if isinstance(summary, Mapping) else None
    return of_environments(_as_list(json.loads(details) if isinstance(details, str) else details))


def _as_list(value: object) -> list[object]:
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
    (_RANGES_FILE, _sidecar),
)
"""By name; what comes later wins."""
