"""Background reading, so that a dead server delays only its own files.

One daemon thread per mount polls its files and puts the data into bounded queues. Nothing waits for these threads:
neither the consumer of a feed, nor other mounts, nor the exit of the program. All of `MountThread` except `add`,
`wake`, `stop` and `silent_s` runs on its own thread; only that thread may call into a file system.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rltop.clock import Clock
from rltop.files import Worker
from rltop.sources.events import (
    Chunk,
    ReaderOptions,
    Reset,
    TailOptions,
    TailState,
    TailStatus,
    is_missing,
    unreachable,
)
from rltop.sources.feed import EventQueue, Feed
from rltop.sources.file import FileSystem, Mount, mount_of, read_mountinfo
from rltop.sources.tail import AnyTail, LastRows, Tail, find_tail_start, folder_at, open_tail
from rltop.sources.watch import Watcher

RESOLVE_S = 60.0
"""How often symlinks are resolved again and the folder's watch is renewed."""

WATCH_RETRY_S = 10.0
"""Delay before watching is tried again after a failure, for example because the folder does not exist yet."""

CALM_S = 0.02
"""Debounce interval for inotify events: a busy folder must not cause a busy thread."""

LONGEST_WAIT_S = 60.0

QUIET_LOOKS_PER_S = 50
"""Polls per second of idle files, for a whole mount: one takes 20 µs, and the wake-up more."""


FILES_A_PASS_PER_S = 1000
"""Files per second that are checked for being due; this does not delay inotify events."""

MOST_WAITING_BYTES = 16 * 1024 * 1024
"""While so much data of all files of a mount waits to be taken, no more of them are opened."""

_CHANGES_KEPT = 4096
"""Beyond this the oldest events are dropped; polling will find those changes."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """Polling interval, multiplied by `backoff` up to `longest_s` while nothing arrives."""

    shortest_s: float
    longest_s: float
    backoff: float


@dataclass(slots=True, eq=False)
class FollowedFile:
    """A followed file: the state shared by the thread and the feed.

    The feed reads `status`, `start`, `mount`, `thread`, `is_queued` and `is_watched`, takes from
    `queue` and sets `is_closed`; everything else belongs to the thread.
    """

    path: str
    queue: EventQueue
    read_bytes: int
    asked_at: float
    start: int | None
    last: LastRows | None = None
    status: TailStatus = field(default_factory=lambda: TailStatus(TailState.WAITING, "not looked at yet"))
    mount: Mount | None = None
    thread: MountThread | None = None
    is_watched: bool = False
    is_queued: bool = True
    is_closed: bool = False
    has_looked: bool = False
    tail: AnyTail | None = None
    real_path: str = ""
    interval_s: float = 0.0
    next_look: float = 0.0
    next_locate: float = 0.0
    next_watch: float = 0.0

    def __post_init__(self) -> None:
        if self.last is not None:
            self.start = None

    @property
    def has_room(self) -> bool:
        return self.queue.room >= min(self.read_bytes, max(1, self.queue.limit_bytes // 2))

    @property
    def is_next(self) -> bool:
        """Whether it is read even while many data wait: all of its own were taken, or its last rows are wanted."""
        return self.queue.is_empty and (self.tail is not None or self.last is not None)

    def silent_s(self, now: float, moved_at: float) -> float:
        """How long the file system has not responded, for this file or, while it is queued, for any file.

        Args:
            moved_at: when the link resolver last got a response for any file.
        """
        if self.thread is not None:
            return self.thread.silent_s(now)
        return now - (max(self.asked_at, moved_at) if self.is_queued else self.asked_at)

    def wake(self) -> None:
        if self.thread is not None:
            self.thread.wake()


def locate(follow: FollowedFile, fs: FileSystem, mount_of: Callable[[str], Mount]) -> Mount:
    """Resolve the symlinks of a file's path and set the mount that they lead to."""
    try:
        follow.real_path = fs.realpath(follow.path)
    except (OSError, ValueError):
        # If the path cannot be resolved, it is used as it is; the tail will report the error.
        follow.real_path = follow.real_path or follow.path
    follow.mount = mount_of(follow.real_path)
    return follow.mount


