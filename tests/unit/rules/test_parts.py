"""A rule of several parts: each judges for itself, what is said is one rule."""

from __future__ import annotations

import pytest
from observations import alarms, identity, noisy, observation, play, series, step_up

from rltop.errors import ConfigError
from rltop.model import EventState, Level, Verdict
from rltop.report.document import event_document, verdict_document
from rltop.rules.engine import Engine
from rltop.rules.options import EngineOptions
from rltop.rules.registry import BY_ID, FORMER, PARTS

KL, GAP = step_up(0.001, 0.05, 60), step_up(0.002, 0.02, 80)


def mismatch(engine: Engine) -> list[tuple[int, str, str, str]]:
    return [(e.record, e.part, e.state.value, e.level.word) for e in engine.events if e.rule == "M1"]


def shown(engine: Engine) -> list[Verdict]:
    return [one for one in engine.verdicts if one.rule == "M1"]


def test_no_more_than_a_hundred_rules_and_a_part_is_of_a_rule() -> None:
    assert len(BY_ID) <= 100
    assert set(PARTS) <= set(BY_ID)


def test_a_second_part_as_bad_as_the_first_is_no_second_alert() -> None:
    gap = play(120, rollout_prob_diff_mean=GAP)
    assert [(event.rule, event.part, event.level) for event in alarms(gap)] == [("M1", "M3", Level.WARN)]
    kl = play(120, off_policy_kl=KL)
    both = play(120, off_policy_kl=KL, rollout_prob_diff_mean=GAP)
    assert mismatch(kl) == mismatch(both)
    (verdict,) = shown(both)
    assert (verdict.part, verdict.headline) == ("", shown(kl)[0].headline)
    assert [one.id for one in verdict.also] == verdict_document(verdict)["also"] == ["M3"]
    assert verdict.also[0].words.endswith("since step 80")
    assert not shown(kl)[0].also and "also" not in verdict_document(shown(kl)[0])


def test_a_worse_part_makes_the_same_alert_worse_and_is_shown() -> None:
    engine = play(120, off_policy_kl=KL, rollout_prob_diff_mean=step_up(0.002, 0.2, 90))
    (*_, (record, part, state, level)) = mismatch(engine)
    assert (part, state, level) == ("M3", "escalated", "crit")
    assert record >= 90
    (verdict,) = shown(engine)
    assert (verdict.said_by, verdict.level, verdict.title) == ("M3", Level.CRIT, "probability gap")
    assert verdict_document(verdict)["part"] == event_document(alarms(engine, "M3")[-1])["part"] == "M3"
    assert "part" not in verdict_document(shown(play(120, off_policy_kl=KL))[0])


def test_the_rule_stands_while_one_of_its_parts_does() -> None:
    kl = lambda r: noisy(0.05 if 60 <= r < 100 else 0.001)(r)  # noqa: E731
    engine = Engine(identity())
    recovered = []
    for one in series(
        240, off_policy_kl=kl, rollout_prob_diff_mean=lambda r: noisy(0.02 if 80 <= r < 180 else 0.002)(r)
    ):
        recovered += [
            event for event in engine.observe(one) if (event.rule, event.state) == ("M1", EventState.RECOVERED)
        ]
        if one.record == 150:
            assert [verdict.said_by for verdict in shown(engine)] == ["M3"]
    assert [event.said_by for event in recovered] == ["M3"]
    assert recovered[0].record > 180
    assert len(alarms(engine, "M1")) == 1


def test_a_rule_has_settled_when_all_of_its_parts_have() -> None:
    slower = {"throughput": step_up(1000.0, 400.0, 81), "mfu": step_up(0.45, 0.2, 91)}
    settled = lambda engine: [one.part for one in engine.events if one.state is EventState.SETTLED]  # noqa: E731
    assert settled(play(240, rules={"P4": {"enabled": False}}, **slower)) == [""]
    assert settled(play(240, **slower)) == ["P4"], "once, when the last of them has"


def test_a_restart_ends_all_parts_as_one() -> None:
    engine = play(120, off_policy_kl=KL, rollout_prob_diff_mean=GAP)
    happened = engine.observe(observation(121, {"off_policy_kl": 0.001}, segment=1, step=1))
    assert [event.state for event in happened if event.rule == "M1"] == [EventState.RECOVERED]


def test_a_part_is_configured_by_its_own_id_and_the_rule_covers_its_parts() -> None:
    metrics = {"off_policy_kl": KL, "rollout_prob_diff_mean": GAP}
    assert mismatch(play(120, rules={"M1": {"enabled": False}}, **metrics)) == []
    own = play(120, rules={"M1": {"enabled": False}, "M3": {"enabled": True}}, **metrics)
    assert {part for _, part, _, _ in mismatch(own)} == {"M3"}
    rest = play(120, rules={"M3": {"enabled": False}}, rollout_prob_diff_mean=GAP)
    assert mismatch(rest) == []
    assert mismatch(play(120, rules={"M3": {"info": 0.5, "warn": 0.5, "crit": 0.9}}, rollout_prob_diff_mean=GAP)) == []
    options = EngineOptions(profiles=("embodied",))
    assert not options.is_enabled("R1", ("embodied",))
    assert options.is_enabled("B1", ("embodied",)), "what a profile switches off is the rule itself"


def test_muting_a_part_leaves_the_rule_and_muting_the_rule_takes_all() -> None:
    engine = Engine(identity())
    engine.mute("M3")
    for one in series(120, rollout_prob_diff_mean=step_up(0.002, 0.02, 60), off_policy_kl=step_up(0.001, 0.05, 80)):
        engine.observe(one)
    assert [verdict.said_by for verdict in shown(engine)] == ["M1"]
    assert [event.record for event in alarms(engine, "M1") if not event.part], "told although the muted part stands"
    assert [verdict.said_by for verdict in engine.muted_verdicts] == ["M3"]
    engine.mute("M1")
    assert shown(engine) == []
    assert len(engine.muted_verdicts) == 1


def test_what_was_a_rule_of_its_own_is_configured_by_its_id_still() -> None:
    heir, former = "P10", "P19"
    assert FORMER[former] == heir
    options = EngineOptions(rules={former: {"info": 0.4, "enabled": False}})
    assert options.thresholds(heir)["info"] == 0.4
    assert options.is_enabled(heir)
    assert EngineOptions(rules={former: {"info": 0.4}, heir: {"info": 0.3}}).thresholds(heir)["info"] == 0.3
    with pytest.raises(ConfigError, match="unknown setting"):
        EngineOptions(rules={former: {"inf": 0.4}})
    renamed = EngineOptions(rules={"RM1b": {"warn": 0.6, "wait": 99}, "R11": {"std": 1e-3, "most": 20}})
    assert (renamed.thresholds("RM2")["chance"], renamed.thresholds("RM2")["long"]) == (0.6, 99)
    assert renamed.thresholds("RM2")["warn"] == EngineOptions().thresholds("RM2")["warn"]
    assert renamed.thresholds("R2")["most"] == 20
