"""Writers of simulated runs, each with the keys, precision and form of one trainer."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from rltop import trainers
from rltop.catalog.dialect import Dialect
from rltop.model import Algorithm

Row = dict[str, float]

ONLINE = frozenset({Algorithm.GRPO, Algorithm.PPO, Algorithm.RLOO, Algorithm.UNKNOWN})
PAIRS = frozenset({Algorithm.DPO, Algorithm.KTO, Algorithm.REWARD})


class Writer(NamedTuple):
    """How one trainer logs.

    Attributes:
        name: name in the table.
        dialect: the dialect of its keys.
        algorithm: training algorithm.
        form: `jsonl`, `nested` (veRL's), `console` (veRL's) or `dict` (that of transformers).
        digits: decimals of a console log, or None for full precision.
        metrics: canonical names; if empty, all that the dialect can spell.
        extra: keys that identify the trainer, with a value.
        without: prefixes of keys that its dialect has from another trainer of the family.
        sums_kl: the KL to the reference is summed over answers of this length.
        reuses: records per rollout; metrics of answers are in the first of them only.
    """

    name: str
    dialect: Dialect
    algorithm: Algorithm
    form: str = "jsonl"
    digits: int | None = None
    metrics: tuple[str, ...] = ()
    extra: Mapping[str, float] = {}
    without: tuple[str, ...] = ()
    sums_kl: float = 1.0
    reuses: int = 1


class Plan(NamedTuple):
    """The parameters of one run: `records` rows, one per `cadence` steps, by `writer`."""

    writer: Writer
    records: int
    cadence: int
    seed: int


class Made(NamedTuple):
    """A run with its label: bad from record `first` on, plainly visible by `last` (both from 1)."""

    plan: Plan
    rows: list[Row]
    first: int = 0
    last: int = 0


_BARE = ("loss", "grad_norm", "lr", "reward_mean", "reward_std", "response_len_mean", "kl_ref")
_FEWEST = ("loss", "grad_norm", "lr", "reward_mean", "kl_ref")
_OWN = ("loss", "grad_norm", "lr", "reward_mean", "entropy", "response_len_mean", "kl_ref", "time_step", "clip_frac")
_VERL_OLD = (
    "reward_mean", "score_mean", "reward_max", "reward_min", "entropy", "policy_loss", "grad_norm", "clip_frac",
    "kl_old", "kl_ref", "lr", "response_len_mean", "response_len_max", "time_step", "time_gen", "truncated_frac",
    "val_score",
)  # fmt: skip

_TRL_PPO = ("objective/", "policy/", "val/", "loss/")
_CRITIC = frozenset({"value_loss", "explained_var", "value_mean", "return_mean", "clip_frac_value"})
_OF_ROLLOUTS = frozenset(
    {"reward_mean", "score_mean", "reward_std", "reward_max", "reward_min", "zero_std_frac", "response_len_mean",
     "response_len_max", "response_len_min", "truncated_frac", "terminated_len_mean", "num_tokens", "total_tokens"}
)  # fmt: skip
_NOT_LOGGED: Mapping[Algorithm, frozenset[str]] = {
    Algorithm.GRPO: _CRITIC,
    Algorithm.UNKNOWN: _CRITIC,
    Algorithm.PPO: frozenset({"zero_std_frac", "reward_std"}),
    Algorithm.KTO: frozenset({"dpo_accuracy", "val_acc"}),
}
"""Metrics that trainers of an algorithm do not log, although their dialect can spell them."""

WRITERS: tuple[Writer, ...] = (
    Writer("TRL GRPO", trainers.trl.DIALECT, Algorithm.GRPO, extra={"epoch": 0.1}, without=_TRL_PPO),
    Writer(
        "TRL GRPO, console", trainers.trl.DIALECT, Algorithm.GRPO, "dict", 4, extra={"epoch": 0.1}, without=_TRL_PPO
    ),
    Writer("TRL GRPO, few keys", trainers.trl.DIALECT, Algorithm.GRPO, "dict", 4, _BARE, {"epoch": 0.1}, _TRL_PPO),
    Writer("TRL GRPO, fewest keys", trainers.trl.DIALECT, Algorithm.GRPO, "dict", 4, _FEWEST, {"epoch": 0.1}, _TRL_PPO),
    Writer(
        "TRL GRPO, reused rollouts",
        trainers.trl.DIALECT,
        Algorithm.GRPO,
        extra={"epoch": 0.1},
        without=_TRL_PPO,
        reuses=4,
    ),
    Writer("TRL PPO", trainers.trl.DIALECT, Algorithm.PPO, extra={"episode": 64}, sums_kl=100.0),
    Writer("veRL GRPO", trainers.verl.DIALECT, Algorithm.GRPO, "nested"),
    Writer("veRL PPO", trainers.verl.DIALECT, Algorithm.PPO, "nested"),
    Writer("veRL GRPO, console", trainers.verl.DIALECT, Algorithm.GRPO, "console", 3, _VERL_OLD),
    Writer("OpenRLHF", trainers.openrlhf.DIALECT, Algorithm.PPO),
    Writer("tinker", trainers.tinker.DIALECT, Algorithm.GRPO),
    Writer("prime-rl", trainers.prime_rl.DIALECT, Algorithm.GRPO),
    Writer("SkyRL", trainers.skyrl.DIALECT, Algorithm.GRPO),
    Writer("NeMo-RL", trainers.nemo_rl.DIALECT, Algorithm.GRPO),
    Writer("slime", trainers.slime.DIALECT, Algorithm.GRPO),
    Writer("AReaL", trainers.areal.DIALECT, Algorithm.GRPO),
    Writer("open-instruct", trainers.open_instruct.DIALECT, Algorithm.GRPO),
    Writer("ROLL", trainers.roll.DIALECT, Algorithm.PPO),
    Writer("Telescope", trainers.telescope.DIALECT, Algorithm.GRPO),
    Writer("own keys", trainers.GENERIC, Algorithm.UNKNOWN, metrics=_OWN),
    Writer("TRL DPO", trainers.trl.DIALECT, Algorithm.DPO, extra={"epoch": 0.1}),
    Writer("TRL DPO, console", trainers.trl.DIALECT, Algorithm.DPO, "dict", 4, extra={"epoch": 0.1}),
    Writer("TRL KTO", trainers.trl.DIALECT, Algorithm.KTO, extra={"epoch": 0.1}),
    Writer("TRL reward model", trainers.trl.DIALECT, Algorithm.REWARD, extra={"epoch": 0.1}),
    Writer("TRL SFT", trainers.trl.DIALECT, Algorithm.SFT, extra={"epoch": 0.1}),
)


def keys_of(writer: Writer) -> dict[str, tuple[str, float, float]]:
    """Canonical name → (key, scale, shift) as the writer spells it; a wildcard becomes a name."""
    found: dict[str, tuple[str, float, float]] = {}
    taken: set[str] = set(writer.extra)
    for alias in writer.dialect.aliases:
        if alias.algorithms and writer.algorithm not in alias.algorithms:
            continue
        if alias.metric in _NOT_LOGGED.get(writer.algorithm, ()):
            continue
        key = alias.pattern.replace("*", "set").replace("%", "set")
        if key.startswith(writer.without):
            continue
        if alias.metric in found or key in taken or (writer.metrics and alias.metric not in writer.metrics):
            continue
        found[alias.metric] = (key, alias.scale, alias.shift)
        taken.add(key)
    for key in writer.dialect.timing.step_keys if writer.dialect.timing else ():
        if "time_step" not in found and "*" not in key and (not writer.metrics or "time_step" in writer.metrics):
            found["time_step"] = (key, 1.0, 0.0)
    for stage in writer.dialect.timing.stages if writer.dialect.timing else ():
        name = {"gen": "time_gen", "save_checkpoint": "time_save", "testing": "time_eval"}.get(stage.name)
        if name and name not in found and "*" not in stage.pattern:
            found[name] = (stage.pattern, stage.scale, 0.0)
    return found


def text_of(made: Made) -> str:
    """The run as its trainer writes it."""
    plan = made.plan
    spelled = keys_of(plan.writer)
    return "".join(
        _line(plan.writer, number * plan.cadence, _spelled(plan.writer, _known(plan.writer, row, number), spelled))
        + "\n"
        for number, row in enumerate(made.rows, 1)
    )


def _known(writer: Writer, row: Row, number: int) -> Row:
    """The metrics that the writer knows for this record; those of answers only if some were generated."""
    if (number - 1) % writer.reuses == 0:
        return row
    left = {name: value for name, value in row.items() if name not in _OF_ROLLOUTS}
    return left | {"time_step": 0.1 * row["time_step"]}


def _spelled(writer: Writer, row: Row, spelled: Mapping[str, tuple[str, float, float]]) -> dict[str, float | None]:
    found: dict[str, float | None] = dict(writer.extra)
    for name, (key, scale, shift) in spelled.items():
        if name in row:
            value = row[name]
            if name == "kl_ref":
                value *= writer.sums_kl
            found[key] = None if value == math.inf else (value - shift) / scale
    return found


def _line(writer: Writer, step: int, values: Mapping[str, float | None]) -> str:
    if writer.form == "console":
        return f"step:{step} - " + " - ".join(
            f"{key}:{'nan' if value is None else f'{value:.{writer.digits}f}'}" for key, value in values.items()
        )
    if writer.form == "dict":
        # Learning rates keep their digits, as transformers prints them.
        shown = {
            key: float("nan") if value is None else value if "learning" in key else round(value, writer.digits)
            for key, value in values.items()
        }
        return str(shown)
    if writer.form == "nested":
        return json.dumps(
            {"step": step, "data": {key: None if value != value else value for key, value in values.items()}}
        )
    return json.dumps({"step": step, **values})


def plans(
    per_writer: int,
    records: Sequence[int] = (20, 24, 32, 40, 60, 90, 120, 180, 240),
    cadences: Sequence[int] = (1, 1, 5, 10),
) -> Iterator[Plan]:
    """`per_writer` plans for every writer, of all lengths and cadences."""
    for writer in WRITERS:
        for seed in range(per_writer):
            rng = random.Random(f"plan/{writer.name}/{seed}")
            yield Plan(writer, rng.choice(records), rng.choice(cadences), seed)