class MountThread:
    """Polls the files of one mount in turn, for as long as it runs.

    Args:
        tail_options: how files are followed; `is_network` is set from the mount.
        hand_over: takes a file whose symlinks now lead to another mount.
        on_data: called when there is something new, if given.
        watcher: reports changes between polls; None if the mount has no events.
    """

    def __init__(
        self,
        *,
        mount: Mount,
        pace: Backoff,
        fs: FileSystem,
        clock: Clock,
        tail_options: TailOptions,
        mount_of: Callable[[str], Mount],
        hand_over: Callable[[FollowedFile, Mount], None],
        on_data: Callable[[], None] | None,
        watcher: Watcher | None,
        watch_from: float,
    ) -> None:
        self._mount = mount
        self._pace = pace
        self._fs = fs
        self._clock = clock
        self._tail_options = tail_options._replace(is_network=mount.is_network)
        self._mount_of = mount_of
        self._hand_over = hand_over
        self._on_data = on_data
        self._watcher = watcher
        self._watch_from = watch_from
        self._arrivals: deque[FollowedFile] = deque()
        self._follows: list[FollowedFile] = []
        self._wake = threading.Event()
        self._has_more = self._is_full = False
        self._changed: deque[str] = deque(maxlen=_CHANGES_KEPT)
        self._last_calm = float("-inf")
        self._is_stopped = False
        self._busy_since: float | None = None
        self._worker = Worker(f"rltop-read {mount.point}")

    def start(self) -> None:
        self._worker.start(self._run)

    def add(self, follow: FollowedFile) -> None:
        self._arrivals.append(follow)
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def stop(self) -> None:
        """End as soon as the file system allows; callable from any thread."""
        self._is_stopped = True
        self._wake.set()

    def silent_s(self, now: float) -> float:
        """How long the current poll has taken; callable from any thread."""
        since = self._busy_since
        return now - since if since is not None else 0.0

    def _run(self) -> None:
        while not self._is_stopped:
            self._wake.clear()
            self._pass()
            if not self._is_stopped:
                self._wake.wait(self._wait_s())
        for follow in self._follows:
            self._leave(follow)

    def _pass(self) -> None:
        while self._arrivals:
            self._follows.append(self._arrivals.popleft())
        self._has_more = self._is_full = False
        changed = self._take_changed()
        waiting = sum(follow.queue.held for follow in self._follows)
        for follow in self._follows.copy():
            if self._is_stopped:
                return
            if follow.is_closed:
                self._leave(follow)
                self._follows.remove(follow)
            elif waiting >= MOST_WAITING_BYTES and not follow.is_next:
                self._is_full = True
            elif follow.real_path in changed or self._due_at(follow) <= self._clock.monotonic():
                waiting -= follow.queue.held
                self._attend(follow)
                waiting += follow.queue.held

    def _take_changed(self) -> set[str]:
        now = self._clock.monotonic()
        changed: set[str] = set()
        if self._changed and now - self._last_calm >= CALM_S:
            self._last_calm = now
            while self._changed:
                changed.add(self._changed.popleft())
        return changed

    def _attend(self, follow: FollowedFile) -> None:
        self._busy_since = self._clock.monotonic()
        before = follow.status
        try:
            has_news = self._look(follow)
        except Exception as error:
            # The boundary of the thread: a failure with one file must be shown, and must not stop the others.
            self._follows.remove(follow)
            follow.status = TailStatus(TailState.REFUSED, f"reading stopped: {error!r}", before.size, before.offset)
            follow.has_looked = has_news = True
        finally:
            self._busy_since = None
        is_other = (follow.status.state, follow.status.message) != (before.state, before.message)
        if (has_news or is_other) and self._on_data is not None and not self._is_stopped:
            self._notify(self._on_data)

    def _notify(self, on_data: Callable[[], None]) -> None:
        try:
            on_data()
        except RuntimeError:
            # The event loop to be woken is closed, so there is no listener any more.
            self._on_data = None

    def _look(self, follow: FollowedFile) -> bool:
        """Poll one file; True if there is new data to take."""
        now = self._clock.monotonic()
        if now >= follow.next_locate:
            follow.next_locate = now + RESOLVE_S
            if not self._stays(follow):
                return False
        if follow.tail is None and not self._open(follow):
            return False
        assert follow.tail is not None
        if self._watcher is not None and now >= max(follow.next_watch, self._watch_from):
            self._watch(follow, self._watcher, now)
        events = follow.tail.poll(min(follow.read_bytes, follow.queue.room)) if follow.queue.room else []
        if follow.tail.status.state is TailState.REFUSED and isinstance(follow.tail, Tail):
            follow.tail = folder_at(follow.path, self._fs, self._clock) or follow.tail
        if follow.is_closed:
            return False
        follow.queue.put(events)
        follow.status = follow.tail.status
        follow.has_looked = True
        self._schedule(follow, has_news=bool(events))
        return bool(events)

    def _schedule(self, follow: FollowedFile, *, has_news: bool) -> None:
        pace = self._pace
        if has_news:
            follow.interval_s = pace.shortest_s
        else:
            crowd_s = len(self._follows) / QUIET_LOOKS_PER_S
            follow.interval_s = max(
                crowd_s, min(pace.longest_s, max(pace.shortest_s, follow.interval_s * pace.backoff))
            )
        has_more = follow.status.state is TailState.READING and (has_news or follow.status.searched > 0)
        self._has_more |= has_more
        follow.next_look = self._clock.monotonic() + (0.0 if has_more else follow.interval_s)

    def _stays(self, follow: FollowedFile) -> bool:
        """Is the file still on this mount? If not, it is handed to that mount's thread."""
        mount = locate(follow, self._fs, self._mount_of)
        if (mount.point, mount.is_network) == (self._mount.point, self._mount.is_network):
            return True
        self._follows.remove(follow)
        if follow.tail is not None and mount.is_network != self._mount.is_network:
            follow.tail.follow_as(is_network=mount.is_network)
        follow.is_watched = False
        follow.next_watch = 0.0
        self._hand_over(follow, mount)
        return False

    def _open(self, follow: FollowedFile) -> bool:
        if follow.start is None and follow.last is not None:
            head = b""
            try:
                start, head = find_tail_start(self._fs, follow.path, follow.last)
            except OSError as error:
                if not is_missing(error):
                    follow.status = unreachable(error, 0)
                    follow.has_looked = True
                    self._schedule(follow, has_news=False)
                    return False
                start = 0
            follow.start = start
            follow.queue.put([Chunk(head, 0, 0, is_head=True)] if head else [])
        follow.tail = open_tail(follow.path, self._fs, self._clock, self._tail_options, follow.start or 0)
        return True

    def _watch(self, follow: FollowedFile, watcher: Watcher, now: float) -> None:
        folder = posixpath.dirname(follow.real_path)
        follow.is_watched = watcher.wake_on_change(folder, self._on_change)
        follow.next_watch = now + (RESOLVE_S if follow.is_watched else WATCH_RETRY_S)

    def _on_change(self, paths: Sequence[str]) -> None:
        self._changed.extend(paths)
        self._wake.set()

    def _leave(self, follow: FollowedFile) -> None:
        if follow.tail is not None:
            follow.tail.close()

    def _due_at(self, follow: FollowedFile) -> float:
        if not follow.has_room:
            return float("inf")
        if self._watcher is None or not follow.has_looked:
            return follow.next_look
        return min(follow.next_look, max(follow.next_watch, self._watch_from))

    def _wait_s(self) -> float:
        if self._is_full:
            return CALM_S
        now = self._clock.monotonic()
        times = [self._due_at(follow) for follow in self._follows]
        if self._changed:
            times.append(self._last_calm + CALM_S)
        # With many files one is nearly always due, so they are polled in batches, unless one has more to read.
        least_s = 0.0 if self._has_more or self._changed else len(self._follows) / FILES_A_PASS_PER_S
        return min(LONGEST_WAIT_S, max(least_s, min(times, default=now + LONGEST_WAIT_S) - now))


