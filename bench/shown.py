"""Everything that rltop shows of some inputs, as lines of JSON, to be compared with another commit.

    python bench/shown.py PATH… [--sizes 80x24,120x40,200x60]

Each file is read to its end and shown in the running application, without a terminal: every page at the newest step,
and the pages that show a step at the first alarm, in the middle, before and after a restart, and where memory is
downsampled. A line is one page: where, its rows with roles and targets, what is selected and what of it stands beside,
and its status line. The documents of `check --json` and `--once --json` come first. A file of 2 MB is shown as a
preview too.

No clock has a say, so that the same commit always shows the same: time is counted in the timers of the event loop
(`Instant`), and what threads would read is read at once (`in_place`).

It goes with the commit that it lies in: `kept.py` runs the one of each side.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import textual._time
from textual.screen import Screen

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.app.page_screen import PageScreen
from rltop.cli.open_session import direct, runs_of
from rltop.clock import FakeClock
from rltop.errors import RltopError
from rltop.files import Worker
from rltop.model import Level
from rltop.report.document import check_document, dumps
from rltop.report.overview_document import once_document
from rltop.rows.rows import Row, Target, TargetKind
from rltop.run.options import IngestOptions
from rltop.run.places import FoundRun
from rltop.run.session import PREVIEW_FROM_BYTES, Session
from rltop.run.snapshot import Snapshot
from rltop.screen.row_view import RowView

SIZES = ((80, 24), (120, 40), (200, 60))
PAGES = {
    "overview": (),
    "timing": ("t",),
    "metrics": ("m",),
    "metric": ("m", "down", "enter"),
    "events": ("e",),
    "changed": ("c",),
    "verdict": ("a",),
    "next verdict": ("a", "a"),
    "rollouts": ("R",),
    "completions": ("R", "enter"),
    "help": ("question_mark",),
}
"""Every page by its keys from the overview, because keys are stable, but names in the code are not."""
STEP_PAGES = ("overview", "timing", "metric", "changed", "verdict")
REST_S = 1.5
"""Longer than any delay before the application draws."""
STAY = ("rollouts", "console log", "probe")
"""Workers that run as long as the program, so they are not waited for."""


class Instant(asyncio.SelectorEventLoop):
    """An event loop without a clock: when idle, its time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._wait, self._selector.select = self._selector.select, self._pass  # type: ignore[attr-defined]
        textual._time.get_time = self.time

    def time(self) -> float:
        return self._now_s

    def _pass(self, timeout_s: float | None) -> Any:
        self._now_s += timeout_s or 0.0
        return self._wait(None if timeout_s is None else 0.0)


def in_place(worker: Worker, work: Callable[[], object]) -> None:
    """Run the work of a worker synchronously."""
    if worker._name not in STAY:
        work()


def unpainted(screen: Screen[Any]) -> None:
    """Compute all rows but render no cells, which would be half of the work and is not compared."""
    for view in screen.query(RowView):
        view.settle()
    screen._dirty_widgets.clear()


Worker.start = in_place  # type: ignore[method-assign]
Screen._compositor_refresh = unpainted  # type: ignore[method-assign]


def session_of(found: FoundRun, clock: FakeClock, *, has_preview: bool = False) -> Session:
    """A session over one run that has not read anything yet."""
    return Session([found], direct(clock), clock, IngestOptions(has_preview=has_preview))


