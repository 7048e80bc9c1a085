"""Parquet tables: what pyarrow wrote, what the plain writer of the tests writes, and what is no table at all."""

from __future__ import annotations

import json
import math
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from parquet_writer import parquet_bytes
from tables import each_row

from rltop.errors import DecodeError, SourceError
from rltop.formats.parquet import ParquetTable, decompress_snappy

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures" / "parquet"
WRITTEN = sorted(path.name for path in FIXTURES.glob("*.parquet"))


@each_row("name", WRITTEN)
def test_every_codec_and_page_that_pyarrow_writes_is_read(name: str) -> None:
    table = ParquetTable((FIXTURES / name).read_bytes())
    expected = json.loads((FIXTURES / "expected.json").read_text())
    assert set(table.columns) == set(expected), "a nested column is not among them"
    assert table.read(expected) == expected


def test_a_codec_without_its_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "zstandard", None)
    with pytest.raises(SourceError, match="zstandard"):
        ParquetTable((FIXTURES / "zstd.parquet").read_bytes()).read(["step"])


CELLS = st.one_of(
    st.lists(st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1)), max_size=40),
    st.lists(st.one_of(st.none(), st.floats(allow_nan=False)), max_size=40),
    st.lists(st.one_of(st.none(), st.text(max_size=9)), max_size=40),
    st.lists(st.one_of(st.none(), st.booleans()), max_size=40),
)


@given(CELLS)
def test_a_column_comes_back_as_it_was_written(cells: list[object]) -> None:
    table = ParquetTable(parquet_bytes({"one": cells}))
    assert table.rows == len(cells)
    assert table.read(["one"]) == {"one": cells}


def test_only_the_columns_that_are_there_are_given() -> None:
    table = ParquetTable(parquet_bytes({"step": [1, 2], "value": [0.5, None]}))
    assert table.read(["value", "no such"]) == {"value": [0.5, None]}


@given(st.binary(max_size=200))
def test_what_is_no_table_is_refused(raw: bytes) -> None:
    with pytest.raises(DecodeError):
        ParquetTable(raw)


def test_a_header_cannot_promise_more_rows_than_are_read() -> None:
    raw = parquet_bytes({"step": [1]})
    grown = raw[:-8] + raw[-8:]
    assert ParquetTable(grown).rows == 1
    # The number of rows of the only group, as a varint of the same footer.
    many = parquet_bytes({"step": [None] * 3}).replace(b"\x16\x06", b"\x16\xff\xff\xff\xff\x7f")
    size = many.rindex(b"PAR1") - 4
    footer = int.from_bytes(many[size : size + 4], "little") + 4
    with pytest.raises(DecodeError):
        ParquetTable(many[:size] + footer.to_bytes(4, "little") + b"PAR1").read(["step"])


def test_snappy_literals_and_copies() -> None:
    assert decompress_snappy(b"\x05\x10hello") == b"hello"
    # A literal of three bytes, then nine bytes copied from three back: a copy may overlap what it makes.
    assert decompress_snappy(bytes([12, 2 << 2]) + b"abc" + bytes([(9 - 1) << 2 | 2, 3, 0])) == b"abc" * 4


@given(
    st.lists(
        st.one_of(st.binary(min_size=1, max_size=60), st.tuples(st.integers(0, 300), st.integers(1, 64))), max_size=9
    ),
    st.integers(0, 300),
    st.integers(0, 255),
)
def test_a_block_of_snappy_is_what_was_packed_and_a_damaged_one_is_bytes_or_a_value_error(
    parts: list[bytes | tuple[int, int]], place: int, other: int
) -> None:
    block, out = b"\x00a", b"a"
    for part in parts:
        if isinstance(part, bytes):
            block += bytes([(len(part) - 1) << 2]) + part
            out += part
        else:
            back, length = 1 + part[0] % len(out), part[1]
            block += bytes([(length - 1) << 2 | 2]) + back.to_bytes(2, "little")
            out += (out[-back:] * length)[:length]
    raw = bytearray(bytes([len(out) & 127 | 128, len(out) >> 7]) + block)
    assert decompress_snappy(bytes(raw)) == out
    raw[place % len(raw)] = other
    with suppress(ValueError):
        assert len(decompress_snappy(bytes(raw))) <= 24 * len(raw)


def test_numbers_that_are_not_finite_stay_what_they_are() -> None:
    (value,) = ParquetTable(parquet_bytes({"v": [math.inf]})).read(["v"])["v"]
    assert value == math.inf
