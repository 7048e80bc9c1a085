"""open-instruct: `val/…` holds statistics of training, evaluations stand under `eval/`.

`global_step` counts episodes, `training_step` is the step; utilisation is per cent; `objective/kl0_avg` to `kl3_avg`
are four estimators of one KL, of which the third is positive and of low variance.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings
from rltop.model import Algorithm

_OWN = (
    "val/sequence_lengths",
    "objective/kl0_avg",
    "val/stop_rate",
    "debug/vllm_vs_local_logprob_diff_mean",
    "learner_tokens_per_second_step",
)
_VERIFIABLE = ("objective/verifiable_reward", "objective/verifiable_correct_rate")

DIALECT = Dialect(
    name="open-instruct",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, any_of=_OWN, weight=36),
        Fingerprint(Algorithm.PPO, any_of=_VERIFIABLE, all_of=("loss/value_avg",), weight=35),
        Fingerprint(Algorithm.UNKNOWN, any_of=_VERIFIABLE, weight=20),
        Fingerprint(Algorithm.DPO, all_of=("rewards/accuracy", "rewards/margin"), weight=32),
    ),
    aliases=spellings("""
        reward_mean | scores | objective/verifiable_reward | objective/scores
        reward_final | objective/rlhf_reward
        kl_reward | objective/non_score_reward
        success_frac | objective/verifiable_correct_rate | batch/percent_solved_mean
        # One of each verifier; scores are in the unit of the reward, ten for a right answer.
        reward_component | objective/%_reward | objective/%_correct_rate | val/format_scores
        sample_metric | env/*
        kl_ref | objective/kl2_avg | objective/kl3_avg | objective/kl1_avg | objective/kl_avg | objective/kl0_avg
        kl_ref | objective/kl
        entropy_seq | objective/entropy
        value_loss | loss/value_avg
        clip_frac_value | val/clipfrac_avg
        policy_loss | loss/policy_avg
        loss | loss/total_avg | train_loss
        clip_frac | policy/clipfrac_avg
        entropy | policy/entropy_avg
        kl_old | policy/approxkl_avg
        ratio_mean | val/ratio
        ratio_var | val/ratio_var
        is_clip_frac | val/rho_clipfrac
        is_ratio_mean | val/tis_ratio | val/rho_weight
        rollout_masked_frac | val/rho_drop_frac
        rollout_logp_diff_{mean,max} | debug/vllm_vs_local_logprob_diff_{}
        off_policy_kl | debug/vllm_local_reverse_kl
        grad_norm | optim/grad_norm
        lr | lr
        response_len_mean | val/sequence_lengths
        response_len_{max,min} | val/sequence_lengths_{}
        # Share of completions that finished.
        truncated_frac ×-1 +1 | val/stop_rate
        adv_{mean,max,min} | val/advantages_{}
        zero_std_frac | batch/filtered_prompts_pct
        zero_std_count | batch/filtered_prompts
        sample_count | val/total_reward_groups
        tool_calls_mean | tools/aggregate/avg_calls_per_rollout | tools/%/avg_calls_per_rollout
        tool_failure_frac | tools/aggregate/failure_rate | tools/%/failure_rate
        time_tool_sample_mean | tools/aggregate/avg_runtime | tools/%/avg_runtime
        staleness_mean | num_steps_off_policy
        sample_version | model_step_mean
        evicted_samples | stale_results_dropped
        throughput | learner_tokens_per_second_step | learner_tokens_per_second_overall
        throughput | perf/tokens_per_second_step
        gen_throughput | val/actor_tokens_per_second | actor_tokens_per_second
        mfu ×0.01 | learner_mfu | perf/mfu_step
        mfu_infer ×0.01 | actor_mfu
        time_step | time/total
        time_update_actor | time/training
        time_gen_sample_{max,mean} | time/group_generation_{}
        time_wait_data | time/trainer_waiting_for_data
        time_wait_policy | time/generation_waiting_for_trainer
        time_weight_sync | time/weight_sync
        time_save | time/saving
        # In the unit of the reward, and in every evaluation; the shares beside it are left out of some.
        val_score | eval/scores
        val_passk | eval/pass_at_*
        val_response_len | eval/sequence_lengths
        val_truncated_frac ×-1 +1 | eval/stop_rate
        val_aux | eval/objective/*
        dpo_{accuracy,margin,chosen,rejected} DPO | rewards/{}
        logps_{chosen,rejected} | logps/{}
        episode | episode
        epoch | epoch
        num_tokens | val/total_tokens | val/num_total_tokens
        total_tokens | val/num_step_tokens
    """),
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
