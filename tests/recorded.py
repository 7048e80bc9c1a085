"""Recorded runs for tests, in the folder named by RLTOP_RUNS.

If it is unset, tests of recorded runs are skipped with the reason; if it is set, a missing run is a failure.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from examples import EXPLORES
from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Algorithm
from rltop.run.run import Run

VARIABLE = "RLTOP_RUNS"
REASON = f"{VARIABLE} is not set: point it at a folder of labelled runs (see CONTRIBUTING.md)"


TRAINERS = {
    "GRPOTrainer": Algorithm.GRPO,
    "RLOOTrainer": Algorithm.RLOO,
    "PPOTrainer": Algorithm.PPO,
    "DPOTrainer": Algorithm.DPO,
    "KTOTrainer": Algorithm.KTO,
    "RewardTrainer": Algorithm.REWARD,
    "SFTTrainer": Algorithm.SFT,
}
"""Algorithm of each trainer named in labels."""


@dataclass(frozen=True)
class RecordedRun:
    """A labelled run: folder, metric file and label."""

    name: str
    folder: Path
    metrics: Path
    label: dict[str, Any]


def runs_root() -> Path | None:
    """The folder of labelled runs, or None if RLTOP_RUNS is unset."""
    value = os.environ.get(VARIABLE)
    return Path(value) if value else None


def jsonl_runs() -> list[RecordedRun]:
    """Every labelled run that is a JSONL file; empty if RLTOP_RUNS is unset.

    Raises:
        FileNotFoundError: the folder has none, which must not pass for nothing to test.
    """
    root = runs_root()
    if root is None:
        return []
    found = []
    for label in sorted(root.rglob("label.json")):
        files = sorted(p for p in label.parent.glob("*.jsonl") if p.name != "rollouts.jsonl")
        if files:
            name = str(label.parent.relative_to(root))
            found.append(RecordedRun(name, label.parent, files[0], json.loads(label.read_text())))
    if not found:
        raise FileNotFoundError(f"{VARIABLE} is {root}, where no labelled run is")
    return found


def each_jsonl_run(every: int = 1) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Parametrize the argument `run` of a test over recorded JSONL runs: all, or every n-th for expensive tests."""
    found = jsonl_runs()[:: 1 if EXPLORES else every]
    if not found:
        return pytest.mark.parametrize("run", [pytest.param(None, marks=pytest.mark.skip(reason=REASON), id="no-runs")])
    return each_row("run", found, ids=[run.name for run in found])


def paths_of(find: Callable[[Path], Iterable[Path]]) -> list[Any]:
    """Parameters for what `find` finds in the folder of labelled runs: at least one, or one that is skipped."""
    root = runs_root()
    if root is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason=REASON), id="no-runs")]
    found = sorted(find(root))
    assert found, f"nothing to test below {root}"
    return [pytest.param(path, id=str(path.relative_to(root))) for path in found]


def recorded_run(name: str) -> RecordedRun:
    """The run called `name`, for example `trl/grpo_straggler`; skips if RLTOP_RUNS is unset, else fails if missing."""
    if runs_root() is None:
        pytest.skip(REASON)
    for run in jsonl_runs():
        if run.name == name:
            return run
    pytest.fail(f"{VARIABLE} is set but has no run {name!r}")


@cache
def whole(path: Path) -> Run:
    """A file as `check` reads it; all callers share the run, so none may change it."""
    return read_whole(str(path), Config(), FakeClock()).runs[0]
