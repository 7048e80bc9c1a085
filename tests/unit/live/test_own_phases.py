"""Phases that a loop of one's own tells by `JsonlWriter.phase`, as `rltop where` reads them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from screens import write_rows

from rltop.cli import main
from rltop.formats.jsonl import JsonlDecoder
from rltop.integrations import JsonlWriter

NOW_S = 1_787_190_000.0


class Loop:
    """A loop whose clock is told what the time is."""

    def __init__(self, path: Path, at_s: float) -> None:
        self.now_s = at_s
        self.log = JsonlWriter(path, lambda: self.now_s)

    def phase(self, name: str, took_s: float, rank: int | None = None) -> None:
        with self.log.phase(name, rank):
            self.now_s += took_s

    def steps(self, count: int) -> None:
        for step in range(1, count + 1):
            self.phase("rollout", 60.0)
            self.phase("train", 30.0)
            self.log.log(step, {"loss": 0.5})


def where(capsys: pytest.CaptureFixture[str], path: Path, now_s: float) -> Any:
    main(["where", "--json", str(path), "--now", str(now_s)])
    return json.loads(capsys.readouterr().out)


def test_an_open_phase_is_named_with_its_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(tmp_path / "metrics.jsonl", NOW_S)
    loop.steps(5)
    loop.log.phase("rollout", rank=3).__enter__()
    began_s = loop.now_s
    found = where(capsys, tmp_path / "metrics.jsonl", began_s + 100.0)
    assert (found["state"], found["phase_key"], found["since"], found["usual_s"]) == (
        "running",
        "generate",
        began_s,
        60,
    )
    found = where(capsys, tmp_path / "metrics.jsonl", began_s + 361.0)
    assert (found["state"], found["ranks"][0]["rank"]) == ("stuck", 3)


def test_ranks_with_files_of_their_own_are_read_beside_the_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Loop(tmp_path / "metrics.jsonl", NOW_S).steps(4)
    for rank in (1, 2):
        loop = Loop(tmp_path / f"phases-{rank}.jsonl", NOW_S)
        for _ in range(4):
            loop.phase("rollout", 60.0, rank)
            loop.phase("train", 30.0, rank)
        loop.phase("rollout", 60.0, rank)
        if rank == 2:
            loop.log.phase("train", rank).__enter__()
    found = where(capsys, tmp_path / "metrics.jsonl", NOW_S + 2_000.0)
    assert (found["state"], found["phase_key"]) == ("stuck", "train")
    assert [each["rank"] for each in found["ranks"]] == [2]
    assert where(capsys, tmp_path / "phases-2.jsonl", NOW_S + 2_000.0)["state"] == "stuck"


def test_an_exception_passes_and_is_the_cause_in_the_innermost_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = Loop(tmp_path / "metrics.jsonl", NOW_S)
    loop.steps(3)
    with pytest.raises(MemoryError), loop.log.phase("train"), loop.log.phase("save", rank=1):
        raise MemoryError("no space")
    found = where(capsys, tmp_path / "metrics.jsonl", loop.now_s + 100.0)
    assert (found["state"], found["cause"]) == ("running", "error logged: MemoryError: no space (rank 1)")
    found = where(capsys, tmp_path / "metrics.jsonl", loop.now_s + 301.0)
    assert (found["state"], found["phase_key"], found["cause"]) == (
        "dead",
        "checkpoint",
        "MemoryError: no space (rank 1)",
    )


def test_a_retry_takes_the_failure_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(tmp_path / "metrics.jsonl", NOW_S)
    loop.steps(3)
    with pytest.raises(TimeoutError), loop.log.phase("reward"):
        raise TimeoutError
    loop.now_s += 5.0
    loop.log.phase("reward").__enter__()
    assert where(capsys, tmp_path / "metrics.jsonl", loop.now_s + 50.0)["state"] == "running"


def test_what_a_killed_process_left_open_is_over_when_it_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "metrics.jsonl"
    killed = "import os, sys; from rltop.integrations import JsonlWriter\n"
    killed += f"with JsonlWriter(sys.argv[1], lambda: {NOW_S}).phase('checkpoint'): os.kill(os.getpid(), 9)"
    done = subprocess.run([sys.executable, "-c", killed, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert where(capsys, path, NOW_S + 50.0)["phase_key"] == "checkpoint"
    loop = Loop(path, NOW_S + 60.0)
    loop.phase("rollout", 5.0)
    loop.log.phase("train").__enter__()
    found = where(capsys, path, loop.now_s + 50.0)
    assert (found["state"], found["phase_key"]) == ("running", "train")


def test_threads_do_not_end_each_others_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    loop = Loop(tmp_path / "metrics.jsonl", NOW_S)
    loop.log.log(1, {"loss": 0.5})
    loop.log.phase("reward").__enter__()
    other = threading.Thread(target=loop.phase, args=("reward", 5.0))
    other.start()
    other.join()
    assert where(capsys, tmp_path / "metrics.jsonl", loop.now_s + 5.0)["phase_key"] == "reward"


def test_phases_are_no_rows_and_count_as_nothing(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    Loop(path, NOW_S).steps(3)
    decoder = JsonlDecoder()
    assert [record.step for record in decoder.feed(path.read_bytes(), 0, 0)] == [1, 2, 3]
    assert (decoder.counts.lines, decoder.counts.no_step_lines, decoder.counts.bad_lines) == (3, 0, 0)


@pytest.mark.parametrize("has_phases", [True, False])
def test_a_closed_file_is_of_a_finished_run_until_somebody_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, has_phases: bool
) -> None:
    path = tmp_path / "metrics.jsonl"

    def run(first: int) -> Loop:
        loop = Loop(path, NOW_S + 100.0 * first)
        for step in range(first, first + 5):
            if has_phases:
                loop.phase("rollout", 60.0)
            loop.now_s = NOW_S + 100.0 * step + 60.0
            loop.log.log(step, {"loss": 0.5})
        os.utime(path, (loop.now_s, loop.now_s))
        return loop

    def state(now_s: float) -> tuple[str, str]:
        decoder = JsonlDecoder()
        for at, byte in enumerate(path.read_bytes()):
            decoder.feed(bytes((byte,)), at, 0)
        return where(capsys, path, now_s)["state"], "over" if decoder.is_finished else "open"

    loop = run(1)
    assert state(loop.now_s + 1_000.0) == ("stuck", "open")
    loop.log.close()
    assert state(loop.now_s + 1_000.0) == ("finished", "over")
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    assert state(loop.now_s + 1_000.0) == ("stuck", "open")
    path.write_bytes(whole)
    again = run(6)
    assert state(again.now_s + 1.0) == ("running", "open")
    assert state(again.now_s + 1_000.0) == ("stuck", "open")
    again.log.close()
    assert state(again.now_s + 1.0) == ("finished", "over")
    loop = Loop(path, again.now_s + 5.0)
    loop.log.phase("rollout").__enter__()
    assert state(loop.now_s + 1.0) == ("running", "open")


def test_a_closed_file_beside_a_rank_that_goes_on_names_that_rank(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "metrics.jsonl"
    loop = Loop(path, NOW_S)
    loop.steps(5)
    loop.log.close()

    def told(*, ends: tuple[int, ...] = ()) -> tuple[str, str | None]:
        for rank in (1, 2):
            row = {"rltop_phase": "rollout", "begin": loop.now_s - 10.0, "rank": rank, "pid": rank, "host": "n"}
            rows = [row, {**row, "end": loop.now_s + 5.0}] if rank in ends else [row]
            write_rows(tmp_path / f"phases-{rank}.jsonl", rows)
        found = where(capsys, path, loop.now_s + 20.0)
        return found["state"], found["cause"]

    assert told() == ("finished", "ranks 1–2 still in rollout")
    assert told(ends=(1,)) == ("finished", "rank 2 still in rollout")
    assert told(ends=(1, 2)) == ("finished", None)


class Broken:
    """A name, a rank and an error that cannot be told."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.filterwarnings("ignore:rltop")
