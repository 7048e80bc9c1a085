"""What every decoder is asked, and what decoders share: options, lines, bytes that wait, the budget for unpacking.

Lines are split on the line feed only: other Unicode line ends stand inside JSON strings. A few bytes of a zip file or
of a parquet page can stand for gigabytes; streams (gzip, bzip2, zstd) need no budget: they are unpacked and decoded a
piece at a time. zstandard is imported where something is compressed so: the standard library has none yet.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from types import ModuleType

from rltop.errors import DecodeError, SourceError
from rltop.model import Counts, Record, TimedSpan
from rltop.regex import regex
from rltop.structs import NamedTuple


class DecoderOptions(NamedTuple):
    """How a file is decoded; every kind takes what concerns it.

    Attributes:
        step_key: the key that holds the step; empty: the documented list.
        may_count_rows: a file whose rows have no step is numbered by row; off where reading begins in the middle.
        writer: of a console log only the lines of this one of several runs; empty: all.
        is_hurried: a few rows are read, and somebody waits for them: see `json_text`.
    """

    step_key: str = ""
    may_count_rows: bool = True
    writer: str = ""
    is_hurried: bool = False


BARE_FAILURES = ("the process ended with exit code", "SwanLab has the run as")
"""How a failure begins that names no cause: whoever knows one says more."""


FATAL_S = 30.0
"""So long without progress after a line that no process survives, and the job is dead."""
CAUGHT_S = 300.0
"""So long, and longer than usual, after an exception that the job may have caught."""
NO_USUAL_S = 1_800.0
"""Stuck after so long without progress where nothing tells what is usual."""
STUCK, STUCK_FLOOR_S = 6.0, 300.0
"""Stuck after so many times what is usual, and not sooner."""
ENDED_S = 2 * 3_600.0
"""A job that is not seen to be in the middle of something has ended after a silence of so long, rather than hung."""
GONE_S = 48 * 3_600.0
"""A job whose files have not gone on for longer is gone, whatever they say last."""


def stuck_after(usual_s: float | None, longest_s: float) -> float:
    """How long nothing must go on, in seconds, until a job is stuck; `longest_s`: what was usual once already."""
    return max(longest_s, NO_USUAL_S if usual_s is None else max(STUCK * usual_s, STUCK_FLOOR_S))


def ended_after(usual_s: float | None, *, is_midway: bool) -> float:
    """How long until it has ended rather than hangs, where nothing tells why it is silent.

    Args:
        is_midway: it is seen to be in something, or short of its last step.
    """
    return GONE_S if is_midway else max(ENDED_S, 2.0 * STUCK * (usual_s or 0.0))


class Decoder:
    """Bytes in, rows out; the half line at the end is kept until its rest comes.

    A kind of file overrides what it has to say more of than what stands here.
    """

    counts: Counts

    @property
    def is_rewritten(self) -> bool:
        """Is a file of this kind written anew with every row? Then a new beginning is no new attempt."""
        return False

    @property
    def is_finished(self) -> bool:
        """Has the writer said that the run is over, in a record of its own?"""
        return False

    @property
    def is_done(self) -> bool:
        """Is the newest thing that the writer says, in words, that the run is done? It may go on all the same."""
        return False

    @property
    def failure(self) -> str:
        """What the writer says that it died of, raw; empty where it says nothing, or has gone on since."""
        return ""

    @property
    def dies_after_s(self) -> float:
        """How long nothing must come behind `failure` until it is what the run died of: `FATAL_S` or `CAUGHT_S`."""
        return FATAL_S

    @property
    def stopped(self) -> str:
        """Why nothing more can be read, for a person; empty while something can."""
        return ""

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, where the settings or the samples in the file say it."""
        return None

    def take_head(self, data: bytes) -> None:
        """Learn from the first bytes, cut anywhere, what rows at the end need; rows in them are not given out.

        Args:
            data: the beginning of the file, at most `Kind.head_bytes` of it.
        """

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Decode what has come; `offset` is where `data` stands in the file."""
        raise NotImplementedError

    @property
    def has_more(self) -> bool:
        """Is some of what was fed not decoded yet?

        A decoder that may have more to give than there is time for in one call keeps the rest. Whoever feeds it asks
        it to go on until it has no more, in its own time, before it is fed again: nothing is lost where that is not
        done, but more is held.
        """
        return False

    def go_on(self) -> list[Record]:
        """Decode the next piece of what was fed: some milliseconds of it."""
        return []

    def go_on_to_end(self) -> list[Record]:
        records: list[Record] = []
        while self.has_more:
            records += self.go_on()
        return records

    def flush(self) -> list[Record]:
        """What has been gathered of a row that may go on: nothing more has come for a while."""
        return []

    @property
    def holds_back(self) -> bool:
        """Would `finish` give or count anything that `flush` did not?

        A deep copy can be finished instead, to see what there would be if nothing came.
        """
        return False

    def finish(self) -> list[Record]:
        """Decode a last line that was never ended, if it is whole."""
        raise NotImplementedError

    def take_spans(self) -> list[TimedSpan]:
        """When stages really began and ended, step by step: what has been read of it since the last call."""
        return []

    def reset(self, *, is_restart: bool = True) -> None:
        """Forget the half line: what follows begins a new file, of a writer that started anew or merely goes on."""
        raise NotImplementedError

    def _refuse(self, reason: str) -> None:
        self.counts.refuse(self.counts.lines, reason)


class OuterDecoder(Decoder):
    """What a decoder says that leaves rows to another one, which may not be known yet."""

    _inner: Decoder | None

    def take_spans(self) -> list[TimedSpan]:
        return (self._inner or _UNKNOWN).take_spans()


def _of_inner(name: str) -> property:
    return property(lambda decoder: getattr(decoder._inner or _UNKNOWN, name))


_UNKNOWN = Decoder()
"""Of which nothing is known yet: it says what any decoder does that has not more to say."""
for _name in ("is_rewritten", "is_finished", "is_done", "failure", "dies_after_s", "stopped", "group_size"):
    setattr(OuterDecoder, _name, _of_inner(_name))


# -- The bytes of a binary file that have come but are not decoded yet ---------------------------------------------
# Owns their place in the file. Bytes may be given again: a file system can show a region as zeros first and as data
# later, so what is given again replaces what is held.


class PendingBytes:
    """A gapless piece of a file, cut at its beginning as it is decoded.

    Attributes:
        data: the bytes to look at; complete only after `take` has returned True.
    """

    def __init__(self) -> None:
        self.data = b""
        self.start = 0
        self.end = 0
        self._parts: list[bytes] = []
        self._wanted = 0

    def clear(self) -> None:
        self.data, self.start, self.end = b"", 0, 0
        self._parts, self._wanted = [], 0

    def take(self, data: bytes, offset: int) -> bool:
        """Add what stands at `offset`; False while fewer bytes are held than were wanted.

        Bytes before the end of what is held replace it from there on; after a gap only the new bytes are held.
        """
        if offset != self.end:
            self._wanted = 0
            if self.start <= offset < self.end:
                self._join()
                self.data = self.data[: offset - self.start]
            else:
                self.data, self.start = b"", offset
                self._parts.clear()
        self.end = offset + len(data)
        self._parts.append(data)
        if self.end < self._wanted:
            return False
        self._join()
        return True

    def drop(self, count: int, wanted: int = 0) -> None:
        """Cut `count` bytes off; `take` need not look before `wanted` bytes are held then."""
        self.data = self.data[count:]
        self.start += count
        self._wanted = self.start + wanted

    def put_back(self, data: bytes) -> None:
        self.data = data + self.data
        self.start -= len(data)

    def jump(self, offset: int) -> None:
        """Hold nothing, and go on at `offset`, wherever that is."""
        self.clear()
        self.start = self.end = offset

    def _join(self) -> None:
        # A large record comes in many pieces: joined once, not at each of them.
        if self._parts:
            self.data = b"".join((self.data, *self._parts)) if self.data or len(self._parts) > 1 else self._parts[0]
            self._parts = []


MAX_LINE_BYTES = 16 * 1024 * 1024
BOM = b"\xef\xbb\xbf"
HOLE_BYTES = 512
"""So many bytes in a row that are NUL, or were left out, are a hole. A line ends before it; fewer may stand in one."""
_HOLE = regex(rb"\0{512,}|(?<=[\r\n])\0+")

CONFLICT = b"<<<<<<< "
"""How a line begins that git leaves where two versions of a file cannot be merged."""
_CONFLICT_LINE = regex(rb"^" + CONFLICT, re.MULTILINE)


def conflict_line(text: bytes | bytearray) -> int:
    """The number, from 1, of the first line that git has left as a conflict marker; 0 if there is none."""
    found = _CONFLICT_LINE.search(text)
    return 0 if found is None else text.count(b"\n", 0, found.start()) + 1


def without_holes(data: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield what stands between the holes of `data` with its offset; no part and no line in it begins with NUL."""
    begin = 0
    for stop, behind in [*(hole.span() for hole in _HOLE.finditer(data)), (len(data), len(data))]:
        part = data[begin:stop].lstrip(b"\0")
        if part:
            yield part.rstrip(b"\0"), offset + stop - len(part)
        begin = behind


