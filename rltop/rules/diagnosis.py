"""From a verdict to what to look at next, with the reason for looking there.

Owns the reasons; the order is the chain's (`chains`), then the rule's own
(`RuleSpec.next`), because it follows from what usually causes the symptom. Knows
no values.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from rltop.model import Verdict
from rltop.rules.chains import Link, chain_of


class NextStep(NamedTuple):
    """A metric to look at, and what it would tell."""

    metric: str
    reason: str


REASONS: Mapping[str, str] = MappingProxyType(
    {
        "aborted_frac": "aborted rollouts have no reward and drag the means",
        "adv_max": "single huge advantages push single answers hard",
        "adv_mean": "advantages of mostly one sign are clipped on one side",
        "all_bad_frac": "prompts that nobody solves are too hard, or the reward rejects everything",
        "all_good_frac": "prompts that every answer solves have become too easy",
        "clip_frac": "a clip fraction that rose first says that updates were too large",
        "clip_frac_high": "clipping from above only: rare tokens are pushed up",
        "clip_frac_value": "a clipped value function cannot follow the returns",
        "dpo_accuracy": "whether chosen and rejected are told apart at all",
        "dpo_chosen": "whether the chosen answers gain or lose",
        "dpo_margin": "the one number that DPO maximises",
        "dpo_rejected": "whether the margin only comes from pushing rejected answers down",
        "entropy": "a drop says collapse, a surge says noise",
        "explained_var": "whether the critic still explains the returns",
        "grad_norm": "a spike or NaN just before dates the bad update",
        "group_len_ratio": "whether a few answers per group hold up the rest",
        "is_ess": "how much of the batch still counts after correction",
        "is_ratio_max": "whether single tokens carry the update",
        "is_ratio_mean": "whether the correction carries the training",
        "is_ratio_std": "whether a few tokens dominate the update",
        "kl_old": "how far a single batch moved the policy",
        "kl_ref": "how far the policy has walked from where it started",
        "logps_chosen": "whether likelihood has left the chosen answers",
        "logps_rejected": "whether likelihood has left both answers",
        "loss": "whether the objective itself jumped",
        "lr": "a change of schedule explains most things that jump together",
        "lr_critic": "whether the critic may learn at all",
        "mem_alloc_gb": "what tensors really use: the gap to what is reserved is fragmentation",
        "mem_cpu_gb": "whether the host still climbs",
        "mem_reserved_gb": "how much the allocator holds",
        "mfu": "whether the machines compute less, or only wait",
        "num_turns_max": "a conversation that does not end holds up the batch",
        "num_turns_mean": "more turns mean more calls, and tools that fail are called again",
        "off_policy_kl": "a disagreement of sampler and trainer that grew before is the cause",
        "preempted_max": "rollouts that were evicted from the cache start over",
        "prompt_len_max": "prompts set the peak of the first pass",
        "prompt_len_mean": "longer prompts leave less room for answers",
        "queue_size": "always empty or always full says who waits for whom",
        "ratio_mean": "whether new and old policy still agree on what was sampled",
        "response_len_max": "one answer at the cap is enough to hold up a batch",
        "response_len_mean": "longer or shorter answers change everything measured per answer",
        "response_len_min": "answers of no length have an empty mask",
        "return_mean": "the scale that the critic has to follow",
        "reward_component": "one part that rises while another falls is a reward being gamed",
        "reward_final": "what is left of the score after the penalty",
        "reward_max": "whether any answer still earns something",
        "reward_mean": "whether it cost any reward yet",
        "reward_std": "whether the answers still differ in reward",
        "rm_accuracy": "whether chosen and rejected are told apart at all",
        "rm_margin": "how far apart chosen and rejected score",
        "rollout_prob_diff_mean": "whether sampler and trainer agree on probabilities",
        "rollouter_idle_frac": "whether the samplers wait for weights",
        "score_mean": "the score before any penalty",
        "seqlen_balanced_max": "the rank with the most tokens sets the pace",
        "seqlen_mean": "what a rank gets on average",
        "slowest_tool": "how much of the slowest rollout was waiting for tools",
        "staleness_max": "at the limit, samples are dropped for age",
        "staleness_mean": "rollouts from an older policy pull the update elsewhere",
        "success_frac": "what the run is for",
        "throughput": "computed from the same step time, so it falls with it",
        "time_adv": "seconds here mean that something runs on the wrong device",
        "time_dump": "slow shared storage shows here first",
        "time_gen": "generation is what usually grows",
        "time_gen_sample_max": "how long the slowest rollout took",
        "time_load_data": "whether the step waits for data",
        "time_old_log_prob": "a pass over the whole batch, so it follows the tokens",
        "time_reward": "a slow judge, sandbox or reward server",
        "time_step": "whether the steps before grew already",
        "time_tool_sample_max": "a value at the timeout means that a tool hung",
        "time_update_actor": "whether the update waits for one rank",
        "time_weight_sync": "a synchronisation that failed or hung leaves an old sampler",
        "token_accuracy": "whether the model still predicts its own data",
        "tool_call_freq": "whether the tools are still called at all",
        "tool_failure_frac": "failing tools take the reward with them",
        "total_tokens": "more tokens explain a longer step",
        "truncated_frac": "answers that are cut off score on half a thought",
        "val_acc": "whether it holds on pairs that were not trained on",
        "val_aux": "which part of the validation moved",
        "val_loss": "whether it holds on data that was not trained on",
        "val_margin": "what the margin is worth on pairs that were not trained on",
        "val_score": "whether it is real progress",
        "value_loss": "whether the critic has lost the returns",
        "value_mean": "whether the critic's level matches the returns",
        "zero_std_frac": "groups without contrast give no gradient",
    }
)
"""Canonical name → what looking there would tell."""

SPECIFIC: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("groups", "reward_mean"): "at its floor the prompts are too hard, at its top the task is solved",
        ("truncation", "reward_mean"): "whether being cut off costs reward: some runs learn at the cap",
        ("validation", "reward_mean"): "training reward that rises meanwhile is reward being gamed",
        ("validation", "kl_ref"): "past a budget of KL the true reward falls",
        ("performance", "response_len_max"): "whether the tail is made of answers at the cap",
        ("straggler", "time_step"): "what waiting for the slowest costs",
        ("gradient", "response_len_max"): "a very long answer in the batch explains a lone spike",
        ("nonfinite", "kl_ref"): "the exponential of an extreme log-ratio overflows first",
        ("liveness", "time_step"): "how long steps took before it went silent",
        ("liveness", "reward_mean"): "whether the run goes on where it left off",
    }
)
"""(Family, canonical name) → the reason where the family of the symptom changes it."""


def reason(family: str, metric: str) -> str:
    """Why to look at `metric` for a symptom of `family`; empty when nothing is known.

    Args:
        family: the family of the symptom.
        metric: canonical name of what is to be looked at.

    Returns:
        The reason in a few words, or "".
    """
    return SPECIFIC.get((family, metric)) or REASONS.get(metric, "")


def next_steps(verdict: Verdict) -> tuple[NextStep, ...]:
    """What to look at next, in order, each with its reason."""
    return tuple(NextStep(metric, reason(verdict.family, metric)) for metric in verdict.next)


def links_of(verdict: Verdict) -> tuple[Link, ...]:
    """The chain of a verdict's symptom, then what its rule points at besides; never the metric it speaks of."""
    chain = chain_of(verdict.rule, verdict.family)
    links = [link for link in (chain.links if chain is not None else ()) if verdict.metric not in link.metrics]
    asked = {verdict.metric, *(name for link in links for name in link.metrics)}
    return (*links, *(Link((name,), reason(verdict.family, name)) for name in verdict.next if name not in asked))


def symptom_of(verdict: Verdict) -> str:
    """The symptom in words, as its chain calls it; the verdict's own title where there is no chain."""
    chain = chain_of(verdict.rule, verdict.family)
    return verdict.title if chain is None else chain.symptom
