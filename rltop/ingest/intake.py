"""Bytes of a feed on their way into a pipeline, a slice at a time."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from rltop.clock import Clock
from rltop.ingest.pipeline import Pipeline
from rltop.sources.events import Chunk, Reset, TailState
from rltop.sources.feed import Feed

TAKE_BYTES = 1024 * 1024
MOST_BYTES = 64 * 1024
"""Bytes decoded between two looks at the clock: rows of metrics take about 1 ms."""
FEWEST_BYTES = 1024
SLICE_S = 0.002
"""Bytes that take longer (nothing but line ends, two numbers to a row) are decoded in smaller slices."""


class Budget(Protocol):
    """How long a slice may still go on."""

    def is_spent(self) -> bool:
        """Has the slice used up its time?"""
        ...


class Intake:
    """Moves events from a feed into a pipeline, a slice at a time.

    How long some bytes take is known when they have been decoded: the size of the next
    slice follows from the last one. A decoder that keeps some of what it was given is asked
    to go on before it is given anything else.
    """

    def __init__(self, feed: Feed, pipeline: Pipeline, clock: Clock) -> None:
        self.feed = feed
        self.pipeline = pipeline
        self._clock = clock
        self._waiting: deque[Chunk | Reset] = deque()
        self._cursor = 0
        self._slice_bytes = MOST_BYTES // 8

    def advance(self, budget: Budget) -> bool:
        """Decode until the budget is spent or nothing waits; True if anything was decoded."""
        has_moved = False
        while True:
            if self.pipeline.has_more:
                self.pipeline.go_on()
            elif self._waiting or self._take():
                self._take_in(self._waiting[0])
            else:
                return has_moved
            has_moved = True
            if budget.is_spent():
                return True

    def _take(self) -> bool:
        self._waiting.extend(self.feed.take(TAKE_BYTES))
        return bool(self._waiting)

    def _take_in(self, event: Chunk | Reset) -> None:
        if isinstance(event, Reset):
            self.pipeline.take_reset(event)
            self._waiting.popleft()
            return
        began_s = self._clock.monotonic()
        stop = min(self._cursor + self._slice_bytes, len(event.data))
        self.pipeline.take_bytes(event.data[self._cursor : stop], event.offset + self._cursor, event.generation)
        self._fit_slice(stop - self._cursor, self._clock.monotonic() - began_s)
        self._cursor = stop
        if stop == len(event.data):
            self._waiting.popleft()
            self._cursor = 0

    def _fit_slice(self, size: int, took_s: float) -> None:
        """Make the next slice as large as takes its time, but not many times larger than the last one."""
        fitting = int(size * min(4.0, SLICE_S / took_s)) if took_s > 0.0 else MOST_BYTES
        self._slice_bytes = max(FEWEST_BYTES, min(MOST_BYTES, fitting))

    @property
    def is_filled(self) -> bool:
        """Has everything been decoded that the feed has to give?"""
        status = self.feed.status
        is_at_end = status.state is TailState.AT_END and self.pipeline.offset >= status.offset
        return is_at_end and not self.has_waiting

    @property
    def has_waiting(self) -> bool:
        """Is there something taken from the feed and not yet decoded?"""
        return bool(self._waiting) or self.pipeline.has_more
