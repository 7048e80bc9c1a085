"""What was on a program's screen, and when: its bytes are rendered again as they arrived.

Rendering happens afterwards, with the recorded times; a benchmark that rendered while
reading would measure itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

import pyte

_UNKNOWN_TO_PYTE = re.compile(rb"\x1b\[[<>=?][0-9;]*[a-gi-km-z$][a-z]?")
_WHOLE_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[^\[])")


class Listened(Protocol):
    """A recording: all bytes, and the number of bytes at each time."""

    output: bytearray
    arrivals: list[tuple[float, int]]


class Pictures:
    """The successive screens of one program; moves forward only."""

    def __init__(self, program: Listened, width: int = 120, height: int = 40) -> None:
        self._program = program
        self._arrival = 0
        self._drawn = 0
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self._screen)
        self.time_s = 0.0

    @property
    def lines(self) -> Sequence[str]:
        """The rows of the current screen."""
        return self._screen.display

    def advance(self) -> bool:
        """Render the next bytes; False if there are none."""
        if self._arrival == len(self._program.arrivals):
            return False
        self.time_s, size = self._program.arrivals[self._arrival]
        self._arrival += 1
        piece = bytes(self._program.output[self._drawn : size])
        # A partial escape sequence is rendered together with its rest.
        cut = piece.rfind(b"\x1b")
        if cut >= 0 and not _WHOLE_ESCAPE.match(piece, cut):
            piece = piece[:cut]
        self._drawn += len(piece)
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", piece))
        return True

    def when(self, condition: Callable[[Sequence[str]], bool], since_s: float = 0.0) -> float | None:
        """`time.perf_counter()` when `condition` first held, not before `since_s`; None if it never did."""
        while self.time_s < since_s:
            if not self.advance():
                return None
        while not condition(self.lines):
            if not self.advance():
                return None
        return self.time_s


def chosen(lines: Sequence[str]) -> str:
    """The key of the selected row of the overview, which is shown above the footer."""
    return next((line.strip() for line in reversed(lines[-5:-1]) if "/" in line and " " not in line.strip()), "")


def step_shown(lines: Sequence[str]) -> int:
    """The step in the header of a page; -1 without one."""
    found = re.search(r"step ([\d,]+)", lines[0])
    return -1 if found is None else int(found[1].replace(",", ""))


def selection_ms(program: Listened, pressed: Sequence[float]) -> list[float]:
    """Milliseconds from each of these keys, which move the selection down and up, to the moved selection.

    The first key is left out because the selection before it is unknown; the list ends at
    the first key without a visible effect.
    """
    pictures, found, before = Pictures(program), list[float](), ""
    for start_s in pressed:
        last = before
        shown_s = pictures.when(lambda lines, last=last: chosen(lines) not in {"", last}, start_s)  # type: ignore[misc]
        if shown_s is None:
            break
        if before:
            found.append((shown_s - start_s) * 1e3)
        before = chosen(pictures.lines)
    return found
