"""Healthy runs of canonical metrics: levels, trends and noise from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from rltop.model import Algorithm
from simulated.writers import PAIRS, Made, Plan, Row


class Noise:
    """Multiplicative noise: log-normal, autoregressive."""

    def __init__(self, rng: random.Random, spread: float, memory: float = 0.3) -> None:
        self.rng, self.spread, self.memory = rng, spread * math.sqrt(1 - memory**2), memory
        self.state = rng.gauss(0.0, spread)

    def __call__(self) -> float:
        self.state = self.memory * self.state + self.rng.gauss(0.0, self.spread)
        return math.exp(self.state)


def healthy(plan: Plan) -> Made:
    rng = random.Random(f"healthy/{plan.writer.name}/{plan.seed}")
    if plan.writer.algorithm in PAIRS:
        return Made(plan, pairs(plan.records, plan.cadence, rng, is_kto=plan.writer.algorithm is Algorithm.KTO))
    make = supervised if plan.writer.algorithm is Algorithm.SFT else online
    return Made(plan, make(plan.records, plan.cadence, rng))


def _schedule(records: int, rng: random.Random) -> Callable[[int], float]:
    top, kind = 10 ** rng.uniform(-6.3, -4.7), rng.choice(["constant", "cosine", "linear", "warm constant"])
    warm = 0 if kind == "constant" else max(1, int(rng.uniform(0.02, 0.08) * records))

    def at(record: int) -> float:
        if record <= warm:
            return top * record / warm
        done = (record - warm) / max(records - warm, 1)
        if kind == "cosine":
            return top * 0.5 * (1 + math.cos(math.pi * done))
        return top * (1 - done) if kind == "linear" else top

    return at


def online(n: int, cadence: int, rng: random.Random) -> list[Row]:
    """A run of `n` records that generates and scores answers, with one record per `cadence` steps."""
    smooth = math.sqrt(cadence)
    lr = _schedule(n, rng)
    # Learning progress follows steps, not records, so a longer run gets further.
    reach = 1 - math.exp(-n * cadence / 300)
    low, gain = rng.uniform(0.05, 0.6), rng.uniform(0.1, 0.35) * reach
    scale, offset = rng.choice([(1.0, 0.0), (1.0, 0.0), (2.0, -1.0), (6.0, -2.0)])
    batch, group = rng.choice([64, 256, 1024]), rng.choice([4, 8, 16])
    entropy, spent = rng.choice([rng.uniform(0.1, 0.6), rng.uniform(0.3, 1.2), 3.0]), rng.uniform(0.2, 0.7) * reach
    length, growth = 10 ** rng.uniform(1.5, 3.5), rng.uniform(0.8, 1.6) ** reach
    cut, norm = rng.choice([0.0, rng.uniform(0.0, 0.08)]), 10 ** rng.uniform(-1.0, 0.6)
    clip, step_kl = 10 ** rng.uniform(-3.3, -2.2), 10 ** rng.uniform(-4.2, -3.2)
    ref_kl, step_s = 10 ** rng.uniform(-2.5, -0.9) * reach, 10 ** rng.uniform(0.3, 2.4)
    mismatch = 10 ** rng.uniform(-3.3, -2.6)
    noise = {
        name: Noise(rng, spread / smooth, memory)
        for name, spread, memory in (
            ("entropy", rng.uniform(0.03, 0.12), 0.5), ("length", rng.uniform(0.02, 0.08), 0.3),
            ("norm", rng.uniform(0.1, 0.35), 0.3), ("clip", 0.5, 0.3), ("kl", rng.uniform(0.1, 0.3), 0.5),
            ("time", rng.uniform(0.01, 0.08), 0.2), ("mismatch", 0.25, 0.3), ("zero", 0.2, 0.3), ("std", 0.08, 0.3),
            ("value", 0.25, 0.3), ("cut", 0.3, 0.3),
        )
    }  # fmt: skip
    flat = rng.uniform(0.02, 0.45)
    spiky, save, test = rng.choice([0.0, 0.004]), rng.choice([0, 20, 50]), rng.choice([0, 5, 10])
    tokens, rows = 0.0, []
    for record in range(1, n + 1):
        done = record / n
        learned = (1 - math.exp(-2.5 * done)) / (1 - math.exp(-2.5))
        share = low + gain * learned
        luck = rng.gauss(0.0, math.sqrt(share * (1 - share) * (1 / batch + 0.7 * group / batch)) / smooth)
        reward = offset + scale * min(max(share + luck, 0.0), 1.0)
        words = length * growth**done * noise["length"]()
        tokens += words * batch * cadence
        row = {
            "reward_mean": reward, "score_mean": reward, "reward_max": offset + scale, "reward_min": offset,
            "reward_std": scale * math.sqrt(share * (1 - share)) * 0.6 * noise["std"](),
            "zero_std_frac": min(flat * (1 + 0.5 * learned) * noise["zero"](), 1.0),
            "entropy": entropy * (1 - spent * learned) * noise["entropy"](),
            "response_len_mean": words, "response_len_max": max(words * 3.0, 2.2 * length),
            "response_len_min": words / 6,
            "truncated_frac": min(cut * growth**done * noise["cut"](), 1.0),
            "grad_norm": norm * noise["norm"]() * (rng.uniform(8, 25) if rng.random() < spiky and record > 3 else 1),
            "clip_frac": clip * noise["clip"](), "kl_old": abs(rng.gauss(0.0, step_kl)) + step_kl / 3,
            "kl_ref": ref_kl * (1 - math.exp(-3 * done)) * noise["kl"](), "policy_loss": rng.gauss(0.0, 0.02),
            "loss": rng.gauss(0.0, 0.02) + 0.01 * ref_kl * learned, "lr": lr(record),
            "off_policy_kl": mismatch * noise["mismatch"](),
            "rollout_prob_diff_mean": 1.5 * mismatch * noise["mismatch"](),
            "is_ratio_mean": rng.gauss(1.0, 0.003), "ratio_mean": rng.gauss(1.0, 0.002),
            "value_loss": (0.08 + 1.2 * math.exp(-record / 8)) * noise["value"](),
            "explained_var": 0.7 * (1 - math.exp(-record / 15)) + rng.gauss(0.0, 0.04),
            "value_mean": reward * 0.9, "return_mean": reward, "adv_mean": rng.gauss(0.0, 0.01),
            "num_tokens": tokens, "total_tokens": words * batch, "terminated_len_mean": words * 0.97,
        }  # fmt: skip
        _time_row(row, step_s * (words / length) * noise["time"]() * (2.5 if record == 1 else 1.0), rng, save, record)
        if test and record % test == 0:
            row["val_score"] = low + 0.8 * gain * learned + rng.gauss(0.0, 0.012)
        rows.append(row)
    return rows


def _time_row(row: Row, seconds: float, rng: random.Random, save: int, record: int) -> None:
    row["time_gen"] = seconds * rng.uniform(0.53, 0.57)
    row["time_gen_sample_max"], row["time_gen_sample_mean"] = 0.95 * row["time_gen"], 0.5 * row["time_gen"]
    row["throughput"] = row["total_tokens"] / seconds
    row["group_len_ratio"] = 1.8 * math.exp(rng.gauss(0.0, 0.06))
    if save and record % save == 0:
        row["time_save"] = 2.0 * seconds
        seconds *= 3.0
    row["time_step"] = seconds


def pairs(n: int, cadence: int, rng: random.Random, *, is_kto: bool = False) -> list[Row]:
    """A run on preferences: DPO and a reward model, or KTO."""
    lr = _schedule(n, rng)
    start = 0.5 if is_kto else math.log(2.0)
    reach = 1 - math.exp(-n * cadence / 150)
    fall, top, norm = rng.uniform(0.08, 0.3) * reach, rng.uniform(0.12, 0.4) * reach, 10 ** rng.uniform(-0.5, 1.0)
    margin, logps = rng.uniform(0.3, 2.0) * reach, -(10 ** rng.uniform(1.5, 2.6))
    size = math.sqrt(rng.choice([8, 32, 128]) * cadence)
    grad, every = Noise(rng, rng.uniform(0.1, 0.3)), rng.choice([0, 10, 20])
    rows = []
    for record in range(1, n + 1):
        learned = 0.0 if record == 1 else 1 - math.exp(-3 * record / n)
        right = min(max(0.5 + top * learned + rng.gauss(0.0, 0.45 / size), 0.0), 1.0)
        gap = margin * learned + rng.gauss(0.0, (0.05 + margin * learned) * 0.8 / size)
        chosen = -0.4 * margin * learned + rng.gauss(0.0, 0.3 * margin * learned / size)
        row = {
            "loss": start - fall * learned + rng.gauss(0.0, (0.02 + fall * learned) / size), "grad_norm": norm * grad(),
            "lr": lr(record), "dpo_accuracy": right, "rm_accuracy": right,
            "dpo_margin": gap, "rm_margin": max(gap, 0.03),
            "dpo_chosen": chosen, "dpo_rejected": chosen - gap, "rm_reward_mean": chosen, "rm_reward_min": chosen - 2,
            "rm_reward_max": chosen + 2, "entropy": 1.4 * math.exp(rng.gauss(0.0, 0.03)),
            "logps_chosen": logps * math.exp(rng.gauss(0.0, 0.05)) * (1 + 0.05 * learned),
            "logps_rejected": logps * math.exp(rng.gauss(0.0, 0.05)) * (1 + 0.12 * learned),
            "kl_ref": max(rng.gauss(0.0, 0.2), 0.0), "num_tokens": record * 4e4 * cadence,
        }  # fmt: skip
        if not is_kto:
            row.pop("kl_ref")
        if every and record % every == 0:
            row |= {
                "val_loss": start - 0.8 * fall * learned + rng.gauss(0.0, 0.006),
                "val_acc": 0.5 + 0.8 * top * learned + rng.gauss(0.0, 0.012), "val_margin": 0.8 * margin * learned,
            }  # fmt: skip
        rows.append(row)
    return rows


def supervised(n: int, cadence: int, rng: random.Random) -> list[Row]:
    """A run on demonstrations."""
    lr = _schedule(n, rng)
    start, fall, norm = rng.uniform(1.2, 3.0), rng.uniform(0.2, 0.6), 10 ** rng.uniform(-0.5, 0.8)
    loss, grad, every = (
        Noise(rng, rng.uniform(0.02, 0.08)),
        Noise(rng, rng.uniform(0.1, 0.3)),
        rng.choice([0, 10, 20]),
    )
    rows = []
    for record in range(1, n + 1):
        learned = 1 - math.exp(-3 * record / n)
        row = {
            "loss": start * (1 - fall * learned) * loss(), "grad_norm": norm * grad(), "lr": lr(record),
            "token_accuracy": 0.45 + 0.25 * learned + rng.gauss(0.0, 0.01), "num_tokens": record * 4e4 * cadence,
            "entropy": start * (1 - fall * learned) * math.exp(rng.gauss(0.0, 0.03)),
        }  # fmt: skip
        if every and record % every == 0:
            row["val_loss"] = start * (1 - 0.9 * fall * learned) * math.exp(rng.gauss(0.0, 0.006))
        rows.append(row)
    return rows
