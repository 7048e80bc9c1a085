"""JSON text → values, by the parser that suits the amount.

orjson is four times as fast as the standard library, but importing it, with the
`inspect`, `dataclasses` and `uuid` that it asks for, takes as long as parsing 130
rows of 300 keys: worth it for a history, not for the rows of a first frame.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NoReturn, cast

Loads = Callable[[bytes], object]
"""Parses strict JSON; raises `ValueError` for anything else, NaN and Infinity included."""


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
