"""SkyRL: its own keys, and the tinker-like ones of its training backend."""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import tinker

BACKEND: Dialect = replace(
    tinker.DIALECT,
    name="SkyRL",
    variant="tinker backend",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, all_of=("skyrl.ai/*", "env/*"), weight=40),
        Fingerprint(Algorithm.UNKNOWN, all_of=("skyrl.ai/*",), weight=35),
    ),
    aliases=(
        Alias("skyrl.ai/grad_norm", "grad_norm"),
        *tinker.DIALECT.aliases,
        Alias("skyrl.ai/learning_rate", "lr"),
    ),
    training_keys=("optim/kl_*", "optim/entropy", "skyrl.ai/*"),
)
"""A tinker-shaped run on SkyRL's backend."""

_ROLLOUT = ("generate/avg_num_tokens", "reward/avg_raw_reward")
_CRITIC = ("timing/critic_train", "critic/critic_loss", "critic/values_mean")


_PIPELINE = (
    Alias("async/staleness_min", "staleness_min"),
    Alias("async/staleness_ratio", "stale_frac"),
    Alias("async/staleness_violation_count", "staleness_violations"),
    Alias("async/num_groups_dropped", "zero_std_count"),
    Alias("async/keep_rate", "filter_pass_rate"),
    Alias("timing/run_training", "time_update_all"),
    Alias("timing/convert_to_training_input", "time_prepare"),
    Alias("vllm/num_requests_running", "engine_running"),
    Alias("vllm/num_requests_waiting", "engine_waiting"),
    Alias("vllm/kv_cache_usage_perc", "kv_cache_frac"),
    Alias("vllm/generation_throughput_tok_s", "gen_throughput"),
    Alias("vllm/prompt_throughput_tok_s", "prompt_throughput"),
    Alias("vllm/prefix_cache_hit_rate", "prefix_cache_hit"),
    Alias("vllm/ttft_seconds_avg", "time_first_token"),
    Alias("vllm/tpot_seconds_avg", "time_next_token", scale=1000.0),
    Alias("vllm/draft_num_%", "spec_tokens"),
    Alias("vllm/draft_acceptance_rate", "spec_accept_rate"),
    Alias("vllm/draft_mean_acceptance_length", "spec_accept_len"),
    Alias("vllm/draft_acceptance_rate_pos_%", "spec_accept_pos"),
    Alias("vllm/train/num_requests_running", "engine_running"),
    Alias("vllm/train/num_requests_waiting", "engine_waiting"),
    Alias("vllm/train/kv_cache_usage_perc", "kv_cache_frac"),
    Alias("vllm/train/ttft_seconds_avg", "time_first_token"),
    Alias("vllm/train/tpot_seconds_avg", "time_next_token", scale=1000.0),
    Alias("vllm/train/prompt_throughput_tok_s", "prompt_throughput"),
    Alias("vllm/train/draft_mean_acceptance_length", "spec_accept_len"),
    Alias("generate/trajectory_time_%_mean", "time_gen_sample_mean"),
    Alias("generate/trajectory_time_%_max", "time_gen_sample_max"),
    Alias("generate/trajectory_time_%_p90", "time_gen_sample_high"),
    Alias("generate/group_completion_time_%", "time_group"),
    Alias("generate/intra_group_completion_time_std_mean", "time_group_spread"),
    Alias("generate/intra_group_completion_time_cv_mean", "group_time_cv"),
    Alias("generate/num_timeout_trajectories", "aborted_count"),
    Alias("generate/num_error_trajectories", "aborted_count"),
    Alias("generate/avg_num_turns", "num_turns_mean"),
)
"""Engines stand under `vllm/` in the asynchronous trainer, under `vllm/train/` in the other."""


def _stage(name: str, parent: str = "") -> Stage:
    return Stage(f"timing/{name}", name=name, parent=parent)


