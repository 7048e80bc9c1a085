"""Keys that arrive in one go, as they do over a link that lags, do what they do one by one."""

from __future__ import annotations

import asyncio
import time

import pytest
from screens import RECORDED, app_over, page_text, running, screen_of, status_text, until
from textual import events
from textual.pilot import Pilot

from rltop.app.app import RltopApp
from rltop.app.commands import RltopPalette
from rltop.app.page_screen import MAX_FILTER_CHARS
from rltop.pages.metric import MetricPage
from rltop.pages.metrics import MetricsPage
from rltop.pages.overview import OverviewPage
from rltop.pages.timing import TimingPage


def type_ahead(app: RltopApp, *keys: str) -> None:
    """Put all keys into the queue before the first of them is looked at."""
    for key in keys:
        named = {"slash": "/", "enter": "\r", "comma": ","}
        app.post_message(events.Key(key, named.get(key, key if len(key) == 1 else None)))


async def until_filtering(pilot: Pilot[int], app: RltopApp) -> None:
    """Wait until the key has done its work; while a page is mounted Textual may give its hidden field the focus."""
    await until(pilot, lambda: isinstance(app.page, MetricsPage))
    await until(pilot, lambda: bool(screen_of(app).filter.display) and screen_of(app).is_typing)


async def test_a_filter_is_typed_confirmed_and_its_match_opened() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "slash", *"clipfrac", "enter", "enter")
        await until(pilot, lambda: isinstance(app.page, MetricPage) and "actor/pg_clipfrac" in page_text(app))


async def test_and_left_again_all_in_one_go() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        # Out of the chart, of the filter, of the list; `T` says that the last one has been taken.
        before = app.themes.palette.name
        type_ahead(app, "slash", *"clipfrac", "enter", "enter", "escape", "escape", "escape", "T")
        await until(pilot, lambda: app.themes.palette.name != before)
        assert isinstance(app.page, OverviewPage)


async def test_no_key_meant_for_the_filter_does_what_it_does_elsewhere() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "m", "slash", *"TqacTL")
        await until(pilot, lambda: isinstance(app.page, MetricsPage) and screen_of(app).filter.value == "TqacTL")


async def test_pages_are_opened_and_left_in_order() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "t", "comma", "comma", "L", "m", "escape", "t", "comma")
        await until(pilot, lambda: isinstance(app.page, TimingPage) and not app.cursor.is_live)


async def test_reading_waits_from_the_moment_a_key_comes_until_the_screen_shows_it() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        board, slices = screen_of(app).board, 0

        def read(budget_ms: float) -> bool:
            nonlocal slices
            slices += 1
            return True

        app.session.step = read  # type: ignore[method-assign]
        app.session.notifier.notify()
        await until(pilot, lambda: slices > 0)
        app.expect_key()
        await asyncio.sleep(0)
        selected, before = board.selection.target, slices
        for _ in range(20):
            await asyncio.sleep(0)
        assert slices == before
        type_ahead(app, "G")
        await until(pilot, lambda: slices > before)
        assert board.selection.target != selected


async def test_a_key_that_nothing_comes_of_does_not_keep_reading_for_long() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        slices = 0

        def read(budget_ms: float) -> bool:
            nonlocal slices
            slices += 1
            return True

        app.expect_key()
        app.session.step = read  # type: ignore[method-assign]
        app.session.notifier.notify()
        await until(pilot, lambda: slices > 2)


async def test_a_flood_of_characters_goes_into_the_filter_together(monkeypatch: pytest.MonkeyPatch) -> None:
    app = app_over(RECORDED)
    shown: list[str] = []
    show_only = MetricsPage.show_only
    monkeypatch.setattr(MetricsPage, "show_only", lambda page, text: (shown.append(text), show_only(page, text))[1])
    async with app.run_test(size=(120, 40)) as pilot:
        type_ahead(app, "m", "slash")
        # A machine that is slow to open the field might leave the flood out.
        await until_filtering(pilot, app)
        type_ahead(app, *("abcdefghij" * 500), "escape", "T")
        before = app.themes.palette.name
        await until(pilot, lambda: app.themes.palette.name != before and shown[-1:] == [""])
        # What the field has no room for is left out, and nothing is painted for it.
        assert max(shown, key=len) == ("abcdefghij" * 26)[:MAX_FILTER_CHARS]
        assert len(shown) < 20


async def test_of_a_flood_of_keys_that_nobody_typed_the_last_are_answered() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        before = app.themes.palette.name
        type_ahead(app, *("jk" * 10_000), "T")
        began = time.process_time()
        await until(pilot, lambda: app.themes.palette.name != before)
        assert time.process_time() - began < 8


async def test_of_a_flood_of_turns_of_the_wheel_only_some_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        await pilot.press("m")
        await until(pilot, lambda: isinstance(app.page, MetricsPage))
        await pilot.pause()
        board = app.focused
        assert board is not None
        taken = 0

        def count(board: object, event: events.Event) -> None:
            nonlocal taken
            taken += 1
            event.prevent_default()

        monkeypatch.setattr(type(board), "on_mouse_scroll_down", count)
        for _ in range(1500):
            app.post_message(events.MouseScrollDown(board, 10, 10, 0, 1, 0, False, False, False, 10, 10))
        before = app.themes.palette.name
        type_ahead(app, "T")
        await until(pilot, lambda: app.themes.palette.name != before)
        await pilot.pause()
        assert 0 < taken < 150


