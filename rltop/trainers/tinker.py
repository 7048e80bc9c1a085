"""tinker-cookbook: RL, distillation, DPO and SFT through a training service."""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm

_RL = ("env/*/reward/total", "env/*/by_group/frac_mixed", "optim/kl_sample_train_v1", "optim/kl_sample_train_v2")
_PAIRS = frozenset({Algorithm.DPO})

RL_ALIASES = (
    Alias("env/all/reward/total", "reward_mean"),
    Alias("env/%/reward/total", "reward_mean"),
    Alias("test/env/all/reward/total", "val_score"),
    Alias("test/env/%/reward/total", "val_score"),
    Alias("test/%/env/all/reward/total", "val_score"),
    Alias("test/env/all/correct", "val_acc"),
    Alias("test/env/all/ac_tokens_per_turn", "val_response_len"),
    Alias("test/env/all/format_eos", "val_truncated_frac", scale=-1.0, shift=1.0),
    Alias("env/all/correct", "success_frac"),
    Alias("env/all/format", "reward_component"),
    # Completions that ended by themselves; the others were truncated.
    Alias("env/all/format_eos", "truncated_frac", scale=-1.0, shift=1.0),
    Alias("env/all/pass_rate", "reward_component"),
    Alias("env/all/by_group/frac_mixed", "mixed_group_frac"),
    # Groups that are not mixed have zero variance.
    Alias("env/all/by_group/frac_mixed", "zero_std_frac", scale=-1.0, shift=1.0),
    Alias("env/all/by_group/frac_all_good", "all_good_frac"),
    Alias("env/all/by_group/frac_all_bad", "all_bad_frac"),
    Alias("env/all/ac_tokens_per_turn", "response_len_mean"),
    Alias("env/all/ob_tokens_per_turn", "prompt_len_mean"),
    Alias("env/all/turns_per_episode", "num_turns_mean"),
    Alias("env/all/total_ac_tokens", "total_tokens"),
    Alias("env/all/total_episodes", "sample_count"),
    Alias("optim/kl_sample_train_v2", "off_policy_kl"),
    Alias("optim/kl_sample_train_v1", "off_policy_kl"),
    Alias("kl_sample_train_v2", "off_policy_kl"),
    Alias("kl_sample_train_v1", "off_policy_kl"),
    Alias("optim/entropy", "entropy"),
    Alias("entropy", "entropy"),
    Alias("optim/lr", "lr"),
    Alias("optim/grad_norm", "grad_norm"),
    Alias("optim/unclipped_grad_l2:mean", "grad_norm"),
    Alias("unclipped_grad_l2:mean", "grad_norm"),
    Alias("kl_pre_post_v1", "kl_old"),
    Alias("kl_policy_base", "kl_ref"),
    Alias("teacher_kl", "kl_teacher"),
    Alias("rollout_errors/total", "aborted_count"),
    Alias("progress/done_frac", "progress"),
    Alias("time/total", "time_step"),
    Alias("time/sampling", "time_gen"),
    Alias("time/sample", "time_gen"),
    Alias("time/sampling_time_mean", "time_gen_sample_mean"),
    Alias("time/policy_sample:mean", "time_gen_sample_mean"),
    Alias("time/sample_async:mean", "time_gen_sample_mean"),
    Alias("time/sampling_time_max", "time_gen_sample_max"),
    Alias("time/policy_sample:max", "time_gen_sample_max"),
    Alias("time/sample_async:max", "time_gen_sample_max"),
    Alias("time/env_step:mean", "time_tool_sample_mean"),
    Alias("time/env_step:max", "time_tool_sample_max"),
    Alias("time/train", "time_update_actor"),
    Alias("time/train_step", "time_update_actor"),
    Alias("time/assemble_training_data", "time_prepare"),
    Alias("time/compute_kl_penalty", "time_ref"),
    Alias("time/kl_vs_base", "time_ref"),
    Alias("time/save_checkpoint", "time_save"),
    Alias("time/run_evals", "time_eval"),
    Alias("time/run_evaluations_parallel", "time_eval"),
)

