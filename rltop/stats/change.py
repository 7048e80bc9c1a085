"""Did a series leave its usual range, when, and by how much? Where do two runs diverge for good?

The arithmetic behind "began with" and "what changed around step N": the usual range is a robust estimate from the
values before, including their trend; everything is counted in records. Knows nothing of metrics, units and rules.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise

from rltop.stats.rolling import MAD_TO_SIGMA, StepValues, mad_of, median_of
from rltop.structs import NamedTuple, Struct

LEAST_BEFORE = 8
"""Values needed to estimate the usual range."""
LOOKBACK_RECORDS = 64
"""Number of values before the onset to examine; the older half gives the usual range."""
HORIZON_RECORDS = 48
"""Number of values from the onset on in which a move may still begin."""
SIGMAS = 4.0
"""Distance from the usual range, in sigmas, at which a value counts as outside."""
LASTING = 3
"""Values in a row outside, on the same side, that make a move instead of noise."""
RECENT_RECORDS = 16
"""A move that was over this many values before the onset is unrelated."""

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


class UsualRange(NamedTuple):
    """The usual range of a series of values.

    Attributes:
        slope: change per record; 0 if it is within the noise.
        reach: the largest distance of any of them from the trend.
        grain: distance between neighbouring values of a counted quantity; 0 for others.
        least: lower bound for sigma.
    """

    centre: float
    sigma: float
    slope: float
    length: int
    reach: float
    grain: float = 0.0
    least: float = 0.0

    def score(self, value: float, ahead: int) -> float:
        """Distance of `value` from the usual range, in sigmas, signed.

        Any value between the old level and the trend extrapolated at up to twice its pace is usual, so that neither a
        curve that continues nor one that levels off has moved. Sigma is at least 1.25 % of the level or the value, so
        that 4 sigma of a constant are 5 %.

        Args:
            value: finite.
            ahead: its position, in records after the last of the values.
        """
        gone = min(ahead, 2 * self.length) + (self.length - 1) / 2
        far = self.centre + _PACE * self.slope * gone
        low, high = (self.centre, far) if far >= self.centre else (far, self.centre)
        return self._sigmas(value - high if value > high else value - low if value < low else 0.0, value)

    def distance(self, value: float) -> float:
        """Distance of `value` from the old level, in sigmas, signed, ignoring the trend."""
        return self._sigmas(value - self.centre, value)

    def _sigmas(self, distance: float, value: float) -> float:
        if not distance:
            return 0.0
        sigma = max(self.sigma, self.least, _FLOOR * max(abs(self.centre), abs(value)))
        return distance / sigma if sigma > 0 else math.copysign(math.inf, distance)


def usual_of(values: Sequence[float]) -> UsualRange | None:
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
    return UsualRange(centre, sigma, slope, count, max(apart))


def _sigma_of(distances: Sequence[float]) -> float:
    """1.4826 MAD; if more than half of the values are equal, 1.2533 times the mean distance.

    The substitute for a MAD of zero is from Iglewicz and Hoaglin, "How to detect and handle outliers", 1993.
    """
    return MAD_TO_SIGMA * median_of(distances) or _MEAN_TO_SIGMA * sum(distances) / len(distances)


class Movement(Struct):
    """Whether and when a series moved.

    Attributes:
        step: where it began to leave its usual range; None if it never did.
        before: its usual level; NaN if unknown.
        after: its level after the move; NaN if there was none.
        score: how far outside that is, in sigmas, signed; infinite for a non-finite value.
        is_known: there were enough values before the onset to estimate the usual range.
        is_spike: a few values that came back, rather than a new level.
        is_drift: it drifted all along, so there is no single step; `after` is its level at the onset, far from the one
            before.
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

    The usual range comes from the older half of the 64 values before the onset. A move is one of: three values in a row
    more than 4 sigma outside, on the same side, starting where they left 2 sigma or leapt away; a single value 8 sigma
    outside and twice as far out as any of the usual ones (1.25 times in the 8 values before the onset, where chance is
    less likely); a non-finite value. A move that was over 16 values before the onset is ignored, and so are changes by
    a single completion in a share. The thresholds are a judgement call: they find what a person sees in the curve, and
    leave out the noise of the recorded healthy runs.

    Args:
        steps: of the values, rising.
        values: one per step; NaN is a gap.
        onset: first step of the symptom.
        nonfinite: steps with a logged value that was not finite.
        until: ignore everything after this step; None: no limit.
        whole: for a share, the value of the whole (1, or 100 for per cent); otherwise 0.
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


def _counted(usual: UsualRange, values: Sequence[float], whole: float) -> UsualRange:
    """The usual range of a share, with an uncertainty of at least one completion or 1/32, whichever is less."""
    grain = _grain(values, whole)
    return usual._replace(grain=grain, least=min(grain, _LEAST_PART * whole))


def _grain(values: Sequence[float], whole: float) -> float:
    """Smallest distance between the few distinct values of a counted quantity; 0 if there are many."""
    different = sorted(set(values))
    if len(different) < 2 or len(different) * _COUNTED > len(values):
        return 0.0
    # Single-precision values differ in the last digits.
    apart = [b - a for a, b in pairwise(different) if b - a > 1e-4 * whole]
    return min(apart, default=0.0)


def _drift(around: Sequence[float], usual: UsualRange) -> Movement:
    level = median_of(around) if around else usual.centre
    gone = usual.distance(level)
    if abs(gone) < SIGMAS:
        return Movement(None, usual.centre)
    return Movement(None, usual.centre, level, gone, is_drift=True)


