"""What a program had on its screen, and when: its bytes drawn again, as they arrived.

Drawing takes time, so it is done afterwards, from the times that were kept; a
benchmark that drew while it listened would measure itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

import pyte

_UNKNOWN_TO_PYTE = re.compile(rb"\x1b\[[<>=?][0-9;]*[a-gi-km-z$][a-z]?")
_WHOLE_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|[^\[])")


class Listened(Protocol):
    """Something that has been listened to: all bytes, and how many there were when."""

    output: bytearray
    arrivals: list[tuple[float, int]]


class Pictures:
    """The screens of one program one after the other; goes forwards only."""

    def __init__(self, program: Listened, width: int = 120, height: int = 40) -> None:
        self._program = program
        self._arrival = 0
        self._drawn = 0
        self._screen = pyte.Screen(width, height)
        self._stream = pyte.ByteStream(self._screen)
        self.time_s = 0.0

    @property
    def lines(self) -> Sequence[str]:
        """The rows of the screen as they stand now."""
        return self._screen.display

    def advance(self) -> bool:
        """Draw what arrived next; False when that was all."""
        if self._arrival == len(self._program.arrivals):
            return False
        self.time_s, size = self._program.arrivals[self._arrival]
        self._arrival += 1
        piece = bytes(self._program.output[self._drawn : size])
        # An escape sequence that is not all there yet is drawn with its other half.
        cut = piece.rfind(b"\x1b")
        if cut >= 0 and not _WHOLE_ESCAPE.match(piece, cut):
            piece = piece[:cut]
        self._drawn += len(piece)
        self._stream.feed(_UNKNOWN_TO_PYTE.sub(b"", piece))
        return True

    def when(self, condition: Callable[[Sequence[str]], bool], since_s: float = 0.0) -> float | None:
        """`time.perf_counter()` at which the screen first showed it, not before `since_s`; None if it never did."""
        while self.time_s < since_s:
            if not self.advance():
                return None
        while not condition(self.lines):
            if not self.advance():
                return None
        return self.time_s


def chosen(lines: Sequence[str]) -> str:
    """The key of the selected row of the overview: it stands by itself above the footer."""
    return next((line.strip() for line in reversed(lines[-5:-1]) if "/" in line and " " not in line.strip()), "")


def step_shown(lines: Sequence[str]) -> int:
    """The step in the header of a page; -1 where there is none."""
    found = re.search(r"step ([\d,]+)", lines[0])
    return -1 if found is None else int(found[1].replace(",", ""))


def selection_ms(program: Listened, pressed: Sequence[float]) -> list[float]:
    """Milliseconds from each of these keys, which move the selection there and back, to the moved selection.

    What was selected before the first key is not known, so it is left out; the list
    ends at the first key whose effect was never seen.
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
