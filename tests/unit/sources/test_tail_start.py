"""Finding the beginning of the last lines from the end of the file."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.sources import tail
from rltop.sources.file import FileSystem
from rltop.sources.tail import LastRows
from rltop.sources.tail import find_tail_start as find_tail


def find_tail_start(fs: FileSystem, path: str, lines: int) -> int:
    return find_tail(fs, path, LastRows(lines))[0]


def expected(data: bytes, lines: int) -> int:
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    return ends[-lines - 1] + 1 if len(ends) > lines else 0


@each_row("data", [b"", b"\n", b"a", b"a\nb\nc\n", b"a\nb\nc", b"\n\n\n"])
@each_row("lines", [0, 1, 2, 3, 10])
def test_small_files(tmp_path: Path, data: bytes, lines: int) -> None:
    (tmp_path / "f").write_bytes(data)
    assert find_tail_start(FileSystem(), str(tmp_path / "f"), lines) == expected(data, lines)


class Memory(FileSystem):
    def __init__(self, data: bytes) -> None:
        self.data = data

    def open(self, path: str) -> int:
        return -1

    def close(self, handle: int) -> None:
        pass

    def stat(self, target: str | int) -> tail.FileSystem:  # type: ignore[override]
        return type("Stat", (), {"size": len(self.data)})()

    def read_at(self, handle: int, size: int, offset: int) -> bytes:
        return self.data[offset : offset + size]


@given(st.lists(st.binary(max_size=40), max_size=60).map(b"\n".join), st.integers(0, 70), st.integers(1, 50))
def test_blocks_may_cut_anywhere(data: bytes, lines: int, block: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "FIRST_BLOCK", block)
        assert find_tail_start(Memory(data), "f", lines) == expected(data, lines)


def test_enough_bytes_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"x" * 500_000 + b"\n" + b"y" * 500_000 + b"\n" + b"z" * 500_000 + b"\n"
    assert find_tail_start(Memory(data), "f", 100) == 0
    monkeypatch.setattr(tail, "MAX_BYTES", 600_000)
    assert find_tail_start(Memory(data), "f", 100) == 1_000_002


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find_tail_start(FileSystem(), str(tmp_path / "no"), 1)


def test_what_stands_behind_a_hole_is_the_beginning_of_a_line() -> None:
    rows = b"".join(b"row %d\n" % number for number in range(10))
    assert find_tail_start(Memory(rows + bytes(3_000_000) + rows), "f", 32) == len(rows) + 3_000_000
    assert find_tail_start(Memory(rows + bytes(3_000_000) + rows), "f", 4) == len(rows) * 2 + 3_000_000 - 4 * 6


def test_a_hole_at_the_end_is_not_read_to_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "f"
    with path.open("wb") as file:
        file.write(b"row\n")
        file.truncate(1 << 40)
    assert find_tail_start(FileSystem(), str(path), 32) == 1 << 40


SIZED = 8
"""Bytes that the rows below begin with: a sign and their length."""


def sized_rows(rng: random.Random, count: int, longest: int) -> tuple[bytes, list[int]]:
    """Rows that say how long they are, and where each begins."""
    rows = [
        b"<row" + len(body).to_bytes(4, "little") + body
        for body in (bytes(rng.randint(0, longest)) for _ in range(count))
    ]
    return b"".join(rows), list(itertools.accumulate((len(row) for row in rows[:-1]), initial=0)) if rows else []


def sized_starts(data: bytes, offset: int) -> list[int]:
    """Where such rows begin in a piece of them; the last one in it may be cut off."""
    found, at = [], data.find(b"<row")
    while 0 <= at < len(data):
        found.append(offset + at)
        at += SIZED + int.from_bytes(data[at + 4 : at + SIZED], "little")
    return found


@given(st.integers(0, 2**32), st.integers(0, 80), st.integers(1, 90), st.integers(16, 3_000), st.integers(0, 300))
def test_rows_that_are_no_lines(seed: int, count: int, wanted: int, block: int, head_bytes: int) -> None:
    data, starts = sized_rows(random.Random(seed), count, 60)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tail, "FIRST_BLOCK", block)
        start, head = find_tail(Memory(data), "f", LastRows(wanted, sized_starts, head_bytes))
    assert start in {*starts, 0}
    assert head == data[: min(start, head_bytes)]
    least = min(wanted, tail.FEW_ROWS, count)
    assert sum(at >= start for at in starts) >= least
    if block >= len(data):
        assert start == (starts[-wanted] if wanted <= count else 0)


def test_rows_of_even_length_are_found_in_two_looks() -> None:
    row = b"<row" + (92).to_bytes(4, "little") + bytes(92)
    data = row * 100_000
    looked: list[tuple[int, int]] = []

    def starts(piece: bytes, offset: int) -> list[int]:
        looked.append((offset, len(piece)))
        return sized_starts(piece, offset)

    start, _ = find_tail(Memory(data), "f", LastRows(50_000, starts))
    assert start == len(data) - 50_000 * len(row)
    assert looked == [(len(data) - tail.FIRST_BLOCK, tail.FIRST_BLOCK), (start, tail.FIRST_BLOCK)]


def test_where_no_row_begins_the_end_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "MAX_BYTES", 2_000_000)
    assert find_tail(Memory(bytes(9_000_000)), "f", LastRows(4, sized_starts)) == (9_000_000, b"")
