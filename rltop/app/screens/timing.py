"""Where the time of a step went, stage by stage, and which stage explains a slow-down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rltop.app.page import Page
from rltop.pages.timing import LEAST, build_timing_page, paint_timing
from rltop.rows.rows import Row, Target, TargetKind

_BESIDES = 9
"""Rows of the page that are neither a stage nor a row of the table."""


class TimingScreen(Page):
    """The timing of any step."""

    FOOTER: ClassVar[Sequence[str]] = ("step-back", "step-on")
    HELP = (
        "The timing of the step on the screen: its stages on a common time axis, a table with the last value, the "
        "median, the 95th percentile, the share and the trend of each, and which stage explains a slow-down. "
        "{step-back} and {step-on} go to other steps. Durations are what the trainer logs; positions "
        "are assumed in order unless they are logged."
    )

    def __init__(self, target: Target | None = None) -> None:
        super().__init__()
        self._target = target

    def on_mount(self) -> None:
        """Begin at the stage that was opened."""
        super().on_mount()
        if self._target is not None:
            self.call_after_refresh(self.board.select, self._target)

    def open(self, target: Target) -> None:
        """A stage opens its own chart, a step of the strip is shown on this page."""
        if target.kind is TargetKind.STEP:
            self.rltop.show_step(target.step)
        elif target.kind is not TargetKind.TIMING:
            super().open(target)
        elif target.name:
            self.rltop.open(Target(TargetKind.METRIC, target.name))

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The timing page of the step that is shown, with its whole table: the board scrolls."""
        moment = self.rltop.moment
        view = build_timing_page(moment.snapshot)
        stages = len(view.timing.stages) if view.timing is not None else 0
        if width < LEAST[0] or height < LEAST[1]:
            return paint_timing(view, width, height, moment.glyphs)
        return paint_timing(view, width, max(height, stages + len(view.table) + _BESIDES), moment.glyphs)
