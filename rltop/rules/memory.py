"""Memory: is it about to run out?

Peak GPU memory is a running maximum that most trainers never reset, and host memory is shared with other jobs, so a
rise alone is never critical. The stream has no memory sizes; if the user has set them, the headroom is judged.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from rltop.rules.context import RuleContext
from rltop.rules.rule import CRIT, INFO, QUIET, WARN, Detector, Finding
from rltop.stats.persistence import BlockTrend

_RESERVED = ("mem_reserved_gb", "mem_peak_gb", "mem_alloc_gb")
_PEAKS = 3
_PEAK_RECORDS = 20


class DeviceMemory(Detector):
    """H1: GPU memory near capacity, or new peaks in quick succession."""

    highest = 0.0
    peaks: deque[int] = deque(maxlen=_PEAKS)

    def detect(self, context: RuleContext) -> Finding | None:
        values = context.values
        if (value := next((values[name] for name in _RESERVED if name in values), None)) is None:
            return None
        thresholds, size = self.thresholds, self.thresholds["size_gb"]
        if value > self.highest * (1.0 + thresholds["step"]):
            self.highest = value
            if context.record > thresholds["wait"]:
                self.peaks.append(context.record)
        since = context.record - _PEAK_RECORDS
        if size > 0.0:
            share = value / size
            # Allocators fill the device by design, so near capacity only a rising level is a risk.
            rises = bool(self.peaks) and self.peaks[-1] > since
            if share > thresholds["warn"] * self.hysteresis and (rises or self.is_firing):
                return Finding(CRIT if share > thresholds["crit"] and rises else WARN, value, size, None, (share,))
        return Finding(INFO, value) if len(self.peaks) == _PEAKS and self.peaks[0] > since else QUIET


class HostLeak(Detector):
    """H2: host memory climbs steadily over a hundred records."""

    trend = BlockTrend(block=10, count=10)

    def detect(self, context: RuleContext) -> Finding | None:
        value, trend, thresholds = context.values.get("mem_cpu_gb"), self.trend, self.thresholds
        if value is None or not trend.push(value) or not trend.is_full:
            return None
        if trend.monotony < thresholds["monotony"] or trend.growth < thresholds["crit"]:
            return QUIET
        first, last = trend.medians[0], trend.medians[-1]
        per_record = (last - first) / (trend.block * (trend.count - 1))
        largest = sorted(after - before for before, after in pairwise(trend.medians))[-2:]
        if sum(largest) > thresholds["jumps"] * (last - first):
            # Two jumps explain the rise: a cache, a reload or another job; a leak would be steady.
            return Finding(INFO, last, first, None, (per_record,))
        if 0.0 < thresholds["size_gb"] < last + thresholds["ahead"] * per_record:
            return Finding(CRIT, last, first, thresholds["size_gb"], (per_record,))
        return Finding(WARN, last, first, None, (per_record,)) if trend.growth >= thresholds["warn"] else QUIET
