"""The history of pages, and the time cursor that all pages share."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from datetime import datetime
from typing import TYPE_CHECKING

from rltop import units
from rltop.app.page_screen import PageScreen
from rltop.clock import Clock
from rltop.model import Event, EventState, Level
from rltop.pages.header import clock_text
from rltop.pages.page import Page
from rltop.regex import regex
from rltop.run.past import overwritten_events
from rltop.run.preferences import Goal
from rltop.run.run import Run
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.app.app import RltopApp


MOST_VISITS = 100
"""Most pages kept in the history."""


class Navigation:
    """The history of the pages of the run on the screen, oldest first, and the position in it."""

    def __init__(self, app: RltopApp) -> None:
        self._app = app
        # Each page with its mode.
        self._visits: tuple[tuple[str, Page], ...] = ()
        self._at = -1
        self._run = ""

    @property
    def root(self) -> str:
        """The mode that Escape leads to in the end: the overview, or the list if there are several runs."""
        return "runs" if len(self._app.session.runs) > 1 else self._app.DEFAULT_MODE

    async def back(self) -> None:
        """Close the page on top; from a mode's own page go to the overview, from there to the list of runs."""
        app, root = self._app, self.root
        if app.shown is not None and app.shown.has_something_to_close:
            app.shown.close_innermost()
        elif len(app.screen_stack) > 1:
            app.pop_screen()
        elif app.current_mode != root:
            await app.switch_mode(root if app.current_mode == app.DEFAULT_MODE else app.DEFAULT_MODE)

    async def show(self, mode: str) -> None:
        """Switch to a mode and close the pages over its own one; if that is shown already, go back."""
        app = self._app
        if app.current_mode != mode:
            await app.switch_mode(mode)
        elif len(app.screen_stack) == 1:
            await self.back()
        while len(app.screen_stack) > 1 and app.current_mode == mode:
            await app.pop_screen()

    async def find(self, text: str = "") -> None:
        """Filter or search the page; if it allows neither, or a text is given, filter all metrics."""
        app = self._app
        if text or app.shown is None or not app.shown.can_search:
            await app.switch_mode("metrics")
            # A page opened from the list covers it.
            while len(app.screen_stack) > 1:
                await app.pop_screen()
        if app.shown is not None:
            await app.shown.find(text)

    def visited(self, page: Page) -> None:
        run = self._app.followed.path.raw
        if self._run != run:
            # Pages of another run may refer to keys that this one lacks.
            self._visits, self._at, self._run = (), -1, run
        if self._at < 0 or self._visits[self._at][1] is not page:
            self._visits = (*self._visits[: self._at + 1], (self._app.current_mode, page))[-MOST_VISITS:]
            self._at = len(self._visits) - 1

    async def visit(self, by: int) -> None:
        app, to = self._app, self._at + by
        if not 0 <= to < len(self._visits):
            app.show_message("no page was shown before this one" if by < 0 else "no page was shown after this one")
            return
        self._at = to
        mode, page = self._visits[to]
        await app.switch_mode(mode)
        known = [isinstance(screen, PageScreen) and screen.page is page for screen in app.screen_stack]
        # Pages that cover it are closed; if it was closed itself, it is opened again.
        keep = known.index(True) + 1 if any(known) else len(known)
        while len(app.screen_stack) > keep:
            await app.pop_screen()
        if not any(known):
            await app.push_screen(PageScreen(page, app))


PLACES = "step 1200, +50, live, 300-350; target 10000; until 24h or 18:30; q quits"

_STEPS = regex(r"(?P<first>[+-]?\d[\d,_ ]*)(?:(?:-|–|\.\.)(?P<last>\d[\d,_ ]*))?")

_MOST_DIGITS = 18


class Destination(NamedTuple):
    """A step or a window to go to.

    Attributes:
        step: the step to show, the last one of a window; None is live.
        first: first step of a window; None for a single step.
    """

    step: int | None
    first: int | None = None


def destination(text: str, at: int) -> Destination:
    """Parse a step or a window: `1200`, `300-350`, `+50`, `-50`, `live`.

    Args:
        at: the step shown, which signed numbers are relative to.

    Raises:
        ValueError: it is neither; the message says what is possible.
    """
    if text.strip().lower() in ("live", "end", "$"):
        return Destination(None)
    found = _STEPS.fullmatch(text.strip())
    first, last = (re.sub(r"[,_ ]", "", found[name] or "") for name in ("first", "last")) if found else ("", "")
    if not first or max(len(first), len(last)) > _MOST_DIGITS or (last and first[0] in "+-"):
        raise ValueError("no step: type 1200, 300-350, +50, live, target 500, until 24h or q")
    if last:
        low, high = sorted((int(first), int(last)))
        return Destination(high, low)
    return Destination(at + int(first) if first[0] in "+-" else int(first))


