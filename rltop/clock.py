"""The only place where time is read, so that everything else can be replayed."""

from __future__ import annotations

import time


class Clock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        self._epoch_s = self.wall() - self.monotonic()

    def now(self) -> float:
        """Seconds since the epoch, as the clock stood at the start, counted on: ages do not jump when it is set."""
        return self._epoch_s + self.monotonic()

    def wall(self) -> float:
        """Seconds since the epoch as the machine has it now: for stamps, never for differences."""
        return time.time()  # noqa: TID251

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back."""
        return time.monotonic()  # noqa: TID251

    def worked(self) -> float:
        """Seconds that this thread has had a processor."""
        return time.thread_time()

    def others_worked(self) -> float:
        """Seconds that the other threads of this process have had a processor."""
        return time.process_time() - time.thread_time()


class FakeClock(Clock):
    """A clock that moves only when it is told to."""

    def __init__(self, now: float = 1_700_000_000.0) -> None:
        self._now = now
        self._worked = 0.0

    def now(self) -> float:
        return self._now

    wall = monotonic = now

    def worked(self) -> float:
        return self._worked

    def advance(self, seconds: float) -> None:
        self._now += seconds

    def work(self, seconds: float) -> None:
        self._worked += seconds
        self._now += seconds
