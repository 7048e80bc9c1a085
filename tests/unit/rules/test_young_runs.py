"""Runs of some thirty records: a run that logs every ten steps is over before long baselines stand."""

from __future__ import annotations

import random

from observations import alarms, first, noisy, play

from rltop.model import Algorithm, Level


def test_r1_records_in_a_row_below_all_before_need_no_long_history() -> None:
    drawn = random.Random(3)
    rewards = [drawn.uniform(0.2, 0.5) for _ in range(14)] + [0.06 + 0.01 * drawn.random() for _ in range(12)]
    assert first(play(26, reward_mean=rewards), "R1").record <= 14 + 7


def test_r1_trap_a_noisy_young_reward_wanders() -> None:
    for seed in range(40):
        drawn = random.Random(seed)
        rewards = [max(0.0, drawn.gauss(0.3, 0.15)) for _ in range(30)]
        assert alarms(play(30, reward_mean=rewards)) == [], seed


def test_o11_a_young_run_that_walks_away_within_a_few_records() -> None:
    kl = [0.001 * record for record in range(1, 15)] + [0.05, 0.2, 0.7, 1.2, 1.8, 1.7, 1.9, 1.6]
    assert first(play(22, kl_ref=kl, reward_mean=noisy(0.4)), "O11").record <= 20


def test_o11_trap_a_young_run_that_learns_fast_moves_too() -> None:
    assert alarms(play(48, kl_ref=lambda r: 1e-4 * 1.15**r, reward_mean=lambda r: 0.2 + 0.01 * r)) == []


def test_c3_a_value_loss_that_bursts_early() -> None:
    value_loss = lambda r: noisy(1.2 / r, 0.1)(r) if r < 13 else noisy(9.0, 0.2)(r)  # noqa: E731
    assert (
        first(play(24, algorithm=Algorithm.PPO, traits={"has_critic": True}, value_loss=value_loss), "C3").record <= 16
    )


def test_l3_no_gradient_while_the_reward_moves_is_a_warning_without_the_share_of_flat_groups() -> None:
    frozen = play(40, grad_norm=lambda r: 0.5 if r < 20 else 0.0, reward_mean=noisy(0.4, 0.1))
    assert first(frozen, "L3").record <= 26
    assert first(frozen, "L3").level is Level.WARN


def test_l3_trap_flat_batches_and_solved_tasks_have_no_gradient() -> None:
    flat = play(40, grad_norm=0.0, reward_mean=noisy(0.4, 0.1), adv_max=0.0, adv_min=0.0)
    assert alarms(flat, "L3") == []
    solved = play(60, grad_norm=lambda r: 0.5 if r < 30 else 0.0, reward_mean=lambda r: min(1.0, r / 30))
    assert alarms(solved, "L3") == []


def test_l10_a_reward_that_is_no_longer_logged() -> None:
    gone = play(40, grad_norm=noisy(0.5), reward_mean=lambda r: noisy(0.4)(r) if r < 20 else None)
    event = first(gone, "L11")
    assert event.record == 24
    assert event.level is Level.WARN
    back = play(60, grad_norm=noisy(0.5), reward_mean=lambda r: None if 20 <= r < 30 else noisy(0.4)(r))
    assert [verdict for verdict in back.verdicts if verdict.raised_by == "L11" and verdict.recovered_step is None] == []


def test_l10_trap_a_reward_with_a_cadence_of_its_own_and_rows_without_an_update() -> None:
    assert alarms(play(60, grad_norm=noisy(0.5), reward_mean=lambda r: noisy(0.4)(r) if r % 8 == 1 else None)) == []
    ended = play(60, grad_norm=lambda r: noisy(0.5)(r) if r < 40 else None,
                 reward_mean=lambda r: noisy(0.4)(r) if r < 40 else None, val_score=0.5)  # fmt: skip
    assert alarms(ended) == []
