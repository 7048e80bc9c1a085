"""Documents that are only readable as a whole."""

from __future__ import annotations

import json

import pytest
from recorded import REASON, runs_root

from rltop.decode.jsonl import JsonlDecoder
from rltop.decode.trainer_state import TrainerStateDecoder
from rltop.model import NonFinite

ROWS = [
    {"step": 10, "loss": 0.5, "epoch": 0.1},
    {"step": 20, "loss": 0.25, "epoch": 0.2},
    {"step": 20, "eval_loss": 0.4},
]
STATE = {"epoch": 0.2, "global_step": 20, "log_history": ROWS, "max_steps": 200, "trial_name": None}


def dump(document):
    return json.dumps(document, indent=2, sort_keys=True).encode() + b"\n"


def decode(data, size=1 << 20):
    decoder = TrainerStateDecoder()
    records = [r for at in range(0, len(data), size) for r in decoder.feed(data[at : at + size], at, 0)]
    return [*records, *decoder.finish()], decoder


def cells(records):
    found = {}
    for record in records:
        marks = {mark.cell: mark.kind for mark in record.marks}
        for i, key in enumerate(record.shape.keys):
            found[record.step, key] = marks.get(i, record.values[i])
    return found


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("text", [dump(STATE), json.dumps(STATE).encode(), b"\xef\xbb\xbf" + dump(STATE)])
def test_the_rows_of_a_state_file(text, size):
    records, decoder = decode(text, size)
    assert [record.step for record in records] == [10, 20, 20]
    assert {record.total_steps for record in records} == {200}
    assert cells(records)[20, "eval_loss"] == 0.4
    assert (decoder.counts.rows, decoder.counts.bad_lines) == (3, 0)


def test_a_whole_document_is_given_out_before_the_end():
    decoder = TrainerStateDecoder()
    assert len(decoder.feed(dump(STATE), 0, 0)) == 3
    assert decoder.finish() == []


def test_half_a_document_is_not_yet_an_error():
    decoder = TrainerStateDecoder()
    text = dump(STATE)
    assert decoder.feed(text[:-40], 0, 0) == []
    assert decoder.is_waiting
    assert decoder.counts.bad_lines == 0
    assert len(decoder.feed(text[-40:], len(text) - 40, 0)) == 3
    assert not decoder.is_waiting


def test_half_a_document_at_the_end_is_one():
    records, decoder = decode(dump(STATE)[:-40])
    assert records == []
    assert decoder.counts.bad_lines == 1


def test_literal_nan_is_read():
    (record,), _ = decode(b'{"log_history": [{"step": 1, "loss": NaN, "grad_norm": -Infinity}]}')
    assert [mark.kind for mark in record.marks] == [NonFinite.NAN, NonFinite.NEG_INF]


def test_the_next_checkpoint_gives_only_what_is_new():
    decoder = TrainerStateDecoder()
    decoder.feed(dump(STATE), 0, 0)
    decoder.reset()
    more = {**STATE, "log_history": [*ROWS, {"step": 30, "loss": 0.125}]}
    assert [record.step for record in decoder.feed(dump(more), 0, 1)] == [30]
    assert decoder.counts.rows == 4


def test_a_history_that_differs_is_new_from_there_on():
    decoder = TrainerStateDecoder()
    decoder.feed(dump(STATE), 0, 0)
    decoder.reset()
    other = {**STATE, "log_history": [ROWS[0], {"step": 15, "loss": 0.3}]}
    assert [record.step for record in decoder.feed(dump(other), 0, 1)] == [15]


