"""The range that a metric was declared to have, by whoever set up the run.

A reward from 0 to 2 and one from 0 to 1 are not told apart by their values: an
environment may say what it expects, and charts are drawn to that scale. Owns which
keys a declaration speaks of; what is not declared is drawn as it was observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite

from rltop.catalog.dialect import Pattern, compiled
from rltop.structs import NamedTuple

_STATISTICS = ("mean", "min", "max")
MAX_DECLARED = 4096


class Range(NamedTuple):
    """What values are expected, both ends inside; in the unit in which the key is logged."""

    low: float
    high: float


class Ranges:
    """Declared ranges by key, or by pattern (`*` for any text, `%` for any text without a slash)."""

    def __init__(self, declared: Mapping[str, Range] | None = None) -> None:
        self._declared = dict(declared or {})
        self._patterns: list[tuple[Pattern, Range]] = [
            (compiled(text), each) for text, each in self._declared.items() if "*" in text or "%" in text
        ]

    def of(self, key: str) -> Range | None:
        """The range of a key; its own before that of a pattern, patterns in the order declared."""
        exact = self._declared.get(key)
        if exact is not None or not self._patterns:
            return exact
        return next((each for pattern, each in self._patterns if pattern.matches(key)), None)

    def __bool__(self) -> bool:
        return bool(self._declared)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranges) and self._declared == other._declared

    def __hash__(self) -> int:
        return hash(tuple(self._declared.items()))


NONE = Ranges()
"""Nothing is declared."""


def range_of(value: object) -> Range | None:
    """`[low, high]`, or an object with `min` and `max`; None for anything else."""
    if isinstance(value, Mapping):
        value = [value.get("min"), value.get("max")]
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = value
    if any(isinstance(end, bool) or not isinstance(end, int | float) or not isfinite(end) for end in (low, high)):
        return None
    return Range(float(low), float(high)) if low < high else None


def of_environments(environments: Iterable[object]) -> dict[str, Range]:
    """Ranges by key from what environments declare, as Telescope does.

    `reward_min` and `reward_max` are those of the rewards of the environment, and, over
    all environments that say it, of the reward as a whole; `metrics_ranges` are those of
    its sample metrics. Where two environments differ, the wider range holds.
    """
    found: dict[str, Range] = {}
    for each in environments:
        if not isinstance(each, Mapping) or len(found) > MAX_DECLARED:
            continue
        name, reward = each.get("name"), range_of([each.get("reward_min"), each.get("reward_max")])
        if reward is not None:
            _widen(found, [f"reward_sum_{statistic}" for statistic in _STATISTICS], reward)
            if isinstance(name, str) and name:
                _widen(found, [f"reward/{name}/{statistic}" for statistic in _STATISTICS], reward)
        metrics = each.get("metrics_ranges")
        for metric, declared in metrics.items() if isinstance(metrics, Mapping) else ():
            known = range_of(declared)
            if known is not None and isinstance(metric, str):
                _widen(found, [f"reward_{metric}_{statistic}" for statistic in _STATISTICS], known)
    return found


def _widen(found: dict[str, Range], keys: Iterable[str], each: Range) -> None:
    for key in keys:
        known = found.get(key, each)
        found[key] = Range(min(known.low, each.low), max(known.high, each.high))
