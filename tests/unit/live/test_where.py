"""`rltop where` on what is no console log alone: runs, traces, several paths, nothing."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jobs_printed import CASES, write
from tables import each_row

from rltop.cli import main
from rltop.live import job
from rltop.live.job import read_job_status
from rltop.live.judge import judge
from rltop.live.lines import Act
from rltop.live.log import LogReader
from rltop.live.phases import PhaseEvent, Phases
from rltop.live.traces import Traces

NOW_S = 1_787_190_000.0


def where(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, object]:
    code = main(["where", "--json", *words])
    return code, json.loads(capsys.readouterr().out)


def rows(path: Path, count: int, last_s: float = NOW_S - 1_000.0, step_s: float = 60.0) -> None:
    path.write_text(
        "".join(
            json.dumps({"step": n, "time": last_s - step_s * (count - n), "loss": 0.5}) + "\n"
            for n in range(1, count + 1)
        )
    )
    os.utime(path, (last_s, last_s))


@contextmanager
def given(descriptor: int) -> Iterator[None]:
    """With the file as standard input."""
    before = os.dup(0)
    os.dup2(descriptor, 0)
    try:
        yield
    finally:
        os.dup2(before, 0)
        os.close(before)


def test_rows_tell_a_step_that_does_not_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(tmp_path / "metrics.jsonl", 9)
    code, found = where(capsys, str(tmp_path / "metrics.jsonl"), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert (code, found["state"], found["phase_key"], found["usual_s"]) == (1, "stuck", None, 60.0)
    assert found["since"] == NOW_S - 1_000.0


def test_a_bar_of_ms_swift_tells_its_validation(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "train.log"
    bars = [f"Train: {n:3d}%|█   | {n}/100 [0{n}:00<09:00, 60.0s/it]" for n in range(1, 6)]
    log.write_text("\r".join([*bars, "Val:  30%|███     | 3/10 [00:06<00:10,  2.0s/it]\r"]))
    os.utime(log, (NOW_S - 2_400.0, NOW_S - 2_400.0))
    _, found = where(capsys, str(log), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert (found["state"], found["phase_key"], found["outstanding"]) == ("stuck", "validation", "7 of 10")


def test_a_job_that_has_been_silent_for_days_has_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows(tmp_path / "metrics.jsonl", 9, NOW_S - 5 * 86_400.0)
    words = [str(tmp_path / "metrics.jsonl"), "--now", str(NOW_S)]
    code, found = where(capsys, *words)
    assert isinstance(found, dict)
    assert (code, found["state"], found["since"]) == (0, "ended", NOW_S - 5 * 86_400.0)
    assert main(["where", *words]) == 0
    assert capsys.readouterr().out.endswith("ended, 5 d ago: cause unknown\n")


def test_what_died_by_a_clock_ahead_of_ours_died_just_now(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    metrics, log = tmp_path / "metrics.jsonl", tmp_path / "train.log"
    rows(metrics, 9, NOW_S)
    log.write_text('rollout done\nTraceback (most recent call last):\n  File "train.py", line 3\nValueError: x\n')
    os.utime(log, (NOW_S, NOW_S))
    main(["where", str(metrics), "--now", str(NOW_S - 120.0)])
    assert "died, 0 s ago: ValueError: x" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("file", "process", "state"),
    [
        ("/home/me/train.py", "", "dead"),
        ("/tmp/solution.py", "", "running"),
        ("<string>", "", "running"),
        ("/home/me/train.py", "(Worker pid=7) ", "running"),
    ],
)
def test_an_exception_that_left_the_program_is_not_waited_for_as_long_as_a_step(
    file: str, process: str, state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last_s, log = NOW_S - 600.0, tmp_path / "train.log"
    steps = [
        f"{time.strftime('%F %T', time.gmtime(last_s - 1320 * (6 - n)))} step:{n} - loss:0.{n}" for n in range(1, 7)
    ]
    trace = [
        "Traceback (most recent call last):",
        f'  File "{file}", line 9, in <module>',
        "    main()",
        "ValueError: x",
    ]
    log.write_text("\n".join([*steps, *(process + line for line in trace)]) + "\n")
    os.utime(log, (last_s, last_s))
    _, found = where(capsys, str(log), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert found["state"] == state
    assert "ValueError: x" in found["cause"]


def test_a_process_that_failed_before_the_first_step_is_in_what_it_failed_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    bar = "Loading checkpoint shards:  50%|█████     | 1/2 [00:05<00:05,  5.00s/it]\n"
    trace = [
        "Traceback (most recent call last):", '  File "workers.py", line 3, in update_actor', "    loss.backward()",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
    ]  # fmt: skip
    log.write_text("".join(f"(Worker pid={n}) {bar}" for n in (7, 8)) + "".join(f"(Worker pid=7) {x}\n" for x in trace))
    os.utime(log, (NOW_S - 600.0, NOW_S - 600.0))
    assert main(["where", str(log), "--now", str(NOW_S)]) == 1
    said = capsys.readouterr().out
    assert "while training" in said
    assert "pid 7" in next(line for line in said.splitlines() if "1 in training" in line)
    assert "pid 8" in next(line for line in said.splitlines() if "(starting up)" in line)


def test_the_log_beside_the_metrics_tells_the_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, now_s = write(CASES[0], tmp_path)
    rows(tmp_path / "metrics.jsonl", 6, now_s - 950, 90.0)
    code, found = where(capsys, str(tmp_path), "--now", str(now_s))
    assert isinstance(found, dict)
    assert (code, found["state"], found["phase_key"], found["source"]) == (1, "stuck", "generate", str(log))


@each_row("case", CASES[::4], ids=lambda case: f"{case['of']}: {case['name']}")
def test_a_folder_that_holds_the_log_alone_tells_what_the_log_does(
    case: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, now_s = write(case, tmp_path)
    assert where(capsys, str(tmp_path), "--now", str(now_s)) == where(capsys, str(log), "--now", str(now_s))


def test_nothing_lies_beside_standard_input(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, now_s = write(CASES[0], tmp_path)
    rows(tmp_path / "metrics.jsonl", 6, now_s - 950, 90.0)
    monkeypatch.chdir(tmp_path)
    with (tmp_path / "metrics.jsonl").open() as file, given(file.fileno()):
        code, found = where(capfd, "-", "--now", str(now_s))
    assert isinstance(found, dict)
    assert (code, found["state"], found["phase"], found["source"]) == (1, "stuck", None, "-")


@each_row(
    "front",
    [
        "I{month}{day} {clock}.000000 123 file.cc:1] ",
        "[INFO|configuration_utils.py:1765] {date} {clock},000 >> ",
        "(EngineCore_DP0 pid=7) INFO {month}-{day} {clock} [core.py:1] ",
        "{date} {clock}.000 | INFO     | trainer.timer:run:32 - ",
        "[{date} {clock},000] [INFO] [trainer.timer] [rank 0] ",
        "INFO:{date} {clock},000:",
        "{name} {day} {clock} node-3 python[812]: ",
    ],
)
def test_a_clock_is_read_behind_the_fronts_of_loggers(
    front: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    begun_s = NOW_S - 1_000.0
    at = time.gmtime(begun_s)
    names = {"month": "%m", "name": "%b", "day": "%d", "date": "%Y-%m-%d", "clock": "%H:%M:%S"}
    head = front.format(**{name: time.strftime(form, at) for name, form in names.items()})
    (tmp_path / "x.log").write_text(f"{head}Timer rollout start\n")
    os.utime(tmp_path / "x.log", (begun_s + 30.0,) * 2)
    _, found = where(capsys, str(tmp_path / "x.log"), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert (found["phase_key"], found["since"]) == ("generate", begun_s)


def test_a_trace_tells_an_open_span(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "trace_events.jsonl"
    spans = [("B", "rollout", 0), ("E", "rollout", 60), ("B", "update_actor", 60), ("E", "update_actor", 90)]
    lines = [(ph, name, 100 * n + at) for n in range(4) for ph, name, at in spans] + [("B", "rollout", 400)]
    path.write_text(
        "".join(
            json.dumps({"name": name, "ph": ph, "ts": round(1e6 * (NOW_S - 2_000 + at)), "pid": "w", "tid": "main"})
            + "\n"
            for ph, name, at in lines
        )
    )
    code, found = where(capsys, str(path), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert (code, found["state"], found["phase_key"], found["since"]) == (1, "stuck", "generate", NOW_S - 1_600)


@each_row(
    "line",
    [
        "Timer train end (elapsed: 1.2.3s)",
        "• Total step time: .s",
        f"Finished: 'step', time cost: {'9' * 400}s",
        "Engine 000: Avg prompt throughput: 1.0 tokens/s, Avg generation throughput: 1.2.3 tokens/s, Running: 1 reqs, "
        "Waiting: 0 reqs, GPU KV cache usage: 4.0.0%",
    ],
)
def test_a_line_that_two_writers_have_torn_tells_nothing(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(tmp_path / "train.log", line + "\n", NOW_S)
    code, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 1.0))
    assert isinstance(found, dict)
    assert (code, found["state"]) == (3, "unknown")


def test_a_span_without_a_process_names_none(tmp_path: Path) -> None:
    path = tmp_path / "trace_events.jsonl"
    spans = [{}, {"host": "n"}, {"rank": 2}, {"pid": 7}]
    path.write_text(
        "".join(json.dumps({"rltop_phase": "rollout", "begin": NOW_S - 9.0, **one}) + "\n" for one in spans)
    )
    found = read_job_status("", [Traces().of(path)], str(path), NOW_S)
    told = {(one.name, one.rank, one.pid) for one in found.ranks}
    assert told == {("n", None, None), ("", 2, None), ("", None, 7)}


@each_row(
    "odd", ['"begin": 1e999', '"begin": NaN', f'"begin": 1{"0" * 400}', '"rank": [1]', '"pid": {}', '"begin": [1]']
)
def test_an_odd_span_takes_nothing_away(odd: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    span = {"rltop_phase": "rollout", "begin": NOW_S - 100.0, "rank": 3, "pid": 1, "host": "n"}
    path = tmp_path / "trace_events.jsonl"
    path.write_text(f'{{"rltop_phase": "train", {odd}}}\n{json.dumps(span)}\n')
    code, found = where(capsys, str(path), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert code in (0, 1)
    assert 3 in [each["rank"] for each in found["ranks"]]


def test_a_folder_where_the_first_step_has_not_ended_tells_its_phase(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span = {"rltop_phase": "rollout", "begin": NOW_S - 100.0, "rank": 3, "pid": 1, "host": "n"}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(span) + "\n")
    code, found = where(capsys, str(tmp_path), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert (code, found["state"], found["phase_key"], found["since"]) == (0, "running", "generate", NOW_S - 100.0)


def test_an_engine_that_loads_its_model_is_starting_up(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:30<00:30, 15.00s/it]\n"
    printed(tmp_path / "train.log", text, NOW_S)
    code, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 60.0))
    assert isinstance(found, dict)
    assert (code, found["phase_key"], found["outstanding"]) == (0, "setup", "2 of 4")


def test_a_text_that_says_nothing_is_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.log"
    path.write_text("hello\nworld\n")
    code, found = where(capsys, str(path), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert (code, found["state"], found["since"]) == (3, "unknown", None)
    os.utime(path, (NOW_S - 400.0, NOW_S - 400.0))
    assert main(["where", str(path), "--now", str(NOW_S)]) == 3
    assert "last written 400 s ago" in capsys.readouterr().out


def test_several_paths_are_an_array(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, now_s = write(CASES[1], tmp_path)
    code, found = where(capsys, str(log), str(tmp_path / "none"), "--now", str(now_s))
    assert isinstance(found, list)
    assert code == 2
    assert [each.get("state") for each in found] == ["running", None]


def test_a_copied_log_is_judged_by_its_clocks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, now_s = write(CASES[2], tmp_path, 0.0)
    os.utime(log, (now_s + 40 * 86_400, now_s + 40 * 86_400))
    _, found = where(capsys, str(log), "--now", str(now_s))
    assert isinstance(found, dict)
    assert (found["state"], found["accuracy_s"]) == ("stuck", 50_400.0)
    assert abs(found["since"] - (now_s - 1_200)) < 5


def printed(path: Path, text: str, written_s: float) -> None:
    path.write_text(text)
    os.utime(path, (written_s, written_s))


def test_a_clock_without_a_year_is_of_the_year_of_those_before_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "2025-07-18 22:40:27,100 INFO worker.py:1843 -- Started a local Ray instance.\n"
        "E0718 23:11:36.100 1 a.cc:2] torch.OutOfMemoryError: CUDA out of memory.\n"
    )
    os.utime(log, (NOW_S, NOW_S))
    _, found = where(capsys, str(log), "--now", str(NOW_S))
    assert isinstance(found, dict)
    assert (found["state"], found["since"]) == ("dead", 1_752_880_296.1)


def test_nothing_has_begun_after_the_log_was_last_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def clock(at_s: float) -> str:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(NOW_S + at_s))

    def bar(title: str, done: int, of: int, at_s: float) -> str:
        return (
            f"\r{title}: {100 * done // of}%|##| {done}/{of} [{int(at_s) // 60:02}:{int(at_s) % 60:02}<00:10, 1.00s/it]"
        )

    text = "".join(
        bar("Episode [1/1]", n, 50, 100.0 * n)
        + f"{clock(100 * n + 1)} INFO Starting experience making\n"
        + bar("Generate samples", 0, 128, 0)
        + bar("Generate samples", 64, 128, 21)
        + (f"\n{clock(100 * n + 50)} INFO Experience making completed in 49.0s\n" if n < 7 else "")
        for n in range(8)
    )
    printed(tmp_path / "train.log", text, NOW_S + 722.0)
    _, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 740.0))
    assert isinstance(found, dict)
    assert (found["phase_key"], found["since"]) == ("generate", NOW_S + 701.0)


def test_the_end_of_a_long_log_begins_with_any_drawing_of_a_bar(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "END_BYTES", 500)
    text = "".join(f"\rRollout generation: {n}%|#| {n}/100 [00:{n:02}<01:00, 1.00it/s]" for n in range(1, 51))
    printed(tmp_path / "train.log", text, NOW_S)
    code, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 10.0))
    assert isinstance(found, dict)
    assert (code, found["state"], found["outstanding"]) == (0, "running", "50 of 100")


def test_of_an_error_in_ray_the_method_is_the_phase_and_the_process_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps = "".join(f"step:{n} - actor/loss:0.5 - timing_s/step:90.0\n" for n in range(1, 6))
    error = (
        "Traceback (most recent call last):\n"
        "ray.exceptions.RayTaskError(OutOfMemoryError): ray::WorkerDict.actor_rollout_compute_log_prob() (pid=4711, "
        "ip=10.128.0.9, actor_id=87523c02, repr=<verl.WorkerDict object at 0x7edd>)\n"
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    )
    printed(tmp_path / "train.log", steps + error, NOW_S)
    code, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 60.0))
    assert isinstance(found, dict)
    assert (code, found["state"], found["phase_key"]) == (1, "dead", "logprob")
    assert found["cause"].endswith("(in WorkerDict.actor_rollout_compute_log_prob, pid 4711 on 10.128.0.9)")


@each_row("is_followed", [False, True], ids=["recorded", "followed"])
def test_the_table_behind_an_error_of_ray_names_the_largest_process(is_followed: bool, tmp_path: Path) -> None:
    text = (
        "step:1 - actor/pg_loss:0.1\n"
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n"
        "Memory on the node (IP: 10.0.0.7, ID: a) where the task (actor ID: b, name=WorkerDict.__init__, pid=812, "
        "memory used=200.00GB) was running was 950.0GB / 1000.0GB (0.95), which exceeds the memory usage threshold "
        "of 0.95. Top 10 memory users:\n"
        "PID\tMEM(GB)\tCOMMAND\n812\t200.00\tray::WorkerDict.actor_rollout_generate_sequences\n"
    )
    if is_followed:
        reader, phases = LogReader(), Phases()
        for line in text.encode().splitlines(keepends=True):
            for event in reader.feed(line, NOW_S, is_recorded=False):
                phases.take(event)
        found = judge(phases, NOW_S + 60.0)
    else:
        (tmp_path / "train.log").write_text(text)
        os.utime(tmp_path / "train.log", (NOW_S, NOW_S))
        found = job.read_job_status(str(tmp_path / "train.log"), [], "", NOW_S + 60.0)
    assert found.state == "dead"
    assert "node 10.0.0.7 at 950.0GB of 1000.0GB" in (found.cause or "")
    assert "largest: WorkerDict.actor_rollout_generate_sequences, pid 812, 200.00 GB" in (found.cause or "")


def test_an_error_in_the_line_of_a_bar_is_seen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bars = "".join(f"\r  {n}%|▏ | {n}/100 [0{n}:00<09:00, 60.00s/it]" for n in range(1, 7))
    watchdog = "[rank{0}]:[E602 11:17:52.18 ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation "
    watchdog += "timeout: WorkNCCL(SeqNum={1}, OpType=ALLREDUCE, NumelIn=1) ran for 600013 milliseconds\n"
    text = bars + watchdog.format(5, 7) + watchdog.format(1, 9) + watchdog.format(2, 9)
    printed(tmp_path / "train.log", text, NOW_S)
    _, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 60.0))
    assert isinstance(found, dict)
    assert found["state"] == "dead"
    assert found["cause"].endswith("(rank 5 in ALLREDUCE 7; ranks 1–2 in ALLREDUCE 9)")


def test_a_rank_that_only_lost_the_others_names_no_cause(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ends = {
        3: "torch.OutOfMemoryError: CUDA out of memory.",
        0: "torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.",
    }
    text = "".join(
        f"[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]: {end}\n" for rank, end in ends.items()
    )
    printed(tmp_path / "train.log", STEPS + text, NOW_S)
    _, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 60.0))
    assert isinstance(found, dict)
    assert found["cause"] == "torch.OutOfMemoryError: CUDA out of memory. (rank 3)"


STEPS = "".join(f"step:{n} - actor/loss:0.5 - timing_s/step:90.0\n" for n in range(1, 8))
CAUGHT = "ERROR: Traceback (most recent call last):\nValueError: no action in the answer\n"


@each_row(
    ("text", "state", "phase"),
    [
        pytest.param(
            "Training Progress:   0%|  | 0/90 [00:00<?, ?it/s]\nTraining Progress:   1%|  | 1/90 [01:30<?, ?it/s]\n"
            "test_gen_batch meta info: {}\n" + STEPS,
            "stuck",
            None,
            id="rows tell steps where the bar is drawn now and then",
        ),
        pytest.param(
            CAUGHT.join(STEPS.splitlines(keepends=True)) + CAUGHT,
            "stuck",
            None,
            id="an error that was caught before is caught again",
        ),
        pytest.param(STEPS + CAUGHT + "a line of output\n" * 250, "stuck", None, id="much is printed behind an error"),
        pytest.param(
            "Started a local Ray instance\nTraceback (most recent call last):\n"
            '  File "ray_trainer.py", line 996, in fit\n  File "naive.py", line 64, in compute_score\nKeyError: 1\n',
            "dead",
            "reward",
            id="the frames of a traceback name the phase",
        ),
        pytest.param(
            '  File "train.py", line 9\nIndentationError: unexpected indent\n' + "Fin\n", "dead", None, id="syntax"
        ),
        pytest.param(STEPS + "INFO - GRPO training completed successfully!\n", "finished", None, id="said in words"),
        pytest.param(
            STEPS + "[launch.py:351:main] Process 41 exits successfully.\n", "finished", None, id="a launcher"
        ),
        pytest.param(
            STEPS + "(Worker[rank=3] pid=5, ip=10.0.0.1) Saving checkpoint to /ckpt/step_8\nTraining finished.\n"
            "2026-02-26 05:55:42,321\tSUCC cli.py:66 -- Job 'raysubmit_1' succeeded\n",
            "finished",
            None,
            id="no line ends a rank's last phase",
        ),
        pytest.param(
            "Epoch:[1/1](99/100), loss: 0.5\nEpoch:[1/1](100/100), loss: 0.4\n", "finished", None, id="its last"
        ),
        pytest.param(
            STEPS + "[launch.py:328:sigkill_handler] Main process received SIGINT, exiting\n",
            "interrupted",
            None,
            id="by hand",
        ),
        pytest.param(STEPS + "Saved final model to: runs/model.zip\n", "finished", None, id="a loop's last model"),
        pytest.param(
            STEPS + "GSM8K eval:  46%|##  | 46/100 [02:29<03:47, 4.2s/q]", "stuck", "validation", id="its eval"
        ),
    ],
)
def test_what_logs_of_public_runs_have_shown(
    text: str, state: str, phase: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed(tmp_path / "train.log", text, NOW_S)
    _, found = where(capsys, str(tmp_path / "train.log"), "--now", str(NOW_S + 3_000.0))
    assert isinstance(found, dict)
    assert (found["state"], found["phase_key"]) == (state, phase)
    assert state != "finished" or found["cause"] is None


@each_row(
    ("after", "state"),
    [
        ("step:4 - actor/pg_loss:0.1\n", "finished"),
        ("step:4 - actor/pg_loss:0.1\nstep:5 - actor/pg_loss:0.1\n", "running"),
        ("Timer rollout start\n", "running"),
        ("Saving checkpoint to /x\n", "finished"),
    ],
)
def test_a_stage_that_was_done_is_not_the_job(
    after: str, state: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "train.log"
    log.write_text("".join(f"step:{n} - actor/pg_loss:0.1\n" for n in range(1, 4)) + f"Training completed\n{after}")
    os.utime(log, (NOW_S, NOW_S))
    _, found = where(capsys, str(log), "--now", str(NOW_S + 10.0))
    assert isinstance(found, dict)
    assert found["state"] == state


def test_a_number_that_steps_go_beyond_is_no_total() -> None:
    phases = Phases()
    phases.take(PhaseEvent(NOW_S, Act.STEP, step=20, total=20))
    assert phases.finished_s is not None
    phases.take(PhaseEvent(NOW_S + 5.0, Act.STEP, step=21))
    assert phases.finished_s is not None
    for at_s, step, total in ((10.0, 41, None), (20.0, 60, 20), (30.0, 20, 20)):
        phases.take(PhaseEvent(NOW_S + at_s, Act.STEP, step=step, total=total))
        assert (phases.finished_s, phases.total) == (None, None)


@each_row(
    ("name", "job_id"),
    [("train-20260101.log", None), ("seed-1234.out", None), ("slurm-4711.out", "4711"), ("slurm-4711_3.out", "4711_3")],
)
def test_only_a_name_that_slurm_gives_names_a_job(
    name: str, job_id: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, now_s = write(CASES[0], tmp_path)
    _, found = where(capsys, str(log.rename(tmp_path / name)), "--now", str(now_s))
    assert isinstance(found, dict)
    assert found["job"] == job_id


def test_a_file_without_an_end_to_read_from_is_named_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    if not Path("/proc/cpuinfo").exists():
        pytest.skip("no /proc")
    assert main(["where", "/proc/cpuinfo"]) == 2
    told = capsys.readouterr().err
    assert "it cannot be read from its end" in told
    assert "copy it to a disk" in told


@each_row(
    ("head", "since_s"),
    [
        ("2025-07-18T22:40:27+02:00 ", 1_752_871_227.0),
        ("2025-07-18 22:40:27.500 -0530 ", 1_752_898_227.5),
        ("2025-07-18T22:40:27Z ", 1_752_878_427.0),
        ("I0229 10:00:00.000000 123 file.cc:1] ", 1_709_200_800.0),  # of the last leap year
        ("2025-02-30 10:00:00 ", None),
    ],
)
def test_zones_leap_days_and_days_that_do_not_exist(
    head: str, since_s: float | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written_s = 1_752_900_000.0 if since_s is None or since_s > 1_752_000_000 else since_s + 30.0
    (tmp_path / "x.log").write_text(f"{head}Timer rollout start\n")
    os.utime(tmp_path / "x.log", (written_s, written_s))
    _, found = where(capsys, str(tmp_path / "x.log"), "--now", str(written_s + 60.0))
    assert isinstance(found, dict)
    assert (found["phase_key"], found["since"]) == ("generate", since_s if since_s is not None else written_s)
