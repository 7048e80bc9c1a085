"""A trainer of which only the logger is left.

    python writers.py KIND FILE

For every line N on standard input it logs step N as a writer of its kind does, and says so on
standard error once the bytes are with the system. `tensorboardX`, `wandb offline`, `trackio` and `mlflow` are those
packages and need them; the other kinds need this repository alone.
"""

from __future__ import annotations

import csv
import gzip
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
START_S = 1_790_000_000.0

Log = Callable[[int], object]


def row(step: int) -> dict[str, float]:
    return {"loss": 1 / step, "reward": float(step), "grad_norm": 0.5, "epoch": step / 100}


def jsonl(path: Path) -> Iterator[Log]:
    from rltop.integrations import JsonlWriter

    with JsonlWriter(str(path)) as writer:
        yield lambda step: writer.log(step, row(step))


def console(path: Path) -> Iterator[Log]:
    """A log as a shell writes it for `python train.py > FILE`, every line with its own time."""
    with path.open("a") as log:
        print("Loading checkpoint shards: done\nSome warning that is no row", file=log, flush=True)
        yield lambda step: print(
            f"step:{step} - " + " - ".join(f"{k}:{v}" for k, v in row(step).items()), file=log, flush=True
        )


def printed(path: Path) -> Iterator[Log]:
    """What transformers prints: no step, a progress bar in front of the next row."""
    with path.open("a") as log:

        def write(step: int) -> None:
            print(f"\r {step:3d}%|#  | {step}/100 [00:01<00:09]", end="", file=log)
            print(row(step), file=log)
            print(f"\r {step:3d}%|#  | {step}/100 [00:01<00:09]", end="", file=log, flush=True)

        yield write


def pipe(path: Path) -> Iterator[Log]:
    """Rows on standard output."""
    del path
    yield lambda step: print(json.dumps({"step": step, **row(step)}), flush=True)


def table(path: Path) -> Iterator[Log]:
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, ["step", *row(1)])
        writer.writeheader()

        def write(step: int) -> None:
            writer.writerow({"step": step, **row(step)})
            file.flush()

        yield write


def document(path: Path) -> Iterator[Log]:
    """`trainer_state.json`: written anew each time, and in place."""
    history: list[dict[str, float]] = []

    def write(step: int) -> None:
        history.append({**row(step), "step": step})
        with path.open("w") as file:
            json.dump({"global_step": step, "max_steps": 100, "log_history": history}, file, indent=2)

    yield write


def trace(path: Path) -> Iterator[Log]:
    with path.open("a") as file:

        def write(step: int) -> None:
            events = (("B", "step", 0), ("B", "train", 1), ("E", "train", 8), ("E", "step", 9))
            for phase, name, at in events:
                told = {"args": {"step": step}} if name == "step" else {}
                stamp = int((START_S + 10 * step + at) * 1e6)
                print(
                    json.dumps({"ph": phase, "name": name, "pid": "driver", "tid": 0, "ts": stamp, **told}), file=file
                )
            file.flush()

        yield write


def zipped(path: Path) -> Iterator[Log]:
    with gzip.open(path, "ab") as file:

        def write(step: int) -> None:
            file.write(json.dumps({"step": step, **row(step)}).encode() + b"\n")
            file.flush()

        yield write


def tensorboard(path: Path) -> Iterator[Log]:
    """Event by event, byte for byte as the format says."""
    sys.path.insert(0, str(TESTS))
    from binary_files import event, frame, value, version_event

    with path.open("ab", buffering=0) as file:
        file.write(frame(version_event()))

        def write(step: int) -> None:
            for key, number in row(step).items():
                file.write(frame(event(step, value(f"train/{key}", number), wall=START_S + step)))

        yield write


def wandb(path: Path) -> Iterator[Log]:
    """Record by record, byte for byte as the format says."""
    sys.path.insert(0, str(TESTS))
    from binary_files import block_log, history, run_record

    records = [run_record({})]
    with path.open("ab", buffering=0) as file:

        def write(step: int) -> None:
            records.append(history({**row(step), "train/global_step": step}, num=step))
            file.write(block_log(*records)[file.tell() :])

        yield write


def tensorboardx(path: Path) -> Iterator[Log]:
    from tensorboardX import SummaryWriter

    with SummaryWriter(str(path.parent), flush_secs=1) as writer:

        def write(step: int) -> None:
            for key, number in row(step).items():
                writer.add_scalar(f"train/{key}", number, step)
            writer.flush()

        yield write


def wandb_offline(path: Path) -> Iterator[Log]:
    """W&B writes 32 KiB at a time: a row of that size carries the ones before it to the disk."""
    import wandb

    run = wandb.init(project="live", dir=str(path.parent), mode="offline", settings=wandb.Settings(console="off"))
    filling = {f"filling/{i}": i / 7 for i in range(1200)}

    def write(step: int) -> None:
        run.log({**row(step), "train/global_step": step})
        run.log({**filling, "train/global_step": step})

    yield write
    run.finish()


def trackio(path: Path) -> Iterator[Log]:
    """Trackio's sender commits now and then: a step is with the system when its row is in the database."""
    import os
    import sqlite3
    import time

    os.environ["TRACKIO_DIR"] = str(path.parent)
    import trackio

    trackio.init(project=path.stem, name="live", embed=False)

    def write(step: int) -> None:
        trackio.log(row(step), step=step)
        while True:
            try:
                with sqlite3.connect(path) as reader:
                    if reader.execute("SELECT max(step) FROM metrics").fetchone()[0] == step:
                        return
            except sqlite3.OperationalError:
                pass
            time.sleep(0.02)

    yield write
    trackio.finish()


def mlflow(path: Path) -> Iterator[Log]:
    """Into a database, or into the folder of a file store."""
    import os

    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    os.chdir(path.parent)
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{path}" if path.suffix else path.as_uri())
    with mlflow.start_run(log_system_metrics=False):
        yield lambda step: mlflow.log_metrics(row(step), step=step)


WRITERS: dict[str, Callable[[Path], Iterator[Log]]] = {
    "jsonl": jsonl,
    "console": console,
    "printed": printed,
    "pipe": pipe,
    "table": table,
    "document": document,
    "trace": trace,
    "zipped": zipped,
    "tensorboard": tensorboard,
    "wandb": wandb,
    "tensorboardX": tensorboardx,
    "wandb offline": wandb_offline,
    "trackio": trackio,
    "mlflow": mlflow,
    "mlflow files": mlflow,
}


def main() -> None:
    kind, path = sys.argv[1], Path(sys.argv[2])
    for log in WRITERS[kind](path):
        for line in sys.stdin:
            log(int(line))
            print(int(line), file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
