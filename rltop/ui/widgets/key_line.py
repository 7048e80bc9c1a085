"""The footer: the keys of the page, as many as fit whole."""

from __future__ import annotations

from textual import events
from textual.app import ComposeResult
from textual.widget import Widget
from textual.widgets import Footer

from rltop.ui.textual_shim import FooterKey, FooterLabel, KeyGroup
from rltop.view.widths import cell_width


class KeyLine(Footer):
    """A footer that leaves out what it could only show a part of."""

    def __init__(self) -> None:
        super().__init__(show_command_palette=False, compact=True)

    def compose(self) -> ComposeResult:
        """The keys of the page, then a look at which of them fit."""
        yield from super().compose()
        self.call_after_refresh(self._fit)

    def on_resize(self, event: events.Resize) -> None:
        """Another width, other keys."""
        self._fit()

    def _fit(self) -> None:
        used = 0
        for child in self.children:
            used += _cells(child)
            # The gap behind the last one need not fit.
            child.display = used - 1 <= self.size.width


def _cells(child: Widget) -> int:
    """Cells that a part of the footer takes, with the gap behind it."""
    if isinstance(child, FooterKey):
        return cell_width(child.key_display) + 1 + cell_width(child.description) + 1
    if isinstance(child, KeyGroup):
        return sum(cell_width(key.key_display) for key in child.children if isinstance(key, FooterKey)) + 1
    return cell_width(str(child.visual)) + 1 if isinstance(child, FooterLabel) else child.size.width
