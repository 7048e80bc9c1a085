"""The first page: is it alive, is anything wrong, is it learning, where does the time go."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from rltop.health.liveness import SPEC
from rltop.ui.moment import Moment
from rltop.ui.screens.page import Page
from rltop.view.header import build_header, header_clock
from rltop.view.lines import Row
from rltop.view.overview import OverviewView, build_overview, paint_overview

SILENCE = SPEC.id
"""The verdict whose words change with every second."""


class OverviewScreen(Page):
    """One run at a glance."""

    TELLS_COUNTS = True
    HELP = (
        "The overview of one run, from the top: which run, how far and how fast, and whether it is alive; the one "
        "sentence that matters now; what fires, in two groups, learning and system; the metrics that matter for its "
        "algorithm, each with its change against the run's own baseline and its whole history; where the time of the "
        "newest step went; and how far the slowest answers lag behind. Select anything and press Enter to go into it."
    )

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Hashable, OverviewView] | None = None

    def face(self) -> Hashable:
        """The age of the newest row and how much of the file has been read, as they are shown."""
        run = self.rltop.moment.run
        return super().face(), header_clock(run)

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The overview of the run and the step that are shown."""
        moment = self.rltop.moment
        view = self._read(moment, width, height)
        return paint_overview(view, width, height, moment.glyphs)

    def _read(self, moment: Moment, width: int, height: int) -> OverviewView:
        """What the page says; where only time has gone by, only the header is read again."""
        run = moment.run
        now = (self.rltop.session.version, id(run), moment.at_step, width, height, run.loading, super().face())
        if self._last is not None and self._last[0] == now and not any(one.rule == SILENCE for one in run.verdicts):
            view = self._last[1]
            return replace(view, header=build_header(run, view.timing, moment.at_step))
        view = build_overview(run, moment.at_step, width=width, height=height)
        self._last = (now, view)
        return view
