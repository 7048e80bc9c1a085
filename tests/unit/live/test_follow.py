"""Logs that grow, followed as a probe follows them: stuck ones are named within 5 s, healthy ones raise nothing."""

from __future__ import annotations

import gc
import json
import math
import os
import tracemalloc
from pathlib import Path
from typing import Any

from jobs_printed import CASES, case_name, printed, write
from tables import each_row

from rltop.integrations import JsonlWriter
from rltop.live.job import JobProbe, job_status, read_job_status
from rltop.live.judge import stuck_after_s
from rltop.live.log import LogReader
from rltop.live.phases import Phases
from rltop.live.probe import LogFacts
from rltop.live.traces import Traces, rows

LATE_S = 5.0


class Followed:
    """A log that grows on disk, and the probe that follows it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.probe = JobProbe(lambda: (str(path) if path.exists() else "", ""), "job")

    def write(self, data: bytes, at_s: float) -> None:
        with self.path.open("ab") as file:
            file.write(data)
        os.utime(self.path, (at_s, at_s))

    def told(self, now_s: float) -> LogFacts:
        (fact,) = self.probe.ask(now_s)
        assert isinstance(fact, LogFacts)
        return fact

    def state(self, now_s: float) -> str:
        return job_status(self.told(now_s), now_s).state


@each_row("case", [case for case in CASES if case["state"] == "stuck"], ids=case_name)
def test_a_stuck_job_is_named_within_five_seconds(case: dict[str, Any], tmp_path: Path) -> None:
    log, read, told = Followed(tmp_path / "train.log"), LogReader(), Phases()
    pieces = printed(case)
    until_s = [piece.time_s for piece in pieces[1:]] + [pieces[-1].time_s + case["silent"]]
    stuck_s = threshold_s = None
    for piece, next_s in zip(pieces, until_s, strict=True):
        log.write(piece.data, piece.time_s)
        for event in read.feed(piece.data, piece.time_s, is_recorded=False):
            told.take(event)
        now_s, line_s = piece.time_s, threshold(told)
        while now_s < next_s:
            # Second by second only where something is seen first, or decided; a tenth of the way there, or of the rest.
            near_s = math.inf if line_s is None else line_s - 4 * LATE_S
            if now_s == piece.time_s or near_s < now_s < near_s + 6 * LATE_S:
                now_s += 1.0
            else:
                end_s = near_s + 1.0 if now_s <= near_s < next_s else next_s
                now_s += max(2.0, min(end_s - now_s, max(2 * LATE_S, (end_s - now_s) / 10)))
            where = job_status(log.told(now_s), now_s)
            if line_s is not None and now_s >= line_s and threshold_s is None:
                threshold_s = line_s
            if where.state == "stuck" and stuck_s is None:
                stuck_s = now_s
    assert stuck_s is not None
    assert threshold_s is not None
    assert -1.0 <= stuck_s - threshold_s <= LATE_S


def threshold(phases: Phases) -> float | None:
    """When the job is stuck, by what has been printed so far: its open phases, else the step, without progress."""
    inner = [each for each in phases.innermost() if not each.is_wrap] or phases.innermost()
    if inner:
        return min(each.moved_s + stuck_after_s(phases, each.name, each.key) for each in inner)
    return None if phases.moved_s is None else phases.moved_s + stuck_after_s(phases, phases.open_step)


@each_row("case", CASES[::2], ids=case_name)
def test_a_log_that_was_there_and_grows_is_told_as_one_read_at_the_end(case: dict[str, Any], tmp_path: Path) -> None:
    log, whole = Followed(tmp_path / "train.log"), tmp_path / "whole.log"
    pieces = printed(case)
    half = len(pieces) // 2
    log.write(b"".join(piece.data for piece in pieces[:half]), pieces[max(0, half - 1)].time_s)
    for piece in pieces[half:]:
        assert log.state(piece.time_s) not in ("stuck", "dead") or case["state"] not in ("running", "finished")
        log.write(piece.data, piece.time_s)
    now_s = pieces[-1].time_s + case["silent"]
    log.told(pieces[-1].time_s)
    whole.write_bytes(log.path.read_bytes())
    os.utime(whole, (pieces[-1].time_s, pieces[-1].time_s))
    live, read = job_status(log.told(now_s), now_s), read_job_status(str(whole), [], "", now_s)
    assert live.state == case["state"]
    assert (live.state, live.phase_key, live.outstanding) == (read.state, read.phase_key, read.outstanding)


def test_nothing_is_told_anew_while_nothing_is_written(tmp_path: Path) -> None:
    log = Followed(tmp_path / "train.log")
    log.write(b"Timer train start\n", 1_000.0)
    assert log.told(1_000.0) is log.told(1_001.0)


def test_a_log_that_is_replaced_is_another_job(tmp_path: Path) -> None:
    log = Followed(tmp_path / "train.log")
    log.write(b"[2026-08-20 10:00:00] timer.py:32 - Timer actor_train start\n" * 3, 1_787_220_000.0)
    assert job_status(log.told(1_787_220_010.0), 1_787_220_010.0).phase_key == "train"
    log.path.unlink()
    log.write(b"[2026-08-20 10:00:20] timer.py:32 - Timer save_model start\n", 1_787_220_020.0)
    assert job_status(log.told(1_787_220_030.0), 1_787_220_030.0).phase_key == "checkpoint"


def test_phases_of_a_loop_and_rows_of_the_run_are_followed(tmp_path: Path) -> None:
    path, now_s = tmp_path / "metrics.jsonl", 1_787_220_000.0
    log = JsonlWriter(path, lambda: now_s)
    probe = JobProbe(lambda: ("", str(path)), "job")
    for step in range(1, 5):
        with log.phase("rollout"):
            now_s += 60.0
        log.log(step, {"loss": 0.5})
        probe.ask(now_s)
    log.phase("rollout").__enter__()
    now_s += 6.0
    (fact,) = probe.ask(now_s)
    assert isinstance(fact, LogFacts)
    found = job_status(fact, now_s)
    assert (found.state, found.phase_key, found.usual_s) == ("running", "generate", 60.0)
    assert [json.loads(line)["step"] for line in path.read_text().splitlines() if "step" in line] == [1, 2, 3, 4]


@each_row("has_phases", [True, False])
def test_a_closed_file_is_of_a_finished_run_until_somebody_goes_on(tmp_path: Path, *, has_phases: bool) -> None:
    path, now_s = tmp_path / "metrics.jsonl", 1_787_220_000.0
    probe = JobProbe(lambda: ("", str(path)), "job")

    def run(first: int) -> JsonlWriter:
        nonlocal now_s
        log = JsonlWriter(path, lambda: now_s)
        for step in range(first, first + 4):
            if has_phases:
                log.phase("rollout").__enter__().__exit__(None, None, None)
            now_s += 60.0
            log.log(step, {"loss": 0.5})
            probe.rows.extend(rows([(step, now_s)], None))
            found()
        return log

    def found(after_s: float = 0.0) -> tuple[str, str | None]:
        nonlocal now_s
        now_s += after_s
        (fact,) = probe.ask(now_s)
        assert isinstance(fact, LogFacts)
        where = job_status(fact, now_s)
        return where.state, where.phase_key

    log = run(1)
    assert found(6.0) == ("running", None)
    log.close()
    assert found(1_000.0) == ("finished", None)
    log = run(5)
    assert found(6.0) == ("running", None)
    assert found(2_000.0) == ("stuck", None)
    log.close()
    assert found(6.0) == ("finished", None)
    JsonlWriter(path, lambda: now_s).phase("rollout").__enter__()
    assert found(6.0) == ("running", "generate")
    assert found(9_000.0) == ("stuck", "generate")


def test_the_log_of_the_next_job_is_followed_where_the_first_is_silent(tmp_path: Path) -> None:
    now_s = 1_787_220_000.0
    probe = JobProbe(lambda: (max(map(str, tmp_path.glob("*.out")), default=""), ""), "job")
    assert [fact.last_line for fact in probe.ask(now_s) if isinstance(fact, LogFacts)] == [""]
    for number, name in ((123, "train"), (1_230, "save")):
        path = tmp_path / f"slurm-{number}.out"
        path.write_text(f"Timer {name} start\n")
        os.utime(path, (now_s, now_s))
    (tmp_path / "slurm-1230.out").rename(tmp_path / "slurm-124.tmp")
    (fact,) = probe.ask(now_s + 6.0)
    assert isinstance(fact, LogFacts)
    assert fact.last_line == "Timer train start"
    (tmp_path / "slurm-124.tmp").rename(tmp_path / "slurm-124.out")
    assert probe.ask(now_s + 10.0) == (fact,)
    (fact,) = probe.ask(now_s + 40.0)
    assert isinstance(fact, LogFacts)
    assert fact.last_line == "Timer save start"


def test_steps_that_rows_tell_are_remembered_while_no_log_is_found_and_when_one_is(tmp_path: Path) -> None:
    log = Followed(tmp_path / "train.log")
    log.probe.rows.extend(rows([(i, 10.0 * i) for i in range(1, 9)], None))
    for now_s in range(80, 120):
        assert log.state(float(now_s)) == "running", now_s
    log.write(b"Setting up\n", 120.0)
    for now_s in range(120, 200):
        assert log.told(float(now_s)).phases.step == 8, now_s


def test_the_last_checkpoint_beside_the_run_is_looked_for_once_a_minute(tmp_path: Path) -> None:
    asked: list[float] = []

    def saved() -> tuple[int, ...]:
        asked.append(1.0)
        return (1_700, 1_800)

    path, now_s = write(CASES[0], tmp_path)
    probe = JobProbe(lambda: (str(path), ""), "job", saved)
    for second in range(50):
        (told,) = probe.ask(now_s + second)
        assert isinstance(told, LogFacts)
        assert told.checkpoint == 1_800
    assert len(asked) == 1
    probe.ask(now_s + 61.0)
    assert len(asked) == 2


@each_row("front", ["3: ", "3:\t", "[rank3]: ", "(Worker pid=7, rank=3) ", "[default1]:[rank3]: "])
def test_the_rank_is_that_of_the_launcher_in_front(front: str) -> None:
    line = f"{front}[2026-03-24 06:20:10] timer.py:24 - Timer actor_train start\n"
    assert [event.rank for event in LogReader().feed(line.encode(), 0.0, is_recorded=False)] == [3]


def test_hours_of_traces_that_are_past_are_let_go(tmp_path: Path) -> None:
    folder, traces, held = tmp_path / "phases", Traces(), []
    folder.mkdir()
    spans = "".join(json.dumps({"name": "sample", "t0": at, "t1": at + 1.0, "pid": at}) + "\n" for at in range(100))
    tracemalloc.start()
    try:
        for hour in range(20):
            (folder / f"2026-01-01T{hour:02d}.jsonl").write_text(spans)
            assert sum(map(len, traces.in_folder(tmp_path))) == 2 * 100 * min(hour + 1, 4)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[-1] < 2 * held[7] + 200_000


def test_the_last_line_is_told_though_it_says_nothing_of_phases(tmp_path: Path) -> None:
    log = Followed(tmp_path / "train.log")
    log.write(b"Timer rollout start\n", 1_000.0)
    assert log.told(1_001.0).last_line == "Timer rollout start"
    log.write(b"a remark\n", 1_010.0)
    assert log.told(1_011.0).last_line == "a remark"