class LineFramer:
    """Cuts a byte stream into lines with their offsets.

    A line past 16 MiB is skipped up to its end and counted; NUL bytes (holes that a truncating writer leaves, or data
    that has not reached this node) are taken out of a line and counted. A line that a hole interrupts ends there: what
    stands behind it is another one.

    Args:
        inside: where reading begins inside a line, the rest of which is passed over; None: at the beginning of one.
    """

    def __init__(self, counts: Counts, inside: int | None = None) -> None:
        self._counts = counts
        self._parts: list[bytes] = []
        self._held = 0
        self._start = 0
        self._end = inside or 0
        self._is_skipping = inside is not None

    def feed(self, data: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
        """Yield each line that `data` completes, without its end, and its offset."""
        if b"\0" in data:
            for part, start in without_holes(data, offset):
                self._counts.nul_bytes -= len(part)
                yield from self._cut(part, start)
            self._counts.nul_bytes += len(data)
        elif data:
            yield from self._cut(data, offset)

    def _cut(self, data: bytes, offset: int) -> Iterator[tuple[bytes, int]]:
        if (self._parts or self._is_skipping) and offset - self._end >= HOLE_BYTES:
            torn = self.finish()
            if torn is not None:
                yield torn
        self._end = offset + len(data)
        if not self._parts and not self._is_skipping:
            self._start = offset
        # Searched for, not split: `bytes.split` looks at every byte by itself, and every copy of a long line counts.
        end = data.find(b"\n")
        if end < 0:
            self._hold(data)
            return
        if self._is_skipping:
            self._is_skipping = False
        else:
            self._hold(data[:end])
            if self._is_skipping:
                self._is_skipping = False
            else:
                yield self._clean(b"".join(self._parts) if len(self._parts) > 1 else self._parts[0]), self._start
        self._parts.clear()
        self._held = 0
        begin = end + 1
        while (end := data.find(b"\n", begin)) >= 0:
            if end - begin > MAX_LINE_BYTES:
                self._counts.oversize_lines += 1
            else:
                yield self._clean(data[begin:end]), offset + begin
            begin = end + 1
        self._start = offset + begin
        if begin < len(data):
            self._hold(data[begin:])

    @property
    def pending(self) -> tuple[bytes, int] | None:
        """The unfinished last line as it stands, and its offset; None where there is none."""
        return (b"".join(self._parts), self._start) if self._parts else None

    def finish(self) -> tuple[bytes, int] | None:
        parts, start = self._parts, self._start
        self.reset()
        return (self._clean(b"".join(parts)), start) if parts else None

    def reset(self) -> None:
        self._parts, self._held, self._is_skipping = [], 0, False

    def _hold(self, part: bytes) -> None:
        if self._is_skipping:
            return
        self._held += len(part)
        if self._held > MAX_LINE_BYTES:
            self._counts.oversize_lines += 1
            self._parts, self._held, self._is_skipping = [], 0, True
        else:
            self._parts.append(part)

    def _clean(self, line: bytes) -> bytes:
        if b"\0" in line:
            self._counts.nul_bytes += line.count(b"\0")
            line = line.replace(b"\0", b"")
        return line[len(BOM) :] if line.startswith(BOM) else line


MAGIC_BYTES = 4
"""How many bytes of a file tell its codec."""


class Codec(enum.StrEnum):
    GZIP = "gzip"
    BZIP2 = "bzip2"
    ZSTD = "zstd"
    UTF16 = "UTF-16"
    """What `>` of Windows PowerShell writes."""


_MAGIC = (
    *((b"\x1f\x8b", Codec.GZIP), (b"BZh", Codec.BZIP2), (b"\x28\xb5\x2f\xfd", Codec.ZSTD)),
    *((b"\xff\xfe", Codec.UTF16), (b"\xfe\xff", Codec.UTF16)),
)


def codec_of(head: bytes) -> Codec | None:
    """The codec of a file that begins with `head` (at least `MAGIC_BYTES`); None if it is as it is read."""
    return next((codec for magic, codec in _MAGIC if head.startswith(magic)), None)


MEMORY_BYTES = 256 * 1024 * 1024
"""What is held of one file while it is read; an archive of a real run takes a few MiB."""
CELL_BYTES = 32
"""A number or a reference to a text, as Python holds it."""


class Allowance:
    """What is left of the budget of one file."""

    def __init__(self, limit: int = MEMORY_BYTES) -> None:
        self._limit = limit
        self._spent = 0

    def spend(self, size: int, what: str) -> None:
        """Have `size` more bytes in memory, for `what`.

        Raises:
            DecodeError: that is more than may be; names what, the size and the limit.
        """
        self._spent += max(0, size)
        if self._spent > self._limit:
            raise DecodeError(f"{what}: {self._spent:,} bytes unpacked, limit {self._limit:,}")


def zstandard_package() -> ModuleType:
    """The package.

    Raises:
        SourceError: it cannot be imported, though it is a dependency.
    """
    try:
        import zstandard  # noqa: PLC0415 - no other format pays for it
    except ImportError:
        raise SourceError(
            "compressed with zstd, but the package zstandard cannot be imported",
            "reinstall rltop: zstandard is a dependency",
        ) from None
    return zstandard


def unpack(data: bytes, most: int) -> bytes:
    """The first `most` bytes of what was packed.

    Raises:
        SourceError: the package cannot be imported.
        ValueError: the data is damaged.
    """
    package = zstandard_package()
    try:
        # Not `decompress`: it makes room for whatever length the frame itself claims.
        out: bytes = package.ZstdDecompressor().stream_reader(data).read(most)
    except package.ZstdError as error:
        raise ValueError(str(error)) from error
    return out
