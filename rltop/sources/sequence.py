"""Several files that are one stream: rotated history, one event file per start.

The earlier ones are read once, in order; the last one is followed. Owns nothing
but the order: each file is read by a feed of its own, begun when its turn comes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Sequence

from rltop.sources.events import Chunk, Reset, ResetReason, TailState, TailStatus
from rltop.sources.feed import Feed


class SequenceFeed:
    """The chunks of `paths` one after the other; a reset stands between two files.

    Generations are counted through: no two files, and no two lives of the last
    one, share a number.
    """

    def __init__(self, paths: Sequence[str], open_feed: Callable[[str], Feed]) -> None:
        """Opens the first file.

        Args:
            paths: at least one, oldest first.
            open_feed: follows a path from its beginning.
        """
        self._paths = list(paths)
        self._open_feed = open_feed
        self._turn = 0
        self._feed = open_feed(self._paths[0])
        self._base = 0
        self._highest = 0
        self._left_out: tuple[str, ...] = ()

    def extend(self, paths: Sequence[str]) -> None:
        """Go on with further files when the present last one has been read: a writer has begun a new one."""
        self._paths += paths

    @property
    def _is_last(self) -> bool:
        return self._turn == len(self._paths) - 1

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        """What has come of the file whose turn it is; at its end, the next one begins."""
        events = [self._renumbered(event) for event in self._feed.take(max_bytes)]
        if not events and not self._is_last and self._feed.is_exhausted:
            self._note_gap(self._feed.status)
            self._feed.close()
            self._turn += 1
            self._feed = self._open_feed(self._paths[self._turn])
            self._base = self._highest = self._highest + 1
            return [Reset(ResetReason.ROTATED, self._base, is_restart=False)]
        return events

    def _note_gap(self, status: TailStatus) -> None:
        """A file that could not be read, or not to its end, is a gap in the history."""
        if status.state is not TailState.AT_END:
            name = posixpath.basename(self._paths[self._turn])
            said = status.error.message if status.error is not None else f"{name}: {status.message}"
            self._left_out += (said,)

    def _renumbered(self, event: Chunk | Reset) -> Chunk | Reset:
        generation = self._base + event.generation
        self._highest = max(self._highest, generation)
        return event._replace(generation=generation)

    @property
    def status(self) -> TailStatus:
        """Of the file whose turn it is; reading until the last one has been reached."""
        status = self._feed.status
        if self._left_out:
            status = status._replace(left_out=(*self._left_out, *status.left_out))
        if self._is_last or status.state is not TailState.AT_END:
            return status
        return status._replace(state=TailState.READING)

    @property
    def is_exhausted(self) -> bool:
        """Nothing is left to take as of the last look at the last file."""
        return self._is_last and self._feed.is_exhausted

    @property
    def is_over(self) -> bool:
        """Never: the last file can always grow."""
        return False

    @property
    def is_network(self) -> bool:
        """The file whose turn it is lies on a network file system."""
        return self._feed.is_network

    @property
    def is_at_rest(self) -> bool:
        """Never: it is asked each time."""
        return False

    def close(self) -> None:
        """Follow no longer."""
        self._feed.close()
