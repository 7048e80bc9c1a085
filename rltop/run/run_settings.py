"""What runs were started with: the files of settings in a run's own folder, read in a thread.

A bounded look by the names that trainers give to such files, in the folder of the
metric file and those above it that belong to the same run. Nothing is written or
executed. A file is read again where it was written since, which is looked for now and then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.clock import Clock, SystemClock
from rltop.errors import DecodeError
from rltop.files import names_in, open_regular
from rltop.model.table_rows import split_member
from rltop.run.found import home_of
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.formats.settings import Value
    from rltop.run.run import Run

_NAMES = (
    ".hydra/config.yaml", ".hydra/overrides.yaml", "config.yaml", "config.yml", "config.json", "config.toml",
    "training_args.json", "training_args.yaml", "args.json", "args.yaml", "args.yml", "params.json", "hparams.yaml",
    "torchtune_config.yaml", "trainer_state.json", "ranges.json", "files/config.yaml",
)  # fmt: skip
"""What is looked for in a folder; what comes first wins where two files set the same."""
_CONSOLE_LOGS = (".log", ".out", ".err", ".txt")
"""The run's own file, if it is one: veRL prints its settings there."""
_EVENT_FOLDERS = ("", "tb", "tensorboard", "runs", "logs")
_MOST_UP = 4

AGAIN_S = 10.0
"""Between two looks at which files there are, at least."""
_LONGEST_S = 300.0
_SHARE = 0.004
"""Part of the time that may be spent on looking."""
_HEAD_BYTES = 256 * 1024
"""Of a log the beginning has the settings: what it grows by later is no reason to read it again."""


__all__ = ["RunSettings", "SettingsFile", "SettingsReader", "settings_beside"]


class SettingsFile(NamedTuple):
    """A file that was read.

    Attributes:
        path: where it is.
        taken: how many settings are from it.
        trouble: why it could not be read; empty otherwise.
    """

    path: str
    taken: int = 0
    trouble: str = ""


class RunSettings(NamedTuple):
    """What a run was started with.

    Attributes:
        values: dotted name → value.
        files: those that were found, in the order in which they were read.
    """

    values: Mapping[str, Value] = {}
    files: Sequence[SettingsFile] = ()

    def find(self, name: str) -> Sequence[str]:
        """The names that a word means: itself, else those that end in it, the shortest first.

        Args:
            name: as typed: `actor.optim.lr`, `optim.lr` or `lr`; a slash is as good as a dot.
        """
        typed = name.casefold().replace("/", ".")
        found = [one for one in self.values if _is_meant(one.casefold().replace("/", "."), typed)]
        return sorted(found, key=lambda one: (one.count("."), len(one)))


def _is_meant(name: str, typed: str) -> bool:
    return name == typed or name.endswith(f".{typed}")


def settings_beside(path: str) -> RunSettings:
    """The settings of the run whose metrics are read from a path; none where none are kept there.

    Args:
        path: a metric file, a folder that is followed as one, or a member of a database.
    """
    from rltop.formats.settings import MAX_BYTES, MAX_SETTINGS, read_settings  # noqa: PLC0415 - not with every page

    values: dict[str, Value] = {}
    files: list[SettingsFile] = []
    member = split_member(path)
    for each in _candidates(Path(path if member is None else member[0])):
        if len(values) >= MAX_SETTINGS:
            break
        try:
            with open_regular(str(each)) as file:
                data = file.read(MAX_BYTES + 1)
            if len(data) > MAX_BYTES and not _is_log(each):
                raise DecodeError(f"larger than {MAX_BYTES >> 20} MiB")
            found = read_settings(each.name, data[:MAX_BYTES])
        except FileNotFoundError:
            continue
        except OSError as error:
            files.append(SettingsFile(str(each), trouble=error.strerror or "cannot be read"))
            continue
        except (DecodeError, ValueError, RecursionError) as error:
            files.append(SettingsFile(str(each), trouble=str(error)))
            continue
        new = {name: value for name, value in found.items() if name not in values}
        values.update(islice(new.items(), MAX_SETTINGS - len(values)))
        if found:
            files.append(SettingsFile(str(each), len(new)))
    return RunSettings(values, tuple(files))


def _is_log(file: Path) -> bool:
    return file.suffix in (".wandb", *_CONSOLE_LOGS) or "tfevents" in file.name


def _written(path: str) -> Sequence[tuple[str, int, int]]:
    """Which files may hold settings, and when they were written last; nothing is read."""
    member = split_member(path)
    found = []
    for each in _candidates(Path(path if member is None else member[0])):
        try:
            seen = each.stat()
        except OSError:
            continue
        is_log = _is_log(each)
        size = min(seen.st_size, _HEAD_BYTES) if is_log else seen.st_size
        found.append((str(each), 0 if is_log else seen.st_mtime_ns, size))
    return found


def _candidates(where: Path) -> Iterator[Path]:
    """The files that may hold settings, the nearest first."""
    if where.suffix == ".wandb":
        yield where
    folder = where if where.is_dir() else where.absolute().parent
    home = home_of(folder)
    for each in islice(_upward(folder, home), _MOST_UP):
        there = set(names_in(each))
        yield from (each / name for name in _NAMES if name.partition("/")[0] in there)
    if where.suffix in _CONSOLE_LOGS:
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


class SettingsReader:
    """Reads the settings of runs one after another, in a thread that nobody waits for.

    Args:
        notify: called when there is something new to show.
        clock: says when to look again.

    Attributes:
        count: how often something new was found.
    """

    def __init__(self, notify: Callable[[], None], clock: Clock | None = None) -> None:
        self.count = 0
        self._notify = notify
        self._clock = clock or SystemClock()
        self._thread: threading.Thread | None = None
        self._seen: dict[str, Sequence[tuple[str, int, int]]] = {}
        self._again_s = 0.0

    def ask(self, runs: Iterable[Run]) -> None:
        """Have the settings read of all runs that they are not known of, or were written of since.

        Args:
            runs: those that are shown; what is only awaited has none.
        """
        if self._thread is not None and self._thread.is_alive():
            return
        there = [run for run in runs if not run.main.is_awaited]
        wanted = [run for run in there if run.settings is None]
        if not wanted and self._clock.monotonic() >= self._again_s:
            wanted = there
        if wanted:
            self._thread = threading.Thread(target=self._read, args=(wanted,), name="settings", daemon=True)
            self._thread.start()

    def join(self, timeout_s: float) -> None:
        """Wait until what was asked for has been read, or for as long as that."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _read(self, runs: Sequence[Run]) -> None:
        begun_s = self._clock.monotonic()
        for run in runs:
            path = run.path.raw
            try:
                written = _written(path)
                if run.settings is not None and written == self._seen.get(path):
                    continue
                self._seen[path] = written
                found = settings_beside(path)
            except Exception as error:
                # A fault in a file that nobody named must not end the program.
                found = RunSettings(files=(SettingsFile(path, trouble=repr(error)),))
            is_news = found != run.settings and bool(found.values or run.settings)
            if found != run.settings:
                run.settings = found
            if is_news:
                self.count += 1
                self._notify()
        now_s = self._clock.monotonic()
        self._again_s = now_s + min(_LONGEST_S, max(AGAIN_S, (now_s - begun_s) / _SHARE))
