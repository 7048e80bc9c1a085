"""A directory, or a pattern, in which there is nothing to read yet."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from binary_files import event, frame, integer, span, version_event
from ptys import Terminal
from tables import each_row

from rltop.cli import main
from rltop.clock import FakeClock
from rltop.errors import EXIT_DIED, EXIT_NO_METRICS, EXIT_USAGE
from rltop.formats.kinds import Kind
from rltop.model import RunState
from rltop.run import discover as discovering
from rltop.run.discover import Rescanner, discover, future_run, is_awaited
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed


def write(path: Path, count: int = 40) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"step": i, "loss": 1.0 / i}) + "\n" for i in range(1, count + 1)))
    return path


class Awaiting:
    """A session over paths where nothing is, looked at again when asked."""

    def __init__(self, *paths: str) -> None:
        self.clock = FakeClock()
        found = [future_run(paths, discover(paths))]
        self.scanner = Rescanner(paths, found, self.clock, lambda: None)
        self.session = Session(found, lambda path, lines: DirectFeed(path, clock=self.clock, last=lines), self.clock)
        self.session.take_rescan = self.scanner.take

    def look(self) -> None:
        self.scanner.look()
        while self.session.step(1_000.0):
            self.clock.advance(1.0)

    @property
    def note(self) -> str:
        (run,) = self.session.runs
        assert run.state is RunState.WAITING
        return run.main.state_note


@each_row("form", ["{}", "{}/", "{}/*/*.jsonl", "{}/job", "{}/job/"])
def test_the_first_run_that_appears_takes_the_place_of_what_is_awaited(tmp_path: Path, form: str) -> None:
    path = form.format(tmp_path)
    assert is_awaited(discover([path]))
    awaiting = Awaiting(path)
    awaiting.look()
    assert f"{path} yet" in awaiting.note or f"in {path}" in awaiting.note
    (first,) = awaiting.session.runs
    write(tmp_path / "job" / "metrics.jsonl")
    awaiting.look()
    (run,) = awaiting.session.runs
    assert (run.main.stream.last_step, first.replaced_by) == (40, run)


def test_of_several_that_appear_at_once_none_is_left_out(tmp_path: Path) -> None:
    awaiting = Awaiting(str(tmp_path))
    write(tmp_path / "a" / "metrics.jsonl")
    write(tmp_path / "b" / "metrics.jsonl")
    awaiting.look()
    assert {str(run.name) for run in awaiting.session.runs} == {"a", "b"}


def test_what_is_there_and_holds_no_metrics_is_said_and_kept_up_to_date(tmp_path: Path) -> None:
    (tmp_path / "trackio.db").write_bytes(b"SQLite format 3\0" + bytes(64))
    awaiting = Awaiting(str(tmp_path))
    assert "1 file without metrics: trackio.db (an SQLite database" in awaiting.note
    (tmp_path / "metrics.jsonl").write_text("")
    awaiting.look()
    assert "2 files without metrics: " in awaiting.note
    assert "empty" in awaiting.note
    write(tmp_path / "metrics.jsonl")
    awaiting.look()
    assert [run.main.stream.last_step for run in awaiting.session.runs] == [40]


def test_a_file_that_was_named_is_followed_as_it_is(tmp_path: Path) -> None:
    assert not is_awaited(discover([str(tmp_path / "metrics.jsonl")]))
    assert not is_awaited(discover([str(write(tmp_path / "here.jsonl"))]))


@each_row("path", ["{}", "{}/*.jsonl"])
@each_row("command", [["check"], ["--once"]])
def test_without_a_screen_nothing_is_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str], path: str
) -> None:
    named = path.format(tmp_path)
    assert main([*command, named]) == EXIT_NO_METRICS
    assert named in capsys.readouterr().err


def test_a_watch_waits_and_then_follows_what_has_come(tmp_path: Path) -> None:
    terminal = Terminal.python("-m", "rltop", "watch", str(tmp_path), "--give-up", "600", width=200)
    try:
        terminal.until_text("no metric file yet")
        write(tmp_path / "job" / "metrics.jsonl")
        terminal.until_text("40 records up to step 40")
    finally:
        terminal.close()


def test_the_screen_waits_and_then_shows_what_has_come(tmp_path: Path) -> None:
    terminal = Terminal.python("-m", "rltop", str(tmp_path), width=80, height=24)
    try:
        terminal.until_text("no metric file yet")
        terminal.until_text("how to turn on metrics, by trainer")
        terminal.until_text('trainer.add_callback(JsonlCallback("logs/metrics.jsonl"))')
        terminal.press("G")
        terminal.until_text("log.close()  ->  logs/metrics.jsonl")
        write(tmp_path / "job" / "metrics.jsonl")
        terminal.until_text("step 40")
        terminal.quit("q")
    finally:
        terminal.close()


PROGRAM = Path(__file__).parents[2] / "e2e" / "program.py"


def test_the_screen_shows_how_far_a_slow_look_is_and_then_the_runs(tmp_path: Path) -> None:
    for i in range(35):
        write(tmp_path / f"r{i}" / "metrics.jsonl")
    terminal = Terminal.python(str(PROGRAM), "slow-files", str(tmp_path), width=160, height=30)
    try:
        terminal.until_text(f"scanning {tmp_path}")
        terminal.until_text("RUNS  35")
        terminal.quit("q")
    finally:
        terminal.close()


ANSWERS_S = 30.0
"""When the file system answers after all."""


@pytest.fixture
def hung(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file in a file system that does not answer, and little patience with it."""
    is_over, ask, path = threading.Event(), os.stat, write(tmp_path / "mount" / "metrics.jsonl")

    def stat(place: object, *given: Any, **more: Any) -> os.stat_result:
        if not isinstance(place, int) and str(path.parent) in str(place):
            is_over.wait(ANSWERS_S)
        return ask(place, *given, **more)  # type: ignore[arg-type]

    for name, short_s in (("TICK_S", 0.02), ("SAY_S", 0.1), ("GIVE_UP_S", 0.6), ("LOOK_DEADLINE_S", 0.1)):
        monkeypatch.setattr(f"rltop.cli.resolve_paths.{name}", short_s)
    monkeypatch.setattr(os, "stat", stat)
    monkeypatch.chdir(tmp_path)
    yield path
    is_over.set()


