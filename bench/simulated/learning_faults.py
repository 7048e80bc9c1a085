"""Faults of learning: each changes the rows of a healthy run from a record on.

Every function takes the random generator, the rows and the index of the first bad one,
and returns the index by which the fault is plainly visible.
"""

from __future__ import annotations

import math
import random

from simulated.shapes import length_of, pull, ramp, scale, shown_by, sink_reward
from simulated.writers import Row


def nan(rng: random.Random, rows: list[Row], onset: int) -> int:
    names = ("grad_norm", "loss", "policy_loss", "entropy", "kl_ref", "kl_old", "value_loss")
    for row in rows[onset:]:
        row.update(dict.fromkeys([name for name in names if name in row], math.nan))
    return onset


def masked_nan(rng: random.Random, rows: list[Row], onset: int) -> int:
    for row in rows[onset:]:
        row.update(loss=0.0, grad_norm=math.nan)
    return onset


def nan_crash(rng: random.Random, rows: list[Row], onset: int) -> int:
    rows[onset].update(loss=math.nan, grad_norm=math.nan)
    del rows[onset + 1 :]
    return onset


def reward_missing(rng: random.Random, rows: list[Row], onset: int) -> int:
    value = rng.choice([math.inf, math.nan])
    for row in rows[onset:]:
        row.update(reward_mean=value, score_mean=value, reward_std=value)
    return onset


def reward_gone(rng: random.Random, rows: list[Row], onset: int) -> int:
    for row in rows[onset:]:
        for name in ("reward_mean", "score_mean", "reward_std", "reward_max", "reward_min"):
            row.pop(name, None)
    return onset + 5


def grad_spike(rng: random.Random, rows: list[Row], onset: int) -> int:
    if rng.random() < 0.5:
        rows[onset]["grad_norm"] *= rng.uniform(80, 1000) * max(1.0, 1.5 / rows[onset]["grad_norm"])
        rows[onset]["loss"] += rng.choice([-1, 1]) * rng.uniform(0.5, 5)
        return onset
    for index in range(onset, min(onset + 6, len(rows))):
        rows[index]["grad_norm"] *= rng.uniform(8, 40)
    return onset


