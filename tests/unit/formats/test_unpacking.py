"""One budget for what is unpacked: what goes beyond it is refused, with its name, its size and the limit."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
import zstandard
from parquet_writer import parquet_bytes

from rltop.errors import DecodeError
from rltop.formats import parquet as parquet_module
from rltop.formats.decoder import MEMORY_BYTES, Allowance, unpack
from rltop.formats.parquet import ParquetTable, decompress_snappy
from rltop.formats.rollouts.files import StepFiles
from rltop.formats.rollouts.stores import Archives
from rltop.formats.telescope import TelescopeDecoder


def archive_of_zeros(path: Path | io.BytesIO, tables: Mapping[str, int]) -> None:
    """Tables of which the archive says that they are so many MB."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, size in tables.items():
            archive.writestr(f"{name}.parquet", bytes(1_000))
            archive.filelist[-1].file_size = size * 1_000_000


def test_a_budget_is_spent_once() -> None:
    allowance = Allowance(100)
    allowance.spend(60, "this")
    with pytest.raises(DecodeError, match="that: 120 bytes unpacked, limit 100"):
        allowance.spend(60, "that")


def test_an_archive_beyond_it_is_refused_before_it_is_unpacked() -> None:
    file = io.BytesIO()
    archive_of_zeros(file, {"prompts": 150, "samples_data": 150})
    decoder = TelescopeDecoder()
    records = decoder.feed(file.getvalue(), 0, 0)
    while decoder.has_more:
        records += decoder.decode_more()
    assert records == []
    assert decoder.counts.bad_lines == 1
    assert decoder.counts.first_bad_reason == (
        f"samples_data.parquet: 300,000,000 bytes unpacked, limit {MEMORY_BYTES:,}"
    )
    decoder.reset()
    decoder.feed(b"PK\x03\x04" + bytes(100), 0, 1)
    assert decoder.counts.bad_lines == 1


def test_the_rollouts_of_such_an_archive_say_why_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "steps").mkdir()
    archive_of_zeros(tmp_path / "steps" / "tail.zip", {"samples_data": 300})
    source = Archives(str(tmp_path))
    source.refresh()
    (note,) = source.notes
    assert note.startswith(str(tmp_path / "steps" / "tail.zip"))
    assert "samples_data.parquet: 300,000,000 bytes unpacked" in note


def test_a_table_that_is_larger_says_so(tmp_path: Path) -> None:
    path = tmp_path / "completions_00001.parquet"
    with path.open("wb") as file:
        file.truncate(MEMORY_BYTES + 1)
    source = StepFiles(str(tmp_path), "parquet", "completions_")
    source.refresh()
    assert source.read(1) == []
    assert any(str(MEMORY_BYTES + 1)[:3] in note and "limit" in note for note in source.notes), source.notes


def test_columns_count_as_what_they_are_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    parquet = ParquetTable(parquet_bytes({"a": [1] * 1_000, "b": [0.5] * 1_000}))
    assert len(parquet.read(("a", "b"))["b"]) == 1_000
    monkeypatch.setattr(parquet_module, "Allowance", lambda: Allowance(50_000))
    assert len(parquet.read(("a",))["a"]) == 1_000
    with pytest.raises(DecodeError, match="column b: "):
        parquet.read(("a", "b"))


def test_a_page_is_unpacked_no_further_than_it_says() -> None:
    with pytest.raises(ValueError, match="an impossible length"):
        decompress_snappy(b"\xc8\x01" + b"\x00a" + bytes(200), 100)
    assert unpack(zstandard.compress(bytes(100_000_000)), 1_000) == bytes(1_000)
