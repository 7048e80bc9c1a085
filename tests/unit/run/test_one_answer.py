"""Is a job dead? Screen, runs, watch, check and `where` answer alike."""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs_printed import CASES, case_name, write
from programs import in_path
from ptys import PATIENCE_S
from tables import each_row

from rltop.cli import main
from rltop.cli.arguments import parse
from rltop.cli.open_session import direct, read_whole, runs_of
from rltop.cli.resolve_paths import load_config
from rltop.cli.where import read_path, status_of
from rltop.clock import Clock, FakeClock
from rltop.config import load
from rltop.integrations import JsonlWriter
from rltop.live.job import SourceResults, facts_from_files, job_status, read_job_status
from rltop.model import RunState
from rltop.pages import overview
from rltop.pages.header import paint_header
from rltop.pages.overview import OverviewPage, build_overview
from rltop.pages.page import Moment
from rltop.pages.run_entry import Entries, state_cell
from rltop.rows.glyphs import UNICODE
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.run_stream import Judging, RunStream
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

OVER = (RunState.DIED, RunState.INTERRUPTED)
CAUGHT = "Traceback (most recent call last):\n  File \"reward.py\", line 3, in score\nValueError: no number in ''\n"
FATAL = CAUGHT.replace("ValueError: no number in ''", "torch.OutOfMemoryError: CUDA out of memory. Tried 2.00 GiB")


def followed(path: Path, now_s: float, *, has_job: bool = True) -> Run:
    return opened(path, FakeClock(now_s), has_job=has_job)[1]


def opened(path: Path, clock: FakeClock, *, has_job: bool = True) -> tuple[Session, Run]:
    found = FoundRun(str(path), name_of(str(path)), path.stat().st_size, path.stat().st_mtime)
    options = load({}, {"HOME": str(path.parent)}).ingest._replace(has_preview=False)
    session = Session([found], direct(clock), clock, options)
    run = session.runs[0]
    while session.step(1_000.0):
        pass
    session.read_endings()
    if has_job:
        session.follow_job(run)
        until_told(session, run, 0)
    return session, run


def until_told(session: Session, run: Run, version: int) -> None:
    ends = time.monotonic() + PATIENCE_S
    while run.whereabouts is None or run.whereabouts.probes.version <= version:
        assert time.monotonic() < ends
        session.step(10.0)
        time.sleep(0.002)


@each_row("case", CASES, ids=case_name)
def test_the_screen_says_of_a_log_what_where_says(case: dict[str, Any], tmp_path: Path) -> None:
    path, now_s = write(case, tmp_path)
    run = followed(path, now_s)
    assert (run.state in OVER) == (case["state"] in ("dead", "interrupted"))
    assert run.whereabouts.status().state == case["state"]
    if run.state in OVER:
        sentence = build_overview(Snapshot(run)).sentence.text.raw
        assert sentence.startswith(run.state.value)
        assert case.get("cause", "") in sentence


AS_WHERE = {
    RunState.LIVE: "running", RunState.QUIET: "running", RunState.WAITING: "running", RunState.DIED: "dead",
}  # fmt: skip
"""State words of a run that are others than those of `where`."""
SILENT_S = (0.0, 2_400.0, 5 * 3_600.0, 30 * 3_600.0, 50 * 3_600.0)


@each_row("case", CASES, ids=case_name)
def test_a_file_that_is_read_once_says_what_where_says_however_long_ago(case: dict[str, Any], tmp_path: Path) -> None:
    path, now_s = write(case, tmp_path)
    config, clock = load({}, {"HOME": str(tmp_path)}), FakeClock(now_s)
    told = facts_from_files(str(path), [], str(path), now_s)
    run = read_whole(str(path), config, clock).runs[0]
    for before_s, silent_s in zip((0.0, *SILENT_S), SILENT_S, strict=False):
        clock.advance(silent_s - before_s)
        said = job_status(told, now_s + silent_s)
        # Whoever prints and leaves takes the end of the file for the end of the run.
        is_taken_for_the_end = run.state is RunState.DIED and (said.cause or "").startswith("error logged")
        assert is_taken_for_the_end or AS_WHERE.get(run.state, run.state.value) == said.state, (
            silent_s,
            run.state,
            said,
        )
    if CASES.index(case) % 5 == 0:  # reading takes a hundred times as long as asking
        assert read_whole(str(path), config, clock).runs[0].state is run.state


