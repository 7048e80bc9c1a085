"""A small interface to the file system, the properties of mounts, and the limit of open files.

The other modules here access files only through `FileSystem`, so that a test can use a faulty one.
The number of open files needs no bookkeeping: the kernel assigns the lowest free descriptor,
so a descriptor's number shows roughly how many are in use.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from rltop.files import kind_word
from rltop.structs import NamedTuple

MOUNTINFO = Path("/proc/self/mountinfo")

EVENT_KINDS = frozenset(
    {
        "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "tmpfs", "ramfs", "f2fs", "bcachefs", "overlay",
    }
)  # fmt: skip
"""File systems in which every change passes through this kernel, so that inotify sees it.

An allow-list: on any other kind a watch succeeds as well, but misses what other
machines write. Source: the local part of the table of magic numbers in coreutils
`src/stat.c`, which `tail -f` uses (an unknown kind is polled).
"""


class FileStat(NamedTuple):
    """Properties of a file that are known without reading it.

    Attributes:
        inode, device: identify the file as long as it exists.
        nlink: number of hard links; 0 means deleted, but still open here.
    """

    size: int
    inode: int
    device: int
    nlink: int = 1
    mtime_ns: int = 0
    mode: int = stat.S_IFREG | 0o644

    @property
    def identity(self) -> tuple[int, int]:
        return self.device, self.inode

    @property
    def stamp(self) -> tuple[int, int, int]:
        """Changes when the file is written to or replaced."""
        return self.inode, self.size, self.mtime_ns

    @property
    def is_regular(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def kind_word(self) -> str:
        return kind_word(self.mode)


class DirectoryEntry(NamedTuple):
    """A name in a directory and its inode according to the directory."""

    name: str
    inode: int


class FileSystem:
    """The system calls of the kernel; every method may raise OSError."""

    def stat(self, target: str | int) -> FileStat:
        """Stat a path (following symlinks) or an open descriptor."""
        seen = os.stat(target)  # noqa: PTH116 - takes descriptors, too
        return FileStat(seen.st_size, seen.st_ino, seen.st_dev, seen.st_nlink, seen.st_mtime_ns, seen.st_mode)

    def open(self, path: str) -> int:
        """Open for reading, without waiting for a writer."""
        return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes at `offset`; empty at the end of the file."""
        return os.pread(handle, size, offset)

    def seek_data(self, handle: int, offset: int) -> int | None:
        """Offset of the next allocated data; `offset` itself if unsupported, None if there is none."""
        try:
            # This moves the descriptor's own position, which `read_at` does not use.
            return os.lseek(handle, offset, os.SEEK_DATA)
        except OSError as error:
            # Many file systems (FUSE, /proc) do not support holes; any other error will show at the next read.
            return None if error.errno == errno.ENXIO else offset

    def close(self, handle: int) -> None:
        os.close(handle)

    def may_keep(self, handle: int) -> bool:
        """May the handle stay open between polls? False if descriptors run short."""
        return handle < limit() - RESERVE

    def scandir(self, directory: str) -> list[DirectoryEntry]:
        with os.scandir(directory) as entries:
            return [DirectoryEntry(entry.name, entry.inode()) for entry in entries]

    def realpath(self, path: str) -> str:
        """The path with every symlink resolved, as far as it exists."""
        return os.path.realpath(path)


def read_fully(fs: FileSystem, handle: int, size: int, offset: int) -> bytes:
    """Read `size` bytes at `offset`, repeating short reads.

    Returns:
        Fewer bytes only at the end of the file.

    Raises:
        OSError: from the file system.
    """
    data = fs.read_at(handle, size, offset)
    while len(data) < size:
        more = fs.read_at(handle, size - len(data), offset + len(data))
        if not more:
            break
        data += more
    return data


def read_part(fs: FileSystem, path: str, size: int, offset: int) -> bytes:
    """Like `read_fully`, for a file that is opened and closed here."""
    handle = fs.open(path)
    try:
        return read_fully(fs, handle, size, offset)
    finally:
        fs.close(handle)


class Mount(NamedTuple):
    """Where a file system is mounted and how it can be watched.

    Attributes:
        point: absolute path of the mount point.
        kind: the kernel's name, with the FUSE subtype: "ext4", "nfs4", "fuse.sshfs".
        is_network: another machine may write, without an event here: files are reopened at each poll, and an apparent
            truncation must be confirmed.
    """

    point: str
    kind: str
    is_network: bool


