"""What the header says of runs that generate beside the training."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.pages.header import build_header, paint_header
from rltop.rows.glyphs import UNICODE
from rltop.run.snapshot import Snapshot

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
ASYNC = (
    "trl/async_grpo",
    "prime_rl/async",
    "miles/async",
    "nemo_rl/async",
    "areal/async",
    "skyrl/async",
    "tinker/async",
)


def snapshot_of(path: Path) -> Snapshot:
    return Snapshot(read_whole(str(path), Config(), FakeClock()).runs[0])


def fixture(name: str) -> Path:
    return next(each for each in (FIXTURES / name).iterdir() if each.name != "case.toml")


@each_row("name", ASYNC)
def test_a_run_is_said_to_be_asynchronous(name: str) -> None:
    view = build_header(snapshot_of(fixture(name)), None)
    assert view.generation == "async"
    wide, narrow = (paint_header(view, width, UNICODE).text for width in (120, 40))
    assert " · async " in wide
    assert " · async" not in narrow


def test_a_bound_is_said_in_its_own_unit() -> None:
    snapshot = snapshot_of(fixture("verl/fully_async"))
    assert build_header(snapshot, None).generation == "async, at most 10 % stale"


@pytest.mark.parametrize("name", ["slime/requests", "verl/ppo_critic", "trl/grpo_healthy"])
def test_nothing_is_said_of_others(name: str) -> None:
    assert build_header(snapshot_of(fixture(name)), None).generation == ""


def test_staleness_that_is_logged_tells_where_no_key_does(tmp_path: Path) -> None:
    beside = {"actor/pg_loss": 0.01, "actor/grad_norm": 0.3, "critic/score/mean": 0.4, "timing_s/step": 30.0}
    for name, staleness, said in (("late", 2.0, "async"), ("fresh", 0.0, "")):
        path = tmp_path / f"{name}.jsonl"
        rows = [
            {"step": step, **beside, "training/off_policy/trajectory_staleness/max": staleness * (step > 1)}
            for step in range(1, 12)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        assert build_header(snapshot_of(path), None).generation == said


def test_a_narrow_header_leaves_the_bound_out_before_the_word() -> None:
    view = build_header(snapshot_of(fixture("verl/fully_async")), None)
    shown = [paint_header(view, width, UNICODE).text for width in (80, 120)]
    assert " · GRPO · async " in shown[0]
    assert "async, at most 10 % stale" in shown[1]
