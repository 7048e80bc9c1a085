"""What a reader of the store gets back: small frozen values.

`NaN` in a series is a gap: nothing was logged on that step. What was logged but
was not finite is a `Mark`.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from rltop.model import NonFinite
from rltop.structs import NamedTuple, Struct


class Point(NamedTuple):
    """One finite value and the step it was logged on."""

    step: int
    value: float


class Mark(NamedTuple):
    """A value that was logged but was not a finite number."""

    step: int
    kind: NonFinite


class Series(NamedTuple):
    """Raw points, oldest first; `values` has NaN where the step did not log the key."""

    steps: array[int]
    values: array[float]


class Stretch(NamedTuple):
    """All keys over a few rows on both sides of a step.

    Attributes:
        steps: of the rows; where history is folded, the first step of each bucket.
        rows: cells by column of the stream's keys, maybe fewer than there are keys
            now; NaN where the row did not log the key. A bucket is its mean.
        split: number of the first row at or after the step.
        is_approximate: some of the rows are buckets.
    """

    steps: Sequence[int]
    rows: Sequence[array[float]]
    split: int
    is_approximate: bool = False


class Bucket(Struct):
    """All points of a stretch of steps, folded.

    Attributes:
        first_step, last_step: of the rows in it (inclusive).
        low, high, mean: over its finite values; NaN when it has none.
        count: how many finite values it has.
        has_nonfinite: at least one value in it was not finite.
        is_approximate: a coarser stretch was cut in two to fit.
    """

    first_step: int
    last_step: int
    low: float
    high: float
    mean: float
    count: int
    has_nonfinite: bool = False
    is_approximate: bool = False


class StoreOptions(NamedTuple):
    """How much is kept.

    Attributes:
        memory_bytes: budget for raw rows of one stream; older rows are folded.
            The default holds 20,000 rows of 300 keys.
        max_keys: distinct keys per stream; what comes after is counted, not kept.
        head_rows: rows at the start of each segment that are always kept raw.
    """

    memory_bytes: int = 48 * 1024 * 1024
    max_keys: int = 4096
    head_rows: int = 64
