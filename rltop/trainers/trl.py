"""TRL: GRPO, RLOO, PPO, DPO, KTO, reward models and SFT on the transformers Trainer.

Keys are flat, with an `epoch` beside the step; the same keys appear as `train/…`
and `eval/…` in TensorBoard and the trackers.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings
from rltop.model import Algorithm
from rltop.structs import replace

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

_ALIASES = spellings("""
    loss | loss
    grad_norm | grad_norm
    lr | learning_rate | lr
    policy_loss | loss/policy_avg | policy_loss
    value_loss | loss/value_avg
    aux_loss | aux_loss
    nll_loss | nll_loss
    entropy | policy/entropy_avg | entropy | entropy/mean
    entropy_seq | objective/entropy
    clip_frac | clip_ratio/region_mean | clip_ratio | cispo_clip_ratio | policy/clipfrac_avg
    clip_frac_{low,high} | clip_ratio/{}_mean
    clip_frac_low_min | clip_ratio/low_min
    clip_frac_high_max | clip_ratio/high_max
    clip_frac_value | val/clipfrac_avg
    kl_old | policy/approxkl_avg
    kl_ref | objective/kl | kl
    kl_coef | beta
    ratio_mean | val/ratio
    ratio_mean PPO GRPO RLOO | ratio
    ratio_var | val/ratio_var
    stop_count | val/num_eos_tokens
    reward_mean | reward | objective/scores | objective/rlhf_reward
    score_mean | objective/scores
    reward_final | objective/rlhf_reward
    kl_reward | objective/non_score_reward
    reward_std | reward_std
    reward_component GRPO RLOO | rewards/*/mean | rewards/%
    reward_component_std GRPO RLOO | rewards/*/std
    zero_std_frac | frac_reward_zero_std
    # R1-V and what grew out of it.
    all_good_frac | all_correct
    all_bad_frac | all_wrong
    # Telescope's names: TRL logs no group lengths itself.
    group_len_ratio borrowed | group_length_max_median_ratio_mean | group_length_max_median_ratio
    group_len_gini borrowed | group_length_gini_mean | group_length_gini
    group_len_cv borrowed | group_length_cv_mean
    response_len_mean | completions/mean_length | completion_length
    response_len_{max,min} | completions/{}_length
    terminated_len_{mean,max,min} | completions/{}_terminated_length
    truncated_frac | completions/clipped_ratio
    tool_call_freq | tools/call_frequency
    tool_failure_frac | tools/failure_frequency
    rollout_logp_diff_{mean,max} | sampling/sampling_logp_difference/{}
    is_ratio_{mean,min,max} | sampling/importance_sampling_ratio/{}
    dpo_accuracy DPO KTO | rewards/accuracies
    dpo_margin DPO KTO | rewards/margins
    dpo_{chosen,rejected} DPO KTO | rewards/{}
    logps_{chosen,rejected} | logps/{}
    logits_{chosen,rejected} | logits/{}
    token_accuracy | mean_token_accuracy
    rm_{accuracy,margin} REWARD | {}
    rm_reward_{mean,min,max} REWARD | {}_reward
    val_score | eval_reward
    val_score GRPO RLOO | eval_*_reward
    val_loss | eval_loss | eval_*_loss
    val_acc | eval_rewards/accuracies | eval_accuracy
    val_acc SFT UNKNOWN | eval_mean_token_accuracy
    # Beside how the pairs are ranked, which is the accuracy that counts there.
    val_aux DPO KTO | eval_mean_token_accuracy
    val_acc DPO REWARD SFT UNKNOWN | eval_*_accuracy
    val_margin | eval_rewards/margins | eval_margin
    val_response_len | eval_completions/mean_length
    val_truncated_frac | eval_completions/clipped_ratio
    time_step | step_time
    samples_per_s | eps
    episode | episode
    num_tokens | num_tokens | num_input_tokens_seen
    epoch | epoch
    # The experimental asynchronous trainer.
    throughput | training_tok/s
    gen_throughput | generation_tok_per_s
    time_forward | forward_time_s
    time_weight_sync | weight_sync_time_s
    time_wait_data | queue_wait_time_s
    queue_size | buffer_qsize
    # Logged to trackers only, several times per step; a row keeps the last of its step.
    time_gen | profiling/Time taken: *.vLLM.generate | profiling/Time taken: *.transformers.generate
    time_reward | profiling/Time taken: *._calculate_rewards
    time_weight_sync | profiling/Time taken: *.sync_weights
    time_forward | profiling/Time taken: *.compute_loss
