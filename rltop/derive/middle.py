"""The median without the module `statistics`.

That module brings fractions, decimals and random numbers along, a tenth of what
is imported before the first frame.
"""

from __future__ import annotations

from collections.abc import Iterable


def median(values: Iterable[float]) -> float:
    """The value in the middle, or the mean of the two that are; as `statistics.median`.

    Raises:
        ValueError: there are no values.
    """
    ordered = sorted(values)
    if not ordered:
        raise ValueError("no median of nothing")
    half = len(ordered) // 2
    return ordered[half] if len(ordered) % 2 else (ordered[half - 1] + ordered[half]) / 2
