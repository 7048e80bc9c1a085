"""Bytes of a feed on their way into a pipeline, a slice at a time."""

from __future__ import annotations

from collections import deque
from typing import Protocol

from rltop.ingest.pipeline import SLICE_BYTES, Pipeline
from rltop.sources.events import Chunk, Reset, TailState
from rltop.sources.feed import Feed

TAKE_BYTES = 1024 * 1024


class Budget(Protocol):
    """How long a slice may still go on."""

    def is_spent(self) -> bool:
        """Has the slice used up its time?"""
        ...


class Intake:
    """Moves events from a feed into a pipeline, a slice at a time."""

    def __init__(self, feed: Feed, pipeline: Pipeline) -> None:
        self.feed = feed
        self.pipeline = pipeline
        self._waiting: deque[Chunk | Reset] = deque()
        self._cursor = 0

    def advance(self, budget: Budget) -> bool:
        """Decode until the budget is spent or nothing waits; True if anything was decoded."""
        has_moved = False
        while True:
            if not self._waiting:
                self._waiting.extend(self.feed.take(TAKE_BYTES))
                if not self._waiting:
                    return has_moved
            has_moved = True
            event = self._waiting[0]
            if isinstance(event, Reset):
                self.pipeline.take_reset(event)
                self._waiting.popleft()
                continue
            stop = min(self._cursor + SLICE_BYTES, len(event.data))
            self.pipeline.take_bytes(event.data[self._cursor : stop], event.offset + self._cursor, event.generation)
            self._cursor = stop
            if stop == len(event.data):
                self._waiting.popleft()
                self._cursor = 0
            if budget.is_spent():
                return True

    @property
    def is_filled(self) -> bool:
        """Has everything been decoded that the feed has to give?"""
        status = self.feed.status
        is_at_end = status.state is TailState.AT_END and self.pipeline.offset >= status.offset
        return is_at_end and not self._waiting

    @property
    def has_waiting(self) -> bool:
        """Is there something taken from the feed and not yet decoded?"""
        return bool(self._waiting)
