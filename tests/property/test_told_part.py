"""A rule of several parts shows the part that was told of last, at every record, and at the level that was told."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from engine_output import made_text, wandering
from examples import EXPLORES
from observations import identity, noisy, series, step_up
from recorded import RecordedRun, each_jsonl_run
from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Event, EventState, Observation
from rltop.rules.engine import Engine
from rltop.rules.registry import PARTS

_observe = Engine.observe


def assert_last_told(engine: Engine, observation: Observation) -> list[Event]:
    """Judge a record: what stands after it is what the newest event of its rule is about."""
    happened = _observe(engine, observation)
    told = {event.rule: event for event in engine.events if event.state is not EventState.FACT}
    for verdict in engine.verdicts:
        if verdict.rule in PARTS and verdict.is_active:
            last = told[verdict.rule]
            assert (verdict.raised_by, verdict.level) == (last.raised_by, last.level), (observation.record, last)
    return happened


def _read(path: str | Path) -> None:
    with patch.object(Engine, "observe", assert_last_told):
        read_whole(str(path), Config(), FakeClock()).close()


@each_jsonl_run(every=2)
def test_each_recorded_run(run: RecordedRun) -> None:
    _read(run.metrics)


@pytest.mark.parametrize("seed", range(200 if EXPLORES else 12))
def test_made_runs(seed: int, tmp_path: Path) -> None:
    text, _ = made_text(seed)
    path = tmp_path / ("metrics.jsonl" if text.startswith('{"') else "train.log")
    path.write_text(text, encoding="utf-8")
    _read(path)


@pytest.mark.parametrize("seed", range(200 if EXPLORES else 6))
def test_wandering_runs(seed: int) -> None:
    engine = Engine(identity(group_size=8))
    for one in wandering(seed):
        assert_last_told(engine, one)


_RATIO = {"brief": lambda r: noisy(12.0 if 60 <= r < 100 else 2.0)(r), "settled": step_up(3.0, 20.0, 81)}


@each_row(("ratio", "gini"), [("brief", 80), ("settled", 170)])
def test_a_part_that_takes_over_is_told_of(ratio: str, gini: int) -> None:
    """Both as bad: the other stands when the one that was told of ends, or begins where that has settled."""
    engine = Engine(identity(names=["group_len_ratio", "group_len_gini"]))
    for one in series(220, group_len_ratio=_RATIO[ratio], group_len_gini=step_up(0.15, 0.7, gini)):
        assert_last_told(engine, one)
    told = [event for event in engine.events if event.rule == "P5"]
    assert [(event.raised_by, event.state) for event in told if event.part][:1] == [("P7", EventState.RESUMED)]
    assert len([event for event in told if event.is_alarm]) == 1
