"""Compressed history in front of another decoder."""

from __future__ import annotations

import bz2
import gzip
import json
import sys

import pytest
import zstandard
from stores import read_in_pieces
from tables import each_row

from rltop.cli.open_session import direct
from rltop.clock import FakeClock
from rltop.errors import SourceError
from rltop.formats.compressed import CompressedDecoder
from rltop.formats.decoder import Codec, DecoderOptions, codec_of
from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.kinds import MOST_LAYERS, AutoDecoder
from rltop.run.discover import discover
from rltop.run.session import Session
from rltop.sources.events import ONCE
from rltop.sources.feed import DirectFeed

LINES = b"".join(json.dumps({"step": i, "a": i / 7}).encode() + b"\n" for i in range(2000))
PACKED = {Codec.GZIP: gzip.compress, Codec.BZIP2: bz2.compress}


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [37, 4096, 1 << 20])
def test_the_rows_are_those_of_the_plain_file(codec, size):
    packed = PACKED[codec](LINES)
    assert codec_of(packed[:4]) is codec
    decoder = CompressedDecoder(codec, JsonlDecoder())
    plain = JsonlDecoder()
    assert [r[:2] + tuple(r.values) for r in read_in_pieces(decoder, packed, size)] == [
        r[:2] + tuple(r.values) for r in read_in_pieces(plain, LINES)
    ]
    assert decoder.note == ""
    assert decoder.counts.rows == 2000


def test_places_count_decompressed_bytes():
    records = read_in_pieces(CompressedDecoder(Codec.GZIP, JsonlDecoder()), gzip.compress(LINES))
    assert LINES[records[7].position.offset :].startswith(b'{"step": 7,')


@pytest.mark.parametrize("codec", PACKED)
def test_members_in_a_row_and_padding_are_one_stream(codec):
    half = LINES.index(b'{"step": 1000,') + 5
    packed = PACKED[codec](LINES[:half]) + PACKED[codec](LINES[half:]) + b"\0" * 512
    decoder = CompressedDecoder(codec, JsonlDecoder())
    assert len(read_in_pieces(decoder, packed, 100)) == 2000
    assert decoder.note == ""


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [100, 4096, 1 << 20])
def test_members_in_a_row_may_each_be_larger_than_a_slice(codec, size):
    """zlib gives the bytes behind a member twice if the call before had reached its output limit."""
    row = b'{"step": 1, "a": 2}\n' * 4000
    decoder = CompressedDecoder(codec, JsonlDecoder())
    records = read_in_pieces(decoder, PACKED[codec](row) * 5, size)
    assert (len(records), decoder.note) == (20_000, "")


