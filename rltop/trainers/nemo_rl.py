"""NeMo-RL: `train/…`, `performance/…`, `timing/train/…` and `validation/…` tags.

`baseline_reward/pct_*` are per cent; `kl_penalty` is already divided by its coefficient;
the gradient norm is a sum over microbatches where there are several.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm

_OWN = ("train/token_mult_prob_error", "train/gen_kl_error", "train/probs_ratio", "train/approx_entropy")
_CHOSEN = ("train/rewards_chosen_mean", "train/rewards_rejected_mean")

_ALIASES = spellings("""
    reward_mean | train/reward
    reward_final | train/filtered_reward
    loss | train/loss
    grad_norm | train/grad_norm
    lr | train/lr
    kl_ref | train/kl_penalty
    off_policy_kl | train/gen_kl_error | train/policy_kl_error
    prob_ratio_error | train/token_mult_prob_error
    entropy | train/approx_entropy
    ratio_mean | train/probs_ratio
    is_ratio_mean | train/sampling_importance_ratio
    is_clip_frac | train/is_oob_ratio
    response_len_{mean,max} | train/{}_gen_tokens_per_sample
    prompt_len_mean | train/mean_prompt_length
    truncated_frac | train/truncation_rate
    num_turns_mean | train/avg_turns_per_sample
    num_turns_max | train/max_turns_per_sample
    mixed_group_frac ×0.01 | train/baseline_reward/pct_mixed
    zero_std_frac ×-0.01 +1 | train/baseline_reward/pct_mixed
    all_bad_frac ×0.01 | train/baseline_reward/pct_0
    all_good_frac ×0.01 | train/baseline_reward/pct_1
    adv_{mean,max,min} | train/advantages/{}
    staleness_mean | train/avg_trajectory_age
    queue_size | train/buffer_size
    dpo_accuracy DPO | train/accuracy
    rm_accuracy REWARD | train/accuracy
    dpo_{chosen,rejected} DPO | train/rewards_{}_mean
    dpo_margin DPO | train/rewards_chosen_mean − rewards_rejected_mean
    rm_{chosen,rejected} REWARD | train/rewards_{}_mean
    rm_margin REWARD | train/rewards_chosen_mean − rewards_rejected_mean
    nll_loss | train/sft_loss
    mfu | performance/train_fp_utilization
    throughput | performance/tokens_per_sec
    throughput_per_gpu | performance/tokens_per_sec_per_gpu
    gen_throughput | performance/generation_tokens_per_sec
    trainer_idle_frac | performance/training_worker_idle_time_ratio
    time_step | timing/train/total_step_time
    time_gen | timing/train/generation
    time_wait_data | timing/train/exposed_generation
    time_update_actor | timing/train/policy_training
    time_ref | timing/train/policy_and_reference_logprobs
    time_reward | timing/train/reward_calculation
    time_adv | timing/train/advantage_calculation
    time_weight_sync | timing/train/prepare_for_generation/transfer_and_update_weights | timing/train/weight_sync
    time_save | timing/train/checkpointing
    time_prepare | timing/train/data_processing
    time_eval | timing/validation/total_validation_time | timing/train/idle/validation
    val_score | validation/accuracy
    val_response_len | validation/avg_length
    val_loss | validation/loss | validation/val_loss
    # Of the asynchronous loop and of the single controller.
    time_wait_data | timing/train/idle/buffer_starvation | efficiency/idle/buffer_starvation_s
    time_wait_sync | timing/train/idle/refit_bubble | efficiency/idle/refit_bubble_s
    time_gen_threads | efficiency/idle/buffer_full_backoff_s | efficiency/idle/generation_limit_pause_s
    time_gen_threads | efficiency/idle/refit_event_wait_s
    evicted_samples | train/evicted_stale_prompt_groups
    cancelled_count | train/aborted_stale_inflight_groups
    missing_groups | train/dropped_prompt_groups
    replaced_groups | train/replaced_prompt_groups | train/promoted_prompt_groups
    inflight_count | rollout/inflight
    time_no_progress | rollout/idle_s
    retry_count | rollout/redispatch_total | rollout/redispatch_total/% | rollout/data_retry_total
    retry_count | rollout/data_retry_total/% | rollout/gym_row_redispatch_total | router/backend_error_total
    rollout_failures | rollout/data_failures_total | rollout/infra_drops_total
    rollout_errors | rollout/data_failures_total/% | rollout/infra_drops_total/%
    engines_serving | gen_fleet/serving_shards | router/serving_backends
    engines_in_state | gen_fleet/shards/%
    engine_restarts | gen_fleet/restart_attempts/%
    param_version | gen_fleet/shard_weight_version/%
    requests_total | router/requests_total
    no_engine_count | router/no_healthy_backend_total
    spec_accept_len | train/vllm/spec_acceptance_length
    spec_accept_rate | train/vllm/spec_acceptance_rate
    spec_tokens | train/vllm/spec_num_%
    time_weight_sync_transfer | refit/total_s
    weight_sync_mb | refit/wire_mb
    weight_sync_density ×0.01 | refit/changed_pct
    turn_limit_frac | train/max_turns_reached_rate
    stop_share | train/natural_termination_rate
    time_group | timing/rollout/total
""")


_STAGE, _PREPARE = "timing/train/{}", "prepare_for_generation/total"
_SINCE_START = (
    "Its seconds are those of one step and it is divided by the time since the start, so it falls as the run goes on."
)


DIALECT = Dialect(
    name="NeMo-RL",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=37),
        Fingerprint(Algorithm.DPO, all_of=(*_CHOSEN, "train/preference_loss"), weight=36),
        Fingerprint(Algorithm.REWARD, all_of=_CHOSEN, none_of=("train/preference_loss",), weight=35),
        Fingerprint(Algorithm.UNKNOWN, any_of=("timing/train/total_step_time",), weight=25),
    ),
    aliases=_ALIASES,
    timing=TimingPlan(
        step_keys=("timing/train/total_step_time",),
        stages=(
            *stages(_STAGE, "data_processing", _PREPARE),
            *stages(_STAGE, "prepare_for_generation/transfer_and_update_weights", parent=_PREPARE),
            *stages(_STAGE, "exposed_generation", "generation", "reward_calculation", "logprob_inference_prep"),
            *stages(_STAGE, "policy_and_reference_logprobs", "advantage_calculation", "training_prep"),
            *stages(_STAGE, "policy_training", "weight_sync"),
            *stages(_STAGE, "checkpointing", fits_inside=True),
        ),
        namespace=("timing/train/",),
    ),
    training_keys=("train/loss", "train/grad_norm", "train/lr", "timing/train/*"),
    traits=(
        TraitEvidence(
            "is_async",
            ("train/avg_trajectory_age", "timing/train/exposed_generation", "train/evicted_stale_prompt_groups"),
        ),
    ),
    group_size_keys=("num_generations_per_prompt",),
    staleness_bounds=("max_trajectory_age_steps",),
    gpus=(("cluster.num_nodes", "cluster.gpus_per_node"),),
    misleading=(
        ("efficiency/idle/*_pct", _SINCE_START),
        ("efficiency/efficiency_pct", _SINCE_START),
        ("efficiency/productive_time_s", "The time since the start less what one step waited."),
    ),
)
