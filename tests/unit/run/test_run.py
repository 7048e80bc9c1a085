"""One run as the screen sees it, while its file is read, hangs, begins anew or has been downsampled."""

from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest
from ptys import PATIENCE_S
from tables import each_row

from rltop.catalog.dialect import Identity
from rltop.cli.open_session import direct, threaded
from rltop.clock import Clock, FakeClock
from rltop.formats.decoder import DecoderOptions
from rltop.model import FilePosition, RunState
from rltop.report.overview_document import once_document
from rltop.report.text import once_text
from rltop.resources import folder
from rltop.run import session as session_module
from rltop.run.options import IngestOptions
from rltop.run.pipeline import read_row
from rltop.run.places import FoundRun, name_of
from rltop.run.rule_runner import RuleRunner
from rltop.run.run_stream import Judgement
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.events import ONCE, Chunk, ReaderOptions, Reset, ResetReason, TailState, TailStatus
from rltop.sources.feed import DirectFeed
from rltop.sources.reader import Reader
from rltop.store.series import StoreOptions
from rltop.store.stream import Stream


def line(step: int, **values: float) -> bytes:
    return json.dumps({"step": step, "loss": step / 7, **values}).encode() + b"\n"


class ScriptedFeed:
    """Gives out what the test puts in, and says what the test says."""

    is_network = False
    is_over = False
    is_at_rest = False

    def __init__(self) -> None:
        self.events: list[Chunk | Reset] = []
        self.status = TailStatus(TailState.READING)
        self.is_exhausted = False
        self.offset = self.generation = 0

    def write(self, data: bytes, state: TailState = TailState.AT_END) -> None:
        self.events.append(Chunk(data, self.offset, self.generation))
        self.offset += len(data)
        self.say(state)

    def begin_anew(self) -> None:
        self.generation, self.offset = self.generation + 1, 0
        self.events.append(Reset(ResetReason.TRUNCATED, self.generation, is_restart=True))

    def say(self, state: TailState) -> None:
        self.status = TailStatus(state, "", self.offset, self.offset)
        self.is_exhausted = state is not TailState.READING

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        taken, self.events = self.events, []
        return taken

    def close(self) -> None:
        pass


def session_of(*feeds: ScriptedFeed, size: int = 0) -> Session:
    """A session in which each path has its feed; with a size, the second one is the preview of the first."""
    if size:
        main, preview = feeds
        found = [FoundRun("m.jsonl", name_of("m.jsonl"), size)]
        return Session(found, lambda _path, last: main if last is None else preview, FakeClock())
    found = [FoundRun(f"{i}.jsonl", name_of(f"{i}.jsonl")) for i in range(len(feeds))]
    return Session(found, lambda path, _last: feeds[int(path[0])], FakeClock())


def test_a_feed_that_hangs_in_the_middle_of_history_has_not_caught_up() -> None:
    feed = ScriptedFeed()
    feed.write(line(1) + line(2), TailState.READING)
    feed.say(TailState.STUCK)
    session = session_of(feed)
    session.step(1e9)
    run = session.runs[0]
    assert run.main.stream.last_step == 2
    assert run.loading is not None
    feed.write(line(3))
    session.step(1e9)
    assert run.loading is None


def test_a_run_whose_file_system_is_silent_holds_up_no_other() -> None:
    dead, alive = ScriptedFeed(), ScriptedFeed()
    session = session_of(dead, alive)
    dead.say(TailState.STUCK)
    for step in range(1, 40):
        alive.write(line(step))
        session.step(4)
    assert session.runs[1].main.stream.last_step == 39
    assert session.runs[0].main.stream.rows == 0
    assert session.runs[0].main.state_note == dead.status.message


def test_several_runs_in_turns_come_to_what_each_comes_to_alone() -> None:
    feeds = [ScriptedFeed() for _ in range(3)]
    session = session_of(*feeds)
    for step in range(1, 60):
        for i, feed in enumerate(feeds):
            feed.write(line(step, reward=float(i)))
            session.step(0)
    while session.step(4):
        pass
    for i, run in enumerate(session.runs):
        assert list(run.main.stream.steps()) == list(range(1, 60))
        assert run.main.stream.latest("reward") == (59, float(i))


