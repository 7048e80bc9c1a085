"""Where two runs diverge."""

from __future__ import annotations

import math
import random

from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.stats.change import LEAST_RECORDS, WINDOW, divergence

SEEDS = st.integers(0, 2**32 - 1)


def run(seed: int, length: int = 200, noise: float = 0.05, shift: float = 0.0, at: int = 0) -> list[float]:
    """A reward that climbs, with noise, and from a step on by `shift` higher."""
    numbers = random.Random(seed)
    return [1 - math.exp(-n / 60) + numbers.gauss(0, noise) + (shift if n >= at else 0.0) for n in range(length)]


@given(SEEDS)
def test_two_seeds_of_one_run_do_not_diverge(seed: int) -> None:
    steps = range(200)
    assert divergence(steps, run(seed), run(seed + 1)) is None


@given(SEEDS, st.integers(40, 150))
def test_a_shift_is_found_where_it_began(seed: int, at: int) -> None:
    found = divergence(range(200), run(seed, shift=0.5, at=at), run(seed + 1))
    assert not found.is_from_start
    assert at - 2 * WINDOW < found.step < at + 2 * WINDOW


@given(SEEDS)
def test_runs_that_were_never_alike_are_told_from_the_start(seed: int) -> None:
    found = divergence(range(1, 201), run(seed, shift=0.6), run(seed + 1))
    assert found.is_from_start
    assert found.step == 1


@given(SEEDS)
def test_what_comes_back_is_no_divergence(seed: int) -> None:
    ours = run(seed)
    ours[60:100] = [value + 1 for value in ours[60:100]]
    assert divergence(range(200), ours, run(seed + 1)) is None


@each_row("values", [[0.0] * 100, [math.nan] * 100])
def test_nothing_is_told_of_equal_or_missing_values(values: list[float]) -> None:
    assert divergence(range(100), values, values) is None


def test_a_constant_that_changes_diverges() -> None:
    rate = [1e-6] * 100
    found = divergence(range(100), rate, [*rate[:50], *[2e-6] * 50])
    assert found.step == 50


@given(SEEDS, st.integers(30, 150))
def test_runs_of_one_seed_diverge_where_they_stop_being_equal(seed: int, at: int) -> None:
    ours = run(seed)
    found = divergence(range(200), ours, [*ours[:at], *[value + 1 for value in ours[at:]]])
    assert at <= found.step < at + WINDOW


def test_too_few_records_tell_nothing() -> None:
    short = LEAST_RECORDS - 1
    assert divergence(range(short), [0.0] * short, [1.0] * short) is None
