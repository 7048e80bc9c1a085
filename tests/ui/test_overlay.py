"""Several metrics in one chart: marked or named, on one axis or two, by step or tokens, with a recorded run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from screens import RECORDED, app_over, page_text, press, running, screen_of, status_text, write_rows
from textual.pilot import Pilot

from rltop import units
from rltop.app.app import RltopApp
from rltop.model import Unit
from rltop.pages.chart_axes import axes_of
from rltop.pages.metric import MetricPage
from rltop.pages.overlay import OverlayPage, sides_of
from rltop.pages.overview import OverviewPage
from rltop.pages.page import Push
from rltop.rows.rows import Target, TargetKind

SIZE = (120, 40)


async def typed(pilot: Pilot[int], text: str) -> None:
    names = {" ": "space", ",": "comma", "-": "minus", "/": "slash", "_": "underscore"}
    await press(pilot, *(names.get(one, one) for one in text), "enter")


def rows_of(app: RltopApp) -> dict[str, str]:
    """The rows of the table by their letter."""
    lines = page_text(app).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith(" NUMBERS"))
    return {line.split()[0]: line for line in lines[at + 2 :] if line.strip()}


async def test_two_metrics_by_tokens_take_four_keys() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "o")
        await typed(pilot, "reward, entropy by tokens")
        assert isinstance(app.page, OverlayPage)
        lines = page_text(app).splitlines()
        assert "2 metrics   by tokens" in lines[0]
        assert re.search(r"A reward \S+ \(left\)   B entropy \S+ nats \(right\)", lines[1])
        rows = rows_of(app)
        assert "critic/score/mean" in rows["A"] and "actor/entropy" in rows["B"]
        assert re.search(r"@\d+", rows["A"]) and "nats" in rows["B"]
        signs = {piece.text for row in screen_of(app).board.rows[2:26] for piece in row.line if piece.text in "AB"}
        assert signs == {"A", "B"}


async def test_metrics_with_the_same_title_are_told_apart_by_their_keys(tmp_path: Path) -> None:
    keys = ("rewards/math_reward/mean", "rewards/code_reward/mean", "entropy")
    rows = [{"step": i, "reward": 0.5, "reward_std": 0.1, **dict.fromkeys(keys, 0.1 * i)} for i in range(1, 40)]
    async with running(app_over(write_rows(tmp_path / "metrics.jsonl", rows)), SIZE) as (app, pilot):
        await press(pilot, "o")
        await typed(pilot, "math_reward, code_reward, entropy")
        assert all(
            re.search(rf"{name} ", rows_of(app)[sign]) for sign, name in (("A", "math_reward"), ("B", "code_reward"))
        )
        assert re.search(
            r"A reward component math_reward .*B reward component code_reward ", page_text(app).splitlines()[1]
        )


async def test_space_marks_metrics_and_pauses_nowhere() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        for key in ("critic/score/mean", "actor/entropy"):
            screen_of(app).board.select(Target(TargetKind.METRIC, key))
            await press(pilot, "space")
        assert "marked as B" in status_text(app)
        lines = page_text(app).splitlines()
        assert any(re.match(r"A..reward ", line) for line in lines) and any(
            re.match(r"B..entropy ", line) for line in lines
        )
        await press(pilot, "o")
        assert isinstance(app.page, OverlayPage) and len(app.page.targets) == 2
        await press(pilot, "escape", "space")
        assert "unmarked; 1 still marked" in status_text(app)
        assert app.cursor.is_live
        await press(pilot, "home", "space")
        assert app.cursor.is_live and "no metric is selected" in status_text(app)


async def test_a_metric_gets_company_in_its_chart() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        app.carry_out(Push(MetricPage("actor/entropy")))
        await press(pilot, "A", "o")
        await typed(pilot, "kl to reference")
        assert isinstance(app.page, OverlayPage)
        assert "by tokens" in page_text(app).splitlines()[0], "the axis is that of the chart before"
        assert "(right)" in page_text(app), "on one axis the KL would be flat beside the entropy"
        await press(pilot, "o")
        await typed(pilot, "length")
        assert isinstance(app.page, OverlayPage) and len(app.page.targets) == 3
        await press(pilot, "o")
        await typed(pilot, "truncated")
        assert "not drawn: D: two axes for 3 units (nats, tok, %)" in page_text(app)
        assert "not drawn" in rows_of(app)["D"]
        await press(pilot, "escape")
        assert isinstance(app.page, MetricPage)


async def test_window_cursor_smoothing_and_scale_are_those_of_every_chart() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "o")
        await typed(pilot, "entropy and grad_norm")
        page = app.page
        assert isinstance(page, OverlayPage)
        whole = page.plots[0]
        await press(pilot, "s")
        smooth, rough = (axes_of(plot, 80, 20) for plot in (whole, page.plots[0]))
        assert smooth is not None and rough is not None and whole.series != page.plots[0].series
        assert (smooth.low, smooth.high, smooth.right) == (rough.low, rough.high, rough.right)
        await press(pilot, "s", "colon")
        await typed(pilot, "50-90")
        assert "of steps 50–90" in page_text(app)
        for name, signal in (("A", "actor/entropy"), ("B", "actor/grad_norm")):
            last = app.followed.main.stream.latest(signal, 90)
            assert last is not None and units.number(last.value)[:4] in next(
                line for line in page_text(app).splitlines() if line.startswith(f" {name} ") and " @" in line
            )
        await press(pilot, "colon")
        await typed(pilot, "70")
        text = page_text(app)
        assert "│ step 70" in text and "@70" in text
        assert any(p.role == "cursor" and "│" in p.text for row in screen_of(app).board.rows[2:] for p in row.line)
        before = page.plots[0]
        await press(pilot, "right_square_bracket", "l", "f")
        after = page.plots[0]
        assert after.is_log and len(after.locked) == 2 and all(after.locked)
        assert before.series[0].curve.values != after.series[0].curve.values
        await press(pilot, "b")
        assert "no band" in status_text(app)
        await press(pilot, "0", "0")
        assert "whole run is shown" in status_text(app)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("entropi, reward", "did you mean entropy?"),
        ("reward, entropy by lunch", "by lunch? There are step, time, tokens"),
        ("reward", "name two metrics or more"),
        ("reward, entropy by clock", "does not log wall time (UTC): the chart is by step"),
    ],
)
async def test_what_cannot_be_drawn_is_said(text: str, says: str) -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "o")
        await typed(pilot, text)
        assert says in status_text(app)
        assert isinstance(app.page, OverlayPage if "by step" in says else OverviewPage)


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (200, 60)])
async def test_every_size_has_room_for_chart_and_numbers(size: tuple[int, int]) -> None:
    async with running(app_over(RECORDED), size) as (app, pilot):
        await press(pilot, "o")
        await typed(pilot, "reward, entropy")
        lines = page_text(app).splitlines()
        assert all(len(line) <= size[0] for line in lines)
        assert any("└" in line for line in lines)
        # What there is no room for is scrolled to.
        rows = [row.text for row in screen_of(app).board.rows]
        assert any(row.startswith(" A  reward") for row in rows) and any(row.startswith(" B  entropy") for row in rows)


def test_units_decide_on_the_axes_and_of_one_unit_whether_a_curve_would_be_pressed_flat() -> None:
    none, nats, tokens = Unit.NONE, Unit.NATS, Unit.TOKENS
    small, great, off, level = (0.0, 1.0), (0.0, 100.0), (99.0, 100.0), (50.0, 50.0)
    assert sides_of([nats, tokens, nats], [small] * 3) == [False, True, False]
    assert sides_of([nats, tokens, none], [small] * 3) == [False, True, None]
    for unit in (none, nats):
        assert sides_of([unit] * 2, [small, (0.0, 4.0)]) == [False, False]
        assert sides_of([unit] * 2, [small, great]) == [False, True]
        assert sides_of([unit] * 2, [great, small]) == [False, True]
        assert sides_of([unit] * 3, [small, off, small]) == [False, True, False]
        assert sides_of([unit] * 2, [great, level]) == [False, False]


async def test_a_click_on_a_head_sorts_the_numbers_and_letters_stay() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "o")
        await typed(pilot, "reward, entropy")
        board = screen_of(app).board
        heads = [
            (y, link) for y, row in enumerate(board.rows) for link in row.links if link.target.kind is TargetKind.HEAD
        ]
        y, link = next(one for one in heads if one[1].target.name.startswith("metric"))
        await pilot.click(board, offset=(link.start, y - board.top))
        await pilot.pause()
        lines = page_text(app).splitlines()
        assert {line[1] for line in lines[y + 1 : y + 3]} == {"A", "B"}
        assert isinstance(app.page, OverlayPage) and app.page.sorting is not None
        app.cursor.show(70)
        await pilot.pause()
        assert set(rows_of(app)) >= {"A", "B"}


async def test_a_mark_touches_no_word() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        board = screen_of(app).board
        heads = [row for row in board.rows if "".join(text for text, _ in row.line).startswith(" STRAGGLERS")]
        board.select(next(link.target for link in heads[0].links if link.target.kind is TargetKind.METRIC))
        await press(pilot, "space")
        assert "marked as A" in status_text(app)
        assert any(line.startswith(" STRAGGLERS") for line in page_text(app).splitlines())
