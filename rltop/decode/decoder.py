"""What every decoder of a byte stream promises."""

from __future__ import annotations

from typing import Literal, Protocol

from rltop.model import Counts, Record

Envelope = Literal["", "flat", "nested"]
"""How rows are wrapped: `nested` is {"step": N, "data": {…}}, `flat` is one object; empty: no row yet."""


class Decoder(Protocol):
    """Bytes in, rows out; the half line at the end is kept until its rest comes."""

    counts: Counts

    @property
    def envelope(self) -> Envelope:
        """How the rows are wrapped."""
        ...

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode what has come; `offset` is where `data` stands in the file."""
        ...

    def finish(self) -> list[Record]:
        """Decode a last line that was never ended, if it is whole."""
        ...

    def reset(self, *, is_restart: bool = True) -> None:
        """Forget the half line: what follows begins a new file, of a writer that started anew or merely goes on."""
        ...
