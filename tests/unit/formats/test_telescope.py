"""Telescope's archives: the values of its own interface, whatever order and state the files are in."""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row
from telescope_run import START_S, TelescopeRun

from rltop.formats.decoder import DecoderOptions
from rltop.formats.kinds import AutoDecoder
from rltop.formats.telescope import TelescopeDecoder, summary
from rltop.model import Record

FIXTURE = Path(__file__).resolve().parents[3] / "fixtures" / "telescope" / "archives"
RUN = TelescopeRun(seed=5, groups=2).add_steps(range(12))


@cache
def steps_until(newest: int) -> bytes:
    return RUN.steps_zip(0, newest)


@cache
def events_until(newest: int) -> bytes:
    return RUN.events_zip(0, newest)


def rows(records: Sequence[Record]) -> dict[int, dict[str, float]]:
    """Values by step and key; a value that is given out twice must be the same."""
    found: dict[int, dict[str, float]] = {}
    for record in records:
        for key, value in zip(record.schema.keys, record.values, strict=True):
            assert found.setdefault(record.step, {}).setdefault(key, value) == value
    return found


def read(archives: Sequence[bytes], pieces: int = 1 << 20, *, is_live: bool = False) -> list[Record]:
    decoder = TelescopeDecoder()
    records: list[Record] = []
    for generation, archive in enumerate(archives):
        decoder.reset(is_restart=False)
        for at in range(0, len(archive), pieces):
            records += decoder.feed(archive[at : at + pieces], at, generation)
        if is_live:
            records += decoder.flush()
    return [*records, *decoder.finish()]


@cache
def whole_run() -> dict[int, dict[str, float]]:
    return rows(read([RUN.steps_zip(), RUN.events_zip()]))


def test_every_value_is_that_of_telescopes_own_interface() -> None:
    """`expected.json` holds what the queries of its server gave for these tables, run in DuckDB."""
    expected = json.loads((FIXTURE / "expected.json").read_text())
    files = sorted((FIXTURE / "files").glob("*/*.zip"))
    found = rows(read([path.read_bytes() for path in files]))
    assert sorted(found) == sorted(map(int, expected))
    for step, values in expected.items():
        assert {key: found[int(step)][key] for key in values} == pytest.approx(values, rel=1e-9, abs=1e-6)


def test_a_step_is_waiting_and_active_time() -> None:
    found = whole_run()
    for values in found.values():
        whole = values["timing_waiting_for_data"] + values["timing_step_active"]
        assert values["timing_step_total"] == pytest.approx(whole, abs=1e-6)
        assert values["timing_forward_microbatch_mean"] == pytest.approx(values["timing_forward_total"] / 2)


@each_row("first", itertools.combinations(range(4), 2))
def test_how_the_two_kinds_of_archives_interleave_changes_nothing(first: tuple[int, ...]) -> None:
    """Blocks of a kind come oldest first, as they are finished; the kinds come as they like."""
    steps = [RUN.steps_zip(0, 7), RUN.steps_zip(6, 11)]
    events = [RUN.events_zip(0, 5), RUN.events_zip(5, 11)]
    records = read([(steps if at in first else events).pop(0) for at in range(4)], pieces=4099)
    assert rows(records) == whole_run()
    assert [record.step for record in records] == sorted(record.step for record in records)


