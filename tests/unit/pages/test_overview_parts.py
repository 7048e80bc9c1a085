"""Rows of the overview that stand for several keys: parts of a reward, validation sources, labels of unknown keys."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path

import pytest
from painted import lines_of
from tables import each_row

from rltop.clock import FakeClock
from rltop.model import Level
from rltop.pages.metrics import index_tree
from rltop.pages.overview import build_overview, paint_overview
from rltop.pages.signals import distinct_names
from rltop.pages.timing import build_timing_page, paint_timing
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs
from rltop.run.discover import discover
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.feed import DirectFeed
from tests.fake_run import run_of, verl_lines
from tests.run_folders import trinity, write_events

BASE = {"actor/pg_loss": 0.1, "actor/grad_norm": 0.5, "critic/score/mean": 0.5, "timing_s/step": 50.0}


def test_each_part_of_a_reward_has_a_row() -> None:
    run = run_of(
        verl_lines((step, {**BASE, "gdpo/format/mean": 0.9, "gdpo/answer/mean": step / 100}) for step in range(1, 41))
    )
    shown = {row.title: row.reading.signal.key for row in build_overview(Snapshot(run)).rows}
    assert (shown["format"], shown["answer"]) == ("gdpo/format/mean", "gdpo/answer/mean")


def test_several_validation_sources_say_how_many_and_which_moved() -> None:
    def row(step: int) -> dict[str, float]:
        scores = {"gsm8k": 0.6, "math": 0.2 + step / 200, "aime": 0.1}
        return {**BASE, **{f"val-core/{name}/acc/mean@8": score for name, score in scores.items()}}

    run = run_of(verl_lines((step, row(step)) for step in range(1, 41)))
    first = build_overview(Snapshot(run)).rows[0]
    assert first.title == "validation"
    assert first.remark == "3 sets 0.1…0.6; math +0.195"


def test_a_validation_that_is_always_0_gives_its_row_to_one_that_moves() -> None:
    def shown(score: float) -> str:
        rows = ((step, {**BASE, "val/test_score/chess": score * step, "val/accuracy": step / 10}) for step in (1, 2, 3))
        return build_overview(Snapshot(run_of(verl_lines(rows)))).rows[0].reading.signal.key

    assert (shown(0.0), shown(0.1)) == ("val/accuracy", "val/test_score/chess")


def test_several_validation_sources_are_told_of_beside_an_alert_too() -> None:
    def row(step: int) -> dict[str, float]:
        scores = {"aime": 0.1, "gsm8k": 0.6, "math": 0.2 + step / 200} if step % 10 == 0 else {}
        values = {f"val-core/{name}/acc/mean@8": score for name, score in scores.items()}
        return {**BASE, **values, "critic/score/mean": 0.2 + step / 200}

    snapshot = Snapshot(run_of(verl_lines((step, row(step)) for step in range(1, 101))))
    assert "R14" in {verdict.rule for verdict in snapshot.standing}
    rows = lines_of(list(paint_overview(build_overview(snapshot, width=160, height=40), 160, 40, UNICODE)))
    (line,) = [row for row in rows if "  val-core/aime" in row]
    assert "┄ 0.1" in line and "3 sets 0.1…0.7" in line


def test_unknown_keys_are_called_by_what_tells_them_apart() -> None:
    keys = ("a/reward/mean", "b/width", "c/width", "d/x/width", "e/x/width", "depth")
    assert distinct_names(keys) == {
        "a/reward/mean": "reward/mean", "b/width": "b/width", "c/width": "c/width",
        "d/x/width": "d/x/width", "e/x/width": "e/x/width", "depth": "depth",
    }  # fmt: skip


def test_many_keys_without_a_section_are_listed_by_what_they_are() -> None:
    flat = dict.fromkeys(
        ("reward_sum_mean", "reward_sum_std", "advantage_mean", "advantage_std", "length_completion_mean", "grad_norm",
         "length_prompt_mean", "length_sum_mean", "timing_step_total", "timing_step_active", "timing_waiting_for_data",
         "entropy", "kl_divergence_inference", "learning_rate", "of_my_own"), 0.5,
    )  # fmt: skip
    run = run_of(verl_lines((step, flat) for step in range(1, 31)))
    index = index_tree(Snapshot(run))
    section = {one.key: one.section for one in index.keys}
    assert section["reward_sum_mean"] == "reward"
    assert section["timing_step_total"] == "timing"
    assert section["length_prompt_mean"] == "length"
    assert section["of_my_own"] == "General"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_stages_can_be_told_apart_without_colour_wherever_they_are_drawn(glyphs: Glyphs) -> None:
    times = {"timing_s/gen": 30.0, "timing_s/update_actor": 12.0, "timing_s/old_log_prob": 6.0, "timing_s/adv": 2.0}
    run = run_of(verl_lines((step, {**BASE, **times}) for step in range(1, 31)))
    lines = lines_of(paint_timing(build_timing_page(Snapshot(run)), 120, 50, glyphs))
    gen, update, old, adv = glyphs.fills[:4]
    for name, fill in (("gen", gen), ("update_actor", update), ("old_log_prob", old), ("adv", adv)):
        bar, sign = [line for line in lines if name in line.split()[:2] and "%" in line][:2]
        assert fill * 2 in bar, name
        assert sign.lstrip().startswith(f"{fill} {name}"), name
    strip = next(number for number, line in enumerate(lines) if "last 30 steps" in line)
    assert lines[strip].count(gen) == 30
    assert update * 20 in "".join(lines[strip - 4 : strip])


def test_the_strip_takes_the_width_of_the_screen() -> None:
    times = {"timing_s/gen": 30.0, "timing_s/update_actor": 20.0}
    run = run_of(verl_lines((step, {**BASE, **times}) for step in range(1, 301)))
    for width, steps in ((80, 50), (120, 90), (200, 170)):
        lines = lines_of(paint_overview(build_overview(Snapshot(run), width=width), width, 60, UNICODE))
        assert any(f"last {steps} steps" in line for line in lines), width


def test_a_tall_screen_has_lines_of_two_rows_and_a_range_under_its_head() -> None:
    grown = ((step, {**BASE, "critic/score/max": 1.0, "critic/score/min": 0.0}) for step in range(1, 61))
    run = run_of(verl_lines(grown))
    lines = lines_of(paint_overview(build_overview(Snapshot(run), width=200), 200, 60, UNICODE))
    head = next(line for line in lines if "vs base" in line)
    number = next(number for number, line in enumerate(lines) if "critic/score/mean" in line)
    assert lines[number][head.index("range") :].startswith("0…1.00")
    assert not lines[number + 1][: head.index("whole run")].strip()
    assert set(lines[number + 1].strip()) <= {chr(0x2800 + dots) for dots in range(256)}
    low = lines_of(paint_overview(build_overview(Snapshot(run), width=120, height=24), 120, 24, UNICODE))
    assert not any(0x2800 <= ord(char) < 0x2900 for line in low for char in line)


def test_what_may_be_above_and_below_zero_is_compared_by_a_difference() -> None:
    rows = (
        (step, {"loss": 0.002 if step < 40 else 0.5, "reward": 0.5, "grad_norm": 1.0 + step // 40})
        for step in range(1, 61)
    )
    run = run_of(b"".join(json.dumps({"step": step, **row}).encode() + b"\n" for step, row in rows))
    lines = lines_of(paint_overview(build_overview(Snapshot(run), width=120), 120, 30, UNICODE))
    loss, norm = (next(line for line in lines if line.strip().startswith(name)) for name in ("loss", "gradient norm"))
    assert "+0.498" in loss and "×" not in loss
    assert "×2.0" in norm


def _shown(job: Path) -> Snapshot:
    clock = FakeClock()
    session = Session(discover([str(job)]).found, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock)
    session.drain()
    return Snapshot(session.runs[0])


def test_a_trainer_that_has_no_row_yet_held_nothing(tmp_path: Path) -> None:
    job = trinity(tmp_path / "job")
    (events,) = (job / "monitor/tensorboard/trainer").iterdir()
    events.unlink()
    write_events(events.parent, [])
    sentence = build_overview(_shown(job)).sentence
    assert "held" not in sentence.text.raw and sentence.level <= Level.INFO


def test_the_timing_page_shows_where_the_time_of_each_stream_goes(tmp_path: Path) -> None:
    view = build_timing_page(_shown(trinity(tmp_path / "job")))
    assert [timing.stream.raw for timing in view.other_streams] == ["explorer"]
    rows = paint_timing(view, 110, None, UNICODE)
    (title,) = [row for row in rows if "of the explorer" in row.text]
    assert [link.target.stream for link in title.links] == ["explorer"]
    below = lines_of(rows[rows.index(title) :])
    assert any("wait for rollouts" in line for line in below)


def test_the_times_of_a_loop_of_ones_own_are_a_waterfall() -> None:
    loops: list[tuple[dict[str, float], list[str], float]] = [
        ({"time/gen": 8.0, "time/train": 3.0}, ["gen", "train", "other"], 11.0),
        ({"time/gen": 8.0, "time/train": 3.0, "time/total": 12.0}, ["gen", "train", "other"], 12.0),
        ({"rollout_time": 8.0, "update_time": 3.0}, ["rollout", "update", "other"], 11.0),
        (
            {"time/gen": 8.0, "time/train": 3.0, "time/elapsed": 900.0, "time/fps": 70.0},
            ["gen", "train", "other"],
            11.0,
        ),
        ({"timing/train": 9.0, "timing/forward": 3.0, "timing/eval": 7.0}, ["train", "other"], 9.0),
    ]
    for times, stages, total_s in loops:
        lines = [json.dumps({"step": step, "loss": 0.5, "reward": 0.1, **times}) for step in range(1, 41)]
        timing = build_timing_page(Snapshot(run_of("\n".join(lines).encode() + b"\n"))).timing
        assert [stage.name.raw for stage in timing.top] == stages
        assert timing.total_s == total_s


def said_of(rows: list[dict[str, float]], *, steps: int = 0) -> str:
    lines = [json.dumps({"step": step, **row}) for step, row in enumerate(rows, steps + 1)]
    return build_overview(Snapshot(run_of("\n".join(lines).encode() + b"\n"))).sentence.text.raw


def test_the_headline_tells_the_goal_once() -> None:
    said = said_of([{"loss": 0.5, "reward": (37 * i % 9) / 8} for i in range(200)])
    assert said.startswith("plateau: best ") and "(medians of ten)" in said
    assert "since the start" not in said, "another start than that of the alert"


def test_a_count_that_is_undefined_is_no_headline_of_a_healthy_run() -> None:
    fixed = {
        "episode_reward_mean": 0.0, "time_this_iter_s": 5.0, "learners/default_policy/curr_kl_coeff": 0.2,
        "learners/default_policy/total_loss": 0.5, "learners/default_policy/entropy": 0.6,
    }  # fmt: skip
    count = "learners/default_policy/num_trainable_parameters"
    rows = [{**fixed, "episode_reward_mean": float(i), count: 1e5 if not i else math.nan} for i in range(60)]
    assert "undefined" not in said_of(rows)
    bad = [{**row, "learners/default_policy/total_loss": math.nan} if i > 50 else row for i, row in enumerate(rows)]
    assert "NaN" in said_of(bad)


def test_what_comes_now_and_then_is_not_explained_by_another_stage() -> None:
    times = {"timing_s/step": 11.0, "timing_s/gen": 8.0, "timing_s/update_actor": 2.0}
    longer = {"timing_s/step": 423.0, "timing_s/gen": 8.0, "timing_s/update_actor": 12.0, "timing_s/testing": 402.0}
    rows = [(step, {**BASE, **times}) for step in range(1, 40)] + [(40, {**BASE, **longer})]
    said = build_overview(Snapshot(run_of(verl_lines(iter(rows))))).sentence.text.raw
    assert "update_actor" not in said


@each_row(
    ("row", "unit"),
    [
        ({"actor/pg_loss": 0.1, "critic/score/mean": 0.5, "actor/entropy": 1.0}, "nats/token"),
        ({"reward": 0.5, "entropy": 1.0, "loss": 0.1, "episode_length": 90.0}, "nats/action"),
        ({"reward": 0.5, "entropy": 1.0, "loss": 0.1}, "nats"),
        ({"reward": 0.5, "entropy": 1.0, "loss": 0.1, "completion_length": 90.0}, "nats/token"),
    ],
)
def test_nats_are_of_what_the_run_samples(row: dict[str, float], unit: str) -> None:
    (key,) = [key for key in row if "entropy" in key]
    lines = [json.dumps({"step": step, **row, key: 4.0 if step > 90 else 0.5}) for step in range(1, 121)]
    words = [event.message for event in run_of("\n".join(lines).encode() + b"\n").events if "nats" in event.message]
    assert words
    # A unit that is written behind a value alone is that of the metric.
    assert {found for text in words for found in re.findall(r"nats/\w+", text)} == {unit} - {"nats"}
