"""Runs that failed or learned nothing but raised no alert, each with healthy look-alikes."""

from __future__ import annotations

import math
import random

from simulated import learning_faults as learning
from simulated import twins
from simulated.control import story
from simulated.forms import OWN, Form
from simulated.kinds import STAYS, SYSTEM, Span, kinds
from simulated.look_alikes import evaluate, lift, middle
from simulated.shapes import pull, ramp, scale, shown_by, sink_reward
from simulated.writers import Row

DEAD, healthy, fault = kinds("dead")
ALL = "llm classic custom"
_VANISHED = "nonfinite gradient loss liveness"


def _evaluated(rows: list[Row], every: int) -> list[int]:
    """Remove all evaluations; returns the index of every n-th record, for new ones."""
    for row in rows:
        row.pop("val_score", None)
    return list(range(every - 1, len(rows), every))


def _rises(rng: random.Random, rows: list[Row], first: float = 0.3, last: float = 0.9) -> None:
    """Raise the training reward from `first` to `last`, as shares of its range."""
    low, high = rows[0]["reward_min"], rows[0]["reward_max"]
    for index, row in enumerate(rows):
        share = first + (last - first) * min(1.2 * index / len(rows), 1.0) + rng.gauss(0.0, 0.02)
        row["reward_mean"] = row["score_mean"] = low + share * (high - low)


def _at(row: Row, rows: list[Row], share: float) -> float:
    return rows[0]["reward_min"] + share * (rows[0]["reward_max"] - rows[0]["reward_min"])


