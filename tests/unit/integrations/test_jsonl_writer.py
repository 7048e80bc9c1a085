"""Rows written by a training loop: whole, ordered, appended."""

from __future__ import annotations

import errno
import json
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltop.decode.jsonl import JsonlDecoder
from rltop.integrations import JsonlWriter


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def test_a_row_is_on_disk_when_log_returns(tmp_path: Path) -> None:
    path = tmp_path / "run" / "metrics.jsonl"
    writer = JsonlWriter(path, lambda: 1000.5)
    writer.log(3, {"loss": 0.5, "rewards/f/mean": 1})
    assert path.read_bytes() == b'{"step":3,"time":1000.5,"loss":0.5,"rewards/f/mean":1}\n'
    writer.close()


def test_reopening_appends(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    for step in (1, 2):
        with JsonlWriter(path) as writer:
            writer.log(step, {"loss": step / 2})
    assert [row["step"] for row in rows_of(path)] == [1, 2]


def test_a_half_line_left_by_a_killed_process_spoils_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step":1,"loss":0.5}\n{"step":2,"lo')
    with JsonlWriter(path) as writer:
        writer.log(2, {"loss": 0.25})
    lines = path.read_bytes().split(b"\n")
    assert lines[1] == b'{"step":2,"lo'
    assert json.loads(lines[2])["loss"] == 0.25


def test_non_finite_numbers_are_literals_that_can_be_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with JsonlWriter(path) as writer:
        writer.log(1, {"a": math.nan, "b": math.inf, "c": -math.inf, "d": None})
    assert b'"a":NaN,"b":Infinity,"c":-Infinity,"d":null' in path.read_bytes()


def test_the_writers_own_keys_win(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    with JsonlWriter(path, lambda: 5.0) as writer:
        writer.log(7, {"step": 99, "time": 1.0, "loss": 0.5})
    assert rows_of(path) == [{"step": 7, "time": 5.0, "loss": 0.5}]


def test_what_json_cannot_take_apart_is_written_as_text(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    holds_itself: dict[str, Any] = {}
    holds_itself["again"] = holds_itself
    with JsonlWriter(path) as writer:
        writer.log(1, {"a": {(1, 2): 3}, "b": 0.5, "c": Fraction(1, 4), "d": Scalar(), "e": holds_itself})
    row = rows_of(path)[0]
    assert (row["b"], row["c"], row["d"]) == (0.5, 0.25, 0.25)
    assert row["a"] == "{(1, 2): 3}"


class FullDisk:
    """A disk on which `room` more bytes fit, as os.write sees it."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def __call__(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize("room", [0, 1, 10, 30])
def test_a_full_disk_loses_rows_and_not_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    path = tmp_path / "metrics.jsonl"
    writer = JsonlWriter(path)
    writer.log(1, {"loss": 0.5})
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="No space left") as caught:
        patch.setattr(os, "write", FullDisk(room))
        writer.log(2, {"loss": 0.25})
        writer.log(3, {"loss": 0.25})
    assert len(caught) == 1
    assert writer.lost == 2
    writer.log(4, {"loss": 0.125})
    decoder = JsonlDecoder()
    assert [record.step for record in decoder.feed(path.read_bytes(), 0, 0)] == [1, 4]


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
        writer.log(1, {"scalar": Scalar(), "vector": Vector(), "other": Opaque()})
    row = rows_of(path)[0]
    assert (row["scalar"], row["vector"], row["other"]) == (0.25, [1.0, 2.0], "opaque")


def test_a_closed_writer_says_so(tmp_path: Path) -> None:
    writer = JsonlWriter(tmp_path / "metrics.jsonl")
    writer.close()
    writer.close()
    with pytest.raises(ValueError, match="closed"):
        writer.log(1, {})


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
    with JsonlWriter(path, lambda: 0.0) as writer:
        for step, row in enumerate(metrics):
            writer.log(step, row)
    own = [{"step": step, "time": 0.0} for step in range(len(metrics))]
    assert rows_of(path) == [row | mine for row, mine in zip(metrics, own, strict=True)]
