"""A SQLite file read by our own means: the rows that SQLite reads, beside any writer, which never notices."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import textwrap
import time
import tracemalloc
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given
from hypothesis import strategies as st
from tables import each_row

from rltop.errors import DecodeError
from rltop.sqlite_file import DatabaseFile, Pages, columns_of, newest, rows, tables

Row = tuple[int, list[object]]
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-300, 300),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
    st.binary(max_size=60),
    st.integers(0, 9000).map(lambda size: b"\xab" * size),
)


def read_all(path: Path, name: str = "t", after: int | None = None) -> list[Row]:
    def read(pages: Pages) -> list[Row]:
        table = next(each for each in tables(pages) if each.name == name)
        found = [(row.number, [row.value(column) for column in table.columns]) for row in rows(pages, table, after)]
        assert newest(pages, table) == (found[-1][0] if found else None) or after is not None
        return found

    return DatabaseFile(str(path)).look(read)


@examples(30)
@given(
    size=st.sampled_from([512, 1024, 4096, 65536]),
    mode=st.sampled_from(["DELETE", "WAL", "TRUNCATE", "PERSIST"]),
    encoding=st.sampled_from(["UTF-8", "UTF-16le", "UTF-16be"]),
    given_rows=st.lists(st.tuples(st.integers(-(2**62), 2**62) | st.integers(0, 99), VALUES, VALUES), max_size=60),
    gone=st.integers(0, 60),
    is_open=st.booleans(),
)
def test_rows_are_those_that_sqlite_reads(
    tmp_path_factory: pytest.TempPathFactory, size: int, mode: str, encoding: str,
    given_rows: list[tuple[int, object, object]], gone: int, is_open: bool,
) -> None:  # fmt: skip
    path = tmp_path_factory.mktemp("made") / "a.db"
    with closing(sqlite3.connect(path)) as writer:
        for pragma in (f"page_size={size}", f"encoding='{encoding}'", f"journal_mode={mode}"):
            writer.execute(f"PRAGMA {pragma}")
        writer.execute("CREATE TABLE other (x)")
        writer.execute("CREATE TABLE t (a, id INTEGER PRIMARY KEY, b)")
        for number, a, b in given_rows:
            writer.execute("INSERT OR REPLACE INTO t (id, a, b) VALUES (?, ?, ?)", (number, a, b))
        for number, *_ in given_rows[:gone]:
            writer.execute("DELETE FROM t WHERE id = ?", (number,))
        writer.execute("ALTER TABLE t ADD COLUMN c")
        writer.commit()
        wanted = [(row[1], list(row)) for row in writer.execute("SELECT a, id, b, c FROM t ORDER BY id")]
        if is_open:
            assert read_all(path) == wanted
    assert read_all(path) == wanted
    middle = wanted[len(wanted) // 2][0] if wanted else 0
    assert read_all(path, after=middle) == [row for row in wanted if row[0] > middle]
    assert sorted(each.name for each in path.parent.iterdir()) in (["a.db"], ["a.db", "a.db-journal"])


def test_a_large_table_is_walked_through_all_its_levels(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA page_size=512")
        writer.execute("CREATE TABLE t (a)")
        writer.executemany("INSERT INTO t VALUES (?)", ((f"{i:0100}",) for i in range(20_000)))
        writer.commit()
    found = read_all(path)
    assert [number for number, _ in found] == list(range(1, 20_001)) and found[777][1] == [f"{777:0100}"]
    assert [number for number, _ in read_all(path, after=19_990)] == list(range(19_991, 20_001))


@each_row(
    ("sql", "names", "alias"),
    [
        ("CREATE TABLE t (a, b)", ("a", "b"), ""),
        ('CREATE TABLE "t" (\n\tid INTEGER NOT NULL, \n\tb VARCHAR, \n\tPRIMARY KEY (id)\n)', ("id", "b"), "id"),
        ("CREATE TABLE t (id INT PRIMARY KEY, `b``c` DECIMAL(10, 2) DEFAULT (1), [d e])", ("id", "b`c", "d e"), ""),
        ("CREATE TABLE t (\"Reward\" FLOAT, -- one, two\n/* b, */ c CHECK (c > ')'), UNIQUE (c, reward))",
         ("reward", "c"), ""),
        ("CREATE TABLE t (a, b AS (a + 1), c GENERATED ALWAYS AS (a) STORED, PRIMARY KEY (a, c))", ("a", "c"), ""),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY ASC, b)", ("id", "b"), "id"),
        ("CREATE TABLE t (id INTEGER PRIMARY KEY DESC, b)", ("id", "b"), ""),
        ("CREATE TABLE t (id INTEGER, b, PRIMARY KEY (id DESC))", ("id", "b"), "id"),
        ("CREATE TABLE t (id INTEGER UNSIGNED PRIMARY KEY, b)", ("id", "b"), ""),
        ("CREATE TABLE t", (), ""),
        ("(((,", ("(", ), ""),
        ("", (), ""),
    ],
)  # fmt: skip
def test_columns_are_read_from_the_statement(sql: str, names: tuple[str, ...], alias: str) -> None:
    assert columns_of(sql)[1] == alias
    if "CREATE" in sql and "(" in sql:
        assert columns_of(sql)[0] == names


CONSTANTS = (
    "5", "-5", "+5", "- 5", "1.50", ".5", "5.", "1e3", "'a''b'", "'7'", "' 7 '", "'0.0'", '"x"', "bare", "x'4142'",
    "TRUE", "false", "NULL", "(5)", "(-5)", "('a')", "-'7'", "9223372036854775808", "'nan'", "'1_0'",
)  # fmt: skip


@each_row("kind", ["", "INTEGER", "REAL", "TEXT", "BLOB", "BOOLEAN", "VARCHAR(9)", "FLOAT NOT NULL"])
def test_a_row_older_than_a_column_has_its_default(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "a.db"
    constants = [each for each in CONSTANTS if "NOT NULL" not in kind or each != "NULL"]
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("CREATE TABLE t (a, default_ INTEGER DEFAULT (1 + 1))")
        writer.execute("INSERT INTO t (a) VALUES (1)")
        for i, constant in enumerate(constants):
            writer.execute(f"ALTER TABLE t ADD COLUMN c{i} {kind} DEFAULT {constant}")
        writer.execute("INSERT INTO t (a, c0) VALUES (2, 6)")
        writer.commit()
        wanted = [(row[0], list(row[1:])) for row in writer.execute("SELECT rowid, * FROM t")]
    assert read_all(path) == wanted


@each_row("order", ["ASC", "DESC"])
def test_a_descending_key_has_values_of_its_own(tmp_path: Path, order: str) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute(f"CREATE TABLE t (id INTEGER PRIMARY KEY {order}, b)")
        writer.executemany("INSERT INTO t VALUES (?, ?)", [(40, "a"), (30, "b"), (50, "c")])
        writer.commit()
        wanted = [(row[0], list(row[1:])) for row in writer.execute("SELECT rowid, * FROM t ORDER BY rowid")]
    assert read_all(path) == wanted


@examples(300)
@given(st.text(alphabet="(),'\"`[]ab PRIMARYKEY-*/\n", max_size=60))
def test_any_statement_has_columns_or_none(sql: str) -> None:
    columns_of(sql)


@pytest.mark.parametrize("part", ["[", "'", '"', "`", "/*", "(", "'a", "x DEFAULT '", ","])
def test_a_statement_takes_time_by_its_length_and_not_its_square(part: str) -> None:
    begun = time.thread_time()
    columns_of("CREATE TABLE t (a, " + part * (200_000 // len(part)))
    assert time.thread_time() - begun < 5


# -- beside a writer -------------------------------------------------------------------------------------------------

WRITER = """
    import select, sqlite3, sys
    path, mode = sys.argv[1:]
    writer = sqlite3.connect(path, timeout=0, isolation_level=None)
    for pragma in (f"journal_mode={mode}", "synchronous=OFF", "wal_autocheckpoint=300", "cache_size=4"):
        writer.execute("PRAGMA " + pragma)
    writer.execute("CREATE TABLE IF NOT EXISTS t (a, b)")
    writer.execute("CREATE TABLE IF NOT EXISTS total (n)")
    writer.execute("INSERT INTO total VALUES (0)")
    print("ready", flush=True)
    busy = done = 0
    while done < 100_000:
        try:
            writer.execute("BEGIN")
            for _ in range(7):
                writer.execute("INSERT INTO t VALUES (?, ?)", (done, b"x" * 900))
            writer.execute("DELETE FROM t WHERE rowid % 97 = ? AND rowid < ?", (done % 97, 7 * done - 400))
            writer.execute("DELETE FROM t WHERE rowid < ?", (7 * done - 900,))
            writer.execute("UPDATE total SET n = (SELECT count(*) FROM t)")
            writer.execute("COMMIT")
            done += 1
        except sqlite3.OperationalError:
            busy += 1
            writer.in_transaction and writer.execute("ROLLBACK")
        # Now and then a pause in which a look comes to its end on a busy machine, too.
        if done % 4 == 0 and select.select([sys.stdin], [], [], 0.003 if done % 40 else 0.1)[0]:
            break
    print(busy, done, flush=True)
