"""Rewards, groups, evaluations and lengths: what fires, when, and the traps."""

from __future__ import annotations

import math
import random

from observations import alarms, every, first, identity, infos, learning, noisy, observation, play, series, step_up
from tables import each_row

from rltop.model import Algorithm, EventState, Level
from rltop.rules.engine import Engine

# -- R1, R2, R8, G1 -----------------------------------------------------------------------------------------


def test_r1_a_crash_within_five_records() -> None:
    event = first(play(90, reward_mean=lambda r: learning(r) if r < 70 else 0.02), "R1")
    assert 70 <= event.record <= 74
    assert event.level is Level.CRIT


def test_r1_dips_that_a_return_has_come_back_from_are_its_noise_and_what_stays_down_is_not() -> None:
    for seed in range(3):
        draw = random.Random(seed)
        returns: list[float] = []
        while len(returns) < 1000:
            for part, records in ((1.0, draw.randint(40, 80)), (draw.uniform(0.35, 0.5), draw.randint(5, 15))):
                grown = 4000.0 * (1.0 - math.exp(-(len(returns) + 20) / 300))
                returns += [part * grown * draw.gauss(1.0, 0.1) for _ in range(records)]
        returns = returns[:1000] + [300.0 * draw.gauss(1.0, 0.1) for _ in range(60)]
        engine = Engine(identity(Algorithm.SAC, names=["reward_mean"]))
        for one in series(len(returns), reward_mean=returns):
            engine.observe(one)
        told = [event for event in engine.events if event.rule == "R1" and event.state is EventState.FIRING]
        assert len([event for event in told if event.record < 1000]) <= 5, seed
        (verdict,) = [one for one in engine.verdicts if one.rule == "R1"]
        assert verdict.level is not Level.INFO and 990 <= verdict.since_step <= 1008, seed


def test_r1_an_early_crash_needs_more() -> None:
    crash = [0.25, 0.24, 0.26, 0.25, 0.25, 0.24, 0.26, 0.25, 0.25, 0.24, 0.25, 0.02, 0.01, 0.0, 0.0]
    assert first(play(15, reward_mean=crash), "R1").record <= 14


class Compared(float):
    """A number that counts how often it is compared."""

    times = 0

    def __lt__(self, other: object) -> bool:
        Compared.times += 1
        return float.__lt__(self, other)  # type: ignore[operator]


def test_r1_works_no_harder_the_longer_a_reward_stays_a_little_lower() -> None:
    """It took 35 s for 20,000 records: all that were below were put in order again at each."""
    engine, spent = Engine(identity()), []
    for record in range(1, 2_001):
        value = (0.009 * min(record, 100) if record < 300 else 0.8) + 0.0003 * (record * 7919 % 97)
        Compared.times = 0
        engine.observe(observation(record, {})._replace(values={"score_mean": Compared(value)}))
        spent.append(Compared.times)
    assert max(spent[-100:]) < 2 * max(spent[400:500])


def test_r1_trap_distillation_logs_a_constant_zero() -> None:
    metrics = {"reward_mean": 0.0, "zero_std_frac": 1.0, "reward_std": 0.0, "reward_max": 0.0, "reward_min": 0.0}
    assert alarms(play(60, **metrics)) == []
    assert alarms(play(60, Algorithm.DISTILL, **metrics)) == []


def test_r1_trap_a_reward_of_nothing_that_never_rose_has_no_range_to_lose() -> None:
    assert alarms(play(120, score_mean=[0.0] * 60 + [-0.0112] * 60), "R1") == []
    assert alarms(play(120, score_mean=lambda n: noisy(0.0003, 3.0)(n) if n < 60 else -0.0112), "R1") == []
    assert alarms(play(120, score_mean=[0.0] * 60 + [-1.0] * 60), "R1")
    # It had risen: what it loses is what it had learned.
    assert alarms(play(120, score_mean=[0.0005 * min(n, 60) for n in range(70)] + [0.0] * 50), "R1")


def test_r1_one_record_after_a_recovery_is_no_new_alarm() -> None:
    reward = [0.8 + 0.02 * (n % 3) for n in range(100)] + [0.1] * 15 + [0.8 + 0.02 * (n % 3) for n in range(85)]
    reward[150] = 0.1
    assert len(alarms(play(200, reward_mean=reward), "R1")) == 1


