"""What a file says besides its rows: how it ended, how fresh it can be, what was set up."""

from __future__ import annotations

from pathlib import Path

import pytest
from binary_files import block_log, exit_record, history, run_record
from fake_run import verl_rows
from tables import each_row

from rltop.cli.open_session import direct
from rltop.clock import FakeClock
from rltop.config import load
from rltop.formats.kinds import CONSOLE
from rltop.model import Level, RunState
from rltop.pages.overview import build_overview, paint_overview
from rltop.report.overview_document import once_document
from rltop.rows.glyphs import glyph_set
from rltop.run import session as session_module
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB"


class Watched:
    """A file that is followed, and a clock that the test moves."""

    def __init__(self, path: Path, data: bytes, *, is_live: bool = True) -> None:
        self.path, self.clock = path, FakeClock(1_000_000.0)
        path.write_bytes(data)
        config = load({}, {"HOME": str(path.parent)})
        found = FoundRun(str(path), name_of(str(path)), len(data), self.clock.now())
        self.session = Session([found], direct(self.clock), self.clock, config.ingest._replace(has_preview=False))
        self.after(0.0)
        if not is_live:
            self.session.drain()

    def after(self, seconds: float, data: bytes = b"") -> Run:
        with self.path.open("ab") as file:
            file.write(data)
        self.clock.advance(seconds)
        while self.session.step(1_000.0):
            pass
        return self.session.runs[0]


def sentence(run: Run) -> tuple[Level, str]:
    said = build_overview(Snapshot(run), width=120).sentence
    return said.level, said.text.raw


def text(run: Run, width: int) -> str:
    rows = paint_overview(build_overview(Snapshot(run), width=width), width, None, glyph_set(is_ascii=False))
    return "\n".join(row.text for row in rows)


def log(steps: int) -> bytes:
    return b"".join(f"step:{i} - actor/pg_loss:0.5 - actor/grad_norm:1.0\n".encode() for i in range(1, steps + 1))


def test_an_error_before_the_first_step_is_what_is_said(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "train.log", b"loading weights\n" + b"x\n" * 2048)
    run = watched.after(1.0, b"Traceback (most recent call last):\n" + OOM.encode() + b"\n")
    assert run.state is RunState.WAITING
    assert sentence(run) == (Level.WARN, f"no metrics yet; error logged: {OOM}")
    run = watched.after(3600.0)
    assert run.state is RunState.DIED
    assert sentence(run) == (Level.CRIT, f"died before the first step: {OOM}")
    document = once_document(Snapshot(run))
    assert (document["state"], document["failure"]) == ("died", OOM)
    assert "✗ died" in text(run, 80)


def test_a_log_with_a_progress_bar_and_no_metric_says_how_far_it_is(tmp_path: Path) -> None:
    bar = "(TaskRunner pid=7) Training Progress:   0%|          | {}/15625 [36:51<289:24:03, 66.82s/it]\n"
    run = Watched(tmp_path / "train.log", "".join(map(bar.format, range(34))).encode()).session.runs[0]
    assert sentence(run) == (Level.WARN, "no metrics yet: 34 lines read; its progress bar is at step 33 of 15,625")


def test_an_error_after_which_the_run_goes_on_is_no_death(tmp_path: Path) -> None:
    watched = Watched(tmp_path / "train.log", log(60))
    run = watched.after(1.0, b"RuntimeError: sandbox did not answer\n")
    assert run.state is RunState.LIVE
    assert "error logged after the newest step: RuntimeError: sandbox did not answer" in sentence(run)[1]
    run = watched.after(1.0, b"step:61 - actor/pg_loss:0.5 - actor/grad_norm:1.0\n")
    assert run.failure.raw == ""
    assert "RuntimeError" not in sentence(run)[1]


@pytest.mark.parametrize("steps", [0, 60])
def test_the_newest_error_is_what_is_said_though_no_row_comes_with_it(tmp_path: Path, steps: int) -> None:
    watched = Watched(tmp_path / "train.log", b"loading weights\n" + b"x\n" * 2048 + log(steps))
    run = watched.after(1.0, b"Traceback (most recent call last):\nValueError: first\n")
    before, run_before = watched.session.version, run.version
    assert "ValueError: first" in sentence(run)[1]
    run = watched.after(1.0, b"Traceback (most recent call last):\nKeyError: second\n")
    assert "KeyError: second" in sentence(run)[1]
    assert watched.session.version != before and run.version != run_before, "what is drawn goes by the version"


def test_an_error_and_silence_is_a_death_after_its_step(tmp_path: Path) -> None:
    run = Watched(tmp_path / "train.log", log(60) + OOM.encode() + b"\n", is_live=False).session.runs[0]
    assert run.state is RunState.DIED
    assert sentence(run)[1].startswith(f"died after step 60: {OOM}")


