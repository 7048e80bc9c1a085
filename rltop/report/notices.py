"""New alerts and events of a run that is watched without a screen.

Computes the difference between two polls: each alert is announced once when it is raised, when it escalates and when it
recovers, whether it was first seen in a closed row, in the open row, or during silence. Prints nothing and runs
nothing.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from rltop import units
from rltop.model import Event, EventState, Label, Level, Verdict, VerdictState
from rltop.run.run import Run

_Name = tuple[str, str]
"""(stream, rule)."""
_BEGINS = frozenset({EventState.FIRING, EventState.ESCALATED, EventState.RESUMED})


class NoticeKind(enum.StrEnum):
    RAISED = "raised"
    ESCALATED = "escalated"
    EASED = "eased"
    SETTLED = "settled"
    RECOVERED = "recovered"
    FACT = "fact"


@dataclass(frozen=True, slots=True)
class Notice:
    """One announcement.

    Attributes:
        kind: raised, escalated, eased, settled, recovered, or a fact; the first two are alarms.
        metric, key: canonical name and the trainer's key, or "".
        episode: number of the alert within this run, the same until it recovers; 0 for facts.
        stream: the stream of the run that counts its steps; "" for the main one.
        incident: number of the incident of an alarm; 0 for none.
        first_rule: the rule that started the incident, or "".
        advice: what to do, or "".
        part: id of the part of the rule that raised it, or "".
    """

    kind: NoticeKind
    rule: str
    title: str
    family: str
    level: Level
    step: int
    since_step: int
    metric: str
    key: str
    headline: str
    episode: int = 0
    stream: str = ""
    is_past: bool = False
    incident: int = 0
    first_rule: str = ""
    advice: str = ""
    part: str = ""


@dataclass(slots=True)
class _Episode:
    number: int
    level: Level
    title: str
    family: str
    since_step: int
    is_settled: bool = False


class Announcer:
    """Announces alerts and events of one run, each once.

    Nothing is announced before the history has been read. Then active alerts are announced as past ones; those that
    recovered within the history are not.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.past_events = 0
        self.worst = Level.NO_DATA
        self._announced: Counter[Hashable] = Counter()
        self.has_begun = False
        self._episodes: dict[_Name, _Episode] = {}
        self._count = 0
        self._is_reread = False

    def take_over(self, run: Run) -> None:
        """Switch to the same run after a reread, without announcing its past again."""
        self.run = run
        self._announced.clear()
        self._is_reread = self.has_begun

    def news(self) -> list[Notice]:
        """What has happened since the last call, in order.

        Rows that arrived together are announced by their events, so that an alert that began and recovered between two
        calls is not missed.
        """
        run = self.run
        if not run.has_caught_up:
            return []
        is_past = not self.has_begun
        events = self._new_events()
        if is_past:
            self.has_begun = True
            self.past_events = sum(event.state is not EventState.FACT for event in events)
            events = []
        elif self._is_reread:
            self._is_reread, events = False, []
        verdicts = {(verdict.stream, verdict.rule): verdict for verdict in run.verdicts}
        notices = [one for event in events for one in self._of_event(event, verdicts.get((event.stream, event.rule)))]
        firing = {name: verdict for name, verdict in verdicts.items() if verdict.is_active}
        # Until the trainer is known, several rows may be provisional: announce each alert at its own row.
        for event in [] if is_past else run.events:
            begun = firing.get((event.stream, event.rule)) if event.is_provisional else None
            if begun is not None and event.state in _BEGINS and not event.is_of(run.main.judging.muted):
                notices += self._of_event(event, begun)
        for verdict in firing.values():
            notices += self._begun(verdict, verdict.headline, is_past=is_past)
        for name in [name for name in self._episodes if name not in firing]:
            notices += self._over(name, self._newest_step())
        return notices

    def _new_events(self) -> list[Event]:
        # Provisional events of the newest row are announced through its verdicts.
        events = [event for event in self.run.events if not event.is_provisional]
        if len(events) == self._announced.total():
            return []
        # Compare by identity, not by position: an event with an earlier clock is sorted before ones already announced.
        told, self._announced = self._announced, Counter(_which(event) for event in events)
        new = []
        for event in events:
            if told[_which(event)]:
                told[_which(event)] -= 1
            elif not event.is_of(self.run.main.judging.muted):
                new.append(event)
        return new

    def _newest_step(self) -> int:
        return self.run.main.stream.last_step or 0

    def _of_event(self, event: Event, verdict: Verdict | None) -> Iterator[Notice]:
        message = f"{event.stream}: {event.message}" if event.stream else event.message
        if event.state is EventState.FACT:
            yield Notice(
                NoticeKind.FACT, event.rule, "", event.family, event.level, event.step, event.step, "", "", message,
                stream=event.stream, part=event.part,
            )  # fmt: skip
        elif event.state is EventState.RECOVERED:
            yield from self._over((event.stream, event.rule), event.step)
        elif event.state in _BEGINS:
            yield from self._begun(verdict or _verdict_of(event), message, event=event)
        else:
            yield from self._calmed(event, message)

    def _calmed(self, event: Event, message: str) -> Iterator[Notice]:
        episode = self._episodes.get((event.stream, event.rule))
        if episode is None:
            return
        kind = NoticeKind.EASED
        if event.state is EventState.SETTLED:
            kind, episode.is_settled = NoticeKind.SETTLED, True
        yield Notice(
            kind, event.rule, episode.title, event.family, event.level, event.step, episode.since_step, event.metric,
            event.key, message, episode.number, event.stream, part=event.part,
        )  # fmt: skip

    def _begun(
        self,
        verdict: Verdict,
        headline: str,
        *,
        event: Event | None = None,
        is_past: bool = False,
    ) -> Iterator[Notice]:
        level = verdict.level if event is None else event.level
        step = None if event is None else event.step
        name = (verdict.stream, verdict.rule)
        episode = self._episodes.get(name)
        is_raised = verdict.state is VerdictState.FIRING if event is None else event.state is EventState.FIRING
        if episode is not None and episode.is_settled and is_raised:
            episode = None  # the metric has left the level at which it had settled, which is a new alert
        if episode is not None and episode.level >= level:
            return
        kind = NoticeKind.RAISED if episode is None else NoticeKind.ESCALATED
        if episode is None:
            self._count += 1
            episode = _Episode(self._count, level, verdict.title, verdict.family, verdict.since_step)
            episode.is_settled = event is None and verdict.state is VerdictState.SETTLED
            self._episodes[name] = episode
        episode.level = level
        if not is_past:
            self.worst = max(self.worst, level)
        incident = verdict.incident
        if step is None:
            step = verdict.since_step if verdict.stream else self._newest_step()
        yield Notice(
            kind, verdict.rule, verdict.title, verdict.family, level, step, verdict.since_step, verdict.metric,
            verdict.key, headline, episode.number, verdict.stream, is_past,
            incident.number if incident is not None else 0 if event is None else event.incident,
            "" if incident is None else incident.rule,
            "" if verdict.advice is None or level < Level.WARN else verdict.advice.text,
            verdict.part if event is None else event.part,
        )  # fmt: skip

    def _over(self, name: _Name, step: int) -> Iterator[Notice]:
        episode = self._episodes.pop(name, None)
        if episode is not None:
            stream, rule = name
            yield Notice(
                NoticeKind.RECOVERED, rule, episode.title, episode.family, episode.level, step, episode.since_step,
                "", "", f"recovered; began at step {units.step(episode.since_step)}", episode.number, stream,
            )  # fmt: skip