DEFAULT_OPTIONS = ReaderOptions()


class ThreadedFeed(Feed):
    """The feed of a file that is read by a thread; every method returns at once."""

    def __init__(self, follow: FollowedFile, clock: Clock, stuck_after_s: float, moved_at: Callable[[], float]) -> None:
        self.follow = follow
        self._clock = clock
        self._stuck_after_s = stuck_after_s
        self._moved_at = moved_at

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        follow = self.follow
        was_full = not follow.has_room
        events = follow.queue.take(max_bytes)
        if was_full and follow.has_room:
            follow.wake()
        return events

    @property
    def status(self) -> TailStatus:
        """The status of the last poll, or how long there has been no answer."""
        silent_s = self._silent_s()
        if silent_s < self._stuck_after_s:
            return self.follow.status
        message = f"no answer from the file system for {silent_s:.0f} s"
        return self.follow.status._replace(state=TailState.STUCK, message=message)

    @property
    def is_exhausted(self) -> bool:
        """Has everything from the last poll been taken, or does the file system not answer?"""
        follow = self.follow
        if not follow.queue.is_empty:
            return False
        if self._silent_s() >= self._stuck_after_s:
            return True
        return follow.has_looked and follow.status.state is not TailState.READING

    @property
    def is_network(self) -> bool:
        mount = self.follow.mount
        return mount is not None and mount.is_network

    @property
    def is_at_rest(self) -> bool:
        """Has everything from the last poll been taken, and did that reach the end of the file?"""
        return self.follow.queue.is_empty and self.follow.status.state is TailState.AT_END

    def close(self) -> None:
        self.follow.is_closed = True
        self.follow.wake()

    def _silent_s(self) -> float:
        return self.follow.silent_s(self._clock.monotonic(), self._moved_at())


