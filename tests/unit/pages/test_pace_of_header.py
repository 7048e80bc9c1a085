"""What a step takes and when the run will be over, in steps of the axis that is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltop.clock import FakeClock
from rltop.pages.header import HeaderView, build_header
from rltop.pages.stages import build_timing
from rltop.run.found import Found, name_of
from rltop.run.options import IngestOptions
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.feed import DirectFeed

BEGUN_S = 1.7e9
TOTAL = 1000


def header(path: Path, rows: list[dict[str, float]]) -> HeaderView:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    clock = FakeClock(BEGUN_S)
    session = Session(
        [Found(str(path), name_of(str(path)))],
        lambda each, lines: DirectFeed(each, clock=clock, last=lines),
        clock,
        IngestOptions(total_steps=TOTAL),
    )
    while session.step(1_000.0):
        pass
    run: Run = session.runs[0]
    return build_header(Snapshot(run), build_timing(Snapshot(run)))


def minibatches(global_steps: int, each: int, step_s: float) -> list[dict[str, float]]:
    """RLinf's reasoning runner: one duration a global step, and a row a minibatch, written together at its end."""
    rows = []
    for i in range(global_steps):
        for j in range(each):
            row = {
                "step": i * each + j, "timestamp": BEGUN_S + (i + 1) * step_s + 0.002 * j,
                "actor/training/actor/policy_loss": 0.01, "actor/training/actor/grad_norm": 1.0,
            }  # fmt: skip
            if j == 0:
                row |= {"time/step": step_s, "time/rollout": 0.6 * step_s, "time/actor/training": 0.3 * step_s}
            rows.append(row)
    return rows


@pytest.mark.parametrize("each", [1, 4, 16])
def test_a_duration_of_several_steps_is_shared_out_among_them(tmp_path: Path, each: int) -> None:
    view = header(tmp_path / "metrics.jsonl", minibatches(30, each, 80.0))
    assert view.step is not None and view.step_s is not None and view.eta_s is not None
    assert view.step_s == pytest.approx(80.0 / each)
    assert view.eta_s == pytest.approx((TOTAL - view.step) * 80.0 / each, rel=0.01)


@pytest.mark.parametrize("every", [1, 5])
def test_a_duration_that_is_only_logged_now_and_then_stays_that_of_one_step(tmp_path: Path, every: int) -> None:
    rows = [
        {"step": i, "timestamp": BEGUN_S + 20.0 * i, "loss": 1.0} | ({"step_time": 20.0} if i % every == 0 else {})
        for i in range(1, 101)
    ]
    view = header(tmp_path / "metrics.jsonl", rows)
    assert view.step_s == pytest.approx(20.0)
    assert view.eta_s == pytest.approx(900 * 20.0)
