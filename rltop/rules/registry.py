"""Every rule there is, and every part of one, read from `rules.txt`.

Owns which of their settings are valid. A new rule needs a row in that table, a detector in its family's file and a
table in the TOML file next to it; a part needs the same, and names its rule. A new family is a section and two such
files. A detector is imported once a run logs what it looks at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeGuard

from rltop.errors import ConfigError
from rltop.model import Level, Unit
from rltop.rules import applicability
from rltop.rules.levels import HIGHEST
from rltop.rules.profiles import PROFILES
from rltop.rules.rule import MIN_CLEAR_AFTER, Detector, EvidenceNames, Group, NOfM, RuleSpec, Several

if TYPE_CHECKING:
    from rltop.rules.options import RuleSettings

_TABLE = Path(__file__).with_name("rules.txt")
_COLUMNS = 7
_FORMER, _MOVED = "former", "moved"
_FLAGS = {
    "fact": "is_fact",
    "every record": "runs_always",
    "reads guesses": "reads_guesses",
    "needs ranks": "needs_ranks",
    "late rows": "accepts_late",
    "new at each phase": "resets_on_phase",
}
_NUMBERS = {"clears after": "clear_after", "warm-up": "warm_up"}
_TEXTS = ("family", "part of", "measures", "silent under", "value", "baseline", "threshold", "unit", "extra", "if")
_VALUED = {name.partition(" ")[0]: name for name in (*_NUMBERS, *_TEXTS)}
"""First word → full name."""
_GROUPS = frozenset(each.value for each in Group)


def _sections() -> Iterator[tuple[str, list[str], list[list[list[str]]]]]:
    """Yields each family's file name, its common items, and its rules: the columns of each row and further line."""
    for section in _TABLE.read_text(encoding="utf-8").replace("\n    ", " ").split("\n[")[1:]:
        head, *lines = section.splitlines()
        name, _, common = head.partition("] ")
        rows: list[list[list[str]]] = []
        for line in lines:
            columns = [column.strip() for column in line.split(" | ")]
            columns += [""] * (_COLUMNS - len(columns))
            if columns[0].startswith("+ "):
                rows[-1].append(columns)
            elif line and line[0] != "#":
                rows.append([columns])
        yield name, common.split("; "), rows


def _extra(text: str) -> tuple[tuple[str, Unit], ...]:
    """Parse the names and units of a finding's further numbers: `factor, high in last 10: count`."""
    return tuple([(name, Unit(unit)) for name, _, unit in (each.partition(": ") for each in text.split(", "))])


_READ: Mapping[str, Callable[[str], Any]] = {**dict.fromkeys(_NUMBERS, int), "unit": Unit, "extra": _extra}


def _items(texts: list[str]) -> dict[str, Any]:
    """The items of a row beyond its columns, by name; a later one overrides an earlier one.

    Raises:
        ValueError: an unknown item.
    """
    found: dict[str, Any] = {}
    for text in filter(None, texts):
        name = _VALUED.get(text.partition(" ")[0])
        if name is not None and text.startswith(f"{name} "):
            value = text[len(name) + 1 :]
            known = found
            if value.startswith("of "):
                case, value = value[3:].split(": ")
                known = found.setdefault("cases", {}).setdefault(case, {})
            known[_NUMBERS.get(name, name)] = _READ.get(name, str)(value)
        elif text in _FLAGS:
            found[_FLAGS[text]] = True
        elif text in _GROUPS:
            found["group"] = Group(text)
        elif text == "for all":
            found["if"] = ""
        elif text.startswith("no ") and text[3:] in {"value", "baseline", "threshold"}:
            found[text[3:]] = ""
        else:
            raise ValueError(f"{_TABLE.name}: unknown item {text!r}")
    return found


@cache
def _lasting(text: str) -> Mapping[Level, NOfM]:
    """Parse `INFO WARN 5/10, CRIT 3/5`; without a level it applies to all three."""
    found = {}
    for part in filter(None, text.split(", ")):
        *levels, counts = part.split()
        n, m = map(int, counts.split("/"))
        found.update({Level[level]: NOfM(n, m) for level in levels or ("INFO", "WARN", "CRIT")})
    return MappingProxyType(found)


