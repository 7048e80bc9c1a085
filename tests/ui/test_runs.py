"""Switching between runs, and pages about one stream of several."""

from __future__ import annotations

from pathlib import Path

import pytest
from screens import NO_THEMES, page_text, press, running, screen_of, session_over, status_text, until, write_rows

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.clock import FakeClock
from rltop.pages.metric import MetricPage
from rltop.pages.overview import OverviewPage
from rltop.pages.runs import RunsPage
from rltop.pages.stragglers import RanksPage
from rltop.rows.rows import Target, TargetKind
from rltop.run.discover import discover, future_run
from rltop.run.places import FoundRun
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed
from tests.run_folders import rlinf, trinity


def app_of(session: Session) -> RltopApp:
    session.drain()
    return RltopApp(session, UiOptions(themes_folder=NO_THEMES), clock=FakeClock())


def a_run(path: Path, *, is_ill: bool = False) -> Path:
    path.parent.mkdir(parents=True)
    loss = float("nan") if is_ill else 1.0
    return write_rows(path, [{"step": i, "loss": loss if i > 30 else 1.0, "grad_norm": 1.0} for i in range(1, 41)])


async def test_several_runs_are_listed_first_and_the_ill_one_on_top(tmp_path: Path) -> None:
    paths = [a_run(tmp_path / name / "metrics.jsonl", is_ill=name == "b") for name in ("a", "b", "c")]
    async with running(app_of(session_over(*paths)), (100, 30)) as (app, pilot):
        assert isinstance(app.page, RunsPage)
        assert [line.split()[1] for line in page_text(app).splitlines()[2:5]] == ["b", "a", "c"]
        await press(pilot, "enter")
        await pilot.pause()
        assert isinstance(app.page, OverviewPage)
        assert app.followed.path.raw == str(paths[1])
        await press(pilot, "r", "down", "enter")
        await pilot.pause()
        assert app.followed.path.raw == str(paths[0])
        await press(pilot, "r")
        assert isinstance(app.page, RunsPage)
        await press(pilot, "r")
        assert isinstance(app.page, OverviewPage)


async def test_a_key_sorts_the_runs_by_one_column_after_the_other_and_the_chosen_one_stays(tmp_path: Path) -> None:
    paths = [a_run(tmp_path / name / "metrics.jsonl", is_ill=name == "b") for name in ("a", "b", "c")]
    async with running(app_of(session_over(*paths)), (100, 30)) as (app, pilot):
        await press(pilot, "down")
        chosen = screen_of(app).board.selection.target
        orders = []
        for _ in range(7):  # the age of runs that have ended is no column
            await press(pilot, "s")
            orders.append([line.split()[1] for line in page_text(app).splitlines()[2:5]])
            assert screen_of(app).board.selection.target == chosen
        assert "▲run" not in page_text(app) and orders[0] == ["a", "b", "c"]
        assert orders[-2:] == [["b", "a", "c"]] * 2
        await press(pilot, "s")
        assert "▲run" in page_text(app)


async def test_what_comes_first_is_chosen_until_a_run_is_picked(tmp_path: Path) -> None:
    paths = [a_run(tmp_path / name / "metrics.jsonl", is_ill=name == "c") for name in ("a", "b", "c")]
    session = session_over(*paths)
    app = RltopApp(session, UiOptions(themes_folder=NO_THEMES), clock=FakeClock())
    async with app.run_test(size=(100, 30)) as pilot:
        screen = screen_of(app)
        assert isinstance(screen.page, RunsPage)
        await pilot.pause()
        session.drain()
        app.draw()
        await pilot.pause()
        assert page_text(app).splitlines()[2].split()[1] == "c"
        assert screen.board.selection.target == Target(TargetKind.RUN, str(paths[2]))
        await press(pilot, "down", "up")
        assert screen.board.selection.target == Target(TargetKind.RUN, str(paths[2]))


