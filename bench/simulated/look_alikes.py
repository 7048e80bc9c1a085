"""False alarms from real logs, each with a truly faulty counterpart."""

from __future__ import annotations

import math
import random

from simulated import learning_faults as learning
from simulated import other_faults as other
from simulated import twins
from simulated.forms import OWN, Form
from simulated.kinds import RECOVERS, STAYS, Span, kinds
from simulated.shapes import pull, ramp, scale, shown_by, sink_reward
from simulated.writers import Row

LOOK_ALIKES, healthy, fault = kinds("look-alikes")
ALL = "llm classic custom"


def middle(rng: random.Random, rows: list[Row]) -> int:
    """An index in the middle, with a healthy part before it and room after it."""
    return int(rng.uniform(0.35, 0.6) * len(rows))


def lift(rows: list[Row], share: float) -> None:
    """Raise the reward steadily by a share of the way to its top, and evaluations by most of that."""
    top = rows[0]["reward_max"]
    best = top if "ep_len" in rows[0] else 1.0
    for index, row in enumerate(rows):
        if "val_score" in row:
            row["val_score"] += 0.8 * share * index / len(rows) * (best - row["val_score"])
        for name in ("reward_mean", "score_mean"):
            if name in row:
                row[name] += share * index / len(rows) * (top - row[name])


def evaluate(rng: random.Random, rows: list[Row], every: int) -> None:
    """Let evaluations follow the mean reward of fifteen records, in its unit."""
    size = rows[0]["reward_max"] - rows[0]["reward_min"]
    for index, row in enumerate(rows):
        row.pop("val_score", None)
        if index % every == every - 1:
            window = [one["reward_mean"] for one in rows[max(index - 14, 0) : index + 1]]
            row["val_score"] = sum(window) / len(window) + rng.gauss(0.0, 0.008) * size


def restart(rows: list[Row], at: int, back: int, stride: int) -> None:
    """Restart the run from a checkpoint `back` steps before index `at`."""
    for index, row in enumerate(rows):
        row["step"] = (index + 1 - (back if index >= at else 0)) * stride


@healthy("nothing wrong", ALL)
def plain(rng: random.Random, rows: list[Row], form: Form) -> None:
    return None


@healthy("nothing wrong, on pairs", "llm custom", "dpo_margin", stories=("pairs",))
def plain_pairs(rng: random.Random, rows: list[Row], form: Form) -> None:
    return None


@healthy("nothing wrong, supervised", "llm custom", "loss", stories=("supervised",))
def plain_supervised(rng: random.Random, rows: list[Row], form: Form) -> None:
    return None


@healthy("begun again", ALL)
def begun_again(rng: random.Random, rows: list[Row], form: Form) -> None:
    restart(rows, middle(rng, rows), rng.randint(3, 15), form.stride)


@healthy("one prompt a batch: entropy jumps", "llm custom", "entropy")
def one_prompt(rng: random.Random, rows: list[Row], form: Form) -> None:
    twins.one_prompt(rng, rows)
    for row in rows:
        row["entropy"] = 10 ** rng.uniform(math.log10(0.0008), math.log10(0.18))


@healthy("entropy spent on reward", ALL, "entropy")
def spent(rng: random.Random, rows: list[Row], form: Form) -> None:
    end, begin = rng.uniform(0.12, 0.25), rows[0]["entropy"]
    for index, row in enumerate(rows):
        row["entropy"] = begin * end ** (1 - math.exp(-3 * index / len(rows))) * math.exp(rng.gauss(0.0, 0.05))
    lift(rows, rng.uniform(0.3, 0.6))


