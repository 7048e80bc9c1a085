"""Memory: is it about to run out?

The peak of GPU memory is a ratchet that most trainers never reset, and host
memory is shared with other jobs: a rise alone is never critical. How large the
machines are is not in the stream; where the user has said so, the distance to
the end is judged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from rltop.model import Evidence, Unit
from rltop.rules.context import Moment
from rltop.rules.rule import CRIT, INFO, QUIET, RELEASE, WARN, Group, Judge, Patience, Reading, RuleSpec
from rltop.stats.persistence import BlockTrend
from rltop.units import number, percent

_RESERVED = ("mem_reserved_gb", "mem_peak_gb", "mem_alloc_gb")
_LOADS = ("seqlen_balanced_max", "seqlen_max", "response_len_max")
_PEAKS = 3
_PEAK_RECORDS = 20


def _reserved(values: Mapping[str, float]) -> float | None:
    return next((values[name] for name in _RESERVED if name in values), None)


class DeviceMemory(Judge):
    """H1: GPU memory near the end of the device, or new peaks in quick succession."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.size = limits["size_gb"]
        self.highest = 0.0
        self.peaks: deque[int] = deque(maxlen=_PEAKS)

    def read(self, now: Moment) -> Reading | None:
        """Level against the size where it is known, and how often the peak has moved."""
        value = _reserved(now.values)
        if value is None:
            return None
        limits = self.limits
        if value > self.highest * (1.0 + limits["step"]):
            self.highest = value
            if now.record > limits["wait"]:
                self.peaks.append(now.record)
        since = now.record - _PEAK_RECORDS
        if self.size > 0.0:
            share = value / self.size
            factor = RELEASE if self.is_firing else 1.0
            # Allocators fill the device by design: near the end only a level that still rises is a risk.
            rises = bool(self.peaks) and self.peaks[-1] > since
            if share > limits["warn"] * factor and (rises or self.is_firing):
                return Reading(CRIT if share > limits["crit"] and rises else WARN, value, self.size, None, (share,))
        if len(self.peaks) == _PEAKS and self.peaks[0] > since:
            return Reading(INFO, value, None, None)
        return QUIET

    def headline(self, reading: Reading) -> str:
        """Level, size, or the peaks."""
        if reading.baseline is None:
            return f"GPU memory has set {_PEAKS} new peaks in {_PEAK_RECORDS} records, now {number(reading.value)} GB"
        return f"GPU memory {number(reading.value)} of {number(reading.baseline)} GB ({percent(reading.extra[0])})"

    def evidence(self, reading: Reading) -> tuple[Evidence, ...]:
        """Level and size."""
        size = () if reading.baseline is None else (Evidence("device", reading.baseline, Unit.GIGABYTES),)
        return (Evidence("in use", reading.value, Unit.GIGABYTES), *size)


