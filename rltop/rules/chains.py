"""Chains of diagnosis: from a symptom to the related metrics, in the order to check.

Owns the order and the reason at each link, as data; a rule's own `next` is
appended to its chain. Knows no values: what moved first is read from the run by
the page that shows the chain. The order is that in which causes are most often
found in post-mortems of collapsed runs, cheap checks (a NaN, a changed learning
rate) before expensive ones.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType

from rltop.structs import NamedTuple


class Fact(enum.StrEnum):
    """What is checked on the run itself and not in one metric."""

    NONFINITE = "NaN/Inf"
    RESTART = "restart"


class Link(NamedTuple):
    """One thing to check.

    Attributes:
        metrics: canonical names, the best first; the first that the run logs is shown.
        question: what it tells.
        fact: checked instead of a metric.
    """

    metrics: tuple[str, ...]
    question: str
    fact: Fact | None = None


class Chain(NamedTuple):
    """What to check for one symptom.

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


_NONFINITE = Link((), "the first NaN or Inf dates the bad update", Fact.NONFINITE)
_RESTART = Link((), "a restart may have lost optimiser state, weights or data order", Fact.RESTART)
_LR = _link("lr", "a learning-rate change explains most joint jumps")
_GRADIENT = _link("grad_norm", "a spike just before marks the bad update")
_ENTROPY = _link("entropy", "drop: collapse; surge: noise")
_STEP_KL = _link("kl_old ratio_mean", "policy change per update")
_CLIP = _link("clip_frac clip_frac_high", "updates exceeding the trust region")
_REF_KL = _link("kl_ref kl_reward", "drift from the reference policy")
_MISMATCH = _link(
    "off_policy_kl rollout_logp_diff_mean rollout_prob_diff_mean is_ratio_mean",
    "a rollout/train mismatch makes every update off-policy",
)
_STALE = _link("staleness_mean staleness_max", "stale rollouts bias the update")
_SYNC = _link("time_weight_sync", "a failed or hung sync leaves the sampler on old weights")
_LENGTH = _link("response_len_mean terminated_len_mean", "a length change shifts every per-completion metric")
_TRUNCATED = _link("truncated_frac", "truncated completions are scored unfinished")
_REWARD = _link("score_mean reward_mean success_frac", "is reward affected")
_PART = _link("reward_component", "one component up, another down: reward hacking")
_GROUPS = _link("zero_std_frac zero_std_count", "zero-variance groups give no gradient")
_ALL_BAD = _link("all_bad_frac", "prompts with no correct completion give no gradient")
_ALL_GOOD = _link("all_good_frac", "prompts with only correct completions give no gradient")
_ABORTED = _link("aborted_frac rollout_failures cancelled_frac", "aborted rollouts count as failures")
_TOOLS = _link("tool_failure_frac", "failing tools lower the reward")
_VALIDATION = _link("val_score val_acc", "is the progress real")
_LOSS = _link("loss policy_loss", "did the objective itself jump")

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
                "KL is too large",
                (_LR, _GRADIENT, _MISMATCH, _STALE, _STEP_KL, _CLIP, _TRUNCATED, _LENGTH, _ENTROPY, _REWARD),
            ),
            Chain(
                "entropy",
                "entropy changes",
                (_LR, _GRADIENT, _MISMATCH, _CLIP, _REF_KL, _REWARD, _GROUPS, _LENGTH, _TRUNCATED),
            ),
            Chain(
                "gradient",
                "gradients grow",
                (_NONFINITE, _LR, _MISMATCH, _STALE, _CLIP, _LOSS, _LENGTH, _TRUNCATED, _ENTROPY, _REWARD),
            ),
            Chain(
                "nonfinite",
                "NaN or Inf appears",
                (_NONFINITE, _GRADIENT, _LR, _REF_KL, _STEP_KL, _LOSS, _TRUNCATED, _RESTART),
            ),
            Chain(
                "eval",
                "validation stalls while reward rises",
                (
                    _REWARD, _LENGTH, _PART, _ALL_GOOD, _GROUPS, _ABORTED, _REF_KL,
                    _link("epoch", "repeated data: memorisation"), _ENTROPY,
                ),
            ),
            Chain(
                "length",
                "completion length changes",
                (_TRUNCATED, _ENTROPY, _REWARD, _PART, _REF_KL, _VALIDATION, _LR,
                 _link("response_len_max", "are completions hitting the length cap")),
            ),
            Chain(
                "stuck",
                "the policy stops learning",
                (_LR, _GRADIENT, _ALL_BAD, _ALL_GOOD, _GROUPS, _REWARD, _REF_KL, _TRUNCATED, _ENTROPY, _VALIDATION),
            ),
            Chain(
                "mismatch",
                "rollout/train mismatch grows",
                (_SYNC, _STALE, _RESTART, _GRADIENT, _CLIP, _ENTROPY, _LENGTH, _REWARD),
            ),
            Chain(
                "slow",
                "steps get slower",
                (
                    _link("time_gen", "the most common cause: generation"),
                    _link("time_update_actor time_update_all", "or the update"),
                    _link("time_old_log_prob time_ref time_forward", "or the forward-only passes"),
                    _link("time_reward", "or reward computation"),
                    _link("time_per_token_gen", "slower per token, or just more tokens"),
                    _link("total_tokens", "more tokens explain a longer step"),
                    _link("group_len_ratio time_gen_sample_max slowest_response_len", "stragglers hold up the batch"),
                    _link("slowest_tool time_tool_sample_max", "tool time within the slowest rollout"),
                    _link("preempted_max preempted_mean", "rollouts evicted from the KV cache start over"),
                    _link("seqlen_minmax_diff seqlen_balanced_max", "the rank with the most tokens sets the pace"),
                    _link("trainer_idle_frac rollouter_idle_frac", "is the trainer idle, or the samplers"),
                    _link("time_weight_sync", "time to sync weights"),
                    _link("time_save", "a checkpoint in this step is not a slowdown"),
                    _link("time_eval", "neither is a validation"),
                ),
            ),
            Chain(
                "memory",
                "memory runs out",
                (
                    _link("seqlen_max seqlen_balanced_max", "the longest batch on a rank sets the peak"),
                    _link("response_len_max", "a very long completion"),
                    _link("prompt_len_max", "or a very long prompt"),
                    _link("mem_reserved_gb mem_alloc_gb", "memory held at the peak"),
                    _link("preempted_max preempted_mean", "a full KV cache evicts rollouts first"),
                    _link("mem_cpu_gb", "is it host memory rather than GPU memory"),
                ),
            ),
            Chain(
                "turns",
                "multi-turn rollouts fail",
                (
                    _link("num_turns_mean num_turns_max", "episodes that do not terminate"),
                    _TOOLS,
                    _link("time_tool_sample_max slowest_tool", "slow tool calls"),
                    _link("prompt_clip_frac truncated_frac", "truncated context"),
                    _ABORTED, _LENGTH, _REWARD,
                ),
            ),
            Chain(
                "critic",
                "the critic no longer fits the returns",
                (
                    _link("value_loss", "is the fit lost for good"),
                    _link("return_mean", "the scale the critic has to fit"),
                    _link("value_mean", "does its level match the returns"),
                    _link("lr_critic lr", "critic learning rate too high"),
                    _link("grad_norm_critic", "or its gradient too large"),
                    _link("clip_frac_value", "clipped values cannot follow the returns"), _REWARD, _REF_KL, _LENGTH,
                ),
            ),
            Chain(
                "preference",
                "preference training fails",
                (
                    _NONFINITE, _LR, _GRADIENT,
                    _link("logps_chosen dpo_chosen", "falling likelihood of chosen completions"),
                    _link("logps_rejected dpo_rejected", "or only the rejected ones pushed down"),
                    _link("dpo_margin", "the quantity being maximised"),
                    _link("dpo_accuracy", "are chosen and rejected separated at all"),
                    _link("val_loss val_acc", "does it hold on held-out pairs"), _ENTROPY,
                ),
            ),
            Chain(
                "rm",
                "the reward model does not rank",
                (
                    _LR, _GRADIENT, _LOSS, _link("rm_margin", "score gap between chosen and rejected"),
                    _link("rm_accuracy", "does it rank at all"),
                    _link("val_acc val_loss", "does it rank held-out pairs"),
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
        "embodied": "reward", "guessed": "reward",
    }
)  # fmt: skip
"""Family of the symptom → its chain."""

BY_RULE: Mapping[str, str] = MappingProxyType(
    {"L3": "stuck", "L9": "stuck", "O4": "stuck", "R2": "stuck", "R11": "stuck", "X2": "stuck", "X4": "slow",
     "D3": "preference", "L6": "reward"}
)  # fmt: skip
"""Rules whose symptom differs from that of their family."""


def chain_of(rule: str, family: str) -> Chain | None:
    """The chain of a rule's symptom; None for a family without one.

    Args:
        rule: the rule's id; some have their own chain.
        family: its family, whose chain is used otherwise.

    Returns:
        The chain, or None.
    """
    name = BY_RULE.get(rule) or BY_FAMILY.get(family)
    return None if name is None else CHAINS[name]
