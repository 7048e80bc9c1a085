"""The store against the plainest thing that could hold the same rows."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from examples import examples
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from stores import contents, decoded, stream_of

from rltop.store import stream as stream_module
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


@examples(60)
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


@examples(60)
@given(growing_runs(), st.integers(1, 40))
def test_downsampling_loses_no_extreme_and_no_point(run, stride):
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


@examples(40)
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


@examples(40)
@given(metric_files(), st.lists(st.integers(1, 4000), max_size=12), st.booleans())
def test_any_split_of_the_bytes_gives_the_same_store(data, cuts, is_tiny):
    options = TINY if is_tiny else None
    whole, whole_decoder = decoded(data, (), options)
    split, split_decoder = decoded(data, cuts, options)
    assert contents(split) == contents(whole)
    assert split_decoder.counts == whole_decoder.counts


@st.composite
def restarted_runs(draw, max_rows=80):
    """Rows of training that go back now and then, and the rows that a reader may still see."""
    step, found, seen = 0, [], {}
    ways = st.one_of(st.just(-1), st.just(-1), st.just(-1), st.integers(0, 40))
    for back, row in draw(st.lists(st.tuples(ways, rows), min_size=1, max_size=max_rows)):
        is_back = back >= 0
        step = max(0, step - back)
        if is_back:
            seen = {known: held for known, held in seen.items() if known < step}
        number = float(len(found))
        # Every row has a training key of its own value: a repetition would be no restart.
        whole = {**row, "loss": number, "actor/lr": number}
        found.append((step, whole))
        seen[step] = {**seen.get(step, {}), **whole}
    return found, seen


def with_segments_kept(monkeypatch, kept, run, options=None):
    monkeypatch.setattr(stream_module, "SEGMENTS_KEPT", kept)
    return stream_of(run, options)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(restarted_runs(), st.sampled_from([2, 5, 64]))
def test_after_any_restarts_a_reader_sees_each_step_as_it_was_last_written(monkeypatch, run_and_seen, kept):
    run, seen = run_and_seen
    stream = with_segments_kept(monkeypatch, kept, run)
    assert len(stream.segments) <= kept + 1
    assert list(stream.steps()) == sorted(seen)
    series = stream.series("loss")
    assert dict(zip(series.steps, series.values, strict=True)) == {step: row["loss"] for step, row in seen.items()}
    for step, row in seen.items():
        held = stream.row(step)
        assert held["actor/lr"] == row["actor/lr"]
        assert all(held[key] == value for key, value in row.items())
    buckets = [b for b in stream.buckets("loss", 3, 0, max(seen) + 1) if b.count]
    assert sum(b.count for b in buckets) == len(seen)


@examples(60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(restarted_runs(), st.sampled_from([2, 5]), st.integers(1, 9))
def test_joined_segments_are_downsampled_without_losing_what_can_be_seen(monkeypatch, run_and_seen, kept, stride):
    run, seen = run_and_seen
    stream = with_segments_kept(monkeypatch, kept, run, StoreOptions(memory_bytes=2_000, head_rows=4))
    buckets = [b for b in stream.buckets("loss", stride, 0, max(seen) + 1) if b.count]
    assert min(b.low for b in buckets) <= min(row["loss"] for row in seen.values())
    assert max(b.high for b in buckets) >= max(row["loss"] for row in seen.values())
    assert sum(b.count for b in buckets) >= len(seen)
    assert all(a.last_step <= b.first_step or b.is_approximate for a, b in itertools.pairwise(buckets))
    latest = stream.latest("loss")
    assert latest is not None and latest == (run[-1][0], run[-1][1]["loss"])
    raw = stream.series("loss")
    assert all(seen[step]["loss"] == value for step, value in zip(raw.steps, raw.values, strict=True))


def test_two_writers_in_one_file_cost_no_more_than_their_rows():
    run = [(i // 2 + (100_000 if i % 2 else 1), {"loss": i / 7, "reward": 1.0}) for i in range(4_000)]
    stream = stream_of(run)
    assert len(stream.segments) <= 64
    assert sum(len(segment.blocks) for segment in stream.segments) < 200
    assert stream.rows == 4_000
    assert len(stream.steps()) >= 2_000


@pytest.mark.parametrize("memory_bytes", [1_000, 10**9])
def test_an_evaluation_that_is_late_across_a_restart_hides_nothing(memory_bytes):
    run = [(step, {"loss": float(step)}) for step in range(10, 200)]
    run += [(step, {"loss": -float(step)}) for step in range(150, 400)]
    stream = stream_of(
        [*run, (149, {"eval_loss": 3.0}), (5, {"eval_loss": 7.0})], StoreOptions(memory_bytes, head_rows=4)
    )
    assert stream.restarts == (150,)
    whole = stream.buckets("loss", 1_000, 0, 1_000)[0]
    assert whole.count >= 390
    assert whole.low == -399.0
    assert whole.high >= 149.0
    late = stream.buckets("eval_loss", 1_000, 0, 1_000)[0]
    assert (late.count, late.low, late.high) == (2, 3.0, 7.0)
    assert stream.first_step == 5