def _limits(text: str) -> dict[str, float]:
    return {name: float(value) for name, value in map(str.split, text.split(", "))} if text else {}


def _made(home: str, name: str, metric: str, says: str, thresholds: Mapping[str, float], **given: Any) -> Detector:
    detector: Detector = getattr(import_module(f"rltop.rules.{home}"), name)(thresholds, **given)
    detector.metric = metric
    detector.text, *others = says.split("; says of ")
    detector.texts = dict([each.split(": ", 1) for each in others])
    return detector


def _several(
    main: Callable[..., Detector], others: Mapping[str, Callable[..., Detector]], thresholds: Mapping[str, float]
) -> Detector:
    """Thresholds whose names start with the name of another detector are that one's, the rest the rule's own."""
    made = {}
    for name, one in others.items():
        own = [each for each in thresholds if each.startswith(f"{name}_")]
        made[name] = one({each.removeprefix(f"{name}_"): thresholds[each] for each in own})
    return Several(thresholds, main(thresholds), made)


def _detector(home: str, metrics: Sequence[str], detector: str, says: str) -> Callable[..., Detector]:
    """Parse `Line`, `Line below` or `Own below`: `Line` judges the first metric, others are classes of the family."""
    kind, _, side = detector.partition(" ")
    given: dict[str, Any] = {"is_below": True} if side else {}
    return partial(_made, "rule" if kind == "Line" else home, kind, next(iter(metrics), ""), says, **given)


def _spec(home: str, common: list[str], columns: list[str], lines: Sequence[list[str]]) -> RuleSpec:
    rule, title, *rest = ["" if column == "-" else column for column in columns]
    logged, detector, limits, lasts, more = rest
    more, _, says = more.partition("says ")
    said, metrics = _items([*common, *more.split("; ")]), tuple(logged.split())
    names, applies = {name: said.pop(name) for name in EvidenceNames._fields if name in said}, said.pop("if", "")
    made = _detector(home, metrics, detector, says) if detector else None
    thresholds = _limits(limits)
    if detector.startswith("Line"):
        names |= {"value": metrics[0], "baseline": ""}
    if made is not None and lines:
        further = {}
        for name, _, metric, line, own, _, says in lines:
            own_metrics = tuple(metric.split())
            further[name[2:]] = _detector(home, own_metrics, line, says.strip("-").removeprefix("says "))
            thresholds = {**thresholds, **{f"{name[2:]}_{each}": value for each, value in _limits(own).items()}}
            metrics = (*metrics, *(each for each in own_metrics if each not in metrics))
        made = partial(_several, made, further)
    if applies:
        said["applies"] = getattr(applicability, applies, None) or applicability.named(applies)
    return RuleSpec(
        id=rule,
        title=title,
        metrics=metrics,
        detector=made,
        thresholds=MappingProxyType(thresholds),
        n_of_m=_lasting(lasts),
        part_of=said.pop("part of", ""),
        silent_under=frozenset(said.pop("silent under", "").split()),
        clear_after=said.pop("clear_after", MIN_CLEAR_AFTER),
        evidence=EvidenceNames(**names),
        **said,
    )


_SECTIONS = tuple(_sections())
_FOUND: tuple[tuple[str, RuleSpec], ...] = tuple(
    (home, _spec(home, common, row, lines))
    for home, common, rows in _SECTIONS
    if home not in (_FORMER, _MOVED)
    for row, *lines in rows
)

FORMER: Mapping[str, str] = MappingProxyType(
    {rule: heir.strip("-") for home, _, rows in _SECTIONS if home == _FORMER for ((rule, heir, *_),) in rows}
)
"""Former id of a rule → the id of its successor; "" if it has none because it never found anything real."""


