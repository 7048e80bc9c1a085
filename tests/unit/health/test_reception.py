"""Rules on what is no record: unreadable lines, and a file that stays without any."""

from __future__ import annotations

import random
from pathlib import Path

from rltop.cli.opening import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.health.reception import Reception, first_record_late
from rltop.model import Level


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


def test_l7_forgets_what_was_broken_long_ago_and_begins_anew_with_the_file() -> None:
    reception = Reception()
    for lines in range(1, 51):
        last = reception.unreadable(lines, min(lines, 20), lines, lines)
    assert last is not None
    assert last.since_step == 20
    assert "20 of the last 50 lines" in last.headline
    for lines in range(51, 181):
        last = reception.unreadable(lines, 20, 30, 30)
    assert last is None
    assert reception.unreadable(30, 3, 27, 27) is not None
    assert reception.unreadable(31, 0, 27, 27) is None


def test_l7_trap_a_few_lines_prove_nothing() -> None:
    assert Reception().unreadable(10, 5, 5, 5) is None


def test_l5_waits_for_half_an_hour() -> None:
    assert first_record_late(1799.0) is None
    verdict = first_record_late(2100.0)
    assert verdict is not None
    assert (verdict.rule, verdict.level) == ("L5", Level.INFO)
    assert "35" in verdict.headline
