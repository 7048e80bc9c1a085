"""Keys that nobody knows: guessed by their names, judged by their shape, and what a person says of them."""

from __future__ import annotations

import json
import math
import os
import random
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.catalog.metrics import guess, parse_meaning
from rltop.catalog.row_sets import Arrangement
from rltop.cli import main
from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config, load
from rltop.errors import ConfigError
from rltop.pages.key_metrics import GUESSED
from rltop.pages.overview import build_overview
from rltop.run import preferences
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot


@each_row(
    ("key", "metric"),
    [
        ("agent/task_rew/mean", "reward_mean"),
        ("myReward", "reward_mean"),
        ("pol/tok_entropy", "entropy"),
        ("drift/kl_to_base", "kl_ref"),
        ("my/kl_loss_term", "kl_ref"),
        ("gen/len", "response_len_mean"),
        ("opt/total_objective_loss", "loss"),
        ("metrics/train/LanguageCrossEntropy", "loss"),
        ("my/accuracy_score", "success_frac"),
        ("mean_ret", "reward_mean"),
        ("agent/task_rew/std", ""),
        ("group_reward_spread", ""),
        ("ppo_actor/incorrect_seq_len/avg", ""),
        ("reward_weight", ""),
        ("rewards/Reward Delta (avg)", ""),
        ("avg_prev_checkpoint_reward", ""),
        ("max_len", ""),
        ("eval/my_reward", ""),
        ("time/reward", ""),
        ("forward_clk", ""),
        ("lossless_frames", ""),
    ],
)
def test_words_of_a_key_suggest_a_metric(key: str, metric: str) -> None:
    assert guess(key) == metric


def rows(change: Callable[[int, dict[str, Any]], None] = lambda step, row: None) -> list[dict[str, Any]]:
    noise = random.Random(7)
    made = []
    for step in range(1, 121):
        row: dict[str, Any] = {
            "step": step,
            "agent/task_rew/mean": 0.2 + 0.5 * min(1.0, step / 60) + noise.gauss(0.0, 0.02),
            "pol/tok_entropy": 1.2 - 0.004 * step + noise.gauss(0.0, 0.01),
            "drift/kl_to_base": 0.1 * step,
            "gen/len": 300.0 + noise.gauss(0.0, 10.0),
            "hw/queue": step % 7,
        }
        change(step, row)
        made.append(row)
    return made


def run_of(folder: Path, made: list[dict[str, Any]], config: Config | None = None) -> Run:
    file = folder / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in made))
    return read_whole(str(file), config or Config(), FakeClock()).runs[0]


def alarms(run: Run) -> dict[str, tuple[str, int]]:
    return {event.raised_by: (event.level.word, event.step) for event in run.events if event.is_alarm}


def test_guesses_stand_on_the_overview_and_are_said_to_be_guesses(tmp_path: Path) -> None:
    run = run_of(tmp_path, rows())
    shown = {row.title: (row.reading.signal.key, row.remark) for row in build_overview(Snapshot(run)).rows}
    assert shown["reward?"] == ("agent/task_rew/mean", GUESSED)
    assert shown["entropy?"] == ("pol/tok_entropy", GUESSED)
    assert shown["KL to reference?"] == ("drift/kl_to_base", GUESSED)
    assert shown["response length?"] == ("gen/len", GUESSED)


def test_no_level_of_a_guess_is_judged(tmp_path: Path) -> None:
    """A KL of 12 nats would be CRIT."""
    run = run_of(tmp_path, rows())
    assert not alarms(run)


def test_what_the_trainer_logs_itself_needs_no_guess(tmp_path: Path) -> None:
    run = run_of(tmp_path, rows(lambda step, row: row.update({"reward": 0.5})))
    shown = {row.title: row.reading.signal.key for row in build_overview(Snapshot(run)).rows}
    assert shown["reward"] == "reward"
    assert "reward?" not in shown


def test_a_guess_that_crashes_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, rows(lambda step, row: step > 90 and row.update({"agent/task_rew/mean": 0.02})))
    level, step = alarms(run)["U1"]
    assert (level, 91 <= step <= 96) == ("warn", True)


def test_a_guess_that_is_no_longer_logged_is_no_alarm(tmp_path: Path) -> None:
    run = run_of(tmp_path, rows(lambda step, row: step > 90 and row.pop("pol/tok_entropy")))
    assert "U1" not in alarms(run)


