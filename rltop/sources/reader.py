"""Reading in the background, so that a dead server holds up nothing but its own files.

One daemon thread for each mount polls the files there and puts what comes into
bounded queues. Nobody ever waits for these threads: not whoever takes from a feed,
not the other mounts, not the end of the program.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from rltop.clock import Clock, SystemClock
from rltop.sources.events import Chunk, Reset, TailState, TailStatus
from rltop.sources.feed import DirectFeed, EventQueue, Feed
from rltop.sources.file import FileSystem, LocalFileSystem, Mount, mount_of, read_mountinfo
from rltop.sources.mount_thread import RESOLVE_S, Follow, MountThread, Pace, locate
from rltop.sources.options import ReaderOptions
from rltop.sources.watch import Watcher

__all__ = ["DirectFeed", "Feed", "Reader", "ReaderOptions", "ThreadedFeed"]


DEFAULT_OPTIONS = ReaderOptions()


class ThreadedFeed:
    """What a thread reads of one file; every method returns at once."""

    def __init__(self, follow: Follow, clock: Clock, stuck_after_s: float) -> None:
        self._follow = follow
        self._clock = clock
        self._stuck_after_s = stuck_after_s

    @property
    def path(self) -> str:
        """The file, absolute, as it was named."""
        return self._follow.path

    @property
    def start(self) -> int | None:
        """Offset of the first byte of generation 0; None until the last lines have been found."""
        return self._follow.start

    @property
    def mount(self) -> Mount | None:
        """Where the file lies, once its links have been resolved."""
        return self._follow.mount

    @property
    def is_watched(self) -> bool:
        """Whether the kernel reports changes; False means polling alone."""
        return self._follow.is_watched

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        """What has come, in order, at most `max_bytes` of it; wakes the thread if that makes room."""
        follow = self._follow
        was_full = not follow.has_room
        events = follow.queue.take(max_bytes)
        if was_full and follow.has_room:
            follow.wake()
        return events

    @property
    def status(self) -> TailStatus:
        """How the last look went, or for how long there has been no answer."""
        silent_s = self._silent_s()
        if silent_s < self._stuck_after_s:
            return self._follow.status
        message = f"no answer from the file system for {silent_s:.0f} s"
        return self._follow.status._replace(state=TailState.STUCK, message=message)

    @property
    def is_exhausted(self) -> bool:
        """All that the last look showed has been taken, or there is no answer."""
        follow = self._follow
        if not follow.queue.is_empty:
            return False
        if self._silent_s() >= self._stuck_after_s:
            return True
        return follow.has_looked and follow.status.state is not TailState.READING

    @property
    def is_network(self) -> bool:
        """The file lies on a network file system, as far as is known."""
        return self.mount is not None and self.mount.is_network

    @property
    def is_over(self) -> bool:
        """Never: a file can always grow."""
        return False

    @property
    def is_at_rest(self) -> bool:
        """All that the last look showed has been taken, and it showed the end of the file."""
        return self._follow.queue.is_empty and self._follow.status.state is TailState.AT_END

    def close(self) -> None:
        """Follow no longer; what has not been taken is dropped."""
        self._follow.is_closed = True
        self._follow.wake()

    def _silent_s(self) -> float:
        return self._follow.silent_s(self._clock.monotonic())


class Reader:
    """Follows any number of files from daemon threads, one for each mount."""

    def __init__(
        self,
        options: ReaderOptions = DEFAULT_OPTIONS,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        on_data: Callable[[], None] | None = None,
        mountinfo: Callable[[], str] = read_mountinfo,
    ) -> None:
        """Starts nothing yet.

        Args:
            options: see `ReaderOptions`.
            fs: the local file system if None.
            clock: the system's if None; it must move by itself.
            on_data: called from a reading thread after something can be taken or a
                status has changed; must not block, for example `loop.call_soon_threadsafe`.
            mountinfo: where the mount table comes from.
        """
        self._options = options
        self._fs = fs or LocalFileSystem()
        self._clock = clock or SystemClock()
        self._on_data = on_data
        self._mountinfo = mountinfo
        self._watcher = Watcher() if options.use_watcher else None
        self._watch_from = self._clock.monotonic() + options.watch_delay_s
        self._threads: dict[tuple[str, bool], MountThread] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def follow(self, path: str | os.PathLike[str], *, start: int = 0, last_lines: int | None = None) -> ThreadedFeed:
        """Begin to read a file and to follow it.

        Touches no file system: even its links are resolved by the thread.

        Args:
            path: the file, which need not exist yet.
            start: offset to begin at, the beginning of a line.
            last_lines: begin this many lines before the end instead.
        """
        absolute = os.path.abspath(path)  # noqa: PTH100 - must not resolve symlinks
        queue = EventQueue(self._options.queue_bytes)
        follow = Follow(absolute, queue, self._options.read_bytes, self._clock.monotonic(), start, last_lines)
        # Links may lead anywhere, so resolving them may hang like any read; on a thread of
        # its own because until that is done it is not known whose files would have to wait.
        try:
            threading.Thread(target=self._begin, args=(follow,), name="rltop-resolve", daemon=True).start()
        except RuntimeError:
            # No thread is left for this user: the file goes by its name, and who reads it resolves its links.
            follow.real_path = absolute
            self.hand_over(follow, self.mount_of(absolute))
        return ThreadedFeed(follow, self._clock, self._options.stuck_after_s)

    def close(self) -> None:
        """Tell every thread to end and return; a thread that hangs is left behind."""
        with self._lock:
            self._is_closed = True
            threads = list(self._threads.values())
        for thread in threads:
            thread.stop()
        if self._watcher is not None:
            self._watcher.close()

    def mount_of(self, path: str) -> Mount:
        """Where a path lies, by the mount table alone."""
        return mount_of(path, self._mountinfo(), self._options.mounts)

    def _begin(self, follow: Follow) -> None:
        mount = locate(follow, self._fs, self.mount_of)
        follow.next_locate = self._clock.monotonic() + RESOLVE_S
        self.hand_over(follow, mount)

    def hand_over(self, follow: Follow, mount: Mount) -> None:
        """Give a file to the thread of the mount its links lead to."""
        thread = self._thread_for(mount)
        thread.add(follow)
        follow.thread = thread

    def _thread_for(self, mount: Mount) -> MountThread:
        options = self._options
        with self._lock:
            key = (mount.point, mount.is_network)
            thread = self._threads.get(key)
            if thread is None:
                pace = (
                    Pace(options.network_poll_s, options.network_poll_max_s, options.network_backoff)
                    if mount.is_network
                    else Pace(options.local_poll_s, options.local_poll_s, 1.0)
                )
                thread = MountThread(
                    mount=mount,
                    pace=pace,
                    fs=self._fs,
                    clock=self._clock,
                    tail_options=options.tail,
                    mount_of=self.mount_of,
                    hand_over=self.hand_over,
                    on_data=self._on_data,
                    watcher=self._watcher if mount.delivers_events else None,
                    watch_from=self._watch_from,
                )
                self._threads[key] = thread
                if not self._is_closed:
                    thread.start()
            return thread
