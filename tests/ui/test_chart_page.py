"""A metric's chart: its window and statistics, its axes, its range, its smoothing, with real files and keys."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from screens import app_over, page_text, press, running, screen_of, status_text, write_rows
from textual.pilot import Pilot

from rltop.pages.metric import MetricPage
from rltop.pages.page import Push

SIZE = (120, 44)
REWARD = "critic/rewards/mean"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """400 steps of veRL: the reward is 0.2 but for 0.9 at 120 and 0.1 at 310; steps get longer; four epochs."""
    path = tmp_path / "run" / "metrics.jsonl"
    path.parent.mkdir()
    rows = (
        {
            "step": n,
            "data": {
                REWARD: {120: 0.9, 310: 0.1}.get(n, 0.2),
                "actor/entropy": 1.0 + (n % 7) / 10,
                "actor/grad_norm": 0.5,
                "actor/none": 0.0,
                "actor/pg_clipfrac": 0.01,
                "actor/pg_loss": -0.1,
                "timing_s/step": 10.0 + n,
                "training/epoch": (n - 1) // 100,
                "perf/total_num_tokens": 1000.0 * n,
            },
        }
        for n in range(1, 401)
    )
    return write_rows(path, rows)


async def open_chart(app, pilot: Pilot[int], key: str = REWARD) -> None:  # type: ignore[no-untyped-def]
    await pilot.pause()
    app.carry_out(Push(MetricPage(key)))
    await pilot.pause()


async def go(pilot: Pilot[int], text: str) -> None:
    await press(pilot, "colon", *("minus" if one == "-" else one for one in text), "enter")


def number(text: str, name: str) -> str:
    """What the table of numbers says behind a name."""
    line = next((line for line in text.splitlines() if re.match(rf" +{name} ", line)), None)
    assert line is not None, text
    return line[: SIZE[0] * 2 // 5].strip()


def ends(text: str) -> tuple[str, str]:
    """The first and the last label under the chart."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if "└" in line)
    labels = re.split(r" {2,}", lines[at + 1].strip())
    return labels[0], labels[-1]


async def test_extremes_carry_their_steps_and_a_reward_its_best_one(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await open_chart(app, pilot)
        text = page_text(app)
        assert number(text, "max").endswith("step 120")
        assert number(text, "min").endswith("step 310")
        assert number(text, "best").endswith("  step 120")
        assert "of 400 values" in number(text, "mean")
        await open_chart(app, pilot, "actor/pg_clipfrac")
        assert "1.0 %" in number(page_text(app), "last") and "always between 0 % and 100 %" in page_text(app)
        await open_chart(app, pilot, "actor/entropy")
        assert not re.search(r"^ +best ", page_text(app), re.MULTILINE)


async def test_the_statistics_of_a_window_are_those_of_the_window_and_say_so(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await open_chart(app, pilot)
        await go(pilot, "300-350")
        text = page_text(app)
        assert number(text, "min").endswith("step 310")
        assert number(text, "last shown").endswith("step 350")
        assert number(text, "mean").endswith("of steps 300–350")
        assert number(text, "values").split()[1] == "51"
        assert number(text, "median").endswith("of steps 300–350")
        assert "step 120" not in text
        await press(pilot, "0")
        assert number(page_text(app), "max").endswith("step 120")


async def test_zooming_centres_on_the_step_that_is_shown(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await open_chart(app, pilot)
        await go(pilot, "200")
        await press(pilot, "plus", "plus", "plus")
        found = re.search(r"mean .* of steps (\d+)–(\d+)", page_text(app))
        assert found
        assert abs((int(found[1]) + int(found[2])) / 2 - 200) <= 1


async def test_the_axis_counts_whatever_is_logged(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await open_chart(app, pilot)
        seen = []
        for _ in range(3):
            await press(pilot, "A")
            found = re.search(r" by (.+?)$", page_text(app).splitlines()[0])
            seen.append((found[1] if found else "", ends(page_text(app))))
        named = dict(seen)
        assert list(named)[-1] == "", "all around, it is by step again"
        assert named["tokens"][1] == "80.0M"
        assert float(named["epoch"][1]) >= 3
        assert ends(page_text(app))[1] == "400"


async def test_a_run_that_logs_only_steps_says_so(tmp_path: Path) -> None:
    app = app_over(write_rows(tmp_path / "m.jsonl", ({"step": n, "loss": 1.0 / n} for n in range(1, 50))))
    async with app.run_test(size=SIZE) as pilot:
        await open_chart(app, pilot, "loss")
        await press(pilot, "A")
        assert "only steps are logged" in status_text(app)
        await press(pilot, "ctrl+l")
        assert "by step, log scale" in page_text(app)
        at = [line for line in page_text(app).splitlines() if re.fullmatch(r" *1 .*10 .*", line)]
        assert at, page_text(app)


async def test_the_range_of_values_is_kept_until_it_is_let_go(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await open_chart(app, pilot)
        await press(pilot, "f")
        await go(pilot, "300-350")
        assert "range locked" in page_text(app)
        assert re.search(r"^ *80(\.0)? %|^ *0\.80?[┤ ]", page_text(app), re.MULTILINE)
        await press(pilot, "f")
        assert "range locked" not in page_text(app)
        assert not re.search(r"^ *80(\.0)? %|^ *0\.80?[┤ ]", page_text(app), re.MULTILINE)
        app.carry_out(Push(MetricPage("actor/none")))
        await pilot.pause()
        free = page_text(app)
        await press(pilot, "f")
        assert page_text(app).replace("   range locked", "") == free, "of a curve at zero too"
        await press(pilot, "escape", "l", "f")
        assert "log scale" in page_text(app) and "range locked" in page_text(app)


async def test_the_smoothing_is_adjusted_and_never_hides_the_newest_value(run: Path) -> None:
    async with running(app_over(run), (160, 44)) as (app, pilot):
        await open_chart(app, pilot)
        assert "smoothed " in page_text(app).splitlines()[1]
        await press(pilot, "right_square_bracket")
        assert "smoothed over 20" in page_text(app)
        rows = screen_of(app).board.rows
        assert any(piece.text.endswith("●") and piece.role == "value" for row in rows[2:] for piece in row.line)
        await press(pilot, *["right_square_bracket"] * 3)
        assert "most smoothing" in status_text(app)
        await press(pilot, *["left_square_bracket"] * 6)
        assert "least smoothing" in status_text(app)


async def test_the_cursor_says_value_smoothed_value_and_time(tmp_path: Path) -> None:
    rows = ({"step": n, "time": 1.7e9 + 60 * n, "reward": 0.5 + (n == 200)} for n in range(1, 401))
    async with running(app_over(write_rows(tmp_path / "m.jsonl", rows)), SIZE) as (app, pilot):
        await open_chart(app, pilot, "reward")
        await go(pilot, "200")
        legend = page_text(app).splitlines()[1]
        found = re.search(r"│ step 200: 1\.50, smoothed 0\.\d+, 15 Nov 01:33 UTC, after 3 h 19 m", legend)
        assert found, legend
        board = screen_of(app).board
        assert [piece.text for row in board.rows for piece in row.line if piece.role == "cursor"].count("┼") == 1


async def test_keys_that_cannot_act_say_why(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await open_chart(app, pilot)
        for keys, says in (
            (["0"], "whole run is shown"),
            (["minus"], "whole run is shown"),
            (["left"], "zoom in first"),
            (["plus"] * 9, "as near as it gets"),
            (["right"], "newest steps"),
            (["l", "f", "f"], ""),
        ):
            await press(pilot, *keys)
            assert says in status_text(app), keys