class HostLeak(Judge):
    """H2: host memory climbs steadily over a hundred records."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.size = limits["size_gb"]
        self.trend = BlockTrend(block=10, count=10)

    def read(self, now: Moment) -> Reading | None:
        """Speaks once per block of ten records."""
        value = now.values.get("mem_cpu_gb")
        if value is None:
            return None
        if not self.trend.push(value) or not self.trend.is_full:
            return None
        trend, limits = self.trend, self.limits
        if trend.monotony < limits["monotony"] or trend.growth < limits["crit"]:
            return QUIET
        first, last = trend.medians[0], trend.medians[-1]
        per_record = (last - first) / (trend.block * (trend.count - 1))
        if self.size > 0.0 and last + limits["ahead"] * per_record > self.size:
            return Reading(CRIT, last, first, self.size, (per_record,))
        return Reading(WARN, last, first, None, (per_record,)) if trend.growth >= limits["warn"] else QUIET

    def headline(self, reading: Reading) -> str:
        """From what to what, and how fast."""
        end = f", {number(reading.threshold)} GB are there" if reading.threshold is not None else ""
        return (
            f"host memory {number(reading.baseline or 0)} → {number(reading.value)} GB in 100 records "
            f"({number(reading.extra[0])} GB per record{end})"
        )


class OutOfMemoryAhead(Judge):
    """H3: the largest load so far, on a device that is nearly full."""

    def __init__(self, limits: Mapping[str, float]) -> None:
        super().__init__(limits)
        self.size = limits["size_gb"]
        self.metric = ""
        self.highest = 0.0
        self.seen = 0

    def read(self, now: Moment) -> Reading | None:
        """Tokens of the fullest rank, else the longest answer."""
        if self.size <= 0.0:
            return None
        values = now.values
        if not self.metric:
            self.metric = next((name for name in _LOADS if name in values), "")
        load, used = values.get(self.metric), _reserved(values)
        if load is None or used is None:
            return None
        before, self.highest = self.highest, max(self.highest, load)
        self.seen += 1
        if self.seen <= self.limits["wait"] or load <= self.limits["warn"] * before:
            return QUIET
        if used <= self.limits["used"] * self.size:
            return QUIET
        return Reading(WARN, load, before, self.limits["warn"] * before, (used / self.size,))

    def headline(self, reading: Reading) -> str:
        """Load, largest before, and how full the device is."""
        return (
            f"{self.metric} {number(reading.value)}, at most {number(reading.baseline or 0)} before, "
            f"with GPU memory at {percent(reading.extra[0])}"
        )


_NEXT = ("seqlen_balanced_max", "response_len_max", "prompt_len_max", "mem_reserved_gb", "mem_alloc_gb")
_SIZE = "`size_gb` is the memory of one device: it is not in the stream, 0 means not known."

RULES = (
    RuleSpec(
        id="H1",
        title="GPU memory",
        family="memory",
        group=Group.SYSTEM,
        metrics=_RESERVED,
        judge=DeviceMemory,
        condition="Reserved memory above `warn` of the device while its peak rises: WARN, above `crit`: CRIT, in "
        "2 of 3 records. Three new peaks of `step` or more in 20 records, after the first `wait`: INFO. " + _SIZE,
        limits={"size_gb": 0.0, "warn": 0.92, "crit": 0.97, "step": 0.01, "wait": 30},
        patience={WARN: Patience(2, 3), CRIT: Patience(2, 3), INFO: Patience(1, 1)},
        why="The next longer batch may not fit.",
        causes=("longer sequences", "a rank with more tokens than the others", "fragmentation", "a leak"),
        next=_NEXT,
        sources="judgement; peaks are a ratchet, and inference engines reserve 0.9 of the device by design.",
    ),
    RuleSpec(
        id="H2",
        title="host memory",
        family="memory",
        group=Group.SYSTEM,
        metrics=("mem_cpu_gb",),
        judge=HostLeak,
        condition="Medians of ten records rise monotonically (Kendall's tau above `monotony`) over 100 records, by "
        "more than `warn`×: WARN; by `crit`× and reaching `size_gb` within `ahead` records: CRIT. `size_gb` is the "
        "memory of the host, 0 means not known.",
        limits={"size_gb": 0.0, "warn": 1.3, "crit": 1.2, "monotony": 0.55, "ahead": 50},
        warm_up=100,
        why="The kernel ends the process that asks for the last page.",
        causes=("rollouts or metrics that are kept", "a data loader that copies", "another job on the node"),
        next=("mem_cpu_gb", "time_step", "time_dump", "queue_size"),
        sources="judgement; veRL logs the memory of the whole node (psutil), other jobs included.",
    ),
    RuleSpec(
        id="H3",
        title="out of memory ahead",
        family="memory",
        group=Group.SYSTEM,
        metrics=_LOADS,
        judge=OutOfMemoryAhead,
        condition="More than `warn`× the largest load so far, after `wait` records, with GPU memory above `used` of "
        "the device. " + _SIZE,
        limits={"size_gb": 0.0, "warn": 1.2, "used": 0.85, "wait": 20},
        why="Peak memory follows the longest sequences of the fullest rank.",
        causes=("answers that grow", "prompts without a limit", "balancing switched off"),
        next=_NEXT,
        sources="judgement.",
    ),
)
