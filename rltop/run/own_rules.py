"""Thresholds and mutes set on the screen: for a run, a project or everywhere; kept in the user's state."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path

from rltop.resources import keep
from rltop.run.meanings import project_of, quoted, said_in
from rltop.settings import RULES_TABLE, toml_text

FILE_NAME = "rules.toml"
MUTE = "mute"
_HEAD = "# Written by rltop: thresholds and muted rules, by run, project, or everywhere; printed by `rltop config`.\n"
_MOST_PLACES = 500

Said = float | bool
RuleTable = Mapping[str, Mapping[str, Said]]
"""Rule id → a threshold by its name, or `MUTE` → value."""
OwnRules = Mapping[str, RuleTable]
"""The path of a run or of a project, or `everywhere` → what was set there."""
NONE: OwnRules = {}


class RuleScope(enum.StrEnum):
    """For what something is set; the nearer one wins."""

    RUN = "run"
    PROJECT = "project"
    EVERYWHERE = "everywhere"

    @property
    def words(self) -> str:
        return self.value if self is RuleScope.EVERYWHERE else f"this {self.value}"

    def place(self, path: str) -> str:
        """Under what it is kept, of the run at `path`."""
        if self is RuleScope.EVERYWHERE:
            return self.value
        return str(Path(path).absolute()) if self is RuleScope.RUN else project_of(path)


def load(environment: Mapping[str, str] | None = None) -> OwnRules:
    """What the state file says; nothing of what is no rule, no threshold or no value of one."""
    told = said_in(FILE_NAME, RULES_TABLE, environment)
    if not told:
        return NONE
    from rltop.rules.registry import NAMED  # noqa: PLC0415 - most people have set nothing

    def is_known(rule: str, name: str, value: object) -> bool:
        if name == MUTE:
            return isinstance(value, bool)
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and value == value
        return is_number and name in NAMED[rule].thresholds

    found: dict[str, RuleTable] = {}
    for place, table in told.items():
        rules = {
            rule: own
            for rule, said in table.items()
            if rule in NAMED and isinstance(said, dict)
            if (own := {name: value for name, value in said.items() if is_known(rule, name, value)})
        }
        if rules:
            found[place] = rules
    return found


def places_of(path: str, told: OwnRules) -> list[tuple[RuleScope, str]]:
    """Where something was set that holds for the run at `path`, the one that wins last."""
    if not told:
        return []
    run = Path(path).absolute()
    above = [str(folder) for folder in reversed(run.parents)]
    places = [(RuleScope.EVERYWHERE, RuleScope.EVERYWHERE.value), *((RuleScope.PROJECT, one) for one in above)]
    return [(scope, place) for scope, place in [*places, (RuleScope.RUN, str(run))] if place in told]


def of_path(path: str, told: OwnRules) -> dict[str, dict[str, tuple[Said, RuleScope]]]:
    """What holds for the run at `path`, and for what it was set."""
    found: dict[str, dict[str, tuple[Said, RuleScope]]] = {}
    for scope, place in places_of(path, told):
        for rule, own in told[place].items():
            found.setdefault(rule, {}).update({name: (value, scope) for name, value in own.items()})
    return found


def thresholds_of(path: str, told: OwnRules) -> dict[str, dict[str, Said]]:
    found = {
        rule: {name: value for name, (value, _) in own.items() if name != MUTE}
        for rule, own in of_path(path, told).items()
    }
    return {rule: own for rule, own in found.items() if own}


def muted_of(path: str, told: OwnRules) -> frozenset[str]:
    return frozenset(rule for rule, own in of_path(path, told).items() if own.get(MUTE, (False,))[0] is True)


def with_one(told: OwnRules, place: str, rule: str, name: str, value: Said | None) -> OwnRules:
    """The same with another value in one place; None takes away what was set there, all of it where no name is given.

    Of very many places those set longest ago go.
    """
    before = told.get(place, {})
    own = {each: said for each, said in before.get(rule, {}).items() if name and each != name}
    if value is not None:
        own[name] = value
    table = {each: said for each, said in before.items() if each != rule} | ({rule: own} if own else {})
    rest = [(each, said) for each, said in told.items() if each != place]
    old = [each for each, _ in rest if each != RuleScope.EVERYWHERE][: max(0, len(rest) + 1 - _MOST_PLACES)]
    return {each: said for each, said in rest if each not in old} | ({place: table} if table else {})


def save(told: OwnRules, environment: Mapping[str, str] | None = None) -> Path:
    """Write all of it, in place of what the file held.

    Raises:
        OSError: it cannot be written.
    """
    return keep(FILE_NAME, _HEAD + text(told), environment)


def text(told: OwnRules) -> str:
    """As TOML: a table of each rule in each place."""
    lines = []
    for place, rules in told.items():
        for rule, own in sorted(rules.items()):
            lines += [f"[{quoted(place)}.{rule}]", *(f"{name} = {toml_text(value)}" for name, value in own.items()), ""]
    return "\n".join(lines)


def words_of(path: str, told: OwnRules) -> list[str]:
    """Every threshold of one's own that holds for the run at `path`: `O1 warn 8 (this run)`."""
    return [
        f"{rule} {name} {value:g} ({scope.words})"
        for rule, own in sorted(of_path(path, told).items())
        for name, (value, scope) in sorted(own.items())
        if name != MUTE
    ]
