"""The JSON document of `--once --json`: the whole overview.

Separate from `document`, as `check` needs no views.
"""

from __future__ import annotations

from rltop.model import Signal, Span, StepTiming
from rltop.model.keys import is_bookkeeping_key
from rltop.pages.overview import build_overview
from rltop.pages.signals import beginning_of, signals_of
from rltop.pages.stragglers import StragglerView, build_stragglers
from rltop.report.document import (
    SCHEMA,
    Document,
    counts_document,
    event_document,
    finite,
    incidents,
    level_of,
    pipeline_document,
    stream_head,
    streams_document,
    verdict_document,
    worst_of,
)
from rltop.run.snapshot import Snapshot


def _stream(snapshot: Snapshot) -> Document:
    return {
        **stream_head(snapshot),
        "first_step": snapshot.stream.first_step,
        "state": snapshot.source.state.value,
        "age_s": snapshot.part.age_s,
        "behind_bytes": snapshot.source.behind_bytes,
        **_values(snapshot),
    }


def _values(snapshot: Snapshot) -> Document:
    signals = [signal for found in signals_of(snapshot).values() for signal in found]
    known = {signal.key for signal in signals}
    return {
        "signals": [_signal(snapshot, signal) for signal in signals],
        "other_keys": [_other(snapshot, key) for key in snapshot.stream.keys if key not in known],
    }


def once_document(snapshot: Snapshot) -> Document:
    """What `rltop --once --json` prints: the whole overview.

    `signals` has every key with a catalogue metric, primary ones first within their metric; `other_keys` has the rest,
    so that no key is missing.
    """
    identity, stream = snapshot.identity, snapshot.stream
    view = build_overview(snapshot, width=40, height=1)
    return {
        "schema": SCHEMA,
        "run": snapshot.name.raw,
        "path": snapshot.path.raw,
        "dialect": None if identity is None else identity.dialect.name,
        "algorithm": None if identity is None else identity.algorithm.value,
        "profiles": list(snapshot.part.judging.now.profiles),
        "state": snapshot.source.state.value,
        "state_note": snapshot.part.state_note or None,
        "failure": snapshot.source.failure.raw or None,
        "kind_note": snapshot.part.kind_note or None,
        "age_s": snapshot.part.age_s,
        "behind_bytes": snapshot.source.behind_bytes,
        "records": stream.rows,
        "first_step": stream.first_step,
        "step": snapshot.step,
        "total_steps": stream.total_steps,
        "step_s": view.header.step_s,
        "eta_s": view.header.eta_s,
        "group_size": snapshot.part.group_size,
        "restarts": list(stream.restarts),
        "loading": snapshot.source.loading,
        "level": level_of(snapshot).word,
        **worst_of(snapshot),
        "incidents": incidents(snapshot.standing),
        "warm_up": None if snapshot.part.judging.now.warm_up is None else list(snapshot.part.judging.now.warm_up),
        "sentence": view.sentence.text.raw,
        **_values(snapshot),
        "timing": _timing(snapshot),
        "pipeline": pipeline_document(snapshot),
        "stragglers": _stragglers(build_stragglers(snapshot)),
        "verdicts": [verdict_document(verdict) for verdict in snapshot.standing],
        "events": [event_document(event) for event in snapshot.source.events],
        "counts": counts_document(snapshot),
        **streams_document(snapshot, _stream),
    }


def _signal(snapshot: Snapshot, signal: Signal) -> Document:
    point = snapshot.stream.latest(signal.key, snapshot.at_step)
    return {
        "name": signal.metric.name,
        "key": signal.key,
        "instance": signal.instance or None,
        "section": signal.metric.section,
        "unit": signal.metric.unit.value or None,
        "value": None if point is None else finite(signal.read(point.value)),
        "raw": None if point is None else point.value,
        "step": None if point is None else point.step,
        "baseline": finite(beginning_of(snapshot, signal).baseline),
        "nonfinite": _nonfinite(snapshot, signal.key),
    }


def _other(snapshot: Snapshot, key: str) -> Document:
    point = snapshot.stream.latest(key, snapshot.at_step)
    return {
        "key": key,
        "is_bookkeeping": is_bookkeeping_key(key),
        "value": None if point is None else point.value,
        "step": None if point is None else point.step,
        "nonfinite": _nonfinite(snapshot, key),
    }


def _nonfinite(snapshot: Snapshot, key: str) -> Document | None:
    marks = snapshot.stream.marks(key)
    if not marks:
        return None
    first, last = marks[0], marks[-1]
    return {
        "count": snapshot.stream.mark_count(key),
        "first_step": first.step,
        "last_step": last.step,
        "last_kind": last.kind.word,
    }


def _timing(snapshot: Snapshot) -> Document | None:
    history = snapshot.timing.history(1)
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
        "is_from_rollouts": view.is_from_rollouts,
        "length_unit": (view.unit or "tokens") if view.is_from_rollouts else None,
        "balance": reading.balance,
        "level": view.level.word,
        "since_step": view.since_step,
    }
