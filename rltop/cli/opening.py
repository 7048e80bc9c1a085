"""Sessions over what was found."""

from __future__ import annotations

import glob
import stat
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from rltop.cli.looking import look, stand_somewhere
from rltop.cli.pipe import STANDARD_INPUT, piped_found, take_standard_input
from rltop.clock import Clock
from rltop.config import Config
from rltop.decode.kinds import HEAD_BYTES, kind_of
from rltop.errors import NoMetricsError, SourceError
from rltop.ingest.discover import named
from rltop.ingest.found import Found
from rltop.ingest.options import IngestOptions, OpenFeed
from rltop.ingest.session import Session
from rltop.sources.feed import DirectFeed

if TYPE_CHECKING:
    from rltop.sources.reader import Reader, ThreadedFeed


_SLICE_MS = 1_000.0


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
        SourceError: the file does not exist or cannot be read.
        NoMetricsError: the directory holds no run, or nothing matches.
    """
    if path != STANDARD_INPUT:
        stand_somewhere([path])
    if Path(path).is_dir() or (glob.has_magic(path) and not Path(path).exists()):
        looked = look([path])
        if not looked.found:
            raise NoMetricsError(
                f"nothing matches {path}" if looked.missing else f"no metric stream in {path}", "name the file"
            )
        return looked.found
    if path == STANDARD_INPUT:
        return [piped_found()]
    try:
        size = file_size(path)
        with Path(path).open("rb") as file:
            kind = kind_of(file.read(HEAD_BYTES), path, is_all=True)
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    # Only where workers are timed one by one does the kind decide how a run is followed.
    return [Found(path, named(path, kind), size, kind=kind if kind is not None and kind.has_spans else None)]


def file_size(path: str) -> int:
    """Bytes of a file that can be read again and again.

    Raises:
        OSError: there is none.
        SourceError: it is a pipe or a device: opening one may wait for ever, and what was read of it is gone.
    """
    info = Path(path).stat()
    if not stat.S_ISREG(info.st_mode):
        hint = f"read it through standard input: {STANDARD_INPUT} < {path}"
        raise SourceError(f"{path} is not a regular file", hint)
    return info.st_size


def read_whole(run: Found | str, config: Config, clock: Clock) -> Session:
    """A session in which one run has been read to its end and judged; `run` as found, or the path of its file.

    Standard input is read until whoever writes to it has closed it.

    Raises:
        SourceError: a path that cannot be read.
    """
    found = runs_of(run)[0] if isinstance(run, str) else run
    options = config.ingest._replace(has_preview=False)
    if found.path == STANDARD_INPUT:
        return read_pipe(take_standard_input(), clock, options)
    session = Session([found], direct(clock), clock, options)
    session.drain()
    return session


def read_pipe(pipe: int, clock: Clock, options: IngestOptions) -> Session:
    """A session in which a pipe has been read to its end."""
    from rltop.sources.pipe import PipeFeed

    has_data = threading.Event()
    feed = PipeFeed(pipe, has_data.set)
    session = Session([piped_found()], lambda _path, _lines: feed, clock, options)
    while not feed.is_over:
        has_data.wait()
        has_data.clear()
        while session.step(_SLICE_MS):
            pass
    session.drain()
    return session
