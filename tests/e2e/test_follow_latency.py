"""Real files, a real writer, real time: how soon a line is seen, and who never waits."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rltop.sources.events import Chunk, ReaderOptions
from rltop.sources.file import FileStat, FileSystem, mount_of
from rltop.sources.reader import Reader, ThreadedFeed

POLL_S = 5.0
PROMISED_S = 0.2
HARD_S = 2.0


@pytest.fixture
def follow() -> Iterator[Callable[..., tuple[ThreadedFeed, threading.Event]]]:
    readers: list[Reader] = []

    def follow(path: Path, options: ReaderOptions) -> tuple[ThreadedFeed, threading.Event]:
        bell = threading.Event()
        readers.append(Reader(options, on_data=bell.set))
        return readers[-1].follow(path), bell

    yield follow
    for reader in readers:
        reader.close()


def seconds_until(feed: ThreadedFeed, bell: threading.Event, text: bytes, within_s: float) -> float:
    started = time.monotonic()
    while time.monotonic() - started < within_s:
        bell.clear()
        data = b"".join(event.data for event in feed.take(1 << 20) if isinstance(event, Chunk))
        if text in data:
            return time.monotonic() - started
        bell.wait(0.05)
    pytest.fail(f"{text!r} not seen within {within_s} s: {feed.status}")


def append(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


@pytest.mark.alone
def test_the_kernel_shortens_a_long_poll_interval(
    tmp_path: Path,
    follow: Callable[..., tuple[ThreadedFeed, threading.Event]],
    record_property: Callable[[str, object], None],
) -> None:
    if mount_of(os.path.realpath(tmp_path)).is_network:
        pytest.skip("the temporary folder lies on a file system that does not deliver events")
    path = tmp_path / "metrics.jsonl"
    append(path, b"first\n")
    feed, bell = follow(path, ReaderOptions(local_poll_s=POLL_S, watch_delay_s=0.0))
    seconds_until(feed, bell, b"first", HARD_S)
    deadline = time.monotonic() + HARD_S
    while not feed.follow.is_watched:
        assert time.monotonic() < deadline, "the folder is not watched"
        time.sleep(0.01)
    waits = []
    for number in range(5):
        text = b"line %d\n" % number
        append(path, text)
        waits.append(seconds_until(feed, bell, text, HARD_S))
    record_property("seconds_until_seen", sorted(waits))
    # The usual wait, so that one stall of a busy machine is not taken for a broken watch.
    assert sorted(waits)[len(waits) // 2] < PROMISED_S


def test_the_kernel_reports_a_replaced_file_too(
    tmp_path: Path, follow: Callable[..., tuple[ThreadedFeed, threading.Event]]
) -> None:
    if mount_of(os.path.realpath(tmp_path)).is_network:
        pytest.skip("the temporary folder lies on a file system that does not deliver events")
    path = tmp_path / "metrics.jsonl"
    append(path, b"first\n")
    feed, bell = follow(path, ReaderOptions(local_poll_s=POLL_S, watch_delay_s=0.0))
    seconds_until(feed, bell, b"first", HARD_S)
    append(tmp_path / "new", b"another beginning\n")
    (tmp_path / "new").rename(path)
    seconds_until(feed, bell, b"another beginning", HARD_S)
    append(path, b"and on\n")
    seconds_until(feed, bell, b"and on", HARD_S)


def test_a_file_written_by_another_process_arrives_whole(
    tmp_path: Path, follow: Callable[..., tuple[ThreadedFeed, threading.Event]]
) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = textwrap.dedent("""
        import sys, time
        for number in range(200):
            with open(sys.argv[1], "ab", buffering=0) as file:
                file.write(b"%06d" % number)
                file.write(b"\\n")
            time.sleep(0.002)
    """)
    feed, bell = follow(path, ReaderOptions(local_poll_s=0.05, watch_delay_s=0.0))
    with subprocess.Popen([sys.executable, "-c", writer, str(path)]) as process:
        data = b""
        deadline = time.monotonic() + 20
        while data.count(b"\n") < 200 and time.monotonic() < deadline:
            bell.clear()
            data += b"".join(event.data for event in feed.take(1 << 20) if isinstance(event, Chunk))
            bell.wait(0.05)
        assert process.wait(10) == 0
    assert data == b"".join(b"%06d\n" % number for number in range(200))


def test_a_blocked_reader_does_not_keep_the_program_alive(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import os, sys, time
        from rltop.sources.file import FileSystem
        from rltop.sources.reader import Reader, ReaderOptions

        class Pipe(FileSystem):
            def read_at(self, handle, size, offset):
                reading, writing = os.pipe()
                return os.read(reading, 1)  # blocks in the kernel for good

        reader = Reader(ReaderOptions(stuck_after_s=0.1), Pipe())
        feed = reader.follow(sys.argv[1])
        deadline = time.monotonic() + 10
        while feed.status.state.value != "stuck":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        reader.close()
        print("closed", time.monotonic(), flush=True)
    """)
    append(tmp_path / "f", b"first\n")
    run = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "f")], capture_output=True, text=True, timeout=30, check=False
    )
    ended = time.monotonic()
    assert run.returncode == 0, run.stderr
    assert ended - float(run.stdout.split()[1]) < HARD_S


class CountingFileSystem(FileSystem):
    """Counts the looks at each path."""

    def __init__(self) -> None:
        super().__init__()
        self.looks: dict[str, int] = {}

    def stat(self, target: str | int) -> FileStat:
        """As the real one, counted where it is asked by name."""
        if isinstance(target, str):
            self.looks[target] = self.looks.get(target, 0) + 1
        return super().stat(target)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="inotify is Linux's")
def test_a_line_in_one_of_many_files_is_a_look_at_that_one(tmp_path: Path) -> None:
    paths = [tmp_path / f"{i}.jsonl" for i in range(100)]
    for path in paths:
        path.write_bytes(b"{}\n")
    bell, fs = threading.Event(), CountingFileSystem()
    reader = Reader(ReaderOptions(local_poll_s=600.0, watch_delay_s=0.0), fs, on_data=bell.set)
    try:
        feeds = [reader.follow(path) for path in paths]
        deadline = time.monotonic() + 10
        while not all(feed.follow.is_watched and feed.is_exhausted for feed in feeds):
            assert time.monotonic() < deadline
            for feed in feeds:
                feed.take(1 << 10)
            time.sleep(0.01)
        time.sleep(0.1)
        before = dict(fs.looks)
        bell.clear()
        for i in range(5):
            with paths[7].open("ab") as file:
                file.write(b'{"step": %d}\n' % i)
            seconds_until(feeds[7], bell, b'{"step": %d}' % i, HARD_S)
        others = {path: count - before.get(path, 0) for path, count in fs.looks.items() if path != str(paths[7])}
        assert sum(others.values()) == 0, others
    finally:
        reader.close()