@each_row(
    ("key", "steps_s", "steps", "total", "expected"),
    [
        ("time", 30.0, range(1, 41), None, "running running stuck stuck ended ended ended"),
        ("time", 30.0, range(1, 41), 99, "running running stuck stuck stuck stuck ended"),
        ("timing_s/step", 30.0, range(1, 41), None, "running running stuck stuck ended ended ended"),
        ("timing_s/step", 3_600.0, range(1, 41), None, "running running running running running ended ended"),
        ("", None, range(1, 41), None, "running running running stuck ended ended ended"),
        ("", None, range(1, 41), 99, "running running running stuck stuck stuck ended"),
        # No row is due: every tenth step is logged; or the last of 400 is number 399.
        ("time", 30.0, range(10, 410, 10), 409, "running running ended ended ended ended ended"),
        ("time", 30.0, range(10, 410, 10), 410, "running running stuck stuck stuck stuck ended"),
        ("", None, range(10, 410, 10), 409, "running running running ended ended ended ended"),
        ("time", 30.0, range(0, 400, 10), 400, "running running ended ended ended ended ended"),
        ("time", 30.0, range(400), 400, "running running ended ended ended ended ended"),
        ("time", 30.0, range(399), 400, "running running stuck stuck stuck stuck ended"),
    ],
)
def test_rows_that_stop_are_judged_alike_by_where_by_what_is_printed_and_on_the_screen(
    key: str, steps_s: float | None, steps: range, total: int | None, expected: str, tmp_path: Path
) -> None:
    end_s, metrics = 1_787_190_000.0, tmp_path / "metrics.jsonl"
    rows = [
        {"step": step, "actor/pg_loss": 0.5}
        | ({key: end_s - steps_s * (len(steps) - 1 - i) if key == "time" else steps_s} if key else {})
        for i, step in enumerate(steps)
    ]
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    os.utime(metrics, (end_s, end_s))
    config = load({}, {"HOME": str(tmp_path), **({} if total is None else {"RLTOP_TOTAL_STEPS": str(total)})})
    read = read_path(str(metrics), config)
    for silent_s, state in zip((20.0, 80.0, 600.0, 5_400.0, 3 * 3_600.0, 1e5, 2e5), expected.split(), strict=True):
        now_s = end_s + silent_s
        once = read_whole(str(metrics), config, FakeClock(now_s)).runs[0].state
        found = FoundRun(str(metrics), "run", metrics.stat().st_size, end_s)
        session = Session([found], direct(FakeClock(now_s)), FakeClock(now_s), config.ingest)
        while session.step(1_000.0):
            pass
        session.read_endings()
        listed = session.runs[0].state
        session.follow_job(session.runs[0])
        until_told(session, session.runs[0], 0)
        said = status_of(read, now_s, SourceResults()).state
        for each in (once, listed, session.runs[0].state):
            assert AS_WHERE.get(each, each.value) == said == state, (silent_s, once, listed, each, said)


@pytest.mark.parametrize("is_timed", [True, False], ids=["rows with times", "rows without times"])
def test_the_log_of_a_job_before_it_tells_nothing_of_a_run(is_timed: bool, tmp_path: Path) -> None:
    end_s = 1_787_190_000.0
    rows = [{"step": n, "loss": 0.5} | ({"time": end_s - 60.0 * (40 - n)} if is_timed else {}) for n in range(1, 41)]
    metrics, log = tmp_path / "metrics.jsonl", tmp_path / "slurm-1.out"
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    log.write_text(f"Loading checkpoint shards\n{FATAL}")
    os.utime(metrics, (end_s, end_s))
    os.utime(log, (end_s - 86_400.0, end_s - 86_400.0))
    run = followed(metrics, end_s + 10_000.0)
    assert (run.state, run.failure.raw) == (RunState.ENDED, "")
    assert run.whereabouts.status().state not in ("dead", "interrupted")
    read = read_path(str(metrics), load({}, {"HOME": str(tmp_path)}))
    assert status_of(read, end_s + 10_000.0, SourceResults()).state == "ended"


