"""Lines as trainers write them, and as they break."""

from __future__ import annotations

import json

import pytest
from stores import kinds, row
from tables import each_row

from rltop.formats import jsonl
from rltop.formats.decoder import DecoderOptions
from rltop.formats.json_document import DocumentDecoder
from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.kinds import JSONL, kind_of
from rltop.model import NonFinite


def decode(*lines, end=b"\n", options=None):
    decoder = JsonlDecoder(options)
    data = end.join(line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines)
    records = decoder.feed(data, 0, 0)
    return [*records, *decoder.finish()], decoder.counts


LINES = [
    b'{"step": 1, "a": 1.5, "b": null, "c": "text", "d": [1, 2], "e": {"f": 3}, "g": true}',
    b'{"step": 2, "a": NaN, "b": -Infinity, "c": 1e999, "d": 12345678901234567890123, "a": 7}',
    b'  {"step": 3, "a": 1}  ',
    b'{"step": 4, "a": }',
    b'{"step": 5, "a": 1',
    b"[1, 2]",
    b"",
    b'{"step": 6, "\xff": 1}',
    b"[" * 5000 + b"]" * 5000,
    b'{"step": 7, "\\u00e9": 0.1, "b": 1E5, "c": -0.0}',
]


@pytest.fixture(params=["json", "orjson"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What reads the lines: that of a short file, or that of a long one."""
    if request.param == "orjson":
        monkeypatch.setattr(jsonl, "FEW_BYTES", 1)
    return str(request.param)


@each_row("line", LINES, ids=range(len(LINES)))
def test_a_parser_in_a_hurry_reads_the_same(line, monkeypatch):
    soon, soon_counts = decode(line)
    monkeypatch.setattr(jsonl, "FEW_BYTES", 1)
    fast, fast_counts = decode(line)
    assert fast_counts.first_bad_reason == soon_counts.first_bad_reason
    assert [row(record) for record in soon] == [row(record) for record in fast]
    assert [kinds(record) for record in soon] == [kinds(record) for record in fast]
    assert (soon_counts.lines, soon_counts.rows, soon_counts.bad_lines) == (
        fast_counts.lines,
        fast_counts.rows,
        fast_counts.bad_lines,
    )


def test_the_nested_envelope_and_the_flat_row_mean_the_same():
    (nested,), _ = decode({"step": 3, "data": {"a/b": 1.5, "c": 2}})
    (flat,), _ = decode({"step": 3, "a/b": 1.5, "c": 2})
    assert nested.step == flat.step == 3
    assert row(nested) == row(flat) == {"a/b": 1.5, "c": 2.0}


def test_keys_beside_the_envelope_are_kept():
    (record,), _ = decode({"step": 3, "time": 1_700_000_000.5, "rank": 2, "data": {"a": 1.0}})
    assert row(record) == {"rank": 2.0, "a": 1.0}
    assert record.time_s == 1_700_000_000.5


@each_row(
    ("written", "step", "total"),
    [({"step": "12"}, 12, None), ({"global_step": 12.0}, 12, None), ({"global_step/max_steps": "5/100"}, 5, 100)],
)
def test_steps_as_they_are_written(written, step, total):
    (record,), _ = decode({**written, "loss": 1.0})
    assert (record.step, record.total_steps) == (step, total)


def test_a_step_key_that_was_asked_for_is_the_only_one():
    (record,), _ = decode({"step": 1, "my/step": 7, "a": 1.0}, options=DecoderOptions(step_key="my/step"))
    assert record.step == 7
    assert row(record) == {"step": 1.0, "a": 1.0}


def test_rows_of_the_same_keys_share_a_shape():
    records, _ = decode({"step": 1, "a": 1, "b": 2}, {"step": 2, "a": 1, "b": None}, {"step": 3, "a": 1, "b": 2})
    assert records[0].schema is records[1].schema is records[2].schema


@each_row("space", ["", " "])
def test_literals_that_json_forbids(space):
    line = '{"step":1,"a":NaN,"b":Infinity,"c":-Infinity,"d":1e999,"e":-1e999,"f":1}'.replace(":", ":" + space)
    (record,), counts = decode(line.encode())
    assert kinds(record) == {
        "a": NonFinite.NAN,
        "b": NonFinite.POS_INF,
        "c": NonFinite.NEG_INF,
        "d": NonFinite.POS_INF,
        "e": NonFinite.NEG_INF,
    }
    assert row(record) == {"f": 1.0}
    assert counts.bad_lines == 0


def test_the_word_nan_inside_a_string_does_no_harm():
    (record,), _ = decode(b'{"step":1,"note":"x: NaN, y","a":NaN,"b":2}')
    assert kinds(record) == {"a": NonFinite.NAN}
    assert row(record) == {"b": 2.0}


def test_numbers_as_strings_and_null():
    (record,), _ = decode({"step": 1, "a": "0.5", "b": "NaN", "c": None, "d": "1e3", "e": "inf", "f": True})
    assert row(record) == {"a": 0.5, "d": 1000.0, "f": 1.0}
    assert kinds(record) == {"b": NonFinite.NAN, "c": NonFinite.NULL, "e": NonFinite.POS_INF}


def test_what_is_no_number_never_drops_the_row():
    (record,), counts = decode({"step": 1, "a": 1, "run": "grpo-7b", "list": [1, 2], "obj": {"x": 1, "y": {"z": 2}}})
    assert row(record) == {"a": 1.0, "obj/x": 1.0, "obj/y/z": 2.0}
    assert (counts.text_values, counts.nested_values) == (1, 1)


@each_row("key", ["split", "phase", "mode", "type", "log_type"])
def test_numbers_that_a_text_calls_held_out_do_not_replace_those_of_training(key):
    lines = [
        {"step": 7, key: "train", "epoch": 1, "loss": 0.5},
        {"step": 7, key: "Val", "epoch": 1, "loss": 0.9, "eval_acc": 0.4, "more": {"solved": 0.1}},
    ]
    records, counts = decode(*lines)
    assert [row(record) for record in records] == [
        {"epoch": 1.0, "loss": 0.5},
        {"epoch": 1.0, "eval/loss": 0.9, "eval_acc": 0.4, "eval/more/solved": 0.1},
    ]
    assert counts.text_values == 2


def test_broken_lines_are_counted_and_the_first_one_is_named():
    records, counts = decode({"step": 1, "a": 1}, b'{"step": 2, "a"', b"text", {"step": 3, "a": 3}, [1])
    assert [record.step for record in records] == [1, 3]
    assert counts.bad_lines == 3
    assert counts.first_bad_line == 2


def test_what_git_could_not_merge_is_named():
    conflict = b"<<<<<<< HEAD\n%s=======\n%s>>>>>>> b\n" % (b'{"step": 2, "loss": 2}\n', b'{"step": 2, "loss": 3}\n')
    decoder = JsonlDecoder()
    assert [record.step for record in decoder.feed(b'{"step": 1, "loss": 1}\n' + conflict, 0, 0)] == [1, 2, 2]
    assert (decoder.counts.first_bad_line, decoder.counts.first_bad_reason) == (2, "git conflict markers")
    document = DocumentDecoder()
    document.feed(b'[\n{"step": 1, "loss": 1},\n' + conflict + b"]\n", 0, 0)
    assert not document.finish()
    assert (document.counts.first_bad_line, document.counts.first_bad_reason) == (3, "git conflict markers")
    for text in (conflict, b'{"step": 1, "loss": 1}\n' + conflict):
        assert kind_of(text, "a.json", is_all=True) is JSONL


def test_a_half_line_waits_and_a_whole_last_line_needs_no_end():
    decoder = JsonlDecoder()
    assert decoder.feed(b'{"step":1,"a":1}\n{"step":2,', 0, 0)[0].step == 1
    assert decoder.feed(b'"a":2}', 27, 0) == []
    assert [record.step for record in decoder.finish()] == [2]
    assert decoder.finish() == []


def test_a_row_that_was_shown_is_not_read_again_when_half_of_its_line_end_comes():
    decoder, records = JsonlDecoder(), []
    for start, piece in enumerate((b'{"step": 1, "loss": 0.5}', b"\r", b"\n")):
        records += [*decoder.feed(piece, start and 23 + start, 0), *decoder.flush()]
    assert [one.step for one in records] == [1]
    assert decoder.counts.lines == 1


def test_bom_crlf_and_nul_holes():
    records, counts = decode(b'\xef\xbb\xbf{"step":1,"a":1}', b'\0\0\0\0{"step":2,"a":2}', b"", end=b"\r\n")
    assert [record.step for record in records] == [1, 2]
    assert counts.nul_bytes == 4
    assert counts.bad_lines == 0


def test_line_ends_of_other_alphabets_are_text():
    records, counts = decode('{"step":1,"a\u2028b":1}'.encode(), {"step": 2, "a": 1})
    assert len(records) == 2
    assert counts.bad_lines == 0


def test_a_line_past_the_cap_is_skipped_and_counted(monkeypatch):
    monkeypatch.setattr("rltop.formats.decoder.MAX_LINE_BYTES", 100)
    long = b'{"step":1,"x":"' + b"y" * 300 + b'"}'
    for cut in (10, 50, 150, 320):
        decoder = JsonlDecoder()
        data = long + b'\n{"step":2,"a":1}\n' + long + b'\n{"step":3,"a":1}\n'
        records = [*decoder.feed(data[:cut], 0, 0), *decoder.feed(data[cut:], cut, 0)]
        assert [record.step for record in records] == [2, 3]
        assert decoder.counts.oversize_lines == 2


def test_rows_without_a_step_are_numbered_if_the_file_never_has_one():
    records, _ = decode({"loss": 3.0}, {"loss": 2.0}, {"loss": 1.0}, {"loss": 0.5})
    assert [(record.step, row(record)["loss"]) for record in records] == [(1, 3.0), (2, 2.0), (3, 1.0), (4, 0.5)]


def test_rows_that_are_numbered_are_counted_and_so_is_a_step_that_cannot_be_one():
    _, counts = decode(*({"loss": 1.0} for _ in range(5)))
    assert (counts.numbered_rows, counts.unusable_steps) == (5, 0)
    records, counts = decode(*({"step": 10**18 + n, "loss": 1.0} for n in range(5)))
    assert [record.step for record in records] == [1, 2, 3, 4, 5]
    assert (counts.numbered_rows, counts.unusable_steps) == (5, 5)
    records, counts = decode({"step": 1, "loss": 1.0}, {"step": 10**400, "loss": 1.0}, {"step": 2, "loss": 1.0})
    assert [record.step for record in records] == [1, 2]
    assert (counts.numbered_rows, counts.unusable_steps, counts.no_step_lines) == (0, 1, 1)
    records, counts = decode(*({"step": n, "loss": 1.0} for n in range(5)))
    assert (counts.numbered_rows, counts.unusable_steps) == (0, 0)


def test_a_header_without_a_step_is_no_row():
    records, counts = decode({"lr": 0.1, "batch": 8}, {"step": 1, "loss": 2.0}, {"eval": 1.0})
    assert [record.step for record in records] == [1]
    assert counts.no_step_lines == 2


@each_row("odd", [{"iteration": 3, "args": {}}, {"update": 0, "loss": 9.0}, {"steps": 500, "lr": 0.1}])
def test_an_odd_first_row_does_not_choose_the_step_key_for_all(odd):
    records, counts = decode(odd, *({"global_step": step, "loss": 1.0} for step in range(1, 9)))
    assert [record.step for record in records][1:] == list(range(1, 9))
    assert counts.no_step_lines == 0


def test_a_step_key_that_has_served_is_not_exchanged():
    rows = [*({"step": step, "loss": 1.0} for step in range(1, 9)), {"iteration": 2000, "loss": 1.0}]
    records, counts = decode(*rows)
    assert [record.step for record in records] == list(range(1, 9))
    assert counts.no_step_lines == 1


def test_a_writer_that_starts_anew_counts_its_rows_anew():
    for is_restart, expected in ((True, [1, 2, 3]), (False, [4, 5, 6])):
        decoder, rows = JsonlDecoder(), b'{"loss": 1}\n' * 3
        decoder.feed(rows, 0, 0)
        decoder.reset(is_restart=is_restart)
        assert [record.step for record in decoder.feed(rows, 0, 1)] == expected


def test_a_row_that_waited_for_its_step_is_counted_when_the_file_begins_anew():
    decoder = JsonlDecoder()
    decoder.feed(b'{"loss": 1}\n', 0, 0)
    decoder.reset()
    assert decoder.counts.no_step_lines == 1


def test_a_key_of_absurd_length_is_one_key_beside_numbers_and_beside_text():
    records, _ = decode({"step": 1, "k" * 600: 2.0}, {"step": 2, "k" * 600: 3.0, "note": "x"})
    assert records[0].schema.keys == records[1].schema.keys


@each_row("time", ["0001-01-01", "9999-12-31T23:59:59", "1970-01-01"])
def test_a_time_that_cannot_be_is_no_time(time):
    (record,), _ = decode({"step": 1, "time": time, "loss": 1.0})
    assert record.time_s is None


def test_offsets_name_the_start_of_each_line():
    lines = [b'{"step":1,"a":1}', b'{"step":2,"a":2,"b":3}', b'{"step":3,"a":3}']
    data = b"\n".join(lines) + b"\n"
    decoder = JsonlDecoder()
    records = [*decoder.feed(data[:5], 0, 7), *decoder.feed(data[5:30], 5, 7), *decoder.feed(data[30:], 30, 7)]
    assert [(record.position.generation, data[record.position.offset :].split(b"\n")[0]) for record in records] == [
        (7, line) for line in lines
    ]


@each_row("deep", [50, 5_000, 200_000])
def test_deep_nesting_is_survived(deep):
    records, counts = decode(b'{"step":1,"a":1,"x":' + b"[" * deep + b"]" * deep + b"}", {"step": 2, "a": 1})
    assert records[-1].step == 2
    assert len(records) + counts.bad_lines == 2


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_byte_that_is_no_utf_8_costs_its_text_only(end: bytes) -> None:
    lines = [
        {"step": 1, "loss": 0.5},
        b'{"step": 2, "loss": 0.25, "note": "caf\xe9", "k\xe9": 3, "k\xe8": 4, "data/\xff": {"x\xfe": 5}}',
        b'{"step": 3, "loss": NaN, "note": "\xff", "reward": 1}',
        b'{"step": 4, \xff "loss": 1}',
    ]
    records, counts = decode(*lines, end=end)
    assert [record.step for record in records] == [1, 2, 3]
    assert row(records[1]) == {"loss": 0.25, "k\\xe9": 3.0, "k\\xe8": 4.0, "data/\\xff/x\\xfe": 5.0}
    assert row(records[2]) == {"reward": 1.0}
    assert (counts.broken_texts, counts.text_values, counts.bad_lines) == (6, 2, 1)


@pytest.mark.usefixtures("parser")
def test_control_characters_in_a_text_cost_nothing_else() -> None:
    line = b'{"step": 1, "loss": 0.5, "said": "a\tb\x01\x1b[2J"}'
    (record,), counts = decode(line)
    assert row(record) == {"loss": 0.5}
    assert (counts.text_values, counts.bad_lines) == (1, 0)


@pytest.mark.usefixtures("parser")
def test_a_number_of_ten_thousand_digits_costs_its_value_only() -> None:
    digits = b"9" * 10_000
    lines = [
        b'{"step": 1, "a": %s, "b": -%s, "c": 0.%s, "d": "%s", "e": NaN, "f": 2}' % (digits, digits, digits, digits),
        b'{"step": %s, "a": 1}' % digits,
    ]
    (record,), counts = decode(*lines)
    assert row(record) == {"c": 1.0, "f": 2.0}
    assert kinds(record) == {
        "a": NonFinite.POS_INF,
        "b": NonFinite.NEG_INF,
        "d": NonFinite.POS_INF,
        "e": NonFinite.NAN,
    }
    assert (counts.bad_lines, counts.no_step_lines, counts.unusable_steps) == (0, 1, 1)


@each_row("torn", [b"", b'{"step": 2, "lo'])
@each_row("hole", [512, 20_000_000])
@each_row("piece", [1 << 18, 1 << 30])
def test_the_row_behind_a_hole_is_a_row_of_its_own(torn: bytes, hole: int, piece: int) -> None:
    before, behind = b'{"step": 1, "loss": 0.5}\n' + torn, b'{"step": 3, "loss": 0.25}\n'
    data = before + bytes(hole) + behind
    decoder = JsonlDecoder()
    records = [
        record for at in range(0, len(data), piece) for record in decoder.feed(data[at : at + piece], at, 0)
    ] + decoder.finish()
    assert [(record.step, record.position.offset) for record in records] == [(1, 0), (3, len(before) + hole)]
    counts = decoder.counts
    assert (counts.nul_bytes, counts.bad_lines, counts.oversize_lines) == (hole, len(torn) > 0, 0)


def test_a_hole_that_was_left_out_ends_a_line_too() -> None:
    decoder = JsonlDecoder()
    records = decoder.feed(b'{"step": 1, "loss": 0.5}\n{"st', 0, 0)
    records += decoder.feed(b'{"step": 2, "loss": 0.5}\n', 1 << 20, 0)
    assert [record.step for record in records] == [1, 2]
    assert decoder.counts.bad_lines == 1


def test_what_stands_under_logs_stands_beside_the_rest() -> None:
    decoder = JsonlDecoder()
    (record,) = decoder.feed(b'{"logs": {"loss": 0.5, "step": 3}, "epoch": 1.0}\n', 0, 0)
    assert (record.step, sorted(record.schema.keys)) == (3, ["epoch", "loss"])


def test_so_does_what_stands_under_metrics_beside_a_step() -> None:
    decoder = JsonlDecoder()
    lines = (
        b'{"step": 3, "metrics": {"loss": 0.5}}\n{"epoch": 1, "metrics": {"loss": 0.5}}\n{"step": 4, "metrics": 2.0}\n'
        b'{"metrics": {"step": 5, "loss": 0.5}}\n'
    )
    found = [(record.step, sorted(record.schema.keys)) for record in decoder.feed(lines, 0, 0)]
    assert found[0] == (3, ["loss"])
    assert (4, ["metrics"]) in found
    assert found[-1] == (5, ["loss"])
    assert not any("loss" in keys for _, keys in found[1:-1])


def _nested(step: int, **more: object) -> dict[str, object]:
    return {"event": "train", "meta": {"iter": step, "ts": 1.7e9 + step}, "metrics": {"reward": {"mean": 0.5}}, **more}


def test_a_step_may_stand_in_an_object_beside_the_metrics() -> None:
    records, counts = decode(*map(_nested, (3, 4)), {"metrics": {"loss": 1}})
    assert [(each.step, each.time_s) for each in records] == [(3, 1.7e9 + 3), (4, 1.7e9 + 4)]
    assert records[0].schema.keys == ("reward/mean",) and counts.no_step_lines == 1


@each_row("key", ["meta/iter", "meta/ts"])
def test_a_step_key_may_be_a_path(key: str) -> None:
    records, _ = decode(_nested(3), options=DecoderOptions(step_key=key))
    assert [each.step for each in records] == [3 if key == "meta/iter" else 1_700_000_003]


def test_a_step_key_that_fits_nothing_is_told_the_paths_that_there_are() -> None:
    _, counts = decode(_nested(3), options=DecoderOptions(step_key="iter"))
    assert "meta/iter" in counts.first_stepless


@each_row("inner", [{"timing": {"step": 31}}, {"agent": {"steps": 7}}, {"time": {"update": 3}}])
def test_a_duration_or_a_length_is_no_step(inner: dict[str, object]) -> None:
    records, _ = decode(*[{"loss": 0.5, **inner}] * 4)
    assert [each.step for each in records] == [1, 2, 3, 4]


def test_rows_with_a_step_lend_theirs_to_no_object() -> None:
    rows = {"step": 1, "loss": 0.5}, {"args": {"step": 100}, "lr": 1e-6}, {"step": 2, "loss": 0.5}
    records, _ = decode(*rows)
    assert [each.step for each in records] == [1, 2]


def test_a_step_that_stays_0_gives_way_to_that_of_the_writer() -> None:
    decoder = JsonlDecoder()
    lines = [b'{"step": 0, "_step": %d, "loss": 0.5}\n' % at for at in range(10)]
    records = decoder.feed(b"".join(lines), 0, 0)
    assert [record.step for record in records] == [0, 0, 0, 3, 4, 5, 6, 7, 8, 9]


def test_a_step_that_is_0_only_at_first_is_kept() -> None:
    decoder = JsonlDecoder()
    steps = [0, 0, 1, 2, 3]
    records = decoder.feed(b"".join(b'{"step": %d, "_step": %d}\n' % (s, at) for at, s in enumerate(steps)), 0, 0)
    assert [record.step for record in records] == steps


def _epochs(*steps: tuple[float | None, int]) -> list[int]:
    rows = [{"step": step, "loss": 0.5} | ({} if epoch is None else {"epoch": epoch}) for epoch, step in steps]
    return [record.step for record in decode(*rows)[0]]


def test_a_step_that_begins_anew_with_the_epoch_goes_on() -> None:
    assert _epochs(*((epoch, step) for epoch in range(3) for step in range(4))) == [*range(12)]
    assert _epochs(*((epoch + step / 4, step + 1) for epoch in range(3) for step in range(4))) == [*range(1, 13)]
    assert _epochs(*((epoch, step) for epoch in (1, 2) for step in (10, 20))) == [10, 20, 21, 31]


def test_a_run_that_goes_back_to_an_epoch_goes_back_to_its_steps() -> None:
    whole = [(epoch, step) for epoch in range(3) for step in range(4)]
    assert _epochs(*whole, *whole[4:])[12:] == [*range(4, 12)]
    assert _epochs(*whole, *whole)[12:] == [*range(12)]
    assert _epochs(*whole[:5], (0, 3), *whole[5:]) == [0, 1, 2, 3, 4, 3, *range(5, 12)]


def test_a_step_that_begins_anew_without_a_later_epoch_stays_what_it_is() -> None:
    assert _epochs(*[(None, 0), (None, 1)] * 2) == [0, 1, 0, 1]
    assert _epochs(*[(0, 0), (0, 1)] * 2) == [0, 1, 0, 1]
    assert _epochs((0.0, 0), (0.2, 1), (0.4, 2), (0.2, 1), (0.6, 1)) == [0, 1, 2, 1, 1]


def test_an_evaluation_begins_no_epoch() -> None:
    rows = [{"step": step, "epoch": 0, "loss": 0.5} for step in range(4)]
    evaluation = {"step": 0, "epoch": 1, "eval_loss": 0.5}
    found, counts = decode(*rows, evaluation, {"step": 0, "epoch": 1, "loss": 0.5}, {**evaluation, "step": 1})
    assert [record.step for record in found] == [0, 1, 2, 3, 0, 4, 5]
    assert counts.counted_on_rows == 2


INDENTED = [{"step": step, "loss": 0.5, "layers": [1, 2], "more": {"kl": 0.25}} for step in range(3)]


@pytest.mark.parametrize("end", ["\n", ",\n", "\r\n"])
def test_objects_over_several_lines_are_rows_however_they_come(end: str, parser: str) -> None:
    text = end.join(json.dumps(each, indent=2).replace("\n", end[-2:].strip(",")) for each in INDENTED).encode()
    assert kind_of(text, "metrics.jsonl", is_all=True) is kind_of(text[:160], "out.log", is_all=False) is JSONL
    for size in (1, 9, len(text)):
        decoder = JsonlDecoder()
        records = [record for at in range(0, len(text), size) for record in decoder.feed(text[at : at + size], at, 0)]
        records += decoder.finish()
        assert [(record.step, row(record)) for record in records] == [
            (step, {"loss": 0.5, "more/kl": 0.25}) for step in range(3)
        ]
        assert decoder.counts.bad_lines == 0


def test_a_brace_that_is_never_closed_costs_no_row_behind_it() -> None:
    records, counts = decode({"step": 1, "loss": 0.5}, b"{", b' "torn', {"step": 2, "loss": 0.5}, b"{", b' "a": 1,')
    assert [record.step for record in records] == [1, 2]
    assert counts.bad_lines == 2 and "over several lines" in counts.first_bad_reason
