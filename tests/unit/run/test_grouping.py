"""Which files of a directory are one run."""

from __future__ import annotations

from rltop.formats.kinds import CONSOLE, CSV, JSONL, TENSORBOARD, WANDB, WHOLE_JSON
from rltop.run.grouping import Numbers, RowSample, group
from rltop.run.places import FoundRun, name_of


def found(path, kind, modified_s=0.0):
    return FoundRun(path, name_of(path), 10, modified_s, kind)


def test_the_same_run_is_shown_once_from_the_file_that_says_most():
    grouped = group(
        [
            found("/out/run1/metrics.jsonl", JSONL),
            found("/out/run1/tb/events.out.tfevents.1.h", TENSORBOARD),
            found("/out/run1/checkpoint-50/trainer_state.json", WHOLE_JSON),
            found("/out/run2/runs/Nov21_02-03-04_host/events.out.tfevents.2.h", TENSORBOARD),
        ]
    )
    assert [run.path for run in grouped.runs] == [
        "/out/run1/metrics.jsonl",
        "/out/run2/runs/Nov21_02-03-04_host/events.out.tfevents.2.h",
    ]
    assert {path for path, _ in grouped.repeated} == {
        "/out/run1/tb/events.out.tfevents.1.h",
        "/out/run1/checkpoint-50/trainer_state.json",
    }


def test_event_files_of_one_folder_are_one_stream_in_order():
    grouped = group([found(f"/r/tb/events.out.tfevents.{n}.h", TENSORBOARD, n) for n in (3, 1, 2)])
    (run,) = grouped.runs
    assert run.path.endswith(".3.h")
    assert [path[-3] for path in run.earlier] == ["1", "2"]
    assert str(run.name) == "r"


def test_rotated_history_comes_before_the_file_that_is_written():
    grouped = group([found(f"/r/x.jsonl{end}", JSONL) for end in ("", ".1", ".2.gz", ".10")])
    (run,) = grouped.runs
    assert run.path == "/r/x.jsonl"
    assert run.earlier == ("/r/x.jsonl.10", "/r/x.jsonl.2.gz", "/r/x.jsonl.1")


def test_the_newest_checkpoint_stands_for_its_run():
    grouped = group([found(f"/r/checkpoint-{n}/trainer_state.json", WHOLE_JSON, n) for n in (50, 200, 100)])
    assert [run.path for run in grouped.runs] == ["/r/checkpoint-200/trainer_state.json"]


def test_runs_beside_each_other_stay_apart_newest_first():
    grouped = group(
        [
            found("/p/a.jsonl", JSONL, 1),
            found("/p/b.jsonl", JSONL, 2),
            found("/w/wandb/offline-run-20261121_010203-abc/run-abc.wandb", WANDB, 3),
        ]
    )
    assert [str(run.name) for run in grouped.runs] == ["run-abc", "b", "a"]


SERIES = Numbers(10, [RowSample({"loss": 1.234 / (n + 1), "reward": 0.517 + n}, step=n) for n in range(16)])
RESULTS = [RowSample({"final_loss": 0.0213, "best_reward": 0.913}, step=1)]


def test_a_table_of_one_row_of_results_does_not_hide_the_series_beside_it():
    numbers = {"/r/summary.csv": Numbers(1, RESULTS), "/r/metrics.json": SERIES, "/r/train.log": SERIES}
    for path, kind in (("/r/metrics.json", WHOLE_JSON), ("/r/train.log", CONSOLE)):
        grouped = group([found("/r/summary.csv", CSV, 2), found(path, kind)], numbers_of=lambda one: numbers[one.path])
        assert [run.path for run in grouped.runs] == [path]
        assert grouped.repeated == [("/r/summary.csv", f"one row beside {path}")]


def test_a_table_that_has_begun_under_the_keys_of_the_log_stands_for_the_run():
    first = Numbers(1, [RowSample({"loss": 1.234, "reward": 0.517})])
    grouped = group(
        [found("/r/metrics.csv", CSV, 2), found("/r/train.log", CONSOLE)],
        numbers_of=lambda one: first if one.path == "/r/metrics.csv" else SERIES,
    )
    assert [run.path for run in grouped.runs] == ["/r/metrics.csv"]
