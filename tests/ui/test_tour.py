"""A tour: every key on every page, every page at every size, the mouse on every row; with recorded runs.

A key answers: the screen shows something else, or the line above the footer says why not. No number is cut.
With RLTOP_TOUR=all (`make tour`) every key is pressed on every page at every size, the mouse on every row, beside all
five runs, and a hundred thousand keys by chance, which takes minutes; else two runs and two sizes do.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import deque
from collections.abc import Hashable, Sequence
from pathlib import Path

import pytest
from recorded import jsonl_runs
from screens import app_over, page_text, press, running, screen_of, status_text, write_rows
from textual import events
from textual.keys import _character_to_key, key_to_character
from textual.pilot import Pilot

from rltop import resources
from rltop.app.app import RltopApp
from rltop.app.page_screen import PageScreen
from rltop.pages.page import ListPage
from rltop.rows.keys import KEYS, Scope

FIXTURES = resources.folder("fixtures")
RUNS = (
    FIXTURES / "verl" / "tool_slowdown" / "metrics.jsonl",
    FIXTURES / "trl" / "grpo_restart" / "metrics.jsonl",
    FIXTURES / "trl" / "grpo_straggler" / "metrics.jsonl",
    FIXTURES / "verl" / "ppo_critic" / "metrics.jsonl",
    FIXTURES / "incidents" / "death_spiral" / "metrics.jsonl",
)
SIZES = ((40, 12), (80, 24), (120, 40), (160, 45), (200, 60))
IS_WHOLE = os.environ.get("RLTOP_TOUR") == "all"

STARTS: dict[str, tuple[str, ...]] = {
    "overview": (), "metric": ("m", "down", "enter"), "timing": ("t",), "metrics": ("m",), "events": ("e",),
    "alert": ("a",), "change": ("c",), "charts": ("v",), "rollouts": ("R",), "log": ("O",), "runs": ("r",),
    "compare": ("r", "space", "down", "space", "o"), "help": ("question_mark",), "meaning": ("m", "down", "M"),
    "several": ("o", *"reward", "comma", *"entropy", "enter"),
}  # fmt: skip
"""How each page is reached from the overview."""

MOVES = frozenset(key.id for key in KEYS[Scope.LIST]) | {"to-list", "left", "right"}
"""At an end of a list there is nowhere to go, and nothing to be said."""
LEFT_OUT = frozenset({"quit", "interrupt", "suspend", "live-end"})
COMMON = (
    "copy-value",
    "copy-row",
    "step-back",
    "live",
    "go",
    "event-before",
    "acknowledge",
    "mute",
    "meaning",
    "find",
    "back",
    "pause",
)
"""Keys that work everywhere whose answer depends on the page; the others are pressed on the overview."""

EXTREMES = ("0.0", "-1.0", "5e-324", "-5e-324", "1e150", "1e308", "-1e308", "1e-150", "NaN")

CUT = re.compile(r"(?<![\w.,:=/\[(-])[+\u2212-]?\d[\d.,]*\u2026(?!\d)")
"""A number of which the end is missing; `0.2\u20260.8` is a range."""


@pytest.fixture(autouse=True)
def uncomposed() -> None:
    """Here whole screens are put together, as for a terminal."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Some of the runs, the first of them with a console log and rollouts beside it."""
    folder = tmp_path_factory.mktemp("runs")
    found = []
    for number, path in enumerate(RUNS if IS_WHOLE else RUNS[:2]):
        home = folder / f"{number}-{path.parent.name}"
        shutil.copytree(path.parent, home)
        found.append(home / path.name)
    lines = [f"step:{n} - actor/loss:0.{n}" for n in range(1, 151)]
    (found[0].parent / "train.log").write_text("\n".join([*lines, "RuntimeError: NCCL communicator was aborted", ""]))
    return found


def state_of(app: RltopApp) -> Hashable:
    """Everything that a person sees, and where the selection is."""
    screen = app.screen
    if not isinstance(screen, PageScreen):
        return type(screen).__name__
    prompt = bool(screen.query("#prompt"))
    shown = (page_text(app), status_text(app) if screen.status.size.height else "", app.theme, prompt)
    # A move of the selection is drawn as well.
    return (*shown, screen.board.selection.target, screen.board.top, screen.is_typing, app.cursor.is_live, id(screen))


async def home(app: RltopApp, pilot: Pilot[int]) -> None:
    """Back to the overview of the first run, live."""
    for _ in range(12):
        screen = app.screen
        if isinstance(screen, PageScreen) and not screen.has_something_to_close and len(app.screen_stack) == 1:
            break
        if isinstance(screen, PageScreen):
            await app.run_action("back")
        else:
            app.pop_screen()
        await pilot.pause()
    app.marked = ()
    if app.followed is not app.session.runs[0]:
        await app.follow(app.session.runs[0].path.raw)
    for _ in range(3_000):
        if app.session.may_mean(app.followed) and app.followed.main.loading is None:
            break  # before, some keys have nothing to speak of
        await pilot.pause(0.01)
    await app.switch_mode(app.DEFAULT_MODE)
    await pilot.pause()
    app.show_message("")


