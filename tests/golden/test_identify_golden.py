"""Every recorded run opens under the right dialect and algorithm, with its signals."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded import REASON, TRAINERS, RecordedRun, each_jsonl_run, runs_root
from tables import each_row

from rltop.model import Algorithm, SpanKind
from rltop.model.keys import STEP_KEYS, TIME_KEYS, is_bookkeeping_key
from rltop.stats.timing import step_timing
from rltop.trainers.identify import identify, with_keys

PUBLIC = {
    "llama-factory": ("LLaMA-Factory", {Algorithm.DPO}),
    "skyrl": ("SkyRL", {Algorithm.GRPO}),
    "tinker": ("tinker", {Algorithm.GRPO, Algorithm.DISTILL}),
    "jsonl-custom": ("generic", {Algorithm.UNKNOWN}),
}


def numeric(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def steps_of(path: Path) -> list[tuple[int, dict[str, float]]]:
    """Numeric rows of a file, merged by step where the step repeats at once."""
    merged: list[tuple[int, dict[str, float]]] = []
    for line in path.read_text().splitlines():
        row = json.loads(line)
        step = next(row.pop(key) for key in STEP_KEYS if key in row)
        for key in TIME_KEYS:
            row.pop(key, None)
        values = {key: float(value) for key, value in row.items() if numeric(value)}
        if merged and merged[-1][0] == step:
            merged[-1][1].update(values)
        else:
            merged.append((step, values))
    return merged


def keys_of(rows: list[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(key for row in rows for key in row))


def expected(run: RecordedRun) -> tuple[str, set[Algorithm]]:
    trainer = run.label.get("trainer")
    if trainer:
        return "TRL", {TRAINERS[trainer]}
    return PUBLIC[run.name.split("/")[1]]


@each_jsonl_run()
def test_a_recorded_run_is_recognised(run: RecordedRun) -> None:
    rows = [row for _, row in steps_of(run.metrics)]
    head = rows[:20]
    samples = {key: [row.get(key, math.nan) for row in head] for key in keys_of(head)}
    settled = identify(keys_of(head), samples)
    dialect, algorithms = expected(run)
    assert settled.dialect.name == dialect
    assert settled.algorithm in algorithms
    identity = with_keys(settled, keys_of(rows))
    assert (identity.dialect, identity.algorithm) == (settled.dialect, settled.algorithm)

    last = rows[-1]
    read = {name: signals[0].key for name, signals in identity.signals.items() if signals[0].key in last}
    if run.label.get("verdict") == "format sample":
        assert read
        return
    meaningful = [key for key in last if not is_bookkeeping_key(key)]
    assert len(read) >= min(6, len(meaningful))


@each_jsonl_run()
def test_a_preview_of_the_end_is_recognised_alike(run: RecordedRun) -> None:
    rows = [row for _, row in steps_of(run.metrics)]
    tail = rows[-60:]
    found = identify(keys_of(tail), {})
    dialect, algorithms = expected(run)
    assert found.dialect.name == dialect
    assert found.algorithm in algorithms


def console_logs() -> list[Any]:
    root = runs_root()
    if root is None:
        return [pytest.param(None, marks=pytest.mark.skip(reason=REASON), id="no-runs")]
    logs = sorted((root / "public" / "verl-console").glob("*/*.log"))
    return [pytest.param(log, id=log.parent.name) for log in logs if log.parent.name != "crashed-before-step-1"]


def console_rows(path: Path) -> Iterator[tuple[int, dict[str, float]]]:
    """Rows of `step:N - key:value - …` lines among the noise of a job's log."""
    for line in path.read_text(errors="replace").splitlines():
        found = re.search(r"step:(\d+) - (.*)", re.sub(r"\x1b\[[0-9;]*m", "", line))
        if not found:
            continue
        row = {}
        for part in found[2].split(" - "):
            key, _, text = part.rpartition(":")
            number = re.fullmatch(r"(?:np\.\w+\()?(-?[\d.]+(?:e[-+]?\d+)?)\)?", text.strip())
            if key and number:
                row[key] = float(number[1])
        yield int(found[1]), row


@each_row("log", console_logs())
def test_verl_rows_are_recognised_and_their_time_adds_up(log: Path) -> None:
    rows = list(console_rows(log))
    found = identify(keys_of([row for _, row in rows[:20]]), {})
    assert (found.dialect.name, found.algorithm) == ("veRL", Algorithm.GRPO)
    assert not found.traits.has_critic
    last = rows[-1][1]
    assert sum(signals[0].key in last for signals in found.signals.values()) >= 25
    assert found.dialect.timing is not None
    timed = 0
    for step, row in rows:
        timing = step_timing(found.dialect.timing, step, row)
        if timing is None:
            assert "timing_s/step" not in row
            continue
        timed += 1
        assert not timing.is_overlapping
        total = sum(span.duration_s for span in timing.spans if span.kind is not SpanKind.OVERLAPPING)
        assert total == pytest.approx(row["timing_s/step"], rel=0.01)
    assert timed >= 9
