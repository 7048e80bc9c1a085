"""Every recorded run, opened as the program opens it, says what its file says."""

from __future__ import annotations

import io
import json
import math
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from recorded import TRAINERS, RecordedRun, each_jsonl_run, whole

from rltop.cli import main
from rltop.model import Algorithm, SpanKind
from rltop.model.keys import STEP_KEYS, is_bookkeeping_key
from rltop.stats.timing import step_timing
from rltop.trainers.identify import identify

PUBLIC = {
    "public/llama-factory/dpo-202": ("LLaMA-Factory", Algorithm.DPO),
    "public/skyrl/qwen9b-math-autoresume-59": ("SkyRL", Algorithm.GRPO),
    "public/tinker/arithmetic-solved": ("tinker", Algorithm.GRPO),
    "public/tinker/distillation-entropy-collapse": ("tinker", Algorithm.DISTILL),
    "public/tinker/gdp-rubric-113": ("tinker", Algorithm.GRPO),
    "public/jsonl-custom/rookworld-loss-explosion": ("generic", Algorithm.UNKNOWN),
    "public/jsonl-custom/guardrails-120": ("generic", Algorithm.UNKNOWN),
}
ENOUGH = 6


def last_record(path: Path) -> tuple[int, dict[str, float]]:
    """The newest step and its finite numbers, read by the standard library alone."""
    steps: list[int] = []
    values: dict[str, float] = {}
    for line in path.read_text().splitlines():
        row: dict[str, Any] = json.loads(line)
        step = int(next(row[key] for key in STEP_KEYS if key in row))
        row = row.get("data", row)
        if not steps or step != steps[-1]:
            values = {}
        steps.append(step)
        for key, value in row.items():
            if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
                values[key] = float(value)
            else:
                values.pop(key, None)
    return steps[-1], values


def check_document(path: Path) -> dict[str, Any]:
    printed = io.StringIO()
    with redirect_stdout(printed):
        status = main(["check", "--json", str(path)])
    assert status in (0, 1)
    document: dict[str, Any] = json.loads(printed.getvalue())
    return document


def expected(run: RecordedRun) -> tuple[str, Algorithm]:
    trainer = run.label.get("trainer")
    return ("TRL", TRAINERS[trainer]) if trainer else PUBLIC[run.name]


def agrees_with_its_file(path: Path, dialect: str, algorithm: Algorithm) -> None:
    run = whole(path)
    identity, stream = run.main.identity, run.main.stream
    assert (identity.dialect.name, identity.algorithm) == (dialect, algorithm)
    step, values = last_record(path)
    assert stream.last_step == step
    assert run.counts.bad_lines == run.counts.no_step_lines == run.counts.oversize_lines == 0

    shown = {
        name: signals[0]
        for name, signals in identity.signals.items()
        if signals[0].key in values and signals[0].key not in STEP_KEYS
    }
    for signal in shown.values():
        assert stream.value(signal.key, step) == values[signal.key]
        assert stream.latest(signal.key) == (step, values[signal.key])
    told = [key for key in values if not is_bookkeeping_key(key)]
    if algorithm is not Algorithm.UNKNOWN:
        assert len(shown) >= min(ENOUGH, len(told))
    for key in told:
        if stream.has(key):
            assert stream.value(key, step) == values[key]

    document = check_document(path)
    assert document["step"] == step
    assert document["dialect"] == dialect
    assert document["records"] == stream.rows


@each_jsonl_run()
def test_a_recorded_run_agrees_with_its_file(run: RecordedRun) -> None:
    agrees_with_its_file(run.metrics, *expected(run))


@each_jsonl_run()
def test_a_preview_of_the_end_is_recognised_alike(run: RecordedRun) -> None:
    rows = [json.loads(line) for line in run.metrics.read_text().splitlines()[-60:]]
    found = identify(
        list({key: None for row in rows for key, value in row.items() if isinstance(value, int | float)}), {}
    )
    assert (found.dialect.name, found.algorithm) == expected(run)


@each_jsonl_run()
def test_the_stages_of_a_recorded_step_add_up(run: RecordedRun) -> None:
    read = whole(run.metrics)
    plan = read.main.identity.dialect.timing
    timings = (
        []
        if plan is None
        else [step_timing(plan, step, read.main.stream.row(step)) for step in read.main.stream.steps()]
    )
    for timing in filter(None, timings):
        assert not timing.is_overlapping
        explained = sum(span.duration_s for span in timing.spans if span.kind is not SpanKind.OVERLAPPING)
        assert explained == pytest.approx(timing.total_s, rel=0.01)
