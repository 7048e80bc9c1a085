"""No byte that was visible at a poll is lost or doubled, whatever writer and file system do."""

from __future__ import annotations

import errno
import hashlib

from examples import examples
from fake_filesystem import FakeFileSystem, os_error
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from rltop.clock import FakeClock
from rltop.sources.events import Reset, TailOptions, TailState
from rltop.sources.tail import Tail

PATH = "/run/metrics.jsonl"
SIZES = st.sampled_from([1, 17, 63, 64, 65, 120, 255, 300, 700, 0])
BUDGETS = st.sampled_from([64, 1, 7, 300, 4096, 1 << 20])
LOOKS = st.tuples(BUDGETS, st.integers(0, 4))


class Life:
    """What a file held, from when its writer began until it began anew."""

    def __init__(self, kept: bytes = b"") -> None:
        self.text = bytearray(kept)
        self.visible = 0
        self.is_cut = False


class TailMachine(RuleBasedStateMachine):
    """A writer, a file system and a tail; the model keeps every life of the file."""

    is_network = False
    has_room = True

    @initialize()
    def begin(self) -> None:
        self.fs = FakeFileSystem()
        self.fs.reuses_inodes = True
        self.fs.has_room = self.has_room
        self.clock = FakeClock()
        self.tail = Tail(PATH, self.fs, self.clock, TailOptions(is_network=self.is_network))
        self.read: list[bytearray] = [bytearray()]
        self.lives = [Life()]
        self.written = 0
        self.has_failed = False

    # The writer: every byte is unlike what stood there in another life.

    def fresh(self, size: int) -> bytes:
        self.written += 1
        seed = str(self.written).encode()
        blocks = (hashlib.sha256(seed + bytes([n])).hexdigest().encode() for n in range(size // 64 + 1))
        return b"".join(blocks)[:size]

    def append(self, text: bytes) -> None:
        self.fs.write(PATH, text)
        self.lives[-1].text += text

    @property
    def exists(self) -> bool:
        return PATH in self.fs.names

    @rule(size=SIZES, looks=LOOKS)
    def write_on(self, size: int, looks: tuple[int, int]) -> None:
        if not self.exists:
            self.lives.append(Life())
        self.append(self.fresh(size))
        self.take_rescan(looks)

    @precondition(lambda self: self.exists)
    @rule(size=SIZES, looks=LOOKS)
    def truncate(self, size: int, looks: tuple[int, int]) -> None:
        self.fs.truncate(PATH)
        self.lives[-1].is_cut = True
        self.lives.append(Life())
        self.append(self.fresh(size))
        self.take_rescan(looks)

    @precondition(lambda self: self.exists)
    @rule(keep=SIZES, size=SIZES, looks=LOOKS)
    def cut_and_go_on(self, keep: int, size: int, looks: tuple[int, int]) -> None:
        kept = bytes(self.lives[-1].text[:keep])
        self.fs.truncate(PATH, keep)
        self.lives[-1].is_cut = True
        self.lives.append(Life(kept))
        self.append(self.fresh(size))
        self.take_rescan(looks)

    @precondition(lambda self: self.exists)
    @rule(size=SIZES, looks=LOOKS)
    def replace(self, size: int, looks: tuple[int, int]) -> None:
        text = self.fresh(size)
        self.fs.replace(PATH, text)
        self.lives.append(Life(text))
        self.take_rescan(looks)

    @precondition(lambda self: self.exists)
    @rule(size=SIZES, looks=LOOKS)
    def replace_by_longer_copy(self, size: int, looks: tuple[int, int]) -> None:
        text = self.fresh(size)
        self.fs.replace(PATH, bytes(self.lives[-1].text) + text)
        self.lives[-1].text += text
        self.take_rescan(looks)

    @precondition(lambda self: self.exists)
    @rule(size=SIZES, looks=LOOKS)
    def rotate(self, size: int, looks: tuple[int, int]) -> None:
        self.fs.rename(PATH, f"{PATH}.{self.written}")
        self.lives.append(Life())
        self.append(self.fresh(size))
        self.take_rescan(looks)

    @precondition(lambda self: self.exists)
    @rule(looks=LOOKS)
    def delete(self, looks: tuple[int, int]) -> None:
        self.fs.delete(PATH)
        self.take_rescan(looks)

    # The reader.

    @rule(looks=LOOKS)
    def take_rescan(self, looks: tuple[int, int]) -> None:
        budget, times = looks
        for _ in range(times):
            self.look(budget)

    def look(self, budget: int, after_s: float = 1.0) -> None:
        self.clock.advance(after_s)
        if self.exists:
            self.lives[-1].visible = len(self.lives[-1].text)
        for event in self.tail.poll(budget):
            if isinstance(event, Reset):
                assert event.generation == len(self.read)
                self.read.append(bytearray())
            else:
                assert event.generation == len(self.read) - 1
                assert event.offset == len(self.read[-1]), "a gap or an overlap"
                self.read[-1] += event.data

    @rule(longest=st.sampled_from([None, 1, 10, 200]))
    def read_shortly(self, longest: int | None) -> None:
        self.fs.longest_read = longest

    @rule(number=st.sampled_from([errno.EIO, errno.ESTALE]), times=st.integers(1, 3))
    def fail(self, number: int, times: int) -> None:
        self.fs.errors = [os_error(number) for _ in range(times)]
        self.has_failed = True

    # What must hold.

    @invariant()
    def every_generation_is_one_life_from_its_beginning(self) -> None:
        if not hasattr(self, "read"):
            return
        lives = iter(self.lives)
        for text in self.read:
            assert not text or any(life.text.startswith(text) for life in lives), (
                "bytes that no life had, or out of order"
            )

    def settle(self) -> None:
        """Longer than any doubt lasts."""
        self.fs.errors = []
        self.fs.longest_read = None
        for _ in range(30):
            self.look(1 << 20, after_s=5.0)

    def teardown(self) -> None:
        if not hasattr(self, "read"):
            return
        if self.exists and not self.lives[-1].text:
            # A renamed file is read on for as long as the new one holds nothing.
            self.append(self.fresh(17))
        self.settle()
        if self.exists:
            assert bytes(self.read[-1]) == bytes(self.lives[-1].text)
            assert self.tail.status.state is TailState.AT_END
        self.tail.close()
        assert self.fs.handles == {}


class HeldMachine(TailMachine):
    """A local file system: what was visible at a poll is read, whatever became of the name."""

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "read") and not self.has_failed:
            for life in self.lives:
                visible = bytes(life.text[: life.visible])
                assert life.is_cut or any(text.startswith(visible) for text in self.read), "visible, but never read"


class ReopenedMachine(TailMachine):
    """A network: sizes lag behind and data arrives out of order, for a while."""

    is_network = True
    hidden_looks = 0
    has_seen_truth = True

    @precondition(lambda self: self.exists)
    @rule(share=st.floats(0, 1), looks=LOOKS)
    def lag_behind(self, share: float, looks: tuple[int, int]) -> None:
        node = self.fs.names[PATH]
        node.stale_size = int(len(node.data) * share)
        self.take_rescan(looks)

    @precondition(lambda self: self.exists and self.has_seen_truth)
    @rule(first=st.floats(0, 1), size=SIZES, looks=LOOKS)
    def hide(self, first: float, size: int, looks: tuple[int, int]) -> None:
        """Bytes that were not read yet arrive later than those beyond them.

        For three looks at most, and the next time only once they have been seen:
        a hole that lasts is meant to be passed over.
        """
        node = self.fs.names[PATH]
        start = max(int(len(node.data) * first), len(self.read[-1]))
        node.unseen = [(start, start + size)]
        self.hidden_looks, self.has_seen_truth = 0, False
        self.take_rescan(looks)

    @rule()
    def tell_the_truth(self) -> None:
        for node in {*self.fs.names.values(), *self.fs.handles.values()}:
            node.stale_size, node.unseen = None, []

    def look(self, budget: int, after_s: float = 1.0) -> None:
        self.hidden_looks += 1
        if self.hidden_looks > 3:
            self.tell_the_truth()
        is_true = all(node.stale_size is None and not node.unseen for node in self.fs.names.values())
        super().look(budget, after_s)
        # A look that ended in an error or in doubt has read nothing.
        self.has_seen_truth = self.has_seen_truth or (is_true and not self.tail.status.message)

    def settle(self) -> None:
        self.tell_the_truth()
        super().settle()


class ScarceMachine(TailMachine):
    """A local file system with too few handles to keep one."""

    has_room = False


TestHeld = HeldMachine.TestCase
TestHeld.settings = examples(40, stateful_step_count=25)
TestReopened = ReopenedMachine.TestCase
TestReopened.settings = examples(40, stateful_step_count=25)
TestScarce = ScarceMachine.TestCase
TestScarce.settings = examples(40, stateful_step_count=25)
