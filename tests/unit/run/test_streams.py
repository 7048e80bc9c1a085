"""Runs of several streams: which files they are, and that no arrival of the bytes changes what is found."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from programs import said_here

from rltop.clock import FakeClock
from rltop.formats.kinds import CONSOLE, JSONL, TENSORBOARD, WANDB
from rltop.report.document import check_document
from rltop.run.discover import discover
from rltop.run.grouping import group
from rltop.run.places import FoundRun, name_of
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.feed import DirectFeed
from tests.run_folders import rlinf, trinity


def found(path, kind, modified_s=0.0):
    return FoundRun(path, name_of(path), 10, modified_s, kind)


def shape(run):
    return (run.role, [(each.role, each.is_rank) for each in run.other_streams])


def test_parts_with_steps_of_their_own_are_streams_of_one_run_and_the_trainer_leads():
    folder = "/out/job/monitor/tensorboard"
    (run,) = group(
        [found(f"{folder}/{part}/events.out.tfevents.1.h", TENSORBOARD) for part in ("explorer", "trainer")]
    ).runs
    assert shape(run) == ("trainer", [("explorer", False)])
    assert str(run.name) == "job"


def test_parts_may_have_any_name_where_the_folder_says_that_they_are_parts():
    folder = "/out/job/monitor/tensorboard"
    (run,) = group([found(f"{folder}/{part}/events.out.tfevents.1.h", TENSORBOARD) for part in ("my_e", "my_t")]).runs
    assert shape(run) == ("my_e", [("my_t", False)])


def test_a_folder_named_like_a_part_is_a_run_where_no_other_part_stands_beside_it():
    grouped = group([found("/out/trainer/metrics.jsonl", JSONL), found("/out/a/metrics.jsonl", JSONL)])
    assert sorted(str(run.name) for run in grouped.runs) == ["a", "trainer"]
    assert all(not run.other_streams and not run.role for run in grouped.runs)


def test_logs_of_parts_are_streams_of_one_run():
    (run,) = group([found(f"/out/job/log/{part}.log", CONSOLE) for part in ("explorer", "trainer")]).runs
    assert shape(run) == ("trainer", [("explorer", False)])


def test_every_rank_of_every_group_stands_beside_the_whole():
    files = [found("/out/job/tensorboard/all/events.out.tfevents.1.h", TENSORBOARD)]
    files += [
        found(f"/out/job/worker_logs/{worker}/rank_{rank}/tensorboard/events.out.tfevents.1.h", TENSORBOARD)
        for worker in ("Env", "Actor")
        for rank in range(11)
    ]
    (run,) = group(files).runs
    assert str(run.name) == "job"
    assert [each.role for each in run.other_streams] == [f"{w} rank {r}" for w in ("Actor", "Env") for r in range(11)]
    assert all(each.is_rank for each in run.other_streams)


def test_ranks_without_a_whole_are_led_by_the_first_of_them():
    (run,) = group([found(f"/out/job/metrics_rank{rank}.jsonl", JSONL) for rank in (1, 0)]).runs
    assert run.path.endswith("rank0.jsonl")
    assert [each.role for each in run.other_streams] == ["rank 0", "rank 1"]


def test_a_rank_whose_rows_end_before_those_of_the_others_is_named(tmp_path: Path) -> None:
    def at_end(last: int) -> str:
        for rank in range(4):
            rows = [
                {"step": n, "loss": 1.0 / n, "timing_s/update": 1.0} for n in range(1, (last if rank == 3 else 60) + 1)
            ]
            (tmp_path / f"rank_{rank}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        return said_here("--once", str(tmp_path))[1]

    assert "4 ranks, rank 3 at step 45, others at 60" in at_end(45)
    assert "others at" not in at_end(58)


def test_once_a_job_hangs_the_rank_that_is_a_step_short_is_named_wherever_that_is_said(tmp_path: Path) -> None:
    newest_s = time.time() - 1_200.0
    for rank in range(4):
        rows = [
            {"step": n, "time": newest_s - 2.0 * (60 - n), "loss": 1.0 / n, "timing_s/gen": 1.0 + 2.0 * (rank == 2)}
            for n in range(1, 60 if rank == 2 else 61)
        ]
        path = tmp_path / f"rank_{rank}.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        os.utime(path, (newest_s, newest_s))
    words = "rank 2 at step 59, others at 60"
    once = said_here("--once", "--width", "200", str(tmp_path))[1].splitlines()
    assert once[1].startswith(" ▲ no new record for 20 min: " + words), "before what else is wrong: a slow rank"
    assert words in next(line for line in once if "STREAMS" in line)
    assert words in said_here("where", str(tmp_path))[1] and words in said_here("check", str(tmp_path))[1]


def test_event_files_below_others_are_streams_only_if_begun_while_those_were_written():
    outer = found("/r/events.out.tfevents.1700000000.h", TENSORBOARD, 1_700_003_000.0)
    inner = found("/r/loss_kl/events.out.tfevents.1700000100.h", TENSORBOARD, 1_700_003_000.0)
    later = found("/r/next/events.out.tfevents.1700900000.h", TENSORBOARD, 1_700_903_000.0)
    runs = group([outer, inner, later]).runs
    assert [shape(run) for run in runs] == [("", []), ("", [("loss_kl", False)])]


def test_wandb_runs_named_after_parts_are_one_run_and_a_resumed_one_is_one_stream():
    folder = "/out/wandb"
    files = [
        found(f"{folder}/run-20261121_0{i}0000-{run_id}/run-{run_id}.wandb", WANDB, i)
        for i, run_id in enumerate(("aaa", "bbb", "bbb"), 1)
    ]
    titles = {each.path: "grpo_explorer" if "aaa" in each.path else "grpo_trainer" for each in files}
    (run,) = group(files, titles).runs
    assert shape(run) == ("trainer", [("explorer", False)])
    assert str(run.name) == "grpo"
    assert [Path(path).parent.name for path in run.paths] == ["run-20261121_020000-bbb", "run-20261121_030000-bbb"]


def test_logs_of_parts_on_several_nodes_are_one_run():
    logs = [found(f"/out/job/log/10.0.0.{i}/{role}.log", CONSOLE, i) for i, role in enumerate(("explorer", "trainer"))]
    (run,) = group(logs).runs
    assert shape(run) == ("trainer", [("explorer", False)])
    assert str(run.name) == "job"


class _Pieces(DirectFeed):
    """Gives out a few bytes at a time."""

    size = 700

    def take(self, max_bytes):
        return super().take(min(max_bytes, self.size))


def read(folder, feed=DirectFeed, order=None):
    runs = discover([str(folder)]).found
    if order is not None:
        runs = [order(run) for run in runs]
    clock = FakeClock()
    session = Session(runs, lambda path, lines: feed(path, clock=clock, last=lines), clock)
    session.drain()
    (run,) = session.runs
    return run


def test_streams_keep_their_own_steps_and_rows(tmp_path):
    run = read(trinity(tmp_path / "job"))
    assert (run.main.stream.last_step, run.main.stream.rows) == (60, 60)
    (explorer,) = run.other_streams
    assert (explorer.role, explorer.stream.last_step, explorer.stream.rows) == ("explorer", 90, 90)
    assert not set(run.main.stream.keys) & set(explorer.stream.keys)
    assert Snapshot(run).within("explorer").source is explorer
    assert Snapshot(run).within("").source is run


def test_the_time_cursor_goes_over_to_another_stream_by_time(tmp_path):
    run = read(trinity(tmp_path / "job"))
    assert Snapshot(run, 20).within("explorer").at_step == 30
    assert Snapshot(run).within("explorer").at_step is None
    assert Snapshot(run, 20).within("").at_step == 20
    assert [one.at_step for one in Snapshot(run, 20).streams] == [20, 30]


def test_the_slow_rank_is_named_and_a_healthy_job_is_not_accused(tmp_path):
    slow = read(rlinf(tmp_path / "slow"))
    (verdict,) = [one for one in slow.verdicts if one.rule == "P15"]
    assert "EnvGroup rank 3" in verdict.headline
    assert "interact" in verdict.headline
    assert verdict.since_step == 20
    (stage, *_) = slow.ranks.summary()
    assert (stage.group, stage.slowest, len(stage.ranks)) == ("EnvGroup", "EnvGroup rank 3", 8)
    assert stage.behind_s == pytest.approx(15.0, rel=0.1)
    healthy = read(rlinf(tmp_path / "healthy", slow=None))
    assert not [one for one in healthy.events if one.rule == "P15"]


@pytest.mark.parametrize("make", [trinity, rlinf])
def test_no_arrival_of_the_bytes_changes_what_is_found(tmp_path, make):
    folder = make(tmp_path / "job")
    whole, pieces = read(folder), read(folder, _Pieces)
    assert check_document(Snapshot(whole)) == check_document(Snapshot(pieces))
    assert whole.ranks is None or whole.ranks.summary() == pieces.ranks.summary()


def test_a_rank_that_stopped_writing_long_ago_does_not_hold_up_the_others(tmp_path):
    folder = rlinf(tmp_path / "job", ranks=4)
    rlinf(tmp_path / "old", steps=5, ranks=8)
    gone = tmp_path / "old/worker_logs/EnvGroup/rank_7"
    gone.rename(folder / "worker_logs/EnvGroup/rank_7")
    runs = discover([str(folder)]).found
    clock = FakeClock()
    session = Session(runs, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock)
    while session.step(1_000.0):
        pass
    assert session.runs[0].ranks.last_step == 37


def test_a_verdict_of_another_stream_says_whose_it_is(tmp_path):
    folder = trinity(tmp_path / "job")
    explorer = folder / "monitor/tensorboard/explorer"
    from tests.run_folders import write_events

    rows = [(step, 1_763_000_000.0 + 20 * step, {"rollout/accuracy/mean": 0.5}) for step in range(1, 91)]
    rows[70:] = [(step, wall, {"rollout/accuracy/mean": float("nan")}) for step, wall, _ in rows[70:]]
    write_events(explorer, rows)
    run = read(folder)
    own = [one for one in run.verdicts if one.stream == "explorer"]
    assert own
    assert own[0].headline.startswith("explorer: ")
    assert own[0].since_step == 71
    assert all(event.stream == "explorer" for event in run.events if event.rule == own[0].rule)
