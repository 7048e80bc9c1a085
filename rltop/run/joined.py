"""A run of several streams: the one whose steps are the run's, and others beside it.

Every stream keeps its own rows, step axis, dialect and judge; nothing is merged by
a step that means something else. What is joined is what can be: verdicts and events,
each saying whose steps it counts in, and the ranks, which are compared.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from rltop.model import Counts, Event, Label, Verdict
from rltop.run.pipeline import Budget
from rltop.run.rank_watch import RankWatch
from rltop.run.run import TrackedRun
from rltop.stats.ranks import RankHistory


class _Turn:
    """One slice for one stream, so that none runs ahead of the others."""

    def __init__(self) -> None:
        self._is_begun = False

    def is_spent(self) -> bool:
        """Only the first question, before the slice, is answered with no."""
        was_begun, self._is_begun = self._is_begun, True
        return was_begun


class JoinedRun(TrackedRun):
    """A run with any number of streams beside its main one.

    Attributes:
        streams: the others that are judged, by precedence.
        rank_streams: what every rank wrote, compared with each other only.
    """

    streams: list[TrackedRun]
    rank_streams: list[TrackedRun]

    def join(self, streams: Iterable[TrackedRun], rank_streams: Iterable[TrackedRun], watch: RankWatch | None) -> None:
        """Put other streams beside this one."""
        self.streams, self.rank_streams = list(streams), list(rank_streams)
        self._watch = watch
        self._next = 0
        self._merged: tuple[tuple[tuple[int, Event | None], ...], list[Event]] = ((), [])

    @property
    def _all(self) -> list[TrackedRun]:
        return [*self.streams, *self.rank_streams]

    # -- reading -------------------------------------------------------------------------------------------------

    def advance(self, budget: Budget) -> bool:
        """Take in what has come, a slice of each stream in turn."""
        has_moved = super().advance(budget)
        others = self._all
        for _ in others:
            if budget.is_spent():
                break
            has_moved = others[self._next % len(others)].advance(_Turn()) or has_moved
            self._next += 1
        if self._watch is not None:
            has_moved = self._watch.advance() or has_moved
        return has_moved

    @property
    def is_resting(self) -> bool:
        """Would `advance` find nothing to do until the bell rings?"""
        return self._watch is None and super().is_resting and all(each.is_resting for each in self._all)

    def finish(self) -> None:
        """All streams are at their end."""
        super().finish()
        for each in self._all:
            each.finish()
        if self._watch is not None:
            self._watch.advance(is_end=True)

    @property
    def is_exhausted(self) -> bool:
        """Will no stream ever give anything again?"""
        return super().is_exhausted and all(each.is_exhausted for each in self._all)

    def close(self) -> None:
        """Let go of the files of all streams."""
        super().close()
        for each in self._all:
            each.close()

    def mute(self, rule: str, is_muted: bool = True) -> None:
        """Take a rule's verdicts of all streams out of what is shown, or put them back."""
        super().mute(rule, is_muted)
        for each in self.streams:
            each.mute(rule, is_muted)

    # -- what a view reads ------------------------------------------------------------------------------------------

    @property
    def beside(self) -> Sequence[TrackedRun]:
        """The other streams, those of ranks last."""
        return self._all

    @property
    def ranks(self) -> RankHistory | None:
        """What the ranks did in the newest steps; None where no rank says."""
        return super().ranks if self._watch is None else self._watch.history

    @property
    def version(self) -> Hashable:
        """Moves whenever something that a view shows has moved, time aside."""
        return (super().version, *(each.version for each in self._all))

    @property
    def loading(self) -> float | None:
        """Fraction of the slowest stream that has been read; None when all have been."""
        parts = [part for part in (super().loading, *(each.loading for each in self._all)) if part is not None]
        return min(parts, default=None)

    @property
    def behind_bytes(self) -> int:
        """What of all streams is there and has not been read."""
        return super().behind_bytes + sum(each.behind_bytes for each in self._all)

    @property
    def has_caught_up(self) -> bool:
        """Has everything been read that was there when the streams were opened?"""
        return super().has_caught_up and all(each.has_caught_up for each in self._all)

    @property
    def failure(self) -> Label:
        """What the writer of any stream says that it died of."""
        said = [super().failure, *(each.failure for each in self._all)]
        return next((one for one in said if one.raw), said[0])

    @property
    def counts(self) -> Counts:
        """Everything read, and everything not understood, of all streams."""
        total = super().counts
        for each in self._all:
            total.add(each.counts)
        return total

    @property
    def events(self) -> Sequence[Event]:
        """Every transition of every stream, by the time that the rows name; else stream by stream, this one last."""
        own = self._own_events()
        sources = [(each.role, each.events, each.event_times) for each in self.streams]
        if self._watch is not None:
            sources.append(("", self._watch.events, self._watch.event_times))
        sources.append(("", own, self.event_times))
        # An event of the newest row is another one when the row is closed: the number alone does not tell.
        known = tuple((len(events), events[-1] if events else None) for _, events, _ in sources)
        if self._merged[0] != known:
            self._merged = (known, _merge(sources))
        return self._merged[1]

    def _own_events(self) -> Sequence[Event]:
        return super().events

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """What fires now and what has just recovered in any stream, worst first."""
        found = list(super().verdicts)
        if self._watch is not None:
            found += [one for one in self._watch.verdicts if one.rule not in self.muted]
        for each in self.streams:
            found += [one._replace(stream=each.role, headline=f"{each.role}: {one.headline}") for one in each.verdicts]
        return sorted(found, key=lambda v: (*v.urgency, v.stream, v.since_record))


def _merge(sources: Sequence[tuple[str, Sequence[Event], Sequence[float | None]]]) -> list[Event]:
    """Events of all streams in one order that does not depend on how they were read."""
    found = [
        (time_s, event._replace(stream=role) if role else event)
        for role, events, times in sources
        for event, time_s in zip(events, times, strict=True)
    ]
    if any(time_s is None for time_s, _ in found):
        return [event for _, event in found]
    return [event for _, event in sorted(found, key=lambda one: one[0] or 0.0)]
