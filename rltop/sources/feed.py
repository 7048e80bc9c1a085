"""Feeds: sources of bytes for the session."""

from __future__ import annotations

import os
import posixpath
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

from rltop.clock import Clock
from rltop.errors import SourceError
from rltop.files import Worker
from rltop.sources.events import ONE_SHOT, Chunk, Reset, ResetReason, TailOptions, TailState, TailStatus
from rltop.sources.file import FileSystem
from rltop.sources.tail import LastRows, Tail, find_tail_start, folder_at, open_tail


class Feed:
    """A source of bytes that never blocks its consumer."""

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        """New events in order, at most `max_bytes` of data; may be empty."""
        raise NotImplementedError

    @property
    def status(self) -> TailStatus:
        raise NotImplementedError

    @property
    def is_exhausted(self) -> bool:
        """Is nothing left to take, as of the last poll? A followed file may grow again."""
        raise NotImplementedError

    @property
    def is_network(self) -> bool:
        """May another machine write, so that changes can show up late?"""
        return False

    @property
    def is_over(self) -> bool:
        """Will nothing ever come again, as after the end of a recording?"""
        return False

    @property
    def is_at_rest(self) -> bool:
        """Is nothing left to take, and will the reader signal new data? False if it does not signal."""
        return False

    def close(self) -> None:
        """Stop; no more events follow."""


class DirectFeed(Feed):
    """Reads synchronously in `take`: for one-shot use and tests."""

    is_exhausted = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        options: TailOptions = ONE_SHOT,
        start: int = 0,
        last: LastRows | None = None,
    ) -> None:
        """Opens the file only if `last` is given."""
        fs = fs or FileSystem()
        self.start = start
        head = b""
        if last is not None:
            # A file that cannot be opened has no last rows; the tail will report why.
            with suppress(OSError):
                self.start, head = find_tail_start(fs, os.fspath(path), last)
        self._head = [Chunk(head, 0, 0, is_head=True)] if head else []
        self._fs, self._clock, self._is_once = fs, clock or Clock(), options.is_once
        self._tail = open_tail(os.path.abspath(path), fs, self._clock, options, self.start)  # noqa: PTH100

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        if self._head:
            return [self._head.pop()]
        if self._is_once and self.is_exhausted:
            return []
        events = self._tail.poll(max_bytes)
        while not events and self._tail.status.state is TailState.READING and self._tail.status.searched:
            events = self._tail.poll(max_bytes)
        if self._tail.status.state is TailState.REFUSED and isinstance(self._tail, Tail):
            self._tail = folder_at(self._tail.path, self._fs, self._clock) or self._tail
            events = self._tail.poll(max_bytes)
        self.is_exhausted = self._tail.status.state is not TailState.READING
        return events

    @property
    def status(self) -> TailStatus:
        return self._tail.status

    def close(self) -> None:
        self._tail.close()


class EventQueue:
    """A queue between one reading and one consuming thread, bounded in bytes.

    The lock is held only briefly, never across a call into a file system.
    """

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._events: deque[Chunk | Reset] = deque()
        self._taken = 0
        self.held = 0

    @property
    def room(self) -> int:
        return max(0, self.limit_bytes - self.held)

    @property
    def is_empty(self) -> bool:
        return not self._events

    def put(self, events: list[Chunk | Reset]) -> None:
        with self._lock:
            self._events.extend(events)
            self.held += sum(len(event.data) for event in events if isinstance(event, Chunk))

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        taken: list[Chunk | Reset] = []
        left = max_bytes
        with self._lock:
            while self._events:
                event = self._events[0]
                if isinstance(event, Reset):
                    taken.append(event)
                    self._events.popleft()
                    continue
                if left <= 0:
                    break
                part = self._part(event, left)
                left -= len(part.data)
                taken.append(part)
            self.held -= max_bytes - left
        return taken

    def _part(self, chunk: Chunk, size: int) -> Chunk:
        begin, end = self._taken, len(chunk.data) if chunk.is_head else min(len(chunk.data), self._taken + size)
        if end == len(chunk.data):
            self._events.popleft()
            self._taken = 0
        else:
            self._taken = end
        if begin == 0 and end == len(chunk.data):
            return chunk
        return Chunk(chunk.data[begin:end], chunk.offset + begin, chunk.generation)