_SPAN = regex(
    r"(?:(?P<days>\d{1,5})\s*d)?\s*(?:(?P<hours>\d{1,6}(?:\.\d+)?)\s*h)?\s*(?:(?P<minutes>\d{1,8})\s*m(?:in)?)?"
)
_CLOCK = regex(r"(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)")
_DAY_S = 86_400.0


def goal_of(word: str, text: str, before: Goal, first_s: float | None, now_s: float) -> Goal:
    """Parse a target or a limit: `target 10000`, `until 24h`, `until 1d 12h`, `until 18:30`, `… off`.

    Args:
        first_s: time of the run's first row, from which durations count; in seconds since the epoch.

    Raises:
        ValueError: it is neither; the message says what is possible.
    """
    if text == "off":
        return before._replace(**{"target": None} if word == "target" else {"until_s": None})
    if word == "target":
        digits = re.sub(r"[,_ ]", "", text)
        if not digits.isdecimal() or not 0 < len(digits) <= _MOST_DIGITS or not int(digits):
            raise ValueError("no step: type target 10000, or target off")
        return before._replace(target=int(digits))
    at, span = _CLOCK.fullmatch(text), _SPAN.fullmatch(text)
    if at is not None:
        today = datetime.fromtimestamp(now_s).astimezone()
        until_s = today.replace(hour=int(at["hour"]), minute=int(at["minute"]), second=0, microsecond=0).timestamp()
        return before._replace(until_s=until_s if until_s > now_s else until_s + _DAY_S)
    if not text or span is None:
        raise ValueError("no limit: type until 24h, until 1d 12h, until 18:30, or until off")
    days, hours, minutes = (float(span[name] or 0.0) for name in ("days", "hours", "minutes"))
    start_s = now_s if first_s is None else first_s
    return before._replace(until_s=start_s + 24 * 3600 * days + 3600 * hours + 60 * minutes)


def travelled(run: Run, at_step: int | None, by: int) -> int | None:
    """The step `by` records away from `at_step`; None, which is live, if that is the newest or beyond.

    Counts the records in memory; before them, where only the file has every record, it goes by their distance.
    """
    newest = run.main.stream.last_step
    first = run.main.stream.first_step
    if newest is None or first is None:
        return None
    steps = run.main.stream.steps()
    here = newest if at_step is None else at_step
    distance = steps[1] - steps[0] if len(steps) > 1 else 1
    if not len(steps) or here < steps[0]:
        to = here + by * distance
        if len(steps) and by > 0:
            to = min(to, steps[0])
    else:
        index = bisect_left(steps, here) + by if by < 0 else bisect_right(steps, here) - 1 + by
        if index >= len(steps):
            return None
        to = steps[index] if index >= 0 else steps[0] + index * distance
    return None if to >= newest else max(first, to)


