"""What stays as it is is one alert: a constant, noise around a line, and what comes again and again."""

from __future__ import annotations

import random
from collections import Counter

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from observations import learning, noisy, play, series
from tables import each_row

from rltop.model import Action, EventState, Level
from rltop.run.past import history_of

AROUND = {
    "truncated_frac": (0.2, 0.9),
    "aborted_frac": (0.05, 0.3),
    "zero_std_frac": (0.8, 0.99),
    "clip_frac": (0.05, 0.2),
    "kl_old": (0.02, 0.1),
    "kl_ref": (-0.01, -0.02, 0.3),
    "off_policy_kl": (0.01, 0.1),
    "rollout_prob_diff_mean": (0.005, 0.01, 0.05),
    "is_ratio_mean": (0.9, 1.1),
    "is_ess": (0.5, 0.3),
    "entropy": (0.02,),
    "group_len_gini": (0.4, 0.5),
    "trainer_idle_frac": (0.2, 0.5, 0.7),
    "staleness_mean": (2.0, 8.0),
}
"""Canonical name: lines of the rules that look at it."""
PLACES = [(name, line) for name, lines in AROUND.items() for line in lines]


def told(**metrics: object) -> Counter[tuple[str, EventState]]:
    """How often each rule was raised, ended and so on in 400 records."""
    return Counter((one.rule, one.state) for one in play(400, reward_mean=learning, **metrics).events)


@each_row(("name", "line"), PLACES)
def test_a_constant_at_a_line_is_raised_once_and_never_ends(name: str, line: float) -> None:
    for times in (0.999, 1.0, 1.02):
        for (rule, state), count in told(**{name: line * times}).items():
            assert count == 1 or state is EventState.FACT, (times, rule, state)
            assert state is not EventState.RECOVERED, (times, rule)


@examples(40)
@given(
    st.sampled_from(PLACES),
    st.sampled_from([0.8, 0.9, 1.0, 1.1, 1.25]),
    st.sampled_from([0.05, 0.2]),
    st.integers(1, 999),
)
def test_noise_around_a_line_is_raised_once_and_ends_once(
    place: tuple[str, float], times: float, noise: float, seed: int
) -> None:
    name, line = place
    for (rule, state), count in told(**{name: noisy(times * line, noise, seed)}).items():
        assert count <= 1 or state not in {EventState.FIRING, EventState.RECOVERED}, (rule, state)


@each_row(("every", "is_warned"), [(16, True), (40, False), (90, False)])
def test_spikes_that_recur_are_one_alert(every: int, is_warned: bool) -> None:
    engine = play(
        400,
        grad_norm=lambda record: 200.0 if record % every == every - 1 else noisy(0.5, 0.1)(record),
        reward_mean=learning,
    )
    events = [one for one in engine.events if one.rule == "O1"]
    assert [one.state for one in events].count(EventState.FIRING) == 1
    assert [one.state for one in events].count(EventState.RECOVERED) <= 1
    (stands,) = [one for one in engine.verdicts if one.rule == "O1"]
    assert stands.level is (Level.WARN if is_warned else Level.INFO)


@each_row("every", [7, 40, 90])
def test_a_best_that_is_hardly_better_is_no_end_of_a_plateau(every: int) -> None:
    reward = lambda record: min(0.6, 0.1 + record / 200) + (0.003 if record % (2 * every) < every else 0.0)  # noqa: E731
    states = [one.state for one in play(600, reward_mean=reward).events if one.rule == "R3"]
    assert states == [EventState.FIRING]


