"""Has Trackio, MLflow, SwanLab and pandas write `fixtures/trackers`, with what was handed to them beside it.

    bench/.venv-writers/bin/python bench/make_fixtures/trackers.py fixtures/trackers

Needs the packages of `tests/e2e/writers-requirements.txt`, and none of rltop.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

STEPS = 12
Row = dict[str, float]


def rows(seed: int) -> list[Row]:
    """Seeded rows as TRL logs them; the loss is NaN in the fourth, the KL infinite in the fifth."""
    dice = random.Random(seed)
    made = []
    for i in range(1, STEPS + 1):
        row = {
            "train/loss": 0.1 * dice.random() / i,
            "train/reward": 0.2 + 0.03 * i + 0.01 * dice.random(),
            "train/reward_std": 0.3 + 0.01 * dice.random(),
            "train/grad_norm": 0.5 + 0.1 * dice.random(),
            "train/kl": 0.001 * i,
            "train/entropy": 0.9 - 0.01 * i,
            "train/completions/mean_length": 200.0 + i,
            "train/completions/clipped_ratio": 0.05,
            "train/frac_reward_zero_std": 0.1,
            "train/learning_rate": 1e-6,
        }
        row |= {"train/loss": math.nan} if i == 4 else {"train/kl": math.inf} if i == 5 else {}
        made.append(row)
    return made


def write_trackio(folder: Path) -> dict[str, Any]:
    """Two runs: with the trainer's own step, as transformers' callback logs it, and without."""
    os.environ["TRACKIO_DIR"] = str(folder)
    import trackio

    told: dict[str, Any] = {}
    for name, has_own in (("own-step", True), ("no/own step", False)):
        trackio.init(project="trackio", name=name, config={"num_generations": 8, "max_steps": 120}, embed=False)
        told[name] = []
        for i, row in enumerate(rows(len(name)), 1):
            own = {"train/global_step": 10 * i} if has_own else {}
            trackio.log({**row, **own})
            told[name].append([10 * i if has_own else i - 1, row])
            if i % 4 == 0:
                trackio.log_system({"gpu/0/utilization": 80.0 + i, "gpu/0/allocated_memory": 20.5})
        trackio.alert("Reward is flat", text="0.2 for 10 steps", level=trackio.AlertLevel.WARN)
        trackio.finish()
    return told


def write_mlflow(uri: str) -> dict[str, Any]:
    """Two runs, one of them failed; system samples have their own steps."""
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    import mlflow

    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("grpo")
    told: dict[str, Any] = {}
    for name, status in (("finished", "FINISHED"), ("failed", "FAILED")):
        mlflow.start_run(run_name=name, log_system_metrics=False)
        mlflow.log_params({"num_generations": 8, "max_steps": 120, "lr": 1e-6})
        told[name] = []
        for i, row in enumerate(rows(len(name)), 1):
            mlflow.log_metrics(row, step=10 * i)
            told[name].append([10 * i, row])
            if i % 4 == 0:
                mlflow.log_metric("eval/reward", 0.3, step=10 * i)
                told[name][-1][1]["eval/reward"] = 0.3
                mlflow.log_metric("system/gpu_0_utilization_percentage", 80.0 + i, step=i // 4 - 1)
        mlflow.end_run(status)
    return told


def write_swanlab(folder: Path) -> dict[str, Any]:
    """Two runs in separate files, one of them crashed."""
    import swanlab

    told: dict[str, Any] = {}
    for name, state in (("finished", "success"), ("crashed", "crashed")):
        swanlab.init(project="grpo", experiment_name=name, mode="offline", logdir=str(folder / name))
        told[name] = []
        for i, row in enumerate(rows(len(name)), 1):
            swanlab.log(row, step=10 * i)
            told[name].append([10 * i, row])
        swanlab.finish(state, "Traceback\nRuntimeError: out of memory" if state == "crashed" else None)
    return told


def write_tables(folder: Path) -> dict[str, Any]:
    """One history in each table format of pandas; missing values are NaN there, and null in JSON."""
    import pandas

    logged = [
        {**{key: v for key, v in row.items() if math.isfinite(v)}, "step": 10 * i} for i, row in enumerate(rows(1), 1)
    ]
    table = pandas.DataFrame(logged)
    for orient in ("columns", "split", "index", "records", "table"):
        table.to_json(folder / f"{orient}.json", orient=orient)
    table.set_index("step").to_json(folder / "indexed.json", indent=1)
    table.to_csv(folder / "numbered.csv")
    return {"tables": [[row.pop("step"), row] for row in logged]}


def plain(told: dict[str, Any]) -> dict[str, Any]:
    """Replace non-finite values by text."""
    return {
        name: [[step, {key: v if math.isfinite(v) else str(v) for key, v in row.items()}] for step, row in found]
        for name, found in told.items()
    }


def main() -> None:
    folder = Path(sys.argv[1]).absolute()
    shutil.rmtree(folder / "mlruns", ignore_errors=True)
    with tempfile.TemporaryDirectory() as made:
        os.chdir(made)
        sys.argv[0] = "train.py"  # what MLflow notes as the source of a run
        told = {"trackio.db": write_trackio(Path(made))}
        shutil.copy(Path(made, "trackio.db"), folder)
        told["mlflow.db"] = write_mlflow(f"sqlite:///{made}/mlflow.db")
        (folder / "mlflow.db.gz").write_bytes(gzip.compress(Path(made, "mlflow.db").read_bytes(), mtime=0))
        told["mlruns"] = write_mlflow(f"file://{made}/mlruns")
        shutil.copytree(
            Path(made, "mlruns"), folder / "mlruns", ignore=shutil.ignore_patterns("artifacts", ".trash", "tags")
        )
        (folder / "tables").mkdir(exist_ok=True)
        told["tables"] = write_tables(folder / "tables")
        told["swanlab"] = write_swanlab(Path(made))
        for file in Path(made).glob("*/run-*/*.swanlab"):
            shutil.copy(file, folder / f"{file.parents[1].name}.swanlab")
    for text in folder.glob("mlruns/**/meta.yaml"):
        text.write_text(text.read_text().replace(made, "/tmp/made"))
    (folder / "expected.json").write_text(json.dumps({name: plain(runs) for name, runs in told.items()}) + "\n")


if __name__ == "__main__":
    main()
