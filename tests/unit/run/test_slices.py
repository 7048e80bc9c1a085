"""Whatever the bytes are, a slice of a session ends soon: the screen and its keys wait for it."""

from __future__ import annotations

import bz2
import gzip
import json
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from parquet_writer import parquet_bytes

from rltop.clock import Clock
from rltop.formats.jsonl import JsonlDecoder
from rltop.model import Record
from rltop.run.options import IngestOptions
from rltop.run.pipeline import ENDLESS, Pipeline
from rltop.run.places import FoundRun
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed
from rltop.store.stream import Stream

LONGEST_S = 0.5
SLICE_MS = 4.0
ROW = json.dumps({"step": 1, "loss": 0.5, "reward": 0.25, "kl": 0.1}).encode() + b"\n"


def opened(path: Path) -> Session:
    clock = Clock()
    found = FoundRun(str(path), path.name, path.stat().st_size if path.is_file() else 0)
    return Session([found], lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock, IngestOptions())


def longest_slice_s(session: Session, most: int) -> float:
    """Processor time of the longest of the first slices, or of all of them."""
    longest = 0.0
    for _ in range(most):
        began_s = time.thread_time()
        has_more = session.step(SLICE_MS)
        longest = max(longest, time.thread_time() - began_s)
        if not has_more:
            break
    return longest


PACKED: dict[str, Callable[[bytes], bytes]] = {"gz": gzip.compress, "bz2": bz2.compress, "zst": zstandard.compress}


BAR = b"\r 10%|#    | 3/10000 [00:01<00:02, 3.3it/s]"
HOSTILE: dict[str, Callable[[], bytes]] = {
    "line ends.jsonl": lambda: b"\n" * 500_000,
    "comments.jsonl": lambda: b"# no row\n" * 40_000,
    "numbers.jsonl": lambda: b"".join(b'{"step":%d,"a":1}\n' % i for i in range(20_000)),
    "letters.jsonl": lambda: ROW + b"x" * (17 * 1024 * 1024) + b"\n",
    "text.jsonl": lambda: ROW + b'{"step":2,"t":"' + b"x" * (15 * 1024 * 1024) + b'"}\n',
    "nesting.jsonl": lambda: ROW + b"[" * 4_000_000 + b"]" * 4_000_000 + b"\n",
    "keys.jsonl": lambda: b'{"step":1' + b"".join(b',"k%d":1' % i for i in range(100_000)) + b"}\n",
    "columns.csv": lambda: b"step," + b",".join(b"k%d" % i for i in range(100_000)) + b"\n" + b"1," * 100_000 + b"1\n",
    "a line.log": lambda: b"INFO starts\n" + b"step:" * 3_000_000 + b"\n",
    "bars.log": lambda: b"INFO starts\n" + BAR * 20_000 + b"\n",
    "nesting.json": lambda: b'{"log_history": ' + b"[" * 2_000_000 + b"]" * 2_000_000 + b"}",
}
"""Few bytes that are much work, or no rows."""


@pytest.mark.parametrize("name", HOSTILE)
def test_bytes_that_are_much_work_are_worked_off_in_slices(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(HOSTILE[name]())
    assert longest_slice_s(opened(path), 20) < LONGEST_S


@pytest.mark.parametrize(
    ("what", "codec"), [(b"\n", "gz"), (b"\0", "zst"), *((ROW, codec) for codec in PACKED)], ids=str
)
def test_a_file_that_is_many_times_its_size_is_unpacked_in_slices(codec: str, what: bytes, tmp_path: Path) -> None:
    path = tmp_path / f"metrics.jsonl.{codec}"
    path.write_bytes(PACKED[codec](what * (2_000_000 // len(what))))
    assert longest_slice_s(opened(path), 12) < LONGEST_S


@pytest.mark.parametrize("codec", ["gz", "zst"])
def test_no_more_of_such_a_file_is_held_than_a_few_pieces(codec: str, tmp_path: Path) -> None:
    path = tmp_path / f"metrics.jsonl.{codec}"
    path.write_bytes(PACKED[codec](ROW * (28_000_000 // len(ROW))))
    session = opened(path)
    tracemalloc.start()
    try:
        longest_slice_s(session, 10)
        assert tracemalloc.get_traced_memory()[1] < 24 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_commands_that_print_decode_no_more_at_a_time_than_a_quarter_of_a_mebibyte(tmp_path: Path) -> None:
    sizes = []

    class Measured(JsonlDecoder):
        def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
            sizes.append(len(data))
            return super().feed(data, offset, generation)

    path = tmp_path / "metrics.jsonl"
    path.write_bytes(ROW * 20_000)
    Pipeline(Measured(), Stream("")).advance(DirectFeed(path), Clock(), ENDLESS)
    assert sum(sizes) == path.stat().st_size
    assert max(sizes) <= 256 * 1024


@pytest.mark.parametrize("indent", [None, 2])
def test_a_large_state_file_is_read_in_slices_and_again_after_a_rewrite(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "trainer_state.json"
    rows = [{"step": i, "epoch": i / 1000, **{f"m{j}": i / 7 + j for j in range(8)}} for i in range(2_501)]
    path.write_text(json.dumps({"best_metric": None, "log_history": rows[:-1], "max_steps": 50_000}, indent=indent))
    session = opened(path)
    run = session.runs[0]
    for count in (2_500, 2_501):
        deadline_s = time.monotonic() + 20
        while run.main.stream.rows < count and time.monotonic() < deadline_s:
            # A document on one line may always go on: it is read when nothing more has come for a moment.
            assert longest_slice_s(session, 10_000) < LONGEST_S
            time.sleep(0.01)
        assert (run.main.stream.rows, run.main.stream.total_steps) == (count, 50_000)
        path.write_text(json.dumps({"best_metric": 1.0, "log_history": rows, "max_steps": 50_000}, indent=indent))
    assert len(run.main.stream.segments) == 1


def test_the_tables_of_a_large_archive_are_read_beside_the_screen(tmp_path: Path) -> None:
    (tmp_path / "files" / "steps").mkdir(parents=True)
    count = 20_000
    with zipfile.ZipFile(tmp_path / "files" / "steps" / "tail.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("prompts.parquet", parquet_bytes({"step": [1], "group_id": [1]}))
        table = {"step": [i // 20 for i in range(count)], "metric": [f"m{i % 20}" for i in range(count)]}
        archive.writestr("metrics.parquet", parquet_bytes({**table, "value": [0.5] * count}))
    session = opened(tmp_path / "files")
    run, deadline_s = session.runs[0], time.monotonic() + 20
    while run.main.stream.rows < 998 and time.monotonic() < deadline_s:
        assert longest_slice_s(session, 10_000) < LONGEST_S
        time.sleep(0.01)
    assert run.main.stream.rows >= 998
