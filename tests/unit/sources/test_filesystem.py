"""Which mount a path lies on, and what the local file system says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tables import each_row

from rltop.sources.file import FileSystem, mount_of, parse_mountinfo, read_fully, read_mountinfo

TABLE = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:40 / /home rw,relatime shared:2 master:3 - nfs4 server:/home rw,vers=4.2
31 27 0:41 / /home/local rw - xfs /dev/vdb rw
32 27 0:42 / /mnt/my\040runs rw - fuse.sshfs me@host:/runs rw
33 27 0:43 / /scratch rw - lustre mds@tcp:/scratch rw
34 27 0:44 / /group rw - autofs systemd-1 rw
35 34 0:45 / /group rw - cifs //server/group rw
36 27 0:46 / /overlay rw - overlay overlay rw,lowerdir=/a
not a line of the table
"""


@each_row(
    ("path", "point", "kind", "is_network"),
    [
        ("/tmp/metrics.jsonl", "/", "ext4", False),
        ("/home/me/metrics.jsonl", "/home", "nfs4", True),
        ("/home", "/home", "nfs4", True),
        ("/homes/metrics.jsonl", "/", "ext4", False),
        ("/home/local/metrics.jsonl", "/home/local", "xfs", False),
        ("/mnt/my runs/metrics.jsonl", "/mnt/my runs", "fuse.sshfs", True),
        ("/scratch/metrics.jsonl", "/scratch", "lustre", True),
        ("/group/metrics.jsonl", "/group", "cifs", True),
        ("/overlay/metrics.jsonl", "/overlay", "overlay", False),
    ],
)
def test_the_longest_mount_point_above_a_path_decides(path: str, point: str, kind: str, is_network: bool) -> None:
    mount = mount_of(path, TABLE)
    assert (mount.point, mount.kind, mount.is_network) == (
        point,
        kind,
        is_network,
    )


def test_without_a_table_the_careful_way_is_taken() -> None:
    assert mount_of("/tmp/x", "").is_network


def test_a_malformed_line_is_passed_over() -> None:
    assert len(list(parse_mountinfo(TABLE))) == 9


@pytest.mark.skipif(not Path("/proc/self/mountinfo").exists(), reason="no mount table on this system")
def test_this_machine_has_a_mount_for_everything() -> None:
    assert mount_of("/proc/self", read_mountinfo()).kind == "proc"


def test_local_files(tmp_path: Path) -> None:
    fs = FileSystem()
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(path)
    handle = fs.open(str(path))
    assert fs.read_at(handle, 4, 3) == b"3456"
    assert fs.read_at(handle, 4, 10) == b""
    assert fs.stat(handle) == fs.stat(str(path)) == fs.stat(str(tmp_path / "link"))
    assert fs.stat(handle).size == 10
    assert fs.stat(handle).is_regular
    path.unlink()
    assert fs.stat(handle).nlink == 0
    fs.close(handle)
    path.write_bytes(b"")
    assert fs.realpath(str(tmp_path / "link")) == str(path.resolve())
    assert (path.name, path.stat().st_ino) in fs.scandir(str(tmp_path))
    assert fs.stat(str(tmp_path)).kind_word == "directory"


def test_opening_a_pipe_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    fs = FileSystem()
    handle = fs.open(str(tmp_path / "pipe"))
    assert fs.stat(handle).kind_word == "named pipe"
    fs.close(handle)


def test_short_reads_are_completed() -> None:
    class Short(FileSystem):
        def read_at(self, handle: int, size: int, offset: int) -> bytes:
            return b"0123456789"[offset : offset + min(size, 3)]

    assert read_fully(Short(), 0, 8, 1) == b"12345678"
    assert read_fully(Short(), 0, 80, 1) == b"123456789"


def test_data_behind_a_hole_is_found_without_reading(tmp_path: Path) -> None:
    fs, path = FileSystem(), tmp_path / "f"
    with path.open("wb") as file:
        file.write(b"a")
        file.seek(50 << 20)
        file.write(b"b")
        file.truncate(100 << 20)
    handle = fs.open(str(path))
    try:
        found = fs.seek_data(handle, 1 << 20)
        if found == 1 << 20:
            pytest.skip("this file system knows of no holes")
        assert found == 50 << 20
        assert fs.seek_data(handle, 60 << 20) is None
        assert fs.read_at(handle, 1, 0) == b"a"
    finally:
        fs.close(handle)
    with Path("/proc/self/status").open("rb") as status:
        assert fs.seek_data(status.fileno(), 10) == 10
