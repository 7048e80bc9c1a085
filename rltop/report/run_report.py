"""Contents of a report: what the pages show of a run, read once, as plain data.

Decides which pages are read and how much of each. A `RunReport` holds no reference to its run, so that many runs can be
read one after the other. The other files of `report/` write it as HTML, Markdown, SVG, CSV or JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from rltop import __version__, units
from rltop.model import EventState, Label, Level, RunState, Unit, Verdict
from rltop.pages.alerts import alert_words, event_table, origin, own_words, paint_banner
from rltop.pages.chain import HEADS, LEVELS, ChainView, chain_table
from rltop.pages.chart import Axis, Marker, Places, PlotData, Zoom, places
from rltop.pages.chart_axes import read_markers
from rltop.pages.compare import first_divergence, with_baseline
from rltop.pages.flow import Flow, build_flow, idle_words
from rltop.pages.header import HeaderView, age_text, count_words, freshness
from rltop.pages.key_metrics import MetricRow, change_text, metric_columns, row_sign, value_text
from rltop.pages.metric import build_metric
from rltop.pages.overview import OverviewView, build_overview
from rltop.pages.run_entry import REWARDS, VALIDATIONS, RunEntry, read_entry
from rltop.pages.run_settings import by_interest, differences
from rltop.pages.runs import run_table
from rltop.pages.stages import TimingView
from rltop.pages.timing import TimingPageView, build_timing_page, stage_columns
from rltop.pages.verdict import VerdictView, build_verdict
from rltop.report.document import Document
from rltop.report.overview_document import once_document
from rltop.report.text import evidence_words, explains
from rltop.rows.glyphs import LEVEL_ROLES, UNICODE
from rltop.rows.rows import Line, Piece, clip_middle, without_shared
from rltop.rows.sparkline import fitted, sparkline
from rltop.rows.table import Column, Fit, Table
from rltop.rules.words import words_of
from rltop.run.preferences import was_acknowledged
from rltop.run.run_settings import RunSettings
from rltop.run.snapshot import Snapshot
from rltop.stats.goodput import hundredth
from rltop.structs import NamedTuple, Remembered

T = TypeVar("T")

COLUMNS = 190
"""Columns of a chart, with at most two points each, so that long runs have no larger charts than short ones."""

MOST_RUNS = 12
"""Further runs appear in the tables only."""

MOST_FIGURES = 16
MOST_ALERTS = 12
MOST_EVENTS = 60
MOST_METRICS = 60
MOST_SETTINGS = 40
"""Limits per run; what is left out is counted."""

LEADING = frozenset({*REWARDS, *VALIDATIONS})
"""What people ask first: is it learning, and does that hold on held-out data?"""

_OVERVIEW = (200, 26 + MOST_METRICS)
_TABLE_CELLS = 160
_LINE_CELLS = 24
_LONGEST = 400
_LONG_NAME = 24
_FRESH = frozenset({RunState.LIVE, RunState.QUIET, RunState.STUCK})


class Provenance(NamedTuple):
    command: str
    version: str
    when: str

    @classmethod
    def at(cls, command: str, wall_s: float) -> Provenance:
        return cls(command, __version__, datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%d %H:%M UTC"))


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of a page, read cell by cell."""

    heads: tuple[str, ...] = ()
    is_right: tuple[bool, ...] = ()
    rows: tuple[tuple[Line, ...], ...] = ()
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Figure:
    """A metric with its chart.

    Attributes:
        value: the newest value with its unit, as on the screen.
        change: relative to the baseline; empty without one.
        metric: canonical name; empty if it is not in the catalogue.
        stream: the stream of the run; "" is the main one.
        places: positions of its steps on `axis`; None if the run does not log it.
    """

    title: str
    key: Label
    value: str
    change: str
    level: Level
    unit: Unit
    metric: str
    stream: str
    plot: PlotData
    markers: tuple[Marker, ...]
    spark: str = ""
    axis: Axis = Axis.STEP
    places: Places | None = Places((), ())  # noqa: RUF009 - immutable


