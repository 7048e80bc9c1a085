"""Charts as SVG: one metric, several runs overlaid, the stages of a step; a whole report on one sheet; styles.

Data and axes come from the pages. Colours come from the style sheet by role, so that the same chart works light, dark
and printed. Text from outside is inserted only through `escaped`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from rltop import units
from rltop.model import Label, Level, Unit
from rltop.pages.chart import Axis, Curve, Marker, PlotData, Zoom
from rltop.pages.chart_axes import (
    Axes,
    LineKind,
    add_rail,
    axes_of,
    legend_of,
    paint_marker_legend,
    value_labels,
)
from rltop.pages.stages import STRIP_STEPS, StageReading, StripStep, TimingView, share_text
from rltop.report.run_report import MOST_RUNS, Figure, Provenance, RunReport, further_runs, run_names
from rltop.rows.glyphs import LEVEL_ROLES, UNICODE
from rltop.rows.rows import Line, Piece, RowBuilder, clip_middle, wrap

WIDTH = 460
HEIGHT = 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 54, 12, 8, 20
_RAIL = 14
_RAIL_CELLS = 66
_LEGEND_CELLS = 130
_AXIS_CELLS = (64, 12)
_LONGEST = 2_000
_NONCHARACTERS = {0xFFFE: "\\ufffe", 0xFFFF: "\\uffff"}

_LEAST_SHARE = 0.2
"""Minimum fraction of the chart's height for the curve, without its band."""

_BAR, _GAP = 15, 3
_NAME_CELLS = 22
_STAGE_LEFT, _STAGE_RIGHT = 150, 84
_MOST_STAGES = 24
_STRIP_HEIGHT = 70


def escaped(text: str) -> str:
    shown = Label.of(text).display.translate(_NONCHARACTERS)
    if len(shown) > _LONGEST:
        shown = f"{shown[: _LONGEST // 2]}…{shown[-_LONGEST // 2 :]}"
    return html.escape(shown, quote=True)


def spans(line: Line) -> str:
    return "".join(
        f'<span class="{piece.role}">{escaped(piece.text)}</span>' if piece.role != "text" else escaped(piece.text)
        for piece in line
        if piece.text
    )


def figure_svg(figure: Figure) -> str:
    axes = _axes(figure.plot)
    if axes is None:
        return _nothing("no values yet" if not figure.plot.raw.steps else "values too large to draw")
    rail = _RAIL if figure.markers else 0
    frame = _Frame(axes, HEIGHT - rail)
    parts = [
        *frame.axes(figure.unit),
        *_band(frame, axes),
        *(frame.level(level.value, level.role) for level in axes.levels),
        *(frame.mark(mark.step, mark.role, mark.label) for mark in axes.marks),
    ]
    has_smooth = bool(axes.smooth.steps)
    parts.append(frame.curve(axes.raw, "raw" if has_smooth else "smooth"))
    parts += [frame.curve(axes.smooth, "smooth")] if has_smooth else []
    parts += _rail(figure.markers, frame) if rail else []
    return _svg(HEIGHT, f"{figure.title} by step", parts)


def legend(figure: Figure) -> list[list[Line]]:
    """The legend of a chart: entries for its lines and entries for its markers, each a sign and its meaning."""
    axes = _axes(figure.plot)
    if axes is None:
        return []
    signs = {
        LineKind.CURVE: "─ ", LineKind.SIGNED: "━ ", LineKind.EDGE: "─ ", LineKind.ACROSS: "╌ ", LineKind.DASHED: "┈ ",
        LineKind.DOWN: "│ ", LineKind.NONE: "",
    }  # fmt: skip
    lines = [(Piece(signs[kind], role), Piece(label, "dim")) for kind, role, label in legend_of(figure.plot, axes)]
    named: list[Line] = []
    begun: list[Piece] = []
    for piece in paint_marker_legend(figure.markers, 0, _LEGEND_CELLS, UNICODE).line if figure.markers else ():
        begun.append(Piece(piece.text.rstrip(), piece.role) if piece.text.endswith("  ") else piece)
        if piece.text.endswith("  "):
            named.append(tuple(begun))
            begun = []
    return [list(lines), named]


