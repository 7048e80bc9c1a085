"""Ranges that files beside a run declare, and the charts that are drawn to them."""

from __future__ import annotations

import json
from pathlib import Path

from tables import each_row
from telescope_run import TelescopeRun

from rltop.catalog.metrics import Range, Ranges
from rltop.cli.open_session import direct
from rltop.clock import FakeClock
from rltop.pages.chart_axes import axes_of
from rltop.pages.metric import build_metric
from rltop.run.discover import discover
from rltop.run.places import read_ranges
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

SETTINGS = """
model: "some/model"
environments:  # what is trained on
  - name: "countdown"
    weight: 1.0
    reward_min: 0.0
    reward_max: 2.0
    kwargs:
      reward_max: 77
  - name: wordle
    reward_min: -1   # a guess costs
    reward_max: 1
prompts: 16
reward_max: 99
"""
OF_WANDB = """
environments:
    value:
        - kwargs: {}
          name: countdown
          reward_max: 2
          reward_min: 0
learning_rate:
    value: 1e-6
"""


def declared(folder: Path) -> tuple[Ranges, list[tuple[str, str]]]:
    notes: list[tuple[str, str]] = []
    return read_ranges(str(folder / "metrics.jsonl"), lambda *note: notes.append(note)), notes


def test_settings_name_the_rewards_of_each_environment(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(SETTINGS)
    ranges, notes = declared(tmp_path)
    assert ranges.of("reward/countdown/mean") == (0, 2)
    assert ranges.of("reward/wordle/max") == (-1, 1)
    assert ranges.of("reward_sum_mean") == (-1, 2)
    assert ranges.of("reward_sum_std") is None
    assert notes == []


def test_the_settings_that_wandb_keeps(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "config.yaml").write_text(OF_WANDB)
    assert declared(tmp_path)[0].of("reward_sum_mean") == (0, 2)


def test_the_summary_holds_the_ranges_of_sample_metrics(tmp_path: Path) -> None:
    details = [{"name": "a", "metrics_ranges": {"format": {"min": 0, "max": 1, "invert": True}}},
               {"name": "b", "metrics_ranges": {"format": {"min": 0, "max": 5}}}]  # fmt: skip
    (tmp_path / "wandb-summary.json").write_text(json.dumps({"env_details": json.dumps(details), "entropy": 1}))
    assert declared(tmp_path)[0].of("reward_format_mean") == (0, 5)


def test_the_sidecar_names_keys_and_patterns_and_comes_first(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(SETTINGS)
    (tmp_path / "ranges.json").write_text('{"reward_sum_mean": [0, 10], "critic/score/*": {"min": -1, "max": 1}}')
    ranges, _ = declared(tmp_path)
    assert ranges.of("reward_sum_mean") == (0, 10)
    assert ranges.of("critic/score/mean") == Range(-1, 1)
    assert ranges.of("reward/countdown/mean") == (0, 2)


@each_row("text", ["", "[1, 2]", '{"reward": [2, 0]}', '{"reward": "0 to 2"}', '{"reward": [0, 1e999]}', "{" * 100_000])
def test_a_sidecar_that_says_nothing_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "ranges.json").write_text(text)
    ranges, ((path, reason),) = declared(tmp_path)
    assert not ranges
    assert path.endswith("ranges.json")
    assert "ranges not read" in reason


@each_row("text", ["environments:\n", "environments: []\n", "environments:\n- name: a\n", "\0:\n  - - -\n"])
def test_settings_without_ranges_declare_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    assert not declared(tmp_path)[0]


def test_a_chart_covers_the_declared_range(tmp_path: Path) -> None:
    TelescopeRun().add_steps(range(12)).write(tmp_path)
    (tmp_path / "config.yaml").write_text(SETTINGS)
    clock = FakeClock()
    session = Session(discover([str(tmp_path)]).found, direct(clock), clock)
    session.drain()
    (run,) = session.runs
    view = build_metric(Snapshot(run), "reward/countdown/mean")
    assert view.reading.declared == (0, 2)
    axes = axes_of(view.plot, 80, 20)
    assert (axes.low, axes.high) == (0, 2)
    assert view.reading.line().scale == (0, 2)
    assert any(one.name == "range" and one.remark == "declared" for one in view.statistics)
    other = build_metric(Snapshot(run), "reward_correct_mean")
    assert other.reading.declared is None
    assert not any(one.name == "range" for one in other.statistics)
