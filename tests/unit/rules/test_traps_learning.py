"""What healthy runs do that looks like a fault, numbered as the traps are; none of it may raise an alarm."""

from __future__ import annotations

import math
import random

from observations import alarms, first, infos, learning, noisy, play

from rltop.model import Algorithm, Level, NonFinite
from rltop.trainers.identify import identify


def test_trap_3_records_that_reuse_a_rollout_alternate_with_records_that_make_one() -> None:
    def on_generation(value):  # type: ignore[no-untyped-def]
        return lambda r: noisy(value)(r) if r % 2 else None

    engine = play(
        200,
        time_step=lambda r: noisy(238.0 if r % 2 else 22.0)(r),
        clip_frac=lambda r: 0.0 if r % 2 else 0.012,
        reward_mean=on_generation(0.5),
        response_len_mean=on_generation(400.0),
        loss=lambda r: noisy(0.0 if r % 2 else 0.02)(r),
        grad_norm=lambda r: noisy(0.3 if r % 2 else 0.6)(r),
    )
    assert alarms(engine) == []


def test_trap_4_the_loss_of_a_policy_gradient_starts_at_zero_and_rises() -> None:
    rising = lambda r: noisy(4e-4 * r, 0.1)(r)  # noqa: E731
    assert alarms(play(300, loss=lambda r: 0.0 if r < 5 else rising(r), reward_mean=lambda r: r / 300)) == []
    signs = random.Random(4)
    assert alarms(play(300, policy_loss=[signs.gauss(0.0, 0.06) for _ in range(300)])) == []


def test_trap_5_no_reference_no_alarm() -> None:
    assert alarms(play(200, kl_ref=0.0, lr=1e-6, reward_mean=noisy(0.3))) == []
    assert alarms(play(200, reward_mean=noisy(0.3), lr=1e-6)) == []


def test_trap_6_signed_estimates_are_noise_around_zero_and_k3_has_a_heavy_tail() -> None:
    source = random.Random(6)
    signed = [source.gauss(0.0, 0.012) for _ in range(400)]
    assert alarms(play(400, kl_old=signed, traits={"kl_is_signed": True})) == []
    tail = [0.02 * math.exp(source.gauss(0.0, 0.5)) * (40.0 if source.random() < 0.01 else 1.0) for _ in range(400)]
    assert alarms(play(400, kl_ref=tail, reward_mean=noisy(0.4))) == []
    source = random.Random(2)
    noise = [source.gauss(0.0, 0.014) for _ in range(300)]
    assert max(noise) > 0.03
    assert alarms(play(300, kl_old=noise, traits={"kl_is_signed": True})) == []


def test_trap_8_the_reward_contains_the_penalty_the_score_does_not() -> None:
    engine = play(
        300, Algorithm.PPO, score_mean=lambda r: noisy(0.2 + r / 500)(r), reward_mean=lambda r: 0.4 - 0.004 * r
    )
    assert alarms(engine) == []
    engine = play(90, Algorithm.PPO, score_mean=learning, reward_mean=lambda r: learning(r) - 0.02 * r)
    assert alarms(engine) == []


def test_trap_9_an_entropy_that_is_a_sum_is_judged_by_its_changes_only() -> None:
    engine = play(120, Algorithm.PPO, entropy=noisy(98.0, 0.04))
    assert alarms(engine) == []
    assert first(play(120, Algorithm.PPO, entropy=lambda r: noisy(98.0 if r < 60 else 9.0)(r)), "E1").record == 61


def test_trap_10_the_longest_answer_is_at_the_cap_on_nearly_every_step() -> None:
    engine = play(200, response_len_max=1024.0, response_len_mean=noisy(310.0), truncated_frac=0.001)
    assert alarms(engine) == []
    assert play(100, response_len_mean=noisy(900.0), response_len_max=4096.0, truncated_frac=0.001).events == []


def test_trap_11_none_that_ended_is_not_a_length_of_zero() -> None:
    assert alarms(play(60, terminated_len_mean=0.0, response_len_mean=128.0, reward_mean=noisy(0.2)), "T3") == []
    assert alarms(play(60, terminated_len_mean=0.0, response_len_mean=128.0, reward_mean=noisy(0.2)), "T9") == []
    assert alarms(play(40, terminated_len_mean=0.0, response_len_mean=noisy(96.0))) == []


def test_trap_12_the_mean_without_aborted_answers_is_what_counts() -> None:
    engine = play(80, response_len_mean=noisy(500.0), response_len_min=0.0, aborted_frac=noisy(0.02))
    assert alarms(engine) == []
    verl = ["actor/pg_loss", "actor/grad_norm", "timing_s/gen", "global_seqlen/mean", "response_length/mean"]
    primary = identify([*verl, "response_length_non_aborted/mean"], {}).primary("response_len_mean")
    assert primary is not None and primary.key == "response_length_non_aborted/mean"


def test_trap_15_at_the_end_of_a_schedule_everything_shrinks() -> None:
    def cosine(r: int) -> float:
        return 0.5e-6 * (1.0 + math.cos(math.pi * min(r, 300) / 300)) + 1e-12

    engine = play(
        300,
        lr=cosine,
        grad_norm=lambda r: noisy(0.5)(r) * (0.02 + cosine(r) / 1e-6),
        reward_mean=lambda r: noisy(min(0.6, r / 200), 0.03)(r),
        zero_std_frac=0.2,
        entropy=lambda r: noisy(0.4 - 0.0005 * r)(r),
    )
    assert alarms(engine) == []