def grad_climb(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = max(len(rows) - onset - 5, 5)
    scale(rows, ("grad_norm",), onset, ramp(length, rng.uniform(8, 30)))
    return shown_by(onset, length, rows)


def clip(rng: random.Random, rows: list[Row], onset: int) -> int:
    pull(rows, ("clip_frac",), onset, rng.uniform(0.08, 0.4), rng.choice([1, 6]), 0.2)
    scale(rows, ("kl_old",), onset, lambda age: rng.uniform(20, 60))
    return shown_by(onset, 6, rows)


def lr_jump(rng: random.Random, rows: list[Row], onset: int) -> int:
    factor = rng.choice([20, 100])
    scale(rows, ("lr",), onset, lambda age: factor)
    scale(rows, ("grad_norm",), onset + 1, lambda age: rng.uniform(2, 12))
    scale(rows, ("clip_frac", "kl_old"), onset + 1, lambda age: rng.uniform(15, 60))
    scale(rows, ("kl_ref",), onset + 1, ramp(8, rng.uniform(20, 200)))
    scale(rows, ("entropy",), onset + 1, ramp(8, rng.choice([0.1, 2.8])))
    scale(rows, ("logps_chosen", "logps_rejected"), onset + 1, ramp(8, 2.0))
    if "reward_mean" in rows[0]:
        sink_reward(rows, min(onset + 2, len(rows) - 1), rng.uniform(0.5, 0.95), 8)
    return shown_by(onset, 9, rows)


def entropy_falls(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [3, 10, 40])
    scale(rows, ("entropy",), onset, ramp(length, rng.uniform(0.02, 0.1)))
    scale(rows, ("reward_std",), onset, ramp(length, 0.4))
    for row in rows[onset:]:
        row["zero_std_frac"] = min(0.6 + 0.2 * row["zero_std_frac"], 1.0)
    sink_reward(rows, onset, rng.uniform(0.2, 0.5), length)
    return shown_by(onset, length, rows)


def entropy_from_start(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = rng.randint(8, 25)
    scale(rows, ("entropy",), 0, ramp(length, rng.uniform(0.02, 0.1)))
    first = rows[0]["reward_mean"]
    for index, row in enumerate(rows):
        row["reward_mean"] = row["score_mean"] = first + 0.3 * (row["reward_mean"] - rows[min(index, 3)]["reward_mean"])
        row["zero_std_frac"] = min(row["zero_std_frac"] + 0.5 * min(index / length, 1.0), 1.0)
        row["reward_std"] *= 1 - 0.7 * min(index / length, 1.0)
    return shown_by(0, length, rows)


def entropy_explodes(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [2, 8, 30])
    times = max(rng.uniform(3, 8), rng.uniform(1.2, 2.5) / max(rows[onset]["entropy"], 1e-6))
    scale(rows, ("entropy",), onset, ramp(length, min(times, 12 / max(rows[onset]["entropy"], 1e-6))))
    scale(rows, ("response_len_mean",), onset, ramp(length, rng.uniform(1.2, 2.2)))
    sink_reward(rows, onset, rng.uniform(0.3, 0.8), length)
    return shown_by(onset, length, rows)


def reward_crash(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [1, 6, 25])
    sink_reward(rows, onset, rng.uniform(0.6, 1.0), length)
    return shown_by(onset, length, rows)


def length_explodes(rng: random.Random, rows: list[Row], onset: int) -> int:
    length, times = length_of(rng, rows, onset, [2, 10, 40]), rng.uniform(2.6, 6)
    scale(rows, ("response_len_mean", "terminated_len_mean"), onset, ramp(length, times))
    scale(rows, ("time_step", "time_gen", "total_tokens"), onset, ramp(length, times * 0.8))
    if rng.random() < 0.5:
        pull(rows, ("truncated_frac",), onset, rng.uniform(0.3, 0.9), length)
    sink_reward(rows, onset, rng.uniform(0.1, 0.4), length)
    return shown_by(onset, length, rows)


def length_hack(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [5, 20, 40])
    scale(
        rows,
        ("response_len_mean", "response_len_max", "terminated_len_mean"),
        onset,
        ramp(length, rng.uniform(0.08, 0.35)),
    )
    scale(rows, ("entropy",), onset, ramp(length, rng.uniform(0.2, 0.6)))
    top = rows[0]["reward_max"]
    for index in range(onset, len(rows)):
        part = min((index - onset) / length, 1.0)
        for name in ("reward_mean", "score_mean"):
            rows[index][name] += 0.5 * part * (top - rows[index][name])
    return shown_by(onset, length, rows)


def truncation(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [1, 10, 30])
    pull(rows, ("truncated_frac",), onset, rng.uniform(0.25, 0.95), length)
    scale(rows, ("response_len_mean",), onset, ramp(length, rng.uniform(1.2, 1.8)))
    return shown_by(onset, length, rows)


def zero_variance(rng: random.Random, rows: list[Row], onset: int) -> int:
    low, high = rows[0]["reward_min"], rows[0]["reward_max"]
    value = low + rng.choice([0.0, 0.3]) * (high - low)
    for row in rows[onset:]:
        row.update(reward_mean=value, score_mean=value, reward_std=rng.choice([0.0, 3e-8]), zero_std_frac=1.0)
        row.update(reward_max=value, reward_min=value, grad_norm=rng.choice([0.0, 1e-4]))
    return onset


def one_reward(rng: random.Random, rows: list[Row], onset: int) -> int:
    """The reward function breaks and gives every answer the maximum."""
    value = rows[0]["reward_max"]
    for row in rows[onset:]:
        row.update(reward_mean=value, score_mean=value, reward_std=0.0, zero_std_frac=1.0)
        row.update(reward_max=value, reward_min=value, grad_norm=row["grad_norm"] * 0.02)
    return onset


def zero_variance_sparse(rng: random.Random, rows: list[Row], onset: int) -> int:
    """Nearly every prompt is too hard: rewards differ in only a few groups."""
    low, high = rows[0]["reward_min"], rows[0]["reward_max"]
    for row in rows[onset:]:
        share = rng.uniform(0.85, 1.0)
        value = low + (1 - share) * 0.3 * (high - low)
        row.update(
            reward_mean=value, score_mean=value, zero_std_frac=share, reward_std=(1 - share) * (high - low) * 0.5
        )
    return onset


def dead(rng: random.Random, rows: list[Row], onset: int) -> int:
    """No answer is ever right: truncated, no contrast, almost no gradient, from the first record."""
    low = rows[0]["reward_min"]
    for row in rows:
        row.update(
            reward_mean=low, score_mean=low, reward_std=0.0, zero_std_frac=1.0, truncated_frac=rng.uniform(0.95, 1.0)
        )
        row.update(reward_max=low, reward_min=low, grad_norm=rng.choice([0.0, 1e-9]))
    return 1


def frozen(rng: random.Random, rows: list[Row], onset: int) -> int:
    for row in rows[onset:]:
        row.update(grad_norm=0.0)
    return onset


def kl_drift(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [10, 40])
    times = max(rng.uniform(10, 60), rng.uniform(1.0, 4.0) / max(rows[onset]["kl_ref"], 1e-5))
    scale(rows, ("kl_ref",), onset, ramp(length, times))
    sink_reward(rows, onset, rng.uniform(0.0, 0.3), length)
    return shown_by(onset, length, rows)


def kl_spike(rng: random.Random, rows: list[Row], onset: int) -> int:
    for row in rows[onset : onset + rng.choice([3, len(rows)])]:
        row["kl_ref"] = rng.uniform(3, 500)
        row["kl_old"] = rng.uniform(0.15, 2)
    return onset


def mismatch(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [1, 20])
    end = rng.uniform(0.03, 0.3)
    pull(rows, ("off_policy_kl", "rollout_prob_diff_mean"), onset, end, length, 0.2)
    pull(rows, ("is_ratio_mean",), onset, rng.choice([0.7, 1.6]), length)
    return shown_by(onset, length, rows)


def gaming(rng: random.Random, rows: list[Row], onset: int) -> int:
    """The reward goes on rising, validation falls."""
    length = length_of(rng, rows, onset, [10, 30])
    best = max((row["val_score"] for row in rows[:onset] if "val_score" in row), default=0.0)
    for index in range(onset, len(rows)):
        if "val_score" in rows[index]:
            part = min((index - onset + 1) / length, 1.0)
            rows[index]["val_score"] = best * (1 - rng.uniform(0.4, 0.7) * part)
    return shown_by(onset, length + 10, rows)


def collapse(rng: random.Random, rows: list[Row], onset: int) -> int:
    scale(rows, ("entropy",), onset, ramp(2, 0.02))
    scale(rows, ("response_len_mean",), onset, ramp(3, rng.choice([0.1, 5.0])))
    scale(rows, ("grad_norm",), onset, lambda age: rng.uniform(5, 60))
    sink_reward(rows, onset, 0.97, 3)
    return shown_by(onset, 3, rows)
