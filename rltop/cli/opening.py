"""Sessions over what was found."""

from __future__ import annotations

import glob
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.cli.looking import look
from rltop.clock import Clock
from rltop.config import Config
from rltop.decode.kinds import HEAD_BYTES, kind_of
from rltop.errors import SourceError
from rltop.ingest.found import Found, name_of
from rltop.ingest.options import OpenFeed
from rltop.ingest.session import Session
from rltop.sources.feed import DirectFeed

if TYPE_CHECKING:
    from rltop.sources.reader import Reader, ThreadedFeed


def direct(clock: Clock) -> OpenFeed:
    """Feeds that read when asked: one-shot use."""

    def open_feed(path: str, last_lines: int | None) -> DirectFeed:
        return DirectFeed(path, clock=clock, last_lines=last_lines)

    return open_feed


def threaded(reader: Reader) -> OpenFeed:
    """Feeds that are read by daemon threads: the screen."""

    def open_feed(path: str, last_lines: int | None) -> ThreadedFeed:
        return reader.follow(path, last_lines=last_lines)

    return open_feed


def runs_of(path: str) -> list[Found]:
    """The run in a file, or every run in a directory or behind a glob, newest first.

    Raises:
        SourceError: the file does not exist or cannot be read, or the directory holds no run.
    """
    if Path(path).is_dir() or (glob.has_magic(path) and not Path(path).exists()):
        runs = look([path]).found
        if not runs:
            raise SourceError(f"no metric stream in {path}", "name the file")
        return runs
    try:
        size = Path(path).stat().st_size
        with Path(path).open("rb") as file:
            kind = kind_of(file.read(HEAD_BYTES), path, is_all=True)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    # Only where workers are timed one by one does the kind decide how a run is followed.
    return [Found(path, name_of(path), size, kind=kind if kind is not None and kind.has_spans else None)]


def read_whole(run: Found | str, config: Config, clock: Clock) -> Session:
    """A session in which one run has been read to its end and judged; `run` as found, or the path of its file.

    Raises:
        SourceError: a path that cannot be read.
    """
    found = runs_of(run)[0] if isinstance(run, str) else run
    options = config.ingest._replace(has_preview=False)
    session = Session([found], direct(clock), clock, options)
    session.drain()
    return session