@dataclass(frozen=True, slots=True)
class AlertReport:
    """An active alert.

    Attributes:
        conclusion: what the order of the related metrics suggests; empty for nothing.
        chain: the related metrics, in the order to check, and how each moved.
        missing: titles of related metrics that the run does not log.
        figures: charts of its metric and of the related one that began to move first.
    """

    verdict: Verdict
    facts: tuple[str, ...]
    conclusion: str = ""
    causes: tuple[str, ...] = ()
    chain: Grid = Grid()
    missing: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()

    @property
    def words(self) -> dict[str, str]:
        """Label → text; empty if there is nothing to say."""
        verdict, began = self.verdict, origin(self.verdict)
        return {
            "do": "" if verdict.advice is None else verdict.advice.text,
            "incident": "" if began is None else began.words,
            "evidence": evidence_words(verdict.evidence, verdict.key),
            "why": words_of(verdict.raised_by).why,
        }


@dataclass(frozen=True, slots=True)
class RunReport:
    """The contents of a report about one run.

    Attributes:
        alerts: active ones, worst first.
        timing: the newest step and the steps before it; None if no timing is logged.
        timing_words: what explains the step time, or why there is none.
        events: the newest transitions and the facts that explain them, newest last.
        pipeline: who waits for whom, for an asynchronous run.
        document: the JSON document of `--once --json`, if requested.
        divergence: where it diverges from the run `against`, in words; empty without one.
        settings: its launch settings; None if unknown.
    """

    path: Label
    entry: RunEntry
    facts: tuple[str, ...]
    records: str
    collapse: str  # the line on it, which the sentence does not repeat
    sentence: str
    sentence_level: Level
    alerts: tuple[AlertReport, ...]
    alerts_left_out: int
    over: tuple[str, ...]
    rows: tuple[MetricRow, ...]
    metrics: Grid
    figures: tuple[Figure, ...]
    timing: TimingView | None
    timing_words: str
    stages: Grid
    events: Grid
    notes: tuple[str, ...]
    is_empty: bool
    pipeline: Flow | None = None
    document: Document | None = None
    divergence: str = ""
    against: str = ""
    settings: RunSettings | None = None

    @property
    def leading(self) -> Sequence[Figure]:
        return [one for one in self.figures if one.metric in LEADING]

    @property
    def other_figures(self) -> Sequence[Figure]:
        return [one for one in self.figures if one.metric not in LEADING]


def build_report(
    snapshot: Snapshot,
    *,
    has_charts: bool = True,
    has_document: bool = False,
    window: tuple[int, int] | None = None,
    axis: Axis = Axis.STEP,
    baseline: Snapshot | None = None,
    beside: Snapshot | None = None,
) -> RunReport:
    """Collect everything that a report contains about a run.

    Args:
        has_charts: include charts, which are most of the work.
        window: range of steps of the key curves, both ends included; None: all.
        axis: the common axis of this run and others in one chart.
        baseline: the run with which this one is compared, metric by metric.
        beside: without a baseline, the run that the divergence is measured from.
    """
    view = build_overview(snapshot, width=_OVERVIEW[0], height=_OVERVIEW[1])
    divergence = ""
    other = beside if baseline is None else baseline
    if other is not None and other.path != snapshot.path:
        divergence = first_divergence(snapshot.run, other.run, Remembered())
    if baseline is not None and baseline.path != snapshot.path:
        rows, more = (with_baseline(each, snapshot, baseline) for each in (view.rows, view.more))
        view = view._replace(rows=rows, more=more)
    active = snapshot.firing
    timing = build_timing_page(snapshot)
    rows = (*view.rows, *view.more)[:MOST_METRICS]
    shown = active[:MOST_ALERTS]
    return RunReport(
        path=snapshot.path,
        entry=read_entry(snapshot),
        facts=tuple(_facts(snapshot, view, window)),
        records=_records(snapshot),
        collapse="" if view.banner is None else text_of(paint_banner(view.banner, _OVERVIEW[0], UNICODE).line).strip(),
        sentence=view.sentence.text.display,
        sentence_level=view.sentence.level,
        alerts=tuple(_alert(snapshot, verdict, has_charts=has_charts) for verdict in shown),
        alerts_left_out=len(active) - len(shown),
        over=tuple(_over(snapshot)),
        rows=view.rows,
        metrics=_metrics(snapshot, rows, view),
        figures=tuple(_key_figures(snapshot, view.rows, window, axis)) if has_charts else (),
        timing=timing.timing,
        timing_words=timing.explanation.display or timing.note,
        stages=_stages(timing),
        events=_events(snapshot),
        notes=tuple(_notes(snapshot)),
        is_empty=view.is_empty,
        pipeline=build_flow(snapshot),
        document=once_document(snapshot) if has_document else None,
        divergence=divergence,
        against="" if other is None else other.name.display,
        settings=snapshot.run.settings,
    )


