"""Compressed history: `.gz`, `.bz2` and `.zst` in front of any other decoder, and likewise text in UTF-16.

Recognised by magic bytes, not by name. If a stream ends early or breaks, everything decoded before is kept; several
concatenated members are one stream, as for the command-line tools. A few bytes can expand to any size, so data is
decompressed and decoded piece by piece, and at most a few MiB of decompressed data are held.
"""

from __future__ import annotations

import bz2
import codecs
import zlib
from collections import deque
from copy import copy, deepcopy
from typing import Any

from rltop.formats.decoder import Codec, Decoder, OuterDecoder, zstandard_package
from rltop.model import Counts, Record

SLICE_BYTES = 16 * 1024
"""Decompressed bytes decoded at a time; the worst case, line ends only, takes some 10 ms."""
_PIECE_BYTES = 4 * 1024
"""Compressed bytes given to a codec at a time; the output of the piece in which a stream breaks is lost."""


_ZSTD_BYTES = 256
"""Bytes given to zstd at a time, because its package cannot limit the output.

A block has at least four bytes and expands to at most 128 KiB, so at most 8 MiB come out at once.
"""


_WORK_BYTES, _RATIO = 128 * 1024 * 1024, 500
"""A stream that takes the work of more bytes than this, and than this many times its size, is read no further.

Logs pack to a twentieth, and a line never to less than a byte, but bzip2 makes 45 MB of 50 bytes: hours of line ends.
"""
_LINE_BYTES, _HOLE_SHARE = 64, 64
"""A line is as much work as so many bytes more, and this many NUL bytes of a hole as one of text."""


class _Utf16:
    """UTF-16 to UTF-8, without byte order mark; invalid data becomes replacement characters."""

    eof, unused_data = False, b""

    def __init__(self) -> None:
        self._head = b""
        self._decoder: codecs.IncrementalDecoder | None = None

    def decompress(self, data: bytes) -> bytes:
        if self._decoder is None:
            data = self._head = self._head + data
            if len(data) < len(codecs.BOM_UTF16):
                return b""
            order = "" if data.startswith((codecs.BOM_LE, codecs.BOM_BE)) else "-le" if data[0] else "-be"
            self._decoder = codecs.getincrementaldecoder(f"utf-16{order}")("replace")
        return self._decoder.decode(data).encode("utf-8", "replace")


