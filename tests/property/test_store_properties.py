"""The store against the plainest thing that could hold the same rows."""

from __future__ import annotations

import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st
from stores import contents, decoded, stream_of

from rltop.store.series import StoreOptions

KEYS = ["loss", "actor/grad_norm", "critic/score/mean", "val-core/gsm8k/acc/mean@1", "timing_s/step", "b", "c"]
finite = st.floats(allow_nan=False, allow_infinity=False, width=32)
rows = st.dictionaries(st.sampled_from(KEYS), finite, min_size=1)
TINY = StoreOptions(memory_bytes=6_000, head_rows=16)


@st.composite
def growing_runs(draw, max_rows=400):
    """Rows whose steps only grow."""
    step, found = 0, []
    for gap, row in draw(st.lists(st.tuples(st.integers(1, 3), rows), min_size=1, max_size=max_rows)):
        step += gap
        found.append((step, row))
    return found


@settings(max_examples=60, deadline=None)
@given(growing_runs())
def test_the_ring_holds_what_a_dict_would(run):
    stream = stream_of(run)
    for key in KEYS:
        expected = [(step, row[key]) for step, row in run if key in row]
        series = stream.series(key)
        assert [(s, v) for s, v in zip(series.steps, series.values, strict=True) if v == v] == expected
        latest = stream.latest(key)
        assert (tuple(latest) if latest else None) == (expected[-1] if expected else None)
    assert list(stream.steps()) == [step for step, _ in run]


@settings(max_examples=60, deadline=None)
@given(growing_runs(), st.integers(1, 40))
def test_folding_loses_no_extreme_and_no_point(run, stride):
    stream = stream_of(run, TINY)
    last = run[-1][0]
    for key in KEYS:
        values = [row[key] for _, row in run if key in row]
        buckets = [b for b in stream.buckets(key, stride, 1, last + 1) if b.count]
        assert sum(b.count for b in buckets) == len(values)
        if values:
            assert min(b.low for b in buckets) == min(values)
            assert max(b.high for b in buckets) == max(values)
            total = sum(b.mean * b.count for b in buckets)
            assert math.isclose(total, sum(values), rel_tol=1e-6, abs_tol=1e-6 * sum(map(abs, values)) + 1e-30)


@settings(max_examples=40, deadline=None)
@given(growing_runs())
def test_the_newest_rows_stay_raw_and_the_first_ones_too(run):
    stream = stream_of(run, TINY)
    raw = list(stream.steps())
    assert raw == [step for step, _ in run][-len(raw) :]
    head = stream.head(next(iter(run[0][1])))
    assert list(head.steps) == [step for step, _ in run][: len(head.steps)]
    assert len(head.steps) == min(len(run), 16)
    for key in KEYS:
        expected = next(((s, r[key]) for s, r in reversed(run) if key in r), None)
        latest = stream.latest(key)
        assert (tuple(latest) if latest else None) == expected


@st.composite
def metric_files(draw):
    """Bytes as trainers leave them: restarts, late rows, literals, broken lines."""
    lines: list[bytes] = []
    step = 0
    for _ in range(draw(st.integers(1, 40))):
        kind = draw(st.integers(0, 12))
        step = max(0, step + (draw(st.integers(-6, 0)) if kind == 0 else 1))
        row = draw(rows)
        if kind == 1:
            row["loss"] = draw(st.sampled_from([math.nan, math.inf, -math.inf, None]))
        if kind == 2:
            lines.append(draw(st.sampled_from([b"", b"not json", b'{"step": 3', b"\xff\xfe", b"[1]", b"\0\0", b"{}"])))
        nested = draw(st.booleans())
        text = json.dumps({"step": step, "data": row} if nested else {"step": step, **row})
        lines.append(text.encode() + (b"\r" if kind == 3 else b""))
    return b"\n".join(lines) + draw(st.sampled_from([b"", b"\n"]))


@settings(max_examples=150, deadline=None)
@given(metric_files(), st.lists(st.integers(1, 4000), max_size=12), st.booleans())
def test_any_split_of_the_bytes_gives_the_same_store(data, cuts, is_tiny):
    options = TINY if is_tiny else None
    whole, whole_decoder = decoded(data, (), options)
    split, split_decoder = decoded(data, cuts, options)
    assert contents(split) == contents(whole)
    assert split_decoder.counts == whole_decoder.counts


@settings(max_examples=25, deadline=None)
@given(metric_files())
def test_one_byte_at_a_time_gives_the_same_store(data):
    assert contents(decoded(data, range(len(data)))[0]) == contents(decoded(data)[0])