def overlay_svg(figures: Sequence[Figure | None]) -> str:
    """The same metric of several runs in one chart, smoothed, on the axis of the figures."""
    shown = [(number, one) for number, one in enumerate(figures[:SERIES]) if one is not None and one.places is not None]
    axis = shown[0][1].axis if shown else Axis.STEP
    curves = [(number, _placed(one)) for number, one in shown]
    steps = tuple(step for _, curve in curves for step in curve.steps)
    first, last = min(steps, default=0.0), max(steps, default=0.0)
    if axis is Axis.STEP:
        first = min((one.plot.zoom.first for _, one in shown), default=0)
        last = max((one.plot.zoom.last for _, one in shown), default=0)
    values = tuple(value for _, curve in curves for value in curve.values)
    whole = Zoom(math.floor(first), math.ceil(last))
    span = None if axis is Axis.STEP else (first, max(last, first + 1e-9))
    unit = shown[0][1].unit if shown else Unit.NONE
    axes = _axes(PlotData(whole, Curve(steps, values), axis=axis, span=span))
    if axes is None:
        return _nothing("no values yet")
    frame = _Frame(axes, HEIGHT)
    parts = [*frame.axes(unit), *(frame.curve(curve, f"series run-{number}") for number, curve in curves)]
    return _svg(HEIGHT, f"{shown[0][1].title} of {len(shown)} runs by {axis.value}", parts)


def _placed(figure: Figure) -> Curve:
    curve = figure.plot.smooth if figure.plot.smooth.steps else figure.plot.raw
    found = figure.places
    return curve if found is None else Curve(tuple(found.at(step) for step in curve.steps), curve.values)


def stages_svg(timing: TimingView) -> str:
    stages = [stage for stage in timing.stages if stage.depth <= 1][:_MOST_STAGES]
    end_s = max([timing.total_s, *(stage.start_s + stage.duration_s for stage in stages if not stage.is_outside)])
    room = WIDTH - _STAGE_LEFT - _STAGE_RIGHT
    parts = []
    for number, stage in enumerate(stages):
        top = number * (_BAR + _GAP)
        name = clip_middle(stage.name.display, _NAME_CELLS - 2 * stage.depth)
        middle = top + _BAR - 4
        parts.append(_text(stage.depth * 10, middle, name, "dim" if stage.depth or stage.is_outside else ""))
        for start_s, stop_s in stage.parts or ((stage.start_s, stage.start_s + stage.duration_s),):
            parts.append(_bar(stage, top, start_s, stop_s, end_s, room))
        # A stage between steps has no share of the step.
        share = "" if stage.depth or stage.is_outside else f" {share_text(stage.share)}"
        parts.append(_text(WIDTH, middle, f"{units.duration(stage.duration_s)}{share}", "dim", "end"))
    return _svg(max(1, len(stages)) * (_BAR + _GAP), f"stages of step {units.step(timing.step)}", parts)


def _bar(stage: StageReading, top: int, start_s: float, stop_s: float, end_s: float, room: int) -> str:
    start = 0.0 if stage.is_outside or end_s <= 0 else min(1.0, max(0.0, start_s / end_s))
    width = 0.0 if end_s <= 0 else min(1.0 - start, max(0.0, (stop_s - start_s) / end_s))
    height = _BAR if not stage.depth else _BAR - 6
    role = f"{stage.role} outside" if stage.is_outside else stage.role
    return (
        f'<rect class="{role}" x="{_n(_STAGE_LEFT + start * room)}" y="{top + (_BAR - height) // 2}" '
        f'width="{_n(max(0.8, width * room))}" height="{height}"/>'
    )


