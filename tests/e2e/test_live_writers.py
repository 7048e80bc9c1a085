"""Every reader follows a file that a writer is writing: each row is there when its bytes are."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ptys import Terminal

from rltop.cli.open_session import threaded
from rltop.cli.resolve_paths import look
from rltop.clock import Clock
from rltop.config import Config
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.sources.events import ReaderOptions
from rltop.sources.reader import Reader

HERE = Path(__file__).parent
FILES = {
    "jsonl": "metrics.jsonl",
    "console": "slurm-17.out",
    "printed": "train.log",
    "table": "progress.csv",
    "document": "trainer_state.json",
    "trace": "trace_events.jsonl",
    "zipped": "metrics.jsonl.gz",
    "tensorboard": "events.out.tfevents.1790000000.node.7.0",
    "wandb": "run-abc.wandb",
}
FOREIGN = {
    "tensorboardX": ("events.out.tfevents.*", 0),
    "wandb offline": ("run-*.wandb", 0),
    "trackio": ("project.db", 0),
    "mlflow": ("mlflow.db", 0),
    "mlflow files": ("mlruns", 0),
}
"""Packages that are written by others: what their files are called, and by how many rows these lag."""
WRITERS_PYTHON = "RLTOP_WRITERS"
SOON_S = 15.0
"""So long a busy machine may take. What it takes otherwise is printed: see `record_property`."""
STEPS = range(1, 6)


class Writer:
    """A process that logs a step when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def log(self, step: int) -> None:
        """Returns when the bytes of the step are with the system."""
        assert self.process.stdin is not None and self.process.stderr is not None
        print(step, file=self.process.stdin, flush=True)
        for said in self.process.stderr:
            if said == f"{step}\n":
                return
        pytest.fail(f"the writer has ended: {self.process.wait()}")


@contextmanager
def writing(kind: str, path: Path, python: str = sys.executable) -> Iterator[Writer]:
    command = [python, str(HERE / "writers.py"), kind, str(path)]
    environment = os.environ | {"PYTHONPATH": str(HERE.parents[1])}
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            yield Writer(process)
            process.stdin.close()
            process.stderr.read()
            assert process.wait(30) == 0
        finally:
            process.kill()


class Follower:
    """What the screen is drawn from, without the screen."""

    def __init__(self, path: Path) -> None:
        self.bell = threading.Event()
        self.reader = Reader(ReaderOptions(watch_delay_s=0.0), on_data=self.bell.set)
        self.session = Session(look([str(path)]).found, threaded(self.reader), Clock(), Config().ingest)

    @property
    def run(self) -> Run:
        return self.session.runs[0]

    def seconds_until(self, condition: Callable[[Run], bool], what: str) -> float:
        started = time.monotonic()
        while time.monotonic() - started < SOON_S:
            self.bell.clear()
            while self.session.step(20.0):
                pass
            if condition(self.run):
                return time.monotonic() - started
            self.bell.wait(0.02)
        pytest.fail(
            f"{what} did not come: {self.run.main.stream.last_step}, {self.run.state}, {self.run.main.state_note}"
        )

    def close(self) -> None:
        self.session.close()
        self.reader.close()


def has_row(step: int) -> Callable[[Run], bool]:
    """Is the step there, with what is logged in it?"""

    def is_there(run: Run) -> bool:
        stream = run.main.stream
        key = next((key for key in ("reward", "train/reward", "time/train") if stream.has(key)), None)
        return stream.last_step == step and key is not None and stream.value(key, step) in (step, 7.0)

    return is_there


def follow_writer(kind: str, path: Path, writer: Writer, lag: int = 0) -> list[float]:
    """Log step by step; how long each took to be there."""
    waits = []
    writer.log(1)
    follower = Follower(path if path.exists() else next(path.parent.rglob(path.name)))
    try:
        for step in STEPS:
            if step > 1:
                writer.log(step)
            if step > lag:
                waits.append(follower.seconds_until(has_row(step - lag), f"step {step - lag} of {kind}"))
        assert follower.run.counts.bad_lines == 0
        assert list(follower.run.main.stream.steps()) == list(STEPS[: len(STEPS) - lag])
    finally:
        follower.close()
    return waits


@pytest.mark.parametrize("kind", FILES)
def test_a_row_is_there_when_its_bytes_are(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    with writing(kind, tmp_path / FILES[kind]) as writer:
        record_property("seconds_until_seen", follow_writer(kind, tmp_path / FILES[kind], writer))


@pytest.mark.parametrize("kind", FOREIGN)
def test_files_of_other_packages_are_followed_while_these_write_them(
    kind: str, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    python = os.environ.get(WRITERS_PYTHON)
    if not python:
        pytest.skip(f"{WRITERS_PYTHON} is not set: `make live` has the packages and sets it")
    pattern, lag = FOREIGN[kind]
    with writing(kind, tmp_path / pattern, python) as writer:
        record_property("seconds_until_seen", follow_writer(kind, tmp_path / pattern, writer, lag))


def test_rows_that_come_through_a_pipe_are_on_the_screen_as_they_come(tmp_path: Path) -> None:
    """`python train.py | tee log | rltop -`, in a terminal."""
    orders = tmp_path / "orders"
    os.mkfifo(orders)
    writer = shlex.join([sys.executable, str(HERE / "writers.py"), "pipe", "-"])
    program = shlex.join([sys.executable, str(HERE / "program.py"), "plain", "-"])
    command = f"{writer} < {shlex.quote(str(orders))} 2>/dev/null | cat | {program}"
    terminal = Terminal(["sh", "-c", command], 120, 40, XDG_CONFIG_HOME=str(tmp_path), PYTHONPATH=str(HERE.parents[1]))
    try:
        with orders.open("w") as order:
            for step in STEPS:
                print(step, file=order, flush=True)
                terminal.until_text(f"step {step}", SOON_S)
    finally:
        terminal.close()
