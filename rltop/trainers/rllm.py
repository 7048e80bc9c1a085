"""rLLM: agents on veRL or on tinker; its own keys for groups, advantages and episodes beside those of the backend.

Keys name the role of an agent (`reward/solver/mean`); a run with one agent calls it `default` or by its class.
On tinker, `kl_sample_train_v1` is a mean absolute difference of log-probabilities, and `v2` half its square.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage, TraitEvidence
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import verl
from rltop.trainers.setup_hints import SetupHint

_OWN = ("batch/solve_partial", "batch/%/fractions/effective", "advantage/%/fraction_zero", "groups/num_trajs_*_filter")
_STATISTICS = ("mean", "std", "max", "min")

_ALIASES = (
    *(Alias(f"reward/%/{each}", f"reward_{each}") for each in _STATISTICS),
    *(Alias(f"advantage/%/{each}", f"adv_{each}") for each in _STATISTICS),
    Alias("advantage/%/fraction_zero", "sample_metric"),
    Alias("episode/correct", "success_frac"),
    Alias("batch/%/fractions/effective", "zero_std_frac", scale=-1.0, shift=1.0),
    Alias("batch/%/fractions/too_easy", "all_good_frac"),
    Alias("batch/%/fractions/too_hard", "all_bad_frac"),
    Alias("batch/solve_all", "all_good_frac"),
    Alias("batch/solve_none", "all_bad_frac"),
    Alias("batch/solve_partial", "mixed_group_frac"),
    Alias("groups/dropped_zero_adv", "zero_std_count"),
    Alias("groups/num_trajs_after_filter", "sample_count"),
    *(
        Alias(f"{prefix}/{reason}", metric)
        for prefix in ("batch/termination_reason", "episode/termination_reason", "batch")
        for reason, metric in (("max_response_length_exceeded", "truncated_frac"), ("error", "aborted_frac"))
    ),
    Alias("batch/termination_reason/%", "sample_metric"),
    Alias("episode/termination_reason/%", "sample_metric"),
    *(Alias(f"batch/steps_per_traj/{each}", f"num_turns_{each}") for each in ("mean", "max", "min")),
    Alias("episode/num_turns", "num_turns_mean"),
    Alias("batch/%/group_reward_std/p50", "reward_std"),
    Alias("batch/%/group_reward_mean/%", "sample_metric"),
    Alias("batch/%/group_reward_std/%", "sample_metric"),
    Alias("val/*/pass@1", "val_score"),
    Alias("val/*/pass@*", "val_passk"),
    Alias("val/reward/%/mean", "val_reward"),
    Alias("train/kl_sample_train_v2", "off_policy_kl"),
    Alias("train/kl_sample_train_v1", "rollout_logp_diff_mean"),
    Alias("train/entropy", "entropy"),
    Alias("progress/lr", "lr"),
    Alias("progress/done_frac", "progress"),
    *(
        Alias(f"{prefix}/{name}", metric)
        for prefix in ("rollout_correction", "offpolicy")
        for metric, names in verl.CORRECTION.items()
        for name in names
    ),
    Alias("async/staleness_mean", "staleness_mean"),
    Alias("async/staleness_max", "staleness_max"),
    Alias("async/buffer_qsize", "queue_size"),
    Alias("async/weight_version", "param_version"),
    Alias("async/trainer_idle_ratio", "trainer_idle_frac"),
    Alias("time/step", "time_step"),
    Alias("time/buffer_wait", "time_wait_data"),
    Alias("time/weight_sync", "time_weight_sync"),
    Alias("time/forward_backward", "time_update_actor"),
    Alias("time/fused_forward_backward_and_optim_step", "time_update_actor"),
    Alias("time/save_checkpoint", "time_save"),
    Alias("time/testing", "time_eval"),
    Alias("timing_s/old_log_probs", "time_old_log_prob"),
    Alias("timing_s/weight_sync", "time_weight_sync"),
    Alias("episode/time/rollout_s", "time_gen_sample_mean"),
)
# What veRL logs too, and what only stands in for it.
_INSTEAD = (
    *(Alias(f"batch/step_response_length/{each}", f"response_len_{each}") for each in ("mean", "max", "min")),
    Alias("episode/response_tokens", "response_len_mean"),
    Alias("episode/prompt_tokens", "prompt_len_mean"),
)


def _stage(key: str, *, fits_inside: bool = False, is_outside: bool = False) -> Stage:
    return Stage(key, name=key.partition("/")[2], fits_inside=fits_inside, is_outside=is_outside)


_STAGES = (
    _stage("time/buffer_wait"),
    _stage("time/forward_backward"),
    _stage("time/optim_step"),
    _stage("time/fused_forward_backward_and_optim_step"),
    _stage("time/weight_sync", fits_inside=True),
    _stage("time/save_checkpoint", fits_inside=True),
    _stage("time/testing", is_outside=True),
    _stage("timing_s/old_log_probs"),
    _stage("timing_s/rollout_correction"),
    _stage("timing_s/weight_sync", fits_inside=True),
)

DIALECT: Dialect = replace(
    verl.DIALECT,
    name="rLLM",
    fingerprints=(
        *(Fingerprint(Algorithm.PPO, all_of=(own,), any_of=verl.CRITIC, weight=49) for own in _OWN),
        Fingerprint(Algorithm.GRPO, any_of=_OWN, none_of=verl.CRITIC, weight=48),
    ),
    aliases=(*_ALIASES, *(alias for alias in verl.DIALECT.aliases if alias.pattern != "reward/*"), *_INSTEAD),
    timing=replace(
        verl.TIMING,
        step_keys=(*verl.TIMING.step_keys, "time/step"),
        stages=(*verl.TIMING.stages, *_STAGES),
        statistics=(*verl.TIMING.statistics, "episode/time/*"),
        namespace=(*verl.TIMING.namespace, "time/"),
    ),
    hidden=(
        *verl.DIALECT.hidden,
        *("batch/num_tasks", "batch/%/total", "batch/%/informative", "batch/groups_*", "groups/num_groups"),
        *("groups/num_trajs_before_filter", "groups/%_group_size", "async/buffer_consumed", "async/buffer_filtered"),
        *("async/groups_consumed", "async/quota_used", "async/max_rollout_quota", "async/total_syncs"),
        *("async/dispatched_since_sync", "async/steps_since_sync"),
    ),
    group_size_keys=(*verl.DIALECT.group_size_keys, "groups/avg_group_size"),
    training_keys=(*verl.DIALECT.training_keys, "advantage/*", "progress/lr"),
    traits=(*verl.DIALECT.traits, TraitEvidence("is_async", ("async/*",))),
)

SETUP_HINT = SetupHint(
    "rLLM",
    'rllm.trainer.logger=\'["console","file"]\'',
    "$VERL_FILE_LOGGER_ROOT/<project_name>/<experiment_name>.jsonl",
    note="Set VERL_FILE_LOGGER_ROOT to an absolute path on a shared file system; the file is written in blocks, so "
    "it lags by some steps.",
    leaves="the console output",
)
