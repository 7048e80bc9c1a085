import math
import random
from statistics import fmean, median

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.stats.groups import (
    StragglerKind,
    balance_spread,
    expected_ratio,
    group_statistics,
    rollout_times,
    straggler_reading,
)

LENGTHS = st.lists(st.integers(0, 5000), min_size=1, max_size=16)


def simulated(size: int, sigma: float, seed: int = 1) -> list[float]:
    draw = random.Random(seed)
    groups = ([math.exp(draw.gauss(0.0, sigma)) for _ in range(size)] for _ in range(2000))
    return sorted(max(group) / median(group) for group in groups)


@pytest.mark.parametrize("size", [4, 8, 16, 64])
def test_the_table_is_what_log_normal_lengths_give(size: int) -> None:
    usual = expected_ratio(size)
    assert usual.low == pytest.approx(fmean(simulated(size, 0.3)), rel=0.06)
    assert usual.high == pytest.approx(fmean(simulated(size, 0.8)), rel=0.06)
    assert usual.one_group == pytest.approx(simulated(size, 0.5)[1900], rel=0.06)


def test_sizes_between_and_beyond_are_interpolated() -> None:
    assert expected_ratio(1).low == expected_ratio(1).high == 1.0
    assert 1.0 < expected_ratio(2).high < expected_ratio(4).high < expected_ratio(6).high < expected_ratio(8).high
    assert expected_ratio(32).high == pytest.approx((4.5 + 7.0) / 2)
    assert expected_ratio(128).high > expected_ratio(64).high


@given(st.integers(1, 512))
def test_usual_ranges_are_ordered_and_grow_with_the_group(size: int) -> None:
    here, larger = expected_ratio(size), expected_ratio(size + 1)
    assert 1.0 <= here.low <= here.high
    assert larger.low >= here.low
    assert larger.one_group >= here.one_group


def test_an_empty_group_has_no_usual_range() -> None:
    with pytest.raises(ValueError, match="at least one"):
        expected_ratio(0)


def test_the_ratio_of_the_group_comes_first() -> None:
    values = {"group_len_ratio": 5.2, "group_len_gini": 0.4, "time_gen_sample_max": 90.0, "time_gen_sample_mean": 30.0}
    reading = straggler_reading(values, 8)
    assert (reading.kind, reading.ratio, reading.gini) == (StragglerKind.GROUP, 5.2, 0.4)
    assert reading.usual == expected_ratio(8)
    unknown = straggler_reading(values)
    assert unknown.usual is None


def test_the_slowest_rollout_stands_in_then_the_longest_answer() -> None:
    lengths = {"response_len_max": 8000.0, "response_len_mean": 2000.0}
    rollout = straggler_reading(
        lengths
        | {"time_gen_sample_max": 90.0, "time_gen_sample_mean": 30.0, "slowest_gen": 40.0, "slowest_tool": 60.0},
        8,
    )
    assert (rollout.kind, rollout.worst, rollout.typical) == (StragglerKind.ROLLOUT, 100.0, 30.0)
    assert rollout.ratio == pytest.approx(100 / 30)
    assert rollout.tool_share == pytest.approx(0.6)
    assert rollout.usual is None
    length = straggler_reading(lengths)
    assert (length.kind, length.metric, length.ratio) == (StragglerKind.LENGTH, "response_len_max", 4.0)


def test_tool_calls_are_part_of_a_rollout_however_little_is_logged_of_them() -> None:
    generation = {"time_gen_sample_max": 40.0, "time_gen_sample_mean": 20.0}
    assert rollout_times(generation) == (40.0, 20.0, None)
    assert rollout_times(generation | {"time_tool_sample_mean": 5.0}) == (40.0, 25.0, None)
    assert rollout_times(generation | {"time_tool_sample_max": 110.0}) == (110.0, 20.0, 110.0)
    assert rollout_times({"time_gen_sample_max": 40.0}) is None


@each_row(
    "values", [{}, {"response_len_max": 10.0}, {"response_len_max": 0.0, "response_len_mean": 0.0}, {"loss": 1.0}]
)
def test_no_reading_without_a_signal(values: dict[str, float]) -> None:
    assert straggler_reading(values, 8) is None


def test_balance_is_what_the_ranks_got() -> None:
    raw = {"seqlen_mean": 458_966.0, "seqlen_minmax_diff": 78_170.0}
    assert balance_spread(raw) == pytest.approx(0.1703, abs=1e-4)
    balanced = raw | {"seqlen_balanced_max": 458_980.0, "seqlen_balanced_min": 458_965.0}
    assert balance_spread(balanced) == pytest.approx(15 / 458_966)
    assert balance_spread({"seqlen_mean": 0.0, "seqlen_minmax_diff": 1.0}) is None
    assert balance_spread({"seqlen_balanced_max": 1.0}) is None


def test_statistics_skip_what_has_no_ratio() -> None:
    found = group_statistics([[1, 1, 4], [0, 0, 5], []])
    assert (found.groups, found.size, found.ratio_mean, found.ratio_max) == (1, 3, 4.0, 4.0)
    assert group_statistics([]) is None
    assert group_statistics([[0, 0, 5]]) is None
    mixed = group_statistics([[1, 2], [1, 2, 3]])
    assert mixed.size is None