def strip_svg(timing: TimingView) -> str:
    steps = timing.strip[-STRIP_STEPS:]
    longest = max((step.total_s for step in steps if math.isfinite(step.total_s)), default=0.0)
    if longest <= 0:
        return ""
    width = (WIDTH - _LEFT - _RIGHT) / max(12, len(steps))
    parts = [
        f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="8" y2="8"/>',
        _text(_LEFT - 6, 12, units.duration(longest), "axis", "end"),
        _text(_LEFT - 6, 8 + _STRIP_HEIGHT, "0 s", "axis", "end"),
        _text(_LEFT, _STRIP_HEIGHT + 22, units.step(steps[0].step), "axis"),
    ]
    if len(steps) > 1:
        end = _LEFT + len(steps) * width
        parts.append(_text(max(end, _LEFT + 90), _STRIP_HEIGHT + 22, units.step(steps[-1].step), "axis", "end"))
    for number, step in enumerate(steps):
        parts += _stack(step, timing, _LEFT + number * width, width, longest)
    return _svg(_STRIP_HEIGHT + 28, f"step time of the last {len(steps)} steps", parts)


def _stack(step: StripStep, timing: TimingView, left: float, width: float, longest: float) -> Iterator[str]:
    bottom = 8.0 + _STRIP_HEIGHT
    total_s = sum(seconds for _, seconds in step.parts)
    # Overlapping stages sum to more than the step.
    fit = step.total_s / total_s if total_s > step.total_s > 0 else 1.0
    for name, seconds in step.parts:
        height = max(0.0, seconds * fit / longest * _STRIP_HEIGHT)
        if not math.isfinite(height) or height < 0.05:
            continue
        bottom -= height
        role = f"stage-{timing.colors[name] % 8}" if name in timing.colors and not step.is_whole else "other"
        yield (
            f'<rect class="{role}" x="{_n(left)}" y="{_n(bottom)}" width="{_n(max(0.5, width - 0.8))}" '
            f'height="{_n(height)}"><title>step {escaped(units.step(step.step))}: {escaped(name)} '
            f"{escaped(units.duration(seconds))}</title></rect>"
        )


def _axes(plot: PlotData) -> Axes | None:
    axes = axes_of(plot, *_AXIS_CELLS)
    if axes is not None and axes.band:
        alone = axes_of(plot, *_AXIS_CELLS, has_band=False)
        if alone is not None and alone.high - alone.low < _LEAST_SHARE * (axes.high - axes.low):
            axes = alone
    return axes if axes is not None and math.isfinite(axes.low) and math.isfinite(axes.high) else None


