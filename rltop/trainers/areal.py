"""AReaL: asynchronous PPO and group methods; statistics of a quantity end in /avg, /max, /min.

`kl_rewards` is the KL's part of the reward; `seq_len` counts prompt and completion; no step
time is logged, only its stages.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_CRITIC = ("ppo_critic/*", "timeperf/critic_train_step")
_UPDATE = "ppo_actor/update"


_PIPELINE = (
    Alias(f"{_UPDATE}/version_stats/sample_staleness_proximal_min", "staleness_min"),
    Alias(f"{_UPDATE}/version_stats/sample_staleness_theta_avg", "staleness_mean", shift=-1.0),
    Alias(f"{_UPDATE}/version_stats/sample_staleness_theta_max", "staleness_max", shift=-1.0),
    Alias(f"{_UPDATE}/version_stats/sample_staleness_theta_min", "staleness_min", shift=-1.0),
    Alias(f"{_UPDATE}/version_stats/v_theta", "param_version"),
    Alias(f"{_UPDATE}/version_stats/v_proximal", "param_version"),
    Alias(f"{_UPDATE}/version_stats/n_valid_generated_tokens", "trained_tokens"),
    Alias(f"{_UPDATE}/behave_imp_weight/max", "is_ratio_max"),
    Alias(f"{_UPDATE}/behave_imp_weight/min", "is_ratio_min"),
    Alias(f"{_UPDATE}/behave_approx_kl/max", "off_policy_kl_max"),
    Alias(f"{_UPDATE}/behave_filtered_ratio/avg", "rollout_masked_frac"),
    Alias(f"{_UPDATE}/rs_filtered_fraction", "rollout_masked_frac"),
    Alias(f"{_UPDATE}/masked_token_ratio", "untrained_token_frac"),
    Alias("rollout/num_turns", "num_turns_mean"),
    Alias("rollout/reward", "reward_mean"),
    Alias("timeperf/rollout_pause", "time_switch"),
    Alias("timeperf/rollout_pause_generation", "time_switch"),
    Alias("timeperf/rollout_offload", "time_switch"),
    Alias("timeperf/rollout_onload", "time_switch"),
    Alias("timeperf/rollout_continue_generation", "time_switch"),
    Alias("timeperf/rollout_resume", "time_switch"),
    Alias("timeperf/%_onload", "time_switch"),
    Alias("timeperf/%_offload", "time_switch"),
)
"""Staleness against the proximal policy, with which a step begins, is one version less than against the trained one;
it is 0 for a sample of that policy, as other trainers count, and what `max_head_offpolicyness` bounds."""

_ALWAYS_ONE = "It is 1 in every row that has it: the mean over rollouts of which each counts one."


def _stage(name: str, *, is_outside: bool = False) -> Stage:
    return Stage(f"timeperf/{name}", name=name, is_outside=is_outside)


DIALECT = Dialect(
    name="AReaL",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("ppo_actor/*",), any_of=_CRITIC, weight=39),
        Fingerprint(Algorithm.GRPO, all_of=("ppo_actor/*",), none_of=_CRITIC, weight=38),
        Fingerprint(Algorithm.DPO, any_of=("dpo/reward_accuracy/avg",), weight=37),
        Fingerprint(Algorithm.REWARD, any_of=("rw/correct_ratio/avg",), weight=37),
        Fingerprint(Algorithm.SFT, all_of=("sft/loss/avg", "sft/lr"), weight=37),
        Fingerprint(Algorithm.UNKNOWN, any_of=("timeperf/*",), weight=26),
    ),
    aliases=(
        Alias("ppo_actor/task_reward/avg", "reward_mean"),
        Alias("ppo_actor/task_reward/max", "reward_max"),
        Alias("ppo_actor/task_reward/min", "reward_min"),
        Alias("ppo_actor/final_reward/avg", "reward_final"),
        Alias("ppo_actor/kl_rewards/avg", "kl_reward"),
        Alias("ppo_actor/seq_len/avg", "total_len_mean"),
        Alias("ppo_actor/prompt_len/avg", "prompt_len_mean"),
        Alias("ppo_actor/prompt_len/max", "prompt_len_max"),
        Alias("ppo_actor/no_eos_ratios/avg", "truncated_frac"),
        Alias("ppo_actor/advantages/avg", "adv_mean"),
        Alias("ppo_actor/advantages/max", "adv_max"),
        Alias("ppo_actor/advantages/min", "adv_min"),
        Alias(f"{_UPDATE}/approx_kl/avg", "kl_old"),
        Alias(f"{_UPDATE}/clip_ratio/avg", "clip_frac"),
        Alias(f"{_UPDATE}/dual_clip_ratio/avg", "clip_frac_lower"),
        Alias(f"{_UPDATE}/entropy/avg", "entropy"),
        Alias(f"{_UPDATE}/actor_loss/avg", "policy_loss"),
        Alias(f"{_UPDATE}/importance_weight/avg", "ratio_mean"),
        Alias(f"{_UPDATE}/behave_approx_kl/avg", "off_policy_kl"),
        Alias(f"{_UPDATE}/behave_imp_weight/avg", "is_ratio_mean"),
        Alias(f"{_UPDATE}/grad_norm", "grad_norm"),
        Alias(f"{_UPDATE}/lr", "lr"),
        Alias(f"{_UPDATE}/version_stats/sample_staleness_proximal_avg", "staleness_mean"),
        Alias(f"{_UPDATE}/version_stats/sample_staleness_proximal_max", "staleness_max"),
        Alias("ppo_critic/update/value_loss/avg", "value_loss"),
        Alias("ppo_critic/update/grad_norm", "grad_norm_critic"),
        Alias("ppo_critic/update/lr", "lr_critic"),
        Alias("timeperf/rollout", "time_gen"),
        Alias("timeperf/train_step", "time_update_actor"),
        Alias("timeperf/ref_logp", "time_ref"),
        Alias("timeperf/recompute_logp", "time_old_log_prob"),
        Alias("timeperf/critic_values", "time_values"),
        Alias("timeperf/critic_train_step", "time_update_critic"),
        Alias("timeperf/compute_advantage", "time_adv"),
        Alias("timeperf/update_weights", "time_weight_sync"),
        Alias("timeperf/save", "time_save"),
        Alias("timeperf/eval", "time_eval"),
        Alias("dpo/reward_accuracy/avg", "dpo_accuracy"),
        Alias("dpo/reward_margin/avg", "dpo_margin"),
        Alias("dpo/chosen_reward/avg", "dpo_chosen"),
        Alias("dpo/rejected_reward/avg", "dpo_rejected"),
        Alias("dpo/loss/avg", "loss"),
        Alias("rw/correct_ratio/avg", "rm_accuracy"),
        Alias("sft/loss/avg", "loss"),
        Alias("sft/grad_norm", "grad_norm"),
        Alias("sft/lr", "lr"),
        Alias("sft-eval/loss/avg", "val_loss"),
        Alias("eval-rollout/%/avg", "val_score"),
        Alias("eval-rollout/%", "val_score"),
        *_PIPELINE,
    ),
    timing=TimingPlan(
        stages=(
            *map(_stage, ("rollout", "critic_values", "recompute_logp", "ref_logp", "compute_advantage")),
            *map(_stage, ("train_step", "critic_train_step", "update_weights")),
            _stage("save", is_outside=True),
            _stage("eval", is_outside=True),
        ),
        namespace=("timeperf/",),
    ),
    training_keys=("ppo_actor/*", "dpo/*", "rw/*", "sft/*", "timeperf/train_step"),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence("is_async", (f"{_UPDATE}/version_stats/*", f"{_UPDATE}/behave_approx_kl/avg")),
    ),
    group_size_keys=("n_samples", "group_size"),
    waits=("timeperf/rollout",),
    staleness_bounds=("max_head_offpolicyness",),
    gpus=(("cluster.n_nodes", "cluster.n_gpus_per_node"),),
    misleading=(("rollout/accepted", _ALWAYS_ONE), ("rollout/rejected", _ALWAYS_ONE)),
)