def grid_of(table: Table[T], cells: int = _TABLE_CELLS) -> Grid:
    """A table as cells, without empty columns and those that draw lines."""
    items, columns = table.items, [one for one in table.columns if isinstance(one.head, str)]
    found = [[_stripped(_cell(column, item, cells)) for item in items] for column in columns]
    kept = [number for number, column in enumerate(found) if any(column)]
    heads = tuple(str(columns[number].head).strip() for number in kept)
    rows = [tuple(found[number][row] for number in kept) for row in range(len(items))]
    if table.sign is None or not kept:
        return Grid(heads, tuple(columns[number].is_right_aligned for number in kept), tuple(rows))
    signs = [table.sign(item) for item in items]
    rows = [((Piece(*sign),), *row) for sign, row in zip(signs, rows, strict=True)]
    return Grid(("", *heads), (False, *(columns[number].is_right_aligned for number in kept)), tuple(rows))


def _cell(column: Column[T], item: T, cells: int) -> Line:
    cell = column.cell(item, cells) if column.kind is Fit.DRAWN else column.cell(item)
    if cell and isinstance(cell[0], str):
        return (Piece(cell[0], str(cell[1])),)
    return tuple(piece for piece in cell if isinstance(piece, Piece))


def _stripped(line: Line) -> Line:
    pieces = [piece for piece in line if piece.text]
    while pieces and not pieces[0].text.strip():
        del pieces[0]
    while pieces and not pieces[-1].text.strip():
        del pieces[-1]
    if pieces:
        pieces[0] = Piece(clip_middle(pieces[0].text.lstrip(), _LONGEST), pieces[0].role)
        pieces[-1] = Piece(clip_middle(pieces[-1].text.rstrip(), _LONGEST), pieces[-1].role)
    return tuple(pieces)


def _cells(*cells: tuple[str, str]) -> tuple[Line, ...]:
    return tuple((Piece(*cell),) if cell[0] else () for cell in cells)


def text_of(line: Line) -> str:
    return " ".join("".join(piece.text for piece in line).split())


def comparison(reports: Sequence[RunReport]) -> tuple[Grid, Grid]:
    names = short_names(reports)
    titles: dict[str, None] = {}
    for report in reports:
        titles.update(dict.fromkeys(row.title for row in report.rows))
    rows = []
    for title in titles:
        found = [next((one for one in report.rows if one.title == title), None) for report in reports]
        newest = max((row.reading.point.step for row in found if row and row.reading.point), default=0)
        rows.append((*_cells((title, "strong")), *(() if row is None else _compared(row, newest) for row in found)))
    runs = grid_of(run_table([report.entry for report in reports], UNICODE))
    return runs, Grid(("metric", *names), (False, *(True for _ in names)), tuple(rows))


def settings_grid(report: RunReport) -> Grid:
    values = {} if report.settings is None else report.settings.values
    shown = [
        _cells((Label.of(name).display, "key"), (Label.of(units.setting(values[name])).display, "value"))
        for name in by_interest(values)[:MOST_SETTINGS]
    ]
    return Grid(("setting", "value"), (False, False), tuple(shown), len(values) - len(shown))


def differing_settings(reports: Sequence[RunReport]) -> Grid:
    """The settings in which runs differ, one column per run, without those that only name a run."""
    found = [one for one in differences([report.settings for report in reports]) if not one.is_name]
    rows = [
        _cells((Label.of(one.name).display, "key"), *((value or units.UNKNOWN, "value") for value in one.values))
        for one in found[:MOST_SETTINGS]
    ]
    names = short_names(reports)
    return Grid(("setting", *names), (False, *(True for _ in names)), tuple(rows), len(found) - len(rows))