def test_a_guess_is_not_missed_on_the_coarser_axis_of_evaluations(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    rewards = [{"step": step, "my_reward": 0.5 + step / 1000} for step in range(1, 101)]
    evaluations = [{"step": step, "accuracy": 0.5 + step / 5000} for step in range(50, 1001, 50)]
    path.write_text(json.dumps({"rewards": rewards, "evaluations": evaluations}))
    assert not read_whole(str(path), Config(), FakeClock()).runs[0].verdicts


def test_a_guess_that_becomes_nan_is_told(tmp_path: Path) -> None:
    run = run_of(tmp_path, rows(lambda step, row: step > 90 and row.update({"pol/tok_entropy": math.nan})))
    assert alarms(run)["L1"] == ("crit", 91)


@pytest.mark.parametrize("has_loss", [True, False])
def test_a_key_without_a_canonical_name_is_named_by_its_alert(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], *, has_loss: bool
) -> None:
    made = [
        {"step": step, "my/aux_loss": 0.3 if step < 99 else math.nan, "reward": 0.5 + step % 7 / 100}
        | ({"loss": 0.2 + step % 5 / 100} if has_loss else {})
        for step in range(1, 101)
    ]
    path = tmp_path / "run" / "metrics.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    assert main(["check", "--json", str(path)]) == 1
    (verdict,) = (one for one in json.loads(capsys.readouterr().out)["verdicts"] if one["rule"] == "L1")
    assert (verdict["metric"], verdict["key"]) == ("", "my/aux_loss")
    told = f'echo "$RLTOP_METRIC,$RLTOP_KEY" > {tmp_path}/told'
    main(["watch", "--json", "--give-up", "0.5", "--on-crit", told, str(path)])
    assert (tmp_path / "told").read_text() == ",my/aux_loss\n"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert "my/aux_loss" in {line.get("key") for line in lines}


def test_a_guess_is_named_by_the_key_that_was_guessed(tmp_path: Path) -> None:
    run = run_of(tmp_path, rows(lambda step, row: step > 90 and row.update({"agent/task_rew/mean": 0.02})))
    (verdict,) = (one for one in run.verdicts if one.rule == "U1")
    assert (verdict.metric, verdict.key) == ("reward_mean", "agent/task_rew/mean")


def test_values_out_of_range_drop_a_guess_and_are_said_once(tmp_path: Path) -> None:
    run = run_of(tmp_path, rows(lambda step, row: row.update({"my/accuracy_score": 3.0})))
    assert "success_frac" not in run.main.identity.guesses
    told = [event for event in run.events if event.rule == "F6"]
    assert len(told) == 1
    assert "my/accuracy_score of 3.00 is not success rate" in told[0].message


def test_a_project_is_a_repository_or_the_folder_above_the_runs_own(tmp_path: Path) -> None:
    run = tmp_path / "outputs" / "run-1" / "logs" / "metrics.jsonl"
    run.parent.mkdir(parents=True)
    assert preferences.project_of(str(run)) == str(tmp_path / "outputs")
    (tmp_path / ".git").mkdir()
    assert preferences.project_of(str(run)) == str(tmp_path)


def test_what_is_said_is_kept_and_read_back(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    said = preferences.with_meaning({}, "/a/project", 'odd "key"\\\x07', "reward_mean")
    said = preferences.with_meaning(said, "/a/project", "noise", preferences.NO_METRIC)
    preferences.save_meanings(said, environ)
    assert preferences.load_meanings({}, environ) == said
    assert preferences.with_meaning(preferences.with_meaning(said, "/a/project", "noise", None), "/b", "x", None) == {
        "/a/project": {'odd "key"\\\x07': "reward_mean"}
    }


def test_the_path_of_a_project_that_is_not_utf_8_is_refused_and_what_was_kept_stays(tmp_path: Path) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    file = preferences.save_meanings({"/a": {"x": "loss"}}, environ)
    with pytest.raises(OSError, match="not UTF-8"):
        preferences.save_meanings({os.fsdecode(b"/caf\xe9"): {"x": "loss"}}, environ)
    assert preferences.load_meanings({}, environ) == {"/a": {"x": "loss"}} and list(file.parent.iterdir()) == [file]


def test_a_state_file_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "rltop").mkdir()
    (tmp_path / "rltop" / preferences.MEANINGS_FILE).write_text("[[[")
    assert preferences.load_meanings({}, {"XDG_STATE_HOME": str(tmp_path)}) == {}


@each_row(
    "shape",
    [
        '[metrics."/a"]\nx = "loss"\n',
        'x = "loss"\n["/a"]\nx = "loss"\n',
        '["/a"]\nx = "loss"\ny = 3\nz = ["loss"]\nw = {v = "loss"}\n',
        'metrics = 7\n["/a"]\nx = "loss"\n',
        '[[metrics]]\nx = "loss"\n["/a"]\nx = "loss"\n',
    ],
)
def test_of_a_state_file_in_another_shape_what_can_be_read_is_taken(tmp_path: Path, shape: str) -> None:
    environ = {"XDG_STATE_HOME": str(tmp_path)}
    (tmp_path / "rltop").mkdir()
    (tmp_path / "rltop" / preferences.MEANINGS_FILE).write_text(shape)
    assert preferences.load_meanings({}, environ) == {"/a": {"x": "loss"}}
    (tmp_path / "rltop" / preferences.ROWS_FILE).write_text(shape.replace("metrics", "rows"))
    assert set(preferences.load_rows({}, environ)) <= {"/a"}
    (tmp_path / "rltop" / preferences.ROWS_FILE).write_text('[rows."/a"]\npinned = ["x"]\n[rows."/a".names]\nx = "y"\n')
    assert preferences.load_rows({}, environ) == {"/a": Arrangement(("x",), (), (("x", "y"),))}


