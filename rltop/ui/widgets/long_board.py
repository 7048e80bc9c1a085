"""A board in front of a list that is much longer than the screen.

Only the lines in view exist as rows, so the keys ask whoever knows the list.
"""

from __future__ import annotations

from collections.abc import Callable

from textual import events

from rltop.ui.widgets.board import WHEEL_ROWS, Board, Painter
from rltop.view.palette import Palette

_ALL = 1 << 30
"""Farther than any list is long."""


class LongBoard(Board):
    """Moves by asking `move(lines)`; the painter shows what is around the chosen line."""

    def __init__(self, palette: Palette, paint: Painter, move: Callable[[int], None], *, id: str | None = None) -> None:
        super().__init__(palette, paint, id=id)
        self._ask = move

    def action_up(self) -> None:
        """Choose the line above."""
        self._ask(-1)

    def action_down(self) -> None:
        """Choose the line below."""
        self._ask(1)

    def action_page(self, direction: int) -> None:
        """Go one screenful up (-1) or down (1)."""
        self._ask(direction * max(1, self.size.height - 2))

    def action_first(self) -> None:
        """Go to the first line."""
        self._ask(-_ALL)

    def action_last(self) -> None:
        """Go to the last line."""
        self._ask(_ALL)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Move down."""
        event.stop()
        self._ask(WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Move up."""
        event.stop()
        self._ask(-WHEEL_ROWS)
