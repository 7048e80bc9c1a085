"""TRL: GRPO, RLOO, PPO, DPO, KTO, reward models and SFT on the transformers Trainer.

Keys are flat, with an `epoch` beside the step; the same keys appear as `train/…`
and `eval/…` in TensorBoard and the trackers.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.structs import replace

_GROUP = frozenset({Algorithm.GRPO, Algorithm.RLOO})
_ROLLOUTS = _GROUP | {Algorithm.PPO}
_PAIRS = frozenset({Algorithm.DPO, Algorithm.KTO})
_REWARD = frozenset({Algorithm.REWARD})
_LABELLED = frozenset({Algorithm.DPO, Algorithm.REWARD, Algorithm.SFT, Algorithm.UNKNOWN})

_LENGTHS = ("completions/mean_length", "completion_length")

FINGERPRINTS = (
    Fingerprint(Algorithm.PPO, all_of=("objective/kl", "policy/approxkl_avg", "loss/value_avg"), weight=24),
    Fingerprint(Algorithm.RLOO, all_of=("objective/kl", "policy/approxkl_avg"), none_of=("loss/value_avg",), weight=23),
    # Both trainers write the same keys. RLOO subtracts the KL from the reward, so it logs
    # the KL before the reward; GRPO puts it into the loss and logs it after. `loss` first
    # rules out files with sorted keys, lengths first rules out a start between generations.
    Fingerprint(Algorithm.RLOO, in_order=("loss", "completions/mean_length", "kl", "reward"), weight=22),
    Fingerprint(
        Algorithm.GRPO,
        any_of=("frac_reward_zero_std", "completions/mean_length", "completions/clipped_ratio"),
        weight=21,
    ),
    Fingerprint(Algorithm.GRPO, all_of=("reward", "reward_std", "completion_length"), weight=20),
    Fingerprint(Algorithm.GRPO, any_of=("clip_ratio/region_mean", "clip_ratio/low_mean"), weight=18),
    # All that is left of it where the metrics are the user's own.
    Fingerprint(Algorithm.GRPO, any_of=("profiling/Time taken: GRPOTrainer.*",), weight=6),
    Fingerprint(Algorithm.RLOO, any_of=("profiling/Time taken: RLOOTrainer.*",), weight=6),
    Fingerprint(Algorithm.DPO, all_of=("rewards/accuracies",), weight=20),
    Fingerprint(
        Algorithm.KTO,
        all_of=("kl",),
        any_of=("rewards/margins", "rewards/chosen", "rewards/rejected", "logps/chosen", "logps/rejected"),
        none_of=("rewards/accuracies",),
        weight=20,
    ),
    Fingerprint(Algorithm.REWARD, all_of=("margin", "mean_reward", "accuracy"), weight=20),
    Fingerprint(Algorithm.REWARD, all_of=("min_reward", "mean_reward", "max_reward", "epoch"), weight=19),
    Fingerprint(Algorithm.SFT, all_of=("loss", "mean_token_accuracy"), weight=12),
    # A log of which only a few keys were kept: of the trainers with an epoch, those that sample log a reward.
    Fingerprint(
        Algorithm.GRPO,
        all_of=("epoch", "reward"),
        any_of=("learning_rate", "grad_norm"),
        none_of=("rewards/chosen", "mean_reward"),
        weight=7,
    ),
)

_OPTIMISER = (
    Alias("loss", "loss"),
    Alias("grad_norm", "grad_norm"),
    Alias("learning_rate", "lr"),
    Alias("lr", "lr"),
    Alias("loss/policy_avg", "policy_loss"),
    Alias("policy_loss", "policy_loss"),
    Alias("loss/value_avg", "value_loss"),
    Alias("aux_loss", "aux_loss"),
    Alias("nll_loss", "nll_loss"),
    Alias("policy/entropy_avg", "entropy"),
    Alias("entropy", "entropy"),
    Alias("entropy/mean", "entropy"),
    Alias("objective/entropy", "entropy_seq"),
    Alias("clip_ratio/region_mean", "clip_frac"),
    Alias("clip_ratio", "clip_frac"),
    Alias("cispo_clip_ratio", "clip_frac"),
    Alias("policy/clipfrac_avg", "clip_frac"),
    Alias("clip_ratio/low_mean", "clip_frac_low"),
    Alias("clip_ratio/high_mean", "clip_frac_high"),
    Alias("clip_ratio/low_min", "clip_frac_low_min"),
    Alias("clip_ratio/high_max", "clip_frac_high_max"),
    Alias("val/clipfrac_avg", "clip_frac_value"),
    Alias("policy/approxkl_avg", "kl_old"),
    Alias("objective/kl", "kl_ref"),
    Alias("kl", "kl_ref"),
    Alias("beta", "kl_coef"),
    Alias("val/ratio", "ratio_mean"),
    Alias("ratio", "ratio_mean", algorithms=_ROLLOUTS),
    Alias("val/ratio_var", "ratio_var"),
    Alias("val/num_eos_tokens", "stop_count"),
)

_REWARDS = (
    Alias("reward", "reward_mean"),
    Alias("objective/scores", "reward_mean"),
    Alias("objective/rlhf_reward", "reward_mean"),
    Alias("objective/scores", "score_mean"),
    Alias("objective/rlhf_reward", "reward_final"),
    Alias("objective/non_score_reward", "kl_reward"),
    Alias("reward_std", "reward_std"),
    Alias("rewards/*/mean", "reward_component", algorithms=_GROUP),
    Alias("rewards/%", "reward_component", algorithms=_GROUP),
    Alias("rewards/*/std", "reward_component_std", algorithms=_GROUP),
    Alias("frac_reward_zero_std", "zero_std_frac"),
    # Telescope's names: TRL logs no group lengths itself.
    Alias("group_length_max_median_ratio_mean", "group_len_ratio", is_borrowed=True),
    Alias("group_length_max_median_ratio", "group_len_ratio", is_borrowed=True),
    Alias("group_length_gini_mean", "group_len_gini", is_borrowed=True),
    Alias("group_length_gini", "group_len_gini", is_borrowed=True),
    Alias("group_length_cv_mean", "group_len_cv", is_borrowed=True),
)

_LENGTH = (
    Alias("completions/mean_length", "response_len_mean"),
    Alias("completion_length", "response_len_mean"),
    Alias("completions/max_length", "response_len_max"),
    Alias("completions/min_length", "response_len_min"),
    Alias("completions/mean_terminated_length", "terminated_len_mean"),
    Alias("completions/max_terminated_length", "terminated_len_max"),
    Alias("completions/min_terminated_length", "terminated_len_min"),
    Alias("completions/clipped_ratio", "truncated_frac"),
    Alias("tools/call_frequency", "tool_call_freq"),
    Alias("tools/failure_frequency", "tool_failure_frac"),
    Alias("sampling/sampling_logp_difference/mean", "rollout_logp_diff_mean"),
    Alias("sampling/sampling_logp_difference/max", "rollout_logp_diff_max"),
    Alias("sampling/importance_sampling_ratio/mean", "is_ratio_mean"),
    Alias("sampling/importance_sampling_ratio/min", "is_ratio_min"),
    Alias("sampling/importance_sampling_ratio/max", "is_ratio_max"),
)

_PREFERENCE = (
    Alias("rewards/accuracies", "dpo_accuracy", algorithms=_PAIRS),
    Alias("rewards/margins", "dpo_margin", algorithms=_PAIRS),
    Alias("rewards/chosen", "dpo_chosen", algorithms=_PAIRS),
    Alias("rewards/rejected", "dpo_rejected", algorithms=_PAIRS),
    Alias("logps/chosen", "logps_chosen"),
    Alias("logps/rejected", "logps_rejected"),
    Alias("logits/chosen", "logits_chosen"),
    Alias("logits/rejected", "logits_rejected"),
    Alias("mean_token_accuracy", "token_accuracy"),
    Alias("accuracy", "rm_accuracy", algorithms=_REWARD),
    Alias("margin", "rm_margin", algorithms=_REWARD),
    Alias("mean_reward", "rm_reward_mean", algorithms=_REWARD),
    Alias("min_reward", "rm_reward_min", algorithms=_REWARD),
    Alias("max_reward", "rm_reward_max", algorithms=_REWARD),
)

_EVALUATION = (
    Alias("eval_reward", "val_score"),
    Alias("eval_*_reward", "val_score", algorithms=_GROUP),
    Alias("eval_loss", "val_loss"),
    Alias("eval_*_loss", "val_loss"),
    Alias("eval_rewards/accuracies", "val_acc"),
    Alias("eval_accuracy", "val_acc"),
    Alias("eval_mean_token_accuracy", "val_acc"),
    Alias("eval_*_accuracy", "val_acc", algorithms=_LABELLED),
    Alias("eval_rewards/margins", "val_margin"),
    Alias("eval_margin", "val_margin"),
    Alias("eval_completions/mean_length", "val_response_len"),
    Alias("eval_completions/clipped_ratio", "val_truncated_frac"),
)

_PROGRESS = (
    Alias("step_time", "time_step"),
    Alias("eps", "samples_per_s"),
    Alias("episode", "episode"),
    Alias("num_tokens", "num_tokens"),
    Alias("num_input_tokens_seen", "num_tokens"),
    Alias("epoch", "epoch"),
    # The experimental asynchronous trainer.
    Alias("training_tok/s", "throughput"),
    Alias("generation_tok_per_s", "gen_throughput"),
    Alias("forward_time_s", "time_forward"),
    Alias("weight_sync_time_s", "time_weight_sync"),
    Alias("queue_wait_time_s", "time_wait_data"),
    Alias("buffer_qsize", "queue_size"),
)

_PIPELINE = (
    Alias("sample/staleness_mean", "staleness_mean"),
    Alias("sample/staleness_max", "staleness_max"),
    Alias("sample/rollout_queue_size", "queue_size"),
    Alias("sample/time_in_queue_s", "time_in_queue"),
    Alias("sample/dropped_stale_total", "dropped_stale"),
    Alias("batch/dropped_oversize_total", "dropped_oversize"),
    Alias("sample/forwarded_tokens_mean", "total_len_mean"),
    Alias("sample/forwarded_tokens_max", "total_len_max"),
    Alias("sample/trained_tokens_mean", "trained_tokens"),
    Alias("batch/masked_token_frac", "untrained_token_frac"),
    Alias("batch/samples_per_row", "batch_count"),
    Alias("batch/row_tokens_mean", "seqlen_mean"),
    Alias("batch/row_tokens_max", "seqlen_balanced_max"),
    Alias("batch/row_imbalance", "row_imbalance"),
    Alias("batch/packing_ratio", "packing_ratio"),
    Alias("batch/row_fill_frac", "batch_fill_frac"),
    Alias("batch/pad_frac", "pad_frac"),
    Alias("batch/microbatches_per_step", "batch_count"),
    Alias("batch/groups_per_step", "batch_count"),
    Alias("batch/samples_per_step", "sample_count"),
    Alias("batch/forwarded_tokens_per_step", "total_tokens"),
    Alias("batch/trained_tokens_per_step", "trained_tokens"),
    Alias("perf/step_s", "time_step"),
    Alias("perf/rollout_wait_s", "time_wait_data"),
    Alias("perf/fwd_bwd_s", "time_update_actor"),
    Alias("perf/fwd_s", "time_forward"),
    Alias("perf/optimizer_s", "time_optimizer"),
    Alias("perf/weight_sync_s", "time_weight_sync"),
    Alias("perf/weight_sync_pause_s", "time_weight_sync_pause"),
    Alias("perf/weight_sync_barrier_s", "time_weight_sync_barrier"),
    Alias("perf/weight_sync_transfer_s", "time_weight_sync_transfer"),
    Alias("perf/mfu_fwd_bwd", "mfu"),
    Alias("perf/mfu_wall_clock", "mfu_wall"),
    Alias("perf/forwarded_tok_s_wall_clock", "throughput"),
    Alias("perf/trained_tok_s_wall_clock", "trained_throughput"),
    Alias("rollout/inflight", "inflight_count"),
    Alias("rollout/generated_tok_s", "gen_throughput"),
    Alias("rollout/backpressure_s", "time_gen_blocked"),
    Alias("rollout/score_s", "time_score_mean"),
    Alias("rollout/score_wait_s", "time_score_wait"),
    Alias("rollout/score_queue_size", "score_queue_size"),
    Alias("rollout/score_block_s", "time_score_blocked"),
    Alias("rollout/vllm_retry_total", "retry_count"),
    Alias("rollout/duration_s", "time_gen_sample_mean"),
    Alias("rollout/turns_mean", "num_turns_mean"),
    Alias("rollout/turns_max", "num_turns_max"),
    Alias("rollout/samples_per_rollout", "samples_per_rollout"),
    Alias("rollout/fork_frac", "token_drift_frac"),
    Alias("rollout/realign_frac", "token_drift_frac"),
    Alias("rollout/drift_tokens_mean", "token_drift"),
    Alias("rollout/drift_tokens_max", "token_drift"),
    Alias("env/reset_s", "time_env_reset"),
    Alias("env/reward_s", "time_score_mean"),
    Alias("tools/latency_s", "time_tool_call"),
    Alias("tools/%/latency_s", "time_tool_call"),
    Alias("tools/%/call_total", "tool_calls_total"),
    Alias("tools/%/failure_total", "tool_failures"),
    Alias("tools/unknown_name_total", "tool_unknown"),
    Alias("tools/parallel_calls_mean", "tool_parallel"),
    Alias("tools/loop_exhausted_frac", "turn_limit_frac"),
    Alias("rollout/correctness_mean", "reward_component"),
)
"""Of the asynchronous trainer, as it names them since 1.16; counters are those of one logging window."""

_SYNC = ("pause", "barrier", "transfer")
_ASYNC_KEYS = (
    "weight_sync_time_s", "queue_wait_time_s", "sample/staleness_mean", "perf/weight_sync_s", "perf/rollout_wait_s",
)  # fmt: skip

_PROFILE = "profiling/Time taken: "
_PROFILED = (
    Alias(f"{_PROFILE}*.vLLM.generate", "time_gen"),
    Alias(f"{_PROFILE}*.transformers.generate", "time_gen"),
    Alias(f"{_PROFILE}*._calculate_rewards", "time_reward"),
    Alias(f"{_PROFILE}*.sync_weights", "time_weight_sync"),
    Alias(f"{_PROFILE}*.compute_loss", "time_forward"),
)
"""Logged to trackers only, several times per step; a row keeps the last of its step."""

DIALECT = Dialect(
    name="TRL",
    fingerprints=FINGERPRINTS,
    aliases=(*_OPTIMISER, *_REWARDS, *_LENGTH, *_PREFERENCE, *_EVALUATION, *_PROGRESS, *_PROFILED),
    timing=TimingPlan(step_keys=("step_time", "train/step_time"), namespace=(_PROFILE,)),
    hidden=("epoch", "train_*", "total_flos", "eval_runtime", "eval_*_per_second", "num_input_tokens_seen"),
    training_keys=("loss", "grad_norm", "learning_rate", "lr"),
    prefixes=(("train/", ""), ("eval/", "eval_")),
    traits=(
        TraitEvidence("has_critic", ("loss/value_avg",)),
        TraitEvidence("is_async", _ASYNC_KEYS),
        TraitEvidence("kl_is_sequence_sum", ("objective/kl",)),
    ),
    group_size_keys=("num_generations", "group_size"),
)

ASYNC = replace(
    DIALECT,
    variant="async GRPO",
    fingerprints=(Fingerprint(Algorithm.GRPO, all_of=("reward",), any_of=_ASYNC_KEYS, weight=26),),
    aliases=(
        Alias("kl", "off_policy_kl"),
        *(alias for alias in DIALECT.aliases if alias.pattern != "kl"),
        *_PIPELINE,
    ),
    staleness_bounds=("max_staleness",),
    timing=TimingPlan(
        step_keys=("step_time", "perf/step_s"),
        stages=(
            Stage("perf/rollout_wait_s", name="rollout_wait"),
            Stage("perf/fwd_bwd_s", name="fwd_bwd"),
            Stage("perf/fwd_s", name="fwd", parent="fwd_bwd"),
            Stage("perf/optimizer_s", name="optimizer"),
            Stage("perf/weight_sync_s", name="weight_sync", fits_inside=True),
            *(Stage(f"perf/weight_sync_{name}_s", name=name, parent="weight_sync") for name in _SYNC),
        ),
        namespace=(_PROFILE,),
    ),
)
"""The asynchronous trainer, whose `kl` is taken from the policy that sampled, not from a reference model."""
