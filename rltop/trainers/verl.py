"""veRL: PPO and group methods at scale, and the trainers that kept its keys.

Versions differ in what they log and in what a key means; where the meaning of one key changes (truncation in the
trainer that became the default with 0.9), a variant of the dialect leaves it out instead of reading it wrongly.
"""

from __future__ import annotations

from functools import partial

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm
from rltop.structs import replace

_CRITIC = (
    *("critic/values/mean", "critic/value/mean", "critic/vf_loss", "critic/vf_explained_var", "critic/vpred_mean"),
    *("critic/lr(1e-4)", "timing_s/update_critic", "timing/update_critic"),
)
"""Keys that only a trained value function of this trainer leaves."""
_CRITIC_ANYWHERE = ("critic/lr", "critic/loss")
"""Keys of a critic that loops of other kinds have too: they count beside keys of this trainer's own."""
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


_LEARNING = spellings("""
    reward_mean | critic/score/mean | critic/rewards/mean | actor/rewards_mean
    score_mean | critic/score/mean
    reward_final | critic/rewards/mean
    reward_{max,min} | critic/score/{} | critic/rewards/{}
    adv_{mean,max,min,std} | critic/advantages/{}
    return_mean | critic/returns/mean
    success_frac | critic/success_rate/mean
    reward_component | gdpo/%/mean | reward/%/mean
    reward_component_std | gdpo/%/std | reward/%/std
    reward_component_{max,min} | reward/%/{}
    val_score | val-core/*/acc/mean@* | val-core/*/reward/mean@* | val-core/*/mean@* | val/test_score/*
    val_best | val-core/*/best@*/mean
    val_turns_{mean,max,min} | val-aux/num_turns/{}
    val_reward | val-aux/*/reward/mean@*
    val_{best,worst} | val-aux/*/{}@*/mean
    val_std | val-core/*/std@* | val-aux/*/std@*
    val_aux | val-aux/* | val-core/*
    val_loss | val/loss
    # Of reward functions and validations of one's own.
    sample_metric | reward/*
    val_aux | val/*
    loss | actor/loss | train/loss
    policy_loss | actor/pg_loss
    grad_norm | actor/grad_norm | train/grad_norm
    lr | actor/lr | train/lr
    lr ×0.0001 | actor/lr(1e-4)
    lr ×0.001 | train/lr(1e-3)
    lr_scheduler | lr_scheduler/*
    entropy | actor/entropy | actor/entropy_loss
    clip_frac | actor/pg_clipfrac
    clip_frac_lower | actor/pg_clipfrac_lower
    kl_old | actor/ppo_kl | actor/approx_kl
    kl_ref | actor/kl_loss | actor/reward_kl_penalty | critic/kl
    kl_coef | actor/kl_coef | actor/reward_kl_penalty_coeff | critic/kl_coeff
    distill_loss | actor/distillation/loss
    moe_max_vio | rollout/moe/max_vio/max
    value_loss | critic/vf_loss | critic/loss
    value_mean | critic/values/mean | critic/value/mean | critic/vpred_mean
    explained_var | critic/vf_explained_var
    clip_frac_value | critic/vf_clipfrac
    grad_norm_critic | critic/grad_norm
    lr_critic | critic/lr
    lr_critic ×0.0001 | critic/lr(1e-4)
    dpo_accuracy | actor/rewards_accuracies
    dpo_margin | actor/rewards_margins
""")

_TRUNCATION = spellings("""
    truncated_frac | response_length_non_aborted/clip_ratio | response_length/clip_ratio
    prompt_clip_frac | prompt_length/clip_ratio
""")

_CORRECTION = """
    off_policy_kl | {at}k3_kl | {at}kl
    is_ratio_{mean,min,max,std} | {at}rollout_is_{}
    is_ess | {at}rollout_is_eff_sample_size
    is_chi2 | {at}chi2_token
    ppl_ratio | {at}ppl_ratio
    rollout_masked_frac | {at}rollout_rs_masked_fraction
    rollout_masked_seq_frac | {at}rollout_rs_seq_masked_fraction
"""
"""What stands below `rollout_corr/`; the prefix depends on mode and version."""


def _correction(prefixes: str) -> str:
    return _CORRECTION.replace("{at}", prefixes)


