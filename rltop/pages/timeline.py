"""The event log of a run: one lane per family of rules on the step axis, and a list with filters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

from rltop import units
from rltop.model import Event, EventState, Label, Level
from rltop.pages.alerts import WITH_FAMILY, as_known, event_columns, event_row, event_sign
from rltop.pages.page import Effect, ListPage, Moment, Open, Redraw, ShowStep
from rltop.rows.glyphs import LEVEL_ROLES, Glyphs
from rltop.rows.keys import NO_KEYS, KeyNames, Scope
from rltop.rows.rows import Row, RowBuilder, Target, TargetKind, fill, rule_row, text_row
from rltop.rows.table import Sorting, Table, paint_table, sort_items
from rltop.run.past import Calendar, overwritten_events
from rltop.run.snapshot import Snapshot
from rltop.store.stream import Stream
from rltop.structs import NamedTuple

LEVELS = (Level.NO_DATA, Level.INFO, Level.WARN, Level.CRIT)
"""The levels that the filter cycles through; the first passes everything."""

_LANE_CELLS = 18
_COUNT_CELLS = 5
_MOST_COUNTED = 9
"""Most events of a cell shown as a number; more are shown as a plus."""
_MOST_LANES = 14
_FIXED_ROWS = 5


class EventFilter(NamedTuple):
    """Which events are shown.

    Attributes:
        family: only this one; empty is all.
        level: at least this; NO_DATA passes everything.
        text: part of the rule, family or message, ignoring case.
    """

    family: str = ""
    level: Level = Level.NO_DATA
    text: str = ""

    @property
    def is_open(self) -> bool:
        return not self.family and self.level is Level.NO_DATA and not self.text.strip()

    def passes(self, event: Event) -> bool:
        if (self.family and event.family != self.family) or event.level < self.level:
            return False
        text = self.text.strip().casefold()
        return not text or text in f"{event.rule} {event.family} {event.message}".casefold()


class Firing(NamedTuple):
    """A range of steps over which an alert was active; `last` is where it recovered, None until then."""

    rule: str
    level: Level
    first: int
    last: int | None
    is_old: bool = False


@dataclass(slots=True)
class Lane:
    """The events of one family: ranges of alerts, and steps of facts."""

    family: str
    firings: list[Firing] = field(default_factory=list)
    facts: list[int] = field(default_factory=list)
    count: int = 0

    @property
    def level(self) -> Level:
        return max((firing.level for firing in self.firings), default=Level.INFO)


class Timeline(NamedTuple):
    """The events that pass a filter; built once per log and filter.

    Attributes:
        sorting: the order of the list; None: newest first.
        seen: number of events in the log when this was built.
        at: step of the time cursor when this was built.
        numbers: indices of the events that pass, in that order.
        lanes: one per family, the earliest on top.
        families: every family of the log, in the same order.
        first, last: the steps that the axis spans.
        old: indices of events undone by a later restart from an earlier step.
        steps: for events of other streams, by index: the run's step at that time, None if unknown.
    """

    wanted: EventFilter
    sorting: Sorting | None
    seen: int
    at: int | None
    numbers: tuple[int, ...]
    lanes: tuple[Lane, ...]
    families: tuple[str, ...]
    first: int
    last: int
    newest: int
    old: frozenset[int]
    steps: Mapping[int, int | None]
    stream: Stream

    def step_of(self, number: int, event: Event) -> int | None:
        """The run's step of an event; None if unknown, or if a restart has replaced its row."""
        if number in self.old:
            return None
        return self.steps[number] if event.stream else event.step

    def is_for(self, snapshot: Snapshot, wanted: EventFilter, sorting: Sorting | None = None) -> bool:
        now = (len(snapshot.source.events), wanted, sorting, snapshot.at_step, snapshot.stream.last_step or 0)
        return self.stream is snapshot.stream and (self.seen, self.wanted, self.sorting, self.at, self.newest) == now


