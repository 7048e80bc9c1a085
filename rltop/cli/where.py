"""The command `where`: in which phase a job is, since when, and whether that is usual."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltop.cli.open_session import read_whole, runs_of
from rltop.cli.output import complain_of, say
from rltop.cli.resolve_paths import answered, load_config
from rltop.clock import SystemClock
from rltop.errors import EXIT_FIRING, EXIT_NO_METRICS, EXIT_OK, EXIT_USAGE, NoMetricsError, RltopError, cannot_read
from rltop.files import open_regular
from rltop.formats.kinds import CONSOLE, HEAD_BYTES, TRACE, codec_of, kind_of
from rltop.live.groups import engine_in_words, group_in_words, grouped
from rltop.live.job import where_of
from rltop.live.judge import Where, sentence
from rltop.live.lines import words_of
from rltop.live.probe import Engine, Process
from rltop.live.traces import events_beside, events_of
from rltop.model import Label
from rltop.model.table_rows import split_member
from rltop.run.beside import logs_beside

if TYPE_CHECKING:
    from argparse import Namespace

_CODES = {"stuck": EXIT_FIRING, "dead": EXIT_FIRING, "unknown": EXIT_NO_METRICS}
_WORST_FIRST = (EXIT_FIRING, EXIT_USAGE, EXIT_NO_METRICS)
_LAST_CHARS = 160


def where(arguments: Namespace) -> int:
    """Print where each job is; the exit code says whether one is stuck or dead.

    Raises:
        RltopError: the only path cannot be read.
    """
    now_s = SystemClock().wall() if arguments.now is None else arguments.now
    codes, documents = set(), []
    for path in arguments.paths:
        try:
            found = _where(path, arguments, now_s)
        except RltopError as error:
            if len(arguments.paths) == 1:
                raise
            complain_of(error)
            codes.add(error.exit_code)
            documents.append({"path": path, "error": error.message})
            continue
        codes.add(_CODES.get(found.state, EXIT_OK))
        documents.append(document(found, now_s))
        if not arguments.json:
            say(_text(path, found, now_s))
    if arguments.json:
        from rltop.report.document import dumps

        say(dumps(documents if len(arguments.paths) > 1 else documents[0]).decode() + "\n")  # type: ignore[arg-type]
    return next((code for code in _WORST_FIRST if code in codes), EXIT_OK)


def _where(path: str, arguments: Namespace, now_s: float) -> Where:
    """Where the job of a path is.

    Raises:
        RltopError: there is nothing that can be read.
    """
    if _is_told_alone(path):
        try:
            return answered(path, lambda: _of_file(path, now_s))
        except OSError as error:
            raise cannot_read(path, error) from error
    try:
        runs = runs_of(path)
    except NoMetricsError:
        told = [events_of(path)] if os.path.isfile(path) else events_beside(Path(path))  # noqa: PTH113 - as above
        logs = logs_beside(path)
        if not any(told) and not logs:
            raise
        return where_of(logs[0] if logs else "", told, path, now_s)
    from rltop.run.whereabouts import where_is

    session = read_whole(runs[0], load_config(arguments), SystemClock())
    try:
        return where_is(session.runs[0], now_s)
    finally:
        session.close()


def _is_told_alone(path: str) -> bool:
    """Is it one console log, or a trace?"""
    if path == "-" or split_member(path) is not None or not os.path.isfile(path):  # noqa: PTH113 - may be no valid name
        return False
    try:
        with open_regular(path) as file:
            head = file.read(HEAD_BYTES) or b""
    except OSError:
        return False
    return codec_of(head) is None and kind_of(head, path, is_all=True) in (CONSOLE, TRACE)


def _of_file(path: str, now_s: float) -> Where:
    with open_regular(path) as file:
        head = file.read(HEAD_BYTES) or b""
    if kind_of(head, path, is_all=True) is TRACE:
        return where_of("", [events_of(path)], path, now_s)
    return where_of(path, [], path, now_s)


def document(found: Where, now_s: float) -> dict[str, Any]:
    """A job as the JSON document has it."""
    return {
        "state": found.state,
        "phase": found.phase,
        "phase_key": found.phase_key,
        "since": _rounded(found.since),
        "usual_s": _rounded(found.usual_s),
        "unusual": found.unusual,
        "outstanding": found.outstanding,
        "cause": found.cause,
        "accuracy_s": _rounded(found.accuracy_s),
        "source": found.source,
        "ranks": [_rank(each) for each in found.ranks if each.rank is not None or each.source != found.source],
        "engines": [_engine(each, now_s) for each in found.engines],
        "job": found.job,
    }


def _groups(found: Where) -> list[str]:
    is_told = len(found.ranks) > 1 or any(each.rank is not None for each in found.ranks)
    return [group_in_words(group) for group in grouped(found.ranks)] if is_told else []


def _rank(each: Process) -> dict[str, Any]:
    known = {"pid": each.pid, "host": each.host or None, "state": None if each.state == "running" else each.state}
    return {
        "rank": each.rank,
        "phase": each.words or words_of(each.key, each.phase) or None,
        "phase_key": each.key or None,
        "since": _rounded(each.since_s),
        **{name: value for name, value in known.items() if value is not None},
    }


def _engine(each: Engine, now_s: float) -> dict[str, Any]:
    return {
        "engine": each.name,
        "running": _whole(each.running),
        "waiting": _whole(each.waiting),
        "tokens_per_s": _rounded(each.tokens_per_s),
        "cache": _rounded(each.cache),
        "age_s": _rounded(max(0.0, now_s - each.time_s)),
        **({"trouble": each.trouble} if each.trouble else {}),
    }


def _whole(value: float) -> int | None:
    return int(value) if math.isfinite(value) else None


def _rounded(value: float | None) -> float | None:
    return None if value is None or not math.isfinite(value) else round(value, 3)


def _text(path: str, found: Where, now_s: float) -> str:
    lines = [f"{Label.of(path).display}: {Label.of(sentence(found, now_s)).display}"]
    if found.source and found.source != path:
        lines.append(f"  source: {Label.of(found.source).display}")
    lines += [f"  {Label.of(line).display}" for line in (*_groups(found), *map(engine_in_words, found.engines))]
    if found.last_line:
        lines.append(f"  last line: {Label.of(found.last_line[:_LAST_CHARS]).display}")
    return "\n".join(lines) + "\n"
