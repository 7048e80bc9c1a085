"""A decoder that finds out from the first bytes what it is reading.

So a file that does not exist yet, a pipe and a file with the wrong name are all
decoded as what they turn out to be.
"""

from __future__ import annotations

from rltop.decode.compressed import CompressedDecoder
from rltop.decode.decoder import Decoder, Envelope
from rltop.decode.jsonl import JsonlOptions
from rltop.decode.kinds import Kind, is_compressed, kind_of
from rltop.model import Counts, Record

_MAGIC_BYTES = 4


class AutoDecoder:
    """Holds the first bytes back until they tell their kind.

    Attributes:
        kind: what it turned out to be, or None so far.
    """

    def __init__(self, name: str, options: JsonlOptions) -> None:
        self.kind: Kind | None = None
        self._name = name
        self._options = options
        self._held = b""
        self._start: tuple[int, int] = (0, 0)
        self._inner: Decoder | None = None
        self._none_yet = Counts()

    @property
    def counts(self) -> Counts:
        """Everything read and not understood."""
        return self._none_yet if self._inner is None else self._inner.counts

    @property
    def envelope(self) -> Envelope:
        """How the rows are wrapped."""
        return "" if self._inner is None else self._inner.envelope

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode what has come, or hold it until its kind is known."""
        if self._inner is not None:
            return self._inner.feed(data, offset, generation)
        if not self._held:
            self._start = (offset, generation)
        self._held += data
        return self._settle(is_all=False)

    def finish(self) -> list[Record]:
        """Nothing more will come."""
        records = self._settle(is_all=True) if self._inner is None and self._held else []
        return records if self._inner is None else [*records, *self._inner.finish()]

    def reset(self) -> None:
        """A new file begins; it is of the same kind."""
        self._held = b""
        if self._inner is not None:
            self._inner.reset()

    def _settle(self, *, is_all: bool) -> list[Record]:
        head = self._held
        if is_compressed(head):
            self._inner = CompressedDecoder(lambda: AutoDecoder(self._name, self._options))
        elif len(head) < _MAGIC_BYTES and not is_all:
            return []
        else:
            self.kind = kind_of(head, self._name, is_all=is_all)
            if self.kind is None:
                return []
            self._inner = self.kind.make(self._name, self._options)
        self._held = b""
        return self._inner.feed(head, *self._start)
