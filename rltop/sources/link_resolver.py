"""Resolves the links of files on a thread of its own; where one hangs, another thread goes on with the rest."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

HANGS_S = 0.1
"""After so long on one file another thread takes the rest."""
T = TypeVar("T")


class LinkResolver(Generic[T]):
    """Resolves the links of files, before it is known on which mount they lie.

    Links may lead anywhere, so resolving them may hang like any read. One thread does it
    for all files, so that a thousand need no thousand threads; where it has not moved for
    `HANGS_S`, another one goes on with the rest.

    Args:
        begin: resolves the links of a file and hands it over.
    """

    def __init__(self, begin: Callable[[T], None]) -> None:
        self._begin = begin
        self._left: deque[T] = deque()
        self._done = 0
        self._lock = threading.Lock()
        self._is_watched = False

    def add(self, follow: T) -> bool:
        """Begin with a file as soon as can be; False where there is no thread to be had."""
        with self._lock:
            self._left.append(follow)
            if self._is_watched:
                return True
            try:
                threading.Thread(target=self._watch, name="rltop-resolve", daemon=True).start()
            except RuntimeError:
                self._left.pop()
                return False
            self._is_watched = True
            return True

    def _watch(self) -> None:
        """Have a thread at work for as long as a file is left."""
        done = -1
        worker: threading.Thread | None = None
        while True:
            with self._lock:
                if not self._left:
                    self._is_watched = False
                    return
            if worker is None or not worker.is_alive() or self._done == done:
                fresh = threading.Thread(target=self._work, name="rltop-resolve", daemon=True)
                try:
                    fresh.start()
                    worker = fresh
                except RuntimeError:
                    self._work()
            done = self._done
            if worker is not None:
                worker.join(HANGS_S)

    def _work(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._begin(self._left.popleft())
                self._done += 1
