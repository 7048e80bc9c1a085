"""Commands on verdicts: which, how often, for how long, and what is left of them."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli.watch import ON_CRIT, ON_STALL, ON_WARN, HookOptions, Hooks, environment_of
from rltop.clock import FakeClock
from rltop.model import Level
from rltop.report.notices import Notice, NoticeKind
from rltop.settings import VERDICT_VARIABLES


def notice(level: Level = Level.CRIT, *, episode: int = 1, family: str = "entropy", headline: str = "fell") -> Notice:
    return Notice(NoticeKind.RAISED, "E1", "collapse", family, level, 12, 9, "entropy", "key", headline, episode)


class Bench:
    """Hooks with a clock of their own and what they said."""

    def __init__(self, timeout_s: float = 60.0, per_hour: int = 20, **commands: str) -> None:
        flags = {"crit": ON_CRIT, "warn": ON_WARN, "stall": ON_STALL}
        self.clock = FakeClock()
        self.said: list[str] = []
        options = HookOptions({flags[name]: text for name, text in commands.items()}, timeout_s, per_hour)
        self.hooks = Hooks(options, self.clock, self.said.append)

    def call(self, each: Notice, path: str = "m.jsonl") -> None:
        self.hooks.call_for(each, "run", path)

    def until(self, is_true: Callable[[], bool]) -> None:
        for _ in range(1000):
            self.hooks.tend()
            if is_true():
                return
            time.sleep(0.005)
        pytest.fail(f"it never came to that: {self.said}")

    def settle(self) -> None:
        self.until(lambda: self.hooks.is_idle)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


@each_row(
    ("given", "level", "family", "runs"),
    [
        ({"crit", "warn", "stall"}, Level.CRIT, "entropy", "crit"),
        ({"crit", "warn", "stall"}, Level.WARN, "entropy", "warn"),
        ({"crit", "warn", "stall"}, Level.WARN, "liveness", "stall"),
        ({"crit", "warn", "stall"}, Level.CRIT, "liveness", "stall"),
        ({"crit", "warn"}, Level.WARN, "liveness", "warn"),
        ({"warn"}, Level.CRIT, "entropy", "warn"),
        ({"crit"}, Level.WARN, "entropy", ""),
        ({"stall"}, Level.CRIT, "entropy", ""),
        ({"crit", "warn", "stall"}, Level.INFO, "entropy", ""),
    ],
)
def test_a_verdict_calls_for_one_command(tmp_path: Path, given: set[str], level: Level, family: str, runs: str) -> None:
    bench = Bench(**{name: f"touch {tmp_path}/{name}" for name in given})
    bench.call(notice(level, family=family))
    bench.settle()
    assert [path.name for path in tmp_path.iterdir()] == ([runs] if runs else [])


def test_a_command_runs_once_per_verdict_and_run(tmp_path: Path) -> None:
    bench = Bench(warn=f'echo "$RLTOP_PATH $RLTOP_LEVEL" >> {tmp_path}/log')
    bench.call(notice(Level.WARN))
    bench.settle()
    for each, path in ((notice(Level.CRIT), "m.jsonl"), (notice(Level.WARN), "n.jsonl")):
        bench.call(each, path)
        bench.settle()
    bench.call(notice(Level.WARN, episode=2))
    bench.settle()
    assert (tmp_path / "log").read_text() == "m.jsonl warn\nm.jsonl crit\nn.jsonl warn\nm.jsonl warn\n"


def test_alerts_of_one_incident_run_one_command_and_one_more_when_it_gets_critical(tmp_path: Path) -> None:
    bench = Bench(warn=f'echo "$RLTOP_RULE $RLTOP_LEVEL $RLTOP_INCIDENT" >> {tmp_path}/log')
    told = [("E1", Level.WARN, 1), ("T1", Level.WARN, 1), ("R1", Level.CRIT, 1), ("X1", Level.CRIT, 1)]
    told += [("P1", Level.WARN, 2)]
    for episode, (rule, level, incident) in enumerate(told, 1):
        bench.call(dataclasses.replace(notice(level, episode=episode), rule=rule, incident=incident))
        bench.settle()
    assert (tmp_path / "log").read_text() == "E1 warn 1\nR1 crit 1\nP1 warn 2\n"


def test_an_alert_that_comes_back_after_a_recovery_runs_its_command_again(tmp_path: Path) -> None:
    bench = Bench(crit=f'echo "$RLTOP_STEP" >> {tmp_path}/log')
    for episode, step in ((1, 120), (1, 130), (2, 180)):
        bench.call(dataclasses.replace(notice(episode=episode), rule="R1", incident=1, step=step))
        bench.settle()
    assert (tmp_path / "log").read_text() == "120\n180\n"


def test_what_a_trainer_wrote_is_never_part_of_the_command(tmp_path: Path) -> None:
    attack = f"$(touch {tmp_path}/owned)`touch {tmp_path}/owned`; touch {tmp_path}/owned; \"'\\ "
    bench = Bench(crit=f'printf %s "$RLTOP_HEADLINE" > {tmp_path}/said')
    bench.call(notice(headline=f"{attack}\x1b]0;title\x07\n\x00end\u202e"))
    bench.settle()
    assert [path.name for path in tmp_path.iterdir()] == ["said"]
    assert (tmp_path / "said").read_text() == f"{attack}]0;titleend"


def test_the_environment_tells_the_verdict() -> None:
    found = environment_of(notice(), "run\r", "a\nb" + "x" * 9000)
    assert tuple(found) == VERDICT_VARIABLES
    assert found["RLTOP_RULE"] == "E1" and found["RLTOP_LEVEL"] == "crit" and found["RLTOP_RUN"] == "run"
    assert (found["RLTOP_STEP"], found["RLTOP_SINCE_STEP"]) == ("12", "9")
    assert (found["RLTOP_METRIC"], found["RLTOP_KEY"], found["RLTOP_HEADLINE"]) == ("entropy", "key", "fell")
    assert found["RLTOP_PATH"].startswith("abx") and len(found["RLTOP_PATH"]) <= 2000


@each_row(
    ("command", "words"),
    [("exit 3", "exit code 3"), ("no-such-command-here", "command not found"), ("kill -9 $$", "killed by signal 9")],
)
def test_a_command_that_fails_is_said_and_nothing_more(command: str, words: str) -> None:
    bench = Bench(crit=command)
    bench.call(notice())
    bench.settle()
    assert any(words in each for each in bench.said), bench.said


def test_a_command_that_takes_too_long_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    bench = Bench(timeout_s=10.0, crit=f"trap '' TERM; sleep 300 & echo $! > {tmp_path}/child; wait; sleep 300")
    bench.call(notice())
    child = tmp_path / "child"
    bench.until(lambda: child.exists() and child.read_text().endswith("\n"))
    assert not bench.hooks.is_idle
    bench.clock.advance(11)
    bench.until(lambda: any("longer than 10 s" in each for each in bench.said))
    bench.clock.advance(11)
    bench.settle()
    bench.until(lambda: not is_running(int(child.read_text())))


def test_what_a_command_leaves_in_the_background_goes_with_it(tmp_path: Path) -> None:
    bench = Bench(crit=f"sleep 300 & echo $! > {tmp_path}/child")
    bench.call(notice())
    bench.settle()
    bench.until(lambda: not is_running(int((tmp_path / "child").read_text())))


def test_closing_ends_what_runs_and_forgets_what_waits(tmp_path: Path) -> None:
    bench = Bench(crit=f"echo $$ >> {tmp_path}/pids; exec sleep 300")
    for episode in range(8):
        bench.call(notice(episode=episode))
    pids = tmp_path / "pids"
    bench.until(lambda: pids.exists() and pids.read_text().count("\n") == 4)
    bench.hooks.close()
    assert bench.hooks.is_idle
    assert not any(is_running(int(pid)) for pid in pids.read_text().split())
    assert pids.read_text().count("\n") == 4


def test_a_command_does_not_run_more_often_than_it_may(tmp_path: Path) -> None:
    bench = Bench(per_hour=2, warn=f"echo w >> {tmp_path}/log", crit=f"echo c >> {tmp_path}/log")
    for episode in range(5):
        bench.call(notice(Level.WARN, episode=episode))
        bench.settle()
    bench.call(notice(episode=9))
    bench.settle()
    assert (tmp_path / "log").read_text() == "w\nw\nc\n"
    assert sum("not run" in each for each in bench.said) == 3
    bench.clock.advance(3600)
    bench.call(notice(Level.WARN, episode=10))
    bench.settle()
    assert (tmp_path / "log").read_text() == "w\nw\nc\nw\n"


def test_the_worst_does_not_wait_behind_what_is_less_bad(tmp_path: Path) -> None:
    gate, log = tmp_path / "gate", tmp_path / "log"
    bench = Bench(warn=f"while [ ! -e {gate} ]; do sleep 0.01; done", crit=f"echo crit >> {log}; cat {gate}")
    for episode in range(6):
        bench.call(notice(Level.WARN, episode=episode))
    bench.call(notice(episode=9))
    gate.touch()
    bench.settle()
    order = [each.split()[0] for each in bench.said if "started" in each]
    assert order.index("--on-crit") == 4
