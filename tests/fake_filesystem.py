"""A file system in memory that can misbehave as real ones do."""

from __future__ import annotations

import errno
import os
import posixpath
import stat
import threading
from dataclasses import dataclass, field

from rltop.sources.file import DirectoryEntry, FileStat, FileSystem


@dataclass(eq=False)
class Node:
    """A file on the server, and how far this client's view is behind."""

    inode: int
    data: bytearray = field(default_factory=bytearray)
    mtime_ns: int = 0
    names: set[str] = field(default_factory=set)
    mode: int = stat.S_IFREG | 0o644
    stale_size: int | None = None
    unseen: list[tuple[int, int]] = field(default_factory=list)


class FakeFileSystem(FileSystem):
    """Files, names and handles; tests switch on each kind of misbehaviour.

    Attributes:
        reuses_inodes: a freed inode goes to the next file, as on ext4.
        longest_read: most bytes that a read returns.
        errors: raised one by one by the next calls.
        has_room: handles may be kept open.
        denied: every call with a path fails with EACCES.
        gate: reads block until it is set.
    """

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self.links: dict[str, str] = {}
        self.handles: dict[int, Node] = {}
        self.reuses_inodes = False
        self.longest_read: int | None = None
        self.errors: list[OSError] = []
        self.denied = False
        self.has_room = True
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[str] = []
        self._next_handle = 100
        self._next_inode = 1
        self._free: list[int] = []
        self._ticks = 0

    # Operations of a writer.

    def write(self, path: str, data: bytes, offset: int | None = None) -> Node:
        """Append, or write at an offset; creates the file if needed."""
        node = self.names.get(path) or self._make(path)
        at = len(node.data) if offset is None else offset
        if at > len(node.data):
            node.data.extend(bytes(at - len(node.data)))
        node.data[at : at + len(data)] = data
        self._touch(node)
        return node

    def truncate(self, path: str, size: int = 0) -> None:
        """Cut the file, as opening it for writing does."""
        del self.names[path].data[size:]
        self._touch(self.names[path])

    def delete(self, path: str) -> None:
        """Unlink the name, and free the inode if no handle is open."""
        node = self.names.pop(path)
        node.names.discard(path)
        self._release(node)

    def rename(self, old: str, new: str) -> None:
        """Rename, replacing an existing file."""
        node = self.names.pop(old)
        node.names.discard(old)
        if new in self.names:
            self.delete(new)
        self.names[new] = node
        node.names.add(new)

    def replace(self, path: str, data: bytes) -> None:
        """Replace the file by writing a new one and renaming it."""
        self.write(path + ".tmp", data)
        self.rename(path + ".tmp", path)

    # Operations of the reader.

    def stat(self, target: str | int) -> FileStat:
        self._answer("stat", target)
        node = self.node_of(target)
        size = len(node.data) if node.stale_size is None else min(node.stale_size, len(node.data))
        return FileStat(size, node.inode, 1, len(node.names), node.mtime_ns, node.mode)

    def open(self, path: str) -> int:
        self._answer("open", path)
        node = self.node_of(path)
        self._next_handle += 1
        self.handles[self._next_handle] = node
        return self._next_handle

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        self._answer("read", handle)
        node = self.node_of(handle)
        limit = len(node.data) if node.stale_size is None else min(node.stale_size, len(node.data))
        size = min(size, self.longest_read or size, max(0, limit - offset))
        data = bytearray(node.data[offset : offset + size])
        for start, stop in node.unseen:
            low, high = max(start - offset, 0), min(stop - offset, len(data))
            if low < high:
                data[low:high] = bytes(high - low)
        return bytes(data)

    def seek_data(self, handle: int, offset: int) -> int | None:
        return offset

    def close(self, handle: int) -> None:
        node = self.handles.pop(handle)
        self._release(node)

    def may_keep(self, handle: int) -> bool:
        return self.has_room and handle in self.handles

    def scandir(self, directory: str) -> list[DirectoryEntry]:
        self._answer("scandir", directory)
        found = [(path, node) for path, node in self.names.items() if posixpath.dirname(path) == directory]
        return [DirectoryEntry(posixpath.basename(path), node.inode) for path, node in found]

    def realpath(self, path: str) -> str:
        while path in self.links:
            path = self.links[path]
        return path

    def _answer(self, call: str, target: str | int) -> None:
        self.calls.append(call)
        self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        if self.denied and isinstance(target, str):
            raise os_error(errno.EACCES)

    def node_of(self, target: str | int) -> Node:
        if isinstance(target, int):
            return self.handles[target]
        node = self.names.get(self.realpath(target))
        if node is None:
            raise os_error(errno.ENOENT)
        return node

    def _make(self, path: str) -> Node:
        if self._free and self.reuses_inodes:
            inode = self._free.pop(0)
        else:
            inode, self._next_inode = self._next_inode, self._next_inode + 1
        node = self.names[path] = Node(inode)
        node.names.add(path)
        self._touch(node)
        return node

    def _release(self, node: Node) -> None:
        if not node.names and node not in self.handles.values():
            self._free.append(node.inode)

    def _touch(self, node: Node) -> None:
        self._ticks += 1
        node.mtime_ns = self._ticks


def os_error(number: int) -> OSError:
    """An OSError as the kernel would raise it."""
    return OSError(number, os.strerror(number))