def test_the_newest_row_never_goes_back_when_history_takes_over() -> None:
    main, preview = ScriptedFeed(), ScriptedFeed()
    rows = [line(step) for step in range(1, 31)]
    session = session_of(main, preview, size=session_module.PREVIEW_FROM_BYTES)
    run = session.runs[0]
    preview.offset = len(b"".join(rows[:20]))
    preview.write(b"".join(rows[20:28]))
    main.write(b"".join(rows[:10]), TailState.READING)
    session.step(1e9)
    assert (run.main.is_preview, run.main.stream.last_step) == (True, 28)
    preview.write(rows[28])  # seen by the preview first
    main.write(b"".join(rows[10:28]))
    session.step(1e9)
    assert run.main.stream.last_step == 29
    main.write(rows[28] + rows[29])
    session.step(1e9)
    assert (run.main.is_preview, run.main.stream.last_step) == (False, 30)


def test_the_last_rows_are_judged_once_however_much_history_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    main, preview = ScriptedFeed(), ScriptedFeed()
    lines = [line(step, loss=float("nan") if step % 10 == 0 else 1.0) for step in range(1, 201)]
    session = session_of(main, preview, size=session_module.PREVIEW_FROM_BYTES)
    run = session.runs[0]
    preview.offset = len(b"".join(lines[:150]))
    preview.write(b"".join(lines[150:]))
    judged: list[int | None] = []
    asked = RuleRunner.peek

    def peek(self: RuleRunner, stream: Stream, identity: Identity) -> Judgement:
        judged.append(stream.last_step)
        return asked(self, stream, identity)

    monkeypatch.setattr(RuleRunner, "peek", peek)
    for at in range(0, 150, 10):
        main.write(b"".join(lines[at : at + 10]), TailState.READING)
        session.step(1e9)
        assert run.main.is_preview and run.verdicts[0].family == "nonfinite"
    assert judged == [200]
    main.write(b"".join(lines[150:]))
    session.step(1e9)
    assert not run.main.is_preview and run.verdicts[0].family == "nonfinite" and len(judged) == 2


def test_slices_do_not_shrink_where_the_machine_is_busy_with_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    feed, clock = ScriptedFeed(), FakeClock()
    session = Session([FoundRun("run0.jsonl", "run0")], lambda _path, _last: feed, clock)
    pipeline, sizes = session.runs[0].main.whole.pipeline, list[int]()
    taken = pipeline.take_bytes

    def take_bytes(data: bytes, offset: int, generation: int) -> None:
        sizes.append(len(data))
        taken(data, offset, generation)
        clock.advance(1.0)

    monkeypatch.setattr(pipeline, "take_bytes", take_bytes)
    feed.write(b"".join(map(line, range(1, 6_000))))
    while session.step(4.0):
        pass
    assert len(sizes) > 2 and min(sizes[:-1]) == sizes[0]


def test_a_file_that_begins_anew_under_the_preview_is_not_taken_for_read() -> None:
    main, preview = ScriptedFeed(), ScriptedFeed()
    session = session_of(main, preview, size=session_module.PREVIEW_FROM_BYTES)
    run = session.runs[0]
    old = b"".join(line(step) for step in range(1, 31))
    main.write(old, TailState.READING)
    preview.offset = len(old)
    preview.write(line(31))
    preview.begin_anew()
    preview.write(line(20, reward=1.0))
    session.step(1e9)
    assert run.main.is_preview
    assert run.main.stream.latest("reward") == (20, 1.0)
    main.begin_anew()
    main.write(line(20, reward=1.0))
    session.step(1e9)
    assert not run.main.is_preview
    assert run.main.stream.restarts == (20,)


