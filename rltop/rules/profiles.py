"""Profiles: named sets of thresholds for kinds of runs on another scale.

Owns what each profile changes and by which keys it is detected. A detected profile is always logged with its reason, so
thresholds never change silently. The user's settings for a rule or a profile override it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rltop.catalog.dialect import Identity
from rltop.model import Algorithm
from rltop.structs import NamedTuple, Struct

RULE = "F5"
CONFIGURED = "as configured"
_OFF: Mapping[str, float | bool] = MappingProxyType({"enabled": False})


class Profile(Struct):
    """A named set of thresholds for a kind of run.

    Attributes:
        about: the kind of run, in one sentence.
        words: parts of keys that only such runs log.
        unless: canonical metrics that such runs never log.
    """

    name: str
    about: str
    rules: Mapping[str, Mapping[str, float | bool]]
    metrics: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    algorithms: frozenset[Algorithm] = frozenset()


class ActiveProfile(NamedTuple):
    """A profile that is active for a run, and why."""

    name: str
    reason: str


def _settings(text: str) -> Mapping[str, float | bool]:
    """`off`, or `warn 0.02, crit 0.1`."""
    if text == "off":
        return _OFF
    return {name: float(value) for name, value in (part.split() for part in text.split(", "))}


def _profile(head: str, *lines: str) -> Profile:
    name, _, about = head.partition("] ")
    said = dict(line.split(" ", 1) for line in lines if ": " not in line)
    rules = (line.partition(": ") for line in lines if ": " in line)
    return Profile(
        name,
        about,
        {rule: _settings(text) for ids, _, text in rules for rule in ids.split()},
        metrics=tuple(said.get("metrics", "").split()),
        words=tuple(filter(None, said.get("words", "").split(", "))),
        unless=tuple(said.get("unless", "").split()),
        algorithms=frozenset(map(Algorithm, said.get("algorithms", "").split())),
    )


_TABLE = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").replace("\n    ", " ")

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {each.name: each for each in (_profile(*section.strip().splitlines()) for section in _TABLE.split("\n[")[1:])}
)
"""Every profile by name."""


def active(identity: Identity, configured: Sequence[str] | None) -> tuple[ActiveProfile, ...]:
    """The active profiles of a run: those `configured`, or if that is None, those detected from its keys."""
    if configured is None:
        return infer(identity)
    return tuple(ActiveProfile(name, CONFIGURED) for name in configured)


def infer(identity: Identity) -> tuple[ActiveProfile, ...]:
    """The profiles detected from a run's algorithm or keys, each with the evidence; pure."""
    found = []
    for profile in PROFILES.values():
        if any(identity.signals.get(name) for name in profile.unless):
            continue
        if identity.algorithm in profile.algorithms:
            found.append(ActiveProfile(profile.name, f"algorithm is {identity.algorithm.display_name}"))
            continue
        keys = (identity.signals[name][0].key for name in profile.metrics if identity.signals.get(name))
        key = next(keys, "") or _key_with(profile.words, identity)
        if key:
            found.append(ActiveProfile(profile.name, f"it logs {key}"))
    return tuple(found)


def sentence(profile: ActiveProfile) -> str:
    """Says that a profile is active, why, and how many rules it changes."""
    name, reason = profile
    because = reason if reason == CONFIGURED else f"because {reason}"
    count = len(PROFILES[name].rules)
    return f"thresholds of profile {name} in use, {because} ({count} {'rule' if count == 1 else 'rules'})"


def _key_with(words: tuple[str, ...], identity: Identity) -> str:
    every = "\n".join(identity.keys)
    if not any(word in every for word in words):
        return ""
    part = re.compile(rf"(?:^|[/_.:\-])(?:{'|'.join(words)})(?:[/_.:\-]|$)")
    # The router that sends requests to inference engines is not a mixture-of-experts router.
    flow = {one.key for found in identity.signals.values() for one in found if one.metric.section == "pipeline"}
    return next((key for key in identity.keys if part.search(key) and key not in flow), "")
