"""Incremental statistics against the plain computation over the same values."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltop.stats.rolling import AskedWindow, Ema, Frozen, Slope, Window, mad_of, median_of

FINITE = st.floats(-1e6, 1e6, allow_nan=False)
SERIES = st.lists(FINITE, min_size=1, max_size=90)


@given(SERIES, st.integers(1, 20))
def test_a_window_is_the_end_of_the_list(values: list[float], size: int) -> None:
    window = Window(size)
    for i, value in enumerate(values):
        window.push(value)
        held = values[max(0, i + 1 - size) : i + 1]
        assert window.values == held
        assert window.count == len(held)
        assert window.median == pytest.approx(statistics.median(held))
        assert (window.low, window.high) == (min(held), max(held))
        assert window.mad == pytest.approx(mad_of(held))


@given(SERIES, st.integers(1, 30), st.lists(st.sampled_from("fcm-"), min_size=1, max_size=12))
def test_the_median_lies_between_floor_and_ceiling_whatever_was_asked_before(
    values: list[float], size: int, asked: list[str]
) -> None:
    window = Window(size)
    for i, value in enumerate(values):
        window.push(value)
        held = values[max(0, i + 1 - size) : i + 1]
        exact = statistics.median(held)
        match asked[i % len(asked)]:
            case "f":
                assert window.floor <= exact + 1e-9
            case "c":
                assert window.ceiling >= exact - 1e-9
            case "m":
                assert window.median == pytest.approx(exact)


def test_bounds_do_not_sort_on_every_push(monkeypatch: pytest.MonkeyPatch) -> None:
    window = Window(50)
    sorts = 0
    original = Window._sorted

    def counted(self: Window) -> list[float]:
        nonlocal sorts
        sorts += self._behind > 0
        return original(self)

    monkeypatch.setattr(Window, "_sorted", counted)
    for i in range(500):
        window.push(math.sin(i))
        _ = window.floor
    assert sorts < 70


@given(st.lists(st.floats(-5, 5).map(lambda x: round(x, 1)), min_size=1, max_size=40), st.floats(0, 6))
def test_a_window_asked_on_every_push_is_as_exact_and_never_claims_too_much_spread(
    values: list[float], width: float
) -> None:
    asked, left = Window(7), Window(7)
    for value in values:
        asked.push(value)
        _ = asked.median
        left.push(value)
    assert asked.median == left.median
    assert asked.mad == left.mad
    assert not (left.has_spread(width) and left.mad < width)
    assert left.mad <= width or width < 1e-9 or left.has_spread(width * 0.49) or left.count % 2 == 0


def test_an_empty_window_has_no_opinion() -> None:
    window = Window(5)
    assert (window.median, window.mad, window.floor, window.ceiling, window.count) == (0.0, 0.0, 0.0, 0.0, 0)
    assert window.ratio(3.0) == 0.0
    assert window.log_z(3.0) == 0.0


def test_ratio_and_newest_values() -> None:
    window = Window(10)
    for value in (1.0, 2.0, 3.0, 4.0, 100.0):
        window.push(value)
    assert window.ratio(6.0) == 2.0
    assert window.last(3) == 4.0
    assert window.last(99) == 3.0


def test_log_z_measures_factors_and_has_a_floor() -> None:
    window = Window(20)
    for i in range(20):
        window.push(1.0 + 0.001 * i)
    assert window.log_z(window.median * math.e) == pytest.approx(10.0, rel=0.02)
    assert window.log_z(-1.0) == 0.0


@given(SERIES, SERIES)
def test_a_clone_of_a_window_goes_its_own_way(before: list[float], after: list[float]) -> None:
    window = Window(12)
    for value in before:
        window.push(value)
    assert window.median is not None
    twin = window.clone()
    held = window.values
    for value in after:
        twin.push(value)
        assert twin.count
        _ = twin.median
    assert window.values == held
    assert window.median == pytest.approx(statistics.median(held))
    assert twin.values == (held + after)[-12:]


@given(SERIES)
def test_a_baseline_skips_then_stands(values: list[float]) -> None:
    frozen = Frozen(skip=3, size=30, minimum=10)
    for i, value in enumerate(values):
        frozen.push(value)
        behind = values[3 : min(i + 1, 33)]
        if len(behind) < 10:
            assert frozen.value is None
        else:
            assert frozen.value == pytest.approx(statistics.median(behind))
        assert frozen.is_final is (i + 1 >= 33)


def test_the_spread_of_a_baseline_is_robust_and_in_logs_relative() -> None:
    frozen = Frozen(skip=0, size=11, minimum=3)
    assert (frozen.spread, frozen.log_spread) == (0.0, 0.0)
    for value in (9.0, 10.0, 11.0, 9.0, 10.0, 11.0, 10.0, 10.0, 9.0, 11.0, 1e6):
        frozen.push(value)
    assert frozen.spread == pytest.approx(1.4826)
    assert frozen.log_spread == pytest.approx(1.4826 * math.log(11 / 10), rel=0.1)


def test_a_frozen_baseline_counts_what_it_passes_over_and_learns_nothing_from_it() -> None:
    frozen = Frozen(skip=0, size=5, minimum=2)
    for value in (1.0, 3.0):
        frozen.push(value)
    for _ in range(3):
        assert not frozen.is_final
        frozen.pass_over()
    assert frozen.is_final
    frozen.push(100.0)
    assert frozen.value == 2.0


def test_a_clone_of_a_baseline_goes_its_own_way() -> None:
    frozen = Frozen(skip=0, size=5, minimum=2)
    for value in (1.0, 2.0, 3.0):
        frozen.push(value)
    twin = frozen.clone()
    twin.push(100.0)
    twin.push(100.0)
    assert twin.is_final
    assert frozen.value == 2.0
    assert not frozen.is_final
    frozen.push(4.0)
    assert frozen.value == 2.5


@given(st.lists(FINITE, min_size=1, max_size=60))
def test_an_average_stays_within_its_values(values: list[float]) -> None:
    ema = Ema(10)
    for value in values:
        ema.push(value)
    assert min(values) - 1e-6 <= ema.value <= max(values) + 1e-6


def test_an_average_begins_as_the_mean_and_forgets() -> None:
    ema = Ema(4)
    for value in (1.0, 2.0, 3.0):
        ema.push(value)
    assert ema.value == pytest.approx(2.0)
    twin = ema.clone()
    for _ in range(50):
        twin.push(10.0)
    assert twin.value == pytest.approx(10.0, rel=1e-3)
    assert ema.value == pytest.approx(2.0)


@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=80), st.integers(2, 25))
def test_a_slope_is_that_of_least_squares(values: list[float], size: int) -> None:
    slope = Slope(size)
    for value in values:
        slope.push(value)
    held = values[-size:]
    expected = statistics.linear_regression(range(len(held)), held).slope
    assert slope.value == pytest.approx(expected, abs=1e-6)
    twin = slope.clone()
    twin.push(1e3)
    assert slope.value == pytest.approx(expected, abs=1e-6)


def test_one_value_has_no_slope() -> None:
    slope = Slope(5)
    assert slope.value == 0.0
    slope.push(3.0)
    assert slope.value == 0.0


def test_medians_of_nothing_are_an_error() -> None:
    with pytest.raises(IndexError):
        median_of([])


@given(st.lists(st.floats(-5, 5).map(lambda x: round(x, 1)), min_size=1, max_size=40))
def test_a_window_that_is_asked_each_time_has_the_same_median(values: list[float]) -> None:
    lazy, asked = Window(7), AskedWindow(7)
    for value in values:
        twin = asked.clone()
        lazy.push(value)
        asked.push(value)
        twin.push(value)
        assert asked.median == twin.median == lazy.median == asked.floor == asked.ceiling
        assert (asked.low, asked.high, asked.mad, asked.count) == (lazy.low, lazy.high, lazy.mad, lazy.count)
