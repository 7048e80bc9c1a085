"""Opens sessions for the runs that were found."""

from __future__ import annotations

import glob
import os
import stat
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rltop import units
from rltop.cli.output import ProgressLine, print_error
from rltop.cli.resolve_paths import (
    STANDARD_INPUT,
    answered,
    completions_found,
    look,
    piped_found,
    require_usable_paths,
    say_left_out,
    take_standard_input,
)
from rltop.clock import Clock
from rltop.config import Config
from rltop.errors import NoMetricsError, RltopError, SourceError, cannot_read
from rltop.model.table_rows import split_member
from rltop.run.options import IngestOptions, OpenFeed
from rltop.run.places import FoundRun
from rltop.run.run_stream import seconds_left
from rltop.run.session import Session
from rltop.sources.events import ONCE, ONE_SHOT, TailOptions
from rltop.sources.feed import DirectFeed
from rltop.sources.tail import LastRows

if TYPE_CHECKING:
    from rltop.run.run import Run
    from rltop.sources.reader import Reader, ThreadedFeed


_SLICE_MS = 1_000.0


def direct(clock: Clock, options: TailOptions = ONE_SHOT) -> OpenFeed:
    """Feeds that read synchronously; with `ONCE`, only what a file contains at the first look."""

    def open_feed(path: str, last: LastRows | None) -> DirectFeed:
        return DirectFeed(path, clock=clock, options=options, last=last)

    return open_feed


def threaded(reader: Reader) -> OpenFeed:
    def open_feed(path: str, last: LastRows | None) -> ThreadedFeed:
        return reader.follow(path, last=last)

    return open_feed


def runs_of(path: str) -> list[FoundRun]:
    """The run in a file, or every run in a directory or matching a glob, newest first.

    Raises:
        SourceError: the file does not exist, cannot be read, or is known to hold no metrics.
        NoMetricsError: the directory holds no run, or nothing matches.
    """
    if path == STANDARD_INPUT:
        return [piped_found()]
    require_usable_paths([path])
    is_place = answered(path, lambda: _is_place(path))
    looked = look([path])
    if is_place:
        say_left_out(looked.left_out)
        if not looked.found:
            raise NoMetricsError(
                f"no file matches {path}" if looked.missing else f"no metric file found in {path}",
                *completions_found(looked.completions) or ["name the metric file itself"],
            )
    elif not looked.found:
        raise NoMetricsError(f"the database {path} has no run so far", "name it again when it has one")
    return looked.found


def _is_place(path: str) -> bool:
    """Whether it is a directory or a pattern, rather than a file or a run in one.

    Raises:
        SourceError: it is a file that cannot be read.
    """
    # Path methods raise without permission; here the error comes from opening the file, with its reason.
    if os.path.isdir(path) or (glob.has_magic(path) and not os.path.exists(path)):  # noqa: PTH110, PTH112
        return True
    try:
        if split_member(path) is None:
            file_size(path)
    except OSError as error:
        raise cannot_read(path, error) from error
    return False


def each_run(paths: Iterable[str]) -> Iterator[FoundRun | tuple[str, RltopError]]:
    """Every run at every path; for a path without any, the path and the error."""
    for path in paths:
        try:
            yield from runs_of(path)
        except RltopError as error:
            yield path, error


def file_size(path: str) -> int:
    """Size in bytes of a regular file.

    Raises:
        OSError: the file does not exist.
        SourceError: it is a pipe or a device: opening one may block, and it cannot be read twice.
    """
    info = Path(path).stat()
    if not stat.S_ISREG(info.st_mode):
        hint = f"pass it on standard input: {STANDARD_INPUT} < {path}"
        raise SourceError(f"{path} is not a regular file", hint)
    return info.st_size


def read_whole(
    run: FoundRun | str,
    config: Config,
    clock: Clock | None = None,
    *,
    is_live: bool = False,
    has_rollouts: bool = False,
) -> Session:
    """Read one run to its end and judge it; reads standard input until its writer closes it.

    Args:
        run: as found, or the path of its file.
        is_live: judge silence by the clock.
        has_rollouts: read its completions too; those that the user named are always read.

    Raises:
        SourceError: the run's path, or that of the completions, cannot be read.
    """
    found, clock = runs_of(run)[0] if isinstance(run, str) else run, clock or Clock()
    options = config.ingest._replace(has_preview=False)
    if found.path == STANDARD_INPUT:
        return read_pipe(take_standard_input(), clock, options)

    def read() -> Session:
        session = Session([found], direct(clock, ONCE), clock, options)
        if is_live:
            while session.step(_SLICE_MS):
                pass
        else:
            drain(session)
        session.read_endings()
        return session

    session = answered(found.path, read)
    if has_rollouts:
        read_rollouts(session)
    return session


def drain(session: Session) -> None:
    """Read everything, with a progress bar on standard error if that is a terminal and it takes long.

    Only the bar uses the clock; reading and judging do not.
    """
    clock = Clock()
    line = ProgressLine.of_terminal()
    if line is None:
        session.drain()
        return
    began_s = clock.monotonic()

    def show(run: Run) -> None:
        share = run.loading
        left_s = seconds_left(clock.monotonic() - began_s, share)
        if share is not None and left_s is not None:
            line.show(f"reading {run.name.raw}", share, units.left(left_s))

    try:
        session.drain(show, clock)
    finally:
        line.close()


def reading_error(run: Run) -> SourceError | None:
    """Why a run could not be read to its end; None if it was."""
    error = run.trouble
    if error is None or not run.main.stream.rows:
        return error
    stream = run.main.stream
    read = f"{units.count(stream.rows)} records read before that, up to step {units.step(stream.last_step or 0)}"
    return SourceError(f"{error.message}; {read}", error.hint)


def read_rollouts(session: Session) -> None:
    """Read and judge the completions of its runs; report unreadable ones among those that the user named.

    Raises:
        SourceError: none of these can be read.
    """
    answered(session.runs[0].path.raw, session.read_rollouts)
    for run in session.runs:
        if run.rollouts is None or not run.rollouts.state.is_given:
            continue
        state = run.rollouts.state
        if state.notes and not state.places:
            raise SourceError(f"--rollouts: {state.notes[0]}")
        if state.notes:
            print_error(*state.notes)


def read_pipe(pipe: int, clock: Clock, options: IngestOptions) -> Session:
    from rltop.sources.feed import PipeFeed

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