class TimeCursor:
    """The step that every page shows: the newest, a frozen one, or an earlier one.

    Attributes:
        step: the earlier step; None if the newest or the frozen one is shown.
        is_paused: the display is frozen; reading goes on.
    """

    def __init__(self, app: RltopApp, clock: Clock) -> None:
        self._app, self._clock = app, clock
        self.step: int | None = None
        self.is_paused = False
        self._frozen: int | None = None
        self._awaits_recall = False
        self._is_moving = False

    @property
    def at_step(self) -> int | None:
        """The step shown; None is live."""
        return self.step if self.step is not None else self._frozen

    @property
    def is_live(self) -> bool:
        return self.step is None and not self.is_paused

    def show(self, step: int | None) -> None:
        newest = self._app.followed.main.stream.last_step
        self._move(None if step is None or newest is None or step >= newest else step)

    def travel(self, by: int) -> None:
        """Move by records; past the newest one go live; at either end say so."""
        run = self._app.followed
        if by > 0 and self.is_live:
            self._app.show_message("the newest step is shown already")
        elif by < 0 and self.at_step is not None and self.at_step == run.main.stream.first_step:
            self._app.show_message("the first step is shown already")
        else:
            self._move(travelled(run, self.at_step, by))

    def go_live(self) -> None:
        self.is_paused = False
        self._frozen = None
        self._move(None)

    def toggle_pause(self) -> None:
        self.is_paused = not self.is_paused
        self._frozen = self._app.followed.main.stream.last_step if self.is_paused else None
        self._app.draw()

    def _move(self, step: int | None) -> None:
        """Set the step; it is drawn after pending keys, because a held key arrives faster than pages are painted."""
        self.step = step
        if not self._is_moving and not self._app.can_skip_drawing():
            self._is_moving = True
            self._app.call_later(self._arrive)

    def _arrive(self) -> None:
        self._is_moving = False
        if self.step is not None:
            self._app.followed.main.recall(self.step)
        self._awaits_recall = self._is_downsampled
        self._app.draw()

    @property
    def _is_downsampled(self) -> bool:
        return self.step is not None and self._app.followed.main.stream.downsampled_range(self.step) is not None

    def has_recalled(self) -> bool:
        if not self._awaits_recall or self.step is None:
            return False
        self._awaits_recall = self._is_downsampled
        return not self._awaits_recall

    def go_to_event(self, by: int) -> None:
        """Go to the step of the next event (1) or the previous one (-1) of WARN or worse."""
        run, tell = self._app.followed, self._app.show_message
        at, old = run.main.stream.last_step if self.at_step is None else self.at_step, overwritten_events(run.events)
        events = [one for number, one in enumerate(run.events) if number not in old and _is_notable(one, run)]
        if at is None or not events:
            tell("there is no event: no alert of WARN or worse has been raised")
            return
        steps = [one.step for one in events if (one.step - at) * by > 0]
        if not steps:
            tell(f"there is no event {'after' if by > 0 else 'before'} step {units.step(at)}")
            return
        to = min(steps) if by > 0 else max(steps)
        self.show(to)
        here = sorted((one for one in events if one.step == to), key=lambda one: -one.level)
        more = f" (+{len(here) - 1})" if len(here) > 1 else ""
        how = "recovered" if here[0].state is EventState.RECOVERED else here[0].level.word
        tell(f"step {units.step(to)}{more}: {here[0].rule} {how}: {here[0].message}")

    def go_to(self, text: str) -> None:
        """Carry out what was typed: a step, a window of the page's chart, a target, a limit, or `q`."""
        stream, tell = self._app.followed.main.stream, self._app.show_message
        first, newest = stream.first_step, stream.last_step
        word, _, rest = text.strip().partition(" ")
        if not word:
            return
        if word in ("q", "quit"):
            self._app.exit()
            return
        if word in ("target", "until"):
            self._set_goal(word, rest.strip())
            return
        if first is None or newest is None:
            tell("no step has been read yet")
            return
        try:
            place = destination(text, newest if self.at_step is None else self.at_step)
        except ValueError as error:
            tell(str(error))
            return
        whole = f"{units.step(first)}–{units.step(newest)}"
        if place.first is not None and place.step is not None:
            self._show_window(place.first, place.step, whole)
        elif place.step is not None and not first <= place.step <= newest:
            self.show(max(first, place.step))
            whole += f" of {self._app.followed.name.display}" if len(self._app.session.runs) > 1 else ""
            tell(f"step {units.step(place.step)} is not in {whole}: the nearest one is shown")
        else:
            self.show(place.step)

    def _set_goal(self, word: str, said: str) -> None:
        run, tell = self._app.followed, self._app.show_message
        try:
            goal = goal_of(word, said, run.goal, run.main.stream.first_time_s, self._clock.wall())
        except ValueError as error:
            tell(str(error))
            return
        try:
            self._app.session.set_goal(run, goal)
            how = "kept for this run"
        except OSError as error:
            how = f"for this session: {error.strerror or error}"
        self._app.draw()
        if said == "off":
            tell(f"no {'target' if word == 'target' else 'limit'} any more ({how})")
        elif word == "target":
            tell(f"target: step {units.step(goal.target or 0)} ({how})")
        else:
            tell(f"limit: {clock_text(goal.until_s or 0.0, self._clock.wall())} ({how})")

    def _show_window(self, first: int, last: int, whole: str) -> None:
        shown = self._app.shown
        effect = None if shown is None else shown.page.show_window(first, last, shown.moment)
        if effect is not None and shown is not None:
            shown.carry_out(effect)
        else:
            self.show(last)
            self._app.show_message(f"no chart here has these steps: step {units.step(last)} of {whole} is shown")


def _is_notable(event: Event, run: Run) -> bool:
    is_change = event.is_alarm or event.state in (EventState.RECOVERED, EventState.RESUMED)
    return is_change and not event.stream and event.level >= Level.WARN and not event.is_of(run.main.judging.muted)
