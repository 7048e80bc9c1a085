"""Documents that are only readable as a whole."""

from __future__ import annotations

import json

from stores import cells_of, read_in_pieces
from tables import each_row

from rltop.formats.json_document import DocumentDecoder
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
    decoder = DocumentDecoder()
    return read_in_pieces(decoder, data, size), decoder


@each_row("size", [1, 7, 1 << 20])
@each_row("text", [dump(STATE), json.dumps(STATE).encode(), b"\xef\xbb\xbf" + dump(STATE)])
def test_the_rows_of_a_state_file(text, size):
    records, decoder = decode(text, size)
    assert [record.step for record in records] == [10, 20, 20]
    assert {record.total_steps for record in records} == {200}
    assert cells_of(records)[20, "eval_loss"] == 0.4
    assert (decoder.counts.rows, decoder.counts.bad_lines) == (3, 0)


def test_a_whole_document_is_given_out_before_the_end():
    decoder = DocumentDecoder()
    assert len(decoder.feed(dump(STATE), 0, 0)) == 3
    assert decoder.finish() == []


def test_half_a_document_is_not_yet_an_error():
    decoder = DocumentDecoder()
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
    decoder = DocumentDecoder()
    decoder.feed(dump(STATE), 0, 0)
    decoder.reset()
    more = {**STATE, "log_history": [*ROWS, {"step": 30, "loss": 0.125}]}
    assert [record.step for record in decoder.feed(dump(more), 0, 1)] == [30]
    assert decoder.counts.rows == 4


def test_a_history_that_differs_is_new_from_there_on():
    decoder = DocumentDecoder()
    decoder.feed(dump(STATE), 0, 0)
    decoder.reset()
    other = {**STATE, "log_history": [ROWS[0], {"step": 15, "loss": 0.3}]}
    assert [record.step for record in decoder.feed(dump(other), 0, 1)] == [15]


