"""What a quiet file costs, counted instead of timed: the same on every machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from rltop.sources.events import TailOptions
from rltop.sources.file import DirectoryEntry, FileStat, FileSystem
from rltop.sources.tail import Tail

QUIET_POLL_CALLS = 2
QUIET_NETWORK_POLL_CALLS = 4
"""Calls of the file system for one look at a file to which nothing has happened."""


class CountingFileSystem(FileSystem):
    """The local file system, with every call that reaches the kernel counted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def stat(self, target: str | int) -> FileStat:
        self.calls.append("stat")
        return super().stat(target)

    def open(self, path: str) -> int:
        self.calls.append("open")
        return super().open(path)

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        self.calls.append("read_at")
        return super().read_at(handle, size, offset)

    def close(self, handle: int) -> None:
        self.calls.append("close")
        super().close(handle)

    def scandir(self, directory: str) -> list[DirectoryEntry]:
        self.calls.append("scandir")
        return super().scandir(directory)

    def realpath(self, path: str) -> str:
        self.calls.append("realpath")
        return super().realpath(path)


@pytest.mark.parametrize(
    ("is_network", "most"),
    [(False, QUIET_POLL_CALLS), (True, QUIET_NETWORK_POLL_CALLS)],
    ids=["local", "network"],
)
def test_a_look_at_a_quiet_file_asks_the_kernel_little(tmp_path: Path, is_network: bool, most: int) -> None:
    path, fs = tmp_path / "metrics.jsonl", CountingFileSystem()
    path.write_bytes(b'{"step":1,"loss":0.5}\n')
    tail = Tail(str(path), fs, options=TailOptions(is_network=is_network))
    try:
        while tail.poll():
            pass
        fs.calls.clear()
        polls = 20
        for _ in range(polls):
            assert tail.poll() == []
        assert len(fs.calls) <= polls * most, fs.calls[: 2 * most]
    finally:
        tail.close()