@examples(5)
@given(st.lists(st.integers(0, 3), max_size=11))
def test_a_live_run_shows_each_value_once_and_in_order(looks: list[int]) -> None:
    """The trainer goes on; tails are read when somebody looks, whole or cut in the middle of being written."""
    archives = []
    for newest, look in enumerate([*looks, *[3] * (12 - len(looks))]):
        for kind, archive in ((1, steps_until), (2, events_until)):
            whole = archive(newest)
            archives.append(whole if look & kind else whole[: len(whole) // 2])
    records = read(archives, is_live=True)
    steps = [record.step for record in records]
    assert steps == sorted(steps)
    expected = whole_run()
    for step, values in rows(records).items():
        assert {key: value for key, value in expected[step].items() if key in values} == values
    assert rows(records)[11].keys() == expected[11].keys()


def test_an_archive_that_is_being_written_is_left_and_read_when_it_is_whole() -> None:
    decoder = TelescopeDecoder()
    whole = RUN.steps_zip()
    assert decoder.feed(whole[:-30], 0, 0) == []
    decoder.reset(is_restart=False)
    decoder.feed(whole, 0, 1)
    assert decoder.counts.bad_lines == 0
    assert len(rows(decoder.finish())) == 12


def test_the_step_in_training_is_shown_before_its_timing_is_known() -> None:
    decoder = TelescopeDecoder()
    decoder.feed(RUN.steps_zip(0, 3), 0, 0)
    decoder.reset(is_restart=False)
    given_out = decoder.feed(RUN.events_zip(0, 3), 0, 1)
    while decoder.has_more:
        given_out += decoder.decode_more()
    assert [record.step for record in given_out] == [0, 1, 2]
    (shown,) = decoder.flush()
    assert shown.step == 3
    assert "grad_norm" in shown.schema.keys
    assert not any(key.startswith("timing_") for key in shown.schema.keys)
    decoder.reset(is_restart=False)
    (rest,) = decoder.feed(RUN.events_zip(0, 4), 0, 2) or decoder.feed(b"", 0, 2) or decoder.flush()[:1] or (None,)
    assert rest is None or rest.step in (3, 4)


def test_a_run_without_a_timeline_is_shown_all_the_same() -> None:
    decoder = TelescopeDecoder()
    decoder.feed(RUN.steps_zip(), 0, 0)
    assert sorted(rows(decoder.flush())) == list(range(12))


def test_samples_that_are_still_being_logged_are_waited_for() -> None:
    """Two looks with the same number of samples, or metrics of the step, say that all are there."""
    half = TelescopeRun(groups=1).add_steps([0])
    half.steps = {key: [] for key in half.steps}
    decoder = TelescopeDecoder()
    decoder.feed(half.steps_zip(), 0, 0)
    assert decoder.flush() == []
    (shown,) = decoder.flush()
    assert "reward_sum_mean" in shown.schema.keys


def test_spans_are_given_with_the_step_and_once() -> None:
    decoder = TelescopeDecoder()
    decoder.feed(RUN.steps_zip(), 0, 0)
    decoder.reset(is_restart=False)
    decoder.feed(RUN.events_zip(), 0, 1)
    spans = decoder.take_spans()
    assert {span.step for span in spans} == set(range(11))
    assert {(span.role, span.rank) for span in spans} == {
        ("trainer", 0),
        ("trainer", 1),
        ("inference", 0),
        ("inference", 1),
    }
    assert all(span.end_s >= span.start_s >= START_S for span in spans)
    assert decoder.take_spans() == []


def test_custom_metrics_keep_their_section_and_group() -> None:
    assert "custom/loss/auxiliary" in rows(read([RUN.steps_zip()]))[0]


def test_rewards_are_split_where_there_is_more_than_one_environment() -> None:
    values = rows(read([RUN.steps_zip()]))[0]
    assert {"reward/countdown/mean", "reward/wordle/mean"} <= set(values)
    one = TelescopeRun(environments=("countdown",)).add_steps([0])
    assert not any(key.startswith("reward/") for key in rows(read([one.steps_zip()]))[0])


def test_the_kind_is_found_by_the_first_table() -> None:
    for archive in (RUN.steps_zip(), RUN.events_zip()):
        decoder = AutoDecoder("tail.zip", DecoderOptions())
        decoder.feed(archive, 0, 0)
        assert decoder.kind.name == "telescope"


VALUES = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=30)


@given(VALUES)
def test_a_summary_agrees_with_the_standard_library(values: list[float]) -> None:
    found = summary("x", values)
    assert found["x_mean"] == pytest.approx(statistics.fmean(values))
    assert (found["x_min"], found["x_max"]) == (min(values), max(values))
    if len(values) > 1:
        assert found["x_std"] == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-6)
