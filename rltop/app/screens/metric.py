"""One metric: a large chart, its numbers, what it means, and its relatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from rltop.app.bindings import PLOT_BINDINGS
from rltop.app.page import Page
from rltop.app.plot_pane import LABEL_CELLS, paint_chart
from rltop.pages.chart import Zoom, read_markers
from rltop.pages.metric import LEAST, build_metric, paint_metric_details, paint_metric_title
from rltop.rows.cells import too_small
from rltop.rows.rows import Row

CHART_SHARE = 0.58
"""How much of the height the chart gets; what does not fit below it is scrolled to."""

PAN_SHARE = 0.25


class MetricScreen(Page):
    """The chart and the numbers of one metric."""

    BINDINGS: ClassVar[list[BindingType]] = [*PLOT_BINDINGS]
    FOOTER: ClassVar[Sequence[str]] = ("step-back", "step-on")
    HELP = (
        "One metric over the steps of the run, as logged and smoothed, with the threshold of its rule, the baseline of "
        "this run, restarts and the beginning of verdicts, between its extremes or its spread where the trainer logs "
        "them. Under the steps, signs for what else happened: rules that began to fire and recovered, restarts, "
        "checkpoints, validations. Below, its numbers, what it means, and related metrics: {open} opens them. "
        "The chart follows the newest step until it is moved away from it."
    )

    def __init__(self, key: str, stream: str = "") -> None:
        super().__init__(stream)
        self.key = key
        self._zoom: Zoom | None = None
        self._follows = True
        self._is_log = False
        self._has_smooth = True
        self._has_band = True

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """Title, chart, and below it whatever there is to say; the board scrolls."""
        moment = self.moment
        if width < LEAST[0] or height < LEAST[1]:
            return too_small(width, height, moment.glyphs, LEAST)
        view = build_metric(
            moment.snapshot, self.key, columns=width - LABEL_CELLS, zoom=self._shown(), is_log=self._is_log
        )
        details = paint_metric_details(view, width, None, moment.glyphs)
        chart_height = max(round(height * CHART_SHARE), height - 1 - len(details))
        return [
            paint_metric_title(view, width, moment.glyphs),
            *paint_chart(
                view.plot,
                width,
                chart_height,
                moment.glyphs,
                unit=view.reading.unit,
                has_smooth=self._has_smooth,
                has_band=self._has_band,
                markers=read_markers(
                    moment.snapshot, view.plot.zoom.first, view.plot.zoom.last, view.reading.signal.metric.name
                ),
            ),
            *details,
        ]

    def _whole(self) -> Zoom:
        stream = self.moment.snapshot.stream
        first, last = stream.first_step or 0, stream.last_step or 0
        return Zoom(first, max(first, last))

    def _shown(self) -> Zoom | None:
        """The stretch to show; one that ended at the newest step moves on with it."""
        if self._zoom is None:
            return None
        whole = self._whole()
        if self._follows:
            return Zoom(whole.last - self._zoom.length + 1, whole.last).within(whole)
        return self._zoom.within(whole)

    def _show(self, zoom: Zoom) -> None:
        whole = self._whole()
        self._zoom = None if zoom.length >= whole.length else zoom
        self._follows = zoom.last >= whole.last
        self.draw()

    def action_zoom(self, by: int) -> None:
        """Show half as many steps (1) or twice as many (-1), around the cursor if it is set."""
        cursor = self.moment.at_step
        self._show((self._shown() or self._whole()).scaled(0.5 if by > 0 else 2.0, self._whole(), cursor))

    def action_pan(self, by: int) -> None:
        """Move to earlier (-1) or later (1) steps."""
        if self._zoom is not None:
            self._show((self._shown() or self._whole()).moved(by * PAN_SHARE, self._whole()))

    def action_reset(self) -> None:
        """Show the whole run again."""
        self._zoom, self._follows = None, True
        self.draw()

    def action_log(self) -> None:
        """Switch between logarithmic and linear values."""
        self._is_log = not self._is_log
        self.draw()

    def action_smooth(self) -> None:
        """Show the smoothed curve, or leave it out."""
        self._has_smooth = not self._has_smooth
        self.draw()

    def action_band(self) -> None:
        """Show the edges around the values, or leave them out, so that the values fill the chart."""
        self._has_band = not self._has_band
        self.draw()
