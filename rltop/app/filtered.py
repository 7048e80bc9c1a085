"""A page with a filter above its list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.getters import query_one
from textual.types import CSSPathType
from textual.widgets import Input

from rltop.app.bindings import FILTER_BINDINGS
from rltop.app.board import LongBoard
from rltop.app.page import Page

MAX_FILTER_CHARS = 256
"""Longer than the name of any metric; of a paste that is longer, the beginning is taken."""


class FilterInput(Input):
    """A text field that takes of a text what there is room for."""

    def replace(self, text: str, start: int, end: int) -> None:
        """Put text into the place of a stretch."""
        left = len(self.value) - abs(min(end, len(self.value)) - max(0, start))
        super().replace(text[: max(0, MAX_FILTER_CHARS - left)], start, end)


class FilteredPage(Page):
    """A long list, and a text field that says what of it is shown."""

    CSS_PATH: ClassVar[CSSPathType | None] = [Path(__file__).with_name(name) for name in ("page.tcss", "filtered.tcss")]
    BINDINGS: ClassVar[list[BindingType]] = [*FILTER_BINDINGS]
    FOOTER: ClassVar[Sequence[str]] = ("find",)
    PLACEHOLDER = ""
    """What the empty filter says."""

    filter = query_one("#filter", Input)

    def compose(self) -> ComposeResult:
        """The filter, the list, the chrome."""
        filter_input = FilterInput(placeholder=self.PLACEHOLDER, id="filter", compact=True)
        filter_input.display = False
        yield filter_input
        yield LongBoard(self.rltop.palette, self.rows, self.move, id="board")
        yield from self.chrome()

    @abstractmethod
    def move(self, by: int) -> None:
        """Choose the line that lies `by` lines away, or the last one on the way."""

    @abstractmethod
    def show_only(self, text: str) -> None:
        """Show what matches, from now on."""

    def find(self) -> None:
        """Put the cursor into the filter."""
        self.filter.display = True
        # At once: `Widget.focus` is put off, and the next key would go to the list.
        self.set_focus(self.filter)

    @property
    def has_something_to_close(self) -> bool:
        """Whether Escape closes the filter rather than the page."""
        return bool(self.filter.display)

    def close_something(self) -> None:
        """Clear and hide the filter."""
        self.filter.value = ""
        self.filter.display = False
        self.board.focus()

    def action_to_list(self) -> None:
        """From the filter into the list."""
        self.board.focus()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, message: Input.Changed) -> None:
        message.stop()
        self.show_only(message.value)

    @on(Input.Submitted, "#filter")
    def _filter_submitted(self, message: Input.Submitted) -> None:
        message.stop()
        self.set_focus(self.board)
        # Keys that were letters until now do something again, and may be named.
        self.draw()
