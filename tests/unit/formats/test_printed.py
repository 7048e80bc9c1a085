"""Dictionaries that Python has printed, in cells and texts."""

from __future__ import annotations

import csv
import io
import json

from stores import row
from tables import each_row

from rltop.formats.csv import CsvDecoder
from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.rows import is_printed_dict, read_printed

INFO = {"num_steps": 500, "learner": {"policy_entropy": 1.5, "grad_gnorm": 40.0}, "sizes": [1, {"a": 2}], "note": "x"}


@each_row(
    ("text", "found"),
    [
        ("{'a': 1.5, 'b': {'c': nan, 'd': None}}", {"a": "1.5", "b": {"c": "nan", "d": None}}),
        ('{"a": 1e-3, "b": true}', {"a": "1e-3", "b": True}),
        ("{'a': [1, (2, {'x': 3})], 'b': -2,}", {"b": "-2"}),
        ("{'a': np.float64(2.0), 'b': tensor(3.5, device='cuda:0')}", {"a": "2.0", "b": "3.5"}),
        ("{'f': <function f at 0x7f>, 'a': 1}", {"f": "<function", "a": "1"}),
        ("{'it\\'s': 'a, {b}', 'c': 2}", {"it\\'s": "a, {b}", "c": "2"}),
    ],
)
def test_what_python_prints_is_read(text: str, found: dict[str, object]) -> None:
    assert is_printed_dict(text)
    assert read_printed(text) == found


@each_row(
    "text",
    ["{'a': 1", "{'a' 1}", "{1, 2}", "{'a': 1} more", "{'a': [1, 2}", "{'a'}", "{", "['a']", "{'a': {" * 12 + "}" * 12],
)
def test_anything_else_is_none(text: str) -> None:
    assert read_printed(text) is None


def test_a_cell_of_a_table_that_holds_a_dictionary_is_columns_of_its_own() -> None:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(["training_iteration", "info", "note"])
    for number in (1, 2):
        writer.writerow([number, str(INFO), "a {text}"])
    decoder = CsvDecoder()
    records = [*decoder.feed(text.getvalue().encode(), 0, 0), *decoder.finish()]
    assert [record.step for record in records] == [1, 2]
    assert row(records[0]) == {
        "info/num_steps": 500.0, "info/learner/policy_entropy": 1.5, "info/learner/grad_gnorm": 40.0,
    }  # fmt: skip


def test_a_text_of_a_row_that_spells_a_dictionary_is_an_object() -> None:
    line = {"step": 3, "ppo_metrics": "{'kl_div': 0.25, 'reward': 1.5}", "prompt": "{curly}", "loss": 0.5}
    decoder = JsonlDecoder()
    (record,) = decoder.feed(json.dumps(line).encode() + b"\n", 0, 0)
    assert row(record) == {"ppo_metrics/kl_div": 0.25, "ppo_metrics/reward": 1.5, "loss": 0.5}
    assert decoder.counts.text_values == 1
