"""What widgets tell screens, and screens tell the application."""

from __future__ import annotations

from textual.message import Message

from rltop.rows.rows import Target


class Opened(Message):
    """Enter or a click on a selected cell: open what is behind it."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target


class Selected(Message):
    """The selection has moved, or what can be seen of the rows; None where nothing can be selected."""

    def __init__(self, target: Target | None) -> None:
        super().__init__()
        self.target = target

    def can_replace(self, message: Message) -> bool:
        """Only the newest selection matters."""
        return isinstance(message, Selected)