def waited_for(session: Session, step: int) -> None:
    run = session.runs[0]
    run.main.recall(step)
    until = time.monotonic() + PATIENCE_S
    while run.main.stream.downsampled_range(step) is not None and time.monotonic() < until:
        session.step(4)
        time.sleep(0.002)


@pytest.fixture
def downsampled(tmp_path: Path) -> Session:
    """A run of which memory holds the last rows only, and the index every other place at most."""
    path = tmp_path / "metrics.jsonl"
    with path.open("wb") as file:
        for step in range(1, 10_001):
            file.write(line(step))
            if step % 1_000 == 0:
                file.write(json.dumps({"step": step, "eval_loss": step * 2.0}).encode() + b"\n")
    options = IngestOptions(has_preview=False, store=StoreOptions(memory_bytes=40_000))
    session = Session([FoundRun(str(path), name_of(str(path)))], direct(FakeClock()), FakeClock(), options)
    while session.step(1e9):
        pass
    return session


def test_downsampled_rows_come_back_as_they_were_written_until_the_run_begins_anew(downsampled: Session) -> None:
    run = downsampled.runs[0]
    stream = run.main.stream
    for step in (1, 2, 77, 1_000, 5_431, 8_000):
        assert stream.downsampled_range(step) is not None, step
        waited_for(downsampled, step)
        expected = {"loss": step / 7} | ({"eval_loss": step * 2.0} if step % 1_000 == 0 else {})
        assert stream.row(step) == expected
        assert stream.latest("loss", step) == (step, step / 7)
    waited_for(downsampled, 77)
    with Path(run.path.raw).open("ab") as file:
        file.write(json.dumps({"step": 70, "loss": -1.0}).encode() + b"\n")
        file.write(json.dumps({"step": 77, "loss": -2.0}).encode() + b"\n")
    while downsampled.step(1e9):
        pass
    assert run.main.stream.value("loss", 77) == -2.0


def test_a_step_that_was_never_logged_is_not_made_up(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"".join(line(step) for step in range(0, 100, 10)))
    position = FilePosition(0, 0)
    assert read_row(str(path), 45, position, DecoderOptions()) is None
    assert read_row(str(path), 40, position, DecoderOptions()) == {"loss": 40 / 7}


def test_the_last_row_of_an_old_event_file_is_shown_and_is_not_news():
    from rltop.model import RunState

    path = folder("fixtures") / "tensorboard" / "events.out.tfevents.1795000001.node-1.1.simple"
    clock = FakeClock(1_900_000_000.0)
    found = FoundRun(str(path), name_of(str(path)), modified_s=path.stat().st_mtime)
    session = Session([found], lambda p, _n: DirectFeed(p, clock=clock), clock)
    run = session.runs[0]
    while session.step(1e9):
        pass
    rows = run.main.stream.rows
    clock.advance(2.0)
    session.step(1e9)
    assert run.main.stream.rows == rows + 1
    assert run.state in (RunState.ENDED, RunState.FINISHED)
    assert run.main.age_s is None or run.main.age_s > 1_000_000


def test_a_run_whose_file_is_at_its_end_is_left_alone_until_more_has_come(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 1, "loss": 2.0}\n')
    rung = threading.Event()
    reader = Reader(ReaderOptions(), on_data=rung.set)
    found = FoundRun(str(path), name_of(str(path)), path.stat().st_size)
    session = Session([found], threaded(reader), Clock())
    run = session.runs[0]

    def reaches(step: int) -> bool:
        for _ in range(400):
            while session.step(50.0):
                pass
            if run.main.stream.last_step == step and run.is_resting:
                return True
            rung.wait(0.05)
            rung.clear()
        return False

    assert reaches(1)
    with path.open("ab") as file:
        file.write(b'{"step": 2, "loss": 1.0}\n')
    assert reaches(2)
    session.close()
    reader.close()


