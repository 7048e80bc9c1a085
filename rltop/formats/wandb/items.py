"""The items of a W&B record: a key and a JSON text each, thousands per minute.

Owns the shortcut past the wire format: an item whose key was seen before is recognised
by the bytes of its key, in a quarter of the time.
"""

from __future__ import annotations

from collections.abc import Iterator

from rltop.formats.protobuf import SPAN, encode_varint, fields
from rltop.formats.rows import clipped_key

_KEY, _NESTED, _VALUE = 1, 2, 16
_VALUE_FIELD = b"\x82\x01"
"""Key of field 16 with a span: the JSON text."""
_KEYS_KEPT = 20_000
_ONE_BYTE = 0x80
"""Lengths below it take one byte."""


class ItemReader:
    """Reads items and remembers the bytes of their keys."""

    def __init__(self) -> None:
        self._keys: dict[bytes, str] = {}

    def items(self, payload: bytes, pos: int, stop: int, number: int) -> Iterator[tuple[str, bytes]]:
        """Key and JSON text of every field `number` of the message in `payload[pos:stop]`.

        Several parts of a key are joined with `/`.

        Raises:
            MalformedMessageError: the span is no message; the items before were given.
        """
        keys, lead = self._keys, number << 3 | SPAN
        while pos < stop:
            while stop - pos > 6 and payload[pos] == lead:
                end = pos + 2 + payload[pos + 1]
                middle = pos + 4 + payload[pos + 3]
                key = keys.get(payload[pos + 2 : middle])
                # A known key is as long as it says, so only what follows it is to be checked.
                if key is None or middle + 3 > end or end > stop or payload[pos + 1] >= _ONE_BYTE:
                    break
                if payload[middle : middle + 2] != _VALUE_FIELD or middle + 3 + payload[middle + 2] != end:
                    break
                yield key, payload[middle + 3 : end]
                pos = end
            for field, wire, a, b in fields(payload, pos, stop):
                if field == number and wire == SPAN:
                    yield self._read(payload, a, b)
                if wire == SPAN:
                    pos = b
                    break
            else:
                return

    def _read(self, payload: bytes, start: int, stop: int) -> tuple[str, bytes]:
        """An item of any form; the bytes of its key are remembered if it is of the usual one."""
        parts: list[bytes] = []
        field_of_key, text = 0, b""
        for field, wire, a, b in fields(payload, start, stop):
            if wire != SPAN:
                continue
            if field == _VALUE:
                text = payload[a:b]
            elif field in (_KEY, _NESTED):
                field_of_key = field
                parts.append(payload[a:b])
        key = clipped_key("/".join(part.decode("utf-8", "replace") for part in parts))
        if len(parts) == 1 and len(parts[0]) < _ONE_BYTE:
            key_bytes = bytes((field_of_key << 3 | SPAN, len(parts[0]))) + parts[0]
            usual = key_bytes + _VALUE_FIELD + encode_varint(len(text)) + text
            if payload[start:stop] == usual:
                if len(self._keys) >= _KEYS_KEPT:
                    self._keys.clear()
                self._keys[key_bytes] = key
        return key, text
