"""The JSON documents: what the overview says, and what `check` found.

Owns their shape; numbers are as logged or in the metric's own unit, never
rounded. What is not finite or not known is null.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson

from rltop.metrics.keys import is_bookkeeping_key
from rltop.model import Event, EventState, Level, Signal, Span, StepTiming, Verdict, VerdictState
from rltop.view.badges import verdicts_at
from rltop.view.overview import build_overview
from rltop.view.signals import baseline_of
from rltop.view.source import RunSource
from rltop.view.stragglers import StragglerView, build_stragglers
from rltop.view.timings import timing_history

Document = dict[str, Any]


def check_document(run: RunSource, *, since: int | None = None) -> Document:
    """What `rltop check --json` prints.

    `records` is the number of distinct training rows, `level` the worst level that
    fires at the end, `verdicts` what fires then, and `events` every transition in
    the order of the file; facts about the run, which are no transitions, are not
    among them, nor are transitions before the step `since`. Of a run of several streams,
    a verdict or event of another than the main one names it and counts in its steps;
    `streams` says how far each of them has come, `ranks` who makes the others wait.
    """
    identity = run.identity
    transitions = [
        event for event in run.events if event.state is not EventState.FACT and (since is None or event.step >= since)
    ]
    return {
        "run": run.name.raw,
        "dialect": None if identity is None else identity.dialect.name,
        "algorithm": None if identity is None else identity.algorithm.value,
        "records": run.stream.rows,
        "step": run.stream.last_step,
        "level": _level(run).word,
        "verdicts": [_verdict(verdict) for verdict in run.verdicts if verdict.state is VerdictState.FIRING],
        "events": [_event(event) for event in transitions],
        **_beside(run, _stream_head),
    }


def _beside(run: RunSource, describe: Callable[[RunSource], Document]) -> Document:
    """The other streams and the ranks, where a run has any."""
    if not run.beside:
        return {}
    return {"streams": [describe(part) for part in run.beside if not part.is_rank], "ranks": _ranks(run)}


def _stream_head(run: RunSource) -> Document:
    """How far one of the other streams has come, in its own steps."""
    identity = run.identity
    return {
        "stream": run.role,
        "path": run.path.raw,
        "dialect": None if identity is None else identity.dialect.name,
        "algorithm": None if identity is None else identity.algorithm.value,
        "records": run.stream.rows,
        "step": run.stream.last_step,
    }


def _stream(run: RunSource) -> Document:
    """Another stream of the run: its head and all its keys."""
    identity = run.identity
    signals = [] if identity is None else [s for found in identity.signals.values() for s in found]
    known = {signal.key for signal in signals}
    return {
        **_stream_head(run),
        "first_step": run.stream.first_step,
        "state": run.state.value,
        "age_s": run.age_s,
        "signals": [_signal(run, signal) for signal in signals],
        "other_keys": [_other(run, key) for key in run.stream.keys if key not in known],
    }


def _ranks(run: RunSource) -> Document | None:
    """Every stage of the ranks, furthest behind first; None where no rank says what it did."""
    history = run.ranks
    if history is None:
        return None
    return {
        "count": sum(part.is_rank for part in run.beside) or None,
        "step": history.last_step,
        "is_measured": history.is_measured,
        "stages": [
            {
                "group": stage.group,
                "stage": stage.stage,
                "slowest": stage.slowest,
                "behind_s": stage.behind_s,
                "median_s": stage.usual_s,
                "share_of_step": stage.share,
                "slowest_share": stage.often,
                "ranks": dict(stage.ranks),
            }
            for stage in history.summary()
        ],
    }


def once_document(run: RunSource) -> Document:
    """What `rltop --once --json` prints: the whole overview.

    `signals` has every key that the catalogue knows, primary ones first within
    their metric; `other_keys` has the rest, so that no key is hidden.
    """
    identity, stream = run.identity, run.stream
    view = build_overview(run, width=40, height=1)
    signals = [] if identity is None else [s for found in identity.signals.values() for s in found]
    known = {signal.key for signal in signals}
    return {
        "run": run.name.raw,
        "path": run.path.raw,
        "dialect": None if identity is None else identity.dialect.name,
        "algorithm": None if identity is None else identity.algorithm.value,
        "profiles": list(run.profiles),
        "state": run.state.value,
        "state_note": run.state_note or None,
        "age_s": run.age_s,
        "records": stream.rows,
        "first_step": stream.first_step,
        "step": stream.last_step,
        "total_steps": stream.total_steps,
        "step_s": view.header.step_s,
        "eta_s": view.header.eta_s,
        "group_size": run.group_size,
        "restarts": list(stream.restarts),
        "loading": run.loading,
        "level": _level(run).word,
        "warm_up": None if run.warm_up is None else list(run.warm_up),
        "sentence": view.sentence.text.raw,
        "signals": [_signal(run, signal) for signal in signals],
        "other_keys": [_other(run, key) for key in stream.keys if key not in known],
        "timing": _timing(run),
        "stragglers": _stragglers(build_stragglers(run, None, verdicts_at(run, None))),
        "verdicts": [{**_verdict(verdict), "state": verdict.state.value} for verdict in run.verdicts],
        "events": [_event(event) for event in run.events],
        "counts": _counts(run),
        **_beside(run, _stream),
    }


def dumps(document: Document) -> bytes:
    """A document as indented JSON, UTF-8, without a last newline.

    Keys and names come from outside: what UTF-8 cannot carry is escaped, and what
    does not fit into 64 bits becomes a float.
    """
    try:
        return orjson.dumps(document, option=orjson.OPT_INDENT_2)
    except orjson.JSONEncodeError:
        return orjson.dumps(_encodable(document), option=orjson.OPT_INDENT_2)


def line(document: Document) -> bytes:
    """A document as JSON in one line, UTF-8, without a last newline."""
    try:
        return orjson.dumps(document)
    except orjson.JSONEncodeError:
        return orjson.dumps(_encodable(document))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value)
    return value


def _level(run: RunSource) -> Level:
    """The worst level that fires now; NO_DATA while there is no row to judge."""
    if not run.stream.rows:
        return Level.NO_DATA
    return max((v.level for v in run.verdicts if v.state is VerdictState.FIRING), default=Level.OK)


def _verdict(verdict: Verdict) -> Document:
    return {
        "rule": verdict.rule,
        **({"stream": verdict.stream} if verdict.stream else {}),
        "family": verdict.family,
        "level": verdict.level.word,
        "metric": verdict.metric,
        "key": verdict.key,
        "since_step": verdict.since_step,
        "since_record": verdict.since_record,
        "headline": verdict.headline,
        "evidence": [
            {"name": one.name, "value": _finite(one.value), "unit": one.unit.value} for one in verdict.evidence
        ],
        "next": list(verdict.next),
    }


def _event(event: Event) -> Document:
    return {
        "record": event.record,
        "step": event.step,
        "rule": event.rule,
        **({"stream": event.stream} if event.stream else {}),
        "family": event.family,
        "level": event.level.word,
        "state": event.state.value,
        "message": event.message,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _signal(run: RunSource, signal: Signal) -> Document:
    """One signal: its newest finite value, raw and in the metric's unit, and what was not finite."""
    point = run.stream.latest(signal.key)
    return {
        "name": signal.metric.name,
        "key": signal.key,
        "instance": signal.instance or None,
        "section": signal.metric.section,
        "unit": signal.metric.unit.value or None,
        "value": None if point is None else _finite(signal.read(point.value)),
        "raw": None if point is None else point.value,
        "step": None if point is None else point.step,
        "baseline": _finite(baseline_of(run.stream, signal)),
        "nonfinite": _nonfinite(run, signal.key),
    }


