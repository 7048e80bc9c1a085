"""veRL: PPO and group methods at scale, and the trainers that kept its keys.

Versions differ in which keys they log and in what they mean. Where a meaning changed (truncation, in the trainer that
became the default with 0.9), a variant of the dialect leaves the key out instead of misreading it.
"""

from __future__ import annotations

from functools import partial

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm
from rltop.structs import replace

_TABLES = key_tables(__file__)

_CRITIC = (
    *("critic/values/mean", "critic/value/mean", "critic/vf_loss", "critic/vf_explained_var", "critic/vpred_mean"),
    *("critic/lr(1e-4)", "timing_s/update_critic", "timing/update_critic"),
)
"""Keys that only a trained value function of this trainer logs."""
_CRITIC_ANYWHERE = ("critic/lr", "critic/loss")
"""Critic keys that other loops log, too: they count only together with this trainer's own keys."""
_OWN = ("actor/pg_loss", "actor/ppo_kl", "critic/advantages/mean", "critic/score/mean", "timing_s/step")
_UPDATE = ("actor/pg_loss", "actor/ppo_kl", "actor/grad_norm", "timing_s/update_actor", "critic/advantages/mean")
_V1 = ("training/off_policy/trajectory_staleness/%", "training/off_policy/trajectory_spans/%")


def _fingerprints(weight: int, extra: tuple[str, ...] = ()) -> tuple[Fingerprint, ...]:
    own = ("actor/*", *extra[:1])
    return (
        Fingerprint(Algorithm.DISTILL, all_of=own, any_of=("actor/distillation/loss",), weight=weight + 4),
        Fingerprint(Algorithm.PPO, all_of=own, any_of=_CRITIC, weight=weight + 3),
        *(Fingerprint(Algorithm.PPO, (*own, key), any_of=_OWN, weight=weight + 3) for key in _CRITIC_ANYWHERE),
        Fingerprint(
            Algorithm.DPO, all_of=own, any_of=("actor/rewards_accuracies", "actor/dpo_loss"), weight=weight + 2
        ),
        Fingerprint(Algorithm.GRPO, all_of=own, any_of=_UPDATE, none_of=_CRITIC, weight=weight + 1),
    )


_FINGERPRINTS = (
    *_fingerprints(20),
    Fingerprint(
        Algorithm.SFT,
        any_of=("train/total_tokens(B)", "train/lr(1e-3)", "train/global_tokens"),
        none_of=("actor/*",),
        weight=20,
    ),
    Fingerprint(
        Algorithm.UNKNOWN,
        any_of=(
            *("val-core/*", "val-aux/*", "val/test_score/*", "timing_s/step", "global_seqlen/mean", "fully_async/*"),
            *("perf/total_num_tokens", "perf/mfu/actor", "timing_s/agent_loop/*"),
        ),
        weight=8,
    ),
)


_TRUNCATION = spellings(_TABLES["truncation"])


def _correction(prefixes: str) -> str:
    """The table of keys below `rollout_corr/`; the prefix depends on mode and version."""
    return _TABLES["correction"].replace("{at}", prefixes)


_OTHERS = spellings(
    _TABLES["rollouts"]
    + _correction("{rollout_corr/,actor/rollout_corr/,mismatch/,mismatch/mismatch_}")
    + _TABLES["times"]
)

_AGENT = "timing_s/agent_loop"


_stages = partial(stages, "timing_s/{}", per_token_key="timing_per_token_ms/{}")

_SLOWEST = (
    Stage(f"{_AGENT}/slowest/generate_sequences", name="slowest: generate", parent="gen", lane=1),
    Stage(f"{_AGENT}/slowest/tool_calls", name="slowest: tools", parent="gen", lane=1),
    Stage(f"{_AGENT}/slowest/compute_score", name="slowest: score", parent="gen", lane=1),
    Stage(f"{_AGENT}/generate_sequences/mean", name="mean: generate", parent="gen", lane=2),
    Stage(f"{_AGENT}/tool_calls/mean", name="mean: tools", parent="gen", lane=2),
    Stage(f"{_AGENT}/compute_score/mean", name="mean: score", parent="gen", lane=2),
    Stage("timing_s/generate_sequences", name="inference engine", parent="gen", lane=3),
)
"""Statistics over concurrent rollouts, drawn as lanes of `gen`; they never add up."""

