"""What is read of the six trainers' own files: metrics by meaning, times that add up, panels that fill."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

from tables import each_row

from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Level
from rltop.pages.overview import build_overview
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"

MEANINGS = {
    "verl/ppo_critic": {
        "reward_mean": "critic/score/mean", "value_loss": "critic/vf_loss", "explained_var": "critic/vf_explained_var",
        "val_score": "val-core/openai/gsm8k/acc/mean@4", "time_step": "timing_s/step",
    },
    "easyr1/grpo": {
        "reward_mean": "critic/score/mean", "val_score": "val/reward_score", "clip_frac": "actor/pg_clipfrac_higher",
        "truncated_frac": "response_length/clip_ratio", "time_old_log_prob": "timing_s/old", "mfu": "perf/mfu_actor",
    },
    "rllm/async": {
        "reward_mean": "reward/default/mean", "val_score": "val/math/pass@1",
        "off_policy_kl": "train/kl_sample_train_v2", "zero_std_frac": "batch/default/fractions/effective",
        "staleness_mean": "async/staleness_mean", "time_step": "time/step",
    },
    "openrlhf/ppo": {
        "reward_mean": "train/rollout/reward_mean", "kl_old": "train/ppo_kl", "clip_frac": "train/ppo_clip_ratio",
        "value_loss": "train/critic_loss", "truncated_frac": "train/rollout/truncated_rate",
        "val_score": "eval/eval_gsm8k_pass1", "time_step": "train/timing/step_total",
    },
    "rlinf/embodied": {
        "success_frac": "env/success_once", "clip_frac": "train/actor/clip_fraction",
        "explained_var": "train/critic/explained_variance", "entropy": "train/actor/entropy_loss",
        "val_score": "eval/success_once", "time_gen": "time/generate_rollouts",
    },
    "trinity/trainer": {
        "reward_mean": "critic/score/mean", "kl_old": "actor/ppo_kl", "time_step": "time/train_step",
        "time_wait_between": "time/read_experience", "seqlen_balanced_max": "global_seqlen/balanced_max",
    },
    "trinity/explorer": {
        "reward_mean": "rollout/reward/mean", "val_score": "eval/gsm8k/accuracy/mean@4",
        "reward_std": "experience_pipeline/group_advantages/reward_std/mean",
    },
    "telescope/scalars": {
        "reward_mean": "rollout/reward_mean", "off_policy_kl": "kl_divergence_inference", "lr": "learning_rate",
    },
}  # fmt: skip
ADDING_UP = (
    "verl/ppo_critic",
    "easyr1/grpo",
    "rllm/async",
    "openrlhf/ppo",
    "rlinf/embodied",
    "trinity/trainer",
    "trinity/explorer",
)


def run_of_case(name: str) -> Run:
    case = FIXTURES / name
    file = tomllib.loads((case / "case.toml").read_text()).get("file", "metrics.jsonl")
    return read_whole(str(case / file), Config(), FakeClock()).runs[0]


@each_row("name", MEANINGS)
def test_metrics_are_found_under_the_trainers_own_keys(name: str) -> None:
    identity = run_of_case(name).main.identity
    assert identity is not None
    found = {metric: identity.primary(metric) for metric in MEANINGS[name]}
    assert {metric: signal and signal.key for metric, signal in found.items()} == MEANINGS[name]


@each_row("name", MEANINGS)
def test_the_overview_is_filled(name: str) -> None:
    view = build_overview(Snapshot(run_of_case(name)))
    assert len(view.rows) >= 5
    assert all(row.reading.point is not None for row in view.rows)
    assert (view.timing is not None) == (name in ADDING_UP)


def test_an_embodied_run_begins_with_its_success() -> None:
    rows = build_overview(Snapshot(run_of_case("rlinf/embodied"))).rows
    assert rows[0].reading.key.raw == "env/success_once"


def test_one_validation_row_with_its_levels_as_a_band() -> None:
    for name in ("verl/ppo_critic", "trinity/explorer"):
        view = build_overview(Snapshot(run_of_case(name)), height=90)
        rows = [row for row in (*view.rows, *view.more) if "@4" in row.reading.key.raw]
        assert len(rows) == 1
        low, high = map(float, rows[0].band.split("…"))
        assert low < rows[0].reading.point.value < high


def test_a_share_that_comes_late_is_no_fall_of_the_validation_score(tmp_path: Path) -> None:
    """open-instruct leaves pass@1 out of evaluations that are not whole; scores are ten times as large."""
    path = tmp_path / "metrics.jsonl"
    with path.open("w") as file:
        for step in range(1, 201):
            score = 0.6 - 0.35 * math.exp(-3.0 * step / 200)
            row = {"step": step, "scores": 10.0 * score, "val/stop_rate": 0.98, "val/sequence_lengths": 900.0 + step}
            if step % 20 == 0:
                row["eval/scores"] = 10.0 * (score - 0.02)
                if step > 80:
                    row |= {"eval/pass_at_1": score - 0.02, "eval/pass_at_4": score + 0.1}
            file.write(json.dumps(row) + "\n")
    run = read_whole(str(path), Config(), FakeClock()).runs[0]
    assert run.main.identity.dialect.name == "open-instruct"
    told = [event for event in run.events if event.raised_by == "F3"]
    assert {event.key for event in told} == {"eval/scores"}
    assert len(told) == 10
    assert not [event for event in run.events if event.level >= Level.WARN]
