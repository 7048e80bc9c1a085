"""What a view reads of a run: the reading side of `ingest.Run`.

A protocol, because a screen shows a live run, the preview of one and a recorded
one alike, and asks nothing of them but this.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rltop.catalog.dialect import Identity
from rltop.catalog.ranges import Ranges
from rltop.model import Counts, Event, Label, RunState, Verdict
from rltop.store.stream import Stream

if TYPE_CHECKING:
    from rltop.run.rollouts import RolloutShelf
    from rltop.stats.ranks import RankHistory
    from rltop.stats.spans import SpanBook


RESTART_RULE = "L6"
"""What says in the event log that a run was begun anew."""


class RunSource(Protocol):
    """One run, as far as a screen needs to know it; see `ingest.tracked`."""

    @property
    def name(self) -> Label:
        """What the run is called."""
        ...

    @property
    def path(self) -> Label:
        """Where it is read from."""
        ...

    @property
    def stream(self) -> Stream:
        """Its rows: the preview until history has caught up."""
        ...

    @property
    def spans(self) -> SpanBook | None:
        """True spans of the newest steps; None where the run's files hold none."""
        ...

    @property
    def identity(self) -> Identity | None:
        """Whose keys these are; None until it is settled."""
        ...

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """Firing, then recently recovered; worst first."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """Every transition so far, in the order of the file."""
        ...

    @property
    def profiles(self) -> Sequence[str]:
        """Names of the profiles whose thresholds hold."""
        ...

    @property
    def muted(self) -> frozenset[str]:
        """Ids of the rules that are muted for this run, from the screen."""
        ...

    @property
    def silenced(self) -> frozenset[str]:
        """Ids of the rules that the settings switch off."""
        ...

    @property
    def warm_up(self) -> tuple[int, int] | None:
        """Records seen and records needed, while the rules warm up."""
        ...

    @property
    def state(self) -> RunState:
        """The state word of the header."""
        ...

    @property
    def state_note(self) -> str:
        """What is behind the state, as one sentence; may be empty."""
        ...

    @property
    def failure(self) -> Label:
        """What the writer says that it died of, as the newest thing it said; empty where it says nothing."""
        ...

    @property
    def kind_note(self) -> str:
        """What a person should know about how fresh the rows of such a file are; empty if they are."""
        ...

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest record came, or None where nobody knows."""
        ...

    @property
    def behind_bytes(self) -> int:
        """How much has been written and not read yet, where that is more than a moment's work; else 0."""
        ...

    @property
    def loading(self) -> float | None:
        """Fraction of the history that has been read; None when complete."""
        ...

    @property
    def is_awaited(self) -> bool:
        """Is there no file yet, only a place where one is expected?"""
        ...

    @property
    def is_preview(self) -> bool:
        """The stream holds the newest rows only, for the time being."""
        ...

    @property
    def counts(self) -> Counts:
        """What was read, and what was not understood."""
        ...

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, where it is known."""
        ...

    @property
    def ranges(self) -> Ranges:
        """What values its metrics were declared to have, by whoever set up the run."""
        ...

    @property
    def role(self) -> str:
        """Which stream of a run of several this is; empty for the only or the main one."""
        ...

    @property
    def is_rank(self) -> bool:
        """Is this one of many ranks, of which each says what it did?"""
        ...

    @property
    def beside(self) -> Sequence[RunSource]:
        """The other streams of the run, each with a step axis of its own."""
        ...

    @property
    def ranks(self) -> RankHistory | None:
        """What each rank did in the newest steps; None where no rank says."""
        ...

    @property
    def rollouts(self) -> RolloutShelf | None:
        """Its completions one by one; None before anybody has looked for them."""
        ...


def outlived(events: Sequence[Event]) -> frozenset[int]:
    """Numbers of the events on steps that a later restart went back behind: the rows of those steps are others now."""
    back_to: dict[str, int] = {}
    found = []
    for number in range(len(events) - 1, -1, -1):
        event = events[number]
        lowest = back_to.get(event.stream)
        if lowest is not None and event.step >= lowest:
            found.append(number)
        if event.rule == RESTART_RULE:
            back_to[event.stream] = event.step if lowest is None else min(lowest, event.step)
    return frozenset(found)


def part_of(run: RunSource, stream: str) -> RunSource:
    """The stream of that name in a run; the run itself for "" and for a name that it has not."""
    return next((part for part in run.beside if part.role == stream), run) if stream else run


def measured_part(run: RunSource) -> RunSource:
    """The stream of a run whose true spans show where its steps go; the run itself where none has any."""
    return next((part for part in (run, *run.beside) if part.spans is not None and part.spans.steps), run)


def step_in(part: RunSource, run: RunSource, at: int | None) -> int | None:
    """Where the time cursor of a run stands in another of its streams.

    Steps of two streams mean different things; what they share is time. The newest
    step of `part` that had been written when the run's step `at` was; None, the
    newest there is, where one of them does not say when its rows were written.
    """
    if at is None or part is run:
        return at
    when = _time_of(run.stream, at)
    if when is None:
        return None
    steps, times = part.stream.times()
    found = [step for step, time_s in zip(steps, times, strict=True) if time_s <= when]
    return found[-1] if found else part.stream.first_step


def _time_of(stream: Stream, step: int) -> float | None:
    """When a step was written, or the one before it that says so."""
    steps, times = stream.times()
    for i in range(bisect_right(steps, step) - 1, -1, -1):
        if not math.isnan(times[i]):
            return times[i]
    return None