async def reach(app: RltopApp, pilot: Pilot[int], name: str) -> None:
    await home(app, pilot)
    await press(pilot, *STARTS[name])
    log = Path(app.followed.path.raw).with_name("train.log")
    if name == "log" and log.exists() and "NCCL" in log.read_text():
        for _ in range(3_000):
            await pilot.pause(0.01)
            app.draw()
            if "NCCL" in page_text(app):
                break
    app.show_message("")


async def go_back(app: RltopApp, pilot: Pilot[int], name: str, at: PageScreen) -> PageScreen:
    """To the screen of a page as Escape goes, or the whole way there anew; the screen it is then."""
    for _ in range(4):
        screen = app.screen
        if not isinstance(screen, PageScreen):
            app.pop_screen()
        elif screen is at and not app.cursor.is_live:
            app.action_live()
        elif screen is not at or screen.is_typing:
            await app.run_action("back")
        else:
            app.show_message("")
            return at
        await pilot.pause()
    await reach(app, pilot, name)
    return screen_of(app)


def cut_numbers(app: RltopApp) -> list[str]:
    return [line for line in page_text(app).splitlines() if CUT.search(line)]


async def answers(app: RltopApp, pilot: Pilot[int], spelled: str, *, must: bool) -> bool:
    """Press a key; whether something else is shown or said then, where it must be."""
    before = state_of(app) if must else None
    await press(pilot, spelled)
    for _ in range(20 if must else 0):
        if app.message or state_of(app) != before:
            return True
        await pilot.pause(0.01)  # a field to type in is mounted first
    return not must


