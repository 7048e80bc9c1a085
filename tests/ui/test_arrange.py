"""Pinning, ordering, naming and hiding rows from the screen, and where that is kept."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from screens import app_over, page_text, press, running, session_over, status_text, write_rows

from rltop.pages.metric import MetricPage
from rltop.pages.overview import build_overview
from rltop.pages.page import Push
from rltop.run.options import IngestOptions
from rltop.run.preferences import load_rows
from rltop.run.snapshot import Snapshot

SIZE = (120, 40)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "outputs" / "one"
    folder.mkdir(parents=True)
    made = [
        {"step": step, "reward": 0.5, "kl": 0.01, "completions/mean_length": 80.0, "loss": 0.2, "grad_norm": 0.4,
         "my/own": step, "other": 3.0}
        for step in range(1, 41)
    ]  # fmt: skip
    return write_rows(folder / "metrics.jsonl", made)


def kept(tmp_path: Path) -> dict[str, object]:
    told = tomllib.loads((tmp_path / "state" / "rltop" / "rows.toml").read_text())
    found = told[str(tmp_path / "outputs")]
    assert isinstance(found, dict)
    return found


def titles(text: str, top: str) -> list[str]:
    """The words of the rows below a head, up to the first empty one."""
    lines = text.splitlines()
    begin = next(number for number, line in enumerate(lines) if top in line) + 1
    return [line.split("  ")[0].strip() for line in (one.strip() for one in lines[begin:]) if line]


def test_a_hidden_row_leaves_the_headline_as_it_was(tmp_path: Path) -> None:
    rows = [{"step": step, "reward": step / 100, "kl": 0.01, "loss": 0.2} for step in range(1, 41)]
    session = session_over(write_rows(tmp_path / "metrics.jsonl", rows))
    session.drain()
    (one,) = session.runs
    before = build_overview(Snapshot(one)).sentence
    one.arrangement = one.arrangement.with_hiding_toggled("reward")
    view = build_overview(Snapshot(one))
    assert "reward 0.01" in before.text.raw and view.sentence == before
    assert "reward" not in [row.reading.signal.key for row in view.rows]


async def test_a_metric_is_pinned_from_its_chart_and_comes_first_everywhere(run: Path, tmp_path: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        assert "my/own" not in titles(page_text(app), "vs base")[:5]
        app.carry_out(Push(MetricPage("my/own")))
        await press(pilot, "p")
        assert status_text(app) == "pinned to the top of the overview: my/own"
        assert "pinned" in page_text(app).splitlines()[0]
        assert kept(tmp_path) == {"pinned": ["my/own"], "hidden": []}
        await press(pilot, "escape")
        assert titles(page_text(app), "vs base")[0] == "own"
        await press(pilot, "m")
        assert page_text(app).splitlines()[1].split() == ["▾", "Pinned", "1"]
        assert page_text(app).splitlines()[2].split()[0] == "my/own"
        await press(pilot, "v")
        assert page_text(app).splitlines()[1].split()[0] == "own"
        await press(pilot, "v", "down", "p")
        assert status_text(app) == "no longer pinned: my/own"
    # Another session of the same project begins as this one ended.
    session = session_over(run, ingest=IngestOptions(rows=load_rows({})))
    assert session.runs[0].arrangement.pinned == ()


async def test_rows_are_ordered_named_and_hidden_on_their_page(run: Path, tmp_path: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await press(pilot, "P")
        assert "ROWS OF THE OVERVIEW" in page_text(app)
        # The first two are pinned, then the second one is moved up.
        await press(pilot, "p", "down", "p")
        first, second = kept(tmp_path)["pinned"]  # type: ignore[misc]
        await press(pilot, "K")
        assert kept(tmp_path)["pinned"] == [second, first]
        await press(pilot, "K")
        assert status_text(app) == "it is at the end of the pinned rows already"
        await press(pilot, "enter", *["ctrl+u"], *"mine", "enter")
        assert kept(tmp_path)["names"] == {second: "mine"}
        await press(pilot, "down", "down", "J")
        assert status_text(app) == "only pinned rows can be moved: p pins this one"
        await press(pilot, "H")
        (hidden,) = kept(tmp_path)["hidden"]  # type: ignore[misc]
        await press(pilot, "escape")
        view = build_overview(app.moment.snapshot)
        assert view.rows[0].title == "mine"
        assert hidden not in {row.reading.signal.key for row in (*view.rows, *view.more)}
        # An empty name is the title again.
        await press(pilot, "P", "enter", "ctrl+u", "enter")
        assert "names" not in kept(tmp_path)


async def test_what_can_not_be_kept_is_said(run: Path, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder would be")
    async with running(app_over(run), SIZE) as (app, pilot):
        app.carry_out(Push(MetricPage("loss")))
        await press(pilot, "p")
        assert status_text(app).startswith("cannot be kept: ")
        assert app.followed.arrangement.pinned == ()


async def test_without_a_metric_there_is_nothing_to_pin(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await press(pilot, "e", "p")
        assert status_text(app) == "no metric is selected: select one to pin it"


async def test_numbers_stand_under_one_another_and_their_units_behind_them(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        await press(pilot, "P")
        _, head, *lines = page_text(app).splitlines()
        end = head.index("last") + len("last")
        found = {line[:end].split()[-1]: line[end:].strip() for line in lines if line.strip()}
        assert (found["0.500"], found["80.0"]) == ("", "tok")


def test_a_run_gets_the_rows_of_the_nearest_project_and_none_from_a_broken_file(run: Path, tmp_path: Path) -> None:
    outer, inner = str(tmp_path), str(tmp_path / "outputs")
    rows = load_rows({outer: {"pinned": ["loss", "loss", "gone"]}, inner: {"pinned": ["kl"], "hidden": ["loss", "kl"]}})
    session = session_over(run, ingest=IngestOptions(rows=rows))
    session.drain()
    assert session.runs[0].arrangement == rows[inner]
    assert (rows[outer].pinned, rows[inner].hidden) == (("loss", "gone"), ("loss",))
    shown = [row.reading.signal.key for row in build_overview(Snapshot(session.runs[0])).rows]
    assert shown[0] == "kl" and "loss" not in shown
    file = tmp_path / "state" / "rltop" / "rows.toml"
    file.parent.mkdir(parents=True)
    for broken in ("not toml [", f'["{inner}"]\npinned = "kl"\n', f'["{inner}".names]\nkl = 3\n'):
        file.write_text(broken)
        assert load_rows({}) == {}


def test_two_sessions_that_are_open_at_once_keep_each_others_pins(run: Path, tmp_path: Path) -> None:
    one, other = session_over(run), session_over(run)
    for session, key in ((one, "loss"), (other, "kl"), (one, "other")):
        (shown,) = session.runs
        session.arrange(shown, shown.arrangement.with_pin_toggled(key))
        assert key in shown.arrangement.pinned
    assert sorted(kept(tmp_path)["pinned"]) == ["kl", "loss", "other"]  # type: ignore[call-overload]
    (shown,) = other.runs
    other.arrange(shown, shown.arrangement.with_pin_toggled("loss"))
    assert sorted(kept(tmp_path)["pinned"]) == ["kl", "other"]  # type: ignore[call-overload]
    (shown,) = one.runs
    one.arrange(shown, shown.arrangement.with_pin_toggled("grad_norm"))
    assert sorted(kept(tmp_path)["pinned"]) == ["grad_norm", "kl", "other"]  # type: ignore[call-overload]
