"""How much of the terminal the rows of a page get, before Textual and inside it."""

from __future__ import annotations

CHROME_ROWS = 2
"""The status line and the footer below every page."""

ROOMY_ROWS = 16
"""From this height on there is room for them; below, the rows need every line."""


def body_height(terminal_height: int) -> int:
    """Rows of the terminal that a page's board is painted in."""
    return max(1, terminal_height - (CHROME_ROWS if terminal_height >= ROOMY_ROWS else 0))
