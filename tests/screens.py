"""An application over a real session, for tests that press keys."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from copied_sessions import copied
from textual import events
from textual.command import CommandList
from textual.css.query import NoMatches
from textual.pilot import Pilot

from rltop import resources
from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.app.page_screen import PageScreen
from rltop.clock import FakeClock
from rltop.run.options import IngestOptions
from rltop.run.places import FoundRun, name_of
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed

NO_THEMES = Path("/nonexistent")

FIXTURES = resources.folder("fixtures")
RECORDED = FIXTURES / "verl" / "tool_slowdown" / "metrics.jsonl"


def session_over(*paths: Path, clock: FakeClock | None = None, ingest: IngestOptions | None = None) -> Session:
    """A session that reads only when the caller steps it."""
    clock = clock or FakeClock()
    ingest = ingest or IngestOptions()
    found = [FoundRun(str(path), name_of(str(path)), path.stat().st_size) for path in paths]
    return Session(found, lambda path, last: DirectFeed(path, clock=clock, last=last), clock, ingest)


def read_settings(session: Session) -> None:
    """Look for the settings of all runs, as the program does, and wait for them."""
    session.look_for_settings()
    for thread in threading.enumerate():
        if thread.name == "settings":
            thread.join(60.0)


def app_over(
    *paths: Path,
    options: UiOptions | None = None,
    clock: FakeClock | None = None,
    ingest: IngestOptions | None = None,
    may_copy: bool = False,
) -> RltopApp:
    """An application over files, read before it starts; its clock stands still.

    Args:
        may_copy: share the session with other tests of these files; only if none changes the files.
    """
    if clock is None and ingest is None and (may_copy or all(FIXTURES in path.parents for path in paths)):
        session, clock = copied(*paths)
    else:
        clock = clock or FakeClock()
        session = session_over(*paths, clock=clock, ingest=ingest)
        session.drain()
    return RltopApp(session, options or UiOptions(themes_folder=NO_THEMES), clock=clock)


@asynccontextmanager
async def running(app: RltopApp, size: tuple[int, int]) -> AsyncIterator[tuple[RltopApp, Pilot[int]]]:
    """An application on a screen of this size, once it has drawn itself."""
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        yield app, pilot


def write_rows(path: Path, rows: Iterable[Mapping[str, object]], *, mode: str = "w") -> Path:
    """JSON lines as a trainer writes them."""
    with path.open(mode) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


def screen_of(app: RltopApp) -> PageScreen:
    """The screen on top, which must show a page."""
    assert isinstance(app.screen, PageScreen)
    return app.screen


def page_text(app: RltopApp) -> str:
    """The rows of the page on top as plain text."""
    board = screen_of(app).board
    return "\n".join(board.render_line(y).text.rstrip() for y in range(board.size.height))


def status_text(app: RltopApp) -> str:
    return screen_of(app).status.render_line(0).text.strip()


async def press(pilot: Pilot[int], *keys: str) -> None:
    """Press keys one by one, each after the previous one has taken effect."""
    for key in keys:
        await pilot.press(key)
        await pilot.pause()


async def until(pilot: Pilot[int], is_so: Callable[[], object], what: str = "it") -> None:
    """Wait until `is_so` holds; fails if it never does."""
    for _ in range(1_500):
        with suppress(NoMatches):  # a page that is just being opened has no parts yet
            if is_so():
                return
        await pilot.pause(0.02)
    raise AssertionError(f"{what} did not come to be: {pilot.app.screen} {pilot.app.focused}")


async def ask_palette(pilot: Pilot[int], text: str) -> None:
    """Open the palette and paste a text; returns once the first result contains every word of it."""
    await press(pilot, "ctrl+p")
    palette = pilot.app.screen
    pilot.app.post_message(events.Paste(text))
    offered = palette.query_one(CommandList)

    def is_found() -> bool:
        is_searching = any(worker.node is palette for worker in pilot.app.workers)
        first = str(offered.get_option_at_index(0).prompt).casefold() if offered.option_count else ""
        return not is_searching and all(word in first for word in text.split())

    await until(pilot, is_found, f"what there is of {text!r}")
