"""Where rollouts are found, and what a page is told while they are being read."""

from __future__ import annotations

import errno
import json
import os
import random
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from ptys import PATIENCE_S
from rollout_dumps import lines_of, plain_rows, write_nemo, write_sqlite, write_trl, write_verl
from tables import each_row
from telescope_run import TelescopeRun

from rltop.cli import main
from rltop.cli.open_session import direct, read_whole
from rltop.clock import FakeClock
from rltop.config import Config
from rltop.formats.rollouts.files import LinesDump
from rltop.model import EventState
from rltop.model.completions import Completion, step_of
from rltop.rules.options import EngineOptions
from rltop.run.discover import discover, future_run
from rltop.run.rollouts import HELD_STEPS, RolloutShelf, RolloutWatch, dumps_near, given_dumps
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.stats.groups import StepSummary, summarise


def a_run(folder: Path, name: str = "metrics.jsonl") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text('{"step": 1, "loss": 1.0}\n')
    return path


def shelf_of(path: Path, given: str = "") -> RolloutShelf:
    return RolloutShelf(str(path), given, lambda: None)


def test_each_trainers_dump_is_found_from_its_run(tmp_path: Path) -> None:
    def found_from(path: Path) -> list[Path]:
        return [Path(source.path).relative_to(tmp_path) for source in dumps_near(str(path))]

    run = a_run(tmp_path / "plain")
    (run.parent / "rollouts.jsonl").write_bytes(lines_of(plain_rows([1])))
    assert found_from(run) == [Path("plain/rollouts.jsonl")]

    run = a_run(tmp_path / "verl" / "logs", "exp.jsonl")
    write_verl(tmp_path / "verl" / "rollout_data", [1, 2], has_uid=True)
    assert found_from(run) == [Path("verl/rollout_data")]

    run = a_run(tmp_path / "trl" / "checkpoint-10", "trainer_state.json")
    write_trl(tmp_path / "trl" / "completions", [1])
    assert found_from(run) == [Path("trl/completions")]

    job = tmp_path / "trinity"
    write_sqlite(job / "buffer" / "explorer_output.db", [1]).close()
    run = a_run(job / "monitor" / "tensorboard" / "explorer", "events.out.tfevents.1.a.1.0")
    assert found_from(run) == [Path("trinity/buffer/explorer_output.db")]

    run_folder = tmp_path / "wandb" / "run-20260101_000000-abc"
    files = TelescopeRun().add_steps([0]).write(run_folder / "files")
    run = a_run(run_folder, "run-abc.wandb")
    assert found_from(run) == found_from(files) == [Path("wandb/run-20260101_000000-abc/files")]


def test_dumps_in_the_output_of_a_trainer_beside_the_metrics_are_found(tmp_path: Path) -> None:
    def found_from(path: str) -> list[str]:
        return [str(Path(source.path).relative_to(tmp_path)) for source in dumps_near(path)]

    for number, output in enumerate(("output", "outputs/grpo", "results/deep/run")):
        home = tmp_path / str(number)
        run = a_run(home / "logs")
        other = a_run(home, "train.csv")
        (home / "model").mkdir()
        write_trl(home / output / "completions", [1])
        where = [f"{number}/{output}/completions"] if number < 2 else []
        database = f"{home}/trackio/project.db::run"
        Path(database.partition("::")[0]).parent.mkdir()
        Path(database.partition("::")[0]).touch()
        assert found_from(str(run)) == found_from(str(other)) == found_from(database) == where

    # A folder with metrics of its own is that of another run, and what it has completions of is not ours.
    a_run(tmp_path / "0" / "output")
    assert found_from(str(tmp_path / "0" / "logs" / "metrics.jsonl")) == []

    # Of several outputs that of the run's own name, and none of a training of another time.
    runs = [a_run(tmp_path / "several" / "logs", f"{name}.jsonl") for name in "abc"]
    for name in "ab":
        write_trl(tmp_path / "several" / "outputs" / name / "completions", [1])
    assert [found_from(str(run)) for run in runs] == [[f"several/outputs/{n}/completions"] for n in "ab"] + [[]]
    os.utime(tmp_path / "several" / "outputs" / "a" / "completions", (1e9, 1e9))
    assert found_from(str(runs[0])) == []


def test_nemo_rls_samples_lie_one_folder_above_its_event_file(tmp_path: Path) -> None:
    events = tmp_path / "exp_001" / "tensorboard" / "events.out.tfevents.1795000000.node-1.1.0"
    events.parent.mkdir(parents=True)
    events.write_bytes(b"")
    write_nemo(tmp_path / "exp_001", [1, 2])
    (source,) = dumps_near(str(events))
    source.refresh()
    assert list(source.steps) == [1, 2]


