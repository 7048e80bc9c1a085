"""A file that nothing is written to for a while: its last rows are shown as if it were over, and taken back if not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rltop.cli.open_session import direct
from rltop.clock import FakeClock
from rltop.config import load
from rltop.model import Level, RunState
from rltop.pages.overview import build_overview
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

BAR = " 10%|█         | {}/300 [00:10<01:30,  1.00it/s]"
EPOCHS = "".join(
    f"{{'loss': {1 / i:.4f}, 'grad_norm': 1.0, 'learning_rate': 1e-05, 'epoch': {i / 10}}}\n" for i in range(1, 28)
)


class Screen:
    """A file that a test appends to, and the session of a screen that follows it."""

    def __init__(self, path: Path, text: str, *, written_s_ago: float = 0.0) -> None:
        self.path, self.clock = path, FakeClock(1_700_000_000.0)
        path.write_text(text)
        found = FoundRun(str(path), name_of(str(path)), path.stat().st_size, self.clock.now() - written_s_ago)
        self.session = Session([found], direct(self.clock), self.clock, load({}, {"HOME": str(path.parent)}).ingest)
        self.after(0.3)

    def after(self, seconds: float, text: str = "") -> Run:
        """Append, and move on in steps as a screen does; sleeping where the session says that nothing will happen."""
        with self.path.open("a") as file:
            file.write(text)
        end_s = self.clock.now() + seconds
        while True:
            while self.session.step(1_000.0):
                pass
            if self.clock.now() >= end_s:
                return self.session.runs[0]
            self.clock.advance(0.25)


def rows(first: int, last: int) -> str:
    return "".join(json.dumps({"step": i, "loss": 0.5, "grad_norm": 1.0}) + "\n" for i in range(first, last + 1))


def loss(run: Run) -> tuple[int, float] | None:
    point = run.main.stream.latest("loss")
    return None if point is None else (point.step, point.value)


def alerts(run: Run) -> list[tuple[str, Level, int]]:
    return [(one.rule, one.level, one.since_step) for one in run.verdicts if one.is_active]


def test_a_last_row_of_json_is_shown_and_judged_before_its_line_has_ended(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "metrics.jsonl", rows(1, 59) + '{"step": 60, "loss": NaN, "grad_norm": 1.0}')
    run = screen.session.runs[0]
    assert (run.main.stream.rows, run.main.stream.last_step) == (60, 60)
    assert alerts(run)[0] == ("L1", Level.CRIT, 60)
    run = screen.after(10.0, "\n" + rows(61, 61))
    assert (run.main.stream.rows, run.main.stream.counts.repeated_rows, run.counts.lines) == (61, 0, 61)


def test_a_writer_that_ends_a_line_before_the_next_row_is_live(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "metrics.jsonl", rows(1, 1).strip())
    for step in range(2, 40):
        run = screen.after(3.0, "\n" + rows(step, step).strip())
        assert (run.main.stream.last_step, run.state) == (step, RunState.LIVE)
        assert run.main.age_s is not None and run.main.age_s <= 3.0


def test_a_torn_row_is_shown_when_the_file_has_been_still_and_gives_way_to_the_whole_one(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "progress.csv", "step,reward,loss\n1,0.5,0.5\n2,0.5,0.4\n3,0.75,0.3")
    assert loss(screen.session.runs[0]) == (2, 0.4)
    run = screen.after(6.0)
    assert (run.main.stream.last_step, loss(run)) == (3, (2, 0.4)), "the last cell may be half of one"
    before = run.version
    run = screen.after(6.0, "5\n4,0.75,0.2")
    assert run.version != before
    assert loss(run) == (3, 0.35)
    assert (run.main.stream.rows, run.main.stream.last_step) == (4, 4)
    run = screen.after(0.5, "5\n")
    assert (run.main.stream.rows, loss(run)) == (4, (4, 0.25))
    assert run.counts.repeated_rows == run.counts.late_rows == run.counts.bad_lines == 0


def test_a_torn_line_is_only_called_bad_when_the_file_has_been_still(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "metrics.jsonl", rows(1, 5) + '{"step": 6, "lo')
    assert screen.session.runs[0].counts.bad_lines == 0
    assert screen.after(6.0).counts.bad_lines == 1
    run = screen.after(0.5, 'ss": 0.25}\n')
    assert (run.counts.bad_lines, loss(run)) == (0, (6, 0.25))


def test_rest_follows_the_pace_of_the_run(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "metrics.jsonl", "")
    for step in range(1, 30):
        screen.after(100.0, rows(step, step))
    screen.after(90.0, '{"step": 30, "lo')
    assert screen.session.runs[0].counts.bad_lines == 0
    assert screen.after(90.0).counts.bad_lines == 1


def test_rows_of_a_console_that_wait_for_their_step_are_shown(tmp_path: Path) -> None:
    text = BAR.format(5) + "\n" + EPOCHS + "Traceback (most recent call last):\nKeyboardInterrupt"
    run = Screen(tmp_path / "output.log", text, written_s_ago=3_600.0).session.runs[0]
    assert run.main.stream.rows == 27
    assert "first step" not in build_overview(Snapshot(run), width=120).sentence.text.raw
    live = Screen(tmp_path / "live.log", text)
    assert live.session.runs[0].main.stream.rows == 0
    assert live.after(6.0).main.stream.rows == 27


def test_rows_of_a_console_get_other_steps_when_a_bar_tells_them(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "train.log", BAR.format(5) + "\n" + EPOCHS.partition("\n")[0] + "\n")
    assert screen.after(6.0).main.stream.rows == 1
    guessed = screen.session.runs[0].main.stream.last_step
    run = screen.after(1.0, "\r" + BAR.format(30) + "\r")
    assert (run.main.stream.rows, run.main.stream.last_step) == (1, 30)
    assert guessed != 30


def test_a_file_that_was_still_when_it_was_opened_rests_at_once(tmp_path: Path) -> None:
    screen = Screen(tmp_path / "progress.csv", "step,reward,loss\n1,0.5,0.5\n2,0.75,0.3", written_s_ago=60.0)
    assert screen.session.runs[0].main.stream.last_step == 2


def test_what_is_muted_stays_muted_at_rest_and_after_it(tmp_path: Path) -> None:
    table = "step,reward,loss\n" + "".join(f"{i},nan,0.5\n" for i in range(1, 40))
    screen = Screen(tmp_path / "progress.csv", table + "40,nan,0.3", written_s_ago=60.0)
    run = screen.session.runs[0]
    (found, _, _), *_ = alerts(run)
    run.mute(found)
    assert found not in [rule for rule, _, _ in alerts(run)]
    run = screen.after(0.5, "\n41,nan,0.5\n42,nan,0.5\n")
    assert found not in [rule for rule, _, _ in alerts(run)]
    assert run.main.judging.muted == {found}


@pytest.mark.parametrize("rest_s", [0.5, 20.0])
def test_a_new_key_in_the_last_row_is_judged(tmp_path: Path, rest_s: float) -> None:
    """A second line of the last step: what its metric is, is told at rest as at the end."""
    screen = Screen(tmp_path / "metrics.jsonl", rows(1, 60) + json.dumps({"step": 60, "kl": 0.1}) + "\n")
    signals = getattr(screen.after(rest_s).main.identity, "signals", {})
    assert ("kl_ref" in signals) is (rest_s > 5.0)


def test_a_row_nested_hundreds_of_levels_deep_may_wait_for_its_step(tmp_path: Path) -> None:
    deep = json.dumps({"loss": 0.5, "data": None}).replace("null", "[" * 900 + "]" * 900)
    screen = Screen(tmp_path / "metrics.jsonl", f'{deep}\n{{"los')
    screen.after(10.0)
    run = screen.after(10.0, 's": 0.25}\n' + rows(1, 4))
    assert run.main.stream.last_step == 4
    screen.session.close()
