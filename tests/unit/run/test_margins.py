"""The margin of trainers that log only what chosen and rejected answers score."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tables import each_row

from rltop.clock import FakeClock
from rltop.formats.jsonl import JsonlDecoder
from rltop.model import VerdictState
from rltop.pages.overview import build_overview, paint_overview
from rltop.rows.glyphs import UNICODE
from rltop.run.discover import discover
from rltop.run.pipeline import Margins, side_of
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.feed import DirectFeed
from tests.run_folders import write_events

KEY = "train/chosen_reward − reject_reward"
Rows = list[dict[str, float]]


def pairs(count: int = 120, sign: float = 1.0) -> Rows:
    """What OpenRLHF's DPO logs to TensorBoard, but for the margin's sign."""
    return [
        {
            "train/loss": 0.69 - 0.002 * i, "train/acc": 0.5 + 0.002 * i, "train/chosen_reward": sign * 0.01 * i,
            "train/reject_reward": -sign * 0.02 * i, "train/lr": 5e-7,
        }
        for i in range(count)
    ]  # fmt: skip


def read(path: Path) -> Run:
    clock = FakeClock()
    session = Session(discover([str(path)]).found, lambda each, lines: DirectFeed(each, clock=clock, last=lines), clock)
    session.drain()
    return session.runs[0]


def openrlhf(folder: Path, rows: Rows) -> Run:
    write_events(folder, [(i + 1, 1.7e9 + i, row) for i, row in enumerate(rows)])
    return read(folder)


def texts(run: Run) -> list[str]:
    rows = paint_overview(build_overview(Snapshot(run), width=120, height=40), 120, 40, UNICODE)
    return [row.text for row in rows]


def test_the_margin_is_a_row_that_says_how_it_follows(tmp_path: Path) -> None:
    run = openrlhf(tmp_path / "tb", pairs())
    margin = run.main.identity.primary("dpo_margin")
    assert margin.key == KEY
    for step in (1, 60, 120):
        row = run.main.stream.row(step)
        assert math.isclose(row[KEY], row["train/chosen_reward"] - row["train/reject_reward"])
    assert any("reward margin" in text and "rd − reject_reward" in text for text in texts(run))


def test_answers_that_are_preferred_the_wrong_way_round_are_a_verdict(tmp_path: Path) -> None:
    assert "D8" not in {verdict.rule for verdict in openrlhf(tmp_path / "right", pairs()).verdicts}
    verdicts = openrlhf(tmp_path / "wrong", pairs(sign=-1.0)).verdicts
    (found,) = (verdict for verdict in verdicts if verdict.rule == "D8")
    assert (found.state, found.key) == (VerdictState.FIRING, KEY)


def test_a_reward_model_has_one_too(tmp_path: Path) -> None:
    rows = pairs()
    rows[49]["eval/acc_mean"] = rows[49]["eval/reward_mean"] = 0.1
    run = openrlhf(tmp_path, rows)
    margin = run.main.identity.primary("rm_margin")
    assert margin.key == KEY


@each_row("logged", ["rewards/margins", "reward_margin", "margin"])
def test_no_second_margin_beside_one_that_is_logged(tmp_path: Path, logged: str) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": i, "rewards/chosen": 1.0, "rewards/rejected": 0.5, logged: 0.5} for i in range(1, 41)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert not [key for key in read(path).main.stream.keys if "−" in key]


def decoded(rows: list[dict[str, Any]]) -> list[dict[str, float]]:
    decoder, margins = JsonlDecoder(), Margins()
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    records = map(margins.added, [*decoder.feed(data, 0, 0), *decoder.finish()])
    return [dict(zip(record.schema.keys, record.values, strict=True)) for record in records]


def test_halves_that_come_one_after_the_other_make_one_margin_on_their_step() -> None:
    halves = [{"step": i, f"rewards/{side}": float(i)} for i in range(1, 60) for side in ("chosen", "rejected")]
    found = decoded(halves)
    assert [row.get("rewards/chosen − rejected") for row in found[2:]] == [None, 0.0] * 58
    apart = decoded([{"step": i, f"rewards/{('chosen', 'rejected')[i % 2]}": 1.0} for i in range(1, 60)])
    assert not [row for row in apart if "rewards/chosen − rejected" in row]


def test_a_half_that_is_no_number_makes_no_margin() -> None:
    rows: list[dict[str, Any]] = [{"step": i, "chosen_reward": 1.0, "reject_reward": 0.5} for i in range(1, 60)]
    rows[30]["reject_reward"] = None
    rows[40]["chosen_reward"] = float("inf")
    margins = [row.get("chosen_reward − reject_reward") for row in decoded(rows)]
    assert [i for i, margin in enumerate(margins) if margin is None] == [30, 40]


@each_row(
    ("key", "side"),
    [
        ("actor/reject_reward", ("actor/chosen_reward", False)),
        ("train/rewards_rejected_mean", ("train/rewards_chosen_mean", False)),
        ("rewards/chosen", ("rewards/chosen", True)),
        ("logps/chosen", None), ("eval/chosen_reward", None), ("reward", None),
    ],
)  # fmt: skip
def test_a_side_is_known_by_its_name(key: str, side: tuple[str, bool] | None) -> None:
    assert side_of(key) == side


def kept(folder: Path, rows: Rows, settings: str = "") -> Run:
    (folder / "config.yaml").write_text(settings or "seed: 1\n")
    (folder / "metrics.jsonl").write_text("".join(json.dumps({"step": i, **row}) + "\n" for i, row in enumerate(rows)))
    return read(folder / "metrics.jsonl")


def slime(count: int, flat: int) -> Rows:
    """What slime logs of a generation (`observability/rollout_metrics.py`): a count only where there is one."""
    return [
        {
            "rollout/raw_reward": 0.31 + 0.01 * (i % 3), "rollout/response_len/mean": 400.0 + i % 5,
            "rollout/zero_std/count_0.0": flat - 4.0, "train/ppo_kl": 0.001, "train/pg_loss": 0.01 * (i % 3),
            "train/grad_norm": 0.4 + 0.01 * (i % 4), "perf/step_time": 60.0,
            "rollout/dynamic_filter/drop_zero_std_0.0": 3.0, "rollout/dynamic_filter/drop_zero_std_1.0": 5.0,
        } | ({"rollout/zero_std/count_1.0": 4.0} if i % 2 else {})
        for i in range(count)
    ]  # fmt: skip


def rules_raised(run: Run) -> set[str]:
    return {event.rule for event in run.events}


def test_counts_of_groups_without_contrast_are_added_up_and_judged_by_the_number_of_groups(tmp_path: Path) -> None:
    run = kept(tmp_path, slime(60, 31), "rollout_batch_size: 32\n")
    assert run.main.stream.value("rollout/zero_std/count", 31) == 31.0
    assert run.main.stream.value("rollout/zero_std/count", 30) == 27.0
    assert run.main.stream.value("rollout/dynamic_filter/drop", 30) == 8.0
    assert "G1" in rules_raised(run)
    assert "G1" not in rules_raised(kept(tmp_path, slime(60, 31), "rollout_batch_size: 128\n"))
    assert "G1" not in rules_raised(kept(tmp_path, slime(60, 31)))


def test_what_skyrl_filters_is_a_share_of_its_prompts(tmp_path: Path) -> None:
    rows = [
        {
            "reward/avg_raw_reward": 0.02 + 0.001 * (i % 3), "reward/num_zero_variance_filtered": 230.0 + i % 9,
            "generate/avg_num_tokens": 300.0, "policy/policy_loss": 0.01 * (i % 3), "policy/final_loss": 0.01,
            "policy/raw_grad_norm": 0.2 + 0.01 * (i % 4), "policy/policy_lr": 1e-6, "timing/step": 60.0,
        }
        for i in range(60)
    ]  # fmt: skip
    assert "G1" in rules_raised(kept(tmp_path, rows, "trainer:\n  train_batch_size: 256\n"))
    assert "G1" not in rules_raised(kept(tmp_path, rows, "trainer:\n  train_batch_size: 512\n"))


def test_samples_of_trinity_are_as_old_as_the_step_is_ahead_of_their_version(tmp_path: Path) -> None:
    rows = [
        {
            "sample/model_version/mean": float(min(i - 1, 40)), "sample/model_version/min": min(i - 1, 40) - 1.0,
            "sample/model_version_drift/mean": 0.1, "sample/task_count": 16.0, "time/train_step": 20.0 + i % 3,
            "actor/pg_loss": 0.01 * (i % 3), "actor/grad_norm": 0.4 + 0.01 * (i % 4), "critic/score/mean": 0.3,
        }
        for i in range(80)
    ]  # fmt: skip
    run = kept(tmp_path, rows)
    identity = run.main.identity
    assert identity is not None
    ages = [identity.primary(name) for name in ("staleness_mean", "staleness_max")]
    assert [run.main.stream.value(age.key, 30) for age in ages if age] == [0.0, 1.0]
    assert [run.main.stream.value(age.key, 79) for age in ages if age] == [38.0, 39.0]
    assert "M8" in rules_raised(run)


def test_steps_per_second_of_ms_swift_are_a_step_time(tmp_path: Path) -> None:
    rows = [
        {"loss": 1.0 - 0.005 * i, "acc": 0.5, "grad_norm": 0.4, "learning_rate": 1e-6, "train_speed(iter/s)": speed}
        for i, speed in enumerate([0.0] + [0.25] * 40)
    ]
    run = kept(tmp_path, rows)
    step_time = run.main.identity.primary("time_step")
    assert step_time is not None and step_time.key == "1 ÷ train_speed(iter/s)"
    assert run.main.stream.value(step_time.key, 7) == 4.0
    first = run.main.stream.value(step_time.key, 0)
    assert first is None or math.isnan(first)
