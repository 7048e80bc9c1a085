"""The numbers under the chart of a metric: of the whole run, or of the window that is shown.

Owns which numbers are told, of which steps they are, and on which step the extremes were.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import islice

from rltop import units
from rltop.model import Direction, Level, Signal
from rltop.pages.chart import Zoom
from rltop.pages.key_metrics import change_text, value_text
from rltop.pages.run_numbers import REWARDS, VALIDATIONS
from rltop.pages.signals import SignalReading, formula, steps_text
from rltop.rows.glyphs import LEVEL_ROLES
from rltop.run.snapshot import Snapshot
from rltop.stats.rolling import median
from rltop.store.series import Bucket

_RECENT = 50
_PLACES = 6
_ROOM = 18
"""Cells that a remark has beside its number."""
_BUCKETS = 400
"""Into how many stretches a long history is looked at for its extremes."""


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number of the table: its name, its value, and a remark."""

    name: str
    value: str
    unit: str = ""
    remark: str = ""
    role: str = "value"


def read_statistics(snapshot: Snapshot, reading: SignalReading, window: Zoom | None = None) -> list[Statistic]:
    """The table, in order.

    Args:
        snapshot: the run, and its step; what comes after the step counts only in a window that is shown.
        reading: of the signal at the step.
        window: the steps that the extremes, the mean and the median are of; None is all up to the step.
    """
    stream, signal = snapshot.stream, reading.signal
    text, unit = value_text(reading)
    role = "crit" if reading.is_nonfinite_now else "value"
    where = "" if reading.point is None else f"step {units.step(reading.point.step)}"
    if reading.is_nonfinite_now and reading.mark is not None:
        where = f"step {units.step(reading.mark.step)}"
    table = [Statistic("last", text, unit, where, role)]
    if formula(signal, "") and reading.point is not None:
        raw = stream.value(signal.key, reading.point.step)
        table += [] if raw is None else [Statistic("logged", units.number(raw), "", "in the file")]
    table += _extremes(snapshot, reading, window)
    if reading.declared is not None:
        ends = [units.measure(end, reading.unit) for end in reading.declared]
        table.append(Statistic("range", " – ".join(ends), "", "declared"))
    table += _median(snapshot, reading, window)
    if reading.baseline is not None:
        remark = "" if reading.baseline_steps is None else steps_text(reading.baseline_steps)
        table.append(Statistic("baseline", *units.quantity(reading.baseline, reading.unit), remark))
        role = LEVEL_ROLES[reading.level] if reading.level >= Level.INFO else "value"
        table.append(Statistic("change", change_text(reading), "", "vs baseline", role))
    verdict = reading.verdict
    if verdict is not None and verdict.baseline not in (None, reading.baseline) and verdict.key in ("", signal.key):
        table.append(Statistic("compared to", *units.quantity(verdict.baseline, reading.unit), f"rule {verdict.rule}"))
    if reading.judged is not None:
        remark = f"step {units.step(reading.judged.step)}"
        table.append(Statistic("judged", *units.quantity(reading.judged.value, reading.unit), remark))
    if reading.threshold is not None:
        remark = f"rule {verdict.rule}" if verdict is not None else ""
        table.append(Statistic("threshold", *units.quantity(reading.threshold, reading.unit), remark, "threshold"))
    table.append(_nonfinite(snapshot, reading))
    return table


