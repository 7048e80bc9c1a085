"""A folder of archives: each file is given out whole, again when it was written anew, and never too often."""

from __future__ import annotations

import os
from pathlib import Path

from rltop.clock import FakeClock
from rltop.sources.events import Chunk, Reset, ResetReason, TailState
from rltop.sources.feed import DirectFeed
from rltop.sources.file import FileSystem
from rltop.sources.tail import FolderTail, folder_at


def put(path: Path, data: bytes, at_s: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    os.utime(path, (at_s, at_s))


def drained(tail: FolderTail, clock: FakeClock, max_bytes: int = 7) -> list[bytes]:
    """Everything that a look brings, file by file."""
    clock.advance(10.0)
    files: list[bytes] = []
    while True:
        events = tail.poll(max_bytes)
        for event in events:
            if isinstance(event, Reset):
                assert event.reason is ResetReason.PART
                assert not event.is_restart
                files.append(b"")
            else:
                assert isinstance(event, Chunk)
                assert event.offset == len(files[-1])
                files[-1] += event.data
        if tail.status.state is TailState.AT_END:
            return files


def test_archives_are_given_oldest_first_and_again_when_they_change(tmp_path: Path) -> None:
    put(tmp_path / "steps" / "tail.zip", b"tail of the steps", 300)
    put(tmp_path / "steps" / "block_0.zip", b"old steps, a block", 100)
    put(tmp_path / "events" / "tail.zip", b"events", 200)
    put(tmp_path / "events" / "notes.txt", b"no archive", 400)
    clock = FakeClock()
    tail = FolderTail(str(tmp_path), FileSystem(), clock)
    assert drained(tail, clock) == [b"old steps, a block", b"events", b"tail of the steps"]
    assert drained(tail, clock) == []
    put(tmp_path / "steps" / "tail.zip", b"tail of the steps, one more", 301)
    put(tmp_path / "steps" / "block_1.zip", b"a new block", 302)
    assert drained(tail, clock) == [b"tail of the steps, one more", b"a new block"]
    tail.close()
    assert tail.poll() == []


def test_a_file_that_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "steps" / "tail.zip"
    put(path, b"version one", 100)
    clock = FakeClock()
    tail = FolderTail(str(tmp_path), FileSystem(), clock)
    tail.poll(4)
    put(path, b"version two", 200)
    while tail.status.state is TailState.READING:
        tail.poll(4)
    assert drained(tail, clock) == [b"version two"]


def test_a_large_file_is_read_again_the_less_often(tmp_path: Path) -> None:
    path = tmp_path / "steps" / "block_live.zip"
    put(path, b"x" * 8 * 1024 * 1024, 100)
    clock = FakeClock()
    tail = FolderTail(str(tmp_path), FileSystem(), clock)
    assert len(drained(tail, clock, 1 << 20)) == 1
    put(path, b"y" * 8 * 1024 * 1024, 200)
    clock.advance(-9.0)
    assert drained(tail, clock, 1 << 20) == []
    assert len(drained(tail, clock, 1 << 20)) == 1


def test_a_folder_that_goes_is_said_to_be_lost_and_found_again(tmp_path: Path) -> None:
    home = tmp_path / "files"
    put_in = home / "steps" / "tail.zip"
    home.mkdir()
    put(put_in, b"one", 100)
    clock = FakeClock()
    tail = FolderTail(str(home), FileSystem(), clock)
    assert drained(tail, clock) == [b"one"]
    home.rename(tmp_path / "elsewhere")
    clock.advance(10.0)
    assert tail.poll() == []
    assert tail.status.state is TailState.LOST
    (tmp_path / "elsewhere").rename(home)
    put(put_in, b"two", 200)
    assert drained(tail, clock) == [b"two"]


def test_only_a_folder_with_archives_is_followed(tmp_path: Path) -> None:
    files, clock = FileSystem(), FakeClock()
    assert folder_at(str(tmp_path / "nowhere"), files, clock) is None
    assert folder_at(str(tmp_path), files, clock) is None
    put(tmp_path / "steps" / "tail.zip", b"x", 100)
    assert folder_at(str(tmp_path), files, clock) is not None
    feed = DirectFeed(tmp_path, clock=clock)
    assert [event.data for event in feed.take(100) if isinstance(event, Chunk)] == [b"x"]


def test_an_archive_that_cannot_be_read_is_named_and_does_not_hold_up_the_others(tmp_path: Path) -> None:
    put(tmp_path / "steps" / "block_0.zip", b"a block", 100)
    (tmp_path / "steps" / "block_1.zip").symlink_to("nowhere.zip")
    (tmp_path / "steps" / "block_2.zip").symlink_to("block_2.zip")
    put(tmp_path / "steps" / "tail.zip", b"the tail", 300)
    clock = FakeClock()
    tail = FolderTail(str(tmp_path), FileSystem(), clock)
    assert drained(tail, clock) == [b"a block", b"the tail"]
    assert tail.status.left_out == (
        "block_1.zip: broken symlink",
        "block_2.zip: too many levels of symbolic links",
    )
    for name in ("block_1.zip", "block_2.zip"):
        (tmp_path / "steps" / name).unlink()
    put(tmp_path / "steps" / "block_2.zip", b"readable now", 200)
    assert drained(tail, clock) == [b"readable now"]
    assert tail.status.left_out == ()


def test_a_folder_of_archives_that_cannot_be_listed_does_not_hold_up_the_others(tmp_path: Path) -> None:
    put(tmp_path / "steps" / "tail.zip", b"the tail", 300)
    (tmp_path / "events").symlink_to("events")
    clock = FakeClock()
    assert folder_at(str(tmp_path), FileSystem(), clock) is not None
    tail = FolderTail(str(tmp_path), FileSystem(), clock)
    assert drained(tail, clock) == [b"the tail"]
    assert tail.status.left_out == ("events: too many levels of symbolic links",)
