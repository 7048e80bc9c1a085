"""`rltop watch` as a batch job meets it: what it logs, what it runs, when and how it ends."""

from __future__ import annotations

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_filesystem import FakeFileSystem
from programs import said_here
from tables import each_row

from rltop.cli import main
from rltop.cli.open_session import direct, threaded
from rltop.cli.watch import (
    ON_CRIT,
    ON_STALL,
    ON_STUCK,
    ON_WARN,
    HookOptions,
    Hooks,
    Log,
    RunWatch,
    WatchOptions,
    is_alive,
)
from rltop.clock import Clock, FakeClock
from rltop.config import load
from rltop.model.completions import RolloutSource
from rltop.run import rollouts
from rltop.run.places import FoundRun, name_of
from rltop.run.session import Session
from rltop.sources.events import ReaderOptions
from rltop.sources.reader import Reader
from tests.run_folders import write_events

FINAL = json.dumps({"step": 41, "train_runtime": 12.0, "train_loss": 0.1}) + "\n"
LOOKS_OFTEN = (
    "import sys, functools, rltop.cli, rltop.cli.watch as watch; "
    "watch.Rescanner = functools.partial(watch.Rescanner, interval_s=0.05)"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\nRuntimeError: CUDA out of memory\n'
)


def row(step: int, *, is_bad: bool = False) -> str:
    return json.dumps({"step": step, "loss": float("nan") if is_bad else 0.1, "grad_norm": 1.0, "reward": 0.5}) + "\n"


def rows(count: int, bad: range = range(0), first: int = 1) -> str:
    return "".join(row(step, is_bad=step in bad) for step in range(first, first + count))


class Watch:
    """A watch over one file, moved on by hand with a clock that stands still."""

    def __init__(
        self,
        path: Path,
        capsys: pytest.CaptureFixture[str],
        clock: Clock | None = None,
        reader: Reader | None = None,
        **options: object,
    ) -> None:
        self.path, self.capsys, self.clock = path, capsys, clock or FakeClock()
        self.ran = path.parent / "ran"
        command = f'echo "$RLTOP_RULE $RLTOP_LEVEL $RLTOP_STEP" >> {self.ran}'
        log = Log(self.clock, is_json=True, names_runs=False)
        commands = {flag: f"{command}{flag}" for flag in (ON_CRIT, ON_WARN, ON_STALL)}
        told = "$RLTOP_STATE $RLTOP_PHASE_KEY $RLTOP_OUTSTANDING $RLTOP_STEP"
        commands[ON_STUCK] = f'echo "{told}" >> {self.ran}{ON_STUCK}'
        hooks = Hooks(HookOptions(commands), self.clock, lambda _: None)
        total_steps = options.pop("total_steps", None)
        ingest = load({}, {"HOME": str(path.parent)}).ingest._replace(has_preview=False, total_steps=total_steps)
        seen = path.stat() if path.exists() else None
        size, modified_s = (0, None) if seen is None else (seen.st_size, min(seen.st_mtime, self.clock.now()))
        self.found = FoundRun(str(path), name_of(str(path)), size, modified_s)
        self.hooks = hooks
        open_feed = threaded(reader) if reader else direct(self.clock)
        self.session = Session([self.found], open_feed, self.clock, ingest)
        self.vigil = RunWatch(
            self.session, hooks, log, self.clock,
            WatchOptions(**options),  # type: ignore[arg-type]
        )  # fmt: skip
        self.lines: list[dict[str, object]] = []
        self.waits_for_searches = True
        self.turn()

    def turn(self, after_s: float = 0.0) -> list[dict[str, object]]:
        """Everything once; returns what was logged."""
        if self.waits_for_searches:
            self.settle()
        if isinstance(self.clock, FakeClock):
            self.clock.advance(after_s)
        self.vigil.poll()
        new = [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]
        self.lines += new
        return new

    def settle(self) -> None:
        """Wait until the searches for rollouts have ended: a watch does so before it gives up."""
        for run in self.session.runs:
            for _ in range(2000):
                if run.rollouts is None or run.rollouts.is_at_rest:
                    break
                time.sleep(0.005)

    def append(self, text: str, after_s: float = 1.0) -> list[dict[str, object]]:
        with self.path.open("a") as file:
            file.write(text)
        return self.turn(after_s)

    def commands(self, flag: str) -> list[str]:
        """What the commands of a flag were told, in order."""
        for _ in range(1000):
            self.hooks.tend()
            if self.hooks.is_idle:
                break
            time.sleep(0.005)
        path = Path(f"{self.ran}{flag}")
        return sorted(path.read_text().splitlines()) if path.exists() else []

    def events(self) -> list[object]:
        return [line["event"] for line in self.lines]


