"""Snappy, decompressed: the codec in which parquet files are usually written.

The raw format (no framing); source: the format description of the snappy project.
"""

from __future__ import annotations

_MAX_RATIO = 24
"""A copy of 64 bytes takes three, so that no honest stream grows by more than this factor."""
_MAX_HEADER_BYTES = 5
MAX_BYTES = 2**32 - 1
"""The length is a number of 32 bits."""


def decompress(data: bytes, most: int = MAX_BYTES) -> bytes:
    """The bytes that were compressed.

    Raises:
        ValueError: these are no snappy bytes, not all of them, or more than `most` when decompressed.
    """
    length, at = _length(data)
    if length > min(most, _MAX_RATIO * len(data)):
        raise ValueError("a snappy stream that promises more than it can hold")
    out = bytearray()
    end = len(data)
    while at < end:
        tag = data[at]
        at += 1
        if not tag & 3:
            size, at = _literal(data, tag, at)
            if at + size > end:
                raise ValueError("a snappy stream that ends early")
            out += data[at : at + size]
            at += size
        else:
            size, back, at = _copy(data, tag, at)
            _repeat(out, back, size)
        if len(out) > length:
            raise ValueError("a snappy stream that is longer than it says")
    if len(out) != length:
        raise ValueError("a snappy stream that ends early")
    return bytes(out)


def _length(data: bytes) -> tuple[int, int]:
    value = 0
    for at, byte in enumerate(data[:_MAX_HEADER_BYTES]):
        value |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return value, at + 1
    raise ValueError("no snappy stream")


def _literal(data: bytes, tag: int, at: int) -> tuple[int, int]:
    """Length of the literal, and where it begins."""
    size = tag >> 2
    if size < 60:
        return size + 1, at
    extra = size - 59
    return int.from_bytes(data[at : at + extra], "little") + 1, at + extra


def _copy(data: bytes, tag: int, at: int) -> tuple[int, int, int]:
    """Length of the copy, how far back it begins, and where the next element begins."""
    kind = tag & 3
    width = (1, 2, 4)[kind - 1]
    if at + width > len(data):
        raise ValueError("a snappy stream that ends early")
    back = int.from_bytes(data[at : at + width], "little")
    if kind == 1:
        return 4 + ((tag >> 2) & 7), back | (tag >> 5) << 8, at + width
    return 1 + (tag >> 2), back, at + width


def _repeat(out: bytearray, back: int, size: int) -> None:
    start = len(out) - back
    if back <= 0 or start < 0:
        raise ValueError("a snappy copy from before the beginning")
    if back >= size:
        out += out[start : start + size]
    else:
        piece = bytes(out[start:])
        out += (piece * (size // back + 1))[:size]
