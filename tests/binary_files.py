"""TensorBoard event files and W&B run files built byte by byte."""

from __future__ import annotations

import json
import struct
import zlib

from rltop.formats.protobuf import encode_varint
from rltop.formats.tensorboard import masked_crc32c

BLOCK = 32 * 1024


def span(number: int, data: bytes) -> bytes:
    return encode_varint(number << 3 | 2) + encode_varint(len(data)) + data


def integer(number: int, value: int) -> bytes:
    return encode_varint(number << 3) + encode_varint(value % (1 << 64))


def frame(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc32c(length)) + payload + struct.pack("<I", masked_crc32c(payload))


def value(tag: str, number: float) -> bytes:
    return span(1, span(1, tag.encode()) + b"\x15" + struct.pack("<f", number))


def event(step: int, *values: bytes, wall: float = 1_700_000_000.0) -> bytes:
    head = b"\x09" + struct.pack("<d", wall) + (integer(2, step) if step else b"")
    return head + (span(5, b"".join(values)) if values else b"")


def version_event() -> bytes:
    return b"\x09" + struct.pack("<d", 1_700_000_000.0) + span(3, b"brain.Event:2")


def scalar_events(*scalars: tuple[int, str, float]) -> bytes:
    return b"".join(frame(event(step, value(tag, number), wall=1.7e9 + step)) for step, tag, number in scalars)


def item(key: str | tuple[str, ...], number: object) -> bytes:
    names = span(1, key.encode()) if isinstance(key, str) else b"".join(span(2, part.encode()) for part in key)
    return names + span(16, json.dumps(number).encode())


def history(row: dict[str | tuple[str, ...], object], num: int | None = None) -> bytes:
    items = b"".join(span(1, item(key, number)) for key, number in row.items())
    return integer(1, 1) + span(2, items + (span(2, integer(1, num)) if num is not None else b""))


def stats(**samples: float) -> bytes:
    stamp = span(2, integer(1, 1_700_000_000))
    return integer(1, 1) + span(7, stamp + b"".join(span(3, item(key, n)) for key, n in samples.items()))


def alert(title: str, text: str, level: str) -> bytes:
    return integer(1, 3) + span(10, span(1, title.encode()) + span(2, text.encode()) + span(3, level.encode()))


def exit_record(code: int) -> bytes:
    return integer(1, 9) + span(18, integer(1, code) if code else b"")


def run_record(config: dict[str, object], name: str = "r") -> bytes:
    updates = b"".join(span(1, item(key, setting)) for key, setting in config.items())
    return integer(1, 2) + span(17, span(1, b"abc") + span(3, b"p") + span(4, updates) + span(8, name.encode()))


def block_log(*records: bytes) -> bytes:
    """Records in the block layout of LevelDB's log writer."""
    out = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        rest, is_first = record, True
        while is_first or rest:
            room = BLOCK - len(out) % BLOCK
            if room < 7:
                out += bytes(room)
                room = BLOCK
            part, rest = rest[: room - 7], rest[room - 7 :]
            kind = (1 if is_first else 4) if not rest else (2 if is_first else 3)
            sealed = bytes([kind]) + part
            out += struct.pack("<IH", zlib.crc32(sealed), len(part)) + sealed
            is_first = False
    return bytes(out)
