"""Telescope: group methods without a critic; a few scalars and everything else in tables.

The trainer hands four scalars to W&B; what its own screen shows beside them (rewards, lengths, groups, discarded
rollouts, the timeline) is computed from tables of samples and events, under the names used here. It logs neither a loss
nor a clip fraction. Shares that end in `_pct` are per cent.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_SCALARS = (
    Alias("entropy", "entropy"),
    Alias("kl_divergence_inference", "off_policy_kl"),
    Alias("grad_norm", "grad_norm"),
    Alias("learning_rate", "lr"),
    Alias("tis_mean", "is_ratio_mean"),
    Alias("seq_is_masked_frac", "rollout_masked_frac"),
    Alias("dual_clip_frac", "clip_frac_lower"),
    Alias("filter/repetition_frac", "repetition_frac"),
    Alias("loss", "loss"),
    # Of a backend of one's own, which may write section/metric and section/group/metric.
    Alias("loss/policy", "policy_loss"),
    Alias("custom/loss/auxiliary", "aux_loss"),
)

_SAMPLES = (
    Alias("reward_sum_mean", "reward_mean"),
    Alias("rollout/reward_mean", "reward_mean"),
    Alias("reward_sum_std", "reward_std"),
    Alias("reward_sum_max", "reward_max"),
    Alias("reward_sum_min", "reward_min"),
    Alias("reward_gini_mean", "reward_gini"),
    Alias("reward/%/mean", "reward_mean"),
    Alias("reward_%_gini_mean", "reward_gini"),
    Alias("reward_%_mean", "sample_metric"),
    Alias("reward_%_std", "sample_metric_std"),
    Alias("reward_%_max", "sample_metric_max"),
    Alias("reward_%_min", "sample_metric_min"),
    Alias("advantage_mean", "adv_mean"),
    Alias("advantage_max", "adv_max"),
    Alias("advantage_min", "adv_min"),
    Alias("advantage_std", "adv_std"),
    Alias("length_completion_mean", "response_len_mean"),
    Alias("length_completion_max", "response_len_max"),
    Alias("length_completion_min", "response_len_min"),
    Alias("length_completion_std", "response_len_std"),
    Alias("length_prompt_mean", "prompt_len_mean"),
    Alias("length_prompt_max", "prompt_len_max"),
    Alias("length_prompt_min", "prompt_len_min"),
    Alias("length_prompt_std", "prompt_len_std"),
    Alias("length_sum_mean", "total_len_mean"),
    Alias("length_sum_max", "total_len_max"),
    Alias("length_sum_min", "total_len_min"),
    Alias("length_sum_std", "total_len_std"),
    Alias("stop_reason_length_pct", "truncated_frac", scale=0.01),
    Alias("group_length_max_median_ratio_mean", "group_len_ratio"),
    Alias("group_length_gini_mean", "group_len_gini"),
    Alias("group_length_cv_mean", "group_len_cv"),
    Alias("off_policy_steps_mean", "staleness_mean"),
    Alias("off_policy_steps_max", "staleness_max"),
    Alias("discarded_count", "discarded_count"),
    Alias("discarded_zero_advantage_pct", "discarded_zero_frac", scale=0.01),
    Alias("discarded_max_async_pct", "discarded_stale_frac", scale=0.01),
    Alias("canceled_count", "cancelled_count"),
    Alias("eval/*/reward_mean", "val_score"),
    Alias("eval/*_mean", "val_score"),
)

_TIMELINE = (
    ("timing_step_total", "time_step"),
    ("timing_step_active", "time_active"),
    ("timing_waiting_for_data", "time_wait_data"),
    ("timing_forward_total", "time_forward"),
    ("timing_backward_total", "time_backward"),
    ("timing_loss_computation_total", "time_loss"),
    ("timing_compute_kl_total", "time_kl"),
    ("timing_compute_entropy_total", "time_entropy"),
    ("timing_data_to_device_total", "time_to_device"),
    ("timing_prepare_tensors_total", "time_prepare"),
    ("timing_weight_sync_trainer_total", "time_weight_sync"),
    ("timing_weight_sync_inference_total", "time_weight_sync_infer"),
)


def _as_path(key: str) -> str:
    return f"timing/{key.removeprefix('timing_').removesuffix('_total')}/total"


def _inside(name: str, parent: str = "active") -> Stage:
    return Stage(f"timing_{name}_total", name=name, parent=parent)


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
    aliases=(
        *_SCALARS,
        *_SAMPLES,
        *(Alias(key, metric) for key, metric in _TIMELINE),
        *(Alias(_as_path(key), metric) for key, metric in _TIMELINE if key.endswith("_total")),
        *(
            Alias(f"timing_*_microbatch_{statistic}", metric)
            for statistic, metric in (
                ("mean", "time_microbatch"),
                ("max", "time_microbatch_max"),
                ("min", "time_microbatch_min"),
                ("std", "time_microbatch_std"),
            )
        ),
        # Of the inference engines' time, in per cent.
        Alias("timing_idle_pct", "rollouter_idle_frac", scale=0.01),
    ),
    # A step is waiting plus active time; the operations lie inside the active part. The inference
    # side of a weight sync happens on other GPUs, beside whatever the trainer does.
    timing=TimingPlan(
        step_keys=("timing_step_total",),
        stages=(
            Stage("timing_waiting_for_data", name="waiting_for_data"),
            Stage("timing_step_active", name="active"),
            *map(_inside, ("prepare_tensors", "data_to_device", "forward", "loss_computation", "optimizer")),
            _inside("compute_entropy", "loss_computation"),
            _inside("compute_kl", "loss_computation"),
            *map(_inside, ("backward", "weight_sync_trainer")),
            Stage("timing_weight_sync_inference_total", name="weight_sync_inference", lane=1),
            _inside("save_batch", ""),
        ),
        counts=("timing_*_pct", "timing_microbatch_count"),
        statistics=("timing_*_microbatch_*",),
        namespace=("timing_",),
    ),
    training_keys=("grad_norm", "entropy", "kl_divergence_inference", "learning_rate"),
    misleading=(
        (
            "kl_penalty",
            "Loss term for the KL to the policy that sampled; there is no reference model.",
        ),
    ),
    traits=(
        TraitEvidence("is_async", ("timing_waiting_for_data", "off_policy_steps_mean", "discarded_max_async_pct")),
    ),
)
