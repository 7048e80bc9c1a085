"""Styled text as escape codes, each code only where it changes something, and updates of the cells that changed.

Rich closes every segment with a reset and opens the next one with all of its colours: twice the bytes for a row of
short segments. Assumes a terminal without attributes at the start, and leaves it so.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor
from textual.screen import Screen

from rltop.structs import NamedTuple


class _Style(NamedTuple):
    """What is switched on: attribute codes, and the codes of the two colours (empty: the terminal's own)."""

    attributes: frozenset[str] = frozenset()
    foreground: str = ""
    background: str = ""


_PLAIN = _Style()


class Pen:
    """Writes segments one after the other and remembers how the last one looked."""

    def __init__(self, system: ColorSystem | None) -> None:
        self._system = system
        self._look = _PLAIN
        self._written: list[str] = []

    def move_to(self, x: int, y: int) -> None:
        self._written.append(f"\x1b[{y + 1};{x + 1}H")

    def write(self, segment: Segment) -> None:
        text, style, control = segment
        if control:
            self._written.append(text)
            return
        if not text:
            return
        if style is not None and style.link:
            # Hyperlinks are rare here, and Rich knows how to open and close them.
            self._go(_PLAIN)
            self._written.append(style.render(text, color_system=self._system))
            return
        self._go(_PLAIN if style is None or self._system is None else _look(style, self._system))
        self._written.append(text)

    def _go(self, look: _Style) -> None:
        old, self._look = self._look, look
        if look == old:
            return
        if look == _PLAIN:
            self._written.append("\x1b[0m")
            return
        anew = ";".join(["0", *_changes(_PLAIN, look)])
        added = ";".join(_changes(old, look)) if old.attributes <= look.attributes else anew
        self._written.append(f"\x1b[{min(added, anew, key=len)}m")

    def finish(self) -> str:
        self._go(_PLAIN)
        written, self._written = "".join(self._written), []
        return written


def _changes(old: _Style, look: _Style) -> list[str]:
    codes = sorted(look.attributes - old.attributes)
    if look.foreground != old.foreground:
        codes.append(look.foreground or "39")
    if look.background != old.background:
        codes.append(look.background or "49")
    return codes


@lru_cache(maxsize=1024)
def _look(style: Style, system: ColorSystem) -> _Style:
    attributes = style.without_color.render("x", color_system=system)
    codes = attributes[2 : attributes.index("m")].split(";") if attributes.startswith("\x1b[") else []
    foreground = ";".join(style.color.downgrade(system).get_ansi_codes(foreground=True)) if style.color else ""
    background = ";".join(style.bgcolor.downgrade(system).get_ansi_codes(foreground=False)) if style.bgcolor else ""
    default = {"39": "", "49": ""}
    return _Style(frozenset(codes), default.get(foreground, foreground), default.get(background, background))


class _CellUpdate(ChopsUpdate):
    """Writes the changed cells of a line and nothing else.

    Leans on: `ChopsUpdate` keeps `chops` (per line: start of a strip → strip),
    `chop_ends` (where each of them ends) and `spans` (line, first cell, end). Its
    own method begins every line at the start of the strip. Also on `_color_system`
    of a Rich console, the colours of the terminal.
    """

    def render_segments(self, console: Console) -> str:
        """The escape codes and the text that bring the screen up to date."""
        pen = Pen(console._color_system)
        for y, start, stop in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                left, right = max(x, start), min(end, stop)
                if strip is not None and left < right:
                    pen.move_to(left, y)
                    for segment in strip.crop(left - x, right - x):
                        pen.write(segment)
        return pen.finish()


class _CellCompositor(Compositor):
    """A compositor whose partial updates are made of cells."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Whatever has changed since the last update, if anything has."""
        update = super().render_partial_update()
        return None if update is None else _CellUpdate(update.chops, update.spans, update.chop_ends)


def update_by_cells(screen: Screen[Any]) -> None:
    """Have `screen` send only the cells that were refreshed; call it before it is shown.

    Leans on: a screen draws through its attribute `_compositor`.
    """
    screen._compositor = _CellCompositor()
