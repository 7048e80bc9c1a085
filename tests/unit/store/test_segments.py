"""What a row that goes back in time means."""

from __future__ import annotations

import random

import pytest
from stores import record, stream_of

from rltop.model import NonFinite
from rltop.store.series import StoreOptions
from rltop.store.stream import SEGMENTS_KEPT, Stream

T = "loss"  # written by training
V = "eval_loss"  # written by an evaluation


def steps(stream, key=T):
    series = stream.series(key)
    return [(s, v) for s, v in zip(series.steps, series.values, strict=True) if v == v]


def test_rows_of_one_step_merge_key_by_key_and_the_last_write_wins():
    stream = stream_of([(1, {T: 1.0}), (1, {V: 5.0}), (1, {T: 2.0}), (2, {T: 3.0})])
    assert stream.row(1) == {T: 2.0, V: 5.0}
    assert stream.rows == 2


def test_a_training_row_at_a_passed_step_opens_a_segment_and_clips_the_old_one():
    stream = stream_of([(1, {T: 1.0}), (2, {T: 2.0}), (3, {T: 3.0}), (2, {T: 20.0}), (3, {T: 30.0})])
    assert stream.restarts == (2,)
    assert steps(stream) == [(1, 1.0), (2, 20.0), (3, 30.0)]
    assert stream.rows == 5


def test_a_late_evaluation_row_is_not_a_restart():
    stream = stream_of([(1, {T: 1.0}), (2, {T: 2.0}), (3, {T: 3.0}), (2, {V: 9.0})])
    assert stream.restarts == ()
    assert stream.value(V, 2) == 9.0
    assert stream.counts.late_rows == 1


def test_a_late_evaluation_row_that_repeats_its_key_is_not_a_restart():
    stream = stream_of([(1, {T: 1.0, V: 4.0}), (2, {T: 2.0}), (1, {V: 9.0})])
    assert stream.restarts == ()
    assert stream.value(V, 1) == 9.0


def test_disjoint_keys_at_a_passed_step_merge_into_it():
    stream = stream_of([(1, {T: 1.0}), (2, {T: 2.0}), (1, {"orchestrator/queue": 7.0})])
    assert stream.restarts == ()
    assert stream.row(1) == {T: 1.0, "orchestrator/queue": 7.0}


def test_an_identical_rewrite_is_ignored_and_counted():
    stream = stream_of([(1, {T: 1.0}), (2, {T: 2.0}), (1, {T: 1.0})])
    assert stream.restarts == ()
    assert stream.counts.repeated_rows == 1
    assert len(stream.closed) == 1


def test_a_row_that_fills_the_hole_between_two_steps_is_late_not_a_restart():
    stream = stream_of([(1, {T: 1.0}), (3, {T: 3.0}), (2, {T: 2.0})])
    assert stream.restarts == ()
    assert steps(stream) == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_resume_between_logged_steps_is_a_restart():
    stream = stream_of([(10, {T: 1.0}), (20, {T: 2.0}), (30, {T: 3.0}), (22, {T: 4.0}), (32, {T: 5.0})])
    assert stream.restarts == (22,)
    assert steps(stream) == [(10, 1.0), (20, 2.0), (22, 4.0), (32, 5.0)]


def test_tags_written_one_after_the_other_are_one_run_and_a_restart_among_them_is_one():
    groups = (("loss", 0), ("kl", 3), ("reward", 6))

    def written(first, last):
        return [(step * 10 + off, {tag: step + off / 10}) for tag, off in groups for step in range(first, last)]

    rows = written(1, 30)
    stream = stream_of(rows)
    assert stream.restarts == ()
    assert all(stream.value(tag, step) == value for step, row in rows for tag, value in row.items())
    again = [(step, {tag: value + 100.0 for tag, value in row.items()}) for step, row in written(21, 40)]
    stream = stream_of(rows + again)
    assert stream.restarts == (210,)
    assert stream.first_step == 10
    assert all(stream.value(tag, step) == value for step, row in again for tag, value in row.items())


