"""The catalogue of known metrics, declared value ranges, and guesses for unknown keys.

`metrics.txt` has a line for each metric, in the order of the reference; `texts/` has the explanations, a file per
section, loaded on demand. Defines the canonical names, which rules, configuration and JSON use. Knows nothing of
trainers: their spellings are in `trainers/`. A guess is shown, but until the user confirms it only its shape is judged.
A range is declared by an environment: values alone cannot distinguish a reward in 0 to 2 from one in 0 to 1. Without a
declared range, charts use the observed one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache, lru_cache
from math import isfinite
from pathlib import Path
from types import MappingProxyType

from rltop.catalog.dialect import Pattern, compiled
from rltop.model import Direction, Metric, Signal, Unit
from rltop.regex import regex
from rltop.resources import read_toml
from rltop.structs import NamedTuple

_HERE = Path(__file__).parent


class MetricText(NamedTuple):
    """Explanation of one metric.

    Attributes:
        help: what it is and how to read it, in two sentences; empty if the metric is not in the catalogue.
        related: canonical names of other metrics, in the order to check.
    """

    help: str = ""
    related: tuple[str, ...] = ()


def text_of(metric: Metric) -> MetricText:
    """The text of a metric; an empty one if the metric is not in the catalogue."""
    return _texts(metric.section)[metric.name] if metric.name in CATALOG else MetricText()


@cache
def _texts(section: str) -> Mapping[str, MetricText]:
    tables = read_toml(_HERE / "texts" / f"{section.replace(' ', '_')}.toml")
    return {
        name: MetricText(" ".join(own["help"].split()), tuple(own.get("related", "").split()))
        for name, own in tables.items()
    }


def _read_catalog() -> Mapping[str, Metric]:
    """The metrics of `metrics.txt`.

    Raises:
        ValueError: a line does not have six columns, has an unknown unit or direction, or repeats a name.
    """
    units, directions = {each.value: each for each in Unit}, {each.value: each for each in Direction}
    units["-"] = Unit.NONE
    found: dict[str, Metric] = {}
    section = ""
    for line in (_HERE / "metrics.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1:-1]
        elif line and line[0] != "#":
            name, title, unit, direction, low, high = map(str.strip, line.split("|"))
            if name in found or unit not in units or direction not in directions:
                raise ValueError(f"metrics.txt: {name}: named twice, or of an unknown unit or direction")
            bounds = (float(low) if low else None, float(high) if high else None)
            found[name] = Metric(name, title, section, units[unit], directions[direction], *bounds)
    return MappingProxyType(found)


CATALOG: Mapping[str, Metric] = _read_catalog()
"""Canonical name → metric, in the order of the reference."""


def spoken_title(metric: str) -> str:
    """The name of a metric in a sentence: the raw score is called reward there, as in the title of its alert."""
    found = CATALOG.get("reward_mean" if metric == "score_mean" else metric)
    return metric if found is None else found.title


_WORD = regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_GROUPS = (
    ("kl_ref", frozenset({"kl", "kld", "kldiv"})),
    ("loss", frozenset({"cross", "crossentropy", "xent"})),
    ("entropy", frozenset({"entropy", "entropies", "ent"})),
    ("loss", frozenset({"loss", "losses"})),
    ("response_len_mean", frozenset({"length", "lengths", "len", "lens"})),
    ("success_frac", frozenset({"accuracy", "acc", "success", "solved", "correct"})),
    ("reward_mean", frozenset({"reward", "rewards", "rew", "score", "scores", "return", "returns", "ret"})),
)
"""Metric → words, most specific first: a KL loss is a KL, an entropy loss an entropy, a cross entropy a loss."""
_NO_GUESS = frozenset({
    "std", "stdev", "var", "variance", "dev", "max", "maximum", "min", "minimum", "best", "worst", "median", "sum",
    "count", "num", "n", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "coef", "coeff", "weight", "scale",
    "target", "threshold", "limit", "baseline", "margin", "margins", "chosen", "rejected", "time", "sec", "seconds",
    "ms", "lr", "rate", "frac", "fraction", "ratio", "pct", "percent", "clip", "clipped", "gini", "grad", "norm",
    "eval", "evaluation", "val", "valid", "validation", "test", "bench", "prompt", "context", "config", "cfg", "id",
    "index", "step", "steps", "zero", "range", "value", "values", "vf", "critic", "aux", "teacher", "expert", "layer",
    "version", "constant", "dropped", "kept", "filtered", "bonus", "penalty", "delta", "prev", "previous", "ema",
    "timing", "perf", "system", "args", "hparams", "spread", "incorrect", "wrong",
})  # fmt: skip
"""Words for statistics, settings, parts or evaluations of a quantity instead of the quantity itself."""


_SAID = regex(r"(\w+)(?:\s*/\s*([-+]?[\d.]+(?:e[-+]?\d+)?))?\Z", re.IGNORECASE)


def parse_meaning(text: str) -> tuple[str, float] | None:
    """Parse the user's meaning of a key as canonical name and scale; `success_frac / 100` is one logged in percent.

    Returns:
        None if it names no metric or an invalid divisor.
    """
    found = _SAID.match(text)
    if found is None or found[1] not in CATALOG:
        return None
    try:
        divisor = float(found[2] or 1.0)
    except ValueError:
        return None
    return (found[1], 1.0 / divisor) if divisor and 1.0 / divisor else None


@lru_cache(maxsize=20_000)
def guess(key: str) -> str:
    """The canonical name of the metric that a key may be; empty if its words do not suggest one."""
    words = {word.lower() for word in _WORD.findall(key)}
    if words & _NO_GUESS:
        return ""
    return next((metric for metric, telling in _GROUPS if words & telling), "")


def guessed(signal: Signal) -> Signal:
    """A guess for display: the value as logged, without unit or direction, and a title with a question mark."""
    known = signal.metric
    metric = Metric("", f"{known.title}?", known.section, Unit.NONE, Direction.NONE)
    return Signal(metric, signal.key, instance=signal.instance)


def signal_of_guess(metric: str, key: str) -> Signal:
    """The signal of a key if the guess is right; its value is read as logged, in the metric's own unit."""
    return Signal(CATALOG[metric], key)


_STATISTICS = ("mean", "min", "max")
MAX_DECLARED = 4096


class Range(NamedTuple):
    """Expected values, both ends included, in the unit in which the key is logged."""

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
        """The range of a key: an exact declaration precedes patterns, which apply in the order declared."""
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


NO_RANGES = Ranges()


def range_of(value: object) -> Range | None:
    """Parse `[low, high]`, or an object with `min` and `max`; None for anything else."""
    if isinstance(value, Mapping):
        value = [value.get("min"), value.get("max")]
    if not isinstance(value, list | tuple) or len(value) != 2:
        return None
    low, high = value
    if any(isinstance(end, bool) or not isinstance(end, int | float) or not isfinite(end) for end in (low, high)):
        return None
    return Range(float(low), float(high)) if low < high else None


def of_environments(environments: Iterable[object]) -> dict[str, Range]:
    """Ranges by key from the declarations of environments, as in Telescope.

    `reward_min` and `reward_max` apply to the rewards of the environment and, combined over all environments that
    declare them, to the total reward; `metrics_ranges` apply to its sample metrics. If two environments differ, the
    range covers both.
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
