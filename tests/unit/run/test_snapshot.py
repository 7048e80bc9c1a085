"""A snapshot is a run at a step: what it says belongs to that step, and several stand side by side."""

from __future__ import annotations

import json
from pathlib import Path

from fake_run import FakeRun, a_verdict, run_of, verl_lines, verl_rows
from tables import each_row

from rltop.cli.open_session import direct
from rltop.clock import FakeClock
from rltop.model import Event, EventState, Label, Level, RunState
from rltop.pages.overview import build_overview
from rltop.resources import folder
from rltop.run.options import IngestOptions
from rltop.run.places import FoundRun, name_of
from rltop.run.run import Run
from rltop.run.session import PREVIEW_FROM_BYTES, Session
from rltop.run.snapshot import Snapshot

RESTARTED = Path(str(folder("fixtures"))) / "trl" / "grpo_restart" / "metrics.jsonl"


def read(path: Path, *, is_over: bool = True) -> Run:
    clock = FakeClock()
    session = Session([FoundRun(str(path), name_of(str(path)))], direct(clock), clock, IngestOptions(has_preview=False))
    session.drain()
    if is_over:
        session.runs[0].finish()
    return session.runs[0]


def test_a_snapshot_of_no_step_follows_the_newest_row(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"".join(b'{"step": %d, "loss": 1.0}\n' % step for step in range(1, 11)))
    clock = FakeClock()
    session = Session([FoundRun(str(path), name_of(str(path)))], direct(clock), clock)
    session.drain()
    snapshot = Snapshot(session.runs[0])
    before = snapshot.source.version
    assert (snapshot.at_step, snapshot.step) == (None, 10)
    with path.open("ab") as file:
        file.write(b'{"step": 11, "loss": NaN}\n')
    while session.step(1_000.0):
        pass
    assert snapshot.step == 11, "a handle reads the store when it is asked"
    assert snapshot.source.version != before


def test_the_open_row_is_looked_at_and_its_events_are_provisional() -> None:
    rows = [json.dumps({"step": step, "loss": 1.0, "reward": 0.5}).encode() + b"\n" for step in range(1, 60)]
    rows.append(b'{"step": 60, "loss": NaN, "reward": 0.5}\n')

    clock = FakeClock()
    path = Path("run")

    class Given:
        """Gives all rows and stays open."""

        is_exhausted = is_over = is_network = is_at_rest = False

        def __init__(self) -> None:
            from rltop.sources.events import Chunk, TailState, TailStatus

            data = b"".join(rows)
            self.given = [Chunk(data, 0, 0)]
            self.status = TailStatus(TailState.AT_END, "", len(data), len(data))

        def take(self, max_bytes: int) -> list[object]:
            given, self.given = self.given, []
            return list(given)

        def close(self) -> None:
            pass

    session = Session([FoundRun(str(path), name_of("run"))], lambda _path, _lines: Given(), clock)  # type: ignore[arg-type,return-value]
    session.drain()
    snapshot = Snapshot(session.runs[0])
    assert [verdict.family for verdict in snapshot.firing] == ["nonfinite"]
    assert [event.is_provisional for event in snapshot.source.events if event.family == "nonfinite"] == [True]
    assert snapshot.at(59).firing == []


def test_after_a_restart_a_step_means_the_newest_segment_that_has_it() -> None:
    run = read(RESTARTED)
    (back_to,) = run.main.stream.restarts
    before, behind = Snapshot(run, back_to - 1), Snapshot(run, back_to)
    assert before.segment is not None
    assert behind.segment is not None
    assert behind.segment == before.segment + 1 == run.main.stream.segments[-1].number
    assert Snapshot(run).segment == behind.segment
    assert Snapshot(run, back_to).stream.row(back_to) == run.main.stream.row(back_to)


def log(*events: tuple[int, str, EventState, Level]) -> list[Event]:
    return [Event(step, step, rule, "kl", level, state, f"{rule} at {step}") for step, rule, state, level in events]


HISTORY = log(
    (10, "O11", EventState.FIRING, Level.WARN),
    (20, "O11", EventState.ESCALATED, Level.CRIT),
    (25, "L6", EventState.FACT, Level.INFO),
    (25, "O11", EventState.RECOVERED, Level.CRIT),
    (30, "T2", EventState.FIRING, Level.WARN),
    (35, "T2", EventState.RECOVERED, Level.WARN),
)


@each_row(
    ("step", "standing"),
    [
        (9, []),
        (10, [("O11", Level.WARN, "O11 at 10")]),
        (15, [("O11", Level.WARN, "O11 at 10, as of step 10")]),
        (24, [("O11", Level.CRIT, "O11 at 20, as of step 20")]),
        (25, []),
        (30, [("T2", Level.WARN, "T2 at 30")]),
        (35, []),
    ],
)
def test_verdicts_of_a_step_are_folded_from_the_log(step: int, standing: list[tuple[str, Level, str]]) -> None:
    run = run_of(verl_lines(verl_rows(40)), events=HISTORY, verdicts=[a_verdict()])
    snapshot = Snapshot(run, step)  # type: ignore[arg-type]
    assert [(one.rule, one.level, one.headline) for one in snapshot.standing] == standing
    assert [event.step for event in snapshot.past_events] == [event.step for event in HISTORY if event.step <= step]
    assert len(snapshot.source.events) == len(HISTORY)


