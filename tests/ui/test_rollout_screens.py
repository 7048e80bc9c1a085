"""From the stragglers to the text of a completion and back, by keys."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from rollout_dumps import write_sqlite
from screens import NO_THEMES, app_over, page_text, press, running, screen_of, write_rows
from textual.pilot import Pilot

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.clock import FakeClock
from rltop.pages.completions import CompletionPage, CompletionsPage
from rltop.pages.overview import OverviewPage
from rltop.pages.rollouts import RolloutsPage
from rltop.resources import folder
from rltop.rows.rows import Target, TargetKind
from rltop.run.discover import discover
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed
from tests.run_folders import trinity

FIXTURE = folder("fixtures") / "trl" / "grpo_straggler"


async def until(pilot: Pilot[int], app: RltopApp, text: str) -> str:
    """What is shown once `text` is: what comes from a file comes in its own time."""
    for _ in range(3_000):
        app.draw()
        shown = page_text(app)
        if text in shown:
            return shown
        await pilot.pause(0.01)
    pytest.fail(f"{text!r} did not come:\n{page_text(app)}")


def small_app(folder: Path) -> RltopApp:
    """The rollouts of the fixture beside a few rows of metrics."""
    shutil.copy(FIXTURE / "rollouts.jsonl", folder)
    return app_over(write_rows(folder / "metrics.jsonl", [{"step": i, "loss": 1.0} for i in range(110, 131)]))


async def test_from_the_stragglers_to_a_text_and_back() -> None:
    async with running(app_over(FIXTURE / "metrics.jsonl"), (120, 40)) as (app, pilot):
        app.cursor.show(125)
        screen_of(app).board.select(Target(TargetKind.STRAGGLERS))
        await press(pilot, "enter")
        assert isinstance(app.page, RolloutsPage)
        text = await until(pilot, app, "4 groups of 8")
        assert "step 125" in text
        await press(pilot, "enter")
        assert isinstance(app.page, CompletionsPage) and "1 of 4 by ratio" in page_text(app)
        await press(pilot, "right")
        assert "2 of 4 by ratio" in page_text(app)
        await press(pilot, "left", "enter")
        assert isinstance(app.page, CompletionPage)
        assert "1 of 8 by length" in await until(pilot, app, "── completion")
        await press(pilot, "right")
        assert "2 of 8 by length" in await until(pilot, app, "── completion")
        await press(pilot, "full_stop")
        assert "step 126" in await until(pilot, app, "── completion")
        await press(pilot, "escape", "escape", "escape")
        assert isinstance(app.page, OverviewPage) and app.moment.snapshot.at_step == 126


async def test_left_and_right_go_along_the_steps_of_the_dump(tmp_path: Path) -> None:
    async with running(small_app(tmp_path), (80, 24)) as (app, pilot):
        await press(pilot, "R")
        assert isinstance(app.page, RolloutsPage)
        await until(pilot, app, "step 130")
        await press(pilot, "left")
        await until(pilot, app, "step 129   4 groups")
        assert app.moment.snapshot.at_step == 129
        await press(pilot, "s")
        assert "▼max" in page_text(app)
        await press(pilot, "R", "escape")
        assert isinstance(app.page, OverviewPage)


@pytest.mark.parametrize("size", [(40, 12), (200, 60)])
async def test_every_page_fits_every_size(tmp_path: Path, size: tuple[int, int]) -> None:
    async with running(small_app(tmp_path), size) as (app, pilot):
        app.cursor.show(125)
        await press(pilot, "R")
        await until(pilot, app, "ratio")
        for _ in range(2):
            await press(pilot, "enter")
            assert "too small" not in page_text(app) and "ROLLOUTS" in page_text(app)


async def test_without_rollouts_the_page_says_how_to_get_them(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", [{"step": i, "loss": 1.0} for i in range(30)])
    async with running(app_over(path), (80, 24)) as (app, pilot):
        await press(pilot, "R")
        await until(pilot, app, "--rollouts PATH")
        await press(pilot, "left", "right", "s", "enter", "escape")
        assert isinstance(app.page, OverviewPage)


async def test_what_is_written_meanwhile_is_shown(tmp_path: Path) -> None:
    app = small_app(tmp_path)
    lines = (FIXTURE / "rollouts.jsonl").read_bytes().splitlines(keepends=True)
    dump = tmp_path / "rollouts.jsonl"
    dump.write_bytes(b"".join(lines[:40]))
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "R")
        await until(pilot, app, "8 completions")
        with dump.open("ab") as file:
            file.write(b"".join(lines[40:64]))
        await until(pilot, app, "32 completions")


async def test_batches_of_the_explorer_are_shown_at_the_trainers_step_by_time(tmp_path: Path) -> None:
    # Of 60 steps of the trainer at 30 s each and 90 batches at 20 s each, step 30 and batch 45 are at one time.
    job = trinity(tmp_path / "job")
    write_sqlite(job / "buffer" / "explorer_output.db", range(1, 91)).close()
    clock = FakeClock()
    found = discover([str(job)]).found
    session = Session(found, lambda path, last: DirectFeed(path, clock=clock, last=last), clock)
    session.drain()
    async with running(RltopApp(session, UiOptions(themes_folder=NO_THEMES), clock=clock), (100, 30)) as (app, pilot):
        app.cursor.show(30)
        await press(pilot, "R")
        await until(pilot, app, "step 45   2 groups of 2")
        await press(pilot, "left")
        await until(pilot, app, "step 43   2 groups of 2")
        assert app.moment.snapshot.at_step == 29
