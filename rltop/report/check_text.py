"""What `rltop check` prints for a person: what fires at the end, and what happened."""

from __future__ import annotations

from rltop import units
from rltop.model import EventState, Label, Verdict, VerdictState
from rltop.report.text import PALETTE, rows_text
from rltop.view.cells import RowBuilder, text_row, wrap
from rltop.view.glyphs import LEVEL_ROLES, Glyphs, glyph_set
from rltop.view.header import count_words
from rltop.view.lines import Row
from rltop.view.overview import paint_event
from rltop.view.palette import load_palette
from rltop.view.source import RunSource

WIDTH = 100
_SHOWN = 40


def check_text(run: RunSource, *, use_color: bool = False, is_ascii: bool = False, width: int = WIDTH) -> str:
    """The verdicts at the end of a run and its events, as lines of text without a last newline."""
    glyphs = glyph_set(is_ascii=is_ascii)
    rows = [_title(run, width, glyphs)]
    firing = [verdict for verdict in run.verdicts if verdict.state is VerdictState.FIRING]
    if not run.stream.rows:
        rows.append(text_row("no metrics in it", width, glyphs, "warn"))
    elif not firing:
        rows.append(text_row("nothing fires at the end", width, glyphs, "ok"))
    for verdict in firing:
        rows += _verdict(verdict, width, glyphs)
    events = [event for event in run.events if event.state is not EventState.FACT]
    if events:
        more = f", the last {_SHOWN}" if len(events) > _SHOWN else ""
        rows += [Row(()), text_row(f"events: {units.count(len(events))}{more}", width, glyphs, "dim")]
        rows += [paint_event(event, width, glyphs) for event in events[-_SHOWN:]]
    words = count_words(run.counts)
    if words:
        rows += [Row(()), text_row(f"file: {' · '.join(words)}", width, glyphs, "dim")]
    return rows_text(rows, load_palette(PALETTE) if use_color else None).removesuffix("\n")


def _title(run: RunSource, width: int, glyphs: Glyphs) -> Row:
    builder = RowBuilder(width, glyphs).add(" ").add(run.name.display, "strong")
    if run.identity is not None:
        builder.add(f" · {run.identity.dialect.name} · {run.identity.algorithm.display_name}", "note")
    rows = run.stream.rows
    builder.add(f"   {units.count(rows)} {'record' if rows == 1 else 'records'}", "dim")
    if run.stream.last_step is not None:
        builder.add(f", up to step {units.step(run.stream.last_step)}", "dim")
    return builder.row()


def _verdict(verdict: Verdict, width: int, glyphs: Glyphs) -> list[Row]:
    role = LEVEL_ROLES[verdict.level]
    head = RowBuilder(width, glyphs).add(" ").add(f"{glyphs.level(verdict.level)} ", role)
    head.left(verdict.level.word.upper(), 5, role).left(verdict.rule, 5, "dim")
    indent = head.column
    head.add(Label.of(verdict.title).display, "strong").add(f"  since {units.step(verdict.since_step)}", "dim")
    lines = wrap(Label.of(verdict.headline).display, width - indent - 1, 3)
    return [head.row(), *(RowBuilder(width, glyphs).to(indent).add(line).row() for line in lines)]
