"""What is kept of a stream is what the store would say, whatever happened in between."""

from __future__ import annotations

import json

from examples import examples
from fake_run import run_of, verl_lines
from hypothesis import given
from hypothesis import strategies as st

from rltop.formats.decoder import DecoderOptions
from rltop.formats.jsonl import JsonlDecoder
from rltop.rows.sparkline import anchored_window
from rltop.run.snapshot import Memo
from rltop.store.series import StoreOptions
from rltop.store.stream import Stream
from rltop.trainers import ALL


@given(
    st.lists(
        st.tuples(st.integers(1, 60), st.sampled_from("ab"), st.floats(-5, 5) | st.none()), min_size=1, max_size=60
    ),
    st.integers(2, 30),
)
@examples(60)
def test_columns_from_memory_are_those_of_the_store(rows: list[tuple[int, str, float | None]], columns: int) -> None:
    stream = Stream("", StoreOptions(memory_bytes=4096))
    memo, decoder = Memo(stream), JsonlDecoder(DecoderOptions())
    offset = 0
    for step, key, value in rows:
        line = json.dumps({"step": step, "data": {key: value}}).encode() + b"\n"
        for record in decoder.feed(line, offset, 0):
            stream.append(record)
        offset += len(line)
        first, last = stream.first_step, stream.last_step
        if first is None or last is None or last < first:
            continue
        window = anchored_window(first, last, 1, columns)
        for stop in (last + 1, (first + last) // 2 + 1, window.stop):
            fresh = stream.buckets("a", window.stride, window.start, stop)
            assert repr(memo.buckets("a", window.stride, window.start, stop)) == repr(fresh)


def test_timings_from_memory_belong_to_their_plan_and_to_the_newest_row() -> None:
    plan = next(dialect.timing for dialect in ALL if dialect.name == "veRL")
    assert plan is not None
    rows = [(step, {"timing_s/step": 10.0 + step, "timing_s/gen": 5.0, "actor/loss": 1.0}) for step in range(1, 5)]
    run = run_of(verl_lines(rows))
    for _ in range(2):
        timing = next(run.memo.timings(plan, [2]))
        assert timing.total_s == 12.0
    assert list(run.memo.timings(plan, [99])) == [None]
