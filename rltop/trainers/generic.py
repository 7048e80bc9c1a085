"""Names that many loops use: what can be said of a file from no known trainer.

Only spellings whose meaning hardly varies stand here; everything else stays visible under its own key.
"""

from __future__ import annotations

from collections.abc import Iterable

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings
from rltop.model import Algorithm

_PAIRS = frozenset({Algorithm.DPO})
_ROLLOUTS = frozenset(Algorithm) - _PAIRS
_NO_JUDGE = frozenset(Algorithm) - {Algorithm.REWARD}
_ACCURACY = ("accuracy", "acc", "train_accuracy", "mean_accuracy")
_DPO = ("rewards/accuracies", "rewards/accuracy", "rewards/margins", "dpo/*", "dpo_loss", "loss/dpo")
_CHOSEN = ("chosen_reward", "chosen_rewards", "reward_chosen", "rewards_chosen", "rewards/chosen", "reward/chosen")
"""Beside its rejected one: the two rewards that a loop of its own logs of each pair."""
_SCORES = (
    *(("chosen_score", "rejected_score"), ("chosen_scores", "rejected_scores")),
    *(("positive_score", "negative_score"), ("Positive Score", "Negative Score")),
)
"""What a reward model gives to the two completions of a pair."""
_Q = ("q_loss", "qf_loss", "qf1_loss", "td_loss", "td_error", "q_values", "mean_q", "q_mean", "epsilon")
"""Keys of DQN, SAC and their like, whose critic is no value function of PPO."""
_POLICY = (
    *("actor/*", "policy/*", "policy_loss", "loss/policy*", "objective/*", "rollout/*"),
    *("reward", "reward_mean", "kl", "entropy", "completions/*", "response_length*"),
)
"""Keys of a policy: a reward model that is trained beside them is not what the run is for."""
_NO_PAIRS = ("rm/*", "policy_loss", "actor/*", "completions/*", "acc_mean")
"""Keys of a policy that samples, or of a reward model that learns from pairs."""
_CRITIC = ("value_loss", "critic_loss", "cri_loss", "Critic Loss", "vf_loss", "explained_variance")
_CLIPPED = ("*clip*", "*kl*", "*KL*", "ratio", "ratio_mean", "importance_ratio", "ppo_*")
"""Keys of an update that is kept near the policy before it. A2C, DDPG and others have a critic, and none of these."""
_LOOPS = spellings("""
    loss | loss | train_loss | total_loss | loss/total | loss/train | loss/mean | dpo/loss | loss/dpo
    policy_loss | policy_loss | pg_loss | actor_loss | policy_gradient_loss | loss/policy | policy/loss
    policy_loss | loss/policy_gradient_loss | train/loss_actor | rl_loss | act_loss | Actor Loss
    value_loss | value_loss | critic_loss | vf_loss | loss/value | critic/loss | loss/value_function_loss
    value_loss | train/loss_critic | cri_loss | {mean,avg}_{value,critic}_loss | loss/v
    loss | {mean,avg}_total_loss | epoch_loss | training_loss | train_loss_mean
    policy_loss | {mean,avg}_{policy,actor}_loss | loss/pi
    explained_var | explained_variance | explained_var
    # Of several agents the reward of all; that of each is one of its parts.
    reward_mean | team_reward | team_reward_mean | mean_team_reward | team/reward | reward/team | reward_team
    reward_mean | joint_reward | shared_reward | collective_reward | global_reward | mean_reward | reward_mean | reward
    reward_mean | rewards | avg_reward | average_reward | reward/mean | rewards/mean | rollout/reward_mean
    reward_mean | rollout/ep_rew_mean | episode_reward_mean | episodic_return | eprewmean | eprew
    reward_mean | rewards/mean_episodes | rollout_reward_mean | rollout_mean_reward | train/{reward_mean,mean_reward}
    reward_mean | proxy_reward | proxy_score | proxy
    reward_mean | environment/mean_episode_return | rollout/return | Reward | reward_ema | ema_reward | smoothed_reward
    reward_mean | outcome_reward | outcome_reward_mean | rollout/outcome_reward_mean | average_reward_score
    reward_mean | episode_reward | episode_return | total_reward | return | average_return | mean_return
    episode_len | episode_length | episode_len | ep_len | mean_episode_length | ep_len_mean | episodic_length | eplen
    episode_len | environment/mean_episode_length | rollout/episode_length | len/mean_episodes
    score_mean | score | scores | mean_score | raw_reward
    reward_std | reward_std | std_reward | reward/std | group_reward_std | rollout/reward_std
    reward_{max,min} | {}_reward | reward_{} | reward/{}
    success_frac | success_rate | success | solve_rate | env/success_once | successes | pass_rate | rollout/success_rate
    success_frac | reward/pass@1 | correct_rate | correct_rate_ema | success_ema | win_rate | train/success_rate
    zero_std_frac | frac_reward_zero_std | zero_std_frac | frac_zero_std | zero_{variance,gradient,advantage}_frac
    zero_std_frac | {zero,no}_{variance,gradient,advantage,contrast}_{,group_}fraction
    adv_mean | advantage_mean | mean_advantage | advantages/mean | advantages_mean | Adv Mean
    kl_ref | kl | kl_div | kl_ref | kl_loss | mean_kl | kl_divergence | kl_mean | loss/kl_div | ref_kl
    kl_old | approx_kl | ppo_kl | approxkl | kl_old | policy_kl | approx_policy_kl | train/approx_kl | policy/approx_kl
    kl_old | loss/approximate_kullback-leibler
    kl_coef | kl_coef | kl_coeff | beta
    off_policy_kl | kl_divergence_inference | vllm_kl | gen_kl_error | mismatch_kl | rollout_train_kl | train_rollout_kl
    off_policy_kl | rollout_kl | sampler_trainer_kl
    staleness_mean | staleness | staleness_mean | mean_staleness | staleness/mean | policy_staleness
    staleness_max | staleness_max | max_staleness | staleness/max
    rollout_logp_diff_mean | rollout_train_logp_diff | train_rollout_logp_diff | rollout_logp_diff
    mult_prob_error | token_mult_prob_error | train/token_mult_prob_error
    entropy | entropy | mean_entropy | policy_entropy | entropy_mean | policy/entropy | approx_entropy | token_entropy
    clip_frac | clip_frac | clip_fraction | clipfrac | clip_ratio | ppo_clip_ratio | pg_clipfrac
    clip_frac | {policy,actor,ppo,grpo,loss,losses,logps,update,optim}/{clip_frac,clip_fraction,clipfrac,clip_ratio}
    clip_frac | {policy,actor,ppo,grpo,ratio}_{clip_frac,clip_fraction,clipfrac} | ratio_clipped_frac
    clip_frac | {clip_frac,clip_fraction,clipfrac,clip_ratio}{/,_}mean | mean_{clip_frac,clip_fraction,clip_ratio}
    ratio_mean | ratio | ratio_mean | ratios | importance_ratio | mean_ratio
    grad_norm | grad_norm | gradient_norm | actor_grad_norm | grad_norm/total | optim/grad_norm | unclipped_grad_l2:mean
    grad_norm | optim/unclipped_grad_l2:mean
    grad_norm_critic | critic_grad_norm
    lr | lr | learning_rate | actor_lr | optim/lr | train/learning_rate | Learning Rate | LR
    lr_critic | critic_lr
    lr_scheduler | lr_scheduler/*
    response_len_mean | response_length | response_length_mean | mean_response_length | completion_length
    response_len_mean | mean_completion_length | completions/mean_length | response_length/mean | length_completion_mean
    response_len_mean | response_lengths | avg_response_length | mean_length | completion_len | completion_len_mean
    response_len_mean | mean_completion_len | avg_completion_length
    response_len_{max,min} | {}_response_length | response_length_{} | response_length/{} | length_completion_{}
    truncated_frac | truncated | truncated_frac | truncated_rate | truncation_rate | truncated_ratio
    truncated_frac | response_clip_ratio
    group_len_ratio | group_length_max_median_ratio_mean | group_length_max_median_ratio
    group_len_ratio | */group_length_max_median_ratio_mean | */group_length_max_median_ratio
    group_len_gini | group_length_gini_mean | group_length_gini
    group_len_cv | group_length_cv_mean
    reward_gini | reward_gini_mean | reward_gini
    discarded_count | discarded_{count,samples,rollouts} | */discarded_{count,samples,rollouts} | */num_discarded
    filter_pass_rate | filter_pass_rate | dynamic_filtering_pass_rate
    num_turns_mean | num_turns | mean_turns | turns | num_turns/mean
    dpo_accuracy | rewards/accuracies | rewards/accuracy | reward_accuracy | preference_accuracy | dpo/accuracy
    dpo_accuracy | dpo/acc | dpo/reward_accuracy | dpo/accuracies | dpo/rewards/accuracies
    dpo_margin | rewards/margins | reward_margin | margins | rewards/chosen − rejected | dpo/margin | dpo/reward_margin
    dpo_margin | dpo/margins | dpo/rewards/margins | chosen_reward − rejected_reward | chosen_reward − reject_reward
    dpo_margin | chosen_rewards − rejected_rewards | chosen_rewards − reject_rewards | reward_chosen − reward_rejected
    dpo_margin | rewards_chosen − rewards_rejected | reward/chosen − rejected
    dpo_chosen | rewards/chosen | chosen_reward | chosen_rewards | dpo/chosen_reward | dpo/rewards/chosen
    dpo_chosen | dpo/chosen_rewards | dpo/reward_chosen | reward_chosen | rewards_chosen | reward/chosen
    dpo_rejected | reject_rewards | reward_rejected | rewards_rejected | reward/rejected | rewards/rejected
    dpo_rejected | rejected_reward | reject_reward | rejected_rewards | dpo/rejected_reward | dpo/rewards/rejected
    dpo_rejected | dpo/rejected_rewards | dpo/reward_rejected
    dpo_{chosen,rejected} | {}_score | {}_scores
    dpo_chosen | positive_score | Positive Score
    dpo_rejected | negative_score | Negative Score
    rm_accuracy | rm/accuracy | rm/acc
    rm_margin | rm/reward_margin | rm/margin | chosen_score − rejected_score | chosen_scores − rejected_scores
    token_accuracy | token_accuracy | mean_token_accuracy
    val_loss | val_loss | eval_loss | validation_loss | val/loss | eval/loss | test_loss
    val_score | val_score | val_reward | eval_reward | eval/reward | val/reward | eval_score | test_reward
    val_score | eval/mean_reward | eval_mean_reward | eval/reward_mean | eval/return | eval_return | eval/*/reward
    val_score | {gold,true}_{reward,score} | gold | eval/*/score | val/*/reward | val/*/score | eval/*/mean_reward
    val_return | evaluation/average_reward | evaluation/mean_reward | evaluation/return
    val_acc | val_accuracy | val_acc | eval_accuracy | eval/accuracy | val/accuracy | eval_acc | test_acc
    val_acc | val/success_rate | eval/success_rate | eval_success_rate | val_success_rate
    time_step | step_time | time_per_step | step_time_s | time/step | iteration_time | timing_step_total | time/total
    time_step | timing/step_total | time_this_iter_s | sec_per_step | seconds_per_step
    # No clock: an epoch is the time of its row, and what rises on each row is refused.
    time_step | time
    time_gen | generation_time | rollout_time | gen_time | generate_time | timing/generation
    time_update_actor | train_time | update_time | training_time | timing/ppo_train
    time_weight_sync | timing/broadcast | weight_sync_time | sync_time
    time_elapsed | elapsed_time | elapsed | time_elapsed | elapsed_s | wall_clock_s
    throughput | throughput | tokens_per_second | tokens_per_sec | tok_per_s | tokens/s
    gen_throughput | generation_tok_per_s | gen_tokens_per_second
    samples_per_s | samples_per_second | eps | fps | time/fps | sps
    mfu | mfu | MFU
    mem_alloc_gb | memory_gb | gpu_memory_gb | memory_allocated_gb | max_memory_allocated_gb | gpu_mem_gb
    mem_reserved_gb | memory_reserved_gb | max_memory_reserved_gb
    mem_peak_gb | actual_memory_gb | peak_memory_gb | max_memory_gb | peak_memory
    mem_cpu_gb | cpu_memory_gb | cpu_memory_used_gb
    num_tokens | num_tokens | total_tokens | tokens_seen | num_input_tokens_seen | tokens_processed
    progress | progress/done_frac
    epoch | epoch
    steps_trained | info/num_steps_trained | num_steps_trained | num_env_steps_trained | n_updates
    steps_trained | info/num_env_steps_trained | counters/num_env_steps_trained | ray/tune/info/num_steps_trained
    curriculum_level | curriculum_level | curriculum/level | curriculum_stage | curriculum/stage | curriculum
    curriculum_level | curriculum/difficulty | difficulty | curriculum/step | curriculum_difficulty
    episode | episode | episodes | consumed_samples | consumed samples | samples_seen
    total_steps | total_steps | max_steps
""")
_MACHINE = spellings("""
    # What is known of a whole machine first. Ray's, as NeMo-RL and SkyRL write it: utilisation in per cent.
    gpu_util ×0.01 | ray/gpu.util.avg | ray/node.%.gpu.%.util
    gpu_mem_gb | ray/gpu.mem_used_gb.avg | ray/node.%.gpu.%.mem_used_gb | ray/node.%.gpu.%.mem_gb
    mem_cpu_gb | ray/cpu_ram_used_gb.avg | ray/node.%.cpu_ram_used_gb | ray/node.%.mem_gb
    # Trackio
    gpu_util ×0.01 | system/gpu/mean_utilization | system/gpu/%/utilization
    gpu_mem_frac | system/gpu/%/memory_usage
    gpu_mem_gb | system/gpu/%/allocated_memory
    gpu_power | system/gpu/%/power
    gpu_temp | system/gpu/max_temp | system/gpu/%/temp
    gpu_errors | system/gpu/%/uncorrected_memory_errors
    # MLflow, in decimal megabytes and gigabytes
    gpu_util ×0.01 | system/gpu_%_utilization_percentage
    gpu_mem_frac ×0.01 | system/gpu_%_memory_usage_percentage
    gpu_mem_gb ×0.0009313225746154785 | system/gpu_%_memory_usage_megabytes
    gpu_mem_gb ×0.9313225746154785 | system/gpu_%_memory_usage_gigabytes
    gpu_power | system/gpu_%_power_usage_watts
    cpu_util ×0.01 | system/cpu_utilization_percentage
    ram_util ×0.01 | system/system_memory_usage_percentage
    # W&B, and its exports. Memory in bytes.
    gpu_mem_frac ×0.01 | system{/,.}gpu.%.memoryAllocated
    gpu_mem_gb ×9.313225746154785e-10 | system{/,.}gpu.%.memoryAllocatedBytes
    gpu_util ×0.01 | system{/,.}gpu.%.gpu
    gpu_power | system{/,.}gpu.%.powerWatts
    gpu_errors | system{/,.}gpu.%.uncorrectedMemoryErrors
    gpu_temp | system.gpu.%.temp
    cpu_util ×0.01 | system{/,.}cpu
    ram_util ×0.01 | system{/,.}memory_percent
    # SwanLab. Memory in MiB.
    cpu_util ×0.01 | system/{,__swanlab__.}cpu.pct
    ram_util ×0.01 | system/{,__swanlab__.}mem.pct
    gpu_mem_frac ×0.01 | system/{,__swanlab__.}{gpu,npu,mlu,dcu,xpu}.%.mem.pct
    gpu_mem_gb ×0.0009765625 | system/{,__swanlab__.}{gpu,npu,mlu,dcu,xpu}.%.mem.value
    gpu_util ×0.01 | system/{,__swanlab__.}{gpu,npu,mlu,dcu,xpu}.%.pct
    gpu_{temp,power} | system/{,__swanlab__.}{gpu,npu,mlu,dcu,xpu}.%.{}
""")
"""Samples of the machine, as trackers name them; a key of each card is an instance of one metric."""