def test_r6_one_bad_evaluation_of_a_solved_task_is_no_alarm() -> None:
    scores = [min(0.97, 0.4 + n / 100) if n % 10 == 0 else None for n in range(1, 201)]
    scores[149] = 0.55
    assert alarms(play(200, reward_mean=lambda n: min(0.98, 0.3 + n / 60), zero_std_frac=0.65, val_score=scores)) == []


def test_r2_every_sample_scores_the_same() -> None:
    def run(score: float) -> Engine:
        return play(
            60,
            reward_mean=lambda r: noisy(0.5, 0.3)(r) if r < 40 else score,
            reward_max=lambda r: 1.0 if r < 40 else score,
            reward_min=lambda r: 0.0 if r < 40 else score,
        )

    assert (first(run(0.4), "R2").record, first(run(0.4), "R2").level) == (43, Level.WARN)
    assert [event.rule for event in alarms(run(-3.0))] == ["R1"], "a reward that is lost says it all"


def test_r2_the_mean_is_at_its_top_where_single_completions_have_earned_far_more() -> None:
    def run(highest: float) -> Engine:
        return play(
            60,
            reward_mean=lambda r: max(-2.0, -1.0 - 0.5**r) if r < 20 else -1.0,
            reward_max=lambda r: highest if r < 20 else -1.0,
            reward_min=lambda r: -19.0 if r < 20 else -1.0,
        )

    assert first(run(-0.5), "R2").record <= 30
    assert alarms(run(-0.99), "R2") == []


def test_t3_shorter_and_better_is_suspicious() -> None:
    engine = play(80, reward_mean=lambda r: 0.5 + r / 200, response_len_mean=lambda r: 388 * 0.97**r)
    assert first(engine, "T3").record <= 60
    assert alarms(play(80, reward_mean=lambda r: 0.5 + r / 200, response_len_mean=lambda r: 313 - r / 2)) == []


def test_r11_trap_a_quarter_of_the_steps_without_spread_is_ordinary() -> None:
    engine = play(250, reward_std=lambda r: 0.0 if r % 4 == 0 else 0.4, reward_mean=noisy(0.4, 0.3))
    assert alarms(engine) == []


def test_g1_flat_groups() -> None:
    engine = play(
        80, zero_std_frac=lambda r: 0.1 if r < 40 else 1.0, reward_mean=lambda r: learning(r) if r < 40 else 0.0
    )
    event = first(engine, "G1")
    assert (event.record, event.level) == (44, Level.CRIT)


def test_g1_a_deviation_of_rounding_counts_as_none() -> None:
    engine = play(80, reward_std=lambda r: 0.2 if r < 40 else 3e-8, zero_std_frac=0.0, reward_mean=noisy(0.4, 0.1))
    assert first(engine, "G1").record <= 55


def test_g1_trap_a_solved_task_is_information() -> None:
    engine = play(80, zero_std_frac=lambda r: min(1.0, r / 30), reward_mean=lambda r: min(1.0, r / 30))
    assert alarms(engine) == []
    assert "G1" in infos(engine)


def test_g1_trap_constant_since_the_start() -> None:
    assert alarms(play(60, zero_std_frac=1.0, reward_mean=0.0)) == []


def test_g1_does_not_apply_to_ppo() -> None:
    assert "G1" not in {spec.id for spec in Engine(identity(Algorithm.PPO)).active}


# -- R6, D3 ------------------------------------------------------------------------------------------------------


def test_r6_two_evaluations_below_the_best() -> None:
    engine = play(80, val_score=every(10, [0.3, 0.45, 0.55, 0.58, 0.57, 0.4, 0.39, 0.38]), reward_mean=lambda r: r / 80)
    event = first(engine, "R5")
    assert event.record == 70
    assert "while training reward holds or rises" in event.message


def test_r6_trap_one_bad_evaluation_is_luck() -> None:
    assert alarms(play(80, val_score=every(10, [0.3, 0.45, 0.55, 0.58, 0.40, 0.57, 0.58, 0.59]))) == []