@given(data=st.data())
def test_what_two_sessions_arrange_is_kept_of_both(data: st.DataObject) -> None:
    keys = st.lists(st.sampled_from("abcdefgh"), unique=True)

    def arranged() -> Arrangement:
        pinned, names = data.draw(keys), data.draw(keys)
        hidden = [key for key in data.draw(keys) if key not in pinned]
        return Arrangement(
            tuple(pinned), tuple(hidden), tuple((key, data.draw(st.sampled_from("xyz"))) for key in names)
        )

    before, mine, theirs = arranged(), arranged(), arranged()
    merged = mine.merged(before, theirs)
    assert not set(merged.pinned) & set(merged.hidden)
    assert mine.merged(before, before)._replace(names=()) == mine._replace(names=())
    pinned, hidden = set(mine.pinned) - set(before.pinned), set(mine.hidden) - set(before.hidden)
    assert pinned - hidden <= set(merged.pinned) and hidden <= set(merged.hidden)
    assert set(theirs.pinned) - set(before.pinned) - hidden <= set(merged.pinned)
    assert not (set(before.pinned) - set(mine.pinned)) & set(merged.pinned)
    own, was, other, both = (dict(each.names) for each in (mine, before, theirs, merged))
    assert all(both[key] == name for key, name in own.items() if was.get(key) != name)
    assert all(both.get(key) == other.get(key) for key in set(was) | set(other) if own.get(key) == was.get(key))


def test_what_is_said_holds_below_its_project_and_the_nearest_comes_first(tmp_path: Path) -> None:
    said = {
        str(tmp_path): {"a": "reward_mean", "b": "loss"},
        str(tmp_path / "x"): {"a": "entropy"},
        "/elsewhere": {"b": "lr"},
    }
    assert preferences.meanings_of(str(tmp_path / "x" / "run" / "m.jsonl"), said) == {"a": "entropy", "b": "loss"}


def test_what_is_said_is_judged_as_that_metric(tmp_path: Path) -> None:
    said = {str(tmp_path): {"agent/task_rew/mean": "reward_mean", "drift/kl_to_base": "kl_ref", "gen/len": ""}}
    config = Config()
    config = config._replace(ingest=config.ingest._replace(meanings=said))
    made = rows(lambda step, row: step > 90 and row.update({"agent/task_rew/mean": 0.02}))
    run = run_of(tmp_path, made, config)
    reward = run.main.identity.primary("reward_mean")
    assert reward is not None and reward.key == "agent/task_rew/mean"
    assert set(run.main.identity.guesses) == {"entropy"}
    assert {"R1", "O12"} <= set(alarms(run))
    assert "U1" not in alarms(run)


def test_config_prints_what_was_said_as_a_config_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    preferences.save_meanings({"/a/project": {"my/rew": "reward_mean"}})
    assert main(["config", "--total-steps", "300"]) == 0
    printed = tomllib.loads(capsys.readouterr().out)
    assert printed["metrics"] == {"/a/project": {"my/rew": "reward_mean"}}
    assert printed["total_steps"] == 300

    pasted = tmp_path / "config.toml"
    pasted.write_text('[metrics."/other"]\n"x" = "loss"\n')
    found = load({}, {"XDG_STATE_HOME": str(tmp_path / "none")}, pasted)
    assert found.ingest.meanings == {"/other": {"x": "loss"}}
    pasted.write_text('[metrics."/other"]\n"x" = "lost"\n')
    with pytest.raises(ConfigError, match="no such metric"):
        load({}, {"XDG_STATE_HOME": str(tmp_path / "none")}, pasted)


@each_row(
    ("text", "meaning"),
    [
        ("loss", ("loss", 1.0)),
        ("success_frac / 100", ("success_frac", 0.01)),
        ("time_step/1000", ("time_step", 0.001)),
        ("entropy / -1", ("entropy", -1.0)),
        ("success_frac / 0", None),
        ("success_frac / 1e999", None),
        ("success_frac /", None),
        ("success_frac / 1.2.3", None),
        ("nothing / 100", None),
        ("", None),
    ],
)
def test_what_is_said_of_a_key_may_have_a_scale(text: str, meaning: tuple[str, float] | None) -> None:
    assert parse_meaning(text) == meaning