_TIMING = TimingPlan(
    step_keys=("timing_s/step", "perf/time_per_step"),
    stages=(
        *_stages("start_profile", is_outside=True),
        *_stages("wait_for_enough_samples", "switch_to_trainer", "switch_wait"),
        *_stages("generate_async", lane=1),
        *_stages("gen"),
        *_SLOWEST,
        *_stages("gen_max", "reward", "old_log_prob", "ref", "values", "adv", "update_critic", "update_actor"),
        *_stages("save_checkpoint", fits_inside=True),
        *_stages("update_weights", "sync_rollout_weights"),
        Stage("timing_s/timing_s/param_sync", name="param_sync"),
        *_stages("param_sync", "switch_to_rollout", "dump_rollout_generations"),
        *_stages("testing", fits_inside=True),
        *_stages("stop_profile", is_outside=True),
        # The spelling of 2024, without a step time.
        *stages("timing/{}", "gen", "ref", "values", "adv", "update_critic", "update_actor", "testing"),
    ),
    counts=(
        f"{_AGENT}/slowest/prompt_length",
        f"{_AGENT}/slowest/response_length",
        f"{_AGENT}/*num_preempted*",
        "timing_s/generation_timing/topk_ratio",
    ),
    statistics=(f"{_AGENT}/*", "timing_s/generation_timing/*"),
    namespace=("timing_s/",),
)

DIALECT = Dialect(
    name="veRL",
    fingerprints=_FINGERPRINTS,
    aliases=(*spellings(_TABLES["learning"]), *_TRUNCATION, *_OTHERS),
    timing=_TIMING,
    hidden=("training/global_step", "training/epoch", "fully_async/count/current_param_version"),
    training_keys=("actor/*", "critic/*", "timing_s/step", "train/loss", "timing/update_actor"),
    traits=(
        TraitEvidence("has_critic", (*_CRITIC, *_CRITIC_ANYWHERE)),
        TraitEvidence("is_async", ("fully_async/*", "training/separate_async/*", "separate_async/*")),
        TraitEvidence(
            "is_async", ("timing_s/generate_async", "training/off_policy/evicted_samples", "dynamic_resource/*")
        ),
        TraitEvidence("kl_is_signed", ("actor/ppo_kl",)),
    ),
    group_size_keys=("rollout/n", "actor_rollout_ref/rollout/n", "training/rollout_n"),
    gpus=(("trainer.nnodes", "trainer.n_gpus_per_node"), ("rollout.nnodes", "rollout.n_gpus_per_node")),
    advantage_keys=("critic/advantages/max", "critic/advantages/min"),
)

_PADDED = (
    "Share of completions as long as the longest of their batch, to which this trainer pads: at least one "
    "in every batch; it says nothing about truncation."
)
_PADDED_PROMPTS = (
    "Share of prompts as long as the longest of their batch, to which this trainer pads; "
    "it says nothing about truncation."
)
PADDED = (
    ("response_length/clip_ratio", _PADDED),
    ("response_length_non_aborted/clip_ratio", _PADDED),
    ("prompt_length/clip_ratio", _PADDED_PROMPTS),
)
"""The meaning of length clip ratios when batches are padded to their longest member."""

V1 = replace(
    DIALECT,
    variant="trainer since 0.9",
    staleness_bounds=("max_off_policy_threshold",),
    misleading=PADDED,
    fingerprints=tuple(fp for pattern in _V1 for fp in _fingerprints(30, (pattern,))),
    aliases=tuple(alias for alias in DIALECT.aliases if alias not in _TRUNCATION),
)
"""The default trainer since 0.9. It pads to the longest completion of the batch, so the
logged clip ratio counts at least one completion in every batch and does not show
truncation."""


# -- EasyR1 ------------------------------------------------------------------------------------------------------
# veRL for vision-language models, with its own outer loop and metric file. Completions are padded to the configured
# length, so the clip ratio of lengths does show truncation; `reward/…` are the outputs of a reward function, `overall`
# being the reward; `pg_clipfrac_higher` counts tokens clipped by the ordinary bound on either side.

_EASYR1_OWN = (
    "val/reward_score",
    "actor/pg_clipfrac_higher",
    "perf/mfu_actor",
    "timing_s/old",
    "val_response_length/mean",
)
_EASYR1_CRITIC = (*_CRITIC, "perf/mfu_critic")