def test_d3_evaluation_loss_rises_while_training_loss_falls() -> None:
    losses = {"loss": lambda r: 0.69 * 0.99**r, "val_loss": every(10, [0.65, 0.6, 0.58, 0.57, 0.63, 0.7, 0.8])}
    assert first(play(80, Algorithm.DPO, **losses), "D3").record == 60
    assert alarms(play(80, Algorithm.GRPO, **losses), "D3") == []


def test_d3_needs_one_evaluation_where_the_training_loss_has_left_it_behind() -> None:
    evaluated = {20: 0.60, 40: 0.72}
    apart = {"loss": lambda r: 0.69 * 0.97**r, "val_loss": evaluated.get}
    assert first(play(50, Algorithm.DPO, **apart), "D3").record == 40
    near = apart | {"loss": lambda r: 0.69 - 0.004 * r}
    assert alarms(play(50, Algorithm.DPO, **near), "D3") == []
    always_apart = apart | {"loss": lambda r: 0.1 - 0.0001 * r}
    assert alarms(play(50, Algorithm.DPO, **always_apart), "D3") == []


def test_d3_takes_three_evaluations_in_a_row_for_more_than_the_noise_of_a_falling_loss() -> None:
    losses = {"loss": lambda r: 0.6 * 0.98**r, "val_loss": every(10, [0.40, 0.40, 0.49, 0.34, 0.25, 0.32, 0.31, 0.32])}
    assert first(play(100, Algorithm.DPO, **losses), "D3").record == 80
    swings = losses | {"val_loss": every(10, [0.40, 0.40, 0.49, 0.34, 0.25, 0.32, 0.25, 0.32, 0.25])}
    assert alarms(play(100, Algorithm.DPO, **swings), "D3") == []


# -- T1 to T5 ----------------------------------------------------------------------------------------------------


def test_t1_levels() -> None:
    assert first(play(20, truncated_frac=0.6), "T1").level is Level.WARN
    assert first(play(60, truncated_frac=lambda r: 0.15 if r < 40 else 0.27), "T1").record == 44
    since_the_start = play(60, truncated_frac=noisy(0.31))
    assert alarms(since_the_start) == []
    assert "T1" in infos(since_the_start)
    dead = first(play(20, truncated_frac=0.98, reward_mean=noisy(0.02, 0.5)), "T1")
    assert (dead.level, dead.record) == (Level.CRIT, 3)
    risen = first(play(60, truncated_frac=lambda r: 0.0 if r < 40 else 0.125), "T1")
    assert (risen.level, risen.record) == (Level.WARN, 44)


def test_t1_trap_a_batch_of_a_few_prompts_swings_by_more_than_the_rise() -> None:
    shares = [0.39, 0.33, 0.07, 0.52, 0.25, 0.19, 0.53, 0.5, 0.35, 0.19, 0.34, 0.44]
    swinging = play(72, truncated_frac=lambda r: min(0.5, shares[r % 12] * (1.0 if r < 36 else 1.15)))
    assert alarms(swinging, "T1") == []


def test_t1_trap_a_run_that_learns_at_the_cap_is_never_critical() -> None:
    engine = play(60, truncated_frac=1.0, reward_mean=lambda r: 0.1 + r / 100)
    assert {e.level for e in alarms(engine, "T1") if e.record > 10} <= {Level.WARN}


def test_t2_and_t3() -> None:
    explosion = play(60, response_len_mean=step_up(1100, 7800, 40), truncated_frac=lambda r: 0.01 if r < 40 else 0.8)
    assert (first(explosion, "T2").record, first(explosion, "T2").level) == (42, Level.CRIT)
    collapse = play(60, response_len_mean=[1128.0] * 20 + [171.0] * 20 + [6.0] * 20)
    assert (first(collapse, "T3").record, first(collapse, "T3").level) == (23, Level.WARN)
    assert alarms(collapse, "T3")[-1].level is Level.CRIT


