from __future__ import annotations

import json
from pathlib import Path

import pytest
from screens import NO_THEMES, RECORDED, app_over, page_text, press, session_over, status_text, write_rows

from rltop import resources
from rltop.app.app import RltopApp
from rltop.app.bindings import CONTEXTS, binding_ids
from rltop.app.commands import RltopCommands
from rltop.app.options import UiOptions
from rltop.app.page import Page
from rltop.app.screens.help import HelpScreen
from rltop.app.screens.metric import MetricScreen
from rltop.app.screens.overview import OverviewScreen
from rltop.app.screens.rollouts import RolloutsScreen
from rltop.app.screens.timing import TimingScreen
from rltop.app.screens.tree import TreeScreen
from rltop.app.screens.verdict import VerdictScreen
from rltop.catalog.families import family_index
from rltop.errors import ConfigError
from rltop.model import VerdictState
from rltop.pages.header import body_height
from rltop.rows.rows import Target, TargetKind

WIDE = (120, 40)


def rows(count: int, start: int = 1, **more: float) -> list[dict[str, object]]:
    return [
        {"step": step, "loss": 1.0 / step, "reward": 0.5 + step / 1000, "grad_norm": 1.0, **more}
        for step in range(start, start + count)
    ]


@pytest.mark.parametrize("size", [(40, 12), (60, 15), (80, 24), (120, 40), (200, 60)])
async def test_every_page_fits_every_size(size: tuple[int, int]) -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=size) as pilot:
        for keys in ((), ("t",), ("m",), ("escape", "a"), ("escape", "question_mark")):
            await press(pilot, *keys)
            assert isinstance(app.screen, Page)
            assert "too small" not in page_text(app)
            assert page_text(app).strip()


@pytest.mark.parametrize("size", [(39, 20), (60, 11), (12, 4), (1, 1)])
async def test_below_the_least_size_it_says_so(size: tuple[int, int]) -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=size):
        assert app.is_running
        if size[0] >= 12:
            assert "40x12" in page_text(app)


@pytest.mark.parametrize("height", [12, 15, 16, 24, 60])
async def test_the_board_has_the_height_that_the_early_frame_takes(height: int) -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(80, height)):
        assert isinstance(app.screen, Page)
        assert app.screen.board.size.height == body_height(height)


async def test_the_overview_is_first_and_shows_true_values() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE):
        assert isinstance(app.screen, OverviewScreen)
        text = page_text(app)
        assert "veRL" in text and "GRPO" in text and "150" in text
        assert "actor/kl_loss" in text and "2.91" in text


async def test_enter_goes_in_and_escape_comes_back() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        app.screen.board.select(Target(TargetKind.METRIC, "actor/kl_loss"))  # type: ignore[attr-defined]
        await press(pilot, "enter")
        assert isinstance(app.screen, MetricScreen) and "KL to reference" in page_text(app)
        await press(pilot, "a")
        assert isinstance(app.screen, VerdictScreen) and "rule O11" in page_text(app)
        await press(pilot, "question_mark")
        assert isinstance(app.screen, HelpScreen)
        await press(pilot, "escape", "escape", "escape")
        assert isinstance(app.screen, OverviewScreen)
        await press(pilot, "escape")
        assert isinstance(app.screen, OverviewScreen) and app.is_running


async def test_every_kind_of_target_opens_its_page() -> None:
    app = app_over(RECORDED)
    expected = {
        TargetKind.METRIC: (MetricScreen, "actor/entropy"),
        TargetKind.VERDICT: (VerdictScreen, "P1"),
        TargetKind.TIMING: (TimingScreen, "gen"),
        TargetKind.STRAGGLERS: (RolloutsScreen, ""),
        TargetKind.SECTION: (TreeScreen, "actor"),
        TargetKind.STEP: (TimingScreen, ""),
    }
    async with app.run_test(size=WIDE) as pilot:
        for kind, (page, name) in expected.items():
            app.open(Target(kind, name, 100 if kind is TargetKind.STEP else None))
            await pilot.pause()
            assert isinstance(app.screen, page), kind
            assert not isinstance(app.screen, OverviewScreen)
            app.action_live()
            await press(pilot, "escape")


async def test_on_the_timing_page_a_stage_opens_its_chart_and_a_step_is_shown() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t")
        page = app.screen
        assert isinstance(page, TimingScreen)
        page.open(Target(TargetKind.STEP, step=100))
        await pilot.pause()
        assert app.screen is page and app.moment.at_step == 100 and "STEP 100" in page_text(app)
        page.open(Target(TargetKind.TIMING, "timing_s/gen", 100))
        await pilot.pause()
        assert isinstance(app.screen, MetricScreen) and app.screen.key == "timing_s/gen"


