"""One training that several trackers record is one run; two trainings never are."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from examples import EXPLORES
from tables import each_row

from rltop.cli.open_session import direct, read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.formats.kinds import JSONL
from rltop.model import RunState
from rltop.report.text import check_text
from rltop.run import grouping
from rltop.run.discover import Rescanner, discover, future_run
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.feed import DirectFeed
from tests.binary_files import block_log, history, run_record
from tests.run_folders import trinity, write_events

BEGUN_S = 1_763_000_000


def numbers(seed: int, steps: int = 30) -> list[dict[str, float]]:
    dice = random.Random(seed)
    return [
        {"loss": dice.gauss(0, 1), "reward": dice.random(), "grad_norm": dice.random(), "learning_rate": 1e-6 / step}
        for step in range(1, steps + 1)
    ]


def jsonl(home: Path, rows: list[dict[str, float]]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({**row, "step": step}) + "\n" for step, row in enumerate(rows, 1)]
    (home / "metrics.jsonl").write_text("".join(lines))


def events(home: Path, rows: list[dict[str, float]]) -> None:
    named = [
        (step, BEGUN_S + step, {f"train/{key}": value for key, value in row.items()})
        for step, row in enumerate(rows, 1)
    ]
    write_events(home / "tb", named, BEGUN_S)  # fmt: skip


def wandb(home: Path, rows: list[dict[str, float]], name: str = "abc", begun_s: int = BEGUN_S) -> None:
    folder = home / "wandb" / f"offline-run-20261121_010203-{name}"
    folder.mkdir(parents=True)
    own = [
        history({"_step": step, "_timestamp": begun_s + step, **{f"train/{key}": value for key, value in row.items()}})
        for step, row in enumerate(rows)
    ]
    (folder / f"run-{name}.wandb").write_bytes(block_log(run_record({}, name), *own))


def trackio(home: Path, rows: list[dict[str, float]]) -> None:
    (home / "trackio").mkdir(parents=True)
    with closing(sqlite3.connect(home / "trackio" / "p.db")) as writer:
        writer.execute("create table metrics (id integer primary key, timestamp, run_name, step integer, metrics)")
        for step, row in enumerate(rows):
            cells = {f"train/{key}": value for key, value in row.items()}
            values = (f"2025-11-13T02:13:{20 + step % 40}", "dainty-sunset-0", 2 * step, json.dumps(cells))
            writer.execute("insert into metrics (timestamp, run_name, step, metrics) values (?, ?, ?, ?)", values)
        writer.commit()


def mlflow(home: Path, rows: list[dict[str, float]], before: int = 0) -> None:
    """MLflow's tables; `before` rows of another run come first."""
    home.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(home / "mlflow.db")) as writer:
        writer.execute("create table experiments (experiment_id integer)")
        writer.execute("create table runs (run_uuid, name, status, lifecycle_stage, start_time, end_time)")
        for table in ("metrics", "latest_metrics"):
            writer.execute(f"create table {table} (key, value, timestamp, run_uuid, step, is_nan)")
        writer.execute("insert into runs values ('u1', 'chill-owl', 'RUNNING', 'active', ?, null)", (1000 * BEGUN_S,))
        old = [("loss", step / 7, 1000 * step, "u0", step, 0) for step in range(before)]
        own = [
            (key, value, 1000 * (BEGUN_S + step), "u1", step, 0)
            for step, row in enumerate(rows, 1)
            for key, value in row.items()
        ]
        writer.executemany("insert into metrics values (?, ?, ?, ?, ?, ?)", old + own)
        writer.executemany("insert into latest_metrics values (?, ?, ?, ?, ?, ?)", own[-4:])
        writer.commit()


RECORDS = {"jsonl": jsonl, "events": events, "wandb": wandb, "trackio": trackio, "mlflow": mlflow}


def checkpoint(home: Path, rows: list[dict[str, float]]) -> None:
    path = home / "checkpoint-20" / "trainer_state.json"
    path.parent.mkdir(parents=True)
    log = [{**row, "step": step} for step, row in enumerate(rows[:20], 1)]
    path.write_text(json.dumps({"global_step": 20, "log_history": log, "max_steps": 30}, indent=2))


