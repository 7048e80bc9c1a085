"""The queue between reader and taker, and the feed that reads inline."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltop.sources.events import ONCE, Chunk, Reset, ResetReason, TailState
from rltop.sources.feed import DirectFeed, EventQueue
from rltop.sources.tail import LastRows


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=30), st.none())), st.lists(st.integers(1, 20)))
def test_a_queue_gives_back_what_was_put(pieces: list[bytes | None], budgets: list[int]) -> None:
    queue = EventQueue(1000)
    offset = generation = 0
    put: list[Chunk | Reset] = []
    for piece in pieces:
        if piece is None:
            generation, offset = generation + 1, 0
            put.append(Reset(ResetReason.TRUNCATED, generation, is_restart=True))
        else:
            put.append(Chunk(piece, offset, generation))
            offset += len(piece)
    queue.put(put)
    taken: list[Chunk | Reset] = []
    for budget in [*budgets, 1 << 20]:
        part = queue.take(budget)
        assert sum(len(event.data) for event in part if isinstance(event, Chunk)) <= budget
        taken += part
    assert queue.is_empty
    assert queue.room == 1000

    def as_bytes(events: list[Chunk | Reset]) -> list[tuple[int, int, int] | Reset]:
        out: list[tuple[int, int, int] | Reset] = []
        for event in events:
            if isinstance(event, Reset):
                out.append(event)
            else:
                out += [(byte, event.offset + n, event.generation) for n, byte in enumerate(event.data)]
        return out

    assert as_bytes(taken) == as_bytes(put)


def test_a_full_queue_has_no_room() -> None:
    queue = EventQueue(10)
    queue.put([Chunk(b"x" * 8, 0, 0)])
    assert queue.room == 2
    queue.take(5)
    assert queue.room == 7


def drain(feed: DirectFeed, budget: int = 7) -> bytes:
    data = b""
    while not feed.is_exhausted:
        data += b"".join(event.data for event in feed.take(budget) if isinstance(event, Chunk))
    return data


def test_direct_feed_reads_to_the_end(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nbb\nccc\n")
    feed = DirectFeed(tmp_path / "f")
    assert not feed.is_exhausted
    assert drain(feed) == b"a\nbb\nccc\n"
    assert (feed.status.state, feed.status.offset) == (TailState.AT_END, 9)
    feed.close()


def test_direct_feed_ends_although_there_are_holes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(1001) + b"a\n" + bytes(5) + b"b\n" + bytes(9))
    feed = DirectFeed(tmp_path / "f")
    assert drain(feed, 1 << 20) == b"a\nb\n"
    assert feed.status.nul_bytes == 1001 + 5 + 9


def test_direct_feed_of_the_last_lines(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nbb\nccc\n")
    feed = DirectFeed(tmp_path / "f", last=LastRows(2))
    assert (feed.start, drain(feed)) == (2, b"bb\nccc\n")


def test_direct_feed_gives_the_head_first(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\nbb\nccc\n")
    feed = DirectFeed(tmp_path / "f", last=LastRows(1, head_bytes=3))
    assert feed.take(100) == [Chunk(b"a\nb", 0, 0, is_head=True)]
    assert feed.take(100) == [Chunk(b"ccc\n", 5, 0)]


def test_direct_feed_without_a_file(tmp_path: Path) -> None:
    feed = DirectFeed(tmp_path / "no", last=LastRows(2))
    assert drain(feed) == b""
    assert feed.status.state is TailState.WAITING


def test_direct_feed_of_a_folder(tmp_path: Path) -> None:
    feed = DirectFeed(tmp_path)
    assert drain(feed) == b""
    assert "directory" in feed.status.error.message


def test_nothing_is_given_only_where_nothing_more_is_to_be_had(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(8_000_000) + b"one\n" + bytes(8_000_000))
    feed = DirectFeed(tmp_path / "f")
    assert feed.take(100) == [Chunk(b"one\n", 8_000_000, 0)]
    assert feed.take(100) == []
    assert feed.is_exhausted
    assert feed.status.nul_bytes == 16_000_000


def test_what_is_read_once_is_what_was_there_at_first(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\ntwo\n")
    feed = DirectFeed(path, options=ONCE)
    first = b"".join(event.data for event in feed.take(3) if isinstance(event, Chunk))
    with path.open("ab") as file:
        file.write(b"three\n")
    path.rename(tmp_path / "f.1")
    path.write_bytes(b"another\n")
    assert first + drain(feed, 3) == b"one\ntwo\n"
    assert feed.take(100) == []


def test_what_is_rewritten_all_the_while_is_not_read_for_ever(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"0" * 1000)
    feed = DirectFeed(path, options=ONCE)
    for number in range(100):
        feed.take(600)
        if feed.is_exhausted:
            break
        path.write_bytes(b"%d" % (number % 10) * 1000)
    assert feed.is_exhausted


@pytest.mark.parametrize("name", ["status", "pagemap", "environ"])
def test_a_file_that_says_it_is_empty_and_is_not_has_an_end(name: str) -> None:
    path = Path("/proc/self", name)
    if not path.exists():
        pytest.skip("no /proc here")
    feed = DirectFeed(path, options=ONCE)
    data = drain(feed, 1 << 20)
    assert feed.is_exhausted
    assert bool(data) == (name != "pagemap")