def build_timeline(snapshot: Snapshot, wanted: EventFilter, sorting: Sorting | None = None) -> Timeline:
    """Sort the event log of a run into lanes; the time cursor is marked but hides nothing."""
    events = snapshot.source.events
    families = tuple(dict.fromkeys(event.family for event in events))
    lanes: dict[str, Lane] = {}
    numbers = []
    steps: dict[int, int | None] = {}
    calendar = Calendar(snapshot.stream, lambda role: snapshot.within(role).stream)
    old = overwritten_events(events)
    standing: dict[tuple[str, str], Firing] = {}
    for number, event in enumerate(events):
        passes = wanted.passes(event)
        if passes:
            numbers.append(number)
        ends_what_is_shown = event.state is EventState.RECOVERED and (event.rule, event.stream) in standing
        if not passes and not ends_what_is_shown:
            continue
        lane = lanes.setdefault(event.family, Lane(event.family))
        lane.count += passes
        if event.stream:
            steps[number] = calendar.step_of(event)
        step = steps.get(number, event.step)
        if step is not None:
            _place(lane, event, step, standing, is_old=number in old)
    for (rule, _), firing in standing.items():
        family = next(event.family for event in reversed(events) if event.rule == rule)
        lanes[family].firings.append(firing)
    begin, end = snapshot.stream.first_step or 0, snapshot.stream.last_step or 0
    # Before a restart the run may have got further.
    reach = max((events[number].step for number in old if not events[number].stream), default=end)
    listed = [event_row(events[number], number) for number in reversed(numbers)]
    return Timeline(
        wanted, sorting, len(events), snapshot.at_step,
        tuple(one.number for one in sort_items(listed, event_columns(has_family=True), sorting)),
        tuple(lanes.values()), families, begin, max(end, reach), end, old, steps, snapshot.stream,
    )  # fmt: skip


def _place(
    lane: Lane, event: Event, step: int, standing: dict[tuple[str, str], Firing], *, is_old: bool = False
) -> None:
    whose = (event.rule, event.stream)
    if event.state is EventState.FACT:
        lane.facts.append(step)
    elif event.state is EventState.RECOVERED:
        begun = standing.pop(whose, None)
        if begun is not None:
            # A restart may end it on an earlier step: its bar is then its first step.
            lane.firings.append(begun._replace(last=max(step, begun.first)))
    else:
        begun = standing.get(whose, Firing(event.rule, event.level, step, None, is_old))
        standing[whose] = begun._replace(level=max(begun.level, event.level))


