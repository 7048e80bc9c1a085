"""One run as the writers of wandb and TensorBoard write it, from rows on standard input.

    PYTHON-WITH-BOTH bench/write_viewer_runs.py FOLDER < metrics.jsonl

Leaves `FOLDER/events/…tfevents…` and `FOLDER/wandb/offline-run-…/….wandb`. Runs in an
environment of its own and through the packages' public calls alone.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> int:
    folder = Path(sys.argv[1])
    os.environ |= {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "WANDB_DIR": str(folder),
        "WANDB_DISABLE_GIT": "true",
    }
    import wandb
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    events = EventFileWriter(str(folder / "events"))
    settings = wandb.Settings(x_disable_stats=True, console="off")
    run = wandb.init(project="viewers", dir=str(folder), mode="offline", settings=settings)
    for line in sys.stdin:
        row = json.loads(line)
        step, data = row["step"], row["data"]
        run.log(data, step=step)
        values = [Summary.Value(tag=key, simple_value=value) for key, value in data.items()]
        events.add_event(Event(step=step, wall_time=1.7e9 + step, summary=Summary(value=values)))
    events.close()
    run.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