def test_what_eased_settled_and_outlived_a_restart_stands_with_its_worst_level() -> None:
    events = log(
        (10, "O11", EventState.FIRING, Level.CRIT),
        (20, "O11", EventState.EASED, Level.WARN),
        (22, "L6", EventState.FACT, Level.INFO),
        (30, "O11", EventState.SETTLED, Level.INFO),
    )
    run = run_of(verl_lines(verl_rows(40)), events=events)
    found = [Snapshot(run, step).standing[0] for step in (15, 25, 35)]  # type: ignore[arg-type]
    assert [(one.state.value, one.level, one.worst) for one in found] == [
        ("firing", Level.CRIT, Level.CRIT), ("firing", Level.WARN, Level.CRIT), ("settled", Level.INFO, Level.CRIT),
    ]  # fmt: skip
    assert found[0].advice is not None


def test_an_alert_quotes_at_a_past_step_the_baseline_that_it_quoted_there(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = ({"step": step, "reward": 0.5, "entropy": 1.0 + step % 7 / 100, "grad_norm": 0.5} for step in range(1, 81))
    rows = ({**row, "entropy": 0.05} if row["step"] > 70 else row for row in rows)
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows))
    run = read(path, is_over=False)
    (now,) = (one for one in Snapshot(run).standing if one.rule == "E1")
    (past,) = (one for one in Snapshot(run, 75).standing if one.rule == "E1")
    assert now.quoted_baseline is not None
    assert past.quoted_baseline == now.quoted_baseline
    assert past.baseline == now.baseline


def test_a_muted_rule_stands_at_no_step() -> None:
    run = run_of(verl_lines(verl_rows(40)), events=HISTORY, muted=frozenset({"O11"}))
    assert not Snapshot(run, 15).standing  # type: ignore[arg-type]


def test_verdicts_of_another_stream_stand_as_of_the_same_time() -> None:
    def part(role: str, steps: int, gap_s: float, events: list[Event]) -> FakeRun:
        rows = ({"step": step, "loss": 1.0, "timestamp": 1e9 + gap_s * step} for step in range(1, steps + 1))
        data = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
        return run_of(data, role=role, events=events, verdicts=[])

    explorer = part("explorer", 80, 5.0, log((40, "O11", EventState.FIRING, Level.WARN)))
    run = part("", 40, 10.0, [])
    run.other_streams = (explorer,)
    assert Snapshot(run, 20).within("explorer").at_step == 40  # type: ignore[arg-type]
    (verdict,) = Snapshot(run, 20).standing  # type: ignore[arg-type]
    assert (verdict.stream, verdict.headline) == ("explorer", "explorer: O11 at 40")
    assert not Snapshot(run, 19).standing  # type: ignore[arg-type]


def test_snapshots_of_several_steps_and_runs_stand_side_by_side() -> None:
    first, second = read(RESTARTED), run_of(verl_lines(verl_rows(60)), "another")
    many = [Snapshot(first, 20), Snapshot(second, 30), Snapshot(first), Snapshot(second, 50)]  # type: ignore[arg-type]
    alone = [build_overview(one) for one in many]
    again = [build_overview(one) for one in reversed(many)][::-1]
    assert [view.header.cursor for view in alone] == [20, 30, None, 50]
    for one, other in zip(alone, again, strict=True):
        for row, its in zip(one.rows, other.rows, strict=True):
            assert row.reading._replace(line=its.reading.line) == its.reading
            assert row.reading.line() == its.reading.line()


def test_a_preview_supplies_rows_and_only_what_is_no_number_is_spoken_of(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = ({"step": step, "loss": 1.0 + step % 7, "entropy": 0.5, "pad": "x" * 900} for step in range(1, 3000))
    path.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in rows) + b'{"step": 3000, "loss": NaN}\n')
    assert path.stat().st_size > PREVIEW_FROM_BYTES
    clock = FakeClock()
    session = Session([FoundRun(str(path), name_of("run"), path.stat().st_size)], direct(clock), clock)
    session.read_newest(60_000.0)
    run = session.runs[0]
    snapshot = Snapshot(run)
    assert snapshot.part.is_preview
    assert (snapshot.step, snapshot.stream.first_step) == (3000, 3000 - 31)
    assert snapshot.identity is not None
    assert {(one.family, one.is_provisional) for one in snapshot.standing} <= {("nonfinite", True)}
    assert list(snapshot.source.events) == []
    while session.step(1_000.0):
        pass
    snapshot = Snapshot(run)
    assert not snapshot.part.is_preview
    assert snapshot.stream.first_step == 1


def test_the_newest_rows_of_a_small_file_are_there_before_it_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(verl_lines(verl_rows(60)))
    clock = FakeClock()
    session = Session([FoundRun(str(path), name_of("run"), path.stat().st_size)], direct(clock), clock)
    session.read_newest(60_000.0)
    assert Snapshot(session.runs[0]).part.is_preview
    assert Snapshot(session.runs[0]).step == Snapshot(run_of(verl_lines(verl_rows(60)))).step


def test_what_is_of_now_does_not_move_with_the_step() -> None:
    run = read(RESTARTED)
    early, late = Snapshot(run, 5), Snapshot(run)
    assert early.source.state is late.source.state is RunState.FINISHED
    assert early.part.state_note == late.part.state_note
    assert early.name == Label.of(name_of(str(RESTARTED)).raw)
