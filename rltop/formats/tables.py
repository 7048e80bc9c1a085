"""Runs that trackers keep in tables: rows of Trackio and MLflow → records, and the runs in a database.

The source turns table rows into lines (`model/table_rows.py`). A table row of Trackio has all metrics of a step, one of
MLflow a single metric. Sources: `trackio/sqlite_storage.py`, `mlflow/store/tracking`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import orjson

from rltop.formats.decoder import Decoder, LineFramer
from rltop.formats.jsonl import tolerant_loads
from rltop.formats.rows import (
    Gatherer,
    RecordBuilder,
    Row,
    alert_line,
    bare_step,
    clipped_key,
    number_of,
    time_of,
    total_of,
)
from rltop.formats.tracker_steps import PlacedRow, TrackerRow, TrackerSteps
from rltop.formats.wandb import SYSTEM, RunInfo
from rltop.model import Counts, FilePosition, Record
from rltop.model.table_rows import ROWS_MAGIC, SQLITE_MAGIC, row_of
from rltop.regex import regex
from rltop.sqlite_file import DatabaseFile, DatabaseTable, Pages, TableRow, newest, rows, tables
from rltop.structs import NamedTuple

ALERTS = "alerts/"
"""Prefix for levels of Trackio's alerts, whose number is counted as a metric of their step."""
IS_DATABASE = "a database cannot be read from a pipe: pass its path"
_LARGEST = 1.7976931348623157e308
"""MLflow's databases contain this in place of infinity."""
_STATES = {b"1": b"RUNNING", b"3": b"FINISHED", b"4": b"FAILED", b"5": b"KILLED"}
"""Numbers of run states in MLflow's file store."""
_FAILURES = {b"FAILED": "MLflow has the run as failed", b"KILLED": "MLflow has the run as killed"}
_ENDED = (b"FINISHED", *_FAILURES)

Values = Mapping[str, bytes]


class _Alert(NamedTuple):
    """An alert whose step has not been read yet: Trackio may write it before the row that raised it."""

    level: str
    text: str
    number: int
    time_s: float | None
    position: FilePosition


