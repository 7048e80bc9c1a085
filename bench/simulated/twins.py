"""Healthy runs that resemble a fault and must raise no alarm.

As in `learning_faults`, every function takes the random generator and the rows of a
healthy run, and changes them as a harmless cause does: a solved task, a task that needs
longer answers, another stage of the data, easy pairs, or pairs so hard that little is
learned for long.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import NamedTuple

from rltop.model import Algorithm
from simulated.series import healthy
from simulated.writers import ONLINE, PAIRS, Made, Plan, Row, keys_of

_GROUPS = frozenset({Algorithm.GRPO, Algorithm.RLOO})
_RANKED = frozenset({Algorithm.DPO, Algorithm.REWARD})


class Twin(NamedTuple):
    """A healthy look-alike: its name, its algorithms, its change, and the metrics needed to recognise it."""

    name: str
    where: frozenset[Algorithm]
    apply: Callable[[random.Random, list[Row]], None]
    needs: tuple[str, ...] = ()


def solved(rng: random.Random, rows: list[Row]) -> None:
    """The reward reaches its top, groups agree, gradient and entropy fall."""
    begin, length = int(rng.uniform(0.2, 0.5) * len(rows)), max(int(rng.uniform(0.15, 0.4) * len(rows)), 4)
    top = rows[0]["reward_max"]
    for index, row in enumerate(rows):
        part = min(max(index - begin, 0) / length, 1.0)
        left = 1.0 - part * rng.uniform(0.985, 1.0)
        row["reward_mean"] = row["score_mean"] = top - left * (top - row["reward_mean"])
        row["zero_std_frac"] = 1.0 - left * (1.0 - row["zero_std_frac"])
        row["reward_std"] *= math.sqrt(left)
        row["grad_norm"] *= max(math.sqrt(left), 0.02)
        row["entropy"] *= 1.0 - 0.6 * part


def longer(rng: random.Random, rows: list[Row]) -> None:
    """Answers grow up to threefold over the whole run, and reward and validation rise with them."""
    times, last = rng.uniform(1.4, min(1.5 + len(rows) / 100, 3.0)), len(rows) - 1
    top = rows[0]["reward_max"]
    for index, row in enumerate(rows):
        part = index / max(last, 1)
        for name in ("response_len_mean", "terminated_len_mean", "total_tokens", "time_step", "time_gen"):
            row[name] *= times**part
        for name in ("reward_mean", "score_mean"):
            row[name] += 0.5 * part * (top - row[name])
        if "val_score" in row:
            row["val_score"] += 0.2 * part
    _count_tokens(rows)


def _count_tokens(rows: list[Row]) -> None:
    """Recompute the run's token total from its steps."""
    total = 0.0
    for row in rows:
        total += row["total_tokens"]
        row["num_tokens"] = total


def shorter(rng: random.Random, rows: list[Row]) -> None:
    """Answers lose their padding: down to 60 %, while reward and validation rise."""
    last, end = len(rows) - 1, rng.uniform(0.6, 0.8)
    for index, row in enumerate(rows):
        for name in ("response_len_mean", "terminated_len_mean", "total_tokens"):
            row[name] *= end ** (index / max(last, 1))
    _count_tokens(rows)


def spends_entropy(rng: random.Random, rows: list[Row]) -> None:
    """Most of the entropy is spent while the reward rises, as in every run on verifiable rewards."""
    end, top = rng.uniform(0.1, 0.2), rows[0]["reward_max"]
    for index, row in enumerate(rows):
        part = 1.0 - math.exp(-3.0 * index / len(rows))
        row["entropy"] *= end**part
        for name in ("reward_mean", "score_mean"):
            row[name] += 0.4 * part * (top - row[name])


def far_but_well(rng: random.Random, rows: list[Row]) -> None:
    """The KL to the reference grows to 0.8 nats per token and stays; the reward rises with it."""
    top = rows[0]["reward_max"]
    for index, row in enumerate(rows):
        part = 1.0 - math.exp(-4.0 * index / len(rows))
        row["kl_ref"] = 0.8 * part * math.exp(rng.gauss(0.0, 0.07))
        for name in ("reward_mean", "score_mean"):
            row[name] += 0.5 * part * (top - row[name])


def one_prompt(rng: random.Random, rows: list[Row]) -> None:
    """Batches of one or two groups: rewards jump, and every few records all answers score the same."""
    low, high = rows[0]["reward_min"], rows[0]["reward_max"]
    for row in rows:
        share = (row["reward_mean"] - low) / (high - low)
        right = sum(rng.random() < share for _ in range(8)) / 8
        flat = float(right in (0.0, 1.0))
        row.update(reward_mean=low + right * (high - low), score_mean=low + right * (high - low), zero_std_frac=flat)
        row["reward_std"] = (high - low) * math.sqrt(right * (1 - right))
        if flat:
            row["grad_norm"] *= 0.05
            row["reward_max"] = row["reward_min"] = row["reward_mean"]


