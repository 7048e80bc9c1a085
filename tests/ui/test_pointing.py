"""The mouse on charts, with a recorded run: a click sets the step, the wheel zooms at the pointer."""

from __future__ import annotations

import pytest
from screens import NO_THEMES, RECORDED, app_over, page_text, press, screen_of
from textual import events
from textual.pilot import Pilot

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.pages.grid import GridPage
from rltop.pages.metric import MetricPage
from rltop.pages.page import Push

SIZE = (120, 40)


def axis_of(app: RltopApp, sign: str) -> tuple[int, int, int]:
    """Row of the first x axis, and its first and last cell."""
    lines = page_text(app).splitlines()
    y = next(y for y, line in enumerate(lines) if line.lstrip()[:2] in (f"{sign}─", f"{sign}┬", "+-", "++"))
    start = len(lines[y]) - len(lines[y].lstrip()) + 1
    return y, start, len(lines[y].rstrip()) - 1


async def click(app: RltopApp, pilot: Pilot[int], x: int, y: int) -> None:
    await pilot.click(screen_of(app).board, offset=(x, y))
    await pilot.pause()


async def turn(app: RltopApp, pilot: Pilot[int], kind: type[events.MouseEvent], x: int, y: int) -> None:
    await pilot._post_mouse_events([kind], screen_of(app).board, offset=(x, y))
    await pilot.pause()


@pytest.mark.parametrize("is_ascii", [False, True])
async def test_a_click_on_a_chart_goes_to_the_step_under_the_pointer(is_ascii: bool) -> None:
    app = app_over(RECORDED, options=UiOptions(is_ascii=is_ascii, themes_folder=NO_THEMES))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.carry_out(Push(MetricPage("actor/entropy")))
        await pilot.pause()
        y, start, stop = axis_of(app, "└")
        first, last = app.followed.stream.first_step, app.followed.stream.last_step
        assert first is not None and last is not None
        await click(app, pilot, start, y - 4)
        assert app.at_step == first
        await click(app, pilot, (start + stop) // 2, y - 4)
        assert app.at_step is not None and abs(app.at_step - (first + last) / 2) <= 2
        await click(app, pilot, stop, y - 4)
        assert app.is_live
        await click(app, pilot, start - 3, y - 4)
        assert app.is_live, "beside the chart there is no step"


async def test_the_wheel_zooms_at_the_pointer_and_scrolls_elsewhere() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.carry_out(Push(page := MetricPage("actor/entropy")))
        await pilot.pause()
        y, start, stop = axis_of(app, "└")
        x = start + (stop - start) // 4
        before = page._plot
        assert before is not None
        await turn(app, pilot, events.MouseScrollUp, x, y - 4)
        await turn(app, pilot, events.MouseScrollUp, x, y - 4)
        after = page._plot
        assert after is not None and after.zoom.length < before.zoom.length / 2
        under = [one.zoom.first + (one.zoom.length - 1) / 4 for one in (before, after)]
        assert abs(under[0] - under[1]) <= 3, "the step under the pointer stays there"
        for _ in range(4):
            await turn(app, pilot, events.MouseScrollDown, x, y - 4)
        assert page._plot is not None and page._plot.zoom == before.zoom


async def test_a_click_and_the_wheel_on_one_of_many_charts_are_for_all() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=SIZE) as pilot:
        await press(pilot, "v")
        assert isinstance(app.page, GridPage)
        y, start, _ = axis_of(app, "└")
        await click(app, pilot, start + 10, y - 3)
        at = app.at_step
        assert at is not None and f"step {at}" in page_text(app).splitlines()[0]
        await click(app, pilot, start + 10 + SIZE[0] // 3, y - 3)
        assert app.at_step is not None and abs(app.at_step - at) <= 8
        await turn(app, pilot, events.MouseScrollUp, start + 10, y - 3)
        assert "   steps " in page_text(app).splitlines()[0]
