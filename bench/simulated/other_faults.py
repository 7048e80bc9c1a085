"""Faults of the critic, of machines, of preference data and of supervised training; as in `learning_faults`."""

from __future__ import annotations

import math
import random

from simulated.shapes import length_of, pull, ramp, scale, shown_by
from simulated.writers import Row


def value_loss(rng: random.Random, rows: list[Row], onset: int) -> int:
    scale(rows, ("value_loss",), onset, ramp(rng.choice([1, 8]), rng.uniform(20, 200)))
    pull(rows, ("explained_var",), onset, rng.uniform(-3, -0.3), 3)
    return shown_by(onset, 8, rows)


def slow(rng: random.Random, rows: list[Row], onset: int) -> int:
    times = rng.uniform(1.7, 4.0)
    scale(rows, ("time_step", "time_gen", "time_gen_sample_mean", "time_gen_sample_max"), onset, lambda age: times)
    scale(rows, ("throughput",), onset, lambda age: 1 / times)
    return onset


def slow_drift(rng: random.Random, rows: list[Row], onset: int) -> int:
    times, length = rng.uniform(1.8, 3.0), len(rows) - onset
    scale(rows, ("time_step", "time_gen"), onset, ramp(length, times))
    scale(rows, ("throughput",), onset, ramp(length, 1 / times))
    return len(rows) - 1


def slow_now_and_then(rng: random.Random, rows: list[Row], onset: int) -> int:
    every = rng.choice([3, 4, 5])
    times = rng.uniform(2.0, 5.0)
    for index in range(onset, len(rows)):
        if (index - onset) % every == 0:
            for name in ("time_step", "time_gen", "time_gen_sample_max"):
                rows[index][name] *= times
            rows[index]["throughput"] /= times
    return shown_by(onset, 5 * every, rows)


def straggler(rng: random.Random, rows: list[Row], onset: int) -> int:
    for row in rows[onset:]:
        times = rng.uniform(1.5, 3.0)
        row["group_len_ratio"] *= rng.uniform(2.5, 5)
        row["time_gen_sample_max"] *= times * 2
        row["time_gen"] *= times
        row["time_step"] *= times
        row["throughput"] /= times
        row["response_len_max"] *= 3
    return onset


def dead_margin(rng: random.Random, rows: list[Row], onset: int) -> int:
    """Uninformative labels: coin flips, from the first record."""
    for row in rows:
        row["dpo_accuracy"] = row["rm_accuracy"] = min(max(rng.gauss(0.5, 0.05), 0.0), 1.0)
        row["dpo_margin"], row["rm_margin"] = rng.gauss(0.0, 0.004), rng.gauss(0.0, 0.01)
        row["loss"] = math.log(2.0) + rng.gauss(0.0, 0.002)
    return 30


def labels_flip(rng: random.Random, rows: list[Row], onset: int) -> int:
    for row in rows[onset:]:
        row["loss"] = max(2 * math.log(2.0) - row["loss"], 0.0) + 0.6 * abs(row["dpo_margin"])
        row["dpo_accuracy"], row["rm_accuracy"] = 1 - row["dpo_accuracy"], 1 - row["rm_accuracy"]
        row["dpo_margin"], row["rm_margin"] = -row["dpo_margin"], -row["rm_margin"]
    return onset


