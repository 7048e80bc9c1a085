"""A run at one step: the only interface for pages, one-shot output and documents.

A snapshot is a handle, created for each picture: it copies nothing, reads the store lazily, and is valid for one
synchronous paint. Several may be used side by side. Computed values are cached by the `RunStream` in its `Memo`, which
only speeds up reads: every method returns what the store would. A record changes the newest step; cached values of
earlier steps are kept until a late row, a restart or downsampling changes them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

from rltop.catalog.dialect import Identity, TimingPlan
from rltop.catalog.families import Family, Numbered, family_index, numbered_index
from rltop.model import Event, Signal, StepTiming, Verdict
from rltop.run.past import History, history_of, step_at_same_time
from rltop.stats.timing import step_timing
from rltop.store.series import Bucket
from rltop.store.stream import Stream
from rltop.structs import Remembered

if TYPE_CHECKING:
    from rltop.run.rollouts import RolloutShelf
    from rltop.run.run import Run
    from rltop.run.run_stream import RunStream

_Source: TypeAlias = "Run | RunStream"


class Snapshot:
    """A run, or another stream of it, at one step.

    After a restart, a step refers to the newest segment that has it. While history is read, rows and identity are those
    of a preview; events and spans are always those of the whole file.

    Args:
        at_step: a step of its own steps; None follows the newest one, including the open row.
        main: determines the step by time, instead of `at_step`.

    Attributes:
        source: provides events, verdicts and state: the run, or another stream of it.
        part: provides rows and their age: the main stream of the run, or that other stream.
        name, path: of the run or the stream.
        role: which stream of a run it is; empty for the only or the main one.
        identity: of the rows; None until it is determined.
        stream: the rows of all steps: those of the preview until history has caught up.
    """

    def __init__(
        self, run: Run, at_step: int | None = None, source: RunStream | None = None, main: Snapshot | None = None
    ) -> None:
        self.run = run
        self.source: _Source = run if source is None else source
        self.part: RunStream = run.main if source is None else source
        self.name, self.path, self.role = self.source.name, self.source.path, self.source.role
        self.identity, self.stream = self.part.identity, self.part.stream
        self._at_step = at_step
        self._main = main

    def within(self, role: str) -> Snapshot:
        part = next((part for part in self._others if part.role == role), None) if role else None
        return self if part is None else Snapshot(self.run, source=part, main=self)

    def at(self, step: int | None) -> Snapshot:
        return Snapshot(self.run, step, None if self.source is self.run else self.part)

    @property
    def _others(self) -> Sequence[RunStream]:
        return self.run.other_streams if self.source is self.run else ()

    @property
    def streams(self) -> Sequence[Snapshot]:
        """This one, then the other streams of the run at the same time, ranks last."""
        return (self, *(Snapshot(self.run, source=part, main=self) for part in self._others))

    # -- the step ----------------------------------------------------------------------------------------------------

    @property
    def at_step(self) -> int | None:
        """The step in this stream's own steps; None follows the newest one."""
        main = self._main
        if main is not None:
            at = main.at_step
            self._at_step = None if at is None else step_at_same_time(main.stream, at, self.stream)
            self._main = None
        return self._at_step

    @property
    def step(self) -> int | None:
        """The displayed step: the requested one, else the newest; None without a row."""
        at = self.at_step
        return at if at is not None else self.stream.last_step

    @property
    def segment(self) -> int | None:
        """Number of the newest segment that reaches back to the step; None without a row."""
        step = self.step
        reaching = (one for one in reversed(self.stream.segments) if step is not None and (one.first_step or 0) <= step)
        return next((segment.number for segment in reaching), None)

    # -- contents ----------------------------------------------------------------------------------------------------

    @property
    def rollouts(self) -> RolloutShelf | None:
        return self.run.rollouts if self.source is self.run else None

    @property
    def past_events(self) -> Sequence[Event]:
        """The transitions up to the step; those of other streams, which count differently, only at the newest step."""
        at, events = self.at_step, self.source.events
        return events if at is None else [one for one in events if not one.stream and one.step <= at]

    # -- alerts at the step ------------------------------------------------------------------------------------------

    @cached_property
    def standing(self) -> tuple[Verdict, ...]:
        """The alerts at the step, worst first; at the newest step including just recovered ones.

        A past one has the headline of its last transition, and its baseline as the only evidence.
        """
        return self.source.verdicts_at(self.at_step)

    @cached_property
    def firing(self) -> list[Verdict]:
        return [verdict for verdict in self.standing if verdict.is_active]

    @property
    def history(self) -> History:
        """Its alerts up to the step; currently muted ones are excluded and counted."""
        return self.part.memo.history(self.past_events, self.part.judging.muted)

    @cached_property
    def set_aside(self) -> tuple[Verdict, ...]:
        """The excluded alerts at the step, which are acknowledged or muted now; worst first."""
        return self.source.muted_at(self.at_step)

    # -- timing ------------------------------------------------------------------------------------------------------

    @property
    def timing(self) -> Timing:
        """Timing of this step and earlier ones, in this stream."""
        return Timing(self)

    @property
    def measured(self) -> Snapshot:
        """The stream with measured spans, at the same time; this one if none has any."""
        return next((one for one in self.streams if one.timing.is_measured), self)


