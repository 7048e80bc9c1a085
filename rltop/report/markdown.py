"""A report as Markdown: for an issue, a pull request, the summary of a CI job.

Prevents text from becoming markup, a link, a mention or an issue number on GitHub or GitLab.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Sequence

from rltop import units
from rltop.model import Label, Level, VerdictState
from rltop.regex import regex
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
    text_of,
)
from rltop.rows.glyphs import UNICODE
from rltop.rows.rows import clip_middle

_LONGEST = 600
_MARKUP = regex(r"[\\`*_\[\]|~$]")
_BEGINS_BLOCK = regex(r"^(?:[-+=#:]|\d+(?=[.)]\s))")
_AUTOLINK = regex(r"(?i)(https?|ftp|mailto|xmpp):|www\.")
_MENTION = regex(r"[@#](?=[\w-])|\b(?:GH|gh)-(?=\d)")
_WORD_JOINER = "\u2060"
"""Invisible, and read as text; as an entity it would be seen in the file."""


def markdown(reports: Sequence[RunReport], made: Provenance) -> str:
    names = run_names(reports)
    lines = [f"# {plain(names[0] if len(names) == 1 else f'{len(names)} runs')}", ""]
    if len(reports) > 1:
        runs, metrics = comparison(reports)
        lines += [*_table(runs), ""]
        for title, grid, what in differences_of(reports):
            lines += [f"## {title}", "", *_table(grid), *_left_out(grid, what), ""]
        lines += ["## Key metrics", "", *_table(metrics), ""]
    for name, report in zip(names[:MOST_RUNS], reports[:MOST_RUNS], strict=True):
        if len(reports) > 1:
            lines += [f"## {plain(name)}", ""]
        lines += _run(report)
    lines += [further_runs(reports), ""]
    return "\n".join([*lines, *_footer(reports, made)]) + "\n"


def job_summary(reports: Sequence[RunReport], made: Provenance) -> str:
    names = run_names(reports)
    lines = [f"# rltop check: {plain(names[0] if len(names) == 1 else f'{len(names)} runs')}", ""]
    if len(reports) > 1:
        lines += [*_table(comparison(reports)[0]), ""]
    for name, report in zip(names, reports, strict=True):
        if len(reports) > 1:
            if not report.alerts and not report.over:
                continue
            lines += [f"## {plain(name)}", ""]
        lines += [*_head(report), *_alerts(report), *_notes(report)]
    return "\n".join([*lines, *_footer(reports, made)]) + "\n"


def plain(text: str) -> str:
    """Text within a line, escaped so that it is no markup, link or mention."""
    shown = clip_middle(Label.of(text).display, _LONGEST)
    shown = _AUTOLINK.sub(lambda found: f"{found[0][:-1]}\0{found[0][-1]}", shown)
    shown = _MENTION.sub(lambda found: f"{found[0]}\0", shown)
    return _MARKUP.sub(r"\\\g<0>", html.escape(shown, quote=False)).replace("\0", _WORD_JOINER)


def paragraph(text: str) -> str:
    """Text at the start of a line, escaped so that it is no list, heading or rule."""
    return _BEGINS_BLOCK.sub(lambda found: f"{_WORD_JOINER}{found[0]}", plain(text))


def code(text: str) -> str:
    """A key or a path as code, also inside a table."""
    shown = clip_middle(Label.of(text).display, _LONGEST)
    if not shown.strip():
        return ""
    if not {"`", "|"} & set(shown) and shown == shown.strip():
        return f"`{shown}`"
    # As an element: Markdown code cannot hold a pipe in a table, nor blanks or backticks at its ends.
    shown = _MARKUP.sub(lambda found: f"&#{ord(found[0])};", html.escape(shown, quote=False))
    return f"<code>{shown.replace('://', ':&#47;/')}</code>"


def _run(report: RunReport) -> Iterator[str]:
    yield from _head(report)
    if not report.is_empty:
        yield from _curves(report.leading)
        yield from ("### Alerts", "", *_alerts(report))
        settings = settings_grid(report)
        if settings.rows:
            yield "<details><summary>settings</summary>"
            yield from ("", *_table(settings), *_left_out(settings, "setting"), "", "</details>", "")
        if report.pipeline is not None:
            flow = report.pipeline
            yield from ("### Pipeline", "", f"{UNICODE.sign(flow.level)}{paragraph(flow.waits.sentence)}", "")
            yield from (f"- {plain(text)}" for text in (flow.note, *pipeline_words(flow)))
            yield from ("", *_table(parts_grid(flow)), "")
        yield from ("### Metrics", "", *_table(report.metrics), *_left_out(report.metrics, "key"), "")
        yield from _curves(report.other_figures)
        yield from ("### Step time", "", paragraph(report.timing_words), "", *_table(report.stages), "")
        if report.events.rows:
            yield from ("### Events", "", *_left_out(report.events, "earlier event"), *_table(report.events), "")
    yield from _notes(report)


def _curves(figures: Sequence[Figure]) -> Iterator[str]:
    lines = [(figure.title, figure.spark, figure.value) for figure in figures if figure.spark.strip()]
    if lines:
        width = max(len(title) for title, _, _ in lines)
        curves = [f"{title.replace('`', ' '):<{width}}  {spark}  {value}" for title, spark, value in lines]
        yield from ("```text", *curves, "```", "")


def _head(report: RunReport) -> Iterator[str]:
    yield paragraph(" · ".join(report.facts))
    yield ""
    if report.collapse:
        yield from (f"> {paragraph(report.collapse)}", ">")
    yield f"> {UNICODE.sign(report.sentence_level, Level.WARN)}{paragraph(report.sentence)}"
    yield ""


def _alerts(report: RunReport) -> Iterator[str]:
    if not report.alerts and not report.is_empty:
        yield from ("no active alerts", "")
    for alert in report.alerts:
        yield from _alert(alert)
    if report.alerts_left_out:
        yield from (f"and {units.count(report.alerts_left_out)} more active alerts", "")
    if report.over:
        yield from ("Over:", "", *(f"- {paragraph(words)}" for words in report.over), "")


def _alert(alert: AlertReport) -> Iterator[str]:
    verdict = alert.verdict
    word = verdict.level.word.upper() + (" · NEW LEVEL" if verdict.state is VerdictState.SETTLED else "")
    yield f"#### {UNICODE.levels[verdict.level]} {word} {plain(verdict.title)}"
    yield from ("", paragraph(" · ".join(alert.facts)), "", paragraph(verdict.headline), "")
    said = {name: plain(text) for name, text in alert.words.items()}
    said["evidence"] = f"{code(verdict.key)} {said['evidence']}".strip()
    said |= {"causes": plain("; ".join(alert.causes)), "order": plain(alert.conclusion)}
    yield from (f"- **{name}** {text}" for name, text in said.items() if text)
    yield ""
    if alert.chain.rows:
        yield "<details><summary>related metrics, in the order to check</summary>"
        yield from ("", *_table(alert.chain), "", "</details>", "")


def _table(grid: Grid) -> Iterator[str]:
    if not grid.rows:
        return
    yield _line([plain(head) for head in grid.heads])
    yield _line(["---:" if is_right else "---" for is_right in grid.is_right])
    for row in grid.rows:
        yield _line(
            [
                code(text_of(cell)) if cell and all(piece.role == "key" for piece in cell) else plain(text_of(cell))
                for cell in row
            ]
        )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _left_out(grid: Grid, what: str) -> Iterator[str]:
    if grid.left_out:
        yield from ("", f"and {units.counted(grid.left_out, f'more {what}')}", "")


def _notes(report: RunReport) -> Iterator[str]:
    for note in report.notes:
        yield from (paragraph(note), "")


def _footer(reports: Sequence[RunReport], made: Provenance) -> Iterator[str]:
    yield from ("---", "")
    yield f"Made by rltop {plain(made.version)} on {plain(made.when)} with {code(made.command)}"
    yield ""
    yield from (f"- {code(report.path.raw)}: {plain(report.records)}" for report in reports)