class _Frame:
    """Maps steps and values to coordinates."""

    def __init__(self, axes: Axes, height: int) -> None:
        self._axes, self.bottom = axes, height - _BOTTOM
        self._span = axes.last - axes.first
        # Halved, as the difference of two finite numbers may overflow.
        self._low, high = self._scaled(axes.low), self._scaled(axes.high)
        self._reach = high / 2 - self._low / 2

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self._axes.is_log else value

    def x(self, step: float) -> float:
        return _LEFT + (step - self._axes.first) / self._span * (WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        share = 0.5 if self._reach <= 0 else (self._scaled(value) / 2 - self._low / 2) / self._reach
        return self.bottom - share * (self.bottom - _TOP)

    def axes(self, unit: Unit) -> Iterator[str]:
        left, right = _LEFT, WIDTH - _RIGHT
        for tick, label in zip(self._axes.y_ticks, value_labels(self._axes.y_ticks, unit), strict=True):
            at = self.y(tick)
            yield f'<line class="grid" x1="{left}" x2="{right}" y1="{_n(at)}" y2="{_n(at)}"/>'
            yield _text(left - 6, at + 4, label, "axis", "end")
        for tick, label in zip(self._axes.x_ticks, self._axes.x_labels, strict=True):
            anchor = "end" if self.x(tick) > right - 16 else "middle"
            yield _text(min(right, self.x(tick)), self.bottom + 15, label, "axis", anchor)
        yield f'<line class="rule" x1="{left}" x2="{right}" y1="{self.bottom}" y2="{self.bottom}"/>'

    def level(self, value: float, role: str) -> str:
        at = _n(self.y(value))
        return f'<line class="level {role}" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{at}" y2="{at}"/>'

    def mark(self, step: float, role: str, label: str) -> str:
        at = _n(self.x(step))
        return (
            f'<line class="mark {role}" x1="{at}" x2="{at}" y1="{_TOP}" y2="{self.bottom}">'
            f"<title>{escaped(label)}</title></line>"
        )

    def curve(self, curve: Curve, role: str) -> str:
        points = [(self.x(step), self.y(value)) for step, value in zip(curve.steps, curve.values, strict=True)]
        if len(points) == 1:
            (x, y), *_ = points
            return f'<circle class="dot {role}" cx="{_n(x)}" cy="{_n(y)}" r="2.5"/>'
        return f'<polyline class="curve {role}" points="{" ".join(f"{_n(x)},{_n(y)}" for x, y in points)}"/>'


def _band(frame: _Frame, axes: Axes) -> Iterator[str]:
    edges = [
        [(frame.x(step), frame.y(value)) for step, value in zip(edge.steps, edge.values, strict=True)]
        for edge in axes.band
        if edge.steps
    ]
    if len(edges) == 2:
        points = " ".join(f"{_n(x)},{_n(y)}" for x, y in (*edges[0], *reversed(edges[1])))
        yield f'<polygon class="band" points="{points}"/>'
    for edge in edges if len(edges) == 1 else ():
        yield f'<polyline class="curve note" points="{" ".join(f"{_n(x)},{_n(y)}" for x, y in edge)}"/>'


def _rail(markers: Sequence[Marker], frame: _Frame) -> Iterator[str]:
    first, last = frame.x(0), frame.x(1)
    left, cell = _LEFT, (WIDTH - _LEFT - _RIGHT) / (_RAIL_CELLS - 1)

    def cell_of(step: int) -> int | None:
        return round((first + step * (last - first) - left) / cell)

    builder = add_rail(RowBuilder(_RAIL_CELLS, UNICODE), markers, _RAIL_CELLS, cell_of, UNICODE)
    at = 0
    for text, role in builder.row().line:
        for sign in text:
            if sign != " ":
                yield _text(left + at * cell, frame.bottom + _BOTTOM + 9, sign, f"sign {role}", "middle")
            at += 1


def _nothing(text: str) -> str:
    return _svg(40, text, [_text(WIDTH / 2, 24, text, "dim", "middle")])


def _text(x: float, y: float, text: str, role: str = "", anchor: str = "start") -> str:
    style = (f' class="{role}"' if role else "") + ("" if anchor == "start" else f' text-anchor="{anchor}"')
    return f'<text x="{_n(x)}" y="{_n(y)}"{style}>{escaped(text)}</text>'


def _svg(height: int, title: str, parts: Sequence[str]) -> str:
    name = escaped(title)
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{name}">'
        f"<title>{name}</title>{''.join(parts)}</svg>"
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


SERIES = 8
"""Maximum number of runs that are distinguishable in one chart."""


def style_sheet(*, has_page: bool) -> str:
    """The rules for charts, colours first, and with `has_page` those for the page around them."""
    names = ("charts.css", "page.css") if has_page else ("charts.css",)
    return "\n".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in names)


_MARGIN, _SPACE = 24, 24
_WHOLE = 2 * WIDTH + _SPACE + 2 * _MARGIN
_CELLS = 120
_TITLE_CELLS = 34
_SMALL, _LARGE = 13, 22


