"""Commands that read to the end, print and exit: `rltop check`, which applies the rules, `--once` and `--json`.

The clock only affects the state word.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rltop.cli.open_session import each_run, read_pipe, read_rollouts, read_whole, reading_error, runs_of
from rltop.cli.output import output_style, print_error, print_exception, text_width, write_output
from rltop.cli.resolve_paths import in_turn, load_config
from rltop.clock import Clock
from rltop.config import Config
from rltop.errors import EXIT_FIRING, EXIT_NO_METRICS, EXIT_OK, EXIT_USAGE, RltopError, SourceError, worst_code
from rltop.model import Event, Level, RunState
from rltop.run.places import FoundRun
from rltop.run.run import Run
from rltop.run.snapshot import Snapshot

if TYPE_CHECKING:
    from argparse import Namespace

    from rltop.report.run_report import RunReport


def check(arguments: Namespace) -> int:
    """Apply the rules to files and print the alerts at their end; alerts set the exit code.

    Files are checked one after the other; an unreadable one is reported and skipped.

    Raises:
        RltopError: a setting, the only file, or the rule to explain is invalid.
    """
    # Hardly any object created here is part of a cycle, and searching for cycles takes 1 % of the time.
    gc.set_threshold(20_000)
    config = load_config(arguments)
    spec = None
    if arguments.explain is not None:
        from rltop.report.explain import find_rule

        spec = find_rule(arguments.explain)
    if not arguments.paths:
        if spec is None and not arguments.rules:
            raise RltopError("no file given", "name a metric file; only --rules and --explain RULE work without one")
        _put(_about_rules(arguments, config, spec, None))
        return EXIT_OK
    if arguments.summary is None:
        return _check(arguments, config, spec, None)
    from rltop.cli.report import check_writable, write_summary

    check_writable(arguments.summary)
    reports: list[RunReport] = []
    code = _check(arguments, config, spec, reports)
    write_summary(arguments.summary, reports)
    return code


def _check(arguments: Namespace, config: Config, spec: Any, reports: list[RunReport] | None) -> int:
    runs = runs_of(arguments.paths[0]) if len(arguments.paths) == 1 else []
    if len(runs) == 1:
        code, text = _one(arguments, config, spec, runs[0], reports, is_only=True)
        _put(text)
        return code
    return _many(arguments, config, spec, runs or each_run(arguments.paths), reports)


def _many(
    arguments: Namespace,
    config: Config,
    spec: Any,
    runs: Iterable[FoundRun | tuple[str, RltopError]],
    reports: list[RunReport] | None,
) -> int:
    """Check runs one at a time, without keeping any in memory; prints a JSON array or consecutive texts."""
    codes = set()
    for number, found in enumerate(runs):
        try:
            if not isinstance(found, FoundRun):
                raise found[1]
            code, text = _one(arguments, config, spec, found, reports, is_only=False)
        except RltopError as error:
            path = found.path if isinstance(found, FoundRun) else found[0]
            print_exception(error)
            code, text = error.exit_code, _json({"path": path, "error": error.message}) if arguments.json else ""
        codes.add(code)
        if arguments.json:
            _put(("[\n" if not number else ",\n") + text, end="")
        elif text:
            _put(text if not number else f"\n{text}")
    if arguments.json:
        _put("\n]")
    return worst_code(codes)


def _one(
    arguments: Namespace, config: Config, spec: Any, found: FoundRun, reports: list[RunReport] | None, *, is_only: bool
) -> tuple[int, str]:
    # The same bytes give the same result: which processes run is not asked.
    session = read_whole(found, config._replace(ingest=config.ingest._replace(follows_jobs=False)))
    run = session.runs[0]
    try:
        trouble = reading_error(run)
        if trouble is not None:
            raise trouble
        read_rollouts(session)
        if reports is not None:
            from rltop.report.run_report import build_report

            reports.append(build_report(Snapshot(run), has_charts=False))
        return _code(arguments, run), _text(arguments, config, spec, Snapshot(run), is_only=is_only)
    finally:
        session.close()


def _text(arguments: Namespace, config: Config, spec: Any, snapshot: Snapshot, *, is_only: bool) -> str:
    if spec is not None or arguments.rules:
        return _about_rules(arguments, config, spec, snapshot)
    if arguments.json:
        from rltop.report.document import check_document

        document = check_document(snapshot, since=arguments.since)
        return _json(document if is_only else {"path": snapshot.path.raw, **document})
    from rltop.report.text import check_text

    return check_text(
        snapshot,
        width=text_width(arguments.width),
        since=arguments.since,
        **output_style(config),
    )


def _about_rules(arguments: Namespace, config: Config, spec: Any, snapshot: Snapshot | None) -> str:
    rules = None if snapshot is None else snapshot.part.known.rules
    options = config.ingest.rules if rules is None else rules.options
    if arguments.json:
        from rltop.report.document import check_document
        from rltop.report.explain import profiles_of, rule_document
        from rltop.rules.registry import DOCUMENTED

        profiles = profiles_of(options, snapshot)
        about: Any = [rule_document(each, options, profiles) for each in DOCUMENTED]
        if spec is not None:
            about = dict(rule_document(spec, options, profiles))
            if snapshot is not None:
                judged = check_document(snapshot, since=arguments.since)
                for name in ("verdicts", "events"):
                    about[name] = [each for each in judged[name] if spec.id in (each["rule"], each.get("part"))]
        return _json(about)
    from rltop.report.explain import explain_text

    return explain_text(spec, options, snapshot, width=text_width(arguments.width), **output_style(config))


def _json(document: Any) -> str:
    from rltop.report.document import dumps

    return dumps(document).decode()


def _put(text: str, end: str = "\n") -> None:
    write_output(text + end)


def _code(arguments: Namespace, run: Run) -> int:
    if run.state is RunState.DIED:
        return EXIT_FIRING
    if not any(each.stream.has_values for each in run.streams):
        return EXIT_NO_METRICS
    wanted = Level.WARN if arguments.fail_on == "warn" else Level.CRIT
    if run.state is RunState.STUCK and (wanted is Level.WARN or run.is_due):
        return EXIT_FIRING
    worst = worst_level(
        run, has_ever=arguments.ever, counts=lambda event: arguments.since is None or event.step >= arguments.since
    )
    return EXIT_FIRING if worst >= wanted else EXIT_OK


def worst_level(run: Run, *, has_ever: bool, counts: Callable[[Event], bool] = lambda _: True) -> Level:
    """The worst active level at the end, or with `has_ever` at any time."""
    levels = [verdict.level for verdict in run.verdicts if verdict.is_active]
    if has_ever:
        levels += [event.level for event in run.events if event.is_alarm and counts(event)]
    return max(levels, default=Level.OK)


def print_once(found: FoundRun, config: Config, arguments: Namespace, baseline: FoundRun | None = None) -> int:
    """Read a file, print it, beside that of a baseline run, and exit; without `--live` silence is not judged.

    Raises:
        SourceError: a file cannot be read.
    """
    session = read_whole(found, config, is_live=arguments.live, has_rollouts=True)
    if baseline is None:
        return _print(session.runs[0], config, arguments)
    (other,) = read_whole(baseline, config, is_live=arguments.live).runs
    if (trouble := reading_error(other)) is not None:
        raise trouble
    return _print(session.runs[0], config, arguments, other)


def print_piped(pipe: int, config: Config, arguments: Namespace) -> int:
    """Read a pipe to its end, print it and exit.

    Raises:
        SourceError: nothing could be read.
    """
    session = read_pipe(pipe, Clock(), config.ingest._replace(has_preview=False))
    return _print(session.runs[0], config, arguments)


def _print(run: Run, config: Config, arguments: Namespace, baseline: Run | None = None) -> int:
    has_rows = any(each.stream.has_values for each in run.streams)
    trouble = reading_error(run)
    if trouble is not None:
        raise trouble
    if run.main.state_note and not has_rows:
        raise SourceError(f"{run.path}: {run.main.state_note}", "check the path and its permissions")
    if arguments.json:
        from rltop.report.overview_document import once_document

        text = _json(once_document(Snapshot(run))) + "\n"
    else:
        from rltop.report.text import once_text
        from rltop.run import preferences

        run.acknowledged = preferences.acknowledged_of(run.path.raw, preferences.load_acknowledged())
        text = once_text(Snapshot(run), text_width(arguments.width), baseline=baseline, **output_style(config))
    write_output(text)
    return EXIT_OK if has_rows else EXIT_NO_METRICS


def print_several(found: Sequence[FoundRun], config: Config, arguments: Namespace) -> int:
    """Read several runs, one after the other, and print one line each; in JSON an array of complete documents.

    Returns:
        EXIT_USAGE if one of them could not be read, EXIT_NO_METRICS if none has a row.
    """
    from rltop.pages.run_entry import read_entry
    from rltop.pages.runs import by_attention
    from rltop.report.overview_document import once_document
    from rltop.report.text import runs_text

    entries, is_whole = [], True
    for number, each in enumerate(in_turn(found)):
        # A list does not search for completions, neither here nor on the screen.
        has_rollouts = arguments.json or bool(config.ingest.rollouts)
        session = read_whole(each, config, is_live=arguments.live, has_rollouts=has_rollouts)
        trouble = reading_error(session.runs[0])
        if trouble is not None:
            print_exception(trouble)
            is_whole = False
        entries.append(read_entry(Snapshot(session.runs[0])))
        if arguments.json:
            _put(("[\n" if not number else ",\n") + _json(once_document(Snapshot(session.runs[0]))), end="")
        session.close()
    if arguments.json:
        _put("\n]")
    else:
        write_output(runs_text(by_attention(entries), text_width(arguments.width), **output_style(config)))
        print_error(f"{len(entries)} runs; name one to see its overview")
    if not is_whole:
        return EXIT_USAGE
    return EXIT_OK if any(one.level is not Level.NO_DATA for one in entries) else EXIT_NO_METRICS