_OTHERS = spellings(
    """
    response_len_{mean,max,min} | response_length_non_aborted/{} | response_length/{}
    aborted_frac | response/aborted_ratio
    prompt_len_{mean,max,min} | prompt_length/{}
    num_turns_{mean,max,min} | num_turns/{} | training/num_turns/{}
    tool_calls_mean | tool_call_counts/mean
    group_len_ratio borrowed | group_length_max_median_ratio_mean | group_length_max_median_ratio
    group_len_ratio borrowed | */group_length_max_median_ratio_mean | */group_length_max_median_ratio
    group_len_gini borrowed | group_length_gini_mean | */group_length_gini_mean
    zero_std_count | training/filter_groups/evicted_samples
    evicted_samples | training/off_policy/evicted_samples
    rollout_failures | training/rollout_failure/evicted_samples
"""
    + _correction("{rollout_corr/,actor/rollout_corr/,mismatch/,mismatch/mismatch_}")
    + """
    rollout_prob_diff_{mean,max,std} | training/rollout_probs_diff_{}
    rollout_prob_corr | training/rollout_actor_probs_pearson_corr
    staleness_{mean,max} | training/off_policy/trajectory_staleness/{}
    staleness_worst_max | training/off_policy/trajectory_staleness_worst/max
    traj_span_mean | training/off_policy/trajectory_spans/mean
    stale_count | fully_async/count/stale_trajectory_processed
    dropped_stale | fully_async/count/dropped_stale_samples
    {trainer,rollouter}_idle_frac | fully_async/{}/idle_ratio
    param_version | fully_async/count/current_param_version
    queue_size | fully_async/monitor/queue/mq_queue_size
    partial_frac | fully_async/partial/partial_ratio
    seqlen_{min,max,mean} | global_seqlen/{}
    seqlen_minmax_diff | global_seqlen/minmax_diff
    seqlen_balanced_{min,max} | global_seqlen/balanced_{}
    time_step | timing_s/step | perf/time_per_step | train/time(s)
    time_gen | timing_s/gen | timing_s/generate_async | timing/gen
    time_reward | timing_s/reward
    time_{old_log_prob,ref,values,adv,update_critic,update_actor} | timing_s/{} | timing/{}
    time_weight_sync | timing_s/update_weights | timing_s/sync_rollout_weights | timing_s/timing_s/param_sync
    time_weight_sync | timing_s/param_sync
    time_save | timing_s/save_checkpoint
    time_eval | timing_s/testing | timing/testing | rollouter/validate_time
    time_dump | timing_s/dump_rollout_generations
    time_switch | timing_s/switch_to_trainer | timing_s/switch_to_rollout
    time_wait_data | timing_s/switch_wait | timing_s/wait_for_enough_samples | fully_async/total_wait_time
    time_gen_sample_mean | timing_s/agent_loop/generate_sequences/mean
    time_gen_sample_max | timing_s/agent_loop/generate_sequences/max | timing_s/generation_timing/max
    time_gen_sample_min | timing_s/agent_loop/generate_sequences/min
    time_tool_sample_{mean,min,max} | timing_s/agent_loop/tool_calls/{}
    slowest_gen | timing_s/agent_loop/slowest/generate_sequences
    slowest_tool | timing_s/agent_loop/slowest/tool_calls
    slowest_score | timing_s/agent_loop/slowest/compute_score
    slowest_{response,prompt}_len | timing_s/agent_loop/slowest/{}_length
    preempted_{max,mean} | timing_s/agent_loop/num_preempted/{}
    time_per_token_{gen,ref,values,adv,update_critic,update_actor} | timing_per_token_ms/{} | timing_per_token/{}
    throughput_per_gpu | perf/throughput
    total_tokens | perf/total_num_tokens
    mfu | perf/mfu/actor | mfu/actor | train/mfu
    mfu_infer | perf/mfu/actor_infer
    mfu_critic | perf/mfu/critic | mfu/critic
    spec_accept_rate | rollout/spec_accept_rate
    mem_alloc_gb | perf/max_memory_allocated_gb | actor/perf/max_memory_allocated_gb
    mem_reserved_gb | perf/max_memory_reserved_gb | actor/perf/max_memory_reserved_gb
    mem_cpu_gb | perf/cpu_memory_used_gb | actor/perf/cpu_memory_used_gb
    epoch | training/epoch
    # Of what generates while it trains: the fully asynchronous trainer, and V1 with separate engines.
    staleness_min | training/off_policy/trajectory_staleness/min
    traj_span_max | training/off_policy/trajectory_spans/max | fully_async/partial/max_partial_span
    staleness_dropped_{mean,max} | training/off_policy/evicted_samples_staleness/{}
    dropped_surplus | training/filter_groups/discarded_surplus_samples
    queue_missing | separate_async/switch/wait_samples | separate_async/decision/remaining
    mode_flag | separate_async/switch/idle | separate_async/decision/should_switch_to_rollout
    queue_size | separate_async/decision/sampleable_count | dynamic_resource/mq_size
    time_wait_sample | separate_async/decision/per_sample_time_seconds
    time_switch | separate_async/decision/effective_switch_cost_seconds
    inflight_count | fully_async/monitor/active_tasks_size
    gen_queue_size | fully_async/monitor/queue/pending_queue_size
    queue_limit | fully_async/static/max_queue_size
    inflight_limit | fully_async/static/max_concurrent_samples
    staleness_share_limit | fully_async/static/staleness_threshold
    time_gen_sample_mean | fully_async/processing_time/avg
    time_gen_sample_{max,min} | fully_async/processing_time/{}
    time_gen_sample_high | fully_async/processing_time/tp%
    partial_count | fully_async/partial/total_partial_num
    time_gen_active | fully_async/rollouter/active_time
    time_version | fully_async/rollouter/version_time
    generated_count | fully_async/rollouter/step_generated_samples
    stale_held | fully_async/count/staleness_samples
    stale_held_limit | fully_async/static/max_required_samples
    time_trainer_active | dynamic_resource/train_compute_time_s
    time_trainer_held | dynamic_resource/train_allocated_time_s
    trainer_idle_frac ×-1 +1 | dynamic_resource/train_resource_utilization
    rollouter_idle_frac ×-1 +1 | dynamic_resource/rollout_resource_utilization
    gpu_busy_frac | dynamic_resource/resource_utilization
    spec_accept_len | rollout/spec_accept_length
"""
)