DIALECT = Dialect(
    name="SkyRL",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("policy/policy_loss",), weight=27),
        Fingerprint(Algorithm.GRPO, any_of=_ROLLOUT, none_of=_CRITIC, weight=26),
    ),
    aliases=(
        Alias("reward/avg_raw_reward", "reward_mean"),
        Alias("loss/avg_raw_rewards", "reward_mean"),
        Alias("loss/avg_final_rewards", "reward_final"),
        Alias("reward/avg_pass_at_*", "reward_component"),
        Alias("reward/num_zero_variance_filtered", "zero_std_count"),
        Alias("generate/avg_num_tokens", "response_len_mean"),
        Alias("generate/max_num_tokens", "response_len_max"),
        Alias("generate/min_num_tokens", "response_len_min"),
        Alias("generate/std_num_tokens", "response_len_std"),
        Alias("generate/trajectory_time_completion_max", "time_gen_sample_max"),
        Alias("generate/trajectory_time_completion_mean", "time_gen_sample_mean"),
        Alias("policy/policy_kl", "kl_ref"),
        Alias("loss/avg_kl", "kl_ref"),
        Alias("policy/loss_metrics/clip_ratio", "clip_frac"),
        Alias("policy/ppo_clip_ratio", "clip_frac"),
        Alias("policy/loss_metrics/is_ratio_mean", "is_ratio_mean"),
        Alias("policy/loss_metrics/is_ratio_max", "is_ratio_max"),
        Alias("policy/loss_metrics/is_ratio_min", "is_ratio_min"),
        Alias("policy/loss_metrics/tis_token_clip_high_ratio", "is_clip_frac"),
        Alias("policy/is_ratio_mean", "is_ratio_mean"),
        Alias("policy/is_ratio_max", "is_ratio_max"),
        Alias("policy/is_ratio_min", "is_ratio_min"),
        Alias("policy/policy_entropy", "entropy"),
        Alias("policy/policy_loss", "policy_loss"),
        Alias("policy/final_loss", "loss"),
        Alias("policy/policy_lr", "lr"),
        Alias("policy/grad_norm", "grad_norm"),
        Alias("policy/raw_grad_norm", "grad_norm"),
        Alias("critic/critic_loss", "value_loss"),
        Alias("policy/rollout_train_logprobs_abs_diff_mean", "rollout_logp_diff_mean"),
        Alias("policy/rollout_train_logprobs_abs_diff_max", "rollout_logp_diff_max"),
        Alias("async/staleness_mean", "staleness_mean"),
        Alias("async/staleness_max", "staleness_max"),
        Alias("async/gen_buffer_qsize_at_wait_start", "queue_size"),
        Alias("trainer/tokens_per_second_per_gpu", "throughput_per_gpu"),
        # Of the inference engines while they generate for training; those of evaluations stand under `vllm/eval/`.
        Alias("vllm/train/generation_throughput_tok_s", "gen_throughput"),
        Alias("vllm/train/prefix_cache_hit_rate", "prefix_cache_hit"),
        Alias("vllm/train/draft_acceptance_rate", "spec_accept_rate"),
        Alias("trainer/epoch", "epoch"),
        Alias("timing/step", "time_step"),
        Alias("timing/generate", "time_gen"),
        Alias("timing/wait_for_generation_buffer", "time_wait_data"),
        Alias("timing/policy_train", "time_update_actor"),
        Alias("timing/train_critic_and_policy", "time_update_all"),
        Alias("timing/critic_train", "time_update_critic"),
        Alias("timing/fwd_logprobs_values_reward", "time_old_log_prob"),
        Alias("timing/compute_advantages_and_returns", "time_adv"),
        Alias("timing/sync_weights", "time_weight_sync"),
        Alias("timing/save_checkpoints", "time_save"),
        Alias("timing/eval", "time_eval"),
        Alias("eval/all/avg_score", "val_score"),
        Alias("eval/*/avg_score", "val_score"),
        Alias("eval/all/pass_at_*", "val_passk"),
        *_PIPELINE,
    ),
    timing=TimingPlan(
        step_keys=("timing/step",),
        stages=(
            _stage("wait_for_generation_buffer"),
            _stage("generate"),
            _stage("convert_to_training_input"),
            _stage("fwd_logprobs_values_reward"),
            _stage("apply_reward_kl_penalty"),
            _stage("compute_advantages_and_returns"),
            _stage("train_critic_and_policy"),
            _stage("critic_train", "train_critic_and_policy"),
            _stage("policy_train", "train_critic_and_policy"),
            _stage("sync_weights"),
            Stage("timing/save_checkpoints", name="save_checkpoints", fits_inside=True),
            Stage("timing/eval", name="eval", fits_inside=True),
        ),
        namespace=("timing/",),
    ),
    hidden=("trainer/*",),
    staleness_bounds=("max_staleness_steps",),
    training_keys=("policy/*", "timing/step"),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence("is_async", ("async/*", "timing/wait_for_generation_buffer")),
    ),
)
