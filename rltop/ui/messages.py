"""What widgets tell screens, and screens tell the application."""

from __future__ import annotations

from dataclasses import dataclass

from textual.message import Message

from rltop.view.lines import Target


@dataclass
class Opened(Message):
    """Enter or a click on a selected cell: open what is behind it."""

    target: Target


@dataclass
class Selected(Message):
    """The selection has moved, or what can be seen of the rows; None where nothing can be selected."""

    target: Target | None

    def can_replace(self, message: Message) -> bool:
        """Only the newest selection matters."""
        return isinstance(message, Selected)
