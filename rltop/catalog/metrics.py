"""The catalogue: every quantity that rltop knows by meaning.

Owns the canonical names. Knows nothing of trainers: how they spell a metric
stands in `trainers/`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from types import MappingProxyType

from rltop.catalog import (
    pipeline_metrics,
    policy_metrics,
    preference_metrics,
    reward_metrics,
    rollout_metrics,
    system_metrics,
)
from rltop.model import Metric


def _by_name(entries: Iterable[Metric]) -> Mapping[str, Metric]:
    found: dict[str, Metric] = {}
    for metric in entries:
        if metric.name in found:
            raise ValueError(f"two catalogue entries are called {metric.name!r}")
        found[metric.name] = metric
    return MappingProxyType(found)


CATALOG: Mapping[str, Metric] = _by_name(
    chain(
        reward_metrics.ENTRIES,
        policy_metrics.ENTRIES,
        preference_metrics.ENTRIES,
        rollout_metrics.ENTRIES,
        pipeline_metrics.ENTRIES,
        system_metrics.ENTRIES,
    )
)
"""Canonical name → metric, in the order in which a reference lists them."""
