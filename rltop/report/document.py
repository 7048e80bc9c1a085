"""The JSON document of `check`, and the parts that all documents share.

Defines their structure, except that of the overview. Numbers are as logged or in the metric's own unit, never rounded;
non-finite and unknown values are null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

from rltop.model import Event, EventState, Level, RunState, Verdict, is_unsafe, json_escape
from rltop.regex import regex
from rltop.rules.words import words_of
from rltop.run.past import Alert
from rltop.run.preferences import own_rules_of
from rltop.run.snapshot import Snapshot
from rltop.stats.goodput import CLASSES

Document = dict[str, Any]

SCHEMA = 1
"""Version of the documents, incremented when a key is removed or changes its meaning; see `schema.json`."""

_MAYBE_UNSAFE = regex("[^ -~\\n]")
_CLASS_KEYS = {"zero-variance": "no_contrast", "truncated": "cut"}
"""Keys of goodput classes that differ from the displayed words."""


def check_document(snapshot: Snapshot, *, since: int | None = None) -> Document:
    """What `rltop check --json` prints.

    `records` is the number of distinct training rows, `level` the worst active level at the end, `worst` the worst at
    any time, `verdicts` the active alerts (firing or settled), and `events` every alert transition in file order,
    without INFO facts and transitions before the step `since`. In a run with several streams, a verdict or event of a
    secondary stream names it and uses its steps; `streams` has the progress of each, `ranks` the slowest ranks.
    """
    return {
        "schema": SCHEMA,
        "run": snapshot.name.raw,
        **_progress(snapshot),
        "state": snapshot.source.state.value,
        "failure": snapshot.source.failure.raw or None,
        "level": level_of(snapshot).word,
        **worst_of(snapshot),
        "incidents": incidents(snapshot.standing),
        "pipeline": pipeline_document(snapshot),
        "verdicts": [verdict_document(verdict) for verdict in snapshot.firing],
        "events": [event_document(event) for event in events_since(snapshot, since)],
        "counts": counts_document(snapshot),
        **streams_document(snapshot, stream_head),
    }


def events_since(snapshot: Snapshot, since: int | None) -> list[Event]:
    """Every transition of an alert, or those from a step on."""
    told = [event for event in snapshot.source.events if event.state is not EventState.FACT]
    return told if since is None else [event for event in told if event.step >= since]


def pipeline_document(snapshot: Snapshot) -> Document | None:
    """Who waits for whom, and what is discarded; None if the run alternates between generation and training."""
    identity = snapshot.identity
    if identity is None or not identity.traits.is_async:
        return None
    from rltop.pages.flow import build_flow  # noqa: PLC0415 - most runs alternate generation and training

    flow = build_flow(snapshot)
    if flow is None:
        return None
    goodput, spent, waits = flow.goodput, flow.spent, flow.waits
    return {
        "note": flow.note,
        "sentence": waits.sentence,
        "advice": waits.advice or None,
        "level": flow.level.word,
        "generation": waits.generating or None,
        "training": waits.training or None,
        "generation_idle": waits.generation,
        "trainer_idle": waits.trainer,
        "staleness_bound": identity.staleness_bound,
        "queue": waits.queue or None,
        "queue_since": waits.since,
        "parts": [
            {
                "name": box.name,
                "step": box.step,
                "hint": box.hint or None,
                "facts": [
                    {
                        "metric": one.metric,
                        "key": one.reading.signal.key,
                        "value": finite(one.point.value),
                        "unit": one.reading.signal.metric.unit.value or None,
                        "step": one.point.step,
                        "level": one.reading.level.word,
                    }
                    for one in box.facts
                ],
            }
            for box in flow.boxes
        ],
        "goodput": None if goodput is None else {
            "records": goodput.records,
            "gpus": None if spent is None else spent.gpus,
            "gpu_hours": None if spent is None else finite(spent.hours),
            "trained": goodput.trained,
            "is_at_most": bool(goodput.unknown),
            **{_CLASS_KEYS.get(name, name): goodput.shares.get(name) for name in CLASSES},
        },
    }  # fmt: skip


def streams_document(snapshot: Snapshot, describe: Callable[[Snapshot], Document]) -> Document:
    _, *others = snapshot.streams
    if not others:
        return {}
    return {"streams": [describe(part) for part in others if not part.source.is_rank], "ranks": _ranks(snapshot)}


def stream_head(snapshot: Snapshot) -> Document:
    return {"stream": snapshot.role, "path": snapshot.path.raw, **_progress(snapshot)}


def _progress(snapshot: Snapshot) -> Document:
    identity = snapshot.identity
    return {
        "dialect": None if identity is None else identity.dialect.name,
        "algorithm": None if identity is None else identity.algorithm.value,
        "records": snapshot.stream.rows,
        "step": snapshot.stream.last_step,
    }


def _ranks(snapshot: Snapshot) -> Document | None:
    history = snapshot.source.ranks
    if history is None:
        return None
    return {
        "count": sum(part.source.is_rank for part in snapshot.streams) or None,
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


def dumps(document: Document) -> bytes:
    r"""A document as indented JSON, UTF-8, without a trailing newline.

    Keys and names come from outside: what UTF-8 cannot encode is escaped, and integers beyond 64 bits become floats.
    Control characters and line separators are written as `\uXXXX`, which every parser reads as the same text.
    """
    return _written(document, 2)


def line(document: Document) -> bytes:
    """A document as JSON on one line, otherwise as `dumps`."""
    return _written(document, None)


def _written(document: Document, indent: int | None) -> bytes:
    # The standard library's json: orjson is imported only for long histories, see `formats.jsonl`.
    separators = (",", ": " if indent else ":")
    text = json.dumps(_encodable(document), ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
    # Below U+0020 json escapes by itself, and outside of strings there is only ASCII.
    if text.isascii() and "\x7f" not in text:
        return text.encode()
    return _MAYBE_UNSAFE.sub(lambda found: json_escape(found[0]) if is_unsafe(found[0]) else found[0], text).encode()


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_encodable(each) for each in value]
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return float(value)
    return value


def level_of(snapshot: Snapshot) -> Level:
    """The worst active level; NO_DATA without any row."""
    if not snapshot.stream.has_values:
        return Level.NO_DATA
    return max((verdict.level for verdict in snapshot.firing), default=Level.OK)


def incidents(verdicts: Sequence[Verdict]) -> list[Document]:
    found: dict[tuple[str, int], list[Verdict]] = {}
    for verdict in verdicts:
        if verdict.is_active and verdict.incident is not None:
            found.setdefault((verdict.stream, verdict.incident.number), []).append(verdict)
    return [
        {
            "number": number,
            **({"stream": stream} if stream else {}),
            "level": max(one.level for one in members).word,
            "first_rule": first.rule,
            "since_step": first.step,
            "rules": [one.rule for one in sorted(members, key=lambda one: one.since_record)],
        }
        for (stream, number), members in found.items()
        if (first := members[0].incident) is not None
    ]


def worst_of(snapshot: Snapshot) -> Document:
    """The worst level ever, and the alert behind it; muted rules are excluded and counted.

    An alert from before a restart is an `earlier_alert` and does not count. A run that died is critical.
    """
    history = snapshot.history
    level = max(level_of(snapshot), history.level if snapshot.stream.has_values else Level.NO_DATA)
    if snapshot.source.state is RunState.DIED:
        level = Level.CRIT
    alerts = [one for one in history.alerts if not one.is_muted]
    own, earlier = ([one for one in alerts if one.is_earlier is is_earlier] for is_earlier in (False, True))
    shown = [(one.rule, one.stream) for one in snapshot.firing]

    def place(alert: Alert) -> tuple[int, int]:
        """The worst first; of equals the one whose verdict is shown first."""
        whose = alert.rule, alert.stream
        return -alert.level, shown.index(whose) if alert.is_active and whose in shown else len(shown)

    return {
        "worst": level.word,
        "worst_alert": _alert(min(own, key=lambda one: (place(one), one.rank), default=None)),
        "earlier_alert": _alert(min(earlier, key=lambda one: one.rank, default=None)),
        "muted_alerts": history.muted,
        "own_rules": {
            rule: {name: {"value": value, "for": scope.value} for name, (value, scope) in own.items()}
            for rule, own in own_rules_of(snapshot.run.path.raw, snapshot.run.own_rules).items()
        },
    }


def _alert(alert: Alert | None) -> Document | None:
    if alert is None:
        return None
    return {
        "rule": alert.rule,
        **({"part": alert.part} if alert.part else {}),
        **({"stream": alert.stream} if alert.stream else {}),
        "family": alert.family,
        "title": alert.title,
        "level": alert.level.word,
        "since_step": alert.since_step,
        "step": alert.step,
        "recovered_step": alert.recovered_step,
        "settled_step": alert.settled_step,
    }


def verdict_document(verdict: Verdict) -> Document:
    settled, incident, advice = verdict.settled, verdict.incident, verdict.advice
    return {
        "rule": verdict.rule,
        **({"part": verdict.part} if verdict.part else {}),
        **({"also": [one.id for one in verdict.also]} if verdict.also else {}),
        **({"stream": verdict.stream} if verdict.stream else {}),
        "family": verdict.family,
        "level": verdict.level.word,
        "worst": verdict.worst_level.word,
        "state": verdict.state.value,
        "metric": verdict.metric,
        "key": verdict.key,
        "since_step": verdict.since_step,
        "since_record": verdict.since_record,
        "headline": verdict.headline,
        "evidence": [
            {
                "name": one.name,
                "value": finite(one.value),
                "unit": one.unit.value,
                **({} if one.steps is None else {"steps": list(one.steps)}),
            }
            for one in verdict.evidence
        ],
        "next": list(words_of(verdict.raised_by).next),
        "settled": None
        if settled is None
        else {
            "value": finite(settled.value),
            "before": finite(settled.before),
            "since_step": settled.since_step,
            "unit": settled.unit.value,
        },
        "incident": None if incident is None else incident.number,
        "advice": None
        if advice is None
        else {"action": advice.action.value, "checkpoint": advice.checkpoint, "reason": advice.reason},
    }


def event_document(event: Event) -> Document:
    return {
        "record": event.record,
        "step": event.step,
        **({} if event.since_step is None else {"since_step": event.since_step}),
        "rule": event.rule,
        **({"part": event.part} if event.part else {}),
        **({"stream": event.stream} if event.stream else {}),
        "family": event.family,
        "level": event.level.word,
        "state": event.state.value,
        **({"is_provisional": True} if event.is_provisional else {}),
        **({"incident": event.incident} if event.incident else {}),
        "message": event.message,
    }


def counts_document(snapshot: Snapshot) -> Document:
    counts = snapshot.source.counts
    document: Document = {name: getattr(counts, name) for name in counts.names()}
    document["first_unreadable"] = counts.first_unreadable or None
    document["first_bad_line"] = counts.first_bad_line
    document["first_bad_reason"] = counts.first_bad_reason or None
    return document


def finite(value: float | None) -> float | None:
    """The value if it is a finite number, else None: JSON has no NaN or infinity."""
    return value if value is not None and math.isfinite(value) else None
