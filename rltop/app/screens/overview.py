"""The first page: is it alive, is anything wrong, is it learning, where does the time go."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import ClassVar

from rltop.app.page import Page
from rltop.model import RunState
from rltop.pages.header import build_header, header_clock, paint_header
from rltop.pages.overview import OverviewView, build_overview
from rltop.pages.overview_rows import paint_overview
from rltop.rows.rows import Row
from rltop.rules.liveness import SPEC

SILENCE = SPEC.id
"""The verdict whose words change with every second."""


class OverviewScreen(Page):
    """One run at a glance."""

    FOOTER: ClassVar[Sequence[str]] = ("alerts", "timing", "metrics", "timeline", "mute", "change", "runs")
    TELLS_COUNTS = True
    HELP = (
        "The overview of one run, from the top: which run, how far and how fast, and whether it is alive; the one "
        "sentence that matters now; what fires, in two groups, learning and system; the metrics that matter for its "
        "algorithm, each with its change against the run's own baseline and its whole history; where the time of the "
        "newest step went; and how far the slowest answers lag behind. Select anything: {open} goes into it."
    )

    def __init__(self) -> None:
        super().__init__()
        self._last: tuple[Hashable, OverviewView, list[Row]] | None = None

    def face(self) -> Hashable:
        """The age of the newest row and how much of the file has been read, as they are shown."""
        return super().face(), header_clock(self.rltop.moment.snapshot)

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """The overview of the run and the step that are shown; where only time has gone by, only its header is new."""
        moment = self.rltop.moment
        run, glyphs = moment.run, moment.glyphs
        now = (
            self.rltop.session.version,
            id(run),
            moment.at_step,
            moment.is_paused,
            width,
            height,
            run.loading,
            run.muted,
            super().face(),
        )
        if self._last is not None and self._last[0] == now and not any(one.rule == SILENCE for one in run.verdicts):
            _, view, rows = self._last
            header = build_header(moment.snapshot, view.timing)
            if moment.is_paused:
                return rows
            if rows[:1] == [paint_header(view.header, width, glyphs)] and not view.is_empty:
                return [paint_header(header, width, glyphs), *rows[1:]]
            return paint_overview(view._replace(header=header), width, height, glyphs)
        view = build_overview(moment.snapshot, width=width, height=height)
        if moment.is_paused:
            view = view._replace(header=view.header._replace(state=RunState.PAUSED, age_s=None))
        rows = paint_overview(view, width, height, glyphs)
        self._last = (now, view, rows)
        return rows
