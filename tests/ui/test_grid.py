"""The page of charts, with a recorded run and with marked ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from screens import RECORDED, app_over, page_text, press, running, screen_of, status_text, write_rows

from rltop.app.app import RltopApp
from rltop.pages.metric import MetricPage
from rltop.pages.overlay import GridPage
from rltop.pages.overview import OverviewPage
from rltop.rows.rows import TargetKind


def title(app: RltopApp) -> str:
    return page_text(app).splitlines()[0]


def shown(app: RltopApp) -> list[str]:
    """The keys of the charts, in order."""
    links = [link for row in screen_of(app).board.rows for link in row.links]
    return [link.target.name for link in links if link.target.kind is TargetKind.METRIC]


@pytest.mark.parametrize(("size", "shape"), [((80, 24), (2, 2)), ((120, 40), (3, 3)), ((200, 60), (4, 4))])
async def test_as_many_charts_as_fit_well_are_shown(size: tuple[int, int], shape: tuple[int, int]) -> None:
    async with running(app_over(RECORDED), size) as (app, pilot):
        await press(pilot, "v")
        assert isinstance(app.page, GridPage)
        assert f"{shape[0]} × {shape[1]}" in title(app)
        assert len(shown(app)) == shape[0] * shape[1]
        axes = [line for line in page_text(app).splitlines() if "└" in line]
        assert [line.count("└") for line in axes] == [shape[0]] * shape[1]
        await press(pilot, "v")
        assert isinstance(app.page, OverviewPage)


@pytest.mark.parametrize("size", [(160, 45), (200, 60)])
async def test_few_charts_have_the_whole_page(size: tuple[int, int], tmp_path: Path) -> None:
    rows = [{"step": step, **{f"my/{name}": step % 7 for name in "abcdefghi"}} for step in range(1, 40)]
    async with running(app_over(write_rows(tmp_path / "metrics.jsonl", rows)), size) as (app, pilot):
        await press(pilot, "v")
        number = len(shown(app))
        axes = [at for at, line in enumerate(page_text(app).splitlines()) if "└" in line]
        assert len(axes) == -(-number // page_text(app).splitlines()[axes[0]].count("└"))
        # Below the axis of the last row stand its steps, and at most what no row could share.
        assert screen_of(app).board.size.height - axes[-1] <= 2 + len(axes)


async def test_the_next_charts_are_others_and_the_last_ones_say_so() -> None:
    async with running(app_over(RECORDED), (80, 24)) as (app, pilot):
        await press(pilot, "v")
        first = shown(app)
        await press(pilot, "left_square_bracket")
        assert "first charts" in status_text(app)
        await press(pilot, "right_square_bracket")
        assert not set(shown(app)) & set(first)
        assert title(app).startswith(" CHARTS  5–8 of ")
        await press(pilot, *["right_square_bracket"] * 12)
        assert "last charts" in status_text(app)
        await press(pilot, *["left_square_bracket"] * 12)
        assert shown(app) == first


async def test_more_and_fewer_charts_as_far_as_there_is_room() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        await press(pilot, "v", "plus")
        assert "4 × 3" in title(app)
        await press(pilot, "plus")
        assert "room for 1 to 4" in status_text(app)
        await press(pilot, "minus", "minus", "minus", "w")
        assert "1 × 4" in title(app)
        await press(pilot, "minus")
        assert "room for 1 to 4" in status_text(app)
        await press(pilot, "w")
        assert "1 × 1" in title(app)


async def test_one_cursor_and_one_window_for_all() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        await press(pilot, "v", "comma", "comma")
        at = app.cursor.at_step
        assert at is not None and f"step {at}" in title(app)
        cursors = [
            piece
            for row in screen_of(app).board.rows
            for piece in row.line
            if piece.role == "cursor" and "│" in piece.text
        ]
        assert len(cursors) >= 9
        await press(pilot, "colon", "5", "0", "minus", "9", "0", "enter")
        assert "steps 50–90" in title(app)
        lines = page_text(app).splitlines()
        labels = [int(one) for y, line in enumerate(lines) if "└" in line for one in lines[y + 1].split()]
        assert len(labels) >= 9 and all(50 <= one <= 90 for one in labels)
        await press(pilot, "0")
        assert "steps 50–90" not in title(app)
        await press(pilot, "0")
        assert "whole run" in status_text(app)


async def test_enter_opens_the_selected_chart() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        await press(pilot, "v", "j")
        target = screen_of(app).board.selection.target
        assert target is not None
        await press(pilot, "enter")
        assert isinstance(app.page, MetricPage) and app.page.key == target.name


async def test_every_chart_has_the_marked_runs(tmp_path: Path) -> None:
    paths = []
    for number in (1, 2):
        path = tmp_path / f"grpo-run{number}-seed" / "metrics.jsonl"
        path.parent.mkdir()
        keys = ("critic/rewards/mean", "actor/entropy", "actor/grad_norm")
        rows = ({"step": n, "data": dict.fromkeys(keys, number + n / 100)} for n in range(1, 60))
        paths.append(write_rows(path, rows))
    async with running(app_over(*paths), (120, 40)) as (app, pilot):
        app.marked = [str(path) for path in paths]
        await press(pilot, "enter", "v")
        assert "1 grpo-run1-seed  2 grpo-run2-seed" in page_text(app).splitlines()[1], "there is room for all of it"
        signs = [piece for row in screen_of(app).board.rows[1:] for piece in row.line if piece.role == "stage-1"]
        assert len([one for one in signs if "2" in one.text]) >= 3


async def test_charts_of_several_runs_have_the_same_steps(tmp_path: Path) -> None:
    ends = {"first": 60, "second": 400}
    rows = {
        name: [{"step": n, "reward": n / 9, "loss": 1 / n, "kl": n / 7} for n in range(1, end)]
        for name, end in ends.items()
    }
    app = app_over(*(write_rows(tmp_path / f"{name}.jsonl", each) for name, each in rows.items()))
    async with running(app, (120, 40)) as (_, pilot):
        await press(pilot, "v")
        assert isinstance(app.page, GridPage)
        spans = {(plot.span, plot.zoom) for plot in app.page.plots}
        assert len(app.page.plots) > 2 and len(spans) == 1
        assert app.page.plots[0].zoom.last == 399
        assert {len(plot.series) for plot in app.page.plots} == {2}
        screen_of(app).carry_out(app.page.show_window(20, 50, app.moment))
        await pilot.pause()
        assert {(plot.zoom.first, plot.zoom.last) for plot in app.page.plots} == {(20, 50)}
