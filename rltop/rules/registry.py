"""Every rule there is, collected from the family files.

A new rule is a row in the `RULES` of its family's file; a new family is a file
beside this one and its name in `FAMILIES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

from rltop.rules.rule import RuleSpec

FAMILIES = (
    "facts",
    "profiles",
    "integrity",
    "vanished",
    "liveness",
    "input_health",
    "schedule",
    "stability",
    "clip",
    "trust_region",
    "reference_kl",
    "entropy",
    "reward",
    "dead_start",
    "progress",
    "reward_hacking",
    "validation",
    "held_out",
    "groups",
    "length",
    "agentic",
    "mismatch",
    "staleness",
    "creep",
    "critic",
    "preference",
    "pairs",
    "performance",
    "pace",
    "stages",
    "straggler",
    "memory",
    "embodied",
    "guessed",
    "ranks",
    "collapse",
)
"""The family files, in the order in which their rules are asked and documented."""

ALL_SPECS: tuple[RuleSpec, ...] = tuple(
    spec for name in FAMILIES for spec in import_module(f"rltop.rules.{name}").RULES
)
"""Every rule, in the order of the documentation, those judged elsewhere included."""

BY_ID: Mapping[str, RuleSpec] = MappingProxyType({spec.id: spec for spec in ALL_SPECS})
"""Every rule by its id."""

SPECS: tuple[RuleSpec, ...] = tuple(spec for spec in ALL_SPECS if spec.detector is not None)
"""The rules that judge records."""
