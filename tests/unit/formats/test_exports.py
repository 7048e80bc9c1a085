"""Histories that somebody exported: tables of pandas, curves with their steps, downloads of charts."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.formats.jsonl import JsonlDecoder

FIXTURES = Path(__file__).parents[3] / "fixtures" / "trackers"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["tables"]["tables"]
TABLES = sorted(path.name for path in (FIXTURES / "tables").iterdir())
TEN_DIGITS = 1e-9
"""What pandas writes of a number: ten digits behind the point."""


def opened(path: Path):
    run = read_whole(str(path), Config(), FakeClock()).runs[0]
    assert run.counts.bad_lines == 0
    return run.main.stream


@each_row("name", TABLES)
def test_a_table_of_pandas_is_the_history_that_it_was_made_of(name: str) -> None:
    stream = opened(FIXTURES / "tables" / name)
    assert list(stream.steps()) == [step for step, _ in EXPECTED]
    assert set(stream.keys) == {key for _, row in EXPECTED for key in row}
    for step, row in EXPECTED:
        for key in stream.keys:
            value = stream.value(key, step)
            assert math.isclose(value, row[key], abs_tol=TEN_DIGITS) if key in row else value is None, (step, key)


POINTS = [(10 * i, i / 8) for i in range(1, 8)]
CURVES = {
    "steps and values": {"loss": {"steps": [s for s, _ in POINTS], "values": [v for _, v in POINTS]}},
    "pairs": {"loss": [list(point) for point in POINTS]},
    "lists in log_history": {"log_history": [[{"step": s, "loss": v}] for s, v in POINTS]},
    "lines in log_history": {"log_history": [json.dumps({"step": s, "loss": v}) for s, v in POINTS]},
    "text in log_history": {"log_history": json.dumps([{"step": s, "loss": v} for s, v in POINTS])},
    "log_history behind other keys": {
        "best_metric": None,
        "global_step": 70,
        "log_history": [{"step": s, "loss": v} for s, v in POINTS],
    },
    "text in history behind other keys": {
        "config": {"lr": 1e-6},
        "history": json.dumps([{"step": s, "loss": v} for s, v in POINTS]),
    },
    "log_history in a state": {
        "args": {"lr": 1},
        "state": {"log_history": [{"step": s, "loss": v} for s, v in POINTS]},
    },
    "by index with a step": {str(i): {"global_step": s, "loss": v} for i, (s, v) in enumerate(POINTS)},
}


@each_row("indent", [None, 1])
@each_row("form", CURVES)
def test_curves_are_rows_at_their_steps(form: str, indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    path.write_text(json.dumps(CURVES[form], indent=indent))
    stream = opened(path)
    assert [(step, stream.value("loss", step)) for step in stream.steps()] == POINTS


@pytest.mark.parametrize("indent", [None, 1])
def test_columns_in_groups_are_named_by_both(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "history.json"
    columns = {"loss": [1.0, 0.5, 0.25, 0.2], "reward": [0.0, 0.1, 0.2, 0.3]}
    path.write_text(json.dumps({"train": columns, "config": {"lr": 0.1}, "seed": 1}, indent=indent))
    stream = opened(path)
    assert list(stream.keys) == ["train/loss", "train/reward"]
    assert [stream.value("train/loss", step) for step in stream.steps()] == columns["loss"]


def test_settings_that_are_numbered_are_no_history(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"layers": {"0": {"size": 4}, "1": {"size": 8}}, "lr": 0.1}))
    assert not read_whole(str(path), Config(), FakeClock()).runs[0].main.stream.rows


def test_a_curve_from_tensorboard_has_its_steps(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps([[1.79e9 + s, s, v] for s, v in POINTS]))
    lines = [f"{1.79e9 + s},{s},{v}" for s, v in POINTS]
    (tmp_path / "a.csv").write_text("\n".join(["Wall time,Step,Value", *lines]) + "\n")
    for name, key in (("a.json", "value"), ("a.csv", "Value")):
        stream = opened(tmp_path / name)
        assert [(step, stream.value(key, step)) for step in stream.steps()] == POINTS
        assert list(stream.keys) == [key]


def chart(*runs: str) -> str:
    heads = [f'"{run} - train/reward{end}"' for run in runs for end in ("", "__MIN", "__MAX")]
    rows = [",".join([f'"{s}"', *[f'"{v}"'] * 3 * len(runs)]) for s, v in POINTS]
    return "\n".join([",".join(['"Step"', *heads]), *rows]) + "\n"


def test_a_chart_of_wandb_is_the_metric_at_its_steps(tmp_path: Path) -> None:
    path = tmp_path / "wandb_export.csv"
    path.write_text(chart("grpo - seed 1"))
    stream = opened(path)
    assert list(stream.keys) == ["train/reward"]
    assert [(step, stream.value("train/reward", step)) for step in stream.steps()] == POINTS


def test_a_chart_of_several_runs_keeps_their_names(tmp_path: Path) -> None:
    path = tmp_path / "wandb_export.csv"
    path.write_text(chart("one", "two"))
    assert list(opened(path).keys) == ["one - train/reward", "two - train/reward"]


def test_a_table_between_tabs_is_read(tmp_path: Path) -> None:
    path = tmp_path / "progress.txt"
    path.write_text("Step\tLoss\tReward\n10\t0.5\t1\n20\t0.25\t2\n")
    stream = opened(tmp_path)
    assert [(step, stream.value("Loss", step)) for step in stream.steps()] == [(10, 0.5), (20, 0.25)]


# -- long tables -------------------------------------------------------------------------------------------------------

METRICS = ("critic/rewards/mean", "actor/entropy", "response_length/mean")
BY_STEP = [(step, key, step / 4 + at) for step in range(1, 61) for at, key in enumerate(METRICS)]
BY_METRIC = sorted(BY_STEP, key=lambda each: (each[1], each[0]))
HEADS = ["step,metric,value", "global_step,name,value", "iteration,tag,value", "step,variable,value", "step,key,value"]


def as_csv(rows, head: str) -> str:
    return "\n".join([head, *(",".join(map(str, row)) for row in rows)]) + "\n"


def as_long_lines(rows) -> str:
    return "".join(json.dumps({"step": step, "name": key, "value": value}) + "\n" for step, key, value in rows)


def as_long_document(rows) -> str:
    return json.dumps([{"step": step, "variable": key, "value": value} for step, key, value in rows])


LONG = {
    **{f"{head}, {name}": as_csv(rows, head) for head in HEADS for name, rows in (("a", BY_STEP), ("b", BY_METRIC))},
    "lines": as_long_lines(BY_STEP),
    "document": as_long_document(BY_STEP),
    "document by metric": as_long_document(BY_METRIC),
}


@each_row("name", LONG)
def test_a_long_table_is_one_row_per_step(name: str, tmp_path: Path) -> None:
    text = LONG[name]
    path = tmp_path / ("m.csv" if text[0] not in "{[" else "m.json" if text[0] == "[" else "m.jsonl")
    path.write_text(text)
    run = read_whole(str(path), Config(), FakeClock()).runs[0]
    assert (set(run.main.stream.keys), [*run.main.stream.steps()]) == (set(METRICS), [*range(1, 61)])
    assert all(run.main.stream.value(key, step) == value for step, key, value in BY_STEP)
    assert {"reward_mean", "entropy", "response_len_mean"} <= set(run.main.identity.signals)
    assert not {"L6", "L12"} & {event.rule for event in run.events}
    assert run.counts.text_values == 0


def test_a_metric_of_a_long_table_is_judged_wherever_it_stands(tmp_path: Path) -> None:
    rows = [(s, k, "nan" if (s, k) == (50, "actor/entropy") else v) for s, k, v in reversed(BY_METRIC)]
    (tmp_path / "m.csv").write_text(as_csv(rows, "step,metric,value"))
    run = read_whole(str(tmp_path / "m.csv"), Config(), FakeClock()).runs[0]
    assert next(event.step for event in run.events if event.rule == "L1") == 50


def test_splits_of_a_long_table_stay_apart_and_so_do_its_runs(tmp_path: Path) -> None:
    curves = [(run, part) for run in ("a", "bb") for part in ("train", "val")]
    rows = [(run, s, part, "loss", len(run + part) * s / 8) for run, part in curves for s in range(1, 11)]
    (tmp_path / "m.csv").write_text(as_csv(rows, "run,step,split,metric,value"))
    run = read_whole(str(tmp_path / "m.csv"), Config(), FakeClock()).runs[0]
    assert set(run.main.stream.keys) == {"train/loss", "val/loss"}
    assert len(run.main.stream.segments) == 2


def test_a_row_of_a_long_table_without_a_value_was_not_logged(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("step,metric,value\n1,loss,0.5\n2,loss,0.4\n1,val_loss,\n2,val_loss,0.6\n")
    stream = opened(tmp_path / "m.csv")
    assert [stream.value("val_loss", step) for step in (1, 2)] == [None, 0.6]


@each_row("head", ["step,name,value,loss", "step,metric,value"])
def test_a_table_with_a_metric_called_value_is_not_long(head: str, tmp_path: Path) -> None:
    cells = "run-a,{0},{0}" if head.endswith("loss") else "{0},{0}"
    lines = [f"{step},{cells.format(step / 8)}" for step in range(1, 11)]
    (tmp_path / "m.csv").write_text("\n".join([head, *lines]) + "\n")
    assert opened(tmp_path / "m.csv").value("value", 4) == 0.5


def exported_rows() -> list[dict[str, float]]:
    """What W&B keeps of TRL: timings between two rows of the trainer, and evaluations, without the trainer's step."""
    rows: list[dict[str, float]] = []
    for step in range(1, 41):
        rows.append({"profiling/Time taken: GRPOTrainer.compute_loss": 0.5})
        rows.append({"train/global_step": step, "train/loss": 1 / step, "train/reward": step / 40})
        if step % 10 == 0:
            rows.append({"eval/loss": 2 / step})
    return [{"_step": at, "_runtime": 2.0 * at, "_timestamp": 1.79e9 + 2.0 * at, **row} for at, row in enumerate(rows)]