@each_row("seed", range(4))
def test_returns_that_fall_and_come_back_again_and_again_are_told_a_few_times(seed: int) -> None:
    dice, returns = random.Random(seed), [250.0] * 12
    while len(returns) < 6000:
        top, low = dice.uniform(0.8, 1.0) * (300 + len(returns) / 20), dice.uniform(0, 20)
        for level, records in ((top, dice.randint(30, 90)), (low, dice.randint(30, 90 + len(returns) // 20))):
            returns += [level * dice.gauss(1.0, 0.3) for _ in range(records)]
    events = [one for one in play(len(returns), reward_mean=returns).events if one.rule == "R1"]
    assert len([one for one in events if one.is_alarm]) <= 12
    assert max(one.record for one in events) < 3000


@examples(30)
@given(
    st.sampled_from(["reward_mean", "time_step", "kl_ref"]),
    st.lists(st.tuples(st.integers(5, 20), st.integers(30, 95)), min_size=1, max_size=4),
    st.integers(1, 999),
)
def test_what_comes_and_goes_and_then_stays_began_where_it_stays(
    name: str, falls: list[tuple[int, int]], seed: int
) -> None:
    fine, bad = {"reward_mean": (0.6, 0.05), "time_step": (60.0, 120.0), "kl_ref": (0.02, 0.9)}[name]
    levels = [fine] * 120
    for lasts, lull in falls:
        levels += [bad] * lasts + [fine] * lull
    began = len(levels)
    levels += [bad] * 60
    metrics = {"reward_mean": learning} | {name: [noisy(one, 0.02, seed)(i) for i, one in enumerate(levels)]}
    (stands,) = [one for one in play(len(levels), **metrics).verdicts if one.metric == name and one.level >= Level.WARN]
    assert abs(stands.since_record - began) <= 3, (stands.rule, stands.since_record, began)


@examples(60)
@given(
    st.sampled_from(["reward_mean", "time_step", "kl_ref", "entropy", "grad_norm"]),
    st.lists(st.tuples(st.sampled_from([0.0, 0.25, 0.5, 1.0]), st.integers(1, 60)), min_size=8, max_size=16),
    st.integers(1, 999),
)
def test_whatever_comes_and_goes_is_told_in_numbers(name: str, levels: list[tuple[float, int]], seed: int) -> None:
    fine, bad = {"reward_mean": (0.6, 0.05), "time_step": (60.0, 120.0), "kl_ref": (0.02, 0.9)}.get(name, (1.0, 0.02))
    values = [fine] * 60 + [fine + part * (bad - fine) for part, count in levels for _ in range(count)]
    metrics = {"reward_mean": learning} | {name: [noisy(one, 0.02, seed)(i) for i, one in enumerate(values)]}
    for event in play(len(values), **metrics).events:
        assert event.state is EventState.RECOVERED or any(one.isdigit() for one in event.message), event


PARTED = {
    "reward_mean": (0.6, 0.05),
    "kl_ref": (0.02, 0.9),
    "truncated_frac": (0.001, 0.97),
    "stop_count": (4.0, 0.0),
    "loss": (0.25, 2e6),
    "grad_norm": (0.5, 300.0),
    "time_step": (60.0, 120.0),
}
"""Canonical name: a fine value and a bad one; several parts of a rule judge some of them."""


@examples(60)
@given(
    st.lists(st.sampled_from(sorted(PARTED)), min_size=1, max_size=3, unique=True),
    st.lists(st.tuples(st.sampled_from([0.0, 0.0, 0.4, 1.0]), st.integers(1, 60)), min_size=8, max_size=16),
    st.integers(1, 999),
)
def test_an_alert_begins_where_its_last_event_says(
    names: list[str], levels: list[tuple[float, int]], seed: int
) -> None:
    parts = [0.0] * 60 + [part for part, count in levels for _ in range(count)]
    metrics: dict[str, object] = {"reward_mean": learning}
    for lag, name in enumerate(names):
        fine, bad = PARTED[name]
        shifted = [0.0] * 7 * lag + parts
        metrics[name] = [noisy(fine + part * (bad - fine), 0.02, seed)(i) for i, part in enumerate(shifted)]
    engine = play(0, **metrics)
    for one in series(len(parts), **metrics):
        engine.observe(one)
        told = {event.rule: event.since_step for event in engine.events if event.state is not EventState.FACT}
        stands = {each.rule: each.since_step for each in engine.verdicts if each.recovered_step is None}
        assert stands == {rule: told[rule] for rule in stands}, one.step
    ended: dict[str, int] = {}
    is_new: dict[str, bool] = {}
    for event in engine.events:
        if event.state in (EventState.FIRING, EventState.RECOVERED):
            is_new[event.raised_by] = event.state is EventState.FIRING
        if event.state is EventState.RECOVERED:
            ended[event.raised_by] = event.step
        elif is_new.get(event.raised_by) and event.since_step is not None:
            assert event.since_step >= ended.get(event.raised_by, 0), event


def test_an_alert_long_after_another_does_not_begin_where_that_came_back() -> None:
    fine, bad = 0.02, 0.9
    spells = [(fine, 60), (bad, 20), (fine, 30), (bad, 20), (fine, 60), (bad, 8), (fine, 300), (bad, 40)]
    kl = [level for level, count in spells for _ in range(count)]
    engine = play(len(kl), reward_mean=learning, kl_ref=kl)
    assert {one.since_step for one in engine.events if one.metric == "kl_ref" and one.step > 480} == {499}


@each_row(
    ("name", "levels"),
    [("kl_ref", (0.002, 0.9, 9.0)), ("grad_norm", (0.3, 20.0, 200.0)), ("truncated_frac", (0.002, 0.3, 0.9))],
)
def test_a_settled_metric_that_leaves_its_level_again_is_told_and_no_milder(
    name: str, levels: tuple[float, ...]
) -> None:
    values = [noisy(levels[(i > 100) + (i > 250)], 0.05)(i) for i in range(1, 401)]
    engine = play(400, reward_mean=learning, **{name: values})
    events = [one for one in engine.events if one.metric == name]
    again = next(one for one in events if one.step > 250)
    assert abs((again.since_step or 0) - 251) <= 5
    assert again.level == max(one.level for one in events if one.step <= 250)


def test_an_alert_that_waits_for_its_end_says_since_when_it_has_been_fine() -> None:
    is_down = lambda record: 120 <= record < 130 or 170 <= record < 180  # noqa: E731
    reward = lambda record: noisy(0.05 if is_down(record) else min(0.6, record / 100), 0.01)(record)  # noqa: E731
    (waits,) = [one for one in play(215, reward_mean=reward).verdicts if one.rule == "R1"]
    assert waits.headline.endswith("; no alarm since step 185")
    assert (waits.level, waits.advice and waits.advice.action) == (Level.CRIT, Action.WATCH)
    ended = play(330, reward_mean=reward).events
    assert next(one for one in reversed(ended) if one.rule == "R1").message.endswith("; no alarm since step 185")
    assert [(one.since_step, one.recovered_step) for one in history_of(ended).alerts if one.rule == "R1"][-1][1] == 185
    (stands,) = [one for one in play(178, reward_mean=reward).verdicts if one.rule == "R1"]
    assert "no alarm" not in stands.headline


def test_an_evaluation_that_is_back_and_waits_is_no_other_level() -> None:
    is_down = lambda record: 100 <= record < 130 or 170 <= record < 200  # noqa: E731
    score = lambda record: noisy(0.2 if is_down(record) else 0.6, 0.02)(record)  # noqa: E731
    events = [one for one in play(300, val_score=score, reward_mean=learning).events if one.rule == "R5"]
    assert [one.state.value for one in events][-3:] == ["resumed", "settled", "recovered"]


@each_row("lull", [12, 40])
def test_what_returns_after_equal_lulls_does_not_change_its_level_each_time(lull: int) -> None:
    is_bad = lambda record: record >= 120 and (record - 120) % (15 + lull) < 15  # noqa: E731
    levels = []
    for records in range(250, 400, 7):
        engine = play(records, reward_mean=learning, kl_ref=lambda i: 0.9 if is_bad(i) else 0.02)
        levels.append(max(one.level for one in engine.verdicts if one.metric == "kl_ref"))
    assert len(set(levels)) == 1


def test_a_part_that_takes_over_keeps_the_start_of_its_alert_and_says_its_own() -> None:
    truncated = lambda record: noisy(0.001 if record < 100 else 0.15, 0.05)(record)  # noqa: E731
    ended = lambda record: 4.0 if record < 200 else 0.0  # noqa: E731
    metrics = {"truncated_frac": truncated, "stop_count": ended, "reward_mean": learning}
    engine = play(300, **metrics)
    events = [one for one in engine.events if one.rule == "T1" and one.level >= Level.WARN]
    (stands,) = [one for one in engine.verdicts if one.rule == "T1"]
    assert {one.since_step for one in (*events, stands)} == {100}
    assert len({one.incident for one in events if one.incident}) == 1
    assert "T9" in {one.part for one in events}, events
    assert "no EOS since step 200, truncation since 100" in stands.headline
    assert stands.title == "truncation, no EOS"
