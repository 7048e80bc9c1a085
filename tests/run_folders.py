"""Run directories of multi-process trainers, written with the bytes of a real event writer."""

from __future__ import annotations

import math
import random
from pathlib import Path

from tests.binary_files import event, frame, value, version_event


def write_events(folder: Path, rows: list[tuple[int, float, dict[str, float]]], begun_s: int = 1_763_000_000) -> Path:
    """Write an event file from rows of (step, seconds since the epoch, tag → value)."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"events.out.tfevents.{begun_s}.host.1.0"
    data = frame(version_event())
    for step, wall, row in rows:
        data += b"".join(frame(event(step, value(tag, number), wall=wall)) for tag, number in row.items())
    path.write_bytes(data)
    return path


def trinity(home: Path, steps: int = 60) -> Path:
    """`<job>/monitor/tensorboard/{explorer,trainer}`: two step axes, with the explorer's ahead."""
    dice = random.Random(1)
    at = 1_763_000_000.0
    train = [
        (step, at + 30 * step, {
            "actor/pg_loss": dice.gauss(0, 0.01), "actor/ppo_kl": 1e-4, "actor/grad_norm": 0.4 + dice.gauss(0, 0.02),
            "actor/lr": 1e-6, "actor/entropy": 0.3, "critic/score/mean": 0.2 + 0.5 * step / steps,
            "critic/rewards/mean": 0.2 + 0.5 * step / steps, "critic/advantages/mean": dice.gauss(0, 0.01),
            "response_length/mean": 700.0 + dice.gauss(0, 20), "time/step": 28.0, "time/train_step": 25.0,
            "time/update_actor": 12.0, "time/old_log_prob": 4.0, "time/read_experience": 2.0,
            "sample/task_count": 16.0,
        })
        for step in range(1, steps + 1)
    ]  # fmt: skip
    explore = [
        (step, at + 20 * step, {
            "rollout/accuracy/mean": 0.2 + 0.5 * step / (1.5 * steps), "rollout/model_version": step // 2,
            "rollout/time/run_execution/mean": 9 + dice.gauss(0, 0.2), "rollout/finished_task_count": 16.0,
            "explorer/time/wait_explore_step": 3.0, "experience_pipeline/experience_count": 128.0,
        })
        for step in range(1, steps * 3 // 2 + 1)
    ]  # fmt: skip
    write_events(home / "monitor/tensorboard/trainer", train)
    write_events(home / "monitor/tensorboard/explorer", explore)
    return home


def rlinf(home: Path, steps: int = 40, ranks: int = 8, slow: int | None = 3) -> Path:
    """`<log>/tensorboard/all`, `<log>/worker_logs/<group>/rank_<i>/tensorboard`; `slow`: a rank slow from half on."""
    dice = random.Random(2)
    at = 1_763_000_000.0
    whole = [
        (step, at + 60 * step, {
            "env/success_once": 0.1 + 0.6 * (1 - math.exp(-step / 20)), "rollout/rewards": 0.3,
            "train/actor/policy_loss": dice.gauss(0, 0.01), "train/actor/grad_norm": 0.5, "train/actor/approx_kl": 0.01,
            "time/step": 60.0, "time/generate_rollouts": 40.0, "time/actor_training": 15.0, "time/sync_weights": 1.0,
        })
        for step in range(steps)
    ]  # fmt: skip
    write_events(home / "tensorboard/all", whole)
    for group, stage, usual in (
        ("EnvGroup", "time/env/interact", 30.0),
        ("ActorGroup", "time/actor/run_training", 14.0),
    ):
        for rank in range(ranks):
            rows = []
            for step in range(steps):
                seconds = usual * (1 + dice.gauss(0, 0.01))
                if rank == slow and group == "EnvGroup" and step >= steps // 2:
                    seconds *= 1.5
                rows.append((step, at + 60 * step, {stage: seconds, "env/reward": 0.3}))
            write_events(home / f"worker_logs/{group}/rank_{rank}/tensorboard", rows)
    return home
