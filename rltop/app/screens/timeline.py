"""Every event of the run: lanes on the step axis, and the list of them with a filter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from rltop.app.bindings import TIMELINE_BINDINGS
from rltop.app.filtered import FilteredPage
from rltop.app.messages import Selected
from rltop.pages.events import LEVELS, EventFilter, Timeline, build_timeline, list_rows, paint_timeline
from rltop.rows.rows import Row, Target, TargetKind
from rltop.structs import replace


class TimelineScreen(FilteredPage):
    """What happened when."""

    BINDINGS: ClassVar[list[BindingType]] = [*TIMELINE_BINDINGS]
    PLACEHOLDER = "part of a rule, a family or a message"
    HELP = (
        "Every event of the run. Above, a lane per family over the steps: a bar from where a rule began to fire to "
        "where it recovered, solid where it was critical. Below, the events, newest first: {open} sets the time "
        "cursor to the step of one, {open} again opens its rule there; {live} returns to live. What stood on steps "
        "that a restart went back behind is dim. {find} filters by text, {family} by family, {level} by level."
    )

    def __init__(self) -> None:
        super().__init__()
        self._timeline: Timeline | None = None
        self._wanted = EventFilter()
        self._chosen: int | None = None
        self._at = 0
        self._top = 0

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The lanes, and the events around the chosen one."""
        moment = self.rltop.moment
        timeline = self._timeline
        if timeline is None or not timeline.is_for(moment.snapshot, self._wanted):
            if timeline is not None and timeline.stream is not moment.run.stream:
                self._chosen, self._at = None, 0
            timeline = self._timeline = build_timeline(moment.snapshot, self._wanted)
        self._settle(timeline)
        room = list_rows(timeline, height)
        self._top = max(0, min(max(self._at - room + 1, min(self._top, self._at)), len(timeline.numbers) - room))
        return paint_timeline(moment.snapshot, timeline, self._top, width, height, moment.glyphs, self.keys)

    def _settle(self, timeline: Timeline) -> None:
        """Find the chosen event again; where it is filtered out, the one in its place."""
        numbers = timeline.numbers
        if self._chosen is not None and self._chosen in numbers:
            self._at = numbers.index(self._chosen)
        self._at = max(0, min(self._at, len(numbers) - 1))
        # The newest one stays chosen while newer ones come, until another is picked.
        if self._chosen is not None:
            self._chosen = numbers[self._at] if numbers else None

    def move(self, by: int) -> None:
        """Choose the event that lies `by` lines away."""
        if self._timeline is None or not self._timeline.numbers:
            return
        self._at = max(0, min(self._at + by, len(self._timeline.numbers) - 1))
        self._chosen = self._timeline.numbers[self._at]
        self.draw()

    def draw(self) -> None:
        """Paint, and light up the chosen event."""
        super().draw()
        target = self._target()
        if target is not None:
            self.board.select(target)

    def _target(self) -> Target | None:
        numbers = self._timeline.numbers if self._timeline is not None else ()
        if not numbers:
            return None
        number = numbers[min(self._at, len(numbers) - 1)]
        return Target(TargetKind.EVENT, self.rltop.followed.events[number].rule, number)

    def open(self, target: Target) -> None:
        """Go to the step of an event; from there, to its rule."""
        if target.kind is not TargetKind.EVENT or target.step is None:
            super().open(target)
            return
        event = self.rltop.followed.events[target.step]
        step = event.step if self._timeline is None else self._timeline.step_of(target.step, event)
        moment = self.rltop.moment
        if step is None or step == (moment.at_step if moment.at_step is not None else moment.run.stream.last_step):
            super().open(Target(TargetKind.VERDICT, event.rule, event.step, event.stream))
        else:
            self.rltop.show_step(step)

    def show_only(self, text: str) -> None:
        """Show the events with this text."""
        self._show(replace(self._wanted, text=text))

    @property
    def has_something_to_close(self) -> bool:
        """Whether Escape clears the filters rather than leaving the page."""
        return super().has_something_to_close or not self._wanted.is_open

    def close_something(self) -> None:
        """Clear every filter."""
        super().close_something()
        self._show(EventFilter())

    def action_next_family(self) -> None:
        """Show the next family only; after the last one, all again."""
        families = ["", *(self._timeline.families if self._timeline is not None else ())]
        now = families.index(self._wanted.family) if self._wanted.family in families else 0
        self._show(replace(self._wanted, family=families[(now + 1) % len(families)]))

    def action_next_level(self) -> None:
        """Leave out the next lower level; after the highest one, none again."""
        now = LEVELS.index(self._wanted.level)
        self._show(replace(self._wanted, level=LEVELS[(now + 1) % len(LEVELS)]))

    def _show(self, wanted: EventFilter) -> None:
        self._wanted = wanted
        self.draw()

    @on(Selected)
    def _remember(self, message: Selected) -> None:
        """A click has chosen another event."""
        target = message.target
        if target is not None and target == self.board.target and target != self._target():
            self._chosen = target.step