class TableDecoder(Decoder):
    """Rows of one run in Trackio or MLflow.

    Hardware samples are averaged since the previous row and added to the next, so that they never look like progress.
    """

    stopped = ""

    def __init__(self, step_key: str = "") -> None:
        self.counts = Counts()
        self._framer = LineFramer(self.counts)
        self._builder = RecordBuilder(self.counts)
        self._step_key = step_key
        self._generation = 0
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._run = RunInfo()
        self._status = b""
        self._steps = TrackerSteps(self.counts, self._step_key)
        self._last_number = -1
        self._alerts: list[_Alert] = []
        self._rows = Gatherer(self._builder)

    @property
    def group_size(self) -> int | None:
        return self._run.group_size

    @property
    def is_finished(self) -> bool:
        """Has the tracker marked the run as over? Trackio never does."""
        return self._status in _ENDED

    @property
    def failure(self) -> str:
        return _FAILURES.get(self._status, "")

    def feed(self, data: bytes, offset: int, generation: int) -> list[Record]:
        self._generation = generation
        records: list[Record] = []
        for line, start in self._framer.feed(data, offset):
            self._take(line, start, records)
        return records

    def flush(self) -> list[Record]:
        """The row collected so far, and rows waiting for a step unless one is expected."""
        return self._release([], is_end=False)

    def _release(self, records: list[Record], *, is_end: bool) -> list[Record]:
        for placed in self._steps.release(is_end=is_end):
            self._give_out(placed, records)
        self._keep(self._rows.give_out(), records)
        return records

    @property
    def holds_back(self) -> bool:
        """Do rows wait for their step, or alerts for their row?"""
        return self._steps.is_holding or bool(self._alerts)

    def finish(self) -> list[Record]:
        records: list[Record] = []
        last = self._framer.finish()
        if last is not None:
            self._take(*last, records)
        self._release(records, is_end=True)
        for alert in self._alerts:
            self._give_out_alert(alert, alert.number if self._steps.last is None else self._steps.last, records)
        self._alerts = []
        return records

    def reset(self, *, is_restart: bool = True) -> None:
        self._framer.reset()
        self._builder.begin_anew()
        self._begin_anew()

    # -- lines -------------------------------------------------------------------------------------------------------

    def _take(self, line: bytes, start: int, records: list[Record]) -> None:
        if self.stopped or not line or line == ROWS_MAGIC.rstrip():
            return
        if line.startswith(SQLITE_MAGIC.rstrip(b"\0")):
            self.stopped = IS_DATABASE
            return
        self.counts.lines += 1
        try:
            table, values = row_of(line)
        except ValueError as error:
            self._refuse(str(error))
            return
        position = FilePosition(self._generation, start)
        if table == "metrics" and "key" in values:
            self._metric(values, position, records)
        elif table == "metrics":
            self._row(values, position, records)
        elif table == "system_metrics":
            self._sample(values)
        elif table == "alerts":
            self._alert(values, position, records)
        elif table == "configs":
            self._run = self._run.with_config(self._object(values.get("config", b"")))
        elif table == "params":
            self._run = self._run.with_config(_setting(values))
        elif table == "runs":
            self._status = _STATES.get(values.get("status", b""), values.get("status", b""))
        else:
            self._refuse("not a row of a tracker's table")

    def _object(self, text: bytes) -> dict[str, object]:
        try:
            found, broken = tolerant_loads(text)
        except ValueError:
            found, broken = None, 0
        self.counts.broken_texts += broken
        if isinstance(found, dict):
            return found
        self._refuse("not a JSON object")
        return {}

    # -- Trackio: a row holds all metrics of a step ------------------------------------------------------------------

    def _row(self, values: Values, position: FilePosition, records: list[Record]) -> None:
        cells = self._object(values.get("metrics", b""))
        if not cells:
            return
        cells |= self._rows.samples.take()
        row = TrackerRow(cells, _whole(values.get("step")), _seconds(values.get("timestamp")), position)
        self._steps.is_awaited = self._run.names_steps or bool(self._step_key)
        for placed in self._steps.place(row):
            self._give_out(placed, records)

    def _give_out(self, placed: PlacedRow, records: list[Record]) -> None:
        (cells, number, time_s, position, said), step, total, is_part = placed
        if step is None:
            self.counts.no_step_lines += 1
            return
        if number is not None:
            self._last_number = max(self._last_number, number)
            if self._alerts:
                said = self._add_alerts(cells, number)
        total = total or total_of(cells) or self._run.total_steps
        record = self._builder.of_cells(step, time_s, cells, position, total)
        self._keep(record._replace(script_alerts=said, is_part=is_part) if said or is_part else record, records)

    def _alert(self, values: Values, position: FilePosition, records: list[Record]) -> None:
        """An alert raised by the training script, counted in the row of its step, or in the newest one."""
        level = values.get("level", b"warn").decode("utf-8", "replace")
        number = _whole(values.get("step"))
        title, text = (values.get(name, b"").decode("utf-8", "replace") for name in ("title", "text"))
        alert = _Alert(
            level,
            alert_line(level, title, text),
            max(0, self._last_number) if number is None else number,
            _seconds(values.get("timestamp")),
            position,
        )
        if self._steps.last is None or alert.number > self._last_number:
            self._alerts.append(alert)
        else:
            self._give_out_alert(alert, self._steps.last, records)

    def _give_out_alert(self, alert: _Alert, step: int, records: list[Record]) -> None:
        cells: Row = {ALERTS + alert.level: 1.0}
        row = TrackerRow(cells, None, alert.time_s, alert.position, (alert.text,))
        self._give_out(PlacedRow(row, step), records)

    def _add_alerts(self, cells: Row, number: int) -> tuple[str, ...]:
        due = [alert for alert in self._alerts if alert.number <= number]
        for alert in due:
            count = cells.get(ALERTS + alert.level, 0.0)
            cells[ALERTS + alert.level] = count + 1.0 if isinstance(count, float) else 1.0
        if due:
            self._alerts = [alert for alert in self._alerts if alert.number > number]
        return tuple(alert.text for alert in due)

    def _sample(self, values: Values) -> None:
        for key, value in self._object(values.get("metrics", b"")).items():
            number = number_of(value)
            if isinstance(number, float):
                self._rows.samples.add(SYSTEM + key, number)
            else:
                self.counts.text_values += 1

    # -- MLflow: a row holds one metric ------------------------------------------------------------------------------

    def _metric(self, values: Values, position: FilePosition, records: list[Record]) -> None:
        key = clipped_key(values["key"].decode("utf-8", "replace"))
        value = _logged(values)
        step = _whole(values.get("step"))
        if value is None or step is None:
            self._refuse("a metric without a value and a step")
        elif key.startswith(SYSTEM):
            self._rows.samples.add(key, value)
        else:
            self._rows.total = self._run.total_steps
            self._keep(self._rows.add(step, key, value, _seconds(values.get("timestamp")), position), records)

    def _keep(self, row: Record | None, records: list[Record]) -> None:
        if row is not None:
            records.append(row)


def _logged(values: Values) -> float | None:
    if values.get("is_nan") == b"1":
        return float("nan")
    try:
        value = float(values["value"])
    except (KeyError, ValueError):
        return None
    return value * 2.0 if abs(value) >= _LARGEST else value


def _whole(text: bytes | None) -> int | None:
    return None if text is None else bare_step(text.decode("ascii", "replace"))


def _seconds(text: bytes | None) -> float | None:
    if text is None:
        return None
    word = text.decode("ascii", "replace")
    return time_of(word if "-" in word else number_of(word))


def _setting(values: Values) -> dict[str, object]:
    """A setting in MLflow, whose name joins nested names with slashes or dots; empty unless it is an integer."""
    text = values.get("value", b"")
    if not text.isdigit():
        return {}
    found: object = int(text)
    for name in reversed(re.split(r"[./]", values.get("key", b"").decode("utf-8", "replace"))):
        found = {name: found}
    return found if isinstance(found, dict) else {}


