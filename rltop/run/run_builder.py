"""Puts runs together from what was found: of each stream its feed, decoder, rules and the store of its rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rltop.clock import Clock
from rltop.formats.auto import AutoDecoder
from rltop.formats.decoder import Decoder, DecoderOptions
from rltop.formats.kinds import JSONL
from rltop.model import Label
from rltop.model.table_rows import log_of
from rltop.run import acknowledged, meanings
from rltop.run.found import Found
from rltop.run.options import IngestOptions, Notifier, OpenFeed
from rltop.run.pipeline import Pipeline
from rltop.run.read_path import FIRST_ROWS, ReadPath, last_rows
from rltop.run.recall import Recaller
from rltop.run.rule_runner import RuleRunner
from rltop.run.run import Run
from rltop.run.run_stream import RunStream
from rltop.run.told import told_beside
from rltop.sources.feed import AwaitedFeed, Feed, SequenceFeed
from rltop.store.series import StoreOptions
from rltop.store.stream import Stream

if TYPE_CHECKING:
    from rltop.run.rank_watch import RankWatch

PREVIEW_ROWS = 256
"""Rows at the end that are shown while history is being read: as many as rules look back and sparklines show."""
CROWD_PREVIEW_FROM_BYTES = 64 * 1024
"""Of many runs a smaller file is read whole before a second reader of its last rows would pay."""
_PREVIEW_PART = 8
PREVIEW_FROM_BYTES = 2 * 1024 * 1024
"""A smaller file is read whole before so many rows would pay."""


def _has_caught_up(stream: RunStream) -> bool:
    return stream.loading is None


class RunBuilder:
    """Makes the runs of one invocation.

    Args:
        open_feed: makes the feed of a path; see `feeds`.
        clock: arrival times and slices.
        options: how runs are read and judged.
        notifier: told when feeds have something.

    Attributes:
        options: the same; runs that are built later follow what they are then.
        share: of the memory for raw rows, what one stream may use.
        preview_from: bytes from which on the last rows of a file are shown while its history is read.
    """

    def __init__(self, open_feed: OpenFeed, clock: Clock, options: IngestOptions, notifier: Notifier) -> None:
        self.options = options
        self.share = options.store
        self.preview_from = 1
        self._open_feed = open_feed
        self._clock = clock
        self._notifier = notifier

    def build(self, found: Found) -> Run:
        """The run that was found, with every stream of it, and the rows that a person wants of it."""
        run = self._build(found)
        run.arrangement = meanings.rows_of_path(found.path, self.options.rows)
        run.acknowledged = acknowledged.of_path(found.path, self.options.acknowledged)
        return run

    def _build(self, found: Found) -> Run:
        name, path = found.name, Label.of(found.path)
        has_spans = any(each.kind is not None and each.kind.has_spans for each in (found, *found.beside))
        if found.awaits:
            whole = self._judged(found, AutoDecoder(found.path, self.options.decoder), Stream("", self.share))
            return Run(name, path, RunStream(path, whole(AwaitedFeed(found.awaits)), self._clock))
        main = self._stream(found, is_main=True)
        if not found.beside and not has_spans:
            return Run(name, path, main)
        from rltop.run.rank_watch import RankWatch  # noqa: PLC0415 - rare, and it brings the rules of ranks along

        others = [self._stream(each) for each in found.beside if not each.is_rank]
        has_ranks = len(others) < len(found.beside)
        watch = RankWatch(self.options.rules) if has_ranks or has_spans else None
        if watch is None:
            return Run(name, path, main, others)
        if not has_ranks:
            for one in (main, *others):
                one.whole.pipeline.span_sink = watch.take_spans
        ranks = [self._rank(each, watch) for each in found.beside if each.is_rank]
        return Run(name, path, main, [*others, *ranks], watch)

    def _rank(self, found: Found, watch: RankWatch) -> RunStream:
        """The stream of one rank: its rows are compared with those of the others, and not judged."""
        tap = watch.tap(found.role)
        pipeline = Pipeline(AutoDecoder(found.path, self.options.decoder), Stream(found.role, self.share), tap)
        whole = ReadPath(self._feed(found), pipeline)
        rank = RunStream(
            Label.of(found.path), whole, self._clock, role=found.role, is_rank=True, modified_s=found.modified_s
        )
        tap.has_caught_up = partial(_has_caught_up, rank)
        return rank

    def _stream(self, found: Found, *, is_main: bool = False) -> RunStream:
        """One stream of a run, followed; the main one has no role of its own."""
        is_file = found.path != "-"
        is_jsonl = found.kind in (None, JSONL) and not found.earlier and is_file
        previews = []
        shown_kind = found.kind or JSONL
        may_show = self.options.has_preview and is_file and not found.earlier and found.size >= self.preview_from
        # The fewest first: they are there at once, and stand until more of them are.
        for rows in (FIRST_ROWS, PREVIEW_ROWS) if found.size >= PREVIEW_FROM_BYTES else (FIRST_ROWS,):
            last = last_rows(shown_kind, rows)
            if last is not None and may_show:
                decoding = self._decoding(found)._replace(may_count_rows=False)
                shown = self._judged(found, shown_kind.make(decoding), Stream("", self._of_preview))
                previews.append(shown(self._open_feed(found.path, last)))
        whole = self._judged(found, AutoDecoder(found.path, self._decoding(found)), Stream(found.role, self.share))
        return RunStream(
            Label.of(found.path),
            whole(self._feed(found)),
            self._clock,
            previews=previews,
            role="" if is_main else found.role,
            modified_s=found.modified_s,
            recaller=Recaller(found.path, self.options.decoder, self._notifier.notify) if is_jsonl else None,
            ranges=found.ranges,
        )

    def _decoding(self, found: Found) -> DecoderOptions:
        return self.options.decoder._replace(writer=log_of(found.path)[1])

    @property
    def _of_preview(self) -> StoreOptions:
        """A part of the stream's memory: while a long history is read, a preview takes in all rows that come."""
        return self.share._replace(memory_bytes=self.share.memory_bytes // _PREVIEW_PART)

    def _judged(self, found: Found, decoder: Decoder, stream: Stream) -> Callable[[Feed], ReadPath]:
        """Pipeline and rules of a file, but for the feed that brings its bytes."""
        stream.total_steps = self.options.total_steps
        rules = RuleRunner(self.options.rules)
        meant = meanings.of_path(found.path, self.options.meanings)
        beside = partial(told_beside, path=found.path, gpus=self.options.gpus)
        pipeline = Pipeline(decoder, stream, rules, self.options.rules.group_size, meant, beside)
        return partial(ReadPath, pipeline=pipeline, rules=rules)

    def _feed(self, found: Found) -> Feed:
        if not found.earlier and (found.kind is None or not found.kind.has_sequels):
            return self._open_feed(found.path, None)
        return SequenceFeed([*found.earlier, found.path], lambda path: self._open_feed(path, None))