def _first_move(points: Sequence[tuple[int, float]], usual: UsualRange, onset: int) -> Movement:
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
        # Three in a row may follow: then the spike is the first of them.
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
    """Index at which the move at `i` has come back: the first of three in a row inside; the end if it never does."""
    inside = 0
    for j in range(i + 1, len(scores)):
        inside = inside + 1 if abs(scores[j]) < SIGMAS else 0
        if inside == LASTING:
            return j - LASTING + 1
    return len(scores)


def _is_spike(value: float, score: float, usual: UsualRange, reach: float) -> bool:
    return abs(score) >= _SPIKE_SIGMAS and abs(value - usual.centre) > reach * max(usual.reach, usual.grain)


def _beginning(scores: Sequence[float], i: int, side: int) -> int:
    while i > 0 and scores[i - 1] * side >= _BEGUN_SIGMAS and not _leaps(scores, i, side):
        i -= 1
    return i


def _moved(
    points: Sequence[tuple[int, float]],
    scores: Sequence[float],
    usual: UsualRange,
    begin: int,
    outside: int,
    *,
    is_spike: bool,
) -> Movement:
    stop = outside + 1 if is_spike else outside + _AFTER
    after = median_of(value for _, value in points[outside:stop])
    score = median_of(scores[outside:stop])
    return Movement(points[begin][0], usual.centre, after, score, is_spike=is_spike)


_FALLS, _PART_OF_WAY = 2.0, 0.15


def before_drift(before: StepValues, held: StepValues, value: float) -> StepValues:
    """The level from which a series has drifted towards `value`, in windows as long as `held`; or `held` itself.

    A window was part of the drift if the one before it is farther away, by `_FALLS` times its own deviation and
    `_PART_OF_WAY` of the way from there to `value`: what jumps has only its ordinary trend before it.
    """
    for end in range(len(before) - len(held), len(held) - 1, -len(held)):
        earlier = before[end - len(held) : end]
        level, values = median_of([one for _, one in held]), [one for _, one in earlier]
        gone = math.copysign(1.0, level - value) * (median_of(values) - level)
        if gone <= max(_FALLS * mad_of(values), _PART_OF_WAY * abs(level - value)):
            break
        held = earlier
    return held


class Shift(Struct):
    """How the values from a record on differ from those before it.

    Attributes:
        after: median of the values from the record on, or the record's own value for a spike.
        score: how far outside that is, in sigmas, signed.
        is_spike: only the record's own value stands out.
    """

    before: float
    after: float
    score: float
    is_spike: bool = False


def shift_between(before: Sequence[float], after: Sequence[float], whole: float = 0.0) -> Shift | None:
    """How far `after` is from `before`, as a robust z.

    A single value is half as much evidence as a level: its z is halved, and it is reported only if it still exceeds
    that of the level.

    Args:
        before: values before, oldest first and finite.
        after: values from the record on, the record's own first, finite.

    Returns:
        None if there are too few values before, or none after.
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
"""Number of records per mean: one lucky batch is not a divergence."""

LASTING_WINDOWS = 3
"""Consecutive windows, without overlap, that must differ in the same direction."""

APART_SIGMAS = 6.0
"""Required distance between the means of two windows, in standard errors of their difference."""

LEAST_SHARE = 0.1
"""Required distance as a fraction of the larger range of the two runs: smaller ones do not matter."""

LEAST_RECORDS = WINDOW * (LASTING_WINDOWS + 1)


class Divergence(NamedTuple):
    """Where a metric of two runs diverges.

    Attributes:
        step: the first step of the first window that differs, after its leading records with identical values.
        sigmas: distance between the windows there, in standard errors.
        is_from_start: they differed from the first window on.
    """

    step: int
    sigmas: float
    is_from_start: bool


def divergence(steps: Sequence[int], ours: Sequence[float], theirs: Sequence[float]) -> Divergence | None:
    """Where two runs diverge in one metric for good; None if they do not, or if there are too few records.

    Noise is estimated from differences of consecutive values, which a trend hardly affects: `1.4826 · median |x[i] −
    x[i−1]| / √2`.

    Args:
        steps: those that both runs have, rising.
        ours: values of one run at these steps, in the same unit as `theirs`; NaN for gaps.
    """
    known = [(s, a, b) for s, a, b in zip(steps, ours, theirs, strict=True) if math.isfinite(a) and math.isfinite(b)]
    if len(known) < LEAST_RECORDS:
        return None
    first, second = [a for _, a, _ in known], [b for _, _, b in known]
    least = LEAST_SHARE * max(max(first) - min(first), max(second) - min(second))
    starts = range(0, len(known) - WINDOW + 1, WINDOW)
    differences = [sum(a - b for _, a, b in known[at : at + WINDOW]) / WINDOW for at in starts]
    if any(abs(one) < least or one * differences[-1] <= 0 for one in differences[-LASTING_WINDOWS:]):
        # This settles most metrics of most runs without estimating the noise.
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
        # Runs with the same seed are identical until a setting takes effect.
        at += 1
    sigmas = abs(apart[begins]) / error if error else math.inf
    return Divergence(known[at][0], sigmas, not begins)


def _noise(values: Sequence[float]) -> float:
    return MAD_TO_SIGMA * median_of([abs(b - a) for a, b in pairwise(values)]) / math.sqrt(2)
