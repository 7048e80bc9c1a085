"""What stays as it is is one alert: a constant, noise around a line, and what comes again and again."""

from __future__ import annotations

import random
from collections import Counter

from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from observations import learning, noisy, play
from tables import each_row

from rltop.model import EventState, Level

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