def divergences(reports: Sequence[RunReport]) -> Grid:
    rows = [
        _cells((name, "strong"), (report.divergence, "text"))
        for name, report in zip(short_names(reports), reports, strict=True)
        if report.divergence
    ]
    against = next((report.against for report in reports if report.divergence), "")
    return Grid(("run", f"where it diverges from {against}"), (False, False), tuple(rows))


def pipeline_words(flow: Flow) -> tuple[str, ...]:
    """The lines below a pipeline's sentence: idle shares, advice, goodput and its cost."""
    goodput = () if flow.goodput is None else (flow.goodput.sentence,)
    cost = () if flow.goodput is None or flow.spent is None else (flow.spent.words(flow.goodput),)
    return tuple(text for text in (idle_words(flow.waits), flow.waits.advice, *goodput, *cost) if text)


def parts_grid(flow: Flow) -> Grid:
    """The boxes of the page, one row per number; an empty box shows how to log its metrics."""
    rows: list[tuple[Line, ...]] = []
    for box in flow.boxes:
        name = box.name
        if not box.facts:
            rows.append((*_cells((name, "strong"), (box.hint, "nodata")), (), (), (), ()))
        for fact in box.facts:
            reading = fact.reading
            sign = UNICODE.sign(reading.level)
            title = f"{sign}{reading.title}", LEVEL_ROLES[reading.level] if sign else "text"
            numbers = ((fact.text, "value"), (change_text(reading), "note"), (units.step(fact.point.step), "dim"))
            key = reading.name + (f" ({fact.instance})" if fact.instance not in ("", reading.signal.key) else "")
            rows.append(_cells((name, "strong"), title, *numbers, (key, "key")))
            name = ""
    heads = ("part", "metric", "last", "vs start", "step", "key")
    return Grid(heads, (False, False, True, True, True, False), tuple(rows))


def differences_of(reports: Sequence[RunReport]) -> list[tuple[str, Grid, str]]:
    """Differences between runs as (title, table, noun for left-out rows); empty tables are omitted."""
    found = (
        ("Where they diverge", divergences(reports), "run"),
        ("Settings that differ", differing_settings(reports), "setting"),
        ("Pipelines, over the last records", pipelines(reports), "run"),
    )
    return [one for one in found if one[1].rows]


def pipelines(reports: Sequence[RunReport]) -> Grid:
    rows = []
    for name, report in zip(short_names(reports), reports, strict=True):
        flow = report.pipeline
        if flow is None:
            continue
        goodput, spent = flow.goodput, flow.spent
        role = LEVEL_ROLES[flow.level] if flow.level >= Level.INFO else "text"
        trained = "" if goodput is None else f"{'≤' if goodput.unknown else ''}{hundredth(goodput.trained)}"
        hours = "" if spent is None else units.number(spent.hours)
        told = (flow.note, "note"), (flow.waits.sentence, role), (trained, "value"), (hours, "value")
        rows.append(_cells((name, "strong"), *told))
    heads = ("run", "", "who waits for whom", "trained of 100", "GPU-hours")
    return Grid(heads, (False, False, False, True, True), tuple(rows))


def further_runs(reports: Sequence[RunReport]) -> str:
    count = len(reports) - MOST_RUNS
    return f"{units.counted(count, 'more run')} in the tables only" if count > 0 else ""


def run_names(reports: Sequence[RunReport]) -> list[str]:
    names = [report.entry.name.display for report in reports]
    return [
        name if names.count(name) == 1 else report.path.display for name, report in zip(names, reports, strict=True)
    ]


def short_names(reports: Sequence[RunReport]) -> Sequence[str]:
    """Names for headings and legends: if they are long, without their common parts."""
    names = tuple(run_names(reports))
    return names if max(map(len, names), default=0) <= _LONG_NAME else without_shared(names)