def positions(session: Session) -> dict[str, int]:
    """Interesting steps, by reason."""
    run = session.runs[0]
    stream = run.main.stream
    steps = stream.steps()
    if len(steps) < 3:
        return {}
    found = {"middle": steps[len(steps) // 2]}
    alarms = [event.step for event in run.events if event.level >= Level.WARN and not event.stream]
    if alarms:
        found["first alarm"] = alarms[0]
    for restart in stream.restarts[:1]:
        found["before a restart"], found["after a restart"] = restart - 1, restart
    first = stream.first_step
    if first is not None and steps[0] > first:
        found["downsampled"] = (first + steps[0]) // 2
    return found


def told(rows: Any) -> list[dict[str, Any]]:
    """Rows as data: pieces of text with their roles, and links."""
    return [_row(row) for row in rows]


def _row(row: Row) -> dict[str, Any]:
    return {
        "pieces": [[text, role] for text, role in row.line],
        "targets": [[hot.start, hot.stop, *_target(hot.target)] for hot in row.links],
    }


def _target(target: Target) -> list[Any]:
    return [target.kind.value, target.name, target.step, target.stream]


@asynccontextmanager
async def shown(session: Session, size: tuple[int, int]) -> AsyncIterator[RltopApp]:
    """Run the application over a session at a size."""
    session.runs[0].rollouts = None
    app = RltopApp(session, UiOptions(themes_folder=Path("/nonexistent")), clock=FakeClock())
    async with app.run_test(size=size):
        await asyncio.sleep(REST_S)
        yield app


async def press(app: RltopApp, key: str) -> None:
    """Press a key and wait until the application has handled it."""
    app.simulate_key(key)
    await asyncio.sleep(REST_S)
    shelf = app.followed.rollouts
    if key in ("R", "enter") and shelf is not None:
        shelf.sum_up()
        shelf.settle(app.cursor.at_step)
        app.draw()
        await asyncio.sleep(REST_S)


async def pages(session: Session, size: tuple[int, int]) -> AsyncIterator[dict[str, Any]]:
    """Every page at the newest step, then some at other steps; then those of other streams, and the ranks."""
    async with shown(session, size) as app:
        for where in (None, *positions(session).items()):
            for name in PAGES if where is None else STEP_PAGES:
                app.cursor.show(None if where is None else where[1])
                for key in PAGES[name]:
                    await press(app, key)
                await asyncio.sleep(REST_S)
                yield {"page": name, "at": "newest" if where is None else where[0], **caught(app)}
                await to_overview(app)
        for name, target in other_streams(session):
            app.cursor.show(None)
            app.open(target)
            await asyncio.sleep(REST_S)
            yield {"page": name, "at": "newest", **caught(app)}
            await to_overview(app)


def other_streams(session: Session) -> Iterator[tuple[str, Target]]:
    """The first metric of every other stream, and the ranks."""
    run = session.runs[0]
    for part in run.other_streams[:4]:
        if part.stream.keys:
            yield f"stream {part.role}", Target(TargetKind.METRIC, part.stream.keys[0], None, part.role)
    if run.ranks is not None:
        yield "ranks", Target(TargetKind.RANKS)


def caught(app: RltopApp) -> dict[str, Any]:
    """The content of the page on top."""
    page, size = app.screen, f"{app.size.width}x{app.size.height}"
    if not isinstance(page, PageScreen):
        return {"size": size, "rows": [], "status": type(page).__name__}
    views = {view.id: view for view in page.query(RowView)}
    for view in views.values():
        view.settle()
    selected = page.board.selection.target
    return {
        "size": size,
        "rows": told(page.board.rows),
        "selected": _target(selected) if selected is not None else None,
        "detail": told(views["detail"].rows) if "detail" in views else [],
        "status": told(page.status.rows),
    }


async def to_overview(app: RltopApp) -> None:
    """Close all pages over the overview."""
    while len(app.screen_stack) > 1 or app.current_mode != app.DEFAULT_MODE:
        await press(app, "escape")


def documents(found: FoundRun) -> Iterator[dict[str, Any]]:
    """The output of `check --json` and `--once --json` for a run."""
    for name, document in (("check", check_document), ("once", once_document)):
        session = session_of(found, FakeClock())
        session.drain()
        yield {"document": name, "says": json.loads(dumps(document(Snapshot(session.runs[0]))))}
        session.close()


async def show(path: str, sizes: list[tuple[int, int]]) -> None:
    """Print everything of the runs in a file or a directory."""
    try:
        runs = sorted(runs_of(path), key=lambda found: found.path)
    except RltopError as error:
        put(path, {"document": "refusal", "says": str(error)})
        return
    for found in runs:
        await show_run(found, sizes)


def put(path: str, line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"file": path, **line}, ensure_ascii=False, sort_keys=True) + "\n")


async def show_run(found: FoundRun, sizes: list[tuple[int, int]]) -> None:
    for document in documents(found):
        put(found.path, document)
    session = session_of(found, FakeClock())
    session.drain()
    for size in sizes:
        async for page in pages(session, size):
            put(found.path, page)
    session.close()
    if found.size >= PREVIEW_FROM_BYTES:
        session = session_of(found, FakeClock(), has_preview=True)
        session.read_newest(60_000.0)
        session.step = lambda budget_ms: False  # type: ignore[method-assign]
        async with shown(session, sizes[0]) as app:
            put(found.path, {"page": "preview", "at": "newest", **caught(app)})
        session.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="+")
    parser.add_argument("--sizes", default=",".join(f"{width}x{height}" for width, height in SIZES))
    arguments = parser.parse_args()
    os.environ.setdefault("TZ", "UTC")
    sizes = [(int(width), int(height)) for width, height in (one.split("x") for one in arguments.sizes.split(","))]
    with asyncio.Runner(loop_factory=Instant) as runner:
        for path in arguments.paths:
            runner.run(show(path, sizes))
    return 0


if __name__ == "__main__":
    sys.exit(main())