def test_a_verdict_is_acted_on_with_the_row_that_shows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(30))
    watch = Watch(path, capsys)
    assert watch.append(row(31)) == []
    (said,) = watch.append(row(32, is_bad=True))
    assert (said["event"], said["rule"], said["level"], said["key"]) == ("raised", "L1", "crit", "loss")
    assert (said["step"], said["since_step"], said["is_past"]) == (32, 32, False)
    assert watch.commands(ON_CRIT) == ["L1 crit 32"]
    for step in range(33, 38):
        assert watch.append(row(step, is_bad=True)) == []
    for step in range(38, 46):
        watch.append(row(step))
    assert [line["event"] for line in watch.lines if line.get("rule") == "L1"] == ["raised", "recovered"]
    assert watch.commands(ON_CRIT) == ["L1 crit 32"]


def test_rows_that_come_at_once_are_told_like_rows_that_come_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = [row(step, is_bad=step in {32, 33}) for step in range(31, 61)]
    found = []
    for name, pieces in (("one", more), ("all", ["".join(more)])):
        path = tmp_path / name / "metrics.jsonl"
        path.parent.mkdir()
        path.write_text(rows(30))
        watch = Watch(path, capsys)
        for piece in pieces:
            watch.append(piece)
        told = [(line["event"], line["rule"], line["level"]) for line in watch.lines if "rule" in line]
        found.append((told, watch.commands(ON_CRIT)))
    assert ("raised", "L1", "crit") in found[0][0] and ("recovered", "L1", "crit") in found[0][0]
    assert found[0] == found[1]


def test_the_end_of_the_history_acts_and_what_recovered_in_it_does_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, bad, options, ran in (
        ("past", range(5, 7), {}, []),
        ("end", range(39, 41), {}, ["L1 crit 40"]),
        ("end, from now", range(39, 41), {"is_from_now": True}, []),
    ):
        path = tmp_path / name / "metrics.jsonl"
        path.parent.mkdir()
        path.write_text(rows(40, bad))
        watch = Watch(path, capsys, **options)
        assert watch.lines[0]["event"] == "watching" and watch.lines[0]["past_events"]
        assert [line["is_past"] for line in watch.lines if line.get("rule") == "L1"] == [True] * (name != "past")
        assert watch.commands(ON_CRIT) == ran, name


def test_a_restart_ends_what_fired_and_is_watched_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(40, range(39, 41)))
    watch = Watch(path, capsys, is_from_now=True)
    said = watch.append(rows(20).replace("0.5", "0.4"))
    assert [(line["event"], line["rule"]) for line in said][:2] == [("fact", "L6"), ("recovered", "L1")]
    watch.append(row(21, is_bad=True))
    assert watch.commands(ON_CRIT) == ["L1 crit 21"]


def test_a_file_that_is_not_there_yet_is_waited_for_and_may_be_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "logs" / "metrics.jsonl"
    path.parent.mkdir()
    watch = Watch(path, capsys)
    assert "does not exist yet" not in watch.events() and watch.lines[0]["records"] == 0
    watch.append(rows(30))
    begun = [(line["records"], line["step"]) for line in watch.lines if line["event"] == "watching"]
    assert begun == [(0, None), (30, 30)]
    path.rename(path.with_suffix(".1"))
    watch.turn(1.0)
    watch.append(rows(10, range(35, 36), first=31))
    assert watch.commands(ON_CRIT) == ["L1 crit 40"] or watch.commands(ON_CRIT) == ["L1 crit 35"]


