"""What a line on a chart says is true of that chart: units, starts, restarts, stragglers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest
from tables import each_row

from rltop.formats.jsonl import JsonlDecoder
from rltop.model import Event, Observation
from rltop.pages.signals import beginning_of, signal_of
from rltop.report.text import check_text
from rltop.resources import folder
from rltop.rules import registry
from rltop.rules.engine import Engine
from rltop.rules.options import EngineOptions
from rltop.run.pipeline import Pipeline
from rltop.run.rule_runner import RuleRunner
from rltop.run.snapshot import Snapshot
from rltop.store.stream import Stream
from rltop.units import number
from tests.fake_run import run_of

TRL = {"frac_reward_zero_std": 0.0, "completions/mean_length": 120.0, "reward_std": 0.2, "grad_norm": 0.4}
FIXTURES = sorted(Path(str(folder("fixtures"))).rglob("metrics.jsonl"))


@each_row("path", FIXTURES, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_what_a_rule_compares_is_its_metric_or_says_what_it_is(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A threshold is drawn over its metric: the number behind it has to be one of that metric."""
    values: dict[str, list[float]] = {}
    strange: set[str] = set()
    segment: list[Observation] = []
    observe = Engine.observe

    def watched(self: Engine, observation: Observation) -> Sequence[Event]:
        for name, value in observation.values.items():
            values.setdefault(name, []).append(value)
        if segment and observation.step <= segment[-1].step:
            segment.clear()
        segment.append(observation)
        events = observe(self, observation)
        for verdict in self.verdicts if observation.record % 4 == 0 else ():  # of an alert that stands, most are alike
            for one in [one for one in verdict.evidence if one.steps is not None]:
                start, end = one.steps or (0, 0)
                rows = [each for each in segment if start <= each.step <= end]
                if verdict.raised_by == "P3":  # not of what a save or an evaluation distorts
                    rows = [each for each in rows if each.values.keys().isdisjoint(("time_save", "time_eval"))]
                held = [each.values.get(verdict.metric) for each in rows]
                found = [value for value in held if value is not None]
                is_known = verdict.metric != "time_step" and not registry.NAMED[verdict.raised_by].measures
                is_known = is_known and verdict.since_step >= segment[0].step
                if is_known and abs(median(found)) != pytest.approx(abs(one.value)):
                    strange.add(f"{verdict.raised_by}: {one.name} {one.value} is not of steps {one.steps}")
            if verdict.threshold is None or verdict.metric not in values:
                continue
            lately = values[verdict.metric][-64:]
            reach = max(map(abs, (*lately, verdict.baseline or 0.0)))
            if not min(lately) - 3 * reach <= verdict.threshold <= max(lately) + 10 * reach:
                strange.add(f"{verdict.raised_by}: {verdict.threshold} over {min(lately)} to {max(lately)}")
        return events

    monkeypatch.setattr(Engine, "observe", watched)
    pipeline = Pipeline(JsonlDecoder(), Stream(), RuleRunner(EngineOptions()))
    pipeline.take_bytes(path.read_bytes(), 0, 0)
    pipeline.finish()
    assert values
    assert not strange


def test_a_metric_has_one_baseline_and_it_names_its_steps() -> None:
    rows = [
        {"step": step, "kl": 0.01 + 0.002 * step if step < 30 else 0.4, "reward": 0.5 + 0.01 * (step % 3), **TRL}
        for step in range(1, 121)
    ]
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())
    (verdict,) = [one for one in run.verdicts if one.metric == "kl_ref"]
    (base,) = [one for one in verdict.evidence if one.name == "baseline"]
    snapshot = Snapshot(run)
    signal = signal_of(snapshot, "kl")
    assert verdict.raised_by == "O12"
    assert beginning_of(snapshot, signal)[1:] == (base.value, base.steps) == (pytest.approx(0.031), (6, 15))
    assert "baseline 0.031 nats (steps 6–15)" in check_text(snapshot, width=200)
    assert f"({number(base.value)})".replace("(", "(baseline ") in verdict.headline


def test_quotients_and_counts_are_no_lines_of_their_metric() -> None:
    for rule in ("P6", "P8", "P12", "P14", "X1"):
        assert registry.NAMED[rule].measures


def test_a_restart_that_a_later_one_went_back_behind_is_not_seen() -> None:
    pipeline = Pipeline(JsonlDecoder(), Stream(), None)
    steps = [*range(60), *range(39, 45), *range(80)]
    rows = [json.dumps({"step": step, "reward": float(i)}) for i, step in enumerate(steps)]
    pipeline.take_bytes(("\n".join(rows) + "\n").encode(), 0, 0)
    assert pipeline.stream.restarts == (39, 0)
    assert pipeline.stream.seen_restarts == (0,)
