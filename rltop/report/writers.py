"""The formats of a report by file suffix; writers for HTML pages, CSV and JSON.

The page has no scripts, loads nothing from the network, and is readable without styles. It is also well-formed XML, so
that any parser can read it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from types import MappingProxyType

from rltop import units
from rltop.errors import RltopError
from rltop.model import Label, Level, VerdictState
from rltop.pages.chart import Axis
from rltop.pages.flow import Flow
from rltop.pages.signals import signal_of
from rltop.pages.stages import STRIP_STEPS
from rltop.report.document import Document, dumps
from rltop.report.markdown import markdown
from rltop.report.run_report import (
    MOST_RUNS,
    AlertReport,
    Figure,
    Grid,
    Provenance,
    RunReport,
    comparison,
    differences_of,
    further_runs,
    parts_grid,
    pipeline_words,
    run_names,
    settings_grid,
    short_names,
    text_of,
)
from rltop.report.svg import (
    SERIES,
    escaped,
    figure_svg,
    legend,
    overlay_svg,
    sheet,
    spans,
    stages_svg,
    strip_svg,
    style_sheet,
)
from rltop.rows.glyphs import LEVEL_ROLES, UNICODE
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
"""Suffix → content."""

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
        RltopError: the file name has none of these suffixes.
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


def rendered(suffix: str, reports: Sequence[RunReport], made: Provenance, *, has_curves: bool = False) -> bytes:
    """A report in one of the formats.

    Args:
        has_curves: in CSV, write the points of the charts instead of the table of metrics.
    """
    match suffix:
        case ".html":
            text = html_page(reports, made)
        case ".svg":
            text = sheet(reports, made)
        case ".md":
            text = markdown(reports, made)
        case ".csv":
            text = _csv(_CURVES, _points(reports)) if has_curves else _csv(_TABLE, _metrics(reports))
        case _:
            documents = {"made": made._asdict(), "runs": [report.document for report in reports]}
            return dumps(documents) + b"\n"
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


def _csv(heads: Sequence[str], rows: Iterator[Sequence[object]]) -> str:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _cell(value: object) -> object:
    """A number with all its digits; a text on one line, prefixed so that no spreadsheet takes it for a formula."""
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
    """The points of the charts: the minimum and maximum of each interval with more records than columns."""
    for report in reports:
        for figure in report.figures:
            head = (report.entry.name.raw, report.path.raw, figure.stream or None, figure.metric or None)
            unit = figure.unit.value or None
            for step, value in zip(figure.plot.raw.steps, figure.plot.raw.values, strict=True):
                yield (*head, figure.key.raw, unit, int(step), value)


_LONG = 34
_OVERLAYS = 8
_RIGHT = ' class="right"'
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def html_page(reports: Sequence[RunReport], made: Provenance) -> str:
    names = run_names(reports)
    title = names[0] if len(names) == 1 else f"{len(names)} runs"
    body = [f"<h1>{escaped(title)}</h1>"]
    if len(reports) > 1:
        body += _comparison(reports, names)
    for number, report in enumerate(reports[:MOST_RUNS]):
        if len(reports) > 1:
            body.append(f'<h2 id="run-{number + 1}">{escaped(names[number])}</h2>')
        body += _run(report)
    body += [f'<p class="dim">{escaped(more)}</p>'] if (more := further_runs(reports)) else []
    body += _footer(reports, made)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escaped(_POLICY)}"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        '<meta name="color-scheme" content="light dark"/>\n<meta name="referrer" content="no-referrer"/>\n'
        f'<meta name="generator" content="rltop {escaped(made.version)}"/>\n'
        f"<title>{escaped(title)} · rltop</title>\n<style>\n{style_sheet(has_page=True)}\n</style>\n</head>\n"
        "<body>\n<main>\n" + "\n".join(body) + "\n</main>\n</body>\n</html>\n"
    )


def _comparison(reports: Sequence[RunReport], names: Sequence[str]) -> Iterator[str]:
    runs, metrics = comparison(reports)
    links = [f'<a href="#run-{number + 1}">{escaped(name)}</a>' for number, name in enumerate(names[:MOST_RUNS])]
    yield f'<p class="facts">{" · ".join(links)}</p>'
    yield from _section("Runs", [_table(runs)])
    yield from _overlays(reports, names)
    for title, grid, what in differences_of(reports):
        yield from _section(title, [_table(grid, what)])
    yield from _section("Key metrics, last value and change against the start of each run", [_table(metrics)])


def _overlays(reports: Sequence[RunReport], names: Sequence[str]) -> Iterator[str]:
    """Metrics that several runs log, one chart for each; and a note on runs that do not log the common axis."""
    titles: dict[str, int] = {}
    without = []
    axis = Axis.STEP
    for name, report in zip(names[:SERIES], reports[:SERIES], strict=True):
        for figure in report.figures:
            axis = figure.axis
            is_drawn = bool(figure.plot.raw.steps) and figure.places is not None
            titles[figure.title] = titles.get(figure.title, 0) + is_drawn
        if report.figures and all(figure.places is None for figure in report.figures):
            without.append(name)
    note = f"not drawn, because not logged with {axis.value}: {', '.join(without)}" if without else ""
    shared = [title for title, count in titles.items() if count > 1][:_OVERLAYS]
    charts = []
    for title in shared:
        each = [next((one for one in report.figures if one.title == title), None) for report in reports]
        charts.append(f"<figure><figcaption><b>{escaped(title)}</b></figcaption>{overlay_svg(each)}</figure>")
    if charts:
        keys = [
            f'<span><span class="run-{number}">━</span> {escaped(name)}</span>'
            for number, name in enumerate(short_names(reports)[:SERIES])
        ]
        more = f" (the first {SERIES} runs)" if len(names) > SERIES else ""
        key = f'<p class="legend">{" ".join(keys)}</p>'
        drawn = f'<div class="figures">{"".join(charts)}</div>'
        said = [f'<p class="dim">{escaped(note)}</p>'] if note else []
        yield from _section(f"In one chart, by {axis.value}, smoothed{more}", [key, *said, drawn])
    elif note:
        yield from _section(f"In one chart, by {axis.value}", [f'<p class="dim">{escaped(note)}</p>'])


def _run(report: RunReport) -> Iterator[str]:
    yield f'<p class="facts">{escaped(" · ".join(report.facts))}</p>'
    if report.collapse:
        yield f'<p class="sentence level-crit">{escaped(report.collapse)}</p>'
    level = report.sentence_level
    sign = UNICODE.sign(level, Level.WARN)
    yield f'<p class="sentence level-{level.word}">{sign}{escaped(report.sentence)}</p>'
    if report.is_empty:
        yield from _notes(report)
        return
    if report.leading:
        yield _figures(report.leading)
    alerts = [_alert(one) for one in report.alerts] or ['<p class="ok">no active alerts</p>']
    if report.alerts_left_out:
        alerts.append(f'<p class="dim">and {units.count(report.alerts_left_out)} more active alerts</p>')
    if report.over:
        items = "".join(f"<li>{escaped(words)}</li>" for words in report.over)
        alerts.append(f'<h4>Over</h4><ul class="dim">{items}</ul>')
    yield from _section("Alerts", alerts)
    settings = settings_grid(report)
    if settings.rows:
        yield from _section("Settings", [_table(settings, "setting")])
    if report.pipeline is not None:
        yield from _section("Pipeline", _pipeline(report.pipeline))
    yield from _section("Metrics", [_table(report.metrics, "key")])
    if report.other_figures:
        yield from _section("Key curves", [_figures(report.other_figures)])
    yield from _section("Step time", _timing(report))
    if report.events.rows:
        yield from _section("Events", [_table(report.events, "earlier event")])
    yield from _notes(report)


def _pipeline(flow: Flow) -> Iterator[str]:
    yield f'<p class="level-{flow.level.word}">{UNICODE.sign(flow.level)}{escaped(flow.waits.sentence)}</p>'
    yield from (f'<p class="facts">{escaped(text)}</p>' for text in (flow.note, *pipeline_words(flow)))
    yield _table(parts_grid(flow))


def _notes(report: RunReport) -> Iterator[str]:
    for note in report.notes:
        yield f'<p class="dim">{escaped(note)}</p>'


def _section(title: str, content: Iterable[str]) -> Iterator[str]:
    yield f"<h3>{escaped(title)}</h3>"
    yield from content


def _alert(alert: AlertReport) -> str:
    verdict = alert.verdict
    level = verdict.level
    word = level.word.upper() + (" · NEW LEVEL" if verdict.state is VerdictState.SETTLED else "")
    said = {name: escaped(text) for name, text in alert.words.items()}
    key = f"<code>{escaped(verdict.key)}</code>" if verdict.key else ""
    said["evidence"] = f"{key} {said['evidence']}".strip()
    said["causes"] = _list(alert.causes)
    rows = "".join(f"<dt>{name}</dt><dd>{text}</dd>" for name, text in said.items() if text)
    parts = [
        f'<h4><span class="{LEVEL_ROLES[level]}">{UNICODE.levels[level]} {escaped(word)}</span> '
        f"{escaped(verdict.title)}</h4>",
        f'<p class="facts">{escaped(" · ".join(alert.facts))}</p>',
        f"<p>{escaped(verdict.headline)}</p>",
        f"<dl>{rows}</dl>" if rows else "",
        _figures(alert.figures) if alert.figures else "",
    ]
    if alert.chain.rows:
        missing = (
            f'<p class="dim">not logged by this run: {escaped("; ".join(alert.missing))}</p>' if alert.missing else ""
        )
        parts += ["<h4>Related metrics, in the order to check</h4>", _table(alert.chain), missing]
        parts.append(f"<p>{escaped(alert.conclusion)}</p>" if alert.conclusion else "")
    return f'<section class="alert level-{level.word}">{"".join(parts)}</section>'


def _list(texts: Sequence[str]) -> str:
    return f"<ol>{''.join(f'<li>{escaped(text)}</li>' for text in texts)}</ol>" if texts else ""


def _figures(figures: Sequence[Figure]) -> str:
    return f'<div class="figures">{"".join(map(_figure, figures))}</div>'


def _figure(figure: Figure) -> str:
    role = LEVEL_ROLES[figure.level] if figure.level >= Level.INFO else "value"
    change = f' <span class="dim">{escaped(figure.change)} vs baseline</span>' if figure.change else ""
    stream = f' <span class="dim">steps of {escaped(figure.stream)}</span>' if figure.stream else ""
    lines = "".join(
        f'<div class="legend">{" ".join(f"<span>{spans(entry)}</span>" for entry in entries)}</div>'
        for entries in legend(figure)
        if entries
    )
    head = f'<b>{escaped(figure.title)}</b> <span class="{role}">{escaped(figure.value)}</span>{change}{stream}'
    key = f'<br/><code class="key">{escaped(figure.key.raw)}</code>'
    return f"<figure><figcaption>{head}{key}</figcaption>{figure_svg(figure)}{lines}</figure>"


def _timing(report: RunReport) -> Iterator[str]:
    yield f"<p>{escaped(report.timing_words)}</p>"
    timing = report.timing
    if timing is None:
        return
    head = f"step {units.step(timing.step)}: {units.duration(timing.total_s)}"
    order = " · order of stages guessed" if timing.is_assumed else ""
    last = min(STRIP_STEPS, len(timing.strip))
    charts = [(head + order, stages_svg(timing))] if timing.stages else []
    charts.append((f"the last {last} steps", strip_svg(timing)))
    shown = "".join(
        f"<figure><figcaption>{escaped(caption)}</figcaption>{chart}</figure>" for caption, chart in charts if chart
    )
    yield f'<div class="figures">{shown}</div>'
    yield _table(report.stages)


def _table(grid: Grid, what: str = "row") -> str:
    if not grid.rows:
        return ""
    heads = "".join(
        f"<th{_RIGHT if is_right else ''}>{escaped(head)}</th>"
        for head, is_right in zip(grid.heads, grid.is_right, strict=True)
    )
    body = []
    for row in grid.rows:
        cells = []
        for line, is_right in zip(row, grid.is_right, strict=True):
            kind = _RIGHT if is_right else ' class="long"' if len(text_of(line)) > _LONG else ""
            cells.append(f"<td{kind}>{spans(line)}</td>")
        body.append(f"<tr>{''.join(cells)}</tr>")
    more = ""
    if grid.left_out:
        more = f'<p class="dim">and {units.counted(grid.left_out, f"more {what}")}</p>'
    has_heads = any(grid.heads)
    head = f"<thead><tr>{heads}</tr></thead>" if has_heads else ""
    return f'<div class="scroll"><table>{head}<tbody>{"".join(body)}</tbody></table></div>{more}'


def _footer(reports: Sequence[RunReport], made: Provenance) -> Iterator[str]:
    yield "<footer>"
    command = f"<code>{escaped(made.command)}</code>"
    yield f"<p>Made by rltop {escaped(made.version)} on {escaped(made.when)} with {command}</p>"
    files = "".join(
        f"<li><code>{escaped(report.path.raw)}</code>: {escaped(report.records)}</li>" for report in reports
    )
    yield f"<ul>{files}</ul>"
    yield "<p>Values are the last ones logged; changes are against the start of the same run. Older steps of long runs "
    yield "are drawn from the lowest and highest value of each stretch.</p>"
    yield "</footer>"
