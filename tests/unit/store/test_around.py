"""All keys on both sides of a step, from raw rows, from downsampled ones, and across neither restart."""

from __future__ import annotations

import math

from rltop.store.series import StoreOptions
from tests.stores import stream_of


def test_rows_on_both_sides_of_a_step() -> None:
    stream = stream_of((step, {"a": float(step), "b": -float(step)}) for step in range(0, 600, 2))
    found = stream.around(301, 3, 2)
    assert list(found.steps) == [296, 298, 300, 302, 304]
    assert found.split == 3
    assert [row[1] for row in found.rows] == [-296.0, -298.0, -300.0, -302.0, -304.0]
    assert not found.is_approximate


def test_the_ends_have_fewer() -> None:
    stream = stream_of((step, {"a": 1.0}) for step in range(5))
    assert list(stream.around(1, 9, 9).steps) == [0, 1, 2, 3, 4]
    assert stream.around(99, 2, 9) == stream.around(5, 2, 9)
    assert list(stream.around(99, 2, 9).steps) == [3, 4]
    assert stream_of([]).around(4, 3, 3).rows == ()


def test_downsampled_history_gives_the_means_of_its_buckets() -> None:
    rows = 4000
    stream = stream_of(
        ((step, {"a": float(step), "b": 1.0}) for step in range(rows)), StoreOptions(memory_bytes=40_000)
    )
    assert stream.downsampled_range(1000) is not None
    found = stream.around(1000, 8, 4)
    assert found.is_approximate
    assert found.split == 8
    assert len(found.rows) == 12
    assert found.steps[8] <= 1000 < found.steps[9]
    column = stream.column("a")
    assert column is not None
    means = [row[column] for row in found.rows]
    assert means == sorted(means)
    assert means[7] < 1000


def test_a_step_just_behind_the_downsampled_part_has_both() -> None:
    stream = stream_of(((step, {"a": float(step)}) for step in range(4000)), StoreOptions(memory_bytes=40_000))
    first = stream.raw_from()
    assert first is not None
    found = stream.around(first + 2, 6, 3)
    assert found.is_approximate
    assert list(found.steps[4:]) == [first, first + 1, first + 2, first + 3, first + 4]
    assert found.split == 6


def test_a_restart_is_a_wall() -> None:
    first = [(step, {"a": 1.0, "loss": 1.0}) for step in range(100)]
    again = [(step, {"a": 2.0, "loss": 2.0}) for step in range(50, 120)]
    stream = stream_of([*first, *again])
    assert stream.restarts == (50,)
    after = stream.around(52, 10, 3)
    assert [row[0] for row in after.rows] == [2.0] * 5
    before = stream.around(48, 10, 30)
    assert list(before.steps[-2:]) == [48, 49]
    assert all(row[0] == 1.0 for row in before.rows)


def test_a_key_that_came_late_is_a_gap() -> None:
    stream = stream_of(
        [*((step, {"a": 1.0}) for step in range(200)), *((step, {"a": 1.0, "b": 2.0}) for step in range(200, 210))]
    )
    found = stream.around(200, 2, 2)
    column = stream.column("b")
    assert column is not None
    cells = [row[column] if column < len(row) else math.nan for row in found.rows]
    assert [math.isnan(cell) for cell in cells] == [True, True, False, False]