class _Sheet:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = float(_MARGIN)

    def text(self, text: str, role: str = "text", size: int = _SMALL, *, lines: int = 4) -> None:
        for line in wrap(text, _CELLS * _SMALL // size, lines):
            self.y += size * 1.4
            place = f'x="{_MARGIN}" y="{self.y:.0f}" style="font-size: {size}px"'
            self.parts.append(f'<text class="{role}" {place}>{escaped(line)}</text>')

    def charts(self, charts: Sequence[tuple[str, str, str, int]]) -> None:
        for start in range(0, len(charts), 2):
            row = charts[start : start + 2]
            self.y += 26
            for column, (title, beside, chart, height) in enumerate(row):
                left = _MARGIN + column * (WIDTH + _SPACE)
                name = f'<tspan class="strong">{escaped(clip_middle(title, _TITLE_CELLS))}</tspan>'
                head = f'{name} <tspan class="dim">{escaped(beside)}</tspan>'
                self.parts.append(f'<text x="{left}" y="{self.y:.0f}">{head}</text>')
                place = f'<svg x="{left}" y="{self.y + 6:.0f}" width="{WIDTH}" height="{height}"'
                self.parts.append(chart.replace("<svg", place, 1))
            self.y += 6 + max(height for *_, height in row)


def sheet(reports: Sequence[RunReport], made: Provenance) -> str:
    found = _Sheet()
    names = run_names(reports)
    if len(reports) > 1:
        found.text(f"{len(reports)} runs", "strong", _LARGE, lines=1)
    for name, report in zip(names[:MOST_RUNS], reports[:MOST_RUNS], strict=True):
        found.y += _SPACE if found.parts else 0
        _run(found, name, report)
    found.y += _SPACE / 2
    found.text(further_runs(reports), "dim")
    found.text(f"rltop {made.version}, {made.when}", "dim", lines=1)
    height = round(found.y + _MARGIN)
    title = escaped(names[0] if len(names) == 1 else f"{len(names)} runs")
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WHOLE} {height}" width="{_WHOLE}" height="{height}" '
        f'role="img" aria-label="{title}">\n<title>{title}</title>\n<style>\n{style_sheet(has_page=False)}\n</style>\n'
        f'<rect width="100%" height="100%" style="fill: var(--ground)"/>\n' + "\n".join(found.parts) + "\n</svg>\n"
    )


def _run(found: _Sheet, name: str, report: RunReport) -> None:
    found.text(name, "strong", _LARGE, lines=1)
    found.text(" · ".join(report.facts), "dim")
    found.text(f"vs {report.against}: {report.divergence}" if report.divergence else "", "text")
    level = report.sentence_level
    found.y += 4
    found.text(report.collapse, LEVEL_ROLES[Level.CRIT], 15)
    role = LEVEL_ROLES[level] if level >= Level.WARN else "text"
    found.text(f"{UNICODE.sign(level, Level.WARN)}{report.sentence}", role, 15)
    found.y += 4
    for alert in report.alerts:
        verdict = alert.verdict
        word = f"{UNICODE.levels[verdict.level]} {verdict.level.word.upper()} {verdict.title}"
        found.text(f"{word}, since step {units.step(verdict.since_step)}", LEVEL_ROLES[verdict.level], lines=1)
        found.text(verdict.headline, lines=2)
    if report.alerts_left_out:
        found.text(f"and {units.count(report.alerts_left_out)} more active alerts", "dim")
    charts = [_chart(figure) for figure in _evidence_first(report) if figure.plot.raw.steps]
    timing = report.timing
    if timing is not None and timing.stages:
        head = f"{units.duration(timing.total_s)}"
        stages = stages_svg(timing)
        charts.append((f"step {units.step(timing.step)}", head, stages, _height(stages)))
        if strip := strip_svg(timing):
            charts.append(("step time", report.timing_words[:60], strip, _height(strip)))
    found.charts(charts)


def _evidence_first(report: RunReport) -> list[Figure]:
    figures = [*(figure for alert in report.alerts for figure in alert.figures), *report.figures]
    found: dict[tuple[str, str], Figure] = {}
    for figure in figures:
        found.setdefault((figure.stream, figure.key.raw), figure)
    return list(found.values())


def _chart(figure: Figure) -> tuple[str, str, str, int]:
    change = f" ({figure.change})" if figure.change else ""
    return figure.title, f"{figure.value}{change}", figure_svg(figure), HEIGHT


def _height(chart: str) -> int:
    return int(chart.partition('viewBox="')[2].partition('"')[0].split(" ")[3])