def test_a_second_that_goes_by_moves_the_clocks_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now_s, told = 1_787_190_000.0, Counter[str]()
    metrics, log = tmp_path / "metrics.jsonl", tmp_path / "train.log"
    rows = [{"step": n, "loss": 0.5, "time": now_s - 30.0 - 90.0 * (40 - n)} for n in range(1, 41)]
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    log.write_text("Timer rollout start\n")
    for path in (metrics, log):
        os.utime(path, (now_s - 20.0, now_s - 20.0))
    clock = FakeClock(now_s)
    run = opened(metrics, clock)[1]

    def counted(owner: Any, name: str) -> None:
        work: Callable[..., Any] = getattr(owner, name)

        def count(*arguments: Any, **named: Any) -> Any:
            told[name] += 1
            return work(*arguments, **named)

        monkeypatch.setattr(owner, name, count)

    for owner, name in ((RunStream, "state_given"), (Judging, "standing"), (overview, "build_overview")):
        counted(owner, name)

    def painted(page: OverviewPage) -> list[str]:
        moment = Moment(snapshot=Snapshot(run), glyphs=UNICODE)
        return [row.text for row in page.rows(moment, 120, 40)]

    page = OverviewPage()
    first = painted(page)
    assert first == painted(page)
    assert sum(" open" in line for line in first) == 1
    assert set(told.values()) == {1}  # however often the picture asks
    clock.advance(20.0)
    second = painted(page)
    assert (told["build_overview"], max(told.values())) == (1, 2)
    differing = [new for old, new in zip(first, second, strict=True) if old != new]
    assert [" open" in line or line.endswith(" ago") for line in differing] == [True, True]
    assert second == painted(OverviewPage())


def test_the_job_that_the_log_beside_a_run_names_has_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now_s = round(time.time())
    answer = 'for job in 4711 12; do echo "$job|RUNNING|1|$(($job + NOW))|1|node1|gres/gpu:8|None"; done'
    asked = in_path(tmp_path / "bin", monkeypatch, "squeue", answer.replace("NOW", str(now_s + 1_000)))
    entered = [in_path(tmp_path / "bin", monkeypatch, name, "exit 1") for name in ("srun", "ssh")]
    metrics = tmp_path / "run" / "metrics.jsonl"
    metrics.parent.mkdir()
    metrics.write_text("".join(f'{{"step": {n}, "loss": 0.5, "time": {now_s - 900 + 20 * n}}}\n' for n in range(1, 41)))
    # That of an older job is another run's, though it is the first by name.
    for name, age_s in (("slurm-12.out", 86_400), ("slurm-4711.out", 5)):
        (metrics.parent / name).write_text("Timer rollout start\n")
        os.utime(metrics.parent / name, (now_s - age_s, now_s - age_s))
    clock = Clock()
    found = FoundRun(str(metrics), name_of(str(metrics)), metrics.stat().st_size, metrics.stat().st_mtime)
    options = load_config(parse([str(metrics)])).ingest
    session = Session([found], direct(clock), clock, options)
    while session.step(1_000.0):
        pass
    session.follow_job(session.runs[0])
    followed_job, ends = session.runs[0].whereabouts, time.monotonic() + PATIENCE_S
    while followed_job.status().ends_s is None:
        assert time.monotonic() < ends
        session.step(10.0)
        time.sleep(0.01)
    ends_s = followed_job.status().ends_s
    session.close()
    assert ends_s == now_s + 1_000 + 4_711
    assert [word for word in asked.read_text().splitlines() if word.startswith("--jobs")] == ["--jobs=4711"]
    main(["where", str(metrics), "--json", "--wait", "0"])
    document = json.loads(capsys.readouterr().out)
    assert (document["job"], document["limit"].split(":")[0]) == ("4711", "limit in 1 h 35 m")
    assert [word for word in asked.read_text().splitlines() if word.startswith("--jobs")] == ["--jobs=4711"] * 2
    assert not any(words.exists() for words in entered)


