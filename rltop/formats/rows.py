"""What a JSON value means as a number: the slow path of every row decoder.

Owns strings that are numbers, nulls, nested objects; nothing that it meets makes
a row disappear.
"""

from __future__ import annotations

import math
import re
import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from math import isnan

from rltop.model import GAP, CellMark, Counts, NonFinite, Place, Record, Shape
from rltop.model.keys import STEP_KEYS, TIME_KEYS, TOTAL_KEYS

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


_SHAPES_BY_CELLS = 1024


class Shapes:
    """Hands out one `Shape` per distinct order of keys."""

    def __init__(self) -> None:
        self._shapes: dict[tuple[str, ...], Shape] = {}
        self._last_keys: list[str] = []
        self._last_shape = Shape(())

    def of(self, keys: list[str]) -> Shape:
        """The shape of these keys; remembers the last one, which is usually asked for again."""
        if keys == self._last_keys:
            return self._last_shape
        as_tuple = tuple(keys)
        shape = self._shapes.get(as_tuple)
        if shape is None:
            if len(self._shapes) >= _SHAPES_BY_CELLS:
                self._shapes.clear()
            shape = self._shapes[as_tuple] = Shape(as_tuple)
        self._last_keys, self._last_shape = keys, shape
        return shape


def cells_of(numbers: Sequence[float]) -> tuple[array[float], tuple[CellMark, ...]]:
    """Values and marks: what is not finite becomes a gap and a mark."""
    # A fifth of what `array("d", numbers)` takes, which looks at the numbers one by one.
    values = array("d", struct.pack(f"{len(numbers)}d", *numbers))
    total = sum(numbers)
    if total - total == 0.0:
        return values, ()
    marks = []
    for cell, value in enumerate(values):
        if value - value != 0.0:
            kind = NonFinite.NAN if isnan(value) else NonFinite.POS_INF if value > 0 else NonFinite.NEG_INF
            marks.append(CellMark(cell, kind))
            values[cell] = GAP
    return values, tuple(marks)


def shortened(key: str) -> str:
    """A key of at most 512 characters and an ellipsis."""
    return key if len(key) <= MAX_KEY_CHARS else key[:MAX_KEY_CHARS] + "…"


MAX_STEP = 2**53
_MAX_STEP_CHARS = 40
_EPOCH_S = (1e9, 1e11)
"""A wall time between 2001 and 5138; anything else under a time key is a duration."""
_SHAPES_KEPT = 1024
_TOTAL_KEYS = tuple(key for key in TOTAL_KEYS if key not in STEP_KEYS)


def step_of(value: object) -> int | tuple[int, int] | None:
    """A step as trainers write it: 12, 12.0, "12", or "12/5000" with the total behind it."""
    if isinstance(value, str):
        done, slash, total = value.partition("/")
        if slash and len(value) <= _MAX_STEP_CHARS and done.strip().isdecimal() and total.strip().isdecimal():
            counts = int(done), int(total)
            return counts if max(counts) < MAX_STEP else None
    # A boolean counts as 0 or 1 among values, but as a step it would look like a restart.
    number = None if isinstance(value, bool) else number_of(value)
    if isinstance(number, float) and number.is_integer() and abs(number) < MAX_STEP:
        return int(number)
    return None


def is_out_of_range(value: object) -> bool:
    """Is it a number too large for a step? From 2**53 on a float does not tell one step from the next."""
    if isinstance(value, str):
        value = value.partition("/")[0]
    number = number_of(value)
    return number in (NonFinite.POS_INF, NonFinite.NEG_INF) or (isinstance(number, float) and abs(number) >= MAX_STEP)


def time_of(value: object) -> float | None:
    """Seconds since the epoch, from a number (s or ms) or an ISO time; else None."""
    number = number_of(value)
    if isinstance(number, float):
        if _EPOCH_S[0] < number < _EPOCH_S[1]:
            return number
        if _EPOCH_S[0] < number / 1000 < _EPOCH_S[1]:
            return number / 1000
        return None
    if isinstance(value, str):
        try:
            number = datetime.fromisoformat(value).timestamp()
        except (ValueError, OverflowError, OSError):  # a year that this machine's calendar cannot place
            return None
        return number if _EPOCH_S[0] < number < _EPOCH_S[1] else None
    return None


class RecordBuilder:
    """Makes records, handing out one `Shape` per distinct order of keys.

    Args:
        counts: where text, nested values and rows are counted.
        step_key: the key that holds the step; empty: the documented list, and the
            key that was found first is kept to.
    """

    def __init__(self, counts: Counts, step_key: str = "") -> None:
        self._counts = counts
        self._step_keys = (step_key,) if step_key else STEP_KEYS
        self._shapes: dict[tuple[str, ...], Shape] = {}

    def from_row(self, row: Mapping[str, object], place: Place) -> Record | None:
        """The record of a row that names its own step; None (and a count) if it names none."""
        rest = dict(row)
        total: int | None = None
        for key in self._step_keys:
            step = step_of(rest[key]) if key in rest else None
            if step is None:
                continue
            self._step_keys = (key,)
            del rest[key]
            if isinstance(step, tuple):
                step, total = step
            return self.build(step, rest, place, total)
        self._counts.no_step_lines += 1
        self._counts.unusable_steps += any(key in rest and is_out_of_range(rest[key]) for key in self._step_keys)
        return None

    def build(self, step: int, row: Mapping[str, object], place: Place, total: int | None = None) -> Record:
        """The record of a row whose step is known; time and total are taken from the row."""
        rest = dict(row)
        time_s = None
        for key in TIME_KEYS:
            if key in rest and (time_s := time_of(rest[key])) is not None:
                del rest[key]
                break
        if total is None:
            total = _total_of(rest)
        keys, values, marks = read_cells(rest, self._counts)
        self._counts.rows += 1
        return Record(step, time_s, self._shape(tuple(keys)), values, marks, place, total)

    def _shape(self, keys: tuple[str, ...]) -> Shape:
        shape = self._shapes.get(keys)
        if shape is None:
            if len(self._shapes) >= _SHAPES_KEPT:
                self._shapes.clear()
            shape = self._shapes[keys] = Shape(keys)
        return shape


def _total_of(row: Mapping[str, object]) -> int | None:
    for key in _TOTAL_KEYS:
        value = number_of(row.get(key))
        if isinstance(value, float) and 0 < value < MAX_STEP:
            return int(value)
    return None


class RepeatedRows:
    """Remembers 8 bytes of every row given out and skips the same rows after `rewind`.

    The first row that differs ends the repetition: from there on everything is new,
    and whether it is a restart is for the store to say.
    """

    def __init__(self) -> None:
        self._known: array[int] = array("q")
        self._next = 0

    def rewind(self) -> None:
        """The file begins anew."""
        self._next = 0

    def repeat(self) -> None:
        """The next row is known to be the one that was given out at this place before."""
        self._next += 1

    def is_new(self, record: Record) -> bool:
        """Whether the next row of the file is one that was not given out at this place before."""
        mark = _mark_of(record)
        known, at = self._known, self._next
        self._next += 1
        if at < len(known):
            if known[at] == mark:
                return False
            del known[at:]
        known.append(mark)
        return True


def _mark_of(record: Record) -> int:
    """A hash of step and cells, whatever the order of the columns; gaps compare by their bits."""
    bits = memoryview(record.values).cast("B").cast("q")
    return hash((record.step, frozenset(zip(record.shape.keys, bits, strict=True)), record.marks and len(record.marks)))
