"""The one file that `rltop callback` prints: what a trainer's environment gets."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

TRAINER = """
import math, sys
from types import ModuleType, SimpleNamespace

transformers = ModuleType("transformers")
class TrainerCallback:
    def on_step_end(self, args, state, control, **kwargs): pass
    def on_log(self, args, state, control, **kwargs): pass
transformers.TrainerCallback = TrainerCallback
sys.modules["transformers"] = transformers

from rltop_callback import JsonlCallback, JsonlWriter

class Handler:  # calls its callbacks as the trainer of transformers does
    def __init__(self, callbacks): self.callbacks = callbacks
    def call(self, event, state, **kwargs):
        for callback in self.callbacks:
            getattr(callback, event)(None, state, None, model=None, **kwargs)

for rank in (0, 1):
    handler = Handler([JsonlCallback("run/metrics.jsonl")])
    for step in (1, 2):
        state = SimpleNamespace(global_step=step, max_steps=2, is_world_process_zero=rank == 0)
        handler.call("on_step_end", state)
        handler.call("on_log", state, logs={"loss": 1 / step, "reward": math.nan, "completions/mean_length": 12.0})
    handler.call("on_log", state, logs={"train_runtime": 3.5})
JsonlWriter("loop.jsonl").log(7, {"loss": 0.5})
assert not [name for name in sys.modules if name == "rltop" or name.startswith("rltop.")]
"""


@pytest.fixture(scope="module")
def printed() -> str:
    done = subprocess.run([sys.executable, "-m", "rltop", "callback"], capture_output=True, text=True, check=True)
    return done.stdout


def test_it_is_python_3_9_and_needs_the_standard_library_only(printed: str) -> None:
    tree = ast.parse(printed, feature_version=(3, 9))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in names} <= sys.stdlib_module_names
    assert "Self" not in printed


def test_it_lints_as_python_3_9(printed: str, tmp_path: Path) -> None:
    (tmp_path / "rltop_callback.py").write_text(printed)
    ruff = Path(sys.executable).with_name("ruff")
    if not ruff.exists():
        pytest.skip("ruff is not installed beside this Python")
    done = subprocess.run(
        [ruff, "check", "--isolated", "--no-cache", "--target-version", "py39", "--select", "E9,F", tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_it_serves_a_trainer_that_has_no_rltop(printed: str, tmp_path: Path) -> None:
    (tmp_path / "rltop_callback.py").write_text(printed)
    (tmp_path / "train.py").write_text(TRAINER)
    subprocess.run([sys.executable, "-S", "train.py"], cwd=tmp_path, check=True, timeout=60)
    rows = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [1, 2, 2]
    assert rows[1]["completions/mean_length"] == 12.0
    assert rows[1]["total_steps"] == 2
    assert json.loads((tmp_path / "loop.jsonl").read_text())["step"] == 7


def test_what_is_printed_is_what_is_imported(printed: str) -> None:
    from rltop.integrations import jsonl

    assert printed.endswith(Path(jsonl.__file__).read_text())
