"""One test for each thing that can happen to a file: held open, re-opened, and re-opened for want of handles."""

from __future__ import annotations

import errno
import stat

import pytest
from fake_filesystem import FakeFileSystem, os_error

from rltop.clock import FakeClock
from rltop.errors import SourceError
from rltop.sources.tail import ONE_SHOT, Chunk, Reset, ResetReason, Tail, TailOptions, TailState

PATH = "/run/metrics.jsonl"
FIRST = b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n'
OTHER = b'{"step": 1, "loss": 0.9}\n'


class Scene:
    """A file system, a tail on one path and what it has given out."""

    def __init__(self, *, is_network: bool, has_room: bool = True) -> None:
        self.fs = FakeFileSystem()
        self.fs.has_room = has_room
        self.clock = FakeClock()
        self.is_network = is_network
        self.tail = self.new_tail()
        self.chunks: list[Chunk] = []
        self.resets: list[Reset] = []

    def new_tail(self, start: int = 0) -> Tail:
        options = TailOptions(is_network=self.is_network)
        self.tail = Tail(PATH, self.fs, self.clock, options, start)
        return self.tail

    def poll(self, times: int = 1, every_s: float = 1.0, max_bytes: int = 1 << 20) -> None:
        for _ in range(times):
            self.clock.advance(every_s)
            for event in self.tail.poll(max_bytes):
                if isinstance(event, Reset):
                    self.resets.append(event)
                else:
                    self.chunks.append(event)

    def settle(self) -> None:
        """Poll long enough for every doubt to be decided."""
        self.poll(times=20)

    def text(self, generation: int = 0) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks if chunk.generation == generation)

    @property
    def state(self) -> TailState:
        return self.tail.status.state


@pytest.fixture(params=["held", "reopened", "handles are scarce"])
def scene(request: pytest.FixtureRequest) -> Scene:
    return Scene(is_network=request.param == "reopened", has_room=request.param != "handles are scarce")


@pytest.fixture
def held() -> Scene:
    return Scene(is_network=False)


@pytest.fixture
def reopened() -> Scene:
    return Scene(is_network=True)


def test_a_half_written_line_is_given_out_as_it_comes(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST[:10])
    scene.poll()
    scene.fs.write(PATH, FIRST[10:])
    scene.poll()
    assert [(c.data, c.offset) for c in scene.chunks] == [(FIRST[:10], 0), (FIRST[10:], 10)]
    assert scene.resets == []


