"""The console log of a run: which file it is, its end, and what becomes of bars, escape codes and long lines."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ptys import PATIENCE_S
from tables import each_row

from rltop.run.console_log import HELD_BYTES, LINE_CHARS, ConsoleLog, read_line
from rltop.run.places import logs_near


def wait_for(is_so: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.005)


def opened(path: Path | str, given: Path | str = "") -> ConsoleLog:
    log = ConsoleLog(str(path), str(given), lambda: None)
    log.start()
    wait_for(lambda: not log.state.is_looking)
    return log


def texts(log: ConsoleLog) -> list[str]:
    return [line.text for line in log.lines()[1]]


@each_row(
    ("raw", "text"),
    [
        (b"\r  0%|   |\r 50%|#  |\r100%|###|", "100%|###|"),
        (b"a bar\r\r", "a bar"),
        (b"\x1b[1;31mred\x1b[0m \x1b]0;title\x07and \x1b]8;;http://x\x1b\\link", "red and link"),
        (b"bell\x07 nul\x00 c1\x9b31m", "bell nul c1\ufffd31m"),
        ("\x9b31mcsi".encode(), "csi"),
        (b"tab\there", "tab here"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"dos\r", "dos"),
        (
            rb'{"log":"\u001b[1mbold\u001b[0m \"b\" \u003c\n","stream":"stderr","time":"2026-11-28T06:00:00Z"}',
            'bold "b" <',
        ),
    ],
)
def test_a_line_is_what_a_terminal_would_have_left(raw: bytes, text: str) -> None:
    assert read_line(raw).text == text


@each_row(
    ("text", "step"),
    [
        ("step:12 - actor/entropy:0.4 - timing_s/step:123.4", 12),
        ("timing_s/step:123.4 - training/global_step:7", 7),
        ("{'loss': 0.1, 'step': 40, 'epoch': 0.2}", 40),
        ('{"global_step": 3}', 3),
        ("training/global_step:5.000", 5),
        ("Step 7 | 3.2s | Loss 0.01", 7),
        ("[step 17/500] reward=0.2", 17),
        ("iteration 4", 4),
        ("max_steps=100 warmup_steps: 5", None),
        ("12 steps done, step time 3.5s", None),
        ("step: 3.5", None),
        ("stepping stone 4", None),
    ],
)
def test_the_step_that_a_line_names(text: str, step: int | None) -> None:
    assert read_line(text.encode()).step == step


@each_row(
    "text",
    [
        "RuntimeError: NCCL communicator was aborted",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "[2026-01-01 10:00:00,123][ERROR] reward worker died",
        "ERROR: cannot connect",
        "slurmstepd: error: Detected 1 oom-kill event(s)",
        "Process was terminated by SIGKILL",
        "node1:123 [0] NCCL WARN Call to connect returned Connection refused",
        "OSError: [Errno 28] No space left on device",
        "Killed",
    ],
)
def test_what_tells_of_a_failure_is_marked(text: str) -> None:
    assert read_line(text.encode()).is_error


@each_row(
    "text",
    [
        "log_level=ERROR",
        "step:3 - critic/error_rate:0.1",
        "0 errors",
        "retrying after an error is on",
        "MathErrorReward",
    ],
)
def test_what_only_sounds_like_one_is_not(text: str) -> None:
    assert not read_line(text.encode()).is_error


def test_a_traceback_is_marked_where_it_begins_and_its_error_where_it_ends() -> None:
    assert read_line(b"Traceback (most recent call last):").is_trace
    assert not read_line(b'  File "x.py", line 3, in main').is_error


def test_a_long_line_is_cut_and_says_by_how_much() -> None:
    line = read_line(b"x" * (LINE_CHARS + 30))
    assert (len(line.text), line.left_out) == (LINE_CHARS, 30)


def test_the_likeliest_file_comes_first_and_only_files_that_may_be_read(tmp_path: Path) -> None:
    run = tmp_path / "metrics.jsonl"
    run.write_text("{}\n")
    for age, name in enumerate(
        ("slurm-12.out", "train.log", "metrics.log", "debug.log", "debug-internal.log", "a.txt")
    ):
        (tmp_path / name).write_text("x\n")
        os.utime(tmp_path / name, (1e9 - age, 1e9 - age))
    (tmp_path / "empty.log").touch()
    (tmp_path / "folder.log").mkdir()
    os.mkfifo(tmp_path / "pipe.log")
    (tmp_path / "device.log").symlink_to("/dev/zero")
    (tmp_path / "gone.log").symlink_to(tmp_path / "nowhere")
    found = [Path(path).name for path in logs_near(str(run))]
    assert found == ["metrics.log", "slurm-12.out", "train.log"]
    # What other programs are called too is this run's where it is called as the run is.
    for name in ("eval-1.log", "test-1.log", "test-1.jsonl"):
        (tmp_path / name).write_text("x\n")
    for own in ("test-1.log", "test-1.jsonl"):
        found = [Path(path).name for path in logs_near(str(tmp_path / own))]
        assert found[0] == "test-1.log" and "eval-1.log" not in found


def test_the_log_of_a_wandb_run_and_the_one_above_a_folder_of_metrics(tmp_path: Path) -> None:
    wandb = tmp_path / "run-1" / "run-abc.wandb"
    (wandb.parent / "files").mkdir(parents=True)
    wandb.write_bytes(b":W&B")
    (wandb.parent / "files" / "output.log").write_text("x\n")
    assert [Path(path).name for path in logs_near(str(wandb))] == ["output.log"]
    event = tmp_path / "job" / "tb" / "events.out.tfevents.1.host"
    event.parent.mkdir(parents=True)
    event.write_bytes(b"x")
    (tmp_path / "job" / "nohup.out").write_text("x\n")
    assert [Path(path).name for path in logs_near(str(event))] == ["nohup.out"]


def test_a_run_that_is_a_console_log_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("step:1 - a:1\n")
    (tmp_path / "newer.log").write_text("x\n")
    log = opened(tmp_path / "train.log")
    assert log.state.path == str(tmp_path / "train.log") and texts(log) == ["step:1 - a:1"]
    log.close()


def test_it_is_followed_a_bar_that_is_still_drawn_included(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"one\n\r10%")
    log = opened(tmp_path / "m.jsonl", path)
    wait_for(lambda: texts(log) == ["one", "10%"])
    assert log.closed_count == 1
    with path.open("ab") as file:
        file.write(b"\r20%")
        file.flush()
        wait_for(lambda: texts(log) == ["one", "20%"])
        file.write(b"\r30%\ntwo\n")
    wait_for(lambda: texts(log) == ["one", "30%", "two"])
    path.write_bytes(b"anew\n")
    wait_for(lambda: texts(log) == ["anew"])
    assert log.first == 3
    log.close()


def test_only_the_end_of_a_large_file_is_read_and_held(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    with path.open("wb") as file:
        file.truncate(3 * 1024**3)
        file.seek(0, os.SEEK_END)
        for number in range(150_000):
            file.write(b"line %d of a long log that goes on and on and on, step:%d\n" % (number, number))
    log = opened(tmp_path / "m.jsonl", path)
    wait_for(lambda: texts(log)[-1:] == ["line 149999 of a long log that goes on and on and on, step:149999"])
    near = log.lines()[1][-1]
    wait_for(lambda: log.first < 0)
    found = texts(log)
    assert 10_000 < len(found) <= 50_000 and all(text.startswith("line ") for text in found)
    steps = [line.step for line in log.lines()[1]]
    assert steps == list(range(steps[0] or 0, 150_000)) and log.lines(log.closed_count - 1)[1] == [near]
    assert log.state.begins_at >= path.stat().st_size - HELD_BYTES
    log.close()


def test_where_more_lines_come_before_the_end_than_are_held_the_log_does_not_begin_at_0(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"".join(b"line %d\n" % number for number in range(100_000)))
    log = opened(tmp_path / "m.jsonl", path)
    wait_for(lambda: log.first < 0)
    first = int(texts(log)[0].partition(" ")[2])
    assert first > 0 and log.state.begins_at == path.read_bytes().index(b"line %d\n" % first)
    log.close()


def test_a_line_without_end_takes_bounded_memory(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"x" * 3_000_000)
    log = opened(tmp_path / "m.jsonl", path)
    wait_for(lambda: texts(log) and log.lines()[1][-1].left_out > 200_000)
    with path.open("ab") as file:
        file.write(b"".join(b"\r%3d%%" % (number % 100) for number in range(100_000)) + b"\nend\n")
    wait_for(lambda: texts(log)[-1:] == ["end"])
    assert texts(log)[-2] == " 99%"
    log.close()


def test_what_is_no_file_is_said_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for given, word in ((tmp_path / "pipe", "pipe"), (tmp_path, "director"), (tmp_path / "gone", "no such file")):
        log = opened(tmp_path / "m.jsonl", given)
        wait_for(lambda log=log: log.state.note)  # type: ignore[misc]
        assert not texts(log) and word in log.state.note
        log.close()


def test_none_beside_the_run_is_said_and_one_that_comes_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltop.run.console_log.LOOK_S", 0.01)
    log = opened(tmp_path / "m.jsonl")
    assert not log.state.path
    (tmp_path / "train.log").write_text("here\n")
    wait_for(lambda: texts(log) == ["here"])
    log.close()


def test_nobody_looking_leaves_the_file_alone_until_somebody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltop.run.console_log.ASKED_S", 0.0)
    monkeypatch.setattr("rltop.run.console_log.POLL_S", 0.01)
    path = tmp_path / "train.log"
    path.write_text("one\n")
    log = opened(tmp_path / "m.jsonl", path)
    wait_for(lambda: texts(log) == ["one"])
    path.write_text("one\ntwo\n")
    threading.Event().wait(0.1)
    assert texts(log) == ["one"]
    wait_for(lambda: (log.ask(), texts(log) == ["one", "two"])[1])
    log.close()
