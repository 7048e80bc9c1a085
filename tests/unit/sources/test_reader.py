"""Threads that read: nobody waits for them, and nothing is lost between them and the taker."""

from __future__ import annotations

import errno
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from fake_filesystem import FakeFileSystem, os_error
from ptys import PATIENCE_S

from rltop.sources.events import Chunk, ReaderOptions, Reset, TailOptions, TailState
from rltop.sources.reader import Reader, ThreadedFeed
from rltop.sources.tail import LastRows

TABLE = """\
1 0 0:1 / / rw - ext4 /dev/vda rw
2 1 0:2 / /net rw - nfs4 server:/ rw
3 1 0:3 / /dead rw - nfs4 gone:/ rw
"""
FAST = ReaderOptions(
    local_poll_s=0.01, network_poll_s=0.01, network_poll_max_s=0.02, use_watcher=False, stuck_after_s=0.1
)


class GatedFileSystem(FakeFileSystem):
    """Calls on anything below /dead wait until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.calls_made: list[str] = []

    def _answer(self, call: str, target: str | int) -> None:
        self.calls_made.append(call)
        path = target if isinstance(target, str) else next(iter(self.handles[target].names), "")
        if path.startswith("/dead"):
            super()._answer(call, target)


def until(condition: Callable[[], bool], within_s: float = PATIENCE_S) -> None:
    """Wait for what a thread does; fails if it does not."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "did not happen in time"
        time.sleep(0.002)


def rings_again(rung: threading.Event) -> bool:
    """Is there still news, of which the last may come a moment after what it tells of? Without any no bell rings."""
    rung.clear()
    return rung.wait(0.05)


def text_of(events: list[Chunk | Reset]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Chunk))


def take_all(feed: ThreadedFeed, size: int, budget: int = 1 << 20) -> bytes:
    data = b""

    def has_all() -> bool:
        nonlocal data
        data += text_of(feed.take(budget))
        return len(data) >= size

    until(has_all)
    return data


@pytest.fixture
def fs() -> Iterator[GatedFileSystem]:
    made = GatedFileSystem()
    yield made
    made.gate.set()


@pytest.fixture
def make(fs: GatedFileSystem) -> Iterator[Callable[..., Reader]]:
    made: list[Reader] = []

    def make(options: ReaderOptions = FAST, on_data: Callable[[], None] | None = None) -> Reader:
        made.append(Reader(options, fs, on_data=on_data, mountinfo=lambda: TABLE))
        return made[-1]

    yield make
    for reader in made:
        reader.close()


@pytest.mark.parametrize("path", ["/run/a", "/net/a"])
def test_a_file_is_read_and_followed(fs: GatedFileSystem, make: Callable[..., Reader], path: str) -> None:
    fs.write(path, b"one\n")
    feed = make().follow(path)
    assert take_all(feed, 4) == b"one\n"
    until(lambda: feed.is_exhausted)
    fs.write(path, b"two\n")
    assert take_all(feed, 4) == b"two\n"
    assert feed.status.state is TailState.AT_END
    assert feed.follow.mount.is_network is path.startswith("/net")
    assert not feed.follow.is_watched


