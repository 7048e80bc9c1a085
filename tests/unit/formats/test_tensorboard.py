"""Event files as writers leave them, and as they break."""

from __future__ import annotations

import json
import math
import struct
import tomllib
from pathlib import Path

import pytest
from binary_files import event, frame, integer, scalar_events, span, value, version_event
from stores import cells, read_in_pieces
from tables import each_row

from rltop.formats.tensorboard import MAX_RECORD_BYTES, TensorBoardDecoder, masked_crc32c, row_starts
from rltop.model import NonFinite
from rltop.store.stream import Stream

FOLDER = Path(__file__).resolve().parents[3] / "fixtures" / "tensorboard"
CASES = tomllib.loads((FOLDER / "cases.toml").read_text())


def decode(data, piece=1 << 20):
    decoder = TensorBoardDecoder()
    return read_in_pieces(decoder, data, piece), decoder


def test_the_crc_of_eight_zeros_is_the_known_one():
    assert masked_crc32c(bytes(8)) == 0x07980329


def test_tags_of_a_step_become_a_row():
    data = frame(version_event()) + scalar_events((1, "a", 1.5), (1, "b", 2.0), (2, "a", 0.5), (2, "b", -1.0))
    records, decoder = decode(data)
    assert [(r.step, cells(r)) for r in records] == [(1, {"a": 1.5, "b": 2.0}), (2, {"a": 0.5, "b": -1.0})]
    assert records[0].schema is records[1].schema
    assert records[0].time_s == 1.7e9 + 1
    assert records[0].position.offset == len(frame(version_event()))
    assert (decoder.counts.lines, decoder.counts.rows, decoder.framer.held_bytes) == (5, 2, 0)


def test_a_row_is_out_only_when_its_step_is_over_or_when_asked():
    decoder = TensorBoardDecoder()
    data = scalar_events((1, "a", 1.0))
    assert decoder.feed(data, 0, 0) == []
    assert [cells(r) for r in decoder.flush()] == [{"a": 1.0}]
    assert decoder.flush() == []
    more = scalar_events((1, "b", 2.0), (2, "a", 3.0))
    (late,) = decoder.feed(more, len(data), 0)
    assert (late.step, cells(late)) == (1, {"b": 2.0})


def test_a_late_tag_of_an_older_step_is_a_further_record_that_the_store_merges():
    records, _ = decode(scalar_events((1, "a", 1.0), (2, "a", 2.0), (1, "eval/x", 9.0), (3, "a", 3.0)))
    assert [r.step for r in records] == [1, 2, 1, 3]
    stream = Stream("")
    for record in records:
        stream.append(record)
    assert stream.row(1) == {"a": 1.0, "eval/x": 9.0}
    assert stream.restarts == ()


def test_what_is_not_finite_is_a_mark():
    (record,), _ = decode(scalar_events((1, "a", math.nan), (1, "b", math.inf), (1, "c", -math.inf), (1, "d", 1.0)))
    assert [mark.kind for mark in record.marks] == [NonFinite.NAN, NonFinite.POS_INF, NonFinite.NEG_INF]
    assert [v == v for v in record.values] == [False, False, False, True]


@each_row("step", [0, 1, 127, 128, 300_000, 2**40, -3])
def test_steps_of_any_size_also_on_the_fast_path(step):
    rows = [(step, tag, number) for tag, number in (("a", 1.0), ("b", 2.0))]
    records, _ = decode(scalar_events(*rows, (step + 1, "a", 4.0), (step + 1, "b", 5.0)))
    assert [(r.step, cells(r)) for r in records] == [(step, {"a": 1.0, "b": 2.0}), (step + 1, {"a": 4.0, "b": 5.0})]


def test_an_absurd_step_is_counted():
    records, decoder = decode(scalar_events((2**60, "a", 1.0)))
    assert records == []
    assert decoder.counts.no_step_lines == 1


def tensor(tag, *parts):
    return span(1, span(1, tag.encode()) + span(8, b"".join(parts)) + span(9, span(1, span(1, b"scalars"))))


SHAPE_1 = span(2, span(2, integer(1, 1)))
SHAPE_3 = span(2, span(2, integer(1, 3)))


