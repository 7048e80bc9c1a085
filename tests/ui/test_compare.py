"""Marking runs and comparing them, with real files and keys."""

from __future__ import annotations

import math
import random
import re
import threading
from pathlib import Path

import pytest
from screens import (
    NO_THEMES,
    app_over,
    page_text,
    press,
    read_settings,
    running,
    screen_of,
    session_over,
    status_text,
    write_rows,
)
from textual.pilot import Pilot

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.cli import main
from rltop.clock import FakeClock
from rltop.errors import EXIT_OK
from rltop.pages.chart import Axis, Zoom
from rltop.pages.compare import (
    MOST_RUNS,
    ComparePage,
    build_overlay,
    common_metrics,
    compared_metrics,
    compared_runs,
    diverged,
)
from rltop.pages.directory import HelpPage
from rltop.pages.metric import MetricPage
from rltop.pages.page import Open, Push
from rltop.pages.run_settings import Difference, paint_differences
from rltop.pages.runs import RunsPage
from rltop.rows.glyphs import UNICODE
from rltop.rows.rows import Target, TargetKind
from rltop.run import run_settings
from rltop.run.snapshot import Snapshot

SIZE = (140, 44)


def write_run(folder: Path, name: str, seed: int, *, part_at: int = 0, lr: float = 1e-6, length: int = 200) -> Path:
    """A veRL run whose gradient norm, and ten steps later its entropy, leave those of other seeds."""
    numbers = random.Random(seed)
    path = folder / name / "metrics.jsonl"
    path.parent.mkdir()
    rows = (
        {
            "step": n,
            "data": {
                "critic/rewards/mean": 1 - math.exp(-n / 60) + numbers.gauss(0, 0.03),
                "actor/entropy": 1.0 + numbers.gauss(0, 0.02) - (0.5 if part_at and n >= part_at + 20 else 0.0),
                "actor/grad_norm": 0.5 + numbers.gauss(0, 0.02) + (0.5 if part_at and n >= part_at else 0.0),
                "actor/lr": lr,
                "actor/pg_loss": numbers.gauss(0, 0.01),
                "timing_s/step": 10.0,
                "perf/total_num_tokens": 1000.0,
            },
        }
        for n in range(1, length + 1)
    )
    return write_rows(path, rows)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    return [
        write_run(tmp_path, "yesterday", 1),
        write_run(tmp_path, "today", 2, part_at=100),
        write_run(tmp_path, "twin", 3),
    ]


async def compare(app: RltopApp, pilot: Pilot[int], runs: list[Path]) -> None:
    """Mark runs whose settings have been read, and open the page that compares them."""
    await pilot.pause()
    read_settings(app.session)
    app.marked = [str(path) for path in runs]
    await press(pilot, "o")


async def test_marked_runs_are_compared_and_where_they_part_is_told(runs: list[Path]) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        assert isinstance(app.page, RunsPage)
        app.marked = [str(path) for path in runs]
        await press(pilot, "o")
        assert isinstance(app.page, ComparePage)
        text = page_text(app)
        assert "baseline: yesterday" in text
        told = re.search(r"2 +first diverged at step ([\d,]+): gradient norm, then entropy", text)
        assert told
        assert 84 <= int(told[1]) <= 108
        assert re.search(r"3 +alike so far, within the noise of both", text)
        assert "reward  by step" in text
        await press(pilot, "right")
        assert "reward  by step" not in page_text(app)
        await press(pilot, "left", "A")
        # These rows have no time; what no run logs is passed over.
        assert "by tokens" in page_text(app)
        await press(pilot, "A")
        assert "by step" in page_text(app)
        await press(pilot, "b")
        assert "baseline: today" in page_text(app)
        await press(pilot, "escape")
        assert isinstance(app.page, RunsPage)


