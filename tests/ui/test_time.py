"""The step that is shown: the time cursor, a pause, and what comes meanwhile."""

from __future__ import annotations

from pathlib import Path

from screens import RECORDED, app_over, page_text, press, status_text, write_rows

from rltop.app.app import SETTLED_S
from rltop.app.screens.overview import OverviewScreen
from rltop.app.screens.verdict import VerdictScreen
from rltop.clock import FakeClock
from rltop.rows.rows import Target, TargetKind
from rltop.run.options import IngestOptions
from rltop.store.series import StoreOptions

WIDE = (120, 40)


def rows(count: int, start: int = 1, **more: float) -> list[dict[str, object]]:
    return [
        {"step": step, "loss": 1.0 / step, "reward": 0.5 + step / 1000, "grad_norm": 1.0, **more}
        for step in range(start, start + count)
    ]


async def test_the_time_cursor_moves_every_page_and_returns(tmp_path: Path) -> None:
    app = app_over(write_rows(tmp_path / "metrics.jsonl", rows(60)))
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "comma", "comma")
        assert app.moment.at_step == 58 and "at step 58" in status_text(app)
        await press(pilot, "less_than_sign")
        assert app.moment.at_step == 48
        await press(pilot, "full_stop")
        assert app.moment.at_step == 49
        await press(pilot, "m")
        assert "1/49" not in page_text(app) and f"{1 / 49:.4f}" in page_text(app)
        await press(pilot, "L")
        assert app.moment.at_step is None and app.is_live
        await press(pilot, "less_than_sign", "end")
        assert app.is_live
        await press(pilot, *["less_than_sign"] * 9)
        assert app.moment.at_step == 1
        await press(pilot, *["greater_than_sign"] * 7)
        assert app.is_live


async def test_a_pause_freezes_the_picture_and_not_the_reading(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", rows(30))
    app = app_over(path)
    async with app.run_test(size=WIDE) as pilot:
        await press(pilot, "space")
        before = page_text(app)
        assert "paused" in status_text(app)
        write_rows(path, rows(20, 31), mode="a")
        app.session.step(1000)
        # Longer than what is put off until the screen stands.
        await pilot.pause(SETTLED_S + 0.2)
        assert page_text(app) == before
        assert app.followed.stream.last_step == 50
        await press(pilot, "m")
        assert "0.0333" in page_text(app), "a page that is opened during a pause shows the frozen step"
        await press(pilot, "escape", "space")
        assert app.is_live and page_text(app) != before


async def test_new_rows_are_drawn_at_once_and_then_at_most_four_times_a_second(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", rows(10))
    clock = FakeClock()
    app = app_over(path, clock=clock)
    async with app.run_test(size=WIDE) as pilot:
        clock.advance(0.5)
        app.session.bell.ring()
        await pilot.pause(0.05)
        write_rows(path, rows(1, 11), mode="a")
        clock.advance(0.3)
        app.session.bell.ring()
        await pilot.pause(0.05)
        assert "step 11" in page_text(app)
        write_rows(path, rows(1, 12), mode="a")
        app.session.bell.ring()
        await pilot.pause(0.1)
        assert "step 11" in page_text(app), "too soon for another frame"
        clock.advance(0.25)
        app.session.bell.ring()
        await pilot.pause(0.05)
        assert "step 12" in page_text(app)


async def test_a_folded_step_is_read_again_from_the_file(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", rows(6000))
    clock = FakeClock()
    app = app_over(path, clock=clock, ingest=IngestOptions(store=StoreOptions(memory_bytes=1)))
    async with app.run_test(size=WIDE) as pilot:
        assert app.followed.stream.folded_range(7) is not None
        app.open(Target(TargetKind.STEP, step=7))
        await pilot.pause()
        assert "at steps 1–" in status_text(app) or "at step 7" in status_text(app)
        for _ in range(100):
            await pilot.pause(0.02)
            if app.followed.stream.folded_range(7) is None:
                break
        clock.advance(1.0)
        await pilot.pause(0.3)
        assert "at step 7:" in status_text(app)
        await press(pilot, "m")
        assert f"{1 / 7:.3f}" in page_text(app)


async def test_what_was_not_understood_is_said_on_every_page(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "metrics.jsonl", rows(10))
    with path.open("a") as file:
        file.write("not json\n{broken\n")
    app = app_over(path)
    async with app.run_test(size=WIDE) as pilot:
        assert "2" in page_text(app).splitlines()[-1]
        for key in ("t", "m"):
            await press(pilot, key)
            assert "2 unreadable" in status_text(app)


async def test_the_alerts_of_a_past_step_are_those_of_that_step() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        app.show_step(120)
        await press(pilot, "a")
        assert isinstance(app.screen, VerdictScreen)
        assert app.screen.rule in {verdict.rule for verdict in app.shown_verdicts} - {"O11"}
        assert "does not fire" not in page_text(app)
        await press(pilot, "escape")
        app.show_step(20)
        await press(pilot, "a")
        assert isinstance(app.screen, OverviewScreen)


async def test_a_past_verdict_began_where_it_began() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE):
        newest = {verdict.rule: verdict.since_step for verdict in app.shown_verdicts}
        step = app.followed.stream.last_step
        assert newest and step is not None
        app.show_step(step - 1)
        standing = {verdict.rule: verdict for verdict in app.shown_verdicts if verdict.rule in newest}
        assert standing
        assert {rule: verdict.since_step for rule, verdict in standing.items()} == {
            rule: newest[rule] for rule in standing
        }
        assert all(verdict.key or not verdict.metric for verdict in standing.values())


async def test_keys_that_come_faster_than_pages_are_painted_in_one() -> None:
    app = app_over(RECORDED)
    async with app.run_test(size=WIDE) as pilot:
        painted = 0
        page = app.screen
        assert isinstance(page, OverviewScreen)
        draw = page.draw

        def count() -> None:
            nonlocal painted
            painted += 1
            draw()

        page.draw = count  # type: ignore[method-assign]
        for _ in range(20):
            app.action_travel(-1)
        await pilot.pause()
        assert painted <= 2
        assert "at step 130" in page_text(app)
