"""open-instruct: `val/…` holds statistics of training, evaluations stand under `eval/`.

`global_step` counts episodes, `training_step` is the step; utilisation is per cent;
`objective/kl0_avg` to `kl3_avg` are four estimators of one KL, of which the third is
positive and of low variance.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.trainers.setup_hints import SetupHint, StreamKind

_OWN = (
    "val/sequence_lengths",
    "objective/kl0_avg",
    "val/stop_rate",
    "debug/vllm_vs_local_logprob_diff_mean",
    "learner_tokens_per_second_step",
)
_VERIFIABLE = ("objective/verifiable_reward", "objective/verifiable_correct_rate")
_PAIRS = frozenset({Algorithm.DPO})

DIALECT = Dialect(
    name="open-instruct",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=36),
        Fingerprint(Algorithm.PPO, any_of=_VERIFIABLE, all_of=("loss/value_avg",), weight=35),
        Fingerprint(Algorithm.UNKNOWN, any_of=_VERIFIABLE, weight=20),
        Fingerprint(Algorithm.DPO, all_of=("rewards/accuracy", "rewards/margin"), weight=32),
    ),
    aliases=(
        Alias("scores", "reward_mean"),
        Alias("objective/verifiable_reward", "reward_mean"),
        Alias("objective/scores", "reward_mean"),
        Alias("objective/rlhf_reward", "reward_final"),
        Alias("objective/non_score_reward", "kl_reward"),
        Alias("objective/verifiable_correct_rate", "success_frac"),
        # One of each verifier; scores are in the unit of the reward, ten for a right answer.
        Alias("objective/%_reward", "reward_component"),
        Alias("objective/%_correct_rate", "reward_component"),
        Alias("val/format_scores", "reward_component"),
        Alias("env/*", "sample_metric"),
        Alias("objective/kl2_avg", "kl_ref"),
        Alias("objective/kl3_avg", "kl_ref"),
        Alias("objective/kl1_avg", "kl_ref"),
        Alias("objective/kl_avg", "kl_ref"),
        Alias("objective/kl0_avg", "kl_ref"),
        Alias("objective/kl", "kl_ref"),
        Alias("objective/entropy", "entropy_seq"),
        Alias("loss/value_avg", "value_loss"),
        Alias("val/clipfrac_avg", "clip_frac_value"),
        Alias("loss/policy_avg", "policy_loss"),
        Alias("loss/total_avg", "loss"),
        Alias("policy/clipfrac_avg", "clip_frac"),
        Alias("policy/entropy_avg", "entropy"),
        Alias("policy/approxkl_avg", "kl_old"),
        Alias("val/ratio", "ratio_mean"),
        Alias("val/ratio_var", "ratio_var"),
        Alias("val/rho_clipfrac", "is_clip_frac"),
        Alias("val/tis_ratio", "is_ratio_mean"),
        Alias("val/rho_weight", "is_ratio_mean"),
        Alias("val/rho_drop_frac", "rollout_masked_frac"),
        Alias("debug/vllm_vs_local_logprob_diff_mean", "rollout_logp_diff_mean"),
        Alias("debug/vllm_vs_local_logprob_diff_max", "rollout_logp_diff_max"),
        Alias("debug/vllm_local_reverse_kl", "off_policy_kl"),
        Alias("optim/grad_norm", "grad_norm"),
        Alias("lr", "lr"),
        Alias("val/sequence_lengths", "response_len_mean"),
        Alias("val/sequence_lengths_max", "response_len_max"),
        Alias("val/sequence_lengths_min", "response_len_min"),
        # Share of completions that finished.
        Alias("val/stop_rate", "truncated_frac", scale=-1.0, shift=1.0),
        Alias("val/advantages_mean", "adv_mean"),
        Alias("val/advantages_max", "adv_max"),
        Alias("val/advantages_min", "adv_min"),
        Alias("batch/filtered_prompts_pct", "zero_std_frac"),
        Alias("batch/filtered_prompts", "zero_std_count"),
        Alias("batch/percent_solved_mean", "success_frac"),
        Alias("val/total_reward_groups", "sample_count"),
        Alias("tools/aggregate/avg_calls_per_rollout", "tool_calls_mean"),
        Alias("tools/%/avg_calls_per_rollout", "tool_calls_mean"),
        Alias("tools/aggregate/failure_rate", "tool_failure_frac"),
        Alias("tools/%/failure_rate", "tool_failure_frac"),
        Alias("tools/aggregate/avg_runtime", "time_tool_sample_mean"),
        Alias("tools/%/avg_runtime", "time_tool_sample_mean"),
        Alias("num_steps_off_policy", "staleness_mean"),
        Alias("model_step_mean", "sample_version"),
        Alias("stale_results_dropped", "stale_count"),
        Alias("learner_tokens_per_second_step", "throughput"),
        Alias("learner_tokens_per_second_overall", "throughput"),
        Alias("val/actor_tokens_per_second", "gen_throughput"),
        Alias("actor_tokens_per_second", "gen_throughput"),
        Alias("learner_mfu", "mfu", scale=0.01),
        Alias("actor_mfu", "mfu_infer", scale=0.01),
        Alias("perf/mfu_step", "mfu", scale=0.01),
        Alias("perf/tokens_per_second_step", "throughput"),
        Alias("time/total", "time_step"),
        Alias("time/training", "time_update_actor"),
        Alias("time/group_generation_max", "time_gen_sample_max"),
        Alias("time/group_generation_mean", "time_gen_sample_mean"),
        Alias("time/trainer_waiting_for_data", "time_wait_data"),
        Alias("time/generation_waiting_for_trainer", "time_wait_policy"),
        Alias("time/weight_sync", "time_weight_sync"),
        Alias("time/saving", "time_save"),
        # In the unit of the reward, and in every evaluation; the shares beside it are left out of some.
        Alias("eval/scores", "val_score"),
        Alias("eval/pass_at_*", "val_passk"),
        Alias("eval/sequence_lengths", "val_response_len"),
        Alias("eval/stop_rate", "val_truncated_frac", scale=-1.0, shift=1.0),
        Alias("eval/objective/*", "val_aux"),
        Alias("rewards/accuracy", "dpo_accuracy", algorithms=_PAIRS),
        Alias("rewards/margin", "dpo_margin", algorithms=_PAIRS),
        Alias("rewards/chosen", "dpo_chosen", algorithms=_PAIRS),
        Alias("rewards/rejected", "dpo_rejected", algorithms=_PAIRS),
        Alias("train_loss", "loss"),
        Alias("logps/chosen", "logps_chosen"),
        Alias("logps/rejected", "logps_rejected"),
        Alias("episode", "episode"),
        Alias("epoch", "epoch"),
        Alias("val/total_tokens", "num_tokens"),
        Alias("val/num_total_tokens", "num_tokens"),
        Alias("val/num_step_tokens", "total_tokens"),
    ),
    timing=TimingPlan(
        step_keys=("time/total",),
        stages=(
            Stage("time/trainer_waiting_for_data", name="waiting for data"),
            Stage("time/training", name="training"),
            Stage("time/weight_sync", name="weight sync"),
            Stage("time/saving", name="saving", fits_inside=True),
            Stage("time/health_check", name="health check", fits_inside=True),
            Stage("time/generation_waiting_for_trainer", name="samplers wait for the trainer", lane=1),
        ),
        statistics=("time/group_generation_*", "time/%_mean", "time/%_max", "time/%_min", "time/getting_response"),
        namespace=("time/",),
    ),
    hidden=("global_step", "training_step", "model_step_min", "model_step_max", "batch/no_resampled_prompts"),
    training_keys=("loss/*", "policy/*", "optim/grad_norm", "train_loss"),
    traits=(
        TraitEvidence("is_async", ("num_steps_off_policy",)),
        TraitEvidence("has_critic", ("loss/value_avg",)),
        TraitEvidence("kl_is_sequence_sum", ("objective/kl",)),
    ),
    group_size_keys=("num_samples_per_prompt_rollout",),
    misleading=(
        ("val/sequence_lengths_solved", "Mean length of the completions that are right; 0 where none is."),
        ("val/sequence_lengths_unsolved", "Mean length of the completions that are wrong; 0 where none is."),
        ("loss/kl_avg", "The KL term of the loss: the KL to the reference times its coefficient."),
        ("batch/filtered_prompts_solved", "How many prompts were left out because every completion was right."),
    ),
)

SETUP_HINT = SetupHint(
    "open-instruct",
    "--with_tracking",
    "wandb/run-<time>-<id>/run-<id>.wandb",
    StreamKind.WANDB,
    note="Logs to W&B and the console only; the console has two decimals.",
    leaves="the console output",
)
