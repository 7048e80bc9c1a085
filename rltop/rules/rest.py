"""Rest: what a judge says who need not be asked about the next records.

Most rules have nothing to say to most records, and know beforehand which values
leave it so. Owns that promise; who is asked about a record is `attention`'s
business.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import inf
from typing import final

from rltop.model import Observation
from rltop.structs import NamedTuple

FOREVER = sys.maxsize
HELD_RECORDS = 20
"""Records that are kept for judges to catch up with."""


class Bound(NamedTuple):
    """Values of one metric that leave everything as it is.

    Attributes:
        metric: a name of `Moment.screened`.
        low, high: the least and the most; with infinity and its opposite any value is beyond them.
        is_needed: a record without the metric is beyond the bounds; else it is within them.
    """

    metric: str
    low: float = -inf
    high: float = inf
    is_needed: bool = False


@final
class Rest(NamedTuple):
    """Nothing is wrong, and while the bounds hold nothing will be.

    The judge stands for it that `read` would return `QUIET` (None where
    `is_silent`) for each of those records and would learn no more from them than
    `catch_up` makes up for.

    Attributes:
        bounds: all of them must hold.
        records: for how many records at most; as long as they hold is only for judges that
            have no use for more than the newest `HELD_RECORDS` of them.
        is_silent: such records say nothing about the matter, so that it does not
            matter whether something bad is remembered.
    """

    bounds: tuple[Bound, ...] = ()
    records: int = FOREVER
    is_silent: bool = False


def while_absent(*metrics: str) -> Rest:
    """Says and learns nothing until one of these is logged."""
    return Rest(tuple(Bound(metric, inf, -inf) for metric in metrics), is_silent=True)


def within(metric: str, low: float, high: float, records: int = FOREVER) -> Rest:
    """Quiet while one metric stays between two values, or is missing."""
    return Rest((Bound(metric, low, high),), records)


def beside(missed: Sequence[Observation], metric: str, other: str) -> list[float]:
    """The values of `other` in the records that have `metric` too."""
    found = [one.values.get(other) for one in missed if metric in one.values]
    return [value for value in found if value is not None]


def logged(missed: Sequence[Observation], metric: str) -> list[float]:
    """A metric's values in the records that have it."""
    return [value for value in [one.values.get(metric) for one in missed] if value is not None]
