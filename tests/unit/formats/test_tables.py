"""Runs of Trackio and MLflow: what these packages wrote is what is read, row by row."""

from __future__ import annotations

import gzip
import json
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.errors import SourceError
from rltop.formats.tables import IS_DATABASE, TableDecoder
from rltop.model import RunState
from rltop.model.table_rows import ROWS_MAGIC, line_of, member_path, row_of, split_member
from rltop.rules.facts import SAID
from rltop.run.discover import discover
from rltop.run.options import IngestOptions
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed
from rltop.store.stream import Stream

FIXTURES = Path(__file__).parents[3] / "fixtures" / "trackers"
EXPECTED = json.loads((FIXTURES / "expected.json").read_text())
RUNS = [(store, name) for store, runs in EXPECTED.items() for name in runs if store not in ("swanlab", "tables")]


@pytest.fixture
def stores(tmp_path: Path) -> Path:
    """The stores as the packages left them: the databases unpacked, the folders linked."""
    (tmp_path / "trackio.db").write_bytes((FIXTURES / "trackio.db").read_bytes())
    (tmp_path / "mlflow.db").write_bytes(gzip.decompress((FIXTURES / "mlflow.db.gz").read_bytes()))
    (tmp_path / "mlruns").symlink_to(FIXTURES / "mlruns")
    return tmp_path


def opened(stores: Path, store: str, name: str):
    found = [each for each in discover([str(stores / store)]).found if each.name.raw.endswith(name)]
    assert len(found) == 1
    return read_whole(found[0], Config(), FakeClock()).runs[0]


@pytest.mark.parametrize(("store", "name"), RUNS)
def test_every_number_that_was_handed_to_a_tracker_is_there(stores: Path, store: str, name: str) -> None:
    before = sorted(stores.iterdir())
    run = opened(stores, store, name)
    stream = run.main.stream
    told = EXPECTED[store][name]
    assert list(stream.steps()) == [step for step, _ in told]
    for step, row in told:
        for key, value in row.items():
            number = float(value)
            found = stream.value(key, step)
            assert found == number if math.isfinite(number) else found is None, (step, key)
    assert run.counts.nonfinite_values == 2
    assert run.counts.bad_lines == run.counts.no_step_lines == 0
    assert run.main.identity.group_size == 8
    assert stream.total_steps == 120
    assert sorted(stores.iterdir()) == before


@pytest.mark.parametrize("name", EXPECTED["trackio.db"])
def test_samples_and_alerts_of_trackio_are_keys_of_the_rows(stores: Path, name: str) -> None:
    stream = opened(stores, "trackio.db", name).main.stream
    steps = list(stream.steps())
    sampled = [step for step in steps if stream.value("system/gpu/0/utilization", step) is not None]
    assert sampled
    assert sum(stream.value("alerts/warn", step) or 0.0 for step in steps) == 1.0
    assert stream.value("alerts/warn", steps[-1]) == 1.0


def test_samples_of_mlflow_do_not_count_as_steps_and_the_end_is_known(stores: Path) -> None:
    for store in ("mlflow.db", "mlruns"):
        run = opened(stores, store, "finished")
        assert run.main.stream.value("system/gpu_0_utilization_percentage", 50) == 84.0
        assert run.main.whole.pipeline.decoder.is_finished
        assert not run.main.whole.pipeline.decoder.failure
        assert "failed" in opened(stores, store, "failed").main.whole.pipeline.decoder.failure


def test_runs_of_a_store_are_listed_and_one_can_be_named(stores: Path) -> None:
    path = str(stores / "trackio.db")
    listed = discover([path]).found
    assert sorted(each.name.raw for each in listed) == ["no/own step", "own-step"]
    for each in listed:
        assert [one.path for one in discover([each.path]).found] == [each.path]
        assert [one.path for one in discover([member_path(path, each.name.raw)]).found] == [each.path]
    with pytest.raises(SourceError, match="has no run nobody") as refused:
        discover([f"{path}::nobody"])
    assert "own-step" in refused.value.hint


def test_a_store_beside_a_metric_file_is_no_copy_of_it(stores: Path) -> None:
    (stores / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5}\n{"step": 2, "loss": 0.4}\n')
    names = [each.name.raw.rpartition("/")[2] for each in discover([str(stores)]).found]
    assert sorted(names) == sorted([stores.name, "own step", "own-step", "finished", "failed"])


