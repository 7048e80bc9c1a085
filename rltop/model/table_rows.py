"""Rows of tracker databases as lines of bytes, and paths of single runs within a file.

A source that reads tables emits each row as one line: the table name, then `column=value` fields, separated by the unit
separator (US). Decoders thus get bytes as from any file, split anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePath

from rltop.regex import regex
from rltop.structs import NamedTuple

ROWS_MAGIC = b"rows of tables 1\n"
"""Header of such a stream of bytes."""
MEMBER = "::"
"""Separates a database from one of its runs in a path: `trackio/project.db::run-id`."""
DATABASE_SUFFIXES = (".db", ".sqlite", ".sqlite3")
LOG_NAME = regex(
    r"(?i:\.(?:log|out|err|txt)|\A(?:std(?:out|err)|output|console|nohup|log)(?:[-_]\w{1,64}|\.\d{1,12})?)\Z"
)
"""Names of console logs; one log may hold several runs, if a launcher ran a sweep."""
_LOG_WORDS = "slurm|sbatch|job|train|run|main|out|output|console|nohup|log|std(?:out|err)"
_JOB_LOG = regex(rf"(?:{_LOG_WORDS})(?:[-_.\d].*|ing.*)?|.*\.(?:out|err)", re.IGNORECASE)
_LOG_TEXT = regex(rf"(?:.*[-_.])?(?:{_LOG_WORDS})(?:[-_.]?\d[\d_.-]*)?\.txt", re.IGNORECASE)
FOLLOWED = ("configs", "params", "system_metrics", "metrics", "alerts", "runs")
"""Tables of Trackio and MLflow that describe a run; rows with the same time are emitted in this order."""
RUN_COLUMNS = ("run_id", "run_uuid", "run_name")
"""Columns that identify the run of a row."""
SQLITE_MAGIC = b"SQLite format 3\0"
METRICS_FOLDER, SETTINGS_FOLDER, DESCRIPTION = "metrics", "params", "meta.yaml"
"""Parts of a run in MLflow's file store: a folder with one file per metric, one with one file per setting, a
description.
"""
STATE_COLUMN = "status"
"""Marks a table that is updated in place: its rows hold the status of a run."""

_SEPARATOR = b"\x1f"
_ESCAPED = regex(rb"[\\\n\x1f]")
_ESCAPE = regex(rb"\\(.)", re.DOTALL)
_SPELLED = {b"\\": rb"\\", b"\n": rb"\n", b"\x1f": rb"\u"}
_MEANT = {b"\\": b"\\", b"n": b"\n", b"u": b"\x1f"}


class TableLine(NamedTuple):
    """One row of a table.

    Attributes:
        values: column → value; null columns are absent.
    """

    table: str
    values: dict[str, bytes]


def line_of(table: str, values: Iterable[tuple[str, object]]) -> bytes:
    """Encode a row as a line, including the newline."""
    parts = [table.encode("utf-8", "surrogateescape")]
    for column, value in values:
        if value is None:
            continue
        data = value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogateescape")
        escaped = _ESCAPED.sub(lambda found: _SPELLED[found[0]], data)
        parts.append(column.encode("utf-8", "surrogateescape") + b"=" + escaped)
    return _SEPARATOR.join(parts) + b"\n"


def row_of(line: bytes) -> TableLine:
    """Decode a line into a row.

    Raises:
        ValueError: a field has no `=`.
    """
    table, *parts = line.split(_SEPARATOR)
    values = {}
    for part in parts:
        column, equals, value = part.partition(b"=")
        if not equals:
            raise ValueError("column without a value")
        value = _ESCAPE.sub(lambda found: _MEANT.get(found[1], found[0]), value) if b"\\" in value else value
        values[column.decode("utf-8", "replace")] = value
    return TableLine(table.decode("utf-8", "replace"), values)


def member_path(path: str, member: str) -> str:
    return f"{path}{MEMBER}{member.replace('%', '%25').replace('/', '%2F')}"


def may_be_database(path: str) -> bool:
    return PurePath(path).suffix.lower() in DATABASE_SUFFIXES


def is_log(path: str) -> bool:
    """Whether the file name looks like that of a console log, rather than of just any text file."""
    name = PurePath(path).name
    return LOG_NAME.search(name) is not None and (not name.lower().endswith(".txt") or bool(_LOG_TEXT.fullmatch(name)))


def is_job_log(path: str) -> bool:
    """Whether the file name looks like the log of a training job, rather than of a server or a tool."""
    return _JOB_LOG.fullmatch(PurePath(path).name) is not None


def split_member(path: str) -> tuple[str, str] | None:
    """Split `file::run` into a database or console log and a run; None for any other path."""
    database, found, member = path.partition(MEMBER)
    if not found or not (may_be_database(database) or LOG_NAME.search(PurePath(database).name)):
        return None
    return database, member.replace("%2F", "/").replace("%25", "%")


def log_of(path: str) -> tuple[str, str]:
    """The console log and the run in it; for a path without a run in a log: the path itself and ""."""
    found = split_member(path)
    return found if found is not None and not may_be_database(found[0]) else (path, "")
