"""Trinity-RFT: an explorer that generates and a trainer that learns, each counting its own steps.

The trainer logs veRL's keys with `time/` instead of `timing_s/`; the explorer has its own.
Completions are padded to the longest of the batch, so the logged clip ratio of lengths counts
at least one completion in every batch and does not show truncation: it is left out.
"""

from __future__ import annotations

from collections.abc import Iterable

from rltop.catalog.dialect import (
    Alias,
    Dialect,
    Fingerprint,
    Stage,
    TimingPlan,
    TraitEvidence,
    key_tables,
    spellings,
    stages,
)
from rltop.model import Algorithm
from rltop.trainers import verl

_CRITIC = (
    *("critic/values/mean", "critic/vf_loss", "critic/vf_explained_var", "critic/lr"),
    *("time/update_critic", "timing_per_token_ms/update_critic"),
)
_TRAINER = (
    *("time/train_step", "time/read_experience", "time/trainer_sync_interval", "sample/task_count"),
    *("sample/model_version/*", "sample/model_version_drift/*"),
)
_EXPLORER = (
    "experience_pipeline/*",
    "rollout/finished_task_count",
    "rollout/time/*",
    "explorer/time/*",
    "explore/time/*",
    "time/experience_pipeline/*",
    "rollout/model_version",
    "rollout/model_%/total_request_count",
    "rollout/ready_experience_count",
    "rollout/total_experience_count",
    "rollout/api_call_%_tokens_per_second/mean",
)
_ALONE = ("time/wait_explore_step", *(f"{part}/*/{word}@%" for part in ("eval", "bench") for word in ("mean", "best")))
_GROUPS = ("experience_pipeline/group_advantages/*",)
_PAIRS = ("actor/chosen_reward", "actor/dpo_loss", "actor/accuracy_mean")

_STEP_KEYS = ("time/train_step", "time/step", "explorer/time/wait_explore_step", "time/wait_explore_step")
"""The explorer's only step time is its wait for rollouts, which is all it does in a step."""

_VERL_ONLY = ("fully_async/", "gdpo/", "mismatch/", "rollouter/", "timing/", "train/", "val-", "val/")
"""Prefixes of veRL keys that this trainer never logs: of other veRL trainers, its validation, old versions."""


def _renamed(aliases: Iterable[Alias]) -> Iterable[Alias]:
    """Adapt veRL's aliases to this trainer's spelling, and drop those that padding makes meaningless."""
    for alias in aliases:
        if not alias.pattern.endswith("/clip_ratio") and not alias.pattern.startswith(_VERL_ONLY):
            yield alias._replace(pattern=alias.pattern.replace("timing_s/", "time/", 1))


_OWN = spellings(key_tables(__file__)["keys"])

_STAGES = (
    *stages("time/{}", "read_experience", is_outside=True),
    Stage("time/step", name="training"),
    *stages(
        "time/{}",
        *("old_log_prob", "ref", "values", "adv", "update_critic", "update_actor"),
        parent="training",
        per_token_key="timing_per_token_ms/{}",
    ),
    *stages("time/{}", "sync_weight", "save_checkpoint", is_outside=True),
    # The explorer's stages: samples run concurrently, so their means are drawn as lanes.
    Stage("explorer/time/wait_explore_step", name="wait for rollouts"),
    Stage("time/wait_explore_step", name="wait for rollouts"),
    Stage("rollout/time/task_execution/mean", name="mean task", parent="wait for rollouts", lane=1),
    Stage("rollout/time/run_execution/mean", name="mean run", parent="wait for rollouts", lane=2),
    Stage("experience_pipeline/time/total", name="experience pipeline", is_outside=True),
    Stage("experience_pipeline/time/operator/*", parent="experience pipeline"),
    Stage("experience_pipeline/time/write", name="write", parent="experience pipeline"),
    *stages("time/{}", "eval", "bench", is_outside=True),
)


def _shared(stage: Stage, part: str) -> Stage:
    """The same stage with a part's prefix, for parts that share a W&B run."""
    per_token_key = f"{part}/{stage.per_token_key}" if stage.per_token_key else ""
    return stage._replace(pattern=f"{part}/{stage.pattern}", per_token_key=per_token_key)


_PARTS = ("trainer", "explorer")

_TIMING = TimingPlan(
    step_keys=(*_STEP_KEYS, *(f"{part}/{key}" for part in _PARTS for key in _STEP_KEYS)),
    stages=(*_STAGES, *(_shared(stage, part) for part in _PARTS for stage in _STAGES)),
    # Intervals that cover several steps, and statistics over samples.
    statistics=tuple(
        f"{part}{pattern}"
        for part in ("", *(f"{part}/" for part in _PARTS))
        for pattern in ("time/*sync_interval", "explore/time/sync_interval", "rollout/time/*")
    ),
    namespace=("time/", *(f"{part}/time/" for part in _PARTS)),
)

_STEADY = tuple(pattern.replace("timing_s/", "time/") for pattern in verl.DIALECT.training_keys)

DIALECT = Dialect(
    name="Trinity-RFT",
    fingerprints=(
        Fingerprint(Algorithm.DPO, any_of=_TRAINER, all_of=("actor/chosen_reward",), weight=46),
        Fingerprint(Algorithm.PPO, any_of=_TRAINER, all_of=("critic/vf_loss",), weight=45),
        Fingerprint(Algorithm.PPO, any_of=_TRAINER, all_of=("critic/values/mean",), weight=45),
        Fingerprint(Algorithm.GRPO, any_of=_TRAINER, all_of=("actor/pg_loss",), none_of=(*_CRITIC, *_PAIRS), weight=44),
        Fingerprint(
            Algorithm.GRPO,
            any_of=_TRAINER,
            all_of=("critic/advantages/mean",),
            none_of=(*_CRITIC, *_PAIRS, "actor/sft_loss"),
            weight=43,
        ),
        Fingerprint(Algorithm.SFT, any_of=_TRAINER, all_of=("actor/sft_loss",), none_of=("actor/pg_loss",), weight=42),
        Fingerprint(Algorithm.GRPO, any_of=_GROUPS, weight=41),
        # tinker logs `train_step`, too.
        Fingerprint(
            Algorithm.UNKNOWN,
            any_of=(*_TRAINER, *_EXPLORER),
            none_of=("env/*/reward/total", "optim/kl_sample_train_*"),
            weight=36,
        ),
        # Only some of the explorer's keys: its wait, or evaluations over k runs of a task.
        Fingerprint(Algorithm.UNKNOWN, any_of=_ALONE, weight=6),
        Fingerprint(Algorithm.UNKNOWN, all_of=("rollout/%/mean", "time/eval"), weight=6),
    ),
    aliases=tuple(dict.fromkeys((*_OWN, *_renamed(verl.DIALECT.aliases)))),
    timing=_TIMING,
    hidden=(
        *("training/global_step", "rollout/model_%/*", "rollout/ready_experience_count"),
        *("rollout/total_experience_count", "eval/%/finished_task_count", "bench/%/finished_task_count"),
    ),
    training_keys=(*_STEADY, "time/train_step", "rollout/finished_task_count", "experience_pipeline/*"),
    prefixes=tuple((f"{part}/", "") for part in _PARTS),
    traits=(
        TraitEvidence("has_critic", _CRITIC),
        TraitEvidence("is_async", ("sample/model_version_drift/*",)),
        TraitEvidence("kl_is_signed", ("actor/ppo_kl",)),
    ),
    group_size_keys=("repeat_times",),
    advantage_keys=verl.DIALECT.advantage_keys,
    misleading=verl.PADDED,
)