async def test_alerts_go_from_one_verdict_to_the_next() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        rules = [verdict.rule for verdict in app.followed.verdicts]
        seen = []
        for _ in rules:
            await press(pilot, "a")
            assert isinstance(app.screen, VerdictScreen)
            seen.append(app.screen.rule)
        assert seen == rules
        await press(pilot, "escape")
        assert isinstance(app.screen, OverviewScreen)


async def test_modes_and_quitting() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t")
        assert isinstance(app.screen, TimingScreen) and "gen" in page_text(app)
        await press(pilot, "m")
        assert isinstance(app.screen, TreeScreen)
        await press(pilot, "escape")
        assert isinstance(app.screen, OverviewScreen)
        await press(pilot, "q")
    assert app.return_code == 0


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+q"])
async def test_control_c_quits_even_from_the_filter(key: str) -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "slash", key)
    assert app.return_code == 0


# -- the list of all metrics -----------------------------------------------------------------------------------------


async def test_the_filter_narrows_as_one_types_and_escape_clears_it() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "slash", *"kl_lo")
        assert "actor/kl_loss" in status_text(app) or "kl_loss" in page_text(app)
        assert "match kl_lo" in page_text(app) and "entropy" not in page_text(app)
        await press(pilot, "enter", "down")
        assert isinstance(app.screen, TreeScreen)
        await press(pilot, "escape")
        assert isinstance(app.screen, TreeScreen) and "match" not in page_text(app)
        await press(pilot, "escape")
        assert isinstance(app.screen, OverviewScreen)


async def test_from_the_filter_to_the_chart() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "slash", *"actor/entropy", "enter", "enter")
        assert isinstance(app.screen, MetricScreen) and app.screen.key == "actor/entropy"
        await press(pilot, "escape")
        assert isinstance(app.screen, TreeScreen)


async def test_sections_fold_and_unfold() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "m")
        assert isinstance(app.screen, TreeScreen)
        shown = page_text(app)
        await press(pilot, "left")
        folded = page_text(app)
        assert folded != shown and app.screen.board.target is not None
        assert app.screen.board.target.kind is TargetKind.SECTION
        await press(pilot, "right")
        assert page_text(app) == shown
        await press(pilot, "z")
        assert all(hot.target.kind is TargetKind.SECTION for row in app.screen.board.rows for hot in row.hot)
        await press(pilot, "z", "home")
        assert page_text(app) == shown


async def test_the_list_scrolls_through_every_metric() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(80, 24)) as pilot:
        await press(pilot, "m")
        board = app.screen.board  # type: ignore[attr-defined]
        seen = {board.target}
        for _ in range(400):
            board.action_down()
            if board.target in seen:
                break
            seen.add(board.target)
        keys = {target.name for target in seen if target.kind is TargetKind.METRIC}
        logged = app.followed.stream.keys
        families = family_index(tuple(logged))
        assert keys == {families[key].main.key if key in families else key for key in logged}
        await press(pilot, "home")
        assert page_text(app).startswith(" METRICS")


# -- the chart ---------------------------------------------------------------------------------------------------------


async def test_the_chart_zooms_pans_and_changes_its_scale(tmp_path: Path) -> None:
    app = app_over(write_rows(tmp_path / "metrics.jsonl", rows(400)))
    async with app.run_test(size=WIDE) as pilot:
        app.open(Target(TargetKind.METRIC, "loss"))
        await pilot.pause()
        whole = page_text(app)
        assert "smoothed" in whole and "log scale" not in whole
        await press(pilot, "l")
        assert "log scale" in page_text(app)
        await press(pilot, "l", "s")
        assert "smoothed" not in page_text(app)
        await press(pilot, "s", "plus", "plus")
        zoomed = page_text(app)
        assert " 100" not in zoomed.splitlines()[22] and "400" in zoomed
        await press(pilot, "left")
        assert page_text(app) != zoomed
        await press(pilot, "right", "right")
        assert page_text(app) == zoomed
        await press(pilot, "0")
        assert page_text(app) == whole


async def test_the_chart_draws_the_extremes_around_the_mean_or_leaves_them_out(tmp_path: Path) -> None:
    banded = [(step, {"x/mean": 1.0, "x/max": 9.0, "x/min": 0.0}) for step in range(1, 60)]
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps({"step": step, **row}) + "\n" for step, row in banded))
    app = app_over(path)
    async with app.run_test(size=WIDE) as pilot:
        app.open(Target(TargetKind.METRIC, "x/mean"))
        await pilot.pause()
        whole = page_text(app)
        assert "min … max" in whole and "statistics of x" in whole
        await press(pilot, "b")
        assert "min … max" not in page_text(app)
        await press(pilot, "b")
        assert page_text(app) == whole


# -- keys --------------------------------------------------------------------------------------------------------------