@pytest.mark.parametrize("first", RECORDS)
def test_one_training_in_every_tracker_is_one_run(tmp_path: Path, first: str) -> None:
    for name, record in RECORDS.items():
        if list(RECORDS).index(name) >= list(RECORDS).index(first):
            record(tmp_path / ("out" if name in ("jsonl", "events") else "."), numbers(1))
    checkpoint(tmp_path / "out", numbers(1))
    found = discover([str(tmp_path)])
    (run,) = found.found
    assert len({path for path, _ in found.passed_over}) == len(RECORDS) - list(RECORDS).index(first)
    assert {reason for _, reason in found.passed_over} == {f"the same run as {run.path}"}


def test_a_run_that_mlflow_has_written_behind_many_others_is_known_by_its_newest_values(tmp_path: Path) -> None:
    jsonl(tmp_path / "out", numbers(1))
    mlflow(tmp_path, numbers(1), before=20_000)
    assert [Path(run.path).name for run in discover([str(tmp_path)]).found] == ["metrics.jsonl"]


def test_trainings_that_differ_in_the_seed_alone_stay_apart(tmp_path: Path) -> None:
    jsonl(tmp_path / "out", numbers(1))
    wandb(tmp_path, numbers(2))
    mlflow(tmp_path, numbers(3))
    trackio(tmp_path, numbers(4))
    assert len(discover([str(tmp_path)]).found) == 4


def test_the_same_numbers_at_another_time_are_another_run(tmp_path: Path) -> None:
    mlflow(tmp_path, numbers(1))
    wandb(tmp_path, numbers(1), begun_s=BEGUN_S + 86_400)
    assert len(discover([str(tmp_path)]).found) == 2


def test_of_reruns_with_the_same_numbers_each_keeps_its_records(tmp_path: Path) -> None:
    for number, name in enumerate("ab"):
        jsonl(tmp_path / name, numbers(1))
        wandb(tmp_path, numbers(1), name)
        for path in (tmp_path / name / "metrics.jsonl", *(tmp_path / "wandb").glob(f"*-{name}/*.wandb")):
            os.utime(path, (BEGUN_S + 9000 * number,) * 2)
    found = discover([str(tmp_path)]).found
    assert {Path(run.path).parent.name: "".join(Path(path).stem[-1] for path in run.copies) for run in found} == {
        "a": "a",
        "b": "b",
    }


def test_round_numbers_alone_make_no_copy(tmp_path: Path) -> None:
    rows = [{"reward": 0.25 * (step % 4), "length": 512.0} for step in range(30)]
    jsonl(tmp_path / "out", rows)
    wandb(tmp_path, rows)
    assert len(discover([str(tmp_path)]).found) == 2


def test_a_file_that_was_named_is_shown_whatever_it_repeats(tmp_path: Path) -> None:
    jsonl(tmp_path / "out", numbers(1))
    wandb(tmp_path, numbers(1))
    (own,) = (tmp_path / "wandb").glob("*/*.wandb")
    assert len(discover([str(tmp_path / "out"), str(own)]).found) == 2
    assert len(discover([str(tmp_path / "out"), str(tmp_path / "wandb")]).found) == 1


def test_while_the_trackers_begin_one_after_the_other_there_is_one_row(tmp_path: Path) -> None:
    clock = FakeClock()
    found = [future_run([str(tmp_path)], discover([str(tmp_path)]))]
    scanner = Rescanner([str(tmp_path)], found, clock, lambda: None)
    session = Session(found, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock)
    session.take_rescan = scanner.take

    def look() -> int:
        scanner.look()
        while session.step(1_000.0):
            clock.advance(1.0)
        return len(session.runs)

    first = session.runs[0]
    events(tmp_path / "out", [])
    assert look() == 1
    wandb(tmp_path, [])
    assert look() == 1
    events(tmp_path / "out", numbers(1, 4))
    assert look() == 1
    trackio(tmp_path, [{"completions/nrows": 8.0}])
    assert look() == 1
    (tmp_path / "trackio" / "p.db").unlink()
    (tmp_path / "trackio").rmdir()
    trackio(tmp_path, numbers(1, 5))
    assert look() == 1
    jsonl(tmp_path / "out", numbers(1, 6))
    assert look() == 1
    mlflow(tmp_path, numbers(1, 6))
    checkpoint(tmp_path / "out", numbers(1))
    assert look() == 1
    assert session.runs[0].main.stream.last_step == 6
    while first.replaced_by is not None:
        first = first.replaced_by
    assert first is session.runs[0]