def test_it_never_raises_and_counts_what_is_lost(tmp_path: Path) -> None:
    log = JsonlWriter(tmp_path / "metrics.jsonl")
    name: Any = Broken()
    with log.phase(name, rank=name):
        pass
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["rltop_phase"] for line in lines] == ["<Broken object>"] * 2
    log.close()
    with log.phase("train"):
        pass
    assert log.lost == 2

    def no_clock() -> float:
        raise OSError("no clock")

    with JsonlWriter(tmp_path / "other.jsonl", no_clock).phase("train"):
        pass
    assert (tmp_path / "other.jsonl").stat().st_size == 0


def test_check_says_that_a_run_hangs_and_exits_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    loop = Loop(path, time.time() - 5 * 90.0 - 1_200.0)
    loop.steps(5)
    os.utime(path, (loop.now_s, loop.now_s))
    # Silent in no phase: it may have ended.
    assert (main(["check", str(path)]), main(["check", "--fail-on", "warn", str(path)])) == (0, 1)
    assert "▲ no new record for 20 min: look at the process" in capsys.readouterr().out
    loop.log.phase("rollout").__enter__()
    os.utime(path, (loop.now_s, loop.now_s))
    assert main(["check", str(path)]) == 1
    assert "▲ stuck: generating for 20 m" in capsys.readouterr().out
