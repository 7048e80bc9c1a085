"""Incremental statistics against the plain computation over the same values."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltop.stats.rolling import Ema, Frozen, Window, mad_of, median_of

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


def test_an_empty_window_has_no_opinion() -> None:
    window = Window(5)
    assert (window.median, window.mad, window.count) == (0.0, 0.0, 0)


def test_newest_values() -> None:
    window = Window(10)
    for value in (1.0, 2.0, 3.0, 4.0, 100.0):
        window.push(value)
    assert window.last(3) == 4.0
    assert window.last(99) == 3.0


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
        frozen.skip_value()
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


def test_medians_of_nothing_are_an_error() -> None:
    with pytest.raises(IndexError):
        median_of([])