def test_silence_runs_its_own_command_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(20))
    watch = Watch(path, capsys)
    for step in range(21, 31):
        watch.append(row(step), after_s=5.0)
    assert watch.turn(30.0) == []
    (said,) = watch.turn(60.0)
    assert (said["rule"], said["family"], said["level"]) == ("L4", "liveness", "warn")
    assert watch.commands(ON_STALL) == ["L4 warn 30"]
    assert watch.turn(60.0) == []
    assert watch.commands(ON_STALL) == ["L4 warn 30"]
    assert watch.commands(ON_WARN) == []
    watch.append(row(31))
    assert watch.lines[-1]["event"] == "recovered"


@pytest.mark.parametrize(
    ("text", "options", "wait_s", "event", "code"),
    [
        (rows(40) + FINAL, {}, 6.0, "finished", 0),
        (rows(40, range(38, 41)) + FINAL, {}, 6.0, "finished", 1),
        (rows(40), {"give_up_s": 100.0}, 101.0, "given up", 4),
        ("", {"give_up_s": 100.0}, 101.0, "given up", 3),
        (rows(40), {"pid": 2**22 + 1}, 6.0, "finished", 0),
        ("".join(f"{{'loss': 0.5, 'grad_norm': 1.0, 'epoch': {i / 10}}}\n" for i in range(30)) + TRACEBACK, {}, 90.0,
         "died", 4),
    ],
    ids=["finished", "crit", "given up", "nothing came", "process gone", "traceback"],
)  # fmt: skip
def test_how_it_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, options: dict[str, object], wait_s: float,
    event: str, code: int,
) -> None:  # fmt: skip
    path = tmp_path / "train.log"
    path.write_text("")
    watch = Watch(path, capsys, **options)
    for line in text.splitlines(keepends=True):
        watch.append(line, after_s=0.1)
    watch.commands(ON_CRIT)
    assert not watch.vigil.is_over
    for _ in range(200):
        watch.turn(wait_s)
        if watch.vigil.is_over:
            break
        time.sleep(0.01)
    watch.commands(ON_CRIT)
    assert watch.vigil.is_over
    assert (watch.lines[-1]["event"], watch.vigil.exit_code) == (event, code)


@each_row(
    ("text", "options", "silent_s", "watched_s", "code"),
    [
        (rows(40), {}, 0.0, 7_000.0, None),
        (rows(40), {}, 0.0, 7_300.0, 4),
        (rows(40), {"total_steps": 99}, 0.0, 1e5, None),
        (rows(40), {"total_steps": 99}, 0.0, 2e5, 4),
        (rows(40), {"give_up_s": math.inf}, 3e5, 3e5, None),
        (rows(40), {"pid": os.getpid()}, 3e5, 3e5, None),
        (rows(40), {}, 3e5, 1.0, 4),
        (rows(40), {"is_from_now": True}, 3e5, 7_000.0, None),
        (rows(40), {"is_from_now": True}, 3e5, 7_300.0, 4),
        (rows(40), {"is_from_now": True, "give_up_s": 600.0}, 3e5, 500.0, None),
        (rows(40), {"is_from_now": True, "give_up_s": 600.0}, 3e5, 700.0, 4),
        ("no row\n", {}, 0.0, 1e5, None),
        ("no row\n", {}, 0.0, 2e5, 3),
        ("no row\n", {}, 3e5, 1.0, 3),
        (None, {}, 0.0, 1e5, None),
        (None, {}, 0.0, 2e5, 3),
        (None, {"give_up_s": math.inf}, 0.0, 2e5, None),
    ],
)
def test_a_run_that_has_ended_without_a_word_is_waited_for_only_where_somebody_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None, options: dict[str, Any], silent_s: float,
    watched_s: float, code: int | None,
) -> None:  # fmt: skip
    path, clock = tmp_path / "metrics.jsonl", FakeClock()
    if text is not None:
        path.write_text(text)
        os.utime(path, (clock.now() - silent_s, clock.now() - silent_s))
    watch = Watch(path, capsys, clock, **options)
    watch.turn(watched_s)
    for _ in range(200 if code is not None else 20):
        if watch.vigil.is_over:
            break
        time.sleep(0.01)
        watch.turn(0.1)
    assert watch.vigil.is_over is (code is not None), watch.lines
    if code is not None:
        assert (watch.lines[-1]["event"], watch.vigil.exit_code) == ("given up", code)


