"""The life of a verdict: pending, firing, escalated, recovered, silent for a while."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observations import observation

from rltop.model import Algorithm, Event, EventState, Level, Traits, VerdictState
from rltop.rules.alert_state import Rule
from rltop.rules.context import Moment
from rltop.rules.detectors import Above
from rltop.rules.rule import Group, Patience, RuleSpec

PATIENCE = {Level.WARN: Patience(3, 5), Level.CRIT: Patience(2, 3), Level.INFO: Patience(3, 5)}


def spec(**changes: object) -> RuleSpec:
    settings: dict[str, object] = {
        "id": "Z1",
        "title": "too much",
        "family": "length",
        "group": Group.LEARNING,
        "metrics": ("truncated_frac",),
        "judge": lambda limits: Above(limits, metric="truncated_frac", text="{value} above {line}"),
        "condition": "above",
        "limits": {"warn": 1.0, "crit": 2.0},
        "patience": PATIENCE,
    }
    return RuleSpec(**(settings | changes))  # type: ignore[arg-type]


def live(rule: Rule, values: list[float | None]) -> list[Event | None]:
    now = Moment(Algorithm.GRPO, Traits(), None)
    found = []
    for record, value in enumerate(values, 1):
        now.advance(observation(record, {"truncated_frac": value}, step=record * 10))
        found.append(rule.observe(now))
    return found


def rule_of(one: RuleSpec, limits: Mapping[str, float] | None = None) -> Rule:
    return Rule(one, limits or one.limits)


def states(events: list[Event | None]) -> list[tuple[int, EventState, Level]]:
    return [(event.record, event.state, event.level) for event in events if event is not None]


def test_pending_then_firing_then_recovered() -> None:
    rule = rule_of(spec())
    events = live(rule, [0.5, 1.5, 0.5, 1.5, 1.5, *[0.5] * 5])
    assert states(events) == [(5, EventState.FIRING, Level.WARN), (10, EventState.RECOVERED, Level.WARN)]
    verdict = rule.verdict("truncated_frac", "key")
    assert (verdict.since_record, verdict.since_step) == (2, 20)
    assert verdict.state is VerdictState.RECOVERED
    assert verdict.recovered_step == 100
    assert events[4] is not None
    assert events[4].message == "1.50 above 1.00"


def test_it_escalates_once_and_keeps_its_worst_level() -> None:
    rule = rule_of(spec())
    events = live(rule, [1.5, 1.5, 1.5, 3.0, 3.0, 1.5, 1.5])
    assert states(events) == [(3, EventState.FIRING, Level.WARN), (5, EventState.ESCALATED, Level.CRIT)]
    assert rule.level is Level.CRIT
    assert rule.reading.value == 3.0


def test_the_worst_level_may_come_first() -> None:
    events = live(rule_of(spec()), [3.0, 3.0])
    assert states(events) == [(2, EventState.FIRING, Level.CRIT)]


def test_records_that_say_nothing_do_not_count() -> None:
    rule = rule_of(spec())
    events = live(rule, [1.5, None, 1.5, None, None, 1.5, None, None, None, None, None, None])
    assert states(events) == [(6, EventState.FIRING, Level.WARN)]
    assert rule.is_firing


def test_a_value_at_the_line_does_not_flicker() -> None:
    rule = rule_of(spec())
    events = live(rule, [1.1, 1.1, 1.1, *[0.9] * 40])
    assert states(events) == [(3, EventState.FIRING, Level.WARN)]
    events = live(rule_of(spec()), [0.9] * 40)
    assert states(events) == []


def test_after_recovery_it_is_silent_for_twenty_records() -> None:
    values = [1.5, 1.5, 1.5, *[0.1] * 5, *[1.5] * 30]
    found = states(live(rule_of(spec()), values))
    assert found == [
        (3, EventState.FIRING, Level.WARN),
        (8, EventState.RECOVERED, Level.WARN),
        (28, EventState.FIRING, Level.WARN),
    ]


def test_a_worse_level_is_not_held_back_by_the_silence_of_a_lesser_one() -> None:
    values = [1.5, 1.5, 1.5, *[0.1] * 5, 3.0, 3.0]
    found = states(live(rule_of(spec()), values))
    assert found[-1] == (10, EventState.FIRING, Level.CRIT)


def test_a_recovered_verdict_stays_in_view_for_twenty_records() -> None:
    rule = rule_of(spec())
    live(rule, [1.5, 1.5, 1.5, *[0.1] * 5])
    assert rule.is_shown(8)
    assert rule.is_shown(27)
    assert not rule.is_shown(28)


def test_a_fact_is_told_and_does_not_last() -> None:
    rule = rule_of(spec(is_fact=True, limits={"info": 1.0, "warn": 5.0}, patience={}))
    events = live(rule, [1.5, 0.1, 1.5])
    assert states(events) == [(1, EventState.FACT, Level.INFO), (3, EventState.FACT, Level.INFO)]
    assert not rule.is_shown(3)


def test_information_that_becomes_a_warning_begins_with_the_warning() -> None:
    rule = rule_of(
        spec(limits={"info": 0.5, "warn": 1.0}, patience={Level.INFO: Patience(1, 1), Level.WARN: Patience(2, 2)})
    )
    events = live(rule, [0.7, 0.7, 0.7, 1.5, 1.5])
    assert states(events) == [(1, EventState.FIRING, Level.INFO), (5, EventState.ESCALATED, Level.WARN)]
    assert rule.since_record == 4


@given(st.lists(st.sampled_from([0.1, 0.9, 1.5, 3.0]), min_size=1, max_size=80), st.integers(0, 80))
def test_a_clone_leaves_the_original_alone_and_goes_on_alike(values: list[float], cut: int) -> None:
    straight = states(live(rule_of(spec()), list(values)))
    rule, now = rule_of(spec()), Moment(Algorithm.GRPO, Traits(), None)
    found = []
    for record, value in enumerate(values, 1):
        if record == cut:
            rule.clone().observe(now)
            rule = rule.clone()
        now.advance(observation(record, {"truncated_frac": value}))
        event = rule.observe(now)
        if event is not None:
            found.append(event)
    assert states(list(found)) == straight


@given(st.lists(st.sampled_from([0.1, 1.5, 3.0]), min_size=1, max_size=150))
def test_events_alternate_and_never_come_twice_within_the_silence(values: list[float]) -> None:
    last_recovery: dict[Level, int] = {}
    is_open = False
    for record, state, level in states(live(rule_of(spec()), list(values))):
        if state is EventState.FIRING:
            assert not is_open
            assert record - last_recovery.get(level, -100) >= 20
            is_open = True
        elif state is EventState.RECOVERED:
            assert is_open
            is_open = False
            last_recovery[level] = record
        else:
            assert is_open


def test_a_rule_without_judge_cannot_be_put_to_work() -> None:
    with pytest.raises(ValueError, match="does not judge"):
        rule_of(spec(judge=None))


@given(st.lists(st.sampled_from([None, 0.5, 0.7, 1.5, 2.5]), max_size=120))
def test_records_as_bad_as_the_verdict_count_whichever_way_they_are_taken_in(values: list[float | None]) -> None:
    quick, thorough = rule_of(spec()), rule_of(spec())
    now = Moment(Algorithm.GRPO, Traits(), None)
    for record, value in enumerate(values, 1):
        now.advance(observation(record, {"truncated_frac": value}, step=record * 10))
        # A cool-down that forbids nothing keeps a rule from the short way.
        thorough._cool.setdefault(Level.OK, -1)
        assert quick.observe(now) == thorough.observe(now)
        seen = [
            (one.level, one.is_firing, one.since_step, one.recovered_step, one.is_idle) for one in (quick, thorough)
        ]
        assert seen[0] == seen[1]
