"""The only place where time is read, so that everything else can be replayed."""

from __future__ import annotations

import time


class Clock:
    def __init__(self) -> None:
        self._epoch_s = self.wall() - self.monotonic()

    def now(self) -> float:
        """Seconds since the epoch: wall time at start-up plus monotonic time, so setting the clock moves no ages."""
        return self._epoch_s + self.monotonic()

    def wall(self) -> float:
        """Seconds since the epoch by the system clock: for timestamps, never for differences."""
        return time.time()  # noqa: TID251

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()  # noqa: TID251

    def cpu_s(self) -> float:
        """CPU seconds used by this thread."""
        return time.thread_time()

    def other_threads_cpu_s(self) -> float:
        """CPU seconds used by the other threads of this process."""
        return time.process_time() - time.thread_time()


class FakeClock(Clock):
    """A clock that moves only through `advance` and `work`."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._cpu_s = 0.0

    def now(self) -> float:
        return self._now

    wall = monotonic = now

    def cpu_s(self) -> float:
        return self._cpu_s

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def work(self, seconds: float) -> None:
        self._cpu_s += seconds
        self._now += seconds