_STAGES: tuple[tuple[str, ...], ...] = (
    ("data", "load_data", "data_loading"),
    ("gen", "generate", "generation", "rollout", "rollouts", "sample", "sampling", "inference", "collect"),
    ("reward", "rewards", "score", "scoring", "verify"),
    ("ref", "ref_logprob", "ref_logprobs", "logprob", "logprobs", "old_log_prob", "adv", "advantage", "advantages"),
    ("train", "training", "update", "policy_update", "learn", "optimize"),
    ("sync", "sync_weights", "weight_sync", "broadcast"),
)
"""What loops call the stages of a step, in the order in which they run."""
_INSIDE = ("forward", "backward", "forward_backward", "optimizer", "optim")
_SOMETIMES = ("eval", "evaluation", "validation", "val", "save", "checkpoint", "save_checkpoint")
_TIMES = ("time/", "timing/", "timing_s/", "times/", "time_")
_OFTEN_TOTALS = ("train", "training", "learn")
"""With `_time` behind it, this is often the time since the beginning."""


def _stages() -> Iterable[Stage]:
    for words in _STAGES:
        for word in words:
            yield from (Stage(f"{space}{word}", name=word) for space in _TIMES)
            if word not in _OFTEN_TOTALS:
                yield from (Stage(f"{word}_time{unit}", name=word) for unit in ("", "_s"))
    for word in _INSIDE:
        yield from (Stage(f"{space}{word}", name=word, parent="train") for space in _TIMES)
    for word in _SOMETIMES:
        yield from (Stage(f"{space}{word}", name=word, fits_inside=True) for space in _TIMES)