def _extremes(snapshot: Snapshot, reading: SignalReading, window: Zoom | None) -> list[Statistic]:
    """Least, greatest and mean value with their steps, and the best one of a reward or a validation."""
    signal = reading.signal
    first, last = (snapshot.stream.first_step, snapshot.step) if window is None else (window.first, window.last)
    if first is None or last is None or first > last:
        return []
    stride = max(1, -(-(last - first + 1) // _BUCKETS))
    # The whole run is asked for with every step that is gone to, a window rarely twice.
    read = snapshot.part.memo if window is None else snapshot.stream
    found = [one for one in read.buckets(signal.key, stride, first, last + 1) if one.count]
    if not found:
        return []
    total = sum(one.count for one in found)
    mean = math.fsum(signal.read(one.mean) * one.count for one in found) / total
    ends = {
        False: _extreme(snapshot, signal, found, is_top=False),
        True: _extreme(snapshot, signal, found, is_top=True),
    }
    table = [
        Statistic("min", *units.quantity(ends[False][0], reading.unit), ends[False][1]),
        Statistic("max", *units.quantity(ends[True][0], reading.unit), ends[True][1]),
    ]
    direction = signal.metric.direction
    if signal.metric.name in (*REWARDS, *VALIDATIONS) and direction in (Direction.UP, Direction.DOWN):
        value, at = ends[direction is Direction.UP]
        table.append(Statistic("best", *units.quantity(value, reading.unit), f"@{at}", "ok"))
    if window is not None:
        table.insert(0, Statistic("values", units.count(total), "", _of_steps(window)))
    remark = f"of {units.count(total)} {'value' if total == 1 else 'values'}" if window is None else _of_steps(window)
    table.append(Statistic("mean", *units.quantity(mean, reading.unit), remark))
    return table


def _extreme(snapshot: Snapshot, signal: Signal, found: list[Bucket], *, is_top: bool) -> tuple[float, str]:
    """The greatest or least value, and its step; where only a stretch of steps is known, that."""

    def end(bucket: Bucket) -> float:
        return (max if is_top else min)(signal.read(bucket.low), signal.read(bucket.high))

    bucket = (max if is_top else min)(found, key=end)
    if bucket.first_step != bucket.last_step:
        inside = snapshot.stream.buckets(signal.key, 1, bucket.first_step, bucket.last_step + 1)
        inside = [one for one in inside if one.count]
        bucket = (max if is_top else min)(inside or [bucket], key=end)
    if bucket.first_step == bucket.last_step:
        return end(bucket), f"step {units.step(bucket.first_step)}"
    return end(bucket), f"steps {units.step(bucket.first_step)}–{units.step(bucket.last_step)}"


def _of_steps(window: Zoom) -> str:
    """Which steps a number is of, without the word where there is no room for it."""
    steps = f"{units.step(window.first)}–{units.step(window.last)}"
    return f"of steps {steps}" if len(steps) <= _ROOM - len("of steps ") else f"of {steps}"


def _median(snapshot: Snapshot, reading: SignalReading, window: Zoom | None) -> list[Statistic]:
    """The median of a window, else of the newest values up to the step."""
    series, at, signal = snapshot.stream.series(reading.signal.key), snapshot.at_step, reading.signal
    if window is not None:
        if snapshot.stream.downsampled_range(window.first) is not None:
            return []
        between = bisect_left(series.steps, window.first), bisect_right(series.steps, window.last)
        known = [value for value in series.values[slice(*between)] if not math.isnan(value)]
        remark = _of_steps(window)
    else:
        end = len(series.steps) if at is None else bisect_right(series.steps, at)
        newest = (value for value in reversed(series.values[:end]) if not math.isnan(value))
        known = list(islice(newest, _RECENT))
        remark = f"of the last {len(known)}"
    values = [signal.read(value) for value in known]
    return [Statistic("median", *units.quantity(median(values), reading.unit), remark)] if values else []


def _nonfinite(snapshot: Snapshot, reading: SignalReading) -> Statistic:
    """How many values were not finite, and where."""
    at = snapshot.at_step
    marks = [mark for mark in snapshot.stream.marks(reading.signal.key) if at is None or mark.step <= at]
    if not marks:
        return Statistic("NaN/Inf", "0")
    places = ", ".join(f"{units.nonfinite(mark.kind)} {units.step(mark.step)}" for mark in marks[:_PLACES])
    more = ", …" if reading.mark_count > _PLACES else ""
    return Statistic("NaN/Inf", units.count(reading.mark_count), "", f"at {places}{more}", "crit")