@each_row(
    ("text", "silent_s", "is_dead"),
    [(FATAL, 10.0, False), (FATAL, 45.0, True), (CAUGHT, 45.0, False), (CAUGHT, 290.0, False), (CAUGHT, 400.0, True)],
)
@each_row("has_job", [True, False])
def test_the_log_beside_the_metrics_is_waited_for_as_long(
    text: str, silent_s: float, is_dead: bool, has_job: bool, tmp_path: Path
) -> None:
    end_s = 1_787_190_000.0
    rows = [{"step": n, "time": end_s - 5.0 - 60.0 * (40 - n), "loss": 0.5} for n in range(1, 41)]
    metrics, log = tmp_path / "metrics.jsonl", tmp_path / "train.log"
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    log.write_text(f"Loading checkpoint shards\n{text}")
    os.utime(metrics, (end_s - 5.0, end_s - 5.0))
    os.utime(log, (end_s, end_s))
    run = followed(metrics, end_s + silent_s, has_job=has_job)
    assert (run.state in OVER) == is_dead
    said = read_job_status(str(log), [], str(log), end_s + silent_s)
    assert (said.state == "dead") == is_dead


@each_row("off_s", [-432_000.0, 0.0, 7_200.0], ids=["5 d ago", "now", "in 2 h"])
def test_a_row_that_arrives_now_is_new_whatever_time_it_carries(off_s: float, tmp_path: Path) -> None:
    clock, begun_s = FakeClock(1_787_190_000.0), 1_787_190_000.0 + off_s
    metrics = tmp_path / "metrics.jsonl"

    def lines(first: int, last: int) -> str:
        rows = [{"step": n, "time": begun_s - 20.0 * (40 - n), "loss": 0.5} for n in range(first, last + 1)]
        return "".join(f"{json.dumps(row)}\n" for row in rows)

    metrics.write_text(lines(1, 40))
    os.utime(metrics, (clock.wall(), clock.wall()))
    session, run = opened(metrics, clock)
    assert run.whereabouts is not None
    for step in (41, 42):
        clock.advance(20.0)
        version = run.whereabouts.probes.version
        with metrics.open("a") as file:
            file.write(lines(step, step))
        until_told(session, run, version)
    where = run.whereabouts.status()
    assert (run.state, where.state, where.unusual) == (RunState.LIVE, "running", False)
    assert (where.step, where.step_s) == (42, 20.0)
    assert where.stepped_s == pytest.approx(clock.wall(), abs=1.0)
    entries = Entries()
    assert entries.of(run).state is RunState.LIVE
    clock.advance(3_600.0)
    session.step(10.0)
    assert (run.state, run.whereabouts.status().state) == (RunState.STUCK, "stuck")
    # The list says what the header says, and is asked anew where time alone has changed it.
    head = paint_header(build_overview(Snapshot(run)).header, 120, UNICODE).text
    entry = entries.of(run)
    assert (entry.state, state_cell(entry, UNICODE)[0]) == (RunState.STUCK, "▲ stuck")
    assert "▲ stuck" in head


@pytest.mark.parametrize(("last", "state"), [("Training done!\n", RunState.FINISHED), ("", RunState.STUCK)])
def test_silence_after_the_log_has_said_that_it_is_done_is_no_alarm(last: str, state: RunState, tmp_path: Path) -> None:
    clock = FakeClock(1_787_190_000.0)
    metrics, log = tmp_path / "metrics.jsonl", tmp_path / "train.log"

    def line(step: int) -> str:
        return f"{json.dumps({'step': step, 'loss': 0.5, 'time': 1_787_190_000.0 + 20.0 * (step - 40)})}\n"

    metrics.write_text("".join(map(line, range(1, 41))))
    log.write_text("Loading checkpoint shards\n")
    for path in (metrics, log):
        os.utime(path, (clock.wall(), clock.wall()))
    session, run = opened(metrics, clock)
    for step in range(41, 61):
        clock.advance(20.0)
        with metrics.open("a") as file:
            file.write(line(step))
        os.utime(metrics, (clock.wall(), clock.wall()))
        session.step(10.0)
    with log.open("a") as file:
        file.write(f"Writing the summary\n{last}")
    os.utime(log, (clock.wall(), clock.wall()))
    ends = time.monotonic() + PATIENCE_S
    while run.whereabouts.source_status().last_line not in ("Writing the summary", last.strip()):
        assert time.monotonic() < ends
        clock.advance(1.0)
        session.step(10.0)
        time.sleep(0.02)
    clock.advance(3_600.0)
    session.step(10.0)
    assert run.state is state
    assert any(one.rule == "L4" for one in run.verdicts) == (state is RunState.STUCK)