DIALECT = Dialect(
    name="generic",
    is_any_case=True,
    fingerprints=(
        Fingerprint(Algorithm.EMBODIED, any_of=("env/success_once",), weight=3),
        *(Fingerprint(Algorithm.PPO, all_of=(key,), any_of=_CLIPPED, none_of=_Q, weight=2) for key in _CRITIC),
        Fingerprint(Algorithm.REWARD, any_of=("rm/accuracy", "rm/reward_margin", "rm/loss"), none_of=_POLICY, weight=5),
        *(Fingerprint(Algorithm.REWARD, all_of=pair, none_of=_POLICY, weight=7) for pair in _SCORES),
        Fingerprint(Algorithm.DPO, any_of=_DPO, weight=4),
        *(
            Fingerprint(Algorithm.DPO, all_of=(chosen, chosen.replace("chosen", rejected)), none_of=_NO_PAIRS, weight=7)
            for chosen in _CHOSEN
            for rejected in ("rejected", "reject")
        ),
        Fingerprint(Algorithm.SAC, any_of=("alpha_loss", "ent_coef_loss", "loss/alpha"), weight=3),
        Fingerprint(Algorithm.DQN, any_of=_Q, none_of=("actor_loss", "policy_loss", "value_loss"), weight=3),
        Fingerprint(Algorithm.UNKNOWN, any_of=_Q, all_of=("actor_loss",), weight=3),
        Fingerprint(
            Algorithm.GRPO,
            any_of=("frac_reward_zero_std", "group_reward_std", "group_length_*"),
            none_of=_CRITIC,
            weight=2,
        ),
        Fingerprint(Algorithm.UNKNOWN, weight=1),
    ),
    aliases=(
        *_LOOPS,
        *(Alias(pattern, "success_frac", algorithms=_ROLLOUTS) for pattern in _ACCURACY),
        *(Alias(pattern, "dpo_accuracy", algorithms=_PAIRS) for pattern in _ACCURACY),
        # A reward model that is the run itself, or one that is trained beside a policy.
        *spellings("{loss,grad_norm} REWARD | rm/{}"),
        *(alias._replace(algorithms=_NO_JUDGE) for alias in spellings("rm_{loss,grad_norm} | rm/{}")),
        *_MACHINE,
    ),
    timing=TimingPlan(
        step_keys=("step_time", "time_per_step", "step_time_s", "time/step", "time/total", "timing/step_total"),
        stages=tuple(_stages()),
    ),
    training_keys=("loss", "policy_loss", "lr", "learning_rate", "grad_norm", "reward", "mean_reward"),
    prefixes=(("train/", ""), ("training/", "")),
    traits=(TraitEvidence("has_critic", _CRITIC),),
    group_size_keys=("group_size", "num_generations", "rollout/n", "samples_per_prompt", "n_samples_per_prompt"),
)