def write_export(path: Path, rows: list[dict[str, float]]) -> Path:
    if path.suffix == ".csv":
        keys = list(dict.fromkeys(key for row in rows for key in row))
        lines = [",".join(str(row.get(key, "")) for key in keys) for row in rows]
        path.write_text("\n".join([",".join(keys), *lines]) + "\n")
    else:
        path.write_text(json.dumps(rows) if path.suffix == ".json" else "".join(json.dumps(row) + "\n" for row in rows))
    return path


@each_row("name", ["export.jsonl", "export.csv", "export.json"])
def test_an_export_of_a_tracker_counts_by_the_step_of_the_trainer(name: str, tmp_path: Path) -> None:
    run = read_whole(str(write_export(tmp_path / name, exported_rows())), Config(), FakeClock()).runs[0]
    stream = run.main.stream
    assert list(stream.steps()) == [*range(41)]
    assert [stream.value("train/loss", step) for step in (1, 20, 40)] == [1.0, 0.05, 0.025]
    assert [stream.value("eval/loss", step) for step in (10, 20, 40)] == [0.2, 0.1, 0.05]
    assert not stream.restarts
    assert not (run.counts.crossed_rows or run.counts.no_step_lines)
    assert not any(event.rule == "L12" for event in run.events)


@each_row("name", ["export.jsonl", "export.csv", "export.json"])
@each_row("rows", [2, 40])
def test_an_export_without_a_step_of_the_trainer_counts_by_that_of_the_tracker(
    name: str, rows: int, tmp_path: Path
) -> None:
    made = [{"_step": 5 * at, "_timestamp": 1.79e9 + at, "loss": 1 / (at + 1)} for at in range(rows)]
    stream = opened(write_export(tmp_path / name, made))
    assert list(stream.steps()) == [5 * at for at in range(rows)]


def test_an_export_that_grows_gives_out_what_waits_for_a_step() -> None:
    decoder = JsonlDecoder()
    lines = [json.dumps(row).encode() + b"\n" for row in exported_rows()]
    assert decoder.feed(b"".join(lines[:1]), 0, 0) == []
    assert decoder.holds_back
    first = decoder.feed(lines[1], len(lines[0]), 0)
    assert [(record.step, record.is_part) for record in first] == [(0, False), (1, False)]
    assert not decoder.holds_back