"""


@contextmanager
def hammering(path: Path, mode: str) -> Iterator[subprocess.Popen[str]]:
    """A writer without any patience, in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), mode]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    try:
        assert writer.stdout.readline() == "ready\n"
        yield writer
    finally:
        writer.kill()
        writer.communicate()


@pytest.mark.parametrize("mode", ["WAL", "DELETE", "TRUNCATE", "PERSIST"])
def test_a_look_sees_one_commit_and_the_writer_never_sees_the_look(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.db"

    def look(pages: Pages) -> tuple[int, int]:
        by_name = {table.name: table for table in tables(pages)}
        (total,) = rows(pages, by_name["total"])
        return int(str(total.value("n"))), sum(1 for _ in rows(pages, by_name["t"]))

    seen, missed = set(), 0
    with hammering(path, mode) as writer:
        file = DatabaseFile(str(path))
        for _ in range(500):
            try:
                said, counted = file.look(look)
            except DecodeError as error:
                assert "without a pause" in error.message
                missed += 1
            else:
                assert said == counted
                seen.add(said)
            if len(seen) > 4:
                break
        writer.stdin.write("stop\n")
        writer.stdin.flush()
        busy, done = map(int, writer.stdout.readline().split())
    assert busy == 0 and done > 4
    assert len(seen) > 4, missed


HOT = """
    import os, sqlite3, sys
    path, mode = sys.argv[1:]
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute(f"PRAGMA journal_mode={mode}")
    writer.execute("PRAGMA cache_size=2")
    writer.execute("BEGIN")
    writer.execute("UPDATE t SET a = 'half', b = zeroblob(3000)")
    writer.execute("INSERT INTO t SELECT a, b FROM t")
    os.write(1, b"half")
    sys.stdin.readline()
    os._exit(0)
"""


@pytest.mark.parametrize("mode", ["DELETE", "TRUNCATE", "PERSIST", "WAL"])
def test_half_a_transaction_is_not_seen_while_it_goes_on_nor_when_its_writer_died(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.execute(f"PRAGMA journal_mode={mode}")
        writer.execute("CREATE TABLE t (a, b)")
        writer.executemany("INSERT INTO t VALUES ('whole', ?)", ((b"x" * size,) for size in range(0, 8000, 70)))
        writer.commit()
    wanted = read_all(path)
    command = [sys.executable, "-c", textwrap.dedent(HOT), str(path), mode]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as half:
        assert half.stdout.read(4) == b"half"
        assert read_all(path) == wanted
        half.stdin.close()
        half.wait(10)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert f"a.db-{'wal' if mode == 'WAL' else 'journal'}" in before
    assert mode == "WAL" or b"half" in before["a.db"]
    assert read_all(path) == wanted
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    with closing(sqlite3.connect(path)) as reader:
        assert [(number, [a, b]) for number, a, b in reader.execute("SELECT rowid, a, b FROM t")] == wanted


def test_a_log_that_is_begun_anew_is_followed(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    file = DatabaseFile(str(path))

    def count(pages: Pages) -> int:
        return sum(1 for table in tables(pages) for _ in rows(pages, table))

    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE t (a)")
        for i in range(1, 40):
            writer.execute("INSERT INTO t VALUES (?)", ("y" * 500,))
            assert file.look(count) == i
            if i % 9 == 0:
                writer.execute(f"PRAGMA wal_checkpoint({'TRUNCATE' if i % 18 else 'RESTART'})")
                assert file.look(count) == i
    assert file.look(count) == 39


# -- bytes of any content --------------------------------------------------------------------------------------------


def table_of_one_cell(path: Path, size: int, payload: bytes, further: int, cells: int = 1) -> bytes:
    """A database whose only table is one page: `cells` times the same row, which says to be `size` bytes long."""
    with closing(sqlite3.connect(path)) as writer:
        writer.execute("PRAGMA page_size=4096")
        writer.execute("CREATE TABLE metrics (id INTEGER PRIMARY KEY, run_name, timestamp, step, metrics)")
        writer.executemany("INSERT INTO metrics VALUES (?, 'a', '', 1, ?)", ((i, bytes(3000)) for i in range(40)))
        writer.commit()
        (root,) = writer.execute("SELECT rootpage FROM sqlite_master").fetchone()
    data = bytearray(path.read_bytes())
    least = (4096 - 12) * 32 // 255 - 23
    held = least + (size - least) % 4092
    held = size if size <= 4061 else held if held <= 4061 else least
    cell = varint(size) + varint(1) + payload[:held].ljust(held, b"\1") + further.to_bytes(4)
    page = bytearray(4096 - len(cell)) + cell
    page[0], page[3:5], page[5:7] = 13, cells.to_bytes(2), (4096 - len(cell)).to_bytes(2)
    page[8 : 8 + 2 * cells] = (4096 - len(cell)).to_bytes(2) * cells
    data[(root - 1) * 4096 : root * 4096] = page
    data[(further - 1) * 4096 : (further - 1) * 4096 + 4] = further.to_bytes(4)
    return bytes(data)


def varint(number: int) -> bytes:
    out = [number & 0x7F]
    while number := number >> 7:
        out.append(number & 0x7F | 0x80)
    return bytes(reversed(out))


@each_row(
    ("size", "payload", "cells", "said"),
    [
        (2**40, varint(2**39), 1, "longer than the file"),
        (150_000, varint(140_000), 1, "too many columns"),
        (100_000, varint(90_000), 1, "goes on in itself"),
        (100_000, b"\6\0\x0f" + varint(180_013) + b"\0\0", 1, "goes on in itself"),
        (900, b"\6\0\x0f\x0d\1" + varint(1_700), 1500, "each other's place"),
    ],
)
def test_a_length_that_the_file_does_not_hold_is_damage(
    tmp_path: Path, size: int, payload: bytes, cells: int, said: str
) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(table_of_one_cell(path, size, payload, 9, cells))
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError, match=said):
            read_all(path, "metrics")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * path.stat().st_size


def test_one_name_is_one_table(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with closing(sqlite3.connect(path)) as writer:
        writer.executescript("CREATE TABLE tab (a); CREATE TABLE tub (a);")
    path.write_bytes(path.read_bytes().replace(b"tub", b"tab"))
    with pytest.raises(DecodeError, match="two tables"):
        read_all(path, "none")


def test_special_files_in_the_place_of_its_logs_are_said(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "a.db")) as writer:
        writer.execute("CREATE TABLE t (a)")
    os.mkfifo(tmp_path / "a.db-wal")
    with pytest.raises(OSError, match="named pipe"):
        read_all(tmp_path / "a.db")
