"""Every rule there is, collected from the family files.

A new rule is a row in the `RULES` of its family's module; a new family is a
module named here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rltop.rules import (
    advantage,
    agentic,
    clip,
    collapse,
    critic,
    embodied,
    entropy,
    entropy_level,
    facts,
    groups,
    input_health,
    integrity,
    kl_control,
    length,
    liveness,
    loss,
    memory,
    mismatch,
    pace,
    pairs,
    performance,
    preference,
    profiles,
    progress,
    ranks,
    reference_kl,
    reversal,
    reward,
    reward_hacking,
    schedule,
    stability,
    stages,
    staleness,
    straggler,
    trust_region,
    validation,
    weights,
)
from rltop.rules.rule import RuleSpec

MODULES = (
    facts,
    profiles,
    integrity,
    liveness,
    input_health,
    schedule,
    stability,
    loss,
    clip,
    trust_region,
    reference_kl,
    kl_control,
    entropy,
    entropy_level,
    reward,
    progress,
    reward_hacking,
    validation,
    groups,
    advantage,
    length,
    agentic,
    mismatch,
    weights,
    staleness,
    critic,
    preference,
    pairs,
    reversal,
    performance,
    pace,
    stages,
    straggler,
    memory,
    embodied,
    ranks,
    collapse,
)

ALL_SPECS: tuple[RuleSpec, ...] = tuple(spec for module in MODULES for spec in module.RULES)
"""Every rule, in the order of the documentation, those judged elsewhere included."""

BY_ID: Mapping[str, RuleSpec] = MappingProxyType({spec.id: spec for spec in ALL_SPECS})
"""Every rule by its id."""

SPECS: tuple[RuleSpec, ...] = tuple(spec for spec in ALL_SPECS if spec.detector is not None)
"""The rules that judge records."""