def test_a_log_that_names_the_folder_is_believed(tmp_path: Path) -> None:
    run = a_run(tmp_path / "jobs", "slurm-1.out")
    write_verl(tmp_path / "elsewhere" / "dump", [4], has_uid=False)
    run.write_text(f"{{'trainer': {{'rollout_data_dir': '{tmp_path}/elsewhere/dump', 'x': None}}}}\nstep:1 - a:2.0\n")
    assert [source.path for source in dumps_near(str(run))] == [str(tmp_path / "elsewhere" / "dump")]
    run.write_text("{'rollout_data_dir': None}\n")
    assert dumps_near(str(run)) == []


def test_of_several_runs_in_a_folder_each_has_its_own(tmp_path: Path) -> None:
    runs = [a_run(tmp_path, f"{name}.jsonl") for name in ("a", "b")]
    for run in runs:
        (tmp_path / f"{run.stem}_rollouts.jsonl").write_bytes(lines_of(plain_rows([1])))
    assert [dumps_near(str(run))[0].path for run in runs] == [str(tmp_path / f"{n}_rollouts.jsonl") for n in "ab"]


def test_metrics_and_other_lines_are_no_rollouts(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (tmp_path / "samples.jsonl").write_bytes(lines_of([{"step": 1, "loss": 2.0, "reward": 1.0}]))
    (tmp_path / "completions").mkdir()
    assert dumps_near(str(run)) == [] == dumps_near("-")


def test_what_is_named_is_taken(tmp_path: Path) -> None:
    for name in ("x", "y"):
        (tmp_path / f"{name}.jsonl").write_bytes(lines_of(plain_rows([1 if name == "x" else 2])))
    sources, notes = given_dumps(str(tmp_path / "*.jsonl"))
    assert len(sources) == 2 and not notes
    shelf = shelf_of(a_run(tmp_path / "run"), str(tmp_path / "*.jsonl"))
    assert shelf.settle() is not None and shelf.state.steps == (1, 2)
    for path, word in (("no/*.jsonl", "nothing matches"), ("none.jsonl", "No such file"), (str(tmp_path / "run"), "")):
        shelf = shelf_of(tmp_path / "metrics.jsonl", path)
        shelf.settle()
        assert not shelf.state.steps
        assert not word or word in shelf.state.notes[0]


def test_the_nearest_step_is_the_one_before(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (tmp_path / "rollouts.jsonl").write_bytes(lines_of(plain_rows([10, 20, 30])))
    shelf = shelf_of(run)
    assert shelf.step_near(None) is None
    shelf.settle()
    assert [shelf.step_near(step) for step in (None, 1, 10, 19, 20, 99)] == [30, 10, 10, 10, 20, 30]
    shelved = shelf.settle(25)
    assert shelved is not None and shelved.summary.step == 20
    assert shelved.summary.ratio_max == pytest.approx(20.0)


def test_in_the_background_a_wish_is_answered_and_little_is_held(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    (tmp_path / "rollouts.jsonl").write_bytes(lines_of(plain_rows(range(1, 21))))
    news = threading.Event()
    shelf = RolloutShelf(str(run), "", news.set)
    shelf.start()

    def until(is_so: object) -> None:
        while not is_so():  # type: ignore[operator]
            assert news.wait(30)
            news.clear()

    try:
        until(lambda: shelf.state.steps)
        for step in range(1, 21):
            until(lambda step=step: shelf.at(step) is not None)
        assert shelf.known(20) is not None and sum(shelf.known(step) is not None for step in range(21)) <= HELD_STEPS
        completion = shelf.at(20).rollouts.completions[0]  # type: ignore[union-attr]
        until(lambda: shelf.text(completion) is not None)
        text = shelf.text(completion)
        assert text is not None and text.passages[-1].text == "answer 0\nof group 0"
    finally:
        shelf.close()


def test_a_step_that_grows_is_read_again(tmp_path: Path) -> None:
    run = a_run(tmp_path)
    path = tmp_path / "rollouts.jsonl"
    rows = plain_rows([1])
    path.write_bytes(lines_of(rows[:5]))
    shelf = shelf_of(run)
    shelved = shelf.settle()
    assert shelved is not None and len(shelved.rollouts.completions) == 5
    path.write_bytes(lines_of(rows))
    shelved = shelf.settle()
    assert shelved is not None and len(shelved.rollouts.completions) == len(rows)


# -- what is no file, and what no file can be called ------------------------------------------------------------------

SPECIAL = {
    "named pipe": os.mkfifo,
    "directory": os.mkdir,
    "socket": lambda path: socket.socket(socket.AF_UNIX).bind(path),
    "device": lambda path: Path(path).symlink_to("/dev/zero"),
}
NAMES = ("rollouts.jsonl", "explorer_output.db", "completions.ndjson", "rollouts", "config.yaml", "steps")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", SPECIAL)
def test_what_is_no_file_is_passed_over_without_being_opened(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = a_run(tmp_path, "slurm.out")
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    for name in NAMES:
        SPECIAL[kind](name)
    with listening(tmp_path / NAMES[0], kind) as was_opened:
        shelf = shelf_of(run)
        shelf.start()
        deadline = time.monotonic() + PATIENCE_S
        while shelf.state.is_looking and time.monotonic() < deadline:
            time.sleep(0.02)
        shelf.close()
        assert not was_opened()
    assert not shelf.state.is_looking and not shelf.state.has_failed and not shelf.state.places


@contextmanager
def listening(path: Path, kind: str) -> Iterator[Callable[[], bool]]:
    """Has anybody opened the pipe for reading? A writer that does not wait finds out."""
    if kind != "named pipe":
        yield lambda: False
        return

    def was_opened() -> bool:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        except OSError as error:
            return error.errno != errno.ENXIO
        return True

    yield was_opened


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("kind", ["named pipe", "socket", "device"])
@pytest.mark.parametrize("name", ["rollouts.jsonl", "a.db", "1.jsonl", "completions_00001.parquet", "steps/tail.zip"])
def test_what_is_named_and_is_no_file_is_said_to_be_none(
    tmp_path: Path, kind: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dump" / name).parent.mkdir(parents=True)
    SPECIAL[kind](f"dump/{name}")
    for given in (f"dump/{name}", "dump", "dump/*"):
        shelf = shelf_of(a_run(tmp_path), given)
        shelf.settle(1)
        assert shelf.state.notes and not shelf.state.has_failed, given
    assert kind in shelf_said(tmp_path, f"dump/{name}")


def shelf_said(folder: Path, given: str) -> str:
    shelf = shelf_of(a_run(folder), given)
    shelf.settle(1)
    return " ".join(shelf.state.notes)


ABSURD = {
    "NUL": "a\0b", "NUL in a pattern": "a\0*", "NUL in a user": "~\0/x", "long": "x" * 5_000, "a long name": "x" * 300,
    "brackets": "[" * 1_000_000, "many stars": "**/" * 1_300, "an escape": "\x1b[31m", "no text": "\udcff*",
    "a bracket": "[", "a newline": "/\n*",
}  # fmt: skip


@each_row("given", ABSURD.values(), ids=ABSURD.keys())
def test_no_path_is_so_absurd_that_the_reading_ends_with_it(tmp_path: Path, given: str) -> None:
    said = shelf_said(tmp_path, given)
    assert said and len(said) < 5_000


def test_a_dump_that_trips_over_its_bytes_does_not_end_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jsonl").write_bytes(lines_of(plain_rows([1])))
    refresh = LinesDump.refresh

    def trips(dump: LinesDump) -> bool:
        return {}["nothing"] if dump.path.endswith("a.jsonl") else refresh(dump)

    monkeypatch.setattr(LinesDump, "refresh", trips)
    shelf = shelf_of(a_run(tmp_path / "run"), str(tmp_path / "*.jsonl"))
    shelved = shelf.settle(1)
    assert shelved is not None and len(shelved.rollouts.completions) == 12
    assert "KeyError" in shelf.state.notes[0] and "a.jsonl" in shelf.state.notes[0]
    monkeypatch.undo()
    shelf.settle(1)
    assert not shelf.state.notes


def test_a_log_that_names_a_folder_of_somebody_else_does_no_harm(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can make a folder that another user may not enter")
    run = a_run(tmp_path, "slurm-1.out")
    closed = tmp_path / "closed"
    (closed / "dump").mkdir(parents=True)
    closed.chmod(0o700)
    run.write_text(f"rollout_data_dir={closed}/dump\nstep:1 - a:2.0\n")
    tmp_path.chmod(0o755)
    os.setresuid(1002, 1002, 0)
    try:
        assert dumps_near("slurm-1.out") == [] == dumps_near(str(run))
        assert given_dumps(f"{closed}/dump")[1] == [f"{closed}/dump: Permission denied"]
    finally:
        os.setresuid(0, 0, 0)


def uneven(steps: range, onset: int) -> bytes:
    """Groups of eight: the longest completion twice the median, from `onset` on fifteen times."""
    rows = (
        {
            "step": step,
            "group": group,
            "sample": sample,
            "reward": 0.5,
            "completion_length": 100 + 5 * sample + (0 if sample < 7 else 65 if step < onset else 1_500),
            "completion": "x",
        }
        for step in steps
        for group in range(2)
        for sample in range(8)
    )
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def logged(steps: range, **more: float) -> str:
    return "".join(json.dumps({"step": step, "reward": 0.5 + step / 1e3, **more}) + "\n" for step in steps)


@pytest.mark.parametrize("onset", [41, 999], ids=["uneven from 41 on", "even"])
def test_the_group_ratio_of_a_dump_is_judged_like_a_logged_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], onset: int
) -> None:
    path, dump = tmp_path / "metrics.jsonl", tmp_path / "completions.jsonl"
    path.write_text(logged(range(1, 61)))
    dump.write_bytes(uneven(range(1, 61), onset))
    main(["check", "--json", "--rollouts", str(dump), str(path)])
    found = json.loads(capsys.readouterr().out)
    told = [(one["rule"], one["level"], one["since_step"]) for one in found["verdicts"] if one["rule"] == "P5"]
    assert told == ([("P5", "warn", 41)] if onset == 41 else [])
    assert [one["rule"] for one in found["events"] if one["rule"] == "P5"] == ["P5"] * len(told)


def groups_of_16(step: int, longest: int, *, sigma: float = 0.1, groups: int = 8) -> str:
    """A veRL dump of one step in characters: groups of 16, of which the last of prompt 3 is as long as is said."""
    dice = random.Random(step)
    rows = []
    for prompt in range(groups):
        for i in range(16):
            length = int(1_000 * dice.lognormvariate(0, sigma))
            length = longest if longest and (prompt, i) == (3, 15) else length
            rows.append({"input": f"prompt {prompt}", "output": "x" * length, "uid": f"p{prompt}", "score": i % 2})
    return "".join(json.dumps(row | {"step": step}) + "\n" for row in rows)


def dumped(home: Path, steps: range, *, groups: int = 8, **longest: int) -> Path:
    path = home / "metrics.jsonl"
    (home / "rollouts").mkdir()
    path.write_text(logged(steps))
    for step in steps:
        (home / "rollouts" / f"{step}.jsonl").write_text(
            groups_of_16(step, longest.get(f"at_{step}", 0), groups=groups)
        )
    return path


@pytest.mark.parametrize("step", [1, 17, 30], ids=["first", "middle", "newest"])
def test_one_completion_that_a_step_waits_for_is_said_with_its_group(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], step: int
) -> None:
    """The mean over the groups hides it: 12.6 times its own median, in one group of four, on one step."""
    path = dumped(tmp_path, range(1, 31), groups=4, **{f"at_{step}": 12_600})
    for command in (["check"], ["--once"], ["check", "--rollouts", str(tmp_path / "rollouts")]):
        main([*command, "--json", str(path)])
        events = [one for one in json.loads(capsys.readouterr().out)["events"] if one["rule"] == "P5"]
        assert [(one["level"], one["step"]) for one in events if one["state"] == "firing"] == [("info", step)]
        message = events[0]["message"]
        assert "group p3" in message and f"at step {step}" in message and "characters" in message
        assert 11 < float(re.search(r"([\d.]+)× its group's median", message)[1]) < 14


def test_one_completion_that_every_step_waits_for_is_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = dumped(tmp_path, range(1, 31), **{f"at_{step}": 12_600 for step in range(20, 31)})
    main(["check", "--json", str(path)])
    (found,) = [one for one in json.loads(capsys.readouterr().out)["verdicts"] if one["rule"] == "P5"]
    assert (found["level"], found["part"], found["since_step"]) == ("warn", "P5b", 20)


def looked_through(session: Session, run: Run) -> None:
    session.look_for_rollouts(run)
    deadline = time.monotonic() + PATIENCE_S
    while (run.rollouts is None or not run.rollouts.is_at_rest) and time.monotonic() < deadline:
        time.sleep(0.01)


@pytest.mark.parametrize("onset", [10, 3, 50], ids=["before the window", "at the start", "in the window"])
def test_a_found_dump_dates_what_it_tells_to_where_it_began(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, onset: int
) -> None:
    """The newest 60 steps alone would say since 21."""
    monkeypatch.setattr("rltop.run.rollouts.LOOK_S", 0.1)
    path = dumped(tmp_path, range(1, 81), groups=4, **{f"at_{step}": 12_600 for step in range(onset, 81)})
    main(["check", "--json", str(path)])
    (found,) = [one for one in json.loads(capsys.readouterr().out)["verdicts"] if one["rule"] == "P5"]
    session = read_whole(str(path), Config(), FakeClock())
    run = session.runs[0]
    looked_through(session, run)
    shown = [one.since_step for one in run.verdicts if one.rule == "P5"]
    session.close()
    assert [found["since_step"], *shown] == [onset, onset]


@each_row("named", ["outputs", "outputs/grpo", "outputs/grpo/completions"])
def test_completions_without_metrics_are_named_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], named: str
) -> None:
    dump = write_trl(tmp_path / "outputs" / "grpo" / "completions", [1, 2, 3])
    for command in (["check"], ["--once"]):
        assert main([*command, str(tmp_path / named)]) == 3
        said = capsys.readouterr().err
        assert "no metric file" in said and f"only completions, which the screen shows (R): {dump}\n" in said, command
    paths = [str(tmp_path / named)]
    discovery = discover(paths)
    assert discovery.completions == [str(dump)]
    session = Session([future_run(paths, discovery)], direct(FakeClock()), FakeClock(), Config().ingest)
    (run,) = session.runs
    looked_through(session, run)
    assert run.rollouts.state.steps == (1, 2, 3)
    assert str(dump) in run.main.state_note
    session.close()


def test_heavy_tails_and_short_completions_are_no_lone_stragglers() -> None:
    watch = RolloutWatch(EngineOptions())
    tails = [summary_of(groups_of_16(step, 0, sigma=0.8, groups=16)) for step in range(1, 41)]
    watch.take(tails, None)
    assert sum(one.state is EventState.FIRING and one.part == "P5b" for one in watch.events) <= 1
    brief = RolloutWatch(EngineOptions())
    brief.take([summary_of(groups_of_16(step, 12_600), shrunk=50) for step in range(1, 31)], None)
    assert not brief.events


def summary_of(lines: str, shrunk: int = 1) -> StepSummary:
    rows = [json.loads(line) for line in lines.splitlines()]
    completions = [Completion(row["uid"], characters=len(row["output"]) // shrunk) for row in rows]
    return summarise(step_of(rows[0]["step"], completions))


def test_a_logged_group_ratio_is_not_judged_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, dump = tmp_path / "metrics.jsonl", tmp_path / "completions.jsonl"
    path.write_text(logged(range(1, 61), group_length_max_median_ratio_mean=2.0))
    dump.write_bytes(uneven(range(1, 61), 41))
    main(["check", "--json", "--rollouts", str(dump), str(path)])
    assert "P5" not in [one["rule"] for one in json.loads(capsys.readouterr().out)["verdicts"]]


def test_every_command_judges_the_dump_that_lies_beside(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the screen at rest: its newest step, which may still be written, counts there as well."""
    monkeypatch.setattr("rltop.run.rollouts.LOOK_S", 0.1)
    path = tmp_path / "logs" / "metrics.jsonl"
    path.parent.mkdir()
    (tmp_path / "output" / "completions").mkdir(parents=True)
    steps = range(1, 46)
    path.write_text(logged(steps, total_steps=45))
    for step in steps:
        dump = tmp_path / "output" / "completions" / f"{step}.jsonl"
        dump.write_bytes(uneven(range(step, step + 1), 43))
    told = {}
    for name, command in {"check": ["check"], "once": ["--once"], "folder": ["check"]}.items():
        main([*command, "--json", str(tmp_path if name == "folder" else path)])
        document = json.loads(capsys.readouterr().out)
        told[name] = [(one["rule"], one["step"]) for one in document["events"] if one["rule"] == "P5"]
    session = read_whole(str(path), Config(), FakeClock())
    run = session.runs[0]
    looked_through(session, run)
    told["screen"] = [(one.rule, one.step) for one in run.events if one.rule == "P5"]
    session.close()
    assert list(told.values()) == [[("P5", 45)]] * 4
    main(["watch", "--json", "--give-up", "0.2", str(path)])
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["step"] for one in said if one.get("rule") == "P5"] == [45]


def test_a_dump_is_judged_while_the_run_is_watched(tmp_path: Path) -> None:
    path = a_run(tmp_path)
    (tmp_path / "rollouts.jsonl").write_bytes(uneven(range(1, 61), 41))
    session = read_whole(str(path), Config(), FakeClock())
    run = session.runs[0]
    session.look_for_rollouts(run)
    deadline = time.monotonic() + PATIENCE_S
    while not run.verdicts and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [one.rule for one in run.verdicts] == ["P5"]
    session.close()
