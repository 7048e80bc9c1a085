"""What the x axis of a chart can count is what the run logs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rltop.pages.chart import Axis, axes_logged, places
from rltop.run.snapshot import Snapshot
from tests.screens import session_over, write_rows


@pytest.mark.parametrize(
    ("counted", "second", "last"),
    [
        (lambda n: {"episode": 512 * n}, 512.0, 512.0 * 39),
        # Where only those of each step are logged they are added up.
        (lambda n: {"rollout/num_samples": 64.0 + n % 2}, 64.0, 64.0 * 39 + 19),
        (lambda n: {"consumed samples": 128 * n}, 128.0, 128.0 * 39),
    ],
)
def test_samples_are_those_since_the_start(
    counted: Callable[[int], dict[str, float]], second: float, last: float, tmp_path: Path
) -> None:
    others = {"policy_loss": 0.1, "kl": 0.01, "rollout/response_length": 100.0, "objective/kl": 0.1, "eps": 3}
    rows = [{"step": n, "reward": n / 40, **others, **counted(n)} for n in range(1, 41)]
    session = session_over(write_rows(tmp_path / "metrics.jsonl", rows))
    session.drain()
    snapshot = Snapshot(session.runs[0])
    assert Axis.SAMPLES in axes_logged(snapshot)
    found = places(snapshot, Axis.SAMPLES)
    assert found is not None
    assert (found.at(1), found.at(40)) == (0.0, last)
    assert found.at(2) in (second, second + 1)


def test_an_axis_that_the_run_does_not_log_is_not_offered(tmp_path: Path) -> None:
    session = session_over(write_rows(tmp_path / "metrics.jsonl", [{"step": n, "reward": 0.1} for n in range(1, 41)]))
    session.drain()
    assert axes_logged(Snapshot(session.runs[0])) == [Axis.STEP]
