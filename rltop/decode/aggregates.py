"""Samples of a step → the numbers that stand for them.

Owns the formulas; knows nothing of tables. Source of all of them: the server of
Telescope's own interface, so that both show the same value under the same name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence


def summary(name: str, values: Sequence[float]) -> dict[str, float]:
    """`name` with `_mean`, `_std`, `_min` and `_max`; std is that of a sample, and absent for a single value."""
    if not values:
        return {}
    mean = math.fsum(values) / len(values)
    found = {f"{name}_mean": mean, f"{name}_min": min(values), f"{name}_max": max(values)}
    if len(values) > 1:
        found[f"{name}_std"] = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return found


def gini(values: Sequence[float]) -> float:
    """Inequality of the values: 0 if all are the same, towards 1 if one has everything.

    2·Σ(rank·x) / (n·Σx) - (n + 1)/n, with ranks from 1 in ascending order; 0 for a
    single value, or a sum that is not positive.
    """
    count, total = len(values), math.fsum(values)
    if count < 2 or not total > 0.0:
        return 0.0
    weighted = math.fsum(rank * value for rank, value in enumerate(sorted(values), 1))
    return 2.0 * weighted / (count * total) - (count + 1.0) / count


def max_over_median(values: Sequence[float]) -> float | None:
    """The largest over the median: how much longer a group waits than for a usual answer.

    1 where all are 0; None where the median is 0 and the largest is not.
    """
    ordered = sorted(values)
    middle = (ordered[len(ordered) // 2] + ordered[(len(ordered) - 1) // 2]) / 2
    if middle > 0.0:
        return ordered[-1] / middle
    return 1.0 if ordered[-1] == 0.0 else None


def variation(values: Sequence[float]) -> float:
    """Standard deviation of a sample over the mean; 0 for a single value or a mean that is not positive."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2 or not mean > 0.0:
        return 0.0
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1)) / mean


def mean_over_groups(values: Iterable[float | None]) -> float | None:
    """The mean in which every group counts alike; groups without a value do not."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def of_groups(groups: Mapping[object, Sequence[float]]) -> dict[str, float]:
    """The three readings of how uneven the answers of a group are, averaged over the groups of a step."""
    lengths = list(groups.values())
    found = {
        "group_length_cv_mean": mean_over_groups(map(variation, lengths)),
        "group_length_gini_mean": mean_over_groups(map(gini, lengths)),
        "group_length_max_median_ratio_mean": mean_over_groups(map(max_over_median, lengths)),
    }
    return {name: value for name, value in found.items() if value is not None}
