"""What follows an alarm: recovery, persistence, settling, being left behind; and changes that are no fault."""

from __future__ import annotations

import math
import random

from simulated.forms import Form
from simulated.kinds import EASES, RECOVERS, STAYS, Span, kinds
from simulated.look_alikes import lift, restart
from simulated.shapes import pull, ramp, scale, shown_by, sink_reward
from simulated.writers import Row

ENDS, healthy, fault = kinds("ends")
ALL = "llm classic custom"


def _for(rows: list[Row], name: str, onset: int, length: int, level: float) -> None:
    """Scale a metric by `level` for `length` records, with ramps of three records at both ends."""
    for index in range(onset, min(onset + length, len(rows))):
        part = min((index - onset + 1) / 3, (onset + length - index) / 3, 1.0)
        if name in rows[index]:
            rows[index][name] *= level**part


@fault("entropy falls and comes back", ALL, "entropy collapse", "crit", RECOVERS, "entropy", records=(120, 160, 240))
def entropy_back(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = int(0.35 * len(rows))
    for row in rows:
        row["entropy"] = max(row["entropy"], 0.3 * rows[0]["entropy"])
    _for(rows, "entropy", onset, rng.randint(18, 30), rng.uniform(0.02, 0.06))
    return onset, onset + 6


@fault("entropy falls and stays there", ALL, "entropy collapse", "crit", STAYS, "entropy", records=(160, 240))
def entropy_stays(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = int(0.3 * len(rows))
    begin, end = rows[onset]["entropy"], rng.uniform(0.01, 0.05)
    for index in range(onset, len(rows)):
        part = min((index - onset + 1) / 8, 1.0)
        rows[index]["entropy"] = begin * end**part * math.exp(rng.gauss(0.0, 0.05))
    sink_reward(rows, onset, 0.5, 10)
    return onset, onset + 8


@fault("value loss 400 times as high for good", "llm classic", "critic loss", "loud", STAYS, "value_loss explained_var",
       records=(160, 240))  # fmt: skip
def value_stays(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = int(0.35 * len(rows))
    scale(rows, ("value_loss",), onset, ramp(4, 400))
    pull(rows, ("explained_var",), onset, rng.uniform(-1.5, -0.3), 6, 0.1)
    sink_reward(rows, onset + 4, 0.5, 15)
    return onset, shown_by(onset, 6, rows)


@fault("loss at another level for good", ALL, "loss gradient", "loud", STAYS, "loss", records=(160, 240))
def loss_stays(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, top = int(0.35 * len(rows)), max(abs(row["loss"]) for row in rows)
    for index in range(onset, len(rows)):
        part = min((index - onset + 1) / 4, 1.0)
        rows[index]["loss"] = (0.01 + top) * 100**part * math.exp(rng.gauss(0.0, 0.1))
    scale(rows, ("grad_norm",), onset, ramp(4, rng.uniform(6, 12)))
    sink_reward(rows, onset + 2, 0.4, 10)
    return onset, shown_by(onset, 6, rows)


@fault("gradient high for a while", ALL, "gradient", "loud", RECOVERS, "grad_norm")
def gradient_back(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = int(0.4 * len(rows))
    _for(rows, "grad_norm", onset, rng.randint(8, 14), rng.uniform(20, 60))
    return onset, onset + 5


@fault(
    "truncation for a while", "llm custom", "truncation length", "crit", RECOVERS, "truncated_frac response_len_mean"
)
def truncation_back(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, length = int(0.3 * len(rows)), rng.randint(15, 25)
    for index, row in enumerate(rows):
        part = min(max(index - onset + 1, 0) / 3, max(onset + length - index, 0) / 3, 1.0)
        row["truncated_frac"] = (0.02 + 0.93 * part) * math.exp(rng.gauss(0.0, 0.02))
        row["response_len_mean"] *= 1 + part
    return onset, onset + 5


@fault("truncation eases while the reward climbs", "llm custom", "truncation length", "crit", EASES,
       "truncated_frac", records=(120, 160))  # fmt: skip
def truncation_eases(rng: random.Random, rows: list[Row], form: Form) -> Span:
    high, low, first = rows[0]["reward_max"], rows[0]["reward_min"], int(0.4 * len(rows))
    for index, row in enumerate(rows):
        part = min(max(index - first, 0) / 30, 1.0)
        row["truncated_frac"] = 0.965 - 0.55 * part + rng.gauss(0.0, 0.012)
        row["reward_mean"] = row["score_mean"] = low + (0.05 + 0.4 * part + rng.gauss(0.0, 0.01)) * (high - low)
    return 0, 8


@healthy("KL settles at a higher level, reward with it", "llm custom", "kl_ref", records=(160, 240))
def kl_settles(rng: random.Random, rows: list[Row], form: Form) -> None:
    end = rng.uniform(0.05, 0.3)
    for index, row in enumerate(rows):
        row["kl_ref"] = (0.002 + end * (1 - math.exp(-index / 35))) * math.exp(rng.gauss(0.0, 0.06))
    lift(rows, 0.5)


@healthy("answers settle at twice the length, reward with it", "llm custom", "response_len_mean", records=(160, 240))
def longer_settles(rng: random.Random, rows: list[Row], form: Form) -> None:
    begin = rows[0]["response_len_mean"]
    for index, row in enumerate(rows):
        row["response_len_mean"] = begin * (1 + (1 - math.exp(-index / 40))) * math.exp(rng.gauss(0.0, 0.04))
        row["response_len_max"], row["truncated_frac"] = 8 * begin, 0.0
    lift(rows, 0.5)


@healthy("entropy settles lower, reward with it", ALL, "entropy", records=(160, 240))
def entropy_settles(rng: random.Random, rows: list[Row], form: Form) -> None:
    begin, end = rows[0]["entropy"], rng.uniform(0.3, 0.5)
    for index, row in enumerate(rows):
        row["entropy"] = begin * (end + (1 - end) * math.exp(-index / 30)) * math.exp(rng.gauss(0.0, 0.04))
    lift(rows, 0.5)


@fault("still collapsed after a restart", ALL, "entropy collapse", "crit", STAYS, "entropy", records=(160, 240))
def collapsed_again(rng: random.Random, rows: list[Row], form: Form) -> Span:
    span = entropy_stays(rng, rows, form)
    restart(rows, span[0] + 35, 3, form.stride)
    return span


@fault("left behind by a restart", ALL, "entropy collapse reward", "crit", RECOVERS, "entropy", records=(120, 160))
def left_behind(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, length = int(0.35 * len(rows)), rng.randint(14, 22)
    again = onset + length
    good = [row["reward_mean"] for row in rows]
    for index in range(onset, again):
        rows[index]["entropy"] *= 0.03 ** min((index - onset + 1) / 3, 1.0)
    sink_reward(rows, onset, 0.8, 4)
    for index in range(again, len(rows)):
        rows[index]["reward_mean"] = rows[index]["score_mean"] = good[index]
    restart(rows, again, length + 5, form.stride)
    return onset, onset + 5


@fault("slow for a while", ALL, "performance straggler", "loud", RECOVERS, "time_step")
def slow_back(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = int(0.35 * len(rows))
    length = rng.randint(15, 25)
    for name in ("time_step", "time_gen", "time_gen_sample_max"):
        _for(rows, name, onset, length, 3.0)
    _for(rows, "throughput", onset, length, 1 / 3.0)
    return onset, onset + 8


@fault(
    "reward falls to half and stays",
    ALL,
    "reward collapse validation",
    "loud",
    STAYS,
    "reward_mean",
    records=(160, 240),
)
def reward_stays(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = int(rng.uniform(0.45, 0.55) * len(rows))
    sink_reward(rows, onset, rng.uniform(0.5, 0.7), rng.choice([2, 10]))
    return onset, shown_by(onset, 12, rows)


@fault("KL blows up and comes back", "llm custom", "kl", "crit", RECOVERS, "kl_ref")
def kl_back(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, length = int(0.4 * len(rows)), rng.randint(6, 12)
    for row in rows[onset : onset + length]:
        row["kl_ref"], row["kl_old"] = rng.uniform(5, 80), rng.uniform(0.2, 1.5)
    return onset, onset + 4