def test_beside_another_run_a_record_that_is_ahead_takes_the_row_of_the_one_that_was_read(tmp_path: Path) -> None:
    clock = FakeClock()
    jsonl(tmp_path / "b", numbers(2))
    events(tmp_path / "a" / "out", numbers(1, 20))
    scanner = Rescanner([str(tmp_path)], discover([str(tmp_path)]).found, clock, lambda: None)
    session = Session(discover([str(tmp_path)]).found, lambda path, n: DirectFeed(path, clock=clock, last=n), clock)
    session.take_rescan = scanner.take
    assert len(session.runs) == 2
    jsonl(tmp_path / "a" / "out", numbers(1))
    scanner.look()
    while session.step(1_000.0):
        clock.advance(1.0)
    assert sorted(run.main.stream.last_step for run in session.runs) == [30, 30]
    assert [len(run.copies) for run in session.runs if "/a/" in str(run.path)] == [1]
    session.close()


def emptied(place: Path) -> Path:
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    return place


def write(home: Path, name: str, rows: list[dict[str, float]]) -> None:
    """What one of them has written so far, anew; a checkpoint is saved at step 20."""
    if name == "jsonl":
        jsonl(home / "logs", rows)
    elif name == "events":
        events(emptied(home / "ckpt"), rows)
    elif name == "wandb":
        wandb(emptied(home / "wandb").parent, rows)
    elif name == "trackio":
        trackio(emptied(home / "trackio").parent, rows)
    elif name == "mlflow":
        mlflow(emptied(home / "mlflow.db").parent, rows)
    elif len(rows) >= 20:
        checkpoint(emptied(home / "output"), rows)
    for path in home.rglob("*"):
        os.utime(path, (BEGUN_S + len(rows),) * 2)


@pytest.mark.parametrize("seed", range(200 if EXPLORES else 3))
def test_in_whatever_order_the_files_of_a_training_appear_and_grow_it_is_one_row(tmp_path: Path, seed: int) -> None:
    dice, clock = random.Random(seed), FakeClock()
    found = [future_run([str(tmp_path)], discover([str(tmp_path)]))]
    scanner = Rescanner([str(tmp_path)], found, clock, lambda: None)
    session = Session(found, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock)
    session.take_rescan = scanner.take
    names = dice.sample(["jsonl", "events", "wandb", "trackio", "mlflow", "checkpoint"], dice.randint(2, 6))
    lags, begins = [{name: dice.choice(of) for name in names} for of in ((0, 0, 1, 3), (0, 0, 1, 2, 4))]
    step = 0
    for tick in range(12):
        step = min(30, step + dice.choice([0, 0, 1, 1, 2, 5]))
        for name in dice.sample(names, len(names)):
            if tick >= begins[name]:
                write(tmp_path, name, numbers(seed)[: max(0, step - lags[name])])
            scanner.look()
            while session.step(1_000.0):
                clock.advance(1.0)
            assert len(session.runs) == 1, (tick, name, [str(run.name) for run in session.runs])
    session.close()


def state(home: Path, rows: list[dict[str, float]], steps: int, of: int) -> None:
    """`checkpoint-N/trainer_state.json`, whose history is followed by how many steps there are to be."""
    folder = home / f"checkpoint-{steps}"
    folder.mkdir(parents=True)
    history = [{**row, "epoch": step / of, "step": step} for step, row in enumerate(rows[:steps], 1)]
    told = {"best_metric": None, "global_step": steps, "log_history": history, "logging_steps": 1, "max_steps": of}
    (folder / "trainer_state.json").write_text(json.dumps(told, indent=2))


def test_a_total_that_only_another_record_names_is_the_run_s(tmp_path: Path) -> None:
    rows = numbers(1, 400)
    jsonl(tmp_path / "out" / "logs", rows)
    state(tmp_path / "out", rows, 20, 300)
    state(tmp_path / "out", rows, 400, 500)
    os.utime(tmp_path / "out" / "checkpoint-20" / "trainer_state.json", (BEGUN_S, BEGUN_S))
    (found,) = discover([str(tmp_path / "out")]).found
    assert (Path(found.path).name, found.total_steps) == ("metrics.jsonl", 500)
    (named,) = discover([found.path]).found
    assert named.total_steps == 500
    session = Session([found], direct(FakeClock()), FakeClock())
    while session.step(1_000.0):
        pass
    assert session.runs[0].main.stream.total_steps == 500