_AGENT = "timing_s/agent_loop"


_stages = partial(stages, "timing_s/{}", per_token_key="timing_per_token_ms/{}")

_SLOWEST = (
    Stage(f"{_AGENT}/slowest/generate_sequences", name="slowest rollout: generate", parent="gen", lane=1),
    Stage(f"{_AGENT}/slowest/tool_calls", name="slowest rollout: tools", parent="gen", lane=1),
    Stage(f"{_AGENT}/slowest/compute_score", name="slowest rollout: score", parent="gen", lane=1),
    Stage(f"{_AGENT}/generate_sequences/mean", name="mean rollout: generate", parent="gen", lane=2),
    Stage(f"{_AGENT}/tool_calls/mean", name="mean rollout: tools", parent="gen", lane=2),
    Stage(f"{_AGENT}/compute_score/mean", name="mean rollout: score", parent="gen", lane=2),
    Stage("timing_s/generate_sequences", name="inference engine", parent="gen", lane=3),
)
"""Statistics over rollouts, shown beside `gen`: they run at the same time and never stack."""

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
        # As spelled in 2024, without a time of the step.
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
    aliases=(*_LEARNING, *_TRUNCATION, *_OTHERS),
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
"""What a clip ratio of lengths is where batches are padded to their longest member."""

V1 = replace(
    DIALECT,
    variant="trainer since 0.9",
    staleness_bounds=("max_off_policy_threshold",),
    misleading=PADDED,
    fingerprints=tuple(fp for pattern in _V1 for fp in _fingerprints(30, (pattern,))),
    aliases=tuple(alias for alias in DIALECT.aliases if alias not in _TRUNCATION),
)
"""The trainer that is the default since 0.9: it pads to the longest completion of the
batch, so the logged clip ratio is at least one completion in every batch and says nothing
about truncation."""


# -- EasyR1 ------------------------------------------------------------------------------------------------------
# veRL for vision-language models, with an outer loop and a metric file of its own. Completions are padded to the
# length that is set, so the clip ratio of lengths is truncation; `reward/…` are what a reward function returns, of
# which `overall` is the reward; `pg_clipfrac_higher` counts tokens that the ordinary bound clips, on either side.

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
"""Beginnings of veRL's keys that this trainer never logs, or means otherwise."""


