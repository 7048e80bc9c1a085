"""Rest is a promise: whoever is not asked about a record would have had nothing to say, and learns all the same.

Runs that wander, jump, lose keys, come back, restart and hold values that are no
numbers are judged twice: as always, and with rules that are asked about every record.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from observations import identity

from rltop.catalog.dialect import Identity
from rltop.catalog.metrics import CATALOG
from rltop.model import Algorithm, Event, NonFinite, Observation, Verdict
from rltop.rules.attention import Attention
from rltop.rules.engine import Engine

LEVELS = (1e-6, 0.001, 0.01, 0.05, 0.3, 0.6, 1.0, 2.0, 12.0, 300.0)
FACTORS = (0.0, -1.0, 0.1, 0.3, 0.7, 1.3, 2.0, 3.0, 12.0, 100.0)
RARE = {"val_score", "val_loss", "time_save", "time_eval", "val_margin"}
RECORDS = 260
KINDS = (
    (Algorithm.GRPO, {}),
    (Algorithm.GRPO, {"kl_is_signed": True, "is_async": True}),
    (Algorithm.PPO, {"has_critic": True, "kl_is_sequence_sum": True}),
    (Algorithm.DPO, {"is_preference": True}),
    (Algorithm.REWARD, {"is_preference": True}),
    (Algorithm.UNKNOWN, {}),
)


def run(seed: int) -> Iterator[Observation]:
    """A run of some of all metrics, healthy for a while, in which something happens now and then."""
    draw = random.Random(seed)
    names = [name for name in CATALOG if draw.random() < 0.7]
    levels = {name: draw.choice(LEVELS) for name in names} | {"lr": 1e-6, "grad_norm": 0.5, "score_mean": 0.5}
    noise = draw.choice((0.0, 0.02, 0.1, 0.4))
    factors: dict[str, float] = {}
    segment, away = 0, set[str]()
    for record in range(1, RECORDS + 1):
        if record > 50 and draw.random() < 0.04:
            factors = {name: draw.choice(FACTORS) for name in draw.sample(sorted(levels), 4)}
        if draw.random() < 0.02:
            away = set(draw.sample(sorted(levels), 3))
        segment += draw.random() < 0.004
        here = [name for name in levels if name not in away and (name not in RARE or record % 9 == 0)]
        values = {name: levels[name] * draw.gauss(1.0, noise) * factors.get(name, 1.0) for name in here}
        if "lr" in values:
            values["lr"] = levels["lr"] * factors.get("lr", 1.0) * min(1.0, record / draw.choice((1, 20)))
        marks = {draw.choice(here): draw.choice(list(NonFinite))} if here and draw.random() < 0.02 else {}
        kept = {name: value for name, value in values.items() if name not in marks}
        stages = {"gen": kept.get("time_gen", 1.0), "update": kept.get("time_update_actor", 1.0)}
        yield Observation(record, record, segment, None, kept, {}, marks, stages)
        if draw.random() < 0.03:
            late = {name: draw.random() for name in ("val_score", "val_loss")}
            yield Observation(record, record, segment, None, late, {}, {}, {}, is_late=True)


def judged(kind: Identity, seed: int) -> tuple[list[Event], list[list[Verdict]]]:
    """Everything that is said of the run, and what stands every few records; half-way new keys come."""
    engine, shown = Engine(kind), []
    for i, each in enumerate(run(seed)):
        engine.observe(each)
        if i % 20 == 0:
            shown.append([*engine.verdicts, *engine.peek(each)])
        if i == RECORDS // 2:
            engine.identified(kind)
    return engine.events, shown


@pytest.mark.parametrize("seed", range(12))
def test_rules_that_rest_say_what_they_would_have_said(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm, traits = KINDS[seed % len(KINDS)]
    kind = identity(algorithm, 8 if seed % 2 else None, **traits)
    said = judged(kind, seed)
    rested = []
    monkeypatch.setattr(Attention, "lay", lambda self, rule, rest, record: rested.append(rule))
    asked_always = judged(kind, seed)
    assert len(rested) > RECORDS and said[0]
    assert said[0] == asked_always[0]
    assert said[1] == asked_always[1]
