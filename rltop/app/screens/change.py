"""What changed around the step on the screen: every key, by how far it moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rltop.app.page import Page
from rltop.pages.changes import LEAST, build_change, paint_change
from rltop.rows.rows import Row


class ChangeScreen(Page):
    """The metrics that moved most at a step."""

    FOOTER: ClassVar[Sequence[str]] = ("step-back", "step-on")
    HELP = (
        "What changed around the step on the screen: every key that is logged, by how far its values from that step on "
        "lie outside what the records before say is usual, in robust sigmas (1.4826 times the median distance from the "
        "median, with the trend carried on). The upright line in each chart is the step. {step-back} and {step-on} "
        "go to other steps, {open} opens a metric. That two things moved together says where to look, not which caused "
        "which."
    )

    def __init__(
        self, stream: str = "", step: int | None = None, *, returns_to: int | None = None, has_travelled: bool = False
    ) -> None:
        """The page at the step of the time cursor.

        Args:
            stream: whose keys; "" is the main one.
            step: the step to show in that stream while no time cursor is set.
            returns_to: where the cursor was before it was set for this page.
            has_travelled: the cursor was set for this page, and goes back with it.
        """
        super().__init__(stream)
        self._step = step
        self._returns_to = returns_to
        self._has_travelled = has_travelled

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The ranking at the step that is shown; the board scrolls."""
        moment = self.moment
        snapshot = moment.snapshot
        view = build_change(snapshot.at(self._step) if snapshot.at_step is None else snapshot, width=width)
        is_small = width < LEAST[0] or height < LEAST[1]
        return paint_change(view, width, height if is_small else None, moment.glyphs)

    def on_unmount(self) -> None:
        """Put the time cursor back where it was; at the end of the program there is nothing to show it on."""
        if self._has_travelled and self.rltop.page is not self:
            self.rltop.show_step(self._returns_to)
