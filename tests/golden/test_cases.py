"""Every bundled run is recognised, counted and judged as its case.toml says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from rltop.decode.jsonl import JsonlDecoder
from rltop.ingest.pipeline import Pipeline
from rltop.model import EventState, Level
from rltop.store.stream import Stream

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CASES = sorted(path.parent for path in FIXTURES.glob("*/*/case.toml"))
IDS = [str(case.relative_to(FIXTURES)) for case in CASES]


def expected(case: Path) -> dict[str, Any]:
    return tomllib.loads((case / "case.toml").read_text())["expected"]


def judged(case: Path) -> Pipeline:
    pipeline = Pipeline(JsonlDecoder(), Stream(""))
    pipeline.take_bytes((case / "metrics.jsonl").read_bytes(), 0, 0)
    pipeline.finish()
    return pipeline


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_a_run_is_recognised_and_counted(case: Path) -> None:
    told, pipeline = expected(case), judged(case)
    assert pipeline.identity is not None
    assert pipeline.identity.dialect.name == told["dialect"]
    assert pipeline.identity.algorithm.value == told["algorithm"]
    assert pipeline.stream.last_step == told["last_step"]
    assert pipeline.stream.rows == told["records"]
    assert list(pipeline.stream.restarts) == told["restarts"]
    assert pipeline.decoder.counts.lines == told["lines"]
    assert pipeline.decoder.counts.bad_lines == 0


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_what_must_fire_fires_where_it_must(case: Path) -> None:
    """The step is that of the event, which is when a person would have been told."""
    told, pipeline = expected(case), judged(case)
    assert pipeline.engine is not None
    for verdict in told.get("verdicts", ()):
        least = Level[verdict["level"].upper()]
        steps = [
            event.step
            for event in pipeline.engine.events
            if event.rule == verdict["rule"]
            and event.level >= least
            and event.state in (EventState.FIRING, EventState.ESCALATED)
        ]
        earliest, latest = verdict["first_step"]
        assert steps, f"{verdict['rule']} does not reach {verdict['level']}"
        assert earliest <= steps[0] <= latest


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_nothing_fires_before_something_goes_wrong(case: Path) -> None:
    onset = tomllib.loads((case / "case.toml").read_text())["story"].get("from_step")
    pipeline = judged(case)
    assert pipeline.engine is not None
    alarms = [event for event in pipeline.engine.events if event.level >= Level.WARN]
    early = [event for event in alarms if onset is None or event.step < onset]
    assert not early