@each_row("ended", ["the last step of a known total", "a closed file", "words in the log"])
def test_an_error_after_the_end_takes_nothing_back_and_is_said_everywhere(
    ended: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    end_s = time.time() - 400.0
    total = {"total_steps": 40} if ended.startswith("the last") else {}
    rows = [{"step": n, "time": end_s - 60.0 * (40 - n), "loss": 0.5, **total} for n in range(1, 41)]
    mark = {"rltop_phase": "", "step": 40, "end": end_s + 1.0}
    metrics, log = tmp_path / "metrics.jsonl", tmp_path / "train.log"
    metrics.write_text("".join(f"{json.dumps(row)}\n" for row in [*rows, *[mark] * ended.endswith("file")]))
    log.write_text(f"Loading checkpoint shards\n{'Training done!' * ended.startswith('words')}\n{FATAL}")
    os.utime(metrics, (end_s, end_s))
    os.utime(log, (end_s + 5.0, end_s + 5.0))
    said = "error logged after the last step: torch.OutOfMemoryError: CUDA out of memory. Tried 2.00 GiB"
    for has_job in (True, False):
        run = followed(metrics, end_s + 400.0, has_job=has_job)
        assert run.state is RunState.FINISHED
        assert build_overview(Snapshot(run)).sentence.text.raw == f"{said} (train.log)"
    for command, code in (("where", 0), ("check", 0), ("watch", 4)):
        assert main([command, str(metrics)]) == code
        assert said in capsys.readouterr().out


@each_row("rows", [4, 14, 40])
def test_a_run_that_hangs_among_its_first_steps_is_stuck_as_soon_as_a_later_one(rows: int, tmp_path: Path) -> None:
    path, config, end_s = tmp_path / "metrics.jsonl", load({}, {"HOME": str(tmp_path)}), time.time() - 400.0
    lines = [{"step": n, "time": end_s - 2.0 * (rows - n), "loss": 1.0 / n} for n in range(1, rows + 1)]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    os.utime(path, (end_s, end_s))
    assert status_of(read_path(str(path), config), end_s + 400.0, SourceResults()).state == "stuck"
    once = read_whole(runs_of(str(path))[0], config).runs[0]
    assert [run.state for run in (once, followed(path, end_s + 400.0, has_job=False))] == [RunState.STUCK] * 2


def test_a_run_read_once_and_the_list_say_in_which_phase_a_job_is_stuck(tmp_path: Path) -> None:
    path, clock, config = tmp_path / "metrics.jsonl", FakeClock(time.time() - 700.0), load({}, {"HOME": str(tmp_path)})
    log = JsonlWriter(path, clock.wall)
    for step in range(1, 15):
        for phase in ("rollout", "checkpoint"):
            with log.phase(phase):
                clock.advance(10.0)
        log.log(step, {"loss": 1.0 / step})
    log.phase("checkpoint").__enter__()
    os.utime(path, (clock.wall(), clock.wall()))
    run = read_whole(runs_of(str(path))[0], config).runs[0]
    said, asked = "stuck: saving a checkpoint for 420 s (usually 10.0 s)", f"py-spy dump --pid {os.getpid()}"
    assert build_overview(Snapshot(run)).sentence.text.raw == f"{said}; {asked} shows where it hangs"
    assert Entries().of(run).verdict == "saving a checkpoint"


@each_row("told", ["closed", "back", "clock"])
def test_a_rest_between_two_attempts_is_no_time_that_a_step_may_take(told: str, tmp_path: Path) -> None:
    path, clock = tmp_path / "metrics.jsonl", FakeClock(1_787_190_000.0)
    for first in (1, 28 if told == "back" else 31):
        log, begun_s = JsonlWriter(path, clock.wall), clock.wall()
        for step in range(first, first + 30):
            clock.advance(60.0)
            own = {"elapsed_s": clock.wall() - begun_s} if told == "clock" else {}
            log.log(step, {"loss": 1.0 / (first + step), **own})
        if told == "closed" and first == 1:
            log.close()
        ended_s = clock.wall()
        clock.advance(18_000.0)
    os.utime(path, (ended_s, ended_s))
    for silent_s, state in ((200.0, "running"), (400.0, "stuck")):
        said = read_path(str(path), load({}, {"HOME": str(tmp_path)}))
        assert status_of(said, ended_s + silent_s, SourceResults()).state == state
        run = followed(path, ended_s + silent_s)
        assert (run.state is RunState.STUCK) == (state == "stuck")
