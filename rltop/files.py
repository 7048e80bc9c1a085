"""Safe file access: only regular files are opened, files are replaced atomically.

`Worker` is a daemon thread for file access that may hang; nothing waits for it, not even the exit of the program.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import threading
from collections.abc import Callable
from itertools import islice
from typing import BinaryIO

_KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip

OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""Read only, not inherited by child processes, and never blocking on a named pipe."""


def kind_word(mode: int) -> str:
    """The file type in this `st_mode`, as text."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")


def has_wide_characters(head: bytes) -> bool:
    """Are these two ASCII characters of UTF-16, or one and a line end, unmarked?"""
    ascii_, zeros = (head[:4:2], head[1:4:2]) if head[:1] != b"\0" else (head[1:4:2], head[:4:2])
    return zeros == b"\0\0" and 32 <= ascii_[0] < 127 and (32 <= ascii_[1] < 127 or ascii_[1] in b"\r\n")


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file, which the caller closes; pipes and devices are never opened, so they notice nothing.

    Raises:
        OSError: from the file system, or because it is not a regular file.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a path may not be valid text
    except ValueError as error:
        raise OSError(errno.EINVAL, "not a valid file name", os.fspath(path)) from error
    if stat.S_ISREG(mode):
        # The file may have been replaced since `stat`: open without blocking, and check again.
        file = open(os.open(path, OPEN_FLAGS), "rb")  # noqa: PTH123, SIM115 - the caller closes it
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode):
            return file
        file.close()
    raise OSError(errno.EINVAL, f"a {kind_word(mode)}, not a regular file", os.fspath(path))


MOST_NAMES = 4096
"""Names read from one folder; a folder of a million files is not where a run keeps its own."""


def names_in(folder: str | os.PathLike[str]) -> list[str]:
    """The names in a folder, at most `MOST_NAMES`, unordered; empty if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in islice(entries, MOST_NAMES)]
    except (OSError, ValueError):
        return []


def first_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """The beginning of a regular file; raises like `open_regular`."""
    with open_regular(path) as file:
        # A non-blocking read gives None if a kernel file has no data yet (/proc/kmsg).
        return file.read(most) or b""


def last_bytes(file: BinaryIO, most: int) -> bytes:
    file.seek(max(0, file.seek(0, os.SEEK_END) - most))
    return file.read(most) or b""


def folders_in(folder: str | os.PathLike[str]) -> list[str]:
    """The sorted names of the visible subfolders among a folder's first `MOST_NAMES` entries."""
    try:
        with os.scandir(folder) as entries:
            return sorted(one.name for one in islice(entries, MOST_NAMES) if one.name[0] != "." and _is_folder(one))
    except (OSError, ValueError):
        return []


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def replace_file(path: str | os.PathLike[str], data: bytes, *, is_private: bool = False) -> None:
    """Replace a file atomically: a reader sees the old content or the new, never a part.

    Args:
        path: the file; symlinks are followed. An existing file keeps its permissions.
        is_private: readable by its owner only, whatever its permissions were.

    Raises:
        OSError: from the file system, or because the path is not a regular file.
    """
    try:
        target = os.path.realpath(path)
        held = os.stat(target) if os.path.exists(target) else None  # noqa: PTH110, PTH116 - as in `open_regular`
    except ValueError as error:
        raise OSError(errno.EINVAL, "not a valid file name", os.fspath(path)) from error
    if held is not None and not stat.S_ISREG(held.st_mode):
        raise OSError(errno.EINVAL, f"a {kind_word(held.st_mode)}, not a regular file", os.fspath(path))
    part = os.path.join(os.path.dirname(target), f".rltop-{os.getpid()}.part")  # noqa: PTH118, PTH120
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600 if is_private else 0o666)
    try:
        with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
            if held is not None and not is_private:
                os.fchmod(descriptor, stat.S_IMODE(held.st_mode))
            file.flush()
            os.fsync(descriptor)
        os.replace(part, target)  # noqa: PTH105
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)  # noqa: PTH108
        raise


class Worker:
    """Runs one piece of work at a time in a daemon thread; a read that hangs is abandoned."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def is_busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, work: Callable[[], object]) -> None:
        """Start a thread for `work`; one that is still running continues.

        Raises:
            RuntimeError: no thread can be started.
        """
        thread = threading.Thread(target=work, name=self._name, daemon=True)
        thread.start()
        self._thread = thread

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait until the work has ended, or for the timeout; has it ended?"""
        if self._thread is not None:
            self._thread.join(timeout_s)
        if self.is_busy:
            return False
        self._thread = None  # a thread object would keep the owner from being copied
        return True