class Timing:
    """Timing of the steps up to a snapshot's: measured spans, else estimated from rows."""

    __slots__ = ("_snapshot",)

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def is_measured(self) -> bool:
        spans = self._snapshot.part.known.pipeline.spans
        return spans is not None and bool(spans.steps)

    @property
    def plan(self) -> TimingPlan | None:
        """How the trainer's durations nest; None if it logs no known ones."""
        identity = self._snapshot.identity
        return None if identity is None else identity.dialect.timing

    def history(self, count: int, unclaimed: int | None = None) -> list[StepTiming]:
        """The timing trees of the last `count` steps up to the snapshot's, oldest first.

        Only steps with raw rows in memory and a logged timing. Measured spans take precedence.

        Args:
            count: maximum number of steps.
            unclaimed: number of durations without a stage, longest first, in the newest tree; None: all. The other
                trees have none.
        """
        until, spans = self._snapshot.at_step, self._snapshot.part.known.pipeline.spans
        if spans is not None and spans.steps:
            held: Sequence[int] = spans.steps
            known = held[: len(held) if until is None else bisect_right(held, until)]
            if known:
                return [timing for step in known[-count:] if (timing := spans.timing(step)) is not None]
        plan, stream = self.plan, self._snapshot.stream
        if plan is None:
            return []
        if until is None:
            steps: Sequence[int] = stream.steps(last=2 * count)
        else:
            held = stream.steps()
            stop = bisect_right(held, until)
            steps = held[max(0, stop - 2 * count) : stop]
        found: list[StepTiming] = []
        for timing in self._snapshot.part.memo.timings(plan, steps, unclaimed):
            if timing is not None:
                found.append(timing)
            if len(found) == count:
                break
        if found and found[0].step != stream.last_step:
            newest = found[0].step
            found[0] = step_timing(plan, newest, stream.row(newest), unclaimed) or found[0]
        return found[::-1]

    def exact(self, unclaimed: int | None = None) -> StepTiming | None:
        """The tree of the snapshot's step from its row alone; None without a logged timing or a set step."""
        plan, at = self.plan, self._snapshot.at_step
        if plan is None or at is None:
            return None
        return step_timing(plan, at, self._snapshot.stream.row(at), unclaimed)


_MAX_LINES = 1024
_MAX_STEPS = 1024
_MAX_STARTS = 4096

_Read = TypeVar("_Read")


