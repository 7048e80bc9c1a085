"""Healthy runs of classic RL, and the choice of a healthy run for any form of log.

Levels and noise are as in published runs of Stable-Baselines3, RLlib and cleanrl: the
reward is a mean over the last 100 episodes, so it is autocorrelated; clip fraction 0.05
to 0.3, approximate KL 0.003 to 0.03, a value loss of the order of the squared returns.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from simulated.forms import Form
from simulated.series import Noise, online, pairs, supervised
from simulated.writers import Row

TASKS = ((20.0, 480.0, 500.0), (-20.0, -12.0, -10.0), (-1300.0, -180.0, 0.0), (15.0, 2800.0, 6000.0), (0.05, 0.9, 1.0))
"""First, last and best possible return: a pole, a schedule, a pendulum, a walker, a maze."""


def story(form: Form, n: int, rng: random.Random) -> list[Row]:
    """Rows of a healthy run of `n` records, of the kind that the form logs."""
    if form.story in ("control", "embodied"):
        return control(n, rng, TASKS if form.story == "control" else TASKS[-1:])
    if form.story == "q":
        return q_learning(n, rng)
    if form.story == "pairs":
        return pairs(n, form.stride, rng)
    if form.story == "supervised":
        return supervised(n, form.stride, rng)
    return _with_rollouts(online(n, 1, rng), rng, is_signed=form.name != "TRL PPO")


def _with_rollouts(rows: list[Row], rng: random.Random, *, is_signed: bool) -> list[Row]:
    """Add metrics of asynchronous and agentic trainers, step times as noisy as recorded ones, and signed KL."""
    turns, behind = rng.choice([1.0, 1.0, rng.uniform(2, 6)]), rng.choice([0.0, 1.0, 2.0])
    rough, lag = rng.uniform(0.02, 0.18), rng.choice([0.0, rng.uniform(0.01, 0.1)])
    reading = rng.uniform(5, 30)
    for index, row in enumerate(rows):
        drawn = math.exp(rng.gauss(0.0, rough))
        for name in ("time_step", "time_gen"):
            row[name] *= drawn
        row["throughput"] /= drawn
        row["turns_mean"] = turns * math.exp(rng.gauss(0.0, 0.04)) if turns > 1 else 1.0
        row["turns_max"] = float(round(2.5 * row["turns_mean"])) if turns > 1 else 1.0
        row["adv_max"], row["adv_min"] = 2.0 * math.exp(rng.gauss(0, 0.1)), -2.0 * math.exp(rng.gauss(0, 0.1))
        row["is_ratio_max"] = 1.0 + 10 ** rng.uniform(-0.3, 0.9)
        row["stale_frac"] = min(lag * math.exp(rng.gauss(0.0, 0.4)), 1.0)
        row["staleness"] = max(behind + rng.gauss(0.0, 0.15) * (behind > 0), 0.0)
        row["version"] = max(index - behind, 0.0)
        row["time_read"] = reading * math.exp(rng.gauss(0.0, 0.2))
        row["time_wait"] = 0.2 * row["time_step"] * math.exp(rng.gauss(0.0, 0.3))
        row["kl_old"] *= rng.choice([-1, 1, 1]) if is_signed else 1
    return rows


def _returns(
    n: int, rng: random.Random, tasks: Sequence[tuple[float, float, float]]
) -> tuple[list[float], float, float]:
    """Returns of a learning run, averaged over 100 episodes; with their floor and the best possible."""
    first, last, top = rng.choice(tasks)
    middle, pace = rng.uniform(0.2, 0.5), rng.uniform(6, 12)
    swing = Noise(rng, 0.03, 0.9)
    found = []
    for index in range(n):
        share = 1 / (1 + math.exp(-pace * (index / n - middle)))
        low = 1 / (1 + math.exp(pace * middle))
        value = first + (last - first) * (share - low) / (1 - low) + (last - first) * (swing() - 1.0)
        found.append(min(value, top))
    return found, min(first, last) - 0.1 * abs(last - first), top


def control(n: int, rng: random.Random, tasks: Sequence[tuple[float, float, float]] = TASKS) -> list[Row]:
    """PPO on a control task."""
    returns, floor, top = _returns(n, rng, tasks)
    size = max(abs(top - floor), 1e-9)
    clip, kl, entropy = rng.uniform(0.05, 0.2), rng.uniform(0.004, 0.013), rng.uniform(0.65, 2.0)
    rate, pace = rng.choice([3e-4, 2.5e-4, 1e-3]), rng.uniform(800, 3000)
    seconds, gradient, falls = rng.uniform(1, 20), 10 ** rng.uniform(-0.7, 0.7), rng.random() < 0.5
    noise = {name: Noise(rng, spread, 0.3) for name, spread in
             (("clip", 0.15), ("kl", 0.3), ("value", 0.3), ("grad", 0.3), ("time", 0.04))}  # fmt: skip
    scale = rng.choice([size**2 * 0.02, rng.uniform(0.02, 0.5)])
    rows = []
    for index, mean in enumerate(returns):
        done = index / n
        learned = (mean - floor) / size
        value = scale * (0.15 + math.exp(-6 * done)) * noise["value"]()
        policy = -0.012 + rng.gauss(0.0, 0.006)
        rows.append({
            "reward_mean": mean, "reward_max": top, "reward_min": floor, "ep_len": 200.0 * (0.6 + 0.4 * learned),
            "episode_max": min(mean + 0.2 * size, top), "episode_min": mean - 0.3 * size,
            "entropy": entropy * (1 - 0.6 * done) * math.exp(rng.gauss(0.0, 0.02)), "kl_old": kl * noise["kl"](),
            "clip_frac": min(clip * (1 + 0.4 * done) * noise["clip"](), 0.33), "value_loss": value,
            "explained_var": 0.85 * (1 - math.exp(-6 * done)) + rng.gauss(0.0, 0.05), "policy_loss": policy,
            "loss": policy + 0.5 * value, "lr": rate * (1 - done if falls else 1.0),
            "grad_norm": gradient * noise["grad"](),
            "fps": pace / noise["time"](), "time_step": seconds * noise["time"](), "trained": 4000.0 * (index + 1),
        })  # fmt: skip
        if index % 10 == 9:
            rows[-1]["val_score"] = mean + rng.gauss(0.0, 0.06) * size
    return rows


def q_learning(n: int, rng: random.Random) -> list[Row]:
    """DQN and similar: exploration falls, values grow with the returns, the loss with the values."""
    returns, floor, top = _returns(n, rng, TASKS)
    size = max(abs(top - floor), 1e-9)
    level, pace, seconds = 10 ** rng.uniform(-2.5, 0.5), rng.uniform(200, 900), rng.uniform(10, 60)
    noise = {name: Noise(rng, spread, 0.3) for name, spread in (("loss", 0.35), ("grad", 0.35), ("time", 0.02))}
    rows = []
    for index, mean in enumerate(returns):
        learned = (mean - floor) / size
        value = level * (0.5 + 1.5 * learned) * noise["loss"]()
        rows.append({
            "reward_mean": mean, "reward_max": top, "reward_min": floor, "ep_len": 200.0 * (0.6 + 0.4 * learned),
            "episode_max": min(mean + 0.2 * size, top), "episode_min": mean - 0.3 * size, "loss": value,
            "critic_loss": 2 * value, "q_mean": 0.3 * (mean - floor) + rng.gauss(0.0, 0.01) * size,
            "explore": max(1.0 - 0.95 * index / (0.3 * n), 0.05), "lr": 1e-4,
            "grad_norm": 0.5 * noise["grad"](), "fps": pace / noise["time"](), "time_step": seconds * noise["time"](),
            "trained": 32000.0 * (index + 1),
        })  # fmt: skip
        if index % 10 == 9:
            rows[-1]["val_score"] = mean + rng.gauss(0.0, 0.06) * size
    return rows
