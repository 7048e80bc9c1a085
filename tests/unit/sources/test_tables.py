"""Rows of a database and of metric files, while somebody writes them: each once, in the order of their times."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from rltop.clock import FakeClock
from rltop.model.table_rows import ROWS_MAGIC, row_of
from rltop.sources.events import Chunk, Reset, TailState
from rltop.sources.file import FileSystem
from rltop.sources.tables import PIECE_ROWS, DatabaseTail, MetricFolderTail
from rltop.sources.tail import Tail, folder_at, is_metric_folder, open_tail

SCHEMA = """
create table metrics (id integer primary key, run_id text, timestamp text, run_name text, step integer, metrics text);
create table system_metrics (id integer primary key, run_id text, timestamp text, run_name text, metrics text);
create table notes (id integer primary key, run_id text, text text);
"""


def told(tail, max_bytes=1 << 20):
    """Lines that looks bring until there are no more; resets as they are."""
    found: list[object] = []
    rest = b""
    while True:
        for event in tail.poll(max_bytes):
            if isinstance(event, Reset):
                found.append(event)
                continue
            assert isinstance(event, Chunk)
            *whole, rest = (rest + event.data).split(b"\n")
            found += [row_of(line) for line in whole if line + b"\n" != ROWS_MAGIC]
        if tail.status.state is not TailState.READING:
            assert not rest
            return found


def database(path: Path) -> sqlite3.Connection:
    writer = sqlite3.connect(path)
    writer.execute("pragma journal_mode=wal")
    writer.executescript(SCHEMA)
    return writer


def log(writer: sqlite3.Connection, run: str, step: int) -> None:
    row = (run, f"2026-01-01T00:{step // 60:02}:{step % 60:02}", f"name of {run}", step, "{}")
    writer.execute("insert into metrics (run_id, timestamp, run_name, step, metrics) values (?, ?, ?, ?, ?)", row)


def steps(lines) -> list[int]:
    return [int(line.values["step"]) for line in lines if line.table == "metrics"]


def test_rows_of_one_run_come_as_they_are_committed_and_nothing_is_left_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    with closing(database(path)) as writer:
        tail = open_tail(f"{path}::a", FileSystem(), FakeClock())
        assert isinstance(tail, DatabaseTail)
        assert told(tail) == []
        for step in range(3 * PIECE_ROWS):
            log(writer, "ab"[step % 2], step)
        assert told(tail) == []
        writer.commit()
        before = sorted(tmp_path.iterdir())
        assert steps(told(tail)) == list(range(0, 3 * PIECE_ROWS, 2))
        log(writer, "a", 9000)
        writer.commit()
        assert steps(told(tail)) == [9000]
        assert told(tail) == []
        assert sorted(tmp_path.iterdir()) == before
        tail.close()
        assert tail.poll(1) == []


def test_a_small_budget_brings_the_same(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    with closing(database(path)) as writer:
        for step in range(50):
            log(writer, "a", step)
        writer.commit()
        whole = told(DatabaseTail(str(path), "name of a", FileSystem()))
        assert told(DatabaseTail(str(path), "a", FileSystem()), max_bytes=100) == whole
        assert steps(whole) == list(range(50))


def test_tables_are_merged_by_time_and_other_tables_are_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    with closing(database(path)) as writer:
        for step in range(2 * PIECE_ROWS):
            log(writer, "a", step)
        rows = [("a", f"2026-01-01T00:{minute:02}:00", "x", "{}") for minute in range(0, 16, 5)]
        writer.executemany(
            "insert into system_metrics (run_id, timestamp, run_name, metrics) values (?, ?, ?, ?)", rows
        )
        writer.execute("insert into notes (run_id, text) values ('a', 'x')")
        writer.commit()
        lines = told(DatabaseTail(str(path), "a", FileSystem()))
    at = [i for i, line in enumerate(lines) if line.table == "system_metrics"]
    assert at == [0, 301, 602, 903]
    assert not [line for line in lines if line.table == "notes"]


def test_a_run_that_is_taken_away_is_given_out_anew(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    with closing(database(path)) as writer:
        log(writer, "a", 1)
        log(writer, "a", 2)
        writer.commit()
        tail = DatabaseTail(str(path), "a", FileSystem())
        assert steps(told(tail)) == [1, 2]
        writer.execute("delete from metrics")
        log(writer, "a", 7)
        writer.commit()
        reset, line = told(tail)
        assert reset.is_restart
        assert reset.generation == 1
        assert steps([line]) == [7]


def test_a_database_that_is_not_there_or_damaged_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    tail = DatabaseTail(str(path), "a", FileSystem())
    assert tail.poll(1) == []
    assert tail.status.state is TailState.WAITING
    path.write_bytes(b"SQLite format 3\0" + bytes(100))
    assert tail.poll(1) == []
    assert tail.status.state is TailState.LOST
    assert tail.status.error is not None
    path.unlink()
    with closing(database(path)) as writer:
        log(writer, "a", 1)
        writer.commit()
        assert steps(told(tail)) == [1]


def folder(tmp_path: Path) -> Path:
    run = tmp_path / "run"
    (run / "metrics" / "train").mkdir(parents=True)
    (run / "params").mkdir()
    (run / "params" / "lr").write_text("0.1")
    (run / "meta.yaml").write_text("run_name: x\nstatus: 1\n")
    return run


def put(path: Path, *rows: tuple[int, int], end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("".join(f"{1000 + time} 0.5 {step}\n" for time, step in rows).removesuffix("\n") + end)


def keys(lines) -> list[tuple[str, int]]:
    return [(line.values["key"].decode(), int(line.values["step"])) for line in lines if line.table == "metrics"]


def test_metric_files_are_merged_by_time_and_step_and_followed(tmp_path: Path) -> None:
    run = folder(tmp_path)
    put(run / "metrics" / "a", (1, 1), (1, 2), (3, 3))
    put(run / "metrics" / "train" / "b", (1, 1), (1, 2), (3, 3))
    clock = FakeClock()
    tail = folder_at(str(run), FileSystem(), clock)
    assert isinstance(tail, MetricFolderTail)
    lines = told(tail)
    assert [line.table for line in lines] == ["params", *["metrics"] * 6, "runs"]
    assert keys(lines) == [(key, step) for step in (1, 2, 3) for key in ("a", "train/b")]
    put(run / "metrics" / "a", (4, 4), end="")
    put(run / "metrics" / "c", (4, 4))
    assert told(tail) == []
    clock.advance(2.0)
    assert keys(told(tail)) == [("c", 4)]
    with (run / "metrics" / "a").open("a") as file:
        file.write("\n")
    (run / "meta.yaml").write_text("status: 3\n")
    clock.advance(2.0)
    lines = told(tail)
    assert keys(lines) == [("a", 4)]
    assert lines[-1] == ("runs", {"status": b"3"})


def test_a_metric_file_that_is_shorter_than_before_begins_anew(tmp_path: Path) -> None:
    run = folder(tmp_path)
    put(run / "metrics" / "a", *((i, i) for i in range(3000)))
    clock = FakeClock()
    tail = MetricFolderTail(str(run), FileSystem(), clock)
    assert keys(told(tail, max_bytes=500)) == [("a", i) for i in range(3000)]
    (run / "metrics" / "a").write_text("1 1.0 1\n")
    clock.advance(2.0)
    reset, *lines = told(tail)
    assert reset.is_restart
    assert keys(lines) == [("a", 1)]


def test_only_the_folder_of_a_run_is_one(tmp_path: Path) -> None:
    run = folder(tmp_path)
    assert is_metric_folder(str(run), FileSystem())
    assert not is_metric_folder(str(tmp_path), FileSystem())
    assert isinstance(open_tail(str(run), FileSystem(), FakeClock()), Tail)
