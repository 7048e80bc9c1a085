"""`rltop report`: one or several runs as a file to keep, print or send; and the job summary of `check`."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rltop import units
from rltop.cli.open_session import each_run, read_whole, reading_error
from rltop.cli.output import print_exception, write_output
from rltop.cli.resolve_paths import in_turn, load_config, one_run
from rltop.clock import Clock
from rltop.config import Config
from rltop.errors import EXIT_NO_METRICS, EXIT_OK, EXIT_USAGE, RltopError, cannot_write
from rltop.files import replace_file
from rltop.model import Label
from rltop.pages.chart import Axis
from rltop.report.markdown import job_summary
from rltop.report.run_report import MOST_RUNS, Provenance, RunReport, build_report
from rltop.report.writers import DATA, format_of, rendered
from rltop.run.places import FoundRun
from rltop.run.run_settings import settings_near
from rltop.run.session import Session
from rltop.run.snapshot import Snapshot

if TYPE_CHECKING:
    from argparse import Namespace

AXES = {"step": Axis.STEP, "time": Axis.TIME, "tokens": Axis.TOKENS, "samples": Axis.SAMPLES, "epoch": Axis.EPOCH}
"""Choices of `--align`."""


def report(arguments: Namespace) -> int:
    """Read the runs and write the report.

    Returns:
        EXIT_USAGE if one of several runs could not be read, EXIT_NO_METRICS if none has a row.

    Raises:
        RltopError: a setting is invalid, the format is unknown, the file cannot be written, or no run can be read.
    """
    config = load_config(arguments)
    path = arguments.output
    if arguments.evidence:
        from rltop.cli.evidence import evidence

        check_writable(path)
        return evidence(arguments)
    refuse_without_evidence(arguments)
    suffix = format_of(path)
    if arguments.curves and suffix != ".csv":
        raise RltopError("--curves is for CSV", "write to a file that ends in .csv")
    if arguments.align != "step" and suffix != ".html":
        raise RltopError(
            "--align is for the charts of several runs, which HTML has", "write to a file that ends in .html"
        )
    if arguments.baseline is not None and suffix in DATA:
        raise RltopError(f"--baseline is not for {suffix}", "write to a file that ends in .html, .md or .svg")
    check_writable(path)
    reports, failed = _read(arguments, config, suffix)
    if not reports:
        raise failed[0]
    for error in failed:
        print_exception(error)
    write(path, rendered(suffix, reports, provenance_now(), has_curves=arguments.curves))
    is_empty = all(each.is_empty for each in reports)
    write_output(f"wrote {Label.of(path)}: {units.counted(len(reports), 'run')}{' without a row' * is_empty}\n")
    return EXIT_USAGE if failed else EXIT_NO_METRICS if is_empty else EXIT_OK


def refuse_without_evidence(arguments: Namespace) -> None:
    """Reject flags that require `--evidence`.

    Raises:
        RltopError: one is given without it.
    """
    flags = ("stack", "with_text", "metrics", "prometheus", "ray", "nodes", "via", "job", "token_file", "cacert")
    given = next((name for name in flags if getattr(arguments, name)), None)
    if given is not None:
        raise RltopError(f"--{given.replace('_', '-')} goes with --evidence", "add --evidence, or leave it out")


def _read(arguments: Namespace, config: Config, suffix: str) -> tuple[list[RunReport], list[RltopError]]:
    """The report of each run, read one at a time; and the errors of runs that could not be read to their end."""
    reports: list[RunReport] = []
    failed: list[RltopError] = []
    asked = list(each_run(arguments.paths))
    window = steps_of(arguments)
    baseline, kept = None, None
    # The same bytes give the same report: which processes run is not asked.
    config = config._replace(ingest=config.ingest._replace(follows_jobs=False))

    def read(found: FoundRun) -> Session:
        return read_whole(found, config, is_live=arguments.live, has_rollouts=True)

    if arguments.baseline is not None:
        baseline = one_run(arguments.baseline)
        kept = read(baseline)
        place = os.path.realpath(baseline.path)
        is_it = [isinstance(each, FoundRun) and os.path.realpath(each.path) == place for each in asked]
        asked = [baseline if it else each for each, it in zip(asked, is_it, strict=True)]
        asked += [] if any(is_it) else [baseline]
    for found in in_turn(asked):
        if not isinstance(found, FoundRun):
            failed.append(found[1])
            continue
        session = kept if kept is not None and found is baseline else read(found)
        run = session.runs[0]
        if suffix not in DATA and run.settings is None:
            run.settings = settings_near(run.path.raw)
        trouble: RltopError | None = reading_error(run)
        whole = run.main.stream.first_step or 0, run.main.stream.last_step or 0
        is_outside = run.main.stream.rows > 0 and _is_outside(window, whole)
        if is_outside and trouble is None:
            name = Label.of(found.path).display
            trouble = RltopError(f"{name} has no such steps", f"it has {whole[0]:,} to {whole[1]:,}")
        if trouble is not None:
            failed.append(trouble)
        if trouble is None or (run.main.stream.rows and not is_outside):
            has_charts = suffix not in DATA and len(reports) < MOST_RUNS
            first, last = window[0] if window[0] is not None else whole[0], window[1]
            reports.append(
                build_report(
                    Snapshot(run, last if last is not None and last < whole[1] else None),
                    window=None if window == (None, None) else (first, whole[1] if last is None else last),
                    has_charts=has_charts or arguments.curves,
                    has_document=suffix in DATA,
                    axis=AXES[arguments.align],
                    baseline=None if kept is None or baseline is None else Snapshot(kept.runs[0]),
                    beside=None if kept is None else Snapshot(kept.runs[0]),
                )
            )
        if kept is None and len(asked) > 1 and suffix not in DATA:
            # The first run stays loaded: the divergence of the others is measured from it.
            kept = session
        if session is not kept:
            session.close()
    if kept is not None:
        kept.close()
    return reports, failed


def _is_outside(window: tuple[int | None, int | None], whole: tuple[int, int]) -> bool:
    first, last = window
    return (first is not None and first > whole[1]) or (last is not None and last < whole[0])


def steps_of(arguments: Namespace) -> tuple[int | None, int | None]:
    """The first and last requested step, both included; None for an open end.

    Raises:
        RltopError: the argument is not a range of steps.
    """
    if arguments.since is not None:
        return arguments.since, None
    if arguments.steps is None:
        return None, None
    first, dash, last = arguments.steps.partition("-")
    wrong = RltopError(f"--steps {arguments.steps}: no stretch of steps", "type 300-350, 300- or -350")
    if not dash or not (first or last):
        raise wrong
    try:
        low, high = (int(end) if end else None for end in (first, last))
    except ValueError:
        raise wrong from None
    if low is not None and high is not None and low > high:
        raise wrong
    return low, high


def write_summary(path: str, reports: Sequence[RunReport]) -> None:
    """Write the results of `check` as the summary of a CI job.

    Raises:
        RltopError: it cannot be written.
    """
    write(path, job_summary(reports, provenance_now()).encode("utf-8", "backslashreplace"))


def provenance_now() -> Provenance:
    """Command line, version and time of a report written now."""
    return Provenance.at(shlex.join(["rltop", *sys.argv[1:]]), Clock().wall())


def write(path: str, data: bytes) -> None:
    """Write a file atomically.

    Raises:
        RltopError: it cannot be written, with the reason.
    """
    try:
        replace_file(os.path.expanduser(path), data)  # noqa: PTH111 - a path need not be valid text
    except OSError as error:
        raise cannot_write(path, error) from error


def check_writable(path: str) -> None:
    """Check, before reading the runs, that the file can be written.

    Raises:
        RltopError: the folder does not exist or is not writable, or the path is a folder.
    """
    target = Path(os.path.realpath(os.path.expanduser(path)))  # noqa: PTH111
    try:
        if target.is_dir():
            raise IsADirectoryError(21, "is a directory", path)
        if not target.parent.is_dir():
            raise FileNotFoundError(2, "no such directory", path)
        if not os.access(target.parent, os.W_OK):
            raise PermissionError(13, "permission denied", path)
    except OSError as error:
        raise cannot_write(path, error) from error
