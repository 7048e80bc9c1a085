"""A run: one or more streams, each with a step axis of its own."""

from __future__ import annotations

from rltop.model import Label
from rltop.store.series import StoreOptions
from rltop.store.stream import Stream
from rltop.structs import Struct, field


class Run(Struct, frozen=False):
    """What one training job wrote.

    Attributes:
        name: as shown.
        path: where it is read from.
        streams: by name; the trainer that has only one calls it "".
    """

    name: Label
    path: Label
    options: StoreOptions = field(default_factory=StoreOptions)
    streams: dict[str, Stream] = field(default_factory=dict)

    def stream(self, name: str = "") -> Stream:
        """The stream of this name, begun if it is new."""
        found = self.streams.get(name)
        if found is None:
            found = self.streams[name] = Stream(name, self.options)
        return found


class RunStore:
    """All runs, and the one memory budget that they share."""

    def __init__(self, options: StoreOptions | None = None) -> None:
        self.options = options or StoreOptions()
        self.runs: list[Run] = []
        self._streams: dict[str, int] = {}

    def add(self, name: Label, path: Label, streams: int = 1) -> Run:
        """Begin a run of so many streams; the budget for raw rows is shared out anew, stream by stream.

        Args:
            name: as shown.
            path: of its file.
            streams: how many it has; each gets a share of the memory.
        """
        run = Run(name, path, self.options)
        self.runs.append(run)
        self._streams[path.raw] = streams
        self._share_out()
        return run

    def remove(self, path: str) -> None:
        """Forget the run that is read from `path`; what it took is free again."""
        self.runs = [run for run in self.runs if run.path.raw != path]
        self._streams.pop(path, None)
        self._share_out()

    def _share_out(self) -> None:
        share = self.options._replace(memory_bytes=self.options.memory_bytes // max(1, sum(self._streams.values())))
        for each in self.runs:
            each.options = share
            for stream in each.streams.values():
                stream.options = share