class Reader:
    """Follows any number of files with daemon threads, one per mount."""

    def __init__(
        self,
        options: ReaderOptions = DEFAULT_OPTIONS,
        fs: FileSystem | None = None,
        clock: Clock | None = None,
        on_data: Callable[[], None] | None = None,
        mountinfo: Callable[[], str] = read_mountinfo,
    ) -> None:
        """Starts no thread yet.

        Args:
            clock: the system clock by default; it must advance on its own.
            on_data: called from a reading thread after new data or a new status;
                must not block, for example `loop.call_soon_threadsafe`.
        """
        self._options = options
        self._fs = fs or FileSystem()
        self._clock = clock or Clock()
        self._on_data = on_data
        self._mountinfo = mountinfo
        self._watcher = Watcher() if options.use_watcher else None
        self._watch_from = self._clock.monotonic() + options.watch_delay_s
        self._threads: dict[tuple[str, bool], MountThread] = {}
        self._lock = threading.Lock()
        self._resolver = LinkResolver(self._begin)
        self._moved_at = float("-inf")
        self._is_closed = False

    def follow(self, path: str | os.PathLike[str], *, start: int = 0, last: LastRows | None = None) -> ThreadedFeed:
        """Follow a file; makes no file system call itself, even symlinks are resolved by a thread."""
        absolute = os.path.abspath(path)  # noqa: PTH100 - must not resolve symlinks
        queue = EventQueue(self._options.queue_bytes)
        follow = FollowedFile(absolute, queue, self._options.read_bytes, self._clock.monotonic(), start, last)
        if not self._resolver.add(follow):
            # No more threads are allowed: the mount's thread will resolve the symlinks, starting with the plain path.
            follow.real_path = absolute
            self.hand_over(follow, self.mount_of(absolute))
        return ThreadedFeed(follow, self._clock, self._options.stuck_after_s, lambda: self._moved_at)

    def close(self) -> None:
        """Tell every thread to end, without waiting; a thread that hangs is abandoned."""
        with self._lock:
            self._is_closed = True
            threads = list(self._threads.values())
        for thread in threads:
            thread.stop()
        if self._watcher is not None:
            self._watcher.close()

    def mount_of(self, path: str) -> Mount:
        return mount_of(path, self._mountinfo())

    def _begin(self, follow: FollowedFile) -> None:
        follow.asked_at = self._clock.monotonic()
        follow.is_queued = False
        mount = locate(follow, self._fs, self.mount_of)
        self._moved_at = self._clock.monotonic()
        follow.next_locate = self._moved_at + RESOLVE_S
        self.hand_over(follow, mount)

    def hand_over(self, follow: FollowedFile, mount: Mount) -> None:
        """Give a file to the thread of the mount that its symlinks lead to."""
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
                    Backoff(options.network_poll_s, options.network_poll_max_s, options.network_backoff)
                    if mount.is_network
                    else Backoff(options.local_poll_s, options.local_poll_s, 1.0)
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
                    watcher=None if mount.is_network else self._watcher,
                    watch_from=self._watch_from,
                )
                self._threads[key] = thread
                if not self._is_closed:
                    thread.start()
            return thread


HANGS_S = 0.1
"""If one file takes longer, another thread continues with the rest."""


class LinkResolver:
    """Resolves the symlinks of files whose mount is not known yet.

    Symlinks may lead anywhere, so resolving them may hang like any read. One thread resolves all files, since a
    thousand files must not need a thousand threads; if it makes no progress for `HANGS_S`, another one takes over.

    Args:
        begin: resolves the symlinks of a file and hands it over.
    """

    def __init__(self, begin: Callable[[FollowedFile], None]) -> None:
        self._begin = begin
        self._left: deque[FollowedFile] = deque()
        self._done = 0
        self._lock = threading.Lock()
        self._is_watched = False

    def add(self, follow: FollowedFile) -> bool:
        """Queue a file; False if no thread can be started."""
        with self._lock:
            self._left.append(follow)
            if self._is_watched:
                return True
            try:
                Worker("rltop-resolve").start(self._watch)
            except RuntimeError:
                self._left.pop()
                return False
            self._is_watched = True
            return True

    def _watch(self) -> None:
        """Keep a thread working while files are left."""
        done = -1
        worker = Worker("rltop-resolve")
        while True:
            with self._lock:
                if not self._left:
                    self._is_watched = False
                    return
            if not worker.is_busy or self._done == done:
                try:
                    worker.start(self._work)
                except RuntimeError:
                    self._work()
            done = self._done
            worker.join(HANGS_S)

    def _work(self) -> None:
        with contextlib.suppress(IndexError):
            while True:
                self._begin(self._left.popleft())
                self._done += 1
