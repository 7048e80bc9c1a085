"""A recording is given out at its own pace, and whole."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tables import each_row

from rltop.clock import FakeClock
from rltop.errors import SourceError
from rltop.sources.events import Chunk, TailState
from rltop.sources.replay import ReplayFeed


def write(path: Path, rows: list[dict[str, object]]) -> bytes:
    text = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    path.write_bytes(text)
    return text


def text_of(events: list[object]) -> bytes:
    return b"".join(event.data for event in events if isinstance(event, Chunk))


def times_of_release(feed: ReplayFeed, clock: FakeClock, seconds: int) -> list[int]:
    """At which second each line came."""
    came = []
    for second in range(seconds + 1):
        came += [second] * text_of(feed.take(1 << 20)).count(b"\n")
        clock.advance(1.0)
    return came


def test_wall_time_sets_the_gaps(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"step": n, "time": 1.7e9 + at} for n, at in enumerate((0, 10, 15, 15, 40))])
    clock = FakeClock()
    assert times_of_release(ReplayFeed(tmp_path / "f", 1, clock), clock, 60) == [0, 10, 15, 15, 40]


def test_speed_divides_the_gaps(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"step": n, "_timestamp": 1.7e9 + 100 * n} for n in range(4)])
    clock = FakeClock()
    assert times_of_release(ReplayFeed(tmp_path / "f", 50, clock), clock, 10) == [0, 2, 4, 6]


def test_milliseconds_are_recognised(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"step": n, "timestamp": 1_700_000_000_000 + 3000 * n} for n in range(3)])
    clock = FakeClock()
    assert times_of_release(ReplayFeed(tmp_path / "f", 1, clock), clock, 10) == [0, 3, 6]


def test_step_time_serves_where_there_is_no_wall_time(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"step": n, "data": {"timing_s/step": 5.0 + n}} for n in range(3)])
    clock = FakeClock()
    assert times_of_release(ReplayFeed(tmp_path / "f", 1, clock), clock, 30) == [5, 11, 18]


def test_a_fixed_gap_serves_where_nothing_tells(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"step": n} for n in range(4)])
    clock = FakeClock()
    feed = ReplayFeed(tmp_path / "f", 0.5, clock)
    assert times_of_release(feed, clock, 10) == [2, 4, 6, 8]


def test_a_time_that_goes_back_or_leaps_does_not_stop_the_replay(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"step": n, "time": 1.7e9 + at} for n, at in enumerate((0, 5, -100, 1e6))])
    clock = FakeClock()
    feed = ReplayFeed(tmp_path / "f", 180, clock)
    assert times_of_release(feed, clock, 60) == [0, 1, 1, 21]


def test_one_row_with_a_time_does_not_set_the_pace(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"config": "x", "time": 1.7e9}, *({"step": n} for n in range(20))])
    clock = FakeClock()
    assert times_of_release(ReplayFeed(tmp_path / "f", 1, clock), clock, 30) == list(range(1, 22))


def test_text_that_quotes_the_key_is_no_time(tmp_path: Path) -> None:
    rows = [{"step": n, "prompt": '{"time": 99999}', "time": 1.7e9 + n} for n in range(3)]
    write(tmp_path / "f", rows)
    clock = FakeClock()
    assert times_of_release(ReplayFeed(tmp_path / "f", 1, clock), clock, 5) == [0, 1, 2]


def test_a_warm_start_is_there_at_once(tmp_path: Path) -> None:
    text = write(tmp_path / "f", [{"step": n, "time": 1.7e9 + n} for n in range(10, 20)])
    clock = FakeClock()
    feed = ReplayFeed(tmp_path / "f", 1, clock, warm_start=0.5)
    assert text_of(feed.take(1 << 20)) == text[: len(text) // 2]
    assert times_of_release(feed, clock, 10) == [1, 2, 3, 4, 5]


@each_row("budget", [1, 7, 1000, 1 << 20])
def test_the_whole_file_comes_in_chunks_that_follow_each_other(tmp_path: Path, budget: int) -> None:
    text = write(tmp_path / "f", [{"step": n, "pad": "x" * n} for n in range(50)]) + b'{"step": 50}'
    (tmp_path / "f").write_bytes(text)
    feed = ReplayFeed(tmp_path / "f", math.inf, FakeClock())
    read = b""
    while not feed.is_exhausted:
        for chunk in feed.take(budget):
            assert isinstance(chunk, Chunk)
            assert 0 < len(chunk.data) <= budget
            assert chunk.offset == len(read)
            read += chunk.data
    assert read == text
    assert feed.status.state is TailState.AT_END
    assert feed.status.offset == feed.status.size == len(text)


def test_lines_longer_than_a_read_stay_whole(tmp_path: Path) -> None:
    text = write(tmp_path / "f", [{"step": n, "pad": "x" * 700_000, "time": 1.7e9 + n} for n in range(3)])
    clock = FakeClock()
    feed = ReplayFeed(tmp_path / "f", 1, clock)
    assert text_of(feed.take(1 << 24)) == text[: text.index(b"\n") + 1]


def test_how_long_to_wait_for_the_next_line(tmp_path: Path) -> None:
    write(tmp_path / "f", [{"step": n, "time": 1.7e9 + 8 * n} for n in range(2)])
    clock = FakeClock()
    feed = ReplayFeed(tmp_path / "f", 2, clock)
    assert feed.wait_s == 0.0
    feed.take(1 << 20)
    clock.advance(1.0)
    assert feed.wait_s == pytest.approx(3.0)
    assert not feed.is_exhausted
    clock.advance(3.0)
    feed.take(1 << 20)
    assert feed.is_exhausted
    assert feed.wait_s is None


def test_an_empty_recording_is_over_at_once(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"")
    feed = ReplayFeed(tmp_path / "f", 1, FakeClock())
    assert feed.take(100) == []
    assert feed.is_exhausted


def test_what_cannot_be_replayed(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="No such file"):
        ReplayFeed(tmp_path / "no", 1)
    with pytest.raises(SourceError, match="directory"):
        ReplayFeed(tmp_path, 1)
    (tmp_path / "f").write_bytes(b"")
    with pytest.raises(ValueError, match="speed"):
        ReplayFeed(tmp_path / "f", 0)
