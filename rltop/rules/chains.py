"""Chains of diagnosis: from a symptom to the metrics that tell its cause, in order.

Owns the order and the question at each link, as data; a rule's own `next`
follows behind its chain. Knows no values: what moved first is read from the run
by whoever shows the chain. The order is that in which causes are most often
found in post-mortems of collapsed runs, cheap questions (a NaN, a changed
learning rate) before those that need thought.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Fact(enum.StrEnum):
    """What is asked of the run itself and not of one metric."""

    NONFINITE = "not a number"
    RESTART = "restart"


class Link(NamedTuple):
    """One thing to look at.

    Attributes:
        metrics: canonical names that answer it, the best first; the first that the run logs is shown.
        question: what looking there tells.
        fact: asked instead of a metric.
    """

    metrics: tuple[str, ...]
    question: str
    fact: Fact | None = None


class Chain(NamedTuple):
    """What to look at for one symptom.

    Attributes:
        name: stable, for `BY_FAMILY` and `BY_RULE`.
        symptom: in words, for the head of the strip.
        links: in order.
    """

    name: str
    symptom: str
    links: tuple[Link, ...]


def _link(metrics: str, question: str) -> Link:
    return Link(tuple(metrics.split()), question)


_NONFINITE = Link((), "the first value that was not a number dates the bad update", Fact.NONFINITE)
_RESTART = Link((), "a run begun anew may have lost optimiser state, weights or data order", Fact.RESTART)
_LR = _link("lr", "a change of the learning rate explains most things that jump together")
_GRADIENT = _link("grad_norm", "a spike just before is the update that did it")
_ENTROPY = _link("entropy", "a drop says collapse, a surge says noise")
_STEP_KL = _link("kl_old ratio_mean", "how far single updates move the policy")
_CLIP = _link("clip_frac clip_frac_high", "updates too large for the trust region")
_REF_KL = _link("kl_ref kl_reward", "how far the policy has left its reference")
_MISMATCH = _link(
    "off_policy_kl rollout_logp_diff_mean rollout_prob_diff_mean is_ratio_mean",
    "sampler and trainer that drift apart make every update off-policy",
)
_STALE = _link("staleness_mean staleness_max", "rollouts of an older policy pull the update elsewhere")
_SYNC = _link("time_weight_sync", "a synchronisation that failed or hung leaves an old sampler")
_LENGTH = _link("response_len_mean terminated_len_mean", "longer or shorter answers change all that is per answer")
_TRUNCATED = _link("truncated_frac", "answers that are cut off score on half a thought")
_REWARD = _link("score_mean reward_mean success_frac", "whether it costs reward")
_PART = _link("reward_component", "one part that rises while another falls is a reward being gamed")
_GROUPS = _link("zero_std_frac zero_std_count", "groups without contrast give no gradient")
_ALL_BAD = _link("all_bad_frac", "prompts that nobody solves teach nothing")
_ALL_GOOD = _link("all_good_frac", "prompts that everybody solves teach nothing more")
_ABORTED = _link("aborted_frac rollout_failures cancelled_frac", "aborted rollouts count as bad answers")
_TOOLS = _link("tool_failure_frac", "failing tools take the reward with them")
_VALIDATION = _link("val_score val_acc", "whether it is real progress")
_LOSS = _link("loss policy_loss", "whether the objective itself jumped")

CHAINS: Mapping[str, Chain] = MappingProxyType(
    {
        chain.name: chain
        for chain in (
            Chain(
                "reward",
                "reward falls",
                (
                    _NONFINITE, _ENTROPY, _CLIP, _STEP_KL, _LR, _MISMATCH, _LENGTH, _TRUNCATED, _SYNC, _RESTART, _PART,
                    _TOOLS, _ABORTED,
                ),
            ),
            Chain(
                "collapse",
                "the policy collapses",
                (
                    _NONFINITE, _LR, _GRADIENT, _MISMATCH, _ENTROPY, _CLIP, _STEP_KL, _REF_KL, _LENGTH, _TRUNCATED,
                    _REWARD, _SYNC, _RESTART, _PART,
                ),
            ),
            Chain(
                "kl",
                "KL or the trust region gives way",
                (_LR, _GRADIENT, _MISMATCH, _STALE, _STEP_KL, _CLIP, _TRUNCATED, _LENGTH, _ENTROPY, _REWARD),
            ),
            Chain(
                "entropy",
                "entropy moves",
                (_LR, _GRADIENT, _MISMATCH, _CLIP, _REF_KL, _REWARD, _GROUPS, _LENGTH, _TRUNCATED),
            ),
            Chain(
                "gradient",
                "gradients grow",
                (_NONFINITE, _LR, _MISMATCH, _STALE, _CLIP, _LOSS, _LENGTH, _TRUNCATED, _ENTROPY, _REWARD),
            ),
            Chain(
                "nonfinite",
                "values are not numbers",
                (_NONFINITE, _GRADIENT, _LR, _REF_KL, _STEP_KL, _LOSS, _TRUNCATED, _RESTART),
            ),
            Chain(
                "eval",
                "validation stalls while reward rises",
                (
                    _REWARD, _LENGTH, _PART, _ALL_GOOD, _GROUPS, _ABORTED, _REF_KL,
                    _link("epoch", "data seen again: learned by heart"), _ENTROPY,
                ),
            ),
            Chain(
                "length",
                "answers change in length",
                (_TRUNCATED, _ENTROPY, _REWARD, _PART, _REF_KL, _VALIDATION, _LR,
                 _link("response_len_max", "whether the cap is what stops them")),
            ),
            Chain(
                "stuck",
                "nothing is learned",
                (_LR, _GRADIENT, _ALL_BAD, _ALL_GOOD, _GROUPS, _REWARD, _REF_KL, _TRUNCATED, _ENTROPY, _VALIDATION),
            ),
            Chain(
                "mismatch",
                "sampler and trainer disagree",
                (_SYNC, _STALE, _RESTART, _GRADIENT, _CLIP, _ENTROPY, _LENGTH, _REWARD),
            ),
            Chain(
                "slow",
                "steps get slower",
                (
                    _link("time_gen", "generation is what usually grows"),
                    _link("time_update_actor time_update_all", "or the update does"),
                    _link("time_old_log_prob time_ref time_forward", "or the passes without gradient"),
                    _link("time_reward", "or whatever scores the answers"),
                    _link("time_per_token_gen", "slower per token, or only more tokens"),
                    _link("total_tokens", "more tokens explain a longer step"),
                    _link("group_len_ratio time_gen_sample_max slowest_response_len", "a few answers hold up all"),
                    _link("slowest_tool time_tool_sample_max", "how much of the slowest rollout waits for tools"),
                    _link("preempted_max preempted_mean", "rollouts evicted from the cache start over"),
                    _link("seqlen_minmax_diff seqlen_balanced_max", "the rank with the most tokens sets the pace"),
                    _link("trainer_idle_frac rollouter_idle_frac", "who waits for whom"),
                    _link("time_weight_sync", "moving weights"),
                    _link("time_save", "a checkpoint inside this step is no slowdown"),
                    _link("time_eval", "nor is a validation"),
                ),
            ),
            Chain(
                "memory",
                "memory runs out",
                (
                    _link("seqlen_max seqlen_balanced_max", "the longest batch of a rank decides the peak"),
                    _link("response_len_max", "a very long answer"),
                    _link("prompt_len_max", "or a very long prompt"),
                    _link("mem_reserved_gb mem_alloc_gb", "what is held at the peak"),
                    _link("preempted_max preempted_mean", "a cache that is full evicts rollouts first"),
                    _link("mem_cpu_gb", "whether the host runs out, and not the device"),
                ),
            ),
            Chain(
                "turns",
                "rollouts of several turns fail",
                (
                    _link("num_turns_mean num_turns_max", "conversations that do not end"),
                    _TOOLS,
                    _link("time_tool_sample_max slowest_tool", "tools that answer late"),
                    _link("prompt_clip_frac truncated_frac", "context that is cut off"),
                    _ABORTED, _LENGTH, _REWARD,
                ),
            ),
            Chain(
                "critic",
                "the critic loses the returns",
                (
                    _link("value_loss", "whether it has lost them for good"),
                    _link("return_mean", "the scale that it has to follow"),
                    _link("value_mean", "whether its level matches them"),
                    _link("lr_critic lr", "a rate too high for it"),
                    _link("grad_norm_critic", "or a gradient that is"),
                    _link("clip_frac_value", "clipped values cannot follow"), _REWARD, _REF_KL, _LENGTH,
                ),
            ),
            Chain(
                "preference",
                "preference training goes wrong",
                (
                    _NONFINITE, _LR, _GRADIENT,
                    _link("logps_chosen dpo_chosen", "likelihood that leaves the chosen answers"),
                    _link("logps_rejected dpo_rejected", "or only pushes the rejected ones down"),
                    _link("dpo_margin", "the one number that is maximised"),
                    _link("dpo_accuracy", "chosen and rejected told apart at all"),
                    _link("val_loss val_acc", "whether it holds on pairs that were not trained on"), _ENTROPY,
                ),
            ),
            Chain(
                "rm",
                "the reward model does not rank",
                (
                    _LR, _GRADIENT, _LOSS, _link("rm_margin", "how far apart the two score"),
                    _link("rm_accuracy", "whether it ranks at all"),
                    _link("val_acc val_loss", "whether it ranks pairs that it has not seen"),
                ),
            ),
        )
    }
)  # fmt: skip
"""Every chain by its name."""

BY_FAMILY: Mapping[str, str] = MappingProxyType(
    {
        "nonfinite": "nonfinite", "liveness": "slow", "gradient": "gradient", "clip": "kl", "ratio": "kl", "kl": "kl",
        "lr": "kl", "loss": "gradient", "entropy": "entropy", "reward": "reward", "validation": "eval",
        "groups": "stuck", "advantage": "stuck", "length": "length", "truncation": "length", "agentic": "turns",
        "mismatch": "mismatch", "offpolicy": "mismatch", "critic": "critic", "preference": "preference", "rm": "rm",
        "performance": "slow", "straggler": "slow", "balance": "slow", "memory": "memory", "collapse": "collapse",
        "embodied": "reward",
    }
)  # fmt: skip
"""Family of the symptom → its chain."""

BY_RULE: Mapping[str, str] = MappingProxyType(
    {"L3": "stuck", "L9": "stuck", "O4": "stuck", "R2": "stuck", "R11": "stuck", "X2": "stuck", "X4": "slow",
     "D3": "preference", "L6": "reward"}
)  # fmt: skip
"""Rules whose symptom is another than that of their family."""


def chain_of(rule: str, family: str) -> Chain | None:
    """The chain of a rule's symptom; None for a family that nobody has written one for.

    Args:
        rule: the rule's id; some have a chain of their own.
        family: its family, whose chain holds else.

    Returns:
        The chain, or None.
    """
    name = BY_RULE.get(rule) or BY_FAMILY.get(family)
    return None if name is None else CHAINS[name]