def lane_rows(timeline: Timeline, height: int) -> int:
    return min(len(timeline.lanes), _MOST_LANES, max(2, height // 3))


def list_rows(timeline: Timeline, height: int) -> int:
    return max(1, height - _FIXED_ROWS - lane_rows(timeline, height))


def paint_timeline(
    snapshot: Snapshot, timeline: Timeline, top: int, width: int, height: int, glyphs: Glyphs,
    keys: KeyNames = NO_KEYS,
) -> list[Row]:  # fmt: skip
    rows = [_paint_title(snapshot, timeline, width, glyphs, keys)]
    if not snapshot.source.events:
        none = "no events yet: no alert, no evaluation, no checkpoint, no restart"
        text = none if snapshot.source.loading is None else "still checking history"
        return fill([*rows, Row(()), text_row(text, width, glyphs, "dim")], height)
    axis = _Axis(timeline, width - _LANE_CELLS - 1, snapshot.step if snapshot.at_step is not None else None)
    rows.append(axis.head(width, glyphs))
    shown = lane_rows(timeline, height)
    loudest = sorted(timeline.lanes, key=lambda lane: -lane.level)[:shown]
    rows += [axis.lane(lane, width, glyphs) for lane in timeline.lanes if any(lane is one for one in loudest)]
    hidden = len(timeline.lanes) - shown
    rows.append(rule_row(width, glyphs))
    if not timeline.numbers:
        rows.append(text_row(keys.no_match_text("no event"), width, glyphs, "dim"))
        return fill(rows, height)
    room = list_rows(timeline, height)
    rows += _paint_list(snapshot, timeline, timeline.numbers[top : top + room], width, glyphs)
    rows = fill(rows, height - 1)
    less = units.counted(hidden, "less severe family", "less severe families")
    left = [f"{less} not shown"] if hidden else []
    below = len(timeline.numbers) - top - room
    which = "earlier" if timeline.sorting is None else "more"
    left += [f"{units.counted(below, f'{which} event')} below"] if below > 0 else []
    return [*rows, text_row(" · ".join(left), width, glyphs, "dim")]


def _paint_title(snapshot: Snapshot, timeline: Timeline, width: int, glyphs: Glyphs, keys: KeyNames) -> Row:
    wanted = timeline.wanted
    total = units.count(len(snapshot.source.events))
    count = total if wanted.is_open else f"{units.count(len(timeline.numbers))} of {total}"
    builder = RowBuilder(width, glyphs).add(" EVENTS", "title").add(f"  {count}", "value")
    parts = []
    if wanted.level is not Level.NO_DATA:
        parts.append(f"{wanted.level.word} or worse" if wanted.level is not Level.CRIT else "crit only")
    if wanted.family:
        parts.append(f"family {wanted.family}")
    if wanted.text.strip():
        parts.append(f"matching {Label.of(wanted.text.strip()).display!r}")
    shown = ", ".join(parts) if parts else "all families, all levels"
    builder.add("   ").add(shown, "note" if parts else "dim")
    return builder.whole([(keys.clause("back", "   {} clears the filter") if parts else "", "dim")]).row()


class _Axis:
    """The mapping of steps to columns that all lanes share."""

    def __init__(self, timeline: Timeline, cells: int, cursor: int | None) -> None:
        self.first, self.last, self.cells = timeline.first, timeline.last, max(8, cells)
        self.newest = timeline.newest
        self.cursor = None if cursor is None else self.column(cursor)

    def column(self, step: int) -> int:
        span = max(1, self.last - self.first)
        return max(0, min(self.cells - 1, (step - self.first) * (self.cells - 1) // span))

    def head(self, width: int, glyphs: Glyphs) -> Row:
        builder = RowBuilder(width, glyphs).add(" ").left("family", _LANE_CELLS - len("events") - 3, "dim")
        builder.add("events  ", "dim")
        first, last = units.step(self.first), units.step(self.last)
        builder.add(first, "dim").add(" ")
        rest = _LANE_CELLS + self.cells - builder.column - len(last) - 1
        return builder.add(glyphs.rule * max(0, rest), "rule").add(" ").add(last, "dim").row()

    def lane(self, lane: Lane, width: int, glyphs: Glyphs) -> Row:
        """The lane of a family: lines for active alerts, heavy if critical; signs at onsets, a number for several."""
        cells: list[tuple[str, str]] = [(" ", "text")] * self.cells
        # Worst alerts are painted last, then ends, then onsets, so that nothing hides an onset.
        # Alerts undone by a restart are painted first, and dim.
        firings = sorted(lane.firings, key=lambda one: (not one.is_old, one.level))
        for firing in firings:
            role, last = _role_of(firing), self.newest if firing.last is None else firing.last
            sign = glyphs.heavy if firing.level is Level.CRIT else glyphs.rule
            for column in range(self.column(firing.first), self.column(last) + 1):
                cells[column] = (sign, role)
        begun = Counter(self.column(step) for step in lane.facts)
        for column, number in begun.items():
            cells[column] = (_sign(number, Level.INFO, glyphs), "info")
        for firing in firings:
            if firing.last is not None and self.column(firing.last) != self.column(firing.first):
                cells[self.column(firing.last)] = (glyphs.recovered, "dim")
        begun.update(self.column(firing.first) for firing in firings)
        for firing in firings:
            column = self.column(firing.first)
            cells[column] = (_sign(begun[column], firing.level, glyphs), _role_of(firing))
        if self.cursor is not None:
            text, _ = cells[self.cursor]
            cells[self.cursor] = (glyphs.upright if text == " " else text, "cursor")
        name = Label.of(lane.family).display
        builder = RowBuilder(width, glyphs).add(" ").left(name, _LANE_CELLS - _COUNT_CELLS - 2, "text")
        builder.right(units.count(lane.count), _COUNT_CELLS - 1, "dim").add("  ")
        for role, alike in groupby(cells, key=itemgetter(1)):
            builder.add("".join(text for text, _ in alike), role)
        return builder.row()


def _sign(number: int, level: Level, glyphs: Glyphs) -> str:
    return glyphs.levels[level] if number == 1 else str(number) if number <= _MOST_COUNTED else "+"


def _role_of(firing: Firing) -> str:
    return "dim" if firing.is_old else LEVEL_ROLES[firing.level]


def _paint_list(
    snapshot: Snapshot, timeline: Timeline, numbers: Sequence[int], width: int, glyphs: Glyphs
) -> list[Row]:
    at, muted = snapshot.at_step, snapshot.part.judging.muted
    listed = [
        event_row(event, number, is_old=number in timeline.old, at=at, muted=muted)
        for event, number in zip(
            as_known(snapshot, [snapshot.source.events[one] for one in numbers]), numbers, strict=True
        )
    ]

    table = Table(
        event_columns(has_family=width >= WITH_FAMILY),
        listed,
        target=lambda one: Target(TargetKind.EVENT, one.event.raised_by, one.number),
        sorting=timeline.sorting,
        is_sortable=True,
        sign=lambda one: event_sign(one, glyphs),
    )
    return paint_table(table, width, glyphs)


class EventsPage(ListPage[int]):
    details = frozenset({TargetKind.EVENT, TargetKind.VERDICT})
    where = (Scope.TIMELINE, Scope.TABLE)
    filter_hint = "filter by rule, family or message"

    def __init__(self) -> None:
        super().__init__()
        self._timeline: Timeline | None = None
        self._events: Sequence[Event] = ()
        self._wanted = EventFilter()

    def rows(self, moment: Moment, width: int, height: int) -> Sequence[Row]:
        timeline = self._timeline
        if timeline is None or not timeline.is_for(moment.snapshot, self._wanted, self.sorting):
            if timeline is not None and timeline.stream is not moment.snapshot.stream:
                self.held, self.at = None, 0
            timeline = self._timeline = build_timeline(moment.snapshot, self._wanted, self.sorting)
        self._events = moment.snapshot.source.events
        self.settle(timeline.numbers, list_rows(timeline, height))
        return paint_timeline(moment.snapshot, timeline, self.top, width, height, moment.glyphs, moment.keys)

    def target(self, line: int) -> Target:
        return Target(TargetKind.EVENT, self._events[line].raised_by, line)

    def open(self, target: Target, moment: Moment) -> Effect | None:
        if target.kind is not TargetKind.EVENT or target.step is None:
            return super().open(target, moment)
        event = moment.snapshot.source.events[target.step]
        step = event.step if self._timeline is None else self._timeline.step_of(target.step, event)
        if step is None or step == moment.snapshot.step:
            return Open(Target(TargetKind.VERDICT, event.rule, event.step, event.stream))
        return ShowStep(step)

    def on(self, key: str, moment: Moment) -> Effect | None:
        """Cycle the filter to the next family or level; after the last one to all."""
        if key == "family":
            families = ["", *(self._timeline.families if self._timeline is not None else ())]
            now = families.index(self._wanted.family) if self._wanted.family in families else 0
            return self._show(self._wanted._replace(family=families[(now + 1) % len(families)]))
        if key == "level":
            now = LEVELS.index(self._wanted.level)
            return self._show(self._wanted._replace(level=LEVELS[(now + 1) % len(LEVELS)]))
        return None

    def show_only(self, text: str) -> Effect | None:
        return self._show(self._wanted._replace(text=text))

    @property
    def has_something_to_close(self) -> bool:
        return not self._wanted.is_open

    def close_innermost(self) -> Effect | None:
        return self._show(EventFilter())

    def _show(self, wanted: EventFilter) -> Effect:
        self._wanted = wanted
        return Redraw()