def test_a_long_hole_is_looked_through_without_waiting(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/run/a", b"one\n" + bytes(60_000_000) + b"two\n")
    slow = FAST._replace(local_poll_s=20.0, tail=TailOptions(nul_polls=1))
    begun = time.monotonic()
    feed = make(slow).follow("/run/a")
    assert take_all(feed, 8) == b"one\ntwo\n"
    assert time.monotonic() - begun < 20.0


def test_a_file_that_is_not_looked_at_yet_is_not_exhausted(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.gate.clear()
    feed = make(ReaderOptions(stuck_after_s=60)).follow("/dead/a")
    assert not feed.is_exhausted
    assert feed.status.state is TailState.WAITING


def test_the_last_lines_first(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/run/a", b"one\ntwo\nthree\n")
    feed = make().follow("/run/a", last=LastRows(2))
    assert take_all(feed, 10) == b"two\nthree\n"
    assert feed.follow.start == 4


def test_the_head_comes_before_the_last_lines(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/run/a", b"names\n1\n2\n3\n")
    feed = make().follow("/run/a", last=LastRows(1, head_bytes=6))
    events: list[Chunk | Reset] = []

    def has_all() -> bool:
        # A head comes in one piece, however little is asked for.
        events.extend(feed.take(2))
        return sum(len(event.data) for event in events if isinstance(event, Chunk)) == 8

    until(has_all)
    assert events == [Chunk(b"names\n", 0, 0, is_head=True), Chunk(b"3\n", 10, 0)]


def test_the_last_lines_of_a_file_that_comes_later(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    feed = make().follow("/run/a", last=LastRows(2))
    until(lambda: feed.is_exhausted)
    fs.write("/run/a", b"one\n")
    assert take_all(feed, 4) == b"one\n"
    assert feed.follow.start == 0


def test_the_last_lines_are_sought_again_after_an_error(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/dead/a", b"one\ntwo\n")
    fs.errors = [os_error(errno.EIO)]
    feed = make().follow("/dead/a", last=LastRows(1))
    assert take_all(feed, 4) == b"two\n"


def test_a_queue_is_never_longer_than_its_bound(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    text = bytes(range(1, 251)) * 100
    fs.write("/run/a", text)
    options = ReaderOptions(local_poll_s=0.01, queue_bytes=1000, read_bytes=300, use_watcher=False)
    feed = make(options).follow("/run/a")
    until(lambda: not feed.follow.has_room)
    time.sleep(0.02)
    calls = len(fs.calls_made)
    time.sleep(0.1)
    assert len(fs.calls_made) - calls < 5, "a full queue is no reason to spin"
    assert len(text_of(feed.take(1 << 20))) <= 1000
    assert len(take_all(feed, len(text) - 1000, budget=170)) >= len(text) - 1000


def test_whoever_waits_is_woken(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    rung = threading.Event()
    reader = make(on_data=rung.set)
    feed = reader.follow("/run/a")
    assert rung.wait(PATIENCE_S), "a new status is news"
    until(lambda: feed.is_exhausted)
    until(lambda: not rings_again(rung), 5.0)
    fs.write("/run/a", b"one\n")
    assert rung.wait(PATIENCE_S)
    assert text_of(feed.take(100)) == b"one\n"


def test_a_closed_loop_stops_the_bell_only(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    def ring() -> None:
        raise RuntimeError("Event loop is closed")

    fs.write("/run/a", b"one\n")
    feed = make(on_data=ring).follow("/run/a")
    assert take_all(feed, 4) == b"one\n"
    fs.write("/run/a", b"two\n")
    assert take_all(feed, 4) == b"two\n"


def test_silence_on_a_network_slows_down_and_data_speeds_up(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    options = ReaderOptions(network_poll_s=0.02, network_poll_max_s=0.08, network_backoff=2, use_watcher=False)
    feed = make(options).follow("/net/a")
    follow = feed.follow
    until(lambda: follow.interval_s == 0.08)
    fs.write("/net/a", b"one\n")
    assert take_all(feed, 4) == b"one\n"
    until(lambda: follow.interval_s in (0.02, 0.04))


def test_a_dead_mount_holds_up_only_its_own_files(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/dead/a", b"one\n")
    fs.write("/run/b", b"")
    fs.gate.clear()
    reader = make()
    dead, alive = reader.follow("/dead/a"), reader.follow("/run/b")
    until(lambda: dead.status.state is TailState.STUCK)
    assert "no answer from the file system for" in dead.status.message
    assert dead.is_exhausted
    assert dead.take(100) == []
    fs.write("/run/b", b"two\n")
    assert take_all(alive, 4) == b"two\n"
    assert alive.status.state is TailState.AT_END
    fs.gate.set()
    assert take_all(dead, 4) == b"one\n"
    until(lambda: dead.status.state is TailState.AT_END)


def test_links_that_cannot_be_resolved_hold_up_nobody(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    realpath = fs.realpath
    held = threading.Event()

    def hanging(path: str) -> str:
        if path == "/run/link":
            held.wait(PATIENCE_S)
        return realpath(path)

    fs.realpath = hanging  # type: ignore[method-assign]
    fs.write("/run/b", b"two\n")
    reader = make()
    stuck, alive = reader.follow("/run/link"), reader.follow("/run/b")
    assert take_all(alive, 4) == b"two\n"
    until(lambda: stuck.status.state is TailState.STUCK)
    held.set()


def test_many_files_that_wait_for_their_turn_are_not_lost(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    realpath = fs.realpath

    def slow(path: str) -> str:
        time.sleep(0.02)
        return realpath(path)

    fs.realpath = slow  # type: ignore[method-assign]
    # All of them take longer than that, and none does, even on a machine that has much else to do.
    reader = make(FAST._replace(stuck_after_s=0.6))
    feeds = []
    for number in range(40):
        fs.write(f"/run/{number}", b"one\n")
        feeds.append(reader.follow(f"/run/{number}"))
    seen: set[TailState] = set()

    def have_all_been_read() -> bool:
        states = [feed.status.state for feed in feeds]
        seen.update(states)
        return set(states) == {TailState.AT_END}

    until(have_all_been_read)
    assert TailState.STUCK not in seen


def test_what_waits_behind_a_file_that_hangs_is_said_to(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    held = threading.Event()
    fs.realpath = lambda path: held.wait(PATIENCE_S) and path  # type: ignore[method-assign,assignment,return-value]
    reader = make()
    feeds = [reader.follow(f"/run/{number}") for number in range(20)]
    until(lambda: all(feed.status.state is TailState.STUCK for feed in feeds))
    held.set()


@pytest.mark.alone
def test_closing_never_waits(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/dead/a", b"one\n")
    fs.gate.clear()
    reader = make()
    dead = reader.follow("/dead/a")
    until(lambda: dead.status.state is TailState.STUCK)
    started = time.monotonic()
    dead.take(100)
    dead.close()
    reader.close()
    assert time.monotonic() - started < 0.5


def test_a_link_leads_to_the_thread_of_its_target(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/net/a", b"one\n")
    fs.links["/run/link"] = "/net/a"
    feed = make().follow("/run/link")
    assert take_all(feed, 4) == b"one\n"
    assert feed.follow.mount.point == "/net"


def test_a_link_turned_to_another_mount_moves_the_file(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/run/a", b"one\n")
    fs.write("/net/b", b"one\ntwo\n")
    fs.links["/run/link"] = "/run/a"
    feed = make().follow("/run/link")
    assert take_all(feed, 4) == b"one\n"
    fs.links["/run/link"] = "/net/b"
    feed.follow.next_locate = 0.0
    until(lambda: feed.follow.mount is not None and feed.follow.mount.point == "/net")
    assert take_all(feed, 4).endswith(b"two\n")
    fs.write("/net/b", b"three\n")
    assert take_all(feed, 6) == b"three\n"


def test_a_closed_feed_lets_go_of_its_file(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/run/a", b"one\n")
    reader = make()
    feed = reader.follow("/run/a")
    take_all(feed, 4)
    assert fs.handles
    feed.close()
    until(lambda: not fs.handles)


def test_a_closed_reader_lets_go_of_every_file(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/run/a", b"one\n")
    reader = make()
    take_all(reader.follow("/run/a"), 4)
    reader.close()
    until(lambda: not fs.handles)


def test_a_fault_in_one_file_is_shown_and_stops_no_other(fs: GatedFileSystem, make: Callable[..., Reader]) -> None:
    fs.write("/run/a", b"one\n")
    fs.write("/run/b", b"two\n")
    fs.errors = []
    stat = fs.stat

    def faulty(target: str | int) -> object:
        if target == "/run/a":
            raise ZeroDivisionError("a fault")
        return stat(target)

    fs.stat = faulty  # type: ignore[assignment, method-assign]
    reader = make()
    broken, sound = reader.follow("/run/a"), reader.follow("/run/b")
    assert take_all(sound, 4) == b"two\n"
    until(lambda: broken.status.state is TailState.REFUSED)
    assert "a fault" in broken.status.message
    assert broken.is_exhausted
