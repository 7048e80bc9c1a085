"""slime: three step axes (training, rollouts, evaluations) in one stream.

`train/entropy_loss` is the mean entropy; `rollout/rewards` is normalised, the raw one
beside it is what was earned; the mismatch is an absolute difference of log-probabilities, not a KL.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
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


def _stage(name: str, parent: str = "") -> Stage:
    return Stage(f"perf/{name}_time", name=name, parent=parent)


_PIPELINE = (
    Alias("perf/request/e2e_latency/%", "time_request"),
    Alias("perf/request/queue_time/%", "time_engine_queue"),
    Alias("perf/decode/throughput/%", "gen_throughput_sample"),
    Alias("perf/prefill/*_duration/%", "time_prefill"),
    Alias("perf/prefill/transfer_speed_gb_s/%", "kv_transfer"),
    Alias("perf/prefill/transfer_total_mb/%", "kv_transfer"),
    Alias("perf/prefill/retry_count/%", "retry_count"),
    Alias("perf/decode/*_duration/%", "time_decode"),
    Alias("rollout/dynamic_filter/drop_*", "discarded_count"),
    Alias("rollout/spec_accept_rate", "spec_accept_rate"),
    Alias("rollout/spec_accept_length", "spec_accept_len"),
    Alias("rollout/avg_cached_tokens_per_sample", "cached_tokens_mean"),
    Alias("perf/non_generation_time/mean", "time_tool_sample_mean"),
    Alias("perf/non_generation_time/max", "time_tool_sample_max"),
    Alias("perf/non_generation_time/min", "time_tool_sample_min"),
    Alias("perf/non_generation_time/median", "time_tool_sample_mean"),
    Alias("perf/longest_sample_non_generation_time", "slowest_tool"),
    Alias("perf/longest_sample_tokens_per_sec", "gen_throughput_sample"),
    Alias("perf/longest_sample_tokens_per_sec_without_non_generation", "gen_throughput_sample"),
    Alias("perf/wait_time_ratio", "trainer_idle_frac"),
    Alias("perf/update_weights_density", "weight_sync_density"),
    Alias("perf/update_weights_wire_bytes", "weight_sync_mb", scale=1e-06),
    Alias("rollout/error_cat/*", "rollout_errors"),
)

DIALECT = Dialect(
    name="slime",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("train/ppo_kl",), weight=37),
        Fingerprint(Algorithm.GRPO, any_of=_OWN, none_of=_CRITIC, weight=36),
    ),
    aliases=(
        Alias("rollout/raw_reward", "reward_mean"),
        Alias("rollout/rewards", "reward_final"),
        Alias("rollout/response_len/mean", "response_len_mean"),
        Alias("rollout/response_len/max", "response_len_max"),
        Alias("rollout/response_len/min", "response_len_min"),
        Alias("rollout/response_lengths", "response_len_mean"),
        Alias("rollout/truncated_ratio", "truncated_frac"),
        Alias("rollout/truncated", "truncated_frac"),
        Alias("rollout/repetition_frac", "repetition_frac"),
        Alias("rollout/zero_std/count_*", "zero_std_count"),
        Alias("rollout/advantages", "adv_mean"),
        Alias("rollout/prefix_cache_hit_rate", "prefix_cache_hit"),
        Alias("train/ppo_kl", "kl_old"),
        Alias("train/kl_loss", "kl_ref"),
        Alias("train/pg_clipfrac", "clip_frac"),
        Alias("train/entropy_loss", "entropy"),
        Alias("train/pg_loss", "policy_loss"),
        Alias("train/loss", "loss"),
        Alias("train/value_loss", "value_loss"),
        Alias("train/grad_norm", "grad_norm"),
        Alias("train/critic-grad_norm", "grad_norm_critic"),
        Alias("train/lr-pg_*", "lr"),
        Alias("train/critic-lr-pg_*", "lr_critic"),
        Alias("train/train_rollout_logprob_abs_diff", "rollout_logp_diff_mean"),
        Alias("train/tis", "is_ratio_mean"),
        Alias("train/tis_clipfrac", "is_clip_frac"),
        Alias("perf/step_time", "time_step"),
        Alias("perf/rollout_time", "time_gen"),
        Alias("perf/actor_train_time", "time_update_actor"),
        Alias("perf/train_wait_time", "time_wait_data"),
        Alias("perf/log_probs_time", "time_old_log_prob"),
        Alias("perf/ref_log_probs_time", "time_ref"),
        Alias("perf/update_weights_time", "time_weight_sync"),
        Alias("perf/data_preprocess_time", "time_prepare"),
        Alias("perf/save_model_time", "time_save"),
        Alias("perf/tokens_per_gpu_per_sec", "throughput_per_gpu"),
        Alias("perf/actor_train_tok_per_s", "throughput"),
        Alias("perf/actor_train_tflops", "tflops_train"),
        Alias("eval/%-truncated_ratio", "val_truncated_frac"),
        Alias("eval/%/response_len/mean", "val_response_len"),
        Alias("eval/%", "val_score"),
        *_PIPELINE,
    ),
    # The step is waiting plus training; the single passes lie inside the training time.
    timing=TimingPlan(
        step_keys=("perf/step_time",),
        stages=(
            _stage("train_wait"),
            _stage("train"),
            *(_stage(name, "train") for name in ("data_preprocess", "ref_log_probs", "log_probs", "actor_train")),
            _stage("update_weights", "train_wait"),
            _stage("rollout", "train_wait"),
            _stage("save_model", "train_wait"),
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

_MILES_PIPELINE = (
    Alias("rollout/fully_async/queue_size", "queue_size"),
    Alias("rollout/fully_async/aborted_groups_filtered", "rollout_failures"),
    Alias("rollout/fully_async/stale_groups_filtered", "evicted_samples"),
    Alias("rollout/fully_async/avg_staleness", "staleness_mean"),
    Alias("rollout/fully_async/max_staleness", "staleness_max"),
    Alias("rollout/fully_async/buffer_avg_staleness", "staleness_queued_mean"),
    Alias("rollout/fully_async/buffer_max_staleness", "staleness_queued_max"),
    Alias("perf/fully_async/queue_length", "queue_size"),
    Alias("%/perf/queue_length", "queue_size"),
    Alias("perf/fully_async/stale_dropped", "evicted_samples"),
    Alias("%/perf/stale_dropped", "evicted_samples"),
    Alias("perf/fully_async/stale_dropped_avg_staleness", "staleness_dropped_mean"),
    Alias("%/perf/stale_dropped_avg_staleness", "staleness_dropped_mean"),
    Alias("perf/fully_async/stale_dropped_max_staleness", "staleness_dropped_max"),
    Alias("%/perf/stale_dropped_max_staleness", "staleness_dropped_max"),
    Alias("perf/fully_async/batch_wait_time", "time_wait_data"),
    Alias("perf/fully_async/batch_n_%", "batch_count"),
    Alias("perf/fully_async/batch_n_samples", "sample_count"),
    Alias("rollout/weight_version/mean", "sample_update"),
    Alias("rollout/weight_version/median", "sample_update"),
    Alias("rollout/weight_version/max", "sample_version_max"),
    Alias("rollout/weight_version/min", "sample_version_min"),
    Alias("rollout/weight_version/mixed_version_ratio", "partial_frac"),
    Alias("rollout/tito_session_mismatch_rate/*", "token_drift_frac"),
    Alias("rollout/zero_std/all_zero_percentage", "all_bad_frac"),
    Alias("rollout/zero_std/all_one_percentage", "all_good_frac"),
    Alias("perf/update_weights_implementation_time", "time_weight_sync_transfer"),
    Alias("perf/finalize_and_resume_engines_time", "time_wait_sync"),
    Alias("agent/turns_mean", "num_turns_mean"),
    Alias("agent/tool_calls_mean", "tool_calls_mean"),
    Alias("agent/env_execution_time_avg", "time_env_step"),
    Alias("agent/model_query_time_avg", "time_infer_step"),
    Alias("agent/total_time_mean", "time_gen_sample_mean"),
    Alias("agent/total_time_max", "time_gen_sample_max"),
)

# Versions count weight updates of the process, not steps: a step minus a version is no staleness.
MILES: Dialect = replace(
    DIALECT,
    name="miles",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("train/ppo_kl", "rollout/weight_version/*"), weight=41),
        Fingerprint(Algorithm.GRPO, any_of=_MILES_OWN, none_of=_CRITIC, weight=40),
    ),
    aliases=(*DIALECT.aliases, Alias("perf/actor_train_mfu", "mfu"), *_MILES_PIPELINE),
    staleness_bounds=("max_weight_staleness",),
    traits=(*DIALECT.traits, TraitEvidence("is_async", ("rollout/fully_async/*", "perf/fully_async/*"))),
)
