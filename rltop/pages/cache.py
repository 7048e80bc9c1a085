"""What views have read and need not read again: downsampled columns and timing trees.

Owns nothing that shows: every function gives what the store would give. A record
changes the newest step; what lies before it is kept until a late row, a restart or
the downsampling of old rows changes the past. Held per stream, and gone with it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from rltop.catalog.dialect import TimingPlan
from rltop.model import StepTiming
from rltop.rows.sparkline import Window
from rltop.stats.timing import step_timing
from rltop.store.series import Bucket
from rltop.store.stream import Stream
from rltop.structs import Struct, field

_MAX_LINES = 1024
_MAX_STEPS = 1024
_MAX_STARTS = 4096

Stamp = tuple[int, int, int, int | None, int | None]
_Read = TypeVar("_Read")


class _Held(Struct, frozen=False):
    """What is known of one stream, and the state of its past that it rests on."""

    stamp: Stamp
    lines: dict[tuple[str, int, int], list[Bucket]] = field(default_factory=dict)
    timings: dict[tuple[int, int], StepTiming | None] = field(default_factory=dict)
    starts: dict[Hashable, object] = field(default_factory=dict)


_HELD: WeakKeyDictionary[Stream, _Held] = WeakKeyDictionary()


def _held(stream: Stream) -> _Held:
    number = stream.segments[-1].number if stream.segments else -1
    stamp = (len(stream.segments), number, stream.counts.late_rows, stream.first_step, stream.raw_from())
    held = _HELD.get(stream)
    if held is None or held.stamp != stamp:
        held = _HELD[stream] = _Held(stamp)
    return held


def read_buckets(stream: Stream, key: str, window: Window, stop: int) -> list[Bucket]:
    """`stream.buckets(key, window.stride, window.start, stop)`, the past from memory.

    Columns before the one with the newest step are read once.
    """
    last = stream.last_step
    start, stride = window.start, window.stride
    if last is None or stop <= start or not stream.has(key):
        return stream.buckets(key, stride, start, stop)
    lines = _held(stream).lines
    if len(lines) > _MAX_LINES:
        lines.clear()
    known = lines.setdefault((key, start, stride), [])
    whole = max(0, min(last - start, stop - start) // stride)
    if len(known) < whole:
        known += stream.buckets(key, stride, start + len(known) * stride, start + whole * stride)
    return known[:whole] + stream.buckets(key, stride, start + whole * stride, stop)


def read_timings(stream: Stream, plan: TimingPlan, steps: Sequence[int]) -> Iterator[StepTiming | None]:
    """The timing trees of steps that are still held raw, the last of `steps` first, without what no stage claims.

    None where a step logs no timing.
    """
    timings, last, plan_id = _held(stream).timings, stream.last_step, id(plan)
    if len(timings) > _MAX_STEPS:
        timings.clear()
    for step in reversed(steps):
        if step == last:
            yield step_timing(plan, step, stream.row(step), 0)
            continue
        at = (step, plan_id)
        if at not in timings:
            timings[at] = step_timing(plan, step, stream.row(step), 0)
        yield timings[at]


def of_start(stream: Stream, what: Hashable, read: Callable[[], _Read]) -> _Read:
    """`read()`, which asks only for the first rows of the newest segment: once, when those will not change any more."""
    if not stream.segments or not stream.segments[-1].has_whole_head:
        return read()
    starts = _held(stream).starts
    if what not in starts:
        if len(starts) > _MAX_STARTS:
            starts.clear()
        starts[what] = read()
    return cast("_Read", starts[what])
