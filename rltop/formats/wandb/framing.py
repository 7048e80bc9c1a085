"""LevelDB's log format: bytes → records, in whatever pieces they arrive.

The file is blocks of 32 KiB; a record is one chunk, or several where it crosses blocks. A chunk is a CRC-32 of type and
data (u32), the length (u16), the type (u8) and the data, all little-endian; fewer than 7 bytes at the end of a block
are left empty. Because chunks begin anew in every block, a damaged block costs only itself. Source:
leveldb/doc/log_format.md; here the CRC is zlib's, unmasked.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence

from rltop.formats.pending_bytes import PendingBytes
from rltop.model import Counts

BLOCK_BYTES = 32 * 1024
MAGIC = b":W&B\xe1\xbe\x00"
"""What a file begins with: name, magic number 0xBEE1 big-endian, version 0."""
MAGIC_BYTES = len(MAGIC)
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""A longer record is passed over and counted."""

_CHUNK = struct.Struct("<IHB")
_CHUNK_BYTES = _CHUNK.size
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_NUMBER, _HISTORY = 0x08, 0x12
"""The fields that a record of history begins with: its number, which may be missing, and the row."""
_CONTINUES = 0x80


def row_starts(data: bytes, offset: int) -> Sequence[int]:
    """Where rows of history begin, with what was written between the row before and them.

    Checksums are left to whoever decodes: only the heads of chunks are looked at.

    Returns:
        Offsets in the file, in order; of the rows in `data` all but the first, before which more may belong to it.
    """
    found: list[int] = []
    behind_row: int | None = None
    is_row = False
    for pos, end, kind in _chunks(data, offset):
        if kind in (_FULL, _FIRST):
            is_row = _is_history(data, pos + _CHUNK_BYTES, end)
            if is_row and behind_row is not None:
                found.append(offset + behind_row)
        if is_row and kind in (_FULL, _LAST):
            behind_row = end
    return found


def _chunks(data: bytes, offset: int) -> Iterator[tuple[int, int, int]]:
    """Beginning, end and type of every whole chunk in `data`, from the first block that begins in it."""
    pos, size = -offset % BLOCK_BYTES or (0 if offset else MAGIC_BYTES), len(data)
    while size - pos >= _CHUNK_BYTES:
        block_end = pos + BLOCK_BYTES - (offset + pos) % BLOCK_BYTES
        if block_end - pos < _CHUNK_BYTES:
            pos = block_end
            continue
        _, length, kind = _CHUNK.unpack_from(data, pos)
        end = pos + _CHUNK_BYTES + length
        if not _FULL <= kind <= _LAST or end > block_end:
            pos = block_end
            continue
        if end > size:
            return
        yield pos, end, kind
        pos = end


def _is_history(data: bytes, pos: int, end: int) -> bool:
    if pos < end and data[pos] == _NUMBER:
        pos += 1
        while pos < end and data[pos] & _CONTINUES:
            pos += 1
        pos += 1
    return pos < end and data[pos] == _HISTORY