def test_trap_18_batches_of_eight_move_in_eighths_and_rows_of_zero_are_ordinary() -> None:
    source = random.Random(18)
    rewards = [sum(source.random() < 0.35 for _ in range(8)) / 8 for _ in range(500)]
    engine = play(
        500,
        reward_mean=rewards,
        reward_std=[0.0 if value in {0.0, 1.0} else 0.45 for value in rewards],
        loss=[0.0 if value == 0.0 else source.gauss(0, 0.01) for value in rewards],
        grad_norm=[0.0 if value == 0.0 else abs(source.gauss(0.4, 0.1)) for value in rewards],
    )
    assert [event for event in alarms(engine) if event.level is Level.CRIT] == []
    assert alarms(engine, "R1") == []
    assert alarms(engine, "R2") == []
    source = random.Random(5)
    jumps = [sum(source.random() < 0.4 for _ in range(8)) / 8 for _ in range(300)]
    assert alarms(play(300, reward_mean=jumps), "R1") == []


def test_trap_19_dynamic_sampling_has_no_flat_groups_left() -> None:
    source = random.Random(19)
    engine = play(
        200,
        zero_std_frac=0.0,
        filter_pass_rate=noisy(0.62),
        reward_mean=noisy(0.45),
        time_step=[40.0 * source.choice((1, 2, 3)) for _ in range(200)],
    )
    assert alarms(engine, "G1") == []
    assert alarms(engine, "G2") == []
    assert play(60, zero_std_frac=0.0, reward_mean=noisy(0.5)).events == []


def test_trap_20_rewards_may_be_negative_and_have_no_bounds() -> None:
    assert alarms(play(300, reward_mean=lambda r: noisy(-8.0 + r / 60, 0.03)(r))) == []
    assert alarms(play(300, reward_mean=lambda r: noisy(250.0 + r, 0.05)(r))) == []
    assert alarms(play(200, reward_mean=lambda r: noisy(-1.0 + min(r, 150) / 300, 0.03)(r))) == []
    assert first(play(200, reward_mean=lambda r: noisy(-0.5, 0.03)(r) if r < 150 else -5.5), "R1").record <= 154


def test_trap_21_self_play_comes_to_rest_at_zero_and_collapses_below() -> None:
    source = random.Random(21)

    def outcome(record: int) -> float:
        level = -0.4 + 0.08 * record if record < 5 else -1.0 if 80 <= record <= 110 else 0.0
        return level + (source.gauss(0.0, 0.03) if level > -1.0 else 0.0)

    values = [outcome(record) for record in range(1, 257)]
    assert alarms(play(78, reward_mean=values)) == []
    assert 80 <= first(play(256, reward_mean=values), "R1").record <= 84


def test_trap_22_win_rates_that_sum_to_a_constant_are_flat() -> None:
    engine = play(300, reward_mean=noisy(0.5, 0.01), reward_std=noisy(0.5), zero_std_frac=0.0)
    assert alarms(engine) == []


def test_trap_23_a_solved_task_spends_its_entropy() -> None:
    engine = play(
        100,
        entropy=lambda r: max(9e-5, 0.77 * 0.8**r),
        reward_mean=lambda r: min(1.0, 0.3 + r / 15),
        zero_std_frac=lambda r: min(1.0, 0.2 + r / 15),
        grad_norm=lambda r: max(1e-6, 0.8**r),
    )
    assert alarms(engine) == []
    entropy = lambda r: 0.77 if r < 12 else 0.002  # noqa: E731
    solved = play(
        60, entropy=entropy, reward_mean=lambda r: min(1.0, r / 8), zero_std_frac=lambda r: 0.1 if r < 9 else 0.95
    )
    assert alarms(solved) == []
    assert "E1" in infos(solved)


def test_trap_26_rows_of_two_writers_are_half_empty() -> None:
    trainer = lambda value: lambda r: noisy(value)(r) if r % 2 else None  # noqa: E731
    other = lambda value: lambda r: None if r % 2 else noisy(value)(r)  # noqa: E731
    engine = play(
        200,
        grad_norm=trainer(0.4),
        loss=trainer(0.1),
        entropy=trainer(0.3),
        reward_mean=other(0.5),
        response_len_mean=other(300.0),
        truncated_frac=other(0.02),
    )
    assert alarms(engine) == []


def test_trap_30_extremes_grow_with_the_batch_and_are_never_held_to_a_line() -> None:
    engine = play(
        100, reward_mean=noisy(0.4), reward_max=50.0, reward_min=-50.0, rollout_prob_diff_max=1.0, adv_max=2.5,
        adv_min=-2.5, num_turns_max=40.0, num_turns_mean=noisy(3.0), kl_ref=noisy(0.02),
    )  # fmt: skip
    assert alarms(engine) == []


def test_a_warm_up_in_half_precision_skips_its_first_steps() -> None:
    engine = play(
        60,
        loss=noisy(0.7),
        grad_norm=lambda r: NonFinite.POS_INF if r == 1 else noisy(1.0)(r),
        lr=lambda r: 1e-6 * min(1.0, r / 20),
    )
    assert {event.rule for event in alarms(engine)} <= {"L1"}


def test_a_bimodal_length_does_not_start_a_phase_on_every_other_record() -> None:
    engine = play(
        200,
        response_len_mean=lambda r: noisy(300.0 if r % 2 else 700.0, 0.02)(r),
        reward_mean=lambda r: noisy(0.6 if r % 2 else 0.3, 0.02)(r),
        time_step=lambda r: noisy(40.0 if r % 2 else 80.0, 0.02)(r),
        grad_norm=noisy(0.5),
        entropy=noisy(0.3),
        kl_ref=noisy(0.02),
    )
    assert not [event for event in engine.events if event.rule == "F1"]
