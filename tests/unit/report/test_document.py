"""The JSON documents of `--once --json` and `check --json`."""

from __future__ import annotations

import json
import math
from typing import Any

from fake_run import FakeRun, run_of, run_of_file, verl_lines, verl_rows
from jsonschema import Draft202012Validator
from recorded import RecordedRun, each_jsonl_run

from rltop import resources
from rltop.model import Event, EventState, Level, VerdictState
from rltop.report.document import check_document, dumps
from rltop.report.overview_document import once_document
from rltop.run.snapshot import Snapshot

WORST = ["worst", "worst_alert", "earlier_alert", "muted_alerts", "own_rules"]


def read(document: dict[str, Any]) -> Any:
    return json.loads(dumps(document))


def test_check_has_exactly_the_promised_shape(run: FakeRun) -> None:
    document = read(check_document(Snapshot(run)))
    assert list(document) == [
        "schema",
        "run",
        "dialect",
        "algorithm",
        "records",
        "step",
        "state",
        "failure",
        "level",
        *WORST,
        "incidents",
        "pipeline",
        "verdicts",
        "events",
        "counts",
    ]
    assert (document["dialect"], document["algorithm"]) == ("veRL", "grpo")
    assert (document["records"], document["step"], document["level"]) == (1204, 1204, "crit")
    keys = ["rule", "family", "level", "worst", "state", "metric", "key", "since_step", "since_record", "headline"]
    keys += ["evidence", "next", "settled", "incident", "advice"]
    assert all(list(verdict) == keys for verdict in document["verdicts"])
    assert [verdict["rule"] for verdict in document["verdicts"]] == ["T2", "O11", "P1", "P6"]
    keys = ["record", "step", "rule", "family", "level", "state", "message"]
    assert all(list(event) == keys for event in document["events"])
    assert [event["state"] for event in document["events"]][-3:] == ["recovered", "firing", "escalated"]


def test_facts_and_recovered_verdicts_are_not_findings(run: FakeRun) -> None:
    changed = FakeRun(**vars(run))
    changed.events = [Event(5, 5, "L6", "restart", Level.INFO, EventState.FACT, "restart"), *run.events]
    changed.verdicts = [one for one in run.verdicts if one.rule == "O11"]
    over = changed.verdicts[0]
    changed.verdicts = [over._replace(state=VerdictState.RECOVERED)]
    document = read(check_document(Snapshot(changed)))
    assert document["level"] == "ok"
    assert document["verdicts"] == []
    assert len(document["events"]) == len(run.events)
    assert len(read(once_document(Snapshot(changed)))["events"]) == len(run.events) + 1


def test_nothing_is_no_data() -> None:
    document = read(check_document(Snapshot(run_of(b""))))
    assert document["level"] == "no data"
    assert (document["records"], document["step"], document["dialect"], document["algorithm"]) == (0, None, None, None)


def test_signals_have_the_values_of_the_newest_row(run: FakeRun) -> None:
    newest = verl_rows(is_ill=True)[-1][1]
    document = read(once_document(Snapshot(run)))
    checked = 0
    for signal in document["signals"]:
        if signal["key"] in newest:
            assert signal["raw"] == newest[signal["key"]]
            assert signal["step"] == 1204
            checked += 1
    assert checked > 30
    names = {signal["name"]: signal for signal in reversed(document["signals"])}
    assert names["entropy"]["value"] == newest["actor/entropy"]
    assert names["val_score"]["step"] == 1200


def test_every_key_is_somewhere(run: FakeRun) -> None:
    document = read(once_document(Snapshot(run)))
    keys = {one["key"] for one in (*document["signals"], *document["other_keys"])}
    assert keys == set(run.stream.keys)


def test_spans_add_up_to_the_step(run: FakeRun) -> None:
    timing = read(once_document(Snapshot(run)))["timing"]
    spans = [span for span in timing["spans"] if span["kind"] in ("sequential", "other")]
    assert math.isclose(sum(span["duration_s"] for span in spans), timing["total_s"], rel_tol=0.01)
    assert timing["step"] == 1204


def test_what_was_not_finite_and_what_was_skipped_is_counted() -> None:
    rows = verl_rows(40)
    rows[29][1]["actor/grad_norm"] = None
    run = run_of(b"nonsense\n" + verl_lines(rows))
    document = read(once_document(Snapshot(run)))
    assert read(check_document(Snapshot(run)))["counts"] == document["counts"]
    (signal,) = [one for one in document["signals"] if one["key"] == "actor/grad_norm"]
    assert signal["nonfinite"] == {"count": 1, "first_step": 30, "last_step": 30, "last_kind": "null"}
    assert document["counts"]["bad_lines"] == 1
    assert document["counts"]["nonfinite_values"] == 1
    assert document["counts"]["first_bad_line"] == 1


def test_names_that_utf8_cannot_carry_are_escaped() -> None:
    assert read({"run": "a\ud800b", "n": [2**80]}) == {"run": "a\\ud800b", "n": [float(2**80)]}


SCHEMA_FILE = json.loads((resources.folder("fixtures").parent / "rltop" / "report" / "schema.json").read_text())


@each_jsonl_run(every=3)
def test_every_recorded_run_can_be_told_as_the_published_schema_says(run: RecordedRun) -> None:
    found = run_of_file(run.metrics)
    document = read(once_document(Snapshot(found)))
    assert document["records"] == found.stream.rows > 0
    assert document["step"] == found.stream.last_step
    assert document["sentence"]
    checked = read(check_document(Snapshot(found)))
    assert checked["records"] == document["records"]
    Draft202012Validator(SCHEMA_FILE).validate(checked)


@each_jsonl_run()
def test_the_worst_alert_of_a_recorded_run_is_the_one_that_is_shown_first(run: RecordedRun) -> None:
    document = read(check_document(Snapshot(run_of_file(run.metrics))))
    first = next(iter(document["verdicts"]), None)
    if first is not None and first["level"] == document["worst"] and first["level"] in ("warn", "crit"):
        assert (document["worst_alert"]["rule"], document["worst_alert"]["level"]) == (first["rule"], first["level"])


def test_the_schema_refuses_what_is_not_promised(run: FakeRun) -> None:
    document = read(check_document(Snapshot(run)))
    validator = Draft202012Validator(SCHEMA_FILE)
    validator.validate(document)
    validator.validate([{"path": "m.jsonl", **document}, {"path": "x", "error": "no"}])
    for change in ({"extra": 1}, {"level": "bad"}, {"records": -1}, {"schema": 2}):
        assert not validator.is_valid({**document, **change})
    assert not validator.is_valid({key: value for key, value in document.items() if key != "worst"})
