"""The first look at what paths mean, in a thread: a dead server hangs nobody, and how far it has come is counted."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from rltop.clock import Clock
from rltop.run.discover import Discovery, discover


class Look:
    """One look at what paths mean, in a thread that nobody has to wait for.

    Attributes:
        paths: as they were typed.
        so_far: what the look has counted; only its result is to be read.
        silent_s: for how long, as `wait` has seen it, nothing has been counted.
    """

    def __init__(self, paths: Sequence[str], clock: Clock) -> None:
        """Begins to look.

        Args:
            paths: as they were typed.
            clock: says for how long nothing has been counted.
        """
        self.paths = list(paths)
        self.so_far = Discovery()
        self._clock = clock
        self._error: Exception | None = None
        self._has_ended = threading.Event()
        self._moved = (0, 0)
        self._moved_s = clock.monotonic()
        threading.Thread(target=self._work, name="discover", daemon=True).start()

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the look; False if it has not come in time."""
        return self._has_ended.wait(timeout_s)

    @property
    def silent_s(self) -> float:
        """For how long nothing has been counted, as far as it was asked."""
        moved, now = (self.so_far.names, self.so_far.opened), self._clock.monotonic()
        if moved != self._moved:
            self._moved, self._moved_s = moved, now
        return now - self._moved_s

    def result(self) -> Discovery:
        """What was found, once the look has ended.

        Raises:
            SourceError: the paths cannot be used.
        """
        if self._error is not None:
            raise self._error
        return self.so_far

    def _work(self) -> None:
        try:
            discover(self.paths, into=self.so_far)
        except Exception as error:
            # Whoever waits is told, in a thread of its own.
            self._error = error
        finally:
            self._has_ended.set()
