"""Writes fixtures of trainers through the trainers' own logger classes.

    python bench/make_fixtures/trainers.py SOURCES fixtures [TRAINER …]

SOURCES is a folder that holds the loggers at their paths inside their packages:
`verl/utils/tracking.py`, `openrlhf/utils/logging_utils.py`, `trinity/utils/monitor.py`,
`rlinf/utils/metric_logger.py`, `telescope/orchestrator/loggers/wandb_logger.py`,
`rllm/utils/tracking.py`, `prime_rl/monitors/file.py`, `miles/utils/tracking_utils/tensorboard_utils.py`,
`nemo_rl/utils/logger.py`, `slime/observability/tensorboard_utils.py`, `areal/utils/stats_logger.py`,
`roll/utils/tracking.py`, `skyrl/train/utils/tracking.py`, `tinker_cookbook/utils/ml_log.py`
(with its `stores`), and of EasyR1, whose package is called verl too,
`easyr1/verl/utils/logger/logger.py` and `easyr1/verl/utils/py_functional.py`;
from checkouts or unpacked wheels. The loggers are what they are; what they import
beside the standard library is either installed (`pip install tensorboardX omegaconf
wandb orjson packaging numpy pandas pyyaml`) or stood in for, and torch's SummaryWriter is tensorboardX's,
from which it descends. For TRL's asynchronous trainer its package (1.16) is installed, with torch: its queue, its
batcher and its collator count made samples.
The values come from seeded generators, on a clock of their own.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import csv
import importlib.util
import io
import json
import math
import os
import queue
import random
import re
import shutil
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

Row = dict[str, float]

START_S = 1_795_000_000.0


class Clock:
    """Replaces `time.time` while a logger writes; advances by the duration of steps."""

    def __init__(self) -> None:
        self.now_s = START_S

    def time(self) -> float:
        """Seconds since the epoch, a little later on each call."""
        self.now_s += 1e-4
        return self.now_s


class Dice:
    """Random numbers for plausible metrics: trends with noise."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def noisy(self, value: float, share: float = 0.03) -> float:
        """A positive value with relative noise."""
        return value * math.exp(self._random.gauss(0, share))

    def around(self, value: float, width: float) -> float:
        """A value with absolute noise."""
        return value + self._random.gauss(0, width)


def rise(done: float, start: float, end: float, speed: float = 3.0) -> float:
    """From `start` towards `end`, fast at first."""
    return end + (start - end) * math.exp(-speed * done)


def load(path: Path, name: str, *, stand_ins: tuple[str, ...] = ()) -> types.ModuleType:
    """Execute a file of a trainer as a module; `stand_ins` are stubs for modules that it imports."""
    for each in stand_ins:
        parts = each.split(".")
        for i in range(1, len(parts) + 1):
            sys.modules.setdefault(".".join(parts[:i]), MagicMock(name=each, __version__="", __spec__=None))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def with_tensorboard() -> None:
    """Install tensorboardX as `torch.utils.tensorboard`."""
    import tensorboardX
    import tensorboardX.summary

    # Torch's writer keeps tags unchanged; tensorboardX would replace the `@` in `mean@4`.
    tensorboardX.summary._clean_tag = lambda name: name
    for name in ("torch", "torch.utils"):
        sys.modules.setdefault(name, types.ModuleType(name))
    board = types.ModuleType("torch.utils.tensorboard")
    board.SummaryWriter = tensorboardX.SummaryWriter  # type: ignore[attr-defined]
    sys.modules["torch.utils.tensorboard"] = board


def keep_events(source: Path, target: Path, number: int) -> None:
    """Move the only event file of `source` to `target` under a name without this machine's."""
    target.mkdir(parents=True, exist_ok=True)
    for old in target.glob("events.out.tfevents.*"):
        old.unlink()
    (found,) = source.glob("events.out.tfevents.*")
    shutil.copyfile(found, target / f"events.out.tfevents.{int(START_S)}.node-1.{number}.0")


# -- courses -----------------------------------------------------------------------------------------------------


