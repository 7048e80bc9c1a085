"""A decoder that detects the format from the first bytes.

So a file that does not exist yet, a pipe and a file with the wrong name are all decoded as what they turn out to be.
"""

from __future__ import annotations

from collections.abc import Callable

from rltop.errors import DecodeError, SourceError, refusing
from rltop.formats.decoder import Decoder, DecoderOptions, OuterDecoder
from rltop.formats.kinds import BINARY, CONSOLE, MAGIC_BYTES, Codec, Kind, codec_of, is_noise, kind_of
from rltop.model import Counts, Record

MOST_LAYERS = 4
"""Layers of compression that are taken off one another; each costs a decoder, and nobody packs a log more often."""


class AutoDecoder(OuterDecoder):
    """Holds the first bytes back until they tell their kind.

    Attributes:
        kind: what it turned out to be, or None so far.
    """

    def __init__(self, name: str, options: DecoderOptions, layers: int = 0) -> None:
        """Nothing is known yet.

        Args:
            layers: how many layers of compression have been taken off what it is given.
        """
        self.kind: Kind | None = None
        self._layers = layers
        self._refusal = ""
        self._name = name
        self._options = options
        self._damage = ""
        self._held = b""
        self._start: tuple[int, int] = (0, 0)
        self._inner: Decoder | None = None
        self._earlier = Counts()

    @property
    def counts(self) -> Counts:  # type: ignore[override]  # the other decoder's
        if self._inner is None or not self._earlier.lines:
            return self._earlier if self._inner is None else self._inner.counts
        total = Counts()
        total.add(self._earlier)
        total.add(self._inner.counts)
        return total

    @property
    def stopped(self) -> str:
        """Why it cannot be unpacked, what has ended it, or as the decoder of its kind says."""
        return self._damage or self._refusal or super().stopped

    @property
    def kind_note(self) -> str:
        """As its kind says; what is compressed is not being written."""
        return "" if self.kind is None else self.kind.note

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode what has come, or hold it until its kind is known."""
        if self._inner is not None:
            return self._guarded(lambda inner: inner.feed(data, offset, generation))
        if self._refusal:
            return []
        if not self._held:
            self._start = (offset, generation)
        self._held += data
        return self._settle(is_all=False)

    @property
    def has_more(self) -> bool:
        return self._inner is not None and not self._damage and self._inner.has_more

    def go_on(self) -> list[Record]:
        return self._guarded(lambda inner: inner.go_on())

    def flush(self) -> list[Record]:
        return self._guarded(lambda inner: inner.flush())

    @property
    def holds_back(self) -> bool:
        """Is there a beginning of which the kind is not known, or what the decoder of its kind keeps back?"""
        return bool(self._held) or (self._inner is not None and self._inner.holds_back)

    def finish(self) -> list[Record]:
        records = self._settle(is_all=True) if self._inner is None and self._held else []
        return [*records, *self._guarded(lambda inner: inner.finish())]

    def reset(self, *, is_restart: bool = True) -> None:
        """A new file begins. A compressed one may be followed by a plain one: kind is found out again."""
        self._held, self._refusal, self._damage = b"", "", ""
        if self._inner is None:
            return
        if self.kind is None:
            self._earlier.add(self._inner.counts)
            self._inner = None
        else:
            self._inner.reset(is_restart=is_restart)

    def _settle(self, *, is_all: bool) -> list[Record]:
        head = self._held
        if len(head) < MAGIC_BYTES and not is_all:
            return []
        codec = codec_of(head)
        if codec is not None:
            try:
                self._inner = self._unpacked(codec)
            except SourceError as error:
                return self._refuse(error)
        else:
            self.kind = kind_of(head, self._name, is_all=is_all)
            if self.kind is None:
                return []
            if self.kind is CONSOLE and is_noise(head):
                return self._refuse(SourceError(BINARY))
            self._inner = self.kind.make(self._options)
        self._held = b""
        return self._guarded(lambda inner: inner.feed(head, *self._start))

    def _guarded(self, read: Callable[[Decoder], list[Record]]) -> list[Record]:
        """What the decoder of its kind makes of it; damage that it does not see through itself ends the file."""
        if self._inner is None or self._damage:
            return []
        try:
            with refusing("cannot read any further"):
                return read(self._inner)
        except DecodeError as error:
            self._damage = error.message
            counts = self._inner.counts
            counts.refuse(counts.lines + 1, error.message)
            return []

    def _unpacked(self, codec: Codec) -> Decoder:
        from rltop.formats.compressed import CompressedDecoder  # noqa: PLC0415

        if self._layers >= MOST_LAYERS:
            raise SourceError(f"compressed more than {MOST_LAYERS} times", "decompress it first")
        return CompressedDecoder(codec, AutoDecoder(self._name, self._options, self._layers + 1))

    def _refuse(self, error: SourceError) -> list[Record]:
        """It cannot be unpacked: said, counted, and nothing of it is kept; the next file may be another."""
        self._refusal = error.message
        self._earlier.refuse(self._earlier.lines + 1, error.message)
        self._held = b""
        return []