EASYR1: Dialect = replace(
    DIALECT,
    name="EasyR1",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("actor/*", "perf/mfu_critic"), any_of=_EASYR1_OWN, weight=39),
        Fingerprint(Algorithm.GRPO, all_of=("actor/*",), any_of=_EASYR1_OWN, none_of=_EASYR1_CRITIC, weight=38),
    ),
    aliases=(
        *spellings("""
            val_score | val/reward_score
            val_reward | val/overall_reward
            val_aux | val/*_reward
            val_response_len | val_response_length/mean
            val_truncated_frac | val_response_length/clip_ratio
            score_mean | reward/overall
            reward_component | reward/%
            clip_frac | actor/pg_clipfrac_higher
            kl_ref | actor/kl_penalty
            mfu | perf/mfu_actor
            mfu_critic | perf/mfu_critic
            time_old_log_prob | timing_s/old
            time_eval | timing_s/validation
        """),
        *(alias for alias in DIALECT.aliases if not alias.pattern.startswith(_EASYR1_NEVER)),
    ),
    timing=replace(_TIMING, stages=(*_TIMING.stages, *_stages("old"), *_stages("validation", fits_inside=True))),
)


# -- rLLM --------------------------------------------------------------------------------------------------------
# Agents on veRL or on tinker; keys of its own for groups, advantages and episodes beside those of the backend. They
# name the role of an agent (`reward/solver/mean`); a run with one calls it `default` or by its class. On tinker,
# `kl_sample_train_v1` is a mean absolute difference of log-probabilities, and `v2` half its square.

_RLLM_OWN = (
    "batch/solve_partial",
    "rejection_sample/solve_partial",
    "batch/%/fractions/effective",
    "advantage/%/fraction_zero",
    "groups/num_trajs_*_filter",
)
_RLLM_ALIASES = spellings(
    """
    reward_{mean,std,max,min} | reward/%/{}
    adv_{mean,std,max,min} | advantage/%/{}
    success_frac | episode/correct
    zero_std_frac ×-1 +1 | batch/%/fractions/effective
    # Of completions rather than groups: where groups have one size it is the same share.
    zero_std_frac | advantage/%/fraction_zero
    all_good_frac | batch/%/fractions/too_easy | batch/solve_all
    all_bad_frac | batch/%/fractions/too_hard | batch/solve_none
    mixed_group_frac | batch/solve_partial
    all_good_count | rejection_sample/solve_all
    all_bad_count | rejection_sample/solve_none
    mixed_group_count | rejection_sample/solve_partial
    zero_std_count | groups/dropped_zero_adv
    sample_count | groups/num_trajs_after_filter
    truncated_frac | {batch/termination_reason,episode/termination_reason,batch}/max_response_length_exceeded
    aborted_frac | {batch/termination_reason,episode/termination_reason,batch}/error
    sample_metric | {batch,episode}/termination_reason/%
    num_turns_{mean,max,min} | batch/steps_per_traj/{}
    num_turns_mean | episode/num_turns
    reward_std | batch/%/group_reward_std/p50
    sample_metric | batch/%/group_reward_mean/% | batch/%/group_reward_std/%
    val_score | val/*/pass@1
    val_passk | val/*/pass@*
    val_reward | val/reward/%/mean
    off_policy_kl | train/kl_sample_train_v2
    rollout_logp_diff_mean | train/kl_sample_train_v1
    entropy | train/entropy
    lr | progress/lr
    progress | progress/done_frac
    staleness_{mean,max} | async/staleness_{}
    queue_size | async/buffer_qsize
    param_version | async/weight_version
    trainer_idle_frac | async/trainer_idle_ratio
    time_step | time/step
    time_wait_data | time/buffer_wait
    time_weight_sync | time/weight_sync | timing_s/weight_sync
    time_update_actor | time/forward_backward | time/fused_forward_backward_and_optim_step
    time_save | time/save_checkpoint
    time_eval | time/testing
    time_old_log_prob | timing_s/old_log_probs
    time_gen_sample_mean | episode/time/rollout_s
"""
    + _correction("rollout_correction/")
    + _correction("offpolicy/")
)

# What veRL logs too, and what only stands in for it.
_RLLM_INSTEAD = spellings("""
    response_len_{mean,max,min} | batch/step_response_length/{}
    {response,prompt}_len_mean | episode/{}_tokens
""")

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
        *_RLLM_ALIASES,
        *(alias for alias in DIALECT.aliases if not alias.pattern.startswith("reward/")),
        *_RLLM_INSTEAD,
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
