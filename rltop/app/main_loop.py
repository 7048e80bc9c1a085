"""The main loop: reads in slices between the keys, and draws what is new when it is due."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING

from rltop.app.bell import Bell
from rltop.app.page_screen import PageScreen
from rltop.app.themes import TERMINAL
from rltop.clock import Clock
from rltop.screen.driver import GuardedDriver, ScreenGuard
from rltop.screen.pace import LinkPing, Pace

if TYPE_CHECKING:
    from rltop.app.app import RltopApp
    from rltop.app.options import UiOptions

SLICE_MS = 4.0
"""Longest time that reading and judging keep the keys waiting."""

OPENING_MS = 100.0
"""How long the newest rows may take before the first picture; it is no use to wait for longer."""

IDLE_S = 0.25
"""How often the session is asked when nothing wakes it."""

SETTLED_S = 1.0
"""How long after the start the rollouts of the run on the screen are looked for."""

TICK_S = 1.0
"""How often ages and the state word are brought up to date without new data."""

ASK_GAP = 1000.0
"""What asking takes is left to others so many times over: the ages of a thousand runs take a while to work out."""


class MainLoop:
    """Drives the session of an application, and decides when its page on top is drawn.

    Args:
        pace: when the next one of new data may be drawn.

    Attributes:
        has_settled: the screen stands: there is time for what no first frame needs.
    """

    def __init__(self, app: RltopApp, clock: Clock, ping: LinkPing, pace: Pace, guard: ScreenGuard | None) -> None:
        self._app, self._clock, self._ping, self._pace, self._guard = app, clock, ping, pace, guard
        self._bell = Bell(app.session, app.options, clock, os.environ)
        self._drawn_version: Hashable = None
        self._drawn_face: Hashable = None
        self._asks_at_s = 0.0
        self._wake = asyncio.Event()
        self.has_settled = False

    def use(self, options: UiOptions) -> None:
        self._bell.use(options)
        self._pace.limit(options.refresh_hz)

    def start(self) -> None:
        """Read the newest rows, then go on beside the keys."""
        app, loop = self._app, asyncio.get_running_loop()
        app.session.recall()
        app.session.read_newest(OPENING_MS)
        if self._guard is not None:
            self._guard.on_leave(lambda: call_soon(loop, app.exit))
        app.session.notifier.listen(lambda: call_soon(loop, self._wake.set))
        self._ping.listen(lambda: call_soon(loop, self._wake.set))
        app.run_worker(self._run(), name="ingest", exit_on_error=True)
        app.set_timer(SETTLED_S, self.settle)

    def stop(self) -> None:
        """From here on a signal ends the program at once, and nothing wakes it."""
        self._app.session.notifier.listen(None)
        self._ping.listen(None)
        if self._guard is not None:
            self._guard.on_leave(None)
            self._guard.on_stop(None, None)

    def settle(self) -> None:
        """The screen stands: now there is time for what no first frame needs."""
        self.has_settled = True
        if self._guard is not None:
            # What stands now stays: to look through it for garbage again and again would hold up rows and keys.
            gc.freeze()
        self._app.settled()

    async def _run(self) -> None:
        app = self._app
        self._draw_when_due()
        app.take_keys()
        await self._has_shown()
        if app.themes.palette.name == TERMINAL and isinstance(app.driver, GuardedDriver):
            app.driver.ask_background()
        while True:
            while app.session.step(SLICE_MS):
                await app.list_runs()
                self._draw_when_due()
                await asyncio.sleep(0)
                await app.keys_shown()
            await app.list_runs()
            app.rules.take_settings()
            wait_s = self._draw_when_due()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            self._wake.clear()

    async def _has_shown(self) -> None:
        """Wait for the first picture, and for what the keys meanwhile have done: the history comes after them."""
        shown, screen = asyncio.Event(), self._app.shown
        if screen is not None and screen.call_after_refresh(shown.set):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(shown.wait(), SETTLED_S)

    def _draw_when_due(self) -> float:
        """Draw if there is something new and the pace allows it.

        Time alone changes little: without new data the page is asked once a second
        whether it would say anything else. A paused picture stays as it is.

        Returns:
            Seconds to wait for the next chance.
        """
        app = self._app
        screen, run = app.shown, app.followed
        said = self._bell.look(run)
        if said:
            app.send(said, self._bell.title)
        if screen is None or (app.cursor.is_paused and not app.cursor.has_recalled()):
            return IDLE_S
        if run.main.is_opening:
            # What is on the screen is newer than what has been read again so far.
            return IDLE_S
        is_old = app.session.version == self._drawn_version
        if is_old and (self._clock.monotonic() < self._asks_at_s or self._read_face(screen) == self._drawn_face):
            return IDLE_S
        wait_s = self._pace.wait_s(is_loading=run.loading is not None)
        if wait_s > 0.0:
            return min(IDLE_S, wait_s)
        # A second that has gone by must not keep the row waiting that comes right behind it.
        app.draw(is_paced=not is_old)
        screen.call_after_refresh(self._sent, is_paced=not is_old)
        return IDLE_S

    def _read_face(self, screen: PageScreen) -> Hashable:
        """What the page shows that changes with time, and when to ask for it again by what asking took."""
        began_s = self._clock.worked()
        face = screen.face()
        self._asks_at_s = self._clock.monotonic() + max(TICK_S, ASK_GAP * (self._clock.worked() - began_s))
        return face

    def paint(self, *, is_paced: bool) -> None:
        """Paint the page on top; after a picture that `is_paced`, the next one of new data keeps its distance."""
        if is_paced:
            self._pace.begin()
        screen, self._drawn_version = self._app.shown, self._app.session.version
        if screen is not None:
            self._drawn_face = self._read_face(screen)
            screen.draw()
        if is_paced:
            self._pace.end()

    def _sent(self, *, is_paced: bool) -> None:
        if is_paced:
            self._pace.end()
        if self._app.driver is not None:
            self._ping.ask(self._app.driver.write)


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Have the event loop make a call, from a signal handler or a thread; a closed loop needs none."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