class PendingFeed(Feed):
    """Gives no data and says what is awaited, until a real feed replaces it."""

    is_exhausted = True
    status = TailStatus(TailState.WAITING)

    def __init__(self, message: str) -> None:
        self.status = TailStatus(TailState.WAITING, message)

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        return []


class SequenceFeed(Feed):
    """The chunks of `paths` one after the other, with a reset between two files.

    Generations increase across files: no two files, and no two contents of the last one, share a number.
    """

    def __init__(self, paths: Sequence[str], open_feed: Callable[[str], Feed]) -> None:
        self._paths = list(paths)
        self._open_feed = open_feed
        self._turn = 0
        self._feed = open_feed(self._paths[0])
        self._base = 0
        self._highest = 0
        self._left_out: tuple[str, ...] = ()

    def extend(self, paths: Sequence[str]) -> None:
        """Append files to read after the present last one, as when a writer starts a new file."""
        self._paths += paths

    @property
    def _is_last(self) -> bool:
        return self._turn == len(self._paths) - 1

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        """New events of the current file; at its end, the next file starts."""
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
        """The status of the current file; READING until the last file has been reached."""
        status = self._feed.status
        if self._left_out:
            status = status._replace(left_out=(*self._left_out, *status.left_out))
        if self._is_last or status.state is not TailState.AT_END:
            return status
        return status._replace(state=TailState.READING)

    @property
    def is_exhausted(self) -> bool:
        return self._is_last and self._feed.is_exhausted

    @property
    def is_at_rest(self) -> bool:
        return self._is_last and self._feed.is_at_rest

    @property
    def is_network(self) -> bool:
        return self._feed.is_network

    def close(self) -> None:
        self._feed.close()


_PIPE_BYTES = 256 * 1024
QUEUE_BYTES = 8 * 1024 * 1024


class PipeFeed(Feed):
    """Reads a file descriptor until its other end is closed: `ssh node tail -F log | rltop -`.

    It cannot be read twice, so there is no preview, and older rows exist only downsampled. A daemon thread reads, and
    nothing waits for it.
    """

    def __init__(self, descriptor: int, on_data: Callable[[], None] | None = None) -> None:
        """Starts reading.

        Args:
            descriptor: open for reading; the feed takes ownership.
        """
        self._descriptor = descriptor
        self._on_data = on_data
        self._queue = EventQueue(QUEUE_BYTES)
        self._has_room = threading.Event()
        self._has_room.set()
        self._offset = 0
        self._is_at_end = False
        self._error = ""
        Worker("pipe").start(self._read)

    def _read(self) -> None:
        while True:
            self._has_room.wait()
            try:
                data = os.read(self._descriptor, _PIPE_BYTES)
            except OSError as error:
                self._error = error.strerror or str(error)
                data = b""
            if data:
                self._queue.put([Chunk(data, self._offset, 0)])
                self._offset += len(data)
                if self._queue.room < _PIPE_BYTES:
                    self._has_room.clear()
            else:
                self._is_at_end = True
            if self._on_data is not None:
                self._on_data()
            if not data:
                return

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        events = self._queue.take(max_bytes)
        if self._queue.room >= _PIPE_BYTES:
            self._has_room.set()
        return events

    @property
    def status(self) -> TailStatus:
        """At the end whenever the queue is empty, because a pipe has no size."""
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

    def close(self) -> None:
        """Stop reading; a thread blocked in a read ends with the program."""
        self._has_room.clear()