def test_a_group_that_lags_a_few_steps_and_a_checkpoint_between_its_steps():
    def rows(first, last):
        for step in range(first, last):
            yield step * 128, {"sps": 1.0 * step}
            yield from ((step * 128 - back, {"episode": 1.0 * step - back}) for back in (91, 57, 3))

    assert stream_of(rows(1, 40)).restarts == ()
    assert stream_of([*rows(1, 40), *((step + 1, row) for step, row in rows(30, 50))]).restarts == (30 * 128 + 1 - 91,)


def test_behind_a_single_row_that_is_far_ahead_the_run_begins():
    """As behind a configuration in which `steps` is how many there are to be."""
    rows = [(step, {T: 1.0 * step, "reward": 0.5, "kl": 0.1}) for step in range(1, 20)]
    assert stream_of([(500, {"lr": 1e-6, "batch_size": 8.0}), *rows]).restarts == (1,)


def test_more_kinds_of_rows_than_are_remembered_still_restart():
    kinds = [(step, {T: 1.0, f"env_{step}/reward": 2.0}) for step in range(1, 1_500)]
    assert stream_of([*kinds, (700, {T: 5.0, "new": 1.0})], StoreOptions(max_keys=4_000)).restarts == (700,)


def test_a_restart_hides_where_the_part_before_it_was_not_finite():
    stream = stream_of([(1, {T: NonFinite.NAN}), (2, {T: 1.0}), (3, {T: NonFinite.NAN}), (2, {T: 2.0}), (3, {T: 3.0})])
    assert [mark.step for mark in stream.marks(T)] == [1]
    assert stream.mark_count(T) == 2


def test_an_earlier_restart_hides_every_segment_behind_it():
    stream = stream_of([(1, {T: 1.0}), (2, {T: 2.0}), (3, {T: 3.0}), (3, {V: 1.0}), (2, {T: 20.0}), (1, {T: 10.0})])
    assert stream.restarts == (2, 1)
    assert steps(stream) == [(1, 10.0)]


def test_a_truncated_file_opens_a_segment_even_if_steps_go_on():
    stream = stream_of([(1, {T: 1.0}), (2, {T: 2.0})])
    stream.expect_restart()
    stream.append(record(3, {T: 3.0}))
    assert stream.restarts == (3,)
    assert steps(stream) == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_after_a_truncation_an_evaluation_alone_does_not_hide_the_old_part():
    stream = stream_of([(1, {T: 1.0}), (2, {T: 2.0})])
    stream.expect_restart()
    stream.append(record(1, {V: 3.0}))
    assert stream.restarts == ()
    stream.append(record(2, {T: 5.0}))
    assert stream.restarts == (2,)


def test_rows_close_in_file_order_and_the_last_one_when_the_run_ends():
    stream = stream_of([(1, {T: 1.0}), (1, {V: 2.0}), (2, {T: 2.0}), (1, {V: 3.0})])
    assert [(row.step, row.columns is not None) for row in stream.closed] == [(1, False), (1, True)]
    stream.finish()
    stream.finish()
    assert [row.step for row in stream.closed] == [1, 1, 2]


def test_a_null_is_a_mark_only_where_a_number_stood_before():
    stream = stream_of([(1, {"ast": NonFinite.NULL, T: 1.0}), (2, {"ast": NonFinite.NULL, T: NonFinite.NULL})])
    assert [tuple(mark) for mark in stream.marks(T)] == [(2, NonFinite.NULL)]
    assert stream.marks("ast") == []
    assert stream.counts.null_values == 2
    assert stream.value(T, 2) is None


def test_a_null_between_evaluations_is_no_mark():
    null = {"val_accuracy": NonFinite.NULL}
    stream = stream_of([(step, {T: 1.0, **({"val_accuracy": 0.5} if step % 10 == 0 else null)}) for step in range(25)])
    assert stream.marks("val_accuracy") == []
    assert stream.value("val_accuracy", 20) == 0.5
    assert [tuple(mark) for mark in stream_of([(1, {"val_accuracy": NonFinite.NAN, T: 1.0})]).marks("val_accuracy")]