def next_stage(rng: random.Random, rows: list[Row]) -> None:
    """Harder data and longer answers from one record on, everything else unchanged."""
    begin, times = int(rng.uniform(0.4, 0.7) * len(rows)), rng.uniform(1.6, 2.5)
    low = rows[0]["reward_min"]
    for row in rows[begin:]:
        for name in ("response_len_mean", "terminated_len_mean", "total_tokens", "time_step", "time_gen"):
            row[name] *= times
        for name in ("reward_mean", "score_mean"):
            row[name] -= 0.45 * (row[name] - low)
    _count_tokens(rows)


def easy_pairs(rng: random.Random, rows: list[Row]) -> None:
    """All pairs are soon ranked correctly, in evaluation too: loss and gradient almost vanish."""
    for index, row in enumerate(rows):
        left = math.exp(-6.0 * index / len(rows))
        row["loss"] = max(row["loss"] * left, 0.004) * math.exp(rng.gauss(0.0, 0.1))
        row["grad_norm"] *= max(left, 0.01)
        for name in ("dpo_accuracy", "rm_accuracy"):
            row[name] = min(1.0 - 0.5 * left + rng.gauss(0.0, 0.01), 1.0)
        gap = 6.0 * (1.0 - left) * math.exp(rng.gauss(0.0, 0.05))
        row.update(dpo_margin=gap, rm_margin=gap, dpo_rejected=row["dpo_chosen"] - gap)
        if "val_loss" in row:
            row.update(val_loss=max(math.log(2.0) * left, 0.01), val_acc=1.0 - 0.5 * left, val_margin=0.9 * gap)


def hard_pairs(rng: random.Random, rows: list[Row]) -> None:
    """Small batches of controversial pairs: 55 to 60 % accuracy at the end, with strong noise."""
    pairs, end = rng.choice([4, 8, 16]), rng.uniform(0.56, 0.62)
    for index, row in enumerate(rows):
        share = 0.5 + (end - 0.5) * min(2.0 * (index + 1) / len(rows), 1.0)
        right = sum(rng.random() < share for _ in range(pairs)) / pairs
        gap = 1.5 * (share - 0.5) + rng.gauss(0.0, 0.4 / math.sqrt(pairs))
        row.update(dpo_accuracy=right, rm_accuracy=right, dpo_margin=gap, rm_margin=gap)
        row["dpo_rejected"] = row["dpo_chosen"] - gap
        row["loss"] = math.log(2.0) - 0.5 * gap + gap * gap / 8
        if "val_loss" in row:
            row.update(val_loss=math.log(2.0) - 0.6 * (share - 0.5), val_acc=share + rng.gauss(0.0, 0.03))


def second_pass(rng: random.Random, rows: list[Row]) -> None:
    """Two passes over human pairs: training pulls ahead of a flat evaluation."""
    for index, row in enumerate(rows):
        part = index / len(rows)
        for name in ("dpo_accuracy", "rm_accuracy"):
            row[name] = min(0.5 + 0.38 * (1 - math.exp(-4 * part)) + rng.gauss(0.0, 0.03), 1.0)
        row["loss"] = math.log(2.0) - 0.35 * (1 - math.exp(-4 * part)) + rng.gauss(0.0, 0.03)
        if "val_loss" in row:
            level = 1 - math.exp(-6 * part)
            row.update(val_loss=math.log(2.0) - 0.12 * level + rng.gauss(0.0, 0.004), val_acc=0.5 + 0.2 * level)


TWINS: tuple[Twin, ...] = (
    Twin("solved", _GROUPS, solved),
    Twin("longer, and better", ONLINE, longer),
    Twin("shorter, and better", ONLINE, shorter),
    Twin("entropy spent on reward", ONLINE, spends_entropy),
    Twin("far from the reference, and better", _GROUPS, far_but_well),
    Twin("one prompt a batch", _GROUPS, one_prompt),
    Twin("next stage", ONLINE, next_stage, ("time_step", "response_len_mean", "entropy", "grad_norm")),
    Twin("easy pairs", _RANKED, easy_pairs),
    Twin("hard pairs", _RANKED, hard_pairs),
    Twin("second pass", PAIRS - {Algorithm.KTO}, second_pass),
)


def twin_of(plan: Plan, twin: Twin) -> Made | None:
    """The plan's healthy run, made to look like a fault; None if the logged metrics could not tell them apart."""
    if not set(twin.needs) <= set(keys_of(plan.writer)):
        return None
    made = healthy(plan)
    twin.apply(random.Random(f"{twin.name}/{plan.writer.name}/{plan.seed}"), made.rows)
    return made
