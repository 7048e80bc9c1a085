"""Telescope: group methods without a critic; a few scalars, everything else in tables.

The trainer sends four scalars to W&B. The other metrics (rewards, lengths, groups, discarded rollouts, timeline) are
computed from its tables of samples and events, under the names that its own viewer uses. It logs neither a loss nor a
clip fraction. Names ending in `_pct` are per cent.
"""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm

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
    aliases=spellings(key_tables(__file__)["keys"]),
    # A step is waiting plus active time; the operations are part of the active time. The inference
    # side of a weight sync runs on other GPUs, in parallel with the trainer.
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