async def test_a_keymap_moves_a_key() -> None:
    app = app_over(RECORDED, options=UiOptions(keymap={"timing": "y"}, themes_folder=NO_THEMES))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "t")
        assert isinstance(app.screen, OverviewScreen)
        await press(pilot, "y")
        assert isinstance(app.screen, TimingScreen)
        await press(pilot, "question_mark")
        assert "  y  " in page_text(app)


def test_an_unknown_action_in_the_keymap_is_refused() -> None:
    with pytest.raises(ConfigError, match="dance"):
        RltopApp(session_over(RECORDED), UiOptions(keymap={"dance": "d"}, themes_folder=NO_THEMES))


def test_every_binding_has_an_id_of_its_own_and_a_tooltip() -> None:
    every = [binding for bindings in CONTEXTS.values() for binding in bindings]
    assert all(binding.id and binding.tooltip and binding.description for binding in every)
    assert len(binding_ids()) == len(every)


async def test_the_palette_finds_metrics_verdicts_themes_and_actions() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        for typed, page in (
            ("clipfrac", MetricScreen),
            ("reward crash", VerdictScreen),
            ("where the time", TimingScreen),
        ):
            await press(pilot, "ctrl+p")
            await pilot.press(*("space" if character == " " else character for character in typed))
            await pilot.pause(0.3)
            await press(pilot, "down", "enter")
            await pilot.pause(0.2)
            assert isinstance(app.screen, page), typed
            await press(pilot, "escape")
        await press(pilot, "ctrl+p")
        await pilot.press(*"terminal")
        await pilot.pause(0.3)
        await press(pilot, "down", "enter")
        await pilot.pause(0.2)
        assert app.palette.name == "terminal"


async def test_a_page_that_goes_on_below_says_so() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(80, 24)) as pilot:
        assert "more" not in status_text(app)
        app.open(Target(TargetKind.METRIC, "actor/entropy"))
        await pilot.pause()
        board = app.page.board if app.page is not None else None
        assert board is not None and board.below
        assert f"↓ {board.below} more" in status_text(app)
        await press(pilot, "end")
        await pilot.pause()
        assert not board.below and "more" not in status_text(app)


async def test_the_palette_says_of_a_verdict_whether_it_still_fires(tmp_path: Path) -> None:
    lines = (resources.folder("fixtures") / "trl" / "grpo_straggler" / "metrics.jsonl").read_text().splitlines()
    path = tmp_path / "metrics.jsonl"
    path.write_text("\n".join(lines[:231]) + "\n")
    app = app_over(path)
    async with app.run_test(size=WIDE) as pilot:
        await pilot.pause()
        offered = {hit.text async for hit in RltopCommands(app.screen).discover()}
        recovered = [one for one in app.shown_verdicts if one.state is VerdictState.RECOVERED]
        assert recovered and len(recovered) < len(app.shown_verdicts)
        for verdict in app.shown_verdicts:
            how = f"recovered @{verdict.recovered_step}" if verdict in recovered else verdict.level.word
            assert f"verdict: {verdict.title} ({how}, rule {verdict.rule})" in offered


# -- runs and files ----------------------------------------------------------------------------------------------------


async def test_an_empty_file_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.touch()
    app = app_over(path)
    async with app.run_test(size=(80, 24)) as pilot:
        assert page_text(app).strip()
        for key in ("comma", "t", "m", "escape", "a", "space", "space", "enter", "L"):
            await press(pilot, key)
        assert app.is_running
        write_rows(path, rows(3))
        app.session.step(1000)
        app.draw()
        assert "step 3" in page_text(app)


async def test_text_from_outside_cannot_leave_its_cells(tmp_path: Path) -> None:
    evil = "evil/\x1b[2J\u202e[bold]x[/]"
    app = app_over(write_rows(tmp_path / "metrics.jsonl", [{"step": i, evil: i, "loss": 1.0} for i in range(1, 30)]))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "slash", *"evil", "enter")
        assert "\\x1b[2J\\u202e[bold]x[/]" in page_text(app) + status_text(app)
        await press(pilot, "enter")
        assert isinstance(app.screen, MetricScreen) and "\x1b" not in page_text(app)
        await press(pilot, "ctrl+p")
        await pilot.press(*"evil")
        await pilot.pause(0.3)
        assert app.is_running


async def test_a_chart_opens_at_its_top_however_small_the_screen() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(40, 12)) as pilot:
        app.screen.board.select(Target(TargetKind.METRIC, "actor/kl_loss"))  # type: ignore[attr-defined]
        await press(pilot, "enter")
        assert isinstance(app.screen, MetricScreen) and app.screen.board.top == 0
        assert "KL to reference" in page_text(app)
        await press(pilot, "down")
        assert app.screen.board.top <= 1


async def test_a_timer_that_comes_when_the_last_screen_is_gone_is_no_trouble() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        screens, app._screen_stacks[app.current_mode] = app._screen_stacks[app.current_mode], []
        app._offered = ()
        app._settle()
        app._screen_stacks[app.current_mode] = screens
