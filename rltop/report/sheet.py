"""A report as one SVG picture: the headline, the alerts and the charts of each run.

Owns where things stand; the charts are those of `svg`, the text is wrapped here because SVG wraps none.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltop import units
from rltop.model import Level
from rltop.report.run_report import MOST_RUNS, Figure, Made, RunReport, further_runs, run_names
from rltop.report.svg import HEIGHT, WIDTH, escaped, figure_svg, stages_svg, strip_svg, style_sheet
from rltop.rows.cells import clip_middle, wrap
from rltop.rows.glyphs import LEVEL_ROLES, UNICODE

_MARGIN, _GAP = 24, 24
_WHOLE = 2 * WIDTH + _GAP + 2 * _MARGIN
_LINE = 18
_CELLS = 120
_TITLE_CELLS = 34
_SMALL, _LARGE = 13, 22


class _Sheet:
    """A picture that grows downwards."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.y = float(_MARGIN)

    def text(self, text: str, role: str = "text", size: int = _SMALL, *, lines: int = 4) -> None:
        for line in wrap(text, _CELLS * _SMALL // size, lines):
            self.y += size * 1.4
            place = f'x="{_MARGIN}" y="{self.y:.0f}" style="font-size: {size}px"'
            self.parts.append(f'<text class="{role}" {place}>{escaped(line)}</text>')

    def charts(self, charts: Sequence[tuple[str, str, str, int]]) -> None:
        """Charts in two columns: title, what stands behind it, the picture, its height."""
        for start in range(0, len(charts), 2):
            row = charts[start : start + 2]
            self.y += 26
            for column, (title, beside, chart, height) in enumerate(row):
                left = _MARGIN + column * (WIDTH + _GAP)
                name = f'<tspan class="strong">{escaped(clip_middle(title, _TITLE_CELLS))}</tspan>'
                head = f'{name} <tspan class="dim">{escaped(beside)}</tspan>'
                self.parts.append(f'<text x="{left}" y="{self.y:.0f}">{head}</text>')
                place = f'<svg x="{left}" y="{self.y + 6:.0f}" width="{WIDTH}" height="{height}"'
                self.parts.append(chart.replace("<svg", place, 1))
            self.y += 6 + max(height for *_, height in row)


def sheet(reports: Sequence[RunReport], made: Made) -> str:
    found = _Sheet()
    names = run_names(reports)
    if len(reports) > 1:
        found.text(f"{len(reports)} runs", "strong", _LARGE, lines=1)
    for name, report in zip(names[:MOST_RUNS], reports[:MOST_RUNS], strict=True):
        found.y += _GAP if found.parts else 0
        _run(found, name, report)
    found.y += _GAP / 2
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
    sign = f"{UNICODE.level(level)} " if level >= Level.WARN else ""
    found.y += 4
    found.text(f"{sign}{report.sentence}", LEVEL_ROLES[level] if level >= Level.WARN else "text", 15)
    found.y += 4
    for alert in report.alerts:
        verdict = alert.verdict
        word = f"{UNICODE.level(verdict.level)} {verdict.level.word.upper()} {verdict.title}"
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
