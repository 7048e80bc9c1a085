"""From a symptom to its cause with the keys: the timeline, what changed, the chain."""

from __future__ import annotations

import json
from pathlib import Path

from rltop.pages.alerts import rule_title
from rltop.pages.changes import ChangePage
from rltop.pages.metric import MetricPage
from rltop.pages.overview import OverviewPage
from rltop.pages.timeline import EventsPage
from rltop.pages.verdict import VerdictPage
from rltop.rows.rows import Target, TargetKind
from rltop.rows.table import heads_of
from tests.programs import said_here
from tests.screens import RECORDED, app_over, page_text, press, running, screen_of, status_text

WIDE = (120, 40)


async def test_the_timeline_sets_the_time_cursor_and_opens_the_rule_there() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "e")
        page = app.page
        assert isinstance(page, EventsPage)
        events = app.followed.events
        assert f"EVENTS  {len(events)}" in page_text(app)
        await press(pilot, "end", "enter")
        assert app.page is page and app.moment.snapshot.at_step == events[0].step
        await press(pilot, "enter")
        assert isinstance(app.page, VerdictPage) and app.page.rule == events[0].rule
        await press(pilot, "escape", "L", "escape")
        assert isinstance(app.page, OverviewPage) and app.cursor.is_live


async def test_the_timeline_is_filtered_by_family_level_and_text() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "e")
        page = app.page
        assert isinstance(page, EventsPage)
        everything = page_text(app)
        family = app.followed.events[0].family
        await press(pilot, "f")
        assert f"family {family}" in page_text(app)
        await press(pilot, "v", "v", "v")
        assert "crit only" in page_text(app)
        await press(pilot, "escape")
        assert page_text(app) == everything and app.page is page
        await press(pilot, "slash", *"slower", "enter")
        assert "matching 'slower'" in page_text(app) or "no event matches" in page_text(app)
        await press(pilot, "escape", "escape")
        assert isinstance(app.page, OverviewPage)


async def test_what_changed_follows_the_cursor_and_gives_it_back() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "c")
        assert isinstance(app.page, ChangePage)
        newest = app.followed.main.stream.last_step
        assert f"AT STEP {newest}" in page_text(app)
        await press(pilot, "c")
        assert isinstance(app.page, OverviewPage) and "no step" not in status_text(app)
        await press(pilot, "c", "comma")
        assert app.moment.snapshot.at_step is not None and f"AT STEP {app.moment.snapshot.at_step}" in page_text(app)
        await press(pilot, "L", "down", "enter")
        assert isinstance(app.page, MetricPage)
        await press(pilot, "escape", "escape", "a")
        verdict = app.followed.verdicts[0]
        await press(pilot, "c")
        assert isinstance(app.page, ChangePage)
        assert f"AT STEP {verdict.since_step}" in page_text(app) and app.moment.snapshot.at_step == verdict.since_step
        await press(pilot, "escape")
        assert isinstance(app.page, VerdictPage) and app.moment.snapshot.at_step is None


async def test_without_a_step_what_changed_says_why_it_does_not_open(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.touch()
    async with running(app_over(path), WIDE) as (app, pilot):
        await press(pilot, "c")
        assert isinstance(app.page, OverviewPage) and status_text(app) == "no step has been read yet"


async def test_a_link_of_the_chain_opens_its_metric() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "a")
        assert "related metrics, in the order to check" in page_text(app)
        await press(pilot, "down", "down")
        target = screen_of(app).board.selection.target
        assert target is not None and target.kind is TargetKind.METRIC
        await press(pilot, "enter")
        assert isinstance(app.page, MetricPage) and app.page.key == target.name


async def test_a_rule_is_muted_and_taken_in_again() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "a")
        page = app.page
        assert isinstance(page, VerdictPage)
        rule, count = page.rule, len(app.followed.verdicts)
        await press(pilot, "ctrl+x")
        assert rule not in [verdict.rule for verdict in app.followed.verdicts]
        assert (
            "this rule is muted" in page_text(app) and status_text(app) == f"{rule_title(rule)} is muted for this run"
        )
        assert len(app.followed.events), "muting loses no event"
        await press(pilot, "ctrl+x")
        assert len(app.followed.verdicts) == count and "related metrics, in the order to check" in page_text(app)
        await press(pilot, "ctrl+x", "escape")
        badge, text = f"{rule_title(rule).rpartition(' ')[0]} @138 muted", page_text(app)
        assert badge in text and text.count(" muted") == 1
        await press(pilot, "X")
        assert (
            len(app.followed.verdicts) == count
            and status_text(app) == f"no longer muted for this run: {rule_title(rule)}"
        )


