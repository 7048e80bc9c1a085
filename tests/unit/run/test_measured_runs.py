"""Runs whose files say when stages began and ended: one run, true spans, and ranks that are compared by them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from binary_files import event, frame, value, version_event
from telescope_run import TelescopeRun
from trace_run import START_US, embodied

from rltop.cli.open_session import direct, read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.pages.stages import TimingView, build_timing, paint_stages
from rltop.rows.glyphs import UNICODE
from rltop.run.discover import discover
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot


def read(folder: Path) -> Run:
    found = discover([str(folder)]).found
    assert len(found) == 1, [each.path for each in found]
    clock = FakeClock()
    session = Session(found, direct(clock), clock)
    session.drain()
    return session.runs[0]


def rlinf(folder: Path, slow_rank: int = -1) -> Path:
    """What RLinf leaves: metrics for TensorBoard, and below a folder of the experiment the trace."""
    trace = folder / "experiment" / "trace" / "trace_events.jsonl"
    trace.parent.mkdir(parents=True)
    trace.write_bytes(embodied(range(12), slow_rank=slow_rank).lines())
    board = folder / "tensorboard" / "events.out.tfevents.1790000000.node.1.0"
    board.parent.mkdir()
    rows = [
        event(
            step, value("time/step", 9.5), value("env/success_once", 0.5), value("time/sync_weights", 0.5),
            wall=START_US / 1e6 + 10 * step + 9.6,
        )
        for step in range(12)
    ]  # fmt: skip
    board.write_bytes(b"".join(map(frame, [version_event(), *rows])))
    return folder


def timing(run: Run, at: int | None = None) -> TimingView:
    view = build_timing(Snapshot(run, at))
    assert view is not None
    return view


def test_a_telescope_run_is_one_run_with_its_own_dialect(tmp_path: Path) -> None:
    TelescopeRun().add_steps(range(30)).write(tmp_path / "wandb" / "run-20260101_100000-abc" / "files")
    run = read(tmp_path)
    assert run.main.identity.dialect.name == "Telescope"
    assert run.main.stream.rows == 30
    assert not run.main.stream.restarts
    assert run.counts.bad_lines == 0


def test_its_groups_are_as_large_as_its_samples_say(tmp_path: Path) -> None:
    run = read(TelescopeRun(group_size=6).add_steps(range(25)).write(tmp_path))
    assert run.main.identity.group_size == 6


def test_its_waterfall_is_measured(tmp_path: Path) -> None:
    run = read(TelescopeRun().add_steps(range(30)).write(tmp_path))
    view = timing(run, 20)
    assert view.is_measured
    assert not view.is_assumed
    assert view.step == 20
    assert [stage.name.raw for stage in view.top][:3] == ["waiting_for_data", "data_to_device", "forward"]
    assert view.total_s == pytest.approx(run.main.stream.row(20)["timing_step_total"], abs=1e-3)
    forward = next(stage for stage in view.top if stage.name.raw == "forward")
    assert len(forward.parts) == 2
    assert forward.duration_s == pytest.approx(run.main.stream.row(20)["timing_forward_total"], abs=1e-3)
    rows = [row.text for row in paint_stages(view, 100, 20, UNICODE)]
    assert "start and end measured" in rows[0]
    bar = next(row for row in rows if "forward" in row)[36:].strip()
    assert " " in bar, "two microbatches, with the backward pass between them"


@pytest.mark.parametrize("slow_rank", [-1, 1])
def test_a_slow_rank_is_named_with_its_stage(tmp_path: Path, slow_rank: int) -> None:
    run = read(TelescopeRun(ranks=4, slow_rank=slow_rank).add_steps(range(16)).write(tmp_path))
    assert run.ranks.is_measured
    fired = [verdict for verdict in run.verdicts if verdict.rule == "P15"]
    assert len(fired) == (slow_rank >= 0)
    for verdict in fired:
        assert "trainer rank 1" in verdict.headline
        assert "forward" in verdict.headline


def test_a_trace_stands_beside_the_metrics_of_its_run(tmp_path: Path) -> None:
    run = read(rlinf(tmp_path / "run", slow_rank=3))
    assert [part.role for part in run.other_streams] == ["trace"]
    assert run.main.stream.has("env/success_once")
    assert not run.main.stream.has("time/env/interact")
    view = timing(run)
    assert view.is_measured
    assert view.stream.raw == "trace"
    assert view.step == 11
    assert any("ActorGroup rank 3" in verdict.headline for verdict in run.verdicts)


def test_the_cursor_finds_the_step_of_the_trace_by_time(tmp_path: Path) -> None:
    run = read(rlinf(tmp_path / "run"))
    assert timing(run, 5).step == 5


def test_a_trace_alone_is_a_run(tmp_path: Path) -> None:
    path = tmp_path / "trace_events.jsonl"
    path.write_bytes(embodied(range(9)).lines())
    run = read(tmp_path)
    assert run.main.identity.dialect.name == "RLinf"
    assert run.main.stream.rows == 9


def test_a_trace_that_is_named_is_judged_by_its_ranks_too(tmp_path: Path) -> None:
    path = tmp_path / "trace_events.jsonl"
    path.write_bytes(embodied(range(12), slow_rank=1).lines())
    (run,) = read_whole(str(path), Config(), FakeClock()).runs
    assert [verdict.rule for verdict in run.verdicts] == ["P15"]
    assert "ActorGroup rank 1" in run.verdicts[0].headline


def test_a_live_run_goes_on_where_it_was(tmp_path: Path) -> None:
    """Archives are written anew while they are followed; one look finds half of a file."""
    tables = TelescopeRun(groups=2).add_steps(range(9))
    tables.write(tmp_path, last=4)
    clock = FakeClock()
    session = Session(discover([str(tmp_path)]).found, direct(clock), clock)
    (run,) = session.runs

    def look(seconds: float = 6.0) -> None:
        for _ in range(3):
            clock.advance(seconds / 3)
            while session.step(1e9):
                pass

    look()
    assert run.main.stream.last_step == 4
    tables.write(tmp_path, last=6)
    whole = (tmp_path / "steps" / "tail.zip").read_bytes()
    (tmp_path / "steps" / "tail.zip").write_bytes(whole[:3000])
    (tmp_path / "steps" / "block_live.zip").write_bytes(b"")
    look()
    assert run.main.stream.last_step == 4
    (tmp_path / "steps" / "tail.zip").write_bytes(whole)
    os.utime(tmp_path / "steps" / "tail.zip", (clock.now(), clock.now()))
    look()
    assert run.main.stream.last_step == 6
    tables.write(tmp_path)
    look()
    run.finish()
    assert run.main.stream.rows == 9
    assert not run.main.stream.restarts
    assert run.main.stream.counts.repeated_rows == 0
