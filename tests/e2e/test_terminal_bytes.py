"""What goes to the terminal, counted: the same on every machine."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from ptys import Terminal

from rltop import resources

PROGRAM = str(Path(__file__).parent / "program.py")
RECORDED = resources.folder("fixtures") / "verl" / "tool_slowdown" / "metrics.jsonl"

MOST_PER_RECORD = 8_000
"""This record is 6,500 with its events and its state word; saying every colour anew takes half as much again."""

MOST_IN_SILENCE = 400
"""Three seconds in which the age and the state word may change once."""


def read_for(terminal: Terminal, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and not until():
        terminal.read()
        time.sleep(0.02)


@pytest.mark.alone
def test_a_record_sends_what_it_changes_and_silence_sends_nothing(tmp_path: Path) -> None:
    *before, last = RECORDED.read_bytes().splitlines(keepends=True)
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"".join(before))
    terminal = Terminal.python(PROGRAM, "plain", str(path), width=120, height=40, XDG_CONFIG_HOME=str(tmp_path))
    try:
        terminal.until_text("Quit")
        terminal.until_text("150 open")  # five seconds after the last row the step that has not ended stands there
        read_for(terminal, 0.5)
        size = len(terminal.output)
        read_for(terminal, 3.0)
        assert len(terminal.output) - size <= MOST_IN_SILENCE
        size = len(terminal.output)
        with path.open("ab") as file:
            file.write(last)
        terminal.until(lambda: len(terminal.output) > size, what="a changed screen")
        read_for(terminal, 0.5)
        assert 200 < len(terminal.output) - size <= MOST_PER_RECORD
    finally:
        terminal.close()
