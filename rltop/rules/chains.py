"""Chains of diagnosis: from a symptom to the related metrics, in the order to check.

The order and the reason at each link stand in `chains.toml`; a rule's own `next` is appended to its chain. Knows no
values: what moved first is read from the run by the page that shows the chain. The order is that in which causes are
most often found in post-mortems of collapsed runs, cheap checks (a NaN, a changed learning rate) before expensive ones.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rltop.resources import read_toml
from rltop.structs import NamedTuple


class Fact(enum.StrEnum):
    """What is checked on the run itself and not in one metric."""

    NONFINITE = "NaN/Inf"
    RESTART = "restart"


class Link(NamedTuple):
    """One thing to check: the first of `metrics` (canonical names, the best first) that the run logs."""

    metrics: tuple[str, ...]
    question: str
    fact: Fact | None = None


class Chain(NamedTuple):
    """What to check for one symptom."""

    name: str
    symptom: str
    links: tuple[Link, ...]


@cache
def _tables() -> Mapping[str, Any]:
    return read_toml(Path(__file__).with_suffix(".toml"))


def _link(text: str) -> Link:
    checked, _, question = text.partition(": ")
    facts = {each.value: each for each in Fact}
    return Link((), question, facts[checked]) if checked in facts else Link(tuple(checked.split()), question)


@cache
def chains() -> Mapping[str, Chain]:
    tables = _tables()
    links = {name: _link(text) for name, text in tables["link"].items()}
    return {
        name: Chain(name, own["symptom"], tuple(links[each] if each in links else _link(each) for each in own["links"]))
        for name, own in tables["chain"].items()
    }


def chain_of(rule: str, family: str) -> Chain | None:
    """The chain of a rule's symptom; None for a family without one."""
    tables = _tables()
    name = tables["rule"].get(rule) or tables["family"].get(family)
    return None if name is None else chains()[name]
