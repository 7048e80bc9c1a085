"""What no rule may depend on: repetition, strangers, rate, scale, a lone outlier."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from functools import cache
from typing import Any

import courses
import pytest
from examples import examples
from fake_run import run_of
from hypothesis import example, given
from hypothesis import strategies as st
from observations import alarms, first, identity, noisy, observation, series, step_up
from rule_cases import cases, values
from tables import each_row

from rltop.model import Algorithm, Event, Level
from rltop.resources import folder
from rltop.rules import registry
from rltop.rules.engine import Engine
from rltop.stats.goodput import WAITS_RECORDS

Series = Callable[[int], float]

INCIDENTS = sorted((folder("fixtures") / "incidents").glob("*/metrics.jsonl"))
IDS = [path.parent.name for path in INCIDENTS]
FACTS = "facts"


@cache
def told(data: bytes) -> list[tuple[int, str, Level, str]]:
    """What a run had to say, facts about its rows apart."""
    return [(e.step, e.rule, e.level, e.message) for e in run_of(data).events if e.family != FACTS]


# -- repetition and strangers ------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", INCIDENTS, ids=IDS)
def test_an_identical_row_that_comes_twice_changes_no_verdict(path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    twice = [line for i, line in enumerate(lines) for _ in range(2 if i % 7 == 3 else 1)]
    assert told(b"".join(twice)) == told(b"".join(lines))


@each_row("path", INCIDENTS, ids=IDS)
def test_keys_that_mean_nothing_change_no_verdict(path) -> None:
    lines = path.read_bytes().splitlines()
    crowded = []
    for i, line in enumerate(lines):
        row = json.loads(line)
        inner = row.get("data", row)
        inner |= {f"zz/house_{k}": (i * k) % 17 - 8.0 for k in range(5)}
        crowded.append(json.dumps(row).encode())
    assert told(b"\n".join(crowded) + b"\n") == told(b"\n".join(lines) + b"\n")


# -- rate --------------------------------------------------------------------------------------------------------

BEFORE, RECORDS = 120, 420


def judged(records: int, stride: int = 1, algorithm: Algorithm = Algorithm.GRPO, **metrics: Series) -> Engine:
    """Judge every `stride`-th of `records` rows."""
    traits = {"is_async": True, "has_critic": algorithm is Algorithm.PPO}
    engine = Engine(identity(algorithm, **traits))
    for number, step in enumerate(range(stride, records + 1, stride), 1):
        values = {name: make(step) for name, make in metrics.items()}
        engine.observe(observation(number, values, step=step))
    return engine


def breaks(before: float, after: float, spread: float = 0.03) -> Series:
    """A level that becomes another one for good."""
    return lambda step: noisy(before if step <= BEFORE else after, spread)(step)


LASTING: dict[str, dict[str, Series]] = {
    "O6": {"clip_frac": breaks(0.002, 0.12)},
    "M1": {"off_policy_kl": breaks(0.001, 0.06)},
    "M6": {"is_ratio_mean": breaks(1.0, 1.4, 0.01)},
    "M8": {"staleness_mean": breaks(1.0, 4.0)},
    "P1": {"time_step": breaks(40.0, 70.0)},
    "P3": {"throughput": breaks(1000.0, 500.0)},
    "P9": {"trainer_idle_frac": breaks(0.1, 0.5)},
    "T1": {"truncated_frac": breaks(0.01, 0.5)},
    "T3": {"response_len_mean": breaks(900.0, 200.0)},
    "C1": {"explained_var": breaks(0.8, -0.4)},
}


@pytest.mark.parametrize("rule", LASTING)
def test_half_the_rate_brings_the_same_rule_within_two_of_its_windows(rule: str) -> None:
    algorithm = Algorithm.PPO if rule == "C1" else Algorithm.GRPO
    full, half = (judged(RECORDS, stride, algorithm, **LASTING[rule]) for stride in (1, 2))
    assert first(full, rule).step > BEFORE
    event = first(half, rule)
    # P9 judges a median of its own window at once.
    counts = [lasting.m for lasting in registry.NAMED[rule].n_of_m.values()]
    window = WAITS_RECORDS if rule == "P9" else max(counts, default=10)
    onset = BEFORE // 2
    assert onset < event.record <= onset + 2 * window


# -- scale -------------------------------------------------------------------------------------------------------

SCALABLE: dict[str, tuple[str, Series, tuple[float, float]]] = {
    "P1": ("time_step", breaks(40.0, 90.0), (0.5, 50.0)),
    "P3": ("throughput", breaks(1000.0, 400.0), (0.01, 1000.0)),
    "T2": ("response_len_mean", breaks(300.0, 900.0), (0.5, 50.0)),
    "T3": ("response_len_mean", breaks(900.0, 200.0), (0.5, 50.0)),
    "R1": ("reward_mean", lambda step: noisy(0.2 + step / 300 if step <= BEFORE else 0.05)(step), (0.01, 100.0)),
    "C3": ("value_loss", breaks(0.5, 30.0), (0.1, 100.0)),
    "E1": ("entropy", breaks(0.5, 0.02), (0.1, 10.0)),
}


def signature(engine: Engine, rule: str) -> list[tuple[int, Level]]:
    return [(event.record, event.level) for event in alarms(engine, rule)]


@cache
def unscaled(rule: str) -> list[tuple[int, Level]]:
    metric, make, _ = SCALABLE[rule]
    return signature(judged(200, 1, Algorithm.PPO if rule == "C3" else Algorithm.GRPO, **{metric: make}), rule)


@examples(6)
@given(data=st.data())
@pytest.mark.parametrize("rule", SCALABLE)
def test_scale_changes_nothing_above_the_absolute_floor(rule: str, data: st.DataObject) -> None:
    metric, make, (low, high) = SCALABLE[rule]
    factor = data.draw(st.floats(low, high))
    algorithm = Algorithm.PPO if rule == "C3" else Algorithm.GRPO
    scaled = judged(200, 1, algorithm, **{metric: lambda step: factor * make(step)})
    assert signature(scaled, rule) == unscaled(rule) != []


# -- a lone outlier ----------------------------------------------------------------------------------------------

HEALTHY: dict[str, Series] = {
    "grad_norm": noisy(0.4, 0.1),
    "loss": noisy(0.02, 0.2),
    "policy_loss": noisy(0.02, 0.2),
    "entropy": noisy(0.4),
    "kl_ref": noisy(0.03),
    "kl_old": noisy(0.0004, 0.2),
    "clip_frac": noisy(0.003, 0.2),
    "reward_mean": lambda step: noisy(0.3 + step / 1000, 0.04)(step),
    "reward_std": noisy(0.3),
    "zero_std_frac": noisy(0.15, 0.2),
    "response_len_mean": noisy(600.0),
    "response_len_max": noisy(2000.0, 0.1),
    "truncated_frac": noisy(0.01, 0.2),
    "off_policy_kl": noisy(0.001, 0.2),
    "rollout_prob_diff_mean": noisy(0.002, 0.1),
    "is_ratio_mean": noisy(1.0, 0.005),
    "is_ess": noisy(0.9, 0.01),
    "staleness_mean": noisy(1.0, 0.05),
    "value_loss": noisy(0.1, 0.1),
    "explained_var": noisy(0.7, 0.03),
    "time_step": noisy(40.0, 0.04),
    "throughput": noisy(1000.0, 0.04),
    "time_weight_sync": noisy(2.0, 0.1),
    "group_len_ratio": noisy(1.8, 0.05),
    "mfu": noisy(0.4, 0.03),
}


@examples(25)
@given(
    metric=st.sampled_from(sorted(HEALTHY)),
    record=st.integers(2, 118),
    factor=st.one_of(st.floats(0.01, 0.9), st.floats(1.1, 30.0)),
)
def test_one_outlier_in_one_metric_is_never_critical(metric: str, record: int, factor: float) -> None:
    make = HEALTHY[metric]
    spiked = HEALTHY | {metric: lambda step: make(step) * (factor if step == record else 1.0)}
    found: list[Event] = judged(120, 1, Algorithm.PPO, **spiked).events
    assert [event for event in found if event.level is Level.CRIT] == []


def test_the_series_behind_it_is_healthy() -> None:
    settled: dict[str, Any] = dict(HEALTHY)
    assert alarms(judged(400, 1, Algorithm.PPO, **settled)) == []


# -- extreme numbers ---------------------------------------------------------------------------------------------

EXTREMES = [0.0, -1.0, 5e-324, -5e-324, 1e-150, 1e16, 1e150, 1e308, -1e308]
CASES = list(cases())


@examples(120)
@given(case=st.integers(0, len(CASES) - 1), seed=st.integers(0, 2**32))
def test_no_number_makes_a_rule_raise(case: int, seed: int) -> None:
    _, _, healthy, change, algorithm = CASES[case]
    dice, engine, first = (
        random.Random(seed),
        Engine(identity(Algorithm(algorithm))),
        random.Random(seed).randrange(200),
    )
    number, share = dice.choice(EXTREMES), dice.choice([0.05, 0.5, 1.0])
    for one in series(courses.RECORDS, **values(healthy, change)):
        strange = {name: number if dice.random() < 0.9 else dice.choice(EXTREMES) for name in one.values}
        is_strange = one.record >= first and dice.random() < share
        if engine.observe(one._replace(values=one.values | strange) if is_strange else one):
            assert all(verdict.headline for verdict in engine.verdicts)


@each_row("path", INCIDENTS, ids=IDS)
def test_no_number_in_a_file_makes_a_run_raise(path) -> None:
    dice = random.Random(path.parent.name)
    for number in dice.sample(EXTREMES, 3):
        put = repr(number).encode()
        written = re.sub(
            rb"(?<=: )-?\d[\d.e-]+", lambda one, put=put: one[0] if dice.random() < 0.8 else put, path.read_bytes()
        )
        assert all(verdict.headline for verdict in run_of(written).verdicts)


# -- keys that come late -----------------------------------------------------------------------------------------


@examples(15)
@given(st.integers(2, 180), st.integers(0, 40), st.sampled_from(["completion_length", "kl", "clip_frac"]))
@example(150, 20, "completion_length")
@example(82, 0, "completion_length")
def test_an_alert_and_its_last_event_are_of_one_level_whenever_a_key_of_text_comes(
    late: int, more: int, key: str
) -> None:
    series = {"loss": step_up(0.05, 5.0, 80), "reward": noisy(0.5, 0.1, 3), key: noisy(0.2)}
    rows = [
        {"step": step, **{name: one(step) for name, one in series.items() if name != key or step >= late}}
        for step in range(1, late + more + 1)
    ]
    session = run_of("".join(f"{json.dumps(row)}\n" for row in rows).encode())
    last = {event.rule: event for event in session.events if event.family != FACTS}
    for verdict in session.verdicts:
        assert verdict.level is last[verdict.rule].level
        if verdict.is_active:
            assert (verdict.incident is not None) is (verdict.level >= Level.WARN)
            told = {event.incident for event in session.events if event.rule == verdict.rule} - {0}
            assert told == ({verdict.incident.number} if verdict.incident else set())
