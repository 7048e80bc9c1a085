"""The main loop: reads in slices between keys, draws new data when due, and rings the bell on a new CRIT."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING

from rltop.app.options import TERMINAL, UiOptions
from rltop.app.page_screen import PageScreen
from rltop.clock import Clock
from rltop.model import Label, Level, Verdict
from rltop.run.run import Run
from rltop.run.session import CROWD, Session
from rltop.screen.driver import GuardedDriver, LinkPing, Pace
from rltop.screen.guard import TerminalGuard

if TYPE_CHECKING:
    from rltop.app.app import RltopApp
    from rltop.app.options import UiOptions


SLICE_MS = 4.0
"""Longest time that reading and judging may delay keys."""

OPENING_MS = 100.0
"""Longest wait for the newest rows before the first frame."""

IDLE_S = 0.25
"""Interval at which the session is polled when nothing wakes the loop."""

SETTLED_S = 1.0
"""Delay after the start before rollouts and other files of the run on the screen are looked for."""

TICK_S = 1.0
"""Interval at which ages and the state word are updated without new data."""

ASK_GAP = 1000.0
"""Pause after reading a page's face, in times its CPU time: the ages of a thousand runs are expensive."""


class MainLoop:
    """Drives the session of an application, and decides when its page on top is drawn.

    Args:
        pace: decides when the next frame of new data may be drawn.

    Attributes:
        has_settled: startup is over, so there is time for what the first frame does not need.
    """

    def __init__(self, app: RltopApp, clock: Clock, ping: LinkPing, pace: Pace, guard: TerminalGuard | None) -> None:
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
        """Stop listening; from now on a signal ends the program at once."""
        self._app.session.notifier.listen(None)
        self._ping.listen(None)
        if self._guard is not None:
            self._guard.on_leave(None)
            self._guard.on_stop(None, None)

    def settle(self) -> None:
        """Startup is over: begin what the first frame does not need."""
        self.has_settled = True
        if self._guard is not None:
            # Objects created so far are permanent: collecting them again and again would delay rows and keys.
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
        """Wait for the first frame and the keys pressed meanwhile; the history is read after them."""
        shown, screen = asyncio.Event(), self._app.shown
        if screen is not None and screen.call_after_refresh(shown.set):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(shown.wait(), SETTLED_S)

    def _draw_when_due(self) -> float:
        """Draw if there is something new and the pace allows it.

        Without new data the page's face is compared once a second. A paused screen is not redrawn.

        Returns:
            Seconds until the next attempt.
        """
        app = self._app
        screen, run = app.shown, app.followed
        if self._bell.is_due:
            self._tell_beyond()
        if screen is None or (app.cursor.is_paused and not app.cursor.has_recalled()):
            return IDLE_S
        if run.main.is_opening:
            # The screen shows newer rows than have been read again so far.
            return IDLE_S
        wait_s = self._pace.wait_s(is_loading=run.loading is not None)
        if wait_s > 0.0:
            return min(IDLE_S, wait_s)
        is_old = app.session.version == self._drawn_version
        if is_old and (self._clock.monotonic() < self._asks_at_s or self._read_face(screen) == self._drawn_face):
            return IDLE_S
        # A redraw for the clock alone must not delay a row that arrives right after it.
        app.draw(is_paced=not is_old)
        screen.call_after_refresh(self._sent, is_paced=not is_old)
        return IDLE_S

    def _read_face(self, screen: PageScreen) -> Hashable:
        """The page's face; schedules the next reading by the CPU time that this one took."""
        began_s = self._clock.cpu_s()
        face = screen.face()
        self._asks_at_s = self._clock.monotonic() + max(TICK_S, ASK_GAP * (self._clock.cpu_s() - began_s))
        return face

    def paint(self, *, is_paced: bool) -> None:
        """Paint the page on top; after a frame with `is_paced`, the next one of new data is delayed by the pace."""
        if is_paced:
            self._pace.begin()
        screen, self._drawn_version = self._app.shown, self._app.session.version
        if screen is not None:
            self._drawn_face = self._read_face(screen)
            screen.draw()
            self._tell_beyond()
        if is_paced:
            self._pace.end()

    def _tell_beyond(self) -> None:
        said = self._bell.look(self._app.followed)
        if said:
            self._app.send(said, self._bell.title)

    def _sent(self, *, is_paced: bool) -> None:
        if is_paced:
            self._pace.end()
        if self._app.driver is not None:
            self._ping.ask(self._app.driver.write)


