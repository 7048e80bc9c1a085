"""A stream that comes through a pipe: `ssh node tail -F train.log | rltop -`.

It cannot be read twice: there is no preview, and older rows survive only downsampled.
A daemon thread reads, and nothing waits for it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from rltop.errors import SourceError
from rltop.sources.events import Chunk, Reset, TailState, TailStatus
from rltop.sources.feed import EventQueue

READ_BYTES = 256 * 1024
QUEUE_BYTES = 8 * 1024 * 1024


class PipeFeed:
    """Everything that comes through a file descriptor, until its other end is closed."""

    def __init__(self, descriptor: int, on_data: Callable[[], None] | None = None) -> None:
        """Begins to read.

        Args:
            descriptor: open for reading; it belongs to the feed from now on.
        """
        self._descriptor = descriptor
        self._on_data = on_data
        self._queue = EventQueue(QUEUE_BYTES)
        self._has_room = threading.Event()
        self._has_room.set()
        self._offset = 0
        self._is_at_end = False
        self._error = ""
        threading.Thread(target=self._read, name="pipe", daemon=True).start()

    def _read(self) -> None:
        while True:
            self._has_room.wait()
            try:
                data = os.read(self._descriptor, READ_BYTES)
            except OSError as error:
                self._error = error.strerror or str(error)
                data = b""
            if data:
                self._queue.put([Chunk(data, self._offset, 0)])
                self._offset += len(data)
                if self._queue.room < READ_BYTES:
                    self._has_room.clear()
            else:
                self._is_at_end = True
            if self._on_data is not None:
                self._on_data()
            if not data:
                return

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        events = self._queue.take(max_bytes)
        if self._queue.room >= READ_BYTES:
            self._has_room.set()
        return events

    @property
    def status(self) -> TailStatus:
        """At the end whenever nothing waits: a pipe has no size."""
        if self._error:
            what = f"cannot read standard input: {self._error}"
            return TailStatus(TailState.LOST, what, self._offset, self._offset, error=SourceError(what))
        if not self._offset and not self._is_at_end:
            return TailStatus(TailState.WAITING, "waiting for data on standard input")
        state = TailState.AT_END if self._queue.is_empty else TailState.READING
        return TailStatus(state, "", self._offset, self._offset)

    @property
    def is_exhausted(self) -> bool:
        return self._queue.is_empty

    @property
    def is_over(self) -> bool:
        return self._is_at_end and self._queue.is_empty

    @property
    def is_network(self) -> bool:
        return False

    @property
    def is_at_rest(self) -> bool:
        return False

    def close(self) -> None:
        """Read no further; the thread ends with the program if nothing comes."""
        self._has_room.clear()
