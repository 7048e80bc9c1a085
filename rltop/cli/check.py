"""`rltop check`: the whole file through the rules, without a clock."""

from __future__ import annotations

import argparse
import sys

from rltop.cli.looking import load_config
from rltop.cli.opening import read_whole
from rltop.clock import FakeClock
from rltop.errors import EXIT_FIRING, EXIT_NO_METRICS, EXIT_OK
from rltop.ingest.tracked import TrackedRun
from rltop.model import EventState, Level, VerdictState


def check(arguments: argparse.Namespace) -> int:
    """Judge a file and print what fires at its end; the exit code says whether anything does."""
    config = load_config(arguments)
    session = read_whole(arguments.path, config, FakeClock())
    run = session.runs[0]
    if arguments.json:
        from rltop.report.document import check_document, dumps

        sys.stdout.write(dumps(check_document(run)).decode() + "\n")
    else:
        from rltop.report.check_text import check_text

        sys.stdout.write(check_text(run, use_color=config.use_color(sys.stdout.isatty())) + "\n")
    if not run.stream.rows:
        return EXIT_NO_METRICS
    wanted = Level.WARN if arguments.fail_on == "warn" else Level.CRIT
    return EXIT_FIRING if worst_level(run, has_ever=arguments.ever) >= wanted else EXIT_OK


def worst_level(run: TrackedRun, *, has_ever: bool) -> Level:
    """The worst level firing at the end, or with `has_ever` at any time."""
    levels = [verdict.level for verdict in run.verdicts if verdict.state is VerdictState.FIRING]
    if has_ever:
        levels += [event.level for event in run.events if event.state in (EventState.FIRING, EventState.ESCALATED)]
    return max(levels, default=Level.OK)
