"""How a run ended by the console log beside it: whose log it is, what in it is a death, and where that is said."""

from __future__ import annotations

import json
import os
import time
from itertools import product
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli import main
from rltop.cli.open_session import direct, read_whole, runs_of
from rltop.clock import Clock, FakeClock
from rltop.config import Config, load
from rltop.live.job import read_job_status
from rltop.model import Level, RunState
from rltop.pages.overview import build_overview
from rltop.rows.rows import TargetKind
from rltop.run.discover import discover
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

TRACE = 'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n    main()\n'
CHILD = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
START = "loading weights\n" + "INFO rollout done, mean error 0.25\n" * 50
DIED = f"{START}{TRACE}{OOM}\n"
BEGUN_S = 1_787_000_000.0


def rows(count: int) -> str:
    return "".join(json.dumps({"step": i, "loss": 1 / i, "reward": i / 200}) + "\n" for i in range(1, count + 1))


def put(folder: Path, name: str, text: str, *, at_s: float = 0.0) -> Path:
    """A file that was last written to at a time, in seconds from that of the metrics."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (BEGUN_S + at_s, BEGUN_S + at_s))
    return path


def read(path: Path, log: str = "", *, is_over: bool = True, after_s: float = 0.0, over_s: float = 86_400.0) -> Run:
    clock = FakeClock(BEGUN_S + (over_s if is_over else after_s))
    options = load({}, {"HOME": str(path.parent)}).ingest._replace(has_preview=False, log=log)
    found = FoundRun(str(path), name_of(str(path)), path.stat().st_size, path.stat().st_mtime)
    session = Session([found], direct(clock), clock, options)
    if is_over:
        session.drain()
    while session.step(1_000.0):
        pass
    session.read_endings()
    return session.runs[0]


@pytest.mark.parametrize("count", [180, 0])
def test_the_log_beside_the_metrics_has_the_last_word(tmp_path: Path, count: int) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(count))
    put(tmp_path, "slurm-4711.out", DIED, at_s=5.0)
    run = read(metrics)
    assert (run.state, run.failure.raw) == (RunState.DIED, OOM)
    sentence = build_overview(Snapshot(run)).sentence
    when = f"after step {count}" if count else "before the first step"
    assert (sentence.level, sentence.text.raw) == (Level.CRIT, f"died {when}: {OOM} (slurm-4711.out)")
    assert sentence.target is not None and sentence.target.kind is TargetKind.LOG


def test_the_log_of_the_rank_that_failed_first_says_what_a_run_of_many_ranks_died_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    waits = "2026-08-17 21:33:20 entering all_reduce\n"
    for rank in range(16):
        put(tmp_path, f"logs/rank_{rank}.log", f"{START}{waits}", at_s=5.0 + 0.1 * rank)
    put(tmp_path, "logs/rank_3.log", DIED, at_s=4.0)
    watchdog = f"{START}[rank5]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE)\n"
    put(tmp_path, "logs/rank_5.log", watchdog, at_s=20.0)
    run = read(metrics)
    assert (run.state, run.failure.raw, Path(run.failure_log).name) == (RunState.DIED, OOM, "rank_3.log")
    assert main(["where", str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert OOM in said and f"source: {tmp_path}/logs/rank_3.log" in said and f"last line: {OOM}" in said


def test_the_folders_that_torchrun_makes_for_its_ranks_are_one_run_for_each_attempt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    start_s = time.time() - 60.0
    for attempt, rank in product(range(2), range(3)):
        folder = tmp_path / "none_x7k2" / f"attempt_{attempt}" / str(rank)
        folder.mkdir(parents=True)
        rows = (f"{{'loss': {rank + 1 / n:.4f}, 'grad_norm': {n / 90}, 'epoch': {n / 80}}}\n" for n in range(1, 80))
        (folder / "stdout.log").write_text("".join(rows))
        (folder / "stderr.log").write_text(DIED if (attempt, rank) == (0, 2) else "a warning\n")
        for file in folder.iterdir():
            os.utime(file, (start_s + attempt, start_s + attempt))
    newest, first = discover([str(tmp_path)]).found
    assert [each.name.raw for each in (newest, first)] == ["none_x7k2/attempt_1", "none_x7k2/attempt_0"]
    assert [each.role for each in first.other_streams] == ["rank 0", "rank 1", "rank 2"], "the first is compared too"
    folder = tmp_path / "none_x7k2" / "attempt_0"
    run, later = (read_whole(each, Config()).runs[0] for each in (first, newest))
    assert (run.state, run.failure.raw) == (RunState.DIED, OOM)
    assert run.failure_log == f"{folder}/2/stderr.log" and later.state is not RunState.DIED
    assert main(["where", str(folder)]) == 1 and OOM in capsys.readouterr().out
    assert build_overview(Snapshot(run)).sentence.text.raw == f"died after step 79: {OOM} (2/stderr.log)"
    session = Session([first], direct(Clock()), Clock())
    session.follow_job(session.runs[0])
    for _ in range(200):
        session.step(10.0)
        session.look_for_endings()
        if session.runs[0].state is RunState.DIED:
            break
        time.sleep(0.05)
    session.close()
    assert session.runs[0].state is RunState.DIED, "although its own log tells of no error"


def test_a_fault_in_what_else_is_beside_the_metrics_leaves_the_logs_last_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RecursionError

    monkeypatch.setattr("rltop.run.whereabouts.seen", fail)
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    put(tmp_path, "slurm-4711.out", DIED, at_s=5.0)
    assert read(metrics).state is RunState.DIED


def test_a_run_that_died_a_moment_ago_is_no_longer_live_where_the_file_is_read_once(tmp_path: Path) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    put(tmp_path, "slurm-4711.out", DIED, at_s=5.0)
    assert read(metrics, is_over=False, after_s=6.0).state is RunState.LIVE
    assert read(metrics, over_s=6.0).state is RunState.DIED


def test_a_run_died_whose_files_have_a_clock_that_is_ahead(tmp_path: Path) -> None:
    """Nobody waits until the clock here has come to where that of the files was."""
    metrics = put(tmp_path, "metrics.jsonl", rows(180), at_s=120.0)
    put(tmp_path, "train.log", DIED, at_s=120.0)
    clock = FakeClock(BEGUN_S)
    session = Session(runs_of(str(metrics)), direct(clock), clock, load({}, {"HOME": str(tmp_path)}).ingest)
    seen = []
    for _ in range(60):
        clock.advance(1.0)
        session.step(1_000.0)
        session.read_endings()
        seen.append(session.runs[0].state)
    assert (seen[0], seen[-1]) == (RunState.LIVE, RunState.DIED)


def test_a_log_of_rows_without_a_step_that_has_the_same_numbers_is_the_runs_own(tmp_path: Path) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    own = "".join(f"{{'loss': {1 / i:.4f}, 'reward': {i / 200:.2f}, 'lr': 0.1}}\n" for i in range(150, 181, 10))
    put(tmp_path, "train.log", own + DIED, at_s=5.0)
    assert read(metrics).state is RunState.DIED


@each_row("name", ["output", "console", "nohup.out", "out.txt", "train.log", "run_2.txt", "test_run.log"])
def test_the_log_beside_the_metrics_may_be_called_as_consoles_are(tmp_path: Path, name: str) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    put(tmp_path, name, DIED.replace(", in <module>", ""), at_s=5.0)
    assert read(metrics).state is RunState.DIED


def test_a_log_that_prints_a_loss_is_that_of_a_training_whatever_it_is_called(tmp_path: Path) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    put(tmp_path, "qwen3_4b.log", f"iter 180: loss {1 / 180:.4f}\n{TRACE.replace('train', 'main')}{OOM}\n", at_s=5.0)
    assert read(metrics).state is RunState.DIED


def test_the_log_of_a_run_that_was_copied_days_later_is_its_own(tmp_path: Path) -> None:
    lines = [json.dumps({"step": i, "time": BEGUN_S - 5 * 86_400.0 + i, "loss": 1 / i}) + "\n" for i in range(1, 99)]
    metrics = put(tmp_path, "metrics.jsonl", "".join(lines))
    put(tmp_path, "train.log", DIED, at_s=5.0)
    assert read(metrics).state is RunState.DIED


NOT_OURS: list[tuple[str, dict[str, tuple[str, float]]]] = [
    ("it ended well", {"slurm-1.out": (START + "saved\n", 5.0)}),
    ("it says nothing of a training",
     {"plots.log": (f"drawing\n{TRACE.replace('train', 'plot')}ValueError: no data\n", 5.0)}),
    ("it is that of another program",
     dict.fromkeys(("pytest.out", "test_3.log", "build.log", "pip-install.log", "eval_gsm8k.log"), (DIED, 5.0))),
    ("it is older than the metrics", {"slurm-1.out": (DIED, -3_600.0)}),
    ("a later job's log is there", {"slurm-9.out": (DIED, 5.0), "slurm-10.out": (START, 6.0)}),
    ("it names other steps", {"train.log": ("step:900 - actor/pg_loss:0.5\n" + DIED, 5.0)}),
    ("its rows went on", {"train.log": (DIED + "step:180 - actor/pg_loss:0.5 - actor/lr:0.1\n", 5.0)}),
    ("rows without a step went on", {"train.log": (DIED + "{'loss': 0.5, 'grad_norm': 1.0}\n", 5.0)}),
    ("its rows have no step and other numbers", {"train.log": ("{'loss': 90.5, 'reward': 12.0}\n" * 3 + DIED, 5.0)}),
    ("its rows have other keys, in a folder of many runs",
     {"train.log": ("{'loss': 9.5, 'grad_norm': 1.0}\n" * 3 + DIED, 5.0), "grpo.jsonl": (rows(9), 0.0),
      "dpo.csv": (rows(9), 0.0), "ppo_long.jsonl": (rows(9), 0.0)}),
    ("it went on at length", {"train.log": (DIED + "INFO rollout done\n" * 300, 5.0)}),
    ("its bar went on", {"train.log": (" 10%|# | 18/180 [00:10<01:00, 1.0it/s]\n" + DIED +
                                       " 90%|###| 162/180 [01:10<00:10, 1.0it/s]\n", 5.0)}),
    ("it was survived", {"train.log": (DIED + "Training completed in 300 s\n", 5.0)}),
    ("it only mentions an error", {"train.log": (START + "TDError: 0.25\nValueErrors: 0\n", 5.0)}),
    ("it is that of another file", {"b.jsonl": (rows(180), 0.0), "b.log": (DIED, 5.0), "metrics.log": (START, 5.0),
                                    "c.jsonl": (rows(9), 0.0), "c.log": (DIED, 5.0)}),
    ("one of many runs of a folder", {"metrics2.jsonl": (rows(180), 0.0), "slurm-1.out": (DIED, 5.0)}),
    ("it is that of a server, of later", {"vllm_server.log": (DIED, 3_600.0)}),
    ("it was written days later", {"train.log": (DIED, 3 * 86_400.0)}),
    ("W&B's own log", {"debug-internal.log": (DIED, 5.0)}),
]  # fmt: skip


@each_row(("why", "files"), NOT_OURS, ids=[why for why, _ in NOT_OURS])
def test_what_is_no_death_of_this_run(tmp_path: Path, why: str, files: dict[str, tuple[str, float]]) -> None:
    name = "metrics1.jsonl" if "many" in why else "metrics.jsonl"
    metrics = put(tmp_path, name, rows(180))
    for name, (text, at_s) in files.items():
        put(tmp_path, name, text, at_s=at_s)
    run = read(metrics)
    assert (run.state in (RunState.ENDED, RunState.FINISHED, RunState.STUCK), run.failure.raw) == (True, ""), (
        why,
        run.state,
    )


@each_row(("why", "files"), [each for each in NOT_OURS if "went on" in each[0] or "survived" in each[0]])
def test_where_says_of_such_a_log_too_that_the_job_went_on(
    tmp_path: Path, why: str, files: dict[str, tuple[str, float]]
) -> None:
    for name, (text, at_s) in files.items():
        log = str(put(tmp_path, name, text, at_s=at_s))
        assert read_job_status(log, [], log, BEGUN_S + 3_600.0).state != "dead", why
    log = str(put(tmp_path, "died.log", DIED, at_s=5.0))
    assert read_job_status(log, [], log, BEGUN_S + 3_600.0).state == "dead"


@each_row(
    ("step_s", "log_at_s", "is_its_end"),
    [(0.3, -4.0, True), (0.3, -20.0, False), (20.0, -15.0, True), (20.0, -45.0, False), (300.0, -50.0, True)],
)
def test_a_log_behind_which_several_rows_came_is_that_of_the_job_before(
    step_s: float, log_at_s: float, is_its_end: bool, tmp_path: Path
) -> None:
    timed = [{"step": i, "time": BEGUN_S - (180 - i) * step_s, "loss": 1 / i} for i in range(1, 181)]
    metrics = put(tmp_path, "metrics.jsonl", "".join(f"{json.dumps(row)}\n" for row in timed))
    put(tmp_path, "slurm-1.out", DIED, at_s=log_at_s)
    assert (read(metrics).state is RunState.DIED) == is_its_end


def test_a_log_of_the_same_name_is_its_own_among_many(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        put(tmp_path, f"{name}.jsonl", rows(180))
        put(tmp_path, f"{name}.log", DIED if name == "b" else START, at_s=5.0)
    assert [read(tmp_path / f"{name}.jsonl").state for name in ("a", "b", "c")] == [
        RunState.ENDED, RunState.DIED, RunState.ENDED,
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", [DIED, f"{START}step:180 - loss:0.4 - reward:0.2\n{TRACE}{OOM}\n"], ids=["bare", "rows"]
)
def test_a_log_without_its_numbers_ends_no_run_of_several(
    tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [put(tmp_path, f"{name}.jsonl", rows(180)) for name in ("har", "tcd", "sha", "dol")]
    put(tmp_path, "boe.log", text, at_s=5.0)
    put(tmp_path, "dol.log", text, at_s=5.0)
    assert [read(run).state is RunState.DIED for run in runs] == [False, False, False, True]
    for run in runs:
        main(["where", str(run)])
        assert ("died" in capsys.readouterr().out) == (run is runs[3])
    for run in runs[1:3]:
        run.unlink()
    assert read(runs[0]).state is not RunState.DIED or text == DIED  # boe.log may be its own then
    (tmp_path / "boe.log").unlink()
    assert [read(run).state is RunState.DIED for run in (runs[0], runs[3])] == [False, True]


def test_a_log_with_its_numbers_ends_that_run_of_several(tmp_path: Path) -> None:
    runs = [
        put(tmp_path, f"{name}.jsonl", rows(count)) for name, count in (("a", 180), ("b", 90), ("c", 30), ("d", 60))
    ]
    lines = "".join(f"step:{i} - loss:{1 / i:.4f} - reward:{i / 200:.4f}\n" for i in range(150, 181))
    put(tmp_path, "console.log", f"{START}{lines}{TRACE}{OOM}\n", at_s=5.0)
    assert [read(run).state is RunState.DIED for run in runs] == [True, False, False, False]


def test_a_console_of_many_is_not_ended_by_its_neighbours(tmp_path: Path) -> None:
    steps = "".join(f"step:{i} - actor/pg_loss:0.5 - actor/grad_norm:1.0\n" for i in range(1, 60))
    put(tmp_path, "seed1.log", steps)
    put(tmp_path, "seed2.log", steps + TRACE + OOM + "\n")
    assert read(tmp_path / "seed1.log").state is RunState.ENDED
    put(tmp_path, "seed1.err", TRACE + OOM + "\n")
    assert read(tmp_path / "seed1.log").state is RunState.DIED


def test_one_of_several_runs_of_a_console_is_not_ended_by_another_log(tmp_path: Path) -> None:
    text = "".join(f"[run-{at}] step {i} loss={at / i}\n" for i in range(1, 60) for at in (1, 2))
    log = put(tmp_path, "sweep.log", text)
    put(tmp_path, "other.log", DIED, at_s=5.0)
    for at in (1, 2):
        run = read_whole(f"{log}::run-{at}", load({}, {"HOME": str(tmp_path)}), FakeClock(BEGUN_S + 86_400.0)).runs[0]
        assert run.state is RunState.ENDED


def test_the_log_that_is_named_is_believed_whatever_its_age(tmp_path: Path) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    log = put(tmp_path, "elsewhere/train.txt", DIED, at_s=-3_600.0)
    assert read(metrics).state is RunState.ENDED
    assert read(metrics, str(log)).state is RunState.DIED


@each_row(
    ("end", "state"),
    [
        (f"^C{TRACE}KeyboardInterrupt\n", RunState.INTERRUPTED),
        ("slurmstepd: error: *** JOB 4711 ON node1 CANCELLED AT 2026-01-01T10:00:00 ***\n", RunState.INTERRUPTED),
        (
            "slurmstepd: error: *** JOB 4711 ON n CANCELLED AT 2026-01-01T10:00:00 DUE TO TIME LIMIT ***\n",
            RunState.DIED,
        ),
        (
            f"{TRACE}torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 2\n",
            RunState.INTERRUPTED,
        ),
        (f"{TRACE}KeyboardInterrupt\n{TRACE}BrokenPipeError: [Errno 32] Broken pipe\n", RunState.INTERRUPTED),
        (f"{TRACE}{OOM}\n{TRACE}KeyboardInterrupt\n", RunState.DIED),
        (f"{TRACE}{OOM}\n{TRACE}{CHILD}:\n  exitcode  : 1 (pid: 7)\n", RunState.DIED),
        ("Killed\n", RunState.DIED),
        ("run.sh: line 3: 12345 Killed                  python train.py\n", RunState.DIED),
        ("run.sh: line 3: 12345 Terminated              python train.py\n", RunState.DIED),
        (f"{TRACE}{CHILD}:\n  exitcode  : -9 (pid: 4711)\n", RunState.DIED),
        (f"{TRACE}{CHILD}:\n  exitcode  : -2 (pid: 4711)\n", RunState.INTERRUPTED),
    ],
)
def test_who_ended_it(tmp_path: Path, end: str, state: RunState) -> None:
    beside = put(tmp_path / "a", "metrics.jsonl", rows(180))
    put(tmp_path / "a", "train.log", START + end, at_s=5.0)
    steps = "".join(f"step:{i} - actor/pg_loss:0.5 - actor/grad_norm:1.0\n" for i in range(1, 60))
    own = put(tmp_path / "b", "train.log", steps + end)
    for path in (beside, own):
        run = read(path)
        assert run.state is state, path
        level = build_overview(Snapshot(run)).sentence.level
        assert (level is Level.CRIT) == (state is RunState.DIED)
        if OOM in end:
            assert run.failure.raw == OOM


def test_a_run_that_goes_on_is_not_dead_and_one_that_falls_silent_is(tmp_path: Path) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    put(tmp_path, "train.log", DIED, at_s=5.0)
    run = read(metrics, is_over=False, after_s=20.0)
    assert run.state is RunState.LIVE
    assert f"error logged after the newest step: {OOM}" in build_overview(Snapshot(run)).sentence.text.raw
    assert read(metrics, is_over=False, after_s=1e6).state is RunState.DIED


def test_a_run_that_died_before_its_first_step_waits_for_none(tmp_path: Path) -> None:
    run = read(put(tmp_path, "train.log", DIED), is_over=False, after_s=7_200.0)
    assert (run.state, list(run.verdicts)) == (RunState.DIED, [])


def test_an_error_at_the_end_of_its_own_log_is_a_death_after_half_a_minute_until_the_run_goes_on(
    tmp_path: Path,
) -> None:
    steps = "".join(f"step {i}/60 | loss: {1 / i}\n" for i in range(1, 41))
    bar = " 67%|██████    | {0}/60 [00:40<00:20,  1.00it/s]\n"
    for text, state in (
        (f"{TRACE}{OOM}\n", RunState.DIED),
        (f"{TRACE}KeyboardInterrupt\n", RunState.INTERRUPTED),
        (f"{TRACE}{OOM}\nwandb: Run history\n", RunState.DIED),
        (bar.format(40) + f"{TRACE}{OOM}\n" + bar.format(40), RunState.DIED),
        (f" 60%|███  | 3/5 [00:40<00:20]\n{TRACE}{OOM}\n" + bar.format(40), RunState.DIED),
        (bar.format(40) + f"{TRACE}{OOM}\n" + bar.format(41), RunState.LIVE),
        (f"{TRACE}{OOM}\nstep 41/60 | loss: 0.1\n", RunState.LIVE),
    ):
        log = put(tmp_path, "train.log", steps + text)
        assert read(log, is_over=False, after_s=31.0).state is state
        assert (read(log).state is state) == (state is not RunState.LIVE)


def test_what_came_after_the_look_makes_it_void(tmp_path: Path) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    put(tmp_path, "train.log", DIED, at_s=5.0)
    clock = FakeClock(BEGUN_S + 20.0)
    options = load({}, {"HOME": str(tmp_path)}).ingest._replace(has_preview=False)
    session = Session([FoundRun(str(metrics), name_of(str(metrics)))], direct(clock), clock, options)
    while session.step(1_000.0):
        pass
    session.read_endings()
    with metrics.open("a") as file:
        file.write(json.dumps({"step": 181, "loss": 0.1, "reward": 0.9}) + "\n" * 2)
    clock.advance(5.0)
    while session.step(1_000.0):
        pass
    assert session.runs[0].failure.raw == ""


def test_every_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics = put(tmp_path, "metrics.jsonl", rows(180))
    put(tmp_path, "slurm-4711.out", DIED, at_s=5.0)
    for command in (["check"], ["--once"]):
        assert main([*command, str(metrics)]) == int(command == ["check"])
        assert f"died after step 180: {OOM}" in " ".join(capsys.readouterr().out.split())
    assert main(["check", "--json", str(metrics)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["state"], document["failure"], document["worst"]) == ("died", OOM, "crit")
    assert main(["watch", str(metrics)]) == 4
    assert f"died: {OOM}" in capsys.readouterr().out
    assert main(["report", str(metrics), "-o", str(tmp_path / "report.md")]) == 0
    assert f"died after step 180: {OOM}" in (tmp_path / "report.md").read_text()


def test_a_run_that_died_before_its_first_step_shows_its_error_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = put(tmp_path, "train.log", DIED)
    for command, code in ((["check"], 1), (["--once"], 3)):
        assert main([*command, str(log)]) == code
        said = " ".join(capsys.readouterr().out.split())
        assert OOM in said and "what works" not in said and "read as" not in said
    put(tmp_path, "train.log", f"{START}{TRACE}KeyboardInterrupt\n")
    assert main(["check", str(log)]) == 3
    assert "what works" not in capsys.readouterr().out
