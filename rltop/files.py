"""Files beside a run, opened without anybody noticing: what is no regular file is not opened at all."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_KINDS = {
    stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device",
}  # fmt: skip

OPEN_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
"""For reading, not for the commands that are started, and without waiting for a writer."""


def kind_word(mode: int) -> str:
    """What a file of this `st_mode` is, as a person says it."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file that merely lies there; what is no file is not even opened, so that nobody at its other end sees it.

    Args:
        path: the file; a link is followed.

    Returns:
        The file, open for reading; the caller closes it.

    Raises:
        OSError: whatever the file system says, or that it is a named pipe, a directory, a device.
    """
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - a path may be bytes that are no text
    except ValueError as error:
        raise OSError(errno.EINVAL, "no file can be called that", os.fspath(path)) from error
    if stat.S_ISREG(mode):
        # What stands there may have been put in its place since: it is opened without waiting, and looked at again.
        file = open(os.open(path, OPEN_FLAGS), "rb")  # noqa: PTH123, SIM115 - a handle, and the caller's to close
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode):
            return file
        file.close()
    raise OSError(errno.EINVAL, f"a {kind_word(mode)}, not a regular file", os.fspath(path))
