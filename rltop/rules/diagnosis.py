"""From a verdict to its related metrics in the order to check, each with the reason.

First comes the chain of the symptom, then the rule's own list (`Words.next`). `chains.toml` has the chains and why to
look at each link, `diagnosis.toml` other reasons. Knows no values; the page that shows the chain reads these from the
run. Chains follow the order in which causes are most often found in post-mortems of collapsed runs, cheap checks (a
NaN, a changed learning rate) before expensive ones.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rltop.model import Verdict
from rltop.resources import read_toml
from rltop.rules.words import words_of
from rltop.structs import NamedTuple


class Fact(enum.StrEnum):
    """Something to check on the run itself, not in one metric."""

    NONFINITE = "NaN/Inf"
    RESTART = "restart"


class Link(NamedTuple):
    """One thing to check: the first of `metrics` (canonical names, best first) that the run logs."""

    metrics: tuple[str, ...]
    question: str
    fact: Fact | None = None


class Chain(NamedTuple):
    name: str
    symptom: str
    links: tuple[Link, ...]


@cache
def _tables() -> Mapping[str, Any]:
    return read_toml(Path(__file__).with_name("chains.toml"))


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
    """The chain for a rule's symptom; None if neither rule nor family has one."""
    tables = _tables()
    name = tables["rule"].get(rule) or tables["family"].get(family)
    return None if name is None else chains()[name]


class NextStep(NamedTuple):
    metric: str
    reason: str


@cache
def reasons() -> Mapping[str, Any]:
    """Canonical name → why to check it; under `family`, the same for families of symptoms with other reasons."""
    return read_toml(Path(__file__).with_name("diagnosis.toml"))


def reason(family: str, metric: str) -> str:
    """Why to check `metric` for a symptom of `family`, in a few words; empty when nothing is known."""
    found = reasons()
    return str(found["family"].get(family, {}).get(metric) or found.get(metric, ""))


def next_steps(verdict: Verdict) -> tuple[NextStep, ...]:
    return tuple(NextStep(metric, reason(verdict.family, metric)) for metric in words_of(verdict.raised_by).next)


def links_of(verdict: Verdict) -> tuple[Link, ...]:
    """The chain of a verdict's symptom, then the rule's own related metrics; never the verdict's own metric."""
    chain = chain_of(verdict.raised_by, verdict.family)
    links = [link for link in (chain.links if chain is not None else ()) if verdict.metric not in link.metrics]
    asked = {verdict.metric, *(name for link in links for name in link.metrics)}
    own = [name for name in words_of(verdict.raised_by).next if name not in asked]
    return (*links, *(Link((name,), reason(verdict.family, name)) for name in own))


def symptom_of(verdict: Verdict) -> str:
    chain = chain_of(verdict.raised_by, verdict.family)
    return verdict.title if chain is None else chain.symptom