@each_row(
    ("said", "is_folder", "words", "code"),
    [
        ("loading\nTraining finished!\n", True, "finished, as its log says, without a record", 3),
        ("loading\nloss=0.5 kl=0.25\nTraining finished!\n", False, "no record yet: 1 row has no step (line 2", 3),
        (TRACEBACK, True, "died: RuntimeError: CUDA out of memory", 4),
    ],
)
def test_a_log_without_rows_ends_the_watch_where_it_says_how_it_ended(
    tmp_path: Path, said: str, is_folder: bool, words: str, code: int
) -> None:
    path = tmp_path / "run" / "train.log"
    path.parent.mkdir(exist_ok=True)
    path.write_text(said)
    os.utime(path, (time.time() - 7_000.0,) * 2)
    ended, out, _ = said_here("watch", str(path.parent if is_folder else path))
    assert (ended, words in out) == (code, True), out


def test_what_the_attempt_before_died_of_ends_no_watch_from_now(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, clock = tmp_path / "metrics.jsonl", FakeClock()
    path.write_text(rows(40))
    (tmp_path / "train.log").write_text(TRACEBACK)
    for each in (path, tmp_path / "train.log"):
        os.utime(each, (clock.now() - 1_200.0,) * 2)
    watch = Watch(path, capsys, clock, is_from_now=True)

    def wait(seconds: float) -> None:
        watch.turn(seconds)
        for _ in range(30):
            time.sleep(0.01)
            watch.turn(0.1)

    wait(1_000.0)
    assert not watch.vigil.is_over, watch.lines
    watch.append(row(41))
    os.utime(tmp_path / "train.log", (clock.now() + 1.0,) * 2)
    wait(4_000.0)
    assert (watch.lines[-1]["event"], watch.vigil.exit_code) == ("died", 4), watch.lines


def test_a_search_for_rollouts_that_ends_is_no_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    let_go, search = threading.Event(), rollouts.dumps_near

    def search_slowly(path: str) -> list[RolloutSource]:
        let_go.wait(10.0)
        return search(path)

    monkeypatch.setattr(rollouts, "dumps_near", search_slowly)
    path = tmp_path / "train.log"
    path.write_text("")
    watch = Watch(path, capsys, give_up_s=100.0)
    watch.waits_for_searches = False
    watch.turn(101.0)
    assert not watch.vigil.is_over
    let_go.set()
    watch.settle()
    watch.turn(1.0)
    assert watch.events()[-1] == "given up"


def test_rows_of_another_clock_are_no_silence_while_the_file_is_written_to(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": i, "time": 1e9 + i, "loss": 0.1}) + "\n" for i in range(40)))
    watch = Watch(path, capsys, give_up_s=100.0)
    watch.turn(50.0)
    assert not watch.vigil.is_over
    watch.turn(51.0)
    assert watch.events()[-1] == "given up"


def test_a_run_that_is_given_up_has_not_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(20))
    watch = Watch(path, capsys, give_up_s=200.0)
    for step in range(21, 31):
        watch.append(row(step), after_s=5.0)
    watch.turn(90.0)
    assert watch.commands(ON_STALL) == ["L4 warn 30"]
    watch.turn(150.0)
    assert watch.events()[-1] == "given up"
    assert "recovered" not in watch.events()


def test_a_row_after_an_error_takes_it_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{{'loss': 0.5, 'grad_norm': 1.0, 'epoch': {i / 10}}}\n" for i in range(30)]
    path = tmp_path / "train.log"
    path.write_text("".join(lines[:20]))
    watch = Watch(path, capsys)
    watch.append(TRACEBACK)
    watch.append("".join(lines[20:]))
    watch.turn(90.0)
    assert "died" not in watch.events()


def test_commands_come_from_the_command_line_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, trap = tmp_path / "metrics.jsonl", tmp_path / "trap"
    path.write_text(rows(40, range(38, 41)) + FINAL)
    config = tmp_path / "config.toml"
    for text in (f'on_crit = "touch {trap}"\n', f'on-crit = "touch {trap}"\n', f'[watch]\non_crit = "touch {trap}"\n'):
        config.write_text(text)
        assert main(["watch", "--config", str(config), str(path)]) == 2
        assert str(config) in capsys.readouterr().err
    monkeypatch.setenv("RLTOP_ON_CRIT", f"touch {trap}")
    os.utime(path, (0, 0))
    assert main(["watch", str(path)]) == 1
    assert not trap.exists()


@each_row(
    "flags",
    [
        ["--on-crit", " "],
        ["--give-up", "0"],
        ["--give-up", "nan"],
        ["--timeout", "-1"],
        ["--per-hour", "0"],
        ["--pid", "x"],
    ],
)
def test_what_cannot_be_is_refused_in_words(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main(["watch", "metrics.jsonl", *flags])
    assert left.value.code == 2
    assert flags[0] in capsys.readouterr().err


def test_a_process_that_was_not_waited_for_is_not_alive() -> None:
    done = subprocess.Popen([sys.executable, "-c", ""])
    for _ in range(1000):
        if not is_alive(done.pid):
            break
        time.sleep(0.005)
    assert not is_alive(done.pid)
    assert done.wait() == 0
    assert not is_alive(done.pid) and is_alive(os.getpid())


@pytest.fixture
def obeyed_interrupt() -> Iterator[None]:
    """What a shell starts in the background ignores SIGINT and so do its children: the suite may be one of them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("obeyed_interrupt")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGRTMAX])
def test_a_signal_ends_it_at_once_with_all_that_it_started(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(40, range(38, 41)))
    child = tmp_path / "child"
    with subprocess.Popen(
        [sys.executable, "-m", "rltop", "watch", str(path), "--on-crit", f"echo $$ > {child}; exec sleep 300"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        try:
            for _ in range(2000):
                if child.exists() and child.read_text().endswith("\n"):
                    break
                time.sleep(0.01)
            program.send_signal(number)
            out, err = program.communicate(timeout=30)
        finally:
            program.kill()
    assert program.returncode == 128 + number
    assert err == ""
    assert f"stopped by {number.name}" in out
    assert not is_alive(int(child.read_text()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_what_it_started_ends_too_when_it_has_no_time_to_end_it(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(40, range(38, 41)))
    child = tmp_path / "child"
    with subprocess.Popen(
        [sys.executable, "-m", "rltop", "watch", str(path), "--on-crit", f"sleep 300 & echo $! > {child}; wait"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as program:  # fmt: skip
        try:
            # A command that has not been said to be started may not be known to the process that ends it.
            while "started, process" not in program.stdout.readline():
                assert program.poll() is None
            for _ in range(2000):
                if child.exists() and child.read_text().endswith("\n"):
                    break
                time.sleep(0.01)
            program.send_signal(number)
            # Whatever is left would keep standard error open.
            program.communicate(timeout=30)
        finally:
            program.kill()
    assert program.returncode == -number
    pid = int(child.read_text())
    for _ in range(500):
        # Standard error is closed a moment before the process is gone.
        if not is_alive(pid):
            break
        time.sleep(0.01)
    assert not is_alive(pid)


def test_a_log_that_nobody_reads_does_not_end_the_watch(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(40, range(38, 41)) + FINAL)
    os.utime(path, (0, 0))
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "rltop", "watch", str(path), "--on-crit", f"touch {tmp_path}/ran"],
        stdout=write_end, stderr=subprocess.PIPE, timeout=60, check=False,
    )  # fmt: skip
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, b"")
    assert (tmp_path / "ran").exists()


def test_a_command_may_run_rltop_itself(tmp_path: Path) -> None:
    """What it is told stands in the environment beside the settings, and is none of them."""
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(40, range(38, 41)) + FINAL)
    os.utime(path, (0, 0))
    explain = f'{sys.executable} -m rltop check --explain "$RLTOP_RULE" "$RLTOP_PATH"'
    code, _, err = said_here("watch", str(path), "--on-crit", f"({explain}; echo $?) > {tmp_path}/said")
    assert (code, err) == (1, "")
    said = (tmp_path / "said").read_text()
    assert "alert" in said and "since step 38" in said and said.endswith("\n1\n")


def test_a_directory_is_looked_at_again_for_the_files_of_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "tb"
    first = [(i, 1.7e9 + i, {"train/loss": 0.1, "train/reward": 0.5}) for i in range(1, 31)]
    write_events(folder, first, begun_s=1_700_000_000)
    watch = subprocess.Popen(
        [sys.executable, "-c", f"{LOOKS_OFTEN}; sys.exit(rltop.cli.main())", "watch", str(tmp_path), "--json"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert json.loads(watch.stdout.readline())["event"] == "watching"
        write_events(folder, [(31, 1.7e9 + 50, {"train/loss": float("nan")})], begun_s=1_700_000_100)
        rule = next(line for line in map(json.loads, watch.stdout) if line["event"] == "raised")
        assert (rule["rule"], rule["step"]) == ("L1", 31)
    finally:
        watch.kill()
        watch.communicate()


def test_a_run_that_is_read_anew_tells_nothing_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(30))
    watch = Watch(path, capsys)
    watch.append(row(31, is_bad=True))
    watch.append(row(32, is_bad=True))
    assert watch.commands(ON_CRIT)
    told = len(watch.lines)
    (other := tmp_path / "other.jsonl").write_text(rows(5))
    watch.session.update(
        [watch.found._replace(other_streams=(FoundRun(str(other), name_of(str(other)), role="explorer"),))]
    )
    assert len(watch.session.runs[0].other_streams) == 1
    assert watch.turn() == []
    watch.append(row(33, is_bad=True))
    assert len(watch.commands(ON_CRIT)) == 1
    assert all(line["event"] != "raised" for line in watch.lines[told:])


def test_a_writer_that_is_faster_is_said_and_does_not_make_it_deaf(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltop.cli.watch.TURN_S", 0.02)
    monkeypatch.setattr("rltop.cli.watch.SLICE_MS", 5.0)
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(30))
    watch = Watch(path, capsys, Clock())
    watch.append(rows(3_000, first=31).replace("}", " " * 1000 + "}"))
    assert [event for event in watch.events() if event in ("behind", "caught up")] == ["behind"]
    for _ in range(1000):
        if not watch.vigil.poll():
            break
    watch.turn()
    assert [event for event in watch.events() if event in ("behind", "caught up")] == ["behind", "caught up"]


def until(watch: Watch, event: str, times: int = 1) -> dict[str, object]:
    """Turn until an event has been logged so many times."""
    for _ in range(1_000):
        watch.turn()
        if watch.events().count(event) >= times:
            return next(line for line in reversed(watch.lines) if line["event"] == event)
        time.sleep(0.01)
    raise AssertionError(f"no {event!r} in {watch.lines}")


@pytest.fixture
def hanging(tmp_path: Path) -> Iterator[tuple[FakeFileSystem, Reader, Path]]:
    """A file of 40 rows in a file system that can be made to hang, and who reads it."""
    fs, path = FakeFileSystem(), tmp_path / "metrics.jsonl"
    fs.write(str(path), rows(40).encode())
    options = ReaderOptions(local_poll_s=0.02, stuck_after_s=0.2, use_watcher=False)
    reader = Reader(options, fs, mountinfo=lambda: "")
    yield fs, reader, path
    fs.gate.set()
    reader.close()


def test_a_file_system_that_hangs_from_the_start_is_said_and_given_up(
    hanging: tuple[FakeFileSystem, Reader, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fs, reader, path = hanging
    fs.gate.clear()
    watch = Watch(path, capsys, Clock(), reader, give_up_s=0.3)
    assert "no answer" in str(until(watch, "lost")["reason"])
    assert until(watch, "given up")["exit_code"] == 3
    assert watch.vigil.is_over and watch.vigil.exit_code == 3


def test_a_file_system_that_hangs_midway_is_no_silence_of_the_run(
    hanging: tuple[FakeFileSystem, Reader, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fs, reader, path = hanging
    watch = Watch(path, capsys, Clock(), reader)
    until(watch, "watching")
    fs.write(str(path), row(41).encode())
    fs.gate.clear()
    until(watch, "lost")
    fs.gate.set()
    until(watch, "found")
    fs.denied = True
    assert "denied" in str(until(watch, "lost", times=2)["reason"])


def test_giving_up_a_file_out_of_sight_says_what_is_wrong_with_it(
    hanging: tuple[FakeFileSystem, Reader, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    fs, reader, path = hanging
    watch = Watch(path, capsys, Clock(), reader, give_up_s=0.5)
    until(watch, "watching")
    fs.gate.clear()
    until(watch, "given up")
    assert watch.vigil.exit_code == 4


def test_a_clock_that_is_set_is_neither_a_silence_nor_a_reason_to_give_up(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(rows(40))
    watch = Watch(path, capsys, Clock(), give_up_s=600.0)
    watch.append(row(41))
    before = time.time()
    for year in (1, -1):
        monkeypatch.setattr(time, "time", lambda year=year: before + year * 365 * 86_400.0)
        assert watch.append(row(41 + abs(year))) == []
        assert watch.turn() == []
        assert not watch.vigil.is_over
    assert watch.commands(ON_STALL) == []


def test_a_job_that_is_stuck_runs_its_command_once_until_it_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, log = tmp_path / "metrics.jsonl", tmp_path / "train.log"
    clock = FakeClock()
    path.write_text(
        "".join(json.dumps({"step": n, "time": clock.now() - 60 * (9 - n), "loss": 0.1}) + "\n" for n in range(1, 10))
    )
    log.write_text("Rollout generation:  98%|███| 504/512 [00:01<00:05, 8.0it/s]; touch $(pwd)/`id`\n")
    os.utime(log, (clock.now(), clock.now()))
    watch = Watch(path, capsys, follows_jobs=True)

    def until(event: str) -> dict[str, object]:
        for _ in range(2_000):
            said = [line for line in watch.turn(1.0) if line["event"] == event]
            time.sleep(0.002)
            if said:
                return said[0]
        raise AssertionError(watch.events())

    said = until("stuck")
    assert (said["phase_key"], said["phase"]) == ("generate", "generating")
    (told,) = watch.commands(ON_STUCK)
    assert told == "stuck generate 8 of 512 9"
    log.write_text(log.read_text() + "Rollout generation: 100%|███| 512/512 [09:01<00:00, 8.0it/s]\n")
    until("going on")
    assert len(watch.commands(ON_STUCK)) == 1
    until("stuck")
    assert len(watch.commands(ON_STUCK)) == 2
    assert sorted(file.name for file in tmp_path.iterdir()) == ["metrics.jsonl", f"ran{ON_STUCK}", "train.log"]
