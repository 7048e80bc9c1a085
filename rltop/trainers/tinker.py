"""tinker-cookbook: RL, distillation, DPO and SFT through a training service."""

from __future__ import annotations

from rltop.catalog.dialect import Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence, spellings, stages
from rltop.model import Algorithm

_RL = ("env/*/reward/total", "env/*/by_group/frac_mixed", "optim/kl_sample_train_v1", "optim/kl_sample_train_v2")

_ALIASES = spellings("""
    reward_mean | env/all/reward/total | env/%/reward/total
    val_score | test/env/all/reward/total | test/env/%/reward/total | test/%/env/all/reward/total
    val_acc | test/env/all/correct
    val_response_len | test/env/all/ac_tokens_per_turn
    val_truncated_frac ×-1 +1 | test/env/all/format_eos
    success_frac | env/all/correct
    reward_component | env/all/format | env/all/pass_rate
    # Completions that emit EOS; the others were truncated.
    truncated_frac ×-1 +1 | env/all/format_eos
    mixed_group_frac | env/all/by_group/frac_mixed
    # Groups that are not mixed have zero variance.
    zero_std_frac ×-1 +1 | env/all/by_group/frac_mixed
    {all_good,all_bad}_frac | env/all/by_group/frac_{}
    response_len_mean | env/all/ac_tokens_per_turn
    prompt_len_mean | env/all/ob_tokens_per_turn
    num_turns_mean | env/all/turns_per_episode
    total_tokens | env/all/total_ac_tokens
    sample_count | env/all/total_episodes
    off_policy_kl | optim/kl_sample_train_v2 | optim/kl_sample_train_v1 | kl_sample_train_v2 | kl_sample_train_v1
    entropy | optim/entropy | entropy
    lr | optim/lr
    grad_norm | optim/grad_norm | optim/unclipped_grad_l2:mean | unclipped_grad_l2:mean
    kl_old | kl_pre_post_v1
    kl_ref | kl_policy_base
    kl_teacher | teacher_kl
    aborted_count | rollout_errors/total
    progress | progress/done_frac
    time_step | time/total
    time_gen | time/sampling | time/sample
    time_gen_sample_{mean,max} | time/sampling_time_{} | time/policy_sample:{} | time/sample_async:{}
    time_tool_sample_{mean,max} | time/env_step:{}
    time_update_actor | time/train | time/train_step
    time_prepare | time/assemble_training_data
    time_ref | time/compute_kl_penalty | time/kl_vs_base
    time_save | time/save_checkpoint
    time_eval | time/run_evals | time/run_evaluations_parallel
    lr | learning_rate
    loss | train_mean_nll
    val_loss | test/nll
    loss DPO | dpo_loss
    dpo_{accuracy,margin} DPO | {}
    dpo_{chosen,rejected} DPO | {}_reward
    time_step | batch_time
    total_tokens | num_tokens
    progress | progress
    sample_version | sampling_client/step_mean
    sample_version_{min,max} | sampling_client/step_{}
    param_version | training_client/step
    time_gen_sample_min | time/sampling_time_min
    rollout_failures | rollout_errors/groups_skipped
    rollout_errors | rollout_errors/%
    time_group | time/trajectory_group_worker:mean | time/trajectory_group_worker:max
    time_env_reset | time/env_initial_observation:mean | time/env_initial_observation:max
    time_score_{mean,max} | time/compute_group_rewards:{}
    stop_share | env/all/stop/%
    time_weight_sync | time/save_checkpoint_and_get_sampling_client
""")

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
        # Of pairs and of examples, which are submitted ahead.
        *stages("time/{}", "get_ref_logprobs", "submit_batch", "finish_batch"),
        *stages("time/{}", "step", parent="finish_batch"),
        # Usually awaited before the step ends, but not while an evaluation runs.
        *stages("time/{}", "save_checkpoint_async", fits_inside=True),
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
    aliases=_ALIASES,
    timing=TIMING,
    hidden=("progress/*", "progress"),
    training_keys=("optim/*", "time/train*", "train_mean_nll", "dpo_loss"),
    staleness_bounds=("max_steps_off_policy",),
    traits=(TraitEvidence("is_async", ("sampling_client/step_min", "time/sampling_time_max")),),
)
