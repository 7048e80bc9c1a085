"""prime-rl: a trainer and an orchestrator that write to one file.

Both log `time/step`; the keys beside it tell which of the two a duration belongs to,
and the two run at the same time, so the orchestrator's stages have a lane of their own.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm

_OWN = (
    "mismatch_kl/*",
    "train/agg/*",
    "time/wait_for_batch",
    "time/wait_for_policy",
    "kl_ent_ratio/mean",
    "is_masked/mean",
    "masked_advantage_positive/mean",
    "off_policy/in_flight/*",
    "dispatcher/inflight/*",
)


_ORCHESTRATOR = stages(
    "time/{}",
    *(
        "wait_for_policy",
        "wait_for_ckpt",
        "wait_for_weight_ckpt",
        "update_weights",
        "generate_completions",
        "teacher_logprobs",
        "parallel_preprocess",
        "pack",
    ),
    lane=1,
)

_ALIASES = spellings("""
    reward_mean | train/agg/effective/%/reward/mean | train/agg/effective/reward/mean | reward/all/mean | reward/mean
    reward_mean | reward/%/mean | Reward
    reward_std | reward/std
    mixed_group_frac | train/agg/all/%/solved_some
    zero_std_frac ×-1 +1 | train/agg/all/%/solved_some | effective_batch_size/all | batch/effective_batch_size
    all_good_frac | train/agg/all/%/solved_all | solve_all/all | batch/solve_all
    all_bad_frac | train/agg/all/%/solved_none | solve_none/all | batch/solve_none
    response_len_mean | train/agg/effective/num_output_tokens/mean | decode_len/all/mean | decode_len/mean
    response_len_max | train/agg/effective/num_output_tokens/max | decode_len/all/max
    response_len_{mean,max,min} | completion_len/{}
    response_len_{min,p90} | train/agg/effective/num_output_tokens/{}
    total_len_mean | seq_len/all/mean | seq_len/mean | Seq. Length
    prompt_len_mean | train/agg/effective/num_input_tokens/mean | prefill_len/all/mean | prompt_len/mean
    truncated_frac | train/agg/effective/%/is_truncated/mean | train/agg/effective/is_truncated/mean
    truncated_frac | is_truncated/all/mean | is_truncated/mean | Truncation
    aborted_frac | train/agg/all/has_error/mean | errored_rollouts/all | Error | train/%/all/has_error/mean
    cancelled_frac | train/agg/all/cancelled/mean | Cancelled | train/%/all/cancelled/mean
    num_turns_mean | train/agg/effective/num_turns/mean | num_turns/all/mean | num_turns/mean | Turns
    off_policy_kl | mismatch_kl/all/mean | mismatch_kl/mean | mismatch_kl/%/mean | Mismatch KL
    off_policy_kl_max | mismatch_kl/all/max
    entropy | entropy/all/mean | entropy/mean | entropy/%/mean | Entropy
    kl_ent_ratio | kl_ent_ratio/mean
    kl_teacher | teacher_kl/mean
    clip_frac | is_masked/mean | is_clipped/mean
    ratio_mean | importance_ratio/mean
    # Called an error, it is the ratio of what the trainer computes to what the sampler told.
    is_ratio_{mean,max,min} | recomputed_logprob_error/{}
    clip_frac_{low,high} | is_masked_{}/mean
    grad_norm | optim/grad_norm | Grad. Norm
    lr | optim/lr | LR
    loss | loss/mean | Loss
    # This trainer logs per cent.
    mfu ×0.01 | perf/mfu
    throughput | perf/throughput | Throughput
    throughput_per_gpu | perf/throughput_per_gpu
    mem_peak_gb | perf/peak_memory | Peak Mem.
    time_step | time/step
    time_update_actor | time/forward_backward
    time_wait_data | time/wait_for_batch
    time_wait_policy | time/wait_for_policy | time/wait_for_ckpt | time/wait_for_weight_ckpt
    time_wait_policy | watcher/last_wait_for_ckpt_time
    time_weight_sync | time/broadcast_weights | time/save_weights
    time_old_log_prob | time/compute_logprobs
    time_save | time/save_ckpt
    time_load_data | time/load_data
    time_prepare | time/pack
    time_gen | time/generate_completions
    staleness_mean | off_policy/mean | batch/off_policy_level/mean
    staleness_max | off_policy/max | Max Off-Policy | Max. Off-Policy Level
    dropped_stale | off_policy/dropped
    num_tokens | progress/total_tokens
    mfu | MFU
    val_score | eval/%/effective/*/avg@* | eval/*/avg@* | val_reward/mean
    val_passk | eval/*/pass@*
    val_response_len | eval/%/effective/num_output_tokens/mean
    val_truncated_frac | eval/%/effective/is_truncated/mean
    disk_free_frac | system/ckpt_disk_free_ratio
    # Of the dispatcher, the engines and the agents; those of engines and the event loop are sampled by the clock.
    staleness_inflight_{mean,max} | off_policy/in_flight/{} | dispatcher/off_policy/{}
    staleness_queued_{mean,max} | off_policy/in_queue/{}
    inflight_count | dispatcher/inflight/train | dispatcher/inflight/%
    gen_queue_size | dispatcher/queued/eval
    mode_flag | dispatcher/mode
    cancelled_count | dispatcher/cancelled/train | dispatcher/cancelled/%
    aborted_count | dispatcher/errored/train | dispatcher/errored/%
    inflight_limit | concurrency/max_inflight
    engine_load | concurrency/capacity | concurrency/turnover | concurrency/signal
    param_version | watcher/policy_version
    weight_updates | watcher/update_count
    time_weight_sync_infer | watcher/last_update_weights_time | time/update_weights
    event_loop_lag | event_loop_lag/mean | event_loop_lag/median | event_loop_lag/min
    event_loop_lag_max | event_loop_lag/max | event_loop_lag/p90 | event_loop_lag/p99
    engine_{running,waiting} | inference/%/num_requests_{}/% | inference/%/num_requests_{}
    engine_waiting | inference/%/num_requests_waiting_reason_%/%
    kv_cache_frac | inference/%/kv_cache_usage_perc/% | inference/%/kv_cache_usage_perc
    engine_preemptions | inference/%/num_preemptions_total:rate/% | inference/%/num_preemptions_total/%
    prefix_cache_hit | inference/agg/prefix_cache_hit_rate/pooled | inference/%/prefix_cache_hit_rate/%
    prefix_cache_hit | inference/%/prefix_cache_hit_rate
    gen_throughput | inference/agg/generation_tokens_total:rate/sum
    prompt_throughput | inference/%/prompt_tokens_total:rate/%
    time_first_token | inference/%/time_to_first_token_seconds:mean/%
    time_next_token ×1000 | inference/%/inter_token_latency_seconds:mean/%
    time_request | inference/%/e2e_request_latency_seconds:mean/%
    time_engine_queue | inference/%/request_queue_time_seconds:mean/%
    time_{prefill,decode} | inference/%/request_{}_time_seconds:mean/%
    spec_tokens | inference/%/spec_decode_num_%/%
    rollout_errors | train/%/all/%/error/%
    stop_share | train/*/stop_condition/%
    time_env_reset | train/*/timing/setup/mean
    time_infer_step | train/*/timing/agent/model/mean
    time_infer_step_max | train/*/timing/agent/model/max
    time_env_step | train/*/timing/agent/harness/mean
    time_env_step_max | train/*/timing/agent/harness/max
    time_score_{mean,max} | train/*/timing/scoring/{}
    time_gen_sample_{mean,max} | train/%/all/%/timing/total/{}
    time_gen_sample_high | train/*/timing/total/p90
    reward_component | train/%/effective/%/reward/mean
    kept_frac | train/*/is_admitted/mean
    num_turns_mean | train/%/all/num_turns/mean
