"""Rows of the overview that stand for several keys: parts of a reward, validation sources, labels of unknown keys."""

from __future__ import annotations

import pytest

from rltop.pages.metric_tree import index_tree
from rltop.pages.overview import build_overview
from rltop.pages.overview_rows import paint_overview
from rltop.pages.signals import names_apart
from rltop.pages.timing import build_timing_page, paint_timing
from rltop.rows.glyphs import ASCII, UNICODE, Glyphs
from rltop.rows.rows import Row
from rltop.run.snapshot import Snapshot
from tests.fake_run import run_of, verl_lines

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


def test_several_validation_sources_are_told_of_beside_an_alert_too() -> None:
    def row(step: int) -> dict[str, float]:
        scores = {"aime": 0.1, "gsm8k": 0.6, "math": 0.2 + step / 200} if step % 10 == 0 else {}
        values = {f"val-core/{name}/acc/mean@8": score for name, score in scores.items()}
        return {**BASE, **values, "critic/score/mean": 0.2 + step / 200}

    snapshot = Snapshot(run_of(verl_lines((step, row(step)) for step in range(1, 101))))
    assert "R14" in {verdict.rule for verdict in snapshot.verdicts.standing}
    rows = texts(list(paint_overview(build_overview(snapshot, width=160, height=40), 160, 40, UNICODE)))
    (line,) = [row for row in rows if "  val-core/aime" in row]
    assert "┄ 0.1" in line and "3 sets 0.1…0.7" in line


def test_unknown_keys_are_called_by_what_tells_them_apart() -> None:
    keys = ("a/reward/mean", "b/width", "c/width", "d/x/width", "e/x/width", "depth")
    assert names_apart(keys) == {
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


def texts(rows: list[Row]) -> list[str]:
    return ["".join(piece.text for piece in row.line).rstrip() for row in rows]


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_stages_can_be_told_apart_without_colour_wherever_they_are_drawn(glyphs: Glyphs) -> None:
    times = {"timing_s/gen": 30.0, "timing_s/update_actor": 12.0, "timing_s/old_log_prob": 6.0, "timing_s/adv": 2.0}
    run = run_of(verl_lines((step, {**BASE, **times}) for step in range(1, 31)))
    lines = texts(paint_timing(build_timing_page(Snapshot(run)), 120, 50, glyphs))
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
        lines = texts(paint_overview(build_overview(Snapshot(run), width=width), width, 60, UNICODE))
        assert any(f"last {steps} steps" in line for line in lines), width


def test_a_tall_screen_has_lines_of_two_rows_and_a_range_under_its_head() -> None:
    grown = ((step, {**BASE, "critic/score/max": 1.0, "critic/score/min": 0.0}) for step in range(1, 61))
    run = run_of(verl_lines(grown))
    lines = texts(paint_overview(build_overview(Snapshot(run), width=200), 200, 60, UNICODE))
    head = next(line for line in lines if "vs base" in line)
    number = next(number for number, line in enumerate(lines) if "critic/score/mean" in line)
    assert lines[number][head.index("range") :].startswith("0…1.00")
    assert not lines[number + 1][: head.index("whole run")].strip()
    assert set(lines[number + 1].strip()) <= {chr(0x2800 + dots) for dots in range(256)}
    low = texts(paint_overview(build_overview(Snapshot(run), width=120, height=24), 120, 24, UNICODE))
    assert not any(0x2800 <= ord(char) < 0x2900 for line in low for char in line)
