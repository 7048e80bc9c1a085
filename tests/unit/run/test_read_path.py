"""How far the reading of one stream has come, and how long it will still take."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable
from pathlib import Path

import pytest
from tables import each_row

from rltop.clock import FakeClock
from rltop.run.places import FoundRun, name_of
from rltop.run.run_stream import seconds_left
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed


@each_row(
    ("spent_s", "share", "from_share", "left_s"),
    [
        (2.0, 0.25, 0.0, 6.0),
        (2.0, 0.5, 0.25, 4.0),
        (0.5, 0.9, 0.0, None),  # over in a moment
        (0.1, 0.02, 0.0, None),  # too soon to tell
        (5.0, 0.005, 0.0, None),
        (5.0, None, 0.0, None),
    ],
)
def test_the_time_left_is_told_by_the_pace_so_far(
    spent_s: float, share: float | None, from_share: float, left_s: float | None
) -> None:
    found = seconds_left(spent_s, share, from_share)
    assert found == (None if left_s is None else pytest.approx(left_s))


class OnePiece:
    """A budget that is spent after the first piece."""

    def __init__(self) -> None:
        self.looks = 0

    def __call__(self) -> bool:
        self.looks += 1
        return self.looks > 1


def test_a_stream_says_how_long_its_history_will_take(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(f'{{"step": {step}, "loss": 0.5{" " * 180}}}\n' for step in range(6_000)))
    clock = FakeClock()
    found = FoundRun(str(path), name_of(str(path)), path.stat().st_size)
    run = Session([found], lambda each, last: DirectFeed(each, clock=clock, last=last), clock).runs[0]
    told: list[tuple[float, float]] = []
    while run.advance(OnePiece()):
        clock.advance(0.5)
        if run.left_s is not None:
            told.append((run.left_s, clock.monotonic()))
    end_s = clock.monotonic()
    assert len(told) > 5
    # The pieces are of one size, but for the first few.
    assert all(at_s + left_s == pytest.approx(end_s, abs=2.0) for left_s, at_s in told[4:])
    assert run.left_s is None and run.loading is None


@each_row(("name", "pack"), [("metrics.jsonl.gz", gzip.compress), ("metrics.jsonl.bz2", bz2.compress)])
def test_a_compressed_file_is_read_as_far_as_it_is_decoded(
    name: str, pack: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    """All of it is in memory at once, and said to be 100 %; bzip2 holds a block of 900 kB to be unpacked."""
    path = tmp_path / name
    path.write_bytes(pack(b"".join(b'{"step": %d, "loss": %d}\n' % (i, i * 7919 % 10007) for i in range(20_000))))
    clock = FakeClock()
    found = FoundRun(str(path), name_of(str(path)), path.stat().st_size)
    run = Session([found], lambda each, last: DirectFeed(each, clock=clock, last=last), clock).runs[0]
    told: list[float] = []
    while run.advance(OnePiece()):
        if run.loading is not None:
            told.append(run.loading)
    assert told == sorted(told) and told[-1] < 1.0
    assert pack is bz2.compress or told[len(told) // 2] == pytest.approx(0.5, abs=0.2)
    assert run.loading is None