_PIPELINE = (
    Alias("sampling_client/step_mean", "sample_version"),
    Alias("sampling_client/step_min", "sample_version_min"),
    Alias("sampling_client/step_max", "sample_version_max"),
    Alias("training_client/step", "param_version"),
    Alias("time/sampling_time_min", "time_gen_sample_min"),
    Alias("rollout_errors/groups_skipped", "rollout_failures"),
    Alias("rollout_errors/%", "rollout_errors"),
    Alias("time/trajectory_group_worker:mean", "time_group"),
    Alias("time/trajectory_group_worker:max", "time_group"),
    Alias("time/env_initial_observation:mean", "time_env_reset"),
    Alias("time/env_initial_observation:max", "time_env_reset"),
    Alias("time/compute_group_rewards:mean", "time_score_mean"),
    Alias("time/compute_group_rewards:max", "time_score_max"),
    Alias("env/all/stop/%", "stop_share"),
    Alias("time/save_checkpoint_and_get_sampling_client", "time_weight_sync"),
)

_SUPERVISED = (
    Alias("learning_rate", "lr"),
    Alias("train_mean_nll", "loss"),
    Alias("test/nll", "val_loss"),
    Alias("dpo_loss", "loss", algorithms=_PAIRS),
    Alias("accuracy", "dpo_accuracy", algorithms=_PAIRS),
    Alias("margin", "dpo_margin", algorithms=_PAIRS),
    Alias("chosen_reward", "dpo_chosen", algorithms=_PAIRS),
    Alias("rejected_reward", "dpo_rejected", algorithms=_PAIRS),
    Alias("batch_time", "time_step"),
    Alias("num_tokens", "total_tokens"),
    Alias("progress", "progress"),
)

_OUTER = "do_train_step_and_get_sampling_client"
_METRICS = "compute_full_batch_metrics_and_get_sampling_client"
_SAVE = "save_checkpoint_and_get_sampling_client"


def _stage(name: str, parent: str = "", lane: int = 0) -> Stage:
    return Stage(f"time/{name}", name=name, parent=parent, lane=lane)


TIMING = TimingPlan(
    step_keys=("time/total", "batch_time"),
    stages=(
        _stage("get_batch"),
        _stage("run_evals"),
        _stage("run_evaluations_parallel"),
        _stage("run_single_evaluation", "run_evaluations_parallel"),
        _stage("sampling"),
        _stage("sample"),
        Stage("time/do_group_rollout*:max", name="slowest group", parent="sampling", lane=1),
        Stage("time/policy_sample:max", name="slowest sample", parent="sampling", lane=2),
        Stage("time/policy_sample:mean", name="mean sample", parent="sampling", lane=3),
        _stage(_OUTER),
        _stage("prepare_minibatch", _OUTER),
        _stage("assemble_training_data", "prepare_minibatch"),
        _stage("compute_kl_penalty", "prepare_minibatch"),
        _stage("kl_vs_base", "prepare_minibatch"),
        _stage("train", _OUTER),
        _stage("train_step", _OUTER),
        _stage(_METRICS, _OUTER),
        _stage("compute_kl_sample_train", _METRICS),
        _stage("compute_post_kl", _METRICS),
        _stage(_SAVE, _METRICS),
        _stage("save_checkpoint", _SAVE),
        # Usually awaited before the step ends, but not while an evaluation runs.
        Stage("time/save_checkpoint_async", name="save_checkpoint_async", fits_inside=True),
    ),
    counts=("time/*:count",),
    statistics=("time/*:*", "time/sampling_time_*"),
    namespace=("time/",),
)
"""Nested wherever the trainer traces the enclosing call; without it a stage stands at the top."""

DIALECT = Dialect(
    name="tinker",
    fingerprints=(
        Fingerprint(Algorithm.DISTILL, all_of=("teacher_kl",), any_of=_RL, weight=26),
        Fingerprint(Algorithm.GRPO, any_of=_RL, weight=24),
        Fingerprint(Algorithm.DPO, all_of=("dpo_loss", "num_pairs"), weight=24),
        Fingerprint(Algorithm.SFT, all_of=("train_mean_nll",), weight=24),
        Fingerprint(Algorithm.UNKNOWN, any_of=("test/env/*",), weight=5),
    ),
    aliases=(*RL_ALIASES, *_SUPERVISED, *_PIPELINE),
    timing=TIMING,
    hidden=("progress/*", "progress"),
    training_keys=("optim/*", "time/train*", "train_mean_nll", "dpo_loss"),
    staleness_bounds=("max_steps_off_policy",),
    traits=(TraitEvidence("is_async", ("sampling_client/step_min", "time/sampling_time_max")),),
)
