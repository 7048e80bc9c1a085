"""A rule of several parts: each judges for itself, what is said is one rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from observations import alarms, identity, judged, noisy, observation, play, series, step_up
from tables import each_row

from rltop.errors import ConfigError
from rltop.model import Algorithm, EventState, Level, Verdict
from rltop.report.document import event_document, verdict_document
from rltop.rules.engine import Engine
from rltop.rules.options import EngineOptions
from rltop.rules.registry import BY_ID, FORMER, PARTS

RATIO, GINI = step_up(2.0, 12.0, 60), step_up(0.15, 0.7, 80)


def stragglers(engine: Engine) -> list[tuple[int, str, str, str]]:
    return [(e.record, e.part, e.state.value, e.level.word) for e in engine.events if e.rule == "P5"]


def shown(engine: Engine) -> list[Verdict]:
    return [one for one in engine.verdicts if one.rule == "P5"]


def test_no_more_than_a_hundred_rules_and_a_part_is_of_a_rule() -> None:
    assert len(BY_ID) <= 100
    assert set(PARTS) <= set(BY_ID)


def test_a_second_part_as_bad_as_the_first_is_no_second_alert() -> None:
    uneven = play(120, group_len_gini=GINI)
    assert [(event.rule, event.part, event.level) for event in alarms(uneven)] == [("P5", "P7", Level.WARN)]
    ratio = play(120, group_len_ratio=RATIO)
    both = play(120, group_len_ratio=RATIO, group_len_gini=GINI)
    assert stragglers(ratio) == stragglers(both)
    (verdict,) = shown(both)
    assert (verdict.part, verdict.headline) == ("", shown(ratio)[0].headline)
    assert [one.id for one in verdict.also] == verdict_document(verdict)["also"] == ["P7"]
    assert verdict.also[0].words.endswith("since step 80")
    assert (verdict.also[0].metric, verdict.also[0].level) == ("group_len_gini", Level.WARN)
    assert not shown(ratio)[0].also and "also" not in verdict_document(shown(ratio)[0])


def test_a_worse_part_makes_the_same_alert_worse_and_is_shown() -> None:
    engine = play(120, group_len_gini=step_up(0.15, 0.35, 60), group_len_ratio=step_up(2.0, 12.0, 90))
    ((*_, first), *_, (record, part, state, level)) = stragglers(engine)
    assert (first, part, state, level) == ("info", "", "escalated", "warn")
    assert record >= 90
    (verdict,) = shown(engine)
    assert (verdict.raised_by, verdict.level, verdict.title) == ("P5", Level.WARN, "stragglers")
    assert "part" not in verdict_document(verdict)
    uneven = play(120, group_len_gini=GINI)
    assert verdict_document(shown(uneven)[0])["part"] == event_document(alarms(uneven, "P7")[-1])["part"] == "P7"


def test_the_rule_stands_while_one_of_its_parts_does() -> None:
    ratio = lambda r: noisy(12.0 if 60 <= r < 100 else 2.0)(r)  # noqa: E731
    engine = Engine(identity())
    recovered = []
    for one in series(240, group_len_ratio=ratio, group_len_gini=lambda r: noisy(0.7 if 80 <= r < 180 else 0.15)(r)):
        recovered += [
            event for event in engine.observe(one) if (event.rule, event.state) == ("P5", EventState.RECOVERED)
        ]
        if one.record == 150:
            assert [verdict.raised_by for verdict in shown(engine)] == ["P7"]
    assert [event.raised_by for event in recovered] == ["P7"]
    assert recovered[0].record > 180
    assert len(alarms(engine, "P5")) == 1


def test_a_rule_has_settled_when_all_of_its_parts_have() -> None:
    longer = {"group_len_ratio": step_up(3.0, 20.0, 81), "group_len_gini": step_up(0.15, 0.7, 91)}
    settled = lambda engine: [one.part for one in engine.events if one.state is EventState.SETTLED]  # noqa: E731
    assert settled(play(240, rules={"P7": {"enabled": False}}, **longer)) == [""]
    assert settled(play(240, **longer)) == ["P7"], "once, when the last of them has"


def test_a_restart_ends_all_parts_as_one() -> None:
    engine = play(120, group_len_ratio=RATIO, group_len_gini=GINI)
    happened = engine.observe(observation(121, {"group_len_ratio": 2.0}, segment=1, step=1))
    assert [event.state for event in happened if event.rule == "P5"] == [EventState.RECOVERED]


def test_a_part_is_configured_by_its_own_id_and_the_rule_covers_its_parts() -> None:
    metrics = {"group_len_ratio": RATIO, "group_len_gini": GINI}
    assert stragglers(play(120, rules={"P5": {"enabled": False}}, **metrics)) == []
    own = play(120, rules={"P5": {"enabled": False}, "P7": {"enabled": True}}, **metrics)
    assert {part for _, part, _, _ in stragglers(own)} == {"P7"}
    rest = play(120, rules={"P7": {"enabled": False}}, group_len_gini=GINI)
    assert stragglers(rest) == []
    assert stragglers(play(120, rules={"P7": {"info": 0.9, "rise": 0.9}}, group_len_gini=GINI)) == []


def test_muting_a_part_leaves_the_rule_and_muting_the_rule_takes_all() -> None:
    engine = Engine(identity())
    engine.mute("P7")
    for one in series(120, group_len_gini=step_up(0.15, 0.7, 60), group_len_ratio=step_up(2.0, 12.0, 80)):
        engine.observe(one)
    assert [verdict.raised_by for verdict in shown(engine)] == ["P5"]
    assert [event.record for event in alarms(engine, "P5") if not event.part], "told although the muted part stands"
    assert [verdict.raised_by for verdict in engine.muted_verdicts] == ["P7"]
    engine.mute("P5")
    assert shown(engine) == []
    assert len(engine.muted_verdicts) == 1


def test_what_was_a_rule_of_its_own_is_configured_by_its_id_still() -> None:
    heir, former = "P9", "P19"
    assert FORMER[former] == heir
    assert EngineOptions(rules={former: {"info": 0.4}}).thresholds(heir)["info"] == 0.4
    with pytest.raises(ConfigError, match="P19 is part of P9 now: set enabled of P9, for both"):
        EngineOptions(rules={former: {"info": 0.4, "enabled": False}})
    with pytest.raises(ConfigError, match=r"^\[rules.O7\] enabled: there is no rule O7 any more"):
        EngineOptions(rules={"O7": {"enabled": False}})
    assert EngineOptions(rules={former: {"info": 0.4}, heir: {"info": 0.3}}).thresholds(heir)["info"] == 0.3
    with pytest.raises(ConfigError, match="P19 is part of P9 now, which does not go by inf"):
        EngineOptions(rules={former: {"inf": 0.4}})
    renamed = EngineOptions(rules={"RM1b": {"warn": 0.6, "wait": 99}, "R11": {"most": 20}})
    assert (renamed.thresholds("RM2")["chance"], renamed.thresholds("RM2")["long"]) == (0.6, 99)
    assert renamed.thresholds("RM2")["warn"] == EngineOptions().thresholds("RM2")["warn"]
    assert renamed.thresholds("R2")["most"] == 20
    line = EngineOptions(rules={"M3": {"warn": 0.5}})
    assert line.thresholds("M1")["prob_warn"] == 0.5
    gap = play(120, rules={"M3": {"warn": 0.5, "crit": 0.9}}, rollout_prob_diff_mean=step_up(0.002, 0.2, 60))
    assert alarms(gap, "M1") == []


def test_a_mismatch_that_stands_is_not_said_to_grow_as_well() -> None:
    kl = step_up(0.001, 0.2, 98)
    rows = [{"step": n, "actor/pg_loss": 0.01, "actor/ppo_kl": 0.001, "rollout_corr/kl": kl(n)} for n in range(1, 201)]
    raised = {event.rule for event in judged(rows) if event.state is EventState.FIRING}
    assert raised & {"M1", "M2"} == {"M1"}


@each_row(("rule", "key", "value"), [("P3", "perf/mfu/actor", 0.12), ("C1", "critic/vf_explained_var", -5.0)])
def test_what_was_bad_from_the_start_began_there(rule: str, key: str, value: float) -> None:
    bad = noisy(value, 0.02)
    rows = [{"step": n, "actor/pg_loss": 0.01, "critic/vf_loss": 0.5, key: bad(n)} for n in range(1, 101)]
    assert {event.since_step for event in judged(rows) if event.rule == rule} == {1}


def test_evidence_names_the_statistic_that_was_judged() -> None:
    calls = play(120, tool_failure_frac=step_up(0.05, 0.6, 60), aborted_frac=0.0)
    assert [one.evidence[0].name for one in calls.verdicts if one.rule == "T4"] == ["tool_failure_frac"]


def test_a_threshold_that_another_rule_has_now_is_set_under_the_old_one_still() -> None:
    options = EngineOptions(rules={"X2": {"unmoved": 90}, "R2": {"spread": 1e-6, "most": 12}, "RM2": {"lost": 0.4}})
    assert options.thresholds("R13")["unmoved"] == 90
    assert (options.thresholds("A1")["zero_spread"], options.thresholds("R2")["most"]) == (1e-6, 12)
    assert options.thresholds("D8")["lost"] == 0.4
    with pytest.raises(ConfigError, match=r"\[rules.G1\] dead: no rule has this threshold any more"):
        EngineOptions(rules={"G1": {"dead": 45}})


@each_row(
    ("rule", "name", "says"),
    [
        ("O7", "warn", "there is no rule O7 any more"),
        ("L2", "warn", "L2 is part of L1 now"),
        ("A3", "warn", "no rule has this threshold any more"),
        ("T7", "rise", "no rule has this threshold any more"),
        ("B1", "crit", "no rule has this threshold any more"),
        ("T10", "mean", "no rule has this threshold any more"),
        ("R4", "info", "no rule has this threshold any more"),
    ],
)
def test_a_threshold_that_no_rule_goes_by_is_refused(rule: str, name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=rf"^\[rules\.{rule}\](?: {name})?: .*{says}") as caught:
        EngineOptions(rules={rule: {name: 2.0}})
    assert "remove the" in caught.value.hint


LN2 = 0.693


FAULTS = (
    ("O5", Algorithm.DPO, {"loss": lambda r: noisy(0.45 if r < 120 else 1.4, 0.05)(r) if r > 1 else LN2}),
    ("O5", Algorithm.SFT, {"loss": lambda r: noisy(2.0 if r == 1 else 1.2 if r < 120 else 6.0, 0.03)(r)}),
    ("D8", Algorithm.DPO, {"dpo_margin": lambda r: (1.1 if r < 120 else -1.3) + noisy(1.0, 0.1)(r) - 1.0}),
    ("D8", Algorithm.REWARD, {"rm_margin": lambda r: (1.1 if r < 120 else -1.3) + noisy(1.0, 0.1)(r) - 1.0}),
    ("D8", Algorithm.REWARD, {"rm_margin": lambda r: (1.1 if r < 120 else 0.0) + noisy(1.0, 0.005)(r) - 1.0}),
    ("O11", Algorithm.GRPO, {"kl_ref": lambda r: noisy(0.02 if r < 120 else 1.5, 0.1)(r), "reward_mean": noisy(0.4)}),
    ("E1", Algorithm.GRPO, {"entropy": lambda r: noisy(0.7 if r < 120 else 0.05, 0.05)(r), "reward_mean": noisy(0.4)}),
)


@each_row(("rule", "algorithm", "metrics"), FAULTS)
def test_one_fault_of_one_metric_is_one_alert(rule: str, algorithm: Algorithm, metrics: Mapping[str, Any]) -> None:
    engine = play(220, algorithm, **metrics)
    assert {one.rule for one in alarms(engine)} == {one.rule for one in engine.verdicts} == {rule}
    assert len([one for one in alarms(engine) if one.state is EventState.FIRING]) == 1