def test_a_poll_gives_out_no_more_than_it_was_asked_for(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll(max_bytes=10)
    assert scene.text() == FIRST[:10]
    assert scene.state is TailState.READING
    scene.poll(times=10, max_bytes=10)
    assert scene.text() == FIRST
    assert scene.state is TailState.AT_END


def test_a_file_that_does_not_exist_yet_is_waited_for(scene: Scene) -> None:
    scene.poll()
    assert scene.state is TailState.WAITING
    scene.fs.write(PATH, FIRST)
    scene.poll()
    assert scene.text() == FIRST
    assert scene.resets == []


def test_an_empty_file_is_at_its_end(scene: Scene) -> None:
    scene.fs.write(PATH, b"")
    scene.poll()
    assert (scene.state, scene.chunks) == (TailState.AT_END, [])


def test_an_empty_file_that_is_replaced_is_no_reset(scene: Scene) -> None:
    scene.fs.write(PATH, b"")
    scene.poll()
    scene.fs.replace(PATH, FIRST)
    scene.settle()
    assert (scene.text(), scene.resets) == (FIRST, [])


def test_truncate_is_a_restart(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.truncate(PATH)
    scene.fs.write(PATH, OTHER)
    scene.settle()
    assert scene.resets == [Reset(ResetReason.TRUNCATED, 1, is_restart=True)]
    assert (scene.text(0), scene.text(1)) == (FIRST, OTHER)


def test_truncate_and_regrow_between_two_polls_is_a_restart(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.truncate(PATH)
    scene.fs.write(PATH, OTHER * 10)
    scene.settle()
    assert scene.resets == [Reset(ResetReason.REWRITTEN, 1, is_restart=True)]
    assert scene.text(1) == OTHER * 10


def test_regrow_with_the_same_beginning_is_told_by_the_anchor(scene: Scene) -> None:
    same = b'{"config": "' + b"c" * 400 + b'"}\n'
    scene.fs.write(PATH, same + FIRST * 4)
    scene.poll()
    scene.fs.truncate(PATH)
    scene.fs.write(PATH, same + OTHER * 20)
    scene.settle()
    assert scene.text(1) == same + OTHER * 20


def test_regrow_to_exactly_the_same_size_is_seen_by_its_time(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.truncate(PATH)
    scene.fs.write(PATH, FIRST[::-1])
    scene.settle()
    assert scene.text(1) == FIRST[::-1]


def test_nothing_of_a_file_rewritten_during_a_read_is_given_out(held: Scene) -> None:
    held.fs.write(PATH, FIRST)
    held.poll()
    held.fs.write(PATH, OTHER)
    read_at = held.fs.read_at

    def rewriting_read(handle: int, size: int, offset: int) -> bytes:
        held.fs.read_at = read_at  # type: ignore[method-assign]
        data = read_at(handle, size, offset)
        held.fs.truncate(PATH)
        held.fs.write(PATH, OTHER[::-1] * 10)
        return data

    held.fs.read_at = rewriting_read  # type: ignore[method-assign]
    held.poll()
    assert held.text(0) == FIRST
    assert held.text(1) == OTHER[::-1] * 10


def test_atomic_replace_by_other_content_is_a_restart(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.replace(PATH, OTHER * 5)
    scene.settle()
    assert scene.resets == [Reset(ResetReason.REPLACED, 1, is_restart=True)]
    assert scene.text(1) == OTHER * 5


def test_atomic_replace_by_a_longer_copy_goes_on(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    for count in range(1, 4):
        scene.fs.replace(PATH, FIRST + OTHER * count)
        scene.poll()
    assert scene.resets == []
    assert scene.text() == FIRST + OTHER * 3


def test_rename_rotation_drains_the_old_file_first(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll(max_bytes=10)
    scene.fs.rename(PATH, PATH + ".1")
    scene.fs.write(PATH, OTHER)
    scene.poll()
    scene.fs.write(PATH + ".1", b"late\n")
    scene.settle()
    assert scene.resets == [Reset(ResetReason.ROTATED, 1, is_restart=False)]
    assert scene.text(0) == FIRST + b"late\n"
    assert scene.text(1) == OTHER


def test_files_rotated_during_the_drain_are_all_read(held: Scene) -> None:
    held.fs.write(PATH, b"a\n")
    held.poll()
    for number, text in enumerate((b"b\n", b"c\n", b"d\n")):
        held.fs.rename(PATH, f"{PATH}.{number}")
        held.fs.write(PATH, text)
        held.poll()
    held.settle()
    assert [held.text(generation) for generation in range(4)] == [b"a\n", b"b\n", b"c\n", b"d\n"]


def test_rotation_without_a_new_file_yet(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.rename(PATH, PATH + ".1")
    scene.poll()
    assert scene.state is TailState.LOST
    scene.fs.write(PATH, OTHER)
    scene.settle()
    assert [reset.is_restart for reset in scene.resets] == [False]
    assert scene.text(1) == OTHER


def test_delete_and_recreate_with_the_same_inode(scene: Scene) -> None:
    scene.fs.reuses_inodes = True
    scene.fs.write(PATH, FIRST)
    scene.poll()
    inode = scene.fs.names[PATH].inode
    scene.fs.delete(PATH)
    scene.fs.write(PATH, OTHER * 5)
    # Only a handle keeps the inode from being given away.
    assert (scene.fs.names[PATH].inode == inode) is (scene.is_network or not scene.fs.has_room)
    scene.settle()
    assert [reset.is_restart for reset in scene.resets] == [True]
    assert scene.text(1) == OTHER * 5


def test_vanish_and_return_goes_on(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.rename(PATH, "/run/away")
    scene.poll(times=3)
    assert scene.state is TailState.LOST
    assert "gone" in scene.tail.status.message
    scene.fs.rename("/run/away", PATH)
    scene.fs.write(PATH, OTHER)
    scene.poll()
    assert (scene.text(), scene.resets) == (FIRST + OTHER, [])
    assert scene.state is TailState.AT_END


def test_byte_order_mark_is_left_out_and_offsets_stay_true(scene: Scene) -> None:
    scene.fs.write(PATH, b"\xef\xbb")
    scene.poll()
    assert scene.chunks == []
    scene.fs.write(PATH, b"\xbf" + FIRST)
    scene.poll()
    assert [(c.data, c.offset) for c in scene.chunks] == [(FIRST, 3)]


def test_what_only_begins_like_a_byte_order_mark_is_kept(scene: Scene) -> None:
    scene.fs.write(PATH, b"\xef")
    scene.poll()
    scene.fs.write(PATH, b"\xbb\x01")
    scene.poll()
    assert scene.text() == b"\xef\xbb\x01"


@pytest.mark.parametrize("text", [b"\xef\xbb\xbf" + FIRST, FIRST])
def test_one_byte_at_a_time(scene: Scene, text: bytes) -> None:
    scene.fs.longest_read = 1
    scene.fs.write(PATH, text)
    scene.poll(times=len(text) + 2, max_bytes=1)
    assert scene.text() == FIRST


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


@pytest.mark.parametrize("ending", [b"", bytes(50_000_000)], ids=["rows last", "NUL last"])
def test_a_hole_of_any_size_is_looked_through_in_pieces(scene: Scene, ending: bytes) -> None:
    scene.fs.write(PATH, FIRST + bytes(50_000_000) + OTHER + ending)
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
    assert scene.tail.status.nul_bytes == 50_000_000 + len(ending)


def test_what_was_never_written_is_not_read(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    behind = len(FIRST) + 50_000_000
    monkeypatch.setattr(
        scene.fs, "seek_data", lambda _, at: behind if len(FIRST) <= at < behind else None if at > behind + 10 else at
    )
    scene.fs.write(PATH, FIRST + bytes(50_000_000) + OTHER)
    scene.settle()
    assert scene.text() == FIRST + OTHER
    assert scene.fs.calls.count("read") < 100


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO])
def test_errors_are_waited_out_and_nothing_is_lost(scene: Scene, number: int) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.write(PATH, OTHER)
    scene.fs.errors = [os_error(number)] * 3
    scene.poll()
    assert scene.state is TailState.LOST
    assert "still trying" in scene.tail.status.message
    scene.settle()
    assert (scene.text(), scene.resets) == (FIRST + OTHER, [])


def test_errors_are_not_answered_by_spinning(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.fs.errors = [os_error(errno.ESTALE) for _ in range(10_000)]
    scene.poll(times=1000, every_s=0.01)
    assert len(scene.fs.calls) < 12
    scene.fs.errors = []
    scene.poll(times=2, every_s=5)
    assert scene.text() == FIRST


def test_an_error_in_the_middle_of_a_poll_keeps_what_was_read(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.fs.longest_read = 10
    read_at = scene.fs.read_at
    count = 0

    def failing_read(handle: int, size: int, offset: int) -> bytes:
        nonlocal count
        count += 1
        if count == 4:
            raise os_error(errno.EIO)
        return read_at(handle, size, offset)

    scene.fs.read_at = failing_read  # type: ignore[method-assign]
    scene.settle()
    assert (scene.text(), scene.resets) == (FIRST, [])


def test_permission_lost_and_regained(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.denied = True
    scene.poll()
    assert scene.state is TailState.LOST
    assert "permission denied" in scene.tail.status.message
    scene.fs.denied = False
    scene.fs.write(PATH, OTHER)
    scene.poll()
    assert (scene.text(), scene.state) == (FIRST + OTHER, TailState.AT_END)


def test_a_held_file_is_read_on_without_permission_for_its_name(held: Scene) -> None:
    held.fs.write(PATH, FIRST)
    held.poll()
    held.fs.denied = True
    held.fs.write(PATH, OTHER)
    held.poll()
    assert held.text() == FIRST + OTHER


@pytest.mark.parametrize(
    ("mode", "word"), [(stat.S_IFDIR, "directory"), (stat.S_IFIFO, "named pipe"), (stat.S_IFSOCK, "socket")]
)
def test_what_is_no_file_is_refused_without_opening_it(scene: Scene, mode: int, word: str) -> None:
    scene.fs.write(PATH, b"").mode = mode | 0o755
    scene.poll()
    assert scene.state is TailState.REFUSED
    assert word in scene.tail.status.message
    assert isinstance(scene.tail.status.error, SourceError)
    assert "open" not in scene.fs.calls


def test_a_refused_path_is_read_once_a_file_stands_there(scene: Scene) -> None:
    scene.fs.write(PATH, b"").mode = stat.S_IFDIR | 0o755
    scene.poll()
    scene.fs.delete(PATH)
    scene.fs.write(PATH, FIRST)
    scene.poll()
    assert (scene.text(), scene.tail.status.error) == (FIRST, None)


def test_a_link_that_is_turned_to_another_run(scene: Scene) -> None:
    scene.fs.write("/run/a/metrics", FIRST)
    scene.fs.write("/run/b/metrics", OTHER)
    scene.fs.links[PATH] = "/run/a/metrics"
    scene.poll(max_bytes=10)
    scene.fs.links[PATH] = "/run/b/metrics"
    scene.settle()
    assert scene.resets == [Reset(ResetReason.RETARGETED, 1, is_restart=True)]
    assert (scene.text(0), scene.text(1)) == (FIRST, OTHER)


def test_an_old_size_on_a_network_is_not_a_truncation(reopened: Scene) -> None:
    node = reopened.fs.write(PATH, FIRST)
    reopened.poll()
    node.stale_size = 10
    reopened.poll(times=60)
    assert reopened.resets == []
    node.stale_size = None
    reopened.fs.write(PATH, OTHER)
    reopened.poll()
    assert (reopened.text(), reopened.resets) == (FIRST + OTHER, [])


def test_a_network_file_cut_short_is_believed_in_the_end(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll()
    reopened.fs.truncate(PATH, 25)
    reopened.poll(times=80)
    assert reopened.resets == []
    reopened.poll(times=20)
    assert reopened.text(1) == FIRST[:25]


def test_another_content_on_a_network_must_be_seen_twice(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll()
    reopened.fs.truncate(PATH)
    reopened.fs.write(PATH, OTHER)
    reopened.poll(times=3, every_s=1.0)
    assert reopened.resets == []
    assert "looking again" in reopened.tail.status.message
    reopened.poll(times=2, every_s=1.0)
    assert len(reopened.resets) == 1


def test_an_inode_that_migrates_is_the_same_file(reopened: Scene) -> None:
    node = reopened.fs.write(PATH, FIRST)
    reopened.poll()
    node.inode = 4711
    reopened.fs.write(PATH, OTHER)
    reopened.poll()
    assert (reopened.text(), reopened.resets) == (FIRST + OTHER, [])


def test_nothing_is_held_open_on_a_network(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll(times=3)
    assert reopened.fs.handles == {}


def test_the_folder_is_asked_now_and_then_on_a_network(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll(times=130)
    assert reopened.fs.calls.count("scandir") == 2


def test_a_name_that_the_folder_gives_to_another_file_is_reported(reopened: Scene) -> None:
    reopened.fs.write(PATH, FIRST)
    reopened.poll()
    old = reopened.fs.names[PATH]
    reopened.fs.rename(PATH, PATH + ".1")
    new = reopened.fs.write(PATH, OTHER)
    node_of = reopened.fs._node
    reopened.fs._node = lambda target: old if target == PATH else node_of(target)  # type: ignore[method-assign]
    reopened.poll(times=70)
    assert new.inode != old.inode
    assert "newer file" in reopened.tail.status.message
    reopened.fs._node = node_of  # type: ignore[method-assign]
    reopened.settle()
    assert reopened.text(1) == OTHER


def test_a_second_tail_may_begin_inside(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    tail = scene.new_tail(start=25)
    scene.poll()
    assert scene.chunks == [Chunk(FIRST[25:], 25, 0)]
    scene.fs.truncate(PATH)
    scene.fs.write(PATH, OTHER * 8)
    scene.settle()
    assert scene.text(1) == OTHER * 8
    assert tail.status.offset == len(OTHER) * 8


def test_a_start_beyond_the_end_means_that_the_file_was_cut(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.new_tail(start=1000)
    scene.settle()
    assert [reset.is_restart for reset in scene.resets] == [True]
    assert scene.text(1) == FIRST


def test_the_way_of_following_can_change(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.tail.follow_as(is_network=not scene.is_network)
    scene.fs.write(PATH, OTHER)
    scene.poll()
    assert (scene.text(), scene.resets) == (FIRST + OTHER, [])


def test_closing_lets_go_of_everything(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll()
    scene.fs.rename(PATH, PATH + ".1")
    scene.fs.write(PATH, OTHER)
    scene.poll()
    scene.tail.close()
    assert scene.fs.handles == {}
    assert scene.tail.poll() == []


def test_status_tells_size_and_offset(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST)
    scene.poll(max_bytes=10)
    assert (scene.tail.status.offset, scene.tail.status.size) == (10, len(FIRST))


@pytest.mark.parametrize("is_network", [False, True])
def test_a_file_that_is_not_there_says_where_the_way_to_it_ends(is_network: bool) -> None:
    scene = Scene(is_network=is_network)
    folder = stat.S_IFDIR | 0o755
    scene.fs.write("/", b"").mode = folder
    scene.poll()
    assert scene.tail.status.state is TailState.WAITING
    assert scene.tail.status.message == "there is no folder /run; the nearest that exists is /"
    scene.fs.write("/run", b"").mode = folder
    scene.poll()
    assert scene.tail.status.message == "the file does not exist yet in /run"
    scene.fs.write(PATH, FIRST)
    scene.settle()
    assert scene.text() == FIRST and scene.tail.status.message == ""


def test_a_file_in_the_place_of_a_folder_is_no_folder() -> None:
    scene = Scene(is_network=False)
    scene.fs.write("/", b"").mode = stat.S_IFDIR | 0o755
    scene.fs.write("/run", b"text")
    scene.poll()
    assert scene.tail.status.message == "there is no folder /run; the nearest that exists is /"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_without_a_handle_left_it_is_tried_again_and_kept_open_no_more(held: Scene, number: int) -> None:
    held.fs.write(PATH, FIRST)
    held.fs.errors = [os_error(number)]
    held.poll()
    assert held.state is TailState.LOST
    assert "too many open files" in held.tail.status.message
    held.settle()
    assert held.text() == FIRST
    assert held.fs.handles == {}


def test_handles_that_have_become_scarce_are_given_back_and_nothing_is_lost(held: Scene) -> None:
    held.fs.write(PATH, FIRST)
    held.poll()
    assert len(held.fs.handles) == 1
    held.fs.has_room = False
    held.fs.write(PATH, OTHER)
    held.poll()
    assert held.fs.handles == {}
    held.fs.rename(PATH, "/run/metrics.jsonl.1")
    held.fs.write("/run/metrics.jsonl.1", OTHER)
    held.fs.write(PATH, FIRST)
    held.settle()
    assert (held.text(), held.text(1)) == (FIRST + OTHER + OTHER, FIRST)
    assert held.fs.handles == {}


@pytest.mark.parametrize("late_s", [1, 60])
def test_a_writer_that_moves_on_late_loses_nothing(scene: Scene, late_s: int) -> None:
    scene.fs.write(PATH, FIRST * 20)
    scene.poll(times=3)
    scene.fs.rename(PATH, PATH + ".1")
    scene.fs.write(PATH, b"")
    scene.poll(times=late_s)
    scene.fs.write(PATH + ".1", OTHER)
    scene.fs.write(PATH, FIRST)
    scene.settle()
    assert b"".join(chunk.data for chunk in scene.chunks) == FIRST * 20 + OTHER + FIRST
    assert [(reset.reason, reset.is_restart) for reset in scene.resets] == [(ResetReason.ROTATED, False)]


def test_a_second_writer_that_moves_on_late_loses_nothing(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST * 20)
    scene.poll(times=3)
    scene.fs.rename(PATH, PATH + ".1")
    scene.fs.write(PATH, FIRST)
    scene.poll(times=3)
    scene.fs.write(PATH + ".1", OTHER)
    scene.poll(times=3)
    scene.fs.write(PATH + ".1", OTHER)
    scene.poll()
    assert scene.text() == FIRST * 20 + OTHER + OTHER
    scene.settle()
    assert b"".join(chunk.data for chunk in scene.chunks) == FIRST * 20 + OTHER + OTHER + FIRST


def test_a_second_writer_that_never_moves_on_does_not_keep_the_new_file_waiting_for_ever(scene: Scene) -> None:
    scene.fs.write(PATH, FIRST * 20)
    scene.poll(times=3)
    scene.fs.rename(PATH, PATH + ".1")
    scene.fs.write(PATH, FIRST)
    for _ in range(60):
        scene.fs.write(PATH + ".1", OTHER)
        scene.poll()
    assert scene.chunks[-1].data == FIRST


def test_a_rotated_file_that_is_deleted_is_left_at_once(held: Scene) -> None:
    held.fs.write(PATH, FIRST)
    held.poll()
    held.fs.rename(PATH, PATH + ".1")
    held.fs.write(PATH, OTHER)
    held.fs.delete(PATH + ".1")
    held.poll(times=2)
    assert held.text(1) == OTHER
