"""Handmade observations: series of canonical metrics, and the engine that has judged them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from unittest.mock import patch

from rltop.catalog.dialect import Dialect, Identity
from rltop.catalog.metrics import CATALOG
from rltop.formats.jsonl import JsonlDecoder
from rltop.model import Algorithm, Event, EventState, Level, NonFinite, Observation, Signal, Traits, Verdict
from rltop.rules import engine as judging
from rltop.rules.engine import Engine
from rltop.rules.levels import HIGHEST
from rltop.rules.options import EngineOptions
from rltop.rules.registry import NAMED, PARTS
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.store.stream import Stream

DIALECT = Dialect(name="test", fingerprints=(), aliases=())


def identity(
    algorithm: Algorithm = Algorithm.GRPO, group_size: int | None = None, names: Sequence[str] = (), **traits: Any
) -> Identity:
    """An identity that logs every metric (or `names`) under `key/<name>`, except those that only some runs have."""
    every = [name for name in CATALOG if name not in {"moe_max_vio", "aux_loss"}]
    signals = {name: [Signal(CATALOG[name], f"key/{name}")] for name in (names or every)}
    return Identity(DIALECT, algorithm, Traits(**traits), signals, group_size)


@cache
def _drawn(seed: int, record: int) -> float:
    """A draw from the standard normal distribution; a generator per draw would cost as much as judging the record."""
    return random.Random(f"{seed}/{record}").gauss(0.0, 1.0)


def noisy(centre: float, spread: float = 0.05, seed: int = 1) -> Callable[[int], float]:
    """A healthy series: `centre` with a relative Gaussian spread, the same on every call."""
    return lambda record: centre * (1.0 + _drawn(seed, record) * spread)


def observation(record: int, values: Mapping[str, Any], *, segment: int = 0, step: int | None = None) -> Observation:
    """One record; a `NonFinite` value becomes a mark, None an absent metric, `stages` the stages."""
    stages = values.get("stages", {})
    given = {name: value for name, value in values.items() if name != "stages" and value is not None}
    marks = {name: value for name, value in given.items() if isinstance(value, NonFinite)}
    plain = {name: float(value) for name, value in given.items() if name not in marks}
    return Observation(record, record if step is None else step, segment, float(record), plain, {}, marks, stages)


def series(records: int, **metrics: Any) -> Iterator[Observation]:
    """`records` observations; a metric is a constant, a list, or a function of the record number from 1."""
    for record in range(1, records + 1):
        values = {}
        for name, source in metrics.items():
            if callable(source):
                values[name] = source(record)
            elif isinstance(source, list):
                values[name] = source[record - 1] if record <= len(source) else None
            else:
                values[name] = source
        yield observation(record, values)


def play(
    records: int,
    algorithm: Algorithm = Algorithm.GRPO,
    group_size: int | None = None,
    traits: Mapping[str, Any] | None = None,
    rules: Mapping[str, Mapping[str, float | bool]] | None = None,
    **metrics: Any,
) -> Engine:
    """Judge `records` observations of `metrics` at the rules' own levels, and return the engine."""
    names = [name for name in metrics if name in CATALOG]
    with patch.object(judging, "HIGHEST", {field: {} for field in HIGHEST}):
        engine = Engine(identity(algorithm, group_size, names, **(traits or {})), EngineOptions(rules=rules or {}))
    for one in series(records, **metrics):
        engine.observe(one)
    return engine


def alone(part: str) -> dict[str, dict[str, float | bool]]:
    """Settings that disable all other parts of its rule."""
    rule = NAMED[part].rule
    return {one.id: {"enabled": one.id == part} for one in (NAMED[rule], *PARTS[rule])}


def alarms(engine: Engine, rule: str = "") -> list[Event]:
    """Alarms: events of WARN or CRIT that begin or get worse."""
    return [
        event
        for event in engine.events
        if event.level >= Level.WARN
        and event.state in {EventState.FIRING, EventState.ESCALATED}
        and rule in {"", event.rule, event.part}
    ]


def first(engine: Engine, rule: str) -> Event:
    """The first alarm of `rule`; fails without one."""
    found = alarms(engine, rule)
    assert found, f"{rule} did not fire; events: {[(e.raised_by, e.level.word, e.record) for e in engine.events]}"
    return found[0]


def infos(engine: Engine) -> set[str]:
    """Rules and parts that have raised a note."""
    return {name for event in engine.events if event.level is Level.INFO for name in (event.rule, event.part)}


def levels(engine: Engine, rule: str) -> set[Level]:
    return {event.level for event in engine.events if rule in {event.rule, event.part}}


def the(engine: Engine, rule: str) -> Verdict:
    return next(one for one in engine.verdicts if rule in {one.rule, one.part})


def learning(record: int) -> float:
    """A reward that rises and then levels off."""
    return noisy(min(0.8, 0.2 + record / 100), 0.05)(record)


def step_up(before: float, after: float, onset: int, spread: float = 0.05):
    """A healthy series with a level shift at record `onset`."""
    return lambda record: noisy(before if record < onset else after, spread)(record)


def every(stride: int, values: list[float]):
    return lambda record: (
        values[record // stride - 1] if record % stride == 0 and record // stride <= len(values) else None
    )


def judged(rows: Sequence[Mapping[str, Any]]) -> list[Event]:
    """The events of a metric file whose lines are `rows`, under the trainer's own keys; steps count from 1."""
    rules = RuleRunner(EngineOptions())
    pipeline = Pipeline(JsonlDecoder(), Stream(), rules)
    lines = [json.dumps({"step": step, **row}) + "\n" for step, row in enumerate(rows, 1)]
    pipeline.take_bytes("".join(lines).encode(), 0, 0)
    pipeline.finish()
    return list(rules.events)
