"""Telescope: group methods without a critic; a few scalars and everything else in tables.

The trainer hands four scalars to W&B; what its own screen shows beside them (rewards, lengths, groups, discarded
rollouts, the timeline) is computed from tables of samples and events, under the names used here. It logs neither a loss
nor a clip fraction. Shares that end in `_pct` are per cent.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm

_ALIASES = spellings("""
    entropy | entropy
    off_policy_kl | kl_divergence_inference
    grad_norm | grad_norm
    lr | learning_rate
    is_ratio_mean | tis_mean
    rollout_masked_frac | seq_is_masked_frac
    clip_frac_lower | dual_clip_frac
    repetition_frac | filter/repetition_frac
    loss | loss
    # Of a backend of one's own, which may write section/metric and section/group/metric.
    policy_loss | loss/policy
    aux_loss | custom/loss/auxiliary
    reward_mean | reward_sum_mean | rollout/reward_mean | reward/%/mean
    reward_{std,max,min} | reward_sum_{}
    reward_gini | reward_gini_mean | reward_%_gini_mean
    sample_metric | reward_%_mean
    sample_metric_{std,max,min} | reward_%_{}
    adv_{mean,max,min,std} | advantage_{}
    response_len_{mean,max,min,std} | length_completion_{}
    prompt_len_{mean,max,min,std} | length_prompt_{}
    total_len_{mean,max,min,std} | length_sum_{}
    truncated_frac ×0.01 | stop_reason_length_pct
    group_len_ratio | group_length_max_median_ratio_mean
    group_len_{gini,cv} | group_length_{}_mean
    staleness_{mean,max} | off_policy_steps_{}
    discarded_count | discarded_count
    discarded_zero_frac ×0.01 | discarded_zero_advantage_pct
    discarded_stale_frac ×0.01 | discarded_max_async_pct
    cancelled_count | canceled_count
    val_score | eval/*/reward_mean | eval/*_mean
    time_step | timing_step_total | timing/step/total
    time_active | timing_step_active
    time_wait_data | timing_waiting_for_data
    time_{forward,backward} | timing_{}_total | timing/{}/total
    time_loss | timing_loss_computation_total | timing/loss_computation/total
    time_{kl,entropy} | timing_compute_{}_total | timing/compute_{}/total
    time_to_device | timing_data_to_device_total | timing/data_to_device/total
    time_prepare | timing_prepare_tensors_total | timing/prepare_tensors/total
    time_weight_sync | timing_weight_sync_trainer_total | timing/weight_sync_trainer/total
    time_weight_sync_infer | timing_weight_sync_inference_total | timing/weight_sync_inference/total
    time_microbatch | timing_*_microbatch_mean
    time_microbatch_{max,min,std} | timing_*_microbatch_{}
    # Of the inference engines' time, in per cent.
    rollouter_idle_frac ×0.01 | timing_idle_pct
""")

DIALECT = Dialect(
    name="Telescope",
    fingerprints=(
        Fingerprint(Algorithm.GRPO, all_of=("kl_divergence_inference", "entropy"), weight=34),
        Fingerprint(
            Algorithm.GRPO,
            any_of=("timing_step_active", "stop_reason_length_pct", "length_completion_mean", "reward_sum_mean"),
            weight=33,
        ),
    ),
    aliases=_ALIASES,
    # A step is waiting plus active time; the operations lie inside the active part. The inference
    # side of a weight sync happens on other GPUs, beside whatever the trainer does.
    timing=TimingPlan(
        step_keys=("timing_step_total",),
        stages=(
            Stage("timing_waiting_for_data", name="waiting_for_data"),
            Stage("timing_step_active", name="active"),
            *stages(
                "timing_{}_total",
                *("prepare_tensors", "data_to_device", "forward", "loss_computation", "optimizer"),
                parent="active",
            ),
            *stages("timing_{}_total", "compute_entropy", "compute_kl", parent="loss_computation"),
            *stages("timing_{}_total", "backward", "weight_sync_trainer", parent="active"),
            *stages("timing_{}_total", "weight_sync_inference", lane=1),
            *stages("timing_{}_total", "save_batch"),
        ),
        counts=("timing_*_pct", "timing_microbatch_count"),
        statistics=("timing_*_microbatch_*",),
        namespace=("timing_",),
    ),
    training_keys=("grad_norm", "entropy", "kl_divergence_inference", "learning_rate"),
    misleading=(("kl_penalty", "Loss term for the KL to the policy that sampled; there is no reference model."),),
    traits=(
        TraitEvidence("is_async", ("timing_waiting_for_data", "off_policy_steps_mean", "discarded_max_async_pct")),
    ),
)