# -- the runs in a database -------------------------------------------------------------------------------------------


class TrackedRun(NamedTuple):
    """One run known to a tracker.

    Attributes:
        member: its unique name within the database, for the end of a path.
        modified_s: when it was last written to, according to its rows; None if unknown.
    """

    member: str
    name: str
    modified_s: float | None = None


_LAST_ROWS = 500
"""Rows at the end of Trackio's metrics that are read for the times of the runs."""
_DELETED = "deleted"
_IDS = ("run_id", "run_name")
_DESCRIBED = regex(rb"^(run_name|lifecycle_stage|start_time|end_time):[ \t]*(.*?)[ \t\r]*$", re.MULTILINE)
_MOST_OF_DESCRIPTION = 64 * 1024


def runs_in(path: str) -> list[TrackedRun] | None:
    """The runs in a database, newest first; None if it is not a tracker's, empty if it has no run yet.

    Raises:
        DecodeError: the database is damaged.
        OSError: it cannot be read.
    """
    found = DatabaseFile(path).look(_runs)
    return found and sorted(found, key=lambda run: (-(run.modified_s or 0.0), run.name))


def _runs(pages: Pages) -> list[TrackedRun] | None:
    found = {table.name: table for table in tables(pages)}
    if "metrics" not in found:
        return None if found and "experiments" not in found else []
    if "runs" in found and "run_uuid" in found["runs"].columns:
        return list(_mlflow_runs(pages, found["runs"]))
    if "run_name" not in found["metrics"].columns:
        return None
    return _trackio_runs(pages, found["metrics"], found.get("configs"))


def _mlflow_runs(pages: Pages, table: DatabaseTable) -> Iterator[TrackedRun]:
    for row in rows(pages, table):
        member, name = _text(row, "run_uuid"), _text(row, "name")
        if member and _text(row, "lifecycle_stage") != _DELETED:
            ended = row.value("end_time") or row.value("start_time")
            yield TrackedRun(member, name or member, time_of(ended))


def _trackio_runs(pages: Pages, metrics: DatabaseTable, configs: DatabaseTable | None) -> list[TrackedRun]:
    """Runs by their configs, which are written with the first row; in older files by the rows alone."""
    found: dict[str, TrackedRun] = {}

    def note(row: TableRow, table: DatabaseTable, time_column: str) -> None:
        member = next((text for name in _IDS if name in table.columns and (text := _text(row, name))), "")
        if member:
            name = _text(row, "run_name") or member
            found[member] = TrackedRun(member, name, time_of(_text(row, time_column)))

    last = newest(pages, metrics)
    if configs is not None:
        for row in rows(pages, configs):
            note(row, configs, "created_at")
    after = None if not found else max(0, (last or 0) - _LAST_ROWS)
    for row in rows(pages, metrics, after):
        note(row, metrics, "timestamp")
    return list(found.values())


def _text(row: TableRow, column: str) -> str:
    value = row.value(column, _MOST_OF_DESCRIPTION)
    return value if isinstance(value, str) else value.decode("utf-8", "replace") if isinstance(value, bytes) else ""


def run_in_folder(path: str) -> TrackedRun | None:
    """The run of a folder in MLflow's file store, with its name if it has one; None if it was deleted.

    Raises:
        OSError: its description cannot be read.
    """
    with Path(path, "meta.yaml").open("rb") as file:
        said = dict(_DESCRIBED.findall(file.read(_MOST_OF_DESCRIPTION)))
    if said.get(b"lifecycle_stage") == _DELETED.encode():
        return None
    name = said.get(b"run_name", b"").decode("utf-8", "replace").strip("'\"")
    ended = said.get(b"end_time", b"")
    return TrackedRun("", name, time_of(int(ended)) if ended.isdigit() else None)


def newest_values(path: str) -> dict[str, dict[str, float]]:
    """The newest value of each metric, by run, as far as it is known without reading the whole database.

    MLflow keeps these in a table; of Trackio only the last rows are read.

    Raises:
        DecodeError: the database is damaged.
        OSError: it cannot be read.
    """
    return DatabaseFile(path).look(_newest_values)


def _newest_values(pages: Pages) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    by_name = {table.name: table for table in tables(pages)}
    if "latest_metrics" in by_name:
        for row in rows(pages, by_name["latest_metrics"]):
            value = row.value("value")
            if isinstance(value, int | float):
                found.setdefault(_text(row, "run_uuid"), {})[_text(row, "key")] = float(value)
    elif "metrics" in by_name:
        table = by_name["metrics"]
        for row in rows(pages, table, max(0, (newest(pages, table) or 0) - _LAST_ROWS)):
            member = next((text for name in _IDS if name in table.columns and (text := _text(row, name))), "")
            try:
                cells = orjson.loads(_text(row, "metrics"))
            except orjson.JSONDecodeError:
                continue
            if isinstance(cells, dict):
                numbers = {key: float(value) for key, value in cells.items() if isinstance(value, int | float)}
                found.setdefault(member, {}).update(numbers)
    return found
