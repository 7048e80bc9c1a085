"""Settings that change while the program runs: their files are looked at now and then, and read again."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping
from pathlib import Path

from rltop.clock import Clock
from rltop.config import Config, files_of
from rltop.errors import RltopError
from rltop.run.worker import Worker

LOOK_S = 2.0
"""How often the files are looked at; one `stat` each."""


class ConfigWatch:
    """Reads the settings again when one of their files has changed."""

    def __init__(self, config: Config, environ: Mapping[str, str], clock: Clock) -> None:
        self._config, self._clock = config, clock
        self._files = files_of(config, environ)
        self._worker = Worker("settings")
        self._looks_at_s = 0.0
        self._seen: Hashable = None
        self._found: Config | str | None = None

    def take(self) -> Config | str | None:
        """The settings if they have changed since they were last taken, or why they cannot be read; never waits."""
        found, self._found = self._found, None
        now_s = self._clock.monotonic()
        if now_s >= self._looks_at_s and not self._worker.is_busy:
            self._looks_at_s = now_s + LOOK_S
            self._worker.start(self._look)
        return found

    def _look(self) -> None:
        seen = tuple(_stamp(file) for file in self._files)
        if self._seen is not None and seen != self._seen and self._config.read_again is not None:
            try:
                found = self._config.read_again()
                self._found = found._replace(waiting=_waiting(self._config, found))
            except RltopError as error:
                self._found = f"{error.message}: what held before still does"
        self._seen = seen


_AT_START = ("color", "watch", "poll_s", "poll_network_s", "poll_silent_s", "rollouts", "log", "memory_mb")
"""Settings by which files have been opened, or the screen begun, and nothing is opened or begun again."""


def _waiting(before: Config, now: Config) -> tuple[str, ...]:
    changed = [name for name in _AT_START if before.values.get(name) != now.values.get(name)]
    return (*changed, *(["[live]"] if before.live != now.live else []))


def _stamp(file: Path) -> Hashable:
    try:
        info = os.stat(file)  # noqa: PTH116 - `Path.stat` raises for a name with a NUL character too
    except (OSError, ValueError):
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino
