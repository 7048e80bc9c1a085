"""`--once` and `--json`: the overview as text or as one document."""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from dataclasses import replace

from rltop.cli.opening import direct
from rltop.cli.pipe import piped_found
from rltop.clock import SystemClock
from rltop.config import Config
from rltop.errors import EXIT_NO_METRICS, EXIT_OK, SourceError
from rltop.ingest.found import Found
from rltop.ingest.session import Session
from rltop.sources.pipe import PipeFeed

DEFAULT_WIDTH = 100
MIN_WIDTH = 40


def print_once(found: Found, config: Config, arguments: argparse.Namespace) -> int:
    """Read a file, print it and leave; what was read is all there is, unless `--live`.

    Raises:
        SourceError: the file cannot be read.
    """
    clock = SystemClock()
    session = Session([found], direct(clock), clock, replace(config.ingest, has_preview=False))
    if arguments.live:
        while session.step(1_000.0):
            pass
    else:
        session.drain()
    return _print(session, config, arguments)


def print_piped(pipe: int, config: Config, arguments: argparse.Namespace) -> int:
    """Read a pipe to its end, print it and leave."""
    has_data = threading.Event()
    feed = PipeFeed(pipe, has_data.set)
    session = Session(
        [piped_found()], lambda _path, _lines: feed, SystemClock(), replace(config.ingest, has_preview=False)
    )
    while not feed.is_over:
        has_data.wait()
        has_data.clear()
        while session.step(1_000.0):
            pass
    session.drain()
    return _print(session, config, arguments)


def _print(session: Session, config: Config, arguments: argparse.Namespace) -> int:
    run = session.runs[0]
    if run.state_note and not run.stream.rows:
        raise SourceError(f"{run.path}: {run.state_note}", "check the path and its permissions")
    is_terminal = sys.stdout.isatty()
    if arguments.json:
        from rltop.report.document import dumps, once_document

        text = dumps(once_document(run)).decode() + "\n"
    else:
        from rltop.report.text import once_text

        columns = shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns if is_terminal else DEFAULT_WIDTH
        width = max(MIN_WIDTH, arguments.width or columns)
        text = once_text(run, width, use_color=config.use_color(is_terminal), is_ascii=_is_ascii(config))
    sys.stdout.write(text)
    sys.stdout.flush()
    return EXIT_OK if run.stream.rows else EXIT_NO_METRICS


def _is_ascii(config: Config) -> bool:
    """ASCII where it was asked for, or where the output cannot say anything else."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return config.ui.is_ascii or not encoding.startswith("utf")
