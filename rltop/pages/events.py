"""One event in one row, as every page and report writes it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rltop import units
from rltop.model import Event, EventState, Label
from rltop.pages.header import OVER
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.rows import Piece, Row, Target, TargetKind
from rltop.rows.table import Cell, Column, Fit, Table, paint_table
from rltop.run.snapshot import Snapshot
from rltop.structs import NamedTuple

_EVENT_WORDS = {
    EventState.FIRING: "raised",
    EventState.ESCALATED: "escalated",
    EventState.EASED: "eased",
    EventState.RESUMED: "resumed",
    EventState.SETTLED: "settled",
    EventState.RECOVERED: "recovered",
    EventState.FACT: "info",
}

PROVISIONAL = "not yet confirmed: "
"""Before an event of the newest row, which may still change."""
_LEAST_STEP = len("999,999")
_LEAST_WORDS = 30
WITH_FAMILY = 100


class EventRow(NamedTuple):
    """An event in a list, and what the list adds to it.

    Attributes:
        is_over: it no longer matters: over, a fact, or on a step that a restart went back behind.
    """

    event: Event
    is_over: bool
    role: str
    number: int = -1
    is_old: bool = False
    is_here: bool = False
    is_muted: bool = False


def event_row(
    event: Event, number: int = -1, *, is_old: bool = False, at: int | None = None, muted: Collection[str] = ()
) -> EventRow:
    is_muted = event.is_of(muted)
    is_over = is_old or is_muted or event.state in (EventState.RECOVERED, EventState.FACT)
    is_here = event.step == at and not event.stream and not is_old
    return EventRow(event, is_over, "dim" if is_over else LEVEL_ROLES[event.level], number, is_old, is_here, is_muted)


def event_columns(lines: int = 1, *, has_family: bool = False) -> Sequence[Column[EventRow]]:
    family: Column[EventRow] = Column(
        "family", lambda one: (Label.of(one.event.family).display, "dim"), Fit.NAME, least=11, most=14, priority=2,
        is_steady=True, sort=lambda one: one.event.family,
    )  # fmt: skip
    return (
        Column(
            "step", lambda one: (units.step(one.event.step), "cursor" if one.is_here else "value"), least=_LEAST_STEP,
            sort=lambda one: one.event.step,
        ),
        Column("rule", lambda one: (one.event.rule, "dim"), Fit.NAME, least=3, sort=lambda one: one.event.rule),
        *((family,) if has_family else ()),
        Column(
            "event", lambda one: (_EVENT_WORDS[one.event.state], one.role), least=9, priority=1, is_right=False,
            sort=lambda one: one.event.level,
        ),
        Column(
            "what happened", _words, Fit.TEXT, least=_LEAST_WORDS, lines=lines, gap=1,
            sort=lambda one: one.event.message,
        ),
    )  # fmt: skip


def _words(one: EventRow) -> Cell:
    event = one.event
    message = Label.of(event.message).display, "dim" if one.is_over else "text"
    if not (event.is_provisional or event.stream or one.is_old or one.is_muted):
        return message
    muted = (Piece("muted: ", "dim"),) if one.is_muted else ()
    provisional = (Piece(PROVISIONAL, "dim"),) if event.is_provisional else ()
    whose = (Piece(f"{Label.of(event.stream)}: ", "note"),) if event.stream else ()
    old = (Piece("before the restart: ", "dim"),) if one.is_old else ()
    return (*muted, *provisional, *whose, *old, Piece(*message))


def as_known(snapshot: Snapshot, events: Sequence[Event]) -> Sequence[Event]:
    """Events of a run as they are told: once it is over, its newest row does not change any more."""
    if not any(event.is_provisional for event in events) or snapshot.source.state not in OVER:
        return events
    return [event._replace(is_provisional=False) for event in events]


def _sign(one: EventRow, glyphs: Glyphs) -> str:
    if one.event.state is EventState.RECOVERED:
        return glyphs.recovered
    return "" if one.is_over else glyphs.level(one.event.level)


def event_table(
    events: Sequence[Event], glyphs: Glyphs, *, lines: int = 1, muted: Collection[str] = ()
) -> Table[EventRow]:
    return Table(
        event_columns(lines),
        [event_row(event, muted=muted) for event in events],
        target=lambda one: Target(TargetKind.VERDICT, one.event.rule, one.event.step, one.event.stream),
        sign=lambda one: (_sign(one, glyphs), one.role),
    )


def paint_events(
    events: Sequence[Event], width: int, glyphs: Glyphs, *, lines: int = 1, muted: Collection[str] = ()
) -> list[Row]:
    return paint_table(event_table(events, glyphs, lines=lines, muted=muted), width, glyphs, has_head=False)
