"""Any bytes at all: no decoder raises, every byte is explained, and pieces are the whole."""

from __future__ import annotations

import json
import random
import re
import runpy
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from binary_files import event, frame, scalar_events
from examples import examples
from hypothesis import example, given
from hypothesis import strategies as st
from parquet_writer import parquet_bytes

from rltop.formats.console.decoder import ConsoleDecoder
from rltop.formats.csv import CsvDecoder
from rltop.formats.decoder import Decoder, DecoderOptions
from rltop.formats.json_document import DocumentDecoder
from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.kinds import AutoDecoder
from rltop.formats.tensorboard import TensorBoardDecoder
from rltop.formats.trace import ChromeTraceDecoder
from rltop.formats.wandb import MAGIC, WandbDecoder
from rltop.model import Record

TARGETS = runpy.run_path(str(Path(__file__).resolve().parents[2] / "bench" / "fuzz_target.py"))
PROMISES: dict[str, Callable[[bytes], None]] = TARGETS["PROMISES"]
SEEDS = {name: list(TARGETS["seeds"](name)) for name in PROMISES}
ON_DISK = ("tables", "completions", "dump", "database", "sqlite")
"""Of these every example is written to a file and read from there."""
PIECES = [
    b"\n",
    b"\r",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\xff",
    b"\xef\xbb\xbf",
    b"NaN",
    b",",
    b"1e999",
    bytes(12),
]
EXTREMES = [b"0", b"-1", b"5e-324", b"1e308", b"-1e308", b"1e999", b"NaN", b"9" * 30, b"9" * 5000]
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@st.composite
def damaged(draw: st.DrawFn, seeds: list[bytes]) -> bytes:
    """A valid file in which some bytes were changed, lost, doubled, or put in."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for _ in range(draw(st.integers(0, 5))):
        at, long = draw(st.integers(0, len(data))), draw(st.sampled_from([1, 2, 8, 100, 4000]))
        match draw(st.integers(0, 4)):
            case 0:
                data[at : at + 1] = draw(st.binary(max_size=2))
            case 1:
                del data[at : at + long]
            case 2:
                data[at:at] = data[at : at + long]
            case 3:
                data[at : at + long] = bytes(len(data[at : at + long]))
            case _:
                data[at:at] = draw(st.sampled_from(PIECES))
    return bytes(data)


@pytest.mark.parametrize("name", PROMISES)
def test_every_kind_of_file_keeps_the_promises_as_it_was_written(name: str) -> None:
    for data in SEEDS[name]:
        PROMISES[name](data)


@pytest.mark.parametrize("name", [name for name in PROMISES if name not in ON_DISK])
@examples(20)
@given(data=st.data())
def test_damaged_files_keep_the_promises(name: str, data: st.DataObject) -> None:
    PROMISES[name](data.draw(damaged(SEEDS[name])))


@pytest.mark.parametrize("name", [name for name in PROMISES if name not in ON_DISK])
def test_extreme_numbers_keep_the_promises(name: str) -> None:
    for i, data in enumerate(SEEDS[name]):
        for extreme in EXTREMES:
            dice = random.Random(i)
            PROMISES[name](_NUMBER.sub(lambda one, put=extreme: put if dice.random() < 0.2 else one[0], data))  # noqa: B023


FRAGMENTS = st.sampled_from(
    [
        *(b"step:3 - ", b" - ", b"a/b:", b"1.5", b"np.float64(", b")", b"\r", b"\n", b"Step 4: {", b"'k': ", b"}"),
        *(b"nan", b"\\", b"'", b'"', b",", b" 12/40 [", b" 10%|", b"| ", b"Traceback", b"ValueError: x", b"\x1b[31m"),
        *(b"\x1b]", b"[repeated", b"\0", b"'loss': 1, 'epoch': 0.5}", b"'train_runtime': 1, 'x': 2}", b"Step 2 | x:1"),
        *(b"{'", b"metrics_tag: {", b'"step": 1, "metrics": {'),
    ]
)  # fmt: skip
DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=4) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["step", "a", "1", "log_history", "max_steps"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@examples(150)
@given(st.lists(FRAGMENTS | st.binary(max_size=6), max_size=40).map(b"".join))
@example(b"\x1b]" * 40)
def test_what_looks_like_lines_of_a_console_keeps_the_promises(data: bytes) -> None:
    PROMISES["console"](data)


@given(st.text('",\n\r;\t1.se', max_size=80).map(str.encode))
def test_what_looks_like_a_table_keeps_the_promises(data: bytes) -> None:
    PROMISES["csv"](data)


@examples(100)
@given(DOCUMENTS)
def test_any_document_keeps_the_promises(document: object) -> None:
    PROMISES["document"](json.dumps(document).encode())


@pytest.mark.parametrize("name", ON_DISK)
@examples(20)
@given(data=st.data())
def test_damaged_dumps_keep_the_promises(name: str, data: st.DataObject) -> None:
    PROMISES[name](data.draw(damaged(SEEDS[name]) | st.binary(max_size=400)))


@pytest.mark.parametrize("name", [name for name in PROMISES if name not in ON_DISK])
@examples(20)
@given(data=st.binary(max_size=400))
def test_any_bytes_keep_the_promises(name: str, data: bytes) -> None:
    PROMISES[name](data)


def _tables() -> Iterator[bytes]:
    """A small table, again and again, each time with another bit of its footer turned over."""
    whole = bytearray(parquet_bytes({"step": [1, 1], "reward": [0.5, None], "prompt": ["a", "b"]}))
    footer = int.from_bytes(whole[-8:-4], "little")
    for bit in range(8 * (len(whole) - 8 - footer), 8 * len(whole)):
        whole[bit >> 3] ^= 1 << (bit & 7)
        yield bytes(whole)
        whole[bit >> 3] ^= 1 << (bit & 7)


def test_no_bit_of_a_footer_can_make_a_table_raise() -> None:
    for data in _tables():
        PROMISES["parquet"](data)


def test_a_damaged_table_in_an_archive_is_counted_and_the_others_are_read() -> None:
    whole = TARGETS["_fixture_tables"]()
    assert _rows_of(whole)[0]
    for name, table in whole.items():
        counts = []
        for at in (-9, -40, -200):
            damaged = bytearray(table)
            damaged[at] ^= 0x40
            left, counted = _rows_of(whole | {name: bytes(damaged)})
            assert left
            counts.append(counted)
        assert max(counts) == 1


def _rows_of(tables: dict[str, bytes]) -> tuple[list[Record], int]:
    """What an archive of these tables gives, and how much of it was refused."""
    decoder = AutoDecoder("tail.zip", DecoderOptions())
    data = TARGETS["_packed"](tables)
    found = [*decoder.feed(data, 0, 0), *decoder.finish()]
    assert not decoder.stopped
    return found, decoder.counts.bad_lines


def test_a_decoder_that_trips_all_the_same_ends_its_file_and_not_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = AutoDecoder("metrics.jsonl", DecoderOptions())
    row = b'{"step": 1, "loss": 0.5}\n' * 20
    assert decoder.feed(row, 0, 0)
    with monkeypatch.context() as patch:
        patch.setattr(JsonlDecoder, "feed", lambda *_: {}["nothing"])
        assert decoder.feed(row, len(row), 0) == []
    assert "KeyError" in decoder.stopped and decoder.counts.bad_lines == 1
    assert decoder.feed(row, 2 * len(row), 0) == []
    decoder.reset()
    assert not decoder.stopped and decoder.feed(row, 0, 0)


def test_the_first_bad_record_is_named_however_the_bytes_came() -> None:
    """One that is no message, and behind it a length that is none."""
    data = scalar_events((1, "a", 1.0)) + frame(event(1, b"\x0a\xff")) + frame(b"")[:8] + bytes(range(1, 30))
    named = []
    for cut in (len(data), len(data) - 20):
        decoder = TensorBoardDecoder()
        decoder.feed(data[:cut], 0, 0)
        decoder.feed(data[cut:], cut, 0)
        named.append((decoder.counts.first_bad_line, decoder.counts.bad_lines))
    assert named == [(2, 2), (2, 2)]


SIZE, PIECE = 32 * 1024, 4 * 1024


def hostile() -> Iterator[tuple[str, bytes]]:
    """32 KiB each of what takes much room for few bytes, or never ends."""
    yield "letters", b"a" * SIZE
    yield "braces", b"{" * SIZE
    yield "escapes", b'[{"name": "' + b"\\a" * (SIZE // 2)
    yield "zeros", bytes(SIZE)
    yield "nesting", b'{"a":' * (SIZE // 5) + b"\n"
    yield "objects", b"[" + b"{}," * (SIZE // 3) + b"{}]\n"
    yield "keys", b'{"step":1' + b"".join(b',"%x":1' % i for i in range(SIZE // 10)) + b"}\n"
    yield "an open quote", b'step,a\n1,"' + (b"x" * 63 + b"\n") * (SIZE // 64)
    yield "blocks", MAGIC + b"\1" * SIZE


MEMORY = {
    "jsonl": (JsonlDecoder, 40),
    "console": (ConsoleDecoder, 40),
    "csv": (CsvDecoder, 40),
    "document": (DocumentDecoder, 40),
    "trace": (ChromeTraceDecoder, 40),
    "tensorboard": (TensorBoardDecoder, 3),
    "wandb": (WandbDecoder, 3),
    "anything": (lambda: AutoDecoder("x", DecoderOptions()), 40),
}
"""How many times the size of its input a decoder may hold; a parsed `{}` takes 28 times what it takes on disk."""


@pytest.mark.parametrize("name", MEMORY)
def test_memory_is_a_multiple_of_the_input_at_most(name: str) -> None:
    make, factor = MEMORY[name]
    for what, data in hostile():
        decoder: Decoder = make()
        tracemalloc.start()
        try:
            for at in range(0, len(data), PIECE):
                decoder.feed(data[at : at + PIECE], at, 0)
            decoder.finish()
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < factor * len(data), (what, peak / len(data))
