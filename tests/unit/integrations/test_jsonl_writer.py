"""Rows written by a training loop: whole, ordered, appended."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltop.clock import FakeClock
from rltop.integrations.jsonl import JsonlWriter


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_a_row_is_on_disk_when_write_returns(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    writer = JsonlWriter(path, FakeClock(1000.5))
    writer.write(3, {"loss": 0.5, "rewards/f/mean": 1})
    assert path.read_bytes() == b'{"step":3,"time":1000.5,"loss":0.5,"rewards/f/mean":1}\n'
    writer.close()


def test_reopening_appends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        with JsonlWriter(path) as writer:
            writer.write(step, {"loss": step / 2})
    assert [row["step"] for row in rows_of(path)] == [1, 2]


def test_a_half_line_left_by_a_killed_process_spoils_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1,"loss":0.5}\n{"step":2,"lo')
    with JsonlWriter(path) as writer:
        writer.write(2, {"loss": 0.25})
    lines = path.read_bytes().split(b"\n")
    assert lines[1] == b'{"step":2,"lo'
    assert json.loads(lines[2])["loss"] == 0.25


def test_non_finite_numbers_are_literals_that_can_be_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(1, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": None})
    assert b'"a":NaN,"b":Infinity,"c":-Infinity,"d":null' in path.read_bytes()


def test_the_writers_own_keys_win(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with JsonlWriter(path, FakeClock(5.0)) as writer:
        writer.write(7, {"step": 99, "time": 1.0, "loss": 0.5})
    assert rows_of(path) == [{"step": 7, "time": 5.0, "loss": 0.5}]


class Scalar:
    def item(self) -> float:
        return 0.25


class Vector:
    def item(self) -> float:
        raise ValueError("only one element")

    def tolist(self) -> list[float]:
        return [1.0, 2.0]


class Opaque:
    def __str__(self) -> str:
        return "opaque"


def test_scalars_of_array_libraries_become_numbers(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with JsonlWriter(path) as writer:
        writer.write(1, {"scalar": Scalar(), "vector": Vector(), "other": Opaque()})
    row = rows_of(path)[0]
    assert (row["scalar"], row["vector"], row["other"]) == (0.25, [1.0, 2.0], "opaque")


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = JsonlWriter(tmp_path / "metrics.jsonl")
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.write(1, {})


@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=20), st.floats(allow_nan=False) | st.integers(-(2**60), 2**60) | st.text(), max_size=5
        ),
        max_size=8,
    )
)
def test_whatever_the_keys_every_row_is_one_line(
    tmp_path_factory: pytest.TempPathFactory, metrics: list[dict[str, Any]]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    with JsonlWriter(path, FakeClock(0.0)) as writer:
        for step, row in enumerate(metrics):
            writer.write(step, row)
    own = [{"step": step, "time": 0.0} for step in range(len(metrics))]
    assert rows_of(path) == [row | mine for row, mine in zip(metrics, own, strict=True)]