@fault("entropy collapses", ALL, "entropy collapse", "crit", STAYS, "entropy")
def collapses(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, length = middle(rng, rows), rng.choice([3, 8, 15])
    scale(rows, ("entropy",), onset, ramp(length, rng.uniform(0.01, 0.06)))
    sink_reward(rows, onset, rng.uniform(0.3, 0.6), length)
    return onset, shown_by(onset, length, rows)


@healthy("policy loss around 0", ALL, "reward_mean")
def around_zero(rng: random.Random, rows: list[Row], form: Form) -> None:
    spread = 10 ** rng.uniform(-3.5, -2)
    for row in rows:
        drawn = rng.gauss(0.0, spread) * (rng.uniform(5, 15) if rng.random() < 0.06 else 1.0)
        row["policy_loss"] = drawn
        if form.story in ("online", "ppo"):
            row["loss"] = drawn


@fault("loss and gradient blow up, and back", ALL, "loss gradient", "loud", RECOVERS, "loss")
def blow_up(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, length = middle(rng, rows), rng.randint(6, 12)
    for row in rows[onset : onset + length]:
        row["loss"] = (abs(row["loss"]) + 0.3) * rng.uniform(20, 80)
        row["grad_norm"] *= rng.uniform(15, 60)
    return onset, onset + 2


@healthy("clip fraction of control", "classic", "clip_frac")
def control_clip(rng: random.Random, rows: list[Row], form: Form) -> None:
    top = rng.uniform(0.2, 0.3)
    for index, row in enumerate(rows):
        row["clip_frac"] = (0.08 + (top - 0.08) * index / len(rows)) * math.exp(rng.gauss(0.0, 0.15))
        row["kl_old"] = min(row["kl_old"] * 1.4, 0.03)


@healthy("clip fraction of 5 to 6 %, and well", "llm custom", "clip_frac")
def well_clipped(rng: random.Random, rows: list[Row], form: Form) -> None:
    level = rng.uniform(0.048, 0.062)
    for row in rows:
        row["clip_frac"] = level * math.exp(rng.gauss(0.0, 0.1))
        row["kl_old"], row["kl_ref"] = abs(rng.gauss(0.0, 0.002)), min(row["kl_ref"], 0.014)
    lift(rows, 0.5)


@fault("clip fraction, with consequences", "llm custom", "clip kl ratio gradient", "loud", STAYS, "clip_frac")
def harmful_clip(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    pull(rows, ("clip_frac",), onset, rng.uniform(0.15, 0.4), 5, 0.15)
    pull(rows, ("kl_old",), onset, rng.uniform(0.1, 0.4), 5, 0.2)
    scale(rows, ("grad_norm",), onset, ramp(5, rng.uniform(5, 12)))
    scale(rows, ("kl_ref",), onset, ramp(15, rng.uniform(10, 40)))
    sink_reward(rows, onset + 3, rng.uniform(0.3, 0.6), 12)
    return onset, shown_by(onset, 6, rows)


@fault("clip fraction out of control", "classic", "clip kl ratio reward", "loud", STAYS, "clip_frac kl_old")
def control_broken(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    pull(rows, ("clip_frac",), onset, rng.uniform(0.55, 0.8), 5, 0.08)
    pull(rows, ("kl_old",), onset, rng.uniform(0.15, 0.6), 5, 0.2)
    sink_reward(rows, onset + 2, rng.uniform(0.4, 0.9), 15)
    return onset, shown_by(onset, 6, rows)


@healthy("critic with nothing left to explain", "llm classic", "value_loss explained_var")
def nothing_to_explain(rng: random.Random, rows: list[Row], form: Form) -> None:
    onset, top = middle(rng, rows), rows[0]["reward_max"]
    for index, row in enumerate(rows[onset - 10 :]):
        part = min(index / 10, 1.0)
        for name in ("reward_mean", "score_mean", "return_mean"):
            if name in row:
                row[name] += part * (top - row[name])
        row["value_loss"] *= (1e-6 / row["value_loss"]) ** part * math.exp(rng.gauss(0.0, 0.5))
        row["explained_var"] = (1 - part) * row["explained_var"] + part * rng.gauss(-0.6, 0.8)


@healthy("critic begins to learn", "classic", "value_loss explained_var")
def critic_begins(rng: random.Random, rows: list[Row], form: Form) -> None:
    begin, low, high = int(0.2 * len(rows)), rows[0]["reward_min"], rows[0]["reward_max"]
    top, first = rng.uniform(5, 60), 0.004
    for index, row in enumerate(rows):
        if index < begin:
            row["reward_mean"] = low + abs(rng.gauss(0.0, 0.004)) * (high - low)
            row["value_loss"], row["explained_var"] = first * math.exp(rng.gauss(0.0, 0.4)), rng.gauss(0.0, 0.05)
        else:
            age = index - begin
            row["value_loss"] = (top * min(age / 12, 1.0) * math.exp(-age / 60) + first) * math.exp(rng.gauss(0.0, 0.2))
            row["explained_var"] = 0.85 * (1 - math.exp(-age / 20)) + rng.gauss(0.0, 0.04)
            row["reward_mean"] = low + (row["reward_mean"] - low) * min(age / 15, 1.0)


@fault("critic breaks", "llm classic", "critic loss", "loud", STAYS, "value_loss explained_var")
def critic_breaks(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    scale(rows, ("value_loss",), onset, ramp(rng.choice([1, 6]), rng.uniform(60, 300)))
    pull(rows, ("explained_var",), onset, rng.uniform(-3, -0.4), 4, 0.2)
    sink_reward(rows, onset + 5, rng.uniform(0.3, 0.7), 15)
    return onset, shown_by(onset, 8, rows)


@healthy("next stage of a curriculum", ALL, "reward_mean val_score")
def next_stage(rng: random.Random, rows: list[Row], form: Form) -> None:
    begin, low = middle(rng, rows), rows[0]["reward_min"]
    curriculum_of(rows, begin)
    evaluate(rng, rows, 5)
    for row in rows[begin:]:
        for name in ("reward_mean", "score_mean"):
            if name in row:
                row[name] -= rng.uniform(0.38, 0.42) * (row[name] - low)


def curriculum_of(rows: list[Row], begin: int) -> None:
    """Log the level of the curriculum."""
    for index, row in enumerate(rows):
        row[OWN + "curriculum/level"] = 1.0 if index < begin else 2.0


@fault(
    "reward falls, entropy and gradient with it", ALL, "reward entropy collapse", "crit", STAYS, "reward_mean entropy"
)
def reward_falls(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, length = middle(rng, rows), rng.choice([2, 8])
    sink_reward(rows, onset, rng.uniform(0.7, 0.95), length)
    scale(rows, ("entropy",), onset, ramp(length, rng.uniform(0.02, 0.1)))
    scale(rows, ("grad_norm",), onset, ramp(length, rng.uniform(5, 15)))
    return onset, shown_by(onset, length, rows)


@healthy("one group a batch", "llm custom", "reward_std")
def one_group(rng: random.Random, rows: list[Row], form: Form) -> None:
    twins.one_prompt(rng, rows)


@fault("groups without spread", "llm custom", "groups reward advantage", "crit", STAYS, "reward_std zero_std_frac")
def no_spread(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    return onset, learning.zero_variance(rng, rows, onset)


@fault("few groups have contrast", "llm custom", "groups", "loud", STAYS, "zero_std_frac grad_norm",
       also=frozenset({"groups", "reward", "advantage", "validation", "collapse"}))  # fmt: skip
def little_contrast(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, low, high = middle(rng, rows), rows[0]["reward_min"], rows[0]["reward_max"]
    for row in rows[onset:]:
        share = 1.0 if rng.random() < 0.4 else rng.choice([0.8125, 0.875, 0.9375])
        row.update(zero_std_frac=share, reward_std=(1 - share) * 0.4 * (high - low))
        row["reward_mean"] = row["score_mean"] = low + (0.1 + 0.5 * (1 - share)) * (high - low)
        row["grad_norm"] *= 0.0 if share == 1.0 else math.sqrt(1 - share)
    return onset, onset + 8


@fault("gradient of 0 while rewards differ", ALL, "gradient", "crit", STAYS, "grad_norm")
def not_training(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    return onset, learning.frozen(rng, rows, onset)


def _skipped(rows: list[Row], at: int) -> None:
    rows[at]["grad_norm"], rows[at]["lr"] = math.nan, rows[at - 1]["lr"]


def _moving_rate(rng: random.Random, rows: list[Row]) -> None:
    top = 10 ** rng.uniform(-6, -4.5)
    for index, row in enumerate(rows):
        row["lr"] = top * (1 - index / len(rows))


@healthy("one skipped step of mixed precision", "llm custom", "grad_norm lr loss")
def skipped(rng: random.Random, rows: list[Row], form: Form) -> None:
    _moving_rate(rng, rows)
    _skipped(rows, middle(rng, rows))


@fault("two skipped steps in ten", "llm custom", "nonfinite", "loud", "", "grad_norm lr loss",
       forms=("TRL", "TRL, console", "own lines", "own list", "own table"))  # fmt: skip
def skipped_twice(rng: random.Random, rows: list[Row], form: Form) -> Span:
    _moving_rate(rng, rows)
    onset, second = middle(rng, rows), rng.randint(3, 8)
    _skipped(rows, onset)
    _skipped(rows, onset + second)
    return onset, onset + second


@fault("not a number, for good", ALL, "nonfinite", "crit", STAYS)
def not_a_number(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    return onset, learning.nan(rng, rows, onset)


@healthy("one far ratio", "llm custom", "is_ratio_mean")
def one_ratio(rng: random.Random, rows: list[Row], form: Form) -> None:
    for row in rows:
        row["is_ratio_mean"] = rng.gauss(0.93, 0.03)
    rows[middle(rng, rows)]["is_ratio_mean"] = rng.uniform(6, 14)


@fault("ratio leaves 1 for good", "llm custom", "ratio mismatch offpolicy", "loud", STAYS, "is_ratio_mean")
def far_ratio(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    pull(rows, ("is_ratio_mean",), onset, rng.choice([0.25, 2.5, 6.0]), rng.choice([1, 10]), 0.08)
    return onset, shown_by(onset, 10, rows)


@healthy("climb from a dead start", ALL, "grad_norm")
def dead_start(rng: random.Random, rows: list[Row], form: Form) -> None:
    begin, low, high = rng.randint(10, 16), rows[0]["reward_min"], rows[0]["reward_max"]
    for index, row in enumerate(rows):
        part = min(max(index - begin, 0) / 25, 1.0)
        row["grad_norm"] *= 0.004 + 0.996 * part
        for name in ("reward_mean", "score_mean"):
            if name in row:
                row[name] = (
                    low + (0.01 * abs(rng.gauss(0.0, 1.0)) * (1 - part)) * (high - low) + part * (row[name] - low)
                )
        row["zero_std_frac"] = 1 - (1 - row.get("zero_std_frac", 0.0)) * max(part, 0.1)
        if "reward_std" in row:
            row["reward_std"] *= max(part, 0.1)


@healthy("signed estimators around 0", "llm custom", "kl_ref",
         forms=("veRL", "veRL, console", "OpenRLHF", "tinker", "own lines", "own lines, few", "own list"))  # fmt: skip
def signed(rng: random.Random, rows: list[Row], form: Form) -> None:
    for row in rows:
        for name, spread in (("kl_ref", 0.002), ("kl_old", 0.0005), ("off_policy_kl", 0.0008)):
            row[name] = rng.gauss(0.0, spread) * (rng.uniform(3, 8) if rng.random() < 0.05 else 1.0)


@healthy("one heavy weight", "llm", "is_ratio_max")
def one_weight(rng: random.Random, rows: list[Row], form: Form) -> None:
    for at in rng.sample(range(10, len(rows)), 3):
        rows[at]["is_ratio_max"] = rng.uniform(100, 2000)


@healthy("training begins after the replay is filled", "classic", "time_step trained", stories=("q",))
def replay_filled(rng: random.Random, rows: list[Row], form: Form) -> None:
    begin, cheap = rng.randint(6, 18), rng.uniform(0.15, 0.4)
    for row in rows[:begin]:
        row["time_step"] *= cheap
        row["trained"] = 0.0
        for name in ("loss", "critic_loss", "grad_norm", "q_mean"):
            row.pop(name, None)
    for index, row in enumerate(rows[begin:]):
        row["trained"] = 32000.0 * (index + 1)


@fault("steps become slow", ALL, "performance", "loud", STAYS, "time_step")
def slower(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    return onset, other.slow(rng, rows, onset)


@healthy("a part of unknown direction falls", "llm custom")
def tool_errors(rng: random.Random, rows: list[Row], form: Form) -> None:
    key = {"Telescope": "reward_tool_errors_mean", "TRL": "rewards/tool_errors/mean"}.get(
        form.name, "reward/tool_errors"
    )
    begin = rng.uniform(0.6, 2.0)
    lift(rows, 0.5)
    for index, row in enumerate(rows):
        row[OWN + key] = begin * (1 - 0.85 * min(1.5 * index / len(rows), 1.0)) * math.exp(rng.gauss(0.0, 0.06))


@healthy("values out of range of their name", "llm custom")
def out_of_range(rng: random.Random, rows: list[Row], form: Form) -> None:
    for index, row in enumerate(rows):
        row[OWN + "mfu"] = 206.12 * math.exp(rng.gauss(0.0, 0.02))
        if index % 5 == 4:
            row[OWN + "validation"] = 0.35 + 2.65 * math.exp(-4 * index / len(rows)) + rng.gauss(0.0, 0.01)


@healthy("distillation without a reward", "llm", "reward_mean", forms=("tinker",))
def distillation(rng: random.Random, rows: list[Row], form: Form) -> None:
    for index, row in enumerate(rows):
        row.update(reward_mean=0.0, reward_std=0.0, zero_std_frac=1.0, kl_ref=0.0)
        row[OWN + "teacher_kl"] = 0.1 + 0.5 * math.exp(-4 * index / len(rows)) * math.exp(rng.gauss(0.0, 0.05))