@pytest.mark.parametrize("key", ["t", "m", "e", "W", "c", "R", "O"])
async def test_a_page_opened_from_the_list_is_of_the_selected_run_and_names_it(tmp_path: Path, key: str) -> None:
    paths = [a_run(tmp_path / name / "metrics.jsonl") for name in ("first", "second")]
    session = session_over(*paths)
    session.drain()
    async with running(app_of(session), (100, 30)) as (app, pilot):
        # Of the run that was shown already as of any other.
        for run in (session.runs[1], session.runs[1], session.runs[0]):
            screen_of(app).board.select(Target(TargetKind.RUN, run.path.raw))
            assert not status_text(app).endswith(run.name.raw)
            await press(pilot, key)
            assert not isinstance(screen_of(app).page, RunsPage)
            assert app.followed is run
            assert status_text(app).endswith(run.name.raw)
            await press(pilot, "escape")
            assert isinstance(screen_of(app).page, OverviewPage)
            assert not status_text(app).endswith(run.name.raw)
            await press(pilot, "escape")
            assert isinstance(screen_of(app).page, RunsPage)


@pytest.mark.parametrize(("key", "said"), [("F", "asynchronous")])
async def test_a_key_that_has_nothing_to_show_of_the_selected_run_says_so_and_stays(
    tmp_path: Path, key: str, said: str
) -> None:
    paths = [a_run(tmp_path / name / "metrics.jsonl") for name in ("first", "second")]
    session = session_over(*paths)
    session.drain()
    async with running(app_of(session), (100, 30)) as (app, pilot):
        followed = app.followed
        screen_of(app).board.select(Target(TargetKind.RUN, session.runs[1].path.raw))
        await press(pilot, key)
        assert isinstance(screen_of(app).page, RunsPage)
        assert (app.followed, said in app.message) == (followed, True)


async def test_the_list_of_runs_is_filtered_as_one_types(tmp_path: Path) -> None:
    app = app_of(session_over(*(a_run(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))))
    async with running(app, (80, 24)) as (_, pilot):
        await press(pilot, "slash", "t", "w")
        assert "RUNS  1 of 2" in page_text(app)
        await press(pilot, "enter", "enter")
        await pilot.pause()
        assert str(app.followed.name) == "two"


async def test_a_single_run_is_shown_at_once(tmp_path: Path) -> None:
    async with running(app_of(session_over(a_run(tmp_path / "a" / "metrics.jsonl"))), (80, 24)) as (app, _):
        assert isinstance(app.page, OverviewPage)


def folder_app(folder: Path) -> RltopApp:
    clock = FakeClock()
    runs = discover([str(folder)]).found
    return app_of(Session(runs, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock))


async def test_a_metric_of_another_stream_is_shown_on_its_own_steps(tmp_path: Path) -> None:
    async with running(folder_app(trinity(tmp_path / "job")), (120, 40)) as (app, pilot):
        assert "STREAMS" in page_text(app)
        assert "explorer step 90" in page_text(app)
        app.open(Target(TargetKind.METRIC, "rollout/accuracy/mean", stream="explorer"))
        await pilot.pause()
        assert isinstance(app.page, MetricPage)
        assert "step 90" in page_text(app)
        app.cursor.show(20)
        await pilot.pause()
        assert "step 30" in page_text(app)


async def test_the_ranks_page_names_the_slow_one_at_every_size(tmp_path: Path) -> None:
    for size in ((40, 12), (80, 24), (120, 40), (200, 60)):
        folder = tmp_path / str(size[0])
        async with running(folder_app(rlinf(folder, ranks=4)), size) as (app, pilot):
            app.open(Target(TargetKind.RANKS))
            await pilot.pause()
            assert isinstance(app.page, RanksPage)
            assert "rank 3" in page_text(app)


