"""Every key that the trainers' glossaries name: by its meaning, in its own file and in a part of it."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from tables import each_row

from rltop.catalog.dialect import Identity
from rltop.catalog.metrics import CATALOG, text_of
from rltop.cli.open_session import read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.model import Level
from rltop.report.document import level_of
from rltop.report.text import check_text
from rltop.rules.registry import NAMED
from rltop.run.snapshot import Snapshot

LISTED = Path(__file__).resolve().parents[2] / "fixtures/glossaries/keys.csv"
ENTRIES = [*csv.DictReader(LISTED.read_text().splitlines())]
Entry = dict[str, str]

AMBIGUOUS = {"response_length", "prompt_length"}
"""Sections whose clip ratio means truncation in one trainer and padding in another: alone they do not tell."""


def files() -> dict[str, list[Entry]]:
    """Each shape of a file, then each of its sections alone."""
    found: dict[str, list[Entry]] = {}
    for entry in ENTRIES:
        whole = f"{entry['glossary']}: {entry['shape']}"
        section, slash, _ = entry["key"].partition("/")
        found.setdefault(whole, []).append(entry)
        if slash and section not in AMBIGUOUS:
            found.setdefault(f"{whole}: {section}/ alone", []).append(entry)
    return found


FILES = files()


def identity_of(entries: Sequence[Entry], folder: Path) -> Identity:
    row = {entry["key"]: 1.25 if CATALOG[entry["metric"]].low == 1.0 else 0.5 for entry in entries}
    lines = [json.dumps({"step": step, **row}) for step in range(1, 13)]
    file = folder / "metrics.jsonl"
    file.write_text("\n".join(lines) + "\n")
    identity = read_whole(str(file), Config(), FakeClock()).runs[0].main.identity
    assert identity is not None
    return identity


@each_row("name", FILES)
def test_every_key_is_known_by_its_meaning(name: str, tmp_path: Path) -> None:
    identity = identity_of(FILES[name], tmp_path)
    known: dict[str, set[str]] = {}
    for metric, signals in identity.signals.items():
        for signal in signals:
            known.setdefault(signal.key, set()).add(metric)
    wrong = {
        entry["key"]: (entry["metric"], known.get(entry["key"], set()))
        for entry in FILES[name]
        if entry["metric"] not in known.get(entry["key"], set())
    }
    assert not wrong


@each_row("metric", sorted({entry["metric"] for entry in ENTRIES}))
def test_what_is_listed_of_a_metric_holds(metric: str) -> None:
    found = CATALOG[metric]
    for entry in ENTRIES:
        if entry["metric"] == metric:
            listed = (entry["section"], entry["unit"], entry["direction"])
            assert (found.section, found.unit.value, found.direction.value) == listed, entry["key"]
            assert entry["help"] in text_of(found).help
            for rule in entry["rules"].split():
                assert metric in NAMED[rule].metrics, (entry["key"], rule)


ALGORITHMS = {
    "RL training: verl": ("veRL", "ppo"),
    "RL training: dpo": ("generic", "dpo"),
    "RL training: rm": ("generic", "reward"),
    "telescope: samples": ("Telescope", "grpo"),
    "telescope: step": ("Telescope", "grpo"),
    "trl: ppo": ("TRL", "ppo"),
    "trl: grpo": ("TRL", "grpo"),
    "rlinf: embodied": ("RLinf", "embodied"),
    "rlinf: embodied: train/ alone": ("RLinf", "ppo"),
    "rlinf: embodied: rollout/ alone": ("RLinf", "embodied"),
    "trinity: explorer: rollout/ alone": ("generic", "unknown"),
    "trinity: explorer: eval/ alone": ("Trinity-RFT", "unknown"),
    "trinity: bench": ("Trinity-RFT", "unknown"),
    "trinity: trainer": ("Trinity-RFT", "ppo"),
}


@each_row("name", ALGORITHMS)
def test_the_trainer_and_the_algorithm_are_told(name: str, tmp_path: Path) -> None:
    identity = identity_of(FILES[name], tmp_path)
    assert (identity.dialect.name, identity.algorithm.value) == ALGORITHMS[name]


@pytest.mark.parametrize("key", ["timing_s/update_critic", "critic/lr"])
def test_a_critic_that_is_updated_means_ppo(key: str, tmp_path: Path) -> None:
    keys = ["actor/pg_loss", "actor/ppo_kl", "critic/score/mean", "critic/advantages/mean", "timing_s/step", key]
    row = dict.fromkeys(keys, 0.5)
    (tmp_path / "m.jsonl").write_text(
        "\n".join(json.dumps({"step": step, "data": row}) for step in range(1, 13)) + "\n"
    )
    identity = read_whole(str(tmp_path / "m.jsonl"), Config(), FakeClock()).runs[0].main.identity
    assert (identity.algorithm.value, identity.traits.has_critic) == ("ppo", True)


def test_keys_of_one_trainer_are_known_beside_those_of_another(tmp_path: Path) -> None:
    row = dict.fromkeys(
        ("loss", "grad_norm", "learning_rate", "reward", "completions/mean_length", "epoch", "rollout_corr/k3_kl",
         "val-core/gsm8k/acc/mean@4", "actor/pg_clipfrac"), 0.5,
    )  # fmt: skip
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps({"step": step, **row}) for step in range(1, 13)) + "\n")
    identity = read_whole(str(tmp_path / "m.jsonl"), Config(), FakeClock()).runs[0].main.identity
    assert identity.dialect.name == "TRL"
    found = {name: identity.primary(name) for name in ("off_policy_kl", "val_score", "clip_frac")}
    assert {name: signal and signal.key for name, signal in found.items()} == {
        "off_policy_kl": "rollout_corr/k3_kl",
        "val_score": "val-core/gsm8k/acc/mean@4",
        "clip_frac": "actor/pg_clipfrac",
    }


@each_row("key", ["rollout/rewards", "acc_mean", "response_length/clip_ratio"])
def test_a_key_of_which_trainers_mean_different_things_stays_unknown(key: str, tmp_path: Path) -> None:
    row = {"alpha": 0.5, key: 0.5}
    (tmp_path / "m.jsonl").write_text("\n".join(json.dumps({"step": step, **row}) for step in range(1, 13)) + "\n")
    identity = read_whole(str(tmp_path / "m.jsonl"), Config(), FakeClock()).runs[0].main.identity
    assert not [metric for metric, signals in identity.signals.items() for one in signals if one.key == key]


@pytest.mark.parametrize("fell", [False, True])
def test_a_file_of_evaluations_alone_is_read_and_judged(fell: bool, tmp_path: Path) -> None:
    scores = [0.3 + 0.02 * i if i < 8 or not fell else 0.05 for i in range(14)]
    rows = [{"step": 20 * i, "bench/gsm8k/accuracy/mean@4": score} for i, score in enumerate(scores)]
    file = tmp_path / "m.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = read_whole(str(file), Config(), FakeClock()).runs[0]
    text = check_text(Snapshot(run))
    assert "evaluations only, up to step 260" in text
    assert "no metrics" not in text
    assert ("no alerts at the end" in text) is not fell
    assert level_of(Snapshot(run)) is (Level.CRIT if fell else Level.OK)