def _compared(row: MetricRow, newest: int) -> Line:
    """The value of a run, with its step if another run has a later one."""
    (text, unit), point = value_text(row.reading), row.reading.point
    role = LEVEL_ROLES[row.reading.level] if row.reading.level >= Level.INFO else "value"
    change = change_text(row.reading)
    notes = "" if point is None or point.step == newest else f" @{units.step(point.step)}"
    notes += "" if change == units.UNKNOWN else f" ({change})"
    return Piece(f"{text} {unit}".strip(), role), Piece(notes, "dim")


def _facts(snapshot: Snapshot, view: OverviewView, window: tuple[int, int] | None) -> Iterator[str]:
    header: HeaderView = view.header
    if header.dialect:
        yield " · ".join(part for part in (header.dialect, header.algorithm, header.generation) if part)
    if header.step is not None:
        total = "" if header.total_steps is None else f" of {units.step(header.total_steps)}"
        yield (
            f"step {units.step(header.step)}{total}" if header.cursor is None else f"as of step {header.cursor}{total}"
        )
    yield units.counted(snapshot.stream.rows, "record") + ("" if header.cursor is None else " in the whole run")
    if header.step_s is not None:
        yield f"{units.duration(header.step_s)}/step"
    if header.eta_s is not None:
        yield f"ETA {units.duration(header.eta_s)}"
    state = header.state.value
    if header.loading is not None:
        state += f", {units.share(header.loading)} of the history read"
    if header.age_s is not None and header.state in _FRESH:
        state += f", newest row {age_text(header.age_s).strip()}"
    yield state
    if restarts := snapshot.stream.seen_restarts:
        yield units.counted(len(restarts), "restart")
    for part in snapshot.streams[1:]:
        if not part.source.is_rank:
            step = "no row yet" if part.step is None else f"step {units.step(part.step)}"
            yield f"stream {Label.of(part.role).display}: {step}"
    if note := freshness(snapshot):
        yield note
    if window is not None:
        yield f"key curves of steps {units.step(window[0])}–{units.step(window[1])}"


def _records(snapshot: Snapshot) -> str:
    stream = snapshot.stream
    text = units.counted(stream.rows, "record")
    if stream.first_step is None or stream.last_step is None:
        return text
    return f"{text}, steps {units.step(stream.first_step)}–{units.step(stream.last_step)}"


def _alert(snapshot: Snapshot, verdict: Verdict, *, has_charts: bool) -> AlertReport:
    part = snapshot.within(verdict.stream)
    view = build_verdict(part, verdict.rule)
    chain = view.chain
    return AlertReport(
        verdict=verdict,
        facts=tuple(_alert_facts(part, view, verdict)),
        causes=view.causes,
        conclusion="" if chain is None else chain.conclusion,
        chain=Grid() if chain is None else _chain_grid(chain),
        missing=() if chain is None else chain.missing,
        figures=tuple(_evidence_figures(part, view)) if has_charts else (),
    )


def _chain_grid(chain: ChainView) -> Grid:
    table = chain_table(chain, _TABLE_CELLS, UNICODE)
    heads = [head for head in HEADS if len(table.columns) == len(HEADS) or head != LEVELS]
    columns = [column._replace(head=head) for column, head in zip(table.columns, heads, strict=True)]
    return grid_of(table._replace(columns=columns))


def _alert_facts(part: Snapshot, view: VerdictView, verdict: Verdict) -> Iterator[str]:
    if verdict.stream:
        yield f"steps of {Label.of(verdict.stream)}"
    yield f"rule {verdict.rule_words}"
    yield f"since step {units.step(verdict.since_step)}"
    if view.records is not None:
        yield units.counted(view.records, "record")
    if verdict.settled is not None:
        yield "at a new level"
    elif verdict.worst_level > verdict.level:
        yield f"eased, was {verdict.worst_level.word.upper()}"
    if verdict.is_provisional:
        yield "not yet confirmed: still reading history"
    if was_acknowledged(part.source.path.raw, verdict):
        yield "acknowledged"


