"""Profiles: named sets of thresholds for kinds of runs on another scale.

Owns what each profile changes and by which keys it is detected. A detected
profile is always logged, by name and reason: thresholds never change silently.
What a user configured for a rule or a profile wins over it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from rltop.catalog.dialect import Identity
from rltop.model import Algorithm
from rltop.structs import NamedTuple, Struct

RULE = "F5"
CONFIGURED = "as configured"
_OFF: Mapping[str, float | bool] = MappingProxyType({"enabled": False})
_LANGUAGE = (
    "response_len_mean", "truncated_frac", "prompt_len_mean", "zero_std_frac", "off_policy_kl", "total_tokens",
    "num_tokens", "token_accuracy", "kl_teacher", "dpo_margin",
)  # fmt: skip
"""Only language models log these."""
_REWARD_RULES = ("R1", "R2", "R3", "R4", "R8", "R9", "R10", "R11", "R12")


class Profile(Struct):
    """A named set of thresholds.

    Attributes:
        name: as in the configuration.
        about: what kind of run it is for, in one sentence.
        rules: rule id → threshold or `enabled` → value.
        metrics: canonical metrics that only such a run logs.
        words: parts of a key that only such a run logs.
        unless: canonical metrics that such a run never logs.
        algorithms: algorithms of this kind.
    """

    name: str
    about: str
    rules: Mapping[str, Mapping[str, float | bool]]
    metrics: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    algorithms: frozenset[Algorithm] = frozenset()


class ActiveProfile(NamedTuple):
    """A profile at work on a run, and why."""

    name: str
    reason: str


PROFILES: Mapping[str, Profile] = MappingProxyType(
    {
        profile.name: profile
        for profile in (
            Profile(
                "moe",
                "Mixture of experts, and low precision: sampler and trainer route tokens differently, so the "
                "mismatch is higher from the start.",
                {
                    "M1": {"warn": 0.02},
                    "M3": {"info": 0.01, "warn": 0.02},
                    "M4": {"warn": 0.95},
                    "M5": {"warn": 1.1},
                    "M6": {"warn": 0.2},
                    "O10": {"warn": 0.2},
                },
                metrics=("moe_max_vio", "aux_loss"),
                words=("moe", "router", "expert", "experts", "load_balancing"),
            ),
            Profile(
                "classic",
                "Classic reinforcement learning (PPO, A2C, SAC, DQN on control tasks): a quarter of all actions is "
                "clipped, and the return swings.",
                {
                    "O6": {"warn": 0.3, "crit": 0.3, "alone_warn": 0.6, "alone_crit": 0.8, "rise_floor": 0.3},
                    "O6g": _OFF,
                    "C1": {"far": -math.inf},
                    "O9": {"warn": 0.025, "often": 3, "wait": 8},
                    "R1": {"warn": 0.3, "lasts": 30, "share": 0.5, "range": 0.15},
                    "E2": {"fast": 0},
                },
                words=(
                    "ep_rew_mean",
                    "mean 100 episode reward",
                    "ep_len_mean",
                    "eprewmean",
                    "eplenmean",
                    "EpRewMean",
                    "EpLenMean",
                    "AverageEpRet",
                    "EpRet",
                    "episode_reward",
                    "episode_return",
                    "episodic_return",
                    "episode_len_mean",
                    "td_error",
                    "mean_q",
                    "timestep",
                    "timesteps",
                    "train/clip_fraction",
                    "ray/tune",
                ),
                unless=_LANGUAGE,
                algorithms=frozenset({Algorithm.A2C, Algorithm.SAC, Algorithm.DQN}),
            ),
            Profile(
                "gspo",
                "Sequence-level clipping: a tenth of all sequences is clipped, at a step KL near 0.",
                {"O6": _OFF, "O10": {"warn": 0.05}},
            ),
            Profile(
                "embodied",
                "Robot policies: classic PPO settings; success is judged, the shaped reward is not.",
                {
                    "O6": {
                        "warn": 0.3,
                        "crit": 0.5,
                        "alone_warn": 0.6,
                        "alone_crit": 0.8,
                        "rise": math.inf,
                        "kl": 0.045,
                    },
                    "O9": {"warn": 0.045, "signed_warn": 0.045, "crit": 0.15},
                    **dict.fromkeys((*_REWARD_RULES, "G1", "T1", "T2", "T3"), _OFF),
                },
                algorithms=frozenset({Algorithm.EMBODIED}),
            ),
            Profile(
                "distill",
                "Distillation from a teacher: the reward may be constant, and moving away from the start is the aim.",
                {**dict.fromkeys((*_REWARD_RULES, "G1", "X2", "O12"), _OFF)},
                algorithms=frozenset({Algorithm.DISTILL}),
            ),
        )
    }
)
"""Every profile by name."""


def active(identity: Identity, configured: Sequence[str] | None) -> tuple[ActiveProfile, ...]:
    """The profiles that hold for a run.

    Args:
        identity: what the stream turned out to be.
        configured: names that the user gave; None: detect by the run's keys.

    Returns:
        Each with the reason.
    """
    if configured is None:
        return infer(identity)
    return tuple(ActiveProfile(name, CONFIGURED) for name in configured)


def infer(identity: Identity) -> tuple[ActiveProfile, ...]:
    """The profiles detected by a run's algorithm or keys, each with the evidence; pure."""
    found = []
    for profile in PROFILES.values():
        if any(identity.signals.get(name) for name in profile.unless):
            continue
        if identity.algorithm in profile.algorithms:
            found.append(ActiveProfile(profile.name, f"algorithm is {identity.algorithm.display_name}"))
            continue
        key = next((identity.signals[name][0].key for name in profile.metrics if identity.signals.get(name)), "")
        key = key or _key_with(profile.words, identity)
        if key:
            found.append(ActiveProfile(profile.name, f"it logs {key}"))
    return tuple(found)


def sentence(profile: ActiveProfile) -> str:
    """That a profile is active, why, and which rules it changes."""
    name, reason = profile
    because = reason if reason == CONFIGURED else f"because {reason}"
    return f"profile {name}, {because}: changes {', '.join(PROFILES[name].rules)}"


def _key_with(words: tuple[str, ...], identity: Identity) -> str:
    if not words:
        return ""
    part = re.compile(rf"(?:^|[/_.:\-])(?:{'|'.join(words)})(?:[/_.:\-]|$)")
    # The router of requests to the engines is none of experts.
    flow = {one.key for found in identity.signals.values() for one in found if one.metric.section == "pipeline"}
    return next((key for key in identity.keys if part.search(key) and key not in flow), "")
