"""The newest rows of a file, read at once for the first frame.

Runs in a thread that may be abandoned, so it shares nothing with the session: it reads the last rows with its own
pipeline, which is then dropped.
"""

from __future__ import annotations

from collections.abc import Sequence

from rltop.clock import Clock
from rltop.config import Config
from rltop.formats.jsonl import JsonlDecoder
from rltop.formats.kinds import JSONL, Kind
from rltop.model import Label
from rltop.model.table_rows import log_of
from rltop.pages.overview import build_overview, paint_overview
from rltop.rows.glyphs import glyph_set
from rltop.rows.rows import Row
from rltop.run import preferences
from rltop.run.pipeline import ENDLESS, Pipeline
from rltop.run.places import FoundRun
from rltop.run.run import Run
from rltop.run.run_stream import FIRST_ROWS, ReadPath, RunStream, last_rows
from rltop.run.snapshot import Snapshot
from rltop.sources.events import Chunk, Reset, TailState, TailStatus
from rltop.sources.feed import DirectFeed, Feed
from rltop.sources.tail import LastRows
from rltop.store.stream import Stream


class _UnreadHistory(Feed):
    """The unread history, as a feed."""

    is_exhausted = False
    status = TailStatus(TailState.READING)

    def __init__(self, size: int) -> None:
        self.status = TailStatus(TailState.READING, "", size, 0)

    def take(self, max_bytes: int) -> list[Chunk | Reset]:
        return []


def early_rows(found: FoundRun, config: Config, clock: Clock, width: int, height: int) -> Sequence[Row]:
    """The overview of the newest rows; empty if they cannot be read without earlier ones."""
    kind = found.kind or JSONL
    last = last_rows(kind, FIRST_ROWS)
    if found.awaits or last is None:
        return ()
    run = read_newest(found, kind, last, config, clock)
    if not run.main.stream.rows and kind is not JSONL:
        return ()
    view = build_overview(Snapshot(run), width=width, height=height)
    return paint_overview(view, width, height, glyph_set(is_ascii=config.ui.is_ascii), has_counts=False)


def read_newest(found: FoundRun, kind: Kind, last: LastRows, config: Config, clock: Clock) -> Run:
    """The last rows of a file as a run with unread history."""
    options = config.ingest
    stream = Stream("", options.store)
    stream.total_steps = options.total_steps
    decoder = kind.make(options.decoder._replace(may_count_rows=False, is_hurried=True, writer=log_of(found.path)[1]))
    size, user_meanings = options.rules.group_size, preferences.meanings_of(found.path, options.meanings)
    path = Label.of(found.path)
    hurried = JsonlDecoder(options.decoder._replace(is_hurried=True))
    unread = Pipeline(hurried, Stream("", options.store), None, size, user_meanings)
    newest = DirectFeed(found.path, clock=clock, last=last)
    main = RunStream(
        path,
        ReadPath(_UnreadHistory(found.size), unread),
        clock,
        previews=[ReadPath(newest, Pipeline(decoder, stream, None, size, user_meanings))],
        modified_s=found.modified_s,
    )
    run = Run(found.name, path, main)
    run.arrangement = preferences.rows_of(found.path, options.rows)
    while run.advance(ENDLESS):
        pass
    return run
