"""Draws docs/screenshots/*.svg: `make screenshots`.

Drives the real application over a bundled recording, played live by a clock that
stands still for each picture: the same code gives the same bytes on any machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from picture import Cell, Look, picture
from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from rltop.app.app import RltopApp
from rltop.app.options import UiOptions
from rltop.clock import FakeClock
from rltop.live.probe import Device, Fact, InferenceEngine, Job, Process
from rltop.model import Label
from rltop.resources import folder
from rltop.rows.rows import Target, TargetKind
from rltop.run.discover import FoundRun
from rltop.run.options import IngestOptions
from rltop.run.session import Session
from rltop.sources.feed import DirectFeed
from rltop.sources.replay import ReplayFeed

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
class Desk:
    """Recordings that ship, each in a folder of its own with what else lies there, as they stand when the last ended.

    Attributes:
        runs: folder → recording.
        texts: file → what it holds; one of a console is as old as the rows.
        facts: what is told of the job, `seen_s` after the newest row.
        rows: so many of each recording have been written.
        also: keys that every row has besides those of the recording.
    """

    runs: Mapping[str, Path]
    texts: Mapping[str, str]
    facts: Callable[[float], Sequence[Fact]] | None = None
    seen_s: float = SEEN_S
    rows: int = 10_000
    also: Callable[[int], Mapping[str, float]] | None = None


def config(schedule: str, beta: float, tokens: int, seed: int) -> str:
    """Settings of a run as a trainer writes them."""
    return (
        f"model_name_or_path: toy-qwen2-88k\nlearning_rate: 0.0001\nlr_scheduler_type: {schedule}\n"
        f"num_generations: 8\nbeta: {beta:g}\nepsilon: 0.2\ntemperature: 1.0\nmax_steps: 300\n"
        f"per_device_train_batch_size: 8\ngradient_accumulation_steps: 2\nmax_completion_length: {tokens}\n"
        f"loss_type: dapo\nmax_grad_norm: 1.0\nbf16: false\ngradient_checkpointing: false\n"
        f"optim: adamw_torch_fused\nreport_to: none\nseed: {seed}\n"
    )


def console(last_step: int, end: str) -> str:
    """What a run has printed by its last step."""
    lines = ["loading checkpoint shards: 100% 4/4", "starting training: 300 steps, 32 completions each"]
    for step in range(1, last_step + 1):
        lines.append(f"step {step}: generated 32 completions, scored, updated")
        lines += [f"saved checkpoint-{step}"] * (step % 50 == 0)
        if step == 212:
            lines.append("WARNING reward server slow: 9.2 s for a batch, retried")
        if step == 214:
            lines.append("ERROR reward server: connection reset by peer, retried once")
    return "\n".join([*lines, end])


def job(now_s: float) -> Sequence[Fact]:
    """A rank that is still generating, and what the others of a job are in meanwhile."""
    ray, engine, exporter = "node-1:8265", "node-1:8000", "node-1:9400"
    workers = [
        Process(
            ray, now_s - 3.0, "WorkerDict", "generate_sequences" if rank == 5 else "update_actor",
            "generate" if rank == 5 else "train", now_s - (905.0 if rank == 5 else 840.0), rank=rank, pid=4_000 + rank,
            host=f"node-{1 + rank // 4}",
        )
        for rank in range(8)
    ]  # fmt: skip
    devices = [
        Device(
            exporter, now_s - 9.0, f"node-{1 + number // 4}", str(number % 4), 0.02 if number == 5 else 0.99,
            61e9 + 1e9 * number, 80e9, 92.0 if number == 5 else 610.0, 38.0 if number == 5 else 67.0,
        )
        for number in range(8)
    ]  # fmt: skip
    return [
        *workers,
        InferenceEngine(engine, now_s - 2.0, "vLLM 000", 1, 0, 0.04, 0.0, trouble="no new token for 45 s"),
        *devices,
        Job("squeue", now_s - 40.0, "81723", "RUNNING", "node-[1-2]", now_s - 7_200.0, now_s + 3_600.0),
    ]


def ranks(step: int) -> Mapping[str, float]:
    """What a loop of one's own logs of each of its ranks: one of them is slow since step 240, another one's loader."""
    late = 1.4 if step > 240 else 0.0
    times = {f"rank/{n}/step_time": 10.0 + 0.02 * (n * step % 7) + late * (n == 11) for n in range(16)}
    loads = {f"rank/{n}/data_time": 0.3 + 0.005 * ((3 * n + step) % 5) + 0.08 * (n == 2) for n in range(16)}
    return times | loads


class Told:
    """A source that tells the facts of a desk."""

    every_s, patience_s, source = 1.0, 5.0, "node-1:8265"

    def __init__(self, facts: Callable[[float], Sequence[Fact]]) -> None:
        self._facts = facts

    def ask(self, now_s: float) -> Sequence[Fact]:
        """What is told now."""
        return self._facts(now_s)

    def close(self) -> None:
        """Nothing is held open."""


TRL = folder("fixtures") / "trl"
SWEEP = Desk(
    {
        "cosine-kl0.02": TRL / "grpo_healthy" / "metrics.jsonl",
        "constant": TRL / "grpo_restart" / "metrics.jsonl",
        "constant-160-tokens": TRL / "grpo_straggler" / "metrics.jsonl",
    },
    {
        "cosine-kl0.02/config.yaml": config("cosine", 0.02, 32, 15),
        "constant/config.yaml": config("constant", 0.0, 32, 40),
        "constant-160-tokens/config.yaml": config("constant", 0.0, 160, 36),
    },
)
ONE = Desk(
    {"toy-grpo": TRL / "grpo_healthy" / "metrics.jsonl"},
    {
        "toy-grpo/config.yaml": config("cosine", 0.02, 32, 15),
        "toy-grpo/train.log": console(300, "training complete\n"),
    },
)
RANKS = Desk(ONE.runs, {}, also=ranks)
STUCK = Desk(
    ONE.runs,
    {"toy-grpo/train.log": console(200, "Rollout generation:  97%|#########7| 31/32 [00:36<00:05, 8.0it/s]\n")},
    job,
    840.0,
    rows=200,
)


@dataclass(frozen=True)
class Shot:
    """One picture: what is opened, which keys are pressed, how large the terminal is."""

    name: str
    title: str
    scene: Scene | Desk = TOOLS
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
    Shot("text", "Enter on a completion: what it says", STRAGGLER, keys=("R", "enter", "enter"), size=(100, 24)),
    Shot("runs", "rltop RUNS/: several runs", SWEEP),
    Shot("compare", "o: runs beside each other", SWEEP, keys=("o",)),
    Shot("settings", "S: what the run was started with", ONE, keys=("S",), size=(100, 24)),
    Shot("log", "O: the console log", ONE, keys=("O", "left_square_bracket"), size=(100, 24)),
    Shot("where", "W: where the job is", STUCK, keys=("W",)),
    Shot("overlay", "o and names: several metrics in one chart", keys=("o", *"reward", "comma", *"entropy", "enter")),
    Shot("symptom", "a symptom, from the palette", target=Target(TargetKind.SYMPTOM, "kl")),
    Shot(
        "ranks", "Enter on the odd one: keys that differ by a number", RANKS, Target(TargetKind.RANKS), size=(100, 24)
    ),
    Shot(
        "numbered",
        "Enter on such keys: each of them",
        RANKS,
        Target(TargetKind.NUMBERED, "rank/{0…15}/step_time"),
        size=(100, 24),
    ),
    Shot("meaning", "M: which metric a key is", ONE, keys=("m", *("down",) * 3, "M"), size=(100, 24)),
    Shot("rows", "P: which rows the overview has", keys=("P",), size=(100, 24)),
    Shot("help", "?: what a page shows, and every key", keys=("question_mark",)),
    Shot("metrics", "/ and a part of a key", keys=("slash", *"length", "enter")),
)


def session_at(scene: Scene, clock: FakeClock) -> Session:
    """The recording as it stands when its step has just been written, with its completions if they are there."""
    feeds: list[ReplayFeed] = []

    def open_feed(path: str, last_lines: int | None) -> ReplayFeed:
        del last_lines
        feeds.append(ReplayFeed(path, 1.0, clock, warm_start=0.5))
        return feeds[-1]

    found = FoundRun(str(scene.path), Label.of(scene.name))
    session = Session([found], open_feed, clock, IngestOptions(total_steps=scene.total_steps))
    session.step(1.0)
    while (session.runs[0].main.stream.last_step or 0) < scene.step:
        wait_s = feeds[0].wait_s
        if wait_s is None:
            raise SystemExit(f"{scene.path} ends before step {scene.step}")
        clock.advance(wait_s + 0.001)
        session.step(1.0)
    clock.advance(SEEN_S)
    session.read_rollouts()
    return session


def session_of(desk: Desk, clock: FakeClock) -> Session:
    """The runs of a desk, laid out below the working directory and read to their ends."""
    newest_s = 0.0
    for name, recording in desk.runs.items():
        Path(name).mkdir()
        lines = recording.read_text().splitlines(keepends=True)[: desk.rows]
        if desk.also is not None:
            rows = map(json.loads, lines)
            lines = [f"{json.dumps(row | desk.also(row['step']))}\n" for row in rows]
        (Path(name) / "metrics.jsonl").write_text("".join(lines))
        newest_s = max(newest_s, json.loads(lines[-1])["time"])
    for file, text in desk.texts.items():
        Path(file).write_text(text)
        os.utime(file, (newest_s, newest_s))
    clock.advance(newest_s + desk.seen_s - clock.wall())
    found = [FoundRun(f"{name}/metrics.jsonl", Label.of(name)) for name in desk.runs]
    facts = desk.facts
    probes = (lambda _: [Told(facts)]) if facts is not None else None
    log = next(name for name in desk.texts if name.endswith(".log")) if facts is not None else ""
    options = IngestOptions(total_steps=300, probes=probes, log=log)
    session = Session(found, lambda path, last: DirectFeed(path, clock=clock, last=last), clock, options)
    session.drain()
    session.look_for_settings()
    while any(run.settings is None for run in session.runs):
        time.sleep(0.01)
    session.look_for_console(session.runs[0])
    if facts is not None:
        session.follow_job(session.runs[0])
        told = session.runs[0].whereabouts
        while told is not None and told.probes.version < 2:
            told.poll()
            time.sleep(0.01)
    return session


async def draw(shot: Shot) -> str:
    """The picture as SVG."""
    clock = FakeClock()
    with TemporaryDirectory() as home, contextlib.chdir(home):
        return await _draw(shot, clock)


async def _draw(shot: Shot, clock: FakeClock) -> str:
    scene = shot.scene
    session = session_at(scene, clock) if isinstance(scene, Scene) else session_of(scene, clock)
    app = RltopApp(session, UiOptions(theme=shot.theme, themes_folder=NO_THEMES, has_colour=True), clock=clock)
    async with app.run_test(size=shot.size) as pilot:
        await pilot.pause()
        if shot.target is not None:
            app.open(shot.target)
            await pilot.pause()
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause()
        for _ in range(300):
            app.draw()
            # What a thread reads comes in its own time, and what none reads at once.
            if not any("reading ..." in text or "looking for" in text for text in events_near(app)):
                break
            if session.runs[0].rollouts is not None:
                session.runs[0].rollouts.settle(session.runs[0].main.stream.last_step)
            await pilot.pause(0.02)
        if app.shown is not None:
            await app.shown.draw_detail()
        await pilot.pause()
        ink, ground = app.themes.palette.colours["foreground"], app.themes.palette.colours["background"]
        rows = [cells_of(strip, ink, ground) for strip in app.screen._compositor.render_strips()]
    session.close()
    return picture(rows, ground, shot.title)


def events_near(app: RltopApp) -> Sequence[str]:
    """The rows of the page on top as text."""
    return ["".join(text for text, _ in row.line) for row in app.shown.board.rows] if app.shown is not None else []


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
