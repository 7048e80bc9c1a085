"""Did a series leave its usual range, when, and by how much? And where do two runs diverge for good?

Owns the arithmetic behind "began with" and "what changed around step N": the usual range is estimated from the values
before, robustly and with their trend, and everything is counted in records. Knows no metric, no unit and no rule.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rltop.stats.rolling import MAD_TO_SIGMA, median_of
from rltop.structs import NamedTuple, Struct

LEAST_BEFORE = 8
"""Values needed to estimate the usual range."""
LOOKBACK_RECORDS = 64
"""How many values before the onset are looked at; the older half gives the usual range."""
HORIZON_RECORDS = 48
"""How many values from the onset on may still count as having moved after it."""
SIGMAS = 4.0
"""Distance from the usual range at which a value is outside of it."""
LASTING = 3
"""Values in a row outside, on the same side, that are a move and not noise."""
RECENT_RECORDS = 16
"""A move that was back inside so many values before the onset is unrelated."""

_MEAN_TO_SIGMA = 1.2533
_BEGUN_SIGMAS = 2.0
_SPIKE_SIGMAS = 8.0
_SPIKE_REACH = 2.0
_NEAR_RECORDS = 8
_NEAR_REACH = 1.25
_FLOOR = 0.0125
_TREND_SIGMAS = 2.0
_PACE = 2.0
_AFTER = 5
_LEAST_PART = 1 / 32
_LEAP_SIGMAS = 16.0
_LEAP_TIMES = 4.0
_COUNTED = 3


class Usual(NamedTuple):
    """The usual range of a stretch of values.

    Attributes:
        slope: change per record; 0 where it is not clearer than the noise.
        reach: the largest distance of any of them from the trend.
        grain: how far apart neighbouring values of something counted are; 0 where nothing is.
        least: sigma is never taken to be less than this.
    """

    centre: float
    sigma: float
    slope: float
    length: int
    reach: float
    grain: float = 0.0
    least: float = 0.0

    def score(self, value: float, ahead: int) -> float:
        """How far `value` is outside the usual range, in sigmas, with its sign.

        Usual is any value between the old level and the trend carried on at up to twice its pace, so that neither a
        curve that goes on nor one that levels off has moved. Sigma is at least 1.25 % of the level or the value, so
        that 4 sigma of a constant are 5 %.

        Args:
            value: finite.
            ahead: how many records after the last of the values it stands.
        """
        gone = min(ahead, 2 * self.length) + (self.length - 1) / 2
        far = self.centre + _PACE * self.slope * gone
        low, high = (self.centre, far) if far >= self.centre else (far, self.centre)
        return self._sigmas(value - high if value > high else value - low if value < low else 0.0, value)

    def distance(self, value: float) -> float:
        """How far `value` is from the old level, in sigmas, with its sign, whatever the trend."""
        return self._sigmas(value - self.centre, value)

    def _sigmas(self, distance: float, value: float) -> float:
        if not distance:
            return 0.0
        sigma = max(self.sigma, self.least, _FLOOR * max(abs(self.centre), abs(value)))
        return distance / sigma if sigma > 0 else math.copysign(math.inf, distance)


def usual_of(values: Sequence[float]) -> Usual | None:
    """The usual range of `values`, oldest first and finite; None for fewer than eight."""
    count = len(values)
    if count < LEAST_BEFORE:
        return None
    centre = median_of(values)
    third = max(2, count // 3)
    slope = (median_of(values[-third:]) - median_of(values[:third])) / (count - third)
    middle = (count - 1) / 2
    apart = [abs(value - centre - slope * (i - middle)) for i, value in enumerate(values)]
    sigma = _sigma_of(apart)
    if abs(slope) * (count - third) <= _TREND_SIGMAS * sigma:
        slope = 0.0
        apart = [abs(value - centre) for value in values]
        sigma = _sigma_of(apart)
    return Usual(centre, sigma, slope, count, max(apart))


def _sigma_of(distances: Sequence[float]) -> float:
    """1.4826 MAD; where more than half of the values are the same, 1.2533 times the mean distance.

    The second is what stands in for a MAD of zero in Iglewicz and Hoaglin, "How to detect and handle outliers", 1993.
    """
    return MAD_TO_SIGMA * median_of(distances) or _MEAN_TO_SIGMA * sum(distances) / len(distances)


class Movement(Struct):
    """Whether and when a series moved.

    Attributes:
        step: where it began to leave its usual range; None if it never did.
        before: its usual level; NaN if unknown.
        after: its level once it had moved; NaN if it did not.
        score: how far outside that is, in sigmas, with its sign; infinite for a value that was not a finite number.
        is_known: there was enough before the onset to estimate the usual range.
        is_spike: a few values that came back, rather than a new level.
        is_drift: it drifted all along, so that there is no single step; `after` is its level at the onset, far from the
            one before.
    """

    step: int | None
    before: float = math.nan
    after: float = math.nan
    score: float = 0.0
    is_known: bool = True
    is_spike: bool = False
    is_drift: bool = False


def movement(
    steps: Sequence[int],
    values: Sequence[float],
    onset: int,
    nonfinite: Iterable[int] = (),
    *,
    until: int | None = None,
    whole: float = 0.0,
) -> Movement:
    """Find where a series left its usual range around `onset`.

    The usual range comes from the older half of the 64 values before the onset. A move is three values in a row more
    than 4 sigma outside, on the same side, and begins where they left 2 sigma, or where they leapt away; or a single
    value 8 sigma outside that is twice as far out as any of the usual ones (1.25 times in the 8 values before the
    onset, where it is less likely to be chance); or a value that was not a finite number. A move that was back inside
    16 values before the onset is ignored, and so are changes of a single completion in a share. The numbers are
    judgement: what a person sees in the curve is found, and the noise of the recorded healthy runs stays inside.

    Args:
        steps: of the values, rising.
        values: one per step; NaN is a gap.
        onset: first step of the symptom.
        nonfinite: steps on which a value was logged that was not finite.
        until: nothing after this step is looked at; None is no limit.
        whole: what a share of all things amounts to (1, or 100 for per cent); 0 for what is no share.
    """
    points = [(s, v) for s, v in zip(steps, values, strict=True) if math.isfinite(v) and (until is None or s <= until)]
    at = bisect_left(points, (onset, -math.inf))
    first = max(0, at - LOOKBACK_RECORDS)
    watched_from = points[first + (at - first) // 2][0] if points and first < at else onset
    bad = min((step for step in nonfinite if watched_from <= step and (until is None or step <= until)), default=None)
    kept = max(LEAST_BEFORE, (at - first) // 2)
    usual = usual_of([value for _, value in points[first : first + kept]]) if at - first >= LEAST_BEFORE else None
    if usual is None:
        return Movement(bad, score=math.inf if bad is not None else 0.0, is_known=bad is not None)
    if whole:
        usual = _counted(usual, [value for _, value in points[first : at + HORIZON_RECORDS]], whole)
    found = _first_move(points[first + kept : at + HORIZON_RECORDS], usual, at - first - kept)
    if bad is not None and (found.step is None or bad <= found.step):
        return Movement(bad, usual.centre, score=math.inf)
    if found.step is None and usual.slope:
        return _drift([value for _, value in points[max(first + kept, at - 2) : at + 3]], usual)
    return found


def _counted(usual: Usual, values: Sequence[float], whole: float) -> Usual:
    """The usual range of a share: no less uncertain than one completion, or a 32nd of all."""
    grain = _grain(values, whole)
    return usual._replace(grain=grain, least=min(grain, _LEAST_PART * whole))


def _grain(values: Sequence[float], whole: float) -> float:
    """The smallest distance between the few different values of something counted; 0 where they are many."""
    different = sorted(set(values))
    if len(different) < 2 or len(different) * _COUNTED > len(values):
        return 0.0
    # What is computed in single precision differs in the last digits.
    apart = [b - a for a, b in pairwise(different) if b - a > 1e-4 * whole]
    return min(apart, default=0.0)


def _drift(around: Sequence[float], usual: Usual) -> Movement:
    level = median_of(around) if around else usual.centre
    gone = usual.distance(level)
    if abs(gone) < SIGMAS:
        return Movement(None, usual.centre)
    return Movement(None, usual.centre, level, gone, is_drift=True)


def _first_move(points: Sequence[tuple[int, float]], usual: Usual, onset: int) -> Movement:
    scores = [usual.score(value, i + 1) for i, (_, value) in enumerate(points)]
    side = length = over = 0
    for i, score in enumerate(scores):
        if i < over:
            continue
        now = 1 if score >= SIGMAS else -1 if score <= -SIGMAS else 0
        length = length + 1 if now and now == side else 1 if now else 0
        side = now
        reach = _NEAR_REACH if onset - _NEAR_RECORDS <= i <= onset else _SPIKE_REACH
        is_spike = length < LASTING and _is_spike(points[i][1], score, usual, reach)
        if length < LASTING and not is_spike:
            continue
        over = _over(scores, i)
        if over <= onset - RECENT_RECORDS:
            side = length = 0
            continue
        if not is_spike:
            leap = _leap_after(scores, i - length + 1, side)
            begin = _beginning(scores, i - length + 1, side) if leap is None else leap
            return _moved(points, scores, usual, begin, max(begin, i - length + 1), is_spike=False)
        # Three in a row may still come: the spike is then the first of them.
        rest = scores[i : i + LASTING]
        lasts = len(rest) == LASTING and all(one * score > 0 and abs(one) >= SIGMAS for one in rest)
        begin = _beginning(scores, i, side) if lasts else i
        return _moved(points, scores, usual, begin, i, is_spike=not lasts)
    return Movement(None, usual.centre)


def _leap_after(scores: Sequence[float], outside: int, side: int) -> int | None:
    for i in range(outside + 1, len(scores) - LASTING + 1):
        if _leaps(scores, i, side) and min(score * side for score in scores[i : i + LASTING]) >= _LEAP_SIGMAS:
            return i
    return None


def _leaps(scores: Sequence[float], i: int, side: int) -> bool:
    return scores[i] * side >= max(_LEAP_SIGMAS, _LEAP_TIMES * scores[i - 1] * side)


def _over(scores: Sequence[float], i: int) -> int:
    """Where a move that stands at `i` has come back: the first of three in a row inside; the end if it never has."""
    inside = 0
    for j in range(i + 1, len(scores)):
        inside = inside + 1 if abs(scores[j]) < SIGMAS else 0
        if inside == LASTING:
            return j - LASTING + 1
    return len(scores)


def _is_spike(value: float, score: float, usual: Usual, reach: float) -> bool:
    return abs(score) >= _SPIKE_SIGMAS and abs(value - usual.centre) > reach * max(usual.reach, usual.grain)


def _beginning(scores: Sequence[float], i: int, side: int) -> int:
    while i > 0 and scores[i - 1] * side >= _BEGUN_SIGMAS and not _leaps(scores, i, side):
        i -= 1
    return i


def _moved(
    points: Sequence[tuple[int, float]],
    scores: Sequence[float],
    usual: Usual,
    begin: int,
    outside: int,
    *,
    is_spike: bool,
) -> Movement:
    stop = outside + 1 if is_spike else outside + _AFTER
    after = median_of(value for _, value in points[outside:stop])
    score = median_of(scores[outside:stop])
    return Movement(points[begin][0], usual.centre, after, score, is_spike=is_spike)


class Shift(Struct):
    """How the values from a record on differ from those before it.

    Attributes:
        after: median of the values from the record on, or the one value there where that is what stands out.
        score: how far outside that is, in sigmas, with its sign.
        is_spike: the one value stands out, those after it do not.
    """

    before: float
    after: float
    score: float
    is_spike: bool = False


def shift_between(before: Sequence[float], after: Sequence[float], whole: float = 0.0) -> Shift | None:
    """How far `after` has gone from `before`, as a robust z.

    A single value is half as much evidence as a level: its z counts half, and
    only where it still exceeds that of the level is it what is told.

    Args:
        before: values before, oldest first and finite.
        after: values from the record on, the record's own first, finite.

    Returns:
        None where there is too little before, or nothing after.
    """
    usual = usual_of(before)
    if usual is None or not after:
        return None
    if whole:
        usual = _counted(usual, [*before, *after], whole)
    level = median_of(after)
    lasting = usual.score(level, (len(after) + 1) // 2)
    single = usual.score(after[0], 1)
    if len(after) > 1 and abs(single) / 2 > abs(lasting):
        return Shift(usual.centre, after[0], single / 2, is_spike=True)
    return Shift(usual.centre, level, lasting)


WINDOW = 8
"""Records whose means are compared: one lucky batch is no divergence."""

LASTING_WINDOWS = 3
"""Windows in a row, without overlap, that have to differ in the same direction."""

APART_SIGMAS = 6.0
"""How far the means of two windows must lie apart, in standard errors of their difference."""

LEAST_SHARE = 0.1
"""And by how much at least, as a share of the range that either run has gone through: less is nobody's concern."""

LEAST_RECORDS = WINDOW * (LASTING_WINDOWS + 1)


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
    if any(abs(one) < least or one * differences[-1] <= 0 for one in differences[-LASTING_WINDOWS:]):
        # Most metrics of most runs: what their noise is need not be known.
        return None
    error = math.hypot(_noise(first), _noise(second)) / math.sqrt(WINDOW)
    apart = [one if abs(one) >= max(APART_SIGMAS * error, least) else 0.0 for one in differences]
    begins = len(apart)
    while begins > 0 and apart[begins - 1] * apart[-1] > 0:
        begins -= 1
    if len(apart) - begins < LASTING_WINDOWS:
        return None
    at = begins * WINDOW if begins else 0
    while begins and first[at] == second[at]:
        # Runs of one seed are equal until a setting takes effect.
        at += 1
    sigmas = abs(apart[begins]) / error if error else math.inf
    return Divergence(known[at][0], sigmas, not begins)


def _noise(values: Sequence[float]) -> float:
    return MAD_TO_SIGMA * median_of([abs(b - a) for a, b in pairwise(values)]) / math.sqrt(2)
