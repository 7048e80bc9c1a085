"""What a JSON value means as a number: the slow path of every row decoder.

Owns strings that are numbers, nulls, nested objects; nothing that it meets makes
a row disappear.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Iterator, Mapping

from rltop.model import GAP, CellMark, Counts, NonFinite

NAN_SENTINEL = 1.7976931348623155e308
"""Stands for NaN in a line whose literals were replaced to please orjson."""
INF_SENTINEL = 1.7976931348623157e308
"""Stands for Infinity in such a line."""

MAX_DEPTH = 8
MAX_KEY_CHARS = 512
_MAX_NUMBER_CHARS = 40
_LONG_NUMBER = re.compile(r"[-+]?[0-9.]{30}[0-9.]*(?:[eE][-+]?[0-9]{1,4})?$")
"""Digits without end are a number all the same."""
_WORDS = {
    "nan": NonFinite.NAN,
    "inf": NonFinite.POS_INF,
    "+inf": NonFinite.POS_INF,
    "infinity": NonFinite.POS_INF,
    "+infinity": NonFinite.POS_INF,
    "-inf": NonFinite.NEG_INF,
    "-infinity": NonFinite.NEG_INF,
    "null": NonFinite.NULL,
    "none": NonFinite.NULL,
}


def number_of(value: object) -> float | NonFinite | None:
    """A JSON scalar as a number, as a kind of non-number, or None if it is neither.

    Booleans are 0 and 1; strings count when they spell a number.
    """
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return NonFinite.POS_INF if value > 0 else NonFinite.NEG_INF
    if isinstance(value, str):
        return _number_in(value)
    return NonFinite.NULL if value is None else None


def clipped_key(key: str) -> str:
    """The key, cut where no trainer's key is that long."""
    return key if len(key) <= MAX_KEY_CHARS else key[:MAX_KEY_CHARS] + "…"


def _number_in(text: str) -> float | NonFinite | None:
    """The number that a string spells; `1_000` is text, not a number."""
    if len(text) > _MAX_NUMBER_CHARS and not _LONG_NUMBER.match(text):
        return None
    if "_" in text:
        return None
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return word
    try:
        return _finite(float(text))
    except ValueError:
        return None


def _finite(value: float) -> float | NonFinite:
    if abs(value) >= NAN_SENTINEL:
        if value == NAN_SENTINEL:
            return NonFinite.NAN
        return NonFinite.POS_INF if value > 0 else NonFinite.NEG_INF
    return NonFinite.NAN if math.isnan(value) else value


def flat_items(row: Mapping[str, object], prefix: str = "", depth: int = 0) -> Iterator[tuple[str, object]]:
    """The leaves of a row, nested objects joined with `/`."""
    for key, value in row.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            if depth < MAX_DEPTH:
                yield from flat_items(value, f"{name}/", depth + 1)
            else:
                yield name, ()
        else:
            yield name, value


def read_cells(row: Mapping[str, object], counts: Counts) -> tuple[list[str], array[float], tuple[CellMark, ...]]:
    """Keys, values and marks of any row; what holds no number is counted and left out."""
    keys: list[str] = []
    values: array[float] = array("d")
    marks: list[CellMark] = []
    for key, value in flat_items(row):
        number = number_of(value)
        if number is None:
            if isinstance(value, str):
                counts.text_values += 1
            else:
                counts.nested_values += 1
            if len(counts.examples) < 8:
                counts.examples.setdefault(key[:80], type(value).__name__)
            continue
        if isinstance(number, NonFinite):
            marks.append(CellMark(len(keys), number))
            number = GAP
        keys.append(clipped_key(key))
        values.append(number)
    if len(set(keys)) != len(keys):
        return _last_wins(keys, values, marks)
    return keys, values, tuple(marks)


def _last_wins(
    keys: list[str], values: array[float], marks: list[CellMark]
) -> tuple[list[str], array[float], tuple[CellMark, ...]]:
    """Drop all but the last of equal keys, as a JSON reader does."""
    kinds = {mark.cell: mark.kind for mark in marks}
    last = {key: cell for cell, key in enumerate(keys)}
    kept = sorted(last.values())
    return (
        [keys[cell] for cell in kept],
        array("d", (values[cell] for cell in kept)),
        tuple(CellMark(i, kinds[cell]) for i, cell in enumerate(kept) if cell in kinds),
    )
