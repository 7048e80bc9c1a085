"""One event in one row, as every page and report writes it."""

from __future__ import annotations

from rltop import units
from rltop.model import Event, EventState, Label
from rltop.view.cells import RowBuilder, wrap
from rltop.view.glyphs import LEVEL_ROLES, Glyphs
from rltop.view.lines import Row, Target, TargetKind

_EVENT_WORDS = {
    EventState.FIRING: "fires",
    EventState.ESCALATED: "is worse",
    EventState.RECOVERED: "recovered",
    EventState.FACT: "note",
}

PROVISIONAL = "provisional: "
"""Before what the newest row would say if nothing more came of its step."""
_LEAST_WORDS = 12
_MOST_ROWS = 6


def paint_event(event: Event, width: int, glyphs: Glyphs) -> Row:
    """One transition in one row."""
    builder = _head(event, width, glyphs)
    builder.add(Label.of(event.message).display, _role(event))
    return builder.row(_target(event))


def whole_event(event: Event, width: int, glyphs: Glyphs) -> list[Row]:
    """One transition with all of its words, in as many rows as they take."""
    builder = _head(event, width, glyphs)
    indent = builder.column
    first, *rest = wrap(Label.of(event.message).display, max(_LEAST_WORDS, width - indent - 1), _MOST_ROWS) or [""]
    rows = [builder.add(first, _role(event)).row(_target(event))]
    return rows + [RowBuilder(width, glyphs).to(indent).add(piece, _role(event)).row() for piece in rest]


def _head(event: Event, width: int, glyphs: Glyphs) -> RowBuilder:
    builder = RowBuilder(width, glyphs).add(" ")
    is_over = event.state in (EventState.RECOVERED, EventState.FACT)
    role = "dim" if is_over else LEVEL_ROLES[event.level]
    builder.add("  " if is_over else f"{glyphs.level(event.level)} ", role)
    builder.right(units.step(event.step), 9, "value").add("  ").left(event.rule, 5, "dim")
    builder.left(_EVENT_WORDS[event.state], 10, role)
    builder.add(PROVISIONAL if event.is_provisional else "", "dim")
    return builder.add(f"{Label.of(event.stream)}: " if event.stream else "", "note")


def _role(event: Event) -> str:
    return "dim" if event.state in (EventState.RECOVERED, EventState.FACT) else "text"


def _target(event: Event) -> Target:
    return Target(TargetKind.VERDICT, event.rule, event.step, event.stream)
