"""Persistence, hysteresis and slow trends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rltop.stats.persistence import BlockTrend, NOfMCounter


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 6), st.integers(0, 9))
def test_n_of_the_last_m(truths: list[bool], n: int, more: int) -> None:
    m = n + more
    lasting = NOfMCounter(n, m)
    for i, truth in enumerate(truths):
        held = truths[max(0, i + 1 - m) : i + 1]
        assert lasting.push(truth) is (sum(held) >= n)
        ages = [age for age, one in enumerate(reversed(held)) if one]
        assert lasting.oldest == (max(ages) if ages else -1)


def test_a_clone_counts_for_itself() -> None:
    lasting = NOfMCounter(2, 3)
    lasting.push(True)
    twin = lasting.clone()
    assert twin.push(True)
    assert lasting.bits == 0b1


def test_a_trend_ignores_spikes_and_sees_a_climb() -> None:
    flat, climbing = BlockTrend(), BlockTrend()
    for i in range(100):
        flat.push(1.0 if i % 10 else 500.0)
        climbing.push(1.0 + i / 25)
    assert flat.is_full
    assert flat.monotony == 0.0
    assert climbing.monotony == 1.0
    assert 2.0 < climbing.growth < 5.0


def test_a_trend_speaks_once_per_block_and_not_before_it_knows() -> None:
    trend = BlockTrend(block=5, count=4)
    spoken = [trend.push(float(i)) for i in range(20)]
    assert [i for i, one in enumerate(spoken) if one] == [4, 9, 14, 19]
    assert trend.is_full
    assert trend.growth == 0.0
    twin = trend.clone()
    for _ in range(5):
        twin.push(0.0)
    assert trend.medians == [2.0, 7.0, 12.0, 17.0]
    assert twin.medians == [7.0, 12.0, 17.0, 0.0]


def test_of_last_forgets_everything_when_cleared() -> None:
    lasting = NOfMCounter(2, 3)
    lasting.push(True)
    lasting.push(True)
    lasting.clear()
    assert lasting.oldest == -1
    assert not lasting.push(True)
