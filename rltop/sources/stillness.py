"""When a file that was renamed away may be left for the one that has taken its place."""

from __future__ import annotations

from rltop.sources.events import TailOptions


class Stillness:
    """Whether a file that was renamed away may be left: nothing is written to it any more."""

    def __init__(self, options: TailOptions) -> None:
        self._options = options
        self._offset = -1
        self._polls = 0
        self._still_since = self._waited_since = float("inf")

    def is_long_enough(self, now: float, offset: int, *, is_awaited: bool) -> bool:
        """Take in that it has been read up to `offset`, its end.

        Args:
            now: the time, in seconds of any clock that goes on evenly.
            offset: up to where it has been read.
            is_awaited: the file that has taken its place holds data, which wait meanwhile. While it holds
                none the old one is kept, however long that is: a writer moves on by writing.
        """
        if offset != self._offset:
            self._offset, self._polls, self._still_since = offset, 0, now
        self._polls += 1
        if not is_awaited:
            return False
        self._waited_since = min(now, self._waited_since)
        if now - self._waited_since >= self._options.linger_max_s:
            return True
        # What was written before the new file got its first data is seen by reading once more behind that.
        is_still = now - max(self._still_since, self._waited_since) >= self._options.linger_s
        return is_still and self._polls >= self._options.drain_polls
