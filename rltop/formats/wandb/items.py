"""The items of a W&B record: a key and a JSON text each, thousands per minute.

Owns the shortcuts past the wire format: an item whose key was seen before is
recognised by the bytes of its key, and a row all of whose keys were is cut up by two
byte strings that stand in no number.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

from rltop.formats.protobuf import SPAN, MalformedMessageError, encode_varint, fields, varint
from rltop.formats.rows import shortened

_KEY, _NESTED, _VALUE = 1, 2, 16
_VALUE_FIELD = b"\x82\x01"
"""Key of field 16 with a span: the JSON text."""
_KEYS_KEPT = 20_000
_HEADS_KEPT = 40_000
"""A key has a beginning for each length that its texts have."""
_LINE_FEED = 10
_FIRST = itemgetter(0)
_ONE_BYTE = 0x80
"""Lengths below it take one byte."""


class ItemReader:
    """Reads items and remembers the bytes of their keys."""

    def __init__(self) -> None:
        self._keys: dict[bytes, str] = {}
        self._heads = _Heads()

    def row(self, payload: bytes, start: int, stop: int) -> tuple[list[str], list[bytes], int] | None:
        """Keys, JSON texts and end of the items number 1 at the start of the message in `payload[start:stop]`.

        None where that cannot be said without looking at each of them: a key is new, a
        text is longer than a number, or they stand in another order than W&B's.
        """
        span = payload[start:stop]
        if b"\0" in span:
            return None
        # Line feeds stand before items. A length of 10 must not look like one: until it is compared it is 0.
        plain = span.replace(b"\x12\n", b"\x12\0").replace(_VALUE_FIELD + b"\n", _VALUE_FIELD + b"\0")
        before, *pieces = plain.replace(_VALUE_FIELD, b"\n").split(b"\n")
        heads, sized = pieces[::2], pieces[1::2]
        if before or len(heads) != len(sized) or not heads:
            return None
        last = sized[-1]
        length = last[0] or _LINE_FEED if last else 0
        sized[-1] = last[: length + 1]
        try:
            lengths = bytes(map(self._heads.__getitem__, heads))
            is_said = bytes(map(_FIRST, sized)) == lengths.replace(b"\n", b"\0")
        except (KeyError, IndexError):
            return None
        texts = [text[1:] for text in sized]
        if not is_said or list(map(len, texts)) != list(lengths):
            return None
        return list(map(self._heads.keys_of.__getitem__, heads)), texts, stop - len(last) + length + 1

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
        key = shortened("/".join(part.decode("utf-8", "replace") for part in parts))
        if parts:
            self._heads.learn(payload[start:stop], field_of_key, parts, key)
        if len(parts) == 1 and len(parts[0]) < _ONE_BYTE:
            key_bytes = bytes((field_of_key << 3 | SPAN, len(parts[0]))) + parts[0]
            usual = key_bytes + _VALUE_FIELD + encode_varint(len(text)) + text
            if payload[start:stop] == usual:
                if len(self._keys) >= _KEYS_KEPT:
                    self._keys.clear()
                self._keys[key_bytes] = key
        return key, text


class _Heads(dict[bytes, int]):
    """What stands before the text of an item, its length and its key → how long the text must be.

    Attributes:
        keys_of: the same beginnings → the key in words.
    """

    def __init__(self) -> None:
        super().__init__()
        self.keys_of: dict[bytes, str] = {}
        self._fields: dict[bytes, str] = {}

    def learn(self, item: bytes, field: int, parts: list[bytes], key: str) -> None:
        """Remember the bytes of a key, if the item is its parts, all under one number, and then the text."""
        lead = bytes((field << 3 | SPAN,))
        written = b"".join(lead + encode_varint(len(part)) + part for part in parts)
        if item.startswith(written + _VALUE_FIELD):
            if len(self._fields) >= _KEYS_KEPT:
                self._fields.clear()
            self._fields[written] = key

    def __missing__(self, head: bytes) -> int:
        """Work out a beginning that is new.

        Raises:
            KeyError: its key is new too, or no text of a number fits into the item.
        """
        try:
            size, at = varint(head, 0, len(head))
        except MalformedMessageError as error:
            raise KeyError(head) from error
        key = self._fields[head[at:].replace(b"\x12\0", b"\x12\n")]
        length = size - (len(head) - at) - len(_VALUE_FIELD) - 1
        if not 0 < length < _ONE_BYTE:
            raise KeyError(head)
        if len(self) >= _HEADS_KEPT:
            self.clear()
            self.keys_of.clear()
        self.keys_of[head] = key
        self[head] = length
        return length
