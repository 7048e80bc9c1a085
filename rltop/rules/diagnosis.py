"""From a verdict to its related metrics in the order to check, each with the reason.

Owns the reasons; the order is the chain's (`chains`), then the rule's own
(`Words.next`), the likeliest cause first. Knows no values.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rltop.model import Verdict
from rltop.resources import read_toml
from rltop.rules.chains import Link, chain_of
from rltop.rules.words import words_of
from rltop.structs import NamedTuple


class NextStep(NamedTuple):
    """A metric to check, and what it tells."""

    metric: str
    reason: str


@cache
def reasons() -> Mapping[str, Any]:
    """Canonical name → what it tells; under `family` the same for a family of symptoms that changes it."""
    return read_toml(Path(__file__).with_name("diagnosis.toml"))


def reason(family: str, metric: str) -> str:
    """Why to check `metric` for a symptom of `family`, in a few words; empty when nothing is known."""
    found = reasons()
    return str(found["family"].get(family, {}).get(metric) or found.get(metric, ""))


def next_steps(verdict: Verdict) -> tuple[NextStep, ...]:
    return tuple(NextStep(metric, reason(verdict.family, metric)) for metric in words_of(verdict.said_by).next)


def links_of(verdict: Verdict) -> tuple[Link, ...]:
    """The chain of a verdict's symptom, then the rule's own related metrics; never the verdict's own metric."""
    chain = chain_of(verdict.said_by, verdict.family)
    links = [link for link in (chain.links if chain is not None else ()) if verdict.metric not in link.metrics]
    asked = {verdict.metric, *(name for link in links for name in link.metrics)}
    own = [name for name in words_of(verdict.said_by).next if name not in asked]
    return (*links, *(Link((name,), reason(verdict.family, name)) for name in own))


def symptom_of(verdict: Verdict) -> str:
    chain = chain_of(verdict.said_by, verdict.family)
    return verdict.title if chain is None else chain.symptom
