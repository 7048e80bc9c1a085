"""Writes the console logs under fixtures/console.

    python bench/make_fixtures/console.py fixtures/console [--without-transformers]

`trl_flushed.log` and `trl_blocks.log` are printed by the ProgressCallback of an
installed transformers (`pip install transformers`; no torch is needed); the others
are lines of the shapes that their trainers' loggers format.
"""

from __future__ import annotations

import io
import math
import random
import sys
from pathlib import Path
from types import SimpleNamespace

TOTAL, EVERY, EVALUATE = 40, 5, 20


def verl(rng: random.Random) -> str:
    """The SLURM output of a Ray job: launcher and actor prefixes, colours, bars, glued text, one truncated line."""
    actor = "\x1b[36m(TaskRunner pid=4242)\x1b[0m "
    out = ["0: + python3 -m verl.trainer.main_ppo trainer.logger=console\n"]
    out.append("0: " + actor + "{'actor_rollout_ref': {'actor': {'optim': {'lr': 1e-06}}},\n")
    for step in range(13):
        pairs: list[tuple[str, str]] = []
        if step % 6 == 0:
            sets = [f"val-aux/set_{i:02}/reward/best@{2**k}/mean" for i in range(12) for k in range(1, 6)]
            pairs += [(name, f"np.float64({rng.random()!r})") for name in sets]
        if step:
            pairs += [
                ("training/global_step", str(step)),
                ("actor/pg_loss", repr(rng.gauss(0, 0.02))),
                ("actor/entropy", f"{0.4 - 0.01 * step:.3f}"),
                ("actor/grad_norm", "nan" if step == 9 else f"np.float32({rng.uniform(0.1, 0.3):.6f})"),
                ("critic/score/mean", repr(0.3 + 0.02 * step)),
                ("timing_s/step", repr(rng.uniform(80, 90))),
            ]
        line = f"step:{step} - " + " - ".join(f"{key}:{value}" for key, value in pairs)
        tail = {4: "\x1b[32m [repeated 5x across cluster]\x1b[0m", 7: "(WorkerDict pid=77) INFO: weights loaded: 3"}
        if step == 12:
            out.append(line[:4096] + "\n")
            continue
        done = f"\rTraining Progress:  {8 * step:3}%|▏         | {step}/400 [{step:02}:00<9:00:00, 85.20s/it]"
        out.append(f"0: {actor}{line}{tail.get(step, '')}\n{done}{chr(10) if step % 3 else ''}")
    return "".join(out)


def crashed() -> str:
    """A run that crashed before its first step."""
    return "".join(
        [
            "(TaskRunner pid=9) {'trainer': {'total_epochs': 15}}\n",
            "Loading weights:  25%|██▌       | 1/4 [00:02<00:06,  2.1s/it]\r",
            "Loading weights: 100%|██████████| 4/4 [00:08<00:00,  2.0s/it]\n",
            "(TaskRunner pid=9) Traceback (most recent call last):\n",
            '(TaskRunner pid=9)   File "/srv/trainer/main.py", line 31, in run\n',
            "(TaskRunner pid=9) torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.10 GiB.\n",
            "srun: error: node7: task 0: Exited with exit code 1\n",
        ]
    )


def dictionaries(rng: random.Random) -> dict[str, str]:
    """Logs of trainers that print a step and a dictionary, a JSON object or pairs."""
    openrlhf, trinity, roll, tune = "", "", "", ""
    for step in range(1, 7):
        loss, reward = rng.gauss(0, 0.1), 0.2 + 0.05 * step
        kl = "nan" if step == 5 else repr(0.01 * step)
        stamp = f"11-20 12:{step:02}:00"
        openrlhf += (
            f"\x1b[36m(PPOTrainer pid=31)\x1b[0m INFO {stamp} ppo_trainer.py:190] ✨ Global step {step}: "
            f"{{'policy_loss': {loss!r}, 'ppo_kl': {kl}, 'reward': {reward!r}, 'timing/step_total': {60.5 + step}}}\n"
        )
        trinity += (
            f"INFO {stamp} [monitor.py:152] Step {step}: {{'actor/pg_loss': {loss:.6g}, 'actor/ppo_kl': {kl}, "
            f"'critic/rewards/mean': {reward:.6g}, 'time/train_step': {60.5 + step}}}\n"
            f"INFO {stamp} [trainer.py:88] Sync weights for step {step} succeeded.\n"
        )
        roll += (
            f"[2026-11-20 12:{step:02}:00] [tracking.py (40)] [INFO] [PIPELINE rank 0] metrics_tag: "
            f'{{"step": {step}, "metrics": {{"actor/pg_loss": {loss!r}, "actor/ppo_kl": {kl.replace("nan", "NaN")}, '
            f'"critic/rewards/mean": {reward!r}, "time/step_train": {60.5 + step}}}}}\n'
        )
        tune += f"Step {step} | loss:{1.5 - 0.1 * step} lr:{1e-5 * step} tokens_per_second_per_gpu:{812.5 + step} \n"
    return {"openrlhf.log": openrlhf, "trinity.log": trinity, "roll.log": roll, "torchtune.log": tune}


def trl(*, is_flushed: bool) -> str:
    """Output of ProgressCallback for 40 steps in 2 epochs, logged every 5, evaluated every 20.

    If flushed, rows and bars interleave as on a terminal; otherwise rows come in blocks,
    as in the output file of a job.
    """
    import transformers.trainer_callback as callbacks  # the other fixtures do without

    both, rows = io.StringIO(), io.StringIO()
    sys.stderr, kept_err = both, sys.stderr
    sys.stdout, kept_out = (both if is_flushed else rows), sys.stdout
    try:
        callback = callbacks.ProgressCallback()
        state = SimpleNamespace(is_world_process_zero=True, max_steps=TOTAL, global_step=0)
        callback.on_train_begin(None, state, None)
        callback.training_bar.mininterval = 0.0
        for step in range(1, TOTAL + 1):
            state.global_step = step
            callback.on_step_end(None, state, None)
            epoch = 2 * step / TOTAL
            if step % EVERY == 0:
                row = {"loss": 0.7 * math.exp(-step / 60), "grad_norm": 1.0 + step / 10, "learning_rate": 1e-5}
                callback.on_log(None, state, None, {**row, "rewards/margins": step / 100, "epoch": epoch})
            if step % EVALUATE == 0:
                for _ in range(4):
                    callback.on_prediction_step(None, state, None, eval_dataloader=[0] * 4)
                callback.on_log(None, state, None, {"eval_loss": 0.6, "eval_runtime": 2.5, "epoch": epoch})
                callback.on_evaluate(None, state, None)
                if not is_flushed:
                    both.write(rows.getvalue())
                    rows.seek(0)
                    rows.truncate()
        callback.on_log(None, state, None, {"train_runtime": 99.5, "train_loss": 0.55, "epoch": 2.0})
        callback.on_train_end(None, state, None)
    finally:
        sys.stderr, sys.stdout = kept_err, kept_out
    return both.getvalue() + ("" if is_flushed else rows.getvalue())


def main(folder: Path, *, has_transformers: bool) -> None:
    rng = random.Random(20261121)
    logs = {"verl_slurm.log": verl(rng), "crashed.log": crashed(), **dictionaries(rng)}
    if has_transformers:
        logs |= {"trl_flushed.log": trl(is_flushed=True), "trl_blocks.log": trl(is_flushed=False)}
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in logs.items():
        (folder / name).write_bytes(text.encode())


if __name__ == "__main__":
    main(Path(sys.argv[1]), has_transformers="--without-transformers" not in sys.argv)
