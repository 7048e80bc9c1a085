"""Chrome traces: the same spans in every form and in any pieces, and steps where they are."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row
from trace_run import START_US, TraceRun, embodied

from rltop.formats.decoder import DecoderOptions
from rltop.formats.kinds import TRACE, AutoDecoder
from rltop.formats.trace import ChromeTraceDecoder, worker_of
from rltop.model import Record, TimedSpan

FORMS = ("lines", "array", "closed array", "indented array", "document")


def written(run: TraceRun, form: str) -> bytes:
    if form == "lines":
        return run.lines()
    if form == "document":
        return run.document()
    return run.array(is_closed=form == "closed array", indent=2 if form == "indented array" else None)


def read(data: bytes, pieces: int = 1 << 20) -> tuple[list[Record], list[TimedSpan], ChromeTraceDecoder]:
    decoder = ChromeTraceDecoder()
    records = []
    for at in range(0, len(data), pieces):
        records += decoder.feed(data[at : at + pieces], at, 0)
    records += decoder.finish()
    return records, decoder.take_spans(), decoder


def row(record: Record) -> dict[str, float]:
    return dict(zip(record.schema.keys, record.values, strict=True))


@each_row("form", FORMS)
@each_row("pieces", [37, 4096, 1 << 20])
def test_every_form_says_the_same_in_any_pieces(form: str, pieces: int) -> None:
    run = embodied(range(3))
    records, spans, decoder = read(written(run, form), pieces)
    expected, expected_spans, _ = read(run.lines())
    assert [(record.step, row(record)) for record in records] == [(record.step, row(record)) for record in expected]
    assert spans == expected_spans
    assert decoder.counts.bad_lines == 0
    assert [record.step for record in records] == [0, 1, 2]


def test_stages_of_the_runner_and_the_slowest_rank_of_each_group() -> None:
    records, _, _ = read(embodied(range(2), slow_rank=2).lines())
    assert row(records[1]) == pytest.approx({
        "time/step": 9.5, "time/sync_weights": 0.5, "time/generate_rollouts": 5.0, "time/cal_adv_and_returns": 0.3,
        "time/actor_training": 3.5, "time/actor/run_training": 2.8, "time/env/interact": 4.3,
    })  # fmt: skip
    assert records[1].time_s == pytest.approx(START_US / 1e6 + 19.5)


def test_steps_without_a_number_are_counted() -> None:
    records, _, _ = read(embodied(range(3), is_numbered=False).lines())
    assert [record.step for record in records] == [1, 2, 3]


def test_without_spans_called_step_the_first_stage_begins_one() -> None:
    run = TraceRun()
    for at in range(3):
        run.span("trainer", "rollout", 10.0 * at, 10.0 * at + 4).span("trainer", "train", 10.0 * at + 4, 10.0 * at + 9)
    records, spans, _ = read(run.lines())
    assert [record.step for record in records] == [1, 2, 3]
    assert row(records[0]) == pytest.approx({"time/rollout": 4, "time/train": 5, "time/step": 10})
    assert {span.step for span in spans} == {1, 2, 3}


def test_the_steps_of_a_profiler_carry_their_number() -> None:
    run = TraceRun()
    events = run.events
    for step in (7, 8):
        at = START_US + step * 1_000_000
        events.append({"name": "forward", "ph": "X", "ts": at, "dur": 400_000, "pid": 12, "tid": 1})
        events.append({"name": f"ProfilerStep#{step}", "ph": "X", "ts": at, "dur": 900_000, "pid": 12, "tid": 1})
    records, _, _ = read(run.lines())
    assert [record.step for record in records] == [7, 8]
    assert [row(record)["time/forward"] for record in records] == pytest.approx([0.4, 0.4])


def test_what_is_inside_a_stage_is_nested_and_not_counted_twice() -> None:
    run = embodied(range(1)).span("driver", "prepare", 1.0, 2.0)
    records, spans, _ = read(run.lines())
    assert "generate_rollouts/prepare" in {span.name for span in spans}
    assert not any("prepare" in key for key in row(records[0]))


def test_a_torn_last_event_is_normal_and_goes_on() -> None:
    data = embodied(range(2)).lines()
    for cut in (1, 30, 90):
        decoder = ChromeTraceDecoder()
        records = decoder.feed(data[:-cut], 0, 0)
        assert decoder.counts.bad_lines == 0
        assert len(records) + len(decoder.feed(data[-cut:], len(data) - cut, 0)) == 2


def test_a_line_that_is_no_event_costs_nothing_but_itself() -> None:
    lines = embodied(range(3)).lines().splitlines(keepends=True)
    lines[40:40] = [b'{"name": "torn", "ph": "B", "ts": 17\n', b"[1, 2]\n", b"\xff\xfe\n"]
    records, _, decoder = read(b"".join(lines))
    assert [record.step for record in records] == [0, 1, 2]
    assert decoder.counts.bad_lines == 3
    assert decoder.counts.lines == len(lines)


def test_a_span_that_never_ended_does_not_hold_up_the_others() -> None:
    run = embodied(range(3))
    run.events = [
        e for e in run.events if not (e["name"] == "interact" and e["ph"] == "E" and e["pid"] == "EnvGroup:1")
    ]
    records, _, _ = read(run.lines())
    assert len(records) == 3
    assert all("time/actor/run_training" in row(record) for record in records)


def test_a_worker_is_told_by_its_name() -> None:
    assert worker_of("ActorGroup:3") == ("ActorGroup", 3)
    assert worker_of("rollout rank 12") == ("rollout", 12)
    assert worker_of("driver") == ("driver", 0)
    assert worker_of("1234") == ("1234", 0)


def test_the_kind_is_found_by_the_first_event() -> None:
    for form in FORMS:
        decoder = AutoDecoder("trace_events.jsonl", DecoderOptions())
        decoder.feed(written(embodied(range(2)), form), 0, 0)
        assert decoder.kind.name == "trace", form
    for metrics in (b'{"step": 1, "phase": 3}\n', b'[{"step": 1, "phi": 2}]\n'):
        decoder = AutoDecoder("metrics.json", DecoderOptions())
        decoder.feed(metrics * 300, 0, 0)
        assert decoder.kind.name != "trace"


@each_row("form", FORMS)
def test_braces_and_quotes_in_a_string_are_text_wherever_the_pieces_end(form: str) -> None:
    run = embodied(range(2))
    for at, one in enumerate(run.events):
        one["args"] = {**one.get("args", {}), "note": ('a "}', "\\", '{"[')[at % 3]}
    records, _, decoder = read(written(run, form), 1)
    assert [record.step for record in records] == [0, 1]
    assert decoder.counts.bad_lines == 0


def test_what_stands_in_a_later_line_does_not_make_it_a_document() -> None:
    first, *others = embodied(range(1)).lines().splitlines(keepends=True)
    data = b"".join((first, b'{"name": "y", "args": {"traceEvents": [1]}}\n', *others))
    for pieces in (1 << 20, 100):
        records, _, decoder = read(data, pieces)
        assert [record.step for record in records] == [0]
        assert decoder.counts.lines == 2 + len(others)


@each_row("pieces", [1, 40, 1 << 20])
def test_the_name_of_the_array_inside_an_array_is_text(pieces: int) -> None:
    run = embodied(range(2))
    run.events.insert(1, {"ph": "i", "name": "y", "args": {"traceEvents": [{"ph": "X"}]}, "ts": START_US})
    records, _, decoder = read(run.array(is_closed=True), pieces)
    assert [record.step for record in records] == [0, 1]
    assert decoder.counts.lines == len(run.events)


def test_an_event_that_comes_in_many_pieces_is_looked_at_once() -> None:
    """A mebibyte of braces in pieces of 1 KiB: half a minute, if each piece began at the first."""
    data = b'[{"a":' + b"{" * (1 << 20)
    started = time.process_time()
    _, _, decoder = read(data, 1024)
    assert decoder.counts.oversize_lines == 1
    assert time.process_time() - started < 5


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["B", "E", "X", "M", "step"]),
    st.dictionaries(st.sampled_from(["step", "name"]), st.integers(), max_size=2),
)
KEYS = st.sampled_from(["name", "ph", "ts", "dur", "pid", "tid", "args"])


@given(st.lists(st.dictionaries(KEYS, VALUES)))
def test_events_of_any_content_raise_nothing(events: list[dict[str, object]]) -> None:
    records, spans, _ = read(b"".join(json.dumps(event).encode() + b"\n" for event in events))
    assert all(span.end_s >= span.start_s for span in spans)
    assert all(record.step >= 0 for record in records)


def test_a_byte_that_is_no_utf_8_costs_no_span() -> None:
    event = b'{"name": "train", "ph": "X", "ts": %d, "dur": 5, "pid": 1, "tid": 1, "args": {"note": "caf\xe9"}}\n'
    _, _, decoder = read(b"".join(event % (START_US + 10 * number) for number in range(5)))
    assert decoder.counts.bad_lines == 0


@each_row("form", FORMS)
def test_a_trace_is_one_wherever_its_first_bytes_are_cut(form: str) -> None:
    data = written(embodied(range(2)), form)
    for cut in range(0, 400, 7):
        decoder = AutoDecoder("trace_events.jsonl" if form == "lines" else "trace.json", DecoderOptions())
        records = [*decoder.feed(data[:cut], 0, 0), *decoder.feed(data[cut:], cut, 0), *decoder.finish()]
        assert (decoder.kind, len(records)) == (TRACE, 2), cut


@each_row("form", FORMS)
def test_a_trace_that_is_written_anew_is_read_as_if_alone(form: str) -> None:
    data = written(embodied(range(3)), form)
    expected, expected_spans, _ = read(data)
    decoder = ChromeTraceDecoder()
    decoder.feed(data[: len(data) * 2 // 3], 0, 0)
    decoder.take_spans()
    decoder.reset()
    records = [*decoder.feed(data, 0, 1), *decoder.finish()]
    assert [(each.step, row(each)) for each in records] == [(each.step, row(each)) for each in expected]
    assert decoder.take_spans() == expected_spans