@each_row("seed", [1, 2, 3, 4])
def test_t2_trap_the_mean_of_a_few_completions_doubles_by_itself(seed: int) -> None:
    draw = random.Random(seed)
    lengths = [60.0 * math.exp(draw.gauss(0.0, 0.6)) for _ in range(300)]
    cut = [0.25 if length > 110.0 else 0.0 for length in lengths]
    few = play(300, response_len_mean=lengths, truncated_frac=cut)
    assert {event.level for event in alarms(few, "T2")} <= {Level.WARN}
    exploded = play(310, response_len_mean=[*lengths, *[900.0] * 10], truncated_frac=[*cut, *[0.9] * 10])
    assert alarms(exploded, "T2")[-1].level is Level.CRIT


@each_row(
    ("longer", "cut", "level"),
    [(45.0, 0.02, Level.INFO), (45.0, 0.3, Level.CRIT), (45.0, None, Level.WARN), (400.0, 0.02, Level.WARN)],
)
def test_t2_short_answers_that_double_and_end_are_no_alarm(longer: float, cut: float | None, level: Level) -> None:
    metrics = {} if cut is None else {"truncated_frac": cut}
    engine = play(70, response_len_mean=lambda r: noisy(14.0 if r < 50 else longer)(r), **metrics)
    assert next(event.level for event in engine.events if event.rule == "T2") is level


def test_t2_t3_trap_lengths_that_move_slowly_are_learning() -> None:
    assert alarms(play(300, response_len_mean=lambda r: noisy(300 + r)(r))) == []


@each_row("seed", [1, 2, 3, 4])
def test_r1_a_young_run_that_rose_at_one_jump_and_fell_for_good_has_crashed(seed: int) -> None:
    draw = random.Random(seed)
    fell = draw.randrange(22, 28)
    versions = lambda r: -10.0 if r < 9 else 0.1 if r < 17 else 0.7 if r < fell else -5.0  # noqa: E731
    assert first(play(120, reward_mean=versions), "R1").record < 70
    noise = [draw.gauss(0.0, 0.7) for _ in range(120)]
    assert first(play(120, reward_mean=lambda r: versions(r) + noise[r - 1]), "R1")
    # What comes back within twenty records has not, nor has noise that only seemed to rise.
    back = lambda r: versions(r if r < fell + 20 else fell - 1)  # noqa: E731
    assert alarms(play(120, reward_mean=back), "R1") == []
    assert alarms(play(120, reward_mean=lambda r: noise[r - 1])) == []


def _autocorrelated(seed: int, rho: float) -> list[float]:
    """400 values of a stationary AR(1) process of mean 0 and deviation 1."""
    draw = random.Random(seed)
    values = [draw.gauss(0.0, 1.0)]
    while len(values) < 400:
        values.append(rho * values[-1] + math.sqrt(1.0 - rho * rho) * draw.gauss(0.0, 1.0))
    return values


@each_row("rho, most", [(0.3, 1), (0.5, 1), (0.8, 4)])
def test_r1_an_autocorrelated_reward_swings_by_itself(rho: float, most: int) -> None:
    swinging = [[0.5 + 0.1 * one for one in _autocorrelated(seed, rho)] for seed in range(12)]
    assert sum(bool(alarms(play(400, reward_mean=one), "R1")) for one in swinging) <= most


@each_row("rho", [0.0, 0.3, 0.5, 0.8])
def test_r1_an_autocorrelated_reward_that_falls_has_crashed(rho: float) -> None:
    for seed in range(6):
        noise = _autocorrelated(seed, rho)
        fallen = [0.1 + 0.7 * min(1.0, i / 150) if i < 250 else 0.3 for i in range(400)]
        rewards = [level + 0.05 * one for level, one in zip(fallen, noise, strict=True)]
        assert any(250 < one.record < 260 for one in alarms(play(400, reward_mean=rewards), "R1")), seed


def test_r1_a_second_crash_is_dated_by_its_first_record() -> None:
    fallen = {*range(150, 170), *range(190, 261)}
    engine = play(280, reward_mean=lambda r: 0.03 if r in fallen else noisy(min(0.6, 0.2 + 0.4 * r / 150), 0.04)(r))
    begun = [one for one in engine.events if one.rule == "R1" and one.state.value in {"firing", "resumed"}]
    assert [(one.record, one.since_step) for one in begun] == [(152, 150), (192, 190)]