class Memo:
    """Cache of values computed from one stream."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._checked = -1
        self._state: Hashable = None
        self._lines: dict[tuple[str, int, int], list[Bucket]] = {}
        self._timings: dict[tuple[int, int], StepTiming | None] = {}
        self._starts: dict[Hashable, object] = {}
        self._of_rows: tuple[int, dict[Hashable, object]] = (-1, {})
        self.remembered = Remembered()

    def _check(self) -> None:
        stream = self.stream
        if self._checked == stream.version:
            return
        self._checked = stream.version
        number = stream.segments[-1].number if stream.segments else -1
        state = (len(stream.segments), number, stream.counts.late_rows, stream.first_step, stream.raw_from())
        if state != self._state:
            self._state = state
            self._lines, self._timings, self._starts = {}, {}, {}

    def buckets(self, key: str, stride: int, start: int, stop: int) -> list[Bucket]:
        """`stream.buckets(key, stride, start, stop)`, with cached past buckets.

        Buckets before the one with the newest step are read once.

        Args:
            start: first step of the first bucket.

        Returns:
            Bucket i covers the steps from `start + i * stride` on; values as logged.
        """
        stream = self.stream
        last = stream.last_step
        if last is None or stop <= start or not stream.has(key):
            return stream.buckets(key, stride, start, stop)
        self._check()
        if len(self._lines) > _MAX_LINES:
            self._lines.clear()
        known = self._lines.setdefault((key, start, stride), [])
        whole = max(0, min(last - start, stop - start) // stride)
        if len(known) < whole:
            known += stream.buckets(key, stride, start + len(known) * stride, start + whole * stride)
        return known[:whole] + stream.buckets(key, stride, start + whole * stride, stop)

    def timings(self, plan: TimingPlan, steps: Sequence[int], unclaimed: int | None = 0) -> Iterator[StepTiming | None]:
        """The timing trees of steps; only the newest has durations without a stage (`unclaimed`, see `step_timing`).

        Args:
            steps: ascending; all with raw rows in memory.

        Returns:
            The tree of each step, the last step first; None for a step without a timing.
        """
        self._check()
        stream, timings, plan_id = self.stream, self._timings, id(plan)
        last = stream.last_step
        if len(timings) > _MAX_STEPS:
            timings.clear()
        for step in reversed(steps):
            if step == last:
                yield step_timing(plan, step, stream.row(step), unclaimed)
                continue
            at = (step, plan_id)
            if at not in timings:
                timings[at] = step_timing(plan, step, stream.row(step), 0)
            yield timings[at]

    def of_start(self, what: Hashable, read: Callable[[], _Read]) -> _Read:
        """A value derived from the first rows of the newest segment; computed once when these are complete."""
        stream = self.stream
        if not stream.segments or not stream.segments[-1].has_whole_head:
            return read()
        self._check()
        if what not in self._starts:
            if len(self._starts) > _MAX_STARTS:
                self._starts.clear()
            self._starts[what] = read()
        return cast("_Read", self._starts[what])

    def of_rows(self, what: Hashable, read: Callable[[], _Read]) -> _Read:
        """A value derived from all rows; recomputed after every change."""
        if self._of_rows[0] != self.stream.version:
            self._of_rows = (self.stream.version, {})
        known = self._of_rows[1]
        if what not in known:
            known[what] = read()
        return cast("_Read", known[what])

    def history(self, events: Sequence[Event], muted: frozenset[str]) -> History:
        """The history of alerts; recomputed when events or muted rules change."""
        return self.remembered.of("history", (tuple(events), muted), lambda: history_of(events, muted))

    def families(self) -> dict[str, Family]:
        """Every key that belongs to a family → that family; rebuilt for new keys."""
        keys = self.stream.keys
        return self.remembered.of("families", len(keys), lambda: dict(family_index(tuple(keys))))

    def numbered(self) -> dict[str, Numbered]:
        """Every key of a numbered group → that group; rebuilt for new keys."""
        keys = self.stream.keys
        return self.remembered.of("numbered", len(keys), lambda: numbered_index(tuple(keys)))

    def signals(self, identity: Identity) -> Mapping[str, Signal]:
        """Key → its catalogue signal; if it serves several metrics, the first."""
        return self.remembered.of("signals", identity, lambda: _by_key(identity))


def _by_key(identity: Identity) -> Mapping[str, Signal]:
    found: dict[str, Signal] = {}
    for signals in identity.signals.values():
        for signal in signals:
            found.setdefault(signal.key, signal)
    return found
