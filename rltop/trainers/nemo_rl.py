"""NeMo-RL: `train/…`, `performance/…`, `timing/train/…` and `validation/…` tags.

`baseline_reward/pct_*` are per cent; `kl_penalty` is already divided by its coefficient;
the gradient norm is a sum over microbatches where there are several.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_PAIRS = frozenset({Algorithm.DPO})
_REWARD = frozenset({Algorithm.REWARD})
_OWN = ("train/token_mult_prob_error", "train/gen_kl_error", "train/probs_ratio", "train/approx_entropy")
_CHOSEN = ("train/rewards_chosen_mean", "train/rewards_rejected_mean")

_TRAIN = (
    Alias("train/reward", "reward_mean"),
    Alias("train/filtered_reward", "reward_final"),
    Alias("train/loss", "loss"),
    Alias("train/grad_norm", "grad_norm"),
    Alias("train/lr", "lr"),
    Alias("train/kl_penalty", "kl_ref"),
    Alias("train/gen_kl_error", "off_policy_kl"),
    Alias("train/policy_kl_error", "off_policy_kl"),
    Alias("train/token_mult_prob_error", "prob_ratio_error"),
    Alias("train/approx_entropy", "entropy"),
    Alias("train/probs_ratio", "ratio_mean"),
    Alias("train/sampling_importance_ratio", "is_ratio_mean"),
    Alias("train/is_oob_ratio", "is_clip_frac"),
    Alias("train/mean_gen_tokens_per_sample", "response_len_mean"),
    Alias("train/max_gen_tokens_per_sample", "response_len_max"),
    Alias("train/mean_prompt_length", "prompt_len_mean"),
    Alias("train/truncation_rate", "truncated_frac"),
    Alias("train/avg_turns_per_sample", "num_turns_mean"),
    Alias("train/max_turns_per_sample", "num_turns_max"),
    Alias("train/baseline_reward/pct_mixed", "mixed_group_frac", scale=0.01),
    Alias("train/baseline_reward/pct_mixed", "zero_std_frac", scale=-0.01, shift=1.0),
    Alias("train/baseline_reward/pct_0", "all_bad_frac", scale=0.01),
    Alias("train/baseline_reward/pct_1", "all_good_frac", scale=0.01),
    Alias("train/advantages/mean", "adv_mean"),
    Alias("train/advantages/max", "adv_max"),
    Alias("train/advantages/min", "adv_min"),
    Alias("train/avg_trajectory_age", "staleness_mean"),
    Alias("train/buffer_size", "queue_size"),
    Alias("train/accuracy", "dpo_accuracy", algorithms=_PAIRS),
    Alias("train/accuracy", "rm_accuracy", algorithms=_REWARD),
    Alias("train/rewards_chosen_mean", "dpo_chosen", algorithms=_PAIRS),
    Alias("train/rewards_rejected_mean", "dpo_rejected", algorithms=_PAIRS),
    Alias("train/rewards_chosen_mean − rewards_rejected_mean", "dpo_margin", algorithms=_PAIRS),
    Alias("train/rewards_chosen_mean", "rm_chosen", algorithms=_REWARD),
    Alias("train/rewards_rejected_mean", "rm_rejected", algorithms=_REWARD),
    Alias("train/rewards_chosen_mean − rewards_rejected_mean", "rm_margin", algorithms=_REWARD),
    Alias("train/sft_loss", "nll_loss"),
)

_SYSTEM = (
    Alias("performance/train_fp_utilization", "mfu"),
    Alias("performance/tokens_per_sec", "throughput"),
    Alias("performance/tokens_per_sec_per_gpu", "throughput_per_gpu"),
    Alias("performance/generation_tokens_per_sec", "gen_throughput"),
    Alias("performance/training_worker_idle_time_ratio", "trainer_idle_frac"),
    Alias("timing/train/total_step_time", "time_step"),
    Alias("timing/train/generation", "time_gen"),
    Alias("timing/train/exposed_generation", "time_wait_data"),
    Alias("timing/train/policy_training", "time_update_actor"),
    Alias("timing/train/policy_and_reference_logprobs", "time_ref"),
    Alias("timing/train/reward_calculation", "time_reward"),
    Alias("timing/train/advantage_calculation", "time_adv"),
    Alias("timing/train/prepare_for_generation/transfer_and_update_weights", "time_weight_sync"),
    Alias("timing/train/weight_sync", "time_weight_sync"),
    Alias("timing/train/checkpointing", "time_save"),
    Alias("timing/train/data_processing", "time_prepare"),
    Alias("timing/validation/total_validation_time", "time_eval"),
    Alias("validation/accuracy", "val_score"),
    Alias("validation/avg_length", "val_response_len"),
    Alias("validation/loss", "val_loss"),
    Alias("validation/val_loss", "val_loss"),
)


_PIPELINE = (
    Alias("timing/train/idle/buffer_starvation", "time_wait_data"),
    Alias("timing/train/idle/refit_bubble", "time_wait_sync"),
    Alias("timing/train/idle/validation", "time_eval"),
    Alias("efficiency/idle/buffer_starvation_s", "time_wait_data"),
    Alias("efficiency/idle/refit_bubble_s", "time_wait_sync"),
    Alias("efficiency/idle/buffer_full_backoff_s", "time_gen_threads"),
    Alias("efficiency/idle/generation_limit_pause_s", "time_gen_threads"),
    Alias("efficiency/idle/refit_event_wait_s", "time_gen_threads"),
    Alias("train/evicted_stale_prompt_groups", "evicted_samples"),
    Alias("train/aborted_stale_inflight_groups", "cancelled_count"),
    Alias("train/dropped_prompt_groups", "missing_groups"),
    Alias("train/replaced_prompt_groups", "replaced_groups"),
    Alias("train/promoted_prompt_groups", "replaced_groups"),
    Alias("rollout/inflight", "inflight_count"),
    Alias("rollout/idle_s", "time_no_progress"),
    Alias("rollout/redispatch_total", "retry_count"),
    Alias("rollout/redispatch_total/%", "retry_count"),
    Alias("rollout/data_retry_total", "retry_count"),
    Alias("rollout/data_retry_total/%", "retry_count"),
    Alias("rollout/gym_row_redispatch_total", "retry_count"),
    Alias("rollout/data_failures_total", "rollout_failures"),
    Alias("rollout/data_failures_total/%", "rollout_errors"),
    Alias("rollout/infra_drops_total", "rollout_failures"),
    Alias("rollout/infra_drops_total/%", "rollout_errors"),
    Alias("gen_fleet/serving_shards", "engines_serving"),
    Alias("gen_fleet/shards/%", "engines_in_state"),
    Alias("gen_fleet/restart_attempts/%", "engine_restarts"),
    Alias("gen_fleet/shard_weight_version/%", "param_version"),
    Alias("router/requests_total", "requests_total"),
    Alias("router/no_healthy_backend_total", "no_engine_count"),
    Alias("router/backend_error_total", "retry_count"),
    Alias("router/serving_backends", "engines_serving"),
    Alias("train/vllm/spec_acceptance_length", "spec_accept_len"),
    Alias("train/vllm/spec_acceptance_rate", "spec_accept_rate"),
    Alias("train/vllm/spec_num_%", "spec_tokens"),
    Alias("refit/total_s", "time_weight_sync_transfer"),
    Alias("refit/wire_mb", "weight_sync_mb"),
    Alias("refit/changed_pct", "weight_sync_density", scale=0.01),
    Alias("train/max_turns_reached_rate", "turn_limit_frac"),
    Alias("train/natural_termination_rate", "stop_share"),
    Alias("timing/rollout/total", "time_group"),
)
"""Of the asynchronous loop and of the single controller."""

_SINCE_START = (
    "Its seconds are those of one step and it is divided by the time since the start, so it falls as the run goes on."
)


def _stage(name: str, parent: str = "") -> Stage:
    return Stage(f"timing/train/{name}", name=name, parent=parent)


DIALECT = Dialect(
    name="NeMo-RL",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=37),
        Fingerprint(Algorithm.DPO, all_of=(*_CHOSEN, "train/preference_loss"), weight=36),
        Fingerprint(Algorithm.REWARD, all_of=_CHOSEN, none_of=("train/preference_loss",), weight=35),
        Fingerprint(Algorithm.UNKNOWN, any_of=("timing/train/total_step_time",), weight=25),
    ),
    aliases=(*_TRAIN, *_SYSTEM, *_PIPELINE),
    timing=TimingPlan(
        step_keys=("timing/train/total_step_time",),
        stages=(
            _stage("data_processing"),
            _stage("prepare_for_generation/total"),
            _stage("prepare_for_generation/transfer_and_update_weights", "prepare_for_generation/total"),
            _stage("exposed_generation"),
            _stage("generation"),
            _stage("reward_calculation"),
            _stage("logprob_inference_prep"),
            _stage("policy_and_reference_logprobs"),
            _stage("advantage_calculation"),
            _stage("training_prep"),
            _stage("policy_training"),
            _stage("weight_sync"),
            Stage("timing/train/checkpointing", name="checkpointing", fits_inside=True),
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
