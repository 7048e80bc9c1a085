"""Zero bytes where a writer has not written yet, or never will: waited for, passed over, counted."""

from __future__ import annotations

import pytest
from fake_filesystem import FakeFileSystem
from tail_scene import FIRST, OTHER, PATH, Scene

from rltop.clock import FakeClock
from rltop.sources.events import ONE_SHOT, Chunk, TailState
from rltop.sources.tail import Tail


def test_a_hole_that_fills_up_loses_nothing(scene: Scene) -> None:
    node = scene.fs.write(PATH, FIRST)
    node.unseen = [(20, len(FIRST))]
    scene.poll()
    assert scene.text() == FIRST[:20]
    scene.poll(times=10)
    assert scene.text() == FIRST[:20]
    node.unseen = []
    scene.poll()
    assert scene.text() == FIRST
    assert scene.tail.status.nul_bytes == 0


def test_nul_bytes_at_the_end_are_counted_and_waited_for(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST + bytes(100))
    scene.settle()
    assert scene.text() == FIRST
    assert scene.tail.status.nul_bytes == 100
    assert scene.state is TailState.AT_END


def test_a_permanent_hole_is_passed_over_and_counted(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST + bytes(5000) + OTHER)
    scene.poll()
    assert scene.text() == FIRST
    assert scene.state is TailState.READING
    scene.settle()
    assert scene.text() == FIRST + OTHER
    assert scene.chunks[-1].offset == len(FIRST) + 5000
    assert scene.tail.status.nul_bytes == 5000


def test_a_hole_on_a_network_is_given_time(reopened: Scene) -> None:
    node = reopened.fs.write(PATH, FIRST + OTHER)
    node.unseen = [(10, 30)]
    reopened.poll(times=10, every_s=0.2)
    assert reopened.text() == FIRST[:10]
    node.unseen = []
    reopened.poll()
    assert reopened.text() == FIRST + OTHER


def test_part_of_a_hole_that_fills_up_is_not_passed_over(scene: Scene) -> None:
    scene.fs.write(PATH, bytes(3_000_000) + b"end\n")
    scene.poll()
    scene.fs.write(PATH, b"middle\n", offset=2_000_000)
    scene.settle()
    assert scene.text() == b"middle\nend\n"


def test_nul_bytes_that_were_read_together_are_waited_for_together(scene: Scene) -> None:
    """UTF-16 behind other text, as PowerShell appends it, was read at four characters a second."""
    text = "step:1 - loss:0.5\n" * 200
    scene.fs.write(PATH, FIRST + text.encode("utf-16-le"))
    scene.poll(times=10)
    assert scene.text() == FIRST + text.encode()
    assert scene.tail.status.nul_bytes == len(text)
    assert scene.fs.calls.count("read") < 100


def test_a_hole_that_came_later_is_waited_for_anew(held: Scene) -> None:
    held.fs.write(PATH, FIRST + bytes(100) + OTHER)
    held.poll()
    held.fs.write(PATH, bytes(100) + FIRST, offset=2 * len(FIRST) + 100)
    held.poll()
    assert held.text() == FIRST + OTHER
    held.settle()
    assert held.text() == FIRST + OTHER + FIRST


def test_a_copytruncating_rotation_leaves_leading_nul_bytes(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.truncate(PATH)
    scene.fs.write(PATH, OTHER, offset=len(FIRST))
    scene.settle()
    assert [reset.is_restart for reset in scene.resets] == [True]
    assert scene.text(1) == OTHER
    assert scene.tail.status.nul_bytes == len(FIRST)


def test_one_shot_passes_over_holes_at_once() -> None:
    fs = FakeFileSystem()
    fs.write(PATH, bytes(1001) + FIRST)
    tail = Tail(PATH, fs, FakeClock(), ONE_SHOT)
    assert tail.poll(1 << 20) == [Chunk(FIRST, 1001, 0)]


@pytest.mark.parametrize(
    ("between", "last"), [(40_000_000, 0), (20_000_000, 20_000_000)], ids=["rows last", "NUL last"]
)
def test_a_hole_of_any_size_is_looked_through_in_pieces(scene: Scene, between: int, last: int) -> None:
    scene.fs.write(PATH, FIRST + bytes(between) + OTHER + bytes(last))
    looked = []
    for _ in range(30):
        scene.poll()
        if scene.tail.status.searched:
            assert scene.state is TailState.READING
            looked.append(scene.tail.status.searched)
    assert scene.text() == FIRST + OTHER
    assert scene.state is TailState.AT_END
    assert scene.tail.status.searched == 0
    assert looked == sorted(looked)
    assert len(looked) >= 2
    assert scene.tail.status.nul_bytes == between + last


def test_what_was_never_written_is_not_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = len(FIRST) + 40_000_000
    monkeypatch.setattr(
        scene.fs, "seek_data", lambda _, at: behind if len(FIRST) <= at < behind else None if at > behind + 10 else at
    )
    scene.fs.write(PATH, FIRST + bytes(40_000_000) + OTHER)
    scene.settle()
    assert scene.text() == FIRST + OTHER
    assert scene.fs.calls.count("read") < 100