@fault("held-out flat while the reward rises", "llm custom", "validation", "warn", STAYS, "val_score")
def held_out_flat(rng: random.Random, rows: list[Row], form: Form) -> Span:
    _rises(rng, rows)
    level, at = rng.uniform(0.25, 0.6), _evaluated(rows, len(rows) // 15)
    for index in at:
        rows[index]["val_score"] = level + rng.gauss(0.0, 0.008)
    return at[4], at[9]


@healthy("held-out follows, with noise", ALL, "val_score")
def held_out_follows(rng: random.Random, rows: list[Row], form: Form) -> None:
    _rises(rng, rows)
    for index in _evaluated(rows, len(rows) // 15):
        share = 0.3 + 0.35 * min(1.2 * index / len(rows), 1.0) + rng.gauss(0.0, 0.025)
        rows[index]["val_score"] = _at(rows[index], rows, share) if form.of == "classic" else share


@healthy("held-out at its top already", "llm custom", "val_score")
def held_out_at_top(rng: random.Random, rows: list[Row], form: Form) -> None:
    _rises(rng, rows, 0.6, 0.97)
    for index in _evaluated(rows, len(rows) // 15):
        rows[index]["val_score"] = min(0.985 + rng.gauss(0.0, 0.006), 1.0)


@healthy("other data flat, held-out follows", "llm custom", "val_score")
def other_data_flat(rng: random.Random, rows: list[Row], form: Form) -> None:
    held_out_follows(rng, rows, form)
    for row in rows:
        if "val_score" in row:
            row[OWN + _second(form, "mmlu")] = 0.55 + rng.gauss(0.0, 0.006)


def _second(form: Form, name: str) -> str:
    """The key of a second evaluated data set, as the trainer spells it."""
    return {"veRL": f"val-core/{name}/reward/mean@1", "veRL, console": f"val-core/{name}/reward/mean@1",
            "veRL, with a critic": f"val-core/{name}/reward/mean@1", "TRL": f"eval_{name}_reward",
            "TRL, console": f"eval_{name}_reward", "prime-rl": f"eval/{name}/avg@1",
            "tinker": f"test/env/{name}/reward/total"}.get(form.name, f"eval/{name}/reward")  # fmt: skip


@fault("evaluation falls and stays", ALL, "validation", "warn", STAYS, "val_score")
def evaluation_falls(rng: random.Random, rows: list[Row], form: Form) -> Span:
    at, onset, fall = _evaluated(rows, 5), middle(rng, rows), rng.uniform(0.45, 0.8)
    level = rng.uniform(0.5, 0.8)
    for index in at:
        share = level * (1 - (fall if index >= onset else 0.0)) + rng.gauss(0.0, 0.012)
        rows[index]["val_score"] = _at(rows[index], rows, share) if form.of == "classic" else share
    return onset, shown_by(onset, 15, rows)


@healthy("evaluation dips once", ALL, "val_score")
def evaluation_dips(rng: random.Random, rows: list[Row], form: Form) -> None:
    at = _evaluated(rows, 5)
    dip = rng.choice(at[5:-3])
    for index in at:
        share = 0.45 + 0.2 * index / len(rows) + rng.gauss(0.0, 0.012) - (0.13 if index == dip else 0.0)
        rows[index]["val_score"] = _at(rows[index], rows, share) if form.of == "classic" else share


@fault("the second evaluation falls", "llm custom", "validation", "warn", STAYS, "val_score")
def second_falls(rng: random.Random, rows: list[Row], form: Form) -> Span:
    at, onset = _evaluated(rows, 5), middle(rng, rows)
    for index in at:
        part = min(max(index - onset + 5, 0) / 15, 1.0)
        rows[index]["val_score"] = 0.5 + 0.1 * index / len(rows) + rng.gauss(0.0, 0.01)
        rows[index][OWN + _second(form, "aime")] = 0.40 - 0.42 * part + rng.gauss(0.0, 0.012)
    return onset, shown_by(onset, 20, rows)


@fault("the gradient norm is no longer logged", "llm custom", _VANISHED, "warn", STAYS, "grad_norm")
def gradient_vanishes(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    for row in rows[onset:]:
        row.pop("grad_norm", None)
    return onset, onset + 3


@fault("loss and gradient are no longer logged", ALL, _VANISHED, "crit", STAYS, "loss grad_norm")
def both_vanish(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    for row in rows[onset:]:
        row.pop("grad_norm", None)
        row.pop("loss", None)
    return onset, onset + 2


@healthy("loss and gradient now and then", ALL, "loss grad_norm")
def now_and_then(rng: random.Random, rows: list[Row], form: Form) -> None:
    every = rng.choice([0, 4, 10])
    for index, row in enumerate(rows):
        if (rng.random() < 0.3) if every == 0 else (index % every):
            for name in ("grad_norm", "loss", "entropy", "clip_frac", "kl_old"):
                row.pop(name, None)


@fault("not a number in a loss of its own name", ALL, "nonfinite", "crit", STAYS)
def unknown_loss(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    key = OWN + rng.choice(["rm/loss", "loss/dpo", "critic/loss", "q_loss", "aux/logp", "world_model/grad_norm"])
    for index, row in enumerate(rows):
        row[key] = math.nan if index >= onset else 0.4 * math.exp(rng.gauss(0.0, 0.1))
    return onset, onset + 1


@healthy("not a number where nothing was counted", ALL)
def harmless_nan(rng: random.Random, rows: list[Row], form: Form) -> None:
    keys = rng.sample(["eval/loss_std", "experts/3/loss", "loss_max", "class_7/loss", "eval/kl", "grad_norm_std"], 3)
    for row in rows:
        for key in keys:
            row[OWN + key] = math.nan if rng.random() < 0.2 else abs(rng.gauss(0.4, 0.05))


def _nothing(rows: list[Row], level: float) -> None:
    for row in rows:
        row.update(reward_mean=level, score_mean=level, reward_std=0.0, zero_std_frac=1.0)
        row.update(reward_max=level, reward_min=level, episode_max=level, episode_min=level)
        if "val_score" in row:
            row["val_score"] = level
        row["lr"] = row["lr"] or 1e-6


@fault("dead from the first record: reward and gradient 0", ALL, "reward gradient groups advantage collapse", "crit",
       STAYS, "grad_norm")  # fmt: skip
def dead_both(rng: random.Random, rows: list[Row], form: Form) -> Span:
    _nothing(rows, 0.0)
    for row in rows:
        row["grad_norm"] = 0.0
        row["policy_loss"] = 0.0
    return 0, 22


@fault("dead from the first record: reward and spread 0", "llm custom", "reward groups advantage gradient collapse",
       "crit", STAYS, "reward_std")  # fmt: skip
def dead_spread(rng: random.Random, rows: list[Row], form: Form) -> Span:
    _nothing(rows, 0.0)
    scale(rows, ("grad_norm",), 0, lambda age: 0.01)
    return 0, 22


@fault("the reward never moves", ALL, "reward groups advantage", "warn", STAYS)
def never_moves(rng: random.Random, rows: list[Row], form: Form) -> Span:
    level = rng.choice([-200.0, -5.0, 0.25, 1e-3])
    spread = [row.get("reward_std", 0.1) for row in rows]
    _nothing(rows, level)
    for row, width in zip(rows, spread, strict=True):
        row.update(reward_std=width, zero_std_frac=0.2)
    return 0, 50


@healthy("a loss of exactly 0", "llm custom", "loss")
def loss_of_zero(rng: random.Random, rows: list[Row], form: Form) -> None:
    lift(rows, 0.5)
    for row in rows:
        row["loss"] = row["policy_loss"] = 0.0


@healthy("the critic warms up first", "llm", "value_loss", stories=("ppo",))
def critic_first(rng: random.Random, rows: list[Row], form: Form) -> None:
    for row in rows[: rng.randint(10, 25)]:
        for name in ("grad_norm", "policy_loss", "clip_frac", "kl_old", "kl_ref", "lr"):
            row.pop(name, None)


@fault("no answer ever ends", "llm custom", "truncation length", "crit", STAYS, "truncated_frac response_len_mean")
def never_ends(rng: random.Random, rows: list[Row], form: Form) -> Span:
    longest = rng.choice([384.0, 1024.0, 4096.0])
    for row in rows:
        row["truncated_frac"] = 1.0 if rng.random() < 0.9 else rng.uniform(0.97, 1.0)
        row.update(
            response_len_mean=longest, response_len_max=longest, response_len_min=longest, terminated_len_mean=0.0
        )
    return 0, 10


@fault("no answer ever ends, on a narrow terminal", "llm", "truncation length", "crit", STAYS, "truncated_frac",
       forms=("TRL, wrapped",))  # fmt: skip
def never_ends_wrapped(rng: random.Random, rows: list[Row], form: Form) -> Span:
    return never_ends(rng, rows, form)


@healthy("answers of a fixed length", "llm custom", "truncated_frac response_len_mean")
def fixed_length(rng: random.Random, rows: list[Row], form: Form) -> None:
    for row in rows:
        row.update(response_len_mean=64.0, response_len_max=64.0, response_len_min=64.0, truncated_frac=0.0)
    lift(rows, 0.4)


@fault("absurd gradient from the first record", ALL, "gradient", "crit", STAYS, "grad_norm")
def absurd_gradient(rng: random.Random, rows: list[Row], form: Form) -> Span:
    level, low = 10 ** rng.uniform(8.5, 13), rows[0]["reward_mean"]
    for row in rows:
        row["grad_norm"] = level * math.exp(rng.gauss(0.0, 0.6))
        row["reward_mean"] = row["score_mean"] = low + 0.05 * rng.gauss(0.0, 1.0) * abs(low)
    return 0, 10


@healthy("unclipped norms, from 100,000 on", "llm custom", "grad_norm")
def unclipped(rng: random.Random, rows: list[Row], form: Form) -> None:
    lift(rows, 0.4)
    scale(rows, ("grad_norm",), 0, lambda age: 1e5)


@fault("absurd ratio from the first record", "llm custom", "ratio mismatch offpolicy", "loud", STAYS, "is_ratio_mean")
def absurd_ratio(rng: random.Random, rows: list[Row], form: Form) -> Span:
    level = rng.choice([0.1, 2.0, 1000.0])
    for row in rows:
        row["is_ratio_mean"] = level * math.exp(rng.gauss(0.0, 0.04))
    return 0, 12


@fault("stragglers from the first record", "llm", "straggler performance", "warn", STAYS, "group_len_ratio")
def absurd_groups(rng: random.Random, rows: list[Row], form: Form) -> Span:
    level = rng.uniform(5.5, 8.0)
    for row in rows:
        row["group_len_ratio"] = level * math.exp(rng.gauss(0.0, 0.06))
        row["response_len_max"] = level * row["response_len_mean"]
    return 0, 15


@fault("absurd clip fraction from the first record", ALL, "clip kl ratio", "loud", STAYS, "clip_frac")
def absurd_clip(rng: random.Random, rows: list[Row], form: Form) -> Span:
    level = rng.uniform(0.6, 0.9)
    for row in rows:
        row["clip_frac"] = min(level * math.exp(rng.gauss(0.0, 0.05)), 1.0)
        row["kl_old"] = rng.uniform(0.06, 0.2)
    return 0, 12


@fault("rollout and trainer drift apart", "llm custom", "mismatch offpolicy", "loud", STAYS, "rollout_prob_diff_mean",
       records=(60, 300))  # fmt: skip
def gap_creeps(rng: random.Random, rows: list[Row], form: Form) -> Span:
    n = len(rows)
    onset, length, first, times = (20, 30, 0.01, 3.5) if n == 60 else (30, 240, 0.02, 4.0)
    for index, row in enumerate(rows):
        part = min(max(index - onset, 0) / length, 1.0)
        row["rollout_prob_diff_mean"] = first * times**part * math.exp(rng.gauss(0.0, 0.08))
        row["off_policy_kl"] = 0.1 * row["rollout_prob_diff_mean"]
    return onset, min(onset + length, n - 1)


@healthy("the gap between rollout and trainer wobbles", "llm custom", "rollout_prob_diff_mean")
def gap_wobbles(rng: random.Random, rows: list[Row], form: Form) -> None:
    onset = middle(rng, rows)
    for index, row in enumerate(rows):
        hump = 1.8 if onset <= index < onset + 8 else 1.0
        row["rollout_prob_diff_mean"] = 0.0025 * hump * math.exp(rng.gauss(0.0, 0.25))


@fault("the critic forgets", "llm classic", "critic", "loud", STAYS, "value_loss explained_var")
def critic_forgets(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    scale(rows, ("value_loss",), onset, ramp(20, 1e-7))
    pull(rows, ("explained_var",), onset, 0.0, 10)
    return onset, shown_by(onset, 25, rows)


@fault("extreme advantages", "llm", "advantage", "loud", STAYS, "adv_max adv_min")
def extreme_advantages(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    scale(rows, ("adv_max", "adv_min"), onset, ramp(15, rng.uniform(25, 100)))
    return onset, shown_by(onset, 20, rows)


@fault("a few conversations never stop", "llm", "agentic length straggler", "loud", STAYS, "turns_max")
def turns_climb(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = int(0.3 * len(rows))
    for index, row in enumerate(rows):
        part = min(max(index - onset, 0) / (0.3 * len(rows)), 1.0)
        row["turns_mean"] = 2.2 * math.exp(rng.gauss(0.0, 0.04))
        row["turns_max"] = float(round(6 * (80 / 6) ** part * math.exp(rng.gauss(0.0, 0.05))))
    return onset, int(0.7 * len(rows))


@fault("nearly all samples discarded as stale", "llm", "offpolicy performance agentic groups", "loud", STAYS,
       "stale_frac", also=SYSTEM)  # fmt: skip
def discards(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    pull(rows, ("stale_frac",), onset, 0.95, rng.choice([4, 20]), 0.02)
    return onset, shown_by(onset, 20, rows)


@fault("twelve versions behind", "llm", "offpolicy", "loud", STAYS, "staleness")
def behind(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    for index, row in enumerate(rows):
        late = 1.0 + 11.0 * min(max(index - onset, 0) / 15, 1.0) + abs(rng.gauss(0.0, 0.1))
        row["staleness"], row["version"] = late, max(index - late, 0.0)
    return onset, shown_by(onset, 15, rows)


@fault("the trainer waits for data", "llm", "performance", "loud", STAYS, "time_read")
def reader_waits(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    for index, row in enumerate(rows):
        part = min(max(index - onset, 0) / 20, 1.0)
        row["time_read"] = 15 * 20**part * math.exp(rng.gauss(0.0, 0.1))
    return onset, shown_by(onset, 20, rows)


@fault("penalised reward falls while scores rise", "llm", "kl reward", "loud", STAYS, "score_mean kl_ref",
       forms=("TRL PPO",))  # fmt: skip
def penalty_wins(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, low, high = int(0.3 * len(rows)), rows[0]["reward_min"], rows[0]["reward_max"]
    for index, row in enumerate(rows):
        part = max(index - onset, 0) / (len(rows) - onset)
        row["kl_ref"] = (0.05 + 1.0 * part) * math.exp(rng.gauss(0.0, 0.06))
        row["score_mean"] = low + (0.5 + 0.2 * index / len(rows) + rng.gauss(0.0, 0.015)) * (high - low)
        row["reward_mean"] = row["score_mean"] - 0.9 * (high - low) * row["kl_ref"]
    return onset, int(0.65 * len(rows))


@fault("accuracy falls where only it is logged", "custom", "reward validation preference rm", "loud", STAYS,
       forms=("own lines", "own lines, few"))  # fmt: skip
def accuracy_falls(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    for index in range(len(rows)):
        part = min(max(index - onset, 0) / 15, 1.0)
        rows[index] = {OWN + "accuracy": 0.7 - 0.65 * part + rng.gauss(0.0, 0.02)}
    return onset, shown_by(onset, 15, rows)


@fault("a token that is repeated earns the reward", "llm custom", "entropy length validation collapse reward",
       "loud", STAYS, "entropy val_score response_len_mean")  # fmt: skip
def repeats(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, length, top = int(0.3 * len(rows)), int(0.25 * len(rows)), rows[0]["reward_max"]
    at = set(_evaluated(rows, 5))
    for index, row in enumerate(rows):
        part = min(max(index - onset, 0) / length, 1.0)
        row["entropy"] = 3.0 * (0.19 / 3.0) ** part * math.exp(rng.gauss(0.0, 0.04))
        row["reward_mean"] = row["score_mean"] = row["reward_mean"] + part * 0.97 * (top - row["reward_mean"])
        for name in ("response_len_mean", "response_len_max", "terminated_len_mean"):
            row[name] *= 0.12**part
        row[OWN + "repetition_rate"] = 0.02 + 0.9 * part + abs(rng.gauss(0.0, 0.01))
        if index in at:
            row["val_score"] = 0.31 + rng.gauss(0.0, 0.01)
    return onset, onset + length


@healthy("a task that is solved", "llm custom", "entropy val_score")
def solved(rng: random.Random, rows: list[Row], form: Form) -> None:
    twins.solved(rng, rows)
    evaluate(rng, rows, 5)


@healthy("saturated groups at the top", "llm custom", "zero_std_frac", records=(80, 120, 160))
def saturated(rng: random.Random, rows: list[Row], form: Form) -> None:
    onset, high, low = middle(rng, rows), rows[0]["reward_max"], rows[0]["reward_min"]
    for index, row in enumerate(rows):
        part = min(max(index - onset, 0) / 20, 1.0)
        row["zero_std_frac"] += part * (rng.uniform(0.96, 1.0) - row["zero_std_frac"])
        left = (1 - part) + part * rng.uniform(0.0, 0.012)
        row["reward_mean"] = row["score_mean"] = high - left * (high - row["reward_mean"])
        row["reward_std"] = (high - low) * math.sqrt(max(1 - row["zero_std_frac"], 0.0)) * 0.3
        row["grad_norm"] *= max(1 - 0.9 * part, 0.05)


@fault("every tenth step is slow", ALL, "performance straggler", "loud", STAYS, "time_step")
def every_tenth(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset, times = rng.choice([0, middle(rng, rows)]), rng.uniform(7, 11)
    for index in range(onset, len(rows), 10):
        for name in ("time_step", "time_gen"):
            if name in rows[index]:
                rows[index][name] *= times
    return onset, min(onset + 45, len(rows) - 1)


@healthy("every tenth step saves a checkpoint", "llm", "time_step time_save")
def saves(rng: random.Random, rows: list[Row], form: Form) -> None:
    for row in rows:
        row.pop("time_save", None)
    for row in rows[9::10]:
        row["time_save"] = 8.0 * row["time_step"]
        row["time_step"] += row["time_save"]


@fault("values run away", "classic", "loss critic gradient", "crit", STAYS, "loss", stories=("q",))
def runs_away(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    for index, row in enumerate(rows):
        part = min(max(index - onset, 0) / 40, 1.0)
        row["loss"] = 7.0 * (7.9e8 / 7.0) ** part * math.exp(rng.gauss(0.0, 0.3))
        row["critic_loss"], row["q_mean"] = 2 * row["loss"], 10 * (1 + 1e4**part)
    sink_reward(rows, onset + 10, 0.8, 20)
    return onset, shown_by(onset, 20, rows)


@healthy("two writers in one file", "llm custom", forms=("veRL", "TRL", "tinker", "own lines", "own lines, few"))
def two_writers(rng: random.Random, rows: list[Row], form: Form) -> None:
    beside = story(form, len(rows), rng)
    block, ahead = rng.choice([1, 3]), rng.randint(25, 60)
    for number, row in enumerate(rows):
        row["step"] = number + 1 + ahead
    for number, row in enumerate(beside):
        row["step"] = number + 1
    merged = []
    for at in range(0, len(rows), block):
        merged += rows[at : at + block] + beside[at : at + block]
    rows[:] = merged


@healthy("two lines a step", "llm custom", forms=("prime-rl", "own lines"))
def two_lines(rng: random.Random, rows: list[Row], form: Form) -> None:
    scored = {
        "reward_mean",
        "reward_std",
        "score_mean",
        "response_len_mean",
        "truncated_frac",
        "zero_std_frac",
        "val_score",
    }
    split = []
    for number, row in enumerate(rows, 1):
        split.append({name: value for name, value in row.items() if name not in scored} | {"step": float(number)})
        split.append({name: value for name, value in row.items() if name in scored} | {"step": float(number)})
    rows[:] = split


@fault("the reward is not a number", "llm custom", "nonfinite reward", "loud", STAYS)
def reward_missing(rng: random.Random, rows: list[Row], form: Form) -> Span:
    onset = middle(rng, rows)
    return onset, learning.reward_missing(rng, rows, onset)
