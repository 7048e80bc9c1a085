"""One run as the screen sees it: its feed, its pipeline, its preview, its state.

The only mutable object that views read; everything it hands out is either frozen
or belongs to the store.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from rltop.catalog.dialect import Identity
from rltop.catalog.ranges import NONE, Ranges
from rltop.clock import Clock
from rltop.model import Counts, Event, Label, Level, TimedSpan, Verdict
from rltop.run.condition import Condition
from rltop.run.pipeline import Budget, Intake, Pipeline
from rltop.run.recall import Recaller
from rltop.sources.events import TailState
from rltop.sources.feed import AwaitedFeed, Feed, SequenceFeed
from rltop.store.run import Run
from rltop.store.stream import Stream

if TYPE_CHECKING:
    from rltop.run.rollouts import RolloutShelf
    from rltop.stats.ranks import RankHistory
    from rltop.stats.spans import SpanBook

FIRST_ROWS = 32
"""Rows at the end that are shown first of all: the steps of the timing strip, and about 10 ms."""
SETTLE_S = 0.2
"""How long a row that comes value by value (TensorBoard) is waited for before it is shown as it stands: a picture."""
_BEFORE_HISTORY = frozenset({"nonfinite"})
"""Families that may speak before the whole history has been judged."""


class TrackedRun(Condition):
    """A run that is being followed, or one that was read to its end.

    Attributes:
        run: its place in the store.
        ranges: what values its metrics were declared to have.
        role: which stream of a run of several it is; empty for the only or the main one.
        is_rank: it is one of many ranks.
        rollouts: its completions one by one; None before anybody has looked for them.
        heir: who goes on where this run has been let go: the run read anew, or the one that it turned out to belong to.
    """

    def __init__(
        self,
        run: Run,
        feed: Feed,
        pipeline: Pipeline,
        clock: Clock,
        *,
        previews: Sequence[tuple[Feed, Pipeline]] = (),
        modified_s: float | None = None,
        recaller: Recaller | None = None,
        role: str = "",
        is_rank: bool = False,
        ranges: Ranges = NONE,
    ) -> None:
        self.run = run
        self.ranges = ranges
        self.role = role
        self.is_rank = is_rank
        self.rollouts: RolloutShelf | None = None
        self.heir: TrackedRun | None = None
        self._clock = clock
        self._main = Intake(feed, pipeline, clock)
        self._previews = [Intake(*each, clock) for each in previews]
        self._modified_s = modified_s
        self._recaller = recaller
        self._arrived_s: float | None = None
        self._moved_s: float | None = None
        self._settles_at: float | None = None
        self._has_caught_up = False
        self._is_finished = False
        self._touched = 0
        self._collapses = 0
        self._checkpoints: tuple[int, ...] | None = None
        self._measured: tuple[int, RankHistory | None] = (-1, None)
        self._peeked: tuple[object, Sequence[Verdict], Sequence[Event], Sequence[float | None]] = (None, (), (), ())

    # -- reading -------------------------------------------------------------------------------------------------

    def advance(self, budget: Budget) -> bool:
        """Take in what has come; True if there was anything."""
        has_moved = self._take_recalled()
        for preview in self._previews:
            has_moved = preview.advance(budget) or has_moved
        # Where the previews have used up the time, nobody has asked yet whether there is more.
        has_moved = budget.is_spent() or self._take_in(self._main.pipeline, budget) or has_moved
        self._note_progress()
        self._note_collapse()
        if self._main.feed.is_over and not self._main.has_waiting:
            self.finish()
        return has_moved

    @property
    def is_resting(self) -> bool:
        """Would `advance` find nothing to do until the bell rings?"""
        return (
            self._has_caught_up
            and self._settles_at is None
            and self._checkpoints is None
            and not self._previews
            and not self._main.has_waiting
            and (self._recaller is None or self._recaller.is_idle)
            and self._main.feed.is_at_rest
        )

    def read_newest(self, budget: Budget) -> None:
        """Take in the newest rows of a long file, as far as they are there at once."""
        while self._previews and not budget.is_spent() and self._previews[0].advance(budget):
            if self._previews[0].is_filled:
                return

    def _take_in(self, pipeline: Pipeline, budget: Budget) -> bool:
        """Decode what has come; after a moment without anything, show the newest row as far as it goes.

        What comes once history has been read is new; the rest of a row that was
        there before is not.
        """
        now = self._clock.monotonic()
        before = pipeline.stream.version
        if self._has_caught_up:
            pipeline.arrived_s = self._clock.now()
        if self._main.advance(budget):
            self._settles_at = now + SETTLE_S
            if self._has_caught_up:
                self._moved_s = pipeline.arrived_s
            if self._has_caught_up and pipeline.stream.version != before:
                self._arrived_s = pipeline.arrived_s
            return True
        if self._settles_at is None or now < self._settles_at:
            return False
        self._settles_at = None
        pipeline.flush()
        return pipeline.has_more or pipeline.stream.version != before

    def extend(self, paths: Sequence[str]) -> bool:
        """Go on with further files of the same stream; False where its feed cannot."""
        feed = self._main.feed
        if not isinstance(feed, SequenceFeed):
            return False
        feed.extend(paths)
        return True

    def finish(self) -> None:
        """The source is at its end for good: judge the last step too."""
        if not self._is_finished:
            self._is_finished = True
            self._main.pipeline.finish()
            self._note_collapse()

    @property
    def is_awaited(self) -> bool:
        """Is there no file yet, only a place where one is expected?"""
        return isinstance(self._main.feed, AwaitedFeed)

    @property
    def is_exhausted(self) -> bool:
        """Will the feed never give anything again?"""
        return self._main.feed.is_exhausted and not self._main.has_waiting

    def close(self) -> None:
        """Let go of the files."""
        for intake in (self._main, *self._previews):
            intake.feed.close()
        if self.rollouts is not None:
            self.rollouts.close()

    def _note_progress(self) -> None:
        if not self._has_caught_up:
            # A feed without an answer has nothing to give now, and yet owes the rest of the history.
            feed = self._main.feed
            is_exhausted = feed.is_exhausted and feed.status.state is not TailState.STUCK
            self._has_caught_up = self._main.is_filled or (is_exhausted and not self._main.has_waiting)
        while self._previews and self._is_superseded(self._previews[0].pipeline):
            self._previews.pop(0).feed.close()
        while len(self._previews) > 1 and self._previews[1].is_filled:
            self._previews.pop(0).feed.close()

    def _is_superseded(self, preview: Pipeline) -> bool:
        """Does history show all that the preview does? The two read on their own and see a new row in either order."""
        main = self._main.pipeline
        if main.generation != preview.generation or not preview.offset:
            return self._has_caught_up
        return main.offset >= preview.offset

    # -- what a view reads ------------------------------------------------------------------------------------------

    @property
    def name(self) -> Label:
        """The run's name."""
        return self.run.name

    @property
    def path(self) -> Label:
        """Where it is read from."""
        return self.run.path

    @property
    def _shown(self) -> Pipeline:
        return next((one.pipeline for one in self._previews if one.pipeline.stream.rows), self._main.pipeline)

    @property
    def is_opening(self) -> bool:
        """Is what would be shown still on its way to the newest row, which a moment will bring?"""
        preview = self._previews[0] if self._previews else None
        return preview is not None and not preview.is_filled and preview.feed.status.state is TailState.READING

    @property
    def is_preview(self) -> bool:
        """Are only the last rows shown, while history is being read?"""
        return self._shown is not self._main.pipeline

    @property
    def stream(self) -> Stream:
        """The stream to show: the preview's until history has caught up."""
        return self._shown.stream

    @property
    def spans(self) -> SpanBook | None:
        """True spans of the newest steps; None where the run's files hold none."""
        return self._main.pipeline.spans

    @property
    def identity(self) -> Identity | None:
        """Dialect, algorithm and signals, as far as known."""
        return self._shown.current_identity()

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, if known."""
        return None if self.identity is None else self.identity.group_size

    @property
    def version(self) -> Hashable:
        """Moves whenever something that a view shows has moved, time aside."""
        return (
            id(self._shown.stream),
            self._shown.stream.version,
            self._is_finished,
            self._has_caught_up,
            self._touched,
            0 if self.rollouts is None else self.rollouts.version,
        )

    @property
    def loading(self) -> float | None:
        """Fraction of the file that has been read; None when all of it has."""
        if self._has_caught_up or self._is_finished:
            return None
        status = self._main.feed.status
        if not status.size:
            return 0.0 if self._previews else None
        return min(1.0, max(self._main.pipeline.offset, status.searched) / status.size)

    @property
    def counts(self) -> Counts:
        """Everything read, and everything not understood."""
        total = Counts()
        total.add(self._main.pipeline.decoder.counts)
        total.add(self._main.pipeline.stream.counts)
        status = self._main.feed.status
        total.nul_bytes += status.nul_bytes
        total.unreadable_files += len(status.left_out)
        total.first_unreadable = status.left_out[0] if status.left_out else ""
        return total

    @property
    def events(self) -> Sequence[Event]:
        """Every transition so far, in the order of the file; of the newest row, which may change, as provisional."""
        self._peek()
        return self._peeked[2]

    @property
    def event_times(self) -> Sequence[float | None]:
        """When the row behind each event was written, as far as it says."""
        self._peek()
        return self._peeked[3]

    @property
    def beside(self) -> Sequence[TrackedRun]:
        """The other streams of the same run, each with a step axis of its own."""
        return ()

    @property
    def ranks(self) -> RankHistory | None:
        """What each rank did in the newest steps; None where no rank says."""
        book = self.spans
        if book is None:
            return None
        if self._measured[0] != book.version:
            from rltop.stats.ranks import measured_ranks  # noqa: PLC0415 - only where spans are written down

            self._measured = (book.version, measured_ranks(book))
        return self._measured[1]

    @property
    def profiles(self) -> Sequence[str]:
        """Names of the profiles whose thresholds hold; the event log says why."""
        judge = self._main.pipeline.judge
        return () if judge is None else [profile.name for profile in judge.profiles]

    @property
    def warm_up(self) -> tuple[int, int] | None:
        """(records seen, records wanted) while rules warm up; None when they have."""
        pipeline = self._main.pipeline
        return None if pipeline.judge is None else pipeline.judge.warm_up(pipeline.stream)

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """What fires now and what has just recovered, worst first, silence included."""
        found = self._peek()
        beside = [one for one in (self._silence(self.age_s), self._reception_verdict()) if one is not None]
        if not beside:
            return found
        return sorted([*found, *beside], key=lambda v: (*v.urgency, v.since_record))

    def _peek(self) -> Sequence[Verdict]:
        """Verdicts; looks at the open row when something has moved, and notes what events it would make."""
        judge = self._main.pipeline.judge
        settled = [] if judge is None else judge.events
        version = (self.version, len(settled))
        if self._peeked[0] != version:
            seen = self._shown.peek()
            verdicts = () if seen is None else seen.verdicts
            times = [] if judge is None else judge.event_times
            if self.is_preview or self.loading is not None:
                verdicts = [v._replace(is_provisional=True) for v in verdicts if v.family in _BEFORE_HISTORY]
                seen = None
            if seen is None or not seen.events:
                self._peeked = (version, verdicts, settled, times)
            else:
                self._peeked = (version, verdicts, [*settled, *seen.events], [*times, *seen.event_times])
        return self._peeked[1]

    def take_spans_with(self, sink: Callable[[Sequence[TimedSpan]], None]) -> None:
        """Hand the true spans of every step to `sink` too, as they are read."""
        self._main.pipeline.span_sink = sink

    def mute(self, rule: str, is_muted: bool = True) -> None:
        """Leave a rule's verdicts out of `verdicts` for this run, or put them back; its events go on being logged.

        Raises:
            KeyError: there is no such rule.
        """
        for intake in (self._main, *self._previews):
            if intake.pipeline.judge is not None:
                intake.pipeline.judge.mute(rule, is_muted)
        self._touched += 1

    @property
    def muted(self) -> frozenset[str]:
        """Ids of the rules that are muted for this run."""
        judge = self._main.pipeline.judge
        return frozenset() if judge is None else judge.muted

    @property
    def silenced(self) -> frozenset[str]:
        """Ids of the rules that the settings switch off."""
        judge = self._main.pipeline.judge
        return frozenset() if judge is None else judge.options.silenced(self.profiles)

    @property
    def records(self) -> int:
        """Training rows judged so far."""
        judge = self._main.pipeline.judge
        return 0 if judge is None else judge.records

    @property
    def has_caught_up(self) -> bool:
        """Has everything been read that was there when it was opened? What comes from now on is new."""
        return self._has_caught_up or self._is_finished

    @property
    def kind_note(self) -> str:
        """What a person should know about how fresh the rows of such a file are; empty if they are."""
        return self._main.pipeline.kind_note

    # -- the past -----------------------------------------------------------------------------------------------------

    def recall(self, step: int) -> None:
        """Ask for the row of a step that memory has downsampled; it comes when the file answers."""
        stream = self.stream
        if self._recaller is None or stream.downsampled_range(step) is None:
            return
        position = stream.position(step)
        if position is not None and position.generation == self._main.pipeline.generation:
            self._recaller.ask(step, position)

    def _note_collapse(self) -> None:
        """A collapse has begun: see which checkpoints there are, in a thread where the file server may not answer."""
        judge = self._main.pipeline.judge
        if judge is None:
            return
        if self._checkpoints is not None:
            judge.take_checkpoints(self._checkpoints)
            self._checkpoints = None
            self._touched += 1
        if judge.collapses == self._collapses or self.run.path.raw == "-":
            return
        self._collapses = judge.collapses
        if self._main.feed.is_network:
            threading.Thread(target=self._find_checkpoints, name="checkpoints", daemon=True).start()
        else:
            self._find_checkpoints()
            self._note_collapse()

    def _find_checkpoints(self) -> None:
        from rltop.run.beside import checkpoint_steps  # noqa: PLC0415 - only for a run that collapses

        self._checkpoints = checkpoint_steps(self.run.path.raw)

    def _take_recalled(self) -> bool:
        rows = self._recaller.take() if self._recaller is not None else []
        for step, row in rows:
            self._main.pipeline.stream.recall(step, row)
        return bool(rows)

    @property
    def level(self) -> Level:
        """The worst level that fires now."""
        levels = [verdict.level for verdict in self.verdicts if verdict.recovered_step is None]
        if levels:
            return max(levels)
        return Level.OK if self.stream.rows else Level.NO_DATA