def _other(run: RunSource, key: str) -> Document:
    point = run.stream.latest(key)
    return {
        "key": key,
        "is_bookkeeping": is_bookkeeping_key(key),
        "value": None if point is None else point.value,
        "step": None if point is None else point.step,
        "nonfinite": _nonfinite(run, key),
    }


def _nonfinite(run: RunSource, key: str) -> Document | None:
    """How many values of a key were not finite, where first, and where last; None if all were."""
    marks = run.stream.marks(key)
    if not marks:
        return None
    first, last = marks[0], marks[-1]
    return {
        "count": run.stream.mark_count(key),
        "first_step": first.step,
        "last_step": last.step,
        "last_kind": last.kind.word,
    }


def _timing(run: RunSource) -> Document | None:
    """The newest timing tree, as the trainer logged it."""
    history = timing_history(run, None, 1)
    if not history:
        return None
    timing: StepTiming = history[-1]
    return {
        "step": timing.step,
        "total_s": timing.total_s,
        "is_overlapping": timing.is_overlapping,
        "spans": [_span(span) for span in timing.spans],
        "outside": [_span(span) for span in timing.outside],
    }


def _span(span: Span) -> Document:
    return {
        "name": span.name,
        "key": span.key or None,
        "start_s": span.start_s,
        "duration_s": span.duration_s,
        "kind": span.kind.value,
        "lane": span.lane,
        "is_start_logged": span.is_start_logged,
        "ms_per_token": span.ms_per_token,
        "children": [_span(child) for child in span.children],
    }


def _stragglers(view: StragglerView | None) -> Document | None:
    if view is None:
        return None
    reading = view.reading
    usual = reading.usual
    return {
        "kind": reading.kind.value,
        "metric": reading.metric,
        "key": view.key,
        "step": view.step,
        "ratio": reading.ratio,
        "worst": reading.worst,
        "typical": reading.typical,
        "usual": None if usual is None else [usual.low, usual.high],
        "start": view.start,
        "tool_share": reading.tool_share,
        "length_gini": reading.gini,
        "balance": reading.balance,
        "level": view.level.word,
        "since_step": view.since_step,
    }


def _counts(run: RunSource) -> Document:
    """Every counter, zeros included, and where the first bad line stands."""
    counts = run.counts
    document: Document = {name: getattr(counts, name) for name in counts.names()}
    document["first_bad_line"] = counts.first_bad_line
    document["first_bad_reason"] = counts.first_bad_reason or None
    return document