""")

DIALECT = Dialect(
    name="prime-rl",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=28),
        Fingerprint(Algorithm.GRPO, all_of=("Loss", "Mismatch KL"), weight=24),
        Fingerprint(Algorithm.GRPO, all_of=("Reward", "Max Off-Policy"), weight=24),
        Fingerprint(Algorithm.GRPO, all_of=("Reward", "Seq. Length"), weight=24),
        Fingerprint(Algorithm.SFT, all_of=("loss/perplexity", "optim/lr", "time/forward_backward"), weight=26),
    ),
    aliases=_ALIASES,
    timing=TimingPlan(
        step_keys=("time/step",),
        stages=(
            *stages("time/{}", "broadcast_weights", "save_ckpt", "wait_for_batch", "load_data", "forward_backward"),
            *stages("time/{}", "save_weights", "compute_logprobs"),
            *(stage._replace(name=f"orchestrator: {stage.name}") for stage in _ORCHESTRATOR),
        ),
        namespace=("time/",),
    ),
    hidden=("progress/*",),
    staleness_bounds=("max_off_policy_steps",),
    gpus=(("num_train_gpus",), ("num_infer_gpus",)),
    training_keys=("optim/*", "loss/*", "time/forward_backward", "time/pack"),
    traits=(
        TraitEvidence("is_async", ("off_policy/*", "dispatcher/*", "time/wait_for_batch", "batch/off_policy_level/*")),
    ),
)