def test_a_run_that_was_deleted_is_not_listed(stores: Path, tmp_path: Path) -> None:
    run = tmp_path / "store" / "1" / "abc"
    (run / "metrics").mkdir(parents=True)
    (run / "metrics" / "loss").write_text("1790000000000 0.5 1\n")
    for stage, count in (("active", 1), ("deleted", 0)):
        (run / "meta.yaml").write_text(f"lifecycle_stage: {stage}\nrun_name: mine\nstatus: 1\n")
        assert len(discover([str(tmp_path / "store")]).found) == count


def test_a_database_through_a_pipe_is_refused_with_a_remedy() -> None:
    data = (FIXTURES / "trackio.db").read_bytes()
    decoder = TableDecoder()
    assert not decoder.feed(data, 0, 0)
    assert decoder.stopped == IS_DATABASE


def lines(*rows: tuple[str, dict[str, object]]) -> bytes:
    return ROWS_MAGIC + b"".join(line_of(table, values.items()) for table, values in rows)


def trackio(step: int, cells: dict[str, object]) -> tuple[str, dict[str, object]]:
    return "metrics", {"id": step, "step": step, "timestamp": "2026-11-22T10:00:00+00:00", "metrics": json.dumps(cells)}


def test_times_before_the_trainers_first_step_do_not_stand_behind_it() -> None:
    decoder = TableDecoder()
    rows = [
        trackio(0, {"profiling/a": 1.0}),
        trackio(7, {"profiling/a": 2.0}),
        trackio(8, {"a": 3.0, "train/global_step": 5}),
    ]
    records = [*decoder.feed(lines(*rows, trackio(9, {"b": 1.0})), 0, 0), *decoder.finish()]
    assert [record.step for record in records] == [0, 5, 5, 5]


def test_a_row_of_metrics_without_a_step_waits_only_while_others_come() -> None:
    decoder = TableDecoder()
    records = [*decoder.feed(lines(trackio(7, {"loss": 1.0})), 0, 0), *decoder.flush()]
    assert [record.step for record in records] == [7]


def test_the_steps_are_the_trainers_however_many_rows_the_tracker_counts_between_them() -> None:
    """TRL's timings carry its step, what transformers logs and tables of completions a number of Trackio's own."""
    rows: list[tuple[str, dict[str, object]]] = [("configs", {"config": json.dumps({"logging_steps": 5})})]
    number = 0
    for step in range(1, 31):
        rows += [trackio(step - 1, {"profiling/a": float(i)}) for i in range(4)]
        rows += [trackio(number, {"reward_calls": float(step)})]
        number = max(number, step) + 1
        if step % 5 == 0:
            rows += [
                trackio(number, {"train/reward": step / 10, "train/global_step": step}),
                trackio(number + 1, {"completions": {"_type": "trackio.table", "_value": [{"step": step}]}}),
                trackio(number + 2, {"eval/reward": step / 20, "train/global_step": step}),
            ]
            number += 3
    decoder, stream = TableDecoder(), Stream()
    for record in [*decoder.feed(lines(*rows), 0, 0), *decoder.flush(), *decoder.finish()]:
        stream.append(record)
    assert (list(stream.restarts), stream.last_step, stream.overwritten_rows) == ([], 30, 0)
    assert [stream.value("train/reward", step) for step in (5, 15, 30)] == [0.5, 1.5, 3.0]
    assert [stream.value("eval/reward", step) for step in (5, 15, 30)] == [0.25, 0.75, 1.5]
    assert stream.value("profiling/a", 15) == 3.0


def test_a_trainer_that_names_its_step_late_is_followed_all_the_same() -> None:
    decoder = TableDecoder()
    rows = [trackio(i, {"baseline/accuracy": 0.5}) for i in range(4)]
    rows += [trackio(4 + i, {"train/loss": 1.0, "train/global_step": 10 + i}) for i in range(3)]
    records = [*decoder.feed(lines(*rows), 0, 0), *decoder.finish()]
    assert [record.step for record in records] == [0, 1, 2, 3, 10, 11, 12]