def read_mountinfo() -> str:
    """The mount table of this process; empty if the system has none."""
    try:
        return MOUNTINFO.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def mount_of(path: str, mountinfo: str | None = None) -> Mount:
    """Find the mount of `path`: the longest mount point above it.

    Reads only the mount table, so it works even if the file system behind the path
    does not respond. The caller must resolve symlinks.

    Returns:
        The mount; of several on one mount point the last, which hides the others.
        Without a usable table, an unknown mount, treated as network.
    """
    text = read_mountinfo() if mountinfo is None else mountinfo
    best = ("/", "unknown")
    for point, kind in parse_mountinfo(text):
        if _is_below(path, point) and len(point) >= len(best[0]):
            best = (point, kind)
    return Mount(*best, is_network=best[1] not in EVENT_KINDS)


@lru_cache(maxsize=2)
def parse_mountinfo(text: str) -> Sequence[tuple[str, str]]:
    """(Mount point, kind) of each line; malformed lines are skipped.

    Format: proc_pid_mountinfo(5). The mount point is the fifth field; the kind is the
    first field after a lone hyphen, which follows any number of optional fields.
    Space, tab, newline and backslash are written in octal.
    """
    found = []
    for line in text.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if separator and len(fields) >= 5 and kinds[0]:
            found.append((_unescape(fields[4]), _unescape(kinds[0])))
    return found


def _unescape(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _is_below(path: str, folder: str) -> bool:
    folder = folder.rstrip("/")
    return path == folder or path.startswith(folder + "/")


HEAD_BYTES = 256
ANCHOR_BYTES = 64


class FileFingerprint:
    """The first 256 bytes of a file and the last 64 that were read.

    The head tells another file from a longer one. The anchor reveals a file that was truncated and has grown past the
    read position again, even if each content starts with the same line. A NUL that was read matches any byte, because a
    hole may be filled later.
    """

    __slots__ = ("anchor", "head")

    def __init__(self) -> None:
        self.head = b""
        self.anchor = b""

    def clear(self) -> None:
        self.head = self.anchor = b""

    def extend(self, data: bytes) -> None:
        """Add bytes that were read, in file order."""
        if len(self.head) < HEAD_BYTES:
            self.head += data[: HEAD_BYTES - len(self.head)]
        size = len(data)
        self.anchor = data[-ANCHOR_BYTES:] if size >= ANCHOR_BYTES else (self.anchor + data)[-ANCHOR_BYTES:]

    def skip(self, size: int) -> None:
        """Add a hole of `size` bytes."""
        self.extend(bytes(min(size, HEAD_BYTES)))

    def load(self, fs: FileSystem, handle: int, offset: int) -> bool:
        """Take the fingerprint of a file that is read from `offset` on.

        Returns:
            False if the file is shorter than `offset`.

        Raises:
            OSError: from the file system.
        """
        head = read_fully(fs, handle, min(HEAD_BYTES, offset), 0)
        length = min(ANCHOR_BYTES, offset)
        anchor = read_fully(fs, handle, length, offset - length)
        if len(head) < min(HEAD_BYTES, offset) or len(anchor) < length:
            return False
        self.head, self.anchor = head, anchor
        return True

    def matches(self, fs: FileSystem, handle: int, offset: int) -> bool | None:
        """Compare with an open file whose read position would be `offset`.

        Returns:
            True: no contradiction; False: other content; None: it matches as far
            as it can be read, but is shorter than what was read before.

        Raises:
            OSError: from the file system.
        """
        is_short = False
        for known, start in ((self.head, 0), (self.anchor, offset - len(self.anchor))):
            if not known:
                continue
            seen = read_fully(fs, handle, len(known), start)
            if seen == known:
                continue
            if any(old not in (0, new) for old, new in zip(known, seen, strict=False)):
                return False
            is_short = is_short or len(seen) < len(known)
        return None if is_short else True


MOST = 1_024
"""No descriptor reaches this, whatever the limit: `select`, which watchdog calls too, fails from there on."""
RESERVE = 128
"""Descriptors kept free for everything but followed files: terminal, event loop, imports, directory listings."""
FEWEST = 16
"""Minimum for the screen: 12 are used at once, and an import without a free descriptor fails with an obscure error."""
FEW = 64
"""At this limit or below, none is spent on inotify."""


def limit() -> int:
    soft = os.sysconf("SC_OPEN_MAX")
    return min(soft, MOST) if soft >= 0 else MOST


def need_files() -> None:
    """Refuse to start with fewer than `FEWEST` descriptors, which would fail later anyway.

    Raises:
        OSError: EMFILE.
    """
    if limit() < FEWEST:
        raise_limit()
        if limit() < FEWEST:
            raise OSError(errno.EMFILE, f"{FEWEST} files must be open at once, {limit()} may be")


def raise_limit() -> None:
    """Raise the soft limit to the hard one or to `MOST`; keep it if that is not allowed."""
    import resource  # noqa: PLC0415 - only needed here, and not before the first frame

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST if hard == resource.RLIM_INFINITY else min(hard, MOST)
    if soft in (resource.RLIM_INFINITY, wanted) or soft > wanted:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        # A sandbox may forbid it; then idle files are closed between polls.
        return
