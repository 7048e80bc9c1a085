"""A run at an earlier step: which verdicts stood then, and where its other streams were at that time.

Pure: replays the event log and reads the times in the rows.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate

from rltop import units
from rltop.catalog.dialect import Identity
from rltop.model import Event, EventState, Incident, Level, Verdict, VerdictState
from rltop.store.stream import Stream
from rltop.structs import NamedTuple

RESTART_RULE = "L6"
"""The rule that logs a restart."""
LIVENESS_RULE = "L4"
"""The rule on silence: its words change with every second."""


def outlived(events: Sequence[Event]) -> frozenset[int]:
    """Numbers of the events on steps that a later restart went back behind: the rows of those steps are others now."""
    back_to: dict[str, int] = {}
    found = []
    for number in range(len(events) - 1, -1, -1):
        event = events[number]
        lowest = back_to.get(event.stream)
        if lowest is not None and event.step >= lowest:
            found.append(number)
        if event.rule == RESTART_RULE:
            back_to[event.stream] = event.step if lowest is None else min(lowest, event.step)
    return frozenset(found)


def standing_at(events: Sequence[Event], step: int, muted: Collection[str], identity: Identity | None) -> list[Verdict]:
    """The verdicts that stood at a step of the main stream, replayed from the event log; in no order.

    Each has the sentence of its last transition, with the step of that, and what the
    rule says of itself, but no evidence.

    Args:
        events: the log, in the order of the file; events of other streams are passed over.
        step: the trainer's.
        muted: ids of rules, and of parts of rules, that are left out.
        identity: names the metric of a rule whose event does not.
    """
    standing: dict[str, _Past] = {}
    incidents: dict[int, Incident] = {}
    for event in events:
        if event.stream or event.step > step:
            continue
        if event.rule == RESTART_RULE:
            # What began on a step that is made anew is no longer the past of what is shown.
            standing = {rule: past for rule, past in standing.items() if _since(past.event) < event.step}
        if event.state is EventState.FACT or event.is_of(muted):
            continue
        if event.state is EventState.RECOVERED:
            standing.pop(event.rule, None)
            continue
        known = standing.get(event.rule)
        if event.state is EventState.FIRING or known is None:
            known = _Past(event, event.level)
        is_settled = event.state is EventState.SETTLED or (known.is_settled and event.state is not EventState.FIRING)
        number = event.incident or known.incident
        standing[event.rule] = _Past(event, max(known.worst, event.level), is_settled, number)
        if number and (number not in incidents or _since(event) < incidents[number].step):
            incidents[number] = Incident(number, event.rule, _since(event))
    return [_past_verdict(past, incidents, step, identity) for past in standing.values()]


class _Past(NamedTuple):
    """An alert as of its last transition.

    Attributes:
        event: the transition.
        worst: the worst level so far.
        is_settled: its metric stays at another level.
        incident: number of its incident, or 0.
    """

    event: Event
    worst: Level
    is_settled: bool = False
    incident: int = 0


def _since(event: Event) -> int:
    return event.step if event.since_step is None else event.since_step


def _past_verdict(past: _Past, incidents: Mapping[int, Incident], step: int, identity: Identity | None) -> Verdict:
    from rltop.rules import registry  # noqa: PLC0415 - every rule there is: not before the first frame
    from rltop.rules.advice import advise  # noqa: PLC0415 - likewise

    event = past.event
    spec = registry.NAMED.get(event.said_by)
    metric, key = event.metric, event.key
    if not (metric or key) and spec is not None and identity is not None:
        metric, key = identity.subject(spec.metrics)
    # The sentence holds the numbers of the step that made it, which need not be the one on the screen.
    told = "" if event.step == step else f", as of step {units.step(event.step)}"
    found = Verdict(
        rule=event.rule,
        title=spec.title if spec else event.family,
        family=event.family,
        group=spec.group.value if spec else "learning",
        level=event.level,
        state=VerdictState.SETTLED if past.is_settled else VerdictState.FIRING,
        metric=metric,
        key=key,
        since_step=_since(event),
        since_record=event.record,
        headline=f"{event.message.rstrip('.')}{told}",
        worst=past.worst,
        incident=incidents.get(past.incident),
        part=event.part,
    )
    return advise(found)


def of_stream(verdicts: Sequence[Verdict], role: str) -> list[Verdict]:
    """Verdicts of another stream of the run, saying whose they are.

    Args:
        verdicts: as the stream has them.
        role: the name of the stream within the run.

    Returns:
        The same, with the stream in a field of its own and before the headline.
    """
    return [one._replace(stream=role, headline=f"{role}: {one.headline}") for one in verdicts]


def worst_first(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    """Verdicts, worst first."""
    return tuple(sorted(verdicts, key=lambda verdict: (*verdict.urgency, verdict.since_record)))


def step_at_same_time(stream: Stream, step: int, other: Stream) -> int | None:
    """Where another stream was when a step of this one was written.

    Steps of two streams mean different things; what they share is time.

    Args:
        stream: whose step is known.
        step: in its own steps.
        other: whose step is asked for.

    Returns:
        The newest step of `other` that had been written by then, its first where none had; None, the newest
        there is, where one of them does not say when its rows were written.
    """
    when = _time_of(stream, step)
    if when is None:
        return None
    steps, times = other.times()
    found = [at for at, time_s in zip(steps, times, strict=True) if time_s <= when]
    return found[-1] if found else other.first_step


def _time_of(stream: Stream, step: int) -> float | None:
    """When a step was written, or the one before it that says so."""
    steps, times = stream.times()
    for i in range(bisect_right(steps, step) - 1, -1, -1):
        if not math.isnan(times[i]):
            return times[i]
    return None


class Calendar:
    """Where events of other streams stand on the steps of the run: what they share is time.

    Args:
        own: the stream whose steps are the run's.
        part: the stream of a name; `own` where there is none of that name.
    """

    def __init__(self, own: Stream, part: Callable[[str], Stream]) -> None:
        self._stream = own
        self._part = part
        self._own: tuple[Sequence[float], Sequence[int]] | None = None
        self._others: dict[str, dict[int, float]] = {}

    def step_of(self, event: Event) -> int | None:
        """The newest step of the run that had been written then; None where nobody says when that was."""
        if self._own is None:
            steps, times = self._stream.times()
            # A clock that was set back must not hide what came after it.
            self._own = list(accumulate(times, _later)), steps
        if event.stream not in self._others:
            part = self._part(event.stream)
            known = {} if part is self._stream else dict(zip(*part.times(), strict=True))
            self._others[event.stream] = known
        when = self._others[event.stream].get(event.step)
        if when is None or math.isnan(when):
            return None
        own_times, own_steps = self._own
        at = bisect_right(own_times, when) - 1
        return own_steps[at] if at >= 0 else None


def _later(one: float, other: float) -> float:
    """The later of two times; one that is not known is as early as can be."""
    one, other = (-math.inf if math.isnan(time_s) else time_s for time_s in (one, other))
    return max(one, other)
