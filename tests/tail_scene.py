"""A changing file and a tail that follows it: kept open, reopened, or reopened for lack of handles."""

from __future__ import annotations

from fake_filesystem import FakeFileSystem

from rltop.clock import FakeClock
from rltop.sources.events import Chunk, Reset, TailOptions, TailState
from rltop.sources.tail import Tail

PATH = "/run/metrics.jsonl"
FIRST = b'{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.25}\n'
OTHER = b'{"step": 1, "loss": 0.9}\n'


class Scene:
    """A file system, a tail on one path, and what the tail has emitted."""

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
        """Poll until every pending decision of the tail has been made."""
        self.poll(times=20)

    def text(self, generation: int = 0) -> bytes:
        return b"".join(chunk.data for chunk in self.chunks if chunk.generation == generation)

    @property
    def state(self) -> TailState:
        return self.tail.status.state
