"""Writes the simplest parquet files: one row group, one page per column, no compression.

For tests of the reader, without a package of a hundred megabytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

_KINDS = {"int": 1, "float": 5, "text": 6, "bool": 0}


def _varint(number: int) -> bytes:
    out = bytearray()
    while number >= 0x80:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(out + bytes([number]))


def _int(number: int) -> bytes:
    return _varint(number << 1 if number >= 0 else (-number << 1) - 1)


def _text(text: str) -> bytes:
    return _varint(len(text.encode())) + text.encode()


def _struct(*fields: tuple[int, int, bytes]) -> bytes:
    """A struct of (number, type, encoded value)."""
    out, last = b"", 0
    for number, kind, value in fields:
        out += bytes([(number - last) << 4 | kind]) + value
        last = number
    return out + b"\0"


def _list(kind: int, values: Sequence[bytes]) -> bytes:
    head = bytes([len(values) << 4 | kind]) if len(values) < 15 else bytes([0xF0 | kind]) + _varint(len(values))
    return head + b"".join(values)


def _kind(values: Sequence[object]) -> str:
    first = next((value for value in values if value is not None), "")
    return {bool: "bool", int: "int", float: "float"}.get(type(first), "text")


def _plain(values: Sequence[object], kind: str) -> bytes:
    if kind == "int":
        return struct.pack(f"<{len(values)}i", *values)
    if kind == "float":
        return struct.pack(f"<{len(values)}d", *values)
    if kind == "bool":
        return bytes(sum(bool(v) << i for i, v in enumerate(values[at : at + 8])) for at in range(0, len(values), 8))
    each = [value if isinstance(value, bytes) else str(value).encode() for value in values]
    return b"".join(struct.pack("<I", len(value)) + value for value in each)


def _levels(values: Sequence[object]) -> bytes:
    packed = bytes(
        sum((value is not None) << i for i, value in enumerate(values[at : at + 8])) for at in range(0, len(values), 8)
    )
    runs = _varint(len(packed) << 1 | 1) + packed
    return struct.pack("<I", len(runs)) + runs


def parquet_bytes(columns: Mapping[str, Sequence[object]]) -> bytes:
    """A file with these columns; None is a null."""
    rows = len(next(iter(columns.values()), ()))
    out = bytearray(b"PAR1")
    elements = [_struct((4, 8, _text("schema")), (5, 5, _int(len(columns))))]
    chunks = []
    for name, values in columns.items():
        kind = _kind(values)
        shape = [(1, 5, _int(_KINDS[kind])), (3, 5, _int(1)), (4, 8, _text(name))]
        elements.append(_struct(*shape, *([(6, 5, _int(0))] if kind == "text" else [])))
        page = _levels(values) + _plain([value for value in values if value is not None], kind)
        header = _struct((1, 5, _int(rows)), (2, 5, _int(0)), (3, 5, _int(3)), (4, 5, _int(3)))
        at = len(out)
        out += _struct((1, 5, _int(0)), (2, 5, _int(len(page))), (3, 5, _int(len(page))), (5, 12, header)) + page
        size = len(out) - at
        meta = _struct(
            (1, 5, _int(_KINDS[kind])), (2, 9, _list(5, [_int(0)])), (3, 9, _list(8, [_text(name)])), (4, 5, _int(0)),
            (5, 6, _int(rows)), (6, 6, _int(size)), (7, 6, _int(size)), (9, 6, _int(at)),
        )  # fmt: skip
        chunks.append(_struct((2, 6, _int(at)), (3, 12, meta)))
    group = _struct((1, 9, _list(12, chunks)), (2, 6, _int(len(out) - 4)), (3, 6, _int(rows)))
    footer = _struct((1, 5, _int(1)), (2, 9, _list(12, elements)), (3, 6, _int(rows)), (4, 9, _list(12, [group])))
    return bytes(out + footer + struct.pack("<I", len(footer)) + b"PAR1")
