"""Synthetic series with a known beginning: found where it is, and only there."""

from __future__ import annotations

import math
import random

import pytest
from tables import each_row

from rltop.stats.change import movement, shift_between, usual_of

NAN = math.nan


def noisy(length: int, seed: int, level: float = 1.0, scale: float = 0.05) -> list[float]:
    dice = random.Random(seed)
    return [level * (1 + dice.gauss(0, scale)) for _ in range(length)]


@each_row("seed", range(20))
def test_noise_does_not_move(seed: int) -> None:
    values = noisy(200, seed)
    assert movement(range(200), values, 120).step is None


@each_row("seed", range(10))
@each_row("offset", [-12, -3, 0, 7])
@each_row("factor", [0.4, 1.8])
def test_a_jump_is_found_on_its_step(seed: int, offset: int, factor: float) -> None:
    begin = 120 + offset
    values = [value * (factor if step >= begin else 1.0) for step, value in enumerate(noisy(200, seed))]
    moved = movement(range(200), values, 120)
    assert moved.step is not None
    assert abs(moved.step - begin) <= 1
    assert moved.before == pytest.approx(1.0, rel=0.06)
    assert moved.after == pytest.approx(factor, rel=0.1)
    assert (moved.score > 0) == (factor > 1)
    assert not moved.is_spike


def test_scale_does_not_matter() -> None:
    values = [value * (3.0 if step >= 118 else 1.0) for step, value in enumerate(noisy(160, 3))]
    one = movement(range(160), values, 120)
    tiny = movement(range(160), [value * 1e-9 for value in values], 120)
    assert one.step == tiny.step
    assert one.score == pytest.approx(tiny.score)


@each_row("slope", [0.01, -0.003])
def test_a_trend_that_goes_on_or_levels_off_has_not_moved(slope: float) -> None:
    dice = random.Random(5)
    going_on = [1 + slope * step + dice.gauss(0, 0.01) for step in range(200)]
    levelling = [1 + slope * min(step, 110) + dice.gauss(0, 0.01) for step in range(200)]
    assert movement(range(200), going_on, 120).step is None
    assert movement(range(200), levelling, 120).step is None


def test_a_trend_that_turns_round_has_moved() -> None:
    values = [1 + 0.01 * step for step in range(120)] + [1 + 0.01 * 120 - 0.1 * i for i in range(40)]
    moved = movement(range(160), values, 125)
    assert moved.step is not None
    assert 120 <= moved.step <= 126


def test_a_lone_spike_counts_and_is_called_one() -> None:
    values = noisy(160, 9)
    values[119] = 40.0
    moved = movement(range(160), values, 120)
    assert (moved.step, moved.is_spike, moved.after) == (119, True, 40.0)


def test_a_spike_just_before_the_onset_needs_to_stand_out_less() -> None:
    values = noisy(160, 9)
    values[70], values[100] = 3.0, 4.2
    assert movement(range(160), values, 104).step == 100
    # Long before it, or no larger than what was usual, it may be chance.
    assert movement(range(160), values, 112).step is None
    values[70] = 4.0
    assert movement(range(160), values, 104).step is None


def test_a_spike_like_those_before_does_not_count() -> None:
    values = noisy(160, 9)
    for step in (70, 100, 119, 130):
        values[step] = 3.0
    assert movement(range(160), values, 120).step is None


def test_a_constant_that_changes_has_moved_and_one_that_does_not_has_not() -> None:
    lr = [1e-6] * 118 + [1e-5] * 30
    moved = movement(range(148), lr, 120)
    assert moved.step == 118
    assert moved.score > 50
    assert movement(range(148), [1e-6] * 148, 120).step is None
    assert movement(range(148), [0.0] * 148, 120).step is None


def test_what_came_back_long_before_is_passed_over_and_what_came_back_lately_is_not() -> None:
    for ago, is_found in ((30, False), (9, True)):
        values = noisy(160, 9)
        values[120 - ago] = 40.0
        assert (movement(range(160), values, 120).step is not None) == is_found
    values = noisy(160, 9)
    values[88:92] = [3.0] * 4
    values[120:] = [0.2] * 40
    moved = movement(range(160), values, 120)
    assert (moved.step, moved.score < 0) == (120, True)


