"""A place where a metric file is expected, as a source of bytes that has none."""

from __future__ import annotations

from rltop.sources.events import Chunk, Reset, TailState, TailStatus


class AwaitedFeed:
    """Gives nothing, and says what is waited for; whoever looks again puts a real feed in its place."""

    is_exhausted = True
    is_over = False
    is_network = False

    def __init__(self, message: str) -> None:
        self.status = TailStatus(TailState.WAITING, message)

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        """Nothing, ever."""
        del max_bytes
        return []

    @property
    def is_at_rest(self) -> bool:
        """Never: it is asked each time."""
        return False

    def close(self) -> None:
        """Nothing is held."""