@pytest.mark.parametrize("codec", PACKED)
def test_a_truncated_stream_keeps_what_was_decoded(codec):
    # bzip2 gives out whole blocks only; its smallest are 100 kB.
    packed = gzip.compress(LINES) if codec is Codec.GZIP else bz2.compress(LINES * 8, 1)
    decoder = CompressedDecoder(codec, JsonlDecoder())
    records = read_in_pieces(decoder, packed[: len(packed) * 3 // 4])
    assert len(records) > 100
    assert [record.step for record in records[:2000]] == list(range(len(records[:2000])))
    assert "cut, or still being written" in decoder.note
    # Neither that nor the row in which it ends is a bad line.
    assert (decoder.counts.cut_streams, decoder.counts.bad_lines) == (1, 0)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [1, 3, 97])
def test_what_comes_behind_the_damage_is_passed_over(codec, size):
    # libbz2 may not be asked again: it raises something else then, or writes where it must not.
    damaged = PACKED[codec](b"hello world " * 3)[: 48 if codec is Codec.BZIP2 else 14] + bytes(200)
    decoder = CompressedDecoder(codec, JsonlDecoder())
    records = read_in_pieces(decoder, PACKED[codec](LINES) + damaged, size)
    assert "damaged" in decoder.note
    assert len(records) == 2000


def test_a_damaged_stream_is_counted_and_a_new_file_is_read():
    packed = bytearray(gzip.compress(LINES))
    packed[-6] ^= 0xFF  # the check sum
    decoder = CompressedDecoder(Codec.GZIP, JsonlDecoder())
    records = read_in_pieces(decoder, bytes(packed))
    assert 0 < len(records) < 2000
    assert "damaged" in decoder.note
    assert decoder.counts.bad_lines >= 1
    decoder.reset()
    assert len(read_in_pieces(decoder, gzip.compress(LINES))) == 2000


def test_a_bomb_is_read_in_slices(monkeypatch):
    sizes = []

    class Counting(JsonlDecoder):
        def feed(self, data, offset, generation):
            sizes.append(len(data))
            return super().feed(data, offset, generation)

    decoder = CompressedDecoder(Codec.GZIP, Counting())
    read_in_pieces(decoder, gzip.compress(b"x" * (20 * 1024 * 1024)))
    assert sum(sizes) == 20 * 1024 * 1024
    assert max(sizes) <= 16 * 1024
    assert decoder.counts.oversize_lines == 1


def test_a_bomb_of_line_ends_is_given_up_and_said():
    decoder = CompressedDecoder(Codec.BZIP2, JsonlDecoder())
    packed = bz2.compress(LINES) + bz2.compress(b"\n" * 9_000_000) * 200
    records = read_in_pieces(decoder, packed)
    assert len(records) == 2000
    assert "far more than any log" in decoder.note
    assert decoder.unpacked_bytes < 4_000_000
    assert decoder.counts.bad_lines == 1
    decoder.reset()
    assert len(read_in_pieces(decoder, bz2.compress(LINES))) == 2000


def test_a_hole_of_gigabytes_and_wide_rows_that_hardly_change_are_read():
    """A log that was truncated while it was written begins with a hole as long as what was in it."""
    hole = bz2.compress(bytes(45_000_000)) * 4
    wide = b"".join(
        b'{"step": %d, %s}\n' % (step, b", ".join(b'"k%d": 0.0' % i for i in range(300))) for step in range(999)
    )
    decoder = CompressedDecoder(Codec.BZIP2, JsonlDecoder())
    assert len(read_in_pieces(decoder, hole + bz2.compress(wide) * 35)) == 35 * 999
    assert decoder.note == ""


def test_without_its_package_zstd_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    assert codec_of(b"\x28\xb5\x2f\xfd\x00") is Codec.ZSTD
    with pytest.raises(SourceError, match="zstandard"):
        CompressedDecoder(Codec.ZSTD, JsonlDecoder())


def test_a_file_that_cannot_be_unpacked_says_so_is_counted_and_leaves_the_next_one_alone(monkeypatch):
    monkeypatch.setitem(sys.modules, "zstandard", None)
    decoder = AutoDecoder("m.jsonl", DecoderOptions())
    assert read_in_pieces(decoder, zstandard.ZstdCompressor().compress(LINES), 100) == []
    assert "zstandard cannot be imported" in decoder.stopped
    assert decoder.counts.bad_lines == 1
    decoder.reset(is_restart=False)
    assert decoder.stopped == ""
    assert len(decoder.feed(LINES, 0, 1)) == 2000


@each_row("layers", [MOST_LAYERS, MOST_LAYERS + 1, 200])
def test_so_many_layers_of_compression_are_taken_off_and_no_more(layers):
    packed = LINES
    for _ in range(layers):
        packed = gzip.compress(packed)
    decoder = AutoDecoder("m.jsonl.gz", DecoderOptions())
    records = decoder.feed(packed, 0, 0) + decoder.finish()
    assert len(records) == (2000 if layers == MOST_LAYERS else 0)
    assert ("compressed more than" in decoder.stopped) is (layers > MOST_LAYERS)


def test_zstd_rows_are_those_of_the_plain_file():
    packed = zstandard.ZstdCompressor().compress(LINES)
    decoder = CompressedDecoder(Codec.ZSTD, JsonlDecoder())
    assert len(read_in_pieces(decoder, packed + packed, 100)) == 4000


def test_plain_text_has_no_codec():
    assert codec_of(b'{"st') is None


@pytest.mark.parametrize("codec", PACKED)
def test_a_piece_is_decoded_at_a_time(codec):
    decoder = CompressedDecoder(codec, JsonlDecoder())
    packed = PACKED[codec](LINES * 5)
    calls = [decoder.feed(packed, 0, 0)]
    while decoder.has_more:
        calls.append(decoder.decode_more())
    assert sum(map(len, calls)) == 10_000
    assert max(map(len, calls)) < 1_000
    assert decoder.finish() == []


def test_what_is_packed_twice_is_unpacked_piece_by_piece_too():
    inner = AutoDecoder("x.jsonl.gz.gz", DecoderOptions())
    packed = gzip.compress(gzip.compress(LINES * 5))
    calls = [inner.feed(packed, 0, 0)]
    while inner.has_more:
        calls.append(inner.decode_more())
    assert sum(map(len, calls)) == 10_000
    assert max(map(len, calls)) < 1_000


@each_row(
    ("encoding", "size", "end", "lines"),
    [("utf-16-le", 1, b"\n", 99), ("utf-16-le", 4097, b"\r\n", 2000), ("utf-16-be", 977, b"\n", 2000)],
)
def test_utf_16_as_powershell_redirects_into_is_the_text(encoding, size, end, lines):
    """And as much as has been written of it: there is no end that could be missing."""
    text = "\ufeff" + end.join([*LINES.split(b"\n")[:lines], b""]).decode().replace('"a"', '"reward/größe"')
    decoder = AutoDecoder("train.jsonl", DecoderOptions())
    records = read_in_pieces(decoder, text.encode(encoding)[: -(len(end) * 2)], size)
    assert [record.step for record in records] == list(range(lines))
    assert records[7].schema.keys == ("reward/größe",)
    assert (decoder.stopped, decoder.counts.bad_lines, decoder.counts.nul_bytes) == ("", 0, 0)


@each_row("encoding", ["utf-16-le", "utf-16-be"])
def test_an_indented_document_in_utf_16_without_a_mark_is_read(encoding):
    text = json.dumps({"log_history": [{"step": step, "loss": 0.5} for step in range(9)]}, indent=2)
    decoder = AutoDecoder("trainer_state.json", DecoderOptions())
    assert len(read_in_pieces(decoder, text.encode(encoding))) == 9


@each_row(("encoding", "mark"), [("utf-16-le", ""), ("utf-16-be", ""), ("utf-16-le", "\ufeff")])
def test_a_large_file_in_utf_16_is_read_once(tmp_path, encoding, mark):
    """Were its NULs holes of a text, each would take a read of the file's next megabyte: an hour."""
    path = tmp_path / "train.jsonl"
    path.write_bytes((mark + LINES.decode() * 20).encode(encoding))
    session = Session(discover([str(path)]).found, direct(FakeClock(), ONCE), FakeClock())
    session.drain()
    counts = session.runs[0].main.counts
    assert (counts.lines, counts.bad_lines, counts.nul_bytes) == (40_000, 0, 0)
    session.close()


def test_a_file_in_utf_16_is_followed(tmp_path):
    path = tmp_path / "train.log"
    line = "step:{} - actor/pg_loss:0.5 - critic/score/mean:0.25 - perf/throughput:9.0\r\n"
    path.write_bytes(("\ufeff" + line.format(1)).encode("utf-16-le"))
    clock = FakeClock()
    session = Session(discover([str(path)]).found, lambda each, rows: DirectFeed(each, clock=clock, last=rows), clock)
    session.drain()
    for step in range(2, 9):
        with path.open("ab") as file:
            file.write(line.format(step).encode("utf-16-le"))
        session.drain()
    stream = session.runs[0].main.stream
    assert (stream.last_step, list(stream.keys)) == (8, ["actor/pg_loss", "critic/score/mean", "perf/throughput"])
    session.close()