def test_of_checkpoints_that_were_copied_at_once_the_last_step_is_the_newest(tmp_path: Path) -> None:
    rows = numbers(1, 400)
    for at, steps in enumerate((400, 60)):
        state(tmp_path, rows, steps, 400)
        os.utime(tmp_path / f"checkpoint-{steps}" / "trainer_state.json", (BEGUN_S + at, BEGUN_S + at))
    (found,) = discover([str(tmp_path)]).found
    assert Path(found.path).parent.name == "checkpoint-400"


def test_checkpoints_of_two_trainings_are_two_runs(tmp_path: Path) -> None:
    some = numbers(1, 60)
    for steps, rows in ((20, some), (40, numbers(2, 60)), (60, some)):
        state(tmp_path, rows, steps, 60)
    found = discover([str(tmp_path)]).found
    assert {Path(each.path).parent.name for each in found} == {"checkpoint-40", "checkpoint-60"}
    assert len({str(each.name) for each in found}) == 2


def test_a_total_that_comes_with_the_first_checkpoint_is_taken_in(tmp_path: Path) -> None:
    rows = numbers(1)
    jsonl(tmp_path, rows)
    found = discover([str(tmp_path)]).found
    session = Session(found, direct(FakeClock()), FakeClock())
    while session.step(1_000.0):
        pass
    rescanner = Rescanner([str(tmp_path)], found, FakeClock(), lambda: None)
    state(tmp_path, rows, 20, 500)
    rescanner.look()
    session.update(rescanner.take() or [])
    assert session.runs[0].main.stream.total_steps == 500


def console(path: Path, rows: list[dict[str, float]], every: int = 1, begin: int = 1, of: int = 300) -> None:
    """A console log in four digits, of the means of `every` steps."""
    lines = []
    for step in range(begin - 1 + every, len(rows) + 1, every):
        meant = rows[step - every : step]
        cells = " - ".join(f"{key}:{sum(row[key] for row in meant) / every:.4g}" for key in meant[0])
        lines.append(f"step:{step} - {cells}\nTraining Progress: 10%|# | {step}/{of} [00:10<01:30, 1.00it/s]\n")
    path.write_text("".join(lines))


@pytest.mark.parametrize(
    ("steps", "every", "begin"), [(400, 1, 1), (400, 5, 1), (400, 1, 381), (400, 4, 201), (30, 1, 1), (12, 4, 1)]
)
def test_a_console_log_of_rounded_numbers_or_means_is_the_run_whenever_it_begins(
    tmp_path: Path, steps: int, every: int, begin: int
) -> None:
    jsonl(tmp_path, numbers(1, steps))
    console(tmp_path / "train.log", numbers(1, steps), every, begin)
    (run,) = discover([str(tmp_path)]).found
    assert (run.kind, run.total_steps) == (JSONL, 300)


def test_a_run_whose_file_is_deleted_stays_it_is_not_its_log(tmp_path: Path) -> None:
    jsonl(tmp_path, numbers(1, 80))
    console(tmp_path / "train.log", numbers(1, 80))
    clock = FakeClock()
    found = discover([str(tmp_path)]).found
    session = Session(found, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock)
    scanner = Rescanner([str(tmp_path)], found, clock, lambda: None)
    session.take_rescan = scanner.take

    def look() -> Run:
        scanner.look()
        clock.advance(60.0)
        while session.step(1_000.0):
            clock.advance(1.0)
        (run,) = session.runs
        return run

    before = look()
    (tmp_path / "metrics.jsonl").rename(tmp_path / "moved")
    gone = look()
    assert (gone, gone.state, gone.main.stream.last_step) == (before, RunState.LOST, 80)
    jsonl(tmp_path, numbers(1, 90))
    assert (look(), before.main.stream.last_step) == (before, 90)


def printed(path: Path, rows: list[dict[str, float]], begin: int = 1, of: int = 500) -> None:
    """What transformers prints: no step, and epochs in two digits."""
    lines = [f"{ {**row, 'epoch': round(step / of, 2)} }\n" for step, row in enumerate(rows, 1) if step >= begin]
    path.write_text("".join(lines))


