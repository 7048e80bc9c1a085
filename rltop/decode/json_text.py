"""JSON text → values, by the parser that suits the amount.

orjson is four times as fast as the standard library, but importing it, with the
`inspect`, `dataclasses` and `uuid` that it asks for, takes as long as parsing 130
rows of 300 keys: worth it for a history, not for the rows of a first frame.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import NoReturn, cast

Loads = Callable[[bytes], object]
"""Parses strict JSON; raises `ValueError` for anything else, NaN and Infinity included."""

_BROKEN = re.compile("[\udc80-\udcff]")
"""How Python stands in for a byte that is no UTF-8."""

_MOST_DIGITS = 400
"""A longer integer is beyond what a float holds (1.8e308), and past 4,300 digits Python refuses to read it."""


def fast_loads() -> Loads:
    """The parser for many rows: orjson."""
    import orjson  # noqa: PLC0415 - see the head of this file

    return orjson.loads


def ready_loads() -> Loads:
    """The standard library's, as strict."""
    decode = json.JSONDecoder(parse_constant=_refuse).decode

    def loads(text: bytes) -> object:
        try:
            return cast(object, decode(text.decode()))
        except RecursionError as error:
            raise ValueError("nested too deeply") from error

    return loads


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def patient_loads(text: bytes) -> tuple[object, int]:
    r"""Parse what strict parsers refuse as a whole for the sake of one value.

    NaN and Infinity are read; an integer too large for a float is infinite; a byte
    that is no UTF-8 is written out in its key or text (`\xe9`), so that keys stay apart.

    Returns:
        The value, and how many keys and texts held bytes that are no UTF-8.

    Raises:
        ValueError: it is no JSON even so.
    """
    broken = 0

    def spelled(value: object) -> object:
        nonlocal broken
        if not isinstance(value, str) or not _BROKEN.search(value):
            return value
        broken += 1
        return _BROKEN.sub(lambda byte: f"\\x{ord(byte[0]) & 0xFF:02x}", value)

    def as_row(items: list[tuple[str, object]]) -> dict[str, object]:
        return {cast(str, spelled(key)): spelled(value) for key, value in items}

    try:
        try:
            row: object = json.loads(text.decode(), parse_int=_whole)
        except UnicodeDecodeError:
            decoded = text.decode("utf-8", "surrogateescape")
            row = json.loads(decoded, parse_int=_whole, object_pairs_hook=as_row)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    return row, broken


def _whole(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MOST_DIGITS else float(digits)
