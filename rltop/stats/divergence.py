"""Where two runs diverge: the first record from which a metric of both differs for good, beyond the noise of either."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from rltop.stats.rolling import median
from rltop.structs import NamedTuple

WINDOW = 8
"""Records whose means are compared: one lucky batch is no divergence."""

LASTING = 3
"""Windows in a row, without overlap, that have to differ in the same direction."""

SIGMAS = 6.0
"""How far the means of two windows must lie apart, in standard errors of their difference."""

LEAST_SHARE = 0.1
"""And by how much at least, as a share of the range that either run has gone through: less is nobody's concern."""

LEAST_RECORDS = WINDOW * (LASTING + 1)

_ROBUST = 1.4826
"""Median absolute deviation → standard deviation, for normal noise."""


class Divergence(NamedTuple):
    """Where a metric of two runs diverges.

    Attributes:
        step: the first step of the first window that differs, after those at its head that are equal to the digit.
        sigmas: how far the windows there lie apart, in standard errors.
        is_from_start: they never were alike.
    """

    step: int
    sigmas: float
    is_from_start: bool


def divergence(steps: Sequence[int], ours: Sequence[float], theirs: Sequence[float]) -> Divergence | None:
    """Where two runs diverge in one metric, for good; None where they do not, or where there are too few records.

    The noise of a run is what its values differ by from one record to the next, which
    a trend hardly moves: `1.4826 · median |x[i] − x[i−1]| / √2`.

    Args:
        steps: those that both runs have, rising.
        ours: values of the one run at these steps, in one unit with `theirs`; NaN where it has none.
    """
    known = [(s, a, b) for s, a, b in zip(steps, ours, theirs, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if len(known) < LEAST_RECORDS:
        return None
    first, second = [a for _, a, _ in known], [b for _, _, b in known]
    least = LEAST_SHARE * max(max(first) - min(first), max(second) - min(second))
    starts = range(0, len(known) - WINDOW + 1, WINDOW)
    differences = [sum(a - b for _, a, b in known[at : at + WINDOW]) / WINDOW for at in starts]
    if any(abs(one) < least or one * differences[-1] <= 0 for one in differences[-LASTING:]):
        # Most metrics of most runs: what their noise is need not be known.
        return None
    error = math.hypot(_noise(first), _noise(second)) / math.sqrt(WINDOW)
    apart = [one if abs(one) >= max(SIGMAS * error, least) else 0.0 for one in differences]
    begins = len(apart)
    while begins > 0 and apart[begins - 1] * apart[-1] > 0:
        begins -= 1
    if len(apart) - begins < LASTING:
        return None
    at = begins * WINDOW if begins else 0
    while begins and first[at] == second[at]:
        # Runs of one seed are equal until a setting takes effect.
        at += 1
    sigmas = abs(apart[begins]) / error if error else math.inf
    return Divergence(known[at][0], sigmas, not begins)


def _noise(values: Sequence[float]) -> float:
    return _ROBUST * median([abs(b - a) for a, b in pairwise(values)]) / math.sqrt(2)
