"""RLinf: reasoning and agents as a pipeline of workers, and embodied policies in simulators.

One file per run of the trainer, and one per rank of each worker group where asked for.
The three runners name the same quantities alike below `train/`, `actor/training/` and
`critic/training/`. `clipped_ratio` is the mean of the ratio after clipping, not a share;
`entropy_loss` is the mean entropy; `rollout_train_kl` is a mean absolute difference of
log-probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TimingPlan, TraitEvidence
from rltop.model import Algorithm
from rltop.structs import replace

_CRITIC = ("critic/training/*", "train/critic/*")
_EPISODES = ("env/success_once", "env/episode_len", "env/return", "env/success_at_end")
_PIPELINE = ("actor/training/actor/*", "time/actor/training", "rollout/fraction_of_samples_properly_ended")
_AGENT = ("rollout/reward_scores_traj", "rollout/avg_turns_per_traj")
_UPDATES = ("train/actor/approx_kl", "train/actor/clip_fraction", "train/actor/policy_loss")
_RANK = ("time/env/*", "time/actor/%", "time/rollout/%")

_UPDATE = (
    Alias("actor/policy_loss", "policy_loss"),
    Alias("actor/final_loss", "loss"),
    Alias("actor/total_loss", "loss"),
    Alias("loss", "loss"),
    Alias("actor/entropy_loss", "entropy"),
    Alias("actor/entropy", "entropy"),
    Alias("entropy_loss", "entropy"),
    Alias("actor/approx_kl", "kl_old"),
    Alias("actor/proximal_approx_kl", "kl_old"),
    Alias("actor/kl_loss", "kl_ref"),
    Alias("actor/clip_fraction", "clip_frac"),
    Alias("actor/clip_frac", "clip_frac"),
    Alias("actor/dual_clip_fraction", "clip_frac_lower"),
    Alias("actor/ratio", "ratio_mean"),
    Alias("actor/proximal_ratio", "ratio_mean"),
    Alias("actor/clipped_ratio", "ratio_clipped"),
    Alias("actor/rollout_train_kl", "rollout_logp_diff_mean"),
    Alias("actor/behav_approx_kl", "off_policy_kl"),
    Alias("actor/behav_clip_fraction", "is_clip_frac"),
    Alias("actor/opd_reverse_kl", "kl_teacher"),
    Alias("actor/grad_norm", "grad_norm"),
    Alias("grad_norm", "grad_norm"),
    Alias("actor/lr", "lr"),
    Alias("learning_rate", "lr"),
    Alias("critic/value_loss", "value_loss"),
    Alias("critic/final_value_loss", "value_loss"),
    Alias("critic/explained_variance", "explained_var"),
    Alias("critic/value_clip_ratio", "clip_frac_value"),
    Alias("critic/grad_norm", "grad_norm_critic"),
    Alias("critic/lr", "lr_critic"),
    Alias("actor/current_version", "param_version"),
    Alias("replay_channel_qsize", "queue_size"),
)


def _logged(aliases: Iterable[Alias]) -> Iterable[Alias]:
    for alias in aliases:
        yield alias._replace(pattern=f"train/{alias.pattern}")
        worker, slash, _ = alias.pattern.partition("/")
        if slash:
            yield alias._replace(pattern=f"{worker}/training/{alias.pattern}")


_ROLLOUT = (
    Alias("rollout/reward_scores", "reward_mean"),
    Alias("rollout/reward_scores_traj", "reward_mean"),
    Alias("rollout/reward_scores_turn", "score_mean"),
    Alias("rollout/rewards", "reward_mean"),
    Alias("rollout/advantages_mean", "adv_mean"),
    Alias("rollout/advantages_max", "adv_max"),
    Alias("rollout/advantages_min", "adv_min"),
    Alias("rollout/returns_mean", "return_mean"),
    Alias("rollout/values_mean", "value_mean"),
    Alias("rollout/total_num_sequence", "sample_count"),
    Alias("rollout/average_response_length", "response_len_mean"),
    Alias("rollout/response_length", "response_len_mean"),
    Alias("rollout/max_of_response_length", "response_len_max"),
    Alias("rollout/max_response_length", "response_len_max"),
    Alias("rollout/min_of_response_length", "response_len_min"),
    Alias("rollout/prompt_length", "prompt_len_mean"),
    Alias("rollout/max_prompt_length", "prompt_len_max"),
    Alias("rollout/total_length", "total_len_mean"),
    # Finished completions; the others were truncated.
    Alias("rollout/fraction_of_samples_properly_ended", "truncated_frac", scale=-1.0, shift=1.0),
    Alias("rollout/avg_turns_per_traj", "num_turns_mean"),
    Alias("flops/training_tflops_per_gpu", "tflops_train"),
    Alias("flops/rollout_tflops_per_gpu", "tflops_rollout"),
)

_ENVIRONMENT = (
    Alias("env/success_once", "success_frac"),
    Alias("env/success_at_end", "success_frac"),
    Alias("env/success", "success_frac"),
    Alias("env/return", "episode_return"),
    Alias("env/episode_len", "episode_len"),
    Alias("env/reward", "env_reward"),
    Alias("eval/success_once", "val_score"),
    Alias("eval/env/success_once", "val_score"),
    Alias("eval/val_acc", "val_acc"),
    Alias("eval/return", "val_aux"),
    Alias("eval/*", "val_aux"),
)

_TIMES = (
    Alias("time/step", "time_step"),
    Alias("time/prepare_data", "time_prepare"),
    Alias("time/construct_rollout_batch", "time_wait_data"),
    Alias("time/sync_weights", "time_weight_sync"),
    Alias("time/update_rollout_weights", "time_weight_sync"),
    Alias("time/generate_rollouts", "time_gen"),
    Alias("time/rollout", "time_gen"),
    Alias("time/reward", "time_reward"),
    Alias("time/actor/inference", "time_old_log_prob"),
    Alias("time/inference", "time_old_log_prob"),
    Alias("time/critic/inference", "time_values"),
    Alias("time/cal_adv_and_returns", "time_adv"),
    Alias("time/actor_training", "time_update_actor"),
    Alias("time/actor/training", "time_update_actor"),
    Alias("time/training", "time_update_actor"),
    Alias("time/critic/training", "time_update_critic"),
    Alias("time/save_checkpoint", "time_save"),
    Alias("time/eval", "time_eval"),
)


def _stage(name: str, *, fits_inside: bool = False) -> Stage:
    return Stage(f"time/{name}", name=name, fits_inside=fits_inside)


# The workers run at the same time and wait for each other, and each duration holds its waiting: they
# add up to more than the step and are drawn as lanes.
_LANES = TimingPlan(
    step_keys=("time/step",),
    stages=(
        *map(_stage, ("prepare_data", "sync_weights", "rollout", "reward", "actor/inference", "inference")),
        *map(_stage, ("critic/inference", "critic/training", "actor/training", "training")),
        _stage("save_checkpoint", fits_inside=True),
        _stage("eval", fits_inside=True),
    ),
    namespace=("time/",),
)

# One stage after the other; what the workers did in a stage is shown inside it, never added.
_STACK = TimingPlan(
    step_keys=("time/step",),
    stages=(
        *map(_stage, ("construct_rollout_batch", "sync_weights", "generate_rollouts", "cal_adv_and_returns")),
        *map(_stage, ("actor_training", "update_rollout_weights")),
        _stage("save_checkpoint", fits_inside=True),
        _stage("eval", fits_inside=True),
        Stage("time/env/*", parent="generate_rollouts", lane=1),
        Stage("time/rollout/*", parent="generate_rollouts", lane=2),
        Stage("time/reward/*", parent="generate_rollouts", lane=3),
        Stage("time/actor/*", parent="actor_training", lane=1),
    ),
    namespace=("time/",),
)

DIALECT = Dialect(
    name="RLinf",
    fingerprints=(
        Fingerprint(Algorithm.PPO, any_of=_CRITIC, all_of=("rollout/advantages_mean",), none_of=_EPISODES, weight=43),
        Fingerprint(Algorithm.PPO, all_of=("critic/training/*",), weight=43),
        Fingerprint(
            Algorithm.GRPO,
            any_of=(*_PIPELINE, *_AGENT),
            none_of=(*_EPISODES, *_CRITIC),
            weight=42,
        ),
        Fingerprint(
            Algorithm.GRPO,
            all_of=("train/actor/policy_loss", "rollout/response_length"),
            none_of=(*_EPISODES, *_CRITIC),
            weight=42,
        ),
        # The keys of the updates alone.
        Fingerprint(Algorithm.PPO, any_of=_UPDATES, all_of=("train/critic/value_loss",), none_of=_EPISODES, weight=10),
        Fingerprint(Algorithm.UNKNOWN, any_of=_UPDATES, weight=9),
    ),
    aliases=(*_logged(_UPDATE), *_ROLLOUT, *_ENVIRONMENT, *_TIMES),
    timing=_LANES,
    training_keys=("actor/training/*", "critic/training/*", "train/*"),
    prefixes=(("actor/training/", ""), ("critic/training/", ""), ("train/", "")),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence("is_async", ("train/replay_channel_qsize", "actor/proximal_approx_kl")),
        TraitEvidence("kl_is_signed", ("actor/approx_kl",)),
    ),
    group_size_keys=("group_size",),
    misleading=(
        *(
            (
                f"{prefix}actor/dual_cliped_ratio",
                "Mean probability ratio where dual clip applies, not a share of tokens.",
            )
            for prefix in ("train/", "actor/training/")
        ),
    ),
)
"""Reasoning and agents: workers connected by channels."""

EMBODIED = replace(
    DIALECT,
    variant="embodied",
    fingerprints=(
        Fingerprint(Algorithm.EMBODIED, any_of=_EPISODES, all_of=("env/*", "rollout/advantages_mean"), weight=45),
        Fingerprint(Algorithm.EMBODIED, any_of=_EPISODES, all_of=("train/actor/%",), weight=45),
        Fingerprint(Algorithm.EMBODIED, any_of=("time/generate_rollouts", "time/actor_training"), weight=44),
        Fingerprint(Algorithm.EMBODIED, all_of=("train/actor/%", "rollout/rewards"), weight=41),
        Fingerprint(Algorithm.EMBODIED, any_of=_EPISODES, weight=24),
        Fingerprint(Algorithm.EMBODIED, all_of=("rollout/rewards", "rollout/advantages_mean"), weight=10),
        Fingerprint(Algorithm.UNKNOWN, any_of=_RANK, none_of=("timing_s/*",), weight=11),
    ),
    timing=_STACK,
)
"""Embodied: simulators, a policy and its updates take turns."""