def test_a_value_written_over_a_mark_takes_its_place():
    stream = stream_of([(1, {T: 1.0}), (2, {T: NonFinite.NAN}), (2, {T: 5.0})])
    assert stream.value(T, 2) == 5.0
    stream.finish()
    raw = stream.raw_row(stream.closed[-1])
    assert raw is not None and list(raw.marks) == []


def test_keys_past_the_cap_are_counted_not_kept():
    from rltop.store.series import StoreOptions

    stream = stream_of([(1, {f"k{i}": 1.0 for i in range(10)})], StoreOptions(max_keys=4))
    assert len(stream.keys) == 4
    assert stream.counts.keys_over_cap == 6
    assert stream.row(1) == {f"k{i}": 1.0 for i in range(4)}


def test_a_bucket_across_a_restart_in_downsampled_history_says_approximate():
    from rltop.store.series import StoreOptions

    run = [(step, {T: float(step)}) for step in range(1, 200)]
    stream = stream_of([*run, (100, {T: -1.0})], StoreOptions(memory_bytes=2_000, head_rows=16))
    buckets = stream.buckets(T, 40, 0, 120)
    assert any(bucket.is_approximate for bucket in buckets)
    assert stream.restarts == (100,)


def test_a_bucket_of_negative_steps_says_which_ones_it_has():
    stream = stream_of([(step, {T: 1.0}) for step in range(-7, 3)])
    first, second = stream.buckets(T, 5, -10, 0)
    assert (first.first_step, first.last_step, first.count) == (-7, -6, 2)
    assert (second.first_step, second.last_step, second.count) == (-5, -1, 5)


def test_a_total_that_the_run_has_passed_is_none():
    stream = Stream()
    totals = []
    for step, total in ((1, 2), (2, None), (3, None), (4, None)):
        stream.append(record(step, {T: 0.5})._replace(total_steps=total))
        totals.append(stream.total_steps)
    assert totals == [2, 2, None, None]


@pytest.mark.parametrize(("memory_bytes", "rows"), [(10_000_000, 40), (20_000, 40), (4_000, 300), (100_000, 300)])
def test_more_restarts_than_segments_are_kept_lose_no_value_that_is_still_seen(memory_bytes: int, rows: int) -> None:
    stream, dice, at = Stream("", StoreOptions(memory_bytes=memory_bytes)), random.Random(rows), 0
    seen: dict[int, dict[str, float | NonFinite]] = {}
    for number in range(2 * SEGMENTS_KEPT):
        for step in range(at, at + dice.randint(rows // 2, rows)):
            value = 1000.0 * number + step
            seen[step] = {
                T: NonFinite.NAN if step % 50 == 7 else value,
                V: value,
                **({"late": value} if number else {}),
            }
            stream.append(record(step, seen[step]))
            stream.closed.clear()
        at = max(0, step - dice.randint(2, rows // 2))
        seen = {step: row for step, row in seen.items() if step < at}
    stream.append(record(at, {T: 1.0, V: 1.0}))
    seen[at] = {T: 1.0, V: 1.0}
    assert len(stream.segments) == SEGMENTS_KEPT < len(stream.restarts)
    held = list(stream.steps())
    assert held == sorted(held) and seen.keys() >= set(held) and (memory_bytes < 10**6 or seen.keys() == set(held))
    for step in held:
        assert stream.row(step) == {key: value for key, value in seen[step].items() if value is not NonFinite.NAN}
    (whole,) = stream.buckets(V, at + 1, 0, at + 1)
    values = [row[V] for row in seen.values()]
    if whole.is_approximate:  # what a restart overwrote stays in the bucket that it cuts
        assert whole.count >= len(values) and whole.low == min(values) and whole.high >= max(values)
    else:
        assert (whole.count, whole.low, whole.high) == (len(values), min(values), max(values))
    assert stream.latest(V) == (at, 1.0)
    for step in (0, at // 3, at // 2):
        found = stream.latest(V, step)
        assert found is not None and found.step <= step
