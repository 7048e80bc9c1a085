"""What a rule is in words: the condition, why it matters, likely causes, what to check next, sources.

They stand in the TOML file beside the family's, one table for each id; a file is read when somebody shows one of its
rules. Texts are wrapped there as their writer liked; causes, next and sources above the first table are those of every
rule of the file that has none of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rltop.resources import read_toml
from rltop.rules.registry import HOMES
from rltop.structs import NamedTuple


class Words(NamedTuple):
    """One rule in words.

    Attributes:
        condition: what raises it, with the names of its thresholds.
        causes: likely causes, likeliest first.
        next: canonical names of related metrics, in the order to check.
        stays: why it is a rule although no recorded run, glossary or thread has raised it; of most empty.
    """

    condition: str = ""
    why: str = ""
    causes: tuple[str, ...] = ()
    next: tuple[str, ...] = ()
    sources: str = ""
    stays: str = ""


def words_of(rule: str) -> Words:
    """The words of the rule with an id; empty ones if there is no such rule."""
    home = HOMES.get(rule)
    return Words() if home is None else _family(home)[rule]


@cache
def _family(name: str) -> Mapping[str, Words]:
    tables = read_toml(Path(__file__).with_name(f"{name}.toml"))
    shared = {field: _worded(value) for field, value in tables.items() if not isinstance(value, dict)}
    return {
        rule: Words(**shared | {field: _worded(value) for field, value in own.items()})
        for rule, own in tables.items()
        if isinstance(own, dict)
    }


_PUBLIC = Path(__file__).with_name("evidence.csv")
"""By `bench/evidence.py`: in how many public repositories a rule was right, noise or false."""
NO_ALARM = "no alarm on any that was judged"
_FIELDS = {"llm": "language models", "classic": "classic RL"}


def public_logs() -> Mapping[str, str]:
    """Rule → in how many repositories of judged public logs its WARN or CRIT was right and wrong, in words."""
    import csv  # noqa: PLC0415 - for the page of a rule only

    found: dict[str, list[str]] = {}
    with _PUBLIC.open(newline="") as file:
        for row in csv.DictReader(file):
            words = [f"{row[word]} {word}" for word in ("right", "noise", "false", "unjudged") if row[word] != "0"]
            if words:
                found.setdefault(row["rule"], []).append(f"{_FIELDS[row['field']]} {', '.join(words)}")
    return {rule: f"{'; '.join(fields)} (repositories)" for rule, fields in found.items()}


def _worded(value: str | list[str]) -> Any:
    return " ".join(value.split()) if isinstance(value, str) else tuple(value)
