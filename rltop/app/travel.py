"""The time cursor: which step every page shows, and what freezes it.

Owns where the cursor stands and the keys that move it; what a page shows of the
step is the page's business.
"""

from __future__ import annotations

import re
from abc import abstractmethod

from rltop.pages.moment import travelled
from rltop.regex import regex
from rltop.run.run import Run
from rltop.screen.textual_shim import FaultKeeper
from rltop.structs import NamedTuple

_STEPS = regex(r"(?P<first>[+-]?\d[\d,_ ]*)(?:(?:-|–|\.\.)(?P<last>\d[\d,_ ]*))?")

_MOST_DIGITS = 18


class Destination(NamedTuple):
    """Where somebody wants to go.

    Attributes:
        step: the step to show, the last one of a window; None is live.
        first: where the window begins; None where one step was asked for.
    """

    step: int | None
    first: int | None = None


def destination(text: str, at: int) -> Destination:
    """What was typed, as a place in the run: `1200`, `300-350`, `+50`, `-50`, `live`.

    Args:
        text: as typed; digits may be grouped.
        at: the step that is shown, from which signed numbers count.

    Raises:
        ValueError: it is none; the message says what would be.
    """
    if text.strip().lower() in ("live", "end", "$"):
        return Destination(None)
    found = _STEPS.fullmatch(text.strip())
    first, last = (re.sub(r"[,_ ]", "", found[name] or "") for name in ("first", "last")) if found else ("", "")
    if not first or max(len(first), len(last)) > _MOST_DIGITS or (last and first[0] in "+-"):
        raise ValueError("no step: type 1200, 300-350, +50, -50 or live")
    if last:
        low, high = sorted((int(first), int(last)))
        return Destination(high, low)
    return Destination(at + int(first) if first[0] in "+-" else int(first))


class TimeTravel(FaultKeeper):
    """An application whose pages show a step: the newest, a frozen one, or one gone back to."""

    _cursor: int | None = None
    _frozen: int | None = None
    _awaits_recall = False
    _has_travelled = False
    _is_paused = False

    @property
    @abstractmethod
    def followed(self) -> Run:
        """The run on the screen."""

    @abstractmethod
    def draw(self) -> None:
        """Paint the page on top."""

    @property
    def at_step(self) -> int | None:
        """The step that is shown; None is the newest, followed."""
        return self._cursor if self._cursor is not None else self._frozen

    @property
    def is_live(self) -> bool:
        """The newest step is shown, and followed."""
        return self._cursor is None and not self._is_paused

    def action_travel(self, by: int) -> None:
        """Move the time cursor by records; past the newest one it is live again."""
        self._go_to(travelled(self.followed, self.at_step, by))

    def action_live(self) -> None:
        """Follow the newest step again."""
        self._frozen = None
        self._is_paused = False
        self._go_to(None)

    def action_pause(self) -> None:
        """Pause the display at its step, or resume; reading never stops."""
        self._is_paused = not self._is_paused
        self._frozen = self.followed.stream.last_step if self._is_paused else None
        self.draw()

    def show_step(self, step: int | None) -> None:
        """Set the time cursor to a step; the newest one is live."""
        newest = self.followed.stream.last_step
        self._go_to(None if step is None or newest is None or step >= newest else step)

    def _go_to(self, step: int | None) -> None:
        """Set the time cursor; what it shows is drawn behind the keys that wait.

        A key that is held down brings more of them than pages can be painted.
        """
        self._cursor = step
        if not self._has_travelled:
            self._has_travelled = True
            self.call_later(self._arrive)

    def _arrive(self) -> None:
        """Draw the step at the cursor, and have the file read again where memory has downsampled it."""
        self._has_travelled = False
        step = self._cursor
        if step is not None:
            self.followed.main.recall(step)
        self._awaits_recall = step is not None and self.followed.stream.downsampled_range(step) is not None
        self.draw()

    def _has_recalled(self) -> bool:
        """Whether the step at the cursor has come back from the file since it was asked for."""
        if not self._awaits_recall or self._cursor is None:
            return False
        self._awaits_recall = self.followed.stream.downsampled_range(self._cursor) is not None
        return not self._awaits_recall