class CompressedDecoder(OuterDecoder):
    """Decompresses in front of `inner`; positions are offsets in the decompressed stream.

    Attributes:
        note: what is wrong with the compressed stream, for the user; else empty.

    Raises:
        SourceError: the codec is zstd and its package cannot be imported.
    """

    def __init__(self, codec: Codec, inner: Decoder) -> None:
        self.codec = codec
        self._inner: Decoder = inner
        self.note = ""
        self._package = zstandard_package() if codec is Codec.ZSTD else None
        own = () if self._package is None else (self._package.ZstdError,)
        self._errors: tuple[type[Exception], ...] = (zlib.error, OSError, EOFError, ValueError, *own)
        self._inflater: Any = None
        """Decompressor of the current member, from zlib, bz2 or zstandard; None between members."""
        self._packed: deque[bytes] = deque()
        self._unpacked = memoryview(b"")
        self._may_give = False
        self._generation = 0
        self.unpacked_bytes = self._packed_bytes = self._work_bytes = 0
        self._members = 0
        self._is_broken = False

    @property
    def counts(self) -> Counts:  # type: ignore[override]  # delegates to the inner decoder
        return self._inner.counts

    @property
    def stopped(self) -> str:
        return self.note or super().stopped

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        """Queue compressed data; decompress and decode the first piece."""
        self._generation = generation
        if not self._is_broken:
            self._packed_bytes += len(data)
            self._packed.extend(data[at : at + _PIECE_BYTES] for at in range(0, len(data), _PIECE_BYTES))
        return self.decode_more()

    @property
    def has_more(self) -> bool:
        return bool(self._packed or self._unpacked or self._may_give) or self._inner.has_more

    @property
    def unread_bytes(self) -> int:
        return sum(map(len, self._packed))

    def decode_more(self) -> list[Record]:
        if self._inner.has_more:
            return self._inner.decode_more()
        if not self._unpacked and not self._is_broken:
            self._unpack()
        piece, self._unpacked = bytes(self._unpacked[:SLICE_BYTES]), self._unpacked[SLICE_BYTES:]
        at, self.unpacked_bytes = self.unpacked_bytes, self.unpacked_bytes + len(piece)
        self._work_bytes += len(piece) if piece.strip(b"\0") else len(piece) // _HOLE_SHARE
        self._work_bytes += _LINE_BYTES * piece.count(b"\n")
        if self._work_bytes > max(_WORK_BYTES, _RATIO * self._packed_bytes) and not self._is_broken:
            self._break(f"the {self.codec} stream unpacks to far more than any log: only its beginning was read")
            self._unpacked = memoryview(b"")
        return self._inner.feed(piece, at, self._generation) if piece else []

    def flush(self) -> list[Record]:
        return self._inner.flush()

    @property
    def holds_back(self) -> bool:
        return self._is_torn or self._inner.holds_back

    @property
    def _is_torn(self) -> bool:
        return self._inflater is not None and not (self._is_broken or self.codec is Codec.UTF16)

    def __deepcopy__(self, memo: dict[int, object]) -> CompressedDecoder:
        """A copy that can be finished but not fed, since the decompressor is shared."""
        twin = copy(self)
        twin._inner = deepcopy(self._inner, memo)
        return twin

    def finish(self) -> list[Record]:
        records = self.decode_rest()
        counts = self.counts
        if self._is_torn:
            self.note = f"the {self.codec} stream ends early: it is cut, or still being written"
            counts.cut_streams += 1
            counts.is_cut_off = True
        records += self._inner.finish()
        counts.is_cut_off = False
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        self._inner.reset(is_restart=is_restart)
        self._inflater = None
        self._packed.clear()
        self._unpacked, self._may_give = memoryview(b""), False
        self.unpacked_bytes = self._packed_bytes = self._work_bytes = self._members = 0
        self._is_broken = False
        self.note = ""

    def _unpack(self) -> None:
        """Decompress the next slice; may give nothing, for example in a header or trailer."""
        piece = self._packed.popleft() if self._packed else b""
        if self._inflater is None:
            piece = piece.lstrip(b"\0") if self._members else piece
            if not piece:
                return
            self._inflater = self._new_inflater()
        inflater = self._inflater
        try:
            out, piece = self._pull(inflater, piece)
        except self._errors as error:
            self._break(f"the {self.codec} stream is damaged ({error}); the data before that was read")
            return
        self._unpacked = memoryview(out)
        # A codec that has filled a slice may hold more output, even if it has consumed all of its input.
        self._may_give = bool(out) and not inflater.eof
        if inflater.eof:
            self._inflater = None
            self._members += 1
            piece = inflater.unused_data + piece
        if piece:
            self._packed.appendleft(piece)

    def _new_inflater(self) -> Any:
        if self.codec is Codec.GZIP:
            return zlib.decompressobj(wbits=31)
        if self.codec is Codec.BZIP2:
            return bz2.BZ2Decompressor()
        if self.codec is Codec.UTF16:
            return _Utf16()
        assert self._package is not None
        return self._package.ZstdDecompressor().decompressobj()

    def _pull(self, inflater: Any, data: bytes) -> tuple[bytes, bytes]:
        """Decompress part of `data`; returns about a slice of output and the unused input."""
        if self.codec is Codec.ZSTD:
            return inflater.decompress(data[:_ZSTD_BYTES]), data[_ZSTD_BYTES:]
        if self.codec is Codec.UTF16:
            return inflater.decompress(data), b""
        # bz2 keeps unused input itself: a call with empty input continues.
        out = inflater.decompress(data, SLICE_BYTES)
        # At the end of a member zlib may repeat what is in `unused_data`.
        return out, inflater.unconsumed_tail if self.codec is Codec.GZIP and not inflater.eof else b""

    def _break(self, note: str) -> None:
        self._is_broken = True
        self._packed.clear()
        self._may_give = False
        self.note = note
        self.counts.refuse(self.counts.lines + 1, note)