_EASYR1_NEVER = (
    *("actor/dist", "actor/perf/", "actor/rewards_", "actor/rollout_corr/", "fully_async/", "gdpo/", "mfu/"),
    *("mismatch/", "num_turns/", "perf/mfu/", "response/", "response_length_non_aborted/", "rollout/", "rollout_corr/"),
    *("rollouter/", "timing/", "timing_s/agent", "timing_per_token/", "tool_call", "train/", "training/", "val-"),
    *("reward/", "val/", "*/group", "group"),
)
"""Prefixes of veRL keys that this trainer never logs, or logs with another meaning."""


EASYR1: Dialect = replace(
    DIALECT,
    name="EasyR1",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("actor/*", "perf/mfu_critic"), any_of=_EASYR1_OWN, weight=39),
        Fingerprint(Algorithm.GRPO, all_of=("actor/*",), any_of=_EASYR1_OWN, none_of=_EASYR1_CRITIC, weight=38),
    ),
    aliases=(
        *spellings(_TABLES["EasyR1"]),
        *(alias for alias in DIALECT.aliases if not alias.pattern.startswith(_EASYR1_NEVER)),
    ),
    timing=replace(_TIMING, stages=(*_TIMING.stages, *_stages("old"), *_stages("validation", fits_inside=True))),
)


# -- rLLM --------------------------------------------------------------------------------------------------------
# Agents on veRL or on tinker; its own keys for groups, advantages and episodes next to those of the backend. They
# contain the role of an agent (`reward/solver/mean`), which is `default` or its class in a single-agent run. On tinker,
# `kl_sample_train_v1` is a mean absolute difference of log-probabilities, and `v2` half its square.

_RLLM_OWN = (
    "batch/solve_partial",
    "rejection_sample/solve_partial",
    "batch/%/fractions/effective",
    "advantage/%/fraction_zero",
    "groups/num_trajs_*_filter",
)
_RLLM_STAGES = (
    *stages("time/{}", "buffer_wait", "forward_backward", "optim_step"),
    Stage("time/fused_forward_backward_and_optim_step", name="forward_backward_optim"),
    *stages("time/{}", "weight_sync", "save_checkpoint", fits_inside=True),
    *stages("time/{}", "testing", is_outside=True),
    *stages("timing_s/{}", "old_log_probs", "rollout_correction"),
    *stages("timing_s/{}", "weight_sync", fits_inside=True),
)

RLLM: Dialect = replace(
    DIALECT,
    name="rLLM",
    fingerprints=(
        *(Fingerprint(Algorithm.PPO, all_of=(own,), any_of=_CRITIC, weight=49) for own in _RLLM_OWN),
        Fingerprint(Algorithm.GRPO, any_of=_RLLM_OWN, none_of=_CRITIC, weight=48),
    ),
    aliases=(
        *spellings(_TABLES["rLLM"] + _correction("rollout_correction/") + _correction("offpolicy/")),
        *(alias for alias in DIALECT.aliases if not alias.pattern.startswith("reward/")),
        *spellings(_TABLES["rLLM instead"]),
    ),
    timing=replace(
        _TIMING,
        step_keys=(*_TIMING.step_keys, "time/step"),
        stages=(*_TIMING.stages, *_RLLM_STAGES),
        statistics=(*_TIMING.statistics, "episode/time/*"),
        namespace=(*_TIMING.namespace, "time/"),
    ),
    hidden=(
        *DIALECT.hidden,
        *("batch/num_tasks", "batch/%/total", "batch/%/informative", "batch/groups_*", "groups/num_groups"),
        *("groups/num_trajs_before_filter", "groups/%_group_size", "async/buffer_consumed", "async/buffer_filtered"),
        *("async/groups_consumed", "async/quota_used", "async/max_rollout_quota", "async/total_syncs"),
        *("async/dispatched_since_sync", "async/steps_since_sync"),
    ),
    group_size_keys=(*DIALECT.group_size_keys, "groups/avg_group_size"),
    training_keys=(*DIALECT.training_keys, "advantage/*", "progress/lr"),
    traits=(*DIALECT.traits, TraitEvidence("is_async", ("async/*",))),
)