class _Growing:
    """An application over a directory that is looked at again when asked."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        clock = FakeClock()
        self._looked: list[FoundRun] | None = None
        self.session = Session(
            discover([str(folder)]).found,
            lambda path, lines: DirectFeed(path, clock=clock, last=lines),
            clock,
        )
        self.session.take_rescan = self._take
        self.app = app_of(self.session)

    def _take(self) -> list[FoundRun] | None:
        looked, self._looked = self._looked, None
        return looked

    def look(self) -> None:
        self._looked = discover([str(self.folder)]).found
        self.session.step(1_000.0)
        self.session.drain()


async def test_the_run_on_the_screen_stays_when_a_stream_joins_it_and_when_others_become_one(tmp_path: Path) -> None:
    whole = trinity(tmp_path / "whole", steps=10)
    home = tmp_path / "jobs"
    streams = home / "job" / "monitor" / "tensorboard"
    streams.mkdir(parents=True)
    (whole / "monitor/tensorboard/explorer").rename(streams / "explorer")
    a_run(home / "plain" / "metrics.jsonl")
    growing = _Growing(home)
    app, session = growing.app, growing.session
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        for name in ("explorer", "metrics.jsonl"):
            shown = next(run for run in session.runs if name in run.path.raw)
            await app.follow(shown.path.raw)
            assert app.followed is shown
        await app.follow(next(run.path.raw for run in session.runs if "explorer" in run.path.raw))
        (whole / "monitor/tensorboard/trainer").rename(streams / "trainer")
        growing.look()
        await pilot.pause()
        assert [part.role for part in app.followed.other_streams] == ["explorer"]
        assert app.followed in session.runs
        await app.follow(next(run.path.raw for run in session.runs if "plain" in run.path.raw))
        plain = app.followed
        # The run before it makes way: what is shown must not follow the places.
        session.runs.remove(next(run for run in session.runs if run is not plain))
        assert app.followed is plain


async def test_every_page_can_be_opened_while_there_is_no_file_yet(tmp_path: Path) -> None:
    clock = FakeClock()
    found = [future_run([str(tmp_path)], discover([str(tmp_path)]))]
    session = Session(found, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock)
    app = app_of(session)
    for size in ((40, 12), (80, 24), (200, 60)):
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            assert "no metric file yet" in page_text(app)
            for key in ("t", "escape", "m", "escape", "e", "escape", "R", "escape", "c", "escape"):
                await press(pilot, key)
                assert page_text(app).strip()
        app = app_of(session)


async def test_what_cannot_be_read_is_named_on_every_page(tmp_path: Path) -> None:
    a_run(tmp_path / "a" / "metrics.jsonl")
    (tmp_path / "b.jsonl").symlink_to("nowhere")
    session = session_over(tmp_path / "a" / "metrics.jsonl")
    left_out: list[tuple[str, str]] = []
    session.left_out = lambda: left_out
    async with running(app_of(session), (100, 24)) as (app, pilot):
        assert "not read" not in status_text(app)
        before = session.version
        left_out += discover([str(tmp_path)]).left_out
        assert session.version != before
        for key in ("t", "escape", "m", "escape"):
            await press(pilot, key)
            await pilot.pause()
            assert "not read: b.jsonl: broken symlink" in status_text(app)
        left_out.append(("c.jsonl", "permission denied"))
        await press(pilot, "m")
        assert "broken symlink, and 1 more" in status_text(app)


async def test_of_several_runs_that_come_where_one_waited_a_list_is_shown(tmp_path: Path) -> None:
    clock = FakeClock()
    found = [future_run([str(tmp_path)], discover([str(tmp_path)]))]
    session = Session(found, lambda path, lines: DirectFeed(path, clock=clock, last=lines), clock)
    async with running(app_of(session), (80, 24)) as (app, pilot):
        assert isinstance(app.page, OverviewPage)
        for name in ("a", "b"):
            a_run(tmp_path / name / "metrics.jsonl")
        news = [discover([str(tmp_path)]).found]
        session.take_rescan = lambda: news.pop() if news else None
        await until(pilot, lambda: isinstance(app.page, RunsPage) and "RUNS  2" in page_text(app))
