"""How long do charts of five runs of 20,000 steps take: to open, and to move the cursor in?

    python bench/bench_overlay.py [--runs 5] [--steps 20000] [--moves 60]

In one process, without a terminal: from the key's action until the picture is composed. The chart of a metric has the
marked runs over it. Half of the moves go on from the newest steps, half from the middle of the run. Where a page opens,
no chart has been drawn before.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import orjson
from bounds import percentile, stands
from made import key_names, lines
from textual.pilot import Pilot

from rltop.app import plot_pane
from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.cli.open_session import direct, runs_of
from rltop.clock import Clock
from rltop.pages.compare import ComparePage
from rltop.pages.metric import MetricPage
from rltop.pages.overlay import GridPage
from rltop.pages.page import Page, Push
from rltop.run.options import IngestOptions
from rltop.run.session import Session

SIZE = (120, 40)
KEYS = 40
KEY = "actor/entropy"
OPENS_MS = 300.0
MOVES_MS = 50.0
OPENINGS = 5

PAGES: Sequence[tuple[str, Callable[[], Page]]] = (
    ("one metric, the other runs over it", lambda: MetricPage(KEY)),
    ("the page of charts, the other runs over all", GridPage),
    ("the runs compared", ComparePage),
)


def write_runs(folder: Path, runs: int, steps: int) -> None:
    """Write runs that are different parts of one long series, each shorter than the previous one."""
    rows = [orjson.loads(line)["data"] for line in lines(KEYS, 2 * steps)]
    for number in range(runs):
        path = folder / f"run{number}" / "metrics.jsonl"
        path.parent.mkdir()
        start = number * steps // runs
        path.write_bytes(
            b"".join(
                orjson.dumps({"step": step, "data": row}) + b"\n"
                for step, row in enumerate(rows[start : start + steps - 10 * number], 1)
            )
        )


async def shown_ms(app: RltopApp, act: Callable[[], object]) -> float:
    """Milliseconds from an action until the resulting frame is composed."""
    done = asyncio.Event()
    began = time.perf_counter()
    act()
    # Deferred calls of the action come first.
    app.call_later(lambda: app.screen.call_after_refresh(done.set))
    await done.wait()
    return (time.perf_counter() - began) * 1000


async def times(pilot: Pilot[int], make: Callable[[], Page], moves: int) -> tuple[list[float], list[float]]:
    """Milliseconds to open a page, and to move the cursor in it."""
    app = pilot.app
    assert isinstance(app, RltopApp)
    opened, moved = [], []
    newest = app.followed.main.stream.last_step or 0
    for number in range(OPENINGS):
        plot_pane._picture.cache_clear()
        opened.append(await shown_ms(app, lambda: app.carry_out(Push(make()))))
        if number < OPENINGS - 1:
            app.pop_screen()
            await pilot.pause()
    for start in (newest, newest // 2):
        app.cursor.show(start)
        await pilot.pause()
        moved += [await shown_ms(app, lambda: app.action_travel(-1)) for _ in range(moves // 2)]
    app.action_live()
    app.pop_screen()
    await pilot.pause()
    return opened, moved


async def table(session: Session, moves: int) -> list[str]:
    rows = []
    app = RltopApp(session, UiOptions(themes_folder=Path("/nonexistent")))
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        app.marked = [run.path.raw for run in session.runs]
        await app.follow(session.runs[0].path.raw)
        await pilot.pause()
        for name, make in PAGES:
            opened, moved = await times(pilot, make, moves)
            for what, found, bound in (("opens", opened, OPENS_MS), ("moves", moved, MOVES_MS)):
                middle = median(found)
                rows.append(
                    f"| {name} | {what} | {middle:.0f} | {percentile(found, 0.95):.0f} | {bound:.0f} | "
                    f"{stands(middle, bound)} |"
                )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=20_000)
    parser.add_argument("--moves", type=int, default=60)
    arguments = parser.parse_args()
    assert KEY in key_names(KEYS)
    with tempfile.TemporaryDirectory() as folder:
        write_runs(Path(folder), arguments.runs, arguments.steps)
        clock = Clock()
        session = Session(list(runs_of(folder)), direct(clock), clock, IngestOptions())
        session.drain()
        rows = asyncio.run(table(session, arguments.moves))
        session.close()
    print(f"{arguments.runs} runs × {arguments.steps:,} steps × {KEYS} keys, {SIZE[0]}×{SIZE[1]}:\n")
    print("| page | what | median ms | 95 % ms | bound | |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
