"""Which evaluations a record holds: one representative statistic for each data set.

A trainer logs the same evaluation as the mean of one attempt and of eight, as the best of
them, as accuracy and as reward; and lengths and counts beside them. Of each data set one is
judged: the mean at the largest k.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from rltop.model import Observation

METRIC = "val_score"
RETURN = "val_return"
OTHERS = ("val_acc", RETURN)
"""What else is an evaluation: each is a source of its own, called as its metric."""
_WORD = re.compile(r"[^a-zA-Z0-9]+")
_NO_SCORE = frozenset({
    "len", "length", "lengths", "token", "tokens", "time", "seconds", "std", "var", "min", "max", "trunc", "truncated",
    "truncation", "ratio", "count", "num", "n", "turns", "samples", "frac", "loss", "entropy", "kl", "cost",
})  # fmt: skip
_LEVEL = re.compile(r"(?P<base>.*?)/?(?P<level>mean|avg|pass|best|maj|worst)(?:@|_at_)(?P<k>\d+)(?:/(?P<inner>\w+))?")
_MEANS = {"mean": 2, "avg": 2, "pass": 1}
_QUANTITIES = ("acc", "accuracy", "correct", "score", "reward")


@lru_cache(maxsize=256)
def representatives(instances: tuple[str, ...]) -> tuple[str, ...]:
    """Of instances of the evaluation score the one of each data set that is judged.

    Args:
        instances: their names, preferred first.

    Returns:
        Names out of `instances`, in their order.
    """
    best: dict[str, tuple[tuple[int, int], str]] = {}
    for place, name in enumerate(instances):
        found = _LEVEL.fullmatch(name)
        base = name if found is None else found["base"]
        if place and _NO_SCORE.intersection(_WORD.split(base.lower())):
            continue
        rank = (1, 1)
        if found is not None:
            inner = found["inner"] or "mean"
            rank = (_MEANS.get(found["level"], 0) if inner == "mean" else -1, int(found["k"]))
        head, _, last = base.rpartition("/")
        source = head if last in _QUANTITIES else base
        if source not in best or rank > best[source][0]:
            best[source] = (rank, name)
    return tuple(name for _, name in best.values())


def evaluations(observation: Observation) -> Mapping[str, float]:
    """Source → score of the evaluations on a record; the only source of a run is "". O(keys of evaluations)."""
    values = observation.values
    others = {name: values[name] for name in OTHERS if name in values}
    found = observation.instances.get(METRIC)
    if not found:
        return {"": values[METRIC], **others} if METRIC in values else others
    if len(found) == 1:
        return {**found, **others} if others else found
    return {**{name: found[name] for name in representatives(tuple(found))}, **others}


def metric_of(source: str) -> tuple[str, str]:
    """Canonical metric and instance of a source."""
    return (source, "") if source in OTHERS else (METRIC, source)
