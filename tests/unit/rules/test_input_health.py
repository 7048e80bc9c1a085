"""Rules on what is no record: unreadable lines, and a file that stays without any."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Counts, Level
from rltop.rules.liveness import first_record_late, unreadable


def told(path: Path) -> list[tuple[str, Level]]:
    session = read_whole(str(path), Config(), FakeClock())
    try:
        return [(verdict.rule, verdict.level) for verdict in session.runs[0].verdicts]
    finally:
        session.close()


def test_l7_speaks_of_a_file_in_which_one_line_in_ten_is_broken(tmp_path: Path) -> None:
    drawn = random.Random(1)
    lines = [f'{{"step": {step}, "grad_norm": {drawn.uniform(0.4, 0.6):.4f}}}' for step in range(1, 101)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join(lines) + "\n")
    assert told(path) == []
    broken = [line[:12] if index % 10 == 5 else line for index, line in enumerate(lines)]
    path.write_text("\n".join(broken) + "\n")
    assert told(path) == [("L7", Level.WARN)]


def counts_of(lines: int, bad: Iterable[int]) -> Counts:
    counts = Counts()
    for line in range(1, lines + 1):
        counts.lines = line
        if line in set(bad):
            counts.refuse(line, "broken")
        else:
            counts.rows += 1
    return counts


def test_l7_speaks_of_the_newest_lines_only() -> None:
    last = unreadable(counts_of(50, range(31, 51)), range(1, 31))
    assert "20 of the last 50 lines" in last.headline
    assert 15 <= last.since_step <= 25
    assert unreadable(counts_of(180, range(31, 51)), range(1, 161)) is None


def test_l7_trap_a_few_lines_prove_nothing() -> None:
    assert unreadable(counts_of(10, range(1, 6)), range(1, 6)) is None


def test_l4_waits_for_half_an_hour() -> None:
    assert first_record_late(1799.0) is None
    verdict = first_record_late(2100.0)
    assert (verdict.raised_by, verdict.level) == ("L4", Level.INFO)
    assert "35" in verdict.headline


def in_part(rows: int, partial: int) -> Counts:
    counts = Counts()
    counts.lines = counts.rows = rows
    for line in range(1, partial + 1):
        counts.refuse(line, "incomplete metric line", is_lost=False)
    return counts


def test_l7_says_that_lines_were_lost_in_part() -> None:
    verdict = unreadable(in_part(200, 199), range(1, 201))
    assert verdict.level is Level.INFO
    assert "199 of 200 metric lines could be read only in part" in verdict.headline
    assert unreadable(in_part(200, 40), range(1, 201)) is None


def test_l7_is_told_of_a_console_that_cuts_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "console.log"
    path.write_text("".join(f"step:{step} - loss:0.5 - actor/grad_norm:0.{step:03} - actor/kl\n" for step in range(60)))
    assert told(path) == [("L7", Level.INFO)]
