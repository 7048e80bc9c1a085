"""Encodings of parquet → Python values: plain, dictionary indices, levels.

Owns the bits of one page; knows nothing of files. Source: the format description
of the Apache Parquet project (Encodings.md).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain

BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED = range(8)
Value = bool | int | float | bytes | str | None

_FORMATS = {INT32: ("i", 4), INT64: ("q", 8), FLOAT: ("f", 4), DOUBLE: ("d", 8)}
_MAX_BITS = 32


def plain(data: bytes, kind: int, count: int, size: int = 0) -> list[Value]:
    """`count` values one after the other; `size` is the length of each where it is fixed.

    Raises:
        ValueError: the data ends early, or the type is not read.
    """
    if kind in _FORMATS:
        letter, width = _FORMATS[kind]
        if count * width > len(data):
            raise ValueError("a page that ends early")
        return list(struct.unpack_from(f"<{count}{letter}", data))
    if kind == BYTE_ARRAY:
        return _byte_arrays(data, count)
    if kind == BOOLEAN:
        if count > 8 * len(data):
            raise ValueError("a page that ends early")
        return [bool(data[i >> 3] >> (i & 7) & 1) for i in range(count)]
    if kind == FIXED and size > 0 and count * size <= len(data):
        return [data[i * size : (i + 1) * size] for i in range(count)]
    raise ValueError(f"values of type {kind}")


def _byte_arrays(data: bytes, count: int) -> list[Value]:
    found: list[Value] = []
    at, end = 0, len(data)
    for _ in range(count):
        if at + 4 > end:
            raise ValueError("a page that ends early")
        size = int.from_bytes(data[at : at + 4], "little")
        at += 4
        if at + size > end:
            raise ValueError("a page that ends early")
        found.append(data[at : at + size])
        at += size
    return found


def hybrid(data: bytes, bits: int, count: int) -> list[int]:
    """`count` numbers of `bits` bits each, as runs and packed groups of eight.

    Raises:
        ValueError: the data ends early, or numbers that wide are not read.
    """
    if not 0 <= bits <= _MAX_BITS:
        raise ValueError(f"numbers of {bits} bits")
    found: list[int] = []
    at, width = 0, (bits + 7) // 8
    while len(found) < count:
        head, at = _varint(data, at)
        if head & 1:
            groups = head >> 1
            stop = at + groups * bits
            if not groups or stop > len(data) + 8 * bits:
                raise ValueError("a page that ends early")
            _unpack(data[at:stop], bits, min(8 * groups, count - len(found)), found)
            at = stop
        else:
            run = min(head >> 1, count - len(found))
            if not run or at + width > len(data):
                raise ValueError("a page that ends early")
            found += [int.from_bytes(data[at : at + width], "little")] * run
            at += width
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(data) and shift < 63:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at
    raise ValueError("a page that ends early")


def _unpack(data: bytes, bits: int, count: int, found: list[int]) -> None:
    """Append `count` numbers of `bits` bits, the lowest bits first."""
    if not bits:
        found += [0] * count
        return
    if count * bits > 8 * len(data):
        raise ValueError("a page that ends early")
    mask = (1 << bits) - 1
    shifts = range(0, 8 * bits, bits)
    groups = (int.from_bytes(data[at : at + bits], "little") for at in range(0, len(data), bits))
    numbers = list(chain.from_iterable([group >> shift & mask for shift in shifts] for group in groups))
    found += numbers[:count]


def spread(values: Sequence[Value], levels: Sequence[int]) -> list[Value]:
    """Values at the places whose level is 1; None at the others.

    Raises:
        ValueError: there are fewer values than such places.
    """
    if sum(levels) > len(values):
        raise ValueError("a page that ends early")
    each = iter(values)
    return [next(each) if level else None for level in levels]