async def test_mute_twice_undoes_and_leaves_everything_in_its_place() -> None:
    async with running(app_over(RECORDED), (120, 40)) as (app, pilot):
        before, target = page_text(app), app.shown.board.selection.target
        assert target is not None and target.kind is TargetKind.VERDICT
        await press(pilot, "ctrl+x")
        assert app.followed.main.judging.muted == {target.name}
        assert " muted" in page_text(app) and status_text(app) == f"{rule_title(target.name)} is muted for this run"
        assert app.shown.board.selection.target.name == target.name
        await press(pilot, "ctrl+x")
        assert not app.followed.main.judging.muted
        assert page_text(app) == before


async def test_a_click_on_the_head_of_a_table_sorts_it_and_another_turns_it_round() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "t")
        board = screen_of(app).board
        y, link = next(
            (y, one) for y, row in enumerate(board.rows) for one in row.links if one.target.name == "last falling"
        )
        for sign in "▼▲":
            await pilot.click("#board", offset=(link.start + 1, y))
            await pilot.pause()
            assert f"{sign}last" in page_text(app)
        assert board.selection.target is not None and board.selection.target.kind is not TargetKind.HEAD


async def test_a_key_sorts_a_table_by_each_head_and_then_as_the_rows_come() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "c")
        board, page = screen_of(app).board, app.page
        assert isinstance(page, ChangePage)
        heads, asked = [one.head for one in heads_of(board.rows)], []
        assert len(heads) >= 4
        for _ in heads:
            await press(pilot, "s")
            asked.append(page.sorting.head if page.sorting is not None else "")
        assert asked == heads
        await press(pilot, "s")
        assert page.sorting is None


async def test_an_alert_is_acknowledged_kept_for_the_run_and_taken_back() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "a")
        page = app.page
        assert isinstance(page, VerdictPage)
        rule, count = page.rule, len(app.followed.verdicts)
        await press(pilot, "x")
        assert status_text(app).startswith(f"{rule_title(rule)} is acknowledged: quiet until it gets worse")
        assert rule not in [verdict.rule for verdict in app.followed.verdicts]
        assert "x undoes it" in page_text(app) and app.followed.main.judging.muted == frozenset()
        await press(pilot, "escape")
        assert page_text(app).count("acknowledged") == 1, "the badge says so; a count beside it would repeat it"
    listed = said_here("check", "--width", "160", str(RECORDED))[1].split(f" {rule} ")[1]
    assert ", acknowledged" in listed.split("\n")[0]
    assert " acknowledged" in said_here("--once", "--width", "160", str(RECORDED))[1]
    async with running(app_over(RECORDED), WIDE) as (again, pilot):
        assert rule not in [verdict.rule for verdict in again.followed.verdicts]
        again.open(Target(TargetKind.VERDICT, rule))
        await press(pilot, "x")
        assert len(again.followed.verdicts) == count
        await press(pilot, "escape")
        assert "acknowledged" not in page_text(again)


async def test_an_alert_of_a_part_of_a_rule_has_one_name(tmp_path: Path) -> None:
    rows = [
        {
            "step": step, "kl": 0.01 + 0.002 * step if step < 30 else 0.4, "reward": 0.5 + 0.01 * (step % 3),
            "completions/mean_length": 200.0, "reward_std": 0.2, "frac_reward_zero_std": 0.0, "loss": 0.1,
        }
        for step in range(1, 121)
    ]  # fmt: skip
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    async with running(app_over(path), (160, 40)) as (app, pilot):
        (verdict,) = [one for one in app.followed.verdicts if one.metric == "kl_ref"]
        assert (verdict.rule, verdict.title) == ("O11", "KL drift") and "KL drift @" in page_text(app)
        app.open(Target(TargetKind.METRIC, "kl"))
        await pilot.pause()
        chart = page_text(app)
        assert f"│ KL drift since {verdict.since_step}" in chart and "▲ KL drift 3" in chart
        assert "O11 since" not in chart
        app.open(Target(TargetKind.VERDICT, "O11"))
        await press(pilot, "x")
        assert status_text(app).startswith("KL drift (O11) is acknowledged")


async def test_an_event_is_named_by_what_raised_it() -> None:
    async with running(app_over(RECORDED), WIDE) as (app, pilot):
        await press(pilot, "e")
        number, event = next((i, one) for i, one in enumerate(app.followed.events) if one.part == "F3")
        assert event.rule == "F2"
        await press(pilot, *["down"] * (len(app.followed.events) - 1 - number))
        assert "event of validation (F3)" in status_text(app)
