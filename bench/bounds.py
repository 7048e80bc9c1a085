"""Comparison of benchmark figures with their bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence


def stands(figure: float, bound: float | None) -> str:
    """`met` or `missed`; empty without a bound, `missed` without a figure."""
    if bound is None:
        return ""
    return "met" if figure <= bound else "**missed**"


def percentile(figures: Sequence[float], share: float) -> float:
    """The figure that `share` of them do not exceed; NaN without figures."""
    if not figures:
        return math.nan
    ranked = sorted(figures)
    return ranked[min(len(ranked) - 1, max(0, math.ceil(share * len(ranked)) - 1))]