class BlockLogFramer:
    """Cuts a byte stream into records with their offsets.

    A chunk that cannot be right (zeros, a wrong checksum, a length beyond the
    block) may be one that is being written: framing waits at it, and
    `resume_offset` says from where bytes may be given again. Once the next block
    has begun, the rest of the block is counted as bad and framing goes on there.

    Args:
        magic: what a file begins with; not looked for when reading begins later.

    Attributes:
        stopped: why nothing can be read; empty while all is well.
        bad_bytes: bytes passed that belong to no record that was given out.
        frame_bytes: bytes of the format itself: the magic, the heads of good chunks, the empty ends of blocks.
            With them, payloads given out, bad and held bytes are all bytes that were fed.
    """

    def __init__(self, counts: Counts, magic: bytes) -> None:
        self.stopped = ""
        self.bad_bytes = 0
        self.frame_bytes = 0
        self._counts = counts
        self._magic = magic
        self._window = PendingBytes()
        self._found: list[tuple[bytes, int]] = []
        self._parts: list[bytes] = []
        self._parts_bytes = 0
        self._parts_at = 0
        self._has_begun = False
        self._is_synced = False

    @property
    def resume_offset(self) -> int:
        return self._window.start

    @property
    def held_bytes(self) -> int:
        return 0 if self.stopped else self._window.end - self._window.start + self._parts_bytes

    def reset(self) -> None:
        self._window.clear()
        self._forget_parts()
        self.stopped = ""
        self._has_begun = self._is_synced = False

    def feed(self, data: bytes, offset: int) -> list[tuple[bytes, int]]:
        """Every record that `data` completes, with the offset of its first chunk."""
        if self.stopped:
            self.bad_bytes += len(data)
            return []
        if self._has_begun and offset < self._window.start:
            data, offset = data[self._window.start - offset :], self._window.start
        if not data:
            return []
        self._has_begun = True
        found = self._found = []
        if self._window.take(data, offset) and (self._window.start > 0 or self._read_magic()):
            self._cut(found)
        self._counts.lines += len(found)
        return found

    def _read_magic(self) -> bool:
        window, magic = self._window, self._magic
        head = window.data[: len(magic)]
        if head == magic:
            window.drop(len(magic))
            self.frame_bytes += len(magic)
            self._is_synced = True
            return True
        # Zeros at the very beginning are a header that has not arrived.
        if not magic.startswith(head) and head.strip(b"\0"):
            self.stopped = f"the file does not begin with {magic!r}"
            self._count_bad(self.stopped, len(window.data))
        return False

    def _cut(self, found: list[tuple[bytes, int]]) -> None:
        data, start = self._window.data, self._window.start
        view, size, pos, wanted = memoryview(data), len(data), 0, _CHUNK_BYTES
        while True:
            block_end = pos + BLOCK_BYTES - (start + pos) % BLOCK_BYTES
            if block_end - pos < _CHUNK_BYTES:
                if block_end > size:
                    wanted = block_end - pos
                    break
                self.frame_bytes += block_end - pos
                pos = block_end
                continue
            if size - pos < _CHUNK_BYTES:
                break
            crc, length, kind = _CHUNK.unpack_from(data, pos)
            begin = pos + _CHUNK_BYTES
            end = begin + length
            is_possible = _FULL <= kind <= _LAST and end <= block_end
            if is_possible and end > size:
                wanted = end - pos
                break
            if not is_possible or zlib.crc32(view[begin - 1 : end]) != crc:
                if size <= block_end:
                    wanted = block_end - pos + 1
                    break
                self._lose(data[pos:block_end])
                pos = block_end
                continue
            self._is_synced = True
            self.frame_bytes += _CHUNK_BYTES
            self._add(kind, data[begin:end], start + pos, found)
            pos = end
        self._window.drop(min(pos, size), wanted)

    def _add(self, kind: int, part: bytes, at: int, found: list[tuple[bytes, int]]) -> None:
        if kind in (_FULL, _FIRST):
            if self._parts:
                self._lose_parts("incomplete record")
            if kind == _FULL:
                found.append((part, at))
            else:
                self._parts, self._parts_bytes, self._parts_at = [part], len(part), at
            return
        if not self._parts:
            # The rest of a record whose beginning was lost or too long, and counted there.
            self.bad_bytes += len(part)
            return
        self._parts.append(part)
        self._parts_bytes += len(part)
        if self._parts_bytes > MAX_RECORD_BYTES:
            self._counts.oversize_lines += 1
            self.bad_bytes += self._parts_bytes
            self._forget_parts()
        elif kind == _LAST:
            found.append((b"".join(self._parts), self._parts_at))
            self._forget_parts()

    def _lose(self, rest: bytes) -> None:
        if not rest.strip(b"\0"):
            self._counts.nul_bytes += len(rest)
            self.bad_bytes += len(rest)
        elif self._is_synced:
            self._count_bad("block with a wrong checksum", len(rest))
        else:
            # Reading began in the middle of the file: the first whole block is looked for.
            self.bad_bytes += len(rest)
        if self._parts:
            self._lose_parts("incomplete record")

    def _lose_parts(self, reason: str) -> None:
        self._count_bad(reason, self._parts_bytes)
        self._forget_parts()

    def _forget_parts(self) -> None:
        self._parts, self._parts_bytes = [], 0

    def _count_bad(self, reason: str, size: int) -> None:
        self.bad_bytes += size
        self._counts.refuse(self._counts.lines + len(self._found) + 1, reason)