def _renamed(how: str, heir: str) -> Mapping[str, str]:
    """Parse `lost, warn as chance`: former threshold → the successor's, or `-`; `same thresholds`: all of its own."""
    if how == "same thresholds":
        return {name: name for name in NAMED[heir].thresholds}
    pairs = (part.split(" as ") for part in how.split(", "))
    return {old.strip(): new[0] if new else old.strip() for old, *new in pairs}


ALL_SPECS: tuple[RuleSpec, ...] = tuple(spec for _, spec in _FOUND)
"""Every rule and every part in the order in which they run, those judged elsewhere included."""

HOMES: Mapping[str, str] = MappingProxyType({spec.id: name for name, spec in _FOUND})
"""Id of a rule or a part → the name of its family's code and TOML files, without suffix."""

NAMED: Mapping[str, RuleSpec] = MappingProxyType({spec.id: spec for spec in ALL_SPECS})
"""Every rule and every part by its id."""

TAKEN_OVER: dict[str, dict[str, tuple[str, str]]] = {}
"""Id → threshold that may still be set under it → the rule that has it now and its name there, or `-`."""
for _home, _, _rows in _SECTIONS:
    for ((_rule, _heir, _how, *_),) in _rows if _home in (_FORMER, _MOVED) else ():
        for _old, _new in _renamed(_how, _heir).items() if _how else ():
            TAKEN_OVER.setdefault(_rule, {})[_old] = _heir, _new

COUNTS = frozenset(
    {"evaluations", "families", "few_most", "known", "lasts", "lead", "least", "long", "m", "most", "n", "often"}
    | {"out_lasts", "periods", "records", "returned", "sure_wait", "trusted", "wait"}
)
"""Thresholds that count records or similar: rules keep that many, so the number must be whole."""


def is_count(name: str, usual: float) -> bool:
    """Whether a threshold is a count, given its default: `most` may be a share; a prefix as in `zero_most` is cut."""
    return usual == int(usual) and (name in COUNTS or name.partition("_")[2] in COUNTS)


BY_ID: Mapping[str, RuleSpec] = MappingProxyType({spec.id: spec for spec in ALL_SPECS if not spec.part_of})
"""Every rule by its id."""

PARTS: dict[str, tuple[RuleSpec, ...]] = {}
"""Id of a rule → its parts, if it has any."""
for _part in ALL_SPECS:
    if _part.part_of:
        PARTS[_part.part_of] = (*PARTS.get(_part.part_of, ()), _part)

DOCUMENTED: tuple[RuleSpec, ...] = tuple(one for rule in BY_ID.values() for one in (rule, *PARTS.get(rule.id, ())))
"""Every rule, followed by its parts."""

SPECS: tuple[RuleSpec, ...] = tuple(spec for spec in ALL_SPECS if spec.detector is not None)
"""The rules and parts that judge records."""


def check_profiles(names: Sequence[str], settings: Mapping[str, RuleSettings]) -> None:
    """Reject profiles that do not exist, and settings for them that no rule knows.

    Raises:
        ConfigError: names the profile and the nearest existing one.
    """
    for name in (*names, *settings):
        if name not in PROFILES:
            raise ConfigError(f"unknown profile {name!r}", _did_you_mean(name, list(PROFILES)))
    for name, rules in settings.items():
        check_rule_settings(rules, f"profiles.{name}")


def check_rule_settings(rules: RuleSettings, table: str = "rules") -> None:
    """Reject settings that no rule knows or can use; `table` is their place in the config file.

    Raises:
        ConfigError: an unknown rule or threshold (names the nearest), or an invalid value.
    """
    for rule, settings in rules.items():
        where, taken = f"[{table}.{rule}]", TAKEN_OVER.get(rule, {})
        if rule not in NAMED and rule not in FORMER:
            raise ConfigError(f"{where}: unknown rule {rule!r}", _did_you_mean(rule, list(NAMED)))
        own = NAMED[rule].thresholds if rule in NAMED else ()
        known = [*own, *(name for name, now in taken.items() if "-" not in now), "enabled"]
        for name, value in settings.items():
            if why := spent(rule, name):
                raise ConfigError(f"{where} {name}: {why}", "remove the line")
            if name not in known:
                raise ConfigError(f"{where} {name}: unknown setting", _did_you_mean(name, known))
            if name == "enabled":
                if not isinstance(value, bool):
                    raise ConfigError(f"{where} enabled must be true or false", "write true or false")
            elif (fault := threshold_fault(*taken.get(name, (rule, name)), value, settings)) is not None:
                raise ConfigError(f"{where} {name} {fault[0]}", fault[1])


