"""AReaL: asynchronous PPO and group methods; statistics of a quantity end in /avg, /max, /min.

`kl_rewards` is the KL's part of the reward; `seq_len` counts prompt and completion; no step
time is logged, only its stages.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm

_CRITIC = ("ppo_critic/*", "timeperf/critic_train_step")
_UPDATE = "ppo_actor/update"


_ALWAYS_ONE = "It is 1 in every row that has it: the mean over rollouts of which each counts one."
_LONGEST = (
    "Counts completions as long as the longest of their batch as unended: one of them always is, whatever the limit."
)


_ALIASES = spellings(
    """
    reward_mean | ppo_actor/task_reward/avg | rollout/reward
    reward_{max,min} | ppo_actor/task_reward/{}
    reward_final | ppo_actor/final_reward/avg
    kl_reward | ppo_actor/kl_rewards/avg
    total_len_mean | ppo_actor/seq_len/avg
    prompt_len_mean | ppo_actor/prompt_len/avg
    prompt_len_max | ppo_actor/prompt_len/max
    adv_mean | ppo_actor/advantages/avg
    adv_{max,min} | ppo_actor/advantages/{}
    kl_old | ppo_actor/update/approx_kl/avg
    clip_frac | ppo_actor/update/clip_ratio/avg
    clip_frac_lower | ppo_actor/update/dual_clip_ratio/avg
    entropy | ppo_actor/update/entropy/avg
    policy_loss | ppo_actor/update/actor_loss/avg
    ratio_mean | ppo_actor/update/importance_weight/avg
    off_policy_kl | ppo_actor/update/behave_approx_kl/avg
    is_ratio_mean | ppo_actor/update/behave_imp_weight/avg
    grad_norm | ppo_actor/update/grad_norm | sft/grad_norm
    lr | ppo_actor/update/lr | sft/lr
    staleness_mean | ppo_actor/update/version_stats/sample_staleness_proximal_avg
    staleness_max | ppo_actor/update/version_stats/sample_staleness_proximal_max
    value_loss | ppo_critic/update/value_loss/avg
    grad_norm_critic | ppo_critic/update/grad_norm
    lr_critic | ppo_critic/update/lr
    time_gen | timeperf/rollout
    time_update_actor | timeperf/train_step
    time_ref | timeperf/ref_logp
    time_old_log_prob | timeperf/recompute_logp
    time_values | timeperf/critic_values
    time_update_critic | timeperf/critic_train_step
    time_adv | timeperf/compute_advantage
    time_weight_sync | timeperf/update_weights
    time_save | timeperf/save
    time_eval | timeperf/eval
    dpo_{accuracy,margin} | dpo/reward_{}/avg
    dpo_{chosen,rejected} | dpo/{}_reward/avg
    loss | dpo/loss/avg | sft/loss/avg
    rm_accuracy | rw/correct_ratio/avg
    val_loss | sft-eval/loss/avg
    val_score | eval-rollout/%/avg | eval-rollout/%
    # Staleness against the proximal policy, with which a step begins, is one version less than against the trained one;
    # it is 0 for a sample of that policy, as other trainers count, and what `max_head_offpolicyness` bounds.
    staleness_min | ppo_actor/update/version_stats/sample_staleness_proximal_min
    staleness_mean -1 | ppo_actor/update/version_stats/sample_staleness_theta_avg
    staleness_{max,min} -1 | ppo_actor/update/version_stats/sample_staleness_theta_{}
    param_version | ppo_actor/update/version_stats/v_theta | ppo_actor/update/version_stats/v_proximal
    trained_tokens | ppo_actor/update/version_stats/n_valid_generated_tokens
    is_ratio_{max,min} | ppo_actor/update/behave_imp_weight/{}
    off_policy_kl_max | ppo_actor/update/behave_approx_kl/max
    rollout_masked_frac | ppo_actor/update/behave_filtered_ratio/avg | ppo_actor/update/rs_filtered_fraction
    untrained_token_frac | ppo_actor/update/masked_token_ratio
    num_turns_mean | rollout/num_turns
    time_switch | timeperf/rollout_pause | timeperf/rollout_pause_generation | timeperf/rollout_offload
    time_switch | timeperf/rollout_onload | timeperf/rollout_continue_generation | timeperf/rollout_resume
    time_switch | timeperf/%_onload | timeperf/%_offload
""".replace("ppo_actor/", "{ppo,grpo}_actor/").replace("{ppo,grpo}_actor/update/", "{ppo_actor/update,grpo_actor}/")
)
"""Scripts of AReaL before 1.0 name the actor `grpo_actor`, and what an update logs stands directly below it."""

DIALECT = Dialect(
    name="AReaL",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("ppo_actor/*",), any_of=_CRITIC, weight=39),
        Fingerprint(Algorithm.GRPO, all_of=("ppo_actor/*",), none_of=_CRITIC, weight=38),
        Fingerprint(Algorithm.GRPO, all_of=("grpo_actor/*", "timeperf/*"), weight=38),
        Fingerprint(Algorithm.DPO, any_of=("dpo/reward_accuracy/avg",), weight=37),
        Fingerprint(Algorithm.REWARD, any_of=("rw/correct_ratio/avg",), weight=37),
        Fingerprint(Algorithm.SFT, all_of=("sft/loss/avg", "sft/lr"), weight=37),
        Fingerprint(Algorithm.UNKNOWN, any_of=("timeperf/*",), weight=26),
    ),
    aliases=_ALIASES,
    timing=TimingPlan(
        stages=(
            *stages("timeperf/{}", "rollout", "critic_values", "recompute_logp", "ref_logp", "compute_advantage"),
            *stages("timeperf/{}", "train_step", "critic_train_step", "update_weights"),
            *stages("timeperf/{}", "save", "eval", is_outside=True),
        ),
        namespace=("timeperf/",),
    ),
    training_keys=("ppo_actor/*", "grpo_actor/*", "dpo/*", "rw/*", "sft/*", "timeperf/train_step"),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence(
            "is_async",
            (f"{_UPDATE}/version_stats/*", f"{_UPDATE}/behave_approx_kl/avg", "grpo_actor/behave_approx_kl/avg"),
        ),
    ),
    group_size_keys=("n_samples", "group_size"),
    waits=("timeperf/rollout",),
    staleness_bounds=("max_head_offpolicyness",),
    gpus=(("cluster.n_nodes", "cluster.n_gpus_per_node"),),
    misleading=(
        ("rollout/accepted", _ALWAYS_ONE),
        ("rollout/rejected", _ALWAYS_ONE),
        ("ppo_actor/no_eos_ratios/avg", _LONGEST),
        ("grpo_actor/no_eos_ratios/avg", _LONGEST),
    ),
)
