"""How a figure of a benchmark stands to its bound, in one word."""

from __future__ import annotations

import math
from collections.abc import Sequence


def stands(figure: float, bound: float | None) -> str:
    """`met` or `missed`; nothing where there is no bound, `missed` where there is no figure."""
    if bound is None:
        return ""
    return "met" if figure <= bound else "**missed**"


def percentile(figures: Sequence[float], share: float) -> float:
    """The figure that `share` of them do not exceed; NaN of none."""
    if not figures:
        return math.nan
    ranked = sorted(figures)
    return ranked[min(len(ranked) - 1, max(0, math.ceil(share * len(ranked)) - 1))]
