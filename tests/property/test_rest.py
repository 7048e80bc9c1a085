"""A file that is looked at as if nothing more came: the same as its bytes so far, and nothing changes by looking."""

from __future__ import annotations

import bz2
import gzip
import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from examples import EXPLORES
from hypothesis import given
from hypothesis import strategies as st
from stores import contents
from tables import each_row

from rltop.formats.decoder import DecoderOptions
from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.kinds import AutoDecoder
from rltop.resources import folder
from rltop.rules.options import EngineOptions
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.store.series import StoreOptions
from rltop.store.stream import Stream


def files_of(name: str) -> list[Path]:
    suffixes = {".jsonl", ".log", ".csv", ".json", ".wandb"}
    found = [path for path in sorted((folder("fixtures") / name).rglob("*")) if path.suffix in suffixes]
    # Incidents differ in what goes wrong, not in how they are read.
    found = found[:: 4 if name == "incidents" and not EXPLORES else 1]
    return [path for path in found if path.stat().st_size < 200_000]


PLACES = ("console", "easyr1", "hostile", "incidents", "openrlhf", "trackers", "trl", "wandb")
FILES = [path for name in PLACES for path in files_of(name)]
SMALL_STORE = StoreOptions(memory_bytes=8_000)
"""So that old rows are downsampled: what a look shares is not only what is raw."""


def opened(path: Path) -> Pipeline:
    return Pipeline(AutoDecoder(path.name, DecoderOptions()), Stream("", SMALL_STORE), RuleRunner(EngineOptions({})))


def said(pipeline: Pipeline) -> object:
    """What a pipeline holds, and what its rules say."""
    rules = pipeline.sink
    assert isinstance(rules, RuleRunner)
    events = [event._replace(is_provisional=False) for event in rules.events]
    seen = None
    identity = pipeline.current_identity()
    if identity is not None:
        seen = [(one.rule, one.level, one.since_step, one.headline) for one in rules.peek(pipeline.stream, identity)[0]]
    raw = [block.data.tobytes() for segment in pipeline.stream.segments for block in segment.blocks]
    return contents(pipeline.stream), pipeline.decoder.counts, pipeline.decoder.failure, events, seen, raw


def decode(pipeline: Pipeline, data: bytes, offset: int) -> None:
    pipeline.take_bytes(data, offset, 0)
    while pipeline.decoder.has_more:
        pipeline.decode_more()


def utf16(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode("utf-16")


def look_between_pieces(path: Path, data: bytes) -> None:
    dice = random.Random(5)
    cuts = sorted({0, len(data), *(dice.randint(0, len(data)) for _ in range(3))})
    watched, plain = opened(path), opened(path)
    for start, stop in itertools.pairwise(cuts):
        for one in (watched, plain):
            decode(one, data[start:stop], start)
        look = watched.at_end()
        alone = opened(path)
        decode(alone, data[:stop], 0)
        if look is not None:
            alone.finish()
            assert said(look) == said(alone)
        assert said(watched) == said(plain)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}"[-60:])
def test_a_look_shows_what_the_bytes_so_far_hold_and_changes_nothing(path: Path) -> None:
    look_between_pieces(path, path.read_bytes())


@each_row("pack", [gzip.compress, bz2.compress, zstandard.compress, utf16])
def test_a_look_at_what_is_packed_does_not_spoil_what_is_unpacked_next(pack: Callable[[bytes], bytes]) -> None:
    for path in FILES[::12]:
        look_between_pieces(path, pack(path.read_bytes()))


ROW = st.dictionaries(
    st.sampled_from(["step", "loss", "note", "data", "b}"]),
    st.integers(0, 9) | st.floats(allow_nan=True) | st.text('a}{"\\ü', max_size=3) | st.just({"loss": 1.5}),
    max_size=4,
)


@given(rows=st.lists(ROW, max_size=6), ends=st.sampled_from(["\n", "\r\n", " \n"]), data=st.data())
def test_a_row_that_is_shown_before_its_line_has_ended_is_neither_lost_nor_doubled(rows, ends, data):
    text = "".join(json.dumps(row) + ends for row in rows).encode()
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    edges = sorted({0, len(text), *cuts})

    def read(*, looks: bool):
        decoder, records = JsonlDecoder(), []
        for start, stop in itertools.pairwise(edges):
            records += decoder.feed(text[start:stop], start, 0)
            if looks:
                records += decoder.flush()
                assert decoder.flush() == []
        records += decoder.finish()
        return [
            (one.step, one.schema.keys, bytes(one.values), one.marks, one.position) for one in records
        ], decoder.counts

    assert read(looks=True) == read(looks=False)