@each_row(
    ("parts", "wanted"),
    [
        ((integer(1, 1), span(5, struct.pack("<f", 0.5))), 0.5),
        ((integer(1, 1), b"\x2d" + struct.pack("<f", 0.5)), 0.5),
        ((integer(1, 2), span(6, struct.pack("<d", 0.1))), 0.1),
        ((integer(1, 3), integer(7, -5)), -5.0),
        ((integer(1, 9), span(10, b"\x80\x01")), 128.0),
        ((integer(1, 10), integer(11, 1)), 1.0),
        ((integer(1, 1), SHAPE_1, span(4, struct.pack("<f", 0.25))), 0.25),
        ((integer(1, 2), span(4, struct.pack("<d", 0.1))), 0.1),
        ((integer(1, 9), span(4, struct.pack("<q", -7))), -7.0),
        ((integer(1, 10), span(4, b"\x01")), 1.0),
        ((integer(1, 19), span(4, struct.pack("<e", 1.5))), 1.5),
        ((integer(1, 14), span(4, b"\xc0\x3f")), 1.5),
        ((integer(1, 14), integer(13, 0x3FC0)), 1.5),
        ((integer(1, 19), integer(13, 0x3E00)), 1.5),
    ],
)
def test_a_tensor_of_one_number_is_a_value(parts, wanted):
    (record,), decoder = decode(frame(event(1, tensor("a", *parts))))
    assert cells(record) == {"a": wanted}
    assert decoder.counts.nested_values == 0


@each_row(
    ("summary", "text", "nested"),
    [
        (tensor("a", integer(1, 1), SHAPE_3, span(4, bytes(12))), 0, 1),
        (tensor("a", integer(1, 1), span(5, bytes(8))), 0, 1),
        (tensor("a", integer(1, 7), span(8, b"hello")), 1, 0),
        (span(1, span(1, b"a") + span(5, b"")), 0, 1),
        (span(1, span(1, b"a") + span(4, b"")), 0, 1),
    ],
)
def test_what_is_no_number_is_counted(summary, text, nested):
    records, decoder = decode(frame(event(1, summary)))
    assert records == []
    assert (decoder.counts.text_values, decoder.counts.nested_values) == (text, nested)


def test_several_values_in_one_event():
    (record,), _ = decode(frame(event(7, value("a", 1.0), value("b", 2.0))))
    assert (record.step, cells(record)) == (7, {"a": 1.0, "b": 2.0})


def test_a_tag_that_is_no_text_and_one_that_is_too_long():
    odd = span(1, span(1, b"a\xff") + b"\x15" + struct.pack("<f", 1.0))
    records, _ = decode(frame(event(1, odd)) + frame(event(2, odd)) + frame(event(2, value("x" * 600, 1.0))))
    assert cells(records[0]) == {"a�": 1.0}
    assert [len(key) for key in records[1].schema.keys] == [2, 513]


def test_a_torn_last_event_is_normal_and_goes_on():
    data = scalar_events((1, "a", 1.0), (2, "a", 2.0))
    decoder = TensorBoardDecoder()
    assert decoder.feed(data[:-9], 0, 0) == []
    assert [r.step for r in decoder.finish()] == [1]
    assert decoder.counts.bad_lines == 0
    assert decoder.framer.held_bytes == len(data) // 2 - 9
    decoder.feed(data[-9:], len(data) - 9, 0)
    assert [r.step for r in decoder.finish()] == [2]


def test_zeros_are_waited_for_and_may_be_given_again():
    first, second = scalar_events((1, "a", 1.0)), scalar_events((2, "a", 2.0))
    decoder = TensorBoardDecoder()
    decoder.feed(first + bytes(len(second)), 0, 0)
    assert (decoder.framer.resume_offset, decoder.stopped, decoder.counts.bad_lines) == (len(first), "", 0)
    decoder.feed(second, decoder.framer.resume_offset, 0)
    assert [r.step for r in decoder.finish()] == [2]
    assert decoder.counts.nul_bytes == 0


@each_row("piece", [1, 5, 1 << 20])
@each_row("hole", [12, 13, 4096])
def test_zeros_that_stay_are_passed_once_something_follows(hole, piece):
    data = scalar_events((1, "a", 1.0)) + bytes(hole) + scalar_events((2, "a", 2.0))
    records, decoder = decode(data, piece)
    assert [r.step for r in records] == [1, 2]
    assert (decoder.counts.nul_bytes, decoder.framer.bad_bytes, decoder.stopped) == (hole, hole, "")


def test_a_record_whose_end_is_missing_waits_and_may_be_given_again():
    data = scalar_events((1, "a", 1.0), (2, "a", 2.0))
    decoder = TensorBoardDecoder()
    decoder.feed(data[:-10] + bytes(10), 0, 0)
    assert [r.step for r in decoder.finish()] == [1]
    decoder.feed(data[decoder.framer.resume_offset :], decoder.framer.resume_offset, 0)
    assert [(r.step, cells(r)) for r in decoder.finish()] == [(2, {"a": 2.0})]


