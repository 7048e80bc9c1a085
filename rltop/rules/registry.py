"""Every rule there is, and every part of one, collected from the family files.

A new rule is a row in the `RULES` of its family's file and a table in the TOML file
beside it, and so is a part of one, which names the rule; a new family is two such files and their name in `FAMILIES`.
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
    "critic",
    "preference",
    "pairs",
    "performance",
    "pace",
    "stages",
    "straggler",
    "memory",
    "guessed",
    "collapse",
)
"""The family files, in the order in which their rules are asked and documented."""

_FOUND: tuple[tuple[str, RuleSpec], ...] = tuple(
    (name, spec) for name in FAMILIES for spec in import_module(f"rltop.rules.{name}").RULES
)

ALL_SPECS: tuple[RuleSpec, ...] = tuple(spec for _, spec in _FOUND)
"""Every rule and every part, in the order in which they are asked, those judged elsewhere included."""

HOMES: Mapping[str, str] = MappingProxyType({spec.id: name for name, spec in _FOUND})
"""Id of a rule or a part → its family's file, without suffix: the code is in one, the words in the other."""

NAMED: Mapping[str, RuleSpec] = MappingProxyType({spec.id: spec for spec in ALL_SPECS})
"""Every rule and every part by its id: whatever somebody may type."""

BY_ID: Mapping[str, RuleSpec] = MappingProxyType({spec.id: spec for spec in ALL_SPECS if not spec.part_of})
"""Every rule by its id."""

PARTS: Mapping[str, tuple[RuleSpec, ...]] = MappingProxyType(
    {
        rule: tuple(spec for spec in ALL_SPECS if spec.part_of == rule)
        for rule in dict.fromkeys(spec.part_of for spec in ALL_SPECS if spec.part_of)
    }
)
"""Id of a rule that has parts → these."""

DOCUMENTED: tuple[RuleSpec, ...] = tuple(one for rule in BY_ID.values() for one in (rule, *PARTS.get(rule.id, ())))
"""Every rule, and after it its parts."""

SPECS: tuple[RuleSpec, ...] = tuple(spec for spec in ALL_SPECS if spec.detector is not None)
"""The rules and parts that judge records."""
