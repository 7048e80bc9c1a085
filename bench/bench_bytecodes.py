"""How many bytecodes does a record take, from its bytes to the store, the rules and the screen?

Bytecodes say how much Python is run, whatever the processor and whatever else runs on it; no two versions of Python
compile alike. A bound is a little above the count of the day it was set, in Python 3.11. The floor is a bare parse.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import orjson
from bench_rules_cost import RUNS, observations
from bounds import stands
from made import lines

from rltop.app.cells import changed_spans
from rltop.clock import FakeClock
from rltop.formats.jsonl import JsonlDecoder
from rltop.pages.overview import build_overview
from rltop.pages.overview_rows import paint_overview
from rltop.rows.glyphs import glyph_set
from rltop.rows.rows import Row
from rltop.rules.options import EngineOptions
from rltop.run.found import Found, name_of
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.feed import DirectFeed
from rltop.store.stream import Stream

WARM_ROWS = 80
"""After them the dialect is settled, schemas are known and baselines are complete."""
ROWS = 40
KEYS = 300
FRAME_ROWS = 400
FRAMES = 8

MOST_STORING = 900
MOST_GROWTH = 1.2
"""Storing a record of 300 keys against one of 80."""
MOST_JUDGING = 10_200
MOST_HEALTHY = 5_200
MOST_DRAWING = {(120, 40): 530_000, (80, 24): 420_000}


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
    made = list(lines(keys, WARM_ROWS + ROWS))
    before, measured = b"".join(made[:WARM_ROWS]), b"".join(made[WARM_ROWS:])
    pipeline = Pipeline(JsonlDecoder(), Stream(), rules)
    pipeline.take_bytes(before, 0, 0)
    return bytecodes(lambda: pipeline.take_bytes(measured, len(before), 0)) / ROWS


def per_healthy_record() -> float:
    """Bytecodes per record of the rules alone, where none of them has anything to say."""
    engine, records = observations(RUNS["veRL GRPO"])
    for record in records[: 2 * WARM_ROWS]:
        engine.observe(record)
    measured = records[2 * WARM_ROWS : 4 * WARM_ROWS]
    return bytecodes(lambda: [engine.observe(record) for record in measured]) / len(measured)


def per_frame(width: int, height: int) -> float:
    """Bytecodes for the overview of one more record, and for which of its cells have changed."""
    made = list(lines(KEYS, FRAME_ROWS + FRAMES + 1))
    clock, glyphs, count = FakeClock(), glyph_set(is_ascii=False), 0
    before: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        path.write_bytes(b"".join(made[:FRAME_ROWS]))
        found = Found(str(path), name_of(str(path)), path.stat().st_size)
        session = Session([found], lambda path, last: DirectFeed(path, clock=clock, last=last), clock)
        while session.step(1_000.0):
            pass
        run = session.runs[0]

        def draw() -> None:
            nonlocal before
            rows = paint_overview(build_overview(Snapshot(run), width=width, height=height), width, height, glyphs)
            for old, new in zip(before, rows, strict=False):
                changed_spans(old.line, new.line, width)
            before = rows

        with path.open("ab") as file:
            for number, line in enumerate(made[FRAME_ROWS:]):
                file.write(line)
                file.flush()
                while session.step(1_000.0):
                    pass
                drawn = bytecodes(draw)
                # The first picture reads what all later ones know.
                count += drawn if number else 0
        session.close()
    return count / FRAMES


def main() -> None:
    parsed = list(lines(KEYS, ROWS))
    parse = bytecodes(lambda: [orjson.loads(line) for line in parsed]) / ROWS
    storing = per_record(None)
    print("| what | bytecodes | bound | |")
    print("|---|---|---|---|")
    print(f"| a bare parse of a record of {KEYS} keys | {parse:,.0f} | | |")
    rows: list[tuple[str, float, float]] = [
        ("decode and store it", storing, MOST_STORING),
        ("the same with every rule", per_record(RuleRunner(EngineOptions())), MOST_JUDGING),
        ("the rules alone, a healthy record", per_healthy_record(), MOST_HEALTHY),
    ]
    for (width, height), most in MOST_DRAWING.items():
        rows.append((f"draw the overview at {width}×{height} anew", per_frame(width, height), most))
    for what, count, most in rows:
        print(f"| {what} | {count:,.0f} | {most:,} | {stands(count, most)} |")
    growth = storing / per_record(None, 80)
    print(f"| storing {KEYS} keys, times that of 80 | {growth:.2f} | {MOST_GROWTH} | {stands(growth, MOST_GROWTH)} |")


if __name__ == "__main__":
    main()
