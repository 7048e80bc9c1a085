"""SkyRL: its own keys, and the tinker-like ones of its training backend."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, spellings, stages
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
        *spellings("grad_norm | skyrl.ai/grad_norm"),
        *tinker.DIALECT.aliases,
        *spellings("lr | skyrl.ai/learning_rate"),
    ),
    training_keys=("optim/kl_*", "optim/entropy", "skyrl.ai/*"),
)
"""A tinker-shaped run on SkyRL's backend."""

_ROLLOUT = ("generate/avg_num_tokens", "reward/avg_raw_reward")
_CRITIC = ("timing/critic_train", "critic/critic_loss", "critic/values_mean")


_ALIASES = spellings("""
    reward_mean | reward/avg_raw_reward | loss/avg_raw_rewards
    reward_final | loss/avg_final_rewards
    reward_component | reward/avg_pass_at_*
    zero_std_count | reward/num_zero_variance_filtered
    discarded_count | async/num_groups_dropped
    response_len_mean | generate/avg_num_tokens
    response_len_{max,min,std} | generate/{}_num_tokens
    time_gen_sample_{max,mean} | generate/trajectory_time_completion_{} | generate/trajectory_time_%_{}
    kl_ref | policy/policy_kl | loss/avg_kl
    clip_frac | policy/loss_metrics/clip_ratio | policy/ppo_clip_ratio
    is_ratio_{mean,max,min} | policy/loss_metrics/is_ratio_{} | policy/is_ratio_{}
    is_clip_frac | policy/loss_metrics/tis_token_clip_high_ratio
    entropy | policy/policy_entropy
    policy_loss | policy/policy_loss
    loss | policy/final_loss
    lr | policy/policy_lr
    grad_norm | policy/grad_norm | policy/raw_grad_norm
    value_loss | critic/critic_loss
    rollout_logp_diff_{mean,max} | policy/rollout_train_logprobs_abs_diff_{}
    staleness_{mean,max} | async/staleness_{}
    queue_size | async/gen_buffer_qsize_at_wait_start
    throughput_per_gpu | trainer/tokens_per_second_per_gpu
    # Of the inference engines while they generate for training; those of evaluations stand under `vllm/eval/`.
    gen_throughput | vllm/train/generation_throughput_tok_s | vllm/generation_throughput_tok_s
    prefix_cache_hit | vllm/train/prefix_cache_hit_rate | vllm/prefix_cache_hit_rate
    spec_accept_rate | vllm/train/draft_acceptance_rate | vllm/draft_acceptance_rate
    epoch | trainer/epoch
    time_step | timing/step
    time_gen | timing/generate
    time_wait_data | timing/wait_for_generation_buffer
    time_update_actor | timing/policy_train
    time_update_all | timing/train_critic_and_policy | timing/run_training
    time_update_critic | timing/critic_train
    time_old_log_prob | timing/fwd_logprobs_values_reward
    time_adv | timing/compute_advantages_and_returns
    time_weight_sync | timing/sync_weights
    time_save | timing/save_checkpoints
    time_eval | timing/eval
    val_score | eval/all/avg_score | eval/*/avg_score
    val_passk | eval/all/pass_at_*
    # Engines stand under `vllm/` in the asynchronous trainer, under `vllm/train/` in the other.
    staleness_min | async/staleness_min
    stale_frac | async/staleness_ratio
    staleness_violations | async/staleness_violation_count
    filter_pass_rate | async/keep_rate
    time_prepare | timing/convert_to_training_input
    engine_{running,waiting} | vllm/num_requests_{} | vllm/train/num_requests_{}
    kv_cache_frac | vllm/kv_cache_usage_perc | vllm/train/kv_cache_usage_perc
    prompt_throughput | vllm/prompt_throughput_tok_s | vllm/train/prompt_throughput_tok_s
    time_first_token | vllm/ttft_seconds_avg | vllm/train/ttft_seconds_avg
    time_next_token ×1000 | vllm/tpot_seconds_avg | vllm/train/tpot_seconds_avg
    spec_tokens | vllm/draft_num_%
    spec_accept_len | vllm/draft_mean_acceptance_length | vllm/train/draft_mean_acceptance_length
    spec_accept_pos | vllm/draft_acceptance_rate_pos_%
    time_gen_sample_high | generate/trajectory_time_%_p90
    time_group | generate/group_completion_time_%
    time_group_spread | generate/intra_group_completion_time_std_mean
    group_time_cv | generate/intra_group_completion_time_cv_mean
    aborted_count | generate/num_timeout_trajectories | generate/num_error_trajectories
    num_turns_mean | generate/avg_num_turns
""")

DIALECT = Dialect(
    name="SkyRL",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("policy/policy_loss",), weight=27),
        Fingerprint(Algorithm.GRPO, any_of=_ROLLOUT, none_of=_CRITIC, weight=26),
    ),
    aliases=_ALIASES,
    timing=TimingPlan(
        step_keys=("timing/step",),
        stages=(
            *stages("timing/{}", "wait_for_generation_buffer", "generate", "convert_to_training_input"),
            *stages("timing/{}", "fwd_logprobs_values_reward", "apply_reward_kl_penalty"),
            *stages("timing/{}", "compute_advantages_and_returns", "train_critic_and_policy"),
            *stages("timing/{}", "critic_train", "policy_train", parent="train_critic_and_policy"),
            *stages("timing/{}", "sync_weights"),
            *stages("timing/{}", "save_checkpoints", "eval", fits_inside=True),
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
