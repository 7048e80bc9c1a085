"""Which rules make sense for which kind of run.

Owns the named predicates over algorithm and traits that `RuleSpec.applies` uses; a run of an unknown algorithm gets
every rule whose metrics it logs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rltop.model import Algorithm, Traits

if TYPE_CHECKING:
    from rltop.rules.context import RuleContext

_NO_ROLLOUTS = frozenset({Algorithm.DPO, Algorithm.KTO, Algorithm.REWARD, Algorithm.SFT})
_NO_REWARD = _NO_ROLLOUTS | {Algorithm.DISTILL}
_UNCLIPPED = frozenset({Algorithm.A2C, Algorithm.SAC, Algorithm.DQN})
"""Classic RL without a trust region, and without groups."""

OF_ACTIONS = frozenset({"action_entropy", "episode_len"})
"""Logged by trainers of policies that take actions, not tokens."""
OF_ACTION_POLICIES = _UNCLIPPED | {Algorithm.EMBODIED}


def nats_of(context: RuleContext) -> str:
    """The unit of an entropy or a KL: nats per token or per action, or just nats if only generic names are logged."""
    if not OF_ACTIONS.isdisjoint(context.values) or context.algorithm in OF_ACTION_POLICIES:
        return "nats/action"
    return "nats" if context.traits.is_generic and "response_len_mean" not in context.values else "nats/token"


def has_rollouts(algorithm: Algorithm, traits: Traits) -> bool:
    """The policy generates its own training data."""
    return algorithm not in _NO_ROLLOUTS and not traits.is_preference


def has_reward(algorithm: Algorithm, traits: Traits) -> bool:
    """A reward is maximised (distillation may log a constant 0)."""
    return algorithm not in _NO_REWARD and not traits.is_preference


def has_trust_region(algorithm: Algorithm, traits: Traits) -> bool:
    """Updates are clipped against an older policy, and there is more than one of them per rollout."""
    return has_rollouts(algorithm, traits) and traits.is_single_update is not True and algorithm not in _UNCLIPPED


def is_disaggregated(algorithm: Algorithm, traits: Traits) -> bool:
    """Generation and training are disaggregated, so that one can wait for the other."""
    return traits.is_async and has_rollouts(algorithm, traits)


def has_critic(algorithm: Algorithm, traits: Traits) -> bool:
    """There is a critic (or the algorithm is unknown)."""
    return traits.has_critic or algorithm is Algorithm.UNKNOWN


def compares_groups(algorithm: Algorithm, traits: Traits) -> bool:
    """Advantages come from the other completions of the same prompt."""
    return has_rollouts(algorithm, traits) and algorithm is not Algorithm.PPO and algorithm not in _UNCLIPPED


def named(names: str) -> Callable[[Algorithm, Traits], bool]:
    """A predicate: the algorithm is one of several, given as `dpo kto`."""
    algorithms = frozenset(map(Algorithm, names.split()))
    return lambda algorithm, traits: algorithm in algorithms


def has_loss_to_minimise(algorithm: Algorithm, traits: Traits) -> bool:
    """The loss is an objective that should fall (a policy-gradient surrogate is not)."""
    return algorithm in _NO_ROLLOUTS or traits.is_preference


def has_loaded_reference(algorithm: Algorithm, traits: Traits) -> bool:
    """A reference model is loaded: a column of zeros means that there is none."""
    return has_rollouts(algorithm, traits) and traits.has_reference