@each_row(("code", "state"), [(0, RunState.FINISHED), (1, RunState.DIED), (255, RunState.DIED)])
def test_an_exit_record_ends_the_run_with_its_code(tmp_path: Path, code: int, state: RunState) -> None:
    rows = [history({"global_step": i, "loss": 0.5}) for i in range(1, 40)]
    run = Watched(tmp_path / "run-x.wandb", block_log(*rows, exit_record(code))).session.runs[0]
    assert run.state is state
    if code:
        assert f"died after step 39: the process ended with exit code {code}" in sentence(run)[1]
    assert once_document(Snapshot(run))["failure"] == (f"the process ended with exit code {code}" if code else None)


def test_a_run_file_says_its_group_size_and_that_it_lags_while_it_is_written(tmp_path: Path) -> None:
    keys = ["critic/score/mean", "critic/score/max", "critic/score/min", "actor/pg_loss", "training/global_step"]
    rows = [history({key: row[key] for key in keys}) for _, row in verl_rows(40)]
    config = {"actor_rollout_ref": {"rollout": {"n": 8}}, "trainer": {"total_training_steps": 90}}
    watched = Watched(tmp_path / "run-x.wandb", block_log(run_record(config), *rows))
    run = watched.session.runs[0]
    assert (run.main.group_size, run.main.stream.total_steps) == (8, 90)
    assert "W&B writes 32 KiB at a time" in run.main.kind_note
    for width in (80, 120, 200):
        assert "the newest steps may lag" in text(run, width)
    assert once_document(Snapshot(run))["kind_note"] == run.main.kind_note
    assert "may lag" not in text(watched.after(1e6), 120), "it is over: nothing lags any more"


def test_a_json_document_of_any_writer_says_only_that_it_is_saved_as_a_whole(tmp_path: Path) -> None:
    run = Watched(tmp_path / "history.json", b'[{"step": 1, "loss": 0.5}, {"step": 2, "loss": 0.4}]').session.runs[0]
    assert "when it is saved again" in run.main.kind_note and "checkpoint" not in run.main.kind_note


def test_rows_of_json_lines_are_fresh(tmp_path: Path) -> None:
    run = Watched(tmp_path / "m.jsonl", b'{"step": 1, "loss": 0.5}\n').session.runs[0]
    assert run.main.kind_note == ""
    assert once_document(Snapshot(run))["kind_note"] is None


def test_a_large_console_log_shows_its_newest_rows_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(log(1_500))
    monkeypatch.setattr(session_module, "PREVIEW_FROM_BYTES", 10_000)
    clock = FakeClock()
    found = FoundRun(str(path), name_of(str(path)), path.stat().st_size, clock.now(), CONSOLE)
    session = Session([found], direct(clock), clock)
    run = session.runs[0]
    assert run.main.previews
    session.step(0.0)
    assert run.main.is_preview
    assert run.main.stream.last_step == 1_500
    session.drain()
    assert not run.main.is_preview
    assert run.main.stream.rows == 1_500


@each_row(
    "rows",
    [
        b"step:3 - val-core/gsm8k/acc/mean@1:0.5\n",
        b"Epoch 0 | Step 3 | loss: 0.5\n",
        b"   Step 3\n" + "┏━━━━━━━━┳━━━━━━━┓\n│ reward │ 0.5   │\n└────────┴───────┘\n".encode(),
        b"-----------------\n| train/          |      |\n|    loss         | 0.5  |\n|    total_timesteps | 3 |\n"
        b"| time/ | |\n|    total_timesteps | 3 |\n-----------------\n",
    ],
)
def test_a_run_of_which_any_step_was_seen_did_not_die_before_its_first(tmp_path: Path, rows: bytes) -> None:
    run = Watched(tmp_path / "train.log", b"x\n" * 2048 + rows + OOM.encode() + b"\n", is_live=False).session.runs[0]
    assert run.state is RunState.DIED
    assert sentence(run)[1].startswith(f"died after step 3: {OOM}")


def test_a_validation_before_the_first_step_hides_no_death(tmp_path: Path) -> None:
    log = "(\"Initial validation metrics: {'val/test_score/nq': 0.1}\")\n" + OOM + "\n"
    run = Watched(tmp_path / "train.log", log.encode(), is_live=False).session.runs[0]
    assert sentence(run)[1].startswith(f"died after step 0: {OOM}")


@each_row(
    ("begins", "ends", "restarts", "last_step"),
    [
        (0, 25, (0,), 24),  # the same seed, and a clock that is not logged: it trained again
        (60, 70, (), 69),
        (58, 70, (), 69),  # a few rows are repeated where the file was changed
    ],
)
def test_a_file_put_in_the_place_of_one_moved_away(tmp_path, begins, ends, restarts, last_step):
    rows = [f'{{"step": {step}, "loss": {1.0 + step % 7}}}\n'.encode() for step in range(70)]
    path = tmp_path / f"metrics-{begins}.jsonl"
    watched = Watched(path, b"".join(rows[:60]))
    path.rename(tmp_path / f"{begins}.old")
    watched.after(1.0, b"".join(rows[begins:ends]))
    run = watched.after(60.0)
    assert (run.main.stream.restarts, run.main.stream.last_step) == (restarts, last_step)
