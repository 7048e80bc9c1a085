"""A row of names and scalars → a `Record`, for every format that is not on the fast path.

Owns which key of a row is its step, its time and its total; knows nothing of how
the row was written down.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from rltop.decode.values import number_of, read_cells
from rltop.metrics.keys import STEP_KEYS, TIME_KEYS, TOTAL_KEYS
from rltop.model import Counts, NonFinite, Place, Record, Shape

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