@pytest.mark.parametrize("size", SIZES if IS_WHOLE else SIZES[1:2], ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("name", STARTS)
async def test_every_key_of_a_page_answers(name: str, size: tuple[int, int], runs: list[Path]) -> None:
    app, wrong = app_over(*runs, may_copy=True), []
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await reach(app, pilot, name)
        groups = screen_of(app).page.where if name != "overview" else (Scope.EVERYWHERE,)
        keys = [key for where in groups for key in KEYS[where]]
        if name != "overview":
            common = [key for key in KEYS[Scope.EVERYWHERE] if key.id in COMMON]
            # Each on every third page, but on all of them what a page may have a text of its own for.
            some = [*common[list(STARTS).index(name) % 3 :: 3], *(key for key in common if key.id == "copy-row")]
            keys += KEYS[Scope.EVERYWHERE] if IS_WHOLE else dict.fromkeys(some)
        keys += KEYS[Scope.LIST] if name in ("overview", "metrics") else []
        own = {
            one
            for where in groups
            if where is not Scope.EVERYWHERE
            for key in KEYS[where]
            for one in key.keys.split(",")
        }
        at = screen_of(app)
        for key in keys:
            spelled = key.keys.split(",")[0]
            if key.id in LEFT_OUT or (key in KEYS[Scope.EVERYWHERE] and spelled in own):
                continue
            at = await go_back(app, pilot, name, at)
            if not await answers(app, pilot, spelled, must=key.id not in MOVES):
                wrong.append(f"{key.id} ({spelled}): nothing happens")
            wrong += [f"{key.id}: {line}" for line in cut_numbers(app)] if isinstance(app.screen, PageScreen) else []
    assert not wrong, "\n".join(wrong)


async def test_every_page_at_every_size_with_a_few_keys(runs: list[Path]) -> None:
    app, wrong = app_over(*runs, may_copy=True), []
    sizes = SIZES if IS_WHOLE else SIZES[::4]
    async with app.run_test(size=sizes[0]) as pilot:
        await pilot.pause()
        for name in STARTS:
            await pilot.resize_terminal(*sizes[0])
            await reach(app, pilot, name)
            at = screen_of(app)
            for size in sizes:
                at = await go_back(app, pilot, name, at)
                await pilot.resize_terminal(*size)
                await pilot.pause()
                for key in ("", "y", "enter") if size[0] < 120 else ("",):
                    if key:
                        await press(pilot, key)
                    if isinstance(app.screen, PageScreen):
                        wrong += [f"{name} {size} {key}: {line}" for line in cut_numbers(app)]
                        wide = [line for line in page_text(app).splitlines() if len(line) > size[0]]
                        wrong += [f"{name} {size} {key}: too wide: {line}" for line in wide]
                        if key == "y" and not app.message:
                            wrong.append(f"{name} {size}: y says nothing")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("names", [[*STARTS][number::3] for number in range(3)], ids=lambda names: names[0])
async def test_the_mouse_on_every_row_head_and_chart(names: list[str], runs: list[Path]) -> None:
    async with running(app_over(*runs, may_copy=True), (80, 24)) as (app, pilot):
        for name in names:
            await reach(app, pilot, name)
            at = screen_of(app)
            height = at.board.size.height
            # A head and the first rows, and two below them.
            for y in range(height) if IS_WHOLE else (0, 1, 3, height // 2, height - 2):
                at = await go_back(app, pilot, name, at)
                await pilot.click(at.board, offset=(4 + 12 * (y % 5), y))
            for kind in (events.MouseScrollDown, events.MouseScrollUp):
                await pilot._post_mouse_events([kind], screen_of(app).board, offset=(40, 10))
            await pilot.pause()
            assert page_text(app).strip(), name
            assert isinstance(at.page, ListPage) or screen_of(app).board.rows, name


@pytest.mark.skipif(not jsonl_runs(), reason="RLTOP_RUNS names no folder of labelled runs")
async def test_labelled_runs_in_one_list() -> None:
    found = [run.metrics for run in jsonl_runs()]
    async with running(app_over(*found[:: max(1, len(found) // 3)][:3]), (120, 40)) as (app, pilot):
        for name in STARTS:
            await reach(app, pilot, name)
            assert not cut_numbers(app), name


# -- by chance -------------------------------------------------------------------------------------------------------

SEEDS, ACTIONS = (range(40), 2_500) if IS_WHOLE else (range(2), 40)
PRESSED = sorted(
    {one for keys in KEYS.values() for key in keys if key.id not in LEFT_OUT for one in key.keys.split(",")}
)
PRESSED += ["tab", "backspace", "slash", "colon", *("enter", "escape") * 3]
TYPED = ("reward", "kl", "120", "40-90", "live", "zzz", "step:7", "[", "(", "\u00e9", "1" * 300)


async def act_by_chance(app: RltopApp, pilot: Pilot[int], dice: random.Random, growing: Path) -> Sequence[str]:
    """Several keys before the screen has answered, a text, the mouse, another size or a new row; what was done."""
    x, y, to = dice.randrange(app.size.width), dice.randrange(app.size.height), dice.randrange(app.size.width)
    what = dice.choices(("keys", "text", "click", "drag", "wheel", "size", "row"), (70, 4, 10, 5, 5, 1, 5))[0]
    down, move, up = events.MouseDown, events.MouseMove, events.MouseUp
    wheel = dice.choice((events.MouseScrollDown, events.MouseScrollUp))
    by_mouse: dict[str, Sequence[tuple[type[events.MouseEvent], int]]] = {
        "click": ((down, x), (up, x)),
        "drag": ((down, x), (move, to), (up, to)),
        "wheel": ((wheel, x),) * 3,
    }
    for kind, at in by_mouse.get(what, ()):
        app.post_message(kind(None, at, y, 0, 0, 1, False, False, False, at, y))
    if what == "size":
        await pilot.resize_terminal(*dice.choice(SIZES))
    elif what == "row":
        write_rows(growing, [{"step": dice.randrange(10**6), "critic/score/mean": dice.random()}], mode="a")
    elif what in ("keys", "text"):
        text = dice.choice(TYPED)
        pressed = dice.choices(PRESSED, k=dice.choice((1, 1, 1, 2, 3, 8)))
        for key in pressed if what == "keys" else map(_character_to_key, text):
            app.post_message(events.Key(key, key_to_character(key)))
        return pressed if what == "keys" else [text]
    return [f"{what} {x},{y}"]


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", SEEDS)
async def test_keys_and_mouse_by_chance_end_nothing(
    seed: int, runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    dice = random.Random(seed)
    growing = Path(shutil.copytree(runs[0].parent, tmp_path / "growing")) / runs[0].name
    shown = dice.sample(runs[1:], dice.randrange(len(runs)))
    app, done, count = app_over(growing, *shown), deque[str](maxlen=40), 0
    left = []

    async def leave() -> None:
        left.append(True)

    monkeypatch.setattr(app, "action_quit", leave)
    monkeypatch.setattr(app, "action_suspend_process", list)
    try:
        async with app.run_test(size=dice.choice(SIZES)) as pilot:
            await pilot.pause()
            while count < ACTIONS:
                acts = await act_by_chance(app, pilot, dice, growing)
                done += acts
                count += len(acts)
                await pilot._wait_for_screen()
                assert app.is_running
            # A text field takes `q` for a letter.
            for _ in range(4):
                await press(pilot, "escape")
            left.clear()
            # What Escape would close, `q` closes first, then page after page.
            for _ in range(12 + sum(map(len, app._screen_stacks.values()))):
                if not left:
                    await press(pilot, "q")
            assert left
    except BaseException as error:
        error.add_note(f"seed {seed}, {count} actions, the last of them: {' '.join(done)}")
        raise


@pytest.mark.parametrize("seed", range(20 if IS_WHOLE else 2))
async def test_every_page_bears_numbers_at_the_ends_of_what_a_float_holds(seed: int, tmp_path: Path) -> None:
    dice, path = random.Random(seed), tmp_path / "metrics.jsonl"
    text = RUNS[seed % len(RUNS)].read_text()
    path.write_text(re.sub(r"(?<=: )-?\d+\.\d[\d.e-]*", lambda one: dice.choice([one[0], *EXTREMES]), text))
    async with running(app_over(path), dice.choice(SIZES)) as (app, pilot):
        for keys in STARTS.values():
            await press(pilot, *keys, "enter", *["escape"] * 4)
            assert app.is_running
