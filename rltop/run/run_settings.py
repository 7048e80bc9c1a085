"""Launch settings of runs, read in a thread from the settings files in the run's folder.

Searches by the file names that trainers use, in the folder of the metric file and its parents that belong to the same
run. Nothing is written or executed. Files are checked for changes from time to time, and read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.clock import Clock
from rltop.errors import DecodeError
from rltop.files import Worker, open_regular
from rltop.run.places import CONSOLE_LOGS, own_file, settings_files
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.formats.settings import Value
    from rltop.run.run import Run


AGAIN_S = 10.0
"""Minimum interval between two searches for files."""
_LONGEST_S = 300.0
_SHARE = 0.004
"""Maximum fraction of the time spent on searching."""
_HEAD_BYTES = 256 * 1024
"""Settings are at the beginning of a log, so its growth is no reason to read it again."""


class SettingsFile(NamedTuple):
    path: str
    taken: int = 0
    trouble: str = ""


class RunSettings(NamedTuple):
    """Launch settings of a run.

    Attributes:
        files: those found, in the order read.
    """

    values: Mapping[str, Value] = {}
    files: Sequence[SettingsFile] = ()

    def find(self, name: str) -> Sequence[str]:
        """The settings that match a name: an exact match or names that end in it, shortest first.

        Args:
            name: as typed: `actor.optim.lr`, `optim.lr` or `lr`; slashes count as dots.
        """
        typed = "." + name.casefold().replace("/", ".")
        found = [one for one in self.values if f".{one.casefold()}".replace("/", ".").endswith(typed)]
        return sorted(found, key=lambda one: (one.count("."), len(one)))


def settings_near(path: str) -> RunSettings:
    """The settings near the run at `path`; empty if there are none."""
    from rltop.formats.settings import MAX_BYTES, MAX_SETTINGS, read_settings  # noqa: PLC0415 - not on every page

    values: dict[str, Value] = {}
    files: list[SettingsFile] = []
    for each in settings_files(own_file(path)):
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
    return file.suffix in (".wandb", *CONSOLE_LOGS) or "tfevents" in file.name


def _written(path: str) -> Sequence[tuple[str, int, int]]:
    """The files that may contain settings, with modification time and size; nothing is read."""
    found = []
    for each in settings_files(own_file(path)):
        try:
            seen = each.stat()
        except OSError:
            continue
        is_log = _is_log(each)
        size = min(seen.st_size, _HEAD_BYTES) if is_log else seen.st_size
        found.append((str(each), 0 if is_log else seen.st_mtime_ns, size))
    return found


class SettingsReader:
    """Reads the settings of runs one after another, in a background thread."""

    def __init__(self, notify: Callable[[], None], clock: Clock | None = None) -> None:
        self.count = 0
        self._notify = notify
        self._clock = clock or Clock()
        self._worker = Worker("settings")
        self._seen: dict[str, Sequence[tuple[str, int, int]]] = {}
        self._again_s = 0.0

    def ask(self, runs: Iterable[Run]) -> None:
        """Read missing settings, or check all for changes when that is due."""
        if self._worker.is_busy:
            return
        there = [run for run in runs if not run.main.is_awaited]
        wanted = [run for run in there if run.settings is None]
        if not wanted and self._clock.monotonic() >= self._again_s:
            wanted = there
        if wanted:
            self._worker.start(partial(self._read, wanted))

    def _read(self, runs: Sequence[Run]) -> None:
        begun_s = self._clock.monotonic()
        for run in runs:
            path = run.path.raw
            try:
                written = _written(path)
                if run.settings is not None and written == self._seen.get(path):
                    continue
                self._seen[path] = written
                found = settings_near(path)
            except Exception as error:
                # A fault in a file that the user did not name must not end the program.
                found = RunSettings(files=(SettingsFile(path, trouble=repr(error)),))
            is_news = found != run.settings and bool(found.values or run.settings)
            if found != run.settings:
                run.settings = found
            if is_news:
                self.count += 1
                self._notify()
        now_s = self._clock.monotonic()
        self._again_s = now_s + min(_LONGEST_S, max(AGAIN_S, (now_s - begun_s) / _SHARE))
