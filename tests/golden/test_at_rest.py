"""`check`, `--once` and the screen of a file that has come to rest say the same of it."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from examples import EXPLORES
from ptys import PATIENCE_S
from recorded import REASON, runs_root
from rollout_dumps import write_trl
from run_folders import rlinf, trinity, write_events

from rltop.cli.open_session import direct, read_whole, runs_of
from rltop.clock import FakeClock
from rltop.config import load
from rltop.errors import RltopError
from rltop.report.document import check_document
from rltop.report.overview_document import once_document
from rltop.run.places import FoundRun
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

FIXTURES = Path(__file__).parents[2] / "fixtures"
CONFIG = load({}, {"HOME": "/nowhere"})
RECORDED = 3
"""Recorded runs of each folder that are compared, evenly by name; all of them take minutes."""
LARGEST_BYTES = 2_000_000
LATER_S = 3 * 86_400.0
LATE = "L4"
"""That there is no record yet goes by the clock, which only a screen has."""
BESIDE_THE_SCREEN = ("archive", "checkpoints", "ends of logs")
"""Threads that read while a session has nothing to do."""
OF_THE_CLOCK = ("age_s", "behind_bytes", "loading")


def fixtures() -> list[Path]:
    return sorted(path for path in FIXTURES.rglob("*") if path.suffix not in {".md", ".toml", ".py"})


def recorded() -> list[Path]:
    """Metric files of the labelled runs, and of the folder `reality` beside them, if there is one."""
    root = runs_root()
    if root is None:
        return []
    found = []
    for each in (root, root.parent / "reality"):
        files = [path for label in sorted(each.rglob("label.json")) for path in sorted(label.parent.iterdir())]
        files = [path for path in files if path.name not in {"SOURCE.md", "label.json"} and path.is_file()]
        files = [path for path in files if path.stat().st_size < LARGEST_BYTES]
        found += files[:: max(1, len(files) // RECORDED)]
    return found


def runs_behind(paths: list[Path]) -> Iterator[FoundRun]:
    for path in paths:
        try:
            yield from runs_of(str(path))
        except RltopError:
            continue


def resting(found: FoundRun) -> Session:
    """As a screen opens it, days after it was written, until nothing moves any more."""
    clock = FakeClock((found.modified_s or time.time()) + LATER_S)
    session = Session([found], direct(clock), clock, CONFIG.ingest)
    rest(session, clock)
    session.read_endings()
    run, told, until_s = session.runs[0], None, time.monotonic() + 2 * PATIENCE_S
    session.look_for_rollouts(run)
    while True:
        assert time.monotonic() < until_s, f"{found.path}: completions are still being read"
        rest(session, clock)
        state = None if run.rollouts is None else run.rollouts.state
        # Between the tables of an archive it rests for a moment with the steps of the first ones.
        if has_read_rollouts(run) and state == told:
            break
        told = state
        time.sleep(0.02)
    return session


def has_read_rollouts(run: Run) -> bool:
    """Has everything been read that an overview asks for?"""
    shelf = run.rollouts
    if shelf is None or not shelf.is_at_rest:
        return False
    step = shelf.step_near(None)
    return step is None or shelf.at(step) is not None


def rest(session: Session, clock: FakeClock) -> None:
    still = 0
    while still < 8:
        wait_beside()
        still = 0 if session.step(1_000.0) else still + 1
        clock.advance(0.25)


def wait_beside() -> None:
    for thread in threading.enumerate():
        if thread.name in BESIDE_THE_SCREEN:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), f"{thread.name}: not done in {PATIENCE_S:.0f} s"


def tidy(document: dict[str, Any]) -> Any:
    """What does not go by the clock, and is not said of the newest row alone: that it may change."""
    for part in (document, *document.get("streams", ())):
        for name in OF_THE_CLOCK:
            part.pop(name, None)
    for event in document["events"]:
        event.pop("is_provisional", None)
    document["verdicts"] = [each for each in document["verdicts"] if LATE not in (each["rule"], each.get("part"))]
    if document.get("counts"):
        # Rows that were shown before they were whole have been counted twice.
        document["counts"] = {name: each for name, each in document["counts"].items() if name not in ("lines", "rows")}
    return json.loads(json.dumps(document, default=str))


def assert_same(found: FoundRun) -> int | None:
    """The step that all three show; None where the file has none."""
    # Each goes by a clock of its own, but none sees a file that may still be written to.
    later_s = (found.modified_s or time.time()) + 2 * LATER_S
    sessions = [
        read_whole(found, CONFIG, FakeClock(later_s)),
        read_whole(found, CONFIG, FakeClock(2 * later_s), has_rollouts=True),
        resting(found),
    ]
    wait_beside()  # the end of a console log, for which a command waits 2 s at most
    checked, once, screen = (Snapshot(session.runs[0]) for session in sessions)
    assert tidy(check_document(checked)) == tidy(check_document(once)), f"check and --once: {found.path}"
    expected, until_s = tidy(once_document(once)), time.monotonic() + PATIENCE_S
    while tidy(once_document(screen)) != expected and time.monotonic() < until_s:
        # Between two tables of an archive a busy machine may rest for longer than one waits.
        time.sleep(0.05)
        sessions[-1].step(1_000.0)
        screen = Snapshot(sessions[-1].runs[0])
    assert tidy(check_document(screen)) == tidy(check_document(once)), f"screen and check: {found.path}"
    assert tidy(once_document(screen)) == expected, f"screen and --once: {found.path}"
    for session in sessions:
        session.close()
    return screen.stream.last_step


@pytest.mark.parametrize("folder", sorted({path.relative_to(FIXTURES).parts[0] for path in fixtures()}))
def test_what_is_said_of_a_fixture_is_the_same_everywhere(folder: str) -> None:
    paths = [path for path in fixtures() if path.relative_to(FIXTURES).parts[0] == folder]
    # Incidents differ in what goes wrong, not in how they are read.
    paths = paths[:: 5 if folder == "incidents" and not EXPLORES else 1]
    steps = [assert_same(found) for found in {found.path: found for found in runs_behind(paths)}.values()]
    assert any(steps), "nothing was compared"


def test_a_row_more_is_a_difference(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "run" / "metrics.jsonl")
    (found,) = runs_of(str(path))
    before = tidy(check_document(Snapshot(resting(found).runs[0])))
    path.write_text(path.read_text() + json.dumps(ROWS[-1] | {"step": 61, "reward": float("nan")}))
    after = tidy(check_document(Snapshot(resting(found).runs[0])))
    assert (before["step"], after["step"], after["level"]) == (60, 61, "crit")
    assert before["level"] != "crit"


@pytest.mark.parametrize("lay_out", [trinity, rlinf], ids=["streams", "ranks"])
def test_what_is_said_of_a_run_of_several_streams_is_the_same_everywhere(lay_out: Any, tmp_path: Path) -> None:
    (found,) = runs_of(str(lay_out(tmp_path)))
    assert_same(found)


def test_what_is_said_of_a_recorded_run_is_the_same_everywhere() -> None:
    if runs_root() is None:
        pytest.skip(REASON)
    compared = 0
    for found in runs_behind(recorded()):
        assert_same(found)
        compared += 1
    assert compared >= RECORDED // 2


# -- folders -----------------------------------------------------------------------------------------------------------

EVERY_FOLDER = "RLTOP_EVERY_FOLDER"
"""Set to compare all folders of recorded runs, not only a sample."""
FOLDERS = 3
BESIDE = ("SOURCE.md", "label.json")
OF_THE_PLACE = ("run", "path")
"""What a run is called follows from what was named."""


def folders() -> list[Path]:
    """Folders of recorded runs with a file to name; of each collection as many as are sampled, evenly by name."""
    root = runs_root()
    found: list[Path] = []
    for each in () if root is None else (root, root.parent / "reality"):
        known = sorted({label.parent for label in each.rglob("label.json")})
        known = [path for path in known if 0 < sum(one.stat().st_size for one in files_in(path)) < LARGEST_BYTES]
        found += known if os.environ.get(EVERY_FOLDER) else known[:: max(1, len(known) // FOLDERS)]
    return found


def files_in(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_file() and path.name not in BESIDE]


def shown(found: FoundRun) -> dict[str, Any]:
    later_s = (found.modified_s or time.time()) + LATER_S
    session = read_whole(found, CONFIG, FakeClock(later_s), has_rollouts=True)
    document: dict[str, Any] = tidy(once_document(Snapshot(session.runs[0])))
    session.close()
    return {name: value for name, value in document.items() if name not in OF_THE_PLACE}


def assert_folder_shows_its_file(folder: Path) -> None:
    (opened, *others) = runs_of(str(folder))
    assert not others, f"{folder}: {[each.path for each in others]}"
    assert Path(opened.path).is_relative_to(folder)
    (named,) = runs_of(opened.path)
    assert shown(opened) == shown(named), folder


def test_a_folder_of_a_recorded_run_shows_what_its_file_shows() -> None:
    if runs_root() is None:
        pytest.skip(REASON)
    compared = folders()
    assert len(compared) >= FOLDERS
    for folder in compared:
        assert_folder_shows_its_file(folder)


ROWS: list[dict[str, float]] = [
    {"step": step, "epoch": step / 60, "loss": 1 / step, "grad_norm": 0.5, "learning_rate": 1e-6, "reward": step / 100,
     "reward_std": 0.2, "completions/mean_length": 90.0 + step % 7, "step_time": 2.0}
    for step in range(1, 61)
]  # fmt: skip


def write_state(folder: Path, steps: int, of: int = 60) -> Path:
    """`checkpoint-N/trainer_state.json`, with the weights and settings that stand beside it."""
    checkpoint = folder / f"checkpoint-{steps}"
    checkpoint.mkdir(parents=True)
    state = {"global_step": steps, "max_steps": of, "log_history": ROWS[:steps], "best_metric": None}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state, indent=2))
    (checkpoint / "config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": 64}))
    (checkpoint / "model.safetensors").write_bytes(bytes(64))
    return checkpoint


def write_lines(path: Path) -> Path:
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def wandb_folder(home: Path) -> Path:
    run = home / "wandb" / "offline-run-20260101_120000-a1b2c3d4"
    (run / "logs").mkdir(parents=True)
    (run / "files").mkdir()
    shutil.copy(FIXTURES / "telescope" / "scalars" / "run-a1b2c3d4.wandb", run)
    said = {"time": "2026-01-01T12:00:00Z", "level": "INFO", "msg": "flowcontrol: backed up", "recordNumber": 67}
    (run / "logs" / "debug-internal.log").write_text("".join(json.dumps(said | {"step": i}) + "\n" for i in range(90)))
    (run / "files" / "config.yaml").write_text("lr:\n  value: 0.1\n")
    (home / "wandb" / "latest-run").symlink_to(run.name)
    return run / "run-a1b2c3d4.wandb"


def output_dir(home: Path) -> Path:
    for steps in (20, 40, 60):
        newest = write_state(home / "grpo-tiny", steps)
    return newest / "trainer_state.json"


def hydra_folder(home: Path) -> Path:
    place = home / "outputs" / "2026-01-01" / "12-00-00"
    path = write_lines(place / "logs" / "metrics.jsonl")
    (place / ".hydra").mkdir()
    (place / ".hydra" / "config.yaml").write_text("lr: 0.1\n")
    (place / "train.log").write_text("[2026-01-01 12:00:00,000][__main__][INFO] - started\n")
    return path


def checkpoint_alone(home: Path) -> Path:
    return write_state(home, 60) / "trainer_state.json"


def console_without_rows(home: Path) -> Path:
    place = home / "outputs"
    place.mkdir(parents=True)
    (place / "config.yaml").write_text("lr: 0.1\n")
    path = place / "train.log"
    path.write_text("loading\n" + "step 3 of the recipe: we got loss=0.5 somewhere\n" * 30)
    return path


def died_beside_everything(home: Path) -> Path:
    """Metrics, checkpoints, completions and the log of the job, which ends in an error."""
    place = home / "grpo-tiny"
    path = write_lines(place / "logs" / "metrics.jsonl")
    for steps in (20, 40):
        write_state(place, steps, of=100)
    write_trl(place / "completions", range(1, 61))
    error = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
    (place / "slurm-4711.out").write_text(f"loading\nTraceback (most recent call last):\n{error}\n")
    for file in place.rglob("*"):
        os.utime(file, (time.time() - 3 * LATER_S,) * 2)
    return path


def tensorboard_folder(home: Path) -> Path:
    place = home / "ppo" / "runs" / "Nov21_10-00-00_node-1"
    write_events(place, [(step, 1.7e9 + step, {"train/loss": 1 / step, "train/reward": 0.1}) for step in range(1, 41)])
    return next(place.glob("*tfevents*"))


def last_row_without_an_end(home: Path) -> Path:
    path = write_lines(home / "run" / "metrics.jsonl")
    path.write_text(path.read_text() + json.dumps(ROWS[-1] | {"step": 61, "loss": float("nan")}))
    return path


LAY_OUTS = (
    wandb_folder,
    output_dir,
    hydra_folder,
    checkpoint_alone,
    console_without_rows,
    died_beside_everything,
    tensorboard_folder,
    last_row_without_an_end,
)


@pytest.mark.parametrize("lay_out", LAY_OUTS)
def test_a_folder_as_trainers_leave_it_shows_what_its_file_shows(lay_out: Any, tmp_path: Path) -> None:
    path = lay_out(tmp_path)
    (named,) = runs_of(str(path))
    for folder in path.parents:
        if folder == tmp_path.parent:
            break
        (opened,) = runs_of(str(folder))
        assert Path(opened.path).resolve() == path.resolve(), folder
        assert shown(opened) == shown(named), folder
    assert_same(opened)
