"""The engine: order, restarts, copies, settings."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from observations import DIALECT, alarms, identity, noisy, observation, play, series
from tables import each_row

from rltop.catalog.dialect import Identity
from rltop.catalog.metrics import CATALOG
from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.errors import ConfigError
from rltop.model import Algorithm, EventState, Level, NonFinite, Signal, Traits, VerdictState
from rltop.rules import registry
from rltop.rules.engine import Engine
from rltop.rules.options import EngineOptions
from rltop.rules.words import words_of

BROKEN = {"grad_norm": NonFinite.NAN, "loss": 0.0}


def healthy(record: int) -> dict[str, float]:
    source = random.Random(record)
    return {
        "grad_norm": source.gauss(1, 0.1),
        "entropy": source.gauss(0.5, 0.02),
        "kl_ref": abs(source.gauss(0.02, 0.005)),
        "reward_mean": source.gauss(0.5, 0.05),
        "response_len_mean": source.gauss(300, 10),
        "truncated_frac": 0.02,
        "clip_frac": 0.002,
        "time_step": source.gauss(40, 1),
        "lr": 1e-6,
    }


def test_a_healthy_run_is_left_alone() -> None:
    engine = Engine(identity())
    for record in range(1, 400):
        engine.observe(observation(record, healthy(record)))
    assert {event.rule for event in engine.events} <= {"R3"}, "a reward that stays where it is, is all there is to say"
    assert {verdict.rule for verdict in engine.verdicts} <= {"R3"}


def test_events_come_in_order_and_are_returned_as_they_happen() -> None:
    engine = Engine(identity())
    returned = []
    for record in range(1, 60):
        values = healthy(record) | (BROKEN if 30 <= record < 40 else {})
        returned += engine.observe(observation(record, values, step=record * 5))
    assert returned == engine.events
    assert [event.record for event in returned] == sorted(event.record for event in returned)
    assert (returned[0].rule, returned[0].step, returned[0].level) == ("L1", 150, Level.CRIT)
    assert "L1" in {event.rule for event in returned if event.state is EventState.RECOVERED}


def test_peeking_changes_nothing() -> None:
    engine = Engine(identity())
    for one in series(40, grad_norm=noisy(1.0)):
        engine.observe(one)
    seen = engine.after(observation(41, BROKEN)).verdicts
    assert [(v.rule, v.level) for v in seen if v.rule == "L1"] == [("L1", Level.CRIT)]
    assert engine.events == []
    assert engine.verdicts == []
    assert engine.warm_up is None


@examples(8)
@given(st.lists(st.integers(1, 119), max_size=8))
def test_peeking_anywhere_leaves_the_events_as_they_were(places: list[int]) -> None:
    def run(peeks: set[int]) -> list[object]:
        engine = Engine(identity())
        for record in range(1, 120):
            values = healthy(record)
            if 60 <= record < 80:
                values |= {"kl_ref": 20.0, "clip_frac": 0.4}
            one = observation(record, values)
            if record in peeks:
                engine.after(one)
            engine.observe(one)
        return list(engine.events)

    assert run(set(places)) == run(set())


def test_a_restart_is_a_fact_ends_what_fired_and_begins_anew() -> None:
    engine = Engine(identity())
    for record in range(1, 41):
        engine.observe(observation(record, healthy(record) | (BROKEN if record == 40 else {})))
    assert engine.verdicts
    happened = engine.restart(observation(41, healthy(41), segment=1, step=30))
    assert (happened[0].rule, happened[0].state, happened[0].level) == ("L6", EventState.FACT, Level.INFO)
    assert "step 30 (was at 40)" in happened[0].message
    assert [e.rule for e in happened if e.state is EventState.RECOVERED] == ["L1"]
    assert engine.verdicts == []
    assert engine.warm_up == (0, 30)


def test_observing_another_segment_restarts_by_itself_and_only_once() -> None:
    engine = Engine(identity())
    for record in range(1, 41):
        engine.observe(observation(record, healthy(record)))
    one = observation(41, healthy(41), segment=1, step=30)
    assert [e.rule for e in engine.observe(one)] == ["L6"]
    engine.observe(observation(42, healthy(42), segment=1, step=31))
    assert [e.rule for e in engine.events] == ["L6"]


def test_slow_first_steps_after_a_restart_are_warm_up_again() -> None:
    engine = Engine(identity())
    for record in range(1, 61):
        engine.observe(observation(record, healthy(record)))
    for record in range(61, 120):
        values = healthy(record) | {"time_step": 400.0 if record < 64 else 80.0}
        engine.observe(observation(record, values, segment=1, step=record - 20))
    assert alarms(engine) == []


def test_identified_keeps_the_state_of_rules_that_still_apply() -> None:
    engine = Engine(identity(names=("grad_norm",)))
    for one in series(60, grad_norm=noisy(1.0)):
        engine.observe(one)
    engine.identified(identity(names=("grad_norm", "kl_ref")))
    spikes = [engine.observe(observation(record, {"grad_norm": 200.0, "kl_ref": 300.0})) for record in (61, 62)]
    assert {event.rule for spike in spikes for event in spike if event.family != "facts"} == {"O1", "O11"}


def test_another_key_that_takes_a_metric_over_has_no_past() -> None:
    first = identity(names=("loss", "reward_mean", "response_len_mean"))
    engine = Engine(first)
    for one in series(60, loss=noisy(0.69), reward_mean=noisy(0.2, 0.1), response_len_mean=noisy(100.0)):
        engine.observe(one)
    (signal,) = first.signals["loss"]
    other = Signal(signal.metric, "train/loss")
    engine.identified(first._replace(signals={**first.signals, "loss": (other, signal)}))
    for one in list(series(100, reward_mean=noisy(0.2, 0.1), response_len_mean=noisy(100.0)))[60:]:
        engine.observe(one)
    assert [event for event in alarms(engine) if event.raised_by == "L11"] == []


def test_identified_ends_what_no_longer_applies() -> None:
    engine = play(30, zero_std_frac=0.9, reward_mean=noisy(0.5, 0.2))
    assert [v.rule for v in engine.verdicts] == ["G1"]
    happened = engine.identified(identity(Algorithm.SFT))
    assert [(e.rule, e.state) for e in happened] == [("G1", EventState.RECOVERED)]
    assert engine.verdicts == []


def test_a_row_that_came_late_is_for_evaluation_rules_only() -> None:
    engine = Engine(identity())
    for record in range(1, 41):
        engine.observe(observation(record, healthy(record)))
    late = observation(41, BROKEN, step=20)._replace(is_late=True)
    assert engine.observe(late) == []
    for i, value in enumerate((0.5, 0.52, 0.51, 0.53, 0.1, 0.1)):
        late = observation(42 + i, {"val_score": value}, step=21 + i)._replace(is_late=True)
        engine.observe(late)
    assert [e.rule for e in alarms(engine)] == ["R5"]


def test_verdicts_are_worst_first_then_oldest_then_recovered() -> None:
    engine = Engine(identity())
    for record in range(1, 80):
        values = healthy(record)
        if 20 <= record < 23:
            values |= {"grad_norm": NonFinite.NAN}
        if record >= 10:
            values |= {"truncated_frac": 0.6}
        if record >= 60:
            values |= {"kl_ref": 15.0}
        engine.observe(observation(record, values))
    found = [(v.rule, v.level, v.state) for v in engine.verdicts]
    assert found[:2] == [("O11", Level.CRIT, VerdictState.FIRING), ("T1", Level.WARN, VerdictState.FIRING)]
    verdict = engine.verdicts[0]
    assert (verdict.metric, verdict.key, verdict.group) == ("kl_ref", "key/kl_ref", "learning")
    assert verdict.headline
    assert verdict.evidence
    assert words_of(verdict.rule).next


def test_thresholds_are_the_users_to_move() -> None:
    loose = play(40, clip_frac=0.3, rules={"O6": {"alone_warn": 0.4}})
    strict = play(40, clip_frac=0.3)
    off = play(40, clip_frac=0.3, rules={"O6": {"enabled": False}})
    assert [e.rule for e in alarms(strict)] == ["O6"]
    assert alarms(loose) == []
    assert alarms(off) == []
    assert "O6" not in {spec.id for spec in off.active}


@each_row(
    ("rules", "parts"),
    [
        ({"O66": {"warn": 1}}, ["O66", "O6"]),
        ({"O6": {"worn": 1}}, ["worn", "warn"]),
        ({"O6": {"warn": "high"}}, ["warn", "number"]),
        ({"O6": {"warn": True}}, ["warn", "number"]),
        ({"O6": {"enabled": 1}}, ["enabled", "true or false"]),
    ],
)
def test_a_setting_that_no_rule_knows_is_refused_with_the_remedy(rules: dict, parts: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        EngineOptions(rules=rules)
    for part in parts:
        assert part in str(caught.value)


def test_warm_up_counts_to_thirty() -> None:
    engine = Engine(identity())
    seen = []
    for one in series(32, grad_norm=1.0):
        seen.append(engine.warm_up)
        engine.observe(one)
    assert seen[0] == (0, 30)
    assert seen[7] == (7, 30)
    assert engine.warm_up is None


def test_the_users_group_size_wins() -> None:
    # Advantages of a group of four are 1.5 at most, those of sixteen 3.75.
    for options, said in ((EngineOptions(), {"A1"}), (EngineOptions(group_size=16), set())):
        engine = Engine(identity(group_size=4), options)
        for one in series(60, adv_max=3.0, adv_min=-1.5, adv_mean=0.01):
            engine.observe(one)
        assert {event.rule for event in engine.events} == said


def test_the_families_that_are_named_are_the_only_ones_asked() -> None:
    families = frozenset({"nonfinite"})
    named = Engine(identity(), EngineOptions(families=families))
    assert {spec.family for spec in named.active} == families
    assert named.active == [spec for spec in Engine(identity()).active if spec.family in families]


def test_a_metric_outside_the_identity_is_not_judged() -> None:
    found = Identity(DIALECT, Algorithm.GRPO, Traits(), {"loss": [Signal(CATALOG["loss"], "loss")]})
    engine = Engine(found)
    engine.observe(observation(1, {"kl_ref": 100.0}))
    assert engine.events == []


FAMILIES = {
    "nonfinite", "liveness", "gradient", "clip", "ratio", "kl", "lr", "loss", "entropy", "reward", "validation",
    "groups", "advantage", "length", "truncation", "agentic", "mismatch", "offpolicy", "critic", "preference", "rm",
    "performance", "straggler", "balance", "memory", "collapse", "embodied", "guessed", "facts",
}  # fmt: skip


def test_every_rule_is_complete() -> None:
    from rltop.rules.diagnosis import reason

    assert len(registry.NAMED) == len(registry.ALL_SPECS)
    assert all(registry.BY_ID[rule].group is part.group for rule, parts in registry.PARTS.items() for part in parts)
    for spec in registry.ALL_SPECS:
        assert spec.family in FAMILIES, f"{spec.id}: a new family of symptoms has a row in rltop/rules/advice.txt too"
        assert spec.title, spec.id
        assert len(spec.title) <= 34, f"{spec.id}: a badge of a screen of 40 columns holds its title"
        words = words_of(spec.id)
        assert words.condition, spec.id
        assert words.why, spec.id
        assert words.causes, spec.id
        assert words.sources, spec.id
        assert {*spec.metrics, *words.next} <= set(CATALOG), spec.id
        untold = [name for name in words.next if not reason(spec.family, name)]
        assert not untold, f"next of {spec.id}: say in rltop/rules/diagnosis.toml why these are worth a look"
        unnamed = [name for name in spec.thresholds if f"`{name}`" not in "".join(words.condition)]
        assert not unnamed, f"{spec.id}: its condition names every threshold"


def test_reasons_are_only_given_for_what_a_rule_points_at() -> None:
    from rltop.rules.diagnosis import reasons

    assert set(reasons()) - {"family"} <= {name for spec in registry.ALL_SPECS for name in words_of(spec.id).next}


@each_row("exponent", [150, 200, 300, 307])
@each_row("seed", [0, 15, 33])
def test_values_near_the_largest_number_are_judged_and_raise_nothing(exponent: int, seed: int, tmp_path: Path) -> None:
    keys = ("loss", "actor/grad_norm", "critic/score/mean", "critic/rewards/mean", "actor/entropy", "actor/ppo_kl",
            "critic/values/mean", "critic/score/std", "response_length/mean", "timing_s/step",
            "val-core/x/acc/mean@1")  # fmt: skip
    rng = random.Random(seed)
    lines = []
    for step in range(80):
        row = {key: rng.uniform(-1, 1) * 10.0**exponent if rng.random() < 0.2 else rng.random() for key in keys}
        lines.append(json.dumps({"step": step, **row}) + "\n")
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(lines))
    run = read_whole(str(path), Config(), FakeClock()).runs[0]
    assert run.main.stream.rows == 80
    assert run.verdicts


def test_alerts_of_the_training_script_are_repeated_escaped_and_not_without_end() -> None:
    engine = Engine(identity())
    for record in range(1, 301):
        engine.observe(observation(record, healthy(record))._replace(script_alerts=("warn: \x1b[31m low",)))
    told = [event for event in engine.events if event.rule == "F7"]
    assert len(told) == 200
    assert told[0].message == "script alert, warn: \\x1b[31m low"
    assert {event.state for event in told} == {EventState.FACT}
    assert engine.after(observation(301, healthy(301))._replace(script_alerts=("warn: x",))).events == []
    silenced = Engine(identity(), EngineOptions(rules={"F7": {"enabled": False}}))
    silenced.observe(observation(1, healthy(1))._replace(script_alerts=("warn: low",)))
    assert silenced.events == []
