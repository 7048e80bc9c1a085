"""Rules on what is being learned: each fires on its fault and keeps quiet in its traps."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from typing import Any

from observations import (
    alarms,
    every,
    first,
    identity,
    infos,
    judged,
    learning,
    noisy,
    observation,
    play,
    series,
    step_up,
)
from tables import each_row

from rltop.model import Algorithm, EventState, Level, NonFinite, VerdictState
from rltop.rules.engine import Engine

# -- L1, L1b, L2, L3 ---------------------------------------------------------------------------------------------


def test_l1_a_nan_gradient_is_critical_once_it_lasts() -> None:
    engine = play(40, grad_norm=lambda r: NonFinite.NAN if r >= 30 else 1.0, loss=0.5)
    assert [(event.record, event.level) for event in alarms(engine, "L1")] == [(30, Level.WARN), (34, Level.CRIT)]
    assert [event.message for event in alarms(engine, "L1")] == [
        "grad_norm is NaN at step 30",
        "grad_norm is NaN at steps 30–34",
    ]
    assert [one.headline for one in engine.verdicts if one.rule == "L1"] == ["grad_norm is NaN at steps 30–40"]
    again = play(24, loss=lambda r: NonFinite.NAN if r in {20, 21, 23, 24} else 0.5)
    assert [one.headline for one in again.verdicts if one.rule == "L1"] == [
        "loss is NaN at steps 20–24 (4 of 5 records)"
    ]


def test_l1_a_nan_in_every_second_record_is_as_bad_as_one_that_lasts() -> None:
    engine = play(60, grad_norm=lambda r: NonFinite.NAN if r >= 30 and r % 2 == 0 else 1.0, loss=0.5)
    assert [(event.record, event.level) for event in alarms(engine, "L1")] == [(30, Level.WARN), (38, Level.CRIT)]
    (verdict,) = [one for one in engine.verdicts if one.rule == "L1"]
    assert (verdict.headline, verdict.since_step) == ("grad_norm is NaN at steps 30–60 (16 of 31 records)", 30)
    apart = play(90, loss=lambda r: NonFinite.NAN if r in {20, 21} or r >= 80 else 0.5)
    assert [(one.headline, one.since_step) for one in apart.verdicts] == [("loss is NaN at steps 80–90", 80)]


def _nan(at: Iterable[int], name: str = "loss") -> dict[str, Any]:
    return {name: lambda record: NonFinite.NAN if record in set(at) else 0.5}


def test_l1_counts_from_its_start_where_a_nan_comes_and_goes() -> None:
    third = play(150, **_nan(range(1, 151, 3), "grad_norm"))
    again = play(120, **_nan([20, *range(30, 34), *range(40, 100), 110]))
    for engine in (third, again):
        (verdict,) = [one for one in engine.verdicts if one.rule == "L1"]
        told = [event.since_step for event in engine.events if event.rule == "L1"]
        assert f" at steps {verdict.since_step}–" in verdict.headline and told[-1] == verdict.since_step
    assert {event.since_step for event in third.events if event.rule == "L1"} == {1}
    (verdict,) = [one for one in third.verdicts if one.rule == "L1"]
    assert [(one.name, one.value) for one in verdict.evidence] == [("records with it", 50.0)]
    assert "(50 of 148 records)" in verdict.headline
    assert verdict.advice is not None and verdict.advice.text.endswith("becomes frequent or the reward falls")
    both = play(60, **_nan(range(31, 61, 2)), **_nan(range(32, 61, 2), "entropy"))
    (verdict,) = [one for one in both.verdicts if one.rule == "L1"]
    assert (verdict.headline, verdict.since_step) == ("entropy is NaN at steps 32–60 (15 of 29 records)", 31)


def test_l1_trap_fp16_overflows_in_the_first_steps_while_it_looks_for_its_scale() -> None:
    scaling = play(30, grad_norm=lambda r: NonFinite.POS_INF if r <= 3 else 1.0, loss=0.5)
    assert alarms(scaling) == []
    assert first(play(30, grad_norm=NonFinite.POS_INF, loss=0.5), "L1").record == 5


@each_row("metric", ["loss", "policy_loss", "reward_mean"])
def test_l1_a_nan_in_loss_or_reward_is_critical_at_once(metric: str) -> None:
    event = first(play(1, response_len_mean=300.0, **{metric: NonFinite.NAN}), "L1")
    assert (event.record, event.level) == (1, Level.CRIT)


def test_l1_names_the_other_bad_keys() -> None:
    engine = play(3, grad_norm=[1.0, 1.0, NonFinite.NAN], kl_ref=[0.1, 0.1, NonFinite.POS_INF], entropy=0.5)
    assert first(engine, "L1").message == "grad_norm is NaN at step 3 (also kl_ref)"


@each_row(("metric", "fires_at"), [("loss", 31), ("policy_loss", 31), ("entropy", 32), ("kl_ref", 32)])
def test_l1_trap_null_where_numbers_were_is_a_nan_that_the_writer_could_not_spell(metric: str, fires_at: int) -> None:
    engine = play(33, **{metric: [0.5] * 30 + [NonFinite.NULL] * 3})
    assert first(engine, "L1").record == fires_at


def test_l1_trap_a_key_that_was_always_null_is_not_a_nan() -> None:
    assert alarms(play(30, entropy=NonFinite.NULL, grad_norm=1.0)) == []


def test_l1_trap_null_loss_beside_a_null_learning_rate_is_a_row_without_an_update() -> None:
    row = [0.5] * 20 + [NonFinite.NULL] + [0.5] * 9 + [NonFinite.NULL] * 2
    assert alarms(play(32, loss=row, lr=row)) == []
    assert first(play(32, loss=[NonFinite.NAN if r is NonFinite.NULL else r for r in row], lr=row), "L1").record == 21


def test_l1_one_null_of_a_lesser_metric_is_forgiven() -> None:
    assert alarms(play(40, entropy=[0.5] * 20 + [NonFinite.NULL] + [0.5] * 19)) == []


def test_l1b_trap_nan_of_an_empty_batch_is_information() -> None:
    engine = play(30, reward_mean=[0.5] * 20 + [NonFinite.NAN] + [0.5] * 9, rollout_prob_corr=NonFinite.NAN)
    assert alarms(engine) == []
    assert "L1" in infos(engine)


def test_l1b_a_key_that_never_had_a_value_has_no_empty_batch() -> None:
    engine = play(30, reward_mean=0.5, num_trainable_parameters=NonFinite.NAN)
    assert "L1" not in infos(engine)


def test_l1b_a_reward_that_stays_undefined_is_critical() -> None:
    engine = play(30, reward_mean=[0.5] * 20 + [NonFinite.NULL] * 10, grad_norm=1.0)
    assert (first(engine, "L1").record, first(engine, "L1").level) == (23, Level.CRIT)


def test_l1b_what_is_infinite_is_no_mean_over_an_empty_batch() -> None:
    engine = play(30, reward_mean=0.5, val_score=[0.3] * 29 + [NonFinite.POS_INF])
    assert alarms(engine, "L1") == []
    assert [event.message for event in engine.events if event.rule == "L1"] == ["val_score undefined (+Inf): overflow"]


def test_l2_a_loss_of_zero_beside_a_nan_gradient_is_masked() -> None:
    engine = play(3, loss=[0.5, 0.0, 0.0], grad_norm=[1.0, NonFinite.NAN, NonFinite.NAN])
    assert first(engine, "L1").record == 2


def test_l2_trap_a_loss_of_zero_alone_is_normal_at_the_start_of_grpo() -> None:
    assert alarms(play(40, loss=0.0, grad_norm=noisy(0.5), reward_mean=noisy(0.5))) == []


def test_l3_no_gradient_although_rewards_differ() -> None:
    engine = play(20, grad_norm=0.0, reward_mean=noisy(0.5), reward_std=0.3, zero_std_frac=0.1, lr=1e-6)
    assert (first(engine, "L3").record, first(engine, "L3").level) == (5, Level.CRIT)


@each_row("muted", [{"zero_std_frac": 1.0}, {"reward_std": 0.0}, {"lr": 0.0}])
def test_l3_trap_no_gradient_is_right_where_nothing_differs_or_lr_is_zero(muted: dict) -> None:
    metrics = {"grad_norm": 0.0, "reward_mean": noisy(0.5), "reward_std": 0.3, "zero_std_frac": 0.1, "lr": 1e-6}
    assert alarms(play(20, **(metrics | muted)), "L3") == []


# -- L8, L9 ------------------------------------------------------------------------------------------------------


def test_l8_a_jump_is_a_fact_and_ten_times_above_everything_a_warning() -> None:
    drop = play(60, lr=[1e-4] * 30 + [2e-5] * 30)
    assert [(e.rule, e.state) for e in drop.events] == [("L8", EventState.FACT)]
    jump = play(60, lr=[1e-4] * 30 + [2e-2] * 30)
    assert (first(jump, "L8").record, first(jump, "L8").level) == (31, Level.WARN)
    assert jump.events[-1].state is EventState.SETTLED, "it has not come back"


def test_l8_trap_smooth_schedules_say_nothing() -> None:
    import math

    warm_up = [1e-6 * i / 20 for i in range(21)]
    cosine = [0.5e-6 * (1 + math.cos(math.pi * i / 100)) for i in range(101)]
    assert play(120, lr=[*warm_up, *cosine]).events == []
    every_tenth_step = [1e-5 * step / 200 for step in range(9, 200, 10)]
    to_nothing = [1e-5 * (1 - i / 40) for i in range(40)]
    assert play(60, lr=[*every_tenth_step, *to_nothing]).events == [], "both ends of a schedule in straight lines"
    assert play(20, lr=[1.1e-7, 5.6e-7, *[1e-6 + 5e-7 * i for i in range(18)]]).events == [], "first logged at step 1"


def test_l8_a_jump_from_a_rate_known_as_steady() -> None:
    held = play(20, lr=[1e-5, 1e-5, *[3e-5] * 18])
    assert [(e.rule, e.state, e.record) for e in held.events] == [("L8", EventState.FACT, 3)]


def test_l8_trap_a_schedule_that_restarts_is_a_fact_only() -> None:
    cycle = [1e-4 * (1 - i / 30) for i in range(30)]
    engine = play(90, lr=cycle * 3)
    assert alarms(engine) == []


def test_l9_a_rate_that_stays_zero() -> None:
    assert "L9" in infos(play(20, lr=0.0, grad_norm=1.0))
    assert [(one.rule, one.recovered_step) for one in play(400, lr=0.0, grad_norm=noisy(1.0)).verdicts] == [
        ("L9", None)
    ]
    assert first(play(20, lr=0.0, grad_norm=NonFinite.NAN), "L9").level is Level.CRIT
    never = first(play(60, lr=0.0, grad_norm=noisy(1.0)), "L9")
    assert (never.level, never.record, never.since_step) == (Level.WARN, 34, 1)
    assert never.message == "learning rate 0 on each of the first 34 records: no update changes a weight"
    # A console that rounds to four decimals may round the rate too; a warm-up may begin late.
    for decimals in (4, 6):
        assert alarms(play(60, lr=0.0, grad_norm=lambda r, d=decimals: round(noisy(1.0)(r), d)), "L9") == []
    decayed = play(130, lr=lambda r: max(0.0, 1e-6 * (1 - r / 100)), grad_norm=noisy(1.0))
    assert not [one for one in decayed.events if one.rule == "L9"]
    late = play(80, lr=lambda r: max(0, r - 40) * 1e-7, grad_norm=noisy(1.0))
    assert [one.recovered_step is not None for one in late.verdicts if one.rule == "L9"] in ([], [True])
    scaling = play(30, lr=lambda r: max(0, r - 4) * 1e-7, grad_norm=lambda r: NonFinite.NAN if r < 4 else 1.0, loss=0.5)
    assert alarms(scaling) == [], "the first steps of a warm-up from 0, while fp16 looks for its scale"


def test_l9_trap_the_first_record_of_a_warm_up_is_zero() -> None:
    assert play(20, lr=[0.0, *[1e-6] * 19], grad_norm=1.0).events == []


# -- O1, O2, O4, O5 ----------------------------------------------------------------------------------------------


def test_o2_a_norm_that_has_come_down_again_quotes_no_rise_of_before() -> None:
    back = lambda r: noisy(0.34 if r < 100 else 30.0 if r < 150 else 0.93)(r)  # noqa: E731
    assert alarms(play(300, grad_norm=back, reward_mean=noisy(0.3)), "O2") == []


def with_spikes(*at: int, height: float):
    return lambda record: height if record in at else noisy(1.0)(record)


def test_o1_trap_a_lone_spike_of_thirty_times_is_information() -> None:
    engine = play(60, grad_norm=with_spikes(40, height=31.0), loss=noisy(0.5))
    assert alarms(engine) == []
    assert "O1" in infos(engine)


@each_row("height", [80.0, 3_000.0])
def test_o1_a_lone_spike_is_a_note_where_the_reward_goes_on_as_before(height: float) -> None:
    engine = play(120, grad_norm=with_spikes(40, height=height), reward_mean=learning, loss=noisy(0.5))
    assert [(one.rule, one.record, one.level) for one in engine.events][:1] == [("O1", 40, Level.INFO)]
    assert alarms(engine) == []


@each_row("at", [(40, 41), (40, 47)])
def test_o1_a_huge_spike_that_lasts_or_comes_again_is_critical(at: tuple[int, int]) -> None:
    found = alarms(play(60, grad_norm=with_spikes(*at, height=80.0), reward_mean=learning), "O1")
    assert [(one.record, one.level) for one in found] == [(at[1], Level.CRIT)]


def test_o1_a_huge_factor_of_next_to_nothing_is_not() -> None:
    assert alarms(play(60, grad_norm=lambda r: 1e-3 if r == 40 else noisy(1e-6)(r))) == []


def test_o1_repetition_is_a_warning_and_large_repetition_critical() -> None:
    assert first(play(60, grad_norm=with_spikes(40, 43, 46, height=7.0)), "O1").level is Level.WARN
    assert first(play(60, grad_norm=with_spikes(40, 43, 46, height=15.0)), "O1").level is Level.CRIT


def test_o1_a_spike_with_a_loss_far_out_is_a_warning() -> None:
    engine = play(60, grad_norm=with_spikes(40, height=30.0), loss=lambda r: 0.05 if r == 40 else noisy(0.6, 0.05)(r))
    assert (first(engine, "O1").record, first(engine, "O1").level) == (40, Level.WARN)


def test_o1_trap_during_lr_warm_up_it_is_information() -> None:
    assert alarms(play(60, grad_norm=with_spikes(40, height=80.0), lr=lambda r: r * 1e-8)) == []


def test_o1_trap_a_solved_task_has_no_base() -> None:
    fading = lambda record: 1.0 if record < 20 else (0.9 if record % 17 == 0 else 1e-5)  # noqa: E731
    assert alarms(play(120, grad_norm=fading), "O1") == []


def test_o2_a_steady_climb() -> None:
    engine = play(150, grad_norm=lambda r: noisy(0.5 * 1.02**r)(r))
    assert first(engine, "O2").record <= 120
    assert alarms(play(150, Algorithm.REWARD, grad_norm=lambda r: noisy(0.5 * 1.02**r)(r)), "O2") == []


@each_row(
    "rise",
    [
        lambda r: 10 ** min(1.0, max(0, r - 100) / 100),
        lambda r: 100 ** min(1.0, max(0, r - 100) / 200),
        lambda r: 1 + 0.1 * max(0, min(r, 400) - 100),
        lambda r: 1 if r < 101 else 4,
    ],
)
def test_o2_a_rise_is_dated_where_it_began_and_stands_while_it_is_up(rise: Callable[[int], float]) -> None:
    for seed in range(2):
        engine = Engine(identity(names=("grad_norm", "reward_mean")))
        gradients, rewards = noisy(1.0, 0.2, seed), noisy(0.3, 0.1, seed + 9)
        dated = []
        rising = [0.3 * rise(r) * abs(gradients(r)) for r in range(1, 401)]
        for one in series(400, grad_norm=rising, reward_mean=rewards):
            engine.observe(one)
            dated += [each.since_step for each in engine.verdicts if each.rule == "O2"]
        assert dated and {90 <= each <= 135 for each in dated} == {True}, (seed, dated[0], dated[-1])
        assert dated == sorted(dated, reverse=True), seed
        assert engine.verdicts[0].state in {VerdictState.FIRING, VerdictState.SETTLED}, seed


def test_o2_a_step_to_another_level_is_told_however_blocks_on_either_side_are_ordered() -> None:
    for seed in range(4):
        gradients = noisy(1.0, 0.2, seed)
        stepped = [(0.3 if r < 145 else 1.2) * abs(gradients(r)) for r in range(1, 401)]
        told = alarms(play(400, grad_norm=stepped, reward_mean=noisy(0.3, 0.1, seed + 9)))
        assert {event.rule for event in told} <= {"O1", "O2"} and told, seed


@each_row(
    "start, double, reward, is_told",
    [
        (0.5, 100.0, 0.3, True),
        (0.5, 150.0, 0.3, True),
        (5.0, 120.0, 0.3, True),
        (0.02, 120.0, 0.3, False),  # below the norm to clip at
        (0.5, 150.0, None, False),  # the reward rises as well
        (0.5, 600.0, 0.3, False),
        (0.5, math.inf, 0.3, False),
    ],
)
def test_o2_a_rise_too_slow_for_a_hundred_records(start, double, reward, is_told) -> None:
    for seed in range(2):
        norm, flat = noisy(start, 0.2, seed), noisy(reward or 0.0, 0.1, seed + 9)
        rewards = flat if reward else lambda r: 0.1 + r / 1000 + flat(r)  # noqa: B023
        engine = play(620, grad_norm=lambda r: abs(norm(r)) * 2 ** (r / double), reward_mean=rewards)  # noqa: B023
        told = alarms(engine, "O2")
        assert bool(told) is is_told, seed
        assert all("500 records" in one.message and 100 <= one.since_step <= 250 for one in told), seed


def test_o4_the_gradient_goes_although_groups_differ() -> None:
    engine = play(80, grad_norm=lambda r: 1.0 if r < 50 else 1e-3, reward_mean=noisy(0.3, 0.2), zero_std_frac=0.2)
    assert first(engine, "O4").record <= 65
    solved = play(
        80, grad_norm=lambda r: 1.0 if r < 50 else 1e-3, reward_mean=lambda r: min(1.0, r / 40), zero_std_frac=0.95
    )
    assert alarms(solved, "O4") == []


def test_o5_a_loss_that_leaves_its_range_and_stays() -> None:
    assert first(play(60, loss=step_up(0.5, 5.0, 40)), "O5").level is Level.WARN
    assert first(play(60, loss=step_up(0.5, 500.0, 40)), "O5").level is Level.CRIT
    assert alarms(play(60, loss=lambda r: 5.0 if r == 40 else noisy(0.5)(r))) == []


def test_o5_trap_the_loss_of_policy_gradients_rises_and_changes_sign_freely() -> None:
    assert alarms(play(200, loss=lambda r: 0.0002 * r * (-1) ** r)) == []


def test_o5_a_kl_that_is_what_it_was_from_the_first_record_is_no_company() -> None:
    loss = [noisy(0.01, 0.5)(r) * (-1) ** r for r in range(60)] + [0.5] * 10 + [0.01] * 30
    others = {"reward_mean": noisy(0.5), "grad_norm": noisy(0.5)}
    assert alarms(play(100, policy_loss=loss, kl_ref=noisy(0.3, 0.05), **others), "O5") == []
    assert alarms(play(100, policy_loss=loss, kl_ref=step_up(0.3, 1.5, 60), **others), "O5") != []


# -- O6, O8, O9, O10 ---------------------------------------------------------------------------------------------


def test_o6_token_level() -> None:
    assert first(play(20, clip_frac=0.3), "O6").level is Level.WARN
    critical = first(play(20, clip_frac=0.5), "O6")
    assert (critical.level, critical.record) == (Level.CRIT, 4)
    assert first(play(60, clip_frac=step_up(0.001, 0.03, 40)), "O6").level is Level.WARN
    assert alarms(play(100, clip_frac=noisy(0.004, 0.3))) == []


def test_o6_trap_sequence_level_clipping_is_judged_against_its_own_start() -> None:
    assert alarms(play(100, clip_frac=noisy(0.15, 0.1), kl_old=1e-4)) == []
    assert first(play(100, clip_frac=step_up(0.15, 0.4, 60), kl_old=1e-4), "O6").level is Level.WARN


def test_o6_trap_embodied_policies_clip_a_quarter() -> None:
    assert alarms(play(60, Algorithm.EMBODIED, clip_frac=noisy(0.24, 0.1))) == []
    assert alarms(play(60, Algorithm.EMBODIED, clip_frac=0.4)) == []
    assert first(play(60, Algorithm.EMBODIED, clip_frac=0.4, kl_old=0.06), "O6").level is Level.WARN
    assert first(play(60, Algorithm.EMBODIED, clip_frac=0.9), "O6").level is Level.CRIT


def test_o6_trap_off_with_one_update_per_rollout() -> None:
    engine = play(20, clip_frac=0.3, kl_old=0.5, traits={"is_single_update": True})
    assert {"O6", "O9", "O10"}.isdisjoint(spec.id for spec in engine.active)
    assert alarms(engine) == []


def test_o6_trap_reuse_makes_a_saw_tooth() -> None:
    assert alarms(play(200, clip_frac=lambda r: (0.0, 0.004, 0.008, 0.012)[r % 4])) == []


def test_o9_by_estimator() -> None:
    assert first(play(10, kl_old=0.05), "O9").record == 2
    assert first(play(10, kl_old=0.3), "O9").level is Level.CRIT
    assert first(play(10, kl_old=-0.05, traits={"kl_is_signed": True}), "O9").level is Level.WARN


def test_o9_trap_the_first_step_of_a_small_ppo_run_is_wild() -> None:
    assert alarms(play(40, Algorithm.PPO, kl_old=lambda r: 0.327 if r == 1 else 0.001, clip_frac=0.003)) == []


def test_o9_trap_asynchronous_training_measures_against_the_rollout_policy() -> None:
    assert alarms(play(40, kl_old=0.05, traits={"is_async": True})) == []


@each_row("level", [0.5, 0.97, 1.0])
def test_o10_trap_a_ratio_that_reads_half_all_along_is_its_own_baseline(level: float) -> None:
    assert alarms(play(80, Algorithm.PPO, ratio_mean=noisy(level, 0.01))) == []
    assert first(play(80, Algorithm.PPO, ratio_mean=step_up(level, level * 1.3, 50, 0.01)), "O10").level is Level.WARN


# -- O11, O12, O13 -----------------------------------------------------------------------------------------------


def test_o11_ten_nats_per_token_are_critical_from_the_first_record_even_while_falling() -> None:
    garbage = [10833.0, 1678.0, 907.0, 1291.0, 65.0, 14.0, 5.1, 2.5, 1.06, 0.46, 0.32, 0.2]
    event = first(play(12, kl_ref=garbage), "O11")
    assert (event.record, event.level) == (2, Level.CRIT)
    assert first(play(12, kl_ref=noisy(30.0)), "O11").level is Level.WARN
    assert alarms(play(12, kl_ref=noisy(30.0)), "O11")[1].level is Level.CRIT


def test_o11_what_falls_by_itself_in_a_young_run_is_no_more_than_a_warning() -> None:
    falling = lambda r: [12.0, 4.5, 22.0, 65.0, 6.5, 1.2, 0.5, 1.4][r - 1] if r <= 8 else noisy(0.5)(r)  # noqa: E731
    engine = play(100, kl_ref=falling, reward_mean=learning)
    assert {one.level for one in alarms(engine, "O11")} == {Level.WARN}
    assert "O11" not in {one.rule for one in engine.verdicts}
    one_batch = lambda r: 197.0 if r == 60 else noisy(0.5)(r)  # noqa: E731
    assert alarms(play(100, kl_ref=one_batch, reward_mean=learning), "O11") == []


@each_row("name", ["kl", "mean_kl"])
def test_o11_hundreds_of_nats_at_once_are_too_much_under_any_name(name: str) -> None:
    kl = [0.0, 0.0, 170.0, 170.0, 213.0, 0.0, 170.0, 256.0, 170.0, 256.0]
    rows = [{"loss": 0.04 * one, "mean_reward": 20.0 + 7 * (k % 3), name: one} for k, one in enumerate(kl)]
    assert [(one.rule, one.level) for one in judged(rows) if one.is_alarm] == [("O11", Level.WARN)]
    summed = [{"loss": 0.5, "mean_reward": 20.0 + k, name: 2.0 + 0.5 * k} for k in range(200)]
    assert not [one.message for one in judged(summed) if one.is_alarm]


def test_o11_a_jump_counts_after_fifty_records() -> None:
    assert first(play(90, kl_ref=step_up(0.1, 0.8, 70)), "O11").level is Level.WARN
    assert first(play(90, kl_ref=step_up(0.1, 4.0, 70)), "O11").level is Level.CRIT


def test_o11_trap_kl_must_rise_from_zero_while_learning() -> None:
    assert alarms(play(200, kl_ref=lambda r: 0.25 * (1 - 0.97**r), reward_mean=lambda r: r / 200)) == []


def test_o11_trap_a_factor_of_six_hundred_of_nothing() -> None:
    assert alarms(play(90, kl_ref=step_up(5e-7, 3e-4, 70))) == []


def test_o11_trap_a_sum_over_the_sequence_has_lines_of_its_own() -> None:
    traits = {"kl_is_sequence_sum": True}
    assert alarms(play(90, Algorithm.PPO, traits=traits, kl_ref=noisy(11.0))) == []
    assert first(play(90, Algorithm.PPO, traits=traits, kl_ref=40.0), "O11").level is Level.WARN
    assert first(play(90, Algorithm.PPO, traits=traits, kl_ref=150.0), "O11").level is Level.CRIT


def test_o11_trap_no_reference_no_rule_and_ktos_kl_is_an_estimate() -> None:
    assert alarms(play(90, kl_ref=0.0)) == []
    assert alarms(play(90, Algorithm.KTO, kl_ref=40.0)) == []


def test_o12_drift_without_reward_is_a_warning() -> None:
    drifting = lambda record: 0.1 if record < 80 else 0.1 + 0.006 * (record - 80)  # noqa: E731
    assert first(play(200, kl_ref=drifting, reward_mean=noisy(0.5, 0.1)), "O12").level is Level.WARN
    assert alarms(play(200, kl_ref=drifting, reward_mean=lambda r: r / 200)) == []


@each_row("rate, fall", [(0.05, 0.006), (0.03, 0.003)])
def test_o12_a_kl_that_drifts_as_the_reward_falls_is_one_incident(rate: float, fall: float) -> None:
    for seed in range(3):
        engine = play(
            300,
            kl_ref=[noisy(0.02 * math.exp(min(4.0, max(0, r - 150) * rate)), 0.15, seed)(r) for r in range(1, 301)],
            reward_mean=[noisy(0.6, 0.05, seed)(r) - min(0.45, max(0, r - 150) * fall) for r in range(1, 301)],
        )
        verdicts = {one.raised_by: one for one in engine.verdicts}
        assert {"R1", "O12"} <= verdicts.keys(), seed
        assert verdicts["R1"].incident == verdicts["O12"].incident, seed
        assert 150 <= verdicts["R1"].since_step == verdicts["O12"].since_step < 200, seed


def test_o13_a_kl_that_stays_negative() -> None:
    assert first(play(20, kl_ref=-0.05), "O13").level is Level.WARN
    assert alarms(play(20, kl_ref=-0.245, traits={"kl_is_sequence_sum": True})) == []


# -- E1 to E4 ----------------------------------------------------------------------------------------------------


def test_e1_a_cliff() -> None:
    engine = play(60, entropy=[0.111] * 50 + [0.02, 0.008, 0.0015, 0.0015, *[0.001] * 6], reward_mean=noisy(0.4))
    event = first(engine, "E1")
    assert event.record == 52
    assert alarms(engine, "E1")[-1].level is Level.CRIT


def test_e1_trap_most_of_the_entropy_goes_on_a_healthy_run() -> None:
    assert alarms(play(435, entropy=lambda r: 0.5 * 0.9952**r + 0.01, reward_mean=lambda r: r / 435)) == []


def test_e1_trap_next_to_nothing_has_no_further_to_fall() -> None:
    assert alarms(play(60, entropy=lambda r: 0.004 if r < 40 else 0.0004, reward_mean=noisy(0.4))) == []


def test_e2_spent_too_fast_or_for_nothing() -> None:
    fast = play(60, entropy=lambda r: 3.0 * 0.93**r, reward_mean=lambda r: r / 60, zero_std_frac=0.0)
    assert first(fast, "E2").record <= 45
    slow = {"entropy": lambda r: 3.0 * 0.985**r, "reward_std": lambda r: 0.2 * 0.98**r}
    assert first(play(200, reward_mean=0.1, zero_std_frac=0.6, **slow), "E2").record <= 150
    assert alarms(play(200, reward_mean=lambda r: r / 200, zero_std_frac=0.6, **slow), "E2") == []


def test_e3_is_information_only() -> None:
    engine = play(40, entropy=0.018, reward_mean=noisy(0.46))
    assert alarms(engine) == []
    assert "E3" in infos(engine)


def test_e3_warns_of_a_run_that_is_collapsed_when_its_log_begins() -> None:
    collapsed = {"entropy": noisy(0.004), "grad_norm": noisy(0.1)}
    engine = play(60, reward_mean=noisy(0.01, 0.3), **collapsed)
    assert [(one.level, one.record) for one in alarms(engine, "E3")] == [(Level.WARN, 21)]
    (said,) = [one.headline for one in engine.verdicts if one.rule == "E3"]
    assert re.fullmatch(
        r"entropy 0\.00\d* nats/token and reward 0\.0\d*: samples are alike, and earn next to nothing", said
    )
    assert alarms(play(60, reward_mean=noisy(0.4, 0.1), reward_max=8.0, **collapsed), "E3"), "of 8"
    for healthy in (
        {"reward_mean": noisy(0.4)},
        {"reward_mean": lambda r: -1.0 + r / 60 + noisy(0.02)(r)},
        {"reward_mean": noisy(0.01, 20.0)},  # of both signs
        {"reward_mean": lambda r: 0.01 + r / 300 + noisy(0.005)(r)},
    ):
        assert alarms(play(60, **collapsed, **healthy), "E3") == []
    assert alarms(play(60, entropy=noisy(0.012), reward_mean=noisy(0.01, 0.3)), "E3") == []
    assert alarms(play(60, Algorithm.DISTILL, reward_mean=noisy(0.01, 0.3), **collapsed), "E3") == []


@each_row("metric", ["reward_mean", "reward_min"])
def test_e3_stands_after_one_reward_below_0(metric: str) -> None:
    rewards = {"reward_mean": noisy(0.01, 0.3), "reward_min": 0.0}
    rewards[metric] = lambda r: -0.3 if r == 80 else 0.01 * (metric == "reward_mean")
    engine = play(120, entropy=noisy(0.004), grad_norm=noisy(0.1), **rewards)
    assert [one.level for one in engine.verdicts if one.rule == "E3"] == [Level.WARN]


def test_e4_a_surge_says_what_follows_from_it_too() -> None:
    assert first(play(60, entropy=step_up(0.3, 0.9, 40)), "E4").level is Level.WARN
    after = {
        "clip_frac": step_up(0.002, 0.3, 50),
        "kl_old": step_up(0.001, 0.3, 50),
        "throughput": step_up(900, 300, 50),
    }
    spread = {"seqlen_mean": 6e4, "seqlen_balanced_max": step_up(6e4, 8e4, 50), "seqlen_balanced_min": 6e4}
    followed = play(90, entropy=step_up(0.3, 0.9, 40), **after, **spread)
    assert {one.rule for one in alarms(followed)} == {"E4"}
    assert {one.rule for one in alarms(play(90, **after, **spread))} == {"O6", "O9", "P3", "P8"}
    assert alarms(play(60, entropy=step_up(0.02, 0.06, 40))) == []


@each_row(
    "nats, other, algorithm, is_told",
    [
        (8.0, {"response_len_mean": 300.0}, "grpo", True),
        (11.5, {}, "ppo", True),
        (7.0, {"response_len_mean": 30.0}, "unknown", True),
        (4.3, {"response_len_mean": 300.0}, "grpo", False),
        (40.0, {"response_len_mean": 300.0}, "grpo", False),  # a sum over a completion
        (8.0, {"episode_len": 200.0}, "ppo", False),  # of an action with many dimensions
        (10.9, {}, "sft", False),  # training from scratch begins there
    ],
)
def test_e4_nearly_random_text_from_the_first_record_on(nats, other, algorithm, is_told) -> None:
    for count in (8, 120):
        engine = play(count, Algorithm(algorithm), entropy=noisy(nats, 0.01), reward_mean=noisy(0.1, 0.2, 7), **other)
        told = [(one.record <= 5, one.since_step) for one in alarms(engine, "E4")]
        assert told == ([(True, 1)] if is_told else [])


def test_e4_trap_a_sequence_sum_is_not_a_high_level() -> None:
    assert alarms(play(100, Algorithm.PPO, entropy=noisy(95.0))) == []


# -- mismatch, critic, preference, reward models, collapse ---------------------------------------------------------


def test_m1_level_trap_moe_is_judged_against_its_own_start() -> None:
    assert first(play(80, off_policy_kl=step_up(1e-3, 0.03, 50)), "M1").level is Level.WARN
    assert first(play(80, off_policy_kl=step_up(1e-3, 0.4, 50)), "M1").level is Level.CRIT
    moe = play(80, off_policy_kl=noisy(0.1, 0.2))
    assert alarms(moe) == []
    assert "M1" in infos(moe)
    assert alarms(play(80, off_policy_kl=lambda r: 0.02 * (-1) ** r)) == []


def test_m2_a_climb() -> None:
    assert first(play(100, off_policy_kl=lambda r: noisy(1e-3 * 1.03**r)(r)), "M2").record <= 100
    assert alarms(play(100, off_policy_kl=lambda r: 5e-3 if r % 20 == 0 else 1e-3)) == []


def test_c1_c3_wait_for_the_critic() -> None:
    traits = {"has_critic": True}
    start = lambda r: 16.0 if r < 10 else noisy(0.1)(r)  # noqa: E731
    assert (
        alarms(play(100, Algorithm.PPO, traits=traits, value_loss=start, explained_var=lambda r: -3 if r < 20 else 0.7))
        == []
    )
    blown = play(100, Algorithm.PPO, traits=traits, value_loss=lambda r: noisy(0.1)(r) if r < 60 else 30.0)
    assert first(blown, "C3").record == 62
    worse = play(100, Algorithm.PPO, traits=traits, explained_var=lambda r: 0.7 if r < 60 else -0.2)
    assert first(worse, "C1").record <= 75
    assert alarms(play(100, value_loss=lambda r: 0.1 if r < 60 else 30.0)) == []


def test_d1_trap_ln_two_is_where_dpo_starts() -> None:
    stuck = {"loss": noisy(0.6931, 0.001), "dpo_margin": 0.001, "lr": 1e-6}
    assert alarms(play(40, Algorithm.DPO, **stuck)) == []
    assert first(play(80, Algorithm.DPO, **stuck), "D1").record <= 60
    assert alarms(play(40, Algorithm.DPO, dpo_accuracy=lambda r: 0.0 if r == 1 else 0.6, loss=0.69)) == []


def test_d1_a_policy_that_is_exactly_its_reference_is_told_at_once() -> None:
    exact = {"loss": 0.6931471824645996, "dpo_margin": 0.0, "lr": lambda r: 5e-6 / r}
    assert first(play(14, Algorithm.DPO, **exact), "D1").record <= 12
    # Before the first update it is; while the rate rises updates may be too small; a console prints four decimals.
    moves = exact | {
        "loss": lambda r: 0.6931471824645996 if r < 5 else 0.69,
        "dpo_margin": lambda r: 0.0 if r < 5 else 0.01,
    }
    assert alarms(play(20, Algorithm.DPO, **moves)) == []
    assert alarms(play(14, Algorithm.DPO, **(exact | {"lr": lambda r: 1e-9 * r}))) == []
    assert alarms(play(20, Algorithm.DPO, **(exact | {"loss": 0.6931}))) == []


def test_d2_trap_no_evaluation_is_information() -> None:
    engine = play(40, Algorithm.DPO, dpo_accuracy=1.0)
    assert alarms(engine) == []
    assert "D2" in infos(engine)
    worse = play(80, Algorithm.DPO, dpo_accuracy=1.0, val_acc=every(10, [0.75, 0.82, 0.8, 0.78, 0.77]))
    assert first(worse, "D2").record >= 30


def test_d2_takes_an_evaluation_loss_that_rises_and_leaves_the_training_loss_behind() -> None:
    def run(evaluations: list[float]) -> Engine:
        return play(
            120,
            Algorithm.DPO,
            dpo_accuracy=lambda record: min(1.0, 0.5 + record / 60),
            loss=lambda record: max(0.02, 0.69 - record / 50),
            val_loss=lambda record: evaluations[record // 20] if record % 20 == 0 else None,
        )

    assert "D2" in {event.rule for event in alarms(run([0.69, 0.5, 0.45, 0.5, 0.55, 0.6, 0.65]))}
    assert "D2" not in {event.rule for event in alarms(run([0.69, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25]))}
    assert "D2" not in {event.rule for event in alarms(run([0.03, 0.025, 0.02, 0.021, 0.022, 0.022, 0.022]))}


def test_d5_trap_negative_chosen_rewards_are_normal() -> None:
    engine = play(
        100, Algorithm.DPO, dpo_chosen=lambda r: -r / 50, dpo_margin=lambda r: r / 50, logps_chosen=noisy(-45, 0.03)
    )
    assert alarms(engine) == []
    assert first(play(100, Algorithm.DPO, logps_chosen=step_up(-45, -65, 60)), "D5").record <= 80


def test_a_value_loss_beyond_the_variance_of_returns_is_raised_whatever_variance_is_explained() -> None:
    holds = {"explained_var": noisy(0.7), "reward_mean": noisy(0.5)}
    loss = step_up(0.04, 1.6, 60)
    assert first(play(120, Algorithm.PPO, traits={"has_critic": True}, value_loss=loss, **holds), "C3").record <= 65
    wide = holds | {"reward_mean": noisy(0.5, 1.0), "reward_std": 2.0}
    assert alarms(play(120, Algorithm.PPO, traits={"has_critic": True}, value_loss=loss, **wide), "C3") == []


def test_inverted_margin() -> None:
    assert first(play(100, Algorithm.DPO, dpo_margin=-0.1), "D8").record == 60
    event = first(play(100, Algorithm.DPO, dpo_margin=-0.3), "D8")
    assert (event.record, event.since_step) == (24, 1)


def test_pairs_inverted_from_the_start_are_one_alert() -> None:
    for seed in range(4):
        batches = [[noisy(1.0, 0.5, seed * 9 + i)(r) - 1.0 - 0.02 * r for i in range(8)] for r in range(1, 201)]
        margins = [sum(batch) / 8 for batch in batches]
        losses = [sum(math.log1p(math.exp(-one)) for one in batch) / 8 for batch in batches]
        engine = play(200, Algorithm.DPO, dpo_margin=[0.0, *margins], loss=[math.log(2.0), *losses])
        (event,) = alarms(engine)
        assert (event.rule, event.record <= 40, event.since_step <= 20) == ("D8", True, True), seed
    # A loss that explodes is more than its margin costs.
    wild = play(60, Algorithm.DPO, loss=lambda r: math.log(2.0) if r == 1 else noisy(9.0, 0.1)(r), dpo_margin=-2.0)
    assert first(wild, "O5").record <= 9


def test_d7_trap_tiny_batches_of_pairs_jump() -> None:
    import random

    source = random.Random(3)
    accuracy = [source.choice([0.5, 0.5, 1.0]) for _ in range(100)]
    loss = [source.choice([0.4, 0.7, 1.2]) for _ in range(100)]
    assert alarms(play(100, Algorithm.DPO, dpo_accuracy=accuracy, loss=loss, grad_norm=noisy(1, 0.5))) == []


def test_a_reward_model_of_which_only_the_loss_is_logged_stays_at_chance() -> None:
    at_chance = first(play(150, Algorithm.REWARD, loss=noisy(0.6931, 0.003), lr=1e-5), "D1")
    assert at_chance.record <= 60 and "margin" not in at_chance.message
    slow = play(300, Algorithm.REWARD, loss=lambda r: noisy(0.6931 - 0.0004 * r, 0.03)(r), lr=1e-5)
    assert alarms(slow) == []


def test_rm_rules() -> None:
    chance = play(260, Algorithm.REWARD, rm_accuracy=noisy(0.5, 0.1), rm_margin=noisy(0.001, 1.0), lr=1e-4)
    assert first(chance, "RM2").record <= 35
    (verdict,) = (one for one in chance.verdicts if one.raised_by == "RM2")
    assert verdict.evidence[0].name == "rm_margin"
    told = first(play(260, Algorithm.REWARD, rm_accuracy=noisy(0.5, 0.1), lr=1e-4), "RM2")
    assert told.record <= 210
    assert "accuracy" in told.message
    warming = play(60, Algorithm.REWARD, rm_margin=0.001, lr=lambda r: r * 1e-7)
    assert alarms(warming) == []
    human = play(
        260, Algorithm.REWARD, rm_accuracy=noisy(0.65, 0.1), rm_margin=lambda r: noisy(r / 300, 0.3)(r), lr=1e-4
    )
    assert alarms(human) == []


def test_x1_several_families_at_once_are_a_collapse() -> None:
    collapse = play(
        80,
        entropy=[0.111] * 60 + [0.0015] * 20,
        reward_mean=lambda r: noisy(0.5)(r) if r <= 60 else 0.01,
        response_len_mean=step_up(1100, 7800, 61),
    )
    event = first(collapse, "X1")
    assert 61 < event.record <= 66
    assert "entropy" in event.message
    assert alarms(play(80, entropy=[0.111] * 60 + [0.0015] * 20, reward_mean=noisy(0.5)), "X1") == []


def test_a_generic_stream_is_given_the_rules_whose_metrics_it_logs() -> None:
    engine = Engine(identity(Algorithm.UNKNOWN))
    for one in series(10, loss=[1.0] * 9 + [NonFinite.NAN], truncated_frac=0.6):
        engine.observe(one)
    assert {e.rule for e in alarms(engine)} == {"T1", "L1"}


def test_the_scary_single_events_of_healthy_runs_stay_information() -> None:
    engine = Engine(identity(Algorithm.PPO, has_critic=True))
    for record in range(1, 436):
        engine.observe(
            observation(
                record,
                {
                    "grad_norm": 65.96 if record == 16 else noisy(2.3, 0.3)(record),
                    "grad_norm_critic": 950.0 if record < 5 else 20.0,
                    "value_loss": 14.0 if record < 5 else noisy(0.1, 0.2)(record),
                    "entropy": 0.526 * 0.9952**record + 0.005,
                    "score_mean": noisy(0.567 * (1 - 0.98**record), 0.03)(record),
                    "kl_old": noisy(1e-4, 0.5)(record),
                    "clip_frac": abs(noisy(0.003, 0.4)(record)),
                    "time_step": noisy(40, 0.08)(record),
                    "response_len_mean": noisy(313 - record / 10, 0.03)(record),
                },
            )
        )
    assert alarms(engine) == []
    assert "O1" in infos(engine)


# -- O20 ----------------------------------------------------------------------------------------------------------


@each_row("metric", ["loss", "policy_loss"])
def test_o20_one_absurd_loss_whatever_the_trainer_calls_it(metric: str) -> None:
    engine = play(60, reward_mean=noisy(0.5), **{metric: lambda r: 5e8 if r == 30 else noisy(0.1)(r)})
    assert first(engine, "O20").record == 30