@pytest.mark.parametrize(
    "document",
    [
        [{"step": 1, "a": 0.5}, {"step": 2, "a": 1.5}],
        {"run": "x", "history": [{"step": 1, "a": 0.5}, {"step": 2, "a": 1.5}]},
        {"anything": [{"step": 1, "a": 0.5}, {"step": 2, "a": 1.5}]},
        {"1": {"a": 0.5}, "2": {"a": 1.5}},
        {"a": [0.5, 1.5], "step": [1, 2]},
    ],
)
def test_other_shapes_of_rows(document):
    records, decoder = decode(dump(document))
    assert cells(records) == {(1, "a"): 0.5, (2, "a"): 1.5}
    assert decoder.counts.bad_lines == 0


@pytest.mark.parametrize("text", [b"5", b"{}", b"[]", b"[1, 2]", b"[" * 100_000, b"{'a': 1}", b'{"config": {"a": 1}}'])
def test_documents_without_rows_are_counted(text):
    records, decoder = decode(text)
    assert records == []
    assert decoder.counts.bad_lines >= 1


def test_text_behind_the_document_is_counted_once():
    decoder = TrainerStateDecoder()
    decoder.feed(dump(STATE), 0, 0)
    decoder.feed(b"more\n", 1000, 0)
    decoder.feed(b"more\n", 1005, 0)
    assert decoder.counts.bad_lines == 1


def state_files():
    root = runs_root()
    return sorted(root.glob("trl/*/trainer_state.json")) if root else []


@pytest.mark.parametrize("path", state_files() or [None], ids=lambda path: path.parent.name if path else "no-runs")
def test_a_state_file_agrees_with_the_stream_of_its_run(path):
    if path is None:
        pytest.skip(REASON)
    state, _ = decode(path.read_bytes(), 65536)
    jsonl = JsonlDecoder()
    stream = cells([*jsonl.feed((path.parent / "metrics.jsonl").read_bytes(), 0, 0), *jsonl.finish()])
    # The stream was appended to by a restarted run, the state was not: the last word on a step is the same.
    assert cells(state) == stream


@pytest.mark.parametrize(
    ("pattern", "count", "last", "total"),
    [
        ("trl-dpo/clean-code-dpo/*.json", 21, 160, 160),
        ("trl-grpo/f1-dead-run-800/t*.json", 80, 800, 800),
        ("trl-grpo/text2sql-1000/t*.json", 200, 1000, 1000),
        ("trl-grpo/unsloth-gsm8k-250/t*.json", 250, 250, 250),
        ("json-custom/fair-rlvr-990/s*.json", 990, 1000, None),
    ],
)
def test_recorded_documents(pattern, count, last, total):
    if runs_root() is None:
        pytest.skip(REASON)
    path = next(p for p in (runs_root() / "public").glob(pattern) if p.name != "label.json")
    records, decoder = decode(path.read_bytes(), 65536)
    assert (len(records), records[-1].step, records[-1].total_steps) == (count, last, total)
    assert decoder.counts.bad_lines == decoder.counts.no_step_lines == 0


@pytest.mark.parametrize(
    ("document", "found"),
    [
        (
            {"loss": [0.5] * 5_200, "eval_loss": [0.4] * 80},
            "2 lists that are not of one length (eval_loss 80, loss 5,200)",
        ),
        ({f"k{i}": [0.5] * i for i in range(9)}, "9 lists that are not of one length (k0 0, k1 1, k2 2, k3 3, …)"),
        ({"experiment": "x", "results": {"loss": 1.0}}, "an object of experiment, results"),
    ],
)
def test_a_document_without_rows_is_told_by_what_it_holds(document, found) -> None:
    records, decoder = decode(dump(document))
    assert not records
    assert decoder.counts.first_bad_reason == f"a JSON document without rows: {found}"


def test_columns_may_stand_one_level_down() -> None:
    records, decoder = decode(dump({"config": {"lr": 1.0}, "history": {"loss": [0.5, 0.25], "reward": [1.0, 2.0]}}))
    assert cells(records) == {(1, "loss"): 0.5, (1, "reward"): 1.0, (2, "loss"): 0.25, (2, "reward"): 2.0}
    assert not decoder.counts.bad_lines
