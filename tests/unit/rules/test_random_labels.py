"""Accuracy and margin of pairs against what a coin would give."""

from __future__ import annotations

import random

from observations import alarms, first, play

from rltop.model import Algorithm
from rltop.rules.preference import RandomLabels


def drawn(centre: float, spread: float, seed: int = 0):
    return lambda r: random.Random(f"{seed}/{centre}/{r}").gauss(centre, spread)


def certain(accuracy, margin, size: int = 25) -> bool:
    coin = RandomLabels(size)
    for record in range(size):
        coin.observe(accuracy(record), margin(record))
    return coin.is_certain(0.54)


def share(accuracy, margin) -> float:
    return sum(certain(accuracy(seed), margin(seed)) for seed in range(200)) / 200


def test_a_coin_is_seen_as_one() -> None:
    assert share(lambda s: drawn(0.5, 0.05, s), lambda s: drawn(0.0, 0.01, s)) > 0.8


def test_a_learner_is_none_in_either_number() -> None:
    assert share(lambda s: drawn(0.55, 0.05, s), lambda s: drawn(0.0, 0.01, s)) == 0.0
    assert share(lambda s: drawn(0.5, 0.05, s), lambda s: lambda r: 0.001 * r + drawn(0.0, 0.005, s)(r)) <= 0.01


def test_few_pairs_prove_nothing() -> None:
    assert share(lambda s: drawn(0.5, 0.2, s), lambda s: drawn(0.0, 0.01, s)) < 0.1


def test_it_needs_all_its_records_and_a_copy_is_independent() -> None:
    coin = RandomLabels(4)
    for value in (0.5, 0.5, 0.5):
        coin.observe(value, 0.0)
    coin.observe(None, 0.0)
    twin = coin.clone()
    twin.observe(0.5, 0.0)
    assert twin.is_certain(0.54)
    assert not coin.is_certain(0.54)


def test_d1_speaks_by_thirty_records_where_there_is_no_doubt() -> None:
    run = {"loss": drawn(0.6931, 0.002), "dpo_accuracy": drawn(0.5, 0.05), "dpo_margin": drawn(0.0, 0.004), "lr": 1e-6}
    assert first(play(60, Algorithm.DPO, **run), "D1").record <= 35
    slow = run | {"dpo_accuracy": lambda r: drawn(0.5, 0.05)(r) + 0.003 * r, "dpo_margin": lambda r: 4e-4 * r}
    assert alarms(play(48, Algorithm.DPO, **slow)) == []
    warming = run | {"lr": lambda r: r * 1e-8}
    assert alarms(play(48, Algorithm.DPO, **warming)) == []


def test_rm2_speaks_by_thirty_records_although_scores_are_far_apart() -> None:
    run = {"rm_accuracy": drawn(0.5, 0.05), "rm_margin": drawn(0.0, 0.4), "lr": 1e-5}
    assert first(play(60, Algorithm.REWARD, **run), "RM2").record <= 40
    learns = run | {"rm_accuracy": drawn(0.62, 0.05), "rm_margin": drawn(0.4, 0.2)}
    assert alarms(play(60, Algorithm.REWARD, **learns), "RM2") == []
