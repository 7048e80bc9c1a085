"""What pages with charts share: which steps they show, on which axes, and what the mouse does in them.

Owns the state that keys and the mouse change; what is drawn is the page's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence, Set
from dataclasses import replace

from rltop import units
from rltop.model import Unit
from rltop.pages.chart import (
    SMOOTHING,
    WHEEL,
    Axis,
    Canvas,
    Curve,
    Places,
    PlotData,
    PlotMark,
    Zoom,
    axes_logged,
    canvas_of,
    placed,
    places,
    step_at,
    value_ranges,
)
from rltop.pages.markers import Marker
from rltop.pages.moment import Moment
from rltop.pages.page import Effect, Page, Redraw, Say, ShowStep
from rltop.pages.signals import SignalReading
from rltop.rows.keys import KEYS
from rltop.rows.rows import Row
from rltop.run.snapshot import Snapshot

PAN_SHARE = 0.25

SMOOTHINGS = (0.5, 0.8, SMOOTHING, 0.95, 0.98, 0.99)
"""About 2, 5, 10, 20, 50 and 100 records long."""


class ChartPage(Page):
    """A page whose charts show the same steps, on axes that keys change."""

    def __init__(self, stream: str = "") -> None:
        super().__init__(stream)
        self.zoom: Zoom | None = None
        self.axis = Axis.STEP
        self.is_log = self.is_log_x = False
        self.has_smooth = True
        self.smoothing = SMOOTHING
        self._follows = True
        self._locked: tuple[tuple[float, float] | None, ...] = ()
        self._dragged: tuple[int, int] | None = None
        self._drawn: list[tuple[Canvas, PlotData]] = []

    # -- what is shown -----------------------------------------------------------------------------------------------

    def whole(self, moment: Moment) -> Zoom:
        stream = moment.snapshot.stream
        first, last = stream.first_step or 0, stream.last_step or 0
        return Zoom(first, max(first, last))

    def shown(self, moment: Moment) -> Zoom | None:
        """The stretch to show, None for all; one that ended at the newest step moves on with it."""
        if self.zoom is None:
            return None
        whole = self.whole(moment)
        if self._follows:
            return Zoom(whole.last - self.zoom.length + 1, whole.last).within(whole)
        return self.zoom.within(whole)

    def axes(self, moment: Moment) -> Sequence[Axis]:
        return axes_logged(moment.snapshot)

    def axis_in(self, snapshot: Snapshot) -> tuple[Axis, Places]:
        """What the x axis counts in a stream, and where its steps are there; steps, where it does not log the rest."""
        found = places(snapshot, self.axis)
        return (Axis.STEP, Places((), ())) if found is None else (self.axis, found)

    @property
    def plots(self) -> Sequence[PlotData]:
        return [plot for _, plot in self._drawn]

    def begin(self) -> None:
        self._drawn = []

    def draw(
        self,
        plot: PlotData,
        snapshot: Snapshot,
        moment: Moment,
        width: int,
        height: int,
        *,
        at: tuple[int, int],
        unit: Unit,
        has_band: bool = False,
        markers: Sequence[Marker] = (),
    ) -> Sequence[Row]:
        """A chart on the axes of the page, in which the mouse can point at steps.

        Args:
            at: row and cell of the page in which it begins.
            unit: of the values on the left.
        """
        if moment.draw_chart is None:
            return ()
        marks = [PlotMark(step, "cursor", "") for step in self._dragged or ()]
        plot = replace(plot, locked=self._locked, marks=(*plot.marks, *marks))
        axis, found = self.axis_in(snapshot)
        plot = placed(plot, found, axis, is_log=self.is_log_x)
        rows = moment.draw_chart(
            plot, width, height, moment.glyphs, unit=unit, has_smooth=self.has_smooth, has_band=has_band,
            markers=markers,
        )  # fmt: skip
        canvas = canvas_of(rows, *at, has_right=plot.right is not None)
        if canvas is not None:
            self._drawn.append((canvas, plot))
        return rows

    @property
    def axis_text(self) -> str:
        axis = next((plot.axis for plot in self.plots), Axis.STEP)
        scale = ", log scale" if self.is_log_x else ""
        return f"by {axis.value}{scale}" if axis is not Axis.STEP or scale else ""

    @property
    def is_locked(self) -> bool:
        return bool(self._locked)

    # -- keys --------------------------------------------------------------------------------------------------------

    def idle(self, moment: Moment) -> Set[str]:
        if not self.plots:
            return {key.id for scope in self.where for key in KEYS[scope]}
        return frozenset() if len(self.axes(moment)) > 1 else {"axis", "align"}

    def on(self, key: str, moment: Moment) -> Effect | None:
        whole = self.whole(moment)
        shown = self.shown(moment) or whole
        match key:
            case "zoom-in" | "zoom-out":
                factor, at = 0.5 if key == "zoom-in" else 2.0, moment.snapshot.at_step
                zoom = shown.scaled(factor, whole) if at is None else shown.centred(factor, whole, at)
                if zoom == shown:
                    return Say("this is as near as it gets" if key == "zoom-in" else "the whole run is shown")
                self.show(zoom, whole)
            case "pan-left" | "pan-right":
                if self.zoom is None:
                    return Say("the whole run is shown: zoom in first")
                zoom = shown.moved(-PAN_SHARE if key == "pan-left" else PAN_SHARE, whole)
                if zoom == shown:
                    return Say(f"these are the {'first' if key == 'pan-left' else 'newest'} steps")
                self.show(zoom, whole)
            case "reset":
                if self.zoom is None:
                    return Say("the whole run is shown")
                self.zoom, self._follows = None, True
            case "smooth":
                self.has_smooth = not self.has_smooth
            case _:
                return self._on_axes(key, moment)
        return Redraw()

    def _on_axes(self, key: str, moment: Moment) -> Effect | None:
        match key:
            case "log":
                if not any(plot.can_log for plot in self.plots):
                    return Say("no logarithmic scale: no value is above zero")
                self.is_log, self._locked = not self.is_log, ()
            case "axis":
                axes = self.axes(moment)
                if len(axes) < 2:
                    return Say("only steps are logged: neither time, tokens, samples nor epochs")
                self.axis = axes[(axes.index(self.axis) + 1) % len(axes)] if self.axis in axes else axes[0]
                self.is_log_x = self.is_log_x and self.axis is not Axis.CLOCK
            case "log-x":
                if self.axis is Axis.CLOCK:
                    return Say("wall time has no logarithmic scale")
                self.is_log_x = not self.is_log_x
            case "lock":
                ranges = () if self._locked or not self.plots else value_ranges(self.plots[0])
                if not self._locked and not any(ranges):
                    return Say("no values are shown: no range to lock")
                self._locked = ranges
            case "smooth-less" | "smooth-more":
                at = SMOOTHINGS.index(self.smoothing) + (1 if key == "smooth-more" else -1)
                if not 0 <= at < len(SMOOTHINGS):
                    return Say("that is the least smoothing" if at < 0 else "that is the most smoothing")
                self.smoothing, self.has_smooth = SMOOTHINGS[at], True
        return Redraw()

    # -- the mouse ---------------------------------------------------------------------------------------------------

    def point(self, x: int, y: int, turn: int, moment: Moment) -> Effect | None:
        step = self._step_at(x, y)
        if step is None:
            return None
        if not turn:
            return ShowStep(step) if not self.stream else Say("the cursor counts the steps of the main stream")
        whole = self.whole(moment)
        self.show((self.shown(moment) or whole).scaled(WHEEL**-turn, whole, step), whole)
        return Redraw()

    def drag(self, x: int, y: int, to: int, is_done: bool, moment: Moment) -> Effect | None:
        first, last = self._step_at(x, y), self._step_at(to, y, (x, y))
        self._dragged = None
        if first is None or last is None:
            return None
        if is_done:
            return self.show_window(min(first, last), max(first, last), moment)
        self._dragged = first, last
        return Redraw()

    def _step_at(self, x: int, y: int, of: tuple[int, int] | None = None) -> int | None:
        for canvas, plot in self._drawn:
            if canvas.share(*(of or (x, y))) is not None:
                inside = max(canvas.left, min(canvas.left + canvas.cells - 1, x))
                return step_at(plot, canvas.share(inside, y) or 0.0)
        return None

    @property
    def window(self) -> tuple[int, int] | None:
        return None if self.zoom is None else (self.zoom.first, self.zoom.last)

    def show_window(self, first: int, last: int, moment: Moment) -> Effect | None:
        whole = self.whole(moment)
        first, last = max(first, whole.first), min(last, whole.last)
        if first > last:
            return None
        self.show(Zoom(first, last), whole)
        return Redraw()

    def show(self, zoom: Zoom, whole: Zoom) -> None:
        self.zoom = None if zoom.length >= whole.length else zoom
        self._follows = zoom.last >= whole.last


def with_readout(plot: PlotData, snapshot: Snapshot, reading: SignalReading | None = None) -> PlotData:
    """A chart whose cursor says what stands there: value, smoothed value and time.

    Args:
        reading: of the metric there; None where each curve has a value of its own.
    """
    at = snapshot.at_step
    if at is None:
        return plot
    parts, value = [], None
    if reading is not None and reading.point is not None:
        value = reading.point.value
        older = f" @{units.step(reading.point.step)}" if reading.is_older else ""
        parts.append(f"{units.measure(value, reading.unit)}{older}")
        smooth = _value_at(plot.smooth, at)
        parts += [] if smooth is None else [f"smoothed {units.measure(smooth, reading.unit)}"]
    clock, time = places(snapshot, Axis.CLOCK), places(snapshot, Axis.TIME)
    if clock is not None and time is not None:
        parts += [f"{Axis.CLOCK.label(clock.at(at))} UTC", f"after {units.duration(time.at(at))}"]
    text = f"step {units.step(at)}{': ' if parts else ''}{', '.join(parts)}"
    return replace(
        plot,
        marks=tuple(
            replace(mark, label=text, value=value) if mark.role == "cursor" and mark.step == at else mark
            for mark in plot.marks
        ),
    )


def _value_at(curve: Curve, step: float) -> float | None:
    near = min(zip(curve.steps, curve.values, strict=True), key=lambda point: abs(point[0] - step), default=None)
    return None if near is None or not math.isfinite(near[1]) else near[1]
