"""More files than may be open at once: all of them are followed, and nothing ends for want of a handle."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ptys import Terminal

from rltop.clock import Clock
from rltop.errors import EXIT_USAGE
from rltop.sources.events import Chunk, ReaderOptions, TailState
from rltop.sources.file import FEW, RESERVE, FileSystem, limit
from rltop.sources.reader import Reader

LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[1]), int(sys.argv[2])))
os.execv(sys.executable, [sys.executable, *sys.argv[3:]])
"""


def rows(folder: Path, count: int, size: int = 1) -> list[Path]:
    """So many runs of so many rows each."""
    text = "".join(json.dumps({"step": i, "loss": 1.0 / i}) + "\n" for i in range(1, size + 1))
    paths = [folder / f"r{i}" / "metrics.jsonl" for i in range(count)]
    for path in paths:
        path.parent.mkdir()
        path.write_text(text)
    return paths


@pytest.fixture
def few_handles() -> Iterator[None]:
    """So few files may be open, besides those that are, that none may stay so."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(each.name) for each in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + RESERVE, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_soft_limit_is_raised_as_far_as_select_can_use_it() -> None:
    tell = "from rltop.sources.file import limit, raise_limit; raise_limit(); print(limit())"
    for soft, hard, raised in ((64, 128, 128), (128, 128, 128), (900, 1500, 1024), (1500, 1500, 1024)):
        words = [sys.executable, "-c", LIMITED, str(soft), str(hard), "-c", tell]
        assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == f"{raised}\n"
    assert not FileSystem().may_keep(limit() - RESERVE)
    assert FileSystem().may_keep(limit() - RESERVE - 1)


def test_every_file_is_followed_without_being_kept_open(tmp_path: Path, few_handles: None) -> None:
    paths = rows(tmp_path, RESERVE + 12)
    bell = threading.Event()
    reader = Reader(ReaderOptions(use_watcher=False, local_poll_s=0.05), clock=Clock(), on_data=bell.set)
    feeds = [reader.follow(path) for path in paths]
    read = dict.fromkeys(range(len(feeds)), b"")
    try:
        for round_ in range(2):
            expected = b'{"step": 1, "loss": 1.0}\n' + b'{"step": 2}\n' * round_
            for _ in range(400):
                for i, feed in enumerate(feeds):
                    read[i] += b"".join(one.data for one in feed.take(1 << 20) if isinstance(one, Chunk))
                if all(data == expected for data in read.values()):
                    break
                bell.wait(0.05)
                bell.clear()
            assert set(read.values()) == {expected}
            assert {feed.status.state for feed in feeds} == {TailState.AT_END}
            for path in paths:
                with path.open("a") as file:
                    file.write('{"step": 2}\n')
    finally:
        reader.close()


def test_where_few_files_may_be_open_none_is_spent_on_being_woken(tmp_path: Path) -> None:
    tell = (
        "from rltop.sources.watch import Watcher; watcher = Watcher();"
        f"print(watcher.wake_on_change({str(tmp_path)!r}, print), watcher.reason)"
    )
    words = [sys.executable, "-c", LIMITED, str(FEW), str(FEW), "-c", tell]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert said == f"False {tmp_path}: limit of {FEW} open files\n"


@pytest.mark.parametrize("which", ["instances", "watches"])
def test_where_the_kernel_wakes_nobody_any_more_files_are_polled(tmp_path: Path, which: str) -> None:
    tell = (
        "from rltop.sources.watch import Watcher; watcher = Watcher();"
        f"print(watcher.wake_on_change({str(tmp_path)!r}, print), watcher.reason); watcher.close()"
    )
    own = f'echo 0 > /proc/sys/user/max_inotify_{which} && exec "$0" -c "$1"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", own, sys.executable, tell]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `unshare` here")
    if "False" not in done.stdout:
        pytest.skip(f"no namespace of its own here: {done.stderr.strip()[-100:]}")
    assert done.stdout.startswith(f"False {tmp_path}: ")
    assert done.stderr == ""


def test_the_screen_follows_more_runs_than_files_may_be_open(tmp_path: Path) -> None:
    paths = rows(tmp_path, 60)
    terminal = Terminal.python("-c", LIMITED, "32", "40", "-m", "rltop", str(tmp_path), width=100, height=30)
    try:
        terminal.until_text("60 live")
        assert resource.prlimit(terminal.process.pid, resource.RLIMIT_NOFILE) == (40, 40), "raised as far as it may be"
        with paths[7].open("a") as file:
            file.write("".join(json.dumps({"step": i, "loss": 0.5}) + "\n" for i in range(2, 1_778)))
        terminal.press("/r7\r")
        terminal.until_text("1,777")
        terminal.quit("\x11")
    finally:
        terminal.close()


@pytest.mark.parametrize("most", ["5", "6", "11", "15"])
def test_what_a_machine_has_too_little_of_is_no_fault_of_the_program(tmp_path: Path, most: str) -> None:
    rows(tmp_path, 2)
    terminal = Terminal.python("-c", LIMITED, most, most, "-m", "rltop", str(tmp_path), width=100)
    try:
        assert terminal.wait() == EXIT_USAGE
        assert "too many open files" in terminal.text
        terminal.assert_untouched()
    finally:
        terminal.close()
