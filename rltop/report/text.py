"""Runs as text: the overview, and the output of `rltop check`: alerts at the end of a run, and its events.

Renders rows without a screen. Colours are the terminal's own sixteen, because its background is unknown; no information
depends on colour, since every level has a sign and a word. The output of `check` is meant to be pasted into an issue:
every alert with its numbers and the metrics to check next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rltop import units
from rltop.model import Event, EventState, Evidence, Label, Level, RunState, Verdict, VerdictState
from rltop.pages.alerts import alert_role, is_of_now, own_words, paint_events, was_words, worst_before, worst_words
from rltop.pages.header import (
    BROKEN_OFF,
    count_words,
    ending_words,
    generation_text,
    paint_layout,
    paint_streams,
    stuck_words,
)
from rltop.pages.signals import evidence_parts, primary, rate_jumped
from rltop.report.document import events_since
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs, glyph_set
from rltop.rows.rows import Row, RowBuilder, text_row, text_rows, wrap
from rltop.rows.table import Column, Fit, Table, TablePainter
from rltop.rows.themes import PLAIN, Palette, load_palette, look_of
from rltop.rules.diagnosis import next_steps
from rltop.run.preferences import was_acknowledged
from rltop.run.snapshot import Snapshot
from rltop.structs import Remembered

if TYPE_CHECKING:
    from rltop.pages.run_entry import RunEntry
    from rltop.run.run import Run


PALETTE = "terminal"
"""The theme for output without a screen."""
_ENDINGS = {
    RunState.DIED: Level.CRIT, RunState.STUCK: Level.WARN, RunState.FINISHED: Level.WARN,
    RunState.INTERRUPTED: Level.INFO,
}  # fmt: skip
"""Severity of how a run ended, or of an error after its end, by its final state."""


def once_text(
    snapshot: Snapshot,
    width: int,
    height: int | None = None,
    *,
    baseline: Run | None = None,
    use_color: bool = False,
    is_ascii: bool = False,
) -> str:
    from rltop.pages.overview import build_overview, paint_overview, with_baseline_run  # noqa: PLC0415 - `check` needs no overview

    view = build_overview(snapshot, width=width, height=height if height is not None else 40)
    view = view if baseline is None else with_baseline_run(view, snapshot, baseline, Remembered())
    glyphs = glyph_set(is_ascii=is_ascii)
    rows = list(paint_overview(view, width, height, glyphs))
    rows += [row for one in own_words(snapshot.run) for row in text_rows(one, width, glyphs, "dim")]
    return rows_text(rows, use_color=use_color)


def runs_text(entries: Sequence[RunEntry], width: int, *, use_color: bool = False, is_ascii: bool = False) -> str:
    from rltop.pages.runs import paint_runs  # noqa: PLC0415 - `check` needs no list of runs

    rows = paint_runs(entries, width, None, glyph_set(is_ascii=is_ascii))
    return rows_text(rows, use_color=use_color)


def rows_text(rows: Sequence[Row], *, use_color: bool = False) -> str:
    palette = load_palette(PALETTE) if use_color else None
    texts = (row.text.rstrip() for row in rows)
    lines = texts if palette is None else (_coloured(row, palette) for row in rows)
    return "".join(f"{line}\n" for line in lines)


def _coloured(row: Row, palette: Palette) -> str:
    out, look = [], PLAIN
    for text, role in row.line:
        before, look = look, look_of(palette.style(role), palette, has_truecolour=False)
        out.append(look.after(before) + text)
    return "".join(out) + PLAIN.after(look)


WIDTH = 100
_SHOWN = 40
_SHOWN_FACTS = 10
_ROUTINE = frozenset({"F2", "F4"})
"""Routine events of every run: checkpoints, validations, new metrics."""
_SHOWN_STEPS = 3
_MOST_LINES = 6
_LABEL = 10


def check_text(
    snapshot: Snapshot, *, use_color: bool = False, is_ascii: bool = False, width: int = WIDTH, since: int | None = None
) -> str:
    """The alerts at the end of a run and its events, as lines of text without a trailing newline.

    Args:
        since: leave out events before this step; active alerts are always printed.
    """
    glyphs = glyph_set(is_ascii=is_ascii)
    rows = [_title(snapshot, width, glyphs), *_ending(snapshot, width, glyphs)]
    rows += paint_streams(snapshot, width, glyphs)
    firing = snapshot.firing
    if not any(each.stream.has_values for each in snapshot.streams):
        rows.append(text_row("no metrics found", width, glyphs, "warn"))
        if snapshot.source.counts.lines and snapshot.source.state not in BROKEN_OFF:
            rows += paint_layout(snapshot.source.counts, snapshot.part.kind_title, width, glyphs)
    elif not firing:
        rows.append(text_row("no alerts at the end", width, glyphs, "ok"))
    rows += _verdicts(snapshot, firing, width, glyphs)
    rows += _worst(snapshot, firing, width, glyphs)
    events = events_since(snapshot, since)
    if events or since is not None:
        after = "" if since is None else f" since step {units.step(since)}"
        more = f", the last {_SHOWN}" if len(events) > _SHOWN else ""
        rows += [Row(()), text_row(f"events{after}: {units.count(len(events))}{more}", width, glyphs, "dim")]
        log, muted = snapshot.source.events, snapshot.part.judging.muted
        rows += paint_events(events[-_SHOWN:], width, glyphs, log, lines=_MOST_LINES, muted=muted)
    facts = [event for event in snapshot.source.events if explains(event, since)]
    if facts:
        more = f", the last {_SHOWN_FACTS}" if len(facts) > _SHOWN_FACTS else ""
        rows += [Row(()), text_row(f"info events: {units.count(len(facts))}{more}", width, glyphs, "dim")]
        rows += paint_events(facts[-_SHOWN_FACTS:], width, glyphs, snapshot.source.events, lines=_MOST_LINES)
    words = count_words(snapshot)
    notes = [f"file: {' · '.join(words)}"] if words else []
    notes += own_words(snapshot.run)
    rows += [Row(())] if notes else []
    rows += [row for note in notes for row in text_rows(note, width, glyphs, "dim")]
    return rows_text(rows, use_color=use_color).removesuffix("\n")


def _ending(snapshot: Snapshot, width: int, glyphs: Glyphs) -> list[Row]:
    is_stuck, level = snapshot.source.state is RunState.STUCK, _ENDINGS.get(snapshot.source.state)
    if level is None or not (is_stuck or snapshot.source.failure.raw):
        return []
    text = f"{glyphs.levels[level]} {Label.of((stuck_words if is_stuck else ending_words)(snapshot)).display}"
    return text_rows(text, width, glyphs, LEVEL_ROLES[level])


def _worst(snapshot: Snapshot, firing: Sequence[Verdict], width: int, glyphs: Glyphs) -> list[Row]:
    history = snapshot.history
    level = max((verdict.level for verdict in firing), default=Level.INFO)
    found = worst_before(history, level)
    if found is None or any(is_of_now(found, one) for one in firing):
        return []
    return text_rows(worst_words(history, level), width, glyphs, alert_role(found), lines=2)


def explains(event: Event, since: int | None) -> bool:
    """Whether it is an INFO event that may explain alerts: a restart, a phase, a learning-rate change, a profile."""
    if event.state is not EventState.FACT or event.rule in _ROUTINE:
        return False
    return since is None or event.step >= since


def _title(snapshot: Snapshot, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" ").add(snapshot.name.display, "strong")
    if snapshot.identity is not None:
        builder.add(f" · {snapshot.identity.dialect.name} · {snapshot.identity.algorithm.display_name}", "note")
        others = [name for name in snapshot.part.judging.now.profiles if name != snapshot.identity.algorithm.value]
        if others:
            builder.add(f" · profile {', '.join(others)}", "note")
        if generation := generation_text(snapshot):
            builder.add(f" · {generation}", "note")
    rows = snapshot.stream.rows
    is_evaluated = snapshot.stream.has_values and not rows
    builder.add(f"   {'evaluations only' if is_evaluated else units.counted(rows, 'record')}", "dim")
    if snapshot.stream.last_step is not None:
        builder.add(f", up to step {units.step(snapshot.stream.last_step)}", "dim")
    return builder.row()


def _verdicts(snapshot: Snapshot, verdicts: Sequence[Verdict], width: int, glyphs: Glyphs) -> list[Row]:
    columns: Sequence[Column[Verdict]] = (
        Column("", lambda one: (one.level.word.upper(), LEVEL_ROLES[one.level]), is_right=False),
        Column("", lambda one: (one.rule, "dim"), least=4, is_right=False, gap=1),
        Column("", lambda one: (Label.of(one.title).display, "strong"), Fit.NAME, least=24),
        Column("", lambda one: (_since(snapshot, one), "dim"), is_right=False, priority=1),
        Column("", lambda one: (Label.of(one.key).display, "dim"), Fit.NAME, least=16, priority=2),
    )
    table = Table(columns, verdicts, sign=lambda one: (glyphs.levels[one.level], LEVEL_ROLES[one.level]))
    painter = TablePainter(table, width, glyphs)
    indent, _ = painter.place(2)
    rows: list[Row] = []
    for number, verdict in enumerate(verdicts):
        rows += [painter.row(number), *_below(snapshot, verdict, indent, width, glyphs)]
    return rows


def _since(snapshot: Snapshot, verdict: Verdict) -> str:
    state = "new level " if verdict.state is VerdictState.SETTLED else ""
    quiet = "acknowledged" if was_acknowledged(snapshot.source.path.raw, verdict) else ""
    return ", ".join(filter(None, (f"{state}since {units.step(verdict.since_step)}", was_words(verdict), quiet)))


def _below(snapshot: Snapshot, verdict: Verdict, indent: int, width: int, glyphs: Glyphs) -> list[Row]:
    rows = [
        RowBuilder(width, glyphs).pad_to(indent).add(piece).row()
        for piece in wrap(Label.of(verdict.headline).display, width - indent - 1, 3)
    ]
    if verdict.advice is not None:
        rows += _labelled("do", verdict.advice.text, indent, width, glyphs)
    if verdict.evidence:
        rows += _labelled("evidence", evidence_words(verdict.evidence), indent, width, glyphs)
    if verdict.also:
        rows += _labelled("also", ", ".join(one.words for one in verdict.also), indent, width, glyphs)
    for i, step in enumerate(_logged(snapshot, verdict)[:_SHOWN_STEPS]):
        rows += _labelled("check" if not i else "", step, indent, width, glyphs)
    return rows


def evidence_words(evidence: Iterable[Evidence], key: str = "") -> str:
    return ", ".join(" ".join(filter(None, part)) for part in evidence_parts(evidence, key))


def _labelled(label: str, text: str, indent: int, width: int, glyphs: Glyphs) -> list[Row]:
    rows = []
    for i, piece in enumerate(wrap(Label.of(text).display, width - indent - _LABEL - 1, 3)):
        builder = RowBuilder(width, glyphs).pad_to(indent).add("" if i else label, "dim").pad_to(indent + _LABEL)
        rows.append(builder.add(piece, "dim").row())
    return rows


def _logged(snapshot: Snapshot, verdict: Verdict) -> list[str]:
    lines = []
    for step in next_steps(verdict):
        signal = primary(snapshot, step.metric)
        if signal is not None and (step.metric != "lr" or rate_jumped(snapshot, verdict.since_step)):
            lines.append(signal.key + (f": {step.reason}" if step.reason else ""))
    return lines
