"""tinker-cookbook: RL, distillation, DPO and SFT through a training service."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, key_tables, spellings, stages
from rltop.model import Algorithm

_RL = ("env/*/reward/total", "env/*/by_group/frac_mixed", "optim/kl_sample_train_v1", "optim/kl_sample_train_v2")

_OUTER = "do_train_step_and_get_sampling_client"
_METRICS = "compute_full_batch_metrics_and_get_sampling_client"
_SAVE = "save_checkpoint_and_get_sampling_client"

TIMING = TimingPlan(
    step_keys=("time/total", "batch_time"),
    stages=(
        *stages("time/{}", "get_batch", "run_evals", "run_evaluations_parallel"),
        *stages("time/{}", "run_single_evaluation", parent="run_evaluations_parallel"),
        *stages("time/{}", "sampling", "sample"),
        Stage("time/do_group_rollout*:max", name="slowest group", parent="sampling", lane=1),
        Stage("time/policy_sample:max", name="slowest sample", parent="sampling", lane=2),
        Stage("time/policy_sample:mean", name="mean sample", parent="sampling", lane=3),
        *stages("time/{}", _OUTER),
        *stages("time/{}", "prepare_minibatch", parent=_OUTER),
        *stages("time/{}", "assemble_training_data", "compute_kl_penalty", "kl_vs_base", parent="prepare_minibatch"),
        *stages("time/{}", "train", "train_step", _METRICS, parent=_OUTER),
        *stages("time/{}", "compute_kl_sample_train", "compute_post_kl", _SAVE, parent=_METRICS),
        *stages("time/{}", "save_checkpoint", parent=_SAVE),
        # DPO and SFT, which submit batches ahead.
        *stages("time/{}", "get_ref_logprobs", "submit_batch", "finish_batch"),
        *stages("time/{}", "step", parent="finish_batch"),
        # Usually finished within the step, but not while an evaluation runs.
        *stages("time/{}", "save_checkpoint_async", fits_inside=True),
    ),
    counts=("time/*:count",),
    statistics=("time/*:*", "time/sampling_time_*"),
    namespace=("time/",),
)
"""A stage is nested if the trainer traces the enclosing call, else at the top level."""

DIALECT = Dialect(
    name="tinker",
    fingerprints=(
        Fingerprint(Algorithm.DISTILL, all_of=("teacher_kl",), any_of=_RL, weight=26),
        Fingerprint(Algorithm.GRPO, any_of=_RL, weight=24),
        Fingerprint(Algorithm.DPO, all_of=("dpo_loss", "num_pairs"), weight=24),
        Fingerprint(Algorithm.SFT, all_of=("train_mean_nll",), weight=24),
        Fingerprint(Algorithm.UNKNOWN, any_of=("test/env/*",), weight=5),
    ),
    aliases=spellings(key_tables(__file__)["keys"]),
    timing=TIMING,
    hidden=("progress/*", "progress"),
    training_keys=("optim/*", "time/train*", "train_mean_nll", "dpo_loss"),
    staleness_bounds=("max_steps_off_policy",),
    traits=(TraitEvidence("is_async", ("sampling_client/step_min", "time/sampling_time_max")),),
)
