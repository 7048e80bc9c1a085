"""ROLL: keys that look like veRL's, with meanings of its own.

`actor/policykl` is the signed step KL and `actor/approxkl` a squared estimator of the
same; `critic/kl` is the KL in the reward; entropy stands under `critic/`.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm

_OWN = ("time/step_total", "actor/policykl", "actor/ppo_ratio_clipfrac", "system/tps", "token/response_length/mean")
_CRITIC = ("critic/loss", "critic/clipfrac", "critic/vpred", "critic/lr")
_PREFERENCE = ("actor/chosen_reward", "actor/reject_reward")


_ALIASES = spellings("""
    reward_mean | critic/score/mean | rollout/score/mean | critic/rewards/mean
    score_mean | critic/score/mean | rollout/score/mean
    reward_final | critic/rewards/mean
    reward_{max,min} | critic/rewards/{}
    success_frac | critic/correct/mean
    adv_{mean,max,min} | critic/advantages/{}
    kl_ref | critic/kl | actor/kl_loss
    kl_old | actor/policykl | actor/approxkl
    clip_frac | actor/clipfrac | actor/ppo_ratio_clipfrac
    clip_frac_{low,high} | actor/ppo_ratio_{}_clipfrac
    ratio_mean | actor/ratio_mean
    entropy | critic/entropy/mean
    grad_norm | actor_train/grad_norm
    lr | actor/lr
    lr_critic | critic/lr
    policy_loss | actor/pg_loss
    loss | actor/total_loss | actor/loss
    value_loss | critic/loss
    clip_frac_value | critic/clipfrac
    response_len_mean | token/response_length/mean | tokens/response_length/mean | rollout/response_length/mean
    response_len_{max,min} | token/response_length/{} | tokens/response_length/{}
    is_ratio_mean | actor/train_infer_ratio_token_mean
    is_clip_frac | actor/is_weight_clipfrac
    rollout_masked_frac ×-1 +1 | actor/train_infer_final_mask_mean
    prompt_len_mean | token/prompt_length/mean
    zero_std_count | scheduler/query_filter_count | scheduler/group_filter_count
    throughput | system/tps
    throughput_per_gpu | system/tps_gpu
    gen_throughput | system/actor_infer/tps_gpu
    time_step | time/step_total
    time_gen | time/step_generate | time/step_rollout
    time_update_actor | time/step_train
    time_old_log_prob | time/old_log_probs
    time_ref | time/ref_log_probs_values
    time_adv | time/compute_advantage
    time_reward | time/reward_postprocess
    time_weight_sync | time/step_model_update | time/%/model_update/total
    time_eval | time/val_step
    val_score | val_correct/all/mean | val_score/all/mean | val_correct/%/mean | val/score/mean
    dpo_accuracy | actor/acc
    dpo_chosen | actor/chosen_reward
    dpo_rejected | actor/reject_reward
    dpo_margin | actor/chosen_reward − reject_reward
    # `scheduler/off_policy_ratio` is a mean number of versions, whatever it is called.
    staleness_mean | scheduler/off_policy_ratio
    sample_count | scheduler/collect_query_count
    time_gen_sample_mean | scheduler/%/time/generate/mean | env/%/traj_time_env_total | env/%/traj_time_total
    time_gen_sample_{max,min} | scheduler/%/time/generate/{}
    time_score_{mean,max} | scheduler/%/time/reward/{}
    time_prepare | time/get_batch_cost_train | time/get_batch_cost_gqm
    time_switch | time/step_shrink | time/step_stop_server
    time_switch ×0.001 | shrink/shrink_duration_ms | expand/expand_duration_ms
    cancelled_count | shrink/aborted | expand/aborted
    retry_count | shrink/remapped
    batch_count | system/batch_remove_count
    time_switch | time/%/model_update/onload | time/%/model_update/offload
    time_weight_sync_transfer | time/%/model_update/execute
    kv_cache_frac | vllm/kv_cache_usage_perc_max
    engine_waiting | vllm/num_requests_waiting_max
    engine_preemptions | vllm/num_preemptions_max
    spec_tokens | vllm/spec_decode_num_%
    env_timeout_frac | env/%/env_timeout
    num_turns_mean | env/%/num_actions
    time_env_{reset,step,step_max} | env/%/traj_time_{}
    time_infer_step | env/%/traj_time_generate
    time_infer_step_max | env/%/traj_time_generate_max
    gen_throughput_sample | env/%/traj_time_tokens_per_second
    agent_busy_frac ×0.01 | env/%/efficiency/%
    time_infer_step | env/%/latency/pure_inf_avg
    time_infer_step_max | env/%/latency/pure_inf_p99 | env/%/latency/pure_inf_max
    time_env_step | env/%/latency/env_exec_avg
    time_env_step_max | env/%/latency/env_exec_p99 | env/%/latency/env_exec_max
    time_agent_overhead | env/%/latency/proxy_ovh_avg | env/%/latency/proxy_ovh_p99 | env/%/latency/proxy_ovh_max
    rollouts_per_s | env/%/throughput/step_per_sec
""")

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
    aliases=_ALIASES,
    timing=TimingPlan(
        step_keys=("time/step_total",),
        stages=(
            *stages("time/{}", "step_model_update", "step_generate", "step_rollout"),
            *stages("time/{}", "val_step", fits_inside=True),
            *stages("time/{}", "ref_log_probs_values", "old_log_probs", "reward_postprocess", "compute_advantage"),
            *stages("time/{}", "step_train"),
        ),
        namespace=("time/",),
    ),
    hidden=("system/step",),
    misleading=(("token/*_response_length/clip", "How many completions of the batch were cut, not their share."),),
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
