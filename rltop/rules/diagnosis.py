"""From a verdict to its related metrics in the order to check, each with the reason.

Owns the reasons; the order is the chain's (`chains`), then the rule's own
(`Words.next`), the likeliest cause first. Knows no values.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rltop.model import Verdict
from rltop.rules.chains import Link, chain_of
from rltop.rules.words import words_of
from rltop.structs import NamedTuple


class NextStep(NamedTuple):
    """A metric to check, and what it tells."""

    metric: str
    reason: str


REASONS: Mapping[str, str] = MappingProxyType(
    {
        "aborted_frac": "aborted rollouts have no reward and lower the means",
        "adv_max": "one huge advantage dominates the update",
        "adv_mean": "advantages of mostly one sign are clipped on one side",
        "all_bad_frac": "no correct completion: prompts too hard, or the reward rejects everything",
        "all_good_frac": "only correct completions: prompts have become too easy",
        "clip_frac": "a clip fraction that rose first means updates were too large",
        "clip_frac_high": "clipping only at the upper bound: rare tokens cannot gain",
        "clip_frac_value": "a clipped value function cannot follow the returns",
        "dpo_accuracy": "are chosen and rejected separated at all",
        "dpo_chosen": "do chosen completions gain or lose",
        "dpo_margin": "the quantity DPO maximises",
        "dpo_rejected": "does the margin only come from pushing rejected completions down",
        "entropy": "drop: collapse; surge: noise",
        "explained_var": "does the critic still explain the returns",
        "grad_norm": "a spike or NaN just before dates the bad update",
        "group_len_ratio": "do a few completions per group hold up the rest",
        "is_ess": "how much of the batch counts after correction",
        "is_ratio_max": "do single tokens dominate the update",
        "is_ratio_mean": "how large is the correction on average",
        "is_ratio_std": "do a few tokens dominate the update",
        "kl_old": "how far one batch moved the policy",
        "kl_ref": "drift from the reference policy",
        "logps_chosen": "is the likelihood of chosen completions falling",
        "logps_rejected": "is the likelihood of both completions falling",
        "loss": "did the objective itself jump",
        "lr": "a learning-rate change explains most joint jumps",
        "lr_critic": "is the critic learning rate above 0",
        "mem_alloc_gb": "memory in tensors; the gap to reserved is fragmentation",
        "mem_cpu_gb": "is host memory still rising",
        "mem_reserved_gb": "memory reserved by the allocator",
        "mfu": "do the GPUs compute less, or just wait",
        "num_turns_max": "one episode that does not terminate holds up the batch",
        "num_turns_mean": "more turns: failing tools being retried",
        "off_policy_kl": "a rollout/train mismatch that grew before is the cause",
        "preempted_max": "rollouts evicted from the KV cache start over",
        "prompt_len_max": "prompts set the prefill peak",
        "prompt_len_mean": "longer prompts leave less room for completions",
        "queue_size": "always empty: trainer waits; always full: samplers wait",
        "ratio_mean": "do new and old policy still agree on the samples",
        "response_len_max": "one completion at the cap holds up the batch",
        "response_len_mean": "a length change shifts every per-completion metric",
        "response_len_min": "empty completions have an empty mask",
        "return_mean": "the scale the critic has to fit",
        "reward_component": "one component up, another down: reward hacking",
        "reward_final": "the score after the penalty",
        "reward_max": "does any completion still earn reward",
        "reward_mean": "is reward affected yet",
        "reward_std": "do completions still differ in reward",
        "rm_accuracy": "are chosen and rejected separated at all",
        "rm_margin": "score gap between chosen and rejected",
        "rollout_prob_diff_mean": "do sampler and trainer agree on token probabilities",
        "rollouter_idle_frac": "are the samplers waiting for weights",
        "score_mean": "the score before any penalty",
        "seqlen_balanced_max": "the rank with the most tokens sets the pace",
        "seqlen_mean": "tokens per rank on average",
        "slowest_tool": "tool time within the slowest rollout",
        "staleness_max": "at the limit, stale samples are dropped",
        "staleness_mean": "stale rollouts bias the update",
        "success_frac": "the objective of the run",
        "throughput": "computed from the same step time, so it falls with it",
        "throughput_per_gpu": "computed from the same step time, so it falls with it",
        "time_adv": "seconds here: a computation on the wrong device",
        "time_dump": "slow shared storage shows here first",
        "time_gen": "the most common cause: generation",
        "time_gen_sample_max": "duration of the slowest rollout",
        "time_load_data": "does the step wait for data",
        "time_old_log_prob": "a pass over the whole batch: scales with tokens",
        "time_reward": "a slow judge, sandbox or reward server",
        "time_step": "were earlier steps already slower",
        "time_tool_sample_max": "a value at the timeout means a hung tool",
        "time_update_actor": "does the update wait for one rank",
        "time_weight_sync": "a failed or hung sync leaves the sampler on old weights",
        "token_accuracy": "does the model still predict its training data",
        "tool_call_freq": "are tools still called at all",
        "tool_failure_frac": "failing tools lower the reward",
        "total_tokens": "more tokens explain a longer step",
        "truncated_frac": "truncated completions are scored unfinished",
        "val_acc": "does it hold on held-out pairs",
        "val_aux": "which part of the validation changed",
        "val_loss": "does it hold on held-out data",
        "val_margin": "the margin on held-out pairs",
        "val_score": "is the progress real",
        "value_loss": "does the critic still fit the returns",
        "value_mean": "does the critic's level match the returns",
        "zero_std_frac": "zero-variance groups give no gradient",
    }
)
"""Canonical name → what it tells."""

SPECIFIC: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("groups", "reward_mean"): "at its minimum: prompts too hard; at its maximum: task saturated",
        ("truncation", "reward_mean"): "does truncation cost reward: some runs learn at the cap",
        ("validation", "reward_mean"): "training reward rising meanwhile: reward hacking",
        ("validation", "kl_ref"): "past a KL budget the true reward falls",
        ("performance", "response_len_max"): "are long-tail completions at the cap",
        ("straggler", "time_step"): "what waiting for stragglers costs",
        ("gradient", "response_len_max"): "one very long completion explains a lone spike",
        ("nonfinite", "kl_ref"): "the exponential of an extreme log-ratio overflows first",
        ("liveness", "time_step"): "step time before the stall",
        ("liveness", "reward_mean"): "does reward continue where it left off",
    }
)
"""(Family, canonical name) → the reason where the family of the symptom changes it."""


def reason(family: str, metric: str) -> str:
    """Why to check `metric` for a symptom of `family`; empty when nothing is known.

    Args:
        family: the family of the symptom.
        metric: canonical name of what to check.

    Returns:
        The reason in a few words, or "".
    """
    return SPECIFIC.get((family, metric)) or REASONS.get(metric, "")


def next_steps(verdict: Verdict) -> tuple[NextStep, ...]:
    """The related metrics in the order to check, each with its reason."""
    return tuple(NextStep(metric, reason(verdict.family, metric)) for metric in words_of(verdict.said_by).next)


def links_of(verdict: Verdict) -> tuple[Link, ...]:
    """The chain of a verdict's symptom, then the rule's own related metrics; never the verdict's own metric."""
    chain = chain_of(verdict.said_by, verdict.family)
    links = [link for link in (chain.links if chain is not None else ()) if verdict.metric not in link.metrics]
    asked = {verdict.metric, *(name for link in links for name in link.metrics)}
    own = [name for name in words_of(verdict.said_by).next if name not in asked]
    return (*links, *(Link((name,), reason(verdict.family, name)) for name in own))


def symptom_of(verdict: Verdict) -> str:
    """The symptom in words, as its chain calls it; the verdict's own title where there is no chain."""
    chain = chain_of(verdict.said_by, verdict.family)
    return verdict.title if chain is None else chain.symptom
