"""Looks at what paths mean, in threads: the first time, and again and again while a directory is followed.

A dead server hangs nobody, and how far the first look has come is counted. Later looks come less often on slow mounts,
hand over what they found when that has changed, and open only files that have not been judged before.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rltop.clock import Clock
from rltop.errors import SourceError, reason_of
from rltop.run.discover import Discovery, Seen, awaited, discover, still_looking
from rltop.run.found import Found
from rltop.run.worker import Worker


class Look:
    """One look at what paths mean, in a thread that nobody has to wait for.

    Attributes:
        so_far: what the look has counted; only its result is to be read.
        silent_s: for how long, as `wait` has seen it, nothing has been counted.
    """

    def __init__(self, paths: Sequence[str], clock: Clock) -> None:
        self.paths = list(paths)
        self.so_far = Discovery()
        self._clock = clock
        self._error: Exception | None = None
        self._moved = (0, 0)
        self._moved_s = clock.monotonic()
        self._worker = Worker("discover")
        self._worker.start(self._work)

    def wait(self, timeout_s: float) -> bool:
        return self._worker.join(timeout_s)

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


INTERVAL_S = 10.0
"""Between two looks at a directory that answers at once."""
AWAITED_S = 1.0
"""The same while there is nothing to show yet."""
LONGEST_S = 300.0
_SHARE = 0.004
"""Part of the time that may be spent looking: a scan of 1 s is repeated after 250 s."""
_PER_NAME_S = 0.1
"""So long at most for each name looked at: a few names are no burden, however slow a busy machine looks at them."""


PROGRESS_S = 1.0
"""How often a first look that takes long says how far it has come."""


class Rescanner:
    """Looks at `paths` again and again; `take` gives what was found, once, when it is new."""

    def __init__(
        self,
        paths: Sequence[str],
        found: Sequence[Found],
        clock: Clock,
        on_news: Callable[[], None],
        interval_s: float = INTERVAL_S,
        first: Look | None = None,
        seen: Seen | None = None,
    ) -> None:
        """Starts nothing yet.

        Args:
            found: what the first look at them found.
            on_news: called from the thread when there is something to take; must not block.
            interval_s: between two looks, at least.
            first: the first look, where it has not come to its end: how far it is, and what it finds, is news.
            seen: what the first look has judged, where it has come to its end.
        """
        self._first = first
        self._paths = list(paths)
        self._clock = clock
        self._on_news = on_news
        self._interval_s = interval_s
        self._shape = _shape(found)
        self._is_awaiting = any(each.awaits for each in found)
        self._seen: Seen = {} if seen is None else seen
        self._names = 0
        self._news: list[Found] | None = None
        self.left_out: Sequence[tuple[str, str]] = ()
        """What the newest look could not read, and why."""
        self._has_ended = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        Worker("rescan").start(self._work)

    def take(self) -> list[Found] | None:
        """All runs there are, if that has changed since the last call; else None."""
        if self._news is None:
            return None
        with self._lock:
            news, self._news = self._news, None
        return news

    def close(self) -> None:
        self._has_ended.set()

    def look(self) -> None:
        """Look once. A directory that is gone, or does not answer, is no news."""
        try:
            discovery = discover(self._paths, self._seen)
        except SourceError:
            return
        except Exception as error:
            # The boundary of the thread: a fault in looking must show, and must not end the following.
            self.left_out = [(f"rescan failed: {reason_of(error)}", "")]
            self._on_news()
            return
        self._take_in(discovery)

    def _take_in(self, discovery: Discovery) -> None:
        self._names = discovery.names
        # A path that does not exist counts as a file to be waited for: a folder that has gone would look like one.
        found = [each for each in discovery.found if each.modified_s is not None]
        if self._is_awaiting and not found:
            found = [awaited(self._paths, discovery)]
        has_other_gaps, self.left_out = discovery.left_out != list(self.left_out), discovery.left_out
        if found and _shape(found) != self._shape:
            self._offer(found)
        elif has_other_gaps:
            self._on_news()

    def _offer(self, found: list[Found]) -> None:
        self._shape = _shape(found)
        self._is_awaiting = any(each.awaits for each in found)
        with self._lock:
            self._news = found
        self._on_news()

    def _work(self) -> None:
        if self._first is not None and not self._end_first(self._first):
            return
        wait_s = self._least_s
        while not self._has_ended.wait(wait_s):
            begun_s = self._clock.monotonic()
            self.look()
            took_s = self._clock.monotonic() - begun_s
            wait_s = max(self._least_s, min(LONGEST_S, took_s / _SHARE, self._names * _PER_NAME_S))

    def _end_first(self, first: Look) -> bool:
        """Say how far the first look has come until it has ended, and what it has found; True if there may be more."""
        while not first.wait(PROGRESS_S):
            if self._has_ended.is_set():
                return False
            self._offer([still_looking(self._paths, first.so_far, first.silent_s)])
        try:
            discovery = first.result()
        except Exception as error:
            awaits = f"{reason_of(error)}; retrying"
            self._offer([still_looking(self._paths, first.so_far)._replace(awaits=awaits)])
            return True
        self._seen = discovery.seen
        self._take_in(discovery)
        return discovery.may_grow or self._is_awaiting

    @property
    def _least_s(self) -> float:
        return min(AWAITED_S, self._interval_s) if self._is_awaiting else self._interval_s


def _shape(found: Sequence[Found]) -> frozenset[frozenset[tuple[str, ...]]]:
    return frozenset(
        frozenset((each.role, *each.paths, each.awaits, str(each.total_steps)) for each in (run, *run.beside))
        for run in found
    )