def test_a_wrong_length_stops_with_a_reason_until_it_is_given_again():
    good, bad = scalar_events((1, "a", 1.0)), bytearray(scalar_events((2, "a", 2.0)))
    bad[2] ^= 1
    records, decoder = decode(good + bytes(bad) + scalar_events((3, "a", 3.0)), 7)
    assert [r.step for r in records] == [1]
    assert "checksum" in decoder.stopped
    assert f"byte {len(good)}" in decoder.stopped
    assert decoder.counts.bad_lines == 1
    assert decoder.counts.first_bad_reason == decoder.stopped
    assert decoder.framer.bad_bytes == 2 * len(bad)
    decoder.feed(scalar_events((2, "a", 2.0)), len(good), 0)
    assert [r.step for r in decoder.finish()] == [2]
    assert (decoder.stopped, decoder.framer.bad_bytes) == ("", 0)


def test_a_length_that_no_message_has_is_no_length():
    length = struct.pack("<Q", 2**40)
    _, decoder = decode(length + struct.pack("<I", masked_crc32c(length)) + bytes(64))
    assert decoder.stopped


def test_a_huge_event_is_passed_over_without_being_held():
    length = struct.pack("<Q", MAX_RECORD_BYTES + 1)
    huge = length + struct.pack("<I", masked_crc32c(length)) + bytes(MAX_RECORD_BYTES + 1 + 4)
    data = scalar_events((1, "a", 1.0)) + huge + scalar_events((2, "a", 2.0))
    records, decoder = decode(data, 1 << 18)
    assert [r.step for r in records] == [1, 2]
    assert (decoder.counts.oversize_lines, decoder.framer.bad_bytes) == (1, len(huge))


def test_a_payload_that_is_no_message_costs_only_itself():
    records, decoder = decode(scalar_events((1, "a", 1.0)) + frame(b"\x2a\x7f") + scalar_events((2, "a", 2.0)))
    assert [r.step for r in records] == [1, 2]
    assert (decoder.counts.bad_lines, decoder.counts.first_bad_line) == (1, 2)


def test_reset_begins_a_new_file():
    decoder = TensorBoardDecoder()
    data = scalar_events((1, "a", 1.0))
    decoder.feed(data[:-3], 0, 0)
    decoder.reset()
    decoder.feed(data, 0, 1)
    (record,) = decoder.finish()
    assert record.position == (1, 0)


@each_row("name", sorted(CASES))
@each_row("piece", [17, 1 << 20])
def test_what_a_real_writer_wrote_is_what_tensorboard_reads(name, piece):
    case = CASES[name]
    records, decoder = decode((FOLDER / case["file"]).read_bytes(), piece)
    assert [r.step for r in records] == case["steps"]
    assert decoder.counts.lines == case["events"]
    assert decoder.counts.text_values + decoder.counts.nested_values == case["others"]
    found = {(r.step, tag): number for r in records for tag, number in cells(r).items()}
    expected = {(s, tag): float(v) for s, tag, v in json.loads((FOLDER / f"{name}.expected.json").read_text())}
    assert found.keys() == expected.keys()
    assert all(found[key] == pytest.approx(expected[key], rel=0, abs=0, nan_ok=True) for key in expected)
    assert (decoder.framer.bad_bytes, decoder.framer.held_bytes) == (0, 0)


def test_a_row_begins_where_the_step_changes():
    steps = [scalar_events(*((step, tag, 1.0) for tag in ("a", "b", "c"))) for step in (0, 1, 300, 70_000)]
    picture = frame(span(4, bytes(5_000)))
    data = frame(version_event()) + steps[0] + picture + b"".join(steps[1:])
    starts = [data.index(step) for step in steps[1:]]
    assert row_starts(data, 0) == starts
    for cut in range(0, starts[0] + 1, 7):
        assert row_starts(data[cut:], cut) in (starts, starts[1:])
    # A torn end and zeros that are not written yet begin no row.
    torn = scalar_events((80_000, "a", 1.0))
    assert row_starts(data + torn[:-1], 0) == starts
    assert row_starts(data + bytes(100) + torn, 0) == [*starts, len(data) + 100]
    assert row_starts(data + bytes(100), 0) == starts


def test_no_row_begins_behind_damage_at_which_reading_stops():
    good = scalar_events((1, "a", 1.0), (2, "a", 1.0))
    data = good + b"damage" * 10 + scalar_events((3, "a", 1.0), (4, "a", 1.0))
    assert row_starts(data, 0) == [len(good) // 2]
    records, decoder = decode(data)
    assert [record.step for record in records] == [1, 2]
    assert decoder.stopped
