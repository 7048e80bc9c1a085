"""The next and the previous event, and back and forth through visited pages, with a recorded run."""

from __future__ import annotations

from pathlib import Path

from screens import RECORDED, app_over, press, running, screen_of, status_text, write_rows

from rltop.model import Level
from rltop.pages.metric import MetricPage
from rltop.pages.metrics import MetricsPage
from rltop.pages.overlay import GridPage
from rltop.pages.overview import OverviewPage

SIZE = (160, 40)


async def test_the_cursor_goes_from_event_to_event_and_says_which() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        alarms = sorted({one.step for one in app.followed.events if one.is_alarm and not one.stream})
        assert len(alarms) >= 2
        seen = []
        for _ in range(60):
            await press(pilot, "N")
            if "no event before" in status_text(app):
                break
            assert app.cursor.at_step is not None
            here = [one for one in app.followed.events if one.step == app.cursor.at_step and one.level >= Level.WARN]
            assert any(one.rule in status_text(app) for one in here)
            seen.append(app.cursor.at_step)
        assert seen == sorted(set(seen), reverse=True)
        assert set(alarms) - {app.followed.main.stream.last_step} <= set(seen)
        await press(pilot, "n")
        assert app.cursor.at_step == seen[-2]
        await press(pilot, "L", "n")
        assert "no event after" in status_text(app)


async def test_a_run_without_events_says_so(tmp_path: Path) -> None:
    app = app_over(write_rows(tmp_path / "m.jsonl", ({"step": n, "loss": 1.0 / n} for n in range(1, 20))))
    async with app.run_test(size=SIZE) as pilot:
        await press(pilot, "n")
        assert "there is no event" in status_text(app)


async def test_visited_pages_are_gone_through_back_and_forth() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "alt+left")
        assert "no page was shown before" in status_text(app)
        await press(pilot, "v", "enter")
        assert isinstance(app.page, MetricPage)
        opened = app.page
        await press(pilot, "m")
        assert isinstance(app.page, MetricsPage)
        await press(pilot, "alt+left")
        assert app.page is opened
        await press(pilot, "alt+left")
        assert isinstance(app.page, GridPage)
        await press(pilot, "ctrl+o")
        assert isinstance(app.page, OverviewPage)
        for kind in (GridPage, MetricPage, MetricsPage):
            await press(pilot, "alt+right")
            assert isinstance(app.page, kind)
        await press(pilot, "alt+right")
        assert "no page was shown after" in status_text(app)
        await press(pilot, "alt+left", "e", "alt+left")
        assert app.page is not None and app.page.__class__ is MetricPage
        assert screen_of(app).board.rows
