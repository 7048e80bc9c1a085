"""The settings of a run are found in its own folder, and nowhere else."""

from __future__ import annotations

import os
from pathlib import Path

from rltop.clock import FakeClock
from rltop.formats.settings import MAX_BYTES
from rltop.run.run_settings import AGAIN_S, RunSettings, settings_near
from tests.screens import read_settings, session_over, write_rows


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_the_nearest_files_come_first_and_those_of_other_runs_not_at_all(tmp_path: Path) -> None:
    run = tmp_path / "runs_of_all" / "a"
    write(run / ".hydra" / "config.yaml", "lr: 1e-6\nseed: 1\n")
    write(run / "config.yaml", "lr: 5\nextra: 2\n")
    write(run.parent / "config.yaml", "not: ours\n")
    write(run.parent / "b" / "config.yaml", "not: ours\n")
    found = settings_near(str(run / "logs" / "metrics.jsonl"))
    assert found.values == {"lr": 1e-6, "seed": 1, "extra": 2}
    assert [Path(one.path).name for one in found.files] == ["config.yaml", "config.yaml"]
    assert [one.taken for one in found.files] == [2, 1]


def test_the_only_wandb_run_in_the_folder_is_the_run_and_of_two_none(tmp_path: Path) -> None:
    write(tmp_path / "wandb" / "run-20250101_000000-abc" / "files" / "config.yaml", "lr:\n  value: 1\n")
    assert settings_near(str(tmp_path / "metrics.jsonl")).values == {"lr": 1}
    write(tmp_path / "wandb" / "run-20250102_000000-def" / "files" / "config.yaml", "lr:\n  value: 2\n")
    assert not settings_near(str(tmp_path / "metrics.jsonl")).values


def test_files_that_cannot_be_used_are_named_and_the_others_read(tmp_path: Path) -> None:
    write(tmp_path / "config.json", "{")
    write(tmp_path / "config.yaml", "x: " + "y" * MAX_BYTES)
    write(tmp_path / "args.json", '{"lr": 1}')
    os.mkfifo(tmp_path / "params.json")
    write(tmp_path / "training_args.bin", "never opened")
    found = settings_near(str(tmp_path / "metrics.jsonl"))
    assert found.values == {"lr": 1}
    told = {Path(one.path).name: one.trouble for one in found.files if one.trouble}
    assert told.keys() == {"config.json", "config.yaml", "params.json"}
    assert "2 MiB" in told["config.yaml"]


def test_a_name_is_found_by_its_end_the_shortest_first() -> None:
    settings = RunSettings({"critic.model.optim.lr": 1, "actor.optim.lr": 2, "lr_warmup": 3})
    assert settings.find("lr") == ["actor.optim.lr", "critic.model.optim.lr"]
    assert settings.find("actor/optim/lr") == ["actor.optim.lr"]
    assert settings.find("r") == []


def test_a_session_reads_them_in_a_thread_and_says_so(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", [{"step": 1, "loss": 1.0}])
    write(tmp_path / "config.yaml", "lr: 1e-6\n")
    session = session_over(path)
    session.drain()
    before = session.version
    read_settings(session)
    assert session.runs[0].settings is not None and session.runs[0].settings.values == {"lr": 1e-6}
    assert session.version != before


def test_a_file_that_is_written_later_is_read_and_one_that_was_not_is_left_alone(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", [{"step": 1, "loss": 1.0}])
    clock = FakeClock()
    session = session_over(path, clock=clock)
    session.drain()

    def looked() -> RunSettings:
        clock.advance(AGAIN_S)
        read_settings(session)
        assert session.runs[0].settings is not None
        return session.runs[0].settings

    assert not looked().values
    before = session.version, session.runs[0].version
    write(tmp_path / "config.yaml", "lr: 1e-6\n")
    first = looked()
    assert first.values == {"lr": 1e-6}
    assert session.version != before[0] and session.runs[0].version != before[1]
    assert looked() is first
    write(tmp_path / "config.yaml", "lr: 0.00002\n")
    assert looked().values == {"lr": 0.00002}
    # Not before its time, whoever asks.
    write(tmp_path / "config.yaml", "lr: 0.5\n")
    read_settings(session)
    assert session.runs[0].settings is not None and session.runs[0].settings.values == {"lr": 0.00002}


def test_a_log_that_grows_is_no_reason_to_read_its_settings_again(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", [{"step": 1, "loss": 1.0}])
    log = tmp_path / "tb" / "events.out.tfevents.1.node"
    write(log, "x" * 300_000)
    clock = FakeClock()
    session = session_over(path, clock=clock)
    session.drain()
    read_settings(session)
    first = session.runs[0].settings
    with log.open("a") as file:
        file.write("x" * 300_000)
    clock.advance(AGAIN_S)
    read_settings(session)
    assert session.runs[0].settings is first


def test_what_verl_prints_when_it_begins_is_its_settings(tmp_path: Path) -> None:
    ray = "\x1b[36m(main_task pid=194)\x1b[0m "
    printed = [
        "{'actor_rollout_ref': {'actor': {'clip_ratio': 0.2,",
        "                                 'name': 'a } that is text',",
        "                                 'path': ('one ' 'text')}},",
        " 'data': {'files': ['a.parquet', 'b.parquet'], 'seed': None}}",
    ]
    lines = ["INFO worker.py:1841 -- Started a local Ray instance.", ray + printed[0], "Loading: 50%|###"]
    lines += [f"{ray}WARNING: waiting {{0 of 300 s", *(ray + line for line in printed[1:])]
    lines += [ray + "step:1 - critic/rewards/mean:0.1"]
    log = write(tmp_path / "slurm-1.out", "\n".join(lines))
    assert settings_near(str(log)).values == {
        "actor_rollout_ref.actor.clip_ratio": 0.2,
        "actor_rollout_ref.actor.name": "a } that is text",
        "actor_rollout_ref.actor.path": "one text",
        "data.files": "[a.parquet, b.parquet]",
        "data.seed": None,
    }


def test_what_is_no_printed_settings_is_left_alone(tmp_path: Path) -> None:
    for text in (
        "{'loss': 0.5, 'lr': 1e-6}\n" * 50,
        "{'a': {'b': 1,\n" * 2_000,
        "{'a': {'b': nan}}\n",
        "{'a': {'b': __import__('os').getcwd()}}\n",
        "{'a': {'b': " + "[" * 5_000 + "]" * 5_000 + "}}\n",
    ):
        assert not settings_near(str(write(tmp_path / "train.log", text))).values
