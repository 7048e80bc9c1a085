"""Searching the page one is on: `/`, `n` and `N` between matches, Escape."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from screens import app_over, page_text, press, running, screen_of, status_text, write_rows
from textual.pilot import Pilot

from rltop.app.app import RltopApp
from rltop.app.page_screen import KeyLine
from rltop.pages.changes import ChangePage
from rltop.pages.compare import ComparePage
from rltop.pages.completions import CompletionPage
from rltop.pages.directory import HelpPage
from rltop.pages.metrics import MetricsPage
from rltop.pages.overview import OverviewPage
from rltop.pages.rollouts import RolloutsPage
from rltop.pages.timing import TimingPage
from rltop.rows.rows import Piece, Row, RowLink, Target, TargetKind
from rltop.rows.selection import matching_rows, with_matches

SIZE = (120, 40)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A veRL run in which many keys jump, with stages."""
    names = [f"my/number_{n:02}" for n in range(60)]
    rows = (
        {
            "step": step,
            "data": {
                **{name: 1.0 + 0.01 * (step * number % 7) + 9.0 * (step >= 80) for number, name in enumerate(names, 1)},
                "my/weird_ratio": 1.0 if step < 80 else 9.0,
                "actor/entropy": 1.0 + 0.01 * (step % 5),
                "critic/rewards/mean": 0.5,
                "timing_s/step": 10.0, "timing_s/gen": 6.0, "timing_s/update_actor": 3.0, "timing_s/reward": 0.5,
            },
        }
        for step in range(1, 91)
    )  # fmt: skip
    return write_rows(tmp_path / "metrics.jsonl", rows)


def footer(app: RltopApp) -> str:
    return screen_of(app).query_one(KeyLine).render_line(0).text


async def search(pilot: Pilot[int], text: str) -> None:
    await press(pilot, "slash", *({" ": "space", "_": "underscore"}.get(c, c) for c in text), "enter")


