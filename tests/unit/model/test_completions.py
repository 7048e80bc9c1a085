"""How uneven the completions of a group are."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltop.model.completions import gini, length_ratio

VALUES = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=30)


def test_ratio_of_odd_groups() -> None:
    assert length_ratio([10, 20, 30, 80]) == pytest.approx(80 / 25)
    assert length_ratio([0, 0, 0]) == 1.0
    assert length_ratio([0, 0, 5]) is None
    assert length_ratio([]) is None
    assert length_ratio([7]) == 1.0


@given(VALUES)
def test_gini_is_the_mean_difference_over_twice_the_mean(values: list[float]) -> None:
    count, total = len(values), sum(values)
    if count == 1 or total <= 0:
        assert gini(values) == 0
    else:
        pairs = sum(abs(a - b) for a in values for b in values)
        assert gini(values) == pytest.approx(pairs / (2 * count * total), abs=1e-6)
