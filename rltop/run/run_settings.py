"""What runs were started with: the files of settings in a run's own folder, read in a thread.

A bounded look by the names that trainers give to such files, in the folder of the
metric file and those above it that belong to the same run. Nothing is written or
executed. A file is read again where it was written since, which is looked for now and then.
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
"""Between two looks at which files there are, at least."""
_LONGEST_S = 300.0
_SHARE = 0.004
"""Part of the time that may be spent on looking."""
_HEAD_BYTES = 256 * 1024
"""Settings stand at the beginning of a log: its growth is no reason to read it again."""


class SettingsFile(NamedTuple):
    path: str
    taken: int = 0
    trouble: str = ""


class RunSettings(NamedTuple):
    """What a run was started with.

    Attributes:
        files: those that were found, in the order in which they were read.
    """

    values: Mapping[str, Value] = {}
    files: Sequence[SettingsFile] = ()

    def find(self, name: str) -> Sequence[str]:
        """The names that a word means: itself, else those that end in it, the shortest first.

        Args:
            name: as typed: `actor.optim.lr`, `optim.lr` or `lr`; a slash is as good as a dot.
        """
        typed = "." + name.casefold().replace("/", ".")
        found = [one for one in self.values if f".{one.casefold()}".replace("/", ".").endswith(typed)]
        return sorted(found, key=lambda one: (one.count("."), len(one)))


def settings_beside(path: str) -> RunSettings:
    """The settings of the run whose metrics are read from a path; none where none are kept there."""
    from rltop.formats.settings import MAX_BYTES, MAX_SETTINGS, read_settings  # noqa: PLC0415 - not with every page

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
    """Which files may hold settings, and when they were written last; nothing is read."""
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
    """Reads the settings of runs one after another, in a thread that nobody waits for."""

    def __init__(self, notify: Callable[[], None], clock: Clock | None = None) -> None:
        self.count = 0
        self._notify = notify
        self._clock = clock or Clock()
        self._worker = Worker("settings")
        self._seen: dict[str, Sequence[tuple[str, int, int]]] = {}
        self._again_s = 0.0

    def ask(self, runs: Iterable[Run]) -> None:
        """Have the settings read of all runs that they are not known of, or were written of since."""
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