def _evidence_figures(part: Snapshot, view: VerdictView) -> Iterator[Figure]:
    chain = view.chain
    links = [] if chain is None else [chain.subject, *([] if chain.first is None else [chain.links[chain.first]])]
    verdict = view.verdict
    keys = [verdict.key] if verdict is not None and verdict.key else []
    keys += [link.signal.key for link in links if link is not None and link.signal is not None]
    for key in dict.fromkeys(keys):
        if part.stream.has(key):
            yield figure_of(part, key)


def _key_figures(
    snapshot: Snapshot, rows: Sequence[MetricRow], window: tuple[int, int] | None, axis: Axis
) -> Iterator[Figure]:
    for row in [one for one in rows if one.numbered is None][:MOST_FIGURES]:
        reading = row.reading
        line = sparkline(fitted(reading.line(), 2 * _LINE_CELLS), UNICODE)
        spark = "".join(piece.text for piece in line)
        part = snapshot.within(reading.stream)
        found = figure_of(part, reading.signal.key, row.title, spark, window)
        yield replace(found, axis=axis, places=places(part, axis))


def figure_of(
    part: Snapshot, key: str, title: str = "", spark: str = "", window: tuple[int, int] | None = None
) -> Figure:
    """A metric with its chart.

    Args:
        title: by default its title in the catalogue.
        window: range of steps of the chart, both ends included; None: all.
    """
    view = build_metric(part, key, columns=COLUMNS, zoom=None if window is None else Zoom(*window))
    reading, plot = view.reading, view.plot
    change = change_text(reading)
    return Figure(
        title=title or Label.of(reading.signal.metric.title).display,
        key=reading.key,
        value=" ".join(value_text(reading)).strip(),
        change="" if change == units.UNKNOWN else change,
        level=reading.level,
        unit=reading.signal.metric.unit,
        metric=reading.signal.metric.name,
        stream=part.role,
        plot=plot,
        markers=read_markers(part, plot.zoom.first, plot.zoom.last, reading.signal.metric.name or reading.signal.key),
        spark=spark,
    )


def _over(snapshot: Snapshot) -> Iterator[str]:
    standing = {(one.rule, one.stream) for one in snapshot.firing}
    alerts = [one for one in snapshot.history.alerts if not one.is_muted]
    over = [
        one
        for one in alerts
        if one.is_earlier or one.recovered_step is not None or (one.rule, one.stream) not in standing
    ]
    for alert in sorted(over, key=lambda one: one.rank)[:MOST_ALERTS]:
        yield alert_words(alert)
    if len(over) > MOST_ALERTS:
        yield f"and {units.count(len(over) - MOST_ALERTS)} more"


def _metrics(snapshot: Snapshot, rows: Sequence[MetricRow], view: OverviewView) -> Grid:
    table = Table(metric_columns(200, UNICODE), rows, sign=lambda row: row_sign(row, UNICODE))
    # The notes and the lines have no head; the lines are left out, as there are charts.
    columns = [column._replace(head="notes") if column.head == "" else column for column in table.columns]
    grid = grid_of(table._replace(columns=columns))
    total = sum(len(part.stream.keys) for part in snapshot.streams if not part.source.is_rank)
    told = sum(row.size for row in rows)
    return Grid(grid.heads, grid.is_right, grid.rows, 0 if view.is_empty else max(0, total - told))


def _stages(view: TimingPageView) -> Grid:
    columns = stage_columns(view, _TABLE_CELLS, UNICODE)
    if not view.table:
        return Grid()
    return grid_of(Table(columns, view.table, sign=lambda one: (UNICODE.bar, one.role)), cells=40)


def _events(snapshot: Snapshot) -> Grid:
    log = snapshot.source.events
    told = [event for event in log if event.state is not EventState.FACT or explains(event, None)]
    grid = grid_of(event_table(told[-MOST_EVENTS:], UNICODE, log, muted=snapshot.part.judging.muted))
    return Grid(grid.heads, grid.is_right, grid.rows, max(0, len(told) - MOST_EVENTS))


def _notes(snapshot: Snapshot) -> Iterator[str]:
    words = count_words(snapshot)
    if words:
        yield f"file: {' · '.join(words)}"
    yield from own_words(snapshot.run)
