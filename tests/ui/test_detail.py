"""On a wide screen what is selected stands beside the list: later than the list, and only where something is new."""

from __future__ import annotations

from pathlib import Path

import pytest
from screens import RECORDED, app_over, page_text, press, running, screen_of, until, write_rows

from rltop.app.app import RltopApp
from rltop.app.page_screen import DETAIL_CELLS, SETTLED_S
from rltop.resources import DETAILS, load_state
from rltop.rows.rows import Target, TargetKind
from rltop.screen.row_view import RowView

SIZE = (200, 60)


def pane(app: RltopApp) -> str:
    found = list(screen_of(app).query("#detail").results(RowView))
    return "\n".join(found[0].render_line(y).text.rstrip() for y in range(found[0].size.height)) if found else ""


def head(app: RltopApp) -> str:
    return pane(app).partition("\n")[0]


async def test_the_chart_of_the_selected_metric_and_of_what_matters(tmp_path: Path) -> None:
    rows = ({"step": n, "reward": n / 60, "loss": 1 / n, "eval/accuracy": 0.5} for n in range(1, 61))
    async with running(app_over(write_rows(tmp_path / "metrics.jsonl", rows)), SIZE) as (app, pilot):
        await press(pilot, "m", "down")
        await until(pilot, lambda: "vs baseline" in pane(app))
        for _ in range(2):
            target = screen_of(app).board.selection.target
            assert target is not None
            await until(pilot, lambda name=target.name: name.rsplit("/", 1)[-1] in head(app))  # type: ignore[misc]
            await press(pilot, "down")
        await press(pilot, "m")
        screen_of(app).board.select(Target(TargetKind.METRIC, "loss"))
        await until(pilot, lambda: pane(app).count(" median ") == 3)
        assert [name in pane(app) for name in ("loss", "reward", "eval/accuracy")] == [True] * 3


async def test_beside_the_head_of_a_section_stands_its_first_metric(tmp_path: Path) -> None:
    rows = ({"step": n, "actor/alpha": n / 60, "actor/beta": 1 / n} for n in range(1, 61))
    async with running(app_over(write_rows(tmp_path / "metrics.jsonl", rows)), SIZE) as (app, pilot):
        await press(pilot, "m")
        target = screen_of(app).board.selection.target
        assert target is not None and target.kind is TargetKind.SECTION
        await until(pilot, lambda: "actor/alpha" in head(app))
        await press(pilot, "left")
        await until(pilot, lambda: "actor" not in head(app))


async def test_a_key_that_is_held_draws_nothing_beside_the_list() -> None:
    async with running(app_over(RECORDED), SIZE) as (app, pilot):
        await press(pilot, "m", "down")
        await until(pilot, lambda: bool(pane(app)))
        screen, drawn = screen_of(app), 0
        found = next(iter(screen.query("#detail").results(RowView)))
        paint = found.draw

        def count() -> object:
            nonlocal drawn
            drawn += 1
            return paint()

        found.draw = count  # type: ignore[method-assign, assignment]
        for _ in range(12):
            screen.board.action_browse(1)
        await until(pilot, lambda: drawn > 0)
        await pilot.pause(3 * SETTLED_S)
        assert drawn <= 2, "once, and once more where something else of the run has become known meanwhile"
        for _ in range(10):
            before = drawn
            app.draw()
            await pilot.pause(3 * SETTLED_S)
            if drawn == before:
                break
        assert drawn == before, "nothing new has come"


async def test_a_narrow_screen_has_none_and_a_key_hides_it_for_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with running(app_over(RECORDED), (DETAIL_CELLS - 1, 40)) as (app, pilot):
        await pilot.pause(3 * SETTLED_S)
        assert not pane(app)
        await press(pilot, "vertical_line")
        assert load_state(DETAILS) is None, "what cannot be seen is not switched"
        await pilot.resize_terminal(DETAIL_CELLS, 40)
        await until(pilot, lambda: bool(pane(app)))
        narrow = page_text(app)
        await press(pilot, "vertical_line")
        await until(pilot, lambda: not pane(app))
        await pilot.pause()
        assert load_state(DETAILS) == "hidden" and page_text(app) != narrow
        await press(pilot, "t", "m", "down")
        await pilot.pause(3 * SETTLED_S)
        assert not pane(app)
        await press(pilot, "vertical_line")
        await until(pilot, lambda: bool(pane(app)))
        assert load_state(DETAILS) == "shown"


async def test_a_program_that_ends_shows_nothing_more_beside_the_list() -> None:
    app = app_over(RECORDED)
    app.has_details = False
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.has_details = True
        app.exit(0)
        await screen_of(app).draw_detail()
    assert app.return_code == 0


async def test_the_overview_of_the_selected_run(tmp_path: Path) -> None:
    paths = [
        write_rows(tmp_path / f"run{number}.jsonl", ({"step": n, "reward": number * n} for n in range(1, 40)))
        for number in (1, 2)
    ]
    async with running(app_over(*paths), SIZE) as (app, pilot):
        assert app.current_mode == "runs"
        target = screen_of(app).board.selection.target
        assert target is not None
        await until(pilot, lambda: Path(target.name).stem in head(app) and "reward" in pane(app))
        await press(pilot, "down")
        other = screen_of(app).board.selection.target
        assert other is not None and other != target
        await until(pilot, lambda: Path(other.name).stem in head(app))
        assert app.followed.path.raw in (target.name, other.name), "nothing was opened"
