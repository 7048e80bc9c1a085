"""A target and a limit that somebody sets on the screen: read, kept for the run, and told in the header."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.app.navigation import goal_of
from rltop.pages.header import build_header, clock_text, paint_header
from rltop.rows.glyphs import UNICODE
from rltop.run import preferences
from rltop.run.preferences import NO_GOAL, Goal
from rltop.run.snapshot import Snapshot
from tests.fake_run import run_of

NOW = datetime(2026, 3, 4, 15, 0).astimezone().timestamp()
START = NOW - 3600.0


@each_row(
    ("word", "said", "goal"),
    [
        ("target", "10000", Goal(10_000)),
        ("target", "10,000", Goal(10_000)),
        ("until", "24h", Goal(None, START + 86_400)),
        ("until", "1d 12h", Goal(None, START + 36 * 3600)),
        ("until", "90min", Goal(None, START + 5400)),
        ("until", "18:30", Goal(None, NOW + 3.5 * 3600)),
        ("until", "9:00", Goal(None, NOW + 18 * 3600)),
        ("target", "off", NO_GOAL),
    ],
)
def test_what_is_typed(word: str, said: str, goal: Goal) -> None:
    assert goal_of(word, said, NO_GOAL, START, NOW) == goal


@given(st.sampled_from(["target", "until"]), st.text(max_size=12))
def test_anything_else_says_what_would_do(word: str, said: str) -> None:
    try:
        goal_of(word, said, NO_GOAL, START, NOW)
    except ValueError as error:
        assert f"type {word}" in str(error)


def test_one_is_kept_beside_those_of_others_and_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    preferences.save_goal("/runs/a b", Goal(500))
    preferences.save_goal("/runs/c", Goal(None, 12.5))
    assert preferences.goal_of("/runs/a b", preferences.load_goals()) == Goal(500)
    preferences.save_goal("/runs/a b", NO_GOAL)
    assert preferences.load_goals() == {"/runs/c": Goal(None, 12.5)}
    (tmp_path / "rltop" / preferences.GOALS_FILE).write_text(
        '["/runs/c"]\ntarget = true\nuntil = "soon"\n["/runs/d"]\nuntil = 1e300\n'
    )
    assert preferences.load_goals() == {}


def test_the_header_says_when_the_target_comes_and_that_the_limit_is_before_it() -> None:
    rows = ({"step": n, "timestamp": START + 36.0 * n, "data": {"loss": 1 / n}} for n in range(1, 101))
    run = run_of("".join(json.dumps(row) + "\n" for row in rows).encode())

    def header(width: int) -> str:
        return paint_header(build_header(Snapshot(run), None), width, UNICODE).text

    assert "ETA" not in header(200) and "elapsed 59 m" in header(200)
    run.goal = Goal(300, NOW + 3600)
    arrival = clock_text(START + 36.0 * 300, NOW)
    for width in (200, 80):
        assert "step 100 / 300" in header(width) and f"{arrival} " in header(width)
    limit = f"limit {clock_text(NOW + 3600, NOW)}"
    assert f"{limit}: stops near 200" in header(200)
    assert all(limit in header(width) for width in (80, 52)), "no arrival is promised without what comes before it"
    assert "ETA" not in header(52)
    run.goal = Goal(2_000_000)
    assert " 2028 " in header(200), "a day without its year would be taken for one of this year"
