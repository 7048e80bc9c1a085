"""When a series left its usual range, relative to the beginning of a verdict.

Owns the one question of the verdict page: which of the related metrics moved,
and did it move before or after?
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rltop.derive.middle import median
from rltop.derive.rolling import MAD_TO_SIGMA
from rltop.store.series import Series

_MIN_BEFORE = 8
_LASTING = 3
_SIGMAS = 4.0
_FLOOR = 0.05


@dataclass(frozen=True, slots=True)
class Departure:
    """Where a series left its usual range.

    Attributes:
        step: the first step outside, of at least three in a row; None if it never left.
        is_known: there was enough before the onset to say what is usual.
    """

    step: int | None
    is_known: bool = True


def departure(series: Series, onset: int, lookback: int) -> Departure:
    """Find where a series moved around `onset`.

    Usual is the median ± max(4 sigma, 5 %) of the older half of the look-back,
    sigma being 1.4826 MAD; moved means three values in a row on the same side.
    The thresholds are a judgement: tight enough to see what a person sees in the
    line, wide enough that noise of a healthy run stays inside.

    Args:
        series: raw points, oldest first; NaN are gaps.
        onset: first step of the verdict.
        lookback: how many steps before the onset are looked at.
    """
    points = [
        (step, value)
        for step, value in zip(series.steps, series.values, strict=True)
        if step >= onset - lookback and math.isfinite(value)
    ]
    usual = [value for step, value in points if step < onset - lookback // 2]
    if len(usual) < _MIN_BEFORE:
        return Departure(None, is_known=False)
    centre = median(usual)
    sigma = MAD_TO_SIGMA * median(abs(value - centre) for value in usual)
    limit = max(_SIGMAS * sigma, _FLOOR * abs(centre), 1e-12)
    run_side, run_start, run_length = 0, 0, 0
    for step, value in points:
        if step < onset - lookback // 2:
            continue
        side = 1 if value > centre + limit else -1 if value < centre - limit else 0
        if side and side == run_side:
            run_length += 1
        else:
            run_side, run_start, run_length = side, step, 1
        if side and run_length >= _LASTING:
            return Departure(run_start)
    return Departure(None)
