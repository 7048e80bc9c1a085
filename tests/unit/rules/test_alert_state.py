"""The life of a verdict: pending, firing, escalated, recovered, back again."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from observations import observation

from rltop.model import Algorithm, Event, EventState, Level, Traits, VerdictState
from rltop.rules.alert_state import AlertState, verdict_of
from rltop.rules.context import RuleContext
from rltop.rules.rule import RELEASE, Group, Line, NOfM, RuleSpec, State

N_OF_M = {Level.WARN: NOfM(3, 5), Level.CRIT: NOfM(2, 3), Level.INFO: NOfM(3, 5)}


class Cut(Line):
    metric, text = "truncated_frac", "{value} above {threshold}"


def spec(**changes: object) -> RuleSpec:
    settings: dict[str, object] = {
        "id": "Z1",
        "title": "too much",
        "family": "length",
        "group": Group.LEARNING,
        "metrics": ("truncated_frac",),
        "detector": Cut,
        "thresholds": {"warn": 1.0, "crit": 2.0},
        "n_of_m": N_OF_M,
    }
    return RuleSpec(**(settings | changes))  # type: ignore[arg-type]


def live(
    state: AlertState, values: list[float | None], raised: Mapping[tuple[str, Level], int] | None = None
) -> list[Event | None]:
    context = RuleContext(Algorithm.GRPO, Traits(), None)
    context.raised |= raised or {}
    found = []
    for record, value in enumerate(values, 1):
        context.advance(observation(record, {"truncated_frac": value}, step=record * 10))
        found.append(state.observe(context))
    return found


def state_of(one: RuleSpec, thresholds: Mapping[str, float] | None = None) -> AlertState:
    return AlertState(one, thresholds or one.thresholds)


def states(events: list[Event | None]) -> list[tuple[int, EventState, Level]]:
    return [(event.record, event.state, event.level) for event in events if event is not None]


def test_pending_then_firing_then_recovered() -> None:
    state = state_of(spec())
    events = live(state, [0.5, 1.5, 0.5, 1.5, 1.5, *[0.5] * 5])
    assert states(events) == [(5, EventState.FIRING, Level.WARN), (10, EventState.RECOVERED, Level.WARN)]
    verdict = verdict_of(state, "truncated_frac", "key", RuleContext(Algorithm.GRPO, Traits(), None))
    assert (verdict.since_record, verdict.since_step) == (2, 20)
    assert verdict.state is VerdictState.RECOVERED
    assert verdict.recovered_step == 60  # the first good one, not the one that ended it
    assert events[4].message == "1.50 above 1.00"


def test_it_escalates_once_and_keeps_its_worst_level() -> None:
    state = state_of(spec())
    events = live(state, [1.5, 1.5, 1.5, 3.0, 3.0, 1.5, 1.5])
    assert states(events) == [(3, EventState.FIRING, Level.WARN), (5, EventState.ESCALATED, Level.CRIT)]
    assert state.level is Level.CRIT
    assert state.finding.value == 1.5, "the sentence has the present value"


def test_the_worst_level_may_come_first() -> None:
    events = live(state_of(spec()), [3.0, 3.0])
    assert states(events) == [(2, EventState.FIRING, Level.CRIT)]


def test_records_that_say_nothing_do_not_count() -> None:
    state = state_of(spec())
    events = live(state, [1.5, None, 1.5, None, None, 1.5, None, None, None, None, None, None])
    assert states(events) == [(6, EventState.FIRING, Level.WARN)]
    assert state.is_firing


def test_a_value_at_the_line_does_not_flicker() -> None:
    state = state_of(spec())
    events = live(state, [1.1, 1.1, 1.1, *[0.9] * 40])
    assert states(events) == [(3, EventState.FIRING, Level.WARN)]
    events = live(state_of(spec()), [0.9] * 40)
    assert states(events) == []


@pytest.mark.parametrize(("good", "state"), [(5, "resumed"), (90, "resumed"), (110, "firing")])
def test_what_comes_back_soon_is_the_same_alert(good: int, state: str) -> None:
    found = states(live(state_of(spec()), [1.5, 1.5, 1.5, *[0.1] * good, *[1.5] * 30]))
    assert found == [
        (3, EventState.FIRING, Level.WARN),
        (8, EventState.RECOVERED, Level.WARN),
        (6 + good, EventState(state), Level.WARN),
    ]


@pytest.mark.parametrize(("good", "lasts"), [(5, 10), (20, 40), (90, 100)])
def test_what_has_come_back_ends_after_twice_as_many_good_records(good: int, lasts: int) -> None:
    values = [1.5, 1.5, 1.5, *[0.1] * good, *[1.5] * 3, *[0.1] * 120]
    *_, resumed, ended = states(live(state_of(spec()), values))
    assert resumed[1:] == (EventState.RESUMED, Level.WARN)
    assert ended == (resumed[0] + lasts, EventState.RECOVERED, Level.WARN)


def test_what_comes_back_worse_is_an_alarm() -> None:
    values = [1.5, 1.5, 1.5, *[0.1] * 5, 3.0, 3.0]
    found = states(live(state_of(spec()), values))
    assert found[-1] == (10, EventState.ESCALATED, Level.CRIT)


def test_a_recovered_verdict_stays_in_view_for_twenty_records() -> None:
    state = state_of(spec())
    live(state, [1.5, 1.5, 1.5, *[0.1] * 5])
    assert state.is_shown(8)
    assert state.is_shown(27)
    assert not state.is_shown(28)


def test_a_fact_is_told_and_does_not_last() -> None:
    state = state_of(spec(is_fact=True, thresholds={"info": 1.0, "warn": 5.0}, n_of_m={}))
    events = live(state, [1.5, 0.1, 1.5])
    assert states(events) == [(1, EventState.FACT, Level.INFO), (3, EventState.FACT, Level.INFO)]
    assert not state.is_shown(3)


def test_information_that_becomes_a_warning_begins_with_the_warning() -> None:
    state = state_of(
        spec(thresholds={"info": 0.5, "warn": 1.0}, n_of_m={Level.INFO: NOfM(1, 1), Level.WARN: NOfM(2, 2)})
    )
    events = live(state, [0.7, 0.7, 0.7, 1.5, 1.5])
    assert states(events) == [(1, EventState.FIRING, Level.INFO), (5, EventState.ESCALATED, Level.WARN)]
    assert state.since_record == 4


def test_an_instance_has_what_its_class_declares_as_state_and_no_annotations() -> None:
    class Counting(State):
        seen: list[int] = []  # noqa: RUF012 - each instance gets its own

    one, other = Counting(), Counting()
    assert vars(one) == {"seen": []}
    assert one.seen is not other.seen


@given(st.lists(st.sampled_from([0.1, 0.9, 1.5, 3.0]), min_size=1, max_size=80), st.integers(0, 80))
def test_a_clone_leaves_the_original_alone_and_goes_on_alike(values: list[float], cut: int) -> None:
    straight = states(live(state_of(spec()), list(values)))
    state, context = state_of(spec()), RuleContext(Algorithm.GRPO, Traits(), None)
    found = []
    for record, value in enumerate(values, 1):
        if record == cut:
            state.clone().observe(context)
            state = state.clone()
        context.advance(observation(record, {"truncated_frac": value}))
        event = state.observe(context)
        if event is not None:
            found.append(event)
    assert states(list(found)) == straight


@given(st.lists(st.sampled_from([0.1, 0.1, 0.1, 0.1, 1.5, 3.0]), min_size=1, max_size=250))
def test_events_alternate_and_nothing_is_raised_soon_after_it_ended(values: list[float]) -> None:
    ended, is_open = -200, False
    for record, state, _ in states(live(state_of(spec()), list(values))):
        is_back = not is_open and record - ended <= 100 and state in {EventState.RESUMED, EventState.ESCALATED}
        assert is_open is (state is not EventState.FIRING and not is_back)
        assert state is not EventState.FIRING or record - ended > 100
        is_open = state is not EventState.RECOVERED
        ended = ended if is_open else record


@given(
    st.one_of(
        st.lists(st.sampled_from([0.5, 1.5, 2.5]), min_size=40, max_size=120),
        st.lists(st.tuples(st.sampled_from([0.5, 1.5, 2.5]), st.integers(1, 20)), min_size=10, max_size=40).map(
            lambda stretches: [value for value, count in stretches for _ in range(count)]
        ),
    ),
    st.booleans(),
)
def test_an_alert_is_raised_and_gets_worse_on_a_record_that_is_as_bad(values: list[float], has_flapped: bool) -> None:
    raised = {("Z1", Level.WARN): 3, ("Z1", Level.CRIT): 3} if has_flapped else {}
    for event in live(state_of(spec()), [*values], raised):
        if event is not None and event.state in {EventState.FIRING, EventState.ESCALATED, EventState.RESUMED}:
            line = {Level.INFO: 1.0, Level.WARN: 1.0, Level.CRIT: 2.0}[event.level]
            assert values[event.record - 1] > RELEASE * line


def test_a_rule_without_a_detector_cannot_be_put_to_work() -> None:
    with pytest.raises(ValueError, match="does not judge"):
        state_of(spec(detector=None))
