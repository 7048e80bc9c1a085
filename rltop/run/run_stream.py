"""One stream of a run: how it is read, how it is doing, what the rules say of it."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

from rltop.catalog.dialect import Identity
from rltop.catalog.ranges import NONE, Ranges
from rltop.clock import Clock
from rltop.model import Counts, Event, Label, RunState, Verdict
from rltop.run.memo import Memo
from rltop.run.past import standing_at, worst_first
from rltop.run.pipeline import Budget
from rltop.run.recall import Recaller
from rltop.run.stream_reader import ReadPath, StreamReader
from rltop.run.stream_status import StreamStatus
from rltop.run.stream_verdicts import CheckpointFinder, Judged, StreamVerdicts
from rltop.store.stream import Stream

if TYPE_CHECKING:
    from rltop.stats.ranks import RankHistory
    from rltop.stats.spans import SpanBook


class RunStream:
    """A stream that is being followed, or one that was read to its end.

    Args:
        path: where it is read from.
        whole: feed, pipeline and rules of the whole file.
        clock: arrival times and ages.
        previews: of the last rows of a large file, the fewest rows first.
        role: which stream of a run of several it is; empty for the only or the main one.
        is_rank: it is one of many ranks, which are compared with each other only.
        modified_s: when the file was last written to as it was opened, seconds since the epoch, or None.
        recaller: reads rows again that memory has downsampled.
        ranges: what values its metrics were declared to have.

    Attributes:
        path, role, is_rank, ranges: as given.
        reader: how it is read.
        status: how it is doing by the clock.
        rules: what the rules say of it.
    """

    def __init__(
        self,
        path: Label,
        whole: ReadPath,
        clock: Clock,
        *,
        previews: Sequence[ReadPath] = (),
        role: str = "",
        is_rank: bool = False,
        modified_s: float | None = None,
        recaller: Recaller | None = None,
        ranges: Ranges = NONE,
    ) -> None:
        self.path = path
        self.role = role
        self.is_rank = is_rank
        self.ranges = ranges
        self.reader = StreamReader(whole, clock, previews, recaller, modified_s)
        self.status = StreamStatus(self.reader, clock, modified_s)
        self.rules = StreamVerdicts(self.reader, self.status)
        self._checkpoints = CheckpointFinder(path.raw, is_network=whole.feed.is_network)
        self._measured: tuple[int, RankHistory | None] = (-1, None)
        self._memo = Memo(self.stream)

    # -- reading -------------------------------------------------------------------------------------------------

    def advance(self, budget: Budget) -> bool:
        """Take in what has come; True if there was anything."""
        has_moved = self.reader.advance(budget)
        self._note_collapse()
        if self.reader.is_over:
            self.finish()
        return has_moved

    def finish(self) -> None:
        """The source is at its end for good: judge the last step too."""
        if not self.reader.is_finished:
            self.reader.finish()
            self._note_collapse()

    def _note_collapse(self) -> None:
        """A collapse names the last checkpoint before it: see which there are."""
        rules = self.reader.known.rules
        if rules is not None and self._checkpoints.look_for(rules):
            self.rules.changes += 1

    @property
    def is_resting(self) -> bool:
        """Would `advance` find nothing to do until there is news?"""
        return self.reader.is_resting and not self._checkpoints.has_found

    # -- rows --------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> Label:
        """What the stream is called within its run."""
        return Label.of(self.role)

    @property
    def stream(self) -> Stream:
        """The rows to show: the preview's until history has caught up."""
        return self.reader.shown.pipeline.stream

    @property
    def memo(self) -> Memo:
        """What has been worked out of the rows to show."""
        stream = self.stream
        if self._memo.stream is not stream:
            self._memo = Memo(stream)
        return self._memo

    @property
    def identity(self) -> Identity | None:
        """Dialect, algorithm and signals, as far as known."""
        return self.reader.shown.pipeline.current_identity()

    @property
    def group_size(self) -> int | None:
        """Completions per prompt, if known."""
        return None if self.identity is None else self.identity.group_size

    @property
    def is_awaited(self) -> bool:
        """Is there no file yet, only a place where one is expected?"""
        return self.reader.is_awaited

    @property
    def is_preview(self) -> bool:
        """Are only the last rows shown, while history is being read?"""
        return self.reader.is_preview

    @property
    def spans(self) -> SpanBook | None:
        """True spans of the newest steps; None where the file holds none."""
        return self.reader.known.pipeline.spans

    @property
    def ranks(self) -> RankHistory | None:
        """What each rank did in the newest steps, by the spans; None where there are none."""
        book = self.spans
        if book is None:
            return None
        if self._measured[0] != book.version:
            from rltop.stats.ranks import measured_ranks  # noqa: PLC0415 - only where spans are written down

            self._measured = (book.version, measured_ranks(book))
        return self._measured[1]

    @property
    def version(self) -> Hashable:
        """Moves whenever something that a view shows has moved, time aside."""
        stream, reader = self.stream, self.reader
        said = self.status.failure.raw, 0 if stream.rows else self.counts.lines
        read = reader.rests, reader.is_finished, reader.has_caught_up
        return (id(stream), stream.version, *read, self.rules.changes, said)

    # -- now ---------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> RunState:
        """The state word."""
        return self.status.state(self.status.failure)

    @property
    def state_note(self) -> str:
        """What is being waited for, or what is wrong with the file; empty when all is well."""
        return self.status.note

    @property
    def kind_note(self) -> str:
        """What a person should know about how fresh the rows of such a file are; empty if they are."""
        return self.reader.known.pipeline.kind_note

    @property
    def kind_title(self) -> str:
        """As what the file is read; empty while that is not known."""
        return self.reader.known.pipeline.kind_title

    @property
    def age_s(self) -> float | None:
        """Seconds since the newest row; None if there is none, no way to tell, or nothing more to come."""
        return self.status.age_s

    @property
    def failure(self) -> Label:
        """What the writer says that it died of; empty where it says nothing."""
        return self.status.failure

    @property
    def failure_log(self) -> str:
        """A stream speaks for itself: the log beside it is the run's."""
        return ""

    @property
    def behind_bytes(self) -> int:
        """How much has been written and not read yet, where that is more than a moment's work; else 0."""
        return self.status.behind_bytes

    @property
    def loading(self) -> float | None:
        """Fraction of the file that has been read; None when all of it has."""
        return self.reader.loading

    @property
    def left_s(self) -> float | None:
        """How long the rest of the history will take; None where that is not worth a word."""
        return self.reader.left_s

    @property
    def counts(self) -> Counts:
        """Everything read, and everything not understood."""
        return self.reader.counts

    # -- verdicts ----------------------------------------------------------------------------------------------------

    @property
    def is_judged(self) -> bool:
        """Is it known what the rules say of the rows so far?"""
        return self.rules.is_judged(self.version, is_loading=self.loading is not None)

    @property
    def _judged(self) -> Judged:
        return self.rules.judged(self.version, is_loading=self.loading is not None)

    @property
    def events(self) -> Sequence[Event]:
        """Every transition so far, in the order of the file; of the newest row, which may change, as provisional."""
        return self._judged.events

    @property
    def event_times(self) -> Sequence[float | None]:
        """When the row behind each event was written, as far as it says."""
        return self._judged.event_times

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """What fires now and what has just recovered, worst first, silence included."""
        return self.rules.standing(self.version, is_loading=self.loading is not None)

    def verdicts_at(self, step: int | None) -> tuple[Verdict, ...]:
        """The verdicts that stood at a step of this stream, worst first; None: those of now."""
        if step is None:
            return tuple(self.verdicts)
        return worst_first(standing_at(self.events, step, self.rules.muted, self.identity))

    def muted_at(self, step: int | None) -> tuple[Verdict, ...]:
        """What `verdicts_at` leaves out because its rule is muted."""
        if step is None:
            return tuple(self._judged.muted)
        if not self.muted:
            return ()
        return worst_first(one for one in standing_at(self.events, step, (), self.identity) if one.is_of(self.muted))

    @property
    def muted(self) -> frozenset[str]:
        """Ids of the rules that are muted, from the screen."""
        return self.rules.muted

    @property
    def silenced(self) -> frozenset[str]:
        """Ids of the rules that the settings switch off."""
        rules = self.rules.rules
        return frozenset() if rules is None else rules.options.silenced(self.profiles)

    @property
    def profiles(self) -> Sequence[str]:
        """Names of the profiles whose thresholds hold; the event log says why."""
        return self._judged.profiles

    @property
    def warm_up(self) -> tuple[int, int] | None:
        """(records seen, records wanted) while rules warm up; None when they have."""
        return self._judged.warm_up
