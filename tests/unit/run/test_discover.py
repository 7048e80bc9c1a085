"""What a path means: a file, every run of a directory, or a word on why it is none."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import random
import sqlite3
import time
import zipfile

import pytest
import zstandard
from tables import each_row

from rltop.errors import SourceError
from rltop.run.discover import Discovery, discover
from rltop.run.places import read_ranges
from rltop.run.sniff import sniff
from tests.binary_files import block_log, history, run_record
from tests.rollout_dumps import write_nemo
from tests.run_folders import rlinf, trinity


def rows(path, count=40):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"step": i, "loss": 1.0 / i}) + "\n" for i in range(1, count + 1)))
    return path


def others(folder):
    """One file of each kind that no decoder reads."""
    folder.mkdir(parents=True, exist_ok=True)
    with sqlite3.connect(folder / "trackio.db") as database:
        database.execute("create table metrics (id)")
    database.close()
    (folder / "completions_00010.parquet").write_bytes(b"PAR1" + bytes(64))
    (folder / "metrics.jsonl.xz").write_bytes(lzma.compress(b'{"step": 1, "loss": 1.0}\n'))
    with zipfile.ZipFile(folder / "logs.zip", "w") as archive:
        archive.writestr("a", "b")
    samples = [{"step": i // 16, "prompt": "p", "completion": "c" * 50, "reward": 1.0} for i in range(200)]
    (folder / "completions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples))
    return sorted(folder.iterdir())


@each_row(
    ("name", "what"),
    [
        ("trackio.db", "SQLite"), ("completions_00010.parquet", "parquet"),
        ("metrics.jsonl.xz", "xz"), ("logs.zip", "zip"), ("completions.jsonl", "samples"),
    ],
)  # fmt: skip
def test_what_holds_no_metrics_is_refused_with_a_word_on_what_it_is_and_what_to_do(tmp_path, name, what):
    others(tmp_path)
    with pytest.raises(SourceError) as refused:
        discover([str(tmp_path / name)])
    assert what in refused.value.message
    assert refused.value.hint


@each_row("kind", ["train", "val"])
def test_samples_of_nemo_rl_are_no_runs(tmp_path, kind):
    folder = write_nemo(tmp_path / "exp_001", [1, 2], kind)
    looked = discover([str(folder)])
    assert not looked.found
    assert all("samples?" in reason for _, reason in looked.passed_over)
    with pytest.raises(SourceError, match="looks like samples"):
        discover([str(folder / f"{kind}_data_step1.jsonl")])
    rows(folder / "metrics.jsonl")
    assert [found.path for found in discover([str(folder)]).found] == [str(folder / "metrics.jsonl")]


def test_they_are_named_as_passed_over_beside_a_run(tmp_path):
    run = rows(tmp_path / "metrics.jsonl")
    left = others(tmp_path / "aside")
    found = discover([str(tmp_path)])
    assert [each.path for each in found.found] == [str(run)]
    assert {path for path, _ in found.passed_over} == {str(path) for path in left}


def test_directories_globs_and_files_may_be_mixed_and_name_a_run_once(tmp_path):
    paths = [rows(tmp_path / name / "metrics.jsonl") for name in ("a", "b", "c")]
    found = discover([str(tmp_path), str(tmp_path / "*" / "metrics.jsonl"), str(paths[0])])
    assert {each.path for each in found.found} == set(map(str, paths))
    assert len(found.found) == 3


def test_links_to_folders_of_runs_are_followed_once_and_name_their_runs(tmp_path):
    jobs, links = tmp_path / "jobs", tmp_path / "links"
    for name in ("17", "18"):
        rows(jobs / name / "metrics.jsonl")
    rows(links / "own" / "metrics.jsonl")
    (links / "best").symlink_to(jobs / "18")
    (links / "latest").symlink_to(links / "own")
    (links / "up").symlink_to(tmp_path)
    (links / "same").symlink_to(jobs / "18")
    found = discover([str(links)])
    assert sorted(one.name.raw for one in found.found) == ["best", "own"]


@each_row("around", ["all", "whole"])
def test_a_link_to_a_folder_around_that_of_another_link_hides_no_run(tmp_path, around):
    jobs, links = tmp_path / "jobs", tmp_path / "links"
    for name in ("17", "18"):
        rows(jobs / name / "metrics.jsonl")
    (jobs / "18" / "up").symlink_to(tmp_path)
    links.mkdir()
    (links / around).symlink_to(jobs)
    (links / "best").symlink_to(jobs / "18")
    found = discover([str(links)]).found
    assert sorted(os.path.realpath(one.path) for one in found) == [
        str(jobs / n / "metrics.jsonl") for n in ("17", "18")
    ]


def test_the_folder_above_jobs_of_several_streams_has_a_run_for_each(tmp_path):
    trinity(tmp_path / "exp" / "a", steps=5)
    rlinf(tmp_path / "exp" / "b", steps=5, ranks=2)
    found = {str(each.name): each for each in discover([str(tmp_path)]).found}
    assert sorted(found) == ["a", "b"]
    assert [len(each.other_streams) for _, each in sorted(found.items())] == [1, 4]


def test_wandb_runs_are_put_together_by_the_names_in_them(tmp_path):
    for i, part in enumerate(("explorer", "trainer")):
        folder = tmp_path / "wandb" / f"offline-run-20261121_01000{i}-id{i}"
        folder.mkdir(parents=True)
        data = block_log(run_record({}, f"math_{part}"), *(history({"_step": s, f"{part}/x": 1.0}) for s in range(5)))
        (folder / f"run-id{i}.wandb").write_bytes(data)
    (run,) = discover([str(tmp_path)]).found
    assert (str(run.name), run.role, [each.role for each in run.other_streams]) == ("math", "trainer", ["explorer"])


@each_row("hole", [4096, 200_000, 40 * 1024 * 1024])
def test_a_file_that_begins_with_a_hole_is_judged_by_what_stands_behind_it(tmp_path, hole):
    written = rows(tmp_path / "metrics.jsonl", 3).read_bytes()
    with (tmp_path / "metrics.jsonl").open("wb") as file:
        file.seek(hole)
        file.write(written)
    assert [each.path for each in discover([str(tmp_path)]).found] == [str(tmp_path / "metrics.jsonl")]
    assert discover([str(tmp_path / "metrics.jsonl")]).found


def test_rows_with_holes_between_them_are_not_taken_for_samples(tmp_path):
    with (tmp_path / "metrics.jsonl").open("wb") as file:
        for step in range(40):
            file.write(b'{"step": %d, "loss": 1.5}\n' % step)
            file.seek(100_000, 1)
    for path in (tmp_path, tmp_path / "metrics.jsonl"):
        assert [each.path for each in discover([str(path)]).found] == [str(tmp_path / "metrics.jsonl")]


def test_a_file_of_nothing_but_a_hole_is_passed_over_until_it_holds_more(tmp_path):
    with (tmp_path / "metrics.jsonl").open("wb") as file:
        file.truncate(1024 * 1024)
    found = discover([str(tmp_path)])
    assert found.passed_over == [(str(tmp_path / "metrics.jsonl"), "only NUL bytes so far")]
    assert discover([str(tmp_path / "metrics.jsonl")]).found
    with (tmp_path / "metrics.jsonl").open("r+b") as file:
        file.write(b'{"step": 1, "loss": 1.5}\n')
    assert discover([str(tmp_path)], seen=found.seen).found


def test_looking_for_ranges_beside_many_runs_is_progress_too(tmp_path, monkeypatch):
    for name in "abcdef":
        rows(tmp_path / name / "metrics.jsonl")
    so_far, counted = Discovery(), []

    def read(path, note):
        counted.append(so_far.opened)
        return read_ranges(path, note)

    monkeypatch.setattr("rltop.run.discover.read_ranges", read)
    discover([str(tmp_path)], into=so_far)
    assert counted == sorted(set(counted)) and len(counted) == 6


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, zstandard.compress], ids=["gz", "bz2", "zst"])
@pytest.mark.parametrize("count", [3, 1000])
def test_what_is_compressed_is_found_in_a_directory(tmp_path, pack, count):
    noise = random.Random(0)
    lines = (json.dumps({"step": i, **{f"m/{key}": noise.random() for key in range(20)}}) for i in range(count))
    packed = tmp_path / "old" / "metrics.jsonl.gz"
    packed.parent.mkdir()
    packed.write_bytes(pack("".join(line + "\n" for line in lines).encode()))
    assert [each.path for each in discover([str(tmp_path)]).found] == [str(packed)]


@each_row("pack", [gzip.compress, bz2.compress, zstandard.compress], ids=["gz", "bz2", "zst"])
def test_damage_at_the_beginning_of_what_is_compressed_is_said(tmp_path, pack):
    rows(tmp_path / "a" / "metrics.jsonl")
    damaged = tmp_path / "b" / "metrics.jsonl.gz"
    damaged.parent.mkdir()
    damaged.write_bytes(pack(bytes(range(256)) * 40)[:20] + b"damage" * 10)
    found = discover([str(tmp_path)])
    assert len(found.found) == 1
    assert [path for path, _ in found.left_out] == [str(damaged)]


def test_a_small_file_that_would_unpack_to_gigabytes_is_not_unpacked_to_its_end(tmp_path):
    rows(tmp_path / "a" / "metrics.jsonl")
    (tmp_path / "bomb.jsonl.zst").write_bytes(zstandard.compress(bytes(1024 * 1024)) * 20_000)
    began = time.process_time()
    found = discover([str(tmp_path)])
    assert time.process_time() - began < 5
    assert [path for path, _ in found.passed_over] == [str(tmp_path / "bomb.jsonl.zst")]


@each_row("name", ["events.out.tfevents.1.x", "run-a.wandb"])
def test_a_damaged_file_of_records_does_not_stand_for_the_newest_run(tmp_path, name):
    run = rows(tmp_path / "a" / "metrics.jsonl")
    damaged = tmp_path / "b" / name
    damaged.parent.mkdir()
    damaged.write_bytes(b":W&B" + bytes(range(256)) * 20)
    os.utime(run, (1, 1))
    found = discover([str(tmp_path)])
    assert [each.path for each in found.found] == [str(run)]
    assert [path for path, _ in found.left_out] == [str(damaged)]
    assert discover([str(damaged)]).found
    # One of which nothing has been written yet, and one whose bytes a server has not sent yet, may be whole.
    damaged.write_bytes(b":W&B\xe1\xbe" if "wandb" in name else bytes(100))
    assert str(damaged) in [each.path for each in discover([str(tmp_path)]).found]


@pytest.mark.timeout(10)
def test_what_has_taken_the_place_of_a_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "metrics.jsonl")
    with pytest.raises(OSError, match="a named pipe"):
        sniff(str(tmp_path / "metrics.jsonl"))


INTERNAL = '{"time":"2026-11-21T01:02:03.4Z","level":"INFO","msg":"flowcontrol: backed up","recordNumber":67}\n'


@each_row("passed", ["", "wandb", "wandb/offline-run-20261121_010203-abc"])
def test_logs_of_a_tracker_are_passed_over_and_its_run_is_found(tmp_path, passed):
    home = tmp_path / "wandb" / "offline-run-20261121_010203-abc"
    (home / "logs").mkdir(parents=True)
    run = home / "run-abc.wandb"
    run.write_bytes(block_log(run_record({}), *(history({"_step": s, "train/reward": s / 7}) for s in range(9))))
    logs = [
        home / "logs" / "debug-internal.log",
        home / "logs" / "debug.log",
        tmp_path / "wandb" / "debug-internal.log",
    ]
    for log in logs:
        log.write_text("".join(INTERNAL.replace("67", str(i)) for i in range(50)))
    found = discover([str(tmp_path / passed)])
    assert [each.path for each in found.found] == [str(run)]
    assert "written by W&B for itself" in {reason for _, reason in found.passed_over}
    for log in logs:
        with pytest.raises(SourceError, match="written by W&B for itself"):
            discover([str(log)])


@each_row(
    ("log", "whose"),
    [
        ("swanlog/run-20261121_010203-abc/debug/debug.log", "SwanLab"),
        ("swanlog/run-20261121_010203-abc/logs/loss/1000.log", "SwanLab"),
        ("ray/session_2026-11-21_01-02-03_123456_7/logs/export_events/event_EXPORT_TASK.log", "Ray"),
        ("ray/session_2026-11-21_01-02-03_123456_7/logs/monitor.log", "Ray"),
        ("wandb/run-20261121_010203-abc/files/wandb-summary.json", "W&B"),
    ],
)
def test_what_another_tracker_or_ray_logs_of_itself_is_no_run(tmp_path, log, whose):
    path = tmp_path / log
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps({"_step": i, "data": i / 7}) + "\n" for i in range(50)))
    found = discover([str(tmp_path)])
    assert not found.found and found.passed_over == [(str(path), f"written by {whose} for itself")]


@each_row(
    "log",
    [
        "ray/session_2026-11-21_01-02-03_123456_7/logs/worker-ab-01000000-12.out",
        "wandb/run-20261121_010203-abc/files/output.log",
        "logs/train.log",
    ],
)
def test_what_the_run_itself_prints_there_is_one(tmp_path, log):
    path = tmp_path / log
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{{'loss': {1 / i}, 'reward': {i / 7}, 'epoch': {i / 10}}}\n" for i in range(1, 20)))
    assert [each.path for each in discover([str(tmp_path)]).found] == [str(path)]


LOG = [{"step": i, "reward": i / 7, "loss": 1 / i} for i in range(1, 60)]
HISTORIES = {
    "trainer_state_1000steps.json": {"global_step": 59, "log_history": LOG, "max_steps": 100},
    "step_logs.json": LOG,
    "history.json": {"train_loss": [1 / i for i in range(1, 60)], "reward_mean": [i / 7 for i in range(1, 60)]},
    "result.json": {"experiment": "a", "seed": 42, "history": [{"reward": i / 7, "kl": 0.01} for i in range(9)]},
    "long.json": [{"step": i, "reward": i / 7, **{f"time/{key}": i / 3 for key in range(40)}} for i in range(900)],
}


@each_row("name", HISTORIES)
@each_row("indent", [None, 2])
def test_a_history_as_a_json_document_is_found_in_its_folder(tmp_path, name, indent):
    path = tmp_path / "run" / name
    path.parent.mkdir()
    path.write_text(json.dumps(HISTORIES[name], indent=indent))
    assert [each.path for each in discover([str(tmp_path)]).found] == [str(path)]
    assert [each.path for each in discover([str(path)]).found] == [str(path)]


OTHERS = {
    "config.json": {"model_type": "llama", "hidden_size": 4096, "layers": [1, 2, 3], "rope_scaling": {"factor": 8.0}},
    "tokenizer.json": {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": f"<{i}>", "special": True} for i in range(20)],
        "model": {"vocab": {f"w{i}": i for i in range(20_000)}},
    },
    "train.json": [{"instruction": "a", "input": "", "output": "b", "score": i / 7} for i in range(50)],
    "dataset.json": [{"id": i, "question": "a", "answer": "b"} for i in range(50)],
    "scores.json": [{"prompt": "a", "completion": "b", "step": i, "reward": 1.5} for i in range(50)],
    "completions.table.json": {"columns": ["step", "prompt", "completion", "reward"], "data": [[1, "a", "b", 0.5]] * 9},
    "all_results.json": {"epoch": 3.0, "train_loss": 0.5, "train_runtime": 99.5},
    "steps.json": [{"step": i // 16, "reward": i / 7, "length": 20} for i in range(200)],
    "index.json": [{"shard": i, "bytes": 1000 + i} for i in range(50)],
}


@each_row("name", OTHERS)
@each_row("indent", [None, 2])
def test_settings_datasets_and_samples_as_json_documents_are_no_runs(tmp_path, name, indent):
    (tmp_path / name).write_text(json.dumps(OTHERS[name], indent=indent))
    found = discover([str(tmp_path)])
    assert not found.found
    assert [path for path, _ in found.passed_over] == [str(tmp_path / name)]


def test_of_a_large_json_document_only_the_beginning_is_read(tmp_path):
    path = tmp_path / "run.json"
    text = json.dumps([{"step": i, "reward": i / 7, "note": 'a "quoted, {word}"'} for i in range(30_000)], indent=1)
    path.write_text(text[:-9])
    assert len(text) > 2_400_000
    began = time.process_time()
    assert [each.path for each in discover([str(tmp_path)]).found] == [str(path)]
    assert time.process_time() - began < 1


TRACEBACK = (
    'Loading checkpoint shards\nTraceback (most recent call last):\n  File "train.py", line 9\nValueError: no GPU\n'
)


def test_a_log_that_died_before_the_first_step_is_found_where_there_is_no_other_file_of_the_run(tmp_path):
    log = tmp_path / "a" / "slurm-11.out"
    log.parent.mkdir()
    log.write_text("starting the trainer\n" * 20_000 + TRACEBACK)
    (tmp_path / "install.log").write_text("Building wheel\nTraceback (most recent call last):\nOSError: no space\n")
    (tmp_path / "notes.txt").write_text("train the reward model tomorrow\n")
    found = discover([str(tmp_path)])
    assert [each.path for each in found.found] == [str(log)]
    assert {reason for _, reason in found.passed_over} == {"text without a line of metrics"}
    rows(tmp_path / "a" / "logs" / "metrics.jsonl")
    found = discover([str(tmp_path)])
    assert [each.path for each in found.found] == [str(tmp_path / "a" / "logs" / "metrics.jsonl")]
    assert str(log) in [path for path, _ in found.passed_over]


@each_row("frame", ["", ", in <module>"])
@each_row("name", ["output", "console", "log.0", "nohup.out", "out.txt", "train.log", "slurm-7.err"])
def test_a_dead_log_is_found_in_its_folder_as_when_it_is_named(tmp_path, name, frame):
    log = tmp_path / "a" / name
    log.parent.mkdir()
    log.write_text(f'starting\nTraceback (most recent call last):\n  File "m.py", line 9{frame}\nValueError: no GPU\n')
    for path in (log, tmp_path):
        assert [each.path for each in discover([str(path)]).found] == [str(log)]


def test_of_json_documents_that_are_no_checkpoints_each_is_a_run(tmp_path):
    for name in ("seed_1.json", "seed_2.json", "checkpoint-5/trainer_state.json", "checkpoint-9/trainer_state.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        log = [{**row, "reward": row["reward"] + len(name) + int("2" in name)} for row in LOG]
        (tmp_path / name).write_text(json.dumps({"log_history": log}, indent=1))
    os.utime(tmp_path / "checkpoint-5/trainer_state.json", (1, 1))
    found = {os.path.relpath(each.path, tmp_path) for each in discover([str(tmp_path)]).found}
    assert found == {"seed_1.json", "seed_2.json", "checkpoint-9/trainer_state.json"}


@each_row(
    ("name", "text", "reason"),
    [
        ("a.jsonl", '{"seed": 4, "loss": [0.5, 0.25]}\n', "its rows have no step (seed, loss (2 values))"),
        ("a.jsonl", '{"step": "first", "note": "x"}\n', 'its rows have no step (step "first", note "x")'),
        ("a.jsonl", '{"step": 1, "note": "x"}\n{"step": 2, "note": "y"}\n', "its rows have a step and no number"),
        ("a.jsonl", '{"loss": 1}\n{"loss": 2}\n', "too few rows without a step to be told from samples"),
        ("letter.out", "Dear Sir ,\nI have seen it , and\nI am 8 .\n", "its rows have no number"),
        ("gpu.log", "1775834205,0, 4\n1775834206,0, 4\n", "a table whose first line names no columns"),
        ("rewards.json", "[0.5, 0.25, 0.75]", "numbers without the name of a metric"),
        ("a.log", "hello\nloss 0.5\n", "text without a line of metrics"),
        ("a.log", "step 3 reward 0.5 done\n", "numbers in no form that is read (step 3 reward 0.5 done)"),
        ("a.log", "'reward': '0.6'\n", "its rows have no step (reward; only the step is missing)"),
        ("a.json", '{\n"a": [\n<<<<<<< HEAD\n1\n=======\n2\n>>>>>>> b\n]}', "git conflict markers on line 3"),
        ("a.log", "a\nloss=2 kl=2\n", "its rows have no step (line 2: loss, kl; only the step is missing)"),
        ("a.log", "hello\n" * 100_000, "text without a line of metrics in its first and last 256 KiB"),
    ],
)
def test_why_a_file_is_no_metric_stream_is_said_as_it_is(tmp_path, name, text, reason):
    (tmp_path / name).write_text(text)
    told = sniff(str(tmp_path / name))[1]
    assert told.replace("line 1: ", "") == reason


@each_row("name", ["config.json", "args.json", "params.json", "training_args.json"])
def test_settings_on_one_line_are_no_run_of_a_folder(tmp_path, name):
    (tmp_path / name).write_text('{"lr": 0.0001, "steps": 100}\n')
    history = tmp_path / "step_logs.json"
    history.write_text(json.dumps([{"step": i, "loss": 1.0 / i} for i in range(1, 9)]))
    found = discover([str(tmp_path)])
    assert [one.path for one in found.found] == [str(history)]
    assert discover([str(tmp_path / name)]).found, "named, it is what was asked for"


_ANSWERS = [f"They have {word} apples, as four were eaten at noon" for word in ("six", "seven", "no", "two")]
_ROWS_OF_OBJECTS = [
    ([{"id": at, "question": text, "answer": at} for at, text in enumerate(_ANSWERS)], False),
    ([{"level": at, "reward": 0.5, "turns": 2, "output": text} for at, text in enumerate(_ANSWERS)], False),
    ([{"loss": 0.5, "reward": 0.1, "kl": 0.2, "output": text} for text in _ANSWERS], True),
    ([{"reward": 0.5, "turns": 2, "length": at, "note": "a b"[at % 2 :]} for at in range(4)], True),
    ([{"task": text[10:14], "score": 0.5} for text in _ANSWERS], False),
    ([{"time": f"2026-05-01T10:00:0{at}", "loss": 0.5} for at in range(4)], True),
    ([{"step": at, "question": text, "loss": 0.5} for at, text in enumerate(_ANSWERS)], True),
]


@each_row(("rows", "is_run"), _ROWS_OF_OBJECTS)
@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_objects_of_a_text_each_and_no_step_are_no_run_of_a_folder(tmp_path, rows, is_run, name):
    text = json.dumps(rows) if name == "a.json" else "".join(json.dumps(row) + "\n" for row in rows)
    (tmp_path / name).write_text(text)
    found = discover([str(tmp_path)])
    assert len(found.found) == is_run, found.passed_over
    assert discover([str(tmp_path / name)]).found


@each_row(
    ("text", "is_run"),
    [
        ("model,accuracy,reward\nbase,0.31,0.2\ngrpo,0.52,0.6\n", False),
        ("# Summary\nmodel;accuracy\nbase;0.31\n", False),
        ("id,question,answer\n0,What is 3 + 4?,7\n1,How many apples?,4\n", False),
        ("loss,reward,sample\n0.5,0.1,The answer is 4\n0.4,0.2,It must be five\n", True),
        ("time,loss\n2026-05-01 10:00:01,0.5\n2026-05-01 10:00:02,0.4\n", True),
        ("checkpoint,reward\ncheckpoint-100,0.5\ncheckpoint-200,0.6\n", True),
        ("split,loss\ntrain,0.5\neval,0.6\ntrain,0.4\n", True),
        ("step,note,loss\n1,first,0.5\n2,second,0.4\n", True),
        ("model,accuracy\n", True),
    ],
)
def test_a_table_of_one_row_for_each_model_or_sample_is_no_run_of_a_folder(tmp_path, text, is_run):
    file = tmp_path / "comparison.csv"
    file.write_text(text)
    found = discover([str(tmp_path)])
    assert [each.path for each in found.found] == [str(file)] * is_run
    assert [path for path, reason in found.passed_over if "one row for each" in reason] == [str(file)] * (not is_run)
    assert discover([str(file)]).found
