"""Slow creep and periodic cost: raised, ended, and silent on the healthy runs that look alike."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable

import pytest
from tables import each_row

from rltop.model import Algorithm, EventState, Level
from tests.observations import alarms, first, judged, learning, noisy, observation, play


def ramp(before: float, after: float, begin: int, end: int, spread: float = 0.08):
    """A noisy level that moves from `before` to `after` between two records."""

    def at(record: int) -> float:
        part = min(1.0, max(0.0, (record - begin) / (end - begin)))
        return noisy(before + (after - before) * part, spread)(record)

    return at


def hump(before: float, after: float, begin: int, end: int, back: int):
    """The same, and `before` again from record `back` on."""
    return lambda record: (ramp(before, after, begin, end) if record < back else noisy(before, 0.08))(record)


CREEPS = {
    "M10": {"rollout_logp_diff_mean": (0.02, 0.08), "reward_mean": learning},
    "T6": {"num_turns_max": (6.0, 80.0), "num_turns_mean": noisy(3.0), "reward_mean": learning},
}


@pytest.mark.parametrize("rule", CREEPS)
def test_a_level_that_creeps_up_over_300_steps_is_raised_once(rule: str) -> None:
    metrics = {name: ramp(*one, 20, 320) if isinstance(one, tuple) else one for name, one in CREEPS[rule].items()}
    engine = play(330, **metrics)
    assert [event.level for event in alarms(engine, rule)] == [Level.WARN]
    assert first(engine, rule).record > 60


@pytest.mark.parametrize("rule", CREEPS)
def test_it_ends_when_the_level_is_back(rule: str) -> None:
    metrics = {name: hump(*one, 20, 150, 200) if isinstance(one, tuple) else one for name, one in CREEPS[rule].items()}
    engine = play(230, **metrics)
    assert first(engine, rule)
    assert not [
        verdict
        for verdict in engine.verdicts
        if rule in {verdict.rule, verdict.part} and verdict.recovered_step is None
    ]


@each_row("rule", CREEPS)
def test_a_level_that_grows_by_half_is_no_creep(rule: str) -> None:
    metrics = {
        name: ramp(one[0], 1.5 * one[0], 20, 320) if isinstance(one, tuple) else one
        for name, one in CREEPS[rule].items()
    }
    assert not alarms(play(330, **metrics), rule)


def test_a_gap_three_times_as_large_after_30_steps_is_raised_in_a_short_run() -> None:
    engine = play(34, rollout_logp_diff_mean=ramp(0.02, 0.06, 1, 26, 0.03), reward_mean=learning)
    assert first(engine, "M10").record <= 34


def test_a_small_gap_may_triple() -> None:
    assert not alarms(play(330, rollout_logp_diff_mean=ramp(0.005, 0.02, 20, 300), reward_mean=learning), "M10")


def test_a_penalised_reward_that_falls_while_scores_rise_is_raised_and_ends() -> None:
    engine = play(120, Algorithm.PPO, reward_final=ramp(1.0, -1.0, 10, 100), score_mean=ramp(1.0, 3.0, 10, 100))
    assert "KL penalty costs more than is gained" in first(engine, "R20").message
    engine = play(120, Algorithm.PPO, reward_final=ramp(1.0, 2.0, 10, 100), score_mean=ramp(1.0, 3.0, 10, 100))
    assert not alarms(engine, "R20")
    engine = play(120, Algorithm.PPO, reward_final=ramp(1.0, -1.0, 10, 100), score_mean=ramp(2.0, 1.0, 10, 100))
    assert not alarms(engine, "R20"), "a score that falls too is R1's"


def test_accuracy_is_judged_where_it_is_the_only_measure_of_success() -> None:
    engine = play(80, Algorithm.UNKNOWN, success_frac=lambda record: noisy(0.7 if record < 50 else 0.05)(record))
    assert first(engine, "R1").message.startswith("success rate")


def test_accuracy_beside_a_reward_is_not() -> None:
    engine = play(80, success_frac=lambda record: noisy(0.7 if record < 50 else 0.05)(record), reward_mean=learning)
    assert not alarms(engine, "R1")


def value_loss(record: int) -> float:
    return noisy(2.0 if record < 60 else 1e-6, 0.2)(record)


def test_a_value_loss_of_nothing_while_rewards_vary_is_raised() -> None:
    engine = play(
        120, Algorithm.PPO, traits={"has_critic": True}, value_loss=value_loss, reward_std=0.4, reward_mean=noisy(0.5)
    )
    assert first(engine, "C6").record < 75


@each_row(
    "healthy",
    [
        {"explained_var": noisy(0.95, 0.01), "reward_std": 0.4, "reward_mean": noisy(0.5)},
        {"reward_std": 0.0, "reward_mean": 0.5},
        {"reward_mean": noisy(0.5)},
    ],
    ids=["explains the returns", "nothing to explain", "spread unknown"],
)
def test_a_critic_that_is_done_is_no_alarm(healthy: dict) -> None:
    assert not alarms(play(120, Algorithm.PPO, traits={"has_critic": True}, value_loss=value_loss, **healthy), "C6")


def tenth(record: int, slow: float = 270.0, every: int = 10) -> float:
    return noisy(slow if record % every == 0 else 30.0, 0.03)(record)


def test_every_tenth_step_is_named_with_its_share() -> None:
    event = first(play(60, time_step=tenth, reward_mean=learning), "P16")
    assert event.message.startswith("every 10th step takes 9.23×: 45.1 % of the time") and event.record == 30


def test_every_tenth_step_is_named_between_evaluations_of_another_rhythm() -> None:
    taken = lambda record: tenth(record) + 40.0 * (record % 15 == 0)  # noqa: E731
    event = first(play(130, time_step=taken, time_eval=lambda r: 40.0 if r % 15 == 0 else None), "P16")
    assert "every 10th step" in event.message and event.record <= 80


def test_every_tenth_step_is_that_after_a_restart_too() -> None:
    engine = play(0, time_step=tenth, reward_mean=learning)
    for record in range(1, 121):
        seen = {"time_step": tenth(record), "reward_mean": learning(record)}
        engine.observe(observation(record, seen, step=record if record < 66 else record - 24))
    (stands,) = [one for one in engine.verdicts if one.raised_by == "P16"]
    assert stands.headline.startswith("every 10th step takes")


def test_the_periodic_cost_ends() -> None:
    engine = play(100, time_step=lambda record: tenth(record) if record < 62 else noisy(30.0, 0.03)(record))
    assert first(engine, "P16")
    assert not [verdict for verdict in engine.verdicts if verdict.raised_by == "P16" and verdict.recovered_step is None]


def test_every_second_step_is_named_from_the_first_record_on() -> None:
    for odd in (0, 1):
        engine = play(60, time_step=lambda r, odd=odd: tenth(r + odd, slow=120.0, every=2), reward_mean=learning)
        assert first(engine, "P16").message.startswith("every 2nd step takes ")
    # Twice the work takes twice the time, and steps that alone generate are another kind.
    longer = {"time_step": lambda r: tenth(r, slow=60.0, every=2), "total_tokens": lambda r: 2e6 if r % 2 == 0 else 1e6}
    assert not alarms(play(60, **longer), "P16")
    alone = lambda r: 90.0 if r % 2 == 0 else 0.0  # noqa: E731
    assert not alarms(play(60, time_step=lambda r: tenth(r, slow=120.0, every=2), time_gen=alone), "P16")


def test_the_longest_slow_step_is_named_also_after_an_evaluation() -> None:
    taken = lambda r: 36_000.0 if r == 41 else tenth(r)  # noqa: E731
    engine = play(70, time_step=taken, val_score=lambda r: 0.5 if r == 40 else None, reward_mean=learning)
    (verdict,) = [one for one in engine.verdicts if one.raised_by == "P16"]
    assert "; up to 10 h, step 41; " in verdict.headline


@each_row(
    "other",
    [
        {"time_save": lambda record: 240.0 if record % 10 == 0 else None},
        {"val_score": lambda record: 0.5 if record % 10 == 0 else None},
        {"val_score": lambda record: 0.5 if record % 10 == 9 else None},
        {"response_len_mean": lambda record: 300.0 if record % 10 == 0 else None},
        {"time_gen": lambda record: 240.0 if record % 10 == 0 else 0.0},
    ],
    ids=["checkpoint", "evaluation", "evaluation before", "only these have rollouts", "only these generate"],
)
def test_a_periodic_cost_that_is_explained_is_no_alarm(other: dict) -> None:
    assert not alarms(play(90, time_step=tenth, **other), "P16")


def test_slow_steps_at_odd_distances_are_not_periodic() -> None:
    odd = {12, 19, 31, 34, 50, 57, 71, 82}
    engine = play(90, time_step=lambda record: noisy(270.0 if record in odd else 30.0, 0.03)(record))
    assert first(engine, "P16").message.startswith(
        "3 of the last 20 steps took 8.85×: 45.2 % of the time (266 s, the rest 30.1 s)"
    )
    assert not [event for event in engine.events if event.raised_by == "P16" and "every" in event.message]


def test_a_small_periodic_cost_is_a_note() -> None:
    engine = play(90, time_step=lambda record: tenth(record, slow=120.0))
    assert not alarms(engine, "P16")
    assert next(event.level for event in engine.events if event.raised_by == "P16") is Level.INFO


def test_a_saturated_task_says_since_when_and_what_it_costs() -> None:
    engine = play(
        120,
        reward_mean=lambda record: min(1.0, 0.2 + record / 50),
        zero_std_frac=lambda record: 0.0 if record < 40 else 1.0,
        time_step=noisy(30.0),
    )
    (verdict,) = [one for one in engine.verdicts if one.raised_by == "G1"]
    assert verdict.level is Level.INFO
    assert verdict.since_step == 40
    assert "81.2 % of the step time of the last 100 records taught nothing" in verdict.headline


def falling_entropy(record: int) -> float:
    return noisy(max(0.15, 3.0 - record / 12), 0.03)(record)


SIGNS = {
    "length": {"response_len_mean": ramp(400, 40, 10, 40)},
    "one length": {"response_len_mean": noisy(400.0), "response_len_std": ramp(120, 2, 10, 40)},
}


@each_row("sign", SIGNS.values(), ids=SIGNS)
def test_entropy_spent_with_a_sign_of_a_hack_is_raised(sign: dict) -> None:
    engine = play(80, entropy=falling_entropy, reward_mean=ramp(0.2, 0.95, 5, 50, 0.03), **sign)
    assert "possible reward hack: " in first(engine, "E8").message


def test_entropy_spent_while_a_component_stays_at_nothing_is_raised() -> None:
    from rltop.rules.engine import Engine
    from tests.observations import identity, series

    engine = Engine(identity())
    reward = ramp(0.2, 0.95, 5, 50, 0.03)
    for one in series(80, entropy=falling_entropy, reward_mean=reward):
        parts = {"compilable": reward(one.record), "correctness": 0.003}
        engine.observe(one._replace(instances={"reward_component": parts}))
    assert "reward component correctness stayed at 0.003" in first(engine, "E8").message


def test_entropy_spent_on_a_reward_is_a_note() -> None:
    engine = play(
        80,
        entropy=falling_entropy,
        reward_mean=ramp(0.2, 0.95, 5, 50, 0.03),
        response_len_mean=noisy(300.0),
        val_score=lambda record: 0.3 + record / 200 if record % 10 == 0 else None,
    )
    assert not alarms(engine, "E8")
    (note,) = [event for event in engine.events if event.rule == "E8"]
    assert note.level is Level.INFO
    assert re.search(r"nats/token, reward 0\.2\d* → 0\.\d+ from the first records on$", note.message)


def test_a_solved_task_has_short_and_equal_completions() -> None:
    engine = play(
        80,
        entropy=falling_entropy,
        reward_mean=lambda record: min(1.0, 0.3 + record / 30),
        zero_std_frac=lambda record: min(1.0, record / 25),
        response_len_mean=ramp(200, 5, 5, 30),
        response_len_std=ramp(80, 0.1, 5, 30),
    )
    assert not alarms(engine, "E8")


def sparse(record: int) -> float:
    return -190.0 if record == 7 else -200.0


def test_a_run_that_never_leaves_the_lowest_reward_is_raised_and_ends() -> None:
    engine = play(150, Algorithm.PPO, reward_mean=sparse, entropy=noisy(1.09, 0.001))
    assert first(engine, "R21").record <= 120

    def late(record: int) -> float:
        return sparse(record) if record < 160 else noisy(-150.0)(record)

    engine = play(190, Algorithm.PPO, reward_mean=late, entropy=noisy(1.09, 0.001))
    assert not [verdict for verdict in engine.verdicts if verdict.raised_by == "R21" and verdict.recovered_step is None]


@each_row(
    "healthy",
    [
        {"reward_mean": sparse, "entropy": ramp(1.09, 0.6, 20, 150)},
        {"reward_mean": sparse},
        {"reward_mean": noisy(-200.0, 0.01), "entropy": noisy(1.09, 0.001)},
    ],
    ids=["entropy moves", "nothing else logged", "no floor, noise"],
)
def test_a_low_reward_alone_is_no_alarm(healthy: dict) -> None:
    assert not alarms(play(150, Algorithm.PPO, **healthy), "R21")


def test_a_reward_that_never_gets_far_from_its_floor_is_raised() -> None:
    """Episodes end at -10 on failure: means of a hundred are -10, -9.91, -9.82 from the first record to the last."""

    def near(record: int) -> float:
        return -10.0 + 0.09 * (record * 7 % 5)

    assert first(play(100, Algorithm.PPO, reward_mean=near), "R21")
    assert not alarms(play(100, Algorithm.PPO, reward_mean=lambda record: near(record) + record / 100), "R21")
    assert not alarms(play(100, Algorithm.PPO, reward_mean=lambda record: 20.0 + near(record)), "R21")


def test_p16_names_the_stage_in_which_a_slow_step_is_slow() -> None:
    def generation(record: int) -> float:
        return noisy(30.0, 0.04)(record) + (200.0 if record % 10 == 0 else 0.0)

    whole = lambda record: generation(record) + 10.0  # noqa: E731
    staged = lambda record: {"time_gen": generation(record), "time_update_actor": 10.0}  # noqa: E731
    event = first(play(90, time_step=whole, stages=staged), "P16")
    assert event.level is Level.WARN and event.message.endswith("; time_gen accounts for it")
    elsewhere = lambda record: {"time_gen": 30.0, "time_update_actor": 10.0}  # noqa: E731
    assert (
        "no checkpoint or evaluation accounts for it"
        in first(play(90, time_step=whole, stages=elsewhere), "P16").message
    )
    # A weight sync every ten steps is the setup of the run, whatever it costs.
    beside = {"timing_s/gen": 15.0, "timing_s/update_actor": 14.0}
    synced = lambda s: SHAPES["veRL"](s) | beside | {"timing_s/update_weights": max(0.1, s - 30.0)}  # noqa: E731
    told = [event for event in judged([synced(s) for s in slow_steps(10, 6.0, 0.01, 0)]) if event.raised_by == "P16"]
    assert [(event.level, event.message.endswith("; weight sync accounts for it")) for event in told] == [
        (Level.INFO, True)
    ]


def slow_steps(period: int, factor: float, jitter: float, of: int) -> list[float]:
    """Seconds of 400 steps: every so-many-th takes a multiple, among others of up to four sizes of run."""
    draw = random.Random(f"{period} {factor} {jitter} {of}")
    base = (30.0, 3.0, 480.0, 60.0)[of % 4]
    return [base * (factor if (n + of) % period == 0 else 1.0) * (1.0 + draw.gauss(0.0, jitter)) for n in range(1, 401)]


def test_p16_stands_while_every_so_many_th_step_is_slow_at_a_level_that_follows_the_time_lost() -> None:
    cases = itertools.product((5, 7, 10, 20), (1.5, 2.0, 2.5, 3.0, 5.0, 8.0), (0, 13))
    found = []
    for number, (period, factor, rhythm) in enumerate(cases):
        jitter = (0.02, 0.06)[(number + number // 2) % 2]
        evaluated = (lambda r, rhythm=rhythm: 0.5 if r % rhythm == 0 else None) if rhythm else None
        steps = slow_steps(period, factor, jitter, number)
        # All that is not ordinary is generation, of which now and then a step has hardly any.
        rest = 0.5 * min(steps)
        generated = [(0.1 if n % 33 == 0 else 1.0) * (one - rest) for n, one in enumerate(steps)]
        engine = play(400, time_step=steps, time_gen=generated, val_score=evaluated)
        told = [(event.state, event.level) for event in engine.events if event.raised_by == "P16"]
        case = f"every {period}th, {factor}×, noise {jitter}, evaluations {rhythm}: {told}"
        assert [state for state, _ in told].count(EventState.FIRING) <= 1, case
        assert {state for state, _ in told} <= {EventState.FIRING, EventState.ESCALATED}, case
        lost = (factor - 1.0) / (period + factor - 1.0)
        found.append((lost, told[-1][1] if told else Level.OK, case))
        assert lost < 0.1 or told, case
        assert lost < 0.28 or told[-1][1] is Level.WARN, case
    for lost, level, case in found:
        worse = [other for more, grade, other in found if more > lost + 0.03 and grade < level]
        assert not worse, f"{case}, but {worse}"


SHAPES = {
    "veRL": lambda s: {"timing_s/step": s, "timing_s/gen": 0.5 * s, "critic/score/mean": 0.5, "actor/grad_norm": 0.3},
    "TRL": lambda s: {"step_time": s, "reward": 0.5, "reward_std": 0.3, "grad_norm": 0.3, "num_tokens": 1e5},
    "plain": lambda s: {"time/step": s, "reward": 0.5, "loss": 0.1},
}


@each_row("shape", SHAPES.values(), ids=SHAPES)
def test_p16_tells_every_tenth_step_once_under_the_keys_of_trainers(shape: Callable[[float], dict]) -> None:
    for factor, level in ((2.5, Level.INFO), (5.0, Level.WARN)):
        told = [
            event for event in judged([shape(s) for s in slow_steps(10, factor, 0.03, 0)]) if event.raised_by == "P16"
        ]
        assert [(event.state, event.level) for event in told] == [(EventState.FIRING, level)]
        assert told[0].message.startswith("every 10th step takes ")
