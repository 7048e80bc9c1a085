"""Every format: however its bytes are cut, the same store, found out from the same first bytes."""

from __future__ import annotations

import bz2
import gzip
import itertools
import random
from pathlib import Path

import pytest
from stores import contents
from tables import each_row

from rltop.formats.decoder import DecoderOptions
from rltop.formats.kinds import AutoDecoder, may_hold_metrics
from rltop.resources import folder
from rltop.store.stream import Stream

SMALL = 600_000
FILES = sorted(
    path
    for path in folder("fixtures").rglob("*")
    if path.is_file() and may_hold_metrics(path.name) and path.stat().st_size < SMALL
)


def decoded(name: str, data: bytes, cuts: list[int]):
    decoder, stream = AutoDecoder(name, DecoderOptions()), Stream()
    edges = sorted({0, len(data), *cuts})
    for start, stop in itertools.pairwise(edges):
        for record in decoder.feed(data[start:stop], start, 0):
            stream.append(record)
    for record in decoder.finish():
        stream.append(record)
    stream.finish()
    return contents(stream), decoder.counts, decoder.kind


@each_row("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}"[-60:])
def test_any_cut_gives_the_same_store(path: Path):
    data = path.read_bytes()
    whole = decoded(path.name, data, [])
    rng = random.Random(7)
    for pieces in (1, 3, 40):
        cuts = [rng.randint(0, len(data)) for _ in range(pieces)]
        assert decoded(path.name, data, cuts) == whole
    assert decoded(path.name, data, list(range(min(len(data), 5_000)))) == whole


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress], ids=["gzip", "bzip2"])
def test_a_compressed_file_is_what_is_in_it(pack):
    path = folder("fixtures") / "trl" / "grpo_restart" / "metrics.jsonl"
    plain = decoded(path.name, path.read_bytes(), [])
    packed = pack(path.read_bytes())
    for cuts in ([], [1, 2, 3, 1000], list(range(0, len(packed), 97))):
        store, counts, _ = decoded(path.name + ".gz", packed, cuts)
        assert store["segments"] is not None
        assert [[row[:3] for row in segment] for segment in store["segments"]] == [
            [row[:3] for row in segment] for segment in plain[0]["segments"]
        ]
        assert counts.rows == plain[1].rows
