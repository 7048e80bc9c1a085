"""The first page: is it alive, is anything wrong, is it learning, where does the time go."""

from __future__ import annotations

from collections.abc import Sequence

from rltop.ui.screens.page import Page
from rltop.view.lines import Row
from rltop.view.overview import build_overview, paint_overview


class OverviewScreen(Page):
    """One run at a glance."""

    TELLS_COUNTS = True
    HELP = (
        "The overview of one run, from the top: which run, how far and how fast, and whether it is alive; the one "
        "sentence that matters now; what fires, in two groups, learning and system; the metrics that matter for its "
        "algorithm, each with its change against the run's own baseline and its whole history; where the time of the "
        "newest step went; and how far the slowest answers lag behind. Select anything and press Enter to go into it."
    )

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The overview of the run and the step that are shown."""
        moment = self.rltop.moment
        view = build_overview(moment.run, moment.at_step, width=width, height=height)
        return paint_overview(view, width, height, moment.glyphs)
