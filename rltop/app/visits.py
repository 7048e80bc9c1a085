"""Along what has happened, and along what was looked at: the next event, the page before.

Owns the list of visited pages; how a page is opened is in `routes`.
"""

from __future__ import annotations

from collections.abc import Iterable

from textual.app import SystemCommand
from textual.screen import Screen

from rltop import units
from rltop.app.aids import Aids
from rltop.app.bell import Bell, set_title
from rltop.app.page_screen import PageScreen
from rltop.model import Event, EventState, Level
from rltop.pages.page import Page
from rltop.run.past import outlived
from rltop.screen.driver import GuardedDriver
from rltop.structs import NamedTuple

MOST_VISITS = 100
"""Pages that are remembered; the oldest are forgotten."""


class Visit(NamedTuple):
    """A page that was shown, and the mode that it lay in."""

    mode: str
    page: Page


class Visits(Aids):
    """An application that goes to the next event, and back to what was shown before."""

    _bell: Bell
    _visits: tuple[Visit, ...] = ()
    _at = -1
    _visited_run = ""

    # -- events --------------------------------------------------------------------------------------------------

    _has_settled = False

    def look_beside(self) -> None:
        """Look for what lies beside the metrics, once the screen stands."""
        if self._has_settled and self.followed.loading is None:
            self.session.look_for_rollouts(self.followed)
            self.session.look_for_settings()
        if self._has_settled:
            self.session.look_for_endings()
            if self.followed.loading is None:
                self.session.look_where(self.followed)
        self._look_for_console()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """None of Textual's own: `commands` has what this program can do."""
        return ()

    def action_event(self, by: int) -> None:
        """Go to the step of the next event (1) or the previous one (-1) of WARN or worse."""
        run = self.followed
        newest = run.stream.last_step
        at = newest if self.at_step is None else self.at_step
        old = outlived(run.events)
        events = [one for number, one in enumerate(run.events) if number not in old and self._is_told(one)]
        if at is None or not events:
            self.tell("there is no event: no alert of WARN or worse has been raised")
            return
        steps = {one.step for one in events}
        to = (
            min((s for s in steps if s > at), default=None)
            if by > 0
            else max((s for s in steps if s < at), default=None)
        )
        if to is None:
            self.tell(f"there is no event {'after' if by > 0 else 'before'} step {units.step(at)}")
            return
        self.show_step(to)
        here = sorted((one for one in events if one.step == to), key=lambda one: -one.level)
        more = f" (+{len(here) - 1})" if len(here) > 1 else ""
        self.tell(f"step {units.step(to)}{more}: {here[0].rule} {_word(here[0])}: {here[0].message}")

    def _is_told(self, event: Event) -> bool:
        is_change = event.is_alarm or event.state is EventState.RECOVERED
        return is_change and not event.stream and event.level >= Level.WARN and not event.is_of(self.followed.muted)

    def _tell_beyond_the_screen(self) -> None:
        """Have the terminal ring, notify and change its title, where there is reason to."""
        said = self._bell.look(self.followed)
        if said and isinstance(self._driver, GuardedDriver):
            self._driver.title = set_title(self._bell.title) if self._bell.title else ""
            self._driver.write(said)

    # -- pages ---------------------------------------------------------------------------------------------------

    def visited(self, page: Page) -> None:
        """A page is shown, for the first time or again."""
        if self._visited_run != self.followed.path.raw:
            # Pages of another run would speak of keys that this one has not.
            self._visits, self._at, self._visited_run = (), -1, self.followed.path.raw
        if self._at < 0 or self._visits[self._at].page is not page:
            visits = (*self._visits[: self._at + 1], Visit(self.current_mode, page))
            self._visits = visits[-MOST_VISITS:]
            self._at = len(self._visits) - 1

    async def action_visit(self, by: int) -> None:
        """Show the page that was shown before (-1), or after (1), the present one."""
        to = self._at + by
        if not 0 <= to < len(self._visits):
            self.tell("no page was shown before this one" if by < 0 else "no page was shown after this one")
            return
        self._at = to
        mode, page = self._visits[to]
        await self.switch_mode(mode)
        known = [isinstance(screen, PageScreen) and screen.page is page for screen in self.screen_stack]
        # What lies over the page is closed; where the page itself was closed, it is opened again.
        keep = known.index(True) + 1 if any(known) else len(known)
        while len(self.screen_stack) > keep:
            await self.pop_screen()
        if not any(known):
            await self.push_screen(PageScreen(page, self))


def _word(event: Event) -> str:
    return "recovered" if event.state is EventState.RECOVERED else event.level.word
