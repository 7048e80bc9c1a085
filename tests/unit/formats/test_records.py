"""Which value of a row is its step and its time."""

from __future__ import annotations

import pytest

from rltop.formats.rows import RecordBuilder, step_of, time_of
from rltop.model import Counts, FilePosition


@pytest.mark.parametrize(
    ("value", "step"),
    [
        ("5/100", (5, 100)),
        ("9" * 5000 + "/2", None),
        ("9" * 20 + "/5", None),
        ("5/" + "9" * 20, None),
        (12.0, 12),
        ("12", 12),
        (True, None),
        (1e300, None),
    ],
)
def test_steps(value, step):
    assert step_of(value) == step


@pytest.mark.parametrize("value", ["0001-01-01T00:00:00", "yesterday", 12.0, None])
def test_a_time_that_cannot_be_placed_does_not_raise(value):
    assert time_of(value) is None


def test_step_time_and_total_are_taken_from_a_row():
    counts = Counts()
    record = RecordBuilder(counts).from_row(
        {"global_step": "7", "time": 1.7e9, "max_steps": 50, "a": "0.5"}, FilePosition(2, 3)
    )
    assert (record.step, record.time_s, record.total_steps, record.position) == (7, 1.7e9, 50, (2, 3))
    assert dict(zip(record.schema.keys, record.values, strict=True)) == {"max_steps": 50.0, "a": 0.5}
    assert counts.rows == 1