@pytest.mark.parametrize(
    "command",
    [
        "check {}",
        "--once {}",
        "--json {}",
        "report {} -o r.md",
        "watch {}",
        "check {}/../*.jsonl",
        "check --json {}",
        "where {}",
    ],
)
def test_a_file_system_that_does_not_answer_is_said_and_given_up(
    hung: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    began_s = time.monotonic()
    assert main([part.format(hung) for part in command.split()]) == EXIT_USAGE
    assert time.monotonic() - began_s < ANSWERS_S, "the thread that reports has waited itself"
    said = capsys.readouterr().err
    assert any(one in said for one in ("still waiting", "scanning", "looking at"))
    assert "no answer from the file system for 1 s while" in said


def test_a_watch_gives_up_a_file_system_when_it_was_told_to(
    hung: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rltop.cli.resolve_paths.GIVE_UP_S", 30.0)
    assert main(["watch", "--json", "--give-up", "0.3", str(hung)]) == EXIT_NO_METRICS
    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (line["event"], line["exit_code"]) == ("given up", 3) and "no answer" in line["reason"]


@pytest.mark.parametrize("form", ["{}", "{}/*/metrics.jsonl"])
@pytest.mark.parametrize("command", [["check"], ["--once"], ["watch", "--give-up", "0.001"]], ids=" ".join)
def test_text_says_how_far_a_slow_look_is_and_goes_on(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    form: str,
) -> None:
    for i in range(6):
        write(tmp_path / f"r{i}" / "metrics.jsonl")
    sniff = discovering.sniff

    def slowly(path: str, *, is_hurried: bool = False) -> tuple[Kind | None, str]:
        time.sleep(0.02)
        return sniff(path, is_hurried=is_hurried)

    monkeypatch.setattr(discovering, "sniff", slowly)
    monkeypatch.setattr("rltop.cli.resolve_paths.LOOK_DEADLINE_S", 0.04)
    monkeypatch.setattr("rltop.cli.resolve_paths.SAY_S", 0.02)
    path = form.format(tmp_path)
    assert main([*command, path]) == (EXIT_DIED if command[0] == "watch" else 0)
    said = capsys.readouterr()
    assert any(f"{what} {path}" in said.err for what in ("looking at", "scanning"))
    assert "r5" in said.out


def database(path: Path, rows: int) -> None:
    """Trackio's tables, with a run where there are rows."""
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("create table metrics (id integer primary key, timestamp, run_name, step integer, metrics)")
        for step in range(rows):
            row = (f"2026-11-21T01:02:{step:02}", "a", step, json.dumps({"reward": step / 7}))
            writer.execute("insert into metrics (timestamp, run_name, step, metrics) values (?, ?, ?, ?)", row)
        writer.commit()


@each_row(
    ("named", "before"),
    [
        *(
            (named, before)
            for named in ("{}", "{}::a", "{}/..")
            for before in ("missing", "empty", "no tables", "half")
        ),
        *((named, "no run") for named in ("{}", "{}/..")),
    ],
)
def test_a_database_is_waited_for_until_it_has_a_run(tmp_path: Path, before: str, named: str) -> None:
    folder = tmp_path / "trackio"
    path = folder / "p.db"
    folder.mkdir()
    whole = tmp_path / "whole.db"
    database(whole, 30)
    if before == "empty":
        path.touch()
    elif before == "no tables":
        sqlite3.connect(path).close()
    elif before == "no run":
        database(path, 0)
    if named.endswith("/.."):
        named = str(folder)
    awaiting = Awaiting(named.format(path))
    assert awaiting.note
    if before == "half":
        # As `cat whole.db > p.db` leaves it on the way: nothing is said of a file that is being copied.
        path.write_bytes(whole.read_bytes()[:5000])
        awaiting.look()
        assert awaiting.note
    whole.replace(path)
    awaiting.look()
    (run,) = awaiting.session.runs
    assert (str(run.name), run.main.stream.last_step) == ("a", 29)


@each_row("command", [["check"], ["--once"], ["--json"]])
def test_without_a_screen_a_database_without_a_run_is_said_to_have_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    database(tmp_path / "p.db", 0)
    assert main([*command, str(tmp_path / "p.db")]) == EXIT_NO_METRICS
    said = capsys.readouterr().err
    assert "run" in said and "pipe" not in said


def test_rows_that_sqlite_has_written_beside_the_database_are_seen(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "p.db")) as writer:
        writer.execute("pragma journal_mode=wal")
        writer.execute("create table metrics (id integer primary key, timestamp, run_name, step integer, metrics)")
        writer.commit()
        awaiting = Awaiting(str(tmp_path))
        size = (tmp_path / "p.db").stat().st_size
        writer.execute(
            "insert into metrics (timestamp, run_name, step, metrics) values ('', 'a', 1, '{\"reward\": 1}')"
        )
        writer.commit()
        assert (tmp_path / "p.db").stat().st_size == size
        awaiting.look()
        assert [str(run.name) for run in awaiting.session.runs] == ["a"]


def test_settings_that_a_tracker_writes_before_the_first_number_are_no_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = span(1, span(1, b"args/text_summary") + span(8, integer(1, 7) + span(8, b'{"lr": 1e-4}')))
    path = tmp_path / "events.out.tfevents.1.host"
    path.write_bytes(frame(version_event()) + frame(event(0, text)))
    main(["--once", str(path)])
    shown = capsys.readouterr().out
    assert "waiting for the first number: 2 records read, settings and text so far" in shown
    assert "what works" not in shown and "▲" not in shown