def test_how_far_reading_is_behind_the_writer_is_told(tmp_path: Path) -> None:
    path, clock = tmp_path / "metrics.jsonl", Clock()
    path.write_bytes(b'{"step": 1, "loss": 2.0}\n')
    session = Session([FoundRun(str(path), name_of(str(path)))], lambda p, _n: DirectFeed(p, clock=clock), clock)
    run = session.runs[0]
    while session.step(1e9):
        pass
    assert run.behind_bytes == 0
    with path.open("ab") as file:
        file.writelines(b'{"step": %d, "loss": 2.0, "note": "%s"}\n' % (step, b"x" * 2000) for step in range(2, 1000))
    size = path.stat().st_size
    session.step(0.5)
    assert 0.5 * size < run.behind_bytes < size
    assert "2.0 MB behind" in once_text(Snapshot(run), 100) or "1.9 MB behind" in once_text(Snapshot(run), 100)
    assert once_document(Snapshot(run))["behind_bytes"] == run.behind_bytes
    while session.step(1e9):
        pass
    assert run.behind_bytes == 0
    assert "MB behind" not in once_text(Snapshot(run), 100)


def test_what_was_written_while_a_file_was_read_once_is_behind(tmp_path: Path) -> None:
    path, clock = tmp_path / "metrics.jsonl", Clock()
    path.write_bytes(b"".join(b'{"step": %d, "loss": 2.0}%s\n' % (step, b" " * 1000) for step in range(3000)))
    found = FoundRun(str(path), name_of(str(path)))
    session = Session([found], lambda p, _n: DirectFeed(p, clock=clock, options=ONCE), clock)
    while not session.runs[0].main.stream.rows:
        session.step(0.5)
    with path.open("ab") as file:
        file.write(b" " * 3_000_000)
    while session.step(1e9):
        pass
    assert (session.runs[0].main.stream.last_step, session.runs[0].behind_bytes) == (2999, 3_000_000)


