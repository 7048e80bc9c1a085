"""Going from page to page: back, along the pages that were shown, and to those of which there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rltop.app.page_screen import PageScreen
from rltop.pages.page import Page
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.app.app import RltopApp

MOST_VISITS = 100
"""Pages that are remembered; the oldest are forgotten."""


class Visit(NamedTuple):
    """A page that was shown, and the mode that it lay in."""

    mode: str
    page: Page


class Navigation:
    """Which pages of the run on the screen were shown, oldest first, and where among them one is."""

    def __init__(self, app: RltopApp) -> None:
        self._app = app
        self._visits: tuple[Visit, ...] = ()
        self._at = -1
        self._run = ""

    @property
    def root(self) -> str:
        """The mode in which Escape ends: the overview, of several runs their list."""
        return "runs" if len(self._app.session.runs) > 1 else self._app.DEFAULT_MODE

    async def back(self) -> None:
        """Leave the page on top; from the bottom of a mode go to the overview, from there to the list of runs."""
        app, root = self._app, self.root
        if app.shown is not None and app.shown.has_something_to_close:
            app.shown.close_something()
        elif len(app.screen_stack) > 1:
            app.pop_screen()
        elif app.current_mode != root:
            await app.switch_mode(root if app.current_mode == app.DEFAULT_MODE else app.DEFAULT_MODE)

    async def show(self, mode: str) -> None:
        """Show a page of which there is one; from a page that was opened there the page itself; once more, go back."""
        app = self._app
        if app.current_mode != mode:
            await app.switch_mode(mode)
        elif len(app.screen_stack) == 1:
            await self.back()
        while len(app.screen_stack) > 1 and app.current_mode == mode:
            await app.pop_screen()

    async def find(self) -> None:
        """Filter or search the page; where neither can be done, put the cursor into the filter of all metrics."""
        app = self._app
        if app.shown is None or not app.shown.can_find:
            await app.switch_mode("metrics")
            # A page that was opened from the list lies over it.
            while len(app.screen_stack) > 1:
                await app.pop_screen()
        if app.shown is not None:
            await app.shown.find()

    def visited(self, page: Page) -> None:
        """A page is shown, for the first time or again."""
        run = self._app.followed.path.raw
        if self._run != run:
            # Pages of another run would speak of keys that this one has not.
            self._visits, self._at, self._run = (), -1, run
        if self._at < 0 or self._visits[self._at].page is not page:
            self._visits = (*self._visits[: self._at + 1], Visit(self._app.current_mode, page))[-MOST_VISITS:]
            self._at = len(self._visits) - 1

    async def visit(self, by: int) -> None:
        """Show the page that was shown before (-1), or after (1), the present one."""
        app, to = self._app, self._at + by
        if not 0 <= to < len(self._visits):
            app.tell("no page was shown before this one" if by < 0 else "no page was shown after this one")
            return
        self._at = to
        mode, page = self._visits[to]
        await app.switch_mode(mode)
        known = [isinstance(screen, PageScreen) and screen.page is page for screen in app.screen_stack]
        # What lies over the page is closed; where the page itself was closed, it is opened again.
        keep = known.index(True) + 1 if any(known) else len(known)
        while len(app.screen_stack) > keep:
            await app.pop_screen()
        if not any(known):
            await app.push_screen(PageScreen(page, app))
