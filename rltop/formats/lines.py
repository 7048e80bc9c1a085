"""Bytes → lines, in whatever pieces they arrive.

Splits on the line feed only: other Unicode line ends stand inside JSON strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rltop.model import Counts
from rltop.regex import regex

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
