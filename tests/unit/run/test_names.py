"""What runs are called: as a person would tell them apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli.open_session import direct, runs_of
from rltop.clock import FakeClock
from rltop.pages.stages import build_timing
from rltop.run.discover import discover, future_run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from tests.binary_files import block_log, history, run_record
from tests.run_folders import write_events
from tests.telescope_run import TelescopeRun

ROWS = "".join(json.dumps({"step": i, "loss": 1.0 / i}) + "\n" for i in range(1, 9))


def names(folder: Path) -> set[str]:
    return {str(each.name) for each in discover([str(folder)]).found}


def put(folder: Path, *paths: str) -> None:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(ROWS)


@each_row(
    ("paths", "expected"),
    [
        (("a/metrics.jsonl", "b/metrics.jsonl"), {"a", "b"}),
        (("a/exp.jsonl", "b/exp.jsonl"), {"a/exp", "b/exp"}),
        (("x/a/metrics.jsonl", "y/a/metrics.jsonl"), {"x/a", "y/a"}),
        (("x/a/metrics.jsonl", "y/a/metrics.jsonl", "z/b.jsonl"), {"x/a", "y/a", "b"}),
        (
            ("v1/s1/exp.jsonl", "v1/s2/exp.jsonl", "v2/s1/exp.jsonl", "v2/s2/exp.jsonl"),
            {"v1/s1/exp", "v1/s2/exp", "v2/s1/exp", "v2/s2/exp"},
        ),
        (("v1/s1/metrics.jsonl", "v1/s2/metrics.jsonl", "v2/s1/metrics.jsonl"), {"s2", "v1/s1", "v2/s1"}),
        (("a/metrics.jsonl", "a/history.jsonl"), {"a/metrics.jsonl", "a/history.jsonl"}),
    ],
)
def test_runs_of_one_name_are_told_apart(tmp_path: Path, paths: tuple[str, ...], expected: set[str]) -> None:
    put(tmp_path, *paths)
    assert names(tmp_path) == expected


def test_the_dated_folder_of_transformers_is_no_name_until_there_are_two(tmp_path: Path) -> None:
    rows = [(i, 1.7e9 + i, {"train/loss": 0.1}) for i in range(1, 9)]
    write_events(tmp_path / "out/runs/Nov21_10-00-00_host", rows)
    assert names(tmp_path) == {"out"}
    write_events(tmp_path / "out/runs/Nov22_10-00-00_host", rows)
    assert names(tmp_path) == {"out/Nov21_10-00-00_host", "out/Nov22_10-00-00_host"}


def test_a_folder_that_fills_is_called_the_same_from_its_first_record_on(tmp_path: Path) -> None:
    rows = [(i, 1.7e9 + i, {"train/loss": 1.0 / i}) for i in range(1, 9)]
    write_events(tmp_path / "five/ckpt/runs/Nov21_10-00-00_host", rows)
    assert names(tmp_path) == {"five"}
    put(tmp_path, "five/logs/metrics.jsonl")
    assert names(tmp_path) == {"five"}


def test_a_run_of_weights_and_biases_is_called_what_it_calls_itself(tmp_path: Path) -> None:
    folder = tmp_path / "wandb" / "run-20260101_100000-abc"
    folder.mkdir(parents=True)
    path = folder / "run-abc.wandb"
    path.write_bytes(block_log(run_record({}, "brave-fox-3"), *(history({"_step": i, "loss": 0.1}) for i in range(9))))
    assert names(tmp_path) == names(path) == {"brave-fox-3"}
    assert [str(each.name) for each in runs_of(str(path))] == ["brave-fox-3"]
    TelescopeRun().add_steps(range(3)).write(folder / "files")
    assert names(tmp_path) == {"brave-fox-3"}
    path.unlink()
    assert names(tmp_path) == {"run-20260101_100000-abc"}


def test_parts_that_share_a_run_of_weights_and_biases_stand_side_by_side_in_it(tmp_path: Path) -> None:
    for role, last in (("explorer", 9), ("trainer", 6), ("", 0)):
        folder = tmp_path / "wandb" / f"run-20260101_100000-my-run{'-' + role if role else ''}"
        folder.mkdir(parents=True)
        values = {f"{role}/x": 0.1, f"{role}/time/train_step": 9.0, f"{role}/time/step": 8.0}
        rows = (history({f"{role}/step": i, "_step": i - 1, **values}) for i in range(1, last + 1))
        (folder / "run-my-run.wandb").write_bytes(block_log(run_record({}, "" if role else "grpo"), *rows))
    clock = FakeClock()
    found = discover([str(tmp_path)]).found
    session = Session(found, direct(clock), clock)
    session.drain()
    (run,) = session.runs
    assert str(run.name) == "grpo"
    assert (run.main.stream.name, run.main.stream.last_step) == ("trainer", 6)
    assert [(part.role, part.stream.last_step) for part in run.other_streams] == [("explorer", 9)]
    view = build_timing(Snapshot(run))
    assert [(stage.name.raw, stage.duration_s) for stage in view.top] == [("training", 8.0), ("other", 1.0)]


@each_row(
    ("stands", "path", "name"),
    [
        ("run", ".", "run"),
        ("run/inner", "..", "run"),
        ("run/inner", "../metrics.jsonl", "run"),
        ("run/inner", "../../run/./metrics.jsonl", "run"),
        ("folder/abc", ".", "abc"),
        ("folder/abc/metrics", "..", "abc"),
        ("ranks", ".", "ranks"),
        ("ranks/rank_0", "..", "ranks"),
        ("ranks", "dots/..jsonl", "dots"),
        ("empty", ".", "empty"),
        ("empty/inner", "..", "empty"),
    ],
)
def test_a_run_is_never_named_by_a_dot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stands: str, path: str, name: str
) -> None:
    rows = '{"step": 1, "reward": 0.5}\n{"step": 2, "reward": 0.25}\n'
    for file in ("run/metrics.jsonl", "ranks/rank_0/metrics.jsonl", "ranks/rank_1/metrics.jsonl", "ranks/dots/..jsonl"):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(rows)
    for folder in ("run/inner", "empty/inner", "folder/abc/metrics"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "folder/abc/meta.yaml").write_text("run_name: .\nlifecycle_stage: active\n")
    (tmp_path / "folder/abc/metrics/reward").write_text("1700000000000 0.5 1\n")
    monkeypatch.chdir(tmp_path / stands)
    looked = discover([path])
    found = looked.found or [future_run([path], looked)]
    assert name in [str(each.name) for each in found]
    assert not [each for each in found if not str(each.name).strip("./")]