def overfit(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = max((len(rows) - onset) // 2, 5)
    for index in range(onset, len(rows)):
        part = min((index - onset + 1) / length, 1.0)
        row = rows[index]
        for name in ("dpo_accuracy", "rm_accuracy"):
            row[name] = (1 - part) * row[name] + part * rng.uniform(0.99, 1.0)
        row["loss"] *= 1 - 0.93 * part
        if "val_loss" in row:
            row["val_loss"] *= 1 + 0.9 * part
            row["val_acc"] -= 0.06 * part
    return len(rows) - 1


def overfit_from_start(rng: random.Random, rows: list[Row], onset: int) -> int:
    """Few pairs, many passes: the training loss vanishes; evaluation never follows, or soon reverses."""
    turn, top = rng.choice([0.0, 0.1, 0.25]), rng.uniform(1.2, 2.0)
    seen, shown = math.log(2.0), len(rows) - 1
    for index, row in enumerate(rows):
        part = (index + 1) / len(rows)
        left = math.exp(-8.0 * part)
        row["loss"] = math.log(2.0) * max(left, 0.02) * math.exp(rng.gauss(0.0, 0.1))
        for name in ("dpo_accuracy", "rm_accuracy"):
            row[name] = min(1.0 - 0.45 * left + rng.gauss(0.0, 0.015), 1.0)
        gap = 5.0 * part + rng.gauss(0.0, 0.1)
        row.update(dpo_margin=gap, rm_margin=gap)
        if "val_loss" in row:
            level = 1.0 - 0.3 * min(part, turn) / 0.25 + (top - 1.0) * max(part - turn, 0.0)
            row.update(val_loss=math.log(2.0) * level, val_acc=0.5 + 0.6 * min(part, 0.25), val_margin=0.3)
            seen = min(seen, row["val_loss"])
            shown = min(shown, index) if row["val_loss"] > 1.1 * seen else shown
    return shown


def worn_out(rng: random.Random, rows: list[Row], onset: int) -> int:
    """Six passes over the same pairs, all ranked correctly, without evaluation."""
    for index, row in enumerate(rows):
        part = (index + 1) / len(rows)
        left = math.exp(-8.0 * part)
        row.update(loss=math.log(2.0) * max(left, 0.01), epoch=6.0 * part)
        gap = 6.0 * part + rng.gauss(0.0, 0.1)
        row.update(dpo_accuracy=1.0 - 0.45 * left, rm_accuracy=1.0 - 0.45 * left, dpo_margin=gap, rm_margin=gap)
        for name in ("val_loss", "val_acc", "val_margin"):
            row.pop(name, None)
    return int(0.67 * len(rows))


def fades(rng: random.Random, rows: list[Row], onset: int) -> int:
    """The learned preferences are lost within a few records: other pairs, or a broken model."""
    length = rng.choice([1, 4])
    for index in range(onset, len(rows)):
        part = min((index - onset + 1) / length, 1.0)
        row = rows[index]
        for name in ("dpo_margin", "rm_margin"):
            row[name] *= 1 - part
        for name in ("dpo_accuracy", "rm_accuracy"):
            row[name] = (1 - part) * row[name] + part * rng.gauss(0.5, 0.06)
        row["loss"] = (1 - part) * row["loss"] + part * (math.log(2.0) + abs(rng.gauss(0.0, 0.02)))
    return shown_by(onset, length, rows)


def rate_cut(rng: random.Random, rows: list[Row], onset: int) -> int:
    """The learning rate is constant, then drops to 0 from one record to the next."""
    for row in rows[:onset]:
        row["lr"] = 1e-5
    for row in rows[onset:]:
        row["lr"] = 0.0
    return onset


def class_missing(rng: random.Random, rows: list[Row], onset: int) -> int:
    for row in rows[onset:]:
        if rng.random() < 0.85:
            row["dpo_chosen"] = row["dpo_margin"] = row["logps_chosen"] = math.nan
    return onset + 5


def diverges(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [2, 10])
    scale(rows, ("loss",), onset, ramp(length, rng.uniform(4, 20)))
    scale(rows, ("grad_norm",), onset, ramp(length, rng.uniform(1, 30)))
    return shown_by(onset, length, rows)


def likelihood_lost(rng: random.Random, rows: list[Row], onset: int) -> int:
    length = length_of(rng, rows, onset, [5, 30])
    scale(rows, ("logps_chosen", "logps_rejected"), onset, ramp(length, rng.uniform(1.7, 4)))
    return shown_by(onset, length, rows)