def verl_ppo(dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """PPO with a critic: values, explained variance, validation every twenty steps."""
    for step in range(steps + 1):
        done = step / steps
        row: Row = {}
        if step % 20 == 0:
            score = dice.around(rise(done, 0.42, 0.71), 0.004)
            row["val-core/openai/gsm8k/acc/mean@4"] = score
            row["val-core/openai/gsm8k/acc/best@4/mean"] = score + 0.11
            row["val-core/openai/gsm8k/acc/best@4/std"] = 0.06
            row["val-aux/openai/gsm8k/acc/worst@4/mean"] = score - 0.13
            row["val-aux/openai/gsm8k/acc/std@4"] = 0.09
        if step:
            row |= _verl_step(dice, step, done)
            if step % 20 == 0:
                row["timing_s/testing"] = dice.noisy(21.0)
        yield step, row


def _verl_step(dice: Dice, step: int, done: float) -> Row:
    score, length = dice.around(rise(done, 0.4, 0.72), 0.012), dice.noisy(rise(done, 310, 355))
    stages = {
        "gen": dice.noisy(31), "old_log_prob": dice.noisy(5.1), "ref": dice.noisy(4.4), "values": dice.noisy(4.0),
        "adv": dice.noisy(0.12), "update_critic": dice.noisy(12.4), "update_actor": dice.noisy(14.9),
        "update_weights": dice.noisy(1.8),
    }  # fmt: skip
    row: Row = {f"timing_s/{name}": seconds for name, seconds in stages.items()}
    row["timing_s/step"] = row["perf/time_per_step"] = sum(stages.values()) + dice.noisy(0.4)
    row |= {"critic/score/mean": score, "critic/score/max": 1.0, "critic/score/min": 0.0}
    kl = dice.noisy(rise(done, 0.0004, 0.006, 2.0))
    row |= {"critic/rewards/mean": score - 0.04 * kl, "critic/rewards/max": 1.0, "critic/rewards/min": -0.01}
    row |= {"critic/advantages/mean": dice.around(0, 0.004), "critic/advantages/max": dice.noisy(4.3)}
    row |= {"critic/advantages/min": -dice.noisy(4.6), "critic/returns/mean": score - 0.01, "critic/returns/max": 1.0}
    row |= {"critic/returns/min": -0.02, "critic/values/mean": dice.around(score - 0.02, 0.01)}
    row |= {"critic/values/max": dice.noisy(1.1), "critic/values/min": -dice.noisy(0.2)}
    row |= {"critic/vf_explained_var": min(0.9, dice.around(rise(done, 0.1, 0.62, 4), 0.02))}
    row |= {"critic/vf_loss": dice.noisy(rise(done, 0.24, 0.06, 5), 0.06), "critic/vf_clipfrac": dice.noisy(0.012, 0.2)}
    row |= {"critic/vpred_mean": row["critic/values/mean"], "critic/grad_norm": dice.noisy(2.4, 0.1)}
    row |= {"critic/lr": 1e-5, "actor/lr": 1e-6, "actor/pg_loss": dice.around(-0.004, 0.006)}
    row |= {
        "actor/kl_loss": kl,
        "actor/kl_coef": 0.001,
        "actor/entropy": dice.noisy(rise(done, 0.46, 0.31, 1.2), 0.015),
    }
    row |= {"actor/pg_clipfrac": dice.noisy(0.0021, 0.15), "actor/pg_clipfrac_lower": 0.0}
    row |= {"actor/ppo_kl": dice.around(0.0003, 0.0001), "actor/grad_norm": dice.noisy(0.62, 0.09)}
    row |= {
        "response_length/mean": length,
        "response_length/max": min(1024.0, dice.noisy(900)),
        "prompt_length/max": 201,
    }
    row |= {"response_length/min": dice.noisy(62, 0.1), "response_length/clip_ratio": abs(dice.around(0.004, 0.002))}
    row |= {"prompt_length/mean": dice.noisy(104, 0.01), "prompt_length/min": 41, "prompt_length/clip_ratio": 0.0}
    tokens = 1024 * (length + 104)
    row |= {"global_seqlen/mean": tokens / 8, "global_seqlen/min": tokens / 8.6, "global_seqlen/max": tokens / 7.5}
    row |= {"global_seqlen/balanced_min": tokens / 8 - 9, "global_seqlen/balanced_max": tokens / 8 + 11}
    row |= {"global_seqlen/minmax_diff": tokens / 7.5 - tokens / 8.6, "perf/total_num_tokens": tokens}
    row |= {"perf/throughput": tokens / row["timing_s/step"] / 8, "perf/mfu/actor": dice.noisy(0.38, 0.02)}
    row |= {"perf/max_memory_allocated_gb": 61.2, "perf/max_memory_reserved_gb": 68.9, "training/global_step": step}
    return row


def openrlhf_ppo(dice: Dice, steps: int) -> Iterator[tuple[int, Row, Row]]:
    """PPO: logs of training and evaluation, by step."""
    for step in range(1, steps + 1):
        done = step / steps
        reward, length = dice.around(rise(done, 0.21, 0.66), 0.012), dice.noisy(rise(done, 420, 460))
        times = {
            "generation": dice.noisy(24), "make_experience": dice.noisy(9.1), "ppo_train": dice.noisy(26),
            "broadcast": dice.noisy(1.4),
        }  # fmt: skip
        row: Row = {
            "policy_loss": dice.around(-0.002, 0.008), "actor_lr": 5e-7, "actor_grad_norm": dice.noisy(0.71, 0.09),
            "ppo_clip_ratio": dice.noisy(0.0034, 0.15), "ppo_kl": dice.around(0.0004, 0.0003),
            "kl": dice.noisy(rise(done, 0.0005, 0.011, 2)), "reward": reward, "score": reward + 0.002,
            "return": reward - 0.01, "group_reward_std": dice.noisy(0.31),
            "critic_loss": dice.noisy(rise(done, 0.3, 0.08, 5), 0.05),
            "values": dice.around(reward - 0.02, 0.01), "critic_lr": 9e-6, "critic_grad_norm": dice.noisy(3.1, 0.12),
            "response_length": length, "total_length": length + 131, "truncated": abs(dice.around(0.012, 0.003)),
            "response_clip_ratio": abs(dice.around(0.012, 0.003)),
            "entropy_loss": dice.noisy(rise(done, 0.52, 0.39, 1.2), 0.015),
            "rollout/reward_mean": reward, "rollout/reward_std": dice.noisy(0.44),
            "rollout/response_length_mean": length, "rollout/truncated_rate": abs(dice.around(0.012, 0.003)),
            "rollout/num_samples": 1024.0,
        }  # fmt: skip
        row |= {f"timing/{name}": seconds for name, seconds in times.items()}
        row["timing/step_total"] = sum(times.values())
        told: Row = {}
        if step % 20 == 0:
            score = dice.around(rise(done, 0.25, 0.64), 0.006)
            told = {"eval_gsm8k_pass1": score, "eval_gsm8k_pass4": score + 0.14, "eval_gsm8k_truncated_rate": 0.01}
            told |= {
                "eval_response_length_mean": length * 0.97,
                "eval_truncated_rate": 0.01,
                "eval_num_samples": 5276.0,
            }
        yield step, row, told


def rlinf_embodied(dice: Dice, steps: int) -> Iterator[tuple[int, tuple[Row, ...]]]:
    """PPO with a simulator: the four dictionaries that the runner logs per step."""
    for step in range(1, steps + 1):
        done = step / steps
        success = min(0.99, dice.around(rise(done, 0.16, 0.88), 0.012))
        env = {
            "success_once": success, "success_at_end": success - 0.02, "return": success * 4.6,
            "episode_len": dice.noisy(rise(done, 76, 44), 0.01), "reward": success * 0.06, "num_trajectories": 512.0,
        }  # fmt: skip
        rollout = {
            "rewards": success * 0.061, "advantages_mean": dice.around(0, 0.003), "advantages_max": dice.noisy(3.9),
            "advantages_min": -dice.noisy(3.6), "returns_mean": success * 2.1, "returns_max": 4.9, "returns_min": 0.0,
        }  # fmt: skip
        stages = {
            "sync_weights": dice.noisy(2.2), "generate_rollouts": dice.noisy(71),
            "cal_adv_and_returns": dice.noisy(0.9), "actor_training": dice.noisy(33),
        }  # fmt: skip
        times = {"step": sum(stages.values()) + dice.noisy(0.7), **stages}
        times |= {
            "env/interact": stages["generate_rollouts"] * 0.98,
            "rollout/generate": stages["generate_rollouts"] * 0.97,
        }
        times |= {
            "actor/run_training": stages["actor_training"] * 0.99,
            "actor/recv_rollout_trajectories": dice.noisy(0.3),
        }
        train = {
            "actor/policy_loss": dice.around(-0.003, 0.004), "actor/total_loss": dice.around(0.02, 0.004),
            "actor/approx_kl": abs(dice.around(0.006, 0.0008)), "actor/clip_fraction": dice.noisy(0.11, 0.06),
            "actor/clipped_ratio": dice.around(1.0, 0.002), "actor/ratio": dice.around(1.0, 0.002),
            "actor/dual_cliped_ratio": 0.0, "actor/entropy_loss": dice.noisy(rise(done, 1.9, 1.5, 1.0), 0.01),
            "actor/grad_norm": dice.noisy(0.9, 0.08), "actor/lr": 5e-6,
            "critic/value_loss": dice.noisy(rise(done, 0.4, 0.11, 5), 0.05), "critic/lr": 1e-4,
            "critic/value_clip_ratio": dice.noisy(0.02, 0.1), "critic/grad_norm": dice.noisy(1.9, 0.1),
            "critic/explained_variance": min(0.95, dice.around(rise(done, 0.1, 0.71, 4), 0.02)),
        }  # fmt: skip
        yield (
            step,
            (
                {f"env/{key}": value for key, value in env.items()},
                {f"rollout/{key}": value for key, value in rollout.items()},
                {f"time/{key}": value for key, value in times.items()},
                {f"train/{key}": value for key, value in train.items()},
            ),
        )


def trinity_trainer(dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """GRPO: rows of the trainer's monitor, with veRL's keys but `time/` for `timing_s/`."""
    for step in range(1, steps + 1):
        done = step / steps
        row = _verl_step(dice, step, done)
        gone = ("critic/values", "critic/vf", "critic/vpred", "critic/grad", "critic/lr", "training/")
        row = {key: value for key, value in row.items() if not key.startswith(gone)}
        row["critic/advantages/max"], row["critic/advantages/min"] = dice.noisy(2.2), -dice.noisy(2.2)
        named = {key.replace("timing_s/", "time/"): value for key, value in row.items()}
        for key in ("time/gen", "time/values", "time/update_critic", "time/update_weights", "perf/time_per_step"):
            named.pop(key, None)
        inner = sum(named[f"time/{name}"] for name in ("old_log_prob", "ref", "adv", "update_actor"))
        named["time/step"] = inner + dice.noisy(0.2)
        named["time/train_step"] = named["time/step"] + dice.noisy(0.6)
        named["time/read_experience"] = dice.noisy(19)
        named["perf/throughput"] = named["perf/total_num_tokens"] / named["time/step"] / 8
        named |= {
            "sample/task_count": 96.0,
            "sample/model_version/mean": step - 1.2,
            "sample/model_version/max": step - 1,
        }
        named |= {"sample/model_version/min": step - 2, "actor/final_loss": named["actor/pg_loss"]}
        if step % 2 == 0:
            named |= {"time/sync_weight": dice.noisy(3.1), "time/trainer_sync_interval": dice.noisy(95)}
        yield step, named


def trinity_explorer(dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """Rows of the explorer's monitor: rollouts, the pipeline, occasional evaluations."""
    for step in range(1, steps + 1):
        done = step / steps
        accuracy, length = dice.around(rise(done, 0.4, 0.71), 0.012), dice.noisy(rise(done, 310, 355))
        row: Row = {"rollout/accuracy/mean": accuracy, "rollout/accuracy/max": 1.0, "rollout/accuracy/min": 0.0}
        row |= {"rollout/reward/mean": accuracy + 0.1, "rollout/reward/max": 1.1, "rollout/reward/min": -0.1}
        row |= {"rollout/response_length/mean": length, "rollout/response_length/max": dice.noisy(900)}
        row |= {"rollout/response_length/min": dice.noisy(62, 0.1), "rollout/prompt_length/mean": dice.noisy(104, 0.01)}
        row |= {
            "rollout/time/run_execution/mean": dice.noisy(9.8),
            "rollout/time/task_execution/mean": dice.noisy(14.2),
        }
        row |= {"rollout/finished_task_count": 96.0, "rollout/model_version": float(step - step % 2)}
        row |= {"experience_pipeline/experience_count": 768.0, "experience_pipeline/time/total": dice.noisy(0.6)}
        groups = "experience_pipeline/group_advantages"
        row |= {f"{groups}/reward_mean/mean": accuracy + 0.1, f"{groups}/reward_mean/max": 1.1}
        row |= {f"{groups}/reward_mean/min": -0.1, f"{groups}/reward_std/mean": dice.noisy(0.29)}
        row |= {f"{groups}/reward_std/max": 0.6, f"{groups}/reward_std/min": 0.0}
        row |= {"explorer/time/wait_explore_step": dice.noisy(31)}
        if step % 20 == 0:
            score = dice.around(rise(done, 0.42, 0.71), 0.004)
            levels = {"mean": score, "best": score + 0.11, "worst": score - 0.13, "std": 0.09}
            row |= {f"eval/gsm8k/accuracy/{level}@4": value for level, value in levels.items()}
            row["time/eval"] = dice.noisy(24)
        yield step, row


def telescope_scalars(dice: Dice, steps: int) -> Iterator[tuple[int, Row, float]]:
    """The trainer's four scalars, a custom one, and the mean reward."""
    for step in range(1, steps + 1):
        done = step / steps
        row = {
            "grad_norm": dice.noisy(0.34, 0.09), "entropy": dice.noisy(rise(done, 0.61, 0.47, 1.2), 0.015),
            "kl_divergence_inference": dice.noisy(0.0011, 0.08), "learning_rate": 1e-6,
        }  # fmt: skip
        yield step, row, dice.around(rise(done, 0.2, 0.58), 0.012)


def easyr1_grpo(dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """GRPO on problems with pictures: accuracy and format, validation every ten steps."""
    for step in range(steps + 1):
        done = step / steps
        accuracy, form = rise(done, 0.3, 0.62), rise(done, 0.5, 0.97, 6.0)
        row: Row = {}
        if step:
            row |= _easyr1_step(dice, done, dice.around(accuracy, 0.015), dice.around(form, 0.004))
        if step % 10 == 0:
            score = dice.around(accuracy - 0.03, 0.006)
            row["val/reward_score"] = row["val/overall_reward"] = 0.9 * score + 0.1 * form
            row |= {"val/format_reward": form, "val/accuracy_reward": score}
            row |= _lengths(dice, "val_response_length", 330, 2048, 0.01)
            row |= _lengths(dice, "val_prompt_length", 410, 900, 0.0)
        if step and step % 10 == 0:
            row["timing_s/validation"] = dice.noisy(30)
            row["timing_s/step"] += row["timing_s/validation"]
            row["perf/time_per_step"] = row["timing_s/step"]
        yield step, row


def _lengths(dice: Dice, name: str, mean: float, longest: float, clipped: float) -> Row:
    row = {f"{name}/mean": dice.noisy(mean), f"{name}/max": longest, f"{name}/min": dice.noisy(mean / 6)}
    return row | {f"{name}/clip_ratio": clipped and dice.noisy(clipped, 0.2)}


def _extremes(name: str, mean: float, high: float, low: float) -> Row:
    return {f"{name}/mean": mean, f"{name}/max": high, f"{name}/min": low}


def _easyr1_step(dice: Dice, done: float, accuracy: float, form: float) -> Row:
    overall, tokens = 0.9 * accuracy + 0.1 * form, dice.noisy(150_000)
    stages = {"gen": dice.noisy(50), "reward": dice.noisy(2), "old": dice.noisy(9), "ref": dice.noisy(8),
              "adv": dice.noisy(0.3), "update_actor": dice.noisy(40)}  # fmt: skip
    row: Row = {f"timing_s/{name}": seconds for name, seconds in stages.items()}
    row["timing_s/step"] = row["perf/time_per_step"] = sum(stages.values()) + dice.noisy(0.4)
    row |= {f"timing_per_token_ms/{name}": seconds / tokens * 125 for name, seconds in stages.items()}
    row |= {"reward/overall": overall, "reward/format": form, "reward/accuracy": accuracy}
    row |= _extremes("critic/score", overall, 1.0, 0.0) | _extremes("critic/rewards", overall, 1.0, 0.0)
    for name in ("critic/advantages", "critic/returns"):
        row |= _extremes(name, dice.around(0, 0.008), dice.noisy(1.72, 0.01), -dice.noisy(1.7, 0.01))
    row |= {"actor/kl_loss": dice.noisy(rise(done, 0.0004, 0.012, 2.0)), "actor/kl_coef": 0.01}
    row |= {"actor/ppo_kl": dice.around(0, 1e-4), "actor/entropy_loss": dice.noisy(rise(done, 0.5, 0.34, 1.2), 0.015)}
    row |= {"actor/pg_clipfrac_higher": dice.noisy(0.002, 0.2), "actor/pg_clipfrac_lower": dice.noisy(1e-4, 0.3)}
    row |= {"actor/pg_loss": dice.around(0, 0.008), "actor/grad_norm": dice.noisy(0.8, 0.1), "actor/lr": 1e-6}
    row |= {"perf/mfu_actor": dice.noisy(0.21), "perf/max_memory_allocated_gb": 51.2}
    row |= {"perf/max_memory_reserved_gb": 60.1, "perf/cpu_memory_used_gb": dice.noisy(240, 0.002)}
    row |= {"perf/total_num_tokens": 8 * tokens, "perf/throughput": tokens / row["timing_s/step"]}
    row |= {"global_seqlen/min": 0.93 * tokens, "global_seqlen/max": 1.07 * tokens, "global_seqlen/mean": tokens}
    row |= {"global_seqlen/minmax_diff": 0.14 * tokens, "global_seqlen/balanced_min": tokens - 4}
    row |= {"global_seqlen/balanced_max": tokens + 4}
    row |= _lengths(dice, "response_length", rise(done, 280, 350), 2048, 0.008)
    return row | _lengths(dice, "prompt_length", 400, 900, 0.0)


def rllm_async(dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """An agent on the tinker backend with asynchronous rollouts; validation in separate rows."""
    for step in range(1, steps + 1):
        done = step / steps
        yield step, _rllm_step(dice, step, done, dice.around(rise(done, 0.2, 0.6), 0.015))
        if step % 10 == 0:
            score = dice.around(rise(done, 0.18, 0.55), 0.008)
            row = {"val/math/pass@1": score, "val/math/pass@4": score + 0.14, "time/testing": dice.noisy(30)}
            yield step, row | {f"val/{key}": value for key, value in _spread("reward/default", score, 0.48).items()}


def _spread(name: str, mean: float, std: float) -> Row:
    return _extremes(name, mean, 1.0, 0.0) | {f"{name}/std": std}


def _rllm_step(dice: Dice, step: int, done: float, reward: float) -> Row:
    effective = dice.around(0.55, 0.02)
    easy = 0.45 * reward
    row = {f"batch/solve_{name}": value for name, value in (("all", easy), ("partial", effective))}
    row |= {"batch/solve_none": 1.0 - effective - easy, "batch/num_tasks": 64.0, "batch/default/total": 64.0}
    row |= {"batch/default/fractions/effective": effective, "batch/default/fractions/too_easy": easy}
    row |= {"batch/default/fractions/too_hard": 1.0 - effective - easy, "groups/num_trajs_after_filter": 512.0}
    row |= {"groups/num_groups": 64.0, "groups/avg_group_size": 8.0, "groups/dropped_zero_adv": dice.noisy(20, 0.1)}
    row |= _spread("reward/default", reward, 0.48)
    row |= _extremes("advantage/default", dice.around(0, 0.004), 2.4, -2.4) | {"advantage/default/std": 0.7}
    row |= {"advantage/default/fraction_zero": 1.0 - effective}
    row |= {f"batch/steps_per_traj/{name}": value for name, value in (("mean", dice.noisy(3)), ("min", 1.0))}
    row |= {"batch/steps_per_traj/max": 8.0} | _extremes("batch/step_response_length", dice.noisy(420), 2048.0, 30.0)
    row |= {"train/kl_sample_train_v1": dice.noisy(0.01), "train/kl_sample_train_v2": dice.noisy(5e-4)}
    row |= {"train/entropy": dice.noisy(rise(done, 0.6, 0.48)), "progress/lr": 2e-5, "progress/batch": float(step)}
    row |= {"progress/done_frac": done, "time/fused_forward_backward_and_optim_step": dice.noisy(30)}
    row |= {"time/buffer_wait": dice.noisy(14), "time/weight_sync": dice.noisy(3)}
    row["time/step"] = sum(value for key, value in row.items() if key.startswith("time/")) + dice.noisy(0.4)
    row["async/trainer_idle_ratio"] = row["time/buffer_wait"] / row["time/step"]
    row |= {"async/staleness_mean": dice.noisy(0.5), "async/staleness_min": 0.0, "async/staleness_max": 2.0}
    row |= {"async/buffer_qsize": 5.0, "async/weight_version": float(step), "episode/num_turns": dice.noisy(3)}
    row |= {"episode/correct": reward, "episode/time/rollout_s": dice.noisy(31), "episode/time/agentflow_s": 27.0}
    return row | {"episode/prompt_tokens": dice.noisy(900), "episode/response_tokens": dice.noisy(1300)}


# -- asynchronous trainers ---------------------------------------------------------------------------------------
# Every listed key of a trainer, with a typical value of its metric in a healthy run.

LISTED = Path(__file__).resolve().parents[2] / "fixtures" / "async_keys.csv"
HEALTHY = {
    "staleness_mean": 1.1, "staleness_max": 3.0, "staleness_min": 0.0, "staleness_share_limit": 0.1, "stale_frac": 0.6,
    "staleness_violations": 0.0, "queue_size": 24.0, "queue_limit": 128.0, "inflight_count": 96.0,
    "inflight_limit": 128.0, "trainer_idle_frac": 0.12, "rollouter_idle_frac": 0.08, "time_wait_data": 4.0,
    "time_wait_policy": 0.3, "time_weight_sync": 2.0, "is_ratio_mean": 1.0, "is_ratio_max": 1.9, "is_ratio_min": 0.4,
    "off_policy_kl": 8e-4, "off_policy_kl_max": 0.4, "rollout_masked_frac": 0.004, "aborted_frac": 0.01,
    "aborted_count": 1.0, "cancelled_frac": 0.01, "cancelled_count": 1.0, "kept_frac": 0.9, "zero_std_count": 9.0,
    "prefix_cache_hit": 0.8, "spec_accept_rate": 0.7, "spec_accept_len": 2.6, "kv_cache_frac": 0.55,
    "engine_waiting": 2.0, "rollout_failures": 0.0, "dropped_stale": 0.0, "evicted_samples": 0.0, "stale_count": 0.0,
    "row_imbalance": 1.1, "packing_ratio": 1.4, "num_turns_mean": 3.0, "num_turns_max": 8.0, "tool_failure_frac": 0.03,
    "tool_call_freq": 2.0, "token_drift_frac": 0.0, "token_drift": 0.0, "time_gen": 60.0, "time_gen_sample_mean": 31.0,
    "time_gen_sample_max": 74.0, "time_gen_sample_high": 66.0, "time_tool_sample_mean": 4.0, "slowest_tool": 9.0,
    "time_tool_sample_max": 11.0, "reward_component": 0.5, "reward_mean": 0.5, "all_bad_frac": 0.2,
    "all_good_frac": 0.15, "total_len_mean": 1700.0, "total_len_max": 4000.0, "preempted_mean": 0.0, "mfu": 0.35,
    "trained_tokens": 1100.0, "throughput": 21000.0, "gen_throughput": 24000.0, "event_loop_lag": 0.004,
    "time_eval": 9.0, "partial_frac": 0.1, "time_update_actor": 20.0, "time_update_all": 22.0, "time_prepare": 0.4,
    "env_timeout_frac": 0.0, "turn_limit_frac": 0.02, "retry_count": 0.0, "no_engine_count": 0.0,
    "engine_restarts": 0.0, "missing_groups": 0.0, "replaced_groups": 0.0, "time_no_progress": 2.0,
}  # fmt: skip
"""Values by canonical metric; others get a value by their unit."""
BY_UNIT = {"fraction": 0.2, "s": 1.2, "ms": 14.0, "tokens": 900.0, "tok/s": 3000.0}
COUNTED = frozenset({"param_version", "sample_version", "sample_version_min", "sample_version_max", "sample_update"})


def pipeline(trainer: str, dice: Dice, step: int, left_out: tuple[str, ...] = ()) -> Row:
    """One row of the known listed keys, each as its trainer writes it."""
    from rltop.catalog.metrics import CATALOG
    from rltop.trainers.identify import identify

    with LISTED.open(newline="") as file:
        listed = {
            re.sub(r"<\w+>", lambda found: PLACEHOLDERS.get(found[0], "alpha"), entry["key"]): entry["metric"]
            for entry in csv.DictReader(file)
            if entry["trainer"] == trainer and not entry["key"].startswith(left_out)
        }
    signals = identify([*listed], {}).signals
    row: Row = {}
    for key, metric in listed.items():
        if metric in ("", "misleading"):
            row |= {key: 1.0} if metric else {}
            continue
        value = HEALTHY.get(metric, BY_UNIT.get(CATALOG[metric].unit.value, 3.0))
        value = float(max(0, step - 1)) if metric in COUNTED else dice.noisy(value)
        signal = next((each for each in signals.get(metric, ()) if each.key == key), None)
        row[key] = value if signal is None else (value - signal.shift) / signal.scale
    return row


PLACEHOLDERS = {"<subset>": "all", "<env>": "math", "<domain>": "math", "<engine>": "server0.0", "<scope>": "agg"}


def _learning(dice: Dice, step: int, steps: int) -> tuple[float, float, float]:
    """Reward, loss and gradient norm of a learning run."""
    return dice.around(rise(step / steps, 0.3, 0.65), 0.01), dice.around(0.02, 0.004), dice.noisy(0.4, 0.1)


def prime_rl_async(dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """The trainer's row of a step, then the orchestrator's."""
    for step in range(1, steps + 1):
        reward, loss, norm = _learning(dice, step, steps)
        row = {"loss/mean": loss, "optim/grad_norm": norm, "optim/lr": 1e-6, "entropy/all/mean": dice.noisy(0.4)}
        row |= {"mismatch_kl/all/mean": dice.noisy(8e-4), "perf/throughput": dice.noisy(21000.0)}
        row |= {"time/forward_backward": dice.noisy(24.0), "time/wait_for_batch": dice.noisy(3.0)}
        row |= {"time/broadcast_weights": dice.noisy(2.0), "time/load_data": 0.2, "time/save_ckpt": 0.0}
        yield step, row | {"time/step": sum(row[key] for key in row if key.startswith("time/")) + 0.3}
        row = pipeline("prime-rl", dice, step, ("time/wait_for_batch", "time/broadcast_weights"))
        row |= {"train/agg/effective/alpha/reward/mean": reward, "train/agg/all/alpha/solved_some": dice.noisy(0.6)}
        row |= {"train/agg/effective/num_output_tokens/mean": dice.noisy(900.0), "time/pack": dice.noisy(0.5)}
        yield step, row | {"time/step": dice.noisy(30.0)}


def verl_fully_async(dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """The fully asynchronous trainer: one row per weight sync."""
    for step in range(1, steps + 1):
        reward, loss, norm = _learning(dice, step, steps)
        row = pipeline("veRL", dice, step, ("training/", "separate_async/", "timing_s/"))
        row |= {"actor/pg_loss": loss, "actor/grad_norm": norm, "actor/lr": 1e-6, "actor/entropy": dice.noisy(0.4)}
        row |= {"actor/ppo_kl": dice.around(0.0, 1e-4), "actor/pg_clipfrac": dice.noisy(0.003)}
        row |= _extremes("critic/score", reward, 1.0, 0.0) | _extremes("critic/rewards", reward, 1.0, 0.0)
        row |= _extremes("critic/advantages", dice.around(0.0, 0.01), 2.4, -2.4)
        row |= _lengths(dice, "response_length", 900.0, 4096.0, 0.01) | _lengths(
            dice, "prompt_length", 200.0, 600.0, 0.0
        )
        row |= {"timing_s/gen": dice.noisy(4.0), "timing_s/old_log_prob": dice.noisy(6.0), "timing_s/adv": 0.2}
        row |= {"timing_s/update_actor": dice.noisy(24.0), "timing_s/timing_s/param_sync": dice.noisy(2.0)}
        row["timing_s/step"] = sum(row[key] for key in row if key.startswith("timing_s/")) + 0.4
        row["fully_async/trainer/idle_ratio"] = row["timing_s/gen"] / row["timing_s/step"]
        yield step, row | {"perf/throughput": dice.noisy(2600.0), "training/global_step": float(step)}


def megatron_async(trainer: str, dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """slime, and miles with asynchronous generation."""
    for step in range(steps):
        reward, loss, norm = _learning(dice, step + 1, steps)
        row = pipeline(trainer, dice, step, ("eval/", "alpha/", "<adapter>", "perf/train_wait_time"))
        row |= {"train/loss": loss, "train/pg_loss": loss, "train/grad_norm": norm, "train/lr-pg_0": 1e-6}
        row |= {"train/entropy_loss": dice.noisy(0.4), "train/ppo_kl": dice.around(0.0, 1e-4)}
        row |= {"train/train_rollout_logprob_abs_diff": dice.noisy(0.01), "rollout/raw_reward": reward}
        row |= {"rollout/response_len/mean": dice.noisy(900.0), "rollout/truncated_ratio": dice.noisy(0.02)}
        wait, train = dice.noisy(4.0), dice.noisy(30.0)
        row |= {"perf/train_wait_time": wait, "perf/train_time": train, "perf/actor_train_time": 0.9 * train}
        row |= {"perf/step_time": wait + train, "perf/wait_time_ratio": wait / (wait + train)}
        yield step, row | {"perf/rollout_time": dice.noisy(33.0), "rollout/step": float(step)}


def nemo_async(dice: Dice, steps: int) -> Iterator[tuple[int, dict[str, Row]]]:
    """Asynchronous GRPO: metrics by the prefix that the loop gives its logger; others are in separate rows."""
    for step in range(1, steps + 1):
        reward, loss, norm = _learning(dice, step, steps)
        row = pipeline("NeMo-RL", dice, step, ("timing/train/exposed_generation",))
        times = {"exposed_generation": dice.noisy(4.0), "policy_training": dice.noisy(24.0)}
        times |= {"policy_and_reference_logprobs": dice.noisy(6.0), "weight_sync": dice.noisy(2.0)}
        train = {"reward": reward, "loss": loss, "grad_norm": norm, "lr": 1e-6, "gen_kl_error": dice.noisy(8e-4)}
        train |= {"mean_gen_tokens_per_sample": dice.noisy(900.0), "approx_entropy": dice.noisy(0.4)}
        row |= {f"timing/train/{name}": value for name, value in times.items()}
        row |= {"timing/train/total_step_time": sum(times.values()) + 0.4}
        yield step, {"train": train, "": row}


def _of_shape(trainer: str, dice: Dice, steps: int) -> Iterator[tuple[int, Row]]:
    """Rows of the trainers for which a single shape is enough."""
    for step in range(1, steps + 1):
        reward, loss, norm = _learning(dice, step, steps)
        row = pipeline(trainer, dice, step, LEFT_OUT.get(trainer, ()))
        if trainer == "AReaL":
            row |= {"ppo_actor/task_reward/avg": reward, "ppo_actor/update/grad_norm": norm}
            row |= {"ppo_actor/update/actor_loss/avg": loss, "ppo_actor/update/entropy/avg": dice.noisy(0.4)}
            row |= {"ppo_actor/seq_len/avg": dice.noisy(1100.0), "timeperf/train_step": dice.noisy(24.0)}
        elif trainer == "ROLL":
            row |= {"critic/score/mean": reward, "actor/pg_loss": loss, "actor_train/grad_norm": norm}
            row |= {"actor/ppo_ratio_clipfrac": dice.noisy(0.003), "critic/entropy/mean": dice.noisy(0.4)}
            row |= {"tokens/response_length/mean": dice.noisy(900.0), "time/step_train": dice.noisy(30.0)}
            row |= {"time/step_rollout": dice.noisy(4.0), "time/step_total": dice.noisy(38.0), "system/tps": 21000.0}
        elif trainer == "SkyRL":
            row |= {"reward/avg_raw_reward": reward, "policy/policy_loss": loss, "policy/raw_grad_norm": norm}
            row |= {"policy/policy_entropy": dice.noisy(0.4), "policy/policy_lr": 1e-6}
            row |= {"generate/avg_num_tokens": dice.noisy(900.0), "timing/policy_train": dice.noisy(22.0)}
            row |= {"timing/step": dice.noisy(31.0), "trainer/global_step": float(step)}
        else:
            row |= {"env/all/reward/total": reward, "optim/lr": 1e-5, "optim/entropy": dice.noisy(0.4)}
            row |= {"optim/kl_sample_train_v1": dice.around(8e-4, 1e-4), "optim/kl_sample_train_v2": dice.noisy(4e-4)}
            row |= {"env/all/ac_tokens_per_turn": dice.noisy(300.0), "env/all/by_group/frac_mixed": dice.noisy(0.6)}
            row |= {"time/train_step": dice.noisy(24.0), "time/total": dice.noisy(31.0), "progress/batch": float(step)}
        yield step, row


LEFT_OUT = {
    "AReaL": ("timeperf/alpha",),
    "ROLL": ("time/step_rollout", "env/math/traj_time_total", "env/math/efficiency", "env/math/latency"),
    "SkyRL": ("vllm/train/", "generate/num_"),
}


# -- writers -----------------------------------------------------------------------------------------------------


def write_verl(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By veRL's FileLogger."""
    folder = fixtures / "verl" / "ppo_critic"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["VERL_FILE_LOGGER_PATH"] = str(folder / "metrics.jsonl")
    module = load(sources / "verl/utils/tracking.py", "verl_tracking")
    logger = module.FileLogger("project", "experiment")
    for step, row in verl_ppo(Dice(11), 60):
        logger.log({key: float(value) for key, value in row.items()}, step)
    logger.finish()


def write_easyr1(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By EasyR1's FileLogger, and the first steps by its ConsoleLogger."""
    folder = fixtures / "easyr1" / "grpo"
    folder.mkdir(parents=True, exist_ok=True)
    names = ("torch", "codetiming", "packaging", "easyr1.verl.utils.logger.gen_logger")
    load(sources / "easyr1/verl/utils/py_functional.py", "easyr1.verl.utils.py_functional", stand_ins=names)
    module = load(sources / "easyr1/verl/utils/logger/logger.py", "easyr1.verl.utils.logger.logger")
    rows = list(easyr1_grpo(Dice(16), 60))
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()) as printed:
        config = {"trainer": {"save_checkpoint_path": scratch, "n_gpus_per_node": 8}}
        loggers = [module.FileLogger(config), module.ConsoleLogger(config)]
        for step, row in rows:
            for logger in loggers[: 2 if step <= 12 else 1]:
                logger.log(row, step)
        shutil.copyfile(Path(scratch, "experiment_log.jsonl"), folder / "experiment_log.jsonl")
        lines = printed.getvalue().replace(scratch, "checkpoints/easy_r1/math").splitlines()
    # Ray's prefix of an actor's lines, and a line of another actor between them.
    text = "".join(f"\x1b[36m(Runner pid=2712)\x1b[0m {line}\n" for line in lines)
    other = "\x1b[36m(WorkerDict pid=2890)\x1b[0m Update policy:  50%|#####     | 2/4 [00:20<00:20]\n"
    text = text.replace("actor:\n", f"actor:\n{other}", 3)
    (fixtures / "console" / "easyr1.log").write_text(text)


def write_rllm(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By rLLM's FileLogger."""
    folder = fixtures / "rllm" / "async"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["VERL_FILE_LOGGER_PATH"] = str(folder / "metrics.jsonl")
    module = load(sources / "rllm/utils/tracking.py", "rllm_tracking", stand_ins=("rllm.env",))
    logger = module.FileLogger("project", "experiment")
    for step, row in rllm_async(Dice(17), 60):
        logger.log(row, step)
    logger.finish()


def _write_rows(path: Path, rows: Iterable[tuple[int, Row]], clock: Clock) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for step, row in rows:
            rounded = {key: float(f"{value:.4g}") for key, value in row.items()}
            file.write(json.dumps({"step": step, **rounded}) + "\n")
            clock.now_s += 34.0


def write_prime_rl(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By prime-rl's FileMonitor."""
    names = ("prime_rl.configs.monitors", "prime_rl.monitors.base", "prime_rl.utils.utils")
    sys.modules.update({name: types.ModuleType(name) for name in names})
    sys.modules["prime_rl.configs.monitors"].FileMonitorConfig = object  # type: ignore[attr-defined]
    base = sys.modules["prime_rl.monitors.base"]
    base.Kind = base.Monitor = base.Subset = object  # type: ignore[attr-defined]
    sys.modules["prime_rl.utils.utils"].sanitize = lambda metrics: (metrics, [])  # type: ignore[attr-defined]
    module = load(sources / "prime_rl/monitors/file.py", "prime_rl.monitors.file")
    folder = fixtures / "prime_rl" / "async"
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    monitor = module.FileMonitor()
    monitor.config, monitor.logger = SimpleNamespace(path="metrics.jsonl"), MagicMock()

    async def write() -> None:
        await monitor.init(folder)
        for step, row in prime_rl_async(Dice(21), 24):
            await monitor.log_metrics({key: float(f"{value:.4g}") for key, value in row.items()}, step)
            clock.now_s += 17.0

    asyncio.run(write())
    monitor.file.close()


def write_verl_async(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By veRL's FileLogger."""
    folder = fixtures / "verl" / "fully_async"
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["VERL_FILE_LOGGER_PATH"] = str(folder / "metrics.jsonl")
    logger = load(sources / "verl/utils/tracking.py", "verl_tracking").FileLogger("project", "experiment")
    for step, row in verl_fully_async(Dice(22), 30):
        logger.log({key: float(f"{value:.4g}") for key, value in row.items()}, step)
    logger.finish()


def write_miles(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By miles' adapter for TensorBoard."""
    sys.modules["miles.utils.misc"] = types.ModuleType("miles.utils.misc")
    sys.modules["miles.utils.misc"].SingletonMeta = type  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TENSORBOARD_DIR"] = scratch
        path = sources / "miles/utils/tracking_utils/tensorboard_utils.py"
        adapter = load(path, "miles.utils.tracking_utils.tensorboard_utils")._TensorboardAdapter
        writer = adapter(SimpleNamespace(use_tensorboard=True, tb_project_name="p", tb_experiment_name="e"))
        for step, row in megatron_async("miles", Dice(23), 20):
            writer.log(row, step)
            clock.now_s += 34.0
        writer.finish()
        keep_events(Path(scratch), fixtures / "miles" / "async", 61)


def write_nemo(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By NeMo-RL's TensorboardLogger."""
    names = ("mlflow", "ray", "requests", "rich.box", "rich.console", "rich.logging", "rich.panel", "swanlab", "wandb")
    names += ("matplotlib", "nemo_rl.data.interfaces", "nemo_rl.distributed.batched_data_dict", "prometheus_client")
    names += ("prometheus_client.parser", "prometheus_client.samples", "hydra", "hydra.core", "pynvml")
    module = load(sources / "nemo_rl/utils/logger.py", "nemo_logger", stand_ins=names)
    with tempfile.TemporaryDirectory() as scratch:
        logger = module.TensorboardLogger({}, scratch)
        for step, parts in nemo_async(Dice(24), 20):
            for prefix, row in parts.items():
                logger.log_metrics(row, step, prefix=prefix)
            clock.now_s += 34.0
        logger.writer.close()
        keep_events(Path(scratch), fixtures / "nemo_rl" / "async", 62)


def _at(
    folder: Path,
    number: int,
    log: Callable[[Row, int], None],
    rows: Iterable[tuple[int, Row]],
    clock: Clock,
    scratch: Path,
    finish: Callable[[], object],
) -> None:
    """Pass rows to a logger of event files, and keep the file."""
    for step, row in rows:
        log({key: float(f"{value:.4g}") for key, value in row.items()}, step)
        clock.now_s += 34.0
    finish()
    keep_events(scratch, folder, number)


def write_slime(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By slime's adapter for TensorBoard."""
    with_tensorboard()
    sys.modules["slime.utils.misc"] = types.ModuleType("slime.utils.misc")
    sys.modules["slime.utils.misc"].SingletonMeta = type  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["TENSORBOARD_DIR"] = scratch
        adapter = load(sources / "slime/observability/tensorboard_utils.py", "slime_tensorboard")._TensorboardAdapter
        writer = adapter(SimpleNamespace(use_tensorboard=True, tb_project_name="p", tb_experiment_name="e"))
        rows = megatron_async("slime", Dice(25), 20)
        _at(fixtures / "slime" / "requests", 63, writer.log, rows, clock, Path(scratch), writer.finish)


def write_areal(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By AReaL's StatsLogger, which counts steps from 0."""
    names = ("swanlab", "torch.distributed", "trackio", "wandb", "areal.api.cli_args", "areal.utils.printing")
    module = load(sources / "areal/utils/stats_logger.py", "areal_stats", stand_ins=(*names, "areal.version"))
    module.dist.is_initialized = lambda: False
    module.StatsLoggerConfig = type("StatsLoggerConfig", (), {})
    module.asdict = lambda config: {}
    with tempfile.TemporaryDirectory() as scratch:
        off = {name: MagicMock(mode="disabled") for name in ("wandb", "swanlab", "trackio")}
        off["wandb"].wandb_base_url = off["wandb"].wandb_api_key = ""
        board = SimpleNamespace(path=f"{scratch}/tb")
        names_of = {"experiment_name": "e", "trial_name": "t", "fileroot": scratch}
        config = SimpleNamespace(stats_logger=SimpleNamespace(tensorboard=board, **names_of, **off))
        logger = module.StatsLogger(config, MagicMock())

        def log(row: Row, step: int) -> None:
            logger.commit(0, step - 1, step - 1, row)

        rows = _of_shape("AReaL", Dice(26), 20)
        _at(fixtures / "areal" / "async", 64, log, rows, clock, Path(scratch, "tb"), logger.close)


def write_roll(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By ROLL's TensorBoardTracker."""
    with_tensorboard()
    sys.modules["torch"].Tensor = float  # type: ignore[attr-defined]
    sys.modules["torch.utils"].tensorboard = sys.modules["torch.utils.tensorboard"]  # type: ignore[attr-defined]
    module = load(sources / "roll/utils/tracking.py", "roll_tracking", stand_ins=("roll.utils.logging",))
    with tempfile.TemporaryDirectory() as scratch:
        tracker = module.TensorBoardTracker({}, log_dir=scratch)
        rows = _of_shape("ROLL", Dice(27), 20)
        _at(fixtures / "roll" / "async", 65, tracker._write, rows, clock, Path(scratch), tracker.finish)


def write_skyrl(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By SkyRL's Tracking."""
    with_tensorboard()
    module = load(
        sources / "skyrl/train/utils/tracking.py", "skyrl_tracking", stand_ins=("loguru", "skyrl.train.config")
    )
    with tempfile.TemporaryDirectory() as scratch, contextlib.redirect_stdout(io.StringIO()):
        os.environ["TENSORBOARD_DIR"] = scratch
        tracking = module.Tracking("p", "e", backend="tensorboard")
        rows = _of_shape("SkyRL", Dice(28), 20)
        _at(fixtures / "skyrl" / "async", 66, tracking.log, rows, clock, Path(scratch), tracking.finish)


def write_tinker(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By the JsonLogger of tinker-cookbook."""
    package = types.ModuleType("tinker_cookbook")
    package.__path__ = [str(sources / "tinker_cookbook")]
    sys.modules["tinker_cookbook"] = package
    module = load(sources / "tinker_cookbook/utils/ml_log.py", "tinker_ml_log", stand_ins=("chz",))
    folder = fixtures / "tinker" / "async"
    (folder / "metrics.jsonl").unlink(missing_ok=True)
    logger = module.JsonLogger(folder)
    for step, row in _of_shape("tinker", Dice(29), 24):
        logger.log_metrics({key: float(f"{value:.4g}") for key, value in row.items()}, step - 1)


def write_trl_async(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By the queue, batcher, collator and reduction of TRL's AsyncGRPO trainer, over made samples."""
    import numpy as np
    from trl.experimental.async_grpo import async_grpo_trainer as trl
    from trl.experimental.async_grpo.async_rollout_worker import RolloutSample

    dice, draw, steps = Dice(20), random.Random(20), 30
    sink: dict[str, list[object]] = collections.defaultdict(list)
    waiting: queue.Queue[RolloutSample] = queue.Queue()
    version = [0]
    samples = trl.RolloutQueueDataset(waiting, lambda: version[0], lambda _: None, 60.0, sink, max_staleness=4)
    batches = iter(trl.TokenBudgetBatcher(samples, 2, 1024, sink))
    collator = trl.DataCollatorForRollout(pad_token_id=0, num_processes=2, metrics=sink, token_budget=1024)
    groups, rows = 0, []
    for step in range(1, steps + 1):
        reward, loss, norm = _learning(dice, step, steps)
        while waiting.qsize() < 160:
            groups += 1
            prompt = [draw.randrange(5, 99) for _ in range(30)]
            for _ in range(8):
                length = draw.randrange(40, 120)
                tokens = np.array(prompt + [draw.randrange(100, 999) for _ in range(length)])
                mask = np.array([0] * len(prompt) + [1] * length)
                was = {"reward": float(draw.random() < reward), "reward_std": 0.45}
                born = version[0] - min(version[0], draw.choice((0, 0, 0, 1)))
                waiting.put(RolloutSample([], [], tokens, mask, -0.3 * mask, 0.1, born, groups, was, time.time() - 2.0))
        for _ in range(3):
            collator([next(batches)])
        wait_s, forward_s, update_s = dice.noisy(2.0), dice.noisy(5.0), dice.noisy(16.0)
        sync = [dice.noisy(seconds) for seconds in (0.3, 0.1, 1.2)]
        step_s = wait_s + update_s + sum(sync) + 0.9
        parts = {"rollout_wait": wait_s, "fwd_bwd": update_s, "fwd": forward_s, "optimizer": 0.5, "step": step_s}
        parts |= {
            f"weight_sync_{name}": part for name, part in zip(("pause", "barrier", "transfer"), sync, strict=True)
        }
        row = {f"perf/{name}_s": value for name, value in parts.items()} | {"perf/weight_sync_s": sum(sync)}
        row |= pipeline("TRL", dice, step, ("sample/", "batch/", "perf/"))
        row |= {"perf/mfu_fwd_bwd": dice.noisy(0.4), "perf/mfu_wall_clock": dice.noisy(0.3), "kl": dice.noisy(8e-4)}
        row |= {"ratio": dice.around(1.0, 1e-4), "entropy": dice.noisy(0.4), "clip_ratio/region_mean": 0.003}
        row |= {"completions/mean_length": dice.noisy(80.0), "completions/clipped_ratio": dice.noisy(0.02)}
        for key, value in row.items():
            sink[key].append(value)
        logs: Row = {"loss": loss, "grad_norm": norm, "learning_rate": 1e-6, "epoch": step / steps}
        rows.append((step, logs | {key: trl._reduce_metric(key, values) for key, values in sink.items()}))
        sink.clear()
        version[0] += 1
    _write_rows(fixtures / "trl" / "async_grpo" / "metrics.jsonl", rows, clock)


def write_openrlhf(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By OpenRLHF's TensorboardLogger."""
    with_tensorboard()
    module = load(sources / "openrlhf/utils/logging_utils.py", "openrlhf_logging")
    with tempfile.TemporaryDirectory() as scratch:
        names = SimpleNamespace(tensorboard_dir=scratch, wandb=SimpleNamespace(run_name="ppo_run"))
        logger = module.TensorboardLogger(SimpleNamespace(logger=names))
        for step, row, told in openrlhf_ppo(Dice(12), 60):
            clock.now_s += row["timing/step_total"]
            logger.log_train(step, row)
            if told:
                logger.log_eval(step, told)
        logger.close()
        keep_events(Path(scratch, "ppo_run"), fixtures / "openrlhf" / "ppo", 21)


def write_rlinf(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By RLinf's MetricLogger, as its runner of embodied policies calls it."""
    from omegaconf import OmegaConf

    with_tensorboard()
    module = load(sources / "rlinf/utils/metric_logger.py", "rlinf_metric_logger")
    with tempfile.TemporaryDirectory() as scratch:
        logger = module.MetricLogger(OmegaConf.create({"runner": {"logger": {"log_path": scratch}}}))
        for step, parts in rlinf_embodied(Dice(13), 50):
            clock.now_s += parts[2]["time/step"]
            for part in parts:
                logger.log(part, step)
            if step % 10 == 0:
                score = parts[0]["env/success_once"] + 0.01
                logger.log({"eval/success_once": score, "eval/episode_len": 47.0, "eval/return": score * 4.6}, step)
        logger.finish()
        keep_events(Path(scratch, "tensorboard"), fixtures / "rlinf" / "embodied", 31)


def write_trinity(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By Trinity-RFT's TensorboardMonitor, one per role."""
    with_tensorboard()
    own = ("mlflow", "swanlab", "trinity.common.config", "trinity.utils.log", "trinity.utils.registry")
    module = load(sources / "trinity/utils/monitor.py", "trinity_monitor", stand_ins=own)
    courses: dict[str, Callable[[Dice, int], Iterator[tuple[int, Row]]]]
    courses = {"trainer": trinity_trainer, "explorer": trinity_explorer}
    for number, (role, course) in enumerate(courses.items(), 41):
        clock.now_s = START_S
        with tempfile.TemporaryDirectory() as scratch:
            config = SimpleNamespace(monitor=SimpleNamespace(cache_dir=scratch))
            monitor = module.TensorboardMonitor("project", "group", "name", role, config)
            for step, row in course(Dice(number), 60):
                clock.now_s += 48
                monitor.log(row, step)
            monitor.close()
            found = Path(scratch, "tensorboard", role)
            keep_events(found, fixtures / "trinity" / role, number)


def write_telescope(sources: Path, fixtures: Path, clock: Clock) -> None:
    """By Telescope's WandbLogger and an offline W&B run."""
    stand_ins = (
        "telescope.utils.config", "telescope.utils.tlog", "telescope.orchestrator.loggers.event_logger",
        "telescope.orchestrator.loggers.system_metrics_logger", "telescope.orchestrator.loggers.vllm_metrics_logger",
        "telescope.orchestrator.loggers.thread_pool_metrics_logger",
    )  # fmt: skip
    module = load(sources / "telescope/orchestrator/loggers/wandb_logger.py", "telescope_wandb", stand_ins=stand_ins)
    import wandb

    folder = fixtures / "telescope" / "scalars"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        settings = wandb.Settings(x_disable_stats=True, x_disable_meta=True, disable_git=True, console="off")
        run = wandb.init(mode="offline", dir=scratch, project="rl", id="a1b2c3d4", name="countdown", settings=settings)
        logger = module.WandbLogger.__new__(module.WandbLogger)
        logger.run, logger.event_logger, logger.last_logged_step = run, MagicMock(), 0
        logger._coerce_torch_memory_samples = lambda samples: []
        module.config.cfg.track_gpu_events = False
        for step, row, reward in telescope_scalars(Dice(15), 60):
            metrics = [{"step": step, "metric": key, "value": value} for key, value in row.items()]
            logger.log_rollout_reward_metrics(step, [{"rewards": [reward - 0.1, reward + 0.1]}])
            logger.log_trainer_metrics_payload(step, {"step_metrics": metrics})
        run.finish()
        (found,) = Path(scratch).glob("wandb/offline-run-*/run-a1b2c3d4.wandb")
        shutil.copyfile(found, folder / "run-a1b2c3d4.wandb")


WRITERS = {
    "verl": write_verl,
    "easyr1": write_easyr1,
    "rllm": write_rllm,
    "openrlhf": write_openrlhf,
    "rlinf": write_rlinf,
    "trinity": write_trinity,
    "telescope": write_telescope,
    "prime-rl": write_prime_rl,
    "verl-async": write_verl_async,
    "miles": write_miles,
    "nemo-rl": write_nemo,
    "slime": write_slime,
    "areal": write_areal,
    "roll": write_roll,
    "skyrl": write_skyrl,
    "tinker": write_tinker,
    "trl-async": write_trl_async,
}


def main() -> None:
    """Write the fixtures of the trainers named, or of all."""
    sources, fixtures = Path(sys.argv[1]), Path(sys.argv[2])
    for name in sys.argv[3:] or WRITERS:
        clock, real = Clock(), time.time
        if name != "telescope":
            time.time = clock.time
        try:
            WRITERS[name](sources, fixtures, clock)
        finally:
            time.time = real


if __name__ == "__main__":
    main()
