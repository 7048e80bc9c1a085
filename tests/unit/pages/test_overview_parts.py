"""Rows of the overview that stand for several keys: parts of a reward, validation sources, labels of unknown keys."""

from __future__ import annotations

from rltop.pages.metric_tree import index_tree
from rltop.pages.overview import build_overview
from rltop.pages.signals import names_apart
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
