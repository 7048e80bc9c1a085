"""What a key that nobody knows may be, by the words in its name.

A guess is shown, and judged by its shape only, until somebody confirms it. Owns the words; knows nothing of values.
"""

from __future__ import annotations

import re
from functools import lru_cache

from rltop.catalog.metrics import CATALOG
from rltop.model import Direction, Metric, Signal, Unit
from rltop.regex import regex

_WORD = regex(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_GROUPS = (
    ("kl_ref", frozenset({"kl", "kld", "kldiv"})),
    ("entropy", frozenset({"entropy", "entropies", "ent"})),
    ("loss", frozenset({"loss", "losses"})),
    ("response_len_mean", frozenset({"length", "lengths", "len", "lens"})),
    ("success_frac", frozenset({"accuracy", "acc", "success", "solved", "correct"})),
    ("reward_mean", frozenset({"reward", "rewards", "rew", "score", "scores", "return", "returns"})),
)
"""Metric → words, the most telling first: a KL loss is a KL, an entropy loss an entropy."""
_NO_GUESS = frozenset({
    "std", "stdev", "var", "variance", "dev", "max", "maximum", "min", "minimum", "best", "worst", "median", "sum",
    "count", "num", "n", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "coef", "coeff", "weight", "scale",
    "target", "threshold", "limit", "baseline", "margin", "margins", "chosen", "rejected", "time", "sec", "seconds",
    "ms", "lr", "rate", "frac", "fraction", "ratio", "pct", "percent", "clip", "clipped", "gini", "grad", "norm",
    "eval", "evaluation", "val", "valid", "validation", "test", "bench", "prompt", "context", "config", "cfg", "id",
    "index", "step", "steps", "zero", "range", "value", "values", "vf", "critic", "aux", "teacher", "expert", "layer",
    "version", "bonus", "penalty", "ema", "timing", "perf", "system", "args", "hparams",
})  # fmt: skip
"""Words of what is a statistic, a setting, a part or an evaluation: not the quantity itself."""


_SAID = regex(r"(\w+)(?:\s*/\s*([-+]?[\d.]+(?:e[-+]?\d+)?))?\Z", re.IGNORECASE)


def said_meaning(text: str) -> tuple[str, float] | None:
    """What a person said that a key is: canonical name and scale; `success_frac / 100` is one logged in percent.

    Returns:
        None where it names no metric, or divides by nothing.
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
    """The canonical name of the metric that a key may be; empty where its words do not tell one."""
    words = {word.lower() for word in _WORD.findall(key)}
    if words & _NO_GUESS:
        return ""
    return next((metric for metric, telling in _GROUPS if words & telling), "")


def guessed(signal: Signal) -> Signal:
    """A guess as it is shown: the value as logged, without unit or direction, under a questioning title."""
    known = signal.metric
    metric = Metric("", f"{known.title}?", known.section, Unit.NONE, Direction.NONE)
    return Signal(metric, signal.key, instance=signal.instance)


def signal_of_guess(metric: str, key: str) -> Signal:
    """The signal that a key would be if the guess were right.

    Args:
        key: as logged; it is read as it stands, in the metric's own unit.
    """
    return Signal(CATALOG[metric], key)
