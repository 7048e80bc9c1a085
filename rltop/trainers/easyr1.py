"""EasyR1: veRL for vision-language models, with an outer loop and a metric file of its own.

Completions are padded to the length that is set, so the clip ratio of lengths is truncation;
`reward/…` are the parts that a reward function returns, of which `overall` is the reward;
`pg_clipfrac_higher` counts the tokens that the ordinary clip bound holds back, on either side.
"""

from __future__ import annotations

from rltop.catalog.dialect import Alias, Dialect, Fingerprint, Stage
from rltop.model import Algorithm
from rltop.structs import replace
from rltop.trainers import verl
from rltop.trainers.setup_hints import SetupHint

_OWN = ("val/reward_score", "actor/pg_clipfrac_higher", "perf/mfu_actor", "timing_s/old", "val_response_length/mean")
_CRITIC = (*verl.CRITIC, "perf/mfu_critic")


_NEVER = (
    *("actor/dist", "actor/perf/", "actor/rewards_", "actor/rollout_corr/", "fully_async/", "gdpo/", "mfu/"),
    *("mismatch/", "num_turns/", "perf/mfu/", "response/", "response_length_non_aborted/", "rollout/", "rollout_corr/"),
    *("rollouter/", "timing/", "timing_s/agent", "timing_per_token/", "tool_call", "train/", "training/", "val-"),
    *("reward/", "val/", "*/group", "group"),
)
"""Beginnings of veRL's keys that this trainer never logs, or means otherwise."""


def _stage(name: str, *, fits_inside: bool = False) -> Stage:
    return Stage(f"timing_s/{name}", name=name, fits_inside=fits_inside, per_token_key=f"timing_per_token_ms/{name}")


DIALECT: Dialect = replace(
    verl.DIALECT,
    name="EasyR1",
    fingerprints=(
        Fingerprint(Algorithm.PPO, all_of=("actor/*", "perf/mfu_critic"), any_of=_OWN, weight=39),
        Fingerprint(Algorithm.GRPO, all_of=("actor/*",), any_of=_OWN, none_of=_CRITIC, weight=38),
    ),
    aliases=(
        Alias("val/reward_score", "val_score"),
        Alias("val/overall_reward", "val_reward"),
        Alias("val/*_reward", "val_aux"),
        Alias("val_response_length/mean", "val_response_len"),
        Alias("val_response_length/clip_ratio", "val_truncated_frac"),
        Alias("reward/overall", "score_mean"),
        Alias("reward/%", "reward_component"),
        Alias("actor/pg_clipfrac_higher", "clip_frac"),
        Alias("actor/kl_penalty", "kl_ref"),
        Alias("perf/mfu_actor", "mfu"),
        Alias("perf/mfu_critic", "mfu_critic"),
        Alias("timing_s/old", "time_old_log_prob"),
        Alias("timing_s/validation", "time_eval"),
        *(alias for alias in verl.DIALECT.aliases if not alias.pattern.startswith(_NEVER)),
    ),
    timing=replace(verl.TIMING, stages=(*verl.TIMING.stages, _stage("old"), _stage("validation", fits_inside=True))),
)

SETUP_HINT = SetupHint(
    "EasyR1",
    'trainer.logger=\'["console","file"]\'',
    "checkpoints/<project_name>/<experiment_name>/experiment_log.jsonl",
    note="The file is in trainer.save_checkpoint_path. Relaunching under the same name truncates it.",
    leaves="the console output, and a W&B run if logged in",
)