@each_row(
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
    assert cells_of(records) == {(1, "a"): 0.5, (2, "a"): 1.5}
    assert decoder.counts.bad_lines == 0


@each_row("text", [b"5", b"{}", b"[]", b"[1, 2]", b"[" * 100_000, b"{'a': 1}", b'{"config": {"a": 1}}'])
def test_documents_without_rows_are_counted(text):
    records, decoder = decode(text)
    assert records == []
    assert decoder.counts.bad_lines >= 1


def test_a_document_that_has_fewer_of_the_same_rows_goes_on_from_its_last_one():
    decoder, rows = DocumentDecoder(), [{"step": n, "loss": 1.0 / n} for n in range(1, 61)]
    decoder.feed(dump({"log_history": rows}), 0, 0)
    given = []
    for generation, size in enumerate((25, 25, 26), 1):
        decoder.reset()
        given.append(decoder.feed(dump({"log_history": rows[:size]}), 0, generation))
    assert [[(record.step, record.is_new_end) for record in records] for records in given] == [
        [(25, True)], [], [(26, False)],
    ]  # fmt: skip
    assert decoder.counts.rows == 61


def test_text_behind_the_document_is_counted_once():
    decoder = DocumentDecoder()
    decoder.feed(dump(STATE), 0, 0)
    decoder.feed(b"more\n", 1000, 0)
    decoder.feed(b"more\n", 1005, 0)
    assert decoder.counts.bad_lines == 1


def test_one_value_that_is_no_json_does_not_cost_the_document() -> None:
    data = dump(STATE).replace(b"0.25", b"9" * 10_000).replace(b"null", b'"caf\xe9"')
    records, decoder = decode(data)
    assert cells_of(records)[20, "loss"] is NonFinite.POS_INF
    assert cells_of(records)[10, "loss"] == 0.5
    assert (decoder.counts.bad_lines, decoder.counts.broken_texts) == (0, 1)


def large(count, **more):
    """A document that is parsed in pieces."""
    rows = [{"step": i, "note": "x" * 100, **{f"m{j}": i + j / 8 for j in range(4)}} for i in range(count)]
    return json.dumps({"log_history": rows, "max_steps": 9_999, **more}, indent=1).encode() + b"\n"


def in_pieces(decoder, data, generation=0):
    """Rows by call, as a session asks for them."""
    calls = [decoder.feed(data[at : at + 65536], at, generation) for at in range(0, len(data), 65536)]
    while decoder.has_more:
        calls.append(decoder.decode_more())
    return calls


def test_a_large_document_is_read_in_pieces():
    calls = in_pieces(decoder := DocumentDecoder(), large(4_000))
    assert [record.step for call in calls for record in call] == list(range(4_000))
    assert {record.total_steps for call in calls for record in call} == {9_999}
    assert max(map(len, calls)) <= 100
    assert (decoder.counts.rows, decoder.counts.bad_lines, decoder.is_waiting) == (4_000, 0, False)
    decoder.reset()
    calls = in_pieces(decoder, large(4_001, best_metric=1.0), 1)
    assert [record.step for call in calls for record in call] == [4_000]


def test_and_whole_where_nobody_asks_for_the_pieces():
    decoder, data = DocumentDecoder(), large(4_000)
    records = decoder.feed(data[:-9], 0, 0)
    records += decoder.feed(data[-9:], len(data) - 9, 0)
    records += decoder.finish()
    assert [record.step for record in records] == list(range(4_000))


def test_a_large_document_on_one_line_is_read_when_nothing_more_comes():
    decoder, data = DocumentDecoder(), json.dumps(json.loads(large(4_000))).encode()
    assert in_pieces(decoder, data) == [[]] * -(-len(data) // 65536)
    records = decoder.flush()
    while decoder.has_more:
        records += decoder.decode_more()
    assert len(records) == 4_000
    assert decoder.flush() == []


def test_half_of_a_large_document_is_not_yet_an_error():
    decoder, data = DocumentDecoder(), large(4_000)
    assert not any(in_pieces(decoder, data[:-40]))
    assert decoder.flush() == []
    assert not any(decoder.decode_more() for _ in range(1_000) if decoder.has_more)
    assert (decoder.is_waiting, decoder.counts.bad_lines) == (True, 0)
    records = decoder.feed(data[-40:], len(data) - 40, 0) + decoder.finish()
    assert len(records) == 4_000


def test_a_row_that_was_changed_ends_what_is_known():
    decoder = DocumentDecoder()
    decoder.feed(dump(STATE), 0, 0)
    for rows, steps in (
        ([ROWS[0], {"step": 20, "loss": 0.3}], [20]),
        ([ROWS[0], {"step": 20, "loss": 0.3}, ROWS[2]], [20]),
        (
            [{"epoch": 0.1, "loss": 0.5, "step": 10}, {"step": 20, "loss": 0.3}, ROWS[2], {"step": 30, "loss": 1.0}],
            [30],
        ),
    ):
        decoder.reset()
        assert [r.step for r in decoder.feed(json.dumps({"log_history": rows}).encode(), 0, 1)] == steps


@each_row(
    ("document", "found"),
    [
        ({"names": ["a", "b"], "tags": ["c"]}, "2 lists of different lengths (names 2, tags 1)"),
        ({f"k{i}": [0.5] * i for i in range(9)}, "9 lists of different lengths (k0 0, k1 1, k2 2, k3 3, …)"),
        ({"experiment": "x", "results": {"loss": 1.0}}, "an object with experiment, results"),
    ],
)
def test_a_document_without_rows_is_told_by_what_it_holds(document, found) -> None:
    records, decoder = decode(dump(document))
    assert not records
    assert decoder.counts.first_bad_reason == f"JSON document without rows: {found}"


def test_columns_may_stand_one_level_down() -> None:
    records, decoder = decode(dump({"config": {"lr": 1.0}, "history": {"loss": [0.5, 0.25], "reward": [1.0, 2.0]}}))
    assert cells_of(records) == {(1, "loss"): 0.5, (1, "reward"): 1.0, (2, "loss"): 0.25, (2, "reward"): 2.0}
    assert not decoder.counts.bad_lines


def test_rows_without_a_step_are_numbered() -> None:
    records, decoder = decode(dump([{"loss": 0.5, "reward": 1}, {"note": "x"}, {"loss": 0.25}]))
    assert [(record.step, record.values[0]) for record in records] == [(1, 0.5), (3, 0.25)]
    assert (decoder.counts.numbered_rows, decoder.counts.no_step_lines) == (2, 1)


def test_rows_among_which_one_names_its_step_are_not_numbered() -> None:
    records, decoder = decode(dump([{"loss": 0.5}, {"step": 7, "loss": 0.25}]))
    assert [record.step for record in records] == [7]
    assert decoder.counts.no_step_lines == 1


def test_a_column_that_lacks_its_last_values() -> None:
    records, _ = decode(dump({"loss": [0.5] * 100, "reward": [0.1] * 98}))
    assert [len(record.values) for record in records] == [2] * 98 + [1] * 2


def test_a_much_shorter_column_was_logged_less_often() -> None:
    records, _ = decode(dump({"loss": [float(at) for at in range(1, 101)], "eval_loss": [0.5, 0.4, 0.3, 0.2]}))
    assert len(records) == 100
    found = cells_of(records)
    assert [step for step, key in found if key == "eval_loss"] == [25, 50, 75, 100]
    assert found[100, "eval_loss"] == 0.2


def test_what_stands_under_logs_stands_beside_the_rest() -> None:
    records, _ = decode(dump([{"step": 1, "logs": {"loss": 0.5, "lr": 1e-5}}, {"step": 2, "logs": {"loss": 0.4}}]))
    assert [sorted(record.schema.keys) for record in records] == [["loss", "lr"], ["loss"]]


def test_columns_of_rows_are_put_together_by_their_step() -> None:
    document = {
        "eval_loss": [],
        "learning_rate": [{"step": 1.0, "epoch": 0.1, "learning_rate": 0.5}, {"step": 2.0, "learning_rate": 0.25}],
        "rewards/margins": [{"step": 2.0, "rewards/margins": 1.5}],
    }
    records, decoder = decode(dump(document))
    assert cells_of(records) == {
        (1, "epoch"): 0.1,
        (1, "learning_rate"): 0.5,
        (2, "learning_rate"): 0.25,
        (2, "rewards/margins"): 1.5,
    }
    assert not decoder.counts.bad_lines


def test_one_list_of_losses_is_a_column() -> None:
    losses = [0.5 / (number + 1) for number in range(12)]
    records, decoder = decode(dump({"losses": losses, "best_loss": 0.1, "config": {"layers": [1, 2]}}))
    assert cells_of(records) == {(number + 1, "losses"): loss for number, loss in enumerate(losses)}
    assert not decoder.counts.bad_lines


@each_row(
    "document",
    [{"losses": [0.5, 0.25, 0.125]}, {"layers": list(range(40))}, {"losses": [[1, 2]] * 40}, {"losses": ["x"] * 40}],
)
def test_another_list_is_none(document) -> None:
    assert not decode(dump(document))[0]


def test_rows_of_episodes_are_numbered_by_themselves_not_by_how_long_they_were() -> None:
    rows = [{"episode": number, "steps": 50, "reward": 0.5} for number in (3, 6, 9)]
    assert [record.step for record in decode(json.dumps(rows).encode())[0]] == [1, 2, 3]


def test_several_documents_in_one_file_are_named() -> None:
    decoder = DocumentDecoder()
    assert decoder.feed(b'{\n "step": 1\n}\n{\n "step": 2\n}\n', 0, 0) + decoder.finish() == []
    assert decoder.counts.first_bad_reason == "several JSON documents, which a file ending in .jsonl may hold"