""")

_PIPELINE = spellings("""
    staleness_{mean,max} | sample/staleness_{}
    queue_size | sample/rollout_queue_size
    time_in_queue | sample/time_in_queue_s
    dropped_stale | sample/dropped_stale_total
    dropped_oversize | batch/dropped_oversize_total
    total_len_{mean,max} | sample/forwarded_tokens_{}
    trained_tokens | sample/trained_tokens_mean | batch/trained_tokens_per_step
    untrained_token_frac | batch/masked_token_frac
    batch_count | batch/samples_per_row | batch/microbatches_per_step | batch/groups_per_step
    seqlen_mean | batch/row_tokens_mean
    seqlen_balanced_max | batch/row_tokens_max
    row_imbalance | batch/row_imbalance
    packing_ratio | batch/packing_ratio
    batch_fill_frac | batch/row_fill_frac
    pad_frac | batch/pad_frac
    sample_count | batch/samples_per_step
    total_tokens | batch/forwarded_tokens_per_step
    time_step | perf/step_s
    time_wait_data | perf/rollout_wait_s
    time_update_actor | perf/fwd_bwd_s
    time_forward | perf/fwd_s
    time_{optimizer,weight_sync,weight_sync_pause,weight_sync_barrier,weight_sync_transfer} | perf/{}_s
    mfu | perf/mfu_fwd_bwd
    mfu_wall | perf/mfu_wall_clock
    throughput | perf/forwarded_tok_s_wall_clock
    trained_throughput | perf/trained_tok_s_wall_clock
    inflight_count | rollout/inflight
    gen_throughput | rollout/generated_tok_s
    time_gen_blocked | rollout/backpressure_s
    time_score_mean | rollout/score_s | env/reward_s
    time_score_wait | rollout/score_wait_s
    score_queue_size | rollout/score_queue_size
    time_score_blocked | rollout/score_block_s
    retry_count | rollout/vllm_retry_total
    time_gen_sample_mean | rollout/duration_s
    num_turns_{mean,max} | rollout/turns_{}
    samples_per_rollout | rollout/samples_per_rollout
    token_drift_frac | rollout/fork_frac | rollout/realign_frac
    token_drift | rollout/drift_tokens_mean | rollout/drift_tokens_max
    time_env_reset | env/reset_s
    time_tool_call | tools/latency_s | tools/%/latency_s
    tool_calls_total | tools/%/call_total
    tool_failures | tools/%/failure_total
    tool_unknown | tools/unknown_name_total
    tool_parallel | tools/parallel_calls_mean
    turn_limit_frac | tools/loop_exhausted_frac
    reward_component | rollout/correctness_mean
""")
"""The asynchronous trainer's, as named since 1.16; counters cover one logging window."""

_SYNC = ("pause", "barrier", "transfer")
_ASYNC_KEYS = (
    "weight_sync_time_s", "queue_wait_time_s", "sample/staleness_mean", "perf/weight_sync_s", "perf/rollout_wait_s",
)  # fmt: skip

_TIMING = TimingPlan(step_keys=("step_time", "train/step_time"), namespace=("profiling/Time taken: ",))
DIALECT = Dialect(
    name="TRL",
    fingerprints=FINGERPRINTS,
    aliases=_ALIASES,
    timing=_TIMING,
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
        *spellings("off_policy_kl | kl"),
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
        namespace=_TIMING.namespace,
    ),
)
"""The asynchronous trainer, whose `kl` is taken from the policy that sampled, not from a reference model."""
