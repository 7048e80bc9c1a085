"""Runs of some thirty records: a run that logs every ten steps is over before long baselines stand."""

from __future__ import annotations

import random

from observations import alarms, first, noisy, play

from rltop.model import Algorithm


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
