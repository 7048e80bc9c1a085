"""TFRecord framing: bytes → records, in whatever pieces they arrive.

A record is its length (u64), the masked CRC-32C of the length (u32), the payload and the payload's masked CRC (u32),
all little-endian. The first CRC is always checked, because a wrong length would misread everything after it; the second
is not, because a CRC-32C over all payloads would cost more than decoding them. Source:
tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import cache
from typing import Protocol

from rltop.formats.pending_bytes import PendingBytes
from rltop.model import Counts
from rltop.regex import regex

HEADER_BYTES = 12
FRAME_BYTES = HEADER_BYTES + 4
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""A longer one holds a graph or pictures: it is passed over and counted."""
_MAX_LENGTH = 2**31
"""A protobuf message is never longer, so such a length is no length."""

_HEADER = struct.Struct("<QI")
_ZERO_HEADER = bytes(HEADER_BYTES)
_ZERO_CRC = bytes(4)
_HEADERS_KEPT = 8192
_LEADING_ZEROS = 2
"""Low bytes of a length that may be zero themselves, behind a region of zeros."""


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 if crc & 1 else crc >> 1
        table.append(crc)
    return tuple(table)


def masked_crc32c(data: bytes) -> int:
    """CRC-32C, rotated and shifted as TFRecord wants it (core/lib/hash/crc32c.h)."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record_length(header: bytes) -> int | None:
    """The length that 12 bytes of header give; None if they are no header."""
    length, crc = _HEADER.unpack(header)
    if length >= _MAX_LENGTH or masked_crc32c(header[:8]) != crc:
        return None
    return int(length)


_SIGN = regex(rb"(?s)(?=(?!\0{4}).{4}\0{4})")
"""Where a length below 2^32 may stand."""
_WALL_TIME, _STEP, _SUMMARY = 0x09, 0x10, 0x2A
_STEP_AT = 9
"""An event begins with its wall time; the step follows, unless it is 0, and then what the event holds."""
_CONTINUES = 0x80


def row_starts(data: bytes, offset: int) -> Sequence[int]:
    """Where the step of the events changes.

    The first record is found by the checksum of its length; from there on records follow
    each other, as they do for whoever decodes them.

    Returns:
        Offsets in the file of the first events of a step, in order; the first step in `data` may have begun before.
    """
    found: list[int] = []
    pos: int | None = _next_record(data, 0)
    step: bytes | None = None
    lengths: dict[bytes, int | None] = {}
    while pos is not None and len(data) - pos >= HEADER_BYTES:
        header = data[pos : pos + HEADER_BYTES]
        if header not in lengths:
            lengths[header] = record_length(header)
        length = lengths[header]
        if length is None:
            pos = _next_record(data, pos) if header == _ZERO_HEADER else None
            continue
        end = pos + FRAME_BYTES + length
        if end > len(data):
            break
        now = _step_field(data, pos + HEADER_BYTES, end)
        if now is not None and now != step:
            if step is not None:
                found.append(offset + pos)
            step = now
        pos = end
    return found


def _next_record(data: bytes, pos: int) -> int | None:
    """Where the next record begins at `pos` or behind it; None where there is none."""
    for sign in _SIGN.finditer(data, pos):
        at = sign.start()
        if len(data) - at >= HEADER_BYTES and record_length(data[at : at + HEADER_BYTES]) is not None:
            return at
    return None


def _step_field(data: bytes, pos: int, end: int) -> bytes | None:
    """The bytes that hold the step of an event with a summary; None for anything else."""
    if end - pos <= _STEP_AT or data[pos] != _WALL_TIME:
        return None
    begin = stop = pos + _STEP_AT
    if data[begin] == _STEP:
        stop += 1
        while stop < end and data[stop] & _CONTINUES:
            stop += 1
        stop += 1
    return data[begin:stop] if stop < end and data[stop] == _SUMMARY else None


class RecordReader(Protocol):
    """Takes records as they are cut off, and may read ahead."""

    def take(self, payload: bytes, at: int) -> None:
        """The record at offset `at` of the file; `Counts.lines` is its number."""
        ...

    def read_ahead(self, data: bytes, pos: int, at: int) -> int:
        """How many bytes at `data[pos]`, offset `at` of the file, it has read by itself: whole good records, or 0."""
        ...


class _Gathered:
    """A reader that only keeps what it is given."""

    def __init__(self) -> None:
        self.found: list[tuple[bytes, int]] = []

    def take(self, payload: bytes, at: int) -> None:
        self.found.append((payload, at))

    def read_ahead(self, data: bytes, pos: int, at: int) -> int:
        del data, pos, at
        return 0


class TfRecordFramer:
    """Cuts a byte stream into payloads with their offsets.

    A header of zeros is a region that is not written yet, or has not reached this machine: framing waits there, and
    `resume_offset` says from where bytes may be given again. If they are not and data follows the zeros, framing goes
    on behind them. A header that is neither stops it, with a reason, until a reset or until the same place is given
    again.

    Attributes:
        stopped: why nothing more can be read; empty while all is well.
        bad_bytes: bytes passed that belong to no record that was given out.
    """

    def __init__(self, counts: Counts) -> None:
        self.stopped = ""
        self.bad_bytes = 0
        self._counts = counts
        self._window = PendingBytes()
        self._lengths: dict[bytes, int] = {}
        self._zeros_from: int | None = None
        self._lost_bytes = 0
        self._has_begun = False

    @property
    def resume_offset(self) -> int:
        return self._window.start if self._zeros_from is None else self._zeros_from

    @property
    def held_bytes(self) -> int:
        return 0 if self.stopped else max(0, self._window.end - self.resume_offset)

    def reset(self) -> None:
        self._window.clear()
        self._lengths.clear()
        self.stopped, self._lost_bytes = "", 0
        self._zeros_from, self._has_begun = None, False

    def feed(self, data: bytes, offset: int) -> list[tuple[bytes, int]]:
        """Every payload that `data` completes, with the offset of its record."""
        gathered = _Gathered()
        self.feed_to(gathered, data, offset)
        return gathered.found

    def feed_to(self, reader: RecordReader, data: bytes, offset: int) -> None:
        """Give `reader` every record that `data` completes; one that it reads ahead it counts itself."""
        if self._has_begun and offset < self.resume_offset:
            data, offset = data[self.resume_offset - offset :], self.resume_offset
        if not data:
            return
        if self.stopped:
            if offset > self.resume_offset:
                self._lost_bytes += len(data)
                self.bad_bytes += len(data)
                return
            # Given again from where it went wrong: perhaps it had only half arrived.
            self.bad_bytes -= self._lost_bytes
            self.stopped, self._lost_bytes = "", 0
        self._has_begun = True
        if self._zeros_from is not None and offset <= self._zeros_from:
            self._zeros_from = None
        if self._window.take(data, offset):
            while self._cross_zeros() and self._cut(reader):
                pass

    def _cut(self, reader: RecordReader) -> bool:
        """Cut records off; True if it met zeros, and something behind them may follow."""
        data, start = self._window.data, self._window.start
        lengths, size, pos, wanted = self._lengths, len(data), 0, HEADER_BYTES
        counts, take, read_ahead = self._counts, reader.take, reader.read_ahead
        while size - pos >= HEADER_BYTES:
            ahead = read_ahead(data, pos, start + pos)
            if ahead:
                pos += ahead
                continue
            header = data[pos : pos + HEADER_BYTES]
            length = lengths.get(header)
            if length is None:
                if header == _ZERO_HEADER:
                    self._window.drop(pos)
                    self._zeros_from = self._window.start
                    return True
                length = self._read_length(header)
                if length is None:
                    self._window.drop(pos)
                    self._give_up("record length does not match its checksum")
                    return False
            end = pos + FRAME_BYTES + length
            if length > MAX_RECORD_BYTES:
                counts.oversize_lines += 1
                self.bad_bytes += FRAME_BYTES + length
                if end > size:
                    self._window.jump(start + end)
                    return False
            elif end > size:
                wanted = end - pos
                break
            elif data[end - 4 : end] == _ZERO_CRC:
                # A checksum of zero is one in 2^32: its page is missing, and perhaps a part of the payload.
                if size - end < HEADER_BYTES:
                    wanted = end - pos + HEADER_BYTES
                    break
                self._count_bad("incomplete record", end - pos)
            else:
                counts.lines += 1
                take(data[pos + HEADER_BYTES : end - 4], start + pos)
            pos = end
        self._window.drop(pos, wanted)
        return False

    def _read_length(self, header: bytes) -> int | None:
        length = record_length(header)
        if length is not None:
            if len(self._lengths) >= _HEADERS_KEPT:
                self._lengths.clear()
            self._lengths[header] = length
        return length

    def _cross_zeros(self) -> bool:
        """Stand behind a region of zeros; False while nothing that can be read follows it."""
        if self._zeros_from is None:
            return True
        window = self._window
        window.drop(len(window.data) - len(window.data.lstrip(b"\0")))
        if len(window.data) < HEADER_BYTES:
            return False
        for zeros in range(min(_LEADING_ZEROS, window.start - self._zeros_from) + 1):
            if record_length(bytes(zeros) + window.data[: HEADER_BYTES - zeros]) is not None:
                window.put_back(bytes(zeros))
                passed = window.start - self._zeros_from
                self._counts.nul_bytes += passed
                self.bad_bytes += passed
                self._zeros_from = None
                return True
        self._give_up("no record after a region of zeros")
        return False

    def _give_up(self, reason: str) -> None:
        self.stopped = f"{reason}, at byte {self._window.start:,}"
        self._lost_bytes = self._window.end - self.resume_offset
        self._count_bad(self.stopped, self._lost_bytes)
        self._window.jump(self._window.start)

    def _count_bad(self, reason: str, size: int) -> None:
        self.bad_bytes += size
        self._counts.refuse(self._counts.lines + 1, reason)