@each_row(("answers", "whole"), [(32, 1.0), (64, 100.0)])
def test_one_answer_more_of_a_share_is_no_move(answers: int, whole: float) -> None:
    one = whole / answers
    values = [0.0] * 160
    for step in (95, 108, 118, 125):
        values[step] = one
    assert movement(range(160), values, 120).step is not None
    assert movement(range(160), values, 120, whole=whole).step is None
    values[120:] = [whole * (0.5 + i % 3 / answers) for i in range(40)]
    moved = movement(range(160), values, 120, whole=whole)
    assert moved.step == 120
    assert moved.score > 8


def test_a_share_of_few_things_that_jumps_for_good_has_moved() -> None:
    values = [0.0] * 120 + [1.0] * 40
    assert movement(range(160), values, 120, whole=1.0).step == 120
    quarter = [0.0] * 120 + [0.25] * 40
    assert movement(range(160), quarter, 120, whole=1.0).step == 120


def test_a_share_that_is_no_count_keeps_its_own_scale() -> None:
    values = [value * 0.001 * (6 if step >= 120 else 1) for step, value in enumerate(noisy(160, 8))]
    assert movement(range(160), values, 120, whole=1.0).step == 120


def test_what_has_come_far_on_its_way_drifts() -> None:
    dice = random.Random(5)
    values = [3.0 - 0.02 * step + dice.gauss(0, 0.01) for step in range(140)]
    moved = movement(range(140), values, 120)
    assert moved.step is None
    assert moved.is_drift
    assert moved.after < moved.before
    assert moved.score < 0
    assert not movement(range(200), noisy(200, 3), 120).is_drift


@each_row("creep", [2e-5, 5e-5])
def test_a_leap_after_a_creep_is_the_move(creep: float) -> None:
    dice = random.Random(5)
    values = [
        0.005 + creep * max(0, step - 85) + dice.gauss(0, 0.0002) + (12 if step >= 122 else 0) for step in range(160)
    ]
    moved = movement(range(160), values, 120)
    assert moved.step == 122
    assert moved.after > 11


def test_what_is_not_finite_has_moved() -> None:
    values = noisy(160, 2)
    values[117] = NAN
    moved = movement(range(160), values, 120, [117])
    assert moved.step == 117
    assert math.isinf(moved.score)
    assert movement([], [], 120, [121]).step == 121


def test_what_is_too_short_is_not_known() -> None:
    moved = movement(range(12), noisy(12, 1), 5)
    assert not moved.is_known
    assert moved.step is None


def test_nothing_after_the_cursor_is_looked_at() -> None:
    values = noisy(120, 4) + [5.0] * 40
    assert movement(range(160), values, 120, until=119).step is None
    assert movement(range(160), values, 120).step == 120


def test_gaps_are_no_values() -> None:
    values = [value if step % 5 == 0 else NAN for step, value in enumerate(noisy(400, 6))]
    values = [value * (4 if step >= 300 else 1) for step, value in enumerate(values)]
    assert movement(range(400), values, 300).step == 300


def test_usual_needs_eight_values() -> None:
    assert usual_of([1.0] * 7) is None
    assert usual_of([1.0] * 8) is not None


def test_shift_ranks_a_level_above_a_lone_value() -> None:
    before = noisy(32, 1)
    level, lone = shift_between(before, [2.0] * 5), shift_between(before, [2.0, *noisy(4, 2)])
    assert level.score > lone.score > 0
    assert not level.is_spike
    assert lone.is_spike
    assert lone.after == 2.0


def test_one_answer_more_of_a_share_is_no_shift() -> None:
    lone = shift_between([0.0] * 32, [1 / 32, 0.0, 0.0, 0.0, 0.0], 1.0)
    lasting = shift_between([0.0] * 32, [0.5, 0.53125, 0.5, 0.46875, 0.5], 1.0)
    assert abs(lone.score) < 4 < lasting.score


def test_shift_of_too_little_is_none() -> None:
    assert shift_between([1.0] * 4, [2.0]) is None
    assert shift_between([1.0] * 8, []) is None