@pytest.mark.parametrize(("seed", "runs"), [(1, 1), (2, 2)], ids=["its own", "another trainer's"])
def test_a_log_that_shares_no_key_is_the_run_only_where_it_has_its_numbers(
    tmp_path: Path, seed: int, runs: int
) -> None:
    jsonl(tmp_path, numbers(1))
    console(tmp_path / "train.log", [{f"sft/{key}": x for key, x in row.items()} for row in numbers(seed)])
    assert len(discover([str(tmp_path)]).found) == runs


@pytest.mark.parametrize(
    ("begin", "seed", "runs"), [(1, 1, 1), (9, 1, 1), (17, 1, 1), (200, 1, 1), (1, 2, 2), (9, 2, 2)]
)
def test_a_log_without_steps_is_another_run_where_its_numbers_within_the_same_epochs_are_others(
    tmp_path: Path, begin: int, seed: int, runs: int
) -> None:
    jsonl(tmp_path, [{**row, "epoch": step / 500} for step, row in enumerate(numbers(1, 400), 1)])
    printed(tmp_path / "train.log", [{key: round(x, 4) for key, x in row.items()} for row in numbers(seed, 400)], begin)
    assert len(discover([str(tmp_path)]).found) == runs


@pytest.mark.parametrize("steps", [20, 40, 400])
def test_a_console_log_of_other_numbers_in_the_folder_is_another_run(tmp_path: Path, steps: int) -> None:
    # What is always the same is so in either.
    alike = {f"clip/{n}": 0.0 for n in range(9)} | {"length": 64.0, "entropy": 0.25}
    jsonl(tmp_path, [{**row, **alike} for row in numbers(1, 80)])
    console(tmp_path / "own.log", [{**row, **alike} for row in numbers(1, 80)], of=80)
    console(tmp_path / "runC.log", [{**row, **alike} for row in numbers(2, steps)])
    events(tmp_path, [{**row, **alike} for row in numbers(3, 50)])
    found = discover([str(tmp_path)]).found
    assert {Path(run.path).name.split(".")[0]: run.total_steps for run in found} == {
        "metrics": 80, "runC": None, "events": None,
    }  # fmt: skip


def test_a_log_of_another_run_is_no_part_of_a_run_of_several_parts(tmp_path: Path) -> None:
    home = trinity(tmp_path / "job")
    (whole,) = discover([str(home)]).found
    keys = "actor/pg_loss", "critic/score/mean", "rollout/accuracy/mean", "actor/lr"
    console(home / "old.log", [dict(zip(keys, row.values(), strict=True)) for row in numbers(2, 60)])
    one, other = sorted(discover([str(home)]).found, key=lambda run: run.path.endswith("old.log"))
    assert (one.path, len(one.other_streams)) == (whole.path, len(whole.other_streams)) and other.path.endswith(
        "old.log"
    )


def test_of_several_runs_in_a_folder_each_has_its_own_log(tmp_path: Path) -> None:
    for seed, name in enumerate("ab"):
        jsonl(tmp_path, numbers(seed, 80))
        (tmp_path / "metrics.jsonl").rename(tmp_path / f"run{name}.jsonl")
        console(tmp_path / f"{name}.log", numbers(seed, 80), of=100 + seed)
    found = discover([str(tmp_path)]).found
    assert {run.name.raw: (Path(run.copies[0]).name, run.total_steps) for run in found} == {
        "runa": ("a.log", 100), "runb": ("b.log", 101),
    }  # fmt: skip


def test_a_copy_whose_numbers_fit_several_runs_is_that_of_the_run_with_its_number(tmp_path: Path) -> None:
    for seed in range(4):
        rows = [
            {**row, "kl": one["loss"], "entropy": one["reward"]}
            for row, one in zip(numbers(seed), numbers(9), strict=True)
        ]
        jsonl(tmp_path, rows)
        (tmp_path / "metrics.jsonl").rename(tmp_path / f"exp0{seed}.jsonl")
        console(tmp_path / f"con0{seed}.log", [{**row, "time": 1.0} for row in rows], of=100)
    found = discover([str(tmp_path)]).found
    assert {run.name.raw: [Path(each).name for each in run.copies] for run in found} == {
        f"exp0{seed}": [f"con0{seed}.log"] for seed in range(4)
    }


