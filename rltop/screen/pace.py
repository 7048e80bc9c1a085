"""How often the screen follows new data: limited by the setting, the processor and the link.

The first change is drawn at once. After it, never more often than was asked for, never so often that drawing takes more
than a share of the time, and never before the terminal has shown the last picture, where the terminal tells.

Knows neither Textual nor what is drawn; keys do not pass here.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping

from rltop.clock import Clock

MOST_HZ = 4.0
MULTIPLEXER_HZ = 2.0
"""Inside tmux and its like nobody tells how fast the link to the person is."""

IDLE_GAP = 15.0
"""After a picture, this many times its processor time is left to others: the login node has two hundred users."""

LEAST_GAP, PATIENT_S = 8.0, 0.5
"""So many times are enough where a row would wait for longer than so many seconds, as on a busy machine."""

_COSTS = 3
"""Pictures that are remembered by what they took; the cheapest of them counts."""

LOADING_S = 0.5
"""While history is read, reading it is worth more than showing how far it has come."""

QUERY = "\x1b[?2026$p"
"""Asks the terminal whether it knows synchronised output. It answers when it has drawn all that came before."""

PATIENCE_S = 3.0
"""An answer that takes longer is not waited for."""

MISSES = 2
"""So many missing answers in a row, and the terminal is not asked again."""

LAST_ANSWER_S = 0.25
"""How long leaving waits for an answer under way, which would otherwise be typed into the shell."""

_MULTIPLEXERS = ("TMUX", "STY", "ZELLIJ")


def is_multiplexed(environment: Mapping[str, str]) -> bool:
    """Whether tmux, screen or zellij lies between the program and the terminal."""
    return any(environment.get(name) for name in _MULTIPLEXERS)


class LinkPing:
    """Finds out when a picture has arrived: a question after it, answered in order.

    `answered` may be called from any thread; everything else is the event loop's.
    """

    def __init__(self, clock: Clock, *, is_on: bool = True) -> None:
        """Asks nothing before the terminal has answered once by itself."""
        self._clock = clock
        self._is_on = is_on
        self._is_able = False
        self._asked_s: float | None = None
        self._misses = 0
        self._wake: Callable[[], None] | None = None
        self._is_settled = threading.Event()
        self._is_settled.set()

    def listen(self, wake: Callable[[], None] | None) -> None:
        """Call `wake` when an answer has come, from whatever thread sees it."""
        self._wake = wake

    def answered(self) -> None:
        self._is_able = self._is_on and self._misses < MISSES
        was_waited_for, self._asked_s = self._asked_s is not None, None
        self._misses = 0
        self._is_settled.set()
        if was_waited_for and self._wake is not None:
            self._wake()

    def ask(self, send: Callable[[str], object]) -> None:
        if self._is_able and self._asked_s is None:
            self._asked_s = self._clock.monotonic()
            self._is_settled.clear()
            send(QUERY)

    @property
    def is_clear(self) -> bool:
        """Nothing that was sent is known to be still on its way."""
        asked_s = self._asked_s
        if asked_s is None:
            return True
        if self._clock.monotonic() - asked_s < PATIENCE_S:
            return False
        self._asked_s = None
        self._misses += 1
        self._is_able = self._misses < MISSES
        return True

    def settle(self) -> None:
        self._is_settled.wait(LAST_ANSWER_S)


class Pace:
    """When the next picture of new data may be drawn."""

    def __init__(self, clock: Clock, hz: float, ping: LinkPing, *, is_multiplexed: bool = False) -> None:
        self._clock = clock
        self._ping = ping
        self._most_hz = MULTIPLEXER_HZ if is_multiplexed else MOST_HZ
        self.limit(hz)
        self._drawn_s = float("-inf")
        self._began_s = 0.0
        self._costs_s: deque[float] = deque(maxlen=_COSTS)

    def limit(self, hz: float) -> None:
        """At most `hz` pictures a second, from 1 to `MOST_HZ`; inside a multiplexer at most `MULTIPLEXER_HZ`."""
        self._least_s = 1.0 / min(self._most_hz, max(1.0, hz))

    def wait_s(self, *, is_loading: bool = False) -> float:
        """How long new data must wait; 0 where they may be drawn now, infinite where an answer will say."""
        # One picture may have taken longer for a reason of its own, such as a collection of garbage.
        cost_s = min(self._costs_s, default=0.0)
        idle_s = min(IDLE_GAP * cost_s, max(PATIENT_S, LEAST_GAP * cost_s))
        gap_s = max(self._least_s, idle_s, LOADING_S if is_loading else 0.0)
        left_s = gap_s - (self._clock.monotonic() - self._drawn_s)
        if left_s > 0.0:
            return left_s
        return 0.0 if self._ping.is_clear else float("inf")

    def begin(self) -> None:
        self._drawn_s = self._clock.monotonic()
        self._began_s = self._clock.worked()
        self._costs_s.append(0.0)

    def end(self) -> None:
        """It is done: what the last ones took decides when the next one may come.

        To be called once more when it has been sent, which is the smaller part of its cost.
        """
        if self._costs_s:
            self._costs_s[-1] = self._clock.worked() - self._began_s
