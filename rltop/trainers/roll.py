"""ROLL: keys that look like veRL's, with meanings of its own.

`actor/policykl` is the signed step KL and `actor/approxkl` a squared estimator of the
same; `critic/kl` is the KL in the reward; entropy stands under `critic/`.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_OWN = ("time/step_total", "actor/policykl", "actor/ppo_ratio_clipfrac", "system/tps", "token/response_length/mean")
_CRITIC = ("critic/loss", "critic/clipfrac", "critic/vpred", "critic/lr")
_PREFERENCE = ("actor/chosen_reward", "actor/reject_reward")


_PIPELINE = (
    Alias("scheduler/off_policy_ratio", "staleness_mean"),
    Alias("scheduler/group_filter_count", "zero_std_count"),
    Alias("scheduler/collect_query_count", "sample_count"),
    Alias("scheduler/%/time/generate/mean", "time_gen_sample_mean"),
    Alias("scheduler/%/time/generate/max", "time_gen_sample_max"),
    Alias("scheduler/%/time/generate/min", "time_gen_sample_min"),
    Alias("scheduler/%/time/reward/mean", "time_score_mean"),
    Alias("scheduler/%/time/reward/max", "time_score_max"),
    Alias("time/get_batch_cost_train", "time_prepare"),
    Alias("time/get_batch_cost_gqm", "time_prepare"),
    Alias("time/step_shrink", "time_switch"),
    Alias("time/step_stop_server", "time_switch"),
    Alias("shrink/shrink_duration_ms", "time_switch", scale=0.001),
    Alias("expand/expand_duration_ms", "time_switch", scale=0.001),
    Alias("shrink/aborted", "cancelled_count"),
    Alias("expand/aborted", "cancelled_count"),
    Alias("shrink/remapped", "retry_count"),
    Alias("system/batch_remove_count", "batch_count"),
    Alias("time/%/model_update/total", "time_weight_sync"),
    Alias("time/%/model_update/onload", "time_switch"),
    Alias("time/%/model_update/offload", "time_switch"),
    Alias("time/%/model_update/execute", "time_weight_sync_transfer"),
    Alias("vllm/kv_cache_usage_perc_max", "kv_cache_frac"),
    Alias("vllm/num_requests_waiting_max", "engine_waiting"),
    Alias("vllm/num_preemptions_max", "engine_preemptions"),
    Alias("vllm/spec_decode_num_%", "spec_tokens"),
    Alias("env/%/env_timeout", "env_timeout_frac"),
    Alias("env/%/num_actions", "num_turns_mean"),
    Alias("env/%/traj_time_env_total", "time_gen_sample_mean"),
    Alias("env/%/traj_time_reset", "time_env_reset"),
    Alias("env/%/traj_time_step", "time_env_step"),
    Alias("env/%/traj_time_step_max", "time_env_step_max"),
    Alias("env/%/traj_time_generate", "time_infer_step"),
    Alias("env/%/traj_time_generate_max", "time_infer_step_max"),
    Alias("env/%/traj_time_tokens_per_second", "gen_throughput_sample"),
    Alias("env/%/traj_time_total", "time_gen_sample_mean"),
    Alias("env/%/efficiency/%", "agent_busy_frac", scale=0.01),
    Alias("env/%/latency/pure_inf_avg", "time_infer_step"),
    Alias("env/%/latency/pure_inf_p99", "time_infer_step_max"),
    Alias("env/%/latency/pure_inf_max", "time_infer_step_max"),
    Alias("env/%/latency/env_exec_avg", "time_env_step"),
    Alias("env/%/latency/env_exec_p99", "time_env_step_max"),
    Alias("env/%/latency/env_exec_max", "time_env_step_max"),
    Alias("env/%/latency/proxy_ovh_avg", "time_agent_overhead"),
    Alias("env/%/latency/proxy_ovh_p99", "time_agent_overhead"),
    Alias("env/%/latency/proxy_ovh_max", "time_agent_overhead"),
    Alias("env/%/throughput/step_per_sec", "rollouts_per_s"),
)
"""`scheduler/off_policy_ratio` is a mean number of versions, whatever it is called."""


def _stage(name: str, parent: str = "", *, fits_inside: bool = False) -> Stage:
    return Stage(f"time/{name}", name=name, parent=parent, fits_inside=fits_inside)


DIALECT = Dialect(
    name="ROLL",
    fingerprints=(
        Fingerprint(Algorithm.DPO, all_of=_PREFERENCE, weight=38),
        Fingerprint(Algorithm.PPO, any_of=_OWN, all_of=("critic/loss", "critic/rewards/mean"), weight=37),
        Fingerprint(
            Algorithm.GRPO, any_of=_OWN, all_of=("actor/pg_loss",), none_of=(*_CRITIC, *_PREFERENCE), weight=36
        ),
        Fingerprint(Algorithm.UNKNOWN, any_of=_OWN, weight=28),
    ),
    aliases=(
        Alias("critic/score/mean", "reward_mean"),
        Alias("rollout/score/mean", "reward_mean"),
        Alias("critic/rewards/mean", "reward_mean"),
        Alias("critic/score/mean", "score_mean"),
        Alias("rollout/score/mean", "score_mean"),
        Alias("critic/rewards/mean", "reward_final"),
        Alias("critic/rewards/max", "reward_max"),
        Alias("critic/rewards/min", "reward_min"),
        Alias("critic/correct/mean", "success_frac"),
        Alias("critic/advantages/mean", "adv_mean"),
        Alias("critic/advantages/max", "adv_max"),
        Alias("critic/advantages/min", "adv_min"),
        Alias("critic/kl", "kl_ref"),
        Alias("actor/kl_loss", "kl_ref"),
        Alias("actor/policykl", "kl_old"),
        Alias("actor/approxkl", "kl_old"),
        Alias("actor/clipfrac", "clip_frac"),
        Alias("actor/ppo_ratio_clipfrac", "clip_frac"),
        Alias("actor/ppo_ratio_low_clipfrac", "clip_frac_low"),
        Alias("actor/ppo_ratio_high_clipfrac", "clip_frac_high"),
        Alias("actor/ratio_mean", "ratio_mean"),
        Alias("critic/entropy/mean", "entropy"),
        Alias("actor_train/grad_norm", "grad_norm"),
        Alias("actor/lr", "lr"),
        Alias("critic/lr", "lr_critic"),
        Alias("actor/pg_loss", "policy_loss"),
        Alias("actor/total_loss", "loss"),
        Alias("critic/loss", "value_loss"),
        Alias("critic/clipfrac", "clip_frac_value"),
        Alias("token/response_length/mean", "response_len_mean"),
        Alias("tokens/response_length/mean", "response_len_mean"),
        Alias("rollout/response_length/mean", "response_len_mean"),
        Alias("token/response_length/max", "response_len_max"),
        Alias("tokens/response_length/max", "response_len_max"),
        Alias("token/response_length/min", "response_len_min"),
        Alias("tokens/response_length/min", "response_len_min"),
        Alias("token/total_response_length/clip", "truncated_frac"),
        Alias("token/prompt_length/mean", "prompt_len_mean"),
        Alias("scheduler/query_filter_count", "zero_std_count"),
        Alias("system/tps", "throughput"),
        Alias("system/tps_gpu", "throughput_per_gpu"),
        Alias("system/actor_infer/tps_gpu", "gen_throughput"),
        Alias("time/step_total", "time_step"),
        Alias("time/step_generate", "time_gen"),
        Alias("time/step_rollout", "time_gen"),
        Alias("time/step_train", "time_update_actor"),
        Alias("time/old_log_probs", "time_old_log_prob"),
        Alias("time/ref_log_probs_values", "time_ref"),
        Alias("time/compute_advantage", "time_adv"),
        Alias("time/reward_postprocess", "time_reward"),
        Alias("time/step_model_update", "time_weight_sync"),
        Alias("time/val_step", "time_eval"),
        Alias("val_correct/all/mean", "val_score"),
        Alias("val_score/all/mean", "val_score"),
        Alias("val_correct/%/mean", "val_score"),
        Alias("val/score/mean", "val_score"),
        Alias("actor/acc", "dpo_accuracy"),
        Alias("actor/chosen_reward", "dpo_chosen"),
        Alias("actor/reject_reward", "dpo_rejected"),
        Alias("actor/chosen_reward − reject_reward", "dpo_margin"),
        Alias("actor/loss", "loss"),
        *_PIPELINE,
    ),
    timing=TimingPlan(
        step_keys=("time/step_total",),
        stages=(
            _stage("step_model_update"),
            _stage("step_generate"),
            _stage("step_rollout"),
            _stage("val_step", fits_inside=True),
            _stage("ref_log_probs_values"),
            _stage("old_log_probs"),
            _stage("reward_postprocess"),
            _stage("compute_advantage"),
            _stage("step_train"),
        ),
        namespace=("time/",),
    ),
    hidden=("system/step",),
    training_keys=("actor/*", "actor_train/*", "critic/*", "time/step_train"),
    traits=(
        TraitEvidence("has_critic", ("critic/loss",)),
        TraitEvidence("kl_is_signed", ("actor/policykl",)),
        TraitEvidence("is_async", ("time/step_shrink", "shrink/*", "expand/*")),
    ),
    group_size_keys=("num_return_sequences_in_group",),
    waits=("time/step_generate", "time/step_rollout"),
    staleness_bounds=("async_generation_ratio",),
    gpus=(("num_nodes", "num_gpus_per_node"),),
    advantage_keys=("critic/advantages/max", "critic/advantages/min"),
)
