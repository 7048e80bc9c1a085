"""Every bundled run is recognised, counted and judged as its case.toml says."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from recorded import whole
from tables import each_row

from rltop.model import EventState, Level
from rltop.run.run import Run

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
CASES = sorted(path.parent for path in FIXTURES.glob("*/*/case.toml"))
IDS = [str(case.relative_to(FIXTURES)) for case in CASES]


def expected(case: Path) -> dict[str, Any]:
    return tomllib.loads((case / "case.toml").read_text())["expected"]


def judged(case: Path) -> Run:
    name = tomllib.loads((case / "case.toml").read_text()).get("file", "metrics.jsonl")
    return whole(case / name)


@each_row("case", CASES, ids=IDS)
def test_a_run_is_recognised_and_counted(case: Path) -> None:
    told, run = expected(case), judged(case)
    assert run.main.identity.dialect.name == told["dialect"]
    assert run.main.identity.algorithm.value == told["algorithm"]
    assert run.main.stream.last_step == told["last_step"]
    assert run.main.stream.rows == told["records"]
    assert list(run.main.stream.restarts) == told["restarts"]
    assert run.counts.lines == told["lines"]
    assert run.counts.bad_lines == 0


@each_row("case", CASES, ids=IDS)
def test_what_must_fire_fires_where_it_must(case: Path) -> None:
    """The step is that of the event, which is when a person would have been told."""
    told, run = expected(case), judged(case)
    for verdict in told.get("verdicts", ()):
        least = Level[verdict["level"].upper()]
        steps = [
            event.step
            for event in run.events
            if verdict["rule"] in {event.rule, event.part}
            and event.level >= least
            and event.state in (EventState.FIRING, EventState.ESCALATED)
        ]
        earliest, latest = verdict["first_step"]
        assert steps, f"{verdict['rule']} does not reach {verdict['level']}"
        assert earliest <= steps[0] <= latest


@each_row("case", CASES, ids=IDS)
def test_nothing_fires_before_something_goes_wrong(case: Path) -> None:
    onset = tomllib.loads((case / "case.toml").read_text())["story"].get("from_step")
    run = judged(case)
    alarms = [event for event in run.events if event.level >= Level.WARN]
    early = [event for event in alarms if onset is None or event.step < onset]
    assert not early


FIRST = [case for case in CASES if "first" in expected(case)]


@each_row("case", FIRST, ids=[str(case.relative_to(FIXTURES)) for case in FIRST])
def test_what_is_seen_first_is_what_went_first(case: Path) -> None:
    """The first thing that a person is told decides where they look."""
    told = expected(case)["first"]
    alarms = [
        event
        for event in judged(case).events
        if event.level >= Level.WARN and event.state in (EventState.FIRING, EventState.ESCALATED)
    ]
    assert alarms, "nothing was said"
    first = [event for event in alarms if event.step == alarms[0].step]
    assert told["rule"] in {event.rule for event in first}
    event = next(event for event in first if event.rule == told["rule"])
    assert event.level.word == told["level"]
    earliest, latest = told["step"]
    assert earliest <= event.step <= latest
