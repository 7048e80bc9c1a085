"""One event in one row, as every page and report writes it."""

from __future__ import annotations

from rltop import units
from rltop.model import Event, EventState, Label
from rltop.view.cells import RowBuilder
from rltop.view.glyphs import LEVEL_ROLES, Glyphs
from rltop.view.lines import Row, Target, TargetKind

_EVENT_WORDS = {
    EventState.FIRING: "fires",
    EventState.ESCALATED: "is worse",
    EventState.RECOVERED: "recovered",
    EventState.FACT: "note",
}


def paint_event(event: Event, width: int, glyphs: Glyphs) -> Row:
    """One transition in one row."""
    builder = RowBuilder(width, glyphs).add(" ")
    is_over = event.state in (EventState.RECOVERED, EventState.FACT)
    role = "dim" if is_over else LEVEL_ROLES[event.level]
    builder.add("  " if is_over else f"{glyphs.level(event.level)} ", role)
    builder.right(units.step(event.step), 9, "value").add("  ").left(event.rule, 5, "dim")
    builder.left(_EVENT_WORDS[event.state], 10, role)
    builder.add(f"{Label.of(event.stream)}: " if event.stream else "", "note")
    builder.add(Label.of(event.message).display, "text" if not is_over else "dim")
    return builder.row(Target(TargetKind.VERDICT, event.rule, event.step, event.stream))