def spent(rule: str, name: str) -> str:
    """Why a former setting of a rule no longer has an effect; empty if it has one, or never existed."""
    heir, now = TAKEN_OVER.get(rule, {}).get(name, (rule, name))
    if "-" in (heir, now):
        return "no rule has this threshold any more"
    whole = FORMER.get(rule)
    if whole is None or heir != rule:
        return ""
    if not whole:
        return f"there is no rule {rule} any more"
    is_part = f"{rule} is part of {whole} now"
    return (
        f"{is_part}: set {name} of {whole}, for both" if name in SWITCHES else f"{is_part}, which does not go by {name}"
    )


def without_effect(rule: str, name: str) -> str:
    """Why a setting has no effect: it is `spent`, or the level it raises is never shown; empty if it has one."""
    heir, now = TAKEN_OVER.get(rule, {}).get(name, (rule, name))
    is_capped = all(highest.get(heir, Level.CRIT) < Level.CRIT for highest in HIGHEST.values())
    is_unshown = is_capped and now.rpartition("_")[2] == "crit" and heir in NAMED and now in NAMED[heir].thresholds
    return spent(rule, name) or (f"{heir} is never shown above WARN" if is_unshown else "")


SWITCHES = ("enabled", "mute")
"""Settings that switch a rule off: in the config file, and as saved after muting it on the screen."""
_MOST = 10**6
"""Most records that a rule may be configured to look back on."""
_FEW_OF_MANY = (("n", "m"), ("least", "most"))
"""Pairs of counts; the first must not exceed the second."""


def threshold_fault(rule: str, name: str, value: object, beside: Mapping[str, object]) -> tuple[str, str] | None:
    """Why a value is invalid for a threshold of a rule, and what to do about it; None if it is valid.

    A threshold above 0 by default must stay above 0, a number of records must be whole, and `n` at most `m`; an
    infinite threshold is never crossed.

    Args:
        beside: the rule's other settings, by name.
    """
    if not _is_number(value):
        return "must be a number", "write a plain number"
    limits = NAMED[rule].thresholds
    usual = limits[name]
    counts, least = is_count(name, usual), min(1.0, usual)
    if counts and (not least <= value <= _MOST or value != int(value)):
        wanted = f"a whole number from {least:g} to {_MOST}"
    elif usual > 0.0 and value <= 0.0:
        wanted = "greater than 0"
    else:
        return _fault_of_pair(name, value, {**limits, **beside}, usual) if counts else None
    return f"is {value:g}, but must be {wanted}", f"write such a number, or remove the line: the default is {usual:g}"


def _fault_of_pair(name: str, value: float, limits: Mapping[str, object], usual: float) -> tuple[str, str] | None:
    before, _, last = name.rpartition("_")
    for pair in _FEW_OF_MANY:
        few, many = (f"{before}_{each}".lstrip("_") for each in pair)
        other, how = (limits.get(many), "lower") if last == pair[0] else (limits.get(few), "raise")
        if last in pair and _is_number(other) and (value > other if how == "lower" else value < other):
            what = f"is {value:g}, but {few} cannot be more than {many}"
            return what, f"{how} it, or remove the line: the default is {usual:g}"
    return None


def _is_number(value: object) -> TypeGuard[float]:
    """Whether it is a number within the range of a float, or infinite, but not NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return not math.isnan(value)
    except OverflowError:
        return False


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - after a typo only

    same = [name for name in known if name.casefold() == word.casefold()]
    near = same or get_close_matches(word, known, n=3, cutoff=0.4)
    return f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}"