async def test_changed_rows_are_searched_and_the_search_ends(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        app.cursor.show(80)
        await press(pilot, "c")
        await search(pilot, "NUMBER_3")
        assert isinstance(app.page, ChangePage)
        assert "match 1 of 10" in status_text(app)
        first = screen_of(app).board.selection.target
        assert first is not None and "number_3" in first.name
        await press(pilot, "n", "n")
        assert "match 3 of 10" in status_text(app)
        await press(pilot, "N", "N", "N")
        assert "match 10 of 10" in status_text(app), "before the first one comes the last"
        assert isinstance(app.page, ChangePage) and app.cursor.at_step == 80
        await press(pilot, "up", "n")
        assert "match 10 of 10" in status_text(app), "the next one from where one has gone"
        await press(pilot, "escape")
        assert isinstance(app.page, ChangePage)
        await press(pilot, "n")
        assert "match" not in status_text(app)
        await press(pilot, "escape")
        assert isinstance(app.page, OverviewPage)


async def test_with_the_filter_its_keys_go(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await press(pilot, "m")
        await search(pilot, "number")
        assert "nN Match" in footer(app)
        await press(pilot, "escape")
        assert isinstance(app.page, MetricsPage)
        assert "Match" not in footer(app)


async def test_what_is_not_there_is_said(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await press(pilot, "t")
        await search(pilot, "no such stage")
        assert isinstance(app.page, TimingPage)
        assert "nothing on this page matches" in status_text(app)
        assert "Match" not in footer(app)
        await search(pilot, "update")
        assert "nN Match" in footer(app)
        await press(pilot, "escape")
        assert isinstance(app.page, TimingPage)
        assert "Match" not in footer(app)


async def test_stages_and_help_are_searched(run: Path) -> None:
    async with running(app_over(run), (100, 20)) as (app, pilot):
        await press(pilot, "t")
        await search(pilot, "actor")
        target = screen_of(app).board.selection.target
        assert target is not None and "update_actor" in target.name
        await press(pilot, "question_mark")
        assert isinstance(app.page, HelpPage)
        assert "quiet until it gets worse" not in page_text(app)
        await search(pilot, "acknowledge")
        assert "quiet until it gets worse" in page_text(app), "it was below what is in sight"


async def test_metrics_are_found_by_name_where_runs_are_compared(tmp_path: Path, run: Path) -> None:
    other = write_rows(tmp_path / "other.jsonl", [{"step": n, "my/number_51": 1.0} for n in range(9)])
    async with running(app_over(run, shutil.copy(run, tmp_path / "twin.jsonl"), other), SIZE) as (app, pilot):
        await press(pilot, "o")
        await search(pilot, "weird ratio")
        assert isinstance(app.page, ComparePage)
        assert "no common metric has this name" not in status_text(app)
        assert "my/weird_ratio  by step" in page_text(app)
        await search(pilot, "number_5")
        assert "my/number_50  by step" in page_text(app)
        await press(pilot, "n", "n")
        assert "my/number_52  by step" in page_text(app)
        await press(pilot, "N")
        assert "my/number_51  by step" in page_text(app)
        await search(pilot, "none of these")
        assert "no common metric has this name" in status_text(app)


async def test_a_page_without_a_search_finds_a_metric(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await press(pilot, "slash", *"number_0")
        assert isinstance(app.page, MetricsPage)
        await press(pilot, "enter", "n")
        assert app.page.chosen == Target(TargetKind.METRIC, "my/number_01")
        await press(pilot, "N")
        assert app.page.chosen == Target(TargetKind.METRIC, "my/number_00")
        await press(pilot, "N")
        assert "no match above this line" in status_text(app)
        assert app.page.chosen == Target(TargetKind.METRIC, "my/number_00"), "the head of a section is no match"


async def until(pilot: Pilot[int], app: RltopApp, text: str) -> None:
    for _ in range(3_000):
        app.draw()
        if text in page_text(app):
            return
        await pilot.pause(0.01)
    pytest.fail(f"{text!r} did not come:\n{page_text(app)}")


async def test_prompts_and_completions_are_searched(tmp_path: Path) -> None:
    texts = ("a plain answer", "another plain answer " + "and so on " * 900 + "until the hidden word at its end")
    with (tmp_path / "rollouts.jsonl").open("w") as file:
        for step in range(1, 31):
            for group, prompt in enumerate(("Sum two numbers", "Name a river in Asia", "Write a haiku")):
                for text in texts:
                    row = {"step": step, "prompt": prompt, "group": group, "completion": text, "reward": 0.5}
                    file.write(json.dumps(row) + "\n")
    app = app_over(write_rows(tmp_path / "metrics.jsonl", [{"step": i, "loss": 1.0} for i in range(1, 31)]))
    async with app.run_test(size=SIZE) as pilot:
        await press(pilot, "R")
        await until(pilot, app, "3 groups")
        await search(pilot, "river in asia")
        assert isinstance(app.page, RolloutsPage)
        assert "match 1 of 1" in status_text(app)
        await press(pilot, "enter")
        await search(pilot, "another plain")
        await press(pilot, "enter")
        await until(pilot, app, "completion")
        assert isinstance(app.page, CompletionPage)
        assert "hidden word" not in page_text(app)
        await search(pilot, "hidden word at its")
        assert "hidden word" in page_text(app)
        assert "match 1 of 1" in status_text(app)
        await press(pilot, "n")
        assert "match 1 of 1" in status_text(app), "n goes to matches, and to other completions once there is no search"
        await press(pilot, "escape", "n")
        assert not status_text(app).startswith("match")


def test_a_match_may_go_on_in_the_next_row_and_a_head_has_none() -> None:
    head = Row((Piece("reward  length"),), (RowLink(0, 6, Target(TargetKind.HEAD, "reward")),))
    rows = [head, Row((Piece(" the model is"), Piece(" paid a", "note"))), Row((Piece(" reward for it"),)), Row(())]
    assert matching_rows(rows, "a  Reward", lambda _: "") == [1]
    assert matching_rows(rows, "reward", lambda _: "") == [2]
    assert matching_rows(
        [Row((Piece("x"),), (RowLink(0, 1, Target(TargetKind.RUN, "a/b")),))], "B", lambda t: t.name
    ) == [0]


def test_matches_are_marked_across_pieces() -> None:
    rows = with_matches([Row((Piece("is pa"), Piece("id well", "note")))], "PAID", 0)
    assert rows[0].line == (Piece("is "), Piece("pa", "cursor"), Piece("id", "cursor"), Piece(" well", "note"))


async def test_another_match_of_a_filter_that_nothing_matches(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await press(pilot, "m")
        await search(pilot, "zzz")
        for key, where in (("n", "below"), ("N", "above")):
            await press(pilot, key)
            assert f"no match {where} this line" in status_text(app)