def test_a_file_that_was_truncated_waits_for_rows(tmp_path: Path) -> None:
    path, clock = tmp_path / "metrics.jsonl", FakeClock()
    # A gradient that is no number at the end: an alert of what is gone is no headline.
    rows = [{"step": step, "loss": 2.0, "grad_norm": 1.0 if step < 8 else math.nan} for step in range(12)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    session = Session([FoundRun(str(path), name_of(str(path)))], lambda p, _n: DirectFeed(p, clock=clock), clock)
    run = session.runs[0]
    for content, state in (
        (None, RunState.LIVE),
        (b"", RunState.WAITING),
        (b'{"step": 2, "loss": 1.0}\n', RunState.LIVE),
    ):
        if content is not None:
            path.write_bytes(content)
        while session.step(1e9):
            pass
        assert run.state is state
        said, is_waiting = once_text(Snapshot(run), 100), state is RunState.WAITING
        assert [text in said for text in ("file truncated", "waiting for records")] == [is_waiting] * 2
        # What is gone is no alert of now: neither here nor in the list of runs.
        assert any(one.is_active for one in run.verdicts) == (content is None), said
    # However long ago: a run of last week whose file begins anew says so too.
    clock.advance(7 * 86_400)
    path.write_bytes(b"")
    while session.step(1e9):
        pass
    assert run.state is RunState.ENDED and "file truncated" in once_text(Snapshot(run), 100)


def test_the_newest_row_has_its_events_while_it_is_open_and_once_when_it_is_closed() -> None:
    feed = ScriptedFeed()
    session = session_of(feed)
    run = session.runs[0]
    feed.write(b"".join(line(step, grad_norm=1.0) for step in range(1, 41)) + line(41, grad_norm=float("nan")))
    session.step(1_000.0)
    firing = [event for event in run.events if event.step == 41]
    assert firing and all(event.is_provisional for event in firing)
    assert {event.rule for event in firing} <= {verdict.rule for verdict in run.verdicts}
    assert len(run.events) == len(run.main.judging.now.event_times)
    feed.write(line(42, grad_norm=1.0))
    session.step(1_000.0)
    assert [event for event in run.events if event.step == 41] == [
        event._replace(is_provisional=False) for event in firing
    ]
    assert len(run.events) == len(run.main.judging.now.event_times)


@each_row("rows", [*range(8, 32, 6), 60, 80, 100, 120, 140])
def test_a_file_that_is_opened_shows_the_events_that_it_has_when_it_is_over(rows: int) -> None:
    """Whatever its last row: also in the middle of what fires, and before it is known who wrote it."""
    path = folder("fixtures") / "trl" / "grpo_straggler" / "metrics.jsonl"
    feed = ScriptedFeed()
    session = session_of(feed)
    run = session.runs[0]
    feed.write(b"".join(path.read_bytes().splitlines(keepends=True)[:rows]))
    session.step(10_000.0)
    opened = [event._replace(is_provisional=False) for event in run.events]
    run.finish()
    assert opened == list(run.events)
    assert not any(event.is_provisional for event in run.events)


def test_a_run_holds_its_streams_the_main_one_first_and_each_by_itself(tmp_path: Path) -> None:
    files = {"trainer": 30, "explorer": 12}
    for name, rows in files.items():
        (tmp_path / name).write_bytes(b"".join(line(step, loss=1.0) for step in range(1, rows + 1)))
    found = FoundRun(str(tmp_path / "trainer"), name_of("job"), role="trainer")
    other = FoundRun(str(tmp_path / "explorer"), name_of("explorer"), role="explorer")
    clock = FakeClock()
    session = Session([found._replace(other_streams=(other,))], direct(clock), clock)
    session.drain()
    run = session.runs[0]
    assert [each.role for each in run.streams] == ["", "explorer"]
    assert [each.stream.last_step for each in run.streams] == [30, 12]
    assert run.main.stream is run.main.stream
    assert (run.name.raw, run.path.raw) == ("job", str(tmp_path / "trainer"))
    share = session.builder.options.store.memory_bytes // 2
    assert {each.stream.options.memory_bytes for each in run.streams} == {share}


def collapsing() -> bytes:
    """A run that collapses at 60, comes back at 90, begins again at 110, and ends on a gradient of NaN."""
    rows = []
    for index, step in enumerate((*range(1, 121), *range(110, 171))):
        noise, is_ill = index % 7 / 100, 60 <= step < 90
        row = {
            "step": step, "loss": noise, "reward": 0.0 if is_ill else 0.5 + noise, "kl": 0.01 + noise / 10,
            "entropy": 0.005 if is_ill else 0.3 + noise, "grad_norm": 60.0 if is_ill else 0.5 + noise,
            "completion_length": 60.0 if is_ill else 800.0 + step % 7,
        }  # fmt: skip
        rows.append(json.dumps(row if step < 170 else row | {"grad_norm": float("nan")}))
    return ("\n".join(rows) + "\n").encode()


def followed(path: Path, pieces: list[bytes]) -> list[tuple[object, ...]]:
    """Events of a file that is written in pieces while it is followed."""
    path.write_bytes(b"")
    clock = FakeClock()
    session = Session([FoundRun(str(path), name_of(str(path)))], direct(clock), clock)
    for piece in pieces:
        with path.open("ab") as file:
            file.write(piece)
        clock.advance(1.0)
        session.step(1e9)
    return [tuple(event)[:7] for event in session.runs[0].events]


def test_a_file_that_is_followed_while_it_is_written_comes_to_what_it_says_at_once(tmp_path: Path) -> None:
    """Cut inside rows too; and the last row's events are there although no later row closes it."""
    data = collapsing()
    whole = followed(tmp_path / "whole.jsonl", [data])
    assert {"X1", "E1", "L6", "L1"} <= {event[2] for event in whole}
    assert [(event[2], event[1]) for event in whole][-1] == ("L1", 170)
    assert not [event for event in whole if event[4] >= 3 and event[5] == "firing" and 90 <= event[1] < 170]
    for size in (97, 1_009, 10_007):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        assert followed(tmp_path / f"{size}.jsonl", pieces) == whole
