"""A dialect's aliases, compiled: which signals a key gives.

Owns the order of preference between several keys of one metric. Every key is looked
up once per dialect and process; after that it costs a dictionary access.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from rltop.catalog.dialect import Dialect
from rltop.catalog.metrics import CATALOG
from rltop.catalog.patterns import Pattern, compiled
from rltop.model import Algorithm, Signal

_REMEMBERED = 50_000


class Found(NamedTuple):
    """An alias that fits a key: its rank (lower is preferred) and what its wildcards cover."""

    rank: tuple[int, int]
    instance: str


class Spelling:
    """One dialect's aliases, ready to be asked."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._exact: dict[str, list[int]] = {}
        self._wild: list[tuple[int, Pattern]] = []
        self._found: dict[str, tuple[Found, ...]] = {}
        for index, alias in enumerate(dialect.aliases):
            if alias.metric not in CATALOG:
                raise ValueError(f"dialect {dialect.name}: alias {alias.pattern!r} names no metric: {alias.metric!r}")
            pattern = compiled(alias.pattern)
            if pattern.is_exact:
                self._exact.setdefault(alias.pattern, []).append(index)
            else:
                self._wild.append((index, pattern))

    def plain(self, key: str) -> str:
        """The key as the dialect's own file spells it: without the prefix of another sink."""
        for written, plain in self._dialect.prefixes:
            if key.startswith(written):
                return plain + key[len(written) :]
        return key

    def find(self, key: str) -> tuple[Found, ...]:
        """Every alias that fits, preferred first; a key without prefix beats one with."""
        known = self._found.get(key)
        if known is None:
            if len(self._found) >= _REMEMBERED:
                self._found.clear()
            known = tuple(sorted(self._look_up(key)))
            if not known and self._dialect.is_any_case:
                known = tuple(sorted(self._look_up(key.lower().replace(" ", "_"))))
            self._found[key] = known
        return known

    def _look_up(self, key: str) -> Iterable[Found]:
        plain = self.plain(key)
        spellings = ((key, 0),) if plain == key else ((key, 0), (plain, 1))
        for text, penalty in spellings:
            for index in self._exact.get(text, ()):
                yield Found((index, penalty), "")
            for index, pattern in self._wild:
                covered = pattern.covered(text)
                if covered is not None:
                    yield Found((index, penalty), covered)

    def caution(self, key: str) -> str:
        """What a key is that is not what its name says; empty for all others."""
        spellings = (key, self.plain(key))
        found = (what for text, what in self._dialect.misleading if any(map(compiled(text).matches, spellings)))
        return next(found, "")

    def signals(self, keys: Iterable[str], algorithm: Algorithm) -> dict[str, list[tuple[tuple[int, int], Signal]]]:
        """Signals by metric, each with its rank, in the order of the keys.

        A key gives at most one signal per metric, by its first fitting alias, but it
        may stand for several metrics. A pattern takes only keys of which nothing has
        been said before it.

        Args:
            keys: every key of the stream.
            algorithm: decides between aliases that hold for some algorithms only.

        Returns:
            Canonical name → its signals, primary first.
        """
        result: dict[str, list[tuple[tuple[int, int], Signal]]] = {}
        aliases = self._dialect.aliases
        for key in keys:
            taken: set[str] = set()
            first = ""
            for rank, instance in self.find(key):
                alias = aliases[rank[0]]
                if alias.metric in taken or (alias.algorithms and algorithm not in alias.algorithms):
                    continue
                if instance and first and alias.pattern != first:
                    continue
                first = first or alias.pattern
                taken.add(alias.metric)
                signal = Signal(CATALOG[alias.metric], key, alias.scale, alias.shift, instance)
                result.setdefault(alias.metric, []).append((rank, signal))
        return result


@lru_cache(maxsize=64)
def spelling_of(dialect: Dialect) -> Spelling:
    """The compiled aliases of a dialect; dialects are compared by identity."""
    return Spelling(dialect)


def in_order(
    ranked: Mapping[str, list[tuple[tuple[int, int], Signal]]],
) -> dict[str, tuple[Signal, ...]]:
    """Sort each metric's signals by rank and give every one its own instance.

    Where two signals of a metric would have the same instance, the later one takes its
    key for it.
    """
    result: dict[str, tuple[Signal, ...]] = {}
    for name, found in ranked.items():
        taken: set[str] = set()
        ordered: list[Signal] = []
        for _, signal in sorted(found, key=lambda pair: pair[0]):
            distinct = signal
            if signal.instance in taken:
                distinct = Signal(signal.metric, signal.key, signal.scale, signal.shift, signal.key)
            taken.add(distinct.instance)
            ordered.append(distinct)
        result[name] = tuple(ordered)
    return result
