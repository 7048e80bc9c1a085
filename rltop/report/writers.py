"""Which formats a report has, by the end of its file name, and the two that are plain data: CSV and JSON."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType

from rltop.errors import RltopError
from rltop.model import Label
from rltop.pages.signals import signal_of
from rltop.report.document import Document, dumps
from rltop.report.run_report import Made, RunReport
from rltop.run.snapshot import Snapshot

FORMATS: Mapping[str, str] = MappingProxyType(
    {
        ".html": "one page with charts, light and dark, printable",
        ".md": "text and tables for an issue or a pull request",
        ".svg": "one picture with the charts",
        ".json": "the documents of --once --json",
        ".csv": "a row for each logged metric; with --curves a row for each point of the charts",
    }
)
"""Suffix → what is written."""

_SAME: Mapping[str, str] = MappingProxyType({".htm": ".html", ".markdown": ".md"})
DATA = frozenset({".json", ".csv"})
"""Formats that need the JSON documents."""

_TABLE = (
    "run", "path", "stream", "metric", "key", "instance", "unit", "value", "logged", "step", "baseline", "nonfinite",
)  # fmt: skip
_CURVES = ("run", "path", "stream", "metric", "key", "unit", "step", "value")
_LONGEST_NAME = 80
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def format_of(path: str) -> str:
    """The format of a report, as a suffix of `FORMATS`.

    Raises:
        RltopError: the file name ends in none of them.
    """
    suffix = PurePath(path).suffix.lower()
    suffix = _SAME.get(suffix, suffix)
    if suffix not in FORMATS:
        known = ", ".join(FORMATS)
        what = f"ends in {suffix}" if suffix else "has no suffix"
        raise RltopError(f"unknown report format: {path} {what}", f"use a name that ends in one of {known}")
    return suffix


def file_name(name: str, step: int | None, suffix: str = ".html") -> str:
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:_LONGEST_NAME].strip(".-") or "run"
    return f"rltop-{plain}{'' if step is None else f'-{step}'}{suffix}"


def rendered(suffix: str, reports: Sequence[RunReport], made: Made, *, has_curves: bool = False) -> bytes:
    """A report in one of the formats.

    Args:
        has_curves: in CSV, the points of the charts instead of the table of metrics.
    """
    match suffix:
        case ".html":
            from rltop.report.html_page import html_page  # noqa: PLC0415 - one format at a time

            text = html_page(reports, made)
        case ".svg":
            from rltop.report.svg import sheet  # noqa: PLC0415 - one format at a time

            text = sheet(reports, made)
        case ".md":
            from rltop.report.markdown import markdown  # noqa: PLC0415 - one format at a time

            text = markdown(reports, made)
        case ".csv":
            text = _csv(_CURVES, _points(reports)) if has_curves else _csv(_TABLE, _metrics(reports))
        case _:
            return dumps(_document(reports, made)) + b"\n"
    return text.encode("utf-8", "backslashreplace")


def series_csv(part: Snapshot, key: str, window: tuple[int, int] | None) -> bytes:
    series, metric = part.stream.series(key), signal_of(part, key).metric
    head = (
        part.run.name.raw,
        part.run.path.raw,
        part.role or None,
        metric.name or None,
        key,
        metric.unit.value or None,
    )
    low, high = window or (0, 10**18)
    points = zip(series.steps, series.values, strict=True)
    return _csv(_CURVES, ((*head, int(step), value) for step, value in points if low <= step <= high)).encode()


def _document(reports: Sequence[RunReport], made: Made) -> Document:
    return {"made": made._asdict(), "runs": [report.document for report in reports]}


def _csv(heads: Sequence[str], rows: Iterator[Sequence[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _cell(value: object) -> object:
    """A number with all its digits; a text in one line that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return "" if value is None else value
    shown = Label.of(value).display
    return f"'{shown}" if shown.startswith(_FORMULA) else shown


def _metrics(reports: Sequence[RunReport]) -> Iterator[Sequence[object]]:
    for report in reports:
        document = report.document or {}
        for part in (document, *document.get("streams", ())):
            head = (document.get("run"), document.get("path"), part.get("stream"))
            for one in part.get("signals", ()):
                value = (one["unit"], one["value"], one["raw"], one["step"], one["baseline"])
                yield (*head, one["name"], one["key"], one["instance"], *value, _count(one))
            for one in part.get("other_keys", ()):
                value = (None, one["value"], one["value"], one["step"], None)
                yield (*head, None, one["key"], None, *value, _count(one))


def _count(one: Document) -> int:
    return 0 if one["nonfinite"] is None else int(one["nonfinite"]["count"])


def _points(reports: Sequence[RunReport]) -> Iterator[Sequence[object]]:
    """The points of the charts: of a stretch with more records than columns, its lowest and its highest value."""
    for report in reports:
        for figure in report.figures:
            head = (report.entry.name.raw, report.path.raw, figure.stream or None, figure.metric or None)
            unit = figure.unit.value or None
            for step, value in zip(figure.plot.raw.steps, figure.plot.raw.values, strict=True):
                yield (*head, figure.key.raw, unit, int(step), value)
