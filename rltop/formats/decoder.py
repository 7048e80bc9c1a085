"""The protocol of all decoders, and their options."""

from __future__ import annotations

from typing import Generic, Literal, Protocol, TypeVar, runtime_checkable

from rltop.model import Counts, Record, TimedSpan
from rltop.structs import NamedTuple

Envelope = Literal["", "flat", "nested"]
"""How rows are wrapped: `nested` is {"step": N, "data": {…}}, `flat` is one object; empty: no row yet."""


class DecoderOptions(NamedTuple):
    """How a file is decoded; every kind takes what concerns it.

    Attributes:
        step_key: the key that holds the step; empty: the documented list.
        may_count_rows: a file whose rows have no step is numbered by row; off
            where reading begins in the middle.
        writer: of a console log only the lines of this one of several runs; empty: all.
        is_hurried: a few rows are read, and somebody waits for them: see `json_text`.
    """

    step_key: str = ""
    may_count_rows: bool = True
    writer: str = ""
    is_hurried: bool = False


BARE_FAILURES = ("the process ended with exit code", "SwanLab has the run as")
"""How a failure begins that names no cause: whoever knows one says more."""


class Decoder(Protocol):
    """Bytes in, rows out; the half line at the end is kept until its rest comes."""

    @property
    def counts(self) -> Counts:
        """Everything read, and everything not understood."""
        ...

    @property
    def is_rewritten(self) -> bool:
        """Is a file of this kind written anew with every row? Then a new beginning is no new attempt."""
        ...

    @property
    def is_finished(self) -> bool:
        """Has the writer said that the run is over, in a record of its own?"""
        ...

    @property
    def failure(self) -> str:
        """What the writer says that it died of, raw; empty where it says nothing, or has gone on since."""
        ...

    @property
    def stopped(self) -> str:
        """Why nothing more can be read, for a person; empty while something can."""
        ...

    @property
    def envelope(self) -> Envelope:
        """How the rows are wrapped."""
        ...

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode what has come; `offset` is where `data` stands in the file.

        Returns:
            The rows that are whole now.
        """
        ...

    def flush(self) -> list[Record]:
        """What has been gathered of a row that may go on: nothing more has come for a while."""
        ...

    def finish(self) -> list[Record]:
        """Decode a last line that was never ended, if it is whole."""
        ...

    def reset(self, *, is_restart: bool = True) -> None:
        """Forget the half line: what follows begins a new file, of a writer that started anew or merely goes on."""
        ...


@runtime_checkable
class HasGroupSize(Protocol):
    """A decoder whose file may say how many completions the run draws per prompt."""

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, where the settings or the samples in the file say it."""
        ...


@runtime_checkable
class Withholding(Protocol):
    """A decoder that keeps back, after `flush`, what only `finish` gives: the rest of it may come.

    A deep copy of it can be finished in its stead, to see what there would be if nothing came.
    """

    @property
    def holds_back(self) -> bool:
        """Would `finish` give or count anything more?"""
        ...


@runtime_checkable
class Headed(Protocol):
    """A decoder that needs the beginning of a file to read rows at its end."""

    def take_head(self, data: bytes) -> None:
        """Learn from the first bytes, cut anywhere; the rows in them are not given out, and what follows stands later.

        Args:
            data: the beginning of the file, at most `Kind.head_bytes` of it.
        """
        ...


@runtime_checkable
class Piecemeal(Protocol):
    """A decoder that may have more to give of what it was fed than there is time for in one call.

    `feed` decodes as much as takes a few milliseconds and keeps the rest; `go_on` decodes
    the next such piece. Whoever feeds it asks it to go on until it has no more, in its own
    time, before it is fed again: nothing is lost where that is not done, but more is held.
    """

    @property
    def has_more(self) -> bool:
        """Is some of what was fed not decoded yet?"""
        ...

    def go_on(self) -> list[Record]:
        """Decode the next piece of what was fed."""
        ...


@runtime_checkable
class SpanSource(Protocol):
    """A decoder whose file says when stages really began and ended."""

    def take_spans(self) -> list[TimedSpan]:
        """What has been read of them since the last call, step by step."""
        ...


class Framer(Protocol):
    """Cuts the bytes of a file into the records that its format frames."""

    stopped: str
    """Why the rest of the file cannot be read; empty while all is well."""

    bad_bytes: int
    """Bytes that belong to no record."""

    @property
    def held_bytes(self) -> int:
        """Bytes of a record, or of a region of zeros, whose rest has not come."""
        ...

    @property
    def resume_offset(self) -> int:
        """From here on bytes may be given again, where they were zeros or torn before."""
        ...


F = TypeVar("F", bound=Framer)


class FramedDecoder(Generic[F]):
    """What a decoder of framed records knows by its framer."""

    _framer: F

    @property
    def stopped(self) -> str:
        """Why the rest of the file cannot be read; empty while all is well."""
        return self._framer.stopped

    @property
    def bad_bytes(self) -> int:
        """Bytes that belong to no record."""
        return self._framer.bad_bytes

    @property
    def held_bytes(self) -> int:
        """Bytes of a record, or of a region of zeros, whose rest has not come."""
        return self._framer.held_bytes

    @property
    def resume_offset(self) -> int:
        """From here on bytes may be given again, where they were zeros or torn before."""
        return self._framer.resume_offset
