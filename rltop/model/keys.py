"""What a key says by its spelling alone, whoever wrote it.

Owns the lists of step, time and total keys and the split into section, group and name. Knows nothing of dialects.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from rltop.regex import regex
from rltop.structs import NamedTuple

STEP_KEYS = (
    "step",
    "_step",
    "training_step",
    "global_step",
    "train/global_step",
    "training/global_step",
    "trainer/global_step",
    "trainer/step",
    "explorer/step",
    "current_steps",
    "global_step/max_steps",
    "iteration",
    "training_iteration",
    "train/step",
    "rollout/step",
    "train_step",
    "steps",
    "global_steps",
    "iter",
    "update",
    "time/total_timesteps",
    "total/steps",
    "misc/total_timesteps",
    "TotalEnvInteracts",
    "TimestepsSoFar",
)
"""Keys that may hold a row's step, most trusted first.

`training_step` stands before `global_step` because one trainer counts episodes in
the latter; `global_step/max_steps` and `iteration` may hold text like `5/100`. The last four are those of
Baselines (DDPG, PPO2, TRPO) and Spinning Up.
"""

TRAINER_STEP_KEYS = ("train/global_step", "trainer/global_step", "global_step")
"""Keys under which a trainer names its step beside a counter of something else: of the tracker, of the epoch."""

TIMING_PREFIXES = ("profiling/", "timing", "time/", "system/")
"""How keys begin whose values repeat within a step."""

TIME_KEYS = (
    "time",
    "timestamp",
    "_timestamp",
    "wall_time",
    "recorded_at",
    "created_at",
    "datetime",
    "ts",
)
"""Keys that may hold a row's wall time: seconds since the epoch, or ISO 8601 text."""

TOTAL_KEYS = (
    "total_steps",
    "max_steps",
    "num_training_steps",
    "total_training_steps",
    "training/total_steps",
    "global_step/max_steps",
    "iteration",
)
"""Keys that may hold how many steps the run wants to make: a number, or the end of text like `5/100`."""

GENERAL = "General"
"""Section of keys without a slash."""


class KeyPath(NamedTuple):
    """A key, taken apart for the tree of all metrics."""

    section: str
    group: str
    name: str


def split_key(key: str) -> KeyPath:
    """Take a key apart at its slashes.

    Without a slash the section is General; with one it is section/metric; with more it is section/group/metric, where
    the metric keeps the further slashes. An empty section counts as General, so that no key is ever lost; a key that
    names nothing there (`""`, `"//"`, `"actor/"`) is named by the whole of it in quotation marks. The path of a disk
    stands between dots (`system/disk./home.usageGB`): its slashes belong to the metric.
    """
    head, dot, _ = key.partition("./")
    parts = key.split("/", head.count("/")) if dot and 0 < head.count("/") < 2 else key.split("/", 2)
    if not parts[-1].strip(" /"):
        return KeyPath(parts[0].strip() or GENERAL, "", f'"{key}"')
    if len(parts) == 1:
        return KeyPath(GENERAL, "", key)
    if len(parts) == 2:
        return KeyPath(parts[0] or GENERAL, "", parts[1])
    return KeyPath(parts[0] or GENERAL, parts[1], parts[2])


_EVALUATION = regex(
    r"""
    (?: eval | test ) [_/]
    | (?: val-core | val-aux | validation | bench | evaluation ) /
    | val/ (?: test_score/ | (?: loss | reward | accuracy | acc | score ) (?: $ | / )
        | .+ /pass@\d+ $ | \w+_ (?: reward | score ) $ )
    | val_ (?: loss | acc | reward | score ) | val_ (?: response | prompt ) _length/
    | (?: train/ | explorer/ )? eval [_/]
    | time/testing $
    """,
    re.VERBOSE,
)
_EVALUATION_STARTS = ("eval", "test", "val", "bench/", "train/eval", "explorer/eval", "time/testing")
"""How each of these begins: most keys need no more than this."""

_OF_TRAINER = (
    "epoch", "global_step", "num_input_tokens_seen", "total_flos", "train_loss", "train_runtime",
    "train_samples_per_second", "train_steps_per_second",
)  # fmt: skip
_COUNTS = frozenset((
    *_OF_TRAINER, *(f"train/{name}" for name in _OF_TRAINER),
    *(f"{part}/{name}" for part in ("training", "trainer") for name in ("global_step", "epoch", "total_steps")),
    *(f"progress/{name}" for name in ("batch", "epoch", "step", "done_frac")),
    "wandb_step", "step", "_step", "_runtime", "_timestamp", "total_steps", "max_steps", "current_steps", "percentage",
    "progress", "global_step/max_steps", "elapsed_time", "remaining_time", "rollout/step", "eval/step",
    "fully_async/count/current_param_version",
))  # fmt: skip
_COUNTED = regex(
    r"""
    eval [_/] (?: .* _ )? (?: runtime | samples_per_second | steps_per_second | model_preparation_time ) $
    | (?: \w+_ )? (?: update | step | batch | iteration ) _index $
    | alerts/ [^/]* $
    """,
    re.VERBOSE,
)
_COUNTED_STARTS, _COUNTED_ENDS = ("eval", "alerts/"), "_index"


def is_evaluation_key(key: str) -> bool:
    """Whether a key is written by an evaluation run rather than by training.

    `val/…` is not enough: some trainers keep statistics of the value function or of
    the policy there, so only the names that mean validation are taken from it.
    """
    return key.startswith(_EVALUATION_STARTS) and _EVALUATION.match(key) is not None


def is_bookkeeping_key(key: str) -> bool:
    """Whether a key only counts: copies of the step, epochs, totals of a finished run."""
    if key in _COUNTS:
        return True
    may_count = key.startswith(_COUNTED_STARTS) or key.endswith(_COUNTED_ENDS)
    return may_count and _COUNTED.match(key) is not None


_MEAN_OF_RUN = frozenset({"train_loss", "train/train_loss"})
"""The loss of a run that is over, where its runtime stands beside it; else that of the step, in a loop of one's own."""
_RUNTIME = frozenset({"train_runtime", "train/train_runtime"})


def is_training_key(key: str) -> bool:
    return not is_evaluation_key(key) and (key in _MEAN_OF_RUN or not is_bookkeeping_key(key))


def is_gradient_norm(key: str) -> bool:
    """Whether a null under a key is one that overflowed, also before it has ever been a number."""
    return key.endswith("grad_norm") and "critic" not in key and not is_evaluation_key(key)


def is_training_row(keys: Collection[str]) -> bool:
    """Whether a row is one of training: not of an evaluation alone, and no totals of a run that is over."""
    is_over = not _RUNTIME.isdisjoint(keys)
    return any(is_training_key(key) and not (is_over and key in _MEAN_OF_RUN) for key in keys)
