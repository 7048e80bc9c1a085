"""The pipeline of an asynchronous run: the sentence, the boxes, what becomes of the completions."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from fake_run import FakeRun, run_of, verl_lines
from hypothesis import given
from hypothesis import strategies as st
from painted import check_rows, text_of
from tables import each_row

from rltop.cli.open_session import direct
from rltop.clock import FakeClock
from rltop.pages.flow import FlowPage, build_flow, build_goodput, paint_flow, paint_in_overview
from rltop.pages.page import Moment
from rltop.report.document import pipeline_document
from rltop.rows.glyphs import ASCII, UNICODE
from rltop.rows.rows import Target, TargetKind
from rltop.run.options import IngestOptions
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.stats.goodput import CLASSES

FIXTURES = Path(__file__).resolve().parents[3] / "fixtures"
ASYNC = [f"{trainer}/async" for trainer in ("prime_rl", "miles", "nemo_rl", "rllm", "skyrl")]
ASYNC += ["trl/async_grpo", "verl/fully_async"]
SIZES = ((40, 12), (80, 24), (120, 40), (160, 45), (200, 60))

_ALWAYS = {"actor/pg_loss": 0.1, "actor/grad_norm": 0.4, "critic/score/mean": 0.3, "critic/advantages/mean": 0.0}
QUEUE = "fully_async/monitor/queue/mq_queue_size"
TRAINER, ROLLOUTER = "fully_async/trainer/idle_ratio", "fully_async/rollouter/idle_ratio"


def verl(steps: int = 40, **series: object) -> FakeRun:
    """A run of veRL's fully asynchronous trainer with values of one's own: constant, or by step."""
    keys = {"trainer": TRAINER, "rollouter": ROLLOUTER, "queue": QUEUE, "limit": "fully_async/static/max_queue_size"}
    rows = []
    for step in range(1, steps + 1):
        row: dict[str, object] = {**_ALWAYS, "fully_async/count/current_param_version": step}
        for name, value in series.items():
            row[keys.get(name, name)] = value(step) if callable(value) else value
        rows.append((step, row))
    return run_of(verl_lines(rows))


@cache
def read(fixture: str) -> Run:
    """The run of a fixture, to its end; nobody changes it."""
    folder = FIXTURES / fixture
    path = next(file for file in folder.iterdir() if file.name != "case.toml")
    clock = FakeClock()
    session = Session([FoundRun(str(path), name_of(str(path)))], direct(clock), clock, IngestOptions(has_preview=False))
    session.drain()
    session.runs[0].finish()
    return session.runs[0]


CASES = {
    "starved": (
        {"trainer": 0.41, "rollouter": 0.02, "queue": lambda step: 0 if step >= 18 else 12},
        ("saturated", "starved"),
        ("trainer waits 41 % for rollouts", "queue empty since 18"),
        "more engines",
    ),
    "training holds up": (
        {"trainer": 0.01, "rollouter": 0.45, "queue": lambda step: 64 if step >= 9 else 10, "limit": 64},
        ("starved", "busy"),
        ("generation waits 45 % as the queue is full", "queue full since 9"),
        "fewer in flight",
    ),
    "both wait": (
        {"trainer": 0.3, "rollouter": 0.4, "queue": 0},
        ("starved", "starved"),
        ("trainer waits 30 %", "generation waits 40 %"),
        "staleness bound",
    ),
    "samples are there": (
        {"trainer": 0.35, "rollouter": 0.05, "queue": 40, "limit": 64},
        ("saturated", "blocked"),
        ("trainer waits 35 % of the step", "samples are in the queue"),
        "weight sync",
    ),
    "nobody waits": (
        {"trainer": 0.05, "rollouter": 0.08, "queue": 12, "limit": 64},
        ("busy", "busy"),
        ("trainer waits 5 %", "generation waits 8 %"),
        "",
    ),
    "queue not logged": (
        {"trainer": 0.35, "rollouter": 0.05},
        ("saturated", "waiting"),
        ("trainer waits 35 %", "queue not logged"),
        "more engines",
    ),
}


@each_row("name", CASES)
def test_who_waits_for_whom(name: str) -> None:
    series, (generation, training), told, advice = CASES[name]
    flow = build_flow(Snapshot(verl(**series)))
    assert (flow.waits.generating, flow.waits.training) == (generation, training)
    assert all(part in flow.waits.sentence for part in told), flow.waits.sentence
    assert advice in flow.waits.advice
    assert bool(advice) == bool(flow.waits.advice)


def test_a_past_step_is_told_by_what_was_known_then() -> None:
    run = verl(trainer=lambda step: 0.02 if step < 25 else 0.6, queue=lambda step: 8 if step < 25 else 0)
    then, now = build_flow(Snapshot(run, 20)), build_flow(Snapshot(run))
    assert (then.waits.training, now.waits.training) == ("busy", "starved")
    assert now.waits.since == 25
    assert all(box.step is None or box.step <= 20 for box in then.boxes)


def test_seconds_of_waiting_stand_in_for_a_share() -> None:
    run = verl(**{"timing_s/step": 100.0, "fully_async/total_wait_time": 33.0, "queue": 0})
    flow = build_flow(Snapshot(run))
    assert flow.waits.trainer == pytest.approx(0.33)
    assert flow.waits.training == "starved"


def test_a_run_that_generates_and_trains_in_turn_has_no_pipeline() -> None:
    run = run_of(verl_lines([(step, {**_ALWAYS, "timing_s/step": 9.0}) for step in range(1, 12)]))
    assert build_flow(Snapshot(run)) is None
    assert pipeline_document(Snapshot(run)) is None
    shown = text_of(paint_flow(None, 80, UNICODE))
    assert "Nothing tells that this run is asynchronous" in shown


@each_row("fixture", ASYNC)
@each_row("size", SIZES, ids=str)
def test_the_page_of_each_trainer_fits(fixture: str, size: tuple[int, int]) -> None:
    run = read(fixture)
    width, height = size
    for glyphs in (UNICODE, ASCII):
        rows = FlowPage().rows(Moment(Snapshot(run), glyphs), width, height)
        assert rows
        check_rows(rows, width, glyphs)


@each_row("fixture", ASYNC)
def test_what_is_logged_stands_in_its_box_with_its_key_and_the_rest_is_hollow(fixture: str) -> None:
    run = read(fixture)
    flow = build_flow(Snapshot(run))
    keys = set(run.main.stream.keys)
    filled = [box for box in flow.boxes if box.facts]
    assert len(filled) >= 3, [box.name for box in filled]
    assert {fact.reading.signal.key for box in filled for fact in box.facts} <= keys
    for box in flow.boxes:
        assert bool(box.facts) != bool(box.hint)
    shown = paint_flow(flow, 120, UNICODE)
    targets = {link.target for row in shown for link in row.links}
    assert targets == {Target(TargetKind.METRIC, fact.reading.signal.key) for box in filled for fact in box.facts}
    hollow = [box for box in flow.boxes if not box.facts]
    assert text_of(shown).count("not logged; ") == len(hollow)


@each_row("fixture", ASYNC)
def test_the_document_says_the_same(fixture: str) -> None:
    run = read(fixture)
    document = pipeline_document(Snapshot(run))
    flow = build_flow(Snapshot(run))
    assert document["sentence"] == flow.waits.sentence
    assert [part["name"] for part in document["parts"]] == [box.name for box in flow.boxes]
    json.dumps(document, allow_nan=False)


def test_the_classes_of_goodput_exclude_one_another() -> None:
    run = verl(
        **{
            "response/aborted_ratio": 0.1,
            "response_length/clip_ratio": 0.5,
            "fully_async/rollouter/step_generated_samples": 100,
            "fully_async/count/dropped_stale_samples": lambda step: 20 * step,
        }
    )
    found = build_goodput(Snapshot(run))
    assert found.shares["failed"] == pytest.approx(0.1)
    assert found.shares["stale"] == pytest.approx(0.2)
    # Half of what came into a batch.
    assert found.shares["truncated"] == pytest.approx(0.35)
    assert found.trained == pytest.approx(0.35)
    assert found.unknown == ("filtered", "zero-variance")
    assert found.sentence.startswith(
        "of 100 generated completions at most 35 trained on, 10 failed, 20 stale, 35 truncated"
    )


def test_counts_of_single_steps_are_no_running_total() -> None:
    counted = {"training/rollout_failure/evicted_samples": lambda step: step % 2, "rollout/n": 4}
    run = verl(**{"fully_async/rollouter/step_generated_samples": 40, **counted})
    found = build_goodput(Snapshot(run))
    assert found.shares["failed"] == pytest.approx(0.5 * 4 / 40)


def test_goodput_of_nothing_is_nothing() -> None:
    assert build_goodput(Snapshot(verl(trainer=0.1))) is None


SHARES = ("response/aborted_ratio", "response_length/clip_ratio")


@given(st.dictionaries(st.sampled_from(SHARES), st.floats(0, 1)), st.integers(0, 300))
def test_the_shares_and_what_was_trained_on_are_everything(shares: dict[str, float], dropped: int) -> None:
    counts = {"fully_async/rollouter/step_generated_samples": 50, "fully_async/count/dropped_stale_samples": dropped}
    found = build_goodput(Snapshot(verl(6, **shares, **counts)))
    assert found.trained + sum(found.shares.values()) == pytest.approx(1.0)
    assert all(share >= 0.0 for share in found.shares.values())
    assert list(found.shares) == [name for name in CLASSES if name in found.shares]


IDLE_KEYS = {"trainer": 0.1, "dynamic_resource/train_resource_utilization": 0.6, "queue": 4}


def test_an_idle_share_is_the_one_that_the_sentence_is_of() -> None:
    flow = build_flow(Snapshot(verl(**IDLE_KEYS)))
    (idle,) = [fact for box in flow.boxes for fact in box.facts if fact.metric == "trainer_idle_frac"]
    assert (idle.reading.signal.key, idle.point.value) == (TRAINER, 0.1)


def test_a_key_that_is_turned_into_an_idle_share_is_shown_turned() -> None:
    flow = build_flow(Snapshot(verl(**{"dynamic_resource/train_resource_utilization": 0.6, "queue": 4})))
    assert flow is not None
    assert "1 − dynamic_resource/train_resource_utilization" in text_of(paint_flow(flow, 120, UNICODE))


def test_seconds_of_waiting_tell_how_busy_a_box_is() -> None:
    run = verl(**{"timing_s/step": 100.0, "fully_async/total_wait_time": 33.0, "queue": 0})
    assert "busy 67 %" in text_of(paint_flow(build_flow(Snapshot(run)), 120, UNICODE))


def test_a_number_that_is_no_longer_logged_is_dated() -> None:
    rows = []
    for step in range(1, 41):
        early = {"fully_async/monitor/active_tasks_size": 90} if step < 20 else {}
        rows.append((step, {**_ALWAYS, TRAINER: 0.1, QUEUE: 3, **early}))
    shown = text_of(paint_flow(build_flow(Snapshot(run_of(verl_lines(rows)))), 120, UNICODE))
    assert "@19: 90 active" in shown
    assert "step 19, 21 steps before 40" in shown


@each_row("width", [80, 120])
def test_the_overview_says_the_whole_sentence_before_what_to_turn(width: int) -> None:
    series = CASES["training holds up"][0]
    flow = build_flow(Snapshot(verl(**series)))
    assert flow is not None
    rows = paint_in_overview(flow, width, 4, UNICODE)
    words = " ".join(text_of(rows).split())
    assert flow.waits.sentence in words
    assert flow.waits.advice in words
    assert text_of(paint_in_overview(flow, 80, 1, UNICODE)).rstrip().endswith("…")
    check_rows(rows, width)


def test_waits_that_are_no_longer_logged_are_dated() -> None:
    rows = [(step, {**_ALWAYS, **({TRAINER: 0.5, QUEUE: 0} if step < 20 else {})}) for step in range(1, 61)]
    document = pipeline_document(Snapshot(run_of(verl_lines(rows))))
    assert document["sentence"] == "as of step 19: trainer waits 50 % for rollouts; queue empty since 1"


def test_seconds_of_many_threads_since_the_start_are_no_share_of_a_step() -> None:
    # print_efficiency_summary in NeMo-RL's algorithms/utils.py: "summed across concurrent threads".
    train = {"train/loss": 0.02, "train/reward": 0.4, "train/grad_norm": 0.4, "train/avg_trajectory_age": 1.0}
    times = {"timing/train/total_step_time": 100.0, "timing/train/exposed_generation": 5.0, "train/buffer_size": 8}
    idle = [f"efficiency/idle/{name}_s" for name in ("buffer_full_backoff", "generation_limit_pause")]
    rows = [(step, {**train, **times, **dict.fromkeys(idle, 400.0 * step)}) for step in range(1, 41)]
    snapshot = Snapshot(run_of(verl_lines(rows)))
    flow = build_flow(snapshot)
    assert snapshot.identity.dialect.name == "NeMo-RL"
    assert flow.waits.sentence == "trainer waits 5 % of the step; samples are in the queue"
    assert "threads that wait" in text_of(paint_flow(flow, 120, UNICODE))