@each_row(("logged_at", "steps"), [([0] * 5, [1, 2, 3, 4, 5]), (range(5), [0, 1, 2, 3, 4])])
def test_mlflows_step_counts_unless_nobody_has_named_it_one(logged_at: Sequence[int], steps: list[int]) -> None:
    rows = [
        ("metrics", {"key": key, "value": value, "step": at, "timestamp": 1_700_000_000_000 + number})
        for number, at in enumerate(logged_at, 1)
        for key, value in (("loss", number / 10), ("global_step", number), ("system/cpu", 1.0))
    ]
    rows.append(("metrics", {"key": "loss", "value": 0.5, "step": logged_at[-1], "timestamp": 1_700_000_000_009}))
    decoder, stream = TableDecoder(), Stream()
    for record in [*decoder.feed(lines(*rows), 0, 0), *decoder.finish()]:
        stream.append(record)
    assert [stream.value("loss", step) for step in steps] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert (stream.rows, list(stream.restarts), stream.overwritten_rows) == (5, [], 0)


def test_an_alert_waits_for_the_row_of_its_step() -> None:
    decoder = TableDecoder()
    alert = ("alerts", {"level": "error", "step": 2, "title": "x", "text": "a\nb"})
    last = ("alerts", {"level": "warn", "title": "y" * 3000})
    records = decoder.feed(lines(alert, *(trackio(i, {"a": 1.0}) for i in range(4)), last), 0, 0)
    assert [record.step for record in records if "alerts/error" in record.schema.keys] == [2]
    assert [(record.step, record.script_alerts[0][:12]) for record in records if record.script_alerts] == [
        (2, "error: x: a b"[:12]),
        (3, "warn: yyyyyy"),
    ]
    assert len(records[-1].script_alerts[0]) < 600


def test_what_the_script_alerted_is_an_event_and_no_verdict_of_a_rule(stores: Path) -> None:
    run = opened(stores, "trackio.db", "own-step")
    told = [event for event in run.events if event.rule == SAID]
    assert [(event.step, event.message) for event in told] == [
        (120, "script alert, warn: Reward is flat: 0.2 for 10 steps")
    ]
    assert not any(event.is_alarm for event in told)


def test_bad_rows_are_counted_and_the_others_read() -> None:
    decoder = TableDecoder()
    data = lines(("metrics", {"step": 1, "metrics": "[1]"}), ("metrics", {"key": "a", "value": "x", "step": 1}))
    data += b"no\x1fcolumn\n" + line_of("metrics", [("key", "a"), ("value", 1.0), ("step", 3)])
    records = [*decoder.feed(data, 0, 0), *decoder.finish()]
    assert [record.step for record in records] == [3]
    assert decoder.counts.bad_lines == 3


@each_row("text", ["", "a\nb", "a\\n", "\x1f=", "ü\\\\", "\\u"])
def test_a_value_comes_through_a_line_as_it_was(text: str) -> None:
    line = line_of("t", [("a", text), ("b", None), ("c", 1.5)])
    assert line.count(b"\n") == 1
    assert row_of(line[:-1]) == ("t", {"a": text.encode(), "c": b"1.5"})


def test_a_path_names_a_database_and_a_run() -> None:
    assert split_member(member_path("/a/b.db", "x/%2F y")) == ("/a/b.db", "x/%2F y")
    assert split_member("/a/b.db") is None
    assert split_member("/a/b::c.jsonl") is None


def test_a_folder_of_metrics_that_is_written_anew_is_a_restart(tmp_path: Path) -> None:
    shutil.copytree(FIXTURES / "mlruns", tmp_path / "mlruns")
    clock = FakeClock()
    found = discover([str(tmp_path / "mlruns")]).found[0]
    session = Session(
        [found], lambda path, last: DirectFeed(Path(path), clock=clock, last=last), clock, IngestOptions()
    )
    session.drain()
    (run,) = session.runs
    before = run.main.stream.rows
    assert before > 8 and run.main.stream.restarts == ()
    for path in (Path(found.path) / "metrics").rglob("*"):
        if path.is_file():
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:5]))
    clock.advance(60.0)
    session.drain()
    assert run.main.stream.restarts == (run.main.stream.first_step,) and run.main.stream.rows > before
    shutil.rmtree(found.path)
    clock.advance(60.0)
    session.drain()
    assert run.state is RunState.LOST and "no such file" in run.main.state_note
