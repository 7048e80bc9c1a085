"""TRL: GRPO, RLOO, PPO, DPO, KTO, reward models and SFT on the transformers Trainer.

Keys are flat, with an `epoch` beside the step; the same keys appear as `train/…`
and `eval/…` in TensorBoard and the trackers.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers.setup_hints import CALLBACK_LINE, RolloutHint, SetupHint

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
        TraitEvidence("is_async", ("weight_sync_time_s", "queue_wait_time_s")),
        TraitEvidence("kl_is_sequence_sum", ("objective/kl",)),
    ),
    group_size_keys=("num_generations", "group_size"),
)

ASYNC = replace(
    DIALECT,
    variant="async GRPO",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, all_of=("reward",), any_of=("weight_sync_time_s", "queue_wait_time_s"), weight=26),
    ),
    aliases=(Alias("kl", "off_policy_kl"), *(alias for alias in DIALECT.aliases if alias.pattern != "kl")),
)
"""The asynchronous trainer, whose `kl` is taken from the policy that sampled, not from a reference model."""

SETUP_HINT = SetupHint(
    "TRL",
    CALLBACK_LINE,
    "logs/metrics.jsonl",
    note=(
        "Works with every TRL trainer: GRPO, RLOO, PPO, DPO, KTO, Reward, SFT. Set logging_steps=1 to log every step. "
        "Without it TRL leaves only trainer_state.json, and that only at checkpoints."
    ),
    leaves="<output_dir>/checkpoint-<N>/trainer_state.json at checkpoints, and the console output",
)

ROLLOUT_HINT = RolloutHint("TRL", "log_completions=True", "<output_dir>/completions/completions_<step>.parquet")