async def test_a_report_of_compared_runs_has_the_axis_and_the_baseline_of_the_page(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "written"
    folder.mkdir()
    monkeypatch.chdir(folder)
    async with running(app_over(*runs), SIZE) as (app, pilot):
        app.marked = [str(path) for path in runs]
        await press(pilot, "o", "A", "b")
        assert "by tokens" in page_text(app) and "baseline: today" in page_text(app)
        await app.run_action("report")
        while not status_text(app).startswith("written:"):
            await pilot.pause(0.05)
    page = next(folder.iterdir()).read_text()
    assert "In one chart, by tokens, smoothed" in page
    assert "where it diverges from today" in page and page.count(">first diverged at step") == 2


async def test_space_marks_and_unmarks_the_chosen_run_and_the_list_numbers_it(runs: list[Path]) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await press(pilot, "space", "j", "space")
        assert len(app.marked) == 2
        numbered = [line for line in page_text(app).splitlines() if re.match(r" \S +[12] ", line)]
        assert len(numbered) == 2
        await press(pilot, "space")
        assert len(app.marked) == 1
        await press(pilot, "o")
        assert f"COMPARE  {len(runs)} runs" in page_text(app), "of a few runs all are compared"
        assert page_text(app).splitlines()[2].split()[1] == Path(app.marked[0]).parent.name, "the marked one first"


@pytest.mark.parametrize("picked", [[], ["down", "enter", "escape"]])
@pytest.mark.parametrize("key", ["o", "question_mark", "v"])
async def test_what_covered_the_list_leaves_its_cursor_where_it_was(
    runs: list[Path], picked: list[str], key: str
) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await press(pilot, *picked)
        await press(pilot, "end")
        chosen = screen_of(app).board.selection.target
        await press(pilot, key)
        assert not isinstance(app.page, RunsPage)
        await press(pilot, "escape")
        assert isinstance(app.page, RunsPage) and screen_of(app).board.selection.target == chosen


async def test_the_help_on_a_comparison_names_none_of_its_runs(runs: list[Path]) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await press(pilot, "o", "question_mark")
        assert isinstance(app.page, HelpPage) and app.followed.name.raw not in status_text(app)


async def test_of_many_runs_none_is_compared_before_it_is_marked(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.jsonl" for number in range(MOST_RUNS + 1)]
    app = app_over(*(write_rows(path, [{"step": i, "loss": 1.0} for i in range(9)]) for path in paths))
    async with running(app, SIZE) as (_, pilot):
        await press(pilot, "o")
        assert "mark two runs or more (Space)" in status_text(app), "no page is opened to say so"
        assert page_text(app).startswith(" RUNS")


async def test_the_chart_of_a_metric_has_the_marked_runs_over_it(runs: list[Path]) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await press(pilot, "enter")
        app.marked = [str(path) for path in runs]
        app.carry_out(Push(MetricPage("actor/entropy")))
        await pilot.pause()
        text = page_text(app)
        others = {path.parent.name for path in runs if str(path) != app.followed.path.raw}
        assert all(name in text for name in others)
        assert app.followed.name.display not in text.splitlines()[1]


async def test_escape_leads_from_a_page_to_the_run_and_from_there_to_the_list(runs: list[Path]) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await press(pilot, "enter", "t", "escape")
        assert app.current_mode == "overview"
        await press(pilot, "escape")
        assert isinstance(app.page, RunsPage)
        await press(pilot, "escape")
        assert isinstance(app.page, RunsPage)


async def test_the_list_is_narrowed_down_by_numbers_and_says_what_it_did_not_understand(runs: list[Path]) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await press(pilot, "slash", *"entropy", "less_than_sign", *"0.7", "enter")
        text = page_text(app)
        assert "today" in text
        assert "yesterday" not in text
        assert "1 of 3" in text
        await press(pilot, "escape", "slash", *"entropy", "less_than_sign", "x")
        assert "is not a number" in page_text(app)


async def test_metrics_are_matched_by_meaning_and_runs_keep_their_signs(runs: list[Path], tmp_path: Path) -> None:
    trl = write_rows(
        tmp_path / "trl.jsonl",
        ({"step": n, "reward": 0.1 * (n % 5), "entropy": 1.0, "grad_norm": 0.5, "loss": 0.0} for n in range(1, 60)),
    )
    async with running(app_over(*runs, trl), SIZE) as (app, pilot):
        app.marked = [str(trl), str(runs[0])]
        both = compared_runs(app.moment)
        assert [one.sign for one in both] == ["1", "2"]
        names = [name for name, _ in compared_metrics(both)]
        assert {"reward_mean", "entropy", "grad_norm"} <= set(names)
        await press(pilot, "o")
        board = screen_of(app).board
        assert not any(line.endswith("…") for line in page_text(app).splitlines() if "reward" in line)
        assert board.size.width == SIZE[0]


def test_what_few_of_the_compared_runs_log_is_not_what_their_chart_begins_with(tmp_path: Path) -> None:
    for number in range(5):
        val = {"val-core/gsm8k/acc/mean@1": 0.5} if number < 2 else {}
        data = {"critic/rewards/mean": 0.1, "actor/entropy": 1.0, "actor/pg_loss": 0.1, **val}
        write_rows(tmp_path / f"{number}.jsonl", ({"step": n, "data": data} for n in range(1, 60)))
    session = session_over(*(tmp_path / f"{number}.jsonl" for number in range(5)))
    session.drain()
    names = [name for name, _ in common_metrics([Snapshot(run) for run in session.runs]) if name]
    assert (names[0], names[-1]) == ("reward_mean", "val_score")


def test_where_long_runs_part_is_found_among_a_part_of_their_records(tmp_path: Path) -> None:
    long = [
        write_run(tmp_path, name, seed, part_at=at, length=6000) for name, seed, at in (("a", 1, 0), ("b", 2, 3000))
    ]
    session = session_over(*long)
    session.drain()
    ours, theirs = sorted((Snapshot(run) for run in session.runs), key=lambda one: one.name.raw, reverse=True)
    ((_, where),), common = diverged(ours, theirs, [("grad_norm", ""), ("reward_mean", "")])
    assert 2_000 <= common <= 4_000
    assert abs(where.step - 3000) <= 60


async def test_the_settings_in_which_runs_differ_are_told_and_found(runs: list[Path]) -> None:
    for path, lr, extra in zip(runs, ("1e-6", "5e-6", "1e-6"), ("", "  kl_loss_coef: 0.1\n", ""), strict=True):
        folder = path.parent / ".hydra"
        folder.mkdir()
        (folder / "config.yaml").write_text(
            f"actor:\n  optim:\n    lr: {lr}\n{extra}  clip_ratio: 0.2\nalgorithm: {{adv: grpo}}\n"
            f"run_name: {path.parent.name}\n"
        )
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await compare(app, pilot, runs)
        lines = page_text(app).splitlines()
        at = next(number for number, line in enumerate(lines) if "WHAT DIFFERS  3 settings" in line)
        told = [line.split() for line in lines[at + 1 : at + 5]]
        assert told == [
            ["setting", "1", "2", "3"],
            ["lr", "1e-6", "5e-6", "1e-6"],
            ["kl_loss_coef", "—", "0.1", "—"],
            ["run_name", "yesterday", "today", "twin"],
        ]
        await press(pilot, "escape", "slash", *"cfg.lr", "greater_than_sign", *"2e-6", "enter")
        assert "today" in page_text(app) and "yesterday" not in page_text(app)
        await press(pilot, "escape", "slash", *"adv", "equals_sign", *"ppo", "enter")
        assert "no run matches" in page_text(app) and "no run logs" not in page_text(app)
        await press(pilot, "escape", "slash", *"advv", "equals_sign", *"ppo", "enter")
        assert "no run logs or sets advv" in page_text(app)


def test_values_that_differ_in_their_ends_alone_are_not_cut_there() -> None:
    values = tuple(f"/some/very/long/path/to/models/Qwen2.5-7B-Instruct-{name}" for name in ("a", "b"))
    _, row = paint_differences([Difference("model", "model", values, False)], [("1", ""), ("2", "")], 0, 60, UNICODE)
    assert re.search(r"…\S+-a +/\S+…\S+-b$", row.text.rstrip())


async def test_that_only_one_of_the_runs_has_settings_is_said_of_the_others(runs: list[Path]) -> None:
    (runs[0].parent / "config.yaml").write_text("lr: 1e-6\n")
    async with running(app_over(*runs), SIZE) as (app, pilot):
        await compare(app, pilot, runs)
        assert "no settings file found next to runs 2, 3" in page_text(app)


async def test_the_settings_of_a_run_have_a_page(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    (runs[0].parent / "config.json").write_text('{"optim": {"lr": 1e-6}, "seed": 7}')
    may_read, beside = threading.Event(), run_settings.settings_near
    monkeypatch.setattr(run_settings, "settings_near", lambda path: may_read.wait() and beside(path))
    async with running(app_over(runs[0]), SIZE) as (app, pilot):
        await press(pilot, "S")
        assert "looking for settings" in page_text(app)
        may_read.set()
        read_settings(app.session)
        app.draw()
        text = page_text(app)
        assert "SETTINGS  2" in text and "config.json" in text
        assert re.search(r"optim\.lr +1e-6", text)
        await press(pilot, "slash", *"seed", "enter")
        assert "1 of 2" in page_text(app)
        assert "optim" not in page_text(app)
        await press(pilot, "enter")
        assert "copies the value" in app.message


async def test_a_run_without_settings_says_where_they_are_looked_for(runs: list[Path]) -> None:
    async with running(app_over(runs[0]), SIZE) as (app, pilot):
        read_settings(app.session)
        await press(pilot, "S")
        assert ".hydra/config.yaml" in page_text(app)


async def test_the_cursor_stands_in_the_chart_and_the_values_are_of_its_step(runs: list[Path]) -> None:
    async with running(app_over(*runs), SIZE) as (app, pilot):
        app.marked = [str(path) for path in runs]
        await press(pilot, "o")
        newest = page_text(app)
        app.cursor.show(50)
        await pilot.pause()
        text = page_text(app)
        legend = next(line for line in text.splitlines() if "step 50" in line)
        assert re.search(r"1 yesterday 0\.\d+ +2 today 0\.\d+ +3 twin 0\.\d+", legend)
        assert legend not in newest
        lines = text.splitlines()
        y = next(y for y, line in enumerate(lines) if line.lstrip().startswith("└"))
        start = len(lines[y]) - len(lines[y].lstrip()) + 1
        board = screen_of(app).board
        cells = len(lines[y].rstrip()) - start
        await pilot.click(board, offset=(start + round(cells * 149 / 199), y - 3 - board.top))
        await pilot.pause()
        assert app.cursor.at_step is not None and abs(app.cursor.at_step - 150) <= 1
        await press(pilot, "A")
        await pilot.click(board, offset=(start + 20, y - 3 - board.top))
        assert "aligned by step" in status_text(app)
        app.cursor.show(50)
        await pilot.pause()
        assert "newest values: step 50" in page_text(app)
        await press(pilot, "A")
        app.page.show_window(120, 180, app.moment)
        app.cursor.show(60)
        await pilot.pause()
        assert "step 60 lies outside" in page_text(app)


def app_beside(baseline: Path, *others: Path) -> RltopApp:
    """An application as `rltop OTHER --baseline BASELINE` starts it."""
    session = session_over(*others, baseline)
    session.drain()
    options = UiOptions(
        themes_folder=NO_THEMES, lists_first=False, marked=[str(one) for one in (baseline, *others)],
        baseline=str(baseline),
    )  # fmt: skip
    return RltopApp(session, options, clock=FakeClock())


async def test_a_run_beside_the_baseline_run(runs: list[Path]) -> None:
    yesterday, today, _ = runs
    async with running(app_beside(yesterday, today), SIZE) as (app, pilot):
        text = page_text(app)
        assert app.followed.path.raw == str(today)
        assert re.search(r"vs yesterday: first diverged at step [\d,]+: gradient norm, then entropy", text)
        head = next(line for line in text.splitlines() if "vs base" in line)
        entropy = next(line for line in text.splitlines() if "actor/entropy" in line)
        at = head.index("vs run")
        assert re.match(r" *×0\.[45]", entropy[at - 2 : at + 8]), entropy
        app.carry_out(Push(MetricPage("actor/entropy")))
        await pilot.pause()
        title = page_text(app).splitlines()[0]
        assert re.search(r"×0\.[45]\d? vs yesterday (1\.\d+|0\.9\d+) nats @200", title), title
        app.carry_out(Open(Target(TargetKind.COMPARE)))
        await pilot.pause()
        assert "baseline: yesterday" in page_text(app)


async def test_what_cannot_be_compared_with_the_baseline_run_says_why(runs: list[Path], tmp_path: Path) -> None:
    short = write_run(tmp_path, "short", 5, length=50)
    async with running(app_beside(short, runs[1]), SIZE) as (app, pilot):
        text = page_text(app)
        assert "vs short (ends at step 50): " in text and "vs run" not in text, "a column of dashes says nothing"
        app.carry_out(Push(MetricPage("actor/entropy")))
        await pilot.pause()
        assert "vs short ends at step 50" in page_text(app).splitlines()[0]
    other = write_rows(tmp_path / "other.jsonl", ({"step": n, "reward": 1.0, "loss": 0.1} for n in range(1, 300)))
    async with running(app_beside(other, runs[1]), SIZE) as (app, pilot):
        app.carry_out(Push(MetricPage("actor/entropy")))
        await pilot.pause()
        assert "other does not log it" in page_text(app).splitlines()[0]


async def test_the_newest_run_is_opened_where_that_is_asked_for(runs: list[Path]) -> None:
    session = session_over(*runs)
    session.drain()
    app = RltopApp(session, UiOptions(themes_folder=NO_THEMES, lists_first=False), clock=FakeClock())
    async with running(app, SIZE) as (_, pilot):
        assert app.current_mode == "overview"
        await press(pilot, "escape")
        assert isinstance(app.page, RunsPage)


async def test_the_chart_of_compared_runs_is_zoomed_panned_and_scaled_like_every_other(runs: list[Path]) -> None:
    def steps() -> list[str]:
        return next(
            line.split() for line in reversed(page_text(app).splitlines()) if re.fullmatch(r"[ \d,]+\d *", line)
        )

    async with running(app_over(*runs), SIZE) as (app, pilot):
        app.marked = [str(path) for path in runs]
        await press(pilot, "o")
        assert int(steps()[0]) <= 50
        await press(pilot, "plus", "plus")
        assert app.page is not None and app.page.window == (151, 200)
        assert int(steps()[0]) > 150
        await press(pilot, "shift+left")
        assert app.page.window == (139, 188)
        assert "reward  by step" in page_text(app), "the metric is the same"
        app.page.show_window(40, 80, app.moment)
        await press(pilot, "l", "f")
        assert app.page.window == (40, 80)
        assert "range locked" in page_text(app)
        await press(pilot, "0", "right", "A", "plus")
        assert "by tokens" in page_text(app)
        assert app.page.window == (101, 200)


async def test_a_run_whose_newest_value_is_no_number_says_so_wherever_runs_are_compared(tmp_path: Path) -> None:
    paths = []
    for name, last in (("well", 120), ("broken", 100)):
        (tmp_path / name).mkdir()
        rows = ({"step": n, "reward": 0.5 if n <= last else math.nan} for n in range(1, 121))
        paths.append(write_rows(tmp_path / name / "metrics.jsonl", rows))
    async with running(app_over(*paths), SIZE) as (app, pilot):
        assert re.search(r" broken +120 .* NaN ", page_text(app)) and re.search(
            r" well +120 .* 0\.500 ", page_text(app)
        )
        app.marked = [str(path) for path in paths]
        await press(pilot, "o")
        assert re.search(r"^ 2  broken .* NaN ", page_text(app), re.MULTILINE)
        assert "1 well 0.500   2 broken NaN" in page_text(app)
        assert "2  reward NaN since step 101" in page_text(app)
        await press(pilot, "b")
        assert "1  reward of the baseline NaN since step 101" in page_text(app)
        app.cursor.show(90)
        await pilot.pause()
        assert "2 broken 0.500" in page_text(app)


async def test_a_window_on_another_axis_is_the_same_stretch_of_it_in_every_run(tmp_path: Path) -> None:
    for name, tokens in (("slow", 100.0), ("fast", 200.0)):
        write_rows(
            tmp_path / f"{name}.jsonl",
            [{"step": n, "data": {"actor/entropy": 1.0, "perf/total_num_tokens": tokens}} for n in range(1, 101)],
        )
    async with running(app_over(tmp_path / "slow.jsonl", tmp_path / "fast.jsonl"), SIZE) as (app, _):
        app.marked = [run.path.raw for run in app.session.runs]
        runs = compared_runs(app.moment)
        built = build_overlay(runs, ("entropy", ""), Axis.TOKENS, columns=80, zoom=Zoom(50, 60))
        low, high = built[0].span or (0.0, 0.0)
        assert len(built[0].series) == 2
        for one in built[0].series:
            assert one.curve.steps[0] == pytest.approx(low, rel=0.05)
            assert one.curve.steps[-1] == pytest.approx(high, rel=0.05)


async def test_the_value_of_a_run_that_ends_early_says_its_step(tmp_path: Path) -> None:
    short, long = write_run(tmp_path, "short", 1, length=60), write_run(tmp_path, "long", 2, length=100)
    async with running(app_over(long, short), SIZE) as (app, pilot):
        await compare(app, pilot, [long, short])
        assert re.search(r" 1 long [0-9.]+   2 short [0-9.]+ @60$", page_text(app), re.MULTILINE)
        app.cursor.show(80)
        await pilot.pause()
        assert re.search(r" 1 long [0-9.]+   2 short [0-9.]+ @60   │ step 80", page_text(app))
        await press(pilot, "colon", *"70-90", "enter")
        assert "1 without it in this window" in page_text(app)
        await press(pilot, "0", "colon", *"120", "enter")
        assert "step 120 is not in 1–100 of long: the nearest one is shown" in status_text(app)
        app.cursor.show(50)
        await pilot.pause()
        assert re.search(r" 2 short [0-9.]+   │ step 50", page_text(app)), "it was still running"
        app.cursor.go_live()
        await pilot.resize_terminal(80, 24)
        await press(pilot, "v")
        assert page_text(app).splitlines()[1] == " 1 long  2 short @60"
        assert re.search(r"^   reward  1 [0-9.]+  2 [0-9.]+ ", page_text(app), re.MULTILINE)
    report = tmp_path / "report.html"
    assert main(["report", str(long), str(short), "-o", str(report)]) == EXIT_OK
    assert re.search(r"<span[^>]*>0\.[0-9]+</span><span[^>]*> @60 \(", report.read_text())
