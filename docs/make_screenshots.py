"""Draws docs/screenshots/*.svg: `make screenshots`.

Drives the real application over a bundled recording, played live by a clock that
stands still for each picture: the same code gives the same bytes on any machine.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from picture import Cell, Look, picture
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.clock import FakeClock
from rltop.model import Label
from rltop.resources import folder
from rltop.rows.rows import Target, TargetKind
from rltop.run.discover import Found
from rltop.run.options import IngestOptions
from rltop.run.session import Session
from rltop.sources.replay import ReplayFeed, ReplayOptions

TARGET = Path(__file__).with_name("screenshots")
STEP = 147
"""The step on the screen: time is lost since 97, and the policy has begun to leave the reference at 140."""
SEEN_S = 12.0
"""How long ago its row came."""
NO_THEMES = Path("/nonexistent")
"""Only the themes that ship: the person's own do not belong into the documentation."""


@dataclass(frozen=True)
class Scene:
    """A recording that ships: where it is, what it is called, the step that has just been written, and the last one."""

    path: Path
    name: str
    step: int
    total_steps: int


TOOLS = Scene(folder("fixtures") / "verl" / "tool_slowdown" / "metrics.jsonl", "qwen2.5-7b-tools", STEP, 200)
STRAGGLER = Scene(folder("fixtures") / "trl" / "grpo_straggler" / "metrics.jsonl", "toy-grpo", 130, 240)
"""One answer of every group never ends; the completions lie beside the metrics."""
ASYNC = Scene(folder("fixtures") / "trl" / "async_grpo" / "metrics.jsonl", "async-grpo", 30, 60)


@dataclass(frozen=True)
class Shot:
    """One picture: what is opened, which keys are pressed, how large the terminal is."""

    name: str
    title: str
    scene: Scene = TOOLS
    target: Target | None = None
    keys: tuple[str, ...] = ()
    size: tuple[int, int] = (120, 40)
    theme: str = "dark"


SHOTS = (
    Shot("overview", "rltop logs/metrics.jsonl"),
    Shot("overview-80x24", "rltop in 80 × 24", size=(80, 24)),
    Shot("metric", "Enter on a row", target=Target(TargetKind.METRIC, "actor/kl_loss")),
    Shot("timing", "t: where the time of a step goes", keys=("t",)),
    Shot("verdict", "a: the worst verdict", keys=("a",)),
    Shot("thresholds", "Enter on the row rule of an alert", target=Target(TargetKind.RULE, "O11")),
    Shot("changed", "c: what changed around a step", keys=("c",)),
    Shot("events", "e: all events of the run", keys=("e",)),
    Shot("charts", "v: the charts of the overview", keys=("v",)),
    Shot("wide", "from 150 columns what is selected stands beside", size=(200, 60)),
    Shot("rollouts", "R: the groups of a step", STRAGGLER, keys=("R",), size=(100, 24)),
    Shot("completions", "Enter on a group: its completions", STRAGGLER, keys=("R", "enter"), size=(100, 24)),
    Shot("pipeline", "F: who waits for whom", ASYNC, keys=("F",)),
    Shot("metrics", "/ and a part of a key", keys=("slash", *"length", "enter")),
)


def session_at(scene: Scene, clock: FakeClock) -> Session:
    """The recording as it stands when its step has just been written, with its completions if they are there."""
    feeds: list[ReplayFeed] = []

    def open_feed(path: str, last_lines: int | None) -> ReplayFeed:
        del last_lines
        feeds.append(ReplayFeed(path, 1.0, clock, ReplayOptions(warm_start=0.5)))
        return feeds[-1]

    found = Found(str(scene.path), Label.of(scene.name))
    session = Session([found], open_feed, clock, IngestOptions(total_steps=scene.total_steps))
    session.step(1.0)
    while (session.runs[0].stream.last_step or 0) < scene.step:
        wait_s = feeds[0].wait_s
        if wait_s is None:
            raise SystemExit(f"{scene.path} ends before step {scene.step}")
        clock.advance(wait_s + 0.001)
        session.step(1.0)
    clock.advance(SEEN_S)
    session.read_rollouts()
    return session


async def draw(shot: Shot) -> str:
    """The picture as SVG."""
    clock = FakeClock()
    session = session_at(shot.scene, clock)
    app = RltopApp(session, UiOptions(theme=shot.theme, themes_folder=NO_THEMES, has_colour=True), clock=clock)
    async with app.run_test(size=shot.size) as pilot:
        await pilot.pause()
        if shot.target is not None:
            app.open(shot.target)
            await pilot.pause()
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause()
        app.draw()
        if app.shown is not None:
            await app.shown.draw_detail()
        await pilot.pause()
        ink, ground = app.themes.palette.colours["foreground"], app.themes.palette.colours["background"]
        rows = [cells_of(strip, ink, ground) for strip in app.screen._compositor.render_strips()]
    session.close()
    return picture(rows, ground, shot.title)


def cells_of(strip: Strip, ink: str, ground: str) -> list[Cell]:
    """The cells of a row as the screen has them; `ink` and `ground` where a style has none."""
    cells: list[Cell] = []
    for segment in strip:
        style = segment.style or Style.null()
        front = style.color.get_truecolor().hex if style.color and not style.color.is_default else ink
        back = style.bgcolor.get_truecolor().hex if style.bgcolor and not style.bgcolor.is_default else ground
        if style.reverse:
            front, back = back, front
        look = Look(front, back, bool(style.bold), bool(style.italic), bool(style.underline), bool(style.dim))
        for character in segment.text:
            cells += [(character, look), ("", look)][: cell_len(character)]
    return cells


def main(names: list[str]) -> None:
    """Draw the shots called `names`, or all of them."""
    TARGET.mkdir(exist_ok=True)
    for shot in SHOTS:
        if not names or shot.name in names:
            path = TARGET / f"{shot.name}.svg"
            path.write_text(asyncio.run(draw(shot)), encoding="utf-8")
            print(f"{path.name}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
