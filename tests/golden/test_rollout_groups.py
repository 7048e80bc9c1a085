"""Group statistics of recorded completions against values computed independently."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded import paths_of

from rltop.formats.rollouts.files import dumps_in
from rltop.model.completions import joined, step_of
from rltop.resources import folder
from rltop.stats.groups import StepSummary, summarise

FIXTURE = folder("fixtures") / "trl" / "grpo_straggler"


def summaries(path: Path) -> dict[int, StepSummary]:
    (source,) = dumps_in(str(path))
    while source.refresh():
        pass
    return {step: summarise(step_of(step, joined(source.read(step))[0])) for step in source.steps}


def named(summary: StepSummary) -> dict[str, float | None]:
    """The summary under the names of the file."""
    return {
        "n_groups": len(summary.groups),
        "group_size": summary.group_size,
        "group_length_max_median_ratio_mean": summary.ratio_mean,
        "group_length_max_median_ratio_max": summary.ratio_max,
        "group_length_gini_mean": summary.gini_mean,
        "stop_reason_length_pct": None if summary.cut_fraction is None else 100 * summary.cut_fraction,
        "completion_length_mean": summary.length_mean,
        "reward_mean": summary.reward_mean,
        "frac_reward_zero_std": summary.zero_std_fraction,
    }


def hold(path: Path, expected: Path) -> None:
    found = summaries(path)
    steps = json.loads(expected.read_text())["steps"]
    assert list(found) == [step["step"] for step in steps]
    for wanted in steps:
        got = named(found[wanted["step"]])
        assert got == pytest.approx({name: wanted[name] for name in got}, abs=1e-9, rel=0), wanted["step"]


def test_the_fixture_holds() -> None:
    hold(FIXTURE / "rollouts.jsonl", FIXTURE / "rollouts.expected.json")


@pytest.mark.parametrize(
    "run",
    paths_of(lambda root: {path.parent for path in root.glob("trl/*/rollouts.jsonl")}),
)
def test_a_recorded_run_holds(run: Path) -> None:
    hold(run / "rollouts.jsonl", run / "expected.json")
