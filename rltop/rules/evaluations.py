"""Which evaluations a record holds: one representative statistic for each data set.

A trainer logs the same evaluation as the mean of one attempt and of eight, as the best of them, as accuracy and as
reward, along with lengths and counts. One per data set is judged: the mean at the largest k.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise

from rltop.model import Observation
from rltop.regex import regex
from rltop.stats.rolling import MAD_TO_SIGMA, mad_of, median_of
from rltop.structs import Cloned

METRIC = "val_score"
RETURN = "val_return"
OTHERS = ("val_acc", RETURN)
"""Other evaluation metrics; each is a source of its own, named after the metric."""
HELD, OF_LEVEL = 12, 3
"""Evaluations of a source that are kept, and the number whose median is its level."""
_MEAN_TO_SIGMA = math.sqrt(math.pi / 2.0)
"""Factor from mean absolute deviation to standard deviation of a normal distribution."""
_UNCERTAIN = 1.0
"""Noise estimated from n second differences is multiplied by 1 + 1/n, because it is uncertain."""
WORD = regex(r"[^a-zA-Z0-9]+")
_NO_SCORE = frozenset({
    "len", "length", "lengths", "token", "tokens", "time", "seconds", "std", "var", "min", "max", "trunc", "truncated",
    "truncation", "ratio", "count", "num", "n", "turns", "samples", "frac", "loss", "entropy", "kl", "cost",
})  # fmt: skip
_ERRORS = frozenset({"error", "err", "wer", "cer", "ter", "mae", "mse", "rmse", "nll", "ppl", "perplexity", "metricx"})
"""Words of evaluations that are better lower; no rule judges these, not even as a run's only evaluation."""
_LEVEL = regex(r"(?P<base>.*?)/?(?P<level>mean|avg|pass|best|maj|worst)(?:@|_at_)(?P<k>\d+)(?:/(?P<inner>\w+))?")
_MEANS = {"mean": 2, "avg": 2, "pass": 1}
QUANTITIES = ("acc", "accuracy", "correct", "score", "reward")


@lru_cache(maxsize=256)
def representatives(instances: tuple[str, ...]) -> tuple[str, ...]:
    """For each data set, the instance of the evaluation score that is judged."""
    best: dict[str, tuple[tuple[int, int], str]] = {}
    for place, name in enumerate(instances):
        found = _LEVEL.fullmatch(name)
        base = name if found is None else found["base"]
        if not (_NO_SCORE | _ERRORS if place else _ERRORS).isdisjoint(WORD.split(base.lower())):
            continue
        rank = (1, 1)
        if found is not None:
            inner = found["inner"] or "mean"
            rank = (_MEANS.get(found["level"], 0) if inner == "mean" else -1, int(found["k"]))
        head, _, last = base.rpartition("/")
        source = head if last in QUANTITIES else base
        if source not in best or rank > best[source][0]:
            best[source] = (rank, name)
    return tuple(name for _, name in best.values())


def evaluations(observation: Observation) -> Mapping[str, float]:
    """Source → score of the evaluations on a record; a run's only source is called "". O(keys of evaluations)."""
    values, found = observation.values, observation.instances.get(METRIC)
    if not found and METRIC in values:
        found = {"": values[METRIC]}
    others = {name: values[name] for name in OTHERS if name in values}
    if not found:
        return others
    judged = found if "" in found else {name: found[name] for name in representatives(tuple(found))}
    return {**judged, **others} if others else judged


def metric_of(source: str) -> tuple[str, str]:
    return (source, "") if source in OTHERS else (METRIC, source)


def noise_of(values: Sequence[float]) -> float:
    """Standard deviation of one evaluation, from the MAD of successive differences.

    Differencing removes the trend; the deviation of a difference is sqrt(2) times that of one evaluation.
    """
    moves = [after - before for before, after in pairwise(values)]
    return MAD_TO_SIGMA * mad_of(moves) / math.sqrt(2.0) if moves else 0.0


class EvaluationHistory(Cloned):
    """The last evaluations of one source, oldest first, shared by all rules that judge them.

    Attributes:
        first, top: the first and the best single one.
    """

    def __init__(self, first: float) -> None:
        self.held: deque[float] = deque(maxlen=HELD)
        self.seen = 0
        self.first = first
        self.top = -math.inf
        self._to_top: tuple[float, ...] = ()
        self._noise: float | None = None

    def push(self, value: float) -> None:
        self.held.append(value)
        self.seen += 1
        if value > self.top:
            self.top, self._to_top, self._noise = value, tuple(self.held), None

    @property
    def level(self) -> float:
        """Median of the newest three."""
        return median_of(list(self.held)[-OF_LEVEL:])

    @property
    def noise(self) -> float:
        """Standard deviation of one evaluation, from those up to the best: a fall after it does not count as noise."""
        if self._noise is None:
            self._noise = noise_of(self._to_top)
        return self._noise

    @property
    def noise_before(self) -> float:
        """The same from all kept but the last two, which may be part of the fall.

        Three or four differences may agree by chance, so the mean second difference is used instead: 0 for a steady
        climb and small for one that flattens out. Its variance is 1 + 4 + 1 times that of one evaluation.
        """
        held = list(self.held)
        bends = [abs(one - 2.0 * two + three) for one, two, three in zip(held, held[1:], held[2:-2], strict=False)]
        if not bends:
            return 0.0
        return (1.0 + _UNCERTAIN / len(bends)) * _MEAN_TO_SIGMA * sum(bends) / len(bends) / math.sqrt(6.0)
