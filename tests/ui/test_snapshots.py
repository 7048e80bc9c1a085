"""The whole screen, footer and colours included, as SVG: what no test of single rows sees.

Few on purpose. The recording ships with the project, the clock stands still, and
the picture holds no path and no duration of this machine. After a change that is
meant: `make snapshots`, and look at what has changed.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from screens import NO_THEMES, RECORDED, app_over, press
from textual.pilot import Pilot

from rltop.app.options import UiOptions
from rltop.app.page_screen import PageScreen
from rltop.clock import FakeClock
from rltop.rows.rows import Target, TargetKind

WRITTEN_S = 1_700_000_000.0
"""When the recording was written, as far as these tests go."""
CHANGED = "look at snapshot_report.html; if the screen is as it should be, run: make snapshots"

KL = Target(TargetKind.METRIC, "actor/kl_loss")


async def settle(pilot: Pilot[int]) -> None:
    """Wait until the footer has been composed for the last keys."""
    for _ in range(3):
        await pilot.pause()


async def press_and_settle(pilot: Pilot[int], *keys: str) -> None:
    await press(pilot, *keys)
    await settle(pilot)


async def open_chart(pilot: Pilot[int]) -> None:
    page = pilot.app.screen
    assert isinstance(page, PageScreen)
    page.board.select(KL)
    await press_and_settle(pilot, "enter")


async def open_verdict_of_the_past(pilot: Pilot[int]) -> None:
    await press_and_settle(pilot, "comma", "comma", "a")


async def open_filter(pilot: Pilot[int]) -> None:
    await press_and_settle(pilot, "slash", "k", "l")


async def open_timing(pilot: Pilot[int]) -> None:
    await press_and_settle(pilot, "t")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A copy of the recording that is as old on every machine; its name is its folder's."""
    path = tmp_path / RECORDED.parent.name / RECORDED.name
    path.parent.mkdir()
    shutil.copyfile(RECORDED, path)
    os.utime(path, (WRITTEN_S, WRITTEN_S))
    return path


@pytest.mark.parametrize(
    ("size", "run_before"),
    [
        pytest.param((120, 40), settle, id="overview-120x40"),
        pytest.param((80, 24), settle, id="overview-80x24"),
        pytest.param((120, 40), open_chart, id="chart-120x40"),
        pytest.param((80, 24), open_verdict_of_the_past, id="past-verdict-80x24"),
        pytest.param((120, 40), open_timing, id="timing-120x40"),
        pytest.param((80, 24), open_filter, id="filter-80x24"),
    ],
)
def test_the_screen(snap_compare, recording: Path, size: tuple[int, int], run_before) -> None:  # type: ignore[no-untyped-def]
    app = app_over(recording, clock=FakeClock(WRITTEN_S + 3600.0))
    assert snap_compare(app, terminal_size=size, run_before=run_before), CHANGED


def test_the_screen_in_ascii_and_the_terminals_own_colours(snap_compare, recording: Path) -> None:  # type: ignore[no-untyped-def]
    options = UiOptions(theme="terminal", is_ascii=True, themes_folder=NO_THEMES)
    app = app_over(recording, options=options, clock=FakeClock(WRITTEN_S + 3600.0))
    assert snap_compare(app, terminal_size=(80, 24), run_before=settle), CHANGED
