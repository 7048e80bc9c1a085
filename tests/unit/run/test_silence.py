"""A live run that falls silent: the word in the header, and when it becomes an alarm."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from recorded import recorded_run
from tables import each_row

from rltop.cli.open_session import direct
from rltop.clock import FakeClock
from rltop.config import load
from rltop.model import Level, RunState
from rltop.pages.overview import build_overview
from rltop.rules.options import EngineOptions, RuleSettings
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.events import ONCE


class Writer:
    """Rows appended one by one while the clock and a session move along."""

    def __init__(self, path: Path, lines: list[str], rules: RuleSettings | None = None) -> None:
        self.path = path
        self.clock = FakeClock()
        self.written_s = self.clock.now()
        path.write_text("".join(lines))
        config = load({}, {"HOME": str(path.parent)})
        options = config.ingest._replace(has_preview=False, rules=EngineOptions(rules or {}))
        found = FoundRun(str(path), name_of(str(path)), path.stat().st_size, self.written_s)
        self.session = Session([found], direct(self.clock), self.clock, options)
        self.settle()

    def settle(self) -> None:
        while self.session.step(1_000.0):
            pass

    def append(self, line: str, after_s: float) -> None:
        self.clock.advance(after_s)
        with self.path.open("a") as file:
            file.write(line)
        self.settle()

    def wait(self, seconds: float) -> Run:
        self.clock.advance(seconds)
        self.settle()
        return self.session.runs[0]


def stalled(run: Run) -> Level:
    return max((v.level for v in run.verdicts if v.rule == "L4"), default=Level.OK)


def rows(count: int, **more: float) -> list[str]:
    return [json.dumps({"step": i, "loss": 0.1, "grad_norm": 1.0, **more}) + "\n" for i in range(1, count + 1)]


@pytest.mark.parametrize(("gap_s", "limit_s"), [(1.0, 60.0), (100.0, 300.0)])
def test_silence_is_a_warning_within_three_gaps_or_the_floor(tmp_path: Path, gap_s: float, limit_s: float) -> None:
    lines = rows(60)
    writer = Writer(tmp_path / "metrics.jsonl", lines[:30])
    for line in lines[30:]:
        writer.append(line, gap_s)
        assert stalled(writer.session.runs[0]) is Level.OK
        assert writer.session.runs[0].state is RunState.LIVE
    assert stalled(writer.wait(limit_s - 1.0)) is Level.OK
    run = writer.wait(2.0)
    assert (stalled(run), run.state) == (Level.WARN, RunState.QUIET)
    assert writer.wait(300.0 + 3.0 * gap_s).state is RunState.STUCK
    writer.append(json.dumps({"step": 61, "loss": 0.1}) + "\n", 5.0)
    assert stalled(run) is Level.OK


def test_a_file_that_was_silent_when_opened_is_a_word_and_no_alarm(tmp_path: Path) -> None:
    run = Writer(tmp_path / "metrics.jsonl", rows(60, time=1_600_000_000.0)).wait(10_000.0)
    assert stalled(run) is Level.OK
    assert run.state is RunState.ENDED


@each_row("ahead_s", [-3600.0, 3600.0])
def test_a_clock_of_the_trainer_that_goes_wrong_hides_no_silence(tmp_path: Path, ahead_s: float) -> None:
    lines = [json.dumps({"step": i, "loss": 0.1, "time": FakeClock().now() + i + ahead_s}) + "\n" for i in range(1, 61)]
    writer = Writer(tmp_path / "metrics.jsonl", lines[:30])
    for line in lines[30:]:
        writer.append(line, 1.0)
    assert stalled(writer.wait(55.0)) is Level.OK
    assert stalled(writer.wait(10.0)) is Level.WARN


@pytest.mark.parametrize(
    ("late_s", "state"),
    [(8 * 3600.0, RunState.LIVE), (5.5 * 3600.0 + 9.0, RunState.LIVE), (-8 * 3600.0, RunState.LIVE),
     (8 * 3600.0 + 900.0, RunState.ENDED), (40 * 3600.0, RunState.ENDED)],
)  # fmt: skip
def test_times_of_another_zone_end_no_run_that_is_being_written(tmp_path: Path, late_s: float, state: RunState) -> None:
    now_s = FakeClock().now()
    lines = [json.dumps({"step": i, "loss": 0.1, "time": now_s - late_s - 30.0 * (60 - i)}) + "\n" for i in range(61)]
    writer = Writer(tmp_path / "metrics.jsonl", lines)
    assert writer.wait(0.0).state is state
    assert writer.wait(30_000.0).state is RunState.ENDED


def test_a_fast_run_does_not_flicker_between_two_polls(tmp_path: Path) -> None:
    lines = rows(200)
    writer = Writer(tmp_path / "metrics.jsonl", lines[:20])
    for line in lines[20:]:
        writer.append(line, 0.05)
    assert writer.wait(2.0).state is RunState.LIVE
    assert writer.wait(10.0).state is RunState.QUIET


def test_the_recorded_stall_replayed_live(tmp_path: Path) -> None:
    lines = recorded_run("trl/grpo_stalled").metrics.read_text().splitlines(keepends=True)
    times = [json.loads(line)["time"] for line in lines]
    writer = Writer(tmp_path / "metrics.jsonl", lines[:1])
    for line, before, then in zip(lines[1:], times, times[1:], strict=False):
        writer.append(line, then - before)
        assert stalled(writer.session.runs[0]) is Level.OK
    assert stalled(writer.wait(59.0)) is Level.OK
    assert stalled(writer.wait(2.0)) is Level.WARN


def test_a_pause_as_long_as_the_checkpoints_before_is_no_stall(tmp_path: Path) -> None:
    lines = rows(120)
    writer = Writer(tmp_path / "metrics.jsonl", lines[:1])
    for i, line in enumerate(lines[1:], start=2):
        pause_s = 400.0 if i % 20 == 1 else 30.0
        writer.wait(pause_s - 1.0)
        # Whether the first pauses of a run are checkpoints nobody can know.
        if i > 45:
            assert stalled(writer.session.runs[0]) is Level.OK, i
        writer.append(line, 1.0)
    writer.wait(399.0)
    assert stalled(writer.wait(10_000.0)) >= Level.WARN


def test_silence_muted_in_the_settings_stays_a_word(tmp_path: Path) -> None:
    lines = rows(60)
    writer = Writer(tmp_path / "metrics.jsonl", lines[:30], {"L4": {"enabled": False}})
    for line in lines[30:]:
        writer.append(line, 1.0)
    run = writer.wait(5_000.0)
    assert run.state is RunState.STUCK
    assert not [verdict for verdict in run.verdicts if verdict.rule == "L4"]
    assert run.main.judging.silenced == {"L4"}


@each_row(("settings", "is_told"), [({}, False), ({"first_s": 60.0}, True), ({"first_s": 6e3}, False)])
def test_the_first_record_is_late_where_the_settings_say_so(
    tmp_path: Path, settings: dict[str, float | bool], is_told: bool
) -> None:
    writer = Writer(tmp_path / "metrics.jsonl", ["starting\n"], {"L5": settings} if settings else None)
    found = [verdict.raised_by for verdict in writer.wait(600.0).verdicts]
    assert ("L4" in found) is is_told


def test_a_file_that_is_still_being_read_lacks_no_record(tmp_path: Path) -> None:
    path, clock = tmp_path / "metrics.jsonl", FakeClock(1_600_000_000.0)
    path.write_text("".join(rows(60)))
    os.utime(path, (1_500_000_000.0, 1_500_000_000.0))
    config = load({}, {"HOME": str(tmp_path)})
    found = FoundRun(str(path), name_of(str(path)), path.stat().st_size, 1_500_000_000.0)
    session = Session([found], direct(clock), clock, config.ingest._replace(has_preview=False))
    run = session.runs[0]
    seen = []
    for _ in range(10):
        seen.append((bool(run.main.stream.rows), [one.raised_by for one in run.verdicts if one.raised_by == "L4"]))
        session.step(1_000.0)
    assert seen[0] == (False, []) and seen[-1] == (True, [])


@each_row(("settings", "is_told"), [({}, True), ({"warn": 0.6}, False), ({"enabled": False}, False)])
def test_unreadable_lines_count_as_the_settings_say(
    tmp_path: Path, settings: dict[str, float | bool], is_told: bool
) -> None:
    lines = [line for row in rows(40) for line in (row, "{broken\n")]
    writer = Writer(tmp_path / "metrics.jsonl", lines, {"L7": settings} if settings else None)
    found = [verdict.rule for verdict in writer.wait(1.0).verdicts]
    assert ("L7" in found) is is_told


def test_lines_whose_tail_the_log_cut_off_are_read_and_no_alarm(tmp_path: Path) -> None:
    lines = [f"step:{i} - actor/pg_loss:0.25 - critic/score/mean:0.5 - val-core/a/re\n" for i in range(1, 61)]
    writer = Writer(tmp_path / "train.log", lines)
    run = writer.wait(1.0)
    assert (run.main.stream.rows, run.counts.bad_lines) == (60, 60)
    assert [verdict.level for verdict in run.verdicts if verdict.rule == "L7"] == [Level.INFO]


def read_once(writer: Writer) -> Run:
    """As `--once` and `check` read the file, at the same time."""
    found = FoundRun(str(writer.path), name_of(str(writer.path)), modified_s=writer.written_s)
    session = Session([found], direct(writer.clock, ONCE), writer.clock, writer.session.builder.options)
    session.drain()
    return session.runs[0]


@pytest.mark.parametrize("pace_s", [1.0, 100.0])
def test_a_file_that_is_read_once_is_as_live_as_on_the_screen(tmp_path: Path, pace_s: float) -> None:
    path = tmp_path / "metrics.jsonl"
    for silent_s in (5.0, 59.0, 90.0, 400.0, 5_000.0):
        began_s = FakeClock().now() - silent_s - 60 * pace_s
        writer = Writer(
            path, [row.replace("{", f'{{"time": {began_s + i * pace_s}, ', 1) for i, row in enumerate(rows(60))]
        )
        assert writer.wait(0.0).state is read_once(writer).state, silent_s


def test_a_file_whose_rows_have_no_times_is_judged_by_when_it_was_written(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "metrics.jsonl", rows(20))
    for wait_s, state in (
        (10.0, RunState.LIVE),
        (1_000.0, RunState.QUIET),
        (1e3, RunState.STUCK),
        (1e4, RunState.ENDED),
    ):
        assert writer.wait(wait_s).state is state
        assert read_once(writer).state is state
    writer.append(rows(21)[-1], 5)
    assert writer.wait(10).state is RunState.LIVE


def test_a_file_that_was_stuck_when_it_was_opened_is_not_said_to_be_well(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "metrics.jsonl", rows(20))
    for run in (writer.wait(2_100.0), read_once(writer)):
        assert run.state is RunState.STUCK and not run.verdicts
        text = build_overview(Snapshot(run)).sentence.text.raw
        assert text == "no new record for 35 min: look at the process"


def test_the_headline_of_a_silence_advises_what_its_page_does(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "metrics.jsonl", rows(20))
    for row in rows(25)[20:]:
        writer.append(row, 10.0)
    run = writer.wait(90.0)
    text = build_overview(Snapshot(run)).sentence.text.raw
    assert stalled(run) is Level.WARN and "; look at the process" in text and "keep watching" not in text


def test_a_silence_begins_with_the_newest_row_and_is_no_value_of_the_step_time(tmp_path: Path) -> None:
    writer = Writer(tmp_path / "metrics.jsonl", rows(20, step_time=9.0))
    for row in rows(25, step_time=9.0)[20:]:
        writer.append(row, 10.0)
    (verdict,) = writer.wait(90.0).verdicts
    assert (verdict.rule, verdict.since_step, verdict.since_record) == ("L4", 25, 25)
    assert verdict.threshold is None and verdict.evidence[-1][:2] == ("threshold", 60.0)
