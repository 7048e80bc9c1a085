"""What a metric key means by its spelling alone, whichever trainer wrote it.

Lists the keys for step, time and total steps, and splits a key into section, group and name. Knows nothing of dialects.
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

`training_step` precedes `global_step` because one trainer counts episodes in the latter; `global_step/max_steps` and
`iteration` may hold text like `5/100`. The last four come from Baselines (DDPG, PPO2, TRPO) and Spinning Up.
"""

TRAINER_STEP_KEYS = ("train/global_step", "trainer/global_step", "global_step")
"""Keys for the trainer's own step in a row that also has another counter, such as the tracker's or the epoch's."""

TIMING_PREFIXES = ("profiling/", "timing", "time/", "system/")
"""Prefixes of keys with values that may repeat within a step."""

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
"""Keys that may hold the planned number of steps: a number, or the end of a text like `5/100`."""

GENERAL = "General"
"""Section of keys without a slash."""


class KeyPath(NamedTuple):
    """A key split for the tree of all metrics."""

    section: str
    group: str
    name: str


def split_key(key: str) -> KeyPath:
    """Split a key at its slashes.

    Without a slash the section is General. One slash gives section/metric, more give section/group/metric, where
    further slashes stay in the metric. An empty section counts as General, so that no key is lost. A key with an empty
    metric name (`""`, `"//"`, `"actor/"`) uses the whole key in quotation marks as the name. Slashes of a disk path,
    written between dots (`system/disk./home.usageGB`), and of a unit in brackets (`train_speed(iter/s)`) stay in the
    metric.
    """
    head, dot, _ = key.rpartition("(") if key.endswith(")") else key.partition("./")
    whole = head.count("/")
    parts = key.split("/", whole) if dot and whole < 2 and (whole or key.endswith(")")) else key.split("/", 2)
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
"""Prefixes of all matches, checked first: this is cheaper and settles most keys."""

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
    """Whether an evaluation writes the key, rather than training.

    A `val/` prefix is not enough: some trainers log statistics of the value function or the policy there, so only names
    that clearly mean validation count.
    """
    return key.startswith(_EVALUATION_STARTS) and _EVALUATION.match(key) is not None


def is_bookkeeping_key(key: str) -> bool:
    """Whether a key is only a counter: copies of the step, epochs, totals of a finished run."""
    if key in _COUNTS:
        return True
    may_count = key.startswith(_COUNTED_STARTS) or key.endswith(_COUNTED_ENDS)
    return may_count and _COUNTED.match(key) is not None


_MEAN_OF_RUN = frozenset({"train_loss", "train/train_loss"})
"""The mean loss of a finished run if the row also has its runtime; otherwise the loss of the step, in a custom loop."""
_RUNTIME = frozenset({"train_runtime", "train/train_runtime"})


def is_training_key(key: str) -> bool:
    return not is_evaluation_key(key) and (key in _MEAN_OF_RUN or not is_bookkeeping_key(key))


def is_gradient_norm(key: str) -> bool:
    """Whether a null under this key means overflow, even if it has never held a number."""
    return key.endswith("grad_norm") and "critic" not in key and not is_evaluation_key(key)


def is_training_row(keys: Collection[str]) -> bool:
    """Whether a row comes from training, rather than only from an evaluation or the totals of a finished run."""
    is_over = not _RUNTIME.isdisjoint(keys)
    return any(is_training_key(key) and not (is_over and key in _MEAN_OF_RUN) for key in keys)