def test_many_runs_in_one_folder_are_matched_by_name_or_with_a_bounded_number_of_comparisons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grouping, "MOST_RUNS", most := 12)
    count = 2 * most
    for seed in range(count):
        jsonl(tmp_path, rows := numbers(seed, 40))
        (tmp_path / "metrics.jsonl").rename(tmp_path / f"run{seed}.jsonl")
        stepped = [{"step": step, **row} for step, row in enumerate(rows, 1)]
        (tmp_path / f"run{seed}.csv").write_text(_as_csv(stepped))
    named = discover([str(tmp_path)])
    assert {run.name.raw: [Path(each).name for each in run.copies] for run in named.found} == {
        f"run{seed}": [f"run{seed}.csv"] for seed in range(count)
    }
    for seed in range(count):
        (tmp_path / f"run{seed}.csv").rename(tmp_path / f"table{seed}.csv")
        os.utime(tmp_path / f"run{seed}.jsonl", (BEGUN_S + 60 * seed,) * 2)
        os.utime(tmp_path / f"table{seed}.csv", (BEGUN_S + 60 * seed + 1,) * 2)
    sought = discover([str(tmp_path)])
    assert {run.name.raw: [Path(each).name for each in run.copies] for run in sought.found} == {
        f"run{seed}": [f"table{seed}.csv"] for seed in range(count)
    }
    assert named.compared < 10 * count < sought.compared < (most + 10) * count


def _as_csv(rows: list[dict[str, float]]) -> str:
    return "".join(",".join(map(str, row)) + "\n" for row in [rows[0].keys(), *(row.values() for row in rows)])


WRITTEN = {
    "jsonl": lambda rows: "".join(json.dumps(row) + "\n" for row in rows),
    "csv": _as_csv,
    "json": json.dumps,
}


@pytest.mark.parametrize("kind", WRITTEN)
@each_row("place", ["step_{:04}", "checkpoint-{}", "checkpoints/global_step_{}", "step_{:04} beside the run's own"])
def test_what_each_checkpoint_keeps_of_the_history_is_one_run(tmp_path: Path, kind: str, place: str) -> None:
    shutil.rmtree(tmp_path / "run", ignore_errors=True)
    rows = [{"step": step, **row} for step, row in enumerate(numbers(1, 240), 1)]
    folder, _, has_own = place.partition(" ")
    ends = list(range(16, 241, 16))
    for end in ends:
        home = tmp_path / "run" / folder.format(end)
        home.mkdir(parents=True)
        begin = end - 16 if has_own else 0
        (home / f"history.{kind}").write_text(WRITTEN[kind](rows[begin:end]))
    if has_own:
        (tmp_path / "run" / f"history.{kind}").write_text(WRITTEN[kind](rows))
    found = discover([str(tmp_path)])
    (run,) = found.found
    assert run.name.raw == "run"
    assert read_whole(run, Config(), FakeClock()).runs[0].main.stream.last_step == 240
    assert len(run.copies) == len(found.passed_over) == len(ends) - (not has_own)
    again_found = discover([str(tmp_path)], found.seen)
    assert again_found.found == [run]


def test_folders_named_by_a_number_that_keep_other_histories_are_runs_of_their_own(tmp_path: Path) -> None:
    for at in range(4):
        for seed, place in enumerate((f"step_{at}", f"step_size_0.{at}", f"iter_{at}")):
            jsonl(tmp_path / place, numbers(10 * at + seed, 10 + at))
    names = sorted(run.name.raw for run in discover([str(tmp_path)]).found)
    assert len(set(names)) == len(names) == 12


def test_copies_that_checkpoints_keep_are_said_wherever_the_folder_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = numbers(1, 120)
    for place in (".", "checkpoint-40", "checkpoint-80", "checkpoint-120"):
        jsonl(tmp_path / "out" / place, rows[: int(place[11:] or 120)])  # of the last one it is the whole
    monkeypatch.chdir(tmp_path / "out")
    for path in (".", "./", str(tmp_path / "out"), "../out"):
        (found,) = discover([path]).found
        run = read_whole(found, Config(), FakeClock()).runs[0]
        assert run.main.stream.last_step == 120
        assert "file: 3 copies under checkpoint-*/ passed over" in check_text(Snapshot(run), width=100)
