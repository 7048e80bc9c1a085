"""The mouse on charts, with a recorded run: a click sets the step, the wheel zooms at the pointer."""

from __future__ import annotations

import pytest
from screens import NO_THEMES, RECORDED, app_over, page_text, press, running, screen_of
from textual import events
from textual.pilot import Pilot

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.pages.metric import MetricPage
from rltop.pages.overlay import GridPage
from rltop.pages.page import Push
from rltop.rows.rows import TargetKind

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
    async with running(app, SIZE) as (_, pilot):
        app.carry_out(Push(MetricPage("actor/entropy")))
        await pilot.pause()
        y, start, stop = axis_of(app, "└")
        first, last = app.followed.main.stream.first_step, app.followed.main.stream.last_step
        assert first is not None and last is not None
        await click(app, pilot, start, y - 4)
        assert app.cursor.at_step == first
        await click(app, pilot, (start + stop) // 2, y - 4)
        assert app.cursor.at_step is not None and abs(app.cursor.at_step - (first + last) / 2) <= 2
        await click(app, pilot, stop, y - 4)
        assert app.cursor.is_live
        await click(app, pilot, start - 3, y - 4)
        assert app.cursor.is_live, "beside the chart there is no step"


async def test_the_wheel_zooms_at_the_pointer_and_scrolls_elsewhere() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        app.carry_out(Push(page := MetricPage("actor/entropy")))
        await pilot.pause()
        y, start, stop = axis_of(app, "└")
        x = start + (stop - start) // 4
        before = page.plots[0]
        await turn(app, pilot, events.MouseScrollUp, x, y - 4)
        await turn(app, pilot, events.MouseScrollUp, x, y - 4)
        after = page.plots[0]
        assert after.zoom.length < before.zoom.length / 2
        under = [one.zoom.first + (one.zoom.length - 1) / 4 for one in (before, after)]
        assert abs(under[0] - under[1]) <= 3, "the step under the pointer stays there"
        for _ in range(4):
            await turn(app, pilot, events.MouseScrollDown, x, y - 4)
        assert page.plots[0].zoom == before.zoom


async def test_a_click_and_the_wheel_on_one_of_many_charts_are_for_all() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "v")
        assert isinstance(app.page, GridPage)
        y, start, _ = axis_of(app, "└")
        await click(app, pilot, start + 10, y - 3)
        at = app.cursor.at_step
        assert at is not None and f"step {at}" in page_text(app).splitlines()[0]
        await click(app, pilot, start + 10 + SIZE[0] // 3, y - 3)
        assert app.cursor.at_step is not None and abs(app.cursor.at_step - at) <= 8
        await turn(app, pilot, events.MouseScrollUp, start + 10, y - 3)
        assert "   steps " in page_text(app).splitlines()[0]


async def drag(app: RltopApp, pilot: Pilot[int], start: int, stop: int, y: int, *, lets_go: bool = True) -> None:
    board = screen_of(app).board
    await pilot.mouse_down(board, offset=(start, y))
    step = 1 if stop > start else -1
    for x in range(start + step, stop + step, step):
        await pilot._post_mouse_events([events.MouseMove], board, offset=(x, y), button=1)
    if lets_go:
        await pilot._post_mouse_events([events.MouseUp, events.Click], board, offset=(stop, y), button=1)
    await pilot.pause()


@pytest.mark.parametrize("is_backwards", [False, True])
async def test_a_stretch_that_is_dragged_over_becomes_the_window(is_backwards: bool) -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        app.carry_out(Push(page := MetricPage("actor/entropy")))
        await pilot.pause()
        y, start, stop = axis_of(app, "└")
        ends = start + (stop - start) // 3, start + 2 * (stop - start) // 3
        await drag(app, pilot, *(ends[::-1] if is_backwards else ends), y - 4, lets_go=False)
        edges = {
            sum(len(one.text) for one in row.line[:number])
            for row in screen_of(app).board.rows[:y]
            for number, piece in enumerate(row.line)
            if piece.role == "cursor" and piece.text in "│┼"
        }
        assert edges == set(ends), "both ends are seen while the button is down"
        await drag(app, pilot, *(ends[::-1] if is_backwards else ends), y - 4)
        zoom = page.plots[0].zoom
        assert abs(zoom.first - 50) <= 2 and abs(zoom.last - 100) <= 2
        assert app.cursor.is_live, "a stretch is no click"
        assert not any(piece.role == "cursor" for row in screen_of(app).board.rows[:y] for piece in row.line)


async def test_a_stretch_that_ends_beside_the_chart_ends_at_its_edge() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "v")
        y, start, _ = axis_of(app, "└")
        await drag(app, pilot, start + 6, start - 3, y - 3)
        assert isinstance(app.page, GridPage)
        zoom = app.page.plots[0].zoom
        assert zoom.first == app.followed.main.stream.first_step and zoom.last < 60
        assert all(plot.zoom == zoom for plot in app.page.plots)


async def test_a_click_on_a_bar_of_the_strip_goes_to_its_step() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        for keys in ((), ("t",)):
            await press(pilot, *keys)
            await pilot.pause()
            board = screen_of(app).board
            bars = [
                (y, link)
                for y, row in enumerate(board.rows)
                for link in row.links
                if link.target.kind is TargetKind.BAR
            ]
            assert {link.target.step for _, link in bars} >= {120, 149, 150}
            y, link = next(one for one in bars if one[1].target.step == 120)
            await click(app, pilot, link.start, y - board.top)
            assert app.cursor.at_step == 120
            assert board.selection.target is None or board.selection.target.kind is not TargetKind.BAR, (
                "keys pass over bars"
            )
            await press(pilot, "L")
