"""The thread in which a run's files are looked at: nobody waits for it, not even at the end of the program."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Worker:
    """A daemon thread for one piece of work at a time: a read that hangs is left behind."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object]) -> None:
        """Begin to work; what is under way, if anything, goes on beside it."""
        self._thread = threading.Thread(target=work, name=self._name, daemon=True)
        self._thread.start()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of the work, at most for so long; whether it has ended."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not self.is_busy
