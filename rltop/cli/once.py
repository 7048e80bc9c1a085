"""`--once` and `--json`: the overview as text or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltop.cli.open_session import direct, drain, not_read, read_pipe, read_rollouts
from rltop.cli.output import complain, complain_of, is_ascii_only, is_terminal, say, text_width
from rltop.cli.pipe import STANDARD_INPUT, take_standard_input
from rltop.cli.resolve_paths import answered
from rltop.clock import SystemClock
from rltop.config import Config
from rltop.errors import EXIT_NO_METRICS, EXIT_OK, EXIT_USAGE, SourceError
from rltop.model import Level
from rltop.run.found import Found
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot
from rltop.sources.events import ONCE

if TYPE_CHECKING:
    from argparse import Namespace


def print_once(found: Found, config: Config, arguments: Namespace) -> int:
    """Read a file, print it and exit; without `--live` silence is not judged.

    Raises:
        SourceError: the file cannot be read.
    """
    session = read_run(found, config, is_live=arguments.live)
    return _print(session, config, arguments)


def read_run(found: Found, config: Config, *, is_live: bool, has_rollouts: bool = True) -> Session:
    clock = SystemClock()
    if found.path == STANDARD_INPUT:
        return read_pipe(take_standard_input(), clock, config.ingest._replace(has_preview=False))
    options = config.ingest._replace(has_preview=False)

    def read() -> Session:
        session = Session([found], direct(clock, ONCE), clock, options)
        if is_live:
            while session.step(1_000.0):
                pass
        else:
            drain(session)
        session.read_endings()
        return session

    session = answered(found.path, read)
    if has_rollouts or options.rollouts:
        read_rollouts(session)
    return session


def print_several(found: Sequence[Found], config: Config, arguments: Namespace) -> int:
    """Read several runs, one after the other, and print a line of each; in JSON an array of whole documents.

    Returns:
        EXIT_USAGE if one of them could not be read, EXIT_NO_METRICS if none has a row.
    """
    from rltop.pages.run_entry import read_entry
    from rltop.pages.runs import by_attention
    from rltop.report.document import dumps
    from rltop.report.overview_document import once_document
    from rltop.report.text import runs_text

    entries, is_whole = [], True
    for number, each in enumerate(found):
        # A list does not look for completions, neither here nor on the screen.
        session = read_run(each, config, is_live=arguments.live, has_rollouts=arguments.json)
        trouble = not_read(session.runs[0])
        if trouble is not None:
            complain_of(trouble)
            is_whole = False
        entries.append(read_entry(Snapshot(session.runs[0])))
        if arguments.json:
            say(("[\n" if not number else ",\n") + dumps(once_document(Snapshot(session.runs[0]))).decode())
        session.close()
    if arguments.json:
        say("\n]\n")
    else:
        has_terminal = is_terminal()
        looks = {"use_color": config.use_color(has_terminal), "is_ascii": _is_ascii(config)}
        say(runs_text(by_attention(entries), text_width(arguments.width), **looks))
        complain(f"{len(entries)} runs; name one to see its overview")
    if not is_whole:
        return EXIT_USAGE
    return EXIT_OK if any(one.level is not Level.NO_DATA for one in entries) else EXIT_NO_METRICS


def print_piped(pipe: int, config: Config, arguments: Namespace) -> int:
    """Read a pipe to its end, print it and exit.

    Raises:
        SourceError: nothing could be read.
    """
    session = read_pipe(pipe, SystemClock(), config.ingest._replace(has_preview=False))
    return _print(session, config, arguments)


def _print(session: Session, config: Config, arguments: Namespace) -> int:
    run = session.runs[0]
    has_rows = any(each.stream.has_values for each in run.streams)
    trouble = not_read(run)
    if trouble is not None:
        raise trouble
    if run.main.state_note and not has_rows:
        raise SourceError(f"{run.path}: {run.main.state_note}", "check the path and its permissions")
    has_terminal = is_terminal()
    if arguments.json:
        from rltop.report.document import dumps
        from rltop.report.overview_document import once_document

        text = dumps(once_document(Snapshot(run))).decode() + "\n"
    else:
        from rltop.report.text import once_text

        width = text_width(arguments.width)
        text = once_text(Snapshot(run), width, use_color=config.use_color(has_terminal), is_ascii=_is_ascii(config))
    say(text)
    return EXIT_OK if has_rows else EXIT_NO_METRICS


def _is_ascii(config: Config) -> bool:
    return config.ui.is_ascii or is_ascii_only()