async def test_as_many_keys_as_a_person_types_ahead_are_all_taken() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        was_live = app.cursor.is_live
        type_ahead(app, *(["comma"] * 60), "m", "slash", *"clipfrac", "enter", "enter")
        await until(pilot, lambda: isinstance(app.page, MetricPage) and "actor/pg_clipfrac" in page_text(app))
        assert was_live and not app.cursor.is_live


async def test_of_a_long_paste_the_beginning_is_taken() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "m", "slash")
        await until_filtering(pilot, app)
        field = screen_of(app).filter
        app.post_message(events.Paste("loss " + "x" * 4_500 + "\nmore"))
        await until(pilot, lambda: len(field.value) == MAX_FILTER_CHARS)
        assert field.value.startswith("loss xxx")
        field.select_all()
        type_ahead(app, "k", "l")
        await until(pilot, lambda: field.value == "kl")


async def test_a_paste_behind_the_key_that_opens_the_field_is_taken_by_it() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "m", "slash")
        app.post_message(events.Paste("clip\nand more"))
        type_ahead(app, "f")
        await until(pilot, lambda: isinstance(app.page, MetricsPage) and screen_of(app).filter.value == "clipf")


@pytest.mark.parametrize("keys", [("m", "j", "enter"), ("m", "c", "question_mark", "v"), ("m", "O")])
async def test_a_metric_is_looked_for_from_any_page_over_the_list(keys: tuple[str, ...]) -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, *keys, "slash", *"clip")
        await until(pilot, lambda: screen_of(app).has_filter and screen_of(app).filter.value == "clip")


async def test_a_search_is_typed_and_gone_through_before_it_is_drawn() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "t", "slash", *"ref", "enter", "n", "N")
        await until(pilot, lambda: "match 1 of" in status_text(app))
        assert isinstance(app.page, TimingPage)


async def test_keys_and_clicks_for_the_palette_may_come_before_it_is_drawn() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "ctrl+p", "pagedown", "pageup", "ctrl+end")
        await until(pilot, lambda: isinstance(app.screen, RltopPalette))
        await pilot.pause()
        for kind in (events.MouseDown, events.MouseUp) * 3:
            app.post_message(kind(None, 1, 38, 0, 0, 1, False, False, False, 1, 38))
        await until(pilot, lambda: isinstance(app.page, OverviewPage))
        assert app.is_running


@pytest.mark.parametrize("keys", [("m", "slash", *"clip"), ("t", "colon", "1")])
async def test_back_on_a_page_where_something_was_being_typed_keys_are_keys_again(keys: tuple[str, ...]) -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, *keys)
        await until(pilot, lambda: screen_of(app).is_typing)
        left = app.page
        type_ahead(app, "alt+left")
        await until(pilot, lambda: isinstance(app.page, OverviewPage))
        type_ahead(app, "alt+right")
        await until(pilot, lambda: app.page is left)
        assert not screen_of(app).is_typing and not screen_of(app).query("#prompt")
        assert not isinstance(left, MetricsPage) or screen_of(app).filter.value == "clip"
        # The filter, the page, the program.
        type_ahead(app, "q", "q", "q")
        await until(pilot, lambda: not app.is_running)


@pytest.mark.parametrize(("page", "count"), [("m", 90), ("e", 12), ("", 9)])
async def test_a_key_held_down_ends_where_as_many_single_ones_do(page: str, count: int) -> None:
    async with running(app_over(RECORDED), (160, 45)) as (app, pilot):
        await pilot.press(*page)
        board = screen_of(app).board
        start = board.selection.target
        for _ in range(count):
            board.action_browse(1)
        board.action_browse(-1)
        board.action_browse(-1)
        single = board.selection.target
        if page:
            await pilot.press("home")
        else:
            board.select(start)
        before = app.themes.palette.name
        type_ahead(app, *"j" * count, "k", "k", "T")
        await until(pilot, lambda: app.themes.palette.name != before)
        await pilot.pause()
        assert board.selection.target == single is not None


async def test_pages_are_not_painted_for_every_key_that_is_held_down(monkeypatch: pytest.MonkeyPatch) -> None:
    app, painted = app_over(RECORDED), []
    rows = MetricsPage.rows
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.press("m")
        monkeypatch.setattr(MetricsPage, "rows", lambda *given: painted.append(given) or rows(*given))
        before = app.themes.palette.name
        type_ahead(app, *"j" * 60, "T")
        await until(pilot, lambda: app.themes.palette.name != before)
        assert 1 <= len(painted) <= 12


@pytest.mark.parametrize("behind", ["colon", "slash"])
async def test_what_is_typed_behind_the_key_that_quits_is_left_out(behind: str) -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        type_ahead(app, "q", behind)
        await until(pilot, lambda: not app.is_running)
    assert app.return_code == 0
