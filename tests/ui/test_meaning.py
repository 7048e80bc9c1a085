"""Saying on the screen what a key means: from a guess to a metric that is judged, and back."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from screens import app_over, page_text, press, running, status_text, write_rows

from rltop.cli import main
from rltop.pages.metric import MetricPage
from rltop.pages.page import Push

SIZE = (120, 40)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "outputs" / "one"
    folder.mkdir(parents=True)
    made = [{"step": step, "my/rew": 0.5 + step / 500, "x/y": step} for step in range(1, 41)]
    return write_rows(folder / "metrics.jsonl", made)


async def test_a_guess_is_confirmed(run: Path, tmp_path: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        assert "reward?" in page_text(app)
        app.carry_out(Push(MetricPage("my/rew")))
        await pilot.pause()
        await press(pilot, "M")
        assert "WHAT IS my/rew?" in page_text(app)
        assert page_text(app).splitlines()[2].split() == ["reward", "reward_mean", "guessed"]
        await press(pilot, "enter")
        app.session.drain()
        identity = app.followed.main.identity
        signal = identity.primary("reward_mean")
        assert signal is not None and signal.key == "my/rew"
        said = tomllib.loads((tmp_path / "state" / "rltop" / "metrics.toml").read_text())
        assert said == {str(tmp_path / "outputs"): {"my/rew": "reward_mean"}}

        await press(pilot, "M", "down", "down")
        await press(pilot, "enter")
        app.session.drain()
        identity = app.followed.main.identity
        assert identity is not None and "reward_mean" in identity.guesses
        assert tomllib.loads((tmp_path / "state" / "rltop" / "metrics.toml").read_text()) == {}


async def test_a_key_without_a_guess_is_found_a_metric_by_typing(run: Path) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        app.carry_out(Push(MetricPage("x/y")))
        await pilot.pause()
        # Enter leaves the filter, and then chooses.
        await press(pilot, "M", "slash", *"queue", "enter", "enter")
        app.session.drain()
        identity = app.followed.main.identity
        signal = identity.primary("queue_size")
        assert signal is not None and signal.key == "x/y"


async def test_a_share_that_is_logged_in_percent_is_read_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    folder = tmp_path / "outputs" / "one"
    folder.mkdir(parents=True)
    made = [{"step": step, "my/accuracy": 20.0 + step, "fwd_ms": 1500.0} for step in range(1, 41)]
    async with running(app_over(write_rows(folder / "metrics.jsonl", made)), SIZE) as (app, pilot):
        app.carry_out(Push(MetricPage("my/accuracy")))
        await pilot.pause()
        await press(pilot, "M")
        shown = [line.split() for line in page_text(app).splitlines()[2:4]]
        assert shown == [
            ["success", "rate", "success_frac", "/", "100", "logged", "in", "percent"],
            ["success", "rate", "success_frac", "guessed"],
        ]
        await press(pilot, "enter")
        app.session.drain()
        identity = app.followed.main.identity
        signal = identity.primary("success_frac")
        assert signal is not None and signal.read(60.0) == pytest.approx(0.6)
        assert not identity.refused
        await press(pilot, "M")
        assert page_text(app).splitlines()[2].split()[-4:] == ["now,", "logged", "in", "percent"]
        await press(pilot, "escape", "escape")
        app.carry_out(Push(MetricPage("fwd_ms")))
        await pilot.pause()
        await press(pilot, "M", "slash", *"time_step")
        assert "time_step / 1000" in page_text(app)
    assert main(["config"]) == 0
    assert '"my/accuracy" = "success_frac / 100"' in capsys.readouterr().out


async def test_why_it_cannot_be_kept_is_said_as_it_stands(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(app_over(run), SIZE) as (app, pilot):
        app.carry_out(Push(MetricPage("my/rew")))
        await press(pilot, "M")

        def refuse(*_: object) -> None:
            raise OSError("no room in [/b] for reward[mean]")

        monkeypatch.setattr(app.session, "mean", refuse)
        await press(pilot, "enter")
        assert status_text(app) == "cannot be kept: no room in [/b] for reward[mean]"