def call_soon(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    """Schedule a call on the event loop from a signal handler or a thread; a closed loop is ignored."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


LEAST_S = 60.0
"""Least time between notifications; alerts that begin meanwhile are in the window title."""
LOOK_S = 1.0
TITLE_CHARS = 120
TEXT_CHARS = 240
PLAIN_TERMINALS = frozenset({"", "dumb", "linux", "vt100", "vt220"})
"""Terminals without clipboard, notifications and window title."""


class Bell:
    """Watches the runs for a new CRIT.

    Args:
        session: its runs are watched; if more than `CROWD`, only the one on the screen.
    """

    def __init__(self, session: Session, options: UiOptions, clock: Clock, environ: Mapping[str, str]) -> None:
        self._session, self._clock, self._environ = session, clock, environ
        self.use(options)
        self._known: dict[str, set[tuple[Hashable, ...]]] = {}
        self._next_look = self._next_ring = float("-inf")
        self.title = ""

    def use(self, options: UiOptions) -> None:
        is_able = self._environ.get("TERM", "") not in PLAIN_TERMINALS
        self._rings, self._has_title = is_able and options.has_bell, is_able and options.has_title

    @property
    def is_due(self) -> bool:
        """Is a look overdue, because nothing is drawn or the screen is paused?"""
        return self._clock.monotonic() >= self._next_look

    def look(self, followed: Run) -> str:
        """The codes to send to the terminal now: the title if it has changed, bell and notification if due."""
        now = self._clock.monotonic()
        self._next_look = now + LOOK_S
        said = ""
        if self._has_title and (title := title_of(followed)) != self.title:
            self.title = title
            said = set_title(title)
        if self._rings:
            runs = self._session.runs if len(self._session.runs) <= CROWD else (followed,)
            new = [(run, verdict) for run in runs for verdict in self._new(run)]
            if new and now >= self._next_ring:
                self._next_ring = now + LEAST_S
                said += "\a" + notification(*new[0], len(new) - 1, self._environ)
        return said

    def _new(self, run: Run) -> list[Verdict]:
        """Verdicts that have become CRIT since the last look; those present when the run was opened are not new."""
        if run.loading is not None or not run.has_caught_up:
            return []
        active = [one for one in run.verdicts if one.is_active and one.level is Level.CRIT]
        found = {(one.rule, one.stream, one.since_step): one for one in active}
        known = self._known.setdefault(run.path.raw, set(found))
        new = [one for key, one in found.items() if key not in known]
        known.update(found)
        return new


def title_of(run: Run) -> str:
    worst = next((one for one in run.verdicts if one.is_active and one.level >= Level.WARN), None)
    alert = "" if worst is None else f" · {worst.level.word.upper()} {worst.title}"
    return _clean(f"{run.name.raw} · {run.state.value}{alert} · rltop", TITLE_CHARS)


def set_title(title: str) -> str:
    """The escape code that sets the window title; the guard restores the previous one."""
    return f"\x1b]2;{title}\x1b\\"


def notification(run: Run, verdict: Verdict, others: int, environ: Mapping[str, str]) -> str:
    """The escape code of one notification, in the terminal's dialect.

    kitty uses OSC 99, rxvt, foot and VTE use OSC 777; others get iTerm2's OSC 9, which is ignored if unknown. Inside
    tmux and screen the code is wrapped for pass-through, which they have to allow.
    """
    title = _clean(f"rltop: {run.name.raw}", TITLE_CHARS).replace(";", ",")
    more = f" (+{others})" if others else ""
    text = _clean(f"CRIT {verdict.title}{more}: {verdict.headline}", TEXT_CHARS)
    term = environ.get("TERM", "")
    if "kitty" in term or environ.get("KITTY_WINDOW_ID"):
        code = f"\x1b]99;i=rltop:d=0;{title}\x1b\\\x1b]99;i=rltop:p=body;{text}\x1b\\"
    elif term.startswith(("rxvt", "foot")) or environ.get("VTE_VERSION"):
        code = f"\x1b]777;notify;{title};{text}\x1b\\"
    else:
        code = f"\x1b]9;{title}: {text}\x1b\\"
    if environ.get("TMUX"):
        return "\x1bPtmux;" + code.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    if environ.get("STY"):
        # screen ends a string at the first terminator, so a bell ends the inner one.
        return "".join(f"\x1bP{part}\a\x1b\\" for part in code.split("\x1b\\") if part)
    return code


def _clean(text: str, most: int) -> str:
    shown = Label.of(text).display
    return shown if len(shown) <= most else shown[: most - 1] + "…"
