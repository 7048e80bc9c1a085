"""Which rank makes the others wait, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rltop.app.page import Page
from rltop.pages.ranks import LEAST, build_ranks, paint_ranks
from rltop.rows.rows import Row


class RanksScreen(Page):
    """The ranks of a run, rank against rank."""

    FOOTER: ClassVar[Sequence[str]] = ("step-back", "step-on")
    HELP = (
        "What each rank spends in each stage against the median of its worker group, over the newest steps: which rank "
        "is slowest, how far behind, which part of the step the others wait for it, and how often it is the slowest. "
        "Below, every rank of the stage that costs most. {open} opens the chart of a rank."
    )

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The ranks at the step that is shown; the board scrolls."""
        moment = self.rltop.moment
        is_small = width < LEAST[0] or height < LEAST[1]
        return paint_ranks(build_ranks(moment.snapshot), width, height if is_small else None, moment.glyphs)
