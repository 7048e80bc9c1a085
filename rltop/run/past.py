"""Derived from the event log: verdicts at an earlier step, and the history of all alerts.

Also maps steps between streams of a run, by the times in their rows. Pure.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import accumulate

from rltop import units
from rltop.catalog.dialect import Identity
from rltop.model import RESTART_RULE, Event, EventState, Incident, Level, Verdict, VerdictState, explaining
from rltop.store.stream import Stream
from rltop.structs import NamedTuple, Struct, replace

LIVENESS_RULE = "L4"
"""The rule on silence: its text changes every second."""


def overwritten_events(events: Sequence[Event]) -> frozenset[int]:
    """Indices of events on steps that a later restart repeated, so that their rows have been replaced."""
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
    """The verdicts at a step of the main stream, replayed from the event log; unordered.

    Each has the headline of its last transition, with the step of that, and the rule's own texts; the only evidence is
    the baseline.

    Args:
        events: the log, in the order of the file; events of other streams are skipped.
        muted: ids of rules, and of parts of rules, to leave out.
        identity: names the metric of a rule whose event does not.
    """
    standing: dict[str, _Past] = {}
    incidents: dict[int, Incident] = {}
    for event in events:
        if event.stream or event.step > step:
            continue
        if event.rule == RESTART_RULE:
            # An alert from a step that is repeated is not part of the displayed history any more.
            standing = {rule: past for rule, past in standing.items() if _since(past.event) < event.step}
        if event.state is EventState.FACT or event.is_of(muted):
            continue
        if event.state is EventState.RECOVERED:
            standing.pop(event.rule, None)
            continue
        known = standing.get(event.rule)
        if event.state is EventState.FIRING or known is None:
            known = _Past(event, event.level)
        is_settled = event.state is EventState.SETTLED or (known.is_settled and event.state is EventState.EASED)
        number = event.incident or known.incident
        standing[event.rule] = _Past(event, max(known.worst, event.level), is_settled, number)
        if event.incident and (number not in incidents or _since(event) < incidents[number].step):
            incidents[number] = Incident(number, event.rule, _since(event), event.part)
    return [_past_verdict(past, incidents, step, identity) for past in standing.values()]


class _Past(NamedTuple):
    event: Event
    worst: Level
    is_settled: bool = False
    incident: int = 0


def _since(event: Event) -> int:
    return event.step if event.since_step is None else event.since_step


def _past_verdict(past: _Past, incidents: Mapping[int, Incident], step: int, identity: Identity | None) -> Verdict:
    from rltop.rules import registry  # noqa: PLC0415 - imports all rules: not before the first frame
    from rltop.rules.advice import advise  # noqa: PLC0415 - likewise

    event = past.event
    spec = registry.NAMED.get(event.raised_by)
    metric, key = event.metric, event.key
    if not (metric or key) and spec is not None and identity is not None:
        metric, key = identity.subject(spec.metrics)
    # The headline quotes the numbers of its own step, which need not be the displayed one.
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
        evidence=() if event.baseline is None else (event.baseline,),
        baseline=None if event.baseline is None else event.baseline.value,
        worst=past.worst,
        incident=incidents.get(past.incident),
        part=event.part,
    )
    return advise(found)


def verdicts_of_stream(verdicts: Sequence[Verdict], role: str) -> list[Verdict]:
    """Verdicts of another stream of the run, labelled with its name."""
    return [one._replace(stream=role, headline=f"{role}: {one.headline}") for one in verdicts]


def worst_first(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
    return tuple(sorted(verdicts, key=lambda verdict: verdict.urgency))


def step_at_same_time(stream: Stream, step: int, other: Stream) -> int | None:
    """The step of another stream at the time a step of this one was written.

    Steps of two streams have different meanings, but their times are comparable.

    Returns:
        The newest step of `other` written by then, or its first one if none was; None (meaning the newest) if either
        stream has no times.
    """
    when = _time_of(stream, step)
    if when is None:
        return None
    steps, times = other.times()
    found = [at for at, time_s in zip(steps, times, strict=True) if time_s <= when]
    return found[-1] if found else other.first_step


def _time_of(stream: Stream, step: int) -> float | None:
    steps, times = stream.times()
    for i in range(bisect_right(steps, step) - 1, -1, -1):
        if not math.isnan(times[i]):
            return times[i]
    return None


class Calendar:
    """Maps events of other streams to steps of the run by time.

    Args:
        part: the stream of a given name, or `own` if there is none.
    """

    def __init__(self, own: Stream, part: Callable[[str], Stream]) -> None:
        self._stream = own
        self._part = part
        self._own: tuple[Sequence[float], Sequence[int]] | None = None
        self._others: dict[str, dict[int, float]] = {}

    def step_of(self, event: Event) -> int | None:
        """The newest step of the run at the time of the event; None if that time is unknown."""
        if self._own is None:
            steps, times = self._stream.times()
            # After a clock was set back, the times must still be increasing.
            self._own = list(accumulate((-math.inf if math.isnan(at) else at for at in times), max)), steps
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


class Alert(Struct):
    """One alert from the event log, active or over.

    Attributes:
        recovered_step: where it ended; None while it is active.
        settled_step: where its metric settled at another level, or None.
        stream: the stream of the run; "" is the main one.
        is_earlier: a restart went back to before its onset, so it belongs to an abandoned attempt.
        part: id of the part of the rule that reached this level; "" for the rule itself.
    """

    rule: str
    family: str
    level: Level
    since_step: int
    step: int
    recovered_step: int | None = None
    settled_step: int | None = None
    stream: str = ""
    is_earlier: bool = False
    is_muted: bool = False
    part: str = ""

    @property
    def raised_by(self) -> str:
        """Id of the part that reached its worst level, else of the rule."""
        return self.part or self.rule

    @property
    def is_active(self) -> bool:
        return not self.is_earlier and self.recovered_step is None

    @property
    def title(self) -> str:
        """The symptom in two or three words; for a rule that no longer exists, its family."""
        from rltop.rules.registry import NAMED  # noqa: PLC0415 - an alert implies imported rules

        spec = NAMED.get(self.raised_by)
        return self.family if spec is None else spec.title

    @property
    def rank(self) -> tuple[bool, int, int, str, int]:
        """Sort key: the current attempt first, then the worst level; among equals as verdicts are sorted."""
        return self.is_earlier, -self.level, explaining(self.level, self.family), self.stream, self.since_step


class History(Struct):
    """The alerts of a run.

    Attributes:
        alerts: WARN and CRIT in order of onset, including those of muted rules.
    """

    alerts: tuple[Alert, ...] = ()

    @property
    def muted(self) -> int:
        return sum(one.is_muted for one in self.alerts)

    @property
    def worst(self) -> Alert | None:
        return min((one for one in self.alerts if not one.is_muted), key=lambda one: one.rank, default=None)

    @property
    def level(self) -> Level:
        return max((one.level for one in self.alerts if not one.is_earlier and not one.is_muted), default=Level.OK)


def history_of(events: Sequence[Event], muted: Collection[str] = ()) -> History:
    found: list[Alert] = []
    standing: dict[tuple[str, str], int] = {}
    for event in events:
        if event.rule == RESTART_RULE:
            found = [_left_behind(one, event) for one in found]
        if event.state is EventState.FACT:
            continue
        whose = (event.rule, event.stream)
        number = standing.get(whose, -1)
        is_over = number < 0 or (found[number].recovered_step is not None and not _is_resumed(found[number], event))
        if event.state is EventState.RECOVERED:
            if not is_over:
                ended = event.step if event.fine_step is None else event.fine_step
                found[number] = replace(found[number], recovered_step=ended)
        elif is_over or event.state is EventState.FIRING:
            standing[whose] = len(found)
            began = Alert(event.rule, event.family, event.level, _since(event), event.step)
            found.append(replace(began, stream=event.stream, part=event.part))
        else:
            found[number] = _moved_on(found[number], event)
    alerts = (one for one in found if one.level >= Level.WARN)
    return History(
        tuple(replace(one, is_muted=True) if one.rule in muted or one.raised_by in muted else one for one in alerts)
    )


def _left_behind(alert: Alert, restart: Event) -> Alert:
    """The alert after a restart: one from a step that is repeated belongs to an earlier attempt."""
    if alert.is_earlier or alert.stream != restart.stream or alert.since_step < restart.step:
        return alert
    return replace(alert, is_earlier=True)


def _moved_on(alert: Alert, event: Event) -> Alert:
    if event.level > alert.level:
        # An INFO that becomes an alert gets a new onset.
        since = _since(event) if alert.level < Level.WARN else alert.since_step
        return replace(alert, level=event.level, step=event.step, since_step=since, part=event.part)
    if event.state is EventState.SETTLED:
        return replace(alert, settled_step=event.step)
    if not _is_resumed(alert, event):
        return alert
    now = replace(alert, since_step=_since(event), step=event.step, part=event.part)
    return replace(now, recovered_step=None, settled_step=None)


def _is_resumed(alert: Alert, event: Event) -> bool:
    """It has come back as bad as ever, or another part has taken over: from then on it is dated as its verdict is."""
    return event.state is EventState.RESUMED and event.level == alert.level
