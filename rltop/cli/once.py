"""`--once` and `--json`: the overview as text or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rltop.cli.open_session import not_read, read_pipe, read_whole
from rltop.cli.output import complain, complain_of, looks, say, text_width
from rltop.clock import SystemClock
from rltop.config import Config
from rltop.errors import EXIT_NO_METRICS, EXIT_OK, EXIT_USAGE, SourceError
from rltop.model import Level
from rltop.run.found import Found
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

if TYPE_CHECKING:
    from argparse import Namespace


def print_once(found: Found, config: Config, arguments: Namespace) -> int:
    """Read a file, print it and exit; without `--live` silence is not judged.

    Raises:
        SourceError: the file cannot be read.
    """
    session = read_whole(found, config, is_live=arguments.live, has_rollouts=True)
    return _print(session, config, arguments)


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
        has_rollouts = arguments.json or bool(config.ingest.rollouts)
        session = read_whole(each, config, is_live=arguments.live, has_rollouts=has_rollouts)
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
        say(runs_text(by_attention(entries), text_width(arguments.width), **looks(config)))
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
    if arguments.json:
        from rltop.report.document import dumps
        from rltop.report.overview_document import once_document

        text = dumps(once_document(Snapshot(run))).decode() + "\n"
    else:
        from rltop.report.text import once_text

        text = once_text(Snapshot(run), text_width(arguments.width), **looks(config))
    say(text)
    return EXIT_OK if has_rows else EXIT_NO_METRICS
