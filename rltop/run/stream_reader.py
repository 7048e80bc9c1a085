"""How one stream is read: the whole file, and its last rows first while that takes time.

Owns which of the two is shown, what has been read, and when rows were seen to arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

from rltop.clock import Clock
from rltop.formats.kinds import Kind
from rltop.model import Counts
from rltop.run.pipeline import Budget, Pipeline
from rltop.run.recall import Recaller
from rltop.sources.events import TailState
from rltop.sources.feed import AwaitedFeed, Feed, SequenceFeed
from rltop.sources.tail import LastRows
from rltop.structs import NamedTuple

if TYPE_CHECKING:
    from rltop.run.rule_runner import RuleRunner

FIRST_ROWS = 32
"""Rows at the end that are shown first of all: the steps of the timing strip, and about 10 ms."""
SETTLE_S = 0.2
"""How long a row that comes value by value (TensorBoard) is waited for before it is shown as it stands: a picture."""


REST_S = 5.0
"""How long a file must have been still, where its pace is not known, until it is shown as if nothing more came."""
NETWORK_LAG_S = 60.0
"""How late a row may be seen on a network file system: the attribute cache of NFS (acregmax)."""
LONG_S = 1.0
"""What takes longer is worth a bar and the time left."""
_TELLING_S, _TELLING_SHARE = 0.4, 0.01
"""Before that nobody can tell how fast a file is read."""


def seconds_left(spent_s: float, share: float | None, from_share: float = 0.0) -> float | None:
    """How long reading will still take, at the pace so far; None where that is not known, or not worth a word.

    Args:
        spent_s: how long it has taken so far.
        share: how much of the whole has been done; None when all has.
        from_share: how much had been done at the beginning of that time.
    """
    if share is None or share - from_share < _TELLING_SHARE or spent_s < _TELLING_S:
        return None
    left_s = spent_s * (1.0 - share) / (share - from_share)
    return left_s if spent_s + left_s > LONG_S else None


def last_rows(kind: Kind, rows: int) -> LastRows | None:
    """The last rows of a file of this kind, to be shown before its history; None where they need all before them.

    Args:
        kind: of the file.
        rows: how many.
    """
    if not kind.is_line_based and kind.row_starts is None:
        return None
    return LastRows(rows, kind.row_starts, kind.head_bytes)


class ReadPath(NamedTuple):
    """One way of reading a file: the whole of it, or its last rows first.

    Attributes:
        feed: brings the bytes.
        pipeline: makes rows of them.
        rules: judge the rows; None where they are only to be shown.
    """

    feed: Feed
    pipeline: Pipeline
    rules: RuleRunner | None = None

    @property
    def is_read(self) -> bool:
        """Has everything been decoded that the feed has to give?"""
        return self.pipeline.has_read_all_of(self.feed)

    def at_end(self) -> ReadPath | None:
        """As if nothing more came; None where that would only close the open row."""
        ended = self.pipeline.at_end()
        if ended is None:
            return None
        return ReadPath(self.feed, ended, cast("RuleRunner | None", ended.sink if self.rules is not None else None))


def _reach(path: ReadPath) -> tuple[int, int]:
    """Up to where it has been read: two that follow a growing file see a new row in either order."""
    return path.pipeline.generation, path.pipeline.offset


class StreamReader:
    """Reads one stream, a slice at a time.

    Args:
        whole: feed, pipeline and rules of the whole file.
        clock: arrival times.
        previews: of the last rows of a large file, the fewest rows first.
        recaller: reads rows again that memory has downsampled.
        modified_s: when the file was last written to as it was opened, seconds since the epoch, or None.

    Attributes:
        whole, previews: as given; previews go when history shows all that they do.
        known: the whole file as far as it is known: while it rests, as if nothing more came.
        rests: how often it has come to rest.
        arrived_s: when the newest row was seen to arrive, seconds since the epoch; None while none was.
        moved_s: when bytes, rows or not, were last seen to arrive.
        has_caught_up: all has been read that was there when the file was opened.
        is_finished: nothing more will come.
    """

    def __init__(
        self,
        whole: ReadPath,
        clock: Clock,
        previews: Sequence[ReadPath] = (),
        recaller: Recaller | None = None,
        modified_s: float | None = None,
    ) -> None:
        self.whole = self.known = whole
        self.rests = 0
        self.previews = list(previews)
        self.arrived_s: float | None = None
        self.moved_s: float | None = None
        self.has_caught_up = self._has_shown_newest = False
        self.is_finished = False
        self._pipeline = whole.pipeline
        self._clock = clock
        self._recaller = recaller
        self._modified_s = modified_s
        self._settles_at: float | None = None
        self._rests_at: float | None = None
        self._began: tuple[float, float] | None = None

    def advance(self, budget: Budget) -> bool:
        """Take in what has come; True if there was anything."""
        has_moved = self._take_recalled()
        for preview in self.previews:
            has_moved = self._take_newest(preview, budget) or has_moved
        # Where the previews have used up the time, nobody has asked yet whether there is more.
        has_moved = budget.is_spent() or self._take_in(budget) or has_moved
        self._note_progress()
        return self._come_to_rest() or has_moved

    @property
    def is_over(self) -> bool:
        """Has all been read of a source that has come to its end?"""
        return self.whole.feed.is_over and not self._pipeline.has_waiting

    @property
    def is_at_rest(self) -> bool:
        """Is it shown as if nothing more came?"""
        return self.known is not self.whole

    @property
    def is_resting(self) -> bool:
        """Would `advance` find nothing to do until there is news?"""
        return (
            self.has_caught_up
            and self._settles_at is None
            and (self._rests_at is None or self._clock.monotonic() < self._rests_at)
            and not self.previews
            and not self._pipeline.has_waiting
            and (self._recaller is None or self._recaller.is_idle)
            and self.whole.feed.is_at_rest
        )

    def read_newest(self, budget: Budget) -> None:
        """Take in the newest rows of a long file, as far as they are there at once."""
        while self.previews and not budget.is_spent():
            preview = self.previews[0]
            if not self._take_newest(preview, budget) or preview.is_read:
                return

    def _take_newest(self, preview: ReadPath, budget: Budget) -> bool:
        """Decode what has come of the last rows; the newest one is shown as far as it goes, without a wait."""
        has_moved = preview.pipeline.advance(preview.feed, self._clock, budget)
        if preview.is_read:
            preview.pipeline.flush()
            self._has_shown_newest = True
        return has_moved

    def _take_in(self, budget: Budget) -> bool:
        """Decode what has come; after a moment without anything, show the newest row as far as it goes.

        What comes once history has been read is new; the rest of a row that was
        there before is not.
        """
        pipeline = self._pipeline
        now = self._clock.monotonic()
        before = pipeline.stream.version
        if self.has_caught_up:
            pipeline.arrived_s = self._clock.now()
        if pipeline.advance(self.whole.feed, self._clock, budget):
            self._settles_at, self._rests_at = now + SETTLE_S, None
            self.known = self.whole
            if self.has_caught_up:
                self.moved_s = pipeline.arrived_s
            if self.has_caught_up and pipeline.stream.version != before:
                self.arrived_s = pipeline.arrived_s
            return True
        if self._settles_at is None or now < self._settles_at:
            return False
        self._settles_at = None
        pipeline.flush()
        if pipeline.stream.version != before and self.moved_s is not None:
            self.arrived_s = self.moved_s
        self._rests_at = now + max(0.0, self._rest_s - self._still_s)
        return pipeline.has_more or pipeline.stream.version != before

    @property
    def _still_s(self) -> float:
        """How long nothing has been written."""
        moved_s = self._modified_s if self.moved_s is None else self.moved_s
        return 0.0 if moved_s is None else max(0.0, self._clock.now() - moved_s)

    @property
    def _rest_s(self) -> float:
        """How long nothing must be written until nothing more is expected: when the run is called quiet.

        Until then a torn line is one that is being written, and a row without a step waits for what tells it.
        """
        rules = self.whole.rules
        if rules is None or not rules.liveness.knows_pace:
            return REST_S + self.lag_s
        return rules.silence_limits(self.lag_s).quiet_s

    @property
    def lag_s(self) -> float:
        """How late a row may be seen: the file lies on a network file system, or 0."""
        return NETWORK_LAG_S if self.whole.feed.is_network else 0.0

    def _come_to_rest(self) -> bool:
        """Show the whole file as if nothing more came, once nothing has for a while; what then comes takes it back."""
        if self._rests_at is None or self._clock.monotonic() < self._rests_at or not self.has_caught_up:
            return False
        self._rests_at = None
        ended = None if self.is_finished else self.whole.at_end()
        if ended is None:
            return False
        if self.moved_s is not None and ended.pipeline.stream.rows != self._pipeline.stream.rows:
            self.arrived_s = self.moved_s
        self.known, self.rests = ended, self.rests + 1
        return True

    def extend(self, paths: Sequence[str]) -> bool:
        """Go on with further files of the same stream; False where its feed cannot."""
        feed = self.whole.feed
        if not isinstance(feed, SequenceFeed):
            return False
        feed.extend(paths)
        return True

    def finish(self) -> None:
        """The source is at its end for good: judge the last step too."""
        if not self.is_finished:
            self.is_finished, self.known = True, self.whole
            self._pipeline.finish()

    @property
    def is_awaited(self) -> bool:
        """Is there no file yet, only a place where one is expected?"""
        return isinstance(self.whole.feed, AwaitedFeed)

    @property
    def is_exhausted(self) -> bool:
        """Will the feed never give anything again?"""
        return self.whole.feed.is_exhausted and not self._pipeline.has_waiting

    def close(self) -> None:
        """Let go of the files."""
        for path in (self.whole, *self.previews):
            path.feed.close()

    def _note_progress(self) -> None:
        if self._began is None and self._pipeline.offset and (share := self.loading) is not None:
            # The last rows come first: the pace of the history is told from its own beginning.
            self._began = self._clock.monotonic(), share
        if not self.has_caught_up:
            # A feed without an answer has nothing to give now, and yet owes the rest of the history.
            feed = self.whole.feed
            is_exhausted = feed.is_exhausted and feed.status.state is not TailState.STUCK
            self.has_caught_up = self.whole.is_read or (is_exhausted and not self._pipeline.has_waiting)
        while self.previews and self._is_superseded(self.previews[0].pipeline):
            # Without it the step on the screen would go back, where the newest row is not known to be whole.
            self._pipeline.flush()
            self.previews.pop(0).feed.close()
        while (
            len(self.previews) > 1 and self.previews[1].is_read and _reach(self.previews[1]) >= _reach(self.previews[0])
        ):
            self.previews.pop(0).feed.close()

    def _is_superseded(self, preview: Pipeline) -> bool:
        """Does history show all that the preview does? The two read on their own and see a new row in either order."""
        if self._pipeline.generation != preview.generation or not preview.offset:
            return self.has_caught_up
        return self._pipeline.offset >= preview.offset

    def recall(self, step: int) -> None:
        """Ask for the row of a step that memory has downsampled; it comes when the file answers."""
        stream = self.shown.pipeline.stream
        if self._recaller is None or stream.downsampled_range(step) is None:
            return
        position = stream.position(step)
        if position is not None and position.generation == self._pipeline.generation:
            self._recaller.ask(step, position)

    def _take_recalled(self) -> bool:
        rows = self._recaller.take() if self._recaller is not None else []
        for step, row in rows:
            self.known.pipeline.stream.recall(step, row)
        return bool(rows)

    @property
    def shown(self) -> ReadPath:
        """What is on the screen: the preview until history has caught up."""
        return next((one for one in self.previews if one.pipeline.stream.rows), self.known)

    @property
    def is_opening(self) -> bool:
        """Is what would be shown still on its way to the newest row, which a moment will bring?"""
        preview = self.previews[0] if self.previews else None
        is_coming = preview is not None and preview.feed.status.state in (TailState.READING, TailState.AT_END)
        return is_coming and not self._has_shown_newest

    @property
    def is_preview(self) -> bool:
        """Are only the last rows shown, while history is being read?"""
        return self.shown is not self.known

    @property
    def loading(self) -> float | None:
        """Fraction of the file that has been read; None when all of it has."""
        if self.has_caught_up or self.is_finished:
            return None
        status = self.whole.feed.status
        if not status.size:
            return 0.0 if self.previews else None
        return min(1.0, max(self._pipeline.offset, status.searched) / status.size)

    @property
    def left_s(self) -> float | None:
        """How long the rest of the history will take at the pace so far; None where that is not worth a word."""
        if self._began is None:
            return None
        began_s, share = self._began
        return seconds_left(self._clock.monotonic() - began_s, self.loading, share)

    @property
    def counts(self) -> Counts:
        """Everything read, and everything not understood."""
        total = Counts()
        total.add(self.known.pipeline.decoder.counts)
        total.add(self.known.pipeline.stream.counts)
        status = self.whole.feed.status
        total.nul_bytes += status.nul_bytes
        total.unreadable_files += len(status.left_out)
        total.first_unreadable = status.left_out[0] if status.left_out else ""
        return total
