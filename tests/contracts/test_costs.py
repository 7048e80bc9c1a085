"""What the hot paths cost, counted instead of timed: the same on every machine.

Bytecodes say how much Python is run for a record, whatever the processor. A bound is a
little above the count of the day it was set; who lowers a count lowers its bound.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from screens import session_over

from rltop.app.cells import changed_spans
from rltop.formats.jsonl import JsonlDecoder
from rltop.pages.overview import build_overview
from rltop.pages.overview_rows import paint_overview
from rltop.rows.glyphs import glyph_set
from rltop.rows.rows import Row
from rltop.rules.options import EngineOptions
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.run.snapshot import Snapshot
from rltop.sources.events import TailOptions
from rltop.sources.file import DirectoryEntry, FileStat, LocalFileSystem
from rltop.sources.tail import Tail
from rltop.store.stream import Stream

ROOT = Path(__file__).resolve().parents[2]

WARM_ROWS = 80
"""After them the dialect is settled, shapes are known and baselines are complete."""
ROWS = 40
KEYS = 300

MOST_STORING = 900
MOST_JUDGING = 10_200
MOST_HEALTHY = 5_200
"""Bytecodes per record of 300 keys, in Python 3.11; no two versions compile alike."""

FRAME_ROWS = 400
FRAMES = 8
MOST_DRAWING = 530_000
MOST_DRAWING_SMALL = 420_000
"""Bytecodes for the overview after one more record of 300 keys, at 120×40 and 80×24."""

QUIET_POLL_CALLS = 3
QUIET_NETWORK_POLL_CALLS = 4
"""Calls of the file system for one look at a file to which nothing has happened."""

counted = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the bounds are for the bytecodes of Python 3.11")


def bytecodes(work: Callable[[], object]) -> int:
    """How many bytecodes `work()` executes in this thread."""
    count = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        elif event == "opcode":
            count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def per_record(rules: RuleRunner | None, keys: int = KEYS) -> float:
    """Bytecodes per record once the pipeline has warmed up."""
    made = runpy.run_path(str(ROOT / "bench" / "made.py"))
    lines = list(made["lines"](keys, WARM_ROWS + ROWS))
    before, measured = b"".join(lines[:WARM_ROWS]), b"".join(lines[WARM_ROWS:])
    pipeline = Pipeline(JsonlDecoder(), Stream(), rules)
    pipeline.take_bytes(before, 0, 0)
    return bytecodes(lambda: pipeline.take_bytes(measured, len(before), 0)) / ROWS


@counted
def test_a_record_is_decoded_and_stored_with_few_bytecodes() -> None:
    assert per_record(None) <= MOST_STORING


def test_storing_does_not_grow_with_the_number_of_keys() -> None:
    assert per_record(None, 300) <= 1.2 * per_record(None, 80)


@counted
def test_every_rule_together_takes_a_bounded_number_of_bytecodes() -> None:
    assert per_record(RuleRunner(EngineOptions())) <= MOST_JUDGING


def per_frame(path: Path, width: int, height: int) -> float:
    """Bytecodes for the overview of one more record, and for which of its cells have changed."""
    made = runpy.run_path(str(ROOT / "bench" / "made.py"))
    lines = list(made["lines"](KEYS, FRAME_ROWS + FRAMES + 1))
    path.write_bytes(b"".join(lines[:FRAME_ROWS]))
    session = session_over(path)
    while session.step(1_000.0):
        pass
    run, glyphs, count = session.runs[0], glyph_set(is_ascii=False), 0
    before: list[Row] = []

    def draw() -> None:
        nonlocal before
        rows = paint_overview(build_overview(Snapshot(run), width=width, height=height), width, height, glyphs)
        for old, new in zip(before, rows, strict=False):
            changed_spans(old.line, new.line, width)
        before = rows

    with path.open("ab") as file:
        for number, line in enumerate(lines[FRAME_ROWS:]):
            file.write(line)
            file.flush()
            while session.step(1_000.0):
                pass
            found = bytecodes(draw)
            # The first picture reads what all later ones know.
            count += found if number else 0
    return count / FRAMES


@counted
@pytest.mark.parametrize(("width", "height", "most"), [(120, 40, MOST_DRAWING), (80, 24, MOST_DRAWING_SMALL)])
def test_a_record_is_drawn_with_a_bounded_number_of_bytecodes(
    tmp_path: Path, width: int, height: int, most: int
) -> None:
    assert per_frame(tmp_path / "metrics.jsonl", width, height) <= most


@counted
def test_a_healthy_record_costs_the_rules_a_bounded_number_of_bytecodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    made = runpy.run_path(str(ROOT / "bench" / "bench_rules_cost.py"))
    engine, records = made["observations"](made["RUNS"]["veRL GRPO"])
    for record in records[: 2 * WARM_ROWS]:
        engine.observe(record)
    measured = records[2 * WARM_ROWS : 4 * WARM_ROWS]
    spent = bytecodes(lambda: [engine.observe(record) for record in measured])
    assert spent / len(measured) <= MOST_HEALTHY


class CountingFileSystem(LocalFileSystem):
    """The local file system, with every call that reaches the kernel counted."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def stat(self, target: str | int) -> FileStat:
        self.calls.append("stat")
        return super().stat(target)

    def open(self, path: str) -> int:
        self.calls.append("open")
        return super().open(path)

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        self.calls.append("read_at")
        return super().read_at(handle, size, offset)

    def close(self, handle: int) -> None:
        self.calls.append("close")
        super().close(handle)

    def scandir(self, directory: str) -> list[DirectoryEntry]:
        self.calls.append("scandir")
        return super().scandir(directory)

    def realpath(self, path: str) -> str:
        self.calls.append("realpath")
        return super().realpath(path)


@pytest.mark.parametrize(
    ("is_network", "most"),
    [(False, QUIET_POLL_CALLS), (True, QUIET_NETWORK_POLL_CALLS)],
    ids=["local", "network"],
)
def test_a_look_at_a_quiet_file_asks_the_kernel_little(tmp_path: Path, is_network: bool, most: int) -> None:
    path, fs = tmp_path / "metrics.jsonl", CountingFileSystem()
    path.write_bytes(b'{"step":1,"loss":0.5}\n')
    tail = Tail(str(path), fs, options=TailOptions(is_network=is_network))
    try:
        while tail.poll():
            pass
        fs.calls.clear()
        polls = 20
        for _ in range(polls):
            assert tail.poll() == []
        assert len(fs.calls) <= polls * most, fs.calls[: 2 * most]
    finally:
        tail.close()
