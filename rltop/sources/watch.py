"""Wake-ups from inotify, which only shorten the wait for the next poll.

The only user of watchdog. It is imported when the first folder is watched, because the import takes
as long as the whole first frame may.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rltop.files import Worker
from rltop.sources.file import FEW, limit

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver, ObservedWatch

STOP_WAIT_S = 0.2

MOST_FOLDERS = 32
"""Most folders watched, because each costs watchdog a thread; changes in other folders are found by polling."""

Changed = Callable[[Sequence[str]], None]
"""Called with the paths of an event: two if a file was moved."""


@dataclass(slots=True)
class _Folder:
    inode: int
    watch: ObservedWatch
    callbacks: list[Changed]


class Watcher:
    """Watches any number of folders with one observer.

    Folders, not files, because the watch on a file silently dies when the file is replaced. Events are filtered:
    opening and closing are events, too, so reading a file would otherwise wake its reader.
    """

    def __init__(self) -> None:
        self.reason = ""
        """Why the last folder could not be watched; empty if it could."""
        self._lock = threading.Lock()
        self._observer: BaseObserver | None = None
        self._folders: dict[str, _Folder] = {}
        self._is_closed = False

    def wake_on_change(self, directory: str, callback: Changed) -> bool:
        """Call `callback` whenever a file in `directory` changes.

        Repeating the call is cheap, and necessary from time to time: a folder that was deleted and created again must
        be watched again.

        Args:
            directory: an existing folder on a mount that delivers events; on other mounts the watch succeeds and stays
                silent.
            callback: called on the observer's thread with the changed paths; may only record them and set an event.

        Returns:
            False if the folder cannot be watched; `reason` says why.
        """
        with self._lock:
            if self._is_closed:
                return False
            if directory not in self._folders and len(self._folders) >= MOST_FOLDERS:
                self.reason = f"{directory}: already watching {MOST_FOLDERS} folders"
                return False
            if self._observer is None and limit() <= FEW:
                self.reason = f"{directory}: limit of {limit()} open files"
                return False
            try:
                folder = self._watch(directory)
            except (OSError, ImportError) as error:
                self.reason = f"{directory}: {getattr(error, 'strerror', None) or error}"
                return False
            if callback not in folder.callbacks:
                folder.callbacks = [*folder.callbacks, callback]
            self.reason = ""
            return True

    def close(self) -> None:
        """Stop watching; waits at most `STOP_WAIT_S`."""
        self._is_closed = True
        observer, self._observer = self._observer, None
        if observer is not None:
            # stop() joins the observer's own threads, and quitting must not depend on them.
            stopper = Worker("rltop-watch-stop")
            stopper.start(observer.stop)
            stopper.join(STOP_WAIT_S)

    def _watch(self, directory: str) -> _Folder:
        inode = os.stat(directory).st_ino  # noqa: PTH116 - watchdog takes plain strings
        known = self._folders.get(directory)
        if known is not None and known.inode == inode:
            return known
        if self._observer is None:
            observer = _new_observer()
            observer.start()
            self._observer = observer
        if known is not None:
            self._observer.unschedule(known.watch)
            del self._folders[directory]
        callbacks = known.callbacks if known is not None else []
        watch = _schedule(self._observer, directory, lambda paths: self._changed(directory, paths))
        folder = self._folders[directory] = _Folder(inode, watch, callbacks)
        return folder

    def _changed(self, directory: str, paths: Sequence[str]) -> None:
        folder = self._folders.get(directory)
        if folder is not None:
            for callback in folder.callbacks:
                callback(paths)


def _new_observer() -> BaseObserver:
    """An inotify observer.

    Created explicitly: the library's default may fall back to an observer that
    keeps listing whole folders, which the polling here makes pointless.

    Raises:
        ImportError: no inotify on this system.
        OSError: no more inotify instances for this user.
    """
    import logging  # noqa: PLC0415 - late on purpose

    from watchdog.utils import UnsupportedLibcError  # noqa: PLC0415 - late on purpose

    # Messages of the library at shutdown would end up in the caller's log.
    logging.getLogger("watchdog").addHandler(logging.NullHandler())

    try:
        from watchdog.observers.inotify import InotifyObserver  # noqa: PLC0415 - late on purpose
    except UnsupportedLibcError as error:
        raise ImportError(str(error)) from error
    return InotifyObserver()


def _schedule(observer: BaseObserver, directory: str, changed: Changed) -> ObservedWatch:
    from watchdog import events  # noqa: PLC0415 - late on purpose

    class Waker(events.FileSystemEventHandler):
        def dispatch(self, event: events.FileSystemEvent) -> None:
            changed([os.fsdecode(path) for path in (event.src_path, event.dest_path) if path])

    wanted: list[type[events.FileSystemEvent]] = [
        events.FileModifiedEvent,
        events.FileCreatedEvent,
        events.FileMovedEvent,
        events.FileDeletedEvent,
    ]
    return observer.schedule(Waker(), directory, recursive=False, event_filter=wanted)
