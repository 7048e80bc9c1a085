"""slime: three step axes (training, rollouts, evaluations) in one stream.

`train/entropy_loss` is the mean entropy; `rollout/rewards` is normalised, the raw one
beside it is what was earned; the mismatch is an absolute difference of log-probabilities, not a KL.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm
from rltop.structs import replace

_CRITIC = ("train/critic-*", "train/value_loss")
_OWN = (
    "train/train_rollout_logprob_abs_diff",
    "train/lr-pg_0",
    "rollout/raw_reward",
    "perf/longest_sample_tokens_per_sec",
    "perf/actor_train_time",
)


_ALIASES = spellings("""
    reward_mean | rollout/raw_reward
    reward_final | rollout/rewards
    response_len_mean | rollout/response_len/mean | rollout/response_lengths
    response_len_{max,min} | rollout/response_len/{}
    truncated_frac | rollout/truncated_ratio | rollout/truncated
    repetition_frac | rollout/repetition_frac
    zero_std_count | rollout/zero_std/count_*
    adv_mean | rollout/advantages
    prefix_cache_hit | rollout/prefix_cache_hit_rate
    kl_old | train/ppo_kl
    kl_ref | train/kl_loss
    clip_frac | train/pg_clipfrac
    entropy | train/entropy_loss
    policy_loss | train/pg_loss
    loss | train/loss
    {value_loss,grad_norm} | train/{}
    grad_norm_critic | train/critic-grad_norm
    lr | train/lr-pg_*
    lr_critic | train/critic-lr-pg_*
    rollout_logp_diff_mean | train/train_rollout_logprob_abs_diff
    is_ratio_mean | train/tis
    is_clip_frac | train/tis_clipfrac
    time_step | perf/step_time
    time_gen | perf/rollout_time
    time_update_actor | perf/actor_train_time
    time_wait_data | perf/train_wait_time
    time_old_log_prob | perf/log_probs_time
    time_ref | perf/ref_log_probs_time
    time_weight_sync | perf/update_weights_time
    time_prepare | perf/data_preprocess_time
    time_save | perf/save_model_time
    throughput_per_gpu | perf/tokens_per_gpu_per_sec
    throughput | perf/actor_train_tok_per_s
    tflops_train | perf/actor_train_tflops
    val_truncated_frac | eval/%-truncated_ratio
    val_response_len | eval/%/response_len/mean
    val_score | eval/%
    time_request | perf/request/e2e_latency/%
    time_engine_queue | perf/request/queue_time/%
    gen_throughput_sample | perf/decode/throughput/% | perf/longest_sample_tokens_per_sec
    gen_throughput_sample | perf/longest_sample_tokens_per_sec_without_non_generation
    time_prefill | perf/prefill/*_duration/%
    kv_transfer | perf/prefill/transfer_speed_gb_s/% | perf/prefill/transfer_total_mb/%
    retry_count | perf/prefill/retry_count/%
    time_decode | perf/decode/*_duration/%
    discarded_count | rollout/dynamic_filter/drop_*
    spec_accept_rate | rollout/spec_accept_rate
    spec_accept_len | rollout/spec_accept_length
    cached_tokens_mean | rollout/avg_cached_tokens_per_sample
    time_tool_sample_mean | perf/non_generation_time/mean | perf/non_generation_time/median
    time_tool_sample_{max,min} | perf/non_generation_time/{}
    slowest_tool | perf/longest_sample_non_generation_time
    trainer_idle_frac | perf/wait_time_ratio
    weight_sync_density | perf/update_weights_density
    weight_sync_mb ×1e-06 | perf/update_weights_wire_bytes
    rollout_errors | rollout/error_cat/*
""")

DIALECT = Dialect(
    name="slime",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("train/ppo_kl",), weight=37),
        Fingerprint(Algorithm.GRPO, any_of=_OWN, none_of=_CRITIC, weight=36),
    ),
    aliases=_ALIASES,
    # The step is waiting plus training; the single passes lie inside the training time.
    timing=TimingPlan(
        step_keys=("perf/step_time",),
        stages=(
            *stages("perf/{}_time", "train_wait", "train"),
            *stages("perf/{}_time", "data_preprocess", "ref_log_probs", "log_probs", "actor_train", parent="train"),
            *stages("perf/{}_time", "update_weights", "rollout", "save_model", parent="train_wait"),
        ),
    ),
    hidden=("train/step", "rollout/step", "eval/step"),
    training_keys=("train/*",),
    traits=(TraitEvidence("has_critic", _CRITIC), TraitEvidence("kl_is_signed", ("train/ppo_kl",))),
    group_size_keys=("n_samples_per_prompt",),
    gpus=(("actor_num_nodes", "actor_num_gpus_per_node"), ("rollout_num_gpus",)),
)

# -- miles -------------------------------------------------------------------------------------------------------
# A fork that kept slime's keys; it counts the policy versions of its samples and generates beside the training.

_MILES_OWN = (
    *("rollout/weight_version/*", "rollout/fully_async/*", "perf/fully_async/*", "%/perf/queue_length"),
    *("rollout/zero_std/all_zero_percentage", "rollout/tito_session_mismatch_rate/*", "perf/mfu_peak_tflops"),
    *("perf/update_weights_implementation_time", "perf/finalize_and_resume_engines_time"),
)

_MILES_PIPELINE = spellings("""
    queue_size | rollout/fully_async/queue_size | perf/fully_async/queue_length | %/perf/queue_length
    rollout_failures | rollout/fully_async/aborted_groups_filtered
    evicted_samples | rollout/fully_async/stale_groups_filtered | perf/fully_async/stale_dropped | %/perf/stale_dropped
    staleness_mean | rollout/fully_async/avg_staleness
    staleness_max | rollout/fully_async/max_staleness
    staleness_queued_mean | rollout/fully_async/buffer_avg_staleness
    staleness_queued_max | rollout/fully_async/buffer_max_staleness
    staleness_dropped_mean | perf/fully_async/stale_dropped_avg_staleness | %/perf/stale_dropped_avg_staleness
    staleness_dropped_max | perf/fully_async/stale_dropped_max_staleness | %/perf/stale_dropped_max_staleness
    time_wait_data | perf/fully_async/batch_wait_time
    batch_count | perf/fully_async/batch_n_%
    sample_count | perf/fully_async/batch_n_samples
    sample_update | rollout/weight_version/mean | rollout/weight_version/median
    sample_version_{max,min} | rollout/weight_version/{}
    partial_frac | rollout/weight_version/mixed_version_ratio
    token_drift_frac | rollout/tito_session_mismatch_rate/*
    all_bad_frac | rollout/zero_std/all_zero_percentage
    all_good_frac | rollout/zero_std/all_one_percentage
    time_weight_sync_transfer | perf/update_weights_implementation_time
    time_wait_sync | perf/finalize_and_resume_engines_time
    num_turns_mean | agent/turns_mean
    tool_calls_mean | agent/tool_calls_mean
    time_env_step | agent/env_execution_time_avg
    time_infer_step | agent/model_query_time_avg
    time_gen_sample_{mean,max} | agent/total_time_{}
""")

# Versions count weight updates of the process, not steps: a step minus a version is no staleness.
MILES: Dialect = replace(
    DIALECT,
    name="miles",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("train/ppo_kl", "rollout/weight_version/*"), weight=41),
        Fingerprint(Algorithm.GRPO, any_of=_MILES_OWN, none_of=_CRITIC, weight=40),
    ),
    aliases=(*DIALECT.aliases, *spellings("mfu | perf/actor_train_mfu"), *_MILES_PIPELINE),
    staleness_bounds=("max_weight_staleness",),
    traits=(*DIALECT.traits, TraitEvidence("is_async", ("rollout/fully_async/*", "perf/fully_async/*"))),
)
