"""The words by which the list of runs is narrowed down: `reward>0.5 state:live rule:O11 lr<1e-5 -verl`.

A word without a sign is looked for in name, path, trainer, state and alert. Every word
must hold; one behind a minus must not. What is no column and no metric is a setting:
`kl_coef>0`, `adv_estimator=grpo`; behind `cfg.` it is one in any case.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence

from rltop import units
from rltop.catalog.metrics import CATALOG
from rltop.model import Level, RunState
from rltop.pages.header import pace_of
from rltop.pages.run_entry import REWARDS, SPEEDS, VALIDATIONS, Value, best, newest
from rltop.pages.signals import generic_signal
from rltop.regex import regex
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

_TERM = regex(r"(?P<name>[\w./@ -]*[\w@])(?P<sign><=|>=|!=|<|>|=|:)(?P<value>.*)")
_SCALES = {"%": 0.01, "k": 1e3, "m": 1e6, "g": 1e9}

_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "!=": operator.ne, "=": operator.eq,
    ":": operator.eq,
}  # fmt: skip

_ORDERS = ("<", "<=", ">", ">=")

TEXTS = ("name", "path", "trainer", "algorithm", "state", "level", "worst", "rule", "family")
"""What is compared as text: `=` is the whole, `:` a part."""


_LEVELS = tuple(level.word for level in sorted(Level, reverse=True))
_KNOWN: Mapping[str, Sequence[str]] = {
    "state": [state.value for state in RunState], "level": _LEVELS, "worst": _LEVELS,
}  # fmt: skip
"""All that some of `TEXTS` can be."""


class AskedRun(NamedTuple):
    """A run as a query sees it.

    Attributes:
        snapshot: the run; None where only its row is known.
        told: what its row in the list says, by the names in `query.TEXTS`.
        words: everything that a word without a sign is looked for in.
    """

    snapshot: Snapshot | None
    told: dict[str, Sequence[str]]
    words: str

    def texts(self, name: str) -> Sequence[str]:
        assert name in TEXTS
        return self.told.get(name, ())

    def number(self, name: str) -> float | None:
        run, lowered = self.snapshot, name.casefold()
        if run is None:
            return None
        if lowered.startswith(SETTINGS_PREFIX):
            return self._set_number(name)
        if lowered in _COLUMNS:
            value = _COLUMNS[lowered](run)
            return value.value if isinstance(value, Value) else value
        signal = None if run.identity is None else run.identity.primary(lowered)
        if signal is None:
            key = name if run.stream.has(name) else _key_ending_in(run, lowered)
            signal = generic_signal(key) if key else None
        point = None if signal is None else run.stream.latest(signal.key)
        return self._set_number(name) if signal is None or point is None else signal.read(point.value)

    def settings(self, name: str) -> Sequence[str]:
        return [units.setting(value) for value in self._set(name)]

    def _set(self, name: str) -> Sequence[str | float | None]:
        settings = None if self.snapshot is None else self.snapshot.run.settings
        bare = name[len(SETTINGS_PREFIX) :] if name.casefold().startswith(SETTINGS_PREFIX) else name
        return [] if settings is None else [settings.values[one] for one in settings.find(bare)]

    def _set_number(self, name: str) -> float | None:
        return next((float(one) for one in self._set(name) if isinstance(one, int | float)), None)


SETTINGS_PREFIX = "cfg."


def _key_ending_in(run: Snapshot, name: str) -> str:
    return next((key for key in run.stream.keys if key.casefold().rpartition("/")[2] == name), "")


_COLUMNS: Mapping[str, Callable[[Snapshot], Value | float | None]] = {
    "step": lambda run: run.stream.last_step,
    "records": lambda run: float(run.stream.rows),
    "age": lambda run: run.part.age_s,
    "reward": lambda run: newest(run, REWARDS),
    "val": lambda run: newest(run, VALIDATIONS),
    "best": lambda run: best(run, VALIDATIONS),
    "s/step": pace_of,
    "speed": lambda run: newest(run, SPEEDS),
}
"""Columns that a query can ask for; ages and paces in seconds."""


class Term(NamedTuple):
    """One word of a query.

    Attributes:
        name: what is compared; empty for a word that is looked for everywhere.
        number: the same as a number, None where it is none: the settings of the name are then compared as text.
        is_wanted: it must hold; else it must not.
    """

    name: str
    sign: str
    text: str
    number: float | None
    is_wanted: bool = True

    def holds(self, run: AskedRun) -> bool:
        return self._is_true(run) is self.is_wanted

    def _is_true(self, run: AskedRun) -> bool:
        if not self.name:
            return self.text in run.words
        if self.name in TEXTS:
            found = [text.casefold() for text in run.texts(self.name)]
            if self.sign == ":":
                return any(self.text in text for text in found)
            return (self.text in found) is (self.sign == "=")
        if self.number is None:
            found = [text.casefold() for text in run.settings(self.name)]
            if self.sign == ":":
                # A path, a time or an address has a colon too.
                return any(self.text in text for text in found) or f"{self.name}:{self.text}".casefold() in run.words
            return bool(found) and (self.text in found) is (self.sign == "=")
        value = run.number(self.name)
        return value is not None and self.number is not None and _SIGNS[self.sign](value, self.number)


class Query(NamedTuple):
    """What was typed, understood.

    Attributes:
        terms: all of them must hold.
        trouble: what was not understood, in a few words; empty otherwise.
    """

    terms: tuple[Term, ...] = ()
    trouble: str = ""

    def holds(self, run: AskedRun) -> bool:
        return all(term.holds(run) for term in self.terms)


def unknown_names(query: Query, runs: Sequence[AskedRun]) -> list[str]:
    names = dict.fromkeys(term.name for term in query.terms if term.name and term.name not in TEXTS)
    return [name for name in names if not any(run.number(name) is not None or run.settings(name) for run in runs)]


def read_query(text: str) -> Query:
    """Understand what was typed; a term that is not whole yet is left out, and named."""
    terms, trouble = [], ""
    for is_wanted, word in _words(text):
        found = _TERM.fullmatch(word)
        if found is None:
            terms.append(Term("", "", word.casefold(), None, is_wanted))
            continue
        name, sign, value = found["name"].strip(), found["sign"], found["value"].strip()
        lowered = name.casefold()
        if not value:
            trouble = trouble or f"{name}{sign} wants a value behind it"
        elif lowered in TEXTS:
            if sign not in (":", "=", "!="):
                trouble = trouble or f"{name} is a text: write {name}:{value}"
            else:
                trouble = trouble or _unheard_of(lowered, sign, value.casefold())
                terms.append(Term(lowered, sign, value.casefold(), None, is_wanted))
        elif (number := _number(value)) is None and (sign in _ORDERS or lowered in CATALOG):
            trouble = trouble or f"{value} is not a number; as text: {', '.join(TEXTS)}"
        else:
            terms.append(Term(name, sign, value.casefold(), number, is_wanted))
    return Query(tuple(terms), trouble)


def _unheard_of(name: str, sign: str, value: str) -> str:
    """What a state or level can be, where none is what is asked for; a word that is still being typed is a part."""
    known = _KNOWN.get(name, ())
    if not known or (value in known if sign != ":" else any(value in one for one in known)):
        return ""
    return f"no {name} is called {value}: {', '.join(known)}"


def _words(text: str) -> list[tuple[bool, str]]:
    """The words, and whether each is wanted; quotes hold one together."""
    found = re.findall(r'(-?)((?:[^\s"]|"[^"]*"?)+)', text)
    return [(not minus, word.replace('"', "")) for minus, word in found if word.replace('"', "")]


def _number(text: str) -> float | None:
    scale = _SCALES.get(text[-1].casefold(), 1.0)
    try:
        return float(text[:-1] if scale != 1.0 else text) * scale
    except ValueError:
        return None