def _which(event: Event) -> Hashable:
    return event.stream, event.rule, event.part, event.record, event.state, event.level


def _verdict_of(event: Event) -> Verdict:
    return Verdict(
        event.rule, "", event.family, "", event.level, VerdictState.RECOVERED, "", "",
        event.step if event.since_step is None else event.since_step, event.record, event.message, stream=event.stream,
        part=event.part,
    )  # fmt: skip


def notice_words(notice: Notice) -> str:
    """A notice as one line of text: level, rule, step, title and sentence."""
    level = notice.level.word.upper() if notice.kind is not NoticeKind.RECOVERED else "ok"
    if notice.kind is NoticeKind.FACT:
        level = "info"
    is_named = notice.headline.startswith(notice.title)
    what = notice.headline if is_named else f"{notice.title}: {notice.headline}"
    onset = f"since step {units.step(notice.since_step)}"
    is_said = notice.kind is NoticeKind.RECOVERED or notice.since_step >= notice.step or notice.headline.endswith(onset)
    since = "" if is_said else f", {onset}"
    past = " (before watching started)" if notice.is_past else ""
    past += f"; {notice.advice}" if notice.advice else ""
    return f"{level:<4}  {notice.rule:<4}  step {units.step(notice.step)}  {Label.of(what).display}{since}{past}"


def notice_document(notice: Notice) -> dict[str, Any]:
    return {
        "event": notice.kind.value,
        "rule": notice.rule,
        "part": notice.part or None,
        "title": notice.title or None,
        "family": notice.family,
        "level": notice.level.word,
        "step": notice.step,
        "since_step": notice.since_step,
        "metric": notice.metric or None,
        "key": notice.key or None,
        "headline": notice.headline,
        "stream": notice.stream or None,
        "is_past": notice.is_past,
        "incident": notice.incident or None,
        "first_rule": notice.first_rule or None,
        "advice": notice.advice or None,
    }
