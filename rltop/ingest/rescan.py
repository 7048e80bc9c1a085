"""Looking again: runs, streams and files that appear while a directory is followed.

A daemon thread looks now and then, seldom where looking is slow, and hands over what
it found when that has changed: as long as there is nothing, what is waited for. It
opens only files that it has not judged before, and nobody ever waits for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from rltop.clock import Clock
from rltop.errors import SourceError
from rltop.ingest.awaited import awaited
from rltop.ingest.discover import Seen, discover
from rltop.ingest.found import Found

INTERVAL_S = 10.0
"""Between two looks at a directory that answers at once."""
AWAITED_S = 1.0
"""The same while there is nothing to show yet."""
LONGEST_S = 300.0
_SHARE = 0.004
"""Part of the time that may be spent looking: a scan of 1 s is repeated after 250 s."""


class Rescanner:
    """Looks at `paths` again and again; `take` gives what was found, once, when it is new."""

    def __init__(
        self,
        paths: Sequence[str],
        found: Sequence[Found],
        clock: Clock,
        on_news: Callable[[], None],
        interval_s: float = INTERVAL_S,
    ) -> None:
        """Starts nothing yet.

        Args:
            paths: as they were typed.
            found: what the first look at them found.
            clock: times the looks.
            on_news: called from the thread when there is something to take; must not block.
            interval_s: between two looks, at least.
        """
        self._paths = list(paths)
        self._clock = clock
        self._on_news = on_news
        self._interval_s = interval_s
        self._shape = _shape(found)
        self._is_awaiting = any(each.awaits for each in found)
        self._seen: Seen = {}
        self._news: list[Found] | None = None
        self._has_ended = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Begin to look, in a thread that ends with the program."""
        threading.Thread(target=self._work, name="rescan", daemon=True).start()

    def take(self) -> list[Found] | None:
        """All runs there are, if that has changed since the last call; else None."""
        if self._news is None:
            return None
        with self._lock:
            news, self._news = self._news, None
        return news

    def close(self) -> None:
        """Look no more; does not wait for a look that is under way."""
        self._has_ended.set()

    def look(self) -> None:
        """Look once. A directory that is gone, or does not answer, is no news."""
        try:
            discovery = discover(self._paths, self._seen)
        except SourceError:
            return
        # A path that does not exist counts as a file to be waited for: a folder that has gone would look like one.
        found = [each for each in discovery.found if each.modified_s is not None]
        if self._is_awaiting and not found:
            found = [awaited(self._paths, discovery)]
        shape = _shape(found)
        if not found or shape == self._shape:
            return
        self._shape = shape
        self._is_awaiting = any(each.awaits for each in found)
        with self._lock:
            self._news = found
        self._on_news()

    def _work(self) -> None:
        wait_s = self._least_s
        while not self._has_ended.wait(wait_s):
            begun_s = self._clock.monotonic()
            self.look()
            took_s = self._clock.monotonic() - begun_s
            wait_s = min(LONGEST_S, max(self._least_s, took_s / _SHARE))

    @property
    def _least_s(self) -> float:
        return min(AWAITED_S, self._interval_s) if self._is_awaiting else self._interval_s


def _shape(found: Sequence[Found]) -> frozenset[frozenset[tuple[str, ...]]]:
    """Which files there are, by run and stream, whatever their sizes and order."""
    return frozenset(frozenset((each.role, *each.paths, each.awaits) for each in (run, *run.beside)) for run in found)
